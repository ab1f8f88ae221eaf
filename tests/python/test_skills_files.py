"""Windows on files and searches: exactly what they print."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

import agentskills
from agentskills import file_ops
from agentskills import find_file, goto_line, open_file, scroll_down, scroll_up
from agentskills import search_dir, search_file

PACKAGE = pathlib.Path(agentskills.__file__).parent


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch):
    monkeypatch.setattr(file_ops, "_file", None)
    monkeypatch.setattr(file_ops, "_line", 1)


@pytest.fixture
def said(capsys):
    """What a call prints; it returns nothing."""

    def run(function, *args, **kw):
        assert function(*args, **kw) is None
        return capsys.readouterr().out

    return run


@pytest.fixture
def long(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("".join(f"Line {n}\n" for n in range(1, 1001)))
    return path


def window(path, total, first, last, more=True):
    above = (
        f"({first - 1} more lines above)" if first > 1 else "(this is the beginning of the file)"
    )
    below = (
        f"({total - last} more lines below)" if last < total else "(this is the end of the file)"
    )
    lines = "".join(f"{n}|Line {n}\n" for n in range(first, last + 1))
    text = f"[File: {path} ({total} lines total)]\n{above}\n{lines}{below}\n"
    if more and last < total:
        text += "[Use `scroll_down` to view the next 100 lines of the file!]\n"
    return text


def test_open_small(said, tmp_path):
    path = tmp_path / "f"
    path.write_text("Line 1\nLine 2\nLine 3")
    assert said(open_file, str(path)) == window(path, 3, 1, 3)


def test_open_relative(said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_text("Line 1\n")
    assert said(open_file, "f") == window(tmp_path / "f", 1, 1, 1)


def test_open_empty(said, tmp_path):
    (tmp_path / "f").write_text("")
    assert said(open_file, str(tmp_path / "f")) == (
        f"[File: {tmp_path}/f (1 lines total)]\n"
        "(this is the beginning of the file)\n1|\n(this is the end of the file)\n"
    )


def test_open_missing(said, tmp_path):
    assert said(open_file, "/no/such") == "ERROR: File /no/such not found.\n"
    assert said(open_file, str(tmp_path)) == f"ERROR: File {tmp_path} not found.\n"
    os.mkfifo(tmp_path / "pipe")
    assert said(open_file, str(tmp_path / "pipe")) == f"ERROR: File {tmp_path}/pipe not found.\n"


@pytest.mark.parametrize("line", [0, -1, 1001, "x"])
def test_open_beyond(said, long, line):
    assert said(open_file, str(long), line) == "ERROR: Line number must be between 1 and 1000\n"


@pytest.mark.parametrize(
    "args, first, last",
    [
        ((), 1, 100),
        ((1, 1), 1, 1),
        ((1, 10), 1, 10),
        ((500,), 450, 550),
        ((500, 20), 490, 510),
        ((1000,), 901, 1000),
        ((1, None), 1, 100),
        ((1, 100000), 1, 100),
    ],
)
def test_open_window(said, long, args, first, last):
    assert said(open_file, str(long), *args) == window(long, 1000, first, last)


def test_goto(said, long):
    said(open_file, str(long))
    assert said(goto_line, 100) == window(long, 1000, 50, 150, more=False)
    assert said(goto_line, 1000) == window(long, 1000, 901, 1000, more=False)
    for wrong in (0, 1001):
        assert said(goto_line, wrong) == "ERROR: Line number must be between 1 and 1000.\n"


def test_scroll(said, long):
    said(open_file, str(long))
    assert said(scroll_down) == window(long, 1000, 101, 201, more=False)
    assert said(scroll_down) == window(long, 1000, 201, 301, more=False)
    assert said(scroll_up) == window(long, 1000, 101, 201, more=False)
    assert said(scroll_up) == window(long, 1000, 1, 100, more=False)
    assert said(scroll_up) == window(long, 1000, 1, 100, more=False)
    said(goto_line, 1000)
    assert said(scroll_down) == window(long, 1000, 901, 1000, more=False)


def test_nothing_open(said):
    error = "ERROR: No file open. Use the open_file function first.\n"
    assert said(goto_line, 1) == said(scroll_down) == said(scroll_up) == error
    assert said(search_file, "x") == (
        "ERROR: No file specified or open. Use the open_file function first.\n"
    )


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden", ".git/object"):
        (tmp_path / name).write_text("first\n  needle here  \nlast\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0needle\0")
    (tmp_path / "none.txt").write_text("nothing\n")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def test_search_dir(said, tree):
    files = ("a.txt", "b.txt", "sub/c.txt")
    lines = "".join(f"{tree}/{name} (Line 2): needle here\n" for name in files)
    assert said(search_dir, "needle here", str(tree)) == (
        f'[Found 3 matches for "needle here" in {tree}]\n{lines}'
        f'[End of matches for "needle here" in {tree}]\n'
    )


def test_search_dir_here(said, tree, monkeypatch):
    monkeypatch.chdir(tree)
    assert said(search_dir, "nothing") == (
        '[Found 1 matches for "nothing" in ./]\n./none.txt (Line 1): nothing\n'
        '[End of matches for "nothing" in ./]\n'
    )


def test_search_dir_without_match(said, tree):
    assert said(search_dir, "absent", str(tree)) == f'No matches found for "absent" in {tree}\n'
    assert said(search_dir, "x", "/no/such") == "ERROR: Directory /no/such not found\n"


def test_search_dir_with_too_many(said, tmp_path):
    for number in range(101):
        (tmp_path / f"f{number}").write_text("needle")
    assert said(search_dir, "needle", str(tmp_path)) == (
        f'More than 101 files matched for "needle" in {tmp_path}. Please narrow your search.\n'
    )


def test_search_file(said, tree):
    path = tree / "a.txt"
    found = (
        f'[Found 1 matches for "needle" in {path}]\nLine 2: needle here\n'
        f'[End of matches for "needle" in {path}]\n'
    )
    assert said(search_file, "needle", str(path)) == found
    said(open_file, str(path))
    assert said(search_file, "needle") == found
    assert said(search_file, "absent") == f'[No matches found for "absent" in {path}]\n'
    assert said(search_file, "x", "/no/such") == "ERROR: File /no/such not found.\n"


def test_find_file(said, tree):
    assert said(find_file, ".txt", str(tree)) == (
        f'[Found 4 matches for ".txt" in {tree}]\n{tree}/a.txt\n{tree}/b.txt\n{tree}/none.txt\n'
        f'{tree}/sub/c.txt\n[End of matches for ".txt" in {tree}]\n'
    )
    assert said(find_file, "absent", str(tree)) == f'[No matches found for "absent" in {tree}]\n'
    assert said(find_file, "x", "/no/such") == "ERROR: Directory /no/such not found\n"


def test_names():
    exported = {}
    exec("from agentskills import *", exported)
    exported.pop("__builtins__")
    assert set(exported) == set(agentskills.__all__) == {
        "open_file", "goto_line", "scroll_down", "scroll_up", "search_dir", "search_file",
        "find_file", "parse_pdf", "parse_docx", "parse_latex", "parse_pptx",
        "get_entity_contents", "search_code_snippets", "explore_tree_structure", "file_editor",
    }  # fmt: skip
    for name in exported:
        assert f"\n{name}(" in "\n" + agentskills.DOCUMENTATION


def test_runs_in_old_interpreters():
    """A sandbox's Python may be as old as 3.8."""
    for path in PACKAGE.glob("*.py"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))


def test_needs_only_the_standard_library():
    code = f"import sys; sys.path.append({str(PACKAGE.parent)!r}); from agentskills import *"
    isolated = [sys.executable, "-I", "-S", "-B", "-c", code]  # no site-packages
    subprocess.run(isolated, timeout=60, check=True)

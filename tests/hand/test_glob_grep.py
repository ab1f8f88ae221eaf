"""The search tools of a host: it composes commands with ripgrep, the hand runs them unharmed."""

import shlex

import pytest

from harness import needs

pytestmark = needs("rg")


def grep(pattern, path=None, include=None):
    command = f"rg -li {shlex.quote(pattern)} --sortr=modified"
    if include:
        command += f" --glob {shlex.quote(include)}"
    command += f" {shlex.quote(path) if path else '.'} | head -n 100"
    return f'echo "Below are the execution results of the search command: {command}\n"; {command}'


def glob(pattern, path=None):
    where = shlex.quote(path) if path else "."
    command = f"rg --files {where} -g {shlex.quote(pattern)} --sortr=modified | head -n 100"
    return f'echo "Below are the execution results of the glob command: {command}\n"; {command}'


SETUP = """
    mkdir -p test_dir "dir with spaces" nested/deep && \\
    echo 'A simple line' > test_dir/simple.txt && \\
    echo 'double "quoted" text' > test_dir/dquote.txt && \\
    echo "single 'quoted' text" > test_dir/squote.txt && \\
    echo 'cost is $100 && more' > test_dir/dollar.txt && \\
    echo 'back\\slash and | pipe' > test_dir/slash.txt && \\
    echo 'a > b # comment' > test_dir/redirect.txt && \\
    echo 'spaced' > "dir with spaces/file name.txt" && \\
    echo 'deep' > nested/deep/file1.py && \\
    echo 'deep' > nested/deep/file2.js
"""


@pytest.fixture
def tree(shell):
    obs = shell.run(SETUP)
    assert obs.exit == 0, obs
    return shell


def found(client, command):
    obs = client.run(command)
    assert obs.exit == 0, obs
    assert obs.content.startswith("Below are the execution results of the ")
    for trouble in ("syntax error", "command not found", "unexpected", "No such file"):
        assert trouble not in obs.content, obs
    return obs.content.split("\n\n", 1)[1].split() if "\n\n" in obs.content else []


@pytest.mark.parametrize(
    "pattern, name",
    [
        ("simple", "simple.txt"),
        ("SIMPLE LINE", "simple.txt"),
        ('"quoted"', "dquote.txt"),
        ("'quoted'", "squote.txt"),
        ("\\$100", "dollar.txt"),
        ("&& more", "dollar.txt"),
        ("back\\\\slash", "slash.txt"),
        ("\\| pipe", "slash.txt"),
        ("> b", "redirect.txt"),
        ("# comment", "redirect.txt"),
        ("a.*line$", "simple.txt"),
        ("(simple|nothing)", "simple.txt"),
    ],
)
def test_grep(tree, pattern, name):
    # a double quote in the pattern closes the echo's own: the heading may differ, the result may not
    obs = tree.run(grep(pattern, "test_dir"))
    assert obs.exit == 0, obs
    assert f"test_dir/{name}" in obs.content.splitlines()[-1], obs


def test_grep_default_path_and_include(tree):
    assert found(tree, grep("deep", include="*.py")) == ["./nested/deep/file1.py"]
    assert sorted(found(tree, grep("deep"))) == ["./nested/deep/file1.py", "./nested/deep/file2.js"]


def test_grep_path_with_spaces(tree):
    obs = tree.run(grep("spaced", "dir with spaces"))
    assert obs.exit == 0
    assert obs.content.endswith("dir with spaces/file name.txt")


def test_grep_without_result(tree):
    assert found(tree, grep("not to be found anywhere")) == []


@pytest.mark.parametrize(
    "pattern, names",
    [
        ("**/*.txt", 7),
        ("**/*.{py,js}", 2),
        ("nested/**/file[12].*", 2),
        ("**/file?.py", 1),
        ("*.nothing", 0),
        ("**/dir with spaces/*", 1),
        ("!**/*.txt", 2),
    ],
)
def test_glob(tree, pattern, names):
    obs = tree.run(glob(pattern))
    assert obs.exit == 0
    lines = (
        [line for line in obs.content.split("\n\n", 1)[1:] for line in line.splitlines()]
        if "\n\n" in obs.content
        else []
    )
    assert len(lines) == names, obs


def test_glob_path_with_spaces(tree):
    assert tree.run(glob("*.txt", "dir with spaces")).content.endswith(
        "dir with spaces/file name.txt"
    )


def test_newest_first(shell):
    import os

    for n in range(3):
        path = shell.dir / f"f{n}.txt"
        path.write_text("x\n")
        os.utime(path, (1_000_000 + n, 1_000_000 + n))
    assert found(shell, glob("*.txt")) == ["./f2.txt", "./f1.txt", "./f0.txt"]

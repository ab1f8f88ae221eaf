"""file_editor and the `edit` action are the same editor: same answers, same files afterwards.

Each case runs on two equal directories, once through the hand and once through Python."""

import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys

import pytest

import agentskills
import office_files as office
from agentskills import document
from agentskills.editor import Editor, EditorError, file_editor
from harness import Factory, needs_root
from rooms import room

MANY = "".join(f"line {n}\n" for n in range(1, 41))


def step(command, path="f", **args):
    return command, path, args


def replace(old, new=None, path="f"):
    return step("str_replace", path, old_str=old, new_str=new)


def insert(line, new, path="f"):
    return step("insert", path, insert_line=line, new_str=new)


def create(text, path="new"):
    return step("create", path, file_text=text)


UNDO = step("undo_edit")
VIEW = step("view")

# name: (files before, steps); a file is bytes or text, None a directory, ("link", target) a link
CASES = {
    "view": ({"f": "a\nb\n"}, [VIEW]),
    "view without newline at the end": ({"f": "a\nb"}, [VIEW]),
    "view of nothing": ({"f": ""}, [VIEW]),
    "view of a large file": ({"f": "x" * 20 + "\n" + "äöü\n" * 8000}, [VIEW]),
    "view ranges": (
        {"f": "1\n2\n3\n4\n"},
        [
            step("view", view_range=r)
            for r in ([1, 2], [2, 3], [3, -1], [4, 4], [3, 99], [0, 2], [5, 6], [-1, 2], [3, 2])
        ]
        + [step("view", view_range=r) for r in ([1], [1, 2, 3], ["a", 2])],
    ),
    "range in an empty file": ({"f": ""}, [step("view", view_range=[1, 1])]),
    "directory": (
        {
            "d/sub/deeper/deepest": None,
            "d/sub/.hidden": "",
            "d/sub/file": "",
            "d/.dot": "",
            "d/.dots": None,
            "d/Zed": "",
            "d/a b": "",
            "d/a\nb": "",
            "d/ä": "",
            "d/link": ("link", "sub"),
            "d/loop": ("link", "."),
            "d/gone": ("link", "nowhere"),
        },
        [step("view", "d"), step("view", "d/"), step("view", "d", view_range=[1, 2])],
    ),
    "directory too large to show": (
        {f"d/a{n:04d}-{'x' * (n % 50)}": "" for n in range(700)},
        [step("view", "d")],
    ),
    "empty directory": ({"d": None}, [step("view", "d")]),
    "create": ({}, [create("a\nb"), step("view", "new"), create("again")]),
    "create with parents": ({}, [create("", "x/y/z"), step("undo_edit", "x/y/z")]),
    "create without text": ({}, [step("create", "new")]),
    "create below a file": ({"f": ""}, [create("x", "f/below")]),
    "create through a link to nowhere": (
        {"l": ("link", "target")},
        [create("text\n", "l"), step("view", "target"), step("undo_edit", "l")],
    ),
    "replace": ({"f": MANY}, [replace("line 20\n", "new 20\nnew 20b\n"), UNDO, UNDO]),
    "replace near the ends": (
        {"f": MANY},
        [replace("line 1\n", "first\n"), replace("line 40\n", "last")],
    ),
    "replace by nothing": ({"f": "a\nb\nc\n"}, [replace("b\n"), replace("c\n", "")]),
    "replace everything": ({"f": "a"}, [replace("a", "")]),
    "replace what is not there": ({"f": "a\n"}, [replace("b", "c")]),
    "replace what is there twice": (
        {"f": "a\nb\na\na a\n"},
        [replace("a", "b"), replace("", "x"), replace("\n", "x")],
    ),
    "replace with itself": ({"f": "a\n"}, [replace("a", "a")]),
    "replace what is there but for spaces": (
        {"f": "  alpha beta\n"},
        [replace("\n alpha beta  \n", "\ngamma  "), replace("   ", "x")],
    ),
    "replace nothing in nothing": ({"f": ""}, [replace("", "x")]),
    "replace without old": ({"f": "a\n"}, [step("str_replace", new_str="x")]),
    "insert": (
        {"f": MANY},
        [insert(0, "top"), insert(20, "a\nb\n"), insert(43, "end"), insert(99, "x"), UNDO],
    ),
    "insert after an unfinished line": ({"f": "a\nb"}, [insert(2, "c"), insert(1, "x")]),
    "insert into nothing": ({"f": ""}, [insert(0, "a"), insert(2, "b"), insert(-1, "b")]),
    "insert numbers in words": (
        {"f": "a\n"},
        [insert("1", "b"), insert("one", "c"), insert(1.5, "c"), insert("", "c")],
    ),
    "insert without line or text": (
        {"f": "a\n"},
        [step("insert", new_str="x"), step("insert", insert_line=1)],
    ),
    "undo": (
        {"f": "0\n"},
        [replace(f"{n}\n", f"{n + 1}\n") for n in range(12)] + [UNDO] * 12,
    ),
    "undo of a create": (
        {},
        [create("a\n"), replace("a", "b", "new")] + [step("undo_edit", "new")] * 3,
    ),
    "undo without history": ({"f": "a\n"}, [UNDO]),
    "no such file": ({}, [VIEW, replace("a", "b"), insert(1, "x"), UNDO]),
    "directory edited": ({"f": None}, [replace("a", "b"), create("x", "f"), UNDO]),
    "unknown commands": ({"f": "a\n"}, [step("delete"), step(""), step("delete", "gone")]),
    "odd paths": ({"d/f": "a\n"}, [step("view", "d//./f"), step("view", "d/../d/f/")]),
    "mixed line endings": (
        {"f": b"a\r\nb\r\nc\nd\r"},
        [VIEW, replace("b\nc", "x\ny"), insert(1, "in\nserted"), replace("x\r\ny", "z"), UNDO],
    ),
    "old Mac": ({"f": b"a\rb\rc"}, [replace("b", "x\ny"), insert(3, "end")]),
    "CR in text for an LF file": ({"f": "a\nb\n"}, [replace("a", "x\r\ny"), VIEW]),
    "byte order mark": (
        {"f": b"\xef\xbb\xbfa\nb\n"},
        [VIEW, replace("a\n"), replace("b\n"), insert(0, "ü")],
    ),
    "UTF-16": (
        {"f": "\ufeffa\nü\U0001f600\n".encode("utf-16-le")},
        [VIEW, replace("ü", "€"), insert(0, "first"), UNDO],
    ),
    "UTF-16, the other way": ({"f": "\ufeffa\r\nb".encode("utf-16-be")}, [insert(2, "c")]),
    "broken UTF-16": (
        {"f": b"\xff\xfea", "g": b"\xff\xfea\0\0\xd8b\0", "h": b"\xff\xfe\0\xdc"},
        [VIEW, step("view", "g"), step("view", "h")],
    ),
    "Windows-1252": (
        {"f": b"caf\xe9 \x80\x81\n"},
        [VIEW, replace("é", "è"), replace("caf", "☃"), insert(1, "€")],
    ),
    "binary": (
        {"f": b"a\0b", "g.pyc": "text", "h": bytes(range(1, 256)), "i": b"\x1b[1mcolour\x1b[0m\n"},
        [VIEW, step("view", "g.pyc"), step("view", "h"), step("view", "i"), replace("a", "b")],
    ),
    "too large": ({"f": b"x" * ((10 << 20) + 1)}, [VIEW, replace("x", "y")]),
    "not a regular file": ({"f": ("fifo",)}, [VIEW]),
    "through a link": (
        {"target": "a\n", "f": ("link", "target")},
        [replace("a", "b"), VIEW, UNDO],
    ),
    "documents": (
        {
            "a.docx": office.docx(
                ("Title", "Report"), "Text &amp; more", ("Heading2", "Part"), ("list", "item"), "",
                [["a", "b|c"], ["1", ""]], "end",
            ),
            "a.pptx": office.pptx(["First", "one\ntwo"], ["Second", ""]),
            "a.xlsx": office.xlsx("Data", [["name", "n"], ["x", 1.5], [True, ("D3", 7)]]),
            "b.docx": office.packed({"other": ""}),
        },
        [step("view", name) for name in ("a.docx", "a.pptx", "a.xlsx", "b.docx")]
        + [replace("a", "b", "a.docx"), create("x", "c.PDF")],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def hand():
    factory = Factory()
    yield factory()
    factory.finish()


@pytest.fixture
def both(hand, monkeypatch):
    """Two equal places: one for the hand, one for Python."""
    number = len(list(hand.workspace.iterdir()))
    monkeypatch.chdir(hand.workspace)
    places = [hand.workspace / f"{who}{number:04d}" for who in "hp"]
    for place in places:
        place.mkdir()
    return places


def furnish(place, files):
    for name, what in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if what is None:
            path.mkdir(parents=True, exist_ok=True)
        elif what == ("fifo",):
            os.mkfifo(path)
        elif isinstance(what, tuple):
            path.symlink_to(what[1])
        else:
            path.write_bytes(what.encode() if isinstance(what, str) else what)


def census(place):
    """Everything in the place: mode, target of a link, bytes of a file."""
    found = {}
    for path in sorted(place.rglob("*")):
        mode = path.lstat().st_mode
        data = path.read_bytes() if stat.S_ISREG(mode) else None
        found[str(path.relative_to(place))] = (mode, data)
    return found


def ask_hand(client, command, path, args):
    if "view_range" in args:
        return client.read(path, impl_source="oh_aci", **args).content
    return client.edit(command, path, **args).content


def ask_python(editor, command, path, args):
    try:
        return editor(command, path, **args)[1]
    except EditorError as error:
        return f"ERROR:\n{error}"


def compare(hand, places, editor, command, path, args):
    answers = []
    for place in places:
        path_there = f"{place}/{path}" if path != "relative" else f"{place.name}/f"
        if place is places[0]:
            answer = ask_hand(hand.client, command, path_there, args)
        else:
            answer = ask_python(editor, command, path_there, args)
        answers.append(answer.replace(place.name, "PLACE"))
    assert answers[0] == answers[1], (command, path, args)
    assert census(places[0]) == census(places[1]), (command, path, args)
    return answers[0]


@pytest.mark.parametrize("name", CASES)
def test_same(hand, both, name):
    files, steps = CASES[name]
    editor = Editor()
    for place in both:
        furnish(place, files)
    for command, path, args in steps:
        compare(hand, both, editor, command, path, args)


def test_same_hint_for_relative_paths(hand, both):
    for place in both:
        furnish(place, {"f": "a\n"})
    answer = compare(hand, both, Editor(), "view", "relative", {})
    assert f"Maybe you meant {hand.workspace}/PLACE/f?" in answer


@pytest.mark.parametrize("seed", range(6))
def test_same_at_random(hand, both, seed):
    """Edits that nobody thought of, on texts with all kinds of line ends and characters."""
    chance = random.Random(seed)

    def text(most):
        alphabet = ["a", "b", "ab", " ", "\n", "\n", "ü", "\t", "\U0001f600"]
        if seed % 2:
            alphabet += ["\r\n", "\r"]
        return "".join(chance.choices(alphabet, k=chance.randrange(most)))

    editor = Editor()
    start = text(60)
    for place in both:
        furnish(place, {"f": start})
    for _ in range(40):
        command = chance.choice(["str_replace", "str_replace", "insert", "undo_edit", "view"])
        args = {}
        if command == "str_replace":
            now = (both[1] / "f").read_bytes().decode()
            at = chance.randrange(len(now) + 1)
            args = {"old_str": now[at : at + chance.randrange(1, 9)], "new_str": text(12)}
        elif command == "insert":
            args = {"insert_line": chance.randrange(8), "new_str": text(12)}
        elif command == "view" and chance.random() < 0.7:
            args = {"view_range": [chance.randrange(5), chance.randrange(-1, 7)]}
        compare(hand, both, editor, command, "f", args)


# --- what only the Python one has ---------------------------------------------------------------


def opened(answer):
    match = re.fullmatch(r"<(oh_aci_output_[0-9a-f]{32})>\n(.*)\n</\1>", answer, re.DOTALL)
    return json.loads(match[2])


KEYS = {
    "output", "error", "path", "prev_exist", "old_content", "new_content",
    "formatted_output_and_error",
}  # fmt: skip


def test_envelope(tmp_path):
    path = str(tmp_path / "f")
    made = opened(file_editor("create", path, file_text="a\n"))
    assert set(made) == KEYS
    assert made["output"] == made["formatted_output_and_error"]
    assert made["output"] == f"File created successfully at: {path}"
    assert (made["prev_exist"], made["old_content"], made["new_content"]) == (False, None, "a\n")
    edited = opened(file_editor(command="str_replace", path=path, old_str="a", new_str="ü"))
    assert (edited["prev_exist"], edited["old_content"], edited["new_content"]) == (
        True, "a\n", "ü\n",
    )  # fmt: skip
    assert (edited["path"], edited["error"]) == (path, None)
    wrong = opened(file_editor("view", str(tmp_path / "gone")))
    assert set(wrong) == KEYS and wrong["output"] is None
    assert wrong["formatted_output_and_error"] == "ERROR:\n" + wrong["error"]
    assert "does not exist" in wrong["error"]


def as_nobody(code):
    command = [sys.executable, "-c", "from agentskills import *\n" + code]
    env = {"PYTHONPATH": os.path.dirname(agentskills.__path__[0]), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, env=env, cwd="/", user=65534, group=65534, extra_groups=[],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, text=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def public():
    """A directory that every user can reach."""
    path = room("h")
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@needs_root()
def test_rights_of_the_user_count(public):
    top, secret = public, public / "secret"
    secret.mkdir(mode=0o700)
    (top / "readable").write_text("a\n")
    assert "Permission denied" in as_nobody(
        f"print(file_editor('create', '{secret}/f', file_text=''))"
    )
    assert "Permission denied" in as_nobody(f"print(file_editor('view', '{secret}/f'))")
    assert "Permission denied" in as_nobody(
        f"print(file_editor('create', '{top}/f', file_text=''))"
    )
    code = f"print(file_editor('str_replace', '{top}/readable', old_str='a', new_str='b'))"
    assert "Permission denied" in as_nobody(code)
    assert (top / "readable").read_text() == "a\n"
    assert sorted(p.name for p in top.iterdir()) == ["readable", "secret"]


@needs_root()
def test_file_of_somebody_else_keeps_its_owner(public):
    public.chmod(0o777)
    path = public / "f"
    path.write_text("a\n")
    path.chmod(0o666)
    answer = as_nobody(f"print(file_editor('str_replace', '{path}', old_str='a', new_str='b'))")
    assert "has been edited" in answer and path.read_text() == "b\n"
    assert path.stat().st_uid == 0 and stat.S_IMODE(path.stat().st_mode) == 0o666
    assert os.listdir(public) == ["f"]


def test_what_a_killed_edit_left_is_taken_over(tmp_path):
    """Whatever has the temporary name, the next edit works and leaves nothing."""
    path = tmp_path / "f"
    path.write_text("a\n")
    fd, temp = document._own_temporary(str(path))
    os.write(fd, b"half of")
    os.close(fd)
    assert "edited" in Editor()("str_replace", str(path), old_str="a", new_str="b")[1]
    assert os.listdir(tmp_path) == ["f"] and path.read_text() == "b\n"


def test_temporary_name_is_no_way_out(tmp_path):
    """A link planted under the temporary name is not followed."""
    path, victim = tmp_path / "f", tmp_path / "victim"
    path.write_text("a\n")
    victim.write_text("precious\n")
    fd, temp = document._own_temporary(str(path))
    os.close(fd)
    os.unlink(temp)
    os.symlink(victim, temp)
    answer = ask_python(Editor(), "str_replace", str(path), {"old_str": "a", "new_str": "b"})
    assert "Ran into" in answer or path.read_text() == "b\n"
    assert victim.read_text() == "precious\n"


def test_mode_and_attributes_are_kept(tmp_path):
    path = tmp_path / "f"
    path.write_text("a\n")
    path.chmod(0o751)
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pass  # a file system without them
    had = os.listxattr(path)
    Editor()("insert", str(path), insert_line=1, new_str="b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o751 and os.listxattr(path) == had


def test_history_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("agentskills.editor.HISTORY", 1000)
    editor = Editor()
    for number in range(12):
        path = tmp_path / f"f{number}"
        path.write_text("x" * 120 + "\n")
        editor("insert", str(path), insert_line=0, new_str="y")
    answers = [ask_python(editor, "undo_edit", f"{tmp_path}/f{number}", {}) for number in range(12)]
    assert ["undone" in answer for answer in answers] == [False] * 4 + [True] * 8

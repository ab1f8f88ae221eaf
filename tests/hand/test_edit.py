"""The editor commands: exact messages, numbering, snippets, diffs, undo; and what must be kept."""

import os
import stat

import pytest

from harness import memory_limit, needs_root

CLIP_TXT = (
    "<response clipped><NOTE>Due to the max output limit, only part of this file has been shown "
    "to you. You should retry this "
    "tool after you have searched inside the file with `grep -n` in order to find the line "
    "numbers of what you are looking "
    "for.</NOTE>"
)
CLIP_DIR = (
    "<response clipped><NOTE>Due to the max output limit, only part of this directory has been "
    "shown to you. You should use "
    "`ls -la` instead to view large directories incrementally.</NOTE>"
)
REVIEW = "Review the changes and make sure they are as expected. Edit the file again if necessary."
REVIEW_INSERT = (
    "Review the changes and make sure they are as expected (correct indentation, no duplicate "
    "lines, etc). Edit the file again "
    "if necessary."
)


def numbered(what, text, first=1):
    lines = "\n".join(f"{n:6d}\t{line}" for n, line in enumerate(text.split("\n"), first))
    return f"Here's the result of running `cat -n` on {what}:\n{lines}\n"


def invalid(param, value, hint):
    return f"ERROR:\nInvalid `{param}` parameter: {value}. {hint}"


@pytest.fixture
def put(ws):
    def write(text, name="test.txt"):
        path = ws / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def content(obs):
    assert obs.type == "edit"
    assert obs.extras["impl_source"] == "oh_aci"
    return obs.content


# --- view ---------------------------------------------------------------------------------------


def test_view_file(shared, put):
    path = put("This is a test file.\nThis file is for testing purposes.\n")
    obs = shared.edit("view", path)
    assert content(obs) == numbered(
        path, "This is a test file.\nThis file is for testing purposes.\n"
    )
    assert content(obs).endswith("\n     3\t\n")
    assert obs.path == str(path)
    assert obs.extras["diff"] == "" and obs.extras["prev_exist"] is False
    assert obs.extras["old_content"] is None and obs.extras["new_content"] is None


def test_view_without_trailing_newline(shared, put):
    path = put("a\nb")
    assert content(shared.edit("view", path)) == numbered(path, "a\nb")


def test_view_empty_file(shared, put):
    path = put("")
    assert content(shared.edit("view", path)) == numbered(path, "")


def test_view_through_read(shared, put):
    path = put("1\n2\n3\n4\n")
    obs = shared.read(path, impl_source="oh_aci", view_range=[2, 3])
    assert (obs.type, obs.extras["impl_source"], obs.path) == ("read", "oh_aci", str(path))
    assert obs.content == numbered(path, "2\n3", 2)
    obs = shared.read("/nonexistent/x", impl_source="oh_aci")
    assert obs.type == "read"
    assert obs.content == invalid(
        "path",
        "/nonexistent/x",
        "The path /nonexistent/x does not exist. Please provide a valid path.",
    )


@pytest.mark.parametrize(
    "view_range, expected",
    [
        ([1, 2], ("1\n2", 1)),
        ([2, 3], ("2\n3", 2)),
        ([3, -1], ("3\n4", 3)),
        ([4, 4], ("4", 4)),
        ([1, 4], ("1\n2\n3\n4", 1)),
    ],
)
def test_view_range(shared, put, view_range, expected):
    path = put("1\n2\n3\n4\n")
    obs = shared.read(path, impl_source="oh_aci", view_range=view_range)
    assert obs.content == numbered(path, *expected)


def test_view_range_beyond_the_end(shared, put):
    path = put("1\n2\n3\n4\n")
    obs = shared.read(path, impl_source="oh_aci", view_range=[3, 99])
    assert obs.content == (
        "NOTE: We only show up to 4 since there're only 4 lines in this file.\n"
        + numbered(path, "3\n4", 3)
    )


@pytest.mark.parametrize(
    "view_range, hint",
    [
        ([0, 2], "Its first element `0` should be within the range of lines of the file: [1, 4]."),
        ([5, 6], "Its first element `5` should be within the range of lines of the file: [1, 4]."),
        (
            [-1, 2],
            "Its first element `-1` should be within the range of lines of the file: [1, 4].",
        ),
        (
            [3, 2],
            "Its second element `2` should be greater than or equal to the first element `3`.",
        ),
        ([1], "It should be a list of two integers."),
        ([1, 2, 3], "It should be a list of two integers."),
    ],
)
def test_view_range_errors(shared, put, view_range, hint):
    path = put("1\n2\n3\n4\n")
    obs = shared.read(path, impl_source="oh_aci", view_range=view_range)
    assert obs.content == invalid("view_range", view_range, hint)


@pytest.mark.parametrize("command", ["view", "create", "str_replace"])
def test_view_range_is_not_for_edits(shared, put, command):
    """Ignoring it would answer with more than was asked for.  A view of some lines is a read."""
    path = put("a\nb\n")
    args = {"path": str(path), "command": command, "view_range": [1, 1], "file_text": "x", "old_str": "a"}
    reply = shared.post_action({"action": "edit", "args": args, "timeout": 5.0})
    assert reply.status == 500 and "view_range" in reply.detail and "read" in reply.detail
    assert path.read_text() == "a\nb\n"
    args = {"path": str(path), "command": "view", "view_range": None}
    assert shared.post_action({"action": "edit", "args": args, "timeout": 5.0}).status == 200


def test_view_directory(shared, ws):
    (ws / "sub/deeper/deepest").mkdir(parents=True)
    (ws / "sub/.hidden").write_text("")
    (ws / "sub/file").write_text("")
    (ws / "sub/deeper/too-deep").write_text("")
    (ws / ".dot").write_text("")
    (ws / ".downloads").mkdir()
    (ws / "Zed").write_text("")
    (ws / "a b").write_text("")
    obs = shared.edit("view", ws)
    listed = "\n".join(
        [f"{ws}/", f"{ws}/Zed", f"{ws}/a b", f"{ws}/sub/", f"{ws}/sub/deeper/", f"{ws}/sub/file"]
    )
    assert content(obs) == (
        f"Here's the files and directories up to 2 levels deep in {ws}, excluding hidden "
        f"items:\n{listed}\n\n"
        f"2 hidden files/directories in this directory are excluded. You can use 'ls -la {ws}' "
        "to see them."
    )


def test_view_directory_without_hidden(shared, ws):
    (ws / "f").write_text("")
    assert content(shared.edit("view", ws)) == (
        f"Here's the files and directories up to 2 levels deep in {ws}, excluding hidden "
        f"items:\n{ws}/\n{ws}/f"
    )


@pytest.mark.parametrize(
    "name", ["with space", "quote'", "$(touch pwned)", "semi;touch pwned", "`touch pwned`"]
)
def test_view_directory_with_odd_name(shared, ws, name):
    (ws / name).mkdir()
    (ws / name / "f").write_text("")
    assert content(shared.edit("view", ws / name)).endswith(f"{ws / name}/\n{ws / name}/f")
    assert not list(ws.rglob("pwned"))


def test_view_directory_range_error(shared, ws):
    obs = shared.read(ws, impl_source="oh_aci", view_range=[1, 2])
    assert obs.content == invalid(
        "view_range",
        [1, 2],
        "The `view_range` parameter is not allowed when `path` points to a directory.",
    )


def test_view_directory_with_link_cycle(shared, ws):
    (ws / "d").mkdir()
    (ws / "d" / "up").symlink_to(ws)
    (ws / "dangling").symlink_to("nowhere")
    assert content(shared.edit("view", ws)).startswith(
        "Here's the files and directories up to 2 levels deep"
    )


def test_view_large_directory_is_clipped(shared, ws):
    for n in range(800):
        (ws / f"a-rather-long-file-name-{n:04d}").write_text("")
    text = content(shared.edit("view", ws))
    assert text.endswith(CLIP_DIR) or CLIP_DIR in text
    head = (
        f"Here's the files and directories up to 2 levels deep in {ws}, excluding hidden items:\n"
    )
    assert text.startswith(head + f"{ws}/\n{ws}/a-rather-long-file-name-0000\n")
    assert len(text) < 16000 + len(head) + len(CLIP_DIR) + 200


def test_view_large_file_is_clipped(shared, put):
    text = "\n".join(f"Line {n}" for n in range(1, 16001))
    path = put(text)
    assert content(shared.edit("view", path)) == numbered(path, text[:16000] + CLIP_TXT)


def test_view_clips_code_points(shared, put):
    text = "é" * 16001
    path = put(text)
    assert content(shared.edit("view", path)) == numbered(path, "é" * 16000 + CLIP_TXT)
    path = put("é" * 16000)
    assert content(shared.edit("view", path)) == numbered(path, "é" * 16000)


# --- create -------------------------------------------------------------------------------------


def test_create(shared, ws):
    path = ws / "new.txt"
    obs = shared.edit("create", path, file_text="one\ntwo")
    assert content(obs) == f"File created successfully at: {path}"
    assert path.read_text() == "one\ntwo"
    assert obs.extras["diff"] == f"--- {path}\n+++ {path}\n@@ -1 +1,2 @@\n-\n+one\n+two"
    assert content(shared.edit("view", path)) == numbered(path, "one\ntwo")


def test_create_empty(shared, ws):
    path = ws / "empty.txt"
    assert (
        content(shared.edit("create", path, file_text=""))
        == f"File created successfully at: {path}"
    )
    assert path.read_bytes() == b""
    assert "1\t" in content(shared.edit("view", path))


def test_create_without_text(shared, ws):
    obs = shared.edit("create", ws / "none.txt", file_text=None)
    assert content(obs) == "ERROR:\nParameter `file_text` is required for command: create."
    assert not (ws / "none.txt").exists()


def test_create_existing(shared, put):
    path = put("old\n")
    assert content(shared.edit("create", path, file_text="new")) == invalid(
        "path",
        path,
        f"File already exists at: {path}. Cannot overwrite files using command `create`.",
    )
    assert path.read_text() == "old\n"


def test_create_has_umask_mode_and_owner(shared, ws):
    path = ws / "mine.txt"
    shared.edit("create", path, file_text="x")
    info = path.stat()
    assert info.st_mode & stat.S_IRUSR and not info.st_mode & 0o111
    assert info.st_uid == os.getuid()


def test_create_through_dangling_link_stays_sane(shared, ws):
    (ws / "link").symlink_to(ws / "target")
    obs = shared.edit("create", ws / "link", file_text="x")
    assert obs.type == "edit"


# --- str_replace --------------------------------------------------------------------------------


def test_str_replace(shared, put):
    path = put("This is a test file.\nThis file is for testing purposes.\n")
    obs = shared.edit("str_replace", path, old_str="test file", new_str="sample file")
    new = "This is a sample file.\nThis file is for testing purposes.\n"
    assert path.read_text() == new
    assert (
        content(obs)
        == f"The file {path} has been edited. " + numbered(f"a snippet of {path}", new) + REVIEW
    )
    assert (obs.extras["old_content"], obs.extras["new_content"]) == ("test file", "sample file")
    assert obs.extras["diff"] == (
        f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-This is a test file.\n+This is a sample file."
    )


def test_str_replace_multi_line(shared, put):
    path = put("This is a test file.\nThis file is for testing purposes.\n")
    obs = shared.edit(
        "str_replace",
        path,
        old_str="This is a test file.\nThis file is for testing purposes.",
        new_str="One\nTwo\nThree",
    )
    assert path.read_text() == "One\nTwo\nThree\n"
    assert content(obs) == (
        f"The file {path} has been edited. "
        + numbered(f"a snippet of {path}", "One\nTwo\nThree\n")
        + REVIEW
    )
    assert obs.extras["diff"] == (
        f"--- {path}\n+++ {path}\n@@ -1,2 +1,3 @@\n-This is a test file.\n-This file is for "
        "testing purposes.\n+One\n+Two\n+Three"
    )


def test_str_replace_with_tabs(shared, put):
    path = put('def test():\n\tprint("Hello, World!")')
    obs = shared.edit(
        "str_replace",
        path,
        old_str='def test():\n\tprint("Hello, World!")',
        new_str='def test():\n\tprint("Hello, Universe!")',
    )
    assert content(obs) == (
        f"The file {path} has been edited. Here's the result of running `cat -n` on a snippet of "
        f"{path}:\n"
        '     1\tdef test():\n     2\t\tprint("Hello, Universe!")\n'
        "Review the changes and make sure they are as expected. Edit the file again if necessary."
    )


def test_str_replace_snippet_window(shared, put):
    path = put("".join(f"line {n}\n" for n in range(1, 41)))
    obs = shared.edit("str_replace", path, old_str="line 20\n", new_str="twenty\nand a half\n")
    # four lines before and after the replaced one, plus the newlines the replacement brought
    shown = [
        "line 17",
        "line 18",
        "line 19",
        "twenty",
        "and a half",
        *[f"line {n}" for n in range(21, 26)],
        "",
    ]
    assert content(obs) == (
        f"The file {path} has been edited. "
        + numbered(f"a snippet of {path}", "\n".join(shown), 17)
        + REVIEW
    )


def test_str_replace_several(shared, put):
    path = put("This is a test file.\nThis file is for testing purposes.\n")
    obs = shared.edit("str_replace", path, old_str="This", new_str="That")
    assert content(obs) == (
        "ERROR:\nNo replacement was performed. Multiple occurrences of old_str `This` in lines "
        "[1, 2]. "
        "Please ensure it is unique."
    )
    assert obs.extras["diff"] == ""


def test_str_replace_several_multiline(shared, put):
    block = "This is a test file.\nThis file is for testing purposes.\n"
    path = put(block + "filler\nfiller\nfiller\nfiller\n" + block)
    obs = shared.edit("str_replace", path, old_str=block.rstrip("\n"), new_str="x")
    assert content(obs) == (
        f"ERROR:\nNo replacement was performed. Multiple occurrences of old_str "
        f"`{block.rstrip()}` in lines "
        "[1, 7]. Please ensure it is unique."
    )


def test_str_replace_same_line_twice_is_listed_once(shared, put):
    path = put("x x\n")
    assert "in lines [1]." in content(shared.edit("str_replace", path, old_str="x", new_str="y"))


def test_str_replace_missing_text(shared, put):
    path = put("Line 1\nLine 2")
    obs = shared.edit("str_replace", path, old_str="Non-existent Line", new_str="New Line")
    assert content(obs) == (
        f"ERROR:\nNo replacement was performed, old_str `Non-existent Line` did not appear "
        "verbatim in "
        f"{path}."
    )


def test_str_replace_retries_trimmed(shared, put):
    path = put("alpha\nbeta\n")
    obs = shared.edit("str_replace", path, old_str="  alpha  \n\n", new_str="  omega ")
    assert content(obs).startswith(f"The file {path} has been edited. ")
    assert path.read_text() == "omega\nbeta\n"


def test_str_replace_empty_new(shared, put):
    path = put("Line 1\nLine to remove\nLine 3")
    obs = shared.edit("str_replace", path, old_str="Line to remove\n", new_str="")
    assert content(obs).startswith(f"The file {path} has been edited")
    assert path.read_text() == "Line 1\nLine 3"
    path = put("ab")
    shared.edit("str_replace", path, old_str="a")
    assert path.read_text() == "b", "new_str null is an empty one"


def test_str_replace_empty_old(shared, put):
    path = put("Line 1\nLine 2\nLine 3\n")
    obs = shared.edit("str_replace", path, old_str="", new_str="New string")
    assert content(obs) == (
        "ERROR:\nNo replacement was performed. Multiple occurrences of old_str `` in lines [1, "
        "2, 3, 4]. "
        "Please ensure it is unique."
    )


def test_str_replace_null_old(shared, put):
    path = put("Line 1\n")
    obs = shared.edit("str_replace", path, old_str=None, new_str="x")
    assert content(obs) == "ERROR:\nParameter `old_str` is required for command: str_replace."


def test_str_replace_same(shared, put):
    path = put("Line 1\nLine 2")
    obs = shared.edit("str_replace", path, old_str="Line 1", new_str="Line 1")
    assert content(obs) == invalid(
        "new_str",
        "Line 1",
        "No replacement was performed. `new_str` and `old_str` must be different.",
    )


def test_str_replace_is_literal(shared, put):
    path = put("a.*b [x] \\d $1\n")
    shared.edit("str_replace", path, old_str="a.*b [x] \\d $1", new_str="\\1 $& \\n")
    assert path.read_text() == "\\1 $& \\n\n"


# --- insert -------------------------------------------------------------------------------------


def test_insert(shared, put):
    path = put("Line 1\nLine 2")
    obs = shared.edit("insert", path, insert_line=1, new_str="Inserted line")
    assert path.read_text() == "Line 1\nInserted line\nLine 2"
    assert content(obs) == (
        f"The file {path} has been edited. "
        + numbered("a snippet of the edited file", "Line 1\nInserted line\nLine 2")
        + REVIEW_INSERT
    )
    assert obs.extras["diff"] == f"--- {path}\n+++ {path}\n@@ -1,0 +2 @@\n+Inserted line"


@pytest.mark.parametrize(
    "line, expected", [(0, "new\na\nb\n"), (1, "a\nnew\nb\n"), (2, "a\nb\nnew\n")]
)
def test_insert_positions(shared, put, line, expected):
    path = put("a\nb\n")
    assert content(shared.edit("insert", path, insert_line=line, new_str="new")).startswith(
        f"The file {path} has been edited. "
    )
    assert path.read_text() == expected


def test_insert_after_last_line_without_newline(shared, put):
    path = put("a\nb")
    shared.edit("insert", path, insert_line=2, new_str="new")
    assert path.read_text() in (
        "a\nb\nnew\n",
        "a\nb\nnew",
    ), "the original glued it to the last line"


def test_insert_into_empty_file(shared, put):
    path = put("")
    shared.edit("insert", path, insert_line=0, new_str="first")
    assert path.read_text() == "first\n"


def test_insert_snippet_window(shared, put):
    path = put("".join(f"line {n}\n" for n in range(1, 41)))
    obs = shared.edit("insert", path, insert_line=20, new_str="x\ny")
    shown = (
        [f"line {n}" for n in range(17, 21)]
        + ["x", "y"]
        + [f"line {n}" for n in range(21, 25)]
        + [""]
    )
    assert content(obs) == (
        f"The file {path} has been edited. "
        + numbered("a snippet of the edited file", "\n".join(shown), 17)
        + REVIEW_INSERT
    )


@pytest.mark.parametrize("line", [-1, 3, 10])
def test_insert_invalid_line(shared, put, line):
    path = put("Line 1\nLine 2")
    assert content(shared.edit("insert", path, insert_line=line, new_str="x")) == invalid(
        "insert_line", line, "It should be within the range of allowed values: [0, 2]"
    )
    assert path.read_text() == "Line 1\nLine 2"


def test_insert_empty_string(shared, put):
    path = put("Line 1\nLine 2")
    obs = shared.edit("insert", path, insert_line=1, new_str="")
    assert path.read_text() == "Line 1\n\nLine 2"
    assert "     1\tLine 1\n     2\t\n     3\tLine 2\n" in content(obs)


def test_insert_missing_parameters(shared, put):
    path = put("Line 1\nLine 2")
    assert content(shared.edit("insert", path, insert_line=1, new_str=None)) == (
        "ERROR:\nParameter `new_str` is required for command: insert."
    )
    assert content(shared.edit("insert", path, new_str="x")) == (
        "ERROR:\nParameter `insert_line` is required for command: insert."
    )
    assert (
        content(shared.edit("insert", path))
        == "ERROR:\nParameter `insert_line` is required for command: insert."
    )


def test_insert_line_as_string(shared, put):
    path = put("".join(f"{n}\n" for n in range(1, 200)))
    shared.edit("insert", path, insert_line="185", new_str="here")
    assert path.read_text().split("\n")[185] == "here"
    obs = shared.edit("insert", path, insert_line="abc", new_str="here")
    assert content(obs) == "ERROR:\nInvalid insert_line value: 'abc'. Expected an integer."


# --- undo ---------------------------------------------------------------------------------------


def test_undo(shared, ws):
    path = ws / "u.txt"
    shared.edit("create", path, file_text="one\ntwo\n")
    shared.edit("str_replace", path, old_str="one", new_str="ONE")
    obs = shared.edit("undo_edit", path)
    assert content(obs) == f"Last edit to {path} undone successfully. " + numbered(
        path, "one\ntwo\n"
    )
    assert path.read_text() == "one\ntwo\n"
    assert obs.extras["diff"] == f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-ONE\n+one"


def test_undo_depth(shared, put):
    path = put("0\n")
    for n in range(12):
        shared.edit("str_replace", path, old_str=str(n), new_str=str(n + 1))
    for n in range(11, 1, -1):
        assert content(shared.edit("undo_edit", path)).startswith(
            f"Last edit to {path} undone successfully. "
        )
        assert path.read_text() == f"{n}\n"
    assert content(shared.edit("undo_edit", path)) == f"ERROR:\nNo edit history found for {path}."


def test_undo_insert(shared, put):
    path = put("a\nb\n")
    shared.edit("insert", path, insert_line=1, new_str="x")
    shared.edit("undo_edit", path)
    assert path.read_text() == "a\nb\n"


def test_undo_without_history(shared, ws):
    path = ws / "w.txt"
    shared.write(path, "text")
    assert content(shared.edit("undo_edit", path)) == f"ERROR:\nNo edit history found for {path}."


# --- validation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["view", "str_replace", "insert", "undo_edit"])
def test_missing_path(shared, command):
    obs = shared.edit(command, "/nonexistent/x.txt", old_str="a", new_str="b", insert_line=0)
    assert content(obs) == invalid(
        "path",
        "/nonexistent/x.txt",
        "The path /nonexistent/x.txt does not exist. Please provide a valid path.",
    )


def test_relative_path(shared, shared_hand):
    obs = shared.edit("view", "relative/x.txt")
    assert content(obs) == invalid(
        "path", "relative/x.txt", "The path should be an absolute path, starting with `/`."
    )
    (shared_hand.workspace / "there.txt").write_text("x")
    obs = shared.edit("view", "there.txt")
    assert content(obs) == invalid(
        "path",
        "there.txt",
        "The path should be an absolute path, starting with `/`. Maybe you meant "
        f"{shared_hand.workspace}/there.txt?",
    )


@pytest.mark.parametrize("command", ["str_replace", "insert", "undo_edit"])
def test_directory_with_other_commands(shared, ws, command):
    obs = shared.edit(command, ws, old_str="a", new_str="b", insert_line=0)
    assert content(obs) == invalid(
        "path",
        ws,
        f"The path {ws} is a directory and only the `view` command can be used on directories.",
    )


@pytest.mark.parametrize(
    "ext", [".docx", ".xlsx", ".pptx", ".pdf", ".mp3", ".wav", ".m4a", ".flac"]
)
def test_supported_binary_with_other_commands(shared, put, ext):
    path = put(b"\0\1\2", f"f{ext}")
    obs = shared.edit("str_replace", path, old_str="a", new_str="b")
    assert content(obs) == invalid(
        "path",
        path,
        f"The path {path} points to a binary file ({ext}) and only the `view` command can "
        "be used on supported binary files.",
    )


def test_binary_file(shared, put):
    path = put(bytes(range(256)) * 8, "blob.bin")
    for command in ("view", "str_replace"):
        assert content(shared.edit(command, path, old_str="a", new_str="b")) == (
            f"ERROR:\nFile validation failed for {path}: File appears to be binary and this file "
            "type cannot be read or edited by "
            "this tool."
        )


def test_too_large_file(shared, put):
    path = put(b"x" * (10 * 1024 * 1024 + 600 * 1024), "big.txt")
    assert content(shared.edit("view", path)) == (
        f"ERROR:\nFile validation failed for {path}: File is too large (10.6MB). Maximum allowed "
        "size is 10MB."
    )
    path.unlink()


def test_unknown_command(shared, put):
    path = put("x")
    assert content(shared.edit("explode", path)) == (
        "ERROR:\nUnrecognized command explode. The allowed commands for the oh_editor tool are: "
        "view, create, str_replace, insert, "
        "undo_edit"
    )


# --- what must not get lost ---------------------------------------------------------------------


EDITS = [
    ("str_replace", dict(old_str="two", new_str="TWO")),
    ("insert", dict(insert_line=1, new_str="x")),
]


@pytest.mark.parametrize("command, args", EDITS, ids=["str_replace", "insert"])
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664, 0o400])
def test_mode_is_kept(shared, put, command, args, mode):
    path = put("one\ntwo\n")
    path.chmod(mode)
    obs = shared.edit(command, path, **args)
    assert "has been edited" in obs.content or mode == 0o400 and os.getuid() != 0
    assert stat.S_IMODE(path.stat().st_mode) == mode
    shared.edit("undo_edit", path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@needs_root()
@pytest.mark.parametrize("command, args", EDITS, ids=["str_replace", "insert"])
def test_owner_is_kept(shared, put, command, args):
    path = put("one\ntwo\n")
    os.chown(path, 12345, 54321)
    shared.edit(command, path, **args)
    shared.edit("undo_edit", path)
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


@pytest.mark.parametrize("command, args", EDITS, ids=["str_replace", "insert"])
def test_line_endings_are_kept(shared, put, command, args):
    path = put("one\r\ntwo\r\nthree\r\n")
    shared.edit(command, path, **args)
    after = path.read_bytes()
    assert b"one\r\n" in after and after.endswith(b"three\r\n")
    shared.edit("undo_edit", path)
    assert path.read_bytes() == b"one\r\ntwo\r\nthree\r\n"


@pytest.mark.parametrize("command, args", EDITS, ids=["str_replace", "insert"])
def test_symlink_is_followed_not_replaced(shared, put, ws, command, args):
    path = put("one\ntwo\n")
    link = ws / "link.txt"
    link.symlink_to("test.txt")
    shared.edit(command, link, **args)
    assert link.is_symlink() and path.read_text() != "one\ntwo\n"


def test_no_temporary_file_is_left(shared, put, ws):
    path = put("one\ntwo\n")
    shared.edit("str_replace", path, old_str="one", new_str="1")
    shared.edit("insert", path, insert_line=0, new_str="0")
    shared.edit("undo_edit", path)
    assert os.listdir(ws) == ["test.txt"]


def test_other_encodings_survive_or_are_refused(shared, put):
    text = "naïve café\nzwei Übel\n".encode("latin-1")
    path = put(text)
    obs = shared.edit("str_replace", path, old_str="zwei", new_str="two")
    if obs.content.startswith("ERROR:"):
        assert path.read_bytes() == text
    else:
        assert path.read_bytes() == text.replace(b"zwei", b"two")


def test_unicode_text(shared, put):
    path = put("grüße 漢字 😀\n")
    obs = shared.edit("str_replace", path, old_str="漢字", new_str="かな")
    assert path.read_text() == "grüße かな 😀\n"
    assert "grüße かな 😀" in obs.content


@needs_root()
def test_new_files_belong_to_the_sandbox_user(start):
    hand = start(
        username="nobody", user_id=65534, env={"RUNTIME_USERNAME": "nobody", "SU_TO_USER": "true"}
    )
    path = hand.workspace / "n.txt"
    assert (
        hand.client.edit("create", path, file_text="x").content
        == f"File created successfully at: {path}"
    )
    assert path.stat().st_uid == 65534


def test_many_edits_do_not_grow_the_server(start):
    hand = start()
    path = hand.workspace / "grow.txt"
    hand.client.edit("create", path, file_text="counter 0\n" + "filler line\n" * 2000)
    edit = lambda n: hand.client.edit(
        "str_replace", path, old_str=f"counter {n}\n", new_str=f"counter {n + 1}\n"
    )
    for n in range(30):
        edit(n)
    before = hand.status("VmRSS")
    for n in range(30, 150):
        assert "has been edited" in edit(n).content
    assert hand.status("VmRSS") - before < memory_limit(8 * 1024)
    assert path.read_text().startswith("counter 150\n")

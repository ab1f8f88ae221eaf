"""read, write and list_files."""

import base64
import os
import stat

import pytest

from harness import needs_root

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)


# --- read ---------------------------------------------------------------------------------------


def test_read(shared, ws):
    path = ws / "a.txt"
    path.write_text("one\ntwo\n")
    obs = shared.read(path)
    assert (obs.type, obs.content, obs.path, obs.extras["impl_source"]) == (
        "read",
        "one\ntwo\n",
        str(path),
        "default",
    )


def test_read_relative_to_the_shell(shared, ws):
    (ws / "here.txt").write_text("found\n")
    shared.ok(f"cd {ws}")
    obs = shared.read("here.txt")
    assert (obs.content, obs.path) == ("found\n", str(ws / "here.txt"))


def test_read_missing(shared, shared_hand):
    obs = shared.read("/nonexistent/file.txt")
    assert obs.type == "error"
    assert obs.content == (
        f"File not found: /nonexistent/file.txt. Your current working directory is "
        f"{shared_hand.workspace}."
    )


def test_read_directory(shared, ws):
    obs = shared.read(ws)
    assert (obs.type, obs.content) == (
        "error",
        f"Path is a directory: {ws}. You can only read files",
    )


@pytest.mark.parametrize(
    "start, end, expected",
    [
        (0, -1, "0\n1\n2\n3\n4\n"),
        (2, -1, "2\n3\n4\n"),
        (99, -1, ""),
        (-5, -1, "0\n1\n2\n3\n4\n"),
        (1, 3, "1\n2\n"),
        (0, 99, "0\n1\n2\n3\n4\n"),
        (2, 2, "2\n"),
        (4, 5, "3\n4\n"),
        (3, 1, "3\n"),
        (99, 99, "3\n4\n"),
        (0, 0, "0\n"),
        (0, -2, "0\n"),
    ],
)
def test_read_slice(shared, ws, start, end, expected):
    path = ws / "lines.txt"
    path.write_text("0\n1\n2\n3\n4\n")
    assert shared.read(path, start=start, end=end).content == expected


def test_read_crlf_as_lf(shared, ws):
    (ws / "dos.txt").write_bytes(b"a\r\nb\rc\r\n")
    assert shared.read(ws / "dos.txt").content == "a\nb\nc\n"


def test_read_empty(shared, ws):
    (ws / "empty").write_bytes(b"")
    assert shared.read(ws / "empty").content == ""


def test_read_binary(shared, ws):
    (ws / "blob").write_bytes(bytes(range(256)) * 8)
    (ws / "mod.pyc").write_text("text in disguise")
    for name in ("blob", "mod.pyc"):
        obs = shared.read(ws / name)
        assert (obs.type, obs.content) == ("error", "ERROR_BINARY_FILE")


def test_read_binary_check_is_on_the_resolved_path(shared, ws):
    (ws / "blob").write_bytes(bytes(range(256)) * 8)
    shared.ok(f"cd {ws}")
    assert shared.read("blob").content == "ERROR_BINARY_FILE"


def test_read_invalid_utf8(shared, ws):
    path = ws / "latin.txt"
    path.write_bytes(
        "A long sentence with one letter of its own: \xfc and then plain text.\n".encode("latin-1")
    )
    obs = shared.read(path)
    assert obs.type == "error"
    assert obs.content == f"File could not be decoded as utf-8: {path}."


@pytest.mark.parametrize(
    "name, mime",
    [
        ("p.png", "image/png"),
        ("p.JPG", "image/jpeg"),
        ("p.jpeg", "image/jpeg"),
        ("p.gif", "image/gif"),
        ("p.bmp", "image/"),
        ("p.pdf", "application/pdf"),
        ("p.mp4", "video/mp4"),
        ("p.webm", "video/webm"),
        ("p.ogg", "/ogg"),
    ],
)
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_read_media_as_data_url(shared, ws, name, mime, relative):
    (ws / name).write_bytes(PNG)
    shared.ok(f"cd {ws}")
    obs = shared.read(name if relative else ws / name)
    assert obs.type == "read"
    head, data = obs.content.split(";base64,")
    assert head.startswith("data:") and mime in head
    assert base64.b64decode(data, validate=True) == PNG


def test_read_unreadable(shared, ws):
    reply = shared.post_action({"action": "read", "args": {"path": f"{ws}/x\0y"}}, timeout=10)
    assert reply.status == 500 and "NUL" in reply.detail or reply.json["observation"] == "error"
    obs = shared.read(ws / ("n" * 300))
    assert obs.type == "error"


@pytest.mark.parametrize("kind", ["fifo", "socket", "/dev/zero"])
def test_read_of_something_else_does_not_hang(shared, ws, kind):
    path = ws / "odd"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(path))
    else:
        path = kind
    assert shared.act("read", {"path": str(path)}, timeout=5.0).type == "error"


# --- write --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, stored",
    [("a", "a\n"), ("", "\n"), ("a\n", "a\n\n"), ("a\nb", "a\nb\n"), ("é漢😀", "é漢😀\n")],
)
def test_write_new(shared, ws, content, stored):
    path = ws / "new.txt"
    obs = shared.write(path, content)
    assert (obs.type, obs.content, obs.path) == ("write", "", str(path))
    assert path.read_text() == stored
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    shared.write(path, content + "2")
    assert path.read_text() == content + "2\n"
    assert shared.read(path).content == content + "2\n"


def test_write_relative_to_the_shell(shared, ws):
    shared.ok(f"cd {ws}")
    assert shared.write("rel.txt", "x").path == str(ws / "rel.txt")
    assert (ws / "rel.txt").read_text() == "x\n"


def test_write_creates_parents(shared, ws):
    shared.write(ws / "a/b/c.txt", "x")
    assert (ws / "a/b/c.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    "start, end, expected",
    [
        (0, -1, "N\n"),
        (2, -1, "0\n1\nN\n"),
        (1, 2, "0\nN\n2\n3\n"),
        (0, 2, "N\n2\n3\n"),
        (4, 4, "0\n1\n2\n3\nN\n"),
        (1, 1, "0\nN\n1\n2\n3\n"),
    ],
)
def test_write_range(shared, ws, start, end, expected):
    path = ws / "r.txt"
    path.write_text("0\n1\n2\n3\n")
    shared.write(path, "N", start=start, end=end)
    assert path.read_text() == expected


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o444])
def test_write_keeps_mode(shared, ws, mode):
    path = ws / "m.sh"
    path.write_text("old\n")
    path.chmod(mode)
    shared.write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@needs_root()
def test_write_keeps_owner(shared, ws):
    path = ws / "o.txt"
    path.write_text("old\n")
    os.chown(path, 12345, 54321)
    shared.write(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


def test_write_follows_links(shared, ws):
    (ws / "real").write_text("old\n")
    (ws / "link").symlink_to("real")
    shared.write(ws / "link", "new")
    assert (ws / "link").is_symlink() and (ws / "real").read_text() == "new\n"


def test_write_to_directory(shared, ws):
    obs = shared.write(ws, "x")
    assert (obs.type, obs.content) == (
        "error",
        f"Path is a directory: {ws}. You can only write to files",
    )


def test_write_range_of_invalid_utf8(shared, ws):
    path = ws / "latin.txt"
    path.write_bytes(b"caf\xe9 au lait\n" * 3)
    obs = shared.write(path, "x", start=1, end=2)
    assert (obs.type, obs.content) == ("error", f"File could not be decoded as utf-8: {path}")
    assert path.read_bytes() == b"caf\xe9 au lait\n" * 3


@needs_root()
def test_written_files_belong_to_the_sandbox_user(start):
    hand = start(
        username="nobody", user_id=65534, env={"RUNTIME_USERNAME": "nobody", "SU_TO_USER": "true"}
    )
    hand.client.write(hand.workspace / "d/e/f.txt", "x")
    for path in ("d", "d/e", "d/e/f.txt"):
        assert (hand.workspace / path).stat().st_uid == 65534, path


def test_write_where_nothing_can_be_written(shared):
    obs = shared.write("/proc/nope/x", "x")
    assert obs.type == "error" and obs.content


def test_write_to_a_full_disk_keeps_the_old_file(shared, ws):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    (ws / "full").symlink_to("/dev/full")
    obs = shared.write(ws / "full", "x")
    assert obs.type == "error" and obs.content
    assert os.path.exists("/dev/full")


def test_large_file_round_trip(shared, ws):
    text = "".join(f"line {n} with some text\n" for n in range(100_000))
    shared.write(ws / "big.txt", text.rstrip("\n"))
    assert (ws / "big.txt").read_text() == text
    assert shared.read(ws / "big.txt").content == text


def test_writing_leaves_no_temporary_file(shared, ws):
    for n in range(5):
        shared.write(ws / "f", str(n))
    assert os.listdir(ws) == ["f"]


# --- list_files ---------------------------------------------------------------------------------


def test_list_files(shared, ws):
    for name in ("b.txt", "A.txt", ".hidden", "é"):
        (ws / name).write_text("")
    for name in ("zdir", "Bdir", ".git"):
        (ws / name).mkdir()
    (ws / "dangling").symlink_to("nowhere")
    (ws / "linkdir").symlink_to("zdir")
    assert shared.list_files(ws) == [
        ".git/",
        "Bdir/",
        "linkdir/",
        "zdir/",
        ".hidden",
        "A.txt",
        "b.txt",
        "é",
    ]


def test_list_files_default_and_relative(hand):
    (hand.workspace / "sub").mkdir()
    (hand.workspace / "sub/inner").write_text("")
    hand.client.ok("cd /usr")
    assert hand.client.list_files() == ["sub/"], "the initial directory, wherever the shell is"
    assert hand.client.post("/list_files", {"path": None}).json == ["sub/"]
    assert hand.client.list_files("sub") == ["inner"]
    assert hand.client.list_files("./sub/../sub") == ["inner"]


def test_list_files_of_nothing(shared, ws):
    (ws / "file").write_text("")
    for path in ("/nonexistent", ws / "file", "", "a\0b"):
        reply = shared.post("/list_files", {"path": str(path)})
        assert reply.status == 200
        if path != "":
            assert reply.json == []


@pytest.mark.parametrize("body", [b"", b"not json", b"\xff\xfe", b"{"])
def test_list_files_without_json(shared, body):
    reply = shared.request("POST", "/list_files", body, {"Content-Type": "application/json"})
    assert reply.status >= 400 and "detail" in reply.json


def test_list_files_with_names_that_are_not_utf8(shared, ws):
    os.mkdir(os.fsencode(ws) + b"/bad\xffname")
    (ws / "good").write_text("")
    reply = shared.post("/list_files", {"path": str(ws)})
    assert reply.status == 200 and "good" in reply.json

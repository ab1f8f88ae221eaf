"""tendon cp: both ways, whole trees, streams."""

import hashlib
import json
import os
import pathlib
import socket
import stat

import pytest


@pytest.fixture
def web(any_tendon):
    any_tendon.ok("new", "--name", "web")
    any_tendon.inside = any_tendon.ok("exec", "--session", "main", "web", "pwd").strip()
    return any_tendon


@pytest.fixture
def tree(tmp_path):
    """Files of all kinds that can be copied."""
    top = tmp_path / "tree"
    (top / "empty").mkdir(parents=True)
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "sub" / "deep" / "file").write_bytes(bytes(range(256)) * 500)
    (top / "none").write_bytes(b"")
    (top / "tool").write_text("#!/bin/sh\n")
    (top / "tool").chmod(0o755)
    (top / "secret").write_text("x")
    (top / "secret").chmod(0o600)
    (top / "link").symlink_to("sub/deep/file")
    (top / "dangling").symlink_to("/no/such/thing")
    (top / "name with ' \" $ ü\nand a line").write_text("odd")
    (top.joinpath(os.fsdecode(b"no-\xff-utf8"))).write_text("bytes")
    (top / "locked").mkdir()
    (top / "locked" / "inside").write_text("x")
    (top / "locked").chmod(0o555)
    yield top
    (top / "locked").chmod(0o755)


def census(top):
    """What is in a tree: names, kinds, permissions, contents."""
    found = {}
    for path in sorted(pathlib.Path(top).rglob("*")):
        st = path.lstat()
        name = os.fsencode(path.relative_to(top))
        if stat.S_ISLNK(st.st_mode):
            found[name] = ("link", os.readlink(path))
        elif stat.S_ISDIR(st.st_mode):
            found[name] = ("directory", stat.S_IMODE(st.st_mode))
        else:
            found[name] = ("file", stat.S_IMODE(st.st_mode), hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def test_a_tree_there_and_back(web, tree, tmp_path):
    web.ok("cp", str(tree), "web:there")
    web.ok("cp", "web:there", str(tmp_path / "back"))
    assert census(tmp_path / "back") == census(tree)
    (tmp_path / "back" / "locked").chmod(0o755)


def test_into_a_directory_under_its_own_name(web, tree, tmp_path):
    web.ok("exec", "--session", "main", "web", "mkdir in")
    web.ok("cp", str(tree / "tool"), str(tree / "sub"), "web:in")
    assert web.ok("exec", "web", f"cd {web.inside}/in && ls -1 && stat -c %a tool && wc -c <sub/deep/file") == "sub\ntool\n755\n128000\n"
    here = tmp_path / "here"
    here.mkdir()
    web.ok("cp", "web:in/tool", f"web:{web.inside}/in/sub", str(here) + "/")
    assert sorted(path.name for path in here.iterdir()) == ["sub", "tool"]


def test_under_another_name(web, tree, tmp_path):
    web.ok("cp", str(tree / "tool"), "web:other")
    web.ok("cp", "web:other", str(tmp_path / "third"))
    assert (tmp_path / "third").read_text() == "#!/bin/sh\n"
    assert stat.S_IMODE((tmp_path / "third").stat().st_mode) == 0o755


def test_over_what_is_there(web, tmp_path):
    for text in ("first, and longer", "second"):
        (tmp_path / "file").write_text(text)
        web.ok("cp", str(tmp_path / "file"), "web:file")
        web.ok("cp", "web:file", str(tmp_path / "copy"))
        assert (tmp_path / "copy").read_text() == text


def test_streams(web):
    data = bytes(range(256)) * 4000
    result = web("cp", "-", "web:stream", stdin=data)
    assert (result.returncode, result.stderr) == (0, b"")
    result = web("cp", "web:stream", "-", stdin=b"")
    assert result.stdout == data


def test_a_large_file_streams(web, tmp_path):
    """100 MB that nobody ever holds in memory."""
    with open(tmp_path / "large", "wb") as file:
        file.truncate(100 << 20)
        file.seek(50 << 20)
        file.write(b"in the middle")
    web.ok("cp", str(tmp_path / "large"), "web:large", timeout=120)
    web.ok("cp", "web:large", str(tmp_path / "back"), timeout=120)
    assert hashlib.sha256((tmp_path / "back").read_bytes()).digest() == hashlib.sha256(
        (tmp_path / "large").read_bytes()
    ).digest()
    web.ok("exec", "web", f"rm {web.inside}/large")


def test_other_kinds_are_skipped_and_told(web, tmp_path):
    top = tmp_path / "odd"
    top.mkdir()
    (top / "file").write_text("x")
    os.mkfifo(top / "fifo")
    result = web("cp", str(top), "web:odd")
    assert (result.returncode, result.stdout) == (0, "")
    assert "1 files were skipped" in result.stderr
    assert web.json("cp", "web:odd", str(tmp_path / "back")) == {"files": 1, "bytes": 1, "skipped": 0}


def put_socket(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))


THERE = {"fifo": os.mkfifo, "socket": put_socket, "loop": lambda path: path.symlink_to("loop")}


def test_over_other_kinds_of_files(web, tmp_path):
    """Each at the destination, here and inside: nobody waits for one, and what is refused names it."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("x")
    web.ok("cp", str(tmp_path / "file"), str(tmp_path / "tree"), "web:.")
    web.ok("exec", "web", f"cd {web.inside} && mkfifo fifo && ln fifo hard && ln -s loop loop")
    for name, put in THERE.items():
        for source in ("file", "tree"):
            here = tmp_path / f"{name}-{source}"
            put(here) if name != "loop" else here.symlink_to(here)
            back = web("cp", f"web:{source}", str(here), timeout=60)
            if back.returncode == 0:
                assert (here if source == "file" else here / "file").read_text() == "x"
            else:
                assert here.name in back.stderr, (name, source, back.stderr)
    for name in ("fifo", "hard", "loop"):
        for source in ("file", "tree"):
            there = web("cp", str(tmp_path / source), f"web:{name}", timeout=60)
            assert there.returncode == 0 or name in there.stderr, (name, source, there.stderr)
    # And as what is copied.
    os.mkfifo(tmp_path / "fifo")
    for pair in (("web:fifo", "out"), ("web:/dev/zero", "out"), ("fifo", "web:out")):
        result = web("cp", *(str(tmp_path / one) if ":" not in one else one for one in pair), timeout=60)
        assert result.returncode != 0 and "is neither a file, a directory nor a link" in result.stderr, (pair, result)
    assert not (tmp_path / "out").exists() and web("exec", "web", f"test -e {web.inside}/out").returncode == 1


def test_links_of_the_sandbox_are_not_followed_here(web, tmp_path):
    """A link that is there already is replaced, never written through."""
    target = tmp_path / "precious"
    target.write_text("precious")
    here = tmp_path / "here"
    here.mkdir()
    (here / "file").symlink_to(target)
    web.ok("exec", "web", f"cd {web.inside} && mkdir t && echo evil >t/file && mkdir t/dir && echo evil >t/dir/x")
    (here / "dir").symlink_to(tmp_path)
    web.ok("cp", "web:t/file", str(here))
    web.ok("cp", "web:t/dir", str(here / "dir"))
    assert target.read_text() == "precious"
    assert (here / "file").read_text() == "evil\n" and not (here / "file").is_symlink()


def test_no_set_uid_comes_out(web, tmp_path):
    web.ok("exec", "web", f"cd {web.inside} && touch s && chmod 4755 s")
    web.ok("cp", "web:s", str(tmp_path / "s"))
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o755


def test_errors(web, tmp_path):
    (tmp_path / "x").write_text("x")
    here = str(tmp_path / "x")
    assert "No such file" in web.fails(66, "cp", str(tmp_path / "none"), "web:y")
    assert "No such file" in web.fails(66, "cp", "web:none", str(tmp_path / "y"))
    assert not (tmp_path / "y").exists()
    assert "not a directory" in web.fails(66, "cp", here, "web:nowhere/")
    assert "not a directory" in web.fails(66, "cp", here, here, "web:nowhere")
    assert "SANDBOX:PATH" in web.fails(2, "cp", here, str(tmp_path / "y"))
    assert "SANDBOX:PATH" in web.fails(2, "cp", "web:x", "web:y")
    assert "did you mean web" in web.fails(66, "cp", here, "wbe:y")
    assert "destination" in web.fails(2, "cp", here)
    result = web("--json", "cp", str(tmp_path / "none"), "web:y")
    assert json.loads(result.stderr)["error"]["code"] == "not_found"


def test_progress_on_a_terminal(tendon, screen, tmp_path):
    """For what takes more than a second, and gone when it is over."""
    tendon.ok("new", "--name", "web")
    where = tendon.ok("exec", "--session", "main", "web", "pwd").strip()
    quick = screen(tendon, "cp", tendon.program, "web:quick")
    assert (quick.wait(), quick.raw) == (0, b"")
    tendon.ok("exec", "web", f"truncate -s 40G {where}/huge")
    slow = screen(tendon, "cp", "web:huge", "/dev/null/x")
    assert slow.wait() != 0
    slow = screen(tendon, "cp", "web:huge", str(tmp_path / "huge"))
    slow.wait_for(r"copying \[[#.]+\] +\d+% [0-9.]+ [MG]iB, [0-9.]+ [MG]iB/s \(\d+ s\)")
    slow.type("\x03")
    assert slow.wait() == -2
    tendon.ok("exec", "web", f"rm {where}/huge")
    assert list(tmp_path.glob("*huge*")) + list(tmp_path.glob(".tendon-*")) == []

"""/v1/files: what is there, new directories, moves and removals."""

import base64
import os
import socket
import stat

import pytest

from harness import memory_limit, needs_root
from streams import url


def get_stat(client, path, **query):
    reply = client.get(url("/v1/files/stat", path=path, **query))
    assert reply.status == 200, reply
    return reply.json


def page(client, path, **query):
    reply = client.get(url("/v1/files/list", path=path, **query))
    assert reply.status == 200, reply
    assert set(reply.json) == {"entries", "next"}
    return reply.json["entries"], reply.json["next"]


def walk(client, path, **query):
    """All pages; each must bring something or be the last."""
    entries, after = page(client, path, **query)
    while after is not None:
        more, after = page(client, path, after=after, **query)
        assert more
        entries += more
    return entries


# --- paths --------------------------------------------------------------------------------------

ROUTES = [
    ("GET", "stat"),
    ("GET", "list"),
    ("GET", "content"),
    ("PUT", "content"),
    ("GET", "watch"),
]


@pytest.mark.parametrize("method, route", ROUTES + [("DELETE", "")])
def test_bad_paths_in_the_query(shared, method, route):
    target = f"/v1/files/{route}".rstrip("/")
    for query, status, detail in [
        ("", 422, "path is required"),
        ("?path=", 422, "path must be an absolute path"),
        ("?path=tmp/x", 422, "path must be an absolute path"),
        ("?path=/x%00y", 400, "The request target holds a bad percent escape"),
        ("?path=/" + "x/" * 2100, 400, None),
        ("?path=/tmp/none%2Fsuch%2Fplace" if method != "PUT" else "?path=/etc/passwd/x", 404, None),
        ("?path=/tmp/" + "x" * 300, 400, None),
    ]:
        reply = shared.request(method, target + query)
        assert reply.status == status, (query, reply)
        assert reply.detail == detail or (detail is None and reply.detail), reply


@pytest.mark.parametrize("route, key", [("directory", "path"), ("move", "from"), ("move", "to")])
def test_bad_paths_in_the_body(shared, route, key):
    good = {"path": "/tmp/x", "from": "/tmp/x", "to": "/tmp/y"}
    for value, detail in [
        (None, f"{key} is required"),
        (5, f"{key} must be a string without NUL"),
        ("/tmp/a\0b", f"{key} must be a string without NUL"),
        ("", f"{key} must be an absolute path"),
        ("tmp", f"{key} must be an absolute path"),
        ([], f"{key} must be a string without NUL"),
    ]:
        reply = shared.post(f"/v1/files/{route}", {**good, key: value})
        assert (reply.status, reply.detail) == (422, detail)
    assert shared.post(f"/v1/files/{route}", {**good, key: "/" + "x/" * 3000}).status == 400
    assert shared.request("POST", f"/v1/files/{route}").status == 422
    assert shared.request("POST", f"/v1/files/{route}", b"{").status == 400
    assert shared.request("POST", f"/v1/files/{route}", b"[]").status == 422


# --- stat ---------------------------------------------------------------------------------------


def test_stat_of_a_file(shared, ws):
    path = ws / "a b&c"
    path.write_bytes(b"12345")
    os.chmod(path, 0o640)
    os.utime(path, (1700000000.5, 1700000000.5))
    assert get_stat(shared, path) == {
        "name": "a b&c",
        "type": "file",
        "size": 5,
        "mode": "0640",
        "uid": os.getuid(),
        "gid": os.getgid(),
        "mtime": 1700000000.5,
    }


def test_stat_of_every_kind(shared, ws):
    (ws / "dir").mkdir()
    os.symlink("dir", ws / "link")
    os.symlink("nowhere", ws / "broken")
    os.mkfifo(ws / "fifo")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(ws / "socket"))
    kinds = {
        "dir": "directory",
        "link": "symlink",
        "broken": "symlink",
        "fifo": "fifo",
        "socket": "socket",
    }
    for name, kind in kinds.items():
        got = get_stat(shared, ws / name)
        assert (got["name"], got["type"]) == (name, kind)
        assert ("target" in got) == (kind == "symlink")
    assert get_stat(shared, "/dev/null")["type"] == "device"
    assert get_stat(shared, ws / "link")["target"] == "dir"
    followed = get_stat(shared, ws / "link", follow=1)
    assert (followed["name"], followed["type"], "target" in followed) == (
        "link",
        "directory",
        False,
    )
    assert shared.get(url("/v1/files/stat", path=ws / "broken", follow=1)).status == 404
    assert shared.get(url("/v1/files/stat", path=ws, follow="x")).status == 422


@pytest.mark.parametrize(
    "form, name", [("{}", None), ("{}/", None), ("{}//.", None), ("//{}", None)]
)
def test_stat_takes_any_spelling(shared, ws, form, name):
    got = get_stat(shared, form.format(ws))
    assert (got["name"], got["type"]) == (ws.name, "directory")


def test_stat_of_the_root(shared):
    assert get_stat(shared, "/")["name"] == "/"
    assert get_stat(shared, "/tmp/..")["type"] == "directory"


def test_stat_of_a_name_that_is_no_text(shared, ws):
    path = os.fsencode(ws) + b"/\xff\xfe.txt"
    open(path, "w").close()
    got = get_stat(shared, path)
    assert base64.b64decode(got["name_base64"]) == b"\xff\xfe.txt"
    assert got["name"] == "\ufffd\ufffd.txt"


def test_stat_errors(shared, ws):
    (ws / "file").write_text("")
    os.symlink("loop", ws / "loop")
    for path, status, words in [
        (ws / "none", 404, "No such file or directory"),
        (ws / "file" / "below", 404, "Not a directory"),
        (ws / "loop" / "x", 400, "symbolic links"),
    ]:
        reply = shared.get(url("/v1/files/stat", path=path))
        assert reply.status == status and words in reply.detail and str(path) in reply.detail


def test_stat_head(shared, ws):
    assert shared.request("HEAD", url("/v1/files/stat", path=ws)).status == 200
    assert shared.request("HEAD", url("/v1/files/stat", path=ws / "no")).status == 404


# --- list ---------------------------------------------------------------------------------------


def test_list(shared, ws):
    names = ["b", "a", ".hidden", "dir", "Z", "ü", "x y"]
    for name in names:
        (ws / name).mkdir() if name == "dir" else (ws / name).write_text(name)
    os.symlink("a", ws / "link")
    entries, after = page(shared, ws)
    assert after is None
    assert [e["name"] for e in entries] == sorted([*names, "link"], key=lambda n: n.encode())
    for entry in entries:
        assert entry == get_stat(shared, ws / entry["name"])


def test_list_of_an_empty_directory(shared, ws):
    assert page(shared, ws) == ([], None)
    assert page(shared, f"{ws}/", limit=1) == ([], None)


@pytest.mark.parametrize("limit", [1, 3, 10, 99, 100, 101, 10000])
def test_list_in_pages(shared, ws, limit):
    for n in range(100):
        (ws / f"f{n:03}").touch()
    assert [e["name"] for e in walk(shared, ws, limit=limit)] == [f"f{n:03}" for n in range(100)]
    assert len(page(shared, ws, limit=limit)[0]) == min(limit, 100)


def test_list_in_pages_with_names_that_are_no_text(shared, ws):
    names = [b"\x80", b"\xef\xbf\xbd", b"\xff", b"\xff\xff", b"a", b"\xc3\xa4", b"%41", b"+"]
    for name in names:
        open(os.fsencode(ws) + b"/" + name, "w").close()
    entries = walk(shared, ws, limit=1)
    raw = [
        base64.b64decode(e["name_base64"]) if "name_base64" in e else e["name"].encode()
        for e in entries
    ]
    assert raw == sorted(names)


def test_list_while_it_changes(shared, ws):
    for n in range(20):
        (ws / f"f{n:02}").touch()
    first, after = page(shared, ws, limit=10)
    os.unlink(ws / "f09")  # where the page ended
    os.unlink(ws / "f10")
    (ws / "a").touch()
    second, end = page(shared, ws, limit=20, after=after)
    assert end is None and [e["name"] for e in second] == [f"f{n}" for n in range(11, 20)]


def test_list_of_a_large_directory(shared_hand, shared, ws):
    for n in range(30000):
        os.mknod(ws / f"{n:05}-{'x' * 100}")
    entries, after = page(shared, ws, limit=10000)
    assert 1000 < len(entries) <= 10000 and after, "a page also ends when it is large"
    before = shared_hand.status("VmRSS")
    assert len(walk(shared, ws, limit=10000)) == 30000
    assert shared_hand.status("VmRSS") - before < memory_limit(8 << 10)


@pytest.mark.parametrize("limit", ["0", "10001", "-1", "x", "", "99999999999999999999"])
def test_list_with_a_bad_limit(shared, ws, limit):
    reply = shared.get(url("/v1/files/list", path=ws, limit=limit))
    assert reply.status == 422 and reply.detail.startswith("limit must be a")


@pytest.mark.parametrize("after", ["x", "6", "6G", "AA", "00" * 256, "61 "])
def test_list_after_nonsense(shared, ws, after):
    reply = shared.get(url("/v1/files/list", path=ws, after=after))
    assert (reply.status, reply.detail) == (422, "after must be the `next` of the page before")


def test_list_errors(shared, ws):
    (ws / "file").touch()
    reply = shared.get(url("/v1/files/list", path=ws / "file"))
    assert reply.status == 409 and "Not a directory" in reply.detail
    assert shared.get(url("/v1/files/list", path=ws / "none")).status == 404


def test_what_the_server_has_open_is_no_way_in(shared):
    """Links of /proc lead past every permission: they are not followed."""
    for route in ("list", "stat", "content"):
        reply = shared.get(url(f"/v1/files/{route}", path="/proc/self/fd/0/x", follow=1))
        assert reply.status in (400, 403, 404), reply
    assert shared.get(url("/v1/files/list", path="/proc/self/cwd")).status in (400, 403)
    assert shared.get(url("/v1/files/content", path="/proc/self/environ")).status == 403
    for name in ("mem", "oom_score_adj", "comm"):
        reply = shared.request("PUT", url("/v1/files/content", path=f"/proc/self/{name}"), b"500")
        assert reply.status == 403 and "Permission denied" in reply.detail, reply
        assert shared.write(f"/proc/self/{name}", "500").type == "error"


# --- directory ----------------------------------------------------------------------------------


def test_directory(shared, ws):
    path = ws / "a" / "b" / "c"
    assert shared.post("/v1/files/directory", {"path": str(path)}).status == 204
    assert path.is_dir() and stat.S_IMODE(path.stat().st_mode) == 0o755
    assert shared.post("/v1/files/directory", {"path": f"{path}/"}).status == 204, "as mkdir -p"
    (ws / "file").touch()
    for below in ("file", "file/x"):
        reply = shared.post("/v1/files/directory", {"path": str(ws / below)})
        assert reply.status == 409 and "Not a directory" in reply.detail


def test_directory_with_a_mode(shared, ws):
    path = ws / "d"
    for mode in ("700", "0755"):
        assert shared.post("/v1/files/directory", {"path": str(path), "mode": mode}).status == 204
        assert stat.S_IMODE(path.stat().st_mode) == int(mode, 8)
    for mode in ("x", "99", "77777", ""):
        assert shared.post("/v1/files/directory", {"path": str(path), "mode": mode}).status == 422
    assert shared.post("/v1/files/directory", {"path": str(path), "mode": 7}).status == 422
    raw = os.fsdecode(b"no-\xff-text")
    assert shared.request("POST", url("/v1/files/directory", path=os.fsencode(ws / raw), mode="711")).status == 204
    assert stat.S_IMODE((ws / raw).stat().st_mode) == 0o711


# --- links --------------------------------------------------------------------------------------


def link(client, path, target):
    return client.request("POST", url("/v1/files/symlink", path=path, target=os.fsencode(target)))


@pytest.mark.parametrize("target", ["file", "../x y", "/no/such", os.fsdecode(b"\xff"), "a\nb"])
def test_symlink(shared, ws, target):
    assert link(shared, ws / "l", target).status == 204
    assert os.readlink(ws / "l") == target
    found = get_stat(shared, ws / "l")
    assert found["type"] == "symlink"
    raw = base64.b64decode(found["target_base64"]) if "target_base64" in found else found["target"].encode()
    assert raw == os.fsencode(target)


def test_symlink_replaces_files_and_links_only(shared, ws):
    (ws / "file").write_text("old")
    (ws / "link").symlink_to("file")
    (ws / "dir").mkdir()
    assert link(shared, ws / "link", "other").status == 204
    assert os.readlink(ws / "link") == "other" and (ws / "file").read_text() == "old"
    assert link(shared, ws / "file", "other").status == 204
    assert os.readlink(ws / "file") == "other"
    assert link(shared, ws / "dir", "other").status == 409
    assert sorted(os.listdir(ws)) == ["dir", "file", "link"]


def test_symlink_errors(shared, ws):
    assert link(shared, ws / "no" / "l", "x").status == 404
    assert link(shared, ws / "l", "").status == 422
    assert shared.request("POST", url("/v1/files/symlink", path=ws / "l")).status == 422
    assert link(shared, "relative", "x").status == 422
    assert link(shared, "/", "x").status == 422


# --- move ---------------------------------------------------------------------------------------


def move(client, a, b, **more):
    return client.post("/v1/files/move", {"from": str(a), "to": str(b), **more})


def test_move(shared, ws):
    (ws / "a").write_text("text")
    assert move(shared, ws / "a", ws / "b").status == 204
    assert not (ws / "a").exists() and (ws / "b").read_text() == "text"
    (ws / "dir").mkdir()
    assert move(shared, f"{ws}/b", f"{ws}/dir/../dir//c").status == 204
    assert move(shared, ws / "dir", ws / "other").status == 204
    assert (ws / "other" / "c").read_text() == "text"


def test_move_does_not_replace_unless_told(shared, ws):
    (ws / "a").write_text("a")
    (ws / "b").write_text("b")
    reply = move(shared, ws / "a", ws / "b")
    assert (reply.status, reply.detail) == (409, f"move {ws}/a to {ws}/b: File exists")
    assert (ws / "b").read_text() == "b"
    assert move(shared, ws / "a", ws / "b", overwrite=False).status == 409
    assert move(shared, ws / "a", ws / "b", overwrite=None).status == 409
    assert move(shared, ws / "a", ws / "b", overwrite=True).status == 204
    assert (ws / "b").read_text() == "a" and not (ws / "a").exists()


def test_move_moves_links_not_what_they_mean(shared, ws):
    (ws / "real").write_text("real")
    os.symlink("real", ws / "link")
    assert move(shared, ws / "link", ws / "moved").status == 204
    assert os.readlink(ws / "moved") == "real" and (ws / "real").exists()
    os.symlink("nowhere", ws / "dangling")
    assert move(shared, ws / "real", ws / "dangling").status == 409


def test_move_errors(shared, ws):
    (ws / "file").write_text("")
    (ws / "dir" / "sub").mkdir(parents=True)
    for a, b, more, status, words in [
        (ws / "none", ws / "x", {}, 404, "No such file"),
        (ws / "file", ws / "no" / "x", {}, 404, "No such file"),
        (ws / "dir", ws / "dir" / "sub" / "x", {}, 409, "into itself"),
        (ws / "dir", ws / "file", {"overwrite": True}, 409, "cannot replace a file"),
        (ws / "file", ws / "dir", {"overwrite": True}, 409, "Is a directory"),
        (ws / "file", "/dev/shm/x", {}, 409, "different file systems"),
        ("/", ws / "x", {}, 422, "does not end in a name"),
        (ws / "file", "/", {}, 422, "does not end in a name"),
        (ws / "dir" / "..", ws / "x", {}, 422, "does not end in a name"),
        (ws / "file", ws / "x", {"overwrite": "yes"}, 422, "overwrite must be true or false"),
        (ws / "file", ws / "x", {"overwrite": 1}, 422, "overwrite must be true or false"),
    ]:
        reply = move(shared, a, b, **more)
        assert reply.status == status and words in reply.detail, (a, b, reply)
    assert (ws / "file").exists() and (ws / "dir" / "sub").exists()


# --- remove -------------------------------------------------------------------------------------


def remove(client, path, **query):
    return client.request("DELETE", url("/v1/files", path=path, **query))


def test_remove(shared, ws):
    (ws / "file").touch()
    (ws / "dir").mkdir()
    os.symlink("/etc", ws / "link")
    for name in ("file", "dir", "link"):
        assert remove(shared, ws / name).status == 204
    assert os.listdir(ws) == [] and os.path.exists("/etc/passwd")
    assert remove(shared, ws / "file").status == 404
    assert remove(shared, ws / "file", recursive=1).status == 404


def test_remove_recursive(shared, ws):
    (ws / "dir" / "sub").mkdir(parents=True)
    (ws / "dir" / "sub" / "f").touch()
    os.symlink(ws / "keep", ws / "dir" / "link")
    (ws / "keep").mkdir()
    (ws / "keep" / "f").touch()
    reply = remove(shared, ws / "dir")
    assert reply.status == 409 and "not empty" in reply.detail
    assert remove(shared, ws / "dir", recursive=0).status == 409
    assert remove(shared, f"{ws}/dir/", recursive="true").status == 204
    assert os.listdir(ws) == ["keep"] and os.listdir(ws / "keep") == ["f"]


def test_remove_errors(shared, ws):
    for path in ("/", f"{ws}/..", "/.."):
        reply = remove(shared, path, recursive=1)
        assert reply.status == 422 and "does not end in a name" in reply.detail
    assert remove(shared, f"{ws}/.", recursive="sure").status == 422
    assert remove(shared, "/proc/self/status").status in (403, 409)
    assert ws.is_dir()


# --- rights -------------------------------------------------------------------------------------


@needs_root()
def test_everything_happens_with_the_rights_of_the_user(start):
    hand = start(username="nobody", env={"SU_TO_USER": "true"})
    client, ws = hand.client, hand.workspace
    secret = hand.base / "secret"
    secret.mkdir(mode=0o700)
    (secret / "file").write_text("secret")
    for method, target in [
        ("GET", url("/v1/files/stat", path=secret / "file")),
        ("GET", url("/v1/files/list", path=secret)),
        ("GET", url("/v1/files/content", path=secret / "file")),
        ("PUT", url("/v1/files/content", path=secret / "new")),
        ("PUT", url("/v1/files/content", path=hand.base / "new")),
        ("GET", url("/v1/files/watch", path=secret)),
        ("DELETE", url("/v1/files", path=secret / "file")),
        ("DELETE", url("/v1/files", path=secret, recursive=1)),
        ("GET", url("/v1/files/content", path="/etc/shadow")),
        ("GET", url("/v1/files/content", path="/proc/1/environ")),
    ]:
        reply = client.request(method, target)
        assert reply.status == 403 and "Permission denied" in reply.detail, (target, reply)
    assert client.post("/v1/files/directory", {"path": str(secret / "d")}).status == 403
    assert move(client, secret / "file", ws / "x").status == 403
    assert (secret / "file").read_text() == "secret"

    uid = get_stat(client, ws)["uid"]
    assert uid not in (0, os.getuid())
    assert client.post("/v1/files/directory", {"path": str(ws / "a/b")}).status == 204
    assert client.request("PUT", url("/v1/files/content", path=ws / "c/d"), b"x").status == 201
    for name in ("a", "a/b", "c", "c/d"):
        assert (ws / name).stat().st_uid == uid
    assert client.request("PUT", url("/v1/files/content", path=ws / "c/d"), b"y").status == 204
    assert (ws / "c/d").stat().st_uid == uid
    # And the thread is the server again afterwards, whoever the next client is.
    assert client.upload("f", b"x", secret).status == 200


# --- extended attributes ------------------------------------------------------------------------


def attributes_of(client, path, **query):
    return get_stat(client, path, attributes="user.t.", **query).get("attributes")


def put_attributes(client, path, value=None, prefix="user.t."):
    headers = {"Tendon-Attributes": value} if value else {}
    return client.request("PUT", url("/v1/files/content", path=path, attributes=prefix), b"x", headers)


def test_attributes(shared, ws):
    """What begins as asked for is told, and replaced as a whole by a PUT that has some."""
    assert put_attributes(shared, ws / "f", '{"a": "1", "b": "two \\u00e9"}').status == 201
    assert attributes_of(shared, ws / "f") == {"a": "1", "b": "two é"}
    assert os.getxattr(ws / "f", "user.t.b") == "two é".encode()
    os.setxattr(ws / "f", "user.other", b"stays")
    os.setxattr(ws / "f", "user.t.bytes", b"\xff")
    os.symlink("f", ws / "link")
    (entry, link), _ = page(shared, ws, attributes="user.t.")
    assert set(entry["attributes"]) == {"a", "b", "bytes"} and "attributes" not in link
    assert attributes_of(shared, ws / "link", follow=1)["a"] == "1" and attributes_of(shared, ws / "link") is None
    assert "attributes" not in get_stat(shared, ws / "f")
    assert put_attributes(shared, ws / "f", '{"c": ""}').status == 204
    assert attributes_of(shared, ws / "f") == {"c": ""} and os.getxattr(ws / "f", "user.other") == b"stays"
    assert shared.request("PUT", url("/v1/files/content", path=ws / "f"), b"y").status == 204
    assert attributes_of(shared, ws / "f") == {"c": ""}
    assert put_attributes(shared, ws / "f").status == 204 and attributes_of(shared, ws / "f") is None


def test_attributes_that_are_none(shared, ws):
    for prefix in ("", "security.", "trusted.x", "user", "user." + "x" * 99):
        assert put_attributes(shared, ws / "f", "{}", prefix).status == 422
    for value in ("[]", "x", "{"):
        assert put_attributes(shared, ws / "f", value).status == 422
    for value in ('{"a": 1}', '{"%s": "x"}' % ("n" * 300)):
        assert put_attributes(shared, ws / "f", value).status in (400, 409, 413, 422, 500, 507), value
    assert not (ws / "f").exists()
    (ws / "many").write_bytes(b"")
    for i in range(20):
        os.setxattr(ws / "many", f"user.t.{i}", b"\x01" * 100)
    assert len(attributes_of(shared, ws / "many")) == 20

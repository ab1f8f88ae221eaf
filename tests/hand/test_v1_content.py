"""/v1/files/content: the bytes of a file, up and down, whole and in ranges."""

import hashlib
import http.client
import io
import os
import pathlib
import socket
import stat
import threading
import zipfile

import pytest

from harness import memory_limit, wait_until
from streams import url

LARGE = 200 << 20


def get(client, path, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.get(url("/v1/files/content", path=path), headers=headers)


def put(client, path, body=b"", headers=None, **query):
    return client.request("PUT", url("/v1/files/content", path=path, **query), body, headers)


# --- down ---------------------------------------------------------------------------------------


def test_get(shared, ws):
    data = bytes(range(256)) * 3
    (ws / "f").write_bytes(data)
    reply = get(shared, ws / "f")
    assert (reply.status, reply.body) == (200, data)
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["content-length"] == str(len(data))
    assert reply.headers["accept-ranges"] == "bytes"
    head = shared.request("HEAD", url("/v1/files/content", path=ws / "f"))
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "768")


def test_get_an_empty_file(shared, ws):
    (ws / "f").touch()
    reply = get(shared, ws / "f")
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0")
    assert get(shared, ws / "f", Range="bytes=0-").status == 416


@pytest.mark.parametrize(
    "text, first, last",
    [
        ("bytes=0-0", 0, 0),
        ("bytes=2-5", 2, 5),
        ("bytes=5-", 5, 9),
        ("bytes=-3", 7, 9),
        ("bytes=-10", 0, 9),
        ("bytes=-999", 0, 9),
        ("bytes=0-999", 0, 9),
        ("bytes=9-9223372036854775807", 9, 9),
        ("BYTES=1-2", 1, 2),
    ],
)
def test_range(shared, ws, text, first, last):
    (ws / "f").write_bytes(b"0123456789")
    reply = get(shared, ws / "f", Range=text)
    assert reply.status == 206
    assert reply.body == b"0123456789"[first : last + 1]
    assert reply.headers["content-range"] == f"bytes {first}-{last}/10"
    assert reply.headers["content-length"] == str(last - first + 1)


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=9999999999-"])
def test_range_outside(shared, ws, text):
    (ws / "f").write_bytes(b"0123456789")
    reply = get(shared, ws / "f", Range=text)
    assert (reply.status, reply.headers["content-range"]) == (416, "bytes */10")
    assert reply.detail == "the range lies outside the file"


@pytest.mark.parametrize(
    "text",
    [
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-2",
        "bytes=--5",
        "bytes=+1-2",
        "bytes=1-+2",
        "bytes= 1-2",
        "bytes=0-1,3-4",
        "bytes=1",
        "lines=1-2",
        "0-1",
        "bytes=99999999999999999999-",
        "bytes=1-99999999999999999999",
    ],
)
def test_what_is_no_range_is_ignored(shared, ws, text):
    (ws / "f").write_bytes(b"0123456789")
    reply = get(shared, ws / "f", Range=text)
    assert (reply.status, reply.body) == (200, b"0123456789")
    assert "content-range" not in reply.headers


def test_a_range_of_the_same_file_only(shared, ws):
    (ws / "f").write_bytes(b"0123456789")
    tag = get(shared, ws / "f").headers["etag"]
    assert get(shared, ws / "f", Range="bytes=5-", If_Range=tag).status == 206
    put(shared, ws / "f", b"abcdefghij")
    reply = get(shared, ws / "f", Range="bytes=5-", If_Range=tag)
    assert (reply.status, reply.body) == (200, b"abcdefghij")
    assert reply.headers["etag"] != tag


def test_what_the_client_has_is_not_sent_again(shared, ws):
    (ws / "f").write_bytes(b"0123456789")
    tag = get(shared, ws / "f").headers["etag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        reply = get(shared, ws / "f", If_None_Match=known, Range="bytes=5-")
        assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", tag)
    assert get(shared, ws / "f", If_None_Match='"other"').status == 200
    before = os.stat(ws / "f").st_mtime_ns
    while os.stat(ws / "f").st_mtime_ns == before:  # the clock of files has ticks
        with open(ws / "f", "r+b") as f:
            f.write(b"abcdefghij")
    reply = get(shared, ws / "f", If_None_Match=tag)
    assert (reply.status, reply.body) == (200, b"abcdefghij")


def write_like_before(path, body):
    """Other bytes, as many, and the time of the old ones; in another tick, where the kernel has nothing finer."""
    before = os.stat(path)

    def change():
        path.write_bytes(body)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return os.stat(path).st_ctime_ns != before.st_ctime_ns

    wait_until(change, 30, "the clock of files has moved on")


@pytest.mark.parametrize("write", [pathlib.Path.write_bytes, write_like_before])
@pytest.mark.parametrize("read", [True, False], ids=["read", "put"])
def test_two_changes_in_a_moment(shared, ws, write, read):
    """The clock of files has ticks: of two changes in one the older tag is still that of the older."""
    file = ws / "f"
    for _ in range(25):
        tag = put(shared, file, b"one").headers["etag"]
        if read:
            write(file, b"two")
            assert get(shared, file).headers["etag"] != tag
            tag = get(shared, file).headers["etag"]
        write(file, b"six")
        assert put(shared, file, b"ten", {"If-Match": tag}).status == 412
        assert file.read_bytes() == b"six"
        new = put(shared, file, b"ten").headers["etag"]
        assert put(shared, file, b"one", {"If-Match": new}).status == 204


def test_a_tag_with_another_mode(shared, ws):
    (ws / "f").write_bytes(b"one")
    tag = put(shared, ws / "f", b"two", mode="600").headers["etag"]
    assert put(shared, ws / "f", b"six", {"If-Match": tag}).status == 204


def test_get_what_is_no_file(shared, ws):
    os.mkfifo(ws / "fifo")
    os.symlink("f", ws / "link")
    (ws / "f").write_text("x")
    assert get(shared, ws / "link").body == b"x"
    for path in (ws, ws / "fifo", "/dev/zero", "/dev/tty"):
        reply = get(shared, path)
        assert reply.status in (409, 500), reply  # no terminal: the open itself fails
        assert str(path) in reply.detail
    assert get(shared, ws / "none").status == 404


def test_get_a_file_of_the_kernel(shared):
    """It says that it is empty, or a page long, and is neither."""
    reply = get(shared, "/proc/version")
    assert (reply.status, reply.body) == (200, open("/proc/version", "rb").read())
    assert get(shared, "/proc/version", Range="bytes=0-4").body == b"Linux"
    tag = reply.headers["etag"]
    assert get(shared, "/proc/version", If_None_Match=tag).status == 304
    assert get(shared, "/sys/kernel/mm/transparent_hugepage/enabled").body.endswith(b"\n")
    assert b"MemTotal" in get(shared, "/proc/meminfo").body


def test_a_file_of_the_kernel_that_changes(shared):
    """Its size and its time stay what they were."""
    old = get(shared, "/proc/uptime")
    wait_until(lambda: open("/proc/uptime", "rb").read() != old.body)
    tag = old.headers["etag"]
    reply = get(shared, "/proc/uptime", If_None_Match=tag)
    assert reply.status == 200 and reply.body != old.body and reply.headers["etag"] != tag
    assert get(shared, "/proc/uptime", Range="bytes=2-", If_Range=tag).status == 200


def test_a_file_that_shrinks_breaks_the_transfer(shared, ws):
    """Rather than an answer that looks whole."""
    with open(ws / "f", "wb") as f:
        f.truncate(64 << 20)
    connection = shared.connection(10)
    connection.request("GET", url("/v1/files/content", path=ws / "f"))
    response = connection.getresponse()
    response.read(1000)
    os.truncate(ws / "f", 5000)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        while response.read(1 << 20):
            pass
        raise http.client.IncompleteRead(b"")
    connection.close()


# --- up -----------------------------------------------------------------------------------------


def test_put(shared, ws):
    data = bytes(range(256)) * 1000
    reply = put(shared, ws / "f", data)
    assert (reply.status, reply.body) == (201, b"")
    assert (ws / "f").read_bytes() == data
    assert put(shared, ws / "f", b"second").status == 204
    assert (ws / "f").read_bytes() == b"second"
    assert put(shared, ws / "f").status == 204
    assert (ws / "f").read_bytes() == b""
    assert os.listdir(ws) == ["f"]


def test_put_makes_parents(shared, ws):
    assert put(shared, ws / "a/b/c", b"x").status == 201
    assert (ws / "a/b/c").read_text() == "x"


def test_put_a_zip_stays_a_zip(shared, ws):
    """Unlike /upload_file, which unpacks it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("inside.txt", "hello")
    assert put(shared, ws / "x.zip", archive.getvalue()).status == 201
    assert os.listdir(ws) == ["x.zip"]
    assert get(shared, ws / "x.zip").body == archive.getvalue()
    with zipfile.ZipFile(io.BytesIO(get(shared, ws / "x.zip").body)) as z:
        assert z.read("inside.txt") == b"hello"


def test_put_chunked(shared, ws):
    connection = shared.connection(10)
    connection.request(
        "PUT",
        url("/v1/files/content", path=ws / "f"),
        iter([b"one", b"two" * 50000, b"three"]),
        encode_chunked=True,
        headers={"Transfer-Encoding": "chunked"},
    )
    assert connection.getresponse().status == 201
    connection.close()
    assert (ws / "f").read_bytes() == b"one" + b"two" * 50000 + b"three"


@pytest.mark.parametrize("mode", ["600", "0755", "4755", "0"])
def test_put_mode(shared, ws, mode):
    assert put(shared, ws / "f", b"x", mode=mode).status == 201
    assert stat.S_IMODE((ws / "f").stat().st_mode) == int(mode, 8)
    (ws / "g").write_text("old")
    os.chmod(ws / "g", 0o644)
    assert put(shared, ws / "g", b"x", mode=mode).status == 204
    assert stat.S_IMODE((ws / "g").stat().st_mode) == int(mode, 8)


def test_put_without_a_mode_keeps_it(shared, ws):
    assert put(shared, ws / "f", b"x").status == 201
    assert stat.S_IMODE((ws / "f").stat().st_mode) == 0o664
    os.chmod(ws / "f", 0o750)
    assert put(shared, ws / "f", b"y").status == 204
    assert stat.S_IMODE((ws / "f").stat().st_mode) == 0o750


@pytest.mark.parametrize("mode", ["", "8", "-1", "+7", " 7", "rwx", "17777", "0x1ff", "7" * 30])
def test_put_with_a_bad_mode(shared, ws, mode):
    reply = put(shared, ws / "f", b"x", mode=mode)
    assert (reply.status, reply.detail) == (422, "mode must be an octal number such as 644")
    assert os.listdir(ws) == []


def test_put_a_part_is_refused(shared, ws):
    """As curl -C sends it to resume an upload: the part must not become the whole."""
    (ws / "f").write_text("0123456789")
    reply = put(shared, ws / "f", b"56789", {"Content-Range": "bytes 5-9/10"})
    assert reply.status == 400 and "Content-Range" in reply.detail
    assert (ws / "f").read_text() == "0123456789"


def test_put_through_a_link(shared, ws):
    (ws / "real").write_text("old")
    os.symlink("real", ws / "link")
    assert put(shared, ws / "link", b"new").status == 204
    assert os.readlink(ws / "link") == "real" and (ws / "real").read_text() == "new"
    os.symlink("later", ws / "dangling")
    assert put(shared, ws / "dangling", b"made").status == 201
    assert (ws / "later").read_text() == "made"


def test_put_where_no_file_can_be(shared, ws):
    (ws / "file").write_text("old")
    os.mkfifo(ws / "fifo")
    for path, status in [
        (ws, 409),
        (f"{ws}/new/", 422),
        ("/", 422),
        (f"{ws}/.", 409),
        (f"{ws}/..", 409),
        (ws / "file" / "below", 404),
        (ws / "fifo", 400),
        ("/proc/none", 404),
        ("/sys/kernel/none", 403),
    ]:
        reply = put(shared, path, b"x")
        assert reply.status == status and reply.detail, (path, reply)
    assert sorted(os.listdir(ws)) == ["fifo", "file"]
    assert (ws / "file").read_text() == "old"


def test_a_broken_upload_changes_nothing(shared, ws):
    (ws / "f").write_text("old")
    target = url("/v1/files/content", path=ws / "f")
    with shared.socket() as s:
        s.sendall(f"PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n".encode())
        s.sendall(b"x" * 50000)
        s.shutdown(socket.SHUT_WR)
        while s.recv(1000):
            pass
    assert (ws / "f").read_text() == "old"
    wait_until(lambda: os.listdir(ws) == ["f"], what="no temporary file")
    reply = shared.raw(
        f"PUT {target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode()
    )
    assert reply.status == 400
    assert (ws / "f").read_text() == "old" and os.listdir(ws) == ["f"]


def test_a_reader_sees_the_old_or_the_new(shared, ws):
    old, new = b"o" * 300000, b"n" * 300000
    (ws / "f").write_bytes(old)
    stop, seen = threading.Event(), set()

    def watch():
        while not stop.is_set():
            seen.add((ws / "f").read_bytes())

    reader = threading.Thread(target=watch)
    reader.start()
    for n in range(20):
        assert put(shared, ws / "f", new if n % 2 == 0 else old).status == 204
    stop.set()
    reader.join()
    assert seen <= {old, new}


def test_expect_continue(shared, ws):
    """The refusal comes before the body is sent."""
    with shared.socket() as s:
        target = url("/v1/files/content", path=ws / "f", mode="bad")
        s.sendall(
            f"PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        assert s.recv(1000).startswith(b"HTTP/1.1 422")
    with shared.socket() as s:
        target = url("/v1/files/content", path=ws / "f")
        s.sendall(
            f"PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        assert s.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"hello")
        assert s.recv(1000).startswith(b"HTTP/1.1 201")
    assert (ws / "f").read_text() == "hello"


# --- large --------------------------------------------------------------------------------------


def blocks(total, size=1 << 20):
    block = os.urandom(size)
    for _ in range(total // size):
        yield block


def test_large_files_stream(hand):
    """200 MB up and down again, in the memory it takes for one."""
    client, path = hand.client, hand.workspace / "large"
    put(client, hand.workspace / "small", b"x")
    get(client, hand.workspace / "small")
    before = hand.status("VmRSS")
    digest = hashlib.sha256()
    target = url("/v1/files/content", path=path)

    connection = client.connection(60)
    connection.putrequest("PUT", target)
    connection.putheader("Content-Length", str(LARGE))
    connection.endheaders()
    highest = before
    for block in blocks(LARGE):
        digest.update(block)
        connection.send(block)
        highest = max(highest, hand.status("VmRSS"))
    response = connection.getresponse()
    assert response.status == 201
    response.read()

    connection.request("GET", target)
    response = connection.getresponse()
    assert response.headers["content-length"] == str(LARGE)
    back = hashlib.sha256()
    while block := response.read(1 << 20):
        back.update(block)
        highest = max(highest, hand.status("VmRSS"))
    connection.close()
    assert back.digest() == digest.digest()
    assert highest - before < memory_limit(2 << 10), f"grew by {highest - before} kB"

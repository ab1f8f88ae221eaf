"""upload_file and download_files: what arrives, what is refused, and that memory stays flat."""

import io
import os
import re
import stat
import struct
import time
import uuid
import zipfile
import zlib

import pytest

from harness import memory_limit, needs_root, wait_until


def make_zip(entries, compression=zipfile.ZIP_STORED):
    """A zip of (name, data[, external attributes]) with names exactly as given."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        for name, data, *attributes in entries:
            info = zipfile.ZipInfo("x")
            info.filename = name
            info.compress_type = compression
            if attributes:
                info.external_attr = attributes[0]
                info.create_system = 3
            z.writestr(info, data)
    return out.getvalue()


def files_below(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if not p.is_dir())


# --- upload -------------------------------------------------------------------------------------


def test_single_file(shared, ws):
    reply = shared.upload("test_file.txt", b"Hello, World!", ws)
    assert reply.status == 200
    assert reply.json == {"filename": "test_file.txt", "destination": str(ws), "recursive": False}
    assert shared.ok(f"cat {ws}/test_file.txt") == "Hello, World!"
    assert not (ws / "test_file.txt").stat().st_mode & stat.S_IXUSR


def test_directory(shared, ws):
    archive = make_zip([("test_dir/file1.txt", b"one"), ("test_dir/sub/file2.txt", b"two")])
    reply = shared.upload("test_dir.zip", archive, ws, recursive="true")
    assert reply.status == 200
    assert reply.json == {"filename": "test_dir.zip", "destination": str(ws), "recursive": True}
    assert files_below(ws) == ["test_dir/file1.txt", "test_dir/sub/file2.txt"]
    assert (ws / "test_dir/sub/file2.txt").read_bytes() == b"two"


def test_zip_is_extracted_without_recursive(shared, ws):
    reply = shared.upload("a.zip", make_zip([("x.txt", b"x")]), ws)
    assert reply.status == 200 and reply.json["recursive"] is False
    assert files_below(ws) == ["x.txt"]


def test_deflated_zip(shared, ws):
    text = b"the same line again\n" * 20_000
    assert (
        shared.upload(
            "a.zip", make_zip([("t", text)], zipfile.ZIP_DEFLATED), ws, recursive="true"
        ).status
        == 200
    )
    assert (ws / "t").read_bytes() == text


def test_missing_destination_is_created(shared, ws):
    assert shared.upload("f", b"x", ws / "new/dir").status == 200
    assert (ws / "new/dir/f").read_bytes() == b"x"


def test_overwrite(shared, ws):
    (ws / "f").write_text("")
    assert shared.upload("f", b"new", ws).status == 200
    assert (ws / "f").read_bytes() == b"new"


def test_empty_file(shared, ws):
    assert shared.upload("empty", b"", ws).status == 200
    assert (ws / "empty").read_bytes() == b""


def test_binary_content_with_boundary_like_bytes(shared, ws):
    data = os.urandom(100_000) + b"\r\n--" + b"\r\n-\r\n--\r\n" * 1000 + bytes(range(256))
    assert shared.upload("blob", data, ws).status == 200
    assert (ws / "blob").read_bytes() == data


@pytest.mark.parametrize(
    "value, flag",
    [
        ("true", True),
        ("1", True),
        ("yes", True),
        ("True", True),
        ("on", True),
        ("false", False),
        ("0", False),
        ("no", False),
        ("False", False),
    ],
)
def test_recursive_spellings(shared, ws, value, flag):
    reply = shared.upload("a.zip", make_zip([("x", b"x")]), ws, recursive=value)
    assert reply.status == 200 and reply.json["recursive"] is flag


def test_recursive_nonsense(shared, ws):
    reply = shared.upload("a.zip", make_zip([("x", b"x")]), ws, recursive="maybe")
    assert reply.status == 422 and reply.detail == "Invalid request parameters"


def test_relative_destination(shared):
    reply = shared.upload("f", b"x", "relative/dir")
    assert (reply.status, reply.detail) == (500, "400: Destination must be an absolute path")


def test_recursive_needs_zip(shared, ws):
    reply = shared.upload("f.txt", b"x", ws, recursive="true")
    assert (reply.status, reply.detail) == (500, "400: Recursive uploads must be zip files")


def test_missing_part(shared, ws):
    reply = shared.upload("f.txt", b"x", ws, field="other")
    assert (reply.status, reply.detail) == (422, "Invalid request parameters")
    assert type(reply.json["errors"]) is str
    reply = shared.request(
        "POST",
        f"/upload_file?destination={ws}",
        b"",
        {"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert reply.status in (400, 415, 422) and reply.detail


def test_destination_is_a_file(shared, ws):
    (ws / "f").write_text("keep")
    reply = shared.upload("x", b"y", ws / "f")
    assert reply.status == 500 and reply.detail
    assert (ws / "f").read_text() == "keep"


@pytest.mark.parametrize(
    "name",
    ["../escape", "/etc/tendon-test-escape", "a/../../escape", "..", ".", "", "a\\..\\b", "sub/f"],
)
def test_hostile_file_names(shared, ws, name):
    inner = ws / "inner"
    inner.mkdir()
    reply = shared.upload(name, b"x", inner)
    outside = [p for p in files_below(ws) if not p.startswith("inner/")]
    assert outside == [] and not os.path.exists("/etc/tendon-test-escape"), reply
    if name in ("", ".", ".."):
        assert reply.status >= 400 and reply.detail


@pytest.mark.parametrize("name", ["with space.txt", "ünï漢.txt", "a'b.txt", "x;y.txt"])
def test_ordinary_odd_file_names(shared, ws, name):
    reply = shared.upload(name, b"x", ws)
    assert reply.status == 200 and reply.json["filename"] == name
    assert os.listdir(ws) == [name]


def test_link_at_the_name_is_not_followed_outside(shared, ws):
    (ws / "outside").write_text("keep")
    (ws / "in").mkdir()
    (ws / "in/f").symlink_to(ws / "outside")
    shared.upload("f", b"new", ws / "in")
    assert (ws / "outside").read_text() in ("keep", "new")  # same owner: either is defensible
    assert (ws / "in/f").exists()


@needs_root()
def test_uploads_belong_to_the_sandbox_user(start):
    hand = start(
        username="nobody", user_id=65534, env={"RUNTIME_USERNAME": "nobody", "SU_TO_USER": "true"}
    )
    assert hand.client.upload("f", b"x", hand.workspace / "new").status == 200
    archive = make_zip([("d/e", b"x")])
    assert hand.client.upload("a.zip", archive, hand.workspace).status == 200
    for path in ("new", "new/f", "d", "d/e"):
        assert (hand.workspace / path).stat().st_uid == 65534, path


# --- hostile archives ---------------------------------------------------------------------------


def refused(client, ws, archive, name="bad.zip"):
    """Uploads into ws/in; it must fail with a sentence and leave nothing anywhere."""
    inner = ws / "in"
    inner.mkdir(exist_ok=True)
    before = files_below(ws)
    reply = client.upload(name, archive, inner, recursive="true")
    assert reply.status >= 400, reply
    assert len(reply.detail) > 10
    assert files_below(ws) == before, "something was left half-extracted"
    return reply


@pytest.mark.parametrize(
    "name",
    [
        "../escape.txt",
        "a/../../escape.txt",
        "/abs.txt",
        "//abs.txt",
        "..",
        "a/..",
        "../",
        "ok/../../../etc/x",
        "./../x",
    ],
)
def test_zip_entry_that_leaves(shared, ws, name):
    refused(shared, ws, make_zip([("good.txt", b"good"), (name, b"evil")]))
    assert not os.path.exists("/abs.txt")


def test_zip_with_symlink_out(shared, ws):
    link = (stat.S_IFLNK | 0o777) << 16
    archive = make_zip([("link", b"/tmp", link), ("link/evil.txt", b"evil")])
    refused(shared, ws, archive)
    assert not os.path.exists("/tmp/evil.txt")


def test_zip_through_existing_symlink(shared, ws):
    (ws / "outside").mkdir()
    (ws / "in").mkdir()
    (ws / "in/link").symlink_to(ws / "outside")
    refused(shared, ws, make_zip([("good.txt", b"good"), ("link/evil.txt", b"evil")]))
    assert os.listdir(ws / "outside") == []


def test_zip_over_existing_symlink_file(shared, ws):
    (ws / "secret").write_text("keep")
    (ws / "in").mkdir()
    (ws / "in/f").symlink_to(ws / "secret")
    shared.upload("a.zip", make_zip([("f", b"new")]), ws / "in", recursive="true")
    assert (ws / "secret").read_text() == "keep"


@pytest.mark.parametrize(
    "name",
    [
        "nul\0byte",
        "new\nline",
        "esc\x1b[31m",
        "back\\slash\\..\\..\\x",
        "",
        "x" * 300,
        "a/" * 3000 + "f",
    ],
)
def test_zip_with_odd_names(shared, ws, name):
    inner = ws / "in"
    inner.mkdir()
    reply = shared.upload("odd.zip", make_zip([(name, b"x")]), inner, recursive="true")
    assert [p for p in files_below(ws) if not p.startswith("in/")] == []
    if reply.status == 200:
        assert len(files_below(inner)) <= 1
    else:
        assert reply.detail and files_below(inner) == []


def bomb(size):
    """A zip with one file of that many zero bytes in about a thousandth of it."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflate.compress(bytes(16 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH)
    data = block * (size // (16 << 20)) + zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(data), size, 4, 0)
    local = b"PK\3\4" + fields + b"zero" + data
    central = (
        b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"zero"
    )
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + end


def test_zip_bomb_by_ratio(shared, ws):
    small = zipfile.ZipFile(io.BytesIO(bomb(16 << 20))).infolist()[0]
    assert small.file_size == 16 << 20, "the bomb is well built"
    began = time.monotonic()
    reply = refused(shared, ws, bomb(2 << 30))
    assert re.search("larger|large|bomb|ratio", reply.detail), reply
    assert time.monotonic() - began < 10, "refused before it was unpacked"


def test_zip_that_lies_about_its_size(shared, ws):
    data = b"A" * 1_000_000
    archive = bytearray(make_zip([("lie", data)], zipfile.ZIP_DEFLATED))
    honest = struct.pack("<I", len(data))
    while honest in archive:
        at = archive.index(honest)
        archive[at : at + 4] = struct.pack("<I", 10)
    refused(shared, ws, bytes(archive))


def test_zip_with_overlapping_entries(shared, ws):
    """Many directory records over the same data: the classic non-recursive bomb."""
    archive = make_zip([("a", zlib.compress(b"x") * 1000)])
    end = archive.rindex(b"PK\5\6")
    central = archive.index(b"PK\1\2")
    record = archive[central:end]
    records = b"".join(record[:46] + bytes([c]) + record[47:] for c in range(97, 123))
    tail = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 26, 26, len(records), central, 0)
    inner = ws / "in"
    inner.mkdir()
    reply = shared.upload("o.zip", archive[:central] + records + tail, inner, recursive="true")
    assert reply.status >= 400 or len(files_below(inner)) <= 26
    if reply.status >= 400:
        assert files_below(inner) == []


def corrupt(kind):
    good = make_zip([("a.txt", b"hello world" * 50), ("b.txt", b"more" * 50)], zipfile.ZIP_DEFLATED)
    if kind == "no zip":
        return b"this is not a zip file at all"
    if kind == "empty":
        return b""
    if kind == "truncated":
        return good[: len(good) // 2]
    if kind == "crc":
        bad = bytearray(make_zip([("a.txt", b"hello world" * 50)]))
        bad[bad.index(b"hello")] ^= 1
        return bytes(bad)
    if kind == "method":
        bad = bytearray(good)
        at = bad.index(b"PK\1\2")
        struct.pack_into("<H", bad, at + 10, 99)
        struct.pack_into("<H", bad, 8, 99)
        return bytes(bad)
    if kind == "encrypted":
        bad = bytearray(good)
        struct.pack_into("<H", bad, 6, 1)
        struct.pack_into("<H", bad, bad.index(b"PK\1\2") + 8, 1)
        return bytes(bad)
    if kind == "end record lies":
        bad = bytearray(good)
        struct.pack_into("<H", bad, bad.rindex(b"PK\5\6") + 10, 60000)
        return bytes(bad)
    raise KeyError(kind)


@pytest.mark.parametrize(
    "kind", ["no zip", "empty", "truncated", "crc", "method", "encrypted", "end record lies"]
)
def test_broken_zip(shared, ws, kind):
    if (
        kind == "end record lies"
    ):  # the directory is readable up to its end: extracting what is there is fine
        inner = ws / "in"
        inner.mkdir()
        reply = shared.upload("b.zip", corrupt(kind), inner, recursive="true")
        assert files_below(inner) == ([] if reply.status >= 400 else ["a.txt", "b.txt"])
    else:
        refused(shared, ws, corrupt(kind))


def test_zip_with_many_small_files(shared, ws):
    archive = make_zip([(f"d{n % 10}/f{n}", b"x") for n in range(2000)])
    assert shared.upload("many.zip", archive, ws, recursive="true").status == 200
    assert len(files_below(ws)) == 2000


def test_zip_with_directory_entries_and_executables(shared, ws):
    archive = make_zip(
        [("d/", b""), ("d/run.sh", b"#!/bin/sh\n", (stat.S_IFREG | 0o755) << 16), ("empty/", b"")]
    )
    assert shared.upload("x.zip", archive, ws, recursive="true").status == 200
    assert (ws / "empty").is_dir()
    assert (ws / "d/run.sh").stat().st_mode & stat.S_IXUSR, "executable bits are kept"
    assert not (ws / "d/run.sh").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


def test_zip_with_setuid_bits(shared, ws):
    shared.upload(
        "x.zip", make_zip([("s", b"x", (stat.S_IFREG | 0o6755) << 16)]), ws, recursive="true"
    )
    if (ws / "s").exists():
        assert not (ws / "s").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


# --- download -----------------------------------------------------------------------------------


def test_download(shared, ws):
    top = ws / "top"
    (top / "sub/.deep").mkdir(parents=True)
    (top / "empty-dir").mkdir()
    (top / "a.txt").write_text("a")
    (top / ".hidden").write_text("h")
    (top / "sub/.deep/b.bin").write_bytes(os.urandom(5000))
    (top / "ünï.txt").write_text("u")
    reply = shared.download(top)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/zip"
    assert reply.headers["content-disposition"] == 'attachment; filename="top.zip"'
    assert int(reply.headers["content-length"]) == len(reply.body)
    with zipfile.ZipFile(io.BytesIO(reply.body)) as z:
        assert z.testzip() is None
        assert sorted(z.namelist()) == [".hidden", "a.txt", "sub/.deep/b.bin", "ünï.txt"]
        assert z.read("sub/.deep/b.bin") == (top / "sub/.deep/b.bin").read_bytes()
        assert all(i.compress_type == zipfile.ZIP_STORED for i in z.infolist())


def test_download_empty_directory(shared, ws):
    reply = shared.download(ws)
    assert reply.status == 200
    with zipfile.ZipFile(io.BytesIO(reply.body)) as z:
        assert z.namelist() == []


def test_download_of_one_file(shared, ws):
    (ws / "one.txt").write_text("1")
    reply = shared.download(ws / "one.txt")
    assert reply.status == 200
    with zipfile.ZipFile(io.BytesIO(reply.body)) as z:
        assert z.namelist() in ([], ["one.txt"])


def test_download_errors(shared):
    reply = shared.download("relative/path")
    assert (reply.status, reply.detail) == (500, "400: Path must be an absolute path")
    reply = shared.download("/nonexistent/path")
    assert (reply.status, reply.detail) == (500, "404: File not found")
    reply = shared.get("/download_files")
    assert (reply.status, reply.detail) == (422, "Invalid request parameters")


def test_download_with_special_files(shared, ws):
    """Links, pipes and sockets neither hang nor lead out."""
    os.mkfifo(ws / "pipe")
    (ws / "loop").symlink_to(ws)
    (ws / "dangling").symlink_to("nowhere")
    (ws / "f").write_text("x")
    reply = shared.download(ws)
    assert reply.status == 200
    with zipfile.ZipFile(io.BytesIO(reply.body)) as z:
        assert z.namelist() == ["f"]


def test_download_disposition_cannot_be_broken(shared, ws):
    odd = ws / 'na"me\r\nX-Evil: 1'
    odd.mkdir()
    (odd / "f").write_text("x")
    reply = shared.download(odd)
    assert reply.status == 200 and reply.headers["X-Evil"] is None
    assert reply.headers["content-disposition"].startswith("attachment; filename")


def test_download_in_one_name_space_with_upload(shared, ws):
    archive = make_zip([("d/a", b"1"), ("d/b/c", b"2")])
    shared.upload("d.zip", archive, ws, recursive="true")
    reply = shared.download(ws)
    with zipfile.ZipFile(io.BytesIO(reply.body)) as z:
        assert {n: z.read(n) for n in z.namelist()} == {"d/a": b"1", "d/b/c": b"2"}


def test_download_survives_a_file_that_changes(hand):
    client = hand.client
    (hand.workspace / "big").write_bytes(os.urandom(1 << 20))
    client.ok("(while :; do head -c $((RANDOM * 30)) /dev/zero > moving; done) >/dev/null 2>&1 &")
    for _ in range(5):
        reply = client.download(hand.workspace)
        assert reply.status == 200 and int(reply.headers["content-length"]) == len(reply.body)
    client.run("kill %1")


# --- size ---------------------------------------------------------------------------------------


def stream_upload(client, size, destination, name="big.bin"):
    """Sends zero bytes without holding them; returns the status."""
    boundary = uuid.uuid4().hex
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    tail = f"\r\n--{boundary}--\r\n".encode()
    connection = client.connection(timeout=250)
    connection.putrequest("POST", f"/upload_file?destination={destination}")
    connection.putheader("Content-Type", f"multipart/form-data; boundary={boundary}")
    connection.putheader("Content-Length", str(len(head) + size + len(tail)))
    connection.endheaders()
    connection.send(head)
    block = bytes(1 << 20)
    for _ in range(size >> 20):
        connection.send(block)
    connection.send(tail)
    status = connection.getresponse().status
    connection.close()
    return status


def stream_download(client, path):
    connection = client.connection(timeout=250)
    connection.request("GET", f"/download_files?path={path}")
    response = connection.getresponse()
    total = 0
    while block := response.read(1 << 20):
        total += len(block)
    connection.close()
    return response.status, total


def peak(hand):
    """High-water mark of the resident memory in kB, started anew by reset."""
    return hand.status("VmHWM")


def reset_peak(hand):
    with open(f"/proc/{hand.pid}/clear_refs", "w") as f:
        f.write("5")


def transfer(hand, size):
    warm = hand.workspace / "warm"
    assert stream_upload(hand.client, 1 << 20, warm) == 200
    assert stream_download(hand.client, warm)[0] == 200
    reset_peak(hand)
    before = hand.status("VmRSS")
    there = hand.workspace / "there"
    assert stream_upload(hand.client, size, there) == 200
    assert (there / "big.bin").stat().st_size == size
    status, total = stream_download(hand.client, there)
    assert status == 200 and total > size
    growth = peak(hand) - before
    assert growth < memory_limit(8 * 1024), f"grew by {growth} kB"
    (there / "big.bin").unlink()
    wait_until(lambda: not list(hand.tmp.rglob("*.zip")), what="temporary archive removed")


def test_memory_with_64_megabytes(hand):
    transfer(hand, 64 << 20)


@pytest.mark.slow
def test_memory_with_one_gigabyte(hand):
    transfer(hand, 1 << 30)


def test_interrupted_upload_leaves_nothing(hand):
    boundary = "b"
    s = hand.client.socket()
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="half.bin"\r\n\r\n'
    ).encode()
    s.sendall(
        (
            f"POST /upload_file?destination={hand.workspace} HTTP/1.1\r\nHost: "
            "x\r\nContent-Length: 1000000\r\n"
            f"Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n"
        ).encode()
        + head
        + b"x" * 100_000
    )
    wait_until(lambda: hand.client.get("/alive").status == 200)
    s.close()
    wait_until(lambda: os.listdir(hand.workspace) == [], what="half-written file removed")


def test_interrupted_download_leaves_nothing(hand):
    (hand.workspace / "big").write_bytes(bytes(20 << 20))
    s = hand.client.socket()
    s.sendall(f"GET /download_files?path={hand.workspace} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert s.recv(1000)
    before = hand.descriptors()
    s.close()
    wait_until(lambda: hand.descriptors() < before, 10, "descriptors released")
    assert hand.client.get("/alive").status == 200

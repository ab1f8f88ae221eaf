"""Archives against independent programs: Python's zipfile and Info-ZIP's unzip read what zip-write makes,
and zip-read meets archives that nobody should make."""

import io
import os
import random
import shutil
import socket
import stat
import struct
import subprocess
import zipfile
import zlib

import pytest

from trees import BUILD, program


@pytest.fixture
def pack(tmp_path):
    def run(path):
        out = tmp_path / "packed.zip"
        with open(out, "wb") as f:
            done = subprocess.run([program(BUILD, "tests/unit/file/zip-pack"), path], stdout=f, stderr=subprocess.PIPE, text=True)
            f.truncate()
        assert done.returncode == 0, done.stderr
        return out

    return run


@pytest.fixture
def unpack(tmp_path):
    """Returns what the program said when it refused, None when it did not."""

    def run(archive, dest, *limits):
        path = tmp_path / "archive.zip"
        path.write_bytes(archive)
        done = subprocess.run(
            [program(BUILD, "tests/unit/file/zip-unpack"), path, dest, *map(str, limits)], capture_output=True, text=True
        )
        assert done.returncode in (0, 1), done.stderr
        assert not os.path.lexists(dest / ".tendon-staging")
        return done.stderr.strip() if done.returncode else None

    return run


@pytest.fixture
def dest(tmp_path):
    path = tmp_path / "dest"
    path.mkdir()
    return path


def tree_of(path):
    """Relative name: contents, of every regular file."""
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file() and not p.is_symlink()}


def zip_of(entries, **options):
    """An archive of (name or ZipInfo, bytes) pairs."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, **options) as z:
        for name, data in entries:
            z.writestr(name, data)
    return out.getvalue()


def with_mode(name, mode):
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16 | 0x20  # without any bit Python would put 0600
    return info


# --- what zip-write makes ---------------------------------------------------------------------------


@pytest.fixture
def sample(tmp_path):
    root = tmp_path / "sample"
    rng = random.Random(1)
    for name, size in {
        "empty": 0,
        "small.txt": 12,
        ".hidden/.deep/file": 1000,
        "dir with space/grün.txt": 65536,
        "large": 1_000_003,
        "a/b/c/d/e": 65535,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(size))
    (root / "small.txt").chmod(0o755)
    (root / "no files").mkdir()
    return root


def test_python_reads_it(sample, pack):
    with zipfile.ZipFile(pack(sample)) as z:
        assert z.testzip() is None
        assert {i.filename: z.read(i) for i in z.infolist()} == tree_of(sample)
        assert all(i.compress_type == zipfile.ZIP_STORED for i in z.infolist())
        assert z.getinfo("small.txt").external_attr >> 16 == stat.S_IFREG | 0o755


def test_unzip_reads_it(sample, pack, dest):
    archive = pack(sample)
    test = subprocess.run(["unzip", "-t", archive], capture_output=True, text=True)
    assert test.returncode == 0, test.stdout + test.stderr
    subprocess.run(["unzip", "-q", archive, "-d", dest], check=True, env={"LC_ALL": "C.UTF-8"})
    assert tree_of(dest) == tree_of(sample)
    assert (dest / "small.txt").stat().st_mode & 0o777 == 0o755


def test_our_own_reader_reads_it(sample, pack, unpack, dest):
    assert unpack(pack(sample).read_bytes(), dest) is None
    assert tree_of(dest) == tree_of(sample)


def test_empty_directory(tmp_path, pack, unpack, dest):
    (tmp_path / "nothing").mkdir()
    archive = pack(tmp_path / "nothing")
    assert zipfile.ZipFile(archive).namelist() == []
    assert unpack(archive.read_bytes(), dest) is None


def test_one_file(sample, pack):
    assert zipfile.ZipFile(pack(sample / "large")).namelist() == ["large"]


def test_old_and_odd_times(sample, pack):
    os.utime(sample / "empty", (0, 0))
    os.utime(sample / "large", (5_000_000_000, 5_000_000_000))
    dates = {i.filename: i.date_time for i in zipfile.ZipFile(pack(sample)).infolist()}
    assert dates["empty"] == (1980, 1, 1, 0, 0, 0)
    assert dates["large"][0] == 2107


def test_name_that_is_not_utf8(tmp_path, pack, dest):
    (tmp_path / "odd").mkdir()
    with open(os.fsencode(tmp_path / "odd") + b"/caf\x82", "wb") as f:
        f.write(b"x")
    assert zipfile.ZipFile(pack(tmp_path / "odd")).namelist() == ["café"]  # code page 437


def test_refusals(tmp_path):
    zip_pack = program(BUILD, "tests/unit/file/zip-pack")
    for path, want in {
        "relative": "400: Path must be an absolute path",
        str(tmp_path / "missing"): "404: File not found",
    }.items():
        done = subprocess.run([zip_pack, path], capture_output=True, text=True)
        assert (done.returncode, done.stderr.strip()) == (1, want)


@pytest.mark.slow
def test_more_than_65535_files(tmp_path, pack):
    root = tmp_path / "many"
    root.mkdir()
    for i in range(66_000):
        (root / str(i)).touch()
    with zipfile.ZipFile(pack(root)) as z:
        assert len(z.namelist()) == 66_000


@pytest.mark.slow
def test_more_than_four_gigabytes(tmp_path, pack):
    root = tmp_path / "huge"
    root.mkdir()
    size = 4 * 1024**3 + 100
    for name in "ab":
        with open(root / name, "wb") as f:
            f.truncate(size)
            f.write(b"start of " + name.encode())
    archive = pack(root)
    with zipfile.ZipFile(archive) as z:
        assert sorted(z.namelist()) == ["a", "b"]
        for info in z.infolist():
            assert info.file_size == size
            with z.open(info) as f:
                assert f.read(10) == b"start of " + info.filename.encode()
    listing = subprocess.run(["unzip", "-l", archive], capture_output=True, text=True, check=True).stdout
    assert str(2 * size) in listing


# --- what zip-read takes ----------------------------------------------------------------------------


def test_unpacks_what_hosts_send(unpack, dest):
    archive = zip_of([("project/a.txt", b"one"), ("project/sub/b.txt", b"two" * 100_000), ("project/e/", b"")])
    assert unpack(archive, dest) is None
    assert tree_of(dest) == {"project/a.txt": b"one", "project/sub/b.txt": b"two" * 100_000}
    assert (dest / "project/e").is_dir()
    assert (dest / "project").stat().st_mode & 0o777 == 0o755


def test_info_zip_as_writer(unpack, dest, tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub/x").write_bytes(b"x" * 5000)
    subprocess.run(["zip", "-qr", tmp_path / "z.zip", "sub"], check=True, cwd=source)
    assert unpack((tmp_path / "z.zip").read_bytes(), dest) is None
    assert tree_of(dest) == {"sub/x": b"x" * 5000}


def test_streamed_archive(unpack, dest):
    """With data descriptors, as a writer that cannot seek makes them."""

    class Pipe(io.RawIOBase):
        def __init__(self):
            self.bytes = b""

        def writable(self):
            return True

        def write(self, data):
            self.bytes += bytes(data)
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a", b"a" * 1000)
    assert unpack(pipe.bytes, dest) is None
    assert tree_of(dest) == {"a": b"a" * 1000}


def test_modes(unpack, dest):
    entries = [
        (with_mode("run", stat.S_IFREG | 0o755), b""),
        (with_mode("private", stat.S_IFREG | 0o600), b""),
        (with_mode("setuid", stat.S_IFREG | 0o4755), b""),
        (with_mode("readonly", stat.S_IFREG | 0o444), b""),
        (with_mode("none", 0), b""),
    ]
    assert unpack(zip_of(entries), dest) is None
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in dest.iterdir()}
    assert modes == {"run": 0o755, "private": 0o600, "setuid": 0o755, "readonly": 0o644, "none": 0o644}


def test_merges_and_replaces(unpack, dest):
    (dest / "d/sub").mkdir(parents=True)
    (dest / "d/keep").write_text("kept")
    (dest / "d/old").write_text("old")
    (dest / "target").write_text("not touched")
    (dest / "d/link").symlink_to(dest / "target")
    assert unpack(zip_of([("d/old", b"new"), ("d/sub/x", b"x"), ("d/link", b"a file"), ("new/y", b"y")]), dest) is None
    assert tree_of(dest) == {
        "d/keep": b"kept",
        "d/old": b"new",
        "d/sub/x": b"x",
        "d/link": b"a file",
        "new/y": b"y",
        "target": b"not touched",
    }


def test_another_mount_below_the_destination(dest, tmp_path):
    """A rename cannot go there: the files are copied."""
    (dest / "mount").mkdir()
    archive = tmp_path / "a.zip"
    archive.write_bytes(zip_of([(with_mode("mount/d/run", stat.S_IFREG | 0o750), b"new"), ("mount/old", b"new")]))
    script = """mount -t tmpfs none mount || exit 77
        echo old > mount/old && "$0" "$1" . && cat mount/old mount/d/run && stat -c %a mount/d/run mount/d && ls -A . mount"""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, program(BUILD, "tests/unit/file/zip-unpack"), archive],
        cwd=dest,
        capture_output=True,
        text=True,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no right to mount here")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["newnew750", "755", ".:", "mount", "mount:", "d", "old"]


def test_code_page_437(unpack, dest):
    archive = zip_of([("cafX", b"x")]).replace(b"cafX", b"caf\x82")
    assert unpack(archive, dest) is None
    assert os.listdir(dest) == ["café"]


def test_64_bit_forms(unpack, dest):
    """Sizes, offset, and the end in the form that archives over 4 GiB have."""
    crc = zlib.crc32(b"hello")
    big = (0xFFFFFFFF, 0xFFFFFFFF)
    sizes = struct.pack("<2H2Q", 1, 16, 5, 5)
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 0, 0, 0, crc, *big, 1, len(sizes)) + b"a" + sizes + b"hello"
    extra = struct.pack("<2H4s2H3Q", 0x7777, 4, b"skip", 1, 24, 5, 5, 0)
    central = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, 0, 0, 0, crc, *big, 1, len(extra), 0, 0, 0, 0, 0xFFFFFFFF
    )
    central += b"a" + extra
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(central), len(local))
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(local) + len(central), 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, *big, 0)
    archive = local + central + wide + locator + end
    assert zipfile.ZipFile(io.BytesIO(archive)).read("a") == b"hello"
    assert unpack(archive, dest) is None
    assert tree_of(dest) == {"a": b"hello"}


def test_something_before_and_a_comment_after(unpack, dest):
    out = io.BytesIO(b"#!/bin/sh\necho self-extracting\n")
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "a") as z:
        z.writestr("a", b"hello")
        z.comment = b"a comment " * 1000
    assert unpack(out.getvalue(), dest) is None
    assert tree_of(dest) == {"a": b"hello"}


# --- what it refuses --------------------------------------------------------------------------------


def refused(unpack, dest, archive, *limits):
    """The reason; nothing at all may have been written."""
    before = sorted(map(str, dest.rglob("*")))
    reason = unpack(archive, dest, *limits)
    assert reason is not None
    assert sorted(map(str, dest.rglob("*"))) == before
    return reason


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a/../../evil",
        "/etc/evil",
        "//evil",
        "a\\..\\evil",
        "C:evil",
        "C:/evil",
        "a/./evil",
        "a//evil",
        "evil\x01",
        "evil\x1b[2J",
        "evil\x7f",
        "x" * 256,
        "/".join("d" * 150),
        "a/" * 3000,
        "..",
        "../",
        "/",
    ],
)
def test_bad_names(name, unpack, dest):
    assert refused(unpack, dest, zip_of([("good", b"1"), (name, b"evil")]))
    assert not (dest.parent / "evil").exists()


def test_name_with_nul(unpack, dest):
    archive = zip_of([("evilX.txt", b"1")]).replace(b"evilX", b"evil\0")
    assert "control characters" in refused(unpack, dest, archive)


def test_name_that_claims_utf8(unpack, dest):
    archive = zip_of([("gr\u00fcn", b"1")]).replace("ü".encode(), b"\xff\xff")
    assert "not UTF-8" in refused(unpack, dest, archive)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
def test_special_entries(kind, unpack, dest):
    archive = zip_of([(with_mode("x", kind | 0o777), b"/etc/passwd")])
    assert refused(unpack, dest, archive).startswith("400: zip: x is ")


def test_link_in_the_archive_that_a_later_entry_passes(unpack, dest, tmp_path):
    archive = zip_of([(with_mode("d", stat.S_IFLNK | 0o777), str(tmp_path)), ("d/evil", b"1")])
    assert "symbolic link" in refused(unpack, dest, archive)
    assert not (tmp_path / "evil").exists()


def test_link_in_the_destination(unpack, dest, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (dest / "d").symlink_to(tmp_path / "elsewhere")
    assert "d exists and is not a directory" in refused(unpack, dest, zip_of([("a", b"1"), ("d/evil", b"1")]))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def put_socket(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))


THERE = {
    "a FIFO": os.mkfifo,
    "a socket": put_socket,
    "a link to a FIFO": lambda path: (os.mkfifo(f"{path}.fifo"), path.symlink_to(f"{path}.fifo")),
    "a link to itself": lambda path: path.symlink_to(path),
    "another name of a FIFO": lambda path: (os.mkfifo(f"{path}.fifo"), os.link(f"{path}.fifo", path)),
}


@pytest.mark.parametrize("there", THERE)
def test_over_other_kinds_of_files(there, unpack, dest):
    """A file takes their place, a directory does not; nobody waits for them or writes through them."""
    THERE[there](dest / "x")
    assert "x exists and is not a directory" in refused(unpack, dest, zip_of([("a", b"1"), ("x/y", b"1")]))
    assert unpack(zip_of([("x", b"new")]), dest) is None
    assert stat.S_ISREG((dest / "x").lstat().st_mode) and (dest / "x").read_bytes() == b"new"


def test_file_where_a_directory_is_needed_and_the_other_way(unpack, dest):
    (dest / "f").write_text("file")
    (dest / "d/sub").mkdir(parents=True)
    assert "409" in refused(unpack, dest, zip_of([("a", b"1"), ("f/x", b"1")]))
    assert "409" in refused(unpack, dest, zip_of([("a", b"1"), ("d/sub", b"1")]))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicates(unpack, dest):
    assert "there twice" in refused(unpack, dest, zip_of([("a", b"1"), ("a", b"2")]))
    assert "file and a directory" in refused(unpack, dest, zip_of([("a", b"1"), ("a/b", b"2")]))
    assert "there twice" in refused(unpack, dest, zip_of([("a/b", b"1"), ("a", b"2")]))


def test_encrypted(unpack, dest, tmp_path):
    (tmp_path / "secret").write_text("secret")
    subprocess.run(["zip", "-q", "-P", "key", "e.zip", "secret"], check=True, cwd=tmp_path)
    assert refused(unpack, dest, (tmp_path / "e.zip").read_bytes()) == "501: zip: secret is encrypted"


def test_unknown_method(unpack, dest):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as z:
        z.writestr("a", b"1" * 100)
    assert "method 14" in refused(unpack, dest, out.getvalue())


def test_limits(unpack, dest):
    archive = zip_of([("zeros", b"\0" * 1_000_000), ("b", b"1")])
    assert refused(unpack, dest, archive, 999_999, 10, 0, 0).startswith("413: zip: its files have more than")
    assert refused(unpack, dest, archive, 2_000_000, 1, 0, 0) == "413: zip: more than 1 entries"
    assert "times larger" in refused(unpack, dest, archive, 2_000_000, 10, 100, 1000)
    assert unpack(archive, dest, 2_000_000, 10, 100, 2_000_000) is None


def test_no_room_on_the_disk(unpack, dest):
    """Headers that claim more than the disk has, in their 64-bit form."""
    size = shutil.disk_usage(dest).free + 10**9
    extra = struct.pack("<2H2Q", 1, 16, size, 2)
    big = (0xFFFFFFFF, 0xFFFFFFFF)
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 8, 0, 0, 0, *big, 3, 20) + b"big" + extra + b"xx"
    central = struct.pack("<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, 8, 0, 0, 0, *big, 3, 20, 0, 0, 0, 0, 0)
    central += b"big" + extra
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local), 0)
    reason = refused(unpack, dest, local + central + end, 2 * size, 10, 0, 0)
    assert reason.endswith("No space left on device")


def test_wrong_checksum(unpack, dest):
    archive = zip_of([("a", b"1"), ("b", b"0123456789" * 50)])
    data = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = data.compress(b"0123456789" * 50) + data.flush()
    other = zlib.compressobj(6, zlib.DEFLATED, -15)
    forged = other.compress(b"0123456780" * 50) + other.flush()
    assert len(packed) == len(forged) and packed in archive
    assert "checksum" in refused(unpack, dest, archive.replace(packed, forged))


def test_two_names_for_one_entry(unpack, dest):
    archive = zip_of([("aaaa", b"1")])
    at = archive.index(b"aaaa")
    assert "two names" in refused(unpack, dest, archive[:at] + b"bbbb" + archive[at + 4 :])


def test_local_header_with_another_size(unpack, dest):
    archive = bytearray(zip_of([("aaaa", b"1" * 100)]))
    archive[22:26] = struct.pack("<L", 99)
    assert "does not agree" in refused(unpack, dest, bytes(archive))


def test_size_that_is_a_lie(unpack, dest):
    """Both headers say less, or more, than the data unpacks to."""
    for lie in (50, 200):
        archive = bytearray(zip_of([("aaaa", b"1" * 100)]))
        central = archive.index(b"PK\1\2")
        archive[22:26] = struct.pack("<L", lie)
        archive[central + 24 : central + 28] = struct.pack("<L", lie)
        refused(unpack, dest, bytes(archive))


def test_overlapping_entries(unpack, dest):
    """Every entry of the directory points to the same data: small on disk, huge unpacked."""
    archive = zip_of([("a", os.urandom(100_000))])
    central = archive.index(b"PK\1\2")
    end = archive.index(b"PK\5\6")
    record = archive[central:end]
    count = 50
    body = archive[:central] + record * count
    tail = bytearray(archive[end:])
    tail[8:12] = struct.pack("<2H", count, count)
    tail[12:16] = struct.pack("<L", len(record) * count)
    assert "overlap" in refused(unpack, dest, body + bytes(tail))


@pytest.mark.parametrize("seed", range(3))
def test_damaged_archives(seed, unpack, dest, tmp_path):
    """Cut and changed anywhere: refused or unpacked, never anything outside, never a crash."""
    rng = random.Random(seed)
    whole = zip_of([(f"d{i}/f{i}", rng.randbytes(200)) for i in range(5)])
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.3:
            damaged = damaged[: rng.randrange(len(damaged))]
        unpack(bytes(damaged), dest)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive.zip", "dest"]


def test_not_an_archive(unpack, dest):
    for junk in (b"", b"PK", b"hello" * 1000, b"PK\5\6" + b"\xff" * 18):
        assert refused(unpack, dest, junk).startswith("400: zip: ")

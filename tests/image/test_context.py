"""Build contexts, read back by Python's own tar, gzip and base64."""

import base64
import gzip
import io
import os
import socket
import subprocess
import tarfile

import pytest

from trees import BUILD, program


@pytest.fixture
def dump():
    path = program(BUILD, "tests/unit/image/context-dump")

    def run(kind, dockerfile, *directory):
        return subprocess.run([path, kind, dockerfile, *directory], check=True, capture_output=True, timeout=60).stdout

    return run


def make_tree(root):
    (root / "code").mkdir()
    (root / "code" / "run.sh").write_text("#!/bin/sh\n")
    os.chmod(root / "code" / "run.sh", 0o755)
    (root / "empty").touch()
    (root / "large").write_bytes(os.urandom(300_001))
    (root / "Dockerfile").write_text("FROM other\n")
    (root / "link").symlink_to("code/run.sh")
    (root / "outside").symlink_to("/etc/passwd")
    deep = root / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    (deep / ("f" * 200)).write_text("deep\n")
    (root / "far").symlink_to("x" * 300)
    os.mkfifo(root / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(root / "sock"))
    listener.close()


def contents(tar):
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return {
            m.name: (m.mode, m.linkname if m.issym() else archive.extractfile(m).read() if m.isfile() else None)
            for m in archive
        }


def test_dockerfile_alone(dump):
    assert contents(dump("tar", "FROM scratch\n")) == {"Dockerfile": (0o644, b"FROM scratch\n")}


def test_tree(dump, tmp_path):
    make_tree(tmp_path)
    got = contents(dump("tar", "FROM scratch\n", tmp_path))
    deep = "d" * 90 + "/" + "e" * 90
    assert got["Dockerfile"] == (0o644, b"FROM scratch\n")
    assert got["code/run.sh"] == (0o755, b"#!/bin/sh\n")
    assert got["empty"][1] == b""
    assert got["large"][1] == (tmp_path / "large").read_bytes()
    assert got["link"][1] == "code/run.sh"
    assert got["outside"][1] == "/etc/passwd"
    assert got["far"][1] == "x" * 300
    assert got[deep + "/" + "f" * 200][1] == b"deep\n"
    assert "fifo" not in got and "sock" not in got


def test_packed_is_the_same(dump, tmp_path):
    make_tree(tmp_path)
    packed = dump("packed", "FROM scratch\n", tmp_path)
    assert contents(gzip.decompress(base64.b64decode(packed, validate=True))) == contents(
        dump("tar", "FROM scratch\n", tmp_path)
    )


def test_missing_directory(tmp_path):
    result = subprocess.run(
        [program(BUILD, "tests/unit/image/context-dump"), "tar", "x", tmp_path / "none"], capture_output=True, text=True
    )
    assert result.returncode == 1 and "No such file" in result.stderr

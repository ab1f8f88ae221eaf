"""What the images are made of: a tar with busybox alone, and a minimal Debian that is made once."""

import fcntl
import io
import os
import pathlib
import shutil
import struct
import subprocess
import tarfile
import tempfile

import pytest

SUITE = "bookworm"
# Of the Debian image: a shell that keeps it finds what is in its first directory.
IMAGE_PATH = "/opt/tool/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Nothing that a test could miss.
LEFT_OUT = (
    "dev/*",
    "usr/share/doc/*",
    "usr/share/locale/*",
    "var/cache/apt/*",
    "var/lib/apt/lists/*",
)


def is_static(path):
    """Whether a 64-bit little-endian program runs without any other file."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:6] != b"\x7fELF\2\1":
        return False
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    kinds = {struct.unpack_from("<I", data, start + i * size)[0] for i in range(count)}
    return 3 not in kinds  # PT_INTERP


def busybox_tar(path):
    """Writes a tar of two names: busybox, and sh as a link to it."""
    busybox = shutil.which("busybox")
    if not busybox or not is_static(busybox):
        pytest.skip("busybox-static is not installed")
    with tarfile.open(path, "w") as tar:
        tar.add(busybox, "bin/busybox")
        link = tarfile.TarInfo("bin/sh")
        link.type = tarfile.SYMTYPE
        link.linkname = "busybox"
        tar.addfile(link)
    return path


def box_tar(path):
    """Writes a tar of busybox and a user database."""
    busybox_tar(path)
    with tarfile.open(path, "a") as tar:
        for name, text in (("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n")):
            info = tarfile.TarInfo(f"etc/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def thin_tar(path, files):
    """Writes a tar of a system whose programs are those of a /usr that is mounted, with these files below /etc/ssl."""
    texts = {"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n"}
    texts |= {f"ssl/{name}": text for name, text in files.items()}
    with tarfile.open(path, "w") as tar:
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        for name, text in texts.items():
            info = tarfile.TarInfo(f"etc/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def script_tar(path, name, script):
    """Writes a tar of one executable script."""
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(script), 0o755
        tar.addfile(info, io.BytesIO(script))
    return path


def archive():
    """Where this machine gets the packages of that suite from; None: wherever debootstrap does."""
    if not shutil.which("apt-get"):
        return None
    found = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
        + [f"Codename: {SUITE}", "Created-By: Packages"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return (found.stdout.split() or [None])[0]


def make_debian(path):
    root = pathlib.Path(tempfile.mkdtemp(prefix="making-", dir=path.parent))
    source = archive()
    try:
        # Its mounts are private: none is left, however it ends.
        made = subprocess.run(
            ["timeout", "900", "unshare", "--mount"]
            + [
                "debootstrap",
                "--variant=minbase",
                SUITE,
                f"{root}/tree",
                *([source] if source else []),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if made.returncode != 0:
            pytest.skip(f"debootstrap failed with {made.returncode}: {made.stdout[-500:]}")
        exclude = [f"--exclude=./{pattern}" for pattern in LEFT_OUT]
        subprocess.run(
            ["tar", "-C", f"{root}/tree", *exclude, "-cf", root / "tar", "."], check=True
        )
        os.rename(root / "tar", path)
    finally:
        shutil.rmtree(root)


def debian_tar():
    """Path of the tar of a minimal Debian, kept in the user's cache directory."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    directory = cache / "tendon-tests"
    path = directory / f"debian-{SUITE}-{os.uname().machine}.tar"
    if path.exists():
        return path
    if not shutil.which("debootstrap"):
        pytest.skip("debootstrap is not installed")
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in directory.glob("making-*"):  # by one that was killed
            shutil.rmtree(stale)
        if not path.exists():
            make_debian(path)
    return path

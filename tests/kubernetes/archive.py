"""Images without a registry: docker archives that containerd imports."""

import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "docker"))

from images import box_tar  # noqa: E402

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
APPLETS = ("cat", "chmod", "cp", "echo", "env", "id", "ls", "mkdir", "rm", "sleep", "sh", "true", "wget")


def python_layer(path):
    """busybox, and of this machine's Python what a client of networks needs."""
    code = (
        "import ctypes, encodings.idna, glob, json, ssl, urllib.request, sys\n"
        "print(*(m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', None)), sep='\\n')"
    )
    modules = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True).stdout.split()
    files = {os.path.realpath(sys.executable), *modules}
    for file in [f for f in files if f.endswith(".so")] + [sys.executable]:
        linked = subprocess.run(["ldd", file], check=True, capture_output=True, text=True).stdout
        files.update(word for word in linked.split() if word.startswith("/"))
    box_layer(path)
    with tarfile.open(path, "a", dereference=True) as tar:
        for file in sorted(files):
            tar.add(file, file[1:])
        link = tarfile.TarInfo("bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, os.path.realpath(sys.executable)
        tar.addfile(link)
    return path


def box_layer(path):
    """busybox with a few of its names."""
    layer = box_tar(path)
    with tarfile.open(layer, "a") as tar:
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return layer


def write_image(path, name, layer=None, command=(), env=()):
    """An image of one layer, a tar; without one: busybox with a few of its names."""
    layer = layer or box_layer(path.with_suffix(".layer"))
    with open(layer, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = json.dumps({
        "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *env]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    })  # fmt: skip
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}])
    with tarfile.open(path, "w") as tar:
        for member, text in (("config.json", config), ("manifest.json", manifest)):
            info = tarfile.TarInfo(member)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
        tar.add(layer, "layer.tar")
    return path

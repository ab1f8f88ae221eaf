"""Images without a registry: docker archives that containerd imports."""

import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "docker"))

from images import box_tar  # noqa: E402

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
APPLETS = ("cat", "chmod", "cp", "echo", "env", "id", "ls", "mkdir", "rm", "sleep", "sh", "true", "wget")


def write_image(path, name, layer=None, command=(), env=()):
    """An image of one layer, a tar; without one: busybox with a few of its names."""
    if layer is None:
        layer = box_tar(path.with_suffix(".layer"))
        with tarfile.open(layer, "a") as tar:
            for applet in APPLETS:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
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

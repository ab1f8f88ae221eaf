"""Sandboxes of the jail backend, as root and as an ordinary user; see tests/runtime/conformance.py."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "runtime"))

from conformance import Sandbox, World  # noqa: E402
from trees import RELEASE, program  # noqa: E402

NOBODY = 65534
APPLETS = "cat cp echo env grep head id kill ln ls mkdir mv pwd rm sh sleep sort stat tail touch true wc whoami".split()
CGROUPS = [
    path
    for path in map(pathlib.Path, ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/freezer"))
    if path.is_dir()
]


class JailWorld(World):
    """user: everybody in it is that user; memory of what it made is checked at the end."""

    def __init__(self, user=None, runsc=None):
        super().__init__("jail")
        self.user = user
        if runsc:
            self.spec, self.settings = {"isolation": "gvisor"}, {"jail.runsc": str(runsc)}
        self.base.chmod(0o755)
        if user:
            for path in (self.base, *self.base.iterdir()):
                os.chown(path, user, user)
            script = self.base / "driver"
            words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", str(self.driver)]
            script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            script.chmod(0o755)
            self.driver = script

    @property
    def layers(self):
        store = self.state / "layers"
        return sorted(path.name for path in store.iterdir()) if store.exists() else []

    def groups(self):
        """Control groups that carry an id of this world."""
        return [str(path) for top in CGROUPS for path in (top / "tendon").glob(f"{self.mark}*")]

    def fork(self, box, name=None, **spec):
        child = self.new(box.driver, create=False, **spec)
        box("fork", name=name, child=child.id)
        return child

    def finish(self):
        layers = None
        groups = None
        original = shutil.rmtree

        def look_first(path, **kw):
            nonlocal layers, groups
            layers, groups = self.layers, self.groups()
            original(path, **kw)

        shutil.rmtree = look_first
        try:
            super().finish()
        finally:
            shutil.rmtree = original
        assert not layers, f"layers are left: {layers}"
        assert not groups, f"control groups are left: {groups}"


# --- images ------------------------------------------------------------------------------------------


def static_hand():
    """Images without libraries need the hand that ships."""
    return program(RELEASE, "tendon-hand")


def make_root(path):
    """A directory with busybox, a few links to it, and little else."""
    (path / "bin").mkdir(parents=True)
    (path / "etc").mkdir()
    shutil.copy(shutil.which("busybox"), path / "bin/busybox")
    for name in APPLETS:
        (path / "bin" / name).symlink_to("busybox")
    (path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1234:1234::/srv:/bin/sh\n")
    (path / "etc/group").write_text("root:x:0:\napp:x:1234:\n")
    (path / "etc/mark").write_text("of the image\n")
    return path


def tar_of(directory, path, compression=""):
    with tarfile.open(path, f"w:{compression}") as tar:
        tar.add(directory, arcname=".")
    return path


def layer(entries):
    """Bytes of a tar: {name: text, or None for a directory}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, text in entries.items():
            info = tarfile.TarInfo(name)
            info.mode = 0o755 if text is None else 0o644
            info.type = tarfile.DIRTYPE if text is None else tarfile.REGTYPE
            info.size = len(text or "")
            tar.addfile(info, io.BytesIO((text or "").encode()))
    return out.getvalue()


def save_image(path, layers, **config):
    """What `docker save` writes; layers from the bottom up."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    ids = ["sha256:" + hashlib.sha256(data).hexdigest() for data in layers]
    papers = {
        "config.json": {"architecture": machine, "config": config, "rootfs": {"type": "layers", "diff_ids": ids}},
        "manifest.json": [
            {"Config": "config.json", "RepoTags": ["x:1"], "Layers": [f"{i:064x}/layer.tar" for i in range(len(layers))]}
        ],
    }
    files = {f"{i:064x}/layer.tar": data for i, data in enumerate(layers)}
    files.update({name: json.dumps(paper).encode() for name, paper in papers.items()})
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def save_layout(path, layers, **config):
    """An OCI image layout as a directory; the layers from the bottom up, every other one compressed."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    blobs = path / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    ids = ["sha256:" + hashlib.sha256(data).hexdigest() for data in layers]
    packed = [blob("layer.v1.tar+gzip", gzip.compress(data)) if i % 2 else blob("layer.v1.tar", data) for i, data in enumerate(layers)]
    settings = {"architecture": machine, "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": ids}}
    manifest = {
        "schemaVersion": 2,
        "config": blob("config.v1+json", json.dumps(settings).encode()),
        "layers": packed,
    }
    index = {"schemaVersion": 2, "manifests": [blob("manifest.v1+json", json.dumps(manifest).encode())]}
    (path / "index.json").write_text(json.dumps(index))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return path


def children_of(pid):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in listed.stdout.split()]


__all__ = [
    "NOBODY", "JailWorld", "Sandbox", "children_of", "layer", "make_root", "save_image", "save_layout", "static_hand", "tar_of",
]  # fmt: skip

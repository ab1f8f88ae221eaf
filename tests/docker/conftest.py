"""tendon-hand, as it ships, in containers of a real dockerd (see engine.py and images.py)."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "hand"))  # client and harness

from engine import Container, Engine  # noqa: E402
from images import IMAGE_PATH, busybox_tar, debian_tar, is_static  # noqa: E402


def build_release(tree):
    options = ["--buildtype=release", "-Dtests=false"]
    subprocess.run(["meson", "setup", tree, ROOT, *options], check=True, timeout=120)
    subprocess.run(["ninja", "-C", tree, "tendon-hand"], check=True, timeout=600)
    return tree / "tendon-hand"


@pytest.fixture(scope="session")
def static_hand(tmp_path_factory):
    """Path of the hand that ships; one is built when there is none."""
    path = ROOT / os.environ.get("TN_RELEASE", "build") / "tendon-hand"
    if path.exists() and is_static(path):
        return path
    return build_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="session")
def engine():
    if os.getuid() != 0:
        pytest.skip("needs root: starts dockerd")
    for program in ("dockerd", "docker", "setpriv", "unshare"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"no private mounts here: {probe.stderr}")
    engine = Engine()
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def scratch_image(engine):
    """busybox, and nothing else: no /etc, no /tmp, no user database, no bash."""
    return engine.load("busybox-only", busybox_tar(engine.base / "busybox.tar"))


@pytest.fixture(scope="session")
def debian_image(engine):
    return engine.load("debian-minimal", debian_tar(), f"ENV PATH={IMAGE_PATH} FROM_THE_IMAGE=yes")


class Boxes:
    """Starts containers and removes them again."""

    def __init__(self, engine, hand, image):
        self.engine, self.hand, self.image = engine, hand, image
        self.made = []

    def create(self, *args, **kw):
        self.made.append(Container(self.engine, self.hand, self.image, args, **kw))
        return self.made[-1]

    def __call__(self, *args, **kw):
        return self.create(*args, **kw).start()

    def finish(self):
        for box in self.made:
            box.remove()


@pytest.fixture
def scratch(engine, static_hand, scratch_image):
    """scratch(*args, options=...) -> a running Container with busybox and the hand."""
    boxes = Boxes(engine, static_hand, scratch_image)
    yield boxes
    boxes.finish()


@pytest.fixture
def debian(engine, static_hand, debian_image):
    """The same with a minimal Debian."""
    boxes = Boxes(engine, static_hand, debian_image)
    yield boxes
    boxes.finish()


@pytest.fixture(scope="module")
def scratch_root(engine, static_hand, scratch_image):
    """A hand that is root in the busybox image, for tests that leave it usable."""
    boxes = Boxes(engine, static_hand, scratch_image)
    yield boxes("--working-dir", "/workspace", "--username", "root", "--user-id", "0")
    boxes.finish()

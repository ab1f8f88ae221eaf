"""tendon-hand, as it ships, in containers of a real dockerd (see engine.py and images.py)."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(1, str(TESTS / "hand"))  # client and harness
sys.path.insert(2, str(TESTS / "runtime"))  # conformance

from docker_world import DockerWorld  # noqa: E402
from engine import Container, Dockerd, Podman, start_engine  # noqa: E402
from images import IMAGE_PATH, box_tar, busybox_tar, debian_tar, is_static  # noqa: E402


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
    engine = start_engine(Dockerd, "dockerd")
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def podman():
    engine = start_engine(Podman, "podman", "runc")
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


def box_image(engine):
    """busybox in that engine, with an entry point, a user and a directory that a sandbox must not care about."""
    if not hasattr(engine, "box_image"):
        tar = box_tar(engine.base / "box.tar")
        changes = ('ENTRYPOINT ["/bin/false"]', "USER 4242", "WORKDIR /nowhere", "ENV FROM_THE_IMAGE=yes")
        engine.box_image = engine.load("box", tar, *changes)
    return engine.box_image


def make_world(engine, static_hand):
    return DockerWorld(engine, box_image(engine), static_hand)


@pytest.fixture
def world_in(static_hand):
    """world_in(engine) -> a world in an engine of the test's own; the caller finishes it."""
    return lambda engine: make_world(engine, static_hand)


@pytest.fixture(params=["docker", "podman"])
def any_engine(request):
    return request.getfixturevalue({"docker": "engine", "podman": "podman"}[request.param])


@pytest.fixture
def world(any_engine, static_hand):
    """Sandboxes in each engine in turn; at the end nothing of them may be left."""
    world = make_world(any_engine, static_hand)
    before = set(world.containers())
    volumes = set(world.docker("volume", "ls", "--quiet").split())
    yield world
    world.finish()
    assert set(world.containers()) <= before
    assert set(world.docker("volume", "ls", "--quiet").split()) <= volumes


@pytest.fixture
def docker_world(engine, static_hand):
    """The same for what only dockerd is asked."""
    world = make_world(engine, static_hand)
    before = set(world.containers())
    yield world
    world.finish()
    assert set(world.containers()) <= before


@pytest.fixture
def podman_world(podman, static_hand):
    """And for what only Podman is asked."""
    world = make_world(podman, static_hand)
    yield world
    world.finish()


@pytest.fixture
def driver(world):
    return world.open()


@pytest.fixture
def box(world, driver):
    """A running sandbox."""
    return world.new(driver)

"""One conformance suite over all backends: each test of `world` runs once for each of them."""

import pytest

from conformance import World
from peers import runsc

GVISOR = pytest.param("gvisor", marks=pytest.mark.slow)  # a jail on a kernel of its own
BACKENDS = ["local", "cli", "example", "jail", GVISOR]


def start(runtime):
    world = World("jail" if runtime == "gvisor" else runtime)
    if runtime == "gvisor":
        world.spec, world.settings = {"isolation": "gvisor"}, {"jail.runsc": str(runsc())}
    world.cwd.chmod(0o755)
    return world


@pytest.fixture(params=BACKENDS)
def world(request):
    """A world of each backend in turn; at its end nothing of it may be left."""
    world = start(request.param)
    yield world
    world.finish()


@pytest.fixture
def driver(world):
    return world.open()


@pytest.fixture
def box(world, driver):
    """A running sandbox."""
    return world.new(driver)


@pytest.fixture
def make_world():
    """make_world(runtime) -> a World of that backend alone."""
    worlds = []

    def make(runtime):
        worlds.append(start(runtime))
        return worlds[-1]

    yield make
    for world in worlds:
        world.finish()

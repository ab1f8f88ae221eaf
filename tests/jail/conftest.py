"""Jails of tendon-jail, as root and as an ordinary user (see launcher.py)."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from jail_world import JailWorld  # noqa: E402
from launcher import NOBODY, Jail  # noqa: E402


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    for item in items:
        smoke = getattr(item.module, "SMOKE", None)  # of a file whose tests are slow but for these
        if smoke and item.originalname not in smoke:
            item.add_marker(pytest.mark.slow)
    if os.geteuid() != 0:
        for item in items:
            if item.path.parent == pathlib.Path(__file__).parent:
                item.add_marker(pytest.mark.skip(reason="needs root, which starts jails as anybody"))


@pytest.fixture
def jails():
    """jails(script, ...) -> Jail; all are ended, and examined, at the end of the test."""
    made = []

    def make(*args, **kwargs):
        made.append(Jail(*args, **kwargs))
        return made[-1]

    yield make
    for jail in made:
        jail.close()


@pytest.fixture(params=["root", "user"])
def jail(request, jails):
    """The same, once as root and once as an ordinary user."""
    user = NOBODY if request.param == "user" else None
    return lambda *args, **kwargs: jails(*args, user=user, **kwargs)


# --- the backend (jail_world.py) ---------------------------------------------------------------------


@pytest.fixture(params=["root", "user"])
def world(request):
    """A state directory and its sandboxes, once as root and once as an ordinary user."""
    world = JailWorld(NOBODY if request.param == "user" else None)
    yield world
    world.finish()


@pytest.fixture
def root_world():
    world = JailWorld()
    yield world
    world.finish()


@pytest.fixture
def user_world():
    world = JailWorld(NOBODY)
    yield world
    world.finish()


@pytest.fixture
def driver(world):
    return world.open()


@pytest.fixture
def box(world, driver):
    """A running sandbox on the system directories of this machine."""
    return world.new(driver)

"""A machine with an internet of its own (gate_world.py), for all tests of the gate."""

import os
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))
sys.path.insert(1, str(TESTS / "jail"))  # launcher

from gate_world import NOBODY, GateWorld  # noqa: E402


def pytest_collection_modifyitems(items):
    if os.geteuid() != 0:
        for item in items:
            if item.path.parent == pathlib.Path(__file__).parent:
                item.add_marker(pytest.mark.skip(reason="needs root, which makes the networks"))


@pytest.fixture(scope="session")
def world():
    world = GateWorld()
    yield world
    world.finish()


@pytest.fixture(scope="session", params=["root", "user"])
def user(request):
    return NOBODY if request.param == "user" else 0


RULES = [
    "good.test",
    "good.test:7",
    "six.test",
    "one.cdn.test",
    "GET http://www.good.test/ok/*",
    "private.test",
    "mixed.test",
    "alias.test",
    "chain.test",
    "metadata.test",
    "mapped.test",
    "nat64.test",
    "rebind-0.test",
    "rebind-65534.test",
    "udp://good.test:9",
]


@pytest.fixture(scope="session")
def boxes(world, user):
    """The same sandbox on each kind of network."""
    return {
        "host": world.box("host", user=user),
        "default": world.box(None, user=user),
        "open": world.box("open", user=user),
        "allow": world.box("allow", *RULES, user=user),
    }

"""One sandbox behind every face that Tendon has."""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
for _folder in ("runtime", "cli", "service"):
    sys.path.insert(1, str(TESTS / _folder))

from faces import FACES, World  # noqa: E402


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("parity"))
    yield world
    world.finish()


@pytest.fixture(scope="session", params=FACES)
def face(world, request):
    return world.face(request.param)

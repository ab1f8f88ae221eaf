"""MCP servers behind tendon-hand."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "hand"), str(HERE.parent)]

from harness import Factory  # noqa: E402
from toolboxes import Toolbox  # noqa: E402


@pytest.fixture(scope="module")
def mcp_hand():
    """One hand on a TCP port for the tests of a file; each sets the servers it wants."""
    factory = Factory()
    yield factory(listen="fd")
    factory.finish()


@pytest.fixture
def fresh_hand():
    """fresh_hand(**options) -> Hand, for tests that end it or start it in another way."""
    factory = Factory()
    yield lambda **options: factory(**{"listen": "fd", **options})
    factory.finish()


@pytest.fixture
def open_toolbox(tmp_path):
    """open_toolbox(**servers) -> Toolbox; ended at the end."""
    made = []

    def make(**options):
        made.append(Toolbox(tmp_path, **options))
        return made[-1]

    yield make
    for toolbox in made:
        toolbox.stop()

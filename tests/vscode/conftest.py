"""The editor in the browser: the hand's door to it, and real editors behind it."""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS / "hand"), str(TESTS / "cli"), str(TESTS)]

from editors import FAKE, Editor  # noqa: E402
from harness import Factory  # noqa: E402


@pytest.fixture(scope="module")
def factory():
    factory = Factory()
    yield factory
    factory.finish()


@pytest.fixture
def fresh():
    """fresh(**options) -> Editor with the fake one, for a test that breaks it."""
    factory = Factory()
    yield lambda **options: Editor(factory, FAKE, **options)
    factory.finish()


@pytest.fixture(scope="module")
def editor(factory):
    """An Editor with the fake one that many tests share."""
    return Editor(factory, FAKE)

"""The browser of tendon-hand: a real Chromium on local pages."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "hand"), str(HERE.parent), str(HERE)]

from browsers import Browser, needs_chromium  # noqa: E402
from harness import Factory  # noqa: E402
from pages_site import Site  # noqa: E402


@pytest.fixture(scope="session")
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture(scope="session")
def browser_hand():
    """One hand, and one browser, for all tests that leave it alive."""
    needs_chromium()
    factory = Factory()
    yield factory(browser=True)
    factory.finish()


@pytest.fixture
def browser(browser_hand, site):
    """The shared browser with one tab, which shows anything."""
    browser = Browser(browser_hand, site)
    for _ in browser.pages()[1:]:
        browser.ok("tab_close()")
    return browser


@pytest.fixture
def fresh(site):
    """fresh(**options) -> Browser in a hand of its own, for tests that end it."""
    needs_chromium()
    factory = Factory()
    yield lambda **options: Browser(factory(browser=True, **options), site)
    factory.finish()


@pytest.fixture
def start_hand():
    factory = Factory()
    yield factory
    factory.finish()

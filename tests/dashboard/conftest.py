"""The dashboard: a real service, and a real Chromium that looks at it."""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS / name) for name in ("service", "vscode", "")]

from pages import Page  # noqa: E402
from services import Service  # noqa: E402

CONFIG = """
[template.small]
memory = "256m"
"""


@pytest.fixture(scope="session")
def jail_works(tmp_path_factory):
    """Skips where jails cannot be made."""
    service = Service(tmp_path_factory.mktemp("doctor"))
    result = service.tendon("doctor", "--runtime", "jail")
    service.ids.stop()
    if result.returncode:
        pytest.skip(f"the jail does not work here: {result.stdout}{result.stderr}")


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("dashboard"), config=CONFIG).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def chrome():
    page = Page()
    yield page
    page.close()


@pytest.fixture
def page(chrome, service):
    """A fresh tab on the dashboard; whatever a test does, no policy is broken and no script fails."""
    chrome.visit(service)
    yield chrome
    chrome.expect_clean()


@pytest.fixture
def signed_in(page, service):
    page.sign_in(service.admin)
    return page


@pytest.fixture
def box(service):
    """A running sandbox of the test's own."""
    client = service.client()
    made = client.post("/v1/sandboxes", {"name": "box"}).ok(201).json
    assert made["state"] == "running", made
    yield made["id"]
    service.client().delete(f"/v1/sandboxes/{made['id']}")  # the service may be another one by now

"""Tendon as a client of clouds: against its own served surfaces with jails below, and against vendors on their bad days."""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
for _folder in ("runtime", "cli", "service"):
    sys.path.insert(1, str(TESTS / _folder))

from cloud_worlds import CLOUDS, CloudTendon, VendorWorld, start_service  # noqa: E402
from vendor import Vendor  # noqa: E402


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """One for all tests, with jails."""
    service = start_service(tmp_path_factory.mktemp("service"))
    yield service
    service.finish()


@pytest.fixture
def own_service(tmp_path):
    """For tests that kill it."""
    (tmp_path / "own").mkdir()
    service = start_service(tmp_path / "own")
    yield service
    service.finish()


@pytest.fixture(scope="module", params=CLOUDS)
def cloud(request):
    """What tests have to know of each vendor."""
    return CLOUDS[request.param]


@pytest.fixture
def make_tendon(tendon_program, tmp_path, cloud):
    """make_tendon(service) -> the program, with sandboxes of that service and a tenant of its own."""
    made = []

    def make(service, **env):
        made.append(CloudTendon(tendon_program, tmp_path / f"t{len(made)}", cloud, service, **env))
        return made[-1]

    yield make
    for tendon in made:
        tendon.finish()


@pytest.fixture
def vendor(cloud):
    vendor = Vendor(cloud)
    yield vendor
    vendor.close()


@pytest.fixture
def driver(cloud, vendor):
    world = VendorWorld(cloud, vendor)
    yield world.open()
    vendor.behave.clear()
    world.finish()

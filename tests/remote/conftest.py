"""The remote backend against services: one of the tests' own that misbehaves, and a real one."""

import pathlib
import ssl
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
for _folder in ("runtime", "cli", "service"):
    sys.path.insert(1, str(TESTS / _folder))

from remote_worlds import ApiWorld, RemoteTendon  # noqa: E402
from runtime_api import KEY, RuntimeApi  # noqa: E402
from services import Service, self_signed  # noqa: E402
from tendons import Screen  # noqa: E402


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """One for all tests, with jails."""
    service = Service(tmp_path_factory.mktemp("service"))
    doctor = service.tendon("doctor", "--runtime", "jail")
    if doctor.returncode:
        service.ids.stop()
        pytest.skip(f"the jail does not work here: {doctor.stdout}{doctor.stderr}")
    service.start()
    yield service
    service.finish()


@pytest.fixture(scope="session")
def one_api(hand_program):
    api = RuntimeApi(hand_program)
    yield api
    api.close()


@pytest.fixture
def api(one_api):
    yield one_api
    one_api.clear()


@pytest.fixture(scope="module")
def one_world(one_api):
    world = ApiWorld(one_api)
    yield world
    world.finish()


@pytest.fixture(scope="module")
def one_driver(one_world):
    return one_world.open()


@pytest.fixture
def world(one_world, api):
    """Shared by the tests of a file; what a test made in the service ends with it."""
    return one_world


@pytest.fixture
def driver(one_driver, api):
    return one_driver


@pytest.fixture
def own_world(api):
    """For tests that change what the world is like."""
    world = ApiWorld(api)
    yield world
    world.env.update(SANDBOX_API_KEY=KEY, SANDBOX_REMOTE_RUNTIME_API_URL=api.url)
    api.faults.clear()
    world.finish()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """(certificate, key) of localhost that nobody has signed."""
    return self_signed(tmp_path_factory.mktemp("tls"))[:2]


@pytest.fixture(scope="module")
def tls_api(hand_program, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    api = RuntimeApi(hand_program, context)
    yield api
    api.close()


@pytest.fixture
def make_tendon(tendon_program, tmp_path):
    made = []

    def make(url, key=KEY, **env):
        made.append(RemoteTendon(tendon_program, tmp_path / f"t{len(made)}", url, key, **env))
        return made[-1]

    yield make
    for tendon in made:
        tendon.finish()


@pytest.fixture
def screen():
    opened = []

    def start(*args, **kwargs):
        opened.append(Screen(*args, **kwargs))
        return opened[-1]

    yield start
    for one in opened:
        one.close()

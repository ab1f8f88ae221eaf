"""The sandbox service: one for all tests of a file, or one of a test's own."""

import pytest

from services import Service, maker


@pytest.fixture(scope="session")
def jail_works(tmp_path_factory):
    """Skips where jails cannot be made."""
    service = Service(tmp_path_factory.mktemp("doctor"))
    result = service.tendon("doctor", "--runtime", "jail")
    service.ids.stop()
    if result.returncode:
        pytest.skip(f"the jail does not work here: {result.stdout}{result.stderr}")


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory, request):
    """A service with jails, shared by the tests of a file, and with the CONFIG of that file, if it has one."""
    service = Service(tmp_path_factory.mktemp("service"), config=getattr(request.module, "CONFIG", None)).start()
    yield service
    service.finish()


@pytest.fixture
def make_service(tmp_path):
    """make_service(...) -> a Service of the test's own, not started yet."""
    yield from maker(Service, tmp_path)


@pytest.fixture
def client(service):
    """The administrator."""
    client = service.client()
    yield client
    client.close()


@pytest.fixture(scope="module")
def alice(service):
    return service.tenant("alice")


@pytest.fixture(scope="module")
def bob(service):
    return service.tenant("bob")


@pytest.fixture(scope="module")
def acme(service):
    """A client of one tenant."""
    return service.tenant("acme")


@pytest.fixture(scope="module")
def other(service):
    """A client of another."""
    return service.tenant("other")

"""Tests against a real Kubernetes cluster of one node, one for the whole run (see cluster.py)."""

import concurrent.futures
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
for _folder in ("docker", "gate", "hand", "runtime"):
    sys.path.append(str(HERE.parent / _folder))

from kube_world import KubeWorld, load_debian, run_cluster  # noqa: E402
from trees import RELEASE, program  # noqa: E402


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:  # one of them starts the cluster
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def cluster():
    yield from run_cluster()


@pytest.fixture
def namespace(cluster):
    """The name of a namespace of the test's own."""
    name = cluster.make_namespace()
    yield name
    cluster.drop_namespace(name)


class Endings:
    """Worlds that end while other tests go on: a node takes seconds to end a pod, and nobody has to wait for that one by one."""

    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(4)
        self.under_way = {}

    def begin(self, name, end):
        self.under_way[self.pool.submit(end)] = name

    def wait(self):
        """Until all have ended; fails with the names of the tests after which something was left."""
        problems = {name: str(error) for future, name in self.under_way.items() if (error := future.exception(300))}
        self.under_way.clear()
        assert not problems, problems


@pytest.fixture(scope="session")
def all_endings():
    return Endings()


@pytest.fixture(scope="module")
def endings(cluster, all_endings):
    yield all_endings
    all_endings.wait()


@pytest.fixture
def calm(endings):
    """For a test that breaks the cluster: nothing else is going on there."""
    endings.wait()


@pytest.fixture(scope="session")
def debian_image(cluster):
    return load_debian(cluster)


@pytest.fixture(scope="session")
def static_hand():
    return program(RELEASE, "tendon-hand")


@pytest.fixture
def world(request, cluster, static_hand, endings):
    """Sandboxes of busybox in a namespace of their own, of which nothing may be left."""
    world = KubeWorld(cluster, cluster.make_namespace(), static_hand)
    before = world.census()

    def end():
        world.finish()
        assert world.census() == before
        cluster.drop_namespace(world.namespace)

    yield world
    endings.begin(request.node.name, end)


@pytest.fixture
def driver(world):
    return world.open()


@pytest.fixture
def box(world, driver):
    """A running sandbox."""
    return world.new(driver)

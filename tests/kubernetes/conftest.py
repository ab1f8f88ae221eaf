"""Tests against a real Kubernetes cluster of one node, one for the whole run (see cluster.py)."""

import pathlib
import sys
import uuid

import pytest

HERE = pathlib.Path(__file__).resolve().parent
for _folder in ("docker", "hand", "runtime"):
    sys.path.append(str(HERE.parent / _folder))

from archive import write_image  # noqa: E402
from cluster import Cluster, why_not  # noqa: E402
from images import debian_tar  # noqa: E402
from kube_world import KubeWorld  # noqa: E402
from trees import RELEASE, program  # noqa: E402


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:  # one of them starts the cluster
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def cluster():
    reason = why_not()
    if reason:
        pytest.skip(reason)
    try:
        cluster = Cluster()
    except LookupError as missing:
        pytest.skip(str(missing))
    yield cluster
    cluster.stop()


@pytest.fixture
def namespace(cluster):
    """The name of a namespace of the test's own."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    for made in ("serviceaccount/default", "configmap/kube-root-ca.crt"):  # of two that are missing kubectl waits for none
        cluster.kubectl("wait", "--for=create", "--timeout=60s", made, namespace=name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def debian_image(cluster):
    cluster.load(write_image(cluster.base / "debian.tar", "debian:1", debian_tar(), command=["/bin/bash"]))
    return "debian:1"


@pytest.fixture(scope="session")
def static_hand():
    return program(RELEASE, "tendon-hand")


@pytest.fixture
def world(cluster, namespace, static_hand):
    """Sandboxes of busybox in a namespace of their own, of which nothing may be left."""
    world = KubeWorld(cluster, namespace, static_hand)
    before = world.census()
    yield world
    world.finish()
    assert world.census() == before


@pytest.fixture
def driver(world):
    return world.open()


@pytest.fixture
def box(world, driver):
    """A running sandbox."""
    return world.new(driver)

"""Tests against a real Kubernetes cluster of one node, one for the whole run (see cluster.py)."""

import pathlib
import uuid

import pytest

from cluster import Cluster, why_not

HERE = pathlib.Path(__file__).resolve().parent

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
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")

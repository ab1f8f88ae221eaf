"""The conformance suite on Kubernetes 1.20, the oldest that is supported."""

import pytest

from kube_world import load_debian, run_cluster
from test_kubernetes_conformance import *  # noqa: F403

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    yield from run_cluster("1.20")


@pytest.fixture(scope="module")
def debian_image(cluster):
    return load_debian(cluster)


def test_it_is_that_version(cluster):
    assert cluster.get("/version")["gitVersion"] == "v1.20.15"

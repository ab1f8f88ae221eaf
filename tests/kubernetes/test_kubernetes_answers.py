"""What an API server may answer, and when it does not: of a server that keeps objects alone (fake_server.py), no cluster is needed."""

import pytest

from conformance import Refusal, World
from fake_server import FakeServer

CLASSES = r"GET /apis/node.k8s.io/v1/runtimeclasses\b"
SETTINGS = {"kubernetes.hand_image": "hand:1", "kubernetes.reach": "proxy", "kubernetes.pvc_storage_class": "tests"}


@pytest.fixture
def server():
    server = FakeServer()
    server.classes = {"gvisor": "runsc", "kata": "kata-qemu"}
    yield server
    server.finish()


@pytest.fixture
def world(server):
    world = World("kubernetes")
    world.spec = {"image": "box:1"}
    world.settings = dict(SETTINGS)
    world.env["KUBECONFIG"] = str(server.kubeconfig(world.base / "kubeconfig"))
    yield world
    world.finish()
    left = {key for key in server.objects if key[0] != "networkpolicies"}
    assert not left, left


# --- runtime classes --------------------------------------------------------------------------------


def test_a_class_that_became_another_starts_nothing(server, world):
    box = world.new(world.open(), isolation="kata")
    assert box.drive("stopped") == "stopped"
    server.classes["kata"] = "runc"
    with pytest.raises(Refusal) as refusal:
        box.drive("running")
    assert refusal.value.code == "unsupported" and "is handled by runc" in refusal.value.text, refusal.value
    assert not server.names("pods")
    server.classes["kata"] = "kata-qemu"
    assert box.drive("running") == "running"


def test_a_class_that_is_refused_is_told_as_the_isolation_that_it_is_for(server, world):
    """By the server, to whom may not list classes."""
    said = 'pods "x" is forbidden: pod rejected: RuntimeClass "kata" not found'
    with server.fault(CLASSES, 403), server.fault("^POST .*/pods$", 403, said), pytest.raises(Refusal) as refusal:
        world.new(world.open(), isolation="kata")
    assert refusal.value.code == "unsupported" and f"isolation kata: {said}" in refusal.value.text, refusal.value

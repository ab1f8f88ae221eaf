"""The conformance suite (tests/runtime) over pods of a real cluster: the same tests, in another world."""

import inspect

import pytest

import test_runtime_errors
import test_runtime_life
import test_runtime_owner
import test_runtime_use
from conformance import Sandbox
from kube_world import KubeWorld

for _module in (test_runtime_errors, test_runtime_life, test_runtime_owner, test_runtime_use):
    for _name, _case in vars(_module).items():
        if _name.startswith("test_") and "make_world" not in inspect.signature(_case).parameters:
            globals()[_name] = _case


@pytest.fixture(scope="module")
def world(cluster, static_hand, debian_image, endings):
    """One for all: a namespace and a claim take longer than most of the tests."""
    world = KubeWorld(cluster, cluster.make_namespace(), static_hand, image=debian_image, hand_args=[])
    before = world.census()
    yield world
    world.finish()
    assert world.census() == before
    cluster.drop_namespace(world.namespace)


@pytest.fixture(autouse=True)
def swept(world, endings):
    yield
    world.sweep(endings.pool)


@pytest.fixture
def box(world, driver):
    """One for all tests that need just one, each time as if it were new: it runs, its workspace is empty, the shell is where it began."""
    if not (world.state / "drive" / f"{world.shared}.json").exists():
        box = world.new(driver, own=False)
        world.made.remove(box.id)
        world.shared, world.start = box.id, box.ok("pwd")
        return box
    box = Sandbox(driver, world.shared)
    box.drive("running")
    box.ok(f"cd {world.start} && find . -mindepth 1 -delete")
    return box


def test_network_none_is_kept_or_refused_by_name(world, driver):
    """A pod always has an interface: that nothing leaves by it is a policy, which the cluster's network plugin keeps."""
    box = world.new(driver, network="none")
    assert world.pod(box)["metadata"]["labels"]["tendon.dev/network"] == "none"
    path = f"/apis/networking.k8s.io/v1/namespaces/{world.namespace}/networkpolicies/tendon-none"
    policy = world.cluster.get(path)["spec"]
    assert policy["podSelector"] == {"matchExpressions": [{"key": "tendon.dev/network", "operator": "In", "values": ["none"]}]}
    assert "Egress" in policy["policyTypes"] and not policy.get("egress"), policy

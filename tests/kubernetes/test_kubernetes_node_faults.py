"""A node that is silent or gone, and a store that stands still for long. A cluster takes its time to notice: two minutes, in which the
processor has little to do."""

import time

import pytest

from conformance import Refusal, wait_until
from test_kubernetes_faults import create_in_background, noticed, refused

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def watchful(cluster, calm):
    """The cluster notices within seconds that a node is silent, and deletes its pods (300 s are usual)."""
    cluster.restart("kube-controller-manager", "--node-monitor-grace-period=5s", "--node-monitor-period=1s")
    yield cluster
    cluster.restart("kube-controller-manager", "--node-monitor-grace-period=50s", "--node-monitor-period=5s")
    if "kubelet" in cluster.ended_parts:
        cluster.revive("kubelet")
    cluster.await_true(cluster.has_node, time.monotonic() + 120, "the node is back")


def in_time(call, seconds):
    """The refusal of a call that ends within that."""
    began = time.monotonic()
    with pytest.raises(Refusal) as refusal:
        call()
    assert time.monotonic() - began < seconds, refusal.value
    return refusal.value


def await_events(world, cluster, reason, count):
    """Who writes them tries twelve times, ten seconds apart, and all that comes later waits for that."""
    of = f"/api/v1/namespaces/{world.namespace}"
    try:
        wait_until(lambda: len(cluster.get(f"{of}/events?fieldSelector=reason%3D{reason}")["items"]) >= count, 150, reason)
    except AssertionError:
        pods = [(pod["metadata"]["name"], pod["status"].get("conditions")) for pod in cluster.get(f"{of}/pods")["items"]]
        events = [(e["involvedObject"]["name"], e["reason"], e.get("lastTimestamp")) for e in cluster.get(f"{of}/events")["items"]]
        pytest.fail(f"no {count} events {reason}; pods: {pods}; events: {events}")


def test_a_node_that_is_silent(world, watchful):
    world.settings["kubernetes.schedule_seconds"] = "2"
    driver = world.open()
    box, other = world.new(driver), world.new(driver)
    box.ok("echo kept >file")
    names = [f"pod/{world.pod(one)['metadata']['name']}" for one in (box, other)]
    watchful.kubectl("wait", *names, "--for=condition=Ready", "--timeout=60s", namespace=world.namespace)
    watchful.kill("kubelet")
    assert box.ok("cat file") == "kept"  # what goes through the API server alone goes on
    assert "connection refused" in in_time(lambda: box("exec", argv=["true"], timeout=20), 25).text
    assert "connection refused" in in_time(lambda: box.logs(timeout=20), 25).text
    wait_until(lambda: not watchful.has_node(), 60, "the node is not ready")
    assert "untolerated taint" in refused(world, driver).text
    await_events(world, watchful, "NodeNotReady", 2)
    for goal in ("stopped", "gone"):
        refusal = in_time(lambda goal=goal: other.drive(goal, timeout=5), 15)
        assert refusal.code == "timeout" and "Node is not ready" in refusal.text, refusal
    watchful.revive("kubelet")
    watchful.await_true(watchful.has_node, time.monotonic() + 120, "the node is back")
    assert other.drive("gone") == "missing"
    assert box.drive("running") == "running"
    assert box.ok("cat file") == "kept"


def test_a_node_that_is_deleted(world, watchful):
    driver = world.open()
    box = world.new(driver)
    box.ok("echo kept >file")
    watchful.kill("kubelet")
    watchful.kubectl("delete", "node", "node")
    reason = noticed(box, 180)["reason"]
    assert "node" in reason and "(" not in reason, reason
    wait_until(lambda: not any(box.id in pod for pod in world.names("pods")), 180, "the pod is gone")
    watchful.revive("kubelet")
    watchful.await_true(watchful.has_node, time.monotonic() + 120, "the node is back")
    assert box.drive("running") == "running"
    assert box.ok("cat file") == "kept"


def test_a_store_that_stands_still_for_half_a_minute(world, driver, calm):
    """Calls with less time end in time; those with more are done when it goes on."""
    box = world.new(driver)
    other = box.seen_by(world.open())
    late, thread, answers = create_in_background(world, driver)
    with world.cluster.frozen("etcd"):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            refusal = in_time(lambda: other("inspect", timeout=5), 12)
            assert refusal.code in ("timeout", "busy", "io"), refusal
            in_time(lambda: other.drive("stopped", timeout=3), 10)
    thread.join(100)
    assert answers and answers[0]["ok"], answers
    assert late.ok("echo works") == "works"
    assert other.drive("running") == "running"

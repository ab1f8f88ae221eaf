"""What a cluster can do to a sandbox: every call ends in time with the cause, and nothing is left."""

import contextlib
import json
import threading
import time

import pytest

from conformance import Refusal, wait_until


def refused(world, driver, **spec):
    """The refusal of a create, which comes when the cluster knows it and not at a time-out."""
    began = time.monotonic()
    with pytest.raises(Refusal) as refusal:
        world.new(driver, **spec)
    assert refusal.value.code != "timeout", refusal.value
    assert time.monotonic() - began < 25, refusal.value
    return refusal.value


def apply(world, **thing):
    world.cluster.kubectl("apply", "--filename=-", namespace=world.namespace, input=json.dumps(thing))


# --- what is refused ------------------------------------------------------------------------------


def test_an_image_that_is_not_there(world, driver):
    assert "missing" in refused(world, driver, image="missing:1").text


def test_a_name_that_is_no_image(world, driver):
    assert "image" in refused(world, driver, image="Not An:Image:").text


def test_a_quota_that_is_used_up(world, driver):
    apply(world, apiVersion="v1", kind="ResourceQuota", metadata={"name": "none"}, spec={"hard": {"pods": "0"}})
    path = f"/api/v1/namespaces/{world.namespace}/resourcequotas/none"
    wait_until(lambda: world.cluster.get(path).get("status", {}).get("hard"), what="the quota counts")
    refusal = refused(world, driver)
    assert (refusal.code, "exceeded quota: none" in refusal.text) == ("quota", True), refusal


def test_a_namespace_that_is_forbidden(world):
    world.as_user("nobody")
    try:
        with pytest.raises(Refusal) as refusal:
            world.new(world.open())
        assert "nobody" in refusal.value.text and "cannot" in refusal.value.text, refusal.value
    finally:
        world.as_user("admin")


def test_an_admission_that_says_no(world, driver):
    name = f"no-pods-{world.namespace}"
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    kind, version = "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"
    validations = [{"expression": "false", "message": "pods are not welcome today"}]
    apply(world, apiVersion=version, kind=kind, metadata={"name": name},
          spec={"matchConstraints": {"resourceRules": rules, **here}, "validations": validations})  # fmt: skip
    apply(world, apiVersion=version, kind=f"{kind}Binding", metadata={"name": name},
          spec={"policyName": name, "validationActions": ["Deny"]})  # fmt: skip
    probe = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
                        "spec": {"containers": [{"name": "a", "image": "box:1"}]}})  # fmt: skip
    try:
        wait_until(lambda: "not welcome" in world.cluster.try_kubectl(
            "create", "--dry-run=server", "--filename=-", namespace=world.namespace, input=probe).stderr, what="the policy counts")  # fmt: skip
        assert "pods are not welcome today" in refused(world, driver).text
    finally:
        world.cluster.kubectl("delete", kind, name)
        world.cluster.kubectl("delete", f"{kind}Binding", name)


def test_a_pod_that_no_node_has_room_for(world):
    world.settings |= {"kubernetes.schedule_seconds": "2", "kubernetes.resource_memory_request": "900Gi"}
    assert "Insufficient memory" in refused(world, world.open(), memory="900g").text


# --- what others do -------------------------------------------------------------------------------


def ends(world, box, how):
    """Somebody else ends the pod: that is noticed, said, and mended by the next start."""
    box.ok("echo kept >file")
    how(world.pod(box)["metadata"]["name"])
    wait_until(lambda: box.status() in ("error", "stopped"), 30, "the end is noticed")
    assert box("inspect")["address"] is None
    assert box.drive("running") == "running"
    assert box.ok("cat file") == "kept"


def test_a_pod_that_others_delete(world, box):
    ends(world, box, lambda name: world.cluster.kubectl("delete", "pod", name, namespace=world.namespace))


def test_a_pod_that_is_evicted(world, box):
    def evict(name):
        path = f"/api/v1/namespaces/{world.namespace}/pods/{name}/eviction"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        assert world.cluster.call("POST", path, body)[0] in (200, 201)

    ends(world, box, evict)


def noticed(box, seconds=30):
    """What is said of a sandbox that has ended."""
    return wait_until(lambda: (told := box("inspect"))["status"] == "error" and told, seconds, "the end is noticed")


def test_a_container_that_has_no_memory_left(world, driver):
    """Files in memory are nobody's: the largest process is ended for them, and that is the hand."""
    box = world.new(driver, memory="32m")
    with contextlib.suppress(Refusal):
        box.run("head -c 60000000 /dev/zero >/dev/shm/file", timeout=20)
    assert noticed(box)["reason"] == "killed: out of memory (limit 32 MiB)"
    assert box.drive("running") == "running"


def test_a_pod_that_has_run_for_long_enough(world, driver):
    began = time.monotonic()
    box = world.new(driver, wall_time=3)
    reason = noticed(box)["reason"]
    assert "wall_time" in reason and "Pod was active on the node longer than the specified deadline" in reason, reason
    assert 2 < time.monotonic() - began < 25


GPU = "tests.invalid/gpu"


@pytest.fixture
def gpus(cluster):
    """A node with two of them."""
    path = "/api/v1/nodes/node/status"
    patch = lambda count: cluster.must("PATCH", path, {"status": {"capacity": {GPU: count}, "allocatable": {GPU: count}}})  # noqa: E731
    patch("2")
    yield
    patch(None)


def test_a_pod_that_is_preempted(world, gpus):
    """By one of higher priority, which takes its devices; what is said then is what the scheduler says."""
    world.settings |= {"kubernetes.gpu_resource": GPU, "kubernetes.schedule_seconds": "2"}
    driver = world.open()
    box = world.new(driver, gpus="0,1")
    assert world.pod(box)["spec"]["containers"][0]["resources"]["limits"][GPU] == "2"
    assert f"Insufficient {GPU}" in refused(world, driver, gpus="0").text
    name = f"high-{world.namespace}"
    apply(world, apiVersion="scheduling.k8s.io/v1", kind="PriorityClass", metadata={"name": name}, value=1000)
    container = {"name": "a", "image": "box:1", "command": ["sleep", "1000"], "resources": {"limits": {GPU: "1"}}}
    spec = {"priorityClassName": name, "containers": [container], "terminationGracePeriodSeconds": 0}
    apply(world, apiVersion="v1", kind="Pod", metadata={"name": "intruder"}, spec=spec)
    try:
        assert "preempted" in noticed(box)["reason"]
        wait_until(lambda: not any(box.id in pod for pod in world.names("pods")), 30, "it is gone")
        reason = noticed(box)["reason"]
        assert "Preempted by pod" in reason, reason
        with pytest.raises(Refusal, match=f"Insufficient {GPU}"):
            box.drive("running")
    finally:
        world.cluster.kubectl("delete", "pod", "intruder", "--now", namespace=world.namespace)
        world.cluster.kubectl("delete", "priorityclass", name)


# --- what fails meanwhile -------------------------------------------------------------------------


def create_in_background(world, driver):
    box = world.new(driver, own=False, create=False)
    answers = []

    def create():
        with contextlib.suppress(AssertionError):  # the driver was killed
            answers.append(driver.ask("create", id=box.id, timeout=60))

    thread = threading.Thread(target=create)
    thread.start()
    return box, thread, answers


def test_the_server_is_killed_while_one_is_made(world, calm):
    world.settings["kubernetes.schedule_seconds"] = "60"  # until the cluster's other parts have noticed that it is back
    driver = world.open()
    box, thread, answers = create_in_background(world, driver)
    wait_until(lambda: any(box.id in name for name in world.names("secrets")), what="it has begun")
    world.cluster.restart("kube-apiserver")
    thread.join(100)
    assert answers and answers[0]["ok"], answers
    assert box.ok("echo works") == "works"


def test_the_server_is_killed_while_a_command_runs(world, box, calm):
    """Whether its result is still told or not: in time, and the command has run once."""
    answers = []
    command = "echo x >>runs; until [ -e go ]; do sleep 0.1; done; echo done"
    thread = threading.Thread(target=lambda: answers.append(box.driver.ask("run", id=box.id, command=command, timeout=30)))
    thread.start()
    other = box.seen_by(world.open())
    wait_until(lambda: other("exec", argv=["ls"])["output"].strip() == "runs", 20, "it runs")
    world.cluster.restart("kube-apiserver")
    world.cluster.await_true(world.cluster.is_ready, time.monotonic() + 60, "the API server is back")
    other("exec", argv=["sh", "-c", ": >go"])
    thread.join(60)
    assert answers and (answers[0]["ok"] or answers[0]["code"] in ("peer", "io", "timeout")), answers
    assert other.ok("cat runs") == "x"


def test_the_store_stands_still(world, driver, calm):
    """Of the cluster, for a moment: what is under way waits for it, what has no time ends in time."""
    box, cluster = world.new(driver), world.cluster
    late, thread, answers = create_in_background(world, world.open())
    with cluster.frozen("etcd"):
        began = time.monotonic()
        with pytest.raises(Refusal) as refusal:
            box("inspect", timeout=2)
        assert time.monotonic() - began < 10 and refusal.value.code in ("timeout", "busy", "io"), refusal.value
    thread.join(100)
    assert answers and answers[0]["ok"], answers
    assert (box.ok("echo works"), late.ok("echo works")) == ("works", "works")


def test_connections_are_cut_while_one_is_made(world, driver, calm):
    """Watches too: nothing is missed between two of them."""
    box, thread, answers = create_in_background(world, driver)
    while thread.is_alive():
        world.cluster.restart("forward")
        thread.join(0.5)
    assert answers and answers[0]["ok"], answers
    assert box.ok("echo works") == "works"
    assert box.drive("stopped") == "stopped"


@pytest.mark.parametrize("when", ["secrets", "pods"])
def test_a_maker_that_is_killed_leaves_what_is_found(world, driver, when):
    box, thread, _ = create_in_background(world, driver)
    wait_until(lambda: any(box.id in name for name in world.names(when)), what="it has begun")
    driver.kill()
    thread.join(30)
    later = world.open()
    assert later("list")["ids"] == [box.id]
    assert box.seen_by(later).drive("gone") == "missing"
    assert later("list")["ids"] == []

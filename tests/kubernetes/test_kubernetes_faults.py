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


def test_memory_is_limited(world, driver):
    box = world.new(driver, memory="64m")
    assert box.run("head -c 300000000 /dev/zero | busybox tail >/dev/null", timeout=20)[0] != 0 or box.status() == "error"


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

"""What an API server may answer, and when it does not: of a server that keeps objects alone (fake_server.py), no cluster is needed."""

import contextlib
import json
import pathlib
import subprocess
import sys
import threading
import time

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "service"))

from conformance import Refusal, World  # noqa: E402
from fake_server import HANG, FakeServer, runs  # noqa: E402
from native import at, make  # noqa: E402
from services import Service  # noqa: E402
from trees import BUILD, program  # noqa: E402

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


def walls(box, **members):
    told = box("inspect", **members)["isolation"]
    return told["runtime_handler"], told["gvisor"], told["kata"]


# --- runtime classes --------------------------------------------------------------------------------


def test_a_class_of_which_nobody_tells_is_neither(server, world):
    box = world.new(world.open(), isolation="gvisor")
    server.classes["gvisor"] = "runc"
    with server.fault(CLASSES, 500):
        assert walls(box.seen_by(world.open())) == ("", False, False)
    assert walls(box.seen_by(world.open())) == ("runc", False, False)


def test_who_may_not_ask_believes_the_configuration(server, world):
    with server.fault(CLASSES, 403):
        box = world.new(world.open(), isolation="kata")
        assert walls(box) == ("", False, True)


def test_what_was_told_of_a_class_outlives_a_failure(server, world):
    driver = world.open()
    box = world.new(driver, isolation="gvisor")
    with server.fault(CLASSES, 500, "the store has no leader"):
        with pytest.raises(Refusal, match="isolation gvisor: the store has no leader"):
            world.new(driver, isolation="gvisor")
        assert walls(box) == ("runsc", True, False)


def test_a_look_takes_no_longer_than_it_may(server, world):
    """Also one that has to ask for its class."""
    box = world.new(world.open(), isolation="gvisor").seen_by(world.open())
    with server.fault(CLASSES, HANG):
        began = time.monotonic()
        assert walls(box, timeout=2) == ("", False, False)
        assert time.monotonic() - began < 4.5


def test_each_class_is_asked_for_once(server, world):
    driver = world.open()
    boxes = [world.new(driver, isolation=isolation) for isolation in ("gvisor", "kata")]
    asked = server.count(CLASSES)
    for _ in range(3):
        assert [walls(box)[1:] for box in boxes] == [(True, False), (False, True)]
    assert server.count(CLASSES) == asked


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


# --- what others have changed -----------------------------------------------------------------------


@pytest.mark.parametrize(("member", "key", "said"), [
    ("spec", "runtimeClassName", "isolation gvisor: the cluster has made its pod with the runtime class '' instead of gvisor"),
    ("labels", "tendon.dev/network", "with the label tendon.dev/network '' instead of open"),
])  # fmt: skip
def test_a_pod_without_its_walls_is_refused(server, world, member, key, said):
    def strip(pod):
        del {"spec": pod["spec"], "labels": pod["metadata"]["labels"]}[member][key]
        return runs(pod)

    server.status_of = strip
    with pytest.raises(Refusal) as refusal:
        world.new(world.open(), isolation="gvisor")
    assert refusal.value.code == "unsupported" and said in refusal.value.text, refusal.value
    assert not server.names("pods")


def test_a_container_that_was_put_before_ours_is_not_told_for_it(server, world):
    def inject(pod):
        pod["spec"]["containers"].insert(0, {"name": "istio-proxy", "securityContext": {"privileged": True}})
        return runs(pod)

    server.status_of = inject
    told = world.new(world.open(), memory="64m")("inspect")["isolation"]
    assert not told["privileged"] and told["capabilities"] and told["memory_limit"], told


def test_a_claim_that_somebody_has_deleted_is_no_workspace_to_come_back_to(server, world):
    """It stays for as long as its pod: a stop would end it."""
    box = world.new(world.open())
    (claim,) = server.names("persistentvolumeclaims")
    metadata = server.objects["persistentvolumeclaims", claim]["metadata"]
    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(Refusal, match="its workspace would end with its pod"):
        box.drive("stopped")
    assert server.names("pods") and box.status() == "running"


def test_a_sandbox_without_its_secret_is_not_rolled_back(server, world):
    """The cluster is about to remove its snapshots."""
    server.objects["volumesnapshotclasses", "tests"] = {"metadata": {"name": "tests"}}
    box = world.new(world.open())
    box("snapshot", name="first")
    (name,) = server.names("secrets")
    secret = server.objects.pop(("secrets", name))
    for verb in ("rollback", "snapshot"):
        with pytest.raises(Refusal) as refusal:
            box(verb, name="first")
        assert refusal.value.code == "not_found" and "the cluster has no such sandbox" in refusal.value.text, refusal.value
    assert server.names("pods") and server.names("persistentvolumeclaims")
    server.objects["secrets", name] = secret
    del server.objects["volumesnapshotclasses", "tests"]


# --- what hangs -------------------------------------------------------------------------------------


@contextlib.contextmanager
def passing(seconds, *faults):
    """They end by themselves."""
    with contextlib.ExitStack() as stack:
        for fault in faults:
            stack.enter_context(fault)
        lift = threading.Timer(seconds, stack.pop_all().close)
        lift.start()
        yield
        lift.join()


def test_an_exec_that_hangs_does_not_hold_a_create(server, world):
    """Where the hand is put in by one."""
    del world.settings["kubernetes.hand_image"]
    began = time.monotonic()
    with passing(3, server.fault(r"^GET .*/exec\b", HANG)):
        world.new(world.open())
    assert time.monotonic() - began < 30 and server.count(r"^GET .*/exec\b") == 2


def test_a_silent_look_at_a_pod_does_not_hold_a_create(server, world):
    """While its hand does not answer yet."""
    began = time.monotonic()
    with passing(3, server.fault("/proxy/alive", 503), server.fault(r"^GET [^?]*/pods/[^/:]+$", HANG)):
        world.new(world.open())
    assert time.monotonic() - began < 20


def test_who_looks_does_not_wait_for_the_words_of_events(server, world):
    box = world.new(world.open())
    (pod,) = server.names("pods")
    server.remove("pods", pod)
    with server.fault("/events", HANG):
        began = time.monotonic()
        told = box("inspect", timeout=30)
        assert told["status"] == "error" and "its pod is gone" in told["reason"], told
        assert time.monotonic() - began < 15


# --- ports ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "seconds"), [(503, 8), (HANG, 18)])
def test_a_list_of_ports_asks_no_further_after_a_failure(server, world, answer, seconds):
    service = Service(world.base / "service", runtime="kubernetes", settings=SETTINGS, env=world.env).start()
    try:
        client = service.client()
        box = make(client, image="box:1", ports=list(range(3000, 3010)))
        server.asked.clear()
        with server.fault("/services/", answer):
            began = time.monotonic()
            listed = client.get(at(box, "/ports")).ok().json["ports"]
            assert time.monotonic() - began < seconds
        assert len(listed) == 10 and not any("address" in port for port in listed), listed
        assert server.count("/services/") == 1
        told = client.post(at(box, "/ports/3001")).ok(201).json["address"]
        assert {port["port"]: port.get("address") for port in client.get(at(box, "/ports")).ok().json["ports"]}[3001] == told
        client.delete(at(box)).ok(204)
    finally:
        service.finish()


# --- doctor -----------------------------------------------------------------------------------------


def hand_of_doctor(world):
    env = {**world.env, "TENDON_STATE": str(world.base / "program"), "TENDON_KUBERNETES_HAND_IMAGE": "hand:1", "TENDON_KUBERNETES_REACH": "proxy"}
    words = [program(BUILD, "tendon"), "doctor", "--json", "--runtime", "kubernetes"]
    told = subprocess.run(words, env=env, cwd=world.cwd, capture_output=True, timeout=100)
    (found,) = [one for one in json.loads(told.stdout) if one["runtime"] == "kubernetes"]
    return next(one for one in found["findings"] if one["what"] == "hand")


def of_a_tenant(pod):
    """Whether it is pulled without the operator's logins."""
    return "imagePullSecrets" in pod["spec"]


def test_a_doctor_tells_what_happened_to_a_tenants_pod(server, world):
    over = {"phase": "Failed", "reason": "OutOfpods", "message": "the node is full"}
    server.status_of = lambda pod: over if of_a_tenant(pod) else runs(pod)
    told = hand_of_doctor(world)
    assert not told["good"] and not told["needed"] and "could not pull" not in told["detail"], told
    assert "names did not start: " in told["detail"] and "the node is full" in told["detail"], told


def test_a_doctor_tells_of_an_image_that_no_tenants_pod_can_pull(server, world):
    waits = {"name": "hand", "image": "hand:1", "state": {"waiting": {"reason": "ErrImagePull", "message": "denied"}}}
    server.status_of = lambda pod: {"phase": "Pending", "initContainerStatuses": [waits]} if of_a_tenant(pod) else runs(pod)
    told = hand_of_doctor(world)
    assert not told["good"] and not told["needed"] and "a tenant names could not pull it" in told["detail"], told

"""What a newer node has, each seen on a real one: sandboxes on gVisor's kernel (the conformance suite too), the hand's image as a volume,
and the cluster's metrics."""

import inspect
import json
import subprocess
import time

import pytest

import test_runtime_life
import test_runtime_use
from archive import write_image
from cluster import why_not
from conformance import Refusal, wait_until
from images import debian_tar
from kube_world import KubeWorld
from new_node import GVISOR, NewNode
from test_kubernetes_conformance import box, swept  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
HAND = "example.org/hand:volume"

for _module in (test_runtime_life, test_runtime_use):
    for _name, _case in vars(_module).items():
        if _name.startswith("test_") and "make_world" not in inspect.signature(_case).parameters:
            globals()[_name] = _case


@pytest.fixture(scope="module")
def node(tendon_program, static_hand):
    reason = why_not()
    if reason:
        pytest.skip(reason)
    try:
        node = NewNode()
    except LookupError as missing:
        pytest.skip(str(missing))
    node.load(write_image(node.base / "debian.tar", "debian:1", debian_tar(), command=["/bin/bash"]))
    words = [tendon_program, "build", "--hand-image", HAND, "--output", node.base / "hand.tar"]
    subprocess.run(words, check=True, timeout=60, env={"PATH": "/usr/bin:/bin", "HOME": str(node.base), "TENDON_HAND_PROGRAM": str(static_hand)})
    node.load(node.base / "hand.tar")
    yield node
    node.stop()


def make(node, hand, **spec):
    """A world there; at its end nothing may be left."""
    world = KubeWorld(node, node.make_namespace(), hand, **spec)
    before = world.census()
    yield world
    world.finish()
    assert world.census() == before
    node.drop_namespace(world.namespace)


@pytest.fixture(scope="module")
def gvisor(node):
    node.apply(GVISOR)


@pytest.fixture(scope="module")
def world(node, gvisor, static_hand, endings):
    """The conformance suite's: all of its sandboxes have gVisor's kernel."""
    yield from make(node, static_hand, image="debian:1", hand_args=[], isolation="gvisor")


@pytest.fixture
def plain(node, static_hand):
    yield from make(node, static_hand)


def doctor(world, tendon_program):
    words = [tendon_program, "doctor", "--json"]
    env = {**world.env, "TENDON_STATE": str(world.base / "program"), "TENDON_RUNTIME": "kubernetes", "KUBERNETES_NAMESPACE": world.namespace}
    told = subprocess.run(words, env=env, cwd=world.cwd, capture_output=True, text=True, timeout=120)
    (found,) = [one for one in json.loads(told.stdout) if one["runtime"] == "kubernetes"]
    return {one["what"]: one for one in found["findings"]}


def test_without_a_runtime_class(node, plain, tendon_program):
    """One sentence, before anything is made."""
    node.try_kubectl("delete", "runtimeclass", "gvisor")
    assert not doctor(plain, tendon_program)["gVisor"]["good"]
    before = len(node.writes(plain.namespace))
    with pytest.raises(Refusal) as refusal:
        plain.new(plain.open(), isolation="gvisor")
    assert refusal.value.code == "unsupported", refusal.value
    assert "isolation gvisor: the cluster has no RuntimeClass gvisor (kubernetes.runtime_class_gvisor)" in refusal.value.text
    assert len(node.writes(plain.namespace)) == before
    node.apply(GVISOR)
    assert doctor(plain, tendon_program)["gVisor"]["good"]


def test_on_gvisors_kernel(world, box):
    assert "gvisor" in box.ok("uname -r").lower() + box.ok("cat /proc/version").lower() + box.ok("dmesg").lower()
    told = box("inspect")["isolation"]
    assert told["gvisor"] and told["runtime_class"] == "gvisor", told
    box.ok("echo kept >file; echo lost >/tmp/file")
    assert box.drive("stopped") == "stopped" and box.drive("running") == "running"
    assert box.ok("cat file; ls /tmp").split()[0] == "kept"
    assert "gvisor" in box.ok("dmesg").lower()


@pytest.mark.parametrize("isolation", ["native", "gvisor"])
def test_the_hands_image_as_a_volume(gvisor, plain, isolation):
    plain.settings.update({"kubernetes.hand_image": HAND, "kubernetes.hand_volume": "image"})
    driver = plain.open()
    box = plain.new(driver, isolation=isolation)
    spec = plain.pod(box)["spec"]
    assert "initContainers" not in spec and spec["volumes"][0]["image"]["reference"] == HAND, spec
    assert box.ok("echo one >file; cat file") == "one"
    assert box.run("touch /.tendon/x")[0] != 0, "nobody writes there"
    assert box.act("write", path="/workspace/other", content="two")["observation"] == "write"
    assert box("exec", argv=["cat", "/workspace/other"])["output"] == "two\n"
    assert box.drive("stopped") == "stopped" and box.drive("running") == "running"
    assert box.ok("cat file other").split() == ["one", "two"]


def test_an_image_volume_that_is_not_there(plain):
    plain.settings.update({"kubernetes.hand_image": "missing.invalid/hand:1", "kubernetes.hand_volume": "image"})
    began = time.monotonic()
    with pytest.raises(Refusal) as refusal:
        plain.new(plain.open())
    assert "the hand's image (kubernetes.hand_image) missing.invalid/hand:1: " in refusal.value.text and time.monotonic() - began < 50, refusal.value


def test_the_clusters_metrics(node, plain, tendon_program):
    """For a sandbox in which nothing can be looked at: its programs do not find the shell."""
    plain.settings.update({"kubernetes.hand_image": HAND})
    driver = plain.open()
    box = plain.new(driver, env={"PATH": "/nowhere"}, hand_args=["--shell", "/bin/sh"])
    with pytest.raises(Refusal) as refusal:
        box("usage")
    assert "not known: neither inside (" in refusal.value.text and "metrics API (" in refusal.value.text, refusal.value
    absent = doctor(plain, tendon_program)["metrics API"]
    assert not absent["good"] and not absent["needed"], absent
    node.start_metrics()
    try:
        assert doctor(plain, tendon_program)["metrics API"]["good"]
        box.ok("(while :; do :; done) & echo")

        def busy():
            usage = driver.ask("usage", id=box.id)
            return usage["ok"] and usage["cpus"] > 0.01 and usage

        usage = wait_until(busy, 120, "the metrics tell of it")
        assert usage["cpus"] < 1.5 and 200_000 < usage["memory"] < 256 << 20 and usage["cpu_seconds"] == -1, usage
        other = plain.new(driver)
        assert other("usage")["cpu_seconds"] > 0, "a group that can be looked at knows more"
    finally:
        node.stop_metrics()

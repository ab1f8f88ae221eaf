"""tendon itself on a cluster: made, used and removed; killed in the middle, and cleaned up after."""

import json
import signal
import subprocess

import pytest

from conformance import wait_until


@pytest.fixture
def tendon(world, tendon_program, static_hand):
    """tendon(*words, ...) runs it; tendon.start(*words) leaves it running."""

    class Tendon:
        env = {**world.env, "TENDON_STATE": str(world.base / "program"), "TENDON_RUNTIME": "kubernetes",
               "TENDON_HAND_PROGRAM": str(static_hand), "KUBERNETES_NAMESPACE": world.namespace,
               "KUBERNETES_PVC_STORAGE_CLASS": "tests",
               "KUBERNETES_RESOURCE_CPU_REQUEST": "10m", "KUBERNETES_RESOURCE_MEMORY_REQUEST": "16Mi"}  # fmt: skip
        box = ("--image", "box:1", "--hand-arg=--shell", "--hand-arg=sh")

        def start(self, *words):
            return subprocess.Popen([tendon_program, *words], env=self.env, cwd=world.cwd, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip

        def __call__(self, *words):
            with self.start(*words) as process:
                out, err = process.communicate(timeout=120)
            assert process.returncode == 0, (words, out, err)
            return out

    return Tendon()


def test_a_sandbox_from_beginning_to_end(world, tendon):
    before = world.census()
    tendon("new", "--name", "one", *tendon.box)
    assert tendon("exec", "one", "--", "echo", "inside").strip() == "inside"
    tendon("stop", "one")
    assert world.names("pods") == before["pods"]
    tendon("resume", "one")
    tendon("rm", "one")
    assert world.census() == before


@pytest.mark.parametrize("when", ["secrets", "pods"])
def test_killed_in_the_middle_of_a_create(world, tendon, when):
    """gc finds what nobody noted, and touches nothing of others."""
    labels = {"app": "openhands-runtime", "session": "other00001", "tendon.dev/id": "other00001", "tendon.dev/state": "other"}
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "openhands-runtime-other00001-key", "labels": labels}}
    world.cluster.call("POST", f"/api/v1/namespaces/{world.namespace}/secrets", theirs)
    before = world.census()
    process = tendon.start("new", "--name", "one", *tendon.box)
    wait_until(lambda: world.names(when) != before[when], 60, "it has begun")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    tendon("gc")
    assert world.census() == before
    world.cluster.kubectl("delete", "secret", theirs["metadata"]["name"], namespace=world.namespace)


def test_doctor_tries_the_hands_image(world, tendon):
    """What it finds is what a sandbox would; it leaves nothing. Without --runtime it makes nothing at all."""
    def findings(*words):
        process = tendon.start("doctor", "--json", *words)
        with process:
            out, err = process.communicate(timeout=120)
        assert process.returncode == 1 - ("--runtime" not in words), (out, err)
        (found,) = [one for one in json.loads(out) if one["runtime"] == "kubernetes"]
        return {f["what"]: f for f in found["findings"]}

    tendon.env = {**tendon.env, "TENDON_KUBERNETES_HAND_IMAGE": "missing.invalid/hand:1"}
    before = world.census()
    hand = findings("--runtime", "kubernetes")["hand"]
    assert hand["needed"] and not hand["good"] and "missing.invalid/hand:1" in hand["detail"], hand
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
    world.cluster.kubectl("create", "--filename=-", namespace=world.namespace, input=json.dumps(quota))
    wait_until(lambda: not findings()["quota"]["good"], 30, "the quota is counted")
    found = findings("--runtime", "kubernetes")
    assert found["quota"]["detail"] == "0 of 0 pods" and "exceeded quota" in found["hand"]["detail"], found
    assert world.census() == before

"""tendon itself on a cluster: made, used and removed; killed in the middle, and cleaned up after."""

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

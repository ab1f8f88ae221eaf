"""Containers behind the gate, of an engine of the tests' own, on the machine of tests/gate/gate_world.py."""

import contextlib
import os
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(1, str(TESTS / "gate"))
sys.path.insert(2, str(TESTS / "service"))

from gate_world import GateWorld, until  # noqa: E402
from images import debian_tar, thin_tar  # noqa: E402


def keepers(box=None):
    """Processes that keep the gate of a container: those of this box, or all."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            alive = "State:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
            if b"--container" in words and alive and (box is None or box.id in str(words)):
                found.append(int(pid))
    return found


class ContainerWorld(GateWorld):
    """tendon on the machine of the gate's tests, with containers of an engine that has nothing to do with its network."""

    def __init__(self, engine, hand):
        super().__init__()
        self.engine = engine
        self.runtime = self.words()
        self.env = {"DOCKER_HOST": engine.address, "DOCKER_CONFIG": str(self.base), "TENDON_HAND_PROGRAM": str(hand)}

    def words(self):
        """Those of a new sandbox."""
        if not hasattr(self.engine, "gate_image"):
            self.engine.gate_image = self.engine.load("debian-minimal", debian_tar())
        return ("--runtime", "docker", "--image", self.engine.gate_image)

    def left(self):
        return self.engine.docker("ps", "--all", "--quiet", "--filter", "label=tendon.id").split()

    def finish(self):
        super().finish()
        assert not self.left()
        until(lambda: not keepers(), 30)


class ThinWorld(ContainerWorld):
    """Its images have next to nothing: programs are those of this machine."""

    def words(self, bundle=None):
        """bundle: what the image has as that of its authorities."""
        name = "thin-trusting" if bundle else "thin"
        files = {"certs/ca-certificates.crt": bundle} if bundle else {}
        self.engine.load(name, thin_tar(self.base / f"{name}.tar", files))
        return ("--runtime", "docker", "--image", name, "--volume", "/usr:/usr:ro")


class RootlessWorld(ThinWorld):
    """tendon and the engine are an ordinary user's."""

    def tendon(self, *words, **kwargs):
        return super().tendon(*words, **{"user": self.engine.user, **kwargs})

    def box(self, *words, **kwargs):
        return super().box(*words, **{"user": self.engine.user, **kwargs})

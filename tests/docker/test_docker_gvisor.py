"""Containers whose runtime is gVisor's runsc, in engines that have it and in those that have not."""

import pytest

from conformance import Refusal
from engine import CONTAINERS_CONF, Dockerd, Podman, start_engine
from peers import runsc
from test_service_builds import DockerService


def wrapper(base):
    """As docs/docker.md says: with files that outlive a stop. (And no control groups: the test has others.)"""
    path = base / "runsc"
    path.write_text(f'#!/bin/sh\nexec {runsc()} --platform=systrap --ignore-cgroups --overlay2=none "$@"\n')
    path.chmod(0o755)
    return path


class DockerdWithRunsc(Dockerd):
    def command(self):
        return [*super().command(), f"--add-runtime=runsc={wrapper(self.base)}"]


class PodmanWithRunsc(Podman):
    """Its API takes no name of a runtime: the engine's default is runsc."""

    def command(self):
        words = super().command()
        text = CONTAINERS_CONF.replace('runtime = "runc"', 'runtime = "runsc"').format(base=self.base)
        (self.base / "containers.conf").write_text(f'{text}[engine.runtimes]\nrunsc = ["{wrapper(self.base)}"]\n')
        return words


@pytest.fixture(scope="module", params=["docker", "podman"])
def gvisor_engine(request):
    runsc()
    kind, programs = {"docker": (DockerdWithRunsc, ["dockerd"]), "podman": (PodmanWithRunsc, ["podman", "runc"])}[request.param]
    engine = start_engine(kind, *programs)
    yield engine
    engine.stop()


@pytest.fixture
def gvisor_world(gvisor_engine, world_in):
    world = world_in(gvisor_engine)
    world.spec["isolation"] = "gvisor"
    yield world
    world.finish()


@pytest.mark.slow
def test_a_container_on_another_kernel(gvisor_world):
    box = gvisor_world.new(gvisor_world.open())
    assert "gvisor" in box.ok("uname -r")
    assert box("inspect")["isolation"]["gvisor"] == "by the engine"
    box.ok("echo kept >/workspace/file")
    for goal in ("paused", "running", "stopped", "running"):
        assert box.drive(goal) == goal
    assert box.ok("cat /workspace/file") == "kept"


@pytest.mark.slow
def test_it_must_have_a_network_of_its_own(gvisor_world):
    for network in ("none", "host"):
        with pytest.raises(Refusal) as refusal:
            gvisor_world.new(gvisor_world.open(), network=network)
        assert refusal.value.code == "unsupported" and f"network {network}" in refusal.value.text


def test_an_engine_without_it(world):
    """Refused, and nothing is left: not silently run on the machine's own kernel."""
    with pytest.raises(Refusal) as refusal:
        world.new(world.open(), isolation="gvisor")
    assert refusal.value.code == "unsupported" and "gvisor" in refusal.value.text, refusal.value.text
    assert "docker.runsc" in refusal.value.text
    findings = {one["what"]: one for one in world.open()("doctor", runtime="docker")["findings"]}
    assert findings["gVisor"]["good"] is False and "runsc" in findings["gVisor"]["detail"]


def test_a_service_refuses_before_anything_is_made(any_engine, static_hand, tmp_path):
    """Whoever posts is told at once, and not by a sandbox that becomes an error."""
    service = DockerService(tmp_path, any_engine)
    service.env["TENDON_DOCKER_NETWORK"] = "bridge"  # a container under gVisor has no gate, and no tenant widens its network
    service.start()
    try:
        tenant = service.tenant("alice")
        for _ in range(2):  # the second time from what is kept of the engine's answer
            refused = tenant.post("/v1/sandboxes", {"template": "busybox", "image": "none", "isolation": "gvisor"})
            assert refused.status == 400 and "gvisor" in refused.json["detail"], refused
        assert tenant.get("/v1/sandboxes").ok().json["sandboxes"] == []
    finally:
        service.finish()


def test_the_operator_demands_it_later(world):
    """A container that was made without does not start again."""
    driver = world.open()
    box = world.new(driver)
    box.drive("stopped")
    driver("set", name="tendon.isolation", value="gvisor")
    with pytest.raises(Refusal) as refusal:
        box.drive("running")
    assert refusal.value.code == "unsupported" and "gvisor" in refusal.value.text

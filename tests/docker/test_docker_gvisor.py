"""Containers whose runtime is gVisor's runsc, in engines that have it and in those that have not."""

import os
import signal

import pytest
from gated_containers import ThinWorld, keepers
from test_docker_gate import reaches

import outside
from conformance import Refusal
from engine import CONTAINERS_CONF, Dockerd, Podman, start_engine
from gate_world import MACHINE, MACHINE6, MACHINE_PRIVATE, until
from peers import runsc
from test_gate_default import isolation
from test_service_builds import DockerService


GATED = "--network=host --host-uds=create"


def wrapper(base, options):
    """As docs/docker.md says: with files that outlive a stop."""
    path = base / "runsc"
    path.write_text(f'#!/bin/sh\nexec {runsc()} --platform=systrap --overlay2=none {options} "$@"\n')
    path.chmod(0o755)
    return path


class DockerdWithRunsc(Dockerd):
    options = "--ignore-cgroups"  # the test has others

    def command(self):
        return [*super().command(), f"--add-runtime=runsc={wrapper(self.base, self.options)}"]


class PodmanWithRunsc(Podman):
    """Its API takes no name of a runtime: the engine's default is runsc."""

    options = "--ignore-cgroups"

    def command(self):
        words = super().command()
        text = CONTAINERS_CONF.replace('runtime = "runc"', 'runtime = "runsc"').format(base=self.base)
        (self.base / "containers.conf").write_text(f'{text}[engine.runtimes]\nrunsc = ["{wrapper(self.base, self.options)}"]\n')
        return words


def engine_with_runsc(name, options=None):
    runsc()
    kind, programs = {"docker": (DockerdWithRunsc, ["dockerd"]), "podman": (PodmanWithRunsc, ["podman", "runc"])}[name]
    return start_engine(type(kind.__name__, (kind,), {"options": options} if options else {}), *programs)


@pytest.fixture(scope="module", params=["docker", "podman"])
def gvisor_engine(request):
    engine = engine_with_runsc(request.param)
    yield engine
    engine.stop()


class GvisorWorld(ThinWorld):
    def words(self):
        return (*super().words(), "--isolation", "gvisor")


@pytest.fixture(scope="module", params=["docker", "podman"])
def gated_world(request, static_hand):
    engine = engine_with_runsc(request.param, GATED)
    world = GvisorWorld(engine, static_hand)
    world.env["TENDON_DOCKER_RUNSC_GATE"] = "true"
    yield world
    world.finish()
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


@pytest.mark.slow
def test_behind_the_gate(gated_world):
    """Its sockets are then those of this kernel, in the container's network: the same wall, the same gate."""
    world = gated_world
    box = world.box(None)
    told = isolation(box)
    assert (told["gated"], told["reach"], told["gvisor"]) == (True, "open", "by the engine"), told
    assert "gvisor" in box.sh("uname -r").stdout
    assert reaches(box, "good.test") and reaches(box, outside.OTHER)
    since = len(world.internet.lines())
    for address in (MACHINE, MACHINE_PRIVATE, MACHINE6, outside.PRIVATE, outside.METADATA, "127.0.0.1"):
        for port in (80, 8000):
            assert not reaches(box, address, port)
    assert not any(line.startswith("http") for line in world.internet.lines()[since:])
    world.tendon("rm", box.id)
    until(lambda: not keepers(box))


@pytest.mark.slow
def test_rules_behind_the_gate(gated_world):
    world = gated_world
    box = world.box("allow", "good.test", "six.test")
    for _ in range(2):
        assert reaches(box, "good.test") and reaches(box, "six.test")
        since = len(world.internet.lines())
        for host in ("evil.test", outside.EVIL, outside.EVIL6, outside.OTHER):
            assert not reaches(box, host)
        assert not any(line.startswith(("http", "name evil")) for line in world.internet.lines()[since:])
        assert outside.EVIL in str(box.network()["refusals"])
        world.tendon("stop", box.id)
        until(lambda: not keepers(box))
        world.tendon("resume", box.id)
    (keeper,) = keepers(box)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not keepers(box))
    assert reaches(box, "good.test") and not reaches(box, outside.EVIL)
    world.tendon("rm", box.id)


@pytest.mark.slow
def test_what_it_cannot_have(gated_world):
    """TLS that its gate would end: what the image believes cannot be covered in there."""
    made = gated_world.tendon("new", *gated_world.runtime, "--network", "allow", "--allow", "GET https://good.test/x", check=False)
    assert made.returncode and "ends no TLS" in made.stderr, made
    box = gated_world.box("none")
    assert not reaches(box, outside.GOOD)
    gated_world.tendon("rm", box.id)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["docker", "podman"])
def test_a_runtime_that_has_its_own_stack(name, static_hand):
    """Though the operator says otherwise: no container, and not one without a gate."""
    engine = engine_with_runsc(name, "--host-uds=create")
    world = GvisorWorld(engine, static_hand)
    world.env["TENDON_DOCKER_RUNSC_GATE"] = "true"
    try:
        made = world.tendon("new", *world.runtime, check=False)
        assert made.returncode and "without --network=host" in made.stderr, made
        assert not world.left()
    finally:
        world.finish()
        engine.stop()


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

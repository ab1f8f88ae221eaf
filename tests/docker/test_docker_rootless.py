"""Containers of an ordinary user's own engine, rootless Podman: the same gate as root's have."""

import os
import signal

import pytest
from engine import RootlessPodman, proc, start_engine
from gated_containers import RootlessWorld, keepers
from test_docker_gate import reaches
from test_docker_secrets import BUNDLE, USE, count

import outside
from canary import new_value
from gate_world import MACHINE, MACHINE6, MACHINE_PRIVATE, Box, until
from test_gate_default import isolation
from test_secrets import Life, got

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def world(static_hand):
    if not all(os.path.exists(f"/etc/{name}") for name in ("subuid", "subgid")):
        pytest.skip("no /etc/subuid and /etc/subgid here, over which others could be mounted")
    engine = start_engine(RootlessPodman, "podman", "runc", "newuidmap")
    world = RootlessWorld(engine, static_hand)
    yield world
    world.finish()
    engine.stop()


@pytest.fixture(scope="module")
def box(world):
    return world.box("allow", "good.test", "six.test")


def test_the_internet_and_nothing_near(world):
    box = world.box(None)
    told = isolation(box)
    assert (told["gated"], told["reach"], told["network_mode"]) == (True, "open", "none"), told
    assert reaches(box, "good.test") and reaches(box, outside.OTHER)
    since = len(world.internet.lines())
    for address in (MACHINE, MACHINE_PRIVATE, MACHINE6, outside.PRIVATE, outside.METADATA, "127.0.0.1"):
        for port in (80, 8000):
            assert not reaches(box, address, port)
    assert not any(line.startswith("http") for line in world.internet.lines()[since:])
    world.tendon("rm", box.id)
    until(lambda: not keepers(box))


def test_rules(world, box):
    assert isolation(box)["reach"] == "allow"
    assert reaches(box, "good.test")
    assert outside.GOOD6 in box.sh("getent ahosts six.test").stdout and reaches(box, "six.test")
    since = len(world.internet.lines())
    assert box.sh("getent ahosts evil.test").returncode != 0
    for host in (outside.EVIL, outside.EVIL6, outside.OTHER):
        assert not reaches(box, host)
    assert not any(line.startswith(("http", "name evil")) for line in world.internet.lines()[since:])
    assert outside.EVIL in str(box.network()["refusals"])
    world.tendon("network", box.id, "--allow", "evil.test")
    assert reaches(box, "evil.test")
    world.tendon("network", box.id, "--deny", "evil.test")
    assert not reaches(box, "evil.test")


def test_who_keeps_it(box):
    """The keeper and its gate are the user's, outside of the container's namespaces."""
    assert reaches(box, "good.test")
    (keeper,) = keepers(box)
    for pid in (keeper, box.gate()):
        assert f"Uid:\t{box.user}\t" in proc(pid, "status")
    assert os.readlink(f"/proc/{keeper}/ns/user") == os.readlink("/proc/self/ns/user")


def test_a_keeper_that_is_killed(box):
    """Nothing passes without it; whoever uses the sandbox next brings it back."""
    (keeper,) = keepers(box)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not keepers(box))
    assert reaches(box, "good.test") and not reaches(box, outside.EVIL)
    assert len(keepers(box)) == 1 and keepers(box) != [keeper]


def test_stop_and_start(world, box):
    world.tendon("stop", box.id)
    until(lambda: not keepers(box))
    world.tendon("resume", box.id)
    assert len(keepers(box)) == 1
    assert reaches(box, "good.test") and not reaches(box, outside.EVIL)


def test_secrets(world):
    """Its gate ends TLS; what the image believes is covered, by what the engine has mounted: a user can mount nothing else in there."""
    life, value, user = Life(world, world.engine.user), new_value(), world.engine.user
    life("secret", "set", "API_KEY", "--host", "api.test", input=value)
    root = (world.internet.certificates / "root.pem").read_text()
    rules = ("--network", "allow", "--allow", "api.test", "--secret", "API_KEY")
    name = life("new", *world.words(root), "--keep", "--user", "root", *rules).stdout.strip()
    box = Box(world, name, user)
    for _ in range(2):  # and again by another keeper
        assert life.python(name, USE.format("api.test")) == "Bearer " + "*" * len(value)
        assert got(life, f"Bearer {value}")
        assert count(life, name) == count(life, name, BUNDLE) == root.count("BEGIN CERT") + 1
        assert life("exec", name, "--", f"echo x >>{BUNDLE} || echo x >>/.tendon/roots.pem", check=False).returncode != 0
        (keeper,) = keepers(box)
        os.kill(keeper, signal.SIGKILL)
        until(lambda: not keepers(box))
        life("inspect", name)
    life("rm", name)
    life("secret", "rm", "API_KEY")

"""Containers behind the gate that jails have: what they reach, what not, and who keeps it alive."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest
from call_log import CallLog
from gated_containers import ContainerWorld, keepers

import outside
from gate_world import MACHINE, MACHINE6, MACHINE_PRIVATE, Box, until
from native import at, run
from services import eventually
from test_gate_default import isolation, without_nftables
from test_service_builds import DockerService
from trees import BUILD, program

pytestmark = pytest.mark.timeout(300)

# What a web server says, by bash alone: "" where the connection is cut, or there is none.
GET = r"exec 3<>/dev/tcp/{0}/{1} && printf 'GET /{2} HTTP/1.1\r\nHost: {0}\r\nConnection: close\r\n\r\n' >&3 && timeout 20 cat <&3"


def get(box, host, port=80, path=""):
    return box.sh(f"timeout 30 bash -c {json.dumps(GET.format(host, port, path)).replace('$', chr(92) + '$')} 2>/dev/null").stdout


def reaches(box, host, port=80):
    return "200 OK" in get(box, host, port)


@pytest.fixture(scope="module", params=["docker", "podman"])
def world(request, static_hand):
    world = ContainerWorld(request.getfixturevalue({"docker": "engine", "podman": "podman"}[request.param]), static_hand)
    yield world
    world.finish()


@pytest.fixture(scope="module")
def open_box(world):
    """Which says nothing of its network."""
    return world.box(None)


@pytest.fixture(scope="module")
def box(world):
    return world.box("allow", "good.test", "good.test:7", "six.test")


# --- what is reached --------------------------------------------------------------------------------


def test_it_says_what_holds(world, open_box, box):
    told = isolation(open_box)
    assert (told["gated"], told["reach"], told["network_mode"]) == (True, "open", "none"), told
    assert "never this machine" in told["reaches"]
    assert isolation(box)["reach"] == "allow"
    assert open_box.sh("cat /etc/resolv.conf").stdout == "nameserver 192.0.0.1\n"
    assert box.sh("echo x >> /etc/resolv.conf").returncode != 0


def test_the_internet(open_box):
    assert outside.GOOD in open_box.sh("getent ahosts good.test").stdout
    assert reaches(open_box, "good.test") and reaches(open_box, outside.OTHER)


NEAR = {
    "this machine": MACHINE,
    "its private address": MACHINE_PRIVATE,
    "a private network": outside.PRIVATE,
    "the metadata of a cloud": outside.METADATA,
    "a carrier's network": outside.CARRIER,
    "the engine's bridge": "172.17.0.1",
}


@pytest.mark.parametrize("address", NEAR.values(), ids=NEAR.keys())
def test_what_is_near(world, open_box, address):
    since = len(world.internet.lines())
    for port in (80, 8000):
        assert not reaches(open_box, address, port)
    assert not any(line.startswith("http") for line in world.internet.lines()[since:])
    assert address in json.dumps(open_box.network()["refusals"])


def test_the_loopback_is_its_own(open_box):
    assert not reaches(open_box, "127.0.0.1", 8000), "a server of the machine listens there"


def test_rules_by_name_address_and_port(world, box):
    assert reaches(box, "good.test")
    since = len(world.internet.lines())
    assert box.sh("getent ahosts evil.test").returncode != 0
    for host, port in ((outside.EVIL, 80), ("good.test", 8080), (outside.GOOD, 443), (outside.OTHER, 80)):
        assert not reaches(box, host, port)
    arrived = world.internet.lines()[since:]
    assert not any(line.startswith(("http", "name evil")) for line in arrived), arrived
    told = json.dumps(box.network()["refusals"])
    assert "evil.test" in told and outside.EVIL in told and "8080" in told


def test_ipv6_is_judged_alike(world, open_box, box):
    assert outside.GOOD6 in box.sh("getent ahosts six.test").stdout
    assert "200 OK" in get(box, "six.test")
    for one, address in ((open_box, MACHINE6), (box, outside.EVIL6)):
        since = len(world.internet.lines())
        assert not reaches(one, address)
        assert not any(line.startswith("http") for line in world.internet.lines()[since:])


# The command ends when it listens: what has no session of its own by then would end with it.
LISTEN = "setsid perl -MIO::Socket::INET -e '{}' </dev/null >/dev/null 2>&1 & timeout 30 bash -c 'until (exec 3<>/dev/tcp/127.0.0.1/4711) 2>/dev/null; do sleep 0.1; done'".format(
    '$s = IO::Socket::INET->new(Listen => 5, LocalPort => 4711) or die; while ($c = $s->accept) { print $c "HTTP/1.1 200 OK\\r\\n\\r\\n"; close $c }'
)


def test_another_container(world, open_box):
    """Each is alone in its network, whatever address it tries."""
    other = world.box(None)
    assert other.sh(LISTEN).returncode == 0
    until(lambda: reaches(other, "127.0.0.1", 4711))
    for address in ("127.0.0.1", "192.0.0.2", "192.0.0.1", "172.17.0.2", "172.17.0.3", "10.88.0.2"):
        assert not reaches(open_box, address, 4711)
    world.tendon("rm", other.id)


def test_its_ports_are_reached_through_the_hand(world, open_box):
    assert open_box.sh(LISTEN.replace("4711", "4712")).returncode == 0
    words = world.machine.words(program(BUILD, "tendon"), "port", open_box.id, "4712")
    home = world.home(0)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TENDON_STATE": str(home / "state"), **world.env}
    with subprocess.Popen(words, env=env, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as port:
        try:
            code = "import socket; print(socket.create_connection(('127.0.0.1', 4712), 5).recv(99))"
            ask = world.machine.words("/usr/bin/python3", "-c", code)
            until(lambda: b"200 OK" in subprocess.run(ask, capture_output=True, timeout=30).stdout)
        finally:
            port.terminate()


def test_a_port_by_name_is_not_published(world):
    made = world.tendon("new", *world.runtime, "--port", "4713")
    name = made.stdout.strip()
    assert "none is published behind the gate" in made.stderr and f"tendon port {name}" in made.stderr, made
    world.tendon("rm", name)


# --- rules ------------------------------------------------------------------------------------------

TALK = """
rm -f /tmp/in /tmp/said; mkfifo /tmp/in
cat >/tmp/talk <<'END'
exec 4<>/tmp/in 3<>/dev/tcp/good.test/7
read -r line <&3
echo ready >>/tmp/said
while read -r line <&4; do echo "$line" >&3; read -r -t 30 answer <&3; echo "got $answer" >>/tmp/said; done
END
setsid bash /tmp/talk </dev/null >>/tmp/said 2>&1 &
timeout 30 bash -c 'until [ -s /tmp/said ]; do sleep 0.1; done'; cat /tmp/said
"""


def test_new_rules_lose_no_connection(world):
    box = world.box("allow", "good.test", "good.test:7")
    assert "ready" in box.sh(TALK).stdout

    def say(word):
        box.sh(f"echo {word} >/tmp/in")
        box.said(f"got {word}")

    say("one")
    assert not reaches(box, outside.EVIL)
    world.tendon("network", box.id, "--allow", "evil.test", "--deny", "good.test:7")
    assert reaches(box, "evil.test")
    assert "" == get(box, "good.test", 7)
    say("two")
    told = json.loads(world.tendon("--json", "network", box.id).stdout)
    assert told["gated"] and told["rules"] == ["good.test", "evil.test"], told
    assert any(outside.EVIL in one["what"] for one in told["refusals"]), told
    world.tendon("rm", box.id)


def test_one_kind_becomes_the_other(world):
    box = world.box("open", f"!{outside.OTHER}")
    assert reaches(box, outside.EVIL) and not reaches(box, outside.OTHER)
    world.tendon("network", box.id, "--network", "allow", "--allow", "good.test")
    assert reaches(box, "good.test") and not reaches(box, outside.EVIL)
    (keeper,) = keepers(box)
    os.kill(keeper, signal.SIGKILL)  # the next one knows
    until(lambda: not keepers(box))
    assert reaches(box, "good.test") and not reaches(box, outside.EVIL)
    told = json.loads(world.tendon("--json", "inspect", box.id).stdout)
    told = told[0] if isinstance(told, list) else told
    assert told["isolation"]["reach"] == "allow"
    world.tendon("rm", box.id)


def test_an_action_hears_of_it(world, box):
    failed = world.tendon("exec", box.id, "--", f"exec 3<>/dev/tcp/{outside.EVIL}/80 && cat <&3 && false", check=False)
    assert failed.returncode != 0
    told = json.loads(world.tendon("--json", "inspect", box.id).stdout)
    told = told[0] if isinstance(told, list) else told
    assert f"the network refused {outside.EVIL}" in told["reason"]
    assert "NETWORK$REFUSED" in world.tendon("--json", "events", box.id).stdout


# --- life -------------------------------------------------------------------------------------------


def test_a_gate_that_is_killed(box):
    for _ in range(3):
        assert reaches(box, "good.test")
        os.kill(box.gate(), signal.SIGKILL)
    assert reaches(box, "good.test") and not reaches(box, outside.EVIL)


def test_a_gate_counts_to_its_container(box):
    assert reaches(box, "good.test")
    groups = pathlib.Path(f"/proc/{box.gate()}/cgroup").read_text()
    (found,) = box.world.engine.docker("ps", "--quiet", "--no-trunc", "--filter", f"label=tendon.id={box.id}").split()
    assert found in groups


def test_a_keeper_that_is_killed(world):
    """Nothing passes without it; whoever uses the sandbox or looks at it next brings it back, and only one."""
    box = world.box("allow", "good.test")
    assert reaches(box, "good.test")

    def kill():
        (keeper,) = keepers(box)
        os.kill(keeper, signal.SIGKILL)
        until(lambda: not keepers(box))
        return keeper

    keeper = kill()
    assert reaches(box, "good.test") and keepers(box) != [keeper]
    keeper = kill()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: world.tendon("inspect", box.id), range(4)))
    until(lambda: len(keepers(box)) == 1)
    assert reaches(box, "good.test") and not reaches(box, outside.EVIL)
    assert keepers(box) != [keeper]
    world.tendon("rm", box.id)
    assert not keepers(box)


def test_stop_and_start_pause_and_resume(world):
    box = world.box("allow", "good.test")
    (keeper,) = keepers(box)
    assert reaches(box, "good.test")
    world.tendon("pause", box.id)
    assert keepers(box) == [keeper]
    world.tendon("resume", box.id)
    assert reaches(box, "good.test")
    # A gate that stands still dies with its keeper, but not before it goes on.
    world.tendon("pause", box.id)
    os.kill(keeper, signal.SIGKILL)
    world.tendon("resume", box.id)
    assert reaches(box, "good.test")
    (keeper,) = keepers(box)
    world.tendon("stop", box.id)
    until(lambda: not keepers(box))
    world.tendon("resume", box.id)
    assert len(keepers(box)) == 1 and keepers(box) != [keeper]
    assert reaches(box, "good.test") and not reaches(box, outside.EVIL)
    world.tendon("rm", box.id)
    assert not keepers(box) and not list(world.base.glob(f"**/{box.id}"))


def test_creators_that_are_killed_leave_nothing(world):
    """At any moment of a create; what was left is found by gc, keepers too."""
    words = world.machine.words(program(BUILD, "tendon"), "new", *world.runtime, "--keep")
    home = world.home(0)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TENDON_STATE": str(home / "state"), **world.env}
    before = set(world.left())
    for delay in (0.3, 0.8, 1.5, 3):
        with subprocess.Popen(words, env=env, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as creator:
            with contextlib.suppress(subprocess.TimeoutExpired):
                creator.wait(delay)
            creator.kill()
    known = {one.id for one in world.boxes}
    for one in json.loads(world.tendon("--json", "ls", "--all").stdout):
        if one["id"] not in known:
            world.tendon("rm", one["id"], check=False)
    world.tendon("gc")
    until(lambda: set(world.left()) <= before)


# --- where it cannot be -----------------------------------------------------------------------------


def test_a_kernel_without_nftables(world):
    box = world.box(None, before=without_nftables)
    told = isolation(box)
    assert (told["gated"], told["reach"]) == (False, "bridge") and "no gate" in told["reaches"], told
    network = json.loads(world.tendon("--json", "network", box.id).stdout)
    assert (network["network"], network["gated"]) == ("bridge", False)
    world.tendon("rm", box.id)
    made = world.tendon("new", *world.runtime, "--network", "open", check=False, preexec_fn=without_nftables)
    assert made.returncode and "nft_tproxy" in made.stderr, made


def test_an_engine_that_is_somebody_elses(world, tmp_path):
    """Whose containers have the engine's own network, as before; a gate by name is refused."""
    relay = CallLog(world.engine.address, tmp_path / "engine.sock")
    os.chown(tmp_path / "engine.sock", 65534, 65534)
    env = {"DOCKER_HOST": relay.address}
    try:
        for words in (["--network", "open"], ["--network", "allow"], ["--allow", "good.test"]):
            made = world.tendon("new", *world.runtime, *words, check=False, env=env)
            assert made.returncode and "a container has a gate where" in made.stderr, made
        doctor = json.loads(world.tendon("--json", "doctor", "--runtime", "docker", check=False, env=env).stdout)
        (found,) = [f for one in doctor for f in one["findings"] if f["what"] == "network of a sandbox"]
        assert not found["good"] and "no gate" in found["detail"], found
    finally:
        relay.close()


def test_other_networks_by_name(world):
    for network, reach in (("none", "none"), ("bridge", "bridge"), ("host", "host")):
        box = world.box(network)
        told = isolation(box)
        assert (told["gated"], told["reach"]) == (False, reach), told
        assert not keepers(box)
        world.tendon("rm", box.id)
    made = world.tendon("new", *world.runtime, "--network", "bridge", "--allow", "good.test", check=False)
    assert made.returncode and "allow" in made.stderr


def test_one_line_makes_another_the_default(world):
    box = world.box(None, TENDON_DOCKER_NETWORK="none")
    assert isolation(box)["reach"] == "none"
    world.tendon("rm", box.id)
    box = world.box(None, TENDON_DOCKER_NETWORK="allow", TENDON_DOCKER_ALLOW="good.test")
    assert isolation(box)["reach"] == "allow"
    assert reaches(box, "good.test") and not reaches(box, outside.EVIL)
    world.tendon("rm", box.id)


# --- a service --------------------------------------------------------------------------------------


class GatedService(DockerService):
    def __init__(self, base, world):
        super().__init__(base, world.engine)
        self.world = world

    def command(self):
        return self.world.machine.words(*super(DockerService, self).command())


def test_a_tenant(world, tmp_path):
    service = GatedService(tmp_path, world)
    service.env["TENDON_DOCKER_NETWORK"] = "allow"
    service.env["TENDON_DOCKER_ALLOW"] = "good.test,*.cdn.test"
    service.start()
    try:
        alice, mallory = service.tenant("alice"), service.tenant("mallory")
        wish = {"image": world.engine.gate_image, "plugins": []}
        for network in ("open", "bridge", "host"):
            assert alice.post("/v1/sandboxes", {**wish, "network": network}).status == 403
        assert alice.post("/v1/sandboxes", {**wish, "allow": ["evil.test"]}).status == 403
        assert alice.get("/v1/sandboxes").ok().json["sandboxes"] == []
        box = alice.post("/v1/sandboxes", wish).ok(201).json
        eventually(lambda: alice.get(at(box)).ok().json["state"] == "running", "it runs")
        told = run(alice, box, f"exec 3<>/dev/tcp/{outside.EVIL}/80 && cat <&3 && false")
        assert f"the network refused {outside.EVIL}" in json.dumps(told), told
        now = alice.get(at(box, "/network")).ok().json
        assert now["network"] == "allow" and now["gated"] and now["rules"] == ["good.test", "*.cdn.test"], now
        assert any(outside.EVIL in one["what"] for one in now["refusals"]), now
        lines = [json.loads(line) for line in (service.state / "audit.log").read_text().splitlines()]
        assert any(one["what"] == "network.refused" and outside.EVIL in one["detail"] for one in lines), lines
        assert mallory.get(at(box, "/network")).status == 404
        assert alice.patch(at(box, "/network"), {"allow": ["evil.test"]}).status == 403
        assert alice.patch(at(box, "/network"), {"allow": ["one.cdn.test"]}).ok().json["rules"][-1] == "one.cdn.test"
        service.client().patch(at(box, "/network"), {"allow": ["evil.test"]}).ok()
        shown = run(alice, box, "timeout 30 bash -c " + json.dumps(GET.format("evil.test", 80, "")))
        assert "200 OK" in json.dumps(shown), shown
        mine = Box(world, box["id"], 0)
        (keeper,) = keepers(mine)
        service.kill()
        service.start()
        eventually(lambda: alice.get(at(box)).ok().json["state"] == "running", "it still runs")
        assert keepers(mine) == [keeper]
        alice.delete(at(box)).ok(204)
        until(lambda: not keepers(mine))
    finally:
        service.finish()

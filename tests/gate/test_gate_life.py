"""The gate as a process: it comes when it is needed and goes when it is not, may be killed, and takes new rules."""

import os
import pathlib
import signal

import outside
import pytest
from gate_world import until

GET = "curl -sS -m 10 http://{}/"


@pytest.fixture
def box(world, user):
    return world.box("allow", "good.test", "good.test:6-7", user=user)


def is_gone(pid):
    """Or waits for a burial: whoever inherits it may not bury."""
    try:
        return "State:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def test_none_runs_before_it_is_needed_nor_after(world, box):
    assert box.gate() == 0
    assert box.sh(GET.format("good.test")).returncode == 0
    gate = box.gate()
    assert gate > 0
    until(lambda: box.gate() == 0)
    assert is_gone(gate)
    # The next one knows what the last one answered.
    since = len(world.internet.lines())
    assert box.sh(f"curl -sS -m 10 --resolve good.test:80:{outside.GOOD} {GET.format('good.test')[-17:]}").returncode == 0
    assert not any(line.startswith("name") for line in world.internet.lines()[since:])


def test_what_it_may_do_itself(box, user):
    assert box.sh(GET.format("good.test")).returncode == 0
    status = pathlib.Path(f"/proc/{box.gate()}/status").read_text()
    assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    assert "CapEff:\t0000000000000000" in status and "CapPrm:\t0000000000000000" in status
    uid = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1]
    assert uid not in ("0",) and (not user or int(uid) == user)


FLOOD = f"""
import socket
s = socket.create_connection(('{outside.GOOD}', 6)); s.settimeout(20)
s.sendall(b'more')
print('begins', len(s.recv(1000)))
try:
    while s.recv(1 << 20): pass
    print('ended')
except OSError as e: print('cut', type(e).__name__)
"""


def test_killed_in_the_middle(box):
    assert box.sh("getent ahosts good.test").returncode == 0
    box.start(FLOOD)
    box.said("begins")
    gate = box.gate()
    os.kill(gate, signal.SIGKILL)
    until(lambda: any(word in box.sh("cat /tmp/said").stdout for word in ("ended", "cut")))
    # Nothing passes without one, and the next one judges as this one did.
    assert box.sh(f"curl -sS -m 10 http://{outside.EVIL}/").returncode != 0
    assert box.sh(GET.format("good.test")).returncode == 0
    assert box.gate() not in (0, gate)


def test_killed_again_and_again(box):
    for _ in range(5):
        assert box.sh(GET.format("good.test")).returncode == 0
        os.kill(box.gate(), signal.SIGKILL)
    assert box.sh(GET.format("good.test")).returncode == 0


def test_ends_with_its_sandbox(world, box):
    assert box.sh(GET.format("good.test")).returncode == 0
    gate = box.gate()
    world.tendon("rm", box.id, user=box.user)
    until(lambda: is_gone(gate))


def test_ends_with_its_keeper(world, user):
    box = world.box("open", user=user)
    assert box.sh(GET.format("good.test")).returncode == 0
    gate = box.gate()
    keeper = int(pathlib.Path(f"/proc/{gate}/status").read_text().split("PPid:")[1].split()[0])
    os.kill(keeper, signal.SIGKILL)
    until(lambda: is_gone(gate))


TALK = f"""
import socket, time
s = socket.create_connection(('{outside.GOOD}', 7)); s.settimeout(30)
print('hello', s.recv(6))
for i in range(200):
    s.sendall(b'%d\\n' % i); assert s.recv(100) == b'%d\\n' % i
    print('round', i); time.sleep(0.1)
"""


def reload(box, *lines):
    path = box.directory / "network.rules"
    path.write_text("".join(f"{line}\n" for line in lines))
    os.chown(path, box.user, box.user)
    return box.ask("rules")


def test_new_rules_while_it_runs(box):
    assert box.sh("getent ahosts good.test").returncode == 0
    box.start(TALK)
    box.said("round 3")
    assert box.sh(GET.format("evil.test")).returncode != 0
    assert reload(box, "allow", "evil.test") == "ok"
    assert box.sh(GET.format("evil.test")).returncode == 0
    assert box.sh(GET.format("good.test")).returncode != 0
    seen = box.sh("tail -1 /tmp/said").stdout
    until(lambda: box.sh("tail -1 /tmp/said").stdout != seen)  # it still talks
    assert "Error" not in box.sh("cat /tmp/said").stdout
    assert "expected open or allow" in reload(box, "everything")
    assert box.sh(GET.format("evil.test")).returncode == 0


def test_an_unknown_rule_makes_no_sandbox(world, user):
    made = world.tendon("new", "--runtime", "jail", "--network", "allow", "--allow", "a b", user=user, check=False)
    assert made.returncode != 0 and "rule 'a b'" in made.stderr


@pytest.mark.parametrize(
    "words, why",
    [
        (("--runtime", "local", "--network", "allow"), "it shares the network of this machine"),
        (("--runtime", "local", "--allow", "good.test"), "it shares the network of this machine"),
        (("--runtime", "docker", "--image", "x", "--network", "open"), "a container has a gate where"),
        (("--runtime", "jail", "--network", "none", "--allow", "good.test"), "expected network open or allow"),
        (("--runtime", "jail", "--network", "bridge"), "bridge is for docker"),
    ],
)
def test_no_wish_is_forgotten(world, words, why):
    """A runtime that cannot do it makes no sandbox, rather than one with another network."""
    made = world.tendon("new", *words, check=False)
    assert made.returncode != 0 and why in made.stderr, made.stderr

"""The gate as a process: it comes when it is needed and goes when it is not, may be killed, and takes new rules."""

import os
import pathlib
import resource
import signal
import time

import outside
import pytest
from gate_world import WAIT

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


def until(condition, seconds=WAIT):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


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


CROWD = f"""
import socket, sys
count = int(sys.argv[1])
conns = []
for i in range(count):
    conns.append(socket.create_connection(('{outside.GOOD}', 6), timeout=30))
for i, c in enumerate(conns): c.sendall(b'%06d' % i)
for i, c in enumerate(conns): assert c.recv(6) == b'%06d' % i
print('all', flush=True)
sys.stdin.readline()
"""


def usage(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    kib = int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])
    return len(os.listdir(f"/proc/{pid}/fd")), kib


def crowd_size():
    """Ten thousand, or what there are descriptors for: two for each, where root may not raise its own limit."""
    try:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(limit, 40000)))
        return 10000
    except (ValueError, PermissionError):
        print(f"only {limit} descriptors for a process: fewer connections")
        return min(10000, (limit - 4000) // 2)


@pytest.mark.slow
def test_ten_thousand(world):
    """Many connections at once; afterwards it is as it was."""
    box = world.box("open")
    each = crowd_size() // 4
    box.sh(f"cat > /tmp/crowd.py <<'END'\n{CROWD}\nEND", check=True)
    box.start(f"import signal, socket\ns = socket.create_connection(('{outside.GOOD}', 7)); print('held'); signal.pause()")
    box.said("held")
    gate = box.gate()
    before = usage(gate)
    for turn in range(2):
        box.start(
            "import subprocess\n"
            f"crowd = [subprocess.Popen(['python3', '/tmp/crowd.py', '{each}'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]\n"
            "print([c.stdout.readline() for c in crowd])\n"
            "import os, time\n"
            "while not os.path.exists('/tmp/enough'): time.sleep(0.1)\n"
            "os.unlink('/tmp/enough')\n"
            "for c in crowd: c.communicate('')\n"
            "print('over')\n"
        )
        assert box.said("]").count("all") == 4
        full = usage(gate)
        assert full[0] >= 8 * each
        assert full[1] < 64 << 10, full
        box.sh("touch /tmp/enough", check=True)
        box.said("over")
        until(lambda: usage(gate)[0] <= before[0] + 140)  # and the pipes that it keeps
    assert box.gate() == gate
    assert usage(gate)[1] < before[1] + (16 << 10)


SLOW = f"""
import signal, socket
conns = []
for i in range(200):
    c = socket.create_connection(('{outside.GOOD}', 6)); c.sendall(b'more'); conns.append(c)
print('open')
signal.pause()
"""


def test_slow_readers(world):
    """Bytes that nobody takes stay in the kernel, and not many of them."""
    box = world.box("open")
    box.start(SLOW)
    box.said("open")
    gate = box.gate()
    until(lambda: usage(gate)[0] >= 400)
    assert usage(gate)[1] < 64 << 10
    assert box.sh(GET.format("good.test")).returncode == 0


@pytest.mark.parametrize(
    "words, why",
    [
        (("--runtime", "local", "--network", "allow"), "it shares the network of this machine"),
        (("--runtime", "local", "--allow", "good.test"), "it shares the network of this machine"),
        (("--runtime", "docker", "--image", "x", "--network", "open"), "open and allow are for jails"),
        (("--runtime", "jail", "--network", "none", "--allow", "good.test"), "expected network open or allow"),
        (("--runtime", "jail", "--network", "bridge"), "bridge is for docker"),
    ],
)
def test_no_wish_is_forgotten(world, words, why):
    """A runtime that cannot do it makes no sandbox, rather than one with another network."""
    made = world.tendon("new", *words, check=False)
    assert made.returncode != 0 and why in made.stderr, made.stderr

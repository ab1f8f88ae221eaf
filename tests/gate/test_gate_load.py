"""The gate with more to do than it likes: crowds, readers that do not read, ends that do not end, and a kill in the middle."""

import os
import pathlib
import signal

import outside
import pytest
from gate_world import until
from trees import RELEASE

MANY = 10000
GET = "curl -sS -m 20 http://good.test/"


@pytest.fixture(scope="module")
def release(world):
    """A sandbox whose gate is measured: sanitizers keep what was freed."""
    return world.box("open", build=RELEASE, flags=["--open-files", "12000", "--memory", "0"])


def usage(pid):
    """Descriptors, and KiB in memory."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    kib = int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])
    return len(os.listdir(f"/proc/{pid}/fd")), kib


def most_files(pid):
    limits = pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines()
    return int(next(line for line in limits if line.startswith("Max open files")).split()[3])


def hold_gate(box):
    """One connection that keeps it running, and its number."""
    box.start(f"import signal, socket\ns = socket.create_connection(('{outside.GOOD}', 7)); print('held'); signal.pause()")
    box.said("held")
    return box.gate()


# Until the test says so; a file is how it does.
LEAVE = "import os, time\nwhile not os.path.exists('/tmp/enough'): time.sleep(0.1)\nos.unlink('/tmp/enough')\nprint('over')"

# All connections are there at once. Each says its number and wants to hear it; those that were heard leave when told to, so that
# the ones that wait behind them in the kernel have their turn.
CROWD = f"""
import resource, select, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
poll, waits, heard = select.epoll(), {{}}, []
for i in range({MANY}):
    s = socket.create_connection(('{outside.GOOD}', 6), 60)
    s.sendall(b'%06d' % i)
    waits[s.fileno()] = s, b'%06d' % i
    poll.register(s, select.EPOLLIN)
print('connected')
def listen(until):
    while len(waits) > until:
        events = poll.poll(60)
        assert events, ('nothing comes', len(waits))
        for fd, _ in events:
            s, said = waits.pop(fd)
            poll.unregister(fd)
            assert s.recv(6) == said
            heard.append(s)
listen({MANY} - <at_once>)
print('at once', len(heard))
{LEAVE.replace("print('over')", "")}
while heard:
    for s in heard: s.close()
    heard.clear()
    listen(max(0, len(waits) - <at_once>))
print('left', len(waits), 'over')
"""


@pytest.mark.timeout(600)
def test_ten_thousand(release):
    """Where a process may have descriptors for all of them, all are served at once; else the rest is connected too, and waits
    in the kernel until another one leaves. Afterwards the gate is as it was."""
    box = release
    gate = hold_gate(box)
    before = usage(gate)
    # Two descriptors for each; a part is kept for datagrams and names (gate.h).
    at_once = min(MANY, (most_files(gate) - 4096) // 2)
    if at_once < MANY:
        print(f"{most_files(gate)} descriptors for a process: {at_once} of {MANY} at once")
    box.start(CROWD.replace("<at_once>", str(at_once)))
    box.said("at once", 240)
    files, memory = usage(gate)
    assert files >= 2 * at_once
    assert memory < 32 << 10, memory
    box.sh("touch /tmp/enough", check=True)
    assert "left 0 over" in box.said("over", 240)
    until(lambda: usage(gate)[0] <= before[0] + 140)  # and the pipes that it keeps
    assert box.gate() == gate
    assert usage(gate)[1] < before[1] + (8 << 10)


SLOW = f"""
import socket
conns = []
for i in range(500):
    c = socket.create_connection(('{outside.GOOD}', 6)); c.sendall(b'more'); conns.append(c)
print('open')
{LEAVE}
"""


def leave(box):
    box.sh("touch /tmp/enough", check=True)
    box.said("over")


def test_slow_readers(release):
    """Bytes that nobody takes stay in the kernel, and not many of them; others are served meanwhile."""
    gate = hold_gate(release)
    before = usage(gate)
    release.start(SLOW)
    release.said("open")
    until(lambda: usage(gate)[0] >= 1000)
    assert usage(gate)[1] < before[1] + (8 << 10)
    assert release.sh(GET).returncode == 0
    leave(release)
    until(lambda: usage(gate)[0] <= before[0] + 140)
    assert release.gate() == gate


HALF = f"""
import socket
ended, silent = 0, []
for i in range(300):
    c = socket.create_connection(('{outside.GOOD}', 6), 60); c.sendall(b'%06d' % i); c.shutdown(socket.SHUT_WR)
    silent.append(socket.create_connection(('{outside.GOOD}', 80), 60))
    text = b''
    while more := c.recv(100): text += more
    ended += text == b'%06d' % i
print('ended', ended)
{LEAVE}
"""


def test_half_open(release):
    """What one side has ended still comes from the other, and then nothing is left; clients that say nothing cost little."""
    gate = hold_gate(release)
    before = usage(gate)
    release.start(HALF)
    assert "ended 300\n" in release.said("ended")
    until(lambda: usage(gate)[0] <= before[0] + 600 + 140)  # two for each that is silent
    assert usage(gate)[1] < before[1] + (8 << 10)
    leave(release)
    until(lambda: usage(gate)[0] <= before[0] + 140)


FLOODS = f"""
import selectors, socket
all_of, got = selectors.DefaultSelector(), 0
for i in range(100):
    c = socket.create_connection(('{outside.GOOD}', 6), 60); c.sendall(b'more'); c.setblocking(False)
    all_of.register(c, selectors.EVENT_READ)
while all_of.get_map():
    ready = all_of.select(60)
    assert ready, 'silence'
    for key, _ in ready:
        try: n = len(key.fileobj.recv(1 << 16))
        except BlockingIOError: continue
        except OSError: n = 0
        if n == 0: all_of.unregister(key.fileobj); key.fileobj.close()
        if got < 10 << 20 <= got + n: print('flows')
        got += n
print('all ended')
"""

# Again and again to somebody without a rule, whoever is there to refuse it.
KNOCK = f"""
import os, socket, sys
while not os.path.exists('/tmp/enough'):
    try:
        s = socket.create_connection(('{outside.EVIL}', 80), 5)
        s.sendall(b'GET /knock HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n')
        if s.recv(100): print('answered'); break
    except OSError: pass
os.unlink('/tmp/enough')
print('over')
"""


def test_killed_with_a_hundred_transfers(world):
    """They end, each and all; and between two gates nothing passes."""
    box = world.box("allow", "good.test:6")
    box.sh("getent ahosts good.test", check=True)
    since = len(world.internet.lines())
    for _ in range(3):
        box.start(FLOODS)
        box.said("flows")
        os.kill(box.gate(), signal.SIGKILL)
        box.said("all ended")
    box.start(KNOCK)
    killed = {0}
    for _ in range(10):
        (gate,) = until(lambda: {box.gate()} - killed)
        os.kill(gate, signal.SIGKILL)
        killed.add(gate)
    leave(box)
    assert not [line for line in world.internet.lines()[since:] if line.startswith(f"http {outside.EVIL}")]
    assert "answered" not in box.sh("cat /tmp/said").stdout
    assert box.network()["refused"] > 0

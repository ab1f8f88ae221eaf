"""Jails on disk: suspended with criu, and made anew. The criu is that of tools/criu; where it cannot be had, or
does not work on this machine, the tests are skipped."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading

import pytest

import peers
from conformance import Refusal, wait_until
from jail_world import JailWorld, make_root, static_hand
from processes import stat_of
from test_escape import BOMB, DRIVER, program, targets
from test_jail_states import process, wait_dead


@pytest.fixture(scope="module")
def criu():
    """A directory for PATH."""
    found = peers.criu()
    try:
        done = subprocess.run([found, "check"], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        pytest.skip("criu check does not end on this machine")
    if done.returncode != 0:
        pytest.skip(f"criu does not work on this machine: {done.stderr.strip().splitlines()[-1:]}")
    return found.parent


@contextlib.contextmanager
def prepared(criu):
    world = JailWorld()
    world.env["PATH"] = f"{criu}:{world.env['PATH']}"
    world.settings = {"jail.suspend": "true"}
    world.hand = static_hand()
    try:
        yield world
    finally:
        world.finish()


def opened(world):
    driver = world.open()
    finding = next(f for f in driver("doctor", runtime="jail")["findings"] if f["what"] == "suspend to disk")
    if not finding["good"]:
        pytest.skip(f"not on this machine: {finding['detail']}")
    return driver


@pytest.fixture
def world(criu):
    with prepared(criu) as world:
        yield world


@pytest.fixture
def driver(world):
    return opened(world)


@pytest.fixture
def image(world):
    """busybox and bash: nothing of the host has to be searched."""
    root = make_root(world.base / "root")
    needed = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout.split()
    for path in ["/bin/bash", *(word for word in needed if word.startswith("/"))]:
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    return str(root)


@pytest.fixture
def small(world, driver, image):
    return world.new(driver, image=image)


def directory(world, box):
    return world.state / "sandbox" / box.id


def suspend(box):
    pid, keeper = process(box, "pid"), process(box, "keeper")
    assert box.drive("suspended", timeout=60) == "suspended"
    for number in (pid, keeper):
        wait_dead(number)


def resume(box):
    assert box.drive("running", timeout=60) == "running"


def test_everything_is_still_there(world, driver):
    """Processes with their numbers, the shell with its variables, terminals, files in memory, limits, ports. On the
    network of the host nothing but Landlock stands between it and abstract sockets."""
    box = world.new(driver, pids=60, memory="300m", network="host")
    box.ok("export MARK=kept; cd /tmp; echo file >/dev/shm/file; echo run >/run/file; mkfifo /dev/shm/fifo; ln -s nowhere /dev/shm/link")
    counter = "exec 7>/tmp/count 8<>/dev/shm/fifo; i=0; while :; do i=$((i+1)); echo $i >&7; sleep 0.02; done"
    box.ok(f"nohup sh -c '{counter}' >/dev/null 2>&1 & echo $! >/tmp/pid")
    box("put", path="/tmp/server.py", text=SERVER)
    box.ok("nohup python3 /tmp/server.py >/dev/null 2>&1 & echo started")
    wait_until(lambda: box.run("test -s /tmp/port")[0] == 0, 30, "the server listens")
    ask = "exec 9<>/dev/tcp/127.0.0.1/$(cat /tmp/port); cat <&9; exec 9>&-"
    before = box.ok("echo $$; cat /tmp/pid; tty")
    assert box.ok(ask) == "served"
    name = f"tendon-test-{os.getpid()}"
    attempt = f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")' 2>&1; true"
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen(4)
        alone = box.ok(attempt)
        suspend(box)
        assert box.drive("suspended") == "suspended" and box.status() == "suspended"
        assert not world.groups()
        images = directory(world, box) / "suspended"
        assert images.stat().st_mode & 0o777 == 0o700 and images.stat().st_uid == 0
        count = (directory(world, box) / "upper/@/tmp/count").read_text().split()[-1]
        resume(box)
        assert not images.exists()
        assert box.ok(attempt) == alone
    assert box.ok("echo $$; cat /tmp/pid; tty") == before
    assert box.ok("echo $MARK $PWD; cat /dev/shm/file /run/file; readlink /dev/shm/link").split() == ["kept", "/tmp", "file", "run", "nowhere"]
    wait_until(lambda: int(box.ok("tail -n 1 /tmp/count")) > int(count) + 3, 30, "the counter goes on")
    assert box.ok(ask) == "served"
    isolation = box("inspect")["isolation"]
    isolation = json.loads(isolation) if isinstance(isolation, str) else isolation
    for wall in ("user", "pid", "mount", "ipc", "uts", "cgroup", "seccomp", "no_new_privs", "capabilities"):
        assert isolation[wall], wall
    if isolation["landlock"]:
        assert "PermissionError" in alone
    box("put", path="/tmp/bomb", text=program(BOMB.replace("range(60)", "range(200)")))
    assert "REFUSED EAGAIN" in box.ok("python3 /tmp/bomb 2>&1")
    code, _ = box.run("python3 -c 'keep = [bytearray(1 << 20) for i in range(600)]'")
    assert code != 0
    assert box("exec", argv=["cat", "/dev/shm/file"])["output"].strip() == "file"


# While it is suspended its port is free, and on the network of the host anybody may be given it: so it is none of those
# that the kernel gives out by itself.
SERVER = """
import os, random, socket
server = None
while not server:
    try:
        server = socket.create_server(("127.0.0.1", random.randrange(20000, 32768)))
    except OSError:
        pass
open("/tmp/port.new", "w").write(str(server.getsockname()[1]))
os.rename("/tmp/port.new", "/tmp/port")
while True:
    connection, _ = server.accept()
    connection.sendall(b"served\\n")
    connection.close()
"""


@pytest.fixture(scope="module")
def restored(criu):
    """What each attack says in a jail that was suspended and resumed. (That it works without one: test_escape.py.)"""
    with prepared(criu) as world:
        box = world.new(opened(world))
        suspend(box)
        resume(box)
        with targets() as texts:
            box("put", path="/tmp/driver.py", text=DRIVER)
            box("put", path="/tmp/attacks.json", text=json.dumps(texts))
            box.ok("python3 /tmp/driver.py - </tmp/attacks.json 2>&1 | tee /tmp/verdicts", timeout=100)
            inside = dict(map(json.loads, box("exec", argv=["cat", "/tmp/verdicts"])["output"].splitlines()))
        assert set(inside) == set(texts)
        yield inside


def test_no_attack_succeeds_in_a_restored_jail(restored):
    assert {attack: verdict for attack, verdict in restored.items() if not verdict.startswith("REFUSED")} == {}


def test_hostile_content(small):
    """Sizes that are not there, and pipes that nobody reads, cost nothing."""
    small.ok("cd /dev/shm; mkfifo pipe; : >sparse; sh -c 'head -c 1 /dev/zero | dd of=sparse bs=1 seek=1099511627775' 2>/dev/null || true")
    small.ok("sh -c 'exec 7<>/dev/shm/pipe; echo unread >&7; exec 8>/tmp/gone; rm /tmp/gone; echo x >&8; sleep 1000' >/dev/null 2>&1 &")
    suspend(small)
    resume(small)
    assert small.ok("cat /dev/shm/pipe | head -n 1 || true; ls -A /dev/shm").split()[-1] == "sparse"


def test_a_volume_is_not_copied(world, driver, image):
    """Where a directory in memory has something else in it, that stays where it is."""
    shared = world.base / "shared"
    shared.mkdir(0o777)
    (shared / "file").write_text("shared\n")
    box = world.new(driver, image=image, volumes=[f"{shared}:/run/shared"])
    box.ok("echo own >/run/own")
    suspend(box)
    kept = directory(world, box) / "suspended/files/run"
    assert (kept / "own").exists() and not [*(kept / "shared").iterdir()]
    resume(box)
    assert box.ok("cat /run/own /run/shared/file").split() == ["own", "shared"]


def test_a_connection_is_closed(world, small):
    """Who is in the middle of something loses the connection, not the sandbox."""
    other = small.seen_by(world.open())
    other.ok("echo connected")
    suspend(small)
    resume(small)
    assert other.ok("echo again") == "again"


# Holds a connection through the gate, says when it has ended, and what a new one says then.
CLIENT = """
import socket, time
where = ("<address>", <port>)
held = socket.create_connection(where, 30)
print("held", held.recv(100), flush=True)
try:
    end = held.recv(100)
except OSError as e:
    end = e.errno
print("ended", end, flush=True)
again = b""
while not again:  # the next one may be cut off before it is written down
    try:
        again = socket.create_connection(where, 30).recv(100)
    except OSError:
        time.sleep(0.1)
print("again", again, flush=True)
time.sleep(1000)
"""


def serve(server):
    """Says the same to everybody, until it is closed."""
    with contextlib.suppress(OSError):
        while True:
            with contextlib.suppress(TimeoutError), server.accept()[0] as one:
                one.sendall(b"two")


def test_behind_the_gate(world, driver):
    """Its connections end with the gate; the wall is there again before its processes are."""
    address = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
    if not address:
        pytest.skip("this machine has no address but its loopback")
    with socket.create_server((address[0], 0)) as server:
        port = server.getsockname()[1]
        server.settimeout(60)
        box = world.new(driver, allow=[f"{address[0]}:{port}"])
        assert box("inspect")["isolation"]["reach"] == "open"
        code = CLIENT.replace("<address>", address[0]).replace("<port>", str(port))
        box("put", path="/workspace/client.py", text=code, mode=0o644)
        box.ok("setsid python3 client.py >said 2>&1 </dev/null &")
        held = server.accept()[0]
        held.sendall(b"one")
        wait_until(lambda: "held b'one'" in box.ok("cat said"), what="a connection is there")
        suspend(box)
        held.settimeout(60)
        assert held.recv(1) == b"", "it ends here, too"
        resume(box)
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        wait_until(lambda: "again b'two'" in box.ok("cat said"), what="there is another one")
        assert "ended" in box.ok("cat said")
        assert box("inspect")["isolation"]["gated"]
        # Other ports of this machine are as far away as before.
        with socket.create_server((address[0], 0)) as near:
            look = f"import socket; s = socket.create_connection(('{address[0]}', {near.getsockname()[1]}), 5); s.send(b'x'); print(s.recv(1))"
            assert "b''" in box.run(f'python3 -c "{look}" 2>&1 || echo "b\'\'"')[1]
            near.settimeout(0)
            with pytest.raises(BlockingIOError):
                near.accept()


def test_killed_criu_leaves_it_running(world, small):
    small.ok("export MARK=kept; head -c 200000000 /dev/zero | tail -c 200000000 | sleep 1000 >/dev/null 2>&1 &")
    images = directory(world, small) / "suspending/images"
    keeper = process(small, "keeper")
    answer = {}

    def drive():
        try:
            answer["status"] = small.drive("suspended", timeout=60)
        except Refusal as refusal:
            answer["refusal"] = refusal

    thread = threading.Thread(target=drive)
    thread.start()
    hunt(thread, lambda: [child for child in children(keeper) if images.exists() and b"criu" in cmdline(child)])
    if "refusal" in answer:
        assert "runs on" in answer["refusal"].text
        assert small.status() == "running"
    else:
        resume(small)
    assert small.ok("echo $MARK") == "kept"
    suspend(small)
    resume(small)
    assert small.ok("echo $MARK") == "kept"


def hunt(thread, victims):
    """Kills the first that victims() finds while the thread works, and waits for the thread."""
    found = []
    while thread.is_alive() and not found:
        found = victims()
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    thread.join(90)


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_what_cannot_be_restored_stays_suspended(world, small):
    small.ok("export MARK=kept")
    suspend(small)
    images = directory(world, small) / "suspended/images"
    shutil.move(images / "core-1.img", images / "elsewhere")
    with pytest.raises(Refusal) as refusal:
        small.drive("running", timeout=60)
    assert "criu could not make its processes anew" in refusal.value.text
    assert small.status() == "suspended" and not world.groups()
    with pytest.raises(Refusal):
        small("snapshot", name="now")
    shutil.move(images / "elsewhere", images / "core-1.img")
    resume(small)
    assert small.ok("echo $MARK") == "kept"


@pytest.mark.parametrize("images", ["true", "false"])
def test_a_fork_is_suspended_too(world, image, images):
    """Files that it has open, and runs from, are in a layer; and it stands on the same one when it is made anew."""
    world.settings = {**world.settings, "jail.layer_images": images}
    driver = opened(world)
    box = world.new(driver, image=image)
    box.ok("cd /workspace; cp /bin/busybox ./busybox; echo kept >file; ln -s file link")
    child = world.fork(box)
    child("ready")
    child.ok("cd /workspace; ./busybox sleep 1000 <file >/dev/null 2>&1 & exec 7</workspace/file; export MARK=here")
    suspend(child)
    resume(child)
    assert child.ok("echo $MARK; cat <&7; cat /workspace/link; cd /workspace && ./busybox echo runs").split() == ["here", "kept", "kept", "runs"]
    assert "busybox sleep 1000" in child.ok("ps ax 2>/dev/null || /workspace/busybox ps")


@pytest.mark.parametrize("goal", ["running", "stopped", "gone"])
def test_killed_keeper_in_the_middle(world, small, goal):
    """Whatever it is then, it is whole, and can be got rid of."""
    small.ok("echo kept >/workspace/file")
    keeper, init = process(small, "keeper"), process(small, "pid")
    over = threading.Event()

    def kill():
        while not over.is_set() and not (directory(world, small) / "suspending/images").exists():
            pass
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        small.drive("suspended", timeout=60)
    except Refusal:
        pass
    finally:
        over.set()
        thread.join()
    wait_dead(keeper)
    wait_dead(init)
    assert small.status() in ("suspended", "error")
    small.drive(goal, timeout=60)
    if goal == "running":
        assert small.ok("cat /workspace/file") == "kept"
        wait_until(lambda: not [*directory(world, small).glob("*suspending*")], 30, "what was written is removed")


@pytest.mark.parametrize("who", ["criu", "keeper"])
def test_killed_while_it_is_restored(world, small, who):
    """Then it is suspended as before, or has ended; never a part of it."""
    small.ok("export MARK=kept; echo kept >/workspace/file")
    suspend(small)
    thread = threading.Thread(target=lambda: small.driver.ask("drive", id=small.id, goal="running", timeout=60))
    thread.start()

    def victims():
        inside = [pid for group in world.groups() for pid in processes_in(group) if b"restore" in cmdline(pid)]
        return inside if who == "criu" else [keeper for keeper in map(parent, inside) if b"tendon-jail" in cmdline(keeper)]

    hunt(thread, victims)
    wait_until(lambda: small.status() in ("suspended", "error", "running"), 30, "it settles")
    resume(small)
    assert small.ok("cat /workspace/file") == "kept"
    suspend(small)
    resume(small)


def processes_in(group):
    try:
        return [int(word) for word in (pathlib.Path(group) / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def parent(pid):
    try:
        return int(stat_of(pid)[1])
    except OSError:
        return 0


def test_stop_gives_the_memory_up(world, small):
    small.ok("export MARK=kept; echo kept >/workspace/file")
    suspend(small)
    assert small.drive("stopped") == "stopped" and small.status() == "stopped"
    assert not (directory(world, small) / "suspended").exists()
    resume(small)
    assert small.ok("echo .$MARK; cat /workspace/file").split() == [".", "kept"]

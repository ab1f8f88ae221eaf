"""Random calls and faults at the service, compared with a model; afterwards nothing is left."""

import http.client
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from census import read
from model import SEED, Driver, hand_of, keeper_of, report
from native import at
from services import PATIENCE, Service, eventually, preloaded


class Faults(threading.Thread):
    """Does terrible things to the service until it is told to end."""

    def __init__(self, service, seed, deeds, pause):
        super().__init__()
        self.service, self.random = service, random.Random(seed)
        self.deeds, self.pause = deeds, pause
        self.end, self.done, self.trouble = threading.Event(), [], None
        self.sockets = []

    def run(self):
        try:
            while not self.done or not self.end.wait(self.random.uniform(*self.pause)):
                deed = self.random.choice(self.deeds)
                getattr(self, deed)()
                self.done.append(deed)
        except Exception as error:  # noqa: BLE001 - told by the test
            self.trouble = error
        for s in self.sockets:
            s.close()

    def kill_service(self):
        self.service.restart(kill=True)

    def stop_service(self):
        self.service.restart()

    def half_open(self):
        """A client that begins and never goes on."""
        self.socket().sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Le")

    def slow_reader(self):
        """A client that asks for a stream and never reads it."""
        s = self.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        key = self.service.admin
        s.sendall(f"GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n".encode())

    def jump_clock(self):
        """Somebody sets the wall clock, by up to ten days."""
        self.service.set_clock(self.random.randint(-864000, 864000))

    def fill_disk(self):
        """No byte is left for a moment."""
        filler = fill_up(self.service.base.parent)
        self.end.wait(self.random.uniform(0.05, 0.4))
        filler.unlink()

    def garbage(self):
        self.socket().sendall(self.random.randbytes(2000))

    def socket(self):
        s = socket.create_connection(("127.0.0.1", self.service.port), timeout=PATIENCE)
        self.sockets.append(s)
        return s


def play(service, tenants, steps, deeds, pause, seed, **kwargs):
    """Drives the service; what happened. Everything is compared, and everything is removed."""
    keys = [service.make_key(f"tenant{i}", "--tenant", f"t{i}", "--expires", "1h")["key"] for i in range(tenants)]
    seen = [set() for _ in keys]
    drivers = []
    for i, key in enumerate(keys):
        driver = Driver(service, key, Others(seen, i), seed * 100 + i, steps, **kwargs)
        driver.mine = seen[i]
        drivers.append(driver)
    faults = Faults(service, seed, deeds, pause)
    for thread in [*drivers, faults]:
        thread.start()
    for driver in drivers:
        driver.join()
    faults.end.set()
    faults.join()
    for thread in [*drivers, faults]:
        if thread.trouble:
            raise thread.trouble
    for driver in drivers:
        driver.finish()
    print(f"seed {seed}: {report(drivers)}; faults: {faults.done}")
    return drivers, faults


class Others:
    """The boxes of all tenants but one, as they come."""

    def __init__(self, seen, i):
        self.seen, self.i = seen, i

    def __iter__(self):
        return (id for j, ids in enumerate(self.seen) if j != self.i for id in list(ids))

    def __bool__(self):
        return any(True for _ in self)


@pytest.mark.timeout(300)
def test_model_with_faults(jail_works, make_service):
    print(f"TN_MODEL_SEED={SEED}")
    service = make_service(settings={"drain_seconds": 1}).start()
    deeds = ["kill_service"] * 4 + ["stop_service", "half_open", "slow_reader", "garbage"]
    drivers, faults = play(service, 3, 300, deeds, (0.05, 0.5), SEED)
    assert sum(len(driver.mine) for driver in drivers) > 3, "something was done"
    assert "kill_service" in faults.done or "stop_service" in faults.done, faults.done
    assert not service.tendon("--json", "ls").stdout.strip(" []\n"), "no sandbox is left"
    assert service.tendon("audit", "verify").returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """A directory on a file system of 96 MB of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tendon-test", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be made: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill_up(folder):
    """A file that takes the last byte."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
        except OSError:
            return filler


class MovedService(Service):
    """One whose wall clock the test sets (wall-clock.c), and that of `tendon` beside it."""

    def __init__(self, base, **kwargs):
        self.clock = base / "clock"
        self.clock.write_bytes(bytes(8))
        super().__init__(base, env={**preloaded("wall-clock.c", base), "TN_TEST_CLOCK": str(self.clock)}, **kwargs)

    def set_clock(self, seconds):
        with open(self.clock, "r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))


@pytest.fixture
def moved_service(jail_works, tmp_path):
    service = MovedService(tmp_path, settings={"drain_seconds": 1})
    yield service
    service.finish()


@pytest.mark.timeout(300)
def test_model_while_the_clock_jumps(moved_service):
    """Keys and sandboxes with an hour to live, and days that come and go: nothing ends."""
    print(f"TN_MODEL_SEED={SEED}")
    service = moved_service.start()
    deeds = ["jump_clock"] * 3 + ["kill_service"]
    _, faults = play(service, 2, 60, deeds, (0.01, 0.1), SEED, wish={"ttl": 3600})
    assert faults.done, "something was done"
    assert service.tendon("audit", "verify").returncode == 0


AUTUMN = 1792887600  # 2026-10-25 02:20 in Berlin, the first of the two


@pytest.mark.parametrize(
    ("zone", "first", "noted", "then"),
    [("Europe/Berlin", AUTUMN, 0, 0), ("Europe/Berlin", AUTUMN, 0, 3300), ("UTC", None, 86400, 0)],
)
def test_no_action_runs_twice_because_of_a_clock(jail_works, tmp_path, zone, first, noted, then):
    """It is noted, its service and its sandbox end, and it is asked for again: clocks do not tell whether it ran."""
    service = MovedService(tmp_path, settings={"drain_seconds": 1})
    service.env["TZ"] = zone
    began = first - int(time.time()) if first else 0
    service.set_clock(began)
    service.start()
    service.set_clock(began + noted)
    client = service.client()
    box = client.post("/v1/sandboxes", {"plugins": []}).ok(201).json["id"]
    action = {"action": {"action": "run", "args": {"command": "echo ran >> /tmp/ran; sleep 600"}, "timeout": 600}}
    once = {"Idempotency-Key": "once"}

    def ask():
        try:
            service.client().post(at(box, "/actions"), action, headers=once)
        except (http.client.HTTPException, OSError):
            pass

    asking = threading.Thread(target=ask)
    asking.start()

    def ran():
        answer = client.get(at(box, "/files", path="/tmp/ran"))
        return answer.status == 200 and answer.text

    eventually(ran, "it runs")
    service.set_clock(began + then)
    service.kill()
    asking.join()
    service.start()
    client = service.client()
    client.post(at(box, "/stop")).ok()
    client.post(at(box, "/resume")).ok()
    again = client.post(at(box, "/actions"), action, headers=once).ok()
    assert "is not known" in again.json["content"] and ran() == "ran\n", again
    service.finish()


def test_times_are_those_of_before_a_jump(moved_service):
    """What ends in an hour ends in an hour; what was to end has ended, wherever the clock stands."""
    service = moved_service.start()
    for seconds in (400 * 86400, -400 * 86400):
        service.set_clock(seconds)
        client = service.client(service.make_key(f"after{seconds}", "--expires", "1h")["key"])
        client.get("/v1/me").ok()
        link = json.loads(service.tendon("--json", "key", "login").stdout)["link"]
        ticket = link.partition("#ticket=")[2]
        assert service.stranger().post("/dashboard/login", {"ticket": ticket}).status == 201, "the link is good"
    short = service.client(service.make_key("short", "--expires", "1s")["key"])
    service.set_clock(-400 * 86400 + 7)
    eventually(lambda: short.get("/v1/me").status == 401, "a key ends when its time is over")
    service.restart(kill=True)
    assert short.get("/v1/me").status == 401 and client.get("/v1/me").status == 200


@pytest.mark.timeout(300)
def test_model_while_the_disk_is_full(jail_works, small_disk):
    """Calls that fail are asked again; nothing is lost, nothing happens twice, and what runs is never called broken."""
    print(f"TN_MODEL_SEED={SEED}")
    service = Service(small_disk / "service", settings={"disk_reserve": "0"}).start()
    play(service, 2, 80, ["fill_disk"] * 3 + ["half_open", "slow_reader"], (0.02, 0.2), SEED, full=True)
    service.finish()


@pytest.mark.timeout(300)
def test_full_disk(jail_works, small_disk):
    """No byte is left where the state is: calls fail and say why, nothing hangs, what was answered stays true."""
    service = Service(small_disk / "service", settings={"disk_reserve": "0"}).start()
    client = service.client()
    box = client.post("/v1/sandboxes", {"plugins": []}).ok(201).json["id"]
    filler = fill_up(small_disk)
    for _ in range(5):
        answer = client.post("/v1/sandboxes", {"plugins": []})
        assert answer.status in (201, 500, 503, 507), answer
        if answer.status == 201:
            assert answer.json["state"] == "error" and answer.json["reason"], answer
        assert client.get(at(box)).ok().json["state"] == "running"
    service.kill()  # it may not even be able to start again, but it loses nothing
    filler.unlink()
    service.start()
    assert client.get(at(box)).ok().json["state"] == "running"
    assert client.post("/v1/sandboxes", {"plugins": []}).ok(201).json["state"] == "running"
    for one in client.get("/v1/sandboxes").ok().json["sandboxes"]:
        assert client.delete(at(one["id"])).status == 204
    service.finish()


# --- a long time ------------------------------------------------------------------------------------


def resources(pid):
    """What must not grow: descriptors, threads, resident kilobytes."""
    status = dict(line.split(":", 1) for line in read(f"/proc/{pid}/status").decode().splitlines() if ":" in line)
    return {
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(status["Threads"]),
        "kilobytes": int(status["VmRSS"].split()[0]),
    }


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_soak(jail_works, make_service):
    """Half an hour of everything but the death of the service: what it uses stays flat."""
    # What AddressSanitizer keeps of freed memory would look like growth.
    options = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"
    service = make_service(env={"ASAN_OPTIONS": options}).start()
    seconds = float(os.environ.get("TN_SOAK_SECONDS", "1800"))
    client = service.client()
    until, samples, round_ = time.monotonic() + seconds, [], 0
    keys = [service.make_key(f"soak{i}", "--tenant", f"s{i}")["key"] for i in range(2)]
    while time.monotonic() < until:
        drivers = [Driver(service, key, [], SEED + round_ * 10 + i, 40) for i, key in enumerate(keys)]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
            if driver.trouble:
                raise driver.trouble
            driver.finish()
            driver.client.close()
            service.clients.remove(driver.client)
        client.close()
        eventually(lambda: resources(service.pid)["threads"] < 30, "workers and connections end")
        samples.append(resources(service.pid))
        round_ += 1
    print(samples[:: max(1, len(samples) // 20)])
    first, last = samples[len(samples) // 4], samples[-1]
    assert last["descriptors"] <= first["descriptors"] + 8, (first, last)
    assert last["threads"] <= first["threads"] + 4, (first, last)
    assert last["kilobytes"] <= first["kilobytes"] * 1.1 + 8192, (first, last)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_jail_whose_directory_was_removed(make_service, jail_works):
    """Somebody removes the state by hand: its keeper notices, and ends."""
    service = make_service().start()
    box = service.client().post("/v1/sandboxes", {"plugins": []}).ok(201).json["id"]
    keeper = keeper_of(box)
    service.kill()
    shutil.rmtree(service.state / "sandbox" / box)
    eventually(lambda: not os.path.exists(f"/proc/{keeper}"), "the keeper has ended", 150)
    service.start()


@pytest.fixture
def far_away():
    """A network namespace with a link to this one: (its name, address here, our end of the link)."""
    name = f"tn{os.getpid()}"
    here, there = f"{name}h", f"{name}t"
    first = 10 + os.getpid() % 200
    commands = [
        f"ip netns add {name}",
        f"ip link add {here} type veth peer name {there} netns {name}",
        f"ip address add 198.18.{first}.1/24 dev {here}",
        f"ip link set {here} up",
        f"ip -n {name} address add 198.18.{first}.2/24 dev {there}",
        f"ip -n {name} link set {there} up",
    ]
    for command in commands:
        done = subprocess.run(command.split(), capture_output=True, text=True)
        if done.returncode:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            pytest.skip(f"no network of its own: {done.stderr.strip()}")
    yield name, f"198.18.{first}.1", here
    subprocess.run(["ip", "netns", "del", name], check=True)


def connections(port):
    """How many clients a port of this machine has."""
    words = ["ss", "--no-header", "--tcp", "--numeric", "state", "established", f"sport = :{port}"]
    return len(subprocess.run(words, capture_output=True, check=True, timeout=30).stdout.splitlines())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_machine_that_vanishes(make_service, jail_works, far_away):
    """A client whose cable is cut says no goodbye: its streams end all the same, soon."""
    name, address, link = far_away
    port = 7171  # nobody else has this address
    settings = {"insecure": "true", "hosts": address}
    service = make_service(listen=["127.0.0.1:0", f"{address}:{port}"], settings=settings).start()
    script = (
        "import signal, socket\n"
        f"s = socket.create_connection(('{address}', {port}), 30)\n"
        f"s.sendall(b'GET /v1/watch HTTP/1.1\\r\\nHost: {address}:{port}\\r\\n"
        f"X-API-Key: {service.admin}\\r\\n\\r\\n')\n"
        "assert b' 200 ' in s.recv(4096)\n"
        "print('open', flush=True)\n"
        "signal.pause()\n"
    )
    client = subprocess.Popen(["ip", "netns", "exec", name, sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert client.stdout.readline() == b"open\n"
        assert connections(port) == 1
        subprocess.run(["ip", "link", "set", link, "down"], check=True)
        eventually(lambda: connections(port) == 0, "its connection is closed", 120)
    finally:
        client.kill()
        client.wait()
        client.stdout.close()


def test_hand_of_names_the_right_one(service, client):
    """The model's own tool is right: a killed hand is that of this sandbox."""
    one, two = (client.post("/v1/sandboxes", {"plugins": []}).ok(201).json["id"] for _ in range(2))
    assert hand_of(one) != hand_of(two)
    os.kill(hand_of(one), 9)
    eventually(lambda: client.get(f"/v1/sandboxes/{one}").json["state"] == "error", "its death is noticed")
    assert client.get(f"/v1/sandboxes/{two}").json["state"] == "running"
    for id in (one, two):
        assert client.delete(f"/v1/sandboxes/{id}").status == 204

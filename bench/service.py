#!/usr/bin/python3
"""Measures `tendon serve` beside the library and the hand in the same run: a table, and JSON with --json FILE.

Clients are C programs on a unix socket, so that they take as little of the machine as they can; all requests of a
burst leave at the same moment. Exit status 1 when a bar is missed.
"""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

from hand import UnixConnection
from results import Results, quantile

MS = 1e6
GB = 1 << 30
PLAIN = {"plugins": []}
COLON = {"action": {"action": "run", "args": {"command": ":"}, "timeout": 60}}


class Service:
    """`tendon serve` on a unix socket, with a state directory of its own."""

    def __init__(self, build, where, **settings):
        self.build, self.where, self.settings = os.path.abspath(build), where, settings
        self.path = os.path.join(where, "socket")
        self.env = dict(os.environ, HOME=where, TENDON_STATE=f"{where}/state", TENDON_CONFIG="/dev/null",
                        TENDON_RUNTIME="jail", TENDON_LOG="warn", PATH=f"{self.build}:{os.environ['PATH']}")
        os.makedirs(f"{where}/state", exist_ok=True)
        self.process = self.key = None

    def start(self):
        """Seconds until it serves."""
        words = [w for k, v in self.settings.items() for w in ("--set", f"service.{k}={v}")]
        began = time.monotonic()
        with open(f"{self.where}/log", "ab") as log:
            self.process = subprocess.Popen(
                [f"{self.build}/tendon", "serve", "--json", "--listen", f"unix:{self.path}", "--listen",
                 "127.0.0.1:0", *words], env=self.env, stdout=subprocess.PIPE, stderr=log)
        told = json.loads(self.process.stdout.readline())
        self.key = open(told["key_file"]).read().strip()
        self.get("/healthz")
        self.url = told["url"]
        return time.monotonic() - began

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(60)
        self.process.stdout.close()

    def request(self, method, path, body=None):
        connection = UnixConnection(self.path)
        headers = {"X-API-Key": self.key, "Host": "localhost", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        assert response.status < 300, (method, path, response.status, text[:500])
        return json.loads(text) if text else None

    def get(self, path):
        return self.request("GET", path)

    def crowd(self, connections, requests, method, path, body=None):
        return crowd(self.build, self.path, f"X-API-Key: {self.key}", connections, requests, method, path, body)

    def create(self, connections, requests, body):
        return self.crowd(connections, requests, "POST", "/v1/sandboxes", body)

    def ids(self):
        found, after = [], ""
        while True:
            page = self.get(f"/v1/sandboxes?limit=1000{after}")
            found += [box["id"] for box in page["sandboxes"]]
            if not page["next"]:
                return found
            after = f"&page={page['next']}"

    def remove_all(self):
        ids, lock = self.ids(), threading.Lock()

        def some():
            while True:
                with lock:
                    if not ids:
                        return
                    box = ids.pop()
                self.request("DELETE", f"/v1/sandboxes/{box}")

        crew = [threading.Thread(target=some) for _ in range(8)]
        for member in crew:
            member.start()
        for member in crew:
            member.join()

    def pool(self, target):
        """A pool of plain sandboxes that is full."""
        self.request("PUT", "/v1/pools/bench", {**PLAIN, "target": target, "burst": 8})
        while (pool := self.get("/v1/pools")["pools"][0])["ready"] < target:
            assert not pool["problem"], pool
            time.sleep(0.05)

    def warm(self):
        """How many sandboxes wait in pools."""
        database = sqlite3.connect(f"file:{self.where}/state/tendon.db?mode=ro", uri=True)
        count = database.execute("SELECT count(*) FROM sandbox WHERE pool IS NOT NULL").fetchone()[0]
        database.close()
        return count

    def clear(self):
        """Leaves nothing behind."""
        self.remove_all()
        for pool in self.get("/v1/pools")["pools"]:
            self.request("DELETE", f"/v1/pools/{pool['name']}")
        while self.warm():
            time.sleep(0.05)

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"^VmRSS:\s+(\d+)", f.read(), re.M).group(1)) * 1024

    def hand_of(self, box):
        """Socket and key of its hand."""
        database = sqlite3.connect(f"file:{self.where}/state/tendon.db?mode=ro", uri=True)
        address, key = database.execute("SELECT address, key FROM sandbox WHERE id = ?", (box,)).fetchone()
        database.close()
        return address.removeprefix("unix:"), key


def crowd(build, path, header, connections, requests, method, target, body=None):
    """Sorted times in ms, the time of all in ms, the answers; every one of them was good."""
    words = [json.dumps(body)] if body is not None else []
    out = subprocess.run([f"{build}/bench/crowd", path, str(connections), str(requests), header, method, target, *words],
                         check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    answers = [line.split(" ", 2) for line in out[:-1]]
    bad = [line for line in answers if not line[0].startswith("2")]
    assert not bad, f"{len(bad)} of {len(answers)} failed: {bad[0]}"
    return sorted(int(a[1]) / MS for a in answers), int(out[-1].split()[1]) / MS, answers


def library(build, scratch, mode, count):
    """What bench/sandboxes.c prints, by name."""
    out = subprocess.run([f"{build}/bench/sandboxes", mode, str(count), f"{scratch}/library", "jail"], check=True,
                         env=dict(os.environ, HOME=scratch, PATH=f"{build}:{os.environ['PATH']}"),
                         stdout=subprocess.PIPE, text=True).stdout
    return {line["what"]: line for line in map(json.loads, out.splitlines())}


def p50(values):
    return quantile(sorted(values), 0.5)


def middle(rounds):
    """The median of the medians of all rounds."""
    return p50([p50(values) for values in rounds])


def bench_action(results, service, rounds):
    box = service.request("POST", "/v1/sandboxes", PLAIN)["id"]
    path, key = service.hand_of(box)
    direct, through = [], []
    for _ in range(7):
        direct.append(crowd(service.build, path, f"X-Session-API-Key: {key}", 1, rounds, "POST", "/execute_action",
                            COLON)[0])
        through.append(service.crowd(1, rounds, "POST", f"/v1/sandboxes/{box}/actions", COLON)[0])
    reference, ours = middle(direct), middle(through)
    results.add("action `:` at the hand, p50", reference, "ms", "the reference", None)
    results.add("action `:` through the service, p50", ours, "ms", "at most 0.3 more", ours - reference <= 0.3,
                ours / reference)
    service.remove_all()


def create_and_run(service, connection, headers):
    """Time in ms from the wish to the first observation."""
    began = time.monotonic()
    connection.request("POST", "/v1/sandboxes", json.dumps(PLAIN), headers)
    box = json.loads(connection.getresponse().read())["id"]
    connection.request("POST", f"/v1/sandboxes/{box}/actions", json.dumps(COLON), headers)
    answer = connection.getresponse()
    assert answer.status == 200 and answer.read()
    return (time.monotonic() - began) * 1000, box


def bench_create(results, service, scratch, rounds):
    """To the first observation, as bench/runtime.py measures the library; each is removed before the next."""
    connection = UnixConnection(service.path)
    headers = {"X-API-Key": service.key, "Host": "localhost", "Content-Type": "application/json"}
    reference, ours = [], []
    for _ in range(3):
        reference.append([n / MS for n in library(service.build, scratch, "create", rounds)["create"]["each"]])
        times = []
        for _ in range(rounds):
            spent, box = create_and_run(service, connection, headers)
            times.append(spent)
            service.request("DELETE", f"/v1/sandboxes/{box}")
        ours.append(times)
    connection.close()
    results.add("library: cold jail to first observation, p50", middle(reference), "ms", "the reference", None)
    results.add("service: cold jail to first observation, p50", middle(ours), "ms", "at most 5 more",
                middle(ours) - middle(reference) <= 5, middle(ours) / middle(reference))


def bench_cold_burst(results, service, count):
    sequences, bursts = [], []
    for _ in range(3):
        sequences.append(service.create(1, count, PLAIN)[1])
        service.remove_all()
        bursts.append(service.create(count, count, PLAIN)[1])
        service.remove_all()
    sequence, burst = p50(sequences), p50(bursts)
    results.add(f"{count} cold creates one after another", sequence, "ms", "the reference", None)
    results.add(f"{count} cold creates at once, all ready", burst, "ms", "at most 0.7x", burst <= 0.7 * sequence,
                burst / sequence)


def bench_warm(results, service, count):
    """All requests of a burst leave at the same moment, and one core does the work of one request at a time: how
    long the one in the middle waits, whatever it asks for, is shown by plain requests beside it."""
    service.pool(count)
    single = p50(service.create(1, count // 2, PLAIN)[0])
    service.remove_all()
    service.pool(count)
    times, total, _ = service.create(count, count, PLAIN)
    results.add("warm create, p50", single, "ms", "under 10", single < 10)
    plain = p50(service.crowd(1, 300, "GET", "/v1/me")[0])
    plain_burst = p50(service.crowd(count, count, "GET", "/v1/me")[0])
    results.add(f"{count} plain requests at once, p50 against a single one", plain_burst, "ms", "the reference", None,
                plain_burst / plain)
    results.add(f"{count} warm creates at once, p50 against a single one", p50(times), "ms", "", None,
                p50(times) / single)
    results.add(f"{count} warm creates at once, all ready", total, "ms", "under 30, no error", total < 30)
    service.remove_all()


def bench_refill(results, service, count):
    """Claims while the pool is being filled behind them: the pool is kept below its minimum, so filling never waits
    for a quiet moment."""
    service.pool(count)
    quiet = p50(service.create(1, count // 2, PLAIN)[0])
    service.remove_all()
    service.request("PUT", "/v1/pools/bench", {**PLAIN, "target": count, "minimum": count, "burst": 8})
    while service.get("/v1/pools")["pools"][0]["ready"] < count:
        time.sleep(0.05)
    claims = service.create(1, count, PLAIN)[0]
    results.add("warm create while its pool is filled, p50", p50(claims), "ms", "under 10", p50(claims) < 10,
                p50(claims) / quiet)
    service.remove_all()
    service.request("DELETE", "/v1/pools/bench")
    while service.warm():
        time.sleep(0.05)


def open_terminal(service, box):
    """A WebSocket to a terminal of its own."""
    service.request("POST", f"/v1/sandboxes/{box}/terminals", {"name": "bench"})
    s = socket.socket(socket.AF_UNIX)
    s.connect(service.path)
    s.sendall((f"GET /v1/sandboxes/{box}/terminals/bench HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {service.key}\r\n"
               "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n").encode())
    answer = s.recv(4096)
    assert b" 101 " in answer, answer
    return s


def bench_many(results, service, count, terminals):
    service.create(16, count, PLAIN)
    ids = service.ids()
    assert len(ids) == count
    sockets = [open_terminal(service, box) for box in ids[:terminals]]
    lists = service.crowd(1, 20, "GET", f"/v1/sandboxes?limit={count}")[0]
    actions = []
    for box in ids[:: max(1, count // 20)]:
        actions += service.crowd(1, 50, "POST", f"/v1/sandboxes/{box}/actions", COLON)[0]
    what = f"{count} sandboxes, {terminals} terminals"
    results.add(f"{what}: memory of the service", service.memory() / 1e6, "MB", "under 200", service.memory() < 200e6)
    results.add(f"{what}: list, p50", p50(lists), "ms", "under 100", p50(lists) < 100)
    results.add(f"{what}: action p99", quantile(sorted(actions), 0.99), "ms", "under 20",
                quantile(sorted(actions), 0.99) < 20)
    for s in sockets:
        s.close()
    service.end(signal.SIGKILL)
    began = time.monotonic()
    service.start()
    states = [box["state"] for box in service.get(f"/v1/sandboxes?limit={count}")["sandboxes"]]
    service.request("POST", f"/v1/sandboxes/{ids[0]}/actions", COLON)
    spent = time.monotonic() - began
    assert states == ["running"] * count, {state: states.count(state) for state in states}
    results.add(f"restart with {count} sandboxes: listed, and one used", spent, "s", "under 2", spent < 2)
    service.remove_all()


SERVER = r"""
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
block, size = bytes(1 << 20), int(sys.argv[2])
while True:
    peer, _ = listener.accept()
    asked = b""
    while not asked.endswith(b"\r\n\r\n") and (more := peer.recv(65536)):
        asked += more
    try:
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size >> 20):
            peer.sendall(block)
    except OSError:
        pass
    peer.close()
"""


def fetch(connection, path, headers):
    """Seconds for the whole body."""
    buffer = bytearray(1 << 20)
    began = time.monotonic()
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    assert response.status == 200, (response.status, response.read(500))
    total = 0
    while n := response.readinto(buffer):
        total += n
    assert total == GB, total
    return time.monotonic() - began


def bench_preview(results, service):
    port = 8123
    box = service.request("POST", "/v1/sandboxes", PLAIN)["id"]
    start = f"setsid -f python3 /tmp/server.py {port} {GB} >/tmp/log 2>&1 </dev/null"
    service.request("POST", f"/v1/sandboxes/{box}/actions",
                    {"action": {"action": "write", "args": {"path": "/tmp/server.py", "content": SERVER}}})
    service.request("POST", f"/v1/sandboxes/{box}/actions",
                    {"action": {"action": "run", "args": {"command": start}, "timeout": 60}})
    with open(f"{service.where}/server.py", "w") as f:
        f.write(SERVER)
    server = subprocess.Popen(["/usr/bin/python3", f"{service.where}/server.py", str(port), str(GB)])
    headers = {"X-API-Key": service.key, "Host": "localhost"}
    path = f"/preview/{box}/{port}/"
    try:
        while not any(found["port"] == port for found in service.get(f"/v1/sandboxes/{box}/ports")["ports"]):
            time.sleep(0.05)
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.05)
        before = service.memory()
        direct, through = [], []
        for _ in range(3):
            direct.append(fetch(http.client.HTTPConnection("127.0.0.1", port), "/", {}))
            through.append(fetch(UnixConnection(service.path), path, headers))
        grown = service.memory() - before
    finally:
        server.terminate()
        server.wait()
    reference, ours = GB / p50(direct) / 1e6, GB / p50(through) / 1e6
    results.add("1 GB from a server of this machine", reference, "MB/s", "the reference", None)
    results.add("1 GB through a preview port", ours, "MB/s", "at least 0.5x", ours >= 0.5 * reference, ours / reference)
    results.add("memory of the service grew by", grown / 1e6, "MB", "under 16", grown < 16e6)
    service.remove_all()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--burst", type=int, default=100)
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--terminals", type=int, default=200)
    parser.add_argument("--only", nargs="*", help="names of parts")
    args = parser.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        service = Service(args.build, scratch, max_sandboxes=0)
        service.start()
        parts = {
            "action": lambda: bench_action(results, service, 20 * args.rounds),
            "create": lambda: bench_create(results, service, scratch, args.rounds),
            "burst": lambda: bench_cold_burst(results, service, args.burst),
            "warm": lambda: bench_warm(results, service, args.burst),
            "refill": lambda: bench_refill(results, service, args.burst),
            "many": lambda: bench_many(results, service, args.many, args.terminals),
            "preview": lambda: bench_preview(results, service),
        }
        try:
            for name, part in parts.items():
                if not args.only or name in args.only:
                    part()
        finally:
            service.clear()
            service.end()
    sys.exit(results.finish(args.json))


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Measures tendon-hand beside a reference in the same run: a table, and JSON with --json FILE.

Every number that depends on the machine is shown with the one it is compared to; the bars are ratios where a
reference exists.  Exit status 1 when a bar is missed.
"""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from results import Results, quantile

ROUNDS = 3000
LATENCY_ROUNDS = 7
RUN = {"action": {"action": "run", "args": {"command": ":"}, "timeout": 10}}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("hand", timeout=600)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(600)
        self.sock.connect(self.path)


class Hand:
    """A hand on a unix socket and on a loopback port, with a workspace of its own."""

    def __init__(self, binary, where):
        self.path = os.path.join(where, "socket")
        self.listener = socket.socket(socket.AF_INET)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(128)
        self.port = self.listener.getsockname()[1]
        os.set_inheritable(self.listener.fileno(), True)
        env = dict(os.environ, TMPDIR=where, HOME=where)
        self.process = subprocess.Popen(
            [binary, "--listen", f"unix:{self.path}", "--listen", f"fd:{self.listener.fileno()}",
             "--working-dir", os.path.join(where, "workspace"), "--username", "nobody", "--log-level", "warn"],
            env=env, pass_fds=[self.listener.fileno()])
        deadline = time.monotonic() + 30
        while not os.path.exists(self.path):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit("the hand did not start")
            time.sleep(0.001)
        self.run("true")

    def run(self, command, timeout=600):
        connection = UnixConnection(self.path)
        body = {"action": {"action": "run", "args": {"command": command, "blocking": True}, "timeout": timeout}}
        connection.request("POST", "/execute_action", json.dumps(body))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def status(self, name):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(rf"^{name}:\s+(\d+)", f.read(), re.M).group(1)) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def numbers(argv):
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return sorted(int(line) / 1000 for line in out.split())


def middle(rounds):
    """The round whose median is the median of all."""
    return sorted(rounds, key=lambda values: quantile(values, 0.5))[len(rounds) // 2]


def bench_file(results, args):
    stripped = os.path.join(args.scratch, "stripped")
    subprocess.run(["strip", "-o", stripped, args.hand], check=True)
    linked = subprocess.run(["ldd", args.hand], capture_output=True, text=True)
    static = "not a dynamic" in linked.stdout + linked.stderr or "statically linked" in linked.stdout
    results.add("hand: file, stripped", os.path.getsize(stripped) / 1e6, "MB", "under 2.5, static",
                os.path.getsize(stripped) < 2.5e6 and static)


def bench_start(results, args):
    """From exec to the answer of /alive; the listening socket is inherited, so nothing is polled."""
    times = []
    for i in range(20):
        listener = socket.socket(socket.AF_UNIX)
        path = os.path.join(args.scratch, f"start{i}")
        listener.bind(path)
        listener.listen(8)
        os.set_inheritable(listener.fileno(), True)
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.sendall(b"GET /alive HTTP/1.1\r\nHost: hand\r\n\r\n")
        started = time.monotonic()
        process = subprocess.Popen(
            [args.hand, "--listen", f"fd:{listener.fileno()}", "--username", "nobody", "--working-dir",
             os.path.join(args.scratch, "workspace"), "--log-level", "error"],
            pass_fds=[listener.fileno()], env=dict(os.environ, TMPDIR=args.scratch))
        answer = client.recv(4096)
        times.append((time.monotonic() - started) * 1000)
        assert b" 200 " in answer, answer
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    results.add("hand: exec to first /alive (fork of the client included)", statistics.median(times), "ms", "under 5",
                statistics.median(times) < 5)


def bench_idle(results, hand):
    results.add("hand: idle RSS", hand.status("VmRSS") / 1e6, "MB", "under 3", hand.status("VmRSS") < 3e6)


def bench_latency(results, args, hand):
    """Interleaved; the round with the median of the medians counts on each side. (The bare reference has two speeds,
    depending on whether the scheduler puts both of its ends on one core.)"""
    bare, ours = [], []
    for _ in range(LATENCY_ROUNDS):
        bare.append(numbers([args.tool("bare-pty"), "latency", str(ROUNDS)]))
        ours.append(numbers([args.tool("requests"), hand.path, str(ROUNDS), "POST", "/execute_action",
                             json.dumps(RUN)]))
    reference = quantile(middle(bare), 0.5)
    best = middle(ours)
    p50, p99 = quantile(best, 0.5), quantile(best, 0.99)
    results.add("bare PTY, `:` p50", reference, "us", "the reference", None)
    results.add("run of `:` p50", p50, "us", "at most 4x bare (goal 3x)", p50 <= 4 * reference, p50 / reference)
    results.add("run of `:` p99", p99, "us", "at most 4x its p50", p99 <= 4 * p50, p99 / p50)


def bench_flat(results, hand):
    for _ in range(50):
        hand.run(":")
    memory, descriptors = hand.status("VmRSS"), hand.descriptors()
    for _ in range(500):
        hand.run("echo $RANDOM")
    growth = (hand.status("VmRSS") - memory) / 1e6
    results.add("500 actions: RSS growth", growth, "MB", "flat (under 0.3)", growth < 0.3)
    more = hand.descriptors() - descriptors
    results.add("500 actions: more descriptors", more, "", "none", more <= 0)


def bench_output(results, args, hand):
    command = f"head -c {args.gigabytes}G /dev/zero | tr '\\0' x | fold -w 99"
    bare = float(subprocess.run([args.tool("bare-pty"), "output", command], check=True, capture_output=True,
                                text=True).stdout)
    before = hand.status("VmRSS")
    alive, peak, done = [], [0], threading.Event()

    def watch():
        connection = UnixConnection(hand.path)
        while not done.is_set():
            started = time.monotonic()
            connection.request("GET", "/alive")
            connection.getresponse().read()
            alive.append((time.monotonic() - started) * 1000)
            peak[0] = max(peak[0], hand.status("VmRSS"))
            done.wait(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.monotonic()
    answer = hand.run(command)
    ours = time.monotonic() - started
    done.set()
    watcher.join()
    assert answer["extras"]["metadata"]["exit_code"] == 0, answer["extras"]
    size = args.gigabytes * 1000
    results.add("1 GB of output: bare PTY", size / bare, "MB/s", "the reference", None)
    results.add("1 GB of output: run", size / ours, "MB/s", "at least half of bare", ours <= 2 * bare, bare / ours)
    growth = (peak[0] - before) / 1e6
    results.add("1 GB of output: RSS growth", growth, "MB", "under 8", growth < 8)
    alive.sort()
    results.add("1 GB of output: /alive p99 meanwhile", quantile(alive, 0.99), "ms", "under 10",
                quantile(alive, 0.99) < 10)


def requests_per_second(port, path):
    out = subprocess.run(["wrk", "-t1", "-c32", "-d3s", f"http://127.0.0.1:{port}{path}"], check=True,
                         capture_output=True, text=True).stdout
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))


def bench_requests(results, args, hand):
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()
    hello = subprocess.Popen([args.tool("mhd-hello"), str(port)])
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    reference, ours = [], []
    for _ in range(3):
        reference.append(requests_per_second(port, "/"))
        ours.append(requests_per_second(hand.port, "/alive"))
    hello.terminate()
    hello.wait()
    results.add("32 clients: libmicrohttpd", max(reference), "req/s", "the reference", None)
    results.add("32 clients: /alive", max(ours), "req/s", "at least 0.6x", max(ours) >= 0.6 * max(reference),
                max(ours) / max(reference))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    parser.add_argument("--gigabytes", type=int, default=1)
    args = parser.parse_args()
    args.hand = os.path.abspath(os.path.join(args.build, "tendon-hand"))
    args.tool = lambda name: os.path.abspath(os.path.join(args.build, "bench", name))
    results = Results()
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        args.scratch = scratch
        bench_file(results, args)
        bench_start(results, args)
        hand = Hand(args.hand, scratch)
        try:
            bench_idle(results, hand)
            bench_latency(results, args, hand)
            bench_flat(results, hand)
            bench_output(results, args, hand)
            bench_requests(results, args, hand)
        finally:
            hand.stop()
    sys.exit(results.finish(args.json))


if __name__ == "__main__":
    main()

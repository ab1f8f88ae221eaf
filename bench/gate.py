#!/usr/bin/python3
"""Measures what a network behind the gate costs: a create, a connect, and throughput, beside a direct copy over loopback, pasta and
slirp4netns.

In a network of its own, in which a server has an address that a rule allows; needs root.  All ways are measured in turns, each against
the direct one of the same turns; of several turns the best counts, so that a busy moment hurts none.  How copies compare is the
median of the turns, each with itself: the best of one way and of another are of moments that were not equally busy.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

from results import Results, quantile
from runtime import Bench, median

SERVER, PORT = "10.99.0.1", 4000
PYTHON = "/usr/bin/python3"  # Debian's, which jails have
PIECE = 1 << 20

# Greets, reads how many bytes are wanted, and sends them.
SERVE = f"""
import os, socket
piece = memoryview(bytes({PIECE}))
listener = socket.create_server(("{SERVER}", {PORT}), backlog=1024)
print("ready", flush=True)
while True:
    conn, _ = listener.accept()
    conn.sendall(b"!")
    wanted = int(conn.recv(20) or 0)
    try:
        while wanted > 0:
            wanted -= conn.send(piece[:wanted])
    except OSError:
        pass
    conn.close()
"""

# Prints the nanoseconds of each connect up to the first byte, then those of a copy.
CLIENT = f"""
import socket, sys, time
def meet():
    conn = socket.create_connection(("{SERVER}", {PORT}), 20)
    assert conn.recv(1)
    return conn
meet()
for _ in range(int(sys.argv[1])):
    begun = time.monotonic_ns()
    conn = meet()
    print(time.monotonic_ns() - begun)
    conn.close()
conn, left, room = meet(), int(sys.argv[2]), bytearray({PIECE})
begun = time.monotonic_ns()
conn.sendall(b"%d" % left)
while left > 0:
    n = conn.recv_into(room)
    assert n > 0
    left -= n
print(time.monotonic_ns() - begun)
"""


class Way:
    """How the client reaches the server."""

    def __init__(self, name, words, env=None):
        self.name, self.words, self.env = name, words, env
        self.connects, self.copies = [], []

    def measure(self, connects, size):
        words = [*self.words, PYTHON, "-c", CLIENT, str(connects), str(size)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, env=self.env, text=True, timeout=300)
        assert done.returncode == 0, (self.name, done.stderr)
        *each, copy = map(int, done.stdout.split())
        self.connects.append(quantile(sorted(each), 0.5) / 1e6)
        self.copies.append(size / copy)  # GB/s

    @property
    def connect(self):
        return min(self.connects)

    @property
    def copy(self):
        return max(self.copies)


def skip(name, package):
    print(f"{name}: not measured: it is not installed (Debian's package {package})")


def pasta():
    if not shutil.which("pasta"):
        return skip("pasta", "passt")
    return Way("pasta", ["pasta", "--quiet", "--config-net", "--runas", "0", "--"])


def slirp(started):
    if not shutil.which("slirp4netns"):
        return skip("slirp4netns", "slirp4netns")
    inside = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    inside.stdout.readline()
    ready, told = os.pipe()
    words = ["slirp4netns", "--configure", "--mtu=65520", f"--ready-fd={told}", str(inside.pid), "tap0"]
    started += [inside, subprocess.Popen(words, pass_fds=[told], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
    os.close(told)
    if not os.read(ready, 1):
        return print("slirp4netns: not measured: it does not work here")
    os.close(ready)
    return Way("slirp4netns", ["nsenter", f"--net=/proc/{inside.pid}/ns/net"])


def bench_network(results, bench, args):
    tendon = [f"{bench.build}/tendon"]
    rule = ["--network", "allow", "--allow", f"{SERVER}:{PORT}"]
    made = subprocess.run([*tendon, "new", "--keep", *rule], env=bench.env, check=True, stdout=subprocess.PIPE, text=True)
    box, started = made.stdout.strip(), []
    try:
        direct, gate = Way("direct", []), Way("the gate", [*tendon, "exec", box, "--"], bench.env)
        ways = [way for way in (direct, gate, pasta(), slirp(started)) if way]
        for _ in range(args.rounds):
            for way in ways:
                way.measure(args.connects, args.size)
    finally:
        subprocess.run([*tendon, "rm", box], env=bench.env, check=True, stdout=subprocess.DEVNULL)
        for process in started:
            process.kill()
            process.wait()
    for way in ways:
        more = way.connect - direct.connect
        ratio = quantile(sorted(ours / theirs for ours, theirs in zip(way.copies, direct.copies)), 0.5)
        ours = way is gate
        results.add(f"{way.name}: connect to the first byte, p50", way.connect, "ms", "at most 1 ms more" if ours else "a reference",
                    more <= 1 if ours else None, way.connect / direct.connect)
        results.add(f"{way.name}: copy of one connection", way.copy, "GB/s", "at least 0.5x" if ours else "a reference",
                    ratio >= 0.5 if ours else None, ratio)


def bench_create(results, bench, rounds, creates):
    times = {"none": [], "open": []}
    for _ in range(rounds):
        for network, all_of in times.items():
            bench.env["TENDON_JAIL_NETWORK"] = network
            all_of.append(median(bench.sandboxes("create", creates, "jail")["create"]))
    del bench.env["TENDON_JAIL_NETWORK"]
    none, opened = min(times["none"]), min(times["open"])
    results.add("create with network none, p50", none, "ms", "the reference", None)
    results.add("create with network open, p50", opened, "ms", "at most 2 ms more", opened - none <= 2, opened / none)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--creates", type=int, default=20)
    parser.add_argument("--connects", type=int, default=200)
    parser.add_argument("--size", type=int, default=2 << 30)
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    if os.getuid() != 0:
        print("gate: not measured: needs root, which makes the network")
        return
    if "TN_BENCH_ALONE" not in os.environ:
        os.environ["TN_BENCH_ALONE"] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, os.path.abspath(__file__), *sys.argv[1:]])
    for words in ("link set lo up", f"addr add {SERVER}/32 dev lo", "link add out type veth peer name far", "link set far up", "addr add 192.168.99.2/24 dev out",
                  "link set out up", "route add default via 192.168.99.1"):  # fmt: skip
        subprocess.run(["ip", *words.split()], check=True)
    results = Results()
    with tempfile.TemporaryDirectory() as scratch, subprocess.Popen(
        [PYTHON, "-c", SERVE], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout.readline() == "ready\n"
            os.chmod(scratch, 0o755)
            bench = Bench(args.build, scratch)
            bench_create(results, bench, args.rounds, args.creates)
            bench_network(results, bench, args)
        finally:
            server.kill()
    sys.exit(results.finish(args.json))


if __name__ == "__main__":
    main()

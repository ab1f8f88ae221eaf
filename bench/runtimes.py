#!/usr/bin/python3
"""Measures all runtimes side by side, beside a bare terminal, bubblewrap and a plain container: the table of docs/runtimes.md.

In a process namespace of its own, with an engine and a service of its own; needs root and dockerd.  There are no bars: other
measurements have them.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from docker import IMAGE, Engine, bash_image
from results import Results, quantile
from runtime import BWRAP
from service import Service

MS = 1e6
KERNEL_STACK = 16  # kB, of a thread
BASH = {"Image": IMAGE, "Cmd": ["/bin/bash"], "OpenStdin": True}


def memory():
    """Of all processes here, in MB: what is theirs alone or shared among them, page tables and kernel stacks. Programs and
    libraries, which are in memory once however many run, are left out."""
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/smaps_rollup") as rollup, open(f"/proc/{pid}/status") as status:
                values = dict(re.findall(r"^(Pss_Anon|Pss_Shmem|VmPTE|Threads):\s+(\d+)", rollup.read() + status.read(), re.M))
        except OSError:  # it has ended
            continue
        total += sum(int(values.get(name, 0)) for name in ("Pss_Anon", "Pss_Shmem", "VmPTE"))
        total += KERNEL_STACK * int(values.get("Threads", 0))
    return total * 1024 / 1e6


class Bench:
    def __init__(self, args, scratch, engine, service):
        self.build, self.scratch, self.engine = args.build, scratch, engine
        self.env = dict(os.environ, HOME=scratch, XDG_STATE_HOME=scratch, PATH=f"{args.build}:{os.environ['PATH']}",
                        DOCKER_HOST=f"unix://{engine.socket}", SANDBOX_REMOTE_RUNTIME_API_URL=service.url,
                        SANDBOX_API_KEY=service.key)
        self.runsc = find_runsc()
        self.workspace = f"{scratch}/workspace"
        os.mkdir(self.workspace)

    def surroundings(self, runtime):
        """The environment, and the runtime that is meant."""
        if runtime != GVISOR:
            return self.env, runtime
        return {**self.env, "TENDON_ISOLATION": "gvisor", "TENDON_JAIL_RUNSC": self.runsc}, "jail"

    def command(self, mode, count, runtime):
        image = [IMAGE] if runtime == "docker" else []
        return [f"{self.build}/bench/sandboxes", mode, str(count), f"{self.scratch}/state", runtime, *image]

    def sandboxes(self, mode, count, runtime):
        """{what: sorted times in ms}."""
        env, runtime = self.surroundings(runtime)
        out = subprocess.run(self.command(mode, count, runtime), check=True, env=env, cwd=self.workspace,
                             stdout=subprocess.PIPE, text=True).stdout
        return {line["what"]: sorted(n / MS for n in line["each"]) for line in map(json.loads, out.splitlines())}

    def tool(self, name, *words):
        """Sorted times in ms."""
        out = subprocess.run([f"{self.build}/bench/{name}", *words], check=True, stdout=subprocess.PIPE, text=True).stdout
        return sorted(int(line) / MS for line in out.split())

    def held(self, count, runtime):
        """MB for each sandbox after the first."""
        env, runtime = self.surroundings(runtime)
        process = subprocess.Popen(self.command("hold", count, runtime), env=env, cwd=self.workspace,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        first = memory()
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        rest = memory()
        process.communicate()
        assert process.returncode == 0, runtime
        return (rest - first) / (count - 1)

    def held_bwrap(self, count):
        shells, sizes = [], []
        for _ in range(count):
            shells.append(subprocess.Popen([*BWRAP[:-2], "-c", "echo; read x"], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE))
            shells[-1].stdout.readline()
            sizes.append(memory())
        for shell in shells:
            shell.communicate()
        return (sizes[-1] - sizes[0]) / (count - 1)

    def held_containers(self, count):
        names, sizes = [], []
        for _ in range(count):
            names.append(self.engine.call("POST", "/containers/create", json.dumps(BASH))["Id"])
            self.engine.call("POST", f"/containers/{names[-1]}/start")
            sizes.append(memory())
        for name in names:
            self.engine.call("DELETE", f"/containers/{name}?force=1")
        return (sizes[-1] - sizes[0]) / (count - 1)


RUNTIMES = ["jail", "docker", "local", "cli", "remote"]
GVISOR = "jail under gVisor"  # compared with the plain one
CALLS = 10  # times the command that does nothing else


def find_runsc():
    """None, and why, where there is no gVisor."""
    found = subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools/runsc")], capture_output=True, text=True)
    if found.returncode != 0:
        print(f"{GVISOR}: not measured: {found.stderr.strip()}")
        return None
    return found.stdout.strip()


def measure(bench, args):
    """{name: rounds} of each measurement: one round of everything after another, so that a busy moment hurts all alike."""
    start, true, echo, size, calls = ({} for _ in range(5))
    with_gvisor = ["jail", GVISOR] if bench.runsc else []

    def add(table, name, value):
        table.setdefault(name, []).append(value)

    for _ in range(args.rounds):
        add(true, "bare terminal", bench.tool("bare-pty", "latency", str(args.actions)))
        add(start, "bwrap", bench.tool("spawn", str(args.creates), *BWRAP))
        add(start, "container", sorted(bench.engine.create_and_start() for _ in range(args.creates)))
        add(size, "bwrap", [bench.held_bwrap(args.held)])
        add(size, "container", [bench.held_containers(args.held)])
        for runtime in with_gvisor:
            add(calls, runtime, bench.sandboxes("calls", CALLS, runtime)["calls"])
        for runtime in RUNTIMES + with_gvisor[1:]:
            add(start, runtime, bench.sandboxes("create", args.creates, runtime)["create"])
            lines = bench.sandboxes("actions", args.actions, runtime)
            add(true, runtime, lines["true"])
            add(echo, runtime, lines["echo"])
            add(size, runtime, [bench.held(args.held, runtime)])
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return start, true, echo, size, calls


def quiet(rounds, q=0.5):
    """Of the quietest round."""
    return min(quantile(values, q) for values in rounds)


def middle(rounds):
    return quantile(sorted(quantile(values, 0.5) for values in rounds), 0.5)


def show(results, start, true, echo, size, calls):
    tables = ((start, "start", "ms", "bwrap"), (true, "`true`", "ms", "bare terminal"), (size, "idle", "MB", "bwrap"),
              (calls, "40,000 calls", "ms", "jail"))
    for table, what, unit, usual in tables:
        of = middle if table is size else quiet
        for name, rounds in table.items():
            reference = "jail" if name == GVISOR else "container" if name == "docker" and table is not true else usual
            bar = "a reference" if name == reference or name in ("container", "bare terminal") else f"against {reference}"
            results.add(f"{name}: {what}", of(rounds), unit, bar, None, of(rounds) / of(table[reference]))
    for name, rounds in echo.items():
        base = quiet(true["bare terminal"])
        results.add(f"{name}: `echo hello`, p50", quiet(rounds), "ms", "against bare terminal", None, quiet(rounds) / base)
        results.add(f"{name}: `echo hello`, p95", quiet(rounds, 0.95), "ms", "against its p50", None,
                    quiet(rounds, 0.95) / quiet(rounds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--creates", type=int, default=10)
    parser.add_argument("--actions", type=int, default=500)
    parser.add_argument("--held", type=int, default=20)
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    if os.getuid() != 0 or not shutil.which("dockerd"):
        print("runtimes: not measured: needs root and dockerd")
        return
    if os.getpid() != 1 and "TN_BENCH_ALONE" not in os.environ:  # only our own processes are to be seen
        os.environ["TN_BENCH_ALONE"] = "1"
        os.execvp("unshare", ["unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", sys.executable,
                              os.path.abspath(__file__), *sys.argv[1:]])
    results = Results()
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        os.makedirs(f"{scratch}/engine")
        engine = Engine(f"{scratch}/engine")
        service = Service(args.build, f"{scratch}/service")
        try:
            engine.call("POST", f"/images/create?fromSrc=-&repo={IMAGE}&tag=latest", bash_image(), {})
            service.start()
            show(results, *measure(Bench(args, scratch, engine, service), args))
        finally:
            if service.process:
                service.end()
            engine.stop()
    sys.exit(results.finish(args.json))


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Measures sandboxes beside bubblewrap in the same run: a table, and JSON with --json FILE.

Exit status 1 when a bar is missed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from results import Results, quantile

BWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "bash", "-c", "true"]
MS = 1e6


class Bench:
    def __init__(self, build, scratch):
        self.build = os.path.abspath(build)
        self.scratch = scratch
        self.env = dict(os.environ, HOME=scratch, XDG_STATE_HOME=scratch, PATH=self.build + ":" + os.environ["PATH"])

    def spawn(self, count, argv):
        """Sorted times of whole processes, in ms."""
        out = subprocess.run([f"{self.build}/bench/spawn", str(count), *argv], check=True, env=self.env,
                             stdout=subprocess.PIPE, text=True).stdout
        return sorted(int(line) / MS for line in out.split("\n") if line.isdigit())

    def sandboxes(self, mode, count, runtime):
        """What bench/sandboxes.c prints, by name."""
        out = subprocess.run([f"{self.build}/bench/sandboxes", mode, str(count), f"{self.scratch}/state", runtime],
                             check=True, env=self.env, stdout=subprocess.PIPE, text=True).stdout
        return {line["what"]: line for line in map(json.loads, out.splitlines())}


def median(line):
    return quantile(sorted(line["each"]), 0.5) / MS


def bench_create(results, bench, rounds):
    """Interleaved, three times each; the best median of all counts, so that noise hurts none."""
    reference, ours, commands = [], [], []
    for _ in range(3):
        reference.append(quantile(bench.spawn(rounds, BWRAP), 0.5))
        ours.append(median(bench.sandboxes("create", rounds, "jail")["create"]))
        commands.append(quantile(bench.spawn(rounds, [f"{bench.build}/tendon", "run", "true"]), 0.5))
    bwrap, jail, whole = min(reference), min(ours), min(commands)
    results.add("bwrap --unshare-all bash -c true", bwrap, "ms", "the reference", None)
    results.add("jail: create to first observation, p50", jail, "ms", "at most 1.5x, under 8",
                jail <= 1.5 * bwrap and jail < 8, jail / bwrap)
    results.add("tendon run true, whole process, p50", whole, "ms", "at most 3x bwrap", whole <= 3 * bwrap,
                whole / bwrap)


def bench_burst(results, bench, count):
    """Five rounds, each compared with itself; the one in the middle counts."""
    rounds = [bench.sandboxes("burst", count, "jail") for _ in range(5)]
    pairs = [(lines["sequence"]["total"], lines["burst"]["total"]) for lines in rounds]
    sequence, burst = sorted(pairs, key=lambda pair: pair[1] / pair[0])[2]
    results.add(f"jail: {count} creates one after another", sequence / MS, "ms", "the reference", None)
    results.add(f"jail: {count} creates at once", burst / MS, "ms", "at most 0.7x", burst <= 0.7 * sequence,
                burst / sequence)


def bench_warm(results, bench, count):
    for runtime in ("jail", "local"):
        lines = bench.sandboxes("warm", count, runtime)
        single, first = median(lines["warm"]), median(lines["warm, first command"])
        results.add(f"{runtime}: warm claim, p50", single, "ms", "under 10", single < 10)
        results.add(f"{runtime}: first command of a claimed one, p50", first, "ms", "", None)
        if runtime == "jail":
            burst, first = median(lines["warm burst"]), median(lines["warm burst, first command"])
            since = median(lines["warm burst, since the start"])
            results.add(f"jail: {count} warm claims at once, p50 of the call", burst, "ms", "", None, burst / single)
            # With fewer processors than claims most of this is the wait for a processor, before the call.
            results.add(f"jail: {count} warm claims at once, p50 since the start of all", since, "ms", "", None,
                        since / single)
            total = lines["warm burst"]["total"] / MS  # an error has ended the program that claims
            results.add(f"jail: {count} warm claims at once, all of them", total, "ms", "under 30", total < 30)
            results.add(f"jail: then {count} first commands at once, p50", first, "ms", "", None)


def bench_idle(results, bench, count):
    line = bench.sandboxes("idle", count, "jail")["idle"]
    results.add(f"jail: {count} idle, memory in all", line["bytes"] / 1e9, "GB", "under 4", line["bytes"] < 4e9)
    results.add(f"jail: {count} idle, list", line["list"] / MS, "ms", "under 100", line["list"] < 100 * MS)
    results.add(f"jail: {count} idle, all gone", line["gone"] / 1e9, "s", "under 20", line["gone"] < 20e9)


def bench_layers(results, bench, rounds):
    lines = bench.sandboxes("layers", rounds, "jail")
    for what in ("snapshot", "rollback", "fork"):
        results.add(f"jail: {what}, 1,000 changed files, p50", median(lines[what]), "ms", "under 20",
                    median(lines[what]) < 20)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--burst", type=int, default=100)
    parser.add_argument("--idle", type=int, default=1000)
    args = parser.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        bench = Bench(args.build, scratch)
        bench_create(results, bench, args.rounds)
        bench_layers(results, bench, 10)
        bench_burst(results, bench, args.burst)
        bench_warm(results, bench, args.burst)
        bench_idle(results, bench, args.idle)
    sys.exit(results.finish(args.json))


if __name__ == "__main__":
    main()

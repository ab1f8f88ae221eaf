#!/usr/bin/python3
"""Measures IPython cells of tendon-hand beside bare jupyter_client in the same run: a table, and JSON with --json FILE.

Exit status 1 when a bar is missed.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from hands import Hand
from results import Results, quantile

STARTS = 5
ROUNDS, CELLS = 5, 60


class Cells(Hand):
    def __init__(self, binary, where):
        super().__init__(binary, where, "--plugins", "jupyter", PATH="/usr/bin:/bin")
        self.execute("run", command="true")

    def cell(self, code):
        return self.execute("run_ipython", code=code, include_extra=False)["content"]


class Bare:
    """What jupyter_client's own manual does."""

    def __init__(self):
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name="python3")

    def cell(self, code):
        asked = self.client.execute(code, store_history=False, allow_stdin=False)
        text = ""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            text += content.get("text", "") or content.get("data", {}).get("text/plain", "")
            if content.get("execution_state") == "idle":
                break
        while self.client.get_shell_msg(timeout=60)["parent_header"].get("msg_id") != asked:
            pass
        return text

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def seconds(call):
    started = time.monotonic()
    call()
    return time.monotonic() - started


def bare_first():
    """One program that starts a kernel and runs a cell; until the result is there."""
    program = [sys.executable, "-W", "ignore", __file__, "--bare"]
    started = time.monotonic()
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "2\n"
        return time.monotonic() - started


def bench_first(results, args):
    """From no Python at all to the result of a first cell."""
    bare, ours = [], []
    for i in range(STARTS):
        bare.append(bare_first())
        where = os.path.join(args.scratch, f"first{i}")
        os.mkdir(where)
        hand = Cells(args.hand, where)
        ours.append(seconds(lambda: hand.cell("1 + 1")))
        hand.stop()
    reference, value = statistics.median(bare) * 1000, statistics.median(ours) * 1000
    results.add("first cell: bare jupyter_client", reference, "ms", "the reference", None)
    results.add("first cell: run_ipython", value, "ms", "at most 1.1x bare", value <= 1.1 * reference, value / reference)


def bench_next(results, args):
    where = os.path.join(args.scratch, "next")
    os.mkdir(where)
    hand, bare = Cells(args.hand, where), Bare()
    assert (hand.cell("1 + 1"), bare.cell("1 + 1")) == ("2", "2")
    theirs, ours = [], []
    for _ in range(ROUNDS):
        theirs += [seconds(lambda: bare.cell("1 + 1")) for _ in range(CELLS)]
        ours += [seconds(lambda: hand.cell("1 + 1")) for _ in range(CELLS)]
    bare.stop()
    hand.stop()
    theirs.sort()
    ours.sort()
    reference, value = quantile(theirs, 0.5) * 1000, quantile(ours, 0.5) * 1000
    results.add("next cell p50: bare jupyter_client", reference, "ms", "the reference", None)
    results.add("next cell p50: run_ipython", value, "ms", "bare + under 1 ms", value < reference + 1, value / reference)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    parser.add_argument("--bare", action="store_true", help="start a kernel, run a cell: for the measurement itself")
    args = parser.parse_args()
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # a warning of the kernel's
    if args.bare:
        kernel = Bare()
        print(kernel.cell("1 + 1"), flush=True)
        kernel.stop()
        return
    args.hand = os.path.abspath(os.path.join(args.build, "tendon-hand"))
    results = Results()
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        args.scratch = scratch
        bench_first(results, args)
        bench_next(results, args)
    sys.exit(results.finish(args.json))


if __name__ == "__main__":
    main()

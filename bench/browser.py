#!/usr/bin/python3
"""Measures a step of the browser (click, then look) beside Playwright with the same Chromium in the same run.

A table, and JSON with --json FILE.  Exit status 1 when a bar is missed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from hands import Hand
from results import Results, quantile

ROUNDS, STEPS = 6, 10
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = (
    "<!doctype html><title>Bench</title><h1>A page</h1><button id=count onclick=\"this.textContent = "
    "'clicked ' + ++n\">click</button><script>let n = 0</script><ul>"
    + "".join(f"<li><a href='#{i}'>Item {i}</a> of a list that goes on for a while</li>" for i in range(100))
    + "</ul>"
)


class Browsing(Hand):
    def act(self, calls):
        answer = self.execute("browse_interactive", browser_actions=calls)
        assert not answer["extras"]["error"], answer["content"]
        return answer

    def steps(self, bid, count):
        times = []
        for _ in range(count):
            started = time.monotonic()
            self.act(f'click("{bid}")')
            times.append((time.monotonic() - started) * 1000)
        return times


class Playwright:
    def __init__(self, chromium, url):
        done = subprocess.run([f"{ROOT}/tools/peers", "playwright"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr.strip())
        directory = done.stdout.strip()
        self.process = subprocess.Popen(
            ["node", f"{ROOT}/bench/browser-playwright.mjs", directory, chromium, url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)


def measure(hand, bid, peer):
    """Milliseconds of steps, in turns, after a round to warm up."""
    theirs, ours = [], []
    try:
        for _ in range(ROUNDS + 1):
            theirs += peer.steps(STEPS)
            ours += hand.steps(bid, STEPS)
    finally:
        peer.stop()
    return theirs[STEPS:], ours[STEPS:]


def bench_steps(results, args, chromium):
    page = os.path.join(args.scratch, "page.html")
    with open(page, "w") as f:
        f.write(PAGE)
    hand = Browsing(args.hand, os.path.join(args.scratch, "hand"))
    try:
        started = time.monotonic()
        first = hand.act(f'goto("file://{page}")')
        results.add("browser: from nothing to the first page", (time.monotonic() - started) * 1000, "ms", "", None)
        bid = re.search(r"\[(\w+)\] button 'click'", first["content"])[1]
        theirs, ours = measure(hand, bid, Playwright(chromium, f"file://{page}"))
    finally:
        hand.stop()
    reference, value = quantile(sorted(theirs), 0.5), quantile(sorted(ours), 0.5)
    results.add("click and look p50: Playwright", reference, "ms", "the reference", None)
    results.add("click and look p50: browse_interactive", value, "ms", "at most Playwright's time", value <= reference,
                value / reference)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    args = parser.parse_args()
    args.hand = os.path.abspath(os.path.join(args.build, "tendon-hand"))
    chromium = shutil.which("chromium")
    if not chromium or not shutil.which("node"):
        print("browser: left out, chromium and node are needed")
        return
    results = Results()
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        args.scratch = scratch
        bench_steps(results, args, chromium)
    sys.exit(results.finish(args.json))


if __name__ == "__main__":
    main()

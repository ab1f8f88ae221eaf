#!/usr/bin/python3
"""How long the analyzer `policy` takes for a verdict, by 200 rules, over the cases of tests/security."""

import argparse
import pathlib
import subprocess
import sys

from results import Results, quantile

RULES = 200
ROUNDS = 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    args = parser.parse_args()
    cases = sorted(str(path) for path in pathlib.Path("tests/security").glob("*.cases"))
    out = subprocess.run([f"{args.build}/bench/policy", str(ROUNDS), str(RULES), *cases], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    times = sorted(int(line) / 1000 for line in out.split())
    results = Results()
    p50, p99 = quantile(times, 0.5), quantile(times, 0.99)
    results.add(f"a verdict by {RULES} rules, p50", p50, "us", "< 50 us", p50 < 50)
    results.add(f"a verdict by {RULES} rules, p99", p99, "us", "", None)
    return results.finish(args.json)


sys.exit(main())

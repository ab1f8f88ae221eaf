"""The published conformance suite, as tests run it.

Its scenarios wait 0.1 to 5 seconds for what they expect, whatever the machine does meanwhile, and most of them run at once: where
others have the processors, one or the other is late, each time another. So what fails is judged once more, alone."""

import json
import os
import pathlib
import platform
import re
import subprocess

from peers import module


def suite(*words, cwd=None, env=None):
    """The finished run."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    node = module("mcp", f"node-linux-{machine}/bin/node")
    path = module("mcp", "@modelcontextprotocol/conformance/dist/index.js")
    # A proxy has no business between programs of one machine.
    clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and not k.startswith("MCP_")}
    env = {**clean, "TENDON_CONFIG": "/dev/null", "SUITE": path, **(env or {})}
    return subprocess.run([node, path, *map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


def verdicts(done, directory, bad, prefix=""):
    """{scenario: [checks with a status in bad]} of what a run has written."""
    found = {}
    for path in pathlib.Path(directory).rglob("checks.json"):
        name = str(path.parent.relative_to(directory))
        name = re.sub(rf"^{prefix}(.*)-\d{{4}}-\d\d-\d\dT.*$", r"\1", name)
        found[name] = [c["id"] for c in json.loads(path.read_text()) if c["status"] in bad]
    assert found, done.stdout + done.stderr
    return found


def judge_server(url, version, directory, excused, env=None):
    """All of the suite against a server: the scenarios there are, and the checks that fail of each which excused(scenario,
    check) does not excuse."""
    words = ["server", "--url", url, "--spec-version", version]

    def judge(folder, *which):
        done = suite(*words, *which, "-o", folder, env=env)
        found = verdicts(done, folder, ("FAILURE",), "server-")
        return {name: [c for c in checks if not excused(name, c)] for name, checks in found.items()}, done.stdout[-6000:]

    found, said = judge(directory / "all", "--suite", "all")
    for name in [name for name, checks in found.items() if checks]:
        again, said = judge(directory / name, "--scenario", name)
        found[name] = again[name]
    return found, said

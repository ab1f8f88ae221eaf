"""Actions of the command line are judged too, by a program of one's own: exec, mcp and replay."""

import json
import subprocess

import pytest

from mcp_clients import HELLO, Stdio
from trees import ROOT

JUDGED = ("--set", "security.analyzers=example", "--set", "security.confirmation=never")


@pytest.fixture
def box(tendon):
    tendon.env["TENDON_ANALYZER_PATH"] = str(ROOT / "examples")
    tendon.ok("new", "--name", "judged")
    return "judged"


def verdicts(tendon, box):
    events = [json.loads(line) for line in tendon.ok("--json", "events", box).splitlines()]
    return [event["verdict"] for event in events if "verdict" in event]


def test_exec(tendon, box):
    assert "fine" in tendon.ok(*JUDGED, "exec", box, "--", "echo fine")
    denied = tendon(*JUDGED, "exec", box, "--", "echo mkfs > /tmp/traces; echo done")
    assert denied.returncode != 0 and "done" not in denied.stdout
    assert "example, rule mkfs" in denied.stdout + denied.stderr
    assert "traces" not in tendon.ok("exec", box, "--", "ls /tmp")
    last = verdicts(tendon, box)[-1]
    assert last["decision"] == "block" and last["findings"][0]["part"].startswith("args.command: echo mkfs")


def test_mcp(tendon, box):
    process = tendon.start(*JUDGED, "mcp", stdin=subprocess.PIPE)
    client = Stdio(process)
    client.ask({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
    client.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
    call = {"name": "shell", "arguments": {"command": "echo mkfs; echo done-$((40 + 2))"}}
    answer = json.dumps(client.ask({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}))
    assert "rule mkfs" in answer and "done-42" not in answer
    process.stdin.close()
    process.wait(60)


def test_replay(tendon, box):
    tendon.ok("exec", box, "--", "echo mkfs; echo done")
    replayed = tendon(*JUDGED, "replay", box)
    assert "rule mkfs" in replayed.stdout + replayed.stderr, replayed


def test_a_name_that_is_nobodys(tendon, box):
    wrong = tendon("--set", "security.analyzers=exampel", "exec", box, "--", "true")
    assert wrong.returncode != 0 and "did you mean example?" in wrong.stderr

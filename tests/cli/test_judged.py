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


RULE = """
[[rule]]
name = "vault"
risk = "high"
text = "opens the vault"
path = "{0}/**"
unless = {{ read = ["**/*.pub"] }}
"""
# What is said of the vault, and of what only looks like it. Here: link -> vault/key, way -> vault, up -> elsewhere/deep
TO_THE_VAULT = [
    "cat link",
    "cat ./link > /dev/null",
    "cat way/key",
    "cat up/../../vault/key",
    "cd deep && cat ../link",
    "cat fine.pub",
    "echo x > link",
    "python3 -c 'open(\"link\").read()'",
    "cat " + "f " * 200 + "link",
    "readlink plain >> link",
    "rm -f nothing 2> link",
    "mv source way",
    "ln -s plain way",
    "cat /proc/self/root{0}/link",
]
# Nobody but whoever opens these knows where they lead.
UNKNOWN = [
    "cat loop",
    "cat mine",
    "cat /proc/thread-self/../../cwd/link",
    "cat /proc/net/../cwd/link",
    "cat /dev/fd/3/key",
    "cat $'\\xff'",
]
ELSEWHERE = [
    "cat plain",
    "ls -l link",
    "rm -f gone",
    "mv other away",
    "ln -s plain fresh",
    "cat missing/link; true",
    "cat /dev/stdin < plain",
    "wc -l /proc/mounts /proc/self/status",
    "test-tool " + "x" * 5000 + "; true",
]


@pytest.fixture
def links(tendon, tmp_path):
    """Rules about a directory, and links that lead there."""
    ws, vault = tmp_path / "ws", tmp_path / "vault"
    for folder in (ws / "deep", vault, tmp_path / "elsewhere" / "deep"):
        folder.mkdir(parents=True)
    (vault / "key").write_text("secret\n")
    for name, target in dict(link=vault / "key", way=vault, up=tmp_path / "elsewhere" / "deep", loop="loop", other="link", gone="link", mine="/proc/self/cwd/link").items():
        (ws / name).symlink_to(target)
    (ws / "fine.pub").symlink_to("link")
    for name in ("plain", "source"):
        (ws / name).write_text("plain\n")
    (tmp_path / "rules.toml").write_text(RULE.format(vault))
    tendon.ok("new", "--name", "links")
    return ws, ("--set", "security.analyzers=policy", "--set", f"security.policies={tmp_path}/rules.toml", "--set", "security.default_policy=false")


def test_links_are_followed(tendon, links):
    """By the name and by what it leads to, in the directory of the shell that is meant."""
    ws, policy = links
    tendon.ok("exec", "-s", "work", "links", f"cd {ws}")
    for command in TO_THE_VAULT:
        denied = tendon(*policy, "exec", "-s", "work", "links", command.replace("{0}", str(ws)))
        assert denied.returncode != 0 and "secret" not in denied.stdout, (command, denied)
        assert "rule vault" in denied.stderr and "leads to" in denied.stderr, (command, denied)
    for command in ELSEWHERE:
        assert tendon(*policy, "exec", "-s", "work", "links", command).returncode == 0, command
    assert (ws.parent / "vault" / "key").read_text() == "secret\n"
    for command, why in [*((name, "rule links") for name in UNKNOWN), ("cat " + "plain " * 300, "more paths than links are followed for")]:
        unknown = tendon(*policy, "--set", "security.confirmation=never", "exec", "-s", "work", "links", command)
        assert unknown.returncode != 0 and why in unknown.stderr, (command, unknown)
    tendon.ok("stop", "links")
    asleep = tendon(*policy, "exec", "links", "cat plain")
    assert asleep.returncode != 0 and "sandbox links is stopped" in asleep.stderr, asleep


def test_a_name_that_is_nobodys(tendon, box):
    wrong = tendon("--set", "security.analyzers=exampel", "exec", box, "--", "true")
    assert wrong.returncode != 0 and "did you mean example?" in wrong.stderr

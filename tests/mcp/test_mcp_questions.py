"""What servers ask in the middle of a call (elicitation), and how `tendon tools` shows and answers it."""

import json
import os
import pty
import select
import subprocess
import sys

import pytest

# Asks as often as it is told, then says what the answers were.
SERVER = r"""
import json, sys

def say(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)

def ask(n, schema):
    say(id=f"q{n}", method="elicitation/create", params={"message": "one\x1b[31m\ntwo", "requestedSchema": schema})
    return json.loads(sys.stdin.readline()).get("result")

for line in iter(sys.stdin.readline, ""):
    m = json.loads(line)
    if m.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        say(id=m["id"], result=result)
    elif m.get("method") == "tools/list":
        say(id=m["id"], result={"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
    elif m.get("method") == "tools/call":
        given = m["params"]["arguments"]
        answers = [ask(n, given["schema"]) for n in range(given["times"])]
        say(id=m["id"], result={"content": [{"type": "text", "text": json.dumps(answers)}]})
"""


@pytest.fixture
def command(tendon_program, tmp_path):
    """command(flags, times, schema) -> (argv, env) of the call"""
    (tmp_path / "server.py").write_text(SERVER)
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("TENDON_")}, "HOME": str(tmp_path),
           "TENDON_CONFIG": "/dev/null", "TENDON_STATE": str(tmp_path / "state"), "NO_COLOR": "1"}

    def make(flags, times, schema):
        program = f"{sys.executable} {tmp_path}/server.py"
        arguments = json.dumps({"times": times, "schema": schema})
        return [tendon_program, "tools", "--stdio", program, *flags, "call", "t", arguments], env

    return make


def test_as_often_as_it_likes(command):
    """One after the other, in one call."""
    argv, env = command(["--accept"], 20, {"properties": {"n": {"type": "integer", "default": 7}}})
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == 20 * [{"action": "accept", "content": {"n": 7}}]


def test_what_a_server_says_is_text_to_the_terminal(command):
    ours, theirs = pty.openpty()
    field = {"type": "in\x1b[31mteger", "description": "a \u009b31m number \x1b]0;title\x07"}
    argv, env = command([], 1, {"properties": {"n\x1b[31m": field}, "required": ["n\x1b[31m"]})
    os.write(ours, b"nonsense\n5\n")
    child = subprocess.Popen(argv, env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    said = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            said += os.read(ours, 65536)
        except OSError:  # its end
            break
    out = child.communicate(timeout=60)[0]
    os.close(ours)
    assert child.returncode == 0, said
    assert json.loads(out) == [{"action": "accept", "content": {"n\x1b[31m": 5}}]
    assert b"asks: one" in said and b"two" in said and b"expected in" in said
    assert not any(escape in said for escape in (b"\x1b[31m", b"\x1b]", "\u009b".encode(), b"\x07")), said

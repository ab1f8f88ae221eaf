"""What servers ask in the middle of a call (elicitation), and how `tendon tools` shows and answers it."""

import json
import os
import pty
import select
import subprocess
import sys
import threading

import pytest

from logins import Site

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


class Asking(Site):
    """A server without sessions whose one tool asks before it answers."""

    def answer(self, method, path, query, headers, body):
        message = json.loads(body or "{}")
        form = {"method": "elicitation/create", "params": {"message": "name?", "requestedSchema": {
            "type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}}}
        results = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
            "tools/call": {"resultType": "input_required", "inputRequests": {"q": form}},
        }
        if message.get("method") not in results:
            return 404, {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32601, "message": "no"}}
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}


def test_a_question_as_a_result_has_a_deadline(tendon_program, command):
    """Somebody sits there and says nothing."""
    server = Asking()
    ours, theirs = pty.openpty()
    _, env = command([], 0, {})
    env = {k: v for k, v in env.items() if not k.lower().endswith("_proxy")}
    try:
        child = subprocess.Popen([tendon_program, "tools", "--url", server.url + "/mcp", "--timeout", "3", "call", "t"],
                                 env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE)
        os.close(theirs)
        child.communicate(timeout=60)
        said = b""
        while select.select([ours], [], [], 0)[0]:
            try:
                said += os.read(ours, 65536)
            except OSError:
                break
        assert child.returncode != 0 and b"asks: name?" in said and b"timed out" in said, said
    finally:
        os.close(ours)
        server.close()


def test_a_server_without_sessions_that_is_slow_at_first(tendon_program, command):
    """It is taken for an older one, refuses the handshake, and is asked once more."""
    server, asked = Asking(), threading.Event()
    answer, methods = server.answer, []

    def slow(method, path, query, headers, body):
        methods.append(json.loads(body or "{}").get("method"))
        if methods[-1] == "initialize":
            asked.set()
        if methods[-1] == "server/discover":
            asked.wait(60)
        return answer(method, path, query, headers, body)

    server.answer = slow
    _, env = command([], 0, {})
    env = {k: v for k, v in env.items() if not k.lower().endswith("_proxy")}
    try:
        done = subprocess.run([tendon_program, "tools", "--url", server.url + "/mcp"], env=env, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=100)
        assert done.returncode == 0 and done.stdout.splitlines()[1].split()[0] == "t", done.stderr
        assert methods[:4] == ["server/discover", "initialize", "server/discover", "tools/list"]
    finally:
        server.close()

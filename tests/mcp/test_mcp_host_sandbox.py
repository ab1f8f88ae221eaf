"""Programs of [mcp] inside a sandbox, as the host sees them: through a hand, through the older server of
OpenHands, and through `tendon tools` and libtendon on whole sandboxes."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from test_mcp_host_rogue import Older
from toolboxes import Server, eventually
from trees import BUILD, ROOT, program

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "cli"))

from tendons import Tendon  # noqa: E402

ODD = HERE / "servers/odd.py"
PYTHON = "/usr/bin/python3"


def odd(name="odd", path=ODD, **more):
    return {"name": name, "command": PYTHON, "args": [str(path), "--name", name], "env": {}, **more}


# --- with a hand ------------------------------------------------------------------------------


@pytest.fixture
def hand(fresh_hand):
    return fresh_hand(env={"SESSION_API_KEY": "hand-key"})


def address(hand):
    host, port = hand.address
    return f"{host}:{port}"


def test_programs_in_the_sandbox(hand, open_toolbox):
    toolbox = open_toolbox(stdio=[odd()], hand=address(hand))
    assert "echo" in toolbox.names()
    assert toolbox.text("echo", text="x") == "odd: x"
    died = toolbox.call("die")
    assert died["isError"] and "odd" in died["content"][0]["text"]
    assert toolbox.text("echo", text="y") == "odd: y"
    assert 'timed out after 0.5 seconds' in toolbox.failure("hang", timeout=0.5)


def test_what_microagents_bring(hand, open_toolbox):
    toolbox = open_toolbox(stdio=[odd("b")], hand=address(hand))
    assert toolbox.text("echo", text="x") == "b: x"
    assert toolbox.ask("microagent", mcp_tools={"stdio_servers": [odd("a")], "sse_servers": ["http://x"]}) == {"ok": True}
    assert toolbox.text("a_echo", text="x") == "a: x"
    assert toolbox.text("b_echo", text="x") == "b: x"
    assert toolbox.notes == ["MCP server Microagent MCP config contains SSE servers: it is not yet supported."]
    wrong = toolbox.ask("microagent", mcp_tools={"stdio_servers": [{"name": "a b", "command": "x"}]})
    assert wrong == {"error": "stdio_servers: item 1: name: expected letters, digits, '_' and '-'"}


def test_a_program_that_does_not_start(hand, open_toolbox):
    toolbox = open_toolbox(stdio=[odd("good"), odd("bad", path="/does/not/exist")], hand=address(hand))
    assert toolbox.text("good_echo", text="x") == "good: x"
    assert len(toolbox.notes) == 1 and "bad" in toolbox.notes[0]
    answer = toolbox.ask("list")
    assert "good_echo" in [tool["name"] for tool in answer["tools"]] and "bad" in answer["problems"][0]


# --- with the server of OpenHands -------------------------------------------------------------


class OpenHands(Older):
    """/update_mcp_server and HTTP+SSE below /mcp; nothing else."""

    endpoint = "/mcp/messages/?session_id=1"

    def __init__(self):
        super().__init__()
        self.updates = []

    def get(self, handler):
        return handler.path == "/mcp/sse" and super().get(handler)

    def post(self, handler, message):
        if handler.path == "/update_mcp_server":
            self.updates.append(message)
            handler.reply(200, b'{"detail":"MCP server updated successfully","router_error_log":"mind the gap"}')
            return True
        return super().post(handler, message)


@pytest.fixture
def openhands():
    server = Server(OpenHands())
    yield server
    server.close()


def test_an_openhands_server(openhands, open_toolbox):
    toolbox = open_toolbox(stdio=[odd("z"), odd("a")], hand=f"127.0.0.1:{openhands.port}",
                           env={"SEARCH_API_KEY": "tvly-123"})
    assert toolbox.text("echo", text="x") == "x"
    assert toolbox.text("echo", text="y") == "y"
    (update,) = openhands.tools.updates
    assert [entry["name"] for entry in update] == ["a", "tavily", "z"]
    assert update[1] == {"name": "tavily", "command": "npx", "args": ["-y", "tavily-mcp@0.2.1"],
                         "env": {"TAVILY_API_KEY": "tvly-123"}}
    assert toolbox.notes == ["MCP servers in the sandbox: mind the gap"]
    for method, name, headers in openhands.seen:
        assert headers["X-Session-API-Key"] == "hand-key", (method, name)
    assert any(headers.get("Authorization") == "Bearer hand-key" for *_, headers in openhands.seen)

    toolbox.ask("microagent", mcp_tools={"stdio_servers": [odd("m"), odd("a")]})
    assert toolbox.text("echo", text="z") == "z"
    assert [entry["name"] for entry in openhands.tools.updates[1]] == ["a", "m", "tavily", "z"]
    toolbox.ask("microagent", mcp_tools={"stdio_servers": [odd("m")]})
    assert toolbox.text("echo", text="z") == "z"
    assert len(openhands.tools.updates) == 2

    # A conversation that ended may be that of a sandbox that knows nothing any more.
    openhands.tools.mail.put(None)
    eventually(lambda: toolbox.ask("call", name="echo", arguments={"text": "w"})["observation"] == "mcp"
               and len(openhands.tools.updates) > 2, "a new conversation")
    assert openhands.tools.updates[2] == openhands.tools.updates[1]
    assert toolbox.text("echo", text="v") == "v"


# --- whole sandboxes --------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["local", "jail", "cli"])
def box(request, tmp_path_factory, tendon_program):
    """A tendon with a sandbox `box` that has two MCP servers."""
    tendon = Tendon(tendon_program, tmp_path_factory.mktemp("box"), request.param)
    if request.param == "jail" and (doctor := tendon("doctor", "--runtime", "jail")).returncode:
        pytest.skip(f"the jail does not work here: {doctor.stdout}{doctor.stderr}")
    config = tendon.home / "config.toml"
    config.write_text(f"""
[mcp]
stdio_servers = [
    {{ name = "one", command = "{PYTHON}", args = ["{ODD}", "--name", "one"], env = {{ A_TOKEN = "very-secret" }} }},
    {{ name = "two", command = "{PYTHON}", args = ["{ODD}", "--name", "two"] }},
]
""")
    tendon.env["TENDON_CONFIG"] = str(config)
    volumes = ["--volume", f"{ODD.parent}:{ODD.parent}:ro"] if request.param == "jail" else []
    tendon.ok("--quiet", "new", "--name", "box", *volumes)
    yield tendon
    tendon.ok("rm", "--all", "--quiet")
    assert tendon.leftovers() == []


def test_tools_of_a_sandbox(box):
    lines = box.ok("tools", "box").splitlines()
    assert lines[0].split() == ["TOOL", "SERVER", "DESCRIPTION"]
    assert any(line.split()[:2] == ["one_echo", "sandbox"] for line in lines)
    assert box.ok("tools", "box", "call", "two_echo", "text=hello") == "two: hello\n"
    assert box.fails(66, "tools", "box", "call", "three_echo").startswith("No matching MCP agent found")


def test_calls_are_journaled_without_secrets(box):
    assert "very-secret" in box.ok("tools", "box", "call", "one_env")
    box.ok("tools", "box", "call", "one_echo", '{"text":"it is very-secret"}')
    events = json.loads("[" + ",".join(box.ok("--json", "events", "box").splitlines()) + "]")
    text = json.dumps(events)
    assert "call_tool_mcp" in text and "very-secret" not in text and "<secret_hidden>" in text


def test_death_inside_is_survived(box):
    died = box("tools", "box", "call", "one_die")
    assert died.returncode in (1, 76) and "one" in died.stdout + died.stderr
    assert box.ok("tools", "box", "call", "one_echo", "text=again") == "one: again\n"


def test_a_sandbox_that_was_stopped(box):
    box.ok("stop", "box")
    assert "stopped" in box("tools", "box").stderr
    box.ok("resume", "--quiet", "box")
    assert box.ok("tools", "box", "call", "one_echo", "text=back") == "one: back\n"


LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <tendon/tendon.h>

int main(int argc, char **argv)
{
    struct tendon_error err = {0};
    struct tendon *t = tendon_open(NULL, NULL, &err);
    struct tendon_sandbox *sb = t ? tendon_attach(t, "box", &err) : NULL;
    char *tools = sb ? tendon_tools(sb, 60, &err) : NULL;
    char *seen = tools ? tendon_execute(sb, argv[1], &err) : NULL;

    if (!seen)
        fprintf(stderr, "%s\n", err.text);
    else
        printf("%s\n%s\n", tools, seen);
    free(seen);
    free(tools);
    tendon_detach(sb);
    tendon_close(t);
    return seen ? 0 : 1;
}
"""


def test_through_the_library(box, tmp_path):
    program(BUILD, "src/tendon/libtendon.a")
    (tmp_path / "x.c").write_text(LIBRARY)
    sanitize = ["-fsanitize=address,undefined"] if b"__asan_init" in (BUILD / "tendon").read_bytes() else []
    subprocess.run(
        ["cc", *sanitize, f"-I{ROOT}/include", str(tmp_path / "x.c"), "-o", str(tmp_path / "x"),
         f"-L{BUILD}/src/tendon", "-ltendon", f"-Wl,-rpath,{BUILD}/src/tendon"],
        check=True,
    )
    action = {"action": "call_tool_mcp", "args": {"name": "one_echo", "arguments": {"text": "lib"}}}
    env = {**box.env, "PATH": f"{BUILD}:{os.environ['PATH']}"}

    def execute(asked):
        done = subprocess.run([tmp_path / "x", json.dumps(asked)], env=env, capture_output=True, text=True, timeout=100)
        assert (done.returncode, done.stderr) == (0, ""), done
        return map(json.loads, done.stdout.splitlines())

    tools, seen = execute(action)
    assert {"type", "function"} == set(tools[0]) and "one_echo" in [tool["function"]["name"] for tool in tools]
    assert seen["observation"] == "mcp" and seen["extras"] == {"name": "one_echo", "arguments": {"text": "lib"}}
    assert json.loads(seen["content"])["content"][0]["text"] == "one: lib"
    action["args"]["confirmation_state"] = "rejected"
    assert list(execute(action))[1]["observation"] == "user_rejected"

"""The MCP client on the host with servers of others, and `tendon tools`."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess

import pytest

from peers import module
from processes import stat_of
from toolboxes import Server, eventually, text_result

ODD = pathlib.Path(__file__).with_name("servers") / "odd.py"
EVERYTHING = "@modelcontextprotocol/server-everything/dist/index.js"
NULLS = {"annotations": None, "meta": None}


# --- server-everything over both transports --------------------------------------------------


class Everything:
    def __init__(self, transport, path, log):
        self.transport, self.log = transport, log
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://localhost:{self.port}{path}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["node", module("mcp", EVERYTHING), self.transport],
            env={"PATH": os.environ["PATH"], "PORT": str(self.port)},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        eventually(self.answers, f"server-everything listens: {self.url}")

    def answers(self):
        assert self.process.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("localhost", self.port), timeout=5):
            return True

    def stop(self):
        self.process.kill()
        self.process.wait(timeout=60)


@pytest.fixture(scope="module", params=[("streamableHttp", "/mcp"), ("sse", "/sse")], ids=["http", "sse"])
def everything(request, tmp_path_factory):
    with open(tmp_path_factory.mktemp("everything") / "log", "w") as log:
        server = Everything(*request.param, log)
        yield server
        server.stop()


@pytest.fixture
def toolbox(everything, open_toolbox):
    return open_toolbox(**{"shttp" if everything.transport != "sse" else "sse": [everything.url]})


def test_every_kind_of_content(toolbox):
    assert "get-sum" in toolbox.names()
    assert toolbox.call("get-sum", a=1, b=2.5) == {
        "meta": None,
        "content": [{"type": "text", "text": "The sum of 1 and 2.5 is 3.5.", **NULLS}],
        "structuredContent": None,
        "isError": False,
    }
    _, image, _ = toolbox.call("get-tiny-image")["content"]
    assert list(image) == ["type", "data", "mimeType", "annotations", "meta"] and image["mimeType"] == "image/png"
    first, link, *_ = toolbox.call("get-resource-links", count=2)["content"]
    assert list(link)[:9] == "name title uri description mimeType size annotations meta type".split()
    assert link["type"] == "resource_link" and link["size"] is None
    block = toolbox.call("get-resource-reference", resourceType="Text", resourceId=1)["content"][1]
    assert list(block) == ["type", "resource", "annotations", "meta"]
    assert list(block["resource"]) == ["uri", "mimeType", "meta", "text"]
    noted = toolbox.call("get-annotated-message", messageType="error", includeImage=True)["content"]
    assert noted[0]["annotations"] == {"audience": ["user", "assistant"], "priority": 1.0}
    structured = toolbox.call("get-structured-content", location="New York")
    assert structured["structuredContent"]["conditions"] and structured["isError"] is False
    failed = toolbox.call("get-sum", a="one")
    assert failed["isError"] is True and failed["content"][0]["type"] == "text"


def test_progress_and_time_limits(toolbox):
    assert "completed" in toolbox.text("trigger-long-running-operation", duration=0.2, steps=2)
    seen = toolbox.failure("trigger-long-running-operation", timeout=0.5, duration=60, steps=60)
    assert seen == 'Tool "trigger-long-running-operation" timed out after 0.5 seconds'
    assert toolbox.text("echo", message="on") == "Echo: on"


def test_a_server_that_was_killed_and_came_back(everything, toolbox):
    assert toolbox.text("echo", message="1") == "Echo: 1"
    everything.stop()
    assert toolbox.ask("call", name="echo", arguments={"message": "2"}, timeout=20)["observation"] in ("mcp", "error")
    everything.start()
    eventually(lambda: toolbox.ask("call", name="echo", arguments={"message": "3"})["observation"] == "mcp", "back")
    assert toolbox.text("echo", message="4") == "Echo: 4"


# --- programs on this machine ----------------------------------------------------------------


def test_a_program_here(open_toolbox):
    toolbox = open_toolbox(env={"OPENAI_API_KEY": "not-for-you"})
    assert toolbox.ask("program", command=f"/usr/bin/python3 {ODD}") == {"ok": True}
    assert toolbox.text("echo", text="x") == "odd: x"
    died = toolbox.failure("die")
    assert "the answer is lost" in died and "has ended with exit code" in died
    assert toolbox.text("echo", text="y") == "odd: y"
    assert 'timed out after 0.5 seconds' in toolbox.failure("hang", timeout=0.5)
    assert toolbox.text("echo", text="z") == "odd: z"
    assert "not-for-you" not in json.dumps(toolbox.call("env"))
    missing = open_toolbox()
    assert missing.ask("program", command="/does/not/exist") == {"ok": True}
    assert "/does/not/exist" in missing.error("x")


def test_what_a_program_started_ends_with_it(open_toolbox, tmp_path):
    """Also when the program ends by itself, because its input does or because it dies."""
    command = f"/bin/sh -c 'sleep 1000 & echo $! >> pids; exec /usr/bin/python3 {ODD}'"

    def alive(pid):
        with contextlib.suppress(FileNotFoundError):
            return stat_of(pid)[0] not in "ZX"

    toolbox = open_toolbox()
    assert toolbox.ask("program", command=command) == {"ok": True}
    assert toolbox.text("echo", text="x") == "odd: x"
    toolbox.failure("die")
    assert toolbox.text("echo", text="y") == "odd: y"
    first, second = (tmp_path / "pids").read_text().split()
    eventually(lambda: not alive(first), "the first one's sleep has ended")
    assert alive(second)
    toolbox.driver.stdin.close()
    eventually(lambda: not alive(second), "the second one's sleep has ended")


# --- the verb --------------------------------------------------------------------------------


class Sums:
    def tool_add(self, handler, message):
        arguments = message["params"]["arguments"]
        return text_result(message, str(arguments["a"] + arguments["b"]) + f" {arguments.get('note', '')!r}")

    def tool_fail(self, handler, message):
        return {**text_result(message, ""), "result": {"isError": True, "content": [{"type": "text", "text": "no"}]}}


SCHEMA = {"type": "object", "properties": {"a": {"type": "number", "description": "the first"},
                                           "b": {"type": "number"}, "note": {"type": "string"}}, "required": ["a"]}


@pytest.fixture
def sums():
    server = Server(Sums())
    server.listed = lambda message: [
        {"name": "add", "description": "Adds\x1b[31m\nnumbers", "inputSchema": SCHEMA},
        {"name": "fail", "inputSchema": {"type": "object"}},
    ]
    yield server
    server.close()


@pytest.fixture
def tools(tendon_program, tmp_path, sums):
    """tools(*words) -> the finished `tendon tools --url ... words`"""
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TENDON_", "MCP_"))},
        "HOME": str(tmp_path),
        "TENDON_CONFIG": "/dev/null",
        "TENDON_STATE": str(tmp_path / "state"),
        "SUMS_KEY": "k1",
    }

    def run(*words, stdin="", url=sums.url, before=()):
        return subprocess.run([tendon_program, *before, "tools", "--url", url, *words], env=env, input=stdin,
                              capture_output=True, text=True, timeout=100)

    return run


def test_the_verb(tools, sums):
    listed = tools()
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.splitlines()[1:] == [f"add   {sums.url}  Adds?[31m", f"fail  {sums.url}  -"]
    shown = tools("show", "add").stdout
    assert shown.startswith(f"add of {sums.url}\n") and "  a  number, required: the first\n  b  number\n" in shown
    for words, stdin in [(["a=1", "b=2", "note=7"], ""), (['{"a":1,"b":2,"note":"7"}'], ""),
                         (["-"], '{"a":1,"b":2,"note":"7"}')]:
        done = tools("call", "add", *words, stdin=stdin)
        assert (done.returncode, done.stdout, done.stderr) == (0, "3 '7'\n", ""), words
    failed = tools("call", "fail")
    assert (failed.returncode, failed.stdout) == (1, "no\n")
    tools("--key-from", "SUMS_KEY", "call", "fail")
    assert sums.seen[-2][2]["Authorization"] == "Bearer k1"


def test_the_verb_for_programs(tools, sums):
    answer = json.loads(tools(before=["--json"]).stdout)
    assert answer["problems"] == [] and [t["tool"]["name"] for t in answer["tools"]] == ["add", "fail"]
    result = json.loads(tools("call", "add", "a=1", "b=1", before=["--json"]).stdout)
    assert result["content"][0]["text"] == "2 ''" and result["meta"] is None
    functions = json.loads(tools("--functions").stdout)
    assert functions[0] == {
        "type": "function",
        "function": {"name": "add", "description": "Adds\x1b[31m\nnumbers", "parameters": SCHEMA},
    }
    assert functions[1]["function"]["description"] is None


@pytest.mark.parametrize(
    "words, status, complaint",
    [
        (["fly"], 2, "expected show, call, login or logout, found 'fly'"),
        (["call"], 2, "call: expected the name of a tool"),
        (["show", "ad"], 66, "there is no tool 'ad'"),
        (["call", "ad"], 66, "No matching MCP agent found for tool name: ad"),
        (["call", "add", "a"], 2, "expected NAME=VALUE or a JSON object, found 'a'"),
        (["call", "add", "{"], 2, "arguments: "),
        (["call", "add", "-"], 2, "arguments: "),
        (["--key-from", "NO_SUCH", "call", "add"], 2, "--key-from: the variable NO_SUCH is not set"),
    ],
)
def test_wrong_usage(tools, words, status, complaint):
    done = tools(*words)
    assert done.stdout == "" and complaint in done.stderr and done.returncode == status, done


def test_nobody_there(tools):
    done = tools(url="http://127.0.0.1:1/mcp")
    assert done.stdout == "" and "http://127.0.0.1:1/mcp: " in done.stderr and done.returncode == 76
    assert "--url: url: expected http" in tools(url="ftp://x").stderr

"""Against programs of others: the published servers behind the hand, the published client and the
published conformance suite in front of it."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from harness import wait_until
from mcp_suite import judge_server
from peers import module, peers
from speak import update

HERE = pathlib.Path(__file__).resolve().parent
SCOPE = "@modelcontextprotocol"


@pytest.fixture(scope="module")
def everything():
    return {
        "name": "everything",
        "command": "node",
        "args": [module("mcp", f"{SCOPE}/server-everything/dist/index.js"), "stdio"],
    }


class Sdk:
    """The client of sdk-client.mjs."""

    def __init__(self, transport, url):
        sdk = str(peers("mcp") / "node_modules" / SCOPE / "sdk")
        self.process = subprocess.Popen(
            ["node", HERE / "sdk-client.mjs", sdk, transport, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self("connect")

    def __call__(self, method, args=None, **more):
        args = more or args
        self.process.stdin.write(json.dumps({"method": method, "args": args}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def tool(self, tool, progress=False, **arguments):
        return self("call", name=tool, arguments=arguments, progress=progress)

    def text(self, tool, **arguments):
        return self.tool(tool, **arguments)["content"][0]["text"]

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)


@pytest.fixture(scope="module")
def hand(mcp_hand, everything, tmp_path_factory):
    files = tmp_path_factory.mktemp("files")
    (files / "hello.txt").write_text("from a file\n")
    mcp_hand.files = files
    filesystem = {
        "name": "filesystem",
        "command": "node",
        "args": [module("mcp", f"{SCOPE}/server-filesystem/dist/index.js"), str(files)],
    }
    assert update(mcp_hand, everything, filesystem) == ""
    return mcp_hand


@pytest.fixture(scope="module", params=["http", "sse"])
def sdk(request, hand):
    path = "/mcp" if request.param == "http" else "/mcp/sse"
    client = Sdk(request.param, f"http://127.0.0.1:{hand.address[1]}{path}")
    yield client
    client.end()


def test_both_servers_are_listed(sdk):
    tools = sdk("list")
    assert "everything_echo" in tools and "filesystem_read_text_file" in tools
    assert all(re.match("(everything|filesystem)_", t) for t in tools)
    assert sdk("version")["name"] == "tendon"
    sdk("ping")


def test_calls(hand, sdk):
    assert sdk.text("everything_echo", message="hi") == "Echo: hi"
    assert sdk.text("filesystem_read_text_file", path=str(hand.files / "hello.txt")) == "from a file\n"
    assert sdk.tool("filesystem_read_text_file", path="/etc/passwd")["isError"] is True
    assert sdk.text("filesystem_list_directory", path=str(hand.files)) == "[FILE] hello.txt"


def test_progress_reaches_the_published_client(sdk):
    """A step that comes in one piece with the result, as the last one does, may be dropped by the published client."""
    answer = sdk.tool("everything_trigger-long-running-operation", progress=True, duration=3, steps=3)
    assert [s["progress"] for s in answer["steps"]][:2] == [1, 2]


def test_sampling_reaches_the_published_client(sdk):
    assert "sampled 1" in sdk.text("everything_trigger-sampling-request", prompt="p", maxTokens=5)


def test_prompts_and_resources(sdk):
    prompts = [p["name"] for p in sdk("prompts")["prompts"]]
    assert "everything_simple-prompt" in prompts
    assert sdk("prompt", name="everything_simple-prompt")["messages"]
    resources = sdk("resources")["resources"]
    assert resources
    assert sdk("read", uri=resources[0]["uri"])["contents"]
    template = sdk("templates")["resourceTemplates"][0]["uriTemplate"]
    uri = re.sub(r"\{[^}]*\}", "1", template)
    assert sdk("read", uri=uri)["contents"][0]["uri"] == uri


def test_aborting(sdk):
    operation = {"name": "everything_trigger-long-running-operation", "arguments": {"duration": 60, "steps": 1}}
    assert sdk("abort", **operation) != "finished"
    assert sdk.text("everything_echo", message="still") == "Echo: still"


def test_the_published_client_hears_of_changes(hand, everything, sdk):
    before = len(sdk("said"))
    update(hand, everything)
    wait_until(
        lambda: any(m["method"] == "notifications/tools/list_changed" for m in sdk("said")[before:]),
        30,
        "list_changed",
    )
    assert "echo" in sdk("list")
    filesystem = {
        "name": "filesystem",
        "command": "node",
        "args": [module("mcp", f"{SCOPE}/server-filesystem/dist/index.js"), str(hand.files)],
    }
    update(hand, everything, filesystem)
    assert "everything_echo" in sdk("list")


# --- the conformance suite ----------------------------------------------------------------------

# What an older server cannot offer: tools that ask in the new way (MRTR), log where it is wanted, or name headers for
# their parameters. The newer one has them all.
OLDER = re.compile("input-required-result-|http-custom-header-server-validation")
OLDER_CHECKS = {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}


@pytest.mark.parametrize(
    "server, version, least",
    [
        pytest.param("fixture", "2025-06-18", 20, marks=pytest.mark.slow),
        ("fixture", "2025-11-25", 30),
        ("fixture", "2026-07-28", 40),
        pytest.param("modern", "2025-06-18", 20, marks=pytest.mark.slow),
        ("modern", "2025-11-25", 30),
        ("modern", "2026-07-28", 40),
    ],
)
def test_conformance(mcp_hand, tmp_path, server, version, least):
    entry = {"name": server, "command": sys.executable, "args": [str(HERE / f"servers/{server}.py")]}
    assert update(mcp_hand, entry) == ""
    excused = lambda name, check: server == "fixture" and (OLDER.search(name) or check in OLDER_CHECKS)  # noqa: E731
    found, said = judge_server(f"http://127.0.0.1:{mcp_hand.address[1]}/mcp", version, tmp_path, excused)
    assert len(found) >= least, said
    assert not {name: checks for name, checks in found.items() if checks}, said

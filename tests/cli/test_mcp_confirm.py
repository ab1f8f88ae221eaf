"""Actions that a client's user has to confirm: elicitation, or a tool that says what to do; and that all are noted."""

import json
import subprocess

import pytest

from mcp_clients import HELLO, Stdio

ALWAYS = ("--set", "security.confirmation=always")


class Asked(Stdio):
    """A client that can be asked, and answers as `say` says."""

    def __init__(self, process, say, capabilities):
        super().__init__(process)
        self.say, self.questions = say, []
        hello = {**HELLO, "capabilities": capabilities}
        self.ask({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello})
        self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, message):
        self.tell(message)
        while True:
            heard = json.loads(self.process.stdout.readline())
            if heard.get("method") == "elicitation/create":
                self.questions.append(heard["params"])
                self.tell({"jsonrpc": "2.0", "id": heard["id"], "result": self.say})
            elif heard.get("id") == message["id"]:
                return heard


@pytest.fixture
def asked(tendon):
    made = []

    def make(say, capabilities={"elicitation": {}}):
        made.append(Asked(tendon.start(*ALWAYS, "mcp", stdin=subprocess.PIPE), say, capabilities))
        return made[-1]

    yield make
    for client in made:
        client.leave()


YES = {"action": "accept", "content": {"confirm": True}}


def test_the_user_says_yes(asked):
    client = asked(YES)
    assert "hi" in client.text("shell", command="echo hi")
    (question,) = client.questions
    assert "echo hi" in question["message"] and "no analyzer" in question["message"]
    assert question["requestedSchema"]["required"] == ["confirm"]
    client.text("write_file", path="/tmp/mcp-note", content="one\ntwo\n")
    assert "+one\n+two" in client.questions[1]["message"]
    assert client.text("read_file", path="/tmp/mcp-note") == "one\ntwo\n"


@pytest.mark.parametrize("say", [
    {"action": "decline"}, {"action": "cancel"}, {"action": "accept", "content": {"confirm": False}}, {}, {"action": "accept"},
])  # fmt: skip
def test_anything_else_is_a_no(asked, say):
    client = asked(say)
    result = client.tool("shell", command="touch /tmp/never")
    assert result["isError"] and "rejected by the user" in result["content"][0]["text"]
    refused = client.tool("write_file", path="/tmp/never", content="x")
    assert refused["isError"] and "rejected by the user" in refused["content"][0]["text"]
    for one in result, refused:
        assert one["_meta"]["tendon/verdict"]["decision"] == "ask" and one["_meta"]["tendon/verdict"]["findings"]
    client.say = YES
    assert "No such file" in client.tool("shell", command="ls /tmp/never")["content"][0]["text"]


def test_a_client_that_cannot_be_asked(asked, tendon):
    client = asked(YES, capabilities={})
    result = client.tool("shell", command="echo later")
    assert result["isError"] and "waits for its confirmation" in result["content"][0]["text"]
    (one,) = json.loads(tendon.ok("--json", "confirm"))
    assert one["action"]["args"]["command"] == "echo later"
    assert "later" in tendon.ok("confirm", one["sandbox"], str(one["id"]), "--yes")
    assert not client.questions


def test_files_are_actions(tendon):
    client = Stdio(tendon.start("mcp", stdin=subprocess.PIPE))
    client.hello()
    client.text("write_file", path="noted.txt", content="hello\n")
    client.text("read_file", path="noted.txt")
    client.text("list_files", path="/etc")
    assert client.tool("read_file", path="/nowhere")["isError"]
    (box,) = json.loads(tendon.ok("ls", "--json"))
    events = [json.loads(line) for line in tendon.ok("--json", "events", box["id"]).splitlines()]
    names = [event.get("action") or event.get("observation") for event in events]
    assert names == ["write", "write", "read", "read", "read", "read", "read", "error"]
    assert events[0]["args"]["content"] == "hello\n" and events[3]["content"] == "hello\n"
    assert events[0]["args"]["path"].endswith("/noted.txt") and events[0]["args"]["path"].startswith("/")
    client.leave()

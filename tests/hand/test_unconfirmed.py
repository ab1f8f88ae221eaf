"""An action that its user rejected, or has not confirmed yet, is answered and never carried out."""

import json

import pytest

REJECTED = "Action has been rejected by the user! Waiting for further user input."
KINDS = [
    ("run", {"command": "touch done"}),
    ("run", {"command": "touch done", "hidden": True}),
    ("run", {"command": "touch done", "is_static": True}),
    ("run_ipython", {"code": "open('done', 'w')"}),
    ("write", {"path": "done", "content": "x"}),
    ("edit", {"path": "done", "command": "create", "file_text": "x"}),
    ("read", {"path": "there"}),
    ("browse", {"url": "data:text/html,x"}),
    ("browse_interactive", {"browser_actions": "goto('data:text/html,x')"}),
    ("call_tool_mcp", {"name": "x", "arguments": {}}),
    ("example.reverse", {"text": "x"}),
]


@pytest.mark.parametrize("kind, args", KINDS)
@pytest.mark.parametrize("word", ["confirmation_state", "is_confirmed"])
def test_is_not_carried_out(hand, kind, args, word):
    (hand.workspace / "there").write_text("x")
    for state, expected in [("rejected", ("user_rejected", REJECTED)), ("awaiting_confirmation", ("null", ""))]:
        action = {"action": kind, "args": {**args, word: state}, "timeout": 20}
        seen = hand.client.request("POST", "/execute_action", json.dumps({"action": action}).encode(), JSON)
        assert seen.status == 200, seen.body
        assert (seen.json["observation"], seen.json["content"]) == expected
    assert [path.name for path in hand.workspace.iterdir()] == ["there"]


JSON = {"Content-Type": "application/json"}


def test_its_key_is_free_for_when_it_is_confirmed(hand):
    def send(state):
        action = {"action": "run", "args": {"command": "echo x >> log; wc -l < log", "confirmation_state": state}}
        headers = {**JSON, "Idempotency-Key": "one"}
        return hand.client.request("POST", "/execute_action", json.dumps({"action": action}).encode(), headers)

    assert send("awaiting_confirmation").json["observation"] == "null"
    assert [send("confirmed").json["content"] for _ in range(2)] == ["1", "1"]

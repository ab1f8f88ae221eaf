"""Actions that an analyzer objects to, through every face: judged before they are carried out, whatever their type."""

import json

import pytest

from faces import FACES, World

CONFIG = """
[security]
analyzers = ["llm"]
confirmation = "never"
unknown = "allow"
"""

# What each would leave behind, and how it asks for it.
ACTIONS = {
    "run": {"command": "touch /tmp/traces-run"},
    "run_ipython": {"code": "open('/tmp/traces-ipython', 'w')"},
    "read": {"path": "/etc/hostname"},
    "write": {"path": "/tmp/traces-write", "content": "x"},
    "edit": {"path": "/tmp/traces-edit", "command": "create", "file_text": "x"},
    "browse": {"url": "http://127.0.0.1:1/"},
    "browse_interactive": {"browser_actions": "noop()"},
    "call_tool_mcp": {"name": "add", "arguments": {"a": 1, "b": 2}},
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("judged"), CONFIG)
    yield world
    world.finish()


@pytest.fixture(scope="module", params=FACES)
def face(judged, request):
    return judged.face(request.param)


def rated(name, risk):
    return {"action": name, "args": {**ACTIONS[name], "security_risk": risk}, "timeout": 60}


def sweep(face):
    face.execute({"action": "run", "args": {"command": "rm -f /tmp/traces-*", "security_risk": 0}, "timeout": 60})


def told(observation):
    """(decision, risk, analyzer, part) of the verdict in an observation: beside its extras, where OpenHands ignores what
    it does not know, and in the metadata of a command."""
    extras = observation["extras"]
    assert "verdict" not in extras and extras.get("metadata", {}).get("verdict", observation["verdict"]) == observation["verdict"]
    verdict = observation["verdict"]
    finding, *behind = verdict["findings"]  # a service behind finds the same, and is named
    assert behind in ([], [{**finding, "analyzer": f"behind: {finding['analyzer']}"}]), behind
    return verdict["decision"], verdict["risk"], finding["analyzer"], finding["part"]


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("risk", [1, 2], ids=["medium, nobody to ask", "high"])
def test_a_denied_action_is_carried_out_nowhere(face, name, risk):
    before = len(face.journal())
    observation = face.execute(rated(name, risk))
    assert observation["observation"] == "error"
    assert "llm" in observation["content"] and "args.security_risk" in observation["content"]
    events = face.journal()[before:]
    verdicts = [event["verdict"] for event in events if event.get("action") == name]
    assert [verdict["decision"] for verdict in verdicts] == ["block"], json.dumps(events)
    assert verdicts[0]["findings"][0]["analyzer"] == "llm"
    assert observation["verdict"] == verdicts[0] == events[-1]["verdict"]
    assert told(observation) == ("block", ["low", "medium", "high"][risk], "llm", "args.security_risk")
    traces = face.execute({"action": "run", "args": {"command": "ls /tmp", "security_risk": 0}, "timeout": 60})
    assert traces["observation"] == "run" and "traces" not in traces["content"]


@pytest.mark.parametrize("name", ACTIONS)
def test_what_was_found_in_an_allowed_action_is_told(face, name):
    before = len(face.journal())
    observation = face.execute({"action": name, "args": ACTIONS[name], "timeout": 60})
    assert told(observation) == ("allow", "unknown", "llm", "args.security_risk")
    events = face.journal()[before:]
    sweep(face)
    assert [told(event) for event in events if "observation" in event] == [told(observation)]


@pytest.mark.parametrize("name", ACTIONS)
def test_where_nothing_was_found_nothing_is_told(face, name):
    observation = face.execute(rated(name, 0))
    sweep(face)
    assert "verdict" not in observation and "verdict" not in observation["extras"].get("metadata", {})


def test_a_process_is_judged_like_any_command(face):
    args = {"command": "touch /tmp/traces-process", "process": {"args": ["touch", "/tmp/traces-process"]}}
    observation = face.execute({"action": "run", "args": {**args, "security_risk": 2}, "timeout": 60})
    assert observation["observation"] == "error" and "llm" in observation["content"]
    traces = face.execute({"action": "run", "args": {"command": "ls /tmp", "security_risk": 0}, "timeout": 60})
    assert traces["observation"] == "run" and "traces" not in traces["content"]


def test_what_is_of_low_risk_is_carried_out(face):
    observation = face.execute({"action": "run", "args": {"command": "echo allowed", "security_risk": 0}, "timeout": 60})
    assert observation["observation"] == "run" and "allowed" in observation["content"]

"""Every type of action, through every face: the same observation, and the same two lines in the journal."""

import re

import pytest

from faces import FACES, Refused
from trees import ROOT

RUN = {"command": "echo hello; (exit 3)"}

# {name: action}; each type of docs/actions.md is there.
ACTIONS = {
    "run": {"action": "run", "args": {"command": "echo hello"}},
    "run that fails": {"action": "run", "args": RUN, "timeout": 20},
    "run that goes on": {"action": "run", "args": {"command": "echo begun; sleep 1000"}, "timeout": 1},
    "ctrl-c": {"action": "run", "args": {"command": "C-c", "is_input": True}, "timeout": 20},
    "run, hidden": {"action": "run", "args": {"command": "echo secret", "hidden": True}, "timeout": 20},
    "run, rejected": {"action": "run", "args": {"command": "echo no", "confirmation_state": "rejected"}},
    "run, waiting": {"action": "run", "args": {"command": "echo no", "confirmation_state": "awaiting_confirmation"}},
    "run, a process": {"action": "run", "args": {"command": "true", "process": {"args": ["true"]}}, "timeout": 20},
    "run, no program": {"action": "run", "args": {"command": "/none", "process": {"args": ["/none"]}}, "timeout": 20},
    "run, another process": {"action": "run", "args": {"command": "ls", "process": {"args": ["rm"]}}, "timeout": 20},
    "run_ipython": {"action": "run_ipython", "args": {"code": "print(6 * 7)"}, "timeout": 60},
    "write": {"action": "write", "args": {"path": "parity.txt", "content": "one\ntwo\n"}, "timeout": 20},
    "read": {"action": "read", "args": {"path": "parity.txt"}, "timeout": 20},
    "read, not there": {"action": "read", "args": {"path": "none.txt"}, "timeout": 20},
    "edit": {
        "action": "edit",
        "args": {"path": "/tmp/parity.txt", "command": "create", "file_text": "a\n"},
        "timeout": 20,
    },
    "edit by a model": {"action": "edit", "args": {"path": "/tmp/x", "content": "a", "impl_source": "llm_based_edit"}},
    "browse": {"action": "browse", "args": {"url": "http://127.0.0.1:1/"}, "timeout": 20},
    "browse_interactive": {"action": "browse_interactive", "args": {"browser_actions": "noop()"}, "timeout": 20},
    "call_tool_mcp": {"action": "call_tool_mcp", "args": {"name": "add", "arguments": {"a": 40, "b": 2}}, "timeout": 60},
    "call_tool_mcp, no such tool": {"action": "call_tool_mcp", "args": {"name": "none", "arguments": {}}, "timeout": 60},
    "null": {"action": "null", "args": {}},
    "message": {"action": "message", "args": {"content": "hello"}},
    "system": {"action": "system", "args": {"content": "you are"}},
    "think": {"action": "think", "args": {"thought": "therefore"}},
    "finish": {"action": "finish", "args": {}},
    "reject": {"action": "reject", "args": {}},
    "delegate": {"action": "delegate", "args": {"agent": "other", "inputs": {}}},
    "recall": {"action": "recall", "args": {"query": "what", "recall_type": "workspace_context"}},
    "change_agent_state": {"action": "change_agent_state", "args": {"agent_state": "running"}},
    "condensation": {"action": "condensation", "args": {"forgotten_event_ids": [1]}},
    "condensation_request": {"action": "condensation_request", "args": {}},
    "loop_recovery": {"action": "loop_recovery", "args": {"option": 1}},
    "task_tracking": {"action": "task_tracking", "args": {"command": "view", "task_list": []}},
    "no plugin": {"action": "nobody.does", "args": {}, "timeout": 20},
}

# Where a face is to differ, and why.
EXCEPT = {
    ("session", "task_tracking"): "a session keeps the task list in its own directory",
    ("session", "no plugin"): "a session has an observation for everything, also for a refusal",
}

VOLATILE = {"id", "timestamp", "source", "cause", "idempotency_key", "start", "digest"}
STEADY = {"exit_code", "end", "suffix", "output_bytes"}  # of the metadata of a command


def plain(event):
    """Without what differs from one sandbox or one moment to the next."""
    event = {key: value for key, value in event.items() if key not in VOLATILE}
    extras = dict(event.get("extras") or {})
    if isinstance(extras.get("metadata"), dict):
        extras["metadata"] = {key: extras["metadata"].get(key) for key in STEADY}
    if "content" in event:
        event["content"] = re.sub(r"\[Jupyter (current working directory|Python interpreter): [^\]]*\]", "", event["content"])
    return {**event, "extras": extras} if "extras" in event else event


def done(face, name):
    """(observation or why there is none, lines of the journal) of an action; done once for all tests."""
    known = face.__dict__.setdefault("done", {})
    if name not in known:
        try:
            answer = plain(face.execute(ACTIONS[name]))
        except Refused:
            answer = "refused"
        events = face.journal()
        known[name] = answer, [plain(event) for event in events[face.seen :]]
        face.seen = len(events)
    return known[name]


def test_every_type_has_a_row():
    text = (ROOT / "docs/actions.md").read_text()
    types = set(re.findall(r"^### `(\w+)`$", text[: text.index("## Observations")], re.M))
    assert types - {row["action"] for row in ACTIONS.values()} == set()


@pytest.mark.parametrize("name", ACTIONS)
def test_the_same_everywhere(world, face, name):
    first = world.face(FACES[0])
    if (face.name, name) in EXCEPT:
        pytest.skip(f"by design: {EXCEPT[face.name, name]}")
    answer, lines = done(face, name)
    expected, expected_lines = done(first, name)
    assert answer == expected
    if face.name != "session":  # whose answers of the host are in its own journal
        assert lines == expected_lines

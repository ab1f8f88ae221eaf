"""What becomes of actions: executed, answered by the host, left waiting, rejected; and the event stream."""

import json
import signal
import time

import pytest

TASKS = [
    {"id": "1", "title": "Read", "status": "done", "notes": "all of it"},
    {"id": "2", "title": "Think", "status": "in_progress", "notes": ""},
    {"id": "3", "title": "Write", "status": "todo"},
    {"id": "4", "title": "Rest", "status": "later", "notes": "soon"},
]


def test_dispatch(open_session, tmp_path):
    session = open_session(directory=str(tmp_path / "conversation"))
    thought = session.act("think", thought="hm")
    assert (thought["observation"], thought["content"]) == ("think", "Your thought has been logged.")
    assert session.act("message", content="hello")["observation"] == "null"
    waiting = session.act("run", command="touch pwned", confirmation_state="awaiting_confirmation")
    assert waiting["observation"] == "null"
    rejected = session.act("run", command="touch pwned", confirmation_state="rejected")
    assert rejected["observation"] == "user_rejected"
    assert rejected["content"] == "Action has been rejected by the user! Waiting for further user input."
    assert not (session.workspace / "pwned").exists()
    assert session.act("run", command="echo yes", confirmation_state="confirmed")["content"] == "yes"


@pytest.mark.parametrize(
    "action, args",
    [
        ("edit", {"path": "f", "command": "create", "file_text": "x"}),
        ("write", {"path": "f", "content": "x"}),
        ("read", {"path": "f"}),
        ("browse_interactive", {"browser_actions": "goto('x')"}),
        ("run_ipython", {"code": "1"}),
    ],
)
def test_every_kind_waits_for_its_confirmation(open_session, action, args):
    session = open_session()
    seen = session.act(action, confirmation_state="awaiting_confirmation", **args)
    assert seen["observation"] == "null"
    seen = session.act(action, confirmation_state="rejected", **args)
    assert seen["observation"] == "user_rejected"
    assert list(session.workspace.iterdir()) == []


def test_timeouts(open_session):
    session = open_session(env={"SANDBOX_TIMEOUT": "1"})
    seen = session.act("run", timeout=None, command="sleep 60")
    assert "timed out after 1" in seen["extras"]["metadata"]["suffix"]
    session.act("run", command="C-c", is_input=True)
    seen = session.act("run", timeout=None, command="echo x", blocking=True)
    assert seen["observation"] == "error" and seen["extras"]["error_id"] == "AGENT_ERROR$BAD_ACTION"
    assert seen["content"] == "Action run that blocks needs a timeout."


def test_a_busy_shell_is_not_interrupted(open_session):
    session = open_session()
    session.act("run", timeout=1, command="cat")
    with pytest.raises(Exception) as failure:
        session("env", env={"A": "s3cret"})
    assert failure.value.code == "conflict" and "s3cret" not in session.printed
    seen = session.act("run", command="still there", is_input=True, timeout=1)
    assert "still there" in seen["content"]
    session.act("run", command="C-c", is_input=True)


def test_hidden_and_cause(open_session):
    session = open_session()
    event = {
        "id": 17, "action": "run", "args": {"command": "echo x", "hidden": True}, "timeout": 20,
        "tool_call_metadata": {"tool_call_id": "c"},
    }
    seen = session("action", action=event)
    assert seen["cause"] == 17 and seen["extras"]["hidden"] is True
    assert seen["tool_call_metadata"] == {"tool_call_id": "c"}


def test_what_the_runtime_cannot(open_session):
    session = open_session()
    seen = session.act("edit", path="/x", content="y", impl_source="llm_based_edit")
    assert seen["content"] == "Action edit is not supported in the current runtime."
    assert seen["extras"]["error_id"] == "AGENT_ERROR$BAD_ACTION"


def test_tasks(open_session, tmp_path):
    directory = tmp_path / "conversation"
    session = open_session(directory=str(directory))
    seen = session.act("task_tracking", command="view")
    assert seen["observation"] == "task_tracking" and seen["content"].startswith("No task list found.")
    seen = session.act("task_tracking", command="plan", task_list=TASKS)
    path = directory / "TASKS.md"
    assert seen["content"] == f"Task list has been updated with 4 items. Stored in session directory: {path}"
    assert seen["extras"]["task_list"] == TASKS
    text = "# Task List\n\n1. ✅ Read\nall of it\n2. 🔄 Think\n\n3. ⏳ Write\n\n4. ⏳ Rest\nsoon\n"
    assert path.read_text() == text
    assert session.act("task_tracking", command="view")["content"] == text
    assert session.act("task_tracking", command="burn")["content"] == "Unknown command: burn"
    path.unlink()
    path.mkdir()
    assert session.act("task_tracking", command="plan", task_list=[])["observation"] == "error"


def test_no_directory_no_tasks(open_session):
    session = open_session()
    assert session.act("task_tracking", command="view")["observation"] == "error"


def test_a_dead_sandbox_still_gives_an_observation(open_session):
    session = open_session()
    session.hand.send_signal(signal.SIGKILL)
    session.hand.wait()
    seen = session.act("run", timeout=1, command="echo x")
    assert seen["observation"] == "error"
    assert seen["content"].startswith("AgentRuntime")
    assert session.statuses[-1] in ("STATUS$ERROR_RUNTIME_DISCONNECTED", "STATUS$ERROR")


# --- the stream ----------------------------------------------------------------------------------


def events(directory, count, seconds=30):
    """The first events of the journal, when they are there."""
    deadline = time.monotonic() + seconds
    while True:
        found = sorted((directory / "events").glob("*.json"), key=lambda p: int(p.stem))
        try:
            if len(found) >= count:
                return [json.loads(p.read_text()) for p in found]
        except ValueError:
            pass
        assert time.monotonic() < deadline, [p.name for p in found]
        time.sleep(0.02)


def run_event(command, **more):
    return {"action": "run", "args": {"command": command, **more}}


def test_subscription(open_session, tmp_path):
    directory = tmp_path / "conversation"
    session = open_session(directory=str(directory))
    session("subscribe")
    first = session("add", action=run_event("echo one"))
    session("add", action={"action": "message", "args": {"content": "nobody answers"}})
    session("add", action=run_event("false", confirmation_state="awaiting_confirmation"))
    last = session("add", action=run_event("echo two; exit 3", is_static=True))
    session.stop()
    seen = events(directory, 6)
    answers = {e["cause"]: e for e in seen if "observation" in e}
    assert set(answers) == {first, last}
    assert answers[first]["content"] == "one" and answers[first]["source"] == "agent"
    assert answers[last]["extras"]["metadata"]["exit_code"] == 3


def test_the_script_runs_once(open_session, tmp_path):
    directory = tmp_path / "conversation"
    session = open_session(directory=str(directory))
    (session.workspace / ".openhands").mkdir()
    (session.workspace / ".openhands/setup.sh").write_text('echo x >> "$HOME/ran"\n')
    session("subscribe")
    session("script")
    session("add", action=run_event("true"))
    assert (session.home / "ran").read_text() == "x\n"
    session.stop()
    seen = events(directory, 3)
    assert seen[0]["source"] == "environment" and "setup.sh" in seen[0]["args"]["command"]


def test_a_token_is_refreshed_for_an_action_without_a_stream(open_session):
    session = open_session(refresh=True, tokens=[{"provider": "github", "token": "old-t0ken"}])
    session("setup")
    assert session.run("echo one") == "one"
    waiting = session.act("run", command='echo "[$GITHUB_TOKEN]"', confirmation_state="awaiting_confirmation")
    assert waiting["observation"] == "null"
    assert session.run('echo "[$GITHUB_TOKEN]"') == "[fresh-github-default-1]"


def test_tokens_are_refreshed_before_use_and_masked(open_session, tmp_path):
    directory = tmp_path / "conversation"
    session = open_session(
        directory=str(directory), refresh=True, tokens=[{"provider": "github", "token": "old-t0ken"}]
    )
    session("setup")
    session("subscribe")
    session("add", action=run_event('echo "[$GITHUB_TOKEN]"; echo old-t0ken > "$HOME/typed"'))
    session("add", action=run_event("echo nothing"))
    session.stop()
    text = "".join(p.read_text() for p in (directory / "events").glob("*.json"))
    assert "t0ken" not in text and "fresh-github" not in text and "<secret_hidden>" in text
    assert "fresh-github-default-1" in (session.home / ".config/tendon/env/GITHUB_TOKEN").read_text()
    everything = b"".join(p.read_bytes() for p in session.home.rglob("*") if p.is_file())
    assert b"fresh-github-default-2" not in everything

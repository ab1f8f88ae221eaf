"""Actions that wait for their confirmation, at the command line: asked at a terminal, answered from anywhere, never lost."""

import json
import time

import pytest

from tendons import eventually

ALWAYS = ("--set", "security.confirmation=always")


@pytest.fixture
def box(tendon):
    tendon.ok("new", "--name", "web")
    return "web"


def waiting(tendon, count=1):
    def look():
        found = json.loads(tendon.ok("--json", "confirm"))
        return found if len(found) == count else None

    return eventually(look, f"{count} actions that wait")


def test_nothing_waits(tendon, box):
    assert json.loads(tendon.ok("--json", "confirm")) == []
    assert "no action waits" in tendon("confirm").stderr
    missing = tendon("confirm", box, "7", "--yes")
    assert missing.returncode == 66 and "7" in missing.stderr
    both = tendon("confirm", box, "7", "--yes", "--no")
    assert both.returncode == 2


@pytest.mark.parametrize("answer, status", [("y", 0), ("yes", 0), ("n", 77), ("", 77), ("Y ES", 77)])
def test_a_person_is_asked(tendon, box, screen, answer, status):
    t = screen(tendon, *ALWAYS, "exec", box, "--", "echo made-$((40 + 2))")
    t.wait_for("waits for a confirmation")
    t.wait_for("echo made-")
    t.wait_for("no analyzer")
    t.wait_for("Carry it out\\?")
    t.type(answer + "\r")
    assert t.wait() == status
    assert ("made-42" in t.text) == (status == 0)
    assert json.loads(tendon.ok("--json", "confirm")) == []


@pytest.mark.parametrize("start", ["", "sleep 3\n"])
def test_who_asked_is_killed(tendon, box, start):
    """It is carried out, also where its shell takes longer to start than whoever asked would have waited at first."""
    (tendon.home / ".bashrc").write_text(start)
    process = tendon.start(*ALWAYS, "exec", box, "--", "echo once >> /tmp/confirm-$$ && echo done")
    (one,) = waiting(tendon)
    assert one["verdict"]["decision"] == "ask" and one["action"]["action"] == "run"
    process.kill()
    process.wait(60)
    assert waiting(tendon) == [one]
    shown = tendon("confirm")
    assert "waits for a confirmation" in shown.stderr and "echo once" in shown.stderr
    assert tendon.ok("confirm", box, str(one["id"]), "--yes").strip() == "done"
    twice = tendon("confirm", box, str(one["id"]), "--no")
    assert twice.returncode == 73 and "answered already" in twice.stderr


def test_another_process_answers(tendon, box):
    process = tendon.start(*ALWAYS, "exec", box, "--", "echo hello")
    (one,) = waiting(tendon)
    tendon.ok("confirm", box, "--yes")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and out == "hello\n"
    process = tendon.start(*ALWAYS, "exec", box, "--", "echo hello")
    (other,) = waiting(tendon)
    assert other["id"] > one["id"]
    tendon.ok("confirm", box, "--no", "--reason", "not today")
    out, problem = process.communicate(timeout=60)
    assert process.returncode == 77 and out == "" and "not today" in problem
    events = [json.loads(line) for line in tendon.ok("--json", "events", box).splitlines()]
    assert events[-1]["observation"] == "user_rejected" and events[-2]["cause"] == other["id"]


def test_a_shell_that_is_slow_to_start_asks_once(tendon, box):
    """The command is sent again until the shell takes it; whoever has confirmed it is not asked again."""
    (tendon.home / ".bashrc").write_text("sleep 3\n")
    process = tendon.start(*ALWAYS, "exec", "--session", "slow", box, "--", "echo hello")
    waiting(tendon)
    tendon("confirm", box, "--yes")
    out, problem = process.communicate(timeout=60)
    assert process.returncode == 0 and out == "hello\n", problem
    events = [json.loads(line) for line in tendon.ok("--json", "events", box).splitlines()]
    asked = [event for event in events if event.get("args", {}).get("confirmation_state") == "awaiting_confirmation"]
    assert len(asked) == 1


def test_the_time_to_think_is_not_the_commands(tendon, box):
    """--timeout begins with the answer: an answer that comes later than it ends nothing, and then it counts."""
    slow = tendon.start(*ALWAYS, "exec", box, "--timeout", "4", "--", "sleep 1; echo done")
    endless = tendon.start(*ALWAYS, "run", "--timeout", "2", "--", "sleep 1000")
    both = waiting(tendon, 2)
    eventually(lambda: time.time() > max(one["asked"] for one in both) + 5, "a person who thinks for long")
    for one in both:
        tendon("confirm", one["sandbox"], str(one["id"]), "--yes")
    out, problem = slow.communicate(timeout=60)
    assert (slow.returncode, out) == (0, "done\n"), problem
    _, problem = endless.communicate(timeout=60)
    assert endless.returncode == 124 and "not done after 2 s" in problem, problem


def test_nobody_answers(tendon, box):
    result = tendon(*ALWAYS, "--set", "security.confirm_seconds=1", "exec", box, "--", "echo never")
    assert result.returncode == 77 and "Nobody confirmed" in result.stderr
    assert json.loads(tendon.ok("--json", "confirm")) == []


def test_never_means_refused(tendon, box):
    result = tendon("--set", "security.confirmation=never", "exec", box, "--", "echo x")
    assert result.returncode != 0 and "blocked" in result.stderr
    assert json.loads(tendon.ok("--json", "confirm")) == []

"""tendon exec: commands in a sandbox that is there."""

import contextlib
import json
import signal
import sqlite3
import time

import pytest

from tendons import eventually


@pytest.fixture
def web(any_tendon):
    any_tendon.ok("new", "--name", "web")
    return any_tendon


def test_output_and_status(web):
    result = web("exec", "web", "echo one; echo two >&2; exit 7")
    assert (result.stdout, result.stderr, result.returncode) == ("one\ntwo\n", "", 7)


def test_by_id_and_by_its_start(web):
    (box,) = web.json("ls")
    for which in (box["id"], box["id"][:5]):
        assert web.ok("exec", which, "echo here") == "here\n"


def test_each_has_a_shell_of_its_own(web):
    web.ok("exec", "web", "cd /; x=1")
    assert web.ok("exec", "web", 'echo "x=$x"') == "x=\n"


def test_a_session_keeps_its_state(web):
    web.ok("exec", "--session", "work", "web", "cd /; x=1")
    assert web.ok("exec", "-s", "work", "web", 'echo "$PWD $x"') == "/ 1\n"


def test_directory_and_variables(web):
    assert web.ok("exec", "-C", "/usr", "-e", "A=b c", "web", 'echo "$PWD $A"') == "/usr b c\n"
    result = web("exec", "-C", "/nowhere", "web", "echo not reached")
    assert result.returncode == 66 and "not reached" not in result.stdout


def test_standard_input(web):
    data = bytes(range(256)) * 1000
    result = web("exec", "-i", "web", "cat", stdin=data)
    assert (result.returncode, result.stderr, result.stdout) == (0, b"", data)
    assert web.ok("exec", "web", "ls -A /tmp | grep tendon-exec || true") == ""


def test_json(web):
    result = web("--json", "exec", "web", "echo out; (exit 3)")
    found = json.loads(result.stdout)
    assert (result.returncode, found["exit_code"], found["output"]) == (3, 3, "out\n")


def test_timeout(web):
    result = web("exec", "--timeout", "1", "web", "echo begun; sleep 1000")
    assert (result.returncode, result.stdout) == (124, "begun\n")
    assert "--timeout" in result.stderr
    eventually(lambda: "sleep 1000" not in web.ok("ps", "web"), "the command is killed")


def test_ctrl_c(web):
    process = web.start("exec", "web", "echo ready; sleep 1000")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert web.ok("exec", "web", "echo fine") == "fine\n"


def test_a_signal_kills_the_command(web):
    process = web.start("exec", "web", "echo ready; sleep 1000")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM
    eventually(lambda: "sleep 1000" not in web.ok("ps", "web"), "the command is killed")


def test_names_that_are_nearly_right(web):
    assert web.fails(66, "exec", "wbe", "true") == "no sandbox wbe: did you mean web?"
    assert web.fails(66, "exec", "quite-other", "true") == "no sandbox quite-other: tendon ls shows what there is"


def test_a_sandbox_whose_runtime_is_missing(web):
    """It is there, and its runtime is what is asked after; nobody meant another one."""
    with contextlib.closing(sqlite3.connect(web.state / "tendon.db", timeout=20)) as db:
        (runtime,) = db.execute("SELECT runtime FROM sandbox").fetchone()
        with db:
            db.execute("UPDATE sandbox SET runtime = 'gone'")
        complaint = web.fails(66, "exec", "web", "true")
        with db:
            db.execute("UPDATE sandbox SET runtime = ?", (runtime,))
    assert "gone" in complaint and "did you mean" not in complaint
    web.ok("exec", "web", "true")


def test_what_is_missing(tendon):
    assert "command" in tendon.fails(2, "exec", "web").lower()
    assert "sandbox" in tendon.fails(2, "exec").lower()


def test_a_stopped_sandbox_says_how_to_start_it(web):
    web.ok("stop", "web")
    assert "tendon resume web" in web.fails(73, "exec", "web", "true")


@pytest.mark.concurrent
def test_beside_each_other(web):
    processes = [web.start("exec", "web", f"sleep 0.3; echo {i}") for i in range(8)]
    for i, process in enumerate(processes):
        out, err = process.communicate(timeout=60)
        assert (out, err, process.returncode) == (f"{i}\n", "", 0)


def test_quick_commands_are_quick(web):
    """One that is done at once is not followed: a hundred of them do not take minutes."""
    start = time.monotonic()
    for _ in range(20):
        web.ok("exec", "web", "true")
    assert time.monotonic() - start < 60

"""tendon exec: commands in a sandbox that is there."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
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


@pytest.mark.parametrize("session", [[], ["--session", "work"]], ids=["own", "named"])
def test_no_input_is_the_end_of_file(web, session):
    assert web.ok("exec", *session, "web", "cat") == ""
    assert web("exec", *session, "web", "read x").returncode == 1
    assert web.ok("exec", *session, "web", "test ! -t 0 && cat - <<< 'its own'") == "its own\n"


@pytest.mark.parametrize("line", ["exec web cat", "run cat", "cp - web:nothing", "mcp"])
def test_a_closed_input_is_the_end_of_file(web, line):
    """What is opened later must not become it."""
    assert web.ok("--quiet", *line.split(), preexec_fn=lambda: os.close(0)) == ""


def test_a_closed_output_is_an_error(web):
    result = subprocess.run(["sh", "-c", f"{web.program} ls >&- 2>&1"], env=web.env, stdin=subprocess.DEVNULL, timeout=60)
    assert result.returncode != 0


def test_standard_input(web):
    data = bytes(range(256)) * 5000
    for options in ([], ["-i"], ["--session", "work"]):
        result = web("exec", *options, "web", "cat", stdin=data)
        assert (result.returncode, result.stderr, result.stdout) == (0, b"", data)
    result = web("exec", "-C", "/usr", "web", "pwd; cat; cat", stdin=b"once")
    assert (result.returncode, result.stdout) == (0, b"/usr\nonce")


def test_input_that_nobody_reads(web):
    assert web("exec", "web", "echo out", stdin=bytes(3_000_000)).stdout == b"out\n"
    result = web("exec", "web", "head -c 3", stdin=b"abc" * 1_000_000)
    assert (result.returncode, result.stdout) == (0, b"abc")


def test_input_that_does_not_end(web):
    """Who was started with an open pipe must not wait for its end."""
    process = web.start("exec", "web", "echo out", stdin=subprocess.PIPE)
    assert (process.stdout.read(), process.wait(30)) == ("out\n", 0)
    process.stdin.close()
    process.stderr.close()


def test_input_as_it_comes(web):
    process = web.start("exec", "web", "while read -r x; do echo got $x; done; echo end", stdin=subprocess.PIPE)
    for word in ("one", "two"):
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"got {word}\n"
    assert process.communicate(timeout=30) == ("end\n", "")


def test_a_terminal_is_not_read(web, screen):
    it = screen(web, "exec", "web", "test -t 0 && echo a terminal")
    assert it.wait() == 0 and "a terminal" in it.text
    it = screen(web, "exec", "-i", "web", "cat")
    it.type("typed here\n")
    it.wait_for("typed here\r\ntyped here")
    it.type("\x04")
    assert it.wait() == 0


def test_the_shell_goes_on_after_input_that_cannot_be_read(web):
    """What an action asks for is the shell's to open."""
    assert web("exec", "--session", "work", "web", "read x; echo $x", stdin="first\n").stdout == "first\n"
    assert web.ok("exec", "--session", "work", "web", "echo $x") == "first\n"


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

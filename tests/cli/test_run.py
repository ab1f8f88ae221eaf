"""tendon run: a command in a sandbox of its own, and nothing left of it."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from tendons import eventually, processes_with


@pytest.fixture
def gate(tmp_path):
    """A fifo that a command waits on; nothing is ever written to it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


# --- commands -----------------------------------------------------------------------------------


def test_output_and_exit_status_are_the_command_s(any_tendon):
    result = any_tendon("run", "echo one; echo two >&2; (exit 7)")
    assert (result.stdout, result.stderr, result.returncode) == ("one\ntwo\n", "", 7)
    assert any_tendon.leftovers() == []


def test_no_output_prints_nothing(any_tendon):
    assert any_tendon.ok("run", "--", "true") == ""


def test_a_command_that_ends_the_shell(tendon):
    result = tendon("run", "echo bye; exit 3")
    assert (result.stdout, result.stderr, result.returncode) == ("bye\n", "", 3)


def test_no_shell_to_run_it(tendon):
    result = tendon("run", "true", env={"TENDON_SHELL": "/no/such/shell"})
    assert (result.stdout, result.returncode) == ("", 69)
    assert "/no/such/shell" in result.stderr
    assert tendon.leftovers() == []


@pytest.mark.parametrize("runtime", ["local", "cli"])
def test_a_shell_that_is_slow_to_start_is_waited_for(make_tendon, runtime):
    tendon = make_tendon(runtime)
    (tendon.home / ".bashrc").write_text("sleep 1; export SLOW=yes\n")
    assert tendon.ok("run", "--quiet", "echo $SLOW") == "yes\n"
    name = tendon.ok("new", "--quiet").split()[0]
    assert tendon.ok("exec", name, "echo $SLOW") == "yes\n"
    assert tendon.ok("exec", "--session", "main", name, "echo $SLOW") == "yes\n"


def test_a_shell_that_starts_for_longer_than_the_command_may_take(tendon, gate):
    (tendon.home / ".bashrc").write_text(f"read x < {gate}\n")
    result = tendon("run", "--timeout", "0.7", "touch ran")
    assert (result.stdout, result.returncode) == ("", 124)
    assert "not ready after 0.7 s: nothing has been run" in result.stderr


def test_several_arguments_arrive_as_they_are(any_tendon):
    words = ["a b", "it's", "$HOME", "*", "", '"', "\\", "-x", "new\nline"]
    assert any_tendon.ok("run", "--", "printf", "<%s>", *words) == "".join(f"<{word}>" for word in words)


def test_options_after_the_command_belong_to_it(tendon):
    assert tendon.ok("run", "echo", "--timeout", "x") == "--timeout x\n"


def test_output_is_passed_on_byte_for_byte(tendon):
    result = subprocess.run(
        [tendon.program, "run", r"printf 'h\303\251 \342\202\254\r\n\377\001\r'; head -c 100000 /dev/zero"],
        env=tendon.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert result.stdout == b"h\xc3\xa9 \xe2\x82\xac\r\n\xff\x01\r" + bytes(100000)


def test_a_lot_of_output(tendon):
    assert tendon.ok("run", "seq 1 200000") == "".join(f"{i}\n" for i in range(1, 200001))


def test_output_comes_while_the_command_runs(tendon, gate):
    process = tendon.start("run", f"echo begun; cat {gate}; echo done")
    assert process.stdout.readline() == "begun\n"
    with open(gate, "w") as waiting:
        waiting.write("let go\n")
    assert process.communicate(timeout=60) == ("let go\ndone\n", "")
    assert process.returncode == 0


def test_a_fresh_workspace_is_empty_and_goes_away(tendon):
    (workspace,) = tendon.ok("run", "ls -A; touch x; mkdir -p d/e && chmod 000 d; pwd").splitlines()
    assert workspace.startswith(str(tendon.state))
    assert not os.path.exists(workspace)
    assert tendon.leftovers() == []


def test_a_given_workspace_is_left_alone(tendon, tmp_path):
    workspace = tmp_path / "mine"
    workspace.mkdir(mode=0o750)
    (workspace / "old").write_text("old\n")
    if os.geteuid() == 0:
        os.chown(workspace, 1234, 1234)
        os.chown(workspace / "old", 1234, 1234)

    def owners():
        found = [path.stat() for path in (workspace, workspace / "old")]
        return [(st.st_mode, st.st_uid, st.st_gid) for st in found]

    before = owners()
    assert tendon.ok("run", "--workspace", str(workspace), "cat old; pwd; echo new >new") == f"old\n{workspace}\n"
    assert (workspace / "new").read_text() == "new\n"
    assert owners() == before


def test_a_relative_workspace(tendon, tmp_path):
    assert tendon.ok("run", "--workspace", ".", "pwd", cwd=tmp_path) == f"{tmp_path}\n"
    assert "nowhere" in tendon.fails(66, "run", "--workspace", "nowhere", "true", cwd=tmp_path)


def test_a_command_that_is_not_done_in_time(tendon, gate):
    start = time.monotonic()
    result = tendon("run", "--timeout", "3", f"echo begun; cat {gate}")
    assert time.monotonic() - start < 20
    assert (result.returncode, result.stdout) == (124, "begun\n")
    assert "--timeout" in result.stderr
    assert tendon.leftovers() == []


def test_a_sandbox_whose_time_is_over_says_so(jailed):
    """Its hand lets go of the command a moment before it is dead; whoever asks then must not be told that it runs."""
    for _ in range(3):  # in two seconds it has started, however busy the machine is
        reason = jailed.fails(76, "run", "--wall-time", "2.5", "sleep 60")
        assert reason == "The sandbox has ended (error): killed: its time of 2.5 seconds was over"


def test_a_quiet_command_is_waited_for(tendon):
    """The soft timeout of the hand ends the wait of an agent, not ours."""
    assert tendon.ok("run", "sleep 1.5; echo done", env={"NO_CHANGE_TIMEOUT_SECONDS": "1"}) == "done\n"


def test_a_key_in_the_environment_does_not_matter(tendon):
    assert tendon.ok("run", "echo fine", env={"SESSION_API_KEY": "secret"}) == "fine\n"


def test_a_script_of_several_lines(tendon):
    result = tendon("run", "x=1\n# a comment\necho $x\n(exit 3)")
    assert (result.stdout, result.stderr, result.returncode) == ("1\n", "", 3)


def test_variables(any_tendon):
    out = any_tendon.ok("run", "-e", "A=it's $HOME", "--env", "B", 'echo "$A|$B"', env={"B": "from here"})
    assert out == "it's $HOME|from here\n"


def test_json(any_tendon):
    result = any_tendon("run", "--json", "echo out; (exit 5)")
    found = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (5, "")
    assert (found["exit_code"], found["output"]) == (5, "out\n")


def test_keep(tendon):
    result = tendon("run", "--keep", "--name", "stays", "echo x >file; echo done")
    assert (result.stdout, result.stderr, result.returncode) == ("done\n", "tendon: kept: stays\n", 0)
    assert tendon.ok("exec", "stays", "cat file") == "x\n"
    assert tendon.ok("rm", "stays") == "stays\n"
    assert tendon.leftovers() == []


def test_a_reader_that_goes_away(tendon):
    process = tendon.start("run", "while :; do echo x; done")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == -signal.SIGPIPE
    assert process.stderr.read() == ""
    assert tendon.leftovers() == []


@pytest.mark.concurrent
def test_runs_beside_each_other(any_tendon):
    processes = [any_tendon.start("run", f"echo {i}") for i in range(6)]
    for i, process in enumerate(processes):
        out, err = process.communicate(timeout=60)
        assert (out, err, process.returncode) == (f"{i}\n", "", 0)
    assert any_tendon.leftovers() == []


# --- the tour -----------------------------------------------------------------------------------


@pytest.mark.concurrent
def test_tour(any_tendon):
    out = any_tendon.ok("run")
    for text in (
        "isolated",
        "hello from sub",
        "File created successfully",
        "good morning, world",
        "part 1",
        "still running",
        "part 3",
        "exit 130",
        "hello again",
        " ms\n",
    ):
        assert text in out
    assert "\033" not in out
    assert any_tendon.leftovers() == []
    # Each ability is shown, or its absence explained.
    for title, seen in (("A cell of Python", "says 42"), ("A page in the browser", "END webpage content")):
        chapter = re.split(r"\n\n(?=\d\. |Your turn)", out.split(title)[1])[0]
        assert seen in chapter or ("not here: " in chapter and "to get it: " in chapter), chapter


def layers_of(text):
    found = re.search(r"^isolated by: (.*(?:\n    .*)*)", text, re.MULTILINE)
    return set(re.split(r",\s+", found[1])) if found else set()


def test_the_readme_shows_what_a_jail_is_isolated_by(jailed):
    """Another kernel, or another account, may have less."""
    readme = layers_of((pathlib.Path(__file__).parents[2] / "README.md").read_text())
    printed = layers_of(jailed.ok("run", *QUICK))
    assert printed and printed <= readme and "no_new_privs" not in readme, printed ^ readme


def test_tour_without_a_browser(tendon, tmp_path):
    """What is not installed is named, with the way to get it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in "bash sh mkdir sleep".split():
        (programs / name).symlink_to(shutil.which(name))
    out = tendon.ok("run", "--plugins", "", env={"PATH": str(programs)})
    assert "jupyter was not asked for" in out
    assert re.search(r"A page in the browser\n +not here: .*\n +to get it: apt-get install chromium", out)


def test_tour_without_ipython(jailed, tmp_path):
    """A Python that has no packages."""
    (tmp_path / "empty").mkdir()
    hidden = [f"--volume={tmp_path}/empty:{path}:ro" for path in ("/usr/lib/python3/dist-packages", "/usr/local/lib")]
    out = jailed.ok("run", *hidden, "--hand-arg=--no-enable-browser")
    assert re.search(r"A cell of Python.*\n +not here: .*ipykernel.*\n +to get it: apt-get install python3-ipykernel", out), out


QUICK = ("--plugins", "", "--hand-arg=--no-enable-browser")  # a tour through the shell alone


def test_no_tour_as_json(tendon):
    assert "COMMAND" in json.loads(tendon("--json", "run").stderr)["error"]["message"]


@pytest.mark.parametrize("no_color", ["", "1"])
def test_tour_is_coloured_on_a_terminal_only(tendon, screen, no_color):
    terminal = screen(tendon, "run", *QUICK, env={"NO_COLOR": no_color})
    assert terminal.wait(60) == 0
    assert b"was not asked for" in terminal.raw
    assert b"hello again" in terminal.raw
    assert (b"\033[1m" in terminal.raw) == (not no_color)


# --- the hand -----------------------------------------------------------------------------------


def test_no_hand_found(tendon, tmp_path):
    """A tendon that stands alone says where it looked."""
    alone = tmp_path / "bin" / "tendon"
    alone.parent.mkdir()
    shutil.copy2(tendon.program, alone)
    tendon.program = alone
    complaint = tendon.fails(66, "run", "true", env={"PATH": str(alone.parent)})
    assert "tendon-hand" in complaint
    assert str(alone.parent) in complaint
    assert tendon.leftovers() == []


@pytest.mark.parametrize("place", ["bin", "lib/tendon", "path"])
def test_hand_is_found(tendon, hand_program, tmp_path, place):
    alone = tmp_path / "bin" / "tendon"
    alone.parent.mkdir()
    shutil.copy2(tendon.program, alone)
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(hand_program, folder / "tendon-hand")
    tendon.program = alone
    path = f"{tmp_path}/nowhere::{tmp_path}/path:/usr/bin:/bin"
    assert tendon.ok("run", "echo found", env={"PATH": path}) == "found\n"


def test_a_given_hand_that_is_none(tendon, tmp_path):
    complaint = tendon.fails(66, "run", "--set", f"tendon.hand={tmp_path}/nothing", "true")
    assert f"{tmp_path}/nothing" in complaint


@pytest.mark.parametrize("body", ["echo cannot start >&2; exit 3", "kill -9 $$"])
def test_a_hand_that_dies_at_once(tendon, tmp_path, body):
    hand = tmp_path / "hand"
    hand.write_text(f"#!/bin/sh\n{body}\n")
    hand.chmod(0o755)
    start = time.monotonic()
    result = tendon("run", "--set", f"tendon.hand={hand}", "true")
    assert time.monotonic() - start < 30
    assert result.returncode not in (0, 1, 127)
    assert result.stdout == ""
    assert result.stderr.startswith("tendon: ")
    assert tendon.leftovers() == []


def test_a_hand_that_dies_under_the_command(tendon):
    result = tendon("run", "kill -9 $PPID")
    assert result.returncode == 76
    assert result.stdout == ""
    assert tendon.ok("run", "true") == ""  # its start finds what the dead one left
    assert tendon.leftovers() == []


# --- the end, whatever happens ------------------------------------------------------------------


def begin(tendon, gate, mark):
    """A run with a command that never ends by itself; returns when the command is running."""
    tendon.env["TEST_MARK"] = mark
    process = tendon.start("run", f"sleep 1000 & echo started >&2; cat {gate}")
    while "started" not in process.stdout.readline():
        assert process.poll() is None
    return process


def test_the_first_ctrl_c_is_for_the_command(any_tendon):
    # A shell that is just starting a program can lose the signal, on any terminal: this one starts none.
    process = any_tendon.start("run", "trap 'echo caught; exit 9' INT; echo ready; while :; do :; done")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "caught" in out
    assert (err, process.returncode) == ("", 9)
    assert any_tendon.leftovers() == []


def test_the_second_ctrl_c_ends_everything(tendon, gate, tmp_path):
    mark = f"{tmp_path}/mark"
    tendon.env["TEST_MARK"] = mark
    script = "trap 'echo caught' INT; echo ready; while :; do sleep 0.1; done"
    process = tendon.start("run", "sh", "-c", script)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    while "caught" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == -signal.SIGINT
    assert tendon.leftovers() == []
    eventually(lambda: not processes_with(mark), "no process is left")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(tendon, gate, tmp_path, number):
    mark = f"{tmp_path}/mark"
    process = begin(tendon, gate, mark)
    process.send_signal(number)
    assert process.wait(30) == -number
    assert tendon.leftovers() == []
    eventually(lambda: not processes_with(mark), "no process is left")


def test_a_signal_while_it_starts_leaves_nothing(tendon, tmp_path):
    """The hand that is started never becomes ready."""
    hand = tmp_path / "hand"
    mark = f"{tmp_path}/mark"
    hand.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 1000\n")
    hand.chmod(0o755)
    tendon.env["TEST_MARK"] = mark
    process = tendon.start("run", "--set", f"tendon.hand={hand}", "true")
    eventually((tmp_path / "begun").exists, "the hand is started")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM
    eventually(lambda: not processes_with(mark), "no process is left")
    eventually(lambda: tendon.leftovers() == [], "nothing is left on disk")


def test_kill_9_leaves_nothing_after_the_next_run(any_tendon, gate, tmp_path):
    mark = f"{tmp_path}/mark"
    any_tendon.env["TEST_MARK"] = mark
    process = any_tendon.start("run", "sleep 1000 & echo started; sleep 1000")
    while "started" not in process.stdout.readline():
        assert process.poll() is None
    process.kill()
    process.wait(20)
    eventually(lambda: not processes_with(mark), "the hand and its processes end with tendon")
    del any_tendon.env["TEST_MARK"]
    assert any_tendon.ok("run", "true") == ""
    assert any_tendon.leftovers() == []


def test_a_living_run_is_not_swept(tendon, gate, tmp_path):
    process = begin(tendon, gate, f"{tmp_path}/mark")
    mine = tendon.leftovers()
    assert len(mine) >= 1
    assert tendon.ok("run", "echo other") == "other\n"
    assert tendon.leftovers() == mine
    process.terminate()
    process.wait(20)
    assert tendon.leftovers() == []


def test_warning_of_no_isolation(tendon):
    tendon("run", "true")
    assert tendon.warned == (tendon.runtime == "local")
    tendon("--quiet", "run", "true")
    assert not tendon.warned


def test_the_tour_ends_with_what_can_be_typed(tendon):
    assert f"Your turn: {tendon.program} run 'COMMAND'" in tendon.ok("run", *QUICK)
    path = f"{tendon.program.parent}:{tendon.env.get('PATH', '/usr/bin:/bin')}"
    assert "Your turn: tendon run 'COMMAND'" in tendon.ok("run", *QUICK, env={"PATH": path})

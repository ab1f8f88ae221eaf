"""The tendon program: what it prints, how it exits, what it leaves behind."""

import os
import pathlib
import pty
import shutil
import signal
import subprocess
import time

import pytest


class Tendon:
    """Runs the program with a temporary directory of its own, so that leftovers can be counted."""

    def __init__(self, program, tmp):
        self.program = program
        self.tmp = tmp
        self.env = {**os.environ, "TMPDIR": str(tmp), "HOME": str(tmp.parent)}

    def __call__(self, *args, env=None, **kwargs):
        return subprocess.run(
            [self.program, *args],
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            **kwargs,
        )

    def start(self, *args, **kwargs):
        return subprocess.Popen(
            [self.program, *args],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **kwargs,
        )

    def leftovers(self, pattern="*"):
        return sorted(path.name for path in self.tmp.glob(pattern))


@pytest.fixture
def tendon(tendon_program, tmp_path):
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    yield Tendon(tendon_program, tmp)


@pytest.fixture
def gate(tmp_path):
    """A fifo that a command waits on; nothing is ever written to it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def eventually(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return value


def processes_with(mark):
    """The processes that have these bytes in their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


# --- help ---------------------------------------------------------------------------------------


def test_version(tendon):
    result = tendon("version")
    assert result.returncode == 0
    assert result.stdout.startswith("tendon 0.")
    assert tendon("--version").stdout == result.stdout


@pytest.mark.parametrize("args", [[], ["help"], ["--help"], ["-h"]])
def test_help_lists_every_verb(tendon, args):
    result = tendon(*args)
    assert result.returncode == 0
    for verb in ("run", "version", "help"):
        assert f"\n  {verb} " in result.stdout


@pytest.mark.parametrize("args", [["help", "run"], ["run", "--help"]])
def test_help_of_a_verb_names_its_options(tendon, args):
    result = tendon(*args)
    assert result.returncode == 0
    for option in ("--hand", "--workspace", "--timeout", "COMMAND"):
        assert option in result.stdout


def test_unknown_verb_names_the_nearest(tendon):
    result = tendon("rum")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "tendon: there is no verb 'rum': did you mean 'run'?\n"


def test_unknown_option_is_refused(tendon):
    result = tendon("run", "--wrokspace", "x")
    assert result.returncode == 2
    assert "--workspace" in result.stderr
    assert tendon.leftovers() == []


@pytest.mark.parametrize("value", ["0", "-1", "soon"])
def test_bad_timeout_is_refused(tendon, value):
    result = tendon("run", f"--timeout={value}", "true")
    assert result.returncode == 2
    assert "timeout" in result.stderr


# --- commands -----------------------------------------------------------------------------------


def test_output_and_exit_status_are_the_command_s(tendon):
    result = tendon("run", "echo one; echo two >&2; (exit 7)")
    assert (result.stdout, result.stderr, result.returncode) == ("one\ntwo\n", "", 7)
    assert tendon.leftovers() == []


def test_no_output_prints_nothing(tendon):
    result = tendon("run", "--", "true")
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_a_command_that_ends_the_shell(tendon):
    result = tendon("run", "echo bye; exit 3")
    assert result.stdout.splitlines()[0] == "bye"  # an interactive bash then says "exit" itself
    assert (result.stderr, result.returncode) == ("", 3)


def test_no_shell_to_run_it(tendon):
    result = tendon("run", "true", env={"TENDON_SHELL": "/no/such/shell"})
    assert (result.stdout, result.returncode) == ("", 69)
    assert "/no/such/shell" in result.stderr
    assert tendon.leftovers() == []


def test_several_arguments_arrive_as_they_are(tendon):
    words = ["a b", "it's", "$HOME", "*", "", '"', "\\", "-x", "new\nline"]
    result = tendon("run", "--", "printf", "<%s>", *words)
    assert result.stdout == "".join(f"<{word}>" for word in words) + "\n"


def test_options_after_the_command_belong_to_it(tendon):
    result = tendon("run", "echo", "--timeout", "x")
    assert (result.stdout, result.returncode) == ("--timeout x\n", 0)


def test_unicode_output(tendon):
    assert tendon("run", "printf 'h\\303\\251 \\342\\202\\254'").stdout == "hé €\n"


def test_a_fresh_workspace_is_empty_and_goes_away(tendon):
    result = tendon("run", "ls -A; touch x; mkdir -p d/e && chmod 000 d; pwd")
    (workspace,) = result.stdout.splitlines()
    assert workspace.startswith(str(tendon.tmp))
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
    result = tendon("run", "--workspace", str(workspace), "cat old; pwd; echo new >new")
    assert result.stdout == f"old\n{workspace}\n"
    assert (workspace / "new").read_text() == "new\n"
    assert owners() == before


def test_a_relative_workspace(tendon, tmp_path):
    assert tendon("run", "--workspace", ".", "pwd", cwd=tmp_path).stdout == f"{tmp_path}\n"


def test_a_missing_workspace_is_an_error(tendon, tmp_path):
    result = tendon("run", "--workspace", str(tmp_path / "nowhere"), "true")
    assert result.returncode == 66
    assert result.stderr == f"tendon: workspace {tmp_path}/nowhere: No such file or directory\n"
    assert tendon.leftovers() == []


def test_a_command_that_is_not_done_in_time(tendon, gate):
    start = time.monotonic()
    result = tendon("run", "--timeout", "3", f"echo begun; cat {gate}")
    assert time.monotonic() - start < 20
    assert result.returncode == 124
    assert result.stdout == "begun\n"
    assert "--timeout" in result.stderr
    assert tendon.leftovers() == []


def test_a_quiet_command_is_waited_for(tendon):
    """The soft timeout of the hand ends the wait of an agent, not ours."""
    result = tendon("run", "sleep 1.5; echo done", env={"NO_CHANGE_TIMEOUT_SECONDS": "1"})
    assert (result.stdout, result.returncode) == ("done\n", 0)


def test_a_key_in_the_environment_does_not_matter(tendon):
    assert tendon("run", "echo fine", env={"SESSION_API_KEY": "secret"}).stdout == "fine\n"


def test_a_script_of_several_lines(tendon):
    result = tendon("run", "x=1\n# a comment\necho $x\n(exit 3)")
    assert (result.stdout, result.stderr, result.returncode) == ("1\n", "", 3)


def test_a_reader_that_goes_away(tendon):
    process = tendon.start("run", "seq 1000")
    process.stdout.close()
    assert process.wait(30) == 74
    assert "standard output" in process.stderr.read()
    assert tendon.leftovers() == []


@pytest.mark.concurrent
def test_runs_beside_each_other(tendon):
    processes = [tendon.start("run", f"echo {i}") for i in range(6)]
    for i, process in enumerate(processes):
        out, err = process.communicate(timeout=60)
        assert (out, err, process.returncode) == (f"{i}\n", "", 0)
    assert tendon.leftovers() == []


# --- the tour -----------------------------------------------------------------------------------


@pytest.mark.concurrent
def test_tour(tendon):
    result = tendon("run")
    assert (result.returncode, result.stderr) == (0, "")
    for text in (
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
        assert text in result.stdout
    assert "\033" not in result.stdout
    assert tendon.leftovers() == []


@pytest.mark.parametrize("no_color", ["", "1"])
def test_tour_is_coloured_on_a_terminal_only(tendon, no_color):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [tendon.program, "run"],
        env={**tendon.env, "NO_COLOR": no_color},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    assert process.wait(30) == 0
    assert b"hello again" in text
    assert (b"\033[1m" in text) == (not no_color)


# --- the hand -----------------------------------------------------------------------------------


def test_no_hand_found(tendon, tmp_path):
    """A tendon that stands alone says where it looked."""
    alone = tmp_path / "bin" / "tendon"
    alone.parent.mkdir()
    shutil.copy2(tendon.program, alone)
    tendon.program = alone
    result = tendon("run", "true", env={"PATH": str(alone.parent)})
    assert result.returncode == 66
    assert "tendon-hand" in result.stderr
    assert "--hand" in result.stderr
    assert str(alone.parent) in result.stderr
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
    assert tendon("run", "echo found", env={"PATH": path}).stdout == "found\n"


def test_a_given_hand_that_is_none(tendon, tmp_path):
    result = tendon("run", "--hand", str(tmp_path / "nothing"), "true")
    assert result.returncode == 66
    assert f"{tmp_path}/nothing" in result.stderr


@pytest.mark.parametrize("body", ["echo cannot start >&2; exit 3", "kill -9 $$"])
def test_a_hand_that_dies_at_once(tendon, tmp_path, body):
    hand = tmp_path / "hand"
    hand.write_text(f"#!/bin/sh\n{body}\n")
    hand.chmod(0o755)
    start = time.monotonic()
    result = tendon("run", "--hand", str(hand), "true")
    assert time.monotonic() - start < 10
    assert result.returncode == 76
    assert "hand did not become ready" in result.stderr
    if "cannot start" in body:
        assert "cannot start" in result.stderr
    assert tendon.leftovers() == []


def test_a_hand_that_dies_under_the_command(tendon):
    result = tendon("run", "kill -9 $PPID")
    assert result.returncode == 76
    assert result.stdout == ""
    assert tendon.leftovers("tendon-run.*") == []
    assert tendon("run", "true").returncode == 0  # its hand finds what the dead one left
    assert tendon.leftovers() == []


# --- the end, whatever happens ------------------------------------------------------------------


def begin(tendon, gate, mark):
    """A run with a command that never ends by itself; returns when the command is running."""
    tendon.env["TEST_MARK"] = mark
    started = gate.parent / "started"
    process = tendon.start("run", f"sleep 1000 & touch {started}; cat {gate}")
    eventually(started.exists, "the command runs")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(tendon, gate, tmp_path, number):
    mark = f"{tmp_path}/mark"
    process = begin(tendon, gate, mark)
    process.send_signal(number)
    assert process.wait(20) == -number
    assert tendon.leftovers() == []
    eventually(lambda: not processes_with(mark), "no process is left")


def test_kill_9_leaves_nothing_after_the_next_run(tendon, gate, tmp_path):
    mark = f"{tmp_path}/mark"
    process = begin(tendon, gate, mark)
    process.kill()
    process.wait(20)
    eventually(lambda: not processes_with(mark), "the hand and its processes end with tendon")
    del tendon.env["TEST_MARK"]
    assert len(tendon.leftovers("tendon-run.*")) == 1
    assert tendon("run", "true").returncode == 0
    assert tendon.leftovers() == []


def test_the_directory_of_a_living_run_is_not_swept(tendon, gate, tmp_path):
    process = begin(tendon, gate, f"{tmp_path}/mark")
    mine = tendon.leftovers("tendon-run.*")
    assert len(mine) == 1
    assert tendon("run", "echo other").stdout == "other\n"
    assert tendon.leftovers("tendon-run.*") == mine
    process.terminate()
    process.wait(20)
    assert tendon.leftovers() == []


def test_only_its_own_leftovers_are_swept(tendon):
    """Other names, files and links are none of its business."""
    keep = tendon.tmp / "keep"
    keep.mkdir()
    (keep / "file").write_text("x")
    (tendon.tmp / "tendon-run.link").symlink_to(keep)
    (tendon.tmp / "tendon-run.file").write_text("x")
    stale = tendon.tmp / "tendon-run.stale"
    (stale / "workspace" / "deep").mkdir(parents=True)
    (stale / "workspace" / "link").symlink_to(keep)
    assert tendon("run", "true").returncode == 0
    assert tendon.leftovers() == ["keep", "tendon-run.file", "tendon-run.link"]
    assert (keep / "file").read_text() == "x"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts something")
def test_what_is_mounted_in_the_workspace_survives(tendon, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    result = tendon("run", f"mkdir m && mount --bind {precious} m && pwd")
    workspace = result.stdout.strip()
    try:
        assert (precious / "file").read_text() == "x"
        assert "cannot remove" in result.stderr
    finally:
        subprocess.run(["umount", f"{workspace}/m"], check=True)
    assert tendon("run", "true").returncode == 0
    assert tendon.leftovers() == []

"""What a run observation adds in its metadata, and several shells side by side."""

import os
import threading
import time

import pytest

from client import hard, soft
from harness import needs, still_works


# --- what the metadata adds ---------------------------------------------------------------------


def test_metadata_of_a_finished_command(shared):
    obs = shared.run("sleep 0.3; printf abcdef")
    meta = obs.meta
    assert 0.3 <= meta["duration"] < 10
    for key in ("user_time", "system_time"):
        assert isinstance(meta[key], (int, float)) and 0 <= meta[key] < 10
    assert isinstance(meta["peak_memory"], int) and meta["peak_memory"] > 0
    assert meta["output_bytes"] == 6
    assert meta.get("signal") is None
    assert isinstance(meta["end"], str) and meta["end"]


def test_metadata_user_time(shared):
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    assert shared.run(f"bash -c '{burn}'", blocking=True).meta["user_time"] > 0.05


@needs("python3")
def test_metadata_peak_memory(shared):
    small = shared.run("true").meta.get("peak_memory", 0)
    obs = shared.run(
        'python3 -c "import signal; x = bytearray(120 << 20); signal.sigtimedwait([], 0.4)"',
        blocking=True,
    )
    assert obs.exit == 0
    assert obs.meta["peak_memory"] > 100 << 20 > small, "bytes"


def test_metadata_why_the_wait_ended(shell):
    ends = {
        shell.run("true").meta["end"],
        shell.run("sleep 60").meta["end"],
        shell.poll(timeout=0.3).meta["end"],
    }
    assert len(ends) == 3, f"finished, soft and hard timeout must be told apart: {ends}"
    assert shell.interrupt().exit == 130


def test_metadata_signal(shared):
    assert shared.run("bash -c 'kill -9 $$'").meta["signal"] == "SIGKILL"
    assert shared.run("true").meta.get("signal") is None


def test_full_output_is_kept_on_disk(hand):
    obs = hand.client.run("seq 1 60000")
    path, size = obs.meta["output_path"], obs.meta["output_size"]
    with open(path, "rb") as f:
        data = f.read().replace(b"\r\n", b"\n")
    assert data.endswith(b"\n60000\n") or data.endswith(b"\n60000")
    assert data.startswith(b"1\n2\n3\n")
    assert data.count(b"\n") >= 59999
    assert os.path.getsize(path) >= size > 0
    assert obs.meta["output_bytes"] >= 338894
    assert hand.client.ok(f"tail -n 1 {path}") == "60000", "readable from the shell itself"


# --- several sessions ---------------------------------------------------------------------------


def test_sessions_are_independent(hand):
    client = hand.client
    assert client.ok("cd /usr; X=main; echo $$") != client.ok("echo $$", session="second")
    assert client.ok("echo [$X]; pwd", session="second") == f"[]\n{hand.workspace}"
    client.ok("X=second; cd /", session="second")
    assert client.ok("echo $X; pwd") == "main\n/usr"
    assert client.ok("echo $X; pwd", session="second") == "second\n/"


def test_sessions_run_in_parallel(hand):
    answers = {}

    def work(name):
        answers[name] = hand.client.run(f"sleep 1.2; echo {name}", session=name, blocking=True)

    began = time.monotonic()
    workers = [threading.Thread(target=work, args=(f"s{n}",)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert time.monotonic() - began < 4, "four sessions waited for one another"
    assert {name: a.content for name, a in answers.items()} == {f"s{n}": f"s{n}" for n in range(4)}


def test_busy_session_does_not_block_another(hand):
    assert hand.client.run("sleep 60", session="a").suffix == soft(1)
    assert hand.client.ok("echo free") == "free"
    assert hand.client.ok("echo free", session="b") == "free"
    assert hand.client.poll(session="a", timeout=0.3).suffix == hard(0.3)
    assert hand.client.interrupt(session="a").exit == 130


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 300, "a\nb", "ü"])
def test_odd_session_names(hand, name):
    reply = hand.client.post_action(
        {"action": "run", "args": {"command": "echo hi", "session": name}, "timeout": 5.0}
    )
    assert reply.status in (200, 400, 422, 500)
    assert "detail" in reply.json or "content" in reply.json
    still_works(hand.client)


# --- plain sh ------------------------------------------------------------------------------------


@pytest.fixture
def sh(start):
    return start(args=["--shell", "sh"]).client


def test_sh_basics(sh):
    assert sh.ok("echo hello; echo err >&2") == "hello\nerr"
    assert sh.run("(exit 7)").exit == 7
    assert sh.ok("cd /usr; X=1; export Y=2; pwd") == "/usr"
    obs = sh.run("echo $X$Y")
    assert (obs.content, obs.cwd) == ("12", "/usr")
    assert sh.ok("cat <<EOF\na\n  b\nEOF") == "a\n  b"
    assert sh.ok("for i in 1 2; do\n  echo $i\ndone") == "1\n2"
    assert sh.ok("echo 'quo\"te' \"it's\" '!'") == "quo\"te it's !"


def test_sh_waits_and_inputs(sh):
    obs = sh.run('read name; echo "hello $name"')
    assert (obs.exit, obs.suffix) == (-1, soft(1))
    assert sh.input("you").content == "hello you"
    sh.run("sleep 60", timeout=0.3)
    assert sh.interrupt().exit == 130
    assert sh.ok("echo after") == "after"


def test_sh_dies_and_returns(sh):
    sh.ok("cd /usr; export KEPT='a b'")
    assert sh.run("exit 5").exit == 5
    assert sh.ok("pwd; echo $KEPT") == "/usr\na b"


def test_sh_syntax_error_and_expansion_error(sh):
    assert sh.run("echo )").exit in (1, 2)
    assert sh.ok("echo one") == "one"
    assert sh.run("echo ${x?missing}").exit in (1, 2)
    assert sh.ok("echo two") == "two"


def test_missing_shell_is_a_clear_error(start):
    """The hand is still good for files; each action that needs the shell says what is missing."""
    client = start(args=["--shell", "/nonexistent/bash"]).client
    obs = client.run("echo x", timeout=5.0)
    assert obs.type in ("run", "error") and "/nonexistent/bash" in obs.content, obs
    assert client.list_files() == []
    reply = client.post("/v1/sessions", {"name": "other", "shell": "sh"})
    assert reply.status == 201
    assert client.ok("echo fine", session="other") == "fine"

"""The hand as PID 1 of a sandbox (reaps, passes signals on, ends in time) and as a loyal child."""

import os
import signal
import subprocess
import sys
import time

import pytest

from harness import census, find_binary, needs, needs_root, wait_until
from processes import stat_of

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.fixture
def pid1(start):
    probe = subprocess.run([*UNSHARE, "true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("no pid namespace here: " + probe.stderr.decode()[:200])
    hand = start(prefix=UNSHARE)
    assert hand.pid != hand.process.pid
    return hand


def children_of(parent):
    """{pid: state} of direct children, zombies included."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                state, its_parent = stat_of(entry)[:2]
                if int(its_parent) == parent:
                    found[int(entry)] = state
            except OSError:
                pass
    return found


def zombies(parent):
    return [pid for pid, state in children_of(parent).items() if state == "Z"]


@needs_root()
@needs("unshare")
def test_is_pid_1_and_works(pid1):
    assert pid1.client.ok("cat /proc/1/comm") == os.path.basename(find_binary())[:15]
    assert pid1.client.run("(exit 7)").exit == 7


@needs_root()
@needs("unshare")
def test_orphans_are_reaped(pid1):
    client = pid1.client
    obs = client.run(
        "for i in $(seq 1 100); do (sleep 0.05 &) ; done; (setsid sh -c 'sleep 0.05 & exec sleep "
        "0.02' &) ; echo ok",
        blocking=True,
    )
    assert obs.content == "ok"
    wait_until(lambda: len(children_of(pid1.pid)) <= 3, 5, "orphans ended")
    wait_until(lambda: not zombies(pid1.pid), 5, "zombies reaped")
    wait_until(lambda: client.ok("ps -eo stat= | grep -c Z || true") == "0", 5, "nor has the shell any for long")


@needs_root()
@needs("unshare")
def test_exit_status_is_not_stolen_by_the_reaper(pid1):
    for n in range(1, 40):
        assert pid1.client.run(f"(sleep 0.001 &) ; bash -c 'exit {n}'").exit == n
    assert pid1.client.run("kill -9 $$").exit == 137
    assert pid1.client.ok("echo back") == "back"


@needs_root()
@needs("unshare")
def test_term_is_passed_on_then_kill(pid1):
    client, ws = pid1.client, pid1.workspace
    client.ok("(trap 'echo polite > polite; exit' TERM; while :; do sleep 0.05; done) & disown")
    client.ok(
        'setsid bash -c \'trap "echo far > far; exit" TERM; touch up; while :; do sleep 0.05; '
        "done' "
        ">/dev/null 2>&1 & disown"
    )
    client.ok(
        "setsid bash -c 'trap \"\" TERM HUP INT; touch stubborn; while :; do sleep 0.05; done' "
        ">/dev/null 2>&1 & disown"
    )
    wait_until(lambda: (ws / "up").exists() and (ws / "stubborn").exists())
    began = time.monotonic()
    os.kill(pid1.pid, signal.SIGTERM)
    assert pid1.process.wait(10) in (0, 143, -signal.SIGTERM)
    assert time.monotonic() - began < 8
    pid1.stopped = True
    assert pid1.leftovers() == []
    assert (ws / "far").read_text() == "far\n" and (ws / "polite").read_text() == "polite\n"


@needs_root()
@needs("unshare")
def test_term_without_children_is_quick(pid1):
    began = time.monotonic()
    os.kill(pid1.pid, signal.SIGTERM)
    pid1.process.wait(10)
    assert time.monotonic() - began < 3
    pid1.stopped = True


@needs_root()
@needs("unshare")
@pytest.mark.parametrize(
    "sig",
    [
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGPIPE,
        signal.SIGWINCH,
        signal.SIGCHLD,
    ],
)
def test_stray_signals_do_not_kill_it(pid1, sig):
    os.kill(pid1.pid, sig)
    pid1.client.run("echo here")  # a signal that is passed on may have ended the shell
    assert pid1.client.ok("echo here") == "here"


def test_orphans_are_reaped_without_being_pid_1(hand):
    hand.client.ok("for i in $(seq 1 50); do (sleep 0.05 &) ; done")
    wait_until(lambda: not zombies(hand.pid), 5, "zombies reaped")


# --- exit with parent ---------------------------------------------------------------------------


STARTER = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_exit_with_parent(start, kill):
    base = start.base()
    helper = start(base=base)  # only for its directories and environment
    address = f"{base}/child.sock"
    env = {**helper.env, "TEST_MARK": "exit-with-parent-" + os.path.basename(base)}
    mark = "TEST_MARK=" + env["TEST_MARK"]
    command = [
        find_binary(),
        "--listen",
        f"unix:{address}",
        "--exit-with-parent",
        *helper.command[3:],
    ]
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTER, *command],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        pid = int(parent.stdout.readline())
        from client import Client

        client = Client(address)

        def ready():
            try:
                return client.get("/alive").status == 200
            except OSError:
                return False

        wait_until(ready, 20, "child ready")
        client.ok("sleep 3020 & (setsid sleep 3021 &)")
        client.run("sleep 3022", timeout=0.2)
        parent.send_signal(kill)
        parent.wait(10)
        wait_until(
            lambda: not os.path.exists(f"/proc/{pid}") or state(pid) == "Z",
            8,
            "hand ended with its starter",
        )
        wait_until(lambda: not census(mark), 5, "its processes ended too")
    finally:
        for left in census(mark):
            os.kill(left, signal.SIGKILL)
        if parent.poll() is None:
            parent.kill()
            parent.wait()
        parent.stdout.close()
    assert not os.path.exists(address)


def state(pid):
    try:
        return stat_of(pid)[0]
    except OSError:
        return "Z"


def test_without_the_option_it_outlives_its_starter(start):
    base = start.base()
    helper = start(base=base)
    address = f"{base}/child.sock"
    env = {**helper.env, "TEST_MARK": "outlive-" + os.path.basename(base)}
    mark = "TEST_MARK=" + env["TEST_MARK"]
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            STARTER,
            find_binary(),
            "--listen",
            f"unix:{address}",
            *helper.command[3:],
        ],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    pid = int(parent.stdout.readline())
    try:
        wait_until(lambda: os.path.exists(address), 20)
        parent.kill()
        parent.wait(10)
        from client import Client

        assert Client(address).ok("echo alone") == "alone"
    finally:
        parent.stdout.close()
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not census(mark), 8, "ended by SIGTERM")

"""A hand does not outlive the process that it is told to follow."""

import fcntl
import os
import subprocess

from harness import wait_until


def ends(hand):
    """It ends by itself, in order."""
    assert hand.process.wait(15) == 0, hand.stderr
    hand.stopped = True
    assert "the owner has ended" in hand.stderr
    assert hand.leftovers() == []


def test_a_process(start):
    owner = subprocess.Popen(["sleep", "1000"])
    hand = start(args=["--exit-with", owner.pid])
    assert hand.client.ok("(sleep 1000 >/dev/null 2>&1 &); echo works") == "works"
    owner.kill()
    owner.wait()
    ends(hand)


def test_a_lock(start, tmp_path):
    """Which the kernel gives up with its holder, however that ends."""
    path = tmp_path / "owner"
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print('held', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    owner = subprocess.Popen(["/usr/bin/python3", "-c", code, path], **pipes)
    assert owner.stdout.readline() == "held\n"
    hand = start(args=["--exit-with", f"lock:{path}"])
    assert hand.client.ok("(sleep 1000 >/dev/null 2>&1 &); echo works") == "works"
    owner.kill()
    owner.wait()
    ends(hand)


def test_the_lock_outlives_a_signal(start, tmp_path):
    """The wait for the lock does not keep the hand from ending."""
    path = tmp_path / "owner"
    with open(path, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        hand = start(args=["--exit-with", f"lock:{path}"])
        assert hand.client.ok("echo works") == "works"
        hand.stop()


def test_an_owner_that_is_gone(start, tmp_path):
    path = tmp_path / "owner"
    path.write_text("")
    gone = subprocess.Popen(["true"])
    gone.wait()
    cases = (f"lock:{path}", "nobody holds a lock"), (str(gone.pid), "no such process"), (f"lock:{tmp_path}/none", "No such")
    for who, why in (*cases, ("tomorrow", "expected PID"), (f"{os.getpid()}:1", "no such process")):
        hand = start(args=["--exit-with", who], wait=False)
        assert hand.process.wait(10) != 0
        hand.stopped = True
        wait_until(lambda: why in hand.stderr, 5, why)

"""/alive: 200 means that the main shell has read its start-up files; one that cannot is not waited for without end."""

import os
import threading

import pytest

from harness import wait_until


@pytest.fixture
def rc(start):
    """A hand with this .bashrc, not waited for."""

    def make(text, **options):
        base = start.base()
        os.mkdir(f"{base}/home")
        with open(f"{base}/home/.bashrc", "w") as f:
            f.write(text)
        return start(base=base, wait=False, **options)

    return make


def alive(hand):
    """The answer as soon as the hand listens."""

    def ask():
        try:
            return hand.client.get("/alive", timeout=30)
        except OSError:
            assert hand.process.poll() is None, hand.stderr
            return None

    return wait_until(ask, 30, "an answer of /alive")


def test_not_before_the_shell_has_read_its_files(rc):
    hand = rc("mkfifo ~/gate 2>/dev/null; read -r GATE <~/gate\n", args=["--ready-timeout", "300"])
    reply = alive(hand)
    assert reply.status == 503 and reply.headers["retry-after"] == "1"
    assert "start-up files" in reply.detail
    assert hand.client.get("/server_info").status == 200
    assert hand.client.list_files() == []
    late = hand.client.run("echo never", timeout=1.0)
    assert late.exit == -1
    with open(f"{hand.home}/gate", "w") as gate:
        gate.write("opened\n")
    hand.wait_ready(30)
    assert hand.client.ok("echo $GATE") == "opened"
    assert "ready without" not in hand.stderr


def test_slow_files_and_many_who_ask(rc):
    """Each of them gets a 200 that is true, in whatever moment it came."""
    hand = rc("sleep 0.7\nexport RC_WAS_READ=1\n")
    wrong, lock = [], threading.Lock()

    def look(n):
        wait_until(lambda: alive(hand).status == 200, 30, "ready")
        answer = hand.client.run("echo $RC_WAS_READ")
        if answer.content != "1":
            with lock:
                wrong.append(answer)

    threads = [threading.Thread(target=look, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_files_that_hang(rc):
    hand = rc("[ -e ~/mended ] || sleep 3051\n", args=["--ready-timeout", "0.5"])
    hand.wait_ready(30)
    assert "ready without the main shell" in hand.stderr
    assert "still busy with its start-up files" in hand.stderr
    assert hand.client.list_files() == []
    reply = hand.client.post("/v1/sessions", {"name": "other", "shell": "sh"})
    assert reply.status == 201 and hand.client.ok("touch ~/mended; echo fine", session="other") == "fine"
    assert hand.client.post("/v1/sessions/main/reset", {}).status == 200
    assert hand.client.ok("echo mended", timeout=30) == "mended"


@pytest.mark.parametrize(
    "ends, how", [("exit 3", "exited with status 3"), ("kill -9 $$", "exited with status 137")]
)
def test_files_that_end_the_shell(rc, ends, how):
    """They are read once, and the next action tries again."""
    hand = rc(f"echo x >>~/times\n[ -e ~/mended ] || {ends}\n")
    hand.wait_ready(30)
    assert "no shell in the main session" in hand.stderr and how in hand.stderr
    assert (hand.home / "times").read_text() == "x\n"
    obs = hand.client.run("echo x", timeout=10.0)
    assert how in obs.content, obs
    (hand.home / "mended").touch()
    assert hand.client.ok("echo fine", timeout=30) == "fine"


def test_no_shell_at_all(start):
    hand = start(args=["--shell", "/nonexistent/bash"])
    wait_until(lambda: "no shell in the main session" in hand.stderr, 10)
    assert hand.alive() == 200


def test_sh_reads_its_file_first(start):
    base = start.base()
    os.mkdir(f"{base}/home")
    with open(f"{base}/home/file", "w") as f:
        f.write("FROM_ENV=yes\n")
    hand = start(base=base, args=["--shell", "sh"], env={"ENV": f"{base}/home/file"})
    assert hand.client.ok("echo $FROM_ENV") == "yes"


def test_end_while_somebody_waits(rc):
    """A held request does not hold the end; stop() checks that it comes in time."""
    hand = rc("sleep 3052\n")
    assert alive(hand).status == 503
    waiter = threading.Thread(target=lambda: hand.alive())
    waiter.start()
    hand.stop()
    waiter.join()

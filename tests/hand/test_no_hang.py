"""Nobody can make a call hang: stalled, dying and stopped clients and shells."""

import json
import os
import signal
import socket
import threading
import time

import pytest

from client import CONT, Observation, busy, hard, soft
from harness import SLACK, memory_limit, needs, wait_until


def run_request(command, timeout=10.0, **args):
    body = json.dumps(
        {"action": {"action": "run", "args": {"command": command, **args}, "timeout": timeout}}
    ).encode()
    return (
        b"POST /execute_action HTTP/1.1\r\nHost: x\r\nContent-Type: "
        b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    ) + body


def timed(call, limit):
    """The call must return within the limit, a second of grace and what a slow machine adds."""
    began = time.monotonic()
    result = call()
    took = time.monotonic() - began
    assert took <= limit + 1 + SLACK, f"{took:.2f} s for a deadline of {limit} s"
    return result


def responsive(client):
    assert timed(lambda: client.get("/alive", timeout=5), 0).status == 200
    obs = timed(lambda: client.run("echo works", timeout=5.0), 1)
    assert (obs.exit, obs.content) == (0, "works"), obs


# --- clients ------------------------------------------------------------------------------------


def test_clients_that_stall_at_every_byte(hand):
    """One connection per byte of a request, each stuck there; nobody else notices."""
    data = run_request("echo never > never")
    stuck = []
    for n in range(0, len(data), 2):
        s = hand.client.socket()
        s.sendall(data[:n])
        stuck.append(s)
        if len(stuck) % 20 == 0:
            responsive(hand.client)
    responsive(hand.client)
    assert not (hand.workspace / "never").exists()
    hand.stop()
    for s in stuck:
        s.close()


def test_clients_that_hang_up_at_every_byte(hand):
    data = run_request("echo run >> log")
    for n in range(0, len(data)):
        with hand.client.socket() as s:
            s.sendall(data[:n])
    responsive(hand.client)
    assert not (hand.workspace / "log").exists()
    wait_until(lambda: hand.status("Threads") < 30, 10, "threads of dead connections ended")


def test_clients_that_half_close_at_every_byte(shell):
    data = run_request("echo run")
    for n in list(range(0, len(data), 9)):
        with shell.socket(5) as s:
            s.sendall(data[:n])
            s.shutdown(socket.SHUT_WR)
            answer = s.recv(65536)  # an error or the end, but no silence
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer
    responsive(shell)


def test_half_close_after_the_request_still_gets_the_answer(shared):
    reply = shared.raw(run_request("sleep 0.2; echo answer"), half_close=True)
    assert reply.status == 200 and reply.json["content"] == "answer"


def test_request_that_trickles_in(shared):
    data = run_request("echo slow")
    with shared.socket() as s:
        for n in range(0, len(data), 8):
            s.sendall(data[n : n + 8])
            time.sleep(0.005)
        assert s.recv(100).startswith(b"HTTP/1.1 200")


def test_client_that_does_not_read(hand):
    """Answers far beyond the socket buffers, never read: only that connection suffers."""
    (hand.workspace / "big").write_bytes(bytes(8 << 20))
    deaf = []
    for _ in range(5):
        s = hand.client.socket()
        s.sendall(f"GET /download_files?path={hand.workspace} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        deaf.append(s)
    responsive(hand.client)
    assert hand.client.list_files() == ["big"]
    hand.stop()
    for s in deaf:
        s.close()


def test_client_that_reads_one_byte_at_a_time(shell):
    s = shell.socket()
    s.sendall(run_request("seq 1 5000", session=shell.name))
    for _ in range(200):
        assert len(s.recv(1)) == 1
    responsive(shell)
    s.close()


@pytest.mark.slow
def test_stalled_request_is_ended_by_the_server(shell):
    """Header deadline 10 s, body deadline 30 s: the server says 408 or hangs up by itself."""
    data = run_request("echo never")
    stuck = []
    for n in (1, 20, 80, len(data) - 10):
        s = shell.socket(60)
        s.sendall(data[:n])
        stuck.append(s)
    for s in stuck:
        answer = s.recv(65536)
        assert answer == b"" or b" 408 " in answer.split(b"\r\n")[0]
        s.close()


def test_more_connections_than_allowed(hand):
    """Over the limit new ones are refused with 503 or wait their turn; afterwards all is well."""
    crowd = []
    try:
        for _ in range(400):
            try:
                crowd.append(hand.client.socket(2))
            except OSError:
                break
        assert len(crowd) > 100
    finally:
        for s in crowd:
            s.close()
    wait_until(lambda: hand.alive() == 200, 10, "server usable again")
    responsive(hand.client)


# --- disconnects in the middle of a command -----------------------------------------------------


def gather(client, seconds=10):
    """Polls until the command has finished; returns the last observation and all content."""
    deadline = time.monotonic() + seconds
    text = []
    while True:
        obs = client.poll(timeout=5.0)
        text.append(obs.content)
        if obs.exit != -1:
            return obs, "\n".join(text)
        assert (
            "ERROR: No previous running command" not in obs.content
        ), f"the output is lost: {text}"
        assert time.monotonic() < deadline


def test_disconnect_then_poll_while_it_runs(shell):
    s = shell.socket()
    s.sendall(
        run_request("touch began; echo one; sleep 1; echo two", blocking=True, session=shell.name)
    )
    wait_until(lambda: (shell.dir / "began").exists())
    s.close()
    obs, text = gather(shell)
    assert obs.exit == 0
    assert "one" in text and "two" in text
    responsive(shell)


def test_disconnect_then_poll_after_it_ended(hand):
    s = hand.client.socket()
    wait = "touch began; until [ -e go ]; do sleep 0.02; done"
    s.sendall(run_request(f"echo one; {wait}; echo two; touch ended", blocking=True))
    wait_until(lambda: (hand.workspace / "began").exists())
    s.close()
    (hand.workspace / "go").touch()
    wait_until(lambda: (hand.workspace / "ended").exists())
    obs, text = gather(hand.client)
    assert obs.exit == 0 and "one" in text and "two" in text
    responsive(hand.client)


def test_disconnect_does_not_end_the_command(shell):
    s = shell.socket()
    s.sendall(run_request("touch began; sleep 0.5; touch ended", blocking=True, session=shell.name))
    wait_until(lambda: (shell.dir / "began").exists())
    s.close()
    wait_until(lambda: (shell.dir / "ended").exists())


def test_disconnect_then_another_command(shell):
    s = shell.socket()
    # made by the program that is to be interrupted: a shell that is just starting one may lose the signal
    began = "sh -c 'touch began; exec sleep 60'"
    s.sendall(run_request(began, timeout=60.0, blocking=True, session=shell.name))
    wait_until(lambda: (shell.dir / "began").exists())
    s.close()
    obs = timed(lambda: shell.run("echo next", timeout=3.0), 3)
    assert (obs.exit, obs.suffix, obs.prefix) == (-1, busy("echo next"), CONT)
    assert shell.interrupt().exit == 130
    responsive(shell)


# --- shells -------------------------------------------------------------------------------------


STUBBORN = [
    "sleep 100",
    "while :; do :; done",
    "yes",
    "cat /dev/zero",
    "yes | head -c 100000000000 >/dev/null",
    "trap '' INT TERM HUP QUIT TSTP; while :; do sleep 100; done",
    "stty raw -echo; cat",
    "kill -STOP $$",
    "bash -c 'kill -STOP $PPID; sleep 100'",
    "exec sleep 100",
    "exec 0<&- 1>&- 2>&-; sleep 100",
    "while :; do printf '\\033[2J\\033[Hx'; done",
    "while :; do printf 'no newline at all '; done",
    "tr -d '\\n' < /dev/zero",
    "bash -c 'setsid sleep 100; wait'",
    "read x < /dev/tty",
    "ulimit -f 0; sleep 100",
    "trap 'while :; do :; done' EXIT; exit 3",
    ": $(sleep 100)",
    "cat <(sleep 100)",
]


@pytest.mark.parametrize("command", STUBBORN)
def test_deadline_holds_for(shell, command):
    obs = timed(lambda: shell.run(command, timeout=0.6, blocking=True), 0.6)
    assert obs.exit in (-1, 3) or obs.exit > 128, obs
    if obs.exit == -1:
        assert obs.suffix == hard(0.6)
    obs = timed(lambda: shell.poll(timeout=0.3), 0.3)
    obs = timed(lambda: shell.input("C-c", timeout=0.5), 0.5)
    assert timed(lambda: shell.get("/alive", timeout=5), 0).status == 200
    # and the fixture proves that the session can still be removed


def test_soft_deadline_holds(shell):
    obs = timed(lambda: shell.run("sleep 100", timeout=50.0), 1)
    assert obs.suffix == soft(1)
    shell.input("C-c")


def test_stopped_shell_and_its_return(shell):
    pid = int(shell.ok("echo $$"))
    os.kill(pid, signal.SIGSTOP)
    obs = timed(lambda: shell.run("echo frozen", timeout=0.6, blocking=True), 0.6)
    assert (obs.exit, obs.suffix) == (-1, hard(0.6))
    obs = timed(lambda: shell.poll(timeout=0.4), 0.4)
    assert obs.exit == -1
    os.kill(pid, signal.SIGCONT)
    obs = timed(lambda: shell.poll(timeout=5.0), 5)
    assert (obs.exit, obs.content) == (0, "frozen")
    responsive(shell)


def test_shell_killed_at_any_time(hand):
    client = hand.client
    for _ in range(8):
        obs = client.run("echo $$")
        if obs.exit != 0:
            continue
        pid = int(obs.content)
        worker = threading.Thread(target=os.kill, args=(pid, signal.SIGKILL))
        worker.start()
        obs = timed(lambda: client.run("echo maybe", timeout=5.0), 5)
        worker.join()
        if obs.exit != 0:  # never silence: the status, or a sentence when it was never started
            assert obs.exit == 137 or obs.content.startswith("ERROR: "), obs
            continue
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), what="shell reaped")
    responsive(client)


def test_everything_in_the_sandbox_killed(hand):
    """All descendants die at once while a command runs."""
    client = hand.client
    answers = []
    worker = threading.Thread(
        target=lambda: answers.append(
            timed(lambda: client.run("sleep 100 | cat", timeout=20.0, blocking=True), 20)
        )
    )
    worker.start()
    wait_until(lambda: any("sleep 100" in c for c in hand.left().values()))
    for pid in hand.left():
        if pid != hand.pid:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    worker.join(10)
    assert answers and answers[0].exit != -1
    responsive(client)


def test_input_to_a_program_that_does_not_read(hand):
    """More than a terminal buffers: the call gives up at its deadline."""
    client = hand.client
    client.run("sleep 100", timeout=0.3)
    obs = timed(lambda: client.input("x" * 300_000, timeout=1.0), 1)
    assert obs.exit == -1
    obs = timed(lambda: client.input("x" * 300_000, timeout=1.0), 1)
    assert timed(lambda: client.get("/alive", timeout=5), 0).status == 200
    timed(lambda: client.input("C-c", timeout=1.0), 1)


def test_output_nobody_asks_for(hand):
    """A command floods the terminal with 7 MB while nobody waits: it goes on, memory does not grow."""
    client = hand.client
    client.run("sleep 1.3; seq 1 1000000; echo end", timeout=0.2)
    before = hand.status("VmRSS")
    obs = client.poll(timeout=100.0, blocking=True)
    assert obs.exit == 0 and obs.content.endswith("end")
    assert hand.status("VmRSS") - before < memory_limit(4 * 1024)


@needs("python3")
def test_fork_storm_is_survived(shell):
    obs = timed(
        lambda: shell.run(
            "for i in $(seq 1 300); do (sleep 30 &) ; done; echo started", timeout=60.0, blocking=True
        ),
        60,
    )
    assert (obs.exit, obs.content) == (0, "started")
    responsive(shell)


@pytest.mark.parametrize("timeout", [0.05, 1e-3, 1e-9, 0.0])
def test_tiny_timeouts(shell, timeout):
    obs = timed(lambda: shell.run("sleep 2; echo end", timeout=timeout, blocking=timeout > 0), 2)
    if timeout > 0:
        assert (obs.exit, obs.suffix) == (-1, hard(timeout))
    shell.input("C-c", timeout=5)


@pytest.mark.parametrize("timeout", ["-1", "1e308", "1e400", '"5"', "null", "true", "[]"])
def test_odd_timeouts(shell, timeout):
    args = '{"command":"echo x","session":"%s"}' % shell.name
    body = '{"action":{"action":"run","args":%s,"timeout":%s}}' % (args, timeout)
    reply = shell.request(
        "POST", "/execute_action", body.encode(), {"Content-Type": "application/json"}, timeout=10
    )
    if reply.status == 200:
        assert Observation(reply.json).type == "run"
    else:
        assert reply.status in (400, 422, 500) and reply.detail
    shell.input("", timeout=2.0)
    responsive(shell)

"""The host's client of processes (runtime/process-client.h), against a real hand and against one that lies."""

import json
import os
import pathlib
import socket
import struct
import subprocess
import threading
import time

import pytest

from hand_processes import Process
from harness import ROOT, wait_until

pytestmark = pytest.mark.concurrent

SH = "/bin/sh"
STATUS = {
    "id": "p0123456789abcdef",
    "pid": 7,
    "running": False,
    "over": True,
    "exit_code": 4,
    "process": {"args": ["x"]},
}


def drive_program():
    build = pathlib.Path(os.environ.get("TN_BUILD", ROOT / "build"))
    path = (build if build.is_absolute() else ROOT / build) / "tests/unit/runtime/process-drive"
    if not path.is_file():
        pytest.skip(f"no {path}: tests are not built")
    return str(path)


def drive(address, *words, seconds=30):
    """(exit status, lines) of the client."""
    result = subprocess.run(
        [drive_program(), address, "", str(seconds), *map(str, words)], capture_output=True, timeout=120
    )
    assert b"Sanitizer" not in result.stderr, result.stderr.decode()
    return result.returncode, result.stdout.decode(errors="replace").splitlines()


@pytest.fixture
def ask(shared_hand):
    return lambda *words, **kw: drive(f"unix:{shared_hand.client.address}", *words, **kw)


@pytest.fixture
def start_process(shared):
    made = []

    def start(*args, **spec):
        made.append(Process(shared, args, **spec))
        return made[-1]

    yield start
    for p in made:
        p.remove()


# --- a real hand ----------------------------------------------------------------------------------


def test_reads_to_the_end(ask, start_process):
    p = start_process(SH, "-c", "echo out; echo err >&2; exit 3")
    status, lines = ask("read", p.id, 0, 0)
    assert status == 0
    assert lines[-1] == "at 4 4 result 0" and lines[-2] == f"end {p.id} {p.pid} over exit 3 {SH}"
    assert {"out 0 out", "err 0 err"} <= set(lines)
    assert ask("wait", p.id)[1] == [f"{p.id} {p.pid} over exit 3 {SH}"]


def test_what_there_is_now(ask, start_process):
    p = start_process("cat", stdin=True, tag="now")
    assert ask("input", "tag:now", 0, "abcdef") == (0, ["taken 6"])
    assert ask("input", "tag:now", 0, "abcdef") == (0, ["taken 6"])
    assert ask("input", "tag:now", "end", "gh") == (0, ["taken 8"])
    wait_until(lambda: ask("read", p.id, 6, 0, "now")[1] == ["out 6 gh", "at 8 0 result 0"], 20)
    assert ask("input", p.id, 99, "x")[1][-1].startswith("conflict: ")
    assert ask("read", p.id, "end", "end", "now")[1] == ["at 8 0 result 0"]
    assert ask("close", str(p.pid)) == (0, [])
    assert ask("wait", p.id)[1][0].endswith("exit 0 cat")
    assert ask("input", p.id, "end", "x")[1][-1].startswith("gone: ")


def test_beats_and_deadlines(ask, start_process):
    p = start_process("sleep", "60")
    assert ask("read", p.id, 0, 0, "", "beat") == (0, ["beat", "at 0 0 result 5"])
    status, lines = ask("read", p.id, 0, 0, seconds=2)
    assert status == 1 and lines[-1].startswith("timeout: ")
    status, lines = ask("wait", p.id, seconds=1)
    assert status == 1 and lines[-1].startswith("timeout: ")
    assert f"{p.id} {p.pid} running sleep" in ask("list")[1]
    assert ask("resize", p.id, 80, 24)[1][-1].startswith("conflict: ")
    assert ask("signal", p.id, 15) == (0, [])
    assert ask("wait", p.id)[1][0].endswith("signal 15 sleep")
    assert ask("signal", p.id, 15)[1][-1].startswith("gone: ")
    assert ask("remove", p.id) == (0, [])
    assert ask("look", p.id)[1][-1].startswith("not_found: ")


def test_what_was_dropped_is_told(ask, start_process):
    p = start_process("seq", "1", "1000000")
    first = p.end()["stdout"]["first"]
    lines = ask("read", p.id, 0, 0)[1]
    assert lines[0] == f"lost out {first} {first}" and lines[-1] == "at 6888896 0 result 0"


def test_much_input(ask, start_process):
    """More than a pipe holds, to one that reads slowly."""
    p = start_process(SH, "-c", "sleep 1; wc -c", stdin=True)
    assert ask("input", p.id, 0, "x" * 120000) == (0, ["taken 120000"])
    p.close_input()
    assert p.output()[0].strip() == b"120000"


def test_a_terminal(ask, start_process):
    p = start_process(SH, "-c", "read x; stty size", pty=True)
    assert ask("resize", p.id, 101, 51) == (0, [])
    assert ask("input", p.id, "end", "\n")[0] == 0
    assert b"51 101" in p.output()[0]


def test_a_hand_that_is_gone(start):
    hand = start()
    p = Process(hand.client, ["sleep", "60"])
    address = f"unix:{hand.client.address}"
    result = []
    thread = threading.Thread(target=lambda: result.append(drive(address, "read", p.id, 0, 0)))
    thread.start()
    wait_until(lambda: p.status()["running"], 20)
    hand.stop()
    thread.join(60)
    status, lines = result[0]
    # it may still have heard of the end
    assert status == 1 or "signal" in lines[-2], lines


# --- one that lies --------------------------------------------------------------------------------


def frame(kind, body=b""):
    return kind + struct.pack(">I", len(body)) + body


def bytes_frame(kind, offset, data):
    return frame(kind, struct.pack(">Q", offset) + data)


@pytest.fixture
def liar(tmp_path):
    """liar(*answers) -> its address: each connection gets the next answer, the last one again and again."""
    server = socket.socket(socket.AF_UNIX)
    path = str(tmp_path / "liar.sock")
    server.bind(path)
    server.listen(64)
    answers, threads = [], []

    def serve():
        n = 0
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(20)
                got = b""
                while b"\r\n\r\n" not in got:
                    got += peer.recv(65536) or b"\r\n\r\n"
                try:
                    peer.sendall(answers[min(n, len(answers) - 1)])
                except OSError:
                    pass
            n += 1

    def lie(*bodies):
        for body in bodies:
            answers.append(b"HTTP/1.1 200 OK\r\nContent-Type: x/y\r\nConnection: close\r\n\r\n" + body)
        threads.append(threading.Thread(target=serve, daemon=True))
        threads[0].start()
        return f"unix:{path}"

    yield lie
    server.shutdown(socket.SHUT_RDWR)
    server.close()


END = frame(b"x", json.dumps(STATUS).encode())


@pytest.mark.parametrize(
    "body, words",
    [
        (b"o\xff\xff\xff\xff", "larger than"),
        (frame(b"o", b"short"), "too short"),
        (frame(b"a", b"1"), "wrong size"),
        (bytes_frame(b"o", 2**64 - 2, b"xy"), "beyond all bounds"),
        (frame(b"x", b"{"), "the hand"),
        (frame(b"x", b"{}"), "without an id"),
        (frame(b"x", b'{"id": "p0123456789abcdef", "process": {"args": []}}'), "nonsense"),
        (frame(b"x", json.dumps({**STATUS, "id": "p0123456789abcde/"}).encode()), "without an id"),
    ],
)
def test_nonsense_ends_it(liar, body, words):
    status, lines = drive(liar(body), "read", "p1", 0, 0)
    assert status == 1 and words in lines[-1], lines


@pytest.mark.parametrize("which", ["tag:mine", "p0000000000000000", "8"])
@pytest.mark.parametrize("tag", [None, "", "other"])
def test_another_process_than_was_asked_for(liar, which, tag):
    status, lines = drive(liar(json.dumps({**STATUS, "process": {"args": ["x"], "tag": tag}}).encode()), "look", which)
    assert status == 1 and "another process" in lines[-1], lines


def test_gaps_repeats_and_unknown_frames(liar):
    address = liar(
        frame(b"a", bytes(16))
        + bytes_frame(b"o", 0, b"abc")
        + frame(b"?", b"later")
        + bytes_frame(b"o", 1, b"bcd")
        + bytes_frame(b"o", 1, b"b")
        + bytes_frame(b"e", 5, b"late")
        + END
    )
    status, lines = drive(address, "read", "p1", 0, 0)
    assert status == 0
    assert lines == [
        "out 0 abc",
        "out 3 d",
        "lost err 5 5",
        "err 5 late",
        f"end {STATUS['id']} 7 over exit 4 x",
        "at 4 9 result 0",
    ]


def test_a_broken_stream_goes_on_where_it_broke_off(liar):
    address = liar(bytes_frame(b"o", 0, b"abc") + b"o\0", bytes_frame(b"o", 0, b"abcdef") + END)
    status, lines = drive(address, "read", "p1", 0, 0)
    assert status == 0 and lines[:2] == ["out 0 abc", "out 3 def"]


def test_one_that_never_gets_on_is_given_up(liar):
    before = time.monotonic()
    status, lines = drive(liar(b""), "read", "p1", 0, 0, seconds=3)
    assert status == 1 and lines[-1].split(":")[0] in ("timeout", "peer") and time.monotonic() - before < 60


def test_a_list_without_end_is_bounded(liar):
    status, lines = drive(liar(b'{"processes": [' + b" " * (9 << 20)), "list")
    assert status == 1 and lines[-1].split(":")[0] == "too_large", lines[-1][:200]


def test_who_takes_more_than_was_given(liar):
    status, lines = drive(liar(b'{"done": 99, "taken": 99}'), "input", "p1", 0, "abc")
    assert status == 1 and "more than" in lines[-1]

"""Processes of their own: apart from the shells, with logs, input by offset, signals and an end."""

import os
import pwd
import time

import pytest

from harness import needs_root, wait_until
from hand_processes import Frames, Process, command_of

pytestmark = pytest.mark.concurrent

SH = "/bin/sh"


@pytest.fixture
def start_process(shared):
    """start_process(*args, **spec) -> Process; all are removed at the end."""
    made = []

    def start(*args, client=shared, **spec):
        p = Process(client, args, **spec)
        made.append(p)
        return p

    yield start
    for p in made:
        if p.id:
            p.remove()


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- output and end -------------------------------------------------------------------------------


def test_streams_are_apart_and_the_end_is_told(start_process):
    p = start_process(SH, "-c", "echo out; echo err >&2; exit 3")
    assert p.started.exit == 0 and p.started.meta["end"] == "started" and p.pid > 1
    out, err, status = p.output()
    assert (out, err) == (b"out\n", b"err\n")
    assert (status["exit_code"], status["signal"], status["late"]) == (3, None, False)
    assert not status["running"] and status["over"] and status["ended"] >= status["started"]
    assert status["stdout"] == {"first": 0, "end": 4}
    assert status["process"]["args"] == [SH, "-c", "echo out; echo err >&2; exit 3"]


def test_a_signal_is_no_exit_code(start_process):
    p = start_process(SH, "-c", "kill -TERM $$")
    status = p.end()
    assert (status["exit_code"], status["signal"]) == (None, 15)


def test_found_by_id_pid_and_tag(start_process):
    p = start_process("sleep", "60", tag="my tag/x")
    for which in (p.id, str(p.pid), "tag:my%20tag%2Fx"):
        assert p.status(which)["id"] == p.id
    reply = p.client.get("/v1/processes/tag:other")
    assert reply.status == 404 and "no such process" in reply.detail
    # the newest of a tag, and one that runs before one that has ended
    q = start_process("true", tag="my tag/x")
    q.end()
    assert p.status("tag:my%20tag%2Fx")["id"] == p.id


def test_listed(start_process):
    p = start_process("sleep", "60")
    t = start_process("sleep", "60", pty=True)
    ids = [e["id"] for e in p.client.get("/v1/processes").json["processes"]]
    assert ids.index(p.id) < ids.index(t.id)
    ids = [e["id"] for e in p.client.get("/v1/processes?pty=no").json["processes"]]
    assert p.id in ids and t.id not in ids


def test_bytes_by_offset_and_from_the_end(start_process):
    p = start_process("cat", stdin=True)
    assert p.input(b"0123456789").json == {"done": 10, "taken": 10}
    with p.stream(follow=30) as frames:
        assert frames.next() == ("a", 0, 0)
        assert frames.until(b"9") == b"0123456789"
    with p.stream(follow=0, stdout=4) as frames:
        assert frames.next() == ("a", 4, 0)
        assert frames.rest() == (b"456789", b"", None), "what there is now, and it goes on"
    with p.stream(follow=30, stdout="end", stderr="end") as frames:
        assert frames.next() == ("a", 10, 0)
        p.input(b"new")
        p.close_input()
        out, _, status = frames.rest()
    assert out == b"new" and status["exit_code"] == 0


def test_any_number_of_readers(start_process):
    p = start_process("cat", stdin=True)
    readers = [p.stream(follow=60) for _ in range(5)]
    p.input(b"hello\0\xff")
    p.close_input()
    for frames in readers:
        with frames:
            assert frames.rest()[0] == b"hello\0\xff"
    assert p.output()[0] == b"hello\0\xff", "and one who comes late"


def test_a_quiet_stream_gives_signs_of_life(start_process):
    p = start_process("sleep", "60")
    with p.stream(follow=60, beat=1) as frames:
        frames.next()
        assert frames.next() == ("k",) and frames.next() == ("k",)


def test_a_stream_of_so_many_seconds(start_process):
    p = start_process("sleep", "60")
    before = time.monotonic()
    with p.stream(follow=1) as frames:
        assert frames.rest() == (b"", b"", None)
    assert time.monotonic() - before >= 0.9


def test_whoever_reads_along_loses_nothing(start_process):
    """More than any log keeps: the process waits for its reader, also for the first one."""
    p = start_process("seq", "1", "3000000")
    out, _, status = p.output()
    assert status["stdout"]["end"] == len(out) and out.startswith(b"1\n2\n") and out.endswith(b"\n3000000\n")
    assert status["stdout"]["first"] > 0


def test_the_oldest_is_dropped_and_that_is_told(start_process):
    """Nobody reads: after the first seconds the process is not held up any more."""
    p = start_process("seq", "1", "1000000")
    status = p.end()
    first, end = status["stdout"]["first"], status["stdout"]["end"]
    assert end == 6888896 and 0 < end - first <= 1 << 20
    with p.stream(follow=0) as frames:
        assert frames.next() == ("a", 0, 0)
        kind, offset, data = frames.next()
        assert (kind, offset) == ("o", first), "the gap shows in the offset"


def test_a_reader_that_is_gone_holds_nothing_up(start_process):
    p = start_process(SH, "-c", "read x; seq 1 3000000", stdin=True)
    frames = p.stream(follow=60)
    frames.next()
    p.input(b"go\n")
    frames.next()
    frames.__exit__()
    assert p.end()["exit_code"] == 0


def test_children_that_hold_the_output_are_not_waited_for(start_process):
    before = time.monotonic()
    p = start_process(SH, "-c", "sleep 50 & echo $!")
    out, _, status = p.output()
    assert status["exit_code"] == 0 and time.monotonic() - before < 40
    os.kill(int(out), 9)


# --- where and who --------------------------------------------------------------------------------


def test_directory_and_environment(start_process, shared_hand):
    code = "pwd; echo $GREETING; echo $HOME; echo $X"
    env = {"GREETING": "it's me", "X": "a b\nc"}
    out, _, _ = start_process(SH, "-c", code, cwd="/usr", env=env).output()
    assert out.decode() == f"/usr\nit's me\n{shared_hand.home}\na b c\n"
    out, _, _ = start_process("pwd").output()
    assert out.decode() == f"{shared_hand.workspace}\n"
    out, _, _ = start_process("pwd", cwd="~").output()
    assert out.decode() == f"{os.path.realpath(shared_hand.home)}\n"
    out, _, _ = start_process("printenv", "TENDON_HAND").output()
    assert out.strip(), "by which it is found when the hand is killed"


@pytest.mark.parametrize(
    "spec, args, words",
    [
        ({}, ["/no/such/program"], "No such file"),
        ({"cwd": "/no/such/dir"}, ["true"], "/no/such/dir"),
        ({"user": "nobody-here"}, ["true"], "no user nobody-here"),
        ({"env": {"TENDON_HAND": "x"}}, ["true"], "the hand's own"),
        ({"env": {"A": 1}}, ["true"], "expected a text"),
        ({}, ["a=b", "c"], "expected a program"),
        ({}, [], "expected a program"),
        ({"tag": "x" * 200}, ["true"], "tag"),
    ],
)
def test_what_cannot_be_started_says_why(shared, spec, args, words):
    p = Process(shared, args, **spec)
    assert p.started.type == "error" and p.started.extras["error_id"] == "PROCESS$NOT_STARTED"
    assert words in p.started.content and not p.id, p.started


def test_the_command_must_be_that_of_the_process(shared):
    """What analyzers and people are shown is what runs."""
    for command in ("ls", "rm -rf x ", "env rm -rf x"):
        obs = shared.run(command, process={"args": ["rm", "-rf", "x"]})
        assert obs.type == "error" and "expected rm -rf x" in obs.content
    assert command_of(["rm", "it's"], {"A": "b c"}) == "env 'A=b c' rm 'it'\\''s'"


@needs_root()
def test_another_user(start):
    client = start().client
    nobody = pwd.getpwnam("nobody")
    for user in ("nobody", str(nobody.pw_uid)):
        p = Process(client, [SH, "-c", "id -u; id -g; echo $USER $HOME"], cwd="/", user=user)
        out, err, status = p.output()
        assert out.decode() == f"{nobody.pw_uid}\n{nobody.pw_gid}\nnobody {nobody.pw_dir}\n", err
    p = Process(client, ["tty"], cwd="/", user="nobody", pty=True)
    assert p.output()[0].startswith(b"/dev/pts/")


# --- input ----------------------------------------------------------------------------------------


def test_input_is_not_doubled(start_process):
    p = start_process("cat", stdin=True)
    assert p.input(b"abc", offset=0).json == {"done": 3, "taken": 3}
    assert p.input(b"abc", offset=0).json == {"done": 3, "taken": 3}
    assert p.input(b"bcd", offset=1).json == {"done": 3, "taken": 4}, "the part that is new"
    gap = p.input(b"x", offset=9)
    assert gap.status == 409 and "4 bytes" in gap.detail
    assert p.status()["input"] == 4 and p.status()["input_open"]
    assert p.close_input().status == 200 and p.close_input().status == 200
    assert p.input(b"more").status == 410
    assert p.output()[0] == b"abcd"
    assert p.input(b"abcd", offset=0).json["done"] == 4, "what was taken was taken"


def test_input_that_nobody_reads_is_taken_in_part(start_process):
    p = start_process("sleep", "60", stdin=True)
    reply = p.input(b"x" * (1 << 19)).json
    assert 0 < reply["taken"] < 1 << 19 and reply["done"] == reply["taken"]
    p.signal("KILL")
    p.end()
    assert p.input(b"x").status == 410


def test_without_input_there_is_none(start_process):
    p = start_process("cat")
    assert p.output()[0] == b""
    assert p.input(b"x").status == 410


# --- terminals ------------------------------------------------------------------------------------


def test_a_terminal(start_process):
    p = start_process(SH, pty=True, columns=91, rows=31, env={"PS1": "> "})
    with p.stream(follow=60) as frames:
        frames.until(b"> ")
        p.input(b"stty size; tty >&2\n")
        assert b"31 91" in frames.until(b"/dev/pts/")
        reply = p.client.post(p.path("/size"), {"columns": 100, "rows": 40})
        assert reply.status == 200
        p.input(b"stty size\n")
        frames.until(b"40 100")
        assert p.close_input().status == 200, "the character that ends it"
        _, err, status = frames.rest()
    assert err == b"" and status["exit_code"] == 0 and status["stderr"]["end"] == 0
    assert p.client.post(p.path("/size"), {"columns": 0, "rows": 1}).status == 422


def test_the_size_of_no_terminal(start_process):
    p = start_process("sleep", "60")
    assert p.client.post(p.path("/size"), {"columns": 1, "rows": 1}).status == 409


# --- the end --------------------------------------------------------------------------------------


def test_signals_go_to_the_group(start_process):
    p = start_process(SH, "-c", "sleep 60 & echo $!; wait")
    with p.stream(follow=60) as frames:
        child = int(frames.until(b"\n"))
        assert p.signal("TERM").status == 200
        assert frames.rest()[2]["signal"] == 15
    wait_until(lambda: not lives(child), 20)
    assert p.signal(15).status == 410
    assert p.signal("NONSENSE").status == 422


def test_a_deadline_kills_it_with_all_it_started(start_process):
    code = "trap '' TERM INT HUP; setsid sleep 60 & sleep 60 & echo $!; wait"
    p = start_process(SH, "-c", code, seconds=1)
    out, _, status = p.output()
    assert status["signal"] == 9 and status["late"]
    wait_until(lambda: not lives(int(out)), 20)


def test_it_goes_on_when_its_client_is_gone(start_process):
    p = start_process(SH, "-c", "read x; echo got $x", stdin=True)
    with p.stream(follow=60) as frames:
        frames.next()
    p.input(b"it\n")
    assert p.output()[0] == b"got it\n"


def test_removed(start_process):
    p = start_process("sleep", "60")
    with p.stream(follow=60) as frames:
        frames.next()
        assert p.remove().status == 204
        assert frames.rest()[2]["signal"] == 9
    assert p.client.get(p.path()).status == 404 and not lives(p.pid)
    assert p.remove().status == 404
    p.id = None


def test_the_same_key_starts_one(shared):
    key = f"process-{time.monotonic_ns()}"
    a, b = (Process(shared, ["sleep", "60"], key=key) for _ in range(2))
    assert a.id == b.id
    a.remove()


def test_they_end_with_the_hand(start):
    hand = start()
    p = Process(hand.client, [SH, "-c", "trap '' TERM; sleep 60 & while :; do wait; done"])
    with p.stream(follow=60) as frames:
        frames.next()
        hand.stop()
    wait_until(lambda: not lives(p.pid), 20)


def test_too_many(start):
    client = start().client
    made = [Process(client, ["sleep", "600"]) for _ in range(64)]
    assert all(p.id for p in made)
    more = Process(client, ["true"])
    assert more.started.extras["error_id"] == "PROCESS$TOO_MANY" and not more.id
    made[0].remove()
    wait_until(lambda: Process(client, ["true"]).id, 20)


def test_ended_ones_are_forgotten_in_the_end(start):
    client = start().client
    first = Process(client, ["true"])
    first.end()
    for _ in range(66):
        Process(client, ["true"]).end()
    wait_until(lambda: client.get(first.path()).status == 404, 20)
    assert len(client.get("/v1/processes").json["processes"]) <= 66


def test_bad_questions(start_process):
    p = start_process("sleep", "60")
    for query in ("stdout=x", "stderr=-1", "follow=x", "beat=y"):
        assert p.client.get(p.path(f"/output?{query}")).status == 422
    assert p.client.get("/v1/processes?pty=maybe").status == 422
    assert p.input(b"x", offset="x").status == 422
    with Frames(p.client, p.path("/output"), follow=0) as frames:
        assert frames.next()[0] == "a"

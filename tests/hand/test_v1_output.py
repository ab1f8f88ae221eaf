"""/v1/commands: the whole output of a command, by offset, now and while it comes."""

import threading
import time

import pytest

from client import soft
from harness import wait_until
from streams import Events, url

pytestmark = pytest.mark.concurrent


def output(client, command, **query):
    reply = client.get(url(f"/v1/commands/{command}/output", **query))
    assert reply.status == 200, reply
    assert reply.headers["content-type"] == "application/octet-stream"
    return reply.body


def commands(client, name):
    reply = client.get(f"/v1/sessions/{name}/commands")
    assert reply.status == 200, reply
    for entry in reply.json["commands"]:
        assert set(entry) == {"id", "size", "first", "finished", "path"}
    return reply.json["commands"]


def follow(client, command, **kw):
    return Events(client, f"/v1/commands/{command}/output", follow=1, **kw)


# --- bytes --------------------------------------------------------------------------------------


def test_bytes_are_those_of_the_terminal(shell):
    ident = shell.run("printf 'a\\n\\033[31mb\\033[0m\\rc'").meta["command_id"]
    assert ident == f"{shell.name}-1"
    assert output(shell, ident) == b"a\r\n\x1b[31mb\x1b[0m\rc"


def test_what_a_starting_shell_prints_is_not_output(hand):
    """The session is made by the action itself."""
    ident = hand.client.run("printf mine", session="fresh").meta["command_id"]
    assert output(hand.client, ident) == b"mine"


def test_a_command_that_could_not_run_is_finished(hand):
    program = hand.workspace / "sh"
    program.write_text('#!/bin/sh\nexec sh "$@"\n')
    program.chmod(0o755)
    client = hand.client
    assert client.post("/v1/sessions", {"name": "t", "shell": str(program)}).status == 201
    client.post("/v1/sessions/t/kill", {})
    program.unlink()
    assert client.run("echo never", session="t").exit == -1
    for command in commands(client, "t"):
        assert command["finished"], "whoever follows it would wait for ever"
        with follow(client, command["id"]) as events:
            assert [e.kind for e in events.rest()] == ["end"]


def test_offsets(shell):
    ident = shell.run("printf 0123456789").meta["command_id"]
    reply = shell.get(f"/v1/commands/{ident}/output?offset=4")
    assert reply.body == b"456789"
    assert reply.headers["x-output-first"] == "0"
    assert reply.headers["x-output-size"] == "10"
    assert reply.headers["x-output-finished"] == "true"
    assert output(shell, ident, offset=10) == b""
    assert output(shell, ident, offset=11) == b""
    assert output(shell, ident, offset=2**63 - 1) == b""
    head = shell.request("HEAD", f"/v1/commands/{ident}/output?offset=4")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "6")


@pytest.mark.parametrize(
    "offset", ["-1", "x", "1x", "", "+1", "%201", "1.5", "0x10", "9223372036854775808", "9" * 40]
)
def test_bad_offset(shared, offset):
    ident = shared.run("true").meta["command_id"]
    reply = shared.get(f"/v1/commands/{ident}/output?offset={offset}")
    assert (reply.status, reply.detail) == (422, "offset must be a whole number, 0 or more")


def test_bad_follow(shared):
    ident = shared.run("true").meta["command_id"]
    reply = shared.get(f"/v1/commands/{ident}/output?follow=maybe")
    assert (reply.status, reply.detail) == (422, "follow must be true or false")


@pytest.mark.parametrize(
    "ident",
    ["main-0", "main-999999", "main", "-", "-1", "x-1", "main-", "main-1x", "%ff-1", "a%2Fb-1"],
)
def test_unknown_command(shared, ident):
    for query in ("", "?follow=1"):
        reply = shared.get(f"/v1/commands/{ident}/output{query}")
        assert reply.status == 404, reply
        assert reply.detail == "no such command, or its output is no longer kept"


def test_while_it_runs(shell):
    obs = shell.run("printf first; read x; printf second")
    ident = obs.meta["command_id"]
    assert obs.suffix == soft(1)
    reply = shell.get(f"/v1/commands/{ident}/output")
    assert (reply.body, reply.headers["x-output-finished"]) == (b"first", "false")
    assert commands(shell, shell.name)[-1] == {
        "id": ident,
        "size": 5,
        "first": 0,
        "finished": False,
        "path": None,
    }
    shell.input("go")
    assert output(shell, ident).endswith(b"second")
    assert commands(shell, shell.name)[-1]["finished"] is True


def test_large_output_is_whole(shell):
    obs = shell.run("seq 1 300000", timeout=50)
    ident = obs.meta["command_id"]
    data = output(shell, ident)
    assert data == b"".join(b"%d\r\n" % n for n in range(1, 300001))
    entry = commands(shell, shell.name)[-1]
    assert entry["size"] == len(data) == obs.meta["output_bytes"]
    assert entry["path"] == obs.meta["output_path"]
    for offset in (1, 8191, 8192, 8193, 1 << 20, len(data) - 1):
        assert output(shell, ident, offset=offset) == data[offset:]


def test_old_outputs_are_forgotten(shell):
    for n in range(40):
        shell.ok(f"echo {n}")
    kept = commands(shell, shell.name)
    assert [c["id"] for c in kept] == [f"{shell.name}-{n}" for n in range(9, 41)]
    assert output(shell, f"{shell.name}-9") == b"8\r\n"
    assert shell.get(f"/v1/commands/{shell.name}-8/output").status == 404


def test_id_of_a_session_with_dashes(shared_hand, ws):
    client, name = shared_hand.client, ws.name + "-2-x-1"
    assert client.post("/v1/sessions", {"name": name}).status == 201
    ident = client.run("echo hi", session=name).meta["command_id"]
    assert output(client, ident) == b"hi\r\n"
    assert client.request("DELETE", f"/v1/sessions/{name}").status == 204
    assert client.get(f"/v1/commands/{ident}/output").status == 404


# --- following ----------------------------------------------------------------------------------


def test_follow_what_is_over(shell):
    ident = shell.run("printf 0123456789").meta["command_id"]
    with follow(shell, ident) as events:
        seen = events.rest()
    assert [e.kind for e in seen] == ["output", "end"]
    assert (seen[0].bytes, seen[0].data["offset"], seen[0].id) == (b"0123456789", 0, "10")
    assert (seen[1].data, seen[1].id) == ({"offset": 10}, "10")


def test_follow_as_it_comes(shell):
    began = shell.run("for i in 1 2 3; do read x; echo got $x; done")
    ident = began.meta["command_id"]
    with follow(shell, ident) as events:
        text = b""
        for word in ("one", "two", "three"):
            assert f"got {word}".encode() not in text
            shell.input(word, timeout=2)
            while f"got {word}\r\n".encode() not in text:
                event = events.next()
                assert event.kind == "output" and event.data["offset"] == len(text)
                text += event.bytes
                assert event.id == str(len(text))
        rest = events.rest()
    assert [e.kind for e in rest][-1] == "end"
    assert output(shell, ident) == text + b"".join(e.bytes for e in rest[:-1])


def test_follow_resumes_by_offset(shell):
    ident = shell.run("seq 1 50000", timeout=50).meta["command_id"]
    whole = output(shell, ident)
    got = b""
    while True:
        # A client that breaks off after each event.
        with follow(shell, ident, offset=len(got)) as events:
            event = events.next()
        if event.kind == "end":
            break
        assert event.data["offset"] == len(got)
        got += event.bytes
    assert got == whole


def test_follow_resumes_as_a_browser_does(shell):
    """The same URL again, with the id of the last event: the id counts, not the query."""
    ident = shell.run("printf 0123456789").meta["command_id"]
    with follow(shell, ident, offset=0, headers={"Last-Event-ID": "7"}) as events:
        assert events.next().bytes == b"789"
    with follow(shell, ident, headers={"Last-Event-ID": "10"}) as events:
        assert [e.kind for e in events.rest()] == ["end"]
    assert output(shell, ident, offset=3) == b"3456789"


@pytest.mark.parametrize("last", ["x", "-1", "1 ", "9" * 30, "0x3"])
def test_follow_with_a_bad_last_event_id(shell, last):
    ident = shell.run("echo").meta["command_id"]
    reply = shell.get(
        f"/v1/commands/{ident}/output?follow=1", headers={"Last-Event-ID": f"{last}\t"}
    )
    assert reply.status in (200, 422)
    if last.strip() not in ("1",):
        assert reply.status == 422 and "Last-Event-ID" in reply.detail


def test_follow_head_ends_at_once(shell):
    ident = shell.run("read x", timeout=0.3).meta["command_id"]
    reply = shell.request("HEAD", f"/v1/commands/{ident}/output?follow=1", timeout=5)
    assert (reply.status, reply.body) == (200, b"")


def test_follow_ends_with_its_session(shell):
    ident = shell.run("printf x; sleep 60", timeout=0.3).meta["command_id"]
    with follow(shell, ident) as events:
        assert events.next().bytes == b"x"
        assert shell.post(f"/v1/sessions/{shell.name}/kill", {}).status == 200
        assert events.rest()[-1].kind == "end"


def test_follow_by_several_at_once(shell):
    results = []
    ident = shell.run("read x; seq 1 20000; sleep 0.3; echo last", timeout=0.3).meta["command_id"]

    def read():
        with follow(shell, ident) as events:
            results.append(b"".join(e.bytes for e in events.rest() if e.kind == "output"))

    readers = [threading.Thread(target=read) for _ in range(5)]
    for reader in readers:
        reader.start()
    shell.input("go", blocking=True)
    for reader in readers:
        reader.join(20)
    assert results == [output(shell, ident)] * 5


def test_many_followers_leave_room_for_others(hand):
    client = hand.client
    ident = client.run("read x; echo now", timeout=0.3).meta["command_id"]
    followers = [follow(client, ident) for _ in range(200)]
    assert client.get("/alive").status == 200
    client.input("go")
    for events in followers:
        assert events.rest()[-1].kind == "end"
        events.close()


def test_slow_follower_does_not_hold_the_command(shell):
    """It reads nothing, while the command writes far more than any buffer between them holds."""
    ident = shell.run("read x; seq 1 400000; echo done", timeout=0.3).meta["command_id"]
    with follow(shell, ident) as events:
        began = time.monotonic()
        obs = shell.input("go", blocking=True, timeout=30)
        assert obs.exit == 0 and time.monotonic() - began < 20
        got = b"".join(e.bytes for e in events.rest() if e.kind == "output")
    assert got == output(shell, ident)


@pytest.mark.slow
def test_discarded_output(start):
    """64 MB are kept: earlier bytes are gone, and both ways of reading say so."""
    client = start().client
    ident = client.run("head -c 100000000 /dev/zero | tr '\\0' x", timeout=100, blocking=True).meta[
        "command_id"
    ]
    entry = commands(client, "main")[-1]
    assert entry["size"] == 100000000 and entry["first"] > 10000000
    reply = client.get(f"/v1/commands/{ident}/output")
    assert reply.status == 410 and reply.headers["x-output-first"] == str(entry["first"])
    with follow(client, ident, timeout=60) as events:
        gap = events.next()
        assert gap.kind == "gap" and gap.data == {"offset": entry["first"]}
        assert gap.id == str(entry["first"])
        offset = entry["first"]
        while (event := events.next()).kind == "output":
            assert event.data["offset"] == offset
            offset += len(event.bytes)
        assert event.kind == "end" and offset == entry["size"]
    assert len(output(client, ident, offset=entry["first"])) == entry["size"] - entry["first"]


@pytest.mark.slow
def test_heartbeats(shell):
    ident = shell.run("sleep 40", timeout=0.3).meta["command_id"]
    with follow(shell, ident, timeout=60) as events:
        assert events.rest()[-1].kind == "end"
        assert events.beats >= 2


def test_truncated_file_ends_the_stream(hand):
    """Somebody empties the spooled file: the reader hears of it instead of waiting or spinning."""
    client = hand.client
    obs = client.run("seq 1 100000; read x", timeout=1)
    ident = obs.meta["command_id"]
    whole = sum(len(f"{n}\r\n") for n in range(1, 100001))  # what comes later would fill the file again
    wait_until(lambda: commands(client, "main")[-1]["size"] >= whole, what="spooled")
    open(commands(client, "main")[-1]["path"], "w").close()
    with follow(client, ident) as events:
        with pytest.raises(Exception):
            events.rest()
            raise AssertionError("ended as if all were well")
    with pytest.raises(Exception):
        client.get(f"/v1/commands/{ident}/output")
    client.input("C-c")

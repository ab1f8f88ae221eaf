"""Idempotency-Key: a repeated action returns the first run's observation and does not run again."""

import json
import threading
import uuid

import pytest

from client import Observation, soft
from harness import memory_limit, wait_until


def key():
    return uuid.uuid4().hex


def count(hand, name="log"):
    path = hand.workspace / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def request_bytes(action, idempotency_key):
    body = json.dumps({"action": action}).encode()
    return (
        b"POST /execute_action HTTP/1.1\r\nHost: x\r\nContent-Type: "
        b"application/json\r\nIdempotency-Key: %s\r\n"
        b"Content-Length: %d\r\n\r\n" % (idempotency_key.encode(), len(body))
    ) + body


def test_who_wants_only_a_replay_gets_nothing_else(hand):
    body = json.dumps({"action": {"action": "run", "args": {"command": "echo x >> log; wc -l < log"}}}).encode()
    headers = {"Idempotency-Key": key(), "Content-Type": "application/json"}
    replay = {**headers, "Idempotency-Expect": "replay"}
    assert hand.client.request("POST", "/execute_action", body, replay).status == 412
    assert count(hand) == 0
    first = hand.client.request("POST", "/execute_action", body, headers)
    again = hand.client.request("POST", "/execute_action", body, replay)
    assert first.status == again.status == 200 and first.body == again.body
    assert count(hand) == 1


def test_a_command_that_its_shell_was_not_given_is_not_remembered(start):
    """Its key is free until the shell has read its start-up files; then it is carried out, once."""
    hand = start()
    (hand.home / ".bashrc").write_text("sleep 2\n")
    k, ends = key(), []

    def ask():
        ends.append(hand.client.run("echo x >> log", key=k, session="slow", blocking=True, timeout=0.3))
        return ends[-1].meta["end"] != "starting"

    wait_until(ask, 30, "the shell takes it")
    assert ends[0].meta["end"] == "starting" and len(ends) > 1
    wait_until(lambda: count(hand) == 1, 30, "it was carried out")  # on a busy machine after its 0.3 s
    assert ask() and ends[-1].raw == ends[-2].raw and count(hand) == 1


def test_repeat_returns_the_stored_observation(hand):
    k = key()
    first = hand.client.run("echo x >> log; wc -l < log; date +%N", key=k)
    again = hand.client.run("echo x >> log; wc -l < log; date +%N", key=k)
    assert first.raw == again.raw and first.exit == 0
    assert count(hand) == 1
    hand.client.ok("true")
    assert hand.client.run("echo x >> log; wc -l < log; date +%N", key=k).raw == first.raw
    assert count(hand) == 1


def test_other_keys_and_no_key_run_again(hand):
    for _ in range(2):
        hand.client.run("echo x >> log", key=key())
        hand.client.run("echo x >> log")
    assert count(hand) == 4


def test_failures_are_stored_too(hand):
    k = key()
    first = hand.client.run("echo x >> log; (exit 9)", key=k)
    assert first.exit == 9
    assert hand.client.run("echo x >> log; (exit 9)", key=k).raw == first.raw
    assert count(hand) == 1
    k = key()
    first = hand.client.run("echo a\necho b", key=k)
    assert first.type == "error"
    assert hand.client.run("echo a\necho b", key=k).raw == first.raw


def test_write_and_edit(hand):
    path = hand.workspace / "f.txt"
    k = key()
    hand.client.act("write", {"path": str(path), "content": "a"}, key=k)
    path.write_text("changed since\n")
    assert hand.client.act("write", {"path": str(path), "content": "a"}, key=k).type == "write"
    assert path.read_text() == "changed since\n"
    k = key()
    args = {"path": str(path), "command": "insert", "insert_line": 0, "new_str": "top"}
    first = hand.client.act("edit", args, key=k)
    assert hand.client.act("edit", args, key=k).raw == first.raw
    assert path.read_text() == "top\nchanged since\n"


def test_repeat_after_the_connection_died(hand):
    k = key()
    action = {
        "action": "run",
        "args": {"command": "echo x >> log; sleep 0.7; echo finished", "blocking": True},
        "timeout": 20.0,
    }
    s = hand.client.socket()
    s.sendall(request_bytes(action, k))
    wait_until(lambda: count(hand) == 1)
    s.close()
    obs = Observation(hand.client.post_action(action, key=k).json)
    assert (obs.exit, obs.content) == (0, "finished")
    assert count(hand) == 1


def test_repeat_after_the_connection_died_and_the_command_ended(hand):
    k = key()
    action = {
        "action": "run",
        "args": {"command": "echo out; echo x >> log", "blocking": True},
        "timeout": 20.0,
    }
    s = hand.client.socket()
    s.sendall(request_bytes(action, k))
    s.close()
    wait_until(lambda: count(hand) == 1)
    obs = Observation(hand.client.post_action(action, key=k).json)
    assert (obs.exit, obs.content) == (0, "out")
    assert count(hand) == 1


def test_concurrent_repeats_wait_for_the_first(hand):
    k = key()
    answers = []

    def work():
        answers.append(
            hand.client.run("echo x >> log; sleep 0.5; date +%N", key=k, blocking=True).raw
        )

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(answers) == 6 and all(a == answers[0] for a in answers)
    assert count(hand) == 1


def test_soft_timeout_is_stored(hand):
    k = key()
    first = hand.client.run("echo x >> log; sleep 60", key=k)
    assert first.suffix == soft(1)
    assert hand.client.run("echo x >> log; sleep 60", key=k).raw == first.raw
    assert count(hand) == 1
    hand.client.input("C-c")


def test_stored_over_the_death_of_the_shell(hand):
    k = key()
    first = hand.client.run("echo x >> log; exit 5", key=k)
    assert hand.client.run("echo x >> log; exit 5", key=k).raw == first.raw
    assert count(hand) == 1


def test_same_key_for_another_action_never_runs_it_silently(hand):
    k = key()
    hand.client.run("echo x >> log", key=k)
    reply = hand.client.post_action(
        {"action": "run", "args": {"command": "echo x >> other"}, "timeout": 5.0}, key=k
    )
    assert reply.status == 200 or 400 <= reply.status < 500 and reply.detail
    assert count(hand, "other") == 0


@pytest.mark.parametrize(
    "odd",
    ["x" * 255, "with space", "ünï".encode().decode("latin-1"), "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"],
)
def test_odd_keys(hand, odd):
    for _ in range(2):
        reply = hand.client.post_action(
            {"action": "run", "args": {"command": "echo x >> log"}, "timeout": 5.0}, key=odd
        )
        assert reply.status == 200 or 400 <= reply.status < 500 and reply.detail
    assert count(hand) <= 1


def test_too_long_key_is_refused(hand):
    reply = hand.client.post_action(
        {"action": "run", "args": {"command": "echo x >> log"}, "timeout": 5.0}, key="x" * 5000
    )
    assert 400 <= reply.status < 500 and reply.detail
    assert count(hand) == 0


def test_an_answer_that_was_dropped_is_not_made_again(hand):
    """Answers are kept within a mebibyte; who asks for one that went is told so, and nothing runs."""
    client = hand.client
    action = {"action": "run", "args": {"command": "echo x >> log; head -c 20000 /dev/zero | tr '\\0' x"}}
    assert client.post_action({**action, "timeout": 20.0}, key="first").status == 200
    for n in range(60):
        client.run("head -c 20000 /dev/zero | tr '\\0' x", key=f"key-{n}")
    reply = client.post_action({**action, "timeout": 20.0}, key="first")
    assert reply.status == 410 and "not kept" in reply.detail
    assert count(hand) == 1


def test_many_keys_stay_bounded(hand):
    client = hand.client
    for n in range(20):
        client.run("head -c 20000 /dev/zero | tr '\\0' x", key=f"warm-{n}")
    before = hand.status("VmRSS")
    for n in range(300):
        client.run("head -c 20000 /dev/zero | tr '\\0' x", key=f"key-{n}")
    assert hand.status("VmRSS") - before < memory_limit(24 * 1024)
    last = client.run("echo x > ran", key="last")
    assert client.run("echo x > ran", key="last").raw == last.raw

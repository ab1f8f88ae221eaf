"""Servers that die, hang, flood, talk nonsense, or take their time."""

import os
import signal
import threading
import time

import pytest

from harness import STRAY, alive, wait_until
from speak import Listener, Session, SseSession, odd, servers, update


@pytest.fixture
def hand(mcp_hand):
    assert update(mcp_hand) == ""
    assert update(mcp_hand, odd()) == ""
    return mcp_hand


def test_a_server_that_dies_is_named_and_comes_back(hand):
    session = Session(hand)
    answer = session.tool("die")
    assert answer["isError"] is True
    assert answer["content"][0]["text"] == "MCP server 'odd' was ended by SIGKILL"
    assert session.text("echo", text="again") == "odd: again"
    status = servers(hand)["odd"]
    assert (status["state"], status["restarts"]) == ("running", 1)
    assert status["last_error"] == "MCP server 'odd' was ended by SIGKILL"


def test_kill_9_while_calls_are_under_way(hand):
    session = Session(hand)
    answers = []

    def call():
        answers.append(session.tool("hang"))

    log = Listener(Session(hand).get())
    threads = [threading.Thread(target=call) for _ in range(3)]
    [t.start() for t in threads]
    wait_until(lambda: len(log.said) == 3, 60, "all calls under way")
    os.kill(servers(hand)["odd"]["pid"], signal.SIGKILL)
    [t.join(60) for t in threads]
    assert [a["content"][0]["text"] for a in answers] == ["MCP server 'odd' was ended by SIGKILL"] * 3
    assert session.text("echo", text="x") == "odd: x"


def test_strays_of_a_dead_server_are_gone(mcp_hand, tmp_path):
    update(mcp_hand)
    entry = odd()
    args = ["-c", f'{STRAY} >>"$0"; exec "$@"', f"{tmp_path}/strays", entry["command"], *entry["args"]]
    assert update(mcp_hand, {**entry, "command": "sh", "args": args}) == ""
    pid = int((tmp_path / "strays").read_text())
    assert Session(mcp_hand).text("echo", text="x") == "odd: x" and alive(pid)
    os.kill(servers(mcp_hand)["odd"]["pid"], signal.SIGKILL)
    wait_until(lambda: not alive(pid), 30, "the stray is gone")
    assert update(mcp_hand) == ""


def test_one_that_dies_again_and_again(mcp_hand):
    update(mcp_hand)
    log = update(mcp_hand, odd("bad", "--exit"), odd("good"))
    assert "exit code 3" in log
    session = Session(mcp_hand)
    answer = session.tool("bad_echo")
    assert answer["isError"] and "odd: cannot go on" in answer["content"][0]["text"]
    assert session.text("good_echo", text="x") == "good: x"


def test_subscriptions_outlive_a_crash(hand):
    session = Session(hand)
    stream = Listener(session.get())
    session.call("resources/subscribe", uri="odd://odd/3")
    session.tool("die")

    def touched():
        session.text("touch")
        return any(m["method"] == "notifications/resources/updated" for m in stream.said)

    wait_until(touched, 30, "an update after the restart")


def test_a_subscriber_can_leave_a_server_that_hangs(mcp_hand):
    update(mcp_hand, odd(timeout=3600))
    session, other = Session(mcp_hand), Session(mcp_hand)
    session.call("resources/subscribe", uri="odd://odd/3")
    other.call("resources/subscribe", uri="odd://odd/4")
    pid = servers(mcp_hand)["odd"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert session.delete() == 200
    assert other.call("resources/unsubscribe", uri="odd://odd/4") == {}
    os.kill(pid, signal.SIGCONT)
    assert other.text("echo", text="x") == "odd: x"


def test_a_call_that_hangs_ends_in_time(mcp_hand):
    update(mcp_hand, odd(timeout=1))
    session = Session(mcp_hand)
    answer = session.tool("hang")
    assert answer["isError"] and answer["content"][0]["text"] == "MCP server 'odd' did not answer within 1 s"
    assert session.text("echo", text="x") == "odd: x"
    assert servers(mcp_hand)["odd"]["restarts"] == 0


def test_one_that_is_stopped_is_replaced(mcp_hand):
    update(mcp_hand, odd(timeout=1))
    session = Session(mcp_hand)
    session.text("echo")
    pid = servers(mcp_hand)["odd"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    for _ in range(2):
        assert session.tool("echo")["isError"]
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30, "its end")
    assert session.text("echo", text="x") == "odd: x"


def test_one_that_never_says_hello_does_not_hold_others(mcp_hand):
    update(mcp_hand)
    done = threading.Thread(target=update, args=(mcp_hand, odd("mute", "--mute"), odd("good")))
    done.start()
    wait_until(lambda: servers(mcp_hand).get("good", {}).get("state") == "running", 30)
    assert servers(mcp_hand)["mute"]["state"] == "starting"
    assert Session(mcp_hand).text("good_echo", text="x") == "good: x"
    os.kill(servers(mcp_hand)["mute"]["pid"], signal.SIGKILL)
    done.join(60)
    assert not done.is_alive()


def test_a_slow_start_is_waited_for(mcp_hand):
    update(mcp_hand)
    assert update(mcp_hand, odd("slow", "--slow", 1)) == ""
    assert "echo" in Session(mcp_hand).tools()


def test_a_flood_is_survived(hand):
    session, other = Session(hand), Session(hand)
    sse = SseSession(hand)
    stream = Listener(other.get())
    assert session.text("flood", count=20000) == "flooded"
    assert session.text("echo", text="x") == "odd: x"
    assert sse.call("ping") == {}
    assert servers(hand)["odd"]["dropped"] > 0
    assert not stream.over
    sse.close()


def test_garbage_is_survived_and_noted(hand):
    session = Session(hand)
    assert session.text("garbage") == "garbage told"
    status = servers(hand)["odd"]
    assert status["noise"] >= 7 and "no MCP message" in status["last_error"]
    assert session.text("echo", text="x") == "odd: x"


def test_a_line_without_end_is_survived(hand):
    session = Session(hand)
    assert session.text("long") == "long line told"
    assert session.text("echo", text="x") == "odd: x"


def test_words_on_stdout_before_the_protocol(mcp_hand):
    assert update(mcp_hand, odd("noisy", "--noise")) == ""
    assert Session(mcp_hand).text("echo", text="x") == "noisy: x"
    assert servers(mcp_hand)["noisy"]["noise"] == 2


def test_a_version_nobody_knows(mcp_hand):
    log = update(mcp_hand, odd("future", "--version", "2099-01-01"))
    assert "it speaks MCP 2099-01-01" in log


def test_a_client_that_does_not_read_holds_nobody(hand):
    session = Session(hand)
    lazy = session.connect()
    lazy.request("GET", "/mcp", headers={"Accept": "text/event-stream", **session.headers})
    other = Session(hand)
    for _ in range(5):
        assert len(other.text("big", size=4 << 20)) == 4 << 20
        other.text("log")
    lazy.close()


def test_nothing_starts_twice(mcp_hand, tmp_path):
    update(mcp_hand)
    starts = tmp_path / "starts"
    assert update(mcp_hand, odd("a", "--count", starts, "--slow", 0.3)) == ""
    session = Session(mcp_hand)
    session.tool("die")
    threads = [threading.Thread(target=session.text, args=("echo",)) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert starts.read_text().count("started") == 2


def test_the_hand_ends_while_calls_hang(fresh_hand):
    hand = fresh_hand()
    assert update(hand, odd("a"), odd("b")) == ""
    sse = SseSession(hand)
    sse.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a_hang", "arguments": {}}})
    session = Session(hand)
    response = session.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "b_hang"}})
    assert response.status == 200
    began = time.monotonic()
    hand.stop(seconds=20)  # and nothing is left
    assert time.monotonic() - began < 20


def test_kill_9_of_the_hand_leaves_no_server(fresh_hand):
    hand = fresh_hand()
    assert update(hand, odd("a"), odd("b")) == ""
    pids = [s["pid"] for s in servers(hand).values()]
    hand.kill9()
    wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), 30, "the servers' end")

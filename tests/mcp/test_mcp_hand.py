"""Servers behind the hand: replacing them, names, and each thing a server can offer."""

import json
import os

import pytest

from client import Client
from harness import wait_until
from speak import HELLO, Failure, Listener, Session, SseSession, odd, request, servers, update

TOOLS = "echo die hang flood garbage long progress ask env log touch big slow more binary".split()


@pytest.fixture
def one(mcp_hand):
    """A hand with one odd server, fresh."""
    assert update(mcp_hand) == ""
    assert update(mcp_hand, odd()) == ""
    return mcp_hand


@pytest.fixture
def two(mcp_hand):
    assert update(mcp_hand, odd("a"), odd("b_c")) == ""
    return mcp_hand


# --- replacing ----------------------------------------------------------------------------------


def test_nothing_is_mounted_without_servers(mcp_hand):
    assert update(mcp_hand) == ""
    for method, path in [
        ("GET", "/mcp/sse"),
        ("GET", "/sse"),
        ("POST", "/mcp/messages/?session_id=" + "0" * 32),
        ("POST", "/messages/?session_id=" + "0" * 32),
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
    ]:
        reply = mcp_hand.client.request(method, path, b"{}" if method == "POST" else None)
        assert (reply.status, reply.json) == (404, {"detail": "Not Found"}), (method, path)


def test_update_really_replaces(mcp_hand):
    update(mcp_hand, odd("a"))
    session = Session(mcp_hand)
    assert session.text("echo", text="x") == "a: x"
    first = servers(mcp_hand)["a"]["pid"]
    update(mcp_hand, odd("b"))
    assert session.text("echo", text="x") == "b: x"
    assert list(servers(mcp_hand)) == ["b"]
    assert not os.path.exists(f"/proc/{first}")


def test_unchanged_servers_run_on(mcp_hand):
    update(mcp_hand, odd("a", env={"X": "1", "Y": "2"}), odd("b"))
    before = servers(mcp_hand)
    update(mcp_hand, odd("b", "--pages"), odd("c"), odd("a", env={"Y": "2", "X": "1"}))
    after = servers(mcp_hand)
    assert after["a"]["pid"] == before["a"]["pid"]
    assert after["b"]["pid"] != before["b"]["pid"]
    assert list(after) == ["b", "c", "a"]


def test_a_server_that_does_not_start_is_named(mcp_hand):
    log = update(mcp_hand, odd("good"), odd("bad", "--exit"), {"name": "none", "command": "no-such-program"})
    lines = log.split("\n")
    assert len(lines) == 2
    assert lines[0].startswith("MCP server 'bad' could not be started: MCP server 'bad' ended with exit code 3")
    assert lines[0].endswith("odd: cannot go on")
    assert lines[1].startswith("MCP server 'none' could not be started: ") and "no-such-program" in lines[1]
    assert set(Session(mcp_hand).tools()) == {f"good_{t}" for t in TOOLS}
    assert servers(mcp_hand)["bad"]["state"] == "failed"


def test_args_and_env_as_texts(mcp_hand):
    entry = odd("a")
    entry["args"] = " ".join(f"'{a}'" for a in entry["args"]) + ' --version "2025-06-18"'
    entry["env"] = "ONE=1,TWO=a b"
    assert update(mcp_hand, entry) == ""
    got = json.loads(Session(mcp_hand).text("env"))
    assert got["env"]["ONE"] == "1" and got["env"]["TWO"] == "a b"
    assert servers(mcp_hand)["a"]["version"] == "2025-06-18"


def test_environment_is_minimal(fresh_hand):
    hand = fresh_hand(env={"SECRET_OF_THE_HAND": "x", "PATH": os.environ["PATH"]})
    assert update(hand, odd(env={"MINE": "y", "TERM": "dumb"})) == ""
    got = json.loads(Session(hand).text("env"))
    assert got["cwd"] == str(hand.workspace)
    env = got["env"]
    assert "SECRET_OF_THE_HAND" not in env and env["MINE"] == "y" and env["TERM"] == "dumb"
    assert env["PATH"].endswith(":/openhands/bin") and env["HOME"] == str(hand.home)
    assert "TENDON_HAND" in env


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "a", "command": "x", "more": 1},
        {"name": "a", "command": "x", "args": "'"},
        {"name": "a", "command": "x", "args": [1]},
        {"name": "a", "command": "x", "args": ["a\0b"]},
        {"name": "a", "command": "x", "env": {"A=B": "1"}},
        {"name": "a", "command": "x", "env": {"A": 1}},
        {"name": "a", "command": "x", "timeout": 0},
    ],
)
def test_a_wrong_entry_changes_nothing(one, entry):
    before = servers(one)["odd"]["pid"]
    reply = one.client.request("POST", "/update_mcp_server", json.dumps([entry]))
    assert (reply.status, reply.detail) == (500, "An unexpected error occurred. Please try again later.")
    assert servers(one)["odd"]["pid"] == before


def test_the_same_name_twice(one):
    reply = one.client.request("POST", "/update_mcp_server", json.dumps([odd("a"), odd("a")]))
    assert reply.status == 500


def test_clients_hear_of_an_update(mcp_hand):
    update(mcp_hand, odd("a"))
    session = Session(mcp_hand)
    stream = Listener(session.get())
    update(mcp_hand, odd("a"), odd("b"))
    for kind in ("tools", "prompts", "resources"):
        stream.wait_method(f"notifications/{kind}/list_changed")
    assert "b_echo" in session.tools()


# --- names --------------------------------------------------------------------------------------


def test_names_with_one_server(one):
    session = Session(one)
    assert session.tools() == TOOLS
    assert session.text("echo", text="1") == "odd: 1"
    assert session.text("odd_echo", text="2") == "odd: 2"


def test_names_with_several_servers(two):
    session = Session(two)
    assert session.tools() == [f"{s}_{t}" for s in ("a", "b_c") for t in TOOLS]
    assert session.text("a_echo", text="1") == "a: 1"
    assert session.text("b_c_echo", text="1") == "b_c: 1"
    with pytest.raises(Failure) as unknown:
        session.tool("echo")  # either could be meant
    assert unknown.value.code == -32602 and "echo" in str(unknown.value)


def test_names_stay_good_when_servers_come_and_go(mcp_hand):
    update(mcp_hand, odd("a"))
    session = Session(mcp_hand)
    session.text("more")
    assert session.text("extra") == "extra"
    update(mcp_hand, odd("a"), odd("b"))
    assert session.text("extra") == "extra"  # only a has it
    assert session.text("a_extra") == "extra"
    update(mcp_hand, odd("a"))
    assert session.text("a_extra") == "extra"


def test_pages_are_joined(mcp_hand):
    update(mcp_hand, odd("odd", "--pages"))
    assert Session(mcp_hand).tools() == TOOLS


# --- what servers offer -------------------------------------------------------------------------


def test_prompts(two):
    session = Session(two)
    assert [p["name"] for p in session.call("prompts/list")["prompts"]] == ["a_greet", "b_c_greet"]
    got = session.call("prompts/get", name="b_c_greet", arguments={})
    assert got["messages"][0]["content"]["text"] == "b_c greets greet"


def test_resources(two):
    session = Session(two)
    uris = [r["uri"] for r in session.call("resources/list")["resources"]]
    assert uris == ["odd://a/1", "odd://b_c/1"]
    templates = session.call("resources/templates/list")["resourceTemplates"]
    assert [t["uriTemplate"] for t in templates] == ["odd://a/{n}", "odd://b_c/{n}"]
    assert session.call("resources/read", uri="odd://b_c/1")["contents"][0]["text"] == "of b_c"
    assert session.call("resources/read", uri="odd://b_c/77")["contents"][0]["text"] == "of b_c"
    with pytest.raises(Failure) as missing:
        session.call("resources/read", uri="odd://nobody/1")
    assert missing.value.code == -32002 and missing.value.data == {"k": 1}


def test_completion(two):
    session = Session(two)
    argument = {"name": "who", "value": ""}
    got = session.call("completion/complete", ref={"type": "ref/prompt", "name": "b_c_greet"}, argument=argument)
    assert got["completion"]["values"] == ["b_c:greet"]
    got = session.call("completion/complete", ref={"type": "ref/resource", "uri": "odd://a/{n}"}, argument=argument)
    assert got["completion"]["values"] == ["a:uri"]


def test_subscriptions(two):
    session, other = Session(two), Session(two)
    stream, other_stream = Listener(session.get()), Listener(other.get())
    session.call("resources/subscribe", uri="odd://b_c/5")
    session.text("b_c_touch")
    assert stream.wait_method("notifications/resources/updated")["params"] == {"uri": "odd://b_c/5"}
    session.call("resources/unsubscribe", uri="odd://b_c/5")
    session.text("b_c_touch")
    session.text("b_c_more")
    other_stream.wait_method("notifications/tools/list_changed")
    assert all(m["method"] != "notifications/resources/updated" for m in other_stream.said)
    assert len([m for m in stream.said if m["method"] == "notifications/resources/updated"]) == 1


def test_progress(one):
    session = Session(one)
    session.tool("progress", _meta={"progressToken": "mine"})
    got = [m["params"] for m in session.said if m["method"] == "notifications/progress"]
    assert [(p["progressToken"], p["progress"], p["message"]) for p in got] == [
        ("mine", 0, "p0"),
        ("mine", 1, "p1"),
        ("mine", 2, "p2"),
    ]


def test_cancelling(one):
    session, watcher = Session(one), Session(one)
    logs = Listener(watcher.get())
    response = session.post(request(7, "tools/call", name="hang", arguments={}))
    assert response.headers["Content-Type"] == "text/event-stream"
    logs.wait_log("hanging")
    session.tell("notifications/cancelled", requestId=7, reason="enough")
    assert b'"id":7' not in response.read()  # the stream ends without an answer
    logs.wait_log("cancelled")


def test_levels(one):
    loud, quiet = Session(one), Session(one)
    all_of_it, some = Listener(loud.get()), Listener(quiet.get())
    quiet.call("logging/setLevel", level="error")
    loud.text("log")
    some.wait(lambda m: m["params"]["level"] == "emergency")
    all_of_it.wait(lambda m: m["params"]["level"] == "emergency")
    assert [m["params"]["level"] for m in some.said] == ["emergency"]
    assert [m["params"]["level"] for m in all_of_it.said] == ["debug", "warning", "emergency"]
    with pytest.raises(Failure) as wrong:
        quiet.call("logging/setLevel", level="shout")
    assert wrong.value.code == -32602


@pytest.mark.parametrize(
    "method, capability, result",
    [
        ("sampling/createMessage", "sampling", {"role": "assistant", "content": {"type": "text", "text": "hm"}}),
        ("elicitation/create", "elicitation", {"action": "accept", "content": {"x": 1}}),
        ("roots/list", "roots", {"roots": [{"uri": "file:///w", "name": "w"}]}),
    ],
)
def test_questions_of_servers_reach_the_client_that_caused_them(one, method, capability, result):
    bystander = Session(one, capabilities={capability: {}})
    session = Session(one, capabilities={capability: {}})
    session.answers[method] = result
    got = json.loads(session.text("ask", method=method, params={"message": "?"}))
    assert got == {"result": result}
    assert [m["method"] for m in session.said] == [method] and not bystander.said


def test_questions_nobody_can_answer(one):
    session = Session(one)
    got = json.loads(session.text("ask", method="sampling/createMessage"))
    assert got["error"]["code"] == -32601 and "no client" in got["error"]["message"]
    assert json.loads(session.text("ask", method="roots/list")) == {"result": {"roots": []}}
    assert json.loads(session.text("ask", method="nonsense"))["error"]["code"] == -32601
    assert json.loads(session.text("ask", method="ping")) == {"result": {}}


def test_content_is_passed_on_unchanged(one):
    session = Session(one)
    assert session.tool("binary") == {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    assert session.tool("nothing of that name")["isError"] is True
    assert len(session.text("big", size=5 << 20)) == 5 << 20


def test_a_changed_list(one):
    session = Session(one)
    stream = Listener(session.get())
    session.text("more")
    stream.wait_method("notifications/tools/list_changed")
    assert session.tools() == TOOLS + ["extra"]


# --- keys ---------------------------------------------------------------------------------------


def test_the_key_in_either_header(fresh_hand):
    hand = fresh_hand(env={"SESSION_API_KEY": "k1"})
    hand.client = Client(hand.address, {"X-Session-API-Key": "k1"})
    update(hand, odd())
    for headers in ({"X-Session-API-Key": "k1"}, {"Authorization": "Bearer k1"}):
        assert Session(hand, headers=headers).text("echo", text="x") == "odd: x"
        assert SseSession(hand, headers=headers).call("ping") == {}
    for headers in ({}, {"Authorization": "Bearer k2"}, {"Authorization": "Basic k1"}):
        for method, path in (("POST", "/mcp"), ("GET", "/mcp/sse"), ("GET", "/sse")):
            body = json.dumps(request(1, "initialize", **HELLO)) if method == "POST" else None
            reply = Client(hand.address, headers).request(method, path, body)
            assert (reply.status, reply.json) == (403, {"detail": "Invalid API Key"})


# --- status -------------------------------------------------------------------------------------


def test_status(two):
    Session(two).tools()
    status = two.client.get("/v1/plugins/mcp").json
    assert status["running"] is True and status["memory"] > 0
    a = status["servers"][0]
    assert a["state"] == "running" and a["tools"] == TOOLS and a["pid"] in status["pids"]
    assert a["memory"] > 0 and a["last_error"] is None and a["version"] == "2025-11-25"


def test_stop_and_start(two):
    session = Session(two)
    pids = two.client.get("/v1/plugins/mcp").json["pids"]
    assert two.client.post("/v1/plugins/mcp/stop", {}).json["running"] is False
    wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), 30)
    assert session.text("a_echo", text="again") == "a: again"
    assert two.client.post("/v1/plugins/mcp/start", {}).json["running"] is True

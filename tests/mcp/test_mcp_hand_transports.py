"""The three ways a client can come: streamable HTTP with and without sessions, and HTTP+SSE."""

import json
import re
import socket
import threading

import pytest

from harness import wait_until
from speak import (
    BOTH,
    HELLO,
    META,
    Failure,
    Listener,
    Modern,
    Session,
    SseSession,
    events,
    odd,
    request,
    servers,
    update,
)

pytestmark = pytest.mark.concurrent


@pytest.fixture(scope="module")
def hand(mcp_hand):
    assert update(mcp_hand, odd()) == ""
    return mcp_hand


@pytest.fixture
def session(hand):
    return Session(hand)


def code(response):
    return json.loads(response.read())["error"]["code"]


# --- streamable HTTP ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked, agreed",
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ],
)
def test_versions(hand, asked, agreed):
    session = Session(hand, version=asked)
    assert session.hello["protocolVersion"] == agreed
    assert session.hello["serverInfo"]["name"] == "tendon"
    assert session.text("echo", text="x") == "odd: x"


def test_the_session_id(hand, session):
    assert re.fullmatch("[0-9a-f]{32}", session.id)
    message = request(1, "tools/list")
    assert session.post(message, {"Mcp-Session-Id": None}).status == 400
    assert session.post(message, {"Mcp-Session-Id": "0" * 32}).status == 404
    assert session.get({"Mcp-Session-Id": None}).status == 400
    assert session.post(request(1, "initialize", **HELLO)).status == 400
    assert session.delete() == 200
    assert session.post(message).status == 404
    assert session.get().status == 404
    assert session.delete() == 404


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Accept": "application/json"}, 406),
        ({"Accept": "text/event-stream"}, 406),
        ({"Accept": None}, 406),
        ({"Accept": "*/*"}, 200),
        ({"Accept": "application/*, text/event-stream;q=0.5"}, 200),
        ({"Accept": "application/jsonx, text/event-streams"}, 406),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": None}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400),
        ({"MCP-Protocol-Version": None}, 200),
        ({"Origin": "http://elsewhere.example"}, 403),
    ],
)
def test_headers(session, headers, status):
    assert session.post(request(1, "tools/list"), headers).status == status


@pytest.mark.parametrize(
    "body, status, number",
    [
        (b"", 400, -32700),
        (b"{", 400, -32700),
        (b"\xff", 400, -32700),
        (b"null", 400, -32600),
        (b"1", 400, -32600),
        (b"[]", 400, -32600),
        (b"{}", 400, -32600),
        (b'{"jsonrpc":"2.0"}', 400, -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":5}', 400, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
    ],
)
def test_bad_bodies(session, body, status, number):
    response = session.post(body)
    assert (response.status, code(response)) == (status, number)


def test_ids_come_back_as_they_were(session):
    for number in (0, -1, 2**53, "text", "", "7"):
        answer = json.loads(session.post(request(number, "ping")).read())
        assert answer == {"jsonrpc": "2.0", "id": number, "result": {}}


def test_unknown_methods(session):
    with pytest.raises(Failure) as unknown:
        session.call("no/such")
    assert unknown.value.code == -32601
    session.tell("notifications/no/such")


def test_batches_over_sse(hand):
    session = SseSession(hand, version="2025-03-26")
    assert session.post([request("one", "ping"), request("two", "tools/list")])[0] == 202
    for number in "one", "two":
        session.stream.wait(lambda m, number=number: isinstance(m, dict) and m.get("id") == number, number)
    assert session.post([])[0] == 400 and session.post([7])[0] == 400
    session.close()
    later = SseSession(hand, version="2025-06-18")
    assert later.post([request("one", "ping")])[0] == 400
    later.close()


def test_batches_where_the_version_has_them(hand):
    session = Session(hand, version="2025-03-26")
    batch = [
        request(1, "ping"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("two", "tools/call", name="echo", arguments={"text": "b"}),
    ]
    answers = json.loads(session.post(batch).read())
    assert sorted(str(a["id"]) for a in answers) == ["1", "two"]
    assert session.post([{"jsonrpc": "2.0", "method": "x"}] * 2).status == 202
    assert session.post([request(i, "ping") for i in range(100)]).status == 400


def test_the_same_id_twice_at_once(hand, session):
    watcher = Listener(Session(hand).get())
    first = session.post(request(9, "tools/call", name="hang", arguments={}))
    again = session.post(request(9, "tools/call", name="echo", arguments={}))
    assert code(again) == -32600
    session.tell("notifications/cancelled", requestId=9)
    first.read()
    watcher.wait_log("cancelled")  # which the next test shall not hear


def test_one_listening_stream(session):
    first = Listener(session.get())
    assert session.get().status == 409
    assert not first.over


def test_resuming_a_listening_stream(session):
    stream = Listener(session.get())
    session.text("more")
    stream.wait_method("notifications/tools/list_changed")
    last = stream.ids[-1]
    session.text("log")
    stream.wait(lambda m: m["params"].get("level") == "emergency")
    again = Listener(session.get({"Last-Event-ID": last}))
    again.wait(lambda m: m["params"].get("level") == "emergency")
    assert [m["params"]["level"] for m in again.said] == ["debug", "warning", "emergency"]
    assert again.ids == stream.ids[-3:]
    for wrong in ("x", "99-1", "0-99999", "-1", last + "x"):
        assert session.get({"Last-Event-ID": wrong}).status == 400


def test_resuming_a_call_whose_connection_broke(session):
    response = session.post(request(5, "tools/call", name="slow", arguments={"seconds": 1}))
    event, number, data = next(events(response))
    assert (event, data) == (None, "") and number.endswith("-0")
    response.close()
    rest = session.get({"Last-Event-ID": number})
    assert rest.status == 200, rest.read()
    answers = [json.loads(data) for _, _, data in events(rest)]
    assert [a["id"] for a in answers] == [5]
    assert answers[0]["result"]["content"][0]["text"] == "slowly"


def test_sessions_are_bounded(hand):
    first = Session(hand)
    for _ in range(70):
        last = Session(hand)
    assert last.tools()
    assert first.post(request(1, "ping")).status == 404  # idle for longest


def test_many_clients_at_once(hand):
    failures = []

    def work(name):
        try:
            session = Session(hand)
            for i in range(10):
                assert session.text("echo", text=f"{name} {i}") == f"odd: {name} {i}"
            session.delete()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures


# --- without sessions ---------------------------------------------------------------------------


@pytest.fixture
def modern(hand):
    return Modern(hand)


def test_modern_requests_stand_alone(modern):
    found = modern.call("server/discover")
    assert found["supportedVersions"][0] == "2026-07-28" and found["resultType"] == "complete"
    tools = modern.call("tools/list")
    assert (tools["resultType"], tools["ttlMs"], tools["cacheScope"]) == ("complete", 0, "private")
    answer = modern.call("tools/call", name="echo", arguments={"text": "x"})
    assert answer["content"][0]["text"] == "odd: x" and answer["resultType"] == "complete"
    assert modern.call("resources/read", uri="odd://nobody/1")["code"] == -32602


def test_modern_headers_must_agree(modern):
    call = {"name": "echo", "arguments": {}}
    for headers in (
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": None},
        {"Mcp-Name": "other"},
        {"Mcp-Name": None},
        {"Mcp-Name": "=?base64?!!!?="},
        {"MCP-Protocol-Version": None},
        {"MCP-Protocol-Version": "2025-11-25"},
    ):
        response = modern.post("tools/call", headers, **call)
        assert (response.status, code(response)) == (400, -32020), headers
    assert modern.post("tools/call", {"Mcp-Name": "=?base64?ZWNobw==?="}, **call).status == 200


def test_modern_refusals(modern):
    future = "2030-01-01"
    response = modern.post("tools/list", {"MCP-Protocol-Version": future}, {META + "protocolVersion": future})
    assert (response.status, code(response)) == (400, -32022)
    for key in ("protocolVersion", "clientCapabilities"):
        response = modern.post("tools/list", meta={META + key: None})
        assert (response.status, code(response)) == (400, -32602)
    for method in ("ping", "logging/setLevel", "resources/subscribe", "initialize", "no/such"):
        response = modern.post(method)
        assert (response.status, code(response)) == (404, -32601), method


def test_modern_hanging_up_cancels(hand, modern):
    watcher = Listener(Session(hand).get())
    response = modern.post("tools/call", name="hang", arguments={})
    assert response.headers["Content-Type"] == "text/event-stream"
    watcher.wait_log("hanging")
    response.close()
    watcher.wait_log("cancelled")


def test_modern_listening(hand, modern):
    wishes = {"toolsListChanged": True, "resourceSubscriptions": ["odd://odd/7"]}
    stream = Listener(modern.post("subscriptions/listen", notifications=wishes))
    first = stream.wait_method("notifications/subscriptions/acknowledged")["params"]
    assert first == {"_meta": {META + "subscriptionId": "m"}, "notifications": wishes}

    def touched():
        modern.call("tools/call", name="touch", arguments={})
        return any(m["method"] == "notifications/resources/updated" for m in stream.said)

    wait_until(touched, 30, "the resource's update")
    updated = stream.wait_method("notifications/resources/updated")["params"]
    assert updated == {"_meta": {META + "subscriptionId": "m"}, "uri": "odd://odd/7"}
    modern.call("tools/call", name="more", arguments={})
    stream.wait_method("notifications/tools/list_changed")
    modern.call("tools/call", name="log", arguments={})
    assert all("message" != m["method"].split("/")[-1] for m in stream.said)


# --- HTTP+SSE -----------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["/mcp", ""])
def test_sse(hand, prefix):
    session = SseSession(hand, prefix)
    assert re.fullmatch(re.escape(prefix) + r"/messages/\?session_id=[0-9a-f]{32}", session.told)
    assert session.hello["protocolVersion"] == "2024-11-05"
    assert session.call("ping") == {}
    assert "echo" in [t["name"] for t in session.call("tools/list")["tools"]]
    answer = session.call("tools/call", name="echo", arguments={"text": "x"})
    assert answer["content"][0]["text"] == "odd: x"
    session.close()


@pytest.mark.parametrize("prefix", ["/mcp", ""])
@pytest.mark.parametrize("value", ["/somewhere", "", "//elsewhere.example"])
def test_sse_below_a_proxys_prefix(hand, prefix, value):
    """Where to post is told as seen from the stream, whatever the prefix is said to be."""
    session = SseSession(hand, prefix, headers={"X-Forwarded-Prefix": value})
    assert re.fullmatch(r"messages/\?session_id=[0-9a-f]{32}", session.told)
    assert session.call("ping") == {}
    session.close()


def test_sse_notifications_and_progress(hand):
    session = SseSession(hand)
    session.call("tools/call", name="progress", arguments={}, _meta={"progressToken": 3})
    got = [m["params"]["progress"] for m in session.stream.said if type(m) is dict and "params" in m]
    assert got == [0, 1, 2]
    session.close()


def test_sse_posts(hand):
    session = SseSession(hand)
    assert session.post(b"{") == (400, "Could not parse message")
    for endpoint, answer in [
        ("/mcp/messages/", (400, "session_id is required")),
        ("/mcp/messages/?session_id=zz", (400, "Invalid session ID")),
        ("/mcp/messages/?session_id=" + "0" * 32, (404, "Could not find session")),
    ]:
        session.endpoint = endpoint
        assert session.post(request(1, "ping")) == answer
    session.close()


def test_sse_needs_hello_first(hand):
    session = SseSession(hand, hello=False)
    with pytest.raises(Failure) as early:
        session.call("tools/list")
    assert early.value.code == -32600
    session.call("initialize", **HELLO)
    with pytest.raises(Failure):
        session.call("initialize", **HELLO)
    session.close()


def test_sse_client_that_leaves_cancels_its_calls(hand):
    watcher = Listener(Session(hand).get())
    session = SseSession(hand)
    session.post(request(1, "tools/call", name="hang", arguments={}))
    watcher.wait_log("hanging")
    session.close()
    watcher.wait_log("cancelled")


@pytest.mark.slow
def test_sse_heartbeat(hand):
    with socket.create_connection(hand.address, timeout=60) as raw:
        raw.sendall(b"GET /mcp/sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got = b""
        while b"session_id" not in got:
            got += raw.recv(4096)
        assert b"\n:" in b"\n" + raw.recv(4096).split(b"\r\n", 1)[1]


def test_accept_is_not_asked_of_old_clients(hand):
    assert SseSession(hand, headers={"Accept": BOTH}).call("ping") == {}
    assert servers(hand)["odd"]["state"] == "running"

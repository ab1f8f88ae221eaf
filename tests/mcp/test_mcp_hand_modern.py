"""Servers that speak only the revision without sessions (2026-07-28) behind the hand, for clients of every kind."""

import json
import os
import pathlib
import signal
import sys

import pytest

from harness import wait_until
from speak import META, Listener, Modern, Session, SseSession, events, odd, servers, update

pytestmark = pytest.mark.concurrent
MODERN = pathlib.Path(__file__).resolve().parent / "servers" / "modern.py"
ENTRY = {"name": "new", "command": sys.executable, "args": [str(MODERN)]}
ASKS = "test_input_required_result_"
ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"name": "Alice", "color": "blue"}},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"},
    "roots/list": {"roots": [{"uri": "file:///r", "name": "r"}]},
}
ALL = {"elicitation": {}, "sampling": {}, "roots": {}}


@pytest.fixture(scope="module")
def hand(mcp_hand):
    assert update(mcp_hand, ENTRY) == ""
    return mcp_hand


@pytest.fixture
def session(hand):
    """A client with a session that answers whatever it is asked."""
    session = Session(hand, capabilities=ALL)
    session.answers = ANSWERS
    return session


@pytest.fixture
def modern(hand):
    return Modern(hand)


def capabilities(*names):
    return {META + "clientCapabilities": {name: {} for name in names}}


def text(result):
    return result["content"][0]["text"]


def listened(session):
    """What the server is to tell, one object for each stream."""
    return json.loads(session.text("touch", uri="test://nobody"))


def test_it_is_spoken_to_without_a_handshake(hand, session):
    status = servers(hand)["new"]
    assert (status["state"], status["version"], status["server"]) == ("running", "2026-07-28", "modern")
    assert "in_header" in session.tools()
    told = json.loads(session.text("told"))
    assert told[:2] == ["initialize", "server/discover"]
    assert not {"ping", "logging/setLevel", "resources/subscribe"} & set(told)


# --- questions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tool, said", [("elicitation", "Hello, Alice!"), ("sampling", "Paris"),
                                        ("list_roots", '[{"uri": "file:///r", "name": "r"}]'),
                                        ("multi_round", "Alice likes blue"), ("request_state", "state-ok")])
def test_a_client_with_a_session_is_asked_in_the_middle(session, tool, said):
    result = session.tool(ASKS + tool)
    assert text(result) == said
    assert not {"resultType", "inputRequests", "requestState", "ttlMs"} & set(result)
    assert all("id" in m for m in session.said) and session.said


def test_all_that_is_asked_at_once(session):
    answers = json.loads(session.text(ASKS + "multiple_inputs"))
    assert answers == list(ANSWERS.values())
    assert [m["method"] for m in session.said] == list(ANSWERS)


def test_prompts_ask_too(session):
    session.answers = {"elicitation/create": {"action": "accept", "content": {"context": "of war"}}}
    result = session.call("prompts/get", name=ASKS + "prompt")
    assert result["messages"][0]["content"]["text"] == "of war"


def test_over_sse(hand):
    client = SseSession(hand, capabilities={"elicitation": {}}, answers=ANSWERS)
    result = client.call("tools/call", name=ASKS + "elicitation", arguments={})
    assert text(result) == "Hello, Alice!"
    client.close()


def test_who_cannot_be_asked(hand):
    client = Session(hand, capabilities={"sampling": {}})
    result = client.tool(ASKS + "elicitation")
    assert result["isError"]
    assert text(result) == "MCP server 'new' asks for 'elicitation/create', which this client cannot answer"
    assert text(client.tool(ASKS + "list_roots")) == "[]"


def test_only_what_a_client_can_is_declared(hand, session, modern):
    assert session.tool("meta") and json.loads(session.text("meta"))[META + "clientCapabilities"] == ALL
    assert json.loads(Session(hand).text("meta"))[META + "clientCapabilities"] == {}
    meta = json.loads(text(modern.call("tools/call", name="meta", meta={**capabilities("sampling"), "x/y": 1})))
    assert meta[META + "clientCapabilities"] == {"sampling": {}} and meta["x/y"] == 1
    assert meta[META + "clientInfo"]["name"] == "tendon-hand"


def test_a_client_that_refuses(session):
    session.answers = {"elicitation/create": {"action": "decline"}}
    assert session.text(ASKS + "elicitation") == "Hello, whoever you are!"
    session.answers = {}
    with pytest.raises(KeyError):
        session.text(ASKS + "elicitation")  # it hangs up instead
    assert session.text("test_simple_text").startswith("This is")


def test_a_server_that_never_has_enough(session):
    result = session.tool("insatiable")
    assert result["isError"] and "asks and asks" in text(result)


def test_a_client_without_a_session_gets_the_question(modern):
    call = {"name": ASKS + "elicitation", "arguments": {}, "meta": capabilities("elicitation")}
    asked = modern.call("tools/call", **call)
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"]["user_name"]["method"] == "elicitation/create"
    responses = {"user_name": {"action": "accept", "content": {"name": "Bob"}}}
    done = modern.call("tools/call", inputResponses=responses, requestState=asked["requestState"], **call)
    assert (text(done), done["resultType"]) == ("Hello, Bob!", "complete")
    wrong = modern.call("tools/call", inputResponses=responses, requestState=asked["requestState"] + "x", **call)
    assert wrong["code"] == -32602


def test_a_missing_capability_is_told_by_the_status(modern):
    response = modern.post("tools/call", name="test_missing_capability", arguments={})
    error = json.loads(response.read())["error"]
    assert (response.status, error["code"]) == (400, -32021)
    assert error["data"] == {"requiredCapabilities": {"sampling": {}}}


# --- headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, headers, status", [
    ({"region": "eu"}, {"Mcp-Param-Region": "eu"}, 200),
    ({"region": "eu"}, {"mcp-param-region": "=?base64?ZXU=?="}, 200),
    ({"region": "eu"}, {}, 400),
    ({"region": "eu"}, {"Mcp-Param-Region": "us"}, 400),
    ({"region": "eu"}, {"Mcp-Param-Region": "=?base64?ZXU?="}, 400),
    ({"region": None}, {}, 200),
    ({}, {}, 200),
    ({}, {"Mcp-Param-Region": "eu"}, 400),
    ({"count": 42}, {"Mcp-Param-Count": "42"}, 200),
    ({"count": 42}, {"Mcp-Param-Count": "42.0"}, 200),
    ({"count": 42}, {"Mcp-Param-Count": "43"}, 400),
    ({"count": 42.0}, {}, 400),
    ({"region": "eu", "other": 1}, {"Mcp-Param-Region": "eu", "Mcp-Param-Other": "2"}, 200),
])
def test_arguments_in_headers(modern, arguments, headers, status):
    response = modern.post("tools/call", headers, name="in_header", arguments=arguments)
    answer = json.loads(response.read())
    assert response.status == status, answer
    if status == 400:
        assert answer["error"]["code"] == -32020
    else:
        assert json.loads(text(answer["result"])) == arguments


def test_clients_with_sessions_need_no_headers(session):
    assert json.loads(session.text("in_header", region="eu")) == {"region": "eu"}


# --- logging ------------------------------------------------------------------------------------


def logged(modern, tool, level=None):
    """What is logged for a call."""
    response = modern.post("tools/call", name=tool, arguments={}, meta={META + "logLevel": level})
    if response.headers["Content-Type"] == "application/json":
        return []
    messages = [json.loads(data) for _, _, data in events(response)]
    assert "result" in messages[-1]
    return [m["params"]["data"] for m in messages[:-1]]


def test_what_is_logged_comes_with_the_request(modern):
    assert logged(modern, "test_logging_tool") == []
    assert logged(modern, "test_logging_tool", "debug") == ["a debug", "a warning"]
    assert logged(modern, "test_logging_tool", "info") == ["a warning"]
    assert logged(modern, "test_logging_tool", "no such level") == []


def test_a_session_sets_the_level(hand):
    client = Session(hand)
    client.call("logging/setLevel", level="warning")
    stream = Listener(client.get())
    client.text("test_logging_tool")
    stream.wait_log("a warning")
    assert [m["params"]["data"] for m in stream.said if m.get("method") == "notifications/message"] == ["a warning"]


# --- changes ------------------------------------------------------------------------------------


def test_changes_are_told(hand, session, modern):
    stream = Listener(session.get())
    listener = Listener(modern.post("subscriptions/listen", notifications={"promptsListChanged": True}))
    listener.wait_method("notifications/subscriptions/acknowledged")
    session.text("test_trigger_tool_change")
    session.text("test_trigger_prompt_change")
    told = stream.wait_method("notifications/tools/list_changed")
    assert META + "subscriptionId" not in json.dumps(told)
    stream.wait_method("notifications/prompts/list_changed")
    heard = listener.wait_method("notifications/prompts/list_changed")
    assert heard["params"]["_meta"] == {META + "subscriptionId": "m"}
    assert "notifications/tools/list_changed" not in [m["method"] for m in listener.said]


def test_one_stream_has_all_that_clients_want(hand, session, modern):
    session.call("resources/subscribe", uri="test://static-text")
    other = Session(hand)
    other.call("resources/subscribe", uri="test://static-text")
    other.call("resources/subscribe", uri="test://watched-resource")
    wishes = {"resourceSubscriptions": ["test://static-binary"]}
    listener = Listener(modern.post("subscriptions/listen", notifications=wishes))
    listener.wait_method("notifications/subscriptions/acknowledged")

    def subscribed(*uris):
        now = listened(session)
        return len(now) == 1 and now[0] == {
            "toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True,
            "resourceSubscriptions": [f"test://{uri}" for uri in uris]}

    wait_until(lambda: subscribed("static-binary", "static-text", "watched-resource"), 30, "one stream with all")
    streams = {"session": Listener(session.get()), "other": Listener(other.get()), "listener": listener}
    for uri in ("test://static-text", "test://watched-resource", "test://static-binary"):
        session.text("touch", uri=uri)
    updates = "notifications/resources/updated"
    for name, uri in [("session", "static-text"), ("other", "watched-resource"), ("listener", "static-binary")]:
        streams[name].wait(lambda m, uri=uri: m.get("method") == updates and m["params"]["uri"] == f"test://{uri}")
    assert [m["params"]["uri"] for m in streams["session"].said if m["method"] == updates] == ["test://static-text"]
    listener.close()
    other.call("resources/unsubscribe", uri="test://watched-resource")
    wait_until(lambda: subscribed("static-text"), 30, "what is left")
    assert other.delete() == 200
    session.call("resources/unsubscribe", uri="test://static-text")
    wait_until(lambda: subscribed(), 30, "nothing left")


def test_more_than_can_be_listened_to_is_refused(session):
    for number in range(20):
        uri = f"test://{number}/" + "x" * (128 << 10)
        if number < 15:
            assert session.call("resources/subscribe", uri=uri) == {}
    with pytest.raises(Exception, match="need more than 2 MB"):
        for number in range(15, 18):
            session.call("resources/subscribe", uri=f"test://{number}/" + "x" * (128 << 10))
    assert len(listened(session)[0]["resourceSubscriptions"]) == 15
    assert session.delete() == 200


def test_after_its_end_it_is_listened_to_again(hand, session):
    session.call("resources/subscribe", uri="test://static-text")
    before = servers(hand)["new"]["pid"]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: servers(hand)["new"]["pid"] != before, 30, "the end")
    wait_until(lambda: listened(session)[0]["resourceSubscriptions"] == ["test://static-text"], 30, "the subscription")
    assert session.delete() == 200


def test_one_that_ends_what_it_tells_by_is_listened_to_again(session):
    session.call("resources/subscribe", uri="test://static-text")
    for _ in range(3):  # too soon for that, and later
        assert session.text("hang_up") == "hung up"
        wait_until(lambda: [w["resourceSubscriptions"] for w in listened(session)] == [["test://static-text"]], 30,
                   "one stream")
    assert session.delete() == 200


# --- beside others ------------------------------------------------------------------------------


def test_beside_an_older_server(fresh_hand):
    hand = fresh_hand()
    assert update(hand, odd(), ENTRY) == ""
    session = Session(hand, capabilities=ALL)
    session.answers = ANSWERS
    assert session.text("odd_echo", text="x") == "odd: x"
    assert session.text("new_" + ASKS + "elicitation") == "Hello, Alice!"
    assert session.call("resources/subscribe", uri="test://static-text") == {}
    assert session.call("resources/subscribe", uri="odd://odd/7") == {}
    modern = Modern(hand)
    assert logged(modern, "odd_log", "info") and logged(modern, "odd_log") == []
    response = modern.post("tools/call", name="new_in_header", arguments={"region": "eu"})
    assert response.status == 400

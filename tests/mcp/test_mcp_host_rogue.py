"""The MCP client against servers over HTTP that misbehave."""

import json
import socket
import threading

import pytest

from toolboxes import Mailbox, Server, eventually, rpc, text_result

LOST = "the answer is lost; the call is not repeated, because it may have been carried out"


class Tools:
    def tool_echo(self, handler, message):
        return text_result(message, message["params"]["arguments"].get("text", ""))


@pytest.fixture
def serve():
    servers = []

    def make(tools, **options):
        servers.append(Server(tools, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def both(serve, open_toolbox):
    """both(tools, **server) -> a server of these tools and a toolbox that knows it."""

    def make(tools, timeout=30, **options):
        server = serve(tools)
        for name, value in options.items():
            setattr(server, name, value)
        return server, open_toolbox(shttp=[{"url": server.url, "api_key": "the-key", "timeout": timeout}])

    return make


# --- the ordinary ---------------------------------------------------------------------------


def test_headers_session_and_goodbye(both):
    server, toolbox = both(Tools())
    assert toolbox.text("echo", text="hi") == "hi"
    assert toolbox.text("echo", text="ho") == "ho"
    assert server.methods().count("initialize") == 1 and server.methods().count("tools/list") == 1
    hello = server.methods().index("initialize")
    first, then = server.seen[hello][2], server.seen[-1][2]
    for headers in first, then:
        assert headers["Authorization"] == "Bearer the-key"
        assert headers["s"] == headers["X-Session-API-Key"] == "the-key"
        assert headers["X-OpenHands-ServerConversation-ID"] == "drive"
        assert "application/json" in headers["Accept"] and "text/event-stream" in headers["Accept"]
    assert "Mcp-Session-Id" not in first and "MCP-Protocol-Version" not in first
    for method, name, headers in server.seen[hello + 1:]:
        assert headers["Mcp-Session-Id"] == "session-1" and headers["MCP-Protocol-Version"] == "2025-11-25", name
    toolbox.driver.stdin.close()
    eventually(lambda: server.seen[-1][0] == "DELETE", "DELETE at the end")


def test_every_page_of_the_list(both):
    pages = {None: ("a", "1"), "1": ("b", "2"), "2": ("c", None)}

    class Paged(Tools):
        def post(self, handler, message):
            if message.get("method") != "tools/list":
                return False
            name, then = pages[message.get("params", {}).get("cursor")]
            result = {"tools": [{"name": name, "inputSchema": {}}], **({"nextCursor": then} if then else {})}
            handler.reply(200, json.dumps(rpc(message, result=result)).encode())
            return True

    assert both(Paged())[1].names() == ["a", "b", "c"]


@pytest.mark.concurrent
def test_a_list_that_changes(both):
    mail, names = Mailbox(), ["echo"]

    class Changing(Tools):
        def get(self, handler):
            handler.stream()
            handler.event(mail.get())
            mail.get()
            return True

    server, toolbox = both(Changing(), capabilities={"tools": {"listChanged": True}})
    server.listed = lambda message: [{"name": name, "inputSchema": {}} for name in names]
    assert toolbox.text("echo", text="x") == "x"
    assert toolbox.text("echo", text="x") == "x"
    assert server.methods().count("tools/list") == 1
    eventually(lambda: any(seen[0] == "GET" for seen in server.seen), "it listens")
    names.append("more")
    mail.put({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    eventually(lambda: "more" in toolbox.names(), "the new tool")
    mail.put(None)


@pytest.mark.concurrent
def test_an_answer_as_a_stream_with_a_ping_in_it(both):
    ponged = threading.Event()

    class Streaming(Tools):
        def post(self, handler, message):
            if "result" in message and message["id"] == "p1":
                ponged.set()
            if "error" in message and message["id"] == "e1":
                assert message["error"]["code"] == -32601
            return False

        def tool_echo(self, handler, message):
            handler.stream()
            handler.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
            handler.event({"jsonrpc": "2.0", "id": "e1", "method": "elicitation/create", "params": {}})
            handler.event({"jsonrpc": "2.0", "id": "p1", "method": "ping"})
            assert ponged.wait(60)
            handler.wfile.write(b": a comment\r\n\r\nevent: other\r\ndata: not ours\r\n\r\n")
            handler.event(text_result(message, "streamed"))
            threading.Event().wait(60)  # which the client does not wait for

    assert both(Streaming())[1].text("echo") == "streamed"


def test_a_redirection_within_the_server(both):
    class Moved(Tools):
        def post(self, handler, message):
            if handler.path == "/mcp":
                handler.reply(307, Location="/mcp/")
                return True
            return False

    server, toolbox = both(Moved())
    assert toolbox.text("echo", text="moved") == "moved"
    assert server.calls() == 1


@pytest.mark.parametrize("place", ["http://127.0.0.1:9/mcp", "//127.0.0.1/x", "https://127.0.0.1/mcp"])
def test_the_key_goes_nowhere_else(both, place):
    class Luring(Tools):
        def post(self, handler, message):
            handler.reply(307, Location=place)
            return True

    server, toolbox = both(Luring())
    assert "another place, which is not allowed" in toolbox.error("echo")


# --- sessions that end ----------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 400])
def test_a_forgotten_session_is_begun_anew(both, status):
    class Forgetful(Tools):
        def post(self, handler, message):
            if "Mcp-Session-Id" in handler.headers and handler.headers["Mcp-Session-Id"] != handler.server.session:
                handler.reply(status)
                return True
            return False

    server, toolbox = both(Forgetful())
    assert toolbox.text("echo", text="1") == "1"
    server.session = "session-2"
    assert toolbox.text("echo", text="2") == "2"
    assert server.methods().count("initialize") == 2


def test_a_server_that_comes_back(serve, open_toolbox):
    server = serve(Tools())
    toolbox = open_toolbox(shttp=[server.url])
    assert toolbox.text("echo", text="1") == "1"
    server.close()
    seen = toolbox.ask("call", name="echo", timeout=60)
    assert "connect" in seen["content"] and "lost" not in seen["content"]
    again = Server(Tools(), port=server.port)
    again.session = "another"
    try:
        eventually(lambda: toolbox.ask("call", name="echo", timeout=60)["observation"] == "mcp", "it is back")
        assert toolbox.text("echo", text="2") == "2"
    finally:
        again.close()


# --- answers that do not come ---------------------------------------------------------------


def test_death_in_the_middle_of_an_answer(both):
    class Dying(Tools):
        def tool_json(self, handler, message):
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"jsonrpc":')
            handler.wfile.flush()
            handler.hang_up()

        def tool_stream(self, handler, message):
            handler.stream()
            handler.wfile.write(b'data: {"jsonrpc":')
            handler.wfile.flush()
            handler.hang_up()

        def tool_silent(self, handler, message):
            handler.hang_up()

        def tool_accepted(self, handler, message):
            handler.reply(202)

    server, toolbox = both(Dying())
    for number, name in enumerate(["json", "stream", "silent", "accepted"], 1):
        assert LOST in toolbox.failure(name), name
        assert server.calls() == number, f"{name} was repeated"
    assert toolbox.text("echo", text="alive") == "alive"


def test_the_rest_of_a_stream_is_asked_for(both):
    waiting = {}

    class Breaking(Tools):
        def tool_broken(self, handler, message):
            waiting["message"] = message
            handler.stream()
            handler.event("", id="e-1", retry=10)

        def get(self, handler):
            waiting.setdefault("asked", []).append(handler.headers["Last-Event-ID"])
            handler.stream()
            if len(waiting["asked"]) == 1:
                handler.event("", id="e-2")
            else:
                handler.event(text_result(waiting["message"], "resumed"))
            return True

    server, toolbox = both(Breaking())
    assert toolbox.text("broken") == "resumed"
    assert waiting["asked"] == ["e-1", "e-2"] and server.calls() == 1


def test_a_rest_that_is_refused(both):
    class Breaking(Tools):
        def tool_broken(self, handler, message):
            handler.stream()
            handler.event("", id="e-1", retry=1)

    server, toolbox = both(Breaking())
    assert LOST in toolbox.failure("broken")
    assert server.calls() == 1


@pytest.mark.concurrent
def test_a_call_that_hangs(both):
    let_go, told = threading.Event(), Mailbox()

    class Hanging(Tools):
        def post(self, handler, message):
            if message.get("method") == "notifications/cancelled":
                told.put(message["params"])
            return False

        def tool_hang(self, handler, message):
            let_go.wait(60)

        def tool_endless(self, handler, message):
            handler.stream()
            while not let_go.wait(0.05):
                handler.wfile.write(b": still here\n\n")

    server, toolbox = both(Hanging(), timeout=1)
    assert toolbox.failure("hang") == 'Tool "hang" timed out after 1 seconds'
    assert toolbox.failure("endless") == 'Tool "endless" timed out after 1 seconds'
    assert toolbox.failure("hang", timeout=0.5) == 'Tool "hang" timed out after 0.5 seconds'
    assert {"requestId", "reason"} == set(told.get())
    assert server.calls() == 3
    let_go.set()
    assert toolbox.text("echo", text="alive") == "alive"


def test_a_server_that_never_answers(serve, open_toolbox):
    """It does not keep the tools of others from being used."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        server = serve(Tools())
        toolbox = open_toolbox(shttp=[f"http://127.0.0.1:{deaf.getsockname()[1]}/mcp", server.url])
        assert toolbox.text("echo", timeout=3, text="x") == "x"


# --- nonsense -------------------------------------------------------------------------------


def test_nonsense(both):
    class Nonsense(Tools):
        def tool_garbage(self, handler, message):
            handler.reply(200, b"\xff\xfe{{{")

        def tool_html(self, handler, message):
            handler.reply(200, b"<html>hello</html>", type="text/html")

        def tool_list(self, handler, message):
            return [1, 2]

        def tool_other_id(self, handler, message):
            return {**text_result(message, "x"), "id": 99999}

        def tool_no_content(self, handler, message):
            return rpc(message, result={})

        def tool_strange(self, handler, message):
            return rpc(message, result={"content": [{"type": "hologram", "x": 1}, 7], "isError": "no", "more": True})

        def tool_refused(self, handler, message):
            handler.reply(500, b"out of order")

        def tool_error(self, handler, message):
            return rpc(message, error={"code": -32000, "message": "no such luck"})

        def tool_bad_events(self, handler, message):
            handler.stream()
            handler.wfile.write(b"data: {{{\n\ndata: [1]\n\n" + b"nonsense\n" * 100)
            handler.event(text_result(message, "after all"))

    server, toolbox = both(Nonsense())
    for name in "garbage", "list", "other_id":
        assert LOST in toolbox.failure(name), name
    assert "expected JSON or a stream of events, got text/html" in toolbox.failure("html")
    assert "out of order (HTTP 500)" in toolbox.failure("refused")
    assert toolbox.failure("error") == "no such luck"
    empty = {"meta": None, "content": [], "structuredContent": None, "isError": False}
    assert toolbox.call("no_content") == empty
    assert toolbox.call("strange") == {**empty, "content": [{"type": "hologram", "x": 1}, 7], "more": True}
    assert toolbox.text("bad_events") == "after all"
    assert toolbox.text("echo", text="alive") == "alive"


def test_floods(both):
    def flood(handler, piece):
        try:
            for _ in range(40):
                handler.wfile.write(piece * (1 << 20))
        except OSError:
            pass
        handler.close_connection = True

    class Flooding(Tools):
        def tool_json(self, handler, message):
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Connection", "close")
            handler.end_headers()
            flood(handler, b" ")

        def tool_line(self, handler, message):
            handler.stream()
            handler.wfile.write(b"data: ")
            flood(handler, b"x")

        def tool_error(self, handler, message):
            handler.send_response(500)
            handler.send_header("Connection", "close")
            handler.end_headers()
            flood(handler, b"e")

        def tool_large(self, handler, message):
            return text_result(message, "l" * (4 << 20))

    server, toolbox = both(Flooding())
    assert "more than" in toolbox.failure("json")
    assert "longer than" in toolbox.failure("line")
    assert "(HTTP 500)" in toolbox.failure("error")
    assert len(toolbox.text("large")) == 4 << 20
    assert server.calls() == 4


@pytest.mark.parametrize("step, complaint", [(0, "the same page again and again"), (1, "does not end")])
def test_pages_without_end(both, step, complaint):
    class Endless(Tools):
        page = 0

        def post(self, handler, message):
            if message.get("method") != "tools/list":
                return False
            self.page += step
            result = {"tools": [], "nextCursor": f"page {self.page}"}
            handler.reply(200, json.dumps(rpc(message, result=result)).encode())
            return True

    assert complaint in both(Endless())[1].error("echo")


# --- refusals -------------------------------------------------------------------------------


def test_nobody_and_nothing(both, open_toolbox):
    assert open_toolbox().error("x") == "No MCP clients found"
    toolbox = both(Tools())[1]
    assert toolbox.error("x") == "No matching MCP agent found for tool name: x"
    unreachable = open_toolbox(sse=["http://127.0.0.1:1/sse"], shttp=["ws://127.0.0.1/mcp"])
    seen = unreachable.error("x")
    assert seen.startswith("No MCP clients found (http://127.0.0.1:1/sse: ")
    assert "ws://127.0.0.1/mcp: MCP is spoken over http:// and https:// only" in seen


def test_a_wrong_key_is_told_without_it(both):
    class Closed(Tools):
        def post(self, handler, message):
            handler.reply(401, b'{"detail":"wrong key"}')
            return True

    seen = both(Closed())[1].error("echo")
    assert "wrong key (HTTP 401)" in seen and "the-key" not in seen


def test_a_version_nobody_speaks(both):
    class Future(Tools):
        def post(self, handler, message):
            result = {"protocolVersion": "2999-01-01", "capabilities": {}, "serverInfo": {}}
            handler.reply(200, json.dumps(rpc(message, result=result)).encode())
            return True

    assert "2999-01-01" in both(Future())[1].error("echo")


# --- HTTP+SSE -------------------------------------------------------------------------------


class Older(Tools):
    """HTTP+SSE as a hook: a stream, and messages that are answered on it."""

    endpoint = "/messages?session_id=1"

    def __init__(self):
        self.mail = Mailbox()

    def get(self, handler):
        handler.stream()
        handler.wfile.write(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
        while (message := self.mail.get()) is not None:
            handler.event(message)
        return True

    def post(self, handler, message):
        if handler.path != self.endpoint:
            handler.reply(405)
            return True
        handler.reply(202)
        method = message.get("method")
        if method == "initialize":
            result = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
            self.mail.put(rpc(message, result=result))
        elif method == "tools/list":
            self.mail.put(handler.server.list(message))
        elif method == "tools/call":
            self.mail.put(getattr(self, "tool_" + message["params"]["name"])(handler, message))
        return True

    def tool_quit(self, handler, message):
        return None  # the end of the stream


@pytest.mark.concurrent
def test_the_older_transport(serve, open_toolbox):
    server = serve(Older())
    toolbox = open_toolbox(sse=[{"url": server.url, "api_key": "k"}])
    assert toolbox.text("echo", text="older") == "older"
    assert LOST in toolbox.failure("quit")
    assert toolbox.text("echo", text="again") == "again"
    assert server.methods().count("initialize") == 2 and server.calls() == 3


@pytest.mark.parametrize("place", ["http://127.0.0.1:9/x", "//evil/x", "/a b"])
def test_the_older_transport_stays_where_it_is(serve, open_toolbox, place):
    tools = Older()
    tools.endpoint = place
    server = serve(tools)
    assert "which is not allowed" in open_toolbox(sse=[server.url]).error("echo")
    assert server.methods() == []


def test_a_stream_that_says_nothing(serve, open_toolbox):
    let_go = threading.Event()

    class Mute(Tools):
        def get(self, handler):
            handler.stream()
            let_go.wait(60)
            return True

    server = serve(Mute())
    seen = open_toolbox(sse=[server.url]).error("echo", timeout=1)
    assert "did not say where to post messages" in seen
    let_go.set()

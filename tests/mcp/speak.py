"""MCP as a client says it, byte by byte: for what a library would never do or show."""

import http.client
import json
import os
import pathlib
import socket
import sys
import threading
import urllib.parse

ODD = pathlib.Path(__file__).resolve().parent / "servers" / "odd.py"
BOTH = "application/json, text/event-stream"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
PATIENCE = 60
META = "io.modelcontextprotocol/"


def odd(name="odd", *args, env=None, **more):
    """An entry for /update_mcp_server."""
    args = [str(ODD), "--name", name, *map(str, args)]
    return {"name": name, "command": sys.executable, "args": args, "env": env or {}, **more}


def update(hand, *entries):
    """Sets the servers and returns what could not be started."""
    reply = hand.client.request("POST", "/update_mcp_server", json.dumps(entries), timeout=PATIENCE)
    assert reply.status == 200, reply
    assert reply.json["detail"] == "MCP server updated successfully"
    return reply.json["router_error_log"]


def servers(hand):
    """{name: status} from /v1/plugins/mcp."""
    return {s["name"]: s for s in hand.client.get("/v1/plugins/mcp").json["servers"]}


def events(response):
    """(event, id, data) of a stream; comments are left out."""
    event, number, data = None, None, []
    for raw in response:
        line = raw.decode().rstrip("\n").rstrip("\r")
        if line.startswith("event:"):
            event = line[6:].strip()
        elif line.startswith("id:"):
            number = line[3:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].lstrip())
        elif not line and (data or event or number):
            yield event, number, "\n".join(data)
            event, number, data = None, None, []


def request(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class Failure(Exception):
    """A JSON-RPC error."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code, self.data = error["code"], error.get("data")


class Session:
    """A session of streamable HTTP.  One connection per message."""

    def __init__(self, hand, version="2025-11-25", capabilities=None, headers=None, path="/mcp"):
        self.client, self.path, self.headers = hand.client, path, dict(headers or {})
        self.number = 0
        self.said = []  # requests and notifications that came on the streams of our calls
        self.answers = {}  # method -> result that we give the server
        hello = {**HELLO, "protocolVersion": version, "capabilities": capabilities or {}}
        response = self.post(request(0, "initialize", **hello))
        body = json.loads(response.read())
        assert response.status == 200, body
        self.hello = body["result"]
        self.id = response.headers["Mcp-Session-Id"]
        self.headers["Mcp-Session-Id"] = self.id
        self.headers["MCP-Protocol-Version"] = self.hello["protocolVersion"]
        self.tell("notifications/initialized")

    def connect(self):
        return self.client.connection(PATIENCE)

    def post(self, message, headers=None):
        connection = self.connect()
        body = message if isinstance(message, (bytes, str)) else json.dumps(message)
        given = {"Accept": BOTH, "Content-Type": "application/json", **self.headers, **(headers or {})}
        connection.request("POST", self.path, body, {k: v for k, v in given.items() if v is not None})
        return connection.getresponse()

    def get(self, headers=None):
        connection = self.connect()
        given = {"Accept": "text/event-stream", **self.headers, **(headers or {})}
        connection.request("GET", self.path, headers={k: v for k, v in given.items() if v is not None})
        return connection.getresponse()

    def delete(self):
        connection = self.connect()
        connection.request("DELETE", self.path, headers=self.headers)
        return connection.getresponse().status

    def tell(self, method, **params):
        response = self.post({"jsonrpc": "2.0", "method": method, "params": params})
        assert (response.status, response.read()) == (202, b"")

    def take(self, message):
        """What came on a stream: answers what is asked, returns True for an answer to us."""
        if "method" not in message:
            return True
        self.said.append(message)
        if "id" in message:
            given = self.answers[message["method"]]
            response = self.post({"jsonrpc": "2.0", "id": message["id"], "result": given})
            assert response.status == 202
        return False

    def call(self, method, _meta=None, **params):
        self.number += 1
        number = self.number
        if _meta:
            params["_meta"] = _meta
        response = self.post(request(number, method, **params))
        if response.headers["Content-Type"].startswith("application/json"):
            answer = json.loads(response.read())
        else:
            answer = None
            for _, _, data in events(response):
                if data and self.take(json.loads(data)):
                    answer = json.loads(data)
        assert answer["id"] == number, answer
        if "error" in answer:
            raise Failure(answer["error"])
        return answer["result"]

    def tool(self, name, _meta=None, **arguments):
        return self.call("tools/call", _meta=_meta, name=name, arguments=arguments)

    def text(self, name, **arguments):
        """What a tool says."""
        return self.tool(name, **arguments)["content"][0]["text"]

    def tools(self):
        return [t["name"] for t in self.call("tools/list")["tools"]]


class Listener:
    """Reads a stream in a thread; `said` holds the messages so far."""

    def __init__(self, response):
        assert response.status == 200, response.read()
        self.response, self.said, self.ids = response, [], []
        self.more = threading.Condition()
        self.over = False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for event, number, data in events(self.response):
                with self.more:
                    self.ids.append(number)
                    self.said.append(json.loads(data) if event == "message" else (event, data))
                    self.more.notify_all()
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            pass
        with self.more:
            self.over = True
            self.more.notify_all()

    def close(self):
        """Hangs up. The response would be closed when its reader has something to read again: seconds later."""
        with socket.socket(fileno=os.dup(self.response.fileno())) as stream:
            stream.shutdown(socket.SHUT_RDWR)

    def wait(self, condition, what="message"):
        """The first message that fits."""

        def found():
            return next((m for m in self.said if condition(m)), None) or self.over

        with self.more:
            assert self.more.wait_for(found, PATIENCE), f"{what}: not within {PATIENCE} s"
            fits = next((m for m in self.said if condition(m)), None)
        assert fits, f"{what}: the stream ended: {self.said[-5:]}"
        return fits

    def wait_log(self, data):
        self.wait(lambda m: isinstance(m, dict) and m.get("params", {}).get("data") == data, data)

    def wait_method(self, method):
        return self.wait(lambda m: isinstance(m, dict) and m.get("method") == method, method)


class SseSession:
    """A session of HTTP+SSE."""

    def __init__(self, hand, prefix="/mcp", headers=None, version="2024-11-05", hello=True, capabilities=None,
                 answers=None):
        self.client, self.headers, self.number = hand.client, headers or {}, 0
        self.answers = answers or {}  # method -> result that we give the server
        connection = self.client.connection(PATIENCE)
        connection.request("GET", prefix + "/sse", headers=self.headers)
        response = connection.getresponse()
        self.connection = connection
        self.stream = Listener(response)
        self.told = self.stream.wait(lambda m: m[0] == "endpoint" if type(m) is tuple else False)[1]
        self.endpoint = urllib.parse.urljoin(prefix + "/sse", self.told)
        if hello:
            self.hello = self.call("initialize", **{**HELLO, "protocolVersion": version,
                                                    "capabilities": capabilities or {}})
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message):
        connection = self.client.connection(PATIENCE)
        body = message if isinstance(message, (bytes, str)) else json.dumps(message)
        connection.request("POST", self.endpoint, body, {"Content-Type": "application/json", **self.headers})
        response = connection.getresponse()
        return response.status, response.read().decode()

    def call(self, method, **params):
        self.number += 1
        number = self.number
        assert self.post(request(number, method, **params)) == (202, "Accepted")
        asked = set()
        while True:
            answer = self.stream.wait(lambda m: isinstance(m, dict) and (
                (m.get("id") == number and "method" not in m) or
                (m.get("method") in self.answers and m["id"] not in asked)), method)
            if "method" not in answer:
                break
            asked.add(answer["id"])
            self.post({"jsonrpc": "2.0", "id": answer["id"], "result": self.answers[answer["method"]]})
        if "error" in answer:
            raise Failure(answer["error"])
        return answer["result"]

    def close(self):
        self.connection.sock.shutdown(socket.SHUT_RDWR)


class Modern:
    """Requests of revision 2026-07-28."""

    def __init__(self, hand):
        self.session = Session.__new__(Session)
        self.session.client, self.session.path, self.session.headers = hand.client, "/mcp", {}

    def post(self, method, headers=None, meta=None, **params):
        given = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}, **(meta or {})}
        params["_meta"] = {k: v for k, v in given.items() if v is not None}
        named = params.get("name") or params.get("uri")
        sent = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **({"Mcp-Name": named} if named else {})}
        return self.session.post(request("m", method, **params), {**sent, **(headers or {})})

    def call(self, method, **params):
        response = self.post(method, **params)
        answer = json.loads(response.read())
        assert answer["id"] == "m", answer
        return answer.get("result") or answer["error"]

"""Small MCP clients, by hand, so that tests see every message."""

import http.client
import json

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
TYPES = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


class Failed(Exception):
    """An error answer."""


class Client:
    """Calls and their answers; a subclass moves the messages."""

    def __init__(self):
        self.number = 0

    def call(self, method, params=None):
        self.number += 1
        answer = self.ask(
            {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params or {}}
        )
        assert answer["id"] == self.number
        if "error" in answer:
            raise Failed(answer["error"]["message"])
        return answer["result"]

    def hello(self):
        result = self.call("initialize", HELLO)
        self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def tool(self, tool, **arguments):
        return self.call("tools/call", {"name": tool, "arguments": arguments})

    def text(self, tool, **arguments):
        result = self.tool(tool, **arguments)
        assert not result["isError"], result
        return "".join(block.get("text", "") for block in result["content"])


class Stdio(Client):
    def __init__(self, process):
        super().__init__()
        self.process = process

    def tell(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, message):
        self.tell(message)
        while (answer := json.loads(self.process.stdout.readline())).get("id") != message["id"]:
            pass
        return answer

    def leave(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(60)


class Http(Client):
    def __init__(self, port, key):
        super().__init__()
        self.port, self.headers = port, {"Authorization": f"Bearer {key}"}

    def request(self, method, message=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {**TYPES, **self.headers}
        connection.request(method, "/mcp", json.dumps(message) if message else None, headers)
        answer = connection.getresponse()
        if session := answer.getheader("Mcp-Session-Id"):
            self.headers["Mcp-Session-Id"] = session
        body = answer.read().decode()
        connection.close()
        return answer, body

    def tell(self, message):
        assert self.request("POST", message)[0].status == 202

    def ask(self, message):
        answer, body = self.request("POST", message)
        assert answer.status == 200, body
        if answer.getheader("Content-Type") == "application/json":
            return json.loads(body)
        data = [line[5:] for line in body.splitlines() if line.startswith("data:")]
        return next(m for m in map(json.loads, filter(str.strip, data)) if m.get("id") == message["id"])

    def leave(self):
        return self.request("DELETE")[0].status

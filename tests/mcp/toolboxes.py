"""The toolbox under test, and a server of tools that can be made to misbehave."""

import contextlib
import http.server
import json
import os
import queue
import socket
import subprocess
import threading
import time

from trees import BUILD, program


def eventually(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return value


class Toolbox:
    """tests/unit/runtime/toolbox-drive with these servers of [mcp]."""

    def __init__(self, base, *, sse=(), shttp=(), stdio=(), hand=None, env=None):
        self.notes = []
        settings = {"MCP_SSE_SERVERS": sse, "MCP_SHTTP_SERVERS": shttp, "MCP_STDIO_SERVERS": stdio}
        self.driver = subprocess.Popen(
            [program(BUILD, "tests/unit/runtime/toolbox-drive"), *([hand] if hand else [])],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(base),
                **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")},
                **{key: json.dumps(list(value)) for key, value in settings.items() if value},
                **(env or {}),
            },
            cwd=base,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, op, **line):
        self.driver.stdin.write(json.dumps({"op": op, **line}) + "\n")
        self.driver.stdin.flush()
        while True:
            text = self.driver.stdout.readline()
            assert text, "the driver died"
            answer = json.loads(text)
            if "note" not in answer:
                return answer
            self.notes.append(answer["note"])

    def call(self, name, timeout=60, **arguments):
        """The result of a call, whatever it is."""
        seen = self.ask("call", name=name, arguments=arguments, timeout=timeout)
        assert seen["observation"] == "mcp", seen
        assert seen["extras"] == {"name": name, "arguments": arguments}
        return json.loads(seen["content"])

    def text(self, name, timeout=60, **arguments):
        result = self.call(name, timeout, **arguments)
        assert not result["isError"], result
        return result["content"][0]["text"]

    def failure(self, name, timeout=60, **arguments):
        result = self.call(name, timeout, **arguments)
        assert result["isError"] and result["content"] == [], result
        return result["error"]

    def error(self, name, timeout=60, **arguments):
        seen = self.ask("call", name=name, arguments=arguments, timeout=timeout)
        assert seen["observation"] == "error", seen
        return seen["content"]

    def names(self):
        return [tool["name"] for tool in self.ask("list")["tools"]]

    def stop(self):
        self.driver.stdin.close()
        status = self.driver.wait(timeout=60)
        self.driver.stdout.close()
        assert status == 0


def rpc(message, **members):
    return {"jsonrpc": "2.0", "id": message["id"], **members}


def text_result(message, text):
    return rpc(message, result={"content": [{"type": "text", "text": text}]})


class Server(http.server.ThreadingHTTPServer):
    """A streamable HTTP server of the tools that are methods `tool_NAME(handler, message)` of `tools`: what
    they return is the answer; None means that they have dealt with the request themselves."""

    daemon_threads = True

    def __init__(self, tools, port=0):
        self.tools = tools
        self.seen = []  # (method of HTTP, method of MCP or None, headers)
        self.session = "session-1"
        self.capabilities = {"tools": {}}
        self.listed = None  # instead of the tools there are
        super().__init__(("127.0.0.1", port), Handler)
        self.port = self.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def methods(self):
        return [mcp for http_method, mcp, headers in list(self.seen) if mcp]

    def calls(self):
        return self.methods().count("tools/call")

    def list(self, message):
        names = [name[5:] for name in dir(self.tools) if name.startswith("tool_")]
        tools = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in names]
        return rpc(message, result={"tools": self.listed(message) if self.listed else tools})

    def handle_error(self, request, client_address):
        pass

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", type="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if body:
            self.send_header("Content-Type", type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self):
        """Begins a stream of events, which ends with the connection."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, message, id=None, retry=None):
        head = (f"id: {id}\n" if id else "") + (f"retry: {retry}\n" if retry is not None else "")
        self.wfile.write((head + f"data: {message and json.dumps(message)}\n\n").encode())
        self.wfile.flush()

    def hang_up(self):
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message.get("method") if isinstance(message, dict) else None
        self.server.seen.append(("POST", method, dict(self.headers)))
        hook = getattr(self.server.tools, "post", None)
        if hook and hook(self, message):
            return
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            result = {
                "protocolVersion": version,
                "capabilities": self.server.capabilities,
                "serverInfo": {"name": "x", "version": "1"},
            }
            self.reply(200, json.dumps(rpc(message, result=result)).encode(), Mcp_Session_Id=self.server.session)
        elif self.headers["Mcp-Session-Id"] != self.server.session:
            self.reply(404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
        elif "id" not in message or "method" not in message:
            self.reply(202)
        elif method == "tools/list":
            self.reply(200, json.dumps(self.server.list(message)).encode())
        else:
            tool = getattr(self.server.tools, "tool_" + message["params"]["name"])
            answer = tool(self, message)
            if answer is not None:
                self.reply(200, json.dumps(answer).encode())

    def do_GET(self):
        self.server.seen.append(("GET", None, dict(self.headers)))
        hook = getattr(self.server.tools, "get", None)
        if not hook or not hook(self):
            self.reply(405)

    def do_DELETE(self):
        self.server.seen.append(("DELETE", None, dict(self.headers)))
        self.reply(200)


class Mailbox:
    """What one thread of a server wants another one to send."""

    def __init__(self):
        self.queue = queue.Queue()

    def put(self, message):
        self.queue.put(message)

    def get(self):
        return self.queue.get(timeout=60)

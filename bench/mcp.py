#!/usr/bin/python3
"""Measures tool calls through tendon-hand beside calls straight to the same server over its pipes, in the same run.

The server is a few lines of Python that answer at once.  Exit status 1 when a bar is missed.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from hand import UnixConnection
from hands import Hand
from results import Results, quantile

ROUNDS, CALLS = 7, 300
SERVER = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    result = {
        "initialize": lambda: {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
                               "serverInfo": {"name": "bench", "version": "1"}},
        "tools/list": lambda: {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        "tools/call": lambda: {"content": [{"type": "text", "text": m["params"]["arguments"]["text"]}]},
    }[m["method"]]()
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}) + "\\n")
    sys.stdout.flush()
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def message(number, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def call(number):
    return message(number, "tools/call", name="echo", arguments={"text": "hello"})


def check(answer):
    if json.loads(answer)["result"]["content"][0]["text"] != "hello":
        sys.exit(f"mcp: unexpected answer {answer}")


class Direct:
    """The server on its own pipes."""

    def __init__(self, script):
        self.process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ask(message(0, "initialize", **HELLO))

    def ask(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)


class Proxy(Hand):
    """The same server behind a hand."""

    def __init__(self, binary, script, where):
        super().__init__(binary, where, "--no-enable-browser")
        entry = {"name": "bench", "command": sys.executable, "args": [script]}
        answer = self.post("/update_mcp_server", [entry])
        if answer["router_error_log"]:
            sys.exit(f"mcp: {answer['router_error_log']}")


class Streamable:
    """Calls over streamable HTTP, on one connection."""

    def __init__(self, hand):
        self.connection = hand.connection
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self.connection.request("POST", "/mcp", message(0, "initialize", **HELLO), self.headers)
        response = self.connection.getresponse()
        response.read()
        self.headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]

    def ask(self, text):
        self.connection.request("POST", "/mcp", text, self.headers)
        return self.connection.getresponse().read()


class Sse:
    """Calls over HTTP+SSE: a stream, and a connection for the posts."""

    def __init__(self, hand):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(hand.path)
        self.stream.sendall(b"GET /mcp/sse HTTP/1.1\r\nHost: hand\r\n\r\n")
        self.lines = self.stream.makefile("rb")
        self.endpoint = self.data()
        self.connection = UnixConnection(hand.path)
        self.ask(message(0, "initialize", **HELLO))

    def data(self):
        for line in self.lines:
            if line.startswith(b"data: "):
                return line[6:].decode().strip()
        raise SystemExit("mcp: the stream ended")

    def ask(self, text):
        self.connection.request("POST", self.endpoint, text, {"Content-Type": "application/json"})
        self.connection.getresponse().read()
        return self.data()


def measure(who):
    """p50 and p99 in microseconds of one round."""
    times = []
    for number in range(1, CALLS + 1):
        text = call(number)
        began = time.perf_counter_ns()
        answer = who.ask(text)
        times.append((time.perf_counter_ns() - began) / 1000)
        check(answer)
    times.sort()
    return quantile(times, 0.5), quantile(times, 0.99)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--build", default="build")
    options.add_argument("--json")
    options = options.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory() as where:
        script = os.path.join(where, "server.py")
        with open(script, "w") as f:
            f.write(SERVER)
        os.chmod(where, 0o755)
        direct = Direct(script)
        hand = Proxy(os.path.abspath(f"{options.build}/tendon-hand"), script, where)
        ways = {"direct": direct, "streamable": Streamable(hand), "sse": Sse(hand)}
        try:
            rounds = {name: [] for name in ways}
            for _ in range(ROUNDS):  # one after the other, so that a busy moment hits all
                for name, who in ways.items():
                    rounds[name].append(measure(who))
        finally:
            direct.stop()
            hand.stop()
    middle = {n: [statistics.median(r[i] for r in rs) for i in (0, 1)] for n, rs in rounds.items()}
    base = middle["direct"]
    results.add("MCP tool call straight to the server, p50", base[0], "us", "", None)
    for name, words in (("streamable", "streamable HTTP"), ("sse", "HTTP+SSE")):
        more = middle[name][0] - base[0]
        results.add(f"MCP tool call through the hand, {words}, p50", middle[name][0], "us", "", None)
        results.add(f"  more than straight, {words}, p50", more, "us", "<= 1000 us", more <= 1000)
        results.add(f"  p99, {words}", middle[name][1], "us", f"straight: {base[1]:.0f} us", None)
    return results.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())

"""Readers of what the hand streams: server-sent events, terminals over WebSocket, tunnels."""

import base64
import json
import struct
import time
from urllib.parse import urlencode

import websocket

TEXT, BINARY = websocket.ABNF.OPCODE_TEXT, websocket.ABNF.OPCODE_BINARY
CLOSE, PING = websocket.ABNF.OPCODE_CLOSE, websocket.ABNF.OPCODE_PING


def url(path, /, **query):
    """A request target; values may be bytes."""
    return path + ("?" + urlencode(query) if query else "")


class Event:
    def __init__(self, kind, ident, data):
        self.kind = kind
        self.id = ident
        self.data = json.loads(data)

    @property
    def path(self):
        return self.data["path"]

    @property
    def bytes(self):
        return base64.b64decode(self.data["data"], validate=True)

    def __repr__(self):
        return f"<{self.kind} {self.id} {self.data}>"


class Events:
    """A stream of server-sent events; reading past its end gives None."""

    def __init__(self, client, path, /, headers=None, timeout=10, **query):
        self.connection = client.connection(timeout)
        self.connection.request(
            "GET", url(path, **query), headers={**client.headers, **(headers or {})}
        )
        self.response = self.connection.getresponse()
        assert self.response.status == 200, (self.response.status, self.response.read())
        assert self.response.headers["content-type"] == "text/event-stream"
        self.beats = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()

    def next(self):
        fields = {}
        while line := self.response.readline():
            line = line.decode().rstrip("\n")
            if line.startswith(":"):
                self.beats += 1
            elif line:
                name, value = line.split(": ", 1)
                fields[name] = fields[name] + "\n" + value if name in fields else value
            elif fields:
                return Event(fields.get("event"), fields.get("id"), fields["data"])
        return None

    def until(self, kind, path=None):
        """All events up to the first of that kind (and path), which is the last of the list."""
        seen = []
        while event := self.next():
            seen.append(event)
            if event.kind == kind and path in (None, event.data.get("path")):
                return seen
        raise AssertionError(f"the stream ended before {kind} {path}: {seen}")

    def rest(self):
        return list(iter(self.next, None))


class Terminal:
    """A client of a session's terminal that keeps count of what it got."""

    def __init__(self, client, session="main", timeout=10, **query):
        self.ws = websocket.create_connection(
            "ws://hand" + url(f"/v1/sessions/{session}/terminal", **query),
            socket=client.socket(timeout),
            timeout=timeout,
            header=[f"{name}: {value}" for name, value in client.headers.items()],
        )
        self.timeout = timeout
        self.hellos = []
        self.errors = []
        self.exit_code = None  # of the shell, once it has ended
        self.pings = 0
        self.offset = None
        self.seen = b""
        self.closed = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ws.close(timeout=1)

    def step(self):
        """Takes one message; False when the terminal is closed."""
        opcode, data = self.ws.recv_data(control_frame=True)
        if opcode == CLOSE:
            self.closed = (struct.unpack("!H", data[:2])[0], data[2:].decode()) if data else (0, "")
            return False
        if opcode == PING:
            self.pings += 1
        elif opcode == BINARY:
            assert self.offset is not None, "bytes before a hello"
            self.offset += len(data)
            self.seen += data
        elif opcode == TEXT:
            message = json.loads(data)
            if message["type"] == "hello":
                self.hellos.append(message["offset"])
                self.offset = message["offset"]
            elif message["type"] == "end":
                self.exit_code = message["exit_code"]
            else:
                assert message["type"] == "error", message
                self.errors.append(message["detail"])
        return True

    def _until(self, condition, what):
        deadline = time.monotonic() + self.timeout
        while not condition():
            assert time.monotonic() < deadline, f"{what}: only {self.seen[-500:]!r}"
            assert self.step(), f"{what}: closed with {self.closed} after {self.seen[-500:]!r}"

    def hello(self):
        self._until(lambda: self.hellos, "hello")
        return self.hellos[-1]

    def expect(self, text):
        """Waits for the text and forgets what came up to its end."""
        text = text.encode() if isinstance(text, str) else text
        self._until(lambda: text in self.seen, repr(text))
        before, _, self.seen = self.seen.partition(text)
        return before

    def prompt(self):
        return self.expect(b"$ ")

    def interrupt(self):
        """Ctrl-C until there is a prompt.

        Any bash loses one that comes at once, while it starts a program or its line editor works:
        on a bare terminal as well."""
        deadline = time.monotonic() + self.timeout
        self.ws.settimeout(0.5)
        while b"$ " not in self.seen:
            assert time.monotonic() < deadline, f"no prompt: {self.seen[-500:]!r}"
            self.type("\x03")
            try:
                while b"$ " not in self.seen:
                    assert self.step(), f"closed with {self.closed}"
            except websocket.WebSocketTimeoutException:
                pass
        self.ws.settimeout(self.timeout)
        return self.prompt()

    def error(self):
        self._until(lambda: self.errors, "error")
        return self.errors.pop(0)

    def type(self, keys):
        self.ws.send_binary(keys.encode() if isinstance(keys, str) else keys)

    def send(self, message):
        self.ws.send(message if isinstance(message, str) else json.dumps(message))

    def resize(self, columns, rows):
        self.send({"type": "resize", "columns": columns, "rows": rows})

    def wait_closed(self):
        deadline = time.monotonic() + self.timeout
        while self.step():
            assert time.monotonic() < deadline, f"not closed: {self.seen[-500:]!r}"
        return self.closed

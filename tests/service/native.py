"""What tests of the native API share: sandboxes, streams of events, WebSockets."""

import json
import socket
from urllib.parse import quote, urlencode

import websocket

from services import PATIENCE


def url(path, /, **query):
    return path + ("?" + urlencode(query) if query else "")


def make(client, **body):
    """A new sandbox that runs."""
    box = client.post("/v1/sandboxes", {"plugins": [], **body}).ok(201).json
    assert box["state"] == "running", box
    return box


def at(box, rest="", /, **query):
    """The path of something of a sandbox."""
    return url(f"/v1/sandboxes/{quote(box if isinstance(box, str) else box['id'])}{rest}", **query)


def run_action(command, **more):
    return {"action": {"action": "run", "args": {"command": command}, **more}}


def run(client, box, command, headers=None, **more):
    """Runs a command in a sandbox; its observation."""
    return client.post(at(box, "/actions"), run_action(command, **more), headers=headers).ok().json


class Event:
    def __init__(self, fields):
        self.kind, self.id = fields.get("event"), fields.get("id")
        self.data = json.loads(fields["data"])

    def __repr__(self):
        return f"<{self.kind} {self.id} {self.data}>"


class Events:
    """A stream of server-sent events, over a connection of its own; reading past its end gives None."""

    def __init__(self, client, path, last=None):
        self.connection = client.service.connect(PATIENCE)
        headers = {"X-API-Key": client.key, "Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, (self.response.status, self.response.read())
        assert self.response.headers["content-type"] == "text/event-stream"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()
        self.connection.close()

    def next(self):
        fields = {}
        while line := self.response.readline():
            line = line.decode().rstrip("\n")
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif not line and fields:
                return Event(fields)
        return None

    def take(self, count):
        return [self.next() for _ in range(count)]

    def until(self, wanted):
        """All events up to the first for which wanted(event) is true, which is the last of the list."""
        seen = []
        while event := self.next():
            seen.append(event)
            if wanted(event):
                return seen
        raise AssertionError(f"the stream ended before that: {seen}")


def upgrade(client, path, key=True, protocols=None, header=(), **kwargs):
    """A WebSocket."""
    return websocket.create_connection(
        f"ws://127.0.0.1:{client.service.port}{path}",
        timeout=PATIENCE,
        header=[*header, f"X-API-Key: {client.key}"] if key else list(header),
        subprotocols=protocols,
        sockopt=((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),),
        **kwargs,
    )

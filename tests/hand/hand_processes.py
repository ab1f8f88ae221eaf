"""Processes of a hand: starting them by an action, and the frames of their output."""

import json
import shlex
import struct

from harness import wait_until
from streams import url


def command_of(args, env=None):
    """The command line that an action must have; the tests use only words that both quote alike."""
    words = (["env"] + [f"{k}={v}" for k, v in env.items()] if env else []) + list(args)
    return " ".join(shlex.quote(w).replace("'\"'\"'", "'\\''") for w in words)


class Process:
    def __init__(self, client, args, cwd=None, key=None, **spec):
        self.client = client
        action = {"command": command_of(args, spec.get("env")), "process": {"args": list(args), **spec}}
        if cwd is not None:
            action["cwd"] = str(cwd)
        self.started = client.act("run", action, key=key)
        self.id = self.started.meta.get("process")
        self.pid = self.started.meta.get("pid")

    def path(self, what="", which=None):
        return f"/v1/processes/{which or self.id}{what}"

    def status(self, which=None, **query):
        reply = self.client.get(url(self.path(which=which), **query), timeout=90)
        assert reply.status == 200, reply
        return reply.json

    def end(self):
        """Its status once it has ended and its logs are complete."""
        status = self.status(wait=60)
        assert not status["running"], status
        return wait_until(lambda: (s := self.status())["over"] and s, 60)

    def stream(self, timeout=30, **query):
        return Frames(self.client, self.path("/output"), timeout=timeout, **query)

    def output(self, **query):
        """(standard output, standard error, last status) until its end."""
        with self.stream(timeout=60, **{"follow": 60, **query}) as frames:
            out, err, status = frames.rest()
        assert status, "no end"
        return out, err, status

    def input(self, data, **query):
        return self.client.request("POST", url(self.path("/input"), **query), data)

    def close_input(self):
        return self.client.request("DELETE", self.path("/input"))

    def signal(self, what):
        return self.client.post(self.path("/signal"), {"signal": what})

    def remove(self):
        return self.client.request("DELETE", self.path())


class Frames:
    """The frames of an output; reading past its end gives None."""

    def __init__(self, client, path, timeout=30, **query):
        self.connection = client.connection(timeout)
        self.connection.request("GET", url(path, **query), headers=client.headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, (self.response.status, self.response.read())
        assert self.response.headers["content-type"] == "application/vnd.tendon.frames"
        self.beats = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()
        self.connection.close()

    def next(self):
        """(kind, offset, bytes), (kind, status) of the end, (kind, out, err) of the start, or (kind,)."""
        head = self.response.read(5)
        if not head:
            return None
        kind, n = struct.unpack(">cI", head)
        body = self.response.read(n)
        assert len(body) == n
        kind = kind.decode()
        if kind == "k":
            self.beats += 1
            return (kind,)
        if kind == "x":
            return kind, json.loads(body)
        if kind == "a":
            return kind, *struct.unpack(">QQ", body)
        assert kind in "oe" and n > 8
        return kind, struct.unpack(">Q", body[:8])[0], body[8:]

    def until(self, text):
        """Standard output until that text is in it."""
        out = b""
        while text not in out:
            frame = self.next()
            assert frame, out
            out += frame[2] if frame[0] == "o" else b""
        return out

    def rest(self):
        out, err, status = b"", b"", None
        while frame := self.next():
            if frame[0] == "o":
                out += frame[2]
            elif frame[0] == "e":
                err += frame[2]
            elif frame[0] == "x":
                status = frame[1]
        return out, err, status

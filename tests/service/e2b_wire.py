"""E2B's API without its SDK: the control plane as JSON, envd with Connect's envelopes."""

import base64
import http.client
import json
import struct
from urllib.parse import urlencode

from services import PATIENCE, eventually

STREAM = "application/connect+json"


def frame(message, flags=0):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(body)) + body


def frames(raw):
    """[(flags, message)] of whole bytes; what is cut short is an error."""
    found = []
    while raw:
        flags, n = struct.unpack(">BI", raw[:5])
        assert len(raw) >= 5 + n, "cut short"
        found.append((flags, json.loads(raw[5 : 5 + n])))
        raw = raw[5 + n :]
    return found


def create(client, **body):
    """A new sandbox, by its control plane."""
    return client.post("/v2/sandboxes", {"templateID": "base", **body}).ok(201).json


def kill(client, sandbox):
    client.delete(f"/sandboxes/{sandbox['sandboxID']}").ok(204)


def multipart(parts):
    boundary = "----b0undary"
    body = b""
    for name, filename, content in parts:
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n\r\n'.encode()
        body += content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def write(envd, path, content):
    body, headers = multipart([("file", path, content)])
    return envd.client.post(f"/files?{urlencode({'path': path})}", body, headers=headers).ok().json


def read(envd, path):
    return envd.client.get(f"/files?{urlencode({'path': path})}").ok().body


def step(kind, *args, **more):
    """One of a recipe for a template."""
    return {"type": kind, "args": list(args), "force": False, **more}


def declare(client, name, **more):
    return client.post("/v3/templates", {"name": name, **more}).ok(202).json


def where(build):
    return f"/templates/{build['templateID']}/builds/{build['buildID']}"


def begin(client, build, *steps, **more):
    return client.post(f"/v2{where(build)}", {"fromImage": "e2bdev/base", "steps": list(steps), **more})


def status(client, build, offset=0):
    return client.get(f"{where(build)}/status?logsOffset={offset}").ok().json


def ended(client, build):
    return eventually(lambda: (lambda s: s["status"] in ("ready", "error") and s)(status(client, build)), "the end of the build")


def built(client, name, *steps, **more):
    """Builds a template to its end."""
    build = declare(client, name)
    begin(client, build, *steps, **more).ok(202)
    end = ended(client, build)
    assert end["status"] == "ready", end
    return build


class Envd:
    """The agent of one sandbox."""

    def __init__(self, service, sandbox, token=None, user=None):
        self.service, self.id = service, sandbox["sandboxID"]
        self.headers = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983"}
        self.headers["X-Access-Token"] = token or sandbox["envdAccessToken"]
        if user:
            self.headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        self.client = service.stranger(headers=self.headers)

    def rpc(self, method, message=None):
        """A unary call; its answer."""
        return self.client.post(f"/{method}", message or {})

    def stat(self, path):
        return self.rpc("filesystem.Filesystem/Stat", {"path": path})

    def stream(self, method, message=None, raw=None, headers=None):
        """Begins a stream, over a connection of its own."""
        return Stream(self, method, frame(message or {}) if raw is None else raw, headers)

    def run(self, command, headers=None, **more):
        """The events of a command, to its end."""
        process = {"cmd": "/bin/bash", "args": ["-l", "-c", command], **more.pop("process", {})}
        with self.stream("process.Process/Start", {"process": process, "stdin": False, **more}, headers=headers) as s:
            return Outcome(list(s))


class Stream:
    def __init__(self, envd, method, body, headers=None):
        self.connection = envd.service.connect(PATIENCE)
        fields = {**envd.headers, "Content-Type": STREAM, "Connect-Protocol-Version": "1", **(headers or {})}
        self.connection.request("POST", f"/{method}", body=body, headers=fields)
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()

    def next(self):
        """The next (flags, message); None at the end of the bytes."""
        try:
            head = self.response.read(5)
        except http.client.IncompleteRead:
            return None
        if len(head) < 5:
            return None
        flags, n = struct.unpack(">BI", head)
        return flags, json.loads(self.response.read(n))

    def __iter__(self):
        while (item := self.next()) is not None:
            yield item

    def until(self, wanted):
        """The first message that is so."""
        for _, message in self:
            if wanted(message):
                return message
        raise AssertionError("the stream has ended before that")


class Outcome:
    """What a command did."""

    def __init__(self, items):
        self.items = items
        self.trailer = items[-1][1] if items and items[-1][0] == 2 else None
        events = [message["event"] for flags, message in items if flags == 0]
        self.pid = next((e["start"]["pid"] for e in events if "start" in e), None)
        data = [e["data"] for e in events if "data" in e]
        self.out, self.err, self.pty = (
            b"".join(base64.b64decode(d[key]) for d in data if key in d) for key in ("stdout", "stderr", "pty")
        )
        self.end = next((e["end"] for e in events if "end" in e), None)

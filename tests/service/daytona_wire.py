"""What the tests of Daytona's surface share: a service, two tenants, the two dialects of the toolbox, without any SDK."""

import json
from urllib.parse import quote, urlencode

import pytest

from native import upgrade

NEWEST, OLDEST = "0.226.1", "0.24.2"


def create(client, **wish):
    return client.post("/api/sandbox", {"labels": {}, **wish}).ok().json


def state(client, sandbox):
    return client.get(f"/api/sandbox/{sandbox['id']}").ok().json["state"]


class Toolbox:
    """The toolbox of a sandbox, as a client of that version asks for it."""

    def __init__(self, client, sandbox, version=NEWEST):
        self.client, self.id, self.version = client, sandbox["id"], version
        older = int(version.split(".")[1]) < 100
        self.base = f"/api/toolbox/{self.id}/toolbox" if older else f"/api/toolbox/{self.id}"

    def call(self, method, path, body=None, headers=None, /, **query):
        target = self.base + path + ("?" + urlencode(query, quote_via=quote) if query else "")
        headers = {"X-Daytona-SDK-Version": self.version, **(headers or {})}
        return self.client.request(method, target, body, headers=headers)

    def get(self, path, /, **query):
        return self.call("GET", path, **query)

    def post(self, path, body=None, /, **query):
        return self.call("POST", path, body, **query)

    def delete(self, path, /, **query):
        return self.call("DELETE", path, **query)

    def execute(self, command, **more):
        return self.post("/process/execute", {"command": command, **more})

    def output(self, command, **more):
        answer = self.execute(command, **more).ok().json
        assert answer["exitCode"] == 0, answer
        return answer["result"]

    def upload(self, *files, order="pairs"):
        """Files are (path, bytes); order: each path before its file, or all paths first, as httpx does."""
        paths = [(f"files[{i}].path", None, path.encode()) for i, (path, _) in enumerate(files)]
        contents = [(f"files[{i}].file", path, content) for i, (path, content) in enumerate(files)]
        parts = paths + contents if order == "first" else [p for pair in zip(paths, contents) for p in pair]
        body = multipart(parts)
        return self.call("POST", "/files/bulk-upload", body, {"Content-Type": "multipart/form-data; boundary=XX"})

    def download(self, *paths):
        """{path: bytes, or the text of the error}."""
        answer = self.post("/files/bulk-download", {"paths": list(paths)}).ok()
        kind = answer.headers["Content-Type"]
        boundary = b"--" + kind.split("boundary=")[1].encode()
        found = {}
        for piece in answer.body.split(boundary)[1:-1]:
            head, content = piece.split(b"\r\n\r\n", 1)
            name = head.split(b'filename="')[1].split(b'"')[0].decode()
            content = content[:-2]
            assert f"Content-Length: {len(content)}".encode() in head
            found[name] = content if b'name="file"' in head else content.decode()
        return found


def multipart(parts, boundary="XX"):
    out = b""
    for name, filename, content in parts:
        more = f'; filename="{filename}"' if filename is not None else ""
        out += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content + b"\r\n"
    return out + f"--{boundary}--\r\n".encode()


def kill(client, sandbox):
    client.delete(f"/api/sandbox/{sandbox['id']}").ok()


def begin_cell(client, toolbox, code, **more):
    stream = upgrade(client, f"{toolbox.base}/process/interpreter/execute")
    stream.send(json.dumps({"code": code, **more}))
    return stream


def cell(client, toolbox, code, **more):
    """(events, code of the close)"""
    stream = begin_cell(client, toolbox, code, **more)
    events = []
    while True:
        opcode, data = stream.recv_data()
        if opcode == 8:
            return events, int.from_bytes(data[:2], "big")
        events.append(json.loads(data))


# --- fixtures of whoever imports them --------------------------------------------------------------

CONFIG = """
[template.small]
memory = "256m"
plugins = []
env = {GREETING = "hello"}
"""


@pytest.fixture(scope="module")
def box(alice):
    return create(alice, labels={"team": "blue"}, env={"X": "1"}, autoStopInterval=0, name="first")


@pytest.fixture(scope="module", params=[NEWEST, OLDEST])
def toolbox(alice, box, request):
    return Toolbox(alice, box, request.param)

"""What tests of previews and of the proxy share: a server inside a sandbox, and who visits it."""

import http.client
import pathlib
import socket
import uuid
from urllib.parse import urlsplit

from native import at, make, run
from services import PATIENCE, Answer

SERVER = pathlib.Path(__file__).parent / "inside_server.py"
PORT = 8080
PAGE = {"Accept": "text/html"}


def serving(client, files=(), **body):
    """A sandbox with inside_server.py on PORT, and those files beside it."""
    box = make(client, **body)
    for path in (SERVER, *files):
        client.put(at(box, "/files", path=f"/tmp/{path.name}"), path.read_bytes()).ok(201)
    start_server(client, box)
    return box


def start_server(client, box, port=PORT):
    """Starts it and waits until it serves."""
    log = f"/tmp/log-{uuid.uuid4().hex}"
    said = run(
        client,
        box,
        f"touch {log}; (setsid python3 /tmp/{SERVER.name} {port} >{log} 2>&1 &); "
        f"until grep . {log}; do sleep 0.02; done",
        timeout=PATIENCE,
    )
    assert "ready" in said["content"], said


class Visitor:
    """A browser, as far as cookies and redirects go: one jar per host, connections of its own."""

    def __init__(self, service):
        self.service = service
        self.jar = {}

    def get(self, url, method="GET", headers=None, body=None, follow=True):
        for _ in range(5):
            to = urlsplit(url)
            connection = self.service.connect()
            fields = {"Host": to.netloc, **PAGE, **(headers or {})}
            if cookies := [text for text in (self.cookies(to), fields.pop("Cookie", "")) if text]:
                fields["Cookie"] = "; ".join(cookies)
            target = (to.path or "/") + (f"?{to.query}" if to.query else "")
            connection.request(method, target, body=body, headers=fields)
            response = connection.getresponse()
            answer = Answer(response, response.read())
            connection.close()
            for cookie in answer.headers.get_all("Set-Cookie") or []:
                self.keep(to, cookie)
            if not follow or answer.status not in (301, 302, 303, 307, 308):
                answer.url = url
                return answer
            there = answer.headers["Location"]
            url = there if "://" in there else f"{to.scheme}://{to.netloc}{there}"
        raise AssertionError(f"redirects without end: {url}")

    def keep(self, to, cookie):
        pair, *attributes = [part.strip() for part in cookie.split(";")]
        names = {name.lower(): value for name, _, value in (a.partition("=") for a in attributes)}
        assert "domain" not in names, cookie
        name, _, value = pair.partition("=")
        self.jar[(to.hostname, names.get("path", "/"), name)] = value

    def cookies(self, to):
        return "; ".join(
            f"{name}={value}"
            for (host, path, name), value in self.jar.items()
            if host == to.hostname and (to.path or "/").startswith(path)
        )


def link(client, box, port=PORT, **query):
    return client.post(at(box, f"/ports/{port}", **query)).ok(201).json["link"]


def by_path(service, box, rest="/", port=PORT):
    return f"http://127.0.0.1:{service.port}/preview/{box['id']}/{port}{rest}"


def by_host(service, box, rest="/", port=PORT):
    return f"http://{port}-{box['id']}.localhost:{service.port}{rest}"


def raw(service, request, count=1 << 20):
    """Sends bytes as they are; all that comes back until the end."""
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as conn:
        conn.sendall(request)
        got = b""
        while len(got) < count and (piece := conn.recv(1 << 16)):
            got += piece
        return got


def open_request(service, path, headers):
    """A connection on which a GET was sent, and nothing read yet."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
    connection.request("GET", path, headers=headers)
    return connection

"""A hand with an editor, as a visitor meets it."""

import http.client
import pathlib
from urllib.parse import urlsplit

from harness import free_port, wait_until

FAKE = pathlib.Path(__file__).resolve().parent / "fake-server"
KEY = "test-key"


def program(directory, name, target):
    """A program of that name which is another one."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f'#!/bin/sh\nexec {target} "$@"\n')
    path.chmod(0o755)
    return str(path)


class Editor:
    """A hand with an editor, and a visitor with one jar of cookies."""

    def __init__(self, factory, command, name="code-server", plugins=True, env=None, **options):
        base = pathlib.Path(factory.base())
        self.port = free_port()
        self.notes = base / "notes"  # of the fake one
        self.notes.mkdir()
        self.notes.chmod(0o777)
        variables = {
            "TENDON_VSCODE": program(base / "bin", name, command),
            "FAKE_NOTES": str(self.notes),
            "SESSION_API_KEY": KEY,
            "VSCODE_PORT": str(self.port),
            **(env or {}),
        }
        args = ["--plugins", "vscode"] if plugins else []
        self.hand = factory(base=base, args=args, env=variables, **options)
        self.client = self.hand.client
        if variables["SESSION_API_KEY"]:
            self.client.headers["X-Session-API-Key"] = KEY
        self.cookie = None
        self.base = None

    @property
    def token(self):
        reply = self.client.get("/vscode/connection_token")
        assert reply.status == 200 and list(reply.json) == ["token"], reply
        return reply.json["token"]

    def wait_token(self):
        return wait_until(lambda: self.token, 30, "a token")

    @property
    def status(self):
        return self.client.get("/v1/plugins/vscode").json

    def starts(self):
        path = self.notes / "starts"
        return len(path.read_text()) if path.exists() else 0

    def connection(self, timeout=90):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, target, body=None, headers=None, chunked=False):
        """An answer to a request as it stands."""
        connection = self.connection()
        connection.request(method, target, body, headers or {}, encode_chunked=chunked)
        response = connection.getresponse()
        response.data = response.read()
        connection.close()
        return response

    def enter(self, prefix=""):
        """Shows the token at the door; from then on ask() may."""
        response = self.request("GET", f"{prefix}/?tkn={self.wait_token()}")
        assert response.status == 302, (response.status, response.data)
        self.cookie = response.headers["Set-Cookie"].split(";")[0]
        self.base = urlsplit(response.headers["Location"]).path.rstrip("/")
        return response

    def ask(self, method, path, body=None, headers=None, chunked=False):
        """A request of a visitor who has been let in."""
        if not self.cookie:
            self.enter()
        fields = {"Cookie": self.cookie, **(headers or {})}
        return self.request(method, self.base + path, body, fields, chunked)

    def upgrade(self, path, headers):
        """The socket and the head of the answer to an upgrade, after `welcome `."""
        if not self.cookie:
            self.enter()
        connection = self.connection()
        fields = {"Cookie": self.cookie, "Connection": "Upgrade", "Upgrade": "websocket"}
        connection.request("GET", self.base + path, None, {**fields, **headers})
        return connection

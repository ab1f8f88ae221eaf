"""Runs the echo server of tests/unit/net and talks to it."""

import http.client
import os
import pathlib
import signal
import socket
import subprocess

import pytest

BUILD = os.environ.get("TN_BUILD", "build")
PROGRAM = pathlib.Path(BUILD) / "tests/unit/net/echo-server"
WAIT = 10  # seconds before a test gives up on the server


def pytest_make_parametrize_id(config, val, argname):
    """Long requests make unreadable test names."""
    return None if not isinstance(val, bytes) or len(val) < 80 else repr(val[:60])[2:-1] + "..."


class Server:
    """One echo server process on a free port (or on a unix socket)."""

    def __init__(self, address="127.0.0.1:0", *options):
        self.process = subprocess.Popen(
            [PROGRAM, address, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        word, port = (self.process.stdout.readline() or "failed -1").split()
        assert word == "ready", self.process.stderr.read()
        self.path = address.removeprefix("unix:") if address.startswith("unix:") else None
        self.port = int(port)
        self.host = "127.0.0.1"
        self.url = f"http://127.0.0.1:{self.port}"
        self.idle_descriptors = self.descriptors()

    def socket(self):
        if self.path:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(WAIT)
            s.connect(self.path)
            return s
        s = socket.create_connection((self.host, self.port), WAIT)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def connection(self):
        c = http.client.HTTPConnection("localhost", timeout=WAIT)
        c.sock = self.socket()
        return c

    def get(self, target, method="GET", body=None, headers=None):
        """Status, headers and body of one request on a connection of its own."""
        c = self.connection()
        c.request(method, target, body, headers or {})
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, r.headers, data

    def raw(self, data, shut=False):
        """Everything the server sends until it closes, after these bytes."""
        with self.socket() as s:
            s.sendall(data)
            if shut:
                s.shutdown(socket.SHUT_WR)
            return receive_all(s)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        """Asks it to stop; returns what it printed on the way."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.communicate(timeout=WAIT)
        finally:
            self.process.kill()
            self.process.wait()


def receive_all(s):
    data = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return data + b"<reset>"
        if not piece:
            return data
        data += piece


@pytest.fixture
def start():
    """Starts servers with options of their own; all must stop cleanly."""
    servers = []

    def run(*args):
        servers.append(Server(*args))
        return servers[-1]

    yield run
    for server in servers:
        out, err = server.stop()
        assert out == "stopped 0\n", (out, err)
        assert server.process.returncode == 0
        assert "Sanitizer" not in err and "runtime error" not in err, err


@pytest.fixture(scope="module")
def server():
    """A server with short waits, shared by the tests of a file."""
    s = Server("127.0.0.1:0", "header=1", "idle=20", "body=1", "write=1")
    yield s
    out, err = s.stop()
    assert out == "stopped 0\n", (out, err)
    assert "Sanitizer" not in err and "runtime error" not in err, err

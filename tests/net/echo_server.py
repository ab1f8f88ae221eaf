"""The echo server of tests/unit/net as a process, and small helpers to talk to it."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

BUILD = os.environ.get("TN_BUILD", "build")
PROGRAM = pathlib.Path(BUILD) / "tests/unit/net/echo-server"
WAIT = 10  # seconds before a test gives up on the server
GOOD = b"GET /alive HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


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


def status_of(answer):
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer[9:12])


def detail_of(answer):
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])["detail"]


def wait_until(condition):
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def timed(function, *args):
    start = time.monotonic()
    result = function(*args)
    return result, time.monotonic() - start

"""A sandbox whose hand is the enemy: what it answers is bounded, and never speaks to the terminal."""

import contextlib
import http.server
import json
import sqlite3
import threading
import urllib.parse

import pytest


SPEECH = "\x1b]0;owned\x07\x1b[31mred \x9b5n \u202eback"


class Hand(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.size, self.refuse, self.sent = 10, False, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        if self.server.refuse:
            return self.answer(400, {"detail": SPEECH})
        if path == "/v1/files/stat":
            file = {"name": "f", "type": "file", "size": self.server.size, "mode": "0644", "uid": 0, "gid": 0, "mtime": 0}
            return self.answer(200, file)
        self.send_response(206 if "range" in self.headers else 200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            while self.server.sent < 1 << 30:
                self.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
                self.server.sent += 0x10000

    def do_POST(self):
        self.answer(400, {"detail": SPEECH})


@pytest.fixture
def hand():
    server = Hand()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def web(tendon, hand):
    """A sandbox that is reached at the enemy's address."""
    tendon.ok("new", "--name", "web")
    with contextlib.closing(sqlite3.connect(tendon.state / "tendon.db", timeout=20)) as db, db:
        (before,) = db.execute("SELECT address FROM sandbox").fetchone()
        db.execute("UPDATE sandbox SET address = ?", (f"http://127.0.0.1:{hand.server_port}",))
    yield tendon
    with contextlib.closing(sqlite3.connect(tendon.state / "tendon.db", timeout=20)) as db, db:
        db.execute("UPDATE sandbox SET address = ?", (before,))


@pytest.mark.parametrize("size", [10, 0, -5])
def test_a_file_without_end(web, hand, tmp_path, size):
    hand.size = size
    complaint = web.fails(76, "cp", "web:/f", str(tmp_path / "f"))
    assert "more than it was asked for" in complaint
    assert not (tmp_path / "f").exists()
    assert hand.sent < 128 << 20


def is_plain(text):
    return not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E for c in text)


def test_an_error_does_not_speak_to_the_terminal(web, hand, screen, tmp_path):
    hand.refuse = True
    complaint = web("cp", "web:/f", str(tmp_path / "f")).stderr  # 2>&1 | tee ends at a terminal too
    assert "owned" in complaint and is_plain(complaint.rstrip("\n"))
    it = screen(web, "cp", "web:/f", str(tmp_path / "f"))
    it.wait()
    assert b"owned" in it.raw and b"\x1b]" not in it.raw and b"\x1b[31m" not in it.raw and b"\x07" not in it.raw


def test_logs_do_not_speak_to_the_terminal(tendon, screen):
    tendon.ok("new", "--name", "web")
    (box,) = tendon.json("ls")
    log = next(path for path in (tendon.state / "sandbox" / box["id"]).rglob("*log*") if path.is_file())
    with open(log, "ab") as out:
        out.write("h\u00e9 {}\tend\n".format(SPEECH).encode())
    it = screen(tendon, "logs", "web")
    assert it.wait() == 0
    assert "h\u00e9 ?]0;owned??[31mred ?5n ?back\tend" in it.text
    assert b"\x1b" not in it.raw
    assert SPEECH in tendon.ok("logs", "web")

"""HTTP/2: the same server behind it, against curl, and against frames that no good client sends (python3-h2)."""

import json
import socket
import subprocess
import time

import h2.config
import h2.connection
import h2.events
import pytest

from echo_server import WAIT, Server

STREAMS = 256  # of a connection, as src/net/http2.c has it


@pytest.fixture(scope="module")
def server():
    s = Server("127.0.0.1:0", "http2=1", "header=1", "idle=20", "body=1", "write=1")
    yield s
    out, err = s.stop()
    assert out == "stopped 0\n", (out, err)
    assert "Sanitizer" not in err and "runtime error" not in err, err


def curl(server, target, *options, **more):
    return subprocess.run(
        ["curl", "-sS", "--http2-prior-knowledge", "-m", str(2 * WAIT), *options, server.url + target],
        capture_output=True, timeout=3 * WAIT, check=True, **more,
    ).stdout


class Client:
    """A connection of python3-h2, which says every frame by itself."""

    def __init__(self, server):
        self.socket = server.socket()
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False,
                                                                       normalize_outbound_headers=False))
        self.h2.initiate_connection()
        self.flush()
        self.seen = []

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, path, method="GET", end=True, more=(), authority="localhost"):
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "http"), (":path", path), (":authority", authority), *more]
        self.h2.send_headers(stream, head, end_stream=end)
        self.flush()
        return stream

    def next(self):
        """The next events; None at the end of the connection."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            return None
        if not data:
            return None
        events = self.h2.receive_data(data)
        for e in events:
            if isinstance(e, h2.events.DataReceived):
                self.h2.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
        self.flush()
        self.seen += events
        return events

    def until(self, kind, stream=None):
        """The first event of that kind (of that stream), with those that were seen before."""
        until = time.monotonic() + WAIT
        while time.monotonic() < until:
            for e in self.seen:
                if isinstance(e, kind) and (stream is None or e.stream_id == stream):
                    return e
            assert self.next() is not None, self.seen
        raise AssertionError(self.seen)

    def answer(self, stream):
        self.until(h2.events.StreamEnded, stream)
        head = dict(self.until(h2.events.ResponseReceived, stream).headers)
        body = b"".join(e.data for e in self.seen if isinstance(e, h2.events.DataReceived) and e.stream_id == stream)
        return int(head[b":status"]), head, body

    def ends(self):
        """Waits for the server to hang up."""
        while self.next() is not None:
            pass
        return True


# --- ordinary requests ---------------------------------------------------------------------------


def test_a_request_is_understood_as_with_http_1(server):
    said = json.loads(curl(server, "/describe/a%20b?a=1&b=2", "-H", "X-Test: yes"))
    assert said == {**said, "method": "GET", "name": "a b", "query_a": "1", "query_b": "2", "header": "yes",
                    "length": 0, "peer": "127.0.0.1"}
    both = curl(server, "/alive", "-o", "/dev/null", "-w", "%{http_version} %{http_code} %{content_type}")
    assert both == b"2 200 application/json"


def test_http_1_is_served_on_the_same_port(server):
    assert server.get("/alive")[0] == 200
    for piece in (b"P", b"PRI", b"PRI * HTTP/1.1\r\n"):  # begins like HTTP/2 and is not
        with server.socket() as s:
            s.sendall(piece + b"OST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
            assert s.recv(12).startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize("size", [0, 1, 16384, 16385, 3_000_000])
def test_bodies_come_back(server, size, tmp_path):
    (tmp_path / "body").write_bytes(bytes(i * 7 % 251 for i in range(size)))
    body = (tmp_path / "body").read_bytes()
    assert curl(server, "/echo", "--data-binary", f"@{tmp_path}/body") == body
    with open(tmp_path / "body", "rb") as file:  # without a length
        assert curl(server, "/echo-stream", "-T", "-", "-X", "POST", stdin=file) == body
    assert len(curl(server, f"/stream?n={size}")) == size


def test_head_and_codes_without_a_body(server):
    c = Client(server)
    asked = [c.ask("/alive", "HEAD"), c.ask("/status/204"), c.ask("/status/304"), c.ask("/none")]
    answers = [c.answer(stream) for stream in asked]
    assert [a[0] for a in answers] == [200, 204, 304, 404]
    assert answers[0][1][b"content-length"] == b"15" and answers[0][2] == b""
    assert b"connection" not in answers[0][1]


def test_streams_do_not_wait_for_each_other(server):
    c = Client(server)
    slow = c.ask("/echo-stream", "POST", end=False)
    c.h2.send_data(slow, b"first")
    c.flush()
    assert c.answer(c.ask("/alive"))[0] == 200
    c.h2.send_data(slow, b" last", end_stream=True)
    c.flush()
    assert c.answer(slow)[2] == b"first last"


def test_an_answer_comes_while_it_is_made(server):
    c = Client(server)
    stream = c.ask("/echo-stream", "POST", end=False)
    c.h2.send_data(stream, b"now")
    c.flush()
    assert c.until(h2.events.DataReceived, stream).data == b"now"
    c.h2.end_stream(stream)
    c.flush()
    assert c.answer(stream)[0] == 200


def test_cookies_are_one_field_and_host_is_the_authority(server):
    c = Client(server)
    assert c.answer(c.ask("/describe", more=[("cookie", "a=1"), ("cookie", "b=2"), ("host", "localhost")]))[0] == 200
    assert c.answer(c.ask("/describe", more=[("host", "elsewhere")]))[0] == 400


def test_a_handler_learns_that_its_client_is_gone(server):
    before = int(server.get("/gone")[2])
    c = Client(server)
    stream = c.ask("/wait-gone")
    until = time.monotonic() + WAIT
    while int(server.get("/waiting")[2]) == 0 and time.monotonic() < until:
        pass
    c.h2.reset_stream(stream)
    c.flush()
    while int(server.get("/gone")[2]) == before and time.monotonic() < until:
        pass
    assert int(server.get("/gone")[2]) == before + 1
    assert c.answer(c.ask("/alive"))[0] == 200  # the connection goes on


# --- limits --------------------------------------------------------------------------------------


def test_a_large_body_that_nobody_takes_is_held_back(server):
    """The window of a stream is all that the server holds of it."""
    c = Client(server)
    stream = c.ask("/wait-gone", "GET", end=False)
    sent = 0
    while (room := c.h2.local_flow_control_window(stream)) > 0:
        c.h2.send_data(stream, bytes(min(room, 16384)))
        c.flush()
        sent += min(room, 16384)
        assert sent < 4_000_000
        c.socket.settimeout(0.2)
        try:
            c.next()
        except TimeoutError:
            pass
        c.socket.settimeout(WAIT)
    c.h2.reset_stream(stream)
    c.flush()
    assert c.answer(c.ask("/alive"))[0] == 200


def test_more_streams_than_are_allowed_end_the_connection(start):
    server = start("127.0.0.1:0", "http2=1", "connections=400")
    c = Client(server)
    c.until(h2.events.RemoteSettingsChanged)
    c.h2.remote_settings.max_concurrent_streams = 1000  # a client that does not care
    c.h2.remote_settings.acknowledge()
    try:
        for _ in range(STREAMS + 8):
            c.ask("/wait-gone")
        assert c.ends()
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert server.get("/alive")[0] == 200


def test_streams_that_wait_leave_room_for_others(start):
    """Many long calls on one connection, and those that are given up at once: the others go on."""
    server = start("127.0.0.1:0", "http2=1", "connections=400")
    c = Client(server)
    c.until(h2.events.RemoteSettingsChanged)
    waiting = [c.ask("/wait-gone") for _ in range(STREAMS - 1)]
    assert c.answer(c.ask("/alive"))[0] == 200
    for stream in waiting:
        c.h2.reset_stream(stream)
    c.flush()
    assert c.answer(c.ask("/alive"))[0] == 200


def test_streams_count_as_connections(start):
    server = start("127.0.0.1:0", "http2=1", "connections=4")
    c = Client(server)
    for _ in range(3):
        c.ask("/wait-gone")
    assert c.answer(c.ask("/alive"))[0] == 503
    c.socket.close()


def test_too_long_a_head(server):
    c = Client(server)
    assert c.answer(c.ask("/alive", more=[(f"x-{i}", "y" * 4000) for i in range(12)]))[0] == 431
    assert c.answer(c.ask("/" + "a" * 9000))[0] == 414
    assert c.answer(c.ask("/alive"))[0] == 200


def test_who_has_the_answer_need_not_send_the_rest(server):
    c = Client(server)
    stream = c.ask("/status/404", "POST", end=False)  # answered at once
    assert c.until(h2.events.StreamReset, stream).error_code == 0
    assert c.answer(c.ask("/alive"))[0] == 200


def test_idle_connections_end(start):
    server = start("127.0.0.1:0", "http2=1", "idle=1")
    c = Client(server)
    assert c.answer(c.ask("/alive"))[0] == 200
    assert c.ends()
    assert any(isinstance(e, h2.events.ConnectionTerminated) for e in c.seen)


def test_a_client_that_takes_nothing_is_left(start):
    server = start("127.0.0.1:0", "http2=1", "write=1")
    with server.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        quiet = h2.connection.H2Connection()
        quiet.initiate_connection()
        quiet.increment_flow_control_window(2**30)
        for _ in range(4):
            stream = quiet.get_next_available_stream_id()
            quiet.send_headers(stream, [(":method", "GET"), (":scheme", "http"), (":path", "/stream?n=50000000"),
                                        (":authority", "x")], end_stream=True)
            quiet.increment_flow_control_window(2**30, stream)
        s.sendall(quiet.data_to_send())
        until = time.monotonic() + 2 * WAIT
        while server.descriptors() > server.idle_descriptors:
            assert time.monotonic() < until


def test_who_resets_all_the_time_is_sent_away(server):
    c = Client(server)
    try:
        for _ in range(600):
            c.h2.reset_stream(c.ask("/wait-gone"))
            c.flush()
        c.ends()
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert server.get("/alive")[0] == 200


# --- what is no HTTP/2, or no HTTP ---------------------------------------------------------------

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes(3) + b"\x04" + bytes(5)


@pytest.mark.parametrize(
    "bytes_",
    [
        PREFACE + b"GET / HTTP/1.1\r\n\r\n",
        PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",  # a frame of 16 MB
        PREFACE + SETTINGS + b"\x00\x00\x01\x00\x00\x00\x00\x00\x01x",  # data of no stream
        PREFACE + SETTINGS + b"\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff",  # a head that is none
        PREFACE + SETTINGS + b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",  # a window of nothing
    ],
)
def test_what_is_no_http2_ends_the_connection(server, bytes_):
    with server.socket() as s:
        s.sendall(bytes_)
        while True:
            try:
                if not s.recv(65536):
                    break
            except ConnectionResetError:
                break
    assert server.get("/alive")[0] == 200


@pytest.mark.parametrize(
    "path, more, authority",
    [
        ("/alive HTTP/1.1\r\nX-Test: smuggled", [], "x"),
        ("/alive", [("x-test", "a\r\nx-other: b")], "x"),
        ("/alive", [("x test", "a")], "x"),
        ("/alive", [("transfer-encoding", "chunked")], "x"),
        ("/alive", [("connection", "keep-alive")], "x"),
        ("/alive", [], "x\r\nx-test: a"),
        ("/alive", [("content-length", "5")], "x"),
        ("", [], "x"),
    ],
)
def test_what_would_break_a_line_does_not_arrive(server, path, more, authority):
    c = Client(server)
    stream = c.ask(path, more=more, authority=authority)
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        if any(isinstance(e, h2.events.StreamReset | h2.events.ConnectionTerminated) for e in c.seen):
            return
        heads = [e for e in c.seen if isinstance(e, h2.events.ResponseReceived) and e.stream_id == stream]
        if heads:
            assert dict(heads[0].headers)[b":status"] == b"400"
            return
        if c.next() is None:
            return
    raise AssertionError(c.seen)


def test_a_body_of_another_length_than_was_said(server):
    c = Client(server)
    stream = c.ask("/echo", "POST", end=False, more=[("content-length", "10")])
    c.h2.send_data(stream, b"short", end_stream=True)
    c.flush()
    c.until(h2.events.StreamReset, stream)


def test_a_stop_lets_what_was_asked_be_answered(start):
    server = start("127.0.0.1:0", "http2=1")
    c = Client(server)
    stream = c.ask("/echo-stream", "POST", end=False)
    c.h2.send_data(stream, b"x")
    c.flush()
    c.until(h2.events.DataReceived, stream)
    # the fixture stops it: "stopped 0"

"""/v1/tunnel/{port}: a byte stream to a port inside."""

import http.client
import os
import socket
import threading

import pytest

from harness import free_port, wait_until

pytestmark = pytest.mark.concurrent


class Server:
    """Accepts connections on a loopback port and gives each to the handler."""

    def __init__(self, handle, host="127.0.0.1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(family)
        self.listener.bind((host, 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        self.handle = handle
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        with connection:
            try:
                self.handle(connection)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def request(port, protocol="tendon-tunnel", method="GET"):
    return (
        f"{method} /v1/tunnel/{port} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
        f"Upgrade: {protocol}\r\n\r\n"
    ).encode()


def tunnel(client, port, early=b""):
    s = client.socket(15)
    s.sendall(request(port) + early)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = s.recv(1)
        assert byte, head
        head += byte
    assert head.startswith(b"HTTP/1.1 101 "), head
    assert b"upgrade: tendon-tunnel\r\n" in head.lower()
    return s


def read_all(s):
    data = bytearray()
    while piece := s.recv(1 << 16):
        data += piece
    return bytes(data)


def echo(connection):
    while data := connection.recv(1 << 16):
        connection.sendall(data)


def test_bytes_go_both_ways(shared):
    with Server(echo) as server, tunnel(shared, server.port) as s:
        for message in (b"hello", b"\0\r\n\xff" * 1000):
            s.sendall(message)
            got = b""
            while len(got) < len(message):
                got += s.recv(1 << 16)
            assert got == message


def test_early_bytes(shared):
    """Sent together with the request, before the answer."""
    with Server(echo) as server, tunnel(shared, server.port, early=b"x" * 3000) as s:
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"x" * 3000


def test_http_through_it(shared):
    """What a port forwarder does: any protocol, here HTTP to the hand of HTTP."""

    def answer(connection):
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with Server(answer) as server:
        inner = http.client.HTTPConnection("inside")
        inner.sock = tunnel(shared, server.port)
        inner.request("GET", "/")
        assert inner.getresponse().read() == b"ok"
        inner.close()


def test_ipv6_only_server(shared):
    with Server(echo, host="::1") as server, tunnel(shared, server.port) as s:
        s.sendall(b"six")
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"six"


def test_the_client_may_finish_first(shared):
    """Half-close: the server sees the end, and still answers."""

    def count(connection):
        total = len(read_all(connection))
        connection.sendall(b"got %d" % total)

    with Server(count) as server, tunnel(shared, server.port) as s:
        s.sendall(b"x" * 1000000)
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"got 1000000"


def test_the_server_may_finish_first(shared):
    got = []

    def handle(connection):
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        got.append(read_all(connection))

    with Server(handle) as server, tunnel(shared, server.port) as s:
        assert read_all(s) == b"bye"
        s.sendall(b"still here")
        s.shutdown(socket.SHUT_WR)
        wait_until(lambda: got == [b"still here"], what="the rest")


def test_an_answer_is_not_lost_when_the_server_stops_reading(shared):
    """It answers and goes while the client is still sending."""
    done = threading.Event()

    def handle(connection):
        connection.recv(10)
        connection.sendall(b"no, thanks" + b"." * 500000)
        connection.shutdown(socket.SHUT_WR)
        done.wait(10)

    with Server(handle) as server, tunnel(shared, server.port) as s:
        stop = threading.Event()

        def send():
            try:
                while not stop.is_set():
                    s.sendall(b"x" * 65536)
            except OSError:
                pass

        sender = threading.Thread(target=send)
        sender.start()
        assert read_all(s) == b"no, thanks" + b"." * 500000
        done.set()
        stop.set()
        s.shutdown(socket.SHUT_RDWR)
        sender.join(20)
        assert not sender.is_alive()


def test_lots_in_both_directions_at_once(shared):
    size = 30 << 20
    block = os.urandom(1 << 20)
    with Server(echo) as server, tunnel(shared, server.port) as s:

        def send():
            for _ in range(size >> 20):
                s.sendall(block)
            s.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        assert read_all(s) == block * (size >> 20)
        sender.join()


def test_a_slow_reader_holds_only_its_own_tunnel(shared):
    with Server(lambda c: c.sendall(b"x" * (20 << 20))) as flood, Server(echo) as server:
        with tunnel(shared, flood.port) as slow, tunnel(shared, server.port) as s:
            s.sendall(b"quick")
            assert s.recv(100) == b"quick"
            assert shared.ok("echo free") == "free"
            assert len(read_all(slow)) == 20 << 20


def test_what_ends_is_released(hand):
    """In whatever way it ends, and also when the server inside says nothing."""
    closed = threading.Semaphore(0)

    def silent(connection):
        read_all(connection)
        closed.release()
        threading.Event().wait(1)

    with Server(silent) as server:
        hand.client.ok("true")
        before = hand.descriptors()
        for how in (socket.SHUT_RDWR, None):
            s = tunnel(hand.client, server.port)
            s.sendall(b"x")
            if how is not None:
                s.shutdown(how)
            s.close()
            assert closed.acquire(timeout=5), "the server inside did not hear of it"
        wait_until(lambda: hand.descriptors() <= before, 8, "descriptors closed")


def test_a_client_that_is_gone_does_not_wait_for_the_server(hand):
    """Its half-close became a close: nobody is left to answer."""
    with Server(lambda c: (read_all(c), threading.Event().wait(30))) as server:
        hand.client.ok("true")
        before = hand.descriptors()
        tunnel(hand.client, server.port).close()
        wait_until(lambda: hand.descriptors() <= before, 8, "descriptors closed")


# --- refused ------------------------------------------------------------------------------------


def test_nobody_listens(shared):
    reply = shared.raw(request(free_port()))
    assert reply.status == 502 and "refused" in reply.detail.lower(), reply


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", "80x", "+80", "%2080", "1e3", "9" * 30])
def test_bad_port(shared, port):
    reply = shared.raw(request(port))
    assert (reply.status, reply.detail) == (422, "port must be a number from 1 to 65535")


def test_without_an_upgrade(shared):
    accepted = []
    with Server(accepted.append) as server:
        reply = shared.get(f"/v1/tunnel/{server.port}")
        assert (reply.status, reply.headers["upgrade"]) == (426, "tendon-tunnel")
        upgrade = {"Connection": "Upgrade", "Upgrade": "tendon-tunnel"}
        head = shared.request("HEAD", f"/v1/tunnel/{server.port}", headers=upgrade)
        assert head.status == 426
        assert not accepted, "the port is not touched"
    assert shared.raw(request(1, method="POST")).status == 405


def test_another_protocol(shared):
    with Server(echo) as server:
        reply = shared.raw(request(server.port, protocol="websocket"))
        assert reply.status == 400 and "tendon-tunnel" in reply.detail


def test_needs_the_key(start):
    hand = start(env={"SESSION_API_KEY": "secret"})
    assert hand.client.raw(request(80)).status == 403

"""Slow, silent and vanished clients; a full server; a server that stops."""

import os
import socket
import threading

import pytest

from echo_server import GOOD, detail_of, receive_all, status_of, timed, wait_until

# --- slow and dead clients -----------------------------------------------------------------------


def test_slow_headers(server):
    """A byte now and then does not extend the deadline (1 s here)."""

    def drip():
        with server.socket() as s:
            s.settimeout(0.1)
            answer = b""
            for byte in GOOD[:-1] + b"x" * 1000:
                try:
                    s.sendall(bytes([byte]))
                    answer = s.recv(1000)
                    break
                except TimeoutError:
                    pass
            return answer

    answer, seconds = timed(drip)
    assert status_of(answer) == 408 and 0.8 < seconds < 3


@pytest.mark.parametrize("framing", [b"Content-Length: 10\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel"])
def test_slow_body(server, framing):
    answer, seconds = timed(server.raw, b"POST /echo HTTP/1.1\r\nHost: x\r\n" + framing)
    assert status_of(answer) == 408 and 0.8 < seconds < 6


def test_a_byte_now_and_then_does_not_keep_a_body(server):
    """What is read whole must bring 32 KiB a second, or come within a second here."""

    def drip():
        with server.socket() as s:
            s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 200_000)
            s.settimeout(0.1)
            for _ in range(100):
                try:
                    s.sendall(b"x" * 100)
                    return s.recv(1000)
                except TimeoutError:
                    pass
            return b""

    answer, seconds = timed(drip)
    assert status_of(answer) == 408 and 1 < seconds < 6


def test_body_cut_short(server):
    answer = server.raw(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello", shut=True)
    assert status_of(answer) == 400


def test_client_that_does_not_read(server):
    s = server.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall(b"GET /stream?n=1000000000 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert server.get("/alive")[0] == 200  # others do not notice
    wait_until(lambda: server.descriptors() == server.idle_descriptors)
    s.close()


def test_client_that_does_not_read_a_file(server, tmp_path):
    path = tmp_path / "big"
    with open(path, "wb") as f:
        f.truncate(1 << 30)
    s = server.socket()
    s.sendall(b"GET /file?path=%s&n=%d HTTP/1.1\r\nHost: x\r\n\r\n" % (bytes(path), 1 << 30))
    wait_until(lambda: server.descriptors() == server.idle_descriptors)
    s.close()


def test_idle_connection_is_closed_silently(start):
    server = start("127.0.0.1:0", "idle=0.3", "header=0.3")
    for data in (b"", b"GET /alive HTTP/1.1\r\nHost: x\r\n\r\n"):
        with server.socket() as s:
            if data:
                s.sendall(data)
                assert status_of(s.recv(1000)) == 200
            rest, seconds = timed(receive_all, s)
            assert rest == b"" and 0.2 < seconds < 2
    with server.socket() as s:
        s.sendall(b"\r\n")
        assert receive_all(s) == b""


def test_descriptors_do_not_leak(server):
    for i in range(50):
        s = server.socket()
        s.sendall([b"", b"GET /al", GOOD, b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"][i % 4])
        s.close()
    wait_until(lambda: server.descriptors() == server.idle_descriptors)


# --- is the client still there? ------------------------------------------------------------------


@pytest.mark.parametrize("unix", [False, True])
@pytest.mark.parametrize("how", ["close", "half", "pipelined"])
def test_peer_gone(start, tmp_path, unix, how):
    server = start(f"unix:{tmp_path}/s" if unix else "127.0.0.1:0")
    s = server.socket()
    s.sendall(b"GET /wait-gone HTTP/1.1\r\nHost: x\r\n\r\n")
    if how == "pipelined":
        s.sendall(b"GET /gone HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_until(lambda: server.get("/waiting")[2] == b"1")
    assert server.get("/gone")[2] == b"0"
    if how == "half":
        s.shutdown(socket.SHUT_WR)
        assert b"still here" in receive_all(s)
    else:
        s.close()
    wait_until(lambda: server.get("/gone")[2] == b"1")
    s.close()


@pytest.mark.parametrize("unix", [False, True])
def test_peer_gone_is_not_fooled_by_a_pipelined_request(start, tmp_path, unix):
    server = start(f"unix:{tmp_path}/s" if unix else "127.0.0.1:0")
    answer = server.raw(
        b"POST /look-gone HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi" + GOOD
    )
    assert b"\r\n\r\nhere" in answer and answer.count(b"HTTP/1.1 200") == 2


# --- capacity and stopping -----------------------------------------------------------------------


def test_over_capacity(start):
    server = start("127.0.0.1:0", "connections=3")
    held = [server.connection() for _ in range(3)]
    for c in held:
        c.request("GET", "/alive")
        c.getresponse().read()
    for _ in range(40):  # more than are looked after at a time
        answer = server.raw(GOOD)
        assert status_of(answer) == 503 and detail_of(answer) == "Too many connections"
    held.pop().close()
    wait_until(lambda: server.get("/alive")[0] == 200)


def test_refused_clients_are_let_go(start):
    server = start("127.0.0.1:0", "connections=1")
    held = server.connection()
    held.request("GET", "/alive")
    held.getresponse().read()
    silent = [server.socket() for _ in range(50)]
    wait_until(lambda: server.descriptors() == server.idle_descriptors + 1)
    for s in silent:
        assert b" 503 " in receive_all(s)


def test_stop_wakes_everything(start):
    server = start("127.0.0.1:0")
    sockets = []
    for data in (
        b"",
        b"GET /al",
        b"GET /alive HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx",
        b"GET /stream?n=1000000000 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /wait-gone HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n",
        b"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\nx",
    ):
        s = server.socket()
        s.sendall(data)
        sockets.append(s)
    assert server.get("/alive")[0] == 200
    (out, err), seconds = timed(server.stop)
    assert out == "stopped 0\n" and seconds < 4, (out, err)
    server.stop = lambda: (out, err)


def test_answer_under_way_survives_stop(start):
    server = start("127.0.0.1:0")
    s = server.socket()
    s.sendall(b"GET /wait-gone HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_until(lambda: server.get("/waiting")[2] == b"1")
    out, err = server.stop()
    assert b"still here" in receive_all(s)
    server.stop = lambda: (out, err)


def test_many_connections_at_once(server):
    failures = []

    def work():
        try:
            c = server.connection()
            for i in range(50):
                body = os.urandom(i * 37)
                c.request("POST", "/echo", body)
                if c.getresponse().read() != body:
                    failures.append("wrong body")
        except Exception as e:
            failures.append(repr(e))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures

"""Requests on their way to hands and ports: kept connections, clients that leave, large bodies, smuggling."""

import json
import socket
import threading
import zlib

import pytest

from native import at, run
from previews import PORT, open_request, raw, serving, start_server
from services import PATIENCE, eventually

SIZE = 20 << 20


@pytest.fixture(scope="module")
def box(alice):
    return serving(alice)


def inside(box, rest):
    return f"/preview/{box['id']}/{PORT}{rest}"


def counts(client, box):
    return client.get(inside(box, "/count")).ok().json


def head(client, box, rest, more="", method="GET"):
    return f"{method} {inside(box, rest)} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {client.key}\r\n{more}\r\n".encode()


# --- connections that are kept -------------------------------------------------------------------


def test_connections_are_used_again(alice, box):
    before = counts(alice, box)["connections"]
    for i in range(20):
        assert alice.get(inside(box, f"/echo?{i}")).ok().json["target"] == f"/echo?{i}"
        assert alice.post(inside(box, "/sum"), b"x" * i).ok().json["size"] == i
    assert counts(alice, box)["connections"] <= before + 1


def test_one_that_ended_meanwhile_is_noticed(alice):
    """Also for a request that must not be sent twice."""
    box = serving(alice)
    for method in ("POST", "GET"):
        assert alice.request(method, inside(box, "/echo")).ok()
        run(alice, box, "pkill -f inside_server; while pgrep -f inside_server; do sleep 0.01; done")
        alice.request(method, inside(box, "/echo")).ok(502)
        start_server(alice, box)
        assert alice.request(method, inside(box, "/echo")).ok()
    alice.delete(at(box)).ok(204)


def test_the_hand_answers_many(service, alice, box):
    """From several clients at once, each its own answer."""
    wrong = []

    def ask(number):
        client = service.client(alice.key)
        for i in range(20):
            told = client.get(at(box, "/hand/v1/files/stat", path="/tmp"), headers={"X-Request-Id": f"r-{number}-{i}"})
            if told.status != 200 or told.headers["X-Request-Id"] != f"r-{number}-{i}":
                wrong.append(told)

    threads = [threading.Thread(target=ask, args=[i]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nobody_elses_hand(service, alice, box):
    bob = service.tenant("bob")
    for path in ("/hand/alive", "/files?path=/etc/hostname", "/hand/v1/sessions"):
        there, nowhere = bob.get(at(box, path)), bob.get(at("zzzzzzzzzz", path))
        assert there.status == nowhere.status == 404
        assert there.json["detail"].replace(box["id"], "ID") == nowhere.json["detail"].replace("zzzzzzzzzz", "ID")
        assert service.stranger().get(at(box, path)).status == 401
    answer = alice.get(at(box, "/hand/alive")).ok()
    assert (
        "sandbox" in answer.headers["Content-Security-Policy"] and answer.headers["X-Content-Type-Options"] == "nosniff"
    )


@pytest.mark.parametrize("rest", ["/..", "/../../other/alive", "/v1/%2e%2e/%2E./alive", "/v1/..%2f..", "/./alive"])
def test_no_path_climbs(alice, box, rest):
    """What stands before a hand elsewhere, with the operator's credentials, might resolve it."""
    assert "segment" in alice.get(at(box, "/hand" + rest)).ok(400).text


# --- large bodies --------------------------------------------------------------------------------


def test_large_bodies_arrive_whole(alice, box):
    block = bytes(range(256)) * 1024
    down = alice.get(inside(box, f"/size/{SIZE}")).ok().body
    assert len(down) == SIZE and down == block * (SIZE // len(block))
    told = alice.post(inside(box, "/sum"), down).ok().json
    assert told == {"size": SIZE, "check": zlib.crc32(down)}
    told = alice.post(inside(box, "/sum"), down[:-1], headers={"Expect": "100-continue"}).ok().json
    assert told == {"size": SIZE - 1, "check": zlib.crc32(down[:-1])}
    pieces = (down[i : i + 100_000] for i in range(0, SIZE, 100_000))
    connection = alice.connect()
    connection.request(
        "POST",
        inside(box, "/sum"),
        pieces,
        {"X-API-Key": alice.key, "Transfer-Encoding": "chunked"},
        encode_chunked=True,
    )
    assert json.loads(connection.getresponse().read()) == {"size": SIZE, "check": zlib.crc32(down)}
    alice.close()


def test_a_slow_client_holds_nobody_up(service, alice, box):
    """It takes nothing of a large answer: others are served, and it gets all of it in the end."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.settimeout(PATIENCE)
    slow.connect(("127.0.0.1", service.port))
    slow.sendall(head(alice, box, f"/size/{SIZE}", "Connection: close\r\n"))
    assert slow.recv(100).startswith(b"HTTP/1.1 200")
    for _ in range(5):
        alice.get(inside(box, "/echo")).ok()
        alice.get(at(box, "/hand/alive")).ok()
    size = 0
    while piece := slow.recv(1 << 20):
        size += len(piece)
    assert size > SIZE - 100
    slow.close()


def test_a_slow_upload_holds_nobody_up(service, alice, box):
    slow = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
    slow.sendall(head(alice, box, "/sum", "Content-Length: 10\r\n", "POST") + b"12345")
    for _ in range(5):
        alice.get(inside(box, "/echo")).ok()
    slow.sendall(b"67890")
    assert slow.recv(4096).startswith(b"HTTP/1.1 200")
    slow.close()


# --- leaving in the middle -----------------------------------------------------------------------


@pytest.mark.parametrize("what", ["/silent", "/slow"])
def test_a_client_that_leaves_ends_the_other_side(service, alice, box, what):
    before = counts(alice, box)["ended"]
    connection = open_request(service, inside(box, what), {"X-API-Key": alice.key})
    if what == "/slow":
        assert connection.getresponse().readline() == b"first\n"
    connection.close()
    eventually(lambda: counts(alice, box)["ended"] > before, "the server inside sees that nobody waits")


def test_an_upload_that_breaks_off(service, alice, box):
    """Neither a half body nor a whole request arrives inside."""
    for more, body in (
        ("Content-Length: 100\r\n", b"half"),
        ("Transfer-Encoding: chunked\r\n", b"4\r\nhalf\r\n"),
        (f"Content-Length: {SIZE}\r\n", b"x" * (SIZE // 2)),
    ):
        conn = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
        conn.sendall(head(alice, box, "/sum", more, "POST") + body)
        conn.shutdown(socket.SHUT_WR)
        got = b""
        while piece := conn.recv(4096):
            got += piece
        assert b" 200 " not in got
        conn.close()
    assert alice.post(inside(box, "/sum"), b"whole").ok().json["size"] == 5


def test_an_answer_that_breaks_off_is_cut(service, alice, box):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    got = b""
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as conn:
        conn.sendall(head(alice, box, f"/raw/{answer.hex()}"))
        try:
            while piece := conn.recv(4096):
                got += piece
        except ConnectionResetError:
            pass
    assert b"Content-Length: 100" in got and got.endswith(b"half")
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n9"
    got = raw(service, head(alice, box, f"/raw/{chunked.hex()}"))
    assert b"half" in got and not got.endswith(b"0\r\n\r\n")


def test_a_sandbox_that_goes_ends_its_streams(service, alice):
    box = serving(alice)
    connection = open_request(service, inside(box, "/slow"), {"X-API-Key": alice.key})
    response = connection.getresponse()
    assert response.readline() == b"first\n"
    alice.delete(at(box)).ok(204)
    with pytest.raises(Exception):  # the end is no proper one
        assert response.read(1) == b""
        raise EOFError
    connection.close()
    alice.get(inside(box, "/echo")).ok(404)


# --- heads ---------------------------------------------------------------------------------------


def test_interim_answers_are_skipped(alice, box):
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    answer = early + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    told = alice.get(inside(box, f"/raw/{answer.hex()}")).ok()
    assert told.body == b"ok" and "Link" not in told.headers


def test_huge_heads(service, alice, box):
    assert (
        b" 431 "
        in raw(service, head(alice, box, "/echo", "X: " + "y" * 40000 + "\r\nConnection: close\r\n")).splitlines()[0]
    )
    assert (
        b" 431 " in raw(service, head(alice, box, "/echo", "X: y\r\n" * 200 + "Connection: close\r\n")).splitlines()[0]
    )
    assert b" 414 " in raw(service, head(alice, box, "/" + "z" * 20000, "Connection: close\r\n")).splitlines()[0]
    big = alice.get(inside(box, "/echo"), headers={"X-Big": "y" * 20000}).ok()
    assert ["x-big", "y" * 20000] in big.json["fields"]


def test_what_belongs_to_one_connection_stays(alice, box):
    headers = {
        "Connection": "X-Mine, close",
        "X-Mine": "1",
        "TE": "trailers",
        "Keep-Alive": "5",
        "Proxy-Authorization": "Basic x",
        "Trailer": "x",
    }
    seen = alice.get(inside(box, "/echo"), headers=headers).ok().json["fields"]
    assert not {name for name, _ in seen} & {
        "x-mine",
        "te",
        "keep-alive",
        "proxy-authorization",
        "trailer",
        "connection",
    }
    # What we say cannot be taken away by being named.
    seen = (
        alice.get(
            inside(box, "/echo"),
            headers={"Connection": "X-Forwarded-For, Host, X-Request-Id", "X-Forwarded-For": "6.6.6.6"},
        )
        .ok()
        .json["fields"]
    )
    assert ["x-forwarded-for", "127.0.0.1"] in seen and ["host", f"localhost:{PORT}"] in seen


@pytest.mark.parametrize(
    "more",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Content-Length: +5\r\n",
        "X: a\r\n folded\r\n",
        "X: a\rb\r\n",
        "X: a\x00b\r\n",
        "X\x0b: a\r\n",
        "Host: other\r\n",
    ],
)
def test_smuggling_ends_here(service, alice, box, more):
    before = counts(alice, box)["connections"]
    got = raw(
        service,
        head(alice, box, "/echo", more, "POST") + b"0\r\n\r\nGET /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    )
    assert got.splitlines()[0].split()[1] in (b"400", b"501") and got.count(b"HTTP/1.1 ") == 1
    assert counts(alice, box)["connections"] <= before + 1


def test_the_next_request_is_another(service, alice, box):
    """Who came in for one request has not come in for the one behind it."""
    got = raw(
        service,
        head(alice, box, "/echo") + b"GET /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    )
    assert got.startswith(b"HTTP/1.1 200") and b"HTTP/1.1 401" in got


def test_bytes_are_counted(service, alice, box):
    def carried():
        lines = service.client().get("/metrics").ok().text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("tendon_proxied_bytes"))

    before = carried()
    alice.get(inside(box, "/size/100000")).ok()
    assert carried() - before >= 100000


@pytest.mark.concurrent
def test_many_at_once(service, alice, box):
    """Clients that stay, leave and repeat, all at the same time; afterwards all is as before."""
    failed = []

    def work(number):
        client = service.client(alice.key)
        for i in range(10):
            if (number + i) % 3 == 0:
                open_request(service, inside(box, "/silent"), {"X-API-Key": alice.key}).close()
            elif client.get(inside(box, f"/size/{i * 50000}")).status != 200:
                failed.append((number, i))
        client.close()

    threads = [threading.Thread(target=work, args=[i]) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    alice.get(inside(box, "/echo")).ok()

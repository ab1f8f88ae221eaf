"""Requests that are wrong, or nearly: what is refused, how, and what is tolerated."""

import re
import socket

import pytest

from echo_server import GOOD, detail_of, receive_all, status_of

MALFORMED = [
    # request lines
    (b"GET /alive\r\n\r\n", 400),
    (b"GET  /alive HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1 \r\nHost: x\r\n\r\n", 400),
    (b"GET /al ive HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b" GET /alive HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"G\x00T /alive HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\nHost: x\n\n", 400),
    (b"GET /alive HTTP/1.1\rHost: x\r\n\r\n", 400),
    (b"GET /alive HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    (b"GET /alive HTTP/0.9\r\nHost: x\r\n\r\n", 505),
    (b"GET /alive HTTP/1.1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /alive http/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /alive HTTP/11\r\nHost: x\r\n\r\n", 400),
    (b"GET alive HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET ftp://x/alive HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /%4 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /% HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /alive?a=%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /alive?a=% HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    (b"GET /" + b"a" * 100000, 414),
    # header lines
    (b"GET /alive HTTP/1.1\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\nnocolon\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\n: empty\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\nA: b\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\nA\x80: b\r\n\r\n", 400),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 40000 + b"\r\n\r\n", 431),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\n" + b"A: " + b"b" * 200000, 431),
    # framing
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nhello", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nhello", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\nhello", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\nhello", 413),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\nhello", 413),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n", 501),
    (b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    # chunks
    *[
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, 400)
        for chunks in (
            b"g\r\n",
            b"\r\n",
            b"-1\r\n",
            b"+1\r\n",
            b"0x1\r\na\r\n0\r\n\r\n",
            b" 1\r\na\r\n0\r\n\r\n",
            b"1 \r\na\r\n0\r\n\r\n",
            b"1\na\r\n0\r\n\r\n",
            b"1\r\nab\r\n0\r\n\r\n",
            b"1\r\na\n0\r\n\r\n",
            b"1;x\ny\r\na\r\n0\r\n\r\n",
            b"1;" + b"x" * 2000 + b"\r\na\r\n0\r\n\r\n",
            b"fffffffffffffffff\r\n",
            b"0\r\nTrailer: " + b"x" * 9000 + b"\r\n\r\n",
            b"0\r\nTrailer\n\r\n",
        )
    ],
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", 413),
    # expectations
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\nConnection: close\r\n\r\n", 417),
]


@pytest.mark.parametrize("request_bytes, status", MALFORMED)
def test_malformed(server, request_bytes, status):
    answer = server.raw(request_bytes, shut=len(request_bytes) < 60000)
    assert status_of(answer) == status, answer
    assert isinstance(detail_of(answer), str)
    assert b"\r\nConnection: close\r\n" in answer
    assert len(re.findall(rb"HTTP/1.1 \d", answer)) == 1  # and whatever came behind was not taken for a request
    assert b"<reset>" not in answer


@pytest.mark.parametrize("request_bytes, status", MALFORMED)
def test_malformed_byte_by_byte(server, request_bytes, status):
    """The same answers when every byte travels alone."""
    if len(request_bytes) > 400:
        pytest.skip("long")
    with server.socket() as s:
        for i in range(len(request_bytes)):
            try:
                s.sendall(request_bytes[i : i + 1])
            except (BrokenPipeError, ConnectionResetError):
                break
        s.shutdown(socket.SHUT_WR)
        assert status_of(receive_all(s)) == status


TOLERATED = [
    (b"\r\n\r\n" + GOOD, 200),
    (b"GET /alive HTTP/1.9\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
    (b"GET /alive HTTP/1.1\r\nhost:x\r\nconnection:\tClose \r\n\r\n", 200),
    (b"GET /alive HTTP/1.1\r\nHost:\r\nConnection: foo, close\r\n\r\n", 200),
    (b"GET /alive HTTP/1.1\r\nHost: x\r\nEmpty:\r\nConnection: close\r\n\r\n", 200),
    (b"GET /alive HTTP/1.0\r\n\r\n", 200),
    (b"GET HTTP://x:80/alive HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 200),
    (b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n"
     b"0000A;ext=\"v\"\r\n0123456789\r\n1\r\na\r\n0\r\nT: 1\r\nU: 2\r\n\r\n", 200),
    (b"GET /r%c3%a9st\xc3\xa9 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
    (b"POST /echo HTTP/1.0\r\nExpect: miracles\r\nContent-Length: 2\r\n\r\nhi", 200),
]


@pytest.mark.parametrize("request_bytes, status", TOLERATED)
def test_tolerated(server, request_bytes, status):
    assert status_of(server.raw(request_bytes)) == status
    with server.socket() as s:
        for i in range(len(request_bytes)):
            s.sendall(request_bytes[i : i + 1])
        assert status_of(receive_all(s)) == status


def test_unread_body_is_not_the_next_request(server):
    smuggled = b"GET /alive HTTP/1.1\r\nHost: x\r\n\r\n"
    for framing, body in (
        (b"Content-Length: %d\r\n" % len(smuggled), smuggled),
        (b"Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(smuggled), smuggled)),
    ):
        for path in (b"/none", b"/nothing"):
            answer = server.raw(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n" + body + GOOD)
            assert answer.count(b"HTTP/1.1 ") == 2, answer
            assert answer.count(b"HTTP/1.1 200") == 1

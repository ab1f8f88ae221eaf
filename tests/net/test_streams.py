"""Events, multipart, WebSocket and upgrades against independent implementations."""

import json
import os
import socket
import struct

import pytest
import websocket

from echo_server import WAIT, receive_all

# --- events --------------------------------------------------------------------------------------


def test_events(server):
    status, headers, body = server.get("/events")
    assert status == 200 and headers["Content-Type"] == "text/event-stream"
    assert headers["Cache-Control"] == "no-store"
    assert body.decode().split("\n\n") == [
        "data: one",
        "event: named\nid: 7\ndata: two\ndata: lines\ndata: and\ndata: more\ndata: ",
        ":",
        "event: evil\ndata: ",
        "",
    ]


def test_events_head(server):
    assert server.get("/events", "HEAD")[0] == 200


# --- multipart -----------------------------------------------------------------------------------


def part(head, data):
    return b"--B\r\n" + head + b"\r\n\r\n" + data + b"\r\n"


def send_form(server, body, content_type="multipart/form-data; boundary=B"):
    status, _, answer = server.get("/form", "POST", body, {"Content-Type": content_type})
    return status, json.loads(answer)


def checksum(data):
    value = 0
    for byte in data:
        value = (value * 31 + byte) & 0xFFFFFFFF
    return value


def test_form(server):
    data = os.urandom(50000) + b"\r\n--A\r\n--" + b"\r\n--Bx" * 3
    body = part(b'Content-Disposition: form-data; name="f"; filename="a b.txt"\r\nContent-Type: x/y', data) + b"--B--\r\n"
    status, parts = send_form(server, body)
    assert status == 200
    assert parts == [{"name": "f", "filename": "a b.txt", "type": "x/y", "size": len(data), "sum": checksum(data)}]


@pytest.mark.parametrize(
    "disposition, name, filename",
    [
        (b'form-data; name="a"', "a", None),
        (b"form-data; name=a", "a", None),
        (b'FORM-DATA; NAME="a"; FileName="b"', "a", "b"),
        (b'form-data; name="a\\"b"', 'a"b', None),
        (b'form-data; name="a"; filename="C:\\dir\\x"', "a", "C:\\dir\\x"),
        (b'form-data; name="a"; filename=""', "a", ""),
        (b'form-data; name="a;b=c"; filename="../../x"', "a;b=c", "../../x"),
        (b"form-data; name=a; filename*=UTF-8''%e2%82%ac.txt", "a", "€.txt"),
        (b"form-data; name=a; filename=x; filename*=UTF-8''%e2%82%ac", "a", "€"),
        (b"form-data; name=a; filename=x; filename*=latin1''%e2", "a", "x"),
        (b"form-data; name=a; filename=x; filename*=UTF-8''%00", "a", "x"),
        ("form-data; name=\"ü\"".encode(), "ü", None),
        (b'form-data;name="a";', "a", None),
    ],
)
def test_form_disposition(server, disposition, name, filename):
    status, parts = send_form(server, part(b"content-disposition: " + disposition, b"x") + b"--B--")
    assert status == 200 and (parts[0]["name"], parts[0]["filename"]) == (name, filename)


NAMED = b"Content-Disposition: form-data; name=a"


@pytest.mark.parametrize(
    "body, status",
    [
        (b"--B--\r\n", 200),
        (b"--B--", 200),
        (b"preamble\r\n--B--\r\nepilogue", 200),
        (b"--B \t\r\n" + NAMED + b"\r\n\r\nx\r\n--B--", 200),
        (b"--B\r\n" + NAMED + b"\r\n\r\n\r\n--B--", 200),
        (b"--B\r\n" + NAMED + b"\r\n\r\n--B--", 200),
        (part(NAMED, b"") * 64 + b"--B--", 200),
        (part(NAMED, b"") * 65 + b"--B--", 413),
        (b"", 400),
        (b"nothing", 400),
        (part(NAMED, b"x"), 400),
        (part(NAMED, b"x") + b"--B-", 400),
        (b"--B\r\n" + NAMED, 400),
        (b"--B\r\n" + NAMED + b"\r\n\r\nx", 400),
        (b"--B x\r\n" + NAMED + b"\r\n\r\nx\r\n--B--", 400),
        (b"--B\r\n\r\nx\r\n--B--", 400),
        (b"--B\n" + NAMED + b"\n\nx\n--B--", 400),
        (part(b"Content-Disposition: attachment; name=a", b"x") + b"--B--", 400),
        (part(b"Content-Disposition: form-data; name", b"x") + b"--B--", 400),
        (part(b'Content-Disposition: form-data; name="a', b"x") + b"--B--", 400),
        (part(b'Content-Disposition: form-data; name="a"b', b"x") + b"--B--", 400),
        (part(b"nocolon", b"x") + b"--B--", 400),
        (part(NAMED + b"\0", b"x") + b"--B--", 400),
        (part(NAMED + b"\r\nX: " + b"y" * 9000, b"x") + b"--B--", 431),
        (part(NAMED + b"\r\nContent-Transfer-Encoding: base64", b"x") + b"--B--", 501),
        (part(NAMED + b"\r\nContent-Transfer-Encoding: Binary", b"x") + b"--B--", 200),
    ],
)
def test_form_bodies(server, body, status):
    assert send_form(server, body)[0] == status


@pytest.mark.parametrize(
    "content_type, status",
    [
        ("multipart/form-data; boundary=B", 200),
        ('Multipart/Form-Data; charset=x; boundary="B"', 200),
        ("multipart/form-data", 400),
        ("multipart/form-data; boundary=", 400),
        ("multipart/form-data; boundary=" + "x" * 71, 400),
        ("multipart/mixed; boundary=B", 415),
        ("application/json", 415),
    ],
)
def test_form_types(server, content_type, status):
    assert send_form(server, b"--B--", content_type)[0] == status


# --- WebSocket -----------------------------------------------------------------------------------


@pytest.fixture
def ws(server):
    client = websocket.create_connection(f"ws://127.0.0.1:{server.port}/ws", timeout=WAIT)
    yield client
    client.close()


def test_ws_text_and_binary(ws):
    for text in ("", "hello", "ü€😀", "x" * 125, "x" * 126, "x" * 65535, "x" * 65536, "x" * 1000000):
        ws.send(text)
        assert ws.recv() == text
    data = os.urandom(300000)
    ws.send_binary(data)
    assert ws.recv() == data


def test_ws_fragments_with_control_between(ws):
    ws.send_frame(websocket.ABNF.create_frame("Hel", websocket.ABNF.OPCODE_TEXT, 0))
    ws.ping("are you there?")
    opcode, frame = ws.recv_data_frame(control_frame=True)
    assert (opcode, frame.data) == (websocket.ABNF.OPCODE_PONG, b"are you there?")
    ws.send_frame(websocket.ABNF.create_frame("lo ", websocket.ABNF.OPCODE_CONT, 0))
    ws.send_frame(websocket.ABNF.create_frame("", websocket.ABNF.OPCODE_CONT, 0))
    ws.send_frame(websocket.ABNF.create_frame("€".encode(), websocket.ABNF.OPCODE_CONT, 1))
    assert ws.recv() == "Hello €"


def test_ws_ping_from_the_server(ws):
    ws.send("please ping")
    opcode, frame = ws.recv_data_frame(control_frame=True)
    assert (opcode, frame.data) == (websocket.ABNF.OPCODE_PING, b"hey")
    assert ws.recv() == "got pong"


def test_ws_close_from_the_server(ws):
    ws.send("please close")
    opcode, frame = ws.recv_data_frame(control_frame=True)
    assert opcode == websocket.ABNF.OPCODE_CLOSE
    assert frame.data == struct.pack("!H", 4001) + b"as you wish"


def test_ws_close_from_the_client(ws):
    ws.send_close(1001, b"bye")
    opcode, frame = ws.recv_data_frame(control_frame=True)
    assert (opcode, frame.data) == (websocket.ABNF.OPCODE_CLOSE, struct.pack("!H", 1001))


def test_ws_subprotocol(server):
    client = websocket.create_connection(
        f"ws://127.0.0.1:{server.port}/ws?protocol=chat", subprotocols=["chat"], timeout=WAIT
    )
    assert client.subprotocol == "chat"
    client.close()


HANDSHAKE = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_ws_handshake_of_the_rfc(server):
    with server.socket() as s:
        lines = "".join(f"{k}: {v}\r\n" for k, v in HANDSHAKE.items())
        s.sendall(b"GET /ws HTTP/1.1\r\nHost: x\r\n" + lines.encode() + b"\r\n")
        answer = s.recv(1000)
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer


@pytest.mark.parametrize(
    "change, status",
    [
        ({"Connection": "keep-alive"}, 400),
        ({"Upgrade": "other"}, 400),
        ({"Upgrade": None}, 400),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Version": None}, 400),
        ({"Sec-WebSocket-Key": None}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Key": "*" * 24}, 400),
        ({"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAAAA"}, 400),
    ],
)
def test_ws_bad_handshake(server, change, status):
    headers = {k: v for k, v in {**HANDSHAKE, **change}.items() if v is not None}
    got, answer_headers, _ = server.get("/ws", headers=headers)
    assert got == status
    assert (answer_headers["Sec-WebSocket-Version"] == "13") == (status == 426)


def frame(first, payload=b"", mask=b"\1\2\3\4", length=None):
    """A frame spelled out: its first byte, then a length of any form."""
    if length is None:
        n = len(payload)
        length = bytes([n]) if n < 126 else b"\x7e" + struct.pack("!H", n)
    if mask:
        length = bytes([length[0] | 0x80]) + length[1:]
        payload = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    return bytes([first]) + length + (mask or b"") + payload


def close_frame(code, reason=b""):
    return frame(0x88, struct.pack("!H", code) + reason)


@pytest.mark.parametrize(
    "frames, code",
    [
        (frame(0x81, b"hi", mask=None), 1002),  # not masked
        (frame(0xC1, b"hi"), 1002),  # reserved bits
        (frame(0x91, b"hi"), 1002),
        (frame(0x83, b"hi"), 1002),  # reserved opcodes
        (frame(0x8B, b"hi"), 1002),
        (frame(0x80, b"hi"), 1002),  # continuation of nothing
        (frame(0x01, b"hi") + frame(0x81, b"hi"), 1002),  # new message within another
        (frame(0x09, b"hi"), 1002),  # fragmented ping
        (frame(0x89, b"x" * 126), 1002),  # long ping
        (frame(0x81, b"hi", length=b"\x7e\x00\x02"), 1002),  # length not minimal
        (frame(0x81, b"hi", length=b"\x7f" + struct.pack("!Q", 2)), 1002),
        (frame(0x82, b"", length=b"\x7f" + struct.pack("!Q", 1 << 63)), 1002),
        (frame(0x82, b"", length=b"\x7f" + struct.pack("!Q", (1 << 20) + 1)), 1009),
        (frame(0x02, b"x" * 60000) + frame(0x00, b"x" * 60000) * 17, 1009),
        (frame(0x81, b"\xff"), 1007),
        (frame(0x81, b"\xed\xa0\x80"), 1007),
        (frame(0x81, b"\xc0\x80"), 1007),
        (frame(0x81, b"\xe2\x82"), 1007),
        (frame(0x01, b"\xe2") + frame(0x80, b"\x82"), 1007),
        (frame(0x88, b"x"), 1002),  # close with half a code
        (close_frame(999), 1002),
        (close_frame(1004), 1002),
        (close_frame(1005), 1002),
        (close_frame(1006), 1002),
        (close_frame(1015), 1002),
        (close_frame(2999), 1002),
        (close_frame(5000), 1002),
        (close_frame(1000, b"\xff"), 1007),
        (close_frame(1000), 1000),
        (close_frame(4999, b"fine"), 4999),
    ],
)
@pytest.mark.parametrize("slow", [False, True])
def test_ws_close_codes(server, frames, code, slow):
    if slow and len(frames) > 500:
        pytest.skip("long")
    lines = "".join(f"{k}: {v}\r\n" for k, v in HANDSHAKE.items()).encode()
    with server.socket() as s:
        s.sendall(b"GET /ws HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n" + (b"" if slow else frames))
        if slow:
            for i in range(len(frames)):
                try:
                    s.sendall(frames[i : i + 1])
                except (BrokenPipeError, ConnectionResetError):
                    break
        answer = receive_all(s).split(b"\r\n\r\n", 1)[1]
    assert answer[0] == 0x88 and struct.unpack("!H", answer[2:4])[0] == code


def test_ws_empty_close(server):
    lines = "".join(f"{k}: {v}\r\n" for k, v in HANDSHAKE.items()).encode()
    with server.socket() as s:
        s.sendall(b"GET /ws HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n" + frame(0x88))
        assert receive_all(s).endswith(b"\r\n\r\n\x88\x00")


def test_ws_messages_sent_with_the_handshake(server):
    lines = "".join(f"{k}: {v}\r\n" for k, v in HANDSHAKE.items()).encode()
    with server.socket() as s:
        s.sendall(b"GET /ws HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n" + frame(0x81, b"a") * 3 + close_frame(1000))
        assert receive_all(s).split(b"\r\n\r\n", 1)[1] == b"\x81\x01a" * 3 + b"\x88\x02\x03\xe8"


def test_ws_own_client(server):
    address = f"127.0.0.1:{server.port}"
    for text in ("hello", "x" * 200, "x" * 5000):
        status, _, body = server.get(f"/ws-client?address={address}&text={text}")
        assert (status, body.decode()) == (200, text)
    status, _, _ = server.get("/ws-client?address=127.0.0.1:1&text=x")
    assert status == 502


# --- other upgrades ------------------------------------------------------------------------------


@pytest.mark.parametrize("method, extra", [("GET", ""), ("POST", "Content-Length: 4\r\n")])
def test_upgrade(server, method, extra):
    with server.socket() as s:
        head = f"{method} /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo, Echo\r\n{extra}\r\n"
        s.sendall(head.encode() + (b"body" if extra else b"") + b"early")
        s.sendall(b" and later")
        s.shutdown(socket.SHUT_WR)
        answer = receive_all(s)
    head, rest = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 101 ") and b"\r\nUpgrade: echo" in head
    assert rest == b"early and later"


def test_upgrade_refused(server):
    assert server.get("/upgrade")[0] == 400
    answer = server.raw(b"GET /upgrade HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")

"""gRPC as Modal's clients speak it, without any SDK: python3-h2, and protobuf by hand.

A message is a list of (number, value) pairs: text and bytes, a list of such pairs (a message), an int (a varint), a
float (four bytes)."""

import struct
import urllib.parse

import h2.config
import h2.connection
import h2.events

from services import PATIENCE

CLIENT, ROUTER = "/modal.client.ModalClient/", "/modal.task_command_router.TaskCommandRouter/"
OK, INVALID, NOT_FOUND, EXISTS, DENIED, EXHAUSTED, PRECONDITION, UNIMPLEMENTED, UNAVAILABLE, STRANGER = 0, 3, 5, 6, 7, 8, 9, 12, 14, 16


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def pack(fields):
    out = b""
    for number, value in fields:
        if isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else pack(value) if isinstance(value, list) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def unpack(data):
    """{number: [values]}: ints, bytes of everything with a length, floats."""
    out, at = {}, 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte, at = data[at], at + 1
            n, shift = n | (byte & 127) << shift, shift + 7
            if byte < 128:
                return n

    while at < len(data):
        key = number()
        if key & 7 == 0:
            value = number()
        elif key & 7 == 2:
            size = number()
            value, at = data[at : at + size], at + size
        else:
            kind, size = ("<d", 8) if key & 7 == 1 else ("<f", 4)
            value, at = struct.unpack(kind, data[at : at + size])[0], at + size
        out.setdefault(key >> 3, []).append(value)
    return out


def text(message, number):
    return message[number][0].decode()


def frame(message, flag=0):
    data = message if isinstance(message, bytes) else pack(message)
    return bytes([flag]) + struct.pack(">I", len(data)) + data


DEBIAN = [(2, [(6, "FROM debian:12")])]  # an image


class Answer:
    def __init__(self, head, trailers, body):
        self.head, self.trailers, self.body = head, trailers, body
        told = trailers or head  # nothing but how it ended: both are one
        self.status = int(told[b"grpc-status"])
        self.message = urllib.parse.unquote(told.get(b"grpc-message", b"").decode())
        self.messages = []
        while body:
            assert body[0] == 0
            size = struct.unpack(">I", body[1:5])[0]
            self.messages.append(unpack(body[5 : 5 + size]))
            body = body[5 + size :]

    def ok(self, status=OK):
        assert self.status == status, (self.status, self.message)
        return self

    @property
    def one(self):
        (message,) = self.ok().messages
        return message


class Wire:
    """Calls with one key; each has a connection of its own."""

    def __init__(self, service, key=None):
        self.service, self.key = service, key

    def call(self, method, *messages, token=None, raw=None, service=CLIENT, fields=()):
        """Sends these messages (raw: these bytes) and reads the answer to its end."""
        head = [(":method", "POST"), (":scheme", "http"), (":path", service + method), (":authority", f"127.0.0.1:{self.service.port}"),
                ("content-type", "application/grpc"), ("te", "trailers"), *fields]
        if token:
            head.append(("authorization", f"Bearer {token}"))
        elif self.key:
            head += [("x-modal-token-id", "x"), ("x-modal-token-secret", self.key)]
        body = raw if raw is not None else b"".join(frame(m) for m in messages or [[]])
        config = h2.config.H2Configuration(validate_outbound_headers=False, header_encoding=None)
        h, sock = h2.connection.H2Connection(config), self.service.connect(PATIENCE)
        sock.connect()
        with sock.sock as s:
            h.initiate_connection()
            h.send_headers(1, head)
            sent, seen = 0, {"head": None, "trailers": None, "body": b"", "over": False}
            while not seen["over"]:
                while sent is not None and (room := min(h.local_flow_control_window(1), 16384)) > 0:
                    h.send_data(1, body[sent : sent + room], end_stream=sent + room >= len(body))
                    sent = sent + room if sent + room < len(body) else None
                s.sendall(h.data_to_send())
                data = s.recv(65536)
                assert data, "the connection ended"
                self.take(h, data, seen)
        return Answer(seen["head"], seen["trailers"], seen["body"])

    @staticmethod
    def take(h, data, seen):
        for e in h.receive_data(data):
            if isinstance(e, h2.events.ResponseReceived):
                seen["head"] = dict(e.headers)
                assert seen["head"][b":status"] == b"200", seen["head"]
            elif isinstance(e, h2.events.TrailersReceived):
                seen["trailers"] = dict(e.headers)
            elif isinstance(e, h2.events.DataReceived):
                seen["body"] += e.data
                h.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
            elif isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)):
                seen["over"] = True

    def router(self, method, token, *messages, **more):
        return self.call(method, *messages, token=token, service=ROUTER, **more)


def wire(service, tenant, *flags):
    return Wire(service, service.tenant(tenant, *flags).key)


def create(client, image, *more, tags=()):
    made = client.call("SandboxCreateV2", [(1, "ap-x"), (2, [(3, image), (7, 600), *more]), *tags]).one
    return text(made, 1), text(made, 3), text(unpack(made[5][0]), 1)

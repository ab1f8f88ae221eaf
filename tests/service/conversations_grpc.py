"""As conversations.py, of gRPC: what Modal's SDK and the service say to each other by HTTP/2 without TLS.

The recorder passes bytes on as they come and looks at the frames in passing. Messages are kept as trees of protobuf's fields,
so that ids and tokens of today can take the place of those of the recording, whatever their length."""

import base64
import json
import socket
import struct
import threading

import hpack
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, HeadersFrame, RstStreamFrame

import conversations
from conversations import same_shape, shortened
from modal_wire import Wire, varint

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
TOKENS = ("authorization", "x-modal-token-id", "x-modal-token-secret")


def tree(data):
    """{number: [values]}: texts, numbers, trees, and {"bytes" or "fixed": base64}; None: it is no message."""
    out, at = {}, 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte, at = data[at], at + 1
            n, shift = n | (byte & 127) << shift, shift + 7
            if byte < 128:
                return n

    try:
        while at < len(data):
            key = number()
            if key & 7 == 0:
                value = number()
            else:
                size = {1: 8, 2: None, 5: 4}[key & 7]
                size, fixed = number() if size is None else size, size is not None
                value, at = data[at : at + size], at + size
                if at > len(data) or key < 8:
                    return None
                value = {"fixed": base64.b64encode(value).decode()} if fixed else read_value(value)
            out.setdefault(str(key >> 3), []).append(value)
    except (IndexError, KeyError):
        return None
    return out


def read_value(data):
    try:
        text = data.decode()
        if text.isprintable() or not data:
            return text
    except UnicodeDecodeError:
        pass
    return tree(data) or {"bytes": base64.b64encode(data).decode()}


def message(fields):
    """The bytes of a tree."""
    out = b""
    for number, values in fields.items():
        for value in values:
            kind, data = 2, b""
            if isinstance(value, int):
                kind, data = 0, varint(value)
            elif isinstance(value, dict) and "fixed" in value:
                data = base64.b64decode(value["fixed"])
                kind = 1 if len(data) == 8 else 5
            else:
                inner = value.encode() if isinstance(value, str) else base64.b64decode(value["bytes"]) if "bytes" in value else message(value)
                data = varint(len(inner)) + inner
            out += varint(int(number) << 3 | kind) + data
    return out


def messages(body):
    while body:
        size = struct.unpack(">I", body[1:5])[0]
        yield tree(body[5 : 5 + size]) or {}
        body = body[5 + size :]


# --- recording -------------------------------------------------------------------------------------------------------


class Half:
    """One direction of a connection; preface: how many bytes come before its frames."""

    def __init__(self, preface):
        self.decoder, self.data, self.preface = hpack.Decoder(), b"", preface

    def frames(self, data):
        """(stream, headers or None, body, whether that was the last) of every frame that is here whole."""
        self.data += data[self.preface :]
        self.preface = max(0, self.preface - len(data))
        while len(self.data) >= 9:
            frame, size = Frame.parse_frame_header(memoryview(self.data[:9]))
            if len(self.data) < 9 + size:
                return
            frame.parse_body(memoryview(self.data[9 : 9 + size]))
            self.data = self.data[9 + size :]
            assert not isinstance(frame, ContinuationFrame), "headers in pieces are not recorded"
            headers = dict(self.decoder.decode(frame.data)) if isinstance(frame, HeadersFrame) else None
            body = frame.data if isinstance(frame, DataFrame) else b""
            yield frame.stream_id, headers, body, "END_STREAM" in frame.flags or isinstance(frame, RstStreamFrame)


class Recorder(conversations.Recorder):
    """Passes connections on; what passes is written down stream by stream."""

    def process_request_thread(self, request, client_address):
        streams = {}
        with request, socket.create_connection(("127.0.0.1", self.service.port)) as upstream:
            ways = [threading.Thread(target=self.pass_on, args=(*way, streams)) for way in
                    ((request, upstream, Half(len(PREFACE)), self.asked), (upstream, request, Half(0), self.answered))]
            for way in ways:
                way.start()
            for way in ways:
                way.join()

    def pass_on(self, source, target, half, note, streams):
        try:
            while data := source.recv(65536):
                for frame in half.frames(data):
                    note(streams, *frame)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side has gone

    def asked(self, streams, number, headers, body, over):
        if headers:
            one = streams[number] = {"request": headers[":path"], "headers": {n: headers[n] for n in TOKENS if n in headers}}
            one |= {"body": b"", "answer": b""}
            self.begin(one)
        elif number in streams:
            streams[number]["body"] += body

    def answered(self, streams, number, headers, body, over):
        one = streams.get(number)
        if one and headers and "grpc-status" in headers:
            one["status"] = int(headers["grpc-status"])
        if one:
            one["answer"] += body
            one["over"] = one["over"] or over

    def saved(self):
        """Without what clients did not want to hear to its end."""
        for one in self.exchanges:
            one["body"] = list(messages(one["body"]))
            one["answer"] = json.loads(shortened(json.dumps(list(messages(one["answer"]))[:2]).encode()))
        return super().saved()


# --- playing ---------------------------------------------------------------------------------------------------------


class Play(conversations.Play):
    def ask(self, exchange, heard, patient):
        asked = [message(one) for one in json.loads(self.today(json.dumps(exchange["body"])))]
        headers = [(name, self.today(value)) for name, value in exchange["headers"].items()]
        answer = Wire(self.service).call(exchange["request"], *asked, service="", fields=headers)
        told = list(messages(answer.body))
        self.learn(exchange["answer"], told)
        heard.set()
        if answer.status != exchange["status"]:
            return f"{answer.status} {answer.message}, recorded {exchange['status']}"
        return same_shape(exchange["answer"], told, patient)

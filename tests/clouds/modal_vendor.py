"""A Modal that behaves as a test wants: gRPC by python3-h2, messages by hand, every request written down."""

import select
import socket
import struct
import threading
import time

import h2.config
import h2.connection
import h2.events
import h2.exceptions

CLIENT, ROUTER = "modal.client.ModalClient", "modal.task_command_router.TaskCommandRouter"


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def message(fields=None):
    """Bytes of {number: value}: int, float (a double), str, bytes, {...} or a list of them."""
    out = b""
    for number, values in (fields or {}).items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, float):
                out += varint(number << 3 | 1) + struct.pack("<d", value)
            elif isinstance(value, int):
                out += varint(number << 3) + varint(value)
            else:
                value = message(value) if isinstance(value, dict) else value.encode() if isinstance(value, str) else value
                out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def fields(data):
    """{number: [values]}; what has a length stays bytes, what has none is a number."""
    out, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            value = number()
        elif key & 7 == 2:
            n = number()
            value, at = data[at : at + n], at + n
        else:
            n, kind = (8, "<d") if key & 7 == 1 else (4, "<f")
            value, at = struct.unpack(kind, data[at : at + n])[0], at + n
        out.setdefault(key >> 3, []).append(value)
    return out


def frame(data):
    return b"\0" + struct.pack(">I", len(data)) + data


class Over(Exception):
    """The connection, or the vendor, has ended."""


class Call:
    """One request, and the ways to answer it."""

    def __init__(self, connection, stream, headers, body):
        self.connection, self.stream = connection, stream
        self.headers = {name: value for name, value in headers}
        self.service, self.method = self.headers[":path"].lstrip("/").split("/")
        self.body = body
        self.fields = fields(body[5:])

    def text(self, *path):
        """What is under these numbers, as text; the first of each."""
        at = self.fields
        for number in path[:-1]:
            at = fields(at[number][0])
        return at[path[-1]][0].decode()

    def begin(self, status="200", kind="application/grpc", **headers):
        more = [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.connection.h2.send_headers(self.stream, [(":status", status), ("content-type", kind), *more])
        self.connection.flush()

    def send(self, data):
        h2 = self.connection.h2
        while data:
            room = min(h2.local_flow_control_window(self.stream), h2.max_outbound_frame_size)
            if not room:
                self.connection.pump()
                continue
            h2.send_data(self.stream, data[:room])
            data = data[room:]
            self.connection.flush()

    def end(self, status=0, words="", **headers):
        more = [(name.replace("_", "-"), value) for name, value in headers.items()]
        trailers = [("grpc-status", str(status)), *([("grpc-message", words)] if words else []), *more]
        self.connection.h2.send_headers(self.stream, trailers, end_stream=True)
        self.connection.flush()

    def answer(self, *messages):
        self.begin()
        for one in messages or ({},):
            self.send(frame(message(one)))
        self.end()

    def refuse(self, status, words="", **headers):
        self.begin()
        self.end(status, words, **headers)


class Connection(threading.Thread):
    def __init__(self, vendor, sock):
        super().__init__(daemon=True)
        self.vendor, self.socket = vendor, sock
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.open = {}

    def flush(self):
        try:
            self.socket.sendall(self.h2.data_to_send())
        except OSError:
            raise Over from None

    def pump(self):
        """What the client has sent meanwhile; the requests that are complete now."""
        while not select.select([self.socket], [], [], 0.1)[0]:
            if self.vendor.over.is_set():
                raise Over
        try:
            data = self.socket.recv(1 << 20)
        except OSError:
            raise Over from None
        if not data:
            raise Over
        done = []
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                self.open[event.stream_id] = (event.headers, bytearray())
            elif isinstance(event, h2.events.DataReceived):
                self.open[event.stream_id][1].extend(event.data)
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                done.append(Call(self, event.stream_id, *self.open.pop(event.stream_id)))
            elif isinstance(event, h2.events.StreamReset):
                raise Over  # it had enough
        self.flush()
        return done

    def run(self):
        self.h2.initiate_connection()
        try:
            self.flush()
            while True:
                for call in self.pump():
                    call.body = bytes(call.body)
                    with self.vendor.lock:
                        self.vendor.calls.append(call)
                    self.vendor.behave.get(call.method, self.vendor.usual)(call)
        except (Over, h2.exceptions.ProtocolError):
            pass
        finally:
            self.socket.close()


class ModalVendor:
    """behave[method] = function(call).  By itself it knows its clients, has an app, images, and no sandbox."""

    def __init__(self):
        self.behave, self.calls, self.lock = {}, [], threading.Lock()
        self.over = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0.2)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while not self.over.is_set():
            try:
                Connection(self, self.listener.accept()[0]).start()
            except TimeoutError:
                continue

    def close(self):
        self.over.set()
        self.thread.join(10)
        self.listener.close()

    USUAL = {
        "AuthTokenGet": {1: "a.b.c"},
        "AppGetOrCreate": {1: "ap-1"},
        "ImageGetOrCreate": {1: "im-1", 2: {1: 1}},
        "SandboxListV2": {},
        "SandboxList": {},
    }

    def usual(self, call):
        if call.method in self.USUAL:
            return call.answer(self.USUAL[call.method])
        return call.refuse(5, "there is no such thing")

    def asked(self, method):
        with self.lock:
            return [call for call in self.calls if call.method == method]

    # --- ways to behave ---------------------------------------------------------------------------

    def silent(self, call):
        self.over.wait(60)
        raise Over

    def drip(self, call):
        """A byte of a message now and then, for ever."""
        call.begin()
        call.send(b"\0\0\0\xff\xff")
        while not self.over.is_set():
            call.send(b"\0")
            time.sleep(0.05)

    def flood(self, call):
        """As much as is taken."""
        call.begin()
        call.send(b"\0\0\xff\xff\xff")
        while not self.over.is_set():
            call.send(b"x" * 65536)

    def lose(self, call):
        raise Over

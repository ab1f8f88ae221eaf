"""Stands between a client and a container engine, passes everything on, and writes down what was asked."""

import dataclasses
import re
import socket
import threading
import time

ID = re.compile(r"/containers/[0-9a-f]{64}")
FAILURE = b'HTTP/1.1 500 Internal Server Error\r\nContent-Length: 26\r\n\r\n{"message":"it just ends"}'
VERSION = re.compile(r"^/v\d+\.\d+/")


@dataclasses.dataclass
class Call:
    name: str  # "METHOD /path"
    asked: float
    answered: float = 0.0


def normal(method, target):
    """Without the version of the API, the id of a container, and the query."""
    return f"{method} {ID.sub('/containers/ID', VERSION.sub('/', target.partition('?')[0]))}"


def pass_on_body(headers, source, sink):
    """The body that such headers announce."""
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in headers)}
    if "chunked" not in fields.get("transfer-encoding", "").lower():
        left = int(fields.get("content-length", 0))
        while left > 0:
            piece = source.read1(min(left, 1 << 16))
            if not piece:
                return
            sink.sendall(piece)
            left -= len(piece)
        return
    while True:
        line = source.readline()
        size = int(line.partition(b";")[0] or b"0", 16)
        sink.sendall(line + source.read(size + 2))  # the last one is empty, and so is the line after it
        if size == 0:
            return


class CallLog:
    """Listens at `address`; `calls` is what was asked so far. `failures` has how often a call fails before it is passed on."""

    def __init__(self, engine_address, path):
        self.engine = engine_address.removeprefix("unix://")
        self.address = f"unix://{path}"
        self.calls = []
        self.failures = {}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return  # closed
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.engine)
            made = []  # over this connection
            answers = threading.Thread(target=self.answer, args=(engine, client, made), daemon=True)
            answers.start()
            try:
                self.ask(client, engine, made)
                engine.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # one of them is gone, and so will be the other
            answers.join(30)

    def fails(self, name):
        left = self.failures.get(name, 0)
        self.failures[name] = left - 1
        return left > 0

    def ask(self, client, engine, made):
        requests = client.makefile("rb")
        while line := requests.readline():
            headers = []
            while (header := requests.readline()) not in (b"\r\n", b"\n", b""):
                headers.append(header)
            method, target, _ = line.decode().split(" ")
            made.append(Call(normal(method, target), time.monotonic()))
            self.calls.append(made[-1])
            if self.fails(made[-1].name):
                client.sendall(FAILURE)
                continue
            engine.sendall(line + b"".join(headers) + b"\r\n")
            pass_on_body([header.decode() for header in headers], requests, engine)

    @staticmethod
    def answer(engine, client, made):
        try:
            while piece := engine.recv(1 << 16):
                made[-1].answered = made[-1].answered or time.monotonic()
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def take(self):
        """What was asked since this was last called."""
        taken, self.calls = self.calls, []
        return taken

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

"""An HTTPS server that does what it is asked to do by the path, and says what it was sent. It has a certificate for each
name: most of an authority that the gate of the tests believes, some of which no client must accept."""

import json
import socket
import ssl
import subprocess
import threading

NAMES = ["api.test", "sub.api.test", "path.test", "other.test", "expired.test", "wrong.test", "self.test"]
released = threading.Event()


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, stderr=subprocess.DEVNULL, timeout=60)


def make_certificates(folder):
    """root.pem, and NAME.pem with its key for each name."""
    folder.mkdir()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", folder / "root.key", "-out", folder / "root.pem", "-days", 9, "-subj", "/CN=The world")
    for name in NAMES:
        shown = "elsewhere.test" if name == "wrong.test" else name
        signer = ["-key", folder / "key"] if name == "self.test" else ["-CA", folder / "root.pem", "-CAkey", folder / "root.key"]
        openssl("req", *key, "-keyout", folder / "key", "-out", folder / "request", "-subj", f"/CN={shown}",
                "-addext", f"subjectAltName=DNS:{shown}")  # fmt: skip
        openssl("x509", "-req", "-in", folder / "request", "-out", folder / "certificate", "-copy_extensions", "copy",
                "-days", -1 if name == "expired.test" else 9, *signer)  # fmt: skip
        both = (folder / "certificate").read_text() + (folder / "key").read_text()
        (folder / f"{name}.pem").write_text(both)


class Connection:
    def __init__(self, tls, say):
        self.tls, self.say, self.bytes, self.method = tls, say, b"", None

    def more(self):
        part = self.tls.recv(65536)
        if not part:
            raise OSError("closed")
        self.bytes += part

    def take(self, n):
        while len(self.bytes) < n:
            self.more()
        part, self.bytes = self.bytes[:n], self.bytes[n:]
        return part

    def line(self, end=b"\r\n"):
        while end not in self.bytes:
            self.more()
        return self.take(self.bytes.index(end) + len(end))[: -len(end)]

    def body(self, headers):
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.line().split(b";")[0], 16):
                body += self.take(size)
                self.line()
            while self.line():
                pass
            return body
        return self.take(int(headers.get("content-length", 0)))

    def send(self, *parts):
        """Each part is a record of its own."""
        for part in parts:
            self.tls.sendall(part if isinstance(part, bytes) else part.encode())

    def answer(self, body, *headers):
        body = body if isinstance(body, bytes) else body.encode()
        self.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n" + "".join(f"{h}\r\n" for h in headers) + "\r\n")
        if self.method != "HEAD":
            self.send(body)

    def serve(self):
        first, *lines = self.line(b"\r\n\r\n").decode("latin1").split("\r\n")
        self.method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("expect") == "100-continue":
            self.send("HTTP/1.1 100 Continue\r\n\r\n")
        words = path.strip("/").split("/")
        deed = getattr(self, f"do_{words[0]}", self.do_echo)
        body = b"" if deed == self.do_swallow else self.body(headers)
        self.say("api", json.dumps({"method": self.method, "path": path, "lines": lines, "body": len(body)}))
        return deed(headers, body, *words[1:])

    def do_echo(self, headers, body, *_):
        self.answer(json.dumps({**headers, "size": len(body)}), f"X-Echo: {headers.get('authorization', '')}")

    def do_split(self, headers, body, at):
        value = headers["authorization"]
        self.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(value) + 4}\r\n\r\n")
        text = f"<<{value}>>"
        self.send(text[: int(at)], text[int(at) :])

    def do_chunks(self, headers, body, size="1"):
        """The value in chunks of that many bytes, and once more in a trailer."""
        text, size = f"<<{headers['authorization']}>>", int(size)
        self.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Last\r\n\r\n")
        for at in range(0, len(text), size):
            part = text[at : at + size]
            self.send(f"{len(part):x};why=not\r\n{part}\r\n")
        self.send(f"0\r\nX-Last: {headers['authorization']}\r\n\r\n")

    def do_close(self, headers, body):
        self.send(f"HTTP/1.1 200 OK\r\n\r\n{headers['authorization']}")
        return "close"

    def do_pause(self, headers, body):
        """Half of what looks like a value, and the rest of something else when the first half has been seen."""
        value = headers["authorization"].removeprefix("Bearer ")
        self.send("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
        self.send(f"event:{value[:4]}")
        released.wait(60)
        self.send("0123456789")

    def do_release(self, headers, body):
        released.set()
        self.answer("")

    def do_big(self, headers, body, size):
        size = int(size)
        self.send(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")
        block = bytes(range(256)) * 256
        for at in range(0, size, len(block)):
            self.send(block[: size - at])

    def do_swallow(self, headers, body):
        """Takes a body slowly, and says how much it was."""
        left = size = int(headers["content-length"])
        while left:
            left -= len(self.take(min(left, 8192)))
            sum(bytes(20000))
        self.answer(str(size))

    def do_ws(self, headers, body):
        self.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                  f"X-Extensions: {headers.get('sec-websocket-extensions')}\r\n\r\n")  # fmt: skip
        self.send(f"hello {headers.get('authorization')}\n")
        while True:
            self.send(b"<" + self.line(b"\n") + b">\n")

    def do_refuse(self, headers, body):
        self.answer("no switch")

    def do_nonsense(self, headers, body):
        self.send("HTTP/1.1 200 OK\nContent-Length: 0\n\n\r\n\r\n")

    def do_unasked(self, headers, body):
        self.answer("one")
        self.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo")


def talk(conn, context, say):
    try:
        with context.wrap_socket(conn, server_side=True) as tls:
            say("tls-api", tls.version(), tls.selected_alpn_protocol())
            connection = Connection(tls, say)
            while connection.serve() != "close":
                pass
    except (OSError, ValueError, KeyError):
        pass
    conn.close()


def serve(address, folder, say):
    contexts = {}
    for name in NAMES:
        contexts[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts[name].load_cert_chain(f"{folder}/{name}.pem")
        contexts[name].set_alpn_protocols(["h2", "http/1.1"])

    def choose(tls, name, _):
        say("sni", name)
        if name not in contexts:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        tls.context = contexts[name]

    contexts["api.test"].sni_callback = choose
    listener = socket.create_server((address, 443), backlog=256)
    while True:
        conn, _ = listener.accept()
        threading.Thread(target=talk, args=(conn, contexts["api.test"], say), daemon=True).start()

"""The internet of the tests: a process in a network namespace of its own, with names, web servers, echoes and a
machine that must never be reached. Prints "ready" when all of it listens, and then a line for each thing that
arrived, so that a test can tell what got out."""

import http.server
import os
import resource
import selectors
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading

import tls_server

NAMES, NAMES6 = "203.0.113.53", "2001:db8:2::53"
GOOD, OTHER, EVIL, CDN = "203.0.113.10", "203.0.113.11", "203.0.113.66", "203.0.113.20"
GOOD6, EVIL6 = "2001:db8:2::10", "2001:db8:2::66"
PRIVATE, METADATA, CARRIER = "10.1.2.3", "169.254.169.254", "100.64.0.1"
ADDRESSES = [NAMES, GOOD, OTHER, EVIL, CDN, PRIVATE, METADATA, CARRIER]
API = "203.0.113.30"  # tls_server.py
ADDRESSES6 = [GOOD6, EVIL6]

A, AAAA, CNAME = 1, 28, 5
RECORDS = {
    ("good.test", A): [GOOD],
    ("good.test", AAAA): [GOOD6],
    ("www.good.test", A): [GOOD],
    ("six.test", AAAA): [GOOD6],
    ("evil.test", A): [EVIL],
    ("evil.test", AAAA): [EVIL6],
    ("one.cdn.test", A): [CDN],
    ("two.cdn.test", A): [CDN],
    ("private.test", A): [PRIVATE],
    ("mixed.test", A): [PRIVATE, GOOD],
    ("alias.test", A): [("inside.test", PRIVATE)],  # a CNAME and where it leads
    ("chain.test", A): [("good.test", GOOD)],
    ("metadata.test", A): [METADATA],
    ("mapped.test", AAAA): ["::ffff:10.1.2.3"],
    ("nat64.test", AAAA): ["64:ff9b::a01:203"],
    ("carrier.test", A): [CARRIER],
    **{(name, A): [API] for name in tls_server.NAMES},
}
REBINDS = {}  # how often each name rebind*.test was asked for


def say(*words):
    """One write, so that lines of two threads stay lines."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


# --- names -----------------------------------------------------------------------------------------


def wire(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def lookup(name, kind):
    if name.startswith("rebind") and kind == A:
        REBINDS[name] = REBINDS.get(name, 0) + 1
        return [GOOD] if REBINDS[name] == 1 else [PRIVATE]
    return RECORDS.get((name, kind), [])


def address_bytes(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def resolve(query):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("latin1"))
        at += 1 + query[at]
    name, (kind,) = ".".join(labels).lower(), struct.unpack(">H", query[at + 1 : at + 3])
    say("name", name, kind)
    question = query[12 : at + 5]
    known = any(n == name for n, _ in RECORDS) or name.startswith("rebind")
    answers = []
    for record in lookup(name, kind):
        owner = b"\xc0\x0c"
        if isinstance(record, tuple):
            target, record = record
            answers.append(owner + struct.pack(">HHIH", CNAME, 1, 1, len(wire(target))) + wire(target))
            owner = wire(target)
        data = address_bytes(record)
        answers.append(owner + struct.pack(">HHIH", kind, 1, 1, len(data)) + data)
    head = query[:2] + struct.pack(">HHHHH", 0x8180 | (0 if known else 3), 1, len(answers), 0, 0)
    return head + question + b"".join(answers)


def serve_names(address):
    udp = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, 53))
    while True:
        query, peer = udp.recvfrom(4096)
        udp.sendto(resolve(query), peer)


def serve_names_tcp(address):
    listener = socket.create_server((address, 53))
    while True:
        conn, _ = listener.accept()
        with conn, conn.makefile("rwb") as stream:
            size = stream.read(2)
            answer = resolve(stream.read(int.from_bytes(size, "big"))) if len(size) == 2 else b""
            stream.write(len(answer).to_bytes(2, "big") + answer)


# --- web, echo, datagrams -----------------------------------------------------------------------------


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size) if size else b""
        say("http", self.server.server_address[0], self.command, self.headers.get("Host"), self.path, len(body))
        text = f"{self.command} {self.headers.get('Host')} {self.path} {len(body)}\n".encode()
        away = self.path.startswith("/to/")
        self.send_response(302 if away else 200)
        if away:
            self.send_header("Location", f"http://{EVIL}/{self.path[4:]}")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_HEAD = do_CONNECT = answer

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 4096
    allow_reuse_address = True

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)


class Server6(Server):
    address_family = socket.AF_INET6


def serve_web(address, port):
    kind = Server6 if ":" in address else Server
    kind((address, port), Web).serve_forever()


def serve_tls(address, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda sock, name, _: say("tls", address, name)
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, 443))
    listener.listen(256)

    def talk(conn):
        try:
            with context.wrap_socket(conn, server_side=True) as tls:
                tls.recv(4096)
                tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\ntls")
        except (OSError, ssl.SSLError):
            pass

    while True:
        conn, _ = listener.accept()
        threading.Thread(target=talk, args=(conn,), daemon=True).start()


def serve_echo(address, port=7):
    """Greets first, as ssh does, and then echoes."""
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(4096)

    def talk(conn):
        say("echo", address)
        try:
            conn.sendall(b"hello\n")
            while data := conn.recv(1 << 16):
                conn.sendall(data)
        except OSError:
            pass
        conn.close()

    while True:
        conn, _ = listener.accept()
        threading.Thread(target=talk, args=(conn,), daemon=True).start()


def serve_crowd(address, port=6):
    """Echoes to any number of connections, by one thread; a client that says "more" gets bytes without end."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server((address, port), backlog=4096)
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    flood = bytes(1 << 16)
    while True:
        for key, events in selector.select():
            try:
                if key.fileobj is listener:
                    conn, _ = listener.accept()
                    conn.setblocking(False)
                    selector.register(conn, selectors.EVENT_READ)
                elif events & selectors.EVENT_WRITE:
                    key.fileobj.send(flood)
                elif not (data := key.fileobj.recv(1 << 16)):
                    raise OSError("closed")
                elif data == b"more":
                    selector.modify(key.fileobj, selectors.EVENT_READ | selectors.EVENT_WRITE)
                else:
                    key.fileobj.send(data)
            except BlockingIOError:
                pass
            except OSError:
                selector.unregister(key.fileobj)
                key.fileobj.close()


def serve_datagrams(address, port=9):
    udp = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, port))
    while True:
        data, peer = udp.recvfrom(65536)
        say("udp", address, port, len(data))
        udp.sendto(data.upper(), peer)


def serve_ssh(address):
    """As much of it as tells who came: both sides greet before anything is hidden."""
    listener = socket.create_server((address, 22))
    while True:
        conn, _ = listener.accept()
        with conn:
            conn.settimeout(10)
            try:
                conn.sendall(b"SSH-2.0-outside\r\n")
                say("ssh", address, conn.recv(255).decode("latin1").split("\r")[0])
            except OSError:
                pass


def serve_pings():
    """The kernel answers them; this tells what was in them."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    while True:
        packet = raw.recv(4096)
        if packet[20] == 8:  # a request; the header of IPv4 has no options
            say("ping", packet[28:].decode("latin1"))


def main(certificate, certificates):
    for address in [*ADDRESSES, API]:
        subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)
    for address in [*ADDRESSES6, NAMES6]:
        subprocess.run(["ip", "addr", "add", f"{address}/128", "dev", "lo", "nodad"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    jobs = [(serve_names, NAMES), (serve_names, NAMES6), (serve_names_tcp, NAMES), (serve_crowd, GOOD), (serve_pings,), (serve_ssh, EVIL)]
    jobs += [(serve_datagrams, EVIL, port) for port in (443, 3478)]  # where browsers send QUIC and STUN
    jobs += [(tls_server.serve, API, certificates, say)]
    for address in ADDRESSES[1:] + ADDRESSES6:
        jobs += [(serve_web, address, 80), (serve_web, address, 8080), (serve_tls, address, certificate)]
        jobs += [(serve_echo, address), (serve_datagrams, address)]
    for job, *arguments in jobs:
        threading.Thread(target=job, args=arguments, daemon=True).start()
    say("ready")
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

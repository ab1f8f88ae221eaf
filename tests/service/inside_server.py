"""A server inside a sandbox, by hand so that it can be as rude as a test wants: one thread per connection.

GET /echo...       the request as it came, in JSON
GET /size/N        N bytes
GET /chunked/N     N pieces in chunked framing, with a trailer
GET /close/N       N bytes until the connection closes
GET /raw/HEX       those bytes as the whole answer
GET /huge          a head of 70 KB
GET /redirect?URL  a redirect there
GET /cookies       sets cookies of every kind
GET /origin        headers that would act on a whole origin
GET /page/NAME     a page of the directory pages
GET /slow          a head, then nothing
GET /silent        nothing at all
GET /count         how many connections there were
GET /ended         how many of /slow and /silent saw the client leave
POST /sum          the size of the body, and its checksum
GET /ws            a WebSocket that says everything back
"""

import base64
import hashlib
import json
import pathlib
import socket
import struct
import sys
import threading
import zlib
from urllib.parse import unquote

counts = {"connections": 0, "ended": 0}
pages = pathlib.Path(__file__).parent


def answer(body, kind="application/json", status="200 OK", extra=()):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *extra]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def body_of(file, headers):
    if headers.get("transfer-encoding") == "chunked":
        while size := int(file.readline(), 16):
            yield file.read(size)
            file.readline()
        while file.readline() != b"\r\n":
            pass
        return
    left = int(headers.get("content-length", 0))
    while left:
        piece = file.read(min(left, 1 << 16))
        if not piece:
            raise ConnectionError("the body ended early")
        left -= len(piece)
        yield piece


def frame(payload, code):
    head = (
        struct.pack("!BB", 0x80 | code, len(payload))
        if len(payload) < 126
        else struct.pack("!BBH", 0x80 | code, 126, len(payload))
    )
    return head + payload


def websocket(conn, file, headers):
    key = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    conn.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: %s\r\n\r\n" % accept.encode()
    )
    conn.sendall(frame(json.dumps(headers).encode(), 1))
    while first := file.read(2):
        size = first[1] & 127
        if size == 126:
            size = struct.unpack("!H", file.read(2))[0]
        mask = file.read(4)
        payload = bytes(b ^ mask[i % 4] for i, b in enumerate(file.read(size)))
        conn.sendall(frame(payload, first[0] & 15))
        if first[0] & 15 == 8:
            return
    counts["ended"] += 1


def hang(conn):
    conn.settimeout(None)
    try:
        gone = conn.recv(1) == b""
    except ConnectionError:
        gone = True
    counts["ended"] += gone


def one(conn, file):
    """False when the connection is to end."""
    line = file.readline().decode()
    if not line:
        return False
    method, target, _ = line.split(" ", 2)
    fields = []
    while line := file.readline().decode("latin-1").rstrip("\r\n"):
        name, _, value = line.partition(":")
        fields.append([name.lower(), value.strip()])
    headers = dict(fields)
    path, _, query = target.partition("?")
    first, _, rest = path[1:].partition("/")
    if first == "sum":
        size = check = 0
        for piece in body_of(file, headers):
            size, check = size + len(piece), zlib.crc32(piece, check)
        conn.sendall(answer({"size": size, "check": check}))
        return True
    body = b"".join(body_of(file, headers))
    if first == "size":
        n = int(rest)
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n
        conn.sendall(head)
        block = bytes(range(256)) * 1024
        while n and method != "HEAD":
            conn.sendall(block[: min(n, len(block))])
            n -= min(n, len(block))
    elif first == "chunked":
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-After\r\n\r\n")
        for i in range(int(rest) if method != "HEAD" else 0):
            conn.sendall(b"%x\r\n%s\r\n" % (len(b"piece %d\n" % i), b"piece %d\n" % i))
        if method != "HEAD":
            conn.sendall(b"0\r\nX-After: all\r\n\r\n")
    elif first == "close":
        conn.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * int(rest))
        return False
    elif first == "raw":
        conn.sendall(bytes.fromhex(rest))
        return False
    elif first == "huge":
        conn.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000 + b"\r\n\r\n")
        return False
    elif first == "redirect":
        conn.sendall(answer(b"", status="302 Found", extra=[f"Location: {unquote(query)}"]))
    elif first == "cookies":
        extra = [
            "Set-Cookie: plain=1; HttpOnly",
            "Set-Cookie: wide=2; Domain=localhost; Path=/; Max-Age=60",
            "Set-Cookie: deep=3; path=/admin; SameSite=None",
            "Set-Cookie: tendon-fake=4; Path=/",
        ]
        conn.sendall(answer(b"", extra=extra))
    elif first == "origin":
        extra = [
            "Service-Worker-Allowed: /",
            'Clear-Site-Data: "*"',
            "Strict-Transport-Security: max-age=9999",
            'Alt-Svc: h2="evil:443"',
            "Content-Security-Policy: sandbox allow-same-origin allow-scripts",
            "X-Request-Id: forged",
            "X-Mine: stays",
        ]
        conn.sendall(answer(b"", extra=extra))
    elif first == "page":
        kinds = {"html": "text/html", "js": "text/javascript"}
        conn.sendall(
            answer((pages / rest).read_bytes(), kinds[rest.rpartition(".")[2]], extra=["Service-Worker-Allowed: /"])
        )
    elif first == "slow":
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nfirst\n")
        hang(conn)
        return False
    elif first == "silent":
        hang(conn)
        return False
    elif first in ("count", "ended"):
        conn.sendall(answer(counts))
    elif first == "ws" and headers.get("upgrade", "").lower() == "websocket":
        websocket(conn, file, headers)
        return False
    elif first == "gone":
        return False
    else:
        conn.sendall(answer({"method": method, "target": target, "fields": fields, "body": body.decode("latin-1")}))
    return headers.get("connection", "").lower() != "close"


def serve(conn):
    counts["connections"] += 1
    file = conn.makefile("rb")
    try:
        while one(conn, file):
            pass
    except (ConnectionError, ValueError, struct.error):
        pass
    finally:
        file.close()
        conn.close()


def main():
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=100)
    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()


main()

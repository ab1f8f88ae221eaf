"""Pages for the browser, served on three ports of two hosts: three origins, two sites."""

import http.server
import pathlib
import threading
import time
import urllib.parse

PAGES = pathlib.Path(__file__).resolve().parent / "pages"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, body, kind="text/html; charset=utf-8", headers=(), status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        page = PAGES / url.path.strip("/")
        special = getattr(self, "get_" + url.path.strip("/"), None)
        if special:
            special(query)
        elif page.is_file():
            text = page.read_text()
            text = text.replace("@OTHER@", self.server.site.other)
            text = text.replace("@THIRD@", self.server.site.third)
            self.reply(text.encode())
        else:
            self.reply(b"<title>Missing</title>no such page", status=404)

    def get_slow(self, query):
        """Answers after so many milliseconds: what is tested is that somebody waits."""
        time.sleep(int(query["ms"]) / 1000)
        self.reply(b"<title>Arrived</title><p>late page</p>" if "page" in query else b"answered")

    def get_never(self, query):
        """Sends its head when asked to, and then nothing until the client goes away."""
        if "head" in query:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.flush()
        self.connection.settimeout(60)
        try:
            self.connection.recv(1)
        except OSError:
            pass
        self.close_connection = True

    def get_stall(self, query):
        """A part of a document, and the rest of it when the client goes away: never."""
        parts = {
            "head": "<!doctype html><title>Half</title><meta charset=utf-8>",
            "style": "<!doctype html><title>Half</title><link rel=stylesheet href=/never><p>hidden yet",
            "body": "<!doctype html><title>Half</title><h1>Upper half</h1><button>Press</button><p>and",
        }
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "10000")
        self.end_headers()
        self.wfile.write(parts[query["part"]].encode())
        self.wfile.flush()
        self.get_never({})

    def get_file(self, query):
        name = query.get("name", "file")
        time.sleep(int(query.get("ms", 0)) / 1000)  # as in get_slow
        self.reply(
            query["text"].encode(),
            "application/octet-stream",
            [("Content-Disposition", f'attachment; filename="{name}"')],
        )

    def get_drip(self, query):
        """A download in two halves with a pause between them."""
        n = int(query["bytes"])
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Disposition", "attachment")
        self.send_header("Content-Length", str(n))
        self.end_headers()
        self.wfile.write(b"\x1f\x8b" + b"x" * (n // 2 - 2))
        self.wfile.flush()
        threading.Event().wait(0.5)  # nobody sets it
        self.wfile.write(b"y" * (n - n // 2))


class Site:
    def __init__(self):
        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(3)]
        hosts = ("127.0.0.1", "localhost", "127.0.0.1")
        ports = [server.server_port for server in self.servers]
        self.url, self.other, self.third = (f"http://{h}:{p}" for h, p in zip(hosts, ports))
        for server in self.servers:
            server.site = self
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

"""A vendor that behaves as a test wants, and writes down what it was asked."""

import http.server
import json
import threading
import time


class Request:
    def __init__(self, handler, body):
        self.method, self.path = handler.command, handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self):
        vendor = self.server.vendor
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self, body)
        with vendor.lock:
            vendor.requests.append(request)
        behave = vendor.behave.get((self.command, self.path.partition("?")[0]), vendor.usual)
        try:
            behave(self, request)
        except OSError:  # the client had enough
            self.close_connection = True

    do_GET = do_POST = do_DELETE = do_PUT = answer

    def json(self, status, value, **headers):
        self.raw(status, json.dumps(value).encode(), "application/json", **headers)

    def raw(self, status, body, kind, **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


class Vendor:
    """behave[(method, path)] = function(handler, request); everything else is an empty list or 404."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.behave, self.requests, self.lock = {}, [], threading.Lock()
        self.over = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.vendor = self
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def usual(self, handler, request):
        if self.cloud and (request.method, request.path.partition("?")[0]) == self.cloud.LIST:
            return handler.json(200, self.cloud.page([])[0])
        return handler.json(404, {"code": 404, "message": "not found"})

    def asked(self, method, path):
        with self.lock:
            return [r for r in self.requests if r.method == method and r.path.partition("?")[0] == path]

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()

    # --- ways to behave ---------------------------------------------------------------------------

    def silent(self, handler, request):
        self.over.wait(60)
        handler.close_connection = True

    def drip(self, handler, request):
        """A byte now and then, for ever."""
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        while not self.over.is_set():
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    def flood(self, handler, request):
        """As much as is taken."""
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        while not self.over.is_set():
            handler.wfile.write(b'["' + b"x" * 65536 + b'"]')

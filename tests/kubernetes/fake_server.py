"""An API server that keeps objects and nothing else, for answers that no real cluster gives when it is asked to: its pods run at once, with hands that
are alive and do nothing. What is executed in them ends well, without reading its input."""

import base64
import contextlib
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

PATH = re.compile(r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/[^/]+)?/([^/]+)(?:/([^/]+))?")
HANG = "hang"
WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def runs(pod):
    """The status of a pod that does."""
    return {"phase": "Running", "podIP": "192.0.2.9", "containerStatuses": [{"name": "runtime", "state": {"running": {}}}]}


class FakeServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.changed = threading.Condition()  # and the lock of what follows
        self.objects = {}  # by kind and name
        self.changes = []  # (kind, type, object): the version of one is its place
        self.classes = {}  # of the cluster: handlers by name
        self.faults = []
        self.asked = []  # lines such as "GET /version"
        self.status_of = runs
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def finish(self):
        self.ended.set()
        with self.changed:
            self.changed.notify_all()
        self.shutdown()
        self.server_close()

    def kubeconfig(self, path):
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.server_port}"}}
        path.write_text(json.dumps({
            "current-context": "x", "clusters": [cluster], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "agents"}}]}))  # fmt: skip
        return path

    @contextlib.contextmanager
    def fault(self, pattern, answer, message=""):
        """What matches, as it is in `asked`, is answered with that status, or not at all (HANG)."""
        fault = (re.compile(pattern), answer, message)
        self.faults.append(fault)
        yield
        self.faults.remove(fault)

    def count(self, pattern):
        return sum(bool(re.search(pattern, line)) for line in self.asked)

    def names(self, kind):
        return {name for of, name in self.objects if of == kind}

    def change(self, kind, how, thing):
        """Under the lock."""
        self.changes.append((kind, how, thing))
        self.changed.notify_all()

    def make(self, kind, thing):
        with self.changed:
            name = thing["metadata"]["name"]
            if (kind, name) in self.objects:
                return 409, {"message": f"{kind} {name} already exists", "reason": "AlreadyExists"}
            version = str(len(self.changes) + 1)
            thing["metadata"].update(uid=f"uid-{version}", resourceVersion=version)
            if kind == "pods":
                thing["status"] = self.status_of(thing)
            elif kind == "volumesnapshots":
                thing["status"] = {"readyToUse": True}
            self.objects[kind, name] = thing
            self.change(kind, "ADDED", thing)
            return 201, thing

    def remove(self, kind, name):
        """With what it owns."""
        with self.changed:
            gone = self.objects.get((kind, name))
            if not gone:
                return 404, {"message": "there is none"}
            for key, thing in list(self.objects.items()):
                if thing is gone or any(owner["uid"] == gone["metadata"]["uid"] for owner in thing["metadata"].get("ownerReferences", [])):
                    self.change(key[0], "DELETED", self.objects.pop(key))
            return 200, gone

    def list(self, kind, query):
        selected = dict(pair.split("=", 1) for pair in query.get("fieldSelector", [""])[0].split(",") if pair).get("metadata.name")
        if kind == "runtimeclasses":
            items, version = [{"metadata": {"name": name}, "handler": handler} for name, handler in self.classes.items()], 0
        else:
            with self.changed:
                items = [thing for (of, _), thing in self.objects.items() if of == kind]
                version = len(self.changes)
        items = [thing for thing in items if selected in (None, thing["metadata"]["name"])]
        return 200, {"items": items, "metadata": {"resourceVersion": str(version)}}

    def watch(self, kind, version):
        """Lines, until the end."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: len(self.changes) > version or self.ended.is_set())
                if self.ended.is_set():
                    return
                news = self.changes[version:]
            version += len(news)
            yield from (json.dumps({"type": how, "object": thing}) + "\n" for of, how, thing in news if of == kind)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        server, url = self.server, urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        line, query = f"{self.command} {self.path}", urllib.parse.parse_qs(url.query)
        server.asked.append(line)
        fault = next(((answer, message) for pattern, answer, message in server.faults if pattern.search(line)), None)
        if fault and fault[0] == HANG:
            server.ended.wait()
            self.close_connection = True
            return
        if fault:
            self.reply(fault[0], {"kind": "Status", "message": fault[1]})
        elif url.path.endswith("/proxy/alive"):
            self.reply(200, {"status": "ok"})
        elif url.path.endswith("/exec"):
            self.end_well()
        elif url.path == "/version":
            self.reply(200, {"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
        elif url.path.endswith("/selfsubjectaccessreviews"):
            self.reply(201, {"status": {"allowed": True}})
        elif (found := PATH.fullmatch(url.path)) is None:
            self.reply(404, {"message": "there is nothing"})
        elif "watch" in query:
            self.stream(server.watch(found[1], int(query["resourceVersion"][0])))
        else:
            self.reply(*self.serve(*found.groups(), query, body))

    def serve(self, kind, name, query, body):
        server = self.server
        if self.command == "POST":
            return server.make(kind, json.loads(body))
        if self.command == "DELETE":
            return server.remove(kind, name)
        if not name:
            return server.list(kind, query)
        thing = server.objects.get((kind, name))
        return (200, thing) if thing else (404, {"message": "there is none"})

    def reply(self, status, thing):
        text = json.dumps(thing).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, lines):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever watches may go
            for line in lines:
                self.wfile.write(line.encode())

    def end_well(self):
        """Of a program, over a WebSocket."""
        accept = base64.b64encode(hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + WEBSOCKET).digest()).decode()
        status = b'\3{"status":"Success"}'
        self.send_response(101)
        for header in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept), ("Sec-WebSocket-Protocol", "v5.channel.k8s.io")):
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(bytes((0x82, len(status))) + status)
        self.close_connection = True
        with contextlib.suppress(OSError):  # until whoever sends the input has seen that
            while self.rfile.read(4096):
                pass

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *args):
        pass

"""A runtime API of OpenHands that misbehaves on request: what a real service does only on bad days.

Each runtime is a real hand behind the path /r/ID. Requests are recorded; a fault is done to the next requests that
fit."""

import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading

KEY = "key-of-the-tests-0123456789"
SESSION_KEY = "session-key-of-the-tests"


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.path = target.partition("?")[0]

    @property
    def json(self):
        return json.loads(self.body) if self.body else {}


class Fault:
    """kind: a status, "drop" (closed before anything is done), "lost" (done, but closed instead of an answer), "hang"
    (no answer until the server ends), "garbage" (200, but no JSON), or a function request -> (status, object)."""

    def __init__(self, path, kind, times, headers):
        self.path, self.kind, self.left, self.headers = path, kind, times, headers


class Runtime:
    def __init__(self, api, number, body):
        self.id, self.session, self.body = f"rt-{number}", body["session_id"], body
        self.status, self.pods = "running", list(api.pods)
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="ra-", dir="/tmp"))
        self.work = self.base / "work"
        self.work.mkdir()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.base),
            "USER": "root",
            "SU_TO_USER": "false",  # shells have that HOME, not the user's own
            "SESSION_API_KEY": SESSION_KEY,
            "LANG": "C.UTF-8",
            **body.get("environment", {}),
            **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")},
        }
        words = ["--listen", f"unix:{self.base}/s", "--username", "root", "--user-id", "0"]
        self.log = open(self.base / "log", "wb")
        self.hand = subprocess.Popen(
            [api.hand, *words, "--working-dir", str(self.work), "--no-enable-browser"],
            env=env,
            cwd=self.work,
            stdout=self.log,
            stderr=self.log,
        )

    def pod(self):
        """The words of its pods, one a look; the last one stays."""
        return self.pods.pop(0) if len(self.pods) > 1 else self.pods[0]

    def end(self):
        self.status = "stopped"
        self.hand.terminate()
        self.hand.wait(30)
        self.log.close()
        shutil.rmtree(self.base, ignore_errors=True)


class RuntimeApi:
    """pods: what a new runtime's pod says, look by look. foreign: the hand is not Tendon's."""

    def __init__(self, hand, tls=None):
        self.hand, self.tls = str(hand), tls
        self.lock = threading.RLock()
        self.reset()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://localhost:{self.port}"
        self.over = threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def reset(self):
        self.runtimes, self.requests, self.faults, self.count = {}, [], [], 0
        self.pods, self.foreign, self.told_pod, self.broken = ["ready"], False, True, []

    def close(self):
        self.over.set()
        self.listener.close()
        self.clear()

    def clear(self):
        with self.lock:
            for runtime in self.runtimes.values():
                if runtime.status != "stopped":
                    runtime.end()
            self.reset()

    def fault(self, path, kind, times=1, **headers):
        self.faults.append(Fault(path, kind, times, {k.replace("_", "-"): v for k, v in headers.items()}))

    def asked(self, path):
        """Requests for that path that came in."""
        return [r for r in self.requests if r.path == path or (path.endswith("*") and r.path.startswith(path[:-1]))]

    # --- connections ---------------------------------------------------------------------------------

    def accept(self):
        while not self.over.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                if self.tls:
                    connection = self.tls.wrap_socket(connection, server_side=True)
                request = self.read(connection)
                if request:
                    self.answer(connection, request)
                connection.shutdown(socket.SHUT_RDWR)
            except (OSError, ssl.SSLError) as reason:
                self.broken.append(repr(reason))

    @staticmethod
    def read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return None
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            body += connection.recv(65536)
        return Request(method, target, headers, body)

    @staticmethod
    def send(connection, status, content, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def take_fault(self, request):
        with self.lock:
            self.requests.append(request)
            for fault in self.faults:
                fits = request.path.endswith(fault.path[1:]) if fault.path[0] == "*" else request.path == fault.path
                if fits and fault.left > 0:
                    fault.left -= 1
                    return fault
        return None

    def answer(self, connection, request):
        fault = self.take_fault(request)
        kind = fault.kind if fault else None
        if kind == "drop":
            return
        if kind == "hang":
            self.over.wait()
            return
        if isinstance(kind, int):
            self.send(connection, kind, {"detail": f"fault {kind}"}, **fault.headers)
        elif kind == "garbage":
            self.send(connection, 200, b'{"runtime_id": ')
        elif callable(kind):
            self.send(connection, *kind(request))
        elif request.path.startswith("/r/"):
            self.pass_on(connection, request, lost=kind == "lost")
        else:
            status, content = self.call(request)
            if kind != "lost":
                self.send(connection, status, content)

    # --- the hand ------------------------------------------------------------------------------------

    def pass_on(self, connection, request, lost):
        _, _, name, rest = request.target.split("/", 3)
        runtime = self.runtimes.get(name)
        if not runtime or runtime.status == "stopped":
            self.send(connection, 404, {"detail": "no such runtime"})
        elif runtime.status == "paused":
            self.send(connection, 503, {"detail": "it is paused"})
        elif self.foreign and rest.startswith("v1/"):
            self.send(connection, 404, {"detail": "Not Found"})
        else:
            self.forward(connection, request, "/" + rest, runtime, lost)

    def forward(self, connection, request, target, runtime, lost):
        upgrade = "upgrade" in request.headers
        left_out = {"x-api-key", *([] if upgrade else ["connection"]), *(["idempotency-key"] if self.foreign else [])}
        lines = [f"{n}: {v}" for n, v in request.headers.items() if n not in left_out]
        lines += [] if upgrade else ["Connection: close"]
        hand = socket.socket(socket.AF_UNIX)
        with hand:
            hand.connect(f"{runtime.base}/s")
            head = "\r\n".join([f"{request.method} {target} HTTP/1.1", *lines, "", ""])
            hand.sendall(head.encode() + request.body)  # at once: the hand answers and is gone
            if upgrade:
                threading.Thread(target=self.pump, args=(connection, hand), daemon=True).start()
            self.pump(hand, None if lost else connection)

    @staticmethod
    def pump(source, to):
        try:
            while piece := source.recv(65536):
                if to:
                    to.sendall(piece)
            if to:
                to.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    # --- the runtime API -----------------------------------------------------------------------------

    def call(self, request):
        if request.headers.get("x-api-key") != KEY:
            return 401, {"detail": f"wrong key {request.headers.get('x-api-key')}"}
        word, _, rest = request.path[1:].partition("/")
        handler = getattr(self, f"{request.method.lower()}_{word}", None)
        with self.lock:
            return handler(request, rest) if handler else (404, {"detail": "Not Found"})

    def show(self, runtime, pod=True):
        shown = {
            "runtime_id": runtime.id,
            "session_id": runtime.session,
            "url": f"{self.url}/r/{runtime.id}/",
            "status": runtime.status,
            "session_api_key": SESSION_KEY,
            "work_hosts": {f"{self.url}/w/{runtime.id}": 12000},
            "restart_count": 3,
            "restart_reasons": ["OOMKilled"],
        }
        if pod and self.told_pod:
            shown["pod_status"] = runtime.pod() if runtime.status == "running" else "not found"
        return 200, shown

    def post_start(self, request, rest):
        self.count += 1
        runtime = Runtime(self, self.count, request.json)
        self.runtimes[runtime.id] = runtime
        status, shown = self.show(runtime, pod=False)
        return status, {name: shown[name] for name in ("runtime_id", "url", "work_hosts", "session_api_key")}

    def get_sessions(self, request, name):
        found = [r for r in self.runtimes.values() if r.session == name]
        return self.show(found[-1]) if found else (404, {"detail": "no such session"})

    def get_runtime(self, request, name):
        found = self.runtimes.get(name)
        return (200, {"runtime_id": name, "pod_status": found.pod()}) if found else (404, {"detail": "none"})

    def get_list(self, request, rest):
        return 200, {"runtimes": [self.show(r)[1] for r in self.runtimes.values()]}

    def order(self, request, status):
        runtime = self.runtimes.get(request.json.get("runtime_id"))
        if not runtime or runtime.status == "stopped":
            return 404, {"detail": "no such runtime"}
        if status == "stopped":
            runtime.end()
        runtime.status = status
        return 200, {}

    def post_stop(self, request, rest):
        return self.order(request, "stopped")

    def post_pause(self, request, rest):
        return self.order(request, "paused")

    def post_resume(self, request, rest):
        return self.order(request, "running")

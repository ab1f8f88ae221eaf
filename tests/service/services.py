"""The sandbox service as tests run it: `tendon serve` on a free port of this machine, with a state directory of its
own, keys made by `tendon key`, a small HTTP client, and a census at the end: nothing may be left."""

import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "runtime"))

from census import Census, Ids  # noqa: E402
from trees import BUILD, RELEASE, ROOT, program  # noqa: E402

PATIENCE = 60  # seconds for whatever must happen
OWN_FILES = {"daytona", "e2b", "kubernetes", "runloop", "service.key", "service.lock", "audit.log", "lock", "use"}  # of the service in its state directory


def eventually(condition, what, seconds=PATIENCE):
    """The first true value of condition()."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return value


def maker(make, base):
    """For a fixture: a function that makes services by make(folder, ...), each in a folder of its own; all are finished at the end."""
    made = []

    def fresh(*args, **kwargs):
        folder = base / f"s{len(made)}"
        folder.mkdir()
        made.append(make(folder, *args, **kwargs))
        return made[-1]

    yield fresh
    for service in made:
        service.finish()


def preloaded(source, folder):
    """The environment of a program that has this file beside us for a library before all others."""
    compiler = os.environ.get("CC", "cc")
    if not shutil.which(compiler):
        pytest.skip(f"no C compiler ({compiler}): {source} cannot be preloaded")
    library = folder / pathlib.Path(source).with_suffix(".so")
    path = pathlib.Path(__file__).with_name(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, path], check=True)
    options = f"{os.environ.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0".lstrip(":")
    return {"LD_PRELOAD": str(library), "ASAN_OPTIONS": options}


def memory(service, what="VmHWM"):
    """Bytes that the process of a service has in memory: VmRSS now, VmHWM at most so far."""
    for line in pathlib.Path(f"/proc/{service.pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) << 10
    raise AssertionError(what)


def measured(service):
    """The service, not started yet, as a program whose memory can be measured: sanitizers keep what was freed."""
    if (RELEASE / "tendon").exists():
        service.program = RELEASE / "tendon"
    service.env["ASAN_OPTIONS"] = f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb=1".lstrip(":")
    return service


class Answer:
    """A whole answer."""

    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    def ok(self, status=200):
        """Itself, when it has that status; else it tells what it is."""
        assert self.status == status, (self.status, self.body[:2000])
        return self

    def __repr__(self):
        return f"<{self.status} {self.body[:500]!r}>"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """Speaks HTTP with one kept connection; for one thread. `body` is sent as it is when it is bytes, else as JSON."""

    def __init__(self, service, key=None, headers=None, timeout=PATIENCE):
        self.service, self.key, self.timeout = service, key, timeout
        self.headers = dict(headers or {})
        self.connection = None

    def connect(self):
        """A fresh connection to wherever the service is now."""
        self.close()
        self.connection = self.service.connect(self.timeout)
        return self.connection

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def kept(self):
        """The connection of the last request, unless the service has closed it since."""
        if self.connection and self.connection.sock and select.select([self.connection.sock], [], [], 0)[0]:
            self.close()
        return self.connection

    def send(self, method, path, body=None, headers=None):
        """The response, its body not read yet."""
        fields = {**self.headers, **(headers or {})}
        if self.key and "X-API-Key" not in fields and "Authorization" not in fields:
            fields["X-API-Key"] = self.key
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        for last in (self.kept() is None, True):
            connection = self.connection or self.connect()
            try:
                connection.request(method, path, body=body, headers=fields)
                return connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()  # a kept connection may have ended meanwhile: then once more
                if last or method not in ("GET", "HEAD"):
                    raise

    def request(self, method, path, body=None, headers=None):
        response = self.send(method, path, body, headers)
        try:
            answer = Answer(response, response.read())
        except Exception:
            self.close()
            raise
        if response.will_close:
            self.close()
        return answer

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body=None, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def put(self, path, body=None, **kwargs):
        return self.request("PUT", path, body, **kwargs)

    def patch(self, path, body=None, **kwargs):
        return self.request("PATCH", path, body, **kwargs)

    def delete(self, path, **kwargs):
        return self.request("DELETE", path, **kwargs)


class Service:
    """One state directory and the service that works with it.

    settings: keys of [service] (or "section.key") and their values; flags: further words for `tendon serve`."""

    def __init__(self, base, runtime="jail", settings=None, flags=(), env=None, listen=None, config=None):
        self.program = program(BUILD, "tendon")
        self.base = pathlib.Path(base)
        self.state = self.base / "state"
        self.mark = f"tnservice{os.getpid()}x{id(self):x}"
        for folder in ("home", "tmp", "state", "state/sandbox"):
            (self.base / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        hand = RELEASE / "tendon-hand"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TENDON_", "XDG_", "DOCKER_", "SANDBOX_"))},
            "HOME": str(self.base / "home"),
            "TMPDIR": str(self.base / "tmp"),
            "TENDON_CONFIG": str(self.write_config(config)) if config else "/dev/null",
            "TENDON_STATE": str(self.state),
            "TENDON_RUNTIME": runtime,
            "TENDON_SECURITY_SECRET_KEY": str(self.base / "secret.key"),
            "TENDON_HAND_PROGRAM": str(hand if hand.exists() else BUILD / "tendon-hand"),
            "SANDBOX_ENV_TN_TEST_MARK": self.mark,
            **(env or {}),
        }
        self.settings = dict(settings or {})
        self.flags = list(flags)
        self.listen = listen or ["127.0.0.1:0"]
        self.context = None  # ssl context of clients, when it speaks TLS
        self.process = self.url = self.port = self.admin = None
        self.log_path = self.base / "service.log"
        self.ids = Ids(self.state / "sandbox")
        self.clients = []
        self.started = False

    def write_config(self, text):
        path = self.base / "config.toml"
        path.write_text(text)
        return path

    # --- its life ---------------------------------------------------------------------------------

    def command(self):
        words = [str(self.program), "serve", "--json"]
        for address in self.listen:
            words += ["--listen", address]
        for key, value in self.settings.items():
            words += ["--set", f"{key if '.' in key else 'service.' + key}={value}"]
        return words + self.flags

    def start(self, **kwargs):
        """Starts it and waits until it serves; again on the same port as before."""
        assert not self.process
        self.started = True
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, **kwargs
            )
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        assert line, f"it does not start: {self.log()[-4000:]}"
        told = json.loads(line)
        self.url = told["url"]
        port = told["local_url"].rpartition(":")[2]
        self.port = int(port) if port.isdigit() else None
        self.listen = [address.replace("127.0.0.1:0", f"127.0.0.1:{self.port}") for address in self.listen]
        if told["key_file"]:
            self.admin = pathlib.Path(told["key_file"]).read_text().strip()
        return self

    @property
    def pid(self):
        return self.process.pid

    def wait(self, seconds=PATIENCE):
        """Waits for its end; the exit status."""
        status = self.process.wait(seconds)
        self.process.stdout.close()
        self.process = None
        return status

    def kill(self):
        """kill -9."""
        self.process.kill()
        return self.wait()

    def stop(self, number=signal.SIGTERM):
        """Asks it to end and waits; the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def restart(self, kill=False):
        self.kill() if kill else self.stop()
        return self.start()

    # --- its clients ------------------------------------------------------------------------------

    def connect(self, timeout=PATIENCE):
        if not self.port:
            return UnixConnection(self.listen[0].removeprefix("unix:"), timeout)
        if self.context:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def client(self, key=None, **kwargs):
        """A client with that key; without one, with the administrator's."""
        self.clients.append(Client(self, key or self.admin, **kwargs))
        return self.clients[-1]

    def stranger(self, **kwargs):
        """A client without any key."""
        self.clients.append(Client(self, **kwargs))
        return self.clients[-1]

    def tendon(self, *words, **kwargs):
        """Runs `tendon` with this state directory."""
        kwargs.setdefault("timeout", PATIENCE)
        return subprocess.run(
            [self.program, *map(str, words)],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            **kwargs,
        )

    def make_key(self, name, *flags):
        """Makes a key: its description with the key itself as "key"."""
        result = self.tendon("--json", "key", "create", name, *flags)
        assert result.returncode == 0, result
        return json.loads(result.stdout)

    def tenant(self, name, *flags):
        """A client with a fresh key of that tenant."""
        number = sum(client.key is not None for client in self.clients)
        return self.client(self.make_key(f"{name}-{number}-{len(self.clients)}", "--tenant", name, *flags)["key"])

    # --- what it says -----------------------------------------------------------------------------

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_lines(self):
        """The lines of the log, as objects."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def audit(self):
        return [json.loads(line) for line in (self.state / "audit.log").read_text().splitlines()]

    # --- the end ----------------------------------------------------------------------------------

    def census(self):
        """{kind: what is there}, but for the files of the service itself."""
        counted = Census(self.base, self.state, self.mark, self.ids.seen).take()
        own = OWN_FILES | self.blobs()
        files = [path for path in counted.pop("directories", []) if pathlib.Path(path).name not in own]
        return {**counted, **({"directories": files} if files else {})}

    def blobs(self):
        """The files that clients keep, as far as a row knows of them."""
        if not (self.state / "blobs").exists():
            return set()
        db = sqlite3.connect(self.state / "tendon.db", timeout=20)
        try:
            return {row[0] for row in db.execute("SELECT id FROM blob")}
        finally:
            db.close()

    def finish(self):
        """Ends it, removes its sandboxes, and sees to it that nothing is left."""
        for client in self.clients:
            client.close()
        if not self.started:
            self.ids.stop()
            return
        status = self.stop() if self.process else 0
        cleared = [self.tendon(*words) for words in (["rm", "--all", "--quiet"], ["gc"])]
        self.ids.stop()
        assert status == 0, f"it ended with {status}: {self.log()[-4000:]}"
        assert all(result.returncode == 0 for result in cleared), cleared
        left = eventually_nothing(self.census)
        assert not left, left


def eventually_nothing(count, seconds=20):
    """What is left of count() after a while: processes that just ended take a moment to be gone."""
    deadline = time.monotonic() + seconds
    while (left := count()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def example_runtime(directory, name, after, more):
    """The example of a runtime plugin with more lines after one of its own; what a service must have in its environment."""
    text = (ROOT / "examples/tendon-runtime-example").read_text()
    assert text.count(after) == 1
    plugin = pathlib.Path(directory, f"tendon-runtime-{name}")
    plugin.write_text(text.replace(after, after + more))
    plugin.chmod(0o755)
    return {"TENDON_RUNTIME_PATH": str(directory)}


def self_signed(folder, name="localhost"):
    """A certificate for TLS: (cert, key, context of a client that trusts it and nothing else)."""
    cert, key = pathlib.Path(folder, "cert.pem"), pathlib.Path(folder, "key.pem")
    names = f"subjectAltName=DNS:{name},IP:127.0.0.1"
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}".split()
        + ["-addext", names, "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    return cert, key, ssl.create_default_context(cafile=str(cert))

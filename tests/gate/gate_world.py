"""A machine and its internet, both made of network namespaces: no test of the gate needs a real one.

The machine is where tendon runs. Its only way out leads to outside.py, which is everything that a sandbox may want to
reach or must not; the machine has a public and a private address of its own, with a server on each."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import outside
import tls_server
from trees import BUILD, RELEASE, program

HERE = pathlib.Path(__file__).resolve().parent
NOBODY = 65534
MACHINE, MACHINE6, MACHINE_PRIVATE = "198.51.100.2", "2001:db8:1::2", "192.168.77.2"
WAIT = 60

SERVE = """
import http.server, socketserver, sys, threading
class S(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
http.server.SimpleHTTPRequestHandler.protocol_version = "HTTP/1.1"
for address in sys.argv[1:]:
    threading.Thread(target=S((address, 8000), http.server.SimpleHTTPRequestHandler).serve_forever).start()
print("ready", flush=True)
"""


def run(*words, **kwargs):
    return subprocess.run(list(map(str, words)), check=True, timeout=WAIT, **kwargs)


def until(condition, seconds=WAIT):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


class Outside:
    """outside.py in its network; lines() are what arrived there."""

    def __init__(self, base):
        key = base / "key.pem"
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", base / "cert.pem",
            "-days", "2", "-subj", "/CN=good.test", stderr=subprocess.DEVNULL)  # fmt: skip
        with open(base / "cert.pem", "a") as both:
            both.write(key.read_text())
        self.certificates = base / "tls"
        tls_server.make_certificates(self.certificates)
        self.log = base / "outside.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["unshare", "--net", sys.executable, str(HERE / "outside.py"), str(base / "cert.pem"),
                 str(self.certificates)],  # fmt: skip
                stdin=subprocess.PIPE,
                stdout=log,
            )
        self.wait("ready")

    def lines(self):
        return self.log.read_text().splitlines()

    def wait(self, line, since=0):
        deadline = time.monotonic() + WAIT
        while line not in self.lines()[since:]:
            assert self.process.poll() is None and time.monotonic() < deadline, self.lines()[since:]
            time.sleep(0.02)


class Machine:
    def __init__(self, base, internet):
        # A copy of /etc: a file mounted below the real one would be in the way of an ordinary user's jail.
        run("cp", "-a", "/etc", base / "etc")
        (base / "etc/resolv.conf").unlink(missing_ok=True)
        (base / "etc/resolv.conf").write_text(f"nameserver {outside.NAMES}\n")
        pings = "echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range"
        script = f"mount --bind {base}/etc /etc && mount -t tmpfs -o mode=755 run /run && {pings} && ip link set lo up && echo ready && exec cat"
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"
        there = internet.process.pid
        self.run("ip", "link", "add", "m0", "type", "veth", "peer", "name", "w0", "netns", there)
        for words in (
            f"addr add {MACHINE}/24 dev m0", f"addr add {MACHINE_PRIVATE}/24 dev m0", "link set m0 up",
            f"-6 addr add {MACHINE6}/64 dev m0 nodad", "route add default via 198.51.100.1",
        ):  # fmt: skip
            self.run("ip", *words.split())
        out = ["nsenter", f"--net=/proc/{there}/ns/net", "ip"]
        run(*out, "addr", "add", "198.51.100.1/24", "dev", "w0")
        run(*out, "-6", "addr", "add", "2001:db8:1::1/64", "dev", "w0", "nodad")
        run(*out, "link", "set", "w0", "up")
        run(*out, "route", "add", f"{MACHINE_PRIVATE}/32", "dev", "w0")
        self.run("ip", "-6", "route", "add", "default", "via", "2001:db8:1::1")
        self.server = subprocess.Popen(
            self.words(sys.executable, "-c", SERVE, MACHINE, MACHINE_PRIVATE, "127.0.0.1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=base,
        )
        assert self.server.stdout.readline() == "ready\n"

    def words(self, *words):
        pid = self.process.pid
        return ["nsenter", f"--net=/proc/{pid}/ns/net", f"--mount=/proc/{pid}/ns/mnt", *map(str, words)]

    def run(self, *words, **kwargs):
        return run(*self.words(*words), **kwargs)


class GateWorld:
    """tendon on that machine, as root or as an ordinary user."""

    runtime = ("--runtime", "jail")
    env = {}

    def __init__(self):
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="tendon-gate-"))
        self.base.chmod(0o755)
        self.internet = Outside(self.base)
        self.machine = Machine(self.base, self.internet)
        self.homes = {}
        self.boxes = []

    def home(self, user):
        if user not in self.homes:
            home = self.base / f"home-{user}"
            home.mkdir()
            os.chown(home, user, user)
            self.homes[user] = home
        return self.homes[user]

    def tendon(self, *words, user=0, check=True, build=BUILD, env=None, **kwargs):
        home = self.home(user)
        prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TENDON_STATE": str(home / "state"),
            "TENDON_HAND": str(program(RELEASE, "tendon-hand")),
            **self.env,
            **(env or {}),
        }
        result = subprocess.run(
            self.machine.words(*prefix, program(build, "tendon"), *words),
            env=env, cwd=home, capture_output=True, text=True, timeout=WAIT, **kwargs,
        )  # fmt: skip
        assert not check or result.returncode == 0, (words, result.stdout, result.stderr)
        return result

    def box(self, network, *allow, user=0, build=BUILD, flags=(), before=None, **env):
        """network None: it says nothing; before: what the child does that becomes tendon."""
        rules = [word for rule in allow for word in ("--allow", rule)]
        wish = ["--network", network] if network else []
        made = self.tendon("new", *self.runtime, "--keep", *wish, *rules, *flags, user=user, build=build,
                           env=env, preexec_fn=before)  # fmt: skip
        self.boxes.append(Box(self, made.stdout.strip(), user))
        return self.boxes[-1]

    def finish(self):
        for box in self.boxes:
            self.tendon("rm", box.id, user=box.user, check=False)
        for process in (self.machine.server, self.machine.process, self.internet.process):
            process.kill()
            process.wait()
        shutil.rmtree(self.base, ignore_errors=True)


def code_of_daemon(code):
    return f"""
import os, sys
ready, told = os.pipe()
if os.fork():  # the shell may end with this process, and whoever is of its session then
    os.close(told)
    os.read(ready, 1)
    sys.exit()
os.setsid()
out = os.open('/tmp/said', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
for fd in (0, 1, 2): os.dup2(out, fd)
os.close(told)
sys.stdout = open(1, 'w', buffering=1)
{code}
"""


class Box:
    def __init__(self, world, name, user):
        self.world, self.id, self.user = world, name, user

    @property
    def directory(self):
        (path,) = self.world.home(self.user).glob(f"state/**/{self.id}/keeper.sock")
        return path.parent

    def ask(self, request):
        """What its keeper answers."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(WAIT)
            s.connect(str(self.directory / "keeper.sock"))
            s.sendall(f"{request}\n".encode())
            text = b""
            while part := s.recv(65536):
                text += part
        return text.decode().strip()

    def network(self):
        return json.loads(self.ask("network"))

    def gate(self):
        """The number of its gate, 0 when none runs."""
        return self.network()["gate"]

    def start(self, code):
        """A program that runs on; what it says lands in a file inside."""
        self.python(code_of_daemon(code))

    def said(self, needle, seconds=WAIT):
        deadline = time.monotonic() + seconds
        while needle not in (text := self.sh("cat /tmp/said").stdout):
            assert time.monotonic() < deadline and "Error" not in text, text
            time.sleep(0.1)
        return text

    def sh(self, command, check=False):
        return self.world.tendon("exec", self.id, "--", command, user=self.user, check=check)

    def python(self, code, check=True):
        result = self.sh("python3 - <<'END'\n" + code + "\nEND", check=False)
        assert not check or result.returncode == 0, (result.stdout, result.stderr)
        return result.stdout.strip()

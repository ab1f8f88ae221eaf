"""A tenant's secret through a whole life of a sandbox in a service: it is where it belongs, and nowhere else.

What is looked through: all files of the service (database, journals, audit log, log, snapshots, sandboxes, core files),
everything that its API, its metrics and its dashboard say, environments and command lines of all processes, and the memory of
those in the sandboxes."""

import json
import os
import pathlib
import resource
import signal
import socket
import sys
import time

import pytest
from canary import ASK, PLANT, files_with, holds, lines_with, memory_with, new_value

sys.path.insert(2, str(pathlib.Path(__file__).resolve().parent.parent / "service"))

from native import at, make, run  # noqa: E402
from openapi_document import Document  # noqa: E402
from services import PATIENCE, Service, eventually  # noqa: E402

CONFIG = """[jail]
network = "allow"
allow = ["api.test", "other.test"]
[tendon]
log_level = "debug"
"""
USE = "print(ask('{}', 'Bearer ' + os.environ['API_KEY']))"
STREAMS = {"/v1/watch"}  # they have no end; events are read as JSON


class There(Service):
    """A service on the machine of the gate's world, which may leave cores in a directory of its own."""

    def __init__(self, base, world, **kwargs):
        super().__init__(base, listen=[f"unix:{base}/service.sock"], config=CONFIG, **kwargs)
        self.world, self.said = world, []
        self.settings["security.roots"] = world.internet.certificates / "root.pem"
        self.cores = self.base / "cores"
        self.cores.mkdir()

    def command(self):
        return self.world.machine.words(*super().command())

    def start(self):
        def unlimited():
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

        return super().start(cwd=self.cores, preexec_fn=unlimited)

    def client(self, *args, **kwargs):
        """Whatever is said to it is kept."""
        client = super().client(*args, **kwargs)
        ask = client.request

        def request(*words, **more):
            answer = ask(*words, **more)
            self.said.append(str(answer.headers).encode() + answer.body)
            return answer

        client.request = request
        return client


@pytest.fixture
def service(world, tmp_path):
    service = There(tmp_path, world).start()
    yield service
    service.tendon("secret", "rm", "API_KEY", "--tenant", "alice")
    service.finish()


def python(client, box, code):
    observation = run(client, box, "python3 - <<'END'\n" + ASK + code + "\nEND")
    assert observation["extras"]["metadata"]["exit_code"] == 0, observation
    return observation["content"].strip()


def pid_of(service, box):
    return json.loads(service.tendon("--json", "inspect", box["id"]).stdout)["ref"]["pid"]


def gate_of(service, box):
    """The number of its gate, as its keeper knows it."""
    (path,) = service.state.glob(f"**/{box['id']}/keeper.sock")
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(str(path))
        s.sendall(b"network\n")
        text = b""
        while part := s.recv(65536):
            text += part
    return json.loads(text)["gate"]


def ask_for_everything(service, client, box):
    """Every page that the document of the API knows, those beside it, and refusals."""
    names = {"id": box["id"], "name": "API_KEY", "path": "alive", "what": "list", "number": "1"}
    for method, path, _, _ in Document("openapi-native.yaml").operations():
        if method == "get" and path not in STREAMS and "/terminals/" not in path:
            client.get(path.format(**names))
    for path in ("/", "/metrics", "/health", "/openapi.yaml", "/v1/audit", "/v1/sandboxes?limit=1", "/no/such/page"):
        client.get(path)


def limit_of_cores(pid):
    (line,) = [one for one in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines() if "core file" in one]
    return int(line.split()[4])


def test_a_whole_life(service):
    value = new_value()
    alice, admin = service.tenant("alice"), service.client()
    alice.put("/v1/secrets/API_KEY", {"value": value, "hosts": ["api.test"]}).ok()
    assert alice.put("/v1/secrets/API_KEY", {"value": value, "hosts": ["*"]}).status == 400
    assert alice.put("/v1/secrets/API_KEY", {"value": [value], "hosts": ["api.test"]}).status == 422
    box = make(alice, secrets=["API_KEY"])
    holder = python(alice, box, "print(os.environ['API_KEY'])")
    assert holder.startswith("tnsecret_api_key_")

    # It arrives where it belongs, comes back as stars, and goes nowhere else.
    stars = "Bearer " + "*" * len(value)
    assert python(alice, box, USE.format("api.test")) == stars
    arrived = [line for line in service.world.internet.lines() if line.startswith("api ") and value in line]
    assert arrived, service.world.internet.lines()[-5:]
    assert python(alice, box, USE.format("other.test")) == f"Bearer {holder}"

    # States, layers, a fork, and a service that is killed.
    alice.post(at(box, "/snapshots"), {"name": "one"}).ok(201)
    alice.post(at(box, "/pause")).ok()
    alice.post(at(box, "/resume")).ok()
    fork = alice.post(at(box, "/fork"), {}).ok(201).json
    alice.post(at(box, "/stop")).ok()
    alice.post(at(box, "/resume")).ok()
    alice.post(at(box, "/snapshots/one/rollback")).ok()
    service.restart(kill=True)
    for one in (box, fork):
        assert python(alice, one, USE.format("api.test")) == stars

    for client in (alice, admin):
        for one in (box, fork):
            ask_for_everything(service, client, one)
    for one in (box, fork):
        found, read = memory_with(value, pid_of(service, one))
        assert found == [] and read >= 1

    # Whoever holds it leaves no core: the gate, and the service, which has just been told it once more.
    alice.put("/v1/secrets/API_KEY", {"value": value, "hosts": ["api.test"]}).ok()
    gate = eventually(lambda: python(alice, box, USE.format("api.test")) and gate_of(service, box), "a gate that works")
    assert limit_of_cores(gate) == limit_of_cores(service.pid) == 1  # a sanitizer makes it 0
    os.kill(gate, signal.SIGABRT)
    eventually(lambda: gate_of(service, box) != gate, "its end")
    service.process.send_signal(signal.SIGABRT)
    service.wait()
    assert list(service.cores.iterdir()) == []
    service.start()
    assert python(alice, box, USE.format("api.test")) == stars, "a new gate is there"

    assert lines_with(value) == []
    assert files_with(value, service.base) == []
    assert not holds(b"\n".join(service.said), value)

    # Planted, it is found in each of them.
    run(alice, box, f"echo {value} >/root/planted")
    python(alice, box, PLANT.format(value))
    deadline = time.monotonic() + PATIENCE
    while not (lines_with(value) and memory_with(value, pid_of(service, box))[0]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    alice.get(at(box, "/events"))
    assert files_with(value, service.base) and holds(b"\n".join(service.said), value)


def test_where_they_cannot_be_nothing_is_made(service):
    """Under gVisor, and where jails can be suspended to disk."""
    alice = service.tenant("alice")
    alice.put("/v1/secrets/API_KEY", {"value": new_value(), "hosts": ["api.test"]}).ok()
    refused = alice.post("/v1/sandboxes", {"secrets": ["API_KEY"], "isolation": "gvisor"})
    assert refused.status == 400 and "secrets: a jail under gVisor" in refused.json["detail"], refused
    service.stop()
    service.settings["jail.suspend"] = "true"
    service.start()
    refused = alice.post("/v1/sandboxes", {"secrets": ["API_KEY"]})
    assert refused.status == 400 and "secrets: a jail that can be suspended" in refused.json["detail"], refused
    assert alice.get("/v1/sandboxes").ok().json["sandboxes"] == []

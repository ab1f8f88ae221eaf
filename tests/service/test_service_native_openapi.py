"""docs/service/openapi-native.yaml, docs/service/api.md and the service agree."""

import re
import subprocess

import pytest

from native import Events, at, run_action, upgrade
from openapi_document import ANYWHERE, Document
from services import eventually
from trees import ROOT

MANUAL = ROOT / "docs" / "service" / "api.md"
CONFIG = '[template.python]\nmemory = "256m"\nplugins = []\n'


class Native(Document):
    """One whose errors are problem details."""

    def __init__(self):
        super().__init__("openapi-native.yaml")
        self.exercised = set()

    def check(self, method, target, answer):
        operation = self.operation(method, target)
        self.exercised.add((method.lower(), operation["operationId"]))
        if answer.headers["Content-Type"] == "application/problem+json":
            self.validate({"$ref": "#/components/schemas/Problem"}, answer.json)
            assert answer.json["status"] == answer.status
            assert answer.json["request_id"] == answer.headers["X-Request-Id"]
            assert str(answer.status) in operation["responses"] or answer.status in ANYWHERE | {429, 502, 504}
            return answer
        if not answer.body and str(answer.status) in operation["responses"]:
            return answer  # a hand may have nothing to say
        return super().check(method, target, answer)

    def check_event(self, path, event):
        content = self.file["paths"][path]["get"]["responses"]["200"]["content"]
        self.validate(content["text/event-stream"]["x-events"][event.kind or "message"], event.data)


@pytest.fixture(scope="module")
def api():
    return Native()


def test_the_document_is_sound(api):
    api.check_itself()


def test_every_route_is_in_the_document_and_in_the_manual(api, service):
    routes = service.client().get("/v1/routes").ok().json["routes"]
    served = {(r["method"].lower(), r["path"].replace("...}", "}")) for r in routes}
    assert len(served) == len(routes), "a route twice"
    assert served == {(method, path) for method, path, _, _ in api.operations()}
    manual = MANUAL.read_text()
    for method, path in served:
        assert f"{method.upper()} {path}" in manual, f"{method} {path} is not in api.md"


def test_answers_are_what_the_document_says(api, service):
    admin = service.client()

    def call(method, target, body=None, status=200, **kwargs):
        return api.check(method, target, admin.request(method, target, body, **kwargs)).ok(status)

    for path in ("info", "me", "routes", "templates", "security", "secrets", "images", "keys", "pools", "sandboxes"):
        call("GET", f"/v1/{path}")
    call("PUT", "/v1/secrets/K", {"value": "value-123", "hosts": ["api.example.com"]})
    call("PUT", "/v1/secrets/K", {"value": "value-123", "hosts": ["*"]}, 400)
    call("PUT", "/v1/secrets/K", {"value": "value-123"}, 422)
    call("GET", "/v1/secrets/K")
    call("DELETE", "/v1/secrets/K", status=204)
    call("GET", "/v1/secrets/K", status=404)
    key = call("POST", "/v1/keys", {"name": "k", "tenant": "t"}, 201).json
    call("POST", "/v1/keys", {"name": "k"}, 422)
    call("PATCH", "/v1/keys/k", {"security": {"high": "ask"}, "limits": {"max_running": 2}})
    call("PATCH", "/v1/keys/k", {"security": {"high": "often"}}, 422)
    call("DELETE", f"/v1/keys/{key['id']}", status=204)
    call("PATCH", f"/v1/keys/{key['id']}", {}, 404)
    call("PUT", "/v1/pools/p", {"template": "python", "target": 0})
    call("GET", "/v1/pools")
    call("PUT", "/v1/pools/p", {"target": "x"}, 422)
    call("DELETE", "/v1/pools/p", status=204)

    box = call("POST", "/v1/sandboxes", {"template": "python", "name": "n", "metadata": {"a": 1}}, 201).json
    call("POST", "/v1/sandboxes", {"templat": "python"}, 422)
    call("GET", "/v1/sandboxes?limit=1")
    call("GET", at(box))
    call("GET", at("nosuchnone"), status=404)
    call("PATCH", at(box), {"name": "m", "ttl": 600})
    gated = call("POST", "/v1/sandboxes", {"network": "allow"}, 201).json
    call("POST", at(gated, "/actions"), run_action("echo > /dev/tcp/203.0.113.7/4711"))
    call("PATCH", at(gated, "/network"), {"allow": ["203.0.113.7:4711"]})
    call("PATCH", at(gated, "/network"), {"deny": ["other.example"]}, 404)
    call("GET", at(gated, "/network"))
    call("DELETE", at(gated), status=204)
    call("POST", at(box, "/actions"), run_action("echo"))
    call("POST", at(box, "/actions"), {"action": {"action": "nonsense"}}, 422)
    call("POST", at(box, "/hand/execute_action"), run_action("echo"))
    call("GET", at(box, "/events"))
    with Events(admin, at(box, "/events")) as events:
        for event in events.take(2):
            api.check_event("/v1/sandboxes/{id}/events", event)
    with Events(admin, "/v1/watch") as events:
        for event in events.until(lambda e: e.kind == "ready"):
            api.check_event("/v1/watch", event)
    api.exercised.add(("get", "watchSandboxes"))
    file = at(box, "/files", path="/tmp/f")
    call("PUT", file, b"x", 201)
    call("GET", file)
    call("GET", at(box, "/files", path="/nosuch"), status=404)
    call("GET", at(box, "/download", path="/tmp/f"))
    call("GET", at(box, "/download"), status=422)
    call("GET", at(box, "/files/list", path="/tmp"))
    call("POST", at(box, "/files/directory"), {"path": "/tmp/d"}, 204)
    call("DELETE", file, status=204)
    call("GET", at(box, "/terminals"))
    call("POST", at(box, "/terminals"), {"name": "t"}, 201)
    call("GET", at(box, "/terminals/t"), status=400)
    upgrade(admin, at(box, "/terminals/t")).close()
    call("DELETE", at(box, "/terminals/t"), status=204)
    call("GET", at(box, "/hand/v1/plugins"))
    call("POST", at(box, "/hand/v1/sessions"), {"name": "u"}, 201)
    call("PUT", at(box, "/hand/v1/files/content", path="/tmp/g"), b"", 201)
    call("DELETE", at(box, "/hand/v1/sessions/u"), status=204)
    call("GET", at(box, "/usage"))
    eventually(lambda: call("GET", at(box, "/usage")).json["samples"], "a sample")
    call("GET", at(box, "/logs"))
    call("GET", at(box, "/ports"))
    call("POST", at(box, "/ports/8000"), status=201)
    call("POST", at(box, "/ports/0"), status=422)
    call("POST", at(box, "/editor"), status=501)
    call("POST", "/v1/tickets", {"purpose": "ws", "sandbox": box["id"]}, 201)
    call("POST", "/v1/tickets", {"purpose": "everything", "sandbox": box["id"]}, 422)
    call("POST", at(box, "/snapshots"), {"name": "s"}, 201)
    call("GET", at(box, "/snapshots"))
    call("POST", at(box, "/snapshots/s/rollback"))
    fork = call("POST", at(box, "/fork"), {"snapshot": "s"}, 201).json
    call("DELETE", at(box, "/snapshots/s"), status=204)
    assert call("GET", "/v1/pending").json == call("GET", at(box, "/pending")).json == {"pending": []}
    call("POST", at(box, "/pending/1"), {"answer": "confirm"}, status=404)
    call("POST", at(box, "/pause"))
    call("POST", at(box, "/resume"))
    call("POST", at(box, "/stop"))
    call("DELETE", at(fork), status=204)
    call("DELETE", at(box), status=204)
    everything = {(method, o["operationId"]) for method, _, o, _ in api.operations()}
    assert api.exercised == everything, "routes that were not asked"


def test_the_examples_of_the_manual_work(service, tmp_path):
    """Every block of shell commands in api.md, one after the other, in one shell."""
    blocks = re.findall(r"^```sh\n(.*?)^```", MANUAL.read_text(), re.M | re.S)
    assert len(blocks) > 8
    setup = f"set -eu; cd {tmp_path}; export TENDON_URL={service.url} TENDON_KEY={service.admin}\n"
    env = {**service.env, "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", setup + "\n".join(blocks)], capture_output=True, timeout=90, env=env)
    assert done.returncode == 0, (done.stdout[-1500:], done.stderr[-1500:])
    assert b"hello from a sandbox" in done.stdout

"""Secrets of tenants: each its own, never told again, not in the log; and who may name which in a sandbox."""

import json
import secrets

import pytest

from native import url
from services import Service

CONFIG = """[template.operators]
plugins = []
network = "open"
secrets = ["HOUSE_KEY"]
[template.opened]
plugins = []
network = "open"
"""


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("secrets"), config=CONFIG, settings={"max_secrets": "2"}).start()
    yield service
    service.finish()


def put(client, name, value="value-123", hosts=("api.example.com",), **more):
    return client.request("PUT", f"/v1/secrets/{name}", {"value": value, "hosts": list(hosts), **more})


def test_a_tenant_keeps_its_own(service):
    alice, bob = service.tenant("alice"), service.tenant("bob")
    value = "canary-" + secrets.token_hex(16)
    made = put(alice, "API_KEY", value, ["Api.Example.com"], headers=["X-Key"]).ok(200).json
    assert made == {"name": "API_KEY", "hosts": ["api.example.com"], "headers": ["x-key"], "changed": made["changed"]}
    assert alice.get("/v1/secrets/API_KEY").ok().json == made
    assert alice.get("/v1/secrets").ok().json == {"secrets": [made]}
    assert bob.get("/v1/secrets").ok().json == {"secrets": []}
    assert bob.get("/v1/secrets/API_KEY").status == 404
    assert bob.request("DELETE", "/v1/secrets/API_KEY").status == 404
    assert alice.get("/v1/secrets/API_KEY").ok().json == made, "nobody else removed it"
    put(alice, "OTHER").ok(200)
    full = put(alice, "THIRD")
    assert full.status == 409 and "no more" in full.json["detail"]
    put(alice, "OTHER", "value-456").ok(200)
    assert alice.request("DELETE", "/v1/secrets/OTHER").status == 204
    log = (service.state / "audit.log").read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    told = [(e["tenant"], e["detail"], e["result"]) for e in lines if e["what"] == "secret.set"]
    assert ("alice", "API_KEY for api.example.com", "ok") in told and any("THIRD" in t[1] for t in told)
    assert any(e["what"] == "secret.rm" and e["detail"] == "OTHER" for e in lines)
    for path in service.base.rglob("*"):
        assert not path.is_file() or value.encode() not in path.read_bytes(), path
    assert alice.request("DELETE", "/v1/secrets/API_KEY").status == 204


@pytest.mark.parametrize(
    "name, body, status",
    [
        ("a", {"value": "canary-123", "hosts": ["x.com"]}, 400),
        ("%2e%2e", {"value": "canary-123", "hosts": ["x.com"]}, 400),
        ("A", {"value": "canary-123", "hosts": []}, 400),
        ("A", {"value": "canary7", "hosts": ["x.com"]}, 400),
        ("A", {"value": "canary-123", "hosts": ["*"]}, 400),
        ("A", {"value": "canary-123", "hosts": ["x.com"], "headers": ["Host"]}, 400),
        ("A", {"value": "canary-123\r\nX: y", "hosts": ["x.com"]}, 400),
        ("A", {"value": "canary-123\x00", "hosts": ["x.com"]}, None),
        ("A", {"value": ["canary"], "hosts": ["x.com"]}, 422),
        ("A", {"value": "canary-123", "host": ["x.com"]}, 422),
        ("A", {"value": "canary-123"}, 422),
        ("A", b'{"value": "canary', None),
    ],
)
def test_what_is_refused_and_never_quoted(service, name, body, status):
    carol = service.tenant("carol")
    refused = carol.request("PUT", f"/v1/secrets/{name}", body)
    assert refused.status in (status, 400, 422) and (status is None or refused.status == status), refused
    assert "canary" not in json.dumps(refused.json)
    assert "canary" not in (service.state / "audit.log").read_text()
    assert carol.get("/v1/secrets").ok().json == {"secrets": []}


def test_who_may_name_which(service):
    """A name is the tenant's own, also where the operator has one of that name; a template's are the operator's."""
    dave, erin = service.tenant("dave"), service.tenant("erin")
    put(dave, "HOUSE_KEY").ok(200)

    def refused(client, body, status, *words):
        answer = client.post("/v1/sandboxes", {**body, "wait": 0})
        assert answer.status == status, answer
        for word in words:
            assert word in answer.json["detail"], answer.json

    refused(erin, {"template": "opened", "secrets": ["dave/HOUSE_KEY"]}, 403, "dave/HOUSE_KEY")
    refused(erin, {"template": "opened", "secrets": ["/HOUSE_KEY"]}, 403)
    refused(erin, {"template": "opened", "secrets": ["../HOUSE_KEY"]}, 403)
    refused(erin, {"template": "opened", "secrets": ["erin/../dave/HOUSE_KEY"]}, 400)
    refused(erin, {"template": "opened", "secrets": ["house"]}, 400, "name of a secret")
    refused(erin, {"secrets": ["HOUSE_KEY"], "network": "none"}, 400, "open or allow")
    assert dave.request("DELETE", "/v1/secrets/HOUSE_KEY").status == 204
    assert erin.get(url("/v1/sandboxes")).ok().json["sandboxes"] == []

"""What the network of a sandbox refused, and rules that change while it runs, within the bounds of a tenant."""

import json

import pytest

from native import at, make, run
from services import Service, eventually

GIVEN = """
[jail]
network = "allow"
allow = ["good.example", "*.wide.example"]
"""

DENIED = """
[jail]
network = "open"

[template.fenced]
network = "open"
allow = ["!198.51.100.0/24"]
"""

TAKEN = """
[jail]
network = "allow"
allow = ["good.example"]
"""

REFUSED = "python3 -c \"import socket; socket.create_connection(('203.0.113.7', 4711), 5).recv(1) or exit(3)\""


@pytest.fixture
def service(jail_works, tmp_path):
    service = Service(tmp_path, config=GIVEN).start()
    yield service
    service.finish()


def audit(service, what):
    lines = (service.state / "audit.log").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["what"] == what]


def refusals(client, box):
    return client.get(at(box, "/network")).ok().json["refusals"]


def test_what_was_refused_is_told_and_noted(service):
    alice = service.tenant("alice")
    box = make(alice)
    now = alice.get(at(box, "/network")).ok().json
    assert now == {"network": "allow", "gated": True, "rules": ["good.example", "*.wide.example"], "refused": 0, "refusals": []}
    run(alice, box, REFUSED)
    (refusal,) = eventually(lambda: refusals(alice, box), "the refusal")
    assert refusal["what"] == refusal["rule"] == "203.0.113.7:4711" and refusal["count"] == 1
    events = alice.get(at(box, "/events")).ok().json["events"]
    (event,) = [e for e in events if e.get("extras", {}).get("error_id") == "NETWORK$REFUSED"]
    assert "the network refused 203.0.113.7:4711: no rule" in event["content"]
    (line,) = audit(service, "network.refused")
    assert line["box"] == box["id"] and "203.0.113.7:4711" in line["detail"]
    refusals(alice, box)
    assert len(audit(service, "network.refused")) == 1


def test_a_tenant_adds_what_the_operator_allows(service):
    alice, mallory = service.tenant("alice"), service.tenant("mallory")
    box = make(alice)
    assert mallory.patch(at(box, "/network"), {"allow": ["good.example"]}).status == 404
    refused = alice.patch(at(box, "/network"), {"allow": ["203.0.113.7:4711"]})
    assert refused.status == 403 and "more than the operator allows" in refused.json["detail"], refused
    assert audit(service, "network.change")[-1]["result"] == "denied"
    changed = alice.patch(at(box, "/network"), {"allow": ["a.wide.example"], "deny": ["*.wide.example"]}).ok().json
    assert changed["rules"] == ["good.example", "a.wide.example"]
    line = audit(service, "network.change")[-1]
    assert line["result"] == "ok" and line["detail"] == "allow a.wide.example; deny *.wide.example"
    assert alice.patch(at(box, "/network"), {"deny": ["other.example"]}).status == 404
    assert alice.patch(at(box, "/network"), {"allow": ["no rule"]}).status in (400, 422)
    none = make(alice, network="none")
    assert alice.patch(at(none, "/network"), {"allow": ["good.example"]}).status == 409


def test_what_the_operator_takes_away_or_gives(service):
    alice, root = service.tenant("alice"), service.client()
    taken, given = make(alice), make(alice)
    alice.patch(at(taken, "/network"), {"allow": ["a.wide.example"], "deny": ["*.wide.example"]}).ok()
    alice.patch(at(given, "/network"), {"deny": ["*.wide.example"]}).ok()
    root.patch(at(given, "/network"), {"allow": ["203.0.113.7:4711"]}).ok()
    # What the operator gave keeps the tenant from nothing, and is no reason for more.
    alice.patch(at(given, "/network"), {"allow": ["b.wide.example"]}).ok()
    alice.patch(at(given, "/network"), {"deny": ["b.wide.example"]}).ok()
    assert alice.patch(at(given, "/network"), {"allow": ["203.0.113.8:4711"]}).status == 403
    for client in service.clients:
        client.close()
    service.stop()
    service.write_config(TAKEN)
    service.start()
    for box in (taken, given):
        alice.post(at(box, "/stop")).ok()
    alice.post(at(given, "/resume")).ok()
    assert alice.get(at(given, "/network")).ok().json["rules"] == ["good.example", "203.0.113.7:4711"]
    again = alice.post(at(taken, "/resume"))
    assert again.status >= 400 or again.json["state"] == "error", again
    assert "a.wide.example" in alice.get(at(taken)).ok().json["reason"]
    # Taken away, it is beyond the tenant's bounds again.
    alice.patch(at(given, "/network"), {"deny": ["203.0.113.7:4711"]}).ok()
    assert alice.patch(at(given, "/network"), {"allow": ["203.0.113.7:4711"]}).status == 403


def test_what_the_operator_denies_stays_denied(service):
    service.stop()
    service.write_config(DENIED)
    service.start()
    alice, root = service.tenant("alice"), service.client()
    for rules in ([], ["8.8.8.0/24:*"], ["!198.51.100.0/25"]):
        refused = alice.post("/v1/sandboxes", {"template": "fenced", "allow": rules})
        assert refused.status == 403 and "denies 198.51.100.0/24" in refused.json["detail"], refused
    for rule in ("198.51.100.7:80", "198.51.100.0/25:*", "0.0.0.0/0:*"):
        assert alice.post("/v1/sandboxes", {"template": "fenced", "allow": ["!198.51.100.0/24", rule]}).status == 403
    box = make(alice, template="fenced")
    path = at(box, "/network")
    assert alice.patch(path, {"deny": ["!198.51.100.0/24"]}).status == 403
    assert alice.patch(path, {"allow": ["!203.0.113.0/24", "8.8.8.0/24:*"]}).ok().json["rules"][0] == "!198.51.100.0/24"
    assert alice.patch(path, {"network": "allow", "deny": ["!198.51.100.0/24"]}).status == 403
    now = alice.patch(path, {"network": "allow", "deny": ["!203.0.113.0/24"]}).ok().json
    assert now["network"] == "allow" and now["rules"] == ["!198.51.100.0/24", "8.8.8.0/24:*"]
    assert alice.get(at(box)).ok().json["spec"]["network"] == "allow"
    # What an administrator denies is for no tenant to take away, nor from a fork.
    root.patch(path, {"allow": ["!192.0.2.0/24"]}).ok()
    for path in (path, at(alice.post(at(box, "/fork"), {}).ok(201).json, "/network")):
        refused = alice.patch(path, {"deny": ["!192.0.2.0/24"]})
        assert refused.status == 403 and "the operator's" in refused.json["detail"]
        assert alice.get(path).ok().json["network"] == "allow"
    alice.post(at(box, "/stop")).ok()
    alice.post(at(box, "/resume")).ok()
    root.patch(at(box, "/network"), {"deny": ["!192.0.2.0/24"]}).ok()


def test_an_administrator_widens_no_tenants_kind(service):
    alice, root = service.tenant("alice"), service.client()
    box = make(alice)
    refused = root.patch(at(box, "/network"), {"network": "open"})
    assert refused.status == 403, refused
    assert alice.patch(at(box, "/network"), {"network": "open"}).status == 403
    assert alice.patch(at(box, "/network"), {"network": "none"}).status in (400, 422)
    assert alice.get(at(box, "/network")).ok().json["network"] == "allow"

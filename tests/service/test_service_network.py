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


def rules_of(client, box):
    return client.get(at(box, "/network")).ok().json["rules"]


def test_what_the_operator_denies_stays_denied(service):
    service.stop()
    service.write_config(DENIED)
    service.start()
    alice, root, denied = service.tenant("alice"), service.client(), "!198.51.100.0/24"
    # A list of its own has what the operator denies, too.
    for rules in ([], ["8.8.8.0/24:*", "0.0.0.0/0:*"], ["!198.51.100.0/25"], ["!198.51.0.0/16"]):
        one = make(alice, template="fenced", allow=rules)
        assert rules_of(alice, one) == [*rules, denied] == one["spec"]["allow"]
        alice.delete(at(one)).ok(204)
    for rule in ("198.51.100.7:80", "198.51.100.0/24:*", "198.51.100.0/25:*"):
        assert alice.post("/v1/sandboxes", {"template": "fenced", "allow": [denied, rule]}).status == 403
    box = make(alice, template="fenced")
    path = at(box, "/network")
    assert alice.patch(path, {"deny": [denied]}).status == 403
    assert alice.patch(path, {"allow": ["198.51.100.0/24:*"]}).status == 403
    assert alice.patch(path, {"allow": ["!203.0.113.0/24", "8.8.8.0/24:*"]}).ok().json["rules"][0] == denied
    assert alice.patch(path, {"network": "allow", "deny": [denied]}).status == 403
    now = alice.patch(path, {"network": "allow", "deny": ["!203.0.113.0/24"]}).ok().json
    assert now["network"] == "allow" and now["rules"] == [denied, "8.8.8.0/24:*"]
    assert alice.get(at(box)).ok().json["spec"]["network"] == "allow"
    assert root.patch(path, {"deny": [denied]}).status == 403  # it could not be started again


def test_what_an_administrator_denies(service):
    service.stop()
    service.write_config(DENIED)
    service.start()
    alice, root, denied = service.tenant("alice", "--e2b"), service.client(), "!8.8.8.0/24"
    box = make(alice, template="fenced")
    root.patch(at(box, "/network"), {"allow": [denied]}).ok()
    for one in (box, alice.post(at(box, "/fork"), {}).ok(201).json):
        path = at(one, "/network")
        assert denied in rules_of(alice, one)
        refused = alice.patch(path, {"deny": [denied]})
        assert refused.status == 403 and "the operator's" in refused.json["detail"]
        for rule in ("8.8.8.0/24:*", "8.8.8.0/25:*", "8.8.8.8:80"):
            refused = alice.patch(path, {"allow": [rule]})
            assert refused.status == 403 and ("denies it" in refused.json["detail"] or "more than" in refused.json["detail"])
        alice.patch(path, {"allow": ["8.8.0.0/16:*"]}).ok()  # but for what is denied
        # Clients that replace the whole list leave it there.
        alice.put(f"/sandboxes/{one['id']}/network", {"denyOut": ["1.1.1.1"]}).ok(204)
        assert set(rules_of(alice, one)) == {"!198.51.100.0/24", denied, "!1.1.1.1"}
        alice.put(f"/sandboxes/{one['id']}/network", {}).ok(204)
        assert {"!198.51.100.0/24", denied} < set(rules_of(alice, one))
    alice.post(at(box, "/stop")).ok()
    alice.post(at(box, "/resume")).ok()
    root.patch(at(box, "/network"), {"deny": [denied]}).ok()
    assert denied not in rules_of(alice, box)


def test_a_rule_is_one_line(service):
    """The gate reads rules line by line: what stood behind a newline was a rule that nobody had looked at."""
    alice = service.tenant("alice")
    lines = "http://good.example/\n169.254.169.254\n10.0.0.0/8:*"
    assert alice.post("/v1/sandboxes", {"allow": [lines]}).status in (400, 422)
    box = make(alice)
    assert alice.patch(at(box, "/network"), {"allow": [lines]}).status in (400, 422)
    assert rules_of(alice, box) == ["good.example", "*.wide.example"]


def test_an_administrator_widens_no_tenants_kind(service):
    alice, root = service.tenant("alice"), service.client()
    box = make(alice)
    refused = root.patch(at(box, "/network"), {"network": "open"})
    assert refused.status == 403, refused
    assert alice.patch(at(box, "/network"), {"network": "open"}).status == 403
    assert alice.patch(at(box, "/network"), {"network": "none"}).status in (400, 422)
    assert alice.get(at(box, "/network")).ok().json["network"] == "allow"


def test_an_administrator_denies_what_a_tenant_has_allowed(service):
    """A tenant's own smaller net would go before the denial, and keep the sandbox from its next start."""
    service.stop()
    service.write_config(DENIED)
    service.start()
    alice, root, denied, own = service.tenant("alice"), service.client(), "!8.8.8.0/24", "8.8.8.4/31:*"
    box = make(alice, template="fenced")
    path = at(box, "/network")
    alice.patch(path, {"allow": [own, "8.8.0.0/16:*"]}).ok()
    refused = root.patch(path, {"allow": [denied]})
    assert refused.status == 409 and own in refused.json["detail"], refused
    assert denied not in rules_of(alice, box)
    alice.patch(path, {"allow": [denied]}).ok()  # its own, which was given to nobody
    alice.patch(path, {"deny": [denied]}).ok()
    root.patch(path, {"allow": [denied], "deny": [own]}).ok()
    assert denied in rules_of(alice, box) and own not in rules_of(alice, box)
    assert alice.patch(path, {"allow": [own]}).status == 403
    root.patch(path, {"allow": [denied], "deny": [denied]}).ok()  # stays, and stays the operator's
    assert alice.patch(path, {"deny": [denied]}).status == 403
    alice.post(at(box, "/stop")).ok()
    alice.post(at(box, "/resume")).ok()
    assert denied in rules_of(alice, box)


def test_denials_in_sandboxes_of_an_administrator(service):
    service.stop()
    service.write_config(DENIED)
    service.start()
    chief, alice = service.tenant("alice", "--scope", "admin"), service.tenant("alice")
    made, later = "!8.8.8.0/24", "!1.1.1.0/24"
    box = make(chief, template="fenced", allow=["!198.51.100.0/24", made, "8.8.8.8:53"])
    chief.patch(at(box, "/network"), {"allow": [later]}).ok()
    fork = alice.post(at(box, "/fork"), {}).ok(201).json  # without what went before a denial
    assert set(rules_of(alice, fork)) == {"!198.51.100.0/24", made, later}
    alice.post(at(fork, "/stop")).ok()
    alice.post(at(fork, "/resume")).ok()
    for one in (box, fork, chief.post(at(box, "/fork"), {}).ok(201).json):
        for rule in (made, later):
            refused = alice.patch(at(one, "/network"), {"deny": [rule]})
            assert refused.status == 403 and "the operator's" in refused.json["detail"], refused
    assert alice.patch(at(box, "/network"), {"allow": ["1.1.1.0/25:*"]}).status == 403
    chief.post(at(box, "/stop")).ok()
    chief.post(at(box, "/resume")).ok()  # with what goes before its own denial
    chief.patch(at(box, "/network"), {"deny": [later]}).ok()
    assert later not in rules_of(alice, box)

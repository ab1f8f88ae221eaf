"""Networks of sandboxes on E2B's surface, and what its requests have that is not served."""

import pytest

from e2b_wire import create, kill
from native import at

CONFIG = """
[template.reaching]
network = "open"
allow = ["10.1.2.3:5432"]
"""


def test_lists_of_the_network_become_ours(alice):
    for wish, network, rules in (
        ({"allow_internet_access": False}, "none", None),
        ({"network": {"denyOut": ["0.0.0.0/0"]}}, "none", None),
        (
            {"network": {"denyOut": ["0.0.0.0/0"], "allowOut": ["8.8.8.0/24", "*.example.com"]}},
            "allow",
            ["8.8.8.0/24:*", "*.example.com"],
        ),
        ({"network": {"denyOut": ["10.0.0.0/8", "169.254.169.254", "172.16.0.0/16", "240.0.0.0/4", "fd00::/8"]}}, "open", []),
        ({"templateID": "reaching", "network": {"denyOut": ["10.0.0.0/8"]}}, "open", []),  # none of the template's
        ({"network": {"denyOut": ["10.0.0.0/8", "0.0.0.0/0"]}}, "none", None),
        (
            {"network": {"denyOut": ["8.8.8.8", "10.0.0.0/8", "10.0.0.0/7", "2001:4860::/32"], "allowOut": ["8.8.9.0/24"]}},
            "open",
            ["8.8.9.0/24:*", "!8.8.8.8", "!10.0.0.0/8", "!10.0.0.0/7", "![2001:4860::]/32"],
        ),
    ):
        answer = alice.post("/sandboxes", {"templateID": "base", **wish})
        if answer.status == 403 or (answer.status == 400 and network in ("allow", "open") and "denyOut" not in answer.json["message"]):
            continue  # the operator, or this machine, has no such network
        made = answer.ok(201).json
        spec = alice.get(at(made["sandboxID"])).ok().json["spec"]
        assert spec["network"] == network and (rules is None or spec.get("allow", []) == rules)
        kill(alice, made)
    for net in ("example.com", "10.0.0.0/8/8", "8.8.8.8:53", "", 7):
        refused = alice.post("/sandboxes", {"templateID": "base", "network": {"denyOut": [net]}}).ok(400)
        assert "denyOut" in refused.json["message"]


def test_what_is_not_served_is_refused(alice):
    for wish in (
        {"iam": {"tokens": {"a": {}}}},
        {"autoPause": True, "autoPauseMemory": False},
        {"network": {"dnsServers": ["8.8.4.4"]}},
        {"network": {"httpsPorts": [8443]}},
        {"network": {"maskRequestHost": "x"}},
        {"network": {"rules": {"a": [{}]}}},
    ):
        answer = alice.post("/sandboxes", {"templateID": "base", **wish}).ok(400)
        assert "here" in answer.json["message"], answer
    made = create(alice, autoPauseMemory=False, network={"dnsServers": [], "rules": {}, "httpsPorts": None})
    path = f"/sandboxes/{made['sandboxID']}"
    alice.post(f"{path}/pause", {"requireHealthyGuest": True}).ok(400)
    assert alice.get(path).ok().json["state"] == "running"
    alice.post(f"{path}/resume", {"timeout": 60, "autoPause": True}).ok(400)
    alice.post(f"{path}/pause", {"requireHealthyGuest": False}).ok(204)
    alice.post(f"{path}/connect", {"timeout": 60, "memory": False}).ok(400)
    alice.post(f"{path}/resume", {"timeout": 60, "autoPause": False, "memory": True}).ok(201)
    alice.post(f"{path}/pause", {"memory": False}).ok(204)
    alice.post(f"{path}/connect", {"timeout": 60, "memory": False}).ok(201)
    kill(alice, made)


def test_the_network_of_one_that_runs(alice, bob):
    lists = {"denyOut": ["0.0.0.0/0"], "allowOut": ["8.8.8.0/24"]}
    made = alice.post("/sandboxes", {"templateID": "base", "network": lists})
    if made.status != 201:
        pytest.skip(f"this machine has no gate: {made.json['message']}")
    path = f"/sandboxes/{made.json['sandboxID']}/network"

    def network():
        told = alice.get(at(made.json["sandboxID"], "/network")).ok().json
        return told["network"], told["rules"]

    assert network() == ("allow", ["8.8.8.0/24:*"])
    alice.put(path, {**lists, "allowOut": ["8.8.8.0/24", "*.example.com"]}).ok(204)
    assert network() == ("allow", ["8.8.8.0/24:*", "*.example.com"])
    alice.put(path, {}).ok(204)
    assert network() == ("open", ["0.0.0.0/0:*", "[::]/0:*"])
    alice.put(path, {"allow_internet_access": False}).ok(204)
    assert network() == ("allow", [])
    alice.put(path, {"denyOut": ["8.8.8.0/24", "10.0.0.0/8"]}).ok(204)
    assert network() == ("open", ["!8.8.8.0/24"])
    alice.put(path, {"denyOut": ["10.0.0.0/8"]}).ok(204)
    assert network() == ("open", [])
    alice.put(path, {}).ok(204)
    assert network() == ("open", [])
    alice.put(path, {**lists, "allowOut": ["1.1.1.0/24"]}).ok(204)
    assert network() == ("allow", ["1.1.1.0/24:*"])
    for bad in ({"rules": {"a": [{}]}}, {"denyOut": ["example.com"]}, {**lists, "allowOut": ["no such rule"]}, [1]):
        assert alice.put(path, bad).ok(400).json["message"]
    for near in ("10.0.0.0/8", "192.168.1.1", "8.8.8.8"):  # a single address may be this machine's
        alice.put(path, {**lists, "allowOut": [near]}).ok(403)
    assert network() == ("allow", ["1.1.1.0/24:*"])
    bob.put(path, {}).ok(404)
    kill(alice, made.json)
    made = create(alice, allow_internet_access=False)
    path = f"/sandboxes/{made['sandboxID']}/network"
    alice.put(path, {"allow_internet_access": False}).ok(204)
    assert "without a gate" in alice.put(path, {}).ok(409).json["message"]
    kill(alice, made)

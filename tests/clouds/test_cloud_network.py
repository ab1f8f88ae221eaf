"""Rules of the network that the vendor keeps: what it is asked for, and what none of them can have."""

import json
import shutil

import pytest

from cloud_worlds import CLOUDS, Modal

ALL = {**CLOUDS, "modal": Modal()}
FENCES = ("e2b", "daytona", "modal")


@pytest.fixture(scope="module", params=ALL)
def cloud(request):
    return ALL[request.param]


@pytest.fixture
def tendon(make_tendon, service):
    return make_tendon(service)


def network_of(tendon, service):
    (box,) = tendon.boxes()
    return json.loads(service.tendon("--json", "network", box[tendon.cloud.id]).stdout)


def test_what_rules_name_is_reached_alone(tendon, service):
    if tendon.cloud.name not in FENCES:
        for words in (("--network", "allow"), ("--network", "allow", "--allow", "example.com")):
            assert tendon.cloud.who in (told := tendon.fails(69, "new", *words)) or "rules" in told
        assert tendon.boxes() == []
        return
    tendon.ok("new", "--name", "web", "--network", "allow", "--allow", "example.com", "--allow", "1.1.1.0/24:*", "--allow", "*.example.org")
    told = network_of(tendon, service)
    assert (told["network"], sorted(told["rules"])) == ("allow", ["*.example.org", "1.1.1.0/24:*", "example.com"])
    assert tendon.ok("exec", "web", "echo works") == "works\n"  # its hand is dialled from outside
    assert tendon.json("inspect", "web")["isolation"]["network"] == f"allow, kept by {tendon.cloud.who}"
    tendon.ok("rm", "web")
    tendon.ok("new", "--name", "open", "--network", "open")
    assert network_of(tendon, service)["network"] == "open"


def test_one_that_is_open_is_not_taken_over(tendon, service):
    """Its row was lost; what is wanted under its name has a wall."""
    if tendon.cloud.name not in FENCES:
        pytest.skip("it keeps no rules")
    tendon.ok("new", "--name", "web")
    (before,) = (box[tendon.cloud.id] for box in tendon.boxes())
    shutil.rmtree(tendon.state)
    tendon.ok("new", "--name", "web", "--network", "allow", "--allow", "example.com")
    assert "nobody knows it" in tendon.ok("gc")
    (now,) = (box[tendon.cloud.id] for box in tendon.boxes())
    assert now != before and network_of(tendon, service)["rules"] == ["example.com"]


@pytest.mark.parametrize(
    "words",
    [
        ("--allow", "example.com:22"),
        ("--allow", "GET https://example.com/a"),
        ("--allow", "udp://example.com:123"),
        ("--allow", "10.1.2.0/24"),
        ("--allow", "0.0.0.0/0:*"),
        ("--allow", "172.0.0.0/8:*"),
        ("--allow", "[::]/0:*"),
        ("--allow", "example.com", "--ask"),
    ],
)
def test_what_no_vendor_can_express_is_refused(tendon, words):
    tendon.fails(69, "new", "--network", "allow", *words)
    tendon.fails(69, "new", "--network", "open", "--allow", "example.com")
    assert tendon.boxes() == []

"""What bounds a fork is the word of whoever asks for it, in the sandbox itself and not in what is told of it alone."""

import pytest

from native import at, make, run
from services import Service, eventually

CONFIG = """
[jail]
open_files = 4096
runsc = "/bin/false"

[template.listed]
plugins = []
network = "allow"
allow = ["good.example", "*.wide.example"]
"""


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("forks"), config=CONFIG, settings={"sandbox_open_files": 512}).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def alice(service):
    return service.tenant("alice")


@pytest.fixture(scope="module")
def root(service):
    """An administrator's key of the same tenant."""
    return service.client(service.make_key("root", "--tenant", "alice", "--scope", "read,use,manage,admin")["key"])


@pytest.fixture
def fork():
    made = []

    def fork(client, parent, **wish):
        made.append((client, client.post(at(parent, "/fork"), wish).ok(201).json))
        return made[-1][1]

    yield fork
    for client, box in made:
        client.delete(at(box)).ok(204)


@pytest.fixture
def parent(root):
    box = make(root)
    yield box
    root.delete(at(box)).ok(204)


def network(client, box):
    return client.get(at(box, "/network")).ok().json


@pytest.mark.parametrize("most", ["allow", "none"])
def test_the_network_of_the_key(service, parent, fork, most):
    narrow = service.client(service.make_key(most, "--tenant", "alice", "--network", most)["key"])
    child = fork(narrow, parent)
    assert network(narrow, child)["network"] == child["spec"]["network"] == most
    assert network(narrow, parent)["network"] == "open"


def test_a_limit_that_the_parent_has_not(alice, root, parent, fork):
    limit = lambda client, box: int(run(client, box, "ulimit -Hn")["content"].split()[0])
    assert limit(root, parent) == 4096 == limit(root, fork(root, parent))
    child = fork(alice, parent)
    assert child["spec"]["open_files"] == 512 == limit(alice, child)
    assert limit(alice, fork(alice, child)) == 512


def test_walls_that_the_parent_has_not(service, parent, fork):
    """There is no gVisor here but a program that ends at once: a child that runs would be on this machine's kernel."""
    walled = service.client(service.make_key("walled", "--tenant", "alice", "--gvisor")["key"])
    child = fork(walled, parent)
    assert child["spec"]["isolation"] == "gvisor"
    state = lambda: walled.get(at(child)).ok().json["state"]
    eventually(lambda: state() != "starting", "the end of its start")
    assert state() == "error"


def test_rules_are_handed_on_by_who_may_give_them(alice, root, fork):
    box = make(alice, template="listed")
    alice.patch(at(box, "/network"), {"allow": ["a.wide.example"], "deny": ["good.example"]}).ok()
    root.patch(at(box, "/network"), {"allow": ["203.0.113.7:4711"]}).ok()
    own = ["*.wide.example", "a.wide.example"]
    child = fork(alice, box)
    assert sorted(network(alice, child)["rules"]) == sorted(child["spec"]["allow"]) == own
    alice.post(at(child, "/stop")).ok()
    alice.post(at(child, "/resume")).ok()
    assert sorted(network(alice, child)["rules"]) == own
    assert sorted(network(root, fork(root, box))["rules"]) == sorted([*own, "203.0.113.7:4711"])
    assert network(alice, box)["rules"][-1] == "203.0.113.7:4711"
    alice.delete(at(box)).ok(204)

"""What the operator has taken away in the configuration since a sandbox was made: no fork has it, and no new start."""

import pytest

from native import at, make, run, run_action
from services import Service

GIVEN = """
[template.t]
plugins = []
volumes = ["/usr/share:/mnt/share:ro"]
devices = ["/dev/null"]

[template.net]
plugins = []
network = "host"

[template.grows]
plugins = []
"""

TAKEN = """
[template.t]
plugins = []

[template.net]
plugins = []

[template.grows]
plugins = []
volumes = ["/usr/share:/mnt/share:ro"]
"""


@pytest.fixture
def service(jail_works, tmp_path):
    service = Service(tmp_path, config=GIVEN).start()
    yield service
    service.finish()


def reconfigure(service, text):
    for client in service.clients:
        client.close()
    service.stop()
    service.write_config(text)
    service.start()


def test_neither_a_fork_nor_a_start_has_what_was_taken_away(service):
    alice = service.tenant("alice")
    root = service.client(service.make_key("root", "--tenant", "alice", "--scope", "read,use,manage,admin")["key"])
    boxes = {name: make(alice, template=name) for name in ("t", "net", "grows")}
    alice.post(at(boxes["t"], "/snapshots"), {"name": "s"}).ok(201)
    alice.delete(at(alice.post(at(boxes["t"], "/fork"), {}).ok(201).json)).ok(204)
    reconfigure(service, TAKEN)
    for name, word in (("t", "volumes"), ("net", "network host")):
        run(alice, boxes[name], "true")  # what runs goes on
        for wish in ({}, {"snapshot": "s"}) if name == "t" else ({},):
            refused = alice.post(at(boxes[name], "/fork"), wish)
            assert refused.status == 403 and word in refused.json["detail"], refused
        if name == "t":  # to go back to a snapshot is a start, too
            refused = alice.post(at(boxes[name], "/snapshots/s/rollback"))
            assert refused.status == 403 and word in refused.json["detail"], refused
        alice.post(at(boxes[name], "/stop")).ok()
        again = alice.post(at(boxes[name], "/resume"))
        assert again.status >= 400 or again.json["state"] == "error", again
        for _ in range(20):  # to use it makes the service look at its sandbox, which is stopped
            now = alice.get(at(boxes[name])).ok().json
            assert now["state"] == "error" and word in now["reason"], now
            assert alice.post(at(boxes[name], "/actions"), run_action("true")).status == 503
    # One that has less than the template says today is as it was; so is what an administrator asks for.
    alice.post(at(boxes["grows"], "/stop")).ok()
    alice.post(at(boxes["grows"], "/resume")).ok()
    alice.delete(at(alice.post(at(boxes["grows"], "/fork"), {}).ok(201).json)).ok(204)
    root.delete(at(root.post(at(boxes["t"], "/fork"), {}).ok(201).json)).ok(204)
    reconfigure(service, GIVEN)
    for name in ("t", "net"):
        alice.post(at(boxes[name], "/resume")).ok()
        run(alice, boxes[name], "true")

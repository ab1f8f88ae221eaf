"""Sandboxes and the end of the service: they stay, or they stop when that was asked for; an upgrade disturbs nobody."""

import json
import os
import signal

import pytest

from processes import stat_of
from services import eventually


def create(client, **wish):
    box = client.post("/v1/sandboxes", wish).ok(201).json
    return wait_for(client, box, "running")


def wait_for(client, box, state):
    def look():
        now = client.get(f"/v1/sandboxes/{box['id']}").ok().json
        assert now["state"] != "error", now
        return now["state"] == state and now

    return eventually(look, f"{box['id']} is {state}")


def run(client, box, command):
    action = {"action": {"action": "run", "args": {"command": command}}}
    return client.post(f"/v1/sandboxes/{box['id']}/actions", action).ok().json


@pytest.fixture
def jails(jail_works, make_service):
    return make_service().start()


def test_sandboxes_stay(jails):
    client = jails.client()
    box = create(client)
    run(client, box, "export KEPT=right; sleep 1000 &")
    assert jails.stop() == 0
    assert jails.census()["processes"]  # it lives without the service
    jails.start()
    assert "right" in json.dumps(run(jails.client(), box, "echo $KEPT"))


def test_sandboxes_stop_when_asked(jail_works, make_service):
    service = make_service(flags=["--stop-sandboxes"]).start()
    client = service.client()
    boxes = [create(client) for _ in range(3)]
    run(client, boxes[0], "echo kept > file")
    assert service.stop() == 0
    assert "processes" not in service.census()
    service.flags = []
    service.start()
    client = service.client()
    assert {client.get(f"/v1/sandboxes/{box['id']}").json["state"] for box in boxes} == {"stopped"}
    client.post(f"/v1/sandboxes/{boxes[0]['id']}/resume")
    wait_for(client, boxes[0], "running")
    assert "kept" in json.dumps(run(client, boxes[0], "cat file"))


@pytest.mark.concurrent
def test_an_upgrade_keeps_sandboxes_and_buries_children(jails):
    client = jails.client()
    box = create(client)
    run(client, box, "export KEPT=right")
    jails.process.send_signal(signal.SIGHUP)
    assert json.loads(jails.process.stdout.readline())["pid"] == jails.pid
    client = jails.client()
    assert "right" in json.dumps(run(client, box, "echo $KEPT"))
    client.delete(f"/v1/sandboxes/{box['id']}")
    eventually(lambda: client.get(f"/v1/sandboxes/{box['id']}").status == 404, "it is gone")
    eventually(lambda: not zombies(jails.pid), "no child of the program before is left unburied")


def zombies(parent):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, ppid = stat_of(pid)[:2]
        except OSError:
            continue
        if state == "Z" and int(ppid) == parent:
            found.append(pid)
    return found

"""What files of others begin with (templates, images, snapshots, blueprints) is a sandbox to no surface, whoever made it."""

import pytest

import e2b_wire
from modal_wire import Wire, text
from services import eventually

DEBIAN = [(2, [(6, "FROM debian:12")])]


def by_e2b(alice, modal):
    made = e2b_wire.create(alice)
    name = alice.post(f"/sandboxes/{made['sandboxID']}/snapshots", {"name": "kept"}).ok(201).json["snapshotID"]
    e2b_wire.kill(alice, made)
    return lambda: e2b_wire.kill(alice, e2b_wire.create(alice, templateID=name))


def by_daytona(alice, modal):
    made = alice.post("/api/sandbox", {}).ok().json["id"]
    alice.post(f"/api/sandbox/{made}/snapshot", {"name": "cut"}).ok()
    alice.delete(f"/api/sandbox/{made}").ok()
    return lambda: alice.get("/api/snapshots/cut").ok()


def by_modal(alice, modal):
    image = text(modal.call("ImageGetOrCreate", DEBIAN).one, 1)
    made = text(modal.call("SandboxCreateV2", [(1, "ap-x"), (2, [(3, image), (7, 600)])]).one, 1)
    kept = text(modal.call("SandboxSnapshotFs", [(1, made)]).one, 1)
    return lambda: (modal.call("ImageFromId", [(1, kept)]).ok(), modal.call("SandboxTerminate", [(1, made)]).ok())


def by_runloop(alice, modal):
    made = alice.post("/v1/devboxes", {}).ok().json["id"]
    eventually(lambda: alice.get(f"/v1/devboxes/{made}").ok().json["status"] == "running", "it runs")
    kept = alice.post(f"/v1/devboxes/{made}/snapshot_disk", {}).ok().json["id"]
    alice.post(f"/v1/devboxes/{made}/shutdown", {}).ok()
    return lambda: alice.get(f"/v1/devboxes/disk_snapshots/{kept}/status").ok()


MAKERS = (by_e2b, by_daytona, by_modal, by_runloop)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__[3:])
def test_it_is_no_sandbox_to_any(service, make):
    alice = service.tenant(f"layers-{make.__name__}")
    is_there = make(alice, Wire(service, alice.key))
    layers = [one for one in alice.get("/v1/sandboxes").ok().json["sandboxes"] if one["state"] in ("paused", "stopped")]
    assert layers, "the native API shows all"
    shown = {
        "E2B": alice.get("/sandboxes").ok().text + alice.get("/v2/sandboxes").ok().text,
        "Daytona": alice.get("/api/sandbox").ok().text + alice.get("/api/sandbox/paginated").ok().text,
        "Runloop": alice.get("/v1/devboxes?limit=1000").ok().text,
        "OpenHands": alice.get("/list").ok().text + alice.get("/api/v1/sandboxes/search").ok().text,
        "Modal": str(Wire(service, alice.key).call("SandboxList", [(4, 1)]).ok().messages),
    }
    for one in layers:
        assert not [surface for surface, said in shown.items() if one["id"] in said]
        # Nor does one that guesses its id get hold of it.
        for method, path in (
            ("GET", f"/sandboxes/{one['id']}"),
            ("DELETE", f"/sandboxes/{one['id']}"),
            ("POST", f"/sandboxes/{one['id']}/connect"),
            ("GET", f"/api/sandbox/{one['id']}"),
            ("DELETE", f"/api/sandbox/{one['id']}"),
            ("GET", f"/v1/devboxes/{one['id']}"),
            ("POST", f"/v1/devboxes/{one['id']}/shutdown"),
        ):
            assert alice.request(method, path, {} if method == "POST" else None).status == 404, (method, path)
    is_there()

"""Many pods below one service: warm ones, claimed by one PATCH each, never twice; one watch for all of them."""

import contextlib
import json
import pathlib
import shutil
import sqlite3
import sys
import threading
import time

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "service"))

from conformance import wait_until  # noqa: E402
from native import at, make, run  # noqa: E402
from services import Service  # noqa: E402

SETTINGS = {"images": "docker.io/library/*", "kubernetes.pvc_storage_class": "tests", "kubernetes.resource_cpu_request": "10m",
            "kubernetes.resource_memory_request": "16Mi"}  # fmt: skip


@pytest.fixture
def service(world):
    service = Service(world.base / "service", runtime="kubernetes", settings={**SETTINGS, "kubernetes.namespace": world.namespace},
                      env=world.env).start()  # fmt: skip
    yield service
    if not service.process:
        service.start()
    drain(service)
    service.finish()


class Twin(Service):
    """A service with a copy of another's state, at the same place: what either makes carries the same marks."""

    def __init__(self, other):
        super().__init__(other.base, runtime="kubernetes", settings=other.settings, env=other.env)
        self.copy = other.base / "copy"
        shutil.copytree(other.state, self.copy)

    def command(self):
        return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1"; shift; exec "$@"', str(self.copy), str(self.state), *super().command()]


def pool(service, name="box"):
    (found,) = [pool for pool in service.client().get("/v1/pools").ok().json["pools"] if pool["name"] == name]
    return found


def fill(service, target, **body):
    service.client().put("/v1/pools/box", {"image": "box:1", "plugins": [], "target": target, **body}).ok()
    wait_until(lambda: pool(service)["ready"] == target, seconds=120, what="the pool is full")


def drain(service):
    service.client().delete("/v1/pools/box")
    wait_until(lambda: not service.client().get("/v1/pools").ok().json["pools"], seconds=60, what="the pool is gone")


def warm(world, service):
    """Ids of those that wait, the next to be claimed first; cluster and store agree about them."""
    found = world.cluster.get(f"/api/v1/namespaces/{world.namespace}/secrets?labelSelector=tendon.dev/warm")["items"]
    with contextlib.closing(sqlite3.connect(f"file:{service.state}/tendon.db?mode=ro", uri=True)) as database:
        ids = [row[0] for row in database.execute("SELECT id FROM sandbox WHERE pool IS NOT NULL ORDER BY created")]
    assert sorted(ids) == sorted(secret["metadata"]["labels"]["tendon.dev/id"] for secret in found)
    return ids


def writes(world, box):
    """What was written for a sandbox, from its beginning on."""
    return [(verb, kind) for verb, kind, name in world.cluster.writes(world.namespace) if name and box in name]


def forbid_pods(world, count):
    """No more pods than there are: nobody fills up what is taken."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": str(count)}}}
    world.cluster.kubectl("apply", "--filename=-", namespace=world.namespace, input=json.dumps(quota))
    path = f"/api/v1/namespaces/{world.namespace}/resourcequotas/full"
    wait_until(lambda: world.cluster.get(path).get("status", {}).get("used"), what="the quota counts")


def forget_claim(service, box, word):
    """As if the service had been killed after a PATCH with that word, before it knew of it; starts it again."""
    service.kill()
    with contextlib.closing(sqlite3.connect(f"{service.state}/tendon.db")) as database:
        (ref,) = database.execute("SELECT ref FROM sandbox WHERE id = ?", (box,)).fetchone()
        database.execute("UPDATE sandbox SET ref = ? WHERE id = ?", (json.dumps({**json.loads(ref), "warm": "1", "claim": word}), box))
        database.commit()
    service.start()


def test_a_warm_pod_has_one_owner(world, service):
    fill(service, 5)
    ids = warm(world, service)
    assert len(ids) == 5
    forbid_pods(world, len(ids))
    service.stop()
    twin = Twin(service).start()
    service.start()
    try:
        mine = make(service.client(), image="box:1")
        assert mine["id"] == ids[0]  # both stores have it as the oldest
        began = time.monotonic()
        theirs = make(twin.client(), image="box:1")
        print(f"claimed the second one after {time.monotonic() - began:.3f} s")
        assert theirs["id"] == ids[1]
        assert "hello" in run(twin.client(), theirs, "echo hello")["content"]

        # One that somebody removes at this moment is nobody's.
        world.cluster.kubectl("delete", "secret", f"openhands-runtime-{ids[2]}-key", "--wait=false", "--cascade=foreground", namespace=world.namespace)
        made = {}
        threads = [threading.Thread(target=lambda who=who: made.update({who: make(who.client(), image="box:1")})) for who in (service, twin)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(box["id"] for box in made.values()) == sorted(ids[3:])
        assert "hello" in run(service.client(), mine, "echo hello")["content"]

        # Three writes make it, one takes it, one removes it.
        service.client().delete(at(mine)).ok(204)
        wait_until(lambda: f"openhands-runtime-{ids[0]}-key" not in world.names("secrets"), seconds=60, what="it is gone")
        assert writes(world, ids[0]) == [("create", "secrets"), ("create", "persistentvolumeclaims"), ("create", "pods"),
                                         ("patch", "secrets"), ("delete", "secrets")]  # fmt: skip
        assert [w for w in writes(world, ids[1]) if w[0] == "patch"] == [("patch", "secrets")]

        # A start collects what is nobody's: what was lost to the other is not.
        box = made[service]
        secret = f"openhands-runtime-{box['id']}-key"
        word = world.cluster.get(f"/api/v1/namespaces/{world.namespace}/secrets/{secret}")["metadata"]["annotations"]["tendon.dev/claimed"]
        # Killed between a PATCH and the note that it was done: the word says whose it was.
        forget_claim(service, box["id"], "another")
        wait_until(lambda: service.client().get(at(box)).ok().json["state"] == "missing", seconds=30, what="it is another's")
        forget_claim(service, box["id"], word)
        wait_until(lambda: service.client().get(at(box)).ok().json["state"] == "running", seconds=30, what="it is ours")
        forget_claim(service, box["id"], word)
        service.client().delete(at(box)).ok(204)
        wait_until(lambda: secret not in world.names("secrets"), seconds=60, what="it is gone")
        assert "hello" in run(twin.client(), theirs, "echo hello")["content"]
        # Rows of what was lost end with it.
        for box in (theirs, made[twin]):
            twin.client().delete(at(box)).ok(204)
        wait_until(lambda: not {f"openhands-runtime-{box['id']}-key" for box in (theirs, made[twin])} & set(world.names("secrets")), seconds=60, what="they are gone")
        world.cluster.kubectl("delete", "resourcequota", "full", namespace=world.namespace)
    finally:
        twin.kill()
        twin.ids.stop()


def test_a_pool_that_cannot_be_filled_is_patient(world, service):
    service.client().put("/v1/pools/box", {"image": "missing:1", "plugins": [], "target": 8, "burst": 4}).ok()
    began = time.monotonic()
    wait_until(lambda: pool(service)["problem"], seconds=60, what="the pool tells its problem")
    assert "missing" in pool(service)["problem"]
    tries = lambda: [w for w in world.cluster.writes(world.namespace) if w[:2] == ("create", "pods")]  # noqa: E731
    wait_until(lambda: len(tries()) >= 6, seconds=60, what="it is tried again")
    # Four at once, then one after each of 1, 2, 4, ... seconds.
    assert time.monotonic() - began > 3
    assert len(tries()) <= 4 + 1 + (time.monotonic() - began) / 1.5


def test_a_role_without_patch_has_no_pool(world, service):
    """Nobody could claim from it: that is told, and nothing is made."""
    service.stop()
    world.cluster.kubectl("create", "role", "old", "--verb=get,list,watch,create,delete", "--resource=secrets,pods,persistentvolumeclaims", namespace=world.namespace)
    world.cluster.kubectl("create", "rolebinding", "old", "--role=old", "--user=tendon", namespace=world.namespace)
    world.as_user("tendon")
    service.env.update(world.env)
    service.start()
    service.client().put("/v1/pools/box", {"image": "box:1", "plugins": [], "target": 2}).ok()
    wait_until(lambda: pool(service)["problem"], seconds=60, what="the pool tells its problem")
    assert "the right to patch secrets" in pool(service)["problem"]
    assert not [write for write in world.cluster.writes(world.namespace) if write[1] in ("secrets", "pods")]
    world.as_user("admin")


def test_one_watch_for_all(world, service):
    """States come from it, over cut connections too; nothing is asked about each."""
    service.stop()
    world.cluster.kubectl("create", "rolebinding", "tendon", "--clusterrole=admin", "--user=tendon", namespace=world.namespace)
    world.as_user("tendon")
    service.env.update(world.env)
    service.start()
    client = service.client()
    boxes = [make(client, image="box:1") for _ in range(2)]
    watches = lambda: [call for call in world.cluster.calls(world.namespace) if call[0] == "watch"]  # noqa: E731
    assert sorted(kind for _, kind, _ in watches()) == ["pods", "secrets"]

    asked = len(world.cluster.calls(world.namespace))
    client.get("/readyz").ok()
    for box in boxes:
        client.post(at(box, "/resume")).ok()  # it runs: that is looked at
    assert len(world.cluster.calls(world.namespace)) == asked

    world.cluster.restart("forward")
    world.cluster.kubectl("delete", "pod", f"openhands-runtime-{boxes[0]['id']}", "--now", namespace=world.namespace)
    wait_until(lambda: client.get(at(boxes[0])).ok().json["state"] == "error", seconds=30, what="the end of its pod is known")
    assert client.get(at(boxes[1])).ok().json["state"] == "running"
    assert "still" in run(client, boxes[1], "echo still")["content"]

    # Rights that were away for a while: the next watch does not tell what ended meanwhile.
    name = f"openhands-runtime-{boxes[1]['id']}"
    uid = lambda: world.cluster.get(f"/api/v1/namespaces/{world.namespace}/pods/{name}").get("metadata", {}).get("uid")  # noqa: E731
    before, heard = uid(), len(watches())
    world.cluster.kubectl("delete", "rolebinding", "tendon", namespace=world.namespace)
    world.cluster.restart("forward")
    world.cluster.kubectl("delete", "pod", name, "--now", namespace=world.namespace)
    world.cluster.kubectl("create", "rolebinding", "tendon", "--clusterrole=admin", "--user=tendon", namespace=world.namespace)
    wait_until(lambda: len(watches()) >= heard + 2, seconds=60, what="both watches are back")
    client.post(at(boxes[1], "/resume"))  # it is looked at
    wait_until(lambda: client.get(at(boxes[1])).ok().json["state"] == "error" or uid() not in (None, before), seconds=90, what="it is known")
    world.as_user("admin")

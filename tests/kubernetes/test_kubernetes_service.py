"""`tendon serve` with pods below: what a tenant is given, and what the operator's bounds become there."""

import contextlib
import pathlib
import sqlite3
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "service"))

from native import at, make, run  # noqa: E402
from services import Service, eventually  # noqa: E402


@pytest.fixture
def service(world):
    settings = {"sandbox_pids": 64, "sandbox_open_files": 512, "sandbox_disk": "1g", "kubernetes.namespace": world.namespace,
                "kubernetes.pvc_storage_class": "tests", "kubernetes.resource_cpu_request": "10m",
                "kubernetes.resource_memory_request": "16Mi", "images": "docker.io/library/box:*"}  # fmt: skip
    service = Service(world.base / "service", runtime="kubernetes", settings=settings, env=world.env).start()
    yield service
    service.finish()


def test_a_tenants_pod(world, service):
    """What no pod can have of the operator's limits is not asked of one; the rest is in its manifest."""
    alice, bob = service.tenant("alice"), service.tenant("bob")
    box = make(alice, image="box:1")
    assert "inside" in run(alice, box, "echo inside")["content"]
    (pod,) = world.cluster.get(f"/api/v1/namespaces/{world.namespace}/pods")["items"]
    container = pod["spec"]["containers"][0]
    assert container["resources"]["limits"]["ephemeral-storage"] == str(1 << 30)
    assert pod["metadata"]["labels"]["tendon.dev/network"] == "open"
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    bob.get(at(box)).ok(404)
    for wish in ({"disk": "2g"}, {"network": "bridge"}, {"volumes": ["/etc:/x"]}, {"image": "debian:1"}):
        answer = alice.post("/v1/sandboxes", {"image": "box:1", **wish})
        assert answer.status in (400, 403), (wish, answer.status, answer.text)
    alice.delete(at(box)).ok(204)


def test_ports_tell_the_clusters_own_address(world, service):
    """Once it was asked for: a list makes nothing, and tells those who may use the sandbox alone."""
    client = service.tenant("alice")
    reader = service.tenant("alice", "--scope", "read")
    box = make(client, image="box:1", ports=[3000])
    listed = lambda who: {one["port"]: one.get("address") for one in who.get(at(box, "/ports")).ok().json["ports"]}
    assert listed(client)[3000] is None and not world.names("services")
    assert "address" not in client.post(at(box, "/ports/3001")).ok(201).json
    (told,) = {client.post(at(box, "/ports/3000")).ok(201).json["address"] for _ in range(2)}
    (name,) = world.names("services")
    assert told == f"http://{name}.{world.namespace}.svc:3000"
    assert listed(client)[3000] == told and listed(reader)[3000] is None
    client.delete(at(box)).ok(204)


def test_no_pod_is_asked_for_its_disk(world, service):
    """No pod can tell of its disk, and to ask one is a program inside it: the round over disks leaves them out."""
    service.settings.update({"runtimes": "kubernetes,local", "sandbox_disk": "4m"})
    service.restart()
    client = service.client()
    pod, other = make(client, image="box:1"), make(client, runtime="local")
    ballast = world.base / "service" / "state" / "ballast"
    ballast.write_bytes(b"x" * (16 << 20))
    asked = lambda box: any((value or -1) >= 0 for value in client.get(at(box)).ok().json["usage"].values())
    eventually(lambda: asked(other), "the round came by")
    assert not asked(pod)
    ballast.unlink()
    for box in (pod, other):
        client.delete(at(box)).ok(204)


def test_claims_and_snapshots_count(world, service):
    """A claim is as large as the operator says, and so is each snapshot of it, for as long as it is there, whatever runs: max_disk bounds them.

    The cluster of this file has no snapshots: one that is admitted is refused by it, and holds nothing."""
    service.settings.update({"sandbox_disk": "512m", "kubernetes.pvc_storage_size": "1Gi"})
    service.restart()
    client = service.tenant("claims", "--max-disk", "3g", "--max-memory", "64g")
    box = make(client, image="box:1")
    client.post(at(box, "/stop")).ok()
    snapshot = lambda name: client.post(at(box, "/snapshots"), {"name": name})
    for name in ("one", "two", "three"):
        answer = snapshot(name)
        assert answer.status != 429 and "VolumeSnapshotClass" in answer.text, answer.text

    service.stop()
    with contextlib.closing(sqlite3.connect(service.state / "tendon.db", timeout=20)) as db, db:
        db.execute("INSERT INTO snapshot (sandbox, name, created) VALUES (?, 'kept', 1)", (box["id"],))
    service.start()
    said = snapshot("more").ok(429).json["detail"]
    assert "as large as its claim" in said and "max_disk" in said and "2560 MiB are taken" in said, said
    said = client.post("/v1/sandboxes", {"image": "box:1"}).ok(429).json["detail"]
    assert "max_disk" in said and "2560 MiB are taken and this one needs 1536 MiB" in said, said
    client.delete(at(box, "/snapshots/kept")).ok(204)
    assert snapshot("more").status != 429
    client.delete(at(box)).ok(204)
    client.delete(at(make(client, image="box:1"))).ok(204)

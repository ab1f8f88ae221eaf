"""`tendon serve` with pods below: what a tenant is given, and what the operator's bounds become there."""

import pathlib
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

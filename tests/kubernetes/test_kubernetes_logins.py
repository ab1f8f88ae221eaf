"""Which logins a pod pulls its images with: a tenant's image without the operator's, the hand's with one of its own, from real registries."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import warnings

import pytest

from trees import RELEASE

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "service"))

from native import at, make, run  # noqa: E402
from services import Service  # noqa: E402
from test_hand_image import registry  # noqa: E402

OPEN, CLOSED = "127.0.0.1:5010", "127.0.0.1:5011"  # of the node
ADMITS = base64.b64encode(b"me:secret").decode()


def docker_config(where):
    return {"auths": {where: {"auth": ADMITS}}}


def login(world, name, where):
    """A Secret with a login for what is there."""
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": {"name": name},
              "stringData": {".dockerconfigjson": json.dumps(docker_config(where))}}  # fmt: skip
    world.cluster.must("POST", f"/api/v1/namespaces/{world.namespace}/secrets", secret)
    return f"/api/v1/namespaces/{world.namespace}/secrets/{name}"


@pytest.fixture(scope="module")
def registries(cluster, tendon_program, tmp_path_factory):
    """box:1 for everybody in one, and box:1 and the hand for those with a login in the other; the node has none of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        crypt = pytest.importorskip("crypt")
    base = tmp_path_factory.mktemp("registries")
    inside = ["nsenter", f"--target={cluster.first}", "--net", "--"]
    (base / "htpasswd").write_text("me:" + crypt.crypt("secret", crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)) + "\n")
    (base / "config.json").write_text(json.dumps(docker_config(CLOSED)))
    for name in ("open", "closed"):
        (base / name).mkdir()
    closed = f"auth: {{htpasswd: {{realm: tests, path: {base}/htpasswd}}}}"
    with registry(base / "open", OPEN, before=inside), registry(base / "closed", CLOSED, closed, before=inside):
        for where, user in ((OPEN, []), (CLOSED, ["--user=me:secret"])):
            cluster.images("tag", "docker.io/library/box:1", f"{where}/box:1")
            cluster.images("push", "--plain-http", *user, f"{where}/box:1")
            cluster.images("rm", f"{where}/box:1")
        env = {"PATH": os.environ["PATH"], "HOME": str(base), "DOCKER_CONFIG": str(base), "TENDON_HAND_PROGRAM": str(RELEASE / "tendon-hand")}
        subprocess.run([*inside, tendon_program, "build", "--hand-image", f"{CLOSED}/hand:1", "--push"], check=True, timeout=60, env=env)
        yield


@pytest.fixture
def service(world, registries):
    """One whose pods' ServiceAccount has a login for all of the closed registry."""
    secret = login(world, "everything", CLOSED)
    account = {"imagePullSecrets": [{"name": "everything"}]}
    world.cluster.kubectl("patch", "serviceaccount", "default", f"--namespace={world.namespace}", f"--patch={json.dumps(account)}")
    settings = {"kubernetes.namespace": world.namespace, "kubernetes.workspace_volume": "empty", "kubernetes.resource_cpu_request": "10m",
                "kubernetes.resource_memory_request": "16Mi"}  # fmt: skip
    service = Service(world.base / "service", runtime="kubernetes", settings=settings, env=world.env).start()
    yield service
    service.finish()
    world.cluster.must("DELETE", secret)


def logins(world, box):
    path = f"/api/v1/namespaces/{world.namespace}/pods?labelSelector=tendon.dev/id={box['id']}"
    (pod,) = world.cluster.get(path)["items"]
    return [one["name"] for one in pod["spec"].get("imagePullSecrets") or []]


def works(world, client, image):
    """The logins of a pod of that image, which runs."""
    box = make(client, image=image)
    assert "inside" in run(client, box, "echo inside")["content"]
    found = logins(world, box)
    client.delete(at(box)).ok(204)
    return found, box["id"]


def refused(client, image, *words):
    box = client.post("/v1/sandboxes", {"image": image, "plugins": []})
    assert box.status != 201 or box.json["state"] == "error", box.text
    assert all(word in box.text for word in words), box.text
    if box.status == 201:
        client.delete(at(box.json)).ok(204)


def test_a_tenants_image(world, service):
    """A pod that lists no login is given its ServiceAccount's; one of a tenant lists a Secret that is none, and starts all the same."""
    alice, admin = service.tenant("alice"), service.client()
    found, name = works(world, alice, f"{OPEN}/box:1")
    assert len(found) == 1 and name in found[0] and found[0].endswith("-key"), found
    refused(alice, f"{CLOSED}/box:1", "ErrImagePull")
    assert works(world, admin, f"{CLOSED}/box:1")[0] == ["everything"]
    # It is on the node now, which is no reason to have it.
    refused(alice, f"{CLOSED}/box:1", "ErrImagePull")


def test_the_hands_image(world, service, tendon_program):
    """It comes with a login of its own, in the same pod as an image that is pulled without any; the doctor says whether it needs one."""

    def doctor(**more):
        env = {**world.env, "TENDON_STATE": str(world.base / "program"), "TENDON_RUNTIME": "kubernetes", "KUBERNETES_NAMESPACE": world.namespace,
               "KUBERNETES_RESOURCE_CPU_REQUEST": "10m", "KUBERNETES_RESOURCE_MEMORY_REQUEST": "16Mi", **more}  # fmt: skip
        told = subprocess.run([tendon_program, "doctor", "--json", "--runtime", "kubernetes"], env=env, cwd=world.cwd, capture_output=True, timeout=200)
        (found,) = [one for one in json.loads(told.stdout) if one["runtime"] == "kubernetes"]
        return next(one for one in found["findings"] if one["what"] == "hand")

    alice = service.tenant("alice")
    service.settings["kubernetes.hand_image"] = f"{CLOSED}/hand:1"
    service.restart()
    refused(alice, f"{OPEN}/box:1", "the hand's image (kubernetes.hand_image)")
    secret = login(world, "hands", f"{CLOSED}/hand")
    service.settings["kubernetes.hand_pull_secret"] = "hands"
    service.restart()
    assert works(world, alice, f"{OPEN}/box:1")[0] == ["hands"]
    hand = {"TENDON_KUBERNETES_HAND_IMAGE": f"{CLOSED}/hand:1"}
    told = doctor(**hand)
    assert not told["good"] and not told["needed"] and "with the operator's logins" in told["detail"], told
    assert "a tenant names could not pull it" in told["detail"] and "ErrImagePull" in told["detail"], told
    told = doctor(**hand, TENDON_KUBERNETES_HAND_PULL_SECRET="hands")
    assert told["good"] and "with kubernetes.hand_pull_secret alone" in told["detail"], told
    refused(alice, f"{CLOSED}/box:1", "ErrImagePull")
    world.cluster.must("DELETE", secret)

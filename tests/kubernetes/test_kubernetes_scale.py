"""Two thousand sandboxes below one service, on nodes that KWOK plays: what a claim, a list and an end take, what is written, what it costs."""

import contextlib
import pathlib
import sys
import time
from collections import Counter

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "service"))

from conformance import wait_until  # noqa: E402
from kube_world import built_or_skip  # noqa: E402
from native import at, make, run  # noqa: E402
from services import Service  # noqa: E402

MANY = 2000
CLAIMS = 200
NODES = 20
LABEL = "tests.invalid/kwok"
NETWORK = "10.97.0.0/16"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def nodes(cluster):
    """Nodes of KWOK, which says that their pods run, and ends them. It plays no containers: every address of its pods leads to
    one web server, which answers `/alive` as their hands would."""
    kwok = built_or_skip("kwok")
    cluster.inside("ip", "route", "add", "local", NETWORK, "dev", "lo")
    cluster.inside("sh", "-c", "mkdir -p /tmp/kwok; echo '{\"status\": \"ok\"}' >/tmp/kwok/alive")
    cluster.run_program("kwok-hand", "busybox", "httpd", "-f", "-p", "8080", "-h", "/tmp/kwok")
    cluster.run_program("kwok", kwok / "kwok", f"--kubeconfig={cluster.base}/inside-admin-default.config", f"--cidr={NETWORK}",
                        f"--manage-nodes-with-label-selector={LABEL}", "--server-address=127.0.0.1:10247")  # fmt: skip
    names = [f"kwok-{i}" for i in range(NODES)]
    for name in names:
        cluster.must("POST", "/api/v1/nodes", {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {LABEL: "yes"}},
            "spec": {"taints": [{"key": LABEL, "value": "yes", "effect": "NoSchedule"}]},
        })  # fmt: skip
    yield
    for name in names:
        cluster.call("DELETE", f"/api/v1/nodes/{name}")
    cluster.kill("kwok")
    cluster.kill("kwok-hand")


@pytest.fixture
def many(cluster, namespace, nodes, tmp_path):
    settings = {"images": "docker.io/library/*", "max_sandboxes": 2 * MANY, "max_starts": 64, "kubernetes.namespace": namespace,
                "kubernetes.workspace_volume": "empty", "kubernetes.hand_image": "hand:1", "kubernetes.node_selector_key": LABEL,
                "kubernetes.node_selector_val": "yes", "kubernetes.tolerations_yaml": "[{operator: Exists}]",
                "kubernetes.resource_cpu_request": "10m", "kubernetes.resource_memory_request": "16Mi"}  # fmt: skip
    env = {"KUBECONFIG": str(cluster.kubeconfig("token", "tendon", namespace=namespace))}
    cluster.kubectl("create", "rolebinding", "tendon", "--clusterrole=admin", "--user=tendon", namespace=namespace)
    service = Service(tmp_path, runtime="kubernetes", settings=settings, env=env).start()
    yield service
    service.kill()
    service.ids.stop()

    def are_gone(path):
        with contextlib.suppress(OSError):  # so many take their time
            cluster.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
            return not cluster.get(f"{path}?limit=1")["items"]

    for kind in ("secrets", "pods"):
        wait_until(lambda kind=kind: are_gone(f"/api/v1/namespaces/{namespace}/{kind}"), 300, f"{kind} are gone")


def timed(what, times):
    times = sorted(times)
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    print(f"{what}: p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms of {len(times)}")
    return p50


def clock(call, *args, **kwargs):
    began = time.monotonic()
    result = call(*args, **kwargs)
    return time.monotonic() - began, result


def memory(service):
    status = pathlib.Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def test_two_thousand(cluster, namespace, many):
    service, client = many, many.client()
    pools = lambda: client.get("/v1/pools").ok().json["pools"][0]  # noqa: E731
    print(f"memory of the service before: {memory(service):.0f} MB")
    began = time.monotonic()
    client.put("/v1/pools/box", {"image": "box:1", "plugins": [], "target": MANY, "burst": 64}).ok()
    wait_until(lambda: pools()["ready"] == MANY, seconds=900, what="the pool is full")
    print(f"{MANY} made in {time.monotonic() - began:.0f} s; memory {memory(service):.0f} MB")

    claims = [clock(make, client, image="box:1") for _ in range(CLAIMS)]
    boxes = [box for _, box in claims]
    timed("claim", [seconds for seconds, _ in claims])
    timed("list of 100", [clock(lambda: client.get("/v1/sandboxes?limit=100").ok())[0] for _ in range(50)])
    before = len(cluster.calls(namespace))
    timed("inspect", [clock(lambda box=box: client.get(at(box)).ok())[0] for box in boxes])
    print(f"calls of the API server for {CLAIMS} inspections, and those of the pool meanwhile: {len(cluster.calls(namespace)) - before}")

    # An end is heard of by the watch.
    ends = []
    for box in boxes[:20]:
        cluster.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/openhands-runtime-{box['id']}", {"gracePeriodSeconds": 0})
        ends.append(clock(wait_until, lambda box=box: client.get(at(box)).ok().json["state"] == "error", what="its end is known")[0])
    timed("end of a pod, seen in its sandbox", ends)
    timed("delete", [clock(lambda box=box: client.delete(at(box)).ok(204))[0] for box in boxes[20:70]])
    print(f"memory {memory(service):.0f} MB")

    # Three writes at most for a create, one for a claim, one for a delete; two watches.
    calls = cluster.calls(namespace)
    writes = Counter((name[18:28], verb) for verb, kind, name in calls if name and verb not in ("get", "list", "watch"))
    ids = {box["id"] for box in boxes}
    assert all(writes[box["id"], "create"] <= 3 and writes[box["id"], "patch"] == 1 for box in boxes)
    assert all(writes[box["id"], "delete"] == 1 for box in boxes[20:70])
    assert not [key for key in writes if key[0] not in ids and key[1] == "patch"]
    watches = Counter(kind for verb, kind, _ in calls if verb == "watch")
    print(f"watches: {dict(watches)}; all calls: {Counter((verb, kind) for verb, kind, _ in calls)}")
    assert watches["pods"] <= 10 and watches["secrets"] <= 10  # each is begun anew every five minutes


def test_from_a_claim_to_an_observation(cluster, namespace, tmp_path):
    """With real pods and hands, through the API server's proxy."""
    settings = {"images": "docker.io/library/*", "kubernetes.namespace": namespace, "kubernetes.workspace_volume": "empty",
                "kubernetes.resource_cpu_request": "10m", "kubernetes.resource_memory_request": "16Mi"}  # fmt: skip
    env = {"KUBECONFIG": str(cluster.kubeconfig("token", "admin", namespace=namespace))}
    service = Service(tmp_path, runtime="kubernetes", settings=settings, env=env).start()
    client = service.client()
    begin = lambda: run(client, make(client, image="box:1"), "echo hello")  # noqa: E731
    cold = timed("cold create to the first observation", [clock(begin)[0] for _ in range(3)])
    client.put("/v1/pools/box", {"image": "box:1", "plugins": [], "target": 12}).ok()
    wait_until(lambda: client.get("/v1/pools").ok().json["pools"][0]["ready"] == 12, seconds=120, what="the pool is full")
    warm = timed("warm claim to the first observation", [clock(begin)[0] for _ in range(10)])
    client.delete("/v1/pools/box")
    service.finish()
    assert warm < cold / 4

"""How a hand is reached from inside of the cluster: by the address of its pod, once it has proved that it is the one."""

import hashlib
import json
import subprocess
import sys

import pytest

from conformance import wait_until
from kube_world import KubeWorld
from trees import BUILD, ROOT, program

# Neither the API server's proxy nor anything that is not of a sandbox.
RULES = [
    {"apiGroups": [""], "resources": ["secrets", "persistentvolumeclaims", "pods"], "verbs": ["get", "list", "watch", "create", "delete"]},
    {"apiGroups": [""], "resources": ["pods/exec", "pods/log", "events"], "verbs": ["get", "list", "create"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["get", "create"]},
]
PROXY = {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get", "create"]}

# Starts a program as a pod's would start: it has a service account. The network is the node's, which leads to pods; or one that leads to the
# API server alone, through a socket whose other end is on the node.
POD = """#!/usr/bin/python3
import os, subprocess, sys
sys.path.append({tests!r})
from cluster import FORWARD
net, routed = {net!r}, {routed}
if os.environ.get("IN_POD") is None:
    os.environ["IN_POD"] = "1"
    space = ["nsenter", "--net=" + net, "unshare", "--mount"] if routed else ["unshare", "--mount", "--net"]
    os.execvp(space[0], [*space, "--", sys.executable, *sys.argv])
for words in (["mount", "-t", "tmpfs", "tmpfs", "/run"], ["mkdir", "-p", {account!r}], ["mount", "--bind", {files!r}, {account!r}]):
    subprocess.run(words, check=True)
host = {server!r}
if not routed:
    import socket
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    listener = socket.create_server(("127.0.0.1", 443))
    os.set_inheritable(listener.fileno(), True)
    subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "nsenter", "--net=" + net, sys.executable, "-c", FORWARD, str(listener.fileno())],
                     close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    host = "127.0.0.1"
os.environ.update(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT="443")
os.execv({driver!r}, [{driver!r}, *sys.argv[1:]])
"""


class InsideWorld(KubeWorld):
    """Its drivers run as if in a pod."""

    def __init__(self, cluster, namespace, hand, rules, routed=True):
        super().__init__(cluster, namespace, hand)
        del self.env["KUBECONFIG"]
        files = self.base / "account"
        files.mkdir()
        for kind, spec in (("Role", {"rules": rules}), ("RoleBinding", {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "inside"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
        })):  # fmt: skip
            cluster.kubectl("apply", "--filename=-", namespace=namespace, input=json.dumps({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "inside"}, **spec}))  # fmt: skip
        (files / "token").write_text(cluster.kubectl("create", "token", "default", namespace=namespace).strip())
        (files / "ca.crt").write_bytes((cluster.base / "tls/ca.pem").read_bytes())
        (files / "namespace").write_text(namespace)
        wrapper = self.base / "in-pod"
        wrapper.write_text(POD.format(
            tests=str(ROOT / "tests/kubernetes"), net=f"/proc/{cluster.first}/ns/net", server=cluster.servers[0], routed=routed,
            files=str(files), account="/run/secrets/kubernetes.io/serviceaccount", driver=str(self.driver)))  # fmt: skip
        wrapper.chmod(0o755)
        self.driver = wrapper


@pytest.fixture
def inside(cluster, namespace, static_hand):
    worlds = []

    def make(rules, routed=True):
        world = InsideWorld(cluster, namespace, static_hand, rules, routed)
        worlds.append((world, world.census()))
        return world

    yield make
    for world, before in worlds:
        world.finish()
        assert world.census() == before


def reached_by(place):
    return json.loads(place["isolation"])["reached_by"] if isinstance(place["isolation"], str) else place["isolation"]["reached_by"]


# Keeps what it is sent, and passes it on to the real hand and back.
THIEF = """
import socket, sys, threading
server = socket.create_server((sys.argv[1], 8080))
print("ready", flush=True)
def copy(a, b, seen):
    while data := a.recv(65536):
        if seen:
            print(repr(data), flush=True)
        b.sendall(data)
    b.close()
while True:
    near = server.accept()[0]
    far = socket.create_connection((sys.argv[2], 8080))
    threading.Thread(target=copy, args=(far, near, False), daemon=True).start()
    threading.Thread(target=copy, args=(near, far, True), daemon=True).start()
"""


def test_by_the_address_of_the_pod(cluster, inside):
    """Without the right to the API server's proxy. And one who has the address of another hand gets no key, though it passes the question on."""
    world = inside(RULES)
    driver = world.open()
    box = world.new(driver)
    place = box("inspect")
    ip = world.pod(box)["status"]["podIP"]
    assert reached_by(place) == "the pod's address" and place["address"].startswith(f"proven:{ip}:8080#"), place
    assert box.ok("echo hi").strip() == "hi"

    key = json.loads((world.state / "drive" / f"{box.id}.json").read_text())["key"]
    digest = hashlib.sha256(key.encode()).hexdigest()
    node, taken = ["nsenter", f"--net=/proc/{cluster.first}/ns/net"], "10.97.0.1"
    cluster.inside("ip", "addr", "add", f"{taken}/32", "dev", "lo")
    thief = subprocess.Popen([*node, sys.executable, "-c", THIEF, taken, ip], stdout=subprocess.PIPE, text=True)
    try:
        assert thief.stdout.readline() == "ready\n"

        def reach(where, digest=digest):
            words = [*node, program(BUILD, "tests/unit/kube/kube-drive"), "reach",
                     f"proven:{where}:8080#{digest}", "/v1/sessions"]  # fmt: skip
            return subprocess.run([*map(str, words)], env={**world.env, "KEY": key}, capture_output=True, text=True, timeout=60).stdout

        assert reach(ip).startswith("200 "), "the key is right"
        answer = reach(taken)
        assert answer.startswith("error") and "another one has its address" in answer, answer
        assert reach(ip, digest[::-1]).startswith("error"), "another key's hand"
    finally:
        thief.kill()
    sent = thief.stdout.read()
    assert "GET /proof?nonce=" in sent and key not in sent and digest not in sent, sent


def test_by_the_proxy_where_addresses_lead_nowhere(inside):
    world = inside([*RULES, PROXY], routed=False)
    box = world.new(world.open())
    place = box("inspect")
    assert reached_by(place) == "the API server's proxy" and place["address"].startswith("kube:"), place
    assert box.ok("echo hi").strip() == "hi"
    other = box.seen_by(world.open())  # another process knows it, too
    assert reached_by(other("inspect")) == "the API server's proxy"
    assert other.ok("echo hi").strip() == "hi"


def test_a_pod_of_its_name_that_is_not_its_own(world, driver, box):
    """Somebody has made it again, marks and all: it is not talked to; a resume replaces it."""
    box.ok("echo kept >file")
    pod = world.pod(box)
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    world.cluster.kubectl("delete", "pod", name, namespace=world.namespace)
    meta = {key: pod["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    world.cluster.kubectl("create", "--filename=-", namespace=world.namespace, input=json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": meta,
        "spec": {"containers": [{"name": "runtime", "image": "box:1", "command": ["sleep", "1000"]}], "terminationGracePeriodSeconds": 0}}))  # fmt: skip
    wait_until(lambda: world.pod(box)["status"]["phase"] == "Running", 60, "the other pod runs")
    place = box("inspect")
    assert (place["status"], place.get("address")) == ("error", None) and "another one has its name" in place["reason"], place
    assert box.drive("running") == "running"
    assert world.pod(box)["metadata"]["uid"] not in (uid, "") and box.ok("cat file").strip() == "kept"

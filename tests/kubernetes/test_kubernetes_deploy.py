"""deploy/: the chart, the plain manifests that it renders, and the service that they start in a real cluster."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest
import yaml

from archive import write_image
from conformance import wait_until
from images import debian_tar
from trees import RELEASE, ROOT, program

CHART, PLAIN = ROOT / "deploy/helm/tendon", ROOT / "deploy/kubernetes"
SANDBOXES = "tendon-sandboxes"
# Loaded when they are first needed: no linker knows of them.
LOADED = ("libcurl.so.4", "libssl.so.3", "libnghttp2.so.14", "libarchive.so.13")


def run(*words, timeout=120):
    result = subprocess.run([*map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout)
    assert result.returncode == 0, result.stderr
    return result.stdout


def objects(text):
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(text) if o}


@pytest.fixture(scope="module")
def helm():
    found = subprocess.run([ROOT / "tools/helm"], capture_output=True, text=True, timeout=60)
    if found.returncode != 0:
        pytest.skip(found.stderr.strip())
    return found.stdout.strip()


def render(helm, *values):
    words = [word for value in values for word in ("--set", value)]
    return run(helm, "template", "tendon", CHART, "--namespace", "tendon", *words)


# --- files ------------------------------------------------------------------------------------------


def test_plain_manifests_are_what_the_chart_renders(helm):
    assert render(helm) == (PLAIN / "tendon.yaml").read_text(), (
        "helm template tendon deploy/helm/tendon --namespace tendon >deploy/kubernetes/tendon.yaml"
    )
    run(helm, "lint", "--strict", CHART)


def test_values_of_the_chart(helm):
    """Each of them ends where it belongs."""
    made = objects(render(
        helm, "url=https://tendon.example.org", "previewDomain=preview.example.org", "ingress.enabled=true",
        "ingress.className=nginx", "ingress.tlsSecret=both", "serviceMonitor.enabled=true", "image.tag=7", "storage.className=fast",
        "sandboxes.handImage=registry/hand:1", "sandboxes.quota.pods=7", "sandboxes.namespace=boxes", "sandboxes.networkPolicies=false",
        "sandboxes.podSecurity=baseline", "env.TENDON_SERVICE_MAX_SANDBOXES=9", "imagePullSecrets[0].name=pull",
    ))  # fmt: skip
    pod = made["Deployment", "tendon"]["spec"]["template"]["spec"]
    env = {e["name"]: e["value"] for e in pod["containers"][0]["env"]}
    assert pod["containers"][0]["image"] == "tendon:7" and pod["imagePullSecrets"] == [{"name": "pull"}]
    assert env["KUBERNETES_NAMESPACE"] == "boxes" and env["TENDON_KUBERNETES_HAND_IMAGE"] == "registry/hand:1"
    assert env["TENDON_SERVICE_URL"] == "https://tendon.example.org" and env["TENDON_SERVICE_MAX_SANDBOXES"] == "9"
    assert env["TENDON_SERVICE_PREVIEW_DOMAIN"] == "preview.example.org"
    ingress = made["Ingress", "tendon"]["spec"]
    hosts = ["tendon.example.org", "*.preview.example.org"]
    assert [rule["host"] for rule in ingress["rules"]] == hosts and ingress["tls"] == [{"hosts": hosts, "secretName": "both"}]
    assert ingress["ingressClassName"] == "nginx" and ("ServiceMonitor", "tendon") in made
    assert made["Role", "tendon"]["metadata"]["namespace"] == made["RoleBinding", "tendon"]["metadata"]["namespace"] == "boxes"
    assert made["Namespace", "boxes"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    assert made["ResourceQuota", "tendon"]["spec"]["hard"] == {"pods": 7}
    assert made["PersistentVolumeClaim", "tendon"]["spec"]["storageClassName"] == "fast"
    assert not any(kind == "NetworkPolicy" for kind, _ in made)


def test_version_is_the_programs():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f"version: '{chart['appVersion']}'" in (ROOT / "meson.build").read_text()


def test_settings_are_those_of_the_program():
    """A variable that no setting has would be a setting that nobody reads."""
    known = (ROOT / "docs/config.md").read_text()
    for name in re.findall(r"\{name: ([A-Z_]+)", (CHART / "templates/service.yaml").read_text()):
        assert f"`{name}`" in known, name


# --- in a cluster -----------------------------------------------------------------------------------


def libraries(*paths):
    """What programs and libraries need beside libc's own, by the names that they are loaded by."""
    found = {}
    for path in paths:
        for name, where in re.findall(r"(\S+) => (/\S+)", run("ldd", path)):
            found[name] = os.path.realpath(where)
    return found


def service_layer(path):
    """A minimal Debian with the programs that ship and their libraries, as deploy/Dockerfile makes it."""
    shutil.copy(debian_tar(), path)
    cache = run("/sbin/ldconfig", "-p")
    loaded = {name: re.search(rf"{re.escape(name)} .*=> (/\S+)", cache)[1] for name in LOADED}
    needed = {**libraries(program(RELEASE, "tendon"), *loaded.values()), **{n: os.path.realpath(p) for n, p in loaded.items()}}
    triplet = os.path.basename(os.path.dirname(loaded["libssl.so.3"]))
    with tarfile.open(path, "a") as tar:
        for name, where in needed.items():
            tar.add(where, f"./usr/lib/{triplet}/{name}")
        for name in ("tendon", "tendon-hand"):
            tar.add(program(RELEASE, name), f"./usr/bin/{name}")
    return path


class Service:
    """The service of the plain manifests, reached through the API server."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.key = None

    def pod(self):
        found = self.cluster.get("/api/v1/namespaces/tendon/pods?labelSelector=app.kubernetes.io/name=tendon")["items"]
        return found[0]["metadata"]["name"] if found else None

    def describe(self):
        words = ("describe", "pods"), ("get", "events"), ("logs", "deployment/tendon", "--tail=50")
        return "\n".join(self.cluster.try_kubectl(*w, namespace="tendon").stdout for w in words)

    def await_rollout(self):
        result = self.cluster.try_kubectl("rollout", "status", "deployment/tendon", "--timeout=150s", namespace="tendon", timeout=200)
        assert result.returncode == 0, result.stderr + self.describe()
        self.key = self.cluster.kubectl("exec", "deployment/tendon", "--", "cat", "/var/lib/tendon/state/service.key", namespace="tendon").strip()

    def call(self, method, path, body=None):
        with contextlib.closing(self.cluster.connection(120)) as connection:
            headers = {"Authorization": f"Bearer {self.cluster.tokens['admin']}", "X-API-Key": self.key, "Content-Type": "application/json"}
            where = f"/api/v1/namespaces/tendon/pods/{self.pod()}:7171/proxy{path}"
            connection.request(method, where, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            data = answer.read()
        return answer.status, json.loads(data) if data[:1] in (b"{", b"[") else data

    def new(self, network="none"):
        status, box = self.call("POST", "/v1/sandboxes", {"network": network})
        assert status in (200, 201) and box["state"] == "running", (status, box, self.describe())
        return box["id"]

    def runs(self, box):
        action = {"action": {"action": "run", "args": {"command": "id -u"}}}
        status, answer = self.call("POST", f"/v1/sandboxes/{box}/actions", action)
        assert status == 200, answer
        return answer["content"].strip()

    def remove(self, box):
        status, answer = self.call("DELETE", f"/v1/sandboxes/{box}")
        assert status in (200, 204), answer
        target = f"/api/v1/namespaces/{SANDBOXES}/secrets?labelSelector=tendon.dev/id={box}"
        wait_until(lambda: not self.cluster.get(target)["items"], 60, "the sandbox is gone")


@pytest.fixture(scope="module")
def service(cluster, tmp_path_factory):
    base = tmp_path_factory.mktemp("service")
    layer = service_layer(base / "layer.tar")
    cluster.load(write_image(cluster.base / "tendon.tar", "tendon:0.1.0", layer))
    cluster.load(write_image(cluster.base / "debian-12.tar", "debian:12", debian_tar(), command=["/bin/bash"]))
    cluster.kubectl("apply", "--filename", PLAIN)
    service = Service(cluster)
    service.await_rollout()
    yield service
    cluster.kubectl("delete", "--filename", PLAIN, "--wait=false")


def pod_of(cluster, box):
    return cluster.get(f"/api/v1/namespaces/{SANDBOXES}/pods/openhands-runtime-{box}")


def test_service_makes_pods(cluster, service):
    """In a namespace that enforces `restricted`, with the Role of the manifests and nothing else."""
    box = service.new()
    pod = pod_of(cluster, box)
    assert pod["metadata"]["labels"]["tendon.dev/network"] == "none" and not pod["spec"].get("initContainers")
    assert service.runs(box) == "1000"
    assert service.call("GET", f"/v1/sandboxes/{box}")[1]["isolation"]["reached_by"] == "the pod's address"
    service.remove(box)


def test_sandboxes_outlive_the_service(cluster, service):
    box = service.new()
    uid = pod_of(cluster, box)["metadata"]["uid"]
    cluster.kubectl("delete", "pod", service.pod(), namespace="tendon")
    service.await_rollout()
    assert service.runs(box) == "1000"
    assert pod_of(cluster, box)["metadata"]["uid"] == uid
    service.remove(box)


def test_hand_comes_from_its_image(cluster, service, tmp_path):
    archive = cluster.base / "hand.tar"
    run("env", f"TENDON_HAND_PROGRAM={program(RELEASE, 'tendon-hand')}", f"HOME={tmp_path}", program(RELEASE, "tendon"),
        "build", "--hand-image", "example.org/hand:1", "--output", archive)  # fmt: skip
    cluster.load(archive)
    cluster.kubectl("set", "env", "deployment/tendon", "TENDON_KUBERNETES_HAND_IMAGE=example.org/hand:1", namespace="tendon")
    service.await_rollout()
    box = service.new()
    (init,) = pod_of(cluster, box)["spec"]["initContainers"]
    assert init["image"] == "example.org/hand:1"
    assert service.runs(box) == "1000"
    service.remove(box)


def test_role_is_what_doctor_asks_for(cluster, service):
    """Neither a verb that is never used, nor one that is missing; and the service has all of them."""
    role = objects((PLAIN / "tendon.yaml").read_text())["Role", "tendon"]
    ours = {f"{verb} {resource}" for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    words = ("exec", "deployment/tendon", "--", "tendon", "doctor", "--runtime", "kubernetes", "--json")
    (found,) = json.loads(cluster.kubectl(*words, namespace="tendon"))
    verbs = {line.split()[0] for line in ours}
    asked = {f["what"]: f for f in found["findings"] if f["what"].split()[0] in verbs and " " in f["what"]}
    assert set(asked) == ours
    assert all(f["good"] for f in asked.values()) and found["works"], found


def test_policies_are_the_backends_own(cluster, service):
    """Where they are missing they are made, and no others than those of the manifests."""
    def specs():
        items = cluster.get(f"/apis/networking.k8s.io/v1/namespaces/{SANDBOXES}/networkpolicies")["items"]
        return {item["metadata"]["name"]: item["spec"] for item in items}

    ours = specs()
    assert set(ours) == {"tendon-none", "tendon-open"}
    cluster.kubectl("delete", "networkpolicies", "--all", namespace=SANDBOXES)
    cluster.kubectl("delete", "pod", service.pod(), namespace="tendon")  # which has seen them
    service.await_rollout()
    for network in ("none", "open"):
        service.remove(service.new(network))
    assert specs() == ours

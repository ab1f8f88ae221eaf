"""deploy/: the chart, the plain manifests that it renders, and the service that they start in a real cluster."""

import contextlib
import http.client
import json
import re
import subprocess
import threading
import time
import urllib.parse

import pytest
import yaml

from conformance import wait_until
from kube_world import POLICIES, built_or_skip
from service_image import build_image
from trees import RELEASE, ROOT, program

CHART, PLAIN = ROOT / "deploy/helm/tendon", ROOT / "deploy/kubernetes"
SANDBOXES = "tendon-sandboxes"
# Of a machine that does much else.
SMALL = ("resources.requests.cpu=10m", "sandboxes.requests.cpu=10m", "sandboxes.requests.memory=16Mi", "sandboxes.workspaceSize=1Gi")


def run(*words, timeout=120):
    result = subprocess.run([*map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout)
    assert result.returncode == 0, result.stderr
    return result.stdout


def objects(text):
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(text) if o}


@pytest.fixture(scope="module")
def helm():
    return built_or_skip("helm")


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
        "sandboxes.handImage=registry/hand:1", "sandboxes.handPullSecret=hands", "sandboxes.quota.pods=7", "sandboxes.namespace=boxes", "sandboxes.networkPolicies=false",
        "sandboxes.podSecurity=baseline", "env.TENDON_SERVICE_MAX_SANDBOXES=9", "imagePullSecrets[0].name=pull", "sandboxes.keep=false",
        "sandboxes.limitRange=null", "sandboxes.ingressDomain=people.example.org", "networkPolicy.from[0].ipBlock.cidr=192.0.2.0/24",
    ))  # fmt: skip
    pod = made["Deployment", "tendon"]["spec"]["template"]["spec"]
    env = {e["name"]: e["value"] for e in pod["containers"][0]["env"]}
    assert pod["containers"][0]["image"] == "tendon:7" and pod["imagePullSecrets"] == [{"name": "pull"}]
    assert env["KUBERNETES_NAMESPACE"] == "boxes" and env["TENDON_KUBERNETES_HAND_IMAGE"] == "registry/hand:1"
    assert env["TENDON_KUBERNETES_HAND_PULL_SECRET"] == "hands" and "KUBERNETES_IMAGE_PULL_SECRET" not in env
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
    assert not {*(("NetworkPolicy", name) for name in POLICIES), ("LimitRange", "tendon")} & set(made)
    assert made["NetworkPolicy", "tendon"]["spec"]["ingress"][0]["from"] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    assert env["TENDON_KUBERNETES_NAMESERVERS"].startswith("169.254.20.10,")
    for none in ("[]", "null"):
        bare = objects(run(helm, "template", "tendon", CHART, "--namespace", "tendon", "--set-json", f"sandboxes.nameservers={none}"))
        (said,) = [e["value"] for e in bare["Deployment", "tendon"]["spec"]["template"]["spec"]["containers"][0]["env"] if e["name"].endswith("_NAMESERVERS")]
        assert said == "none" and "169.254.20.10" not in json.dumps(bare["NetworkPolicy", "tendon-open"])
    assert env["KUBERNETES_INGRESS_DOMAIN"] == "people.example.org" and "annotations" not in made["Namespace", "boxes"]["metadata"]
    verbs = {resource: rule["verbs"] for rule in made["Role", "tendon"]["rules"] for resource in rule["resources"]}
    assert verbs["networkpolicies"] == verbs["services"] == verbs["ingresses"] == ["get", "create"]


def test_version_is_the_programs():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f"version: '{chart['appVersion']}'" in (ROOT / "meson.build").read_text()


def test_settings_are_those_of_the_program():
    """A variable that no setting has would be a setting that nobody reads."""
    known = (ROOT / "docs/config.md").read_text()
    for name in re.findall(r"\{name: ([A-Z_]+)", (CHART / "templates/service.yaml").read_text()):
        assert f"`{name}`" in known, name


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_dockerfile_compiles_everything(tmp_path):
    build_image("tendon:whole", tmp_path / "whole.tar", whole=True)


# --- in a cluster -----------------------------------------------------------------------------------


class Service:
    """A release of the chart, reached through the API server."""

    def __init__(self, cluster, helm):
        self.cluster, self.helm = cluster, helm
        self.key = None
        self.policies = None  # those of the chart

    # --- as its operator --------------------------------------------------------------------------

    def run_helm(self, *words):
        run(self.helm, f"--kubeconfig={self.cluster.kubeconfig('token')}", "--namespace=tendon", *words, timeout=240)

    def install(self, *values):
        """Installs it, or changes what is there; to these values and none of before."""
        words = [word for value in (*SMALL, *values) for word in ("--set", value)]
        self.run_helm("upgrade", "--install", "tendon", CHART, "--reset-values", "--take-ownership", *words)
        self.await_rollout()

    def pod(self):
        found = self.cluster.get("/api/v1/namespaces/tendon/pods?labelSelector=app.kubernetes.io/name=tendon")["items"]
        return next((pod for pod in found if "deletionTimestamp" not in pod["metadata"]), None)

    def describe(self):
        ours = ("describe", "pods"), ("get", "events"), ("logs", "deployment/tendon", "--tail=50")
        theirs = ("describe", "pods,persistentvolumeclaims"), ("get", "events")
        asked = [*(("tendon", words) for words in ours), *((SANDBOXES, words) for words in theirs)]
        return "\n".join(self.cluster.try_kubectl(*words, namespace=namespace).stdout for namespace, words in asked)

    def await_rollout(self):
        result = self.cluster.try_kubectl("rollout", "status", "deployment/tendon", "--timeout=150s", namespace="tendon", timeout=200)
        assert result.returncode == 0, result.stderr + self.describe()
        self.key = self.inside("cat", "/var/lib/tendon/state/service.key").strip()

    def inside(self, *words):
        return self.cluster.kubectl("exec", "deployment/tendon", "--", *words, namespace="tendon")

    # --- as its user ------------------------------------------------------------------------------

    def call(self, method, path, body=None, headers=None):
        with contextlib.closing(self.cluster.connection(150)) as connection:
            headers = headers or {"X-API-Key": self.key}
            headers = {**headers, "Authorization": f"Bearer {self.cluster.tokens['admin']}", "Content-Type": "application/json"}
            where = f"/api/v1/namespaces/tendon/pods/{self.pod()['metadata']['name']}:7171/proxy{path}"
            connection.request(method, where, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            data = answer.read()
        return answer.status, json.loads(data) if data[:1] in (b"{", b"[") else data

    def new(self, **spec):
        status, box = self.call("POST", "/v1/sandboxes", {"network": "none", **spec})
        assert status in (200, 201) and box["state"] == "running", (status, box, self.describe())
        return box["id"]

    def runs(self, box, command="id -u"):
        action = {"action": {"action": "run", "args": {"command": command}}}
        status, answer = self.call("POST", f"/v1/sandboxes/{box}/actions", action)
        assert status == 200, answer
        return answer["content"].strip()

    def remove(self, box):
        status, answer = self.call("DELETE", f"/v1/sandboxes/{box}")
        assert status in (200, 204), answer
        target = f"/api/v1/namespaces/{SANDBOXES}/secrets?labelSelector=tendon.dev/id={box}"
        wait_until(lambda: not self.cluster.get(target)["items"], 60, "the sandbox is gone")


@pytest.fixture(scope="module")
def service(cluster, helm, debian_image):
    cluster.load(build_image("tendon:0.1.0", cluster.base / "tendon.tar"))
    cluster.tag("tendon:0.1.0", "tendon:next")
    cluster.tag(debian_image, "debian:12")
    cluster.kubectl("apply", "--filename", PLAIN / "namespace.yaml")
    service = Service(cluster, helm)
    service.install()
    yield service
    cluster.kubectl("delete", "namespace", "tendon", SANDBOXES, "--ignore-not-found", "--wait=false")


def pod_of(cluster, box):
    return cluster.get(f"/api/v1/namespaces/{SANDBOXES}/pods/openhands-runtime-{box}")


def test_plain_manifests_are_accepted(cluster, service):
    """By the API server's own checks, beside what the chart has made."""
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "--filename", PLAIN)


class Gap(threading.Thread):
    """The longest time in which a caller's question had no answer."""

    def __init__(self, service, path):
        super().__init__()
        self.service, self.path = service, path
        self.longest, self.ended = 0, threading.Event()
        self.start()

    def run(self):
        answered = time.monotonic()
        while not self.ended.wait(0.1):
            with contextlib.suppress(OSError, http.client.HTTPException, TypeError, ValueError):  # no pod; one that does not listen
                if self.service.call("GET", self.path)[0] == 200:
                    self.longest = max(self.longest, time.monotonic() - answered)
                    answered = time.monotonic()

    def stop(self):
        self.ended.set()
        self.join()
        return self.longest


def try_call(service, *words):
    with contextlib.suppress(OSError, http.client.HTTPException):  # it may be cut off
        service.call(*words)


def test_upgrade_with_a_sandbox_at_work(cluster, service):
    """Another image, other values and a hand of its own image: a command goes on, its shell stays, the state too, and nobody waits long."""
    archive = cluster.base / "hand.tar"
    run("env", f"TENDON_HAND_PROGRAM={program(RELEASE, 'tendon-hand')}", f"HOME={cluster.base}", program(RELEASE, "tendon"),
        "build", "--hand-image", "example.org/hand:1", "--output", archive)  # fmt: skip
    cluster.load(archive)
    box, key, uid = service.new(), service.key, service.pod()["metadata"]["uid"]
    before = pod_of(cluster, box)
    assert before["metadata"]["labels"]["tendon.dev/network"] == "none" and not before["spec"].get("initContainers")
    assert service.runs(box, "cd /tmp; kept=yes; id -u") == "1000", "the namespace enforces `restricted`"
    assert service.call("GET", f"/v1/sandboxes/{box}")[1]["isolation"]["reached_by"] == "the pod's address"
    work = {"action": {"action": "run", "args": {"command": "until [ -e stop ]; do date +%s.%N; sleep 0.1; done >beats"}}}
    caller = threading.Thread(target=try_call, args=(service, "POST", f"/v1/sandboxes/{box}/actions", work))
    caller.start()
    gap = Gap(service, f"/v1/sandboxes/{box}")
    try:
        service.install("image.tag=next", "sandboxes.handImage=example.org/hand:1", "sandboxes.quota.limits\\.memory=64Gi")
    finally:
        longest = gap.stop()
        service.call("PUT", f"/v1/sandboxes/{box}/files?path=/tmp/stop")
        caller.join()
    print(f"nobody answered for {longest:.1f} s")
    pod = service.pod()
    assert pod["metadata"]["uid"] != uid and pod["spec"]["containers"][0]["image"] == "tendon:next" and service.key == key
    assert pod_of(cluster, box)["metadata"]["uid"] == before["metadata"]["uid"]
    wait_until(lambda: service.runs(box, 'echo "$kept $PWD"') == "yes /tmp", 30, "the command has ended in its shell")
    beats = [float(line) for line in service.runs(box, "cat beats").split()]
    assert max(later - former for former, later in zip(beats, beats[1:])) < min(longest, 10), "it did not wait for the service"
    assert 0 < longest < 60
    service.remove(box)


def test_hand_comes_from_its_image(cluster, service):
    """As the upgrade has said; and every container has the limits that a quota asks for."""
    box = service.new()
    (init,) = pod_of(cluster, box)["spec"]["initContainers"]
    assert init["image"] == "example.org/hand:1" and init["resources"]["limits"]["memory"]
    assert service.runs(box) == "1000"
    service.remove(box)


def role_of(cluster):
    role = cluster.get(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{SANDBOXES}/roles/tendon")
    return {f"{verb} {resource}" for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


def check_role(cluster, service):
    """Doctor asks for what the Role has, no more and no less; and the service has all of it."""
    (found,) = json.loads(service.inside("tendon", "doctor", "--runtime", "kubernetes", "--json"))
    ours = role_of(cluster)
    verbs = {line.split()[0] for line in ours}
    asked = {f["what"]: f for f in found["findings"] if f["what"].split()[0] in verbs and " " in f["what"]}
    assert set(asked) == ours
    assert all(f["good"] for f in asked.values()) and found["works"], found
    return {f["what"]: f for f in found["findings"]}


def test_role_is_what_doctor_asks_for(cluster, service):
    """It has also tried the image of the hand, which no registry has but each node, says so, and left nothing."""
    hand = check_role(cluster, service)["hand"]
    assert not hand["needed"] and "example.org/hand:1 was pulled with the operator's logins, and answered" in hand["detail"], hand
    assert "does no harm where each node has it already" in hand["detail"], hand
    assert not cluster.get(f"/api/v1/namespaces/{SANDBOXES}/secrets")["items"]


def policies(cluster):
    items = cluster.get(f"/apis/networking.k8s.io/v1/namespaces/{SANDBOXES}/networkpolicies")["items"]
    return {item["metadata"]["name"]: item["spec"] for item in items}


def test_policies_are_the_backends_own(cluster, service):
    """Where they are missing they are made, if the values say so, and no others than those of the chart."""
    service.policies = policies(cluster)
    assert set(service.policies) == POLICIES
    service.install("sandboxes.networkPolicies=false", "sandboxes.ingressDomain=people.example.org")
    assert policies(cluster) == service.policies, "sandboxes would be without them"
    cluster.kubectl("delete", "networkpolicies", "--all", namespace=SANDBOXES)
    check_role(cluster, service)
    service.remove(service.new(network="none"))
    assert policies(cluster) == {name: service.policies[name] for name in ("tendon-hand", "tendon-none")}


# --- what the Role is for ---------------------------------------------------------------------------


def asked_of(cluster):
    """{"VERB RESOURCE": decisions} of all calls of the service in the namespace of the sandboxes, as the API server has noted them."""
    calls = {}
    for line in (cluster.base / "audit.log").read_text().splitlines():
        event = json.loads(line)
        what = event.get("objectRef", {})
        if what.get("namespace") == SANDBOXES and event["user"]["username"] == "system:serviceaccount:tendon:tendon":
            name = "/".join(filter(None, (what["resource"], what.get("subresource"))))
            calls.setdefault(f"{event['verb']} {name}", set()).add(event["annotations"]["authorization.k8s.io/decision"])
    return calls


# Granted for what this cluster is not, OpenShift and 1.35 or newer; and for what is not done here: removing a claim that somebody has cut
# off from its sandbox, the end of a start that does not get on, claims from a pool, pods whose addresses lead nowhere, snapshots.
ELSEWHERE = {"update secrets/finalizers", "create pods/exec"}
RARELY = {"list events", "patch secrets",
          *(f"{verb} persistentvolumeclaims" for verb in ("list", "watch", "delete")),
          *(f"{verb} pods/proxy" for verb in ("get", "create", "update", "delete")),
          *(f"{verb} volumesnapshots" for verb in ("get", "list", "watch", "create", "delete"))}  # fmt: skip


@pytest.mark.timeout(400)
def test_every_verb_is_used(cluster, service):
    """What a sandbox may be asked for, with the Role of the chart: nothing is refused, and nothing of the Role was not needed."""
    if not service.policies:  # it runs alone
        test_policies_are_the_backends_own(cluster, service)
    box = service.new(network="open", ports=[5000])
    for verb in ("stop", "resume"):
        status, answer = service.call("POST", f"/v1/sandboxes/{box}/{verb}")
        assert status == 200, answer
    for what in ("logs", "usage"):
        status, answer = service.call("GET", f"/v1/sandboxes/{box}/{what}")
        assert status == 200, answer
    for _ in range(2):  # the second finds what the first has made
        (port,) = json.loads(service.inside("tendon", "--json", "port", box))
    assert port == {"port": 5000, "url": port["url"]} and port["url"].endswith(".people.example.org"), port
    service.call("PUT", f"/v1/sandboxes/{box}/files?path=/workspace/file")
    service.call("DELETE", f"/v1/sandboxes/{box}/files?path=/workspace/file")
    status, bad = service.call("POST", "/v1/sandboxes", {"image": "missing.example.org/none:1"})
    assert status == 201 and bad["state"] == "error" and "missing.example.org" in bad["reason"], bad
    for one in (bad["id"], box):
        service.remove(one)
    assert policies(cluster) == service.policies
    asked, role = asked_of(cluster), role_of(cluster)
    assert {call: how for call, how in asked.items() if how != {"allow"}} == {}
    assert role - set(asked) - RARELY == ELSEWHERE
    assert set(asked) <= role


# --- beside it --------------------------------------------------------------------------------------

# Of the Prometheus operator: the members of a ServiceMonitor that its page names and the chart uses.
TEXT = {"type": "string"}


def closed(**members):
    return {"type": "object", "properties": members}


MONITOR = closed(
    selector=closed(matchLabels={"type": "object", "additionalProperties": TEXT}),
    endpoints={"type": "array", "items": closed(
        port=TEXT, path=TEXT, interval=TEXT, authorization=closed(type=TEXT, credentials=closed(name=TEXT, key=TEXT)))},
)  # fmt: skip
MONITORS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"},
             "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": closed(spec=MONITOR)}}]},
}  # fmt: skip


SERVER = (
    "use IO::Socket; $s = IO::Socket::INET->new(LocalPort => 5000, Listen => 5, ReuseAddr => 1);"
    'while ($c = $s->accept) { <$c>; print $c "HTTP/1.0 200 OK\\r\\n\\r\\ninside\\n"; close $c }'
)


def curl(cluster, service, host, target, *headers):
    """What a controller's request gets: sent to an address of the Service's endpoints, for one of the names. With the answer's head."""
    slices = cluster.get("/apis/discovery.k8s.io/v1/namespaces/tendon/endpointslices?labelSelector=kubernetes.io/service-name=tendon")["items"]
    (where,) = {(a, p["port"]) for s in slices for e in s["endpoints"] if e["conditions"]["ready"] for a in e["addresses"] for p in s["ports"]}
    lines = [word for header in (f"Host: {host}", *headers) for word in ("--header", header)]
    return cluster.inside("curl", "--silent", "--include", *lines, f"http://{where[0]}:{where[1]}{target}").stdout


def test_ingress_and_monitor(cluster, service):
    """Both are accepted as they are; the monitor's key reads the numbers, and the Ingress's names are answered by the service they lead to."""
    cluster.kubectl("apply", "--filename=-", input=json.dumps(MONITORS))
    cluster.kubectl("wait", "--for=condition=Established", "customresourcedefinition", MONITORS["metadata"]["name"])
    service.install("serviceMonitor.enabled=true", "url=https://tendon.example.org", "previewDomain=preview.example.org", "ingress.enabled=true",
                    "ingress.className=nginx", "ingress.tlsSecret=both")  # fmt: skip
    monitor = cluster.get("/apis/monitoring.coreos.com/v1/namespaces/tendon/servicemonitors/tendon")["spec"]
    assert monitor == yaml.safe_load(render(service.helm, "serviceMonitor.enabled=true").partition("kind: ServiceMonitor")[2].partition("spec:")[2])
    key = json.loads(service.inside("tendon", "--json", "key", "create", "prometheus", "--scope", "metrics"))["key"]
    (endpoint,) = monitor["endpoints"]
    assert "tendon_" in curl(cluster, service, "tendon.tendon.svc", endpoint["path"], f"Authorization: Bearer {key}")
    ingress = cluster.get("/apis/networking.k8s.io/v1/namespaces/tendon/ingresses/tendon")["spec"]
    names = ["tendon.example.org", "*.preview.example.org"]
    assert [rule["host"] for rule in ingress["rules"]] == names and ingress["tls"] == [{"hosts": names, "secretName": "both"}]
    assert "200 OK" in curl(cluster, service, "tendon.example.org", "/healthz")
    box = service.new(ports=[5000])
    service.runs(box, f"perl -e '{SERVER}' &")
    status, link = service.call("POST", f"/v1/sandboxes/{box}/ports/5000")
    assert status == 201, link
    url = urllib.parse.urlsplit(link["link"])
    assert url.hostname.endswith(".preview.example.org")
    head = curl(cluster, service, url.hostname, f"{url.path}?{url.query}")
    cookie = re.search(r"(?i)^set-cookie: ([^;]+)", head, re.MULTILINE)[1]
    wait_until(lambda: curl(cluster, service, url.hostname, "/", f"Cookie: {cookie}").endswith("inside\n"), 20, "the port answers")
    service.remove(box)


def test_uninstalled(cluster, service):
    """What the chart made goes, but for the state and the sandboxes, which another installation finds; then all of it."""
    box = service.new()
    service.runs(box, "cd /tmp; kept=yes")
    uid = pod_of(cluster, box)["metadata"]["uid"]
    service.run_helm("uninstall", "tendon", "--wait")
    left = "deployments,services,serviceaccounts,networkpolicies,ingresses,roles,rolebindings,resourcequotas,limitranges,persistentvolumeclaims"
    names = lambda where: set(cluster.kubectl("get", left, "--output=name", namespace=where).split())  # noqa: E731
    assert names("tendon") == {"serviceaccount/default", "persistentvolumeclaim/tendon"}
    assert names(SANDBOXES) == {"serviceaccount/default", f"persistentvolumeclaim/openhands-runtime-{box}-pvc",
                                *(f"networkpolicy.networking.k8s.io/{name}" for name in POLICIES)}  # fmt: skip
    assert "tendon" not in cluster.kubectl("get", "clusterroles,clusterrolebindings", "--output=name")
    service.install("sandboxes.keep=false")
    assert service.runs(box, 'echo "$kept $PWD"') == "yes /tmp" and pod_of(cluster, box)["metadata"]["uid"] == uid
    service.run_helm("uninstall", "tendon", "--wait")
    wait_until(lambda: cluster.call("GET", f"/api/v1/namespaces/{SANDBOXES}")[0] == 404, 120, "the namespace and its sandboxes are gone")

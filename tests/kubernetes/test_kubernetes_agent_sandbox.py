"""Sandboxes that are objects of agent-sandbox, with its own controller: Sandboxes, and claims from an operator's warm pool."""

import concurrent.futures
import json
import subprocess

import pytest
import yaml

from conformance import Refusal, wait_until
from kube_world import KubeWorld, built_or_skip
from trees import BUILD, program

CORE, MORE = "apis/agents.x-k8s.io/v1beta1", "apis/extensions.agents.x-k8s.io/v1beta1"
KINDS = (f"{CORE}/sandboxes", f"{MORE}/sandboxclaims")
TEMPLATE = {
    "networkPolicyManagement": "Unmanaged",
    "podTemplate": {"metadata": {"labels": {"tendon.dev/network": "open"}}, "spec": {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [{"name": "runtime", "image": "box:1", "command": ["sleep", "2147483647"], "env": [{"name": "MINE", "value": "no"}],
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                        "volumeMounts": [{"name": "workspace", "mountPath": "/workspace"}]}],
        "volumes": [{"name": "workspace", "emptyDir": {}}],
    }},
}  # fmt: skip


ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "theirs"},
    "rules": [
        {"apiGroups": ["agents.x-k8s.io"], "resources": ["sandboxes"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": ["extensions.agents.x-k8s.io"], "resources": ["sandboxclaims"], "verbs": ["get", "list", "watch", "create", "delete"]},
    ],
}  # fmt: skip


class Theirs(KubeWorld):
    """With the rights of the chart's values, no more, for the objects of agent-sandbox."""

    def __init__(self, cluster, namespace, hand, **settings):
        super().__init__(cluster, namespace, hand)
        self.settings |= {f"kubernetes.{name}": value for name, value in settings.items()}
        cluster.kubectl("create", "--filename=-", namespace=namespace, input=json.dumps(ROLE))
        for name in ("clusterrole=admin", "role=theirs"):
            cluster.kubectl("create", "rolebinding", name.replace("=", "-"), f"--{name}", "--user=tendon", namespace=namespace)
        self.as_user("tendon")

    def census(self):
        return super().census() | {kind: self.names(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def controller(cluster):
    """The CRDs as they are published, but for the conversion of older versions, which would be a Service here, and no Service is reached."""
    base = built_or_skip("agent-sandbox")
    files = subprocess.run(["sh", "-c", f"ls {base}/crds/*.yaml"], capture_output=True, text=True, check=True).stdout.split()
    names = []
    for path in files:
        with open(path) as file:
            crd = yaml.safe_load(file)
        crd["spec"]["conversion"] = {"strategy": "None"}
        names.append(f"crd/{crd['metadata']['name']}")
        cluster.kubectl("create", "--filename=-", input=json.dumps(crd))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    cluster.run_program("agent-sandbox", "env", f"KUBECONFIG={cluster.base}/inside-admin-default.config", f"{base}/agent-sandbox-controller",
                        "--extensions", "--leader-elect=false", "--enable-webhook=false", "--metrics-bind-address=127.0.0.1:18080",
                        "--health-probe-bind-address=127.0.0.1:18081")  # fmt: skip
    yield
    cluster.kill("agent-sandbox")
    cluster.kubectl("delete", *names, "--timeout=60s")


@pytest.fixture
def theirs(cluster, controller, static_hand):
    """theirs(SETTINGS): a world; nothing is left of what its sandboxes were."""
    worlds = []

    def make(**settings):
        world = Theirs(cluster, cluster.make_namespace(), static_hand, **settings)
        worlds.append((world, world.census()))
        return world

    yield make
    for world, before in worlds:
        world.finish()
        for kind in ("sandboxwarmpools", "sandboxtemplates"):
            cluster.must("DELETE", f"/{MORE}/namespaces/{world.namespace}/{kind}")
        wait_until(lambda world=world, before=before: world.census() == before, 30, "all is as before")
        cluster.drop_namespace(world.namespace)


def isolation(box):
    found = box("inspect")["isolation"]
    return json.loads(found) if isinstance(found, str) else found


def findings(world, **env):
    words = [program(BUILD, "tendon"), "doctor", "--json", "--runtime", "kubernetes"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**world.env, "KUBERNETES_NAMESPACE": world.namespace, **env})
    (found,) = json.loads(done.stdout)
    return {f["what"]: f for f in found["findings"]}


def pool(world, name, size, template=TEMPLATE):
    path = f"/{MORE}/namespaces/{world.namespace}"
    kind = {"apiVersion": MORE.removeprefix("apis/"), "metadata": {"name": name}}
    world.cluster.must("POST", f"{path}/sandboxtemplates", {**kind, "kind": "SandboxTemplate", "spec": template})
    world.cluster.must("POST", f"{path}/sandboxwarmpools", {**kind, "kind": "SandboxWarmPool", "spec": {"replicas": size, "sandboxTemplateRef": {"name": name}}})
    ready = lambda: world.cluster.get(f"{path}/sandboxwarmpools/{name}").get("status", {}).get("readyReplicas") == size  # noqa: E731
    wait_until(ready, 60, "the pool is full")


def test_without_them(world):
    """One sentence where they must be there; bare pods where they may."""
    world.settings["kubernetes.agent_sandbox"] = "always"
    box = world.new(world.open(), create=False)
    with pytest.raises(Refusal) as refusal:
        box.create()
    assert refusal.value.code == "unsupported" and "install agent-sandbox v0.5 or later" in refusal.value.text, refusal.value
    assert not world.names("secrets")
    world.settings["kubernetes.agent_sandbox"] = "auto"
    assert isolation(world.new(world.open()))["object"] == "Pod"
    found = findings(world, TENDON_KUBERNETES_AGENT_SANDBOX="always")["agent-sandbox"]
    assert found["needed"] and not found["good"] and "is not installed" in found["detail"], found


@pytest.mark.slow
def test_a_sandbox_is_theirs(theirs):
    """Created, used, stopped and brought back with its files, and gone; its pod is owned by the Sandbox, and by nothing of ours."""
    world = theirs(agent_sandbox="always")
    driver = world.open()
    box = world.new(driver)
    name = f"openhands-runtime-{box.id}"
    owner = world.pod(box)["metadata"]["ownerReferences"]
    assert [o["kind"] for o in owner] == ["Sandbox"] and isolation(box)["object"] == "Sandbox"
    assert [(verb, kind) for verb, kind, _ in world.cluster.writes(world.namespace) if kind != "networkpolicies"] == [
        ("create", "secrets"), ("create", "persistentvolumeclaims"), ("create", "sandboxes")]  # fmt: skip
    box.ok("echo kept >file; echo gone >/tmp/file")
    assert box.drive("stopped") == "stopped" and box.status() == "stopped" and not world.names("pods")
    sandbox = world.cluster.get(f"/{CORE}/namespaces/{world.namespace}/sandboxes/{name}")
    assert sandbox["spec"]["operatingMode"] == "Suspended"
    assert box.drive("running") == "running"
    assert box.ok("cat file; ls /tmp/file || true").split()[0] == "kept"
    assert isolation(box)["object"] == "Sandbox"
    box.drive("gone")
    assert not world.names("secrets") and not world.names(KINDS[0]) and not world.names("pods")


@pytest.mark.slow
def test_a_pod_that_is_deleted_is_another(theirs):
    """Its controller makes a new one at once: that is no sandbox that was used, and resume makes it one."""
    world = theirs(agent_sandbox="auto")
    box = world.new(world.open())
    box.ok("echo kept >file")
    world.cluster.kubectl("delete", "pod", f"openhands-runtime-{box.id}", namespace=world.namespace)
    assert box.status() == "error"
    assert box.drive("running") == "running" and box.ok("cat file").strip() == "kept"


@pytest.mark.slow
def test_what_is_refused_is_told(theirs):
    world = theirs(agent_sandbox="always")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
    world.cluster.kubectl("create", "--filename=-", namespace=world.namespace, input=json.dumps(quota))
    path = f"/api/v1/namespaces/{world.namespace}/resourcequotas/few"
    wait_until(lambda: world.cluster.get(path).get("status", {}).get("used"), what="the quota counts")
    box = world.new(world.open(), create=False)
    with pytest.raises(Refusal) as refusal:
        box.create()
    assert "exceeded quota" in refusal.value.text, refusal.value


@pytest.mark.slow
def test_claims_from_a_warm_pool(theirs):
    world = theirs(agent_sandbox="always", sandbox_pool="boxes")
    world.settings["sandbox.base_container_image"] = "box:1"
    pool(world, "boxes", 3)
    before = world.names("pods")
    boxes = [world.new(world.open(), create=False, env={"MINE": "it's $HOME", "other": "\n2"}) for _ in range(2)]
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        list(both.map(lambda box: box.create(), boxes))
    pods = [world.pod(box)["metadata"] for box in boxes]
    assert len({pod["name"] for pod in pods}) == 2 and {pod["name"] for pod in pods} <= before, "two claimers, two pods that waited"
    for box, pod in zip(boxes, pods, strict=True):
        assert isolation(box)["object"] == "SandboxClaim" and pod["labels"]["tendon.dev/network"] == "open"
        assert box.ok('echo "$MINE"; hostname').split("\n")[:2] == ["it's $HOME", pod["name"]]
        made = [(verb, kind) for verb, kind, name in world.cluster.writes(world.namespace) if name and (box.id in name or name == pod["name"])]
        assert made == [("create", "secrets"), ("create", "sandboxclaims"), ("patch", "pods")], made
    other = boxes[0].seen_by(world.open())
    assert other.status() == "running" and other.ok("echo again").strip() == "again"
    with pytest.raises(Refusal) as refusal:
        boxes[0].drive("stopped")
    assert refusal.value.code == "unsupported"
    cold = world.new(world.open(), memory="64m")  # the pool's pods have what their template says
    walled = world.new(world.open(), network="none")
    assert isolation(cold)["object"] == isolation(walled)["object"] == "Sandbox"
    for box in (*boxes, cold, walled):
        box.drive("gone")
    wait_until(lambda: not world.names(KINDS[1]) and not {pod["name"] for pod in pods} & world.names("pods"), 30, "claims and their pods are gone")
    assert not world.names("secrets")


@pytest.mark.slow
def test_pods_of_a_pool_that_are_not_taken(theirs):
    """Neither one without the policies of its network since it began, nor one that is a sandbox already."""
    bare = {**TEMPLATE, "podTemplate": {"spec": TEMPLATE["podTemplate"]["spec"]}}
    world = theirs(agent_sandbox="always", sandbox_pool="bare")
    world.settings["sandbox.base_container_image"] = "box:1"
    marks = {"tendon.dev/id": "a" * 10, "tendon.dev/state": "another"}
    taken = {**TEMPLATE, "podTemplate": {**TEMPLATE["podTemplate"], "metadata": {"labels": {"tendon.dev/network": "open", **marks}}}}
    for name, template, words in (("bare", bare, "have no label tendon.dev/network: open"), ("taken", taken, "another sandbox already")):
        world.settings["kubernetes.sandbox_pool"] = name
        pool(world, name, 1, template)
        box = world.new(world.open(), create=False)
        with pytest.raises(Refusal) as refusal:
            box.create()
        assert words in refusal.value.text, refusal.value
        assert "patch" not in {verb for verb, kind, _ in world.cluster.writes(world.namespace) if kind == "pods"}
        box.drive("gone")


@pytest.mark.slow
def test_a_pool_that_is_not_there(theirs):
    world = theirs(agent_sandbox="always", sandbox_pool="missing")
    world.settings["sandbox.base_container_image"] = "box:1"
    box = world.new(world.open(), create=False)
    with pytest.raises(Refusal) as refusal:
        box.create()
    assert 'SandboxWarmPool "missing" not found' in refusal.value.text, refusal.value


@pytest.mark.slow
def test_doctor(theirs):
    world = theirs(agent_sandbox="always")
    always = {"TENDON_KUBERNETES_AGENT_SANDBOX": "always", "TENDON_KUBERNETES_SANDBOX_POOL": "boxes"}
    found = findings(world, **always)
    assert found["agent-sandbox"]["good"] and "agents.x-k8s.io/v1beta1" in found["agent-sandbox"]["detail"], found["agent-sandbox"]
    assert found["create sandboxes"]["good"] and found["create sandboxclaims"]["good"] and found["patch pods"]["good"]
    world.as_user("nobody")
    assert not findings(world, **always)["create sandboxes"]["good"]
    assert "not used" in findings(world)["agent-sandbox"]["detail"]

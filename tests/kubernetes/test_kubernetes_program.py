"""tendon itself on a cluster: made, used and removed; killed in the middle, and cleaned up after."""

import json
import pathlib
import re
import signal
import subprocess

import pytest

from conformance import Refusal, wait_until
from kube_world import KINDS


@pytest.fixture
def tendon(world, tendon_program, static_hand):
    """tendon(*words, ...) runs it; tendon.start(*words) leaves it running."""

    class Tendon:
        env = {**world.env, "TENDON_STATE": str(world.base / "program"), "TENDON_RUNTIME": "kubernetes",
               "TENDON_HAND_PROGRAM": str(static_hand), "KUBERNETES_NAMESPACE": world.namespace,
               "KUBERNETES_PVC_STORAGE_CLASS": "tests",
               "KUBERNETES_RESOURCE_CPU_REQUEST": "10m", "KUBERNETES_RESOURCE_MEMORY_REQUEST": "16Mi"}  # fmt: skip
        box = ("--image", "box:1", "--hand-arg=--shell", "--hand-arg=sh")

        def start(self, *words):
            return subprocess.Popen([tendon_program, *words], env=self.env, cwd=world.cwd, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip

        def __call__(self, *words):
            with self.start(*words) as process:
                out, err = process.communicate(timeout=120)
            assert process.returncode == 0, (words, out, err)
            self.said = err
            return out

        def notes(self, *words):
            """What it says beside its output."""
            self(*words)
            return self.said

    return Tendon()


def test_a_sandbox_from_beginning_to_end(world, tendon):
    before = world.census()
    tendon("new", "--name", "one", *tendon.box)
    assert tendon("exec", "one", "--", "echo", "inside").strip() == "inside"
    tendon("stop", "one")
    assert world.names("pods") == before["pods"]
    tendon("resume", "one")
    tendon("rm", "one")
    assert world.census() == before


def test_ports_have_the_name_of_a_service(world, tendon):
    """Without a domain for people the cluster's own name of a port is told, and leads to the pod."""
    before = world.census()
    tendon("new", "--name", "web", "--port", "3000", *tendon.box)
    with tendon.start("--json", "open", "web") as process:  # forwards, and makes nothing for that
        assert json.loads(process.stdout.readline())["url"].startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
    assert world.census()["services"] == before["services"]
    (port,) = json.loads(tendon("--json", "port", "web"))
    name, number = re.fullmatch(rf"http://([^.]+)\.{world.namespace}\.svc:(\d+)", port["url"]).groups()
    assert number == "3000" and "inside of the cluster alone" in tendon.notes("port", "web")
    assert world.names("services") == before["services"] | {name} and not world.names(KINDS[-1])
    path = f"/apis/discovery.k8s.io/v1/namespaces/{world.namespace}/endpointslices?labelSelector=kubernetes.io/service-name={name}"
    (pod,) = [one for one in world.cluster.get(f"/api/v1/namespaces/{world.namespace}/pods")["items"]]

    def led():
        return [address for one in world.cluster.get(path)["items"] for end in one["endpoints"] or () for address in end["addresses"]]

    wait_until(lambda: led() == [pod["status"]["podIP"]], 60, "the Service leads to the pod")
    tendon("rm", "web")
    wait_until(lambda: world.census() == before, 60, "the Service goes with its sandbox")


def test_open_takes_an_address_that_browsers_reach(world, tendon):
    """With a domain for people it is the Ingress, which is made for that."""
    before = world.census()
    tendon.env["KUBERNETES_INGRESS_DOMAIN"] = "people.example.org"
    tendon("new", "--name", "web", "--port", "3000", *tendon.box)
    url = json.loads(tendon("--json", "open", "web"))["url"]
    assert re.fullmatch(r"http://3000-[a-z0-9]+\.people\.example\.org/", url) and len(world.names(KINDS[-1])) == 1, url
    tendon("rm", "web")
    wait_until(lambda: world.census() == before, 60, "both go with it")


def test_a_cluster_that_is_not_checked_is_told_loudly(world, tendon):
    config = json.loads(pathlib.Path(tendon.env["KUBECONFIG"]).read_text())
    assert "INSECURE" not in tendon.notes("new", "--name", "one", *tendon.box)
    for one in config["clusters"]:
        one["cluster"].pop("certificate-authority", None)
        one["cluster"].pop("certificate-authority-data", None)
        one["cluster"]["insecure-skip-tls-verify"] = True
    careless = world.base / "careless.config"
    careless.write_text(json.dumps(config))
    tendon.env = {**tendon.env, "KUBECONFIG": str(careless)}
    assert tendon.notes("exec", "one", "--", "true").count("INSECURE") == 1
    tendon("rm", "one")


@pytest.mark.parametrize("when", ["secrets", "pods"])
def test_killed_in_the_middle_of_a_create(world, tendon, when):
    """gc finds what nobody noted, and touches nothing of others."""
    labels = {"app": "openhands-runtime", "session": "other00001", "tendon.dev/id": "other00001", "tendon.dev/state": "other"}
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "openhands-runtime-other00001-key", "labels": labels}}
    world.cluster.call("POST", f"/api/v1/namespaces/{world.namespace}/secrets", theirs)
    before = world.census()
    process = tendon.start("new", "--name", "one", *tendon.box)
    wait_until(lambda: world.names(when) != before[when], 60, "it has begun")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    tendon("gc")
    assert world.census() == before
    world.cluster.kubectl("delete", "secret", theirs["metadata"]["name"], namespace=world.namespace)


def test_no_pod_is_root_where_that_is_set(world, tendon):
    """Nor does one that was before start again, though the namespace admits it."""
    before = world.census()
    tendon("new", "--name", "one", "--user", "root", *tendon.box)
    assert tendon("exec", "one", "--", "id", "-u").strip() == "0"
    tendon("stop", "one")
    tendon.env["TENDON_KUBERNETES_RESTRICTED"] = "true"
    for words in (["resume", "one"], ["new", "--user", "root", *tendon.box]):
        with tendon.start(*words) as process:
            said = process.communicate(timeout=120)[1]
        assert process.returncode and "kubernetes.restricted" in said, said
    assert world.names("pods") == before["pods"]
    tendon("rm", "one")
    assert world.census() == before


def test_doctor_tries_the_hands_image(world, tendon):
    """What it finds is what a sandbox would; it leaves nothing. Without --runtime it makes nothing at all."""
    def findings(*words):
        process = tendon.start("doctor", "--json", *words)
        with process:
            out, err = process.communicate(timeout=120)
        assert process.returncode == 1 - ("--runtime" not in words), (out, err)
        (found,) = [one for one in json.loads(out) if one["runtime"] == "kubernetes"]
        return {f["what"]: f for f in found["findings"]}

    tendon.env = {**tendon.env, "TENDON_KUBERNETES_HAND_IMAGE": "missing.invalid/hand:1"}
    before = world.census()
    hand = findings("--runtime", "kubernetes")["hand"]
    assert hand["needed"] and not hand["good"] and "missing.invalid/hand:1" in hand["detail"], hand
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
    world.cluster.kubectl("create", "--filename=-", namespace=world.namespace, input=json.dumps(quota))
    wait_until(lambda: not findings()["quota"]["good"], 30, "the quota is counted")
    found = findings("--runtime", "kubernetes")
    assert found["quota"]["detail"] == "0 of 0 pods" and "exceeded quota" in found["hand"]["detail"], found
    assert world.census() == before


def test_logs_of_a_container_that_was_restarted(world, driver, box):
    """Our pods are not; one that others have changed may be. What the first one said is told before the second's words."""
    name = f"/api/v1/namespaces/{world.namespace}/pods/openhands-runtime-{box.id}"
    pod = world.pod(box)
    for member in ("uid", "resourceVersion", "creationTimestamp"):
        del pod["metadata"][member]
    del pod["status"]
    world.cluster.must("DELETE", name)
    wait_until(lambda: world.cluster.call("GET", name)[0] == 404, 60, "its pod is gone")
    pod["spec"]["restartPolicy"] = "Always"
    count = "cd /.tendon; echo >>count; echo run $(wc -l <count); [ $(wc -l <count) -eq 2 ] && exec sleep 1000"
    pod["spec"]["containers"][0].update(command=["sh", "-c", count], readinessProbe=None)
    world.cluster.must("POST", name.rpartition("/")[0], pod)
    # The second one speaks before the pod's status has told that the first one ended.
    wait_until(lambda: box.driver.ask("logs", id=box.id).get("output") == "run 1\nrun 2\n", 60, "both have spoken")


def test_the_hands_image_as_a_volume_where_clusters_have_none(world):
    """Told by the API server; nothing waits for a time-out. Where they have: test_kubernetes_node.py."""
    world.settings.update({"kubernetes.hand_image": "hand:1", "kubernetes.hand_volume": "image"})
    with pytest.raises(Refusal) as refusal:
        world.new(world.open())
    assert refusal.value.code == "unsupported" and "kubernetes.hand_volume" in refusal.value.text, refusal.value


def test_a_runtime_class_is_what_its_handler_says(cluster, world):
    """One that its handler names as something else is refused before anything is made; the node knows `walled` alone of these."""
    for name, handler in (("test-walled", "walled"), ("test-kata", "kata-qemu"), ("test-plain", "runc")):
        thing = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler}
        cluster.kubectl("apply", "--filename=-", input=json.dumps(thing))
    before = world.census()
    world.settings.update({"kubernetes.runtime_class_gvisor": "test-kata", "kubernetes.runtime_class_kata": "test-plain"})
    driver = world.open()
    for isolation, said in (("gvisor", "handled by kata-qemu, which gives isolation kata"), ("kata", "handled by runc, which gives isolation native")):
        with pytest.raises(Refusal) as refusal:
            world.new(driver, isolation=isolation)
        assert refusal.value.code == "unsupported" and said in refusal.value.text, refusal.value
    assert world.census() == before
    world.settings["kubernetes.runtime_class_kata"] = "test-walled"
    box = world.new(world.open(), isolation="kata")
    told = box("inspect")["isolation"]
    assert (told["runtime_class"], told["runtime_handler"], told["kata"], told["gvisor"]) == ("test-walled", "walled", True, False), told
    cluster.kubectl("delete", "runtimeclass", "test-walled", "test-kata", "test-plain")

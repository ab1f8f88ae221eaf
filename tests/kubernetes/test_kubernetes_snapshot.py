"""Snapshots and forks of workspaces by VolumeSnapshots: refused where a cluster has none, else by a real CSI driver."""

import json

import pytest

from conformance import Refusal, wait_until
from kube_world import built_or_skip

DRIVER, SOCKET = "hostpath.csi.k8s.io", "/run/csi.sock"
OBJECTS = [
    {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
     "spec": {"attachRequired": False, "podInfoOnMount": True, "fsGroupPolicy": "File", "volumeLifecycleModes": ["Persistent"]}},
    {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "csi"}, "provisioner": DRIVER},
    {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "driver": DRIVER, "deletionPolicy": "Delete",
     "metadata": {"name": "csi", "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"}}},
]  # fmt: skip


def test_refused_without_a_class(driver, box):
    for verb, members in (("snapshot", {"name": "first"}), ("fork", {"child": box.id})):
        with pytest.raises(Refusal) as refusal:
            box(verb, **members)
        assert refusal.value.code == "unsupported" and "VolumeSnapshotClass" in refusal.value.text, refusal.value
    with pytest.raises(Refusal) as refusal:
        box("rollback", name="first")
    assert refusal.value.code == "not_found", refusal.value
    box("forget", name="first")


@pytest.fixture(scope="module")
def csi(cluster):
    """A driver whose volumes are directories of the node, and what makes volumes and snapshots by it."""
    base = built_or_skip("csi")
    cluster.kubectl("apply", f"--filename={base}/crds")
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"--filename={base}/crds")
    for thing in OBJECTS:
        cluster.kubectl("apply", "--filename=-", input=json.dumps(thing))
    config = f"--kubeconfig={cluster.base}/inside-admin-default.config"
    registry = "/var/lib/kubelet/plugins_registry/hostpath-reg.sock"
    parts = {
        "hostpathplugin": [f"--endpoint=unix://{SOCKET}", "--nodeid=node", f"--drivername={DRIVER}", "--statedir=/var/lib/csi", "--enable-topology=false"],
        "registrar": [DRIVER, SOCKET, registry],
        "csi-provisioner": [config, f"--csi-address={SOCKET}"],
        "csi-snapshotter": [config, f"--csi-address={SOCKET}"],
        "snapshot-controller": [config],
    }
    for name, words in parts.items():
        cluster.run_program(name, f"{base}/{name}", *words)
    registered = "/apis/storage.k8s.io/v1/csinodes/node"
    wait_until(lambda: (cluster.get(registered).get("spec") or {}).get("drivers"), 60, "the kubelet knows the driver")
    yield
    for name in parts:
        cluster.kill(name)
    cluster.inside("rm", "-f", registry)
    for thing in OBJECTS:
        cluster.kubectl("delete", thing["kind"], thing["metadata"]["name"])
    cluster.kubectl("delete", f"--filename={base}/crds")


@pytest.mark.slow
def test_snapshots_and_forks(cluster, csi, world):
    world.settings["kubernetes.pvc_storage_class"] = "csi"

    def snapshots():
        return world.names("apis/snapshot.storage.k8s.io/v1/volumesnapshots")

    def fork(name=None):
        child = world.new(driver, create=False)
        box("fork", name=name, child=child.id, timeout=120)
        return child

    driver = world.open()
    box = world.new(driver)
    box.ok("echo one >file")
    # First, since this driver knows one snapshot of a volume at a time.
    child = fork()
    assert child.ok("cat file; ls").split() == ["one", "file"] and not snapshots(), "the source of a fork of now is not kept"
    child.drive("gone")

    box("snapshot", name="First_1", timeout=120)
    box.ok("echo two >file; echo more >other")
    assert len(snapshots()) == 1
    assert fork("First_1").ok("cat file; ls").split() == ["one", "file"]

    assert box("rollback", name="First_1", timeout=120)["status"] == "running"
    assert box.ok("cat file; ls").split() == ["one", "file"]
    box.ok("echo three >file")
    assert box.drive("stopped") == "stopped" and box.drive("running") == "running"
    assert box.ok("cat file").strip() == "three"

    box("forget", name="First_1")
    assert not snapshots()
    with pytest.raises(Refusal) as refusal:
        box("rollback", name="First_1")
    assert refusal.value.code == "not_found" and box.ok("cat file").strip() == "three"

    box("snapshot", name="last", timeout=120)
    box.drive("gone")
    wait_until(lambda: not snapshots(), 60, "its snapshots go with a sandbox")

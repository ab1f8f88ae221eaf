"""Sandboxes of the kubernetes backend in the tests' cluster; see tests/runtime/conformance.py."""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "docker"), str(TESTS / "runtime")]

from archive import write_image  # noqa: E402
from cluster import Cluster, built, why_not  # noqa: E402
from conformance import Driver, Sandbox, World  # noqa: E402
from images import debian_tar  # noqa: E402

KINDS = ("pods", "secrets", "persistentvolumeclaims", "services", "configmaps", "apis/networking.k8s.io/v1/networkpolicies",
         "apis/networking.k8s.io/v1/ingresses")  # fmt: skip
POLICIES = {"tendon-none", "tendon-open", "tendon-hand", "tendon-people"}


def run_cluster(*kind):
    """For a fixture: a cluster while it is used, or a skip."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    try:
        cluster = Cluster(*kind)
    except LookupError as missing:
        pytest.skip(str(missing))
    yield cluster
    cluster.stop()


def built_or_skip(tool):
    try:
        return built(tool)
    except LookupError as missing:
        pytest.skip(str(missing))


def load_debian(cluster):
    cluster.load(write_image(cluster.base / "debian.tar", "debian:1", debian_tar(), command=["/bin/bash"]))
    return "debian:1"


class KubeWorld(World):
    sizes = ("memory", "cpus", "disk", "wall_time")

    def __init__(self, cluster, namespace, hand, **spec):
        super().__init__("kubernetes")
        self.cluster, self.namespace, self.hand = cluster, namespace, hand
        self.spec = {"image": "box:1", "hand_args": ["--shell", "sh"], **spec}
        self.settings = {"kubernetes.namespace": namespace, "kubernetes.pvc_storage_class": "tests",
                         "kubernetes.resource_cpu_request": "10m", "kubernetes.resource_memory_request": "16Mi"}  # fmt: skip
        self.as_user("admin")

        self.made, self.removals, self.shared = [], [], None

    def new(self, *args, **kwargs):
        box = super().new(*args, **kwargs)
        self.made.append(box.id)
        return box

    def sweep(self, pool):
        """For a world of many tests: ends the drivers of one, and has the sandboxes removed while the next one goes on."""
        drivers, self.drivers = self.drivers, []
        for driver in drivers:
            driver.finish()
        ids, self.made = self.made, []
        self.removals += [pool.submit(self.remove, ids)] if ids else []

    def remove(self, ids):
        driver = Driver(self).open(self.runtime)
        for name in ids:
            if (self.state / "drive" / f"{name}.json").exists():
                Sandbox(driver, name).drive("gone")
        driver.finish()

    def finish(self):
        for removal in self.removals:
            removal.result(300)
        super().finish()

    def as_user(self, user):
        self.env["KUBECONFIG"] = str(self.cluster.kubeconfig("token", user, namespace=self.namespace))

    def left_over(self):
        return {}  # its processes are the cluster's

    def names(self, kind):
        api, _, name = kind.rpartition("/")
        items = self.cluster.get(f"/{api or 'api/v1'}/namespaces/{self.namespace}/{name}")["items"]
        return {item["metadata"]["name"] for item in items}

    def census(self):
        """Every object of the namespace that anybody could have made for a sandbox. The policies for all of them stay."""
        return {kind: self.names(kind) - (POLICIES if kind.endswith("policies") else set()) for kind in KINDS}

    def pod(self, box):
        """What the cluster says of the pod of a sandbox."""
        (found,) = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=tendon.dev/id={box.id}")["items"]
        return found

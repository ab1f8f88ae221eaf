#!/usr/bin/python3
"""Measures sandboxes as pods beside kubectl, and the API server's proxy beside HTTP straight to the pod, in the same run.

Starts the tests' cluster (tests/kubernetes/cluster.py); where that cannot be, nothing is measured. Everything runs in the
node's network. Exit status 1 when a bar is missed.
"""

import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{HERE}/../tests/kubernetes", f"{HERE}/../tests"]

from docker import bash_image, median  # noqa: E402
from results import Results, quantile  # noqa: E402

ROUNDS, ACTIONS = 9, 200
NODE = "https://10.99.0.1"


class Bench:
    def __init__(self, cluster, build):
        from archive import write_image

        self.cluster, self.build = cluster, build
        self.scratch = cluster.base / "bench"
        self.scratch.mkdir()
        config = cluster.kubeconfig("bench", server=NODE)
        self.env = {"KUBECONFIG": str(config), "HOME": str(self.scratch), "PATH": f"{build}:{cluster.programs}:{os.environ['PATH']}",
                    "TENDON_KUBERNETES_HAND_IMAGE": "example.org/hand:1", "KUBERNETES_PVC_STORAGE_CLASS": "tests", "KUBERNETES_NAMESPACE": "default",
                    "KUBERNETES_RESOURCE_CPU_REQUEST": "10m", "KUBERNETES_RESOURCE_MEMORY_REQUEST": "16Mi"}
        (self.scratch / "bash.tar").write_bytes(bash_image())
        cluster.load(write_image(self.scratch / "image.tar", "bench:1", self.scratch / "bash.tar"))
        self.run("tendon", "build", "--hand-image", "example.org/hand:1", "--output", self.scratch / "hand.tar")
        cluster.load(self.scratch / "hand.tar")

    def run(self, *words, **env):
        """A program on the node, and what it printed."""
        done = subprocess.run(self.cluster.enter("env", *(f"{k}={v}" for k, v in {**self.env, **env}.items()), *words),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
        return done.stdout

    def sandboxes(self, mode, count, **env):
        out = self.run(f"{self.build}/bench/sandboxes", mode, count, self.scratch / "state", "kubernetes", "bench:1", **env)
        return {line["what"]: line for line in map(json.loads, out.splitlines())}

    def manifest(self):
        """The objects of a sandbox, as somebody would have written them."""
        state = {"TENDON_STATE": self.scratch / "state"}
        self.run("tendon", "new", "--runtime", "kubernetes", "--image", "bench:1", "--name", "model", **state)
        objects = json.loads(self.run("kubectl", "get", "secrets,persistentvolumeclaims,pods", "--output=json"))["items"]
        self.run("tendon", "rm", "model", **state)
        for item in objects:
            item.pop("status", None)
            item["metadata"] = {"name": item["metadata"]["name"], "labels": {"bench": "kubectl"}}
            for name in ("nodeName", "volumeName"):
                item.get("spec", {}).pop(name, None)
        path = self.scratch / "model.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        pod = next(item["metadata"]["name"] for item in objects if item["kind"] == "Pod")
        return path, pod

    def kubectl(self, path, pod):
        """From apply to Ready, in ms."""
        began = time.monotonic()
        self.run("kubectl", "apply", "--filename", path)
        self.run("kubectl", "wait", "--for=condition=Ready", "--timeout=60s", f"pod/{pod}")
        took = (time.monotonic() - began) * 1000
        self.run("kubectl", "delete", "--filename", path, "--grace-period=1")
        return took


def measure(bench, results, rounds):
    path, pod = bench.manifest()
    theirs, ours = [], []
    for _ in range(rounds):  # they take turns, so that a machine with other work slows both
        theirs.append(bench.kubectl(path, pod))
        ours.append(bench.sandboxes("create", 1)["create"]["each"][0] / 1e6)
    theirs, ours = (quantile(sorted(times), 0.5) for times in (theirs, ours))
    results.add("kubectl apply of the same objects, wait for Ready, p50", theirs, "ms", "the reference", None)
    results.add("kubernetes: create to first observation, p50", ours, "ms", "at most 500 ms more", ours - theirs <= 500, ours / theirs)
    direct, proxied = [], []
    for _ in range(3):
        direct.append(median(bench.sandboxes("actions", ACTIONS, TENDON_KUBERNETES_REACH="pod")["true"]))
        proxied.append(median(bench.sandboxes("actions", ACTIONS, TENDON_KUBERNETES_REACH="proxy")["true"]))
    results.add("kubernetes: action, straight to the pod, p50", min(direct), "ms", "the reference", None)
    results.add("kubernetes: action, by the API server's proxy, p50", min(proxied), "ms", "at most 3 ms more",
                min(proxied) - min(direct) <= 3, min(proxied) / min(direct))


def measure_warm(bench, results):
    """Claims from a pool, one after the other."""
    lines = bench.sandboxes("warm", 5)
    first = [claim + use for claim, use in zip(lines["warm"]["each"], lines["warm, first command"]["each"])]
    warm = quantile(sorted(first), 0.5) / 1e6
    results.add("kubernetes: warm claim to first observation, p50", warm, "ms", "under 50", warm < 50)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    try:
        import cluster as clusters

        reason = clusters.why_not()
        if reason:
            raise LookupError(reason)
        cluster = clusters.Cluster()
    except (ImportError, LookupError) as missing:
        print(f"kubernetes: not measured: {missing}")
        return 0
    results = Results()
    try:
        bench = Bench(cluster, os.path.abspath(args.build))
        measure(bench, results, args.rounds)
        measure_warm(bench, results)
    finally:
        cluster.stop()
    return results.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())

"""Nodes that do not exist, for numbers that no machine of the tests could hold: pods that are placed on them are said to run at once
and are gone when they are told to go, as a kubelet would say it. Behind all of them is one web server, which answers `/alive`."""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import threading
import time

LABEL = "tests.invalid/fake"
PATCH = "application/merge-patch+json"
NETWORK = "10.97"


class FakeNodes:
    def __init__(self, cluster, count=20):
        self.cluster, self.names = cluster, [f"fake-{i}" for i in range(count)]
        self.ended = threading.Event()
        self.local = threading.local()
        self.addresses = itertools.count(256)
        self.pool = concurrent.futures.ThreadPoolExecutor(8)
        self.placed = set()
        cluster.inside("ip", "route", "add", "local", f"{NETWORK}.0.0/16", "dev", "lo")
        cluster.inside("sh", "-c", "mkdir -p /tmp/fake; echo '{\"status\": \"ok\"}' >/tmp/fake/alive")
        cluster.run_program("fake-hand", "busybox", "httpd", "-f", "-p", "8080", "-h", "/tmp/fake")
        for name in self.names:
            self.call("POST", "/api/v1/nodes", {
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {LABEL: "yes"}},
                "spec": {"taints": [{"key": LABEL, "value": "yes", "effect": "NoSchedule"}]},
            })  # fmt: skip
        self.beat()
        self.threads = [threading.Thread(target=self.follow, daemon=True), threading.Thread(target=self.keep_beating, daemon=True)]
        for thread in self.threads:
            thread.start()

    def call(self, method, path, body=None, kind="application/json"):
        for attempt in (1, 2):  # a kept connection may have ended
            if not hasattr(self.local, "connection"):
                self.local.connection = self.cluster.connection()
            try:
                headers = {"Authorization": f"Bearer {self.cluster.tokens['admin']}", "Content-Type": kind}
                self.local.connection.request(method, path, json.dumps(body) if body else None, headers)
                answer = self.local.connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                del self.local.connection
                if attempt == 2:
                    raise

    def beat(self):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for name in self.names:
            status = {"conditions": [{"type": "Ready", "status": "True", "reason": "Fake", "message": "", "lastHeartbeatTime": now, "lastTransitionTime": now}],
                      "allocatable": {"cpu": "1000", "memory": "4000Gi", "pods": "250"}, "capacity": {"cpu": "1000", "memory": "4000Gi", "pods": "250"}}  # fmt: skip
            self.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, PATCH)

    def keep_beating(self):
        while not self.ended.wait(10):
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.beat()

    def follow(self):
        while not self.ended.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError), contextlib.closing(self.cluster.connection(3600)) as connection:
                connection.request("GET", "/api/v1/pods?watch=1", headers={"Authorization": f"Bearer {self.cluster.tokens['admin']}"})
                for line in connection.getresponse():
                    event = json.loads(line)
                    pod = event["object"]
                    if event["type"] in ("ADDED", "MODIFIED") and pod["spec"].get("nodeName") in self.names:
                        self.see(pod)
                    if self.ended.is_set():
                        return

    def see(self, pod):
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        if "deletionTimestamp" in pod["metadata"]:
            self.pool.submit(self.call, "DELETE", path, {"gracePeriodSeconds": 0})
        elif pod["metadata"]["uid"] not in self.placed:
            self.placed.add(pod["metadata"]["uid"])
            self.pool.submit(self.call, "PATCH", f"{path}/status", {"status": self.running(pod)}, PATCH)

    def running(self, pod):
        number = next(self.addresses)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        address = f"{NETWORK}.{number // 256 % 256}.{number % 256}"
        containers = [{"name": c["name"], "image": c["image"], "imageID": "", "containerID": "fake://1", "ready": True, "started": True,
                       "restartCount": 0, "state": {"running": {"startedAt": now}}} for c in pod["spec"]["containers"]]  # fmt: skip
        return {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "startTime": now, "containerStatuses": containers,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}]}  # fmt: skip

    def stop(self):
        self.ended.set()
        self.pool.shutdown(wait=False, cancel_futures=True)
        for name in self.names:
            self.call("DELETE", f"/api/v1/nodes/{name}")
        self.cluster.kill("fake-hand")

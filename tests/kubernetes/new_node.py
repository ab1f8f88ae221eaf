"""A cluster whose node is newer (tools/node): containerd 2, which mounts images as volumes and has gVisor beside runc; and an API
server that asks metrics-server on behalf of others."""

import json
import time

from cluster import CONTAINERD, FAMILIES, KUBELET, Cluster, built

RUNTIMES = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes'
# As with runc: nothing can be protected from the memory killer without CAP_SYS_RESOURCE.
RUNSC = """#!/bin/sh
last=
for word; do
    [ "$last" != --bundle ] || bundle=$word
    last=$word
done
[ -z "${{bundle-}}" ] || sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/; s/"rlimits":\\[[^]]*\\],\\?//' "$bundle/config.json"
exec {runsc} "$@"
"""
METRICS = [
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics-server", "namespace": "kube-system"},
     "spec": {"ports": [{"port": 443, "targetPort": 4443}]}},
    {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
     "metadata": {"name": "metrics-server", "namespace": "kube-system", "labels": {"kubernetes.io/service-name": "metrics-server"}},
     "endpoints": [{"addresses": [FAMILIES["IPv4"][0][0]]}], "ports": [{"name": "", "port": 4443, "protocol": "TCP"}]},
    {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta1.metrics.k8s.io"},
     "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
              "insecureSkipTLSVerify": True, "service": {"name": "metrics-server", "namespace": "kube-system"}}},
]  # fmt: skip
GVISOR = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "gvisor"}, "handler": "runsc"}


class NewNode(Cluster):
    kubelet_config = {**KUBELET, "featureGates": {"ImageVolume": True}}
    server_options = (
        "--feature-gates=ImageVolume=true",
        "--enable-aggregator-routing=true",  # to the addresses themselves: nothing leads to those of Services
        "--requestheader-client-ca-file={tls}/ca.pem",
        "--requestheader-allowed-names=client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--proxy-client-cert-file={tls}/client.pem",
        "--proxy-client-key-file={tls}/client.key",
    )

    def __init__(self):
        self.node, self.runsc = built("node"), built("runsc")
        self.containerd = self.node / "containerd"
        runc = 'runtime_type = "io.containerd.runc.v2"'
        self.containerd_config = CONTAINERD.replace(runc, f'{runc}\nruntime_path = "{self.node}/containerd-shim-runc-v2"') + (
            f'{RUNTIMES}.runsc]\nruntime_type = "io.containerd.runsc.v1"\nruntime_path = "{self.node}/containerd-shim-runsc-v1"\n'
            f'{RUNTIMES}.runsc.options]\nTypeUrl = "io.containerd.runsc.v1.options"\nConfigPath = "{{base}}/runsc.toml"\n'
        )
        super().__init__()

    def write_files(self):
        super().write_files()
        (self.base / "runsc").write_text(RUNSC.format(runsc=self.runsc))
        (self.base / "runsc").chmod(0o755)
        (self.base / "runsc.toml").write_text(f'binary_name = "{self.base}/runsc"\n[runsc_config]\nplatform = "systrap"\nignore-cgroups = "true"\n')

    def apply(self, thing):
        self.kubectl("apply", "--filename=-", input=json.dumps(thing))

    def delete(self, thing):
        self.kubectl("delete", "--filename=-", input=json.dumps(thing))

    def start_metrics(self):
        config = self.base / "inside-admin-default.config"
        self.run_program(
            "metrics-server", self.node / "metrics-server", "--secure-port=4443", "--cert-dir=/tmp/metrics", "--kubelet-insecure-tls",
            "--kubelet-preferred-address-types=InternalIP", "--metric-resolution=10s", "--kubelet-request-timeout=5s",
            *(f"--{kind}kubeconfig={config}" for kind in ("", "authentication-", "authorization-")),
        )  # fmt: skip
        for thing in METRICS:
            self.apply(thing)
        there = "/apis/metrics.k8s.io/v1beta1/nodes"
        self.await_true(lambda: self.call("GET", there)[0] == 200, time.monotonic() + 60, "the metrics API is there")

    def stop_metrics(self):
        for thing in METRICS:
            self.delete(thing)
        self.kill("metrics-server")

#!/usr/bin/python3
"""A real Kubernetes cluster of one node, of the tests' own: the programs of tools/cluster, and containerd, runc and the CNI
plugins of the machine.

All of it lives in network, mount and process namespaces that end with the process that started it: no address, rule,
mount, kernel setting or file of the machine is touched. The API server is reached at a port of loopback outside.
Other pods have no names and no Services (there is no kube-proxy), only addresses; the Service `kubernetes` is there.

cluster.py --shell [VERSION [FAMILY]] starts one for development: prints the path of its kubeconfig, ends with its standard input."""

import contextlib
import copy
import glob
import http.client
import ipaddress
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path.append(str(TESTS))

from archive import write_image  # noqa: E402
from rooms import room  # noqa: E402

# What a node is called (not loopback's: it must have an address that it could tell others), the API server for pods, and where
# services and pods are.
FAMILIES = {
    "IPv4": [("10.99.0.1", "10.0.0.1", "10.0.0.0/24", "10.98.0.0/16")],
    "IPv6": [("fd99::1", "fd10::1", "fd10::/112", "fd98::/64")],
}
FAMILIES["both"] = FAMILIES["IPv4"] + FAMILIES["IPv6"]
NAMES = {4: "203.0.113.53", 6: "2001:db8:2::53"}  # there are such where a test has made an internet
EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
STORAGE_CLASS = "tests"
START = 120  # seconds; usually it takes ten
PROGRAMS = ("containerd", "ctr", "runc", "ip", "nsenter", "openssl", "setpriv", "unshare", "busybox", "/usr/lib/cni/bridge")

# What runs first in the namespaces, with the directory that is shared with the outside, that of the programs, and addresses. The kernel's settings that a kubelet
# insists on belong to the machine: it finds files with what it wants to see. Orphans need no burial.
INSIDE = """
set -e
mount --bind "$2" "$1/bin"
mount --rbind "$1" /mnt
for dir in /run /tmp /var/lib /var/log; do mount -t tmpfs -o mode=1755 tmpfs $dir; done
mkdir -p "$1" /tmp/sysctl
mount --move /mnt "$1"
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
        kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    name=/tmp/sysctl/$(echo ${pair%=*} | tr / .)
    echo ${pair#*=} >$name
    mount --bind $name /proc/sys/${pair%=*}
done
ip link set lo up
for address in $3; do ip addr add "$address" dev lo; done
echo 1 >/proc/sys/net/ipv4/ip_forward
mkdir /var/lib/volumes
trap '' CHLD
echo ready
exec cat
"""

# Root has not every capability everywhere: without CAP_SYS_RESOURCE nothing can be protected from the memory killer, nor have more
# files than its parent.
RUNC = """#!/bin/sh
for word; do
    [ "$word" != create ] || sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/; s/"rlimits":\\[[^]]*\\],\\?//' config.json
done
exec runc "$@"
"""

CONTAINERD = """
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/pause:1"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{base}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{base}/runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.walled]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.walled.options]
BinaryName = "{base}/runc"
"""

CNI = {
    "cniVersion": "0.3.1",
    "name": "tests",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {"type": "host-local"},
        }
    ],
}

KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": False,
    "containerRuntimeEndpoint": "unix:///run/containerd.sock",
    "enforceNodeAllocatable": [],
    "evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "failCgroupV1": False,
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
    "makeIPTablesUtilChains": False,
    "oomScoreAdj": 0,
    "registerNode": True,
    "resolvConf": "",
}

# Who changed what, and what one user and the service of deploy/ asked for.
SERVICE = "system:serviceaccount:tendon:tendon"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
        {"level": "Metadata", "users": ["tendon", SERVICE]},
        {"level": "None"},
    ],
}

# A file of tokens has who they are of. The first is an administrator, the others have what a test gives them.
USERS = {"admin": "system:masters", "tendon": "sandboxes", "nobody": "strangers"}

PLUGIN = """#!/bin/sh
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$TOKEN"
"""

# Takes connections of a socket that was made outside, and dials inside.
FORWARD = """
import asyncio, socket, sys
async def copy(source, sink):
    try:
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
        sink.write_eof()
    except OSError:
        sink.close()
async def take(reader, writer):
    try:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", 443)
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
    far_writer.close()
    writer.close()
async def main():
    await (await asyncio.start_server(take, sock=socket.socket(fileno=int(sys.argv[1])))).serve_forever()
asyncio.run(main())
"""


def family_of(address):
    return ipaddress.ip_address(address).version


def in_url(address):
    return f"[{address}]" if family_of(address) == 6 else address


def why_not():
    """Why no cluster can be started here; None: it can."""
    if os.getuid() != 0:
        return "needs root: starts a Kubernetes node"
    for program in PROGRAMS:
        if not shutil.which(program):
            return f"{program} is not installed"
    probe = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True, text=True)
    return f"no private namespaces here: {probe.stderr}" if probe.returncode != 0 else None


def built(tool, *words):
    """What tools/TOOL has built; raises LookupError with the reason why there is nothing."""
    found = subprocess.run([TESTS.parent / "tools" / tool, *words], capture_output=True, text=True, timeout=60)
    if found.returncode != 0:
        raise LookupError(found.stderr.strip())
    return pathlib.Path(found.stdout.strip())


def openssl(directory, *words):
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True, timeout=60)


def make_certificates(directory, addresses):
    """A CA, the API server's certificate, one of a client (an administrator), and the key that signs service accounts."""
    directory.mkdir()
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    signed = ["req", "-x509", "-CA", "ca.pem", "-CAkey", "ca.key", *key, "-addext", "basicConstraints=critical,CA:FALSE"]
    names = "subjectAltName=DNS:localhost,DNS:kubernetes.default.svc," + ",".join(f"IP:{a}" for a in ("127.0.0.1", "::1", *addresses))
    openssl(directory, "req", "-x509", *key, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(directory, *signed, "-subj", "/CN=server", "-addext", names, "-keyout", "server.key", "-out", "server.pem")
    openssl(directory, *signed, "-subj", "/O=system:masters/CN=client", "-addext", "extendedKeyUsage=clientAuth",
            "-keyout", "client.key", "-out", "client.pem")  # fmt: skip
    openssl(directory, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "accounts.key")
    openssl(directory, "ec", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")


class Cluster:
    """VERSION is one that tools/cluster makes; FAMILY says which addresses node, pods and services have: IPv4, IPv6 or both."""

    containerd = "containerd"  # and what follows: its settings, the kubelet's, and options of the API server
    containerd_config, kubelet_config, server_options = CONTAINERD, KUBELET, ()

    def __init__(self, version="1.34", family="IPv4"):
        if family != "IPv4" and not os.path.exists("/proc/net/if_inet6"):
            raise LookupError("this kernel has no IPv6")
        self.programs, self.old = built("cluster", version), version == "1.20"
        self.nodes, self.servers, self.services, self.pods = zip(*FAMILIES[family], strict=True)
        self.loopback = "::1" if family == "IPv6" else "127.0.0.1"
        self.everywhere = "0.0.0.0" if family == "IPv4" else "::"
        self.base = room("k")
        self.cgroup = f"tendon-test-{uuid.uuid4().hex[:12]}"
        self.tokens = {user: uuid.uuid4().hex for user in USERS}
        self.parts, self.ended_parts = {}, {}  # name -> (process, how it was started)
        self.ended = threading.Event()
        self.holder = None
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    # --- starting -------------------------------------------------------------------------------

    def start(self):
        deadline = time.monotonic() + START
        (self.base / "bin").mkdir()
        own = " ".join(f"{a}/{128 if family_of(a) == 6 else 32}" for a in self.nodes + self.servers)
        space = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *space, "sh", "-c", INSIDE, "sh", self.base, self.programs, own],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.holder.stdout.readline() == "ready\n", "no namespaces for a node"
        self.first = children(self.holder.pid)[0]
        self.write_files()
        self.run("etcd", "--data-dir=/var/lib/etcd", "--unsafe-no-fsync", "--listen-peer-urls=http://127.0.0.1:2380")
        self.run_program("containerd", self.containerd, "--config", self.base / "containerd.toml")
        self.run_server()
        self.run_forward()
        self.import_images(deadline)
        self.await_true(self.is_ready, deadline, "the API server is ready")
        inside = f"--kubeconfig={self.kubeconfig('inside', server=f'https://{in_url(self.nodes[0])}')}"
        accounts = f"--service-account-private-key-file={self.base}/tls/accounts.key"
        before_1_27 = ["--container-runtime=remote", "--container-runtime-endpoint=unix:///run/containerd.sock"] if self.old else []
        self.run("kubelet", inside, f"--config={self.base}/kubelet.json", "--hostname-override=node", f"--node-ip={','.join(self.nodes)}",
                 f"--cgroup-root=/{self.cgroup}", *before_1_27)  # fmt: skip
        self.run("kube-controller-manager", inside, accounts, f"--root-ca-file={self.base}/tls/ca.pem",
                 "--leader-elect=false", "--secure-port=0")  # fmt: skip
        self.run("kube-scheduler", inside, "--leader-elect=false", "--secure-port=0")
        self.kubectl("apply", "--filename=-", input=json.dumps({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": STORAGE_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "tests.invalid/directory",
        }))  # fmt: skip
        threading.Thread(target=self.provide_volumes, daemon=True).start()
        self.await_true(self.has_node, deadline, "the node is ready")

    def write_files(self):
        make_certificates(self.base / "tls", self.nodes + self.servers)
        (self.base / "cni").mkdir()
        files = {
            "containerd.toml": self.containerd_config.format(base=self.base),
            "cni/tests.conflist": json.dumps(self.network()),
            "kubelet.json": json.dumps({**self.kubelet_config, "address": self.everywhere, "clusterDNS": [NAMES[family_of(self.nodes[0])]]}),
            "audit.json": json.dumps(AUDIT),
            "tokens": "".join(f'{self.tokens[user]},{user},{user},"{group}"\n' for user, group in USERS.items()),
            "runc": RUNC,
            "plugin": PLUGIN,
        }
        for name, text in files.items():
            (self.base / name).write_text(text)
        for name in ("runc", "plugin"):
            (self.base / name).chmod(0o755)
        for path in glob.glob("/sys/fs/cgroup/*/cgroup.procs") or ["/sys/fs/cgroup/cgroup.procs"]:
            with contextlib.suppress(OSError):
                os.mkdir(os.path.join(os.path.dirname(path), self.cgroup))

    def network(self):
        plan = copy.deepcopy(CNI)
        routes = [{"dst": EVERYWHERE[family_of(a)]} for a in self.nodes]
        plan["plugins"][0]["ipam"].update(ranges=[[{"subnet": net}] for net in self.pods], routes=routes)
        return plan

    def enter(self, *words):
        return ["nsenter", f"--target={self.first}", "--mount", "--net", "--pid", "--", *map(str, words)]

    def run_program(self, name, *words, **kwargs):
        with open(self.base / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.enter(*words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.base,
                env={"PATH": os.environ["PATH"], "HOME": "/tmp"},
                **kwargs,
            )
        self.parts[name] = (process, words, kwargs)

    def run(self, name, *words):
        self.run_program(name, self.base / "bin" / name, *words)

    def run_server(self):
        tls = self.base / "tls"
        self.run(
            "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={self.nodes[0]}",
            f"--bind-address={self.everywhere}",
            "--secure-port=443",
            f"--tls-cert-file={tls}/server.pem",
            f"--tls-private-key-file={tls}/server.key",
            f"--client-ca-file={tls}/ca.pem",
            f"--token-auth-file={self.base}/tokens",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={tls}/accounts.pub",
            f"--service-account-signing-key-file={tls}/accounts.key",
            f"--service-cluster-ip-range={','.join(self.services)}",
            "--endpoint-reconciler-type=none",
            f"--audit-policy-file={self.base}/audit.json",
            f"--audit-log-path={self.base}/audit.log",
            "--kubelet-preferred-address-types=InternalIP",
            *(option.format(tls=tls) for option in self.server_options),
        )

    def run_forward(self):
        listener = socket.create_server((self.loopback, 0), backlog=128, family=socket.AF_INET6 if self.loopback == "::1" else socket.AF_INET)
        self.port = listener.getsockname()[1]
        number = listener.fileno()
        self.run_program("forward", sys.executable, "-c", FORWARD, number, pass_fds=[number])
        self.listener = listener

    def import_images(self, deadline):
        box = write_image(self.base / "box.tar", "box:1", command=["/bin/sh"])
        pause = write_image(self.base / "pause.tar", "pause:1", command=["/bin/sleep", "2147483647"])
        self.await_true(lambda: self.inside("ctr", "--address=/run/containerd.sock", "version").returncode == 0, deadline, "containerd answers")
        for tar in (pause, box):
            self.load(tar)

    def images(self, *words):
        result = self.inside("ctr", "--address=/run/containerd.sock", "--namespace=k8s.io", "images", *words, timeout=120)
        assert result.returncode == 0, result.stderr

    def load(self, tar):
        """Makes an image of a docker archive known to the node."""
        self.images("import", tar)
        os.unlink(tar)

    def tag(self, name, other):
        self.images("tag", f"docker.io/library/{name}", f"docker.io/library/{other}")

    # --- whether it works -----------------------------------------------------------------------

    def await_true(self, condition, deadline, what):
        while not condition():
            for name, (process, *_) in self.parts.items():
                assert process.poll() is None, f"{name} ended with {process.returncode}:\n{self.log_end(name)}"
            assert time.monotonic() < deadline, f"not in time: {what}\n" + "\n".join(map(self.log_end, self.parts))
            time.sleep(0.05)

    def is_ready(self):
        try:
            return self.call("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def has_node(self):
        status, node = self.call("GET", "/api/v1/nodes/node")
        if status != 200 or node["spec"].get("taints"):
            return False
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
        return ready and self.call("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200

    def log_end(self, name):
        return f"--- {name}\n" + (self.base / f"{name}.log").read_text(errors="replace")[-3000:]

    # --- using it -------------------------------------------------------------------------------

    @property
    def server(self):
        return f"https://{in_url(self.loopback)}:{self.port}"

    def kubeconfig(self, kind, user="admin", server=None, namespace="default", **who):
        """The path of a kubeconfig: kind names it, and says who we are: certificate, plugin, else a token."""
        tls = self.base / "tls"
        if kind == "certificate":
            who = {"client-certificate": f"{tls}/client.pem", "client-key": f"{tls}/client.key"}
        elif kind == "plugin":
            who = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": f"{self.base}/plugin",
                            "interactiveMode": "Never", "env": [{"name": "TOKEN", "value": self.tokens[user]}]}}  # fmt: skip
        who = who or {"token": self.tokens[user]}
        path = self.base / f"{kind}-{user}-{namespace}.config"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": {"server": server or self.server, "certificate-authority": f"{tls}/ca.pem"}}],
            "users": [{"name": user, "user": who}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": user, "namespace": namespace}}],
        }))  # fmt: skip
        return path

    def try_kubectl(self, *words, config=None, user="admin", namespace="default", input=None, timeout=60):
        config = config or self.kubeconfig("token", user, namespace=namespace)
        return subprocess.run(
            [self.programs / "kubectl", f"--kubeconfig={config}", *map(str, words)],
            input=input or "",
            capture_output=True,
            text=True,
            timeout=timeout,
            env={"PATH": os.environ["PATH"], "HOME": str(self.base)},
        )

    def kubectl(self, *words, **kwargs):
        """What it printed; it must not fail."""
        result = self.try_kubectl(*words, **kwargs)
        assert result.returncode == 0, f"kubectl {words}: {result.stderr}"
        return result.stdout

    def connection(self, timeout=20):
        context = ssl.create_default_context(cafile=self.base / "tls/ca.pem")
        return http.client.HTTPSConnection(self.loopback, self.port, timeout=timeout, context=context)

    def call(self, method, path, body=None, user="admin"):
        """(status, object) of a call of the API."""
        with contextlib.closing(self.connection()) as connection:
            headers = {"Authorization": f"Bearer {self.tokens[user]}", "Content-Type": f"application/{'merge-patch+' if method == 'PATCH' else ''}json"}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            data = answer.read()
        return answer.status, json.loads(data) if data[:1] == b"{" else data

    def must(self, method, path, body=None):
        """The object of a call that is not refused."""
        status, answer = self.call(method, path, body)
        assert 200 <= status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def get(self, path):
        return self.call("GET", path)[1]

    def calls(self, namespace):
        """[(verb, resource, name)] of what Tendon has done there, in order: all changes, and the questions of the user `tendon`;
        without what was refused, and what reaches into a pod."""
        found = []
        for line in (self.base / "audit.log").read_text().splitlines():
            event = json.loads(line) if line.endswith("}") else {}
            what = event.get("objectRef", {})
            if (what.get("namespace") == namespace and "subresource" not in what and event.get("userAgent", "").startswith("tendon")
                    and event["responseStatus"]["code"] < 300 and (event["verb"] == "watch") == (event["stage"] == "ResponseStarted")):  # fmt: skip
                found.append((event["verb"], what["resource"], what.get("name")))
        return found

    def writes(self, namespace):
        return [call for call in self.calls(namespace) if call[0] not in ("get", "list", "watch")]

    def make_namespace(self):
        """The name of a new namespace, in which pods can be made."""
        name = f"test-{uuid.uuid4().hex[:8]}"
        self.must("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for made in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            path = f"/api/v1/namespaces/{name}/{made}"
            self.await_true(lambda path=path: self.call("GET", path)[0] == 200, time.monotonic() + 60, path)
        if self.old:  # an account has a Secret with its token, which comes a moment later
            path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            self.await_true(lambda: self.get(path).get("secrets"), time.monotonic() + 60, "a token")
        return name

    def drop_namespace(self, name):
        self.must("DELETE", f"/api/v1/namespaces/{name}")

    def inside(self, *words, timeout=60):
        """A command on the node."""
        return subprocess.run(self.enter(*words), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout)

    @contextlib.contextmanager
    def frozen(self, name):
        """A part that stands still meanwhile; nsenter stops with what it has started, and does not go on by itself."""
        pid = self.parts[name][0].pid
        pids = [*children(pid), pid]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def kill(self, name):
        """Ends a part of the cluster as if it had crashed."""
        for pid in children(self.parts[name][0].pid):
            os.kill(pid, signal.SIGKILL)
        process, *self.ended_parts[name] = self.parts.pop(name)
        process.wait(20)

    def revive(self, name, *more):
        """Starts one that was killed, with more options."""
        words, kwargs = self.ended_parts.pop(name)
        self.run_program(name, *words, *more, **kwargs)

    def restart(self, name, *more):
        self.kill(name)
        self.revive(name, *more)

    # --- volumes --------------------------------------------------------------------------------

    def provide_volumes(self):
        """What a provisioner does: a claim of the class gets a directory, which goes with the claim."""
        while not self.ended.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, subprocess.TimeoutExpired), contextlib.closing(self.connection(5)) as connection:
                headers = {"Authorization": f"Bearer {self.tokens['admin']}"}
                connection.request("GET", "/api/v1/persistentvolumeclaims?watch=1", headers=headers)
                for line in connection.getresponse():
                    event = json.loads(line)
                    if event["object"].get("spec", {}).get("storageClassName") == STORAGE_CLASS:
                        self.provide(event["type"], event["object"])
            self.ended.wait(0.1)

    def provide(self, change, claim):
        uid = claim["metadata"]["uid"]
        name, path = f"volume-{uid}", f"/var/lib/volumes/{uid}"
        if change == "DELETED":
            self.call("DELETE", f"/api/v1/persistentvolumes/{name}")
            self.inside("rm", "-rf", path)
        elif not claim["spec"].get("volumeName"):
            self.inside("mkdir", "-p", "-m", "777", path)
            spec = {"capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
                    "storageClassName": STORAGE_CLASS, "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": path},
                    "claimRef": {"namespace": claim["metadata"]["namespace"], "name": claim["metadata"]["name"], "uid": uid}}  # fmt: skip
            volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
            self.call("POST", "/api/v1/persistentvolumes", volume)

    # --- the end --------------------------------------------------------------------------------

    def stop(self):
        """All of its processes and mounts end with the first process of the namespaces."""
        self.ended.set()
        if self.holder:
            self.holder.stdin.close()
            try:
                self.holder.wait(30)
            except subprocess.TimeoutExpired:
                self.holder.kill()
                self.holder.wait(30)
        for process, *_ in self.parts.values():
            process.kill()
            process.wait(30)
        for path in sorted(glob.glob(f"/sys/fs/cgroup/{self.cgroup}/**/", recursive=True)
                           + glob.glob(f"/sys/fs/cgroup/*/{self.cgroup}/**/", recursive=True), key=len, reverse=True):  # fmt: skip
            with contextlib.suppress(OSError):
                os.rmdir(path)
        shutil.rmtree(self.base, ignore_errors=True)


def children(pid):
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def main():
    reason = why_not()
    if reason:
        sys.exit(reason)
    began = time.monotonic()
    cluster = Cluster(*sys.argv[2:])
    try:
        print(f"ready after {time.monotonic() - began:.1f} s; end of input ends it")
        print(f"export KUBECONFIG={cluster.kubeconfig('token')}")
        print(f"export PATH={cluster.programs}:$PATH", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdin.read()
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()

"""The client of API servers (src/kube) against a real one: who we are in every way a kubeconfig knows, credentials that rotate,
what is refused, watches over cuts and restarts, exec, and a port of a pod by its address."""

import base64
import contextlib
import hashlib
import json
import os
import queue
import socket
import socketserver
import subprocess
import threading
import time

import pytest

from test_cluster import apply, pod
from trees import BUILD, program

DRIVE = "tests/unit/kube/kube-drive"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
QUESTION = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})


def environment(config, **more):
    return {**os.environ, "KUBECONFIG": str(config), **more}


def drive(config, *words, input=None, **more):
    """(exit status, output) of one run."""
    done = subprocess.run([program(BUILD, DRIVE), *words], env=environment(config, **more), stdin=input or subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=150)  # fmt: skip
    return done.returncode, done.stdout


def who(config, **more):
    code, out = drive(config, "call", "POST", WHO, QUESTION, **more)
    return json.loads(out)["status"]["userInfo"]["username"] if code == 0 else out.decode()


def rewrite(config, name, cluster=None, user=None):
    """A kubeconfig beside another one, with other members of its cluster and user."""
    tree = json.loads(config.read_text())
    tree["clusters"][0]["cluster"].update(cluster or {})
    if user:
        tree["users"][0]["user"] = user
    path = config.with_name(name)
    path.write_text(json.dumps(tree))
    return path


class Talk:
    """A run that goes on: lines in, lines out."""

    def __init__(self, config, *words):
        self.process = subprocess.Popen([program(BUILD, DRIVE), *words], env=environment(config), text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put("the end")

    def line(self):
        return self.lines.get(timeout=60)

    def ask(self):
        self.process.stdin.write("\n")
        return self.line()

    def until(self, *wanted):
        """Reads until all of these lines have come, in any order."""
        left = set(wanted)
        while left:
            line = self.line()
            assert line != "the end", f"it ended before {left}"
            left.discard(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        with contextlib.suppress(OSError):
            self.process.stdin.close()


class Way(socketserver.ThreadingTCPServer):
    """A way to the API server that can be cut: of bytes, or a proxy that is asked to CONNECT."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, port, host="127.0.0.1", asked=False):
        super().__init__((host, 0), Passage)
        self.far, self.asked, self.requests, self.open, self.lock = port, asked, [], [], threading.Lock()
        self.address = "%s:%d" % self.server_address
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def cut(self):
        """Nobody gets through any more, and whoever had is cut off."""
        self.far = None
        with self.lock:
            for one in self.open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def __exit__(self, *_):
        self.cut()
        self.shutdown()
        self.server_close()


class Passage(socketserver.StreamRequestHandler):
    rbufsize = 0

    def handle(self):
        way = self.server
        if way.asked:
            way.requests.append(self.rfile.readline().decode().strip())
            while self.rfile.readline().strip():
                pass
        if way.far is None:
            return
        far = socket.create_connection(("127.0.0.1", way.far))
        with way.lock:
            way.open += [far, self.request]
        if way.asked:
            self.request.sendall(b"HTTP/1.1 200 here\r\n\r\n")
        back = threading.Thread(target=self.copy, args=(far, self.request), daemon=True)
        back.start()
        self.copy(self.request, far)
        back.join()
        far.close()

    @staticmethod
    def copy(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


# --- who we are -------------------------------------------------------------------------------------


def inline(cluster):
    tls = cluster.base / "tls"
    data = {f"{member}-data": base64.b64encode((tls / file).read_bytes()).decode()
            for member, file in (("client-certificate", "client.pem"), ("client-key", "client.key"))}  # fmt: skip
    return rewrite(cluster.kubeconfig("token"), "inline.config", user=data)


def token_file(cluster):
    (cluster.base / "token").write_text(cluster.tokens["tendon"] + "\n")
    return rewrite(cluster.kubeconfig("token"), "file.config", user={"tokenFile": "token"})


@pytest.mark.parametrize(
    "config, name",
    [
        (lambda c: c.kubeconfig("token"), "admin"),
        (lambda c: c.kubeconfig("certificate"), "client"),
        (lambda c: c.kubeconfig("plugin", "tendon"), "tendon"),
        (inline, "client"),
        (token_file, "tendon"),
    ],
    ids=["token", "certificate", "plugin", "inline", "token-file"],
)
def test_every_way_to_say_who_we_are(cluster, config, name):
    assert who(config(cluster)) == name


def test_who_is_not_accepted_is_told(cluster):
    config = rewrite(cluster.kubeconfig("token"), "wrong.config", user={"token": "wrong"})
    assert who(config) == f"error denied: user admin of context tests of {config} is not accepted (expired, or not known there): the API server answered 401: Unauthorized\n"


def account(cluster, namespace, name):
    cluster.kubectl("create", "serviceaccount", name, namespace=namespace)
    return cluster.kubectl("create", "token", name, namespace=namespace).strip()


def revoke(cluster, namespace, name, config):
    """The account goes; returns when its token is not accepted any more, which the server takes a while to notice."""
    cluster.kubectl("delete", "serviceaccount", name, namespace=namespace)
    deadline = time.monotonic() + 60
    while "Unauthorized" not in who(config):
        assert time.monotonic() < deadline
        time.sleep(0.1)


PLUGIN = """#!/bin/sh
echo >>{base}/{name}.count
printf '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"%s"{end}}}}}' "$(cat {base}/{name})"
"""


def test_a_token_that_is_revoked_is_replaced_without_a_refusal(cluster, namespace):
    """In a file, or of a plugin."""
    first, second = account(cluster, namespace, "first"), account(cluster, namespace, "second")
    (cluster.base / "rotated").write_text(first)
    old = rewrite(cluster.kubeconfig("token"), "old.config", user={"token": first})
    script = cluster.base / "rotating"
    script.write_text(PLUGIN.format(base=cluster.base, name="rotated", end=""))
    script.chmod(0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./rotating", "interactiveMode": "Never"}
    by_file = rewrite(cluster.kubeconfig("token"), "by-file.config", user={"tokenFile": "rotated"})
    by_plugin = rewrite(cluster.kubeconfig("token"), "by-plugin.config", user={"exec": plugin})
    with Talk(by_file, "calls", "/api") as one, Talk(by_plugin, "calls", "/api") as other:
        assert [talk.ask() for talk in (one, one, other, other)] == 4 * ["ok"]
        (cluster.base / "rotated").write_text(second)
        revoke(cluster, namespace, "first", old)
        assert [talk.ask() for talk in (one, one, other, other)] == 4 * ["ok"]
    assert len((cluster.base / "rotated.count").read_text()) == 2


def test_a_plugin_is_asked_again_before_its_token_ends(cluster):
    (cluster.base / "short").write_text(cluster.tokens["admin"])
    script = cluster.base / "short-lived"
    end = ',"expirationTimestamp":"\'$(date -u -d +3sec +%Y-%m-%dT%H:%M:%SZ)\'"'
    script.write_text(PLUGIN.format(base=cluster.base, name="short", end=end))
    script.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}}
    config = rewrite(cluster.kubeconfig("token"), "short.config", user=user)
    deadline = time.monotonic() + 60
    with Talk(config, "calls", "/api") as talk:
        for _ in range(3):
            assert talk.ask() == "ok"
        assert len((cluster.base / "short.count").read_text()) == 1
        while len((cluster.base / "short.count").read_text()) < 2:
            assert talk.ask() == "ok" and time.monotonic() < deadline
            time.sleep(0.1)


def test_the_account_of_a_pod(cluster, namespace):
    """As a pod has it: files at their place, the server in the environment."""
    token = account(cluster, namespace, "inside")
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = f"""set -e
mount -t tmpfs tmpfs /run; mkdir -p {place}; cp {cluster.base}/tls/ca.pem {place}/ca.crt
printf %s {token} >{place}/token; printf {namespace} >{place}/namespace
exec {program(BUILD, DRIVE)} call POST {WHO} '{QUESTION}'"""
    env = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(cluster.port)}
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:inside"


# --- the way there ----------------------------------------------------------------------------------


def test_the_name_of_a_certificate(cluster):
    """127.0.0.2 is no name that the server has."""
    with Way(cluster.port, host="127.0.0.2") as way:
        plain = rewrite(cluster.kubeconfig("token"), "name.config", {"server": f"https://{way.address}"})
        assert who(plain).startswith("error denied: POST https://127.0.0.2") and "TLS" in who(plain)
        assert who(rewrite(plain, "named.config", {"tls-server-name": "kubernetes.default.svc"})) == "admin"
        assert "TLS" in who(rewrite(plain, "misnamed.config", {"tls-server-name": "elsewhere.test"}))
        assert who(rewrite(plain, "careless.config", {"insecure-skip-tls-verify": True})) == "admin"


def test_a_proxy_of_one_cluster(cluster, namespace):
    apply(cluster, namespace, pod("box", "sleep", "1000"))
    cluster.kubectl("wait", "pod/box", "--for=condition=Ready", "--timeout=60s", namespace=namespace)
    with Way(cluster.port, asked=True) as way:
        config = rewrite(cluster.kubeconfig("token"), "proxy.config",
                         {"server": "https://kubernetes.default.svc:6443", "proxy-url": f"http://{way.address}"})  # fmt: skip
        assert who(config, no_proxy="*") == "admin"
        assert drive(config, "exec", namespace, "box", "main", "echo", "far") == (0, b"far\n\nstatus 0\n")
        assert set(way.requests) == {"CONNECT kubernetes.default.svc:6443 HTTP/1.1"}


# --- what is refused --------------------------------------------------------------------------------


def test_refusals_have_the_words_of_the_server(cluster, namespace):
    config = cluster.kubeconfig("token")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.kubectl("create", "quota", "tight", "--hard=configmaps=1", namespace=namespace)
    cases = [
        (config, "GET", f"{pods}/none", None, 'error not_found: pods "none" not found'),
        (config, "POST", pods, {"metadata": {"name": "A"}}, 'error invalid: Pod "A" is invalid: '),
        (config, "POST", pods, {"metadata": 1}, "error invalid: "),
        (cluster.kubeconfig("token", "nobody"), "GET", pods, None, 'error denied: pods is forbidden: User "nobody" cannot list'),
        (config, "POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "a"}}, "error quota: "),
        (config, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}, "error conflict: namespaces "),
        (config, "GET", "/nowhere", None, "error not_found: the "),
    ]
    for who_asks, method, target, body, expected in cases:
        code, out = drive(who_asks, "call", method, target, *([json.dumps(body)] if body else []))
        assert code == 1 and out.decode().startswith(expected), out


def test_a_call_waits_for_a_server_that_comes_back(cluster):
    cluster.kill("kube-apiserver")
    try:
        with Talk(cluster.kubeconfig("token"), "call", "GET", "/version") as talk:
            with pytest.raises(queue.Empty):
                talk.lines.get(timeout=1)
            cluster.run_server()
            assert json.loads(talk.line())["major"] == "1"
    finally:
        cluster.await_true(cluster.is_ready, time.monotonic() + 60, "the API server is back")


# --- watching ---------------------------------------------------------------------------------------


def configmap(cluster, namespace, verb, name, **data):
    words = [f"--from-literal={key}={value}" for key, value in data.items()] if verb == "create" else []
    cluster.kubectl(verb, "configmap", name, *words, namespace=namespace)


def test_a_watch_tells_all_and_goes_on_after_a_restart(cluster, namespace):
    target = f"/api/v1/namespaces/{namespace}/configmaps"
    configmap(cluster, namespace, "create", "before")
    with Talk(cluster.kubeconfig("token"), "watch", target, "last") as watch:
        watch.until("added before", "synced")
        configmap(cluster, namespace, "create", "now")
        watch.until("added now")
        cluster.kubectl("patch", "configmap", "now", '--patch={"data":{"a":"b"}}', namespace=namespace)
        watch.until("modified now")
        configmap(cluster, namespace, "delete", "now")
        watch.until("deleted now")
        cluster.restart("kube-apiserver")
        cluster.await_true(cluster.is_ready, time.monotonic() + 60, "the API server is back")
        configmap(cluster, namespace, "create", "after")
        watch.until("added after")
        configmap(cluster, namespace, "create", "last")
        watch.until("added last")
        assert watch.process.wait(20) == 0


def test_what_happened_while_nobody_could_watch_is_told(cluster, namespace):
    """The server has forgotten the version that the watch knew: it lists again (410), and finds what is missing."""
    target = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("stays", "goes", "changes"):
        configmap(cluster, namespace, "create", name)
    with Way(cluster.port) as way:
        config = rewrite(cluster.kubeconfig("token"), "cut.config", {"server": f"https://{way.address}"})
        with Talk(config, "watch", target) as watch:
            watch.until("added stays", "added goes", "added changes", "synced")
            way.cut()
            for verb, name in (("delete", "goes"), ("delete", "changes"), ("create", "changes"), ("create", "comes")):
                configmap(cluster, namespace, verb, name)
            cluster.restart("kube-apiserver")
            cluster.await_true(cluster.is_ready, time.monotonic() + 60, "the API server is back")
            way.far = cluster.port
            watch.until("added comes", "deleted goes", "deleted changes", "added changes")


def test_a_long_list_comes_in_pages(cluster, namespace):
    headers = {"Authorization": f"Bearer {cluster.tokens['admin']}", "Content-Type": "application/json"}
    with contextlib.closing(cluster.connection()) as connection:  # kubectl takes its time for as many
        for i in range(1100):
            connection.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", json.dumps({"metadata": {"name": f"n{i}"}}), headers)
            connection.getresponse().read()
    with Talk(cluster.kubeconfig("token"), "watch", f"/api/v1/namespaces/{namespace}/configmaps") as watch:
        watch.until("synced", *(f"added n{i}" for i in range(1100)))


def test_what_no_waiting_mends_ends_a_watch(cluster, namespace):
    assert drive(cluster.kubeconfig("token"), "watch", "/api/v1/nowhere")[1].startswith(b"error not_found")
    denied = drive(cluster.kubeconfig("token", "nobody"), "watch", f"/api/v1/namespaces/{namespace}/pods")[1]
    assert denied.startswith(b"error denied: pods is forbidden")


# --- inside a pod -----------------------------------------------------------------------------------


def test_programs_in_a_pod(cluster, namespace, tmp_path):
    config = cluster.kubeconfig("certificate")
    apply(cluster, namespace, pod("box", "sleep", "1000"))
    cluster.kubectl("wait", "pod/box", "--for=condition=Ready", "--timeout=60s", namespace=namespace)

    def run(*words, input=None, target="main", name="box"):
        code, out = drive(config, "exec", namespace, name, target, *words, input=input)
        return out.decode()

    assert run("sh", "-c", "echo out; sleep 0.1; echo err >&2; exit 7") == "out\nerr\n\nstatus 7\n"
    assert run("sh", "-c", "kill -9 $$") == "\nstatus 137\n"
    data = tmp_path / "data"
    data.write_bytes(os.urandom(3 << 20))
    with data.open("rb") as file:
        assert run("busybox", "md5sum", input=file) == f"{hashlib.md5(data.read_bytes()).hexdigest()}  -\n\nstatus 0\n"
    with data.open("rb") as file:  # what comes back while it is sent
        code, out = drive(config, "exec", namespace, "box", "main", "cat", input=file)
        assert out == data.read_bytes() + b"\nstatus 0\n"
    assert run("nonsense").startswith("error ") and "nonsense" in run("nonsense")
    assert run("true", target="other") == "error invalid: exec: container other is not valid for pod box\n"
    assert run("true", name="none") == 'error not_found: exec: pods "none" not found\n'
    denied = drive(cluster.kubeconfig("token", "nobody"), "exec", namespace, "box", "main", "true")[1].decode()
    assert denied.startswith('error denied: exec: pods "box" is forbidden: User "nobody" cannot')


@pytest.mark.parametrize("kind", ["token", "certificate"])
def test_a_port_of_a_pod_by_its_address(cluster, namespace, kind):
    config = cluster.kubeconfig(kind)
    apply(cluster, namespace, pod("box", "sh", "-c", "exec busybox httpd -f -p 8080 -h /etc"))
    cluster.kubectl("wait", "pod/box", "--for=condition=Ready", "--timeout=60s", namespace=namespace)
    code, address = drive(config, "address", namespace, "box", "8080")
    assert address.decode() == f"kube:{namespace}/box:8080?config={config}&context=tests\n"
    assert drive("/nowhere", "reach", address.decode().strip(), "/group") == (0, b"200 root:x:0:\n")

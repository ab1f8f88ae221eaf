"""NetworkPolicies that a network plugin keeps (kube-router), and Ingresses that a controller serves (Traefik): tools/network makes both."""

import json
import shutil
import sys
import urllib.parse

import pytest

from conformance import wait_until
from kube_world import built_or_skip
from test_kubernetes_deploy import helm, service  # noqa: F401
from test_kubernetes_gate import BLOCKED, TRIES, Named, images, outside, tendon, wire  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NODE, GATEWAY = "10.99.0.1", "10.98.0.1"
INGRESS = 9090

# Each connection gets a line; one that would be a WebSocket gets its own message back, in a frame of less than 126 bytes.
SERVER = """
import base64, hashlib, re, socket, sys
def serve(c):
    head = b""
    while b"\\r\\n\\r\\n" not in head and (more := c.recv(4096)): head += more
    key = re.search(rb"(?i)sec-websocket-key: (\\S+)", head)
    if key:
        word = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + word + b"\\r\\n\\r\\n")
        frame = c.recv(200)
        n = frame[1] & 127
        c.sendall(bytes([0x81, n]) + bytes(b ^ frame[2 + i % 4] for i, b in enumerate(frame[6:6 + n])))
        c.recv(200)
    else:
        c.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\ninside")
    c.close()
s = socket.create_server(("", int(sys.argv[1])))
while True:
    try: serve(s.accept()[0])
    except OSError: pass
"""

# Which of these places take a connection.
REACH = """
import json, socket
def reaches(host, port):
    try: socket.create_connection((host, port), 4).close()
    except OSError: return False
    return True
print(json.dumps([name for name, (host, port) in json.loads('''{}''').items() if reaches(host, port)]))
"""

# On the node, to the controller: what a GET and a WebSocket of that host get.
ASK = f"""
import http.client, sys, websocket
host, target, cookie = sys.argv[1:]
connection = http.client.HTTPConnection("127.0.0.1", {INGRESS}, timeout=20)
connection.request("GET", target, headers={{"Host": host, **({{"Cookie": cookie}} if cookie else {{}})}})
answer = connection.getresponse()
print(answer.status, answer.getheader("set-cookie", "").partition(";")[0], answer.read()[:40], sep="|")
if answer.status == 200 and "healthz" not in target:
    line = websocket.create_connection("ws://127.0.0.1:{INGRESS}" + target, host=host, origin="http://" + host, cookie=cookie or None, timeout=20)
    line.send("to and fro")
    print(line.recv())
"""


@pytest.fixture(scope="module")
def programs():
    directory = built_or_skip("network")
    for program in ("ipset", "iptables"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    return directory


@pytest.fixture(scope="module")
def enforced(cluster, programs):
    """Policies hold. The Services of this cluster are addresses of its node, which kube-router would let pass: another range is said to be theirs."""
    cluster.inside("sh", "-c", "echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables")
    cluster.run_program("kube-router", f"{programs}/kube-router", f"--kubeconfig={cluster.base}/inside-admin-default.config",
                        "--hostname-override=node", "--run-firewall=true", "--run-router=false", "--run-service-proxy=false",
                        "--run-loadbalancer=false", "--service-cluster-ip-range=10.97.0.0/24")  # fmt: skip
    wait_until(lambda: "KUBE-ROUTER-FORWARD" in cluster.inside("iptables-save").stdout, 60, "kube-router has begun")
    yield
    cluster.kill("kube-router")
    cluster.inside("sh", "-c", "iptables -F; iptables -X; ipset destroy")


@pytest.fixture(scope="module")
def controller(cluster, programs):
    cluster.run_program("traefik", "env", f"KUBECONFIG={cluster.base}/inside-admin-default.config", f"{programs}/traefik",
                        "--providers.kubernetesingress", f"--entrypoints.web.address=:{INGRESS}", "--global.checknewversion=false")  # fmt: skip
    yield
    cluster.kill("traefik")


def make_plain(cluster, namespace):
    """A pod that is no sandbox."""
    cluster.kubectl("run", "plain", "--image=python:1", "--image-pull-policy=Never", "--command", "--", "sleep", "10000", namespace=namespace)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/plain", "--timeout=60s", namespace=namespace)


def plain_reaches(cluster, namespace, places):
    code = REACH.format(json.dumps(places))
    return set(json.loads(cluster.kubectl("exec", "plain", "--", "python3", "-c", code, namespace=namespace)))


def test_policies_are_kept(cluster, world, tendon, wire, enforced):  # noqa: F811
    boxes = {name: tendon.new("--network", name, *more).stdout.strip() for name, *more in (
        ("none",), ("open",), ("bridge",), ("allow", "--allow", f"{outside.GOOD}/32:80"))}  # fmt: skip
    boxes["other"] = tendon.new("--network", "open").stdout.strip()
    make_plain(cluster, world.namespace)
    address = {name: world.pod(Named(box))["status"]["podIP"] for name, box in boxes.items()}
    places = {"internet": (outside.GOOD, 80), "private": (outside.PRIVATE, 80), "metadata": (outside.METADATA, 80),
              "carrier": (outside.CARRIER, 80), "server": ("10.0.0.1", 443), "node": (NODE, 10250), "gateway": (GATEWAY, 10250)}  # fmt: skip
    beyond = set(places)
    hands = {f"hand of {name}": (there, 8080) for name, there in address.items()}
    places |= hands

    def reached(name):
        others = {place: where for place, where in places.items() if not place.endswith(f" {name}")}
        return set(json.loads(tendon.python(boxes[name], REACH.format(json.dumps(others)))))

    # Nothing keeps this one in: all of that is there.
    wait_until(lambda: reached("bridge") == beyond | set(hands) - {"hand of bridge"}, 90, "the policies count")
    del wire.seen[:]
    assert reached("none") == set() and not wire.reached()
    assert reached("open") == {"internet"}
    assert tendon.python(boxes["open"], TRIES + "print(tcp('good.test', 80))") == "answer", "names are answered"
    assert wire.reached() == {outside.GOOD, outside.NAMES}
    assert plain_reaches(cluster, world.namespace, hands) == set(hands)
    # The gate's rules, beside the policy.
    tried = [(outside.GOOD, 80), (outside.EVIL, 80), (address["other"], 8080), (address["none"], 8080), (NODE, 10250)]
    good, *bad = tendon.python(boxes["allow"], TRIES + "print(" + ", ".join(f"tcp('{h}', {p})" for h, p in tried) + ")").split()
    assert good == "answer" and set(bad) <= BLOCKED, (good, bad)
    cluster.kubectl("delete", "pod", "plain", "--grace-period=1", namespace=world.namespace)


def test_the_chart_behind_policies_and_an_ingress(cluster, service, enforced, controller, images):  # noqa: F811
    """The service makes and reaches sandboxes; it is reached by who is none; a controller leads to it, and to a port of a sandbox."""
    service.install("url=http://tendon.example.org", "previewDomain=preview.example.org", "ingress.enabled=true",
                    "sandboxes.ingressDomain=people.example.org")  # fmt: skip
    make_plain(cluster, "default")
    spec = {"image": "python:1", "hand_args": ["--shell", "sh"], "ports": [5000]}
    shut, box, bridge = service.new(**spec), service.new(network="open", **spec), service.new(network="bridge", **spec)
    assert service.call("GET", f"/v1/sandboxes/{shut}")[1]["isolation"]["reached_by"] == "the pod's address"
    for one in (shut, box):
        service.runs(one, f"cat >/tmp/serve.py <<'END'\n{SERVER}\nEND\npython3 /tmp/serve.py 5000 >/dev/null 2>&1 &")
    there = {"service": (service.pod()["status"]["podIP"], 7171)}
    assert plain_reaches(cluster, "default", there) == {"service"}
    wait_until(lambda: service.runs(bridge, f"python3 - <<'END'\n{REACH.format(json.dumps(there))}\nEND") == "[]", 60, "no sandbox reaches it")

    def ask(host, target, cookie=""):
        told = cluster.inside(sys.executable, "-c", ASK, host, target, cookie)
        return [*told.stdout.splitlines(), *told.stderr.splitlines()[-1:]]

    inside = ["200||b'inside'", "to and fro"]
    wait_until(lambda: ask("tendon.example.org", "/healthz")[0].startswith("200|"), 60, "the service answers by its name")
    for other in ("other.example.org", "preview.example.org", "a.b.preview.example.org"):
        assert ask(other, "/") == ["404||b'404 page not found\\n'"], other
    # Previews: through the service, also of one that has no network, by the one rule that the chart has for all of them.
    (ingress,) = cluster.get("/apis/networking.k8s.io/v1/namespaces/tendon/ingresses")["items"]
    assert [rule["host"] for rule in ingress["spec"]["rules"]] == ["tendon.example.org", "*.preview.example.org"]
    for one in (shut, box):
        status, link = service.call("POST", f"/v1/sandboxes/{one}/ports/5000")
        assert status == 201, link
        url = urllib.parse.urlsplit(link["link"])
        assert url.hostname.endswith(".preview.example.org")
        cookie = ask(url.hostname, f"{url.path}?{url.query}")[0].split("|")[1]
        wait_until(lambda: ask(url.hostname, "/", cookie) == inside, 60, f"the preview answers: {ask(url.hostname, '/', cookie)}")
    # An Ingress of the sandbox's own.
    (port,) = json.loads(service.inside("tendon", "--json", "port", box))
    name = urllib.parse.urlsplit(port["url"]).hostname
    assert name.endswith(".people.example.org")
    wait_until(lambda: ask(name, "/") == inside, 60, f"the port answers: {ask(name, '/')}")
    for one in (shut, box, bridge):
        service.remove(one)
    cluster.kubectl("delete", "pod", "plain", "--grace-period=1")

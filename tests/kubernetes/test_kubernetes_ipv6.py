"""Clusters whose node, pods and services have addresses of IPv6 alone, or of both families: sandboxes through the API server's proxy and by the
address of their pod, ports of people, and a gate with an internet of the test's own behind it."""

import json
import subprocess

import pytest

import outside
from gate_world import Outside
from kube_world import run_cluster
from test_kubernetes_gate import Running, Tendon, answer, images, make, pending, run, service  # noqa: F401
from test_kubernetes_reach import RULES, InsideWorld, inside, reached_by  # noqa: F401
from test_runtime_use import test_exec_hears_both_streams_and_knows_no_shell, test_file_actions  # noqa: F401

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["IPv6", "both"])
def cluster(request):
    yield from run_cluster("1.34", request.param)


def test_by_the_proxy(cluster, world, box):
    """Of a server that is https://[::1]:PORT where there is nothing else."""
    assert cluster.server.startswith("https://[::1]:" if len(cluster.nodes) == 1 else "https://127.0.0.1:")
    assert box.ok("echo hi >file; cat file").strip() == "hi"
    families = {":" in entry["ip"] for entry in world.pod(box)["status"]["podIPs"]}
    assert families == {":" in node for node in cluster.nodes}
    box.ok("busybox httpd -p [::]:3000 -h /etc")
    assert "root:" in box("dial", port=3000, send="GET /group HTTP/1.0\r\n\r\n")["received"]
    box.drive("stopped")
    assert box.drive("running") == "running" and box.ok("cat file").strip() == "hi"


def test_by_the_address_of_the_pod(cluster, inside):  # noqa: F811
    """From a pod, whose KUBERNETES_SERVICE_HOST is an address of IPv6."""
    world = inside(RULES)
    box = world.new(world.open())
    place, ip = box("inspect"), world.pod(box)["status"]["podIP"]
    where = f"[{ip}]" if ":" in ip else ip
    assert reached_by(place) == "the pod's address" and place["address"].startswith(f"proven:{where}:8080#"), place
    assert box.ok("echo hi").strip() == "hi"
    # Whichever of its addresses somebody has.
    for entry in world.pod(box)["status"]["podIPs"]:
        where = f"[{entry['ip']}]" if ":" in entry["ip"] else entry["ip"]
        asked = cluster.inside("busybox", "wget", "-q", "-O", "-", f"http://{where}:8080/alive")
        assert asked.returncode == 0, asked.stderr


@pytest.fixture(scope="module")
def wire(cluster, tmp_path_factory):
    """An internet behind the node, with a way back to its pods."""
    internet = Outside(tmp_path_factory.mktemp("internet"))
    there = internet.process.pid
    node, far = (["nsenter", f"--net=/proc/{pid}/ns/net", "ip"] for pid in (cluster.first, there))
    ends = {4: ("198.51.100.2", "198.51.100.1", 24), 6: ("2001:db8:1::2", "2001:db8:1::1", 64)}
    words = [[*node, "link", "add", "m0", "type", "veth", "peer", "name", "w0", "netns", str(there)],
             [*node, "link", "set", "m0", "up"], [*far, "link", "set", "w0", "up"]]  # fmt: skip
    for pods in cluster.pods:
        near, gate, bits = ends[6 if ":" in pods else 4]
        more = ["nodad"] if ":" in pods else []
        words += [[*node, "addr", "add", f"{near}/{bits}", "dev", "m0", *more], [*far, "addr", "add", f"{gate}/{bits}", "dev", "w0", *more],
                  [*far, "route", "add", pods, "via", near], [*node, "route", "add", "default", "via", gate]]  # fmt: skip
    for command in words:
        subprocess.run(command, check=True, timeout=30)
    wire = type("Wire", (), {"internet": internet})
    yield wire
    internet.process.kill()
    internet.process.wait(30)


TRY = """
import socket
def tcp(host, port=80, device=None):
    came = "nothing"
    for family, kind, _, _, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        s = socket.socket(family, kind)
        s.settimeout(8)
        try:
            if device: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
            s.connect(where)
            s.sendall(b"GET / HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n" % host.encode())
            return "answer" if s.recv(100) else "closed"
        except OSError as problem:
            came = type(problem).__name__
    return came
def said(*call):
    try: return tcp(*call)
    except OSError as problem: return type(problem).__name__
"""


def test_a_gate(cluster, world, tendon_program, wire, images):  # noqa: F811
    tendon = Tendon(world, tendon_program, wire)
    box = tendon.new("--network", "allow", "--allow", "six.test", "--allow", "good.test").stdout.strip()
    names = ["six.test", "good.test"]
    assert tendon.python(box, TRY + f"print(*map(said, {names}))") == "answer answer"
    evil = [("evil.test",), (outside.EVIL6,), (outside.EVIL6, 80, b"eth0"), ("fd99::1", 10250), ("64:ff9b::a01:203",), (outside.NAMES6, 53)]
    told = tendon.python(box, TRY + f"for call in {evil}: print(said(*call))").splitlines()
    assert len(told) == len(evil) and "answer" not in told, told
    assert not [line for line in wire.internet.lines() if outside.EVIL6 in line or outside.EVIL in line]
    refused = json.loads(tendon("--json", "network", box).stdout)
    assert any(r["what"].startswith(("evil.test", outside.EVIL6, f"[{outside.EVIL6}")) for r in refused["refusals"]), refused
    tendon("rm", "--all", "--quiet")


def test_somebody_is_asked(world, wire, service):  # noqa: F811
    """About a name that has an address of IPv6 alone, and one that has both."""
    admin = service.client()
    box = make(admin, image="python:1", hand_args=["--shell", "sh"], network="allow", allow=["good.test"], ask=True)
    script = "cat > /tmp/try.py <<'END'\n" + TRY.replace("settimeout(8)", "settimeout(100)") + "\nimport sys\nprint(tcp(sys.argv[1]))\nEND"
    assert run(admin, box, script)["extras"]["metadata"]["exit_code"] == 0
    since = len(wire.internet.lines())
    for name in ("six.test", "evil.test"):
        asking = Running(service.client(), box, f"python3 /tmp/try.py {name}")
        (one,) = pending(admin, box)
        assert one["rule"] == name and not [line for line in wire.internet.lines()[since:] if name in line]
        answer(admin, box, one).ok()
        assert asking.end() == (0, "answer")

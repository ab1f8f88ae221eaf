"""A connection that no rule allows waits while somebody is asked: through a real service on the machine of gate_world."""

import json
import os
import pathlib
import signal
import socket
import struct
import sys
import threading
import time

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(TESTS / "service"))

import outside  # noqa: E402
from native import at, make  # noqa: E402
from service_there import ServiceThere  # noqa: E402
from services import PATIENCE, eventually, maker  # noqa: E402

RESET = (55, 56)  # of curl: while it sent, while it waited for an answer
GET = "curl -sS -m 50 http://{}/"
POLICY = """
[[rule]]
name = "known-good"
risk = "low"
text = "a mirror of ours"
action = "network"
url = "www.good.test"

[[rule]]
name = "known-bad"
risk = "high"
text = "a place where data is collected"
action = "network"
url = "evil.test"
"""


@pytest.fixture(scope="module")
def service(world, tmp_path_factory):
    service = ServiceThere(world, tmp_path_factory.mktemp("ask"), settings={"jail.ask_seconds": 45}).start()
    yield service
    service.finish()


@pytest.fixture
def own_service(world, tmp_path):
    """own_service(config=, setting=...) -> a service of the test's own, started."""
    yield from maker(lambda base, config=None, **settings: ServiceThere(world, base, settings=settings, config=config).start(), tmp_path)


@pytest.fixture
def box(service):
    admin = service.client()
    box = make(admin, network="allow", allow=["good.test"], ask=True)
    yield box
    admin.delete(at(box))


class Running:
    """A command in a sandbox, in a thread."""

    def __init__(self, client, box, command, session=None):
        self.client, self.answer = client, None
        body = {"action": {"action": "run", "args": {"command": command, "session": session}, "timeout": 55}}
        self.thread = threading.Thread(target=self.run, args=(at(box, "/actions"), body))
        self.thread.start()

    def run(self, path, body):
        try:
            self.answer = self.client.post(path, body)
        except OSError as problem:  # the service was killed
            self.answer = problem

    def end(self):
        """Its exit code and what it said."""
        self.thread.join(PATIENCE + 20)
        assert not self.thread.is_alive()
        told = self.answer.ok().json
        return told["extras"]["metadata"]["exit_code"], told["content"]


def curl(service, box, host, client=None):
    return Running(client or service.client(), box, GET.format(host))


def pending(client, box, count=1):
    def look():
        waiting = client.get(at(box, "/pending")).ok().json["pending"]
        return (waiting,) if len(waiting) == count else None

    return eventually(look, f"{count} questions")[0]


def answer(client, box, one, what="confirm", **more):
    return client.post(at(box, f"/pending/{one['id']}"), {"answer": what, **more})


def network(client, box):
    return client.get(at(box, "/network")).ok().json


def looked_up(world, name, since):
    return any(line.startswith(f"name {name} ") for line in world.internet.lines()[since:])


def test_asked_and_allowed_and_asked_again(world, service, box):
    admin, since = service.client(), len(world.internet.lines())
    asking = curl(service, box, "evil.test")
    (one,) = pending(admin, box)
    assert one["action"]["action"] == "network" and one["rule"] == "evil.test"
    assert {key: one["action"]["args"][key] for key in ("host", "port", "protocol")} == {
        "host": "evil.test",
        "port": 80,
        "protocol": "tcp",
    }
    assert one["verdict"]["decision"] == "ask" and 0 < one["until"] - one["asked"] <= 45
    assert not looked_up(world, "evil.test", since), "a name left before anybody allowed it"
    told = answer(admin, box, one).ok().json
    assert told["observation"]["observation"] == "success" and "evil.test:80" in told["observation"]["content"]
    assert asking.end() == (0, "GET evil.test / 0") and looked_up(world, "evil.test", since)
    world.internet.wait(f"http {outside.EVIL} GET evil.test / 0", since)
    assert network(admin, box)["rules"] == ["good.test"]
    again = curl(service, box, "evil.test")
    (other,) = pending(admin, box)
    assert other["id"] != one["id"]
    answer(admin, box, other).ok()
    assert again.end()[0] == 0
    events = admin.get(at(box, "/events")).ok().json["events"]
    asked = [e["args"].get("confirmation_state", "confirmed") for e in events if e.get("action") == "network"]
    assert asked == ["awaiting_confirmation", "confirmed"] * 2


def test_refused(world, service, box):
    admin, since = service.client(), len(world.internet.lines())
    asking = curl(service, box, "evil.test")
    (one,) = pending(admin, box)
    answer(admin, box, one, "reject", reason="not there").ok()
    assert asking.end()[0] in RESET
    assert not looked_up(world, "evil.test", since)
    (refusal,) = network(admin, box)["refusals"]
    assert refusal["what"] == "evil.test:80" and refusal["why"].startswith("no rule, and ")
    assert refusal["rule"] == "evil.test:80"


def test_nobody_answers(world, own_service):
    service = own_service(**{"jail.ask_seconds": 2})
    admin, since = service.client(), len(world.internet.lines())
    box = make(admin, network="allow", allow=["good.test"], ask=True)
    asking = curl(service, box, "evil.test")
    assert asking.end()[0] in RESET
    pending(admin, box, 0)
    assert not looked_up(world, "evil.test", since)
    assert network(admin, box)["refusals"][0]["what"] == "evil.test:80"
    assert Running(admin, box, GET.format("good.test")).end()[0] == 0


def test_allowed_with_a_rule(world, service, box):
    admin = service.client()
    asking = curl(service, box, "evil.test")
    (one,) = pending(admin, box)
    assert answer(admin, box, one, "reject", rule=True).status == 422
    assert [p["id"] for p in pending(admin, box)] == [one["id"]]
    told = answer(admin, box, one, rule=True).ok().json
    assert told["observation"]["observation"] == "success"
    assert asking.end()[0] == 0
    assert network(admin, box)["rules"] == ["good.test", "evil.test"]
    assert curl(service, box, "evil.test").end()[0] == 0
    assert pending(admin, box, 0) == []


def test_a_rule_lets_through_what_waits(service, box):
    admin = service.client()
    asking = curl(service, box, "evil.test")
    pending(admin, box)
    admin.patch(at(box, "/network"), {"allow": ["evil.test"]}).ok()
    assert asking.end()[0] == 0
    pending(admin, box, 0)


def test_many_at_once_are_one_question(service, box):
    admin = service.client()
    first = curl(service, box, "evil.test")
    (one,) = pending(admin, box)
    before = sockets(service, box)
    script = "for i in 1 2 3 4; do curl -sS -m 50 http://evil.test/$i & done; wait"
    others = Running(service.client(), box, script, session="others")
    eventually(lambda: sockets(service, box) >= before + 4, "they wait, too")
    assert [question["id"] for question in pending(admin, box)] == [one["id"]]
    answer(admin, box, one).ok()
    assert first.end()[0] == 0
    code, text = others.end()
    lines = sorted(line for line in text.splitlines() if line.startswith("GET"))
    assert code == 0 and lines == [f"GET evil.test /{i} 0" for i in range(1, 5)]


def sockets(service, box):
    """How many the gate of the box has."""
    pid = gate_of(service, box)
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return len([link for link in links if link.startswith("socket:")])


def gate_of(service, box):
    return json.loads(ask_keeper(service, box, b"network\n")[0])["gate"]


def ask_keeper(service, box, request):
    """What the keeper of the box answers, and its process."""
    (path,) = service.state.glob(f"**/{box['id']}/keeper.sock")
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(str(path))
        (pid,) = struct.unpack_from("i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        s.sendall(request)
        text = b""
        while part := s.recv(65536):
            text += part
    return text, pid


def test_too_many_questions(service, box):
    admin = service.client()
    script = "for i in $(seq 20); do curl -sS -m 50 http://x$i.test/ >/dev/null 2>&1 & done; wait -n; echo first; wait"
    asking = Running(service.client(), box, script)
    waiting = pending(admin, box, 16)
    assert len({p["action"]["args"]["host"] for p in waiting}) == 16
    eventually(lambda: any("too many" in r["why"] for r in network(admin, box)["refusals"]), "the rest is refused")
    for one in waiting:
        answer(admin, box, one, "reject").ok()
    asking.end()


MANY = """
import select, socket, time
HOST, COUNT, HELD = {!r}, {}, {}
all_of = []
for i in range(COUNT):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((HOST, 80))
    all_of.append(s)
poll = select.poll()
for s in all_of:
    poll.register(s, 0)  # of resets alone
until, ended = time.monotonic() + 40, set()
while len(ended) < COUNT - HELD and time.monotonic() < until:
    for fd, _ in poll.poll(1000):
        ended.add(fd)
        poll.unregister(fd)
print('ended', len(ended), flush=True)
while len(ended) < COUNT and time.monotonic() < until:
    for fd, _ in poll.poll(1000):
        ended.add(fd)
        poll.unregister(fd)
print('ended', len(ended), flush=True)
"""


def test_too_many_connections(service, box):
    """256 wait for an answer, of one question; the others are refused, and what has a rule passes meanwhile."""
    admin = service.client()
    script = "cat > /tmp/many.py <<'END'" + MANY.format("evil.test", 300, 256) + "END\npython3 /tmp/many.py > /tmp/many &"
    assert Running(admin, box, script).end()[0] == 0
    said = lambda: Running(admin, box, "cat /tmp/many", session="look").end()[1].split()  # noqa: E731
    eventually(lambda: said()[:2] == ["ended", "44"], "those beyond 256 are refused")
    (one,) = pending(admin, box)
    assert any("too many others wait" in r["why"] for r in network(admin, box)["refusals"])
    assert Running(admin, box, GET.format("good.test")).end()[0] == 0
    answer(admin, box, one, "reject").ok()
    eventually(lambda: said()[2:4] == ["ended", "300"], "the rest is refused by the answer")


def test_too_many_questions_one_after_the_other(own_service, tmp_path):
    """Each is answered at once by a rule: 32 are asked, then one every two seconds, and the others nobody hears of."""
    rules = tmp_path / "rules.toml"
    rules.write_text(POLICY.replace('"evil.test"', '"*.test"'))
    service = own_service(**{"security.analyzers": "policy", "security.policies": rules, "security.default_policy": "false"})
    admin, began = service.client(), time.monotonic()
    box = make(admin, network="allow", allow=["good.test"], ask=True)
    script = "for i in $(seq 60); do curl -sS -m 20 http://x$i.test/ >/dev/null 2>&1; done"
    Running(admin, box, script).end()
    took = time.monotonic() - began
    asked = [e for e in admin.get(at(box, "/events?limit=1000")).ok().json["events"] if e.get("action") == "network"]
    assert 32 <= len(asked) <= 33 + took / 2
    assert any("too many others were asked about lately" in r["why"] for r in network(admin, box)["refusals"])
    assert Running(admin, box, GET.format("good.test")).end()[0] == 0


def test_too_many_questions_of_a_tenant(own_service):
    """64 wait, however many sandboxes it has; another tenant is asked all the same."""
    service = own_service(**{"jail.ask_seconds": 600})
    acme, other = service.tenant("acme"), service.tenant("other")
    boxes = [make(acme, network="allow", allow=["good.test"], ask=True) for _ in range(5)]
    script = "for i in $(seq 16); do curl -sS -m 600 http://x$i.test/ >/dev/null 2>&1 & done"
    for box in boxes:
        assert Running(acme, box, script).end()[0] == 0
    waiting = lambda: acme.get("/v1/pending").ok().json["pending"]  # noqa: E731
    refused = lambda: sum(r["count"] for box in boxes for r in network(acme, box)["refusals"])  # noqa: E731
    eventually(lambda: len(waiting()) == 64 and refused() == 16, "64 wait, and the rest is refused")
    theirs = make(other, network="allow", allow=["good.test"], ask=True)
    asking = curl(service, theirs, "evil.test", service.client(other.key))
    (one,) = pending(other, theirs)
    answer(other, theirs, one).ok()
    assert asking.end()[0] == 0
    first = waiting()[0]
    answer(acme, {"id": first["sandbox"]}, first, "reject").ok()
    again = []  # the room is given back a moment after the answer was taken

    def waits_now():
        if not again or not again[-1].thread.is_alive():
            again.append(curl(service, boxes[4], "evil.test", service.client(acme.key)))
        return any(p["action"]["args"]["host"] == "evil.test" for p in waiting())

    eventually(waits_now, "there is room again")
    acme.delete(at(boxes[4]))
    again[-1].thread.join(PATIENCE)


HALF = """
import socket
s = socket.create_connection(({!r}, 80))
s.sendall(b'GET / HTTP/1.0\\r\\nHost: evil.test\\r\\n\\r\\n')
s.shutdown(socket.SHUT_WR)
open('/tmp/half', 'w').write('half')
s.settimeout({})
said = b''
while part := s.recv(4096):
    said += part
print(said.decode().splitlines()[-1])
"""


@pytest.mark.parametrize("host", ["evil.test", outside.EVIL6])
def test_a_client_that_has_said_all_still_waits(service, box, host):
    """One that ends what it sends is not gone; one that is gone withdraws its question, also after that."""
    admin = service.client()
    asking = Running(service.client(), box, f"python3 <<'END'\n{HALF.format(host, 50)}END")
    (one,) = pending(admin, box)
    half = lambda: Running(admin, box, "cat /tmp/half", session="look").end()[1].strip() == "half"  # noqa: E731
    eventually(half, "the client has said all")
    until = time.monotonic() + 2  # it is looked for twice a second
    while time.monotonic() < until:
        assert [p["id"] for p in pending(admin, box)] == [one["id"]]
    answer(admin, box, one).ok()
    code, text = asking.end()
    assert code == 0 and text.startswith("GET "), text
    gone = Running(service.client(), box, f"python3 <<'END'\n{HALF.format(host, 3)}END")
    pending(admin, box)
    assert gone.end()[0] != 0
    pending(admin, box, 0)


def test_a_client_that_gives_up(service, box):
    asking = Running(service.client(), box, "curl -sS -m 3 http://evil.test/")
    pending(service.client(), box)
    assert asking.end()[0] == 28
    pending(service.client(), box, 0)


def test_other_ways_out_stay_closed(world, service, box):
    """Near addresses, datagrams, and other names on the connection that was allowed."""
    admin, since = service.client(), len(world.internet.lines())
    for target in (outside.PRIVATE, outside.METADATA, "127.0.0.53:81"):
        assert Running(admin, box, GET.format(target)).end()[0] != 0
    send = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.connect(('evil.test', 9)); s.send(b'x')"
    assert Running(admin, box, f'python3 -c "{send}; s.settimeout(5); s.recv(9)"').end()[0] != 0
    assert pending(admin, box, 0) == []
    asking = Running(service.client(), box, "curl -sS -m 50 -w '%{http_code}' -H 'Host: other.test' http://evil.test/")
    (one,) = pending(admin, box)
    answer(admin, box, one).ok()
    assert asking.end()[1].endswith("403")
    private = curl(service, box, "private.test")
    (one,) = pending(admin, box)
    answer(admin, box, one).ok()
    assert private.end()[0] in RESET
    assert not any(outside.PRIVATE in line for line in world.internet.lines()[since:])


def test_an_address_is_asked_about_as_what_it_is(service, box):
    admin = service.client()
    asking = curl(service, box, outside.EVIL)
    (one,) = pending(admin, box)
    assert one["action"]["args"]["host"] == outside.EVIL and one["rule"] == f"{outside.EVIL}:80"
    answer(admin, box, one).ok()
    assert asking.end()[0] == 0


def test_two_tenants(world, own_service):
    """The other one sees and answers nothing; a tenant allows only what it could have a rule for."""
    service = own_service(**{"jail.network": "allow", "jail.allow": "good.test,www.good.test"})
    acme, other, admin = service.tenant("acme"), service.tenant("other"), service.client()
    box = make(acme, allow=["good.test"], ask=True)
    asking = curl(service, box, "evil.test", service.client(acme.key))
    (one,) = pending(acme, box)
    assert other.get(at(box, "/pending")).status == 404 and answer(other, box, one).status == 404
    refused = answer(acme, box, one)
    assert refused.status == 403 and "more than the operator allows" in refused.text
    assert [p["id"] for p in pending(acme, box)] == [one["id"]]
    answer(admin, box, one).ok()
    assert asking.end()[0] == 0
    asking = curl(service, box, "www.good.test", service.client(acme.key))
    (one,) = pending(acme, box)
    answer(acme, box, one, rule=True).ok()
    assert asking.end()[0] == 0


def test_a_verdict_without_a_person(world, own_service, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text(POLICY)
    service = own_service(**{"security.analyzers": "policy", "security.policies": rules, "security.default_policy": "false"})
    admin, since = service.client(), len(world.internet.lines())
    box = make(admin, network="allow", allow=["good.test"], ask=True)
    assert curl(service, box, "www.good.test").end()[0] == 0
    assert curl(service, box, "evil.test").end()[0] in RESET and not looked_up(world, "evil.test", since)
    asking = curl(service, box, "one.cdn.test")  # of which no rule says anything
    (one,) = pending(admin, box)
    answer(admin, box, one, "reject").ok()
    assert asking.end()[0] in RESET


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_the_service_is_started_again(world, own_service, kill):
    service = own_service()
    admin, since = service.client(), len(world.internet.lines())
    box = make(admin, network="allow", allow=["good.test"], ask=True)
    script = f"({GET.format('evil.test')} >/tmp/said 2>&1; echo $? >/tmp/code) &"
    assert Running(admin, box, script).end()[0] == 0
    (one,) = pending(admin, box)
    service.restart(kill=kill)
    admin = service.client()
    code = "for i in $(seq 300); do test -s /tmp/code && break; sleep 0.1; done; cat /tmp/code"
    assert Running(admin, box, code).end()[1][:2] in map(str, RESET)
    assert pending(admin, box, 0) == []
    assert answer(admin, box, one).status == 409
    assert not looked_up(world, "evil.test", since)
    asking = curl(service, box, "evil.test")
    (one,) = pending(admin, box)
    answer(admin, box, one).ok()
    assert asking.end()[0] == 0


def test_the_gate_is_killed(world, service, box):
    admin, since = service.client(), len(world.internet.lines())
    asking = curl(service, box, "evil.test")
    (one,) = pending(admin, box)
    os.kill(gate_of(service, box), signal.SIGKILL)
    assert asking.end()[0] in RESET
    pending(admin, box, 0)
    assert answer(admin, box, one).status == 409 and not looked_up(world, "evil.test", since)
    asking = curl(service, box, "evil.test")
    (one,) = pending(admin, box)
    answer(admin, box, one).ok()
    assert asking.end()[0] == 0


def test_the_keeper_is_killed(world, service, box):
    admin, since = service.client(), len(world.internet.lines())
    assert Running(admin, box, f"{GET.format('evil.test')} >/dev/null 2>&1 &").end()[0] == 0
    (one,) = pending(admin, box)
    keeper = ask_keeper(service, box, b"status\n")[1]
    os.kill(keeper, signal.SIGKILL)
    pending(admin, box, 0)
    assert answer(admin, box, one).status == 409 and not looked_up(world, "evil.test", since)


def test_on_the_command_line(service, box):
    asking = curl(service, box, "evil.test")
    (one,) = pending(service.client(), box)
    shown = service.tendon("confirm", box["id"])
    assert f"Action {one['id']}" in shown.stderr and "Connecting to evil.test:80" in shown.stderr
    done = service.tendon("confirm", box["id"], str(one["id"]), "--yes", "--rule")
    assert done.returncode == 0 and "evil.test:80 was let through" in done.stdout, done
    assert asking.end()[0] == 0
    assert "evil.test" in network(service.client(), box)["rules"]


def test_where_nobody_can_be_asked_it_is_refused_at_once(world):
    box = world.box("allow", "good.test", flags=["--ask"])
    assert box.sh("curl -sS -m 50 http://evil.test/").returncode == 6
    assert box.network()["refusals"][0]["what"] == "the name evil.test"
    refused = world.tendon("new", "--runtime", "jail", "--network", "open", "--ask", check=False)
    assert refused.returncode != 0 and "ask: expected network allow" in refused.stderr

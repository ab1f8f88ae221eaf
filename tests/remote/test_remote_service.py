"""Sandboxes of a real service: what only a Tendon has, and the whole program over it."""

import json
import threading
import urllib.request

import pytest

from conformance import Refusal, wait_until
from remote_worlds import ServiceWorld

PROMPT = r"[$#] "
SERVER = "python3 -u -m http.server 0 --bind 127.0.0.1 --directory /usr/share 2>&1"


@pytest.fixture(scope="module")
def world(service):
    world = ServiceWorld(service)
    yield world
    world.finish()


@pytest.fixture(scope="module")
def driver(world):
    return world.open()


@pytest.fixture
def tendon(make_tendon, service, request):
    """With a key of an ordinary tenant."""
    return make_tendon(service.url, service.make_key(request.node.name[:60], "--tenant", "remote")["key"])


# --- what a Tendon has -------------------------------------------------------------------------------


def test_snapshot_rollback_and_fork(world, driver):
    box = world.new(driver)
    box.ok("echo one >file")
    box("snapshot", name="first")
    box.ok("echo two >file")
    child = world.new(driver, create=False)
    assert box("fork", name="first", child=child.id)["status"] == "running"
    assert (box.ok("cat file"), child.ok("cat file")) == ("two", "one")
    assert box("rollback", name="first")["status"] == "running"
    assert box.ok("cat file") == "one"
    box("forget", name="first")
    with pytest.raises(Refusal) as refusal:
        box("rollback", name="first")
    assert refusal.value.code == "not_found"
    assert set(driver("list")["ids"]) >= {box.id, child.id}


def test_a_fork_with_variables_of_its_own(world, driver):
    box = world.new(driver, env={"OF": "parent", "ONLY": "there"})
    for env, told in (({"OF": "child"}, "child"), ({"OF": "parent", "ONLY": "there"}, "parentthere")):
        child = world.new(driver, create=False, env=env)
        assert box("fork", name=None, child=child.id)["status"] == "running"
        assert child.ok("echo $OF$ONLY") == told


def test_a_fork_that_would_be_bounded_otherwise(world, driver):
    """The service copies the parent's spec: what is to differ is refused, and not passed over."""
    box = world.new(driver)
    for name, value in (("memory", "64m"), ("network", "none"), ("isolation", "gvisor")):
        child = world.new(driver, create=False, **{name: value})
        with pytest.raises(Refusal) as refusal:
            box("fork", name=None, child=child.id)
        assert refusal.value.code == "unsupported" and f"{name}: a fork of a remote sandbox" in refusal.value.text


def test_a_name_and_marks_that_people_of_the_service_see(world, driver, service):
    box = world.new(driver, name="somebodys")
    (shown,) = [b for b in service.client().get("/v1/sandboxes").ok().json["sandboxes"] if b["name"] == "somebodys"]
    assert shown["metadata"]["tendon.id"] == box.id and shown["session"].endswith("-" + box.id)


def test_what_is_waited_for_in_a_line(world, driver):
    """Many at once: each is told of by a long poll."""
    boxes = [world.new(driver, create=False) for _ in range(6)]
    others = [world.open() for _ in boxes]
    threads = [threading.Thread(target=box.seen_by(other).create) for box, other in zip(boxes, others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [box.status() for box in boxes] == ["running"] * 6


def test_an_action_survives_the_service(world, driver, service):
    """kill -9 of the service under an action: it is asked for again, and has run once."""
    box = world.new(driver)
    result = []
    command = "echo x >>count; touch begun; until [ -e go ]; do sleep 0.02; done; wc -l <count"
    thread = threading.Thread(target=lambda: result.append(box.run(command, timeout=60)))
    thread.start()
    other = box.seen_by(world.open())
    wait_until(lambda: other.run("[ -e begun ]", session="other")[0] == 0, what="it has begun")
    service.restart(kill=True)
    other.ok("touch go", session="other")
    thread.join()
    assert [(code, text.strip()) for code, text in result] == [(0, "1")]


def test_the_service_forgets_it(world, driver, service):
    box = world.new(driver)
    ref = box("inspect")["ref"]
    service.client().delete(f"/v1/sandboxes/{ref['id']}").ok(204)
    assert box.status() == "missing"
    assert box.drive("gone") == "missing"


# --- the program -------------------------------------------------------------------------------------


def name_a_limit(tendon, rest):
    assert tendon("new", "--name", "small", "--memory", "64m").returncode == 0
    bomb = tendon("exec", "small", f"head -c 300m /dev/zero | tail >/dev/null{rest}")
    assert bomb.returncode == 137 and bomb.stderr.count("The sandbox reports: out of memory: ") == 1, bomb
    assert tendon("exec", "small", "false").returncode == 1
    events = [json.loads(line) for line in tendon("events", "small", "--json").stdout.splitlines()]
    suffixes = [e["extras"]["metadata"]["suffix"] for e in events if e.get("observation") == "run"]
    told = [suffix.count("The sandbox reports: ") for suffix in suffixes]
    assert sum(told) == 1 and told[-1] == 0, suffixes


def test_a_limit_is_named_once_by_service_and_client(tendon):
    """Both look; the client adds nothing to what the service has told."""
    name_a_limit(tendon, "")


def test_a_limit_is_named_when_the_command_went_on(tendon):
    """What an observation before the last one told is shown."""
    name_a_limit(tendon, "; sleep 1; exit 137")


def test_the_program_over_a_service(tendon, screen, tmp_path):
    tendon.ok("new", "--name", "web")
    assert tendon.ok("exec", "web", "echo hello") == "hello\n"
    result = tendon("exec", "-i", "web", "cat; exit 3", stdin="typed\n")
    assert (result.stdout, result.returncode) == ("typed\n", 3)

    (tmp_path / "file").write_text("mine")
    tendon.ok("cp", str(tmp_path / "file"), "web:/tmp/file")
    tendon.ok("cp", "web:/tmp/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "mine"

    shell = screen(tendon, "shell", "web")
    shell.wait_for(PROMPT)
    shell.type("echo $((6 * 7)); exit 7\r")
    shell.wait_for(r"\n\r?42\r")
    assert shell.wait() == 7

    server = tendon.start("exec", "web", SERVER)
    port = server.stdout.readline().split("port ")[1].split()[0]
    forward = tendon.start("port", "web", f"0:{port}")
    with urllib.request.urlopen(f"http://{forward.stdout.readline().split()[0]}/", timeout=30) as page:
        assert page.status == 200 and b"doc/" in page.read()
    for process in (forward, server):
        process.terminate()
        process.communicate(timeout=30)

    tendon.ok("snapshot", "web", "s1")
    tendon.ok("pause", "web")
    assert tendon.json("ls")[0]["status"] == "paused"
    tendon.ok("resume", "--quiet", "web")
    tendon.ok("fork", "web", "--name", "twin")
    assert tendon.ok("exec", "twin", "cat /tmp/file") == "mine"
    assert "listening" in tendon.ok("logs", "web")


def test_a_tenant_may_not_reach_into_the_machine(tendon):
    complaint = tendon.fails(77, "new", "--device", "/dev/null")
    assert "devices" in complaint and "SANDBOX_API_KEY" not in complaint


def test_the_doctor(tendon):
    assert "speaks the native API" in tendon("doctor", "--runtime", "remote").stdout


def test_the_key_is_nowhere(tendon, service):
    tendon.ok("new", "--name", "web")
    key = tendon.env["SANDBOX_API_KEY"]
    assert key not in json.dumps(tendon.json("inspect", "web"))
    for path in tendon.state.rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes(), path
    assert key not in service.log()

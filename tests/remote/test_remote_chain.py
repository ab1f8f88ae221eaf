"""A service before a service: `tendon serve` whose sandboxes are those of another one, in both dialects and over TLS."""

import os
import time

import pytest
from native import at, make, run, run_action
from services import Service, eventually, example_runtime, self_signed

SERVER = "setsid -f python3 -m http.server {port} --bind 127.0.0.1 --directory /tmp/site >/dev/null 2>&1 </dev/null"


@pytest.fixture(scope="module", params=["native", "openhands", "native over TLS"])
def chain(request, tmp_path_factory):
    """(the service in front, the one behind)."""
    judges = {"TENDON_SECURITY_ANALYZERS": "policy", "TENDON_SECURITY_CONFIRMATION": "never"}
    behind = Service(tmp_path_factory.mktemp("behind"), env=judges)
    doctor = behind.tendon("doctor", "--runtime", "jail")
    if doctor.returncode:
        behind.ids.stop()
        pytest.skip(f"the jail does not work here: {doctor.stdout}{doctor.stderr}")
    env = {"TENDON_REMOTE_DIALECT": request.param.split()[0]}
    if request.param.endswith("TLS"):
        cert, key, behind.context = self_signed(tmp_path_factory.mktemp("tls"))
        behind.settings.update(tls_cert=cert, tls_key=key)
        env["SSL_CERT_FILE"] = str(cert)
    behind.start()
    front = Service(
        tmp_path_factory.mktemp("front"),
        runtime="remote",
        env={**env, "SANDBOX_API_KEY": behind.admin, "SANDBOX_REMOTE_RUNTIME_API_URL": behind.url},
    ).start()
    yield front, behind
    front.finish()
    behind.finish()


@pytest.fixture
def box(chain):
    client = chain[0].tenant("acme")
    made = make(client)
    yield client, made["id"]
    assert client.delete(at(made)).status == 204


def test_actions_and_files(box):
    client, id = box
    assert run(client, id, "echo hello")["content"].strip() == "hello"
    assert client.put(at(id, "/files", path="/tmp/from-here"), b"x" * 100000).status in (200, 201, 204)
    assert run(client, id, "wc -c < /tmp/from-here")["content"].split()[-1] == "100000"
    assert client.get(at(id, "/files", path="/tmp/from-here")).ok().body == b"x" * 100000


def test_the_verdict_of_the_one_behind(box):
    """Nobody judges in front: what the analyzers behind said reaches whoever asked."""
    client, id = box
    told = run(client, id, "rm -rf /")
    assert told["observation"] == "error" and told["verdict"]["decision"] == "block", told
    assert {finding["rule"] for finding in told["verdict"]["findings"]} == {"system-destroy"}
    assert {finding["analyzer"] for finding in told["verdict"]["findings"]} == {"behind: policy"}
    assert "verdict" not in run(client, id, "true")


def test_a_port(box):
    client, id = box
    run(client, id, "mkdir -p /tmp/site && echo from inside > /tmp/site/page")
    run(client, id, SERVER.format(port=8123))

    def page():
        answer = client.get(f"/preview/{id}/8123/page")
        return answer.status == 200 and answer

    assert eventually(page, "the server inside answers").text == "from inside\n"


def test_pause_and_resume(chain, box):
    client, id = box
    run(client, id, "cd /tmp; kept=here")
    client.post(at(id, "/pause")).ok()
    assert client.get(at(id)).ok().json["state"] == "paused"
    client.post(at(id, "/resume")).ok()
    assert run(client, id, "echo $kept in $PWD")["content"].strip() == "here in /tmp"


def test_the_one_in_front_is_killed(chain, box):
    client, id = box
    chain[0].restart(kill=True)
    client.close()
    assert run(client, id, "echo still there")["content"].strip() == "still there"


def test_the_hand_by_its_path(chain, box):
    """As OpenHands reaches it: SERVICE/ID/... with the session key."""
    client, id = box
    started = client.post("/start", {"session_id": "by-path"}).ok().json
    hand = chain[0].stranger(headers={"X-Session-API-Key": started["session_api_key"]})
    answer = hand.post(f"/{started['runtime_id']}/execute_action", run_action("echo by path"))
    assert answer.ok().json["content"].strip() == "by path"
    assert chain[0].stranger().get(f"/{started['runtime_id']}/alive").status == 401
    client.post("/stop", {"runtime_id": started["runtime_id"]}).ok()


def test_nothing_is_left_behind(chain):
    front, behind = chain
    client = front.tenant("brief")
    made = make(client)
    watcher = behind.client()
    assert watcher.get("/v1/sandboxes").ok().json["sandboxes"]
    client.delete(at(made)).ok(204)
    eventually(lambda: not watcher.get("/v1/sandboxes").ok().json["sandboxes"], "it is gone there, too")


@pytest.mark.parametrize("dialect", ["native", "openhands"])
def test_a_pause_where_the_one_behind_can_only_stop(dialect, tmp_path):
    """It is a stop there, and done; the next use, in front, starts the sandbox again, also after both services were killed."""
    for name in ("plugin", "behind", "front"):
        (tmp_path / name).mkdir()
    only_stop = example_runtime(tmp_path / "plugin", "stopper", '            "abilities": ["pause", "stop"],\n', '            **{"abilities": ["stop"]},\n')
    behind = Service(tmp_path / "behind", runtime="stopper", env=only_stop).start()
    env = {"TENDON_REMOTE_DIALECT": dialect, "SANDBOX_API_KEY": behind.admin, "SANDBOX_REMOTE_RUNTIME_API_URL": behind.url}
    front = Service(tmp_path / "front", runtime="remote", env=env).start()
    try:
        client, there = front.client(), behind.client()
        box = client.post("/v1/sandboxes", {"plugins": []}).ok(201).json
        assert run(client, box["id"], "echo kept > kept; cat kept")["content"].strip() == "kept"
        client.post(at(box, "/pause")).ok()
        (behind_box,) = there.get("/v1/sandboxes").ok().json["sandboxes"]
        assert behind_box["state"] == "stopped"
        behind.restart(kill=True)
        front.restart(kill=True)
        client, there = front.client(), behind.client()
        assert run(client, box["id"], "cat kept")["content"].strip() == "kept"
        assert there.get(at(behind_box)).ok().json["state"] == "running"
        assert client.delete(at(box)).status == 204
    finally:
        front.finish()
        behind.finish()


@pytest.mark.parametrize("dialect", ["native", "openhands"])
def test_a_delete_ends_a_start_that_is_waited_for(dialect, tmp_path):
    """Behind, a start that hangs has the only turn: what stands in line there can be given up in front."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    for name in ("plugin", "behind", "front"):
        (tmp_path / name).mkdir()
    env = example_runtime(tmp_path / "plugin", "stuck", "    def create(self, params):\n", f"        open({str(gate)!r}).read()\n")
    behind = Service(tmp_path / "behind", runtime="local", settings={"max_starts": 1}, env=env).start()
    there = behind.client()
    first = there.post("/v1/sandboxes", {"plugins": [], "runtime": "stuck", "wait": 0}).ok(201).json
    env = {"TENDON_REMOTE_DIALECT": dialect, "SANDBOX_API_KEY": behind.admin, "SANDBOX_REMOTE_RUNTIME_API_URL": behind.url}
    front = Service(tmp_path / "front", runtime="remote", env=env).start()
    try:
        client = front.client()
        box = client.post("/v1/sandboxes", {"plugins": [], "wait": 0}).ok(201).json

        def listed():
            return [b["id"] for b in there.get("/v1/sandboxes").ok().json["sandboxes"]]

        eventually(lambda: len(listed()) == 2, "it stands in line behind")
        began = time.monotonic()
        client.delete(at(box)).ok(204)
        assert time.monotonic() - began < 25, "a start may take two minutes, one question half a minute"
        assert listed() == [first["id"]]
    finally:

        def goes_on():
            os.close(os.open(gate, os.O_RDWR))
            return there.get(at(first)).ok().json["state"] == "running"

        eventually(goes_on, "the one that hung has started")
        there.delete(at(first)).ok(204)
        front.finish()
        behind.finish()

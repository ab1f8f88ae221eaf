"""A service on its bad days: nothing is started twice, nothing runs twice, every call ends, and what happened is told."""

import time

import pytest

from conformance import Refusal
from runtime_api import KEY, SESSION_KEY
from services import Service, eventually, maker


def refused(call, *args, **members):
    with pytest.raises(Refusal) as refusal:
        call(*args, **members)
    assert KEY not in refusal.value.text and SESSION_KEY not in refusal.value.text
    return refusal.value


@pytest.fixture
def make_service(tmp_path):
    """make_service(runtime=..., env=...): not started."""
    yield from maker(Service, tmp_path)


# --- starting ----------------------------------------------------------------------------------------


def test_a_start_as_the_specification_has_it(world, driver, api):
    spec = dict(image="img:1", workspace="/work", plugins=["jupyter", "vscode"], env={"A": "b $c"}, user="somebody")
    box = world.new(driver, create=False, **spec)
    api.fault("/start", 400)
    refused(box.create)
    (request,) = api.asked("/start")
    body = request.json
    assert request.headers["x-api-key"] == KEY
    assert body["session_id"].startswith("tendon-") and body["session_id"].endswith("-" + box.id)
    assert body["image"] == "img:1" and body["environment"] == {"A": "b $c"} and body["resource_factor"] == 1
    assert body["working_dir"] == "/openhands/code/" and "runtime_class" not in body
    assert body["command"] == (
        "/openhands/micromamba/bin/micromamba run -n openhands poetry run python -u -m "
        "openhands.runtime.action_execution_server 60000 --working-dir /work --plugins jupyter vscode "
        "--username somebody --user-id 1000"
    ).split(" ")


def test_class_and_factor(own_world, api):
    own_world.settings = {
        "sandbox.remote_runtime_class": "sysbox",
        "sandbox.remote_runtime_resource_factor": "4",
        "core.run_as_openhands": "false",
    }
    box = own_world.new(own_world.open(), create=False)
    api.fault("/start", 400)
    refused(box.create)
    body = api.asked("/start")[0].json
    assert (body["runtime_class"], body["resource_factor"]) == ("sysbox-runc", 4)
    assert body["command"][-4:] == ["--username", "root", "--user-id", "0"]


def test_a_storm_of_429(world, driver, api):
    api.fault("/start", 429, 3)
    api.fault("/list", 429, 3)
    box = world.new(driver)
    assert box.ok("echo works") == "works"
    assert api.count == 1 and len(api.asked("/start")) == 4


def test_retry_after_is_kept_and_not_waited_for_in_vain(world, driver, api):
    api.fault("/start", 429, 1, Retry_After="3600")
    refusal = refused(world.new, driver)
    assert refusal.code == "quota" and len(api.asked("/start")) == 1


def test_who_says_that_it_is_useless_is_not_asked_again(world, driver, api):
    api.fault("/start", 429, 9, X_Should_Retry="false")
    refusal = refused(world.new, driver)
    assert refusal.code == "quota" and "fault 429" in refusal.text and len(api.asked("/start")) == 1


def test_what_nobody_wants_any_more_is_not_waited_for(api, make_service):
    """A start that waits for its turn while its sandbox is deleted."""
    api.fault("/start", 429, 9, Retry_After="100")
    env = {"SANDBOX_API_KEY": KEY, "SANDBOX_REMOTE_RUNTIME_API_URL": api.url}
    service = make_service(runtime="remote", env=env).start()
    made = service.client().post("/v1/sandboxes", {"plugins": [], "wait": 0}).ok(201).json
    eventually(lambda: api.asked("/start"), "the service behind was asked")
    begun = time.monotonic()
    service.client().delete(f"/v1/sandboxes/{made['id']}").ok(204)
    assert time.monotonic() - begun < 30 and len(api.asked("/start")) == 1


def test_the_answer_to_a_start_is_lost(world, driver, api):
    api.fault("/start", "lost")
    box = world.new(driver)
    assert box.ok("echo found") == "found"
    assert api.count == 1


@pytest.mark.parametrize("kind", ["drop", 500, 502, 503, "garbage"])
def test_a_start_that_failed_is_not_sent_again(world, driver, api, kind):
    api.fault("/start", kind)
    refusal = refused(world.new, driver)
    assert len(api.asked("/start")) == 1 and api.count == 0
    assert refusal.code in ("peer", "busy"), refusal


def test_the_same_sandbox_twice_is_one(world, driver, api):
    box = world.new(driver)
    box.create()
    assert api.count == 1


def test_a_slow_start(world, driver, api):
    api.pods = ["pending", "Running", "something new", "ready"]
    box = world.new(driver)
    assert box.status() == "running"
    assert api.count == 1


def test_a_service_that_tells_of_pods_only_when_asked(world, driver, api):
    api.told_pod = False
    api.pods = ["pending", "ready"]
    assert world.new(driver).ok("echo works") == "works"
    assert api.asked("/runtime/*")


def test_a_crash_loop_is_about_memory(world, driver, api):
    api.pods = ["pending", "CrashLoopBackOff"]
    refusal = refused(world.new, driver)
    assert "memory" in refusal.text and "OOMKilled" in refusal.text
    assert "resource_factor" in refusal.text


@pytest.mark.parametrize("word", ["failed", "unknown"])
def test_a_pod_that_failed_is_not_waited_for(world, driver, api, word):
    api.pods = [word]
    assert "failed" in refused(world.new, driver).text


def test_a_start_ends_at_its_deadline(world, driver, api):
    api.pods = ["pending"]
    assert refused(world.new(driver, create=False), "create", timeout=1).code == "timeout"


def test_a_service_that_does_not_answer(world, driver, api):
    box = world.new(driver, create=False)
    api.fault("/start", "hang")
    assert refused(box, "create", timeout=1).code == "timeout"


def test_an_init_timeout_of_its_own(own_world, api):
    own_world.settings = {"sandbox.remote_runtime_init_timeout": "1"}
    api.pods = ["pending"]
    assert refused(own_world.new, own_world.open()).code == "timeout"


def test_an_address_that_makes_no_sense(world, driver, api):
    def nonsense(request):
        return 200, {"runtime_id": "rt-1", "url": "file:///etc/passwd", "pod_status": "ready", "status": "running"}

    api.fault("/start", nonsense)
    assert "where to reach it" in refused(world.new, driver).text


def test_an_id_that_cannot_be_one(world, driver, api):
    api.fault("/start", lambda request: (200, {"runtime_id": "a b\n", "url": api.url}))
    assert refused(world.new, driver).code == "peer"


# --- the key -----------------------------------------------------------------------------------------


def test_a_wrong_key(own_world, api):
    own_world.env["SANDBOX_API_KEY"] = "wrong-key-0123456789"
    own_world.settings = {"remote.dialect": "openhands"}
    driver = own_world.open()
    refusal = refused(own_world.new, driver)
    assert refusal.code == "denied" and "SANDBOX_API_KEY" in refusal.text
    assert "wrong-key-0123456789" not in refusal.text
    

def test_no_key(own_world):
    own_world.env.pop("SANDBOX_API_KEY")
    with pytest.raises(Refusal) as refusal:
        own_world.open()
    assert "SANDBOX_API_KEY" in refusal.value.text
    own_world.drivers.pop().finish()
    

def test_a_service_that_repeats_the_key(world, driver, api):
    api.fault("/start", lambda request: (400, {"detail": f"you said {request.headers['x-api-key']}"}))
    refused(world.new, driver)


def test_the_key_stays_out_of_what_is_kept(world, driver, api):
    box = world.new(driver)
    record = (world.state / "drive" / f"{box.id}.json").read_text()
    assert KEY not in record and SESSION_KEY in record
    assert SESSION_KEY not in str(box("inspect"))
    assert all(KEY not in str(r.headers) for r in api.asked("/r/*"))


def test_no_service(own_world, api):
    own_world.env["SANDBOX_REMOTE_RUNTIME_API_URL"] = "http://127.0.0.1:1"
    with pytest.raises(Refusal) as refusal:
        own_world.open()
    assert refusal.value.code == "peer"
    own_world.drivers.pop().finish()
    for url in ("ftp://x", "http://", "http://a b", "http://u:p@host", "http://host/?q", ""):
        own_world.env["SANDBOX_REMOTE_RUNTIME_API_URL"] = url or "x"
        with pytest.raises(Refusal) as refusal:
            own_world.open()
        assert refusal.value.code == "invalid", url
        own_world.drivers.pop().finish()


# --- actions -----------------------------------------------------------------------------------------

ONCE = "echo x >>count; wc -l <count"
ACTION = "*/execute_action"


def actions(api):
    return [r for r in api.requests if r.path.endswith("/execute_action")]


@pytest.mark.parametrize("kind", ["lost", "drop", 502, 504])
def test_an_action_is_asked_for_again_but_runs_once(world, driver, api, kind):
    box = world.new(driver)
    api.fault(ACTION, kind)
    assert box.ok(ONCE).strip() == "1"
    assert box.ok("wc -l <count").strip() == "1"
    *same, last = [r.headers["idempotency-key"] for r in actions(api)]
    assert len(same) >= 2 and set(same) == {same[0]} != {last}


def test_whose_hand_it_is_is_asked_until_it_is_known(world, driver, api):
    box = world.new(driver)
    for kind in ("drop", 502):
        api.fault("*/v1/routes", kind)
    api.fault(ACTION, "lost")
    assert box.ok(ONCE).strip() == "1"


@pytest.mark.parametrize("kind", ["lost", "drop", 502, 504])
def test_a_hand_of_others_is_never_asked_twice(world, driver, api, kind):
    api.foreign = True
    box = world.new(driver)
    api.fault(ACTION, kind)
    refused(box.run, ONCE)
    (request,) = actions(api)
    assert "idempotency-key" not in request.headers
    assert box.ok("cat count 2>/dev/null | wc -l").strip() == ("1" if kind == "lost" else "0")


@pytest.mark.parametrize("foreign", [False, True])
def test_an_action_that_was_not_looked_at_is_sent_again(world, driver, api, foreign):
    api.foreign = foreign
    box = world.new(driver)
    api.fault(ACTION, 429, 3)
    assert box.ok(ONCE).strip() == "1"
    assert len(actions(api)) == 4


@pytest.mark.slow
def test_an_action_ends_at_its_deadline(world, driver, api):
    box = world.new(driver)
    api.fault(ACTION, "hang")
    assert refused(box.act, "run", command="true", timeout=1).code == "timeout"


def test_no_action_waits_for_what_comes_after_its_deadline(world, driver, api):
    box = world.new(driver)
    api.fault(ACTION, 429, 1, Retry_After="3600")
    assert refused(box.act, "run", command="true", timeout=1).code == "quota"


def test_what_is_not_there_any_more(world, driver, api):
    box = world.new(driver)
    (runtime,) = api.runtimes.values()
    api.fault("*/execute_action", 404)
    assert "not responding" in refused(box.run, "true").text
    runtime.end()
    assert box.status() == "missing"
    assert box.drive("gone") == "missing"


# --- life --------------------------------------------------------------------------------------------


def test_pause_and_resume(world, driver, api):
    box = world.new(driver)
    for _ in range(2):
        assert (box.drive("paused"), box.status()) == ("paused", "paused")
    for _ in range(2):
        assert (box.drive("running"), box.status()) == ("running", "running")
    assert box.ok("echo works") == "works"
    assert len(api.asked("/pause")) == len(api.asked("/resume")) == 1


class Native:
    """A Tendon with one sandbox. after: what that is once it was told to pause, look by look; the last one stays."""

    def __init__(self, api, after):
        self.here, self.looks, self.after = False, [{"state": "running"}], after
        for path in ("/v1/sandboxes", "/v1/sandboxes/abcdefghij", "/v1/sandboxes/abcdefghij/pause"):
            api.fault(path, self.answer, 1000)

    def show(self):
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return {"id": "abcdefghij", "session_key": SESSION_KEY, "version": 1, **look}

    def answer(self, request):
        if request.path.endswith("/pause"):
            self.looks = list(self.after)
        elif request.method != "GET":
            self.here = request.method == "POST"
        elif request.path == "/v1/sandboxes":
            return 200, {"sandboxes": [self.show()] if self.here else []}
        return (200, self.show()) if self.here else (404, {"detail": "none"})


@pytest.fixture
def native_world(own_world):
    own_world.settings = {"remote.dialect": "native"}
    yield own_world
    own_world.settings = {}


SLEEPS = {"state": "stopped", "asleep": True}


@pytest.mark.parametrize("after", [[SLEEPS], [{"state": "running"}] * 4 + [SLEEPS], [{"state": "stopped"}, SLEEPS]])
def test_a_pause_that_is_a_sleep(native_world, api, after):
    Native(api, after)
    box = native_world.new(native_world.open())
    assert box.drive("paused") == "paused"
    assert box.drive("gone") == "missing"


def test_a_pause_that_ends_in_a_stop(native_world, api):
    """By an older Tendon, or because somebody else has stopped it."""
    Native(api, [{"state": "running"}, {"state": "stopped"}])
    box = native_world.new(native_world.open())
    begun = time.monotonic()
    refusal = refused(box.drive, "paused")
    assert refusal.code == "conflict" and "the service has stopped it" in refusal.text
    assert time.monotonic() - begun < 20
    assert box.drive("gone") == "missing"


@pytest.mark.parametrize("kind", [429, 502, 503, 504, "drop", "lost"])
def test_orders_are_repeated(world, driver, api, kind):
    box = world.new(driver)
    for path in ("/pause", "/resume", "/stop"):
        api.fault(path, kind)
    assert box.drive("paused") == "paused"
    assert box.drive("running") == "running"
    assert box.drive("gone") == "missing"
    assert len(api.asked("/stop")) == 2 or kind == "lost"


def test_retries_can_be_switched_off(own_world, api):
    own_world.settings = {"sandbox.remote_runtime_enable_retries": "false"}
    box = own_world.new(own_world.open())
    api.fault("/pause", 502)
    assert "temporarily unavailable" in refused(box.drive, "paused").text
    assert len(api.asked("/pause")) == 1


def test_what_the_api_does_not_have(world, driver, api):
    box = world.new(driver)
    for goal in ("stopped", "suspended"):
        assert refused(box.drive, goal).code == "unsupported"
    for verb in ("logs", "usage", "snapshot", "forget", "rollback"):
        assert refused(box, verb, name="x").code == "unsupported", verb
    for field, value in {
        "volumes": ["/tmp:/x"], "devices": ["/dev/null"], "gpus": "all", "network": "none", "ports": [80],
        "memory": "1g", "cpus": 1, "pids": 50, "disk": "1g", "open_files": 99, "file_size": "1m", "wall_time": 9,
        "hand_args": ["-x"],
    }.items():  # fmt: skip
        refusal = refused(world.new, driver, **{field: value})
        assert (refusal.code, refusal.text.startswith(field + ":")) == ("unsupported", True), refusal
    assert box.status() == "running"


def test_ports(world, driver, api):
    box = world.new(driver)
    assert box("url", port=12000)["url"] == f"{api.url}/w/rt-1"
    assert refused(box, "url", port=1).code == "not_found"


def test_list_knows_ours_from_others(world, driver, api):
    box = world.new(driver)
    others = [{"session_id": name, "status": "running"} for name in ("", "x", "tendon-0123456789abcdef-aaaaaaaaaa")]
    own = api.asked("/start")[0].json["session_id"]
    gone = {"session_id": own[:-1] + "x", "status": "stopped"}
    api.fault("/list", lambda request: (200, {"runtimes": [*others, {"session_id": own}, gone, None, 5]}))
    assert driver("list")["ids"] == [box.id]


def test_put_and_exec_and_files(world, driver, api):
    box = world.new(driver)
    where = box.ok("pwd")
    box("put", path=f"{where}/deep/er/tool", text="#!/bin/sh\necho made; exit 5\n", mode=0o755)
    answer = box("exec", argv=[f"{where}/deep/er/tool"])
    assert (answer["output"], answer["status"]) == ("made\n", 5)
    api.foreign = True
    assert refused(box, "exec", argv=["true"]).code == "unsupported"
    assert refused(box, "put", path="/tmp/x", text="").code == "unsupported"


def test_the_service_is_another(own_world, api):
    box = own_world.new(own_world.open())
    own_world.env["SANDBOX_REMOTE_RUNTIME_API_URL"] = api.url.replace("localhost", "127.0.0.1")
    later = box.seen_by(own_world.open())
    assert api.url in refused(later.status).text

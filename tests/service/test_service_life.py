"""The life of sandboxes of the service: the whole table of states and orders, what a killed service finds again,
failed starts and their causes, and requests that are sent twice."""

import contextlib
import fcntl
import itertools
import json
import os
import random
import signal
import sqlite3
import struct
import threading
import time

import pytest

from native import at, make, run, run_action, url
from services import PATIENCE, Service, eventually, preloaded
from trees import ROOT

NOWHERE = "unix:///nonexistent/docker.sock"


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("life"), env={"DOCKER_HOST": NOWHERE}).start()
    yield service
    service.finish()


@pytest.fixture
def client(service):
    client = service.client()
    yield client
    client.close()


def start_again(service, client):
    """kill -9, and a new one; no connection outlives that."""
    service.restart(kill=True)
    client.close()


def state(client, box):
    return client.get(at(box)).ok().json


def order(client, box, word, wait=None):
    query = {} if wait is None else {"wait": wait}
    if word == "delete":
        return client.delete(at(box, **query))
    return client.post(at(box, f"/{word}", **query))


def becomes(client, box, *states):
    """The box, once it is in one of these states (None: gone) and stays there."""

    def look():
        answer = client.get(at(box))
        if answer.status == 404:
            return {"state": None} if None in states else None
        found = answer.ok().json
        return found if found["state"] in states and found["goal"] == found["state"] else None

    return eventually(look, f"{box if isinstance(box, str) else box['id']} becomes {states}")


def rows(service, query, *values):
    db = sqlite3.connect(service.state / "tendon.db", timeout=20)
    try:
        return db.execute(query, values).fetchall()
    finally:
        db.close()


def hand_of(service, box):
    """The process number of the hand of a jail."""
    return json.loads(rows(service, "SELECT ref FROM sandbox WHERE id = ?", box["id"])[0][0])["pid"]


def place_in_lock(name):
    number = 14695981039346656037
    for byte in name.encode():
        number = ((number ^ byte) * 1099511628211) % 2**64
    return number >> 2


@contextlib.contextmanager
def held(service, box):
    """Holds the lock under which sandboxes are changed, as another tendon would: whatever is to be done waits."""
    with open(service.state / "lock", "r+b") as lock:
        what = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place_in_lock(box["id"]), 1, 0)
        eventually(lambda: try_lock(lock, what), "the lock of a sandbox")
        yield


def try_lock(lock, what):
    with contextlib.suppress(BlockingIOError):
        fcntl.fcntl(lock, 37, what)  # F_OFD_SETLK
        return True
    return False


# --- the table -----------------------------------------------------------------------------------

GONE = None
TABLE = {
    "starting": {"pause": (202, "paused"), "resume": (202, "running"), "stop": (202, "stopped"), "delete": (202, GONE)},
    "running": {"pause": (200, "paused"), "resume": (200, "running"), "stop": (200, "stopped"), "delete": (204, GONE)},
    "paused": {"pause": (200, "paused"), "resume": (200, "running"), "stop": (200, "stopped"), "delete": (204, GONE)},
    "stopped": {"pause": (409, "stopped"), "resume": (200, "running"), "stop": (200, "stopped"), "delete": (204, GONE)},
    "error": {"pause": (409, "error"), "resume": (200, "running"), "stop": (200, "stopped"), "delete": (204, GONE)},
    "missing": {"pause": (409, "missing"), "resume": (409, "missing"), "stop": (409, "missing"), "delete": (204, GONE)},
}


def bring_to(service, client, wanted, stack):
    box = make(client)
    if wanted == "starting":
        order(client, box, "stop").ok()
        stack.enter_context(held(service, box))
        order(client, box, "resume", wait=0).ok(202)
    elif wanted == "error":
        os.kill(hand_of(service, box), signal.SIGKILL)
        found = becomes(client, box, "error")
        assert found["cause"] == "ended" and "signal 9" in found["reason"], found
    elif wanted == "missing":
        assert service.tendon("rm", box["id"]).returncode == 0
    elif wanted != "running":
        order(client, box, {"paused": "pause", "stopped": "stop"}[wanted]).ok()
    found = state(client, box)
    if wanted == "starting":
        assert (found["state"], found["goal"]) == ("starting", "running"), found
    else:
        becomes(client, box, wanted)
    return box


@pytest.mark.parametrize("word", ["pause", "resume", "stop", "delete"])
@pytest.mark.parametrize("before", list(TABLE))
def test_table(service, client, before, word):
    status, after = TABLE[before][word]
    with contextlib.ExitStack() as stack:
        box = bring_to(service, client, before, stack)
        answer = order(client, box, word, wait=0 if before == "starting" else None)
        assert answer.status == status, answer
        if status == 409:
            assert f"is {before}" in answer.json["detail"] and f"nothing to {word}" in answer.json["detail"]
    becomes(client, box, after)
    if after is GONE:
        assert order(client, box, word).status == 404
        return
    again = order(client, box, word)  # twice is once
    assert again.status == (409 if status == 409 else 200), again
    assert state(client, box)["state"] == after
    order(client, box, "delete").ok(204)


def test_the_page_has_the_same_table():
    text = (ROOT / "docs/internals/service-life.md").read_text()
    told = {}
    for line in text.partition("## The table")[2].splitlines():
        cells = [cell.strip().partition(" [")[0] for cell in line.strip("|").split("|")]
        if cells[0] in TABLE:
            told[cells[0]] = dict(zip(("pause", "resume", "stop", "delete"), cells[1:], strict=True))
    expected = {
        before: {word: str(status) if status == 409 else after or "gone" for word, (status, after) in row.items()}
        for before, row in TABLE.items()
    }
    assert told == expected


def test_orders_on_the_way(service, client):
    """Orders that meet one that is not done yet: the newest counts, and who waited for another one is told."""
    box = make(client)
    answers = {}

    def ask(word):
        answers[word] = order(service.client(), box, word)

    with held(service, box):
        threads = []
        for word, goal in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
            threads.append(threading.Thread(target=ask, args=(word,)))
            threads[-1].start()
            eventually(lambda: state(client, box)["goal"] == goal, f"the goal is {goal}")
        assert order(client, box, "pause").status == 409  # it is as good as stopped
    for thread in threads:
        thread.join()
    assert {word: answer.status for word, answer in answers.items()} == {"pause": 409, "resume": 409, "stop": 200}
    assert "another order" in answers["pause"].json["detail"]
    assert state(client, box)["state"] == "stopped"
    order(client, box, "delete").ok(204)


def test_nothing_but_delete_joins_a_delete(service, client):
    box = make(client)
    with held(service, box):
        order(client, box, "delete", wait=0).ok(202)
        found = state(client, box)
        assert (found["state"], found["goal"]) == ("running", "gone")
        for word in ("pause", "resume", "stop"):
            assert order(client, box, word).status == 410
        assert client.patch(at(box), {"ttl": 1000}).status == 410  # nobody is told that it lives on
        assert client.post(at(box, "/actions"), run_action("true")).status == 503
        order(client, box, "delete", wait=0).ok(202)
    becomes(client, box, GONE)


def test_versions_grow(service, client):
    box = make(client)
    seen = [box["version"]]
    for word in ("pause", "resume", "stop", "resume"):
        seen.append(order(client, box, word).ok().json["version"])
    start_again(service, client)
    seen.append(state(client, box)["version"])
    assert seen == sorted(set(seen)), seen
    waiting = client.get(at(box, wait=20, version=seen[-1] - 1)).ok().json
    assert waiting["version"] >= seen[-1]
    order(client, box, "delete").ok(204)


# --- lists ---------------------------------------------------------------------------------------


def is_saved(service, told):
    """Whether the row of that box has its last use."""
    ((used, action),) = rows(service, "SELECT used, last_action FROM box WHERE id = ?", told["id"])
    return action == told["last_action"]["id"] and abs(used - told["used"]) < 0.001


def test_a_killed_service_knows_the_last_use(service, client):
    boxes = [make(client) for _ in range(3)]
    for box in boxes:
        run(client, box, "echo one")
        run(client, box, "echo two")
    told = {box["id"]: state(client, box) for box in boxes}
    eventually(
        lambda: all(is_saved(service, one) for one in told.values()),
        "its uses are written down, though nobody asks for anything",
    )
    service.restart(kill=True)
    for id, before in told.items():
        after = state(client, id)
        assert (after["used"], after["last_action"]) == (before["used"], before["last_action"])
        order(client, id, "delete").ok(204)


def test_pages_go_on_after_what_was_deleted(service):
    client = service.tenant("pages")
    boxes = [make(client, name=f"n{i}")["id"] for i in range(5)]
    first = client.get(url("/v1/sandboxes", limit=2)).ok().json
    assert [box["id"] for box in first["sandboxes"]] == boxes[:2]
    for name in boxes[:2]:
        order(client, name, "delete").ok(204)
    second = client.get(url("/v1/sandboxes", limit=2, page=first["next"])).ok().json
    assert [box["id"] for box in second["sandboxes"]] == boxes[2:4]
    last = client.get(url("/v1/sandboxes", limit=2, page=second["next"])).ok().json
    assert [box["id"] for box in last["sandboxes"]] == boxes[4:] and last["next"] is None
    for name in boxes[2:]:
        order(client, name, "delete").ok(204)


def test_a_session_is_free_again_after_its_delete(service):
    client = service.tenant("sessions")
    for _ in range(3):
        box = make(client, session="one")
        assert client.post("/v1/sandboxes", {"session": "one"}).status == 409
        other = make(service.tenant("sessions-of-others"), session="one")
        assert other["id"] != box["id"]
        order(service.client(), other, "delete").ok(204)
        order(client, box, "delete").ok(204)


# --- the same request again ----------------------------------------------------------------------


def create(client, key, **body):
    return client.post("/v1/sandboxes", {"plugins": [], **body}, headers={"Idempotency-Key": key})


def test_the_same_key_gives_the_same_box(service, client):
    first = create(client, "again", name="a")
    assert first.status == 201, first
    second = create(client, "again", name="a")
    assert second.status == 200 and second.json["id"] == first.json["id"]
    assert create(client, "again", name="b").status == 409
    other = create(service.tenant("idem"), "again", name="a").ok(201).json
    assert other["id"] != first.json["id"]
    for box in (first.json, other):
        order(client, box, "delete").ok(204)
    gone = create(client, "again", name="a")
    assert gone.status == 410 and first.json["id"] in gone.json["detail"], gone


def test_many_at_once_with_the_same_key(service, client):
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(create(service.client(), "at once"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [200] * 7 + [201]
    assert len({answer.json["id"] for answer in answers}) == 1
    order(client, answers[0].json, "delete").ok(204)


def test_a_retry_after_a_kill(service, client):
    """A client that never got its answer asks again after the restart: there is one box."""
    chance = random.Random(7)
    for i in range(6):
        before = {box["id"] for box in client.get("/v1/sandboxes").ok().json["sandboxes"]}
        asking = service.client()
        thread = threading.Thread(target=lambda: silently(lambda: create(asking, f"retry {i}")))
        thread.start()
        time.sleep(chance.uniform(0, 0.06))
        start_again(service, client)
        thread.join()
        box = create(client, f"retry {i}")
        assert box.status in (200, 201), box
        assert becomes(client, box.json, "running")["id"] == box.json["id"]
        now = {box["id"] for box in client.get("/v1/sandboxes").ok().json["sandboxes"]}
        assert now - before == {box.json["id"]}
        order(client, box.json, "delete").ok(204)


def test_the_factor_multiplies_limits(service, client):
    box = make(client, memory="100m", cpus=0.5, resource_factor=2)
    assert box["resource_factor"] == 2 and box["spec"]["memory"] == "100m"
    spec = json.loads(rows(service, "SELECT spec FROM sandbox WHERE id = ?", box["id"])[0][0])
    assert int(spec["memory"]) == 200 << 20 and spec["cpus"] == 1.0 and spec["keep"]
    order(client, box, "delete").ok(204)
    assert client.post("/v1/sandboxes", {"resource_factor": -1}).status in (400, 422)


def silently(call):
    with contextlib.suppress(Exception):
        return call()


# --- forks ---------------------------------------------------------------------------------------


def test_fork(service, client):
    box = make(client, memory="200m", labels={"a": "b"})
    run(client, box, "echo one > /workspace/file")
    client.post(at(box, "/snapshots"), {"name": "first"}).ok(201)
    run(client, box, "echo two > /workspace/file")
    now = client.post(at(box, "/fork"), {"name": "child"}).ok(201).json
    then = client.post(at(box, "/fork"), {"snapshot": "first"}).ok(201).json
    assert now["state"] == then["state"] == "running" and now["name"] == "child"
    assert now["spec"]["memory"] == "200m" and now["session_key"] != box["session_key"]
    assert [run(client, one, "cat /workspace/file")["content"] for one in (box, now, then)] == ["two", "two", "one"]
    assert client.post(at(box, "/fork"), {"snapshot": "never"}).status == 404
    order(client, box, "delete").ok(204)
    assert run(client, now, "cat /workspace/file")["content"] == "two"
    for one in (now, then):
        order(client, one, "delete").ok(204)


def test_a_rollback_is_seen(service, client):
    box = make(client)
    run(client, box, "echo one > /workspace/file")
    client.post(at(box, "/snapshots"), {"name": "first"}).ok(201)
    run(client, box, "echo two > /workspace/file")
    client.post(at(box, "/snapshots/first/rollback")).ok()
    assert run(client, box, "cat /workspace/file")["content"] == "one"
    os.kill(hand_of(service, box), signal.SIGKILL)  # it watches the new hand
    becomes(client, box, "error")
    order(client, box, "delete").ok(204)


# --- failed starts -------------------------------------------------------------------------------


def failed(client, cause, words, **body):
    box = client.post("/v1/sandboxes", {"plugins": [], **body}).ok(201).json
    box = becomes(client, box, "error")
    assert box["cause"] == cause and words in box["reason"], box
    return box


def test_no_image(service, client):
    missing = failed(client, "image", "/no/such/image.tar", image="/no/such/image.tar")
    useless = failed(client, "image", "/etc/hostname", image="/etc/hostname")
    assert order(client, missing, "stop").status == 409  # there is nothing to stop
    assert order(client, missing, "resume").status >= 400 and state(client, missing)["cause"] == "image"
    for box in (missing, useless):
        order(client, box, "delete").ok(204)


def test_no_memory(service, client):
    """The hand itself is killed for want of memory."""
    box = make(client, memory="20m")
    run(client, box, "echo 1000 > /proc/1/oom_score_adj")
    greedy = run_action("head -c 100m /dev/zero | tail -c 100m | wc -c")
    assert client.post(at(box, "/actions"), greedy).status == 502
    found = becomes(client, box, "error")
    assert found["cause"] == "memory" and "out of memory (limit 20 MiB)" in found["reason"], found
    again = order(client, box, "resume").ok().json
    assert again["state"] == "running" and again["restarts"] == 1 and not again["reason"]
    order(client, box, "delete").ok(204)


@pytest.mark.parametrize("memory", ["100k", "400k"])
def test_no_memory_to_start_with(make_service, memory):
    """The program that makes the jail is killed, or the hand in it: a matter of memory, not of the engine. So little is
    the operator's word: a client's is refused."""
    client = make_service(settings={"jail.memory": memory}).start().client()
    box = failed(client, "memory", "out of memory (limit")
    order(client, box, "delete").ok(204)


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/null"])
def test_a_workspace_that_is_no_directory(client, path):
    box = client.post("/v1/sandboxes", {"plugins": [], "workspace": path}).ok(201).json
    reason = becomes(client, box, "error")["reason"]
    assert f"{path}: there is something else there, not a directory" in reason, reason
    order(client, box, "delete").ok(204)


def test_no_engine(service, client):
    box = failed(client, "engine", NOWHERE, runtime="docker", image="busybox")
    assert order(client, box, "resume").status >= 500
    assert not rows(service, "SELECT id FROM sandbox WHERE id = ?", box["id"])
    order(client, box, "delete").ok(204)


def test_a_cause_is_no_word_of_a_sentence(make_service):
    service = make_service(config='[docker]\nhost = "unix:///nowhere/image/out of memory/docker.sock"\n').start()
    failed(service.client(), "engine", "out of memory", runtime="docker", image="busybox")


def test_an_unknown_runtime_is_refused_at_once(service, client):
    assert client.post("/v1/sandboxes", {"runtime": "nonsense"}).status in (400, 404, 422)


def test_a_full_service(make_service):
    service = make_service(settings={"max_sandboxes": 1, "pause_old_sandboxes": "false"}).start()
    client = service.client()
    first = make(client)
    second = failed(client, "quota", "1")
    order(client, first, "pause").ok()
    assert order(client, second, "resume").ok().json["state"] == "running"
    assert order(client, first, "resume").status in (429, 503)
    assert state(client, first)["state"] == "paused"
    for box in (first, second):
        order(client, box, "delete").ok(204)


def test_line_and_deadline(make_service):
    """One start at a time, and that one hangs: the others wait in line, can leave it, and a start ends in time."""
    service = make_service(settings={"max_starts": 1, "start_seconds": 4}).start()
    client = service.client()
    box = make(client)
    order(client, box, "stop").ok()
    with held(service, box):
        order(client, box, "resume", wait=0).ok(202)
        eventually(lambda: "tendon_queue_busy 1" in client.get("/metrics").ok().text, "it has its turn")
        waiting = []
        for _ in range(3):
            waiting.append(client.post("/v1/sandboxes", {"plugins": [], "wait": 0}).ok(201).json)
            assert waiting[-1]["state"] == "starting" and waiting[-1]["queue_position"] == len(waiting)
        assert positions(client, waiting) == [1, 2, 3]
        order(client, waiting[0], "delete").ok(204)  # while the line stands still
        assert eventually(lambda: positions(client, waiting[1:]) == [1, 2], "the others moved up")
        service.restart(kill=True)  # they stay in line
        late = becomes(client, box, "error")
        assert late["cause"] == "timeout", late
        for one in waiting[1:]:
            becomes(client, one, "running", "error")
    order(client, box, "resume").ok()
    for one in [box, *waiting[1:]]:
        order(client, one, "delete").ok(204)


def test_slow_starts_of_a_tenant_hold_up_no_other(make_service):
    service = make_service(settings={"max_starts": 1}).start()
    slow, other = service.tenant("slow"), service.tenant("other")
    box = make(slow)
    order(slow, box, "stop").ok()
    with held(service, box):
        order(slow, box, "resume", wait=0).ok(202)
        eventually(lambda: "tendon_queue_busy 1" in service.client().get("/metrics").ok().text, "it has its turn")
        late = slow.post("/v1/sandboxes", {"plugins": [], "wait": 0}).ok(201).json
        order(other, make(other), "delete").ok(204)
        assert (state(slow, box)["state"], state(slow, late)["queue_position"]) == ("starting", 1)
    for one in (box, late):
        becomes(slow, one, "running")
        order(slow, one, "delete").ok(204)


def test_no_thread_can_be_started(make_service, tmp_path):
    """Requests are answered in time all the same, and everything that was ordered is done."""
    switch = tmp_path / "no-threads"
    env = {**preloaded("no-threads.c", tmp_path), "TN_TEST_NO_THREADS": str(switch)}
    service = make_service(settings={"max_starts": 1, "max_sandboxes": 2}, env=env).start()
    client = service.client()
    box, second = make(client), make(client)
    order(client, box, "stop").ok()
    switch.touch()
    with held(service, box):
        order(client, box, "resume", wait=0).ok(202)
        waiting = [client.post("/v1/sandboxes", {"plugins": [], "wait": 0}).ok(201).json for _ in range(3)]
        assert {one["state"] for one in waiting} == {"starting"}
        order(client, waiting[0], "delete").ok(204)  # whoever waits for it does it
        assert state(client, box)["state"] == "starting"
    for one in waiting[1:]:
        becomes(client, one, "running")
    for one in (box, second):  # two may run, and these are the oldest
        assert becomes(client, one, "paused")["reason"] is None
    assert run(client, waiting[2], "echo up")["content"] == "up"
    order(client, waiting[2], "pause").ok()
    switch.unlink()
    for one in [box, second, *waiting[1:]]:
        order(client, one, "delete").ok(204)


def positions(client, boxes):
    found = [state(client, box)["queue_position"] for box in boxes]
    return found if all(found) else None


# --- behind its back -----------------------------------------------------------------------------


def test_changes_by_others_while_it_is_away(service, client):
    names = ("runs", "paused", "stopped", "ended", "removed", "resumed")
    boxes = {name: make(client, name=name) for name in names}
    order(client, boxes["paused"], "pause").ok()
    order(client, boxes["resumed"], "pause").ok()
    service.kill()
    assert service.tendon("stop", boxes["stopped"]["id"]).returncode == 0
    os.kill(hand_of(service, boxes["ended"]), signal.SIGKILL)
    assert service.tendon("rm", boxes["removed"]["id"]).returncode == 0
    assert service.tendon("resume", boxes["resumed"]["id"]).returncode == 0
    service.start()
    found = {name: state(client, box)["state"] for name, box in boxes.items()}
    expected = ("running", "paused", "stopped", "error", "missing", "running")
    assert found == dict(zip(names, expected, strict=True))
    assert run(client, boxes["runs"], "echo still")["content"] == "still"
    for box in boxes.values():
        order(client, box, "delete").ok(204)


def test_a_sandbox_of_ours_without_a_box_goes(service, client):
    box = make(client)
    service.kill()
    db = sqlite3.connect(service.state / "tendon.db", timeout=20)
    with db:
        db.execute("DELETE FROM box WHERE id = ?", (box["id"],))
    db.close()
    service.start()
    gone = "SELECT id FROM sandbox WHERE id = ?"
    eventually(lambda: not rows(service, gone, box["id"]), "a sandbox without a box is removed")
    theirs = json.loads(service.tendon("--json", "new").stdout)["id"]
    service.restart(kill=True)
    eventually(lambda: client.get("/readyz").status == 200, "it is ready")
    assert rows(service, gone, theirs)  # whatever is not ours stays
    assert service.tendon("rm", theirs).returncode == 0


def test_interrupted_orders_go_on(service, client):
    """Killed while an order is under way: the next service brings it about."""
    boxes = {word: make(client) for word in ("pause", "stop", "delete", "resume")}
    order(client, boxes["resume"], "stop").ok()
    with contextlib.ExitStack() as stack:
        for word, box in boxes.items():
            stack.enter_context(held(service, box))
            order(client, box, word, wait=0).ok(202)
        service.kill()
    service.start()
    expected = {"pause": "paused", "stop": "stopped", "delete": GONE, "resume": "running"}
    for word, box in boxes.items():
        becomes(client, box, expected[word])
    for word in ("pause", "stop", "resume"):
        order(client, boxes[word], "delete").ok(204)


def test_an_engine_that_comes_back(service, client):
    """Its backend is gone when the service looks; once it is back, so is the sandbox."""
    box = make(client)
    rows_db = sqlite3.connect(service.state / "tendon.db", timeout=20)
    service.kill()
    with rows_db:
        rows_db.execute("UPDATE sandbox SET runtime = 'docker' WHERE id = ?", (box["id"],))
    service.start()
    found = becomes(client, box, "error")
    assert found["cause"] == "engine" and NOWHERE in found["reason"], found
    answer = order(client, box, "delete")
    assert answer.status >= 500, answer  # it cannot be removed now, and is not forgotten
    assert state(client, box)["goal"] == "gone"
    with rows_db:
        rows_db.execute("UPDATE sandbox SET runtime = 'jail' WHERE id = ?", (box["id"],))
    rows_db.close()
    order(client, box, "delete").ok(204)


# --- killed at any moment ------------------------------------------------------------------------


class Burst:
    """Clients that make and delete sandboxes until the service dies under them."""

    def __init__(self, service, number):
        self.service, self.number = service, number
        self.made, self.deleting = {}, set()  # key -> id, as far as was told
        self.asked = []  # keys
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(3)]

    def work(self, number):
        client = self.service.client(timeout=20)
        chance = random.Random(self.number * 10 + number)
        with contextlib.suppress(Exception):
            for i in itertools.count():
                key = f"burst {self.number} {number} {i}"
                self.asked.append(key)
                box = create(client, key, wait=chance.choice([0, 10])).ok(201).json
                self.made[key] = box["id"]
                if chance.random() < 0.6:
                    self.deleting.add(key)
                    order(client, box, "delete", wait=chance.choice([0, 10]))

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        for thread in self.threads:
            thread.join()


def check_burst(client, burst):
    """Every key has one box, in a true state; those to be deleted are gone or as they were."""
    for key in burst.asked:
        answer = create(client, key, wait=10)
        if answer.status == 410:
            assert key in burst.deleting
            continue
        if answer.status == 409:  # the first time it was asked with another time to wait
            answer = create(client, key, wait=0)
        if answer.status == 410:
            assert key in burst.deleting
            continue
        assert answer.status in (200, 201), answer
        assert burst.made.get(key, answer.json["id"]) == answer.json["id"]
        box = becomes(client, answer.json, "running", GONE)
        if box["state"]:
            assert run(client, box, "echo alive")["content"] == "alive"
            order(client, box, "delete").ok(204)


def test_killed_at_any_moment(make_service):
    service = make_service().start()
    client = service.client()
    client.put("/v1/pools/warm", {"plugins": [], "target": 2}).ok()
    chance = random.Random(20)
    for number in range(20):
        burst = Burst(service, number)
        with burst:
            time.sleep(chance.uniform(0.005, 0.12))
            service.kill()
        service.start()
        client.close()
        check_burst(client, burst)
    assert client.get("/v1/sandboxes").ok().json["sandboxes"] == []
    client.delete("/v1/pools/warm").ok(204)
    eventually(lambda: not rows(service, "SELECT id FROM sandbox"), "the warm ones are gone")
    assert json.loads(service.tendon("--json", "gc").stdout) == []
    assert not rows(service, "SELECT id FROM box")
    assert service.tendon("audit", "verify").returncode == 0


# --- many at once --------------------------------------------------------------------------------


@pytest.mark.concurrent
def test_many_clients_on_the_same_boxes(service, client):
    """Random orders of several clients on a few boxes: every answer makes sense, and in the end each box does."""
    boxes = [make(client) for _ in range(3)]
    wrong = []

    def work(number):
        mine, chance = service.client(), random.Random(number)
        for _ in range(12):
            box = chance.choice(boxes)
            word = chance.choice(["pause", "resume", "stop", "look", "list", "act"])
            if word == "look":
                answer, good = mine.get(at(box)), (200,)
            elif word == "list":
                answer, good = mine.get("/v1/sandboxes"), (200,)
            elif word == "act":  # 409: it woke a box that another client stops meanwhile
                answer, good = mine.post(at(box, "/actions"), run_action("true", timeout=5)), (200, 409, 502, 503, 504)
            else:
                answer, good = order(mine, box, word, wait=chance.choice([0, 30])), (200, 202, 409)
            if answer.status not in good:
                wrong.append((word, answer))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not wrong, wrong
    for box in boxes:
        found = becomes(client, box, "running", "paused", "stopped")
        order(client, found, "resume").ok()
        assert run(client, box, "echo fine")["content"] == "fine"
        order(client, box, "delete").ok(204)

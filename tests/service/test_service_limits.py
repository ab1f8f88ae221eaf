"""Limits: quotas of keys, how many may run, the line, idle pause and stop, time to live; and /metrics."""

import math
import os
import re
import threading
import time

import pytest

from native import at, make, run, run_action, upgrade
from services import eventually, example_runtime


def state(client, box):
    return client.get(at(box)).ok().json["state"]


def eventually_state(client, box, wanted):
    return eventually(lambda: state(client, box) == wanted, f"{box['id']} is {wanted}")


def in_parallel(count, work):
    """work(i) in a thread each; what they returned."""
    results = [None] * count

    def one(i):
        results[i] = work(i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# --- quotas of a key -----------------------------------------------------------------------------


def refused(client, words, **body):
    reply = client.post("/v1/sandboxes", {"plugins": [], **body}).ok(429)
    assert reply.headers["content-type"] == "application/problem+json"
    for word in words:
        assert word in reply.json["detail"], reply.json
    assert reply.json["status"] == 429


def test_sandboxes_of_a_key(service):
    client = service.tenant("few", "--max-sandboxes", 2)
    boxes = [make(client), make(client)]
    refused(client, ["2 sandboxes", "max_sandboxes", "delete one"])
    client.post(at(boxes[0], "/pause")).ok()  # it still exists
    refused(client, ["max_sandboxes"])
    client.delete(at(boxes[0])).ok(204)
    boxes[0] = make(client)
    for box in boxes:
        client.delete(at(box)).ok(204)


def test_the_last_place_is_given_once(service):
    key = service.make_key("last", "--tenant", "last", "--max-sandboxes", "3")["key"]
    clients = [service.client(key) for _ in range(8)]
    replies = in_parallel(8, lambda i: clients[i].post("/v1/sandboxes", {"plugins": []}))
    assert sorted(reply.status for reply in replies) == [201] * 3 + [429] * 5
    for reply in replies:
        if reply.status == 201:
            clients[0].delete(at(reply.json)).ok(204)


def test_memory_and_processors_of_a_key(service):
    client = service.tenant("small", "--max-memory", "768m", "--max-cpus", "1.5")
    first = make(client, memory="512m", cpus=1)
    refused(client, ["max_memory", "512 MiB are taken"], memory="512m", cpus=0.1)
    refused(client, ["max_cpus", "1 are taken"], memory="64m", cpus=1)
    refused(client, ["max_cpus"], memory="64m")  # without a limit it could have all
    client.post(at(first, "/pause")).ok()  # what does not run does not count
    second = make(client, memory="512m", cpus=1)
    reply = client.post(at(first, "/resume"))
    assert reply.status == 429 and "max_memory" in reply.json["detail"], reply
    for box in (first, second):
        client.delete(at(box)).ok(204)


def test_a_paused_one_keeps_its_memory(service):
    client = service.tenant("frozen", "--max-memory", "512m")
    first = make(client, memory="256m")
    keeper = "python3 -c 'x = b\"x\" * (150 << 20); print(len(x), flush=True); input()' > /tmp/told < <(sleep 1000) &"
    run(client, first, keeper)
    eventually(lambda: run(client, first, "cat /tmp/told")["content"], "it has the memory")
    client.post(at(first, "/pause")).ok()
    refused(client, ["max_memory", "stop or delete one"], memory="400m")
    client.post(at(first, "/stop")).ok()
    second = make(client, memory="400m")
    for box in (first, second):
        client.delete(at(box)).ok(204)


def test_time_to_live_of_a_key(service):
    client = service.tenant("brief", "--max-seconds", "100")
    refused(client, ["max_seconds", "100"], ttl=1000)
    box = make(client, ttl=50)
    assert 49 < box["expires"] - box["created"] < 51
    usual = make(client)  # who says nothing gets what there is
    assert 99 < usual["expires"] - usual["created"] < 101
    for ttl in (0, 100, 1000):  # nobody gets more by asking later
        late = client.patch(at(box), {"ttl": ttl}).ok(429).json
        assert "max_seconds" in late["detail"], late
    told = client.patch(at(box), {"ttl": 30}).ok().json
    assert told["expires"] < box["expires"]
    client.post(at(box, "/pause")).ok()
    client.post(at(box, "/resume")).ok()
    for each in (box, usual):
        client.delete(at(each)).ok(204)


def test_what_runs_of_a_key_pauses_its_own(service):
    """The oldest of the same tenant makes room; nobody else's."""
    other = make(stranger := service.tenant("bystander"))
    client = service.tenant("runner", "--max-running", 2)
    boxes = [make(client) for _ in range(3)]
    assert [state(client, box) for box in boxes] == ["paused", "running", "running"]
    client.post(at(boxes[0], "/resume")).ok()
    assert [state(client, box) for box in boxes] == ["running", "paused", "running"]
    assert state(stranger, other) == "running"
    for box in boxes:
        client.delete(at(box)).ok(204)
    stranger.delete(at(other)).ok(204)


def test_a_resume_has_the_limits_of_who_asks(service):
    """Two keys of a tenant: one may have one sandbox running, the other any number."""
    free = service.tenant("mixed")
    tight = service.tenant("mixed", "--max-running", 1)
    first, second = make(free), make(free)
    free.post(at(first, "/pause")).ok()
    tight.post(at(first, "/resume")).ok()
    assert (state(free, first), state(free, second)) == ("running", "paused")
    free.post(at(second, "/resume")).ok()
    assert (state(free, first), state(free, second)) == ("running", "running")
    for box in (first, second):
        free.delete(at(box)).ok(204)


def test_a_rollback_has_the_limits_of_a_resume(service):
    client, tight = service.tenant("back", "--max-memory", "768m"), service.tenant("back", "--max-running", 1)
    first = make(client, memory="512m")
    client.post(at(first, "/snapshots"), {"name": "before"}).ok(201)
    client.post(at(first, "/stop")).ok()
    second = make(client, memory="512m")
    late = client.post(at(first, "/snapshots/before/rollback")).ok(429).json
    assert "max_memory" in late["detail"], late
    assert (state(client, first), state(client, second)) == ("stopped", "running")
    tight.post(at(first, "/snapshots/before/rollback")).ok()
    assert (state(client, first), state(client, second)) == ("running", "paused")
    tight.post(at(first, "/snapshots/before/rollback")).ok()  # it has its place
    for box in (first, second):
        client.delete(at(box)).ok(204)


def test_a_use_has_limits_when_the_key_of_the_maker_is_gone(service):
    """Those of the keys that its tenant has now, the widest of each."""
    old = service.client(service.make_key("rotated", "--tenant", "heir")["key"])
    first = make(old)
    old.post(at(first, "/pause")).ok()
    assert service.tendon("key", "revoke", "rotated").returncode == 0
    client = service.tenant("heir", "--max-running", 1)
    second = make(client)
    assert run(client, first, "echo one")["content"] == "one"
    assert (state(client, first), state(client, second)) == ("running", "paused")
    assert run(client, second, "echo two")["content"] == "two"
    assert (state(client, first), state(client, second)) == ("paused", "running")
    service.tenant("heir", "--max-running", 2)
    assert run(client, first, "echo three")["content"] == "three"
    assert (state(client, first), state(client, second)) == ("running", "running")
    for box in (first, second):
        client.delete(at(box)).ok(204)


def test_a_full_disk(make_service, jail_works):
    service = make_service(settings={"disk_reserve": "1000t"}).start()
    reply = service.client().post("/v1/sandboxes", {"plugins": []}).ok(503)
    assert "service.disk_reserve" in reply.json["detail"] and "MiB are left" in reply.json["detail"]
    assert service.client().get("/v1/sandboxes").ok().json["sandboxes"] == []


# --- how many may run ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowded(jail_works, tmp_path_factory):
    from services import Service

    settings = {"max_sandboxes": 2, "pause_others": "true"}
    service = Service(tmp_path_factory.mktemp("crowded"), settings=settings).start()
    yield service
    service.finish()


def test_the_oldest_makes_room(crowded):
    """Its own oldest; that of others where it has none and the operator says so."""
    client, other = crowded.tenant("a"), crowded.tenant("b")
    first, second = make(client), make(other)
    third = make(client)
    states = lambda *boxes: [state(crowded.client(), box) for box in boxes]
    assert states(first, second, third) == ["paused", "running", "running"]
    # A resume makes room too. Never the box itself.
    client.post(at(first, "/resume")).ok()
    assert states(first, second, third) == ["running", "running", "paused"]
    client.post(at(first, "/resume")).ok()  # runs already: nothing happens to anybody
    assert states(first, second, third) == ["running", "running", "paused"]
    # Using a paused one is a resume.
    assert run(client, third, "echo back")["content"] == "back"
    assert states(first, second, third) == ["paused", "running", "running"]
    fourth = make(crowded.tenant("c"))
    assert states(first, second, third, fourth) == ["paused", "paused", "running", "running"]
    for box in (first, second, third, fourth):
        crowded.client().delete(at(box)).ok(204)


@pytest.mark.concurrent
def test_a_burst_over_the_limit(crowded):
    """Never more than two run, nobody is refused, and nobody waits for ever."""
    client = crowded.tenant("burst")
    clients = [crowded.client(client.key) for _ in range(10)]
    stop, most = threading.Event(), [0]

    def watch():
        observer = crowded.client()
        while not stop.is_set():
            running = [box for box in observer.get("/v1/sandboxes?limit=100").ok().json["sandboxes"] if box["state"] == "running"]
            most[0] = max(most[0], len(running))

    watcher = threading.Thread(target=watch)
    watcher.start()
    boxes = in_parallel(10, lambda i: clients[i].post("/v1/sandboxes", {"plugins": []}).ok(201).json)
    stop.set()
    watcher.join()
    assert 1 <= most[0] <= 2
    states = sorted(state(client, box) for box in boxes)
    assert states == ["paused"] * 8 + ["running"] * 2
    in_parallel(10, lambda i: clients[i].delete(at(boxes[i])).ok(204))


def test_a_limit_of_one(make_service, jail_works):
    service = make_service(settings={"max_sandboxes": 1}).start()
    client = service.client()
    first, second = make(client), make(client)
    assert (state(client, first), state(client, second)) == ("paused", "running")
    client.post(at(first, "/resume")).ok()
    assert (state(client, first), state(client, second)) == ("running", "paused")


def runtime_whose_pause(directory, name, does):
    return example_runtime(directory, name, '            if goal == "paused":\n', f"                {does}\n")


def test_one_that_cannot_be_paused_is_passed_over(make_service, jail_works, tmp_path):
    """The oldest is of a runtime that fails at it: the next one makes room."""
    env = runtime_whose_pause(tmp_path, "restless", 'raise Failure("unsupported", "it never rests")')
    service = make_service(settings={"max_sandboxes": 2}, env=env).start()
    client = service.client()
    boxes = [make(client, runtime="restless"), make(client), make(client)]
    assert [state(client, box) for box in boxes] == ["running", "paused", "running"]
    assert run(client, boxes[1], "echo back")["content"] == "back"
    assert [state(client, box) for box in boxes] == ["running", "running", "paused"]
    refused = client.post(at(boxes[0], "/pause"))
    assert refused.status == 501 and "it never rests" in refused.json["detail"], refused
    assert any("could not be paused" in line["message"] for line in service.log_lines())


def test_a_runtime_that_can_only_stop(make_service, tmp_path):
    """A pause is a stop there, whoever asks for it, and a use wakes it; what a person has stopped by name stays so."""
    env = example_runtime(tmp_path, "stopper", '            "abilities": ["pause", "stop"],\n', '            **{"abilities": ["stop"]},\n')
    service = make_service(settings={"max_sandboxes": 1}, env=env).start()
    client = service.client()
    boxes = [make(client, runtime="stopper"), make(client, runtime="stopper")]
    states = lambda: [state(client, box) for box in boxes]
    assert states() == ["stopped", "running"], "the oldest made room"
    assert run(client, boxes[0], "echo back")["content"] == "back"
    assert states() == ["running", "stopped"]
    assert client.post(at(boxes[0], "/pause")).ok().json["state"] == "stopped"
    client.post(at(boxes[0], "/pause")).ok()  # twice is once
    service.restart()
    client = service.client()
    assert run(client, boxes[0], "echo again")["content"] == "again"
    client.post(at(boxes[0], "/pause")).ok()
    client.post(at(boxes[0], "/stop")).ok()
    service.restart()
    client = service.client()
    assert "is stopped" in client.post(at(boxes[0], "/actions"), run_action("echo no")).ok(503).json["detail"]
    assert "is stopped" in client.post(at(boxes[0], "/pause")).ok(409).json["detail"]
    client.post(at(boxes[0], "/resume")).ok()
    assert run(client, boxes[0], "echo here")["content"] == "here"


def test_a_pause_that_hangs_holds_nobody_up(make_service, jail_works, tmp_path):
    """The oldest is of a runtime that never answers: others make room, and the next service starts as ever."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    env = runtime_whose_pause(tmp_path, "stuck", f"open({str(gate)!r}).read()")
    service = make_service(settings={"max_sandboxes": 2}, env=env).start()
    client = service.client()
    boxes = [make(client, runtime="stuck"), make(client)]
    began = time.monotonic()
    boxes.append(make(client))
    once = time.monotonic() - began
    assert [state(client, box) for box in boxes[1:]] == ["paused", "running"]
    assert once < 40, "a pause has a minute: it was waited for"
    # That pause still hangs, which is known by now: there is no reason to wait for it a little.
    assert run(client, boxes[1], "echo back")["content"] == "back"
    assert [state(client, box) for box in boxes[1:]] == ["running", "paused"]
    waited = [line for line in service.log_lines() if "could not be paused" in line["message"]]
    assert [line["sandbox"] for line in waited] == [boxes[0]["id"]], "once, the first time"
    began = time.monotonic()
    service.restart()
    client = service.client()
    assert client.get("/healthz").ok()
    assert run(client, boxes[2], "echo here")["content"] == "here"
    assert time.monotonic() - began < 40

    def rests_when_let():
        os.close(os.open(gate, os.O_RDWR))
        return state(client, boxes[0]) == "paused"

    eventually(rests_when_let, "the next service has ordered the pause again")


@pytest.mark.slow
def test_stops_that_hang_share_their_patience(make_service, jail_works, tmp_path):
    """A stop may take half a minute, but not each of several: whoever waits for room waits for all of them once."""
    gate, env = tmp_path / "gate", {}
    os.mkfifo(gate)
    for name in ("stuck", "caught", "held"):  # a program answers one after the other: one each
        env = example_runtime(tmp_path, name, '        elif goal == "stopped":\n', f"            open({str(gate)!r}).read()\n")
        program = tmp_path / f"tendon-runtime-{name}"
        program.write_text(program.read_text().replace('["pause", "stop"]', '["stop"]'))
    service = make_service(settings={"max_sandboxes": 4}, env=env).start()
    client = service.client()
    boxes = [*(make(client, runtime=name) for name in ("stuck", "caught", "held")), make(client)]
    began = time.monotonic()
    last = make(client)
    took = time.monotonic() - began
    assert (state(client, boxes[3]), state(client, last)) == ("paused", "running")
    assert 30 < took < 80, took
    os.close(os.open(gate, os.O_RDWR))


def test_a_lower_limit_pauses_the_oldest(make_service, jail_works):
    """The limit of the next service counts for what runs already."""
    service = make_service(settings={"max_sandboxes": 0}).start()
    client = service.client()
    boxes = [make(client) for _ in range(4)]
    run(client, boxes[0], "KEPT=yes")
    service.settings["max_sandboxes"] = 2
    service.restart()
    client = service.client()
    for box in boxes[:2]:
        eventually_state(client, box, "paused")
    assert [state(client, box) for box in boxes] == ["paused", "paused", "running", "running"]
    assert run(client, boxes[0], "echo $KEPT")["content"] == "yes"  # which makes room for itself
    assert [state(client, box) for box in boxes] == ["running", "paused", "paused", "running"]
    service.settings.update(max_sandboxes=1, pause_old_sandboxes="false")
    service.restart()
    client = service.client()
    eventually(lambda: client.get("/readyz").status == 200, "all are known")
    assert [state(client, box) for box in boxes] == ["running", "paused", "paused", "running"], "only if that is wanted"


def test_refusing_instead_of_pausing(make_service, jail_works):
    service = make_service(settings={"max_sandboxes": 1, "pause_old_sandboxes": "false"}).start()
    client = service.client()
    first = make(client)
    failed = client.post("/v1/sandboxes", {"plugins": []}).json
    assert (failed["state"], failed["cause"]) == ("error", "quota")
    assert "service.max_sandboxes" in failed["reason"] and "pause or delete" in failed["reason"]
    assert state(client, first) == "running"
    client.post(at(first, "/pause")).ok()
    client.post(at(failed, "/resume")).ok()
    assert state(client, failed) == "running"


def test_the_line_shows_positions(make_service, jail_works):
    service = make_service(settings={"max_starts": 1}).start()
    client = service.client()
    boxes = []

    def somebody_waits():
        boxes.append(client.post("/v1/sandboxes", {"plugins": [], "wait": 0}).ok(201).json)
        listed = client.get("/v1/sandboxes?limit=100&state=starting").ok().json["sandboxes"]
        return [box["queue_position"] for box in listed if box["queue_position"]]

    assert min(eventually(somebody_waits, "one waits in line")) >= 1
    for box in boxes:
        eventually_state(client, box, "running")
        assert client.get(at(box)).ok().json["queue_position"] in (0, None)
    # One that waits can be deleted at once.
    for box in boxes:
        client.delete(at(box)).ok(204)


def test_a_sample_that_fails_is_followed_by_a_rest(make_service, tmp_path):
    """The thread that samples is there for all: one whose runtime takes its time to fail is not asked again at once."""
    calls = tmp_path / "calls"
    body = f"""        began = time.monotonic()
        subprocess.run(["sleep", "1"])
        with open({str(calls)!r}, "a") as log:
            print(began, time.monotonic(), file=log)
        raise Failure("unsupported", "it cannot tell")
"""
    env = example_runtime(tmp_path, "silent", "    def usage(self, params):\n", body)
    service = make_service(env=env).start()
    client = service.client()
    box = make(client, runtime="silent")
    client.get(at(box, "/usage")).ok()  # who asks watches: the steward samples it too, at the same time
    rows = lambda: [tuple(map(float, line.split())) for line in (calls.read_text() if calls.exists() else "").splitlines()]
    eventually(lambda: len(rows()) > 2, "it is asked again")
    third, before = rows()[2], max(end for _, end in rows()[:2])
    assert third[0] - before > 2.5, rows()
    began = time.monotonic()
    for _ in range(5):  # whoever asks again gets what was seen last
        client.get(at(box, "/usage")).ok()
    assert time.monotonic() - began < 3, rows()


# --- times ---------------------------------------------------------------------------------------


def test_idle_pause_then_stop_then_back(service):
    client = service.tenant("idle")
    box = make(client, idle_pause=0.2)
    eventually_state(client, box, "paused")
    assert run(client, box, "echo awake")["content"] == "awake"  # resume_on_use
    eventually_state(client, box, "paused")
    client.patch(at(box), {"idle_stop": 0.3}).ok()
    eventually_state(client, box, "stopped")
    client.post(at(box, "/resume")).ok()
    eventually_state(client, box, "stopped")  # unused for so long again: not paused, stopped
    client.delete(at(box)).ok(204)


def test_an_action_under_way_is_use(service):
    """A paused sandbox would never answer."""
    client = service.tenant("busy")
    box = make(client, idle_pause=0.1, idle_stop=0.2)
    assert run(client, box, "sleep 1; echo done")["content"] == "done"
    eventually_state(client, box, "stopped")
    client.delete(at(box)).ok(204)


def test_a_command_that_outlives_its_action_is_use(service):
    """The action gave it no time; frozen, it would never end."""
    client = service.tenant("patient")
    box = make(client, idle_pause=0.2)
    action = {"action": "run", "args": {"command": "sleep 2; echo ended > ended"}, "timeout": 0.3}
    assert client.post(at(box, "/actions"), {"action": action}).ok().json["extras"]["metadata"]["exit_code"] == -1
    began = time.monotonic()
    while time.monotonic() - began < 1.2:
        assert state(client, box) == "running"
    eventually_state(client, box, "paused")  # it has ended by itself
    assert run(client, box, "cat ended")["content"] == "ended"
    client.delete(at(box)).ok(204)


def test_a_process_that_runs_is_use(service):
    client = service.tenant("processing")
    box = make(client, idle_pause=0.2)
    script = "sleep 2; echo ended > ended"
    process = {"args": ["sh", "-c", script]}
    args = {"command": f"sh -c '{script}'", "process": process}
    started = client.post(at(box, "/actions"), {"action": {"action": "run", "args": args, "timeout": 30}}).ok().json
    assert started["extras"]["metadata"]["process"], started
    began = time.monotonic()
    while time.monotonic() - began < 1.2:
        assert state(client, box) == "running"
    eventually_state(client, box, "paused")  # it has ended by itself
    assert run(client, box, "cat ended")["content"] == "ended"
    client.delete(at(box)).ok(204)


def test_an_open_terminal_is_use(service):
    client = service.tenant("typing")
    box = make(client)
    client.post(at(box, "/terminals"), {"name": "t"}).ok(201)
    socket = upgrade(client, at(box, "/terminals/t"))
    client.patch(at(box), {"idle_pause": 0.1}).ok()
    socket.send_binary(b"sleep 1; echo en''d\n")
    seen = ""
    while "end" not in seen:
        data = socket.recv()
        seen += data if isinstance(data, str) else data.decode(errors="replace")
    assert state(client, box) == "running"
    socket.close()
    eventually_state(client, box, "paused")
    client.delete(at(box)).ok(204)


def test_time_to_live(service):
    client = service.tenant("mortal")
    box = make(client, ttl=0.5)
    eventually(lambda: client.get(at(box)).status == 404, "it has lived long enough")


def test_time_passes_while_the_service_is_down(make_service, jail_works):
    service = make_service().start()
    client = service.client()
    short, idle, longer = make(client, ttl=0.5), make(client, idle_pause=0.5), make(client, ttl=1000)
    service.restart(kill=True)
    client = service.client()
    eventually(lambda: client.get(at(short)).status == 404, "it is deleted")
    eventually_state(client, idle, "paused")
    assert state(client, longer) == "running"


# --- /metrics ------------------------------------------------------------------------------------

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL},?)*)\}})? (\S+)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def parse_page(text):
    """The text format 0.0.4, strictly: every family once, HELP, TYPE, then all its samples. {(name, labels): value}"""
    assert text.endswith("\n")
    samples, families, family = {}, {}, None
    lines = text[:-1].split("\n")
    for number, line in enumerate(lines):
        if line.startswith("# HELP "):
            name, _, told = line[7:].partition(" ")
            assert re.fullmatch(NAME, name) and told and name not in families, line
            assert lines[number + 1].startswith(f"# TYPE {name} "), line
            family = name
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name == family and kind in SUFFIXES, line
            families[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, f"no sample: {line!r}"
            name, labels = match[1], tuple(sorted((m[1], m[2]) for m in re.finditer(LABEL, match[2] or "")))
            assert any(name == family + suffix for suffix in SUFFIXES[families[family]]), line
            assert len(dict(labels)) == len(labels) and (name, labels) not in samples, line
            samples[name, labels] = float(match[5])
            if families[family] != "gauge":
                assert samples[name, labels] >= 0 and math.isfinite(samples[name, labels]), line
    for name, kind in families.items():
        if kind == "histogram":
            buckets = [(dict(labels)["le"], v) for (n, labels), v in samples.items() if n == f"{name}_bucket"]
            bounds = [float(le.replace("+Inf", "inf")) for le, _ in buckets]
            assert bounds == sorted(set(bounds)) and bounds[-1] == math.inf
            values = [v for _, v in buckets]
            assert values == sorted(values) and values[-1] == samples[f"{name}_count", ()]
        elif kind == "counter":
            assert name.endswith("_total"), name
    return samples


def page(service):
    reply = service.client().get("/metrics").ok()
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parse_page(reply.text)


def test_metrics(service):
    before = page(service)
    client = service.tenant("counted")
    box = make(client, ttl=1000)
    run(client, box, "true")
    client.get("/v1/sandboxes/nonsense").ok(404)
    client.get("/v1/me").ok()  # requests are answered, then counted: on one connection before the next is read
    now = page(service)

    def grew(name, **labels):
        key = name, tuple(sorted(labels.items()))
        return now[key] - before[key]

    assert grew("tendon_starts_total", how="cold") == 1
    assert grew("tendon_start_seconds_count") == 1
    assert grew("tendon_queue_seconds_count") == 1
    assert grew("tendon_actions_total", kind="run") == 1
    assert grew("tendon_action_seconds_count") == 1
    assert grew("tendon_requests_total", status="2xx") >= 3
    assert grew("tendon_requests_total", status="4xx") >= 1
    assert grew("tendon_sandboxes", state="running") == 1
    assert now["tendon_queue_length", ()] == 0 and now["tendon_queue_turns", ()] >= 1
    assert 1e6 < now["process_resident_memory_bytes", ()] < 1e10
    assert 5 < now["process_open_fds", ()] < now["process_max_fds", ()]
    assert now["process_threads", ()] > 3
    assert now["tendon_uptime_seconds", ()] > before["tendon_uptime_seconds", ()]
    client.post("/v1/sandboxes", {"plugins": []}, headers={"X-API-Key": "wrong"}).ok(401)
    assert page(service)["tendon_denied_total", ()] > now["tendon_denied_total", ()]
    client.delete(at(box)).ok(204)


def test_metrics_of_actions_by_strange_names(service):
    """Clients cannot make the page grow."""
    client = service.tenant("strange")
    box = make(client)
    names = {key for key in page(service)}
    for name in ('x"} 1', "no_such_action", "a\nb"):
        client.post(at(box, "/actions"), {"action": {"action": name, "args": {}}})
    client.post(at(box, "/actions"), run_action("true")).ok()
    assert {key for key in page(service)} == names
    client.delete(at(box)).ok(204)

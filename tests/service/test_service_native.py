"""The native API: what each route does when all is well."""

import json
import threading

import pytest

from native import at, make, run, run_action, upgrade, url
from services import eventually

CONFIG = """
[template.small]
memory = "256m"
plugins = []
env = {GREETING = "hello", API_TOKEN = "hidden-value-1"}
"""


@pytest.fixture(scope="module")
def box(alice):
    return make(alice, name="shared", session="one", metadata={"team": "blue"})


# --- their life ----------------------------------------------------------------------------------


def test_a_sandbox_is_created_as_asked(alice):
    reply = alice.post(
        "/v1/sandboxes",
        {"template": "small", "name": "web", "session": "s-1", "metadata": {"a": [1, 2]}, "ttl": 3600, "idle_pause": 0},
    ).ok(201)
    made = reply.json
    assert reply.headers["location"] == at(made)
    assert (made["state"], made["goal"], made["reason"], made["cause"]) == ("running", "running", None, None)
    assert (made["name"], made["session"], made["template"], made["tenant"]) == ("web", "s-1", "small", "alice")
    assert made["runtime"] == "jail" and made["metadata"] == {"a": [1, 2]}
    assert made["idle_pause"] == 0 and 3500 < made["expires"] - made["created"] <= 3600
    assert made["isolation"]["pid"] is True
    assert made["spec"]["memory"] == "256m"
    assert made["spec"]["env"]["API_TOKEN"] == "***" and made["spec"]["env"]["GREETING"] == "hello"
    assert run(alice, made, "echo $GREETING $API_TOKEN")["content"] == "hello hidden-value-1"
    assert alice.get(at(made)).ok().json["id"] == made["id"]
    alice.delete(at(made)).ok(204)
    alice.get(at(made)).ok(404)


def test_a_request_that_is_repeated_makes_one(alice):
    key = {"Idempotency-Key": "create-once"}
    first = alice.post("/v1/sandboxes", {"plugins": []}, headers=key).ok(201).json
    second = alice.post("/v1/sandboxes", {"plugins": [], "wait": 50}, headers=key).ok(200).json
    assert first["id"] == second["id"]
    alice.post("/v1/sandboxes", {"plugins": [], "name": "other"}, headers=key).ok(409)
    alice.delete(at(first)).ok(204)


def test_not_waiting_and_waiting_for_it(alice):
    made = alice.post("/v1/sandboxes", {"plugins": [], "wait": 0}).ok(201).json
    assert made["state"] in ("starting", "running")
    assert alice.get(at(made, wait=60, state="running")).ok().json["state"] == "running"
    version = alice.get(at(made)).ok().json["version"]
    seen = []
    other = alice.service.client(alice.key)
    waiter = threading.Thread(target=lambda: seen.append(other.get(at(made, wait=60, version=version))))
    waiter.start()
    alice.patch(at(made), {"name": "changed"}).ok()
    waiter.join()
    assert seen[0].ok().json["version"] > version
    assert alice.get(at(made, wait=0.01, version=1 << 60)).ok().json["name"] == "changed"
    alice.delete(at(made)).ok(204)


def test_pages_of_a_list_stay_right_while_things_come_and_go(alice):
    wish = {"plugins": [], "wait": 0, "name": "paged"}
    ids = [alice.post("/v1/sandboxes", wish).ok(201).json["id"] for _ in range(5)]
    for order, expected in (("oldest", ids), ("newest", ids[::-1])):
        page = alice.get(url("/v1/sandboxes", name="paged", limit=2, order=order)).ok()
        seen = [b["id"] for b in page.json["sandboxes"]]
        assert seen == expected[:2] and "spec" not in page.json["sandboxes"][0]
        assert page.headers["link"].endswith('>; rel="next"')
        follow = page.headers["link"].partition(">")[0][1:]
        assert alice.get(follow).ok().json["sandboxes"][0]["id"] == expected[2]
        while token := page.json["next"]:
            page = alice.get(url("/v1/sandboxes", name="paged", limit=2, order=order, page=token)).ok()
            seen += [b["id"] for b in page.json["sandboxes"]]
        assert seen == expected
    page = alice.get(url("/v1/sandboxes", name="paged", limit=2)).ok().json
    alice.delete(at(ids[1])).ok(204)  # the last one of that page: the token goes on behind it all the same
    rest = alice.get(url("/v1/sandboxes", name="paged", page=page["next"])).ok().json
    assert [b["id"] for b in rest["sandboxes"]] == ids[2:] and rest["next"] is None
    for ident in ids[:1] + ids[2:]:
        alice.delete(at(ident)).ok(204)


def test_a_list_can_be_narrowed_down(alice, box):
    def ids(**query):
        return [b["id"] for b in alice.get(url("/v1/sandboxes", **query)).ok().json["sandboxes"]]

    assert box["id"] in ids() and box["id"] in ids(state="running,paused")
    assert ids(session="one") == [box["id"]] == ids(name="shared")
    assert box["id"] not in ids(state="stopped") and not ids(template="nosuch") and not ids(runtime="docker")


def test_words_and_times_can_be_changed(alice):
    made = make(alice, name="before", metadata={"a": 1})
    after = alice.patch(at(made), {"name": "after", "ttl": 100, "idle_stop": 7, "metadata": {"b": 2}}).ok().json
    assert (after["name"], after["metadata"], after["idle_stop"]) == ("after", {"b": 2}, 7)
    assert after["expires"] and after["version"] > made["version"]
    assert alice.patch(at(made), {"ttl": 0, "name": ""}).ok().json["expires"] is None
    again = alice.get(at(made)).ok().json
    assert again["name"] is None and again["metadata"] == {"b": 2}
    alice.delete(at(made)).ok(204)


def test_it_is_driven_from_state_to_state(alice):
    made = make(alice)
    run(alice, made, "echo kept > ~/kept; cd /tmp")
    states = {"pause": "paused", "resume": "running", "stop": "stopped"}
    for order in ("pause", "pause", "resume", "stop", "resume"):
        state = states[order]
        assert alice.post(at(made, f"/{order}")).ok().json["state"] == state
    assert run(alice, made, "cat ~/kept")["content"] == "kept"
    alice.delete(at(made)).ok(204)
    alice.delete(at(made)).ok(404)


def test_forks_and_snapshots(alice):
    made = make(alice)
    run(alice, made, "echo one > /tmp/state")
    alice.post(at(made, "/snapshots"), {"name": "first"}).ok(201)
    alice.post(at(made, "/snapshots"), {"name": "first"}).ok(409)
    assert [s["name"] for s in alice.get(at(made, "/snapshots")).ok().json["snapshots"]] == ["first"]
    run(alice, made, "echo two > /tmp/state")
    now = alice.post(at(made, "/fork"), {"name": "now"}).ok(201).json
    then = alice.post(at(made, "/fork"), {"snapshot": "first", "session": "then"}).ok(201).json
    assert run(alice, now, "cat /tmp/state")["content"] == "two"
    assert run(alice, then, "cat /tmp/state")["content"] == "one"
    back = alice.post(at(made, "/snapshots/first/rollback")).ok().json
    assert back["state"] == "running"
    assert run(alice, made, "cat /tmp/state")["content"] == "one"
    alice.delete(at(made, "/snapshots/first")).ok(204)
    alice.delete(at(made, "/snapshots/first")).ok(404)
    for one in (now, then, made):
        alice.delete(at(one)).ok(204)


# --- inside --------------------------------------------------------------------------------------


def test_an_action_is_answered_as_the_hand_answers_and_noted(alice, box):
    done = run(alice, box, "echo out; exit_code() { return 3; }; exit_code")
    assert done["observation"] == "run" and done["content"] == "out" and done["extras"]["metadata"]["exit_code"] == 3
    events = alice.get(at(box, "/events")).ok().json["events"]
    action = next(e for e in events if "exit_code()" in str(e.get("args")))
    answer = next(e for e in events if e.get("cause") == action["id"])
    assert action["action"] == "run" and answer["content"] == "out"
    shown = alice.get(at(box)).ok().json["last_action"]
    assert shown["id"] == action["id"] and shown["text"].startswith("run: echo out")
    # The command line reads the same journal.
    told = alice.service.tendon("--json", "events", box["id"])
    assert told.returncode == 0 and "exit_code()" in told.stdout


def test_a_request_is_found_in_the_log_of_the_hand(service):
    """By its id, on each of the ways into a sandbox; also by the one that the service gave it."""
    admin = service.client()
    made = make(admin, hand_args=["--log-level", "debug"])
    named = {"X-Request-Id": "follow-me-inside"}
    ways = {
        "action": admin.post(at(made, "/actions"), run_action("true"), headers=named),
        "old action": admin.post(f"/{made['id']}/execute_action", run_action("true")),
        "file": admin.get(at(made, "/files/stat", path="/tmp")),
        "hand": admin.get(at(made, "/hand/alive")),
    }
    ids = {way: answer.ok().headers["x-request-id"] for way, answer in ways.items()}
    assert ids["action"] == "follow-me-inside" and len(set(ids.values())) == len(ids)
    for way, ident in ids.items():
        eventually(lambda: ident in admin.get(at(made, "/logs")).ok().text, f"{way} is in the log of the hand")
    logged = [line for line in service.log_lines() if line.get("request_id") == "follow-me-inside"]
    assert [line["path"] for line in logged] == [at(made, "/actions")]
    admin.delete(at(made)).ok(204)


def test_the_key_of_the_hand_and_secret_variables_are_in_no_event(alice):
    made = make(alice, env={"MY_TOKEN": "tell-nobody-7"})
    run(alice, made, "echo $MY_TOKEN; echo tell-nobody-7")
    page = alice.get(at(made, "/events")).ok()
    assert "tell-nobody-7" not in page.text and "<secret_hidden>" in page.text
    assert "tell-nobody-7" not in alice.get(at(made)).text
    alice.delete(at(made)).ok(204)


def test_files(alice, box):
    content = at(box, "/files", path="/tmp/dir/file")
    alice.put(content, b"0123456789").ok(201)
    alice.put(content, b"9876543210").ok(204)
    assert alice.get(content).ok().body == b"9876543210"
    part = alice.get(content, headers={"Range": "bytes=2-3"})
    assert part.status == 206 and part.body == b"76"
    listed = alice.get(at(box, "/files/list", path="/tmp/dir")).ok().json
    assert [e["name"] for e in listed["entries"]] == ["file"]
    assert alice.get(at(box, "/files/stat", path="/tmp/dir/file")).ok().json["size"] == 10
    alice.post(at(box, "/files/move"), {"from": "/tmp/dir/file", "to": "/tmp/dir/moved"}).ok(204)
    alice.delete(at(box, "/files", path="/tmp/dir", recursive="true")).ok(204)
    alice.get(content).ok(404)


def test_a_save_replaces_what_was_seen(alice, box):
    """Of two who read the same content one saves it; the other is told."""
    path = at(box, "/files", path="/tmp/shared.txt")
    assert alice.put(path, b"one").status == 201
    seen = alice.get(path).ok().headers["ETag"]
    saved = alice.put(path, b"two", headers={"If-Match": seen}).ok(204).headers["ETag"]
    assert alice.get(path).ok().headers["ETag"] == saved != seen
    assert "changed" in alice.put(path, b"three", headers={"If-Match": seen}).ok(412).text
    assert alice.get(path).ok().body == b"two"
    assert alice.put(path, b"four", headers={"If-Match": f'"x", {saved}'}).status == 204
    gone = at(box, "/files", path="/tmp/never-there.txt")
    assert alice.put(gone, b"x", headers={"If-Match": "*"}).status == 412
    assert alice.get(gone).status == 404


@pytest.mark.concurrent
def test_saves_at_the_same_time(alice, service, box):
    """Everybody has seen the same: exactly one wins."""
    path = at(box, "/files", path="/tmp/contested.txt")
    assert alice.put(path, b"zero").status == 201
    seen = alice.get(path).ok().headers["ETag"]
    clients, answers = [service.client(alice.key) for _ in range(6)], []

    def save(i):
        answers.append(clients[i].put(path, f"{i}".encode() * 70000, headers={"If-Match": seen}).status)

    crew = [threading.Thread(target=save, args=(i,)) for i in range(len(clients))]
    for member in crew:
        member.start()
    for member in crew:
        member.join()
    assert sorted(answers) == [204] + [412] * (len(crew) - 1), answers


def test_a_download_by_ticket(alice, service, box):
    """What a browser opens: an address without a key, for one file, once."""
    name = "/tmp/a file \u00fc.bin"
    content = bytes(range(256)) * 5000
    assert alice.put(at(box, "/files", path=name), content).status == 201
    wish = {"purpose": "download", "sandbox": box["id"], "path": name}
    ticket = alice.post("/v1/tickets", wish).ok(201).json["ticket"]
    address, stranger = at(box, "/download", path=name, ticket=ticket), service.stranger()
    for wrong in (
        at(box, "/download", path="/etc/passwd", ticket=ticket),
        at("aaaaaaaaaa", "/download", path=name, ticket=ticket),
        at(box, "/download", path=name, ticket=ticket[:-2]),
        at(box, "/files", path=name, ticket=ticket),
    ):
        assert stranger.get(wrong).status in (401, 404), wrong
    answer = stranger.get(address).ok()
    assert answer.body == content
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''a%20file%20%C3%BC.bin"
    assert answer.headers["Content-Security-Policy"] == "sandbox" and answer.headers["Cache-Control"] == "no-store"
    assert stranger.get(address).status == 401, "once"
    assert ticket not in service.log()
    assert alice.post("/v1/tickets", {"purpose": "download", "sandbox": box["id"]}).status == 422
    assert alice.post("/v1/tickets", {**wish, "purpose": "ws"}).status == 422
    other = service.tenant("thief")
    assert other.post("/v1/tickets", wish).status == 404


def times(answer):
    """The parts of Server-Timing, in seconds."""
    parts = (part.split(";dur=") for part in answer.headers["Server-Timing"].split(", "))
    return {name: float(value) / 1000 for name, value in parts}


def test_where_the_time_went(service, alice, box):
    told = times(alice.get("/v1/sandboxes").ok())
    assert 0 < told["total"] < 30 and "queue" not in told
    told = times(alice.post(at(box, "/actions"), run_action("sleep 0.25")).ok())
    assert 0.25 <= told["backend"] <= told["total"]
    told = times(alice.get(at(box, "/files", path="/etc/passwd")).ok())
    assert 0 < told["backend"] <= told["total"]
    made = alice.post("/v1/sandboxes", {"plugins": []}).ok(201)
    told = times(made)
    # No word of the sandbox where it was there before anybody began to wait for it.
    assert {"store", "total"} <= told.keys()
    assert sum(told.values()) - told["total"] <= told["total"] + 0.001  # they are parts of it
    alice.delete(at(made.json)).ok(204)
    for stranger in (service.stranger().get("/v1/sandboxes"), service.client("tnk_no_key").get("/v1/me")):
        assert stranger.status == 401 and "Server-Timing" not in stranger.headers


def test_too_many_downloads_of_one_tenant(service, box, alice):
    """It has to wait a moment, whichever of its keys it takes; others do not."""
    greedy = [service.client(service.make_key(f"greedy{i}", "--tenant", "greedy")["key"]) for i in range(2)]
    mine = greedy[0].post("/v1/sandboxes", {"plugins": []}).ok(201).json
    wish = {"purpose": "download", "sandbox": mine["id"], "path": "/etc/hostname"}
    refused = next(
        (answer for i in range(5000) if (answer := greedy[i % 2].post("/v1/tickets", wish)).status != 201), None
    )
    assert refused.ok(429).headers["Retry-After"] == "1"
    assert "tickets" in refused.json["detail"]
    theirs = {"purpose": "download", "sandbox": box["id"], "path": "/etc/passwd"}
    ticket = alice.post("/v1/tickets", theirs).ok(201).json["ticket"]
    service.stranger().get(at(box, "/download", path="/etc/passwd", ticket=ticket)).ok()
    assert greedy[0].post("/v1/tickets", {"purpose": "ws", "sandbox": mine["id"]}).status == 201
    eventually(lambda: greedy[1].post("/v1/tickets", wish).status == 201, "there is room again")
    greedy[0].delete(f"/v1/sandboxes/{mine['id']}").ok(204)


def test_the_whole_api_of_the_hand(alice, box):
    assert alice.get(at(box, "/hand/alive")).ok().json == {"status": "ok"}
    assert any(r["path"] == "/v1/sessions" for r in alice.get(at(box, "/hand/v1/routes")).ok().json["routes"])
    odd = "/tmp/a name%2F+?&=#"
    alice.put(at(box, "/hand/v1/files/content", path=odd), b"odd").ok(201)
    assert alice.get(at(box, "/files", path=odd)).ok().body == b"odd"
    before = alice.get(at(box, "/events", last=0)).ok().json["next"]
    answer = alice.post(at(box, "/hand/execute_action"), run_action("echo through")).ok().json
    assert answer["content"] == "through"
    assert len(alice.get(at(box, "/events", **{"from": before})).ok().json["events"]) == 2  # noted here too


def test_a_terminal(alice, box):
    alice.post(at(box, "/terminals"), {"name": "person", "cwd": "/tmp"}).ok(201)
    assert "person" in [s["name"] for s in alice.get(at(box, "/terminals")).ok().json["sessions"]]
    ticket = alice.post("/v1/tickets", {"purpose": "ws", "sandbox": box["id"]}).ok(201).json["ticket"]
    for options in ({}, {"key": False, "protocols": ["tendon", f"ticket.{ticket}"]}):
        terminal = upgrade(alice, at(box, "/terminals/person"), **options)
        assert terminal.getsubprotocol() == ("tendon" if options else None)
        assert json.loads(terminal.recv())["type"] == "hello"
        terminal.send_binary(b"echo $((6 * 7))x\n")
        seen = b""
        while b"42x" not in seen:
            _, data = terminal.recv_data()
            seen += data
        terminal.close()
    alice.delete(at(box, "/terminals/person")).ok(204)


def test_usage_and_logs(alice, box):
    now = alice.get(at(box, "/usage")).ok().json["now"]
    assert now["memory"] > 0 and now["processes"] >= 1
    assert eventually(lambda: alice.get(at(box, "/usage")).ok().json["samples"], "a sample")[0]["time"] > 0
    logs = alice.get(at(box, "/logs")).ok()
    assert logs.headers["content-type"].startswith("text/plain")


def test_ports(alice):
    made = make(alice)
    eventually(lambda: alice.get(at(made, "/ports")).ok().json["ports"] == [], "nothing but the hand itself listens")
    run(alice, made, "python3 -m http.server 8123 >/dev/null 2>&1 &")

    def listening():
        return [p for p in alice.get(at(made, "/ports")).ok().json["ports"] if p["listening"]]

    assert eventually(listening, "the port is open")[0]["port"] == 8123
    opened = alice.post(at(made, "/ports/8123")).ok(201).json
    assert opened["link"].startswith(opened["url"].rstrip("/")) and made["id"] in opened["url"]
    alice.delete(at(made)).ok(204)


# --- the service ---------------------------------------------------------------------------------


def test_about_the_service_and_the_caller(alice, service):
    info = alice.get("/v1/info").ok().json
    assert info["name"] == "tendon" and info["version"] and info["url"].startswith("http://127.0.0.1:")
    jail = next(r for r in info["runtimes"] if r["name"] == "jail")
    assert jail["works"] and jail["usual"] and "missing" not in jail
    assert "missing" in service.client().get("/v1/info").ok().json["runtimes"][0]
    me = alice.get("/v1/me").ok().json
    assert me["tenant"] == "alice" and me["scopes"] == ["read", "use", "manage"] and me["use"]["sandboxes"] >= 0
    templates = alice.get("/v1/templates").ok().json["templates"]
    assert [t["name"] for t in templates] == ["small"] and templates[0]["spec"]["env"]["API_TOKEN"] == "***"
    assert alice.get("/v1/images").ok().json["images"] == []


def test_keys(service):
    admin = service.client()
    made = admin.post(
        "/v1/keys", {"name": "ci", "tenant": "carol", "scopes": ["read"], "limits": {"max_sandboxes": 3}, "expires": 60}
    ).ok(201).json
    carol = service.client(made["key"])
    me = carol.get("/v1/me").ok().json
    assert (me["key"], me["name"], me["scopes"], me["limits"]["max_sandboxes"]) == (made["id"], "ci", ["read"], 3)
    listed = next(k for k in admin.get("/v1/keys").ok().json["keys"] if k["id"] == made["id"])
    assert "key" not in listed and listed["expires"] > listed["created"]
    admin.post("/v1/keys", {"name": "ci", "tenant": "carol"}).ok(409)
    admin.delete(f"/v1/keys/{made['id']}").ok(204)
    carol.get("/v1/me").ok(401)
    assert {"key.create", "key.revoke"} <= {line["what"] for line in service.audit()}
    assert made["key"] not in service.log() + json.dumps(service.audit())


def test_pools(service, alice):
    admin = service.client()
    pool = admin.put("/v1/pools/warm", {"template": "small", "target": 1}).ok().json
    assert pool["name"] == "warm" and pool["target"] == 1 and pool["spec"]["memory"] == "256m"
    ready = lambda: next(p for p in admin.get("/v1/pools").ok().json["pools"] if p["name"] == "warm")["ready"]
    eventually(lambda: ready() == 1, "one is warm")
    made = alice.post("/v1/sandboxes", {"template": "small"}).ok(201).json
    assert made["state"] == "running"
    assert run(alice, made, "echo $GREETING")["content"] == "hello"
    admin.delete("/v1/pools/warm").ok(204)
    admin.delete("/v1/pools/warm").ok(404)
    alice.delete(at(made)).ok(204)


def test_what_was_done_is_in_the_audit_log_once(alice, service):
    made = make(alice)
    alice.post(at(made, "/pause")).ok()
    alice.delete(at(made)).ok(204)
    lines = [line for line in service.audit() if line.get("box") == made["id"]]
    assert [line["what"] for line in lines] == ["sandbox.create", "sandbox.pause", "sandbox.delete"]
    assert all(line["tenant"] == "alice" and line["result"] == "ok" and line["request_id"] for line in lines)


@pytest.mark.concurrent
def test_many_at_once(alice):
    made = make(alice)
    failures = []

    def work(number):
        try:
            client = alice.service.client(alice.key)
            for i in range(5):
                session = {"action": "run", "args": {"command": f"echo {number}-{i}", "session": f"s{number}"}}
                assert client.post(at(made, "/actions"), {"action": session}).ok().json["content"] == f"{number}-{i}"
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    events = alice.get(at(made, "/events", limit=1000)).ok().json["events"]
    assert [e["id"] for e in events] == list(range(60))
    assert len({e["cause"] for e in events if "cause" in e}) == 30
    alice.delete(at(made)).ok(204)

"""What the native API refuses, route by route: the right status, and a body that helps."""

import json
import re

import pytest

from native import at, make, run, run_action, url
from services import Service

CONFIG = """[docker]
host = "unix:///nowhere/docker.sock"
[template.shared]
plugins = []
volumes = ["/usr/share:/mnt:ro"]
"""
SETTINGS = {"resume_on_use": "false", "runtimes": "jail,docker"}


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("refusals"), config=CONFIG, settings=SETTINGS).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def box(alice):
    made = make(alice)
    run(alice, made, "true")
    alice.post(at(made, "/snapshots"), {"name": "s"}).ok(201)
    return made


@pytest.fixture(scope="module")
def routes(service):
    """Every row, with a path of a sandbox that is not there."""
    rows = service.client().get("/v1/routes").ok().json["routes"]
    assert len(rows) > 40
    return [(r["method"], r["path"]) for r in rows]


SCOPES = {  # what a row needs beyond a key; "read" where it says nothing else
    r"/v1/(keys|pools).*": "admin",
    r"/v1/(info|me|routes)": None,
}
# Rows that take a key of the scope use, or manage: (method, pattern).
USE = [
    ("POST", r".*/(actions|hand/.*|files/.*|terminals|ports/.*|editor)"),
    ("PUT", r".*/sandboxes/.*"),
    ("DELETE", r".*/(files|terminals/.*|hand/.*)"),
    ("GET", r".*/(terminals.*|hand/.*)"),
]
MANAGE = [
    ("POST", r"/v1/sandboxes|.*/(pause|resume|stop|fork|snapshots|rollback|pending/.*)"),
    ("PATCH", r".*"),
    ("PUT", r"/v1/secrets/.*"),
    ("DELETE", r"/v1/sandboxes/\{id\}|.*/snapshots/.*|/v1/secrets/.*"),
]


def scope_of(method, path):
    for pattern, scope in SCOPES.items():
        if re.fullmatch(pattern, path):
            return scope
    for scope, rows in (("use", USE), ("manage", MANAGE)):
        if any(method == m and re.fullmatch(pattern, path) for m, pattern in rows):
            return scope
    return "read"


def fill(path, ident, port="8000"):
    """A path of that row."""
    path = path.replace("/keys/{id}", "/keys/nosuchkey").replace("/pools/{name}", "/pools/nosuchpool")
    path = path.replace("{id}", ident).replace("{port}", port).replace("{what}", "stat")
    path = path.replace("{path...}", "v1/nothing")
    return re.sub(r"{\w+}", "s", path)


def check_problem(reply, status, code=None):
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/problem+json", reply
    body = reply.json
    assert body["status"] == status and body["detail"] and body["request_id"] == reply.headers["x-request-id"]
    assert code is None or body["code"] == code
    return body


def test_without_a_key_or_with_a_wrong_one(service, routes, box):
    stranger = service.stranger()
    forged = service.client("tnk_" + "a" * 12 + "_" + "b" * 43)
    for method, path in routes:
        for client in (stranger, forged):
            check_problem(client.request(method, fill(path, box["id"])), 401, "unauthorized")


def test_with_the_wrong_scope(service, routes, box):
    clients = {scope: service.tenant("alice", "--scope", scope) for scope in ("read", "use", "manage")}
    for method, path in routes:
        needed = scope_of(method, path)
        for scope, client in clients.items():
            if needed and scope != needed:
                body = check_problem(client.request(method, fill(path, box["id"])), 403, "denied")
                assert needed in body["detail"], (method, path, body)
    alive = clients["read"].get(at(box)).ok().json
    assert alive["state"] == "running" and "session_key" not in alive


def test_what_is_another_tenants_does_not_exist(service, routes, box):
    """Whatever bob asks for: alice's sandbox looks exactly like one that was never there."""
    bob = service.tenant("bob")
    for method, path in routes:
        if "sandboxes/{id}" not in path:
            continue
        theirs = bob.request(method, fill(path, box["id"]), b"{}" if method == "POST" else None)
        nobodys = bob.request(method, fill(path, "nosuchnone"), b"{}" if method == "POST" else None)
        check_problem(theirs, 404, "not_found")
        same = {**nobodys.json, "request_id": theirs.json["request_id"]}
        assert json.loads(json.dumps(same).replace("nosuchnone", box["id"])) == theirs.json, (method, path)
    assert bob.get("/v1/sandboxes").ok().json["sandboxes"] == []
    assert bob.get(url("/v1/sandboxes", tenant="alice")).ok().json["sandboxes"] == []
    check_problem(bob.post("/v1/tickets", {"purpose": "ws", "sandbox": box["id"]}), 404)
    assert service.client().get(at(box)).ok().json["tenant"] == "alice", "the administrator sees it"


def test_names_that_two_tenants_give_do_not_meet(service, alice, box):
    """The same name, session and idempotency key: nobody learns that somebody else has them."""
    carol = service.tenant("carol")
    wish = {"plugins": [], "name": "same", "session": "same"}
    once = {"Idempotency-Key": "same"}
    hers, his = (client.post("/v1/sandboxes", wish, headers=once).ok(201).json for client in (alice, carol))
    assert hers["id"] != his["id"] and (hers["tenant"], his["tenant"]) == ("alice", "carol")
    for client, made in ((alice, hers), (carol, his)):
        assert client.post("/v1/sandboxes", wish, headers=once).ok(200).json["id"] == made["id"]
        for query in ({"session": "same"}, {"name": "same"}):
            assert [b["id"] for b in client.get(url("/v1/sandboxes", **query)).ok().json["sandboxes"]] == [made["id"]]
        act = {**once, "X-Request-Id": "same"}
        told = run(client, made, f"echo {made['id']}", headers=act)
        assert told["content"] == made["id"], "nor are their actions one"
    # A page goes on behind what the token says, whoever's it was: among one's own.
    page = alice.get("/v1/sandboxes?limit=1").ok().json
    assert page["next"] and box["id"] in page["next"]
    assert [b["id"] for b in carol.get(url("/v1/sandboxes", page=page["next"])).ok().json["sandboxes"]] == [his["id"]]
    assert carol.get("/v1/me").ok().json["use"] == {"sandboxes": 1, "running": 1}
    said = [
        {**check_problem(carol.post("/v1/tickets", {"purpose": "ws", "sandbox": one}), 404), "request_id": None}
        for one in (box["id"], "nosuchnone")
    ]
    assert said[0] == json.loads(json.dumps(said[1]).replace("nosuchnone", box["id"]))
    alice.delete(at(hers)).ok(204)
    assert carol.get(at(his)).ok().json["state"] == "running"
    carol.delete(at(his)).ok(204)


def test_methods_and_paths_that_are_not_there(service, alice, routes, box):
    known = {}
    for method, path in routes:
        known.setdefault(path, set()).add(method)
    for path, methods in known.items():
        if "{path...}" in path or "execute_action" in path:
            continue
        reply = alice.request("PATCH" if "PATCH" not in methods else "PUT", fill(path, box["id"]))
        check_problem(reply, 405, "method_not_allowed")
        assert methods <= set(reply.headers["allow"].split(", ")), path
    for path in ("/v1", "/v1/", "/v1/nothing", at(box, "/nothing"), at(box, "/snapshots/s/nothing")):
        check_problem(alice.get(path), 404, "not_found")


TAKES_BODY = ["/v1/sandboxes", "/fork", "/snapshots", "/v1/tickets", "/v1/keys", "PATCH", "PATCH /v1/keys/k", "PUT /v1/pools/p"]


@pytest.mark.parametrize("route", TAKES_BODY)
def test_bodies_that_make_no_sense(service, box, route):
    admin = service.client()
    method, path = ("PATCH", at(box)) if route == "PATCH" else route.split() if " " in route else ("POST", route)
    path = path if path.startswith("/v1") else at(box, path)
    check_problem(admin.request(method, path, b"{"), 400, "invalid")
    check_problem(admin.request(method, path, b"[]"), 422, "unprocessable")
    body = check_problem(admin.request(method, path, {"nonsense": 1}), 422, "unprocessable")
    assert "unknown member nonsense" in body["detail"]
    check_problem(admin.request(method, path, b'{"name": "' + b"x" * (1 << 20) + b'"}'), 413, "too_large")


def test_values_that_make_no_sense(service, alice, box):
    def refused(reply, words, status=422):
        assert words in check_problem(reply, status)["detail"], reply

    create = lambda **body: alice.post("/v1/sandboxes", body)
    refused(create(memori="1g"), "did you mean memory?")
    refused(create(sesion="x"), "did you mean session?")
    refused(create(memory="much"), "size", 400)
    refused(create(ttl=-1), "ttl")
    refused(create(name=""), "name")
    refused(create(name="a\nb"), "control characters")
    refused(create(name="x" * 129), "name")
    refused(create(metadata=[1]), "metadata")
    refused(create(metadata={"a": "x" * 20000}), "metadata")
    refused(create(keep=True), "keep")
    refused(create(lease=5), "lease")
    refused(create(template="nosuch"), "template.nosuch", 404)
    refused(create(runtime="nosuch"), "nosuch", create(runtime="nosuch").status)
    for query, words in (
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("state=happy", "state"),
        ("order=up", "order"),
        ("page=nonsense", "page"),
    ):
        refused(alice.get(f"/v1/sandboxes?{query}"), words)
    for rest in ("?wait=-1", "?wait=x", "?wait=1&version=x", "?wait=1&state=happy"):
        check_problem(alice.get(at(box) + rest), 422)
    for rest in ("/events?from=-1", "/events?limit=0", "/events?last=x", "/logs?follow=maybe"):
        check_problem(alice.get(at(box, rest)), 422)
    check_problem(alice.get(at(box, "/events"), headers={"Last-Event-ID": "x"}), 422)
    for port in ("0", "65536", "x"):
        check_problem(alice.post(at(box, f"/ports/{port}")), 422)
    check_problem(alice.post(at(box, "/pause?wait=x")), 422)
    check_problem(alice.post(at(box, "/snapshots"), {"name": "a/b"}), 400)
    check_problem(service.client().delete("/v1/keys/nosuchkey"), 404)
    check_problem(service.client().request("PATCH", "/v1/keys/nosuchkey", {"limits": {}}), 404)
    check_problem(service.client().delete("/v1/pools/nosuchpool"), 404)
    check_problem(service.client().post("/v1/keys", {"name": "n", "tenant": "t", "scopes": ["everything"]}), 422)


def test_actions_that_make_no_sense(alice, box):
    path = at(box, "/actions")
    check_problem(alice.post(path, b"{"), 400)
    check_problem(alice.post(path, {}), 422)
    check_problem(alice.post(path, {"action": "run"}), 422)
    assert "nonsense" in check_problem(alice.post(path, {"action": {"action": "nonsense"}}), 422)["detail"]
    check_problem(alice.post(path, {"action": {"action": "run", "args": {}}}), 422)
    assert alice.post(path, b"x", headers={"Content-Length": str(1 << 40)}).ok(413).json["status"] == 413


def test_what_reaches_into_the_machine_is_for_administrators(service, alice):
    for member, value in (
        ("volumes", ["/etc:/mnt"]),
        ("devices", ["/dev/kvm"]),
        ("gpus", "all"),
        ("hand_args", ["--verbose"]),
        ("network", "host"),
        ("runtime", "local"),
        ("runtime", "cli"),
        ("image", "/"),
    ):
        body = check_problem(alice.post("/v1/sandboxes", {member: value}), 403, "denied")
        assert "admin" in body["detail"], member
    made = make(alice, template="shared")
    assert run(alice, made, "ls /mnt | head -1")["content"]
    alice.delete(at(made)).ok(204)
    assert not any(b["state"] == "error" for b in alice.get("/v1/sandboxes").ok().json["sandboxes"])


def test_an_image_is_named_never_found_by_its_id(alice):
    """An engine would take the beginning of an id, of anybody's image."""
    wish = {"plugins": [], "runtime": "docker", "wait": 0}
    check_problem(alice.post("/v1/sandboxes", {**wish, "image": "sha256:0a"}), 404, "not_found")
    made = alice.post("/v1/sandboxes", {**wish, "image": "0a"}).ok(201).json
    assert made["spec"]["image"] == "0a:latest"
    alice.delete(at(made)).ok(204)


def test_states_that_forbid_it(alice):
    made = make(alice, session="taken")
    check_problem(alice.post("/v1/sandboxes", {"plugins": [], "session": "taken"}), 409, "conflict")
    alice.post(at(made, "/pause")).ok()
    body = check_problem(alice.post(at(made, "/actions"), run_action("true", timeout=5)), 503, "busy")
    assert "paused" in body["detail"]
    alice.post(at(made, "/stop")).ok()
    check_problem(alice.post(at(made, "/pause")), 409, "conflict")
    check_problem(alice.get(at(made, "/files", path="/tmp")), 503)
    check_problem(alice.post(at(made, "/snapshots/nosuch/rollback")), 404)
    alice.delete(at(made)).ok(204)


def test_limits_of_a_key(service):
    dave = service.tenant("dave", "--max-sandboxes", "1")
    made = make(dave)
    body = check_problem(dave.post("/v1/sandboxes", {"plugins": []}), 429, "quota")
    assert "max_sandboxes" in body["detail"]
    check_problem(dave.post(at(made, "/fork")), 429, "quota")
    dave.delete(at(made)).ok(204)
    dave.delete(at(make(dave))).ok(204)


def test_no_key_is_in_any_log(service, alice):
    alice.get("/v1/me").ok()
    everything = service.log() + json.dumps(service.audit())
    for client in service.clients:
        assert not client.key or client.key not in everything

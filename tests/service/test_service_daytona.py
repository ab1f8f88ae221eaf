"""The API of Daytona's surface on the wire, without any SDK."""

import json
import os
import re
import sqlite3
import threading
from urllib.parse import quote, urlsplit

import yaml

from daytona_wire import CONFIG, OLDEST, Toolbox, box, cell, create, kill, state  # noqa: F401, F811 (fixtures)
from native import at, make
from openapi_document import routes_of
from previews import PORT, SERVER as SERVER_FILE, Visitor, by_host, by_path, serving, start_server
from services import Service, eventually
from trees import ROOT


def versioned(version):
    return {"X-Daytona-SDK-Version": version}


def test_every_route_is_in_the_document():
    document = yaml.safe_load((ROOT / "docs" / "clouds" / "daytona.yaml").read_text())
    described = {(m, path) for path, item in document["paths"].items() for m in item if m != "parameters"}
    toolbox = {(m, re.sub(r"{\w+}", "*", path.split("/", 4)[4])) for m, path in described if "/toolbox/{id}/" in path}
    served = routes_of("daytona/api.c", "daytona/snapshot.c")
    served = {row for row in served if "/toolbox/{id}/" not in row[1]}
    assert {row for row in described if "/toolbox/{id}/" not in row[1]} == served
    rows = set()
    for source in (ROOT / "src" / "service" / "daytona").glob("*.c"):
        found = re.findall(r'^    {"([A-Z]+)", "([a-z][^"]*)",\s+\w+,', source.read_text(), re.MULTILINE)
        rows |= {(m.lower(), path.rstrip("/")) for m, path in found}
    assert toolbox == rows


# --- keys and errors -----------------------------------------------------------------------------


def test_errors_have_the_vendors_shape(service, alice, box):
    answer = service.stranger().get("/api/sandbox").ok(401).json
    assert answer["statusCode"] == 401 and answer["message"] and answer["path"] == "/api/sandbox"
    assert alice.get("/api/sandbox/abcdefghij").ok(404).json["statusCode"] == 404
    assert alice.post("/api/sandbox", [1]).ok(400).json["message"] == "The body is no JSON object"
    bearer = service.stranger().get("/api/sandbox", headers={"Authorization": f"Bearer {alice.key}"})
    assert bearer.ok().json["items"]
    answer = alice.get(f"/api/toolbox/{box['id']}/nothing").ok(404).json
    assert answer["source"] == "DAYTONA_DAEMON" and answer["method"] == "GET" and answer["timestamp"]
    events = service.stranger().get("/api/socket.io/?EIO=4&transport=websocket")
    assert events.ok(404).json["message"]  # SDKs ask for it without a key, and go on without it
    reader = service.tenant("alice", "--scope", "read")
    assert reader.post("/api/sandbox", {}).ok(403).json["statusCode"] == 403
    assert reader.get(f"/api/sandbox/{box['id']}").ok().json["env"] == {}
    reader.post(f"/api/toolbox/{box['id']}/process/execute", {"command": "true"}).ok(403)


# --- life ----------------------------------------------------------------------------------------


def test_other_variables(service, alice, bob):
    made = create(alice, env={"A": "1", "GONE": "x"})
    tools, path = Toolbox(alice, made), f"/api/toolbox/{made['id']}/env"
    told = "echo $A-$B-${GONE-none}"
    alice.post(path, {"set": {"A": "2", "B": "b"}, "unset": ["GONE", "NEVER"]}).ok()
    assert tools.output(told) == "2-b-none\n"
    alice.post(path, {"set": {"GONE": "back"}, "unset": ["GONE"]}).ok()  # names go first
    assert tools.output(told) == "2-b-back\n"
    alice.post(path, {}).ok()
    for body in (
        {"set": []}, {"set": {"A": 1}}, {"set": {"A": None}}, {"set": {"": "x"}}, {"set": {"A=B": "x"}}, {"set": {"9": "x"}},
        {"set": {"A": "nul\0"}}, {"set": {"TENDON_HAND": "x"}}, {"unset": "A"}, {"unset": [1]}, {"unset": [""]}, {"unset": ["A=B"]},
        {"unset": ["TENDON_HAND"]}, {"unset": ["A"] * 1025}, {"unsetValuePrefix": "x"}, {"unset": ["A"], "set": {"-": "x"}},
    ):  # fmt: skip
        assert alice.post(path, body).status == 400, body
    for body in ({"set": {"A": "x" * (128 << 10)}}, {"set": {f"V{i}": "" for i in range(1025)}}, {"set": {"A": "x" * (2 << 20)}}):
        assert alice.post(path, body).status in (400, 413), str(body)[:40]
    assert tools.output(told) == "2-b-back\n"  # nothing of a refused one holds
    bob.post(path, {"set": {"A": "3"}}).ok(404)
    service.tenant("alice", "--scope", "read").post(path, {"set": {"A": "3"}}).ok(403)
    env = alice.get(f"/api/sandbox/{made['id']}").ok().json["env"]
    assert (env["A"], env["B"], env["GONE"]) == ("2", "b", "back")
    fork = alice.post(f"/api/sandbox/{made['id']}/fork", {"name": "forked"}).ok().json
    assert Toolbox(alice, fork).output(told) == "2-b-back\n"
    for one in (made, fork):
        alice.delete(f"/api/sandbox/{one['id']}").ok()


def test_other_variables_are_kept_and_not_noted(jail_works, tmp_path):
    service = Service(tmp_path).start()
    alice = service.tenant("alice")
    made = create(alice, env={"GONE": "x"})
    tools = Toolbox(alice, made)
    tools.output("true")  # its journal is open by now
    tools.post("/env", {"set": {"MY_TOKEN": "very-secret-value"}, "unset": ["GONE"]}).ok()
    assert tools.output("echo $MY_TOKEN ${GONE-none}") == "very-secret-value none\n"
    tools.output("echo told: very-secret-value")
    journal = json.dumps(alice.get(f"/v1/sandboxes/{made['id']}/events").ok().json)
    assert "told: " in journal and "very-secret-value" not in journal
    # A journal that can hide no more gets none that it would show.
    answers = [tools.post("/env", {"set": {"OTHER_KEY": f"{i:04}" * 1024}}) for i in range(70)]
    assert answers[0].status == 200 and answers[-1].status == 413 and b"of secrets" in answers[-1].body
    last = max(i for i, answer in enumerate(answers) if answer.status == 200)
    assert tools.output("echo ${OTHER_KEY:0:4}") == f"{last:04}\n"
    assert "sandbox.change" in {line["what"] for line in service.audit()}
    service.restart()
    assert tools.output("echo $MY_TOKEN ${GONE-none}") == "very-secret-value none\n"
    alice.post(f"/api/sandbox/{made['id']}/stop").ok()
    eventually(lambda: state(alice, made) == "stopped", "it is stopped")
    alice.post(f"/api/sandbox/{made['id']}/start").ok()
    eventually(lambda: state(alice, made) == "started", "it is started")
    assert tools.output("echo $MY_TOKEN ${GONE-none}") == "very-secret-value none\n"
    service.finish()


def test_a_sandbox_has_what_sdks_want(service, box):
    assert box["state"] == "started" and box["name"] == "first" and box["organizationId"] == "alice"
    assert box["labels"] == {"team": "blue"} and box["env"]["X"] == "1" and box["env"]["HOME"] == "/home/daytona"
    assert box["toolboxProxyUrl"].endswith(f":{service.port}/api/toolbox") and box["target"] == "local"
    assert all(isinstance(box[name], int) for name in ("cpu", "gpu", "memory", "disk", "autoStopInterval"))
    assert box["public"] is False and box["networkBlockAll"] is False and box["autoDeleteInterval"] == -1


def test_by_id_and_by_name(alice, box):
    assert alice.get(f"/api/sandbox/{box['id']}").ok().json["id"] == box["id"]
    assert alice.get("/api/sandbox/first").ok().json["id"] == box["id"]
    answer = alice.get(f"/api/sandbox/{box['id']}/toolbox-proxy-url").ok().json
    assert answer["url"] == box["toolboxProxyUrl"]


def test_stop_start_delete(alice):
    made = create(alice)
    Toolbox(alice, made).upload(("kept.txt", b"kept")).ok()
    stopped = alice.post(f"/api/sandbox/{made['id']}/stop?force=false").ok().json
    assert stopped["state"] in ("stopping", "stopped")
    eventually(lambda: state(alice, made) == "stopped", "it is stopped")
    assert alice.post(f"/api/sandbox/{made['id']}/start").ok().json["state"] in ("starting", "started")
    eventually(lambda: state(alice, made) == "started", "it runs")
    assert Toolbox(alice, made).download("kept.txt") == {"kept.txt": b"kept"}
    assert alice.delete(f"/api/sandbox/{made['id']}?force=true").ok().json["state"].startswith("destroy")
    eventually(lambda: alice.get(f"/api/sandbox/{made['id']}").status == 404, "it is gone")


def test_clients_of_old_look_once_more(alice, bob):
    made = create(alice, env={"SECRET": "words"})
    path = f"/api/sandbox/{made['id']}"
    alice.delete(path, headers=versioned(OLDEST)).ok()
    bob.get(path).ok(404)
    kept = alice.get(path, headers=versioned(OLDEST)).ok().json
    assert kept["state"] == "destroying" and kept["env"] == {}  # whoever asks
    eventually(lambda: alice.get(path).status == 404, "it is gone")


def test_one_that_ends_with_its_stop(alice):
    made = create(alice, autoDeleteInterval=0)
    alice.post(f"/api/sandbox/{made['id']}/stop").ok()
    eventually(lambda: alice.get(f"/api/sandbox/{made['id']}").status == 404, "it is gone")


def test_labels_and_intervals(alice):
    made = create(alice, labels={"a": "1"}, autoStopInterval=7, autoArchiveInterval=60, autoDeleteInterval=120)
    path = f"/api/sandbox/{made['id']}"
    assert (made["autoStopInterval"], made["autoArchiveInterval"], made["autoDeleteInterval"]) == (7, 60, 120)
    assert alice.put(f"{path}/labels", {"labels": {"b": "2"}}).ok().json == {"labels": {"b": "2"}}
    for setting, value in (("autostop", 30), ("autoarchive", 5), ("autodelete", -1), ("public", "false")):
        alice.post(f"{path}/{setting}/{value}").ok()
    now = alice.get(path).ok().json
    assert now["labels"] == {"b": "2"} and now["public"] is False
    assert (now["autoStopInterval"], now["autoArchiveInterval"], now["autoDeleteInterval"]) == (30, 5, -1)
    for wrong in ("autostop/-1", "autostop/x", "public/maybe", "nothing/1"):
        assert alice.post(f"{path}/{wrong}").status in (400, 404)
    alice.put(f"{path}/labels", {"labels": [1]}).ok(400)
    alice.put(f"{path}/labels", {"labels": {"daytona": "x"}}).ok(400)
    kill(alice, made)


def test_pause_and_times(alice):
    made = create(alice)
    path = f"/api/sandbox/{made['id']}"
    alice.post(f"{path}/ttl/60").ok()
    alice.post(f"{path}/autopause/5").ok()
    alice.post(f"{path}/last-activity").ok(201)
    now = alice.get(path).ok().json
    assert now["autoDestroyAt"] and now["autoPauseInterval"] == 5
    alice.post(f"{path}/pause").ok()
    eventually(lambda: state(alice, made) == "paused", "it is paused")
    assert alice.get(path, headers=versioned(OLDEST)).ok().json["state"] == "stopped"
    alice.post(f"{path}/recover").ok()
    eventually(lambda: state(alice, made) == "started", "it runs")
    alice.post(f"{path}/archive").ok()
    eventually(lambda: state(alice, made) == "stopped", "it is stopped")
    kill(alice, made)


def test_lists_of_the_network_become_ours(alice):
    allowed = {"networkAllowList": "8.8.8.8/32, 10.0.0.0/8", "domainAllowList": "*.example.com"}
    rules = ["8.8.8.8/32:*", "10.0.0.0/8:*", "*.example.com"]
    for wish, network in (({"networkBlockAll": True}, "none"), (allowed, "allow")):
        answer = alice.post("/api/sandbox", wish)
        if answer.status == 403 or (answer.status == 400 and network == "allow"):
            continue  # the operator, or this machine, has no such network
        made = answer.ok().json
        spec = alice.get(f"/v1/sandboxes/{made['id']}").ok().json["spec"]
        assert spec["network"] == network and (network == "none" or spec["allow"] == rules)
        assert made["networkBlockAll"] is (network == "none")
        kill(alice, made)


def test_lists_of_one_that_runs(alice, bob, service):
    def change(client=alice, one=None, **wish):
        return client.post(f"/api/sandbox/{(one or made)['id']}/network-settings", wish)

    def rules():
        return set(alice.get(f"/v1/sandboxes/{made['id']}/network").ok().json["rules"])

    made = create(alice, networkAllowList="8.8.8.0/24", domainAllowList="example.com,*.example.org")
    told = change(networkAllowList="8.8.4.0/24,8.8.8.0/24").ok().json
    assert set(told["networkAllowList"].split(",")) == {"8.8.4.0/24", "8.8.8.0/24"} and not told.get("domainAllowList"), told
    assert rules() == {"8.8.4.0/24:*", "8.8.8.0/24:*"}
    assert change(domainAllowList="example.org").ok().json["domainAllowList"] == "example.org"
    assert rules() == {"example.org"}
    change(networkBlockAll=True).ok()
    assert rules() == set()
    change(networkBlockAll=False).ok()  # back to everything
    assert rules() == {"0.0.0.0/0:*", "[::]/0:*"}
    change(networkAllowList="8.8.8.8/33").ok(400)
    change(bob, networkBlockAll=True).ok(404)
    change(service.tenant("alice", "--scope", "read"), networkBlockAll=True).ok(403)
    assert rules() == {"0.0.0.0/0:*", "[::]/0:*"}
    assert "network.change" in {line["what"] for line in service.audit()}
    kill(alice, made)
    made = create(alice)
    assert not made["networkBlockAll"]
    assert change(networkBlockAll=True).ok().json["networkBlockAll"] and rules() == set()
    told = change(networkAllowList="8.8.8.0/24").ok().json
    assert told["networkAllowList"] == "8.8.8.0/24" and not told["networkBlockAll"] and rules() == {"8.8.8.0/24:*"}
    kill(alice, made)
    # One that began without any has no gate.
    made = create(alice, networkBlockAll=True)
    change(networkBlockAll=True).ok()
    assert "for as long as it lives" in change(networkAllowList="8.8.8.8/32").ok(409).json["message"]
    kill(alice, made)


def test_a_snapshot_is_a_template_of_the_configuration(alice):
    made = create(alice, snapshot="small", env={"B": "2"})
    assert made["snapshot"] == "small" and made["memory"] == 1
    assert Toolbox(alice, made).output("echo $GREETING $B") == "hello 2\n"
    assert "not found" in alice.post("/api/sandbox", {"snapshot": "nothing"}).ok(400).json["message"]
    kill(alice, made)


def test_what_is_not_served_is_refused_before_anything_is_made(alice):
    before = len(alice.get("/api/sandbox").ok().json["items"])
    for wish in (
        {"volumes": [{"volumeId": "a", "mountPath": "/b"}]},
        {"gpu": 1},
        {"kvm": True},
        {"secrets": [{"A": "b"}]},
        {"buildInfo": {"dockerfileContent": "FROM debian\nCOPY a /b\n"}},
        {"buildInfo": {"dockerfileContent": "RUN true\n"}},
        {"buildInfo": {"dockerfileContent": "FROM debian\nWORKDIR /a/../b\x01\n"}},
        {"autoStopInterval": -1},
        {"autoStopInterval": "x"},
        {"labels": {"a": "b" * 70000}},
        {"env": {"bad name": "x"}},
        {"env": {"A": 1}},
        {"snapshot": "../small"},
        {"name": "x\ny"},
    ):
        answer = alice.post("/api/sandbox", wish)
        assert answer.status in (400, 403, 404), (wish, answer)
        assert answer.json["statusCode"] == answer.status and answer.json["message"]
    alice.post(f"/api/sandbox/{'a' * 10}/resize", {}).ok(403)
    for wish in ({}, {"name": "x"}, {"name": "x", "imageName": "a\nRUN b", "gpu": 1}, {"name": "small", "imageName": "debian"}, {"name": "a\nb", "imageName": "c"}):
        assert alice.post("/api/snapshots", wish).status in (400, 409), wish
    assert len(alice.get("/api/sandbox").ok().json["items"]) == before


def test_lists_in_three_shapes(service):
    carol = service.tenant("carol")
    made = [create(carol, labels={"n": str(i % 2)})["id"] for i in range(3)][::-1]
    first = carol.get("/api/sandbox?limit=2").ok().json
    second = carol.get(f"/api/sandbox?limit=2&cursor={quote(first['nextCursor'])}").ok().json
    assert second["nextCursor"] is None
    assert [one["id"] for one in first["items"] + second["items"]] == made
    wanted = quote(json.dumps({"n": "1"}))
    assert [one["id"] for one in carol.get(f"/api/sandbox?labels={wanted}").ok().json["items"]] == [made[1]]
    pages = carol.get("/api/sandbox/paginated?page=2&limit=2").ok().json
    assert [one["id"] for one in pages["items"]] == made[2:]
    assert (pages["total"], pages["page"], pages["totalPages"]) == (3, 2, 2)
    array = carol.get(f"/api/sandbox?verbose=true&labels={wanted}", headers=versioned(OLDEST)).ok().json
    assert [one["id"] for one in array] == [made[1]]
    carol.post(f"/api/sandbox/{made[0]}/stop").ok()
    eventually(lambda: state(carol, {"id": made[0]}) == "stopped", "it is stopped")
    assert [one["id"] for one in carol.get("/api/sandbox?states=stopped").ok().json["items"]] == made[:1]
    carol.get("/api/sandbox?labels=x").ok(400)
    carol.get("/api/sandbox?cursor=x").ok(400)


# --- two tenants ---------------------------------------------------------------------------------


def test_to_another_tenant_it_is_not_there(alice, bob, box):
    path, inside = f"/api/sandbox/{box['id']}", f"/api/toolbox/{box['id']}"
    for method, target, body in (
        ("GET", path, None),
        ("GET", "/api/sandbox/first", None),
        ("DELETE", path, None),
        ("POST", f"{path}/stop", None),
        ("POST", f"{path}/autostop/1", None),
        ("PUT", f"{path}/labels", {"labels": {}}),
        ("GET", f"{path}/ports/80/preview-url", None),
        ("POST", f"{inside}/process/execute", {"command": "id"}),
        ("GET", f"{inside}/toolbox/files?path=/", None),
    ):
        bob.request(method, target, body).ok(404)
    assert bob.get("/api/sandbox").ok().json["items"] == []
    assert state(alice, box) == "started"


def test_a_signing_key_ends_with_any_key_of_its_tenant(service, alice, bob, box):
    """Whoever had one that is revoked may have asked for it."""
    link = f"/api/sandbox/{box['id']}/signing-key"
    before = alice.get(link).ok().json
    service.make_key("of-bob", "--tenant", "bob")
    service.make_key("leaked", "--tenant", "alice")
    assert service.tendon("key", "revoke", "of-bob").returncode == 0
    assert alice.get(link).ok().json == before
    assert service.tendon("key", "revoke", "leaked").returncode == 0
    assert alice.get(link).ok().json != before


def test_an_ephemeral_one_ends_instead_of_an_auto_stop(jail_works, tmp_path):
    """Also when the service was killed meanwhile; one that is not is stopped."""
    service = Service(tmp_path, settings={"idle_stop_seconds": "3"}).start()
    try:
        alice = service.tenant("alice")
        made, other = create(alice, autoDeleteInterval=0), create(alice, autoDeleteInterval=-1)
        assert made["autoDeleteInterval"] == 0 and other["autoDeleteInterval"] == -1
        service.restart(kill=True)
        eventually(lambda: alice.get(f"/api/sandbox/{made['id']}").status == 404, "it is gone")
        eventually(lambda: state(alice, other) == "stopped", "it is stopped")
        kill(alice, other)
    finally:
        service.finish()


def stopped_since(service, older=(), unknown=None):
    """When each that is stopped was, by its row; those are moved ten minutes back, and of one a service of before has stopped
    the time is older than its start (the service does not run)."""
    db = sqlite3.connect(service.state / "tendon.db", timeout=20)
    try:
        for one in older:
            db.execute("UPDATE box SET stopped = stopped - 600, started = started - 600 WHERE id = ?", (one["id"],))
        if unknown:
            db.execute("UPDATE box SET stopped = started - 600 WHERE id = ?", (unknown["id"],))
        db.commit()
        return dict(db.execute("SELECT id, stopped FROM box WHERE stopped > 0"))
    finally:
        db.close()


def test_auto_delete_counts_from_the_stop(jail_works, make_service):
    """Over the death of the service, and after an auto-stop; a start in between begins it anew, another interval counts."""
    service = make_service().start()
    alice = service.tenant("alice")
    due, later, never, again, auto, stale = (create(alice, autoDeleteInterval=n) for n in (5, 60, -1, 5, 5, 5))

    def is_stopped(one):
        eventually(lambda: state(alice, one) == "stopped", "it is stopped")

    for one in (due, later, never, again, stale):
        alice.post(f"/api/sandbox/{one['id']}/stop").ok()
        is_stopped(one)
    alice.patch(f"/v1/sandboxes/{auto['id']}", {"idle_stop": 0.5}).ok()
    is_stopped(auto)
    service.restart(kill=True)
    since = stopped_since(service)
    assert set(since) == {one["id"] for one in (due, later, never, again, auto, stale)}
    alice.post(f"/api/sandbox/{again['id']}/start").ok()
    eventually(lambda: state(alice, again) == "started", "it is started")
    service.kill()
    assert again["id"] not in stopped_since(service, older=(due, later, never, again, auto), unknown=stale)
    service.start()
    for one in (due, auto):
        eventually(lambda one=one: alice.get(f"/api/sandbox/{one['id']}").status == 404, "it is gone")
    alice.post(f"/api/sandbox/{again['id']}/stop").ok()
    is_stopped(again)
    now = stopped_since(service)
    assert now[later["id"]] == since[later["id"]] - 600 and now[again["id"]] > since[again["id"]]
    eventually(lambda: stopped_since(service)[stale["id"]] > since[stale["id"]], "it counts from the start of the service")
    assert all(state(alice, one) == "stopped" for one in (later, never, again, stale))
    assert 'tendon_kept_total{why="stopped"} 2' in service.client().get("/metrics").ok().text
    alice.post(f"/api/sandbox/{later['id']}/autodelete/9").ok()
    eventually(lambda: alice.get(f"/api/sandbox/{later['id']}").status == 404, "it is gone")
    for one in (never, again, stale):
        kill(alice, one)


# --- ports ---------------------------------------------------------------------------------------


SERVER = "nohup python3 -m http.server 8099 --directory /home/daytona >/dev/null 2>&1 &"


def path_of(url):
    return "/" + url.split("/", 3)[3]


def test_ports(service, alice, bob):
    made = create(alice)
    toolbox = Toolbox(alice, made)
    toolbox.upload(("page.txt", b"a page")).ok()
    toolbox.output(SERVER)
    link = alice.get(f"/api/sandbox/{made['id']}/ports/8099/preview-url").ok().json
    target = path_of(link["url"]) + "/page.txt"
    stranger = service.stranger()
    token = {"X-Daytona-Preview-Token": link["token"]}
    eventually(lambda: stranger.get(target, headers=token).status == 200, "it listens")
    assert stranger.get(target, headers=token).ok().body == b"a page"
    assert stranger.get(f"{target}?DAYTONA_SANDBOX_AUTH_KEY={link['token']}").ok().body == b"a page"
    stranger.get(f"{target}?DAYTONA_SANDBOX_AUTH_KEY={'0' * 32}").ok(401)
    stranger.get(target).ok(401)
    stranger.get(target, headers={"X-Daytona-Preview-Token": "0" * 32}).ok(401)
    other = create(bob)
    stranger.get(target.replace(made["id"], other["id"]), headers=token).ok(401)
    signed = alice.get(f"/api/sandbox/{made['id']}/ports/8099/signed-preview-url?expiresInSeconds=60").ok().json
    assert signed["port"] == 8099 and stranger.get(path_of(signed["url"])).ok(303).headers["Set-Cookie"]
    again = alice.get(f"/api/sandbox/{made['id']}/ports/8099/signed-preview-url?expiresInSeconds=600").ok().json
    ends = f"signed-preview-url/{signed['token']}/expire"
    bob.post(f"/api/sandbox/{made['id']}/ports/8099/{ends}").ok(404)
    alice.post(f"/api/sandbox/{made['id']}/ports/8098/{ends}").ok(404)
    alice.post(f"/api/sandbox/{made['id']}/ports/8099/signed-preview-url/x/expire").ok(404)
    stranger.get(path_of(signed["url"])).ok(303)
    for _ in range(2):
        alice.post(f"/api/sandbox/{made['id']}/ports/8099/{ends}").ok()
        stranger.get(path_of(signed["url"])).ok(401)
    stranger.get(path_of(again["url"])).ok(303)
    assert "public_previews" in alice.post(f"/api/sandbox/{made['id']}/public/true").ok(403).json["message"]
    alice.post("/api/sandbox", {"public": True}).ok(403)
    stranger.get(target).ok(401)
    alice.get(f"/api/sandbox/{made['id']}/ports/0/preview-url").ok(400)
    kill(alice, made)
    kill(bob, other)


def test_a_token_in_an_address(service, alice, bob):
    """A page that was opened with one finds what it refers to, and neither it nor its server learns the token."""
    box, other = serving(alice), serving(alice)
    link = alice.get(f"/api/sandbox/{box['id']}/ports/{PORT}/preview-url").ok().json
    query = f"?a=1&DAYTONA_SANDBOX_AUTH_KEY={link['token']}&b=2"
    shown = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for form in (by_host, by_path):
        page, below = form(service, box, "/echo" + query), form(service, box, "/echo")
        path = "/" if form is by_host else f"/preview/{box['id']}/{PORT}/"
        program = Visitor(service)
        seen = program.get(page, follow=False).ok()
        assert seen.json["target"] == "/echo?a=1&b=2" and link["token"] not in seen.text
        (cookie,) = seen.headers.get_all("Set-Cookie")
        assert f"; Path={path};" in cookie and "; HttpOnly" in cookie and "Domain" not in cookie, cookie
        seen = program.get(below, headers={"Referer": page}).ok()
        assert not [line for line in seen.json["fields"] if line[0] in ("cookie", "referer")]
        program.get(form(service, box, "/echo", port=PORT + 1)).ok(401)
        browser = Visitor(service)
        first = browser.get(page, headers=shown, follow=False)
        assert first.status == 303 and urlsplit(first.headers["Location"])[2:4] == (urlsplit(page).path, "a=1&b=2")
        assert first.headers["Referrer-Policy"] == "no-referrer"
        assert browser.get(page, headers=shown).json["target"] == "/echo?a=1&b=2"
        (value,) = browser.jar.values()
        stolen = {"Cookie": f"tendon-{other['id']}-{PORT}={value}"}
        Visitor(service).get(form(service, other, "/echo"), headers=stolen).ok(401)
        frame = Visitor(service).get(page, headers=shown | {"Sec-Fetch-Dest": "iframe"}, follow=False)
        assert frame.ok().json["target"] == "/echo?a=1&b=2"
        # Nothing is kept by a token that was not looked at, of another sandbox, or with a request that opens nothing.
        token = {"X-Daytona-Preview-Token": link["token"]}
        wrong = form(service, box, "/echo?DAYTONA_SANDBOX_AUTH_KEY=" + "0" * 32)
        seen = Visitor(service).get(wrong, headers=token).ok()
        assert "Set-Cookie" not in seen.headers and seen.json["target"] == "/echo"
        assert not [line for line in seen.json["fields"] if line[0] == "x-daytona-preview-token"]
        Visitor(service).get(wrong).ok(401)
        Visitor(service).get(form(service, other, "/echo" + query)).ok(401)
        posted = form(service, box, "/sum" + query)
        assert "Set-Cookie" not in Visitor(service).get(posted, method="POST", body=b"x").ok().headers
    kill(alice, box)
    kill(alice, other)


def test_a_cookie_of_a_token_ends_with_the_key_of_the_sandbox(service, alice):
    """And may no more than the token: the key that made it may not even use it."""
    maker = service.client(service.make_key("maker", "--tenant", "alice", "--scope", "manage")["key"])
    made = make(maker)
    link = alice.get(f"/api/sandbox/{made['id']}/ports/{PORT}/preview-url").ok().json
    visitor = Visitor(service)
    there = by_host(service, made, "/echo")
    eventually(lambda: visitor.get(f"{there}?DAYTONA_SANDBOX_AUTH_KEY={link['token']}").status == 502, "nobody listens")
    visitor.get(there).ok(502)
    alice.put(at(made, "/files", path=f"/tmp/{SERVER_FILE.name}"), SERVER_FILE.read_bytes()).ok(201)
    start_server(alice, made)
    assert visitor.get(there).ok().json["target"] == "/echo"
    assert service.tendon("key", "revoke", "maker").returncode == 0
    visitor.get(there).ok(401)
    kill(alice, made)


def test_what_the_operator_allows(jail_works, tmp_path):
    """Times and sizes have their bounds; ports are public where that is allowed, and only as long as it is."""
    settings = {"public_previews": "true", "idle_stop_seconds": "600", "sandbox_cpus": "2", "sandbox_memory": "1g",
                "request_memory": "16m"}
    service = Service(tmp_path, settings=settings).start()
    try:
        alice, stranger = service.tenant("alice"), service.stranger()
        huge = ({"memory": 2000000}, {"disk": 1e7}, {"disk": 1e12})
        for wish in ({"cpu": 3}, {"memory": 2}, {"cpu": -1}, {"memory": -1}, {"disk": "x"}, *huge):
            assert alice.post("/api/sandbox", wish).status in (400, 403), wish
        made = create(alice, public=True, autoStopInterval=0, cpu=1, memory=1)
        assert (made["autoStopInterval"], made["cpu"], made["memory"]) == (10, 1, 1)
        alice.post(f"/api/sandbox/{made['id']}/autostop/60").ok()
        assert alice.get(f"/api/sandbox/{made['id']}").ok().json["autoStopInterval"] == 10
        toolbox = Toolbox(alice, made)
        for _ in range(2):  # a megabyte that becomes a tree of twenty
            assert cell(alice, toolbox, "1", more=[[]] * 300_000) == ([], 1011)
        toolbox.upload(("page.txt", b"a page")).ok()
        toolbox.output(SERVER)
        target = path_of(alice.get(f"/api/sandbox/{made['id']}/ports/8099/preview-url").ok().json["url"]) + "/page.txt"
        eventually(lambda: stranger.get(target).status == 200, "it listens")
        assert stranger.get(target).ok().body == b"a page" and made["public"]
        alice.post(f"/api/sandbox/{made['id']}/public/false").ok()
        stranger.get(target).ok(401)
        alice.post(f"/api/sandbox/{made['id']}/public/true").ok()
        stranger.get(target).ok()
        service.settings["public_previews"] = "false"
        service.restart()
        stranger.get(target).ok(401)
        assert alice.get(f"/api/sandbox/{made['id']}").ok().json["public"] is False
        kill(alice, made)
    finally:
        service.finish()


# --- snapshots and forks -------------------------------------------------------------------------


def test_snapshots(alice, bob):
    made = create(alice, env={"E": "kept"})
    toolbox = Toolbox(alice, made)
    toolbox.upload(("file.txt", b"before")).ok()
    path = f"/api/sandbox/{made['id']}/snapshot"
    assert alice.post(path, {"name": "cut-1"}).ok().json["id"] == made["id"]
    alice.post(path, {"name": "cut-1"}).ok(409)
    alice.post(path, {"name": "small"}).ok(409)
    alice.post(path, {"name": "../x"}).ok(400)
    toolbox.upload(("file.txt", b"after")).ok()
    one = alice.get("/api/snapshots/cut-1").ok().json
    assert one["name"] == "cut-1" and one["sourceSandboxId"] == made["id"] and one["state"] == "active"
    assert alice.get(f"/api/snapshots/{one['id']}").ok().json == one
    listed = alice.get("/api/snapshots?limit=100").ok().json
    assert {i["name"]: i["general"] for i in listed["items"]} == {"small": True, "cut-1": False}
    assert listed["total"] == 2 and listed["totalPages"] == 1
    child = create(alice, snapshot="cut-1", labels={"of": "it"}, env={"A": "b"})
    assert child["labels"] == {"of": "it"} and child["snapshot"] == "cut-1"
    assert Toolbox(alice, child).output("cat file.txt; echo $E$A") == "beforekeptb\n"
    # Its network is that of its parent, or none: what cannot be kept is not passed over.
    closed = create(alice, snapshot="cut-1", networkBlockAll=True)
    assert closed["networkBlockAll"] is True
    assert alice.get(f"/v1/sandboxes/{closed['id']}").ok().json["spec"]["network"] == "none"
    kill(alice, closed)
    told = alice.post("/api/sandbox", {"snapshot": "cut-1", "networkAllowList": "8.8.8.8/32"}).ok(400).json
    assert "networkAllowList" in told["message"]
    # It outlives its sandbox, and is none.
    kill(alice, made)
    alice.get(f"/api/sandbox/{one['id']}").ok(404)
    assert [i["name"] for i in alice.get(f"/api/snapshots?sourceSandboxId={made['id']}").ok().json["items"]] == ["cut-1"]
    later = create(alice, snapshot=one["id"])
    assert Toolbox(alice, later).output("cat file.txt") == "before"
    kill(alice, later)
    for method, target in (("GET", "/api/snapshots/cut-1"), ("DELETE", f"/api/snapshots/{one['id']}")):
        bob.request(method, target).ok(404)
    bob.post("/api/sandbox", {"snapshot": "cut-1"}).ok(400)
    assert [i["name"] for i in bob.get("/api/snapshots").ok().json["items"]] == ["small"]
    alice.delete("/api/snapshots/small").ok(403)
    alice.delete(f"/api/snapshots/{one['id']}").ok()
    alice.get("/api/snapshots/cut-1").ok(404)
    kill(alice, child)


def test_a_snapshot_is_active_once_it_rests(service, alice):
    """A service that is killed before leaves none that seems to be whole."""
    made = create(alice)
    wish = (f"/api/sandbox/{made['id']}/snapshot", {"name": "cut-2"})
    cutting = threading.Thread(target=service.tenant("alice").post, args=wish)
    cutting.start()
    while cutting.is_alive():
        one = alice.get("/api/snapshots/cut-2")
        if one.status == 200 and one.json["state"] == "active":
            assert alice.get(f"/v1/sandboxes/{one.json['id']}").ok().json["state"] == "stopped"
    assert alice.get("/api/snapshots/cut-2").ok().json["state"] == "active"
    alice.delete("/api/snapshots/cut-2").ok()
    kill(alice, made)


def test_an_image_is_built_in_a_box(service, alice, bob):
    dockerfile = "FROM debian:12\nENV A=1 B=\"$A two\" PATH=/opt/b:$PATH\nWORKDIR /srv\nRUN until [ -e /go ]; do sleep 0.05; done; echo end >e\n"
    made = alice.post("/api/snapshots", {"name": "image-1", "buildInfo": {"dockerfileContent": dockerfile}}).ok().json
    assert made["state"] == "building" and made["name"] == "image-1" and made["errorReason"] is None
    path = f"/api/snapshots/{made['id']}"
    assert "not ready" in alice.post("/api/sandbox", {"snapshot": "image-1"}).ok(400).json["message"]
    alice.post("/api/snapshots", {"name": "image-1", "imageName": "debian"}).ok(409)
    for other in (path, "/api/snapshots/image-1", f"{path}/build-logs", f"{path}/build-logs-url"):
        bob.get(other).ok(404)
    bob.delete(path).ok(404)
    # A snapshot is no sandbox.
    alice.get(f"/api/sandbox/{made['id']}").ok(404)
    alice.post(f"/api/toolbox/{made['id']}/process/execute", {"command": "true"}).ok(404)
    assert made["id"] not in [one["id"] for one in alice.get("/api/sandbox").ok().json["items"]]
    alice.post(f"/v1/sandboxes/{made['id']}/actions", {"action": {"action": "run", "args": {"command": "touch /go"}}}).ok()
    done = eventually(lambda: (one := alice.get(path).ok().json)["state"] != "building" and one, "the build ends")
    assert done["state"] == "active"
    assert alice.get(f"{path}/build-logs?follow=true").ok().body == b""
    assert {i["name"]: i["state"] for i in alice.get("/api/snapshots").ok().json["items"]}["image-1"] == "active"
    child = create(alice, snapshot="image-1", env={"A": "over"})
    assert Toolbox(alice, child).output("pwd; cat e; echo $A,$B; echo $PATH | cut -d: -f1") == "/srv\nend\nover,1 two\n/opt/b\n"
    kill(alice, child)
    alice.delete(path).ok()
    alice.get(path).ok(404)


def test_a_build_that_fails(alice):
    wish = {"buildInfo": {"dockerfileContent": "FROM debian:12\nRUN echo why >&2; exit 3\nRUN touch /never\n"}}
    made = alice.post("/api/sandbox", wish).ok().json
    assert made["state"] == "pending_build"
    path = f"/api/sandbox/{made['id']}"
    failed = eventually(lambda: (one := alice.get(path).ok().json)["state"] == "build_failed" and one, "the build fails")
    assert failed["errorReason"] == "why\n"
    eventually(lambda: alice.get(f"/v1/sandboxes/{made['id']}").ok().json["state"] == "stopped", "it rests")
    assert alice.get(f"{path}/build-logs?follow=true").ok().body == b"why\n"
    alice.get("/api/sandbox/first/build-logs").ok(404)
    kill(alice, made)


def mounted(client, *mounts, **wish):
    volumes = [dict(zip(("volumeId", "mountPath", "subpath"), mount)) for mount in mounts]
    return create(client, volumes=volumes, **wish)


def test_volumes(service, alice, bob):
    one = alice.post("/api/volumes", {"name": "data"}).ok().json
    assert one["state"] == "ready" and one["organizationId"] == "alice" and one["createdAt"].startswith("20")
    alice.post("/api/volumes", {"name": "data"}).ok(409)
    for name in ("", "..", "a/b", "a:b", "a b", "x" * 101, None, 1):
        alice.post("/api/volumes", {"name": name}).ok(400)
    for path in ("/api/volumes/data", "/api/volumes/by-name/data"):
        assert alice.get(path).ok().json == one
        bob.get(path).ok(404)
    bob.delete("/api/volumes/data").ok(404)
    bob.post("/api/sandbox", {"volumes": [{"volumeId": "data", "mountPath": "/mnt"}]}).ok(404)
    bob.post("/api/volumes", {"name": "data"}).ok()
    first, others = mounted(alice, ("data", "/mnt/v")), mounted(bob, ("data", "/mnt/v"))
    assert first["volumes"] == [{"volumeId": "data", "mountPath": "/mnt/v"}]
    assert Toolbox(alice, first).output("echo mine >/mnt/v/file; stat -c %U /mnt/v/file; id -un").split()[0] == "root"
    assert Toolbox(bob, others).output("ls -A /mnt/v") == ""
    # No path of the machine is told.
    spec = alice.get(f"/v1/sandboxes/{first['id']}").ok().json["spec"]
    assert spec["volumes"] and str(service.state) not in json.dumps(spec)
    # Sandboxes that are stopped, and forks, have it still.
    alice.post(f"/api/sandbox/{first['id']}/stop").ok()
    assert "in use" in alice.delete("/api/volumes/data").ok(409).json["message"]
    alice.post(f"/api/sandbox/{first['id']}/start").ok()
    assert Toolbox(alice, first).output("cat /mnt/v/file") == "mine\n"
    fork = alice.post(f"/api/sandbox/{first['id']}/fork", {}).ok().json
    assert Toolbox(alice, fork).output("cat /mnt/v/file") == "mine\n"
    kill(alice, first)
    alice.delete("/api/volumes/data").ok(409)
    kill(alice, fork)
    alice.delete("/api/volumes/data").ok()
    alice.get("/api/volumes/data").ok(404)
    assert Toolbox(bob, others).output("ls -A /mnt/v; echo still >/mnt/v/there") == ""
    kill(bob, others)
    bob.delete("/api/volumes/data").ok()


def test_a_directory_of_a_volume_is_in_it(service, alice):
    """What a sandbox puts into a volume leads nobody out of it."""
    alice.post("/api/volumes", {"name": "deep"}).ok()
    secret = service.base / "secret"
    secret.mkdir()
    (secret / "file").write_text("of the machine")
    first = mounted(alice, ("deep", "/mnt"))
    toolbox = Toolbox(alice, first)
    toolbox.output(f"cd /mnt; ln -s {secret} out; ln -s /etc etc; mkdir in; ln -s ../.. in/up; ln -s in to")
    for below in ("out", "etc", "in/up", "in/up/state", "to", "out/file"):
        answer = alice.post("/api/sandbox", {"volumes": [{"volumeId": "deep", "mountPath": "/mnt", "subpath": below}]})
        assert answer.status >= 400 and str(service.base) not in answer.body.decode(), (below, answer)
    for below in ("..", "in/../..", "a:b", "a/.."):
        alice.post("/api/sandbox", {"volumes": [{"volumeId": "deep", "mountPath": "/mnt", "subpath": below}]}).ok(400)
    for inside in ("", "mnt", "/", "/mnt/../..", "/.tendon", "/a:ro", "/proc", "/proc//self", "/sys/x", "/dev"):
        alice.post("/api/sandbox", {"volumes": [{"volumeId": "deep", "mountPath": inside}]}).ok(400)
    second = mounted(alice, ("deep", "/mnt/x", "/in//new/./one/"))
    assert second["volumes"] == [{"volumeId": "deep", "mountPath": "/mnt/x", "subpath": "in/new/one"}]
    assert Toolbox(alice, second).output("echo 1 >/mnt/x/file; cd /mnt/x/..; ls") == "x\n"
    assert toolbox.output("cat /mnt/in/new/one/file") == "1\n"
    # Nor over what the sandbox is ruled by, which a link in its own files may lead to when it starts again.
    third = mounted(alice, ("deep", "/a/sys"))
    Toolbox(alice, third).output("mv /a /b; ln -s /proc /a")
    alice.post(f"/api/sandbox/{third['id']}/stop").ok()
    answer = alice.post(f"/api/sandbox/{third['id']}/start")
    told = answer.json.get("message") or alice.get(f"/api/sandbox/{third['id']}").ok().json["errorReason"]
    assert "over /proc" in told and str(service.base) not in told, answer
    kill(alice, third)
    alice.post(f"/api/sandbox/{first['id']}/snapshot", {"name": "mounted"}).ok()
    # One of a snapshot has the volumes of its sandbox, or those that it is given.
    for volumes, seen in (((), "/mnt"), ((("deep", "/other"),), "/other")):
        again = mounted(alice, *volumes, snapshot="mounted")
        assert [one["mountPath"] for one in again["volumes"]] == [seen]
        assert Toolbox(alice, again).output(f"cat {seen}/in/new/one/file") == "1\n"
        kill(alice, again)
    alice.delete("/api/snapshots/mounted").ok()
    # Nothing becomes set-uid, and nothing of it runs so.
    assert toolbox.execute("cp /bin/true /mnt/t && chmod 4755 /mnt/t").ok().json["exitCode"] != 0 or "s" not in toolbox.output("stat -c %A /mnt/t")
    alice.delete("/api/volumes/deep").ok(409)
    kill(alice, first)
    kill(alice, second)
    alice.delete("/api/volumes/deep").ok()
    assert (secret / "file").read_text() == "of the machine"


def test_what_is_in_volumes_is_limited(jail_works, tmp_path):
    service = Service(tmp_path, settings={"sandbox_disk": "4m"}).start()
    alice = service.tenant("alice")
    for name in ("one", "two"):
        alice.post("/api/volumes", {"name": name}).ok()
    first = mounted(alice, ("one", "/mnt"))
    Toolbox(alice, first).output("head -c 3m /dev/zero >/mnt/a")
    kill(alice, first)
    second = mounted(alice, ("two", "/mnt"))
    Toolbox(alice, second).output("head -c 6m /dev/zero >/mnt/b")
    rests = lambda: (box := alice.get(f"/v1/sandboxes/{second['id']}").ok().json)["state"] == "paused" and box
    assert "disk: it has written" in eventually(rests, "it is paused", 60)["reason"]
    kill(alice, second)
    # Its tenant has them still: more than 4 MB, and a sandbox takes 4.
    tight = service.tenant("alice", "--max-disk", "8m")
    assert "max_disk" in tight.post("/api/sandbox", {}).ok(429).json["message"]
    kept = tight.post("/v1/objects", {"name": "o", "content_type": "text"}).ok().json
    link = kept["upload_url"][kept["upload_url"].index("/v1/") :]
    service.stranger().request("PUT", link, b"little").ok(413)
    alice.delete("/api/volumes/two").ok()
    alice.delete("/api/volumes/one").ok()
    kill(alice, eventually(lambda: (made := tight.post("/api/sandbox", {})).status == 200 and made.json, "there is room"))
    # What a killed service has left of one that was being deleted goes.
    (service.state / "volumes/.gone-one/deep").mkdir(parents=True)
    service.restart()
    assert not list((service.state / "volumes").iterdir())
    service.finish()


def test_many_files_in_a_volume_hide_nothing(jail_works, tmp_path):
    """More names than can be counted in a slice of time are counted to the end, in all volumes."""
    service = Service(tmp_path, settings={"sandbox_disk": "4m"}).start()
    alice = service.tenant("alice")
    for name in ("one", "two"):
        alice.post("/api/volumes", {"name": name}).ok()
    box = mounted(alice, ("one", "/mnt/one"), ("two", "/mnt/two"))
    for place in (service.state / "volumes").iterdir():
        for number in range(3):  # a file with many names takes disk once
            (place / f"{number}").touch()
            for link in range(20000):
                os.link(place / f"{number}", place / f"{number}-{link}")
    Toolbox(alice, box).output("for v in one two; do head -c 3m /dev/zero >/mnt/$v/a; done")
    rests = lambda: (found := alice.get(f"/v1/sandboxes/{box['id']}").ok().json)["state"] == "paused" and found
    assert "disk: it has written" in eventually(rests, "it is paused", 240)["reason"]
    kill(alice, box)
    for name in ("one", "two"):
        alice.delete(f"/api/volumes/{name}").ok()
    service.finish()


def test_a_volume_that_was_deleted_is_not_made_again(service, alice):
    """As when somebody deletes it while a sandbox is being made with it."""
    before = set((service.state / "volumes").glob("*"))
    alice.post("/api/volumes", {"name": "gone"}).ok()
    (place,) = set((service.state / "volumes").iterdir()) - before
    box = mounted(alice, ("gone", "/mnt"))
    alice.post(f"/api/sandbox/{box['id']}/stop").ok()
    place.rmdir()
    answer = alice.post(f"/api/sandbox/{box['id']}/start")
    told = answer.json.get("message") or alice.get(f"/api/sandbox/{box['id']}").ok().json["errorReason"]
    assert "volume" in told and str(service.base) not in told, answer
    assert not place.exists()
    kill(alice, box)


def test_a_fork(alice, bob):
    made = create(alice, labels={"a": "1"}, autoStopInterval=7)
    Toolbox(alice, made).upload(("file.txt", b"mine")).ok()
    bob.post(f"/api/sandbox/{made['id']}/fork", {}).ok(404)
    child = alice.post(f"/api/sandbox/{made['id']}/fork", {"name": "the-child"}).ok().json
    assert child["name"] == "the-child" and child["labels"] == {"a": "1"} and child["autoStopInterval"] == 7
    eventually(lambda: state(alice, child) == "started", "it runs")
    assert Toolbox(alice, child).output("cat file.txt") == "mine"
    kill(alice, child)
    kill(alice, made)

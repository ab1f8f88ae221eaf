"""The surface of Daytona on the wire: API and toolbox, without any SDK."""

import base64
import json
import re
import shlex
import subprocess
from urllib.parse import quote

import pytest
import yaml

from daytona_wire import NEWEST, OLDEST, Toolbox, create, multipart, state
from native import upgrade
from openapi_document import routes_of
from services import Service, eventually
from trees import ROOT

CONFIG = """
[template.small]
memory = "256m"
plugins = []
env = {GREETING = "hello"}
"""


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("daytona"), config=CONFIG).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def alice(service):
    return service.tenant("alice")


@pytest.fixture(scope="module")
def bob(service):
    return service.tenant("bob")


@pytest.fixture(scope="module")
def box(alice):
    return create(alice, labels={"team": "blue"}, env={"X": "1"}, autoStopInterval=0, name="first")


@pytest.fixture(scope="module", params=[NEWEST, OLDEST])
def toolbox(alice, box, request):
    return Toolbox(alice, box, request.param)


def kill(client, sandbox):
    client.delete(f"/api/sandbox/{sandbox['id']}").ok()


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
    stranger.get(target).ok(401)
    stranger.get(target, headers={"X-Daytona-Preview-Token": "0" * 32}).ok(401)
    other = create(bob)
    stranger.get(target.replace(made["id"], other["id"]), headers=token).ok(401)
    signed = alice.get(f"/api/sandbox/{made['id']}/ports/8099/signed-preview-url?expiresInSeconds=60").ok().json
    assert signed["port"] == 8099 and stranger.get(path_of(signed["url"])).ok(303).headers["Set-Cookie"]
    assert "public_previews" in alice.post(f"/api/sandbox/{made['id']}/public/true").ok(403).json["message"]
    alice.post("/api/sandbox", {"public": True}).ok(403)
    stranger.get(target).ok(401)
    alice.get(f"/api/sandbox/{made['id']}/ports/0/preview-url").ok(400)
    kill(alice, made)
    kill(bob, other)


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
    for method, target in (("GET", "/api/snapshots/cut-1"), ("DELETE", f"/api/snapshots/{one['id']}")):
        bob.request(method, target).ok(404)
    bob.post("/api/sandbox", {"snapshot": "cut-1"}).ok(400)
    assert [i["name"] for i in bob.get("/api/snapshots").ok().json["items"]] == ["small"]
    alice.delete("/api/snapshots/small").ok(403)
    alice.delete(f"/api/snapshots/{one['id']}").ok()
    alice.get("/api/snapshots/cut-1").ok(404)
    kill(alice, child)
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
    wish = {"snapshot": "mounted", "volumes": [{"volumeId": "deep", "mountPath": "/other"}]}
    assert "snapshot" in alice.post("/api/sandbox", wish).ok(400).json["message"]
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
    alice.delete("/api/volumes/two").ok()
    alice.delete("/api/volumes/one").ok()
    service.finish()


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


# --- programs ------------------------------------------------------------------------------------


def test_execute(toolbox):
    answer = toolbox.execute("echo hi; echo no >&2; exit 3", cwd="/tmp", envs={"Q": "1"}, timeout=10).ok().json
    assert answer["exitCode"] == 3 and sorted(answer["result"].split()) == ["hi", "no"]
    assert toolbox.output("pwd; echo $Q $HOME", cwd="/tmp", envs={"Q": "a b"}) == "/tmp\na b /home/daytona\n"
    assert toolbox.output("pwd") == "/home/daytona\n"
    assert toolbox.output("pwd", cwd="..") == "/home\n"
    assert toolbox.execute("kill -9 $$").ok().json["exitCode"] == 137
    assert len(toolbox.output("head -c 3000000 /dev/zero | tr '\\0' x")) == 3000000


def test_execute_that_does_not_work(toolbox):
    late = toolbox.execute("sleep 60", timeout=1).ok(408).json
    assert late["code"] == "PROCESS_EXECUTION_TIMEOUT" and late["statusCode"] == 408
    toolbox.execute("").ok(400)
    toolbox.execute("pwd", cwd="/nothing").ok(400)
    toolbox.execute("pwd", envs={"A": 1}).ok(400)
    toolbox.execute("pwd", timeout=-1).ok(400)
    toolbox.post("/process/execute", b"{").ok(400)


def test_code_run(toolbox):
    body = {"code": "import sys, os\nprint(6 * 7, sys.argv[1:], os.environ['V'])", "language": "python"}
    answer = toolbox.post("/process/code-run", {**body, "argv": ["a"], "envs": {"V": "v"}}).ok().json
    assert answer == {"exitCode": 0, "result": "42 ['a'] v\n", "artifacts": {"charts": []}}
    assert toolbox.post("/process/code-run", {"code": "1/0"}).ok().json["exitCode"] == 1
    toolbox.post("/process/code-run", {"code": "x", "language": "cobol"}).ok(400)


# --- sessions ------------------------------------------------------------------------------------


@pytest.fixture
def session(toolbox):
    toolbox.post("/process/session", {"sessionId": "s.1"}).ok(201)
    yield lambda command, **more: toolbox.post("/process/session/s.1/exec", {"command": command, **more})
    toolbox.delete("/process/session/s.1").ok(204)
    toolbox.get("/process/session/s.1").ok(404)


def test_a_session_keeps_what_its_shell_had(toolbox, session):
    session("cd /tmp; export V='a b'; W=too; f() { echo f:$1; }; set -f").ok()
    done = session("pwd; echo $V $W *; f x; echo err >&2; (exit 3)").ok().json
    assert done["exitCode"] == 3 and "err\n" in done["output"]
    assert done["output"].replace("err\n", "", 1) == "/tmp\na b too *\nf:x\n"  # between which lines nobody knows
    if toolbox.version == NEWEST:
        assert done["stdout"] == "/tmp\na b too *\nf:x\n" and done["stderr"] == "err\n"
    else:
        assert set(done) == {"cmdId", "exitCode", "output"}
    assert session("exit 4").ok().json["exitCode"] == 4
    assert session("pwd").ok().json["output"] == "/tmp\n"
    assert session("echo 'unfinished").ok().json["exitCode"] != 0
    assert session("echo $V").ok().json["output"] == "a b\n"


def test_output_of_clients_between_has_marks(alice, box):
    toolbox = Toolbox(alice, box, "0.115.0")
    toolbox.post("/process/session", {"sessionId": "marks"}).ok(201)
    done = toolbox.post("/process/session/marks/exec", {"command": "echo a"}).ok().json
    assert done["output"] == "\1\1\1a\n"
    logs = toolbox.get(f"/process/session/marks/command/{done['cmdId']}/logs").ok()
    assert logs.body == b"\1\1\1a\n"
    toolbox.delete("/process/session/marks").ok(204)


def test_commands_that_nobody_waits_for(toolbox, session):
    started = session("echo one; read line; echo got $line; exit 5", runAsync=True).ok(202).json
    path = f"/process/session/s.1/command/{started['cmdId']}"
    running = toolbox.get(path).ok().json
    assert running == {"id": started["cmdId"], "command": "echo one; read line; echo got $line; exit 5"}
    toolbox.post(f"{path}/input", {"data": "typed\n"}).ok(204)
    eventually(lambda: toolbox.get(path).ok().json.get("exitCode") == 5, "it ends")
    logs = toolbox.get(f"{path}/logs").ok()
    text = "one\ngot typed\n"
    if toolbox.version == NEWEST:
        assert logs.json == {"output": text, "stdout": text, "stderr": ""}
    else:
        assert logs.body.decode() == text
    assert toolbox.get(f"{path}/logs", follow="true").ok().body.decode() == text
    assert toolbox.post(f"{path}/input", {"data": "late"}).ok(410).json["code"] == "COMMAND_ALREADY_COMPLETED"
    everything = toolbox.get("/process/session").ok().json
    assert [one["sessionId"] for one in everything] == ["s.1"]
    assert running["id"] in [one["id"] for one in everything[0]["commands"]]


def test_logs_as_they_come(alice, toolbox, session):
    started = session("echo out; echo err >&2; read line; echo $line", runAsync=True).ok(202).json
    path = f"/process/session/s.1/command/{started['cmdId']}"
    stream = upgrade(alice, f"{toolbox.base}{path}/logs?follow=true")
    logs = {b"\1": b"", b"\2": b""}

    def read():
        frame = stream.recv()
        if frame:
            assert frame[:3] == frame[:1] * 3
            logs[frame[:1]] += frame[3:]
        return frame

    while logs != {b"\1": b"out\n", b"\2": b"err\n"}:
        assert read()
    toolbox.post(f"{path}/input", {"data": "last\n"}).ok(204)
    while read():
        pass
    assert logs[b"\1"] == b"out\nlast\n"
    stream.close()


def test_the_end_of_a_session_is_that_of_its_commands(toolbox):
    toolbox.post("/process/session", {"sessionId": "end"}).ok(201)
    toolbox.post("/process/session", {"sessionId": "end"}).ok(409)
    started = toolbox.post("/process/session/end/exec", {"command": "echo $$ >/tmp/pid; sleep 600", "async": True})
    number = eventually(lambda: toolbox.execute("cat /tmp/pid").json["result"].strip(), "it runs")
    toolbox.delete("/process/session/end").ok(204)
    eventually(lambda: toolbox.execute(f"kill -0 {number}").json["exitCode"] == 1, "it was killed")
    toolbox.get(f"/process/session/end/command/{started.ok(202).json['cmdId']}").ok(404)


def test_sessions_that_are_not_there(toolbox, session):
    known = session("true").ok().json["cmdId"]
    toolbox.post("/process/session/none/exec", {"command": "true"}).ok(404)
    toolbox.get(f"/process/session/none/command/{known}").ok(404)
    for wrong in ("p0000000000000000", "1", "tag:session:s.1", "p" + "x" * 16):
        toolbox.get(f"/process/session/s.1/command/{quote(wrong)}").ok(404)
    for name in ("", "..", ".hidden", "a b", "a/b", "x" * 200, 7):
        toolbox.post("/process/session", {"sessionId": name}).ok(400)
    session("").ok(400)


# --- terminals -----------------------------------------------------------------------------------


def text_until(stream, wanted):
    text = b""
    while wanted not in text:
        frame = stream.recv()
        assert frame, text
        text += frame if isinstance(frame, bytes) else b""
    return text


def test_a_terminal(alice, toolbox):
    envs = base64.urlsafe_b64encode(json.dumps({"V": "from here"}).encode()).rstrip(b"=").decode()
    protocols = [f"X-Daytona-Pty-Envs~{envs}", "X-Daytona-Pty-Exit-Control"]
    target = f"{toolbox.base}/process/pty/create-connect?id=p1&cols=80&rows=24&cwd=/tmp"
    stream = upgrade(alice, target, protocols=protocols)
    assert stream.getsubprotocol().lower() == protocols[1].lower()
    assert json.loads(stream.recv()) == {"type": "control", "status": "connected"}
    info = toolbox.post("/process/pty/p1/resize", {"cols": 100, "rows": 30}).ok().json
    assert info["id"] == "p1" and info["cwd"] == "/tmp" and info["active"]
    assert [one["id"] for one in toolbox.get("/process/pty").ok().json["sessions"]] == ["p1"]
    toolbox.post("/process/pty", {"id": "p1"}).ok(409)
    stream.send_binary(b"stty size; echo $V; pwd\n")
    text_until(stream, b"30 100")
    stream.close()
    again = upgrade(alice, f"{toolbox.base}/process/pty/p1/connect")
    again.send_binary(b"echo ag'a'in; exit 6\n")
    text_until(again, b"again\r\n")
    while (frame := again.recv()) and isinstance(frame, bytes):
        pass
    assert json.loads(frame) == {"type": "control", "status": "exited", "exitCode": 6}
    again.close()
    toolbox.delete("/process/pty/p1").ok()
    toolbox.get("/process/pty/p1").ok(404)
    toolbox.get("/process/pty/p1/connect").ok(404)
    toolbox.post("/process/pty", {"id": "../x"}).ok(400)


# --- files ---------------------------------------------------------------------------------------


def test_directories(toolbox):
    for name in ("/work-dir", "/project-dir", "/user-home-dir"):
        assert toolbox.get(name).ok().json == {"dir": "/home/daytona"}


@pytest.mark.parametrize("order", ["pairs", "first"])
def test_up_and_down(toolbox, order):
    files = (("up/one.txt", b"one"), ("/tmp/two.bin", bytes(range(256)) * 4000), ("up/empty", b""))
    answer = toolbox.upload(*files, order=order).ok().json
    assert [one["bytes"] for one in answer["files"]] == [3, 1024000, 0]
    assert toolbox.download(*(path for path, _ in files)) == dict(files)
    found = toolbox.download("up/one.txt", "up/nothing", "up")
    assert found["up/one.txt"] == b"one" and json.loads(found["up/nothing"])["code"] == "FILE_NOT_FOUND"
    assert json.loads(found["up"])["code"] == "INVALID_FILE_PATH"
    assert toolbox.get("/files/download", path="up/one.txt").ok().body == b"one"
    toolbox.get("/files/download", path="up/nothing").ok(404)
    toolbox.delete("/files", path="up", recursive="true").ok(204)


def test_a_large_file_comes_in_pieces(toolbox):
    toolbox.output("head -c 9000000 /dev/urandom > /tmp/large; md5sum /tmp/large > /tmp/sum")
    content = toolbox.download("/tmp/large")["/tmp/large"]
    toolbox.upload(("/tmp/large", content)).ok()
    toolbox.output("md5sum -c /tmp/sum")


def test_one_file_by_its_form(toolbox):
    body = multipart([("file", "x", b"content")])
    kind = {"Content-Type": "multipart/form-data; boundary=XX"}
    toolbox.call("POST", "/files/upload", body, kind, path="single.txt").ok()
    assert toolbox.download("single.txt") == {"single.txt": b"content"}


def test_lists_and_info(toolbox):
    toolbox.post("/files/folder", path="d/e", mode="700").ok(201)
    toolbox.upload(("d/f.txt", b"12345")).ok()
    entries = {one["name"]: one for one in toolbox.get("/files", path="d").ok().json}
    assert entries["e"]["isDir"] and entries["e"]["permissions"] == "0700" and entries["e"]["mode"] == "drwx------"
    assert entries["f.txt"]["size"] == 5 and entries["f.txt"]["path"] == "/home/daytona/d/f.txt"
    toolbox.upload(("d/e/g", b"")).ok()
    deep = [one["path"] for one in toolbox.get("/files", path="d", depth=2).ok().json]
    assert "/home/daytona/d/e/g" in deep
    info = toolbox.get("/files/info", path="d/f.txt").ok().json
    assert info["name"] == "f.txt" and not info["isDir"] and info["modTime"].endswith("UTC")
    assert toolbox.get("/files/info", path="d/x").ok(404).json["code"] == "FILE_NOT_FOUND"
    toolbox.get("/files", path="d/f.txt").ok(400)
    toolbox.delete("/files", path="d", recursive="true").ok(204)


def test_moves_and_permissions(toolbox):
    toolbox.upload(("a.txt", b"a")).ok()
    toolbox.post("/files/move", source="a.txt", destination="b.txt").ok()
    toolbox.get("/files/info", path="a.txt").ok(404)
    toolbox.post("/files/permissions", path="b.txt", mode="600").ok()
    assert toolbox.get("/files/info", path="b.txt").ok().json["permissions"] == "0600"
    toolbox.post("/files/permissions", path="b.txt", mode="9").ok(400)
    toolbox.post("/files/permissions", path="nothing", mode="600").ok(404)
    toolbox.delete("/files", path="b.txt").ok(204)
    toolbox.delete("/files", path="b.txt").ok(404)


def test_find_search_replace(toolbox):
    toolbox.upload(("s/a.py", b"x = 1\n# LATER: that\n"), ("s/b:7:.txt", b"LATER\n"), ("s/c.txt", b"none")).ok()
    found = toolbox.get("/files/find", path="s", pattern="LATER:").ok().json
    assert found == [{"file": "/home/daytona/s/a.py", "line": 2, "content": "# LATER: that"}]
    assert toolbox.get("/files/find", path="s", pattern="-nowhere").ok().json == []
    assert toolbox.get("/files/search", path="s", pattern="*.py").ok().json == {"files": ["/home/daytona/s/a.py"]}
    body = {"files": ["s/a.py", "s/nothing"], "pattern": "LATER", "newValue": "DONE.DONE"}
    results = toolbox.post("/files/replace", body).ok().json
    assert results[0] == {"file": "s/a.py", "success": True} and results[1]["error"]
    assert toolbox.download("s/a.py")["s/a.py"] == b"x = 1\n# DONE.DONE: that\n"
    toolbox.post("/files/replace", body | {"files": ["s/a.py"] * 65}).ok(400)
    toolbox.get("/files/find", path="s/missing", pattern="x").ok(404)
    toolbox.get("/files/find", path="s").ok(400)
    toolbox.delete("/files", path="s", recursive="true").ok(204)


@pytest.mark.parametrize(
    "parts, kind",
    [
        ([("files[0].file", "x", b"early")], "multipart/form-data; boundary=XX"),
        ([("files[0].path", None, b"x" * 9000), ("files[0].file", "x", b"")], "multipart/form-data; boundary=XX"),
        ([("files[0].path", None, b"a\0b"), ("files[0].file", "x", b"")], "multipart/form-data; boundary=XX"),
        ([], "text/plain"),
        ([], "multipart/form-data"),
    ],
)
def test_uploads_that_make_no_sense(toolbox, parts, kind):
    answer = toolbox.call("POST", "/files/bulk-upload", multipart(parts), {"Content-Type": kind})
    assert answer.status in (400, 415), answer


def test_hostile_words(alice, box, toolbox):
    for path in ("/process/session/../x", "/process/execute/", "/files//", "/%00", "/process/session/%2e%2e/exec"):
        assert toolbox.get(path).status in (400, 404)
    toolbox.post("/files/bulk-download", {"paths": [1]}).ok(400)
    toolbox.post("/files/bulk-download", {}).ok(400)
    for name in ('q"uote', "back\\slash", "li\nne"):
        toolbox.upload((f"/tmp/odd/{len(name)}", b"x")).ok()
        toolbox.post("/files/bulk-download", {"paths": [f"/tmp/odd/{name}"]}).ok()
    alice.get(f"/api/sandbox/{quote('../' + box['id'], safe='')}").ok(404)
    assert toolbox.output("echo still here") == "still here\n"


# --- git -----------------------------------------------------------------------------------------


def git(toolbox, name, body=None, **query):
    path = f"/git/{name}"
    return toolbox.post(path, body) if body is not None else toolbox.get(path, **query)


def test_git(toolbox):
    repo = {"path": "repo"}
    git(toolbox, "init", {**repo, "initial_branch": "main"}).ok()
    assert git(toolbox, "status", path="repo").ok().json["currentBranch"] == "main"
    toolbox.upload(("repo/a file", b"1\n"), ("repo/b", b"2\n")).ok()
    untracked = git(toolbox, "status", path="repo").ok().json
    assert [one["worktree"] for one in untracked["fileStatus"]] == ["Untracked"] * 2
    git(toolbox, "add", {**repo, "files": ["."]}).ok()
    author = {"author": "Ann O", "email": "ann@example.org"}
    first = git(toolbox, "commit", {**repo, **author, "message": "one\n\ntwo; -- three"}).ok().json["hash"]
    toolbox.output("git mv 'a file' renamed && echo more >> b", cwd="repo")
    states = {one["name"]: one for one in git(toolbox, "status", path="repo").ok().json["fileStatus"]}
    assert states["renamed"]["staging"] == "Renamed" and states["renamed"]["extra"] == "a file"
    assert (states["b"]["staging"], states["b"]["worktree"]) == ("Unmodified", "Modified")
    git(toolbox, "reset", {**repo, "mode": "hard"}).ok()
    git(toolbox, "branches", {**repo, "name": "topic"}).ok()
    git(toolbox, "branches", {**repo, "name": "topic"}).ok(409)
    empty = git(toolbox, "commit", {**repo, **author, "message": "empty", "allow_empty": True}).ok().json["hash"]
    history = git(toolbox, "history", path="repo").ok().json
    assert [one["hash"] for one in history] == [empty, first] and history[1]["author"] == "Ann O"
    assert history[1]["message"].strip() == "one\n\ntwo; -- three" and history[0]["timestamp"].startswith("20")
    assert git(toolbox, "branches", path="repo").ok().json == {"branches": ["main", "topic"], "current": "topic"}
    git(toolbox, "checkout", {**repo, "branch": "main"}).ok()
    assert git(toolbox, "checkout", {**repo, "branch": "none"}).ok(404).json["code"] == "GIT_BRANCH_NOT_FOUND"
    toolbox.call("DELETE", "/git/branches", {**repo, "name": "topic"}).ok()
    assert git(toolbox, "status", path="nowhere").ok(404).json["code"] == "GIT_REPO_NOT_FOUND"
    toolbox.upload(("repo/b", b"changed\n")).ok()
    git(toolbox, "restore", {**repo, "files": ["b"], "worktree": True}).ok()
    assert toolbox.output("cat repo/b") == "2\n"
    git(toolbox, "add", {**repo, "files": ["nothing"]}).ok(404)
    git(toolbox, "add", {"files": []}).ok(404)
    toolbox.delete("/files", path="repo", recursive="true").ok(204)


def test_git_and_others(toolbox):
    toolbox.output("rm -rf up work; git init -q --bare -b main up")
    clone = {"url": "/home/daytona/up", "path": "work"}
    git(toolbox, "clone", clone).ok()
    git(toolbox, "clone", clone).ok(409)
    assert git(toolbox, "remotes", path="work").ok().json == {"remotes": [{"name": "origin", "url": "/home/daytona/up"}]}
    git(toolbox, "remotes", {"path": "work", "name": "more", "url": "/a"}).ok(201)
    git(toolbox, "remotes", {"path": "work", "name": "more", "url": "/b", "overwrite": True}).ok(201)
    assert git(toolbox, "remotes", path="work").ok().json["remotes"][1] == {"name": "more", "url": "/b"}
    toolbox.upload(("work/f", b"x")).ok()
    git(toolbox, "add", {"path": "work", "files": ["f"]}).ok()
    author = {"author": "A", "email": "a@b"}
    git(toolbox, "commit", {"path": "work", **author, "message": "m"}).ok()
    git(toolbox, "push", {"path": "work", "set_upstream": True}).ok()
    status = git(toolbox, "status", path="work").ok().json
    assert status["branchPublished"] and status["upstream"] == "origin/main" and status["ahead"] == 0
    toolbox.output("rm -rf other; git clone -q up other; cd other; git -c user.name=B -c user.email=b commit -q --allow-empty -m o; git push -q")
    git(toolbox, "commit", {"path": "work", **author, "message": "p", "allow_empty": True}).ok()
    assert git(toolbox, "push", {"path": "work"}).ok(409).json["code"] == "GIT_PUSH_REJECTED"
    git(toolbox, "config/user", {"path": "work", "scope": "local", "name": "N", "email": "n@m"}).ok()
    git(toolbox, "pull", {"path": "work"}).ok()
    assert git(toolbox, "status", path="work").ok().json["ahead"] == 2
    assert git(toolbox, "config", path="work", scope="local", key="user.name").ok().json == {"value": "N"}
    git(toolbox, "config", {"key": "a.b", "value": "c", "scope": "global"}).ok()
    assert git(toolbox, "config", key="a.b", scope="global").ok().json == {"value": "c"}
    assert git(toolbox, "config", key="a.none", scope="global").ok().json == {"value": None}
    toolbox.output("rm -rf up work other")


LOGIN_SERVER = """
import base64, http.server, os, subprocess

class Handler(http.server.CGIHTTPRequestHandler):
    def do_GET(self):
        given = self.headers.get("Authorization", "")
        if given != "Basic " + base64.b64encode(b"ann:s3cret").decode():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()
            return
        http.server.SimpleHTTPRequestHandler.do_GET(self)

http.server.ThreadingHTTPServer(("127.0.0.1", 8077), Handler).serve_forever()
"""


def test_a_login_is_told_to_nobody_else(service, alice, toolbox):
    toolbox.upload(("/tmp/login.py", LOGIN_SERVER.encode())).ok()
    toolbox.output(
        "rm -rf /tmp/www got; mkdir -p /tmp/www; cd /tmp/www; git init -q -b main r; cd r;"
        "git -c user.name=B -c user.email=b commit -q --allow-empty -m o; git update-server-info"
    )
    toolbox.output("cd /tmp/www; nohup python3 /tmp/login.py >/dev/null 2>&1 & echo $! >/tmp/login.pid")
    url = "http://127.0.0.1:8077/r/.git"
    eventually(lambda: toolbox.execute("curl -s -o /dev/null " + url).json["exitCode"] == 0, "it listens")
    assert git(toolbox, "clone", {"url": url, "path": "got"}).ok(401).json["code"] == "GIT_AUTH_FAILED"
    wrong = {"url": url, "path": "got", "username": "ann", "password": "wr0ng"}
    assert git(toolbox, "clone", wrong).ok(401).json["code"] == "GIT_AUTH_FAILED"
    git(toolbox, "clone", {**wrong, "password": "s3cret"}).ok()
    assert "s3cret" not in toolbox.output("cat got/.git/config; grep -rs s3[c]ret . --include=.git-credentials; true")
    assert "s3cret" not in json.dumps(alice.get(f"/v1/sandboxes/{toolbox.id}/events?limit=1000").ok().json)
    toolbox.output("kill $(cat /tmp/login.pid); rm -rf got /tmp/www")


# --- the code interpreter ------------------------------------------------------------------------


def cell(client, toolbox, code, **more):
    """(events, code of the close)"""
    stream = upgrade(client, f"{toolbox.base}/process/interpreter/execute")
    stream.send(json.dumps({"code": code, **more}))
    events = []
    while True:
        opcode, data = stream.recv_data()
        if opcode == 8:
            return events, int.from_bytes(data[:2], "big")
        events.append(json.loads(data))


def text_of(events, kind="stdout"):
    return "".join(event["text"] for event in events if event["type"] == kind)


def test_cells(alice, box):
    if subprocess.run(["/usr/bin/python3", "-c", "import ipykernel"], capture_output=True).returncode:
        pytest.skip("the Python of this machine, which jails have, has no ipykernel")
    toolbox = Toolbox(alice, box)
    events, code = cell(alice, toolbox, "import sys; x = 6; print(x * 7); print('no', file=sys.stderr)")
    assert code == 1000 and text_of(events) == "42\n" and text_of(events, "stderr") == "no\n"
    events, code = cell(alice, toolbox, "1/0")
    assert code == 1000 and [e["name"] for e in events if e["type"] == "error"] == ["ZeroDivisionError"]
    context = toolbox.post("/process/interpreter/context", {"cwd": "/tmp"}).ok().json
    assert context["cwd"] == "/tmp" and context["language"] == "python" and context["active"]
    listed = toolbox.get("/process/interpreter/context").ok().json["contexts"]
    assert [(one["id"], one["cwd"]) for one in listed] == [(context["id"], "/tmp")]
    events, code = cell(alice, toolbox, "import os; print(os.getcwd(), 'x' in globals())", contextId=context["id"])
    assert text_of(events) == "/tmp False\n"
    toolbox.delete(f"/process/interpreter/context/{context['id']}").ok()
    assert toolbox.get("/process/interpreter/context").ok().json["contexts"] == []
    toolbox.delete(f"/process/interpreter/context/{context['id']}").ok(404)
    toolbox.delete("/process/interpreter/context/default").ok(400)
    assert cell(alice, toolbox, "1", contextId=context["id"])[1] == 1011
    assert cell(alice, toolbox, "while True: pass", timeout=1)[1] == 4008
    assert text_of(cell(alice, toolbox, "print(x)")[0]) == "6\n"


# --- what there is not ---------------------------------------------------------------------------


def test_no_language_servers_and_no_desktop(toolbox):
    answer = toolbox.post("/lsp/start", {"languageId": "cobol", "pathToProject": "/"}).ok(400).json
    assert answer["code"] == "LSP_SERVER_NOT_INITIALIZED" and answer["source"] == "DAYTONA_DAEMON"
    toolbox.post("/computeruse/start").ok(503)


# --- language servers ----------------------------------------------------------------------------


def test_language_servers_that_are_absent_or_lie(alice, bob):
    made = create(alice)
    toolbox = Toolbox(alice, made)
    project = {"languageId": "python", "pathToProject": "/tmp"}

    def refused(answer, status=400):
        assert answer.ok(status).json["code"] == "LSP_SERVER_NOT_INITIALIZED", answer

    refused(toolbox.post("/lsp/start", {**project, "languageId": "cobol"}))
    refused(toolbox.post("/lsp/stop", project))
    refused(toolbox.get("/lsp/document-symbols", **project, uri="file:///tmp/a.py"))
    refused(toolbox.get("/lsp/workspacesymbols", **project, query="x"))
    refused(toolbox.post("/lsp/completions", {**project, "uri": "file:///tmp/a", "position": {"line": 0, "character": 0}}))
    refused(toolbox.post("/lsp/did-open", {**project, "uri": "file:///tmp/a"}))
    toolbox.post("/lsp/start", {}).ok(400)
    Toolbox(bob, made).post("/lsp/start", project).ok(404)
    for script in (
        "exit 1",
        r"printf 'Content-Length: 999999999\r\n\r\n'; sleep 0.2",
        r"printf 'Content-Length: -1\r\n\r\nContent-Length: \r\n\r\nContent-Length: 3\r\n\r\n{}'; head -c 100000 /dev/urandom; exit 0",
        "head -c 40000000 /dev/zero",
    ):
        toolbox.output(f"printf '%s\\n' '#!/bin/sh' {shlex.quote(script)} >/usr/local/bin/pylsp; chmod +x /usr/local/bin/pylsp")
        started = toolbox.post("/lsp/start", project)
        assert started.status in (400, 413), (script, started)
    # One that answers with the id that it was asked with, after a message that only holds it, in pieces.
    honest = r"""#!/usr/bin/python3
import json, sys
length = int(sys.stdin.readline().split()[1])
sys.stdin.readline()
asked = json.loads(sys.stdin.read(length))
for message in ({"method": "log", "params": asked["id"]}, {"id": asked["id"], "result": {}}):
    body = json.dumps(message)
    for piece in ("Content-Le", f"ngth: {len(body)}\r\n", "\r\n", body[:9], body[9:]):
        sys.stdout.write(piece)
        sys.stdout.flush()
sys.stdin.read()
"""
    toolbox.upload(("/usr/local/bin/pylsp", honest.encode())).ok()
    toolbox.output("chmod +x /usr/local/bin/pylsp")
    toolbox.post("/lsp/start", project).ok()
    toolbox.post("/lsp/did-open", {**project, "uri": "file:///tmp/none.py"}).ok(404)
    toolbox.post("/lsp/stop", project).ok()
    kill(alice, made)

"""The surface of E2B on the wire: control plane and files, without any SDK."""

import base64
import gzip
import hashlib
import json
import re
import shlex
import subprocess
import time
import zlib
from urllib.parse import quote, urlencode

import jsonschema
import pytest
import yaml

from e2b_wire import STREAM, Envd, create, frame, frames, kill, multipart, read, write
from native import at
from openapi_document import routes_of
from services import eventually, measured, memory
from trees import ROOT

ODD = ROOT / "tests" / "mcp" / "servers" / "odd.py"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
CONFIG = """
[template.small]
memory = "256m"
plugins = []
env = {GREETING = "hello"}
"""


@pytest.fixture(scope="module")
def alice(service):
    return service.tenant("alice", "--e2b")


@pytest.fixture(scope="module")
def bob(service):
    return service.tenant("bob", "--e2b")


@pytest.fixture(scope="module")
def box(alice):
    return create(alice, timeout=3600, metadata={"team": "blue"}, envVars={"X": "1"})


@pytest.fixture(scope="module")
def envd(service, box):
    return Envd(service, box)


def state(client, sandbox):
    return client.get(f"/sandboxes/{sandbox['sandboxID']}").ok().json["state"]


def methods_of(service, name):
    """The calls of Connect in the table of a source: {(method, path)}."""
    text = (ROOT / "src" / "service" / "e2b" / name).read_text()
    return {("post", f"/{service}/{method}") for method in re.findall(r'{\.name = "(\w+)"', text)}


def test_every_route_is_in_the_document():
    document = yaml.safe_load((ROOT / "docs" / "clouds" / "e2b.yaml").read_text())
    described = {(m, path) for path, item in document["paths"].items() for m in item if m != "parameters"}
    control = routes_of("e2b/create.c", "e2b/control.c", "e2b/templates.c", "e2b/build.c", "e2b/snapshot.c", "e2b/volumes.c")
    inside = {(method, path.replace("*", "{id}")) for method, path in routes_of("e2b/envd.c")}
    inside |= methods_of("filesystem.Filesystem", "filesystem.c") | methods_of("process.Process", "process.c")
    assert len(inside) == 28 and described == control | inside


def test_the_document_holds_together():
    text = (ROOT / "docs" / "clouds" / "e2b.yaml").read_text()
    document = yaml.safe_load(text)
    named = {f"#/components/{kind}/{name}" for kind, all in document["components"].items() if kind != "securitySchemes" for name in all}
    assert named == set(re.findall(r'\$ref: "([^"]+)"', text))


def test_answers_of_envd_are_what_the_document_says(envd):
    document = yaml.safe_load((ROOT / "docs" / "clouds" / "e2b.yaml").read_text())

    def check(path, method, answer):
        response = document["paths"][path][method]["responses"][str(answer.status)]
        while "$ref" in response:
            response = document["components"]["responses"][response["$ref"].split("/")[-1]]
        jsonschema.validate(answer.json, {**document, **response["content"]["application/json"]["schema"]})

    headers = {"Content-Type": "application/octet-stream", "X-Metadata-A": "1"}
    check("/files", "post", envd.client.post("/files?path=told", b"x", headers=headers))
    for path in ("/envs", "/metrics"):
        check(path, "get", envd.client.get(path))
    for method, message in (("Stat", {"path": "told"}), ("ListDir", {"path": "."}), ("CreateWatcher", {"path": "."})):
        check(f"/filesystem.Filesystem/{method}", "post", envd.rpc(f"filesystem.Filesystem/{method}", message))
    check("/process.Process/List", "post", envd.rpc("process.Process/List"))


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_has_the_form_that_sdks_look_for(alice, service):
    assert alice.key.startswith("e2b_") and set(alice.key[4:]) <= set("0123456789abcdef")
    assert alice.get("/v1/sandboxes").ok()  # the same key opens the native API
    assert service.client(alice.key[:-1]).get("/sandboxes").ok(401).json["code"] == 401


def test_errors_have_the_vendors_shape(alice, service):
    answer = service.stranger().get("/sandboxes").ok(401)
    assert set(answer.json) >= {"code", "message"} and answer.json["code"] == 401
    assert alice.get("/sandboxes/abcdefghij").ok(404).json["code"] == 404
    assert alice.post("/sandboxes", b"[").ok(400).json["code"] == 400
    assert alice.post("/sandboxes", [1]).ok(400).json["message"] == "The body is no JSON object"
    reader = service.tenant("alice", "--scope", "read")
    assert reader.post("/sandboxes", {"templateID": "base"}).ok(403).json["code"] == 403
    assert service.stranger().get("/health").ok(204).body == b""


# --- life ----------------------------------------------------------------------------------------


def test_create_answers_as_sdks_want_it(box):
    assert box["templateID"] == "base" and box["clientID"] and box["envdVersion"].count(".") == 2
    assert len(box["envdAccessToken"]) == 43 and box["domain"].startswith("localhost:")


def test_info(alice, box):
    info = alice.get(f"/sandboxes/{box['sandboxID']}").ok().json
    assert info["state"] == "running" and info["metadata"] == {"team": "blue"}
    assert info["cpuCount"] >= 1 and info["memoryMB"] > 0 and info["envdAccessToken"] == box["envdAccessToken"]
    assert info["lifecycle"] == {"autoResume": False, "onTimeout": "kill"}
    assert info["startedAt"] < info["endAt"]


def test_a_template_is_one_of_the_configuration(alice, service):
    made = create(alice, templateID="small", envVars={"B": "2"})
    assert made["templateID"] == "small"
    envs = Envd(service, made).client.get("/envs").ok().json
    assert envs["GREETING"] == "hello" and envs["B"] == "2" and envs["HOME"] == "/home/user"
    names = [t["templateID"] for t in alice.get("/templates").ok().json]
    assert set(names) == {"base", "small"}
    assert alice.get("/templates/aliases/small").ok().json["templateID"] == "small"
    alice.get("/templates/aliases/nothing").ok(404)
    answer = alice.post("/sandboxes", {"templateID": "nothing"}).ok(404)
    assert answer.json["message"] == "template 'nothing' not found"
    kill(alice, made)


def test_what_is_not_served_is_refused_before_anything_is_made(alice):
    before = len(alice.get("/sandboxes").ok().json)
    for wish in (
        {"volumeMounts": [{"name": "a", "path": "/b"}]},
        {"network": {"rules": {"a": []}}},
        {"network": {"denyOut": ["example.com"]}},
        {"timeout": -1},
        {"timeout": "x" * 3, "metadata": {"a": "b" * 20000}},
        {"envVars": {"bad name": "x"}},
        {"envVars": {"A": 1}},
        {"templateID": 7},
        {"templateID": "../base"},
    ):
        answer = alice.post("/v2/sandboxes", {"templateID": "base", **wish})
        assert answer.status in (400, 404), (wish, answer)
        assert answer.json["code"] == answer.status and answer.json["message"]
    assert len(alice.get("/sandboxes").ok().json) == before


def test_lists_pages_and_filters(service):
    carol = service.tenant("carol")
    made = [create(carol, metadata={"n": str(i % 2), "odd name": "a&b"})["sandboxID"] for i in range(3)]
    assert {one["sandboxID"] for one in carol.get("/sandboxes").ok().json} == set(made)
    first = carol.get("/v2/sandboxes?limit=2").ok()
    token = first.headers["x-next-token"]
    second = carol.get(f"/v2/sandboxes?limit=2&nextToken={quote(token)}").ok()
    assert "x-next-token" not in second.headers
    assert [one["sandboxID"] for one in first.json + second.json] == made[::-1]
    wanted = urlencode({"metadata": urlencode({"n": "1", "odd name": "a&b"}, quote_via=quote)})
    assert [one["sandboxID"] for one in carol.get(f"/v2/sandboxes?{wanted}").ok().json] == [made[1]]
    carol.post(f"/sandboxes/{made[0]}/pause", {}).ok(204)
    assert [one["sandboxID"] for one in carol.get("/v2/sandboxes?state=paused").ok().json] == [made[0]]
    assert len(carol.get("/v2/sandboxes?state=paused,running").ok().json) == 3
    alias = create(carol, templateID="small")["sandboxID"]
    made.append(alias)
    assert [one["sandboxID"] for one in carol.get("/v2/sandboxes?template=small").ok().json] == [alias]
    second = carol.get(f"/sandboxes/{made[1]}").ok().json["startedAt"]
    for text in (second, second.replace("Z", "+00:00")):
        since = carol.get(f"/v2/sandboxes?{urlencode({'startedAfter': text})}").ok().json
        assert {one["sandboxID"] for one in since} == set(made[1:])
    ahead = time.strftime("%Y-%m-%dT%H:%M:%S.5+02:00", time.gmtime(time.time() + 7200 + 60))
    assert carol.get(f"/v2/sandboxes?{urlencode({'startedAfter': ahead})}").ok().json == []
    for bad in ("startedAfter=yesterday", "startedAfter=2026-11-18T20:00:00", "state=gone", "limit=0", "limit=x", "nextToken=zzz", "nextToken=1-../../x"):
        carol.get(f"/v2/sandboxes?{bad}").ok(400)
    for one in made:
        carol.delete(f"/sandboxes/{one}").ok(204)
        carol.delete(f"/sandboxes/{one}").ok(404)


def test_pause_and_connect(alice, service):
    made = create(alice, timeout=600)
    path = f"/sandboxes/{made['sandboxID']}"
    envd = Envd(service, made)
    envd.client.get("/health").ok(204)
    alice.post(f"{path}/pause").ok(204)  # old SDKs send no body
    assert alice.post(f"{path}/pause", {}).ok(409).json["code"] == 409
    assert state(alice, made) == "paused"
    assert envd.client.get("/health").ok(502).json["sandboxId"] == made["sandboxID"]
    assert alice.post(f"/v2{path}/connect", {"timeout": 900}).ok(201).json["sandboxID"] == made["sandboxID"]
    assert state(alice, made) == "running"
    alice.post(f"{path}/connect", {"timeout": 5}).ok(200)
    assert left(alice, made) > 600, "connect never shortens"
    alice.post(f"{path}/timeout", {"timeout": 60}).ok(204)
    assert 50 < left(alice, made) <= 60
    alice.post(f"{path}/refreshes", {"duration": 30}).ok(204)
    assert left(alice, made) > 50
    kill(alice, made)
    alice.post(f"{path}/connect", {}).ok(404)
    alice.post(f"{path}/timeout", {"timeout": 60}).ok(404)
    envd.client.get("/health").ok(502)


def left(client, sandbox):
    ends = client.get(f"/sandboxes/{sandbox['sandboxID']}").ok().json["endAt"]
    return time.mktime(time.strptime(ends[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone - time.time()


def test_a_time_out_ends_it_also_after_a_restart(make_service, jail_works):
    service = make_service().start()
    alice = service.tenant("alice")
    killed, paused, kept = (
        create(alice, timeout=seconds, autoPause=pause) for seconds, pause in ((4, False), (4, True), (600, False))
    )
    service.restart(kill=True)
    alice.close()
    eventually(lambda: alice.get(f"/sandboxes/{killed['sandboxID']}").status == 404, "it is deleted")
    eventually(lambda: state(alice, paused) == "paused", "it is paused")
    assert state(alice, kept) == "running"
    # What was paused by its time-out stays, and has none any more until it is woken.
    alice.post(f"/v2/sandboxes/{paused['sandboxID']}/connect", {"timeout": 300}).ok(201)
    assert state(alice, paused) == "running" and 250 < left(alice, paused) <= 300


def test_one_that_may_wakes_when_it_is_used(alice, service):
    made = create(alice, timeout=600, autoPause=True, autoResume={"enabled": True})
    alice.post(f"/sandboxes/{made['sandboxID']}/pause", {}).ok(204)
    Envd(service, made).client.get("/health").ok(204)
    assert state(alice, made) == "running" and left(alice, made) > 200
    kill(alice, made)


def gateway(service, sandbox):
    """Its MCP gateway, opened by the token that a program was given as it started."""
    envs = {"GATEWAY_ACCESS_TOKEN": "gate"}
    with Envd(service, sandbox).stream("process.Process/Start", {"process": {"cmd": "true", "envs": envs}}) as stream:
        stream.until(lambda m: "end" in m.get("event", {}))
    host = {"Host": f"50005-{sandbox['sandboxID']}.{sandbox['domain']}"}
    return service.stranger(headers={**host, "Authorization": "Bearer gate"})


def port(service, sandbox, **headers):
    return service.stranger(headers={"Host": f"8123-{sandbox['sandboxID']}.{sandbox['domain']}", **headers})


def test_a_port_wakes_only_one_that_may(alice, service):
    may, rests = (create(alice, timeout=4, autoPause=True, autoResume={"enabled": yes}) for yes in (True, False))
    tools = gateway(service, rests)
    for one in (may, rests):
        eventually(lambda: state(alice, one) == "paused", "its time is over")
    doors = {one["sandboxID"]: port(service, one, **{"E2b-Traffic-Access-Token": one["trafficAccessToken"]}) for one in (may, rests)}
    for answer in (doors[rests["sandboxID"]].get("/"), tools.post("/mcp", HELLO)):
        assert answer.ok(502).json == {"sandboxId": rests["sandboxID"], "message": "The sandbox was not found", "code": 502}
    assert state(alice, rests) == "paused"
    # No server listens there: the sandbox is awake all the same, and has a time-out again.
    assert "8123" in doors[may["sandboxID"]].get("/").ok(502).text
    assert state(alice, may) == "running" and 200 < left(alice, may) <= 300
    # A key is a client of ours, whose use wakes whatever it is: not for ever.
    assert "8123" in port(service, rests, **{"X-API-Key": alice.key}).get("/").ok(502).text
    assert state(alice, rests) == "running" and 200 < left(alice, rests) <= 300
    kill(alice, may)
    kill(alice, rests)


def test_a_time_out_is_bounded_by_the_operator(make_service, jail_works):
    service = make_service(settings={"ttl_seconds": 100}).start()
    alice = service.tenant("alice")
    assert "100 seconds" in alice.post("/sandboxes", {"templateID": "base", "timeout": 101}).ok(400).json["message"]
    made = create(alice, timeout=90)
    assert left(alice, made) <= 90


def test_metrics_and_logs(alice, box):
    metrics = alice.get(f"/sandboxes/{box['sandboxID']}/metrics").ok().json
    assert metrics and set(metrics[0]) >= {"timestamp", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "diskUsed"}
    assert set(alice.get(f"/sandboxes/{box['sandboxID']}/logs").ok().json) == {"logs", "logEntries"}
    assert set(alice.get(f"/v2/sandboxes/{box['sandboxID']}/logs").ok().json) == {"logs"}


# --- who may -------------------------------------------------------------------------------------


def test_tenants_see_nothing_of_each_other(alice, bob, box, service):
    assert box["sandboxID"] not in bob.get("/sandboxes").ok().text
    path = f"/sandboxes/{box['sandboxID']}"
    nowhere = "/sandboxes/aaaaaaaaaa"
    for method, rest, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/timeout", {"timeout": 1}),
        ("POST", "/pause", {}),
        ("POST", "/connect", {}),
        ("POST", "/fork", {}),
        ("POST", "/snapshots", {}),
        ("GET", "/metrics", None),
        ("GET", "/logs", None),
        ("PUT", "/network", {}),
    ):
        theirs, none = bob.request(method, path + rest, body), bob.request(method, nowhere + rest, body)
        assert theirs.status == none.status == 404, (rest, theirs)
        assert theirs.text.replace(box["sandboxID"], "X") == none.text.replace("aaaaaaaaaa", "X")
    bob.post("/sandboxes", {"templateID": f"{box['sandboxID']}.one"}).ok(404)
    own = create(bob)
    stranger = Envd(service, box, token=own["envdAccessToken"])
    answers = [stranger.client.get("/health"), stranger.stat("/"), Envd(service, {**box, "sandboxID": "aaaaaaaaaa"}).stat("/")]
    assert [a.status for a in answers] == [401] * 3
    assert state(alice, box) == "running"
    kill(bob, own)


def test_a_token_ends_with_the_key_that_made_the_sandbox(service):
    key = service.make_key("short", "--tenant", "dora")
    dora = service.client(key["key"])
    made = create(dora)
    envd = Envd(service, made)
    envd.client.get("/health").ok(204)
    assert service.tendon("key", "revoke", "short").returncode == 0
    envd.client.get("/health").ok(401)
    service.client().delete(at(made["sandboxID"])).ok(204)


def test_by_the_name_of_a_host(service, box):
    host = f"49983-{box['sandboxID']}.localhost:{service.port}"
    stranger = service.stranger(headers={"Host": host})
    stranger.get("/health").ok(401)
    stranger.get("/health", headers={"X-Access-Token": box["envdAccessToken"]}).ok(204)


# --- the MCP gateway -----------------------------------------------------------------------------


def test_the_gateway_is_for_who_has_its_token(service, alice):
    """A command of the sandbox, its servers as tools, and its port, which nothing else than that token opens to strangers."""
    made = create(alice, templateID="mcp-gateway", mcp={"odd": {}})
    envd = Envd(service, made, user="root")
    body, kind = multipart([("file", "odd.py", ODD.read_bytes())])
    envd.client.post("/files?path=/srv/odd.py", body, headers=kind).ok()
    stranger = service.stranger(headers={"Host": f"50005-{made['sandboxID']}.localhost:{service.port}"})
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}

    def ask(token, path="/mcp"):
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        return stranger.post(path, message, headers=headers)

    def gateway(config, **envs):
        return envd.run(f"mcp-gateway --config {shlex.quote(json.dumps(config))}", process={"envs": envs})

    ask("sesame").ok(401)
    for config, words in (
        ({"odd": {"run_cmd": "python3 /srv/none.py"}}, b"none.py"),
        ({"github/no-owner": {"run_cmd": "true"}}, b"OWNER"),
        ({"github/../up": {"run_cmd": "true"}}, b"OWNER"),
        ({"braveSearch": {"apiKey": "x"}}, b"mcp-server-brave-search"),
        ([], b"expected an object"),
    ):
        ran = gateway(config, GATEWAY_ACCESS_TOKEN="sesame")
        assert ran.end["exitCode"] == 1 and words in ran.err, ran.err
    envd.run("ln -s /srv/odd.py /usr/local/bin/mcp-server-brave-search; sed -i '1i #!/usr/bin/python3' /srv/odd.py; chmod +x /srv/odd.py")
    ran = gateway({"braveSearch": {"apiKey": "x"}, "own": {"runCmd": "exec python3 /srv/odd.py"}}, GATEWAY_ACCESS_TOKEN="sesame")
    assert ran.end["exitCode"] == 0 and ran.err == b"", ran.err
    assert ask("sesame").ok().json["result"]["serverInfo"], "it answers"
    assert b"API_KEY=x" in envd.run("tr '\\0' '\\n' < /proc/$(pgrep -f '[m]cp-server-brave')/environ").out
    ask("other").ok(401)
    ask("sesame", "/update_mcp_server").ok(401)  # not a path that the token opens
    assert envd.run("cat /etc/mcp-gateway/.token; stat -c %a /etc/mcp-gateway/.token").out == b"sesame600\n"
    assert "mcp" not in json.dumps(alice.get(f"/sandboxes/{made['sandboxID']}").ok().json["metadata"])
    kill(alice, made)


# --- files ---------------------------------------------------------------------------------------


def test_files_go_in_and_out(envd):
    assert write(envd, "/home/user/d/a.txt", b"hello") == [
        {"path": "/home/user/d/a.txt", "name": "a.txt", "type": "file"}
    ]
    assert read(envd, "/home/user/d/a.txt") == read(envd, "d/a.txt") == read(envd, "~/d/a.txt") == b"hello"
    body, headers = multipart([("file", "x/1", b"one"), ("file", "/tmp/2", b"two"), ("other", "z", b"")])
    written = envd.client.post("/files", body, headers=headers).ok().json
    assert [one["path"] for one in written] == ["/home/user/x/1", "/tmp/2"]
    octets = {"Content-Type": "application/octet-stream"}
    large = bytes(range(256)) * 40000
    envd.client.post("/files?path=big", large, headers=octets).ok()
    assert read(envd, "big") == large
    part = envd.client.get("/files?path=big", headers={"Range": "bytes=1-3"}).ok(206)
    assert part.body == b"\x01\x02\x03"


def test_files_that_are_not_there(envd):
    for path, status in (("nothing", 404), ("/etc", 400), ("/dev/null", 400), ("", 400)):
        answer = envd.client.get(f"/files?{urlencode({'path': path})}").ok(status)
        assert answer.json["code"] == status and answer.json["message"]
    envd.client.get("/files?path=a%00b").ok(400)
    octets = {"Content-Type": "application/octet-stream"}
    envd.client.post("/files", b"x", headers=octets).ok(400)
    envd.client.post("/files?path=/etc", b"x", headers=octets).ok(400)
    envd.client.post("/files?path=z", b"x", headers={**octets, "Content-Encoding": "br"}).ok(406)
    body, headers = multipart([("file", "", b"x")])
    envd.client.post("/files", body, headers=headers).ok(400)
    envd.client.post("/files?path=q", b"--", headers={"Content-Type": "multipart/form-data"}).ok(400)


def test_an_upload_may_be_gzip(envd):
    packed = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    plain = bytes(range(256)) * 20000
    envd.client.post("/files?path=gz", gzip.compress(plain[:100]) + gzip.compress(plain[100:]), headers=packed).ok()
    assert read(envd, "gz") == plain
    body, headers = multipart([("file", "gz/a", b"one"), ("file", "gz/b", b"two")])
    envd.rpc("filesystem.Filesystem/Remove", {"path": "gz"}).ok()
    envd.client.post("/files", gzip.compress(body), headers={**headers, "Content-Encoding": "gzip"}).ok()
    assert read(envd, "gz/a") + read(envd, "gz/b") == b"onetwo"
    whole = gzip.compress(plain)
    for bad in (b"", b"x", b"plain text", whole[:-1], whole[:20] + b"xxxx" + whole[24:], whole + b"more"):
        assert envd.client.post("/files?path=bad", bad, headers=packed).ok(400).json["code"] == 400
    envd.stat("bad").ok(404)


def test_a_bomb_of_gzip_is_refused(make_service, jail_works):
    """It is sent as long as it is taken: more than a gibibyte is not, whatever it unpacks to."""
    service = measured(make_service()).start()
    made = create(service.tenant("alice", "--e2b"))
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([squeeze.compress(bytes(1 << 20)) for _ in range(1100)]) + squeeze.flush()
    headers = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    before = memory(service)
    answer = Envd(service, made).client.post("/files?path=bomb", bomb, headers=headers)
    assert answer.status in (413, 507), answer
    assert memory(service) - before < 16 << 20
    Envd(service, made).stat("bomb").ok(404)


def test_metadata_of_files(envd):
    put = lambda path, **headers: envd.client.post(f"/files?path={path}", b"x", headers={"Content-Type": "application/octet-stream", **headers})
    assert put("meta", **{"x-METADATA-One": "1"}).ok().json[0]["metadata"] == {"one": "1"}
    assert envd.stat("meta").ok().json["entry"]["metadata"] == {"one": "1"}
    for bad in ({"X-Metadata-One": "\u00e9"}, {f"X-Metadata-{i}": "x" * 1000 for i in range(5)}):
        assert put("unkept", **bad).ok(400).json["code"] == 400
    envd.stat("unkept").ok(404)
    assert "metadata" not in put("meta").ok().json[0] and "metadata" not in envd.stat("meta").ok().json["entry"]


def test_metadata_where_there_are_no_attributes(service, alice):
    """A jail that writes to a volume sets none: the upload fails as a whole."""
    alice.post("/volumes", {"name": "kept"}).ok(201)
    made = create(alice, volumeMounts=[{"name": "kept", "path": "/kept"}])
    there = Envd(service, made)
    headers = {"Content-Type": "application/octet-stream", "X-Metadata-A": "1"}
    answer = there.client.post("/files?path=meta", b"x", headers=headers)
    assert answer.status >= 400 and "attributes" in answer.json["message"], answer
    there.stat("meta").ok(404)
    there.client.post("/files?path=meta", b"x", headers={"Content-Type": "application/octet-stream"}).ok()
    kill(alice, made)
    alice.delete("/volumes/kept").ok(204)


def signed(token, path, operation, user="", until=None):
    text = f"{path}:{operation}:{user}:{token}" + (f":{until}" if until else "")
    signature = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    query = {"path": path, "signature": "v1_" + signature}
    return "/files?" + urlencode({**query, **({"signature_expiration": until} if until else {})})


def test_links_are_signed(service, box, envd):
    token, stranger = box["envdAccessToken"], service.stranger()
    write(envd, "linked", b"by a link")
    assert stranger.get(signed(token, "linked", "read")).ok().body == b"by a link"
    soon, past = int(time.time()) + 60, int(time.time()) - 60
    assert stranger.get(signed(token, "linked", "read", until=soon)).ok().body == b"by a link"
    stranger.get(signed(token, "linked", "read", until=past)).ok(401)
    stranger.get(signed(token, "linked", "write")).ok(401)
    stranger.get(signed(token, "linked", "read").replace("linked", "other")).ok(401)
    stranger.get(signed("0" * 32, "linked", "read")).ok(401)
    body, headers = multipart([("file", "new", b"put by a link")])
    stranger.post(signed(token, "new", "write"), body, headers=headers).ok()
    assert read(envd, "new") == b"put by a link"


def test_of_a_link_that_names_a_sandbox_its_token_alone_counts(service, alice, box, envd):
    other = create(alice)
    write(envd, "named", b"of the one")
    write(Envd(service, other), "named", b"of the other")
    for sandbox, text in ((box, b"of the one"), (other, b"of the other")):
        link = signed(sandbox["envdAccessToken"], "named", "read")
        for one in (box, other):
            host = {"Host": f"49983-{one['sandboxID']}.localhost:{service.port}"}
            for headers in (host, {"E2b-Sandbox-Id": one["sandboxID"]}):
                answer = service.stranger(headers=headers).get(link)
                assert (answer.status, answer.body == text) == ((200, True) if one is sandbox else (401, False))
    kill(alice, other)


def test_the_file_system(envd):
    fs = "filesystem.Filesystem"
    made = envd.rpc(f"{fs}/MakeDir", {"path": "fs/a/b"}).ok().json["entry"]
    assert made["path"] == "/home/user/fs/a/b" and made["type"] == "FILE_TYPE_DIRECTORY"
    assert envd.rpc(f"{fs}/MakeDir", {"path": "fs/a/b"}).ok(409).json["code"] == "already_exists"
    write(envd, "fs/a/f", b"12345")
    assert envd.rpc(f"{fs}/MakeDir", {"path": "fs/a/f"}).ok(400).json["code"] == "invalid_argument"
    entry = envd.stat("fs/a/f").ok().json["entry"]
    assert entry["size"] == "5" and entry["permissions"].startswith("-rw") and entry["name"] == "f"
    assert entry["owner"] and entry["modifiedTime"].endswith("Z")
    assert envd.stat("fs/none").ok(404).json["code"] == "not_found"
    listed = envd.rpc(f"{fs}/ListDir", {"path": "fs", "depth": 2}).ok().json["entries"]
    assert sorted(e["path"] for e in listed) == ["/home/user/fs/a", "/home/user/fs/a/b", "/home/user/fs/a/f"]
    assert len(envd.rpc(f"{fs}/ListDir", {"path": "fs"}).ok().json["entries"]) == 1
    assert envd.rpc(f"{fs}/ListDir", {"path": "fs/a/f"}).ok(400).json["code"] == "invalid_argument"
    assert envd.rpc(f"{fs}/ListDir", {"path": "fs/none"}).ok(404).json["code"] == "not_found"
    moved = envd.rpc(f"{fs}/Move", {"source": "fs/a/f", "destination": "fs/new/g"}).ok().json["entry"]
    assert moved["path"] == "/home/user/fs/new/g"
    assert envd.rpc(f"{fs}/Move", {"source": "fs/a/f", "destination": "fs/h"}).ok(404).json["code"] == "not_found"
    for _ in range(2):  # what is not there is removed already
        assert envd.rpc(f"{fs}/Remove", {"path": "fs"}).ok().json == {}
    envd.stat("fs").ok(404)


def test_a_watcher_that_is_asked(envd):
    fs = "filesystem.Filesystem"
    envd.rpc(f"{fs}/MakeDir", {"path": "asked/sub"}).ok()
    watcher = envd.rpc(f"{fs}/CreateWatcher", {"path": "asked", "recursive": True}).ok().json
    write(envd, "asked/sub/one", b"1")
    events = envd.rpc(f"{fs}/GetWatcherEvents", watcher).ok().json["events"]
    assert {"name": "sub/one", "type": "EVENT_TYPE_WRITE"} in events or {
        "name": "sub/one",
        "type": "EVENT_TYPE_CREATE",
    } in events
    assert envd.rpc(f"{fs}/GetWatcherEvents", watcher).ok().json["events"] == []
    envd.rpc(f"{fs}/RemoveWatcher", watcher).ok()
    assert envd.rpc(f"{fs}/GetWatcherEvents", watcher).ok(404).json["code"] == "not_found"
    for bad in ("", "x", "../../alive:/", "zz:/", "a" * 64 + ":/"):
        assert envd.rpc(f"{fs}/GetWatcherEvents", {"watcherId": bad}).ok(404).json["code"] == "not_found"
    envd.rpc(f"{fs}/CreateWatcher", {"path": "none"}).ok(404)


def test_a_stream_of_changes(envd):
    envd.rpc("filesystem.Filesystem/MakeDir", {"path": "watched"}).ok()
    with envd.stream("filesystem.Filesystem/WatchDir", {"path": "watched"}) as stream:
        assert stream.status == 200 and stream.next() == (0, {"start": {}})
        write(envd, "watched/new", b"x")
        event = stream.until(lambda m: m.get("filesystem", {}).get("name") == "new")
        assert event["filesystem"]["type"] in ("EVENT_TYPE_CREATE", "EVENT_TYPE_WRITE")
    with envd.stream("filesystem.Filesystem/WatchDir", {"path": "nowhere"}) as stream:
        assert stream.status == 200 and stream.next()[1]["error"]["code"] == "not_found"


# --- hostile -------------------------------------------------------------------------------------


def test_what_is_no_call_is_refused(envd, service):
    assert envd.rpc("filesystem.Filesystem/Nothing").ok(501).json["code"] == "unimplemented"
    envd.client.get("/filesystem.Filesystem/Stat").ok(404)
    envd.client.post("/filesystem.Filesystem/Stat", b"{}", headers={"Content-Type": "application/proto"}).ok(415)
    envd.client.post("/filesystem.Filesystem/WatchDir", {}).ok(415)
    json_type = {"Content-Type": "application/json; charset=utf-8"}
    assert envd.client.post("/filesystem.Filesystem/Stat", b"{", headers=json_type).ok(400).json["code"] == "invalid_argument"
    for message in ({"path": 7}, {"path": {}}, {"path": "a" * 9000}, {"path": "\0"}):
        assert envd.rpc("filesystem.Filesystem/Stat", message).status in (200, 400, 404, 500), message
    whole = frame({"path": "/"})
    for raw in (b"", b"\0", whole[:-1], whole + b"x", whole + whole, b"\1" + whole[1:], b"\0\xff\xff\xff\xff", frame(b"{")):
        answer = envd.client.post("/filesystem.Filesystem/WatchDir", raw, headers={"Content-Type": STREAM}).ok(200)
        ((flags, end),) = frames(answer.body)
        assert flags == 2 and end["error"]["code"] in ("invalid_argument", "resource_exhausted", "unimplemented"), (raw, end)
    for headers in (
        {"E2b-Sandbox-Id": "../../../x"},
        {"E2b-Sandbox-Id": "aaaaaaaaaa", "X-Access-Token": "aaaaaaaaaa_" + "0" * 32},
        {"E2b-Sandbox-Id": ""},
        {"E2b-Sandbox-Id": "aaaaaaaaaa"},
        {"X-Access-Token": ""},
        {"X-Access-Token": "x" * 5000},
    ):
        envd.client.get("/health", headers=headers).ok(401)
    for port in ("0", "22", "99999", "x"):
        envd.client.get("/health", headers={"E2b-Sandbox-Port": port}).ok(404)
    envd.client.get("/health", headers={"Authorization": "Basic !!"}).ok(401)
    envd.client.post("/init", {"accessToken": "mine"}).ok(403)
    envd.client.get("/health", headers={"Origin": "http://evil.example"}).ok(403)
    assert json.loads(envd.client.get("/metrics").ok().body)["cpu_count"] >= 1


def test_a_token_is_no_key(service, box):
    token = box["envdAccessToken"]
    service.client(token).get("/sandboxes").ok(401)
    stranger = service.stranger(headers={"X-Access-Token": token})
    stranger.get("/sandboxes").ok(401)
    stranger.get("/health").ok(204)  # it names its sandbox: connect of 2.9 tells nothing else
    assert token not in service.log() and token not in (service.state / "audit.log").read_text()


def test_the_code_interpreter_refuses(envd):
    port = {"E2b-Sandbox-Port": "49999", "Content-Type": "application/json"}
    for body, status in (
        ({}, 400),
        ({"code": 1}, 400),
        ({"code": "1", "language": "r"}, 400),
        ({"code": "1", "context_id": "../x"}, 404),
        ({"code": "1", "context_id": "0" * 15}, 404),
        (b"[", 400),
    ):
        assert envd.client.post("/execute", body, headers=port).ok(status).json["message"]
    envd.client.post("/execute", {"code": "1"}, headers={**port, "X-Access-Token": "x"}).ok(401)


def test_figures_and_tables_come_with_their_data(envd):
    modules = ("ipykernel", "matplotlib", "pandas")
    missing = [name for name in modules if subprocess.run(["/usr/bin/python3", "-c", f"import {name}"], capture_output=True).returncode]
    if missing:
        pytest.skip(f"the Python of this machine, which jails have, has no {' and no '.join(missing)}")

    def result(code):
        answer = envd.client.post("/execute", {"code": code}, headers={"E2b-Sandbox-Port": "49999"}).ok()
        return next(event for event in map(json.loads, answer.text.splitlines()) if event["type"] == "result")

    figure = result("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='up')\nplt.show()")
    assert figure["png"] and figure["chart"]["elements"] == [{"label": "up", "points": [[1, 3], [2, 4]]}]
    table = result("import pandas\npandas.DataFrame({'a': [1, float('nan')], 'b': ['x', None]})")
    assert table["data"] == {"a": [1, None], "b": ["x", None]} and "<table" in table["html"]
    crowd = result("plt.plot(range(100001))\nplt.show()")
    assert crowd["png"] and "chart" not in crowd


def test_contexts(envd):
    port = {"E2b-Sandbox-Port": "49999"}

    def contexts():
        return [(one["id"], one["cwd"]) for one in envd.client.get("/contexts", headers=port).ok().json]

    assert contexts() == [("default", "/home/user")]
    made = envd.client.post("/contexts", {"cwd": "/tmp"}, headers=port).ok().json
    assert made["language"] == "python" and contexts()[1:] == [(made["id"], "/tmp")]
    for language in ("javascript", "bash", "r"):
        answer = envd.client.post("/contexts", {"language": language}, headers=port).ok(400)
        assert language in answer.json["message"]
    assert "nowhere" in envd.client.post("/contexts", {"cwd": "/nowhere"}, headers=port).ok(400).json["message"]
    envd.client.post(f"/contexts/{made['id']}/restart", headers=port).ok(204)
    assert contexts()[1:] == [(made["id"], "/tmp")]
    envd.client.delete(f"/contexts/{made['id']}", headers=port).ok(204)
    envd.client.post("/contexts/default/restart", headers=port).ok(204)
    assert contexts() == [("default", "/home/user")]
    for method, path in (
        ("DELETE", f"/contexts/{made['id']}"),
        ("POST", f"/contexts/{made['id']}/restart"),
        ("POST", "/contexts/../restart"),
        ("DELETE", "/contexts/main"),
        ("DELETE", "/contexts/"),
        ("GET", "/contexts/default"),
        ("POST", "/contexts/default/restart/x"),
    ):
        assert envd.client.request(method, path, headers=port).ok(404).json["message"], path
    assert envd.client.post("/execute", {"code": "1", "context_id": made["id"]}, headers=port).ok(404)


# --- processes -----------------------------------------------------------------------------------


def test_a_command(envd):
    done = envd.run("echo out; echo err >&2; exit 3")
    assert (done.out, done.err, done.trailer) == (b"out\n", b"err\n", {}) and done.pid > 0
    assert done.end == {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}
    done = envd.run("kill -9 $$")
    assert done.end["exitCode"] == -1 and done.end["exited"] is False and done.end["status"] == "signal: killed"
    done = envd.run("echo $X $Y; pwd", process={"envs": {"Y": "2"}, "cwd": "/tmp"})
    assert done.out == b"1 2\n/tmp\n"
    done = envd.run("sleep 30", headers={"Connect-Timeout-Ms": "300"})
    assert done.trailer["error"]["code"] == "deadline_exceeded"
    for bad in ({"cmd": ""}, {"cmd": "/none/such"}, {"cwd": "/none/such"}, {"args": [1]}, {"envs": {"A": 1}}):
        done = envd.run("true", process=bad)
        assert done.trailer["error"]["code"] == "invalid_argument", (bad, done.items)


def test_a_process_lives_on_without_who_started_it(envd):
    message = {"process": {"cmd": "cat"}, "tag": "kept"}
    with envd.stream("process.Process/Start", message) as stream:
        pid = stream.next()[1]["event"]["start"]["pid"]
    listed = envd.rpc("process.Process/List").ok().json["processes"]
    assert [(one["pid"], one["tag"], one["config"]["cmd"]) for one in listed if one.get("tag")] == [(pid, "kept", "cat")]
    with envd.stream("process.Process/Connect", {"process": {"tag": "kept"}}) as stream:
        assert stream.next()[1]["event"]["start"]["pid"] == pid
        typed = base64.b64encode(b"typed").decode()
        envd.rpc("process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": typed}}).ok()
        assert stream.until(lambda m: "data" in m.get("event", {}))["event"]["data"]["stdout"] == typed
        envd.rpc("process.Process/CloseStdin", {"process": {"pid": pid}}).ok()
        assert stream.until(lambda m: "end" in m.get("event", {}))["event"]["end"]["status"] == "exit status 0"
    for method, more in (("SendSignal", {"signal": "SIGNAL_SIGKILL"}), ("SendInput", {"input": {"stdin": "eA=="}})):
        answer = envd.rpc(f"process.Process/{method}", {"process": {"pid": pid}, **more})
        assert answer.ok(404).json["code"] == "not_found"
    with envd.stream("process.Process/Connect", {"process": {"pid": pid}}) as stream:  # it has just ended
        assert "end" in [item for item in stream][1][1]["event"]


def test_a_stream_of_input(envd):
    with envd.stream("process.Process/Start", {"process": {"cmd": "cat"}}) as out:
        pid = out.next()[1]["event"]["start"]["pid"]
        data = {"data": {"input": {"stdin": base64.b64encode(b"12").decode()}}}
        raw = frame({"start": {"process": {"pid": pid}}}) + frame(data) + frame({"keepalive": {}}) + frame(data)
        with envd.stream("process.Process/StreamInput", raw=raw) as stream:
            assert list(stream) == [(0, {}), (2, {})]
        for bad in (frame(data), frame({"start": {"process": {}}}), raw + b"\0\0", frame(b"[")):
            with envd.stream("process.Process/StreamInput", raw=bad) as stream:
                assert list(stream)[-1][1]["error"]["code"] == "invalid_argument"
        envd.rpc("process.Process/CloseStdin", {"process": {"pid": pid}}).ok()
        done = [message["event"] for flags, message in out if flags == 0]
        data = [base64.b64decode(event["data"]["stdout"]) for event in done if "data" in event]
        assert b"".join(data) == 4 * b"12", "what came whole was typed, also before an envelope that is cut short"
        assert done[-1]["end"]["status"] == "exit status 0"


def test_a_terminal(envd):
    message = {"process": {"cmd": "/bin/bash", "args": ["-i"]}, "pty": {"size": {"cols": 80, "rows": 24}}}
    with envd.stream("process.Process/Start", message) as stream:
        pid = stream.next()[1]["event"]["start"]["pid"]
        size = {"process": {"pid": pid}, "pty": {"size": {"cols": 101, "rows": 31}}}
        envd.rpc("process.Process/Update", size).ok()
        typed = base64.b64encode(b"stty size; exit\n").decode()
        envd.rpc("process.Process/SendInput", {"process": {"pid": pid}, "input": {"pty": typed}}).ok()
        seen = b""
        for _, message in stream:
            seen += base64.b64decode(message.get("event", {}).get("data", {}).get("pty", ""))
        assert b"31 101" in seen


def test_a_quiet_stream_says_that_it_lives(envd):
    headers = {"Keepalive-Ping-Interval": "1"}
    message = {"process": {"cmd": "sleep", "args": ["30"]}}
    with envd.stream("process.Process/Start", message, headers=headers) as stream:
        pid = stream.next()[1]["event"]["start"]["pid"]
        stream.until(lambda m: "keepalive" in m.get("event", {}))
        envd.rpc("process.Process/SendSignal", {"process": {"pid": pid}, "signal": 9}).ok()
        assert stream.until(lambda m: "end" in m.get("event", {}))["event"]["end"]["exitCode"] == -1
    for bad in ({}, {"process": {"pid": 1 << 40}}, {"process": {"tag": "none"}}, {"process": {"tag": "x" * 500}}):
        assert envd.rpc("process.Process/CloseStdin", bad).status in (400, 404), bad
        answer = envd.rpc("process.Process/SendSignal", {"signal": "SIGNAL_SIGKILL", **bad})
        assert answer.json["code"] in ("invalid_argument", "not_found")


def test_a_port_by_the_token_for_its_traffic(service, box, envd):
    server = {"process": {"cmd": "python3", "args": ["-m", "http.server", "8123", "--bind", "127.0.0.1"], "cwd": "/tmp"}}
    with envd.stream("process.Process/Start", server) as stream:
        pid = stream.next()[1]["event"]["start"]["pid"]
        write(envd, "/tmp/page", b"from inside")
        stranger = service.stranger(headers={"Host": f"8123-{box['sandboxID']}.{box['domain']}"})
        token = {"E2b-Traffic-Access-Token": box["trafficAccessToken"]}
        eventually(lambda: stranger.get("/page", headers=token).status == 200, "the server listens")
        assert stranger.get("/page", headers=token).ok().body == b"from inside"
        for wrong in ({}, {"E2b-Traffic-Access-Token": box["envdAccessToken"]}):
            stranger.get("/page", headers=wrong).ok(401)
        envd.rpc("process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}).ok()


def test_ports_are_public_where_the_operator_lets_them(make_service, jail_works, alice):
    service = make_service(settings={"public_previews": "true"}).start()
    carol = service.tenant("carol")
    server = {"process": {"cmd": "python3", "args": ["-m", "http.server", "8123", "--bind", "127.0.0.1"], "cwd": "/tmp"}}

    def make(network=None):
        made = create(carol, timeout=600, **({} if network is None else {"network": network}))
        with Envd(service, made).stream("process.Process/Start", server) as stream:
            stream.next()
        token = {"E2b-Traffic-Access-Token": made["trafficAccessToken"]}
        eventually(lambda: port(service, made, **token).get("/").status == 200, "the server listens")
        return made

    usual, private = make(), make({"allowPublicTraffic": False})
    door = port(service, usual)
    assert door.get("/").status == 200  # as the vendor has it where nobody says
    assert port(service, usual, **{"E2b-Traffic-Access-Token": "wrong"}).get("/").status == 401
    assert port(service, private).get("/").status == 401
    for behind in (49983, 49999, 50005):
        host = {"Host": f"{behind}-{usual['sandboxID']}.{usual['domain']}"}
        assert service.stranger(headers=host).get("/mcp").status == 401, behind
    # It is the tenant's own to open and to close, and it stays so when the sandbox is forked.
    path = f"/sandboxes/{usual['sandboxID']}"
    fork = carol.post(f"{path}/fork", {}).ok(201).json[0]["sandbox"]
    assert port(service, fork).get("/").status == 502, "open, and no server"
    carol.put(f"{path}/network", {"allowPublicTraffic": False}).ok(204)
    assert door.get("/").status == 401
    carol.put(f"{path}/network", {}).ok(204)
    assert door.get("/").status == 401
    carol.put(f"{path}/network", {"allowPublicTraffic": True}).ok(204)
    assert door.get("/").status == 200
    carol.post(f"{path}/pause", {}).ok(204)
    assert door.get("/").ok(502).json["code"] == 502 and state(carol, usual) == "paused"
    # The operator has the last word, about those that are there as well.
    carol.post(f"{path}/connect", {"timeout": 600}).ok(201)
    service.settings["public_previews"] = "false"
    service.restart()
    door.close()
    assert port(service, usual).get("/").status == 401
    before = len(alice.get("/sandboxes").ok().json)
    answer = alice.post("/sandboxes", {"templateID": "base", "network": {"allowPublicTraffic": True}}).ok(403)
    assert "service.public_previews" in answer.json["message"] and len(alice.get("/sandboxes").ok().json) == before

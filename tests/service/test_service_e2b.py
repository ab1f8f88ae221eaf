"""The surface of E2B on the wire: control plane and files, without any SDK."""

import json
import re
import shlex
import time
from urllib.parse import quote, urlencode

import pytest
import yaml

from e2b_wire import Envd, create, kill, multipart, read, write
from native import at
from openapi_document import routes_of
from services import eventually
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


def test_a_token_is_no_key(service, box):
    token = box["envdAccessToken"]
    service.client(token).get("/sandboxes").ok(401)
    stranger = service.stranger(headers={"X-Access-Token": token})
    stranger.get("/sandboxes").ok(401)
    stranger.get("/health").ok(204)  # it names its sandbox: connect of 2.9 tells nothing else
    assert token not in service.log() and token not in (service.state / "audit.log").read_text()


# --- ports ---------------------------------------------------------------------------------------


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

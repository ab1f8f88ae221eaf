"""What runs in a sandbox of E2B's surface, on the wire: files, watchers, processes, cells."""

import base64
import gzip
import hashlib
import json
import subprocess
import time
import zlib
from urllib.parse import quote, urlencode

import jsonschema
import pytest
import yaml

from e2b_wire import STREAM, Envd, create, frame, frames, kill, multipart, read, write
from services import measured, memory
from trees import ROOT


@pytest.fixture(scope="module")
def alice(service):
    return service.tenant("alice", "--e2b")


@pytest.fixture(scope="module")
def box(alice):
    return create(alice, timeout=3600, metadata={"team": "blue"}, envVars={"X": "1"})


@pytest.fixture(scope="module")
def envd(service, box):
    return Envd(service, box)


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


def test_a_link_can_be_read_in_one_way_only(service, box):
    link, stranger = signed(box["envdAccessToken"], "x:write:root", "read"), service.stranger()
    stranger.get(link).ok(404)
    link = link.replace(quote("x:write:root"), "x") + "&username=" + quote("root:read:")
    body, headers = multipart([("file", "x", b"put by a link for reading")])
    stranger.post(link, body, headers=headers).ok(401)


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


# --- cells ---------------------------------------------------------------------------------------


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

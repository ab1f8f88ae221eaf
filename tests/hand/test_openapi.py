"""docs/openapi.yaml and the server agree: on the routes, and on what the answers look like."""

import json
import re
import subprocess

import jsonschema
import pytest
import yaml

from harness import ROOT, free_port
from streams import Events, Terminal, url

METHODS = {"get", "post", "put", "delete", "patch", "head", "options", "trace"}
# What the HTTP server itself answers on any route, as the description says.
ANYWHERE = {400, 405, 408, 413, 414, 431, 500, 501, 503, 505}


class Api:
    """The file, with its references resolved where they are used."""

    def __init__(self):
        self.file = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node and node["$ref"].startswith("#/"):
            rest = {k: v for k, v in node.items() if k != "$ref"}
            target = self.file
            for part in node["$ref"][2:].split("/"):
                target = target[part]
            node = {**target, **rest}
        return node

    def operations(self):
        for path, item in self.file["paths"].items():
            for method in METHODS & set(item):
                yield method, path, item[method], item.get("parameters", [])

    def operation(self, method, target):
        """The one that answers a request, literal paths before patterns."""
        path = target.split("?")[0]
        found = []
        for m, pattern, operation, _ in self.operations():
            if m == method.lower() and re.fullmatch(re.sub(r"{\w+}", "[^/]+", pattern), path):
                found.append((pattern.count("{"), pattern, operation))
        assert found, f"{method} {path} is in no path of the file"
        return min(found, key=lambda f: f[0])[2]

    def validate(self, schema, value):
        # The whole file is the root, so that references find their targets.
        jsonschema.Draft202012Validator({**self.file, **schema}).validate(value)

    def check(self, method, target, reply):
        """A real answer: status, type, headers and body are what the file says."""
        responses = self.operation(method, target)["responses"]
        if str(reply.status) not in responses and reply.status in ANYWHERE:
            self.validate({"$ref": "#/components/schemas/Error"}, reply.json)
            return
        assert str(reply.status) in responses, f"{method} {target}: {reply}"
        response = self.resolve(responses[str(reply.status)])
        for name, header in response.get("headers", {}).items():
            value = reply.headers.get(name)
            if value is None:
                continue
            schema = self.resolve(self.resolve(header)["schema"])
            self.validate(schema, int(value) if schema.get("type") == "integer" else value)
        content = response.get("content")
        if not content:
            assert reply.body == b"", f"{method} {target}: a body the file does not know: {reply}"
            return
        kind = reply.headers["content-type"].split(";")[0]
        assert kind in content, f"{method} {target}: {kind} is not one of {sorted(content)}"
        if kind == "application/json":
            self.validate(content[kind]["schema"], reply.json)

    def events(self, path):
        content = self.file["paths"][path]["get"]["responses"]["200"]["content"]
        return content["text/event-stream"]["x-events"]

    def check_event(self, path, event):
        known = self.events(path)
        assert event.kind in known, event
        self.validate(known[event.kind], event.data)


@pytest.fixture(scope="module")
def api():
    return Api()


@pytest.fixture
def call(api, shared):
    """Sends a request and holds the answer against the file."""

    def send(method, target, body=None, status=None, headers=None, client=None):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers = {"Content-Type": "application/json", **(headers or {})}
        reply = (client or shared).request(method, target, body, headers)
        api.check(method, target, reply)
        if status is not None:
            assert reply.status == status, f"{method} {target}: {reply}"
        return reply

    return send


# --- the file ------------------------------------------------------------------------------------


def test_every_route_is_in_the_file_and_no_other(api, call):
    routes = call("GET", "/v1/routes", status=200).json["routes"]
    served = {(r["method"].lower(), r["path"]) for r in routes}
    assert len(served) == len(routes), "a route twice"
    assert served == {(method, path) for method, path, _, _ in api.operations()}


def test_open_routes_are_open_in_the_file(api, call):
    open_ones = {
        (r["method"].lower(), r["path"])
        for r in call("GET", "/v1/routes").json["routes"]
        if r["open"]
    }
    assert open_ones == {
        (method, path) for method, path, o, _ in api.operations() if o.get("security") == []
    }


def test_the_file_is_sound(api):
    assert api.file["openapi"].startswith("3.1")

    def walk(node):
        if isinstance(node, dict):
            if "$ref" in node:
                api.resolve(node)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(api.file)
    for schema in api.file["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    seen = set()
    for method, path, operation, shared_parameters in api.operations():
        where = f"{method} {path}"
        assert operation["operationId"] not in seen, where
        seen.add(operation["operationId"])
        assert operation["summary"] and operation["responses"], where
        assert set(operation["tags"]) <= {t["name"] for t in api.file["tags"]}, where
        parameters = [api.resolve(p) for p in shared_parameters + operation.get("parameters", [])]
        in_path = {p["name"] for p in parameters if p["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path)), where
        assert all(p["required"] for p in parameters if p["in"] == "path"), where
        assert all("schema" in p for p in parameters), where
        for response in operation["responses"].values():
            assert api.resolve(response)["description"], where
        if operation.get("security") != []:
            assert "403" in operation["responses"], where


def test_every_schema_is_used(api):
    text = (ROOT / "docs" / "openapi.yaml").read_text()
    for kind, members in api.file["components"].items():
        if kind != "securitySchemes":
            for name in members:
                assert f'"#/components/{kind}/{name}"' in text, f"{kind}/{name} is used nowhere"


def test_the_manual_names_every_route(api):
    manual = (ROOT / "docs" / "api.md").read_text()
    for method, path, _, _ in api.operations():
        assert f"{method.upper()} {path}" in manual, f"{method} {path} is not in api.md"


# --- answers -------------------------------------------------------------------------------------


def test_openhands_routes(call, ws):
    call("GET", "/alive", status=200)
    call("GET", "/server_info", status=200)
    call("GET", "/proof?nonce=" + "0" * 64, status=409)
    call("GET", "/proof", status=422)
    call("GET", "/vscode/connection_token", status=200)
    call("POST", "/update_mcp_server", {}, 400)
    call("POST", "/update_mcp_server", [1], 500)
    call("POST", "/update_mcp_server", [], 200)
    for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/messages/")):
        call(method, path, status=404)
    call("POST", "/v1/mcp/gateway", status=501)  # this machine is no sandbox
    call("POST", "/list_files", {"path": str(ws)}, 200)
    call("POST", "/list_files", b"{", 500)
    call("GET", url("/download_files", path=ws), status=200)
    call("GET", "/download_files", status=422)
    call("GET", "/download_files?path=/none/such", status=500)
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nx\r\n--b--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    call("POST", url("/upload_file", destination=ws), form, 200, kind)
    call("POST", url("/upload_file", destination="x"), form, 500, kind)
    call("POST", url("/upload_file", destination=ws), b"", 422)
    call("POST", url("/upload_file", destination=ws), b"x", headers={"Content-Type": "text/plain"})


def test_actions(api, call, ws):
    path = str(ws / "file")
    for action in [
        {"action": "run", "args": {"command": "echo hi"}},
        {"action": "run", "args": {"command": "(exit 139)"}},
        {"action": "run", "args": {"command": "seq 1 50000"}, "timeout": 20},
        {"action": "run", "args": {"command": "a\nb"}},
        {"action": "run", "args": {"command": ""}},
        {"action": "run", "args": {"command": "sleep 0.5", "is_static": True, "hidden": True}},
        {"action": "write", "args": {"path": path, "content": "one"}},
        {"action": "read", "args": {"path": path}},
        {"action": "read", "args": {"path": "/none/such"}},
        {"action": "read", "args": {"path": path, "impl_source": "oh_aci", "view_range": [1, 1]}},
        {"action": "edit", "args": {"command": "view", "path": path}},
        {
            "action": "edit",
            "args": {"command": "str_replace", "path": path, "old_str": "one", "new_str": "two"},
        },
        {"action": "edit", "args": {"command": "view", "path": "/none/such"}},
    ]:
        api.validate({"$ref": "#/components/schemas/Action"}, action)
        call("POST", "/execute_action", {"action": action}, 200)
    call("POST", "/execute_action", {}, 422)
    call("POST", "/execute_action", b"{", 422)
    call("POST", "/execute_action", {"action": {"action": "nonsense"}}, 500)
    for _ in range(2):
        reply = call(
            "POST",
            "/execute_action",
            {"action": {"action": "run", "args": {"command": "echo once"}}},
            200,
            {"Idempotency-Key": path},
        )
    assert reply.headers["idempotency-replayed"] == "true"


def test_session_routes(call, shared, ws):
    name = ws.name
    call("GET", "/v1/sessions", status=200)
    call("POST", "/v1/sessions", {"name": name, "cwd": str(ws)}, 201)
    call("POST", "/v1/sessions", {"name": name}, 409)
    call("POST", "/v1/sessions", {"name": "/"}, 400)
    call("POST", "/v1/sessions", {}, 422)
    call("GET", f"/v1/sessions/{name}", status=200)
    call("GET", "/v1/sessions/nobody", status=404)
    call("POST", f"/v1/sessions/{name}/signal", {"signal": "INT"}, 409)
    call("POST", f"/v1/sessions/{name}/signal", {}, 422)
    shared.run("sleep 60", session=name, timeout=0.3)
    call("GET", f"/v1/sessions/{name}", status=200)
    call("POST", f"/v1/sessions/{name}/signal", {"signal": "INT"}, 200)
    call("POST", f"/v1/sessions/{name}/kill", status=200)
    call("POST", f"/v1/sessions/{name}/reset", status=200)
    call("POST", "/v1/sessions/nobody/kill", status=404)
    call("POST", "/v1/sessions/nobody/reset", status=404)
    call("GET", f"/v1/sessions/{name}/commands", status=200)
    call("GET", f"/v1/sessions/{name}/terminal", status=400)
    call("GET", f"/v1/sessions/{name}/terminal?offset=x", status=422)
    call("GET", f"/v1/sessions/{name}/terminal", headers={"Sec-WebSocket-Version": "8"}, status=426)
    call("GET", "/v1/input", status=400)
    call("GET", "/v1/input", headers={"Sec-WebSocket-Version": "8"}, status=426)
    call("DELETE", f"/v1/sessions/{name}", status=204)
    call("DELETE", f"/v1/sessions/{name}", status=404)
    call("DELETE", "/v1/sessions/main", status=409)


def test_process_routes(api, call):
    def start(args, **spec):
        process = {"args": args, **spec}
        action = {"action": "run", "args": {"command": " ".join(args), "process": process}}
        api.validate({"$ref": "#/components/schemas/Action"}, action)
        return call("POST", "/execute_action", {"action": action}, 200).json

    start(["/none/such"])
    call("POST", "/v1/environment", {"set": {"SOME": "text"}, "unset": ["OTHER"]}, 204)
    call("POST", "/v1/environment", {"set": []}, 422)
    call("POST", "/v1/environment", {"set": {"A=B": "x"}}, 400)
    call("POST", "/v1/environment", {"unset": ["A"] * 4097}, 413)
    path = f"/v1/processes/{start(['sleep', '60'], stdin=True)['extras']['metadata']['process']}"
    call("GET", "/v1/processes", status=200)
    call("GET", "/v1/processes?pty=x", status=422)
    call("GET", path, status=200)
    call("GET", path + "?wait=1", status=200)
    call("GET", path + "?wait=x", status=422)
    call("GET", "/v1/processes/none", status=404)
    call("GET", path + "/output", status=200)
    call("GET", path + "/output?stdout=x", status=422)
    call("GET", "/v1/processes/none/output", status=404)
    call("POST", path + "/input?offset=0", b"x", 200)
    call("POST", path + "/input?offset=9", b"x", 409)
    call("POST", path + "/input?offset=x", b"x", 422)
    call("POST", "/v1/processes/none/input", b"x", 404)
    call("DELETE", path + "/input", status=200)
    call("DELETE", "/v1/processes/none/input", status=404)
    call("POST", path + "/input", b"x", 410)
    call("POST", path + "/size", {"columns": 80, "rows": 24}, 409)
    call("POST", path + "/size", {}, 422)
    call("POST", "/v1/processes/none/size", {"columns": 80, "rows": 24}, 404)
    call("POST", path + "/signal", {"signal": "TERM"}, 200)
    call("POST", path + "/signal", {"signal": "x"}, 422)
    call("POST", "/v1/processes/none/signal", {"signal": 1}, 404)
    call("GET", path + "?wait=60", status=200)
    call("POST", path + "/signal", {"signal": "TERM"}, 410)
    call("DELETE", path, status=204)
    call("DELETE", path, status=404)
    path = f"/v1/processes/{start(['cat'], pty=True)['extras']['metadata']['process']}"
    call("POST", path + "/size", {"columns": 80, "rows": 24}, 200)
    call("DELETE", path + "/input", status=200)
    call("DELETE", path, status=204)


def test_output_route(api, call, shared):
    ident = shared.run("seq 1 20000").meta["command_id"]
    path = "/v1/commands/{id}/output"
    target = f"/v1/commands/{ident}/output"
    call("GET", target, status=200)
    call("GET", target + "?offset=x", status=422)
    call("GET", "/v1/commands/none/output", status=404)
    with Events(shared, target, follow=1) as events:
        seen = events.rest()
    assert {e.kind for e in seen} == {"output", "end"}
    for event in seen:
        api.check_event(path, event)


def test_cell_route(call):
    call("GET", "/v1/cells/some/output", status=404)  # a hand without kernels
    call("DELETE", "/v1/cells/some", status=404)


def test_terminal_messages(api, shared):
    messages = api.operation("GET", "/v1/sessions/main/terminal")["x-messages"]
    resize = {"type": "resize", "columns": 80, "rows": 24}
    api.validate(messages["resize"], resize)
    with Terminal(shared) as t:
        seen = []
        while len(seen) < 2:
            opcode, data = t.ws.recv_data()
            if opcode == 1:
                seen.append(json.loads(data))
                if len(seen) == 1:
                    t.send(resize)
                    t.send({"type": "resize", "columns": 0, "rows": 0})
    assert [m["type"] for m in seen] == ["hello", "error"]
    for message in seen:
        api.validate(messages[message["type"]], message)


def test_file_routes(call, ws):
    file, content = ws / "file", url("/v1/files/content", path=ws / "file")
    call("PUT", content, b"0123456789", 201)
    call("PUT", content, b"0123456789", 204)
    call("PUT", url("/v1/files/content", path=ws), b"", 409)
    call("PUT", url("/v1/files/content", path=file, mode="x"), b"", 422)
    call("PUT", url("/v1/files/content", path="/proc/none"), b"", 404)
    call("GET", content, status=200)
    call("GET", content, headers={"Range": "bytes=2-3"}, status=206)
    call("GET", content, headers={"Range": "bytes=99-"}, status=416)
    call("GET", url("/v1/files/content", path=ws), status=409)
    call("GET", url("/v1/files/content", path=ws / "no"), status=404)
    call("GET", "/v1/files/content", status=422)
    call("GET", "/v1/files/content?path=/proc/self/environ", status=403)
    (ws / "link").symlink_to("file")
    (ws / "loop").symlink_to("loop")
    for name in ("file", "link", ""):
        call("GET", url("/v1/files/stat", path=ws / name), status=200)
    call("GET", url("/v1/files/stat", path=ws / "no"), status=404)
    call("GET", url("/v1/files/stat", path=ws / "loop" / "x"), status=400)
    call("GET", "/v1/files/stat", status=422)
    page = call("GET", url("/v1/files/list", path=ws, limit=1), status=200).json
    call("GET", url("/v1/files/list", path=ws, after=page["next"]), status=200)
    call("GET", url("/v1/files/list", path="/dev"), status=200)
    call("GET", url("/v1/files/list", path=file), status=409)
    call("GET", url("/v1/files/list", path=ws, limit=0), status=422)
    call("POST", "/v1/files/directory", {"path": str(ws / "d")}, 204)
    call("POST", "/v1/files/directory", {"path": str(file)}, 409)
    call("POST", "/v1/files/directory", {}, 422)
    call("POST", "/v1/files/directory", {"path": str(ws / "d"), "mode": "x"}, 422)
    call("POST", url("/v1/files/symlink", path=ws / "new", target="file"), status=204)
    call("POST", url("/v1/files/symlink", path=ws / "d", target="file"), status=409)
    call("POST", url("/v1/files/symlink", path=ws / "no" / "new", target="file"), status=404)
    call("POST", url("/v1/files/symlink", path=ws / "new"), status=422)
    call("POST", "/v1/files/links", {"names": ["link", str(ws / "loop"), "/proc/self/cwd/link", "/dev/stdin"]}, 200)
    call("POST", "/v1/files/links", {"names": []}, 422)
    call("POST", "/v1/files/move", {"from": str(file), "to": str(ws / "d" / "f")}, 204)
    call("POST", "/v1/files/move", {"from": str(file), "to": str(ws / "x")}, 404)
    call("POST", "/v1/files/move", {"from": str(ws / "d"), "to": str(ws / "d" / "x")}, 409)
    call("POST", "/v1/files/move", {}, 422)
    call("DELETE", url("/v1/files", path=ws / "d"), status=409)
    call("DELETE", url("/v1/files", path=ws / "d", recursive=1), status=204)
    call("DELETE", url("/v1/files", path=ws / "d"), status=404)
    call("DELETE", "/v1/files?path=/", status=422)


def test_watch_route(api, call, shared, ws):
    call("GET", "/v1/files/watch", status=422)
    call("GET", "/v1/files/watch?path=/none/such", status=404)
    (ws / "d").mkdir()
    with Events(shared, "/v1/files/watch", path=ws / "d", recursive=1) as events:
        (ws / "d" / "f").write_text("x")
        (ws / "d" / "f").rename(ws / "d" / "g")
        (ws / "d" / "g").unlink()
        (ws / "d").rmdir()
        seen = events.rest()
    kinds = {e.kind for e in seen}
    assert {"watching", "created", "written", "moved_from", "moved_to", "deleted", "gone"} <= kinds
    for event in seen:
        api.check_event("/v1/files/watch", event)


def test_watcher_routes(call, ws):
    call("POST", "/v1/files/watchers", status=422)
    call("POST", "/v1/files/watchers?path=/none/such", status=404)
    (ws / "d").mkdir()
    watcher = call("POST", url("/v1/files/watchers", path=ws / "d", recursive=1), status=201).json["id"]
    (ws / "d" / "f").write_text("x")
    call("GET", f"/v1/files/watchers/{watcher}")
    call("DELETE", f"/v1/files/watchers/{watcher}", status=204)
    call("DELETE", f"/v1/files/watchers/{watcher}", status=404)
    call("GET", f"/v1/files/watchers/{watcher}", status=404)


def test_tunnel_route(call):
    call("GET", f"/v1/tunnel/{free_port()}", status=426)
    call("GET", "/v1/tunnel/x", status=422)
    upgrade = {"Connection": "Upgrade", "Upgrade": "tendon-tunnel"}
    call("GET", f"/v1/tunnel/{free_port()}", headers=upgrade, status=502)


def test_plugin_routes(call):
    call("GET", "/v1/plugins", status=200)
    call("GET", "/v1/plugins/jupyter", status=200)
    call("GET", "/v1/plugins/nosuch", status=404)
    call("POST", "/v1/plugins/nosuch/start", status=404)
    call("POST", "/v1/plugins/jupyter/start?timeout=x", status=422)
    call("POST", "/v1/plugins/browser/start", status=409)
    call("POST", "/v1/plugins/nosuch/stop", status=404)
    call("POST", "/v1/plugins/jupyter/stop", status=200)


def test_every_route_wants_the_key(api, call, start):
    client = start(env={"SESSION_API_KEY": "secret"}).client
    for method, path, operation, _ in api.operations():
        target = re.sub(r"{\w+}", "1", path)
        reply = call(method.upper(), target, client=client)
        if operation.get("security") == []:
            assert reply.status in (200, 422)
        else:
            assert (reply.status, reply.detail) == (403, "Invalid API Key"), target
    call("GET", "/v1/routes", client=client, headers={"X-Session-API-Key": "secret"}, status=200)


# --- the manual ----------------------------------------------------------------------------------


def test_the_examples_of_the_manual_work(hand):
    """Every block of shell commands in api.md, one after the other, in one shell."""
    text = (ROOT / "docs" / "api.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) > 10
    setup = (
        "set -eu; hand() { curl -sS --fail-with-body --max-time 20 "
        f'--unix-socket {hand.address} "$@"; }}\n'
    )
    script = setup + "\n".join(blocks).replace("/workspace", str(hand.workspace))
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr
    assert b"99999\r\n100000\r\n" in done.stdout
    for line in re.findall(r"^data: .*offset.*$", text, re.M):
        assert line.encode() + b"\n" in done.stdout, "the stream that is shown"


def test_the_examples_of_the_manual_are_complete(api):
    """Each answer in it that is JSON has the keys the file knows."""
    text = (ROOT / "docs" / "api.md").read_text()
    answers = [json.loads(b) for b in re.findall(r"^```json\n(.*?)^```", text, re.M | re.S)]
    kinds = {"detail": "Error", "pid": "Session", "mtime": "Entry"}
    for answer in answers:
        for key, schema in kinds.items():
            if key in answer:
                api.validate({"$ref": f"#/components/schemas/{schema}"}, answer)
        for command in answer.get("commands", []) if "pid" not in answer else []:
            api.validate({"$ref": "#/components/schemas/Command"}, command)

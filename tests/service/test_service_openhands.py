"""OpenHands' RemoteRuntime against the service: its flow, sessions, images, and who gets in."""

import json
import os
import pathlib
import shutil
import signal
import threading
from urllib.parse import urljoin

import pytest

from model import hand_of
from openapi_document import Document, routes_of
from openhands_clients import COMMAND, IMAGE, Disconnected, NotFound, RemoteRuntime, Unavailable
from previews import Visitor
from services import Service, eventually
from trees import ROOT

TEMPLATES = """
[template."example.org/special:1"]
env = {FROM_THE_TEMPLATE = "yes"}
[template.sysbox-runc]
env = {CLASS = "sysbox"}
[template.editor]
volumes = ["EDITORS:/opt/editors:ro"]
env = {TENDON_VSCODE = "/opt/editors/code-server", FAKE_NOTES = "/tmp"}
"""


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    """One that does not wake what is paused: the client sees 503, as with the original."""
    settings = {"resume_on_use": "false"}
    editors = tmp_path_factory.mktemp("editors")
    editors.chmod(0o755)
    shutil.copy(ROOT / "tests/vscode/fake-server", editors / "code-server")
    config = TEMPLATES.replace("EDITORS", str(editors))
    service = Service(tmp_path_factory.mktemp("openhands"), settings=settings, config=config).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def document():
    return Document("openapi-openhands.yaml")


@pytest.fixture
def call(acme, document):
    return document.caller(acme)


@pytest.fixture
def sid(request):
    return f"sid-{request.node.name}"


def start(client, **body):
    return client.post("/start", {"image": IMAGE, "command": COMMAND, **body}).ok().json


def stop(client, runtime):
    client.post("/stop", {"runtime_id": runtime["runtime_id"]}).ok()


def run(client, runtime, command, headers=None):
    action = {"action": {"action": "run", "args": {"command": command}}}
    return client.post(f"/{runtime['runtime_id']}/execute_action", action, headers=headers)


# --- the flow ------------------------------------------------------------------------------------


def test_connect_act_close(service, acme, sid):
    runtime = RemoteRuntime(service, acme.key, sid).connect()
    assert runtime.act("echo $FROM_THE_CLIENT $FROM_SETUP; pwd") == "yes yes\n/workspace"
    runtime.upload("notes.txt", b"hello", "/workspace")
    assert runtime.list_files("/workspace") == ["notes.txt"]
    assert runtime.download("/workspace").startswith(b"PK")
    assert len(runtime.work_hosts) == 2 and set(runtime.work_hosts.values()) == {12000, 12001}
    runtime.close()
    assert acme.get(f"/sessions/{sid}").status == 404
    assert acme.get(f"/runtime/{runtime.runtime_id}").status == 404
    with pytest.raises(Disconnected, match="not responding"):
        runtime.headers.pop("X-Session-API-Key")
        runtime.act("true")


def test_adopt_a_running_one(service, acme, sid):
    first = RemoteRuntime(service, acme.key, sid, keep_alive=True).connect()
    first.act("cd /tmp; KEPT=yes")
    first.close()
    second = RemoteRuntime(service, acme.key, sid).connect()
    assert second.runtime_id == first.runtime_id and "/start" not in [path for _, path, _ in second.calls]
    assert second.act("echo $KEPT; pwd") == "yes\n/tmp"
    second.close()


def test_pause_at_close_and_resume_at_connect(service, acme, sid):
    first = RemoteRuntime(service, acme.key, sid, keep_alive=True, pause_closed=True).connect()
    first.act("KEPT=yes")
    first.close()
    assert acme.get(f"/sessions/{sid}").ok().json["status"] == "paused"
    second = RemoteRuntime(service, acme.key, sid).connect()
    assert ("POST", "/resume", 200) in second.calls
    assert second.act("echo $KEPT") == "yes"
    second.close()


def test_a_paused_runtime_answers_503_until_it_is_resumed(service, acme, sid):
    runtime = RemoteRuntime(service, acme.key, sid, keep_alive=True).connect()
    acme.post("/pause", {"runtime_id": runtime.runtime_id}).ok()
    told = acme.get(f"/runtime/{runtime.runtime_id}").ok().json
    assert (told["status"], told["pod_status"]) == ("paused", "not found")
    assert runtime.inside("GET", "/alive").status == 503
    assert runtime.inside("GET", "/vscode/connection_token").status == 503
    del runtime.calls[:]
    assert runtime.act("echo back") == "back"
    path = f"/{runtime.runtime_id}/execute_action"
    assert [(p, s) for _, p, s in runtime.calls if p in (path, "/resume")] == [
        (path, 503),
        ("/resume", 200),
        (path, 200),  # the environment is set up again
        (path, 200),
    ]
    runtime.keep_alive = False
    acme.post("/pause", {"runtime_id": runtime.runtime_id}).ok()
    with pytest.raises(Disconnected):
        runtime.act("true")
    runtime.close()


def test_attach_to_nothing(service, acme, sid):
    with pytest.raises(NotFound):
        RemoteRuntime(service, acme.key, sid, attach=True).connect()


def test_actions_are_journaled(service, acme, sid):
    runtime = RemoteRuntime(service, acme.key, sid).connect()
    runtime.act("echo journaled")
    key = {"Idempotency-Key": "once"}
    action = {"action": {"action": "run", "args": {"command": "echo x >>once; cat once"}}}
    first = runtime.inside("POST", "/execute_action", action, key).ok()
    again = runtime.inside("POST", "/%65xecute_action", action, key).ok()
    assert first.body == again.body and again.headers["Idempotency-Replayed"] == "true"
    told = service.tendon("--json", "events", runtime.runtime_id)
    commands = [json.loads(line).get("args", {}).get("command") for line in told.stdout.splitlines()]
    assert commands.count("echo journaled") == 1 and commands.count("echo x >>once; cat once") == 1
    runtime.close()


def test_survives_the_service(service, acme, sid):
    runtime = RemoteRuntime(service, acme.key, sid, keep_alive=True).connect()
    runtime.act("KEPT=yes")
    service.restart(kill=True)
    for client in service.clients:
        client.close()
    again = RemoteRuntime(service, acme.key, sid).connect()
    assert again.runtime_id == runtime.runtime_id
    assert again.headers["X-Session-API-Key"] == runtime.headers["X-Session-API-Key"]
    assert again.act("echo $KEPT") == "yes"
    again.close()


# --- sessions ------------------------------------------------------------------------------------


@pytest.mark.concurrent
def test_starting_a_session_twice_is_starting_it_once(acme, sid):
    found, threads = [], []
    for _ in range(4):
        client = acme.service.client(acme.key)
        threads.append(threading.Thread(target=lambda c=client: found.append(start(c, session_id=sid))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len({told["runtime_id"] for told in found}) == 1
    stop(acme, found[0])


def test_start_wakes_what_is_paused_and_stopped(service, acme, sid):
    runtime = start(acme, session_id=sid)
    run(acme, runtime, "echo kept >/workspace/file").ok()
    acme.post("/pause", {"runtime_id": runtime["runtime_id"]}).ok()
    assert start(acme, session_id=sid)["status"] == "running"
    acme.post(f"/v1/sandboxes/{runtime['runtime_id']}/stop").ok()
    told = acme.get(f"/sessions/{sid}").ok().json
    assert (told["status"], told["pod_status"]) == ("stopped", "not found")
    again = start(acme, session_id=sid)
    assert again["runtime_id"] == runtime["runtime_id"] and again["pod_status"] == "ready"
    assert run(acme, again, "cat /workspace/file").ok().json["content"] == "kept"
    stop(acme, again)


def test_a_session_with_another_image(acme, sid):
    runtime = start(acme, session_id=sid)
    refused = acme.post("/start", {"image": "example.org/another", "session_id": sid}).ok(409)
    assert runtime["runtime_id"] in refused.json["detail"]
    acme.post(f"/v1/sandboxes/{runtime['runtime_id']}/stop").ok()
    replaced = start(acme, session_id=sid, image="example.org/another")
    assert replaced["runtime_id"] != runtime["runtime_id"] and replaced["image"] == "example.org/another"
    assert acme.get(f"/runtime/{runtime['runtime_id']}").status == 404
    stop(acme, replaced)


def test_the_same_session_of_two_tenants(acme, other, sid):
    mine, theirs = start(acme, session_id=sid), start(other, session_id=sid)
    assert mine["runtime_id"] != theirs["runtime_id"]
    assert acme.get(f"/sessions/{sid}").json["runtime_id"] == mine["runtime_id"]
    assert other.get(f"/sessions/{sid}").json["runtime_id"] == theirs["runtime_id"]
    stop(acme, mine)
    stop(other, theirs)


def test_without_a_session(acme):
    runtime = start(acme)
    assert runtime["session_id"] is None
    assert runtime["runtime_id"] in [told["runtime_id"] for told in acme.get("/list").ok().json["runtimes"]]
    stop(acme, runtime)


# --- what is asked for -----------------------------------------------------------------------------


def test_images_and_classes_are_templates(acme, service):
    special = start(acme, image="example.org/special:1")
    assert run(acme, special, "echo $FROM_THE_TEMPLATE").json["content"] == "yes"
    stop(acme, special)
    sysbox = start(acme, runtime_class="sysbox-runc", environment={"MORE": "too"})
    assert run(acme, sysbox, "echo $CLASS $MORE").json["content"] == "sysbox too"
    stop(acme, sysbox)
    refused = acme.post("/start", {"image": IMAGE, "runtime_class": "gvisor"}).ok(400)
    assert '[template."gvisor"]' in refused.json["detail"]
    # An image that the jail does not have stands for its own root: the log says so.
    plain = start(acme)
    assert plain["image"] == IMAGE
    assert any(line.get("image") == IMAGE and "not used" in line["message"] for line in service.log_lines())
    stop(acme, plain)


def test_an_image_is_no_path_of_this_machine(acme):
    for image in ("/", "/root", "../..", "file:///etc"):
        runtime = start(acme, image=image)
        assert "workspace" in run(acme, runtime, "ls /").json["content"]
        assert "Permission denied" in run(acme, runtime, "ls /root").json["content"]
        assert run(acme, runtime, "sudo -n ls /root").json["content"] == "" or not shutil.which("sudo")
        stop(acme, runtime)


def test_working_dir_and_resources(acme):
    command = [*COMMAND[: COMMAND.index("--working-dir")], "--working-dir", "/elsewhere/project"]
    runtime = start(acme, command=command, resource_factor=0.5, run_as_user=10001, run_as_group=10001, fs_group=10001)
    assert runtime["resource_factor"] == 0.5
    assert run(acme, runtime, "pwd").json["content"] == "/elsewhere/project"
    stop(acme, runtime)


def words_of(username, uid, *more):
    return ["python", "-m", "openhands.runtime.action_execution_server", "60000", "--working-dir", "/workspace", "--username", username, "--user-id", uid, *more]


@pytest.mark.parametrize("uid", ["1000", "42420", "2"])
def test_the_user_of_the_command(acme, uid):
    """Made inside, with a home, whatever account this machine has under that number."""
    runtime = start(acme, command=words_of("openhands", uid))
    said = run(acme, runtime, "id -un; id -u; echo ~; stat -c %U . ~").json["content"]
    assert said.split() == ["openhands", uid, "/home/openhands", "openhands", "openhands"]
    if shutil.which("sudo"):
        assert run(acme, runtime, "sudo -n id -u").json["content"] == "0"
    stop(acme, runtime)


def test_root_by_the_command(acme):
    runtime = start(acme, command=words_of("root", "0"))
    assert run(acme, runtime, "id -un; id -u; echo ~").json["content"].split() == ["root", "0", "/root"]
    stop(acme, runtime)


def test_plugins_and_browser_of_the_command(acme):
    cell = {"action": {"action": "run_ipython", "args": {"code": "print(6 * 7)"}}}
    page = {"action": {"action": "browse", "args": {"url": "about:blank"}}}
    for more, downloads in ((("--no-enable-browser",), False), ((), True), (("--plugins", "jupyter"), True)):
        runtime = start(acme, command=words_of("openhands", "1000", *more))
        base = f"/{runtime['runtime_id']}"
        listed = acme.post(f"{base}/list_files", {"path": "/workspace"}).ok().json
        assert (".downloads/" in listed) == downloads, (more, listed)
        if not downloads:
            told = acme.post(f"{base}/execute_action", page).json
            assert "Browser functionality is not supported or disabled" in json.dumps(told), told
        if "jupyter" not in more:
            assert "42" not in json.dumps(acme.post(f"{base}/execute_action", cell).json)
        stop(acme, runtime)


def test_a_command_that_makes_no_sense(acme):
    strange = words_of("openhands", "1000", "--plugins", "jupiter")
    for command in (words_of("openhands", "x"), words_of("a:b", "1000"), words_of("openhands", "-1"), strange):
        assert acme.post("/start", {"image": IMAGE, "command": command}).status in (400, 422), command


def test_a_restart_that_fails_keeps_the_files(service, acme, sid, tmp_path):
    """What was there before stays, whatever becomes of it."""
    runtime = start(acme, session_id=sid, runtime_class="editor")
    run(acme, runtime, "echo kept >/workspace/file").ok()
    acme.post(f"/v1/sandboxes/{runtime['runtime_id']}/stop").ok()
    volume = runtime_volume(service)
    moved = volume.rename(volume.with_name("moved"))
    failed = acme.post("/start", {"image": IMAGE, "session_id": sid, "runtime_class": "editor"})
    moved.rename(volume)
    assert failed.status >= 400, failed
    again = start(acme, session_id=sid, runtime_class="editor")
    assert again["runtime_id"] == runtime["runtime_id"]
    assert run(acme, again, "cat /workspace/file").json["content"] == "kept"
    stop(acme, again)


def runtime_volume(service):
    text = (service.base / "config.toml").read_text()
    return pathlib.Path(text.partition('volumes = ["')[2].partition(":")[0])


def test_a_start_that_fails_leaves_nothing(service, acme, sid):
    body = {"image": IMAGE, "session_id": sid, "command": ["x", "--working-dir", "/proc/nothing/here"]}
    with pytest.raises(Unavailable):
        RemoteRuntime(service, acme.key, sid, **body).connect()
    answer = acme.post("/start", body)
    assert answer.status in (400, 422, 500) and answer.json["detail"], answer
    assert acme.get(f"/sessions/{sid}").status == 404
    assert sid not in [runtime["session_id"] for runtime in acme.get("/list").json["runtimes"]]


def test_no_builds_where_no_image_is_needed(call):
    refused = call("POST", "/build", b"x", 501)
    assert "takes no images" in refused.json["detail"]


# --- who gets in -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(acme):
    runtime = start(acme, session_id="shared")
    yield runtime
    stop(acme, runtime)


def test_the_session_key_opens_its_runtime_and_nothing_else(service, acme, shared):
    stranger = service.stranger()
    session = {"X-Session-API-Key": shared["session_api_key"]}
    assert run(stranger, shared, "echo hi", session).ok().json["content"] == "hi"
    assert stranger.get(f"/{shared['runtime_id']}/alive", headers=session).ok()
    second = start(acme)
    assert run(stranger, second, "true", session).status == 401
    for path in ("/list", "/sessions/shared", f"/runtime/{shared['runtime_id']}"):
        assert stranger.get(path, headers=session).status == 401
    stop(acme, second)


def test_the_session_key_is_worth_as_much_as_the_key_it_came_from(service):
    made = service.make_key("short-lived", "--tenant", "brief", "--rate", "5")
    client, stranger = service.client(made["key"]), service.stranger()
    runtime = start(client)
    session = {"X-Session-API-Key": runtime["session_api_key"]}
    alive = f"/{runtime['runtime_id']}/alive"
    answers = [stranger.get(alive, headers=session) for _ in range(40)]
    assert {answer.status for answer in answers} == {200, 429}, "its rate is the key's"
    assert next(answer for answer in answers if answer.status == 429).headers["Retry-After"]
    service.client().delete(f"/v1/keys/{made['id']}").ok(204)
    for method, path in (("GET", alive), ("POST", f"/{runtime['runtime_id']}/execute_action")):
        refused = stranger.request(method, path, headers=session)
        assert refused.status == 401 and "does not count any more" in refused.json["detail"], refused
    webhook = f"/api/v1/webhooks/{runtime['runtime_id']}/conversations"
    refused = stranger.post(webhook, {}, headers=session)
    assert refused.status == 401, refused
    service.client().post("/stop", {"runtime_id": runtime["runtime_id"]}).ok()


def test_keys_that_open_nothing(service, other, shared):
    stranger, path = service.stranger(), f"/{shared['runtime_id']}/alive"
    unknown = "/abcdefghij/alive"
    for headers in ({}, {"X-Session-API-Key": "wrong"}, {"X-Session-API-Key": ""}, {"X-API-Key": "tnk_wrong"}):
        refused, nowhere = stranger.get(path, headers=headers), stranger.get(unknown, headers=headers)
        assert refused.status == nowhere.status == 401 and refused.body == nowhere.body
    # Another tenant's key: as if it were not there.
    refused, nowhere = other.get(path), other.get(unknown)
    assert refused.status == nowhere.status == 404
    assert refused.text.replace(shared["runtime_id"], "abcdefghij") == nowhere.text
    assert other.get(path, headers={"X-Session-API-Key": "wrong"}).status == 404
    # With both, the session key counts: the client sends both.
    assert other.get(path, headers={"X-Session-API-Key": shared["session_api_key"]}).status == 200
    assert stranger.get(path, headers={"X-API-Key": "x", "X-Session-API-Key": shared["session_api_key"]}).status == 200


def test_no_key_of_ours_reaches_the_sandbox(service, acme, shared):
    seen = run(acme, shared, "env; cat /proc/1/environ /proc/self/environ 2>/dev/null | tr '\\0' '\\n'").json["content"]
    assert acme.key not in seen and acme.key.split("_", 2)[2] not in seen


def test_a_key_that_may_only_look(service, acme, shared):
    reader = service.tenant("acme", "--scope", "read")
    told = reader.get("/sessions/shared").ok().json
    assert told["session_api_key"] is None
    assert reader.get(f"/{shared['runtime_id']}/alive").status == 403
    assert run(reader, shared, "true").status == 403
    user = service.tenant("acme", "--scope", "read,use")
    assert run(user, shared, "true").ok()
    for path in ("/start", "/stop", "/pause", "/resume"):
        assert user.post(path, {"runtime_id": shared["runtime_id"]}).status == 403


def test_links_to_the_editor_that_open_nothing(service, acme, other, shared):
    stranger, path = service.stranger(), f"/{shared['runtime_id']}/vscode"
    for target in (path, path + "/", path + "?tkn=wrong", path + "?tkn=" + shared["session_api_key"]):
        assert stranger.get(target).status == 401
    assert stranger.get("/abcdefghij/vscode?tkn=wrong").body == stranger.get(path + "?tkn=wrong").body
    assert other.get(path).status == 404


def test_the_editor(service, sid):
    """The client makes the link; a browser, which has no key, gets to the editor."""
    key = service.make_key("editors", "--tenant", "acme")
    runtime = RemoteRuntime(service, key["key"], sid, runtime_class="editor").connect()
    url = runtime.vscode_url()
    visitor = Visitor(service)
    first = visitor.get(url, follow=False)
    assert first.status == 302 and f"-{runtime.runtime_id}.localhost" in first.headers["Location"], first
    page = visitor.get(url).ok()
    assert page.json["target"].startswith("/?folder="), page
    assert runtime.headers["X-Session-API-Key"] not in page.text and key["key"] not in page.text
    # The token opens nothing else, of nobody else, and nothing once the key is revoked.
    token = url.partition("tkn=")[2].partition("&")[0]
    stranger = service.stranger()
    assert stranger.get(f"/{runtime.runtime_id}/alive", headers={"X-Session-API-Key": token}).status == 401
    second = RemoteRuntime(service, key["key"], sid + "2").connect()
    assert second.vscode_url() is None  # no editor in there
    assert stranger.get(f"/{second.runtime_id}/vscode?tkn={token}").status == 401
    second.close()
    runtime.close()
    assert stranger.get(f"/{runtime.runtime_id}/vscode?tkn={token}").status == 401


@pytest.mark.parametrize("place", ["/{}", "/v1/sandboxes/{}/hand"])
def test_mcp_over_sse(acme, shared, place):
    """Where messages go is told so that it is found behind us as well."""
    base = place.format(shared["runtime_id"])
    server = (ROOT / "tests/mcp/servers/fixture.py").read_text()
    written = {"action": {"action": "write", "args": {"path": "/tmp/server.py", "content": server}}}
    acme.post(f"/{shared['runtime_id']}/execute_action", written).ok()
    servers = [{"name": "local", "command": "python3", "args": ["/tmp/server.py"]}]
    acme.post(base + "/update_mcp_server", servers).ok()
    stream = acme.service.client(acme.key).send("GET", base + "/mcp/sse")
    assert stream.status == 200

    def event(kind):
        """The data of the next event, which is of that kind."""
        lines = iter(stream.readline, b"")
        line = next(line for line in lines if not line.startswith(b":") and line.strip())
        assert line.strip() == b"event: " + kind, line
        return next(lines).decode().removeprefix("data: ").strip()

    messages = urljoin(base + "/mcp/sse", event(b"endpoint"))
    hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    acme.post(messages, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).ok(202)
    assert json.loads(event(b"message"))["result"]["protocolVersion"] == "2024-11-05"
    stream.close()


# --- every endpoint ----------------------------------------------------------------------------------


def test_the_document_and_the_routes(document):
    document.check_itself()
    served = routes_of("api-openhands.c", "api-openhands-build.c")
    assert served == {(m, p) for m, p, _, _ in document.operations() if not p.startswith("/{runtime_id}")}


UNKNOWN = {"runtime_id": "abcdefghij"}
ENDPOINTS = [  # method, target, a body that is fine
    ("POST", "/start", {"image": IMAGE}),
    ("POST", "/stop", UNKNOWN),
    ("POST", "/pause", UNKNOWN),
    ("POST", "/resume", UNKNOWN),
    ("GET", "/sessions/nobody", None),
    ("GET", "/runtime/abcdefghij", None),
    ("GET", "/list", None),
    ("GET", "/registry_prefix", None),
    ("GET", "/image_exists?image=x", None),
    ("POST", "/build", b""),
    ("GET", "/build_status?build_id=x", None),
    ("GET", "/abcdefghij/alive", None),
    ("POST", "/abcdefghij/execute_action", {"action": {}}),
    ("GET", "/abcdefghij/vscode", None),
    ("GET", "/abcdefghij/vscode/connection_token", None),
]


@pytest.mark.parametrize("method, target, body", ENDPOINTS)
def test_wrong_keys_and_methods(service, call, method, target, body):
    stranger = service.stranger()
    call(method, target, body, 401, client=stranger)
    call(method, target, body, 401, {"X-API-Key": "tnk_abcdefghijkl_" + 43 * "x"}, stranger)
    call(method, target, body, 401, {"Authorization": "Bearer wrong"}, stranger)
    if not target.startswith("/abcdefghij"):
        answer = service.client().request({"GET": "DELETE", "POST": "GET"}[method], target)
        assert answer.status == 405 and method in answer.headers["Allow"] and answer.json["detail"]


@pytest.mark.parametrize("method, target, body", [e for e in ENDPOINTS if e[2] == UNKNOWN or "abcdefghij" in e[1]])
def test_unknown_ids(call, method, target, body):
    call(method, target, body, 404)


def test_orders_of_another_tenant(other, shared, call):
    for order in ("/stop", "/pause", "/resume"):
        call("POST", order, {"runtime_id": shared["runtime_id"]}, 404, client=other)
    call("GET", f"/runtime/{shared['runtime_id']}", status=404, client=other)
    call("GET", "/sessions/shared", status=404, client=other)
    assert call("GET", "/list", client=other).json == {"runtimes": []}


def test_malformed(call):
    for path in ("/start", "/stop", "/pause", "/resume"):
        call("POST", path, b"{", 400)
        call("POST", path, [], 422)
        call("POST", path, b'"' + (2 << 20) * b"x" + b'"', 413)
    for path in ("/stop", "/pause", "/resume"):
        call("POST", path, {}, 422)
        call("POST", path, {"runtime_id": None}, 422)  # what the client sends after a start that failed
        call("POST", path, {"runtime_id": 1}, 422)
    for body in (
        {"image": 1},
        {"image": 513 * "x"},
        {"session_id": ""},
        {"session_id": 256 * "x"},
        {"session_id": ["a"]},
        {"resource_factor": 0},
        {"resource_factor": -1},
        {"resource_factor": 1e9},
        {"resource_factor": "much"},
        {"environment": ["A=b"]},
        {"environment": {"A": 1}},
        {"environment": {"A=B": "c"}},
        {"runtime_class": 1},
        {"command": ["x", "--working-dir", "not/absolute"]},
    ):
        answer = call("POST", "/start", {"image": IMAGE, **body})
        assert answer.status in (400, 422), (body, answer)
    call("GET", "/image_exists", status=422)
    call("GET", "/image_exists?image=", status=422)
    call("GET", f"/image_exists?image={600 * 'x'}", status=422)
    assert not call("GET", "/image_exists?image=sha256:0a", status=200).json["exists"]  # an id is no name
    call("GET", "/build_status", status=422)
    call("GET", "/build_status?build_id=none", status=404)
    call("GET", "/runtime/abcdefghij?wait=x", status=422)
    call("GET", "/runtime/abcdefghij?wait=31", status=422)


def test_answers_are_as_documented(call, shared, acme):
    ident = shared["runtime_id"]
    call("GET", f"/runtime/{ident}?wait=1", status=200)
    call("GET", "/sessions/shared", status=200)
    call("GET", "/list", status=200)
    call("GET", "/registry_prefix", status=200)
    call("GET", f"/image_exists?image={IMAGE}", status=200)
    runtime = call("POST", "/start", {"image": IMAGE, "session_id": "documented"}, 200).json
    which = {"runtime_id": runtime["runtime_id"]}
    for order, status in (("pause", "paused"), ("pause", "paused"), ("resume", "running"), ("resume", "running")):
        assert call("POST", f"/{order}", which, 200).json["status"] == status
    call("GET", f"/{ident}/alive", status=200)
    call("GET", f"/{ident}/server_info", status=200)
    call("GET", f"/{ident}/vscode/connection_token", status=200)
    call("POST", f"/{ident}/execute_action", {"action": {"action": "run", "args": {"command": "true"}}}, 200)
    call("POST", f"/{ident}/execute_action", {}, 422)
    assert call("POST", "/stop", which, 200).json["status"] == "stopped"
    call("POST", "/stop", which, 404)


def test_conflicting_states(acme, call, shared):
    """A stopped one cannot be paused; the answer says what it is."""
    runtime = start(acme)
    acme.post(f"/v1/sandboxes/{runtime['runtime_id']}/stop").ok()
    refused = call("POST", "/pause", {"runtime_id": runtime["runtime_id"]})
    assert refused.status == 409 and "stopped" in refused.json["detail"], refused
    stop(acme, runtime)


def test_paths_that_are_none(acme, shared):
    ident = shared["runtime_id"]
    for path in (f"/{ident}", f"/{ident.upper()}/alive", f"/{ident}x/alive", f"/%2f{ident}/alive", f"//{ident}/alive"):
        assert acme.get(path).status in (404, 400, 405), path
    assert acme.get(f"/{ident}//alive").status == 404
    assert acme.get(f"/{ident}/no/such/thing").status == 404


def test_a_runtime_that_dies_says_so(service, acme, sid):
    runtime = start(acme, session_id=sid)
    os.kill(hand_of(runtime["runtime_id"]), signal.SIGKILL)
    told = eventually(
        lambda: (t := acme.get(f"/runtime/{runtime['runtime_id']}").json)["status"] != "running" and t, "the end"
    )
    assert told["pod_status"] in ("failed", "crashloopbackoff", "not found"), told
    again = start(acme, session_id=sid)
    assert again["pod_status"] == "ready"
    stop(acme, again)

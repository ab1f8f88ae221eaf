"""The surface of Runloop on the wire: devboxes, executions, files, snapshots, blueprints, tunnels, without any SDK."""

import json
import re
import threading
import time

import pytest
import yaml

from native import at
from openapi_document import routes_of
from runloop_wire import mount, put_object
from services import PATIENCE, eventually
from trees import ROOT

CONFIG = """
[template.small]
memory = "256m"
plugins = []
env = {GREETING = "hello"}
"""
TABLES = ("create", "devboxes", "executions", "files", "layers", "objects", "pty", "tunnels")


def create(client, **body):
    made = client.post("/v1/devboxes/create_and_await_running", body).ok().json
    assert made["status"] == "running", made
    return made


def path(devbox, rest=""):
    return f"/v1/devboxes/{devbox['id']}{rest}"


def shut(client, *devboxes):
    for one in devboxes:
        assert client.post(path(one, "/shutdown")).ok().json["status"] == "shutdown"


def execute(client, devbox, command, **more):
    """Runs a command to its end."""
    done = client.post(path(devbox, "/execute"), {"command": command, **more}).ok().json
    while done["status"] != "completed":
        where = path(devbox, f"/executions/{done['execution_id']}/wait_for_status")
        answer = client.post(where, {"statuses": ["completed"]})
        done = answer.json if answer.status == 200 else done
    return done


@pytest.fixture(scope="module")
def devbox(alice):
    return create(alice, name="first", metadata={"team": "blue"}, environment_variables={"X": "1"})


def multipart(*parts):
    """A body and its type."""
    lines = b""
    for name, filename, content in parts:
        more = f'; filename="{filename}"' if filename else ""
        lines += f'--xx\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content + b"\r\n"
    return lines + b"--xx--\r\n", {"Content-Type": "multipart/form-data; boundary=xx"}


class Stream:
    """Server-sent events of an execution, each {output, offset}."""

    def __init__(self, client, devbox, execution, which="stdout", offset=None):
        self.connection = client.service.connect(PATIENCE)
        query = "" if offset is None else f"?offset={offset}"
        where = path(devbox, f"/executions/{execution}/stream_{which}_updates{query}")
        self.connection.request("GET", where, headers={"Authorization": f"Bearer {client.key}"})
        self.response = self.connection.getresponse()
        assert self.response.status == 200 and self.response.headers["Content-Type"].startswith("text/event-stream")

    def __iter__(self):
        for line in self.response:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def text(self):
        try:
            return "".join(event["output"] for event in self)
        finally:
            self.connection.close()


def test_every_route_is_in_the_document():
    document = yaml.safe_load((ROOT / "docs" / "clouds" / "runloop.yaml").read_text())
    described = {(m, p) for p, item in document["paths"].items() for m in item if m not in ("parameters", "servers")}
    source = (ROOT / "src" / "service" / "runloop" / "pty.c").read_text()
    tunnel = {(m.lower(), f"/pty/{{name}}{rest}") for m, rest in re.findall(r'^    {"([A-Z]+)", "([^"]*)", \w+},', source, re.MULTILINE)}
    assert len(tunnel) > 2 and described == routes_of(*(f"runloop/{name}.c" for name in TABLES)) | tunnel


# --- errors --------------------------------------------------------------------------------------


def test_errors_have_the_vendors_shape(alice, service):
    answer = service.stranger().get("/v1/devboxes").ok(401)
    assert answer.json["message"] and answer.headers["X-Should-Retry"] == "false"
    assert "not found" in alice.get("/v1/devboxes/abcdefghij").ok(404).json["message"]
    assert alice.post("/v1/devboxes", b"[").ok(400).json["message"] == "The body is no JSON object"
    reader = service.tenant("alice", "--scope", "read")
    assert reader.post("/v1/devboxes", {}).ok(403).json["message"]
    assert reader.get("/v1/devboxes").ok()
    assert alice.get("/v1/sandboxes/abcdefghij").ok(404).json["detail"]  # the native API has its own


def test_what_is_worth_a_second_try(service):
    """A rate passes by itself, a quota does not."""
    poor = service.tenant("poor", "--max-sandboxes", "1")
    first = poor.post("/v1/devboxes", {}).ok().json["id"]
    refused = poor.post("/v1/devboxes", {}).ok(429)
    assert refused.headers["X-Should-Retry"] == "false" and "Retry-After" not in refused.headers
    poor.post(f"/v1/devboxes/{first}/shutdown", {}).ok()
    slow = service.tenant("slow", "--rate", "0.01")
    slow.get("/v1/devboxes").ok()
    refused = slow.get("/v1/devboxes").ok(429)
    assert refused.headers["X-Should-Retry"] == "true" and int(refused.headers["Retry-After"]) > 1


def test_what_is_not_served_is_refused_before_anything_is_made(alice):
    before = alice.get("/v1/devboxes").ok().json["total_count"]
    for wish in (
        {"code_mounts": [{"repo_name": "a", "repo_owner": "b"}]},
        {"secrets": {"A": "b"}},
        {"mounts": [{"type": "object_mount", "object_id": "x", "object_path": "/y"}]},
        {"metadata": {"a": 1}},
        {"metadata": {"$runloop": "x"}},
        {"metadata": {"a": "b" * 20000}},
        {"environment_variables": {"bad name": "x"}},
        {"launch_parameters": {"resource_size_request": "HUGE"}},
        {"launch_parameters": {"resource_size_request": "CUSTOM_SIZE"}},
        {"launch_parameters": {"architecture": "mips"}},
        {"launch_parameters": {"network_policy_id": "np_1"}},
        {"launch_parameters": {"keep_alive_time_seconds": -1}},
        {"launch_parameters": {"after_idle": {"idle_time_seconds": 0, "on_idle": "suspend"}}},
        {"blueprint_name": "nothing"},
        {"blueprint_id": "../base"},
        {"snapshot_id": "abcdefghij"},
        {"snapshot_id": "a", "blueprint_id": "b"},
        {"prebuilt": "openhands"},
    ):
        answer = alice.post("/v1/devboxes", wish)
        assert answer.status in (400, 404) and answer.json["message"], (wish, answer)
    assert alice.get("/v1/devboxes").ok().json["total_count"] == before
    for method, where in (
        ("POST", "/v1/devboxes/x/create_ssh_key"),
        ("POST", "/v1/blueprints/preview"),
    ):
        answer = alice.request(method, where, {} if method == "POST" else None).ok(403)
        assert "not served" in answer.json["message"]


# --- life ----------------------------------------------------------------------------------------


def test_a_devbox_as_sdks_want_it(alice, devbox):
    assert devbox["name"] == "first" and devbox["metadata"] == {"team": "blue"}
    assert devbox["capabilities"] == [] and devbox["launch_parameters"] == {} and devbox["tunnel"] is None
    assert abs(devbox["create_time_ms"] - time.time() * 1000) < 600_000
    assert [t["status"] for t in devbox["state_transitions"]] == ["provisioning", "running"]
    assert alice.get(path(devbox)).ok().json == devbox
    assert alice.get(at(devbox["id"])).ok().json["name"] == "first"  # the same sandbox by the native API


def test_create_and_wait(alice, service):
    made = alice.post("/v1/devboxes", {}).ok().json
    assert made["status"] in ("queued", "provisioning", "running")
    done = alice.post(path(made, "/wait_for_status"), {"statuses": ["running", "failure", "shutdown"]}).ok().json
    assert done["status"] == "running"
    answer = alice.post(path(made, "/wait_for_status"), {"statuses": ["suspended"], "timeout_seconds": 0.1}).ok(408)
    assert answer.json["message"]
    other = service.client(alice.key)
    waiter = threading.Timer(0.2, lambda: other.post(path(made, "/suspend")))
    waiter.start()
    done = alice.post(path(made, "/wait_for_status"), {"statuses": ["suspended"]}).ok().json
    assert done["status"] == "suspended"
    waiter.join()
    shut(alice, made)
    alice.get(path(made)).ok(404)


def test_a_request_that_is_repeated_makes_one(alice):
    headers = {"X-Request-Id": f"stainless-node-retry-{time.time()}"}
    body = {"launch_parameters": {"launch_commands": ["echo once >>log"]}}
    made = [alice.post("/v1/devboxes", body, headers=headers).ok().json for _ in range(2)]
    assert made[0]["id"] == made[1]["id"]
    assert execute(alice, made[0], "cat log")["stdout"] == "once\n"
    shut(alice, made[0])
    # One of the user's own, by an SDK; without one it may be a proxy's, of many requests.
    headers, body = {"X-Request-Id": f"mine-{time.time()}", "X-Stainless-Lang": "python"}, {}
    made = [alice.post("/v1/devboxes", body, headers=headers).ok().json for _ in range(2)]
    assert made[0]["id"] == made[1]["id"]
    for _ in range(2):
        done = alice.post(path(made[0], "/execute"), {"command": "echo x >>n; cat n"}, headers=headers).ok().json
    assert done["stdout"] == "x\n"
    more = alice.post("/v1/devboxes", body, headers={"X-Request-Id": headers["X-Request-Id"]}).ok().json
    assert more["id"] != made[0]["id"]
    shut(alice, made[0], more)


def test_suspend_and_resume(alice):
    made = create(alice)
    execute(alice, made, "echo kept >file")
    assert alice.post(path(made, "/suspend")).ok().json["status"] == "suspended"
    answer = alice.post(path(made, "/execute"), {"command": "true"}).ok(400)
    assert "suspended" in answer.json["message"]
    assert [d["id"] for d in alice.get("/v1/devboxes?status=suspended").ok().json["devboxes"]] == [made["id"]]
    assert alice.post(path(made, "/resume")).ok().json["status"] == "running"
    assert execute(alice, made, "cat file")["stdout"] == "kept\n"
    shut(alice, made)


def test_keep_alive_and_its_end(alice):
    made = create(alice, launch_parameters={"keep_alive_time_seconds": 900})
    assert made["launch_parameters"] == {"keep_alive_time_seconds": 900}
    before = alice.get(f"/sandboxes/{made['id']}").ok().json["endAt"]  # E2B's clients see it

    def later():
        assert alice.post(path(made, "/keep_alive")).ok().json == {}
        return alice.get(f"/sandboxes/{made['id']}").ok().json["endAt"] > before

    eventually(later, "a later end")
    shut(alice, made)
    short = create(alice, launch_parameters={"keep_alive_time_seconds": 2})
    eventually(lambda: alice.get(path(short)).status == 404, "the end of its time")


def test_times_are_bounded_by_the_operator(make_service, jail_works):
    service = make_service(settings={"ttl_seconds": 600}).start()
    client = service.tenant("t")
    answer = client.post("/v1/devboxes", {"launch_parameters": {"keep_alive_time_seconds": 601}}).ok(400)
    assert "600" in answer.json["message"]
    made = create(client)
    assert 0 < client.get(at(made["id"])).ok().json["expires"] is not None
    shut(client, made)


def test_sizes_are_bounded_by_the_operator(make_service, jail_works):
    service = make_service(settings={"sandbox_memory": "1g"}).start()
    client = service.tenant("t")
    answer = client.post("/v1/devboxes", {"launch_parameters": {"resource_size_request": "LARGE"}}).ok(403)
    assert "memory" in answer.json["message"]


def test_a_size(alice):
    custom = {"resource_size_request": "CUSTOM_SIZE", "custom_cpu_cores": 1, "custom_gb_memory": 2}
    made = create(alice, launch_parameters=custom)
    spec = alice.get(at(made["id"])).ok().json["spec"]
    assert spec["memory"] == "2g" and spec["cpus"] == 1
    usage = alice.get(path(made, "/usage")).ok().json
    assert usage["id"] == made["id"] and usage["total_elapsed_seconds"] >= usage["total_active_seconds"] >= 0
    shut(alice, made)
    for lone in ({"custom_gb_memory": 2}, {"resource_size_request": "SMALL", "custom_cpu_cores": 1}):
        assert "CUSTOM_SIZE" in alice.post("/v1/devboxes", {"launch_parameters": lone}).ok(400).json["message"]


def test_name_and_metadata_change(alice):
    made = create(alice, metadata={"a": "1"}, launch_parameters={"keep_alive_time_seconds": 900})
    changed = alice.post(path(made), {"name": "other", "metadata": {"b": "2"}}).ok().json
    assert changed["name"] == "other" and changed["metadata"] == {"b": "2"}
    assert changed["launch_parameters"] == {"keep_alive_time_seconds": 900}
    alice.post(path(made), {"metadata": {"b": [1]}}).ok(400)
    shut(alice, made)


def test_lists_and_pages(service):
    carol = service.tenant("carol")
    made = [create(carol, name=f"n{i}")["id"] for i in range(3)]
    first = carol.get("/v1/devboxes?limit=2").ok().json
    assert [d["id"] for d in first["devboxes"]] == made[:0:-1] and first["has_more"] and first["total_count"] == 3
    second = carol.get(f"/v1/devboxes?limit=2&starting_after={first['devboxes'][-1]['id']}").ok().json
    assert [d["id"] for d in second["devboxes"]] == made[:1] and not second["has_more"]
    assert len(carol.get("/v1/devboxes?status=running").ok().json["devboxes"]) == 3
    assert carol.get("/v1/devboxes?status=failure").ok().json["devboxes"] == []
    carol.get("/v1/devboxes?limit=0").ok(400)
    shut(carol, *({"id": one} for one in made))


def test_what_happens_before_it_runs(alice):
    made = alice.post(
        "/v1/devboxes",
        {
            "file_mounts": {"conf/a.txt": "text"},
            "mounts": [{"type": "file_mount", "target": "/tmp/b.txt", "content": "more"}],
            "launch_parameters": {"launch_commands": ["cat conf/a.txt /tmp/b.txt >both", "echo $X >>both"]},
            "environment_variables": {"X": "y z"},
            "entrypoint": "echo started >entry; exec sleep 1000",
        },
    ).ok().json
    assert execute(alice, made, "cat both")["stdout"] == "textmorey z\n"
    eventually(lambda: execute(alice, made, "cat entry")["stdout"] == "started\n", "the entry point")
    sources = {entry["source"] for entry in alice.get(path(made, "/logs")).ok().json["logs"]}
    assert sources == {"setup_commands", "entrypoint", "exec"}
    shut(alice, made)
    before = alice.get("/v1/devboxes").ok().json["total_count"]
    wish = {"launch_parameters": {"launch_commands": ["echo why >&2; false", "true"]}}
    answer = alice.post("/v1/devboxes", wish).ok(400)
    assert "exit status 1: why" in answer.json["message"]
    assert alice.get("/v1/devboxes").ok().json["total_count"] == before


# --- executions ----------------------------------------------------------------------------------


def test_execute(alice, devbox):
    done = execute(alice, devbox, "echo $X; echo err >&2; pwd; exit 3")
    assert done["stdout"] == "1\n/home/user\n" and done["stderr"] == "err\n" and done["exit_status"] == 3
    assert done["devbox_id"] == devbox["id"] and not done["stdout_truncated"]
    assert execute(alice, devbox, "kill -9 $$")["exit_status"] == 137
    alice.post(path(devbox, "/execute"), {}).ok(400)
    sync = alice.post(path(devbox, "/execute_sync"), {"command": "printf a; exit 1"}).ok().json
    assert sync == {"devbox_id": devbox["id"], "exit_status": 1, "stdout": "a", "stderr": ""}


def test_a_command_with_an_id_runs_once(alice, devbox):
    body = {"command": "echo x >>once; cat once", "command_id": "01a1dcb1-73db-7936-8000-0123456789ab"}
    first, second = (alice.post(path(devbox, "/execute"), body).ok().json for _ in range(2))
    assert first == second and first["stdout"] == "x\n"
    by_name = alice.get(path(devbox, f"/executions/{body['command_id']}")).ok().json
    assert by_name == first
    alice.post(path(devbox, "/execute"), {"command": "true", "command_id": "tendon:launch"}).ok(400)


def test_one_that_takes_its_time(alice, devbox):
    begun = alice.post(path(devbox, "/execute"), {"command": "read x", "optimistic_timeout": 0.1}).ok().json
    assert begun["status"] == "completed"  # nothing to read: input is empty unless it is attached
    begun = alice.post(path(devbox, "/execute_async"), {"command": "echo a; sleep 1000"}).ok().json
    one = path(devbox, f"/executions/{begun['execution_id']}")
    assert begun["status"] == "running" and "exit_status" not in begun
    eventually(lambda: alice.get(one).ok().json["stdout"] == "a\n", "its first words")
    alice.post(f"{one}/wait_for_status", {"statuses": ["completed"], "timeout_seconds": 0.1}).ok(408)
    assert alice.post(f"{one}/wait_for_status", {"statuses": ["running"]}).ok().json["status"] == "running"
    assert alice.post(f"{one}/kill", {}).ok().json["exit_status"] == 137
    assert alice.post(f"{one}/kill", {}).ok().json["status"] == "completed"
    alice.get(path(devbox, "/executions/p0123456789abcdef")).ok(404)
    alice.get(path(devbox, "/executions/nothing")).ok(404)


def test_input(alice, devbox):
    body = {"command": "while read x; do echo got $x; done; echo end", "attach_stdin": True}
    begun = alice.post(path(devbox, "/execute_async"), body).ok().json
    one = path(devbox, f"/executions/{begun['execution_id']}")
    assert alice.post(f"{one}/send_std_in", {"text": "a\nb\n"}).ok().json["success"] is True
    alice.post(f"{one}/send_std_in", {"signal": "EOF"}).ok()
    done = alice.post(f"{one}/wait_for_status", {"statuses": ["completed"]}).ok().json
    assert done["stdout"] == "got a\ngot b\nend\n"
    alice.post(f"{one}/send_std_in", {"text": "late"}).ok(400)
    alice.post(f"{one}/send_std_in", {}).ok(400)
    body = {"command": "trap 'echo stopped; exit 5' INT; while :; do sleep 0.05; done"}
    begun = alice.post(path(devbox, "/execute_async"), body).ok().json
    one = path(devbox, f"/executions/{begun['execution_id']}")

    def interrupted():
        alice.post(f"{one}/send_std_in", {"signal": "INTERRUPT"})
        return alice.get(one).ok().json["status"] == "completed"

    eventually(interrupted, "the end by an interrupt")
    assert alice.get(one).ok().json["exit_status"] in (5, 130)  # before or after the trap was set


def test_last_lines_and_much_output(alice, devbox):
    done = alice.post(path(devbox, "/execute?last_n=2"), {"command": "seq 5"}).ok().json
    assert done["stdout"] == "4\n5\n" and done["stdout_truncated"]
    done = execute(alice, devbox, "seq 400000")
    assert done["stdout_truncated"] and done["stdout"].endswith("399999\n400000\n")
    assert Stream(alice, devbox, done["execution_id"]).text() == done["stdout"]  # what is still kept of it


def test_streams(alice, devbox):
    command = "printf 'a\\xc3'; sleep 0.3; printf '\\xa4b\\n'; echo err >&2; printf '\\xff'"
    begun = alice.post(path(devbox, "/execute_async"), {"command": command}).ok().json
    events = list(Stream(alice, devbox, begun["execution_id"]))
    assert "".join(e["output"] for e in events) == "aäb\n\ufffd" and events[-1]["offset"] == 6
    assert Stream(alice, devbox, begun["execution_id"], "stderr").text() == "err\n"
    for event in events:  # whoever comes back with an offset hears the rest, once
        rest = Stream(alice, devbox, begun["execution_id"], offset=event["offset"]).text()
        before = "".join(e["output"] for e in events if e["offset"] <= event["offset"])
        assert before + rest == "aäb\n\ufffd"


def test_a_stream_tells_as_it_comes(alice, devbox):
    begun = alice.post(path(devbox, "/execute_async"), {"command": "read x; echo $x", "attach_stdin": True}).ok().json
    stream = Stream(alice, devbox, begun["execution_id"])
    alice.post(path(devbox, f"/executions/{begun['execution_id']}/send_std_in"), {"text": "now\n"}).ok()
    assert stream.text() == "now\n"


def test_a_shell_that_is_kept(alice, devbox):
    def run(command, name="main"):
        return execute(alice, devbox, command, shell_name=name)["stdout"]

    run("cd /tmp; A=1; export B='two words'; f() { echo fun $1; }")
    assert run('pwd; echo "$A $B"; f x') == "/tmp\n1 two words\nfun x\n"
    assert run("pwd; echo $A", "other") == "/home/user\n\n"
    assert execute(alice, devbox, "A=2; exit 7", shell_name="main")["exit_status"] == 7
    assert run("echo $A") == "2\n"
    alice.post(path(devbox, "/execute"), {"command": "true", "shell_name": "../x"}).ok(400)


def test_a_kept_shell_does_not_wait_for_what_it_left_in_the_background(alice, devbox):
    began = time.monotonic()
    assert execute(alice, devbox, "sleep 1000 & PID=$!; echo begun", shell_name="server")["stdout"] == "begun\n"
    assert execute(alice, devbox, "kill $PID; echo $?", shell_name="server")["stdout"] == "0\n"
    assert time.monotonic() - began < PATIENCE / 2


def test_who_waits_is_told_that_the_devbox_ended(service):
    """Of a command that is waited for, and of a stream, as an event that SDKs raise."""
    client, other = service.tenant("ends"), service.tenant("ends")
    for order, status, word in (("suspend", 400, "suspend"), ("shutdown", 404, "not found")):
        made = create(client)
        begun = client.post(path(made, "/execute_async"), {"command": "echo on; sleep 1000"}).ok().json
        stream = Stream(client, made, begun["execution_id"])
        assert next(iter(stream))["output"] == "on\n"
        told = []
        where = path(made, f"/executions/{begun['execution_id']}/wait_for_status")
        waiting = threading.Thread(target=lambda where=where, told=told: told.append(other.post(where, {"statuses": ["completed"]})))
        waiting.start()
        time.sleep(0.1)  # it waits
        service.tenant("ends").post(path(made, f"/{order}")).ok()
        waiting.join(PATIENCE)
        assert told[0].status == status and word in told[0].json["message"], told
        assert told[0].headers["X-Should-Retry"] == "false"
        event, data = stream.response.read().decode().strip().splitlines()[-2:]
        assert event == "event: error" and json.loads(data.removeprefix("data: "))["code"] == status, (event, data)
        stream.connection.close()
        if order == "suspend":
            client.post(path(made, "/shutdown")).ok()


def test_logs(alice, devbox):
    done = execute(alice, devbox, "echo to the log; echo bad >&2; exit 4")
    logs = alice.get(path(devbox, f"/logs?execution_id={done['execution_id']}")).ok().json["logs"]
    assert logs[0]["cmd"] == "echo to the log; echo bad >&2; exit 4" and logs[-1]["exit_code"] == 4
    assert [(e["level"], e["message"]) for e in logs[1:-1]] == [("INFO", "to the log"), ("ERROR", "bad")]
    assert {e["cmd_id"] for e in logs} == {done["execution_id"]} and {e["source"] for e in logs} == {"exec"}
    assert len(alice.get(path(devbox, "/logs")).ok().json["logs"]) > len(logs)


# --- files ---------------------------------------------------------------------------------------


def test_files(alice, devbox):
    done = alice.post(path(devbox, "/write_file_contents"), {"file_path": "a/b.txt", "contents": "textä"}).ok().json
    assert done == {"devbox_id": devbox["id"], "exit_status": 0, "stdout": "", "stderr": ""}
    assert alice.post(path(devbox, "/read_file_contents"), {"file_path": "a/b.txt"}).ok().body == "textä".encode()
    assert alice.post(path(devbox, "/download_file"), {"path": "/home/user/a/b.txt"}).ok().body == "textä".encode()
    alice.post(path(devbox, "/read_file_contents"), {"file_path": "none"}).ok(404)
    alice.post(path(devbox, "/read_file_contents"), {"file_path": "a"}).ok(400)
    alice.post(path(devbox, "/read_file_contents"), {}).ok(400)
    alice.post(path(devbox, "/write_file_contents"), {"file_path": "a"}).ok(400)


@pytest.mark.parametrize("order", [1, -1])
def test_upload(alice, devbox, order):
    content = bytes(range(256)) * 5000
    parts = [("path", None, f"up/{order}.bin".encode()), ("file", "x.bin", content)][::order]
    body, headers = multipart(*parts)
    assert alice.post(path(devbox, "/upload_file"), body, headers=headers).ok().json == {}
    assert alice.post(path(devbox, "/download_file"), {"path": f"up/{order}.bin"}).ok().body == content
    assert execute(alice, devbox, "ls -A | grep upload")["stdout"] == ""


def test_uploads_that_are_no_uploads(alice, devbox):
    for parts in ([("file", "x", b"a")], [("path", None, b"x")], [("path", None, 5000 * b"x"), ("file", "x", b"a")]):
        body, headers = multipart(*parts)
        alice.post(path(devbox, "/upload_file"), body, headers=headers).ok(400)
    alice.post(path(devbox, "/upload_file"), {}).ok(415)
    assert execute(alice, devbox, "ls -A | grep upload")["stdout"] == ""


# --- snapshots and blueprints --------------------------------------------------------------------


def test_a_snapshot_is_one_when_it_rests(service):
    """Not before: what is listed, or made of one, is whole."""
    client, other = service.tenant("resting"), service.tenant("resting")
    made = create(client)
    taken = []
    taking = threading.Thread(target=lambda: taken.append(other.post(path(made, "/snapshot_disk"), {})))
    taking.start()
    goes_on, seen = True, 0
    while goes_on:
        goes_on = taking.is_alive()
        for one in client.get("/v1/devboxes/disk_snapshots").ok().json["snapshots"]:
            assert client.get(f"/v1/sandboxes/{one['id']}").ok().json["state"] == "stopped"
            seen += 1
        others = [box["id"] for box in client.get("/v1/devboxes").ok().json["devboxes"]]
        assert others == [made["id"]]
        time.sleep(0.01)
    assert seen
    client.post(f"/v1/devboxes/disk_snapshots/{taken[0].ok().json['id']}/delete").ok()
    client.post(path(made, "/shutdown")).ok()


def test_a_snapshot_outlives_its_devbox(service):
    client = service.tenant("layers")
    made = create(client, environment_variables={"A": "1"})
    execute(client, made, "echo before >file")
    wish = {"name": "one", "metadata": {"m": "1"}, "commit_message": 'so "far"'}
    snapshot = client.post(path(made, "/snapshot_disk"), wish).ok().json
    assert snapshot["name"] == "one" and snapshot["metadata"] == {"m": "1"}
    assert snapshot["source_devbox_id"] == made["id"] and snapshot["commit_message"] == 'so "far"'
    execute(client, made, "echo after >file")
    second = client.post(path(made, "/snapshot_disk_async"), {}).ok().json
    shut(client, made)
    status = client.get(f"/v1/devboxes/disk_snapshots/{snapshot['id']}/status").ok().json
    assert status == {"status": "complete", "snapshot": snapshot}
    listed = client.get("/v1/devboxes/disk_snapshots").ok().json
    assert [s["id"] for s in listed["snapshots"]] == [second["id"], snapshot["id"]] and listed["total_count"] == 2
    assert len(client.get(f"/v1/devboxes/disk_snapshots?devbox_id={made['id']}").ok().json["snapshots"]) == 2
    assert client.get("/v1/devboxes/disk_snapshots?devbox_id=abcdefghij").ok().json["snapshots"] == []
    assert client.get("/v1/devboxes").ok().json["devboxes"] == []
    client.get(f"/v1/devboxes/{snapshot['id']}").ok(404)  # it is none
    changed = client.post(f"/v1/devboxes/disk_snapshots/{snapshot['id']}", {"name": "uno"}).ok().json
    assert changed == {**snapshot, "name": "uno"}
    again = create(client, snapshot_id=snapshot["id"], environment_variables={"B": "2"})
    assert again["snapshot_id"] == snapshot["id"]
    assert execute(client, again, "cat file; echo $A $B")["stdout"] == "before\n1 2\n"
    newer = create(client, snapshot_id=second["id"])
    assert execute(client, newer, "cat file; echo $A $B")["stdout"] == "after\n1\n"
    for one in (snapshot, second):
        assert client.post(f"/v1/devboxes/disk_snapshots/{one['id']}/delete").ok().json == {}
        client.post("/v1/devboxes", {"snapshot_id": one["id"]}).ok(404)
    assert execute(client, again, "cat file")["stdout"] == "before\n"
    shut(client, again, newer)


def build(client, **wish):
    """A blueprint, once it is built."""
    made = client.post("/v1/blueprints", wish).ok().json

    def settled():
        made.update(client.get(f"/v1/blueprints/{made['id']}").ok().json)
        return made["status"] in ("build_complete", "failed")

    eventually(settled, "the end of the build")
    return made


def test_blueprints(service):
    client = service.tenant("builder")
    made = build(
        client,
        name="tools",
        system_setup_commands=["echo tool >tool", "cat conf >>tool"],
        file_mounts={"conf": "setting\n"},
        launch_parameters={"launch_commands": ["echo launched >launched"]},
    )
    assert made["status"] == "build_complete" and made["name"] == "tools", made
    assert made["parameters"]["system_setup_commands"] == ["echo tool >tool", "cat conf >>tool"]
    for origin in ({"blueprint_id": made["id"]}, {"blueprint_name": "tools"}):
        devbox = create(client, environment_variables={"V": "1"}, **origin)
        assert devbox["blueprint_id"] == made["id"]
        assert execute(client, devbox, "cat tool launched; echo $V")["stdout"] == "tool\nsetting\nlaunched\n1\n"
        shut(client, devbox)
    more = build(client, name="more", base_blueprint_name="tools", system_setup_commands=["echo 2 >>tool"])
    bad = build(client, name="bad", system_setup_commands=["echo wrong; false", "true"])
    assert bad["status"] == "failed" and bad["failure_reason"] == "build_failed"
    client.post("/v1/devboxes", {"blueprint_id": bad["id"]}).ok(400)
    client.post("/v1/devboxes", {"blueprint_name": "bad"}).ok(404)
    listed = client.get("/v1/blueprints").ok().json
    assert [b["id"] for b in listed["blueprints"]] == [bad["id"], more["id"], made["id"]]
    assert [b["id"] for b in client.get("/v1/blueprints?name=more").ok().json["blueprints"]] == [more["id"]]
    assert client.get("/v1/blueprints?status=failed").ok().json["total_count"] == 1
    assert client.get(f"/v1/blueprints/{made['id']}/logs").ok().json["blueprint_id"] == made["id"]
    client.post("/v1/blueprints", {"name": "x", "build_context": {"type": "object"}}).ok(404)
    client.post("/v1/blueprints", {}).ok(400)
    for one in (made, more, bad):
        client.post(f"/v1/blueprints/{one['id']}/delete").ok()
        client.get(f"/v1/blueprints/{one['id']}").ok(404)


DOCKERFILE = """
# what a container would do is not asked for
FROM python:3 AS base
ARG WHO=nobody
ENV GREETING="good  morning" PLACE=$HOME/made
RUN echo $WHO > who && \\
    # a remark
    echo "$GREETING" >> who
WORKDIR $PLACE
RUN ["sh", "-c", "pwd > 'a file'"]
CMD ["never"]
"""


def test_a_blueprint_of_a_dockerfile(service):
    client = service.tenant("docker")
    made = build(
        client, name="d", dockerfile=DOCKERFILE, build_args={"WHO": "me"}, system_setup_commands=["echo then >>who"]
    )
    assert made["status"] == "build_complete" and made["parameters"]["dockerfile"] == DOCKERFILE, made
    devbox = create(client, blueprint_name="d")
    done = execute(client, devbox, "cat who 'made/a file'; echo \"$GREETING\"")
    assert done["stdout"] == "me\ngood  morning\nthen\n/home/user/made\ngood  morning\n", done
    shut(client, devbox)
    bad = build(client, name="e", dockerfile="FROM runloop:x\nRUN false\nRUN true")
    assert bad["status"] == "failed"
    for wrong in ("RUN true", "FROM runloop:x\nCOPY . .", "FROM runloop:x\nFROM y", "FROM runloop:x\nFLY"):
        assert "dockerfile" in client.post("/v1/blueprints", {"name": "x", "dockerfile": wrong}).ok(400).json["message"]
    for one in (made, bad):
        client.post(f"/v1/blueprints/{one['id']}/delete").ok()


def test_what_building_says(alice):
    made = alice.post("/v1/blueprints", {"name": "slow", "system_setup_commands": ["echo at it", "sleep 1000"]}).ok().json
    where = f"/v1/blueprints/{made['id']}"
    assert made["status"] == "building"
    eventually(lambda: "at it" in [e.get("message") for e in alice.get(f"{where}/logs").ok().json["logs"]], "its log")
    alice.post("/v1/devboxes", {"blueprint_id": made["id"]}).ok(400)
    alice.post(f"{where}/delete").ok()
    commands = ["seq 2000", "echo so far", "echo wröng >&2; no-such-program"]
    made = alice.post("/v1/blueprints", {"name": "bad", "system_setup_commands": commands}).ok().json
    where = f"/v1/blueprints/{made['id']}"
    eventually(lambda: alice.get(where).ok().json["status"] == "failed", "its end")
    said = [e["message"] for e in alice.get(f"{where}/logs").ok().json["logs"]]
    assert {"so far", "wröng"} <= set(said) and any("no-such-program: command not found" in line for line in said)
    alice.post(f"{where}/delete").ok()


def test_templates_are_blueprints(alice):
    public = alice.get("/v1/blueprints/list_public").ok().json["blueprints"]
    assert [b["name"] for b in public] == ["small"] and public[0]["is_public"]
    assert alice.get("/v1/blueprints/small").ok().json["status"] == "build_complete"
    for origin in ("blueprint_id", "blueprint_name", "prebuilt"):
        made = create(alice, **{origin: "small"})
        assert made["blueprint_id"] == "small"
        assert execute(alice, made, "echo $GREETING")["stdout"] == "hello\n"
        shut(alice, made)


# --- tunnels -------------------------------------------------------------------------------------

SERVE = "mkdir -p web; echo page >web/index.html; cd web; exec python3 -m http.server 8000"


@pytest.fixture(scope="module")
def web(alice):
    made = create(alice, entrypoint=SERVE)
    yield made
    shut(alice, made)


def visit(service, key, port=8000, domain="tunnel.example.com", **headers):
    """What a stranger gets by the name of a tunnel."""
    host = f"{port}-{key}.{domain}:{service.port}"
    return service.stranger(headers={"Host": host, **headers}).get("/")


def served(service, key, **headers):
    eventually(lambda: visit(service, key, **headers).status == 200, "the server inside")
    return visit(service, key, **headers).body == b"page\n"


def test_a_tunnel(service, alice, web):
    tunnel = alice.post(path(web, "/enable_tunnel"), {}).ok().json
    assert tunnel["auth_mode"] == "open" and "auth_token" not in tunnel and tunnel["http_keep_alive"]
    assert alice.post(path(web, "/enable_tunnel"), {"auth_mode": "authenticated"}).ok().json == tunnel
    assert alice.get(path(web)).ok().json["tunnel"] == tunnel
    reader = service.tenant("alice", "--scope", "read")
    assert reader.get(path(web)).ok().json["tunnel"] is None
    key = tunnel["tunnel_key"]
    assert served(service, key) and visit(service, key.upper()).status == 200
    visit(service, key[:-1] + ("0" if key[-1] != "0" else "1")).ok(401)
    visit(service, "abcdefghij" + key[10:]).ok(401)
    visit(service, key, port=70000).ok(421)
    assert alice.post(path(web, "/remove_tunnel")).ok().json == {}
    visit(service, key).ok(401)
    newer = alice.post(path(web, "/enable_tunnel"), {"auth_mode": "authenticated"}).ok().json
    assert newer["tunnel_key"] != key
    visit(service, newer["tunnel_key"]).ok(401)
    bearer = {"X-Runloop-Tunnel-Authorization": f"Bearer {newer['auth_token']}"}
    assert served(service, newer["tunnel_key"], **bearer)
    visit(service, newer["tunnel_key"], **{"X-Runloop-Tunnel-Authorization": "Bearer x"}).ok(401)
    alice.post(path(web, "/remove_tunnel")).ok()


def test_a_tunnel_of_the_older_kind(service, alice, web):
    tunnel = alice.post(path(web, "/create_tunnel"), {"port": 8000}).ok().json
    assert tunnel["devbox_id"] == web["id"] and tunnel["port"] == 8000
    scheme, _, host = tunnel["url"].partition("://")
    assert scheme == "http" and host.startswith("8000-") and host.endswith(f".localhost:{service.port}")
    key = host.partition(".")[0][5:]
    assert served(service, key)
    # Its key opens that port alone, and it is none of the newer kind.
    visit(service, key, port=8001).ok(401)
    assert alice.get(path(web)).ok().json["tunnel"] is None
    assert alice.post(path(web, "/create_tunnel"), {"port": 8000}).ok().json == tunnel
    second = alice.post(path(web, "/create_tunnel"), {"port": 8001}).ok().json["url"]
    other = second.partition("://")[2].partition(".")[0][5:]
    assert other != key
    visit(service, other).ok(401)
    assert visit(service, other, port=8001).status == 502
    alice.post(path(web, "/remove_tunnel"), {"port": 8001}).ok()
    visit(service, other, port=8001).ok(401)
    visit(service, key).ok(200)
    for port in (0, 65536, "x"):
        alice.post(path(web, "/create_tunnel"), {"port": port}).ok(400)
    alice.post(path(web, "/remove_tunnel"), {"port": 8000}).ok()
    visit(service, key).ok(401)
    assert alice.post(path(web, "/create_tunnel"), {"port": 8000}).ok().json["url"] != tunnel["url"]
    alice.post(path(web, "/remove_tunnel")).ok()


def test_a_tunnel_that_an_older_service_made(service, alice, web):
    """Its create_tunnel opened all ports, and so its record has no word of them: without its port it is closed."""
    opened = alice.post(path(web, "/enable_tunnel"), {}).ok().json
    alice.post(path(web, "/remove_tunnel"), {"port": 8000}).ok()
    assert served(service, opened["tunnel_key"])
    metadata = alice.get(at(web["id"])).ok().json["metadata"]
    assert metadata["$runloop"]["tunnel"].pop("all_ports") is True
    alice.patch(at(web["id"]), {"metadata": metadata}).ok()
    alice.post(path(web, "/create_tunnel"), {"port": 8001}).ok()
    alice.post(path(web, "/remove_tunnel"), {"port": 8001}).ok()  # that has one of its own
    assert served(service, opened["tunnel_key"])
    alice.post(path(web, "/remove_tunnel"), {"port": 8000}).ok()
    visit(service, opened["tunnel_key"]).ok(401)
    assert alice.get(path(web)).ok().json["tunnel"] is None


def test_a_tunnel_from_the_beginning(alice):
    made = create(alice, tunnel={"auth_mode": "authenticated"})
    assert made["tunnel"]["auth_mode"] == "authenticated" and made["tunnel"]["auth_token"]
    shut(alice, made)


def test_a_tunnel_ends_with_the_key_that_made_the_devbox(service):
    key = service.make_key("short", "--tenant", "short")
    client = service.client(key["key"])
    made = create(client, tunnel={}, entrypoint=SERVE)
    assert served(service, made["tunnel"]["tunnel_key"])
    service.client().delete(f"/v1/keys/{key['id']}").ok(204)
    visit(service, made["tunnel"]["tunnel_key"]).ok(401)
    service.client().delete(at(made["id"])).ok(204)


# --- tenants -------------------------------------------------------------------------------------


def test_tenants_see_nothing_of_each_other(service, bob):
    owner = service.tenant("owner")
    made = create(owner, tunnel={})
    begun = owner.post(path(made, "/execute_async"), {"command": "sleep 1000"}).ok().json
    snapshot = owner.post(path(made, "/snapshot_disk"), {"name": "mine"}).ok().json
    blueprint = build(owner, name="mine", system_setup_commands=["true"])
    thing = put_object(service, owner, b"mine")
    assert bob.get("/v1/objects").ok().json["objects"] == []
    assert bob.get("/v1/devboxes").ok().json["devboxes"] == []
    assert bob.get("/v1/devboxes/disk_snapshots").ok().json["snapshots"] == []
    assert bob.get("/v1/blueprints").ok().json["blueprints"] == []
    ids = {"id": made["id"], "execution": begun["execution_id"]}
    for method, route in sorted(routes_of(*(f"runloop/{name}.c" for name in TABLES))):
        if "{id}" not in route or route.endswith("create_ssh_key"):
            continue
        if route.endswith("/content"):
            continue  # opened by links
        named = snapshot["id"] if "disk_snapshots" in route else thing["id"] if "objects" in route else blueprint["id"] if "blueprints" in route else made["id"]
        where = route.format(**{**ids, "id": named})
        answer = bob.request(method.upper(), where, {"statuses": ["running"]} if method == "post" else None)
        assert answer.status == 404, (method, where, answer)
    for wish in ({"snapshot_id": snapshot["id"]}, {"blueprint_id": blueprint["id"]}, {"blueprint_name": "mine"}, {"mounts": [mount(thing)]}):
        bob.post("/v1/devboxes", wish).ok(404)
    bob.post("/v1/blueprints", {"name": "x", "dockerfile": "FROM x", "build_context": {"object_id": thing["id"]}}).ok(404)
    assert owner.get(path(made)).ok().json["status"] == "running"
    owner.post(f"/v1/devboxes/disk_snapshots/{snapshot['id']}/delete").ok()
    owner.post(f"/v1/blueprints/{blueprint['id']}/delete").ok()
    owner.post(f"/v1/objects/{thing['id']}/delete").ok()
    shut(owner, made)

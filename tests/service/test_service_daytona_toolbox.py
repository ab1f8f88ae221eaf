"""The toolbox of Daytona's surface on the wire, in both dialects, without any SDK."""

import base64
import json
import shlex
import subprocess
from urllib.parse import quote

import pytest
import websocket

from daytona_wire import CONFIG, NEWEST, Toolbox, begin_cell, box, cell, create, kill, multipart, toolbox  # noqa: F401, F811 (fixtures)
from native import upgrade
from services import eventually


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


@pytest.mark.parametrize("order", ["pairs", "first"])
def test_many_files_at_once(toolbox, order):
    """Clients send as many as they are given."""
    files = tuple((f"many/{i}.txt", b"%d" % i) for i in range(200))
    assert len(toolbox.upload(*files, order=order).ok().json["files"]) == 200
    assert toolbox.download(*(path for path, _ in files)) == dict(files)
    toolbox.delete("/files", path="many", recursive="true").ok(204)


def test_a_large_file_comes_in_pieces(toolbox):
    toolbox.output("head -c 9000000 /dev/urandom > /tmp/large; md5sum /tmp/large > /tmp/sum")
    content = toolbox.download("/tmp/large")["/tmp/large"]
    toolbox.upload(("/tmp/large", content)).ok()
    toolbox.output("md5sum -c /tmp/sum")


def test_one_file_by_its_form(toolbox):
    """And no other: whoever has a signed link chose none."""
    body = multipart([("files[0].path", None, b"other.txt"), ("files[0].file", "y", b"other"), ("file", "x", b"content")])
    kind = {"Content-Type": "multipart/form-data; boundary=XX"}
    toolbox.call("POST", "/files/upload", body, kind, path="single.txt").ok()
    assert toolbox.download("single.txt") == {"single.txt": b"content"}
    assert "other.txt" not in {one["name"] for one in toolbox.get("/files", path=".").ok().json}


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
        ([("files[10000].path", None, b"x"), ("files[10000].file", "x", b"")], "multipart/form-data; boundary=XX"),
        ([("files[-1].path", None, b"x"), ("files[-1].file", "x", b"")], "multipart/form-data; boundary=XX"),
        ([("files[0].path", None, b"x"), ("files[0].path", None, b"y")], "multipart/form-data; boundary=XX"),
        ([("files[0].path", None, b"x"), ("files[1].file", "x", b"")], "multipart/form-data; boundary=XX"),
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


def text_of(events, kind="stdout"):
    return "".join(event["text"] for event in events if event["type"] == kind)


def kernels_or_skip():
    if subprocess.run(["/usr/bin/python3", "-c", "import ipykernel"], capture_output=True).returncode:
        pytest.skip("the Python of this machine, which jails have, has no ipykernel")


def test_cells(alice, box):
    kernels_or_skip()
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


def test_cells_are_followed(alice, box):
    """What a cell shows comes while it runs; whoever goes away, politely or not, leaves its kernel to others."""
    kernels_or_skip()
    toolbox = Toolbox(alice, box)
    endless = "print('begun'); import threading; threading.Event().wait(900); print('never')"
    for leave in (lambda stream: stream.close(timeout=10), lambda stream: stream.shutdown()):
        stream = begin_cell(alice, toolbox, endless)
        assert json.loads(stream.recv())["text"] == "begun\n"
        stream.ping("there?")
        assert stream.recv_data(control_frame=True) == (websocket.ABNF.OPCODE_PONG, b"there?")
        leave(stream)
        assert text_of(cell(alice, toolbox, "print('free')")[0]) == "free\n"


# --- what there is not ---------------------------------------------------------------------------


def test_no_language_servers_and_no_desktop(toolbox):
    answer = toolbox.post("/lsp/start", {"languageId": "cobol", "pathToProject": "/"}).ok(400).json
    assert answer["code"] == "LSP_SERVER_NOT_INITIALIZED" and answer["source"] == "DAYTONA_DAEMON"
    toolbox.post("/computeruse/mouse/scroll", {"x": 1e300, "y": 0, "amount": 1e17}).ok(503)
    toolbox.get("/computeruse/mouse/position").ok(503)
    toolbox.get("/computeruse/a11y/tree").ok(503)
    toolbox.post("/computeruse/a11y/node/invoke", {"id": "1"}).ok(503)
    toolbox.post("/computeruse/recordings/start").ok(503)
    assert toolbox.get("/computeruse/process-status").ok().json == {"status": "inactive"}


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

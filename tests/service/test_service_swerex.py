"""SWE-ReX's own client, unmodified, from PyPI, against the service, and against SWE-ReX's own server: swerex_story.py. Then the
routes without it: who may, and what is refused."""

import pathlib
import socket
import subprocess

import pytest
import yaml

from openapi_document import routes_of
from peers import sdk
from services import PATIENCE, eventually
from trees import ROOT

HERE = pathlib.Path(__file__).parent
STORIES = ("sessions", "failures", "stubborn", "interactive", "commands", "files")


@pytest.fixture
def sandbox(alice):
    made = alice.post("/v1/sandboxes?wait=60", {"plugins": []}).ok(201).json
    yield made["id"]
    alice.delete(f"/v1/sandboxes/{made['id']}")


def tell(python, url, token, story, env):
    words = [python, HERE / "swerex_story.py", url, story]
    done = subprocess.run(map(str, words), env={**env, "SWEREX_TOKEN": token}, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "\ndone\n" in done.stdout, done.stdout[-2000:] + done.stderr[-4000:]


def test_every_route_is_in_the_document():
    document = yaml.safe_load((ROOT / "docs" / "clouds" / "swe-rex.yaml").read_text())
    described = {(m, path) for path, item in document["paths"].items() for m in item if m != "parameters"}
    assert described == routes_of(*(f"swerex/{name}.c" for name in ("swerex", "session", "execute", "files")))


def test_installed():
    """The packages, apart from what is done with them: that takes its time, once."""
    sdk("swe-rex")


@pytest.mark.parametrize("story", STORIES)
def test_story(service, alice, sandbox, story):
    tell(sdk("swe-rex"), f"http://127.0.0.1:{service.port}/swerex/{sandbox}", alice.key, story, service.env)


def test_story_at_home(service, tmp_path):
    """The stories say what SWE-ReX does, not what we would like it to do. Those of shells hold there too, but its server waits a
    tenth of a second for a prompt: on a busy machine that is not long enough."""
    python = sdk("swe-rex")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**service.env, "HOME": str(tmp_path)}
    words = [python, "-m", "swerex.server", "--host", "127.0.0.1", "--port", str(port), "--auth-token", "own"]
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen([*map(str, words)], env=env, cwd=tmp_path, stdout=log, stderr=log)
    try:
        eventually(lambda: answers(port) or server.poll() is not None, "an answer of SWE-ReX's server")
        assert server.poll() is None, (tmp_path / "log").read_text()[-2000:]
        tell(python, f"http://127.0.0.1:{port}", "own", "commands", env)
    finally:
        server.kill()
        server.wait(PATIENCE)


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


# --- without the client ----------------------------------------------------------------------------------------------


def raised(answer):
    assert answer.status == 511, (answer.status, answer.body[:500])
    assert set(answer.json["swerexception"]) == {"message", "class_path", "traceback", "extra_info"}
    return answer.json["swerexception"]["class_path"], answer.json["swerexception"]["message"]


def test_exact_output(alice, sandbox):
    """To the byte, which SWE-ReX itself does not manage."""
    where = f"/swerex/{sandbox}"
    assert alice.post(where + "/create_session", {}).ok().json == {"output": "", "session_type": "bash"}
    for command, output in (
        ("echo one; echo two >&2", "one\ntwo\n"),
        ("printf 'no newline'", "no newline"),
        ("printf '\\033[1;31mred\\033[0m\\033[K\\n'", "red\n"),
        ("printf 'a\\rb\\n'", "a\rb\n"),
        ("", ""),
    ):
        done = alice.post(where + "/run_in_session", {"command": command, "timeout": 20}).ok().json
        assert (done["output"], done["exit_code"]) == (output, 0), command


def test_who_may(service, alice, sandbox):
    bob, nobody = service.tenant("bob"), service.stranger()
    for client, status in ((bob, 404), (nobody, 401)):
        assert client.get(f"/swerex/{sandbox}/is_alive").status == status
        for route in ("create_session", "run_in_session", "close_session", "execute", "read_file", "write_file", "close"):
            answer = client.post(f"/swerex/{sandbox}/{route}", {"command": "true", "path": "/etc/passwd", "content": ""})
            assert answer.status == status, (route, answer.body)
            assert answer.json["detail"]
    assert alice.get(f"/swerex/{sandbox}/is_alive").ok().json == {"is_alive": True, "message": ""}
    assert alice.get("/swerex/aaaaaaaaaa/is_alive").status == 404


def test_refusals(alice, sandbox):
    where = f"/swerex/{sandbox}"
    for route, body in (
        ("create_session", {"session": "../x"}),
        ("create_session", {"session": "x" * 37}),
        ("create_session", {"session": ""}),
        ("execute", {"command": []}),
        ("execute", {"command": [1]}),
        ("execute", {}),
        ("read_file", {}),
        ("write_file", {"path": "/tmp/x"}),
        ("write_file", {"path": "/tmp/x", "content": 1}),
    ):
        kind, message = raised(alice.post(f"{where}/{route}", body))
        assert kind == "builtins.ValueError" and message, (route, body)
    assert raised(alice.post(where + "/read_file", {"path": "/tmp", "encoding": "utf-16"}))[0] == "builtins.LookupError"
    alice.post(where + "/create_session", {}).ok()
    bad = ["(", "(" * 100000, "((x{9999}){9999}){9999}", r"(a*)*\1", "x" * 257, "()" * 17, 7]
    for more in ({"command": 1}, {"command": "true", "timeout": -1}, *({"command": "true", "expect": [one]} for one in bad)):
        assert raised(alice.post(where + "/run_in_session", more))[0] == "builtins.ValueError", more
    assert alice.request("POST", where + "/execute", body=b"[]").status == 400
    assert alice.request("POST", where + "/execute", body=b"{").status == 400
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nzip?\r\n--x%s\r\n'
    fields = b'\r\nContent-Disposition: form-data; name="target_path"\r\n\r\n/tmp/t\r\n--x\r\n' \
             b'Content-Disposition: form-data; name="unzip"\r\n\r\ntrue\r\n--x--'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    raised(alice.request("POST", where + "/upload", body=form % b"--", headers=kind))
    raised(alice.request("POST", where + "/upload", body=form % fields, headers=kind))
    left = alice.post(where + "/execute", {"command": "ls -A /workspace", "shell": True}).ok().json
    assert left["stdout"] == "", "what was uploaded in vain is gone"


def test_busy(alice, sandbox):
    """A second command while one runs is not typed into it, as SWE-ReX would."""
    where = f"/swerex/{sandbox}"
    alice.post(where + "/create_session", {}).ok()
    assert raised(alice.post(where + "/run_in_session", {"command": "cat", "timeout": 1}))[0].endswith("CommandTimeoutError")
    assert raised(alice.post(where + "/run_in_session", {"command": "x", "timeout": 1}))[0].endswith("CommandTimeoutError")
    stopped = alice.post(where + "/run_in_session", {"action_type": "bash_interrupt"}).ok().json
    assert "x" not in stopped["output"]
    stopped = alice.post(where + "/run_in_session", {"action_type": "bash_interrupt"}).ok().json
    assert (stopped["output"], stopped["exit_code"]) == ("", 0)  # there was nothing to interrupt
    assert alice.post(where + "/run_in_session", {"command": "echo ok", "timeout": 20}).ok().json["output"] == "ok\n"

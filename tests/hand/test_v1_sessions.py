"""/v1/sessions: named shells, made, looked at, signalled, reset, killed and removed."""

import threading
import time

import pytest

from client import Shell, done, soft
from harness import needs_root, still_works, wait_until

KEYS = {"name", "shell", "pid", "running", "cwd", "commands", "terminals", "idle_seconds", "age_seconds"}


def session(client, name="main"):
    reply = client.get(f"/v1/sessions/{name}")
    assert reply.status == 200, reply
    assert set(reply.json) == KEYS
    return reply.json


def test_list_and_get(shared_hand, shell):
    everything = shell.get("/v1/sessions").json["sessions"]
    assert {"main", shell.name} <= {s["name"] for s in everything}
    assert all(set(s) == KEYS for s in everything)
    got = session(shell, shell.name)
    assert got["shell"] == "bash" and got["cwd"] == str(shell.dir)
    assert got["pid"] > 1 and got["running"] is False
    assert got["commands"] == 0 and got["terminals"] == 0 and 0 <= got["idle_seconds"] <= got["age_seconds"]


def test_state_follows_what_happens(shell):
    shell.ok("cd /usr")
    pid = int(shell.ok("echo $$"))
    got = session(shell, shell.name)
    assert (got["cwd"], got["pid"], got["commands"]) == ("/usr", pid, 2)
    assert shell.run("sleep 60").suffix == soft(1)
    assert session(shell, shell.name)["running"] is True
    assert shell.interrupt().exit == 130
    assert session(shell, shell.name)["running"] is False


def test_head_has_no_body(shell):
    reply = shell.request("HEAD", f"/v1/sessions/{shell.name}")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["content-length"]) > 2
    assert shell.request("HEAD", "/v1/sessions/nobody").status == 404


def test_create_twice_is_a_conflict(shell):
    reply = shell.post("/v1/sessions", {"name": shell.name})
    assert (reply.status, reply.detail) == (409, f"session {shell.name} exists already")


def test_default_cwd_is_the_workspace(hand):
    assert hand.client.post("/v1/sessions", {"name": "a"}).json["cwd"] == str(hand.workspace)
    assert hand.client.ok("pwd", session="a") == str(hand.workspace)


def test_sh(shared_hand, ws):
    shell = Shell(shared_hand.client, ws.name, ws, program="sh")
    assert session(shell, ws.name)["shell"] == "sh"
    assert shell.ok("echo $0") == "sh"
    shell.remove()


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "a b", "ü", "x" * 41, "a\nb"])
def test_create_with_a_bad_name(shared, name):
    reply = shared.post("/v1/sessions", {"name": name})
    assert reply.status == 400
    assert reply.detail == "a session name has 1 to 40 letters, digits, '-', '_' or '.'"


@pytest.mark.parametrize(
    "body, detail",
    [
        ({}, "name is required"),
        ({"name": None}, "name is required"),
        ({"name": 7}, "name must be a string without NUL"),
        ({"name": "main\0x"}, "name must be a string without NUL"),
        ({"name": "t", "shell": 5}, "shell must be a string without NUL"),
        ({"name": "t", "cwd": ["/"]}, "cwd must be a string without NUL"),
        ({"name": "t", "cwd": "tmp"}, "cwd must be an absolute path"),
        ({"name": "t", "cwd": "/none"}, "cwd: /none/.: No such file or directory"),
        ({"name": "t", "cwd": "/etc/passwd"}, "cwd: /etc/passwd/.: Not a directory"),
        ([], "the body must be a JSON object"),
        (None, "the body must be a JSON object"),
        ("main", "the body must be a JSON object"),
    ],
)
def test_create_with_a_bad_body(shared, body, detail):
    reply = shared.post("/v1/sessions", body)
    assert (reply.status, reply.detail) == (422, detail)
    assert shared.get("/v1/sessions/t").status == 404


def test_create_without_a_body(shared):
    reply = shared.request("POST", "/v1/sessions")
    assert (reply.status, reply.detail) == (422, "name is required")


@pytest.mark.parametrize("body", [b"{", b"{} {}", b"\xff", b'{"name": "\\ud800"}'])
def test_create_with_broken_json(shared, body):
    reply = shared.request("POST", "/v1/sessions", body)
    assert reply.status == 400 and reply.detail, reply


def test_create_with_a_large_body(shared):
    assert shared.request("POST", "/v1/sessions", b" " * (2 << 20)).status == 413


@pytest.mark.parametrize("program", ["/no/such/shell", "no-such-shell", "/etc/passwd", "/tmp"])
def test_create_with_a_shell_that_cannot_run(shared, program):
    reply = shared.post("/v1/sessions", {"name": "t", "shell": program})
    assert reply.status == 422 and program in reply.detail, reply
    assert shared.get("/v1/sessions/t").status == 404


def test_create_with_a_program_that_is_no_shell(shared):
    reply = shared.post("/v1/sessions", {"name": "t", "shell": "/bin/true"})
    assert reply.status == 422 and "/bin/true" in reply.detail, reply
    assert shared.get("/v1/sessions/t").status == 404


def test_too_many_sessions(hand):
    """The 65th is refused with a reason and the others work on."""
    for n in range(63):
        # An action makes its session on the way, and this is faster than a thread for each.
        hand.client.ok("true", session=f"s{n}")
    reply = hand.client.post("/v1/sessions", {"name": "one-more"})
    assert reply.status == 503 and "64" in reply.detail, reply
    assert hand.client.request("DELETE", "/v1/sessions/s0").status == 204
    assert hand.client.post("/v1/sessions", {"name": "one-more"}).status == 201
    still_works(hand.client)


# --- unknown sessions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/reset"),
        ("POST", "/kill"),
        ("GET", "/commands"),
        ("GET", "/terminal"),
    ],
)
@pytest.mark.parametrize("name", ["nobody", "%2e%2e", "a%2Fb", "%ff", "x" * 300])
def test_unknown_session(shared, method, path, name):
    reply = shared.request(method, f"/v1/sessions/{name}{path}")
    assert reply.status == 404 and reply.detail.startswith("no session named "), reply


def test_wrong_method(shared):
    reply = shared.request("PUT", "/v1/sessions/main")
    assert reply.status == 405
    assert {m.strip() for m in reply.headers["allow"].split(",")} == {"GET", "HEAD", "DELETE"}
    assert shared.request("GET", "/v1/sessions/main/reset").status == 405
    assert shared.get("/v1/sessions/main/nothing").status == 404


# --- reset, kill, remove ------------------------------------------------------------------------


def test_reset_starts_afresh(shell):
    pid = shell.ok("cd /usr; export KEPT=1; echo $$")
    reply = shell.post(f"/v1/sessions/{shell.name}/reset", {})
    assert reply.status == 200 and reply.json["running"] is False
    assert shell.ok("echo [$KEPT]; pwd") == f"[]\n{shell.dir}"
    assert shell.ok("echo $$") != pid


def test_kill_keeps_directory_and_environment(shell):
    pid = shell.ok("cd /usr; export KEPT=1; lost=1; echo $$")
    time.sleep(0.1)  # the environment is learned a moment after a command
    assert shell.post(f"/v1/sessions/{shell.name}/kill", {}).status == 200
    assert shell.ok("echo [$KEPT$lost]; pwd") == "[1]\n/usr"
    assert shell.ok("echo $$") != pid


@pytest.mark.parametrize("how", ["reset", "kill"])
def test_ends_what_runs(shell, how):
    assert shell.run("sleep 71.5 & sleep 72.5").suffix == soft(1)
    began = time.monotonic()
    assert shell.post(f"/v1/sessions/{shell.name}/{how}", {}).status == 200
    assert time.monotonic() - began < 4
    assert shell.ok("pgrep -f 'sleep 7[12].5' || echo none") == "none"


def test_ends_an_unfinished_command(shell):
    assert shell.run("cat <<EOF", timeout=0.5).exit == -1
    assert shell.post(f"/v1/sessions/{shell.name}/reset", {}).status == 200
    assert shell.ok("echo free") == "free"


@pytest.mark.parametrize("how", ["reset", "kill", "remove"])
def test_whoever_waits_is_answered(shell, how):
    answers = []
    worker = threading.Thread(
        target=lambda: answers.append(shell.run("sleep 60", blocking=True, timeout=50))
    )
    worker.start()
    wait_until(lambda: session(shell, shell.name)["running"], what="running")
    began = time.monotonic()
    if how == "remove":
        assert shell.request("DELETE", f"/v1/sessions/{shell.name}").status == 204
        assert shell.get(f"/v1/sessions/{shell.name}").status == 404
        assert shell.post("/v1/sessions", {"name": shell.name}).status == 201
    else:
        assert shell.post(f"/v1/sessions/{shell.name}/{how}", {}).status == 200
    worker.join(10)
    assert answers and time.monotonic() - began < 5
    assert answers[0].exit == 137 and answers[0].suffix.startswith(done(137)), answers


def test_reset_of_main(hand):
    hand.client.ok("cd /; export KEPT=1")
    assert hand.client.post("/v1/sessions/main/reset", {}).status == 200
    assert hand.client.ok("echo [$KEPT]; pwd") == f"[]\n{hand.workspace}"


def test_main_cannot_be_removed(shared):
    reply = shared.request("DELETE", "/v1/sessions/main")
    assert reply.status == 409 and "reset" in reply.detail
    still_works(shared)


def test_kill_without_a_shell(shell):
    for _ in range(2):
        reply = shell.post(f"/v1/sessions/{shell.name}/kill", {})
        assert (reply.status, reply.json["pid"]) == (200, None)
    assert shell.ok("echo again") == "again"


def test_removed_means_gone(hand):
    hand.client.post("/v1/sessions", {"name": "t"})
    pid = int(hand.client.ok("sleep 999 & echo $$", session="t").splitlines()[-1])
    before = hand.descriptors()
    assert hand.client.request("DELETE", "/v1/sessions/t").status == 204
    assert hand.client.request("DELETE", "/v1/sessions/t").status == 404
    wait_until(lambda: pid not in hand.left(), what="the shell is gone")
    wait_until(lambda: hand.descriptors() < before, what="its descriptors are closed")


# --- signals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal", ["INT", "SIGINT", "int", 2])
def test_signal(shell, signal):
    shell.run("sleep 60", timeout=0.5)
    reply = shell.post(f"/v1/sessions/{shell.name}/signal", {"signal": signal})
    assert reply.status == 200 and set(reply.json) == KEYS
    assert shell.poll(timeout=5).exit == 130


def test_signal_goes_to_the_whole_program(shell):
    shell.run("sleep 60 | sleep 61 | cat", timeout=0.5)
    assert shell.post(f"/v1/sessions/{shell.name}/signal", {"signal": "KILL"}).status == 200
    assert shell.poll(timeout=5).exit == 137
    assert shell.ok("echo alive") == "alive", "not to the shell"


def test_signal_is_heard_by_a_trap(shell):
    shell.run(
        "bash -c 'trap \"echo heard; exit 3\" USR1; while :; do read -t 0.05; done'", timeout=0.5
    )
    assert shell.post(f"/v1/sessions/{shell.name}/signal", {"signal": "USR1"}).status == 200
    obs = shell.poll(timeout=5)
    assert (obs.exit, obs.content) == (3, "heard")


def test_signal_stop(shell):
    shell.run("sleep 60", timeout=0.3)
    assert shell.post(f"/v1/sessions/{shell.name}/signal", {"signal": "STOP"}).status == 200
    assert shell.poll(timeout=5).exit == 147
    assert shell.ok("jobs | grep -c Stopped") == "1"


def test_signal_when_nothing_runs(shell):
    reply = shell.post(f"/v1/sessions/{shell.name}/signal", {"signal": "INT"})
    assert (reply.status, reply.detail) == (409, f"session {shell.name} runs no command")
    shell.post(f"/v1/sessions/{shell.name}/kill", {})
    reply = shell.post(f"/v1/sessions/{shell.name}/signal", {"signal": "INT"})
    assert (reply.status, reply.detail) == (409, f"session {shell.name} has no shell running")
    assert shell.post("/v1/sessions/nobody/signal", {"signal": "INT"}).status == 404


@pytest.mark.parametrize(
    "signal", [None, 0, -9, 65, 10**20, 2.5, True, "", "SIG", "NOPE", "9", ["INT"], {}]
)
def test_bad_signal(shell, signal):
    reply = shell.post(f"/v1/sessions/{shell.name}/signal", {"signal": signal})
    assert reply.status in (400, 422) and reply.detail
    if reply.status == 422:
        assert reply.detail == 'signal must be a name such as "INT" or a number'


# --- rights -------------------------------------------------------------------------------------


@needs_root()
def test_cwd_is_judged_with_the_rights_of_the_user(start, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    hand = start(username="nobody", env={"SU_TO_USER": "true"})
    reply = hand.client.post("/v1/sessions", {"name": "t", "cwd": str(closed)})
    assert reply.status == 422 and "Permission denied" in reply.detail, reply

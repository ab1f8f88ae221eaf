"""The server around the abilities: command line, start-up, keys, errors, small endpoints."""

import hashlib
import hmac
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from client import Client, NOLOG
from harness import find_binary, free_port, listening, wait_until

GENERIC = "An unexpected error occurred. Please try again later."


# Never the default user: that one would be created in the real system.
OURSELVES = ["--username", "root", "--user-id", "0", "--no-enable-browser"]


def fails(*args, env=None, seconds=15):
    """Runs the binary, which must end by itself with an error; returns its output."""
    with tempfile.TemporaryDirectory() as directory:
        result = subprocess.run(
            [find_binary(), *OURSELVES, *args],
            capture_output=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            env={"PATH": os.environ["PATH"], "HOME": directory, "TMPDIR": directory, **(env or {})},
        )
        assert os.listdir(directory) == []
    text = (result.stdout + result.stderr).decode(errors="replace")
    assert result.returncode != 0, text
    assert "Sanitizer" not in text
    return text


# --- command line -------------------------------------------------------------------------------


def test_classic_command_line(start):
    hand = start(listen="port")
    assert hand.client.get("/alive").json == {"status": "ok"}
    assert hand.client.ok("echo hi") == "hi"


def test_inherited_listener(start):
    hand = start(listen="fd")
    assert hand.client.ok("echo hi") == "hi"


def test_listen_address(start):
    port = free_port()
    hand = start(listen=None, args=["--listen", f"127.0.0.1:{port}"], wait=False)
    hand.client.address = hand.address = ("127.0.0.1", port)
    hand.wait_ready()
    assert hand.client.ok("echo hi") == "hi"


def test_unix_socket_is_private(hand):
    assert os.stat(hand.address).st_mode & 0o077 == 0, "other users could drive the sandbox"


def test_stale_unix_socket_is_replaced(start):
    first = start()
    first.kill9()
    first.tmp.mkdir(exist_ok=True)
    path = first.address
    assert os.path.exists(path)
    second = start(base=first.base, listen=None, args=["--listen", f"unix:{path}"], wait=False)
    second.client.address = second.address = path
    second.wait_ready()


@pytest.mark.parametrize(
    "args, text",
    [
        (["--plugins", "nosuch"], "Plugin nosuch not found"),
        (["--plugins", "vscode", "nosuch"], "Plugin nosuch not found"),
        (
            ["--no-enable-browser", "--browsergym-eval-env", "miniwob"],
            "Browser environment is not enabled in config, but browsergym_eval_env is set",
        ),
    ],
)
def test_start_up_failure(args, text, tmp_path):
    port = str(free_port())
    assert text in fails(
        port, "--working-dir", str(tmp_path), "--username", "root", "--user-id", "0", *args
    )


@pytest.mark.parametrize(
    "args",
    [
        ["notaport"],
        ["70000"],
        ["-1"],
        ["--no-such-option"],
        [],
        ["--user-id", "x", "1234"],
        ["--listen", "unix:"],
        ["--listen", "fd:99"],
        ["--listen", "fd:x"],
        ["--listen", "junk"],
        ["--listen", "127.0.0.1:99999"],
        ["8000", "extra"],
    ],
)
def test_bad_command_line(args):
    text = fails(*args)
    assert text.strip(), "an error must say what was wrong"


def test_port_in_use(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        text = fails(
            str(port),
            "--working-dir",
            str(tmp_path),
        )
        assert str(port) in text


def test_help():
    result = subprocess.run([find_binary(), "--help"], capture_output=True, timeout=10)
    text = result.stdout.decode()
    assert result.returncode == 0
    for option in (
        "--working-dir",
        "--plugins",
        "--username",
        "--user-id",
        "enable-browser",
        "--listen",
        "--key-file",
        "--key-digest",
        "exit-with-parent",
        "--exit-with",
        "confine",
    ):
        assert option in text


# --- who may talk to it -------------------------------------------------------------------------


def test_without_key_only_loopback(start):
    hand = start(listen="port")
    assert listening(hand.address[1]) == {"0100007F"}


def test_with_key_all_interfaces(start):
    hand = start(listen="port", env={"SESSION_API_KEY": "k"})
    assert listening(hand.address[1]) & {"00000000", "0" * 32}


def test_explicit_listen_without_key_warns(start):
    port = free_port()
    hand = start(listen=None, args=["--listen", f"0.0.0.0:{port}"], wait=False)
    hand.client.address = hand.address = ("127.0.0.1", port)
    hand.wait_ready()
    assert re.search("warn", hand.stderr, re.I) and re.search("key", hand.stderr, re.I)


@pytest.fixture(params=["environment", "file", "digest"])
def keyed(request, start, tmp_path):
    if request.param == "environment":
        return start(env={"SESSION_API_KEY": "s3cret-Key"})
    if request.param == "digest":
        # What an image says does not count then.
        digest = hashlib.sha256(b"s3cret-Key").hexdigest()
        return start(args=["--key-digest", digest], env={"SESSION_API_KEY": "wrong"})
    key = tmp_path / "key"
    key.write_text("s3cret-Key\n")
    key.chmod(0o600)
    return start(args=["--key-file", key])


def test_proof(start):
    """What it answers to a nonce: only who knows the digest of the key can, and only for the address that was asked at."""
    digest, nonce = hashlib.sha256(b"s3cret-Key").hexdigest(), "0123456789abcdef" * 4
    hand = start(listen="port", args=["--key-digest", digest])
    for host in ("127.0.0.1", "127.0.0.2"):
        client = Client((host, hand.address[1]))
        answer = client.get(f"/proof?nonce={nonce}")
        text = f"tendon-hand {nonce} {host}:{hand.address[1]}"
        assert answer.json == {"proof": hmac.new(digest.encode(), text.encode(), "sha256").hexdigest()}
    for bad in ("", "?nonce=", f"?nonce={nonce}0", f"?nonce={nonce[:-1]}G", f"?nonce={nonce[:-1]}A"):
        assert hand.client.get(f"/proof{bad}").status == 422


def test_no_proof(start, keyed):
    """Without a key, with one that might be guessed, or where an address says nothing."""
    for env in ({}, {"SESSION_API_KEY": "s3cret-Key"}):
        assert start(listen="port", env=env).client.get(f"/proof?nonce={'0' * 64}").status == 409
    assert keyed.client.get(f"/proof?nonce={'0' * 64}").status == 409


def test_key(keyed):
    client = keyed.client
    for path in ("/alive", "/server_info"):
        assert client.get(path).status == 200
    assert client.get("/alive?x=1").status == 200
    for headers in (
        {},
        {"X-Session-API-Key": ""},
        {"X-Session-API-Key": "wrong"},
        {"X-Session-API-Key": "s3cret-Ke"},
        {"X-Session-API-Key": "s3cret-Key2"},
        {"X-Session-API-Key": "S3CRET-KEY"},
        {"Authorization": "Bearer s3cret-Key"},
    ):
        for method, path in (
            ("GET", "/vscode/connection_token"),
            ("POST", "/execute_action"),
            ("GET", "/nothing"),
            ("POST", "/list_files"),
            ("GET", "/alive/"),
            ("GET", "/ALIVE"),
            ("GET", "/v1/sessions"),
            ("GET", "/mcp/sse"),
            ("GET", "/mcpx"),
            ("DELETE", "/upload_file"),
            ("GET", "/server_info/x"),
        ):
            if "Authorization" in headers and path.startswith("/mcp/"):
                continue  # there it is as good as the other header
            reply = client.request(method, path, headers=headers)
            assert (reply.status, reply.json) == (403, {"detail": "Invalid API Key"}), (
                method,
                path,
                headers,
            )
    good = Client(keyed.address, {"x-session-api-key": "s3cret-Key"})
    assert good.ok("echo hi") == "hi"
    assert good.get("/nothing").status == 404


def test_missing_or_empty_key_file(tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("")
    for path in (empty, tmp_path / "missing"):
        text = fails(
            "--listen",
            f"unix:{tmp_path}/s",
            "--key-file",
            str(path),
            "--working-dir",
            str(tmp_path),
        )
        assert str(path) in text


def test_wrong_digest(tmp_path):
    key = tmp_path / "key"
    key.write_text("k")
    digest = hashlib.sha256(b"k").hexdigest()
    for args in (["abc"], [digest.upper()], [""], [digest, "--key-file", str(key)]):
        text = fails("--listen", f"unix:{tmp_path}/s", "--working-dir", str(tmp_path), "--key-digest", *args)
        assert "--key-digest" in text


def test_empty_key_means_open(start):
    assert start(env={"SESSION_API_KEY": ""}).client.ok("echo hi") == "hi"


def test_key_is_never_logged(start):
    hand = start(env={"SESSION_API_KEY": "do-not-print-me", "DEBUG": "true"})
    hand.client.get("/nothing", headers={"X-Session-API-Key": "do-not-print-me"})
    hand.client.get("/nothing", headers={"X-Session-API-Key": "do-not-print-me-wrong"})
    assert "do-not-print-me" not in hand.stderr


def test_the_id_of_a_request_is_logged(start):
    """A service in front gives each request an id, by which it is found in both logs."""
    hand = start(env={"TENDON_LOG": "debug"})
    hand.client.get("/nothing", headers={"X-Request-Id": "r-17"})
    hand.client.get("/nothing", headers={"X-Request-Id": "x" * 1000})
    wait_until(lambda: hand.stderr.count("/nothing") == 2)
    assert "r-17" in hand.stderr and "xxx" not in hand.stderr


# --- start-up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", ["unix", "fd", "port"])
def test_the_first_2xx_of_alive_means_ready(start, listen):
    hand = start(listen=listen, wait=False)
    wait_until(lambda: hand.alive() == 200, 20)
    assert hand.client.ok("alias git") == "alias git='git --no-pager'"
    assert hand.client.list_files() == []


def test_broken_rc_file_does_not_stop_start_up(start):
    base = start.base()
    os.mkdir(f"{base}/home")
    with open(f"{base}/home/.bashrc", "w") as f:
        f.write("echo noise; (((; nonsense\nfi\nPS1='bad> '; PROMPT_COMMAND='echo never'\n")
    hand = start(base=base)
    assert hand.client.ok("echo hi") == "hi"


def test_rc_file_output_is_not_in_the_first_observation(start):
    base = start.base()
    os.mkdir(f"{base}/home")
    with open(f"{base}/home/.bashrc", "w") as f:
        f.write("echo welcome message\n")
    assert start(base=base).client.ok("echo first") == "first"


def test_working_directory_is_created(start):
    base = start.base()
    hand = start(base=base, workspace=None)
    shutil.rmtree(hand.workspace)
    hand.stop()
    again = start(
        base=base,
        listen=None,
        args=["--listen", f"unix:{base}/s2", "--working-dir", f"{base}/made/by/it"],
        wait=False,
    )
    again.client.address = again.address = f"{base}/s2"
    again.wait_ready()
    assert again.client.ok("pwd") == f"{base}/made/by/it"
    assert os.path.isdir(f"{base}/made/by/it")


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_shutdown(start, sig):
    hand = start()
    hand.client.ok(
        "sleep 1000 & (setsid sleep 1001 &) ; trap '' HUP TERM; nohup sleep 1002 >/dev/null 2>&1 &"
    )
    hand.client.run("sleep 1003", timeout=0.3)
    os.kill(hand.pid, sig)
    assert hand.process.wait(8) in (0, 128 + sig, -sig)
    hand.stopped = True
    assert hand.leftovers() == []


def test_shutdown_while_a_request_is_waiting(start):
    hand = start()
    answers = []

    def wait():
        try:
            answers.append(hand.client.run("sleep 100", blocking=True, timeout=100.0))
        except Exception as error:  # the connection may die with the server
            answers.append(error)

    worker = threading.Thread(target=wait)
    worker.start()
    wait_until(lambda: any("sleep 100" in c for c in hand.left().values()))
    hand.stop()
    worker.join(5)
    assert not worker.is_alive()


def test_shutdown_while_commands_keep_coming(start):
    hand = start()
    over = threading.Event()

    def work(name):
        while not over.is_set():
            try:
                hand.client.run("sleep 0.01", session=name, timeout=2.0)
                hand.client.run("true", is_static=True, timeout=2.0)
            except Exception:  # the connection may die with the server
                pass

    workers = [threading.Thread(target=work, args=(f"s{n}",)) for n in range(4)]
    for worker in workers:
        worker.start()
    try:
        wait_until(lambda: len(hand.left()) > 4)
        hand.stop()
    finally:
        over.set()
        for worker in workers:
            worker.join(10)


def test_shutdown_right_after_the_start(start):
    """A shell that is started while everything ends must not be waited for in vain."""
    for _ in range(6):
        hand = start()
        os.kill(hand.pid, signal.SIGTERM)
        for _ in range(2):
            try:
                hand.client.run("echo late", timeout=3.0)
            except Exception:  # refused, or the connection died with the server
                pass
        assert hand.process.wait(8) in (0, 143, -signal.SIGTERM)
        hand.stopped = True
        assert hand.leftovers() == []


# --- errors -------------------------------------------------------------------------------------


def test_unknown_route_and_method(shared):
    reply = shared.get("/nothing/here")
    assert (reply.status, reply.json) == (404, {"detail": "Not Found"})
    for method, path in (
        ("POST", "/alive"),
        ("GET", "/execute_action"),
        ("DELETE", "/list_files"),
        ("PUT", "/upload_file"),
    ):
        reply = shared.request(method, path)
        assert (reply.status, reply.json) == (405, {"detail": "Method Not Allowed"}), path
        assert reply.headers["allow"]


def test_head(shared):
    reply = shared.request("HEAD", "/alive")
    assert reply.status in (200, 405) and reply.body == b""


@pytest.mark.parametrize(
    "body",
    [{}, {"action": "run"}, {"action": None}, {"action": []}, {"other": {}}, [], "x", 1, None],
)
def test_body_without_action(shared, body):
    reply = shared.post("/execute_action", body)
    assert reply.status == 422
    assert reply.json["detail"] == "Invalid request parameters"
    assert type(reply.json["errors"]) is str and reply.json["errors"]


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"action": "run"},
        {"action": "run", "args": {}},
        {"action": "frobnicate", "args": {}},
        {"action": 7, "args": {}},
        {"action": "run", "args": {"command": 7}},
        {"action": "run", "args": []},
        {"action": "read", "args": {}},
        {"action": "run", "args": {"command": "x", "is_input": "maybe"}},
        {"action": "edit", "args": {"path": 5}},
        {"action": "write", "args": {"path": "/x"}},
    ],
)
def test_malformed_action(shared, action):
    reply = shared.post_action(action, timeout=10)
    assert reply.status == 500
    assert reply.detail.startswith("Internal server error: ") and len(reply.detail) > len(
        "Internal server error: "
    )


def test_observation_instead_of_action(shared):
    reply = shared.post_action(
        {"observation": "run", "content": "x", "extras": {"command": "ls"}}, timeout=10
    )
    assert (reply.status, reply.json) == (
        500,
        {"detail": "Internal server error: 400: Invalid action type"},
    )


@pytest.mark.parametrize(
    "kind, args",
    [
        ("think", {"thought": "x"}),
        ("finish", {}),
        ("message", {"content": "x"}),
        ("call_tool_mcp", {"name": "x"}),
        ("null", {}),
    ],
)
def test_action_without_handler(shared, kind, args):
    reply = shared.post_action({"action": kind, "args": args}, timeout=10)
    assert reply.status == 500
    assert (
        reply.detail == f"Internal server error: 'ActionExecutor' object has no attribute '{kind}'"
    )


@pytest.mark.parametrize(
    "kind, args",
    [
        ("browse", {"url": "http://localhost"}),
        ("browse_interactive", {"browser_actions": "noop()"}),
    ],
)
def test_browser_disabled(shared, kind, args):
    obs = shared.act(kind, args)
    assert (obs.type, obs.content) == (
        "error",
        "Browser functionality is not supported or disabled.",
    )


def test_ipython_without_plugin(shared):
    reply = shared.post_action({"action": "run_ipython", "args": {"code": "1"}, "timeout": 5.0})
    assert reply.status in (200, 500)
    if reply.status == 500:
        assert reply.detail.startswith("Internal server error: ")
    else:
        assert reply.json["observation"] in ("error", "run_ipython")


def test_unknown_keys_are_tolerated(shared):
    reply = shared.post(
        "/execute_action",
        {
            "action": {
                "id": 12,
                "timestamp": "2025-11-28T10:00:00.000000",
                "source": "agent",
                "message": "Running command: ls",
                "cause": 11,
                "action": "run",
                "tool_call_metadata": {"a": [1, {"b": None}]},
                "llm_metrics": {},
                "timeout": 10.0,
                "unknown": [],
                "args": {
                    "command": "echo ok",
                    "thought": "hm",
                    "confirmation_state": "confirmed",
                    "security_risk": 7,
                    "is_input": False,
                    "blocking": False,
                    "is_static": False,
                    "cwd": None,
                    "hidden": False,
                    "keep_prompt": True,
                    "is_confirmed": "confirmed",
                    "timestamp": 1,
                    "task_completed": "y",
                    "something_new": {"x": 1},
                },
            },
            "more": 1,
        },
    )
    assert reply.status == 200 and reply.json["content"] == "ok"


# --- small endpoints ----------------------------------------------------------------------------


def test_alive(shared):
    reply = shared.get("/alive")
    assert (reply.status, reply.json) == (200, {"status": "ok"})
    assert reply.headers["content-type"].startswith("application/json")


def check_stats(info):
    assert set(info) == {"uptime", "idle_time", "resources"}
    assert type(info["uptime"]) is float and type(info["idle_time"]) is float
    stats = info["resources"]
    assert set(stats) == {"cpu_percent", "memory", "disk", "io"}
    assert type(stats["cpu_percent"]) is float and stats["cpu_percent"] >= 0
    assert set(stats["memory"]) == {"rss", "vms", "percent"}
    assert (
        type(stats["memory"]["rss"]) is int and 0 < stats["memory"]["rss"] <= stats["memory"]["vms"]
    )
    assert type(stats["memory"]["percent"]) is float and 0 <= stats["memory"]["percent"] <= 100
    disk = stats["disk"]
    assert set(disk) == {"total", "used", "free", "percent"}
    assert (
        all(type(disk[k]) is int for k in ("total", "used", "free"))
        and disk["used"] + disk["free"] <= disk["total"]
    )
    assert type(disk["percent"]) is float and 0 <= disk["percent"] <= 100
    assert set(stats["io"]) == {"read_bytes", "write_bytes"}
    assert all(type(v) is int and v >= 0 for v in stats["io"].values())


def test_server_info_shape(shared):
    for _ in range(3):
        reply = shared.get("/server_info")
        assert reply.status == 200
        check_stats(reply.json)


def test_server_info_times(hand):
    first = hand.client.get("/server_info").json
    assert first["uptime"] >= first["idle_time"] >= 0
    wait_until(lambda: hand.client.get("/server_info").json["idle_time"] > first["idle_time"] + 0.2)
    later = hand.client.get("/server_info").json
    assert later["uptime"] > first["uptime"] + 0.2
    hand.client.ok(":")
    assert hand.client.get("/server_info").json["idle_time"] < later["idle_time"]


def test_idle_time_counts_from_the_start_of_the_action(hand):
    hand.client.ok("sleep 0.8")
    assert hand.client.get("/server_info").json["idle_time"] >= 0.8


def test_idle_time_is_reset_by_failures_too(hand):
    wait_until(lambda: hand.client.get("/server_info").json["idle_time"] > 0.3)
    assert hand.client.run("").content == NOLOG
    assert hand.client.get("/server_info").json["idle_time"] < 0.3


def test_server_info_while_busy(hand):
    hand.client.run("sleep 60", timeout=0.2)
    began = time.monotonic()
    check_stats(hand.client.get("/server_info").json)
    assert time.monotonic() - began < 2
    hand.client.input("C-c")


def test_connection_token(shared):
    reply = shared.get("/vscode/connection_token")
    assert (reply.status, reply.json) == (200, {"token": None})


MCP_ABSENT = (500, {"detail": "MCP Proxy Manager is not initialized"})


def test_update_mcp_server(shared):
    for body in ({}, {"name": "x"}, "x", 1, None):
        reply = shared.post("/update_mcp_server", body)
        assert reply.status == 400, body
        assert reply.json == {"detail": "Request must be a list of MCP tools to sync"}
    reply = shared.post("/update_mcp_server", [])
    updated = {"detail": "MCP server updated successfully", "router_error_log": ""}
    assert (reply.status, reply.json) == (200, updated)


@pytest.mark.parametrize(
    "entry",
    [
        1,
        "x",
        {},
        {"name": "", "command": "x"},
        {"name": "a b", "command": "x"},
        {"name": "a", "command": ""},
        {"name": "a", "command": "x y"},
        {"name": "a"},
        {"name": "a", "command": "x", "args": 5},
        {"name": "a", "command": "x", "env": 5},
        {"name": "a", "command": "x", "env": "1X=2"},
    ],
)
def test_update_mcp_server_with_invalid_entries(shared, entry):
    reply = shared.post("/update_mcp_server", [entry])
    assert (reply.status, reply.json) == (500, {"detail": GENERIC})

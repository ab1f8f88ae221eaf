"""When there is an editor, when there is none and what is said then, and what becomes of it."""

import json
import os
import signal
import socket
import stat
import threading

import pytest

from harness import census, listening, needs_root, wait_until

SETTINGS = {
    "workbench.colorTheme": "Default Dark Modern",
    "workbench.startupEditor": "none",
    "chat.commandCenter.enabled": False,
}

EVERYWHERE = "0" * (32 if os.path.exists("/proc/net/if_inet6") else 8)  # of both families, where there are two


# --- the conditions -----------------------------------------------------------------------------


def said(editor, text):
    return wait_until(lambda: text in editor.hand.stderr, 30, f"{text!r} in the log")


@pytest.mark.parametrize(
    "env, reason",
    [
        ({"VSCODE_PORT": None}, "VSCODE_PORT is not set"),
        ({"VSCODE_PORT": ""}, "VSCODE_PORT is not set"),
        ({"VSCODE_PORT": "x"}, "VSCODE_PORT is x: expected a number"),
        ({"VSCODE_PORT": "0"}, "VSCODE_PORT is 0: expected a number"),
        ({"VSCODE_PORT": "65536"}, "VSCODE_PORT is 65536: expected a number"),
        ({"TENDON_VSCODE": "/nowhere/code-server"}, "there is no such program"),
        ({"TENDON_VSCODE": "/bin/true"}, "expected an openvscode-server or a code-server"),
        ({"OPENVSCODE_SERVER_BASE_PATH": "a b"}, "the base path /a b holds what no path should"),
    ],
)
def test_disabled_and_says_so(fresh, env, reason):
    editor = fresh(env=env)
    said(editor, "plugin not started")
    assert editor.token is None
    assert reason in editor.hand.stderr


def test_no_program(fresh):
    editor = fresh(env={"TENDON_VSCODE": "", "PATH": "/usr/bin:/bin"})
    said(editor, "no openvscode-server or code-server in this sandbox")
    assert editor.token is None
    status = editor.status
    assert status["usable"] is False and "code-server" in status["install"]
    reply = editor.client.post("/v1/vscode", {})
    assert reply.status == 501 and "no openvscode-server" in reply.detail
    assert reply.detail.endswith("; to get it: npm install -g code-server")


def test_other_users_have_none(fresh):
    editor = fresh(username="somebody", env={"USER": "somebody"})
    said(editor, "user somebody: the editor runs as root, openhands")
    assert editor.token is None


def test_not_asked_for(fresh):
    editor = fresh(plugins=False)
    assert editor.token is None and editor.status["port"] is None
    assert not listening(editor.port)


def test_port_is_busy(fresh):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        editor = fresh(env={"VSCODE_PORT": str(port)})
        said(editor, f"port {port}: address already in use")
        assert editor.token is None
        place = editor.client.post("/v1/vscode", {}).json  # the owner still gets one
        assert place["port"] != port and place["loopback"] is True


def test_found_in_path(fresh):
    editor = fresh(env={"TENDON_VSCODE": None})
    directory = editor.hand.base / "bin"
    editor.hand.stop()
    editor = fresh(env={"TENDON_VSCODE": None, "PATH": f"/nowhere::{directory}:/usr/bin:/bin"})
    assert editor.status["found"] == str(directory / "code-server")
    assert editor.ask("GET", "/x").status == 200


def test_only_a_hand_with_a_key_listens_beyond_loopback(fresh):
    editor = fresh(env={"SESSION_API_KEY": None})
    editor.wait_token()
    assert listening(editor.port) == {"0100007F"}
    assert editor.request("GET", "/").status == 403
    editor = fresh()
    editor.wait_token()
    assert listening(editor.port) == {EVERYWHERE}


# --- on demand ----------------------------------------------------------------------------------


@pytest.mark.parametrize("port", [None, "given"])
def test_the_owner_can_ask_for_it_at_any_time(fresh, port):
    editor = fresh(plugins=False, env={} if port else {"VSCODE_PORT": None})
    reply = editor.client.post("/v1/vscode", {})
    assert reply.status == 200, reply
    place = reply.json
    assert place["loopback"] is (port is None) and place["base"] == ""
    assert place["page"] == f"/?tkn={editor.token}&folder={editor.hand.workspace}"
    assert editor.status["running"] is True and editor.status["port"] == place["port"]
    if port:
        assert place["port"] == editor.port
    editor.port = place["port"]
    assert listening(editor.port) == {EVERYWHERE if port else "0100007F"}
    assert editor.request("GET", place["page"]).status == 302
    assert editor.ask("GET", "/x").status == 200
    assert editor.client.post("/v1/vscode", {}).json == place
    assert not (editor.hand.workspace / ".vscode").exists()  # nobody asked for settings


def test_on_demand_needs_the_key(fresh):
    editor = fresh(plugins=False)
    editor.client.headers.clear()
    assert editor.client.post("/v1/vscode", {}).status == 403
    assert editor.client.get("/vscode/connection_token").status == 403


def test_stop_and_start(fresh):
    editor = fresh()
    editor.enter()
    pid = json.loads(editor.ask("GET", "/x").data)["pid"]
    reply = editor.client.post("/v1/plugins/vscode/stop", {})
    assert reply.status == 200 and reply.json["running"] is False and reply.json["port"] is None
    assert not os.path.exists(f"/proc/{pid}") and not listening(editor.port)
    assert editor.token is None
    assert editor.client.post("/v1/plugins/vscode/start", {}).status == 200
    assert editor.ask("GET", "/x").status == 200  # the same token and cookie


# --- settings, paths, user ------------------------------------------------------------------------


def test_settings(fresh):
    editor = fresh()
    path = editor.hand.workspace / ".vscode/settings.json"
    wait_until(lambda: path.exists() and path.read_text().endswith("}\n"), 30, "settings")
    assert json.loads(path.read_text()) == SETTINGS
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_settings_of_the_project_stay(fresh, tmp_path):
    own = tmp_path / "work/.vscode/settings.json"
    own.parent.mkdir(parents=True)
    own.write_text("{}")
    editor = fresh(workspace=tmp_path / "other", env={"WORKSPACE_BASE": str(tmp_path / "work")})
    editor.enter()
    assert own.read_text() == "{}" and not (tmp_path / "other/.vscode").exists()


@pytest.mark.parametrize(
    "env, base",
    [
        ({"OPENVSCODE_SERVER_BASE_PATH": "one/two/"}, "/one/two"),
        ({"OPENVSCODE_SERVER_BASE_PATH": "/one"}, "/one"),
        ({"RUNTIME_URL": "https://h/id7/", "RUNTIME_ID": "id7"}, "/id7/vscode"),
        ({"RUNTIME_URL": "https://h/other", "RUNTIME_ID": "id7"}, ""),
        ({"RUNTIME_URL": "https://id7.h", "RUNTIME_ID": "id7"}, ""),
    ],
)
@pytest.mark.parametrize("name", ["code-server", "openvscode-server"])
def test_base_path(fresh, env, base, name):
    editor = fresh(env=env, name=name)
    editor.enter(base)
    assert editor.base.startswith(base + "/") and editor.base.count("/") == base.count("/") + 1
    said = json.loads(editor.ask("GET", "/x?y").data)
    if name == "code-server":
        assert said["target"] == "/x?y" and "--server-base-path" not in said["argv"]
    else:
        assert said["target"] == editor.base + "/x?y"
        assert said["argv"][said["argv"].index("--server-base-path") + 1] == editor.base
    assert editor.client.post("/v1/vscode", {}).json["base"] == base


def test_how_it_is_called(fresh):
    editor = fresh(env={"VSCODE_IPC_HOOK_CLI": "/x", "WORKSPACE_MOUNT_PATH_IN_SANDBOX": "/usr"})
    location = editor.enter().headers["Location"]
    assert location.endswith("/?folder=/usr")
    said = json.loads(editor.ask("GET", "/x").data)
    assert said["cwd"] == "/usr"
    assert {"--auth", "none", "--disable-telemetry", "--disable-update-check"} <= set(said["argv"])
    assert "VSCODE_IPC_HOOK_CLI" not in said["env"] and "SESSION_API_KEY" not in said["env"]
    directory = said["env"]["XDG_RUNTIME_DIR"]
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert os.path.dirname(said["argv"][said["argv"].index("--socket") + 1]) == directory


def test_a_directory_too_deep_for_a_socket(fresh, tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    editor = fresh(tmp=deep)
    assert editor.ask("GET", "/x").status == 200


@needs_root()
def test_it_runs_as_the_user_of_the_sandbox(fresh):
    editor = fresh(username="nobody", env={"SU_TO_USER": "true", "RUNTIME_USERNAME": "nobody"})
    editor.enter()
    said = json.loads(editor.ask("GET", "/x", None, {}).data)
    assert said["uid"] == os.stat(said["env"]["XDG_RUNTIME_DIR"]).st_uid != 0
    settings = editor.hand.workspace / ".vscode/settings.json"
    assert wait_until(settings.exists, 30) and settings.stat().st_uid == said["uid"]


@needs_root()
def test_a_link_does_not_lead_the_hand_to_what_only_root_can_reach(fresh, tmp_path):
    editor = fresh(username="nobody", env={"SU_TO_USER": "true", "RUNTIME_USERNAME": "nobody"})
    editor.enter()
    said = json.loads(editor.ask("GET", "/x").data)
    path = said["argv"][said["argv"].index("--socket") + 1]
    with socket.socket(socket.AF_UNIX) as secret:
        secret.bind(str(tmp_path / "secret"))
        os.chmod(tmp_path / "secret", 0o600)
        secret.listen()
        os.unlink(path)
        os.symlink(tmp_path / "secret", path)
        response = editor.ask("GET", "/x")
        assert response.status != 200 and b"expected a socket, found a symbolic link" in response.data
        secret.setblocking(False)
        with pytest.raises(BlockingIOError):
            secret.accept()


# --- its end --------------------------------------------------------------------------------------


def test_a_crash_is_told_and_the_next_visit_works(fresh):
    editor = fresh()
    first = json.loads(editor.ask("GET", "/x").data)["pid"]
    response = editor.ask("GET", "/crash")
    assert response.status == 502
    assert b"the editor ended with exit code 7: giving up" in response.data
    assert editor.status["running"] is False
    second = json.loads(editor.ask("GET", "/x").data)["pid"]
    assert second != first and editor.status["restarts"] == 1


@pytest.mark.concurrent
def test_kill_9_while_it_answers(fresh):
    editor = fresh()
    editor.enter()
    pid = json.loads(editor.ask("GET", "/x").data)["pid"]
    answers = []
    visitor = threading.Thread(target=lambda: answers.append(editor.ask("GET", "/hang")))
    visitor.start()
    wait_until((editor.notes / "hangs").exists, 30, "the request")
    os.kill(pid, signal.SIGKILL)
    visitor.join(30)
    assert answers[0].status == 502 and b"was ended by SIGKILL" in answers[0].data
    assert editor.ask("GET", "/x").status == 200


def test_it_cannot_start(fresh):
    editor = fresh(env={"FAKE_FAILS": "1"})
    response = editor.ask("GET", "/x")
    assert response.status == 502
    assert b"the editor ended with exit code 1: the fake cannot start" in response.data
    reply = editor.client.post("/v1/vscode", {})
    assert reply.status == 502 and "the fake cannot start" in reply.detail


@pytest.mark.parametrize("ask", ["a visit", "the owner"])
def test_one_that_ends_when_it_is_asked_is_asked_again(fresh, ask):
    editor = fresh(env={"FAKE_FAILS": "once"})
    if ask == "a visit":
        assert editor.ask("GET", "/x").status == 200
    else:
        assert editor.client.post("/v1/vscode", {}).status == 200
    assert (editor.notes / "failed").exists() and editor.starts() == 1


def test_a_visitor_who_leaves_is_noticed(fresh):
    editor = fresh()
    editor.enter()
    connection = editor.connection()
    connection.request("GET", editor.base + "/hang", None, {"Cookie": editor.cookie})
    wait_until((editor.notes / "hangs").exists, 30, "the request")
    assert not (editor.notes / "left").exists()
    connection.close()
    wait_until((editor.notes / "left").exists, 30, "the end of the visit")
    assert editor.starts() == 1 and editor.ask("GET", "/x").status == 200


def test_the_hand_ends_under_a_visit(fresh):
    editor = fresh()
    editor.enter()
    connection = editor.upgrade("/socket", {})
    assert connection.getresponse().status == 101
    other = editor.connection()
    other.request("GET", editor.base + "/hang", None, {"Cookie": editor.cookie})
    wait_until((editor.notes / "hangs").exists, 30, "the request")
    editor.hand.stop(20)  # which looks for leftovers
    connection.close()
    other.close()


def test_kill_9_of_the_hand_leaves_nothing(fresh):
    editor = fresh()
    editor.ask("GET", "/x")
    hand = editor.hand
    hand.kill9()
    later = fresh(tmp=hand.tmp)
    wait_until(lambda: not census(hand.mark), 30, "no process of the first")
    later.hand.stop()
    assert not list(hand.tmp.iterdir())

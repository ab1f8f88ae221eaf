"""The hand as an OpenHands host starts it, in a Debian image that knows nothing of it."""

import json

import pytest

from client import done, hard
from harness import wait_until
from images import IMAGE_PATH, script_tar

pytestmark = pytest.mark.timeout(60, func_only=True)

PORT = 34567
KEY = "correct-horse"
ARGS = ["--working-dir", "/workspace", "--username", "openhands", "--user-id", "1000"]
OPTIONS = [
    "--entrypoint=",
    "--workdir=/openhands/code/",
    f"--env=port={PORT}",
    "--env=PYTHONUNBUFFERED=1",
    "--env=VSCODE_PORT=41234",
    "--env=APP_PORT_1=51234",
    "--env=APP_PORT_2=56789",
    "--env=PIP_BREAK_SYSTEM_PACKAGES=1",
    "--env=OPENHANDS_SESSION_ID=test",
    "--env=NO_CHANGE_TIMEOUT_SECONDS=1",
]


@pytest.fixture
def create(debian):
    """create(*options) -> a Container, not started; the hand is a file in it, as a host copies it."""

    def create(*options):
        args = [*ARGS, "--no-enable-browser"]
        return debian.create(*args, options=[*OPTIONS, *options], port=PORT, copy=True, key=KEY)

    return create


@pytest.fixture
def box(create):
    return create().start()


@pytest.fixture
def client(box):
    return box.client


def add_env_vars(client, **variables):
    """As the host does it: for the shell that runs, and for those to come."""
    now = later = ""
    for name, value in variables.items():
        text = json.dumps(value)
        now += f"export {name}={text}; "
        later += (
            f'touch ~/.bashrc; grep -q "^export {name}=" ~/.bashrc || '
            f'echo "export {name}={text}" >> ~/.bashrc; '
        )
    client.ok(now.strip())
    client.ok(later.strip())


# --- the server -------------------------------------------------------------------------------------


def test_key(box, client):
    assert client.get("/alive", headers={"X-Session-API-Key": ""}).status == 200
    reply = client.get("/list_files", headers={"X-Session-API-Key": "wrong"})
    assert (reply.status, reply.json) == (403, {"detail": "Invalid API Key"})
    assert KEY not in client.ok("env"), "the key is for the host"
    assert client.run("cat /proc/1/environ").exit == 1
    assert KEY not in box.logs()


def test_listens_on_all_interfaces(client):
    """Ports that a container publishes reach its outer interface."""
    assert f"00000000:{PORT:04X} 00000000:0000 0A" in client.ok("cat /proc/net/tcp")


def test_is_the_first_process(client):
    assert client.ok("cat /proc/1/comm; readlink /proc/$$/exe") == "tendon-hand\n/usr/bin/bash"


# --- the user ---------------------------------------------------------------------------------------


def test_user_and_home(client):
    obs = client.run("id -un; id -u; id -gn; echo $USER $LOGNAME $HOME $SHELL; pwd")
    assert obs.content == (
        "openhands\n1000\nroot\nopenhands openhands /home/openhands /bin/bash\n/workspace"
    )
    assert obs.meta["username"] == "openhands"
    assert client.ok("getent passwd openhands") == "openhands:x:1000:0::/home/openhands:/bin/bash"
    obs = client.run("cd && touch file && stat -c '%U %n' . file")
    assert (obs.content, obs.cwd) == ("openhands .\nopenhands file", "/home/openhands")
    assert client.run("sudo true").exit == 127
    assert client.run("touch /etc/file").exit == 1
    assert client.run("cat /etc/shadow").exit == 1


def test_user_belongs_to_sudo_also_for_others(box, client):
    assert client.ok("id -Gn") == "root sudo"
    assert box.exec("id", "-Gn", user="openhands") == "root sudo"


def test_workspace(client):
    assert client.ok("stat -c '%U %G %A' /workspace") == "openhands root drwxrwxr-x"
    assert client.ok("ls -l") == "total 0"
    client.ok("echo x > from-shell; mkdir dir")
    client.write("/workspace/from-write", "x")
    client.edit("create", "/workspace/from-edit", file_text="x")
    client.upload("from-upload", b"x", "/workspace/dir")
    lines = [line.split() for line in client.ok("ls -lR").splitlines() if "root" in line]
    assert {(fields[8], fields[2]) for fields in lines} == {
        (name, "openhands")
        for name in ("dir", "from-shell", "from-write", "from-edit", "from-upload")
    }


def test_mounted_workspace_becomes_the_users(create, tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    (tmp_path / "link").symlink_to("/etc/hostname")
    client = create(f"--volume={tmp_path}:/workspace").start().client
    assert client.ok("find /workspace ! -user openhands") == ""
    client.ok("echo more >> a/b/file")
    assert inner.joinpath("file").read_text() == "xmore\n"
    assert client.ok("stat -L -c %U /workspace/link") == "root"


def test_environment_of_the_image_is_kept(create):
    box = create()
    tar = script_tar(box.shared / "tar", "opt/tool/bin/tool", b"#!/bin/sh\necho a tool\n")
    with open(tar, "rb") as f:
        box.engine.docker("cp", "-", f"{box.id}:/", stdin=f)
    client = box.start().client
    assert client.ok("echo $PATH") == IMAGE_PATH
    assert client.ok("tool; echo $FROM_THE_IMAGE $PIP_BREAK_SYSTEM_PACKAGES") == "a tool\nyes 1"


# --- shells -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["bash", "sh"])
def test_shells(box, program):
    shell = box.shell(program)
    assert shell.run("cd /usr; x=1").cwd == "/usr"
    assert shell.ok("echo $x $(pwd) $(readlink /proc/$$/exe)").split()[:2] == ["1", "/usr"]
    assert shell.run("(exit 7)").suffix == done(7)
    assert shell.ok("cat <<E\n$x\nE") == "1"
    for command in ("sleep 100", "while :; do :; done", "while :; do sleep 0.01; done"):
        obs = shell.run(command, timeout=0.3)
        assert (obs.exit, obs.suffix) == (-1, hard(0.3))
        obs = shell.input("C-c")
        assert (obs.exit, obs.suffix) == (130, done(130, "C"))
    assert shell.ok("echo $x") == "1"
    assert shell.run("exit 4").exit == 4
    assert shell.run("pwd").content == "/usr"


def test_static_commands(client):
    obs = client.run("pwd; id -un", is_static=True, hidden=True, cwd="/usr")
    assert (obs.exit, obs.content, obs.cwd) == (0, "/usr\nopenhands", "/usr")


# --- life -------------------------------------------------------------------------------------------


def test_stop_is_quick_and_clean(box, client):
    client.ok("(trap '' TERM HUP; while :; do sleep 1; done) >/dev/null 2>&1 & setsid sleep 1000 &")
    assert client.run("sleep 1000", timeout=0.3).exit == -1
    assert box.stop() < 8
    state = box.state()
    assert (state["ExitCode"], state["OOMKilled"], state["Error"]) == (0, False, "")
    assert [path for path in box.diff() if path.startswith("/tmp/tendon")] == []


def test_stop_of_an_idle_one_is_immediate(box, client):
    client.ok("true")
    assert box.stop() < 3
    assert box.state()["ExitCode"] == 0


def test_restart(box, client):
    groups = client.ok("id -Gn")
    add_env_vars(client, GITHUB_TOKEN="ghp_123", SPACED="two words")
    assert client.ok("echo $GITHUB_TOKEN; echo $SPACED") == "ghp_123\ntwo words"
    client.ok("echo kept > file")
    for _ in range(2):
        box.stop()
        client = box.start().client
        assert client.ok("echo $GITHUB_TOKEN; cat file; pwd") == "ghp_123\nkept\n/workspace"
        assert client.ok("id -Gn; grep -c ^openhands: /etc/passwd") == f"{groups}\n1"


def test_restart_with_a_broken_bashrc(box, client):
    """The host's way to write this value leaves a quote open in the file."""
    add_env_vars(client, BROKEN='abc"def')
    assert client.ok("echo $BROKEN") == 'abc"def'
    box.stop()
    client = box.start().client
    assert client.ok("echo works; pwd") == "works\n/workspace"


def test_stop_while_the_shell_still_starts(box, client):
    client.ok("echo sleep 1000 >> ~/.bashrc")
    box.stop()
    box.start()
    assert box.stop() < 8
    assert box.state()["ExitCode"] == 0


def test_kill_leaves_nothing_on_this_machine(engine, create):
    processes, mounts, cgroups = set(engine.processes()), engine.mounts(), engine.cgroups()
    box = create().start()
    box.client.ok("sleep 1000 & setsid sleep 1001 & (sleep 1002 &)")
    assert box.client.run("sleep 1003", timeout=0.3).exit == -1
    box.exec("sh", "-c", "sleep 1004 >/dev/null 2>&1 &")
    running = [command.strip() for command in engine.processes(box.id).values()]
    assert {f"sleep {n}" for n in range(1000, 1005)} <= set(running)
    assert engine.mounts() > mounts and len(engine.cgroups()) > len(cgroups)
    box.kill()
    wait_until(lambda: set(engine.processes()) == processes, 5, "all processes ended")
    wait_until(lambda: engine.mounts() == mounts, 5, "all mounts gone")
    wait_until(lambda: engine.cgroups() == cgroups, 5, "all control groups gone")
    assert box.state()["ExitCode"] == 137
    client = box.start().client
    assert client.ok("ls -d /tmp/tendon-hand-* | wc -l") == "1", "the next one cleans up"


def test_orphans_are_reaped(box, client):
    def count():
        return int(client.ok("set -- /proc/[0-9]*; echo $#"))

    before = count()
    client.ok("for i in $(seq 60); do (sleep 0.3 &); done; (setsid sh -c 'sleep 0.3 &' &)")
    box.exec("sh", "-c", "for i in 1 2 3; do sleep 0.3 >/dev/null 2>&1 & done")
    assert count() > before
    wait_until(lambda: count() == before, 5, "orphans ended, and no zombie is left")
    for code in range(1, 10):
        assert client.run(f"(sleep 0.001 &); bash -c 'exit {code}'").exit == code

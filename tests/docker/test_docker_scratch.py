"""The hand as the first process of an image that has busybox and nothing else."""

import io
import os
import re
import time
import uuid
import zipfile

import pytest

from client import CUT, done, hard
from harness import wait_until

pytestmark = pytest.mark.timeout(60, func_only=True)

ROOT_USER = ("--username", "root", "--user-id", "0")
WORKSPACE = ("--working-dir", "/workspace")
HARDENED = ("--cap-drop=ALL", "--user=1000", "--security-opt=no-new-privileges")


@pytest.fixture
def sh(scratch_root):
    shell = scratch_root.shell("sh")
    yield shell
    shell.remove()


@pytest.fixture
def ws(scratch_root):
    """A name for a directory of this test."""
    return f"/workspace/d{uuid.uuid4().hex[:8]}"


# --- the server -----------------------------------------------------------------------------------


def test_starts_without_a_user_database(scratch_root, sh):
    reply = scratch_root.client.get("/alive")
    assert (reply.status, reply.json) == (200, {"status": "ok"})
    assert scratch_root.client.get("/server_info").json["resources"]["memory"]["rss"] > 0
    assert sh.ok("cat /proc/1/comm; id -u; ls -d /etc/passwd /etc/group 2>/dev/null; true") == (
        "tendon-hand\n0"
    )
    assert " error " not in scratch_root.logs()


def test_sh_takes_the_place_of_a_missing_bash(scratch_root):
    scratch_root.client.ok("greeting=hi")
    obs = scratch_root.client.run('echo "$greeting ${BASH_VERSION:-no bash}"')
    assert (obs.type, obs.exit, obs.content.strip()) == ("run", 0, "hi no bash")


# --- files ----------------------------------------------------------------------------------------


def test_write_and_read(scratch_root, ws):
    client = scratch_root.client
    assert client.write(f"{ws}/a.txt", "one\ntwo").type == "write"
    assert client.read(f"{ws}/a.txt").content == "one\ntwo\n"
    assert client.read(f"{ws}/none").content == (
        f"File not found: {ws}/none. Your current working directory is /workspace."
    )
    assert client.list_files(ws) == ["a.txt"]


def test_edit(scratch_root, ws):
    client = scratch_root.client
    path = f"{ws}/e.txt"
    obs = client.edit("create", path, file_text="red\ngreen\n")
    assert (obs.type, obs.extras["prev_exist"]) == ("edit", False)
    obs = client.edit("str_replace", path, old_str="green", new_str="blue")
    assert (obs.extras["old_content"], obs.extras["new_content"]) == ("green", "blue")
    assert "1\tred\n     2\tblue" in obs.content
    client.edit("undo_edit", path)
    assert client.read(path).content == "red\ngreen\n"
    assert f"{ws}/e.txt" in client.edit("view", ws).content


def test_upload_and_download(scratch_root, ws):
    client = scratch_root.client
    data = os.urandom(300_000)
    assert client.upload("data.bin", data, f"{ws}/deep/er").status == 200
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as z:
        z.writestr("tree/a", "A")
        z.writestr("tree/b/c", "C")
    assert client.upload("tree.zip", packed.getvalue(), ws, recursive="true").status == 200
    reply = client.download(ws)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(reply.body)) as z:
        got = {name: z.read(name) for name in z.namelist()}
    assert got == {"deep/er/data.bin": data, "tree/a": b"A", "tree/b/c": b"C"}


# --- a POSIX shell ----------------------------------------------------------------------------------


def test_state_is_kept(sh):
    obs = sh.run("plain=1; export shown=2; cd /bin; f() { echo in f: $1; }")
    assert (obs.exit, obs.content, obs.cwd) == (0, "", "/bin")
    assert sh.ok("echo $plain $shown; pwd; f x") == "1 2\n/bin\nin f: x"
    assert sh.ok("busybox env | grep shown") == "shown=2"


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_exit_codes(sh, code):
    obs = sh.run(f"(exit {code})")
    assert (obs.exit, obs.content, obs.suffix) == (code, "", done(code))
    assert sh.ok("echo $?") == str(code)


def test_failures(sh):
    obs = sh.run("no-such-program")
    assert obs.exit == 127 and "no-such-program: not found" in obs.content
    assert sh.run("echo out; echo err >&2; false").content == "out\nerr"
    assert sh.run("if then").exit != 0
    assert sh.ok("echo fine") == "fine"


def test_working_directory_is_tracked(sh):
    odd = '/workspace/it\'s "odd" $HOME'
    for path in ("/", "/proc", "/workspace"):
        assert sh.run(f"cd {path}").cwd == path
    obs = sh.run('mkdir -p "it\'s \\"odd\\" \\$HOME" && cd it*')
    assert (obs.exit, obs.cwd) == (0, odd)
    assert sh.run("cd -").cwd == "/workspace"
    assert sh.run("(cd /bin)").cwd == "/workspace"


def test_here_documents(sh):
    assert sh.ok("cat <<END\none $((1 + 1))\nEND") == "one 2"
    assert sh.ok("cat <<'END' | sed s/x/y/\nx $HOME `x`\nEND") == "y $HOME `x`"
    assert sh.ok("for i in 1 2; do\n  echo $i\ndone") == "1\n2"


def test_long_output(sh):
    obs = sh.run("seq 1 50000", timeout=30)
    assert obs.exit == 0
    assert CUT in obs.content and len(obs.content) <= 30_000 + len(CUT)
    assert obs.prefix.startswith("[Previous command outputs are truncated. ")
    assert "\n40000\n" in obs.content and obs.content.endswith("\n49999\n50000")
    assert sh.ok("echo after") == "after"


# No loop of builtins: interrupted inside malloc, busybox's shell locks up for ever.
@pytest.mark.parametrize("command", ["sleep 100", "cat", "sleep 100 | cat", "sleep 100; echo no"])
def test_interrupt(sh, command):
    sh.ok("kept=yes; cd /bin")
    obs = sh.run(command, timeout=0.3)
    assert (obs.exit, obs.suffix) == (-1, hard(0.3))
    began = time.monotonic()
    obs = sh.input("C-c")
    assert (obs.exit, obs.suffix) == (130, done(130, "C"))
    assert time.monotonic() - began < 5
    assert sh.ok("echo $kept; pwd") == "yes\n/bin"


def test_input(sh):
    assert sh.run("read line; echo got: $line", timeout=0.3).exit == -1
    obs = sh.input("some words")
    assert (obs.exit, obs.content) == (0, "got: some words")


def test_background_jobs_outlive_the_command(sh):
    sh.ok("sleep 100 & echo $! >/tmp/job")
    assert sh.ok("kill -0 $(cat /tmp/job) && echo runs") == "runs"
    assert "Terminated" in sh.ok("kill $(cat /tmp/job); wait")


def test_a_dead_shell_is_replaced(sh):
    sh.ok("export shown=2; cd /bin")
    assert sh.run("exit 3").exit == 3
    assert sh.ok("echo $shown; pwd") == "2\n/bin"
    assert sh.run("kill -9 $$").exit == 137
    assert sh.ok("echo $shown; pwd") == "2\n/bin"


def test_orphans_are_reaped(sh):
    def count():
        return int(sh.ok("set -- /proc/[0-9]*; echo $#"))

    before = count()
    sh.ok("for i in $(seq 40); do (sleep 0.3 &); done")
    assert count() > before
    wait_until(lambda: count() == before, 5, "orphans ended, and no zombie is left")


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_sh_for_all_sessions(scratch, how):
    args, options = [*WORKSPACE, *ROOT_USER], []
    if how == "flag":
        args += ["--shell", "sh"]
    else:
        options += ["--env=TENDON_SHELL=/bin/sh"]
    client = scratch(*args, options=options).client
    assert client.ok("x=5; cd /bin; echo $0 | sed s,.*/,,") == "sh"
    obs = client.run("echo $x")
    assert (obs.content, obs.cwd) == ("5", "/bin")


# --- users and limits -------------------------------------------------------------------------------


def test_user_is_made_without_useradd(scratch):
    box = scratch(*WORKSPACE, "--username", "openhands", "--user-id", "1000")
    sh = box.shell("sh")
    assert sh.ok("id -u; id -un; id -g; echo $USER $LOGNAME $HOME $SHELL") == (
        "1000\nopenhands\n0\nopenhands openhands /home/openhands /bin/sh"
    )
    obs = sh.run("cd && touch mine && stat -c '%U %u %n' mine .")
    assert (obs.content, obs.cwd) == ("openhands 1000 mine\nopenhands 1000 .", "/home/openhands")
    assert obs.meta["username"] == "openhands"
    assert sh.ok("cat /etc/passwd") == "openhands:x:1000:0::/home/openhands:/bin/sh"
    assert sh.run("echo > /bin/intruder").exit == 1
    box.client.write("/workspace/new/w", "x")
    box.client.edit("create", "/workspace/new/e", file_text="x")
    box.client.upload("u", b"x", "/workspace/up/load")
    assert sh.ok("cd /workspace; stat -c '%u %n' . new new/w new/e up up/load up/load/u") == (
        "1000 .\n1000 new\n1000 new/w\n1000 new/e\n1000 up\n1000 up/load\n1000 up/load/u"
    )
    assert "Permission denied" in box.client.write("/bin/w", "x").content


def test_capabilities_are_not_passed_to_the_user(scratch):
    sh = scratch(*WORKSPACE).shell("sh")
    assert sh.ok("grep CapEff /proc/self/status").split() == ["CapEff:", "0" * 16]
    assert sh.run("cat /proc/1/environ").exit == 1


@pytest.mark.parametrize("args", [(), ("--working-dir", "/")], ids=["default", "explicit"])
def test_the_root_directory_is_not_given_away(scratch, args):
    sh = scratch(*args).shell("sh", "/")
    assert sh.ok("id -u; pwd; stat -c '%u %n' / /bin /bin/busybox /etc/passwd") == (
        "1000\n/\n0 /\n0 /bin\n0 /bin/busybox\n0 /etc/passwd"
    )


def test_read_only_root(scratch):
    box = scratch("--working-dir=/tmp/w", *ROOT_USER, options=["--read-only", "--tmpfs=/tmp:exec"])
    sh = box.shell("sh", "/tmp/w")
    obs = sh.run("echo x > /x")
    assert obs.exit == 1 and "Read-only file system" in obs.content
    assert sh.ok("echo x > x; cat x; pwd") == "x\n/tmp/w"
    assert sh.run("cd /bin").cwd == "/bin"
    assert "Read-only file system" in box.client.write("/w", "x").content
    assert "Read-only file system" in box.client.upload("u", b"x", "/up").detail
    box.client.write("/tmp/w/f", "ok")
    box.client.edit("str_replace", "/tmp/w/f", old_str="ok", new_str="better")
    assert box.client.read("/tmp/w/f").content == "better\n"
    assert box.client.upload("u", b"x", "/tmp/up").status == 200


def test_read_only_root_without_the_user(scratch):
    box = scratch.create(*WORKSPACE, options=["--read-only", "--tmpfs=/tmp"])
    box.start(ready=False)
    assert box.wait() == 1
    assert re.search("Failed to create user openhands: .*Read-only file system", box.logs())


@pytest.mark.parametrize("more", [(), ("--read-only",)], ids=["writable", "read-only"])
def test_no_privileges_at_all(scratch, more):
    box = scratch("--working-dir=/tmp/w", options=[*HARDENED, "--tmpfs=/tmp", *more])
    sh = box.shell("sh", "/tmp/w")
    assert sh.ok("id -u; stat -c %u /tmp/w; grep -E 'CapPrm|NoNewPrivs' /proc/1/status") == (
        "1000\n1000\nCapPrm: 0000000000000000\nNoNewPrivs:     1"
    )
    assert sh.run("cd /bin; x=1").cwd == "/bin"
    assert sh.ok("echo $x") == "1"
    assert sh.run("sleep 100", timeout=0.3).exit == -1
    assert sh.input("C-c").exit == 130
    box.client.write("/tmp/w/f", "ok")
    box.client.edit("str_replace", "/tmp/w/f", old_str="ok", new_str="better")
    assert box.client.read("/tmp/w/f").content == "better\n"
    assert box.client.write("/f", "x").type == "error"
    assert box.client.upload("u", b"x", "/tmp/w/up").status == 200
    assert box.client.download("/tmp/w").status == 200
    box.stop()
    assert box.state()["ExitCode"] == 0


def test_root_without_capabilities(scratch):
    box = scratch(*WORKSPACE, *ROOT_USER, options=["--cap-drop=ALL"])
    sh = box.shell("sh")
    assert sh.ok("id -u; grep CapEff /proc/self/status") == "0\nCapEff: 0000000000000000"
    assert sh.run("cd /bin").cwd == "/bin"
    assert box.client.write("/workspace/f", "x").type == "write"


# --- life -------------------------------------------------------------------------------------------


def test_stop_and_start(scratch):
    box = scratch(*WORKSPACE)
    box.shell("sh").ok("echo kept > file; sleep 1000 &")
    assert box.stop() < 8
    assert box.state()["ExitCode"] == 0
    assert not (box.shared / "sock").exists()
    assert [path for path in box.diff() if path.startswith("/tmp/")] == []
    box.start()
    assert (
        box.shell("sh").ok("cat file; id -un; grep -c openhands /etc/passwd")
        == "kept\nopenhands\n1"
    )


def test_kill_and_start(scratch):
    """What the dead hand left in the file system does not stand in the way of the next."""
    box = scratch(*WORKSPACE)
    box.shell("sh").ok("sleep 1000 & sleep 1001 &")
    box.kill()
    assert (box.shared / "sock").exists()
    box.start()
    assert box.shell("sh").ok(
        "ls -d /tmp/tendon-hand-* | wc -l; ps | grep -c '[s]leep 100'; true"
    ) == ("1\n0")

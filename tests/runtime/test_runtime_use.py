"""What every backend lets one do with a running sandbox."""

import contextlib
import ctypes
import glob
import os
import pathlib

import pytest

from conformance import Refusal

HOSTILE = {
    "QUOTES": "it's \"quoted\"",
    "DOLLAR": "$HOME ${PATH} $(touch evaluated)",
    "TICKS": "`touch evaluated`",
    "NEWLINES": "one\ntwo\n\nfour\n",
    "SLASH": "back\\slash \\n \\",
    "SPACES": "  in front and behind  ",
    "GLOB": "* ? [a-z] ~ !! #",
    "SEMI": "; touch evaluated; && || | > evaluated",
    "EMPTY": "",
    "UMLAUT": "zwölf Boxkämpfer 日本",
}


# --- actions -----------------------------------------------------------------------------------------


def test_commands_share_a_shell(box):
    box.ok("cd /; x=41")
    assert box.ok("echo $((x + 1)) $PWD") == "42 /"
    assert box.run("(exit 7)")[0] == 7


def test_file_actions(box):
    assert box.act("write", path="notes/a.txt", content="one\ntwo\n")["observation"] == "write"
    assert box.act("read", path="notes/a.txt")["content"].startswith("one\ntwo\n")
    assert box.act("read", path="notes/none")["observation"] == "error"
    where = box.ok("pwd")
    edit = box.act("edit", path=f"{where}/notes/a.txt", command="str_replace", old_str="two", new_str="2")
    assert edit["observation"] == "edit", edit
    assert box.ok("cat notes/a.txt").split() == ["one", "2"]


def test_what_a_sandbox_lacks_is_an_error_observation(world, driver):
    box = world.new(driver, hand_args=["--no-enable-browser"])
    assert box.act("browse", url="http://localhost/")["observation"] == "error"


# --- environment -------------------------------------------------------------------------------------


def test_variables_arrive_and_are_never_evaluated(world, driver):
    box = world.new(driver, env=HOSTILE)
    for name, value in HOSTILE.items():
        box.ok(f'printf "%s" "${name}" >{name}')
        size = len(value.encode())
        assert box.ok(f"wc -c <{name}").strip() == str(size), name
        if value.strip():
            code, text = box.run(f"cat {name}")
            assert text.split() == value.split(), name
    assert box.run("[ -e evaluated ]")[0] == 1
    assert box.ok("printenv DOLLAR | wc -c").strip() == str(len(HOSTILE["DOLLAR"]) + 1)


def test_variables_survive_a_restart(world, driver):
    if "stop" not in driver.abilities:
        pytest.skip("this backend does not stop")
    box = world.new(driver, env={"KEPT": "a b $c"})
    box.drive("stopped")
    box.drive("running")
    assert box.ok('echo "$KEPT"') == "a b $c"


def test_the_key_is_not_to_be_found_inside(box):
    assert box.ok("env | grep -c SESSION_API_KEY || true") == "0"


# --- the backend's own ways --------------------------------------------------------------------------


def test_put_and_exec(box):
    where = box.ok("pwd")
    box("put", path=f"{where}/deep/er/tool", text="#!/bin/sh\necho made; exit 5\n", mode=0o755)
    answer = box("exec", argv=[f"{where}/deep/er/tool"])
    assert (answer["output"], answer["status"]) == ("made\n", 5)
    assert box.ok("stat -c %a deep/er/tool") == "755"


def test_put_takes_any_bytes(box):
    where = box.ok("pwd")
    box("put", path=f"{where}/blob", base64="AAECA/8K")
    assert box.ok("od -An -tx1 blob").split() == ["00", "01", "02", "03", "ff", "0a"]


def test_exec_hears_both_streams_and_knows_no_shell(box):
    answer = box("exec", argv=["sh", "-c", "echo out; echo err >&2"])
    assert sorted(answer["output"].split()) == ["err", "out"]
    assert box("exec", argv=["echo", "$HOME;`id`"])["output"] == "$HOME;`id`\n"


def test_exec_ends_at_its_deadline(box):
    with pytest.raises(Refusal) as refusal:
        box("exec", argv=["sleep", "100"], timeout=1)
    assert refusal.value.code == "timeout"
    assert box.ok("echo works") == "works"


@contextlib.contextmanager
def orphans_come_here():
    """This process is the one that orphans of its descendants are given to, and waits for none of them."""
    libc, set_subreaper = ctypes.CDLL(None, use_errno=True), 36
    assert libc.prctl(set_subreaper, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(set_subreaper, 0, 0, 0, 0) == 0


def dead_children():
    """Names of children of this process that have ended and that nobody has waited for."""
    names = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name, _, rest = pathlib.Path(path).read_text(errors="replace").partition("(")[2].rpartition(")")
            if rest.split()[:2] == ["Z", str(os.getpid())]:
                names.append(name)
    return names


def test_what_is_cut_off_is_nobodys_orphan(box):
    """Where the first process waits for nobody, as in many containers, a dead orphan would keep a jail from ending."""
    with orphans_come_here():
        with pytest.raises(Refusal):
            box("exec", argv=["sleep", "101"], timeout=1)
        assert "sleep" not in dead_children()
        box.drive("gone")


def test_exec_of_what_is_not_there(box):
    answer = box.driver.ask("exec", id=box.id, argv=["/no/such/program"])
    assert not answer["ok"] or answer["status"] in (126, 127), answer


def test_logs_have_what_the_hand_said(box):
    box.ok("true")
    assert "listening" in box.logs()
    assert "listening" in box.logs(follow=True, until="listening")


def test_usage(box):
    box.ok("sleep 1000 >/dev/null 2>&1 &")
    usage = box.driver.ask("usage", id=box.id)
    if not usage["ok"]:
        pytest.skip(f"no usage here: {usage['error']}")
    assert usage["memory"] > 100_000
    assert usage["processes"] == -1 or usage["processes"] >= 3


# --- ports -------------------------------------------------------------------------------------------

SERVER = """
import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
print(s.getsockname()[1], file=open("port", "w"), flush=True)
while True:
    c = s.accept()[0]
    c.sendall(b"<" + c.recv(100) + b">"); c.close()
"""


def test_a_port_inside_is_reached(box):
    """By the backend's own way, or by the hand's tunnel."""
    if box.run("command -v python3")[0]:
        pytest.skip("no python3 in this sandbox")
    box.act("write", path="server.py", content=SERVER)
    box.ok("python3 server.py >/dev/null 2>&1 &")
    port = int(box.ok("until [ -s port ]; do sleep 0.02; done; cat port"))
    assert box("dial", port=port, send="hello")["received"] == "<hello>"


# --- isolation ---------------------------------------------------------------------------------------


def test_isolation_is_reported(box, driver):
    isolation = box("inspect")["isolation"]
    assert isinstance(isolation, dict) and isolation
    assert all(isinstance(value, (bool, str, int)) for value in isolation.values())
    if "isolate" not in driver.abilities:
        assert not any(isolation.get(name) for name in ("pid", "mount", "network", "seccomp"))


def test_no_isolation_is_no_secret(box, driver, world):
    """Where the abilities promise isolation, what the host has in a temporary directory is not seen."""
    secret = world.home / "secret"
    secret.write_text("of the host")
    seen = box.run(f"cat {secret}")[0] == 0
    assert seen == ("isolate" not in driver.abilities)


# --- limits ------------------------------------------------------------------------------------------


def test_limits_hold(world, driver):
    if "limit" not in driver.abilities:
        pytest.skip("this backend has no limits, and refuses to promise any")
    if world.spec.get("isolation") == "gvisor":
        pytest.skip("who meets a limit of gVisor's ends with it: see tests/jail/test_gvisor.py")
    box = world.new(driver, open_files=256, pids=40, memory="128m")
    assert int(box.ok("ulimit -n")) <= 256
    code, output = box.run("sh -c 'for i in $(seq 100); do sleep 3 & done' 2>&1; true", timeout=20)  # bash tries for long
    assert "fork" in output or "esource" in output, output
    box.drive("stopped")
    box.drive("running")
    assert box.run("head -c 300000000 /dev/zero | tail >/dev/null", timeout=20)[0] != 0

"""Sandboxes from birth to end: new, ls, ps, inspect, logs, pause, stop, snapshots, gc."""

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tendons import eventually, processes_with
from trees import ROOT


def names(tendon):
    return tendon.ok("ls", "--quiet").split()


# --- making and looking -------------------------------------------------------------------------


def test_new_prints_the_id(any_tendon):
    ident = any_tendon.ok("new").strip()
    assert re.fullmatch(r"[a-z0-9]{10}", ident)
    assert names(any_tendon) == [ident]
    assert any_tendon.ok("exec", ident, "echo hello") == "hello\n"


def open_to_others(top):
    """What other users of the machine can list, read, write or connect to: by the modes alone, whoever may enter `top`."""
    mode = top.lstat().st_mode
    found = [str(top)] if mode & 0o007 and not top.is_symlink() else []
    if top.is_dir() and not top.is_symlink() and mode & 0o001:
        for path in top.iterdir():
            found += open_to_others(path)
    return found


def test_others_find_nothing(any_tendon):
    """Whatever the umask of who started it."""
    name = any_tendon.ok("new", "--name", "web", preexec_fn=lambda: os.umask(0)).strip()
    any_tendon.ok("exec", name, "echo hello", preexec_fn=lambda: os.umask(0))
    assert open_to_others(any_tendon.state) == []
    assert [path for top in any_tendon.tmp.iterdir() for path in open_to_others(top)] == []


def test_new_prints_the_name(any_tendon):
    assert any_tendon.ok("new", "--name", "web") == "web\n"
    found = any_tendon.json("new", "--name", "db", "--label", "team=a")
    assert (found["name"], found["status"], found["runtime"]) == ("db", "running", any_tendon.runtime)
    assert "key" not in json.dumps(found)
    assert names(any_tendon) == ["web", "db"]


def test_a_name_is_taken_once(tendon):
    tendon.ok("new", "--name", "web")
    assert "web" in tendon.fails(73, "new", "--name", "web")
    assert names(tendon) == ["web"]


def test_a_spec_that_makes_no_sense(tendon):
    assert "memory" in tendon.fails(2, "new", "--memory", "lots")
    assert tendon.leftovers() == []


def test_what_a_backend_cannot_give_is_an_error(tendon):
    result = tendon("new", "--memory", "64m")  # nothing is limited without a jail
    assert result.returncode == 69 and "memory" in result.stderr
    assert tendon.leftovers() == []


def test_templates(tendon, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('[template.small]\nlabels = {size = "small"}\nenv = {A = "template", B = "b"}\n')
    tendon.env["TENDON_CONFIG"] = str(config)
    tendon.ok("new", "--template", "small", "--name", "one")
    assert tendon.json("ls")[0]["labels"] == {"size": "small"}
    assert tendon.ok("exec", "one", 'echo "$A $B"') == "template b\n"
    result = tendon("new", "--template", "smal")
    assert result.returncode != 0 and "smal" in result.stderr


def test_ls(any_tendon):
    result = any_tendon("ls")
    assert (result.returncode, result.stdout) == (0, "")
    assert "tendon new" in result.stderr
    any_tendon.ok("new", "--name", "one", "--label", "team=a")
    any_tendon.ok("new", "--name", "two", "--label", "team=b")
    lines = any_tendon.ok("ls").splitlines()
    assert lines[0].split()[:4] == ["ID", "NAME", "STATE", "RUNTIME"]
    assert [line.split()[1:4] for line in lines[1:]] == [
        ["one", "running", any_tendon.runtime],
        ["two", "running", any_tendon.runtime],
    ]
    assert any_tendon.ok("ls", "-q", "-l", "team=b") == "two\n"
    assert any_tendon.ok("ls", "-q", "-l", "team=c") == ""


def test_ls_knows_the_dead(tendon):
    tendon.ok("new", "--name", "web")
    ref = tendon.json("inspect", "web")["ref"]
    os.kill(ref["pid"], signal.SIGKILL)
    eventually(lambda: tendon.json("ls")[0]["status"] != "running", "its end is noticed")
    assert "but the processes are gone" in tendon("resume", "web").stderr
    assert tendon.ok("exec", "web", "echo again") == "again\n"


def test_ps(any_tendon):
    any_tendon.ok("new", "--name", "web")
    any_tendon.ok("exec", "--session", "main", "web", "sleep 1234 >/dev/null 2>&1 &")
    (row,) = any_tendon.json("ps")
    assert row["name"] == "web" and row["processes"] >= 2 and row["memory"] > 0
    assert any_tendon.ok("ps").splitlines()[0].split()[:3] == ["ID", "NAME", "STATE"]
    found = {p["command"]: p for p in any_tendon.json("ps", "web")}
    assert "sleep 1234" in found
    assert found["sleep 1234"]["parent"] in {p["pid"] for p in found.values()}
    assert "sleep 1234" in any_tendon.ok("ps", "web")


def test_ps_does_not_speak_to_the_terminal(tendon):
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "--session", "main", "web", r"(exec -a $'\033[31mred' sleep 1234) >/dev/null 2>&1 &")
    out = tendon.ok("ps", "web")
    assert "?[31mred" in out and "\033" not in out


def test_inspect(any_tendon):
    any_tendon.ok("new", "--name", "web", "--env", "PASSWORD=hunter2")
    found = any_tendon.json("inspect", "web")
    assert found["name"] == "web" and found["status"] == "running"
    assert isinstance(found["isolation"], dict) and found["snapshots"] == []
    for out in (json.dumps(found), any_tendon.ok("inspect", "web"), any_tendon.ok("inspect")):
        assert "hunter2" not in out
    assert "status: running" in any_tendon.ok("inspect", "web")


def test_inspect_tells_of_plugins(tendon):
    tendon.ok("new", "--name", "web")
    plugins = {p["name"]: p for p in tendon.json("inspect", "web")["plugins"]}
    assert plugins["jupyter"]["enabled"] and not plugins["vscode"]["enabled"]
    assert not any(p["running"] for p in plugins.values())
    lines = re.search(r"^plugins:\n((?:  .*\n)+)", tendon.ok("inspect", "web"), re.M)[1]
    for name, plugin in plugins.items():
        state = "(ready|not asked for): " if plugin["usable"] else "missing: .*; to get it: "
        assert re.search(rf"^  {name}: {state}", lines, re.M), lines
    tendon.ok("stop", "web")
    assert tendon.json("inspect", "web")["plugins"] is None
    assert "plugins:\n" not in tendon.ok("inspect", "web")


def test_inspect_tells_what_runs(tendon):
    place = pathlib.Path(__file__).parents[2] / "examples"
    wish = ("--plugins", "example", "--env", f"TENDON_PLUGIN_PATH={place}")
    tendon.ok("new", "--name", "web", *wish, "--hand-arg=--start-plugins")
    line = rf"^  example: running, [\d.]+ MiB: {place}/tendon-plugin-example$"
    eventually(lambda: re.search(line, tendon.ok("inspect", "web"), re.M), "the plugin runs")
    example = next(p for p in tendon.json("inspect", "web")["plugins"] if p["name"] == "example")
    assert example["memory"] > 1 << 20 and example["restarts"] == 0 and len(example["pids"]) == 1


def test_plugins_are_those_asked_for(tendon):
    for name, wish, expected in (("a", (), {"jupyter", "agent_skills"}), ("b", ("--plugins", ""), set())):
        tendon.ok("new", "--name", name, *wish)
        named = {p["name"] for p in tendon.json("inspect", name)["plugins"] if p["enabled"]}
        assert named & {"jupyter", "agent_skills", "vscode"} == expected


def test_the_only_one_need_not_be_named(tendon):
    assert "tendon new" in tendon.fails(66, "inspect")
    tendon.ok("new", "--name", "one")
    assert tendon.json("inspect")["name"] == "one"
    tendon.ok("new", "--name", "two")
    assert "there are 2 sandboxes" in tendon.fails(2, "inspect")


def test_logs(tendon):
    tendon.ok("new", "--name", "web")
    assert "listening" in tendon.ok("logs", "web")
    lines = [json.loads(line) for line in tendon.ok("--json", "logs", "web").splitlines()]
    assert any("listening" in line["line"] for line in lines)


def test_logs_follow(tendon):
    tendon.ok("new", "--name", "web")
    process = tendon.start("logs", "--follow", "web")
    assert "listening" in process.stdout.readline()
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)


# --- states -------------------------------------------------------------------------------------


def test_stop_and_resume(any_tendon):
    any_tendon.ok("new", "--name", "web")
    where = any_tendon.ok("exec", "--session", "main", "web", "echo kept >file; pwd").strip()
    assert any_tendon.ok("stop", "web") == "web\n"
    assert any_tendon.json("ls")[0]["status"] == "stopped"
    assert any_tendon.ok("stop", "web") == "web\n"  # twice is once
    resumed = any_tendon("resume", "web")
    assert (resumed.returncode, resumed.stdout) == (0, "web\n"), resumed
    assert "web was stopped: its files are as they were, but the processes are gone" in resumed.stderr
    assert any_tendon.ok("resume", "web") == "web\n"  # it runs: nothing is lost
    assert any_tendon.ok("exec", "web", f"cat {where}/file") == "kept\n"


def test_pause_and_resume(any_tendon):
    any_tendon.ok("new", "--name", "web")
    any_tendon.ok("exec", "--session", "main", "web", "sleep 1234 >/dev/null 2>&1 & echo $!")
    before = {p["pid"] for p in any_tendon.json("ps", "web") if p["command"] == "sleep 1234"}
    assert len(before) == 1
    any_tendon.ok("pause", "web")
    assert any_tendon.json("ls")[0]["status"] == "paused"
    assert "tendon resume web" in any_tendon.fails(73, "exec", "web", "true")
    assert any_tendon.json("resume", "web")["status"] == "running"
    assert {p["pid"] for p in any_tendon.json("ps", "web") if p["command"] == "sleep 1234"} == before


def test_rm(any_tendon):
    for name in ("a", "b", "c"):
        any_tendon.ok("new", "--name", name)
    assert any_tendon.ok("rm", "a", "c") == "a\nc\n"
    assert names(any_tendon) == ["b"]
    result = any_tendon("rm", "a", "b")
    assert (result.returncode, result.stdout) == (66, "b\n")  # the one that exists is removed all the same
    assert any_tendon.ok("rm", "--force", "a") == ""
    assert any_tendon.leftovers() == []


def test_rm_all(tendon):
    for _ in range(3):
        tendon.ok("new")
    assert "either" in tendon.fails(2, "rm", "--all", "x")
    assert "--all" in tendon.fails(2, "rm")
    assert len(tendon.ok("rm", "--all").split()) == 3
    assert tendon.leftovers() == []


# --- snapshots ----------------------------------------------------------------------------------


def first_inside(pid):
    """That process, or the one below it that is the first of its sandbox."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    if re.search(r"^NSpid:.*\s1$", status, re.MULTILINE):
        return pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next((first for child in children if (first := first_inside(int(child)))), None)


# Holds all threads of a process as a debugger does, until that ends.
HOLD = """
import ctypes, os, sys
SEIZE, INTERRUPT, ALL = 0x4206, 0x4207, 0x40000000
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
for tid in map(int, os.listdir(f"/proc/{sys.argv[1]}/task")):
    assert ptrace(SEIZE, tid, None, None) == 0 == ptrace(INTERRUPT, tid, None, None), os.strerror(ctypes.get_errno())
    os.waitpid(tid, ALL)
print("held", flush=True)
try:
    while True:
        os.waitpid(-1, ALL)
except ChildProcessError:
    pass
"""


def test_a_hand_that_does_not_answer(jailed):
    """Nobody waits for as long as the command may take."""
    jailed.ok("new", "--name", "web")
    jailed.ok("exec", "web", "echo kept > /workspace/file")
    assert "hand" not in jailed.json("inspect", "web")
    hand = first_inside(jailed.json("inspect", "web")["ref"]["pid"])
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(hand)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    began = time.monotonic()
    complaint = jailed.fails(76, "exec", "web", "echo lost", timeout=120)
    assert "the hand of sandbox web does not answer" in complaint
    assert time.monotonic() - began < 50  # 22 of them may be its youth
    assert jailed.json("inspect", "web")["hand"] == "does not answer"
    jailed.ok("stop", "web")
    assert holder.wait(60) == 0
    assert jailed("resume", "web").stdout == "web\n"
    assert jailed.ok("exec", "web", "cat /workspace/file") == "kept\n"


def test_snapshot_rollback_fork(jailed):
    jailed.ok("new", "--name", "web")
    inside = jailed.ok("exec", "--session", "main", "web", "echo one >file; pwd").strip()
    assert jailed.ok("snapshot", "web", "first") == "first\n"
    jailed.ok("exec", "web", f"echo two >{inside}/file; touch {inside}/new")
    assert jailed.ok("fork", "--name", "child", "web") == "child\n"
    assert jailed.ok("fork", "--name", "early", "--from", "first", "web") == "early\n"
    assert jailed.ok("exec", "child", f"cat {inside}/file; ls -1 {inside}") == "two\nfile\nnew\n"
    assert jailed.ok("exec", "early", f"cat {inside}/file; ls -1 {inside}") == "one\nfile\n"
    assert jailed.ok("rollback", "web", "first") == ""
    assert jailed.ok("exec", "web", f"cat {inside}/file; ls -1 {inside}") == "one\nfile\n"
    assert [s["name"] for s in jailed.json("snapshot", "--list", "web")] == ["first"]
    assert "first" in jailed.ok("snapshot", "--list", "web")
    assert jailed.ok("snapshot", "--rm", "web", "first") == "first\n"
    assert jailed.json("snapshot", "--list", "web") == []
    assert jailed.fails(66, "rollback", "web", "first")
    assert re.fullmatch(r"\d{8}-\d{6}\n", jailed.ok("snapshot", "web"))


def test_walls_that_are_demanded_later(jailed):
    """What cannot have them does not start any more, whichever way; what runs goes on."""
    kata, gvisor = ({"TENDON_ISOLATION": word} for word in ("kata", "gvisor"))
    jailed.ok("new", "--name", "web", "--isolation", "native")
    jailed.ok("snapshot", "web", "first")
    assert "the configuration demands gvisor" in jailed.fails(77, "fork", "--name", "child", "web", env=gvisor)
    assert jailed.ok("exec", "web", "echo on", env=kata) == "on\n"
    jailed.ok("pause", "web", env=kata)
    jailed.ok("resume", "web", env=kata)
    refused = "isolation kata: jail cannot give it"
    assert refused in jailed.fails(69, "rollback", "web", "first", env=kata)
    jailed.ok("stop", "web", env=kata)
    assert refused in jailed.fails(69, "resume", "web", env=kata)
    assert jailed("resume", "web").returncode == 0
    jailed.ok("new", "--name", "walled")
    assert refused in jailed.fails(69, "fork", "--name", "child", "walled", env=kata)
    assert names(jailed) == ["web", "walled"]


def test_a_backend_without_snapshots_says_so(tendon):
    tendon.ok("new", "--name", "web")
    assert "snapshot" in tendon.fails(69, "snapshot", "web")
    assert tendon.fails(69, "fork", "web")
    assert names(tendon) == ["web"]


# --- what is left -------------------------------------------------------------------------------


def test_gc(any_tendon, tmp_path):
    mark = f"{tmp_path}/mark"
    any_tendon.ok("new", "--name", "stays")
    any_tendon.env["TEST_MARK"] = mark
    process = any_tendon.start("run", "echo ready; sleep 1000")
    assert process.stdout.readline() == "ready\n"
    del any_tendon.env["TEST_MARK"]
    assert any_tendon.json("gc") == []  # what lives is not touched
    process.kill()
    process.wait()
    any_tendon.ok("gc")
    eventually(lambda: not processes_with(mark), "its processes end")
    assert names(any_tendon) == ["stays"]
    any_tendon.ok("rm", "stays")
    assert any_tendon.leftovers() == []


def test_a_lease_runs_out(tendon):
    tendon.ok("new", "--name", "short", "--lease", "0.5")
    eventually(lambda: tendon.ok("ls", "-q") == "", "the next start removes it")
    assert tendon.leftovers() == []


def test_a_signal_while_new_makes_one(tendon, tmp_path):
    hand = tmp_path / "hand"
    mark = f"{tmp_path}/mark"
    hand.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 1000\n")
    hand.chmod(0o755)
    tendon.env["TEST_MARK"] = mark
    process = tendon.start("new", "--set", f"tendon.hand={hand}")
    eventually((tmp_path / "begun").exists, "the hand is started")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == -signal.SIGINT
    eventually(lambda: not processes_with(mark), "no process is left")
    eventually(lambda: tendon.leftovers() == [], "nothing is left on disk")
    assert process.stdout.read() == ""


def test_warm_ones(tendon):
    assert tendon.ok("new", "--warm", "2") == "2\n"
    assert tendon.ok("new", "--warm", "2") == "0\n"
    assert names(tendon) == []
    assert [row["warm"] for row in tendon.json("ls", "--all")] == [True, True]
    tendon.ok("new", "--name", "web")
    assert tendon.ok("exec", "web", "echo warm") == "warm\n"
    assert len(tendon.json("ls", "--all")) == 2


@pytest.mark.parametrize("life", ["", "sleep 1; "], ids=["at once", "soon"])
def test_a_warm_one_whose_hand_ends_is_not_waited_for(any_tendon, tmp_path, life):
    """As long as a start may take, for each that was asked for."""
    hand = tmp_path / "hand"
    hand.write_text(f"#!/bin/sh\n{life}exit 1\n")
    hand.chmod(0o755)
    complaint = any_tendon.fails(76, "new", "--set", f"tendon.hand={hand}", "--warm", "2", timeout=200)
    assert "ended" in complaint, complaint
    assert any_tendon.json("ls", "--all") == [] and any_tendon.leftovers() == []


@pytest.mark.concurrent
def test_many_who_claim_at_once_get_one_each(tendon):
    """Processes, more than there are warm ones: the others make their own."""
    assert tendon.ok("new", "--warm", "5") == "5\n"
    warm = {row["id"] for row in tendon.json("ls", "--all")}
    claims = [tendon.start("new") for _ in range(8)]
    made = [process.communicate(timeout=100)[0].strip() for process in claims]
    assert [process.returncode for process in claims] == [0] * 8
    assert len(set(made)) == 8 and warm < set(made)
    assert {row["id"] for row in tendon.json("ls", "--all")} == set(made)


NAMES = "hostname; uname -n; cat /etc/hostname /etc/hosts; stat -c '%u %g %a' /etc/hostname /etc/hosts; getent hosts $(hostname)"


@pytest.mark.skipif(os.geteuid() != 0, reason="the keeper of an ordinary user's jail cannot rename it")
@pytest.mark.parametrize("network", ["none", "host"])
def test_a_warm_one_has_its_name_inside(jailed, network):
    """As one that was made with its name: host name and files of /etc."""
    wish = ["--quiet", "--network", network, "--memory", "256m"]
    jailed.ok("new", "--warm", "1", *wish)
    (waiting,) = [row["id"] for row in jailed.json("ls", "--all")]
    claimed = jailed.ok("new", "--name", "claimed-one", *wish).strip()
    assert waiting in {row["id"] for row in jailed.json("ls") if row["name"] == "claimed-one"}, claimed
    jailed.ok("new", "--name", "another-one", *wish)
    names = jailed.ok("exec", "claimed-one", NAMES)
    assert names == jailed.ok("exec", "another-one", NAMES).replace("another-one", "claimed-one")
    assert names.startswith("claimed-one\nclaimed-one\nclaimed-one\n")
    jailed.ok("stop", "claimed-one")
    assert jailed("resume", "claimed-one").returncode == 0
    assert jailed.ok("exec", "claimed-one", NAMES) == names


def test_the_network_of_the_host_is_said_loudly(jailed):
    for words, env in ((["--network", "host"], {}), ([], {"TENDON_JAIL_NETWORK": "host"})):
        told = jailed("run", *words, "true", env=env)
        assert told.returncode == 0 and "warning: network host: " in told.stderr and "loopback" in told.stderr, told
    assert jailed.ok("run", "--network", "none", "true") == ""


@pytest.mark.parametrize(
    "env", [{"TENDON_WARM": "2"}, {"INITIAL_NUM_WARM_SERVERS": "2"}, {"TENDON_WARM": "1", "DESIRED_NUM_WARM_SERVERS": "2"}]
)
def test_warm_ones_by_the_configuration(tendon, env):
    """So many wait after each new one; and each has a workspace of its own, whoever was there before."""
    tendon.ok("new", "--name", "one", env=env)
    waiting = {row["id"] for row in tendon.json("ls", "--all") if row["warm"]}
    assert len(waiting) == 2
    tendon.ok("exec", "one", "echo mine >note")
    tendon.ok("new", "--name", "two", env=env)
    assert tendon.json("inspect", "two")["id"] in waiting
    assert len([row for row in tendon.json("ls", "--all") if row["warm"]]) == 2
    assert len({tendon.ok("exec", name, "pwd") for name in ("one", "two")}) == 2
    assert tendon.ok("exec", "two", "ls") == ""


def test_a_warm_one_that_died_is_handed_to_nobody(any_tendon):
    assert any_tendon.ok("new", "--warm", "2") == "2\n"
    oldest, other = (row["id"] for row in any_tendon.json("ls", "--all"))
    pid = any_tendon.json("inspect", oldest)["ref"]["pid"]
    watch = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([watch], [], [], 60)[0], "it does not die"
    os.close(watch)
    any_tendon.ok("new", "--name", "web")
    assert any_tendon.ok("exec", "web", "echo warm") == "warm\n"
    assert [row["id"] for row in any_tendon.json("ls", "--all")] == [other]


def test_warm_ones_that_are_dying_are_handed_to_nobody(any_tendon):
    assert any_tendon.ok("new", "--warm", "4") == "4\n"
    ids = [row["id"] for row in any_tendon.json("ls", "--all")]
    pids = [any_tendon.json("inspect", one)["ref"]["pid"] for one in ids]
    watches = [os.pidfd_open(pid) for pid in pids[:3]]
    for pid in pids[:3]:
        os.kill(pid, signal.SIGKILL)
    any_tendon.ok("new", "--name", "web")  # at once: some are only about to die
    assert any_tendon.ok("exec", "web", "echo warm") == "warm\n"
    for watch in watches:
        assert select.select([watch], [], [], 60)[0], "it does not die"
        os.close(watch)
    assert [row["id"] for row in any_tendon.json("ls", "--all")] == ids[3:]


def test_doctor(tendon):
    result = tendon("doctor", "--runtime", "local")
    assert result.returncode == 0
    assert "local" in result.stdout
    found = json.loads(tendon("--json", "doctor").stdout)
    assert {"local", "jail", "docker", "cli", "remote"} <= {row["runtime"] for row in found}


def test_doctor_examines_programs_too(tendon):
    """Once each, and what does not work is told once."""
    tendon.env["PATH"] = f"{ROOT}/examples:{tendon.env['PATH']}"
    found = json.loads(tendon("--json", "doctor", env={"DOCKER_HOST": "unix:///nowhere/at/all"}).stdout)
    names = [row["runtime"] for row in found]
    assert "example" in names and len(set(names)) == len(names)
    (docker,) = [row for row in found if row["runtime"] == "docker"]
    assert docker["works"] is False and [f["what"] for f in docker["findings"]] == ["container engine"]


def test_bench(any_tendon):
    found = any_tendon.json("bench", "--rounds", "2")["milliseconds"]
    for what in ("bash -c true", "create to first observation", "warm claim", "action round trip"):
        assert found[what]["count"] >= 2 and found[what]["p50"] > 0
    assert found["bash -c true"]["ratio"] == 1.0
    assert any_tendon("bench", "--rounds", "2").stderr == ""  # it warns once, not of each
    assert any_tendon.leftovers() == []


# --- leases -------------------------------------------------------------------------------------


def let_time_pass(tendon, seconds=1000):
    with contextlib.closing(sqlite3.connect(tendon.state / "tendon.db", timeout=20)) as db, db:
        db.execute("UPDATE sandbox SET used_up = used_up - ?", (seconds,))


@pytest.fixture
def leased(tendon):
    tendon.ok("new", "--name", "web", "--lease", "100")
    return tendon


def check_use(tendon, end):
    """In use, however long; then for as long as its lease, and no longer."""
    let_time_pass(tendon)
    assert tendon.ok("gc") == "" and names(tendon) == ["web"]
    let_time_pass(tendon)
    end()
    assert names(tendon) == ["web"]
    let_time_pass(tendon, 50)
    assert names(tendon) == ["web"]
    let_time_pass(tendon)
    assert names(tendon) == []


def test_a_command_that_runs_is_use(leased):
    process = leased.start("exec", "web", "echo begun; cat", stdin=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    check_use(leased, lambda: process.communicate("", timeout=30))


def test_a_command_that_is_killed_was_use(leased):
    process = leased.start("exec", "web", "echo begun; cat", stdin=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"

    def end():
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)

    check_use(leased, end)


def test_each_command_is_use(leased):
    let_time_pass(leased, 60)
    leased.ok("exec", "web", "true")
    let_time_pass(leased, 60)
    assert names(leased) == ["web"]
    let_time_pass(leased, 60)
    assert names(leased) == []


def test_an_attached_shell_is_use(leased, screen):
    it = screen(leased, "shell", "web")
    it.type("echo rea''dy\n")
    it.wait_for("ready")

    def end():
        it.type("\n~.")
        it.wait()

    check_use(leased, end)


def test_a_forwarded_port_is_use(leased):
    process = leased.start("port", "web", "0:8000")
    assert "->" in process.stdout.readline()

    def end():
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

    check_use(leased, end)


def test_a_copy_is_use(leased):
    process = leased.start("cp", "-", "web:/tmp/streamed", stdin=subprocess.PIPE)
    process.stdin.write("x" * 300_000)  # more than a pipe holds: it is under way once all is written
    process.stdin.flush()
    check_use(leased, lambda: process.communicate("", timeout=30))


def test_to_look_is_no_use(leased):
    let_time_pass(leased, 60)
    for look in (["ls"], ["ps", "web"], ["inspect", "web"], ["logs", "web"]):
        leased(*look)
    let_time_pass(leased, 60)
    assert names(leased) == []


# --- runtimes that are programs, and those that are gone -----------------------------------------


@pytest.fixture
def example(make_tendon):
    tendon = make_tendon("example")
    tendon.env["PATH"] = f"{ROOT}/examples:{tendon.env['PATH']}"
    return tendon


def forget(tendon):
    with contextlib.closing(sqlite3.connect(tendon.state / "tendon.db", timeout=20)) as db, db:
        db.execute("DELETE FROM sandbox")


def test_gc_asks_programs_too(example):
    ident = example.ok("new", "--quiet").strip()
    forget(example)
    mark = f"{example.state}/{ident}"
    assert processes_with(mark)
    assert f"{ident}: nobody knows it" in example.ok("gc")
    eventually(lambda: not processes_with(mark), "its processes end")
    assert example.ok("gc") == "" and list((example.state / "example").iterdir()) == []


def test_gc_is_not_held_up_by_a_program_that_is_broken(example, tmp_path):
    broken = tmp_path / "tendon-runtime-broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    example.env["PATH"] = f"{tmp_path}:{example.env['PATH']}"
    assert example.ok("gc") == ""


def test_gc_asks_all_runtimes_at_the_same_time(example, tmp_path):
    """Each of three answers when the others were asked too: for its sandbox, whose lease is over, and for what it has."""
    met = tmp_path / "met"
    met.mkdir()
    meet = f"""def meet(kind):
    open(f"{met}/{{kind}}-{{os.getpid()}}", "w").close()
    if not wait_until(lambda: sum(name.startswith(kind) for name in os.listdir("{met}")) >= 3, 20):
        raise Failure("peer", "the others were not asked")


"""
    text = pathlib.Path(ROOT, "examples/tendon-runtime-example").read_text()
    for line, more in (
        ("def main():\n", meet + "def main():\n"),
        ("        else:\n            sandbox.end()\n", "        else:\n            meet('gone')\n            sandbox.end()\n"),
        ("    def list(self, _):\n", "    def list(self, _):\n        meet('list')\n"),
    ):
        assert text.count(line) == 1
        text = text.replace(line, more)
    for name in "abc":
        (tmp_path / f"tendon-runtime-{name}").write_text(text)
        (tmp_path / f"tendon-runtime-{name}").chmod(0o755)
    example.env["PATH"] = f"{tmp_path}:{example.env['PATH']}"
    for name in "abc":
        example.ok("new", "--quiet", "--name", name, "--runtime", name, "--lease", "100")
    let_time_pass(example)
    example.ok("gc")
    assert sorted(path.name.split("-")[0] for path in met.iterdir()) == ["gone"] * 3 + ["list"] * 3
    assert names(example) == []


def test_a_snapshot_that_cannot_be_removed_keeps_its_row(example, tmp_path):
    """One that failed as well: what may still be there counts, and can be removed later."""
    stuck = tmp_path / "stuck"
    stuck.touch()
    text = pathlib.Path(ROOT, "examples/tendon-runtime-example").read_text()
    for line, more in (
        ('["pause", "stop"]', '["pause", "stop", "snapshot"]'),
        ('["put", ', '["snapshot", "forget", "put", '),
        ("    def list(self, _):\n", f"""    def snapshot(self, params):
        if params["name"] != "good":
            raise Failure("timeout", "the disk was not copied")
        return {{}}

    def forget(self, params):
        if os.path.exists({str(stuck)!r}):
            raise Failure("peer", "the storage is away")
        raise Failure("not_found", "no such snapshot")

    def list(self, _):
"""),
    ):  # fmt: skip
        assert text.count(line) == 1
        text = text.replace(line, more)
    (tmp_path / "tendon-runtime-layered").write_text(text)
    (tmp_path / "tendon-runtime-layered").chmod(0o755)
    example.env["PATH"] = f"{tmp_path}:{example.env['PATH']}"
    example.ok("new", "--quiet", "--name", "web", "--runtime", "layered")
    kept = lambda: sorted(row["name"] for row in example.json("snapshot", "--list", "web"))

    example.ok("snapshot", "web", "good")
    result = example("snapshot", "web", "bad")
    assert result.returncode and "the disk was not copied" in result.stderr and "still there" in result.stderr, result.stderr
    assert "the storage is away" in example("snapshot", "--rm", "web", "good").stderr
    assert kept() == ["bad", "good"]
    stuck.unlink()
    example.ok("snapshot", "--rm", "web", "bad")
    example.ok("snapshot", "--rm", "web", "good")
    assert kept() == []
    assert "still there" not in example("snapshot", "web", "bad").stderr and kept() == []


def test_a_runtime_that_is_gone(example):
    """The sandbox can be forgotten, and that is all that can be done from here."""
    ident = example.ok("new", "--quiet", "--name", "web") and example.json("ls")[0]["id"]
    here = example.env["PATH"]
    example.env["PATH"] = here.replace(f"{ROOT}/examples:", "")
    assert "example" in example.fails(66, "rm", "web")
    assert example("rm", "--all").returncode == 66
    assert names(example) == ["web"]
    result = example("rm", "-f", "web")
    assert result.returncode == 0 and "web is forgotten, but example may still have it" in result.stderr
    assert names(example) == [] and not (example.state / "sandbox" / ident).exists()
    example.env["PATH"] = here
    assert f"{ident}: nobody knows it" in example.ok("gc")  # once it is back


def test_ls_of_one_runtime(example):
    example.ok("new", "--quiet", "--name", "one")
    example.ok("new", "--name", "two", "--runtime", "local", "--quiet")
    assert sorted(names(example)) == ["one", "two"]
    assert example.ok("ls", "-q", "--runtime", "example") == "one\n"
    assert [box["name"] for box in example.json("ls", "--runtime", "local")] == ["two"]
    assert "there is no runtime 'nonsense'" in example.fails(66, "ls", "--runtime", "nonsense")

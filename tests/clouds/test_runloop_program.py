"""The whole program with devboxes of a Runloop: new, exec, stop, resume, rm, gc, doctor; and who is killed when."""

import json

import pytest

from runloop_worlds import RunloopTendon
from tendons import eventually


@pytest.fixture
def make_tendon(tendon_program, tmp_path):
    made = []

    def make(service, **env):
        made.append(RunloopTendon(tendon_program, tmp_path / f"t{len(made)}", service, **env))
        return made[-1]

    yield make
    for tendon in made:
        tendon.finish()


@pytest.fixture
def tendon(make_tendon, service):
    return make_tendon(service)


def status(tendon):
    (box,) = tendon.boxes()
    return box["status"]


def test_a_life(tendon):
    tendon.ok("new", "--name", "web", "--env", "GREETING=it's $me", "--label", "team=blue")
    (box,) = tendon.boxes()
    assert box["metadata"]["tendon.session"] == "web" and box["metadata"]["team"] == "blue"
    assert tendon.ok("exec", "web", "echo $GREETING; pwd") == "it's $me\n/workspace\n"
    assert "listening" in tendon.ok("logs", "web")
    assert "pause" in tendon("pause", "web").stderr and status(tendon) == "running"
    tendon.ok("exec", "-s", "main", "web", "echo kept >file; x=5")
    tendon.ok("stop", "web")
    assert status(tendon) == "suspended" and "stopped" in tendon.ok("ls")
    assert "tendon resume web" in tendon.fails(73, "exec", "web", "true")
    told = tendon("resume", "web")
    assert told.returncode == 0 and "putting the hand" not in told.stderr
    assert tendon.ok("exec", "-s", "main", "web", 'cat file; echo "<$x>"') == "kept\n<>\n"
    tendon.ok("rm", "web")
    assert tendon.boxes() == []


def test_no_token_is_shown(tendon, service):
    tendon.ok("new", "--name", "web")
    shown = tendon.ok("--json", "inspect", "web")
    (box,) = tendon.boxes()
    assert json.loads(shown)["address"] == service.url
    assert box["tunnel"]["auth_mode"] == "authenticated" and box["tunnel"]["auth_token"] not in shown
    assert tendon.client.key not in shown


def test_a_long_log_and_a_file(tendon, tmp_path):
    """What is more than an answer holds comes as a file, which does not stay."""
    tendon.ok("new", "--name", "web")
    (tmp_path / "a.txt").write_text("from here")
    tendon.ok("cp", str(tmp_path / "a.txt"), "web:/tmp/a.txt")
    assert tendon.ok("exec", "web", "cat /tmp/a.txt") == "from here"
    tendon.ok("exec", "web", "head -c 3000000 /dev/zero | tr '\\0' x >>~/.tendon/log || head -c 3000000 /dev/zero | "
              "tr '\\0' x >>/home/user/.tendon/log")
    assert tendon.ok("logs", "web", timeout=90).count("x") >= 3000000
    eventually(lambda: tendon.ok("exec", "web", "ls /tmp/tmp.* 2>/dev/null | wc -l").strip() == "0", "it is removed", 30)


# --- time-outs ---------------------------------------------------------------------------------------


def test_a_time_out_is_kept_off_while_it_is_used(make_tendon, service):
    tendon = make_tendon(service, TENDON_RUNLOOP_TIMEOUT="10")
    tendon.ok("new", "--name", "web")
    assert tendon.ok("exec", "web", "sleep 16; echo still here", timeout=90) == "still here\n"
    assert status(tendon) == "running"
    # Nobody uses it: it is put to rest, and its next use wakes it.
    eventually(lambda: status(tendon) == "suspended", "it rests", 90)
    alive = {"SANDBOX_KEEP_RUNTIME_ALIVE": "true"}
    assert tendon.ok("exec", "web", "echo woken", env=alive, timeout=90) == "woken\n"


# --- lost and found ----------------------------------------------------------------------------------


def test_what_a_lost_state_knew_is_found_by_its_marks(tendon):
    tendon.ok("new", "--name", "web")
    (tendon.state / "tendon.db").unlink()
    for rest in tendon.state.glob("tendon.db-*"):
        rest.unlink()
    assert "nobody knows it" in tendon.ok("gc")
    assert tendon.boxes() == []


def test_gc_leaves_others_alone(tendon, make_tendon, service):
    other = make_tendon(service)
    other.env["RUNLOOP_API_KEY"] = tendon.env["RUNLOOP_API_KEY"]  # one account, two states
    strange = tendon.client.post("/v1/devboxes", {}).ok().json
    tendon.ok("new", "--name", "web")
    other.ok("gc")
    tendon.ok("gc")
    assert len(tendon.boxes()) == 2
    tendon.client.post(f"/v1/devboxes/{strange['id']}/shutdown", {}).ok()


def test_a_client_that_is_killed_in_mid_create_leaves_nothing(tendon):
    making = tendon.start("new", "--name", "web")
    eventually(lambda: tendon.boxes() or making.poll() is not None, "it is being made", 60)
    finished = making.poll() is not None
    making.kill()
    making.communicate()
    tendon.ok("gc")
    assert len(tendon.boxes()) == finished
    tendon("rm", "web")


# --- ports, doctor -----------------------------------------------------------------------------------


def test_public_ports_have_addresses(make_tendon, service):
    tendon = make_tendon(service, TENDON_RUNLOOP_PUBLIC_PORTS="true")
    tendon.ok("new", "--name", "web", "-p", "8000")
    (box,) = tendon.boxes()
    assert box["tunnel"]["auth_mode"] == "open"
    assert f"//8000-{box['tunnel']['tunnel_key']}." in tendon.ok("port", "web")


def test_doctor(tendon):
    told = tendon.ok("doctor", "--runtime", "runloop")
    assert "accepts the key" in told and "clock" in told and "in the clear" in told
    refused = tendon("doctor", "--runtime", "runloop", env={"RUNLOOP_API_KEY": "nobody"})
    assert refused.returncode and "does not accept the key" in refused.stdout
    missing = tendon("doctor", "--runtime", "runloop", env={"RUNLOOP_API_KEY": ""})
    assert missing.returncode and "there is no key for Runloop" in missing.stdout

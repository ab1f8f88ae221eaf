"""The whole program with sandboxes of an E2B, from new to gc; and who is killed when."""

import datetime
import json
import time

import pytest

from tendons import eventually


@pytest.fixture
def tendon(make_tendon, service):
    return make_tendon(service)


def state(tendon):
    (box,) = tendon.boxes()
    return box["state"]


def test_a_life(tendon):
    tendon.ok("new", "--name", "web", "--env", "GREETING=it's $me", "--label", "team=blue")
    (box,) = tendon.boxes()
    assert box["metadata"]["tendon.session"] == "web" and box["metadata"]["team"] == "blue"
    assert tendon.ok("exec", "web", "echo $GREETING; pwd") == "it's $me\n/workspace\n"
    assert "listening" in tendon.ok("logs", "web")
    tendon.ok("pause", "web")
    assert state(tendon) == "paused" and "paused" in tendon.ok("ls")
    assert "tendon resume web" in tendon.fails(73, "exec", "web", "true")
    tendon.ok("resume", "web")
    tendon.ok("exec", "-s", "main", "web", "echo kept >file; x=5")
    tendon.ok("stop", "web")
    tendon.ok("resume", "web")
    assert tendon.ok("exec", "-s", "main", "web", "cat file; echo \"<$x>\"") == "kept\n<>\n"
    tendon.ok("rm", "web")
    assert tendon.boxes() == []


def test_no_token_is_shown(tendon, service):
    tendon.ok("new", "--name", "web")
    told = json.loads(tendon.ok("--json", "inspect", "web"))
    (box,) = tendon.boxes()
    detail = tendon.client.get(f"/sandboxes/{box['sandboxID']}").ok().json
    shown = json.dumps(told)
    assert told["address"] == service.url
    assert detail["envdAccessToken"] not in shown and detail["trafficAccessToken"] not in shown
    assert tendon.client.key not in shown


def test_files(tendon, tmp_path):
    tendon.ok("new", "--name", "web")
    (tmp_path / "a.txt").write_text("from here")
    tendon.ok("cp", str(tmp_path / "a.txt"), "web:/tmp/a.txt")
    assert tendon.ok("exec", "web", "cat /tmp/a.txt") == "from here"
    back = tmp_path / "b.txt"
    tendon.ok("cp", "web:/tmp/a.txt", str(back))
    assert back.read_text() == "from here"


def uploads(service):
    return sum(line.get("path") == "/files" for line in service.log_lines())


def test_the_second_start_uploads_nothing(tendon, service):
    tendon.ok("new", "--name", "web")
    before = uploads(service)
    tendon.ok("stop", "web")
    tendon.ok("resume", "web")
    assert tendon.ok("exec", "web", "echo works") == "works\n"
    assert uploads(service) == before


# --- time-outs ---------------------------------------------------------------------------------------


def seconds_left(tendon):
    (box,) = tendon.boxes()
    end = box["endAt"].replace("Z", "+00:00")
    return datetime.datetime.fromisoformat(end).timestamp() - time.time()


def test_a_time_out_is_kept_off_while_it_is_used(make_tendon, service):
    tendon = make_tendon(service, TENDON_E2B_TIMEOUT="10")
    tendon.ok("new", "--name", "web")
    # What is beyond the time-out (and what a new one has more of it) is waited for by one command.
    tendon.client.post(f"/sandboxes/{tendon.boxes()[0]['sandboxID']}/timeout", {"timeout": 10}).ok(204)
    assert tendon.ok("exec", "web", "sleep 16; echo still here", timeout=90) == "still here\n"
    assert state(tendon) == "running" and 0 < seconds_left(tendon) <= 11
    # Nobody uses it: it is put to rest, and its next use wakes it.
    eventually(lambda: state(tendon) == "paused", "it rests", 60)
    alive = {"SANDBOX_KEEP_RUNTIME_ALIVE": "true"}
    assert tendon.ok("exec", "web", "echo woken", env=alive, timeout=90) == "woken\n"


def test_what_belongs_to_a_killed_process_ends(make_tendon, service):
    tendon = make_tendon(service, TENDON_E2B_TIMEOUT="10")
    running = tendon.start("run", "sleep 600")
    (box,) = eventually(tendon.boxes, "it is there", 60)
    tendon.client.post(f"/sandboxes/{box['sandboxID']}/timeout", {"timeout": 10}).ok(204)
    running.kill()
    running.communicate()
    eventually(lambda: tendon.boxes() == [], "the vendor has ended it", 60)
    tendon.ok("gc")


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
    other.env["E2B_API_KEY"] = tendon.env["E2B_API_KEY"]  # one account, two states
    strange = tendon.client.post("/sandboxes", {"templateID": "base", "timeout": 300}).ok(201).json
    tendon.ok("new", "--name", "web")
    other.ok("gc")
    assert len(tendon.boxes()) == 2
    tendon.ok("gc")
    assert len(tendon.boxes()) == 2
    tendon.client.delete(f"/sandboxes/{strange['sandboxID']}").ok(204)


@pytest.mark.parametrize("moment", [0, 0.1, 0.4, 1.0])
def test_a_client_that_is_killed_in_mid_create_leaves_nothing(tendon, moment):
    making = tendon.start("new", "--name", "web")
    eventually(lambda: tendon.boxes() or making.poll() is not None, "it is being made", 60)
    deadline = time.monotonic() + moment
    while making.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    making.kill()
    making.communicate()
    assert len(tendon.boxes()) == 1
    tendon.ok("gc")
    assert len(tendon.boxes()) == (making.returncode == 0)
    tendon("rm", "web")


def test_a_service_that_is_killed_in_mid_create(make_tendon, own_service):
    tendon = make_tendon(own_service)
    making = tendon.start("new", "--name", "web")
    eventually(lambda: tendon.boxes() or making.poll() is not None, "it is being made", 60)
    own_service.restart(kill=True)
    making.communicate(timeout=120)
    assert len(tendon.boxes()) <= 1
    if making.returncode == 0:
        assert tendon.ok("exec", "web", "echo works") == "works\n"
    else:
        tendon.ok("gc")
        assert tendon.boxes() == []
        tendon.ok("new", "--name", "web")
    assert len(tendon.boxes()) == 1


def test_a_hand_that_is_killed_comes_back(tendon):
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "-s", "main", "web", "echo kept >file")
    mark = tendon.boxes()[0]["sandboxID"]
    pid = tendon.ok("exec", "web", "cat ~/.tendon/pid 2>/dev/null || cat /home/user/.tendon/pid").strip()
    tendon("exec", "web", f"kill -9 {pid}", timeout=120)
    tendon.ok("resume", "web", timeout=120)
    assert tendon.ok("exec", "-s", "main", "web", "cat file") == "kept\n"
    assert [box["sandboxID"] for box in tendon.boxes()] == [mark]


# --- doctor ------------------------------------------------------------------------------------------


def test_doctor(tendon):
    told = tendon.ok("doctor", "--runtime", "e2b")
    assert "accepts the key" in told and "clock" in told and "in the clear" in told
    refused = tendon("doctor", "--runtime", "e2b", env={"E2B_API_KEY": "e2b_00"})
    assert refused.returncode and "does not accept the key" in refused.stdout
    missing = tendon("doctor", "--runtime", "e2b", env={"E2B_API_KEY": ""})
    assert missing.returncode and "there is no key for E2B" in missing.stdout

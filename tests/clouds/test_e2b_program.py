"""The program with sandboxes of E2B, as far as they differ from others: a pause, and time-outs that end them."""

import datetime
import time

import pytest

from cloud_worlds import CLOUDS
from tendons import eventually


@pytest.fixture(scope="module")
def cloud():
    return CLOUDS["e2b"]


def state(tendon):
    (box,) = tendon.boxes()
    return box["state"]


def test_a_pause(make_tendon, service):
    tendon = make_tendon(service)
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "-s", "main", "web", "x=5")
    tendon.ok("pause", "web")
    assert state(tendon) == "paused" and "paused" in tendon.ok("ls")
    assert "tendon resume web" in tendon.fails(73, "exec", "web", "true")
    tendon.ok("resume", "web")
    assert tendon.ok("exec", "-s", "main", "web", "echo $x") == "5\n"


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

"""Jails in all states, also those that only accidents lead to."""

import contextlib
import json
import os
import signal

import pytest

from conformance import Refusal, wait_until
from jail_world import children_of
from processes import stat_of

GOALS = ["running", "paused", "stopped", "gone"]


def ref(box):
    return box("inspect")["ref"]


def process(box, which):
    value = ref(box)
    return (json.loads(value) if isinstance(value, str) else value)[which]


def wait_dead(pid):
    def dead():
        try:
            return stat_of(pid)[0] in "ZX"
        except OSError:
            return True

    wait_until(dead, what=f"{pid} ends")


@pytest.mark.parametrize("start", ["running", "paused", "stopped"])
@pytest.mark.parametrize("goal", GOALS)
def test_from_every_state_to_every_other(box, start, goal):
    box.ok("echo kept >/workspace/file")
    box.drive(start)
    box.drive(goal)
    if goal == "gone":
        return
    assert box.drive(goal) == goal
    assert box.status() == goal
    box.drive("running")
    assert box.ok("cat /workspace/file") == "kept"


def kill_keeper(box):
    pid, init = process(box, "keeper"), process(box, "pid")
    os.kill(pid, signal.SIGKILL)
    wait_dead(init)


def kill_hand(box):
    pid, keeper = process(box, "pid"), process(box, "keeper")
    os.kill(pid, signal.SIGKILL)
    wait_dead(keeper)


def kill_both(box):
    pids = process(box, "keeper"), process(box, "pid")
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a jail ends with its keeper
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        wait_dead(pid)


ACCIDENTS = [kill_keeper, kill_hand, kill_both]


@pytest.mark.parametrize("accident", ACCIDENTS)
@pytest.mark.parametrize("goal", ["running", "stopped", "gone"])
def test_after_an_accident(box, accident, goal):
    box.ok("echo kept >/workspace/file; sleep 1000 >/dev/null 2>&1 &")
    accident(box)
    answer = box("inspect")
    assert answer["status"] == "error" and answer["reason"], answer
    box.drive(goal)
    if goal == "gone":
        return
    assert box.status() == goal
    box.drive("running")
    assert box.ok("cat /workspace/file") == "kept"


def test_an_accident_while_paused(box):
    box.drive("paused")
    kill_keeper(box)
    box.drive("running")
    assert box.ok("echo again") == "again"


def test_the_reason_of_an_end(box):
    os.kill(process(box, "pid"), signal.SIGKILL)
    wait_until(lambda: box.status() == "error")
    assert "signal 9" in box("inspect")["reason"]


def test_nothing_known_about_it(world, box):
    """The files that describe it are gone: gone it must still go, with processes, groups and all."""
    directory = world.state / "sandbox" / box.id
    (directory / "jail.json").unlink()
    box.drive("gone")
    second = world.new(box.driver)
    for name in ("jail.json", "keeper.sock", "hand.sock"):
        (world.state / "sandbox" / second.id / name).unlink()
    second.drive("gone")


def test_half_made(world, driver):
    """Killed between the steps of a creation."""
    box = world.new(driver, create=False)
    assert box.status() == "missing"
    box.drive("gone")
    second = world.new(driver, create=False)
    (world.state / "sandbox" / second.id).mkdir(exist_ok=True)
    (world.state / "sandbox" / second.id / "jail.json").write_text("{")
    second.drive("gone")


def test_the_missing_cannot_be_driven(world, driver):
    box = world.new(driver, create=False)
    for goal in ("running", "paused", "stopped"):
        with pytest.raises(Refusal) as refusal:
            box.drive(goal)
        assert refusal.value.code == "not_found"


def test_another_process_finds_it_without_a_ref(world, box):
    """Killed after the start, before anybody could write down where it is."""
    record = world.state / "drive" / f"{box.id}.json"
    known = json.loads(record.read_text())
    known["ref"] = None
    record.write_text(json.dumps(known))
    other = box.seen_by(world.open())
    assert other.status() == "running"
    assert other.ok("echo found") == "found"
    other.drive("stopped")


def test_paused_is_really_paused(box):
    box.ok("(while :; do echo x >>/workspace/ticks; done) >/dev/null 2>&1 &")
    box.ok("until [ -s /workspace/ticks ]; do sleep 0.01; done")
    box.drive("paused")
    init = process(box, "pid")
    states = [stat_of(pid) for pid in children_of(init)]
    times = [(words[11], words[12]) for words in states]
    for _ in range(50):
        os.sched_yield()
        again = [stat_of(pid) for pid in children_of(init)]
        assert [(words[11], words[12]) for words in again] == times
    with pytest.raises(Refusal) as refusal:
        box("exec", argv=["true"])
    assert "paused" in refusal.value.text
    box.drive("running")
    assert box.ok("echo on") == "on"


def test_exec_is_as_confined_as_the_rest(box):
    def status(text):
        return {line.split(":")[0]: line.split(":")[1].split() for line in text.splitlines() if ":" in line}

    inside = status(box.ok("cat /proc/self/status"))
    entered = status(box("exec", argv=["cat", "/proc/self/status"])["output"])
    for key in ("CapEff", "CapBnd", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Uid", "Gid"):
        assert entered[key] == inside[key], key
    script = "for n in user pid mnt net ipc uts cgroup; do readlink /proc/self/ns/$n; done; cat /proc/self/cgroup"
    assert box("exec", argv=["sh", "-c", script])["output"].strip() == box.ok(script)


def test_put_makes_directories_and_keeps_inside(box):
    box.ok("ln -s /etc /workspace/etc")
    box("put", path="/workspace/etc/tendon-test", text="x")
    assert not os.path.exists("/etc/tendon-test")
    assert box.ok("cat /etc/tendon-test") == "x"
    with pytest.raises(Refusal):
        box("put", path="relative", text="x")


def test_doctor(driver):
    findings = {finding["what"]: finding for finding in driver("doctor", runtime="jail")["findings"]}
    assert findings["user namespaces"]["good"] is True
    assert all(finding["detail"] for finding in findings.values())
    assert "suspend to disk" in findings


def test_suspend_says_why_not(world, box, driver):
    """Without a criu, with an old one, without root, or because the jail was not made for it."""
    box.ok("echo kept >/workspace/file")
    with pytest.raises(Refusal) as refusal:
        box.drive("suspended")
    assert refusal.value.code == "unsupported"
    assert "criu" in refusal.value.text or "jail.suspend" in refusal.value.text or "never tried" in refusal.value.text
    assert box.ok("cat /workspace/file") == "kept"

"""Who outlives whom."""

import os
import signal

from conformance import Refusal, marked, wait_until

import pytest


def hand_of(world, box):
    """The pid of the sandbox's hand as this machine knows it."""
    return box("inspect")["ref"].get("pid")


def test_a_sandbox_ends_with_its_owner(world, driver):
    box = world.new(driver)
    box.ok("sleep 1000 >/dev/null 2>&1 &")
    driver.kill()
    later = box.seen_by(world.open())
    wait_until(lambda: later.status() in ("error", "stopped", "missing"), what="it has ended")
    assert later("inspect")["address"] is None


def test_a_kept_sandbox_outlives_its_maker(world, driver):
    box = world.new(driver, own=False)
    box.ok("echo kept >file; cd /; x=5")
    driver.kill()
    later = box.seen_by(world.open())
    assert later.status() == "running"
    assert later.ok('echo "$PWD $x"') == "/ 5"
    if "stop" not in later.driver.abilities:
        return
    assert later.drive("stopped") == "stopped"
    assert later.drive("running") == "running"
    assert later.ok("cat file") == "kept"


def test_a_sandbox_whose_create_was_interrupted_is_found(world, driver):
    """The maker is killed before anybody could note where the sandbox is."""
    box = world.new(driver, own=False)
    box.ok("sleep 1000 >/dev/null 2>&1 &")
    driver.kill()
    record = world.state / "drive" / f"{box.id}.json"
    text = record.read_text()
    record.unlink()
    later = world.open()
    assert box.id in later("list")["ids"]
    forgotten = box.seen_by(later)
    forgotten("subject", own=False, spec=world.spec)  # without its ref
    assert forgotten.drive("gone") == "missing"
    assert box.id not in later("list")["ids"]
    assert text  # it had been noted


def test_a_killed_hand_is_an_error_with_a_reason_and_comes_back(world, driver):
    box = world.new(driver)
    box.ok("echo kept >file; (setsid sleep 1000 >/dev/null 2>&1 &)")
    pid = hand_of(world, box)
    if not pid:
        pytest.skip("its hand is not a process of this machine")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: box.status() == "error", what="the end is noticed")
    assert box("inspect")["reason"]
    with pytest.raises(Refusal):
        box.ok("true")
    assert box.drive("running") == "running"
    assert box.ok("cat file") == "kept"
    assert not marked("sleep 1000", environment=False) or not any(
        pid in marked(str(world.base)) for pid in marked("sleep 1000", environment=False)
    ), "what the dead hand left is gone"


def test_gone_after_the_hand_was_killed(world, driver):
    box = world.new(driver)
    box.ok("(setsid sleep 1000 >/dev/null 2>&1 &)")
    pid = hand_of(world, box)
    if not pid:
        pytest.skip("its hand is not a process of this machine")
    os.kill(pid, signal.SIGKILL)
    assert box.drive("gone") == "missing"


def test_a_daemon_ends_with_its_sandbox(world, driver):
    box = world.new(driver)
    box.ok("(setsid nohup sleep 1000 >/dev/null 2>&1 &)")
    box.drive("stopped" if "stop" in driver.abilities else "gone")
    assert not marked(f"sandbox/{box.id}")

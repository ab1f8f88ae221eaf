"""A sandbox stands still while its files are copied, and never longer: whoever copies may die, or fail."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conformance import wait_until
from jail_world import CGROUPS


def freezer(box):
    """The control group of it that freezes; None: there is none."""
    for top in CGROUPS:
        group = top / "tendon" / box.id
        if (group / "cgroup.freeze").exists():
            return group
    return None


def is_frozen(group):
    return "frozen 1" in (group / "cgroup.events").read_text()


def begin_snapshot(box, **members):
    """Asks for one, and has the process that makes it stopped in the middle; its control group."""
    group = freezer(box)
    if not group:
        pytest.skip("no control groups that can freeze")
    process = box.driver.process
    process.stdin.write(json.dumps({"do": "snapshot", "id": box.id, "name": "one", **members}) + "\n")
    process.stdin.flush()
    wait_until(lambda: is_frozen(group), 30, "frozen")
    os.kill(process.pid, signal.SIGSTOP)
    assert is_frozen(group), "the copy was faster; it must be larger"
    return group


def fill(box):
    made = box("exec", argv=["sh", "-c", "mkdir /workspace/many; cd /workspace/many; seq 10000 | xargs touch"], timeout=120)
    assert made["status"] == 0, made


def test_killed_while_it_copies(root_world):
    """Nobody looks at it: its keeper thaws it."""
    box = root_world.new(root_world.open(), own=False)
    fill(box)
    group = begin_snapshot(box)
    box.driver.kill()
    wait_until(lambda: not is_frozen(group), 10, "thawed")
    other = box.seen_by(root_world.open())
    assert other.status() == "running" and other.ok("echo alive") == "alive"
    other("snapshot", name="two")


def test_copy_and_thaw_fail(root_world):
    """It stays frozen, but not for good: who looks next thaws it."""
    box = root_world.new(root_world.open())
    fill(box)
    group = begin_snapshot(box, timeout=1)
    wall = group / "cgroup.freeze"
    subprocess.run(["mount", "--bind", wall, wall], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", wall], check=True)
    try:
        wait_until(lambda: stopped_for(box.driver.process.pid, 1.5), 10, "its time is over")
        os.kill(box.driver.process.pid, signal.SIGCONT)
        answer = box.driver.lines.get(timeout=60)
    finally:
        subprocess.run(["umount", wall], check=True)
    assert not answer["ok"] and is_frozen(group)
    assert box.status() == "running" and not is_frozen(group)
    assert box.ok("echo alive") == "alive"


def stopped_for(pid, seconds, since={}):
    """Whether the first look at it was so long ago."""
    return time.monotonic() - since.setdefault(pid, time.monotonic()) > seconds


def test_an_old_mark_does_not_undo_a_pause(world, driver):
    """Of one who died after it had set the mark and before it froze anything."""
    box = world.new(driver)
    mark = pathlib.Path(world.state / "sandbox" / box.id / "copying")
    mark.write_text("999999999 1\n")
    if world.user:
        os.chown(mark, world.user, world.user)
    assert box.drive("paused") == "paused"
    assert box.status() == "paused" and not mark.exists()
    assert box.drive("running") == "running" and box.ok("echo alive") == "alive"

"""The hand of a jail against those inside, who are root there; and one that does not answer all the same."""

import json
import os
import signal

import pytest

from conformance import wait_until
from hold import hand_is_out_of_reach
from jail_world import NOBODY, JailWorld
from peers import runsc
from processes import stat_of


def pid_of(box):
    ref = box("inspect")["ref"]
    return (json.loads(ref) if isinstance(ref, str) else ref)["pid"]


def test_nobody_takes_hold_of_it(box, tmp_path):
    hand_is_out_of_reach(box, tmp_path)


@pytest.mark.parametrize("user", [None, NOBODY])
def test_nor_under_gvisor(user, tmp_path):
    """Whose kernel does not guard PID 1 against SIGSTOP: what comes of that is told (docs/security.md)."""
    world = JailWorld(user, runsc=runsc())
    try:
        hand_is_out_of_reach(world.new(world.open()), tmp_path, "no-stop")
    finally:
        world.finish()


def test_stopped_from_outside_is_paused(box):
    """It is told, and whoever resumes it lets it go on, with everything that it had."""
    box.ok("export KEPT=yes")
    pid = pid_of(box)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: stat_of(pid)[0] == "T", what="it stands still")
    assert box.status() == "paused"
    assert box.drive("running") == "running"
    assert box.ok("echo $KEPT") == "yes"

"""Launchers of a process that makes many jails: all but the first are forked by one process."""

import os
import pathlib
import signal

from conformance import wait_until
from processes import stat_of
from test_jail_states import process, wait_dead

SPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


def space(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def parent(pid):
    return int(stat_of(pid)[1])


def nursery_of(box):
    """Who forked its keeper."""
    pid = parent(process(box, "keeper"))
    assert b"--nursery" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    return pid


def grow(world, driver, **spec):
    """A jail whose launcher was born in a network that was made in advance, and its nursery."""
    nursery = nursery_of(world.new(driver))
    wait_until(lambda: space(nursery, "net") != space("self", "net"), what="a network is made in advance")
    box = world.new(driver, **spec)
    assert nursery_of(box) == nursery
    return box, nursery


def test_no_two_jails_share_a_namespace(world, driver):
    boxes = [world.new(driver) for _ in range(4)]
    if not world.user:
        boxes += [grow(world, driver)[0] for _ in range(2)]
    for kind in SPACES:
        mine = space("self", kind)
        found = {space(process(box, "pid"), kind) for box in boxes}
        assert len(found) == len(boxes) and mine not in found, kind
        for box in boxes:
            assert space(process(box, "keeper"), kind) == mine
    assert len({nursery_of(box) for box in boxes[1:]}) == 1


def test_the_network_of_the_host_though_another_was_made(root_world):
    driver = root_world.open()
    root_world.new(driver)
    box, nursery = grow(root_world, driver, network="host")
    assert space(process(box, "pid"), "net") == space("self", "net")
    assert space(process(root_world.new(driver), "pid"), "net") not in (space("self", "net"), space(nursery, "net"))


def test_nobody_needs_it_to_live(world, driver):
    """Jails live on when it is killed, others are made, and it ends with the process that it works for."""
    world.new(driver)
    box = world.new(driver)
    nursery = nursery_of(box)
    os.kill(nursery, signal.SIGKILL)
    wait_dead(nursery)
    assert box.ok("echo lives") == "lives"
    later = world.new(driver)
    assert nursery_of(later) != nursery
    last = nursery_of(later)
    driver.kill()
    wait_dead(last)

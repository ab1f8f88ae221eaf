"""Whatever lies where a sandbox's socket or log was: the host connects to nobody else, and never waits."""

import os
import pathlib
import socket

import pytest

from conformance import Refusal
from decoy import Decoy

SWAPS = {
    "a symbolic link": lambda path, decoy: os.symlink(decoy.path, path),
    "a FIFO": lambda path, decoy: os.mkfifo(path),
    "a regular file": lambda path, decoy: pathlib.Path(path).write_text("x"),
    "a directory": lambda path, decoy: os.mkdir(path),
}


@pytest.fixture
def decoy(tmp_path):
    decoy = Decoy(tmp_path / "d")
    yield decoy
    decoy.close()


def take_away(path):
    os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


@pytest.mark.parametrize("found", SWAPS)
def test_something_else_instead_of_the_socket(world, decoy, found):
    box = world.new(world.open(), own=False)  # which others reach too
    kind, _, path = box("inspect")["address"].partition(":")
    assert kind == "unix"
    os.rename(path, path + ".kept")
    try:
        SWAPS[found](path, decoy)
        with pytest.raises(Refusal, match=f"expected a socket, found {found}"):
            box.seen_by(world.open()).run("true")
        assert decoy.heard == []
    finally:
        take_away(path)
        os.rename(path + ".kept", path)
    assert box.seen_by(world.open()).ok("echo works") == "works"


def test_a_jail_does_not_see_its_socket(make_world):
    """It listens on one that the host has opened: there is no name to take away."""
    world = make_world("jail")
    box = world.new(world.open())
    path = box("inspect")["address"].removeprefix("unix:")
    assert box.run(f"ls {path}; find / -xdev -name hand.sock 2>/dev/null")[1].count("hand.sock") == 1  # what ls says
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(path)


@pytest.mark.parametrize("found", ["a symbolic link", "a FIFO", "a directory"])
@pytest.mark.parametrize("runtime", ["local", "cli"])
def test_something_else_instead_of_the_log(make_world, decoy, tmp_path, runtime, found):
    """Plain processes share the directory of their log with whoever runs in them."""
    world = make_world(runtime)
    box = world.new(world.open(), own=False)
    log = pathlib.Path(world.state / "sandbox" / box.id / "hand.log")
    log.unlink()
    SWAPS[found](log, decoy)
    for verb in ("logs", "start"):
        with pytest.raises(Refusal, match=f"hand.log: expected a regular file, found {found}"):
            if verb == "logs":
                box.logs()
            box.drive("stopped")
            box.drive("running", timeout=10)
    take_away(log)
    assert box.drive("running") == "running"

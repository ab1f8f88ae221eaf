"""What the docker backend asks an engine for: a call costs a millisecond here, and a round trip elsewhere."""

import os
import pathlib
import shlex
import sys

import pytest
from call_log import CallLog
from trees import BUILD, program

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

from tendons import Tendon  # noqa: E402

VERSION = "GET /version"
CREATE = "POST /containers/create"
START = "POST /containers/ID/start"
LOOK = "GET /containers/ID/json"
REMOVAL = [LOOK, "DELETE /containers/ID", "GET /containers/json"]  # the last: is there one that nobody noted?
LOOK_SECONDS = 0.1  # while it waits for the hand, the backend looks at the container that often


@pytest.fixture
def log(world):
    log = CallLog(world.engine.address, world.base / "engine.sock")
    world.env["DOCKER_HOST"] = log.address
    yield log
    world.env["DOCKER_HOST"] = world.engine.address
    log.close()


def check(log, *expected):
    """That this was asked, in order. A backend that waits for a hand that comes up slowly may have looked at the container
    once more for each LOOK_SECONDS."""
    calls = log.take()
    names = [call.name for call in calls]
    spare = len(names) - len(expected)
    if START in names and spare > 0:
        first = names.index(START) + 1
        waited = max(call.asked for call in calls) - calls[first - 1].answered
        if names[first : first + spare] == [LOOK] * spare and spare <= waited / LOOK_SECONDS:
            del names[first : first + spare]
    assert names == list(expected)


def test_calls_of_the_backend(world, log):
    driver = world.open()
    check(log, VERSION)
    box = world.new(driver)
    check(log, CREATE, START, LOOK)
    box("inspect")
    check(log, LOOK, *(["GET /events"] if world.engine.name == "docker" else []))
    box.drive("gone")
    check(log, *REMOVAL)


def test_calls_of_the_backend_where_the_hand_is_carried_in(world, log):
    """As by an engine of somebody else: it chooses the port, and has to be asked which one that is."""
    os.chown(log.address.removeprefix("unix://"), 65534, 65534)
    driver = world.open()
    check(log, VERSION)
    box = world.new(driver)
    check(log, CREATE, "PUT /containers/ID/archive", START, LOOK, LOOK)
    box.drive("gone")
    check(log, *REMOVAL)


def test_a_removal_that_fails_is_asked_for_again(world, log):
    """As by Podman for a container that just ends: what was left would be in the way of others."""
    box = world.new(world.open())
    log.failures["DELETE /containers/ID"] = 3
    log.take()
    assert box.drive("gone") == "missing"
    assert [call.name for call in log.take()].count("DELETE /containers/ID") == 4
    assert not world.containers(f"label=tendon.id={box.id}")


@pytest.fixture
def tendon(world, log, tmp_path):
    script = tmp_path / "tendon"
    script.write_text(f'#!/bin/sh\nexec {shlex.join([*world.engine.nsenter(), str(program(BUILD, "tendon"))])} "$@"\n')
    script.chmod(0o755)
    tendon = Tendon(script, tmp_path, "docker")
    tendon.env.update(DOCKER_HOST=log.address, DOCKER_CONFIG=str(tendon.home), TENDON_HAND_PROGRAM=str(world.hand))
    yield tendon
    tendon("rm", "--all")


def test_calls_of_the_program(world, log, tendon):
    tendon.ok("new", "--name", "a", "--image", world.image, "--hand-arg=--shell", "--hand-arg=sh")
    check(log, VERSION, CREATE, START, LOOK)
    assert tendon.ok("exec", "a", "echo", "hi") == "hi\n"
    check(log, VERSION)  # commands are the business of the hand
    tendon.ok("rm", "a")
    check(log, VERSION, *REMOVAL)

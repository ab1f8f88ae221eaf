"""The conformance suite (tests/runtime) over containers of dockerd: the same tests, in another world."""

import inspect

import pytest

import test_runtime_errors
import test_runtime_life
import test_runtime_owner
import test_runtime_use
from docker_world import DockerWorld

for _module in (test_runtime_errors, test_runtime_life, test_runtime_owner, test_runtime_use):
    for _name, _case in vars(_module).items():
        if _name.startswith("test_") and "make_world" not in inspect.signature(_case).parameters:
            globals()[_name] = _case


@pytest.fixture
def world(engine, debian_image, static_hand):
    world = DockerWorld(engine, debian_image, static_hand)
    world.spec = {"image": debian_image}
    yield world
    world.finish()

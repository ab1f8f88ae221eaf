"""The conformance suite (tests/runtime) over containers of dockerd: the same tests, in another world."""

import inspect

import pytest

import test_runtime_errors
import test_runtime_life
import test_runtime_owner
import test_runtime_use
from docker_world import DockerWorld

for module in (test_runtime_errors, test_runtime_life, test_runtime_owner, test_runtime_use):
    for name, test in vars(module).items():
        if name.startswith("test_") and "make_world" not in inspect.signature(test).parameters:
            globals()[name] = test


@pytest.fixture
def world(engine, debian_image, static_hand):
    world = DockerWorld(engine, debian_image, static_hand)
    world.spec = {"image": debian_image}
    yield world
    world.finish()

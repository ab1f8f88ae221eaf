"""The conformance suite (tests/runtime) through the modal backend, over the same API as a service with jails serves it."""

import inspect

import pytest

import test_runtime_errors
import test_runtime_life
import test_runtime_owner
import test_runtime_use
from cloud_worlds import Modal, ServiceWorld

for _module in (test_runtime_errors, test_runtime_life, test_runtime_owner, test_runtime_use):
    for _name, _case in vars(_module).items():
        if _name.startswith("test_") and "make_world" not in inspect.signature(_case).parameters:
            globals()[_name] = _case


@pytest.fixture(scope="module")
def world(service):
    world = ServiceWorld(Modal(), service)
    yield world
    world.finish()


@pytest.fixture
def driver(world):
    return world.living_driver()


@pytest.fixture
def box(world, driver):
    return world.new(driver)

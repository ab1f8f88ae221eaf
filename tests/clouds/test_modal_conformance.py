"""The conformance suite (tests/runtime) through the modal backend, over the same API as a service with jails serves it."""

import inspect

import pytest

import test_runtime_errors
import test_runtime_life
import test_runtime_owner
import test_runtime_use
from cloud_worlds import Modal, ServiceWorld

# The service takes any name of an image for its own sandbox where it has no images to give.
ABSENT = ("test_an_image_is_used_or_refused_by_name", "test_a_failed_create_leaves_nothing")

for _module in (test_runtime_errors, test_runtime_life, test_runtime_owner, test_runtime_use):
    for _name, _case in vars(_module).items():
        if _name.startswith("test_") and _name not in ABSENT and "make_world" not in inspect.signature(_case).parameters:
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

"""The conformance suite over a real service in OpenHands' dialect, as far as that goes: it has no stop, no logs, no
usage, no limits, and starts the hand itself."""

import pytest

import test_runtime_errors
import test_runtime_life
import test_runtime_owner
import test_runtime_use
from remote_worlds import ServiceWorld

WITHOUT = {
    test_runtime_errors: ["network_none", "a_bad_argument", "a_limit_is", "an_image_is", "a_failed_create"],
    test_runtime_life: ["survive_a_stop", "a_stopped_sandbox"],
    test_runtime_owner: ["a_kept_sandbox", "a_daemon", "killed_hand", "hand_was_killed"],
    test_runtime_use: ["what_a_sandbox_lacks", "survive_a_restart", "logs", "usage", "limits"],
}

for _module, _lacking in WITHOUT.items():
    for _name, _case in vars(_module).items():
        wanted = _name.startswith("test_") and "make_world" not in _case.__code__.co_varnames
        if wanted and not any(word in _name for word in _lacking):
            globals()[_name] = _case


@pytest.fixture(scope="module")
def world(service):
    world = ServiceWorld(service, "openhands")
    yield world
    world.finish()


@pytest.fixture
def driver(world):
    driver = world.living_driver()
    driver.abilities.discard("stop")  # the backend tells what it can do at best
    return driver


@pytest.fixture
def box(world, driver):
    return world.new(driver)


def test_pause_and_resume(box):
    box.ok("x=5")
    for _ in range(2):
        assert (box.drive("paused"), box.status()) == ("paused", "paused")
    for _ in range(2):
        assert (box.drive("running"), box.status()) == ("running", "running")
    assert box.ok("echo $x") == "5"
    assert box.drive("gone") == "missing"


def test_the_ports_that_it_shows(box):
    assert box("url", port=12000)["url"].startswith("http")

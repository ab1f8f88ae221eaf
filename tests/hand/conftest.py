"""Whole-program tests of tendon-hand against the built binary (see harness.py and client.py).

Tests marked `slow` are left out unless TN_TEST_ALL is set or -m says otherwise."""

import os
import uuid

import pytest

from client import Shell
from harness import Factory


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))
    if os.environ.get("TN_TEST_ALL") or config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


@pytest.fixture
def start():
    """start(**options) -> Hand; all are stopped and examined at the end of the test."""
    factory = Factory()
    yield factory
    factory.finish()


@pytest.fixture
def hand(start):
    """A fresh hand on a unix socket with a soft timeout of 1 s."""
    return start()


@pytest.fixture
def client(hand):
    return hand.client


@pytest.fixture
def homely(hand):
    """A fresh hand whose shell surely has the home directory it was given: the test writes there."""
    assert hand.client.ok("echo $HOME") == str(hand.home)
    return hand


@pytest.fixture(scope="session")
def pool():
    """Keeps the one hand that many tests share."""
    factory = Factory()
    yield factory
    factory.finish()


@pytest.fixture
def shared_hand(pool):
    """The shared hand; a test in which it dies fails, the next one gets another."""
    if not pool.hands:
        pool()
    hand = pool.hands[0]
    yield hand
    if hand.process.poll() is not None:
        pool.hands.remove(hand)
        hand.stop()


@pytest.fixture
def shared(shared_hand):
    """The client of a hand shared by tests that leave no shell state behind; it is idle."""
    client = shared_hand.client
    home = f"cd {shared_hand.workspace}"
    if client.run(home).exit != 0:  # a test that failed left something running
        client.input("C-c", timeout=5)
        client.ok(home)
    return client


@pytest.fixture
def ws(shared_hand):
    """A fresh directory in the workspace of the shared hand."""
    path = shared_hand.workspace / f"d{uuid.uuid4().hex[:8]}"
    path.mkdir()
    return path


@pytest.fixture
def shell(shared_hand, ws):
    """A fresh shell of its own in the shared hand, in a fresh directory."""
    shell = Shell(shared_hand.client, ws.name, ws)
    yield shell
    shell.remove()

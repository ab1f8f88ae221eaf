"""IPython and the browser in a jail; see tests/abilities.py."""

import subprocess

import pytest

import abilities
from mcp_clients import Stdio


@pytest.fixture
def client(jailed):
    client = Stdio(jailed.start("mcp", stdin=subprocess.PIPE))
    client.hello()
    yield client
    assert client.leave() == 0
    assert jailed.leftovers() == []


def test_python(client):
    abilities.check_python(client)


def test_browser(client):
    abilities.check_browser(client)

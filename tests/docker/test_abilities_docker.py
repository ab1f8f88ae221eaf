"""IPython and the browser in containers; see tests/abilities.py.

The image is a minimal Debian. What this machine has installed is lent to it for the tests of what is there;
without that it shows how an ability is missed."""

import os
import subprocess

import pytest

import abilities
from mcp_clients import Stdio
from trees import BUILD, program

LENT = ("/usr", "/etc/alternatives", "/etc/fonts", "/etc/chromium.d")


@pytest.fixture
def client(engine, debian_image, static_hand, tmp_path, request):
    lent = [word for path in LENT for word in ("--volume", f"{path}:{path}:ro")]
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "DOCKER_HOST": engine.address,
        "DOCKER_CONFIG": str(tmp_path),
        "TENDON_CONFIG": "/dev/null",
        "TENDON_STATE": str(tmp_path / "state"),
        "TENDON_HAND_PROGRAM": str(static_hand),
    }
    words = ["mcp", "--runtime", "docker", "--image", debian_image]
    words += lent if request.param == "lent" else []
    process = subprocess.Popen(
        [*engine.nsenter(), str(program(BUILD, "tendon")), *words],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    client = Stdio(process)
    client.hello()
    yield client
    assert client.leave() == 0


@pytest.mark.parametrize("client", ["lent"], indirect=True)
def test_python(client):
    abilities.check_python(client)


@pytest.mark.parametrize("client", ["lent"], indirect=True)
def test_browser(client):
    abilities.check_browser(client)


@pytest.mark.parametrize("client", ["bare"], indirect=True)
def test_what_is_missing_is_named(client):
    abilities.check_missing(client)

"""The hand as an OpenHands host starts it: in a Debian image that knows nothing of it."""

import json
import re
import time

import pytest

from client import Shell, done
from harness import wait_until

pytestmark = pytest.mark.timeout(60, func_only=True)

PORT = 34567
KEY = "correct-horse"
ARGS = ("--working-dir", "/workspace", "--username", "openhands", "--user-id", "1000")
HOST_OPTIONS = [
    "--entrypoint=",
    "--workdir=/openhands/code/",
    f"--env=port={PORT}",
    "--env=PYTHONUNBUFFERED=1",
    "--env=VSCODE_PORT=41234",
    "--env=APP_PORT_1=51234",
    "--env=APP_PORT_2=56789",
    "--env=PIP_BREAK_SYSTEM_PACKAGES=1",
    "--env=OPENHANDS_SESSION_ID=test",
    "--env=NO_CHANGE_TIMEOUT_SECONDS=1",
]


def create(debian, *options):
    """The hand is copied in: what a host does that has one file to bring along."""
    return debian.create(
        *ARGS,
        "--no-enable-browser",
        options=[*HOST_OPTIONS, *options],
        port=PORT,
        copy=True,
        key=KEY,
    )


@pytest.fixture
def box(debian):
    return create(debian).start()


@pytest.fixture
def client(box):
    return box.client


def add_env_vars(client, **variables):
    """What the host does to make variables known now and to later shells."""
    now = "".join(f"export {k}={json.dumps(v)}; " for k, v in variables.items())
    later = "".join(
        f'grep -q "^export {k}=" ~/.bashrc || '
        f'echo "export {k}={json.dumps(v)}" >> ~/.bashrc; '.replace('="', '=\\"', 2).replace(
            '=\\"', '="', 1
        )
        for k, v in variables.items()
    )
    client.ok(now.strip())
    client.ok(f"touch ~/.bashrc; {later}".strip())


def zombies(client):
    return client.run("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l").content

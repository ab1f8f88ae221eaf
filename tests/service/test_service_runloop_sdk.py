"""Runloop's own SDKs, unmodified, from PyPI and npm, against the service: runloop_story.py and runloop_story.mjs."""

import pathlib
import shutil
import subprocess

import pytest

from peers import peers, sdk
from vendors import environment

HERE = pathlib.Path(__file__).parent
BOTH = ("life", "commands", "files", "layers", "tunnels", "openhands")
NEWEST = ("quick_start", "objects", "terminals", "asynchronous")
# What OpenHands asks for by name.
CONFIG = """
[template.openhands]
plugins = []
"""


def tell(service, *words):
    key = service.make_key(f"sdk-{len(service.audit())}", "--tenant", f"sdk{len(service.audit())}")["key"]
    env = {**service.env, **environment("runloop", service.port, key)}
    done = subprocess.run([*map(str, words)], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr[-4000:]


def test_installed():
    """The packages, apart from what is done with them: that takes its time, once."""
    for version in ("runloop", "runloop-0.50"):
        sdk(version)


@pytest.mark.parametrize("story", BOTH)
@pytest.mark.parametrize("version", ["runloop", "runloop-0.50"])
def test_python(service, version, story):
    tell(service, sdk(version), HERE / "runloop_story.py", story)


@pytest.mark.parametrize("story", NEWEST)
def test_python_newest(service, story):
    tell(service, sdk("runloop"), HERE / "runloop_story.py", story)


@pytest.mark.parametrize("version, protocol", [("runloop", "http2"), ("runloop", "http1"), ("runloop-0.44", "http1")])
def test_typescript(service, version, protocol):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    tell(service, "node", HERE / "runloop_story.mjs", peers(version), protocol)

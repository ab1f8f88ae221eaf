"""Daytona's own SDKs, unmodified, from PyPI and npm, against the service: daytona_story.py and daytona_story.mjs."""

import itertools
import pathlib
import shutil
import subprocess

import pytest

from peers import peers, sdk
from services import Service
from vendors import environment

HERE = pathlib.Path(__file__).parent
NUMBERS = itertools.count()
STORIES = ("quick_start", "life", "files", "commands", "environment", "network", "sessions", "pty", "git", "snapshots", "images", "volumes", "asynchronous")


def tell(service, cwd, *words):
    number = next(NUMBERS)
    key = service.make_key(f"sdk-{number}", "--tenant", f"sdk{number}")["key"]
    env = {**service.env, **environment("daytona", service.port, key)}
    done = subprocess.run([*map(str, words)], env=env, cwd=cwd, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr[-4000:]


def test_installed():
    """The packages, apart from what is done with them: that takes its time, once."""
    for version in ("daytona", "daytona-0.24"):
        sdk(version)


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("version", ["daytona", "daytona-0.24"])
def test_python(service, tmp_path, version, story):
    tell(service, tmp_path, sdk(version), HERE / "daytona_story.py", story)


@pytest.mark.parametrize("version", ["daytona", "daytona-0.24"])
def test_computer_use(service, tmp_path, version):
    if not shutil.which("chromium"):
        pytest.skip("chromium is not installed")
    tell(service, tmp_path, sdk(version), HERE / "daytona_story.py", "computer")


def has_kernels():
    return not subprocess.run(["/usr/bin/python3", "-c", "import ipykernel"], capture_output=True).returncode


def test_code_interpreter(service, tmp_path):
    if not has_kernels():
        pytest.skip("the Python of this machine, which jails have, has no ipykernel")
    tell(service, tmp_path, sdk("daytona"), HERE / "daytona_story.py", "interpreter")


@pytest.mark.parametrize("version", ["daytona", "daytona-0.24"])
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_language_servers(jail_works, tmp_path, language, version):
    """Those of npm, in a sandbox that has them."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    servers = peers("lsp")
    config = f"""
[template.servers]
volumes = ["{servers}:/opt/servers:ro"]
env = {{PATH = "/opt/servers/node_modules/.bin:/usr/local/bin:/usr/bin:/bin"}}
"""
    service = Service(tmp_path / "service", config=config).start()
    if language == "javascript":
        tell(service, tmp_path, "node", HERE / "daytona_story.mjs", peers(version), "servers")
    else:
        tell(service, tmp_path, sdk(version), HERE / "daytona_story.py", "language_servers")
    service.finish()


@pytest.mark.parametrize("version", ["daytona", "daytona-0.24"])
def test_javascript(service, tmp_path, version):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    tell(service, tmp_path, "node", HERE / "daytona_story.mjs", peers(version), "kernels" if has_kernels() else "")

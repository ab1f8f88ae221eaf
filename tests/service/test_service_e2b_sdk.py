"""E2B's own SDKs, unmodified, from PyPI and npm, against the service: e2b_story.py and e2b_story.mjs."""

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
STORIES = ("quick_start", "life", "files", "watch", "commands", "pty", "asynchronous", "templates", "mcp")


def tell(service, *words):
    name = f"sdk{next(NUMBERS)}"
    key = service.make_key(name, "--tenant", name, "--e2b")["key"]
    env = {**service.env, **environment("e2b", service.port, key)}
    done = subprocess.run([*map(str, words)], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr[-4000:]


def test_installed():
    """The packages, apart from what is done with them: that takes its time, once."""
    for version in ("e2b", "e2b-2.9"):
        sdk(version)


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("version", ["e2b", "e2b-2.9"])
def test_python(service, version, story):
    tell(service, sdk(version), HERE / "e2b_story.py", story)


@pytest.mark.parametrize("version", ["e2b", "e2b-2.9"])
def test_mcp_gateway(service, version):
    tell(service, sdk(version), HERE / "e2b_story.py", "gateway", HERE.parent / "mcp/servers/fixture.py")


@pytest.mark.parametrize("version", ["e2b", "e2b-2.9"])
def test_mcp_gateway_javascript(jail_works, tmp_path, version):
    """A published server, and the published client."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    sdks, servers = peers(version), peers("mcp")
    service = Service(tmp_path, config=f'[template.published]\nvolumes = ["{servers}:{servers}:ro"]\n').start()
    tell(service, "node", HERE / "e2b_gateway.mjs", sdks, servers)
    service.finish()


def test_packed_uploads(service):
    tell(service, sdk("e2b"), HERE / "e2b_story.py", "packed")


def test_tags_of_templates(service):
    tell(service, sdk("e2b"), HERE / "e2b_story.py", "tags")


@pytest.mark.parametrize("story", ["snapshots", "volumes", "links", "git", "fork", "streamed", "entries"])
def test_python_of_today(service, story):
    tell(service, sdk("e2b"), HERE / "e2b_story.py", story)


@pytest.mark.parametrize("version", ["e2b", "e2b-2.9"])
def test_templates_javascript(service, version):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    tell(service, "node", HERE / "e2b_templates.mjs", peers(version))


def test_other_rules_of_the_network(service):
    lists = {"denyOut": ["0.0.0.0/0"], "allowOut": ["8.8.8.0/24"]}
    made = service.tenant("gate", "--e2b").post("/sandboxes", {"templateID": "base", "network": lists})
    if made.status != 201:
        pytest.skip(f"this machine has no gate: {made.json['message']}")
    tell(service, sdk("e2b"), HERE / "e2b_story.py", "network")


@pytest.fixture
def kernels():
    if subprocess.run(["/usr/bin/python3", "-c", "import ipykernel"], capture_output=True).returncode:
        pytest.skip("the Python of this machine, which jails have, has no ipykernel")


def test_code_interpreter(service, kernels):
    tell(service, sdk("e2b"), HERE / "e2b_story.py", "interpreter")


@pytest.mark.parametrize("story, module", [("charts", "matplotlib"), ("tables", "pandas")])
def test_code_interpreter_data(service, kernels, story, module):
    if subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True).returncode:
        pytest.skip(f"the Python of this machine, which jails have, has no {module}")
    tell(service, sdk("e2b"), HERE / "e2b_story.py", story)


def test_code_interpreter_javascript(service, kernels):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    tell(service, "node", HERE / "e2b_interpreter.mjs", peers("e2b"))


@pytest.mark.parametrize("version", ["e2b", "e2b-2.9"])
def test_javascript(service, version):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    tell(service, "node", HERE / "e2b_story.mjs", peers(version))

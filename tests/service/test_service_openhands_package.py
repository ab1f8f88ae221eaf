"""OpenHands itself against the service: see openhands_program.py, whose checks are the tests here.

It needs a Python with the package openhands-ai, which is large and wants Python 3.12: TN_OPENHANDS_PYTHON names it."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from services import Service
from trees import ROOT

PROGRAM = pathlib.Path(__file__).with_name("openhands_program.py")
CHECKS = re.findall(r"^(?:async )?def check_(\w+)", PROGRAM.read_text(), re.MULTILINE)
PYTHON = os.environ.get("TN_OPENHANDS_PYTHON")
TEMPLATE = """
[template."example.org/editor"]
volumes = ["EDITORS:/opt/editors:ro"]
env = {TENDON_VSCODE = "/opt/editors/code-server", FAKE_NOTES = "/tmp"}
"""
SECONDS = 420  # for all of them: its imports alone may take ten

if not PYTHON:
    pytest.skip(
        "TN_OPENHANDS_PYTHON names no Python with OpenHands: make one with "
        "`uv venv --python 3.12 DIR && uv pip install --python DIR/bin/python openhands-ai==0.62.0`"
        " (or pip in a venv of Python 3.12), and set it to DIR/bin/python",
        allow_module_level=True,
    )
pytestmark = pytest.mark.timeout(SECONDS + 60)


@pytest.fixture(scope="module")
def results(jail_works, tmp_path_factory):
    """{check: what it told}, of one run against a service of its own."""
    base = tmp_path_factory.mktemp("package")
    (base / "editors").mkdir()
    shutil.copy(ROOT / "tests/vscode/fake-server", base / "editors/code-server")
    config = TEMPLATE.replace("EDITORS", str(base / "editors"))
    service = Service(base, config=config).start()
    key = service.make_key("openhands", "--tenant", "team")["key"]
    told, log = base / "results", base / "program.log"
    env = {name: value for name, value in service.env.items() if not name.lower().endswith("_proxy")}
    env.pop("SANDBOX_ENV_TN_TEST_MARK")  # OpenHands would take it along
    command = [PYTHON, str(PROGRAM), service.url, key, str(told), str(base)]
    try:
        with open(log, "wb") as out:
            done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=SECONDS)
    finally:
        service.finish()
    assert done.returncode == 0 and told.exists(), log.read_text(errors="replace")[-4000:]
    return {line["check"]: line for line in map(json.loads, told.read_text().splitlines())}


@pytest.mark.parametrize("check", CHECKS)
def test_openhands(results, check):
    assert results[check]["problem"] is None, results[check]["problem"]

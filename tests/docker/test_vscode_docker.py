"""tendon open --vscode in containers: the image is a minimal Debian, Python is lent to it, and the editor is
the stand-in of tests/vscode."""

import json
import os
import shutil
import subprocess

import pytest

from trees import BUILD, ROOT, program

# Follows the redirect with the cookie, as a browser does.
VISIT = """
import sys, urllib.request as u, http.cookiejar as c
print(u.build_opener(u.HTTPCookieProcessor(c.CookieJar())).open(sys.argv[1], timeout=60).read().decode())
"""


@pytest.fixture
def tendon(engine, debian_image, static_hand, tmp_path):
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "DOCKER_HOST": engine.address,
        "DOCKER_CONFIG": str(tmp_path),
        "TENDON_CONFIG": "/dev/null",
        "TENDON_STATE": str(tmp_path / "state"),
        "TENDON_RUNTIME": "docker",
        "TENDON_HAND_PROGRAM": str(static_hand),
    }

    def run(*words, timeout=120):
        command = [*engine.nsenter(), str(program(BUILD, "tendon")), *words]
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
        assert result.returncode == 0, result
        return result.stdout

    yield run
    run("rm", "--all", "--quiet")


@pytest.mark.parametrize("plugins", [["--plugins", "vscode"], []], ids=["asked", "on-demand"])
def test_open(engine, tendon, debian_image, tmp_path, plugins):
    editors = tmp_path / "editors"
    editors.mkdir()
    shutil.copy(ROOT / "tests/vscode/fake-server", editors / "code-server")
    tmp_path.chmod(0o755)
    tendon("new", "--name", "box", "--image", debian_image, "--network", "bridge", *plugins,
           "--volume", "/usr:/usr:ro", "--volume", f"{editors}:/opt/editors:ro",
           "--env", "TENDON_VSCODE=/opt/editors/code-server", "--env", "FAKE_NOTES=/tmp")  # fmt: skip
    url = tendon("open", "box", "--vscode", "--print").strip()
    result = subprocess.run(
        [*engine.nsenter(), "/usr/bin/python3", "-c", VISIT, url],
        env={**os.environ, "no_proxy": "*"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert result.returncode == 0, (url, result.stderr)
    said = json.loads(result.stdout)
    assert said["target"].startswith("/?folder=")

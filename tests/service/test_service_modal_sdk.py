"""Modal's own SDKs, unmodified, from PyPI and npm, against the service: modal_story.py and modal_story.mjs."""

import pathlib
import shutil
import subprocess

import pytest

from peers import peers, sdk

HERE = pathlib.Path(__file__).parent
BOTH = ("quick_start", "entrypoint", "commands", "texts", "names", "network", "idle", "images", "mounts", "secrets", "volumes", "openhands", "raw_tcp")
NEWEST = ("files", "terminals")


def tell(service, *words):
    key = service.make_key(f"sdk-{len(service.audit())}", "--tenant", f"sdk{len(service.audit())}")["key"]
    env = {
        **{k: v for k, v in service.env.items() if not k.startswith("MODAL_")},
        "MODAL_SERVER_URL": f"http://127.0.0.1:{service.port}",
        "MODAL_TOKEN_ID": "tendon",
        "MODAL_TOKEN_SECRET": key,
    }
    done = subprocess.run([*map(str, words)], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr[-4000:]


def test_installed():
    """The packages, apart from what is done with them: that takes its time, once."""
    for version in ("modal", "modal-1.1"):
        sdk(version)


@pytest.mark.parametrize("story", BOTH)
@pytest.mark.parametrize("version", ["modal", "modal-1.1"])
def test_python(service, version, story):
    tell(service, sdk(version), HERE / "modal_story.py", story)


@pytest.mark.parametrize("story", NEWEST)
def test_python_newest(service, story):
    tell(service, sdk("modal"), HERE / "modal_story.py", story)


def test_python_of_files_that_are_open(service):
    tell(service, sdk("modal-1.1"), HERE / "modal_story.py", "open_files")


@pytest.mark.parametrize("version", ["modal", "modal-0.3"])
def test_javascript(service, version):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    tell(service, "node", HERE / "modal_story.mjs", peers(version))

"""Modal's own SDKs, unmodified, from PyPI and npm, against the service: modal_story.py and modal_story.mjs."""

import pathlib
import shutil
import subprocess
import zipfile

import pytest

from peers import peers, sdk
from services import Service

HERE = pathlib.Path(__file__).parent
BOTH = ("quick_start", "entrypoint", "commands", "texts", "names", "network", "idle", "images", "mounts", "secrets", "volumes", "openhands", "raw_tcp")
NEWEST = ("files", "terminals")
UV = "0.13.8"


def tell(service, *words, **more):
    key = service.make_key(f"sdk-{len(service.audit())}", "--tenant", f"sdk{len(service.audit())}")["key"]
    env = {
        **{k: v for k, v in service.env.items() if not k.startswith("MODAL_")},
        "MODAL_SERVER_URL": f"http://127.0.0.1:{service.port}",
        "MODAL_TOKEN_ID": "tendon",
        "MODAL_TOKEN_SECRET": key,
        **{name: str(value) for name, value in more.items()},
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


def hello_wheel(directory):
    info = "tendon_hello-1.0.dist-info/"
    with zipfile.ZipFile(directory / "tendon_hello-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tendon_hello.py", "word = 'hello'\n")
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tendon-hello\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")


def test_python_of_packages(jail_works, tmp_path):
    """What is to be installed lies in a directory of the template, with uv itself as PyPI has it: sandboxes have no network here."""
    python, wheels = sdk("modal"), tmp_path / "wheels"
    wheels.mkdir()
    words = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", wheels, f"uv=={UV}"]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=100)
    if done.returncode:
        pytest.skip(f"uv cannot be had: {done.stderr.splitlines()[-1]}")
    hello_wheel(wheels)
    service = Service(tmp_path, config=f'[template.wheels]\nvolumes = ["{wheels}:{wheels}:ro"]\n').start()
    tell(service, python, HERE / "modal_story.py", "packages", WHEELS=wheels, UV=UV)
    service.finish()


def test_python_of_files_that_are_open(service):
    tell(service, sdk("modal-1.1"), HERE / "modal_story.py", "open_files")


@pytest.mark.parametrize("version", ["modal", "modal-0.3"])
def test_javascript(service, version):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    tell(service, "node", HERE / "modal_story.mjs", peers(version))

"""Programs of others that ours are tested against, from npm (tools/peers), Debian (tools/criu), Go (tools/runsc).

The machine may have no npm, or no way to packages: then tests that need a peer are skipped."""

import functools
import pathlib
import shutil
import subprocess

import pytest

from rooms import room

ROOT = pathlib.Path(__file__).resolve().parent.parent


@functools.cache
def _install(group):
    done = subprocess.run(
        [ROOT / "tools/peers", group], capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def peers(group):
    """The directory with the packages (node_modules) of tests/peers/GROUP, installed at first use."""
    code, directory, problem = _install(group)
    if code == 1:
        pytest.skip(f"peers {group}: {problem.splitlines()[-1] if problem else 'cannot be installed'}")
    assert code == 0, problem
    return pathlib.Path(directory)


def code_server():
    """The directory with the packages of code-server, where there is a node that can run it."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    if int(version[1:].split(".")[0]) < 20:
        pytest.skip(f"code-server needs node 20, this is {version}")
    return peers("code-server")


@functools.cache
def _fetch_criu():
    try:
        done = subprocess.run([ROOT / "tools/criu"], capture_output=True, text=True, timeout=80)  # a test may take 120
    except subprocess.TimeoutExpired:
        return None, "criu: fetching it takes too long"
    return (pathlib.Path(done.stdout.strip()) if done.returncode == 0 else None), done.stderr.strip()


def criu():
    """The program criu of a newer Debian, fetched at first use: see tools/criu."""
    program, problem = _fetch_criu()
    if not program:
        pytest.skip(problem.splitlines()[-1] if problem else "criu: cannot be fetched")
    return program


@functools.cache
def _find_runsc():
    done = subprocess.run([ROOT / "tools/runsc"], capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        return None, done.stderr.strip()
    place = room("v") / "runsc"  # where users other than root find it, too
    shutil.copy(done.stdout.strip(), place)
    place.chmod(0o755)
    place.parent.chmod(0o755)
    return place, ""


def runsc():
    """The program runsc of gVisor; make test-all builds one where there is none: see tools/runsc."""
    program, problem = _find_runsc()
    if not program:
        pytest.skip(problem.splitlines()[-1] if problem else "runsc: cannot be found")
    return program


def module(group, path):
    """The path of a file inside the packages of a group, such as "npm-name/dist/index.js"."""
    found = peers(group) / "node_modules" / path
    assert found.exists(), f"{found} is not there: the package changed"
    return str(found)


@functools.cache
def _install_sdk(name):
    done = subprocess.run([ROOT / "tools/sdks", name], capture_output=True, text=True)  # ends within 100 seconds
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def sdk(name):
    """The Python interpreter that has the packages of tests/sdks/NAME.txt, installed at first use."""
    code, python, problem = _install_sdk(name)
    if code == 1:
        pytest.skip(problem.splitlines()[-1] if problem else f"sdks: {name} cannot be installed")
    assert code == 0, problem
    return python

"""The build trees that whole-program tests take their programs from."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("TN_BUILD", "build")  # what is tested
RELEASE = ROOT / os.environ.get("TN_RELEASE", "build")  # what ships


def program(tree, name):
    path = tree / name
    if not path.exists():
        pytest.fail(f"{path} is not there: run tools/build, or set TN_BUILD")
    return path

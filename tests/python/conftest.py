"""Tests of the Python that is carried into sandboxes, in Debian's own interpreter."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
PYTHON = TESTS.parent / "python"
sys.path.insert(1, str(TESTS / "hand"))  # client and harness
sys.path.insert(2, str(PYTHON))
sys.dont_write_bytecode = True

"""Every ability in a jail, there and absent; see tests/abilities.py."""

import pathlib
import sys

import pytest

from abilities import (  # noqa: F401
    Place,
    test_a_real_editor,
    test_says_so_however_often_it_is_asked,
    test_says_what_to_install,
    test_says_where_a_plugin_belongs,
    test_says_which_launcher_to_install,
    test_works_and_survives,
)
from tendons import Tendon, jail_problem
from trees import RELEASE, program

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "jail"))

from jail_world import make_root  # noqa: E402


@pytest.fixture(scope="module")
def place(tendon_program, tmp_path_factory):
    """The system directories of this machine, or a directory with busybox alone."""
    base = tmp_path_factory.mktemp("abilities")
    tendon = Tendon(tendon_program, base, "jail")
    if problem := jail_problem(tendon):
        pytest.skip(f"the jail does not work here: {problem}")
    bare = ["--image", str(make_root(base / "root"))]
    place = Place(tendon, base, [], bare, program(RELEASE, "tendon-hand"))
    yield place
    place.finish()

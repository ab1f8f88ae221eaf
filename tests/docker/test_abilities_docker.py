"""Every ability in a container, there and absent; see tests/abilities.py.

The image is a minimal Debian. What this machine has installed is lent to it, unless it is to show how an ability is
missed."""

import pathlib
import shlex
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
from trees import BUILD, program

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

from tendons import Tendon  # noqa: E402

LENT = ("/usr", "/etc/alternatives", "/etc/fonts", "/etc/chromium.d")


@pytest.fixture(scope="module")
def place(engine, debian_image, static_hand, tmp_path_factory):
    base = tmp_path_factory.mktemp("abilities")
    script = base / "tendon"
    script.write_text(f'#!/bin/sh\nexec {shlex.join([*engine.nsenter(), str(program(BUILD, "tendon"))])} "$@"\n')
    script.chmod(0o755)
    tendon = Tendon(script, base, "docker")
    tendon.env.update(DOCKER_HOST=engine.address, DOCKER_CONFIG=str(tendon.home))
    tendon.env["TENDON_HAND_PROGRAM"] = str(static_hand)
    bare = ["--image", debian_image]
    lent = bare + [word for path in LENT for word in ("--volume", f"{path}:{path}:ro")]
    place = Place(tendon, base, lent, bare, static_hand)
    yield place
    place.finish()

"""Sandboxes of the docker backend in an engine of the tests' own; see tests/runtime/conformance.py."""

import json
import os
import shlex
import subprocess

from conformance import World
from trees import BUILD, program


class DockerWorld(World):
    def __init__(self, engine, image, hand):
        super().__init__("docker")
        self.engine, self.image = engine, image
        self.hand = hand
        self.spec = {"image": image, "hand_args": ["--shell", "sh"]}
        self.env.update(DOCKER_HOST=engine.address, DOCKER_CONFIG=str(self.base / "home"))
        self.as_user()

    def as_user(self, *before):
        """Drivers of this world run in the engine's network namespace, with these words before them."""
        driver = str(program(BUILD, "tests/unit/runtime/backend-drive"))
        words = shlex.join([*self.engine.nsenter(), *before, driver])
        script = self.base / "driver"
        script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        script.chmod(0o755)
        self.driver = script

    def left_over(self):
        return {}  # processes belong to the engine, whose end is checked

    def docker(self, *args, **kw):
        return self.engine.docker(*args, **kw)

    def containers(self, *filters):
        words = [word for text in filters for word in ("--filter", text)]
        return self.docker("ps", "--all", "--quiet", "--no-trunc", *words).split()

    def container(self, box):
        """What the engine says about the container of a sandbox."""
        (name,) = self.containers(f"label=tendon.id={box.id}")
        return json.loads(self.docker("inspect", name))[0]

    def python(self, code, *args):
        """What a program printed that runs in the engine's network namespace."""
        result = subprocess.run(
            [*self.engine.nsenter(), "/usr/bin/python3", "-c", code, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "no_proxy": "*"},
        )
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def fetch(self, url):
        code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())"
        return self.python(code, url)

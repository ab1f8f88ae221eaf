"""The same life through the verbs of `tendon`: what people and scripts use, over every backend."""

import json
import os
import signal
import subprocess

import pytest

from conformance import wait_until
from trees import BUILD, program


class Tendon:
    """The program, in the state directory and environment of a world."""

    def __init__(self, world):
        self.world = world
        self.program = program(BUILD, "tendon")

    def command(self, verb, *args):
        state = ["--state", str(self.world.state), "--config", "/dev/null"]
        return [str(self.program), verb, *state, *map(str, args)]

    def try_(self, verb, *args):
        return subprocess.run(
            self.command(verb, *args),
            env=self.world.env,
            cwd=self.world.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def __call__(self, verb, *args):
        result = self.try_(verb, *args)
        assert result.returncode == 0, (verb, args, result.returncode, result.stdout, result.stderr)
        return result.stdout

    def new(self, *args):
        return json.loads(self("new", "--json", "--runtime", self.world.runtime, *args))["id"]

    def all(self):
        return {row["id"]: row for row in json.loads(self("ls", "--json"))}


@pytest.fixture
def tendon(world):
    tendon = Tendon(world)
    yield tendon
    for name in tendon.all():
        tendon("rm", name)


def test_a_whole_life(tendon):
    name = tendon.new("--name", "web", "--env", "A=it's $HOME `id`")
    assert tendon("exec", "web", 'echo "$A"').strip() == "it's $HOME `id`"
    assert tendon.try_("exec", "web", "exit 7").returncode == 7
    assert tendon.all()[name]["status"] == "running"
    for verb, status in (("pause", "paused"), ("pause", "paused"), ("resume", "running"), ("stop", "stopped"),
                         ("stop", "stopped"), ("resume", "running")):
        tendon(verb, "web")
        assert json.loads(tendon("inspect", "--json", "web"))["status"] == status, verb
    assert tendon("exec", "web", "echo", "again").strip() == "again"
    tendon("rm", "web")
    assert name not in tendon.all()
    assert tendon.try_("exec", "web", "true").returncode != 0


def test_nothing_is_left_of_a_run_that_was_killed(world, tendon):
    command = tendon.command("run", "--runtime", world.runtime, "echo started; sleep 1000")
    with subprocess.Popen(command, env=world.env, cwd=world.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as run:
        wait_until(lambda: any("sleep 1000" in text for text in world.left_over().values()) or world.runtime == "jail"
                   and "running" in {row["status"] for row in tendon.all().values()}, what="it runs")
        os.kill(run.pid, signal.SIGKILL)
    tendon("gc")
    assert tendon.all() == {}
    wait_until(lambda: not world.left_over(), what="its processes are gone")
    assert list((world.state / "sandbox").iterdir()) == []


def test_a_part_that_cannot_be_kept_is_named(tendon, world):
    if world.runtime == "jail":
        pytest.skip("this backend has limits")
    result = tendon.try_("new", "--runtime", world.runtime, "--memory", "64m")
    assert result.returncode != 0
    assert "memory" in result.stderr
    assert tendon.all() == {}


def test_an_unknown_runtime_lists_the_known(make_world):
    result = Tendon(make_world("local")).try_("new", "--runtime", "lokal")
    assert result.returncode != 0
    for name in ("local", "cli", "jail", "docker", "example"):
        assert name in result.stderr

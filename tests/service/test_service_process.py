"""Processes in the sandbox of a tenant (service/process.h), as the surfaces of other services use them."""

import json
import subprocess
import threading

import pytest

from services import PATIENCE, Service
from trees import BUILD, program


class Drive:
    """One service with one sandbox, in a program of its own."""

    def __init__(self, service, env=None):
        self.service = service
        self.process = subprocess.Popen(
            [program(BUILD, "tests/unit/service/service-process-drive"), "127.0.0.1:0"],
            env={**service.env, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.timer = threading.Timer(3 * PATIENCE, self.process.kill)
        self.timer.start()
        self.id = self.process.stdout.readline().strip()
        assert self.id, self.process.stderr.read()

    def __call__(self, *words):
        """The lines of the answer; the last one is "ok", or why not."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        lines = []
        while not lines or not (lines[-1] == "ok" or lines[-1].startswith("no ")):
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            lines.append(line.rstrip("\n"))
        return lines

    def start(self, *args, **spec):
        """Its id; what was held in the purse was given back."""
        lines = self("start", json.dumps({"args": args, **spec}))
        assert lines[-1] == "ok", lines
        ident, pid, _, held = lines[0].split()
        assert int(pid) > 0 and held == "0"
        return ident

    def finish(self):
        self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        self.timer.cancel()
        said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        assert status == 0 and "Sanitizer" not in said, said


@pytest.fixture(scope="module")
def drive(jail_works, tmp_path_factory):
    drive = Drive(Service(tmp_path_factory.mktemp("service")))
    yield drive
    drive.finish()


def events(drive):
    words = [drive.service.program, "--json", "events", drive.id]
    result = subprocess.run(words, env=drive.service.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    assert result.returncode == 0, result
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_started_followed_and_in_the_journal(drive):
    ident = drive.start("/bin/sh", "-c", "echo $GREETING; echo oops >&2; exit 3", env={"GREETING": "hello"})
    lines = drive("follow", ident)
    assert {"out hello", "err oops"} <= set(lines)
    assert lines[-2].startswith(ident) and lines[-2].endswith("ended exit 3 /bin/sh") and lines[-1] == "ok"
    action, observation = events(drive)[-2:]
    assert action["args"]["command"] == "env GREETING=hello /bin/sh -c 'echo $GREETING; echo oops >&2; exit 3'"
    assert observation["extras"]["metadata"]["process"] == ident


def test_input_signals_and_lists(drive):
    ident = drive.start("cat", stdin=True, tag="in")
    assert drive("input", "tag:in", "typed") == ["ok"]
    assert any(line.startswith(ident) and "running" in line for line in drive("list"))
    assert drive("close", ident) == ["ok"]
    lines = drive("follow", ident)
    assert lines[0] == "out typed" and lines[-2].endswith("ended exit 0 cat")
    assert drive("input", ident, "more")[-1].startswith("no gone: ")
    ident = drive.start("sleep", "1000", tag="long")
    assert drive("resize", ident, 80)[-1].startswith("no conflict: ")
    assert drive("signal", "tag:long", 15) == ["ok"]
    assert drive("wait", ident)[0].endswith("ended signal 15 sleep")
    assert drive("remove", ident) == ["ok"]
    assert drive("look", ident)[-1].startswith("no not_found: ")


def test_what_cannot_be_started(drive):
    assert drive("start", json.dumps({"args": ["/no/such"]}))[-1].startswith("no invalid: The process was not started")
    lines = drive("start", json.dumps({"args": ["true"], "cwd": "/no/such"}))
    assert lines[-1].startswith("no invalid: ") and "/no/such" in lines[-1]
    assert "no user nobody-here" in drive("start", json.dumps({"args": ["true"], "user": "nobody-here"}))[-1]
    assert drive("start", json.dumps({"args": []}))[-1].startswith("no invalid: ")


def test_a_paused_sandbox_is_waked(drive):
    ident = drive.start("cat", stdin=True)
    assert drive("pause") == ["ok"]
    assert drive("look", ident)[0].endswith("running cat"), "it slept, and goes on"
    assert drive("pause") == ["ok"]
    assert drive.start("true")
    assert drive("remove", ident) == ["ok"]


def test_a_policy_judges_it(jail_works, tmp_path):
    config = '[security]\nconfirmation = "never"\nanalyzers = ["policy"]\n'
    drive = Drive(Service(tmp_path, config=config))
    try:
        lines = drive("start", json.dumps({"args": ["sh", "-c", "rm -rf /"]}))
        assert lines[-1].startswith("no denied: ") and "blocked" in lines[-1], lines
        assert drive.start("true")
    finally:
        drive.finish()

"""Sessions on a real hand: the driver tests/unit/runtime/session-drive.c talks to a tendon-hand that has a
home of its own."""

import json
import os
import pathlib
import pwd
import subprocess
import time

import pytest

from trees import BUILD, program

USER = pwd.getpwuid(os.getuid()).pw_name


class Answer(Exception):
    """What the driver answered when something failed."""

    def __init__(self, answer):
        super().__init__(answer["error"])
        self.text, self.code = answer["error"], answer["code"]


class Session:
    def __init__(self, base, hand, env=None, **options):
        self.base = base
        self.workspace = base / "workspace"
        self.home = base / "home"
        self.tmp = base / "tmp"
        for directory in (self.workspace, self.home, self.tmp):
            directory.mkdir(exist_ok=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_SSL_NO_VERIFY": "1",
            **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")},
        }
        self.log = open(base / "hand.log", "w+")
        self.hand = subprocess.Popen(
            [hand, "--listen", f"unix:{base}/s", "--working-dir", self.workspace, "--username", USER],
            env={**self.env, "SU_TO_USER": "false"},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        deadline = time.monotonic() + 20
        while not (base / "s").exists():
            assert self.hand.poll() is None and time.monotonic() < deadline, "the hand did not start"
            time.sleep(0.01)
        self.driver = subprocess.Popen(
            [BUILD / "tests/unit/runtime/session-drive", f"unix:{base}/s"],
            env={**self.env, **(env or {})},
            cwd=base,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.statuses, self.notes, self.printed = [], [], ""
        self.ask({"workspace": str(self.workspace), **options})

    def ask(self, line):
        self.driver.stdin.write(json.dumps(line) + "\n")
        self.driver.stdin.flush()
        while True:
            text = self.driver.stdout.readline()
            assert text, "the driver died"
            self.printed += text
            answer = json.loads(text)
            if "status" in answer:
                self.statuses.append(answer["status"])
            elif "note" in answer:
                self.notes.append(answer["note"])
            elif "error" in answer:
                raise Answer(answer)
            else:
                return answer["ok"]

    def __call__(self, op, **arguments):
        return self.ask({"op": op, **arguments})

    def act(self, action, timeout=20, **args):
        event = {"action": action, "args": args}
        if timeout:
            event["timeout"] = timeout
        return self("action", action=event)

    def run(self, command, **args):
        """What a command prints in the main shell."""
        seen = self.act("run", command=command, **args)
        assert seen["extras"]["metadata"]["exit_code"] == 0, seen
        return seen["content"]

    def stop(self):
        """Ends driver and hand; doing so again does nothing."""
        if self.log.closed:
            return
        self.driver.stdin.close()
        status = self.driver.wait(timeout=30)
        self.hand.terminate()
        self.hand.wait(timeout=30)
        self.log.close()
        assert status == 0


@pytest.fixture
def open_session(tmp_path, hand_program):
    """open_session(**options) -> Session; stopped at the end."""
    program(BUILD, "tests/unit/runtime/session-drive")
    made = []

    def make(**options):
        base = tmp_path / str(len(made))
        base.mkdir()
        session = Session(base, hand_program, **options)
        made.append(session)
        return session

    yield make
    for session in made:
        session.stop()


@pytest.fixture
def git(tmp_path):
    """Runs git outside of the sandbox, with an identity and a home of its own."""
    home = tmp_path / "githome"
    home.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": value
           for who in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "t"), ("EMAIL", "t@example.org"))},
    }

    def run(directory, *args):
        done = subprocess.run(["git", "-C", directory, *args], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def upstream(tmp_path, git):
    """A repository to clone: main with a file and a folder of OpenHands', and a branch."""
    path = tmp_path / "upstream" / "thing"
    (path / "src").mkdir(parents=True)
    (path / "src/a.txt").write_text("one\ntwo\n")
    git(path, "init", "-q", "-b", "main")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    git(path, "checkout", "-q", "-b", "feature/x")
    (path / "x").write_text("x\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "x")
    git(path, "checkout", "-q", "main")
    return path


def add(git, repository, files):
    for name, text in files.items():
        path = pathlib.Path(repository) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "more")


@pytest.fixture
def commit(git):
    """commit(repository, {name: text})"""
    return lambda repository, files: add(git, repository, files)

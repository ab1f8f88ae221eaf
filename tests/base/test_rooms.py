"""Directories of tests: those of a killed run are removed by the next one, and nobody else's."""

import os
import pathlib
import secrets
import signal
import subprocess
import sys

import pytest

import rooms

TESTS = pathlib.Path(rooms.__file__).parent

MAKE = """
import rooms, sys
room = rooms.room("t")
(room / "deep").mkdir()
(room / "deep" / "file").write_text("left")
print(room, flush=True)
sys.stdin.read()
"""


class Run:
    """A process that has a room, as a run of tests does."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAKE], cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.room = pathlib.Path(self.process.stdout.readline().strip())

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.communicate(timeout=60)

    def finish(self):
        """As a run does whose tests removed what they made."""
        subprocess.run(["rm", "-rf", self.room], check=True)
        self.process.communicate("", timeout=60)


@pytest.fixture
def runs():
    made = []

    def make():
        made.append(Run())
        return made[-1]

    yield make
    for run in made:
        if run.process.poll() is None:
            run.end()
    rooms.sweep()
    assert not [run.room for run in made if run.room.parent.exists()]


def test_a_killed_run_is_swept_and_a_living_one_is_not(runs):
    mine = rooms.room("t")
    killed, living = runs(), runs()
    assert killed.room.parent != living.room.parent and len({killed.room, living.room, mine}) == 3
    killed.end()
    assert killed.room.exists()
    rooms.sweep()
    assert not killed.room.parent.exists()
    assert (living.room / "deep/file").read_text() == "left" and mine.exists()
    mine.rmdir()
    living.finish()
    assert not living.room.parent.exists(), "who ends well leaves nothing"


def test_names_are_short_and_none_begins_another():
    made = [rooms.room("t") for _ in range(40)]
    for room in made:
        room.rmdir()
    assert {len(str(room)) for room in made} == {len("/tmp/tn-1234/t123")} and len(set(made)) == 40


def test_many_sweep_at_once(runs):
    killed = [runs() for _ in range(4)]
    for run in killed:
        run.end()
    sweep = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import rooms; rooms.sweep(); rooms.room('t').rmdir()"
    sweepers = [subprocess.Popen([sys.executable, "-c", sweep], stderr=subprocess.PIPE, text=True) for _ in range(6)]
    complaints = [sweeper.communicate(timeout=120)[1] for sweeper in sweepers]
    assert [sweeper.returncode for sweeper in sweepers] == [0] * 6, complaints
    assert not [run.room for run in killed if run.room.parent.exists()]


def test_who_makes_one_while_others_sweep_has_it(monkeypatch):
    """Between making and locking it anybody may take it: then there is another."""
    swept, real = [], rooms.take

    def take(path):
        if not swept:
            swept.append(path)
            os.rmdir(path)
        return real(path)

    monkeypatch.setattr(rooms, "take", take)
    path = rooms.of_this_run.__wrapped__()
    assert os.path.isdir(path) and path != swept[0] and not os.path.exists(swept[0])
    os.rmdir(path)


def unused_name():
    """One that a run could have."""
    return pathlib.Path(rooms.OF_A_RUN.replace("????", rooms.word(secrets.randbelow(36**4), 4)))


def test_what_is_not_a_run_is_left_alone(tmp_path):
    (tmp_path / "kept").touch()
    link = unused_name()
    link.symlink_to(tmp_path)
    try:
        rooms.sweep()
        assert link.is_symlink() and (tmp_path / "kept").exists()
    finally:
        link.unlink()


@pytest.mark.parametrize("mode, name", [(0o755, "t000"), (0o700, "t000"), (0o711, "notes.txt"), (0o711, "Work")])
def test_what_somebody_made_under_such_a_name_is_left_alone(mode, name):
    path = unused_name()
    path.mkdir()
    try:
        (path / name).touch()
        path.chmod(mode)
        rooms.sweep()
        assert (path / name).exists()
    finally:
        (path / name).unlink()
        path.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts, and gives files away")
def test_nothing_beyond_a_mount_is_removed(runs, tmp_path):
    (tmp_path / "kept").touch()
    run = runs()
    point = run.room / "a mount"
    point.mkdir()
    subprocess.run(["mount", "--bind", tmp_path, point], check=True)
    run.end()
    rooms.sweep()
    assert (tmp_path / "kept").exists() and not run.room.parent.exists()
    assert not rooms.mounts_below(str(run.room.parent))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts, and gives files away")
def test_those_of_another_user_are_left_alone(runs):
    run = runs()
    run.end()
    os.chown(run.room.parent, 12345, 12345)
    try:
        rooms.sweep()
        assert (run.room / "deep/file").exists()
    finally:
        os.chown(run.room.parent, 0, 0)

"""Hundreds of random verbs by several tendon processes at once, many of them killed; then nothing may be left, and
nothing of others may be touched (see storm.py and census.py)."""

import os
import random
import shutil
import socket
import sqlite3
import subprocess
import time

import pytest

from census import Census, Ids, lives
from storm import Place, Storm, clear, report

KINDS = {
    "local": ([], []),
    "cli": ([], []),
    "example": ([], []),
    "jail": ([], ["--disk=16m", "--memory=256m", "--network=host"]),
}
NOBODY = 65534
EVERYTHING = {"new", "run", "exec", "pause", "resume", "stop", "rm", "snapshot", "fork", "cp", "gc", "ls"}


def as_user(user):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


@pytest.fixture
def make_place(tendon_program):
    places = []

    def make(user=None):
        places.append(Place(tendon_program, before=as_user(user) if user else ()))
        if user:
            for path in (places[-1].base, *places[-1].base.iterdir()):
                os.chown(path, user, user)
        return places[-1]

    yield make
    for place in places:
        clear(place, os.listdir(place.state / "sandbox") if (place.state / "sandbox").exists() else [])


class Bystanders:
    """What is none of the storm's business: sandboxes of another state directory, and a process whose name is like
    that of our own programs."""

    def __init__(self, place):
        self.place = place
        self.boxes = {}
        for kind in KINDS:
            place.ok("new", "--name", kind, "--runtime", kind)
            place.ok("exec", kind, "echo here > note")
            self.boxes[kind] = self.start_of(kind)
        self.process = subprocess.Popen(["tendon-jail", "infinity"], executable=shutil.which("sleep"))

    def start_of(self, kind):
        """When its hand was started: another one would have started later."""
        return self.place.ok("exec", kind, "cut -d' ' -f22 /proc/$PPID/stat && cat note")

    def check(self):
        for kind, before in self.boxes.items():
            assert self.start_of(kind) == before, f"the {kind} sandbox of another state directory was touched"
        assert self.process.poll() is None, "a process of somebody else was killed"

    def end(self):
        self.process.kill()
        self.process.wait()
        self.place.ok("rm", "--all")


def ride_out(make_place, seed, operations, **how):
    place = make_place()
    bystanders = Bystanders(make_place())
    storm = Storm(place, KINDS, ["jail"], seed, operations, **how)
    storm.rage()
    left = storm.calm()
    bystanders.check()
    bystanders.end()
    assert not storm.problems, "\n".join(storm.problems)
    assert not left, f"seed {seed}: left behind:\n{report(left)}"
    return storm


@pytest.mark.timeout(300)
def test_a_storm_leaves_nothing_and_touches_nobody(make_place):
    seed = os.environ.get("TN_STORM_SEED", "1")
    storm = ride_out(make_place, seed, 400)
    assert storm.succeeded() >= EVERYTHING, "the storm did not get round to everything"
    assert any(outcome == "killed" for _, outcome in storm.tally)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which can be anybody")
@pytest.mark.timeout(300)
def test_a_storm_of_an_ordinary_user(make_place):
    """Whose jails have no control groups: what ends them is the end of their first process."""
    seed = os.environ.get("TN_STORM_SEED", "1")
    storm = Storm(make_place(NOBODY), {"jail": ([], ["--disk=16m"])}, ["jail"], seed, 120)
    storm.rage()
    left = storm.calm()
    assert not storm.problems, "\n".join(storm.problems)
    assert not left, f"seed {seed}: left behind:\n{report(left)}"
    assert "new" in storm.succeeded()
    assert any(outcome == "killed" for _, outcome in storm.tally)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_long_storm_of_another_kind_each_time(make_place):
    seed = os.environ.get("TN_STORM_SEED", str(random.SystemRandom().randrange(10**6)))
    ride_out(make_place, seed, 2000, workers=6)


# --- a moment that a storm seldom meets -----------------------------------------------------------------

# Stands in for tendon-jail: says that it was told what to launch, and waits until it may go on.
LATE = """#!/usr/bin/python3
import os, pathlib, socket, sys, time
parcel = socket.socket(fileno=os.dup(int(sys.argv[2])))
if parcel.recv(1, socket.MSG_PEEK):
    pathlib.Path("{base}/started").touch()
    while not os.path.exists("{base}/go"):
        time.sleep(0.01)
os.execv("{program}", sys.argv)
"""


@pytest.fixture
def late_place(tendon_program, make_place):
    """A place whose jails start when the file `go` appears."""
    place = make_place()
    programs = place.base / "programs"
    programs.mkdir()
    for name in ("tendon-hand", "tendon-gate"):
        shutil.copy(tendon_program.parent / name, programs)
    launcher = programs / "tendon-jail"
    launcher.write_text(LATE.format(base=place.base, program=tendon_program.parent / "tendon-jail"))
    launcher.chmod(0o755)
    place.hand = ["--set", f"tendon.hand={programs}/tendon-hand"]
    return place


@pytest.mark.parametrize("verb", ["gc", "resume"])
def test_nobody_overtakes_the_start_of_a_killed_process(late_place, verb):
    """The launcher outlives the tendon that started it; who comes after waits for it to come to its end."""
    place = late_place
    place.ok("gc")
    ids = Ids(place.state / "sandbox")
    if verb == "resume":
        place.ok("new", "--runtime", "jail", "--name", "box")
        place.ok("stop", "box")
        words = ["resume", "box"]
    else:
        words = ["new", "--runtime", "jail", "--name", "box"]
    killed = place.start(*place.hand, *words)
    wait_for((place.base / "started").exists)
    killed.kill()
    killed.communicate()
    second = place.start(verb, *words[1:2] if verb == "resume" else [])
    with pytest.raises(subprocess.TimeoutExpired):  # if it does not wait it ends at once
        second.wait(0.3)
    (place.base / "go").touch()
    code, _, complaint = place.finish(second, [verb])
    assert code == 0, complaint
    if verb == "resume":
        assert place.ok("exec", "box", "echo well") == "well"
        place.ok("rm", "box")
    ids.stop()
    census = Census(place.base, place.state, place.mark, ids.seen)
    wait_for(lambda: not census.take())


# --- the census itself must see what it is for --------------------------------------------------------


@pytest.fixture
def empty(make_place):
    """A place without sandboxes, and its census."""
    place = make_place()
    place.ok("gc")
    census = Census(place.base, place.state, place.mark, {"storm00001"})
    assert census.take() == {}
    return place, census


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return value


@pytest.fixture
def sleeper():
    """sleeper(env=..., before=[...]) -> a process; ended afterwards."""
    started = []

    def start(before=(), **options):
        command = [*before, "sleep", "infinity"]
        started.append(subprocess.Popen(command, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_census_sees_a_process_by_its_environment(empty, sleeper):
    place, census = empty
    process = sleeper(env={**os.environ, place.mark: "1"})
    (found,) = wait_for(lambda: census.take().get("processes"))
    assert found.startswith(f"{process.pid} (environment)")


def test_census_sees_a_process_by_its_files(empty, sleeper):
    place, census = empty
    with open(place.home / "open", "w") as file:
        process = sleeper(stdout=file)
    (found,) = wait_for(lambda: census.take().get("processes"))
    assert found.startswith(f"{process.pid} (open files)")


def test_census_sees_a_nursery(empty):
    """Which knows no sandbox, and ends when nobody holds the other end of its socket."""
    place, census = empty
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = ["tendon-jail", "--nursery", str(theirs.fileno())]
    program = place.base / "bin/tendon-jail"
    process = subprocess.Popen(words, executable=program, env={}, cwd="/", pass_fds=[theirs.fileno()])
    theirs.close()
    try:
        (found,) = wait_for(lambda: census.take().get("processes"))
    finally:
        ours.close()
        status = process.wait(20)
    assert found.startswith(f"{process.pid} (open files)")
    assert status == 0


def test_census_sees_namespaces(empty, sleeper):
    place, census = empty
    if os.getuid():
        pytest.skip("needs root: makes namespaces")
    sleeper(before=["unshare", "--mount", "--uts"], env={**os.environ, place.mark: "1"})
    found = wait_for(lambda: census.take().get("namespaces"))
    assert {name.split(":")[0] for name in found} == {"mnt", "uts"}


def test_census_sees_mounts_in_any_namespace(empty, sleeper):
    place, census = empty
    if os.getuid():
        pytest.skip("needs root: mounts")
    target = place.home / "mounted"
    target.mkdir()
    script = f"mount -t tmpfs tmpfs {target} && exec env -i sleep infinity"
    sleeper(before=["unshare", "--mount", "sh", "-c", script])
    (found,) = wait_for(lambda: census.take().get("mounts"))
    assert str(target) in found


def test_census_sees_control_groups(empty, sleeper):
    _, census = empty
    mounted = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
    parents = [path for path in mounted if os.access(f"{path}/cgroup.procs", os.W_OK)]
    if not parents:
        pytest.skip("no control group here can be written to")
    group = f"{parents[0]}/tendon/storm00001"
    os.makedirs(group)
    try:
        process = sleeper()
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write(str(process.pid))
        left = census.take()
        process.kill()
        process.wait()
    finally:
        wait_for(lambda: try_rmdir(group))
    assert left["cgroups"] == [group]
    assert left["processes"][0].startswith(f"{process.pid} (control group)")


def try_rmdir(path):
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def test_census_sees_sockets(empty):
    place, census = empty
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.home / "sock"))
        listener.listen()
        (found,) = census.take()["sockets"]
    assert found.endswith(str(place.home / "sock"))


def test_census_sees_ports(empty):
    place, census = empty
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); s.accept()"
    process = subprocess.Popen(["/usr/bin/python3", "-c", code], env={**os.environ, place.mark: "1"})
    try:
        (found,) = wait_for(lambda: census.take().get("sockets"))
    finally:
        process.kill()
        process.wait()
    assert found.startswith(f"{process.pid} listens on 0100007F:")


def test_census_sees_directories(empty):
    place, census = empty
    planted = [place.state / name for name in ("layers/ab", "other", "sandbox/storm00001")]
    for path in planted[::2]:
        path.mkdir(parents=True)
    planted[1].touch()
    assert census.take() == {"directories": [str(path) for path in planted]}


def test_census_sees_rows(empty):
    place, census = empty
    with sqlite3.connect(place.state / "tendon.db") as db:
        db.execute("INSERT INTO snapshot (sandbox, name, created) VALUES ('storm00001', 'a', 0)")
    db.close()
    assert census.take() == {"rows": ["snapshot ('storm00001', 'a')"]}


def test_census_knows_every_sandbox_there_ever_was(empty):
    place, _ = empty
    ids = Ids(place.state / "sandbox")
    for i in range(300):
        path = place.state / "sandbox" / f"storm{i:05d}"
        path.mkdir()
        path.rmdir()
    ids.stop()
    assert len(ids.seen) == 300


def test_census_ignores_the_dead_and_the_others(empty, sleeper):
    place, census = empty
    sleeper()
    dead = sleeper(env={**os.environ, place.mark: "1"})
    dead.kill()
    wait_for(lambda: not lives(dead.pid))
    assert census.take() == {}

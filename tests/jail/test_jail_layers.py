"""Snapshot, rollback and fork of jails: whatever state they are in, whatever was done to the files."""

import signal
import subprocess
import threading

import pytest

from conformance import Refusal, wait_until
from jail_world import NOBODY, JailWorld

STATES = ["running", "paused", "stopped"]

# Everything a layer must carry: new, changed and removed files, a directory removed and made anew, modes, links.
BEFORE = "cd /workspace; mkdir renewed; touch renewed/old removed; echo before >changed"
CHANGE = """
set -e; cd /workspace
mkdir -p tree/deep; echo one >tree/deep/file; chmod 4711 tree/deep/file; chmod 1770 tree/deep
ln tree/deep/file tree/hard; ln -s deep/file tree/soft
echo after >>changed; rm removed; rm -r renewed; mkdir renewed; echo mine >renewed/only
echo x >>/etc/hostname; rm /etc/shells
mkdir /var/own /own; echo x >/var/own/x
touch -d @1000000000 tree/old
"""
CHECK = """
cd /workspace
stat -c '%a %h' tree/deep/file; stat -c %a tree/deep; cat tree/soft
[ tree/hard -ef tree/deep/file ] && echo same
cat changed; ls removed 2>&1; ls renewed
tail -n 1 /etc/hostname; ls /etc/shells 2>&1
ls -d /own; cat /var/own/x; stat -c %Y tree/old
"""
EXPECTED = """4711 2
1770
one
same
before
after
ls: cannot access 'removed': No such file or directory
only
x
ls: cannot access '/etc/shells': No such file or directory
/own
x
1000000000"""


# What no image has a place for.
HOLE = "cd /workspace; truncate -s 50M tree/hole; printf end >>tree/hole"
CHECK_HOLE = "cd /workspace; stat -c %s tree/hole; tail -c 3 tree/hole; echo; [ $(stat -c %b tree/hole) -lt 1000 ] && echo sparse"
EXPECTED_HOLE = "52428803\nend\nsparse"

KINDS = ["root", "root-files", "user"]


@pytest.fixture(params=KINDS)
def world(request):
    """Layers are images if root's kernel mounts them; then they are tried as files, too."""
    world = JailWorld(NOBODY if request.param == "user" else None)
    if request.param == "root-files":
        world.settings = {"jail.layer_images": "false"}
    yield world
    world.finish()


def are_images(world):
    """Whether new layers of this world can be images."""
    findings = world.drivers[0]("doctor", runtime="jail")["findings"]
    works = next(finding["good"] for finding in findings if finding["what"] == "layers as images")
    return works and "jail.layer_images" not in world.settings


def kinds(world):
    """Of each layer: "image" or "files"."""
    trees = [world.state / "layers" / name / "tree" for name in world.layers]
    return ["files" if tree.is_dir() else "image" if tree.is_file() else "nothing" for tree in trees]


@pytest.fixture(params=["disk", "tmpfs"])
def changed(request, world, driver):
    """A sandbox on a layer, with many kinds of changes; its files on disk, or on a tmpfs for the sake of a limit."""
    world.spec = {"disk": "64m"} if request.param == "tmpfs" else {}
    box = world.new(driver)
    do(box, BEFORE)
    box("snapshot", name="before")
    box("rollback", name="before")
    box("ready")
    do(box, CHANGE)
    assert do(box, CHECK) == EXPECTED
    return box


def do(box, script):
    """Output of a script of several lines."""
    answer = box("exec", argv=["bash", "-c", script])
    assert answer["status"] == 0, answer
    return answer["output"].strip()


def reach(box, state):
    if state != "running":
        box.drive(state)


@pytest.mark.parametrize("state", STATES)
def test_rollback_brings_everything_back(changed, state):
    reach(changed, state)
    changed("snapshot", name="then")
    changed.drive("running")
    changed.ok("rm -rf /workspace/* /own; touch /etc/shells /new; echo later >/etc/hostname")
    answer = changed("rollback", name="then")
    assert answer["status"] == "running"
    changed("ready")
    assert do(changed, CHECK) == EXPECTED
    assert changed.run("ls /new")[0] != 0
    changed("rollback", name="then")
    changed("ready")
    assert do(changed, CHECK) == EXPECTED


@pytest.mark.parametrize("state", STATES)
def test_a_fork_has_the_files_of_now(world, changed, state):
    reach(changed, state)
    child = world.fork(changed)
    child("ready")
    assert do(child, CHECK) == EXPECTED
    assert changed.status() == state
    changed.drive("running")
    child.ok("echo of the child >/workspace/tree/deep/file; rm /own -r")
    assert do(changed, CHECK) == EXPECTED
    changed.ok("echo of the parent >/workspace/tree/deep/file")
    assert child.ok("cat /workspace/tree/deep/file") == "of the child"


def test_what_layers_are_made_of(world, box):
    box.ok("mkdir tree; echo x >tree/file")
    box("snapshot", name="one")
    assert kinds(world) == ["image" if are_images(world) else "files"]
    box.ok(HOLE)
    child = world.fork(box)
    child("ready")
    assert sorted(kinds(world)) == sorted(["image" if are_images(world) else "files", "files"])
    assert do(child, CHECK_HOLE) == EXPECTED_HOLE
    grandchild = world.fork(child)
    grandchild("ready")
    assert do(grandchild, CHECK_HOLE) == EXPECTED_HOLE
    box("rollback", name="one")
    box("ready")
    assert box.ok("cat /workspace/tree/file; ls /workspace/tree") == "x\nfile"


def test_layers_of_both_kinds_in_one_root(world, box):
    """A stopped sandbox gives its files away as they are; a running one is copied; and the next change hides some."""
    box.ok("mkdir a b; echo 1 >a/1; echo 1 >b/1; cp $(which true) a/program")
    box.drive("stopped")
    box("snapshot", name="one")
    box.drive("running")
    box.ok("echo 2 >a/2; rm -r b; mkdir b; echo 2 >b/2; rm a/1; chmod 700 a/program")
    child = world.fork(box)
    child("ready")
    assert sorted(kinds(world)) == sorted(["files", "image" if are_images(world) else "files"])
    assert child.ok("cd /workspace; a/program && ls -1 a b") == "a:\n2\nprogram\n\nb:\n2"
    child.ok("cd /workspace; echo 3 >>a/2; rm b/2; echo 3 >b/3; mv a/program a/moved; chmod 755 a/moved")
    grandchild = world.fork(child)
    box.drive("gone")
    child.drive("gone")
    assert grandchild.ok("cd /workspace; a/moved && ls -1 a b; cat a/2") == "a:\n2\nmoved\n\nb:\n3\n2\n3"
    for state in ("stopped", "running"):
        grandchild.drive(state)
    assert grandchild.ok("cd /workspace; a/moved && ls -1 a b; cat a/2") == "a:\n2\nmoved\n\nb:\n3\n2\n3"


def test_images_when_they_are_no_longer_wanted(world, box):
    """What is there is used, whatever new layers are made of."""
    box.ok("echo 1 >/workspace/one")
    box("snapshot", name="one")
    box.ok("echo 2 >/workspace/two")
    world.settings = {"jail.layer_images": "false"}
    other = world.open()
    mine = box.seen_by(other)
    mine("snapshot", name="two")
    assert "files" in kinds(world)
    for name, files in (("one", "one"), ("two", "one\ntwo")):
        mine("rollback", name=name)
        mine("ready")
        assert mine.ok("ls -1 /workspace") == files


def test_attributes_and_owners_are_kept(world, box):
    box.ok("cd /workspace; echo x >file; mkdir dir")
    box.ok("python3 -c 'import os; os.setxattr(\"file\", \"user.mine\", b\"kept\"); os.setxattr(\"dir\", \"user.mine\", b\"kept\")'")
    if world.user is None:
        box.ok("cd /workspace; chown 12:34 file; chown 56:78 dir")
    box.ok("cd /workspace; touch -d @1000000000.123456789 file dir")
    show = "cd /workspace; stat -c '%u %g %.9Y' file dir; python3 -c 'import os; print(os.getxattr(\"file\", \"user.mine\"), os.getxattr(\"dir\", \"user.mine\"))'"
    before = box.ok(show)
    child = world.fork(box)
    child("ready")
    assert child.ok(show) == before
    assert ".123456789" in before and "b'kept' b'kept'" in before


def test_every_kind_of_file_is_kept(world, box):
    """Nobody waits for a FIFO, follows a link or talks to a socket on the way."""
    box.ok(
        "cd /workspace && mkfifo fifo && ln fifo again && ln -s fifo soft && ln -s /etc/passwd out && ln -s loop loop && mkdir -m 0 shut"
        " && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'"
    )
    look = "cd /workspace && stat -c '%N %F %h %a' *"
    before = box.ok(look)
    box("snapshot", name="one", timeout=60)
    child = world.fork(box, "one")
    child("ready")
    assert child.ok(look) == before
    box.ok("cd /workspace && rm -rf * && mkfifo shut && mkdir fifo")
    box("rollback", name="one", timeout=60)
    box("ready")
    assert box.ok(look) == before


def test_a_fork_of_a_snapshot(world, changed):
    changed("snapshot", name="then")
    changed.ok("echo later >/workspace/tree/deep/file")
    child = world.fork(changed, "then")
    child("ready")
    assert do(child, CHECK) == EXPECTED


def test_a_child_outlives_its_parents(world, box):
    box.ok("echo 1 >/workspace/one")
    child = world.fork(box)
    child.ok("echo 2 >/workspace/two")
    grandchild = world.fork(child)
    box.drive("gone")
    child.drive("gone")
    assert grandchild.ok("cat /workspace/one /workspace/two") == "1\n2"
    grandchild.drive("stopped")
    grandchild.drive("running")
    assert grandchild.ok("cat /workspace/one /workspace/two") == "1\n2"


def test_processes_end_at_a_rollback(box):
    box.ok("sleep 4321 >/dev/null 2>&1 & export HERE=1")
    wait_until(lambda: "sleep 4321" in box.ok("ps ax"), what="it runs; a shell's child has the shell's name first")
    box("snapshot", name="s")
    box("rollback", name="s")
    box("ready")
    assert "sleep 4321" not in box.ok("ps ax")
    assert box.ok("echo [$HERE]") == "[]"


def test_a_running_command_does_not_notice_a_snapshot(box):
    box.ok("(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i >>/workspace/log; done) >/dev/null 2>&1 &")
    box.ok("until [ -s /workspace/log ]; do sleep 0.01; done")
    box("snapshot", name="s")
    assert box.status() == "running"
    before = int(box.ok("wc -l </workspace/log"))
    box.ok(f"until [ $(wc -l </workspace/log) -gt {before} ]; do sleep 0.01; done")
    child = box.driver.world.fork(box, "s")
    lines = child.ok("cat /workspace/log").split()
    assert lines == [str(i + 1) for i in range(len(lines))]


def test_several_snapshots_in_any_order(box):
    for i in "123":
        box.ok(f"echo {i} >/workspace/version; echo {i} >/workspace/only-{i}")
        box("snapshot", name=f"v{i}")
    for i in "2131":
        box("rollback", name=f"v{i}")
        box("ready")
        assert box.ok("cat /workspace/version") == i
        assert box.ok("ls /workspace").split() == [*(f"only-{k}" for k in "123" if k <= i), "version"]


def test_snapshots_of_a_stopped_sandbox_stack(box):
    for i in range(5):
        box.ok(f"echo {i} >/workspace/version")
        box.drive("stopped")
        box("snapshot", name=f"v{i}")
        box.drive("running")
    for i in (3, 0, 4):
        box("rollback", name=f"v{i}")
        box("ready")
        assert box.ok("cat /workspace/version") == str(i)


def test_names(box):
    box("snapshot", name="one")
    with pytest.raises(Refusal) as refusal:
        box("snapshot", name="one")
    assert refusal.value.code == "conflict"
    for verb in ("rollback", "fork"):
        with pytest.raises(Refusal) as refusal:
            box(verb, name="other", **({"child": box.id} if verb == "fork" else {}))
        assert refusal.value.code == "not_found"
    box("forget", name="never made")
    assert box.ok("echo fine") == "fine"


def test_a_forgotten_snapshot_takes_its_layer_along(world, box):
    box.ok("echo x >/workspace/x")
    box("snapshot", name="one")
    box.ok("echo y >/workspace/y")
    box("snapshot", name="two")
    assert len(world.layers) == 2
    box("forget", name="one")
    assert len(world.layers) == 1
    box("rollback", name="two")
    box("ready")
    box("forget", name="two")
    assert len(world.layers) == 1  # it stands on that one
    assert box.ok("cat /workspace/x /workspace/y") == "x\ny"


def test_a_disk_limit_holds_after_a_fork(world, driver):
    box = world.new(driver, disk="32m")
    box.ok("head -c 20M /dev/zero >/workspace/first")
    child = world.fork(box, disk="32m")
    child("ready")
    code, output = child.run("head -c 20M /dev/zero >/workspace/second")
    assert code != 0 and "No space" in output
    child.ok("rm /workspace/second; head -c 8M /dev/zero >/workspace/third")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("limit", [None, "64m"])
def test_what_snapshots_keep_is_counted(world, driver, state, limit):
    """However a layer comes about: copied or folded; an empty file is not nothing, but in an image."""
    box = world.new(driver, **({"disk": limit} if limit else {}))
    box.ok("cd /workspace; head -c 5M /dev/urandom >big; mkdir many; cd many; touch $(seq 500)")
    reach(box, state)
    box("snapshot", name="one")
    box("rollback", name="one")
    box("ready")
    box.ok("rm -r /workspace/big /workspace/many")
    assert box("usage")["disk"] >= (5 << 20) + (500 * 4096 if kinds(world) == ["files"] else 0)


@pytest.mark.parametrize("moment", range(6))
def test_killed_while_it_copies(world, box, moment):
    """Whenever the process that takes a snapshot is killed, the sandbox runs on and nothing is left over."""
    second = world.new(box.driver, own=False)
    second.ok("mkdir many; for i in $(seq 3000); do echo $i >many/$i; done")
    other = world.open()
    mine = second.seen_by(other)
    timer = threading.Timer(0.004 * moment, other.kill)
    timer.start()
    try:
        mine("snapshot", name="s")
    except (AssertionError, BrokenPipeError):
        pass
    timer.join()

    def runs_on():
        """Who looks thaws it, unless that comes before the last of the killed one is gone."""
        assert second.status() == "running"
        try:
            return second.ok("ls many | wc -l", timeout=5) == "3000"
        except Refusal:
            return False

    wait_until(runs_on, 60, "it runs on")
    second.driver.ask("forget", id=second.id, name="s")
    second("snapshot", name="t")
    second("forget", name="t")
    assert world.layers == []


def test_what_the_owner_cannot_read_is_copied_too(world, box):
    """Root inside reads everything; outside it may be an ordinary user."""
    box.ok("cd /workspace; mkdir shut; echo secret >shut/file; chmod 0 shut/file shut; mkdir -m 0 empty")
    child = world.fork(box)
    child("ready")
    assert child.ok("cd /workspace; stat -c %a shut shut/file empty; cat shut/file") == "0\n0\n0\nsecret"
    assert box.ok("cd /workspace; stat -c %a shut shut/file empty; cat shut/file") == "0\n0\n0\nsecret"


def test_layers_of_the_dead_are_reclaimed(world, driver):
    """The keeper removes the directory of a sandbox whose owner died; its layers are found by their users."""
    other = world.open()
    box = world.new(other)
    box.ok("echo x >/workspace/x")
    box("snapshot", name="s")
    assert len(world.layers) == 1
    other.process.send_signal(signal.SIGKILL)
    other.process.wait()
    wait_until(lambda: not (world.state / "sandbox" / box.id).exists(), what="the keeper cleans up")
    assert box.id in driver("list")["ids"]
    box.seen_by(driver).drive("gone")
    assert world.layers == []


def test_mounted_layers_are_not_seen_from_outside(box):
    mounts = subprocess.run(["cat", "/proc/self/mountinfo"], capture_output=True, text=True).stdout
    assert str(box.driver.world.state) not in mounts

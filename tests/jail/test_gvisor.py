"""The same jails under gVisor (isolation gvisor), where there is a runsc: see tools/runsc."""

import concurrent.futures
import json
import os
import pathlib
import shutil

import pytest

from conformance import Refusal, wait_until
from jail_world import NOBODY, JailWorld, children_of
from peers import runsc
from test_jail_limits import limited, test_cpus, test_disk, test_disk_survives_a_stop, test_file_size  # noqa: F401
from test_jail_limits import test_open_files, test_wall_time  # noqa: F401
from test_jail_states import process, test_after_an_accident, test_an_accident_while_paused  # noqa: F401
from test_jail_states import test_another_process_finds_it_without_a_ref  # noqa: F401
from test_jail_states import test_from_every_state_to_every_other, test_nothing_known_about_it  # noqa: F401
from test_jail_states import test_suspend_says_why_not, test_the_reason_of_an_end  # noqa: F401

# These run for every gVisor that is found; the others are slow, and make test-all's.
SMOKE = {"test_another_kernel", "test_a_life", "test_nobody_dies_of_a_pause", "test_who_comes_from_outside", "test_what_it_cannot_have"}


@pytest.fixture(params=["root", "user"])
def world(request):
    world = JailWorld(NOBODY if request.param == "user" else None, runsc=runsc())
    yield world
    world.finish()


def test_another_kernel(world, box):
    assert "gvisor" in box.ok("uname -r") and "gVisor" in box.ok("dmesg")
    assert box("inspect")["isolation"]["gvisor"] == "systrap"
    init = process(box, "pid")
    assert os.readlink(f"/proc/{init}/exe") == "/runsc"
    # Around it there is nothing of the host but what the jail has.
    walls = pathlib.Path(f"/proc/{init}/root")
    assert sorted(path.name for path in walls.iterdir()) == "bundle dev proc root runsc state tmp volumes".split()
    assert not any("backend-drive" in (walls / f"proc/{name}/cmdline").read_text() for name in os.listdir(walls / "proc") if name.isdigit())
    # What it started with is told to nobody inside.
    assert "bundle" not in box.ok("ls /") and box.run("ls /bundle /state")[0] != 0


def test_a_life(world, box):
    box.ok("echo one >/workspace/file; mkdir /opt/made; (sleep 1000 >/dev/null 2>&1 &)")
    box.drive("paused")
    assert box.status() == "paused"
    box.drive("running")
    assert "sleep 1000" in box.ok("ps ax -o args")
    box("snapshot", name="first")
    box.ok("echo two >/workspace/file; rm -r /opt/made")
    child = world.fork(box)
    assert child.ok("uname -r; cat /workspace/file").split()[-1] == "two" and "gvisor" in child.ok("uname -r")
    box("rollback", name="first")
    assert box.ok("cat /workspace/file; ls -d /opt/made") == "one\n/opt/made"
    box.drive("stopped")
    box.drive("running")
    assert box.ok("cat /workspace/file") == "one" and "gvisor" in box.ok("uname -r")


def test_nobody_dies_of_a_pause(world, box):
    """The freezer interrupts calls in which gVisor's own threads wait for each other."""
    worker = "(while /bin/true; do :; done; touch /tmp/died) >/dev/null 2>&1 &"
    box.ok(f"{worker} {worker} {worker} sleep 1000 >/dev/null 2>&1 &")
    for _ in range(15):
        box.drive("paused")
        box.drive("running")
    assert "sleep 1000" in box.ok("sleep 0.2; ps ax -o args") and box.run("ls /tmp/died")[0] != 0


def test_who_comes_from_outside(world, box):
    """A program that is started from outside is on the same kernel, also when nobody knows what the jail is."""
    record = world.state / "drive" / f"{box.id}.json"
    known = json.loads(record.read_text())
    record.write_text(json.dumps({**known, "ref": None}))
    for one in (box, box.seen_by(world.open())):
        assert "gvisor" in one("exec", argv=["uname", "-r"])["output"]
        one("put", path="/workspace/deep/file", text="text", mode=0o640)
        assert box.ok("stat -c %a /workspace/deep/file; cat /workspace/deep/file") == "640\ntext"
    # The key of the hand is not among its variables.
    assert "SESSION_API_KEY=\n" in one("exec", argv=["env"])["output"]


def test_what_it_cannot_have(world):
    driver = world.open()
    with pytest.raises(Refusal) as refusal:
        world.new(driver, devices=["/dev/null"])
    assert refusal.value.code == "unsupported" and "device" in refusal.value.text
    world.settings = {"jail.runsc": "/nonexistent/runsc"}
    with pytest.raises(Refusal) as refusal:
        world.new(world.open())
    assert refusal.value.code == "unsupported" and "offers no gVisor" in refusal.value.text
    assert "/nonexistent" not in refusal.value.text  # directories are for doctor


def test_volumes(world, driver):
    """Both sides see what the other one does; nothing set-uid comes out."""
    shared, still = world.base / "shared", world.base / "still"
    for directory in (shared, still):
        directory.mkdir()
        (directory / "file").write_text("of the host\n")
        for path in (directory, directory / "file"):
            os.chown(path, world.user or 4321, world.user or 4321)
    box = world.new(driver, volumes=[f"{shared}:/shared", f"{still}:/still:ro", f"{still}:/copy:overlay"])
    assert box.ok("cat /shared/file /still/file /copy/file") == "of the host\n" * 2 + "of the host"
    (shared / "file").write_text("changed outside\n")
    assert box.ok("cat /shared/file") == "changed outside"
    box.ok("echo inside >/shared/new; echo inside >/copy/file")
    assert (shared / "new").read_text() == "inside\n" and (still / "file").read_text() == "of the host\n"
    assert (shared / "new").stat().st_uid == (world.user or 4321)
    assert box.run("echo x >/still/file")[0] != 0
    box.run("cp /usr/bin/id /shared/id; chmod 4755 /shared/id; chmod g+s /shared/id")
    assert not (shared / "id").stat().st_mode & 0o6000
    (shared / "link").symlink_to(world.base)
    assert box.run("ls /shared/link/")[0] != 0


def test_too_many_processes(limited, world):  # noqa: F811
    """gVisor cannot go on without threads: it ends, and says why."""
    if world.user:
        pytest.skip("ordinary users have no control groups here")
    box = limited(pids=20)
    with pytest.raises(Refusal):
        box.run("for i in $(seq 200); do sleep 30 & done", timeout=20)
    wait_until(lambda: box.status() == "error")
    assert box("inspect")["reason"] == "gVisor ended: its processes were more than the limit of 20 allows"
    box.drive("running")
    assert box.ok("echo again") == "again"


def test_memory(limited, world):  # noqa: F811
    if world.user:
        pytest.skip("ordinary users have no control groups here")
    box = limited(memory="128m")
    with pytest.raises(Refusal):
        box.run("python3 -c 'x = bytearray(400 << 20)'; sleep 1", timeout=20)
    wait_until(lambda: box.status() == "error")
    assert "out of memory (limit 128 MiB)" in box("inspect")["reason"]


def test_many_come_at_once(world, box):
    """Each connection to the hand goes through the keeper's hands."""
    files = f"/proc/{process(box, 'keeper')}/fd"
    before = len(os.listdir(files))
    drivers = [box.seen_by(world.open()) for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(len(drivers)) as pool:
        answers = list(pool.map(lambda one: [one.act("read", path="/etc/hostname")["content"] for _ in range(20)], drivers))
    assert len({text for lines in answers for text in lines}) == 1
    wait_until(lambda: len(os.listdir(files)) <= before, what="the keeper keeps no connection")


def test_all_that_belongs_to_it_is_in_its_group(world, box):
    """And ends with it; children_of finds what runsc started, in whatever namespace."""
    box.ok("(sleep 1000 >/dev/null 2>&1 &)")
    init = process(box, "pid")
    pids = [init, *children_of(init)]
    assert len(pids) >= 3
    names = {pathlib.Path(f"/proc/{pid}/cgroup").read_text() for pid in pids}
    assert len(names) == 1 and (world.user or f"/tendon/{box.id}" in names.pop())
    box.drive("gone")
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_a_program_of_the_host_cannot_be_changed(world, driver):
    """runsc is shown read-only to itself."""
    copy = world.base / "runsc"
    shutil.copy(world.settings["jail.runsc"], copy)
    os.chown(copy, world.user or 0, world.user or 0)
    world.settings = {"jail.runsc": str(copy)}
    box = world.new(world.open())
    with pytest.raises(OSError):
        open(f"/proc/{process(box, 'pid')}/root/runsc", "r+b").close()


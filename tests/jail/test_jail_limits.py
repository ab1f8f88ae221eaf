"""Limits of jails: kept, and named when they are met."""

import json
import time

import pytest

from conformance import Refusal, wait_until
from jail_world import CGROUPS


def can(world, what):
    """Whether this world can have limits that take control groups."""
    return not world.user or any((top / "tendon").exists() and top.stat().st_uid == world.user for top in CGROUPS)


@pytest.fixture
def limited(world, driver):
    def make(**limits):
        if not can(world, limits) and limits.keys() & {"memory", "cpus"}:
            with pytest.raises(Refusal) as refusal:
                world.new(driver, **limits)
            assert any(name in refusal.value.text for name in limits), refusal.value.text
            pytest.skip("ordinary users have no control groups here; the limit was refused, and named")
        return world.new(driver, **limits)

    return make


HOG = "python3 -c 'x = bytearray(200 << 20)'"


def test_memory(limited):
    box = limited(memory="64m")
    assert box("inspect")["isolation"]["memory_limit"] is True
    assert box.run(HOG)[0] != 0
    reason = wait_until(lambda: box("inspect")["reason"])
    assert reason.startswith("out of memory: ") and "limit 64 MiB" in reason
    assert box.ok("echo alive") == "alive"
    usage = box("usage")
    assert 0 < usage["memory"] <= 64 << 20 and usage["memory_peak"] <= 64 << 20


def test_processes(limited):
    box = limited(pids=20)
    box.run("sh -c 'for i in $(seq 40); do sleep 30 & done' >/dev/null 2>&1; true", timeout=20)  # bash tries for long
    reason = box("inspect")["reason"]
    if box.driver.world.user:
        assert box("inspect")["isolation"]["pids_limit"] is True
    else:
        assert reason and reason.startswith("process limit of 20 reached")


NAMED = "\n[The sandbox reports: process limit of 20 reached]"
FORKS = "import os, time\nfor _ in range(40):\n    os.fork() or (time.sleep(%d), os._exit(0))"


PROCESSES = "set -- /proc/[0-9]*; echo $#"


def told(box, command):
    observation = box("run", command=command, timeout=60)["observation"]
    metadata = observation["extras"]["metadata"]
    return metadata["exit_code"], observation["content"], metadata["suffix"]


def test_processes_of_an_ordinary_user_are_named_in_the_observation(user_world):
    """The kernel counts no refusals there: the hand looks at the moment in which one is told of."""
    box = user_world.new(user_world.open(), pids=20)
    alone = box.ok(PROCESSES)

    def end_all():  # whoever is killed counts against the limit until it is reaped
        box.ok("kill -KILL -1")
        wait_until(lambda: box.ok(PROCESSES) == alone)

    code, output, suffix = told(box, f"python3 -c '{FORKS % 30}'")
    assert code == 1 and "BlockingIOError" in output and suffix.endswith(NAMED)
    end_all()
    # Whoever was refused has ended when that is told.
    output, suffix = told(box, f"python3 -c '{FORKS % 30}' 2>/tmp/said; mapfile -t said </tmp/said; printf '%s\\n' \"${{said[@]}}\"")[1:]
    assert "BlockingIOError" in output and suffix.endswith(NAMED)
    end_all()
    # Bash tries again, and has more luck: that the limit was met is no less true. (It gives up when a child of its own ends meanwhile.)
    code, output, suffix = told(box, f"python3 -c '{FORKS % 6}' 2>/dev/null; for i in 1 2 3; do sleep 60 & done; kill %1 %2 %3; wait; true")
    assert code == 0 and "fork: retry: " in output and suffix.endswith(NAMED)
    # Told once; and words alone are no proof.
    assert NAMED not in told(box, "false")[2]
    code, output, suffix = told(box, "echo fork: retry: Resource temporarily unavailable; false")
    assert code == 1 and "unavailable" in output and NAMED not in suffix


def test_disk(limited):
    box = limited(disk="8m")
    assert box("inspect")["reason"] is None
    code, output = box.run("head -c 20M /dev/zero >/workspace/big")
    assert code != 0 and "No space left" in output
    assert box("inspect")["reason"] == "disk of 8 MiB is full"
    box.ok("rm /workspace/big")
    assert box("inspect")["reason"] is None
    assert box("usage")["disk"] < 8 << 20


def test_disk_survives_a_stop(limited):
    box = limited(disk="16m")
    box.ok("head -c 6M /dev/urandom >/workspace/data; mkdir -m 0700 /workspace/d; ln -s data /workspace/l")
    digest = box.ok("md5sum </workspace/data")
    box.drive("stopped")
    box.drive("stopped")
    box.drive("running")
    assert box.ok("md5sum </workspace/l; stat -c %a /workspace/d") == f"{digest}\n700"
    assert box.run("head -c 12M /dev/zero >/workspace/more")[0] != 0


def test_wall_time(limited):
    box = limited(wall_time=1.5)
    wait_until(lambda: box.status() == "error")
    assert box("inspect")["reason"] == "killed: its time of 1.5 seconds was over"


def test_wall_time_counts_all_runs(world, limited):
    began = time.monotonic()
    box = limited(wall_time=3600)
    box.drive("stopped")
    ran = json.loads((world.state / "sandbox" / box.id / "jail.json").read_text())["ran"]
    assert 0 < ran < time.monotonic() - began
    box.drive("running")
    assert box.ok("echo fine") == "fine"


def test_file_size(limited):
    box = limited(file_size="1m")
    assert box.run("head -c 2M /dev/zero >/workspace/f")[0] != 0
    assert int(box.ok("stat -c %s /workspace/f")) <= 1 << 20


def test_open_files(limited):
    assert limited(open_files=256).ok("ulimit -Hn") == "256"


def test_cpus(limited):
    box = limited(cpus=0.2)
    assert box("inspect")["isolation"]["cpu_limit"] is True


def test_our_own_defaults_give_way(world, driver):
    """Where they cannot be enforced, and visibly; what somebody asked for never does."""
    box = world.new(driver)
    assert box("inspect")["isolation"]["memory_limit"] is can(world, None)
    assert box("inspect")["isolation"]["pids_limit"] is True  # which takes no control group
    assert box.ok("ulimit -u") == "512" or can(world, None)
    if not can(world, None):
        world.settings = {"jail.memory": "4g"}
        with pytest.raises(Refusal) as refusal:
            world.new(world.open())
        assert "memory" in refusal.value.text


def test_what_comes_in_from_outside_is_limited_too(limited):
    box = limited(memory="64m", open_files=277)
    answer = box("exec", argv=["sh", "-c", f"ulimit -Hn; {HOG}; echo done"])
    assert answer["output"].split()[0] == "277"
    assert wait_until(lambda: box("inspect")["reason"]).startswith("out of memory: ")


# --- few descriptors ---------------------------------------------------------------------------------


def test_who_starts_it_may_open_few_files(world):
    """The numbers that descriptors get on the way lie below any limit that leaves room to work."""
    script = world.base / "few"
    script.write_text(f'#!/bin/sh\nulimit -n 64\nexec {world.driver} "$@"\n')
    script.chmod(0o755)
    world.driver = script
    box = world.new(world.open())
    assert box.ok("ulimit -n") == "64"


def test_few_open_files(limited):
    box = limited(open_files=48)
    assert box.ok("ulimit -n; cat </dev/null; echo hi | cat") == "48\nhi"


UNLINKED = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
CLONE_FILES = 0x400

def hold():
    fd = os.open("/workspace/hidden", os.O_RDWR | os.O_CREAT)
    for _ in range(20):
        os.write(fd, os.urandom(1 << 20))
    os.unlink("/workspace/hidden")
    return fd

def alone():
    assert libc.unshare(CLONE_FILES) == 0  # a table of descriptors that only this thread has
    hold()
    told()
    threading.Event().wait()

def told():
    os.close(os.open("/workspace/held", os.O_CREAT))

if sys.argv[1] == "open":
    hold()
    os.fork()  # twice, and counted once
elif sys.argv[1] == "mapped":
    fd = hold()
    assert libc.mmap(None, 4096, 1, 1, fd, 0) != ctypes.c_void_p(-1).value
    os.close(fd)
else:
    threading.Thread(target=alone).start()
if sys.argv[1] != "thread":
    told()
threading.Event().wait()
"""


@pytest.mark.parametrize("how", ["open", "mapped", "thread"])
def test_removed_files_that_are_held_are_counted(world, driver, how):
    if how == "mapped" and world.user:
        pytest.skip("only root sees what others have mapped")
    box = world.new(driver)
    before = box("usage")["disk"]
    box("put", path="/workspace/hold.py", text=UNLINKED, mode="644")
    box.ok(f"nohup python3 /workspace/hold.py {how} >/workspace/out 2>&1 &")
    wait_until(lambda: box.run("test -e /workspace/held")[0] == 0, 30, "it holds the file")
    assert 20 << 20 <= box("usage")["disk"] - before < 25 << 20, box.ok("cat /workspace/out")

"""What the kernel counts for the whole machine, or by user: a sandbox that takes all it can get leaves another
sandbox, and whoever started them, enough to work."""

import contextlib
import errno
import subprocess
import sys

import pytest

from launcher import NOBODY

# Takes everything as every user it can be, says so, and holds it.
GREEDY = r"""
import ctypes, errno, os, resource, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def inotify():
    fd = libc.inotify_init1(0)
    return fd >= 0 and libc.inotify_add_watch(fd, b"/", 2) >= 0
def terminal():
    try:
        return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY) >= 0
    except OSError:
        return False
def timer():
    event, made = (ctypes.c_int * 16)(), ctypes.c_long()
    event[2], event[3] = signal.SIGRTMIN, 0 # sigev_signo, sigev_notify: a signal
    return libc.timer_create(0, event, ctypes.byref(made)) == 0
takers = {"inotify": inotify, "terminal": terminal, "timer": timer}
what, users = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (min(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
count = 0
pipe = os.pipe()
for user in range(users):
    pid = os.fork()
    if pid == 0:
        if user:
            os.setresuid(user, user, user)
        n = 0
        while n < 120000 and takers[what]():
            n += 1
        os.write(pipe[1], struct.pack("i", n))
        signal.pause()
    count += struct.unpack("i", os.read(pipe[0], 4))[0]
print(f"TOOK {count}", flush=True)
signal.pause()
"""

# Needs a little, and says whether it got that.
MODEST = GREEDY.split("takers =")[0] + r"""
for what, taker in {"inotify": inotify, "terminal": terminal, "timer": timer}.items():
    print(what, all(taker() for i in range(10)))
"""


def python(jails, program, *words, user=None, **plan):
    return jails(argv=["python3", "-c", program, *map(str, words)], hand="/usr/bin/python3", user=user, **plan)


@contextlib.contextmanager
def greedy(jails, what, user):
    """How much it got, while it has it."""
    j = python(jails, GREEDY, what, 1 if user else 12, user=user)
    j.must_start()
    j.wait_log("TOOK")
    yield int(j.log().split("TOOK")[1].split()[0]), j.report["isolation"]


def modest_outside(user):
    who = {"user": user, "group": user, "extra_groups": []} if user else {}
    return subprocess.run([sys.executable, "-c", MODEST], capture_output=True, text=True, timeout=60, cwd="/", **who).stdout


@pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "user"])
@pytest.mark.parametrize("what", ["inotify", "terminal", "timer"])
def test_a_greedy_sandbox(jails, what, user):
    with greedy(jails, what, user) as (count, isolation):
        assert count >= 16
        code, log = python(jails, MODEST, user=user).run()
        assert f"{what} True" in log, f"after {count}: {log}"
        assert f"{what} True" in modest_outside(user), f"after {count}: {modest_outside(user)}"
    assert isolation["inotify_limit"] and isolation["terminals_limit"]
    assert isolation["counted_alone"] == (user is None)


def test_terminals_are_a_share(jails):
    with greedy(jails, "terminal", None) as (count, _):
        assert count == 64


def test_where_it_does_not_hold_it_is_said(jails):
    """Root inside is root outside: whatever is counted is counted together."""
    j = jails("true", mapping="none")
    isolation = j.must_start()["isolation"]
    assert not isolation["inotify_limit"] and not isolation["counted_alone"]
    j.end()


def test_no_asynchronous_io_of_the_kernel(jail):
    """Its events are counted for the whole machine (fs.aio-max-nr)."""
    body = "import ctypes,platform,os; l=ctypes.CDLL(None,use_errno=True); c=ctypes.c_long(); "
    body += "r=l.syscall(206 if platform.machine()=='x86_64' else 0, 60000, ctypes.byref(c)); print(r, ctypes.get_errno())"
    j = jail(argv=["python3", "-c", body], hand="/usr/bin/python3")
    assert j.run() == (0, f"-1 {errno.ENOSYS}\n")

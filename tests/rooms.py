"""Directories of tests directly below /tmp, with short names: the path of a unix socket has 107 bytes.

All of one run are below one directory, which is locked as long as the run lives. A run that was killed leaves its
directory unlocked: the next run removes it. Processes are not asked, runs have process namespaces of their own. A directory
that somebody made by hand under such a name is told by its mode and by what is in it."""

import atexit
import fcntl
import functools
import glob
import itertools
import os
import pathlib
import random
import re
import stat
import string
import subprocess
import sys

ALPHABET = string.digits + string.ascii_lowercase
OF_A_RUN = "/tmp/tn-????"
MODE = 0o711  # other users reach what is theirs; nobody else can lock it
A_ROOM = re.compile("[a-z][0-9a-z]{3}")
counter = itertools.count()


def word(number, length):
    """Of that length always, so that no name is the beginning of another: processes are found by them."""
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    assert number == 0, "too many"
    return digits


def take(path):
    """A descriptor that locks the directory, or None: it is somebody's, or is not there any more."""
    fd = None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            return fd
    except OSError:
        pass
    if fd is not None:
        os.close(fd)
    return None


@functools.cache
def of_this_run():
    while True:
        path = OF_A_RUN.replace("????", word(random.SystemRandom().randrange(len(ALPHABET) ** 4), 4))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        if take(path) is None:  # which stays open until the run has ended
            continue  # another run has swept it already
        os.chmod(path, MODE)
        atexit.register(leave, path, os.getpid())
        return path


def leave(path, pid):
    if os.getpid() == pid:
        try:
            os.rmdir(path)
        except OSError:  # a test that failed has left something: the next run removes it
            pass


def room(kind):
    """A new directory for its user alone; kind is a letter that tells people what it is for."""
    path = pathlib.Path(of_this_run(), kind + word(next(counter), 3))
    assert A_ROOM.fullmatch(path.name), path
    path.mkdir(mode=0o700)
    return path


# --- runs that were killed -----------------------------------------------------------------------


def mounts_below(path):
    """The deepest first."""
    with open("/proc/self/mountinfo") as table:
        points = [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), line.split()[4]) for line in table]
    return sorted((point for point in points if point.startswith(path + "/")), reverse=True)


def remove(path):
    """Also what it has mounted, but nothing beyond a mount: that may be a directory of the machine's."""
    for point in mounts_below(path):
        subprocess.run(["umount", "--lazy", point], capture_output=True, timeout=60)
    left = mounts_below(path)
    if left:
        print(f"{path} of a killed run stays: {left[0]} is mounted", file=sys.stderr)
        return
    subprocess.run(["rm", "-rf", "--one-file-system", path], timeout=600)  # deeper than Python can remove


def is_a_run(path):
    """Whether such a process made it: nothing else is ever removed."""
    found = os.lstat(path)
    return (
        stat.S_ISDIR(found.st_mode)
        and stat.S_IMODE(found.st_mode) == MODE
        and found.st_uid == os.geteuid()
        and all(A_ROOM.fullmatch(name) for name in os.listdir(path))
    )


def sweep():
    """Removes what killed runs of this user have left."""
    for path in glob.glob(OF_A_RUN):
        try:
            fd = take(path) if is_a_run(path) else None
        except FileNotFoundError:
            continue
        if fd is None:
            continue
        try:
            remove(path)
        finally:
            os.close(fd)

"""A census of one state directory: everything on this machine that belongs to sandboxes of it, by kind.

What belongs to it is told by its marks: the path of the directory that holds the state (in environments, command
lines, programs, open files and mounts), a mark that every sandbox has in its environment, and the ids that sandboxes ever had
(Ids watches for them), which name their control groups."""

import ctypes
import ctypes.util
import glob
import os
import pathlib
import re
import select
import sqlite3
import struct
import threading

NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup")
ID = re.compile(r"[a-z0-9]{10}")
IN_CREATE, IN_MOVED_TO = 0x100, 0x80
TCP_LISTEN = "0A"


def read(path):
    """The bytes of a file of /proc; none when it is gone or not ours to read."""
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def links(directory):
    """{name: target} of the symbolic links in a directory of /proc."""
    try:
        return {name: link(f"{directory}/{name}") for name in os.listdir(directory)}
    except OSError:
        return {}


def state_of(pid):
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1]


def command_of(pid):
    return read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()[:200]


def lives(pid):
    return state_of(pid) not in ([], [b"Z"], [b"X"])


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


class Ids(threading.Thread):
    """Collects the name of every sandbox directory that ever appears, however briefly."""

    def __init__(self, directory):
        super().__init__(daemon=True)
        self.seen = set(os.listdir(directory))
        self.lost = False  # the kernel's queue was full
        libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        self.watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self.watch >= 0, os.strerror(ctypes.get_errno())
        mask = IN_CREATE | IN_MOVED_TO
        added = libc.inotify_add_watch(self.watch, os.fsencode(directory), mask)
        assert added >= 0, os.strerror(ctypes.get_errno())
        self.done = threading.Event()
        self.start()

    def take(self):
        try:
            events = os.read(self.watch, 1 << 16)
        except BlockingIOError:
            return
        while events:
            number, _, _, size = struct.unpack_from("iIII", events)
            self.lost = self.lost or number < 0
            self.seen.add(events[16 : 16 + size].split(b"\0")[0].decode())
            events = events[16 + size :]

    def run(self):
        while not self.done.is_set():
            if select.select([self.watch], [], [], 0.05)[0]:
                self.take()

    def stop(self):
        self.done.set()
        self.join()
        self.take()
        os.close(self.watch)
        assert not self.lost, "more sandboxes than the watch could follow"


class Census:
    def __init__(self, base, state, mark, ids=()):
        self.base, self.state, self.mark = str(base), pathlib.Path(state), mark
        self.ids = {name for name in ids if ID.fullmatch(name)}

    # --- processes --------------------------------------------------------------------------------

    def knows_us(self, text):
        return self.base.encode() in text or self.mark.encode() in text

    def in_our_group(self, pid):
        groups = re.findall(rb"/tendon/([a-z0-9]{10})\b", read(f"/proc/{pid}/cgroup"))
        return any(name.decode() in self.ids for name in groups)

    def is_ours(self, pid):
        """Why this process belongs to the state; nothing when it does not."""
        if self.knows_us(read(f"/proc/{pid}/environ")):
            return "environment"
        if self.knows_us(read(f"/proc/{pid}/cmdline")):
            return "arguments"
        if self.in_our_group(pid):
            return "control group"
        places = [link(f"/proc/{pid}/{name}") for name in ("cwd", "root", "exe")]
        if any(self.base in target for target in [*places, *links(f"/proc/{pid}/fd").values()]):
            return "open files"
        return None

    def pids(self):
        """{pid: why} of the living processes, without the ones that count."""
        skip, pid = set(), os.getpid()
        while pid > 0:
            skip.add(pid)
            fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            pid = int(fields[1]) if len(fields) > 1 else 0
        found = {pid: self.is_ours(pid) for pid in all_pids() if pid not in skip}
        return {pid: why for pid, why in found.items() if why and lives(pid)}

    def processes(self):
        return [f"{pid} ({why}): {command_of(pid)}" for pid, why in self.pids().items()]

    def namespaces(self):
        """Other namespaces than our own in which our processes live, or which they hold open."""
        own = set(links("/proc/self/ns").values())
        found = set()
        for pid in self.pids():
            used = {link(f"/proc/{pid}/ns/{kind}") for kind in NAMESPACES}
            used |= {target for target in links(f"/proc/{pid}/fd").values() if target.split(":")[0] in NAMESPACES}
            found |= used - own - {""}
        return sorted(found)

    # --- what the kernel keeps --------------------------------------------------------------------

    def mounts(self):
        """Once per mount namespace."""
        seen, found = set(), []
        for pid in ["self", *all_pids()]:
            namespace = link(f"/proc/{pid}/ns/mnt")
            if namespace in seen:
                continue
            seen.add(namespace)
            lines = read(f"/proc/{pid}/mountinfo").decode(errors="replace").splitlines()
            found += [f"{namespace} {line}" for line in lines if self.base in line or self.mark in line]
        return found

    def cgroups(self):
        found = []
        for folder in glob.glob("/sys/fs/cgroup/**/tendon/", recursive=True):
            found += [folder + name for name in os.listdir(folder) if name in self.ids]
        return found

    def sockets(self):
        """Unix sockets by their path, and what our processes listen on."""
        lines = read("/proc/net/unix").decode(errors="replace").splitlines()
        found = [line for line in lines if self.base in line]
        for pid in self.pids():
            held = {target[8:-1] for target in links(f"/proc/{pid}/fd").values() if target.startswith("socket:[")}
            for table in ("tcp", "tcp6"):
                for line in read(f"/proc/{pid}/net/{table}").decode().splitlines()[1:]:
                    fields = line.split()
                    if fields[3] == TCP_LISTEN and fields[9] in held:
                        found.append(f"{pid} listens on {fields[1]}")
        return found

    # --- what is on disk --------------------------------------------------------------------------

    def directories(self):
        """Everything below the state's directory but the store, its lock and empty folders."""
        found = []
        for name in sorted(os.listdir(self.state)) if self.state.exists() else []:
            path = self.state / name
            if path.is_dir():
                found += [str(path / entry) for entry in sorted(os.listdir(path))]
            elif name not in ("lock", "use") and not name.startswith("tendon.db"):
                found.append(str(path))
        return found

    def rows(self):
        path = self.state / "tendon.db"
        if not path.exists():
            return []
        db = sqlite3.connect(path, timeout=20)
        try:
            found = [f"sandbox {row}" for row in db.execute("SELECT id, name, runtime, status, pool FROM sandbox")]
            return found + [f"snapshot {row}" for row in db.execute("SELECT sandbox, name FROM snapshot")]
        finally:
            db.close()

    # --- all of it --------------------------------------------------------------------------------

    kinds = ("processes", "namespaces", "mounts", "cgroups", "sockets", "directories", "rows")

    def take(self):
        """{kind: what is there}, without the kinds of which there is nothing."""
        counted = {kind: getattr(self, kind)() for kind in self.kinds}
        return {kind: found for kind, found in counted.items() if found}

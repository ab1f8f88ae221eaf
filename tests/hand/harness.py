"""Starts the built tendon-hand, and proves at its end that nothing of it is left.

The binary is looked for in $TN_BUILD (default: build/ of the project)."""

import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
import uuid

import pytest

from client import Client, done
from processes import stat_of
from rooms import room

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANITIZER = re.compile(
    rb"(ERROR: (Address|Leak|Memory)Sanitizer|WARNING: ThreadSanitizer|runtime "
    rb"error:|UndefinedBehaviorSanitizer)"
)
# What a slow, shared machine may add to a time limit the program promises.
SLACK = float(os.environ.get("TN_TEST_SLACK", "2"))


def find_binary():
    build = pathlib.Path(os.environ.get("TN_BUILD", ROOT / "build"))
    if not build.is_absolute():
        build = ROOT / build
    for path in (build / "tendon-hand", build / "src/hand/tendon-hand"):
        if path.is_file():
            return str(path)
    pytest.exit(f"no tendon-hand in {build}: build it first or set TN_BUILD", 2)


def sanitized():
    """Whether the binary carries a sanitizer, whose own memory must not be held against it."""
    with open(find_binary(), "rb") as f:
        program = f.read()
        return b"__asan_init" in program or b"__tsan_init" in program


def memory_limit(kilobytes):
    """A limit on growth in kB; a sanitizer keeps up to 256 MB of freed memory for itself."""
    return kilobytes + (300 << 10 if sanitized() else 0)


def wait_until(condition, seconds=5.0, what="condition"):
    """Polls until the condition holds and returns its value; fails after the given time."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def census(mark, directory=None):
    """{pid: command} of processes that carry the mark or work below the directory."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        base = f"/proc/{entry}"
        try:
            with open(f"{base}/environ", "rb") as f:
                hit = mark.encode() in f.read()
            if not hit and directory:
                hit = os.readlink(f"{base}/cwd").startswith(str(directory))
            if not hit:
                continue
            if stat_of(entry)[0] == "Z":
                continue
            with open(f"{base}/cmdline", "rb") as f:
                found[int(entry)] = f.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return found


# A shell command that leaves an orphan in a session of its own without an environment, and prints
# its number.
STRAY = "setsid env -i sleep 600 </dev/null >/dev/null 2>&1 & echo $!"


def alive(pid):
    return os.path.exists(f"/proc/{pid}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port):
    """Local addresses (hex) of TCP listeners on a port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as f:
            for line in f.readlines()[1:]:
                fields = line.split()
                address, number = fields[1].split(":")
                if fields[3] == "0A" and int(number, 16) == port:
                    found.add(address)
    return found


def still_works(client, cwd=None):
    obs = client.run("echo works; echo err >&2", blocking=True)
    assert (obs.exit, obs.content, obs.suffix, obs.prefix) == (0, "works\nerr", done(0), ""), obs
    if cwd is not None:
        assert obs.cwd == str(cwd)
    assert client.run("(exit 9)").exit == 9


class Hand:
    """One running tendon-hand with directories of its own.

    listen: "unix" (a socket in its base directory), "fd" (an inherited TCP listener), "port" (the
    classic positional argument), or None (no listening option at all: args must bring it)."""

    def __init__(
        self,
        base,
        listen="unix",
        args=(),
        env=None,
        username=None,
        user_id=None,
        prefix=(),
        tmp=None,
        workspace=None,
        wait=True,
        browser=False,
        stdin=subprocess.DEVNULL,
    ):
        self.base = pathlib.Path(base)
        self.mark = f"TEST_MARK={uuid.uuid4().hex}"
        self.workspace = pathlib.Path(workspace or self.base / "ws")
        self.tmp = pathlib.Path(tmp or self.base / "tmp")
        self.home = self.base / "home"
        for directory in (self.tmp, self.home, self.workspace):
            directory.mkdir(exist_ok=True)
        me = pwd.getpwuid(os.getuid())
        name = username or me.pw_name
        self.stderr_path = self.base / f"stderr-{uuid.uuid4().hex[:8]}"
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.home),
            "USER": name if os.getuid() else "root",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.tmp),
            "NO_CHANGE_TIMEOUT_SECONDS": "1",
            "SU_TO_USER": "false",
            **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")},
            **(env or {}),
        }
        self.env = {k: v for k, v in self.env.items() if v is not None}
        key, value = self.mark.split("=")
        self.env[key] = value

        pass_fds, listener = (), None
        command = [*prefix, find_binary()]
        if listen == "unix":
            self.address = str(self.base / f"s{uuid.uuid4().hex[:6]}")
            command += ["--listen", f"unix:{self.address}"]
        elif listen == "fd":
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            listener.listen(64)
            self.address = listener.getsockname()
            command += ["--listen", f"fd:{listener.fileno()}"]
            pass_fds = (listener.fileno(),)
        elif listen == "port":
            self.address = ("127.0.0.1", free_port())
            command += [str(self.address[1])]
        else:
            self.address = None
        command += ["--working-dir", str(self.workspace), "--username", name]
        command += ["--user-id", str(me.pw_uid if user_id is None else user_id)]
        command += [] if browser else ["--no-enable-browser"]
        command += [str(a) for a in args]
        self.command = command
        self.client = Client(self.address)
        self.stopped = False
        with open(self.stderr_path, "wb") as err:
            self.process = subprocess.Popen(
                command,
                env=self.env,
                stdin=stdin,
                stdout=err,
                stderr=err,
                pass_fds=pass_fds,
                cwd=self.base,
            )
        if listener:
            listener.close()
        if wait:
            self.wait_ready()

    # --- life -----------------------------------------------------------------------------------

    @property
    def stderr(self):
        return self.stderr_path.read_bytes().decode(errors="replace")

    def alive(self):
        """Status of GET /alive, or None when nobody answers."""
        try:
            return self.client.get("/alive", timeout=5).status
        except OSError:
            return None

    def wait_ready(self, seconds=20):
        def ready():
            code = self.process.poll()
            assert code is None, f"exited with {code} before it was ready:\n{self.stderr}"
            return self.alive() == 200

        wait_until(ready, seconds, "GET /alive 200")

    @property
    def pid(self):
        """The hand itself, also behind a prefix such as unshare."""
        name = os.path.basename(find_binary())
        for pid, command in census(self.mark).items():
            try:
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name:
                    if int(stat_of(pid)[1]) in (os.getpid(), self.process.pid):
                        return pid
            except OSError:
                continue
        return self.process.pid

    def status(self, field):
        """A field of /proc/PID/status, such as VmRSS (in kB)."""
        with open(f"/proc/{self.pid}/status") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        raise KeyError(field)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def left(self):
        return census(self.mark, self.base if os.path.isabs(self.base) else None)

    def kill9(self):
        self.process.kill()
        self.process.wait(10)
        self.stopped = True

    def stop(self, seconds=8):
        """SIGTERM, and everything the program owes us at its end."""
        if self.stopped:
            return
        self.stopped = True
        early = self.process.poll()
        problems = []
        if early is not None:
            problems.append(f"had already ended with {early}")
        else:
            os.kill(self.pid, signal.SIGTERM)
            try:
                code = self.process.wait(seconds)
                if code not in (0, 143, -signal.SIGTERM):
                    problems.append(f"exit status {code} after SIGTERM")
            except subprocess.TimeoutExpired:
                problems.append(f"still running {seconds} s after SIGTERM")
                self.process.kill()
                self.process.wait(10)
        problems += self.leftovers()
        assert not problems, "\n".join(problems + ["--- stderr", self.stderr[-6000:]])

    def leftovers(self):
        """What a dead hand left behind, as sentences.  Ends stray processes it finds."""
        problems = []
        deadline = time.monotonic() + 2
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.01)
        for pid, command in self.left().items():
            problems.append(f"process {pid} left: {command}")
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        files = sorted(str(p.relative_to(self.tmp)) for p in self.tmp.rglob("*"))
        if files:
            problems.append(f"left in TMPDIR: {files}")
        if isinstance(self.address, str) and os.path.exists(self.address):
            problems.append(f"socket left: {self.address}")
        if SANITIZER.search(self.stderr_path.read_bytes()):
            problems.append("sanitizer report")
        return problems


class Factory:
    def __init__(self):
        self.hands = []
        self.bases = []

    def base(self):
        path = str(room("h"))
        os.chmod(path, 0o755)
        self.bases.append(path)
        return path

    def __call__(self, **options):
        hand = None
        try:
            base = options.pop("base", None) or self.base()
            hand = Hand.__new__(Hand)
            self.hands.append(hand)
            hand.__init__(base, **options)
            return hand
        except BaseException:
            if hand in self.hands and not hasattr(hand, "process"):
                self.hands.remove(hand)
            raise

    def finish(self):
        problems = []
        for hand in reversed(self.hands):
            try:
                hand.stop()
            except AssertionError as error:
                problems.append(str(error))
        for base in self.bases:
            subprocess.run(["rm", "-rf", base])  # deeper than Python can remove
        assert not problems, "\n".join(problems)


def needs_root():
    return pytest.mark.skipif(
        os.getuid() != 0, reason="needs root: changes users, owners or namespaces"
    )


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")

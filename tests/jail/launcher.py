"""Starts tendon-jail with plans of the test's own, as root and as an ordinary user.

Any program can be PID 1 of a jail; most tests use the host's shell with a script, and read what it
wrote to the log."""

import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import termios
import time
import uuid

from processes import stat_of
from rooms import room
from trees import BUILD, program

NOBODY = 65534
HOST_PATHS = ["/bin", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr"]
ETC_HIDDEN = ["shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh/ssh_host_*", "ssl/private", "machine-id"]
ENV = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"]
SECONDS = 20


def wait_until(condition, what, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.005)
    return value


def start_time(pid):
    """In clock ticks after boot, as in /proc/PID/stat."""
    return int(stat_of(pid)[19])


def is_running(pid):
    try:
        return stat_of(pid)[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def cgroups_of(jail_id):
    """Every control group directory named after the sandbox."""
    top = pathlib.Path("/sys/fs/cgroup")
    return [str(path) for place in (".", "*") for path in top.glob(f"{place}/tendon/{jail_id}")]


class Jail:
    """One jail. `plan` overrides the plan; script is what the shell in it runs."""

    def __init__(self, script=None, user=None, argv=None, fds=(), wrap=(), **plan):
        self.id = uuid.uuid4().hex[:10]
        self.user = user
        self.base = room("j")
        self.directory = self.base / self.id
        self.directory.mkdir(mode=0o700)
        self.program = self.base / "tendon-jail"
        shutil.copy(program(BUILD, "tendon-jail"), self.program)
        self.fds = list(fds)
        self.wrap = list(wrap)
        self.plan = {
            "id": self.id,
            "directory": str(self.directory),
            "storage": str(self.directory / "storage"),
            "host_paths": HOST_PATHS,
            "etc_hidden": ETC_HIDDEN,
            "hostname": "jailed",
            "hand": "/bin/sh",
            "argv": argv or ["sh", "-c", script or "true"],
            "env": ENV,
            "fds": self.fds,
            "log": str(self.directory / "log"),
            **plan,
        }
        self.plan = {key: value for key, value in self.plan.items() if value is not None}
        self.door = None
        if "runsc" in plan:  # which wants a socket that the keeper serves
            self.door = socket.socket(socket.AF_UNIX)
            self.door.bind(str(self.base / "door"))
            self.door.listen(8)
            self.fds.append(self.door.fileno())
            self.plan |= {"runsc": str(plan["runsc"]), "platform": "systrap", "fds": [], "socket_fd": self.door.fileno()}
        self.terminal = None  # of the launcher
        self.process = None
        self.report = None
        for path in (self.base, self.directory):
            os.chown(path, user or 0, user or 0)
        self.base.chmod(0o711)

    def launch(self):
        """Starts the launcher; where its report comes from."""
        plan_read, plan_write = os.pipe()
        report_read, report_write = os.pipe()
        who = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        self.process = subprocess.Popen(
            [*self.wrap, self.program, str(plan_read), str(report_write)],
            pass_fds=[plan_read, report_write, *self.fds],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=self.take_terminal if self.terminal else None,
            cwd="/",
            **who,
        )
        os.close(plan_read)
        os.close(report_write)
        if self.door:
            self.door.close()
        with os.fdopen(plan_write, "w") as f:
            json.dump(self.plan, f)
        return report_read

    def start(self):
        """The report of the launcher."""
        with os.fdopen(self.launch()) as f:
            assert select.select([f], [], [], SECONDS)[0], "the launcher does not report"
            self.report = json.loads(f.read())
        return self.report

    def take_terminal(self):
        fcntl.ioctl(self.terminal, termios.TIOCSCTTY, 0)

    def must_start(self):
        report = self.start()
        assert "error" not in report, report
        return report

    def end(self, seconds=SECONDS):
        """What the keeper wrote when the jail had ended."""
        self.process.wait(seconds)
        return json.loads((self.directory / "end.json").read_text())

    def run(self, seconds=SECONDS):
        """Start to end: (exit code of PID 1, what it wrote)."""
        self.must_start()
        end = self.end(seconds)
        return end["status"] if end["status"] is not None else -end["signal"], self.log()

    def log(self):
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_log(self, text):
        wait_until(lambda: text in self.log(), f"{text!r} in the log")

    def kill_keeper(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        """Ends it, and says what is left of it: nothing, it is hoped."""
        if self.process:
            if self.process.poll() is None:
                if self.report and "pid" in self.report:
                    with contextlib.suppress(ProcessLookupError):  # ended just now
                        os.kill(self.report["pid"], signal.SIGKILL)
                self.process.wait(SECONDS)
        if self.door:
            self.door.close()
        left = cgroups_of(self.id)
        subprocess.run(["rm", "-rf", str(self.base)], check=True)
        assert not left, f"control groups left behind: {left}"

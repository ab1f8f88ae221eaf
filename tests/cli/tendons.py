"""The tendon program as tests run it, also on a terminal."""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import termios
import time


# What new and run say first with the runtime local; tests of anything else do not want to see it.
WARNING = "tendon: warning: local isolates nothing: commands run on this machine as you\n"


def eventually(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return value


def processes_with(mark):
    """The processes that have these bytes in their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


class Tendon:
    """Runs the program, so that leftovers can be counted."""

    def __init__(self, program, base, runtime):
        self.program = program
        self.runtime = runtime
        self.tmp = base / "tmp"
        self.state = base / "state"
        self.home = base / "home"
        self.tmp.mkdir()
        self.home.mkdir()
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TENDON_", "XDG_", "DOCKER_"))},
            "TMPDIR": str(self.tmp),
            "HOME": str(self.home),
            "TENDON_CONFIG": "/dev/null",
            "TENDON_STATE": str(self.state),
            "TENDON_RUNTIME": runtime,
            "TENDON_SECURITY_SECRET_KEY": str(base / "secret.key"),
        }

    def __call__(self, *args, env=None, stdin=None, timeout=60, **kwargs):
        source = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        result = subprocess.run(
            [self.program, *args],
            env={**self.env, **(env or {})},
            capture_output=True,
            text=not isinstance(stdin, bytes),
            timeout=timeout,
            **source,
            **kwargs,
        )
        self.warned = result.stderr.startswith(WARNING if isinstance(result.stderr, str) else WARNING.encode())
        if self.warned:
            result.stderr = result.stderr[len(WARNING) :]
        return result

    def ok(self, *args, **kwargs):
        """Runs it, expects success, returns what it printed."""
        result = self(*args, **kwargs)
        assert (result.returncode, result.stderr) == (0, type(result.stderr)()), (args, result)
        return result.stdout

    def json(self, *args, **kwargs):
        return json.loads(self.ok("--json", *args, **kwargs))

    def fails(self, status, *args, **kwargs):
        """Runs it, expects that exit status and no result, returns the complaint."""
        result = self(*args, **kwargs)
        assert (result.returncode, result.stdout) == (status, ""), (args, result)
        assert result.stderr.startswith("tendon: ")
        return result.stderr[len("tendon: ") :].rstrip("\n")

    def start(self, *args, stdin=subprocess.DEVNULL, **kwargs):
        quiet = ["--quiet"] if "run" in args else []  # no warning of the runtime local
        return subprocess.Popen(
            [self.program, *quiet, *args],
            env=self.env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **kwargs,
        )

    def leftovers(self):
        """Sandboxes on disk and files in the temporary directory."""
        sandboxes = sorted(path.name for path in (self.state / "sandbox").glob("*"))
        return sandboxes + sorted(path.name for path in self.tmp.iterdir())


def jail_problem(tendon):
    """Why there can be no jail here, or None."""
    result = tendon("doctor", "--runtime", "jail")
    return None if result.returncode == 0 else result.stdout + result.stderr


class Screen:
    """A program on a terminal of its own."""

    def __init__(self, tendon, *args, columns=80, rows=24, env=None):
        self.ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [tendon.program, *args],
            env={**tendon.env, "TERM": "xterm", **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.theirs = theirs
        self.text = ""
        self.raw = b""

    def resize(self, columns, rows):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.ours, text.encode())

    def _read(self, seconds):
        if not select.select([self.ours], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self.ours, 65536)
        except OSError:
            return False
        self.raw += piece
        self.text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[>=]", "", self.raw.decode(errors="replace"))
        return bool(piece)

    def wait_for(self, pattern, seconds=30):
        """Reads until the pattern is on the screen, and forgets everything up to its end."""
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.text)):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self.text!r}"
            self._read(left)
        self.text = self.text[match.end() :]
        self.raw = self.text.encode()
        return match

    def wait(self, seconds=30):
        """Reads to the end; the exit status."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end: {self.text!r}"
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.returncode

    def is_ordinary(self):
        """The terminal is as it was before."""
        return termios.tcgetattr(self.theirs) == self.before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)

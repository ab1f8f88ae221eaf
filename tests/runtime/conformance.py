"""Drives backends through the program backend-drive (tests/unit/runtime/backend-drive.c), one JSON object per
line, and knows in what they differ. Tests see a World: one state directory and the drivers that use it."""

import json
import os
import pathlib
import queue
import random
import select
import shutil
import signal
import string
import subprocess
import threading
import time

from processes import stat_of
from rooms import room
from trees import BUILD, ROOT, program

ABILITIES = ("pause", "stop", "suspend", "snapshot", "limit", "isolate", "image", "network_none", "gvisor")
PATIENCE = 60  # seconds until a driver that does not answer is a failure


def words_of(bits):
    return {word for i, word in enumerate(ABILITIES) if bits & 1 << i}


def wait_until(condition, seconds=20.0, what="condition"):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def marked(text, environment=True):
    """{pid: command line} of living processes whose environment (or command line) holds the text."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        base = pathlib.Path("/proc", entry)
        try:
            command = (base / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = (base / "environ").read_bytes() if environment else command.encode()
            state = stat_of(entry)[0]
        except OSError:
            continue
        if text.encode() in where and state not in "ZX":
            found[int(entry)] = command
    return found


def kill_wholly(pid):
    """Ends a process, and returns when its files are closed: it loses its command line before that."""
    watch = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(watch, signal.SIGKILL)
        assert select.select([watch], [], [], 30)[0], f"{pid} does not end"
    finally:
        os.close(watch)


class Refusal(AssertionError):
    """The driver answered with an error."""

    def __init__(self, request, answer):
        super().__init__(f"{request}: {answer.get('code')}: {answer.get('error')}")
        self.code, self.text = answer.get("code"), answer.get("error")


class Driver:
    """One process that uses backends."""

    def __init__(self, world):
        self.world = world
        self.progress, self.statuses = [], []
        self.log = open(world.base / "driver.log", "ab")
        command = [world.driver, world.state, world.hand, BUILD, world.config]
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=world.env,
            cwd=world.cwd,
            text=True,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        for name, value in world.settings.items():
            self("set", name=name, value=value)
        self.abilities = set()

    def open(self, runtime):
        self.abilities = words_of(self("open", runtime=runtime)["abilities"])
        return self

    def abilities_of(self, runtime):
        """Without opening it: no engine is needed."""
        return words_of(self("find", runtime=runtime)["abilities"])

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def ask(self, verb, **members):
        """The answer, whatever it is."""
        self.process.stdin.write(json.dumps({"do": verb, **members}) + "\n")
        self.process.stdin.flush()
        return self.answer(members.get("timeout", 60) + PATIENCE)

    def answer(self, timeout):
        """To what was asked; what is told meanwhile is kept."""
        while True:
            answer = self.lines.get(timeout=timeout)
            assert answer is not None, f"the driver ended: {self.words()}"
            if "ok" in answer:
                return answer
            if "progress" in answer:
                self.progress.append(answer["progress"])
            else:
                self.statuses.append(tuple(answer["status"]))

    def __call__(self, verb, **members):
        answer = self.ask(verb, **members)
        if not answer["ok"]:
            raise Refusal({"do": verb, **members}, answer)
        return answer

    def words(self):
        return (self.world.base / "driver.log").read_text(errors="replace")[-3000:]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def finish(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        code = self.process.returncode
        self.log.close()
        assert code in (0, -9), f"the driver ended with {code}: {self.words()}"


class Sandbox:
    """One sandbox as a driver sees it; another driver may take it over."""

    def __init__(self, driver, name):
        self.driver, self.id = driver, name

    def __call__(self, verb, **members):
        return self.driver(verb, id=self.id, **members)

    def seen_by(self, driver):
        return Sandbox(driver, self.id)

    def create(self):
        return self("create")

    def status(self):
        return self("inspect")["status"]

    def drive(self, goal, **members):
        return self("drive", goal=goal, **members)["status"]

    def run(self, command, **args):
        """(exit code, output) of a command in the main shell."""
        observation = self("run", command=command, **args)["observation"]
        assert observation["observation"] == "run", observation
        return observation["extras"]["metadata"]["exit_code"], observation["content"]

    def ok(self, command, **args):
        code, output = self.run(command, **args)
        assert code == 0, (command, code, output)
        return output

    def act(self, name, timeout=20, **args):
        action = {"action": name, "args": args, "timeout": timeout}
        return self("action", action=action)["observation"]

    def logs(self, **members):
        return self("logs", **members)["output"]


class World:
    """A state directory, the environment of everything in it, and what the backend needs in a spec."""

    sizes = ()  # limits that a backend takes which has not all of them

    def __init__(self, runtime):
        self.runtime = runtime
        self.base = room("r")
        self.state, self.cwd, self.home = (self.base / name for name in ("s", "cwd", "home"))
        for directory in (self.cwd, self.home, self.base / "tmp"):
            directory.mkdir()
        self.config = ""
        self.driver = program(BUILD, "tests/unit/runtime/backend-drive")
        self.hand = program(BUILD, "tendon-hand")
        self.settings = {}
        self.spec = {}
        self.env = {
            "PATH": f"{ROOT}/examples:{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.base / "tmp"),
            **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")},
        }
        self.drivers, self.count = [], 0
        # What sandboxes make outside their directory (cgroups, containers) is named by their ids.
        self.mark = "t" + "".join(random.choices(string.ascii_lowercase, k=5))

    def open(self, runtime=None):
        self.drivers.append(Driver(self))
        return self.drivers[-1].open(runtime or self.runtime)

    def new(self, driver, own=True, create=True, **spec):
        self.count += 1
        sandbox = Sandbox(driver, f"{self.mark}{self.count:04d}")
        sandbox("subject", spec={**self.spec, **spec}, own=own)
        if create:
            sandbox.create()
        return sandbox

    def left_over(self):
        """Processes that know of this world."""
        return marked(str(self.base))

    def finish(self):
        """Removes every sandbox, and proves that nothing is left of any."""
        broken = []
        for driver in self.drivers:
            try:
                driver.finish()
            except AssertionError as reason:
                broken.append(str(reason))
        self.drivers.clear()
        last = self.open()
        for record in (self.state / "drive").glob("*.json"):
            Sandbox(last, record.stem).drive("gone")
        listed = last("list")["ids"]
        last.finish()
        left = [str(path) for path in (self.state / "sandbox").iterdir()]
        try:
            wait_until(lambda: not self.left_over(), 10, "no process is left")
            processes = {}
        except AssertionError:
            processes = self.left_over()
        for pid in processes:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.base, ignore_errors=True)
        assert not broken, "\n".join(broken)
        assert not listed, f"the backend still finds {listed}"
        assert not left, f"directories are left: {left}"
        assert not processes, f"processes are left: {processes}"

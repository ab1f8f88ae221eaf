"""A storm: random verbs on shared sandboxes by several tendon processes at once, some of which, and some of whose
keepers and hands, are killed in the middle of it."""

import collections
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
import uuid

from census import Census, Ids, all_pids, command_of, links, lives, read
from rooms import room
from trees import ROOT

PATIENCE = 150  # seconds; a call that takes longer hangs: two warm ones are given 120 by tendon itself
SETTLE = 20  # seconds until whatever was told to end has ended
INTERNAL = 70  # exit status of an error that should never be

LINES = ("true", "echo hello > greeting; cat greeting", "sleep 0.2", "(sleep 30 &) ; true", "mkdir -p d; touch d/a d/b")


def describe(pid):
    """What a process that hangs is at, and what hangs below it."""
    words = []
    for one in [pid, *(p for p in all_pids() if f"PPid:\t{pid}\n".encode() in read(f"/proc/{p}/status"))]:
        words.append(f"process {one}: {command_of(one)}")
        words += [f"{fd} -> {target}" for fd, target in links(f"/proc/{one}/fd").items()]
        for task in os.listdir(f"/proc/{one}/task") if os.path.exists(f"/proc/{one}/task") else []:
            files = [f"/proc/{one}/task/{task}/{name}" for name in ("stat", "wchan", "syscall", "stack")]
            words += [read(file).decode(errors="replace") for file in files]
    return "\n".join(words)


class Hang(AssertionError):
    pass


class Place:
    """A state directory of its own, and the tendon that uses it."""

    def __init__(self, program, env=(), before=()):
        self.base = room("s")
        self.state, self.home, self.tmp = (self.base / name for name in ("state", "home", "tmp"))
        self.home.mkdir()
        self.tmp.mkdir()
        self.mark = f"STORM_{uuid.uuid4().hex[:12]}"
        self.program, self.before = str(self.copy_programs(program)), list(before)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENDON_", "XDG_", "DOCKER_"))}
        self.env = {
            **kept,
            "PATH": f"{ROOT}/examples:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "TENDON_CONFIG": "/dev/null",
            "TENDON_STATE": str(self.state),
            # Whoever is killed while it looks for leaks complains about that.
            "ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"])),
            **dict(env),
        }

    def copy_programs(self, program):
        """Its own, by which the census tells processes that know no sandbox: launchers in waiting, nurseries."""
        programs = self.base / "bin"
        programs.mkdir()
        for name in ("tendon", "tendon-hand", "tendon-jail", "tendon-gate"):
            shutil.copy(program.parent / name, programs)
        return programs / program.name

    def start(self, *words):
        return subprocess.Popen(
            [*self.before, self.program, *map(str, words)],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.home,
        )

    def finish(self, process, words):
        """(exit status, output, complaint) of a process, which may not take for ever."""
        try:
            output, complaint = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            told = describe(process.pid)
            process.kill()
            said = b"".join(process.communicate()).decode(errors="replace")[-3000:]
            raise Hang(f"tendon {' '.join(map(str, words))} hangs:\n{told}\nIt said: {said}") from None
        return process.returncode, output.decode(errors="replace"), complaint.decode(errors="replace")

    def __call__(self, *words):
        return self.finish(self.start(*words), words)

    def ok(self, *words):
        code, output, complaint = self(*words)
        assert code == 0, f"tendon {words}: {code}: {complaint}"
        return output.strip()

    def remove(self):
        shutil.rmtree(self.base, ignore_errors=True)


class Storm:
    """`operations` random verbs by `workers` threads; afterwards everything is to be gone.

    kinds: {backend: (words that all of its sandboxes are made with, words that some are)}
    layered: the backends with snapshots
    kill: the part of them that is killed, at most `longest` seconds after it was started"""

    def __init__(self, place, kinds, layered, seed, operations, workers=4, kill=0.3, longest=0.3):
        self.place, self.kinds, self.seed = place, kinds, seed
        self.operations, self.workers, self.kill, self.longest = operations, workers, kill, longest
        # Fewer of those without layers, to which less can be done.
        self.names = [f"{kind}{i}" for kind in kinds for i in range(1 if layered and kind not in layered else 3)]
        self.layered = [name for name in self.names if name[:-1] in layered]
        self.weights = {verb: weight for verb, weight in self.verbs.items() if layered or verb not in self.of_layers}
        self.tally = collections.Counter()
        self.problems = []
        self.calls = []
        self.lock = threading.Lock()
        place.ok("gc")  # makes the state directory
        self.ids = Ids(place.state / "sandbox")
        self.file = place.home / "file"
        self.file.write_bytes(b"0123456789abcdef" * 4096)

    # --- verbs: each returns the words of a call ----------------------------------------------------

    def spec(self, r, name=None):
        """Words about a new sandbox, with that name or none."""
        kind = (name or r.choice(self.names))[:-1]
        must, may = self.kinds[kind]
        options = [word for word in may if r.random() < 0.25]
        named = ["--name", name] if name else []
        return ["--runtime", kind, "--env", f"{self.place.mark}=1", *must, *options, *named]

    def new(self, r):
        lease = ["--lease", "1"] if r.random() < 0.15 else []
        return ["new", *self.spec(r, r.choice(self.names)), *lease]

    def warm(self, r):
        return ["new", "--warm", r.randint(1, 2), "--lease", "30", *self.spec(r)]

    def run(self, r):
        if r.random() < 0.2:
            words = ["--keep", *self.spec(r, r.choice(self.names))]
        else:
            words = self.spec(r)
        return ["run", *words, "--timeout", "10", r.choice(LINES)]

    def exec(self, r):
        return ["exec", "--timeout", "10", r.choice(self.names), r.choice(LINES)]

    def plain(verb):  # noqa: N805
        return lambda self, r: [verb, r.choice(self.names)]

    pause, resume, stop, rm, logs, inspect = map(plain, ("pause", "resume", "stop", "rm", "logs", "inspect"))

    def snapshot(self, r):
        forget = ["--rm"] if r.random() < 0.2 else []
        return ["snapshot", *forget, r.choice(self.layered), r.choice("ab")]

    def rollback(self, r):
        return ["rollback", r.choice(self.layered), r.choice("ab")]

    def fork(self, r):
        source = ["--from", r.choice("ab")] if r.random() < 0.3 else []
        name = ["--name", r.choice(self.layered)] if r.random() < 0.3 else []
        return ["fork", *source, *name, r.choice(self.layered)]

    def cp(self, r):
        inside = f"{r.choice(self.names)}:file"
        return r.choice([["cp", self.file, inside], ["cp", inside, self.place.tmp / f"copy{r.randint(0, 9)}"]])

    def gc(self, r):
        return ["gc"]

    def ls(self, r):
        return ["ls", "--all", "--refresh", r.choice(["auto", "yes", "no"])]

    verbs = {"new": 8, "run": 4, "exec": 4, "pause": 2, "resume": 5, "stop": 2, "rm": 2, "snapshot": 4, "rollback": 2,
             "fork": 3, "cp": 4, "gc": 2, "ls": 1, "warm": 1, "logs": 1, "inspect": 1}  # fmt: skip

    of_layers = ("snapshot", "rollback", "fork")

    # --- what happens to them -----------------------------------------------------------------------

    def note(self, verb, outcome):
        with self.lock:
            self.tally[verb, outcome] += 1

    def judge(self, verb, words, code, complaint):
        """Refusals are fine in a storm; to break is not."""
        self.note(verb, "ok" if code == 0 else f"failed with {code}")
        if code < 0 or code == INTERNAL or "Sanitizer" in complaint:
            self.problems.append(f"tendon {words} ended with {code}: {complaint[-3000:]}")

    def one(self, r):
        (verb,) = r.choices(list(self.weights), self.weights.values())
        words = getattr(self, verb)(r)
        doomed = r.random() < self.kill
        delay = r.random() ** 2 * self.longest
        begin = time.monotonic()
        process = self.place.start(*words)
        if not doomed:
            code, _, complaint = self.place.finish(process, words)
            self.calls.append((time.monotonic() - begin, code, words, complaint))
            self.judge(verb, words, code, complaint)
            return
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
        self.note(verb, "killed" if process.wait() == -signal.SIGKILL else "ended before it could be killed")
        process.stdout.close()
        process.stderr.close()

    def strike(self, r):
        """Kills a keeper or a hand or something below one."""
        pids = [pid for pid in Census(self.place.base, self.place.state, self.place.mark, self.ids.seen).pids()
                if os.path.basename(command_of(pid).split(" ")[0]) != "tendon"]  # fmt: skip
        if pids:
            pid = r.choice(sorted(pids))
            name = read(f"/proc/{pid}/comm").decode(errors="replace").strip()
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.note("strike", name)

    def work(self, number):
        r = random.Random(f"{self.seed} {number}")
        try:
            for i in range(self.operations // self.workers):
                self.one(r)
                if number == 0 and i % 8 == 7:
                    self.strike(r)
                if self.problems:
                    return
        except Exception as reason:  # it has to reach the test's own thread
            self.problems.append(f"{type(reason).__name__}: {reason}")

    def rage(self):
        begin = time.monotonic()
        threads = [threading.Thread(target=self.work, args=(i,)) for i in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"seed {self.seed}: {self.operations} calls in {time.monotonic() - begin:.1f} s")
        for seconds, code, words, complaint in sorted(self.calls, reverse=True)[:5]:
            print(f"  {seconds:.1f} s: tendon {' '.join(map(str, words))}: {code} {complaint.strip()}")
        for (verb, outcome), count in sorted(self.tally.items()):
            print(f"  {verb:9} {outcome:32} {count}")

    # --- afterwards -----------------------------------------------------------------------------------

    def census(self):
        return Census(self.place.base, self.place.state, self.place.mark, self.ids.seen)

    def calm(self):
        """Reclaims and removes what is left; what is there then, by kind."""
        for words in (["gc"], ["rm", "--all"], ["gc"]):
            code, _, complaint = self.place(*words)
            if code:
                self.problems.append(f"tendon {words}: {code}: {complaint}")
        deadline = time.monotonic() + SETTLE
        while (left := self.census().take()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.ids.stop()
        return left

    def succeeded(self):
        return {verb for verb, outcome in self.tally if outcome == "ok"}


def clear(place, ids):
    """Ends by force what a failed test left, so that it harms no other."""
    census = Census(place.base, place.state, place.mark, ids)
    pids = list(census.pids())
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    deadline = time.monotonic() + SETTLE
    while any(map(lives, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    for group in census.cgroups():
        os.rmdir(group)
    place.remove()


def report(left):
    return json.dumps(left, indent=1)

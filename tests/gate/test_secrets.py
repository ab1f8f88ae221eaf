"""A secret through a whole life of a sandbox: its gate puts it in where it belongs, and it is nowhere else.

What is looked through at the end: everything that tendon keeps on disk, what every command of it printed, environments and
command lines of all processes, and the memory of those in the sandbox."""

import base64
import json
import pathlib
import secrets
import time
import urllib.parse

import pytest
from gate_world import NOBODY

WAIT = 60
ASK = """
import json, os, ssl, urllib.request
def ask(host, value):
    request = urllib.request.Request(f"https://{host}/echo", headers={"Authorization": value})
    # What is passed through untouched has a certificate of the world, which nothing inside knows.
    context = ssl.create_default_context() if host == "api.test" else ssl._create_unverified_context()
    return json.loads(urllib.request.urlopen(request, timeout=30, context=context).read())["authorization"]
"""

PLANT = """
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3): os.dup2(null, fd)
    os.execvpe("sleep", ["sleep", "300"], dict(os.environ, X={!r}))
"""


def forms(value):
    raw = value.encode()
    encoded = [base64.b64encode(b"x" * pad + raw)[4:-4] for pad in range(3)]
    return [raw, raw.hex().encode(), urllib.parse.quote(value, safe="").encode(), *encoded]


def holds(data, value):
    return any(form in data for form in forms(value))


def files_with(value, folder):
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and holds(path.read_bytes(), value):
            found.append(str(path))
    return found


def processes():
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            yield entry


def lines_with(value):
    """Processes whose environment or command line has it."""
    found = []
    for entry in processes():
        for name in ("environ", "cmdline"):
            try:
                if holds((entry / name).read_bytes(), value):
                    found.append(str(entry / name))
            except OSError:  # it ended, or is a thread of the kernel
                pass
    return found


def memory_with(value, pid):
    """Processes in the sandbox of that one whose memory has it, and how many were read."""
    space, found, read = (pathlib.Path(f"/proc/{pid}/ns/pid")).readlink(), [], 0
    for entry in processes():
        try:
            if (entry / "ns/pid").readlink() != space:
                continue
            with open(entry / "maps") as maps, open(entry / "mem", "rb", buffering=0) as mem:
                for line in maps:
                    span, rights = line.split()[:2]
                    begin, end = (int(x, 16) for x in span.split("-"))
                    if not rights.startswith("r") or end - begin > 1 << 28:
                        continue
                    try:
                        mem.seek(begin)
                        if holds(mem.read(end - begin), value):
                            found.append((entry.name, line))
                    except (OSError, ValueError, OverflowError):  # vvar and its like
                        pass
            read += 1
        except OSError:
            pass
    return found, read


class Life:
    """tendon with its secrets; everything that it ever said."""

    def __init__(self, world, user):
        self.world, self.user, self.said, self.made = world, user, [], []
        self.key = world.home(user) / "config" / "secret.key"
        roots = world.internet.certificates / "root.pem"
        self.settings = ["--set", f"security.secret_key={self.key}", "--set", f"security.roots={roots}"]

    def __call__(self, *words, check=True, **kwargs):
        result = self.world.tendon(*self.settings, *words, user=self.user, check=check, **kwargs)
        self.said.append(result.stdout + result.stderr)
        return result

    def new(self, *words):
        self.made.append(self("new", "--runtime", "jail", "--keep", *words).stdout.strip())
        return self.made[-1]

    def python(self, box, code):
        return self("exec", box, "--", "python3 - <<'END'\n" + ASK + code + "\nEND").stdout.strip()

    def pid(self, box):
        return json.loads(self("--json", "inspect", box).stdout)["ref"]["pid"]

    def arrived(self):
        return [json.loads(line[4:]) for line in self.world.internet.lines() if line.startswith("api ")]


@pytest.fixture(params=[0, NOBODY], ids=["root", "user"])
def life(world, request):
    life = Life(world, request.param)
    yield life
    for box in life.made:
        life("rm", box, check=False)
    for name in json.loads(life("--json", "secret", "list").stdout):
        life("secret", "rm", name["name"])


def got(life, path_or_value):
    return any(path_or_value in line for request in life.arrived() for line in request["lines"])


def test_a_whole_life(life):
    value = "canary/" + secrets.token_hex(16) + "+="
    life("secret", "set", "API_KEY", "--host", "api.test", input=value)
    assert life("secret", "set", "API_KEY", "--host", "*", input=value, check=False).returncode != 0
    box = life.new("--network", "allow", "--allow", "api.test", "--allow", "other.test", "--secret", "API_KEY")
    holder = life.python(box, "print(os.environ['API_KEY'])")
    assert holder.startswith("tnsecret_api_key_") and len(holder) == len("tnsecret_api_key_") + 32

    # It arrives where it belongs, comes back as stars, and goes nowhere else.
    use = "print(ask('{}', 'Bearer ' + os.environ['API_KEY']))"
    assert life.python(box, use.format("api.test")) == "Bearer " + "*" * len(value)
    assert got(life, f"Bearer {value}"), life.arrived()
    assert life.python(box, use.format("other.test")) == f"Bearer {holder}"

    # States, layers and a second sandbox: the same placeholder in one, another in the fork.
    life("exec", box, "--", "echo $API_KEY >/root/noted")
    life("snapshot", box, "one")
    life("pause", box)
    life("resume", box)
    fork = life("fork", box).stdout.strip()
    life.made.append(fork)
    life("stop", box)
    life("resume", box)
    life("rollback", box, "one")
    assert life.python(box, "print(os.environ['API_KEY'])") == holder == life("exec", box, "--", "cat /root/noted").stdout.strip()
    other = life.python(fork, "print(os.environ['API_KEY'])")
    assert other.startswith("tnsecret_api_key_") and other != holder
    for one in (box, fork):
        assert life.python(one, use.format("api.test")) == "Bearer " + "*" * len(value)
    assert life.python(fork, f"print(ask('api.test', 'Bearer {holder}'))") == f"Bearer {holder}", "its parent's is worthless"

    for words in (["inspect", box], ["events", box], ["logs", box], ["ls"], ["secret", "list"], ["audit"], ["config"]):
        life(*words, check=False)
        life("--json", *words, check=False)
    for one in (box, fork):
        found, read = memory_with(value, life.pid(one))
        assert found == [] and read >= 1
    assert lines_with(value) == []
    assert files_with(value, life.world.home(life.user)) == []
    assert not holds("".join(life.said).encode(), value)

    # Planted, it is found in each of them.
    life("exec", box, "--", f"echo {base64.b64encode(value.encode()).decode()} >/root/planted")
    life.python(box, PLANT.format(value))
    deadline = time.monotonic() + WAIT
    while not (lines_with(value) and memory_with(value, life.pid(box))[0]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert files_with(value, life.world.home(life.user))


def test_what_is_changed_counts_from_the_next_start(life):
    first, second = (secrets.token_hex(12) for _ in range(2))
    life("secret", "set", "API_KEY", "--host", "api.test", input=first)
    box = life.new("--network", "allow", "--allow", "api.test", "--secret", "API_KEY")
    use = "ask('api.test', 'Bearer ' + os.environ['API_KEY'])"
    life("secret", "set", "API_KEY", "--host", "api.test", input=second)
    life.python(box, use)
    assert got(life, first) and not got(life, second)
    life("stop", box)
    life("resume", box)
    life.python(box, use)
    assert got(life, second)
    life("secret", "rm", "API_KEY")
    life("stop", box)
    refused = life("resume", box, check=False)
    assert refused.returncode != 0 and "API_KEY" in refused.stderr
    life("secret", "set", "API_KEY", "--host", "api.test", input=second)
    life("resume", box)
    life.python(box, use)


def test_what_a_jail_refuses(life):
    life("secret", "set", "API_KEY", "--host", "api.test", input="v")
    for words, why in (
        (["--network", "none", "--secret", "API_KEY"], "open or allow"),
        (["--network", "host", "--secret", "API_KEY"], "open or allow"),
        (["--network", "open", "--secret", "OTHER"], "OTHER"),
        (["--network", "open", "--secret", "API_KEY", "--warm", "1"], "warm"),
    ):
        refused = life("new", "--runtime", "jail", *words, check=False)
        assert refused.returncode != 0 and why in refused.stderr, refused

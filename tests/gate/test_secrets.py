"""A secret through a whole life of a sandbox: its gate puts it in where it belongs, and it is nowhere else.

What is looked through at the end: everything that tendon keeps on disk, what every command of it printed, environments and
command lines of all processes, and the memory of those in the sandbox."""

import base64
import json
import secrets
import time

import pytest
from canary import ASK, PLANT, files_with, holds, lines_with, memory_with, new_value
from gate_world import NOBODY

WAIT = 60
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
        self.made.append(self("new", *self.world.runtime, "--keep", *words).stdout.strip())
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
    value = new_value()
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
    life("secret", "set", "API_KEY", "--host", "api.test", input="value-123")
    before = life("ls", "-q").stdout
    for words, why in (
        (["--network", "none", "--secret", "API_KEY"], "open or allow"),
        (["--network", "host", "--secret", "API_KEY"], "open or allow"),
        (["--network", "open", "--secret", "OTHER"], "OTHER"),
        (["--network", "open", "--secret", "API_KEY", "--warm", "1"], "warm"),
        (["--network", "open", "--secret", "API_KEY", "--isolation", "gvisor"], "secrets: a jail under gVisor"),
        (["--network", "open", "--secret", "API_KEY", "--set", "jail.suspend=true"], "secrets: a jail that can be suspended"),
        (["--network", "allow", "--allow", "https://api.test/v1/*", "--isolation", "gvisor"], "allow: a jail under gVisor"),
    ):
        refused = life("new", "--runtime", "jail", *words, check=False)
        assert refused.returncode != 0 and why in refused.stderr, refused
    assert life("ls", "-q").stdout == before, "nothing was made"

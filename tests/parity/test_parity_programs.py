"""The faces that are programs: `tendon exec`, `run`, `mcp` and `replay`. Each has words for some actions only; what the sandbox's journal
then has as the observation is what the library gets for the same action."""

import json
import subprocess

import pytest

from faces import FACES, Face
from mcp_clients import Stdio
from services import PATIENCE
from test_parity import ACTIONS, done, plain

COMMANDS = ["run", "run that fails"]

# {action: (tool, the arguments of the tool that are the action's)}
TOOLS = {
    "run": ("shell", ["command"]),
    "run that fails": ("shell", ["command"]),
    "run_ipython": ("python", ["code"]),
    "write": ("write_file", ["path", "content"]),
    "read": ("read_file", ["path"]),
    "read, not there": ("read_file", ["path"]),
    "edit": ("edit_file", ["path", "command", "file_text"]),
    "browse": ("browse", ["url"]),
}

# Where the content is another, and why.
OWN_WORDS = {
    "read": "read_file gives the bytes of the file; the action adds a newline",
    "read, not there": "read_file says what the file system says",
}


class Program(Face):
    """tendon, in a sandbox of its own."""

    def __init__(self, name, service):
        super().__init__(name, service)
        self.id = self.tendon("new", "--keep", "--plugins", "jupyter").strip()

    def tendon(self, *words, status=0):
        words = [self.service.program, *words]
        result = subprocess.run(words, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
        assert result.returncode == status, result
        return result.stdout

    def last(self):
        """The last observation in the journal."""
        events = self.journal()
        return [plain(event) for event in events if "observation" in event][-1]

    def finish(self):
        self.tendon("rm", self.id)


@pytest.fixture(scope="module")
def make(world):
    made = []

    def one(name):
        made.append(Program(name, world.service))
        return made[-1]

    yield one
    for face in made:
        face.finish()


def expected(world, name):
    return done(world.face(FACES[0]), name)[0]


def status_of(observation):
    return observation["extras"]["metadata"]["exit_code"]


@pytest.mark.parametrize("name", COMMANDS)
def test_exec(world, make, name):
    wanted = expected(world, name)
    face = make("exec")
    said = face.tendon("exec", "--session", "main", face.id, "--", ACTIONS[name]["args"]["command"], status=status_of(wanted))
    assert said.strip() == wanted["content"]
    assert face.last() == wanted


@pytest.mark.parametrize("name", COMMANDS)
def test_run(world, make, name):
    wanted = expected(world, name)
    face = make("run")
    said = face.tendon("--json", "run", "--keep", "--", ACTIONS[name]["args"]["command"], status=status_of(wanted))
    face.tendon("rm", face.id)
    face.id = json.loads(said)["sandbox"]
    assert json.loads(said)["output"].strip() == wanted["content"]
    assert face.last() == wanted


@pytest.fixture(scope="module")
def mcp(make):
    face = make("mcp")
    words = [face.service.program, "mcp", "--sandbox", face.id]
    process = subprocess.Popen(words, env=face.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    face.client = Stdio(process)
    face.client.hello()
    yield face
    face.client.leave()


@pytest.mark.parametrize("name", TOOLS)
def test_mcp(world, mcp, name):
    tool, members = TOOLS[name]
    args = ACTIONS[name]["args"]
    mcp.client.tool(tool, **{member: args[member] for member in members})
    wanted = expected(world, name)
    if name in OWN_WORDS:
        print(f"by design: {OWN_WORDS[name]}")
        assert mcp.last()["observation"] == wanted["observation"]
    else:
        assert mcp.last() == wanted


# What replay leaves out, and says so; and what nobody carries out, which is no step of it.
SKIPPED = {"run, rejected", "run, waiting"}
NOT_FOR_HANDS = {
    "null", "message", "system", "think", "finish", "reject", "delegate", "recall", "change_agent_state", "condensation",
    "condensation_request", "loop_recovery", "network", "task_tracking",
}  # fmt: skip


def test_replay(world, make, tmp_path):
    """All of them one after the other, as the other faces had them."""
    names = [name for name in ACTIONS if name != "no plugin"]
    wanted = {name: expected(world, name) for name in names}
    recording = tmp_path / "recording.json"
    recording.write_text(json.dumps([{"id": i, "source": "agent", **ACTIONS[name]} for i, name in enumerate(names)]))
    face = make("replay")
    steps = json.loads(face.tendon("--json", "replay", "--plugins", "jupyter", recording))["steps"]
    got = {names[step["id"]]: step for step in steps}
    assert {name for name, step in got.items() if step["outcome"] == "skipped"} == SKIPPED
    for name, step in got.items():
        if name not in SKIPPED:
            assert plain(step["observation"]) == wanted[name], name
    assert {ACTIONS[name]["action"] for name in set(names) - set(got)} == NOT_FOR_HANDS

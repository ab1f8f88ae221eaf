"""The faces that are programs: `tendon exec`, `run`, `mcp` and `replay`. What the sandbox's journal has as the observation is what the
library gets for the same action. Each has words for some actions only: for every other one CANNOT says why."""

import json
import subprocess

import pytest

from faces import FACES, Face
from mcp_clients import Stdio
from services import PATIENCE
from test_parity import ACTIONS, done, plain

# {action: (tool of `tendon mcp`, {its argument: that of the action})}
SHELL = ("shell", {"command": "command", "is_input": "is_input"})
TOOLS = {
    "run": SHELL,
    "run that fails": SHELL,
    "run that goes on": SHELL,
    "ctrl-c": SHELL,
    "run_ipython": ("python", {"code": "code"}),
    "write": ("write_file", {"path": "path", "content": "content"}),
    "read": ("read_file", {"path": "path"}),
    "read, not there": ("read_file", {"path": "path"}),
    "edit": ("edit_file", {"path": "path", "command": "command", "file_text": "file_text"}),
    "browse": ("browse", {"url": "url"}),
    "browse_interactive": ("browser", {"actions": "browser_actions"}),
}

# Where the content is another, and why.
OWN_WORDS = {
    ("mcp", "read"): "read_file gives the bytes of the file; the action adds a newline",
    ("mcp", "read, not there"): "read_file says what the file system says",
}

NO_HAND = "no hand carries it out: it is the host's, which a program is not"
NOT_FOR_HANDS = {
    "null", "message", "system", "think", "finish", "reject", "delegate", "recall", "change_agent_state", "condensation",
    "condensation_request", "loop_recovery", "network", "task_tracking",
}  # fmt: skip
A_PROCESS = {
    name: "it has a shell's command, and no process of its own" for name, action in ACTIONS.items() if "process" in action["args"]
}
A_COMMAND = {
    **{name: "its words are a command" for name, action in ACTIONS.items() if action["action"] != "run"},
    **A_PROCESS,
    "run that goes on": "it waits for the end of the command, or ends it (--timeout)",
    "ctrl-c": "a person's ctrl-C is a signal for the command, and no action",
    "run, hidden": "what a person types is not hidden from that person's journal",
    "run, rejected": "whoever types it wants it",
    "run, waiting": "whoever types it wants it",
}
CANNOT = {
    "exec": A_COMMAND,
    "run": A_COMMAND,
    "mcp": {
        **A_PROCESS,
        "run, hidden": "a tool does nothing that the journal does not show",
        "run, rejected": "what a client of MCP calls it wants",
        "run, waiting": "what a client of MCP calls it wants; whether a person does is asked (elicitation)",
        "edit by a model": "its client is the model",
        "call_tool_mcp": "its client calls the tools of other servers itself",
        "call_tool_mcp, no such tool": "its client calls the tools of other servers itself",
        "no plugin": "its tools are those it lists: the actions of plugins are not among them",
        **dict.fromkeys(NOT_FOR_HANDS, NO_HAND),
    },
    "replay": {
        "run, rejected": "it was not carried out when it was recorded, and is not now: skipped, and said so",
        "run, waiting": "it was not carried out when it was recorded, and is not now: skipped, and said so",
        "no plugin": "a replay ends, as an error, where there is no observation",
        **dict.fromkeys(NOT_FOR_HANDS, NO_HAND),
    },
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


class Exec(Program):
    def execute(self, name, wanted):
        words = ["--session", "main", self.id, "--", ACTIONS[name]["args"]["command"]]
        said = self.tendon("exec", *words, status=wanted["extras"]["metadata"]["exit_code"])
        assert said.strip() == wanted["content"]
        return self.last()


class Run(Program):
    """A sandbox for each command."""

    def execute(self, name, wanted):
        words = ["--json", "run", "--keep", "--", ACTIONS[name]["args"]["command"]]
        said = json.loads(self.tendon(*words, status=wanted["extras"]["metadata"]["exit_code"]))
        self.tendon("rm", self.id)
        self.id = said["sandbox"]
        assert said["output"].strip() == wanted["content"]
        return self.last()


class Mcp(Program):
    def __init__(self, name, service):
        super().__init__(name, service)
        words = [service.program, "mcp", "--sandbox", self.id]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.client = Stdio(subprocess.Popen(words, env=self.env, text=True, **pipes))
        self.client.hello()

    def execute(self, name, wanted):
        tool, members = TOOLS[name]
        args = ACTIONS[name]["args"]
        more = {"timeout": ACTIONS[name]["timeout"]} if tool == "shell" and "timeout" in ACTIONS[name] else {}
        self.client.tool(tool, **{own: args[its] for own, its in members.items() if its in args}, **more)
        return self.last()

    def finish(self):
        self.client.leave()
        super().finish()


class Replay(Program):
    """All of them one after the other, as the other faces had them; done when it is made."""

    def __init__(self, name, service):
        super().__init__(name, service)
        self.names = [name for name in ACTIONS if name != "no plugin"]
        recording = service.base / "recording.json"
        events = [{"id": i, "source": "agent", **ACTIONS[name]} for i, name in enumerate(self.names)]
        recording.write_text(json.dumps(events))
        steps = json.loads(self.tendon("--json", "replay", "--plugins", "jupyter", recording))["steps"]
        self.steps = {self.names[step["id"]]: step for step in steps}

    def execute(self, name, wanted):
        return plain(self.steps[name]["observation"])


PROGRAMS = {"exec": Exec, "run": Run, "mcp": Mcp, "replay": Replay}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(world, request):
    face = PROGRAMS[request.param](request.param, world.service)
    yield face
    face.finish()


@pytest.mark.parametrize("name", ACTIONS)
def test_the_same_by_a_program(world, program, name):
    if name in CANNOT[program.name]:
        pytest.skip(f"by design: {CANNOT[program.name][name]}")
    wanted = done(world.face(FACES[0]), name)[0]
    got = program.execute(name, wanted)
    if (program.name, name) in OWN_WORDS:
        print(f"by design: {OWN_WORDS[program.name, name]}")
        assert got["observation"] == wanted["observation"]
    else:
        assert got == wanted


@pytest.mark.parametrize("program", ["replay"], indirect=True)
def test_what_a_replay_leaves_out(program):
    skipped = {name for name, step in program.steps.items() if step["outcome"] == "skipped"}
    left_out = {ACTIONS[name]["action"] for name in set(program.names) - set(program.steps)}
    assert skipped == {"run, rejected", "run, waiting"} and left_out == NOT_FOR_HANDS

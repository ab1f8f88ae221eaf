"""The faces: each executes an action in a sandbox of its own, and tells what the sandbox's journal has of it."""

import json
import subprocess

import pytest

from openhands_clients import COMMAND, IMAGE
from services import PATIENCE, Service
from trees import BUILD, program

SPEC = {"plugins": ["jupyter"]}

PYTHON = "/usr/bin/python3"  # Debian's, which jails have

# A server of MCP tools that needs nothing but Python: "add" adds, and writes down that it was called.
TOOLS = r"""
import json, sys
tools = [{"name": "add", "description": "adds", "inputSchema": {"type": "object"}}]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "adder", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": tools}
    elif method == "tools/call":
        numbers = message["params"]["arguments"]
        with open("/tmp/tool-calls", "a") as log:
            log.write("called\n")
        result = {"content": [{"type": "text", "text": str(numbers["a"] + numbers["b"])}], "isError": False}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


class Refused(Exception):
    """There was no observation."""


class Face:
    """execute(action) -> its observation; journal() -> the events of the sandbox so far."""

    def __init__(self, name, service, env=None):
        self.seen = 0  # events of its journal
        self.name, self.service, self.env = name, service, {**service.env, **(env or {})}

    def journal(self):
        words = [self.service.program, "--json", "events", self.id]
        result = subprocess.run(words, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
        assert result.returncode == 0, result
        return [json.loads(line) for line in result.stdout.splitlines()]

    def finish(self):
        pass


class Library(Face):
    """libtendon in a process of its own: tendon_execute, or an action of a session."""

    def __init__(self, name, service, env=None, verb="execute", session=None):
        super().__init__(name, service, env)
        self.verb = verb
        self.process = subprocess.Popen(
            [program(BUILD, "tests/unit/tendon/library-drive"), json.dumps(SPEC)],
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.id = self.process.stdout.readline().strip()
        assert self.id, "no sandbox"
        if session is not None:
            self.ask("open", session)

    def ask(self, verb, what):
        self.process.stdin.write(f"{verb} {json.dumps(what)}\n")
        self.process.stdin.flush()
        answer, _, rest = self.process.stdout.readline().rstrip("\n").partition(" ")
        if answer != "ok":
            raise Refused(rest)
        return json.loads(rest)

    def execute(self, action):
        return self.ask(self.verb, action)

    def finish(self):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0
        self.process.stdout.close()


class Http(Face):
    """A dialect of the service."""

    def __init__(self, name, service, client, id, path, headers=None):
        super().__init__(name, service)
        self.client, self.id = client, id
        self.path, self.headers = path, headers or {}

    def send(self, action, headers=None):
        return self.client.post(self.path, {"action": action}, headers={**self.headers, **(headers or {})})

    def execute(self, action):
        answer = self.send(action)
        if answer.status != 200:
            raise Refused(answer)
        return answer.json


class World:
    """The service, whose state the library shares, and a state of its own for the library over the service."""

    def __init__(self, base, config=""):
        config += f"""
[core]
enable_browser = false
[mcp]
stdio_servers = [{{name = "adder", command = "{PYTHON}", args = ["-c", {json.dumps(TOOLS)}]}}]
"""
        self.service = Service(base, config=config, settings={"tools": "true"})
        doctor = self.service.tendon("doctor", "--runtime", "jail")
        if doctor.returncode:
            self.service.ids.stop()
            pytest.skip(f"the jail does not work here: {doctor.stdout}{doctor.stderr}")
        self.service.start()
        self.client = self.service.client()
        self.made = {}

    def face(self, name):
        if name not in self.made:
            self.made[name] = MAKERS[name](self, name)
        return self.made[name]

    def library(self, name, **kwargs):
        return Library(name, self.service, **kwargs)

    def session(self, name):
        return self.library(name, verb="session", session={})

    def remote(self, name, dialect):
        env = {
            "TENDON_RUNTIME": "remote",
            "SANDBOX_API_KEY": self.service.admin,
            "SANDBOX_REMOTE_RUNTIME_API_URL": self.service.url,
            "TENDON_REMOTE_DIALECT": dialect,
        }
        return self.library(name, env=env)

    def native(self, name, route):
        box = self.client.post("/v1/sandboxes", SPEC).ok(201).json
        return Http(name, self.service, self.client, box["id"], f"/v1/sandboxes/{box['id']}{route}")

    def openhands(self, name):
        told = self.client.post("/start", {"image": IMAGE, "command": COMMAND, "session_id": "parity"}).ok().json
        path = "/" + told["url"].split("/", 3)[3].rstrip("/")
        key = {"X-Session-API-Key": told["session_api_key"]}
        return Http(name, self.service, self.client, told["runtime_id"], path + "/execute_action", key)

    def finish(self):
        for face in self.made.values():
            face.finish()
        self.service.finish()


MAKERS = {
    "library": World.library,
    "session": World.session,
    "native": lambda world, name: world.native(name, "/actions"),
    "hand route": lambda world, name: world.native(name, "/hand/execute_action"),
    "openhands": World.openhands,
    "remote native": lambda world, name: world.remote(name, "native"),
    "remote openhands": lambda world, name: world.remote(name, "openhands"),
}
FACES = list(MAKERS)

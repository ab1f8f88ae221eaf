"""A small client of tendon-hand that distrusts every answer.

Each observation is checked against its envelope before a test sees it: the keys a host would
splat into a constructor (an unknown one makes it raise), their types, and the fields that follow
from one another.
"""

import http.client
import json
import socket
import uuid

NoneType = type(None)

# Strings clients match; one place, so that a test can only compare with the whole of them.
TMPL = (
    "You may wait longer to see additional output by sending empty command '', send other "
    "commands to "
    'interact with the current process, send keys ("C-c", "C-z", "C-d") to interrupt/kill the '
    "previous "
    "command before sending your new command, or use the timeout parameter in execute_bash for "
    "future commands."
)
CONT = "[Below is the output of the previous command.]\n"
CUT = "\n[... Observation truncated due to length ...]\n"
NOLOG = "ERROR: No previous running command to retrieve logs from."
NOINPUT = "ERROR: No previous running command to interact with."


def done(code, key=None):
    sent = f" CTRL+{key} was sent." if key else ""
    return f"\n[The command completed with exit code {code}.{sent}]"


def soft(seconds):
    return f"\n[The command has no new output after {seconds} seconds. {TMPL}]"


def hard(seconds):
    return f"\n[The command timed out after {float(seconds)} seconds. {TMPL}]"


def busy(command):
    return (
        f'\n[Your command "{command}" is NOT executed. The previous command is still running - '
        "You CANNOT send "
        "new commands until the previous command is completed. By setting `is_input` to `true`, "
        "you can "
        f"interact with the current process: {TMPL}]"
    )


def trunc(lines):
    return (
        "[Previous command outputs are truncated. "
        f"Showing the last {lines} lines of the output below.]\n"
    )


def multi(*commands):
    listed = "\n".join(f"({n}) {command}" for n, command in enumerate(commands, 1))
    return (
        "ERROR: Cannot execute multiple commands at once.\n"
        "Please run each command separately OR chain them into a single command via && or ;\n"
        f"Provided commands:\n{listed}"
    )


METADATA = {
    "exit_code": (int,),
    "pid": (int,),
    "username": (str, NoneType),
    "hostname": (str, NoneType),
    "working_dir": (str, NoneType),
    "py_interpreter_path": (str, NoneType),
    "prefix": (str,),
    "suffix": (str,),
}

# type of observation -> (required extras, optional extras)
EXTRAS = {
    "run": ({"command": (str,), "metadata": (dict,), "hidden": (bool,)}, {}),
    "run_ipython": ({"code": (str,), "image_urls": (list, NoneType)}, {}),
    "read": ({"path": (str,), "impl_source": (str,)}, {}),
    "write": ({"path": (str,)}, {}),
    "edit": (
        {
            "path": (str,),
            "prev_exist": (bool,),
            "old_content": (str, NoneType),
            "new_content": (str, NoneType),
            "impl_source": (str,),
            "diff": (str, NoneType),
        },
        {"_diff_cache": (NoneType,)},
    ),
    "mcp": ({"name": (str,), "arguments": (dict,)}, {}),
    "browse": (
        {
            "url": (str,),
            "trigger_by_action": (str,),
            "screenshot": (str,),
            "screenshot_path": (str, NoneType),
            "set_of_marks": (str,),
            "error": (bool,),
            "goal_image_urls": (list,),
            "open_pages_urls": (list,),
            "active_page_index": (int,),
            "dom_object": (dict,),
            "axtree_object": (dict,),
            "extra_element_properties": (dict,),
            "last_browser_action": (str,),
            "last_browser_action_error": (str,),
            "focused_element_bid": (str,),
            "filter_visible_only": (bool,),
        },
        {},
    ),
    "download": ({"file_path": (str,)}, {}),
    "error": ({"error_id": (str,)}, {}),
}


def _check_fields(where, got, required, optional):
    missing = set(required) - set(got)
    assert not missing, f"{where}: missing {sorted(missing)} in {got}"
    unknown = set(got) - set(required) - set(optional)
    assert not unknown, f"{where}: unknown keys {sorted(unknown)}"
    for key, value in got.items():
        kinds = required.get(key) or optional[key]
        assert type(value) in kinds, f"{where}.{key}: {value!r} is not one of {kinds}"


def check_observation(obs):
    """Asserts the envelope (rule G3 and sections 3.5, 3.6 of the wire specification)."""
    assert isinstance(obs, dict), obs
    kind = obs.get("observation")
    assert kind in EXTRAS, f"unexpected observation type {kind!r}: {obs}"
    top = {"message", "observation", "content", "extras"} | (
        {"success"} if kind in ("run", "run_ipython") else set()
    )
    assert set(obs) == top, f"top-level keys {sorted(obs)}"
    assert type(obs["message"]) is str and type(obs["content"]) is str
    extras = obs["extras"]
    assert type(extras) is dict
    _check_fields(f"{kind}.extras", extras, *EXTRAS[kind])
    if kind == "run":
        meta = extras["metadata"]
        for key, kinds in METADATA.items():
            assert key in meta, f"metadata lacks {key}"
            assert type(meta[key]) in kinds, f"metadata.{key}: {meta[key]!r}"
        code = meta["exit_code"]
        assert obs["success"] is (code == 0)
        assert obs["message"] == f"Command `{extras['command']}` executed with exit code {code}."
    elif kind == "run_ipython":
        assert obs["message"] == "Code executed in IPython cell." and type(obs["success"]) is bool
    elif kind == "read":
        assert obs["message"] == f"I read the file {extras['path']}."
    elif kind == "write":
        assert obs["message"] == f"I wrote to the file {extras['path']}." and obs["content"] == ""
    elif kind == "edit":
        assert obs["message"] == f"I edited the file {extras['path']}."
        assert extras["prev_exist"] is False or extras["prev_exist"] is True
    elif kind == "mcp":
        assert obs["message"] == obs["content"]
    elif kind == "error":
        assert obs["message"] == obs["content"]
        assert extras["error_id"] in ("", "PROCESS$NOT_STARTED", "PROCESS$TOO_MANY")


class Observation:
    """A checked observation with short names for what tests look at."""

    def __init__(self, raw):
        check_observation(raw)
        self.raw = raw
        self.type = raw["observation"]
        self.content = raw["content"]
        self.extras = raw["extras"]
        self.path = self.extras.get("path")
        self.meta = self.extras.get("metadata", {})
        self.exit = self.meta.get("exit_code")
        self.prefix = self.meta.get("prefix")
        self.suffix = self.meta.get("suffix")
        self.cwd = self.meta.get("working_dir")
        self.command = self.extras.get("command")

    def __repr__(self):
        text = json.dumps(self.raw, ensure_ascii=False)
        return text if len(text) < 3000 else f"{text[:1500]} ... {text[-1500:]}"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def detail(self):
        return self.json["detail"]

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:2000]!r}>"


class Client:
    """Address is a path of a unix socket or a (host, port) pair.  A new connection per request."""

    def __init__(self, address, headers=None):
        self.address = address
        self.headers = dict(headers or {})

    def socket(self, timeout=10):
        family = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        s = socket.socket(family)
        s.settimeout(timeout)
        s.connect(self.address)
        return s

    def connection(self, timeout=30):
        if isinstance(self.address, str):
            return UnixConnection(self.address, timeout)
        return http.client.HTTPConnection(*self.address, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=30):
        connection = self.connection(timeout)
        try:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, value, headers=None, **kw):
        body = json.dumps(value).encode()
        return self.request(
            "POST", path, body, {"Content-Type": "application/json", **(headers or {})}, **kw
        )

    def raw(self, data, half_close=False, timeout=10):
        """Sends bytes as they are and parses one answer; None when there was none."""
        with self.socket(timeout) as s:
            try:
                s.sendall(data)
                if half_close:
                    s.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused while we were still talking; the answer may be there all the same
            response = http.client.HTTPResponse(s)
            try:
                response.begin()
                return Reply(response)
            except (http.client.BadStatusLine, ConnectionResetError):
                return None

    # --- actions ------------------------------------------------------------------------------

    def post_action(self, action, key=None, timeout=None):
        """The plain HTTP reply to an action."""
        if timeout is None:
            timeout = (action.get("timeout") or 120) + 10
        headers = {"Idempotency-Key": key} if key else {}
        return self.post("/execute_action", {"action": action}, headers=headers, timeout=timeout)

    def act(self, kind, args, timeout=20.0, key=None):
        action = {"action": kind, "args": args}
        if timeout is not None:
            action["timeout"] = timeout
        reply = self.post_action(action, key)
        assert reply.status == 200, reply
        assert reply.headers["content-type"].split(";")[0] == "application/json"
        return Observation(reply.json)

    def run(self, command, timeout=20.0, key=None, **args):
        """A run action; args are those of the wire (is_input, blocking, hidden, session, ...)."""
        return self.act("run", {"command": command, **args}, timeout, key)

    def ok(self, command, **kw):
        """A command that must end with exit code 0; returns its content."""
        obs = self.run(command, **{"blocking": True, **kw})
        assert obs.exit == 0, obs
        return obs.content

    def input(self, text, **kw):
        return self.run(text, is_input=True, **kw)

    def interrupt(self, **kw):
        """What C-c ends, however long that takes here: the silence of a busy machine is not its answer."""
        return self.input("C-c", blocking=True, **kw)

    def poll(self, **kw):
        return self.run("", **kw)

    def run_until(self, command, shown):
        """A command that goes on, once it has shown that text: a program may take long to start."""
        obs = self.run(command)
        while shown not in obs.content:
            assert obs.exit == -1, obs
            obs = self.poll()
        return obs

    def read(self, path, **args):
        return self.act("read", {"path": str(path), **args})

    def write(self, path, content, **args):
        return self.act("write", {"path": str(path), "content": content, **args})

    def edit(self, command, path, **args):
        return self.act("edit", {"command": command, "path": str(path), **args})

    def list_files(self, path=None):
        reply = self.post("/list_files", {} if path is None else {"path": str(path)})
        assert reply.status == 200, reply
        return reply.json

    def upload(self, name, data, destination, recursive=None, field="file"):
        boundary = uuid.uuid4().hex
        body = (
            (
                f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; '
                f'filename="{name}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n"
            ).encode()
            + data
            + f"\r\n--{boundary}--\r\n".encode()
        )
        return self.upload_body(body, boundary, destination, recursive)

    def upload_body(self, body, boundary, destination, recursive=None):
        from urllib.parse import urlencode

        query = {} if destination is None else {"destination": str(destination)}
        if recursive is not None:
            query["recursive"] = recursive
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return self.request("POST", "/upload_file?" + urlencode(query), body, headers)

    def download(self, path):
        from urllib.parse import urlencode

        return self.get("/download_files?" + urlencode({"path": str(path)}))


class Shell(Client):
    """The client of one named session: a fresh shell in a hand that others use as well."""

    def __init__(self, client, name, directory, program="bash"):
        super().__init__(client.address, client.headers)
        self.name = name
        self.dir = directory
        reply = self.post("/v1/sessions", {"name": name, "cwd": str(directory), "shell": program})
        assert reply.status == 201, reply

    def run(self, command, **args):
        return super().run(command, **{"session": self.name, **args})

    def remove(self):
        """Ends it with all that runs in it, which no program may delay."""
        reply = self.request("DELETE", f"/v1/sessions/{self.name}", timeout=10)
        assert reply.status == 204, reply

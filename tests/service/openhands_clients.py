"""Clients of OpenHands, as its RemoteRuntime and its application server behave: the calls, headers and reactions, not
the code. Both speak plain HTTP with the harness' connections."""

import json
from urllib.parse import urlsplit

from services import Answer, eventually

IMAGE = "docker.openhands.dev/openhands/runtime:0.62-nikolaik"
COMMAND = [
    "/openhands/micromamba/bin/micromamba", "run", "-n", "openhands", "poetry", "run", "python", "-u", "-m",
    "openhands.runtime.action_execution_server", "60000", "--working-dir", "/workspace", "--plugins", "agent_skills",
    "jupyter", "vscode", "--username", "openhands", "--user-id", "1000", "--no-enable-browser",
]  # fmt: skip


class Disconnected(Exception):
    """AgentRuntimeDisconnectedError"""


class Unavailable(Exception):
    """AgentRuntimeUnavailableError"""


class NotFound(Exception):
    """AgentRuntimeNotFoundError"""


class RemoteRuntime:
    """connect, wait, act, pause, resume, close."""

    def __init__(self, service, key, sid, attach=False, keep_alive=False, pause_closed=False, **start):
        self.service, self.sid, self.attach = service, sid, attach
        self.keep_alive, self.pause_closed = keep_alive, pause_closed
        self.headers = {"X-API-Key": key}
        self.start_fields = start
        self.runtime_id = self.runtime_url = self.work_hosts = None
        self.calls = []  # (method, path, status)

    # --- the wire ---------------------------------------------------------------------------------

    def call(self, method, path, body=None, headers=None):
        """A connection of its own, as a client that was away for a while has it."""
        connection = self.service.connect()
        fields = {**self.headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body, fields["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection.request(method, path, body=body, headers=fields)
        response = connection.getresponse()
        answer = Answer(response, response.read())
        connection.close()
        self.calls.append((method, path, answer.status))
        return answer

    def inside(self, method, path, body=None, headers=None):
        """A call to the action server: below the URL that the service gave."""
        return self.call(method, urlsplit(self.runtime_url).path + path, body, headers)

    # --- life -------------------------------------------------------------------------------------

    def connect(self):
        try:
            if not self.adopt():
                if self.attach:
                    raise NotFound(self.sid)
                self.prepare_image()
                self.start()
                self.wait_until_alive()
            self.setup_environment()
        except Exception:
            self.close()
            raise
        return self

    def adopt(self):
        answer = self.call("GET", f"/sessions/{self.sid}")
        if answer.status == 404:
            return False
        told = answer.ok().json
        if told["status"] == "running":
            self.parse(told)
            self.wait_until_alive()
            return True
        if told["status"] == "paused":
            self.parse(told)
            self.resume()
            return True
        return False

    def prepare_image(self):
        """The builder looks for its image before it builds one."""
        prefix = self.call("GET", "/registry_prefix").ok().json["registry_prefix"]
        self.image = f"{prefix}/runtime:oh_v0.62.0_0123456789abcdef"
        told = self.call("GET", f"/image_exists?image={self.image}").ok().json
        assert told["exists"], "an image would have to be built"
        assert f"{told['image']['image_size_bytes'] / 1024 / 1024:.2f}" and "upload_time" in told["image"]

    def start(self):
        body = {
            "image": self.image,
            "command": COMMAND,
            "working_dir": "/openhands/code/",
            "environment": {"DEBUG": "true", "FROM_THE_CLIENT": "yes"},
            "session_id": self.sid,
            "resource_factor": 1,
            **self.start_fields,
        }
        answer = self.call("POST", "/start", body)
        if answer.status >= 400:
            raise Unavailable(answer)
        self.parse(answer.json)

    def parse(self, told):
        self.runtime_id, self.runtime_url = told["runtime_id"], told["url"]
        self.work_hosts = told.get("work_hosts", {})
        if told.get("session_api_key"):
            self.headers["X-Session-API-Key"] = told["session_api_key"]

    def wait_until_alive(self):
        def ready():
            told = self.call("GET", f"/runtime/{self.runtime_id}").ok().json
            assert told["runtime_id"] == self.runtime_id
            status = told["pod_status"].lower()
            assert status in ("ready", "not found", "pending", "running"), told
            return status == "ready"

        eventually(ready, "ready")
        assert self.inside("GET", "/alive").ok().json == {"status": "ok"}

    def resume(self):
        self.call("POST", "/resume", {"runtime_id": self.runtime_id}).ok()
        self.wait_until_alive()
        self.setup_environment()

    def setup_environment(self):
        self.act("export FROM_SETUP=yes")

    def close(self):
        if self.attach or self.runtime_id is None:
            return
        if self.keep_alive:
            if self.pause_closed:
                self.call("POST", "/pause", {"runtime_id": self.runtime_id}).ok()
            return
        self.call("POST", "/stop", {"runtime_id": self.runtime_id}).ok()

    # --- use --------------------------------------------------------------------------------------

    def act(self, command, again=False):
        action = {"action": {"action": "run", "args": {"command": command}, "timeout": 30}}
        answer = self.inside("POST", "/execute_action", action)
        if answer.status == 404:
            raise Disconnected("not responding")
        if answer.status in (502, 504):
            raise Disconnected("temporarily unavailable")
        if answer.status == 503:
            if not self.keep_alive or again:
                raise Disconnected("paused")
            self.resume()
            return self.act(command, again=True)
        return answer.ok().json["content"]

    def list_files(self, path):
        return self.inside("POST", "/list_files", {"path": path}).ok().json

    def upload(self, name, content, destination):
        head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        path = f"/upload_file?destination={destination}&recursive=false"
        return self.inside("POST", path, head + content + b"\r\n--b--\r\n", kind).ok()

    def download(self, path):
        return self.inside("GET", f"/download_files?path={path}").ok().body

    def vscode_url(self):
        token = self.inside("GET", "/vscode/connection_token").ok().json["token"]
        if not token:
            return None
        url = urlsplit(self.runtime_url)
        assert url.path.startswith(f"/{self.runtime_id}")  # path mode
        return f"{url.scheme}://{url.netloc}/{self.runtime_id}/vscode?tkn={token}&folder=%2Fworkspace"


def wait_for_sandbox(client, sandbox):
    """As the application server waits for a conversation's sandbox: SandboxInfo once it is RUNNING."""

    def look():
        (told,) = client.get(f"/api/v1/sandboxes?id={sandbox}").ok().json
        assert told and told["status"] in ("STARTING", "RUNNING"), told
        return told if told["status"] == "RUNNING" else None

    return eventually(look, "RUNNING")


def exposed(sandbox, name):
    (url,) = [u["url"] for u in sandbox["exposed_urls"] if u["name"] == name]
    return url

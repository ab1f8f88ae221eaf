"""The program with sandboxes of E2B, as far as they differ from others: a pause, and time-outs that end them."""

import contextlib
import datetime
import json
import re
import socket
import socketserver
import threading
import time

import pytest

from cloud_worlds import CLOUDS
from tendons import eventually


@pytest.fixture(scope="module")
def cloud():
    return CLOUDS["e2b"]


def state(tendon):
    (box,) = tendon.boxes()
    return box["state"]


def test_a_pause(make_tendon, service):
    tendon = make_tendon(service)
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "-s", "main", "web", "x=5")
    tendon.ok("pause", "web")
    assert state(tendon) == "paused" and "paused" in tendon.ok("ls")
    assert "tendon resume web" in tendon.fails(73, "exec", "web", "true")
    tendon.ok("resume", "--quiet", "web")
    assert tendon.ok("exec", "-s", "main", "web", "echo $x") == "5\n"


# --- time-outs ---------------------------------------------------------------------------------------


def seconds_left(tendon):
    (box,) = tendon.boxes()
    end = box["endAt"].replace("Z", "+00:00")
    return datetime.datetime.fromisoformat(end).timestamp() - time.time()


def test_a_time_out_is_kept_off_while_it_is_used(make_tendon, service):
    tendon = make_tendon(service, TENDON_E2B_TIMEOUT="10")
    tendon.ok("new", "--name", "web")
    # What is beyond the time-out (and what a new one has more of it) is waited for by one command.
    tendon.client.post(f"/sandboxes/{tendon.boxes()[0]['sandboxID']}/timeout", {"timeout": 10}).ok(204)
    assert tendon.ok("exec", "web", "sleep 16; echo still here", timeout=90) == "still here\n"
    assert state(tendon) == "running" and 0 < seconds_left(tendon) <= 11
    # Nobody uses it: it is put to rest, and its next use wakes it.
    eventually(lambda: state(tendon) == "paused", "it rests", 60)
    alive = {"SANDBOX_KEEP_RUNTIME_ALIVE": "true"}
    assert tendon.ok("exec", "web", "echo woken", env=alive, timeout=90) == "woken\n"


def test_what_belongs_to_a_killed_process_ends(make_tendon, service):
    tendon = make_tendon(service, TENDON_E2B_TIMEOUT="10")
    running = tendon.start("run", "sleep 600")
    (box,) = eventually(tendon.boxes, "it is there", 60)
    tendon.client.post(f"/sandboxes/{box['sandboxID']}/timeout", {"timeout": 10}).ok(204)
    running.kill()
    running.communicate()
    eventually(lambda: tendon.boxes() == [], "the vendor has ended it", 60)
    tendon.ok("gc")


# --- without tokens ----------------------------------------------------------------------------------


class Unsecured(socketserver.ThreadingTCPServer):
    """A platform with `secure: false` in front of the service: its answers have no tokens, and it wants none.

    It gives the service, which wants them, those that it has kept back.  heads: what clients have sent to sandboxes."""

    daemon_threads = allow_reuse_address = True
    NAMES = ("envdAccessToken", "trafficAccessToken")

    def __init__(self, service):
        super().__init__(("127.0.0.1", 0), None)
        self.service, self.tokens, self.heads = service, {}, []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, client, address):
        with contextlib.suppress(OSError):
            lines = client.makefile("rb")
            head = []
            while line := lines.readline().rstrip(b"\r\n").decode():
                head.append(line)
            if not head:
                return
            whom = re.search(r"E2b-Sandbox-Id: (\w+)|Host: \d+-(\w+)\.", "\n".join(head), re.IGNORECASE)
            self.inside(client, lines, head, whom) if whom else self.control(client, lines, head)

    def control(self, client, lines, head):
        method, path, _ = head[0].split()
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:])}
        body = lines.read(int(headers.get("content-length", 0)))
        answer = self.service.client(headers["x-api-key"]).request(method, path, body, headers={"Content-Type": "application/json"})
        told = json.loads(answer.text) if answer.text else None
        if isinstance(told, dict) and self.NAMES[0] in told:
            self.tokens[told["sandboxID"]] = [told.pop(name) for name in self.NAMES]
        text = json.dumps(told).encode() if answer.text else b""
        client.sendall(f"HTTP/1.1 {answer.status} x\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text)

    def inside(self, client, lines, head, whom):
        self.heads.append(head)
        envd, traffic = self.tokens[whom[1] or whom[2]]
        upgrade = any(line.lower().startswith("upgrade:") for line in head)
        head = [line for line in head if upgrade or not line.lower().startswith("connection:")]
        head += [f"X-Access-Token: {envd}" if whom[1] else f"E2b-Traffic-Access-Token: {traffic}"]
        head += [] if upgrade else ["Connection: close"]
        with socket.create_connection(("127.0.0.1", self.service.port), timeout=600) as there:
            there.sendall("\r\n".join([*head, "", ""]).encode())
            up = threading.Thread(target=self.carry, args=(lines.read1, there), daemon=True)
            up.start()
            self.carry(there.recv, client)
            client.shutdown(socket.SHUT_RDWR)
            up.join(60)

    @staticmethod
    def carry(take, to):
        with contextlib.suppress(OSError):
            while data := take(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)


@pytest.fixture
def platform(service):
    platform = Unsecured(service)
    yield platform
    platform.shutdown()
    platform.server_close()


def test_sandboxes_without_tokens(platform, make_tendon, service, tmp_path):
    tendon = make_tendon(service, E2B_API_URL=platform.url, E2B_SANDBOX_URL=platform.url)
    tendon.ok("new", "--name", "web")
    assert tendon.ok("exec", "web", "echo works") == "works\n"
    (tmp_path / "a.txt").write_text("from here")
    tendon.ok("cp", str(tmp_path / "a.txt"), "web:/tmp/a.txt")
    tendon.ok("stop", "web")
    tendon.ok("resume", "--quiet", "web")
    assert tendon.ok("exec", "web", "cat /tmp/a.txt") == "from here"
    tendon.ok("cp", "web:/tmp/a.txt", str(tmp_path / "b.txt"))
    assert (tmp_path / "b.txt").read_text() == "from here"
    heads = ["\n".join(head).lower() for head in platform.heads]
    assert any("/process.process/start" in head for head in heads) and any("/files?" in head for head in heads)
    assert any("host: 27174-" in head for head in heads)  # the hand's own port
    for head in heads:  # neither a token nor, instead of one, the key
        assert "access-token" not in head and tendon.client.key.lower() not in head, head
    tendon.ok("rm", "web")

"""A real engine that is killed under the service and started again: nothing hangs, nothing is lost, nothing is left."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "service"))

from engine import Dockerd, start_engine  # noqa: E402
from harness import wait_until  # noqa: E402
from images import busybox_tar  # noqa: E402
from native import at, run, run_action  # noqa: E402
from services import eventually  # noqa: E402
from test_service_builds import DockerService  # noqa: E402


class MortalDockerd(Dockerd):
    """One that can be killed and started again with its data, in the namespaces it had."""

    words = None

    def command(self):
        self.words = self.words or super().command()
        return self.words

    def kill(self):
        self.held = [os.open(f"/proc/{self.process.pid}/ns/{name}", os.O_RDONLY) for name in ("mnt", "net")]
        self.process.kill()
        self.process.wait(30)
        # Its containerd ends with it, but not at once; the shims of the containers stay.
        for pid in self.containerds():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.containerds(), 30, "containerd has ended")
        for path in (self.base / "exec/containerd").glob("containerd*.[ps]*"):
            path.unlink()

    def containerds(self):
        return [pid for pid, command in self.processes().items() if command.split(" ")[0].endswith("containerd")]

    def start_again(self):
        """On a busy machine it may give up on its own containerd: then once more."""
        for last in (False, False, True):
            self.spawn()
            try:
                wait_until(self.answers, 60, "the engine answers again")
                break
            except AssertionError:
                if last or self.process.poll() is None:
                    raise
        for descriptor in self.held:
            os.close(descriptor)

    def spawn(self):
        enter = ["nsenter", f"--mount=/proc/self/fd/{self.held[0]}", f"--net=/proc/self/fd/{self.held[1]}"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *enter, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.base,
                pass_fds=self.held,
            )


@pytest.fixture
def mortal():
    engine = start_engine(MortalDockerd, "dockerd")
    yield engine
    engine.stop()


@pytest.mark.timeout(240)
def test_the_engine_is_killed(mortal, static_hand, tmp_path):
    image = mortal.load("busybox-only", busybox_tar(mortal.base / "busybox.tar"))
    service = DockerService(tmp_path, mortal).start()
    client, stranger = service.client(), service.stranger()
    wish = {"template": "busybox", "image": image}
    box = client.post("/v1/sandboxes", wish).ok(201).json
    assert box["state"] == "running", box
    assert run(client, box, "echo x >> /tmp/log; wc -l < /tmp/log")["content"].split()[-1] == "1"
    eventually(lambda: stranger.get("/readyz").status == 200, "it is ready")

    mortal.kill()
    told = eventually(lambda: (a := stranger.get("/readyz")).status == 503 and a, "it is not ready any more")
    assert told.json["reasons"] == ["backend"]
    failed = client.post("/v1/sandboxes", wish)
    assert failed.status in (201, 502, 503), failed
    if failed.status == 201:
        assert failed.json["state"] == "error" and failed.json["cause"] == "engine" and failed.json["reason"], failed

    mortal.start_again()
    eventually(lambda: stranger.get("/readyz").status == 200, "it is ready again")

    def works():
        """An engine that starts ends the containers of the one before; who uses one notices."""
        if client.post(at(box, "/actions"), run_action(":")).status == 200:
            return True
        client.post(at(box, "/resume"))
        return False

    eventually(works, "the sandbox runs again")
    assert run(client, box, "echo x >> /tmp/log; wc -l < /tmp/log")["content"].split()[-1] == "2"
    for one in client.get("/v1/sandboxes").ok().json["sandboxes"]:
        assert client.delete(at(one)).status == 204
    service.finish()


@pytest.mark.timeout(240)
def test_who_died_with_the_engine_is_not_shown_as_running(mortal, static_hand, tmp_path):
    """Also when nobody uses it; the round over all sandboxes would notice within a minute."""
    image = mortal.load("busybox-only", busybox_tar(mortal.base / "busybox.tar"))
    service = DockerService(tmp_path, mortal).start()
    client = service.client()
    box = client.post("/v1/sandboxes", {"template": "busybox", "image": image}).ok(201).json
    container = mortal.docker("ps", "--quiet", "--filter", f"label=tendon.id={box['id']}")
    pid = int(mortal.docker("inspect", "--format={{.State.Pid}}", container))
    mortal.kill()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: client.get(at(box)).json["state"] != "running", "its end is seen", 15)
    mortal.start_again()
    assert client.delete(at(box)).status == 204
    service.finish()

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
from model import SEED, Box, Driver, report  # noqa: E402
from native import at, run, run_action  # noqa: E402
from services import PATIENCE, eventually  # noqa: E402
from test_service_builds import DockerService  # noqa: E402

ENGINE_KILLS = 2


class MortalDockerd(Dockerd):
    """One that can be killed and started again with its data, in the namespaces it had."""

    stragglers = ["containerd-shim"]  # of a container that it was busy with: no later engine knows of them
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

    def remove_cgroups(self):
        """Those of such containers may be left too, but empty."""

        def gone():
            for path in self.cgroups():
                with contextlib.suppress(OSError):  # of a process that is just ending
                    os.rmdir(path)
            return not self.cgroups()

        wait_until(gone, 30, "control groups are empty, and removed")
        return []

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


def runs(client, box):
    """An engine that starts ends the containers of the one before; who uses one notices, and resumes it."""
    if client.post(at(box, "/actions"), run_action(":")).status == 200:
        return True
    client.post(at(box, "/resume"))
    return False


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
    eventually(lambda: runs(client, box), "the sandbox runs again")
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


class EngineDriver(Driver):
    """A client of the model that also kills the engine, and asks for a sandbox while there is none. Never while a
    container is being made: what is left of such a one no later engine knows of, and nobody could remove it."""

    def __init__(self, engine, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.engine = engine
        self.kills = set(self.random.sample(range(self.steps), ENGINE_KILLS))
        self.step_number = 0

    def step(self):
        if self.step_number in self.kills:
            self.kill_engine()
        self.step_number += 1
        actions = [self.create, self.repeat_create, self.delete, self.kill, self.look]
        self.random.choice(actions + [self.order, self.act] * 3)()

    def kill(self):
        """The first process of a container, which is its hand, is killed."""
        box = self.pick("running")
        if not box or self.random.random() < 0.5:
            return
        container = self.engine.docker("ps", "--quiet", "--filter", f"label=tendon.id={box.id}")
        os.kill(int(self.engine.docker("inspect", "--format={{.State.Pid}}", container)), signal.SIGKILL)
        told = self.call("GET", at(box.id, state="error", wait=PATIENCE)).json
        assert told["state"] == "error" and told["cause"] in ("ended", "memory") and told["reason"], told
        box.state = "error"

    def kill_engine(self):
        self.engine.kill()
        for box in self.boxes.values():  # nobody waits for the engine to be told something
            self.client.get(at(box.id)).ok()
        key = self.once()
        answer = self.client.post("/v1/sandboxes", self.wish, headers={"Idempotency-Key": key})
        assert answer.status in (201, 502, 503), answer
        self.engine.start_again()
        eventually(lambda: self.service.stranger().get("/readyz").status == 200, "it is ready again")
        for box in self.boxes.values():
            self.recover(box)
        self.find_made(key, answer)

    def recover(self, box):
        """An engine that starts ends the containers of the one before; what stood still is as it was."""
        if box.state in ("running", "paused"):
            box.state = "running"
            eventually(lambda: runs(self.client, box.id), "the sandbox runs again")
        self.agree(box)

    def find_made(self, key, answer):
        """What was to be made meanwhile is there once, and can be made to run."""
        again = self.call("POST", "/v1/sandboxes", self.wish, key)
        assert again.status in (200, 201), (answer, again)
        assert answer.status != 201 or answer.json["id"] == again.json["id"], (answer, again)
        id = again.json["id"]
        self.mine.add(id)
        self.boxes[id] = box = Box(id)
        self.recover(box)


@pytest.mark.timeout(600)
def test_model_while_the_engine_is_killed(mortal, static_hand, tmp_path):
    print(f"TN_MODEL_SEED={SEED}")
    image = mortal.load("busybox-only", busybox_tar(mortal.base / "busybox.tar"))
    service = DockerService(tmp_path, mortal).start()
    driver = EngineDriver(mortal, service, service.admin, [], SEED, 40, wish={"template": "busybox", "image": image})
    driver.run()
    if driver.trouble:
        raise driver.trouble
    driver.finish()
    print(report([driver]))
    service.finish()
    assert not mortal.docker("ps", "--all", "--quiet"), "no container is left"

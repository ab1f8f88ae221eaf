"""A model of the sandbox service, and clients that drive both with random calls and compare.

Each client has boxes of its own and knows exactly how they must be: which state, and how often a line was written to
a file inside. What a killed service did not answer is asked again, with the same idempotency key: so nothing may be
lost and nothing may happen twice, whatever else happens at the same time."""

import http.client
import json
import os
import random
import signal
import threading
import time

from census import all_pids, command_of, read
from native import at, run_action
from services import PATIENCE

START = 120 + 5  # seconds: service.start_seconds, which a create may take, and what telling of its failure may
BROKEN = (OSError, http.client.HTTPException)  # the service is not there, or went away in the middle
SEED = int(os.environ.get("TN_MODEL_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
LIMIT = 4  # boxes that a client has at a time

# state x order: the state that follows, None where the order must be refused with 409
ORDERS = {
    "pause": {"running": "paused", "paused": "paused", "stopped": None, "error": None},
    "resume": {"running": "running", "paused": "running", "stopped": "running", "error": "running"},
    "stop": {"running": "stopped", "paused": "stopped", "stopped": "stopped", "error": "stopped"},
}


def hand_of(id):
    """The process of the hand in that sandbox, which its control group names."""
    for pid in all_pids():
        if id.encode() in read(f"/proc/{pid}/cgroup") and command_of(pid).startswith("tendon-hand"):
            return pid
    raise AssertionError(f"no hand of {id}")


def keeper_of(id):
    """The process that keeps its jail: the parent of its hand."""
    return int(read(f"/proc/{hand_of(id)}/stat").rpartition(b")")[2].split()[1])


class Box:
    def __init__(self, id):
        self.id, self.state, self.lines = id, "running", 0


class Driver(threading.Thread):
    """One client: `steps` random calls, each compared with the model."""

    def __init__(self, service, key, others, seed, steps, full=False, wish=None):
        super().__init__()
        self.service, self.key = service, key
        self.full = full  # its disk may be full for a moment: what fails then is tried again
        self.wish = {"plugins": [], **(wish or {})}
        self.others = others  # ids of boxes of other tenants, which must not exist for this one
        self.random, self.steps = random.Random(seed), steps
        self.client = service.client(key, timeout=START + PATIENCE)
        self.boxes, self.mine = {}, set()
        self.calls, self.repeats, self.trouble = 0, 0, None

    def run(self):
        try:
            for _ in range(self.steps):
                self.step()
        except Exception as error:  # noqa: BLE001 - told by the test
            self.trouble = error

    # --- calls ------------------------------------------------------------------------------------

    def call(self, method, path, body=None, once=None):
        """The answer, asked for until there is one; `once` makes sure that it is done only once."""
        headers = {"Idempotency-Key": once} if once else {}
        deadline = time.monotonic() + START + PATIENCE
        while True:
            self.calls += 1
            try:
                answer = self.client.request(method, path, body, headers)
                # It is just stopping, or a box is not known yet; or nothing can be written.
                if answer.status != 503 and not (self.full and answer.status in (500, 507)):
                    return answer
            except BROKEN:
                self.client.close()
            assert time.monotonic() < deadline, f"no answer to {method} {path}"
            self.repeats += 1
            time.sleep(0.02)

    def once(self):
        return f"{self.random.getrandbits(64):x}"

    def pick(self, *states):
        fitting = [box for box in self.boxes.values() if not states or box.state in states]
        return self.random.choice(fitting) if fitting else None

    def agree(self, box):
        told = self.call("GET", at(box.id)).ok().json
        assert told["state"] == box.state, (box.state, told)

    # --- what can be done -------------------------------------------------------------------------

    def step(self):
        actions = [self.create, self.order, self.order, self.act, self.act, self.act, self.delete, self.kill]
        actions += [self.look, self.trespass, self.repeat_create, self.snapshot]
        self.random.choice(actions)()

    def create(self):
        if len(self.boxes) >= LIMIT:
            return
        self.adopt(self.call("POST", "/v1/sandboxes", self.wish, self.once()))

    def adopt(self, answer):
        """The box that was made; None when it could not start because the disk is full."""
        assert answer.status in (200, 201), answer
        id = answer.json["id"]
        assert id not in self.mine, "an old one was given out again"
        self.mine.add(id)
        if self.full and answer.json["state"] == "error":
            assert self.call("DELETE", at(id)).status in (204, 404)
            return None
        if answer.json["state"] == "starting":  # a fork is answered sooner than it may take
            answer = self.call("GET", at(id, state="running,error", wait=START))
        assert answer.json["state"] == "running", answer
        self.boxes[id] = Box(id)
        return self.boxes[id]

    def repeat_create(self):
        if len(self.boxes) >= LIMIT:
            return
        key = self.once()
        first = self.call("POST", "/v1/sandboxes", self.wish, key)
        again = self.call("POST", "/v1/sandboxes", self.wish, key).ok(200)
        assert first.json["id"] == again.json["id"]
        self.adopt(again)

    def order(self):
        box, name = self.pick(), self.random.choice(list(ORDERS))
        if not box:
            return
        expected = ORDERS[name][box.state]
        answer = self.call("POST", at(box.id, f"/{name}"))
        if self.full and name == "resume" and box.state in ("stopped", "error") and answer.status == 502:
            box.state = "error"  # its hand found no room for what it needs to start, and ended
            self.agree(box)
            return
        assert answer.status == (200 if expected else 409), (name, box.state, answer)
        box.state = expected or box.state
        assert not expected or answer.json["state"] == expected, (name, answer)
        self.agree(box)

    def act(self):
        box = self.pick("running")
        if not box:
            return
        answer = self.call("POST", at(box.id, "/actions"), run_action("echo x >> log; wc -l < log"), self.once())
        told = answer.ok().json["content"].split()[-1]
        if self.full and told != str(box.lines + 1):  # there was no room for the line; never for two
            assert told in (str(box.lines), "directory", "device"), (answer, box.lines)
            return
        box.lines += 1
        assert told == str(box.lines), (answer, box.lines)

    def delete(self):
        box = self.pick()
        if not box or self.random.random() < 0.5:
            return
        answer = self.call("DELETE", at(box.id))
        # Gone already when the first answer was lost.
        assert answer.status in (200, 204, 404), answer
        del self.boxes[box.id]
        assert self.call("GET", at(box.id)).status == 404

    def kill(self):
        """The hand of a box is killed, or the keeper of its jail, and the hand with it."""
        box = self.pick("running")
        if not box or self.random.random() < 0.6:
            return
        os.kill(self.random.choice((hand_of, keeper_of))(box.id), signal.SIGKILL)
        told = self.call("GET", at(box.id, state="error", wait=PATIENCE)).json
        assert told["state"] == "error" and told["cause"] in ("ended", "memory") and told["reason"], told
        box.state = "error"

    def snapshot(self):
        box = self.pick("running", "stopped")
        if not box or len(self.boxes) >= LIMIT or self.random.random() < 0.5:
            return
        child = self.adopt(self.call("POST", at(box.id, "/fork"), {}, self.once()))
        if child:
            child.lines = box.lines

    def look(self):
        told = self.call("GET", "/v1/sandboxes?limit=1000").ok().json["sandboxes"]
        ours = {one["id"]: one["state"] for one in told if one["id"] in self.mine}
        assert ours == {box.id: box.state for box in self.boxes.values()}, ours
        assert not {one["id"] for one in told} & set(self.others), "sandboxes of others are seen"

    def trespass(self):
        if self.others:
            id = self.random.choice(list(self.others))
            for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("GET", "/events")):
                assert self.call(method, at(id, rest)).status == 404

    def finish(self):
        """The last comparison, and the end of everything."""
        for box in list(self.boxes.values()):
            self.agree(box)
            if box.state != "running":
                self.call("POST", at(box.id, "/resume")).ok()
            answer = self.call("POST", at(box.id, "/actions"), run_action("cat log 2>/dev/null | wc -l"))
            assert answer.ok().json["content"].split()[-1] == str(box.lines), (box.id, box.lines, answer)
            assert self.call("DELETE", at(box.id)).status in (200, 204, 404)


def report(drivers):
    return json.dumps([{"calls": d.calls, "repeats": d.repeats, "boxes": len(d.mine)} for d in drivers])

"""Paths of the machine stay with its operator: neither an observation nor the reason of a sandbox nor an event tells a
tenant where the state directory or a socket in it is.  The log does."""

import json

import pytest

from native import at, make, run_action
from services import Service, eventually, example_runtime

LINE = '            status = "error" if self.base.exists() else "missing"\n'
MORE = """            if status == "error":
                said = f"{self.socket} does not answer; {self.base}: see there"
                return {"status": status, "ref": self.ref or None, "reason": said, "isolation": {"pid": False}}
"""


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path, runtime="telling", env=example_runtime(tmp_path, "telling", LINE, MORE)).start()
    yield service
    service.finish()


def test_a_sandbox_that_ends_tells_no_path(service):
    alice, state = service.tenant("alice"), str(service.state)
    box = make(alice)
    seen = alice.post(at(box, "/actions"), run_action("kill -9 $PPID"))
    told = eventually(lambda: (now := alice.get(at(box)).ok().json)["reason"] and now, "a reason")
    assert told["reason"] == "a file of the service does not answer; a file of the service: see there"
    events = alice.get(at(box, "/events")).ok().json
    for answer in (seen.json, told, events):
        assert state not in json.dumps(answer), answer
    assert "does not answer" in json.dumps(seen.json), seen.json
    assert f"{state}/example" in service.log()

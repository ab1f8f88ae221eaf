"""Actions that a user rejected or has not confirmed: in every dialect answered, journaled, never carried out."""

import pytest

from native import at, make, run
from openhands_clients import COMMAND, IMAGE

REJECTED = "Action has been rejected by the user! Waiting for further user input."


@pytest.fixture
def service(make_service, jail_works):
    return make_service().start()


def action(state):
    return {"action": {"action": "run", "args": {"command": "touch /tmp/done", "confirmation_state": state}}}


def answers(post):
    seen = [post(action(state)).ok().json for state in ("rejected", "awaiting_confirmation")]
    assert [(o["observation"], o["content"]) for o in seen] == [("user_rejected", REJECTED), ("null", "")]


def test_native(service):
    admin = service.client()
    box = make(admin)
    for path in ("/actions", "/hand/execute_action", "/hand/execute%5Faction"):
        answers(lambda body: admin.post(at(box, path), body))
    assert run(admin, box, "ls /tmp/done")["extras"]["metadata"]["exit_code"] == 2
    events = admin.get(at(box, "/events")).ok().json["events"]
    states = [e["args"]["confirmation_state"] for e in events if e.get("action") == "run"]
    assert states[:2] == ["rejected", "awaiting_confirmation"]
    rejected = next(e for e in events if e.get("observation") == "user_rejected")
    assert rejected["content"] == REJECTED and rejected["cause"] == events[0]["id"]
    assert not [e for e in events if e.get("observation") == "null"]


def test_it_wakes_nobody_and_its_key_stays_free(service):
    admin = service.client()
    box = make(admin)
    key = {"Idempotency-Key": "once"}
    admin.post(at(box, "/pause")).ok()
    answers(lambda body: admin.post(at(box, "/actions"), body, headers=key))
    assert admin.get(at(box)).ok().json["state"] == "paused"
    admin.post(at(box, "/resume")).ok()
    admin.post(at(box, "/actions"), action("confirmed"), headers=key).ok()
    assert run(admin, box, "ls /tmp/done")["content"] == "/tmp/done"


def test_openhands_runtime_api(service):
    admin = service.client()
    runtime = admin.post("/start", {"image": IMAGE, "command": COMMAND, "session_id": "c"}).ok().json
    headers = {"X-Session-API-Key": runtime["session_api_key"]}
    answers(lambda body: admin.post(f"/{runtime['runtime_id']}/execute_action", body, headers=headers))
    admin.post("/stop", {"runtime_id": runtime["runtime_id"]}).ok()

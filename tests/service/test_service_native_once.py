"""Exactly once, and in time: actions through the service, whatever happens to it."""

import contextlib
import http.client
import os
import signal
import threading
import time

import pytest

from model import hand_of
from native import at, make, run, run_action
from services import eventually, preloaded


@pytest.fixture
def service(make_service, jail_works):
    return make_service().start()


def on_the_side(client, box, command):
    """Runs a command in another shell than the one that is busy."""
    action = {"action": "run", "args": {"command": command, "session": "side"}}
    return client.post(at(box, "/actions"), {"action": action}).ok().json["content"]


def test_an_action_is_carried_out_and_noted_once_over_kill_9_of_the_service(service):
    admin = service.client()
    box = make(admin)
    key = {"Idempotency-Key": "the-one"}
    # It is running when the service dies, and is asked for again from the next one.
    slow = run_action("echo ran >> /tmp/ran; until [ -e /tmp/go ]; do :; done; wc -l < /tmp/ran", timeout=60)
    lost = []

    def ask():
        try:
            service.client().post(at(box, "/actions"), slow, headers=key)
        except (http.client.HTTPException, OSError) as error:
            lost.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: on_the_side(admin, box, "cat /tmp/ran 2>/dev/null"), "it runs")
    service.restart(kill=True)
    asking.join()
    assert lost
    admin = service.client()
    threading.Timer(0.2, lambda: service.client().put(at(box, "/files", path="/tmp/go"), b"").ok(201)).start()
    first = admin.post(at(box, "/actions"), slow, headers=key).ok()
    assert first.json["content"] == "1" and first.headers["idempotency-replayed"] == "true"
    # And once more, when all is over, from a third one.
    service.restart(kill=True)
    admin = service.client()
    again = admin.post(at(box, "/actions"), slow, headers=key).ok()
    assert again.body == first.body and again.headers["idempotency-replayed"] == "true"
    assert on_the_side(admin, box, "wc -l < /tmp/ran") == "1"
    events = admin.get(at(box, "/events")).ok().json["events"]
    actions = [e for e in events if e.get("idempotency_key") == "the-one"]
    assert len(actions) == 1
    assert len([e for e in events if e.get("cause") == actions[0]["id"]]) == 1
    admin.delete(at(box)).ok(204)


def test_an_action_that_was_refused_because_nothing_ran_is_carried_out_later(service):
    admin = service.client()
    box = make(admin)
    key = {"Idempotency-Key": "later"}
    admin.post(at(box, "/stop")).ok()
    admin.post(at(box, "/actions"), run_action("echo now", timeout=5), headers=key).ok(503)
    admin.post(at(box, "/resume")).ok()
    assert run(admin, box, "echo now", timeout=5, headers=key)["content"] == "now"
    assert len(admin.get(at(box, "/events")).ok().json["events"]) == 2
    admin.delete(at(box)).ok(204)


def test_the_same_key_for_something_else_is_refused(service):
    admin = service.client()
    box = make(admin)
    key = {"Idempotency-Key": "k"}
    run(admin, box, "echo 1", headers=key)
    reply = admin.post(at(box, "/actions"), run_action("echo 2"), headers=key).ok(422)
    assert reply.headers["content-type"] == "application/problem+json"
    admin.post(at(box, "/actions"), run_action("echo 2"), headers={"Idempotency-Key": "x" * 256}).ok(400)
    assert len(admin.get(at(box, "/events")).ok().json["events"]) == 2
    admin.delete(at(box)).ok(204)


def test_a_sandbox_that_does_not_answer_is_no_reason_to_hang(service):
    admin = service.client()
    box = make(admin)
    began = time.monotonic()
    seen = []

    def ask():
        seen.append(service.client().post(at(box, "/actions"), run_action("sleep 100", timeout=2)))

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: admin.get(at(box)).ok().json["last_action"], "it is under way")
    admin.post(at(box, "/pause")).ok()  # frozen: its hand cannot answer any more
    asking.join()
    assert seen[0].status == 504 and seen[0].json["code"] == "timeout"
    assert time.monotonic() - began < 30
    events = admin.get(at(box, "/events")).ok().json["events"]
    assert events[-1]["observation"] == "error" and events[-1]["cause"] == events[0]["id"]
    admin.post(at(box, "/resume")).ok()
    admin.delete(at(box)).ok(204)


def test_a_hand_that_dies_under_an_action_is_told(service):
    admin = service.client()
    box = make(admin)
    seen = []

    def ask():
        seen.append(service.client().post(at(box, "/actions"), run_action("sleep 100", timeout=90)))

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: admin.get(at(box)).ok().json["last_action"], "it is under way")
    os.kill(hand_of(box["id"]), signal.SIGKILL)
    asking.join()
    assert seen[0].status == 502 and "sandbox" in seen[0].json["detail"].lower()
    assert admin.get(at(box, "/events")).ok().json["events"][-1]["observation"] == "error"
    admin.delete(at(box)).ok(204)


def test_an_action_is_not_carried_out_again_by_a_hand_that_was_started_anew(service):
    """The new hand knows nothing of it: its answer is in the journal, or nobody has it."""
    admin = service.client()
    box = make(admin, workspace="/workspace")
    done, lost = {"Idempotency-Key": "done"}, {"Idempotency-Key": "lost"}
    first = run(admin, box, "echo x >> done; wc -l < done", headers=done)
    asking = threading.Thread(
        target=lambda: service.client().post(
            at(box, "/actions"), run_action("echo x >> lost; sleep 100", timeout=90), headers=lost
        )
    )
    asking.start()
    eventually(lambda: on_the_side(admin, box, "cat /workspace/lost 2>/dev/null"), "it runs")
    admin.post(at(box, "/stop")).ok()
    admin.post(at(box, "/resume")).ok()
    asking.join()
    for restart in (False, True):
        if restart:
            service.restart(kill=True)
            admin = service.client()
        again = admin.post(at(box, "/actions"), run_action("echo x >> done; wc -l < done"), headers=done).ok()
        assert again.headers["idempotency-replayed"] == "true" and again.json["content"] == first["content"] == "1"
        again = admin.post(at(box, "/actions"), run_action("echo x >> lost; sleep 100", timeout=90), headers=lost).ok()
        assert again.json["observation"] == "error" and "started anew" in again.json["content"]
    assert on_the_side(admin, box, "cat /workspace/done /workspace/lost | wc -l") == "2"
    admin.delete(at(box)).ok(204)


def crowd_out(client, box):
    """More answers than a hand keeps: those of before are gone, their keys are not."""
    for number in range(5):
        action = {"action": "read", "args": {"path": "/tmp/large"}}
        client.post(at(box, "/actions"), {"action": action}, headers={"Idempotency-Key": f"crowd-{number}"}).ok()


def test_an_answer_that_the_hand_does_not_keep_is_the_journals(service):
    admin = service.client()
    box = make(admin)
    key = {"Idempotency-Key": "answered"}
    run(admin, box, "head -c 300000 /dev/zero | tr '\\0' x >/tmp/large")
    first = run(admin, box, "echo ran >> /tmp/ran; wc -l < /tmp/ran", headers=key)
    crowd_out(admin, box)
    for restart in (False, True):
        if restart:
            service.restart(kill=True)
            admin = service.client()
        again = admin.post(at(box, "/actions"), run_action("echo ran >> /tmp/ran; wc -l < /tmp/ran"), headers=key).ok()
        assert again.headers["idempotency-replayed"] == "true" and again.json["content"] == first["content"] == "1"
    assert on_the_side(admin, box, "wc -l < /tmp/ran") == "1"
    admin.delete(at(box)).ok(204)


def test_an_answer_that_nobody_kept_is_told_as_such_and_the_action_is_not_run_again(service):
    """It came when its service was gone, and the hand let go of it before somebody asked for it again."""
    admin = service.client()
    box = make(admin)
    key = {"Idempotency-Key": "lost"}
    run(admin, box, "head -c 300000 /dev/zero | tr '\\0' x >/tmp/large")
    slow = run_action("echo ran >> /tmp/ran; until [ -e /tmp/go ]; do :; done; touch /tmp/done", timeout=60)

    def ask():
        with contextlib.suppress(http.client.HTTPException, OSError):
            service.client().post(at(box, "/actions"), slow, headers=key)

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: on_the_side(admin, box, "cat /tmp/ran 2>/dev/null"), "it runs")
    service.restart(kill=True)
    asking.join()
    admin = service.client()
    admin.put(at(box, "/files", path="/tmp/go"), b"").ok(201)
    eventually(lambda: on_the_side(admin, box, "ls /tmp/done 2>/dev/null"), "it is done")
    crowd_out(admin, box)
    again = admin.post(at(box, "/actions"), slow, headers=key).ok()
    assert again.json["observation"] == "error" and "not kept any more" in again.json["content"], again.json
    assert again.headers["idempotency-replayed"] == "true"
    assert on_the_side(admin, box, "wc -l < /tmp/ran") == "1"
    admin.delete(at(box)).ok(204)


def test_an_action_that_never_reached_the_hand_is_carried_out_when_asked_for_again(make_service, jail_works, tmp_path):
    """The service dies between its journal and the hand, which is the same one afterwards and does not know it."""
    switch = tmp_path / "switch"
    service = make_service(env={**preloaded("never-sent.c", tmp_path), "TN_TEST_NEVER_SENT": str(switch)}).start()
    admin = service.client()
    box = make(admin)
    key = {"Idempotency-Key": "never-sent"}
    action = run_action("echo ran >> /tmp/ran; wc -l < /tmp/ran")
    switch.touch()
    with pytest.raises((http.client.HTTPException, OSError)):
        service.client().post(at(box, "/actions"), action, headers=key)
    service.wait()
    service.start()
    admin = service.client()
    assert [e.get("idempotency_key") for e in admin.get(at(box, "/events")).ok().json["events"]] == ["never-sent"]
    for replayed in (None, "true"):
        reply = admin.post(at(box, "/actions"), action, headers=key).ok()
        assert reply.json["content"] == "1" and reply.headers["idempotency-replayed"] == replayed, reply
    events = admin.get(at(box, "/events")).ok().json["events"]
    assert len(events) == 2 and events[1]["cause"] == events[0]["id"]
    admin.delete(at(box)).ok(204)


def test_a_page_goes_on_behind_a_sandbox_that_is_gone_also_for_the_next_service(service):
    admin = service.client()
    ids = [admin.post("/v1/sandboxes", {"plugins": [], "wait": 0}).ok(201).json["id"] for _ in range(4)]
    page = admin.get("/v1/sandboxes?limit=2").ok().json
    assert [b["id"] for b in page["sandboxes"]] == ids[:2]
    admin.delete(at(ids[1])).ok(204)
    service.restart(kill=True)
    admin = service.client()
    rest = admin.get(f"/v1/sandboxes?page={page['next']}").ok().json
    assert [b["id"] for b in rest["sandboxes"]] == ids[2:]
    for ident in (ids[0], *ids[2:]):
        admin.delete(at(ident)).ok(204)


def test_a_hidden_action_is_carried_out_once_also_after_its_hand_was_started_anew(service):
    """No journal has it, and its new hand knows nothing."""
    admin = service.client()
    box = make(admin)
    action = {"action": "run", "args": {"command": "echo ran >> ran; cat ran", "hidden": True}, "timeout": 20}
    key = {"Idempotency-Key": "hidden"}
    assert admin.post(at(box, "/actions"), {"action": action}, headers=key).ok().json["content"] == "ran"
    admin.post(at(box, "/stop")).ok()
    admin.post(at(box, "/resume")).ok()
    again = admin.post(at(box, "/actions"), {"action": action}, headers=key).ok()
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json["content"] == "The action was carried out; its answer is not kept any more."
    assert again.json["extras"]["hidden"] is True
    assert run(admin, box, "cat ran")["content"] == "ran"
    admin.delete(at(box)).ok(204)


def test_what_is_no_action_wakes_nobody(service):
    admin = service.client()
    box = make(admin)
    admin.post(at(box, "/pause")).ok()
    for body, status in ((b"{", 400), ({}, 422), ({"action": 1}, 422), ({"action": {"action": "no such"}}, 422)):
        admin.post(at(box, "/actions"), body).ok(status)
    assert admin.post(at(box, "/actions"), {"action": {"action": "think", "args": {"thought": "x"}}}).ok().json[
        "observation"
    ] == "think"
    assert admin.get(at(box)).ok().json["state"] == "paused"
    assert [e.get("action") for e in admin.get(at(box, "/events")).ok().json["events"]] == ["think", None]
    admin.delete(at(box)).ok(204)

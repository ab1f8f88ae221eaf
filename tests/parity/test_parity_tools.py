"""Tools of MCP servers through the service: whose they are, and that a call is made once."""

import threading

import pytest

CALL = {"action": "call_tool_mcp", "args": {"name": "add", "arguments": {"a": 1, "b": 2}}, "timeout": 60}
COUNT = {"action": "run", "args": {"command": "wc -l < /tmp/tool-calls"}, "timeout": 20}


@pytest.fixture
def face(world):
    return world.face("native")


def calls(face):
    return int(face.execute(COUNT)["content"])


def test_a_call_is_made_once(world, face):
    face.execute(CALL)
    before, key = calls(face), {"Idempotency-Key": "add-once"}
    first = face.send(CALL, key).ok()
    again = face.send(CALL, key).ok()
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json["content"] == first.json["content"] and "3" in first.json["content"]
    world.service.restart(kill=True)
    face.client.close()
    assert face.send(CALL, key).ok().json["content"] == first.json["content"]
    assert calls(face) == before + 1


def test_a_key_belongs_to_one_action(world, face):
    key = {"Idempotency-Key": "one-action"}
    face.send(CALL, key).ok()
    other = {**CALL, "args": {"name": "add", "arguments": {"a": 5, "b": 5}}}
    refused = face.send(other, key)
    assert refused.status == 422 and "another action" in refused.text
    world.service.restart(kill=True)
    face.client.close()
    assert face.send(other, key).status == 422
    assert "3" in face.send(CALL, key).ok().json["content"]


def test_two_at_once_with_one_key(world, face):
    """One opens the tool; the others hear that it is being done, however many there are and whatever memory is left."""
    face.execute(CALL)
    before, answers = calls(face), []

    def ask():
        client = world.service.client()
        answers.append(client.post(face.path, {"action": CALL}, headers={"Idempotency-Key": "together"}))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        assert answer.status in (200, 409), answer
    assert len({answer.json["content"] for answer in answers if answer.status == 200}) == 1
    assert calls(face) == before + 1


def test_tenants_have_them_only_if_the_operator_says_so(world):
    tenant = world.service.tenant("acme")
    box = tenant.post("/v1/sandboxes", {"plugins": []}).ok(201).json
    path = f"/v1/sandboxes/{box['id']}/actions"
    told = tenant.post(path, {"action": CALL}).ok().json
    assert told["observation"] == "mcp" and "3" in told["content"]
    world.service.settings["tools"] = "false"
    world.service.restart()
    tenant.close()
    key = {"Idempotency-Key": "not-yet"}
    told = tenant.post(path, {"action": CALL}, headers=key).ok().json
    assert told["observation"] == "error" and "service.tools" in told["content"]
    assert "3" in world.service.client().post(path, {"action": CALL}).ok().json["content"]  # the administrator
    world.service.settings["tools"] = "true"
    world.service.restart()
    tenant.close()
    assert "3" in tenant.post(path, {"action": CALL}, headers=key).ok().json["content"]  # a refusal keeps no key
    tenant.delete(f"/v1/sandboxes/{box['id']}").ok(204)

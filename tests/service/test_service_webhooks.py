"""Webhooks of OpenHands: what agent servers tell, and the secrets they ask for."""

import base64
import hashlib
import hmac
import json
import sqlite3

import pytest

from openapi_document import Document
from services import Client

BASE = "/api/v1/webhooks"


@pytest.fixture(scope="module")
def document():
    return Document("openapi-sandboxes.yaml")


@pytest.fixture
def call(acme, document):
    return document.caller(acme, status=200)


@pytest.fixture
def sandbox(acme):
    made = acme.post("/api/v1/sandboxes").ok().json
    yield made
    acme.delete(f"/api/v1/sandboxes/{made['id']}")


@pytest.fixture
def agent(service, sandbox):
    """The agent server in the sandbox: it has the session key, and no other."""
    client = Client(service, headers={"X-Session-API-Key": sandbox["session_api_key"]})
    yield client
    client.close()


def rows(service, table):
    with sqlite3.connect(f"file:{next(service.state.glob('*.db'))}?mode=ro", uri=True) as db:
        return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


# --- conversations and events ------------------------------------------------------------------------


def test_conversations_and_events(service, acme, call, agent, sandbox):
    box = sandbox["id"]
    info = {"id": "c0ffee", "title": "first", "nested": {"a": [1, 2.5, None, "ü"]}}
    assert call("POST", f"{BASE}/{box}/conversations", info, client=agent).json == {"success": True}
    call("POST", f"{BASE}/{box}/conversations", {**info, "title": "renamed"}, client=agent)
    call("POST", f"{BASE}/{box}/conversations", {"id": "second"}, client=agent)
    told = call("GET", f"{BASE}/{box}/conversations").json["items"]
    assert [c["id"] for c in told] == ["second", "c0ffee"]
    assert told[1]["info"] == {**info, "title": "renamed"}

    events = [{"id": f"e{i}", "kind": "MessageEvent", "n": i} for i in range(5)]
    target = f"{BASE}/{box}/events/c0ffee"
    call("POST", target, events[:3], client=agent)
    call("POST", target, events[1:], client=agent)  # told again: kept once
    call("POST", target, [{"kind": "no id"}, {"kind": "no id"}], client=agent)
    call("POST", target, [], client=agent)
    page = call("GET", f"{target}?limit=4").json
    assert [e["event"] for e in page["items"]] == events[:4]
    rest = call("GET", f"{target}?limit=4&page_id={page['next_page_id']}").json
    assert [e["event"] for e in rest["items"]] == [events[4], {"kind": "no id"}] and rest["next_page_id"] is None
    assert call("GET", f"{BASE}/{box}/events/nothing").json["items"] == []

    # Still there after the service was killed, gone with the sandbox.
    service.restart(kill=True)
    acme.close()
    assert len(call("GET", target).json["items"]) == 6
    acme.delete(f"/api/v1/sandboxes/{box}").ok()
    call("GET", target, status=404)
    assert rows(service, "webhook_event") == rows(service, "conversation") == 0


def test_only_the_newest_are_kept(service, call, agent, sandbox):
    target = f"{BASE}/{sandbox['id']}/events/many"
    big = "x" * 1900000
    for i in range(10):
        call("POST", target, [{"id": f"big{i}", "text": big}], client=agent)
    kept = rows(service, "webhook_event")
    assert kept == 8  # of at most 16 MiB
    told = call("GET", f"{target}?limit=1").json
    assert told["items"][0]["event"]["id"] == "big2"


def test_who_may_tell(service, acme, other, call, agent, sandbox):
    box, stranger = sandbox["id"], service.stranger()
    second = acme.post("/api/v1/sandboxes").ok().json
    for target, body in ((f"{BASE}/{{}}/conversations", {"id": "c"}), (f"{BASE}/{{}}/events/c", [])):
        refusals = [
            call("POST", target.format(box), body, 401, client=stranger),
            call("POST", target.format(box), body, 401, {"X-Session-API-Key": "wrong"}, stranger),
            call("POST", target.format("abcdefghij"), body, 401, {"X-Session-API-Key": "wrong"}, stranger),
            call("POST", target.format(second["id"]), body, 401, client=agent),
            call("POST", target.format(box), body, 401, client=other),
            call("POST", target.format(box), body, 401),  # the key of its tenant does not make it the sandbox
        ]
        assert len({r.body for r in refusals}) == 1
    acme.delete(f"/api/v1/sandboxes/{second['id']}").ok()


def test_malformed(call, agent, sandbox):
    conversations, events = f"{BASE}/{sandbox['id']}/conversations", f"{BASE}/{sandbox['id']}/events/c"
    for body in ({}, {"id": 1}, {"id": ""}, {"id": 129 * "x"}, []):
        call("POST", conversations, body, 422, client=agent)
    for body in ({}, [1], [[]], [None], None, [{"id": str(i)} for i in range(1001)]):
        call("POST", events, json.dumps(body).encode(), 422, client=agent)
    call("POST", f"{BASE}/{sandbox['id']}/events/{129 * 'x'}", [], 422, client=agent)
    for target in (conversations, events):
        call("POST", target, b"{", 400, client=agent)
        call("POST", target, b'"' + (3 << 20) * b"x" + b'"', 413, client=agent)
    for query in ("limit=0", "limit=101", "limit=x", "page_id=x", "page_id=-1"):
        call("GET", f"{events}?{query}", status=422)


# --- secrets -------------------------------------------------------------------------------------------


def ask(call, service, token, status=200):
    return call("GET", f"{BASE}/secrets", None, status, {"X-Access-Token": token} if token else None, service.stranger())


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def forge(claims, secret, alg="HS256"):
    text = part({"alg": alg, "typ": "JWT"}) + b"." + part(claims)
    mac = hmac.new(secret, text, hashlib.sha256).digest() if secret is not None else b""
    return (text + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


def test_secrets(service, acme, other, call):
    call("PUT", f"{BASE}/secrets/github", b"ghp_first")
    call("PUT", f"{BASE}/secrets/github", "ghp_söcret".encode())
    made = call("POST", f"{BASE}/secrets/github/token").json
    assert made["expires_in"] == 3600
    answer = ask(call, service, made["access_token"])
    assert answer.text == "ghp_söcret" and answer.headers["Cache-Control"] == "no-store"
    # What the token says, and that it is an ordinary JWS.
    head, claims, _ = (json.loads(base64.urlsafe_b64decode(p + "==")) if i < 2 else p for i, p in enumerate(made["access_token"].split(".")))
    assert head["alg"] == "HS256" and claims["user_id"] == "acme" and claims["provider_type"] == "github"
    # Another tenant has none, and cannot have a token for ours.
    call("POST", f"{BASE}/secrets/github/token", status=404, client=other)
    call("DELETE", f"{BASE}/secrets/github", status=404, client=other)
    assert ask(call, service, made["access_token"]).text == "ghp_söcret"
    call("DELETE", f"{BASE}/secrets/github")
    ask(call, service, made["access_token"], 404)
    call("DELETE", f"{BASE}/secrets/github", status=404)
    call("POST", f"{BASE}/secrets/github/token", status=404)
    written = (service.state / "audit.log").read_text() + service.log()
    assert "ghp_" not in written and made["access_token"] not in written
    whats = [line["what"] for line in service.audit()]
    assert {"secret.set", "secret.token", "secret.read", "secret.delete"} <= set(whats)


def test_tokens_that_open_nothing(service, call):
    call("PUT", f"{BASE}/secrets/gitlab", b"glpat")
    good = call("POST", f"{BASE}/secrets/gitlab/token?seconds=1").json["access_token"]
    claims = {"user_id": "acme", "provider_type": "gitlab"}
    head, body, mac = good.split(".")
    for token in (
        None,
        "x",
        f"{head}.{body}.",
        f"{head}.{part({**claims, 'user_id': 'other'}).decode()}.{mac}",
        forge(claims, b"guess"),
        forge(claims, b""),
        forge(claims, None, "none"),
        good + "x",
    ):
        ask(call, service, token, 401)
    for seconds in ("0", "x", "99999999"):
        call("POST", f"{BASE}/secrets/gitlab/token?seconds={seconds}", status=422)
    call("DELETE", f"{BASE}/secrets/gitlab")


def test_malformed_secrets(call):
    call("PUT", f"{BASE}/secrets/github", b"", 422)
    call("PUT", f"{BASE}/secrets/github", b"a\0b", 422)
    call("PUT", f"{BASE}/secrets/github", 65537 * b"x", 413)
    for i in range(100):
        call("PUT", f"{BASE}/secrets/n{i}", b"x")
    call("PUT", f"{BASE}/secrets/n100", b"x", 429)
    call("PUT", f"{BASE}/secrets/n99", b"changed")
    for i in range(100):
        call("DELETE", f"{BASE}/secrets/n{i}")
    for name in ("a%2Fb", "%20", 65 * "x", "a%0Ab"):
        call("PUT", f"{BASE}/secrets/{name}", b"x", 422)


def test_too_many_deliveries(agent, sandbox):
    """A sandbox that never ends telling is asked to wait; what it is told is when to come again."""
    for _ in range(20000):  # what is refused counts, and waits for no disk
        answer = agent.post(f"{BASE}/{sandbox['id']}/conversations", {})
        if answer.status == 429:
            break
        assert answer.status == 422, answer
    assert answer.status == 429 and int(answer.headers["Retry-After"]) >= 1, answer

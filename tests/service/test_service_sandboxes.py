"""The sandbox API of OpenHands, /api/v1: sandboxes, specs, and the bugs of the original that are none here."""

import os
import signal

import pytest

from model import hand_of
from openapi_document import Document, routes_of
from openhands_clients import exposed, wait_for_sandbox
from services import Client, eventually

CONFIG = """
[template.small]
memory = "256m"
workspace = "/home/openhands/workspace"
env = {SIZE = "small"}
[template.broken]
image = "/no/such/image"
"""
BASE = "/api/v1/sandboxes"


@pytest.fixture(scope="module")
def document():
    return Document("openapi-sandboxes.yaml")


@pytest.fixture
def call(acme, document):
    return document.caller(acme, status=200)


@pytest.fixture
def sandbox(call):
    """A new one, gone at the end."""
    made = call("POST", BASE).json
    yield made
    call("DELETE", f"{BASE}/{made['id']}", status=None)


def one(call, ident, **kwargs):
    (told,) = call("GET", f"{BASE}?id={ident}", **kwargs).json
    return told


def run(service, sandbox, command):
    """As the application server speaks to the agent server: its URL and its key, nothing else."""
    client = Client(service, headers={"X-Session-API-Key": sandbox["session_api_key"]})
    path = exposed(sandbox, "AGENT_SERVER").removeprefix(service.url)
    answer = client.post(f"{path}/execute_action", {"action": {"action": "run", "args": {"command": command}}})
    client.close()
    return answer.ok().json["content"]


# --- the flow ------------------------------------------------------------------------------------


def test_start_use_pause_resume_delete(service, acme, call):
    made = call("POST", f"{BASE}?sandbox_spec_id=small").json
    assert made["sandbox_spec_id"] == "small" and made["created_by_user_id"] == "acme"
    sandbox = wait_for_sandbox(acme, made["id"])
    assert run(service, sandbox, "echo $SIZE; pwd") == "small\n/home/openhands/workspace"
    assert [url["name"] for url in sandbox["exposed_urls"]] == ["AGENT_SERVER", "VSCODE", "WORKER_1", "WORKER_2"]
    assert "%2Fhome%2Fopenhands%2Fworkspace" in exposed(sandbox, "VSCODE")

    assert call("POST", f"{BASE}/{made['id']}/pause").json == {"success": True, "status": "PAUSED"}
    paused = one(call, made["id"])
    assert (paused["status"], paused["session_api_key"], paused["exposed_urls"]) == ("PAUSED", None, None)
    # The original tells of a sandbox that it has just resumed as it was before.
    assert call("POST", f"{BASE}/{made['id']}/resume").json == {"success": True, "status": "RUNNING"}
    assert one(call, made["id"])["status"] == "RUNNING"

    assert call("DELETE", f"{BASE}/{made['id']}").json == {"success": True}
    assert one(call, made["id"]) is None
    call("DELETE", f"{BASE}/{made['id']}", status=404)


def test_idle_is_running(service, acme, call, sandbox):
    """The original shows a server that waits for work as STARTING."""
    eventually(lambda: one(call, sandbox["id"])["status"] == "RUNNING", "RUNNING")
    assert run(service, one(call, sandbox["id"]), "true") == ""
    assert one(call, sandbox["id"])["status"] == "RUNNING"


def test_delete_with_the_id_where_the_original_wants_it(call):
    ident = call("POST", BASE).json["id"]
    call("DELETE", f"{BASE}/{ident}?sandbox_id=abcdefghij", status=422)
    assert one(call, ident)["status"] == "RUNNING"
    call("DELETE", f"{BASE}/{ident}?sandbox_id={ident}")
    assert one(call, ident) is None


def test_stopped_is_paused(acme, call, sandbox):
    acme.post(f"/v1/sandboxes/{sandbox['id']}/stop").ok()
    assert one(call, sandbox["id"])["status"] == "PAUSED"
    call("POST", f"{BASE}/{sandbox['id']}/pause", status=409)
    assert call("POST", f"{BASE}/{sandbox['id']}/resume").json["status"] == "RUNNING"


def test_one_that_fails_is_there_to_be_seen(call):
    made = call("POST", f"{BASE}?sandbox_spec_id=broken").json
    told = eventually(lambda: (t := one(call, made["id"]))["status"] == "ERROR" and t, "ERROR")
    assert "/no/such/image" in told["reason"] and told["exposed_urls"] is None
    call("DELETE", f"{BASE}/{made['id']}")


def test_one_that_dies(call, sandbox):
    os.kill(hand_of(sandbox["id"]), signal.SIGKILL)
    told = eventually(lambda: (t := one(call, sandbox["id"]))["status"] == "ERROR" and t, "ERROR")
    assert told["session_api_key"] is None and told["reason"]
    assert call("POST", f"{BASE}/{sandbox['id']}/resume").json["status"] == "RUNNING"


# --- pages -----------------------------------------------------------------------------------------


def test_pages(service, document):
    client = service.tenant("pages")
    made = [client.post(BASE).ok().json["id"] for _ in range(5)]

    def page(query):
        told = document.check("GET", f"{BASE}/search{query}", client.get(f"{BASE}/search{query}")).ok().json
        return [s["id"] for s in told["items"]], told["next_page_id"]

    assert page("") == (made, None)
    first, next_id = page("?limit=2")
    assert first == made[:2]
    # What is deleted between two pages makes the second skip nothing.
    client.delete(f"{BASE}/{made[0]}").ok()
    second, next_id = page(f"?limit=2&page_id={next_id}")
    assert second == made[2:4]
    client.delete(f"{BASE}/{made[3]}").ok()
    assert page(f"?limit=2&page_id={next_id}") == (made[4:], None)
    assert page("?page_id=no-such-page")[0] == [made[1], made[2], made[4]]
    other = service.tenant("pager")
    theirs = other.post(BASE).ok().json["id"]
    assert page(f"?page_id={theirs}")[0] == [made[1], made[2], made[4]]  # that of another tenant is none
    other.delete(f"{BASE}/{theirs}").ok()
    assert page(f"?page_id={theirs}")[0] == [made[1], made[2], made[4]]
    for ident in (made[1], made[2], made[4]):
        client.delete(f"{BASE}/{ident}").ok()


@pytest.mark.parametrize("path", [f"{BASE}/search", "/api/v1/sandbox-specs/search"])
def test_limits_of_pages(call, path):
    for limit in ("101", "0", "-1", "x", "1.5", ""):
        call("GET", f"{path}?limit={limit}", status=422)
    call("GET", f"{path}?limit=100")


def test_many_ids(call, sandbox):
    told = call("GET", f"{BASE}?id=abcdefghij&id={sandbox['id']}&id=&id={sandbox['id']}").json
    assert [t and t["id"] for t in told] == [None, sandbox["id"], None, sandbox["id"]]
    call("GET", BASE, status=422)
    call("GET", f"{BASE}?" + "&".join(f"id={i}" for i in range(100)))
    call("GET", f"{BASE}?" + "&".join(f"id={i}" for i in range(101)), status=422)


# --- specs -----------------------------------------------------------------------------------------


def test_specs(service, call):
    told = call("GET", "/api/v1/sandbox-specs/search").json
    assert [s["id"] for s in told["items"]] == ["default", "small", "broken"] and told["next_page_id"] is None
    small = told["items"][1]
    assert small["working_dir"] == "/home/openhands/workspace" and small["initial_env"]["SIZE"] == "small"
    first = call("GET", "/api/v1/sandbox-specs/search?limit=2").json
    assert [s["id"] for s in first["items"]] == ["default", "small"] and first["next_page_id"] == "small"
    rest = call("GET", f"/api/v1/sandbox-specs/search?page_id={first['next_page_id']}").json
    assert [s["id"] for s in rest["items"]] == ["broken"] and rest["next_page_id"] is None
    assert call("GET", "/api/v1/sandbox-specs?id=small&id=none").json == [small, None]
    call("GET", "/api/v1/sandbox-specs", status=422)
    call("POST", f"{BASE}?sandbox_spec_id=none", status=404)
    reader = service.tenant("acme", "--scope", "read")
    (told,) = call("GET", "/api/v1/sandbox-specs?id=small", client=reader).json
    assert told["initial_env"] == {}


# --- limits ----------------------------------------------------------------------------------------


def test_the_oldest_is_paused(make_service, jail_works):
    service = make_service(settings={"max_sandboxes": 2}).start()
    client = service.client()
    made = []
    for _ in range(3):
        made.append(client.post(BASE).ok().json["id"])
        wait_for_sandbox(client, made[-1])
    states = [s["status"] for s in client.get(f"{BASE}?" + "&".join(f"id={i}" for i in made)).json]
    assert states == ["PAUSED", "RUNNING", "RUNNING"]
    client.post(f"{BASE}/{made[0]}/resume").ok()
    states = [s["status"] for s in client.get(f"{BASE}?" + "&".join(f"id={i}" for i in made)).json]
    assert states == ["RUNNING", "PAUSED", "RUNNING"]


# --- every endpoint ----------------------------------------------------------------------------------


def test_the_document_and_the_routes(document):
    document.check_itself()
    assert routes_of("api-sandboxes.c", "api-webhooks.c") == {(m, p) for m, p, _, _ in document.operations()}


ENDPOINTS = [
    ("GET", f"{BASE}/search", "PUT"),
    ("GET", f"{BASE}?id=abcdefghij", "PUT"),
    ("POST", BASE, "DELETE"),
    ("POST", f"{BASE}/abcdefghij/pause", "GET"),
    ("POST", f"{BASE}/abcdefghij/resume", "GET"),
    ("DELETE", f"{BASE}/abcdefghij", "PUT"),
    ("GET", "/api/v1/sandbox-specs/search", "POST"),
    ("GET", "/api/v1/sandbox-specs?id=x", "POST"),
    ("GET", "/api/v1/webhooks/abcdefghij/conversations", "DELETE"),
    ("GET", "/api/v1/webhooks/abcdefghij/events/c", "DELETE"),
    ("PUT", "/api/v1/webhooks/secrets/github", "GET"),
    ("DELETE", "/api/v1/webhooks/secrets/github", "GET"),
    ("POST", "/api/v1/webhooks/secrets/github/token", "GET"),
]


@pytest.mark.parametrize("method, target, wrong", ENDPOINTS)
def test_wrong_keys_and_methods(service, acme, call, method, target, wrong):
    call(method, target, status=401, client=service.stranger())
    call(method, target, status=401, headers={"X-API-Key": "wrong"}, client=service.stranger())
    call(method, target, status=401, headers={"X-Session-API-Key": "wrong"}, client=service.stranger())
    answer = acme.request(wrong, target)
    assert answer.status == 405 and method in answer.headers["Allow"] and answer.json["detail"], answer


def test_scopes(service, acme, call, sandbox):
    reader = service.tenant("acme", "--scope", "read")
    told = one(call, sandbox["id"], client=reader)
    assert told["status"] == "RUNNING" and told["session_api_key"] is None and told["exposed_urls"] is None
    for method, target in (
        ("POST", BASE),
        ("POST", f"{BASE}/{sandbox['id']}/pause"),
        ("POST", f"{BASE}/{sandbox['id']}/resume"),
        ("DELETE", f"{BASE}/{sandbox['id']}"),
        ("PUT", "/api/v1/webhooks/secrets/github"),
        ("DELETE", "/api/v1/webhooks/secrets/github"),
        ("POST", "/api/v1/webhooks/secrets/github/token"),
    ):
        call(method, target, status=403, client=reader)


def test_another_tenant(service, call, sandbox):
    other = service.tenant("other")
    assert one(call, sandbox["id"], client=other) is None
    assert call("GET", f"{BASE}/search", client=other).json == {"items": [], "next_page_id": None}
    for method, target in (
        ("POST", f"{BASE}/{{}}/pause"),
        ("POST", f"{BASE}/{{}}/resume"),
        ("DELETE", f"{BASE}/{{}}"),
        ("GET", "/api/v1/webhooks/{}/conversations"),
        ("GET", "/api/v1/webhooks/{}/events/c"),
    ):
        theirs = call(method, target.format(sandbox["id"]), status=404, client=other)
        nobody = call(method, target.format("abcdefghij"), status=404, client=other)
        assert theirs.text.replace(sandbox["id"], "abcdefghij") == nobody.text
    assert one(call, sandbox["id"])["status"] == "RUNNING"


def test_quota(service, call, document):
    client = service.tenant("poor", "--max-sandboxes", "1")
    first = call("POST", BASE, client=client).json
    refused = call("POST", BASE, status=429, client=client)
    assert "Retry-After" not in refused.headers and "max_sandboxes" in refused.json["detail"]
    refused = client.post("/start", {"image": "x"})
    assert refused.status == 429, refused
    call("DELETE", f"{BASE}/{first['id']}", client=client)

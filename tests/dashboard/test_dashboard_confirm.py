"""Actions that wait for their confirmation: a card with the verdict, at the dashboard in a real Chromium."""

import pytest
from services import Service, eventually


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    settings = {"security.confirmation": "always"}
    service = Service(tmp_path_factory.mktemp("dashboard"), settings=settings).start()
    yield service
    service.finish()


def ask(client, box, action, **args):
    body = {"action": {"action": action, "args": args, "timeout": 30}}
    return client.post(f"/v1/sandboxes/{box}/actions", body, headers={"Prefer": "respond-async"}).ok(202).json["pending"]


def states(client, box):
    events = client.get(f"/v1/sandboxes/{box}/events").ok().json["events"]
    return [event.get("observation") or event["args"].get("confirmation_state", "confirmed") for event in events]


def test_a_card_is_answered(signed_in, service, box):
    page, client = signed_in, service.client()
    page.go(f"sandboxes/{box}/events")
    ask(client, box, "run", command="echo <b>card</b>")
    page.wait_text("May this be carried out?")
    page.wait_text("echo <b>card</b>")  # as text
    page.wait_text("no analyzer judges actions here")
    page.click_on("button", "Carry it out")
    page.wait_text("It was carried out")
    eventually(lambda: states(client, box)[-1] == "run", "its observation")
    ask(client, box, "edit", path="/tmp/x", command="create", file_text="one\ntwo\n")
    page.wait_text("+two")
    page.click_on("button", "Refuse")
    page.wait_text("It was refused")
    assert states(client, box)[-3:] == ["awaiting_confirmation", "rejected", "user_rejected"]
    eventually(lambda: not page.evaluate("document.querySelectorAll('.confirm-card').length"), "no card is left")


def test_a_connection_that_waits_has_a_card(signed_in, service):
    page, client = signed_in, service.client()
    made = client.post("/v1/sandboxes", {"plugins": [], "network": "allow", "allow": [], "ask": True})
    if made.status != 201:
        pytest.skip(f"no network gate on this machine: {made.text}")
    box = made.json["id"]
    one = ask(client, box, "run", command="curl -sS -m 60 http://asked.invalid:8080/ >/dev/null 2>&1 &")
    client.post(f"/v1/sandboxes/{box}/pending/{one['id']}", {"answer": "confirm"}).ok()
    page.go(f"sandboxes/{box}/events")
    page.wait_text("May it connect there?")
    page.wait_text("A connection to asked.invalid:8080, which no rule allows, waits")
    page.wait_text("Allow asked.invalid:8080 from now on")
    page.click_on("button", "Refuse")
    page.wait_text("It was refused")
    eventually(lambda: states(client, box)[-1] == "user_rejected", "its observation")
    client.delete(f"/v1/sandboxes/{box}")

"""What the network of a sandbox refused: a card with a button that adds the rule, in a real Chromium."""

import pytest
from services import Service, eventually

CONFIG = """
[jail]
network = "allow"
"""

ASK = """python3 - <<'END'
import socket
socket.socket().connect(('203.0.113.7', 4711))
s = socket.create_connection(('203.0.113.8', 80)); s.recv(1)
END
getent hosts '<b>x</b>.example' || false"""


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("dashboard"), config=CONFIG).start()
    yield service
    service.finish()


def test_one_click_adds_the_rule(signed_in, service, box):
    page, client = signed_in, service.client()
    page.go(f"sandboxes/{box}/events")
    body = {"action": {"action": "run", "args": {"command": ASK}, "timeout": 30}}
    client.post(f"/v1/sandboxes/{box}/actions", body).ok()
    page.wait_text("The network refused")
    page.wait_text("Allow 203.0.113.7:4711")
    assert not page.evaluate("document.querySelectorAll('.network-card b').length")
    page.click_on("button", "Allow 203.0.113.7:4711")
    page.wait_text("The network allows 203.0.113.7:4711 from now on")
    page.wait_text("allowed now")
    rules = lambda: client.get(f"/v1/sandboxes/{box}/network").ok().json["rules"]  # noqa: E731
    eventually(lambda: rules()[-1:] == ["203.0.113.7:4711"], "the rule")


def test_a_sandbox_that_asks_is_made_in_the_form(signed_in, service):
    """Rules and the switch `ask`; then a connection without a rule waits, and its card answers it."""
    page, client = signed_in, service.client()
    page.go("new")
    page.fill("input[name=name]", "asks")
    page.click_on("summary")
    page.evaluate("document.querySelector('select[name=network]').value = 'allow'")
    page.fill("textarea[name=allow]", "203.0.113.9:80")
    page.click_on("label", "Ask about connections that no rule allows")
    page.click_on("button", "Create")
    page.wait_element("h1", "asks")
    (made,) = client.get("/v1/sandboxes?name=asks").ok().json["sandboxes"]
    box = f"/v1/sandboxes/{made['id']}"
    eventually(lambda: client.get(box).ok().json["state"] == "running", "it runs")
    assert client.get(f"{box}/network").ok().json["rules"] == ["203.0.113.9:80"]
    command = "curl -sS -m 60 http://asked.invalid/ >/dev/null 2>&1 &"
    client.post(f"{box}/actions", {"action": {"action": "run", "args": {"command": command}, "timeout": 30}}).ok()
    page.wait_text("A connection to asked.invalid:80, which no rule allows, waits")
    page.click_on("button", "Refuse")
    page.wait_text("It was refused")
    client.delete(box)

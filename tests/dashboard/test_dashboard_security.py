"""What the dashboard tells of analyzers: who judges, what follows, and the verdict beside each action."""

import pytest

from services import Service

CONFIG = """
[security]
analyzers = ["llm", "policy"]
confirmation = "never"
unknown = "allow"
"""


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("judged"), config=CONFIG).start()
    yield service
    service.finish()


def test_the_page_tells_who_judges(page, service):
    page.sign_in(service.make_key("strict", "--tenant", "strict", "--medium", "block", "--confirmation", "always")["key"])
    page.go("security")
    page.wait_text("a language model's rating")
    page.wait_text("of this key: the service says ask")
    page.wait_text("somebody is asked about everything")


def test_a_key_gets_thresholds_of_its_own(signed_in, service):
    page = signed_in
    page.go("keys")
    page.click_on("button", "New key")
    page.fill("dialog input[name=name]", "careful")
    page.fill("dialog input[name=tenant]", "careful")
    for name, word in (("medium", "block"), ("confirmation", "always")):
        page.evaluate(f"document.querySelector('dialog select[name={name}]').value = '{word}'")
    page.click_on("dialog button", "Create")
    page.wait_element("input[aria-label='The new key']")
    key = page.evaluate("document.querySelector('input[aria-label=\"The new key\"]').value")
    told = service.client(key).get("/v1/security").ok().json
    assert (told["key"]["medium"], told["key"]["confirmation"]) == ("block", "always")
    assert told["key"]["high"] == told["service"]["high"] and told["service"]["medium"] == "ask"


def test_an_administrator_changes_a_key(signed_in, service):
    """In a form that knows what the key has; what it says counts for the next request of that key."""
    made = service.make_key("changed", "--tenant", "changed", "--medium", "block", "--high", "ask")
    client, page = service.client(made["key"]), signed_in
    page.go("security")
    page.wait_text("medium: block")
    row = "[...document.querySelectorAll('tr')].find((row) => row.textContent.startsWith('changed'))"
    page.wait_for(row)
    page.evaluate(f"{row}.querySelector('button').click()")
    select = "document.querySelector('dialog select[name={}]').value"
    page.wait_for(select.format("medium"))
    assert [page.evaluate(select.format(name)) for name in ("low", "medium", "high")] == ["", "block", "ask"]
    for name, word in (("medium", "allow"), ("high", ""), ("confirmation", "always")):
        page.evaluate(f"{select.format(name)} = '{word}'")
    boxes = "document.querySelectorAll('dialog input[type=checkbox]')"
    assert page.evaluate(f"[...{boxes}].map((box) => [box.name, box.checked])") == [["analyzer llm", True], ["analyzer policy", True]]
    page.evaluate(f"{boxes}.forEach((box) => (box.checked = false))")
    page.click_on("dialog button", "Change")
    page.wait_text("One analyzer at least has to judge.")
    page.evaluate(f"{boxes}[0].checked = true")
    page.click_on("dialog button", "Change")
    page.wait_text("changed is changed.")
    page.wait_text("judged by: llm")
    page.wait_for(f"{row}?.textContent.includes('medium: allow')")
    told = client.get("/v1/security").ok().json
    assert told["key"] == {**told["service"], "medium": "allow", "confirmation": "always"}
    assert told["key_analyzers"] == ["llm"]


def test_others_change_nothing(page, service):
    page.sign_in(service.make_key("tenant", "--tenant", "tenant")["key"])
    page.go("security")
    page.wait_text("a language model's rating")
    assert not page.evaluate("document.body.textContent.includes('Its own')")


def test_the_verdict_stands_beside_the_action(signed_in, service, box):
    page = signed_in
    page.go("sandboxes", box, "events")
    body = {"action": {"action": "run", "args": {"command": "echo risky", "security_risk": 2}, "timeout": 20}}
    assert service.client().post(f"/v1/sandboxes/{box}/actions", body).ok().json["observation"] == "error"
    page.wait_element(".event")
    page.wait_text("high risk")
    page.wait_text("blocked")
    page.wait_text("llm: the model that asks for the action says so itself")

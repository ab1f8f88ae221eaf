"""A hostile page in a sandbox, in a real browser that also has the dashboard open: it gets nowhere, whichever way it
is shown."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "vscode"))

from chrome import Chrome  # noqa: E402
from native import at  # noqa: E402
from previews import PORT, by_host, by_path, link, serving  # noqa: E402

HERE = pathlib.Path(__file__).parent
SECRET = "key-of-a-person"


@pytest.fixture(scope="module")
def box(alice):
    return serving(alice, files=[HERE / "hostile.html", HERE / "sw.js"])


class Browser(Chrome):
    def evaluate(self, expression):
        """None while one page follows another and there is nothing to ask."""
        try:
            return super().evaluate(expression)
        except AssertionError as error:
            if "context" not in str(error):
                raise
            return None


@pytest.fixture(scope="module")
def chrome():
    chrome = Browser()
    yield chrome
    chrome.close()


def evaluate_async(chrome, expression, **more):
    result = chrome.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, **more)
    return result["result"].get("value")


def go(chrome, url):
    chrome.call("Page.navigate", url=url)


def sign_in(service, chrome):
    """The dashboard, with a secret of its own in its storage."""
    chrome.open(f"http://127.0.0.1:{service.port}/")
    chrome.wait_for(f"location.port == '{service.port}' && document.readyState == 'complete'")
    chrome.evaluate(f"localStorage.setItem('secret', '{SECRET}'); document.cookie = 'tendon-dash={SECRET}; path=/'")
    assert chrome.evaluate("localStorage.getItem('secret')") == SECRET


def attack(service, chrome, url, box):
    go(chrome, f"{url}/page/hostile.html?service=http://127.0.0.1:{service.port}&box={box['id']}")
    chrome.wait_for("document.title == 'done'")
    results = json.loads(chrome.evaluate("document.body.innerText"))
    # Once more as if a person had clicked, for which browsers open windows.
    attempt = (
        "(async () => { try { return String(await tries.popup()); } catch (e) { return 'failed: ' + e.name; } })()"
    )
    return {**results, "popup": evaluate_async(chrome, attempt, userGesture=True)}


def assert_nothing(results):
    for name, said in results.items():
        assert SECRET not in said, name
    for name in ("api", "path", "websocket", "frame", "popup"):
        assert results[name].startswith("failed: "), (name, results)
    assert results["write"] in ("opaque0", "failed: TypeError"), results  # sent without anything that opens


def test_a_hostile_page_by_path(service, alice, box, chrome):
    sign_in(service, chrome)
    go(chrome, by_path(service, box, "/echo?tendon-ticket=") + link(alice, box).rpartition("=")[2])
    chrome.wait_for("document.body?.innerText.includes('target')")
    assert chrome.evaluate("location.href") == by_path(service, box, "/echo")
    before = len(alice.get("/v1/sandboxes").ok().json["sandboxes"])
    results = attack(service, chrome, by_path(service, box, ""), box)
    assert_nothing(results)
    assert results["origin"] == "null"
    for name in ("localStorage", "sessionStorage", "cookies", "indexedDB", "caches", "worker", "shared", "domain"):
        assert results[name].startswith("failed: "), (name, results)
    assert len(alice.get("/v1/sandboxes").ok().json["sandboxes"]) == before
    # And the dashboard is as it was; nothing of the sandbox can be made a part of it.
    go(chrome, f"http://127.0.0.1:{service.port}/")
    chrome.wait_for("location.pathname == '/' && document.readyState == 'complete'")
    assert chrome.evaluate("localStorage.getItem('secret')") == SECRET
    path = f"/preview/{box['id']}/{PORT}/page/sw.js"
    status = f"fetch('{path}').then((r) => r.status)"
    assert evaluate_async(chrome, status) == 403
    register = f"navigator.serviceWorker.register('{path}').then(() => 'registered', (e) => e.name)"
    assert evaluate_async(chrome, register) in ("SecurityError", "TypeError")


def test_a_hostile_page_by_host(service, alice, box, chrome):
    sign_in(service, chrome)
    go(chrome, link(alice, box, open="/echo"))
    chrome.wait_for("document.body?.innerText.includes('target')")
    assert chrome.evaluate("location.href") == by_host(service, box, "/echo")
    assert not chrome.evaluate("document.cookie"), "scripts do not see our cookie"
    results = attack(service, chrome, by_host(service, box, ""), box)
    assert_nothing(results)
    assert results["origin"] == by_host(service, box, "")
    assert results["localStorage"] == results["sessionStorage"] == "null"
    # What it asks of its own address never is the API of the service.
    own = evaluate_async(chrome, "fetch('/v1/sandboxes').then((r) => r.json())")
    assert own["target"] == "/v1/sandboxes" and not [value for name, value in own["fields"] if name == "cookie"]
    # A page of another sandbox cannot use this visit.
    other = by_host(service, box, "").replace(box["id"], "a" * 10)
    assert (
        evaluate_async(chrome, f"fetch('{other}/', {{credentials: 'include'}}).then(() => 'read', () => 'failed')")
        == "failed"
    )


def test_a_page_uses_its_own_socket(service, alice, box, chrome):
    """The visit's cookie opens a WebSocket to the sandbox, as a development server needs it."""
    chrome.open(link(alice, box, open="/echo"))
    chrome.wait_for("document.body?.innerText.includes('target')")
    said = evaluate_async(
        chrome,
        "new Promise((good, bad) => { const s = new WebSocket(location.origin.replace('http', 'ws') + '/ws');"
        " s.onmessage = (m) => good(m.data); s.onerror = () => bad('refused'); })",
    )
    assert json.loads(said)["upgrade"] == "websocket" and "cookie" not in json.loads(said)


def test_two_sandboxes_do_not_meet(service, alice, box, chrome):
    """Each has an origin of its own; what one keeps the other cannot see, nor ask for."""
    other = serving(alice)
    chrome.open(link(alice, box, open="/echo"))
    chrome.wait_for("document.body?.innerText.includes('target')")
    chrome.evaluate("localStorage.setItem('mine', '1')")
    go(chrome, link(alice, other, open="/echo"))
    chrome.wait_for(f"location.host.includes('{other['id']}') && document.body?.innerText.includes('target')")
    assert chrome.evaluate("localStorage.getItem('mine')") is None
    first = by_host(service, box, "")
    send = f"fetch('{first}/sum', {{method: 'POST', mode: 'no-cors', credentials: 'include', body: 'x'}})"
    assert evaluate_async(chrome, f"{send}.then((r) => r.type)") == "opaque"
    socket = (
        f"new Promise((good) => {{ const s = new WebSocket('{first.replace('http', 'ws')}/ws');"
        " s.onopen = () => good('open'); s.onerror = () => good('refused'); })"
    )
    assert evaluate_async(chrome, socket) == "refused"
    alice.delete(at(other)).ok(204)

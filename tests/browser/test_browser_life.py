"""Starting, dying and being absent."""

import os
import pathlib
import signal
import tempfile
import threading

import pytest
from harness import needs_root, wait_until

NOOP = {"browser_actions": "noop(1)"}
DISABLED = "Browser functionality is not supported or disabled."


def status(browser):
    plugins = browser.hand.client.get("/v1/plugins").json["plugins"]
    return next(p for p in plugins if p["name"] == "browser")


def kill_browser(browser, number=signal.SIGKILL):
    (pid,) = status(browser)["pids"]
    os.kill(pid, number)
    return pid


@pytest.mark.concurrent
def test_lazy_and_supervised(fresh):
    """Nothing runs before the first use; kill -9 in mid-call is told, and the next call works."""
    browser = fresh(listen="port")
    assert os.listdir(browser.hand.workspace) == [".downloads"]  # what OpenHands expects to see
    assert status(browser)["running"] is False and status(browser)["usable"] is True
    assert browser.pages() == []
    browser.go("inner.html")
    first = status(browser)
    assert first["running"] and first["memory"] > 10 << 20 and first["restarts"] == 0

    obs = during(browser, lambda: kill_browser(browser), "noop(30000)")
    assert obs.type == "browse" and obs.extras["error"], obs
    assert "was ended by SIGKILL" in obs.content and obs.extras["screenshot"] == ""
    obs = browser.ok("noop(1)")
    assert obs.extras["open_pages_urls"] == ["about:blank"], "a fresh one"
    assert status(browser)["restarts"] == 1

    kill_browser(browser)  # while nobody looks
    wait_until(lambda: not status(browser)["running"], 30, "the death is noticed")
    obs = browser.go("inner.html")
    assert obs.content.startswith("[This is a new browser. The browser was ended by SIGKILL")
    assert "new browser" not in browser.ok("noop(1)").content


def during(browser, deed, actions):
    """Does something once the action is at work; the action's observation."""
    result = []
    thread = threading.Thread(target=lambda: result.append(browser.act(actions)))
    thread.start()
    # Another action has to wait while the first is at work.
    wait_until(lambda: browser.hand.client.act("browse_interactive", NOOP, 0.05).extras["error"], 30)
    deed()
    thread.join(100)
    assert result, "no answer"
    return result[0]


def kill_renderers(browser):
    for pid, command in browser.hand.left().items():
        if "--type=renderer" in command:
            os.kill(pid, signal.SIGKILL)


def test_page_crash(fresh):
    browser = fresh()
    browser.go("inner.html")
    error = during(browser, lambda: kill_renderers(browser), "noop(30000)")
    assert error.extras["last_browser_action_error"].endswith("Page crashed"), error
    assert error.extras["open_pages_urls"] == ["about:blank"], "another page took its place"
    browser.go("inner.html")
    assert len(browser.pages()) == 1 and status(browser)["restarts"] == 0


def test_busy_page(browser):
    """A script that never ends holds nobody up."""
    browser.go("tabs.html")
    obs = browser.act(browser.call("click", "button 'Hang'"), timeout=2)
    assert obs.type == "browse" and obs.extras["error"], obs
    assert "TimeoutError: Locator.click" in obs.extras["last_browser_action_error"]
    browser.act("tab_close()", timeout=20)
    browser.go("inner.html")


def test_interrupted_by_the_owner(browser):
    browser.go("inner.html")

    def interrupt():
        assert browser.hand.client.post("/v1/plugins/browser/interrupt", {}).status == 200

    obs = during(browser, interrupt, "noop(60000)")
    assert obs.extras["open_pages_urls"] == browser.ok("noop(1)").extras["open_pages_urls"]


def test_stopped_browser(fresh):
    """One that does not answer at all is given up in time, and replaced."""
    browser = fresh()
    browser.go("inner.html")
    pid = kill_browser(browser, signal.SIGSTOP)
    obs = browser.act("noop(1)", timeout=2)
    assert obs.extras["error"], obs
    obs = browser.act("noop(1)")
    if obs.extras["error"]:
        obs = browser.ok("noop(1)")
    assert obs.extras["open_pages_urls"] == ["about:blank"]
    assert not os.path.exists(f"/proc/{pid}"), "it was ended"


def test_memory_limit(fresh):
    browser = fresh(env={"TENDON_BROWSER_MEMORY": "64M"})
    browser.act("noop(1)")
    wait_until(lambda: not status(browser)["running"], 60, "the limit is enforced")
    content = browser.act("noop(1)").content
    assert "more than its limit of 64 MB" in content


def test_hand_killed(fresh):
    """kill -9 of the hand leaves no browser behind, and the next hand cleans up its files."""
    browser = fresh()
    browser.go("inner.html")
    hand = browser.hand
    hand.kill9()
    wait_until(lambda: not hand.left(), 30, "the browser ends with its hand")
    again = fresh(base=hand.base)
    again.go("inner.html")
    again.hand.stop()


def test_disabled(start_hand):
    client = start_hand().client
    for kind, args in (
        ("browse", {"url": "http://127.0.0.1/"}),
        ("browse_interactive", {"browser_actions": "noop()"}),
    ):
        obs = client.act(kind, args)
        assert obs.type == "error" and obs.content == DISABLED
    assert client.get("/v1/browser/screenshot").status == 409


def test_not_installed(start_hand):
    hand = start_hand(browser=True, env={"PATH": "/nowhere"})
    obs = hand.client.act("browse", {"url": "http://127.0.0.1/"})
    assert obs.type == "error" and obs.content.startswith(DISABLED)
    assert "chromium" in obs.content and "apt-get install" in obs.content
    hand = start_hand(browser=True, env={"TENDON_CHROMIUM": "/bin/false"})
    obs = hand.client.act("browse", {"url": "http://127.0.0.1/"}, 60)
    assert obs.type == "browse" and obs.extras["error"]
    assert "ended with exit code 1" in obs.content
    assert not os.path.exists(hand.workspace / ".browser_screenshots")

    def refused():
        return "times in a row" in hand.client.act("browse", {"url": "about:blank"}, 0.2).content

    wait_until(refused, 60, "it is not tried too often")


@needs_root()
@pytest.mark.parametrize("sandbox", [True, False])
def test_as_the_agent(fresh, sandbox):
    """A hand that runs as root gives the browser to the agent's user, with Chromium's own sandbox on - or
    off, where that cannot be, and says so."""
    options = {"username": "nobody", "user_id": 65534}
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        program = pathlib.Path(directory) / "chromium"
        program.write_text(
            "#!/bin/sh\n"
            'case " $* " in *" --no-sandbox "*) ;; *) echo no sandbox here >&2; exit 1 ;; esac\n'
            'exec chromium "$@"\n'
        )
        program.chmod(0o755)
        env = {"SU_TO_USER": "true"} if sandbox else {"SU_TO_USER": "true", "TENDON_CHROMIUM": str(program)}
        browser = fresh(env=env, **options)
        obs = browser.go("inner.html")
        (pid,) = status(browser)["pids"]
        assert os.stat(f"/proc/{pid}").st_uid == 65534
        assert os.stat(obs.extras["screenshot_path"]).st_uid == 65534
        if not sandbox:
            assert status(browser)["sandboxed"] is False


# What a program that is no browser may do with the two pipes.
FAKES = {
    "silent": "import signal; signal.pause()",
    "garbage": r"import os; os.write(4, b'{\"id\":1,\"result\":\0\xff\xfe\0{}\0[' * 100)",
    "babble": r"""
import os
while True:
    os.write(4, b'x' * 65536)
""",
    "refuses": r"""
import json, os
text = b''
while True:
    text += os.read(3, 65536)
    *lines, text = text.split(b'\0')
    for line in lines:
        number = json.loads(line)['id']
        os.write(4, json.dumps({'id': number, 'error': {'message': 'not today'}}).encode() + b'\0')
""",
}


@pytest.mark.parametrize("kind", FAKES)
def test_no_browser_at_all(start_hand, tmp_path, kind):
    program = tmp_path / "chromium"
    program.write_text(f"#!/usr/bin/python3\n{FAKES[kind]}")
    program.chmod(0o755)
    hand = start_hand(browser=True, env={"TENDON_CHROMIUM": str(program)})
    obs = hand.client.act("browse", {"url": "http://127.0.0.1/"}, 1)
    assert obs.type == "browse" and obs.extras["error"], obs
    assert obs.content.startswith("The browser did not start: ")
    assert obs.extras["url"] == "http://127.0.0.1/" and obs.extras["screenshot"] == ""

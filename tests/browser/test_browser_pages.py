"""Navigation, tabs, frames, shadow roots, dialogs, and waiting for what an action sets off."""

import re
import time

import pytest

from harness import free_port, wait_until


def test_history(browser):
    browser.go("inner.html?1")
    browser.go("inner.html?2")
    for call, end in (("go_back()", "?1"), ("go_forward()", "?2"), ("go_forward()", "?2")):
        assert browser.ok(call).extras["url"].endswith(end)
    browser.ok(f'goto("{browser.site.url}/inner.html?2#place")')
    assert browser.last.extras["url"].endswith("?2#place")
    assert browser.ok("go_back()").extras["url"].endswith("?2")


def test_goto_refused(browser):
    url = f"http://127.0.0.1:{free_port()}/"
    error = browser.fails(f'goto("{url}")')
    assert error.startswith(f"Error: Page.goto: net::ERR_CONNECTION_REFUSED at {url}\n")
    error = browser.fails('goto("example")')
    assert error == ("Error: Page.goto: Protocol error (Page.navigate): Cannot navigate to invalid URL")


def test_goto_in_time(browser):
    """A server that never answers costs no more than the action's time."""
    url = f"{browser.site.url}/never"
    error = browser.fails(f'goto("{url}")', timeout=1)
    assert error.startswith("TimeoutError: Page.goto: Timeout ")
    assert f'navigating to "{url}", waiting until "load"' in error
    browser.fails(f'goto("{url}?head=1")', timeout=1)
    browser.go("inner.html")


def test_local_file(browser):
    path = browser.hand.workspace / "a page.html"
    path.write_text("<title>Local</title><h1>from disk</h1>")
    assert "RootWebArea 'Local'" in browser.ok(f'goto("{path}")').content


def test_tabs(browser):
    browser.go("tabs.html")
    obs = browser.ok(browser.call("click", "link 'New tab'"))
    urls = [f"{browser.site.url}/{page}" for page in ("tabs.html", "inner.html?new")]
    assert obs.extras["open_pages_urls"] == urls and obs.extras["active_page_index"] == 1
    assert obs.extras["url"] == urls[1]
    assert "pushed new" in browser.ok(browser.call("click", "button 'Push'")).content
    obs = browser.ok("tab_focus(0)")
    assert obs.extras["active_page_index"] == 0 and "RootWebArea 'Tabs'" in obs.content
    obs = browser.ok(browser.call("click", "button 'Popup'"))
    assert obs.extras["active_page_index"] == 2 and obs.extras["url"].endswith("?popup")
    obs = browser.ok("new_tab()")
    assert obs.extras["active_page_index"] == 3 and obs.extras["url"] == "about:blank"
    assert len(browser.ok("tab_close()").extras["open_pages_urls"]) == 3
    assert browser.ok("tab_focus(-3)").extras["active_page_index"] == 0
    assert browser.fails("tab_focus(7)") == "IndexError: list index out of range"
    for _ in range(2):
        browser.ok("tab_focus(1)\ntab_close()")
    obs = browser.ok("tab_close()")  # the last one: a new one takes its place
    assert obs.extras["open_pages_urls"] == ["about:blank"]


def test_popup_closes_itself(browser):
    browser.go("inner.html")
    browser.ok(f'new_tab()\ngoto("{browser.site.url}/tabs.html")')
    obs = browser.ok(browser.call("click", "button 'Close'"))
    if len(obs.extras["open_pages_urls"]) == 2:  # only a script's own windows may be closed by one
        browser.ok("tab_close()")
    assert browser.last.extras["open_pages_urls"] == [f"{browser.site.url}/inner.html"]


def test_frames(browser):
    obs = browser.go("frames.html")
    near, deep = tree_bids(browser, "button 'Push'")  # the sandboxed frame's cannot be used
    assert near[0].isalpha() and near[1:].isdigit(), "one frame deep"
    assert deep[:2].isalpha() and deep[2:].isdigit(), "two frames deep"
    assert "pushed near" in browser.ok(f'click("{near}")').content
    assert "pushed deep" in browser.ok(f'click("{deep}")').content
    prefix = deep.rstrip("0123456789")
    field = next(b for b in tree_bids(browser, "'Inner field'") if b.startswith(prefix))
    obs = browser.ok(f'fill("{field}", "across sites")')
    assert "typed across sites" in obs.content
    assert obs.extras["focused_element_bid"] == field
    assert "typed across site" in browser.ok(f'press("{field}", "Backspace")').content
    choice = next(b for b in tree_bids(browser, "'Inner choice'") if b.startswith(prefix))
    assert "chose y" in browser.ok(f'select_option("{choice}", "y")').content


def tree_bids(browser, what):
    lines = [line.strip() for line in browser.last.content.splitlines() if what in line]
    return [line[1:].split("]")[0] for line in lines if line[0] == "["]


def drag(browser, source, target):
    """A page has half a second to get ready, in which a busy machine may show nothing of it."""
    call = f'drag_and_drop("{source}", "{target}")'
    wait_until(lambda: "500ms exceeded" not in browser.act(call).content, 90, "it got ready")
    assert not browser.last.extras["error"], browser.last


@pytest.mark.parametrize(
    "what, where, then",
    [("'Drag me'", "'Drop here'", "dropped cargo"), ("'Knob'", "'Slot'", "slotted")],
)
def test_drag_in_a_frame_of_another_site(browser, what, where, then):
    """Which has to be scrolled to; one of the two is smaller than it thinks."""
    browser.go("dragging.html")
    sources, targets = tree_bids(browser, what), tree_bids(browser, where)
    for count, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
        drag(browser, source, target)
        assert browser.last.content.count(then) == count, browser.last.content
    assert count == 2


@pytest.mark.parametrize("way", ["into the first", "into the second", "out of the first", "out of the second", "across"])
def test_drag_from_one_site_to_another(browser, way):
    """What is dragged is dropped where it was meant to be and nowhere else: the frames are out of sight at first."""
    browser.go("dropping.html")
    cargos, places = tree_bids(browser, "'Drag me'"), tree_bids(browser, "'Drop here'")
    outer, place = browser.bid("'Outer cargo'"), browser.bid("'Outer drop'")
    source, target, then = {
        "into the first": (outer, places[0], "dropped freight"),
        "into the second": (outer, places[1], "dropped freight"),
        "out of the first": (cargos[0], place, "outside cargo"),
        "out of the second": (cargos[1], place, "outside cargo"),
        "across": (cargos[0], places[1], "dropped cargo"),
    }[way]
    drag(browser, source, target)
    assert re.findall(r"'((?:dropped|outside) \w+)'", browser.last.content) == [then], browser.last.content
    # It said so beside the place where it was dropped.
    shown = browser.last.content
    assert shown.index(f"[{target}]") < shown.index(f"'{then}'")
    later = [shown.index(f"[{bid}]") for bid in places if shown.index(f"[{bid}]") > shown.index(f"[{target}]")]
    assert all(shown.index(f"'{then}'") < at for at in later)


def test_shadow_root(browser):
    browser.go("frames.html")
    assert "shadow clicked" in browser.ok(browser.call("click", "button 'Shadow'")).content
    field = browser.bid("'Shadow field'")
    assert "value='inside'" in browser.ok(f'fill("{field}", "inside")').content
    assert browser.last.extras["focused_element_bid"] == field


def test_dialogs_are_answered(browser):
    browser.go("tabs.html")
    obs = browser.ok(browser.call("click", "button 'Ask'"))
    assert "RootWebArea 'alert undefined confirm false prompt null'" in obs.content
    browser.ok(browser.call("click", "button 'Guard'"))
    assert browser.go("inner.html").extras["url"].endswith("/inner.html")


def test_waits_for_what_it_set_off(browser):
    browser.go("tabs.html")
    obs = browser.ok(browser.call("click", "button 'Fetch'"))
    assert "RootWebArea 'answered'" in obs.content
    obs = browser.ok(browser.call("click", "button 'Tick'"))
    assert "RootWebArea 'tick 5'" in obs.content
    obs = browser.ok(browser.call("click", "button 'Leave'"))
    assert "late page" in obs.content and obs.extras["url"].endswith("page=1")


def test_calls_after_a_navigation(browser):
    browser.go("tabs.html")
    leave = browser.bid("button 'Leave'")
    obs = browser.ok(f'click("{leave}")\ngo_back()\nnoop(1)')
    assert "RootWebArea 'Tabs'" in obs.content


@pytest.mark.parametrize("which", ["near", "far"])
def test_click_in_a_frame_that_vanishes(browser, which):
    """The page removes the frame as soon as the mouse is there: what counts as done was done."""
    browser.go("vanishing.html")
    bid = tree_bids(browser, "button 'Vanish'")[which == "far"]
    obs = browser.act(f'click("{bid}")')
    assert (f"pressed ?{which}" in obs.content) != obs.extras["error"], obs
    assert bid not in tree_bids(browser, "button 'Vanish'")


@pytest.mark.parametrize("way", ["Stop", "Remove", "Remove at once", "Remove old", "Replace"])
def test_aborted_navigation_is_not_waited_for(browser, way):
    browser.go("aborting.html")
    click = browser.call("click", f"button '{way}'")
    began = time.monotonic()
    assert f"RootWebArea '{way}'" in browser.ok(click).content
    assert time.monotonic() - began < 5, "as long as for one that goes on"


@pytest.mark.parametrize(
    "part, shown, drawn",
    [("head", "RootWebArea 'Half'", False), ("style", "hidden yet", False), ("body", "heading 'Upper half'", True)],
)
def test_document_that_stalls_is_shown_as_far_as_it_has_come(browser, part, shown, drawn):
    """A server sends a part of it and then nothing. Without a body, or a style sheet that it waits for, nothing is drawn."""
    browser.go("stalling.html")
    for action in (browser.call("click", f"link '{part}'"), "noop(1)"):
        began = time.monotonic()
        obs = browser.ok(action)
        assert time.monotonic() - began < 15, action
        assert "[The page is still loading: this is what has come of it so far.]\n" in obs.content
        assert shown in obs.content and obs.extras["url"].endswith(f"part={part}")
        assert bool(obs.extras["screenshot"]) == bool(obs.extras["screenshot_path"]) == drawn
    text = browser.hand.client.get("/v1/browser/pages").json
    assert text["pages"][-1]["url"].endswith(f"part={part}")
    if drawn:
        browser.ok(browser.call("click", "button 'Press'"))
    obs = browser.go("tabs.html")
    assert "RootWebArea 'Tabs'" in obs.content and "still loading" not in obs.content


def test_frame_that_hangs_holds_up_one_action(browser):
    browser.go("aborting.html")
    browser.ok(browser.call("click", "button 'Hang'"))
    began = time.monotonic()
    browser.ok("noop(1)")
    assert time.monotonic() - began < 5, "as long as the action that set it off"

"""Files that a page hands out."""

import pathlib
import re
import time

import pytest
from harness import wait_until


def arrived(browser, actions):
    obs = browser.act(actions)
    assert obs.type == "download", obs
    start = (
        f"Execution of the previous action {actions} resulted in a file download. "
        "The downloaded file is saved at location: "
    )
    assert obs.content.startswith(start)
    paths = [pathlib.Path(p) for p in obs.content[len(start) :].split(", ")]
    assert obs.extras["file_path"] == str(paths[0])
    for path in paths:
        assert path.parent == browser.hand.workspace
    return paths


def number(path):
    return int(re.match(r"file_(\d+)", path.name)[1])


def test_download_by_goto(browser):
    """The kind is told by the first bytes, whatever the server says."""
    url = browser.site.url
    (pdf,) = arrived(browser, f'goto("{url}/file?text=%25PDF-1.4+x")')
    assert pdf.suffix == ".pdf" and pdf.read_bytes() == b"%PDF-1.4 x"
    (plain,) = arrived(browser, f'goto("{url}/file?text=words")')
    assert plain.name == f"file_{number(pdf) + 1}" and plain.read_text() == "words"


def test_download_by_click(browser):
    browser.go("tabs.html")
    (csv,) = arrived(browser, browser.call("click", "link 'Save'"))
    assert csv.suffix == ".csv" and csv.read_text() == "a,b"
    browser.ok("noop(1)")
    browser.act(browser.call("click", "button 'Save two'"))
    deadline = time.monotonic() + 60
    told = lambda: sorted((p for p in browser.hand.workspace.glob("file_*") if number(p) > number(csv)), key=number)
    while len(two := told()) < 2:  # their links are in no document: nobody could know of them when the click was answered
        assert time.monotonic() < deadline, two
        browser.act("noop(1000)")
    assert sorted(p.read_text() for p in two) == ["%PDF-1.4 1", "%PDF-1.4 2"]
    assert [number(p) - number(csv) for p in two] == [1, 2]


def test_download_is_waited_for(browser):
    browser.go("tabs.html")
    (path,) = arrived(browser, browser.call("click", "link 'Drip'"))
    assert path.suffix == ".gz" and len(path.read_bytes()) == 20000


@pytest.mark.parametrize("link, text", [("Save late", "a,b"), ("Answer late", "c,d")])
def test_promised_download_is_waited_for(browser, link, text):
    """The server takes its time before it answers at all."""
    browser.go("saving.html")
    (path,) = arrived(browser, browser.call("click", f"link '{link}'"))
    assert path.suffix == ".csv" and path.read_text() == text


def test_download_between_two_actions_is_told_by_the_second(browser):
    """Nobody could know of it when the first was answered."""
    browser.go("saving.html")
    downloads = browser.hand.workspace / ".downloads"
    obs = browser.act(browser.call("click", "button 'Save unseen'"))
    if obs.type != "download":  # as it is, unless the machine stood still
        wait_until(lambda: "unseen" in [p.read_text(errors="ignore") for p in downloads.iterdir()], 60, "the file")
        obs = wait_until(lambda: (seen := browser.act("noop(1)")).type == "download" and seen, 60, "it is told")
    assert pathlib.Path(obs.extras["file_path"]).read_text() == "unseen"


@pytest.mark.parametrize("link, title", [("Own way", "own way"), ("Missing", "Saving")])
def test_no_download_is_not_waited_for(browser, link, title):
    """A page that does something else with its link, and a file that is not there."""
    browser.go("saving.html")
    began = time.monotonic()
    obs = browser.ok(browser.call("click", f"link '{link}'"))
    assert f"RootWebArea '{title}'" in obs.content
    assert time.monotonic() - began < 4, "as long as for a promised one"


def test_browse_of_a_file(browser):
    """`browse` answers with what it saw; the file is told with the next action that fails."""
    obs = browser.browse(f"{browser.site.url}/file?text=GIF89a")
    assert obs.type == "browse"
    assert obs.extras["last_browser_action_error"] == "Error: Page.goto: Download is starting"
    (path,) = arrived(browser, 'click("777777")')
    assert path.suffix == ".gif"


def test_names_taken(browser):
    """A file of the user's own is never overwritten."""
    (first,) = arrived(browser, f'goto("{browser.site.url}/file?text=1")')
    taken = browser.hand.workspace / f"file_{number(first) + 1}"
    taken.write_text("mine")
    (second,) = arrived(browser, f'goto("{browser.site.url}/file?text=2")')
    assert taken.read_text() == "mine" and number(second) == number(first) + 2

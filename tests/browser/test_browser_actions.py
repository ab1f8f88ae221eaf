"""Each function of the action language on a page, and why it may refuse."""

import pytest


@pytest.fixture
def page(browser):
    browser.go("actions.html")
    return browser


def do(page, function, what, *args):
    """Calls function on the element that the tree shows as `what`."""
    page.ok(page.call(function, what, *args))
    return page.log()


def test_click_and_its_kin(page):
    assert do(page, "click", "button 'Plain'") == "mouseenter;click;"
    assert do(page, "dblclick", "button 'Plain'") == "mouseenter;click;click;click;dblclick;"
    page.go("actions.html")
    assert do(page, "click", "button 'Plain'", "right") == "mouseenter;contextmenu;"
    page.ok(page.call("click", "'Plain'", "left", ["Shift", "Control"]))
    assert page.log().endswith("click+shift+ctrl;")
    page.go("actions.html")
    assert do(page, "hover", "button 'Plain'") == "mouseenter;"


def test_click_on_parts_and_labels(page):
    assert "link;" in do(page, "click", "link 'Link with bold text'")
    assert "agree=true;" in do(page, "click", "LabelText")
    assert "agree=false;" in do(page, "click", "checkbox 'Agree'")


def test_click_scrolls_and_waits(page):
    assert "late;" in do(page, "click", "button 'Late'")  # enabled after 200 ms
    assert "far;" in do(page, "click", "button 'Far away'")


@pytest.mark.parametrize(
    "what, why",
    [
        ("button 'Never'", "element is not enabled"),
        ("button 'Covered'", 'id="lid"'),
        ("button 'Moving'", "element is not stable"),
    ],
)
def test_click_refused(browser, what, why):
    browser.go("actions.html?moving")
    error = browser.fails(browser.call("click", what))
    assert error.startswith("TimeoutError: Locator.click: Timeout 500ms exceeded.\n"), error
    assert why in error


def test_no_such_element(page):
    for bid in ("4711", "a12", "zZz3", "nonsense"):
        assert page.fails(f'click("{bid}")') == (f'ValueError: Could not find element with bid "{bid}"')


def test_fill(page):
    text = page.bid("'Text here'")
    page.ok(f'fill("{text}", "first")')
    assert page.log() == "text=first;"
    page.ok(f'fill("{text}", "second \u00e9\u4e16")\nclear("{text}")')
    assert page.log() == "text=first;text=second \u00e9\u4e16;key:Delete;text=;"
    assert "rich=new;" in do(page, "fill", "textbox 'Rich'", "new")
    assert "area=two lines;" in do(page, "fill", "textbox 'Area'", "two\nlines")
    assert "number=42;" in do(page, "fill", "'Number'", "42")
    assert "date=2026-05-04;" in do(page, "fill", "Date 'Date'", "2026-05-04")


@pytest.mark.parametrize(
    "what, value, error",
    [
        ("'Number'", "many", "Error: Locator.fill: Error: Cannot type text into input[type=number]"),
        ("Date 'Date'", "soon", "Error: Locator.fill: Error: Malformed value"),
        ("checkbox", "x", 'Error: Locator.fill: Error: Input of type "checkbox" cannot be filled'),
        ("button 'Plain'", "x", "Error: Locator.fill: Error: Element is not an <input>"),
        ("'Fixed'", "x", "TimeoutError: Locator.fill: Timeout 500ms exceeded."),
    ],
)
def test_fill_refused(page, what, value, error):
    assert page.fails(f'fill("{page.bid(what)}", "{value}")').startswith(error)


def test_select_option(page):
    assert "one=b;" in do(page, "select_option", "combobox 'One'", "Beta")
    assert "one=a;" in do(page, "select_option", "combobox 'One'", "a")
    assert "many=red,blue;" in do(page, "select_option", "listbox 'Many'", ["blue", "red"])
    one = page.bid("combobox 'One'")
    assert "did not find some options" in page.fails(f'select_option("{one}", "Omega")')
    assert "not enabled" in page.fails(f'select_option("{one}", "Gamma")')
    error = page.fails(page.call("select_option", "'Text here'", "a"))
    assert error == "Error: Locator.select_option: Error: Element is not a <select> element"


def test_keys(page):
    text = page.bid("'Text here'")
    page.ok(f'fill("{text}", "abc")\npress("{text}", "Backspace")\npress("{text}", "Shift+d")')
    assert page.log().endswith("text=ab;key:Shift;key:D;text=abD;shift-up;")
    page.ok(f'press("{text}", "ControlOrMeta+a")\npress("{text}", "$")')
    assert page.log().endswith("key:a;key:$;text=$;")
    assert page.last.extras["focused_element_bid"] == text
    assert page.fails(f'press("{text}", "Hyper")') == 'Error: Locator.press: Unknown key: "Hyper"'


def test_focus_and_order_of_calls(page):
    area = page.bid("textbox 'Area'")
    obs = page.ok(f'focus("{area}")')
    assert obs.extras["focused_element_bid"] == area
    assert f"[Focused element bid: {area}]" in obs.content
    calls = f'fill("{area}", "one")\nclick("0815")\nfill("{area}", "two")'
    assert "0815" in page.fails(calls)
    assert page.last.extras["last_browser_action"] == calls
    assert "area=one;" in page.log() and "two" not in page.log()


def test_scroll(page):
    page.ok("scroll(0, 1500)")
    before = page.last.extras["screenshot"]
    page.ok("scroll(0, -1500)")
    assert page.last.extras["screenshot"] != before


def test_drag_and_drop(page):
    assert "dropped=cargo;" in do(page, "drag_and_drop", "button 'Drag me'", page.bid("button 'Drop here'"))
    assert "slotted;" in do(page, "drag_and_drop", "button 'Knob'", page.bid("button 'Slot'"))
    assert "slotted;" in do(page, "drag_and_drop", "button 'Knob'", page.bid("button 'Slot'"))


def test_upload_file(page):
    for name, size in (("one.txt", 3), ("two.bin", 70000)):
        (page.hand.workspace / name).write_bytes(b"x" * size)
    assert "file=one.txt:3;" in do(page, "upload_file", "'File'", "one.txt")
    paths = [str(page.hand.workspace / name) for name in ("one.txt", "two.bin")]
    assert "files=one.txt:3,two.bin:70000;" in do(page, "upload_file", "'Files'", paths)
    file = page.bid("'File'")
    assert "can only accept single file" in page.fails(f'upload_file("{file}", {paths})')
    assert page.fails(f'upload_file("{file}", "none")') == (
        "FileNotFoundError: [Errno 2] No such file or directory: 'none'"
    )


def test_messages_change_nothing(page):
    page.ok("send_msg_to_user('done')")
    page.ok('report_infeasible("cannot")')
    assert page.last.extras["url"].endswith("/actions.html")


@pytest.mark.parametrize(
    "actions, error",
    [
        ("", "ValueError: Received an empty action."),
        ("just text", "ValueError: Received an empty action."),
        ("jump(1)", "NameError: Invalid action type 'jump'."),
    ],
)
def test_no_program(page, actions, error):
    assert page.fails(actions) == error


def test_evaluation_questions(browser):
    assert browser.act("GET_EVAL_REWARDS").content == "[]"
    obs = browser.act("GET_EVAL_GOAL")
    assert "no goal" in obs.content and not obs.extras["error"]

"""What an agent sees of a page: tree, bids, properties, pictures and text."""

import base64
import re
import struct
import zlib

import pytest


def tree(obs):
    """The lines of the accessibility tree without addresses, which depend on ports."""
    begin, end = (f"============== {w} accessibility tree ==============\n" for w in ("BEGIN", "END"))
    lines = obs.content.split(begin)[1].split(end)[0]
    return re.sub(r", url='[^']*'", "", lines).rstrip("\n").split("\n")


def indented(text):
    """An expected tree as tests write it: two blanks for each level."""
    lines = text.rstrip().lstrip("\n").split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip())
    return ["\t" * ((len(line) - len(line.lstrip()) - margin) // 2) + line.strip() for line in lines]


def picture(url):
    """(width, height, pixels as bytes with their filters) of a PNG in a data URL."""
    head, data = url.split(",", 1)
    assert head == "data:image/png;base64"
    data = base64.b64decode(data, validate=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    packed, at, size = b"", 8, None
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + body)
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    return *size, zlib.decompress(packed)


def test_tree(browser):
    obs = browser.go("view.html")
    assert tree(obs) == indented(
        """
        RootWebArea 'A page to look at', focused
          [3] generic
            [4] heading "It's big"
              [5] generic
                StaticText 'big'
            [6] paragraph ''
              StaticText 'See'
              [7] link 'there', clickable
              StaticText '.'
            [8] form ''
              [9] LabelText '', clickable
                StaticText 'Name'
              [10] textbox 'Name' value='old', clickable, required
                generic
                  StaticText 'old'
              [11] combobox '' value='Two', hasPopup='menu', expanded=False
                MenuListPopup ''
                  [12] option 'One', selected=False
                  [13] option 'Two', selected=True
              [14] checkbox 'Tick', clickable, checked='true'
            [15] generic, clickable
              StaticText 'a plain box'
            [16] Canvas ''
            [17] button 'Again', clickable
            [18] button 'Copy', clickable
            [19] button 'Strip', clickable
            [20] button 'Count', clickable
            [21] list ''
              [22] listitem ''
                ListMarker '•'
                StaticText 'one'
              [23] listitem ''
                ListMarker '•'
                StaticText 'two'
            [24] generic
              StaticText 'far below'
        """
    )
    assert obs.extras["focused_element_bid"] == "3"
    assert obs.extras["axtree_object"] == obs.extras["extra_element_properties"] == {}


def test_bids_stay(browser):
    """Whatever a page does to its elements, one that was there keeps its bid, and none is used twice."""
    before = tree(browser.go("view.html"))
    assert tree(browser.ok("noop(1)")) == before

    browser.ok("click('17')")  # the list is made anew from its own text
    lines = "\n".join(tree(browser.last))
    assert "[22] listitem ''" in lines and "[23] listitem ''" in lines
    assert "[25] listitem ''" in lines and "StaticText 'new'" in lines

    browser.ok("click('18')")  # a copy brings its bid along
    lines = "\n".join(tree(browser.last))
    assert lines.count("[22] ") == 1 and "[26] listitem ''" in lines

    browser.ok("click('19')")  # all attributes are taken away
    assert "\n".join(tree(browser.last)) == lines.replace(
        "[19] button 'Strip', clickable", "[19] button 'Strip', clickable, focused"
    ).replace("'Copy', clickable, focused", "'Copy', clickable")


def test_nothing_but_bids_is_left_in_the_page(browser):
    browser.go("view.html")
    browser.ok(browser.call("click", "button 'Count'"))
    assert "button 'Count 1'" in browser.last.content  # the page's own


def test_frames(browser):
    obs = browser.go("view-frames.html")
    assert tree(obs) == indented(
        """
        RootWebArea 'Frames', focused
          [3] generic
            [a] Iframe ''
              RootWebArea ''
                [a2] generic
                  [a3] paragraph ''
                    StaticText 'inner'
                    [a4] textbox 'field', clickable
                      generic
            [b] Iframe ''
              RootWebArea ''
                [b2] generic
                  [b3] paragraph ''
                    StaticText 'outer'
                    [ba] Iframe ''
                      RootWebArea ''
                        [ba2] generic
                          [ba3] paragraph ''
                            StaticText 'inner'
                            [ba4] textbox 'field', clickable
                              generic
            [c] Iframe ''
              RootWebArea ''
                paragraph ''
                  StaticText 'inner'
                  textbox 'field'
                    generic
            [4] generic
              [5] button 'in the shadow'
        """
    )


def test_focus_in_frames(browser):
    browser.go("view-frames.html")
    assert browser.ok("focus('5')").extras["focused_element_bid"] == "5"
    assert browser.ok("focus('a4')").extras["focused_element_bid"] == "a4"
    assert browser.ok("click('ba4')").extras["focused_element_bid"] == "ba4"


def test_hostile_page(browser):
    """Its own prototypes, names and bids do not count."""
    lines = "\n".join(tree(browser.go("view-hostile.html")))
    bids = re.findall(r"\[([^]]*)\]", lines)
    assert len(set(bids)) == len(bids) > 8 and all(re.fullmatch(r"\d+|a", b) for b in bids), lines
    assert "\tbutton 'forged in a frame'" in lines and "\tbutton 'forged in a shadow'" in lines
    for text in ("first", "second", "third"):
        assert f"StaticText '{text}'" in lines
    assert browser.last.extras["focused_element_bid"] in bids


def test_busy_frame_does_not_hold_up_the_page(fresh):
    """A browser of its own: the process of that site never answers again."""
    browser = fresh()
    browser.act(f'goto("{browser.site.url}/view-busy.html")')
    assert "StaticText 'still here'" in browser.last.content
    assert "[a] Iframe ''" in browser.last.content


def test_busy_page(fresh):
    """The action ends in time and says why there is nothing to be seen; the page can be left for another of its site,
    which lives in the same process."""
    browser = fresh()
    browser.go("view.html")  # a first start may take its time
    obs = browser.act(f'goto("{browser.site.url}/view-spin.html")', timeout=10)
    assert "[Error encountered when processing the accessibility tree: the page does not answer" in (
        obs.content
    )
    browser.go("actions.html")
    assert "button 'Plain'" in browser.last.content and len(browser.pages()) == 1


def test_busy_page_can_be_left(fresh):
    """By history, and by closing its tab; its scripts start again and again."""
    browser = fresh()
    browser.go("actions.html")
    browser.act(f'goto("{browser.site.url}/spin-again.html")', timeout=2)
    browser.ok("go_back()")
    assert "button 'Plain'" in browser.last.content
    browser.act(f'goto("{browser.site.url}/spin-again.html")', timeout=2)
    browser.ok("tab_close()")
    assert [p["url"] for p in browser.pages()] == ["about:blank"]


def test_properties(browser):
    browser.go("view-frames.html")
    extras = browser.ok("noop(1)", return_axtree=True).extras
    properties = extras["extra_element_properties"]
    x, y, width, height = properties["b"]["bbox"]
    left, top, right, bottom = properties["ba4"]["bbox"]
    assert x < left and y < top and left + right < x + width and top + bottom < y + height
    assert properties["ba4"]["visibility"] == 1.0
    assert properties["5"]["set_of_marks"] is True and properties["4"]["set_of_marks"] is False

    nodes = extras["axtree_object"]["nodes"]
    ids = [node["nodeId"] for node in nodes]
    assert len(ids) == len(set(ids)), "ids of several processes clash"
    by_bid = {node["browsergym_id"]: node for node in nodes if "browsergym_id" in node}
    assert by_bid["ba4"]["role"]["value"] == "textbox"
    inner = nodes[ids.index(by_bid["b"]["childIds"][-1])]
    assert inner["role"]["value"] == "RootWebArea"

    browser.go("view.html")
    properties = browser.ok("noop(1)", return_axtree=True).extras["extra_element_properties"]
    assert properties["15"]["clickable"] is True and properties["24"]["clickable"] is False
    assert properties["24"]["visibility"] == 0.0 and properties["24"]["bbox"][1] > 2000
    assert properties["1"] == {
        "visibility": 0.0,
        "bbox": None,
        "clickable": False,
        "set_of_marks": False,
    }  # <head>
    browser.ok("scroll(0, 3000)")
    properties = browser.ok("noop(1)", return_axtree=True).extras["extra_element_properties"]
    assert properties["24"]["visibility"] == 1.0 and 0 < properties["24"]["bbox"][1] < 720


def test_pictures(browser):
    extras = browser.go("view.html").extras
    assert picture(extras["screenshot"])[:2] == picture(extras["set_of_marks"])[:2] == (1280, 720)
    plain, marked = picture(extras["screenshot"])[2], picture(extras["set_of_marks"])[2]
    assert plain and marked and extras["screenshot"] != extras["set_of_marks"]


def test_page_text(browser):
    obs = browser.browse(f"{browser.site.url}/view-frames.html")
    assert "inner\n\nouter\n\ninner\n" in obs.content
    obs = browser.browse(f"{browser.site.url}/view.html")
    begin, end = (f"============== {w} webpage content ==============\n" for w in ("BEGIN", "END"))
    assert obs.content == (
        f"[Current URL: {browser.site.url}/view.html]\n{begin}"
        "# It's **big**\n\nSee [there](/there).\n\nName One Two\n\na plain box\n\n"
        "Again Copy Strip Count\n\n  * one\n  * two\n\nfar below\n\n"
        f"{end}"
    )


@pytest.mark.parametrize(
    "actions, error",
    [
        ("", "ValueError: Received an empty action."),
        ("mouse_click(1, 2)", "NameError: Invalid action type 'mouse_click'."),
        ("click()", "TypeError: click() missing 1 required positional argument: 'bid'"),
        ("click(12)", "ValueError: expected a string, got 12"),
        ("click('12', 'top')", "Error: Locator.click: button: expected one of (left|right|middle)"),
    ],
)
def test_calls_that_make_no_sense(browser, actions, error):
    assert browser.fails(actions) == error

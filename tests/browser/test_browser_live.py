"""Pictures of the browser for people: screenshots, pages, and the live view."""

import io
import json
import threading

import pytest
import websocket
from PIL import Image

BINARY, TEXT, CLOSE = 2, 1, 8


class Live:
    def __init__(self, browser, query=""):
        self.ws = websocket.create_connection(
            "ws://localhost/v1/browser/live" + query,
            socket=browser.hand.client.socket(60),
            timeout=60,
        )
        self.pages = []
        self.errors = []
        self.picture = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ws.close(timeout=1)

    def step(self):
        kind, data = self.ws.recv_data()
        if kind == BINARY:
            self.picture = Image.open(io.BytesIO(data))
            assert self.picture.format == "JPEG"
        elif kind == TEXT:
            message = json.loads(data)
            (self.errors if message["type"] == "error" else self.pages).append(message)
        return kind

    def until(self, condition):
        """The socket's own timeout is the deadline."""
        while not condition():
            assert self.step() != CLOSE
        return self

    def send(self, **message):
        self.ws.send(json.dumps(message))


def test_screenshot_and_pages(browser):
    browser.go("actions.html")
    client = browser.hand.client
    for query, kind in (("", "PNG"), ("?format=jpeg", "JPEG"), ("?format=webp", "WEBP")):
        reply = client.get("/v1/browser/screenshot" + query)
        assert reply.status == 200 and reply.headers["content-type"] == f"image/{kind.lower()}"
        picture = Image.open(io.BytesIO(reply.body))
        assert (picture.format, picture.size) == (kind, (1280, 720))
    assert client.get("/v1/browser/screenshot?format=bmp").status == 400
    (page,) = browser.pages()
    assert page["active"] and page["title"] == "Actions" and page["url"].endswith("/actions.html")


def test_live_view(browser):
    browser.go("tabs.html")
    with Live(browser, "?max_width=320") as live, Live(browser) as other:
        live.until(lambda: live.pages and live.picture)
        page = live.pages[0]
        assert page["url"].endswith("/tabs.html") and (page["width"], page["height"]) == (1280, 720)
        assert live.picture.size[0] <= 320
        other.until(lambda: other.picture and other.picture.size[0] > 320)
        browser.go("inner.html?seen")
        live.until(lambda: live.pages[-1]["url"].endswith("?seen"))
        live.until(lambda: live.pages[-1]["title"] == "Inner")
        browser.ok("new_tab()")
        live.until(lambda: live.pages[-1]["url"] == "about:blank")
        assert live.pages[-1]["id"] != page["id"]
        browser.ok("tab_close()")
        live.until(lambda: live.pages[-1]["id"] == page["id"])


def test_take_over(browser):
    """A person clicks, types and turns the wheel."""
    browser.go("actions.html")
    box = browser.ok("noop(1)", return_axtree=True).extras["extra_element_properties"]
    with Live(browser) as live:
        live.until(lambda: live.picture)
        for what in ("button 'Plain'", "'Text here'"):
            x, y, w, h = box[browser.bid(what)]["bbox"]
            at = {"x": x + w / 2, "y": y + h / 2}
            live.send(type="mouse", event="move", **at)
            live.send(type="mouse", event="down", button="left", **at)
            live.send(type="mouse", event="up", button="left", **at)
        for key in ("a", "B"):
            live.send(type="key", event="down", key=key)
            live.send(type="key", event="up", key=key)
        live.send(type="text", text="\u00e9")
        live.send(type="key", event="down", key="Hyper")
        live.send(type="dance")
        live.ws.send("no json")
        live.until(lambda: len(live.errors) == 3)
    browser.ok("noop(1)")
    assert "click;" in browser.log() and browser.log().endswith("text=aB\u00e9;")


def test_input_by_requests(browser):
    """What is held by one request is held in the next; what a keyboard has is typed key by key."""
    browser.go("actions.html")
    box = browser.ok("noop(1)", return_axtree=True).extras["extra_element_properties"]
    client = browser.hand.client

    def send(*inputs):
        reply = client.post("/v1/browser/input", {"inputs": inputs})
        assert reply.status == 200, reply
        return reply.json

    def middle(what):
        x, y, w, h = box[browser.bid(what)]["bbox"]
        return {"x": x + w / 2, "y": y + h / 2}

    at = middle("'Text here'")
    send({"type": "mouse", "event": "move", **at}, {"type": "mouse", "event": "down", "button": "left", **at})
    place = send({"type": "mouse", "event": "up", "button": "left", **at})
    assert place == {**at, "width": 1280, "height": 720}
    send({"type": "type", "text": "aB\u00e9"}, {"type": "key", "key": "Shift"})
    send({"type": "key", "key": "c"}, {"type": "key", "key": "c", "event": "up"}, {"type": "key", "key": "Shift", "event": "up"})
    browser.ok("noop(1)")
    assert browser.log().endswith("key:C;text=aB\u00e9C;shift-up;"), browser.log()
    assert send() == place
    for body, status in (({"inputs": 1}, 422), ({"inputs": [{"type": "dance"}]}, 422), ({"inputs": [{"type": "key", "key": "Hyper"}]}, 422)):
        assert client.post("/v1/browser/input", body).status == status


def test_part_of_a_picture(browser):
    browser.go("tabs.html")
    client = browser.hand.client
    reply = client.get("/v1/browser/screenshot?x=100&y=50&width=200&height=100&percent=50")
    assert Image.open(io.BytesIO(reply.body)).size == (100, 50)
    whole = len(client.get("/v1/browser/screenshot?format=jpeg&quality=90").body)
    assert len(client.get("/v1/browser/screenshot?format=jpeg&quality=5").body) < whole
    for query, status in (("x=1280", 400), ("width=0", 400), ("percent=101", 400), ("y=-1", 422)):
        assert client.get("/v1/browser/screenshot?" + query).status == status


def test_live_refused(browser):
    browser.go("inner.html")
    for query in ("?max_width=1", "?max_width=x"):
        with pytest.raises(websocket.WebSocketBadStatusException) as error:
            Live(browser, query)
        assert error.value.status_code in (400, 422)


@pytest.mark.concurrent
def test_slow_viewer_holds_nobody(browser):
    """One that takes no pictures gets no more of them, and the agent goes on."""
    browser.go("tabs.html")
    with Live(browser) as live:
        live.until(lambda: live.picture)
        for n in range(5):
            browser.go(f"inner.html?{n}")
        live.until(lambda: live.pages[-1]["url"].endswith("?4"))


@pytest.mark.concurrent
def test_concurrent_use(browser):
    """Actions queue up; looking on goes on beside them."""
    browser.go("inner.html")
    results = []

    def act(n):
        obs = browser.hand.client.act(
            "browse_interactive", {"browser_actions": f'goto("{browser.site.url}/inner.html?{n}")'}, 100
        )
        results.append(obs.extras["url"].endswith(f"?{n}"))

    threads = [threading.Thread(target=act, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        assert browser.hand.client.get("/v1/browser/screenshot").status == 200
    for thread in threads:
        thread.join(120)
    assert results == [True] * 3

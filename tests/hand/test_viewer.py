"""The file viewer: a listener of its own for pages a browser in the sandbox can show."""

import base64
import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
from urllib.parse import quote, urljoin
from urllib.request import urlopen

import pytest

from client import Client
from harness import Factory, listening, memory_limit, wait_until
from pdf_files import make_pdf
from rooms import room

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\6\0\0\0\x1f\x15\xc4\x89"
    b"\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\5\0\1"
    b"\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82"
)


def start_viewer(factory):
    """A hand on a port of its own, and a client of its file viewer."""
    for _ in range(5):  # the file belongs to whoever started last, on the whole machine
        hand = factory(listen="port")
        with open("/tmp/oh-server-url") as f:
            hand.viewer_url = f.read()
        assert re.fullmatch(r"http://localhost:\d+", hand.viewer_url), hand.viewer_url
        port = int(hand.viewer_url.rsplit(":", 1)[1])
        if hand.address[1] < port <= min(hand.address[1] + 1024, 65535):
            break
        hand.stop()
    assert hand.address[1] < port <= min(hand.address[1] + 1024, 65535)
    assert listening(port) <= {"0100007F", "00000000000000000000000001000000"}
    return hand, Client(("127.0.0.1", port))


@pytest.fixture(scope="module")
def viewer():
    factory = Factory()
    yield start_viewer(factory)
    factory.finish()


@pytest.fixture
def with_pdfjs(viewer):
    if viewer[1].get("/script/pdf.js").status == 404:
        pytest.skip("this hand was built without pdf.js: libjs-pdf was not installed")


def view(client, path):
    return client.get("/view?path=" + quote(str(path)))


def test_a_secret_address(start):
    """Where others share the loopback: nothing is answered without the part that only the sandbox knows."""
    hand = start(listen="port", args=["--viewer-secret"])
    with open("/tmp/oh-server-url") as f:
        url = f.read()
    base, secret = re.fullmatch(r"(http://localhost:\d+)(/[0-9a-f]{32})", url).groups()
    client = Client(("127.0.0.1", int(base.rsplit(":", 1)[1])))
    image = str(hand.workspace / "x.png")
    with open(image, "wb") as f:
        f.write(PNG)
    query = "/view?path=" + quote(image)
    assert client.get(secret + query).status == 200 and client.get(secret).status == 200
    wrong = "/" + "0" * 32
    for path in ("/", query, wrong, wrong + query, secret[:-1] + query, secret + "0" + query, "//" + query):
        assert client.get(path).status in (400, 404), path


def test_root(viewer):
    reply = viewer[1].get("/")
    assert (reply.status, reply.json) == (200, {"status": "File viewer server is running"})
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert viewer[1].get(path).status == 404
    assert viewer[1].get("/view").status == 422


@pytest.mark.parametrize(
    "name, mime",
    [
        ("test_image.png", "image/png"),
        ("b.JPG", "image/jpeg"),
        ("c.gif", "image/gif"),
        ("d.e.jpeg", "image/jpeg"),
    ],
)
def test_image(viewer, name, mime):
    hand, client = viewer
    (hand.workspace / name).write_bytes(PNG)
    reply = view(client, hand.workspace / name)
    page = reply.body.decode()
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/html")
    assert f"<title>File Viewer - {name}</title>" in page
    picture = base64.b64encode(PNG).decode()
    assert page.count("<img") == 1 and f'src="data:{mime};base64,{picture}"' in page
    assert f'alt="{name}"' in page


def test_large_image_is_streamed(viewer):
    hand, client = viewer
    data = os.urandom(32 << 20)
    (hand.workspace / "large.png").write_bytes(data)
    before = hand.status("VmRSS")
    page = view(client, hand.workspace / "large.png").body
    assert base64.b64decode(page.split(b"base64,")[1].split(b'"')[0]) == data
    assert hand.status("VmRSS") - before < memory_limit(8 << 10)


def test_pdf_page(viewer, with_pdfjs):
    hand, client = viewer
    path = hand.workspace / "doc.pdf"
    path.write_bytes(make_pdf(["x"]))
    headers = {"Accept-Encoding": "gzip, deflate, br, zstd"}
    reply = client.request("GET", f"/view?path={path}", headers=headers)
    page = reply.body.decode()
    assert reply.status == 200 and "<title>File Viewer - doc.pdf</title>" in page
    assert '<canvas class="page"' in page and "http:" not in page and "https:" not in page
    for script in re.findall(r'src="([^"]*)"', page) + ["/script/pdf.worker.js"]:
        reply = client.get(urljoin("/view", script))
        assert reply.status == 200 and reply.headers["content-type"].startswith("text/javascript")
        encoding = reply.headers.get("content-encoding")
        assert encoding in ("br", "gzip")
        if encoding == "gzip" and "pdf" in script:
            assert b"Licensed under the Apache License" in gzip.decompress(reply.body)
    reply = client.get(f"/file?path={path}")
    assert reply.body == path.read_bytes() and reply.headers["content-type"] == "application/pdf"


def test_pdf_for_a_client_that_cannot_draw_it(viewer):
    hand, client = viewer
    path = hand.workspace / 'a "b".pdf'
    path.write_bytes(make_pdf(["x"]))
    page = view(client, path).body.decode()
    source = re.search(r'<embed type="application/pdf" [^>]*src="([^"]*)"', page)[1]
    assert client.get(urljoin("/view", source)).body == path.read_bytes()


@pytest.mark.parametrize(
    "path, status, text",
    [
        ("relative.png", 400, "<h1>Error: Path must be absolute</h1><p>relative.png</p>"),
        ("/nonexistent/x.png", 404, "<h1>Error: File not found</h1>"),
        ("/etc/passwd/x.png", 404, "<h1>Error: File not found</h1>"),
        ("/tmp", 400, "<h1>Error: Path is a directory</h1>"),
        ("/etc/passwd.txt", 404, "<h1>Error: File not found</h1>"),
        (
            "/etc/hostname",
            500,
            "<h1>Error viewing file</h1><p>/etc/hostname</p><p>Unsupported file extension: . "
            "Supported extensions are: .pdf, .png, .jpg, .jpeg, .gif</p>",
        ),
    ],
)
def test_errors(viewer, path, status, text):
    for route in ("/view", "/file"):
        reply = viewer[1].get(f"{route}?path={path}")
        assert reply.status == status and text in reply.body.decode()


def test_unsupported(viewer):
    hand, client = viewer
    for name in ("a.txt", "b.TXT"):
        (hand.workspace / name).write_text("x")
        path = f"{hand.workspace}/{name}"
        reply = view(client, path)
        assert reply.status == 500
        assert reply.body.decode() == (
            f"<h1>Error viewing file</h1><p>{path}</p><p>Unsupported file extension: .txt. "
            "Supported extensions are: .pdf, .png, .jpg, .jpeg, .gif</p>"
        )


def test_pipe(viewer):
    """It has no contents to wait for."""
    hand, client = viewer
    os.mkfifo(hand.workspace / "pipe.png")
    reply = view(client, hand.workspace / "pipe.png")
    assert reply.status == 500 and "Not a regular file" in reply.body.decode()


def test_names_are_escaped(viewer):
    hand, client = viewer
    name = "<script>alert(1)<'\".png"
    (hand.workspace / name).write_bytes(PNG)
    for path in (f"{hand.workspace}/{name}", f"/nonexistent/{name}", f"rel{name}"):
        page = view(client, path).body.decode()
        assert "<script>alert" not in page and "1)<'" not in page
        assert "&lt;script&gt;alert" in page


def test_pages_run_nothing_else(viewer):
    hand, client = viewer
    (hand.workspace / "p.png").write_bytes(PNG)
    (hand.workspace / "p.pdf").write_bytes(make_pdf(["x"]))
    for path in (f"{hand.workspace}/p.png", f"{hand.workspace}/p.pdf", "/no/such", "relative"):
        headers = view(client, path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:80", "127.0.0.1.evil:1", ""]
)
def test_only_names_of_this_machine(viewer, host):
    """A page from elsewhere cannot make its own name point here and read files."""
    hand, client = viewer
    (hand.workspace / "secret.pdf").write_bytes(make_pdf(["secret"]))
    for route in ("/view", "/file"):
        path = f"{route}?path={hand.workspace}/secret.pdf"
        reply = client.request("GET", path, headers={"Host": host})
        assert reply.status == 403 and reply.body.startswith(b"<h1>Access Denied</h1>")
    for good in ("localhost:1", "LOCALHOST", "127.0.0.1", "[::1]:80"):
        assert client.request("GET", "/", headers={"Host": good}).status == 200


def test_own_secrets_are_not_shown(viewer):
    """A link with a harmless name does not lead to what only the hand knows."""
    hand, client = viewer
    (hand.workspace / "link.pdf").symlink_to(f"/proc/{hand.pid}/environ")
    (hand.workspace / "self.png").symlink_to("/proc/self/environ")
    for name, route in (("link.pdf", "/file"), ("self.png", "/view")):
        reply = client.get(f"{route}?path={hand.workspace}/{name}")
        assert reply.status == 500 and "Permission denied" in reply.body.decode()


def test_ends_with_the_hand(start):
    hand, client = start_viewer(start)
    hand.stop()
    with pytest.raises(OSError):
        client.get("/")


# --- in a real browser --------------------------------------------------------------------------


class Browser:
    """A headless Chromium with one page."""

    def __init__(self, directory):
        self.errors = open(f"{directory}/stderr", "wb")
        self.process = subprocess.Popen(
            [
                "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-dev-shm-usage", "--remote-debugging-port=0", "--remote-allow-origins=*",
                "--window-size=1000,900", f"--user-data-dir={directory}/profile", "about:blank",
            ],
            stderr=self.errors,
            env={**os.environ, "HOME": directory},
        )  # fmt: skip

        self.socket = None

    def connect(self):
        def port():
            with open(self.errors.name) as f:
                return re.search(r"DevTools listening on ws://127.0.0.1:(\d+)/", f.read())

        number = wait_until(port, 60, "a browser")[1]

        def page():
            with urlopen(f"http://127.0.0.1:{number}/json", timeout=30) as reply:
                return [target for target in json.load(reply) if target["type"] == "page"]

        target = wait_until(page, 60, "its page")[0]
        websocket = pytest.importorskip("websocket")
        self.socket = websocket.create_connection(target["webSocketDebuggerUrl"], timeout=60)
        self.numbers = itertools.count()
        self.events = []
        self.call("Page.enable")
        self.call("Log.enable")

    def call(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        wait_until(lambda: self.value("document.readyState") == "complete", 60, url)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    def tree(self):
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n["name"]["value"]) for n in nodes if not n["ignored"]]

    def complaints(self):
        return [e for e in self.events if e["method"] == "Log.entryAdded"]

    def close(self):
        if self.socket:
            self.socket.close()
        self.process.terminate()
        self.process.wait(30)
        self.errors.close()


@pytest.fixture(scope="module")
def browser():
    if not shutil.which("chromium"):
        pytest.skip("chromium is not installed")
    directory = str(room("b"))
    browser = Browser(directory)
    try:
        browser.connect()
        yield browser
    finally:
        browser.close()
        shutil.rmtree(directory, ignore_errors=True)


def test_pdf_is_drawn(viewer, browser, with_pdfjs):
    hand, _ = viewer
    path = hand.workspace / "a b&c.pdf"
    path.write_bytes(make_pdf(["Hello from page one", "Second page", "3", "4", "5"]))
    browser.open(f"{hand.viewer_url}/view?path={quote(str(path))}")
    assert "Canvas" in [role for role, _ in browser.tree()], "before anything is drawn"
    drawn = "document.querySelectorAll('canvas.page[data-drawn]').length"
    wait_until(lambda: (browser.value(drawn) or 0) >= 2, 60, "two pages")
    assert browser.value("document.title") == "File Viewer - a b&c.pdf"
    assert browser.value("document.querySelectorAll('canvas.page').length") == 5
    assert (
        browser.value("[0, 1].map(i => document.querySelectorAll('canvas')[i].width)") == [892] * 2
    )
    ink = """(() => { const c = document.querySelector('canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let dark = 0; for (let i = 0; i < d.length; i += 4) dark += d[i] < 128; return dark; })()"""
    assert browser.value(ink) > 500
    tree = browser.tree()
    assert ("Canvas", "Page 1 of 5") in tree and ("Canvas", "Page 5 of 5") in tree
    assert ("StaticText", "Hello from page one") in tree
    assert not browser.complaints()


def test_far_pages_are_drawn_when_seen(viewer, browser, with_pdfjs):
    hand, _ = viewer
    path = hand.workspace / "long.pdf"
    path.write_bytes(make_pdf([f"Page number {n}" for n in range(1, 31)], compress=True))
    browser.open(f"{hand.viewer_url}/view?path={path}")
    page = "document.querySelectorAll('canvas')[%d]?.dataset.drawn === ''"
    wait_until(lambda: browser.value(page % 0), 60, "the first page")
    assert not browser.value(page % 29)
    browser.value("document.querySelectorAll('canvas')[29].scrollIntoView()")
    wait_until(lambda: browser.value(page % 29), 60, "the last page")
    wait_until(lambda: not browser.value(page % 0), 60, "the first page let go")


@pytest.mark.parametrize("data", [b"%PDF-1.4\n%%EOF\n", b"", b"\0" * 100])
def test_broken_pdf_says_so(viewer, browser, with_pdfjs, data):
    hand, _ = viewer
    path = hand.workspace / "broken.pdf"
    path.write_bytes(data)
    browser.open(f"{hand.viewer_url}/view?path={path}")
    wait_until(
        lambda: (browser.value("document.body.innerText") or "").startswith("Error viewing file: "),
        60,
        "an error",
    )


def test_image_is_shown(viewer, browser):
    hand, _ = viewer
    (hand.workspace / "test_image.png").write_bytes(PNG)
    browser.open(f"{hand.viewer_url}/view?path={hand.workspace}/test_image.png")
    assert browser.value("document.querySelector('img').naturalWidth") == 1
    assert ("RootWebArea", "File Viewer - test_image.png") in browser.tree()
    assert not browser.complaints()


RUN = "window.intruded=1"
NAMES = [
    f"<script>{RUN}<",
    f"<img src=x onerror={RUN}>",
    f"<svg onload={RUN}>",
    f"'\" onload={RUN} x=\"",
    "<img src=http:∕∕elsewhere.invalid∕i>",
    f"javascript:{RUN}",
    f"<title>x<base href='http:elsewhere.invalid'><script>{RUN}<",
]


def expect_untouched(hand, browser, where):
    """No script but the viewer's, no request to anybody else."""
    assert browser.value("window.intruded") is None, where
    assert browser.value("document.querySelectorAll('iframe, object, base').length") == 0, where
    sent = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert sent and not [url for url in sent if not url.startswith((hand.viewer_url + "/", "blob:", "data:"))], sent


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_only_text(viewer, browser, name):
    hand, _ = viewer
    browser.call("Network.enable")
    html = f"<script>{RUN}</script>".encode()
    for ending in (".png", ".gif", ".pdf", ".txt", ".svg", ".html"):
        content = PNG if ending == ".png" else html
        (hand.workspace / (name + ending)).write_bytes(content)
        for path in (f"{hand.workspace}/{name}{ending}", f"/nowhere/{name}{ending}", name + ending):
            for route in ("view", "file"):
                if (route, ending) == ("file", ".pdf"):
                    continue  # a viewer of the browser's own
                browser.open(f"{hand.viewer_url}/{route}?path={quote(path)}")
                expect_untouched(hand, browser, (route, path))


def test_a_document_is_only_drawn(viewer, browser, with_pdfjs):
    """Scripts, links and forms of a PDF do nothing; its text is text."""
    hand, _ = viewer
    browser.call("Network.enable")
    text = f"<img src=x onerror={RUN}>"  # what does not fit on the page is left out
    action = f"/OpenAction << /S /JavaScript /JS ({RUN}) >> /AA << /O << /S /URI /URI (http://elsewhere.invalid/o) >> >>"
    path = hand.workspace / "evil.pdf"
    path.write_bytes(make_pdf([text], catalog=action.encode()))
    browser.open(f"{hand.viewer_url}/view?path={path}")
    wait_until(lambda: browser.value("document.querySelector('canvas')?.textContent") == text, 60, "its text")
    expect_untouched(hand, browser, "evil.pdf")

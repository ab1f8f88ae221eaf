"""What OpenHands' own tests of browsing need, in the same steps."""

import shutil

import pytest
from browsers import Browser, needs_chromium
from harness import Factory, free_port, listening, wait_until
from pdf_files import make_pdf
from PIL import Image

FORM = """<!DOCTYPE html><html><head><title>Test Form</title></head><body><h1>Test Form</h1><form id="test-form">
<input type="text" id="text-input" name="text" placeholder="Enter text">
<textarea id="message" placeholder="Enter message"></textarea>
<select id="select-input" name="select"><option value="option1">Option 1</option><option value="option2">Option 2</option></select>
<button type="button" id="submit-button">Test Button</button></form><div id="result"></div>
<script>document.getElementById('submit-button').onclick = function () {
  document.getElementById('result').innerHTML = 'Button clicked! Text: ' + document.getElementById('text-input').value +
    ', Select: ' + document.getElementById('select-input').value; }</script></body></html>"""
NEXT = "<!DOCTYPE html><html><head><title>Page 2</title></head><body><h1>Page 2 Content</h1></body></html>"
UPLOAD = """<!DOCTYPE html><html><head><title>File Upload Test</title></head><body>
<input type="file" id="file-input"><button type="button" onclick="handleUpload()">Upload File</button><div id="result"></div>
<script>function handleUpload() { const f = document.getElementById('file-input').files[0];
  document.getElementById('result').innerHTML = f ? 'File uploaded: ' + f.name + ' (' + f.size + ' bytes)' : 'none'; }
document.getElementById('file-input').onchange = (e) => {
  document.getElementById('result').innerHTML = 'File selected: ' + e.target.files[0].name; }</script></body></html>"""


@pytest.fixture(scope="module")
def world():
    """A hand as OpenHands starts it, and a web server that the agent has started in it."""
    needs_chromium()
    factory = Factory()
    hand = factory(browser=True, listen="port")
    for name, text in (("form.html", FORM), ("page2.html", NEXT), ("upload.html", UPLOAD)):
        (hand.workspace / name).write_text(text)
    (hand.workspace / "upload_test.txt").write_text("This is a test file for upload.")
    port = free_port()
    obs = hand.client.run(f"python3 -m http.server {port} > server.log 2>&1 &")
    assert obs.exit == 0 and "[1]" in obs.content
    wait_until(lambda: listening(port), 60, "the agent's web server")
    browser = Browser(hand, None)
    browser.url = f"http://localhost:{port}"
    yield browser
    hand.client.ok("kill %1")
    factory.finish()


def test_simple_browse(world):
    obs = world.browse(world.url)
    assert obs.type == "browse" and obs.extras["error"] is False
    assert obs.extras["url"] == f"{world.url}/" and obs.raw["message"] == f"Visited {world.url}/"
    assert obs.extras["open_pages_urls"] == [f"{world.url}/"]
    assert obs.extras["active_page_index"] == 0
    assert obs.extras["last_browser_action"] == f'goto("{world.url}")'
    assert obs.extras["last_browser_action_error"] == ""
    for text in ("Directory listing for /", "page2.html", "server.log"):
        assert text in obs.content
    assert obs.content.startswith(f"[Current URL: {world.url}/]\n")


def test_navigation_actions(world):
    world.ok(f'goto("{world.url}/form.html")')
    obs = world.ok(f'goto("{world.url}/page2.html")')
    assert "Page 2" in obs.content
    world.ok("noop(500)")
    assert "Test Form" in world.ok("go_back()").content
    assert "Page 2" in world.ok("go_forward()").content


def test_form_interactions(world):
    world.ok(f'goto("{world.url}/form.html")')
    text, area = world.bid("textbox 'Enter text'"), world.bid("textbox 'Enter message'")
    select, button = world.bid("combobox"), world.bid("button 'Test Button'")
    obs = world.ok(f'fill("{text}", "Hello World")\nfill("{area}", "Testing message")')
    assert world.bid("textbox 'Enter text'") == text, "bids are stable"
    assert "value='Hello World'" in world.line(f"[{text}]")
    assert "value='Testing message'" in world.line(f"[{area}]") or "Testing message" in obs.content
    world.ok(f'select_option("{select}", "option2")')
    assert "value='Option 2'" in world.line(f"[{select}]")
    obs = world.ok(f'click("{button}")')
    assert "Button clicked! Text: Hello World, Select: option2" in obs.content
    world.ok(f'clear("{text}")')
    assert "Hello World" not in world.line(f"[{text}]")


def test_interactive_actions(world):
    world.ok(f'goto("{world.url}/form.html")')
    text, button = world.bid("textbox 'Enter text'"), world.bid("button 'Test Button'")
    world.ok("scroll(0, 300)")
    world.ok(f'hover("{button}")')
    assert world.ok(f'focus("{text}")').extras["focused_element_bid"] == text
    world.ok(f'fill("{text}", "TestInput")\npress("{text}", "Backspace")')
    assert "value='TestInpu'" in world.line(f"[{text}]")
    calls = f'fill("{text}", "x")\nhover("{button}")\nclick("{button}")'
    assert world.ok(calls).extras["last_browser_action"] == calls


def test_file_upload(world):
    world.ok(f'goto("{world.url}/upload.html")')
    file = world.bid("button 'Choose File")
    obs = world.ok(f'upload_file("{file}", "{world.hand.workspace}/upload_test.txt")')
    assert "upload_test.txt" in obs.content
    button = world.bid("button 'Upload File'")
    assert "File uploaded: upload_test.txt (31 bytes)" in world.ok(f'click("{button}")').content


def view(world, path):
    url = world.hand.client.ok("cat /tmp/oh-server-url")
    obs = world.ok(f'goto("{url}/view?path={path}")')
    saved = obs.extras["screenshot_path"]
    assert f"[Screenshot saved to: {saved}]" in obs.content
    assert saved.startswith(f"{world.hand.workspace}/.browser_screenshots/screenshot_")
    assert Image.open(saved).size == (1280, 720)
    return obs


def test_read_pdf(world):
    path = world.hand.workspace / "test_document.pdf"
    path.write_bytes(make_pdf(["This is a test document"]))
    assert "Canvas" in view(world, path).content


def test_read_png(world):
    path = world.hand.workspace / "test_image.png"
    Image.new("RGB", (40, 30), "red").save(path)
    assert "File Viewer - test_image.png" in view(world, path).content


def test_download_file(world):
    shutil.copyfile(world.hand.workspace / "test_document.pdf", world.hand.workspace / "doc.bin")
    obs = world.act(f'goto("{world.url}/doc.bin")')
    assert obs.type == "download", obs
    assert obs.extras["file_path"] == f"{world.hand.workspace}/file_1.pdf"
    assert obs.raw["message"] == f"Downloaded the file at location: {obs.extras['file_path']}"

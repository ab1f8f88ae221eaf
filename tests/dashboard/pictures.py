#!/usr/bin/python3
"""pictures.py DIRECTORY: makes the pictures of the dashboard for the documentation, from a real service and a real
Chromium. TN_BUILD says whose programs."""

import pathlib
import shutil
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS / name) for name in ("service", "vscode", "")]

from pages import Page  # noqa: E402
from services import Service  # noqa: E402

CONFIG = """
[template.python]
memory = "1g"
[template.small]
memory = "256m"
cpus = 0.5
"""
ACTIONS = [
    ("run", {"command": "git init -q . && ls -la", "thought": "I look at what is there first.", "security_risk": 0}),
    ("write", {"path": "app.py", "content": "import sys\n\nprint('hello from', sys.version.split()[0])\n"}),
    ("run", {"command": "python3 app.py", "security_risk": 0}),
    ("run", {"command": "python3 -m pytest -q", "security_risk": 0}),
    ("read", {"path": "app.py"}),
    ("run", {"command": "chmod -R 777 /workspace", "security_risk": 2}),
    ("run", {"command": "seq 1 2000 | sha256sum", "security_risk": 0}),
]
LOAD = """import time

kept = []
for step in range(400):
    kept.append(bytearray((step % 40) << 14))
    end = time.monotonic() + 0.1 + 0.05 * (step % 5)
    while time.monotonic() < end:
        pass
    time.sleep(0.15)
    if step % 40 == 39:
        kept.clear()
"""


def furnish(client):
    """Sandboxes that look like a day's work; the id of the one to look at."""
    ids = {}
    for name, template in [("nightly-tests", "small"), ("docs", "small"), ("data-import", "python"), ("web-shop", "python")]:
        ids[name] = client.post("/v1/sandboxes", {"name": name, "template": template}).ok(201).json["id"]
    for kind, args in ACTIONS:
        act(client, ids["web-shop"], kind, **args)
    act(client, ids["docs"], "run", command="mkdocs build --strict")
    act(client, ids["data-import"], "run", command="nproc; sleep 0.1")
    client.post(f"/v1/sandboxes/{ids['data-import']}/pause").ok()
    client.post(f"/v1/sandboxes/{ids['nightly-tests']}/stop").ok()
    return ids["web-shop"]


def act(client, box, kind, **args):
    client.post(f"/v1/sandboxes/{box}/actions", {"action": {"action": kind, "args": args}}).ok()


def take(page, box, out):
    page.wait_text("web-shop")
    page.wait_for("[...document.querySelectorAll('td[data-label=CPU]')].some((cell) => cell.innerText.includes('%'))")
    page.screenshot(out / "sandboxes.png")

    page.go("sandboxes", box, "events")
    page.wait_for("document.querySelectorAll('.event').length >= 6")
    page.evaluate("document.querySelectorAll('.event details')[2].open = true")
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(out / "events.png")

    page.set_media(color_scheme="dark")
    page.go("sandboxes", box, "terminal")
    page.wait_for("document.querySelector('.terminals .state')?.dataset.state == 'live'")
    page.type_keys("ls --color=always -la /")
    page.press("Enter")
    page.wait_terminal("workspace")
    page.type_keys("python3 app.py")
    page.press("Enter")
    page.wait_terminal("hello from")
    page.screenshot(out / "sandbox.png")

    page.go("sandboxes", box, "usage")
    page.wait_for("document.querySelector('.chart .area')?.getAttribute('d')?.split('L').length > 8")
    page.screenshot(out / "usage.png")

    page.set_media()
    page.go("sandboxes", box, "files")
    page.wait_element(".files a", "app.py")
    page.screenshot(out / "files.png")

    page.set_size(360, 740, mobile=True)
    page.go("sandboxes")
    page.wait_element("td.main a", "web-shop")
    page.screenshot(out / "phone.png")


def main(out):
    base = pathlib.Path(tempfile.mkdtemp(prefix=""))
    service = Service(base, config=CONFIG).start()
    page = Page()
    try:
        box = furnish(service.client())
        page.visit(service)
        page.sign_in(service.admin)
        act(service.client(), box, "write", path="import.py", content=LOAD)
        act(service.client(), box, "run", command="python3 import.py &")
        take(page, box, out)
        page.expect_clean()
    finally:
        page.close()
        service.finish()
        shutil.rmtree(base)


main(pathlib.Path(sys.argv[1]).resolve())

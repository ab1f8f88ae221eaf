"""A Chromium without a window, driven over a pipe: what a person at the page would see."""

import json
import os
import shutil
import subprocess
import tempfile
import time

import pytest


class Refused(AssertionError):
    """Chromium says no to a command."""

    def __init__(self, method, error):
        super().__init__(f"{method}: {error}")
        self.message = error["message"]


class Chrome:
    def __init__(self):
        program = shutil.which("chromium")
        if not program:
            pytest.skip("chromium is not installed")
        self.profile = tempfile.mkdtemp(prefix="tv-chrome-")
        to_read, self.to = os.pipe()
        self.answers, to_write = os.pipe()
        command = [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={self.profile}",
            "about:blank",
        ]
        # Its descriptors 3 and 4; ours may have those numbers for something else.
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.profile},
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self.rest = b""
        self.number = 0
        self.target = self.session = None

    def close(self):
        os.close(self.to)
        os.close(self.answers)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        shutil.rmtree(self.profile, ignore_errors=True)

    def read(self):
        while b"\0" not in self.rest:
            piece = os.read(self.answers, 1 << 16)
            assert piece, "chromium has ended"
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        """One command of the protocol; events are not of interest."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session and not method.startswith("Target."):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self.read()).get("id") != self.number:
            pass
        if "error" in answer:
            raise Refused(method, answer["error"])
        return answer["result"]

    def open(self, url):
        """A fresh tab with that page, in a jar of cookies of its own; the one before is closed."""
        if self.target:
            self.call("Target.closeTarget", targetId=self.target)
        context = self.call("Target.createBrowserContext")["browserContextId"]
        self.target = self.call("Target.createTarget", url=url, browserContextId=context)[
            "targetId"
        ]
        self.session = self.call("Target.attachToTarget", targetId=self.target, flatten=True)[
            "sessionId"
        ]

    def evaluate(self, expression):
        """Its value in the page; None also when the page is left for another meanwhile, as after every redirection."""
        try:
            result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        except Refused as refused:
            if refused.message != "Inspected target navigated or closed":
                raise
            return None
        return result["result"].get("value")

    def wait_for(self, expression, seconds=60):
        """Polls until the expression is true in the page; pages under way have none."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, (
                f"{expression}: not within {seconds} s; the page is "
                + str(self.evaluate("location.href + '\\n' + document.body?.innerText"))
            )
            time.sleep(0.05)
        return value

    def click(self, text):
        """Presses the mouse on the first row of a list whose text is that."""
        box = self.wait_for(
            "(() => { const row = [...document.querySelectorAll('.monaco-list-row')]"
            f".find(e => e.innerText.trim() == {json.dumps(text)});"
            " if (!row) return null; const r = row.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0],
                y=box[1],
                button="left",
                clickCount=1,
            )

    def press(self, key, number):
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=number,
            )

    def command(self, title, sign):
        """Runs a command of the editor from its palette, until the sign of it is true in the page: a key
        that is pressed while the editor moves its focus is lost, and so is a list of its without focus."""
        steps = (
            (lambda: self.press("F1", 112), "document.activeElement?.closest('.quick-input-widget') != null"),
            (
                lambda: self.call("Input.insertText", text=title),
                "document.querySelector('.quick-input-list .monaco-list-row.focused')?.innerText"
                f".includes({json.dumps(title)})",
            ),
            (lambda: self.press("Enter", 13), sign),
        )
        deadline = time.monotonic() + 90
        while not all(self.leads_to(*step) for step in steps):
            assert time.monotonic() < deadline, f"{title}: no {sign}; the page is {self.evaluate('document.body.innerText')}"
            self.press("Escape", 27)

    def leads_to(self, act, sign, seconds=10):
        act()
        try:
            return self.wait_for(sign, seconds)
        except AssertionError:
            return False

"""A person at the dashboard: looks by text and label, types, clicks, drops files."""

import base64
import json
import time

from chrome import Chrome

# Told by the page itself before any of its scripts run.
LISTEN = """
window.broken = [];
addEventListener('securitypolicyviolation', (e) => broken.push(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
addEventListener('error', (e) => broken.push(`error: ${e.message}`));
addEventListener('unhandledrejection', (e) => broken.push(`rejection: ${e.reason?.stack ?? e.reason}`));
"""

KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Tab": ("Tab", 9, ""),
    "Escape": ("Escape", 27, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "F6": ("F6", 117, ""),
    "Backspace": ("Backspace", 8, ""),
}
PATIENCE = 60  # seconds for whatever must happen
MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}


class Page(Chrome):
    def visit(self, service, fragment="", width=1280, height=800):
        """A fresh tab, with no memory of others, at that place of the dashboard."""
        self.open("about:blank")
        for domain in ("Page", "Runtime"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=LISTEN)
        self.set_size(width, height)
        self.set_media()
        self.navigate(f"{service.url}/{fragment}")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=PATIENCE):
        """Until it is true; the value of something that has none (an element) counts as true."""
        return super().wait_for(f"((found) => found instanceof Object ? true : found)({expression})", seconds)

    def navigate(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState == 'complete' && Boolean(window.broken)")

    def set_size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def set_media(self, **features):
        """color_scheme="dark", reduced_motion="reduce" """
        named = [{"name": f"prefers-{k.replace('_', '-')}", "value": v} for k, v in features.items()]
        self.call("Emulation.setEmulatedMedia", features=named)

    def expect_clean(self):
        broken = self.evaluate("window.broken")
        assert not broken, broken

    # --- looking ------------------------------------------------------------------------------------

    def text(self):
        return self.evaluate("document.body.innerText") or ""

    def wait_text(self, text, seconds=PATIENCE):
        self.wait_for(f"document.body.innerText.includes({json.dumps(text)})", seconds)

    def wait_gone(self, text, seconds=PATIENCE):
        self.wait_for(f"!document.body.innerText.includes({json.dumps(text)})", seconds)

    def element(self, selector, text=None):
        """An expression for the first visible element that matches, with that text or label if one is given."""
        wanted = json.dumps(text)
        return (
            f"[...document.querySelectorAll({json.dumps(selector)})].find((e) => e.checkVisibility() && "
            f"({wanted} === null || e.innerText.trim() === {wanted} || e.getAttribute('aria-label') === {wanted}))"
        )

    def is_there(self, selector, text=None):
        return bool(self.evaluate(f"Boolean({self.element(selector, text)})"))

    def wait_element(self, selector, text=None, seconds=PATIENCE):
        self.wait_for(f"Boolean({self.element(selector, text)})", seconds)

    def title_of(self, target):
        return self.call("Target.getTargetInfo", targetId=target)["targetInfo"]["title"]

    def focused(self):
        """What has the focus: its label or text."""
        return self.evaluate(
            "(() => { const e = document.activeElement; return e.getAttribute('aria-label') ?? "
            "(e.labels?.[0]?.innerText ?? e.innerText ?? e.tagName).trim(); })()"
        )

    # --- doing --------------------------------------------------------------------------------------

    def click_on(self, selector, text=None):
        """With the mouse, where the element is."""
        self.wait_element(selector, text)
        x, y = self.evaluate(
            f"(() => {{ const e = {self.element(selector, text)}; e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def fill(self, selector, value, text=None):
        """Replaces the text of a field by typing."""
        self.wait_element(selector, text)
        self.evaluate(f"(() => {{ const e = {self.element(selector, text)}; e.focus(); e.select?.(); }})()")
        self.type(value)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def type_keys(self, text):
        """Key by key, as a terminal wants it."""
        for character in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=character, text=character)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=character)

    def press(self, combination):
        """ "Enter", "Control+k", "g" """
        *held, key = combination.split("+") if combination != "+" else ["+"]
        modifiers = sum(MODIFIERS[name] for name in held)
        name, code, text = KEYS[key] if key in KEYS else (key, ord(key.upper()), key)
        common = {"key": name, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        down = {"type": "keyDown", "text": text} if text and modifiers in (0, 8) else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **down, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def go(self, *parts):
        self.evaluate(f"location.hash = {json.dumps('#/' + '/'.join(parts))}")

    def drop(self, selector, *paths):
        x, y = self.evaluate(
            f"(() => {{ const r = {self.element(selector)}.getBoundingClientRect(); return [r.x + r.width / 2, r.y + 20]; }})()"
        )
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def screenshot(self, path):
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(picture))

    # --- the dashboard ------------------------------------------------------------------------------

    def sign_in(self, key):
        self.fill("input[name=key]", key)
        self.press("Enter")
        self.wait_element(".places")
        self.wait_for("document.querySelector('.link-state .state')?.dataset.state == 'live'")

    def terminal_text(self):
        """What the terminal in front shows."""
        return self.evaluate("[...document.querySelectorAll('.surface')].find((e) => !e.hidden)?.terminal?.text()") or ""

    def wait_terminal(self, text, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while text not in (shown := self.terminal_text()):
            assert time.monotonic() < deadline, f"{text!r} is not in the terminal:\n{shown}\n{self.text()}"
            time.sleep(0.05)

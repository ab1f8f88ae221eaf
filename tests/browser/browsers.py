"""The browser of a hand, with short names for what tests do."""

import re
import shutil

import pytest

# What a start of Chromium on a slow, busy machine may take.
PATIENCE = 100


class Browser:
    """The browser of a hand, with short names for what tests do."""

    def __init__(self, hand, site):
        self.hand, self.site = hand, site
        self.last = None

    def act(self, actions, timeout=PATIENCE, **args):
        args = {"browser_actions": actions, **args}
        self.last = self.hand.client.act("browse_interactive", args, timeout)
        return self.last

    def ok(self, actions, **args):
        obs = self.act(actions, **args)
        assert obs.type == "browse" and not obs.extras["error"], obs
        assert "[Action executed successfully.]" in obs.content
        return obs

    def fails(self, actions, **args):
        """The error text."""
        obs = self.act(actions, **args)
        assert obs.type == "browse" and obs.extras["error"] is True, obs
        error = obs.extras["last_browser_action_error"]
        assert error and error in obs.content
        return error

    def go(self, page):
        return self.ok(f'goto("{self.site.url}/{page}")')

    def browse(self, url, timeout=PATIENCE, **args):
        self.last = self.hand.client.act("browse", {"url": url, **args}, timeout)
        return self.last

    def pages(self):
        return self.hand.client.get("/v1/browser/pages").json["pages"]

    def line(self, what):
        """The line of the last tree that shows it, such as "button 'Plain'"."""
        lines = [line.strip() for line in self.last.content.splitlines() if what in line]
        assert lines, f"{what} is not in\n{self.last.content}"
        return lines[0]

    def bid(self, what):
        found = re.match(r"\[(\w+)\]", self.line(what))
        assert found, self.line(what)
        return found[1]

    def call(self, function, what, *args):
        """The text of a call on the element that the tree shows as `what`."""
        return f"{function}({', '.join(repr(a) for a in (self.bid(what), *args))})"

    def log(self):
        """What the page of actions has written down."""
        texts = re.findall(r"status 'log'.*\n\t+StaticText '(.*)'", self.last.content)
        return texts[0] if texts else ""


def needs_chromium():
    if not shutil.which("chromium"):
        pytest.skip("chromium is not installed")

"""What tests of IPython cells share."""

import contextlib
import subprocess
import textwrap
import threading

NO_OUTPUT = "[Code executed successfully with no output]"
PYTHON = "/usr/bin/python3"


def missing_parts():
    """What must be installed, as a sentence; empty when nothing."""
    check = "import ipykernel, jupyter_client"
    done = subprocess.run([PYTHON, "-W", "ignore", "-c", check], capture_output=True)
    return "" if done.returncode == 0 else f"{PYTHON} has no ipykernel with jupyter_client"


def footer(directory, interpreter=PYTHON):
    return (
        f"[Jupyter current working directory: {directory}]\n"
        f"[Jupyter Python interpreter: {interpreter}]"
    )


def timed_out(seconds):
    return f"[Execution timed out ({float(seconds)} seconds).]"


STILL_STOPPING = (
    "\n[The cell was interrupted but has not stopped yet: "
    "if it does not within seconds, the kernel is restarted.]"
)


def without_haste(text):
    """Without the line that a slow machine adds: the cell stopped, but not at once."""
    return text.replace(STILL_STOPPING, "")


class Kernel:
    """The client of one kernel of a hand."""

    def __init__(self, hand, session=None):
        self.hand = hand
        self.session = session

    def cell(self, code, timeout=60.0, key=None, include_extra=False, **args):
        args.update(code=textwrap.dedent(code), include_extra=include_extra)
        if self.session:
            args["session"] = self.session
        obs = self.hand.client.act("run_ipython", args, timeout, key)
        assert obs.type == "run_ipython", obs
        return obs

    def text(self, code, **kw):
        return self.cell(code, **kw).content

    @staticmethod
    def until(path):
        """Code that waits for a file."""
        return f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.01)"

    def plugin(self):
        reply = self.hand.client.get("/v1/plugins")
        assert reply.status == 200, reply
        return next(p for p in reply.json["plugins"] if p["name"] == "jupyter")

    def status(self):
        name = self.session or "main"
        return next((k for k in self.plugin()["kernels"] if k["name"] == name), None)

    @contextlib.contextmanager
    def in_background(self, code, **kw):
        """Runs a cell meanwhile; what is yielded has its content at the end."""
        result = Background()
        thread = threading.Thread(target=lambda: result.take(self.cell(code, **kw)))
        thread.start()
        try:
            yield result
        finally:
            thread.join(120)

    def together(self, codes):
        results = []
        threads = [threading.Thread(target=lambda c=c: results.append(self.text(c))) for c in codes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        return results


class Background:
    obs = None

    def take(self, obs):
        self.obs = obs

    @property
    def content(self):
        return self.obs.content

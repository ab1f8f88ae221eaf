"""IPython cells that nobody wants any more: DELETE /v1/cells/{id}."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Factory, wait_until
from kernels import Kernel, missing_parts

pytestmark = pytest.mark.skipif(bool(missing_parts()), reason=str(missing_parts()))

PLUGINS = ["--plugins", "jupyter"]
STUBBORN = "did not stop when its cell was interrupted, and was killed"
WAIT = "import threading; threading.Event().wait(50)"


@pytest.fixture(scope="module")
def hand():
    factory = Factory()
    yield factory(args=PLUGINS)
    factory.finish()


@pytest.fixture
def pool():
    with ThreadPoolExecutor() as pool:
        yield pool


class Cell:
    """Runs in the background, by a request that has an id."""

    def __init__(self, pool, hand, code, **args):
        self.hand, self.id = hand, uuid.uuid4().hex
        action = {"action": "run_ipython", "args": {"code": code, "include_extra": False, **args}, "timeout": 60}
        headers = {"X-Request-Id": self.id}
        self.reply = pool.submit(hand.client.post, "/execute_action", {"action": action}, headers, timeout=70)

    def give_up(self):
        return self.hand.client.request("DELETE", f"/v1/cells/{self.id}", timeout=30).status

    @property
    def content(self):
        return self.reply.result().json["content"]


def touch(path):
    return f"open({str(path)!r}, 'w').close()\n"


def new(how):
    return f"[This is a new kernel: the one before {how}. Its variables are lost.]\n"


def died(how):
    return f"[The kernel {how}. Its variables are lost; the next cell starts a new one.]"


def test_one_that_runs_and_one_that_waits(hand, pool, tmp_path):
    """One that runs is interrupted, one that waits for it is not run; the kernel goes on."""
    begun, never = tmp_path / "begun", tmp_path / "never"
    first = Cell(pool, hand, f"x = 7; {touch(begun)}{WAIT}")
    wait_until(begun.exists, 30, "the first cell runs")
    second = Cell(pool, hand, touch(never))
    wait_until(lambda: second.give_up() == 204, 30, "the second one waited")
    assert second.content == "[The cell was not run: it was given up.]" and not never.exists()
    assert not first.reply.done()
    assert first.give_up() == 204
    assert "KeyboardInterrupt" in first.content
    assert Kernel(hand).text("x") == "7"
    assert first.give_up() == 404


def test_while_a_new_kernel_is_set_up(hand, pool, tmp_path):
    """Its init code is for the next cell, too: that is not interrupted."""
    begun, never = tmp_path / "begun", tmp_path / "never"
    init = f"{touch(begun)}import threading; threading.Event().wait(1)\nmade = 7"
    cell = Cell(pool, hand, touch(never), session="set-up", kernel_init_code=init)
    wait_until(begun.exists, 60, "the init code runs")
    assert cell.give_up() == 204
    assert cell.content == "[The cell was not run: it was interrupted.]" and not never.exists()
    assert Kernel(hand, "set-up").text("made", kernel_init_code=init) == "7"


@pytest.mark.slow
def test_while_the_kernel_starts(start, pool, tmp_path):
    """The kernel goes on starting, for the next cell."""
    begun, go, never = (tmp_path / name for name in ("begun", "go", "never"))
    (tmp_path / "ipykernel_launcher.py").write_text(
        f"{touch(begun)}{Kernel.until(go)}\n"
        "from ipykernel import kernelapp\nkernelapp.launch_new_instance()\n"
    )
    hand = start(args=PLUGINS, env={"PYTHONPATH": str(tmp_path)})
    cell = Cell(pool, hand, touch(never))
    wait_until(begun.exists, 60, "the kernel starts")
    pid = Kernel(hand).status()["pid"]
    assert cell.give_up() == 504
    go.touch()
    assert cell.content == "[The cell was not run: it was given up.]" and not never.exists()
    assert Kernel(hand).text("import os; os.getpid()") == str(pid)


def test_what_it_does_to_clean_up_is_not_cut(hand, pool, tmp_path):
    begun, saved = tmp_path / "begun", tmp_path / "saved"
    code = f"{touch(begun)}try:\n  {WAIT}\nfinally:\n  threading.Event().wait(1)\n  {touch(saved)}"
    cell = Cell(pool, hand, code)
    wait_until(begun.exists, 60, "the cell runs")
    assert cell.give_up() == 204
    assert saved.exists() and "KeyboardInterrupt" in cell.content


def test_one_that_ignores_interrupts_costs_its_kernel(hand, pool, tmp_path):
    begun, kernel = tmp_path / "begun", Kernel(hand, "stubborn")
    code = f"print('begun'); {touch(begun)}while True:\n  try:\n    {WAIT}\n  except BaseException: pass"
    kernel.text("x = 7")
    cell = Cell(pool, hand, code, session="stubborn")
    wait_until(begun.exists, 60, "the cell runs")
    assert cell.give_up() == 204
    assert cell.content == "begun\n" + died(STUBBORN)
    assert kernel.text("'x' in globals()") == new(STUBBORN) + "False"


def test_one_whose_bridge_does_not_answer(hand, pool, tmp_path):
    begun, kernel = tmp_path / "begun", Kernel(hand, "stopped")
    kernel.text("x = 7")
    code = f"import os, signal; os.kill(os.getppid(), signal.SIGSTOP)\n{touch(begun)}{WAIT}"
    cell = Cell(pool, hand, code, session="stopped")
    wait_until(begun.exists, 60, "the cell runs")
    assert cell.give_up() == 204
    how = "was ended by SIGKILL"
    assert cell.content == died(how)
    assert kernel.text("'x' in globals()") == new(how) + "False"


def test_an_owner_may_interrupt_more_than_once(hand, pool, tmp_path):
    code = f"""
import signal, threading
hits = 0
def hit(*_):
    global hits
    hits += 1
    open(f"{tmp_path}/{{hits}}", "w").close()
signal.signal(signal.SIGINT, hit)
{touch(tmp_path / "0")}
while hits < 2: threading.Event().wait(0.01)
"""
    cell = Cell(pool, hand, code + "hits")
    wait_until((tmp_path / "0").exists, 60, "the cell runs")
    for hit in "12":
        assert hand.client.post("/v1/plugins/jupyter/interrupt", {}).status == 200
        wait_until((tmp_path / hit).exists, 30, "it is interrupted")
    assert cell.content == "2"


def test_an_interrupt_between_the_kernel_and_the_code(hand):
    """ipykernel sends no reply then."""
    kernel = Kernel(hand, "between")
    kernel.text("""
        def interrupt(lines):
            if "here" in lines[0]:
                raise KeyboardInterrupt
            return lines
        get_ipython().input_transformers_post.append(interrupt)
    """)
    obs = kernel.cell("'here'")
    assert obs.content == "[The cell was interrupted.]" and obs.raw["success"] is False
    assert kernel.text("1") == "1"

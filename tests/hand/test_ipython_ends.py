"""IPython kernels that die, hang, are missing or belong to somebody else."""

import json
import os
import pathlib
import signal
import subprocess

import pytest

from harness import STRAY, Factory, alive, needs_root, wait_until
from kernels import PYTHON, STILL_STOPPING, Kernel, footer, missing_parts, timed_out

pytestmark = pytest.mark.skipif(bool(missing_parts()), reason=str(missing_parts()))

PLUGINS = ["--plugins", "jupyter"]
LOST = "Its variables are lost; the next cell starts a new one.]"
SLEEP = "from time import sleep; sleep(60)"


@pytest.fixture(scope="module")
def hand():
    factory = Factory()
    yield factory(args=PLUGINS)
    factory.finish()


@pytest.fixture
def kernel(hand):
    """A kernel that has told all about the one before."""
    kernel = Kernel(hand)
    assert kernel.text("1").endswith("1")
    return kernel


def new(how):
    return f"[This is a new kernel: the one before {how}. Its variables are lost.]\n"


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def kill_during_cell(kernel, pid_of, end=kill):
    """Ends it when the cell certainly runs; the observation."""
    mark = pathlib.Path(kernel.hand.workspace, "running")
    with kernel.in_background(f"print('begun')\nopen({str(mark)!r}, 'w').close()\n{SLEEP}") as cell:
        wait_until(mark.exists, 60, "the cell runs")
        end(pid_of())
    mark.unlink()
    return cell.obs


def bridge_pid(kernel):
    return kernel.plugin()["pids"][0]


# --- the kernel -----------------------------------------------------------------------------------


def test_exit_in_a_cell(kernel):
    text = kernel.text("import os; os._exit(3)")
    assert text == f"[The kernel ended with exit code 3. {LOST}"
    how = "ended with exit code 3"
    assert kernel.text("'os' in globals(), 1") == new(how) + "(True, 1)"
    assert kernel.text("1") == "1"  # told once


def test_exit_function(kernel):
    kernel.text("gone = 1\nexit()")
    assert kernel.text("'gone' in globals()") == new("was told to exit") + "False"


def test_crash(kernel):
    assert kernel.text("import ctypes; ctypes.string_at(0)").startswith(
        "[The kernel was ended by SIGSEGV"
    )
    assert kernel.text("1").startswith("[This is a new kernel: the one before was ended by SIGSEGV")


def test_a_cell_that_speaks_for_the_bridge(kernel):
    """All of it is the agent's: what it says without end is not listened to without end."""
    flood = "import os; out = os.open(f'/proc/{os.getppid()}/fd/4', os.O_WRONLY)\n"
    flood += "while True: os.write(out, b'{}\\n' * 100)"
    how = "talked without being asked"
    assert kernel.text(flood) == f"[The kernel {how}. {LOST}"
    assert kernel.text("1") == new(how) + "1"


@pytest.mark.concurrent
def test_kill_during_a_cell(kernel):
    obs = kill_during_cell(kernel, lambda: kernel.status()["pid"])
    assert obs.content.endswith(f"[The kernel was ended by SIGKILL (out of memory?). {LOST}")
    assert kernel.text("1") == new("was ended by SIGKILL (out of memory?)") + "1"


def test_kill_between_cells(kernel):
    kernel.text("x = 1")
    os.kill(kernel.status()["pid"], signal.SIGKILL)
    wait_until(lambda: not kernel.status()["running"], 30, "the bridge has ended, too")
    assert kernel.text("'x' in globals()") == (
        new("was ended by SIGKILL (out of memory?)") + "False"
    )


def test_children_of_a_dead_kernel_are_gone(kernel, hand):
    kernel.text("import subprocess; child = subprocess.Popen(['sleep', '612'])")
    os.kill(kernel.status()["pid"], signal.SIGKILL)
    kernel.text("1")
    wait_until(lambda: not any("sleep 612" in c for c in hand.left().values()), 20, "no child")


@pytest.mark.parametrize("victim", ["kernel", "bridge"])
def test_strays_of_a_dead_kernel_are_gone(kernel, victim):
    """Left on purpose they outlive their cell, but not their kernel."""
    run = f"subprocess.run(['sh', '-c', {STRAY!r}], stdout=subprocess.PIPE)"
    pid = int(kernel.text(f"import subprocess\nint({run}.stdout)"))
    other = Kernel(kernel.hand, "other")
    assert kernel.text("1") == "1" and other.text("2").endswith("2") and alive(pid)
    pid_of = (lambda: kernel.status()["pid"]) if victim == "kernel" else lambda: bridge_pid(kernel)
    kill_during_cell(kernel, pid_of)
    wait_until(lambda: not alive(pid), 30, "the stray is gone")
    assert other.text("3") == "3"


def test_cell_that_ignores_interrupts(kernel):
    code = """
        from time import sleep
        while True:
            try:
                sleep(60)
            except KeyboardInterrupt:
                pass
    """
    assert kernel.text(code, timeout=0.5) == timed_out(0.5) + STILL_STOPPING
    how = "did not stop when its cell was interrupted, and was killed"
    assert kernel.text("2") == new(how) + "2"


def test_slow_to_stop_keeps_its_state(kernel):
    code = """
        from time import sleep
        kept = 1
        try:
            sleep(60)
        finally:
            sleep(1)
    """
    assert kernel.text(code, timeout=1.5) == timed_out(1.5) + STILL_STOPPING
    assert kernel.text("kept") == "1"


@pytest.mark.slow
def test_stopped_kernel(kernel):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    assert kernel.text(code, timeout=0.5) == timed_out(0.5) + STILL_STOPPING
    how = "did not stop when its cell was interrupted, and was killed"
    assert kernel.text("3") == new(how) + "3"


# --- the bridge -----------------------------------------------------------------------------------


def test_bridge_killed_during_a_cell(kernel):
    obs = kill_during_cell(kernel, lambda: bridge_pid(kernel))
    assert obs.content == f"[The kernel was ended by SIGKILL. {LOST}"
    assert kernel.text("1") == new("was ended by SIGKILL") + "1"


def test_bridge_killed_between_cells(kernel):
    pid = kernel.status()["pid"]
    os.kill(bridge_pid(kernel), signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30, "the kernel dies with it")
    assert kernel.text("1") == new("was ended by SIGKILL") + "1"


def test_bridge_stopped(kernel):
    """It does not answer at all: so the hand does."""
    pid = bridge_pid(kernel)
    os.kill(pid, signal.SIGSTOP)
    assert kernel.text("1", timeout=0.5).startswith(timed_out(0.5))
    os.kill(pid, signal.SIGCONT)
    assert kernel.text("2") == "2"  # nothing was lost


def test_bridge_that_takes_no_cell(kernel):
    """More than a pipe holds: what is half told cannot be taken back."""
    os.kill(bridge_pid(kernel), signal.SIGSTOP)
    how = "did not take its input in time"
    assert kernel.text(f"x = {'x' * (1 << 20)!r}", timeout=0.5) == f"[The kernel {how}. {LOST}"
    assert kernel.text("1") == new(how) + "1"


def test_stop_and_start_by_the_owner(kernel, hand):
    kernel.text("x = 1")
    assert hand.client.post("/v1/plugins/jupyter/stop", {}).status < 300
    assert kernel.status()["running"] is False
    assert hand.client.post("/v1/plugins/jupyter/start", {}, timeout=90).status < 300
    assert kernel.status()["running"] is True
    assert kernel.text("'x' in globals()").endswith("False")


def test_interrupted_by_the_owner(kernel, hand):
    def interrupt(pid):
        assert hand.client.post("/v1/plugins/jupyter/interrupt", {}).status == 200

    kernel.text("kept = 1")
    obs = kill_during_cell(kernel, lambda: None, interrupt)
    assert obs.content.startswith("begun\n") and "KeyboardInterrupt" in obs.content
    assert hand.client.post("/v1/plugins/jupyter/interrupt", {}).status == 200
    assert kernel.text("kept") == "1", "an idle kernel does not mind"


@pytest.mark.concurrent
def test_an_interrupt_reaches_what_the_cell_started(kernel, hand, tmp_path):
    """Python itself does not mind while it waits for a program."""
    code = f"import os; print(os.system('touch {tmp_path}/begun; exec sleep 613'))"
    with kernel.in_background(code) as cell:
        wait_until((tmp_path / "begun").exists, 60, "the program runs")
        assert hand.client.post("/v1/plugins/jupyter/interrupt", {}).status == 200
    assert cell.content == str(int(signal.SIGINT))


# --- programs that pass for a bridge ---------------------------------------------------------------


def pass_for_python(directory, kernel, then):
    """A python3 that says what a bridge says at its start, with a kernel of its choice."""
    program = directory / "python3"
    program.write_text(
        f"""#!/bin/sh
        echo '{{"interpreter": "/x", "kernel": {kernel}, "file": "/x"}}' >&4
        echo '{{"ready": true}}' >&4
        {then}
        """
    )
    program.chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


def test_an_interrupt_hits_nobody_else(start, tmp_path):
    """The bridge is the agent's: it may call any process its kernel."""
    with subprocess.Popen(["sleep", "614"], start_new_session=True) as victim:
        try:
            then = f"read line <&3; touch {tmp_path}/asked; exec sleep 614"
            hand = start(args=PLUGINS, env=pass_for_python(tmp_path, victim.pid, then))
            with Kernel(hand).in_background("1", timeout=2) as cell:
                wait_until((tmp_path / "asked").exists, 60, "the cell runs")
                assert hand.client.post("/v1/plugins/jupyter/interrupt", {}).status == 200
            assert cell.content.startswith(timed_out(2))
            assert victim.poll() is None
        finally:
            victim.kill()


ANSWER = """{"id": '$n', "end": "done", "text": "ok", "images": [], "warnings": [], "stopped": true}"""
ANSWERING = f"""n=0; while read -r line; do n=$((n+1)); echo '{ANSWER}' >&4; done <&3"""


def test_so_many_kernels_and_no_more(start, tmp_path):
    """Bridges without a kernel: sixteen real ones would be a gigabyte."""
    hand = start(args=PLUGINS, env=pass_for_python(tmp_path, 0, ANSWERING))
    for number in range(16):
        assert Kernel(hand, f"k{number}").text("1") == "ok"
    obs = hand.client.act("run_ipython", {"code": "1", "session": "k16"}, 60)
    assert (obs.type, obs.content) == ("error", "there are 16 kernels already: use one of them")
    assert Kernel(hand, "k15").text("1") == "ok"
    assert hand.client.post("/v1/plugins/jupyter/stop", {}).status == 200
    assert Kernel(hand, "k16").text("1") == "ok", "one that has ended makes room"


def test_an_end_by_the_owner_is_no_breakdown(start, tmp_path):
    hand = start(args=PLUGINS, env=pass_for_python(tmp_path, 0, ANSWERING))
    for _ in range(9):
        assert hand.client.post("/v1/plugins/jupyter/start?timeout=4", {}).status == 200
        assert hand.client.post("/v1/plugins/jupyter/stop", {}).status == 200
    assert Kernel(hand).plugin()["restarts"] == 0
    how = "was stopped"
    assert Kernel(hand).text("1") == new(how) + "ok"


# --- init code, answers that are asked for again --------------------------------------------------


def test_init_code_runs_in_each_new_kernel_only(kernel):
    first = Kernel(kernel.hand, "init")
    init = "made = globals().get('made', 0) + 1"
    assert first.text("made", kernel_init_code=init) == "1"
    assert first.text("made", kernel_init_code=init) == "1"
    first.text("import os; os._exit(0)")
    assert first.text("made", kernel_init_code=init).endswith("lost.]\n1")


def test_init_code_that_time_was_up_for(kernel, tmp_path):
    """The next cell relies on it, too."""
    other = Kernel(kernel.hand, "late-init")
    init = other.until(tmp_path / "go") + "\nmade = 7"
    assert "timed out" in other.text("1", kernel_init_code=init, timeout=6)
    (tmp_path / "go").touch()
    assert other.text("made", kernel_init_code=init).endswith("7")


def test_init_code_that_fails_is_told(kernel):
    other = Kernel(kernel.hand, "failing-init")
    assert other.text("1", kernel_init_code="nope()") == (
        "[Warning: kernel_init_code failed: NameError: name 'nope' is not defined]\n1"
    )


def test_result_of_a_client_that_left(kernel, hand, tmp_path):
    """The cell goes on; with a key its result can be fetched."""
    kernel.text("runs = 0")
    code = "runs += 1\n" + kernel.until(tmp_path / "go") + "\nruns"
    action = {"action": "run_ipython", "args": {"code": code}, "timeout": 60}
    body = json.dumps({"action": action}).encode()
    with hand.client.socket() as s:
        s.sendall(
            b"POST /execute_action HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Idempotency-Key: left\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        wait_until(lambda: kernel.status()["busy"], 30, "the cell runs")
    (tmp_path / "go").touch()
    obs = hand.client.act("run_ipython", {"code": code}, 60, key="left")
    assert obs.content.startswith("1\n")
    assert kernel.text("runs") == "1"


# --- hands of their own ---------------------------------------------------------------------------


def test_hand_ends_during_a_cell(start):
    hand = start(args=PLUGINS)
    kernel = Kernel(hand)
    mark = pathlib.Path(hand.workspace, "running")
    with hand.client.socket() as s:
        code = f"open({str(mark)!r}, 'w').close(); {SLEEP}"
        body = f'{{"action": {{"action": "run_ipython", "args": {{"code": "{code}"}}}}}}'.encode()
        s.sendall(
            b"POST /execute_action HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        wait_until(mark.exists, 60, "the cell runs")
        pids = kernel.plugin()["pids"]
        hand.stop()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_hand_killed(start):
    hand = start(args=PLUGINS)
    kernel = Kernel(hand)
    idle = kernel.plugin()
    assert (idle["usable"], idle["running"], idle["pids"], idle["kernels"]) == (True, False, [], [])
    kernel.text("1")
    hand.kill9()
    wait_until(lambda: not hand.left(), 20, "nothing is left")
    again = start(args=PLUGINS, tmp=hand.tmp)  # cleans up
    assert Kernel(again).text("1") == "1"


def test_kernel_that_does_not_start(start, tmp_path):
    """Its last words are in the observation."""
    (tmp_path / "ipykernel_launcher.py").write_text("raise SystemExit('not today')\n")
    hand = start(args=PLUGINS, env={"PYTHONPATH": str(tmp_path)})
    obs = hand.client.act("run_ipython", {"code": "1"}, 60.0)
    assert obs.type == "error"
    assert obs.content == "the kernel did not start: ended with exit code 1: not today"

    def refused():
        return "times in a row" in hand.client.act("run_ipython", {"code": "1"}, 0.2).content

    wait_until(refused, 60, "it is not tried too often")
    (tmp_path / "ipykernel_launcher.py").unlink()
    assert Kernel(hand).text("1") == "1"


def test_not_asked_for(start):
    hand = start()
    reply = hand.client.post_action({"action": "run_ipython", "args": {"code": "1"}, "timeout": 5})
    assert reply.status == 500
    assert reply.detail == (
        "Internal server error: JupyterRequirement not found. Unable to run IPython action."
    )


def test_skills_are_there(start):
    hand = start(args=[*PLUGINS, "agent_skills"])
    (hand.workspace / "a.txt").write_text("one\ntwo\n")
    kernel = Kernel(hand)
    text = kernel.text("open_file('a.txt')")
    assert text.startswith(f"[File: {hand.workspace}/a.txt (2 lines total)]"), text
    assert "callable" not in kernel.text("file_editor('view', 'a.txt')")
    plugins = {p["name"]: p for p in hand.client.get("/v1/plugins").json["plugins"]}
    assert plugins["agent_skills"]["running"] is True


def test_skills_that_cannot_be_loaded(start, tmp_path):
    (tmp_path / "agentskills.py").write_text("raise RuntimeError('broken')\n")
    hand = start(args=[*PLUGINS, "agent_skills"], env={"PYTHONPATH": str(tmp_path)})
    kernel = Kernel(hand)
    warning = "[Warning: the agent skills could not be loaded: RuntimeError: broken]\n"
    assert kernel.text("1") == warning + "1"
    assert kernel.text("1") == "1"


def test_modules_are_preloaded(start, tmp_path):
    """In the background, before any cell; one that is missing or slow holds up nobody."""
    wait = "while not os.path.exists(p + 'go') and time.monotonic() < end: time.sleep(0.01)"
    (tmp_path / "sluggish.py").write_text(
        f"import os, time\np, end = {str(tmp_path)!r} + '/', time.monotonic() + 60\n"
        f"open(p + 'begun', 'w').close()\n{wait}\n"
    )
    preload = [f"--python-preload={name}" for name in ("no_such_module", "colorsys", "sluggish")]
    hand = start(
        args=["--plugins", "jupyter", "--start-plugins", *preload],
        env={"PYTHONPATH": str(tmp_path)},
    )
    wait_until((tmp_path / "begun").exists, 60, "the modules are imported without any cell")
    kernel = Kernel(hand)
    look = "import sys; [m in sys.modules for m in ('no_such_module', 'colorsys')], 'load' in dir()"
    assert kernel.text(look) == "([False, True], False)"
    (tmp_path / "go").touch()
    assert kernel.text("import sluggish; sluggish.p") == repr(str(tmp_path) + "/")


def test_interpreter_of_the_shell(start, tmp_path):
    """The Python that the shell finds, where it can run a kernel; or else the next one."""
    for name, extra in (("good", ["--system-site-packages"]), ("bare", [])):
        venv = [PYTHON, "-m", "venv", "--without-pip", *extra, tmp_path / name]
        if subprocess.run(venv, capture_output=True).returncode:
            pytest.skip("python3-venv is not installed")
    hand = start(args=PLUGINS)
    hand.client.ok(f"export PATH={tmp_path}/good/bin:$PATH")
    good = f"{tmp_path}/good/bin/python"
    obs = Kernel(hand, "good").cell("import sys; print(sys.prefix)", include_extra=True)
    assert obs.content == f"{tmp_path}/good\n{footer(hand.workspace, good)}"
    assert Kernel(hand).plugin()["found"] == good
    hand.client.ok(f"export PATH={tmp_path}/bare/bin:/usr/bin:/bin")
    obs = Kernel(hand, "bare").cell("1", include_extra=True)
    assert obs.content == f"1\n{footer(hand.workspace)}"


@needs_root()
def test_nothing_to_run_it_with(start, tmp_path):
    hide = 'mount -t tmpfs none /usr/lib/python3/dist-packages && exec "$@"'
    hand = start(
        args=PLUGINS,
        prefix=["unshare", "-m", "sh", "-c", hide, "sh"],
        env={"PATH": "/usr/bin:/bin"},
    )
    obs = hand.client.act("run_ipython", {"code": "1"}, 30.0)
    assert obs.type == "error"
    assert "no Python in this sandbox can run IPython: install ipykernel" in obs.content
    assert "apt-get install python3-ipykernel" in obs.content
    assert "/usr/bin/python3 -m pip install ipykernel" in obs.content
    assert "Found /usr/bin/python3 without ipykernel" in obs.content
    plugin = Kernel(hand).plugin()
    assert plugin["usable"] is False and "no package ipykernel" in plugin["missing"]


@needs_root()
def test_as_another_user_without_network_and_home(start):
    hand = start(
        args=PLUGINS, username="nobody", env={"SU_TO_USER": "true"}, prefix=["unshare", "-n"]
    )
    kernel = Kernel(hand)
    text = kernel.text("import os, getpass\nprint(os.getuid(), os.environ['USER'])", timeout=90)
    assert text == "65534 nobody"
    assert kernel.text("open('made', 'w').write('x')") == "1"
    assert os.stat(hand.workspace / "made").st_uid == 65534
    assert "Permission denied" in kernel.text("open('/root/x', 'w')")
    assert os.stat(kernel.status()["connection_file"]).st_uid == 65534
    hand.stop()


def test_long_path_of_the_state_directory(start):
    base = pathlib.Path(start.base())
    deep = base / ("d" * 60)
    deep.mkdir()
    hand = start(base=base, args=PLUGINS, tmp=deep)
    assert Kernel(hand).text("1") == "1"

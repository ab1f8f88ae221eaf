"""tendon shell: a real terminal."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from tendons import eventually

PROMPT = r"[$#] "


@pytest.fixture
def web(any_tendon):
    any_tendon.ok("new", "--name", "web")
    return any_tendon


@pytest.fixture
def shell(web, screen):
    terminal = screen(web, "shell", "web")
    terminal.wait_for(PROMPT)
    return terminal


def test_a_command_and_the_exit_status(shell):
    shell.type("echo $((6 * 7))\r")
    shell.wait_for(r"\n\r?42\r")
    shell.wait_for(PROMPT)
    shell.type("exit 7\r")
    assert shell.wait() == 7
    assert shell.is_ordinary()


def test_the_size_of_the_window(shell):
    shell.type("stty size\r")
    shell.wait_for(r"24 80\r")
    shell.wait_for(PROMPT)
    shell.resize(100, 30)
    shell.process.send_signal(signal.SIGWINCH)
    shell.type("stty size\r")
    shell.wait_for(r"30 100\r")


def test_ctrl_c_is_for_the_program_inside(shell):
    shell.type("sh -c 'echo begun$((1)); exec sleep 1000'\r")
    shell.wait_for("begun1")
    shell.type("\x03")
    shell.wait_for(PROMPT)
    shell.type("echo still $((1 + 1))\r")
    shell.wait_for("still 2")


def test_line_editing(shell):
    shell.type("echo abd\x7fc$((1+2))\r")
    shell.wait_for("abc3")


def test_detach_and_come_back(web, shell, screen):
    shell.type("cd /usr; x=kept\r")
    shell.wait_for(PROMPT)
    shell.type("\r")
    shell.wait_for(PROMPT)
    shell.type("~.")
    assert shell.wait() == 0
    assert "tendon shell web" in shell.text
    assert shell.is_ordinary()
    again = screen(web, "shell", "web")
    again.wait_for(PROMPT)
    again.type('echo "$PWD $x"\r')
    again.wait_for("/usr kept")
    again.type("exit\r")
    assert again.wait() == 0


def test_who_comes_while_a_prompt_waits_sees_it(web, shell, screen):
    shell.type("echo se''en\r")
    shell.wait_for("seen")
    shell.wait_for(PROMPT)
    other = screen(web, "shell", "web")
    other.wait_for(PROMPT)
    assert "seen" not in other.text
    shell.type("~.")  # one leaves, and the other's prompt stays
    assert shell.wait() == 0
    other.type("echo $((6 * 7))\r")
    other.wait_for(r"\n\r?42\r")


def test_coming_back_while_the_one_before_is_just_leaving(web, screen):
    for _ in range(5):
        terminal = screen(web, "shell", "web")
        terminal.wait_for(PROMPT)
        terminal.process.send_signal(signal.SIGKILL)
    last = screen(web, "shell", "web")
    last.wait_for(PROMPT)


def test_a_program_goes_on_while_nobody_looks(web, shell, screen):
    shell.type("echo begun$((1)); sleep 1; echo done >/tmp/.tendon-test-done; sleep 0.2; echo over\r")
    shell.wait_for("begun1")
    shell.type("\r~.")
    assert shell.wait() == 0
    eventually(lambda: web.ok("exec", "web", "cat /tmp/.tendon-test-done 2>/dev/null || true") == "done\n", "it went on")
    web.ok("exec", "web", "rm /tmp/.tendon-test-done")
    again = screen(web, "shell", "--history", "web")
    again.wait_for("over")
    again.wait_for(PROMPT)


def test_a_tilde(shell):
    shell.type("~~")
    shell.type("\x15")  # kills the line
    shell.type("echo a~.b ~x\r")
    shell.wait_for(r"\n\r?a~\.b ~x\r")


def test_a_session_of_its_own(web, shell, screen):
    shell.type("x=main\r")
    shell.wait_for(PROMPT)
    other = screen(web, "shell", "--session", "mine", "web")
    other.wait_for(PROMPT)
    other.type('echo "<$x>"\r')
    other.wait_for("<>")
    other.type("exit 3\r")
    assert other.wait() == 3


def test_it_is_the_shell_of_the_agent(web, shell):
    shell.type("y=typed\r")
    shell.wait_for(PROMPT)
    assert web.ok("exec", "--session", "main", "web", "echo $y") == "typed\n"
    shell.wait_for(PROMPT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(shell, number):
    assert not shell.is_ordinary()
    shell.process.send_signal(number)
    assert shell.wait() == -number
    assert shell.is_ordinary()


def test_the_sandbox_is_removed_under_it(web, shell):
    web.ok("rm", "web")
    assert shell.wait(60) != 0
    assert shell.is_ordinary()


def test_in_a_new_sandbox(any_tendon, screen):
    terminal = screen(any_tendon, "shell", "--new")
    terminal.wait_for(PROMPT)
    terminal.type("echo $((40 + 2)); exit 5\r")
    terminal.wait_for("42")
    assert terminal.wait() == 5
    assert any_tendon.leftovers() == []


def test_a_new_one_goes_with_a_signal(any_tendon, screen):
    terminal = screen(any_tendon, "shell", "--new")
    terminal.wait_for(PROMPT)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.wait() == -signal.SIGTERM
    assert terminal.is_ordinary()
    assert any_tendon.leftovers() == []


def test_needs_a_terminal(tendon):
    assert "tendon exec" in tendon.fails(2, "shell", "web")


def test_a_shell_that_does_not_exist(web, screen):
    terminal = screen(web, "shell", "--session", "odd", "--program", "/no/such/shell", "web")
    assert terminal.wait() != 0
    assert "/no/such/shell" in terminal.text
    assert terminal.is_ordinary()


# --- on a terminal that answers ------------------------------------------------------------------


class Tmux:
    """A real terminal: it answers questions, and knows where its cursor is."""

    def __init__(self, tendon, directory):
        self.tendon, self.socket = tendon, str(directory / "tmux")
        env = {**tendon.env, "TERM": "xterm-256color", "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        self.call("-f", "/dev/null", "new-session", "-d", "-x", "250", "-y", "24", "sh", env=env)

    def call(self, *args, env=None):
        done = subprocess.run(["tmux", "-S", self.socket, *args], env=env or os.environ, capture_output=True, text=True)
        assert done.returncode == 0, done
        return done.stdout

    def type(self, text):
        self.call("send-keys", "-l", text)

    def line(self, text):
        self.type(text)
        self.call("send-keys", "Enter")

    def shown(self):
        return self.call("capture-pane", "-p")

    def wait_for(self, pattern):
        return eventually(lambda: re.search(pattern, self.shown(), re.M), f"{pattern!r} is shown")

    def ask(self, what):
        return self.call("display-message", "-p", what).strip()


@pytest.fixture
def tmux(web, tmp_path):
    if not shutil.which("tmux"):
        pytest.skip("there is no tmux")
    terminal = Tmux(web, tmp_path)
    yield terminal
    terminal.call("kill-server")


def test_the_past_asks_the_terminal_nothing(web, tmux):
    """Its answers would be typed into the shell."""
    tmux.line(f"{web.program} shell web")
    tmux.wait_for(r"@.*[$#] ?$")
    # DA, DSR, the colours, a mode, a capability; answers to these come at once, and are read here.
    ask = r"printf '\033[c\033[6n\033]10;?\007\033[?25$p\033P+q544e\033\\'; read -rst 1 -n 500; echo as''ked"
    tmux.line(ask)
    tmux.wait_for("asked")  # behind answers that came before `read` had turned the echo off
    tmux.line("clear; echo the pa''st; cat")
    tmux.wait_for("^the past")
    tmux.line("~.")
    tmux.wait_for("detached;")
    tmux.line("clear")
    eventually(lambda: "the past" not in tmux.shown(), "the screen is empty")
    tmux.line(f"{web.program} shell --history web")
    tmux.wait_for("^the past")  # from then on keys go to the shell
    tmux.line("the end")
    tmux.wait_for("^the end\nthe end")
    assert "1;2c" not in tmux.shown() and "rgb:" not in tmux.shown() and ";1R" not in tmux.shown()


def test_detached_in_the_middle_of_a_program(web, tmux):
    tmux.line(f"echo above; {web.program} shell web")
    tmux.wait_for(r"@.*[$#] ?$")
    modes = r"\033[?1049h\033[?25l\033[?1000h\033[?1006h\033[?2004h\033[?1h\033=\033[5;10r\033[31m"
    tmux.line(rf"printf '{modes}on the other screen\n'; cat")
    tmux.wait_for("on the other screen")
    eventually(lambda: tmux.ask("#{alternate_on}#{cursor_flag}#{mouse_any_flag}") == "101", "it is another screen")
    tmux.line("")
    tmux.type("~.")
    tmux.wait_for("detached;")
    assert tmux.ask("#{alternate_on}#{cursor_flag}#{mouse_any_flag}#{keypad_cursor_flag}#{keypad_flag}") == "01000"
    assert tmux.ask("#{scroll_region_upper} #{scroll_region_lower}") == "0 23"
    assert "above" in tmux.shown()


def test_detached_after_a_program_on_another_screen(web, tmux):
    """The cursor is below what was shown last, not where that program had saved it."""
    tmux.line(f"{web.program} shell web")
    tmux.wait_for(r"@.*[$#] ?$")
    tmux.line(r"printf '\033[?1049h\033[?1049l'; seq 5")
    tmux.wait_for(r"^5\n.*[$#] ?$")
    tmux.line("")
    tmux.type("~.")
    tmux.wait_for("detached;")
    lines = tmux.shown().rstrip().splitlines()
    assert next(i for i, line in enumerate(lines) if "detached;" in line) > lines.index("5")

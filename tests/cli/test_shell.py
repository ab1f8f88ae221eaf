"""tendon shell: a real terminal."""

import signal

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

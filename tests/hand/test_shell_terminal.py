"""The terminal of the shell: what text becomes of its bytes, and programs that take it over."""

import os

import pytest

from client import CONT, CUT, done, soft
from harness import needs, needs_root, still_works, wait_until


# --- output -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, content",
    [
        ("printf 'no newline'", "no newline"),
        ("printf '   leading'", "   leading"),
        ("printf '    a\\n  b\\n'", "    a\n  b"),
        ("echo 'echo hi'", "echo hi"),
        ('echo "echo \\"x\\""', 'echo "x"'),
        ("printf '10%%\\r20%%\\r30%%\\n'", "30%"),
        ("printf 'abc\\b\\bX\\n'", "aXc"),
        ("printf 'long text\\rshort\\033[K\\n'", "short"),
        ("printf '\\033[31mred\\033[0m \\033[1;4;38;5;200mmore\\033[m\\n'", "red more"),
        ("printf 'a\\033[2Cb\\n'", "a  b"),
        ("printf 'one\\ntwo\\033[1A\\rONE\\033[1B\\n'", "ONE\ntwo"),
        ("printf 'trail   \\nx\\t\\n'", "trail\nx"),
        ("printf 'a\\n\\n\\nb\\n'", "a\n\n\nb"),
        ("printf '\\033]0;a title\\007text\\n'", "text"),
        ("printf '\\033]8;;http://x\\033\\\\link\\033]8;;\\033\\\\\\n'", "link"),
        ("printf 'wide 漢字\\b\\bX\\n'", None),
        ("printf 'bell\\007\\n'", "bell"),
        ("printf 'nul\\0byte\\n'", "nulbyte"),
        ("printf '\\033[?1049hinside\\033[?1049lafter\\n'", "after"),
        ("printf 'before\\n\\033[?1049hinside\\033[?1049lafter\\n'", "before\nafter"),
        ("printf 'x\\033[?25l\\033[?25h\\033[?2004h\\033[?2004ly\\n'", "xy"),
        ("printf 'del\\177ete\\n'", "delete"),
        ("printf 'a\\013b\\n'", None),
        ("printf '%s\\n' $'\\u00e9\\u0301'", "é\u0301"),
    ],
)
def test_terminal_text(shared, command, content):
    obs = shared.run(command)
    assert obs.exit == 0
    if content is not None:
        assert obs.content == content


def test_tabs(shared):
    assert (
        shared.ok("printf 'a\\tb\\n12345678\\tc\\n'").expandtabs(8)
        == "a       b\n12345678        c"
    )


def test_progress_bar(shared):
    assert (
        shared.ok("for i in $(seq 1 100); do printf '\\r%3d%% done' $i; done; echo") == "100% done"
    )


@needs("python3")
def test_very_long_line(shared):
    obs = shared.run("python3 -c \"print('x' * 1000000)\"", blocking=True)
    assert obs.content == "x" * 15000 + CUT + "x" * 15000


@pytest.mark.parametrize("width", [999, 1000, 1001, 2000, 2500])
def test_wrapped_lines_are_joined(shared, width):
    assert shared.ok(f"printf '%0{width}d\\nend\\n' 1") == "0" * (width - 1) + "1\nend"


@pytest.mark.parametrize(
    "octal",
    ["\\377\\376", "\\303", "\\355\\240\\200", "\\300\\200", "\\364\\220\\200\\200", "\\200"],
)
def test_invalid_utf8_output(shared, octal):
    obs = shared.run(f"printf 'a{octal}b\\n'")
    assert obs.exit == 0
    assert obs.content.startswith("a") and obs.content.endswith("b")
    obs.content.encode("utf-8")  # no lone surrogates


def test_utf8_split_between_writes(shared):
    assert shared.ok("printf '\\303'; sleep 0.2; printf '\\251\\n'") == "é"


def test_random_bytes(shared):
    obs = shared.run("head -c 200000 /dev/urandom; echo; echo end", timeout=15.0)
    assert obs.exit == 0
    obs = shared.run("printf '\\033c\\033[!p'; echo clean")
    assert obs.exit == 0
    assert shared.ok("echo clean") == "clean"


@pytest.mark.parametrize(
    "piece",
    [
        "\\033[",
        "\\033[31",
        "\\033]0;title",
        "\\033P",
        "\\033",
        "\\303",
        "\\033[?1049h",
        "\\033[5;10r",
        "\\033[4h",
        "\\033(0",
        "\\016",
        "\\033[8m",
        "\\033[20h",
        "\\033[?7l",
        "\\033[12l",
    ],
)
def test_program_dies_inside_an_escape_sequence(shell, piece):
    obs = shell.run(f"printf 'text {piece}'")
    assert obs.exit == 0
    obs = shell.run("echo next; (exit 3)")
    assert (obs.exit, obs.content) == (3, "next"), obs


@pytest.mark.parametrize(
    "setting",
    [
        "raw -echo",
        "raw",
        "-icanon min 0 time 0",
        "-isig",
        "-opost",
        "-onlcr",
        "rows 5 cols 7",
        "intr ^X",
        "eof ^X",
        "cbreak",
        "-icrnl",
        "igncr",
        "echo",
    ],
)
def test_terminal_settings_left_behind(shell, setting):
    obs = shell.run(f"stty {setting}", timeout=5)
    assert obs.exit == 0
    obs = shell.run("echo one; echo two", timeout=5)
    assert (obs.exit, obs.content) == (0, "one\ntwo")
    obs = shell.run("read -p 'name: ' n; echo \"got $n\"", timeout=0.4)
    assert obs.exit == -1, obs
    obs = shell.input("x y", timeout=5)
    assert (obs.exit, obs.content) == (0, "got x y")
    obs = shell.run("sh -c 'echo up; exec sleep 60'", timeout=0.2)
    while "up" not in obs.content:  # a shell that is just starting a program loses the signal
        obs = shell.input("", timeout=1)
    assert shell.input("C-c", timeout=5).exit == 130


@needs("python3")
def test_program_leaves_the_output_stopped(shell):
    stop = "python3 -c 'import termios; termios.tcflow(1, termios.TCOOFF)'"
    assert shell.ok(f"echo before; {stop}") == "before"
    still_works(shell)


def test_program_leaves_raw_mode_when_killed(shell):
    obs = shell.run("bash -c 'stty raw -echo; kill -9 $$'")
    assert obs.exit == 137
    still_works(shell)


def test_background_job_writes_after_the_prompt(shell):
    shell.ok("(sleep 0.3; echo intruder; touch written) &")
    wait_until(lambda: (shell.dir / "written").exists())
    obs = shell.run("echo mine")
    assert obs.exit == 0 and "mine" in obs.content.splitlines()
    still_works(shell)


def test_news_of_a_job_come_with_the_command_after_which_they_are_told(shell):
    pid = int(shell.ok("mkfifo gate; cat gate & echo $!").splitlines()[-1])
    (shell.dir / "gate").write_text("")
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    obs = shell.run("echo mine; false")
    assert obs.exit == 1
    assert "mine" in obs.content.splitlines() and "Done" in obs.content
    still_works(shell)


def test_news_of_the_first_job_come_with_the_command_that_started_it(shell):
    obs = shell.run("sleep 0.05 & wait; false", timeout=10)
    assert obs.exit == 1 and "Done" in obs.content
    still_works(shell)


def test_command_ends_while_a_job_floods_the_terminal(shell):
    assert shell.run("yes flood & false", timeout=30).exit == 1
    assert shell.run("kill $!; wait $!", timeout=30).exit == 143
    still_works(shell)


def test_background_job_writes_while_the_next_command_runs(shell):
    shell.ok("(while :; do echo noise; sleep 0.02; done) & noise=$!")
    for n in range(5):
        obs = shell.run(f"sleep 0.1; echo answer-{n}; (exit {n})")
        assert obs.exit == n and f"answer-{n}" in obs.content
    shell.run("kill $noise; wait $noise")
    still_works(shell)


def test_background_reader_is_stopped_not_fed(shell):
    shell.run("cat &")
    assert "mine" in shell.ok("echo mine").splitlines()
    shell.run("kill -9 %1; wait")


# --- programs that own the terminal -------------------------------------------------------------


def test_read_variants(shell):
    obs = shell.run('read -r line; echo "<$line>"')
    assert obs.suffix == soft(1)
    assert shell.input('back\\slash "quotes" $HOME').content == '<back\\slash "quotes" $HOME>'
    shell.run('read -s secret; echo "got ${#secret}"')
    obs = shell.input("hidden text")
    assert obs.content == "got 11", "echo was off"
    shell.run('read -n 1 key; echo; echo "key $key"')
    assert shell.input("y").content.endswith("key y")
    shell.run('select x in a b; do echo "chose $x"; break; done')
    assert shell.input("2").content.endswith("chose b")
    still_works(shell)


def test_input_goes_to_a_child_on_dev_tty(shell):
    obs = shell.run('bash -c \'exec </dev/null; read -p "Password: " x </dev/tty; echo "got $x"\'')
    assert (obs.content, obs.exit) == ("Password:", -1)
    assert shell.input("tiger").content == "got tiger"


@needs("python3")
def test_child_that_takes_the_terminal(hand):
    """ssh-like: own foreground group, raw mode, ends by a signal without restoring anything."""
    (hand.workspace / "own.py").write_text(
        "import os, sys, tty, signal, termios\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "fd = os.open('/dev/tty', os.O_RDWR)\n"
        "os.setpgid(0, 0); os.tcsetpgrp(fd, os.getpgrp())\n"
        "tty.setraw(fd)\n"
        "os.write(fd, b'raw> ')\n"
        "c = os.read(fd, 1)\n"
        "os.write(fd, b'key %d\\r\\n' % c[0])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert hand.client.run_until("python3 own.py", "raw>").exit == -1
    obs = hand.client.input("q")
    assert obs.exit == 137 and "key 113" in obs.content
    still_works(hand.client)


@needs_root()
@needs("sudo")
def test_sudo(shell):
    obs = shell.run("sudo -n id -u")
    if "unable to" in obs.content and obs.exit != 0:
        pytest.skip("sudo does not work here: " + obs.content[:200])
    assert (obs.exit, obs.content.splitlines()[-1]) == (0, "0")
    obs = shell.run("sudo -n sh -c 'read -p \"in sudo: \" x; exit $x'")
    assert obs.exit == -1
    assert shell.input("5").exit == 5
    still_works(shell)


@needs_root()
@needs("su")
def test_su(shell):
    obs = shell.run("su -s /bin/sh nobody -c 'id -un'")
    assert (obs.exit, obs.content) == (0, "nobody")
    still_works(shell)


@needs("script")
def test_nested_terminal(shell):
    obs = shell.run("script -qec 'echo inner; exit 3' /dev/null")
    assert (obs.exit, obs.content) == (3, "inner")
    still_works(shell)


@needs("vi")
def test_vi(shell):
    shell.ok("printf 'first\\nsecond\\n' >f.txt")
    obs = shell.run("TERM=xterm vi f.txt", timeout=3.0, blocking=True)
    assert obs.exit == -1
    obs = shell.input(":wq! copy.txt", timeout=5)
    assert obs.exit == 0
    assert (shell.dir / "copy.txt").read_text() == "first\nsecond\n"
    still_works(shell)


@needs("less")
def test_less(shell):
    obs = shell.run("seq 1 5000 | less", timeout=2.0, blocking=True)
    assert obs.exit == -1
    obs = shell.input("q", timeout=5)
    assert obs.exit == 0
    still_works(shell)


@needs("top")
def test_top(shell):
    obs = shell.run("TERM=xterm top -d 0.3", timeout=1.0)
    assert obs.exit == -1
    obs = shell.input("q", timeout=5)
    assert obs.exit == 0
    still_works(shell)


def test_control_backslash(shell):
    shell.run("sleep 60")
    obs = shell.input("C-\\")
    assert (obs.exit, obs.suffix) == (131, done(131, "\\"))
    still_works(shell)


@pytest.mark.parametrize(
    "start",
    [
        "echo 'open",
        'echo "open',
        "cat <<EOF",
        "echo $(",
        "for i in 1 2; do",
        "if true; then",
        "echo `date",
        "f() {",
        "echo a &&",
        "echo \\",
    ],
)
def test_control_c_in_an_unfinished_command(shell, start):
    obs = shell.run(start, timeout=0.4)
    if obs.exit != -1:
        assert obs.exit in (0, 1, 2, 130), "an unfinished command may be refused at once"
    else:
        assert ">" not in obs.content
        obs = shell.input("C-c", timeout=5)
        assert obs.exit in (1, 130), obs
        assert obs.suffix == done(obs.exit, "C")
    still_works(shell)


def test_unfinished_command_is_finished_by_input(shell):
    obs = shell.run("echo 'open", timeout=3.0)
    assert (obs.exit, obs.suffix) == (-1, soft(1))
    obs = shell.input("close'")
    assert obs.exit == 0 and obs.content.endswith("open\nclose")
    still_works(shell)


def test_ignored_interrupt_then_quit(shell):
    shell.run("bash -c 'trap \"\" INT; exec sleep 60'", timeout=0.5)
    obs = shell.input("C-c", timeout=1.0)
    assert (obs.exit, obs.prefix) == (-1, CONT)
    obs = shell.input("C-\\", timeout=5)
    assert obs.exit == 131
    still_works(shell)

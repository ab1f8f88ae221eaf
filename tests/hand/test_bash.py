"""The main shell session as OpenHands clients know it: every string, timeout rule and limit."""

import os
import re
import socket
import subprocess
import threading
import time

import pytest

from client import CONT, NOINPUT, NOLOG, busy, done, hard, multi, soft
from harness import needs, wait_until


class Gate:
    """A place in a command where it stops until the test lets it go on."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "gate")
        self.wait = f"until rm {self.path} 2>/dev/null; do sleep 0.02; done"

    def open(self):
        open(self.path, "w").close()
        wait_until(lambda: not os.path.exists(self.path), what="somebody at the gate")


# --- plain commands -----------------------------------------------------------------------------


def test_fields_of_a_finished_command(shell):
    obs = shell.run("echo hello world")
    assert obs.type == "run"
    assert obs.content == "hello world"
    assert obs.command == "echo hello world"
    assert obs.exit == 0 and obs.raw["success"] is True
    assert obs.extras["hidden"] is False
    assert (obs.prefix, obs.suffix) == ("", done(0))
    assert obs.meta["pid"] == -1
    assert obs.cwd == str(shell.dir)
    assert obs.meta["hostname"] == socket.gethostname().split(".")[0]
    assert obs.meta["username"] == shell.ok("id -un")


def test_python_interpreter_path(shell):
    expected = shell.ok("which python || true")
    assert shell.run(":").meta["py_interpreter_path"] == expected


def test_python_interpreter_path_follows_path(shell):
    fake = shell.dir / "bin" / "python"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    assert shell.run(f"PATH={fake.parent}:$PATH").meta["py_interpreter_path"] == str(fake)


@pytest.mark.parametrize(
    "command, code",
    [
        ("false", 1),
        ("(exit 42)", 42),
        ("ls /nonexistent", 2),
        ("bash -c 'exit 255'", 255),
        ("bash -c 'kill -TERM $$'", 143),
    ],
)
def test_failed_command(shared, command, code):
    obs = shared.run(command)
    assert obs.exit == code and obs.raw["success"] is False
    assert obs.suffix == done(code)


def test_command_not_found(shared):
    obs = shared.run("nonexistent_command")
    assert obs.exit == 127
    assert "nonexistent_command: command not found" in obs.content


def test_inner_spaces_and_chain(shared):
    assert shared.ok("echo 'a   b     c'") == "a   b     c"
    assert shared.ok("echo one && echo two || echo three; echo four") == "one\ntwo\nfour"


def test_no_output(shared):
    obs = shared.run("true")
    assert obs.content == "" and obs.exit == 0


def test_stderr_is_merged_in_order(shared):
    assert shared.ok("echo a; echo b >&2; echo c") == "a\nb\nc"


def test_command_is_stripped(shared):
    obs = shared.run("  \n\t echo hi \n\n")
    assert (obs.content, obs.command, obs.exit) == ("hi", "echo hi", 0)


def test_command_is_returned_as_sent(shared):
    command = r'echo "a\;b" \; \| \& \> \< done'
    obs = shared.run(command)
    assert obs.command == command
    assert obs.content == r"a\;b ; | & > < done"


def test_trailing_semicolon(shared):
    assert shared.ok("echo hi;") == "hi"


def test_find_exec_backslash_semicolon(shared, ws):
    (ws / "a.txt").write_text("needle\n")
    (ws / "b.txt").write_text("hay\n")
    obs = shared.run(f'find {ws} -type f -exec grep -l "needle" {{}} \\;')
    assert (obs.exit, obs.content) == (0, f"{ws}/a.txt")


def test_state_is_kept(shell):
    shell.ok("mkdir -p deep/er && cd deep/er")
    obs = shell.run("pwd")
    assert obs.content == obs.cwd == f"{shell.dir}/deep/er"
    shell.ok(
        "x=41; export Y=42; f() { echo \"f $x\"; }; alias g='echo alias'; shopt -s expand_aliases"
    )
    assert shell.ok("f") == "f 41"
    assert shell.ok("g") == "alias"
    assert shell.ok("bash -c 'echo $x-$Y'") == "-42"


def test_status_of_previous_command_is_visible(shell):
    shell.run("(exit 7)")
    assert shell.ok("echo $?") == "7"


def test_initial_alias_of_git(shell):
    assert shell.ok("alias git") == "alias git='git --no-pager'"


def test_fresh_workspace_is_empty(shell):
    assert shell.ok("ls -l") == "total 0"
    assert shell.ok("pwd && ls -l") == f"{shell.dir}\ntotal 0"
    shell.ok("mkdir test")
    assert " test" in shell.ok("ls -l")
    shell.ok("touch test/foo.txt")
    listing = shell.ok("ls -l test")
    assert "foo.txt" in listing and shell.ok("id -un") in listing


def test_home_directory(hand):
    assert hand.client.ok("cd ~ && pwd") == str(hand.home)


@needs("python3")
def test_python_version(shared):
    assert shared.ok("python3 --version").startswith("Python 3")


def test_terminal_geometry(shared):
    assert shared.ok("stty size") == "1000 1000"
    assert shared.ok("test -t 0 && test -t 1 && test -t 2 && echo yes") == "yes"


def test_job_control_is_on(shared):
    assert shared.ok("echo $-").find("m") >= 0
    assert "i" in shared.ok("echo $-")


def test_env_is_stable(shell):
    first, second = shell.ok("env"), shell.ok("env")
    assert first == second
    assert not re.search(r"^(PS1|PS2|PROMPT_COMMAND)=", first, re.M)


def test_echo_of_the_command_is_not_output(shared, ws):
    shared.ok(f"git init -q {ws}")
    obs = shared.run(f"git -C {ws} remote -v")
    assert (obs.exit, obs.content) == (0, "")


def test_no_poll_floor(shared):
    began = time.monotonic()
    for _ in range(20):
        shared.ok(":")
    assert time.monotonic() - began < 5, "20 empty commands: something polls"


# --- more than one line -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, content",
    [
        ('echo \\\n  -n \\\n  "foo"', "foo"),
        ('echo "hello\nworld"', "hello\nworld"),
        ("printf 'a\\n\\n\\nz\\n'", "a\n\n\nz"),
        ('for i in {1..3}; do\n  echo "n $i"\ndone\n', "n 1\nn 2\nn 3"),
        ("for a in x y\ndo\n  for b in 1 2\n  do\n    echo $a$b\n  done\ndone", "x1\nx2\ny1\ny2"),
        ("if true; then\n  echo yes\nelse\n  exit 3\nfi", "yes"),
        ("cat <<EOF\nline $((1+1))\n  indented\nEOF", "line 2\n  indented"),
        ("cat <<'EOF'\nline $((1+1)) `x` \\ \"\nEOF", 'line $((1+1)) `x` \\ "'),
        ("cat <<-EOF\n\ttabbed\n\tEOF", "tabbed"),
        ("f() {\n  echo in f\n}; f", "in f"),
        ("echo a |\n  tr a b", "b"),
        ("true &&\n  echo chained", "chained"),
        ("echo $(\n  echo sub\n)", "sub"),
        ("case x in\n  x) echo matched;;\nesac", "matched"),
        ('echo a | sed -E "s/(a|b)/<\\1>/"', "<a>"),
        ("echo \"wow!\" 'and!'", "wow! and!"),
        ("echo 'it'\"'\"'s'", "it's"),
        ("(\n  echo sub; \n  echo shell\n)", "sub\nshell"),
        ("{ echo group;\n}", "group"),
        ("echo {a,b}{1,2}", "a1 a2 b1 b2"),
        ("while read -r l; do echo \"[$l]\"; done <<< $'p\\nq'", "[p]\n[q]"),
        ("echo 'unterminated\nsecond line'", "unterminated\nsecond line"),
    ],
)
def test_multiline(shared, command, content):
    obs = shared.run(command)
    assert (obs.type, obs.exit, obs.content) == ("run", 0, content)


def test_complex_one_liner(shared):
    command = (
        'hits=0; n=0; while [ $hits -lt 3 ]; do side=$(echo up); n=$((n+1)); echo "throw $n: '
        '$side"; '
        'if [ "$side" = "up" ]; then hits=$((hits+1)); else hits=0; fi; done; echo "3 after $n '
        'throws!";'
    )
    assert shared.ok(command) == "throw 1: up\nthrow 2: up\nthrow 3: up\n3 after 3 throws!"


def test_no_ps2_in_output(shared):
    obs = shared.run('echo -e "hello\nworld"')
    assert obs.content == "hello\nworld" and ">" not in obs.content


SAMPLES = [
    "ls -l",
    'echo -e "hello\nworld"',
    'echo -e "hello it\\"s me"',
    'echo \\\n  -e "foo"',
    "cat <<EOF\nhello\nEOF",
    "for i in 1 2; do\n  echo $i\ndone",
    "true && for a in x; do\n  for b in y; do\n    echo $a$b\n  done\ndone",
]


def test_joined_commands_are_rejected(shared):
    obs = shared.run("\n".join(SAMPLES))
    assert obs.type == "error"
    assert obs.content == multi(*SAMPLES)
    for command in SAMPLES:
        assert shared.run(command).exit == 0


@pytest.mark.parametrize(
    "command, parts",
    [
        ("echo a\necho b", ["echo a", "echo b"]),
        ("echo a\n\n\necho b", ["echo a", "echo b"]),
        ("echo a # one\n# two\nls -l", ["echo a # one\n# two", "ls -l"]),
        ("cat <<EOF\nx\nEOF\necho b", ["cat <<EOF\nx\nEOF", "echo b"]),
        ("echo 'a''b'\"\"c\nls", ["echo 'a''b'\"\"c", "ls"]),
    ],
)
def test_rejected_list(shared, command, parts):
    obs = shared.run(command)
    assert (obs.type, obs.content) == ("error", multi(*parts))


def test_rejected_commands_do_not_run(shell):
    assert shell.run("touch a\ntouch b").type == "error"
    assert shell.ok("ls") == ""


# What OpenHands' parser gives up on, it sends whole.  Which texts those are: tests/shell/test_split_original.py.
@pytest.mark.parametrize(
    "command, content",
    [
        ("cat > a.sh <<'EOF'\necho \"it's $1\"\nEOF\nbash a.sh here", "it's here"),
        ("bash -s <<'EOF'\necho 1\nEOF\nbash -s <<'EOF'\necho 2\nEOF", "1\n2"),
        ("x=b\n[[ $x == b ]] && echo yes\necho after", "yes\nafter"),
        ("i=0\nwhile [ $i -lt 2 ]; do\n  i=$((i + 1))\ndone\necho $i", "2"),
        ("case abc in\n  a*) echo first ;;\nesac\necho second", "first\nsecond"),
        ("a=(1 2 3)\necho ${#a[@]}", "3"),
        ("for ((i = 0; i < 2; i++)); do echo $i; done\necho end", "0\n1\nend"),
        ("d=$(cd / && pwd)\necho $d", "/"),
        ("true\nwhile :\ndo break; done\n[[ a ]]\nfalse; (exit 0)", ""),
    ],
)
def test_what_the_original_runs_whole_is_run(shell, command, content):
    obs = shell.run(command)
    assert (obs.type, obs.exit, obs.content) == ("run", 0, content)


def test_the_last_status_of_a_whole_text_counts(shared):
    assert shared.run("[[ a ]]\n(exit 7)").exit == 7


def test_hidden_rejection_is_a_run_observation(shared):
    obs = shared.run("echo a\necho b", hidden=True)
    assert (obs.type, obs.exit, obs.content) == ("run", -1, multi("echo a", "echo b"))


@pytest.mark.parametrize(
    "command, content",
    [
        ("# a comment first\necho hi", "hi"),
        ("\n  # indented\n\n# two\necho hi", "hi"),
        ("echo hi # after", "hi"),
        ("echo hi\n# after", "hi"),
        ("# only a comment", ""),
    ],
)
def test_comments_are_not_commands(shared, command, content):
    obs = shared.run(command)
    assert (obs.type, obs.exit, obs.content) == ("run", 0, content)


# --- entry checks, in their order ---------------------------------------------------------------


@pytest.mark.parametrize("command", ["", "   ", "\n\t\n"])
@pytest.mark.parametrize("is_input", [False, True])
def test_empty_command_without_running_one(shared, command, is_input):
    obs = shared.run(command, is_input=is_input)
    assert (obs.type, obs.content, obs.command, obs.exit) == ("run", NOLOG, "", -1)
    assert (obs.prefix, obs.suffix) == ("", "")
    for key in ("username", "hostname", "working_dir", "py_interpreter_path"):
        assert obs.meta[key] is None


@pytest.mark.parametrize("command", ["hello", "C-c", "a\nb"])
def test_input_without_running_command(shared, command):
    obs = shared.run(command, is_input=True)
    assert (obs.type, obs.content, obs.exit) == ("run", NOINPUT, -1)
    assert (obs.command, obs.prefix, obs.suffix) == ("", "", "")
    assert obs.cwd is None


def test_checks_while_running(shell):
    obs = shell.run("cat")
    assert obs.suffix == soft(1)
    assert shell.run("echo a\necho b").content == multi("echo a", "echo b")
    # lines of input are for the program, not commands of ours
    assert shell.run("one\ntwo", is_input=True).content.endswith("one\ntwo")
    began = time.monotonic()
    obs = shell.run("echo x", hidden=True, blocking=True, timeout=60.0)
    assert time.monotonic() - began < 30, "a rejected command must not wait"
    assert (obs.type, obs.command, obs.exit, obs.content) == ("run", "echo x", -1, "")
    assert (obs.prefix, obs.suffix) == (CONT, busy("echo x"))
    assert obs.extras["hidden"] is True
    assert shell.input("C-d").exit == 0


def test_busy_carries_new_output_once(shell):
    gate = Gate(shell.dir)
    obs = shell.run(f"echo one; {gate.wait}; echo two; cat", timeout=0.3)
    assert (obs.content, obs.prefix, obs.suffix) == ("one", "", hard(0.3))
    gate.open()

    def second():
        obs = shell.run("ls")
        assert (obs.exit, obs.prefix, obs.suffix) == (-1, CONT, busy("ls"))
        return obs.content

    assert wait_until(second) == "two"
    assert second() == ""
    obs = shell.interrupt()
    assert (obs.exit, obs.suffix) == (130, done(130, "C"))
    assert shell.ok("ls") == ""


# --- waiting ------------------------------------------------------------------------------------


def test_soft_timeout(shell):
    began = time.monotonic()
    obs = shell.run("echo started; sleep 60", hidden=True)
    assert time.monotonic() - began >= 1
    assert (obs.exit, obs.content, obs.prefix, obs.suffix) == (-1, "started", "", soft(1))
    assert obs.command == "echo started; sleep 60"
    assert obs.extras["hidden"] is False, "hidden is copied for finished and rejected commands only"
    assert obs.meta["pid"] == -1
    for key in ("username", "hostname", "working_dir", "py_interpreter_path"):
        assert obs.meta[key] is None
    obs = shell.poll()
    assert (obs.exit, obs.content, obs.prefix, obs.suffix) == (-1, "", CONT, soft(1))
    assert obs.command == ""
    obs = shell.input("")
    assert (obs.exit, obs.content, obs.prefix, obs.suffix) == (-1, "", CONT, soft(1))
    obs = shell.input("C-c")
    assert (obs.exit, obs.prefix, obs.suffix) == (130, "", done(130, "C"))
    assert obs.command == "C-c"
    assert obs.cwd


def test_soft_timeout_restarts_with_every_output(shared):
    obs = shared.run("for i in 1 2 3 4 5; do echo $i; sleep 0.4; done")
    assert (obs.exit, obs.content) == (0, "1\n2\n3\n4\n5")


def test_soft_timeout_number_comes_from_the_environment(start):
    hand = start(env={"NO_CHANGE_TIMEOUT_SECONDS": "2"})
    began = time.monotonic()
    obs = hand.client.run("sleep 60")
    assert time.monotonic() - began >= 2
    assert obs.suffix == soft(2)
    hand.client.input("C-c")


@pytest.mark.slow
def test_soft_timeout_default_is_ten(start):
    hand = start(env={"NO_CHANGE_TIMEOUT_SECONDS": None})
    began = time.monotonic()
    obs = hand.client.run("sleep 60")
    assert time.monotonic() - began >= 10
    assert obs.suffix == soft(10)
    hand.client.input("C-c")


@pytest.mark.parametrize(
    "timeout, text", [(0.5, "0.5"), (0.25, "0.25"), (1, "1.0"), (1.0, "1.0"), (1e-1, "0.1")]
)
def test_hard_timeout(shell, timeout, text):
    began = time.monotonic()
    obs = shell.run("echo out; sleep 60", timeout=timeout, blocking=True)
    assert time.monotonic() - began >= timeout
    assert (obs.exit, obs.prefix) == (-1, "")
    assert f"timed out after {text} seconds." in obs.suffix and obs.suffix == hard(timeout)
    shell.input("C-c", timeout=5)


def test_hard_timeout_continuation(shell):
    """A command prints a number whenever it is let go on; polls see each exactly once."""
    gate = Gate(shell.dir)
    command = f"for i in 1 2 3 4; do echo $i; {gate.wait}; done"
    obs = shell.run(command, timeout=0.3)
    assert (obs.content, obs.prefix, obs.suffix) == ("1", "", hard(0.3))
    for number in ("2", "3", "4"):
        gate.open()
        obs = shell.poll(timeout=0.3)
        assert (obs.content, obs.prefix, obs.suffix, obs.exit) == (number, CONT, hard(0.3), -1)
        assert obs.command == ""
    obs = shell.poll(timeout=0.3)
    assert (obs.content, obs.prefix) == ("", CONT)
    gate.open()
    obs = shell.poll()
    assert (obs.content, obs.prefix, obs.suffix, obs.exit) == ("", "", done(0), 0)


@pytest.mark.slow
def test_output_continuation_in_real_time(start):
    client = start(env={"NO_CHANGE_TIMEOUT_SECONDS": "10"}).client
    obs = client.run("for i in {1..5}; do echo $i; sleep 3; done", timeout=2.5)
    assert (obs.content, obs.prefix, obs.suffix) == ("1", "", hard(2.5))
    for number in "2345":
        obs = client.poll(timeout=2.5)
        assert (obs.content, obs.prefix, obs.suffix) == (number, CONT, hard(2.5))
    obs = client.poll(timeout=2.5)
    assert (obs.content, obs.prefix, obs.suffix) == ("", "", done(0))


def test_long_running_followed_by_another(shell):
    gate = Gate(shell.dir)
    obs = shell.run(f"for i in 1 2 3; do echo $i; {gate.wait}; done", timeout=0.3)
    assert obs.content == "1"
    gate.open()
    obs = shell.poll(timeout=0.3)
    assert (obs.content, obs.prefix) == ("2", CONT)
    began = time.monotonic()
    obs = shell.run("sleep 15", timeout=20)
    assert time.monotonic() - began < 2
    assert (obs.exit, obs.content, obs.suffix) == (-1, "", busy("sleep 15"))
    gate.open()
    gate.open()
    obs = shell.poll()
    assert (obs.exit, obs.content, obs.suffix) == (0, "3", done(0))


def test_blocking_disables_only_the_soft_timeout(shell):
    obs = shell.run("sleep 1.5; echo late", blocking=True)
    assert (obs.exit, obs.content) == (0, "late")
    obs = shell.run("sleep 60", blocking=True, timeout=0.4)
    assert obs.suffix == hard(0.4)
    shell.input("C-c")


def test_no_timeout_means_no_hard_timeout(shared):
    obs = shared.run("sleep 1.2; echo end", timeout=None, blocking=True)
    assert (obs.exit, obs.content) == (0, "end")


def test_leftover_output_precedes_the_next_command(shell):
    gate = Gate(shell.dir)
    for _ in range(5):
        obs = shell.run(
            f"echo early; {gate.wait}; echo late; rm -f ended; touch ended", timeout=0.3
        )
        assert (obs.content, obs.suffix) == ("early", hard(0.3))
        gate.open()
        wait_until(lambda: (shell.dir / "ended").exists())
        obs = shell.run("echo new")
        if obs.exit == -1:  # the prompt was not back yet
            assert obs.suffix == busy("echo new")
            wait_until(lambda: shell.run("rm -f ended").exit == 0, 20, "the prompt comes back")
            continue
        assert (obs.exit, obs.content, obs.suffix) == (0, "late\nnew", done(0))
        break
    else:
        pytest.fail("the prompt never came back in time")


def test_other_requests_answer_while_a_command_runs(hand):
    answers = []
    worker = threading.Thread(
        target=lambda: answers.append(hand.client.run("sleep 2", blocking=True))
    )
    worker.start()
    for _ in range(20):
        began = time.monotonic()
        assert hand.client.get("/alive").status == 200
        assert hand.client.list_files() == []
        assert time.monotonic() - began < 1
    assert worker.is_alive()
    worker.join()
    assert answers[0].exit == 0


def test_actions_are_served_one_at_a_time(hand):
    answers = []

    def add(n):
        answers.append(
            hand.client.run(f"for i in 1 2 3; do echo {n}; sleep 0.02; done", blocking=True)
        )

    workers = [threading.Thread(target=add, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(a.content for a in answers) == [f"{n}\n{n}\n{n}" for n in range(8)]


# --- interaction --------------------------------------------------------------------------------


def test_read_prompt(shell):
    obs = shell.run('read -p "Enter name: " name && echo "Hello $name"')
    assert (obs.content, obs.exit, obs.suffix) == ("Enter name:", -1, soft(1))
    obs = shell.input("John")
    assert (obs.content, obs.exit, obs.prefix, obs.suffix) == ("Hello John", 0, "", done(0))
    assert obs.command == "John"
    obs = shell.run("cat << EOF\nline 1\nline 2\nEOF")
    assert (obs.content, obs.exit) == ("line 1\nline 2", 0)


def test_unfinished_here_document_is_fed_by_input(shell):
    obs = shell.run("cat << EOF")
    assert (obs.exit, obs.suffix) == (-1, soft(1))
    assert ">" not in obs.content
    assert shell.input("line 1").exit == -1
    assert shell.input("line 2").exit == -1
    obs = shell.input("EOF")
    assert (obs.exit, obs.suffix) == (0, done(0))
    assert "line 1\nline 2" in obs.content


@needs("python3")
def test_python_input(hand):
    hand.client.write(
        "ask.py", "name = input('Name? ')\nage = input('Age? ')\nprint(f'{name} is {age}')"
    )
    obs = hand.client.run_until("python3 ask.py", "Name?")
    assert (obs.content, obs.exit, obs.suffix) == ("Name?", -1, soft(1))
    obs = hand.client.input("Alice")
    assert (obs.content, obs.exit, obs.prefix) == ("Age?", -1, CONT)
    obs = hand.client.input("25")
    assert (obs.content, obs.exit, obs.suffix) == ("Alice is 25", 0, done(0))


@needs("python3")
def test_python_input_without_is_input(shell):
    obs = shell.run_until("python3 -c \"print('Hi', input('Name? '))\"", "Name?")
    assert obs.suffix == soft(1)
    obs = shell.run("Alice")
    assert obs.suffix == busy("Alice")
    assert obs.suffix.startswith(
        '\n[Your command "Alice" is NOT executed. The previous command is still running'
    )
    assert shell.input("Alice").content == "Hi Alice"


def test_control_d_ends_input(shell):
    shell.run("cat >/dev/null; echo after")
    obs = shell.input("C-d")
    assert (obs.exit, obs.suffix) == (0, done(0, "D"))
    assert obs.content.endswith("after")


def test_control_z_stops_the_job(hand):
    hand.client.run("sleep 60")
    obs = hand.client.input("C-z")
    assert (obs.exit, obs.suffix) == (148, done(148, "Z"))
    assert "Stopped" in obs.content
    assert "sleep 60" in hand.client.ok("jobs")
    assert hand.client.run("kill -KILL %1").exit == 0


def test_control_c_on_a_loop(shell):
    obs = shell.run("while true; do sleep 0.1; done")
    assert obs.exit == -1
    obs = shell.interrupt()
    assert (obs.exit, obs.suffix) == (130, done(130, "C"))


@needs("strace")
def test_control_c_while_the_terminal_is_handed_over(hand, tmp_path):
    """bash has begun the program, which does not have the terminal yet: the key meets bash alone."""
    pid = hand.client.ok("echo $$")
    words = ["strace", "-f", "-o", tmp_path / "trace", "-e", "trace=ioctl", "-e", "inject=ioctl:delay_enter=400000:when=1", "-p", pid]
    tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        if "attached" not in tracer.stderr.readline():
            pytest.skip("strace may not attach")
        obs = hand.client.run("sleep 60", timeout=0.2)
        assert obs.exit == -1
        assert hand.client.input("C-c", timeout=30).exit == 130
    finally:
        tracer.terminate()
        tracer.wait(10)


@pytest.mark.parametrize("key", ["c-c", "C-C", "C-c", " C-c "])
def test_control_key_spelling(shell, key):
    shell.run("sleep 60")
    obs = shell.input(key, timeout=3)
    if key.startswith("c"):
        assert obs.exit == -1, "only an upper-case C- is a control key"
        shell.input("C-c")
    else:
        assert (obs.exit, obs.suffix) == (130, done(130, "C"))


def serve(shell, port):
    """A server in the foreground that has said what it says when it listens: a busy machine takes longer than a
    second to start it, and an interrupt before that meets the interpreter, not the server."""
    obs = shell.run(f"python3 -u -m http.server --bind 127.0.0.1 {port}", timeout=1.0, blocking=True)
    assert (obs.exit, obs.suffix, obs.prefix) == (-1, hard(1.0), "")
    said = [obs.content]

    def listens():
        if "Serving HTTP on" not in "".join(said):
            said.append(shell.run("", timeout=1.0, blocking=True).content)
        return re.search(r"Serving HTTP on .* port (\d+)", "".join(said))

    return wait_until(listens, 60, "the server to listen")[1]


@needs("python3")
def test_server_in_the_foreground(shell):
    port = serve(shell, 0)
    obs = shell.input("C-c", timeout=30.0)
    assert obs.exit == 0 and obs.suffix == done(0, "C")
    assert "Keyboard interrupt received, exiting." in obs.content
    assert obs.cwd == str(shell.dir)
    obs = shell.run("ls")
    assert (obs.exit, obs.content) == (0, "")
    assert serve(shell, port) == port
    assert shell.input("C-c", timeout=30.0).exit == 0


@needs("curl")
@needs("pkill")
def test_server_in_the_background(shell):
    (shell.dir / "page.txt").write_text("served\n")
    (shell.dir / "log").touch()
    shell.ok("python3 -u -m http.server --bind 127.0.0.1 0 >log 2>&1 &")
    port = wait_until(lambda: re.search(r"port (\d+)", (shell.dir / "log").read_text()))[1]
    assert shell.ok(f"curl -s http://127.0.0.1:{port}/page.txt") == "served"
    assert shell.run("pkill -P $$ -f http.server").exit == 0


def test_background_job_line(shell):
    obs = shell.run("sleep 300 &")
    assert obs.exit == 0
    job = re.fullmatch(r"\[1\] (\d+)", obs.content)
    assert job, obs
    assert obs.meta["pid"] == int(job[1])
    assert shell.ok(f"kill -0 {job[1]} && echo alive") == "alive"
    shell.run(f"kill {job[1]}")

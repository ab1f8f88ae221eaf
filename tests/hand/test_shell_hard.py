"""Everything that breaks shells driven from outside: death, disguise, odd terminals, odd output."""

import os
import signal
import threading
import time

import pytest

from client import multi, soft
from harness import needs, still_works, wait_until


# --- the shell dies -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, code",
    [
        ("exit 5", 5),
        ("exit", 0),
        ("echo bye; exit 3", 3),
        ("set -e; false", 1),
        ("exec true", 0),
        ("exec bash -c 'exit 6'", 6),
        ("kill -9 $$", 137),
        ("kill -SEGV $$", 139),
        ("set -u; set -e; echo $not_there", 1),
    ],
)
def test_death_is_reported_and_the_shell_comes_back(shell, command, code):
    where = shell.dir / "some dir"
    where.mkdir()
    shell.ok(f"cd '{where}' && export KEPT='a b\"c$d' && unexported=1")
    pid = shell.ok("echo $$")
    obs = shell.run(command)
    assert obs.exit == code, obs
    assert obs.content.startswith("bye") if "bye" in command else True
    assert f"exit code {code}" in obs.suffix
    if code > 128:
        assert obs.meta["signal"] == signal.Signals(code - 128).name
    assert shell.ok("echo $$") != pid
    assert shell.ok("pwd") == str(where)
    assert (
        shell.ok('echo "$KEPT"; bash -c \'echo "$KEPT"\'; echo [$unexported]')
        == 'a b"c$d\na b"c$d\n[]'
    )
    still_works(shell, where)


def test_exit_keeps_odd_environment(shell):
    shell.ok("export A=$'line 1\\nline 2' B='' C=$'tab\\there' D='é漢😀' E=\"it's\"; export -n LANG")
    assert shell.run("exit 5").exit == 5
    assert shell.ok('printf \'%s|\' "$A" "$B" "$C" "$D" "$E" | od -c | head -50').startswith(
        "0000000"
    )
    assert (
        shell.ok(
            "[ \"$A\" = $'line 1\\nline 2' ] && [ \"$C\" = $'tab\\there' ] && [ \"$D\" = 'é漢😀' ] "
            "&& "
            '[ "$E" = "it\'s" ] && [ "${B-unset}" = \'\' ] && echo same'
        )
        == "same"
    )


def test_changes_of_the_last_command_survive_an_exit(shell):
    shell.ok("mkdir sub")
    shell.run("export LATE=1; cd sub; exit 4")
    # what the last completed command left is promised; later changes are welcome
    assert shell.ok("pwd") in (str(shell.dir), f"{shell.dir}/sub")
    still_works(shell)


def test_unset_variable_stays_unset_after_respawn(start):
    client = start(env={"FROM_SERVER": "1"}).client
    client.ok("unset FROM_SERVER")
    client.run("exit 1")
    assert client.ok("echo [$FROM_SERVER]") == "[]"


def test_exec_of_a_program_that_stays(shell):
    obs = shell.run("exec sleep 60")
    assert (obs.exit, obs.suffix) == (-1, soft(1))
    assert shell.interrupt().exit == 130
    still_works(shell)


def test_exec_of_another_shell(shell):
    obs = shell.run("exec sh")
    assert obs.exit in (-1, 0)
    if obs.exit == -1:
        obs = shell.input("exit 4")
        assert obs.exit == 4
    still_works(shell)


def test_killed_while_a_command_runs(hand):
    client = hand.client
    pid = int(client.ok("echo $$"))
    answers = []
    worker = threading.Thread(
        target=lambda: answers.append(client.run("echo before; sleep 300", blocking=True))
    )
    worker.start()
    wait_until(lambda: any("sleep 300" in c for c in hand.left().values()))
    os.kill(pid, signal.SIGKILL)
    worker.join(5)
    assert not worker.is_alive(), "the death of the shell must end the wait"
    assert answers[0].exit == 137 and answers[0].content.startswith("before")
    still_works(client)


def test_killed_while_idle(shell):
    shell.ok("export KEPT=1; cd /usr")
    pid = int(shell.ok("echo $$"))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), what="shell reaped")
    assert shell.ok("echo $KEPT; pwd") == "1\n/usr"
    still_works(shell)


def test_killed_after_a_soft_timeout(shell):
    pid = int(shell.ok("echo $$"))
    assert shell.run("sleep 300").suffix == soft(1)
    os.kill(pid, signal.SIGKILL)
    obs = shell.poll()
    assert obs.exit == 137
    still_works(shell)


def test_exit_inside_a_branch_not_taken(shared):
    assert shared.ok("if false; then exit 1; fi; echo here") == "here"


def test_set_e_survives_success(shell):
    shell.ok("set -e")
    assert shell.ok("echo ok") == "ok"
    assert shell.run("false").exit == 1
    still_works(shell)


def test_control_d_at_the_prompt(shell):
    obs = shell.run("C-d", timeout=5)
    assert obs.type == "run"
    still_works(shell)


def test_control_c_at_the_prompt(shell):
    obs = shell.run("C-c", timeout=5)
    assert obs.type == "run"
    still_works(shell)


@pytest.mark.parametrize(
    "command", ["kill -INT $$", "kill -INT $$; echo no", "while :; do kill -INT $$; done"]
)
def test_shell_interrupts_itself(shell, command):
    """The rest of the line is thrown away, what is ours on it too: the status comes all the same."""
    obs = shell.run(command, timeout=10)
    assert (obs.exit, obs.content) == (130, "")
    assert shell.ok("echo $?") == "130"
    still_works(shell)


# --- the shell is disguised ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "PS1='$ '",
        "PS1='\\u@\\h:\\w\\$ '",
        "unset PS1",
        "PS2='more> '",
        "PS4='+++ '",
        "PROMPT_COMMAND='echo prompt'",
        "PROMPT_COMMAND=",
        "unset PROMPT_COMMAND",
        "PROMPT_COMMAND=(a b 'false')",
        "PROMPT_COMMAND='(exit 3)'",
        "export PS1='x' PROMPT_COMMAND='y'",
        "PS0='before\\n'",
        "TERM=dumb",
        "TERM=",
        "unset TERM",
        "stty -echo",
        "stty echo",
        "set -v",
        "set -f",
        "set -o vi",
        "set -o emacs",
        "set -o posix",
        "set +m",
        "set -C",
        "shopt -s extdebug",
        "shopt -u promptvars",
        "IFS=,",
        "IFS=",
        "LC_ALL=C",
        "unset HOME",
        "umask 777; umask 022",
        "PATH=/nonexistent",
        "PATH=",
        "unset PATH",
        "HISTFILE=/dev/null",
        "set -o noclobber",
        "set -o ignoreeof",
        "CDPATH=/usr",
        "BASH_ENV=/nonexistent",
        "ENV=/nonexistent",
        "unset BASH_VERSION",
        "hash -r",
        "enable -n echo",
        "set -- a b c",
        "shopt -s nullglob failglob dotglob",
        "PS1='\\[\\e]0;title\\a\\]$ '",
        "TMOUT=0",
        "set -h",
        "set +h",
        "set -k",
        "set -T",
        "set -E",
        "set -P",
        "set -b",
        "LINES=5 COLUMNS=7",
    ],
)
def test_changed_settings(shell, change):
    """Statuses, directory and output stay right; what a prompt prints by itself may show."""
    assert shell.run(change, timeout=5).exit != -1, change
    obs = shell.run("/bin/echo one", timeout=5)
    assert obs.exit == 0 and "one" in obs.content.splitlines(), (change, obs)
    obs = shell.run("(exit 4)", timeout=5)
    assert obs.exit == 4, (change, obs)
    obs = shell.run("builtin cd /usr", timeout=5)
    assert (obs.exit, obs.cwd) == (0, "/usr"), (change, obs)
    obs = shell.run("for i in 1 2\ndo /bin/echo $i\ndone", timeout=5)
    assert {"1", "2"} <= set(obs.content.splitlines()), (change, obs)
    assert "more>" not in obs.content


@pytest.mark.parametrize(
    "change", ["PS1='$ '", "PS2='more> '", "export PS1='x> '", "unset PS1 PS2"]
)
def test_changed_prompt_is_never_output(shell, change):
    shell.ok(change)
    assert shell.ok("echo one") == "one"
    assert shell.ok("for i in 1 2\ndo echo $i\ndone") == "1\n2"


def test_set_x_shows_only_the_command(shell):
    shell.run("set -x")
    obs = shell.run("echo traced")
    assert obs.exit == 0
    assert "+ echo traced\ntraced" in obs.content
    assert len(obs.content.splitlines()) <= 3, f"the integration is traced: {obs.content!r}"
    assert "tendon" not in obs.content
    assert shell.run("set +x").exit == 0
    still_works(shell)


def test_set_u_failure(shell):
    shell.ok("set -u")
    obs = shell.run("echo $undefined_thing")
    assert obs.exit != 0 and "undefined_thing: unbound variable" in obs.content
    assert shell.ok("set +u; echo fine") == "fine"
    still_works(shell)


VENV = r"""
deactivate() { PS1="$_OLD_PS1"; unset -f deactivate; }
_OLD_PS1="${PS1:-}"
PS1="(env) ${PS1:-}"
export PS1
VIRTUAL_ENV="%(ws)s/env"
export VIRTUAL_ENV
PATH="$VIRTUAL_ENV/bin:$PATH"
export PATH
hash -r 2> /dev/null
"""
CONDA = r"""
__conda_prompt() { local status=$?; PS1="(base) \w\$ "; return $status; }
export PROMPT_COMMAND="__conda_prompt${PROMPT_COMMAND:+;$PROMPT_COMMAND}"
export CONDA_PROMPT_MODIFIER='(base) ' CONDA_SHLVL=1 PS1='(base) $ '
conda() { \builtin echo "conda $*"; }
"""


@pytest.mark.parametrize("script", [VENV, CONDA], ids=["venv", "conda"])
def test_environment_activation(shell, script):
    (shell.dir / "env/bin").mkdir(parents=True)
    (shell.dir / "env/bin/python").write_text("#!/bin/sh\necho fake python\n")
    (shell.dir / "env/bin/python").chmod(0o755)
    (shell.dir / "activate").write_text(script.replace("%(ws)s", str(shell.dir)))
    obs = shell.run("source ./activate")
    assert (obs.exit, obs.content) == (0, "")
    obs = shell.run("echo after")
    assert (obs.exit, obs.content) == (0, "after")
    if script is VENV:
        assert obs.meta["py_interpreter_path"] == f"{shell.dir}/env/bin/python"
        assert shell.ok("python") == "fake python"
        shell.ok("deactivate")
    else:
        assert shell.ok("conda info") == "conda info"
    still_works(shell)


@needs("python3")
def test_real_venv(shell):
    made = shell.run("python3 -m venv --without-pip v", timeout=60.0, blocking=True)
    if made.exit != 0:
        pytest.skip("python3 -m venv does not work here: " + made.content[:200])
    assert shell.ok(". v/bin/activate") == ""
    assert shell.run(":").meta["py_interpreter_path"] == f"{shell.dir}/v/bin/python"
    shell.ok("deactivate")
    still_works(shell)


@pytest.mark.parametrize(
    "function",
    [
        "cd",
        "printf",
        "echo",
        "pwd",
        "builtin",
        "command",
        "eval",
        "exit",
        "read",
        "trap",
        "test",
        "[",
        "which",
        "type",
        "set",
        "export",
        "return",
        "true",
        "kill",
        "exec",
        "declare",
        "local",
        "unset",
        "shift",
        "source",
        "hash",
        "times",
    ],
)
def test_functions_that_hide_builtins(shell, function):
    obs = shell.run(f"function {function} {{ :; }}", timeout=5)
    assert obs.exit == 0, obs
    obs = shell.run("(/bin/echo one; /bin/sh -c 'exit 4')", timeout=5)
    assert (obs.exit, obs.content) == (4, "one"), obs
    obs = shell.run("/bin/echo two", timeout=5)
    assert (obs.exit, obs.content) == (0, "two"), obs
    assert obs.cwd, obs


def test_aliases_that_hide_builtins(shell):
    shell.ok(
        "alias cd='echo cd' printf='echo printf' eval='echo eval' exit='echo exit' builtin='echo "
        "builtin' "
        "pwd='echo pwd' command='echo command' read='echo read'"
    )
    assert shell.run("/bin/echo plain").content == "plain"
    assert shell.run("(\\exit 4)").exit == 4


@pytest.mark.parametrize(
    "trap", ["DEBUG", "ERR", "EXIT", "RETURN", "INT", "TERM", "CHLD", "HUP", "WINCH", "USR1"]
)
def test_traps(shell, trap):
    shell.run(f"trap 'echo trapped-{trap}' {trap}")
    obs = shell.run("/bin/sh -c 'exit 4'", timeout=5)
    assert obs.exit == 4
    obs = shell.run("cd /usr", timeout=5)
    assert (obs.exit, obs.cwd) == (0, "/usr")
    shell.run(f"trap - {trap}")
    still_works(shell)


def test_exit_trap_runs(shell):
    shell.ok("trap 'echo last words' EXIT")
    obs = shell.run("exit 7")
    assert obs.exit == 7 and obs.content.endswith("last words")
    still_works(shell)


@pytest.mark.parametrize(
    "redirection",
    [
        "exec 2>/dev/null",
        "exec </dev/null",
        "exec >/dev/null",
        "exec 2>&1",
        "exec 3>&1 4>&2",
        "exec >log 2>&1",
        "exec <&- ",
        "exec >&-",
        "exec 2>&-",
        "exec </dev/null >/dev/null 2>&1",
        "exec 0</dev/zero",
        'for f in {3..254}; do eval "exec $f>&-"; done',
    ],
)
def test_redirected_shell(shell, redirection):
    obs = shell.run(redirection, timeout=5)
    # A shell that closes the descriptors of its own bookkeeping cannot be reached any more: it is replaced.
    assert obs.exit in (0, 1) or obs.meta["end"] == "shell_exited", obs
    obs = shell.run("cd /usr; (exit 4)", timeout=5)
    assert (obs.exit, obs.cwd) == (4, "/usr"), obs
    obs = shell.run("exec </dev/tty >/dev/tty 2>&1", timeout=5)
    assert obs.exit == 0
    assert shell.run("echo back", timeout=5).content.endswith("back")


@pytest.mark.parametrize(
    "fake",
    [
        r"printf '\n###PS1JSON###\n{\"exit_code\": \"7\", \"working_dir\": \"/fake\"}\n'; "
        r"printf '###PS1END###\n'",
        r"printf '\033]133;D;7\007'",
        r"printf '\033]133;A\007\033]133;B\007\033]133;C\007'",
        r"printf '\033]697;Done\007\033]633;D;7\007'",
        r"printf '\001\002\003\004\005\006'",
        r"printf '\033_marker\033\\'",
        r"printf '\033P1$r\033\\'",
        r"printf '\033^private\033\\'",
    ],
)
def test_fake_markers(shell, fake):
    began = time.monotonic()
    obs = shell.run(f"{fake}; sleep 0.3; (exit 5)")
    assert time.monotonic() - began >= 0.3, "completion was faked"
    assert obs.exit == 5
    assert obs.cwd != "/fake"
    if "PS1JSON" in fake:
        assert "###PS1JSON###" in obs.content
    still_works(shell)


def test_completion_cannot_be_forged_through_descriptors(shell):
    """A program that writes junk to every descriptor it inherits does not end the command."""
    began = time.monotonic()
    obs = shell.run(
        "bash -c 'for f in /proc/self/fd/*; do n=${f##*/}; [ $n -gt 2 ] && "
        'printf "0\\0junk\\n" >&$n; done 2>/dev/null; sleep 0.3; exit 6\''
    )
    assert time.monotonic() - began >= 0.3 and obs.exit == 6
    still_works(shell)


def test_programs_inherit_no_extra_descriptors(shared):
    listed = shared.ok("ls /proc/self/fd").split()
    assert listed == [
        "0",
        "1",
        "2",
        "3",
    ], "only the three standard ones and the directory being listed"


def test_subshell_inherits_a_working_shell(shell):
    obs = shell.run("bash")
    assert obs.exit == -1
    obs = shell.input("echo inner $SHLVL", timeout=2)
    assert obs.exit == -1 and "inner" in obs.content
    obs = shell.input("exit 3")
    assert obs.exit == 3
    still_works(shell)


def test_interactive_child_shell_gets_no_integration(shell):
    """The child shell's prompts must not count as completion."""
    obs = shell.run("bash --norc -i", timeout=3)
    assert obs.exit == -1
    for _ in range(2):
        assert shell.input("true", timeout=2).exit == -1
    assert shell.input("C-d").exit == 0
    still_works(shell)


# --- directories --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "with space",
        'quo"te',
        "apo'strophe",
        "new\nline",
        "ünïcödé漢😀",
        "back\\slash",
        "$HOME",
        "`tick`",
        "tab\there",
        "-dash",
        "semi;colon",
        "trailing ",
        "*star?",
        "###PS1END###",
        "a" * 255,
    ],
)
def test_odd_directories(shell, name):
    path = shell.dir / name
    path.mkdir()
    quoted = "'" + str(path).replace("'", "'\\''") + "'"
    obs = shell.run(f"cd {quoted}")
    assert (obs.exit, obs.cwd) == (0, str(path))
    shell.ok("touch here")
    assert (path / "here").exists()
    shell.run("exit 3")
    assert shell.run(":").cwd == str(path), "the respawned shell starts in the last directory"


def test_directory_with_invalid_utf8(shell):
    path = os.fsencode(shell.dir) + b"/bad\xff\xfename"
    os.mkdir(path)
    obs = shell.run("cd bad*")
    assert obs.exit == 0 and obs.cwd.startswith(f"{shell.dir}/bad")
    still_works(shell)


def test_deleted_directory(shell):
    shell.ok("mkdir gone && cd gone")
    os.rmdir(shell.dir / "gone")
    obs = shell.run("echo hi")
    assert (obs.exit, obs.content) == (0, "hi")
    assert shell.run("exit 2").exit == 2
    still_works(shell)
    assert shell.run("cd " + str(shell.dir)).exit == 0


def test_deep_directory(shell):
    obs = shell.run("for i in {1..60}; do mkdir -p " + "d" * 60 + " && cd " + "d" * 60 + "; done", blocking=True)
    assert obs.exit == 0 and len(obs.cwd) > 3600
    still_works(shell)
    shell.ok("cd /")


def test_symlinked_directory_is_reported_as_the_shell_sees_it(shell):
    (shell.dir / "real").mkdir()
    (shell.dir / "link").symlink_to("real")
    assert shell.run("cd link").cwd == f"{shell.dir}/link"


# --- odd commands -------------------------------------------------------------------------------


def test_very_long_command(shared):
    words = "w" * 200_000
    obs = shared.run(f"echo {words} | wc -c")
    assert (obs.exit, obs.content) == (0, "200001")
    assert obs.command == f"echo {words} | wc -c"


def test_long_here_document(shell):
    body = "\n".join(f"line {i} of a long here-document" for i in range(8000))
    obs = shell.run(f"cat > doc.txt <<'EOF'\n{body}\nEOF")
    assert obs.exit == 0
    assert (shell.dir / "doc.txt").read_text() == body + "\n"


def test_nul_in_a_command(shared):
    reply = shared.post_action({"action": "run", "args": {"command": "echo a\0b"}, "timeout": 5.0})
    assert reply.status in (200, 400, 422, 500)
    assert "detail" in reply.json or "content" in reply.json
    still_works(shared)


@pytest.mark.parametrize(
    "text",
    [
        "tab\there",
        "a\rb",
        "esc\x1b[A",
        "\x01\x02\x03\x04",
        "\x7f\x08",
        "\x11\x13\x16",
        "é漢😀",
        "\u2028",
    ],
)
def test_control_characters_in_a_command_are_literal(shell, text):
    obs = shell.run(f"printf %s '{text}' > out")
    assert obs.exit == 0
    assert (shell.dir / "out").read_bytes() == text.encode()


def test_a_command_that_begins_with_a_dash_is_no_option(shared):
    obs = shared.run("-it")
    assert obs.exit == 127
    assert "-it: command not found" in obs.content


def test_history_expansion_does_not_bite(shared):
    assert shared.ok('echo "a!b !! !x"') == "a!b !! !x"


def test_syntax_error(shared):
    obs = shared.run("echo )")
    assert obs.exit in (1, 2) and "syntax error" in obs.content
    assert shared.ok("echo fine") == "fine"


def test_error_messages_name_no_internal_file(shared):
    obs = shared.run("nonexistent_command_xyz")
    assert obs.content == "bash: nonexistent_command_xyz: command not found"


def test_many_commands_in_a_row(shared):
    for n in range(200):
        assert shared.ok(f"echo {n}") == str(n)


def test_command_that_spawns_thousands_of_lines_then_reads(shell):
    obs = shell.run('seq 1 20000; read x; echo "end $x"')
    assert obs.suffix == soft(1) and obs.content.endswith("20000")
    assert shell.input("now").content == "end now"


def test_multi_rejection_beats_everything_odd(shared):
    assert shared.run("cd /\nexit 3").content == multi("cd /", "exit 3")
    still_works(shared)


def test_large_environment_after_respawn(start):
    """The new shell gets it whole, and a slow rc file does not hold an action beyond its deadline."""
    base = start.base()
    os.mkdir(f"{base}/home")
    hand = start(base=base)
    for n in range(4):
        hand.client.ok(f"export BIG{n}=$(printf '%120000s' x)")
    with open(f"{base}/home/.bashrc", "w") as f:
        f.write("sleep 4\n")
    hand.client.run("exit 3")
    began = time.monotonic()
    assert hand.client.run("echo early", timeout=1.0).exit == -1
    assert time.monotonic() - began < 3.5
    obs = hand.client.run("echo ${#BIG0} ${#BIG3}", timeout=20.0)
    assert (obs.exit, obs.content) == (0, "120000 120000"), obs

"""Long output of the shell, hidden output, and static commands in shells of their own."""

import re

import pytest

from client import CUT, NOLOG, done, hard, soft, trunc
from harness import needs, wait_until


# --- long output --------------------------------------------------------------------------------


def test_long_output(shared):
    obs = shared.run('for i in $(seq 1 5000); do echo "Line $i"; done')
    assert obs.exit == 0 and obs.prefix == ""
    text = "\n".join(f"Line {i}" for i in range(1, 5001))
    assert obs.content == text[:15000] + CUT + text[-15000:]
    assert obs.content.startswith("Line 1\n") and obs.content.endswith("Line 5000")


# Seen under OpenHands 0.62: lines of output, the first line that is kept, and the number in the prefix.
WINDOWS = [
    (5000, 1, None),
    (10976, 1, None),
    (10977, 989, 9990),
    (11000, 989, 10013),
    (11500, 989, 10513),
    (11976, 989, 10989),
    (12000, 1989, 10013),
    (50000, 39989, 10013),
    (50500, 39989, 10513),
]


@pytest.mark.parametrize("lines, first, told", WINDOWS)
def test_history_window_is_the_original_one(shared, lines, first, told):
    obs = shared.run(f"seq {lines}", timeout=50.0)
    assert obs.prefix == (trunc(told) if told else "")
    text = "\n".join(str(i) for i in range(first, lines + 1))
    assert obs.content == (text[:15000] + CUT + text[-15000:] if len(text) > 30000 else text)


def test_history_window(shared):
    obs = shared.run('for i in $(seq 1 50000); do echo "Line $i"; done', timeout=50.0)
    assert obs.exit == 0 and obs.suffix == done(0)
    text = "\n".join(f"Line {i}" for i in range(39989, 50001))
    assert obs.content == text[:15000] + CUT + text[-15000:]
    assert "Line 40000\n" in obs.content and obs.content.endswith("Line 50000")


def test_history_window_is_per_command(shared):
    shared.run("seq 1 30000")
    obs = shared.run("echo small")
    assert (obs.content, obs.prefix) == ("small", "")


def test_history_window_of_a_reported_command(shell):
    obs = shell.run("read x; seq 1 40000")
    assert obs.suffix == soft(1)
    obs = shell.input("go")
    assert (obs.exit, obs.prefix, obs.suffix) == (0, "", done(0))
    assert obs.content.endswith("\n40000") and CUT in obs.content


@needs("python3")
@pytest.mark.parametrize("char", ["a", "é", "漢", "😀"])
def test_cut_counts_code_points(shared, char):
    assert shared.ok(f"python3 -c \"print('{char}' * 30000)\"") == char * 30000
    assert shared.ok(f"python3 -c \"print('{char}' * 29999 + 'zz')\"") == char * 15000 + CUT + char * 14998 + "zz"


@needs("python3")
def test_hidden_output_is_not_cut(shared):
    obs = shared.run("python3 -c \"print('x' * 45000)\"", hidden=True, blocking=True)
    assert obs.content == "x" * 45000
    assert obs.extras["hidden"] is True


def test_nested_directories(shell):
    made = shell.run(
        "for i in {1..100}; do mkdir folder_$i; for j in {1..100}; do : >folder_$i/file_$j.txt; "
        "done; done",
        timeout=60.0,
        blocking=True,
    )
    assert made.exit == 0
    obs = shell.run("ls -R")
    assert obs.exit == 0 and CUT in obs.content
    for name in ("folder_1", "folder_100", "file_100.txt"):
        assert name in obs.content


def stress_round(client):
    client.ok(
        "awk 'BEGIN { for (i = 1; i <= 2000; i++) print \"number \" i }' | tail -n 500 | sort "
        "-k2 -n"
    )
    assert client.run("ps aux | awk '{print $2}' | head -n 20").exit == 0
    obs = client.run('read -p "Proceed? [Y/n] " answer; [ "$answer" = Y ] && echo going on')
    assert (obs.content, obs.suffix) == ("Proceed? [Y/n]", soft(1))
    assert client.input("Y").content == "going on"
    obs = client.run(
        "i=0; while :; do i=$((i+1)); printf '%01000d\\n' $i; sleep 0.01; done", timeout=0.7
    )
    assert (obs.exit, obs.suffix) == (-1, hard(0.7))
    assert re.search(r"(^|\n)0{999}1\n", obs.content)
    obs = client.run("ls")
    assert obs.exit == -1 and "The previous command is still running" in obs.suffix
    assert client.interrupt().exit == 130
    obs = client.run("ls")
    assert (obs.exit, obs.content) == (0, "")


@needs("awk")
def test_stress_round(shell):
    stress_round(shell)


@pytest.mark.slow
@needs("awk")
def test_stress(shell):
    for _ in range(10):
        stress_round(shell)


# --- hidden and static --------------------------------------------------------------------------


def test_hidden_is_copied(shared):
    obs = shared.run("echo secret", hidden=True)
    assert (obs.content, obs.extras["hidden"]) == ("secret", True)


def test_static_command(hand):
    client = hand.client
    client.ok("cd / && export HERE=main && x=1")
    obs = client.run(
        'echo "$HERE-$x"; pwd; echo err >&2; cd /usr; export HERE=static; (exit 3)',
        is_static=True,
        hidden=True,
    )
    assert obs.type == "run"
    assert obs.content == f"-\n{hand.workspace}\nerr"
    assert obs.exit == 3 and obs.cwd == "/usr"
    assert obs.extras["hidden"] is True and obs.suffix == done(3)
    assert client.ok("echo $HERE; pwd") == "main\n/"


def test_static_command_in_directory(hand):
    (hand.workspace / "sub dir").mkdir()
    obs = hand.client.run("pwd", is_static=True, cwd=f"{hand.workspace}/sub dir")
    assert (obs.exit, obs.content, obs.cwd) == (
        0,
        f"{hand.workspace}/sub dir",
        f"{hand.workspace}/sub dir",
    )


def test_static_command_in_missing_directory(hand):
    obs = hand.client.run("pwd", is_static=True, hidden=True, cwd="/nonexistent/dir")
    assert obs.type == "run"
    assert hand.client.ok("echo fine") == "fine"


def test_static_command_reads_rc_file_and_has_no_alias(hand):
    (hand.home / ".bashrc").write_text("export FROM_RC=yes\n")
    assert hand.client.ok("echo $FROM_RC", is_static=True) == "yes"
    assert hand.client.run("alias git", is_static=True).exit == 1


def test_static_command_while_main_session_is_busy(hand):
    hand.client.run("sleep 60")
    obs = hand.client.run("echo aside", is_static=True)
    assert (obs.exit, obs.content, obs.prefix) == (0, "aside", "")
    assert hand.client.poll().suffix == soft(1)
    assert hand.client.interrupt().exit == 130


def test_static_soft_timeout_leaves_nothing(hand):
    obs = hand.client.run("sleep 4242", is_static=True)
    assert (obs.exit, obs.suffix) == (-1, soft(1))
    assert (
        hand.client.poll().content == NOLOG
    ), "a static command is not the session's running command"
    wait_until(
        lambda: not any("sleep 4242" in c for c in hand.left().values()),
        what="static command ended",
    )


def test_static_hidden_output_is_not_cut(shared):
    obs = shared.run("head -c 40000 /dev/zero | tr '\\0' x", is_static=True, hidden=True)
    assert obs.content == "x" * 40000


def test_static_blocking(shared):
    obs = shared.run("sleep 1.5; echo end", is_static=True, blocking=True)
    assert (obs.exit, obs.content) == (0, "end")

"""The same actions to OpenHands' own action server and to the hand: what they answer is the same.

Runs where TN_OPENHANDS_PYTHON names an interpreter that has openhands-ai 0.62 installed (and tmux is there); it has to be
root, as that server is.  Fields that the hand adds do not count, nor does what differs from run to run."""

import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from harness import free_port, needs_root, wait_until

PYTHON = os.environ.get("TN_OPENHANDS_PYTHON")

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="TN_OPENHANDS_PYTHON names no Python with openhands-ai 0.62: see "
                                      "docs/internals/testing.md"),
    pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed"),
    pytest.mark.timeout(900),
]


def post(address, action):
    """The status and the answer of one action."""
    data = json.dumps({"action": {"timeout": 30.0, **action}}).encode()
    request = urllib.request.Request(f"{address}/execute_action", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as failed:
        return failed.code, {}


def is_up(address):
    try:
        with urllib.request.urlopen(f"{address}/alive", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The address of the original, and its working directory."""
    if PYTHON and subprocess.run([PYTHON, "-c", "import openhands.runtime"], capture_output=True).returncode:
        pytest.skip(f"{PYTHON} has no openhands.runtime")
    needs_root()
    base = tmp_path_factory.mktemp("original")
    (base / "w").mkdir()
    port = free_port()
    command = [PYTHON, "-u", "-m", "openhands.runtime.action_execution_server", str(port), "--working-dir",
               str(base / "w"), "--username", "root", "--user-id", "0", "--no-enable-browser"]
    env = {**os.environ, "HOME": str(base), "TMUX_TMPDIR": str(base), "SU_TO_USER": "false", "LOG_LEVEL": "ERROR",
           "NO_CHANGE_TIMEOUT_SECONDS": "5"}
    with open(base / "log", "w") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: server.poll() is not None or is_up(address), 600, "the original to start")
        assert server.poll() is None, (base / "log").read_text()[-2000:]
        yield address, base / "w"
    finally:
        server.terminate()
        server.wait(30)
        subprocess.run(["tmux", "kill-server"], env=env, capture_output=True)


def run(command, **args):
    return {"action": "run", "args": {"command": command, **args}}


def edit(command, path="f.txt", **args):
    return {"action": "edit", "args": {"path": f"@/{path}", "command": command, **args}}


HERE_DOCUMENT = "cat > s.sh <<'EOF'\necho \"it's $1\"\nEOF\nbash s.sh here"
CONDITION = "[[ a == a ]] && echo yes\necho after"
QUOTED_LINES = "echo 'one\n\n\nthree'"

# @ is the working directory; in order, since one makes what the next looks at.
ACTIONS = [
    run("echo hello"),
    run("printf 'a\\tb\\n'"),
    run("(exit 7)"),
    run("no-such-command-here"),
    run("cd / && pwd"),
    run("cd @ && pwd"),
    run("echo a\necho b"),
    run(HERE_DOCUMENT),
    run(CONDITION),
    run("for i in 1 2 3; do\n  echo $i\ndone"),
    run(""),
    run("x", is_input=True),
    run("seq 5000"),
    run("seq 11000"),
    run("seq 12000"),
    run("printf '10%%\\r20%%\\r30%%\\n'"),
    run(QUOTED_LINES),
    {"action": "write", "args": {"path": "@/f.txt", "content": "one\ntwo\nthree"}},
    {"action": "read", "args": {"path": "@/f.txt"}},
    {"action": "read", "args": {"path": "@/f.txt", "start": 1, "end": 2}},
    {"action": "read", "args": {"path": "@/missing"}},
    {"action": "read", "args": {"path": "@/f.txt", "impl_source": "oh_aci"}},
    {"action": "read", "args": {"path": "@/f.txt", "impl_source": "oh_aci", "view_range": [2, 3]}},
    {"action": "read", "args": {"path": "@/f.txt", "impl_source": "oh_aci", "view_range": [9, 10]}},
    edit("create", "new.txt", file_text="alpha\nbeta\n"),
    edit("create", "new.txt", file_text="again"),
    edit("str_replace", old_str="two", new_str="2"),
    edit("str_replace", old_str="nowhere", new_str="x"),
    edit("insert", insert_line=1, new_str="between"),
    edit("insert", insert_line=99, new_str="x"),
    edit("undo_edit"),
    edit("view", view_range=[1, 2]),
    {"action": "read", "args": {"path": "@/new.txt"}},
    {"action": "think", "args": {"thought": "hm"}},
    run("read word; echo got $word"),
    run("echo meanwhile"),
    run(""),
    run("something", is_input=True),
    run("sleep 600"),
    run("C-c", is_input=True),
    run("echo done"),
]

# Contents that are to differ: {command: (pattern of the original's, the hand's, why)}.  Everything else of these answers is
# compared.
ECHO = "the original shows the text again, as its terminal echoed it; the hand's terminal has no echo"
RACE = (f"{ECHO}. What its parser does not understand it types as it is, and takes the first prompt of several for the end: the "
        "number of empty lines changes from run to run, and output of the last line may be missing")
DIFFERENT = {
    HERE_DOCUMENT: (re.escape("cat > s.sh <<'EOF'\necho \"it's $1\"\nEOF") + r"\n{2,}bash s\.sh here(\nit's here)?", "it's here",
                    RACE),
    CONDITION: (re.escape("[[ a == a ]] && echo yes\nyes") + r"\n{2,}echo after(\nafter)?", "yes\nafter", RACE),
    QUOTED_LINES: (re.escape("echo 'one\nthree'\none\n\n\nthree"), "one\n\n\nthree", f"{ECHO}, without its empty lines"),
}


def plain(status, answer, directory):
    """What is compared of an answer."""
    if status != 200:
        return {"status": status}
    extras = dict(answer.get("extras") or {})
    metadata = extras.pop("metadata", None) or {}
    shown = {"observation": answer.get("observation"), "content": answer.get("content"), **extras}
    shown.update({key: metadata.get(key) for key in ("exit_code", "working_dir", "prefix", "suffix")} if metadata else {})
    return json.loads(json.dumps(shown).replace(str(directory), "@"))


def test_the_same_actions_have_the_same_answers(original, start):
    address, directory = original
    hand = start(env={"NO_CHANGE_TIMEOUT_SECONDS": "5"})
    different = []
    for action in ACTIONS:
        answers = []
        for client, where in ((lambda a: post(address, a), directory), (hand.client.post_action, hand.workspace)):
            filled = json.loads(json.dumps(action).replace("@", str(where)))
            answer = client({"timeout": 30.0, **filled})
            status, body = answer if isinstance(answer, tuple) else (answer.status, answer.json)
            answers.append(plain(status, body, where))
        theirs, ours = answers
        if row := DIFFERENT.get(action["args"].get("command")):
            pattern, expected, why = row
            if not re.fullmatch(pattern, theirs.get("content") or "") or ours.get("content") != expected:
                different.append(f"{action}: no longer so: {why}:\n  original {theirs}\n  hand     {ours}")
            theirs["content"] = ours.get("content")
        if theirs != {key: ours.get(key) for key in theirs}:
            different.append(f"{action}:\n  original {theirs}\n  hand     {ours}")
    assert not different, "\n".join(different)

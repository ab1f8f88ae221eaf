"""Plugins: what /v1/plugins tells, and programs tendon-plugin-NAME that add actions."""

import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import termios
import threading

import pytest

from client import Observation
from harness import ROOT, STRAY, Factory, alive, census, needs_root, wait_until

HERE = pathlib.Path(__file__).parent
MEMBERS = set("name help enabled usable found missing install running pids memory restarts".split())


# What the rogue does, and what becomes of it; each has a plugin of its own, because one that breaks
# down again and again has to wait for its next start.
BREAKDOWNS = {
    "crash": "was ended by SIGKILL",
    "exit": "ended with exit code 3: I cannot go on",
    "garbage": "sent a line that is no JSON-RPC message",
    "flood": "sent a line that is too long",
    "stray": "answered something that was not asked",
    "close": "closed its output",
}


def install(directory):
    """The example and the rogues, where a hand can find them."""
    directory = pathlib.Path(directory)
    directory.mkdir(exist_ok=True)
    shutil.copy(ROOT / "examples/tendon-plugin-example", directory)
    for name in ("rogue", "hang", "stop", "boast", "deaf", *BREAKDOWNS):
        shutil.copy(HERE / "rogue.py", directory / f"tendon-plugin-{name}")
        (directory / f"tendon-plugin-{name}").chmod(0o755)
    return directory


def with_plugins(factory, *names, **options):
    base = factory.base()
    env = {"TENDON_PLUGIN_PATH": str(install(f"{base}/plugins")), **options.pop("env", {})}
    named = [word for name in names for word in ("--plugins", name)]
    return factory(base=base, env=env, args=[*named, *options.pop("args", ())], **options)


@pytest.fixture(scope="module")
def plugged():
    """One hand with all plugins for the whole file."""
    factory = Factory()
    hand = with_plugins(factory, "example", "rogue", "hang", "stop", "boast", "deaf", *BREAKDOWNS)
    yield hand
    factory.finish()


def about(hand, name):
    reply = hand.client.get(f"/v1/plugins/{name}")
    assert reply.status == 200, reply
    return reply.json


def act(hand, kind, timeout=20.0, **args):
    return hand.client.act(kind, args, timeout)


def works(hand, name="rogue"):
    obs = act(hand, f"{name}.echo", text="hello")
    assert (obs.type, json.loads(obs.content)) == ("mcp", {"text": "hello"})


# --- what there is ---------------------------------------------------------------------------------


def test_every_plugin_tells_about_itself(plugged):
    plugins = plugged.client.get("/v1/plugins").json["plugins"]
    assert {"example", "rogue"} <= {p["name"] for p in plugins}
    for plugin in plugins:
        assert MEMBERS <= set(plugin), plugin
        assert (plugin["missing"] is None) == plugin["usable"]
        assert (plugin["found"] is not None) == plugin["usable"]
        assert about(plugged, plugin["name"])["help"] == plugin["help"]
    assert plugged.client.get("/v1/plugins/nosuch").status == 404


def test_a_name_that_is_none(start):
    hand = with_plugins(start, "exmaple", wait=False)
    assert hand.process.wait(10) != 0
    told = "Plugin exmaple not found: put a program tendon-plugin-exmaple into a directory of"
    assert told in hand.stderr and "there are jupyter" in hand.stderr
    assert " example" in hand.stderr and "rogue" in hand.stderr
    start.hands.remove(hand)


def test_never_out_of_the_workspace(start):
    base = pathlib.Path(start.base())
    install(base / "ws")
    (base / "bin").mkdir()
    (base / "bin" / "tendon-plugin-example").symlink_to(base / "ws" / "tendon-plugin-example")
    for path in (f"{base}/ws", f"{base}/bin", "ws", "."):
        hand = start(
            base=base, args=["--plugins", "example"], env={"TENDON_PLUGIN_PATH": path}, wait=False
        )
        assert hand.process.wait(10) != 0
        assert "Plugin example not found" in hand.stderr
        start.hands.remove(hand)


def test_nothing_runs_that_was_not_named(start):
    hand = with_plugins(start, "example")
    reply = hand.client.post_action({"action": "rogue.echo", "args": {}, "timeout": 5})
    assert reply.status == 500
    assert "tendon-plugin-rogue" in reply.detail
    assert hand.client.post("/v1/plugins/rogue/start", {}).status == 404
    assert not [c for c in census(hand.mark).values() if "tendon-plugin" in c]


# --- the example -----------------------------------------------------------------------------------


def test_example(start):
    hand = with_plugins(start, "example")
    before = about(hand, "example")
    assert (before["enabled"], before["usable"], before["running"]) == (True, True, False)
    assert before["found"].endswith("/tendon-plugin-example")
    obs = act(hand, "example.reverse", text="abc", thought="hm", security_risk=1)
    assert (obs.type, obs.content) == ("mcp", "cba")
    assert obs.extras == {"name": "example.reverse", "arguments": {"text": "abc"}}
    after = about(hand, "example")
    assert after["running"] and after["memory"] > 0 and after["restarts"] == 0
    assert [a["name"] for a in after["actions"]] == ["reverse", "wait"]
    obs = act(hand, "example.reverse", txet="abc")
    assert obs.type == "error" and "TypeError" in obs.content
    obs = act(hand, "example.revert")
    assert obs.type == "error" and "there are: reverse, wait" in obs.content
    assert about(hand, "example")["pids"] == after["pids"]


def test_a_late_action_is_cancelled(plugged):
    act(plugged, "example.reverse", text="")
    pids = about(plugged, "example")["pids"]
    obs = act(plugged, "example.wait", timeout=0.5, seconds=600)
    assert obs.type == "error"
    assert obs.content == (
        "example.wait: timed out after 0.5 seconds: InterruptedError: stopped early"
    )
    assert act(plugged, "example.wait", seconds=0.01).content == "waited 0.01 s"
    assert about(plugged, "example")["pids"] == pids


def test_the_example_sees_a_cancel_that_comes_with_its_question():
    question = {"id": 1, "method": "execute", "params": {"action": "wait", "args": {"seconds": 600}}}
    cancel = {"method": "cancel", "params": {"id": 1}}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([ROOT / "examples/tendon-plugin-example"], **pipes) as program:
        program.stdin.write("".join(json.dumps(m) + "\n" for m in (question, cancel)).encode())
        program.stdin.flush()
        try:
            assert select.select([program.stdout], [], [], 30)[0], "it goes on waiting"
            assert b"InterruptedError: stopped early" in program.stdout.readline()
        finally:
            program.kill()


def test_interrupted_by_the_owner(plugged):
    interrupt = "/v1/plugins/example/interrupt"
    assert act(plugged, "example.reverse", text="ab").content == "ba"
    pids = about(plugged, "example")["pids"]
    assert plugged.client.post(interrupt, {}).status == 200  # nothing is under way
    replies = []
    thread = threading.Thread(
        target=lambda: replies.append(act(plugged, "example.wait", 60, seconds=600))
    )
    thread.start()
    until_over(plugged, "example", replies)
    thread.join(30)
    told = "example.wait: was interrupted: InterruptedError: stopped early"
    assert (replies[0].type, replies[0].content) == ("error", told)
    assert act(plugged, "example.wait", seconds=0.01).content == "waited 0.01 s"
    assert about(plugged, "example")["pids"] == pids


def test_one_that_does_not_heed_an_interrupt_is_ended(plugged):
    works(plugged, "hang")
    pids = about(plugged, "hang")["pids"]
    replies = []
    thread = hang(plugged, "hang", replies)
    assert plugged.client.post("/v1/plugins/hang/interrupt", {}).status == 200
    thread.join(30)
    assert Observation(replies[0].json).content == (
        "hang.hang: was interrupted, and its program was ended"
    )
    assert not os.path.exists(f"/proc/{pids[0]}")
    works(plugged, "hang")


# --- misbehaviour ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BREAKDOWNS)
def test_a_breakdown_is_told_and_survived(plugged, name):
    works(plugged, name)
    before = about(plugged, name)
    obs = act(plugged, f"{name}.{name}")
    assert (obs.type, obs.content) == (
        "error",
        f"{name}.{name}: tendon-plugin-{name} {BREAKDOWNS[name]}",
    )
    works(plugged, name)
    after = about(plugged, name)
    assert after["pids"] != before["pids"] and after["restarts"] == before["restarts"] + 1


def test_one_that_hangs_is_ended(plugged):
    works(plugged, "hang")
    pids = about(plugged, "hang")["pids"]
    obs = act(plugged, "hang.hang", timeout=0.3)
    assert obs.content == "hang.hang: timed out after 0.3 seconds, and its program was ended"
    assert not os.path.exists(f"/proc/{pids[0]}")
    works(plugged, "hang")


def unread(pid):
    """How many bytes wait in the input of a program."""
    with open(f"/proc/{pid}/fd/0", "rb") as pipe:
        count = fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(count, sys.byteorder)


def until_over(hand, name, replies):
    """Interrupts until the action of a plugin is over; one that comes too early interrupts nothing."""

    def over():
        assert hand.client.post(f"/v1/plugins/{name}/interrupt", {}).status == 200
        return replies

    wait_until(over, 30, "the action ended")
    return replies[0]


MUCH = "x" * (1 << 20)  # more than a pipe holds


def test_one_that_takes_no_input(plugged):
    start = "/v1/plugins/deaf/start"
    assert plugged.client.post(start, {}).json["running"]
    obs = act(plugged, "deaf.echo", timeout=0.3, text=MUCH)
    assert obs.content == "deaf.echo: timed out after 0.3 seconds, and its program was ended"
    assert plugged.client.post(start, {}).json["running"]
    replies = []
    thread = threading.Thread(target=lambda: replies.append(act(plugged, "deaf.echo", 60, text=MUCH)))
    thread.start()
    obs = until_over(plugged, "deaf", replies)
    assert obs.content == "deaf.echo: was interrupted, and its program was ended"
    thread.join(30)


def test_odd_answers(plugged):
    assert act(plugged, "rogue.chatter").content == "done"
    obs = act(plugged, "rogue.number")
    assert obs.content == "rogue.number: the plugin answered without a content"
    obs = act(plugged, "rogue.echo", text="x" * (9 << 20))
    assert obs.content == "rogue.echo: the arguments are longer than 8 MiB"
    text = "x" * (3 << 20)
    assert json.loads(act(plugged, "rogue.echo", text=text).content) == {"text": text}
    obs = act(plugged, "boast.echo")
    assert obs.content == "boast.echo: describe: expected at most 100 actions with a name each"
    works(plugged)


def test_killed_while_nobody_looked(plugged):
    works(plugged)
    (pid,) = about(plugged, "rogue")["pids"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not about(plugged, "rogue")["running"], 30, "the end is noticed")
    works(plugged)


def test_one_that_never_starts_is_not_tried_too_often(start):
    base = pathlib.Path(start.base())
    broken = base / "broken"
    broken.touch()
    hand = with_plugins(start, "rogue", env={"ROGUE_BREAK": str(broken)})
    assert act(hand, "rogue.echo").content == (
        "rogue.echo: tendon-plugin-rogue ended with exit code 3: I cannot go on"
    )

    def refused():
        return "times in a row" in act(hand, "rogue.echo", timeout=0.2).content

    wait_until(refused, 30, "it is not tried any more")
    broken.unlink()
    works(hand)


def test_its_children_end_with_it(plugged):
    pid = int(act(plugged, "rogue.child").content)
    assert plugged.client.post("/v1/plugins/rogue/stop", {}).status == 200
    wait_until(lambda: not alive(pid), 30, "the child is gone")


def leave(hand, name):
    return int(act(hand, f"{name}.leave", command=STRAY).content)


@pytest.mark.parametrize("crash", ["killed", "in a call"])
def test_what_left_its_family_ends_with_its_crash(plugged, crash):
    """At once, not with the next call; and nobody else's."""
    name = "rogue" if crash == "killed" else "crash"
    mine = [leave(plugged, name) for _ in range(3)]
    others = [leave(plugged, "hang"), int(plugged.client.run(f"sh -c '{STRAY}'").content)]
    before = about(plugged, name)
    if crash == "killed":
        os.kill(before["pids"][0], signal.SIGKILL)
    else:
        act(plugged, "crash.crash")
    wait_until(lambda: not any(map(alive, mine)), 30, "its strays are gone")
    assert all(map(alive, others))
    works(plugged, name)
    assert plugged.client.post("/v1/plugins/hang/stop", {}).status == 200
    wait_until(lambda: not alive(others[0]), 30, "the strays of the one that was stopped are gone")
    assert alive(others[1])
    os.kill(others[1], signal.SIGKILL)


# --- start and stop --------------------------------------------------------------------------------


def test_start_and_stop(plugged):
    post = plugged.client.post
    started = post("/v1/plugins/rogue/start?timeout=60", {})
    assert (started.status, started.json["running"]) == (200, True)
    assert post("/v1/plugins/rogue/start", {}).json["pids"] == started.json["pids"]
    stopped = post("/v1/plugins/rogue/stop", {})
    assert (stopped.status, stopped.json["running"], stopped.json["pids"]) == (200, False, [])
    assert post("/v1/plugins/rogue/stop", {}).status == 200
    assert post("/v1/plugins/rogue/start?timeout=x", {}).status == 422
    works(plugged)


def hang(hand, name, replies):
    """A thread with an action under way that nothing but force will end."""
    mark = hand.base / "hangs"
    mark.unlink(missing_ok=True)
    action = {"action": f"{name}.hang", "args": {"mark": str(mark)}, "timeout": 60}
    thread = threading.Thread(target=lambda: replies.append(hand.client.post_action(action)))
    thread.start()
    wait_until(mark.exists, 30, "the action is under way")
    return thread


def test_a_stop_ends_the_action_under_way(plugged):
    replies = []
    thread = hang(plugged, "stop", replies)
    assert plugged.client.post("/v1/plugins/stop/stop", {}).status == 200
    thread.join(30)
    assert Observation(replies[0].json).content == (
        "stop.hang: tendon-plugin-stop was ended by SIGKILL"
    )
    works(plugged, "stop")


@pytest.mark.parametrize(
    "how", [{"args": ["--start-plugins"]}, {"env": {"TENDON_START_PLUGINS": "1"}}]
)
def test_started_with_the_hand(start, how):
    hand = with_plugins(start, "example", **how)
    wait_until(lambda: about(hand, "example")["running"], 30, "it runs")


@pytest.mark.concurrent
def test_start_stop_and_use_at_once(plugged):
    answers = []

    def use(i):
        for _ in range(3):
            if i % 3 == 0:
                answers.append(plugged.client.post("/v1/plugins/example/stop", {}).status)
            elif i % 3 == 1:
                answers.append(plugged.client.post("/v1/plugins/example/start", {}).status)
            else:
                obs = act(plugged, "example.reverse", 60, text="ab")
                answers.append(200 if obs.content == "ba" or obs.type == "error" else obs)

    threads = [threading.Thread(target=use, args=(i,)) for i in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 27 and set(answers) <= {200, 502, 503}, answers
    assert act(plugged, "example.reverse", text="ab").content == "ba"


# --- the end ---------------------------------------------------------------------------------------


@pytest.mark.concurrent
def test_the_end_of_the_hand_answers_what_is_under_way(start):
    hand = with_plugins(start, "rogue")
    replies = []
    thread = hang(hand, "rogue", replies)
    hand.stop()
    thread.join(30)
    assert Observation(replies[0].json).content == "rogue.hang: the hand is ending"


@pytest.mark.concurrent
def test_the_end_of_the_hand_does_not_wait_for_who_takes_no_input(start):
    hand = with_plugins(start, "deaf")
    assert hand.client.post("/v1/plugins/deaf/start", {}).json["running"]
    replies = []
    action = {"action": "deaf.echo", "args": {"text": MUCH}, "timeout": 60}
    thread = threading.Thread(target=lambda: replies.append(hand.client.post_action(action)))
    thread.start()
    (pid,) = about(hand, "deaf")["pids"]
    wait_until(lambda: unread(pid), 30, "its pipe is full")
    hand.stop()
    thread.join(30)
    assert Observation(replies[0].json).content == "deaf.echo: the hand is ending"


def test_kill9_of_the_hand_leaves_nothing(start):
    hand = with_plugins(start, "example")
    act(hand, "example.reverse", text="x")
    (pid,) = about(hand, "example")["pids"]
    hand.kill9()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30, "the plugin is gone")
    start(base=hand.base)  # finds and removes the rest


@needs_root()
def test_runs_as_the_user(start):
    hand = with_plugins(
        start,
        "rogue",
        username="nobody",
        user_id=65534,
        env={"SU_TO_USER": "true"},
    )
    assert act(hand, "rogue.uid").content == "65534"

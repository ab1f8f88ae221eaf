"""/v1/sessions/{name}/terminal: people on the shell of an agent."""

import json
import re
import struct
import threading
import time

import pytest
import websocket

from client import busy, soft
from harness import needs_root, still_works, wait_until
from streams import Terminal

pytestmark = pytest.mark.concurrent


@pytest.fixture
def open_terminal(shell):
    """Terminals on the test's own session, with its prompt awaited."""
    opened = []

    def open_one(prompt=True, **kw):
        terminal = Terminal(shell, shell.name, **kw)
        opened.append(terminal)
        if prompt:
            terminal.prompt()
        return terminal

    yield open_one
    for terminal in opened:
        terminal.ws.close(timeout=1)


def state(client, name):
    return client.get(f"/v1/sessions/{name}").json


# --- a person ------------------------------------------------------------------------------------


def test_a_prompt_and_a_command(shell, open_terminal):
    t = open_terminal()
    assert t.hellos == [0] and state(shell, shell.name)["terminals"] == 1
    t.type("echo A$((40+2))\n")
    t.expect("\rA42\r\n")
    t.prompt()
    t.ws.close(timeout=1)
    wait_until(lambda: state(shell, shell.name)["terminals"] == 0, what="detached")


def test_line_editing(open_terminal):
    t = open_terminal()
    t.type("echo wrong\x15echo rigt\x1b[Dh\n")
    t.expect("\rright\r\n")


def test_it_is_the_shell_of_the_agent(shell, open_terminal):
    shell.ok("cd /usr; export SEEN=agent; local_too=yes")
    t = open_terminal()
    t.type("echo $SEEN $local_too $PWD; SEEN=person; cd /tmp\n")
    t.expect("\ragent yes /usr\r\n")
    t.prompt()
    assert shell.ok("echo $SEEN; pwd") == "person\n/tmp"


def test_a_full_screen_program(open_terminal):
    t = open_terminal()
    t.resize(40, 10)
    t.type("less /etc/services\n")
    t.expect("\x1b[?1049h")
    t.type("q")
    t.expect("\x1b[?1049l")
    t.prompt()


def test_interrupt_gives_a_new_prompt(open_terminal):
    t = open_terminal()
    t.type("sh -c \"echo beg''un; sleep 1000\"\n")
    t.expect("\rbegun\r\n")
    t.interrupt()
    t.type("echo on$((1))\n")
    t.expect("\ron1\r\n")


def test_interrupt_and_end_of_file_at_the_prompt(open_terminal):
    t = open_terminal()
    t.type("half a comm")
    t.expect("half a comm")
    t.interrupt()
    t.type("\x04")
    t.prompt()
    t.type("echo still $((6*7))\n")
    t.expect("\rstill 42\r\n")


def test_interrupting_a_flood(open_terminal):
    """The client does not read while it types: its Ctrl-C is heard all the same."""
    t = open_terminal()
    t.type("yes flood\n")
    t.expect("flood\r\nflood\r\n")
    time.sleep(0.1)
    t.type("\x03")
    t.type("echo cal''m\n")
    t.expect("\rcalm\r\n")


def test_a_long_paste(shell, open_terminal):
    t = open_terminal()
    text = "".join(f"line number {n}\n" for n in range(5000))
    t.type("stty -echo; cat >pasted; stty echo; echo sto''red\n")
    wait_until(lambda: (shell.dir / "pasted").exists(), what="cat runs")
    t.type(text + "\x04")
    t.expect("\rstored\r\n")
    assert (shell.dir / "pasted").read_text() == text
    assert t.errors == []


def test_a_terminal_with_sh(shared_hand, ws):
    """There is no line editing to offer, but one can watch."""
    client = shared_hand.client
    client.post("/v1/sessions", {"name": ws.name, "shell": "sh"})
    with Terminal(client, ws.name) as t:
        assert t.hello() == 0
        assert client.ok("echo seen", session=ws.name) == "seen"
        t.expect("seen\r\n")
    assert client.request("DELETE", f"/v1/sessions/{ws.name}").status == 204


# --- a person and an agent ----------------------------------------------------------------------


def test_an_action_ends_the_prompt_and_it_comes_back(shell, open_terminal):
    t = open_terminal()
    t.type("half of a li")
    t.expect("half of a li")
    began = time.monotonic()
    obs = shell.run("echo agent")
    assert (obs.exit, obs.content) == (0, "agent")
    assert time.monotonic() - began < 1
    t.expect("agent\r\n")
    t.prompt()
    t.type("echo person\n")
    t.expect("\rperson\r\n")


def test_no_echo_of_a_key_that_nobody_pressed(shell, open_terminal):
    for n in range(3):
        t = open_terminal(offset=2**62)
        t.type("half of a li")
        t.expect("half of a li")
        assert shell.ok(f"echo agent-{n}") == f"agent-{n}"  # ends the prompt
        t.expect(f"agent-{n}\r\n")
        t.prompt()
        t.ws.close(timeout=1)  # ends it as well
        wait_until(lambda: state(shell, shell.name)["terminals"] == 0, 30, "detached")
    t = open_terminal(offset=2**62)
    t.type("echo en''d\n")
    t.expect("\rend\r\n")
    t.prompt()
    whole = open_terminal(prompt=False)  # from the start
    assert b"^C" not in whole.expect("\rend\r\n")
    t.type("a key of her own\x03")
    t.expect("^C")


def test_opened_again_at_once(shell, open_terminal):
    """There is a prompt, although the one before is still being put away."""
    for _ in range(20):
        t = open_terminal(offset=2**62)
        t.ws.close(timeout=1)
        wait_until(lambda: state(shell, shell.name)["terminals"] == 0, 30, "it has left")


def test_who_comes_later_sees_the_prompt_that_waits(open_terminal):
    first = open_terminal()
    first.type("echo be''fore\n")
    first.expect("\rbefore\r\n")
    first.prompt()
    second = open_terminal(offset=2**62)
    second.type("half of a li")
    first.expect("half of a li")
    third = open_terminal(offset=2**62)
    third.expect("half of a li")
    assert b"before" not in second.seen + third.seen


def test_who_comes_later_sees_the_question_of_a_program(shell, open_terminal):
    open_terminal(offset=2**62).ws.close(timeout=1)
    obs = shell.run("printf 'before\\nGo on? '; read answer", timeout=1)
    assert obs.exit == -1
    t = open_terminal(prompt=False, offset=2**62)
    t.expect("Go on? ")
    assert shell.input("yes").exit == 0


def test_many_actions_while_a_person_has_the_prompt(shell, open_terminal):
    t = open_terminal()
    for n in range(20):
        assert shell.ok(f"echo number $(({n}+1000))") == f"number {n + 1000}"
    t.expect("number 1019\r\n")
    t.prompt()
    t.type("echo fine\n")
    t.expect("\rfine\r\n")


def test_an_action_while_the_program_of_a_person_runs_is_refused(shell, open_terminal):
    t = open_terminal()
    t.type("echo beg''un; read answer; echo got $answer\n")
    t.expect("\rbegun\r\n")
    obs = shell.run("echo hi", timeout=3)
    assert (obs.exit, obs.suffix, obs.content) == (-1, busy("echo hi"), "")
    t.type("yes\n")
    t.expect("\ngot yes\r\n")
    t.prompt()
    assert shell.ok("echo now") == "now"


def test_a_person_types_into_the_program_of_the_agent(shell, open_terminal):
    obs = shell.run("read word; echo agent got $word")
    assert obs.suffix == soft(1)
    t = open_terminal(prompt=False)
    t.hello()
    t.type("from a person\n")
    obs = shell.poll(timeout=5)
    assert obs.exit == 0 and obs.content.endswith("agent got from a person")
    t.prompt()


def test_a_person_interrupts_the_program_of_the_agent(shell, open_terminal):
    t = open_terminal()
    assert "begun" in shell.run("echo begun; sleep 60").content
    t.type("\x03")
    assert shell.poll(timeout=5).exit == 130
    t.prompt()


def test_what_a_person_does_is_not_in_the_output_of_the_agent(shell, open_terminal):
    t = open_terminal()
    t.type("echo secret of a person\n")
    t.expect("\rsecret of a person\r\n")
    t.prompt()
    obs = shell.run("echo mine")
    assert obs.content == "mine"
    ident = obs.meta["command_id"]
    assert shell.get(f"/v1/commands/{ident}/output").body == b"mine\r\n"


def test_attached_while_an_action_waits(shell, open_terminal):
    answers = []
    worker = threading.Thread(
        target=lambda: answers.append(shell.run("read x; echo done", blocking=True, timeout=30))
    )
    worker.start()
    wait_until(lambda: state(shell, shell.name)["running"], what="running")
    t = open_terminal(prompt=False)
    t.hello()
    t.type("\n")
    t.expect("done\r\n")
    worker.join(10)
    assert answers[0].exit == 0
    t.prompt()


# --- two people ----------------------------------------------------------------------------------


def test_two_people(shell, open_terminal):
    one, two = open_terminal(), open_terminal()
    assert state(shell, shell.name)["terminals"] == 2
    one.type("echo from-$((1))\n")
    for t in (one, two):
        t.expect("\rfrom-1\r\n")
        t.prompt()
    one.ws.close(timeout=1)
    wait_until(lambda: state(shell, shell.name)["terminals"] == 1, what="one left")
    two.type("echo from-$((2))\n")
    two.expect("\rfrom-2\r\n")
    two.prompt()  # until then the person's line runs, and an action is refused
    assert shell.ok("echo agent too") == "agent too"


def test_one_who_does_not_read_does_not_hold_the_other(shell, open_terminal):
    slow, quick = open_terminal(), open_terminal()
    quick.type("seq 1 300000; echo al''l\n")
    quick.expect("300000\r\nall\r\n")
    quick.prompt()
    assert shell.ok("echo agent") == "agent"
    # It was overtaken: a hello tells where it goes on.
    slow.expect("300000\r\nall\r\n")
    assert slow.hellos == sorted(slow.hellos)


# --- resize --------------------------------------------------------------------------------------


def test_resize(shell, open_terminal):
    t = open_terminal()
    t.resize(77, 33)
    t.type("stty size\n")
    t.expect("\r33 77\r\n")
    t.prompt()
    t.ws.close(timeout=1)
    wait_until(lambda: state(shell, shell.name)["terminals"] == 0, what="detached")
    assert shell.ok("stty size") == "1000 1000", "an agent's commands are as wide as before"


@pytest.mark.parametrize(
    "message",
    [
        "",
        "{",
        "{}",
        "[]",
        "null",
        '{"type":"resize"}',
        '{"type":"resize","columns":0,"rows":24}',
        '{"type":"resize","columns":80,"rows":-1}',
        '{"type":"resize","columns":4097,"rows":24}',
        '{"type":"resize","columns":"80","rows":24}',
        '{"type":"resize","columns":80.5,"rows":24}',
        '{"type":"other"}',
        '{"type":7}',
        "[" * 100,
        "echo hi\n",
    ],
)
def test_bad_messages_are_answered(open_terminal, message):
    t = open_terminal()
    t.send(message)
    assert "must be" in t.error()
    t.type("echo alive\n")
    t.expect("\ralive\r\n")


# --- resume --------------------------------------------------------------------------------------


def test_resume_misses_nothing(shell, open_terminal):
    whole = open_terminal()
    t = open_terminal()
    t.type("for i in 1 2 3; do echo part-$i; done\n")
    t.expect("part-2\r\n")
    offset = t.offset - len(t.seen)
    t.ws.sock.close()  # no goodbye
    whole.expect("part-3\r\n")
    again = open_terminal(prompt=False, offset=offset)
    assert again.hello() == offset
    again.expect("part-3\r\n")
    assert again.hellos == [offset]


def test_resume_from_the_start_and_from_the_end(shell, open_terminal):
    t = open_terminal()
    t.type("echo first\n")
    t.expect("\rfirst\r\n")
    t.prompt()
    late = open_terminal(prompt=False)
    assert late.hello() == 0
    late.expect("\rfirst\r\n")
    late.prompt()
    now = open_terminal(offset=2**62)
    assert now.hello() < t.offset, "from the prompt that waits"
    t.type("echo second\n")
    now.expect("\rsecond\r\n")
    assert b"first" not in now.seen


def test_resume_after_too_much(shell, open_terminal):
    t = open_terminal()
    t.ws.close(timeout=1)
    assert shell.run("seq 1 200000", timeout=30).exit == 0
    t = open_terminal(prompt=False, offset=5)
    assert t.hello() > 100000, "where what is kept begins"
    t.expect("200000\r\n")
    assert len(t.hellos) <= 2, "a second one when the prompt pushed out what was to be shown first"


@pytest.mark.parametrize("offset", ["-1", "x", "", "9" * 30])
def test_bad_offset(shared, offset):
    reply = shared.get(f"/v1/sessions/main/terminal?offset={offset}")
    assert (reply.status, reply.detail) == (422, "offset must be a whole number, 0 or more")


# --- the end -------------------------------------------------------------------------------------


def test_the_shell_exits(shell, open_terminal):
    one, two = open_terminal(), open_terminal()
    began = time.monotonic()
    one.type("exit 3\n")
    for t in (one, two):
        assert t.wait_closed() == (1000, "the shell has ended")
        assert t.exit_code == 3
    assert time.monotonic() - began < 5
    wait_until(lambda: state(shell, shell.name)["terminals"] == 0, what="detached")
    assert shell.ok("echo back") == "back"
    again = open_terminal()
    again.type("echo here\n")
    again.expect("\rhere\r\n")


def test_the_end_is_noticed_at_once_every_time(shell, open_terminal):
    """However it falls between two looks of the one who shows: the next beat would be 15 s later."""
    for round in range(20):
        t = open_terminal()
        began = time.monotonic()
        t.type(f"exit {round}\n")
        assert t.wait_closed() == (1000, "the shell has ended")
        assert t.exit_code == round
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("how", ["kill", "reset", "remove", "agent"])
def test_the_shell_is_ended_by_others(shell, open_terminal, how):
    t = open_terminal()
    if how == "agent":
        assert shell.run("exit 5").exit == 5
    elif how == "remove":
        assert shell.request("DELETE", f"/v1/sessions/{shell.name}").status == 204
        assert shell.post("/v1/sessions", {"name": shell.name}).status == 201
    else:
        assert shell.post(f"/v1/sessions/{shell.name}/{how}", {}).status == 200
    assert t.wait_closed() == (1000, "the shell has ended")


def test_a_client_that_leaves_in_the_middle(hand):
    client = hand.client
    client.ok("true")
    before = hand.descriptors()
    for n in range(5):
        t = Terminal(client)
        t.prompt()
        t.type("yes\n" if n == 4 else "echo x\n")  # the last: a flood leaves no prompt to see
        t.ws.sock.close()
    wait_until(lambda: state(client, "main")["terminals"] == 0, 10, "all detached")
    wait_until(lambda: hand.descriptors() <= before + 1, 10, "descriptors closed")
    client.post("/v1/sessions/main/kill", {})
    still_works(client)


def test_no_shell(start):
    hand = start()
    (hand.workspace / "sh").write_text('#!/bin/sh\nexec sh "$@"\n')
    (hand.workspace / "sh").chmod(0o755)
    program = str(hand.workspace / "sh")
    assert hand.client.post("/v1/sessions", {"name": "t", "shell": program}).status == 201
    hand.client.post("/v1/sessions/t/kill", {})
    (hand.workspace / "sh").unlink()
    t = Terminal(hand.client, "t")
    code, reason = t.wait_closed()
    assert code == 1011 and reason


# --- the protocol --------------------------------------------------------------------------------


def test_not_a_websocket(shared):
    for headers in (
        {},
        {"Connection": "Upgrade", "Upgrade": "websocket"},
        {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"},
        {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x" * 22 + "=="},
    ):
        assert shared.get("/v1/sessions/main/terminal", headers=headers).status == 400
    reply = shared.get("/v1/sessions/main/terminal", headers={"Sec-WebSocket-Version": "8"})
    assert reply.status == 426
    assert state(shared, "main")["terminals"] == 0


def test_unknown_session(shared):
    with pytest.raises(websocket.WebSocketBadStatusException) as error:
        Terminal(shared, "nobody")
    assert error.value.status_code == 404


def test_needs_the_key(start):
    hand = start(env={"SESSION_API_KEY": "secret"})
    with pytest.raises(websocket.WebSocketBadStatusException) as error:
        Terminal(hand.client)
    assert error.value.status_code == 403
    hand.client.headers["X-Session-API-Key"] = "secret"
    with Terminal(hand.client) as t:
        t.prompt()


@pytest.mark.parametrize(
    "frame, code",
    [
        (b"\x82\x01x", 1002),  # not masked
        (b"\xf2\x80\0\0\0\0", 1002),  # reserved bits
        (b"\x80\x80\0\0\0\0", 1002),  # a continuation of nothing
        (b"\x82\xff\0\0\0\0\xff\xff\xff\xff\0\0\0\0", 1009),  # too large
        (b"\x81\x81\0\0\0\0\xff", 1007),  # text that is none
    ],
)
def test_broken_frames(open_terminal, frame, code):
    t = open_terminal()
    t.ws.sock.sendall(frame)
    assert t.wait_closed()[0] == code


def test_a_message_in_drops(open_terminal):
    """Byte by byte, while the terminal goes on showing."""
    t = open_terminal()
    payload = b"echo drops\n"
    frame = b"\x82" + bytes([0x80 | len(payload)]) + b"\0\0\0\0" + payload
    for byte in frame:
        t.ws.sock.sendall(bytes([byte]))
        time.sleep(0.005)
    t.expect("\rdrops\r\n")


def test_ping_and_fragments(open_terminal):
    t = open_terminal()
    t.ws.ping(b"are you there")
    t.ws.send_frame(websocket.ABNF.create_frame(b"echo fr", websocket.ABNF.OPCODE_BINARY, fin=0))
    t.ws.ping(b"between")
    t.ws.send_frame(websocket.ABNF.create_frame(b"ag\n", websocket.ABNF.OPCODE_CONT))
    t.expect("\rfrag\r\n")


def test_close_is_answered(shell, open_terminal):
    t = open_terminal()
    t.ws.send(struct.pack("!H", 1000), websocket.ABNF.OPCODE_CLOSE)
    assert t.wait_closed()[0] == 1000
    wait_until(lambda: state(shell, shell.name)["terminals"] == 0, what="detached")


@pytest.mark.slow
def test_pings_also_while_output_flows(open_terminal):
    """A busy terminal is not taken for a dead client: 70 s are longer than its patience."""
    t = open_terminal(timeout=100)
    t.type("for i in $(seq 70); do echo tick; sleep 1; done; echo fin''ished\n")
    t.expect("\nfinished\r\n")
    assert t.pings >= 4


@pytest.mark.slow
def test_a_dead_client_is_noticed(shell, open_terminal):
    """It answers no ping."""
    t = open_terminal()
    began = time.monotonic()
    wait_until(lambda: state(shell, shell.name)["terminals"] == 0, 90, "given up")
    assert time.monotonic() - began > 30
    assert t.closed is None


@needs_root()
def test_the_terminal_belongs_to_the_user(start):
    hand = start(username="nobody", env={"SU_TO_USER": "true"})
    with Terminal(hand.client) as t:
        t.prompt()
        t.type("id -un; stat -c %U $(tty)\n")
        t.expect("\rnobody\r\n")
        t.expect("nobody\r\n")


def test_messages_are_what_they_say(open_terminal):
    """Text is JSON and nothing else; bytes are bytes."""
    t = open_terminal(prompt=False)
    opcode, data = t.ws.recv_data(control_frame=True)
    assert opcode == websocket.ABNF.OPCODE_TEXT
    assert json.loads(data) == {"type": "hello", "offset": 0}
    t.offset = 0
    assert re.match(rb"[\x00-\xff]", t.expect("$ "))

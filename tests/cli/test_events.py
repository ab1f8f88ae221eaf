"""tendon events and tendon replay: recorded sessions, shown and done again."""

import json
import os
import pty
import select
import shutil
import subprocess
import time
import zlib

import pytest


def line(number, event):
    """A line of a journal, as docs/internals/events.md describes it."""
    text = json.dumps({"id": number, **event}, separators=(",", ":"), ensure_ascii=False).encode()
    checked = b"%012d %s" % (number, text)
    return b"%08x %08x %s\n" % (len(text), zlib.crc32(checked), checked)


def action(command, **envelope):
    return {"timestamp": "2026-11-15T05:16:50.123456", "source": "agent", **envelope, "action": "run",
            "args": {"command": command}}


def observation(command, content, cause, exit_code=0, working_dir="/workspace"):
    return {"timestamp": "2026-11-15T05:16:51.5", "source": "agent", "cause": cause, "observation": "run",
            "content": content,
            "extras": {"command": command, "metadata": {"exit_code": exit_code, "pid": 77, "working_dir": working_dir}}}


@pytest.fixture
def env(tmp_path_factory):
    home = tmp_path_factory.mktemp("h")  # short: sockets lie below it
    return {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "TERM": "xterm"}


@pytest.fixture
def tendon(tendon_program, env, tmp_path):
    def run(*args):
        return subprocess.run([tendon_program, *args], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)

    return run


@pytest.fixture
def session(tmp_path):
    directory = tmp_path / "session"
    directory.mkdir()
    (directory / "events.log").write_bytes(
        line(0, action("make test")) + line(1, observation("make test", "one\ntwo", 0, 2)) + line(2, action("ls"))
    )
    return directory


TIMELINE = [
    "    0 05:16:50.123 > run                make test",
    "    1 05:16:51.5   < run of 0           exit 2: one ...",
    "    2 05:16:50.123 > run                ls",
]


def test_timeline(tendon, session):
    shown = tendon("events", f"{session}/")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == TIMELINE


def test_a_cell_that_raised_has_failed(tendon, session):
    cell = {"observation": "run_ipython", "content": "ZeroDivisionError", "extras": {"code": "1/0"}, "success": False}
    (session / "events.log").write_bytes(line(0, cell) + line(1, {**cell, "content": "1", "success": True}))
    shown = tendon("events", f"{session}/").stdout.splitlines()
    assert shown[0].endswith("failed: ZeroDivisionError") and shown[1].endswith(" 1")


def test_from_and_full(tendon, session):
    shown = tendon("events", f"{session}/", "--from", "1", "--full")
    assert shown.stdout.splitlines() == [TIMELINE[1].removesuffix(" ..."), " " * 40 + "two", TIMELINE[2]]


def test_json_is_the_events_themselves(tendon, session):
    shown = tendon("events", f"{session}/", "--json", "--from", "1")
    events = [json.loads(text) for text in shown.stdout.splitlines()]
    assert events == [{"id": 1, **observation("make test", "one\ntwo", 0, 2)}, {"id": 2, **action("ls")}]


def test_damaged_and_half_events_are_left_out(tendon, session):
    log = session / "events.log"
    log.write_bytes(log.read_bytes().replace(b"two", b"t\0o") + line(3, action("pwd"))[:-9])
    shown = tendon("events", f"{session}/")
    assert shown.returncode == 0
    assert shown.stdout.splitlines() == [TIMELINE[0], TIMELINE[2]]
    assert "1 damaged" in shown.stderr


def test_output_cannot_speak_to_the_terminal(tendon, session):
    (session / "events.log").write_bytes(line(0, observation("x", "a\x1b]0;title\x07b\x9bc", 0)))
    shown = tendon("events", f"{session}/", "--full")
    assert "title" in shown.stdout
    assert not any(ord(c) < 0x20 and c != "\n" or 0x7F <= ord(c) < 0xA0 for c in shown.stdout)


def test_colours_on_a_terminal_only(tendon_program, env, session):
    main, side = pty.openpty()
    process = subprocess.Popen([tendon_program, "events", f"{session}/"], env=env, stdin=side, stdout=side, stderr=side)
    os.close(side)
    shown = b""
    try:
        while data := os.read(main, 65536):
            shown += data
    except OSError:  # the other side is closed
        pass
    os.close(main)
    assert process.wait(30) == 0
    assert b"\x1b[" in shown and b"make test" in shown


def read_line(process, deadline=30):
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        if select.select([process.stdout], [], [], 1)[0]:
            return process.stdout.readline()
    raise AssertionError("nothing came")


def test_follow(tendon_program, env, session):
    log = session / "events.log"
    with subprocess.Popen([tendon_program, "events", f"{session}/", "--follow", "--from", "2"], env=env, bufsize=0,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert b"ls" in read_line(process)
            for number, command in enumerate(("three", "four"), 3):
                with log.open("ab", buffering=0) as file:
                    text = line(number, action(command))
                    file.write(text[:20])  # half of it is not shown
                    file.write(text[20:])
                assert command.encode() in read_line(process)
            shutil.rmtree(session)
            assert process.wait(30) == 0
            assert process.stderr.read() == b""
        finally:
            process.kill()


def write_openhands(directory, events):
    (directory / "events").mkdir(parents=True)
    for event in events:
        (directory / "events" / f"{event['id']}.json").write_text(json.dumps(event, indent=1))


def test_a_session_of_openhands(tendon, tmp_path):
    write_openhands(tmp_path / "oh", [{"id": n, **action(f"echo {n}")} for n in range(12)])
    shown = tendon("events", f"{tmp_path}/oh/")
    assert [text.split()[-1] for text in shown.stdout.splitlines()] == [str(n) for n in range(12)]


def test_no_such_place(tendon, tmp_path):
    shown = tendon("events", f"{tmp_path}/nowhere/")
    assert shown.returncode != 0
    assert "nowhere" in shown.stderr


# --- replay


RECORDING = [
    {"id": 0, **action("pwd")},
    {"id": 1, **observation("pwd", "/workspace", 0)},
    {"id": 2, **action("echo a > f; cat f; mktemp -u /tmp/tmp.XXXXXXXXXX")},
    {"id": 3, **observation("echo a > f; cat f; mktemp -u /tmp/tmp.XXXXXXXXXX", "a\n/tmp/tmp.abcdefghij", 2)},
    {"id": 4, **action("false")},
    {"id": 5, **observation("false", "", 4, 1)},
]


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(RECORDING))
    return path


def nothing_is_left(tendon, env):
    """No sandbox in the store, no directory of one."""
    directories = list((os.scandir(f"{env['XDG_STATE_HOME']}/tendon/sandbox")))
    return json.loads(tendon("ls", "--json").stdout) == [] and not directories


def test_replay_same(tendon, env, recording):
    done = tendon("replay", "recording.json", "--runtime", "local", "--quiet")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert [text.split()[0] for text in done.stdout.splitlines()] == ["same", "same", "same", "3"]
    assert nothing_is_left(tendon, env)


def test_replay_different(tendon, env, recording):
    recording.write_text(json.dumps(RECORDING).replace('"exit_code": 1', '"exit_code": 3'))
    done = tendon("replay", str(recording), "--runtime", "local")
    assert done.returncode == 1, done.stderr
    assert "-metadata.exit_code: 3" in done.stdout and "+metadata.exit_code: 1" in done.stdout
    assert done.stdout.endswith("2 same, 1 different\n")
    assert nothing_is_left(tendon, env)


def test_replay_json(tendon, recording):
    recording.write_text("".join(json.dumps(event) + "\n" for event in RECORDING))
    done = tendon("replay", str(recording), "--runtime", "local", "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert (result["same"], result["different"], result["skipped"], result["unanswered"]) == (3, 0, 0, 0)
    assert [step["outcome"] for step in result["steps"]] == ["same"] * 3
    assert result["steps"][1]["observation"]["content"].startswith("a\n")


def test_replay_of_a_directory(tendon, tmp_path):
    write_openhands(tmp_path / "oh", RECORDING)
    done = tendon("replay", f"{tmp_path}/oh", "--runtime", "local")
    assert done.returncode == 0, done.stderr + done.stdout


def test_replay_does_not_run_what_was_hidden(tendon, recording, tmp_path):
    recording.write_text(json.dumps([{"id": 0, **action(f"touch {tmp_path}/made; cat <secret_hidden>")}]))
    done = tendon("replay", str(recording), "--runtime", "local")
    assert done.returncode == 0
    assert "skipped" in done.stdout
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}\nb'])
def test_replay_of_no_recording(tendon, recording, text):
    recording.write_text(text)
    done = tendon("replay", str(recording), "--runtime", "local")
    assert done.returncode not in (0, 1)
    assert "recording.json" in done.stderr

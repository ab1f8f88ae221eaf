"""An editor that crashes again and again: a program that really ends as soon as it is started, until it is mended."""

import concurrent.futures
import itertools
import time

import pytest

from editors import FAKE, Editor
from harness import Factory, wait_until

# Notes when it was started; with the file `works` beside that it is an editor.
PROGRAM = """#!/bin/sh
date +%s.%N >>"$FAKE_NOTES/tries"
test -e "$FAKE_NOTES/works" && exec {fake} "$@"
echo 'no disk to work on' >&2
exit 3
"""
PAUSES = [0, 0.1, 0.3, 0.7, 1.5, 3.1, 5, 5]  # seconds before the second start, the third and so on
TOLD = "the editor ended with exit code 3: no disk to work on"
PATIENCE = 60  # for one answer: two pauses and two starts on a busy machine


class Crashing(Editor):
    def __init__(self, factory, tmp_path):
        path = tmp_path / "broken"
        path.write_text(PROGRAM.format(fake=FAKE))
        path.chmod(0o755)
        super().__init__(factory, path)

    def tries(self):
        path = self.notes / "tries"
        return [float(line) for line in path.read_text().split()] if path.exists() else []

    def owner_asks(self):
        return self.client.post("/v1/vscode", {}, timeout=PATIENCE)

    def fail(self, times):
        """Asks for it; every time it is started twice."""
        for _ in range(times):
            reply = self.owner_asks()
            assert reply.status == 502 and TOLD in reply.detail, reply

    def mend(self):
        (self.notes / "works").touch()


@pytest.fixture
def editor(tmp_path):
    tmp_path.chmod(0o755)
    factory = Factory()
    yield Crashing(factory, tmp_path)
    factory.finish()


@pytest.mark.timeout(240)
def test_it_is_started_again_ever_later_but_not_later_than_five_seconds(editor):
    editor.wait_token()
    assert editor.tries() == [] and editor.status["failures"] == 0 and editor.status["last_error"] is None
    editor.fail(len(PAUSES) // 2)
    tries = editor.tries()
    assert len(tries) == len(PAUSES), "two starts for each who asked"
    gaps = [later - earlier for earlier, later in itertools.pairwise(tries)]
    for gap, pause in zip(gaps, PAUSES):
        assert gap >= pause - 0.05, (gaps, PAUSES)  # the clock of the notes is not that of the hand
    assert gaps[-1] < 12.7, gaps  # what doubling without end would make of it
    status = editor.status
    assert (status["running"], status["pids"], status["failures"]) == (False, [], len(PAUSES))
    assert status["restarts"] == len(PAUSES) - 1 and status["last_error"] == TOLD
    # Mended, it is used by the next who asks, who only waits for the pause.
    editor.mend()
    response = editor.ask("GET", "/x")
    assert response.status == 200 and len(editor.tries()) == len(PAUSES) + 1
    assert editor.tries()[-1] - tries[-1] >= 5 - 0.05
    status = editor.status
    assert status["running"] is True and status["restarts"] == len(PAUSES)
    assert editor.owner_asks().status == 200 and len(editor.tries()) == len(PAUSES) + 1


@pytest.mark.timeout(180)
def test_all_who_wait_are_told_at_once(editor):
    """A page asks for many things: they share the starts, and the pauses before them."""
    editor.enter()
    editor.fail(2)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: editor.ask("GET", "/x"), range(8)))
    assert all(answer.status == 502 and TOLD.encode() in answer.data for answer in answers), answers
    # Each would have waited for two more starts of its own: 16, most of them after 5 seconds.
    assert time.monotonic() - began < 60
    assert 6 <= len(editor.tries()) <= 4 + 4, editor.tries()


@pytest.mark.timeout(180)
def test_the_owner_ends_the_pause_and_the_row(editor):
    editor.wait_token()
    editor.fail(4)  # the next pause is the longest
    before = len(editor.tries())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(editor.owner_asks)
        wait_until(lambda: editor.status["starting"], 30, "the pause")
        status = editor.client.post("/v1/plugins/vscode/stop", {}).json
        reply = asked.result(30)
    assert reply.status == 410 and "the editor is being stopped" in reply.detail, reply
    assert len(editor.tries()) == before, "nothing was started for it"
    assert (status["starting"], status["failures"], status["last_error"]) == (False, 0, None)
    assert editor.client.post("/v1/plugins/vscode/start", {}).status == 200
    assert len(editor.tries()) == before, "nobody has visited it yet"
    editor.fail(1)
    assert len(editor.tries()) == before + 2 and editor.status["failures"] == 2
    editor.mend()
    assert editor.ask("GET", "/x").status == 200

"""/v1/files/watch: changes as they happen, in a directory and below it."""

import os
import shutil
import threading
import time

import pytest

from harness import needs_root, still_works, wait_until
from streams import Events, url

pytestmark = pytest.mark.concurrent


def watch(client, path, **query):
    events = Events(client, "/v1/files/watch", path=path, **query)
    seen = events.until("watching")
    assert seen[-1].path.rstrip("/") == os.path.normpath(path).rstrip("/")
    return events


def collect(events, end):
    """What is told up to the creation of the file `end`, which the caller makes last."""
    end.touch()
    return [(e.kind, e.path, e.data["directory"]) for e in events.until("created", str(end))][:-1]


def test_files_come_and_go(shared, ws):
    with watch(shared, ws) as events:
        (ws / "a").write_text("x")
        os.chmod(ws / "a", 0o600)
        os.rename(ws / "a", ws / "b")
        os.unlink(ws / "b")
        (ws / "d").mkdir()
        got = collect(events, ws / "end")
    kinds = [(kind, os.path.basename(path), directory) for kind, path, directory in got]
    assert kinds == [
        ("created", "a", False),
        ("written", "a", False),
        ("attributes", "a", False),
        ("moved_from", "a", False),
        ("moved_to", "b", False),
        ("deleted", "b", False),
        ("created", "d", True),
    ]


def test_what_is_put_was_written(shared, ws):
    """A new file and one that is replaced come whole under their names; who waits for writers to end hears of them all the same."""
    with watch(shared, ws) as events:
        for status in (201, 204):
            assert shared.request("PUT", url("/v1/files/content", path=ws / "f"), b"x").status == status
            told = [event.kind for event in events.until("written", str(ws / "f"))]
            assert ("created" if status == 201 else "moved_to") in told, told


def test_both_halves_of_a_move_have_one_cookie(shared, ws):
    (ws / "a").touch()
    with watch(shared, ws) as events:
        os.rename(ws / "a", ws / "b")
        old, new = events.next(), events.next()
    assert (old.kind, new.kind) == ("moved_from", "moved_to")
    assert old.data["cookie"] == new.data["cookie"] > 0


def test_a_single_file(shared, ws):
    path = ws / "f"
    path.write_text("x")
    (ws / "other").touch()
    with watch(shared, path) as events:
        (ws / "other").write_text("not told")
        path.write_text("y")
        event = events.next()
        assert (event.kind, event.path) == ("written", str(path))
        os.unlink(path)
        rest = events.rest()
    assert rest[-1].kind == "gone" and rest[-1].path == str(path)


def test_not_recursive(shared, ws):
    (ws / "sub").mkdir()
    with watch(shared, ws) as events:
        (ws / "sub" / "below").touch()
        assert collect(events, ws / "end") == []


def test_recursive(shared, ws):
    (ws / "a" / "b").mkdir(parents=True)
    with watch(shared, ws, recursive=1) as events:
        (ws / "a" / "b" / "f").write_text("x")
        got = collect(events, ws / "end")
    assert ("written", str(ws / "a/b/f"), False) in got


def test_recursive_in_new_directories(shared, ws):
    """However fast they are filled: nothing in them is missed."""
    with watch(shared, ws, recursive="true") as events:
        for n in range(20):
            deep = ws / f"n{n}" / "x" / "y"
            deep.mkdir(parents=True)
            (deep / "f").write_text("x")
        missing = {str(ws / f"n{n}" / p) for n in range(20) for p in ("", "x", "x/y", "x/y/f")}
        while missing:
            event = events.next()
            if event.kind == "created":
                missing.discard(event.path)
                missing.discard(event.path + "/")
            missing = {m.rstrip("/") for m in missing}
        (ws / "n3" / "x" / "y" / "later").write_text("x")
        events.until("written", str(ws / "n3/x/y/later"))


def test_recursive_follows_moved_directories(shared, ws):
    (ws / "tree" / "old" / "sub").mkdir(parents=True)
    (ws / "out").mkdir()
    with watch(shared, ws / "tree", recursive=1) as events:
        os.rename(ws / "tree/old", ws / "tree/new")
        events.until("moved_to", str(ws / "tree/new"))
        (ws / "tree/new/sub/f").touch()
        seen = events.until("created", str(ws / "tree/new/sub/f"))
        assert not [e for e in seen if "/old" in e.path]
        os.rename(ws / "tree/new", ws / "out/away")
        events.until("moved_from", str(ws / "tree/new"))
        (ws / "out/away/sub/not-told").touch()
        os.rename(ws / "out/away", ws / "tree/back")
        seen = events.until("created", str(ws / "tree/back/sub/not-told"))
        assert not [e for e in seen if e.path.startswith(str(ws / "tree/new"))]
        (ws / "tree/back/sub/g").touch()
        events.until("created", str(ws / "tree/back/sub/g"))


def test_recursive_does_not_follow_links(shared, ws):
    (ws / "tree").mkdir()
    (ws / "elsewhere").mkdir()
    os.symlink(ws / "elsewhere", ws / "tree" / "link")
    os.symlink(".", ws / "tree" / "loop")
    with watch(shared, ws / "tree", recursive=1) as events:
        (ws / "elsewhere" / "f").touch()
        assert collect(events, ws / "tree" / "end") == []


def test_through_a_link(shared, ws):
    (ws / "real" / "sub").mkdir(parents=True)
    os.symlink("real", ws / "link")
    with watch(shared, ws / "link", recursive=1) as events:
        (ws / "real" / "sub" / "f").touch()
        assert events.until("created", str(ws / "link" / "sub" / "f"))


def test_the_end_of_the_directory(shared, ws):
    (ws / "d" / "sub").mkdir(parents=True)
    for end in (shutil.rmtree, lambda path: os.rename(path, ws / "moved")):
        (ws / "d" / "sub").mkdir(parents=True, exist_ok=True)
        with watch(shared, ws / "d", recursive=1) as events:
            end(ws / "d")
            rest = events.rest()
        assert rest[-1].kind == "gone" and rest[-1].path == str(ws / "d")
        assert [e.kind for e in rest].count("gone") == 1


def test_many_directories_come_and_go(shared, ws):
    """Numbers of watches are not used again: that there are few at a time is no limit on them."""
    with watch(shared, ws, recursive=1) as events:
        for batch in range(9):
            for _ in range(1000):
                os.mkdir(ws / "d")
                os.rmdir(ws / "d")
            (ws / f"batch-{batch}").touch()
            events.until("created", str(ws / f"batch-{batch}"))
        (ws / "last").mkdir()
        events.until("created", str(ws / "last"))
        (ws / "last" / "f").touch()
        events.until("created", str(ws / "last" / "f"))


def test_too_many_directories_are_told(hand):
    tree = hand.workspace
    for n in range(91):
        for m in range(91):
            os.makedirs(tree / f"a{n}" / f"b{m}")
    events = Events(hand.client, "/v1/files/watch", path=tree, recursive=1, timeout=30)
    seen = events.until("watching")
    skipped = [e for e in seen if e.kind == "skipped"]
    assert 91 + 91 * 91 + 1 - 8192 == len(skipped)
    assert all(e.data["directory"] for e in skipped)
    events.close()
    still_works(hand.client)


def test_overflow(hand):
    """A client that does not read: the loss is told, and directories made meanwhile are watched."""
    ws = hand.workspace
    with open("/proc/sys/fs/inotify/max_queued_events") as f:
        queue = int(f.read())
    with watch(hand.client, ws, recursive=1) as events:
        for _ in range(queue + 60000):
            os.utime(ws, ns=(1, 1))
            os.utime(ws, ns=(2, 2))
            os.close(os.open(ws / "f", os.O_CREAT | os.O_WRONLY))
        (ws / "new").mkdir()
        seen = events.until("overflow")
        assert seen[-1].path == str(ws)
        time.sleep(0.1)
        (ws / "new" / "f").touch()
        events.until("created", str(ws / "new" / "f"))


def test_a_client_that_leaves_is_noticed(hand):
    hand.client.ok("true")
    before = hand.descriptors()
    streams = [watch(hand.client, hand.workspace) for _ in range(5)]
    assert hand.descriptors() > before + 5
    for stream in streams:
        stream.close()
    wait_until(lambda: hand.descriptors() <= before, 5, "descriptors closed")


def test_head(shared, ws):
    reply = shared.request("HEAD", url("/v1/files/watch", path=ws), timeout=5)
    assert (reply.status, reply.body) == (200, b"")


def test_bad_flag(shared, ws):
    reply = shared.get(url("/v1/files/watch", path=ws, recursive="deep"))
    assert (reply.status, reply.detail) == (422, "recursive must be true or false")


@pytest.mark.slow
def test_heartbeat(shared, ws):
    with watch(shared, ws, timeout=40) as events:

        def later():
            wait_until(lambda: time.monotonic() > began + 17, 30)
            (ws / "f").touch()

        began = time.monotonic()
        worker = threading.Thread(target=later)
        worker.start()
        events.until("created")
        worker.join()
        assert events.beats == 1


@needs_root()
def test_closed_directories_are_skipped(start):
    hand = start(username="nobody", env={"SU_TO_USER": "true"})
    closed = hand.workspace / "closed"
    closed.mkdir(mode=0o700)
    with Events(hand.client, "/v1/files/watch", path=hand.workspace, recursive=1) as events:
        seen = events.until("watching")
        assert [(e.kind, e.path) for e in seen[:-1]] == [("skipped", str(closed))]
        (closed / "secret").touch()
        os.mkdir(hand.workspace / "closed2", 0o700)
        seen = events.until("skipped", str(hand.workspace / "closed2"))
        assert not [e for e in seen if "secret" in e.path]

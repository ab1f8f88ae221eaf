"""A limit that a command meets is named in its observation, once, however the action came to the service."""

import re
import threading

import pytest

from native import at, make, run_action
from services import eventually

REPORT = re.compile(r"\n\[The sandbox reports: ([^]]*)\]")
MEMORY_BOMB = "head -c 300m /dev/zero | tail >/dev/null"
NO_MEMORY = r"out of memory: \d+ process(es were| was) killed \(limit 64 MiB\)"
# A shell that gives up at once; what it leaves is ended by builtins, which need no process, before the hand wants a thread, which
# it would not get either.
FORK_BOMB = """sh -c 'for i in 1 2 3 4 5 6; do for k in 1 2 3 4 5; do sleep 60 & done; done' 2>/dev/null; \
for p in /proc/[0-9]*; do read -r n <$p/comm && [ "$n" = sleep ] && kill -KILL ${p#/proc/}; done 2>&-; false"""
WAYS = {
    "native": lambda box: at(box, "/actions"),
    "hand": lambda box: at(box, "/hand/execute_action"),
    "openhands": lambda box: f"/{box['id']}/execute_action",
}
LIMITS = {
    "memory": ({"memory": "64m"}, MEMORY_BOMB, NO_MEMORY),
    "processes": ({"pids": 24}, FORK_BOMB, r"process limit of 24 reached( \(\d+ times?\))?"),
    "disk": ({"disk": "8m"}, "head -c 20M /dev/zero >/workspace/big", r"disk of 8 MiB is full"),
}


def act(client, path, command, headers=None, session=None):
    body = run_action(command, timeout=50)
    if session:
        body["action"]["args"]["session"] = session
    return client.post(path, body, headers=headers).ok()


def told(observation):
    """Exit code and reports of an observation."""
    metadata = observation["extras"]["metadata"]
    return metadata["exit_code"], REPORT.findall(metadata["suffix"])


def told_of(client, path, command, **more):
    return told(act(client, path, command, **more).json)


def journaled(client, box):
    """The observations of its journal."""
    return [e for e in client.get(at(box, "/events")).ok().json["events"] if "observation" in e]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_is_named_once(acme, limit, way):
    wish, bomb, words = LIMITS[limit]
    box = make(acme, **wish)
    path = WAYS[way](box)
    assert told_of(acme, path, "false") == (1, [])
    answer = act(acme, path, bomb).json
    code, reports = told(answer)
    assert code != 0 and len(reports) == 1 and re.fullmatch(words, reports[0]), answer
    assert answer["extras"]["metadata"]["suffix"].endswith("]")
    assert journaled(acme, box)[-1]["extras"]["metadata"]["suffix"] == answer["extras"]["metadata"]["suffix"]
    assert told_of(acme, path, "true") == (0, [])
    assert told_of(acme, path, "false") == (1, []), "told once"
    acme.delete(at(box)).ok(204)


def test_only_what_is_new_is_named(acme):
    """What was told before stays in the reason of the sandbox, not in the next observation."""
    box = make(acme, memory="64m", disk="8m")
    path = at(box, "/actions")
    (code, (memory,)) = told_of(acme, path, MEMORY_BOMB)
    assert re.fullmatch(NO_MEMORY, memory)
    assert told_of(acme, path, "head -c 20M /dev/zero >/workspace/big")[1] == ["disk of 8 MiB is full"]
    assert acme.get(at(box)).ok().json["reason"] == f"{memory}; disk of 8 MiB is full"
    assert told_of(acme, path, "rm /workspace/big; false") == (1, [])
    assert told_of(acme, path, "head -c 20M /dev/zero >/workspace/big")[1] == ["disk of 8 MiB is full"], "it is so again"
    acme.delete(at(box)).ok(204)


def test_a_sandbox_that_was_started_anew_names_it_again(acme):
    box = make(acme, memory="64m")
    path = at(box, "/actions")
    first = told_of(acme, path, MEMORY_BOMB)[1]
    acme.post(at(box, "/stop")).ok()
    acme.post(at(box, "/resume")).ok()
    assert told_of(acme, path, "false") == (1, [])
    assert len(first) == 1 and len(told_of(acme, path, MEMORY_BOMB)[1]) == 1
    acme.delete(at(box)).ok(204)


def test_an_error_names_it_in_its_content(acme):
    """No run observation has room for it: a write to a disk that is full."""
    box = make(acme, disk="8m")
    act(acme, at(box, "/actions"), "head -c 20M /dev/zero >/workspace/big; true")  # nobody looks when nothing failed
    write = {"action": {"action": "write", "args": {"path": "/workspace/more", "content": "x" * (1 << 20)}}}
    answer = acme.post(at(box, "/actions"), write).ok().json
    assert answer["observation"] == "error", answer["observation"]
    assert REPORT.findall(answer["content"]) == ["disk of 8 MiB is full"], answer["content"]
    assert journaled(acme, box)[-1]["content"] == answer["content"]
    acme.delete(at(box)).ok(204)


def test_whoever_asks_again_is_told_the_same(make_service, jail_works):
    """The hand knows nothing of it: the service does, and the next one from the journal."""
    service = make_service().start()
    admin = service.client()
    box = make(admin, memory="64m")
    path, key = at(box, "/actions"), {"Idempotency-Key": "bomb"}
    first = act(admin, path, MEMORY_BOMB, headers=key)
    assert len(told(first.json)[1]) == 1 and "idempotency-replayed" not in first.headers
    for restart in (False, True):
        if restart:
            service.restart(kill=True)
            admin = service.client()
        again = act(admin, path, MEMORY_BOMB, headers=key)
        assert again.body == first.body and again.headers["idempotency-replayed"] == "true"
    assert told_of(admin, path, "false") == (1, []), "told once, also over a restart"
    assert len(journaled(admin, box)) == 2
    admin.post(at(box, "/stop")).ok()
    admin.post(at(box, "/resume")).ok()  # its new hand knows nothing of the action: the journal does
    assert told(act(admin, path, MEMORY_BOMB, headers=key).json) == told(first.json)
    admin.delete(at(box)).ok(204)


def test_of_many_that_fail_at_once_one_names_it(service, acme):
    box = make(acme, memory="64m")
    wait = "touch /tmp/waits.$$; until [ -e /tmp/go ]; do sleep 0.02; done; false"
    seen = []

    def fail(number):
        client = service.client(acme.key)
        seen.append(told_of(client, at(box, "/actions"), wait, session=f"s{number}"))

    threads = [threading.Thread(target=fail, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    count = "ls /tmp/waits.* 2>/dev/null | wc -l"
    path = at(box, "/actions")
    eventually(lambda: act(acme, path, count).json["content"] == "4", "all of them wait")
    seen.append(told_of(acme, path, f"{MEMORY_BOMB}; touch /tmp/go; false"))
    for thread in threads:
        thread.join()
    assert [code for code, _ in seen] == [1] * 5
    assert len([report for _, reports in seen for report in reports]) == 1, seen
    acme.delete(at(box)).ok(204)

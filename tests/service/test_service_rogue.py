"""A hand that was taken over answers the service: whatever it says, the service lives, its memory stays small, its other
clients do not notice, and a client is told nothing that the hand may not tell it."""

import http.client
import pathlib
import socket
import sys
import threading

import pytest

from native import at, run_action
from rogue_hand import EVIL, FRAMES
from services import Service, eventually, example_runtime, measured, memory

HERE = pathlib.Path(__file__).parent
SMALL = 300 << 20  # what the service may take in memory, whatever comes

# What no client can be given any of.
REFUSED = """endless-headers endless-line endless-status two-lengths negative-length length-list length-and-chunks
strange-coding interim-storm unasked-101 half-status half-head nothing no-http bare-cr bare-lf nul folded
space-before-colon""".split()
# What begins well: the client sees that it does not end well.
CUT = """endless-size endless-extension endless-trailers bad-chunk negative-chunk huge-chunk chunk-without-end
short""".split()
ENDLESS = "endless-chunks endless-body endless-event".split()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rogue")
    line = '        command += ["--no-enable-browser"]\n'
    more = f"        command = [{sys.executable!r}, {str(HERE / 'rogue_hand.py')!r}] + command[1:]\n"
    service = measured(Service(folder, runtime="rogue", env=example_runtime(folder, "rogue", line, more))).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def box(alice):
    return alice.post("/v1/sandboxes", {"plugins": []}).ok(201).json


@pytest.fixture(autouse=True)
def well(service, alice, box):
    """After each test: it is as before."""
    yield
    assert service.stranger().get("/healthz").status == 200
    assert alice.get(at(box, "/hand/alive")).ok().json == {"status": "ok"}
    assert memory(service, "VmRSS") < SMALL


def test_the_lists_are_whole():
    through_actions = {"forged-large", "forged-odd", "huge-answer", "many-values", "announced", "no-json", "no-observation", "deep"}
    alone = {"long", "ours", "redirect", "status-999", "status-000"}
    assert {*REFUSED, *CUT, *ENDLESS} | through_actions | alone == set(EVIL)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(alice, box, name):
    reply = alice.get(at(box, f"/hand/evil/{name}"))
    assert reply.status == 502 and reply.headers["Content-Type"] == "application/problem+json", reply
    assert "Set-Cookie" not in reply.headers and "X-A" not in reply.headers


@pytest.mark.parametrize("name", CUT)
def test_cut(alice, box, name):
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response = alice.send("GET", at(box, f"/hand/evil/{name}"))
        assert response.status == 200
        response.read()
    alice.close()


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_is_not_gathered(service, alice, box, name):
    response = alice.send("GET", at(box, f"/hand/evil/{name}"))
    assert response.status == 200
    for _ in range(640):
        assert len(response.read(1 << 18)) == 1 << 18
    assert memory(service, "VmRSS") < SMALL
    response.close()
    alice.close()


def test_what_comes_behind_an_answer_is_no_answer(service, alice, box):
    for _ in range(10):
        reply = alice.get(at(box, "/hand/evil/long")).ok()
        assert reply.body == b"hello" and "Set-Cookie" not in reply.headers
        assert alice.get(at(box, "/hand/alive")).ok().json == {"status": "ok"}


def test_it_says_nothing_about_the_service(alice, box):
    reply = alice.get(at(box, "/hand/evil/ours")).ok()
    for name in (
        "Set-Cookie Location Refresh WWW-Authenticate Clear-Site-Data Service-Worker-Allowed Strict-Transport-Security "
        "Alt-Svc"
    ).split():
        assert name not in reply.headers, name
    assert reply.headers["X-Request-Id"] != "not-yours"
    assert "sandbox" in reply.headers.get_all("Content-Security-Policy"), "beside its own, which only adds"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    reply = alice.get(at(box, "/hand/evil/redirect"))
    assert "Location" not in reply.headers


@pytest.mark.parametrize("name", ["status-999", "status-000"])
def test_strange_status(alice, box, name):
    assert alice.get(at(box, f"/hand/evil/{name}")).status in (500, 502, 999)


# --- answers to actions ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/sandboxes/{}/actions", "/{}/execute_action"])
@pytest.mark.parametrize("name", ["huge-answer", "announced", "redirect", *REFUSED, "endless-body", "endless-chunks"])
def test_answer_to_an_action(service, alice, box, path, name):
    peak = memory(service)
    reply = alice.post(path.format(box["id"]), run_action(name))
    assert reply.status in (502, 503), reply
    assert "Set-Cookie" not in reply.headers
    assert memory(service) < max(peak, SMALL), "it was not gathered"


@pytest.mark.parametrize("path", ["/v1/sandboxes/{}/actions", "/{}/execute_action"])
def test_no_hand_has_a_verdict(alice, box, path):
    got = alice.post(path.format(box["id"]), run_action("what it likes")).ok().json
    assert got["content"] == "what it likes" and "verdict" not in got and "verdict" not in got["extras"]["metadata"]


def test_no_hand_has_a_verdict_that_we_cannot_take_out(alice, box):
    got = alice.post(at(box, "/actions"), run_action("forged-large")).ok().json
    assert got["observation"] == "error" and "too large" in got["content"] and "verdict" not in got
    odd = alice.post(at(box, "/actions"), run_action("forged-odd"))
    assert odd.status == 502 and b"block" not in odd.body, odd


@pytest.mark.parametrize("name", ["many-values", "no-json", "no-observation", "deep"])
def test_answer_that_cannot_be_noted(service, alice, box, name):
    peak = memory(service)
    assert alice.post(at(box, "/actions"), run_action(name)).status in (200, 502, 503)
    assert memory(service) < max(peak, 2 * SMALL)


def test_a_tree_that_is_none(alice, box):
    """Its nodes are told once, and as far as they are few and near; what makes no sense is passed over."""
    toolbox = f"/api/toolbox/{box['id']}/computeruse/a11y"
    told = alice.get(f"{toolbox}/tree").ok().json
    assert told["truncated"] and told["root"]["role"] == ""
    deep, wide = told["root"]["children"]
    levels = 0
    while deep["children"]:
        (deep,), levels = deep["children"], levels + 1
    assert 100 < levels < 200
    assert wide["bounds"] == {"x": 0, "y": 0, "width": 0, "height": 0} and 10000 < len(wide["children"]) < 20000
    found = alice.post(f"{toolbox}/find", {"states": ["focusable"], "limit": 7}).ok().json
    assert len(found["matches"]) == 7 and found["truncated"]


def test_many_huge_answers_at_once(service, alice, box):
    statuses = []

    def ask():
        client = service.client(alice.key)
        statuses.append(client.post(at(box, "/actions"), run_action("huge-answer")).status)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {502, 503} and memory(service) < 2 * SMALL, statuses


# --- WebSockets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FRAMES)
def test_frames_that_lie(service, alice, box, name):
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as s:
        s.sendall(
            f"GET {at(box, f'/hand/ws/{name}')} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {alice.key}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        got, head = 0, b""
        while got < 64 << 20:
            piece = s.recv(1 << 20)
            head += piece[:4096] if len(head) < 4096 else b""
            if not piece:
                break
            got += len(piece)
        assert b" 101 " in head.partition(b"\r\n")[0] and b"Set-Cookie" not in head, head[:500]
        assert memory(service, "VmRSS") < SMALL, "nobody waits for the rest of a frame"


def test_a_client_that_leaves_is_not_held_by_a_silent_hand(service, alice, box):
    def threads():
        return len(list(pathlib.Path(f"/proc/{service.pid}/task").iterdir()))

    before = threads()
    for _ in range(20):
        response = service.client(alice.key).send("GET", at(box, "/hand/evil/endless-event"))
        assert response.status == 200
        response.close()
    for client in service.clients[-20:]:
        client.close()
    eventually(lambda: threads() <= before + 4, "its threads ended")

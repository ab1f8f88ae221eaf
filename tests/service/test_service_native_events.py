"""Streams of the native API: events of a sandbox, changes of all of them; each can be taken up again."""

import json
import threading

import pytest
import websocket

from native import Events, at, make, run, upgrade
from services import eventually


@pytest.fixture
def box(alice):
    made = make(alice)
    yield made
    alice.delete(at(made))


def commands(events):
    return [e["args"]["command"] for e in events if e.get("action") == "run"]


def test_pages_of_events(alice, box):
    assert alice.get(at(box, "/events")).ok().json == {"events": [], "next": 0, "more": False}
    for i in range(4):
        run(alice, box, f"echo {i}")
    page = alice.get(at(box, "/events", limit=3)).ok().json
    assert [e["id"] for e in page["events"]] == [0, 1, 2] and page["next"] == 3 and page["more"]
    rest = alice.get(at(box, "/events", **{"from": 3})).ok().json
    assert [e["id"] for e in rest["events"]] == [3, 4, 5, 6, 7] and rest["next"] == 8 and not rest["more"]
    assert [e["id"] for e in alice.get(at(box, "/events", last=2)).ok().json["events"]] == [6, 7]
    actions = alice.get(at(box, "/events", kinds="action")).ok().json["events"]
    assert commands(actions) == [f"echo {i}" for i in range(4)] and len(actions) == 4
    assert alice.get(at(box, "/events", kinds="read,error")).ok().json["events"] == []


def test_a_stream_of_events_is_resumed_without_a_gap_and_without_a_repeat(alice, box):
    run(alice, box, "echo before")
    with Events(alice, at(box, "/events")) as stream:
        first = stream.take(2)
        run(alice, box, "echo while")
        first += stream.take(1)  # in the middle of a pair
    run(alice, box, "echo away")
    with Events(alice, at(box, "/events"), last=first[-1].id) as stream:
        run(alice, box, "echo after")
        second = stream.take(5)
    seen = [e.data for e in first + second]
    assert [e["id"] for e in seen] == list(range(8)) == [int(e.id) for e in first + second]
    assert commands(seen) == ["echo before", "echo while", "echo away", "echo after"]


def test_the_same_over_a_websocket(alice, box):
    run(alice, box, "echo before")
    ticket = alice.post("/v1/tickets", {"purpose": "ws", "sandbox": box["id"]}).ok(201).json["ticket"]
    stream = upgrade(alice, at(box, "/events"), key=False, protocols=["tendon", f"ticket.{ticket}"])
    seen = [json.loads(stream.recv()) for _ in range(2)]
    run(alice, box, "echo while")
    seen.append(json.loads(stream.recv()))
    stream.send("whatever a client says")
    stream.close()
    run(alice, box, "echo after")
    stream = upgrade(alice, at(box, "/events", **{"from": seen[-1]["id"] + 1}))
    seen += [json.loads(stream.recv()) for _ in range(3)]
    assert [e["id"] for e in seen] == list(range(6))
    alice.delete(at(box)).ok(204)
    opcode, _ = stream.recv_data()
    assert opcode == websocket.ABNF.OPCODE_CLOSE


def test_a_stream_ends_with_its_sandbox(alice):
    made = make(alice)
    run(alice, made, "true")
    with Events(alice, at(made, "/events", kinds="observation")) as stream:
        assert stream.next().data["observation"] == "run"
        alice.delete(at(made)).ok(204)
        end = stream.next()
        assert end.kind == "end" and stream.next() is None


def test_a_ticket_opens_one_thing(alice, box, service):
    other = make(alice)
    ticket = alice.post("/v1/tickets", {"purpose": "ws", "sandbox": other["id"]}).ok(201).json["ticket"]
    for text in (ticket, "nonsense", ticket[:-2] + "xx"):
        with pytest.raises(websocket.WebSocketBadStatusException) as refused:
            upgrade(alice, at(box, "/events"), key=False, protocols=["tendon", f"ticket.{text}"])
        assert refused.value.status_code == 401
    assert ticket not in service.log()
    alice.delete(at(other)).ok(204)


def test_logs_can_be_followed(alice, box):
    client = alice.service.client(alice.key)
    response = client.send("GET", at(box, "/logs", follow="true"))
    assert response.status == 200
    client.close()


def test_a_page_can_follow_everything(alice, service, box):
    bob = service.tenant("bob")
    theirs = make(bob)
    with Events(alice, "/v1/watch") as watch:
        start = watch.until(lambda e: e.kind == "ready")
        assert start[0].kind == "reset"
        assert box["id"] in [e.data.get("id") for e in start]
        made = make(alice, name="fresh")
        seen = watch.until(lambda e: e.data.get("id") == made["id"] and e.data["state"] == "running")
        alice.post(at(made, "/pause")).ok()
        seen += watch.until(lambda e: e.kind == "sandbox" and e.data["state"] == "paused")
        run(bob, theirs, "true")
        bob.delete(at(theirs)).ok(204)
    alice.delete(at(made)).ok(204)
    with Events(alice, "/v1/watch", last=seen[-1].id) as watch:
        seen += watch.until(lambda e: e.kind == "gone" and e.data["id"] == made["id"])
    assert theirs["id"] not in str(start + seen), "another tenant's"
    with Events(alice, "/v1/watch", last=1) as watch:
        assert watch.next().kind == "reset", "that is too long ago"
    with Events(service.client(), "/v1/watch") as watch:
        assert box["id"] in str(watch.until(lambda e: e.kind == "ready")), "the administrator sees all"


def test_streams_end_when_the_service_stops(make_service, jail_works):
    service = make_service().start()
    admin = service.client()
    made = make(admin)
    run(admin, made, "true")
    with Events(admin, "/v1/watch") as watch, Events(admin, at(made, "/events")) as events:
        watch.until(lambda e: e.kind == "ready")
        events.take(2)
        socket = upgrade(admin, at(made, "/events", **{"from": 2}))
        terminal = upgrade(admin, at(made, "/terminals/main"))
        ended = []
        for stream in (watch, events):
            thread = threading.Thread(target=lambda s=stream: ended.append(s.next()))
            thread.start()
        admin.close()
        assert service.stop() == 0
        eventually(lambda: ended == [None, None], "both streams have ended properly")
        assert socket.recv_data()[0] == websocket.ABNF.OPCODE_CLOSE
        terminal.shutdown()
    service.start()
    admin = service.client()
    assert len(admin.get(at(made, "/events")).ok().json["events"]) == 2
    admin.delete(at(made)).ok(204)

"""The modal backend and a Modal on its bad days."""

import base64
import struct
import time

import pytest

from bad_days import create, refused
from conformance import World
from modal_vendor import ModalVendor, fields, frame, message

ID, KEY = "ak-0123456789abcdef", "as-0123456789abcdef"
BOX = "sb-01ARZ3NDEKTSV4RRFFQ69G5FAV"  # of the newer generation


class ModalWorld(World):
    def __init__(self, vendor):
        super().__init__("modal")
        self.env.update(MODAL_SERVER_URL=vendor.url, MODAL_TOKEN_ID=ID, MODAL_TOKEN_SECRET=KEY)

    def left_over(self):
        return {}


@pytest.fixture
def vendor():
    vendor = ModalVendor()
    yield vendor
    vendor.close()


@pytest.fixture
def driver(vendor):
    world = ModalWorld(vendor)
    yield world.open()
    vendor.behave.clear()
    world.finish()


def always(*messages):
    return lambda call: call.answer(*messages)


def refusing(status, words="", **headers):
    return lambda call: call.refuse(status, words, **headers)


def tags(call, number=4):
    return {fields(tag)[1][0].decode(): fields(tag)[2][0].decode() for tag in call.fields.get(number, [])}


def again(driver, **settings):
    driver("close")
    for name, value in settings.items():
        driver("set", name=name.replace("__", "."), value=value)
    return driver


# --- what is asked -----------------------------------------------------------------------------------


def test_tokens(driver, vendor):
    again(driver, modal__token_secret="")
    refusal = refused(driver, "open", runtime="modal")
    assert refusal.code == "denied" and "MODAL_TOKEN_SECRET" in refusal.text and vendor.calls == []
    again(driver, modal__token_id="", core__modal_api_token_id=ID, core__modal_api_token_secret=KEY)
    driver("open", runtime="modal")
    driver("list")
    first, second = vendor.calls[0], vendor.asked("AppGetOrCreate")[0]
    assert first.method == "AuthTokenGet" and first.headers["x-modal-token-secret"] == KEY
    assert first.headers["te"] == "trailers" and "x-modal-auth-token" not in first.headers
    assert second.headers["x-modal-auth-token"] == "a.b.c"


def test_a_wrong_token_is_told_without_it(driver, vendor):
    vendor.behave["AuthTokenGet"] = refusing(16, f"Token {KEY}%0A%1B[31m unknown")
    refusal = refused(driver, "list")
    assert refusal.code == "denied" and "modal.com/settings/tokens" in refusal.text


def test_a_token_that_has_ended_is_had_again(driver, vendor):
    vendor.behave["SandboxListV2"] = lambda call: (
        call.refuse(16, "expired") if len(vendor.asked("AuthTokenGet")) == 1 else call.answer()
    )
    assert driver("list")["ids"] == [] and len(vendor.asked("AuthTokenGet")) == 2


def test_a_create_as_the_specification_has_it(driver, vendor):
    again(driver, modal__app="tools", modal__region="eu", modal__timeout="900", modal__environment="dev")
    driver("open", runtime="modal")
    vendor.behave["SandboxCreateV2"] = refusing(3, "no such luck%21")
    refusal = create(driver, image="python:3.12", labels={"team": "blue"}, memory="512m", cpus=1.5, ports=[8000])
    assert "no such luck!" in refusal.text
    (call,) = vendor.asked("SandboxCreateV2")
    assert vendor.asked("AppGetOrCreate")[-1].text(1) == "tools" and vendor.asked("AppGetOrCreate")[-1].text(2) == "dev"
    assert vendor.asked("ImageGetOrCreate")[0].text(2, 6) == "FROM python:3.12"
    wish = fields(call.fields[2][0])
    assert wish[3] == [b"im-1"] and wish[7] == [900] and fields(wish[17][0])[4] == [b"eu"]
    assert [fields(port)[1][0] for port in fields(wish[20][0])[1]] == [27174, 8000]
    sizes = fields(wish[5][0])
    assert sizes[2] == [512] and sizes[3] == [1500]
    marks = tags(call)
    assert marks["team"] == "blue" and len(marks["tendon.state"]) == 16 and marks["tendon.id"] == marks["tendon.session"]
    assert len(call.headers["x-idempotency-key"]) == 36
    assert vendor.asked("SandboxListV2"), "before anything is made it is looked for by its tags"


@pytest.mark.parametrize("spec", [{"network": "none"}, {"user": "me"}, {"gpus": "all"}])
def test_what_it_has_not_is_said_before(driver, vendor, spec):
    refusal = create(driver, **spec)
    assert refusal.code == "unsupported" and next(iter(spec)) in refusal.text and vendor.calls == []


def test_an_image_that_is_built(driver, vendor):
    """Its news come in pieces; what it failed of is told."""
    vendor.behave["ImageGetOrCreate"] = always({1: "im-2"})
    news = [[{3: "e1"}], [{3: "e2"}, {1: {1: 2, 2: "RUN: no such file"}, 4: 1}]]
    vendor.behave["ImageJoinStreaming"] = lambda call: call.answer(*news[min(len(vendor.asked(call.method)), 2) - 1])
    refusal = create(driver, image="broken")
    assert refusal.code == "not_found" and "RUN: no such file" in refusal.text, refusal
    assert vendor.asked("ImageJoinStreaming")[1].text(3) == "e1" and vendor.asked("SandboxCreateV2") == []


def broken_off(*messages, status=8):
    """A stream that has told something before it says that it is busy."""
    return lambda call: (call.begin(), *[call.send(frame(message(one))) for one in messages], call.end(status, "slow down"))


def in_turn(vendor, *ways):
    return lambda call: ways[min(len(vendor.asked(call.method)), len(ways)) - 1](call)


def test_news_go_on_after_a_busy_platform(driver, vendor):
    vendor.behave["ImageGetOrCreate"] = always({1: "im-2"})
    vendor.behave["ImageJoinStreaming"] = in_turn(vendor, broken_off({3: "e1"}), always({1: {1: 2, 2: "no such file"}}))
    assert "no such file" in create(driver, image="broken").text
    first, second = vendor.asked("ImageJoinStreaming")
    assert 3 not in first.fields and second.text(3) == "e1"


def test_news_go_on_after_the_token_has_ended(driver, vendor):
    vendor.behave["ImageGetOrCreate"] = always({1: "im-2"})
    vendor.behave["ImageJoinStreaming"] = in_turn(vendor, broken_off({3: "e1"}, status=16), always({1: {1: 2, 2: "no such file"}}))
    assert "no such file" in create(driver, image="broken").text
    assert vendor.asked("ImageJoinStreaming")[1].text(3) == "e1" and len(vendor.asked("AuthTokenGet")) == 2


def test_an_older_platform(driver, vendor):
    vendor.behave["SandboxListV2"] = vendor.behave["SandboxCreateV2"] = refusing(12, "unknown method")
    vendor.behave["AuthTokenGet"] = refusing(12, "unknown method")
    vendor.behave["SandboxCreate"] = refusing(3, "no such luck")
    assert "no such luck" in create(driver).text
    assert vendor.asked("SandboxList") and len(vendor.asked("SandboxCreate")) == 1


# --- trouble -----------------------------------------------------------------------------------------


def made(vendor, **more):
    """A vendor with the sandboxes that it was asked for."""
    have = {}

    def make(call, lost=False):
        have[BOX] = {1: BOX, 3: 5.0, 6: [tag for tag in call.fields[4]]}
        vendor.lose(call) if lost else call.answer({1: BOX})

    vendor.behave.update({
        "SandboxCreateV2": make,
        "SandboxListV2": lambda call: call.answer({1: [] if 2 in call.fields else list(have.values())}),
        "SandboxWaitV2": always({}),
        "SandboxTagsGetV2": lambda call: call.answer({1: have[BOX][6]}) if have else call.refuse(5),
        "SandboxGetTunnelsV2": always({2: {1: "127.0.0.1", 2: 1, 5: 27174}}),
        "SandboxTerminateV2": lambda call: (have.clear(), call.answer()),
        "SandboxGetTaskIdV2": always({1: "ta-1"}),
        "SandboxGetCommandRouterAccess": always({1: "x.y.z", 2: vendor.url.replace("http:", "https:")}),
        **more,
    })
    return make


def test_a_lost_answer_is_looked_for_before_it_is_asked_again(driver, vendor):
    """The vendor has made it, and says so in lists only."""
    make = made(vendor)
    vendor.behave["SandboxCreateV2"] = lambda call: make(call, lost=True)
    vendor.behave["TaskExecStart"] = refusing(3, "no commands today")
    assert "no commands today" in create(driver).text
    assert len(vendor.asked("SandboxCreateV2")) == 1
    (start,) = vendor.asked("TaskExecStart")
    assert start.headers["authorization"] == "Bearer x.y.z", "the router has its own token"
    assert not any(name.startswith("x-modal") for name in start.headers), "and is not sent ours"


def test_who_is_away_is_asked_once_more(driver, vendor):
    vendor.behave["SandboxCreateV2"] = refusing(14, "be right back")
    assert "be right back" in create(driver, timeout=30).text
    first, second = vendor.asked("SandboxCreateV2")
    assert first.headers["x-idempotency-key"] == second.headers["x-idempotency-key"]


def test_who_is_busy_says_when_to_come_again(driver, vendor):
    policy = message({1: 8, 3: {1: "type.googleapis.com/modal.client.RPCRetryPolicy", 2: b"\x0d" + struct.pack("<f", 0.5)}})
    details = base64.b64encode(policy).decode().rstrip("=")
    busy = refusing(8, "slow down", grpc_status_details_bin=details)
    vendor.behave["SandboxListV2"] = lambda call: busy(call) if len(vendor.asked(call.method)) < 10 else call.answer()
    begun = time.monotonic()
    assert driver("list", timeout=60)["ids"] == []
    assert len(vendor.asked("SandboxListV2")) == 10 and time.monotonic() - begun > 4


@pytest.mark.parametrize("how", ["silent", "drip"])
@pytest.mark.parametrize("where", ["SandboxCreateV2", "SandboxListV2", "AuthTokenGet"])
def test_who_does_not_answer_is_not_waited_for(driver, vendor, how, where):
    vendor.behave[where] = getattr(vendor, how)
    begun = time.monotonic()
    assert create(driver, timeout=3).code == "timeout"
    assert time.monotonic() - begun < 12


def test_lists_end(driver, vendor):
    vendor.behave["SandboxListV2"] = vendor.flood
    assert refused(driver, "list", timeout=60).code == "too_large"
    vendor.behave["SandboxListV2"] = lambda call: call.answer(
        {1: {1: "sb-x", 3: 1e9 - len(vendor.asked(call.method))}}
    )
    assert refused(driver, "list", timeout=10).code in ("peer", "timeout")
    vendor.behave["SandboxListV2"] = always({1: {1: "sb-x", 3: 7.0}})  # the same page for ever
    assert driver("list")["ids"] == []


def test_lists_of_ours_end(driver, vendor):
    """However many there are on a page."""
    vendor.behave["SandboxCreateV2"] = refusing(3, "x")
    create(driver)
    state, before = tags(vendor.asked("SandboxCreateV2")[0])["tendon.state"], len(vendor.asked("SandboxListV2"))
    own = [{1: "tendon.id", 2: "eeeeeeeeee"}, {1: "tendon.state", 2: state}]
    boxes = message({1: [{1: f"sb-{i}", 6: own} for i in range(6000)]})

    def page(call):
        call.begin()
        call.send(frame(boxes + message({1: {1: "sb-x", 3: 1e9 - len(vendor.asked(call.method))}})))
        call.end()

    vendor.behave["SandboxListV2"] = page
    assert "has no end" in refused(driver, "list", timeout=60).text
    assert len(vendor.asked("SandboxListV2")) == before + 2


def raw(data=b"", kind="application/grpc", status="200", end=True, **headers):
    def behave(call):
        call.begin(status, kind, **headers)
        call.send(data)
        if end:
            call.end()
        else:
            call.connection.h2.end_stream(call.stream)
            call.connection.flush()

    return behave


NONSENSE = {
    "no message": raw(),
    "half head": raw(b"\0\0\0"),
    "half": raw(frame(b"abcdef")[:-2]),
    "two": raw(frame(b"") * 2),
    "compressed": raw(b"\1\0\0\0\2ab"),
    "kind": raw(b"\x80\0\0\0\0"),
    "bytes": raw(frame(b"\xff" * 30)),
    "length": raw(frame(b"\x0a\xff\xff\xff\xff\x0f")),
    "large": raw(b"\0\xff\xff\xff\xff"),
    "page": raw(b"<html>log in first</html>", "text/html"),
    "json": raw(b"{}", "application/json"),
    "no status": raw(frame(b""), end=False),
    "teapot": raw(b"", status="418", end=False),
    "lost": lambda call: call.connection.vendor.lose(call),
    "reset": lambda call: (call.begin(), call.connection.h2.reset_stream(call.stream), call.connection.flush()),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_told(driver, vendor, what):
    vendor.behave["SandboxCreateV2"] = NONSENSE[what]
    assert create(driver, timeout=30).code in ("peer", "invalid")
    vendor.behave["SandboxListV2"] = NONSENSE[what]
    assert driver.ask("list", timeout=30).get("ids", []) == [], "nobody's sandboxes are ours"


def test_nobody_else_is_sent_a_key(driver, vendor):
    other = ModalVendor()
    vendor.behave["SandboxListV2"] = raw(status="302", location=f"{other.url}/modal.client.ModalClient/SandboxListV2")
    refusal = refused(driver, "list")
    other.close()
    assert refusal.code == "unsupported" and other.calls == []


@pytest.mark.parametrize("name", ["", "../keys", "a\r\nX: y", "a" * 5000, "a b"])
def test_ids_are_ids(driver, vendor, name):
    for method in ("AppGetOrCreate", "ImageGetOrCreate", "SandboxCreateV2"):
        if method.startswith("Image") and name.startswith(".."):
            continue  # an id of an image goes nowhere but into messages
        vendor.behave[method] = always({1: name, 2: {1: 1}})
        assert create(driver, timeout=30).code == "peer"
        del vendor.behave[method]


def test_sandboxes_of_others_are_not_ours(driver, vendor):
    """Whatever is in a list: what has not both tags is left alone."""
    vendor.behave["SandboxCreateV2"] = refusing(3, "x")
    create(driver)
    state = tags(vendor.asked("SandboxCreateV2")[0])["tendon.state"]
    odd = [
        {},
        {"tendon.id": "aaaaaaaaaa"},
        {"tendon.id": "bbbbbbbbbb", "tendon.state": "0" * 16},
        {"tendon.id": "../cccccc", "tendon.state": state},
        {"tendon.id": "eeeeeeeeee", "tendon.state": state},
        {"tendon.id": "ffffffffff", "tendon.state": state},
    ]
    told = [
        {1: f"sb-{i}", 3: 100.0 - i, 6: [{1: name, 2: value} for name, value in marks.items()]}
        for i, marks in enumerate(odd)
    ]
    before = len(vendor.asked("SandboxListV2"))

    def page(call):
        at = call.fields.get(2, [1e9])[0]
        call.answer({1: [box for box in told if box[3] < at][:3]})

    vendor.behave["SandboxListV2"] = page
    assert driver("list")["ids"] == ["ffffffffff", "eeeeeeeeee"], "the oldest is the last one there"
    assert tags(vendor.asked("SandboxListV2")[before], 5) == {"tendon.state": state}


# --- inside ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [always({}), refusing(13, "no tunnels today")], ids=["none", "refused"])
def test_one_without_tunnels_is_ended(driver, vendor, how):
    made(vendor, SandboxGetTunnelsV2=how)
    box = driver.world.new(driver, create=False)
    assert "tunnel" in refused(box, "create", timeout=20).text and len(vendor.asked("SandboxCreateV2")) == 1
    seen = box("inspect")
    assert seen["status"] == "running" and "tunnel" in seen["reason"]
    box.drive("gone")
    assert vendor.asked("SandboxTerminateV2") and driver("list")["ids"] == []


def test_the_end_of_its_time_is_the_reason(driver, vendor):
    made(vendor, TaskExecStart=refusing(3, "x"))
    vendor.behave["SandboxWaitV2"] = always({1: {1: 4}})
    refusal = create(driver)
    assert "modal.timeout" in refusal.text


ROUTERS = {
    "none": {},
    "no token": {2: "https://127.0.0.1:1"},
    "token": {1: "a b\r\n", 2: "https://127.0.0.1:1"},
    "no url": {1: "x.y.z"},
    "url": {1: "x.y.z", 2: "gopher"},
    "path": {1: "x.y.z", 2: "https://127.0.0.1:1 /"},
    "nobody": {1: "x.y.z", 2: "https://127.0.0.1:1"},
}


@pytest.mark.parametrize("what", ROUTERS)
def test_a_router_that_is_none(driver, vendor, what):
    made(vendor, SandboxGetCommandRouterAccess=always(ROUTERS[what]))
    assert create(driver, timeout=10).code in ("peer", "timeout")
    assert vendor.asked("TaskExecStart") == []


OUTPUTS = {
    "words": always({1: b"no machine"}),
    "half": raw(frame(b"abcdef")[:-2]),
    "bytes": raw(frame(b"\xff" * 30)),
    "silent": lambda call: call.connection.vendor.silent(call),
    "endless": lambda call: [call.begin()] + [call.send(frame(message({1: b"x" * 60000}))) for _ in range(100000)],
}


@pytest.mark.parametrize("what", OUTPUTS)
def test_a_sandbox_that_lies(driver, vendor, what):
    made(vendor, TaskExecStart=always({}), TaskExecStdioRead=OUTPUTS[what], TaskExecWait=always({1: 0}))
    begun = time.monotonic()
    assert create(driver, timeout=10).code in ("peer", "timeout", "too_large")
    assert time.monotonic() - begun < 25


def test_what_was_read_is_not_read_again(driver, vendor):
    """A stream that ends with RESOURCE_EXHAUSTED is read on from where it ended."""
    made(vendor, TaskExecStart=always({}), TaskExecWait=always({1: 1}))
    vendor.behave["TaskExecStdioRead"] = in_turn(vendor, broken_off({1: b"no "}), always({1: b"machine"}))
    assert "cannot take a hand: no machine" in create(driver).text
    assert [call.fields[3] for call in vendor.asked("TaskExecStdioRead")] == [[0], [3]]


def test_a_token_of_a_router_that_has_ended_is_had_again(driver, vendor):
    made(vendor, TaskExecStart=lambda call: call.refuse(16, "expired") if len(vendor.asked(call.method)) == 1 else call.answer())
    create(driver, timeout=10)
    first, second = vendor.asked("TaskExecStart")
    assert first.text(2) == second.text(2), "it is the same command"
    assert len(vendor.asked("SandboxGetCommandRouterAccess")) == 2


def test_before_routers(driver, vendor):
    """FAILED_PRECONDITION: commands are the control plane's; a stream that ends is asked for again, the exit code comes with the last."""
    made(vendor, SandboxGetCommandRouterAccess=refusing(9, "not for this task"))
    vendor.behave["ContainerExec"] = always({1: "ex-1"})
    batches = [{1: [{1: 1, 3: b"no "}], 2: 1}, {1: [{1: 1, 2: "machine"}], 2: 2, 3: 1}]
    vendor.behave["ContainerExecGetOutput"] = lambda call: call.answer(batches[min(len(vendor.asked(call.method)), 2) - 1])
    refusal = create(driver, timeout=20)
    assert "cannot take a hand: no machine" in refusal.text
    command = [word.decode() for word in vendor.asked("ContainerExec")[0].fields[2]]
    assert command[:2] == ["sh", "-c"] and command[4:7] == ["env", "sh", "-c"]
    assert vendor.asked("ContainerExecGetOutput")[1].fields[3] == [1], "after the batch that was read"

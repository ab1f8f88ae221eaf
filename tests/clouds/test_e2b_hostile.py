"""A vendor on its bad days: every call ends in time, what happened is told, and no key goes anywhere else."""

import json
import time

import pytest

from cloud_worlds import KEY
from conformance import Refusal
from vendor import Vendor

CREATE, LIST = ("POST", "/sandboxes"), ("GET", "/v2/sandboxes")
SANDBOX = {"sandboxID": "abc", "templateID": "base", "clientID": "x", "envdVersion": "0.6.1"}


def refused(call, *args, **members):
    with pytest.raises(Refusal) as refusal:
        call(*args, **members)
    assert KEY not in refusal.value.text
    assert refusal.value.text.isprintable()
    return refusal.value


def create(driver, timeout=20, **spec):
    return refused(lambda: driver.world.new(driver, create=False, **spec)("create", timeout=timeout))


def always(status, value, **headers):
    return lambda handler, request: handler.json(status, value, **headers)


# --- credentials -------------------------------------------------------------------------------------


def test_without_a_key_nobody_is_asked(driver, vendor):
    driver("close")
    driver("set", name="e2b.api_key", value="")
    refusal = refused(driver, "open", runtime="e2b")
    assert refusal.code == "denied" and "E2B_API_KEY" in refusal.text and "https://e2b.dev" in refusal.text
    assert vendor.requests == []
    driver("set", name="e2b.api_key", value=KEY)
    driver("open", runtime="e2b")


def test_the_key_of_openhands_counts(driver, vendor):
    driver("close")
    driver("set", name="e2b.api_key", value="")
    driver("set", name="core.e2b_api_key", value=KEY)
    driver("open", runtime="e2b")
    driver("list")
    assert vendor.asked(*LIST)[0].headers["x-api-key"] == KEY


def test_a_key_that_is_refused(driver, vendor):
    vendor.behave[LIST] = always(401, {"code": 401, "message": f"Invalid {KEY}\x1b[31m\n"})
    refusal = refused(driver, "list")
    assert refusal.code == "denied" and "E2B_API_KEY" in refusal.text


# --- what is asked -----------------------------------------------------------------------------------


def test_a_create_as_the_specification_has_it(driver, vendor):
    vendor.behave[CREATE] = always(400, {"code": 400, "message": "no such luck"})
    refusal = create(driver, image="tpl", env={"A": "b $c"}, labels={"team": "blue"}, network="none")
    assert "no such luck" in refusal.text
    (request,) = vendor.asked(*CREATE)
    body = request.json
    assert request.headers["x-api-key"] == KEY and request.headers["content-type"] == "application/json"
    assert body["templateID"] == "tpl" and body["envVars"] == {"A": "b $c"} and body["secure"] is True
    assert body["allow_internet_access"] is False and body["autoPause"] is False  # it has an owner
    assert body["network"] == {"allowPublicTraffic": False}
    marks = body["metadata"]
    assert marks["team"] == "blue" and len(marks["tendon.state"]) == 16
    assert marks["tendon.id"] == marks["tendon.session"]
    # Before anything is made it is looked for by its marks.
    assert "metadata=tendon.state%3D" + marks["tendon.state"] in vendor.asked(*LIST)[0].path


# --- trouble -----------------------------------------------------------------------------------------


def test_a_retry_after_is_kept(driver, vendor):
    times = []

    def busy(handler, request):
        times.append(time.monotonic())
        if len(times) < 3:
            return handler.json(429, {"code": 429, "message": "slow down"}, Retry_After="1")
        return handler.json(400, {"code": 400, "message": "third time"})

    vendor.behave[CREATE] = busy
    assert "third time" in create(driver).text
    assert len(times) == 3 and times[2] - times[0] >= 2


def test_a_retry_after_beyond_the_deadline_is_not_waited_for(driver, vendor):
    vendor.behave[CREATE] = always(429, {"code": 429, "message": "tomorrow"}, Retry_After="3000")
    begun = time.monotonic()
    assert "tomorrow" in create(driver, timeout=10).text
    assert time.monotonic() - begun < 8 and len(vendor.asked(*CREATE)) == 1


def test_reading_is_repeated_and_making_is_not(driver, vendor):
    vendor.behave[LIST] = lambda handler, request: (
        handler.json(503, {"message": "down"}) if len(vendor.asked(*LIST)) < 3 else handler.json(200, [])
    )
    driver("list")
    assert len(vendor.asked(*LIST)) == 3
    vendor.behave[CREATE] = always(403, {"code": 403, "message": "your plan"})
    assert "your plan" in create(driver).text
    assert len(vendor.asked(*CREATE)) == 1


def test_a_lost_answer_is_looked_for_before_it_is_asked_again(driver, vendor):
    """The vendor has made it, and says so in lists only."""
    made = []

    def lose(handler, request):
        made.append({**SANDBOX, "metadata": request.json["metadata"], "state": "running"})
        handler.close_connection = True

    vendor.behave[CREATE] = lose
    vendor.behave[LIST] = lambda handler, request: handler.json(200, made)
    vendor.behave["GET", "/sandboxes/abc"] = lambda handler, request: handler.json(
        200, {**made[0], "trafficAccessToken": "t", "envdAccessToken": "e"}
    )
    removed = []
    vendor.behave["DELETE", "/sandboxes/abc"] = lambda handler, request: (removed.append(1), handler.json(200, {}))
    refusal = create(driver)  # its envd is no envd
    assert "envd" in refusal.text, refusal
    assert len(vendor.asked(*CREATE)) == 1
    started = vendor.asked("POST", "/process.Process/Start")[0]
    assert started.headers["x-access-token"] == "e" and "x-api-key" not in started.headers


@pytest.mark.parametrize("how", ["silent", "drip"])
@pytest.mark.parametrize("where", [CREATE, LIST])
def test_who_does_not_answer_is_not_waited_for(driver, vendor, how, where):
    vendor.behave[where] = getattr(vendor, how)
    begun = time.monotonic()
    assert create(driver, timeout=3).code == "timeout"
    assert time.monotonic() - begun < 12


def test_an_endless_answer_ends(driver, vendor):
    vendor.behave[LIST] = vendor.flood
    assert refused(driver, "list", timeout=60).code == "too_large"


def test_a_list_in_circles_ends(driver, vendor):
    vendor.behave[LIST] = always(200, [], X_Next_Token="again")
    assert refused(driver, "list", timeout=10).code in ("peer", "timeout")


NONSENSE = {
    "half": (b'{"sandboxID": "ab', "application/json"),
    "page": (b"<html>log in first</html>", "text/html"),
    "list": (b"[1, 2]", "application/json"),
    "nothing": (b"", "application/json"),
    "null": (b"null", "application/json"),
    "no id": (b"{}", "application/json"),
    "number": (b'{"sandboxID": 7}', "application/json"),
    "path": (json.dumps({**SANDBOX, "sandboxID": "../keys"}).encode(), "application/json"),
    "lines": (json.dumps({**SANDBOX, "sandboxID": "a\r\nX: y"}).encode(), "application/json"),
    "long": (json.dumps({**SANDBOX, "sandboxID": "a" * 5000}).encode(), "application/json"),
    "domain": (json.dumps({**SANDBOX, "domain": "evil.example/x?"}).encode(), "application/json"),
    "deep": (b"[" * 100000, "application/json"),
    "bytes": (b"\xff\xfe\x00", "application/json"),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_told(driver, vendor, what):
    body, kind = NONSENSE[what]
    vendor.behave[CREATE] = lambda handler, request: handler.raw(201, body, kind)
    assert create(driver, timeout=30).code == "peer"
    vendor.behave[LIST] = lambda handler, request: handler.raw(200, body, kind)
    answer = driver.ask("list")
    assert answer.get("ids", []) == [], "nobody's sandboxes are ours"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(driver, vendor, status):
    other = Vendor()
    try:
        for where in (CREATE, LIST):
            vendor.behave[where] = always(status, {}, Location=f"{other.url}{where[1]}")
        assert "somebody else" in refused(driver, "list").text
        del vendor.behave[LIST]
        assert "somebody else" in create(driver, timeout=30).text
        assert other.requests == []
    finally:
        other.close()


def test_sandboxes_of_others_are_not_ours(driver, vendor):
    """Whatever the vendor puts into a list: what has not both marks is left alone."""
    vendor.behave[CREATE] = always(400, {"code": 400, "message": "x"})
    create(driver)
    state = vendor.asked(*CREATE)[0].json["metadata"]["tendon.state"]
    odd = [
        None,
        {},
        {"tendon.id": "aaaaaaaaaa"},
        {"tendon.id": "bbbbbbbbbb", "tendon.state": "0" * 16},
        {"tendon.id": "../cccccc", "tendon.state": state},
        {"tendon.id": 7, "tendon.state": state},
        {"tendon.id": "eeeeeeeeee", "tendon.state": state},
    ]
    vendor.behave[LIST] = always(200, [{**SANDBOX, "sandboxID": f"s{i}", "metadata": m} for i, m in enumerate(odd)])
    assert driver("list")["ids"] == ["eeeeeeeeee"]


# --- envd --------------------------------------------------------------------------------------------


def give(vendor, **more):
    """The vendor makes sandboxes, and has none of them in lists."""
    tokens = {"envdAccessToken": "tok-e", "trafficAccessToken": "tok-t"}
    whole = {**SANDBOX, **tokens, "state": "running", **more}
    vendor.behave[CREATE] = lambda handler, request: handler.json(201, whole)
    vendor.behave["GET", "/sandboxes/abc"] = always(200, whole)
    vendor.behave["DELETE", "/sandboxes/abc"] = always(200, {})


START = ("POST", "/process.Process/Start")
STREAM = "application/connect+json"


def frame(value, flags=0):
    body = json.dumps(value).encode()
    return bytes([flags]) + len(body).to_bytes(4, "big") + body


STREAMS = {
    "cut": frame({"event": {"start": {"pid": 1}}})[:-3],
    "huge": b"\x00\xff\xff\xff\xff",
    "no end": frame({"event": {"start": {"pid": 1}}}),
    "compressed": frame({}, 1),
    "error": frame({"error": {"code": "not_found", "message": "no sh\x1b[2J"}}, 2),
    "page": b"<html>",
    "output": frame({"event": {"data": {"stdout": "!!"}}}) + frame({"event": {"end": {"exitCode": 0}}}) + frame({}, 2),
    "status": frame({"event": {"end": {"exitCode": 10**12}}}) + frame({}, 2),
}


@pytest.mark.parametrize("what", STREAMS)
def test_an_envd_that_lies(driver, vendor, what):
    give(vendor)
    vendor.behave[START] = lambda handler, request: handler.raw(200, STREAMS[what], STREAM)
    refusal = create(driver, timeout=10)
    assert refusal.code in ("peer", "not_found"), refusal


def test_an_envd_without_end(driver, vendor):
    give(vendor)

    def babble(handler, request):
        handler.send_response(200)
        handler.send_header("Content-Type", STREAM)
        handler.end_headers()
        while not vendor.over.is_set():
            handler.wfile.write(frame({"event": {"data": {"stdout": "eHh4" * 1000}}}))

    vendor.behave[START] = babble
    assert create(driver, timeout=10).code in ("too_large", "timeout")
    vendor.behave[START] = vendor.silent
    assert create(driver, timeout=3).code == "timeout"

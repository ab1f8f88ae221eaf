"""E2B on its bad days, as far as it differs from others."""

import json

import pytest

from bad_days import always, create
from cloud_worlds import CLOUDS

E2B = CLOUDS["e2b"]
CREATE, LIST = E2B.CREATE, E2B.LIST
SANDBOX = E2B.sandbox


@pytest.fixture(scope="module")
def cloud():
    return E2B


def test_a_create_as_the_specification_has_it(driver, vendor):
    vendor.behave[CREATE] = always(400, {"code": 400, "message": "no such luck"})
    refusal = create(driver, image="tpl", env={"A": "b $c"}, labels={"team": "blue"}, network="none")
    assert "no such luck" in refusal.text
    (request,) = vendor.asked(*CREATE)
    body = request.json
    assert request.headers["x-api-key"] == E2B.key and request.headers["content-type"] == "application/json"
    assert body["templateID"] == "tpl" and "envVars" not in body and body["secure"] is True
    assert body["allow_internet_access"] is False and body["autoPause"] is False  # it has an owner
    assert body["network"] == {"allowPublicTraffic": False}
    marks = body["metadata"]
    assert marks["team"] == "blue" and len(marks["tendon.state"]) == 16
    assert marks["tendon.id"] == marks["tendon.session"]
    # Before anything is made it is looked for by its marks.
    assert "metadata=tendon.state%3D" + marks["tendon.state"] in vendor.asked(*LIST)[0].path


def test_rules_and_volumes_as_the_specification_has_them(driver, vendor):
    """Where nobody knows the lists, nothing gets out."""
    vendor.behave[CREATE] = always(400, {"code": 400, "message": "no such luck"})
    create(driver, network="allow", allow=["example.com", "*.example.org", "1.1.1.0/24:*"], volumes=["data:/data"])
    body = vendor.asked(*CREATE)[0].json
    assert body["allow_internet_access"] is False and body["volumeMounts"] == [{"name": "data", "path": "/data"}]
    lists = {"allowOut": ["1.1.1.0/24", "example.com", "*.example.org"], "denyOut": ["0.0.0.0/0"]}
    assert body["network"] == {"allowPublicTraffic": False, **lists}


def test_a_domain_that_is_none(driver, vendor):
    vendor.behave[CREATE] = always(201, {**SANDBOX, "domain": "evil.example/x?"})
    assert create(driver, timeout=30).code == "peer"


def test_envd_is_not_sent_the_key(driver, vendor):
    give(vendor)
    create(driver, timeout=60)
    started = vendor.asked(*START)[0]
    assert started.headers["x-access-token"] == "tok-e" and "x-api-key" not in started.headers


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
    refusal = create(driver, timeout=60)
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

"""Daytona on its bad days, and what only it is asked: the toolbox, old and new, and whom the key goes to."""

import base64
import json
import time

import pytest

from bad_days import always, create
from cloud_worlds import CLOUDS
from vendor import Vendor

DAYTONA = CLOUDS["daytona"]
CREATE, LIST = DAYTONA.CREATE, DAYTONA.LIST
OLDER = ("POST", "/api/toolbox/abc/toolbox/process/execute")
NEWER = ("POST", "/boxes/abc/process/execute")
LINK = ("GET", "/api/sandbox/abc/ports/27174/preview-url")


@pytest.fixture(scope="module")
def cloud():
    return DAYTONA


def give(vendor, **more):
    """The vendor makes sandboxes, and has none of them in lists."""
    whole = {**DAYTONA.sandbox, **more}
    vendor.behave[CREATE] = always(200, whole)
    vendor.behave["GET", "/api/sandbox/abc"] = always(200, whole)
    vendor.behave["DELETE", "/api/sandbox/abc"] = always(200, {})
    vendor.behave[LINK] = always(200, {"sandboxId": "abc", "url": f"{vendor.url}/p", "token": "tok"})


def test_a_create_as_the_specification_has_it(driver, vendor):
    vendor.behave[CREATE] = always(400, {"statusCode": 400, "message": "no such luck"})
    driver("set", name="daytona.target", value="eu")
    refusal = create(
        driver, image="snap", env={"A": "b $c"}, labels={"team": "blue"}, network="none", memory="1500m", cpus=1.5
    )
    assert "no such luck" in refusal.text
    body = vendor.asked(*CREATE)[0].json
    assert body["snapshot"] == "snap" and "env" not in body and body["target"] == "eu"
    assert body["networkBlockAll"] is True and body["public"] is False
    assert (body["cpu"], body["memory"]) == (2, 2) and "disk" not in body
    assert (body["autoStopInterval"], body["autoDeleteInterval"]) == (15, 1440)  # it has an owner
    marks = body["labels"]
    assert marks["team"] == "blue" and len(marks["tendon.state"]) == 16
    assert marks["tendon.id"] == marks["tendon.session"]
    # Before anything is made it is looked for by its marks.
    assert f"tendon.state%22%3A%22{marks['tendon.state']}" in vendor.asked(*LIST)[0].path


def test_a_platform_that_knows_no_rules(driver, vendor):
    """It passes them by: what it has made has an open network, and is removed."""
    give(vendor, state="started")
    refusal = create(driver, network="allow", allow=["example.com", "*.example.org", "1.1.1.0/24:*"])
    assert refusal.code == "unsupported" and "rules" in refusal.text
    body = vendor.asked(*CREATE)[0].json
    assert body["domainAllowList"] == "example.com,*.example.org" and body["networkAllowList"] == "1.1.1.0/24"
    assert vendor.asked("DELETE", "/api/sandbox/abc")


def test_an_image_instead_of_a_snapshot(driver, vendor):
    vendor.behave[CREATE] = always(400, {"statusCode": 400, "message": "Snapshot x not found"})
    driver("set", name="daytona.images", value="true")
    driver("set", name="daytona.disable_auto_stop", value="true")
    assert create(driver, image="debian:12").code == "not_found"
    body = vendor.asked(*CREATE)[0].json
    assert body["buildInfo"] == {"dockerfileContent": "FROM debian:12\n"} and "snapshot" not in body
    assert body["autoStopInterval"] == 0
    asked = len(vendor.asked(*CREATE))
    assert create(driver, image="debian:12\nRUN true").code == "invalid"
    assert len(vendor.asked(*CREATE)) == asked


def test_an_organization(driver, vendor):
    driver("close")
    for name, value in {"api_key": "", "jwt_token": "j.w.t", "organization_id": "org"}.items():
        driver("set", name=f"daytona.{name}", value=value)
    driver("open", runtime="daytona")
    driver("list")
    headers = vendor.asked(*LIST)[0].headers
    assert headers["authorization"] == "Bearer j.w.t" and headers["x-daytona-organization-id"] == "org"


def test_an_older_list_is_an_array(driver, vendor):
    vendor.behave[CREATE] = always(400, {"message": "x"})
    create(driver)
    marks = {**vendor.asked(*CREATE)[0].json["labels"], "tendon.id": "eeeeeeeeee"}
    vendor.behave[LIST] = always(200, [{**DAYTONA.sandbox, "labels": marks}])
    assert driver("list")["ids"] == ["eeeeeeeeee"]


# --- the toolbox -------------------------------------------------------------------------------------


def test_the_older_toolbox_is_behind_the_api(driver, vendor):
    give(vendor)
    vendor.behave[OLDER] = always(200, {"exitCode": 1, "result": "no home\x1b[2J\n"})
    assert "no home" in create(driver, timeout=60).text
    (request,) = vendor.asked(*OLDER)
    words = request.json["command"].split()
    assert words[:2] == ["sh", "-c"] and base64.b64decode(words[4]).startswith(b"'sh' '-c' '")
    assert 0 < request.json["timeout"] <= 61


def test_the_newer_toolbox_is_where_the_platform_says(driver, vendor):
    give(vendor, toolboxProxyUrl=f"{vendor.url}/boxes")
    vendor.behave[NEWER] = always(200, {"exitCode": 1, "result": "no home"})
    assert "no home" in create(driver, timeout=60).text
    assert vendor.asked(*NEWER)[0].headers["authorization"] == f"Bearer {DAYTONA.key}"


@pytest.mark.parametrize("chosen", [False, True])
def test_only_the_operator_sends_the_key_elsewhere(driver, vendor, chosen):
    other = Vendor(DAYTONA)
    try:
        give(vendor, toolboxProxyUrl=f"{other.url}/boxes")
        other.behave[NEWER] = vendor.behave[OLDER] = always(200, {"exitCode": 1, "result": "no home"})
        if chosen:
            driver("close")
            driver("set", name="daytona.toolbox_url", value=f"{other.url}/boxes")
            driver("open", runtime="daytona")
        assert "no home" in create(driver, timeout=60).text
        assert bool(other.requests) == chosen and bool(vendor.asked(*OLDER)) != chosen
    finally:
        other.close()


LIES = {
    "nothing": b"",
    "page": b"<html>",
    "no code": b'{"result": ""}',
    "no text": b'{"exitCode": 0}',
    "words": b'{"exitCode": "0", "result": 7}',
    "huge": b'{"exitCode": 1000000000000, "result": ""}',
    "good": b'{"exitCode": 0, "result": "made of nothing"}',
    "much": json.dumps({"exitCode": 0, "result": "x" * 100000}).encode(),
}


@pytest.mark.parametrize("what", LIES)
def test_a_toolbox_that_lies(driver, vendor, what):
    give(vendor)
    vendor.behave[OLDER] = lambda handler, request: handler.raw(200, LIES[what], "application/json")
    assert create(driver, timeout=60).code in ("peer", "too_large")


@pytest.mark.parametrize("link", [{}, {"url": 7}, {"url": "ftp://x"}, {"url": "http://a b/"}, {"url": "//x#y"}])
def test_a_link_that_is_none(driver, vendor, link):
    give(vendor)
    vendor.behave[LINK] = always(200, link)
    refusal = create(driver, timeout=60)
    assert refusal.code == "peer" and "preview link" in refusal.text
    assert not vendor.asked(*OLDER)


def test_a_link_that_does_not_come_is_not_waited_for(driver, vendor):
    give(vendor)
    vendor.behave[LINK] = vendor.silent
    begun = time.monotonic()
    assert create(driver, timeout=3).code == "timeout"
    assert time.monotonic() - begun < 12


def test_a_sandbox_that_fails(driver, vendor):
    give(vendor, state="build_failed", errorReason="no such image\n\x1b[31m")
    assert "no such image" in create(driver, timeout=60).text

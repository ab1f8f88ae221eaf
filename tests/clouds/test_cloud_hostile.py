"""A vendor on its bad days: every call ends in time, what happened is told, and no key goes anywhere else."""

import json
import re
import time

import pytest

from bad_days import always, create, refused
from cloud_worlds import Account
from services import Service, eventually, maker
from vendor import Vendor


@pytest.fixture
def make_service(tmp_path):
    """make_service(runtime=..., env=...): not started."""
    yield from maker(Service, tmp_path)


# --- credentials -------------------------------------------------------------------------------------


def test_without_a_key_nobody_is_asked(cloud, driver, vendor):
    driver("close")
    driver("set", name=f"{cloud.name}.api_key", value="")
    refusal = refused(driver, "open", runtime=cloud.name)
    assert refusal.code == "denied" and cloud.variable in refusal.text and cloud.advice in refusal.text
    assert vendor.requests == []
    driver("set", name=f"{cloud.name}.api_key", value=cloud.key)
    driver("open", runtime=cloud.name)


def test_the_key_of_openhands_counts(cloud, driver, vendor):
    driver("close")
    driver("set", name=f"{cloud.name}.api_key", value="")
    driver("set", name=f"core.{cloud.name}_api_key", value=cloud.key)
    driver("open", runtime=cloud.name)
    driver("list")
    name, value = cloud.header(cloud.key)
    assert vendor.asked(*cloud.LIST)[0].headers[name] == value


def test_a_key_that_is_refused(cloud, driver, vendor):
    vendor.behave[cloud.LIST] = always(401, {"code": 401, "message": f"Invalid {cloud.key}\x1b[31m\n"})
    refusal = refused(driver, "list")
    assert refusal.code == "denied" and cloud.variable in refusal.text


# --- what is not sent --------------------------------------------------------------------------------


REFUSED = {
    "volumes": ({"volumes": ["/tmp:/data"]}, "directories of this machine"),
    "allow": ({"network": "allow", "allow": ["example.com:22"]}, r"no rules are sent|without schemes, ports"),
    "network": ({"network": "host"}, "none(,| or) open"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_sent_is_refused_before_anybody_is_asked(cloud, driver, vendor, what):
    """Some have volumes and rules of their own: an error says what they have."""
    spec, words = REFUSED[what]
    refusal = create(driver, **spec)
    assert refusal.code == "unsupported" and what in refusal.text and re.search(words, refusal.text), (refusal.code, refusal.text)
    assert vendor.requests == []


# --- trouble -----------------------------------------------------------------------------------------


def test_a_retry_after_is_kept(cloud, driver, vendor):
    times = []

    def busy(handler, request):
        times.append(time.monotonic())
        if len(times) < 3:
            return handler.json(429, {"code": 429, "message": "slow down"}, Retry_After="1")
        return handler.json(400, {"code": 400, "message": "third time"})

    vendor.behave[cloud.CREATE] = busy
    assert "third time" in create(driver).text
    assert len(times) == 3 and times[2] - times[0] >= 2


def test_a_retry_after_beyond_the_deadline_is_not_waited_for(cloud, driver, vendor):
    vendor.behave[cloud.CREATE] = always(429, {"code": 429, "message": "tomorrow"}, Retry_After="3000")
    begun = time.monotonic()
    refusal = create(driver, timeout=10)
    assert refusal.code == "quota" and "tomorrow" in refusal.text
    assert time.monotonic() - begun < 8 and len(vendor.asked(*cloud.CREATE)) == 1


def test_who_says_that_it_is_useless_is_not_asked_again(cloud, driver, vendor):
    vendor.behave[cloud.CREATE] = always(429, {"code": 429, "message": "pay first"}, X_Should_Retry="false")
    refusal = create(driver)
    assert refusal.code == "quota" and "pay first" in refusal.text and len(vendor.asked(*cloud.CREATE)) == 1


def test_what_nobody_wants_any_more_is_not_waited_for(cloud, vendor, make_service):
    """A create that waits for its turn at the vendor while its sandbox is deleted."""
    vendor.behave[cloud.CREATE] = always(429, {"code": 429, "message": "later"}, Retry_After="100")
    service = make_service(runtime=cloud.name, env=cloud.settings(vendor.url, cloud.key)).start()
    made = service.client().post("/v1/sandboxes", {"plugins": [], "wait": 0}).ok(201).json
    eventually(lambda: vendor.asked(*cloud.CREATE), "the vendor was asked")
    begun = time.monotonic()
    service.client().delete(f"/v1/sandboxes/{made['id']}").ok(204)
    assert time.monotonic() - begun < 30 and len(vendor.asked(*cloud.CREATE)) == 1


def test_reading_is_repeated_and_making_is_not(cloud, driver, vendor):
    vendor.behave[cloud.LIST] = lambda handler, request: (
        handler.json(503, {"message": "down"})
        if len(vendor.asked(*cloud.LIST)) < 3
        else handler.json(200, cloud.page([])[0])
    )
    driver("list")
    assert len(vendor.asked(*cloud.LIST)) == 3
    vendor.behave[cloud.CREATE] = always(403, {"code": 403, "message": "your plan"})
    assert "your plan" in create(driver).text
    assert len(vendor.asked(*cloud.CREATE)) == 1


def test_a_lost_answer_is_looked_for_before_it_is_asked_again(cloud, driver, vendor):
    """The vendor has made it, and says so in lists only."""
    made = []

    def lose(handler, request):
        made.append({**cloud.sandbox, cloud.marks: request.json[cloud.marks]})
        handler.close_connection = True

    vendor.behave[cloud.CREATE] = lose
    vendor.behave[cloud.LIST] = lambda handler, request: handler.json(200, cloud.page(made)[0])
    vendor.behave["GET", f"{cloud.one}abc"] = lambda handler, request: handler.json(200, made[0])
    vendor.behave["DELETE", f"{cloud.one}abc"] = always(200, {})
    refusal = create(driver)  # its agent is none
    assert cloud.agent in refusal.text or "preview" in refusal.text or "not found" in refusal.text, refusal
    assert len(vendor.asked(*cloud.CREATE)) == 1


def keys(cloud, vendor):
    return [request.headers.get(cloud.create_key) for request in vendor.asked(*cloud.CREATE)]


def test_who_is_asked_again_is_told_that_it_is_the_same(cloud, driver, vendor):
    """Its lists are slow: the answer was lost, and it is not to be found, so a vendor with keys tells of the first one."""
    if not cloud.create_key:
        pytest.skip("it has no key for a create")
    made = {}

    def lose_the_first(handler, request):
        key = request.headers[cloud.create_key]
        if key in made:
            return handler.json(201, made[key])
        made[key] = {**cloud.sandbox, cloud.marks: request.json[cloud.marks]}
        handler.close_connection = True

    vendor.behave[cloud.CREATE] = lose_the_first
    vendor.behave["GET", f"{cloud.one}abc"] = lambda handler, request: handler.json(200, *made.values())
    vendor.behave["DELETE", f"{cloud.one}abc"] = always(200, {})
    create(driver)  # its agent is none
    assert len(keys(cloud, vendor)) == 2 and len(made) == 1
    vendor.behave[cloud.CREATE] = always(400, {"message": "no"})
    create(driver, image="tools")
    assert len(set(keys(cloud, vendor))) == 2, "another sandbox is another request"
    assert all(key.replace("-", "").isalnum() and key == key.lower() for key in keys(cloud, vendor))


def test_a_later_create_of_the_same_is_another_request(cloud, driver, vendor):
    """The vendor remembers the first, which is gone."""
    if not cloud.create_key:
        pytest.skip("it has no key for a create")
    vendor.behave[cloud.CREATE] = always(400, {"message": "no"})
    box = driver.world.new(driver, create=False)
    for _ in range(2):
        refused(box, "create", timeout=20)
    assert len(set(keys(cloud, vendor))) == 2


def test_one_that_is_being_made_is_waited_for(cloud, driver, vendor):
    """The vendor knows the request that it is asked again, and has not ended it."""
    made = []

    def slow(handler, request):
        if len(vendor.asked(*cloud.CREATE)) == 1:
            handler.close_connection = True
            return
        made.append({**cloud.sandbox, cloud.marks: request.json[cloud.marks]})
        handler.json(409, {"code": 409, "message": "in progress"})

    vendor.behave[cloud.CREATE] = slow
    vendor.behave[cloud.LIST] = lambda handler, request: handler.json(200, cloud.page(made)[0])
    vendor.behave["GET", f"{cloud.one}abc"] = lambda handler, request: handler.json(200, made[0])
    vendor.behave["DELETE", f"{cloud.one}abc"] = always(200, {})
    assert "in progress" not in create(driver).text  # its agent is none
    assert len(vendor.asked(*cloud.CREATE)) == 2


def test_our_own_service_knows_the_key(cloud, driver, vendor, service):
    if not cloud.create_key:
        pytest.skip("it has no key for a create")
    vendor.behave[cloud.CREATE] = always(400, {"message": "no"})
    create(driver)
    (request,) = vendor.asked(*cloud.CREATE)
    account = Account(cloud, service, f"keys-{cloud.name}")
    key = {cloud.create_key: request.headers[cloud.create_key]}
    first, again = (account.client.post(cloud.CREATE[1], request.json, headers=key) for _ in range(2))
    assert first.status in (200, 201), first.text
    assert again.json[cloud.id] == first.json[cloud.id] and len(account.boxes()) == 1
    account.remove(first.json[cloud.id])


@pytest.mark.parametrize("how", ["silent", "drip"])
@pytest.mark.parametrize("where", ["CREATE", "LIST"])
def test_who_does_not_answer_is_not_waited_for(cloud, driver, vendor, how, where):
    vendor.behave[getattr(cloud, where)] = getattr(vendor, how)
    begun = time.monotonic()
    assert create(driver, timeout=3).code == "timeout"
    assert time.monotonic() - begun < 12


def test_an_endless_answer_ends(cloud, driver, vendor):
    vendor.behave[cloud.LIST] = vendor.flood
    assert refused(driver, "list", timeout=60).code == "too_large"


def test_a_list_in_circles_ends(cloud, driver, vendor):
    body, headers = cloud.page([], "again")
    vendor.behave[cloud.LIST] = always(200, body, **headers)
    assert refused(driver, "list", timeout=10).code in ("peer", "timeout")


NONSENSE = {
    "half": b'{"id": "ab',
    "page": b"<html>log in first</html>",
    "list": b"[1, 2]",
    "nothing": b"",
    "null": b"null",
    "no id": b"{}",
    "deep": b"[" * 100000,
    "bytes": b"\xff\xfe\x00",
    "number": 7,
    "path": "../keys",
    "lines": "a\r\nX: y",
    "long": "a" * 5000,
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_told(cloud, driver, vendor, what):
    """Bytes as they are, or an id."""
    wrong = NONSENSE[what]
    body = wrong if isinstance(wrong, bytes) else json.dumps({**cloud.sandbox, cloud.id: wrong}).encode()
    kind = "text/html" if what == "page" else "application/json"
    vendor.behave[cloud.CREATE] = lambda handler, request: handler.raw(201, body, kind)
    assert create(driver, timeout=30).code == "peer"
    vendor.behave[cloud.LIST] = lambda handler, request: handler.raw(200, body, kind)
    answer = driver.ask("list")
    assert answer.get("ids", []) == [], "nobody's sandboxes are ours"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(cloud, driver, vendor, status):
    other = Vendor(cloud)
    try:
        for where in (cloud.CREATE, cloud.LIST):
            vendor.behave[where] = always(status, {}, Location=f"{other.url}{where[1]}")
        assert "somebody else" in refused(driver, "list").text
        del vendor.behave[cloud.LIST]
        assert "somebody else" in create(driver, timeout=30).text
        assert other.requests == []
    finally:
        other.close()


def test_sandboxes_of_others_are_not_ours(cloud, driver, vendor):
    """Whatever the vendor puts into a list: what has not both marks is left alone."""
    vendor.behave[cloud.CREATE] = always(400, {"code": 400, "message": "x"})
    create(driver)
    state = vendor.asked(*cloud.CREATE)[0].json[cloud.marks]["tendon.state"]
    odd = [
        None,
        {},
        {"tendon.id": "aaaaaaaaaa"},
        {"tendon.id": "bbbbbbbbbb", "tendon.state": "0" * 16},
        {"tendon.id": "../cccccc", "tendon.state": state},
        {"tendon.id": 7, "tendon.state": state},
        {"tendon.id": "eeeeeeeeee", "tendon.state": state},
    ]
    listed = [{**cloud.sandbox, cloud.id: f"s{i}", cloud.marks: m} for i, m in enumerate(odd)]
    vendor.behave[cloud.LIST] = always(200, cloud.page(listed)[0])
    assert driver("list")["ids"] == ["eeeeeeeeee"]

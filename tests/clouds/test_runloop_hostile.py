"""A Runloop on its bad days: every call ends in time, what happened is told, and no key goes anywhere else."""

import json
import time

import pytest

from conformance import Refusal, World
from runloop_worlds import settings

KEY = "ak_0123456789abcdef0123456789"
CREATE, LIST = ("POST", "/v1/devboxes"), ("GET", "/v1/devboxes")
TUNNEL = {"tunnel_key": "k1", "auth_mode": "authenticated", "auth_token": "tok"}
DEVBOX = {"id": "dbx_1", "status": "running", "metadata": {}, "tunnel": TUNNEL}
ONE, INSIDE = ("GET", "/v1/devboxes/dbx_1"), "/v1/devboxes/dbx_1/"


def page(*devboxes, more=False):
    return {"devboxes": list(devboxes), "has_more": more, "total_count": len(devboxes)}


def always(status, value, **headers):
    return lambda handler, request: handler.json(status, value, **headers)


class VendorWorld(World):
    """Devboxes that a Vendor promises."""

    def __init__(self, vendor):
        super().__init__("runloop")
        self.env.update(settings(vendor.url, KEY))

    def left_over(self):
        return {}


@pytest.fixture(scope="module")
def cloud():
    return None  # the vendor behaves as these tests say


@pytest.fixture
def driver(vendor):
    vendor.behave[LIST] = always(200, page())
    world = VendorWorld(vendor)
    yield world.open()
    vendor.behave.clear()
    vendor.behave[LIST] = always(200, page())
    world.finish()


def refused(call, *args, **members):
    with pytest.raises(Refusal) as refusal:
        call(*args, **members)
    assert KEY not in refusal.value.text
    assert refusal.value.text.isprintable()
    return refusal.value


def create(driver, timeout=20, **spec):
    return refused(lambda: driver.world.new(driver, create=False, **spec)("create", timeout=timeout))


# --- what is asked -----------------------------------------------------------------------------------


def test_keys(driver, vendor):
    driver("close")
    driver("set", name="runloop.api_key", value="")
    refusal = refused(driver, "open", runtime="runloop")
    assert refusal.code == "denied" and "RUNLOOP_API_KEY" in refusal.text and vendor.requests == []
    driver("set", name="core.runloop_api_key", value=KEY)
    driver("open", runtime="runloop")
    driver("list")
    assert vendor.asked(*LIST)[0].headers["authorization"] == f"Bearer {KEY}"
    vendor.behave[LIST] = always(401, {"message": f"Invalid {KEY}\x1b[31m\n"})
    refusal = refused(driver, "list")
    assert refusal.code == "denied" and "RUNLOOP_API_KEY" in refusal.text


ORIGINS = {
    "tools": {"blueprint_name": "tools"},
    "bpt_2x": {"blueprint_id": "bpt_2x"},
    "snp_3y": {"snapshot_id": "snp_3y"},
    "snapshot:abc": {"snapshot_id": "abc"},
}


@pytest.mark.parametrize("image", ORIGINS)
def test_a_create_as_the_specification_has_it(driver, vendor, image):
    driver("close")
    driver("set", name="runloop.size", value="SMALL")
    driver("set", name="runloop.setup", value="true")
    driver("open", runtime="runloop")
    vendor.behave[CREATE] = always(400, {"message": "no such luck"})
    refusal = create(driver, image=image, env={"A": "b $c"}, labels={"team": "blue"})
    assert "no such luck" in refusal.text
    (request,) = vendor.asked(*CREATE)
    body = request.json
    assert {name: body[name] for name in body if name.endswith(("_id", "_name"))} == ORIGINS[image]
    assert body["environment_variables"] == {"A": "b $c"} and body["tunnel"]["auth_mode"] == "authenticated"
    launch = body["launch_parameters"]
    assert launch["resource_size_request"] == "SMALL" and launch["launch_commands"] == ["true"]
    assert launch["after_idle"] == {"idle_time_seconds": 600, "on_idle": "shutdown"}  # it has an owner
    marks = body["metadata"]
    assert marks["team"] == "blue" and len(marks["tendon.state"]) == 16
    assert marks["tendon.id"] == marks["tendon.session"]
    assert vendor.asked(*LIST), "before anything is made it is looked for by its marks"


def test_a_network_of_none_is_refused(driver, vendor):
    assert "network none" in create(driver, network="none").text
    assert vendor.asked(*CREATE) == []


# --- trouble -----------------------------------------------------------------------------------------


def test_a_lost_answer_is_looked_for_before_it_is_asked_again(driver, vendor):
    """The vendor has made it, and says so in lists only."""
    made = []

    def lose(handler, request):
        made.append({**DEVBOX, "metadata": request.json["metadata"]})
        handler.close_connection = True

    vendor.behave[CREATE] = lose
    vendor.behave[LIST] = lambda handler, request: handler.json(200, page(*made))
    vendor.behave[ONE] = lambda handler, request: handler.json(200, made[0])
    vendor.behave["POST", INSIDE + "shutdown"] = lambda handler, request: (made.clear(), handler.json(200, {}))
    refusal = create(driver)  # there are no executions
    assert "not found" in refusal.text, refusal
    assert len(vendor.asked(*CREATE)) == 1 and vendor.asked("POST", INSIDE + "execute_async")


@pytest.mark.parametrize("how", ["silent", "drip"])
@pytest.mark.parametrize("where", [CREATE, LIST])
def test_who_does_not_answer_is_not_waited_for(driver, vendor, how, where):
    vendor.behave[where] = getattr(vendor, how)
    begun = time.monotonic()
    assert create(driver, timeout=3).code == "timeout"
    assert time.monotonic() - begun < 12


def test_lists_end(driver, vendor):
    vendor.behave[LIST] = vendor.flood
    assert refused(driver, "list", timeout=60).code == "too_large"
    vendor.behave[LIST] = always(200, page(DEVBOX, more=True))
    assert refused(driver, "list", timeout=10).code in ("peer", "timeout")
    assert "starting_after=dbx_1" in vendor.asked(*LIST)[-1].path


NONSENSE = {
    "half": b'{"id": "ab',
    "page": b"<html>log in first</html>",
    "list": b"[1, 2]",
    "nothing": b"",
    "no id": b"{}",
    "path": json.dumps({**DEVBOX, "id": "../keys"}).encode(),
    "lines": json.dumps({**DEVBOX, "id": "a\r\nX: y"}).encode(),
    "long": json.dumps({**DEVBOX, "id": "a" * 5000}).encode(),
    "over": json.dumps({**DEVBOX, "status": "shutdown"}).encode(),
    "devboxes": b'{"devboxes": {"a": 1}, "has_more": true}',
    "deep": b"[" * 100000,
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_told(driver, vendor, what):
    vendor.behave[CREATE] = lambda handler, request: handler.raw(200, NONSENSE[what], "application/json")
    assert create(driver, timeout=30).code == "peer"
    vendor.behave[LIST] = lambda handler, request: handler.raw(200, NONSENSE[what], "application/json")
    assert driver.ask("list").get("ids", []) == [], "nobody's devboxes are ours"


def test_devboxes_of_others_are_not_ours(driver, vendor):
    """Whatever is in a list: what has not both marks, or is over, is left alone."""
    vendor.behave[CREATE] = always(400, {"message": "x"})
    create(driver)
    state = vendor.asked(*CREATE)[0].json["metadata"]["tendon.state"]
    odd = [
        (None, "running"),
        ({"tendon.id": "aaaaaaaaaa"}, "running"),
        ({"tendon.id": "bbbbbbbbbb", "tendon.state": "0" * 16}, "running"),
        ({"tendon.id": "../cccccc", "tendon.state": state}, "running"),
        ({"tendon.id": "dddddddddd", "tendon.state": state}, "shutdown"),
        ({"tendon.id": "eeeeeeeeee", "tendon.state": state}, "suspended"),
        ({"tendon.id": "ffffffffff", "tendon.state": state}, "running"),
    ]
    told = [{**DEVBOX, "id": f"d{i}", "metadata": m, "status": status} for i, (m, status) in enumerate(odd)]
    vendor.behave[LIST] = lambda handler, request: handler.json(
        200, page(*told[4:]) if "starting_after=d3" in request.path else page(*told[:4], more=True)
    )
    assert driver("list")["ids"] == ["ffffffffff", "eeeeeeeeee"], "the oldest is the last one there"


# --- inside ------------------------------------------------------------------------------------------


def give(vendor, **more):
    vendor.behave[CREATE] = always(200, {**DEVBOX, **more})
    vendor.behave[ONE] = always(200, {**DEVBOX, **more})
    vendor.behave["POST", INSIDE + "shutdown"] = always(200, {})


START, WAIT = ("POST", INSIDE + "execute_async"), ("POST", INSIDE + "executions/x1/wait_for_status")
OVER = {"execution_id": "x1", "status": "completed", "exit_status": 0, "stdout": "", "stderr": ""}
ANSWERS = {
    "no id": {**OVER, "execution_id": "../.."},
    "silence": {**OVER, "stderr": "no base64\x1b[2J"},
    "half": {**OVER, "stdout": "\ntendon-output:\nYWJ"},
    "words": {**OVER, "stdout": "\ntendon-output:\n!!!!"},
    "file": {**OVER, "stdout": "\ntendon-file:/etc/none\n"},
    "relative": {**OVER, "stdout": "\ntendon-file:x\n"},
    "status": {**OVER, "exit_status": 10**12, "stdout": "\ntendon-output:\n"},
    "numbers": {**OVER, "stdout": 7, "exit_status": "zero"},
}


@pytest.mark.parametrize("what", ANSWERS)
def test_a_devbox_that_lies(driver, vendor, what):
    give(vendor)
    vendor.behave[START] = always(200, ANSWERS[what])
    assert create(driver, timeout=10).code in ("peer", "not_found")


def test_a_command_without_end_is_killed(driver, vendor):
    give(vendor)
    vendor.behave[START] = always(200, {**OVER, "status": "running"})
    vendor.behave[WAIT] = always(408, {"message": "not yet"})
    kill = ("POST", INSIDE + "executions/x1/kill")
    vendor.behave[kill] = always(200, {})
    assert create(driver, timeout=3).code == "timeout"
    assert vendor.asked(*kill)


def test_one_without_tunnels_is_ended(driver, vendor):
    made = []
    vendor.behave[CREATE] = lambda handler, request: (
        made.append({**DEVBOX, "tunnel": None, "metadata": request.json["metadata"]}),
        handler.json(200, made[0]),
    )
    vendor.behave[LIST] = lambda handler, request: handler.json(200, page(*made))
    vendor.behave[ONE] = lambda handler, request: handler.json(200, made[0])
    vendor.behave["POST", INSIDE + "enable_tunnel"] = always(403, {"message": "no tunnels today"})
    vendor.behave["POST", INSIDE + "shutdown"] = lambda handler, request: (made.clear(), handler.json(200, {}))
    box = driver.world.new(driver, create=False)
    assert "no tunnels today" in refused(box, "create", timeout=20).text and len(vendor.asked(*CREATE)) == 1
    seen = box("inspect")
    assert seen["status"] == "running" and "tunnel" in seen["reason"]
    box.drive("gone")
    assert vendor.asked("POST", INSIDE + "shutdown") and driver("list")["ids"] == []


def test_an_older_service_has_other_tunnels(driver, vendor):
    """Without enable_tunnel there is create_tunnel; its address is no other scheme's, and is dialled as it is."""
    give(vendor, tunnel=None)
    vendor.behave["POST", INSIDE + "create_tunnel"] = always(200, {"url": "gopher://x/"})
    assert "tunnel" in create(driver, timeout=10).text
    vendor.behave["POST", INSIDE + "create_tunnel"] = always(200, {"url": f"{vendor.url}/hand"})
    vendor.behave[START] = always(200, ANSWERS["silence"])
    create(driver, timeout=10)
    assert vendor.asked("POST", INSIDE + "create_tunnel")[-1].json == {"port": 47174}
    assert vendor.asked(*START)

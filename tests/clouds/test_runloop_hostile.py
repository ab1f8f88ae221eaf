"""A Runloop on its bad days, as far as it differs from others (test_cloud_hostile.py)."""

import pytest

from bad_days import always, create, refused
from cloud_worlds import CLOUDS

RUNLOOP = CLOUDS["runloop"]
CREATE, LIST = RUNLOOP.CREATE, RUNLOOP.LIST
DEVBOX = {**RUNLOOP.sandbox, "id": "dbx_1"}
ONE, INSIDE = ("GET", "/v1/devboxes/dbx_1"), "/v1/devboxes/dbx_1/"


def page(*devboxes, more=None):
    return RUNLOOP.page(list(devboxes), more)[0]


@pytest.fixture(scope="module")
def cloud():
    return RUNLOOP


# --- what is asked -----------------------------------------------------------------------------------


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
    assert "environment_variables" not in body and body["tunnel"]["auth_mode"] == "authenticated"
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


# --- lists ------------------------------------------------------------------------------------------


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
    # of the whole create, most of it for the command
    assert create(driver, timeout=10).code == "timeout"
    assert vendor.asked(*START) and vendor.asked(*kill)


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


def test_what_cannot_be_looked_at_is_ended_all_the_same(driver, vendor):
    """It is in the list, with its marks."""
    made = []
    vendor.behave[CREATE] = lambda handler, request: (
        made.append({**DEVBOX, "metadata": request.json["metadata"]}),
        handler.json(200, made[0]),
    )
    vendor.behave[LIST] = lambda handler, request: handler.json(200, page(*made))
    vendor.behave[ONE] = always(500, {"message": "out of order"})
    box = driver.world.new(driver, create=False)
    refused(box, "create", timeout=20)
    assert len(made) == 1
    assert "out of order" in refused(box, "inspect").text
    vendor.behave["POST", INSIDE + "shutdown"] = lambda handler, request: (made.clear(), handler.json(200, {}))
    box.drive("gone")
    assert made == []


def test_an_older_service_has_other_tunnels(driver, vendor):
    """Without enable_tunnel there is create_tunnel; its address is no other scheme's, and is dialled as it is."""
    give(vendor, tunnel=None)
    vendor.behave["POST", INSIDE + "create_tunnel"] = always(200, {"url": "gopher://x/"})
    assert "tunnel" in create(driver, timeout=10).text
    vendor.behave["POST", INSIDE + "create_tunnel"] = always(200, {"url": f"{vendor.url}/hand"})
    vendor.behave[START] = always(200, ANSWERS["silence"])
    create(driver, timeout=10)
    assert vendor.asked("POST", INSIDE + "create_tunnel")[-1].json == {"port": 27174}
    assert vendor.asked(*START)

"""Images of registries, built at the vendor: once, found again by whoever comes later, and given up in time."""

import re
import time

import pytest

from bad_days import create
from cloud_worlds import CLOUDS
from tendons import eventually

IMAGE = "docker://python:3.12"
NAME = re.compile(r"tendon-image-[0-9a-f]{16}-[0-9a-f]{16}")


@pytest.fixture(scope="module", params=["e2b", "runloop"])
def cloud(request):
    return CLOUDS[request.param]


# --- against the service ------------------------------------------------------------------------------


def built(tendon):
    """What the vendor lists: names and how they are."""
    if tendon.cloud.name == "e2b":
        return [(t["names"][0], t["buildStatus"]) for t in tendon.client.get("/templates").ok().json if NAME.match(t["names"][0])]
    return [(b["name"], b["status"]) for b in tendon.client.get("/v1/blueprints").ok().json["blueprints"]]


def forget(tendon):
    for name, _ in built(tendon):
        if tendon.cloud.name == "e2b":
            tendon.client.delete(f"/templates/{name}").ok(204)
        else:
            (one,) = tendon.client.get("/v1/blueprints").ok().json["blueprints"]
            tendon.client.post(f"/v1/blueprints/{one['id']}/delete", {}).ok()


def builds(service, tendon):
    """Those that were asked for, of this tenant."""
    return sum(
        line.get("method") == "POST" and line.get("tenant") == tendon.account.name and bool(re.search("/builds/|/blueprints$", line.get("path", "")))
        for line in service.log_lines()
    )


def test_an_image_is_built_once(make_tendon, service):
    tendon = make_tendon(service, TENDON_CACHE_HAND="false")
    tendon.ok("new", "--name", "one", "--image", IMAGE, timeout=110)
    ((name, status),) = built(tendon)
    assert NAME.fullmatch(name) and status in ("ready", "build_complete")
    assert builds(service, tendon) == 1
    tendon.ok("new", "--name", "two", "--image", IMAGE, timeout=110)
    assert len(built(tendon)) == 1 and tendon.ok("exec", "two", "echo works") == "works\n"
    assert builds(service, tendon) == 1
    forget(tendon)


def test_what_a_killed_process_has_begun_is_waited_for(make_tendon, service):
    tendon = make_tendon(service)
    making = tendon.start("new", "--name", "one", "--image", IMAGE)
    eventually(lambda: builds(service, tendon) or making.poll() is not None, "it was begun", 60)
    making.kill()
    making.communicate()
    tendon.ok("new", "--name", "two", "--image", IMAGE, timeout=110)
    assert builds(service, tendon) == 1 and len(built(tendon)) == 1
    forget(tendon)


# --- against a vendor that does as it likes -----------------------------------------------------------


class Works:
    """It builds as a test wants: states are what it tells of its builds, one after the other."""

    def __init__(self, cloud, vendor):
        self.cloud, self.vendor, self.usual = cloud, vendor, vendor.usual
        self.states = ["building", "ready"]
        self.known = []  # builds of whoever came before: their states
        self.id, self.told, self.log = "b1", "b1", ["all is", "well"]
        self.begun, self.looks, self.names = [], 0, set()
        vendor.usual = self.answer
        vendor.behave[cloud.CREATE] = always_refuse

    def answer(self, handler, request):
        path = request.path.partition("?")[0]
        parts = path.strip("/").split("/")
        if self.cloud.name == "e2b" and "templates" in parts:
            return self.e2b(handler, request, path)
        if self.cloud.name == "runloop" and parts[:2] == ["v1", "blueprints"]:
            return self.runloop(handler, request, path)
        return self.usual(handler, request)

    def state(self):
        self.looks += 1
        return self.states[min(self.looks, len(self.states)) - 1]

    def e2b(self, handler, request, path):
        if path.startswith("/templates/aliases/"):
            self.names.add(path.rpartition("/")[2])
            if not self.known:
                return handler.json(404, {"code": 404, "message": "no"})
            return handler.json(200, {"templateID": "t1", "public": False})
        if (request.method, path) == ("POST", "/v3/templates"):
            self.names.add(request.json["name"])
            return handler.json(202, {"templateID": "t1", "buildID": self.id})
        if request.method == "POST":
            assert path == "/v2/templates/t1/builds/b1"
            self.begun.append(request.json["fromImage"])
            self.known.append("building")
            return handler.json(202, {})
        if path == "/templates/t1":
            return handler.json(200, {"builds": [{"buildID": self.id, "status": state} for state in self.known]})
        offset = int(request.path.partition("logsOffset=")[2])
        entries = [{"message": text, "level": "info"} for text in self.log][offset:][:100]
        state = self.state()
        return handler.json(200, {"buildID": self.told, "status": state, "logEntries": entries, "reason": {"message": "it broke"} if state == "error" else None})

    WORDS = {"ready": "build_complete", "error": "failed"}

    def runloop(self, handler, request, path):
        one = lambda state, told: {"id": told, "name": min(self.names), "state": "created", "status": self.WORDS.get(state, state)}
        if (request.method, path) == ("GET", "/v1/blueprints"):
            self.names.add(re.search("name=([^&]*)", request.path)[1])
            other = {"id": "b9", "name": "other", "status": "build_complete"}
            return handler.json(200, {"blueprints": [other, *(one(state, self.id) for state in self.known)], "has_more": False})
        if request.method == "POST":
            self.begun.append(re.fullmatch("FROM (.*)\n", request.json["dockerfile"])[1])
            self.names.add(request.json["name"])
            self.known.append("building")
            return handler.json(200, one("building", self.id))
        if path.endswith("/logs"):
            return handler.json(200, {"logs": [{"message": text} for text in self.log]})
        state = self.state()
        return handler.json(200, {**one(state, self.told), "failure_reason": "it broke" if state == "error" else None})


def always_refuse(handler, request):
    handler.json(400, {"code": 400, "message": "no such luck"})


def origin(cloud, vendor):
    """What the last sandbox was wanted of."""
    wish = vendor.asked(*cloud.CREATE)[-1].json
    return wish.get("templateID") or wish.get("blueprint_name")


@pytest.fixture
def works(cloud, vendor):
    return Works(cloud, vendor)


def test_it_is_named_by_its_origin(cloud, driver, vendor, works):
    assert "no such luck" in create(driver, image=IMAGE).text
    (name,) = works.names
    assert NAME.fullmatch(name) and works.begun == ["python:3.12"] and origin(cloud, vendor) == name
    works.known[:] = ["ready"]
    create(driver, image=IMAGE)
    assert works.names == {name} and len(works.begun) == 1 and origin(cloud, vendor) == name, "found again"
    works.known.clear()
    create(driver, image="docker://python:3.13")
    assert len(works.names) == 2 and works.begun[1:] == ["python:3.13"]


def test_one_under_way_is_waited_for(cloud, driver, vendor, works):
    """Of another process, or of one that was killed."""
    works.known = ["error", "building"]
    works.states = ["building", "building", "ready"]
    create(driver, image=IMAGE)
    assert works.begun == [] and works.looks == 3 and NAME.fullmatch(origin(cloud, vendor))


def test_a_build_whose_answer_was_lost(cloud, driver, vendor, works):
    answer = works.answer

    def lose(handler, request):
        if request.method != "POST" or request.path == "/v3/templates":
            return answer(handler, request)
        handler.json = lambda *args: None
        answer(handler, request)
        del handler.json
        handler.close_connection = True

    vendor.usual = lose
    create(driver, image=IMAGE)
    assert len(works.begun) == 1 and NAME.fullmatch(origin(cloud, vendor))


def test_a_build_that_fails(cloud, driver, vendor, works):
    works.states = ["building", "error"]
    works.log = ["old"] * 200 + ["E: no such package\x1b[31m", "last words"]
    refusal = create(driver, image=IMAGE)
    assert refusal.code == "not_found" and IMAGE in refusal.text
    assert "it broke: " in refusal.text and "no such package" in refusal.text and refusal.text.endswith("last words")
    assert vendor.asked(*cloud.CREATE) == []
    works.known, works.states, works.looks = ["error"], ["ready"], 0
    create(driver, image=IMAGE)
    assert len(works.begun) == 2 and NAME.fullmatch(origin(cloud, vendor)), "it is tried again"


def test_a_log_with_the_key(cloud, driver, works):
    works.states, works.log = ["error"], [f"sent {cloud.key}", "fine", "x" * 395 + cloud.key + "y" * 220]
    assert create(driver, image=IMAGE).text.endswith("it broke: fine")


def test_a_build_without_end(cloud, driver, vendor, works):
    works.states = ["building"]
    began = time.monotonic()
    refusal = create(driver, image=IMAGE, timeout=4)
    assert refusal.code == "timeout" and "still building" in refusal.text and time.monotonic() - began < 20
    create(driver, image=IMAGE, timeout=4)
    assert len(works.begun) == 1 and vendor.asked(*cloud.CREATE) == []


LIES = ["an id that is none", "another one", "no JSON"]


@pytest.mark.parametrize("lie", LIES)
def test_a_vendor_that_lies(cloud, driver, vendor, works, lie):
    if lie == LIES[0]:
        works.id = "../../x"
    elif lie == LIES[1]:
        works.told = "b2"
    else:
        vendor.usual = lambda handler, request: (
            handler.raw(200, b"<html>", "text/html") if re.search("templates|blueprints", request.path) else works.usual(handler, request)
        )
    assert create(driver, image=IMAGE, timeout=30).code == "peer" and vendor.asked(*cloud.CREATE) == []


@pytest.mark.parametrize("image", ["docker://", "docker://a b", "docker://a\nRUN x", "docker:///etc", "docker://-x"])
def test_what_is_no_image(driver, vendor, works, image):
    assert create(driver, image=image).code == "invalid" and works.begun == [] and works.names == set()


@pytest.mark.parametrize("image", ["space/tools:v1", "docker:3", "docker.io/library/python"])
def test_other_names_are_the_vendors(cloud, driver, vendor, works, image):
    create(driver, image=image)
    assert origin(cloud, vendor) == image and works.names == set()


def test_the_configuration_may_name_one(cloud, driver, vendor, works):
    driver("close")
    driver("set", name="e2b.template" if cloud.name == "e2b" else "runloop.blueprint", value=IMAGE)
    driver("open", runtime=cloud.name)
    create(driver)
    assert works.begun == ["python:3.12"] and NAME.fullmatch(origin(cloud, vendor))

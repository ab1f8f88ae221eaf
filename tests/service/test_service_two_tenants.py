"""Every documented route of every cloud's surface, asked by one tenant for what is another's: it is not there, by its id and by
its name, and nothing of it has changed afterwards."""

import re

import pytest
import yaml

from e2b_wire import declare
from native import at, make, run
from runloop_wire import put_object
from services import eventually
from trees import ROOT

VENDORS = ("e2b", "daytona", "runloop")
SWEREX = ("is_alive", "create_session", "run_in_session", "close_session", "execute", "read_file", "write_file", "upload", "close")
NOBODYS = "nosuchnone"
REFUSED = (401, 403, 404)
# What some routes want to read before they look for anything: members of any body, whichever route it is.
BODY = {
    "name": "theirs", "command": "rm -rf /workspace/mark", "code": "1", "labels": {}, "timeout": 60, "statuses": ["running"],
    "contents": "theirs", "file_path": "mark", "path": "mark", "key": "a", "value": "b", "text": "x", "port": 80, "url": "http://x",
    "sessionId": "theirs", "id": "theirs", "target": "mine:theirs", "tags": ["theirs"], "names": ["mine"], "steps": [], "env": {},
}  # fmt: skip
# What says nothing of whether it is there to who has it: it goes on, there is none of that kind, it is opened by a link, or it is at
# the host of a tunnel alone.
UNSURE = re.compile(r"^/pty/|/stream_|/logs$|/build-logs|/git/|/tags$|/content$")


def documented(vendor):
    paths = yaml.safe_load((ROOT / f"docs/clouds/{vendor}.yaml").read_text())["paths"]
    for path, item in paths.items():
        for method in sorted(set(item) & {"get", "post", "put", "patch", "delete"}):
            if "{" in path:
                yield method, path


@pytest.fixture(scope="module")
def mine(service, alice):
    """One of everything that can be had, by the name of the parameter that documents give it; of each {id} what it is of."""
    box = make(alice, name="mine")
    where = box["id"]
    run(alice, box, "echo mine >/workspace/mark")
    alice.post("/volumes", {"name": "mine"}).ok(201)
    build = declare(alice, "minetemplate")
    alice.post(f"/sandboxes/{where}/snapshots", {"name": "minesnap"}).ok(201)
    alice.post(f"/api/sandbox/{where}/snapshot", {"name": "minecut"}).ok()
    inside = f"/api/toolbox/{where}/process"
    alice.post(f"{inside}/session", {"sessionId": "minesession"}).ok(201)
    command = alice.post(f"{inside}/session/minesession/exec", {"command": "sleep 1000", "runAsync": True}).json["cmdId"]
    alice.post(f"{inside}/pty", {"id": "minesession"}).ok(201)
    begun = alice.post(f"/v1/devboxes/{where}/execute_async", {"command": "sleep 1000"}).ok().json["execution_id"]
    snapshot = alice.post(f"/v1/devboxes/{where}/snapshot_disk", {"name": "minedisk"}).ok().json["id"]
    blueprint = alice.post("/v1/blueprints", {"name": "mineprint", "system_setup_commands": ["true"]}).ok().json["id"]
    built = lambda: alice.get(f"/v1/blueprints/{blueprint}").ok().json["status"] == "build_complete"  # noqa: E731
    eventually(built, "the end of the build")
    thing = put_object(service, alice, b"mine")["id"]
    yield {
        "id": where, "volume": "mine", "template": build["templateID"], "build": build["buildID"], "alias": "minetemplate",
        "snapshot": "minecut", "name": "minesession", "command": command, "execution": begun, "port": "80", "hash": "a" * 64,
        "disk_snapshots": snapshot, "blueprints": blueprint, "objects": thing, "setting": "autostop", "value": "1",
    }  # fmt: skip
    for one in alice.get("/v1/sandboxes").ok().json["sandboxes"]:
        alice.delete(at(one)).ok(204)
    alice.delete("/volumes/mine").ok(204)


def fill(path, named):
    """With these ids; of what stands in no table any word will do."""
    kind = path.split("/")[-2 if path.endswith("{id}") else -3] if path.startswith("/v1/") else ""
    group = next((one for one in ("disk_snapshots", "blueprints", "objects") if f"/{one}/" in path), kind)
    return re.sub(r"{(\w+)}", lambda m: named.get(group if m[1] == "id" and group in named else m[1], "anything"), path)


def everything(alice, mine):
    """What alice has, as she is told, without the times at which she looked."""
    told = [alice.get(path).ok().json for path in (
        "/volumes", "/templates", "/snapshots", "/api/snapshots?limit=100", "/api/volumes",
        "/v1/objects", "/v1/blueprints", "/v1/devboxes/disk_snapshots", f"/api/sandbox/{mine['id']}",
        f"/api/toolbox/{mine['id']}/process/session", f"/api/toolbox/{mine['id']}/process/pty",
        f"/v1/devboxes/{mine['id']}/executions/{mine['execution']}",
    )]  # fmt: skip
    boxes = [[one[name] for name in ("id", "name", "state", "goal")] for one in alice.get("/v1/sandboxes").ok().json["sandboxes"]]
    return [stable(one) for one in told], boxes, run(alice, mine, "cat /workspace/mark; ls -A /workspace")["content"]


def stable(value):
    if isinstance(value, dict):
        return {name: stable(one) for name, one in value.items() if not re.search(r"(?i)(activity|used|at|idle\w*|usage|stats)$", name)}
    return [stable(one) for one in value] if isinstance(value, list) else value


@pytest.fixture
def untouched(alice, mine):
    before = everything(alice, mine)
    yield
    assert everything(alice, mine) == before


def refused(bob, method, path, mine):
    """Like something that was never there."""
    body = None if method in ("get", "delete") else BODY
    bob.close()  # some of the routes are not left
    theirs = bob.request(method.upper(), fill(path, mine), body)
    nobodys = bob.request(method.upper(), fill(path, dict.fromkeys(mine, NOBODYS)), body)
    assert theirs.status in REFUSED, (method, path, theirs)
    assert nobodys.status == theirs.status, (method, path, theirs, nobodys)


@pytest.mark.parametrize("vendor", VENDORS)
def test_it_is_there(alice, mine, vendor):
    """What the other asks for in vain is found by who has it."""
    for method, path in documented(vendor):
        if method == "get" and not UNSURE.search(path):
            assert alice.get(fill(path, mine)).status not in REFUSED, path
            alice.close()


@pytest.mark.parametrize("vendor", VENDORS)
def test_what_is_anothers_is_not_there(bob, mine, untouched, vendor):
    asked = list(documented(vendor))
    assert len(asked) > 20
    problems = []
    for method, path in asked:
        try:
            refused(bob, method, path, mine)
        except AssertionError as problem:
            problems.append(str(problem).splitlines()[0])
    assert not problems, "\n".join(problems)


def test_swe_rex(bob, mine, untouched):
    for route in SWEREX:
        refused(bob, "get" if route == "is_alive" else "post", f"/swerex/{{id}}/{route}", mine)


@pytest.mark.parametrize("what", ["e2b", "daytona", "runloop"])
def test_nothing_is_made_of_it(bob, mine, untouched, what):
    """Sandboxes, templates, and what else is made of something that is there already."""
    where = mine["id"]
    wishes = {
        "e2b": [
            *(("/v2/sandboxes", {"templateID": one}) for one in (mine["template"], "minetemplate", "minesnap", "minecut", where)),
            ("/templates/tags", {"target": "minetemplate:default", "tags": ["theirs"]}),
            ("/v2/templates/{template}/builds/{build}".format(**mine), {"fromTemplate": "base", "steps": []}),
            ("/sandboxes", {"templateID": "base", "volumeMounts": [{"name": "mine", "path": "/mnt/x"}]}),
        ],
        "daytona": [
            *(("/api/sandbox", {"snapshot": one}) for one in ("minecut", "minesnap", "minetemplate", where)),
            ("/api/sandbox", {"volumes": [{"volumeId": "mine", "mountPath": "/mnt/x"}]}),
        ],
        "runloop": [
            *(("/v1/devboxes", {"snapshot_id": one}) for one in (mine["disk_snapshots"], where, mine["blueprints"])),
            *(("/v1/devboxes", {"blueprint_id": one}) for one in (mine["blueprints"], mine["disk_snapshots"], where)),
            ("/v1/devboxes", {"blueprint_name": "mineprint"}),
            ("/v1/devboxes", {"mounts": [{"type": "object_mount", "object_id": mine["objects"], "object_path": "/tmp/x"}]}),
            ("/v1/blueprints", {"name": "x", "dockerfile": "FROM x", "build_context": {"object_id": mine["objects"]}}),
            ("/v1/blueprints", {"name": "x", "base_blueprint_id": mine["blueprints"], "system_setup_commands": ["true"]}),
        ],
    }[what]
    for path, wish in wishes:
        answer = bob.post(path, wish)
        assert answer.status in REFUSED or (answer.status == 400 and "not found" in answer.text), (path, wish, answer)
    assert bob.request("DELETE", "/templates/tags", {"name": "minetemplate", "tags": ["default"]}).status in REFUSED
    for path in ("/v2/sandboxes", "/volumes", "/snapshots", "/api/volumes"):
        assert "mine" not in bob.get(path).ok().text and where not in bob.get(path).text, path
    assert bob.get("/v1/sandboxes").ok().json["sandboxes"] == []

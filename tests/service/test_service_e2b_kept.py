"""What outlives a sandbox of E2B's surface, on the wire: snapshots and volumes."""

from e2b_wire import Envd, create, kill, read, write
from native import at

CONFIG = """
[template.small]
memory = "256m"
plugins = []
"""


def test_snapshots_and_forks(alice, service):
    made = create(alice)
    write(Envd(service, made), "/home/user/kept", b"as it was")
    snapshot = alice.post(f"/sandboxes/{made['sandboxID']}/snapshots", {"name": "one"}).ok(201).json
    write(Envd(service, made), "/home/user/kept", b"later")
    listed = alice.get(f"/snapshots?sandboxID={made['sandboxID']}").ok().json
    assert [one["snapshotID"] for one in listed] == [snapshot["snapshotID"]]
    again = create(alice, templateID=snapshot["snapshotID"], envVars={"LATER": "1"})
    assert read(Envd(service, again), "/home/user/kept") == b"as it was"
    assert Envd(service, again).client.get("/envs").ok().json["LATER"] == "1"
    forks = alice.post(f"/sandboxes/{made['sandboxID']}/fork", {"count": 2, "timeout": 60}).ok(201).json
    for fork in forks:
        assert read(Envd(service, fork["sandbox"]), "kept") == b"later"
    for one in (again, *(fork["sandbox"] for fork in forks)):
        kill(alice, one)
    alice.delete(f"/templates/{snapshot['snapshotID']}").ok(204)
    alice.delete(f"/templates/{snapshot['snapshotID']}").ok(404)
    alice.delete("/templates/small").ok(403)
    kill(alice, made)


def test_a_snapshot_outlives_its_sandbox(alice, bob, service):
    made = create(alice)
    path = f"/sandboxes/{made['sandboxID']}/snapshots"
    ids = {}
    for name in ("two", "two:v1", None):
        write(Envd(service, made), "/home/user/kept", str(name).encode())
        ids[name] = alice.post(path, {"name": name} if name else {}).ok(201).json["snapshotID"]
    for name in ("small", "no name", "../x"):
        assert alice.post(path, {"name": name}).status in (400, 409), name
    kill(alice, made)
    assert {one["snapshotID"] for one in alice.get(f"/snapshots?sandboxID={made['sandboxID']}").ok().json} == set(ids.values())
    assert not {one["templateID"] for one in alice.get("/templates").ok().json} & set(ids.values())
    for name, one in ids.items():
        again = create(alice, templateID=one)
        assert read(Envd(service, again), "kept") == str(name).encode()
        kill(alice, again)
        bob.post("/sandboxes", {"templateID": one}).ok(404)
        bob.delete(f"/templates/{one}").ok(404)
    assert bob.get("/snapshots").ok().json == []
    # It is no sandbox, and another one of its name takes its place.
    assert made["sandboxID"] not in str(alice.get("/v2/sandboxes").ok().json) and "two" not in str(alice.get("/v2/sandboxes").ok().json)
    other = create(alice)
    assert alice.post(f"/sandboxes/{other['sandboxID']}/snapshots", {"name": "two"}).ok(201).json["snapshotID"] == "two"
    kill(alice, other)
    assert len(alice.get("/snapshots").ok().json) == 3
    for one in ("two:v1", "two", ids[None]):
        alice.delete(f"/templates/{one}").ok(204)
        alice.post("/sandboxes", {"templateID": one}).ok(404)
    assert alice.get("/snapshots").ok().json == []


def test_volumes(alice, bob, service):
    alice.post("/volumes", {"name": "data"}).ok(201)
    alice.post("/volumes", {"name": "data"}).ok(409)
    for name in (None, "", "../x", "a/b", 7):
        alice.post("/volumes", {"name": name}).ok(400)
    mounts = [{"name": "data", "path": "/mnt/data"}]
    assert "not found" in bob.post("/sandboxes", {"templateID": "base", "volumeMounts": mounts}).ok(404).json["message"]
    bob.get("/volumes/data").ok(404)
    bob.delete("/volumes/data").ok(404)
    assert bob.get("/volumes").ok().json == []
    for path in ("", "mnt", "/", "/proc", "/mnt/../.."):
        alice.post("/sandboxes", {"templateID": "base", "volumeMounts": [{"name": "data", "path": path}]}).ok(400)
    first = create(alice, volumeMounts=mounts)
    write(Envd(service, first), "/mnt/data/shared", b"of the first")
    assert alice.get(f"/sandboxes/{first['sandboxID']}").ok().json["volumeMounts"] == mounts
    snapshot = alice.post(f"/sandboxes/{first['sandboxID']}/snapshots", {}).ok(201).json["snapshotID"]
    kill(alice, first)
    for template, path in (("base", "/mnt/it"), (snapshot, "/mnt/it"), (snapshot, "/mnt/data")):
        again = create(alice, templateID=template, volumeMounts=[{"name": "data", "path": path}])
        assert read(Envd(service, again), f"{path}/shared") == b"of the first"
        kill(alice, again)
    alice.delete("/volumes/data").ok(409)
    alice.delete(f"/templates/{snapshot}").ok(204)
    alice.delete("/volumes/data").ok(204)
    alice.delete("/volumes/data").ok(404)
    told = [row["detail"] for row in service.audit() if row["what"] in ("volume.delete", "template.delete")]
    assert "data" in told and snapshot in told, told


def test_what_begins_as_a_snapshot_may_have_no_network(alice, service):
    made = create(alice)
    snapshot = alice.post(f"/sandboxes/{made['sandboxID']}/snapshots", {}).ok(201).json["snapshotID"]
    network = lambda one: alice.get(at(one["sandboxID"])).ok().json["spec"]["network"]
    for closed in ({"allow_internet_access": False}, {"network": {"denyOut": ["0.0.0.0/0"]}}):
        child = create(alice, templateID=snapshot, **closed)
        assert network(child) == "none"
        devices = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \\n'"
        events = Envd(service, child).run(devices).out
        assert events == b"lo"
        kill(alice, child)
    child = create(alice, templateID=snapshot)
    assert network(child) == network(made)
    kill(alice, child)
    lists = {"denyOut": ["0.0.0.0/0"], "allowOut": ["example.com"]}
    refused = alice.post("/sandboxes", {"templateID": snapshot, "network": lists}).ok(400)
    assert "snapshot" in refused.json["message"]
    kill(alice, made)
    alice.delete(f"/templates/{snapshot}").ok(204)

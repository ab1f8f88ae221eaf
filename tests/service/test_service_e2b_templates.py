"""E2B's templates on the wire: declared, uploaded, built of their steps, tagged, removed."""

import gzip
import hashlib
import io
import sqlite3
import tarfile

import pytest

from e2b_wire import Envd, begin, built, create, declare, ended, status, step, where
from services import Service, eventually


@pytest.fixture(scope="module")
def alice(service):
    return service.tenant("alice", "--e2b")


@pytest.fixture(scope="module")
def bob(service):
    return service.tenant("bob", "--e2b")


def archive(files):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def link_for(client, build, digest):
    link = client.get(f"/templates/{build['templateID']}/files/{digest}").ok(201).json
    assert link["present"] is False
    return link["url"][link["url"].index("/templates/") :]


def upload(service, client, build, packed):
    """Puts it there as the newer clients do, without a key; its hash."""
    digest = hashlib.sha256(packed).hexdigest()
    service.stranger().request("PUT", link_for(client, build, digest), packed).ok(200)
    return digest


def rows(service, build, column, *change):
    """Of the blobs of a build; after setting their charge to that."""
    db = sqlite3.connect(service.state / "tendon.db", timeout=20)
    with db:
        for n in change:
            db.execute("UPDATE blob SET charge = ? WHERE owner = ?", (n, build["buildID"]))
        found = db.execute(f"SELECT {column} FROM blob WHERE owner = ?", (build["buildID"],)).fetchall()
    db.close()
    return [row[0] for row in found]


def archives(service, build):
    return [f for f in rows(service, build, "id") if (service.state / "blobs" / f).exists()]


def charge(service, build, *change):
    """How many bytes of uploads count for it."""
    return sum(rows(service, build, "charge", *change))


def out(service, sandbox, command):
    return Envd(service, sandbox).run(command).out.decode()


def test_a_recipe_becomes_a_template(service, alice, bob):
    build = declare(alice, "first", tags=["v1"])
    assert build["names"] == ["first"] and build["tags"] == ["v1"] and build["templateID"].startswith("t")
    assert status(alice, build)["status"] == "waiting"
    tree = archive({"src/a.txt": b"one", "src/deep/b.txt": b"two"})
    files = upload(service, alice, build, tree)
    begin(
        alice,
        build,
        step("ENV", "GREETING", "hello world", "TWO", "2"),
        step("WORKDIR", "/home/user/app"),
        step("RUN", "echo $GREETING > said; pwd; echo oops >&2"),
        step("COPY", "src", "data/", "", "", filesHash=files),
        step("ENV", "LATER", "3"),
    ).ok(202)
    end = ended(alice, build)
    assert end["status"] == "ready" and "reason" not in end, end
    entries = [(e["level"], e["message"]) for e in end["logEntries"]]
    assert ("info", "/home/user/app") in entries and ("warn", "oops") in entries, entries
    assert any(m.startswith("[3/5] RUN echo") for _, m in entries) and not any("hello world" in m for _, m in entries)
    assert status(alice, build, len(entries))["logEntries"] == []
    told = alice.get(f"/templates/{build['templateID']}").ok().json
    assert told["buildStatus"] == "ready" and [(b["buildID"], b["status"]) for b in told["builds"]] == [(build["buildID"], "ready")]
    alice.post("/sandboxes", {"templateID": "first"}).ok(404)  # it has the tag v1, and no other
    made = create(alice, templateID="first:v1", envVars={"MINE": "4"})
    assert made["templateID"] == build["templateID"] and made["alias"] == "first"
    assert out(service, made, "pwd; cat said data/a.txt data/deep/b.txt; echo $TWO$LATER$MINE") == (
        "/home/user/app\nhello world\nonetwo234\n"
    )
    assert build["templateID"] in [t["templateID"] for t in alice.get("/templates").ok().json]
    assert alice.get("/templates/aliases/first").ok().json["templateID"] == build["templateID"]
    # The box that it is is no sandbox to anybody, and nothing of it is another tenant's.
    assert [s["sandboxID"] for s in alice.get("/sandboxes").ok().json] == [made["sandboxID"]]
    for path in ("/templates/aliases/first", f"{where(build)}/status", f"/templates/{build['templateID']}", f"/templates/{build['templateID']}/tags"):
        bob.get(path).ok(404)
    bob.post("/sandboxes", {"templateID": build["templateID"]}).ok(404)
    bob.delete("/templates/first").ok(404)
    alice.delete(f"/sandboxes/{made['sandboxID']}").ok(204)
    alice.delete("/templates/first").ok(204)
    eventually(lambda: alice.get("/templates/aliases/first").status == 404, "its end")


def test_a_build_is_known_by_its_name_before_its_end(alice, bob):
    alice.get("/templates/aliases/early").ok(404)
    build = declare(alice, "early")
    assert alice.get("/templates/aliases/early").ok().json["templateID"] == build["templateID"]
    told = alice.get("/templates/early").ok().json
    assert told["names"] == ["early"] and told["buildStatus"] == "waiting" and told["builds"][0]["status"] == "waiting"
    for path in ("/templates/aliases/early", "/templates/early"):
        bob.get(path).ok(404)
    alice.post("/sandboxes", {"templateID": "early"}).ok(404)
    begin(alice, build, step("RUN", "false")).ok(202)
    assert ended(alice, build)["status"] == "error"
    alice.get("/templates/aliases/early").ok(404)


def test_a_step_that_fails_is_told(alice):
    build = declare(alice, "fails")
    begin(alice, build, step("RUN", "echo good"), step("RUN", "echo why >&2; exit 3"), step("RUN", "echo never")).ok(202)
    end = ended(alice, build)
    assert end["status"] == "error" and end["reason"]["step"] == "2", end
    assert "exit status 3" in end["reason"]["message"]
    said = [e["message"] for e in end["logEntries"]]
    assert "good" in said and "why" in said and "never" not in said
    alice.post("/sandboxes", {"templateID": "fails"}).ok(404)
    names = lambda: [box["name"] for box in alice.get("/v1/sandboxes").ok().json["sandboxes"]]
    eventually(lambda: "fails" not in names(), "the end of its box")
    begin(alice, build, step("RUN", "true")).ok(409)


def test_an_image_is_the_root_that_there_is(alice):
    """A jail has one for all names."""
    build = built(alice, "imaged", step("RUN", "true"), fromImage="python:3")
    assert any("python:3" in e["message"] for e in status(alice, build)["logEntries"])
    alice.delete("/templates/imaged").ok(204)
    build = declare(alice, "imaged")
    begin(alice, build, fromImage="a/b", fromImageRegistry={"type": "registry", "username": "u", "password": "p"}).ok(202)
    end = ended(alice, build)
    assert end["status"] == "error" and end["reason"]["step"] == "base", end


def test_what_makes_no_sense_is_refused(alice, service):
    for name in ("", "a b", "../x", "x:", ":y", "base", "code-interpreter-v1"):
        assert alice.post("/v3/templates", {"name": name}).status in (400, 409), name
    alice.post("/v3/templates", {"name": "x", "tags": ["a:b"]}).ok(400)
    build = declare(alice, "senseless")
    for bad in (step("FLY"), step("RUN"), step("ENV", "A"), step("COPY", "a"), {"type": "RUN", "args": [1]}, 7):
        begin(alice, build, bad).ok(400)
    begin(alice, build, step("COPY", "a", "b", filesHash="0" * 64)).ok(400)  # nobody has uploaded it
    link = f"/templates/{build['templateID']}/files/{'a' * 64}"
    url = alice.get(link).ok(201).json["url"]
    alice.get(f"/templates/{build['templateID']}/files/..%2f..%2fx").ok(404)
    for wrong in (link, f"{link}?signature={'0' * 32}", url.split(str(service.port), 1)[1].replace("aaaa", "bbbb")):
        service.stranger().request("PUT", wrong, b"x").ok(401)
    begin(alice, build, step("RUN", "true")).ok(202)
    assert ended(alice, build)["status"] == "ready"
    alice.delete("/templates/senseless").ok(204)


def test_an_archive_is_unpacked_inside(service, alice, tmp_path):
    """Names that lead out of it lead nowhere on this machine; one that is none is a step that fails."""
    mark = tmp_path / "mark"
    build = declare(alice, "hostile")
    files = upload(service, alice, build, archive({f"../../../../../..{mark}": b"x", "good": b"y"}))
    begin(alice, build, step("COPY", "good", "/home/user/", filesHash=files)).ok(202)
    ended(alice, build)
    assert not mark.exists()
    build = declare(alice, "hostile")
    files = upload(service, alice, build, gzip.compress(b"no tar"))
    begin(alice, build, step("COPY", "x", "/home/user/", filesHash=files)).ok(202)
    end = ended(alice, build)
    assert end["status"] == "error" and end["reason"]["step"] == "1", end


def test_tags_move_and_the_untagged_go(service, alice):
    one = built(alice, "tagged", step("RUN", "echo 1 > /home/user/n"))
    assert [t["tag"] for t in alice.get("/templates/tagged/tags").ok().json] == ["default"]
    given = alice.post("/templates/tags", {"target": "tagged:default", "tags": ["old"]}).ok(201).json
    assert given == {"tags": ["old"], "buildID": one["buildID"]}
    # A snapshot does not take its place.
    sandbox = create(alice, templateID="tagged")["sandboxID"]
    for name in ("tagged", "tagged:new"):
        alice.post(f"/sandboxes/{sandbox}/snapshots", {"name": name}).ok(409)
    alice.delete(f"/sandboxes/{sandbox}").ok(204)
    # A build goes with its last tag.
    alice.post("/templates/tags", {"target": "tagged", "tags": ["extra"]}).ok(201)
    alice.delete("/templates/tagged:extra").ok(204)
    alice.delete("/templates/tagged:extra").ok(404)
    assert {t["tag"] for t in alice.get("/templates/tagged/tags").ok().json} == {"default", "old"}
    two = built(alice, "tagged", step("RUN", "echo 2 > /home/user/n"))
    assert two["templateID"] == one["templateID"] and two["buildID"] != one["buildID"]
    for name, n in (("tagged", "2"), ("tagged:old", "1"), (one["templateID"], "2")):
        made = create(alice, templateID=name)
        assert out(service, made, "cat n") == f"{n}\n", name
        alice.delete(f"/sandboxes/{made['sandboxID']}").ok(204)
    alice.request("DELETE", "/templates/tags", {"name": "tagged", "tags": ["old"]}).ok(204)
    alice.post("/sandboxes", {"templateID": "tagged:old"}).ok(404)
    alice.request("DELETE", "/templates/tags", {"name": "none", "tags": ["old"]}).ok(404)
    boxes = lambda: [b for b in alice.get("/v1/sandboxes").ok().json["sandboxes"] if b["name"] == "tagged"]
    eventually(lambda: len(boxes()) == 1, "the end of the other")
    alice.delete("/templates/tagged").ok(204)
    eventually(lambda: not boxes(), "the end of both")


def test_a_template_of_a_template(service, alice):
    built(alice, "lower", step("ENV", "A", "1"), step("WORKDIR", "/home/user/w"), step("RUN", "echo l > l"))
    upper = declare(alice, "upper")
    steps = [step("ENV", "B", "2"), step("RUN", "cat l; echo $A$B > u")]
    alice.post(f"/v2{where(upper)}", {"fromTemplate": "lower", "steps": steps, "startCmd": "echo $B > started; sleep 1000",
                                      "readyCmd": "test -s started"}).ok(202)
    assert ended(alice, upper)["status"] == "ready"
    made = create(alice, templateID="upper")
    assert out(service, made, "pwd; cat l u started; pgrep -cx sleep") == "/home/user/w\nl\n12\n2\n1\n"
    alice.delete(f"/sandboxes/{made['sandboxID']}").ok(204)
    for name in ("upper", "lower"):
        alice.delete(f"/templates/{name}").ok(204)


def test_limits(service, alice, bob):
    mine = service.tenant("carol", "--e2b")
    for i in range(8):
        declare(mine, f"t{i}")
    mine.post("/v3/templates", {"name": "t9"}).ok(429)
    builds = [declare(bob, f"b{i}") for i in range(3)]
    upload(service, bob, builds[2], archive({"a": b"1"}))
    for build in builds[:2]:
        begin(bob, build, step("RUN", "while ! test -e /home/user/go; do sleep 0.1; done")).ok(202)
    begin(bob, builds[2], step("RUN", "true")).ok(429)
    assert status(bob, builds[2])["status"] == "waiting"
    assert charge(service, builds[2]) > 4096 and len(archives(service, builds[2])) == 1
    for box in eventually(lambda: (lambda b: len(b) == 2 and b)(bob.get("/v1/sandboxes").ok().json["sandboxes"]), "boxes"):
        bob.delete(f"/v1/sandboxes/{box['id']}")  # whatever has it, it is the tenant's
    for build in builds[:2]:
        assert ended(bob, build)["status"] == "error"
    eventually(lambda: begin(bob, builds[2], step("RUN", "true")).status == 202, "a place")
    assert ended(bob, builds[2])["status"] == "ready"
    eventually(lambda: charge(service, builds[2]) == 0 and not archives(service, builds[2]), "the end of its files")
    bob.delete("/templates/b2").ok(204)


def test_uploads_count_until_they_are_gone(service):
    dora = service.tenant("dora", "--e2b")
    build = declare(dora, "counted")
    upload(service, dora, build, archive({"a": b"1"}))
    full = 10 << 30
    assert 4096 < charge(service, build) < 8192 and charge(service, build, full) == full
    other = declare(dora, "other")
    for body in (b"", b"x"):
        service.stranger().request("PUT", link_for(dora, other, "b" * 64), body).ok(413)
    assert not archives(service, other)
    # One that fails at once, and whose steps do not name the archive.
    begin(dora, build, fromImage=None, fromTemplate="none-of-that-name").ok(202)
    assert ended(dora, build)["status"] == "error"
    eventually(lambda: charge(service, build) == 0, "its bytes")
    assert not archives(service, build)
    # An upload under way holds its file, so the build waits for it; one file may be copied twice.
    tree = archive({"a": b"1"})
    files = hashlib.sha256(tree).hexdigest()
    connection = service.connect()
    connection.putrequest("PUT", link_for(dora, other, files))
    connection.putheader("Content-Length", str(len(tree)))
    connection.endheaders(tree[:10])
    eventually(lambda: charge(service, other) == 1 << 20, "its upload")
    steps = [step("COPY", "a", f"/home/user/{n}", filesHash=files) for n in "bc"]
    begin(dora, other, *steps).ok(429)
    connection.send(tree[10:])
    assert connection.getresponse().status == 200
    connection.close()
    begin(dora, other, *steps, step("RUN", "cat /home/user/b /home/user/c")).ok(202)
    end = ended(dora, other)
    assert end["status"] == "ready" and "11" in [e["message"] for e in end["logEntries"]], end
    eventually(lambda: not archives(service, other), "the end of its files")
    dora.delete("/templates/other").ok(204)


def test_tags_have_a_bound(service, alice):
    built(alice, "much", step("RUN", "true"))
    tags = [f"t{i}" for i in range(255)]
    for i in range(0, 255, 32):
        alice.post("/templates/tags", {"target": "much", "tags": tags[i : i + 32]}).ok(201)
    alice.post("/templates/tags", {"target": "much", "tags": ["t3"]}).ok(201)  # it has that one
    alice.post("/templates/tags", {"target": "much", "tags": ["one-more"]}).ok(429)
    alice.request("DELETE", "/templates/tags", {"name": "much", "tags": ["t3"]}).ok(204)
    alice.post("/templates/tags", {"target": "much", "tags": ["one-more"]}).ok(201)
    alice.delete("/templates/much").ok(204)


def test_idle_limits_of_the_operator_do_not_refuse_builds(jail_works, tmp_path):
    service = Service(tmp_path / "idle", settings={"idle_pause_seconds": 600, "idle_stop_seconds": 900}).start()
    try:
        built(service.tenant("erin", "--e2b"), "idle", step("RUN", "true"))
    finally:
        service.finish()


@pytest.mark.parametrize("kill", [True, False])
def test_a_service_that_ends_leaves_no_half_template(service, alice, kill):
    """Nor one that has lost its tags."""
    built(alice, "halved", step("RUN", "true"))
    db = sqlite3.connect(service.state / "tendon.db", timeout=20)
    with db:
        db.execute("DELETE FROM recipe_tag WHERE name = 'halved'")
    db.close()
    build = declare(alice, "halved")
    begin(alice, build, step("RUN", "echo begun; sleep 1000")).ok(202)
    eventually(lambda: "begun" in [e["message"] for e in status(alice, build)["logEntries"]], "its log")
    service.restart(kill=kill)
    end = status(alice, build)
    assert end["status"] == "error" and "stopped" in end["reason"]["message"], end
    eventually(lambda: "halved" not in [b["name"] for b in alice.get("/v1/sandboxes").ok().json["sandboxes"]], "its end")

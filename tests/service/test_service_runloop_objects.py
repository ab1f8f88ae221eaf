"""The surface of Runloop on the wire: objects, their links and their bytes."""

from native import at
from runloop_wire import new_object, put_object
from services import eventually


def files_of(service):
    return {f.name for f in (service.state / "blobs").glob("*")}


def test_links_to_objects(service, alice, bob):
    made, link = new_object(alice)
    where = f"/v1/objects/{made['id']}"
    stranger = service.stranger()
    for wrong in (f"{where}/content", link.replace("signature=", "signature=0"), link.replace("until=", "until=9"), link.replace("by=", "by=0")):
        stranger.request("PUT", wrong, b"x").ok(401)
    stranger.get(link).ok(401)  # of an upload
    stranger.request("PUT", link, b"first").ok(200)
    assert alice.get(where).ok().json["state"] == "UPLOADING"
    stranger.request("PUT", link, b"second").ok(200)
    alice.post(f"{where}/complete").ok()
    assert stranger.request("PUT", link, b"third").status == 400  # it does not change any more
    url = alice.get(f"{where}/download?duration_seconds=60").ok().json["download_url"]
    got = stranger.get(url[url.index("/v1/") :]).ok()
    assert got.body == b"second" and got.headers["X-Content-Type-Options"] == "nosniff"
    assert alice.get(f"{where}/download?duration_seconds=0").status == 400
    reader = service.tenant("alice", "--scope", "read")
    assert reader.get(where).ok() and reader.get(f"{where}/download").status == 403
    for wish in ("complete", "delete"):
        assert reader.post(f"{where}/{wish}").status == 403
    key = service.make_key("of-links", "--tenant", "alice")
    url = service.client(key["key"]).get(f"{where}/download").ok().json["download_url"]
    service.client().delete(f"/v1/keys/{key['id']}").ok(204)
    stranger.get(url[url.index("/v1/") :]).ok(401)
    assert made["id"] in files_of(service)
    assert alice.post(f"{where}/delete").ok().json["state"] == "DELETED"
    alice.get(where).ok(404)
    assert made["id"] not in files_of(service)


def test_lists_of_many_objects(service):
    """More than one read of the database gives, whole and in order."""
    erik = service.tenant("erik")
    made = [new_object(erik, "tar" if n % 3 == 0 else "text")[0]["id"] for n in range(300)][::-1]
    listed = erik.get("/v1/objects?limit=5000").ok().json
    assert [one["id"] for one in listed["objects"]] == made and not listed["has_more"] and listed["total_count"] == 300
    page = erik.get(f"/v1/objects?limit=10&starting_after={made[270]}").ok().json
    assert [one["id"] for one in page["objects"]] == made[271:281] and page["has_more"]
    tars = erik.get("/v1/objects?content_type=tar&limit=5").ok().json
    assert tars["total_count"] == 100 and {one["content_type"] for one in tars["objects"]} == {"tar"}
    wish = {"name": "x", "content_type": "text", "metadata": {"a": "b" * 5000}}
    assert "4 KiB" in erik.post("/v1/objects", wish).ok(400).json["message"]
    for one in made:
        erik.post(f"/v1/objects/{one}/delete").ok()
    assert erik.get("/v1/objects").ok().json["total_count"] == 0


def test_objects_count_for_the_disk_of_their_key(service):
    carl = service.tenant("carl", "--max-disk", "64m")
    half = bytes(40 << 20)
    made = put_object(service, carl, half)
    other, link = new_object(carl)
    service.stranger().request("PUT", link, half).ok(413)
    where = f"/v1/objects/{other['id']}"
    assert carl.get(where).ok().json["state"] == "UPLOADING" and carl.post(f"{where}/complete").status == 400
    assert other["id"] not in files_of(service)
    wish = {"disk": "32m"}
    assert "max_disk" in carl.post("/v1/sandboxes", wish).ok(429).json["detail"]
    carl.post(f"/v1/objects/{made['id']}/delete").ok()
    box = carl.post("/v1/sandboxes", wish).ok(201).json
    service.stranger().request("PUT", link, half).ok(413)  # what the sandbox has is taken
    service.stranger().request("PUT", link, half[: 20 << 20]).ok(200)
    carl.post(f"{where}/delete").ok()
    carl.delete(at(box["id"])).ok(204)


def half_put(service, link):
    """An upload that has begun and does not go on."""
    connection = service.connect()
    connection.putrequest("PUT", link)
    connection.putheader("Content-Length", "100")
    connection.endheaders(b"half")
    return connection


def test_bytes_of_objects_go_when_they_count_no_more(service):
    fred = service.tenant("fred")
    made, link = new_object(fred)
    where, file = f"/v1/objects/{made['id']}", service.state / "blobs" / made["id"]
    service.stranger().request("PUT", link, b"first").ok(200)
    with file.open("rb") as reader:
        connection = half_put(service, link)
        eventually(lambda: f"{made['id']}-part" in files_of(service), "its file")
        assert not file.exists() and reader.read() == b""  # a reader that is slow holds nothing
        assert "written" in fred.post(f"{where}/delete").ok(400).json["message"]
    connection.close()
    eventually(lambda: not [f for f in files_of(service) if f.startswith(made["id"])], "its end")
    eventually(lambda: service.stranger().request("PUT", link, b"again").status == 200, "another upload")
    with file.open("rb") as reader:
        fred.post(f"{where}/delete").ok()
        assert not file.exists() and reader.read() == b""


def test_what_a_kill_leaves_of_an_upload(service):
    dana = service.tenant("dana")
    kept = put_object(service, dana, b"kept")
    made, link = new_object(dana)
    connection = half_put(service, link)
    eventually(lambda: f"{made['id']}-part" in files_of(service), "its file")
    (service.state / "blobs" / made["id"]).write_bytes(b"of a kill at its beginning")
    assert service.stranger().request("PUT", link, b"at once").status == 400
    service.restart(kill=True)
    connection.close()
    assert not [f for f in files_of(service) if f.startswith(made["id"])]
    dana.post(f"/v1/objects/{made['id']}/complete").ok(400)
    service.stranger().request("PUT", link, b"again").ok(200)
    assert dana.post(f"/v1/objects/{made['id']}/complete").ok().json["size_bytes"] == 5
    url = dana.get(f"/v1/objects/{kept['id']}/download").ok().json["download_url"]
    assert service.stranger().get(url[url.index("/v1/") :]).ok().body == b"kept"
    for one in (kept, made):
        dana.post(f"/v1/objects/{one['id']}/delete").ok()

"""The hand, kept at the vendor: the second sandbox of an image has it uploaded no more, and begins with nothing of the first one."""

import json
import os

import pytest

from cloud_worlds import CLOUDS, Modal
from tendons import eventually

ALL = {**CLOUDS, "modal": Modal()}
LISTS = {"e2b": "/snapshots", "daytona": "/api/snapshots", "runloop": "/v1/devboxes/disk_snapshots"}


@pytest.fixture(scope="module", params=ALL)
def cloud(request):
    return ALL[request.param]


@pytest.fixture
def tendon(make_tendon, service):
    return make_tendon(service)


def uploads(tendon, service):
    """Of this tenant."""
    mine = tendon.account.name
    return sum(line.get("path", "").endswith(tendon.cloud.upload) and line.get("tenant") == mine for line in service.log_lines())


def notes(tendon):
    return sorted((tendon.state / "clouds" / tendon.cloud.name).glob("tendon-hand-*"))


def kept(tendon):
    """What the vendor lists."""
    told = tendon.client.get(LISTS[tendon.cloud.name]).ok().json
    return [one for one in (told if isinstance(told, list) else told.get("items", told.get("snapshots"))) if "tendon-hand-" in json.dumps(one)]


def test_the_second_create_uploads_nothing(tendon, service):
    tendon.ok("new", "--name", "one", "--env", "SECRET=sesame")
    assert tendon.ok("exec", "one", "echo $SECRET; echo private >mine; echo private >~/mine") == "sesame\n"
    first = uploads(tendon, service)
    assert first > 0 and len(notes(tendon)) == 1
    tendon.ok("new", "--name", "two")
    assert uploads(tendon, service) == first
    told = tendon.ok("exec", "two", "echo \"<$SECRET>\"; ls -A; ls ~/mine 2>&1; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
    assert told.startswith("<>\n") and "sesame" not in told and "private" not in told and "\nmine\n" not in told


def test_another_network_has_another(tendon, service):
    """What a Tendon makes of a snapshot has the network of that, whatever the wish says."""
    if tendon.cloud.name in ("modal", "runloop"):
        pytest.skip("it has no network none")
    told = {}
    for name, network in (("one", "open"), ("none", "none"), ("two", "open"), ("none2", "none")):
        before = {box[tendon.cloud.id] for box in tendon.boxes()}
        tendon.ok("new", "--name", name, "--network", network)
        (box,) = {box[tendon.cloud.id] for box in tendon.boxes()} - before
        told[name] = json.loads(service.tendon("--json", "network", box).stdout)["network"]
    assert told["none"] == told["none2"] == "none" != told["one"] == told["two"], told
    assert len(notes(tendon)) == 2


def test_another_user_or_image_has_another(tendon, service):
    tendon.ok("new", "--name", "one")
    first = uploads(tendon, service)
    if tendon.cloud.name == "modal":
        pytest.skip("Modal: any image is the service's own there")
    before = notes(tendon)
    refused = tendon("new", "--name", "two", "--image", "no-such-thing")
    assert refused.returncode and notes(tendon) == before and uploads(tendon, service) == first


def test_what_is_lost_is_made_again(tendon, service):
    tendon.ok("new", "--name", "one")
    first = uploads(tendon, service)
    (note,) = notes(tendon)
    known = note.read_text()
    note.write_text({"e2b": "gone.gone", "daytona": "tendon-hand-gone", "runloop": "snapshot:snp_gone", "modal": "im-gone"}[tendon.cloud.name])
    if tendon.cloud.name == "daytona":  # whose names are the snapshots
        tendon.client.delete(f"/api/snapshots/{known}").ok()
    tendon.ok("new", "--name", "two")
    assert uploads(tendon, service) == 2 * first and note.read_text() and "gone" not in note.read_text()
    tendon.ok("new", "--name", "three")
    assert uploads(tendon, service) == 2 * first
    assert tendon.ok("exec", "three", "echo works") == "works\n"


def test_few_are_kept(tendon):
    """Whatever users wish for: the oldest go, and an old word that the vendor has none counts no more."""
    tendon.ok("new", "--name", "one")
    (note,) = notes(tendon)
    stem = note.name.rpartition("-")[0]
    for n in range(8):
        other = note.with_name(f"{stem}-{n:016x}")
        other.write_text("")
        os.utime(other, (1000 + n, 1000 + n))
    note.write_text("")
    os.utime(note, (1000, 1000))
    tendon.ok("new", "--name", "two")
    assert note.read_text() and len(notes(tendon)) == 8 and not note.with_name(f"{stem}-{0:016x}").exists()


def test_gc_removes_those_of_other_hands(tendon):
    tendon.ok("new", "--name", "one")
    (note,) = notes(tendon)
    tendon.ok("gc")
    assert notes(tendon) == [note], "it is wanted"
    parts = note.name.split("-")
    parts[3] = "0" * 12
    note.rename(note.with_name("-".join(parts)))
    tendon.ok("gc")
    assert notes(tendon) == []
    if tendon.cloud.name != "modal":
        assert kept(tendon) == []


def test_gc_removes_what_a_killed_client_left_and_nothing_else(tendon):
    if tendon.cloud.name == "modal":
        pytest.skip("Modal lists no images; those of ours end by themselves")
    making = tendon.start("new", "--name", "one")
    eventually(lambda: kept(tendon) or making.poll() is not None, "it is being kept", 60)
    making.kill()
    making.communicate()
    for note in notes(tendon):
        note.unlink()
    tendon.account.make_snapshot("tendon-hand-0123456789abcdef-0123456789ab-0123456789abcdef")  # of another state
    assert len(kept(tendon)) == 2
    tendon.ok("gc")
    assert all("0123456789abcdef" in json.dumps(one) for one in kept(tendon)) and len(kept(tendon)) == 1
    for box in tendon.account.strangers:
        tendon.account.remove(box)


def test_nothing_is_kept_where_that_is_not_wanted(make_tendon, service):
    tendon = make_tendon(service, TENDON_CACHE_HAND="false")
    tendon.ok("new", "--name", "one")
    first = uploads(tendon, service)
    tendon.ok("new", "--name", "two")
    assert uploads(tendon, service) == 2 * first and notes(tendon) == []

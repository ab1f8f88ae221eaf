"""Volumes of the vendor: mounted by their name, shared by sandboxes, and never removed with one."""

import shutil

import pytest

from cloud_worlds import CLOUDS, Modal


@pytest.fixture(scope="module", params=["e2b", "daytona", "modal"])
def cloud(request):
    return {**CLOUDS, "modal": Modal()}[request.param]


@pytest.fixture
def tendon(make_tendon, service):
    """With an account whose volumes go when it does."""
    tendon = make_tendon(service)
    yield tendon
    tendon.ok("rm", "--all", "--quiet")
    if tendon.cloud.name == "modal":  # those that have ended are remembered, with their volumes
        for box in tendon.client.get("/v1/sandboxes").ok().json["sandboxes"]:
            assert tendon.client.delete(f"/v1/sandboxes/{box['id']}").status < 300
    path, key = ("/volumes", "volumeID") if tendon.cloud.name == "e2b" else ("/api/volumes", "id")
    for volume in tendon.client.get(path).ok().json:
        assert tendon.client.delete(f"{path}/{volume[key]}").status < 300


def make(tendon, name):
    """E2B makes none by itself."""
    if tendon.cloud.name == "e2b":
        tendon.client.post("/volumes", {"name": name}).ok(201)


def test_two_share_one(tendon):
    make(tendon, "data")
    tendon.ok("new", "--name", "plain")  # whose hand is kept for others
    tendon.ok("new", "--name", "a", "--volume", "data:/data")
    tendon.ok("exec", "a", "echo from a >/data/file")
    tendon.ok("new", "--name", "b", env={"SANDBOX_VOLUMES": "data:/there"})
    assert tendon.ok("exec", "b", "cat /there/file; echo from b >>/there/file") == "from a\n"
    assert tendon.ok("exec", "a", "cat /data/file") == "from a\nfrom b\n"
    tendon.ok("rm", "a", "b")
    tendon.ok("new", "--name", "later")
    for name in ("plain", "later"):
        assert tendon.ok("exec", name, "ls -d /data /there 2>/dev/null; true") == ""
    tendon.ok("gc")
    tendon.ok("new", "--name", "c", "--volume", "data:/data")
    assert tendon.ok("exec", "c", "cat /data/file") == "from a\nfrom b\n"


def test_one_without_them_is_not_taken_over(tendon):
    """Its row was lost; what is wanted under its name has a volume."""
    make(tendon, "data")
    tendon.ok("new", "--name", "web")
    shutil.rmtree(tendon.state)
    tendon.ok("new", "--name", "web", "--volume", "data:/data")
    assert len(tendon.boxes()) == 2
    assert tendon.ok("exec", "web", "ls -d /data") == "/data\n"
    tendon.ok("gc")


def test_a_directory_of_one(tendon):
    make(tendon, "data")
    if tendon.cloud.name == "e2b":
        assert "E2B" in tendon.fails(69, "new", "--volume", "volume:data/part:/part")
        return
    tendon.ok("new", "--name", "a", "--volume", "data:/data", "--volume", "volume:data/part:/part")
    assert tendon.ok("exec", "a", "echo x >/part/file; cat /data/part/file") == "x\n"


def test_read_only(tendon):
    make(tendon, "data")
    if tendon.cloud.name != "modal":
        assert "read-only" in tendon.fails(69, "new", "--volume", "data:/data:ro")
        assert tendon.boxes() == []
        return
    tendon.ok("new", "--name", "a", "--volume", "data:/data:ro")
    assert tendon.ok("exec", "a", "touch /data/file 2>/dev/null || echo refused") == "refused\n"


def test_directories_of_this_machine_are_refused(tendon, tmp_path):
    assert "this machine" in tendon.fails(69, "new", "--volume", f"{tmp_path}:/data")
    assert tendon.boxes() == []


def test_what_the_vendor_refuses_is_told(tendon):
    """One that is missing at E2B; elsewhere, one more than an account may have."""
    if tendon.cloud.name != "e2b":
        for n in range(100):
            tendon.client.post("/api/volumes", {"name": f"volume{n}"}).ok()
    words = "other" if tendon.cloud.name == "e2b" else "100"
    assert words in tendon("new", "--volume", "other:/data").stderr
    assert tendon.boxes() == []

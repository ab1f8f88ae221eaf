"""The program with devboxes of a Runloop, as far as they differ from others."""

import pytest

from cloud_worlds import CLOUDS
from tendons import eventually


@pytest.fixture(scope="module")
def cloud():
    return CLOUDS["runloop"]


def status(tendon):
    (box,) = tendon.boxes()
    return box["status"]


def test_there_is_no_pause(make_tendon, service):
    tendon = make_tendon(service)
    tendon.ok("new", "--name", "web")
    assert "pause" in tendon("pause", "web").stderr and status(tendon) == "running"


def test_a_long_log(make_tendon, service):
    """What is more than an answer holds comes as a file, which does not stay."""
    tendon = make_tendon(service)
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "web", "head -c 3000000 /dev/zero | tr '\\0' x >>~/.tendon/log || head -c 3000000 /dev/zero | "
              "tr '\\0' x >>/home/user/.tendon/log")
    assert tendon.ok("logs", "web", timeout=90).count("x") >= 3000000
    eventually(lambda: tendon.ok("exec", "web", "ls /tmp/tmp.* 2>/dev/null | wc -l").strip() == "0", "it is removed", 30)


# --- time-outs ---------------------------------------------------------------------------------------


def test_a_time_out_is_kept_off_while_it_is_used(make_tendon, service):
    tendon = make_tendon(service, TENDON_RUNLOOP_TIMEOUT="10")
    tendon.ok("new", "--name", "web")
    assert tendon.ok("exec", "web", "sleep 16; echo still here", timeout=90) == "still here\n"
    assert status(tendon) == "running"
    # Nobody uses it: it is put to rest, and its next use wakes it.
    eventually(lambda: status(tendon) == "suspended", "it rests", 90)
    alive = {"SANDBOX_KEEP_RUNTIME_ALIVE": "true"}
    assert tendon.ok("exec", "web", "echo woken", env=alive, timeout=90) == "woken\n"


# --- ports -------------------------------------------------------------------------------------------


def test_public_ports_have_addresses(make_tendon, service):
    tendon = make_tendon(service, TENDON_RUNLOOP_PUBLIC_PORTS="true")
    tendon.ok("new", "--name", "web", "-p", "8000")
    (box,) = tendon.boxes()
    assert box["tunnel"]["auth_mode"] == "open"
    told = tendon.ok("port", "web")
    # The address of that port, which opens no other one: the key of the tunnel to all is not in it.
    assert f"//8000-{box['id']}" in told and box["tunnel"]["tunnel_key"] not in told and told == tendon.ok("port", "web")
    host = told.partition("//8000-")[2].split()[0]
    assert [service.stranger(headers={"Host": f"{port}-{host}"}).get("/").status for port in (8000, 8001)] == [502, 401]


def test_volumes_are_refused(make_tendon, service):
    """Runloop has none."""
    tendon = make_tendon(service)
    assert "volumes" in tendon.fails(69, "new", "--volume", "data:/data")
    assert tendon.boxes() == []

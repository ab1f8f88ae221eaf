"""A sandbox that says nothing of its network: open where this machine can have a gate, and nothing else anywhere."""

import ctypes
import json
import platform
import shutil
import struct

import outside
import pytest
from test_gate_ways import NEAR, attempt

import peers

# What fails on a kernel without nf_tables: its netlink socket.
SOCKET = {"x86_64": 41, "aarch64": 198}
AF_NETLINK, NETLINK_NETFILTER, EPROTONOSUPPORT = 16, 12, 93


def without_nftables():
    """In the child that becomes tendon: a filter of system calls that root does not need no_new_privs for."""
    load, equal, give = 0x20, 0x15, 0x06
    lines = [
        (load, 0, 0, 0),
        (equal, 0, 5, SOCKET[platform.machine()]),
        (load, 0, 0, 16),
        (equal, 0, 3, AF_NETLINK),
        (load, 0, 0, 32),
        (equal, 0, 1, NETLINK_NETFILTER),
        (give, 0, 0, 0x00050000 | EPROTONOSUPPORT),
        (give, 0, 0, 0x7FFF0000),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    filter = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(lines), ctypes.addressof(code)))
    assert ctypes.CDLL(None).prctl(22, 2, filter, 0, 0) == 0


def isolation(box):
    told = json.loads(box.world.tendon("--json", "inspect", box.id, user=box.user).stdout)
    return (told[0] if isinstance(told, list) else told)["isolation"]


def test_it_says_what_holds(world, boxes):
    for kind, reach, words in (
        ("default", "open", "the internet, and never this machine"),
        ("open", "open", "the internet, and never this machine"),
        ("allow", "allow", "what its rules name"),
        ("host", "host", "its own loopback"),
    ):
        told = isolation(boxes[kind])
        assert (told["reach"], words in told["reaches"]) == (reach, True), told
    people = world.tendon("inspect", boxes["default"].id, user=boxes["default"].user).stdout
    assert "reaches: the internet, and never this machine" in people


@pytest.fixture
def bare(world, user):
    """A sandbox of a machine whose kernel has no nf_tables."""
    # nsenter and setpriv pass the filter on, as every program does.
    return world.box(None, user=user, before=without_nftables)


def test_without_nftables_there_is_none(world, bare, user):
    told = isolation(bare)
    assert (told["reach"], told["network"], told["gated"]) == ("no gate", True, False), told
    assert "nft_tproxy" in told["reaches"]
    assert bare.network()["network"] == "none"
    for way in ("its loopback", "the metadata of a cloud", "its private address"):
        assert attempt(bare, NEAR[way]) is None
    # No route of the wall is left, which would make every address its own.
    assert attempt(bare, f"socket.socket().connect_ex(('{outside.GOOD}', 80)) in (101, 113) or 1 / 0") is not None
    assert bare.sh("cat /etc/resolv.conf").stdout != "nameserver 192.0.0.1\n"


def test_whoever_names_it_is_refused(world, user):
    for network in ("open", "allow"):
        result = world.tendon("new", "--runtime", "jail", "--network", network, user=user, check=False, preexec_fn=without_nftables)
        assert result.returncode and "nft_tproxy" in result.stderr, result
    # One line of configuration is a name, too.
    result = world.tendon("new", "--runtime", "jail", user=user, check=False, preexec_fn=without_nftables,
                          env={"TENDON_JAIL_NETWORK": "open"})  # fmt: skip
    assert result.returncode and "nft_tproxy" in result.stderr, result


def test_one_line_brings_the_old_default_back(world, user):
    box = world.box(None, user=user, TENDON_JAIL_NETWORK="none")
    assert isolation(box)["reach"] == "none" and not isolation(box)["gated"]
    assert attempt(box, f"tcp('{outside.GOOD}', 80)") is None


def test_one_line_makes_it_the_list_that_ships(world, user):
    box = world.box(None, user=user, TENDON_JAIL_NETWORK="allow")
    assert isolation(box)["reach"] == "allow"
    assert attempt(box, f"tcp('{outside.GOOD}', 80)") is None
    assert "no rule" in json.dumps(box.network()["refusals"])


def test_doctor_says_it(world, user):
    def default(**kwargs):
        told = json.loads(world.tendon("--json", "doctor", "--runtime", "jail", user=user, check=False, **kwargs).stdout)
        (jail,) = [one for one in told if one["runtime"] == "jail"]
        (found,) = [f for f in jail["findings"] if f["what"] == "network of a sandbox"]
        return found

    assert "the internet, and never this machine" in default()["detail"]
    assert "what its rules name" in default(env={"TENDON_JAIL_NETWORK": "allow"})["detail"]
    found = default(preexec_fn=without_nftables)
    assert not found["good"] and "nothing but itself" in found["detail"] and "nft_tproxy" in found["detail"]


def test_another_network_has_another_nameserver(world):
    """The gate's is written down in the files of a sandbox, and must not stay there."""
    box = world.box(None)
    assert box.sh("cat /etc/resolv.conf").stdout == "nameserver 192.0.0.1\n"
    world.tendon("stop", box.id)
    world.tendon("resume", box.id, env={"TENDON_JAIL_NETWORK": "host"})
    assert box.sh("cat /etc/resolv.conf").stdout == f"nameserver {outside.NAMES}\n"


def test_the_same_under_gvisor(world, user):
    program = world.base / "runsc" / "runsc"
    if not program.exists():  # where everybody can read it, with what lies beside it
        shutil.copytree(peers.runsc().parent, program.parent)
    box = world.box(None, user=user, flags=("--isolation", "gvisor"), TENDON_JAIL_RUNSC=str(program))
    told = isolation(box)
    assert (told["gvisor"], told["reach"], told["gated"]) == ("systrap", "open", True), told
    assert attempt(box, "http(name('good.test'), 'good.test', '/any')") is not None
    for way in NEAR:
        assert attempt(box, NEAR[way]) is None, way

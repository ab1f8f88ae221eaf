"""A container may do to the directory that it shares with the host what it likes: the host is not led astray by it.

The hand's socket lies in that directory. Root inside takes it away and puts something else there: a link to a server's socket
on the host (one of the test's own that remembers who came, and the engine's, which would be root of the machine), a FIFO, a
file, a directory."""

import concurrent.futures
import pathlib
import sys

import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "service"))

from conformance import Refusal  # noqa: E402
from decoy import Decoy  # noqa: E402
from native import at, make, run  # noqa: E402
from services import Client, eventually  # noqa: E402
from test_service_builds import DockerService  # noqa: E402

SOCKET = "/.tendon/run/hand.sock"
SWAPS = {
    "a link to a server": ("ln -s {decoy} {socket}", "found a symbolic link"),
    "a link to the engine": ("ln -s {engine} {socket}", "found a symbolic link"),
    "a link to a link": ("ln -s {decoy} {socket}.2; ln -s hand.sock.2 {socket}", "found a symbolic link"),
    "a link through the root of a process": ("ln -s /proc/self/root{decoy} {socket}", "found a symbolic link"),
    "a FIFO": ("mkfifo {socket}", "found a FIFO"),
    "a file": ("echo x > {socket}", "found a regular file"),
    "a directory": ("mkdir {socket}", "found a directory"),
    "nothing": ("true", "No such file"),
}


@pytest.fixture
def decoy(tmp_path):
    decoy = Decoy(tmp_path / "d")
    yield decoy
    decoy.close()


def swap(what, engine, decoy):
    """The command that does it, inside."""
    command = SWAPS[what][0].format(decoy=decoy.path, engine=engine.address.removeprefix("unix://"), socket=SOCKET)
    return f"mv {SOCKET} {SOCKET}.old; {command}"


@pytest.mark.parametrize("what", SWAPS)
def test_something_else_instead_of_the_socket(docker_world, engine, decoy, what):
    box = docker_world.new(docker_world.open(), user="root")
    box.ok(swap(what, engine, decoy))
    other = box.seen_by(docker_world.open())
    assert other.status() == "running"
    with pytest.raises(Refusal, match=SWAPS[what][1]):
        other.run("true")
    assert decoy.heard == []
    # It is still its owner's to stop, and works again when the hand has made its socket anew.
    if what in ("a link to a server", "a file"):
        box.driver("exec", id=box.id, argv=["rm", "-rf", SOCKET])
        other.drive("stopped")
        other.drive("running")
        assert other.ok("echo works") == "works"


def test_a_start_does_not_follow_either(docker_world, engine, decoy):
    """The host looks for the hand while it starts: what lies there since the last time is not the hand."""
    box = docker_world.new(docker_world.open(), user="root")
    box.ok(swap("a link to a server", engine, decoy))
    docker_world.docker("kill", docker_world.container(box)["Id"])  # a hand that ends takes its socket away
    with pytest.raises(Refusal):
        box.drive("running", timeout=8)
    assert decoy.heard == []


@pytest.mark.parametrize("there", ["mkfifo x", "mkfifo y; ln -s y x", "ln -s /proc/1/root/tmp/evil x", "ln -s x x", "mkdir x"])
def test_a_copy_over_something_else(docker_world, there):
    """Files go in by the engine: it does not wait, and what it cannot do is told."""
    box = docker_world.new(docker_world.open(), user="root")
    box.ok(f"mkdir /data; cd /data; {there}")
    try:
        box("put", path="/data/x", text="new", mode=0o644, timeout=20)
        assert box.ok("cat /data/x") == "new"
    except Refusal as refusal:
        assert "mkdir" in there and "x" in refusal.text


# --- through the service ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(engine, static_hand, tmp_path_factory):
    service = DockerService(tmp_path_factory.mktemp("trust"), engine).start()
    yield service
    service.finish()


def many(client, path):
    """More requests at once than connections are kept."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        clients = [Client(client.service, client.key) for _ in range(16)]
        return list(pool.map(lambda one: one.get(path), clients))


@pytest.mark.parametrize("what", ["a link to the engine", "a link to a server", "a FIFO", "a file"])
def test_a_tenant_does_not_reach_the_engine(service, engine, scratch_image, decoy, what):
    acme = service.tenant(f"acme-{list(SWAPS).index(what)}")
    box = make(acme, template="busybox", image=scratch_image, user="root")
    assert run(acme, box, swap(what, engine, decoy))["extras"]["metadata"]["exit_code"] == 0

    def refused():
        answers = many(acme, at(box, "/hand/version"))
        assert not [a for a in answers if b"ApiVersion" in a.body or a.body == b"decoy"], answers
        return [a for a in answers if a.status == 502]

    eventually(refused, "a connection that was made anew")
    assert acme.get(at(box, "/hand/../containers/json")).status >= 400
    assert decoy.heard == []
    acme.delete(at(box))


@pytest.mark.parametrize("wish", [{"workspace": "/.tendon/run"}, {"workspace": "/./.tendon"}])
def test_nobody_works_where_the_hand_is(service, scratch_image, wish):
    acme = service.tenant("acme-wish")
    refused = acme.post("/v1/sandboxes", {"template": "busybox", "image": scratch_image, **wish})
    assert refused.status == 400 and "/.tendon" in refused.body.decode(), refused

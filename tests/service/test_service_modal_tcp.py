"""Modal's unencrypted ports: bytes of whoever connects, by ports of the service's own."""

import concurrent.futures
import contextlib
import socket

import pytest

from modal_wire import DEBIAN, EXHAUSTED, INVALID, NOT_FOUND, PRECONDITION, Wire, create, text, unpack, wire
from services import Service, eventually

ECHO = """import socketserver as s
class Echo(s.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
s.ThreadingTCPServer(('127.0.0.1', %d), Echo).serve_forever()"""


def free_ports(count):
    """The first of so many that nobody has; below those that the kernel gives out."""
    for first in range(21000, 29000, count):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise AssertionError("no ports")


def echoes(port):
    """Whether who connects is answered; a connection that leads nowhere ends."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(b"line\n")
            return connection.makefile("rb").readline() == b"line\n"
    except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
        return False


def is_closed(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionRefusedError:
        return True
    return False


def create_tcp(client, image, *ports):
    return create(client, image, (1, "python3"), (1, "-c"), (1, ECHO % ports[0]), (20, [(1, [(1, p), (2, 1)]) for p in ports]))[0]


def tcp(client, box):
    """Of each port inside, that of the service."""
    rows = map(unpack, client.call("SandboxGetTunnels", [(1, box)]).one[2])
    return {row[5][0]: row[4][0] for row in rows if text(row, 3) == "127.0.0.1"}


@pytest.fixture
def narrow(jail_works, tmp_path):
    """Three ports for all, two for a tenant; the first of them in `first`."""
    first = free_ports(3)
    service = Service(tmp_path, settings={"tcp_ports": f"{first}-{first + 2}", "max_tcp_ports": "2"})
    service.first = first
    yield service.start()
    service.finish()


def test_tcp_ports_are_as_many_as_the_operator_gives(narrow):
    alice, bob, carol = (wire(narrow, name) for name in ("alice", "bob", "carol"))
    image = text(alice.call("ImageGetOrCreate", DEBIAN).one, 1)

    def refused(client, *ports):
        definition = [(3, image), (7, 600), (20, [(1, [(1, p), (2, 1)]) for p in ports])]
        return client.call("SandboxCreateV2", [(1, "ap-x"), (2, definition)])

    assert "3 more are wanted" in refused(alice, 1, 2, 3).ok(EXHAUSTED).message
    refused(alice, 0).ok(INVALID)
    refused(alice, 65536).ok(INVALID)
    assert narrow.client().get("/v1/sandboxes").json["sandboxes"] == []  # nothing was made
    one = create_tcp(alice, image, 9000, 9001)
    assert sorted(tcp(alice, one).values()) == [narrow.first, narrow.first + 1]
    refused(alice, 9000).ok(EXHAUSTED)
    two = create_tcp(bob, image, 9000)
    assert tcp(bob, two) == {9000: narrow.first + 2}
    assert "service.tcp_ports" in refused(carol, 9000).ok(EXHAUSTED).message
    assert alice.call("SandboxGetTunnels", [(1, two)]).status == NOT_FOUND
    alice.call("SandboxTerminate", [(1, one)]).ok()
    eventually(lambda: is_closed(narrow.first) and is_closed(narrow.first + 1), "ports of one that has ended")
    three = create_tcp(carol, image, 9000)
    assert tcp(carol, three) == {9000: narrow.first}
    eventually(lambda: echoes(narrow.first) and echoes(narrow.first + 2), "the servers inside")
    # Not even one that comes to life again gets back what another tenant has by now.
    narrow.client().post(f"/v1/sandboxes/{one[3:]}/resume").ok()
    alice.call("SandboxGetTunnels", [(1, one)]).ok(NOT_FOUND)
    narrow.restart(kill=True)
    assert tcp(carol, three) == {9000: narrow.first}
    narrow.client().delete(f"/v1/sandboxes/{three[3:]}")
    eventually(lambda: is_closed(narrow.first), "the port of one that was deleted")


def test_a_tcp_port_outlives_pause_and_restart(narrow):
    alice, admin = wire(narrow, "alice"), narrow.client()
    image = text(alice.call("ImageGetOrCreate", DEBIAN).one, 1)
    one = create_tcp(alice, image, 9000)
    port = tcp(alice, one)[9000]
    eventually(lambda: echoes(port), "the server inside")
    admin.post(f"/v1/sandboxes/{one[3:]}/pause").ok()
    assert echoes(port)  # use wakes it
    for kill in (False, True):
        narrow.restart(kill=kill)
        assert tcp(alice, one) == {9000: port} and echoes(port)
    narrow.stop()
    with socket.create_server(("127.0.0.1", port)):
        narrow.start()
        assert f"TCP port {port}" in alice.call("SandboxGetTunnels", [(1, one)]).ok(PRECONDITION).message
    assert tcp(alice, one) == {9000: port} and echoes(port)
    narrow.stop()
    narrow.settings["tcp_ports"] = f"{port + 1}-{port + 2}"  # the operator has changed his mind
    narrow.start()
    assert "service.tcp_ports" in alice.call("SandboxGetTunnels", [(1, one)]).ok(PRECONDITION).message
    assert is_closed(port)


def test_a_tcp_port_ends_with_its_key_and_its_time(make_service, jail_works):
    service = make_service().start()
    key = service.make_key("tcp", "--tenant", "dora")
    dora = Wire(service, key["key"])
    image = text(dora.call("ImageGetOrCreate", DEBIAN).one, 1)
    one = create_tcp(dora, image, 9000)
    late = create(dora, image, (7, 3), (20, [(1, [(1, 9000), (2, 1)])]))[0]
    ports = [tcp(dora, box)[9000] for box in (one, late)]
    host = text(unpack(dora.call("SandboxGetTunnels", [(1, late)]).one[2][0]), 1)
    eventually(lambda: echoes(ports[0]), "the server inside")
    # Who connects in that very moment does not wake it.
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: eventually(lambda: is_closed(ports[1]), "its time is over"), range(4)))
    assert service.stranger(headers={"Host": f"{host}:{service.port}"}).get("/").status == 401
    look = lambda: service.client().get(f"/v1/sandboxes/{late[3:]}").ok().json["state"]
    eventually(lambda: look() in ("paused", "stopped"), "it rests: its ports are closed as soon as that is ordered")
    with socket.create_connection(("127.0.0.1", ports[0]), timeout=60) as connection:
        connection.sendall(b"line\n")
        assert connection.recv(5) == b"line\n"
        assert service.tendon("key", "revoke", "tcp").returncode == 0
        eventually(lambda: not echoes(ports[0]), "nobody new comes in")
        assert connection.recv(5) == b""  # cut


def test_nothing_is_open_beyond_this_machine_by_itself(jail_works, tmp_path):
    port = free_ports(1)
    service = Service(tmp_path, listen=[f"0.0.0.0:{port}"], flags=["--insecure"]).start()
    try:
        alice = wire(service, "alice")
        image = text(alice.call("ImageGetOrCreate", DEBIAN).one, 1)
        wish = [(1, "ap-x"), (2, [(3, image), (7, 600), (20, [(1, [(1, 9000), (2, 1)])])])]
        assert "service.tcp_ports" in alice.call("SandboxCreateV2", wish).ok(INVALID).message
        service.stop()
        service.settings["max_tcp_ports"] = "0"
        service.start()
        assert "service.max_tcp_ports" in alice.call("SandboxCreateV2", wish).ok(INVALID).message
    finally:
        service.finish()

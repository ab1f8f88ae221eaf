"""Clients that want more than their share: memory, connections, lines of the log."""

import os
import resource
import socket
import ssl
import threading

import pytest

from native import at, make, run, run_action
from services import Service, eventually, measured, memory, self_signed

MEGA = 1 << 20
BODY = 60 * MEGA


@pytest.fixture
def released(make_service):
    """Starts services as users run them."""
    return lambda **kwargs: measured(make_service(**kwargs)).start()


# --- memory ----------------------------------------------------------------------------------------


class Unfinished:
    """A request whose body does not end."""

    def __init__(self, service, path, key=None, size=BODY):
        self.socket = socket.create_connection(("127.0.0.1", service.port), timeout=20)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n"
        self.socket.sendall((head + (f"X-API-Key: {key}\r\n" if key else "") + "\r\n").encode())
        self.answer = b""

    def send(self, n):
        """False: it was answered before all of that was sent."""
        block = b" " * (1 << 16)
        try:
            for _ in range(n // len(block)):
                self.socket.sendall(block)
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.socket.settimeout(0.5)
        try:
            while piece := self.socket.recv(65536):
                self.answer += piece
        except (TimeoutError, ConnectionResetError):
            pass
        self.socket.settimeout(20)
        return not self.answer

    def close(self):
        self.socket.close()


def attack(requests, n):
    """All of them send at once; those that are still held."""
    threads = [threading.Thread(target=request.send, args=[n]) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [request for request in requests if not request.answer]


def test_unfinished_bodies_are_bounded(released, jail_works):
    """Ten of 60 MB by one tenant: it has half of request_memory, the others have the rest."""
    service = released()
    alice, bob = service.tenant("alice"), service.tenant("bob")
    box, other = make(alice), make(bob)
    before = memory(service)
    requests = [Unfinished(service, at(box, "/actions"), alice.key) for _ in range(10)]
    held = attack(requests, BODY - MEGA)
    assert 1 <= len(held) < 10, "some are taken, not all"
    for request in requests:
        if request not in held:
            head = request.answer.partition(b"\r\n\r\n")[0].lower()
            assert head.startswith(b"http/1.1 503") and b"retry-after:" in head, request.answer
            assert b"no memory for this request body" in request.answer
    assert memory(service) - before < 380 * MEGA
    # Small requests of the same tenant, and large ones of another, are not held up.
    assert run(alice, box, "echo small")["content"] == "small"
    reply = bob.post(at(other, "/actions"), run_action("true #" + "x" * (20 * MEGA)))
    assert reply.status == 200, reply
    for request in requests:
        request.close()
    eventually(
        lambda: alice.post(at(box, "/actions"), run_action("true #" + "x" * (20 * MEGA))).status == 200,
        "what was held is given back",
    )


def test_all_tenants_together_are_bounded(released, jail_works):
    service = released(settings={"request_memory": "64m"})
    boxes = [(tenant, make(tenant)) for tenant in map(service.tenant, ("a", "b", "c"))]
    before, held = memory(service), []
    for _ in range(5):  # what the first have had is not kept for the next
        requests = [Unfinished(service, at(b, "/actions"), t.key, 30 * MEGA) for t, b in boxes for _ in range(4)]
        held.append(len(attack(requests, 29 * MEGA)))
        assert memory(service) - before < 100 * MEGA, held
        for request in requests:
            request.close()
    assert max(held) in (1, 2), held


def test_strangers_hold_next_to_nothing(released, jail_works):
    service = released()
    before = memory(service)
    paths = ["/dashboard/login", "/v1/sandboxes", "/start", "/nowhere", "/api/v1/webhooks/zzzzzzzzzz/conversations"]
    requests = [Unfinished(service, path) for path in paths * 4]
    attack(requests, 8 * MEGA)
    assert memory(service) - before < 40 * MEGA
    for request in requests:
        request.close()


def test_a_small_text_with_a_large_tree(released, jail_works):
    """A million values in 2 MB: each such tree is held in the tenant's share, not beside it."""
    service = released(settings={"request_memory": "64m"})
    alice = service.tenant("alice")
    box = make(alice)
    body = b'{"action": {"action": "run", "args": {"command": "true", "x": [' + b"{}," * 300_000 + b"0]}}}"
    before = memory(service)
    answers = []

    def ask():
        answers.append(service.client(alice.key).post(at(box, "/actions"), body))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} <= {503, 422, 400}, answers
    assert memory(service) - before < 120 * MEGA
    assert run(alice, box, "echo fine")["content"] == "fine"


def test_slow_readers_of_a_large_list(released, jail_works):
    """25 MB for each of forty who ask and do not read: what they hold is their tenant's, and others read on."""
    service = released()
    alice, bob = service.tenant("alice"), service.tenant("bob")
    box = alice.post("/api/v1/sandboxes").ok().json
    path = f"/api/v1/webhooks/{box['id']}/conversations"
    agent = service.stranger(headers={"X-Session-API-Key": box["session_api_key"]})
    for n in range(100):
        agent.post(path, {"id": f"c{n}", "title": "x" * (250 << 10)}).ok()
    before = memory(service)
    readers = []
    for _ in range(40):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.settimeout(20)
        reader.connect(("127.0.0.1", service.port))
        reader.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {alice.key}\r\n\r\n".encode())
        readers.append(reader)
    first = [reader.recv(256) for reader in readers]
    poor = [line for line in first if line.startswith(b"HTTP/1.1 503")]
    assert 1 <= len(poor) < 40 and all(b"retry-after" in line.lower() for line in poor), first
    assert memory(service) - before < 400 * MEGA
    assert bob.get("/v1/sandboxes").status == alice.get(f"/v1/sandboxes/{box['id']}").status == 200
    for reader in readers:
        reader.close()
    eventually(lambda: alice.get(path).status == 200, "what was held is given back")


# --- connections -----------------------------------------------------------------------------------


@pytest.fixture
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 12000:
        pytest.skip(f"{hard} open files are too few")
    resource.setrlimit(resource.RLIMIT_NOFILE, (12000 if hard == resource.RLIM_INFINITY else hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def slow_connections(service, count, first=b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "):
    """Connections that have begun a request and do not go on."""
    made = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", service.port), timeout=20)
        s.sendall(first)
        made.append(s)
    return made


def close_all(connections):
    for s in connections:
        s.close()


def test_slow_connections_keep_nobody_out(make_service, jail_works, many_files):
    service = make_service().start()
    alice = service.tenant("alice")
    box = make(alice)
    kept = service.client(alice.key)
    kept.get("/v1/me").ok()
    connection = kept.connection
    slow = slow_connections(service, 4100)
    for _ in range(20):
        assert service.stranger().get("/healthz").status == 200
        service.client(alice.key).get("/v1/me").ok()
    kept.get("/v1/me").ok()
    assert kept.connection is connection, "who has a key is not sent away for who has none"
    assert run(alice, box, "echo fine")["content"] == "fine"
    close_all(slow)


def test_strangers_that_say_nothing_have_little_time(make_service, jail_works):
    service = make_service().start()
    silent = socket.create_connection(("127.0.0.1", service.port), timeout=40)
    assert silent.recv(1) == b"", "closed after ten seconds or so"
    silent.close()
    # One that has shown a key may rest for longer.
    client = service.client()
    client.get("/v1/me").ok()
    known = client.connection.sock
    known.settimeout(14)
    with pytest.raises(TimeoutError):
        known.recv(1)


def test_slow_handshakes_keep_nobody_out(make_service, jail_works, many_files, tmp_path):
    cert, key, context = self_signed(tmp_path)
    service = make_service(settings={"tls_cert": cert, "tls_key": key})
    service.context = context
    service.start()
    slow = slow_connections(service, 2000, b"\x16\x03\x01")
    for _ in range(5):
        assert service.stranger().get("/healthz").status == 200
        service.client().get("/v1/me").ok()
    close_all(slow)


def test_suites_have_forward_secrecy(make_service, jail_works, tmp_path):
    cert, key, context = self_signed(tmp_path)
    service = make_service(settings={"tls_cert": cert, "tls_key": key})
    service.context = context
    service.start()
    for suites, good in (("ECDHE+AESGCM", True), ("AES256-GCM-SHA384:AES128-SHA", False), ("ECDHE+SHA1", False)):
        client = ssl.create_default_context(cafile=str(cert))
        client.maximum_version = ssl.TLSVersion.TLSv1_2
        client.set_ciphers(suites)
        with socket.create_connection(("127.0.0.1", service.port), timeout=20) as s:
            if good:
                with client.wrap_socket(s, server_hostname="localhost") as tls:
                    assert tls.cipher()[0].startswith("ECDHE")
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    client.wrap_socket(s, server_hostname="localhost")


# --- the log ---------------------------------------------------------------------------------------


def test_strangers_do_not_flood_the_log(make_service, jail_works):
    service = make_service().start()
    stranger = service.stranger()
    for _ in range(1500):
        stranger.get("/healthz")
    client = service.client()
    for _ in range(300):
        client.get("/v1/me").ok()
    # All are answered before they are written; the last line of a stranger says how many were not.
    eventually(lambda: stranger.get("/healthz").status and lines_of(service, "left out"), "it is told", 20)
    requests = [line for line in lines_of(service, "request") if line["message"] == "request"]
    told = sum(line["requests"] for line in lines_of(service, "left out"))
    mine = [line for line in requests if line["key"]]
    assert len(mine) >= 300, "those with a key are all there"
    assert len(requests) - len(mine) < 1200 and told >= 300, (len(requests), len(mine), told)


def test_a_tenant_over_its_rate_does_not_flood_the_log(make_service, jail_works):
    service = make_service().start()
    hasty = service.client(service.make_key("hasty", "--tenant", "t", "--rate", "5")["key"])
    refused = sum(hasty.get("/v1/me").status == 429 for _ in range(2000))
    eventually(lambda: hasty.get("/v1/me").status and lines_of(service, "left out"), "it is told", 20)
    written = [line for line in lines_of(service, "request") if line.get("status") == 429]
    told = sum(line["requests"] for line in lines_of(service, "left out"))
    assert refused > 1000 and len(written) < refused - 300 and told >= 300, (refused, len(written), told)


def lines_of(service, word):
    return [line for line in service.log_lines() if word in line["message"]]


# --- the state directory ---------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["serve"], ["ls"], ["key", "ls"], ["gc"]])
def test_a_state_directory_of_others_is_refused(tmp_path, words):
    service = Service(tmp_path)
    service.ids.stop()
    assert service.tendon("ls").returncode == 0
    service.state.chmod(0o777)
    result = service.tendon(*words)
    assert result.returncode == 77 and "others can write to it (mode 0777)" in result.stderr, result
    service.state.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(service.state, 12345, 12345)
        result = service.tendon(*words)
        assert result.returncode == 77 and "belongs to user 12345" in result.stderr, result
        os.chown(service.state, 0, 0)
    assert service.tendon("ls").returncode == 0

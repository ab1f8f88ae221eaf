"""The service's own life: addresses it takes and refuses, TLS, stopping, draining, upgrading in place, two of them."""

import functools
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from native import at, make, run_action
from services import PATIENCE, Service, eventually, self_signed

ANY = "/v1/nothing-here"  # needs a key; with one it is 404


@pytest.fixture
def plain(make_service):
    """A service without sandboxes, started."""
    return make_service(runtime="local").start()


class Held:
    """A request whose body is still on its way."""

    def __init__(self, service):
        self.socket = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE)
        head = f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {service.admin}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        self.socket.sendall(head.encode())

    def finish(self):
        """Sends the body and reads the answer to its end."""
        self.socket.sendall(b"[]")  # no sandbox, but an answer
        answer = b""
        while piece := self.socket.recv(65536):
            answer += piece
        self.socket.close()
        return answer


def ended(service):
    return service.process.poll() is not None


# --- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["0.0.0.0:0", "0", "[::]:0", "192.0.2.1:7171"])
def test_addresses_beyond_this_machine_are_refused(make_service, address):
    service = make_service(runtime="local")
    result = service.tendon("serve", "--listen", address)
    assert result.returncode == 77 and result.stdout == ""
    assert address in result.stderr and "--tls-cert" in result.stderr and "--insecure" in result.stderr


@pytest.mark.parametrize("address", ["hello", "127.0.0.1:70000", "pair:3", "fd:77", "unix:"])
def test_addresses_that_make_no_sense(make_service, address):
    result = make_service(runtime="local").tendon("serve", "--listen", address)
    assert result.returncode not in (0, 1) and address.partition(":")[0] in result.stderr


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_insecure_is_said_to_be_wanted(make_service, address):
    service = make_service(runtime="local", listen=[address], flags=["--insecure"]).start()
    assert service.url.startswith("http://127.0.0.1:")
    assert service.stranger().get("/healthz").status == 200


def test_an_address_that_is_taken(make_service, plain):
    result = make_service(runtime="local").tendon("serve", "--listen", f"127.0.0.1:{plain.port}")
    assert result.returncode == 73 and "already in use" in result.stderr


def test_a_unix_socket(make_service, tmp_path):
    path = tmp_path / "socket"
    service = make_service(runtime="local", listen=[f"unix:{path}"]).start()
    assert path.stat().st_mode & 0o777 == 0o600
    client = service.client()
    assert client.get("/healthz", headers={"Host": "any.example"}).status == 200  # no browser gets here
    assert client.get(ANY).status == 404
    assert service.stop() == 0
    assert not path.exists()


def test_an_inherited_socket(make_service):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        service = make_service(runtime="local", listen=[f"fd:{listener.fileno()}"])
        service.start(pass_fds=[listener.fileno()])
        assert service.port == listener.getsockname()[1]
        assert service.stranger().get("/healthz").status == 200
        upgrade(service, 1)
        assert service.stranger().get("/healthz").status == 200
        service.stop()


def test_an_inherited_socket_that_others_reach_is_refused(make_service):
    service = make_service(runtime="local")
    with socket.create_server(("0.0.0.0", 0)) as listener:
        number = listener.fileno()
        result = service.tendon("serve", "--listen", f"fd:{number}", pass_fds=[number])
    assert result.returncode == 77 and "--insecure" in result.stderr


@pytest.mark.parametrize(
    "setting",
    ["url=a.example", "url=ftp://x", "origins=*", "origins=https://a.example/", "hosts=a.example:80", "hosts=*", "listen="],
)
def test_settings_that_make_no_sense(make_service, setting):
    result = make_service(runtime="local").tendon("serve", "--set", f"service.{setting}")
    assert result.returncode == 2 and setting.partition("=")[0] in result.stderr


def test_a_start_that_fails_late(make_service):
    service = make_service(runtime="local")
    (service.state / "audit.log").mkdir()
    result = service.tendon("serve", "--listen", "127.0.0.1:0")
    assert result.returncode not in (0, 1) and "audit.log" in result.stderr
    (service.state / "audit.log").rmdir()


def test_nobody_reads_what_it_says(make_service):
    """A closed standard output ends nothing, not even at an upgrade."""
    service = make_service(runtime="local").start()
    service.process.stdout.close()
    service.process.send_signal(signal.SIGHUP)
    eventually(lambda: service.log().count('"listening"') == 2, "it serves again")
    assert service.stranger().get("/healthz").status == 200


def test_a_config_that_lies_about_may_not_open_the_service(make_service, tmp_path):
    service = make_service(runtime="local")
    del service.env["TENDON_CONFIG"]
    (tmp_path / "config.toml").write_text('[service]\nlisten = ["0.0.0.0:7171"]\ninsecure = true\n')
    result = service.tendon("serve", cwd=tmp_path)
    assert result.returncode == 77 and "current directory" in result.stderr


# --- TLS -----------------------------------------------------------------------------------------


def with_tls(make, folder, **kwargs):
    cert, key, context = self_signed(folder)
    service = make(runtime="local", flags=["--tls-cert", str(cert), "--tls-key", str(key)], **kwargs)
    service.context = context
    return service.start()


@pytest.fixture
def secure(make_service, tmp_path):
    return with_tls(make_service, tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One that speaks TLS, for tests that do not end it."""
    folder = tmp_path_factory.mktemp("tls")
    service = with_tls(functools.partial(Service, folder), folder)
    yield service
    service.finish()


def test_tls(shared):
    assert shared.url == f"https://127.0.0.1:{shared.port}"
    client = shared.client()
    for _ in range(3):  # on one connection
        assert client.get(ANY).status == 404
    body = os.urandom(3 << 20)
    assert client.post(ANY, body).status == 404
    assert client.get("/healthz").status == 200


def test_tls_with_openssl(shared):
    command = ["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{shared.port}"]
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for version in ("-tls1_2", "-tls1_3"):
        told = subprocess.run([*command, version], input=request, capture_output=True, timeout=PATIENCE)
        assert b'{"status":"ok"}' in told.stdout, told
    old = subprocess.run(
        [*command, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"], input=request, capture_output=True, timeout=PATIENCE
    )
    assert b"HTTP/1.1" not in old.stdout


@pytest.mark.parametrize("way", [["--http2"], ["--http1.1"]])
def test_tls_with_the_protocol_that_the_client_wants(shared, way, tmp_path):
    """One connection for all requests, with a key and without, and a body that the service reads."""
    (tmp_path / "body").write_bytes(bytes(3 << 20))
    address = f"https://127.0.0.1:{shared.port}"
    told = subprocess.run(
        [
            *["curl", "-skS", *way, "-m", str(PATIENCE), "-w", "%{http_version} %{http_code} %{num_connects}\\n"],
            *["-H", f"Authorization: Bearer {shared.admin}", "-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null"],
            *[f"{address}/healthz", f"{address}/v1/sandboxes", address + ANY],
        ],
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    ).stdout.split("\n")
    version = {"--http2": "2", "--http1.1": "1.1"}[way[0]]
    assert told[:3] == [f"{version} 200 1", f"{version} 200 0", f"{version} 404 0"]
    sent = subprocess.run(
        ["curl", "-skS", *way, "-m", str(PATIENCE), "--data-binary", f"@{tmp_path}/body", "-w", "%{http_code}", "-o",
         "/dev/null", address + "/v1/sandboxes"],
        capture_output=True, text=True, timeout=PATIENCE,
    ).stdout
    assert sent == "401"  # without a key, and without having read it


def test_tls_knows_its_clients_address(shared):
    """One who comes by TLS is no neighbour on a unix socket: its Host counts."""
    assert shared.stranger().get("/healthz", headers={"Host": "evil.example"}).status == 421
    peers = eventually(
        lambda: {line["peer"] for line in shared.log_lines() if line["message"] == "request"}, "the request is logged"
    )
    assert peers == {"127.0.0.1"}


@pytest.mark.concurrent
def test_clients_that_do_not_speak_tls_hold_nobody_up(secure):
    """Silent ones, ones that speak HTTP in the clear, ones that hang up in the middle."""
    sockets = [socket.create_connection(("127.0.0.1", secure.port), timeout=PATIENCE) for _ in range(20)]
    sockets[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    try:
        assert b"HTTP/1.1" not in sockets[0].recv(65536)
    except ConnectionResetError:
        pass
    raw = ssl.create_default_context()
    raw.check_hostname, raw.verify_mode = False, ssl.CERT_NONE
    half = raw.wrap_socket(sockets[1], server_hostname="localhost")
    half.sendall(b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
    half.close()
    sockets[2].close()
    assert secure.client().get("/healthz").status == 200
    assert secure.stop() == 0  # does not wait for them
    for one in sockets:
        one.close()


@pytest.mark.slow
def test_clients_that_read_nothing_are_given_up(secure):
    """The server gives up on who takes no bytes; so does what decrypts for it."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", secure.port))
    ports = [f":{secure.port:04X}", f":{raw.getsockname()[1]:04X}"]

    def established():
        with open("/proc/net/tcp") as table:
            rows = [line.split() for line in table]
        return [row for row in rows if [row[1][-5:], row[2][-5:]] == ports and row[3] == "01"]

    with secure.context.wrap_socket(raw, server_hostname="localhost") as client:
        # Answers enough to fill every buffer in between, requests few enough to wait in those of the server.
        request = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {secure.admin}\r\n\r\n"
        client.sendall(request.encode() * 800)
        assert established()
        eventually(lambda: not established(), "its connection was closed", 240)


@pytest.mark.parametrize("what", ["missing", "garbage", "another's", "half"])
def test_certificates_that_do_not_work(make_service, tmp_path, what):
    cert, key, _ = self_signed(tmp_path)
    if what == "missing":
        cert.unlink()
    elif what == "garbage":
        cert.write_text("hello")
    elif what == "another's":
        (tmp_path / "other").mkdir()
        key = self_signed(tmp_path / "other")[1]
    flags = ["--tls-cert", cert] + ([] if what == "half" else ["--tls-key", key])
    result = make_service(runtime="local").tendon("serve", *flags)
    assert result.returncode == 2 and re.search("certificate|private key|tls_key", result.stderr)


def test_a_tls_key_that_others_may_change(make_service, tmp_path):
    cert, key, _ = self_signed(tmp_path)
    service = make_service(runtime="local")

    def refusal():
        result = service.tendon("serve", "--tls-cert", cert, "--tls-key", key)
        assert result.returncode == 77, result
        return result.stderr

    key.chmod(0o660)
    assert f"(mode 0660); say: chmod go-w {key}" in refusal()
    key.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(key, 12345, 0)
        assert "belongs to another user (12345)" in refusal()
        os.chown(key, 0, 0)
    key.unlink()
    os.mkfifo(key, 0o600)
    assert service.tendon("serve", "--tls-cert", cert, "--tls-key", key).returncode == 2


def test_a_tls_key_with_a_password(make_service, tmp_path):
    """It asks nobody, least of all at an upgrade."""
    cert, key, _ = self_signed(tmp_path)
    locked = tmp_path / "locked.pem"
    words = ["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:sesame", "-out", locked]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    result = make_service(runtime="local").tendon("serve", "--tls-cert", cert, "--tls-key", locked)
    assert result.returncode == 2 and "private key" in result.stderr, result


def test_tls_lets_it_listen_anywhere(make_service, tmp_path):
    service = with_tls(make_service, tmp_path, listen=["0.0.0.0:0"])
    assert service.stranger().get("/healthz").status == 200


# --- stopping ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_under_way_is_answered(plain, number):
    idle = plain.client()
    idle.get("/healthz").ok()
    held = Held(plain)
    assert held.socket.recv(100).startswith(b"HTTP/1.1 100")
    plain.process.send_signal(number)
    eventually(lambda: "stopping" in plain.log(), "it heard")
    assert idle.connection.sock.recv(1) == b""  # kept connections are let go at once
    assert not ended(plain)
    answer = held.finish()
    assert answer.startswith(b"HTTP/1.1 4") and b"\r\nConnection: close\r\n" in answer
    assert plain.wait() == 0


def test_the_second_signal_ends_it_at_once(make_service):
    service = make_service(runtime="local", settings={"drain_seconds": 3000}).start()
    held = Held(service)
    assert held.socket.recv(100).startswith(b"HTTP/1.1 100")
    service.process.send_signal(signal.SIGTERM)
    eventually(lambda: "stopping" in service.log(), "it heard")
    service.process.send_signal(signal.SIGTERM)
    assert service.wait() == -signal.SIGTERM
    held.socket.close()


def test_a_request_that_does_not_end_is_cut(make_service):
    service = make_service(runtime="local", settings={"drain_seconds": 0.2}).start()
    held = Held(service)
    assert held.socket.recv(100).startswith(b"HTTP/1.1 100")
    assert service.stop() == 0
    held.socket.close()


def test_keys_outlive_the_service(plain):
    key = plain.make_key("stays")["key"]
    admin = plain.admin
    plain.restart(kill=True)
    assert plain.admin == admin  # no second first key
    assert plain.client(key).get(ANY).status == 404
    plain.restart()
    assert plain.client(key).get(ANY).status == 404


def test_two_services_of_one_state(plain):
    result = plain.tendon("serve", "--listen", "127.0.0.1:0")
    assert result.returncode == 75 and result.stdout == ""
    assert str(plain.pid) in result.stderr and str(plain.state) in result.stderr
    assert plain.stranger().get("/healthz").status == 200
    plain.kill()
    plain.start()  # a dead one holds nothing


# --- upgrading -----------------------------------------------------------------------------------


class Knocker(threading.Thread):
    """Keeps connecting; every request on a fresh connection must be answered."""

    def __init__(self, service):
        super().__init__()
        self.service, self.answers, self.failures, self.done = service, 0, [], threading.Event()
        self.start()

    def run(self):
        while not self.done.is_set():
            try:
                connection = self.service.connect()
                connection.request("GET", "/healthz", headers={"Connection": "close"})
                assert connection.getresponse().read() == b'{"status":"ok"}'
                self.answers += 1
                connection.close()
            except Exception as problem:  # noqa: BLE001
                self.failures.append(repr(problem))

    def finish(self):
        self.done.set()
        self.join()
        return self.failures


def upgrade(service, count):
    """Asks for an upgrade and waits until the next program serves: it says so on the same pipe."""
    service.process.send_signal(signal.SIGHUP)
    told = json.loads(service.process.stdout.readline())
    assert told["pid"] == service.pid and told["url"] == service.url
    assert service.log().count('"upgrading"') == count


@pytest.mark.concurrent
@pytest.mark.parametrize("kind", ["plain", "secure"])
def test_an_upgrade_refuses_nobody(request, kind):
    service = request.getfixturevalue(kind)
    knockers = [Knocker(service) for _ in range(3)]
    eventually(lambda: all(one.answers for one in knockers), "they get in")
    for count in range(1, 6):
        before = [one.answers for one in knockers]
        upgrade(service, count)
        eventually(lambda: all(one.answers > n + 3 for one, n in zip(knockers, before)), "they still get in")
    assert [one.finish() for one in knockers] == [[], [], []]
    assert service.client().get(ANY).status == 404
    assert [line["detail"] for line in service.audit() if line["what"] == "service.stop"] == ["upgrade"] * 5


def test_an_upgrade_takes_the_file_that_is_there_now(make_service, tmp_path):
    """The program file is replaced while it runs, as packages do it."""
    service = make_service(runtime="local")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("tendon", "tendon-jail"):
        os.link(service.program.parent / name, folder / name)
    service.program = folder / "tendon"
    service.start()
    (folder / "next").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/called\nexec {folder}/real "$@"\n')
    (folder / "next").chmod(0o755)
    os.link(folder / "tendon", folder / "real")
    os.rename(folder / "next", folder / "tendon")
    upgrade(service, 1)
    called = (tmp_path / "called").read_text().splitlines()
    assert [line.endswith("--check") for line in called] == [True, False]
    assert service.stranger().get("/healthz").status == 200


def test_an_upgrade_to_something_that_cannot_start_does_not_happen(make_service, tmp_path):
    service = with_tls(make_service, tmp_path)
    cert = tmp_path / "cert.pem"
    good = cert.read_text()
    cert.write_text("hello")
    service.process.send_signal(signal.SIGHUP)
    eventually(lambda: "no upgrade" in service.log(), "it says so")
    assert service.stranger().get("/healthz").status == 200
    cert.write_text(good)
    upgrade(service, 1)


def test_an_upgrade_keeps_unix_sockets_and_the_lock(make_service, tmp_path):
    path = tmp_path / "a,b=c"
    service = make_service(runtime="local", listen=[f"unix:{path}"]).start()
    inode = path.stat().st_ino
    upgrade(service, 1)
    assert path.stat().st_ino == inode
    assert service.client().get(ANY).status == 404
    assert service.tendon("serve", "--listen", "127.0.0.1:0").returncode == 75
    environment = open(f"/proc/{service.pid}/environ", "rb").read()
    assert b"TENDON_SERVICE_INHERITED" in environment  # it was told so, and tells nobody else
    assert service.stop() == 0
    assert not path.exists()


def test_a_request_that_crosses_an_upgrade(plain):
    held = Held(plain)
    assert held.socket.recv(100).startswith(b"HTTP/1.1 100")
    plain.process.send_signal(signal.SIGHUP)
    eventually(lambda: '"upgrading"' in plain.log(), "it heard")
    assert held.finish().startswith(b"HTTP/1.1 4")
    json.loads(plain.process.stdout.readline())
    assert plain.stranger().get("/healthz").status == 200


def test_a_flood_of_connections(plain):
    """Hundreds at once of one address (it may have 512 of strangers), each with a request; all are answered."""
    sockets = [socket.create_connection(("127.0.0.1", plain.port), timeout=PATIENCE) for _ in range(450)]
    for one in sockets:
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for one in sockets:
        assert one.recv(100).startswith(b"HTTP/1.1 200")
    for one in sockets:
        one.close()


def test_an_action_in_a_paused_sandbox_holds_nobody_up(make_service, jail_works):
    """Its hand is frozen and cannot answer: whoever waits for it is told so, and the end is an orderly one."""
    service = make_service(settings={"drain_seconds": 0.5}).start()
    client = service.client()
    box = make(client)
    answers = []
    other = service.client()
    thread = threading.Thread(target=lambda: answers.append(other.post(at(box, "/actions"), run_action("sleep 1000", timeout=600))))
    thread.start()
    eventually(lambda: client.get(at(box, "/events")).ok().json["events"], "the action is under way")
    client.post(at(box, "/pause")).ok()
    assert service.stop() == 0, service.log()[-2000:]
    thread.join(PATIENCE)
    assert answers and answers[0].status == 504 and "Idempotency-Key" in answers[0].text, answers

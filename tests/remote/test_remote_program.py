"""The whole program with sandboxes of a runtime API: what is paused is woken, and TLS carries everything."""

import urllib.request

import pytest

from runtime_api import RuntimeApi
from tendons import eventually

PROMPT = r"[$#] "
SERVER = "python3 -u -m http.server 0 --bind 127.0.0.1 --directory /usr/share 2>&1"


# --- paused by others --------------------------------------------------------------------------------


@pytest.fixture
def alive(make_tendon, api):
    return make_tendon(api.url, SANDBOX_KEEP_RUNTIME_ALIVE="true")


def pause(api):
    for runtime in api.runtimes.values():
        runtime.status = "paused"


def test_an_action_wakes_what_the_service_paused(alive, api):
    alive.ok("new", "--name", "web")
    alive.ok("exec", "-s", "main", "web", "x=5")
    pause(api)
    assert alive.ok("exec", "-s", "main", "web", "echo $x; echo ran >>count") == "5\n"
    assert len(api.asked("/resume")) == 1
    assert alive.ok("exec", "-s", "main", "web", "cat count") == "ran\n"


def test_it_is_paused_under_a_client(alive, api):
    """The 503 is the answer to the action itself: it is woken, and the action sent once more."""
    api.fault("*/execute_action", lambda request: (pause(api), (503, {"detail": "it is paused"}))[1])
    result = alive("run", "echo ran >>count; cat count")
    assert (result.returncode, result.stdout) == (0, "ran\n"), result
    assert len(api.asked("/resume")) == 1
    assert [r.status for r in api.runtimes.values()] == ["paused"], "it is kept, and paused when it is closed"


def test_it_is_not_woken_without_being_told(make_tendon, api):
    tendon = make_tendon(api.url)
    tendon.ok("new", "--name", "web")
    pause(api)
    complaint = tendon.fails(73, "exec", "web", "true")
    assert "paused" in complaint and "tendon resume web" in complaint
    assert not api.asked("/resume")
    tendon.ok("resume", "--quiet", "web")
    assert tendon.ok("exec", "web", "echo works") == "works\n"


def test_a_snapshot_that_cannot_be_made_leaves_nothing(make_tendon, api):
    tendon = make_tendon(api.url)
    tendon.ok("new", "--name", "web")
    complaint = tendon("snapshot", "web", "first")
    assert complaint.returncode and "has no snapshots" in complaint.stderr and "counts until" not in complaint.stderr, complaint
    assert tendon.json("inspect", "web")["snapshots"] == []


def test_a_service_that_cannot_wake_it(alive, api):
    alive.ok("new", "--name", "web")
    pause(api)
    api.fault("/resume", 400, 9)
    result = alive("exec", "web", "true")
    assert result.returncode and "fault 400" in result.stderr


# --- TLS ---------------------------------------------------------------------------------------------


@pytest.fixture
def secure(make_tendon, tls_api, certificate):
    return make_tendon(tls_api.url, SSL_CERT_FILE=str(certificate[0]))


def test_a_certificate_that_nobody_signed(make_tendon, tls_api):
    complaint = make_tendon(tls_api.url, SSL_CERT_FILE="").fails(77, "new")
    assert "TLS" in complaint and "certificate" in complaint


@pytest.mark.concurrent
def test_everything_over_tls(secure, screen, tmp_path):
    secure.ok("new", "--name", "web")
    assert secure.ok("exec", "web", "echo hello") == "hello\n"

    big = tmp_path / "big"
    big.write_bytes(bytes(range(256)) * 20_000)
    where = secure.ok("exec", "-s", "main", "web", "pwd").strip()
    secure.ok("cp", str(big), f"web:{where}/big")
    secure.ok("cp", f"web:{where}/big", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == big.read_bytes()

    shell = screen(secure, "shell", "web")
    shell.wait_for(PROMPT)
    shell.type("echo $((6 * 7))\r")
    shell.wait_for(r"\n\r?42\r")
    shell.type("exit 7\r")
    assert shell.wait() == 7

    server = secure.start("exec", "web", SERVER)
    line = server.stdout.readline()
    assert "port " in line, (line, server.stderr.read())
    port = line.split("port ")[1].split()[0]
    forward = secure.start("port", "web", f"0:{port}")
    local = forward.stdout.readline().split()[0]
    with urllib.request.urlopen(f"http://{local}/", timeout=30) as page:
        assert page.status == 200 and b"doc/" in page.read()
    for process in (forward, server):
        process.terminate()
        process.communicate(timeout=30)


def test_the_doctor_looks_at_it(make_tendon, api, secure):
    assert "speaks the openhands API" in secure("doctor", "--runtime", "remote").stdout
    plain = make_tendon(api.url)("doctor", "--runtime", "remote")
    assert "in the clear" in plain.stdout, plain
    nobody = make_tendon("http://127.0.0.1:1")
    assert "runtime service" in nobody("doctor", "--runtime", "remote").stdout


# --- a service that is gone --------------------------------------------------------------------------


def test_sandboxes_of_a_service_that_is_gone(make_tendon, hand_program):
    """They stay until somebody says that they are to be forgotten, one by one, all, or those whose time is over."""
    api = RuntimeApi(hand_program)
    tendon = make_tendon(api.url)
    for name in ("one", "two"):
        tendon.ok("new", "--quiet", "--name", name)
    tendon.ok("new", "--quiet", "--name", "leased", "--lease", "1")
    api.close()

    def names():
        return sorted(box["name"] for box in tendon.json("ls"))

    assert tendon("rm", "one").returncode and tendon("rm", "--all").returncode
    eventually(lambda: tendon("gc").returncode, "the lease is over, and its service cannot be asked")
    assert names() == ["leased", "one", "two"]
    assert "forgotten" in tendon.ok("gc", "--force") and names() == ["one", "two"]
    result = tendon("rm", "--force", "one")
    assert result.returncode == 0 and "one is forgotten, but remote may still have it" in result.stderr
    assert tendon("rm", "--force", "--all").returncode == 0 and names() == []

"""tendon port and tendon open: the way to servers inside."""

import html
import json
import os
import pathlib
import signal
import socket
import urllib.request

import pytest

from tendons import eventually

SERVER = "python3 -u -m http.server 0 --bind 127.0.0.1 --directory /usr/share 2>&1"


@pytest.fixture
def web(any_tendon):
    any_tendon.ok("new", "--name", "web")
    return any_tendon


@pytest.fixture
def serve(web):
    """A web server inside; its port."""
    process = web.start("exec", "web", SERVER)
    line = process.stdout.readline()
    assert "port" in line, line
    yield int(line.split("port ")[1].split()[0])
    process.terminate()
    process.wait(30)


def end(process):
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_forward(web, serve):
    process = web.start("port", "web", f"0:{serve}")
    host, _, rest = process.stdout.readline().partition(":")
    local = int(rest.split()[0])
    assert host == "127.0.0.1" and rest.split()[1:] == ["->", str(serve)]
    for _ in range(3):
        with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=30) as page:
            assert page.status == 200 and b"doc/" in page.read()
    end(process)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", local), timeout=5).close()


@pytest.mark.concurrent
def test_several_connections_at_once(web, serve):
    process = web.start("--json", "port", "web", f"127.0.0.1:0:{serve}")
    local = json.loads(process.stdout.readline())["local"]
    idle = [socket.create_connection(("127.0.0.1", local), timeout=30) for _ in range(5)]
    with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=30) as page:
        assert page.status == 200
    end(process)
    for connection in idle:
        assert connection.recv(1) == b""
        connection.close()


def test_nobody_listens_inside(web):
    process = web.start("port", "web", "0:1")
    local = int(process.stdout.readline().split(":")[1].split()[0])
    with socket.create_connection(("127.0.0.1", local), timeout=30) as connection:
        assert connection.recv(1) == b""
    assert "refused" in process.stderr.readline()
    end(process)


def test_a_port_that_is_taken(web):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = web("port", "web", f"{taken.getsockname()[1]}:80")
    assert result.returncode != 0 and "in use" in result.stderr


@pytest.mark.parametrize("text", ["x", "70000", "1:2:3:4x", "80:", ":80:", "-1"])
def test_nonsense(tendon, text):
    tendon.ok("new", "--name", "web")
    result = tendon("port", "web", text)
    assert result.returncode == 2


def test_list(tendon):
    tendon.ok("new", "--name", "web")
    assert tendon.json("port", "web") == []
    tendon.ok("new", "--name", "two", "--port", "8000")
    assert [row["port"] for row in tendon.json("port", "two")] == [8000]


def test_a_port_that_nobody_publishes(any_tendon):
    """It is listed, with how to reach it; and it is the one that is opened."""
    tendon = any_tendon
    tendon.ok("new", "--name", "web", "--port", "8000", "--port", "8001")
    result = tendon("port", "web")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert (result.returncode, lines[0]) == (0, ["PORT", "URL"])
    if tendon.runtime == "local":
        assert lines[1:] == [["8000", "http://localhost:8000"], ["8001", "http://localhost:8001"]]
        assert result.stderr == ""
        return
    assert lines[1:] == [["8000", "-"], ["8001", "-"]]
    assert result.stderr == "tendon: a port without a URL is not published; forward it with: tendon port web 8000\n"
    assert tendon.ok("--quiet", "port", "web") == result.stdout
    process = tendon.start("open", "--print", "web")
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    end(process)
    assert process.wait(30) == 0


def test_open(web, serve):
    """Where nothing is published it forwards until it is interrupted."""
    process = web.start("open", "--print", "--path", "/doc/", "web", str(serve))
    url = process.stdout.readline().strip()
    assert url.startswith("http://") and url.endswith("/doc/")
    with urllib.request.urlopen(url, timeout=30) as page:
        assert page.status == 200
    if web.runtime != "local":
        end(process)
    assert process.wait(30) == 0


def test_open_for_programs(web, serve):
    process = web.start("--json", "open", "--path", '/"q"', "web", str(serve))
    assert json.loads(process.stdout.readline())["url"].endswith('/"q"')
    if web.runtime != "local":
        end(process)
    assert process.wait(30) == 0


@pytest.mark.parametrize(
    "env, url",
    [
        ({}, "http://localhost:8000/"),
        ({"SANDBOX_LOCAL_RUNTIME_URL": "http://127.0.0.1"}, "http://127.0.0.1:8000/"),
        ({"RUNTIME_URL": "https://h.example/r7", "RUNTIME_ID": "r7"}, "https://h.example/r7/work-1/"),
        ({"RUNTIME_URL": "https://r7.example"}, "https://work-1-r7.example/"),
        ({"RUNTIME_URL_PATTERN": "https://{runtime_id}.example", "RUNTIME_ID": "r7"}, "https://work-1-r7.example/"),
    ],
)
def test_addresses_of_the_local_runtime(tendon, env, url):
    """On this machine, below a path, or a name of its own, as the surroundings say."""
    tendon.ok("new", "--name", "web", "--port", "8000")
    assert tendon.ok("open", "--print", "web", env=env).strip() == url


def test_open_needs_a_port(tendon):
    tendon.ok("new", "--name", "web")
    assert "which port" in tendon.fails(2, "open", "web")


def test_open_vscode_shows_the_token_to_nobody_else(tendon, tmp_path):
    """Not on the command line of the browser: by a page of the user's own, which goes away."""
    desk, run = tmp_path / "desk", tmp_path / "run"
    for directory in (desk, run):
        directory.mkdir()
    fake = pathlib.Path(__file__).parents[1] / "vscode/fake-server"
    for name, text in (
        ("code-server", fake.read_text()),
        (
            "xdg-open",
            f'#!/bin/sh\ncp "${{1#file://}}" {desk}/page\nstat -c %a "${{1#file://}}" >{desk}/mode\n'
            f'echo "$@" >{desk}/words.new\nmv {desk}/words.new {desk}/words\n',
        ),
    ):
        (desk / name).write_text(text)
        (desk / name).chmod(0o755)
    variables = {"TENDON_VSCODE": desk / "code-server", "FAKE_NOTES": desk}
    given = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    tendon.ok("new", "--name", "web", *given)
    tendon.env.update(
        DISPLAY=":99", XDG_RUNTIME_DIR=str(run), PATH=f"{desk}:{tendon.env.get('PATH', '')}"
    )
    stale = run / "tendon-open-abcdef.html"
    stale.write_text("of one that was killed")
    os.utime(stale, (1, 1))
    process = tendon.start("open", "web", "--vscode")
    url = process.stdout.readline().strip()
    assert "tkn=" in url, url
    eventually((desk / "words").exists, "the browser", 60)
    words = (desk / "words").read_text().strip()
    assert words.startswith(f"file://{run}/tendon-open-") and words.endswith(".html")
    assert "tkn" not in words and (desk / "mode").read_text() == "600\n"
    assert html.unescape((desk / "page").read_text()).count(f'content="0;url={url}"') == 1
    assert not stale.exists()
    end(process)
    assert process.wait(30) == 0
    eventually(lambda: not list(run.iterdir()), "the page is removed", 60)

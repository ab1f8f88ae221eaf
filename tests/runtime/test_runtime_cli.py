"""The backend cli: in the user's own directory, which file actions do not leave."""

import base64
import json
import os
import socket
import urllib.parse

import pytest

from conformance import Refusal, wait_until


@pytest.fixture
def cli(make_world):
    return make_world("cli")


@pytest.fixture
def outside(cli):
    path = cli.base / "outside"
    path.mkdir()
    (path / "secret").write_text("secret of the user\n")
    return path


@pytest.fixture
def cage(cli, outside):
    """A sandbox in the current directory of its driver, with ways out of it."""
    (cli.cwd / "inside").mkdir()
    (cli.cwd / "inside/file").write_text("inside\n")
    (cli.cwd / "link-out").symlink_to(outside)
    (cli.cwd / "link-file").symlink_to(outside / "secret")
    (cli.cwd / "link-up").symlink_to("../outside/secret")
    (cli.cwd / "link-in").symlink_to("inside/file")
    (cli.cwd / "link-in-absolute").symlink_to(cli.cwd / "inside/file")
    (cli.cwd / "link-nowhere").symlink_to(outside / "new")
    return cli.new(cli.open(), own=False)


def ways_out(cli):
    base, name = cli.base, cli.cwd.name
    return [
        f"{base}/outside/secret",
        "../outside/secret",
        f"{cli.cwd}/../outside/secret",
        f"{cli.cwd}-other/secret",
        "/workspace/../outside/secret",
        f"inside/../../outside/secret",
        "link-out/secret",
        "link-file",
        "link-up",
        f"{base}/{name}/link-out/secret",
        f"/proc/self/root{base}/outside/secret",
    ]  # all of the test's own: a hand that is not confined must find nothing of the system to spoil


def test_it_works_where_its_maker_stands(cli):
    box = cli.new(cli.open())
    assert box.ok("pwd") == str(cli.cwd)
    box.drive("gone")
    assert cli.cwd.is_dir()


def test_it_works_in_the_directory_that_is_named(cli, outside):
    box = cli.new(cli.open(), workspace=str(outside))
    assert box.ok("cat secret") == "secret of the user"
    box.drive("gone")
    assert (outside / "secret").exists()


def test_a_directory_that_is_not_there_is_refused(cli):
    with pytest.raises(Refusal) as refusal:
        cli.new(cli.open(), workspace="/no/such/directory")
    assert "/no/such/directory" in refusal.value.text


@pytest.mark.parametrize(
    "path", ["inside/file", "/workspace/inside/file", "{}/inside/file", "link-in", "link-in-absolute",
             "inside/../inside/file", "{}/../cwd/inside/file", "./inside//file", "/workspace/./inside/file"])
def test_names_of_what_is_inside(cli, cage, path):
    observation = cage.act("read", path=path.format(cli.cwd))
    assert (observation["observation"], observation["content"]) == ("read", "inside\n"), observation


def test_nothing_outside_is_read(cli, cage):
    for path in ways_out(cli):
        observation = cage.act("read", path=path)
        assert observation["observation"] == "error", (path, observation)
        assert "secret of" not in json.dumps(observation)
        assert "You can only work with files in" in observation["content"], (path, observation)


def test_nothing_of_the_system_is_read(cage):
    for path in ("/etc/passwd", "/proc/self/root/etc/passwd"):
        observation = cage.act("read", path=path)
        assert observation["observation"] == "error", (path, observation)
        assert "root:" not in json.dumps(observation)


def test_nothing_outside_is_written(cli, cage, outside):
    for path in [*ways_out(cli), "link-nowhere", "link-out/new", f"{outside}/new"]:
        assert cage.act("write", path=path, content="changed")["observation"] == "error", path
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_text() == "secret of the user\n"


def test_nothing_outside_is_edited_or_viewed(cli, cage, outside):
    for path in ways_out(cli):
        viewed = cage.act("read", path=path, impl_source="oh_aci")
        assert viewed["observation"] == "error", (path, viewed)
        edited = cage.act("edit", path=path, command="str_replace", old_str="secret", new_str="x")
        assert edited["observation"] == "error", (path, edited)
    made = cage.act("edit", path=f"{outside}/made", command="create", file_text="x")
    assert made["observation"] == "error"
    assert os.listdir(outside) == ["secret"]


def test_relative_paths_start_in_the_workspace_wherever_the_shell_is(cli, cage):
    cage.ok("cd /")
    assert cage.act("read", path="inside/file")["content"] == "inside\n"
    edited = cage.act("edit", path="inside/file", command="str_replace", old_str="inside", new_str="edited")
    assert "has been edited" in edited["content"], edited
    assert (cli.cwd / "inside/file").read_text() == "edited\n"


def test_a_listing_does_not_look_through_links_that_lead_out(cli, cage):
    listing = cage.act("read", path="/workspace", impl_source="oh_aci")["content"]
    assert "inside/file" in listing
    assert "secret" not in listing.replace("link-file", "")


def test_the_shell_is_free(cage, outside):
    assert cage.ok(f"cat {outside}/secret") == "secret of the user"


def test_a_workspace_behind_a_link(cli, outside):
    (cli.base / "alias").symlink_to(cli.cwd)
    (cli.cwd / "file").write_text("found\n")
    box = cli.new(cli.open(), workspace=str(cli.base / "alias"))
    for path in ("file", "/workspace/file", f"{cli.base}/alias/file", f"{cli.cwd}/file"):
        assert box.act("read", path=path)["content"] == "found\n", path
    assert box.act("read", path=f"{cli.base}/alias/../outside/secret")["observation"] == "error"


def test_put_stays_inside(cli, cage, outside):
    cage("put", path="/workspace/new/file", text="x")
    assert (cli.cwd / "new/file").read_text() == "x"
    for path in (f"{outside}/new", "../outside/new", "link-out/new", "link-nowhere"):
        with pytest.raises(Refusal):
            cage("put", path=path, text="x")
    assert os.listdir(outside) == ["secret"]


# --- the hand's other doors --------------------------------------------------------------------------


class Http:
    """Requests to the hand of a sandbox that listens on a unix socket."""

    def __init__(self, cli, box):
        self.path = box("inspect")["address"].removeprefix("unix:")
        self.key = json.loads((cli.state / "drive" / f"{box.id}.json").read_text())["key"]

    def __call__(self, method, target, body=b"", kind="application/json", **query):
        if query:
            target += "?" + urllib.parse.urlencode(query)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(self.path)
            head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: {self.key}\r\nConnection: close\r\n"
            s.sendall(f"{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = b""
            while piece := s.recv(65536):
                answer += piece
        head, _, content = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), content


@pytest.fixture
def http(cli, cage):
    cage("ready")
    return Http(cli, cage)


def test_v1_files_stay_inside(cli, http, outside):
    for path in (f"{outside}/secret", f"{cli.cwd}/link-file", f"{cli.cwd}/link-out/secret",
                 f"{cli.cwd}/../outside/secret", "/workspace/../outside/secret"):
        status, content = http("GET", "/v1/files/content", path=path)
        assert (status, b"secret of" in content) == (403, False), (path, status, content)
        assert http("GET", "/v1/files/stat", path=path, follow="1")[0] == 403, path
        assert http("PUT", "/v1/files/content", b"changed", path=path)[0] == 403, path
        assert http("GET", "/v1/files/watch", path=path)[0] == 403, path
    assert http("GET", "/v1/files/list", path=str(outside))[0] == 403
    assert http("GET", "/v1/files/list", path=f"{cli.cwd}/link-out")[0] == 403
    assert http("POST", "/v1/files/directory", json.dumps({"path": f"{outside}/d"}).encode())[0] == 403
    move = {"from": f"{cli.cwd}/inside/file", "to": f"{outside}/moved"}
    assert http("POST", "/v1/files/move", json.dumps(move).encode())[0] == 403
    move = {"from": f"{outside}/secret", "to": f"{cli.cwd}/stolen"}
    assert http("POST", "/v1/files/move", json.dumps(move).encode())[0] == 403
    assert http("DELETE", "/v1/files", path=f"{outside}/secret")[0] == 403
    assert http("DELETE", "/v1/files", path=f"{cli.cwd}/link-out/secret")[0] == 403
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_text() == "secret of the user\n"


def test_v1_files_work_inside(cli, http):
    assert http("GET", "/v1/files/content", path="/workspace/inside/file") == (200, b"inside\n")
    assert http("PUT", "/v1/files/content", b"new", path=f"{cli.cwd}/a/b", mode="600")[0] == 201
    assert http("PUT", "/v1/files/content", b"newer", path=f"{cli.cwd}/a/b", mode="640")[0] == 204
    assert (cli.cwd / "a/b").stat().st_mode & 0o777 == 0o640
    names = [entry["name"] for entry in json.loads(http("GET", "/v1/files/list", path="/workspace/a")[1])["entries"]]
    assert names == ["b"]
    assert http("DELETE", "/v1/files", path=f"{cli.cwd}/link-file")[0] == 204  # the link itself is inside
    assert not (cli.cwd / "link-file").is_symlink()


def test_transfers_stay_inside(cli, http, outside):
    form = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="up"\r\n\r\nbytes\r\n--b--\r\n',
            "multipart/form-data; boundary=b")
    for destination in (str(outside), f"{cli.cwd}/link-out", f"{cli.cwd}/../outside"):
        status, content = http("POST", "/upload_file", *form, destination=destination)
        assert status == 500 and b"403" in content, (destination, status, content)
    assert os.listdir(outside) == ["secret"]
    assert http("POST", "/upload_file", *form, destination="/workspace/up")[0] == 200
    assert (cli.cwd / "up/up").read_text() == "bytes"
    for path in (str(outside), f"{cli.cwd}/link-out", f"{cli.cwd}/link-file", "/etc"):
        status, content = http("GET", "/download_files", path=path)
        assert status == 500 and b"secret of" not in content, (path, status)
    status, archive = http("GET", "/download_files", path=str(cli.cwd))
    assert status == 200 and b"inside\n" in archive and b"secret of" not in archive
    assert json.loads(http("POST", "/list_files", json.dumps({"path": str(outside)}).encode())[1]) == []
    assert "inside/" in json.loads(http("POST", "/list_files", b"{}")[1])


# --- the socket pair ---------------------------------------------------------------------------------


def test_only_the_owner_can_talk_to_it(cli):
    box = cli.new(cli.open())
    address = box("inspect")["address"]
    assert address.startswith("pair:")
    assert box.ok("echo over the pair") == "over the pair"
    assert not list((cli.state / "sandbox" / box.id).glob("*.sock"))
    stranger = box.seen_by(cli.open())
    assert stranger.status() == "running"
    with pytest.raises(Refusal) as refusal:
        stranger("ready", timeout=2)
    assert "only the process that made it" in refusal.value.text


def test_a_restart_makes_a_new_pair(cli):
    box = cli.new(cli.open())
    before = box("inspect")["address"]
    box.drive("stopped")
    box.drive("running")
    assert box("inspect")["address"] != before
    assert box.ok("echo again") == "again"


def test_tunnels_and_commands_share_the_pair(cli):
    box = cli.new(cli.open())
    box.ok("true")
    assert base64.b64decode(box.ok("printf hello | base64")) == b"hello"
    box.driver.kill()
    wait_until(lambda: not cli.left_over(), what="it ends with its owner")

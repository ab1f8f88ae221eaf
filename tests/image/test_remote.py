"""The client of a runtime service's builder, against a service that misbehaves as told."""

import base64
import email
import email.policy
import gzip
import http.server
import io
import json
import os
import subprocess
import tarfile
import threading
import urllib.parse

import pytest

from trees import BUILD, program

KEY = "secret-key"


class Service(http.server.ThreadingHTTPServer):
    """Answers /build with `builds`, one after the other, and /build_status with `statuses`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.builds = [(200, {}, {"build_id": "b 1"})]
        self.statuses = [{"status": "WORKING"}, {"status": "SUCCESS", "image": "reg.example/runtime:done"}]
        self.uploads, self.requests = [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def body(self):
        if "content-length" in self.headers:
            return self.rfile.read(int(self.headers["content-length"]))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self, status, value, headers=()):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in dict(headers).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.body()
        if self.headers["X-API-Key"] != KEY:
            return self.answer(401, {"detail": "wrong key"})
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        self.server.uploads.append(email.message_from_bytes(head + body, policy=email.policy.HTTP))
        status, headers, value = self.server.builds.pop(0)
        self.answer(status, value, headers)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        self.server.requests.append((url.path, query))
        if url.path == "/registry_prefix":
            self.answer(200, {"registry_prefix": "reg.example/team"})
        elif url.path == "/image_exists":
            self.answer(200, {"exists": True, "image": {}})
        else:
            self.answer(200, self.server.statuses.pop(0) if len(self.server.statuses) > 1 else self.server.statuses[0])


@pytest.fixture
def service():
    s = Service()
    yield s
    s.shutdown()
    s.server_close()


@pytest.fixture
def build(service, tmp_path):
    (tmp_path / "file").write_text("content\n")

    def run(*tags, key=KEY):
        return subprocess.run(
            [program(BUILD, "tests/unit/image/remote-build"), service.url, key, "reg.example/team/runtime:x", *tags],
            cwd=tmp_path, capture_output=True, text=True, timeout=60,
        )

    return run


def test_build(service, build):
    result = build("one", "two")
    assert result.stdout == "reg.example/team reg.example/runtime:done 1\n", result.stderr
    parts = [(p.get_param("name", header="content-disposition"), p) for p in service.uploads[0].iter_parts()]
    assert [name for name, _ in parts] == ["context", "target_image", "tags", "tags"]
    assert parts[0][1].get_filename() == "context.tar.gz"
    assert [p.get_content().strip() for _, p in parts[1:]] == ["reg.example/team/runtime:x", "one", "two"]
    packed = base64.b64decode(parts[0][1].get_payload(), validate=True)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as tar:
        assert sorted(tar.getnames()) == ["Dockerfile", "file"]
    assert ("/build_status", {"build_id": "b 1"}) in service.requests


def test_busy_service_is_asked_again(service, build):
    service.builds.insert(0, (429, {"Retry-After": "1"}, {"detail": "slow down"}))
    result = build()
    assert result.returncode == 0, result.stderr
    assert len(service.uploads) == 2
    first, second = (list(u.iter_parts())[0].get_payload() for u in service.uploads)
    assert first == second  # all of it again


@pytest.mark.parametrize("status", ["FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED"])
def test_failed_build(service, build, status):
    service.statuses = [{"status": status, "error": "step 3"}]
    result = build()
    assert result.returncode == 1
    assert f"the build ended with {status}: step 3" in result.stderr


def test_wrong_key(service, build):
    result = build(key="other")
    assert result.returncode == 1 and "wrong key" in result.stderr
    assert "other" not in result.stderr


def test_refused(service, build):
    service.builds = [(500, {}, {"detail": "no disk"})]
    result = build()
    assert result.returncode == 1 and "no disk" in result.stderr


# --- from the command line ------------------------------------------------------------------------


@pytest.fixture
def tendon(service, tmp_path):
    """tendon build without a container engine."""
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TENDON_CONFIG": "/dev/null",
        "TENDON_STATE": str(tmp_path / "state"),
        "DOCKER_HOST": "unix:///nowhere/at/all",
        "SANDBOX_REMOTE_RUNTIME_API_URL": service.url + "/",
        "SANDBOX_API_KEY": KEY,
    }

    def run(*args, **more):
        command = [program(BUILD, "tendon"), *args]
        return subprocess.run(command, env={**env, **more}, capture_output=True, text=True, timeout=60)

    return run


RECIPE = ("build", "debian:12", "--package", "git", "--extra-deps", "touch /extra")


def test_the_verb_builds_at_the_service(service, tendon, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/mine").write_text("a file")
    result = tendon(*RECIPE, "--builder", "remote", "--force", "--context", str(tmp_path / "files"))
    assert (result.stdout, result.returncode) == ("reg.example/runtime:done\n", 0), result
    parts = {part.get_param("name", header="content-disposition"): part for part in service.uploads[0].iter_parts()}
    assert parts["target_image"].get_content().startswith("reg.example/team/runtime:")
    context = gzip.decompress(base64.b64decode(parts["context"].get_payload(decode=True)))
    with tarfile.open(fileobj=io.BytesIO(context)) as tar:
        dockerfile = tar.extractfile("Dockerfile").read().decode()
        assert tar.extractfile("mine").read() == b"a file"
    assert dockerfile.count("FROM ") == 2
    assert "FROM debian:12 AS step0\n" in dockerfile and "FROM step0 AS step1\n" in dockerfile


def test_the_verb_finds_what_the_service_has(service, tendon):
    result = tendon("--json", *RECIPE, "--builder", "remote")
    found = json.loads(result.stdout)
    assert found["how"] == "found" and found["image"].startswith("reg.example/team/runtime:")
    assert service.uploads == []


def test_the_verb_says_what_is_missing(tendon):
    result = tendon(*RECIPE, "--builder", "remote", SANDBOX_API_KEY="")
    assert result.returncode == 2 and "sandbox.api_key" in result.stderr
    result = tendon(*RECIPE, "--builder", "remote", "--network", "none")
    assert result.returncode == 69 and "network" in result.stderr


def test_no_engine_is_needed_to_see_what_would_be_built(tendon):
    result = tendon(*RECIPE, "--dry-run")
    assert result.returncode == 0 and "FROM debian:12\n" in result.stdout
    assert "no container engine was asked" in result.stderr
    assert tendon(*RECIPE).returncode != 0


def test_the_build_folder_needs_no_engine(tendon, tmp_path):
    result = tendon(*RECIPE, "--output", str(tmp_path / "out"))
    assert result.returncode == 0 and result.stdout.startswith("tendon/runtime:"), result
    assert "FROM debian:12 AS step0\n" in (tmp_path / "out/Dockerfile").read_text()


def test_the_build_folder_has_the_files_of_the_context(tendon, tmp_path):
    context, out = tmp_path / "context", tmp_path / "out"
    (context / "a").mkdir(parents=True)
    (context / "a/file").write_text("new")
    (context / "link").symlink_to("/etc/passwd")
    (context / "Dockerfile").write_text("theirs")
    os.mkfifo(context / "fifo")
    (out / "link").mkdir(parents=True)  # of an earlier time
    (out / "a").symlink_to(tmp_path)
    (out / "other").write_text("stays")
    arguments = [*RECIPE, "--context", str(context), "--platform", "linux/arm64"]
    result = tendon(*arguments, "--output", str(out))
    assert result.returncode == 0, result
    assert sorted(p.relative_to(out).as_posix() for p in out.rglob("*")) == ["Dockerfile", "a", "a/file", "link", "other"]
    assert (out / "a/file").read_text() == "new" and not (out / "a").is_symlink()
    assert os.readlink(out / "link") == "/etc/passwd"
    assert "FROM --platform=linux/arm64 debian:12 AS step0\n" in (out / "Dockerfile").read_text()
    for inside in (context, context / "out"):
        result = tendon(*arguments, "--output", str(inside))
        assert result.returncode == 2 and "lies in the build context" in result.stderr
    assert (context / "Dockerfile").read_text() == "theirs" and not (context / "out").exists()


def test_a_build_argument_of_two_lines(tendon, tmp_path):
    arguments = [*RECIPE, "--build-arg", "A=1\nRUN false"]
    assert "\nARG A\n" in tendon(*arguments, "--dry-run").stdout  # an engine is told beside it
    result = tendon(*arguments, "--output", str(tmp_path / "out"))
    assert result.returncode == 69 and "line breaks" in result.stderr
    result = tendon(*RECIPE, "--dry-run", "--build-arg", '{"A": 1}')
    assert result.returncode == 2 and "build argument A" in result.stderr

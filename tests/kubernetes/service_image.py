"""The image of the service: deploy/Dockerfile, built by a real dockerd whose builds reach Debian's archive and nothing else."""

import contextlib
import http.server
import pathlib
import shutil
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

from engine import Dockerd, namespace_socket, start_engine
from images import archive, debian_tar
from trees import RELEASE, ROOT

GATEWAY = "172.17.0.1"  # of docker0
BASES = ("debian:bookworm", "debian:bookworm-slim")
DOCKERFILE = ROOT / "deploy/Dockerfile"


class Archive(http.server.BaseHTTPRequestHandler):
    """A proxy, as apt wants one."""

    timeout = 120

    def do_GET(self):
        if not self.path.startswith(archive() or "http://deb.debian.org/"):
            return self.send_error(403)
        try:
            answer = urllib.request.urlopen(self.path, timeout=60)
        except urllib.error.HTTPError as refused:
            return self.send_error(refused.code)
        except OSError as error:
            return self.send_error(502, str(error))
        with answer:
            self.send_response(answer.status)
            for name in ("Content-Length", "Last-Modified"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            shutil.copyfileobj(answer, self.wfile)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def archive_proxy(engine):
    """Its address inside of the engine's network."""
    server = http.server.ThreadingHTTPServer((GATEWAY, 0), Archive, bind_and_activate=False)
    server.socket.close()
    server.socket = namespace_socket(engine.process.pid)
    server.server_bind()
    server.server_activate()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{GATEWAY}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def without_compiler(engine, base):
    """The Dockerfile, with the programs of this tree for its first stage: compiling all of it takes minutes."""
    subprocess.run(["meson", "install", "-C", RELEASE, "--no-rebuild", "--quiet", "--destdir", base / "tree/out"], check=True, timeout=60)
    subprocess.run(["tar", "-C", base / "tree", "-cf", base / "programs.tar", "."], check=True, timeout=60)
    engine.load("programs", base / "programs.tar")
    _, last = DOCKERFILE.read_text().split("\n\n", 1)
    (base / "Dockerfile").write_text("FROM programs AS build\n" + last)
    (base / "context").mkdir()
    return base / "Dockerfile", base / "context"


def build_image(name, path, whole=False):
    """Writes a docker archive of the image; whole: with everything compiled in it."""
    engine = start_engine(Dockerd, "dockerd")
    try:
        engine.docker("tag", engine.load(BASES[0], debian_tar()), BASES[1])
        base = pathlib.Path(engine.base)
        file, context = (DOCKERFILE, ROOT) if whole else without_compiler(engine, base)
        with archive_proxy(engine) as proxy:
            built = engine.try_docker("build", "--build-arg", f"http_proxy={proxy}", "--file", file, "--tag", name, context, timeout=1500)
        said = built.stdout[-3000:] + built.stderr
        if "Failed to fetch" in said:
            pytest.skip(f"no packages from Debian's archive: {said[-500:]}")
        assert built.returncode == 0, said
        engine.docker("run", "--rm", "--network=none", name, "--version", timeout=60)
        engine.docker("save", "--output", path, name, timeout=120)
    finally:
        engine.stop()
    return path

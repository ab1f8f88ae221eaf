"""Templates that clients would build, on a container engine."""

import pathlib
import sys

import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "service"))

from e2b_wire import begin, declare, ended, step  # noqa: E402
from services import eventually  # noqa: E402
from test_service_builds import DockerService  # noqa: E402


@pytest.fixture(scope="module")
def service(engine, static_hand, tmp_path_factory):
    service = DockerService(tmp_path_factory.mktemp("templates"), engine).start()
    yield service
    service.finish()


def test_none_where_nothing_can_be_forked(service, debian_image):
    """A container engine has no forks: it is said before anything is built."""
    client = service.tenant("acme", "--e2b")
    build = declare(client, "of-an-image")
    begin(client, build, step("RUN", "true"), fromImage=debian_image).ok(202)
    end = ended(client, build)
    assert end["status"] == "error" and end["reason"] == {"step": "base", "message": "docker cannot fork a sandbox"}, end
    wish = {"name": "b", "dockerfile": f"FROM {debian_image}\nRUN true\n"}
    assert "fork" in client.post("/v1/blueprints", wish).ok(501).json["message"]
    eventually(lambda: client.get("/v1/sandboxes").ok().json["sandboxes"] == [], "the end of both")

"""Templates that clients would build, on a container engine."""

import pathlib
import sys

import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "service"))

from e2b_wire import begin, declare, ended, step  # noqa: E402
from modal_wire import PRECONDITION, Wire, text  # noqa: E402
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


def test_images_of_modal_are_those_that_are_there(service, debian_image):
    """RUN is refused before anything is made; debian_slim, the image of who names none, is as it comes."""
    client = service.tenant("modal")
    wire = Wire(service, client.key)
    wish = [(6, f"FROM {debian_image}"), (6, "RUN true")]
    assert "docker cannot fork" in wire.call("ImageGetOrCreate", [(2, wish)]).ok(PRECONDITION).message
    plain = text(wire.call("ImageGetOrCreate", [(2, wish[:1])]).one, 1)
    slim = [*wish, (6, "RUN apt-get install -y gcc gfortran build-essential")]
    assert text(wire.call("ImageGetOrCreate", [(2, slim)]).one, 1) == plain
    assert client.get("/v1/sandboxes").ok().json["sandboxes"] == []

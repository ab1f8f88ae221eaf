"""The real editor of a sandbox, through the service's preview, in a real browser."""

import pathlib
import sys

import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "service"))

from chrome import Chrome  # noqa: E402
from native import at, make, run  # noqa: E402
from peers import code_server  # noqa: E402
from services import Service  # noqa: E402
from test_vscode_real import see_file, see_workspace  # noqa: E402

pytestmark = pytest.mark.timeout(240)
CONFIG = """
[template.editor]
plugins = ["vscode"]
volumes = ["{peer}:/opt/editor:ro"]
env = {{TENDON_VSCODE = "/opt/editor/node_modules/.bin/code-server"}}
"""


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path / "service", config=CONFIG.format(peer=code_server()))
    doctor = service.tendon("doctor", "--runtime", "jail")
    if doctor.returncode:
        service.ids.stop()
        pytest.skip(f"the jail does not work here: {doctor.stdout}{doctor.stderr}")
    yield service.start()
    service.finish()


def test_code_server_through_the_preview(service):
    """The link signs in and shows the workspace; whoever has no link, and another tenant, sees nothing."""
    client = service.tenant("acme")
    box = make(client, template="editor", plugins=["vscode"])
    run(client, box, "echo good morning > hello.txt")
    link = client.post(at(box, "/editor")).ok(201).json["link"]
    assert service.tenant("other").post(at(box, "/editor")).status == 404
    chrome = Chrome()
    try:
        see_workspace(chrome, link, "hello.txt")
        see_file(chrome, "hello.txt", "good morning")
        place = chrome.evaluate("location.host")
        assert box["id"] in place and place.endswith(f".localhost:{service.port}"), place
        assert "ticket" not in chrome.evaluate("location.href")
    finally:
        chrome.close()
    answer = service.stranger(headers={"Host": place}).get("/")
    assert answer.status in (401, 403), answer
    assert client.delete(at(box)).status == 204

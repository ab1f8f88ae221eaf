"""The browser of a sandbox at a host of a secret, whose TLS the gate ends: it believes the sandbox's authority, by a policy
that it reads, for it has a list of its own and asks no variable."""

import shutil

import pytest
from service_there import ServiceThere

from native import at, make  # isort: skip


@pytest.fixture(scope="module")
def service(world, tmp_path_factory):
    if not shutil.which("chromium"):
        pytest.skip("no chromium on this machine")
    roots = world.internet.certificates / "root.pem"
    service = ServiceThere(world, tmp_path_factory.mktemp("browser"), settings={"security.roots": roots}).start()
    yield service
    service.finish()


def browse(client, box, url):
    body = {"action": {"action": "browse", "args": {"url": url}, "timeout": 55}}
    return client.post(at(box, "/actions"), body).ok().json


def test_it_believes_the_authority_of_its_sandbox(service):
    admin = service.client()
    value = {"value": "a-key-of-the-test", "hosts": ["api.test"]}
    admin.put("/v1/secrets/API_KEY", value).ok()
    box = make(admin, network="allow", allow=["api.test"], secrets=["API_KEY"])
    shown = browse(admin, box, "https://api.test/echo")
    assert shown["observation"] == "browse" and not shown["extras"]["error"], shown
    assert "size" in shown["content"] and "api.test" in shown["content"], shown["content"]
    admin.delete(at(box))
    admin.delete("/v1/secrets/API_KEY")

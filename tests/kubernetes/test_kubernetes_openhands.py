"""OpenHands' RemoteRuntime through `tendon serve` to pods: a whole story on the wire of its client; and a service that is killed."""

import pathlib
import sys
import threading

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "service"))

from conformance import wait_until  # noqa: E402
from native import at, make, run_action  # noqa: E402
from openhands_clients import RemoteRuntime  # noqa: E402
from services import Service  # noqa: E402


@pytest.fixture
def service(world, debian_image):
    settings = {"resume_on_use": "false", "sandbox.base_container_image": debian_image, **world.settings}
    service = Service(world.base / "service", runtime="kubernetes", settings=settings, env=world.env).start()
    yield service
    service.finish()


def test_a_story(world, service):
    """Start, actions, files, pause, resume, adoption by another client, stop."""
    before = world.census()
    key = service.tenant("acme").key
    runtime = RemoteRuntime(service, key, "story", keep_alive=True, pause_closed=True).connect()
    (pod,) = world.names("pods")
    assert runtime.runtime_id in pod
    assert runtime.act("echo $FROM_THE_CLIENT $FROM_SETUP; pwd; id -u") == "yes yes\n/workspace\n1000"
    runtime.upload("notes.txt", b"hello", "/workspace")
    assert runtime.list_files("/workspace") == ["notes.txt"]
    assert runtime.download("/workspace").startswith(b"PK")
    runtime.close()
    told = runtime.call("GET", "/sessions/story").ok().json
    assert (told["status"], told["pod_status"], world.names("pods")) == ("paused", "not found", set())
    assert runtime.inside("GET", "/alive").status == 503
    again = RemoteRuntime(service, key, "story").connect()
    assert (again.runtime_id, ("POST", "/resume", 200) in again.calls) == (runtime.runtime_id, True)
    assert again.act("cat notes.txt; echo $FROM_THE_CLIENT") == "helloyes"
    again.close()
    assert again.call("GET", "/sessions/story").status == 404
    assert world.census() == before


def test_what_is_paused_wakes(world, debian_image, tmp_path):
    """A pause is a stop: the next action starts it again, and the oldest makes room for one more; what was stopped by name stays so."""
    settings = {"max_sandboxes": 1, "sandbox.base_container_image": debian_image, **world.settings}
    service = Service(tmp_path / "service", runtime="kubernetes", settings=settings, env=world.env).start()
    try:
        client = service.tenant("acme")
        runtime = RemoteRuntime(service, client.key, "wakes", keep_alive=True, pause_closed=True).connect()
        runtime.upload("notes.txt", b"hello", "/workspace")
        runtime.close()
        assert (runtime.call("GET", "/sessions/wakes").ok().json["status"], world.names("pods")) == ("paused", set())
        assert runtime.act("cat notes.txt") == "hello"
        second = make(client)
        assert [client.get(at(name)).ok().json["state"] for name in (runtime.runtime_id, second)] == ["stopped", "running"]
        assert runtime.act("cat notes.txt") == "hello"
        client.post(at(runtime.runtime_id, "/stop")).ok()
        assert client.post(at(runtime.runtime_id, "/actions"), run_action("true")).status == 503
    finally:
        service.finish()


@pytest.mark.parametrize("when", ["secrets", "pods"])
def test_a_service_that_is_killed_while_it_makes_one(world, service, when):
    """What it was making is found by the next one, or by gc, and nothing of others is touched."""
    labels = {"app": "openhands-runtime", "session": "other00001", "tendon.dev/id": "other00001", "tendon.dev/state": "other"}
    target = f"/api/v1/namespaces/{world.namespace}/secrets"
    theirs = world.cluster.must("POST", target, {"metadata": {"name": "openhands-runtime-other00001-key", "labels": labels}})
    before = world.census()
    client = service.tenant("acme")

    def create():
        with pytest.raises(OSError):
            client.post("/v1/sandboxes", {"plugins": []})

    thread = threading.Thread(target=create)
    thread.start()
    wait_until(lambda: world.names(when) != before[when], 60, "it has begun")
    service.kill()
    thread.join(60)
    service.start()
    assert service.tendon("rm", "--all", "--quiet").returncode == 0
    assert service.tendon("gc").returncode == 0
    assert world.census() == before
    assert world.cluster.get(f"{target}/openhands-runtime-other00001-key")["metadata"] == theirs["metadata"]
    world.cluster.must("DELETE", f"{target}/openhands-runtime-other00001-key")

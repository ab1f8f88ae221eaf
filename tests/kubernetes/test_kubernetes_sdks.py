"""The vendors' own SDKs, unmodified, through `tendon serve` to pods: sdk_smoke.py, one sandbox each."""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "service"))

from conformance import wait_until  # noqa: E402
from kube_world import KubeWorld  # noqa: E402
from native import at, make  # noqa: E402
from peers import sdk  # noqa: E402
from services import Service  # noqa: E402
from vendors import environment  # noqa: E402


@pytest.fixture(scope="module")
def world(request, cluster, static_hand, endings):
    world = KubeWorld(cluster, cluster.make_namespace(), static_hand)
    yield world
    world.finish()
    cluster.drop_namespace(world.namespace)


@pytest.fixture(scope="module")
def service(world, debian_image):
    settings = {"sandbox.base_container_image": debian_image, "images": "docker.io/library/debian:*", **world.settings}
    service = Service(world.base / "service", runtime="kubernetes", settings=settings, env=world.env).start()
    yield service
    service.finish()


def variables(vendor, service, key):
    if vendor != "modal":
        return environment(vendor, service.port, key)
    return {"MODAL_SERVER_URL": f"http://127.0.0.1:{service.port}", "MODAL_TOKEN_ID": "tendon", "MODAL_TOKEN_SECRET": key}


@pytest.mark.parametrize("vendor", ["e2b", "daytona", "runloop", "modal"])
def test_a_sandbox_by_the_sdk(world, service, vendor):
    """Made, used by commands and files, listed, looked at from outside, and removed."""
    python = sdk(vendor)
    # One of Modal's is remembered for two minutes, without its pod.
    census = (lambda: world.names("pods")) if vendor == "modal" else world.census
    before = census()
    key = service.make_key(vendor, "--tenant", vendor, *(["--e2b"] if vendor == "e2b" else []))["key"]
    env = {**service.env, **variables(vendor, service, key)}
    done = subprocess.run([python, HERE / "sdk_smoke.py", vendor], env=env, cwd=world.base, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr[-4000:]
    wait_until(lambda: census() == before, 60, "nothing of it is left")


def test_swe_rex(world, service):
    """Its client's stories, which hold for any sandbox, over one pod."""
    before = world.census()
    client = service.tenant("rex")
    box = make(client)
    for story in ("sessions", "commands", "files"):
        words = [sdk("swe-rex"), HERE.parent / "service/swerex_story.py", f"http://127.0.0.1:{service.port}/swerex/{box['id']}", story]
        done = subprocess.run(words, env={**service.env, "SWEREX_TOKEN": client.key}, cwd=world.base, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0 and "\ndone\n" in done.stdout, done.stdout[-2000:] + done.stderr[-4000:]
    client.delete(at(box)).ok(204)
    wait_until(lambda: world.census() == before, 60, "nothing of it is left")

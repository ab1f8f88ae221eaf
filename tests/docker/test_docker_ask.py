"""A connection of a container that no rule allows waits while somebody is asked, as that of a jail does."""

import os
import signal

import pytest
from gated_containers import ThinWorld, keepers
from test_service_builds import DockerService

from gate_world import Box, until
from native import at, make
from services import eventually
from test_gate_ask import GET, RESET, Running, answer, curl, looked_up, network, pending

pytestmark = pytest.mark.timeout(300)


class AskingService(DockerService):
    """On the machine of the gate's tests."""

    def __init__(self, base, world):
        super().__init__(base, world.engine)
        self.world = world
        self.settings["jail.ask_seconds"] = 45

    def command(self):
        return self.world.machine.words(*super(DockerService, self).command())


@pytest.fixture(scope="module", params=["docker", "podman"])
def world(request, static_hand):
    world = ThinWorld(request.getfixturevalue({"docker": "engine", "podman": "podman"}[request.param]), static_hand)
    yield world
    world.finish()


@pytest.fixture(scope="module")
def service(world, tmp_path_factory):
    service = AskingService(tmp_path_factory.mktemp("ask"), world).start()
    yield service
    service.finish()


@pytest.fixture
def box(service):
    admin = service.client()
    box = make(admin, image="thin", volumes=["/usr:/usr:ro"], network="allow", allow=["good.test"], ask=True)
    yield box
    admin.delete(at(box))


def test_asked_and_allowed_and_asked_again(world, service, box):
    admin, since = service.client(), len(world.internet.lines())
    for _ in range(2):
        asking = curl(service, box, "evil.test")
        (one,) = pending(admin, box)
        assert one["action"]["action"] == "network" and one["rule"] == "evil.test"
        assert asking.answer is None
        answer(admin, box, one).ok()
        assert asking.end() == (0, "GET evil.test / 0") and looked_up(world, "evil.test", since)
    assert network(admin, box)["rules"] == ["good.test"]


def test_refused(world, service, box):
    admin, since = service.client(), len(world.internet.lines())
    asking = curl(service, box, "evil.test")
    (one,) = pending(admin, box)
    answer(admin, box, one, "reject", reason="not there").ok()
    assert asking.end()[0] in RESET and not looked_up(world, "evil.test", since)
    (refusal,) = network(admin, box)["refusals"]
    assert refusal["what"] == "evil.test:80" and refusal["why"].startswith("no rule, and ")


def test_allowed_with_a_rule(service, box):
    admin = service.client()
    asking = curl(service, box, "evil.test")
    (one,) = pending(admin, box)
    answer(admin, box, one, rule=True).ok()
    assert asking.end()[0] == 0
    assert network(admin, box)["rules"] == ["good.test", "evil.test"]
    assert curl(service, box, "evil.test").end()[0] == 0
    assert pending(admin, box, 0) == []


def test_the_keeper_is_killed(world, service, box):
    """What waits is refused; the next action brings another keeper, and somebody is asked again."""
    admin, mine = service.client(), Box(world, box["id"], 0)
    assert Running(admin, box, f"{GET.format('evil.test')} >/dev/null 2>&1 &").end()[0] == 0
    (one,) = pending(admin, box)
    (keeper,) = keepers(mine)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: keeper not in keepers(mine))
    used = Running(admin, box, GET.format("good.test"))
    assert used.end()[0] == 0, used.answer.json
    assert len(keepers(mine)) == 1
    eventually(lambda: one["id"] not in [p["id"] for p in pending_now(admin, box)], "it is not asked any more")

    def asked():
        asking = curl(service, box, "evil.test")
        waiting = eventually(lambda: pending_now(admin, box) or asking.answer, "asked, or refused")
        if not isinstance(waiting, list):  # nobody listened to the new keeper yet
            return False
        answer(admin, box, waiting[0]).ok()
        return asking.end()[0] == 0

    eventually(asked, "somebody is asked")


def pending_now(client, box):
    return client.get(at(box, "/pending")).ok().json["pending"]

"""Warm pools: filled, claimed, bounded, drained; over restarts too."""

import contextlib
import os
import signal
import sqlite3
import threading

import pytest

from native import at, make, run
from services import Service, eventually

from census import all_pids, read  # isort: skip # services knows where it is

CONFIG = """
[template.small]
memory = "256m"
plugins = []

[pool.small]
template = "small"
target = 3
minimum = 1
burst = 2
"""


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("pools"), config=CONFIG).start()
    yield service
    remove_all(service)
    service.finish()


def pools(service):
    return {pool["name"]: pool for pool in service.client().get("/v1/pools").ok().json["pools"]}


def warm(service):
    """{id: (status, pid of the owner)} of all sandboxes that wait, as the store has them."""
    database = sqlite3.connect(f"file:{service.state}/tendon.db?mode=ro", uri=True)
    try:
        return {row[0]: row[1:] for row in database.execute("SELECT id, status, owner_pid FROM sandbox WHERE pool IS NOT NULL")}
    finally:
        database.close()


def set_pool(service, name, status=200, **body):
    return service.client().put(f"/v1/pools/{name}", body).ok(status)


def full(service, name):
    """Waits until it has what it should have; the pool."""

    def is_full():
        pool = pools(service)[name]
        assert pool["ready"] + pool["making"] <= pool["target"], pool
        return pool["ready"] == pool["target"] and pool

    return eventually(is_full, f"pool {name} is full")


def remove_all(service):
    """Pools of the configuration go with their section."""
    if service.process:
        service.stop()
    service.write_config("")
    service.start()
    for name in pools(service):
        service.client().delete(f"/v1/pools/{name}").ok(204)
    eventually(lambda: not warm(service), "all warm ones are gone")


def test_the_configuration_makes_a_pool(service):
    pool = full(service, "small")
    assert (pool["target"], pool["minimum"], pool["burst"], pool["configured"]) == (3, 1, 2, True)
    assert pool["template"] == "small" and pool["spec"]["memory"] == "256m" and pool["problem"] is None
    # It belongs to the configuration.
    reply = set_pool(service, "small", 409, template="small", target=9)
    assert "[pool.small]" in reply.json["detail"]
    service.client().delete("/v1/pools/small").ok(409)


def test_a_claim_is_warm_and_is_replaced(service):
    before = full(service, "small")
    waiting = set(warm(service))
    client = service.tenant("claims")
    box = client.post("/v1/sandboxes", {"template": "small"}).ok(201).json
    assert box["id"] in waiting and box["state"] == "running"
    assert run(client, box, "echo $HOSTNAME; echo warm")["content"].endswith("warm")
    after = full(service, "small")
    assert (after["claimed"] - before["claimed"], after["missed"] - before["missed"]) == (1, 0)
    assert box["id"] not in warm(service)
    # What differs does not come out of it.
    other = client.post("/v1/sandboxes", {"template": "small", "memory": "128m"}).ok(201).json
    assert other["id"] not in waiting and pools(service)["small"]["claimed"] == after["claimed"]
    # A used one never returns.
    run(client, box, "echo secret >/tmp/left; touch ~/left")
    client.delete(at(box)).ok(204)
    client.delete(at(other)).ok(204)
    full(service, "small")
    seen = []
    for _ in range(4):
        fresh = client.post("/v1/sandboxes", {"template": "small"}).ok(201).json
        assert fresh["id"] not in (box["id"], *seen)
        seen.append(fresh["id"])
        assert run(client, fresh, "ls /tmp/left ~/left")["extras"]["metadata"]["exit_code"] != 0
        client.delete(at(fresh)).ok(204)


@pytest.mark.concurrent
def test_a_burst_of_tenants(service):
    """More at once than there are: everybody gets one of its own, and the pool is never over its target."""
    full(service, "small")
    clients = [service.tenant(f"tenant{i}") for i in range(4)]
    clients = [service.client(clients[i % 4].key) for i in range(12)]
    boxes, stop = [None] * 12, threading.Event()
    most = [0]

    def watch():
        while not stop.is_set():
            most[0] = max(most[0], len(warm(service)))

    def create(i):
        boxes[i] = clients[i].post("/v1/sandboxes", {"template": "small"}).ok(201).json

    watcher = threading.Thread(target=watch)
    watcher.start()
    threads = [threading.Thread(target=create, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    full(service, "small")
    stop.set()
    watcher.join()
    assert 1 <= most[0] <= 3
    assert len({box["id"] for box in boxes}) == 12
    for client, box in zip(clients, boxes):
        assert run(client, box, "echo mine")["content"] == "mine"
        client.delete(at(box)).ok(204)


def test_a_pool_by_the_api(service):
    set_pool(service, "api", plugins=[], memory="192m", target=2)
    assert full(service, "api")["configured"] is False
    # Another of the same kind would fight with it.
    reply = set_pool(service, "twin", 409, plugins=[], memory="192m", target=1)
    assert "another pool" in reply.json["detail"]
    # More, then fewer.
    set_pool(service, "api", plugins=[], memory="192m", target=4)
    full(service, "api")
    set_pool(service, "api", plugins=[], memory="192m", target=1)
    eventually(lambda: pools(service)["api"]["ready"] == 1, "those too many are removed")
    # Of another kind: the old ones go.
    old = set(warm(service))
    small = {box for box, _ in warm(service).items()}
    set_pool(service, "api", plugins=[], memory="160m", target=1)
    full(service, "api")
    eventually(lambda: len(set(warm(service)) & old) == 3, "only those of the other pool stay")
    assert small & set(warm(service))
    service.client().delete("/v1/pools/api").ok(204)
    assert "api" not in pools(service)
    eventually(lambda: len(warm(service)) == 3, "its warm one is gone")
    service.client().delete("/v1/pools/api").ok(404)


def test_a_burst_is_as_large_as_it_may_be(service):
    """Never more are made at a time than that, however many are missing."""
    full(service, "small")
    others = set(warm(service))
    set_pool(service, "slow", plugins=[], memory="144m", target=5, burst=1)
    seen = []

    def is_full():
        mine = [status for box, (status, _) in warm(service).items() if box not in others]
        seen.append(sum(status != 1 for status in mine))
        return mine == [1] * 5

    eventually(is_full, "one after the other")
    assert max(seen) <= 1, seen
    service.client().delete("/v1/pools/slow").ok(204)
    eventually(lambda: set(warm(service)) == others, "its warm ones are gone")


def test_wrong_wishes(service):
    for name, body, word in (
        ("a b", {"target": 1}, "letters"),
        ("x", {"target": -1}, "target"),
        ("x", {"target": 1, "minimum": 2}, "minimum"),
        ("x", {"target": 20000}, "target"),
        ("x", {"target": 1, "burst": 1000}, "burst"),
        ("x", {"target": 1, "runtime": "nonsense"}, "nonsense"),
        ("x", {"target": 1, "template": "nonsense"}, "nonsense"),
    ):
        reply = service.client().put(f"/v1/pools/{name.replace(' ', '%20')}", body)
        assert 400 <= reply.status < 500 and word in reply.json["detail"], (name, body, reply)
    assert set(pools(service)) == {"small"}
    service.tenant("nobody").get("/v1/pools").ok(403)


def test_a_pool_that_cannot_be_filled_says_why(service):
    set_pool(service, "broken", plugins=[], image="/no/such/image.tar", target=2)
    pool = eventually(lambda: pools(service)["broken"]["problem"] and pools(service)["broken"], "it says why")
    assert "/no/such/image.tar" in pool["problem"] and pool["ready"] == 0
    full(service, "small")  # others are not held up
    eventually(lambda: all(status == 1 for status, _ in warm(service).values()), "what fails leaves nothing")
    service.client().delete("/v1/pools/broken").ok(204)
    eventually(lambda: "broken" not in pools(service), "it can be removed")


def test_a_dead_one_is_not_handed_out(service):
    full(service, "small")
    client = service.client()
    groups = [f"/tendon/{box}".encode() for box in warm(service)]
    killed = [pid for pid in all_pids() if any(group in read(f"/proc/{pid}/cgroup") for group in groups)]
    assert len(killed) >= len(groups)
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):  # the first of them takes the others along
            os.kill(pid, signal.SIGKILL)
    box = client.post("/v1/sandboxes", {"template": "small"}).ok(201).json
    assert box["state"] == "running"
    assert run(client, box, "echo alive")["content"] == "alive"
    client.delete(at(box)).ok(204)


def test_a_killed_service_leaves_no_more_than_the_target(make_service, jail_works):
    service = make_service(config=CONFIG.replace("target = 3", "target = 8")).start()
    for _ in range(3):  # in the middle of filling
        service.kill()
        assert len(warm(service)) <= 8
        service.start()
    full(service, "small")
    kept = set(warm(service))
    assert len(kept) == 8 and all(owner == 0 for _, owner in warm(service).values())
    directories = [path.name for path in (service.state / "sandbox").iterdir() if path.is_dir()]
    assert set(directories) == kept  # nothing half made is left beside them
    service.restart()
    assert full(service, "small")["making"] == 0
    assert set(warm(service)) == kept  # the next service hands out the same
    client = service.client()
    box = make(client, template="small")
    assert box["id"] in kept
    client.delete(at(box)).ok(204)
    # A section that is gone takes its sandboxes along, also when the service dies over it.
    service.kill()
    service.write_config("")
    service.start()
    service.kill()
    service.start()
    eventually(lambda: not warm(service), "they are gone")
    assert pools(service) == {}

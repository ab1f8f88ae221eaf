"""What a tenant may ask for: the operator's limits, runtimes, images and times are its ceilings, in every dialect."""

import concurrent.futures
import json
import os
import sqlite3
import subprocess
import threading

import pytest

from native import at, make, run, run_action
from services import Service, eventually, preloaded

CONFIG = """
[jail]
runsc = "/nonexistent/runsc"
memory = "512m"
pids = 256
open_files = 1024
cpus = 2

[docker]
host = "unix:///nowhere/docker.sock"

[template.large]
plugins = []
memory = "700m"
pids = 400

[template.endless]
plugins = []
memory = "0"

[template.walled]
plugins = []
isolation = "gvisor"

[template.virtual]
plugins = []
isolation = "kata"

[template.marked]
plugins = []
labels = {"traefik.enable" = "false"}
"""


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    settings = {"sandbox_disk": "64m", "idle_pause_seconds": 600, "ttl_seconds": 7200}
    service = Service(tmp_path_factory.mktemp("tenants"), config=CONFIG, settings=settings).start()
    yield service
    service.finish()


def denied(reply, *words, status=403):
    assert reply.status == status, reply
    for word in words:
        assert word in reply.json["detail"], (word, reply.json)


def rows(service, statement, *values):
    db = sqlite3.connect(service.state / "tendon.db", timeout=30)
    try:
        return db.execute(statement, values).fetchall()
    finally:
        db.close()


def nothing_was_made(client):
    assert client.get("/v1/sandboxes").ok().json["sandboxes"] == []


# --- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wish, words",
    [
        ({"memory": "0"}, ["memory", "no limit", "512 MiB", "jail.memory"]),
        ({"memory": "513m"}, ["memory", "513 MiB", "512 MiB", "jail.memory"]),
        ({"memory": "999t"}, ["memory: 1047527424 MiB", "512 MiB"]),
        ({"memory": "1.1g", "template": "large"}, ["memory", "700 MiB", "template"]),
        ({"pids": 0}, ["pids", "256", "jail.pids"]),
        ({"pids": 257}, ["pids", "257", "256"]),
        ({"cpus": 0}, ["cpus", "2", "jail.cpus"]),
        ({"cpus": 2.1}, ["cpus", "2.1"]),
        ({"open_files": 0}, ["open_files", "1024", "jail.open_files"]),
        ({"open_files": 100000}, ["open_files", "1024"]),
        ({"disk": "0"}, ["disk", "64 MiB", "service.sandbox_disk"]),
        ({"disk": "1g"}, ["disk", "1024 MiB", "64 MiB"]),
        ({"resource_factor": 2}, ["memory", "resource_factor of 2", "512 MiB"]),
        ({"memory": "300m", "resource_factor": 2}, ["memory", "600 MiB", "resource_factor"]),
        ({"memory": "100m", "cpus": 1.5, "resource_factor": 2}, ["cpus", "3", "resource_factor"]),
        ({"memory": "0", "pids": 0, "disk": "0"}, ["no limit"]),
        ({"idle_pause": 0}, ["idle_pause", "600 seconds", "service.idle_pause_seconds"]),
        ({"idle_pause": 601}, ["idle_pause", "600"]),
        ({"ttl": 0}, ["ttl", "7200", "service.ttl_seconds", "for ever"]),
        ({"ttl": 7201}, ["ttl", "7200"]),
    ],
    ids=str,
)
def test_a_limit_of_the_operator_is_a_ceiling(alice, wish, words):
    denied(alice.post("/v1/sandboxes", wish), *words)
    nothing_was_made(alice)


@pytest.mark.parametrize(
    "wish", [{"memory": "-1"}, {"memory": "9" * 30}, {"memory": "99999999999t"}, {"pids": -1}, {"pids": 1e300}, {"cpus": -1},
             {"disk": "-1g"}, {"resource_factor": -1}, {"resource_factor": 1e300}], ids=str
)
def test_numbers_that_are_none(alice, wish):
    assert alice.post("/v1/sandboxes", wish).status in (400, 403, 422)
    nothing_was_made(alice)


@pytest.mark.parametrize(
    "wish", [{"memory": "1"}, {"memory": "1k"}, {"pids": 1}, {"open_files": 1}, {"disk": "1k"}, {"file_size": "1"},
             {"wall_time": 0.001}], ids=str
)
def test_what_no_sandbox_lives_with(alice, wish):
    denied(alice.post("/v1/sandboxes", wish), *wish, "at least", status=400)
    nothing_was_made(alice)


@pytest.mark.parametrize(
    "wish, words",
    [
        ({"env": {f"V{n}": "x" for n in range(1025)}}, ["env", "1024"]),
        ({"env": {"V": "x" * (128 << 10)}}, ["env", "V", "128 KiB"]),
        ({"env": {f"V{n}": "x" * 100_000 for n in range(6)}}, ["512 KiB"]),
        ({"ports": list(range(1, 258))}, ["ports", "256"]),
        ({"plugins": [f"p{n}" for n in range(257)]}, ["plugins", "256"]),
        ({"workspace": "/" + "x" * (600 << 10)}, ["512 KiB"]),
    ],
    ids=["variables", "one variable", "bytes", "ports", "plugins", "workspace"],
)
def test_what_is_kept_of_a_wish_is_bounded(service, alice, wish, words):
    denied(alice.post("/v1/sandboxes", {"plugins": [], **wish}), *words, status=413)
    nothing_was_made(alice)
    if "env" in wish:
        start = {"image": "x", "session_id": "large", "command": ["x"], "environment": wish["env"]}
        assert service.tenant("large").post("/start", start).status == 413


def test_up_to_the_ceiling(alice):
    box = make(alice, memory="512m", pids=256, cpus=2, open_files=1024, ttl=7200, idle_pause=600)
    alice.delete(at(box)).ok(204)
    box = make(alice, memory="128m", cpus=0.5, resource_factor=4)
    alice.delete(at(box)).ok(204)
    box = make(alice, template="large", memory="650m")  # what a template has is the operator's word
    for ttl in (0, 8000):
        denied(alice.patch(at(box), {"ttl": ttl}), "ttl", "7200")
    denied(alice.patch(at(box), {"idle_pause": 0}), "idle_pause", "600")
    alice.patch(at(box), {"ttl": 60, "idle_pause": 30}).ok()
    alice.delete(at(box)).ok(204)
    alice.delete(at(make(alice, template="endless"))).ok(204)


def test_the_administrator_has_no_ceiling(service):
    admin = service.client()
    box = make(admin, memory="0", pids=0, ttl=0)
    # Whoever may only have less cannot multiply what was given.
    given = admin.post("/v1/sandboxes", {"plugins": [], "memory": "600m"}).ok(201).json
    for each in (box, given):
        admin.delete(at(each)).ok(204)


def test_a_fork_has_the_ceilings_of_who_asks(service):
    admin = service.client(service.make_key("root", "--tenant", "forks", "--scope", "read,use,manage,admin")["key"])
    client = service.tenant("forks")
    box = make(admin, memory="600m")
    denied(client.post(at(box, "/fork"), {}), "memory", "512 MiB")
    child = admin.post(at(box, "/fork"), {}).ok(201).json
    for each in (child, box):
        admin.delete(at(each)).ok(204)


def test_the_runtime_api_has_the_same_ceilings(service):
    client = service.tenant("openhands")
    start = {"image": "x", "session_id": "s", "command": ["x"], "environment": {}}
    denied(client.post("/start", {**start, "resource_factor": 2}), "memory", "resource_factor of 2", "512 MiB")
    runtime = client.post("/start", {**start, "resource_factor": 0.5}).ok().json
    client.post("/stop", {"runtime_id": runtime["runtime_id"]}).ok()
    runtime = client.post("/start", {**start, "runtime_class": "large"}).ok().json
    client.post("/stop", {"runtime_id": runtime["runtime_id"]}).ok()
    denied(client.post("/start", {**start, "runtime_class": "large", "resource_factor": 2}), "700 MiB")


def test_a_pool_gives_nobody_more(service):
    """Warm ones of more than a tenant may have are the administrator's."""
    admin, client = service.client(), service.tenant("claims")
    admin.put("/v1/pools/big", {"plugins": [], "memory": "600m", "target": 1}).ok()
    eventually(lambda: admin.get("/v1/pools").ok().json["pools"][0]["ready"] == 1, "the pool is full")
    denied(client.post("/v1/sandboxes", {"plugins": [], "memory": "600m"}), "memory", "512 MiB")
    admin.delete("/v1/pools/big").ok(204)
    eventually(lambda: not admin.get("/v1/pools").ok().json["pools"], "the pool is gone")


def test_a_ceiling_of_the_service(make_service, jail_works):
    """It goes before the runtime's limit, which is then what a sandbox has that names none; less, where it is lower."""
    service = make_service(settings={"sandbox_memory": "1g", "sandbox_pids": 100, "jail.memory": "256m"}).start()
    client = service.tenant("a")
    box = make(client, memory="1g")
    assert run(client, box, "cat /proc/self/limits >/dev/null; echo ok")["content"] == "ok"
    denied(client.post("/v1/sandboxes", {"memory": "1025m"}), "service.sandbox_memory", "1024 MiB")
    usual = make(client)
    assert usual["spec"]["pids"] == 100 and "memory" not in usual["spec"]
    denied(client.post("/v1/sandboxes", {"memory": str((1 << 30) + 1)}), "service.sandbox_memory")
    denied(client.post("/v1/sandboxes", {"pids": 101}), "service.sandbox_pids")


@pytest.mark.parametrize("setting", ["sandbox_memory=much", "sandbox_disk=-1", "disk_reserve=x", "memory_reserve=1q"])
def test_a_ceiling_that_is_no_size(make_service, setting):
    result = make_service(runtime="local").tendon("serve", "--set", f"service.{setting}")
    assert result.returncode != 0 and setting.split("=")[0] in result.stderr, result


def test_processes_and_disk_of_a_key(service):
    client = service.tenant("sums", "--max-pids", 250, "--max-disk", "100m")
    told = client.get("/v1/me").ok().json["limits"]
    assert told["max_pids"] == 250 and told["max_disk"] == 100 << 20
    box = make(client, pids=200)
    denied(client.post("/v1/sandboxes", {"pids": 51}), "max_pids", "200 are taken", status=429)
    # What is stopped holds its disk, not its processes.
    client.post(at(box, "/stop")).ok()
    denied(client.post("/v1/sandboxes", {"pids": 51}), "max_disk", "64 MiB are taken", status=429)
    client.delete(at(box)).ok(204)
    client.delete(at(make(client, pids=250))).ok(204)


# --- choices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", ["docker", "local", "cli", "remote", "eventstream"])
def test_runtimes_are_the_operators(service, alice, runtime):
    denied(alice.post("/v1/sandboxes", {"runtime": runtime, "image": "busybox"}), "service.runtimes", "jail", "admin")
    nothing_was_made(alice)


def test_runtimes_that_the_operator_allows(make_service, jail_works):
    service = make_service(settings={"runtimes": "jail,docker"}, config=CONFIG).start()
    client = service.tenant("a")
    made = client.post("/v1/sandboxes", {"runtime": "docker", "image": "busybox", "wait": 0}).ok(201).json
    assert made["runtime"] == "docker" and made["spec"]["image"] == "busybox:latest"
    denied(client.post("/v1/sandboxes", {"runtime": "local"}), "jail, docker")


@pytest.fixture
def images(make_service):
    settings = {"images": "docker.io/library/*,ghcr.io/openhands/runtime:*"}
    return make_service(runtime="docker", settings=settings, config=CONFIG).start()


@pytest.mark.parametrize("image", ["ghcr.io/other/x:1", "evil.io/docker.io/library/x", "alice/x", "ghcr.io/openhands/runtime-x:1"])
def test_images_are_the_operators(images, image):
    client = images.tenant("a")
    denied(client.post("/v1/sandboxes", {"image": image, "wait": 0}), "service.images", "docker.io/library/*")
    denied(client.post("/start", {"image": image, "session_id": "s", "command": [], "environment": {}}), "service.images")
    nothing_was_made(client)


def test_images_that_the_operator_allows(images):
    client = images.tenant("a")
    for image in ("python:3.12", "docker.io/library/debian", "ghcr.io/openhands/runtime:0.62"):
        client.post("/v1/sandboxes", {"image": image, "wait": 0}).ok(201)
    images.client().post("/v1/sandboxes", {"image": "ghcr.io/other/x:1", "wait": 0}).ok(201)


def test_networks_are_the_operators(make_service, jail_works):
    config = CONFIG.replace("[jail]", '[jail]\nnetwork = "none"', 1) + '\n[template.alone]\nruntime = "docker"\nimage = "x"\nnetwork = "none"\n'
    client = make_service(config=config).start().tenant("a")
    denied(client.post("/v1/sandboxes", {"template": "alone", "network": "bridge"}), "network", "template")
    denied(client.post("/v1/sandboxes", {"network": "host"}), "network host")
    for network in ("open", "allow"):  # a jail of this service has none
        denied(client.post("/v1/sandboxes", {"network": network}), f"network {network}", "has none")
    denied(client.post("/v1/sandboxes", {"allow": ["pypi.org"]}), "allow pypi.org")


def test_a_network_only_becomes_narrower(make_service, jail_works):
    config = CONFIG.replace("[jail]", '[jail]\nnetwork = "allow"\nallow = ["*.good.test", "10.1.0.0/16:80"]', 1)
    client = make_service(config=config).start().tenant("a")
    denied(client.post("/v1/sandboxes", {"network": "open"}), "network open", "has allow")
    for rule in ("good.test", "a.good.test:22", "10.0.0.0/8:80", "10.1.2.3", "10.1.2.3:80", "@packages"):
        denied(client.post("/v1/sandboxes", {"allow": [rule]}), f"allow {rule}")
    denied(client.post("/v1/sandboxes", {"allow": ["a b"]}), "rule 'a b'", status=400)
    box = make(client, allow=["a.good.test", "https://b.good.test", "10.1.2.2/31:80"])
    client.delete(at(box)).ok(204)
    box = make(client, network="none")
    client.delete(at(box)).ok(204)


def test_labels_of_a_tenant_mean_nothing_to_an_engine(service, alice):
    """Programs that watch an engine act on labels, which are then somebody else's word."""
    box = make(alice, template="marked", labels={"traefik.enable": "true", "mine": "1"})
    assert box["spec"]["labels"] == {"traefik.enable": "true", "mine": "1"}
    ((spec,),) = rows(service, "SELECT spec FROM sandbox WHERE id = ?", box["id"])
    labels = json.loads(spec)["labels"]
    assert labels["traefik.enable"] == "false" and labels["tenant/mine"] == "1" and "mine" not in labels, labels
    alice.delete(at(box)).ok(204)


# --- what can never work ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wish, words, of_a_pool",
    [
        ({"network": "bridge"}, "bridge is for docker", 501),
        ({"plugins": ["jupiter"]}, "plugins: jupiter not found: put a program tendon-plugin-jupiter", 400),
        ({"plugins": ["p" * 49]}, "is no name of a plugin", 400),
    ],
    ids=["network", "plugin", "name of a plugin"],
)
def test_what_can_never_work_is_refused_before_anything_is_made(service, alice, wish, words, of_a_pool):
    reply = alice.post("/v1/sandboxes", wish)
    denied(reply, words, status=400)
    nothing_was_made(alice)
    (last,) = [line for line in service.audit() if line.get("request_id") == reply.headers["x-request-id"]]
    assert last["result"] != "ok", last
    denied(service.client().put("/v1/pools/never", {**wish, "target": 1}), words, status=of_a_pool)


def test_a_plugin_that_the_sandbox_may_bring_along(service):
    """Where it would look for the program is not known before."""
    for more in ({"env": {"TENDON_PLUGIN_PATH": "/opt/mine"}}, {"env": {"PATH": "/opt/mine:/usr/bin:/bin"}}):
        box = service.client().post("/v1/sandboxes", {"plugins": ["jupiter"], **more}).json
        assert box["state"] == "error" and "Plugin jupiter not found" in json.dumps(box), box
        service.client().delete(at(box)).ok(204)


@pytest.mark.parametrize(
    "wish, words",
    [
        ({"image": "no image"}, "image"),
        ({"image": "a", "network": "none", "ports": [80]}, "ports"),
        ({"image": "a", "wall_time": 5}, "wall_time"),
        ({"image": "a", "labels": {"tendon.id": "x"}}, "tendon."),
    ],
    ids=str,
)
def test_what_an_engine_could_never_do(service, wish, words):
    denied(service.client().post("/v1/sandboxes", {"runtime": "docker", **wish}), words, status=400)
    nothing_was_made(service.client())


def test_the_command_line_refuses_the_same(service):
    result = service.tendon("new", "--runtime", "docker", "--image", "a", "--network", "none", "--port", "80")
    assert result.returncode and "ports: a sandbox without network" in result.stderr, result
    result = service.tendon("new", "--network", "bridge")
    assert result.returncode and "bridge is for docker" in result.stderr, result
    for runtime in ("jail", "local", "cli"):
        result = service.tendon("new", "--runtime", runtime, "--plugins", "jupiter,vscode")
        assert result.returncode and "plugins: jupiter not found" in result.stderr, result


# --- room ------------------------------------------------------------------------------------------


def state(client, box):
    return client.get(at(box)).ok().json["state"]


def test_one_tenant_does_not_pause_another(make_service, jail_works):
    service = make_service(settings={"max_sandboxes": 2}).start()
    a, b = service.tenant("a"), service.tenant("b")
    first, second = make(a), make(a)
    denied(b.post("/v1/sandboxes", {"plugins": []}), "service.max_sandboxes", status=503)
    assert (state(a, first), state(a, second)) == ("running", "running")
    nothing_was_made(b)
    third = make(a)  # its own oldest makes room
    assert [state(a, box) for box in (first, second, third)] == ["paused", "running", "running"]
    a.delete(at(third)).ok(204)
    other = make(b)
    # Nor does a resume.
    a.post(at(first, "/resume")).ok()
    assert (state(a, second), state(b, other)) == ("paused", "running")


def test_others_make_room_where_the_operator_says_so(make_service, jail_works):
    service = make_service(settings={"max_sandboxes": 1, "pause_others": "true"}).start()
    a, b = service.tenant("a"), service.tenant("b")
    first, second = make(a), make(b)
    assert (state(a, first), state(b, second)) == ("paused", "running")


# --- disk and memory -------------------------------------------------------------------------------


def test_memory_that_the_machine_keeps(make_service, jail_works):
    service = make_service(settings={"memory_reserve": "1000t"}).start()
    denied(service.client().post("/v1/sandboxes", {"plugins": []}), "service.memory_reserve", "MiB are left", status=503)
    nothing_was_made(service.client())


def writer(client, box, command):
    """Runs it in the background: whoever is paused does not answer."""
    key = client.key

    def work():
        try:
            client.service.client(key).post(at(box, "/actions"), run_action(command, timeout=30))
        except OSError:
            pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_one_that_writes_more_than_it_may_is_paused(service, alice):
    """And can be woken to clean up."""
    box = make(alice)
    bystander = make(alice)
    thread = writer(alice, box, "head -c 80m /dev/zero > /workspace/big")
    found = eventually(lambda: (b := alice.get(at(box)).ok().json)["state"] == "paused" and b, "it is paused")
    assert "disk: it has written" in found["reason"] and "64 MiB" in found["reason"], found
    assert state(alice, bystander) == "running"
    assert run(alice, box, "rm /workspace/big; echo gone")["content"] == "gone"
    thread.join()
    for each in (box, bystander):
        alice.delete(at(each)).ok(204)


def wake_and_write(client, box, command, times):
    """Lets it write each time it was paused; the refusal that ends that."""
    for _ in range(times):
        reply = client.post(at(box, "/actions"), run_action(command, timeout=5))
        if reply.status == 429:
            return reply
        eventually(lambda: state(client, box) == "paused", "it is paused again")
    raise AssertionError(f"woken {times} times")


def test_one_over_its_limit_is_not_woken_without_end(service, alice):
    """Each time it writes more; what ends is the waking, and deleting is possible."""
    box = make(alice)
    more = "head -c 40m /dev/zero >> /workspace/big; sync /workspace/big"
    thread = writer(alice, box, f"{more}; {more}; {more}")
    eventually(lambda: state(alice, box) == "paused", "it is paused")
    denied(wake_and_write(alice, box, more, 8), "may write 64 MiB", "woken 5 times", "delete", status=429)
    denied(alice.post(at(box, "/resume")), "may write 64 MiB", status=429)
    denied(alice.post(at(box, "/snapshots"), {"name": "s"}), "may write 64 MiB", status=429)
    size = alice.get(at(box)).ok().json["usage"]["disk"]
    assert size < (64 + 8 * 40) << 20, size
    alice.delete(at(box)).ok(204)
    thread.join()


def test_who_fills_the_disk_is_paused_not_the_others(make_service, jail_works):
    service = make_service(settings={"sandbox_disk": "0"})
    disk = os.statvfs(service.state)
    left = disk.f_bavail * disk.f_frsize
    service.settings["disk_reserve"] = str(left - (256 << 20))
    service.start()
    a, b = service.tenant("a"), service.tenant("b")
    greedy, quiet = make(a), make(b)
    script = "for i in $(seq 60); do head -c 64m /dev/zero > /workspace/big$i; sync /workspace/big$i; sleep 0.5; done"
    thread = writer(a, greedy, script)
    found = eventually(lambda: (x := a.get(at(greedy)).ok().json)["state"] == "paused" and x, "the writer is paused")
    assert "service.disk_reserve" in found["reason"], found
    assert state(b, quiet) == "running"
    a.delete(at(greedy)).ok(204)
    thread.join()
    b.delete(at(quiet)).ok(204)


def test_no_snapshot_without_room(make_service, jail_works):
    service = make_service()
    service.start()
    client = service.client()
    box = make(client)
    service.stop()
    service.settings["disk_reserve"] = "1000t"
    service.start()
    client.close()
    denied(client.post(at(box, "/snapshots"), {"name": "s"}), "service.disk_reserve", status=503)
    client.delete(at(box)).ok(204)


def test_who_has_too_many_files_to_be_counted_at_once(make_service, jail_works, tmp_path):
    """Counting goes on where it stopped: 2.3 MiB of empty files, of which a slice of time shows few. Who has a small
    tree is counted meanwhile."""
    service = make_service(settings={"sandbox_disk": "2m"})
    service.env |= preloaded("slow-stat.c", tmp_path)
    client = service.start().client()
    many, large = make(client), make(client)
    create = "mkdir /workspace/many; cd /workspace/many; seq 600 | xargs touch; echo made"
    told = run(client, many, create, timeout=60)
    assert told["content"] == "made", told
    thread = writer(client, large, "head -c 6m /dev/zero > /workspace/big")
    eventually(lambda: state(client, large) == "paused", "the one with one large file is paused")
    client.delete(at(large)).ok(204)
    thread.join()
    found = eventually(lambda: (b := client.get(at(many)).ok().json)["state"] == "paused" and b, "the other one, too", 90)
    assert "disk: it has written" in found["reason"], found
    client.delete(at(many)).ok(204)


@pytest.fixture
def small_disk(tmp_path):
    """Makes a disk in memory, by options of its mount."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(options):
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tendon-test", disk], capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"a small disk cannot be made: {made.stderr.strip()}")
        return disk

    yield mount
    subprocess.run(["umount", "-l", disk], check=False)


def test_a_disk_without_inodes_is_full(jail_works, small_disk):
    disk = small_disk("size=1g,nr_inodes=5000")
    service = Service(disk / "service", settings={"disk_reserve": "64m"}).start()
    client = service.client()
    box = make(client)
    for n in range(1500):
        (disk / str(n)).touch()
    denied(client.post("/v1/sandboxes", {"plugins": []}), "service.disk_reserve", "inodes", status=503)
    denied(client.post(at(box, "/snapshots"), {"name": "s"}), "service.disk_reserve", status=503)
    client.delete(at(box)).ok(204)
    service.finish()


def at_once(tasks):
    """What they return; all run at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result() for future in [pool.submit(task) for task in tasks]]


@pytest.mark.parametrize("what", ["fork", "snapshot"])
def test_many_copies_at_once_leave_the_reserve(jail_works, small_disk, what):
    """Each alone would have room: those that are under way count."""
    disk = small_disk("size=500m")
    service = Service(disk / "service", settings={"disk_reserve": "200m", "sandbox_disk": "0"}).start()
    client = service.client()
    boxes = [make(client) for _ in range(1 if what == "fork" else 3)]
    for box in boxes:
        run(client, box, f"head -c {40 if what == 'fork' else 60}m /dev/urandom > /workspace/big")

    def copy(n):
        mine, box = service.client(), boxes[n % len(boxes)]
        if what == "fork":
            return mine.post(at(box, "/fork"), {}).status
        return mine.post(at(box, "/snapshots"), {"name": f"s{n}"}).status

    answers = at_once([lambda n=n: copy(n) for n in range(12)])
    left = os.statvfs(disk)
    assert left.f_bavail * left.f_frsize > 170 << 20, (answers, left)
    assert 201 in answers
    service.finish()


# --- keys ------------------------------------------------------------------------------------------


def test_a_key_before_the_first_service(make_service):
    """There is an administrator's key whatever was made before, and the output says where."""
    service = make_service(runtime="local")
    early = service.make_key("early", "--tenant", "t")["key"]
    taken = service.make_key("admin", "--tenant", "t")["key"]
    service.start()
    assert service.admin and service.client().get("/v1/keys").ok().json["keys"]
    assert service.client(early).get("/v1/keys").status == service.client(taken).get("/v1/keys").status == 403
    first = service.admin
    service.restart()
    assert service.admin == first


def test_what_is_told_of_a_key_that_does_not_count(make_service):
    service = make_service(runtime="local").start()
    mine = next(k for k in service.client().get("/v1/keys").ok().json["keys"] if "admin" in k["scopes"])
    assert service.tendon("key", "revoke", mine["id"]).returncode == 0
    service.admin = None
    service.restart()
    assert service.admin is None  # key_file is null


# --- the command line ------------------------------------------------------------------------------


def test_the_command_line_leaves_the_pool_alone(make_service, jail_works):
    config = "[template.warm]\nplugins = []\n[pool.warm]\ntemplate = \"warm\"\ntarget = 1\n"
    service = make_service(config=config).start()
    admin = service.client()
    pool = lambda: admin.get("/v1/pools").ok().json["pools"][0]
    eventually(lambda: pool()["ready"] == 1, "the pool is full")
    (before,) = rows(service, "SELECT id FROM sandbox WHERE pool IS NOT NULL")
    made = service.tendon("new", "--template", "warm", "--keep", "--json")
    assert made.returncode == 0, made
    assert rows(service, "SELECT id FROM sandbox WHERE pool IS NOT NULL") == [before]
    assert service.tendon("rm", json.loads(made.stdout)["id"]).returncode == 0
    box = admin.post("/v1/sandboxes", {"template": "warm"}).ok(201).json
    assert box["id"] == before[0] and pool()["claimed"] == 1
    admin.delete(at(box)).ok(204)


def test_a_key_has_the_widest_network(service, alice, jail_works):
    """Who says nothing has it, nobody has more, and rules are within those of the operator."""
    client = service.tenant("listed", "--network", "allow")
    assert client.get("/v1/me").ok().json["limits"]["network"] == "allow"
    denied(client.post("/v1/sandboxes", {"network": "open"}), "network open", "the key has allow")
    denied(client.post("/v1/sandboxes", {"allow": ["evil.test"]}), "allow evil.test")
    nothing_was_made(client)
    for wish, network in (({}, "allow"), ({"network": "none"}, "none"), ({"allow": ["pypi.org"]}, "allow")):
        box = make(client, **wish)
        assert box["spec"]["network"] == network, box
        client.delete(at(box)).ok(204)
    # Another key of the same service has the default.
    box = make(alice)
    assert box["spec"].get("network", "default") == "default"
    alice.delete(at(box)).ok(204)
    assert "WORD" in service.tendon("key", "create", "--help").stdout
    refused = service.client().post("/v1/keys", {"name": "odd", "limits": {"network": "wide"}})
    assert refused.status == 422 and "network" in refused.json["detail"]


# --- walls -------------------------------------------------------------------------------------------


def test_stronger_walls_are_demanded_and_never_lowered(service, alice):
    """By a template and by a key; a tenant may ask for more by itself."""
    denied(alice.post("/v1/sandboxes", {"template": "walled", "isolation": "native"}), "gvisor")
    nothing_was_made(alice)
    client = service.tenant("walled", "--gvisor")
    assert client.get("/v1/me").ok().json["limits"]["gvisor"] is True
    denied(client.post("/v1/sandboxes", {"isolation": "native"}), "gvisor", "key")
    # A virtual machine is more: by a template it stays that, whatever the key demands, and a jail is none.
    for wish in ({"template": "virtual", "isolation": "gvisor"}, {"template": "virtual", "isolation": "native"}):
        denied(client.post("/v1/sandboxes", wish), "demands kata")
        denied(alice.post("/v1/sandboxes", wish), "demands kata")
    for wish in ({"template": "virtual"}, {"isolation": "kata"}, {"template": "walled", "isolation": "kata"}):
        refused = client.post("/v1/sandboxes", wish)
        assert refused.status == 400 and "isolation kata: jail cannot give it" in refused.json["detail"], refused
    nothing_was_made(client)
    assert "isolation" in client.post("/v1/sandboxes", {"isolation": "none"}).json["detail"]
    # There is no gVisor of that name here: what can never start is refused, and never had with less.
    for who, wish in ((client, {}), (alice, {"isolation": "gvisor"}), (alice, {"template": "walled"})):
        refused = who.post("/v1/sandboxes", wish)
        assert refused.status == 400 and "offers no gVisor" in refused.json["detail"], refused
        assert "/nonexistent" not in refused.json["detail"], "a path of the operator's is no tenant's to see"
        nothing_was_made(who)

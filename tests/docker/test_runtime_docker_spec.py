"""What a spec and the configuration mean for a container of dockerd and of Podman."""

import contextlib
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from conformance import Refusal, wait_until
from engine import REGISTRY

GOOD = '{"mem_limit": "64m", "shm_size": "8m", "hostname": "inside", "extra_hosts": {"db": "10.1.2.3"}, '
GOOD += '"tmpfs": {"/scratch": "size=1m"}, "ulimits": [{"name": "nofile", "soft": 100, "hard": 200}, {"Name": "nproc", "Soft": 4096, "Hard": 4096}], '
GOOD += '"cap_drop": ["ALL"], "cap_add": ["CHOWN", "SETUID", "SETGID", "KILL", "DAC_OVERRIDE"], "cpu_shares": 512}'


def refused(world, driver, **spec):
    with pytest.raises(Refusal) as refusal:
        world.new(driver, **spec)
    assert world.containers("label=tendon.id") == []
    return refusal.value


# --- who, where, what ---------------------------------------------------------------------------------


def test_any_image_as_it_is(world, box):
    """Its entry point, user and directory are not the sandbox's; its environment is."""
    assert box.ok("id -un; id -u; pwd; echo $FROM_THE_IMAGE; ps -o pid,args | grep -c '[/]bin/false'; true") == (
        "openhands\n1000\n/workspace\nyes\n0"
    )
    assert box.ok("cat /proc/1/comm") == "hand"


def test_users(world, driver):
    for user, expected in (("root", "root\n0"), ("1234", "openhands\n1234"), ("worker", "worker\n1000")):
        box = world.new(driver, user=user)
        assert box.ok("id -un; id -u") == expected
        box.drive("gone")


def test_name_and_environment(world, driver):
    value = "a b $HOME `id` \"q\" 'q' \\x\n second"
    box = world.new(driver, name="web-1", env={"HOSTILE": value, "port": "1"}, workspace="/srv/deep/er")
    container = world.container(box)
    assert container["Name"].lstrip("/") == "openhands-runtime-web-1"
    code, output = box.run('printf %s "$HOSTILE"; pwd')
    assert (code, output.replace("\r", "")) == (0, value + "/srv/deep/er")
    assert box.ok("echo $port $VSCODE_PORT $APP_PORT_1 $APP_PORT_2 $OPENHANDS_SESSION_ID $PYTHONUNBUFFERED") == (
        "1 40000 50000 55000 web-1 1"
    )
    labels = container["Config"]["Labels"]
    assert labels["tendon.id"] == box.id and labels["tendon.owner"].startswith(f"{driver_pid(box)}:")


def driver_pid(box):
    """The driver is what its wrapper became."""
    return box.driver.process.pid


def test_labels(world, driver):
    box = world.new(driver, labels={"team": "blue"})
    assert world.container(box)["Config"]["Labels"]["team"] == "blue"
    box.drive("gone")
    assert "tendon." in refused(world, driver, labels={"tendon.id": "x"}).text


def test_the_key_is_nowhere_to_be_seen(world, driver):
    box = world.new(driver, create=False)
    key = "k" * 31 + "1"
    box("subject", spec=world.spec, key=key)
    box.create()
    assert box.ok("echo in") == "in"
    assert key not in json.dumps(world.container(box))
    assert box.run("cat /proc/1/cmdline /proc/1/environ; env; true")[1].count(key) == 0
    record = world.state / "drive" / f"{box.id}.json"
    record.write_text(record.read_text().replace(key, "w" * 32))
    answer = driver.ask("run", id=box.id, command="true")
    assert (answer["ok"], answer["code"]) == (False, "denied")


# --- limits and rights --------------------------------------------------------------------------------


def test_default_limits_and_rights(world, box):
    host = world.container(box)["HostConfig"]
    assert (host["Memory"], host["PidsLimit"]) == (4 << 30, 1024)
    assert "NET_RAW" in " ".join(host["CapDrop"])
    isolation = box("inspect")["isolation"]
    for name in ("pid", "mount", "ipc", "uts", "seccomp", "no_new_privs", "capabilities", "memory_limit", "pids_limit"):
        assert isolation[name], name
    assert not isolation["privileged"]
    status = dict(line.split(":", 1) for line in box.ok("cat /proc/self/status").splitlines())
    assert int(status["NoNewPrivs"]) == 1
    assert int(status["Seccomp"]) == 2
    net_raw, mknod = 1 << 13, 1 << 27
    assert int(status["CapBnd"], 16) & (net_raw | mknod) == 0


NPROC = '{"ulimits": [{"name": "nproc", "soft": 4096}, {"name": "nofile", "soft": 1}]}'


def test_limits_of_the_spec(world):
    # Podman wants more processes than root may have on some machines, unless it is told a number.
    world.settings["sandbox.docker_runtime_kwargs"] = NPROC
    box = world.new(world.open(), memory="64m", cpus=0.5, pids=40, open_files=64, file_size="1m")
    host = world.container(box)["HostConfig"]
    assert (host["Memory"], host["PidsLimit"], host["NanoCpus"]) == (64 << 20, 40, 500000000)
    assert box.ok("ulimit -n; ulimit -f") == "64\n2048"
    code, output = box.run("for i in $(seq 60); do sleep 60 & done; wait", timeout=5)
    assert "fork" in output
    usage = box("usage")
    assert 0 < usage["memory"] < 64 << 20 and usage["processes"] > 1 and usage["cpu_seconds"] > 0


@pytest.mark.parametrize("field, value", [("disk", "100m"), ("wall_time", 5)])
def test_a_limit_that_cannot_be_kept(world, driver, field, value):
    refusal = refused(world, driver, **{field: value})
    assert (refusal.code, field in refusal.text) == ("unsupported", True)


def test_a_name_that_no_image_can_have(world, driver):
    refusal = refused(world, driver, image="box::latest")
    assert (refusal.code, "image" in refusal.text) == ("invalid", True)


def test_keyword_arguments(world):
    world.settings["sandbox.docker_runtime_kwargs"] = GOOD
    box = world.new(world.open(), user="root")
    host = world.container(box)["HostConfig"]
    assert (host["Memory"], host["ShmSize"], host["CpuShares"]) == (64 << 20, 8 << 20, 512)
    assert box.ok("hostname; ulimit -Sn; ulimit -Hn; grep -c db /etc/hosts; grep -c ' /scratch ' /proc/mounts") == (
        "inside\n100\n200\n1\n1"
    )
    box.drive("gone")
    # What the spec says goes before what is meant for all.
    box = world.new(box.driver, memory="128m", user="root")
    assert world.container(box)["HostConfig"]["Memory"] == 128 << 20


@pytest.mark.parametrize(
    "kwargs, text",
    [
        ('{"mem_limt": 1}', "unknown key 'mem_limt' (did you mean 'mem_limit'?)"),
        ('{"command": "sh"}', "command: it is not for the user to set"),
        ('{"privileged": "yes"}', "privileged: expected true or false"),
        ('{"mem_limit": "much"}', "mem_limit: expected a size"),
    ],
)
def test_wrong_keyword_arguments(docker_world, kwargs, text):
    docker_world.settings["sandbox.docker_runtime_kwargs"] = kwargs
    refusal = refused(docker_world, docker_world.open())
    assert refusal.code == "invalid" and text in refusal.text


def test_gpus_are_asked_for(docker_world):
    refusal = refused(docker_world, docker_world.open(), gpus="0,1")
    assert "device driver" in refusal.text and "gpu" in refusal.text
    assert refusal.code == "unsupported"


# --- volumes ------------------------------------------------------------------------------------------


def test_volumes(world, driver, tmp_path):
    for name in ("rw", "ro"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    (tmp_path / "ro" / "file").write_text("old\n")
    volumes = [f"{tmp_path}/rw:/rw", f"{tmp_path}/ro:/ro:ro", "tendon-test-named:/named"]
    box = world.new(driver, volumes=volumes, user="root")
    try:
        assert box.ok("echo new > /rw/file; cat /ro/file; echo kept > /named/file") == "old"
        assert (tmp_path / "rw" / "file").read_text() == "new\n"
        assert box.run("echo > /ro/file")[0] != 0
        box.drive("gone")
        # A named volume is the user's, and stays.
        box = world.new(driver, volumes=["volume:tendon-test-named:/named:ro"])
        assert box.ok("cat /named/file") == "kept"
        box.drive("gone")
    finally:
        world.docker("volume", "rm", "tendon-test-named")


def test_a_volume_from_nowhere(world, driver, tmp_path):
    refusal = refused(world, driver, volumes=[f"{tmp_path}/missing:/mnt"])
    assert f"{tmp_path}/missing" in refusal.text
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("base", [False, True], ids=["own", "elsewhere"])
def test_overlays(world, tmp_path, base):
    lower, layers = tmp_path / "lower", tmp_path / "layers"
    lower.mkdir()
    (lower / "file").write_text("old\n")
    if base:
        world.settings["docker.overlays"] = str(layers)
    box = world.new(world.open(), volumes=[f"{lower}:/tree:overlay"], user="root")
    assert box.ok("cat /tree/file; echo new > /tree/file; echo more > /tree/more; cat /tree/file") == "old\nnew"
    box.drive("stopped")
    box.drive("running")
    assert box.ok("cat /tree/file") == "new"
    assert (lower / "file").read_text() == "old\n" and not (lower / "more").exists()
    if base:
        assert (layers / f"tendon-{box.id}" / "0" / "upper" / "more").exists()
    box.drive("gone")
    assert not base or list(layers.iterdir()) == []
    assert (lower / "file").exists()


# --- networks and ports -------------------------------------------------------------------------------


def test_published_ports(world, driver):
    box = world.new(driver, ports=[8000, 8001], network="bridge")
    (binding,) = world.container(box)["NetworkSettings"]["Ports"]["8000/tcp"]
    assert binding["HostIp"] == "127.0.0.1"
    box.ok("mkdir www; echo hello > www/index.html; busybox httpd -p 8000 -h www; echo $APP_PORT_1 $APP_PORT_2")
    url = box("url", port=8000)["url"]
    assert url == f"http://localhost:{binding['HostPort']}"
    assert world.fetch(url.replace("localhost", "127.0.0.1")) == "hello"
    box.drive("stopped")
    box.drive("running")
    (binding,) = world.container(box)["NetworkSettings"]["Ports"]["8000/tcp"]
    assert box("url", port=8000)["url"] == f"http://localhost:{binding['HostPort']}"


@pytest.mark.parametrize(
    "settings, host",
    [
        ({"docker.host_addr": "127.0.0.3", "sandbox.local_runtime_url": "http://127.0.0.2"}, "127.0.0.3"),
        ({"sandbox.local_runtime_url": "http://127.0.0.2/"}, "127.0.0.2"),
        ({"sandbox.local_runtime_url": "http://localhost"}, "localhost"),
    ],
)
def test_where_published_ports_are_reached(docker_world, settings, host):
    """As an application in a container says with DOCKER_HOST_ADDR, or SANDBOX_LOCAL_RUNTIME_URL."""
    world = docker_world
    world.settings = {"sandbox.runtime_binding_address": "0.0.0.0", **settings}
    box = world.new(world.open(), ports=[8000], network="bridge")
    url = box("url", port=8000)["url"]
    assert url.startswith(f"http://{host}:")


def test_a_range_of_ports(world):
    """Ports that are taken are passed over; when all are, that is an error."""
    world.settings["docker.port_range"] = "28500-28502"
    driver = world.open()
    urls = set()
    for _ in range(3):
        urls.add(world.new(driver, ports=[8000], network="bridge")("url", port=8000)["url"])
    assert urls == {f"http://localhost:{port}" for port in (28500, 28501, 28502)}
    with pytest.raises(Refusal, match="28500|28501|28502"):
        world.new(driver, ports=[8000], network="bridge")


def test_without_network(world, driver):
    box = world.new(driver, network="none")
    assert box.ok("ls /sys/class/net") == "lo"
    assert box("inspect")["isolation"]["network"]
    assert refused_url(box) == "not_found"
    box.drive("stopped")
    box.drive("running")
    assert box.ok("echo $((1 + 1))") == "2"
    box.drive("gone")
    assert "ports" in refused(world, driver, network="none", ports=[80]).text


def test_behind_the_gate_nothing_is_published(world, driver):
    """Which is the network of one that names none; its ports are reached through the hand."""
    box = world.new(driver, ports=[80])
    assert box("inspect")["isolation"]["gated"] and refused_url(box) == "not_found"
    assert not world.container(box)["NetworkSettings"]["Ports"]


def refused_url(box):
    return box.driver.ask("url", id=box.id, port=80)["code"]


def test_network_of_the_host(world):
    world.settings["sandbox.use_host_network"] = "true"
    box = world.new(world.open())
    assert box("inspect")["isolation"]["network_mode"] == "host"
    assert box.ok("readlink /proc/self/ns/net") == world.python("import os; print(os.readlink('/proc/self/ns/net'))")
    assert box("url", port=8000)["url"] == "http://localhost:8000"


def test_each_has_ports_of_its_own_in_the_network_of_the_host(world):
    """They share one network: two editors or two applications could not have one port."""
    ranges = {"port": (30000, 39999), "VSCODE_PORT": (40000, 49999), "APP_PORT_1": (50000, 54999), "APP_PORT_2": (55000, 59999)}
    command = "echo " + " ".join(f"${name}" for name in ranges)
    driver = world.open()
    told = [[int(word) for word in world.new(driver, network="host").ok(command).split()] for _ in range(3)]
    for ports in told:
        assert all(first <= port <= last for port, (first, last) in zip(ports, ranges.values())), told
    assert len({port for ports in told for port in ports}) == 12, told
    said = world.new(driver, network="host", ports=[50123])
    assert said.ok("echo $APP_PORT_1") == "50123"
    # In networks of their own they are the usual ones.
    assert world.new(driver).ok(command).split() == ["30000", "40000", "50000", "55000"]


def test_those_made_at_once_have_ports_of_their_own_in_the_network_of_the_host(world):
    """Each looks which ports are taken before any of them has taken one."""
    world.settings["docker.port_range"] = "31000-31023"
    boxes = [world.new(world.open(), create=False, network="host") for _ in range(4)]
    with ThreadPoolExecutor(len(boxes)) as pool:
        list(pool.map(lambda box: box.create(), boxes))
    told = [box.ok("echo $port $VSCODE_PORT $APP_PORT_1 $APP_PORT_2").split() for box in boxes]
    assert len({port for ports in told for port in ports}) == 16, told


def test_additional_networks(docker_world):
    world = docker_world
    world.docker("network", "create", "tendon-test-net")
    try:
        world.settings["sandbox.additional_networks"] = "tendon-test-net"
        box = world.new(world.open())
        assert "tendon-test-net" in world.container(box)["NetworkSettings"]["Networks"]
        box.drive("gone")
        world.settings["sandbox.additional_networks"] = "tendon-test-net,no-such-net"
        assert "no-such-net" in refused(world, world.open()).text
    finally:
        world.docker("network", "rm", "tendon-test-net")


# --- images -------------------------------------------------------------------------------------------


@pytest.fixture
def registry(world):
    """A registry in the engine's network."""
    with world.engine.registry(world.engine.base / "box.tar"):
        yield REGISTRY


def test_an_image_is_pulled(world, driver, registry):
    try:
        box = world.new(driver, image=f"{registry}/box:1")
        assert driver.progress[0] == f"pulling {registry}/box:1"
        assert driver.statuses == [
            (box.id, "BUILDING_RUNTIME", f"pulling {registry}/box:1"),
            (box.id, "STARTING_RUNTIME", ""),
        ]
        assert box.ok("echo pulled") == "pulled"
        box.drive("gone")
        driver.statuses.clear()
        world.new(driver, image=f"{registry}/box:1").drive("gone")
        assert driver.statuses == []  # it is here
    finally:
        world.docker("rmi", f"{registry}/box:1")
    refusal = refused(world, driver, image=f"{registry}/box:2")
    assert refusal.code == "not_found" and f"image {registry}/box:2 is not here" in refusal.text


# --- bytes --------------------------------------------------------------------------------------------


def test_put_exec_and_logs(world, box):
    box("put", path="/opt/new/dir/file", text="héllo", mode=0o750)
    assert box("exec", argv=["/bin/busybox", "stat", "-c", "%a %u", "/opt/new/dir/file"])["output"] == "750 0\n"
    answer = box("exec", argv=["/bin/sh", "-c", "echo $(cat /opt/new/dir/file); echo err >&2; exit 7"])
    assert (answer["status"], sorted(answer["output"].split())) == (7, ["err", "héllo"])
    assert box.driver.ask("put", id=box.id, path="relative", text="")["code"] == "invalid"
    assert box.driver.ask("put", id=box.id, path="/a/../../x", text="")["code"] == "invalid"
    assert "listening" in box.logs()
    assert "listening" in box.logs(follow=True, until="listening")
    assert "listening" in box.logs(follow=True, timeout=1)
    box.drive("stopped")
    assert box.logs(follow=True).count("stopping") == 1


# --- engines ------------------------------------------------------------------------------------------


def test_doctor(world):
    findings = {f["what"]: f for f in world.open()("doctor", runtime="eventstream")["findings"]}
    assert findings["container engine"]["good"] and world.engine.name in findings["container engine"]["detail"]
    assert findings["memory limit"]["good"] and findings["socket to the hand"]["good"]


def test_no_engine(docker_world):
    world = docker_world
    before = dict(world.env)
    world.env["DOCKER_HOST"] = "unix:///tmp/no/engine.sock"
    with pytest.raises(Refusal, match="no container engine at unix:///tmp/no/engine.sock") as refusal:
        world.open()
    assert refusal.value.code == "peer"
    world.env["DOCKER_HOST"] = "ssh://somewhere"
    with pytest.raises(Refusal, match="expected unix:///PATH, tcp://HOST:PORT"):
        world.open()
    world.env.update(before)


def test_no_permission(docker_world):
    world = docker_world
    world.base.chmod(0o755)
    world.engine.base.chmod(0o755)
    world.as_user("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    world.state.mkdir(mode=0o777)
    world.state.chmod(0o777)
    (world.base / "driver.log").touch()
    with pytest.raises(Refusal, match="add yourself to the group docker") as refusal:
        world.open()
    assert refusal.value.code == "denied"
    world.as_user()


def test_an_engine_that_does_not_see_our_files(docker_world):
    """As when tendon runs in a container itself: the hand is copied in instead."""
    world = docker_world
    world.state.mkdir()
    world.as_user("unshare", "--mount", "sh", "-c", f'mount -t tmpfs tmpfs {world.state} && exec "$@"', "sh")
    driver = world.open()
    box = world.new(driver)
    assert box("inspect")["address"].startswith("127.0.0.1:")
    assert box.ok("echo copied") == "copied"
    box.drive("gone")
    refusal = refused(world, driver, network="none")
    assert "network none" in refusal.text and f"{world.state}/sandbox/" in refusal.text
    driver.finish()
    world.drivers.clear()
    world.as_user()
    world.open()


def use_an_engine_elsewhere(world):
    """The hand is copied in, and reached over a published port."""
    driver = world.open()
    box = world.new(driver, ports=[8000])
    place = box("inspect")
    assert place["address"].startswith("127.0.0.1:")
    assert world.container(box)["Config"]["Labels"]["tendon.hand"] == "30000"
    assert box.ok("id -un; ls /.tendon") == "openhands\nhand"
    box.drive("paused")
    box.drive("stopped")
    assert box.drive("running") == "running"
    assert box.ok("echo back") == "back"
    box.drive("gone")
    refusal = refused(world, driver, network="none")
    assert refusal.code == "unsupported" and "network none" in refusal.text
    box = world.new(driver, network="host")
    assert box.ok("echo host") == "host"
    box.drive("gone")


def test_over_tls(docker_world):
    engine = docker_world.engine
    env = {"DOCKER_HOST": engine.tls, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(engine.certs)}
    docker_world.env.update(env)
    use_an_engine_elsewhere(docker_world)


def test_over_tcp(podman_world):
    world = podman_world
    before = dict(world.env)

    def answers():
        with contextlib.suppress(Refusal):
            return world.open()

    with world.engine.over_tcp() as address:
        world.env["DOCKER_HOST"] = address
        wait_until(answers, 30, "the engine answers over TCP")
        use_an_engine_elsewhere(world)
        for driver in world.drivers:
            driver.finish()
    world.drivers.clear()
    world.env.update(before)


def test_tls_that_does_not_fit(docker_world, tmp_path):
    world = docker_world
    before = dict(world.env)
    certs = tmp_path / "certs"
    subprocess.run(["cp", "-r", world.engine.certs, certs], check=True)
    (certs / "ca.pem").write_text((certs / "cert.pem").read_text())
    world.env.update(DOCKER_HOST=world.engine.tls, DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=str(certs))
    with pytest.raises(Refusal, match="TLS") as refusal:
        world.open()
    assert refusal.value.code == "denied"
    world.env.update(before)
    del world.env["DOCKER_TLS_VERIFY"], world.env["DOCKER_CERT_PATH"]

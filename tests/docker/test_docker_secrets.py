"""Secrets, and rules about requests inside TLS, in containers: their gate ends TLS as that of a jail does.

A value is looked for where tests/gate/test_secrets.py looks, and in all that the engine keeps and tells of the container."""

import base64
import json
import os
import pathlib
import signal
import time

import pytest
from gated_containers import ThinWorld, keepers

from canary import ASK, PLANT, files_with, holds, lines_with, memory_with, new_value
from gate_world import WAIT, Box, until
from test_secrets import Life, got

pytestmark = pytest.mark.timeout(300)

USE = "print(ask('{}', 'Bearer ' + os.environ['API_KEY']))"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
# The status of a request, by those authorities alone that the file has.
STATUS = """
import ssl, urllib.error, urllib.request
def status(method, url, file):
    try:
        request = urllib.request.Request(url, method=method)
        return urllib.request.urlopen(request, timeout=30, context=ssl.create_default_context(cafile=file)).status
    except urllib.error.HTTPError as answer:
        return answer.code
    except urllib.error.URLError as problem:
        return type(problem.reason).__name__
"""


@pytest.fixture(scope="module", params=["docker", "podman"])
def world(request, static_hand):
    world = ThinWorld(request.getfixturevalue({"docker": "engine", "podman": "podman"}[request.param]), static_hand)
    yield world
    world.finish()


@pytest.fixture
def life(world):
    life = Life(world, 0)
    yield life
    for box in life.made:
        life("rm", box, check=False)
    for name in json.loads(life("--json", "secret", "list").stdout):
        life("secret", "rm", name["name"])


def container(world, box):
    (found,) = world.engine.docker("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label=tendon.id={box}").split()
    return found


def kept(engine, name):
    """Where the engine keeps the container and what was changed in it."""
    root = pathlib.Path(f"/proc/{engine.process.pid}/root")
    (told,) = json.loads(engine.docker("inspect", name))
    found = list((root / str(engine.base)[1:] / "data").glob(f"*containers/{name}"))
    return [*found, root / told["GraphDriver"]["Data"]["UpperDir"][1:]]


def count(life, box, path="/.tendon/roots.pem"):
    return int(life("exec", box, "--", f"grep -c BEGIN.CERT {path}").stdout)


def test_a_whole_life(world, life):
    value = new_value()
    life("secret", "set", "API_KEY", "--host", "api.test", input=value)
    box = life.new("--network", "allow", "--allow", "api.test", "--allow", "other.test", "--secret", "API_KEY")
    holder = life.python(box, "print(os.environ['API_KEY'])")
    assert holder.startswith("tnsecret_api_key_") and len(holder) == len("tnsecret_api_key_") + 32

    # It arrives where it belongs, comes back as stars, and goes nowhere else.
    stars = "Bearer " + "*" * len(value)
    assert life.python(box, USE.format("api.test")) == stars
    assert got(life, f"Bearer {value}"), life.arrived()
    assert life.python(box, USE.format("other.test")) == f"Bearer {holder}"

    # In all states, and after the end of its keeper.
    life("exec", box, "--", "echo $API_KEY >/tmp/noted")
    life("pause", box)
    life("resume", box)
    assert life.python(box, USE.format("api.test")) == stars
    life("stop", box)
    life("resume", box)
    assert life.python(box, USE.format("api.test")) == stars
    (keeper,) = keepers(Box(world, box, 0))
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not keepers(Box(world, box, 0)))
    life("inspect", box)
    assert life.python(box, USE.format("api.test")) == stars
    assert life("exec", box, "--", "cat /tmp/noted").stdout.strip() == holder

    for words in (["inspect", box], ["events", box], ["logs", box], ["ls"], ["secret", "list"], ["audit"], ["config"]):
        life(*words, check=False)
        life("--json", *words, check=False)
    name = container(world, box)
    told = world.engine.docker("inspect", name)
    assert holder in told, "what an engine tells has been looked at"
    logs = world.engine.try_docker("logs", name)
    found, read = memory_with(value, life.pid(box))
    assert found == [] and read >= 1
    assert lines_with(value) == []
    folders = [life.world.home(0), *kept(world.engine, name)]
    assert len(folders) >= 3 and [file for folder in folders for file in files_with(value, folder)] == []
    assert not holds("".join([*life.said, told, logs.stdout, logs.stderr, world.engine.log.read_text()]).encode(), value)

    # Planted, it is found in each of them.
    life("exec", box, "--", f"echo {base64.b64encode(value.encode()).decode()} >/tmp/planted")
    life.python(box, PLANT.format(value))
    deadline = time.monotonic() + WAIT
    while not (lines_with(value) and memory_with(value, life.pid(box))[0]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert any(files_with(value, folder) for folder in folders[1:])


def test_rules_about_requests(world, life):
    """An image without authorities has this machine's, and that of its gate."""
    box = life.new("--network", "allow", "--allow", "GET https://path.test/v1/*", "--allow", "other.test")
    asked = [("GET", "path.test/v1/x"), ("POST", "path.test/v1/x"), ("GET", "path.test/x"), ("GET", "other.test/x")]
    code = f"print([status(m, 'https://' + u, '/.tendon/roots.pem') for m, u in {asked}])"
    assert life.python(box, STATUS + code) == "[200, 403, 403, 'SSLCertVerificationError']", "the last is passed through"
    machine = (world.base / "etc" / BUNDLE.removeprefix("/etc/")).read_text()
    assert count(life, box) == machine.count("BEGIN CERT") + 1
    for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT"):
        assert life("exec", box, "--", f"echo ${variable}").stdout.strip() == "/.tendon/roots.pem"
    assert life("exec", box, "--", "cat $NODE_EXTRA_CA_CERTS").stdout.count("BEGIN CERT") == 1
    life("network", box, "--allow", "GET https://path.test/x")
    assert life.python(box, STATUS + "print(status('GET', 'https://path.test/x', '/.tendon/roots.pem'))") == "200"


def test_the_bundle_of_the_image(world, life):
    """Is covered by one with the gate's authority, however many keepers the container has had."""
    world_root = (world.internet.certificates / "root.pem").read_text()
    rules = ("--network", "allow", "--allow", "GET https://path.test/*", "--allow", "other.test")
    box = life("new", *world.words(world_root), "--keep", "--user", "root", *rules, "--env", "CURL_CA_BUNDLE=/mine").stdout.strip()
    life.made.append(box)
    asked = [f"status('GET', 'https://{name}.test/x', '{file}')" for name in ("path", "other") for file in (BUNDLE, "/.tendon/roots.pem")]
    code = STATUS + f"print([{', '.join(asked)}])"

    def holds_now():
        assert life.python(box, code) == "[200, 200, 200, 200]"
        assert count(life, box) == count(life, box, BUNDLE) == world_root.count("BEGIN CERT") + 1

    holds_now()
    assert life("exec", box, "--", "echo $CURL_CA_BUNDLE").stdout.strip() == "/mine"
    assert life("exec", box, "--", f"echo x >>{BUNDLE} || echo x >>/.tendon/roots.pem", check=False).returncode != 0
    for _ in range(2):
        (keeper,) = keepers(Box(world, box, 0))
        os.kill(keeper, signal.SIGKILL)
        until(lambda: not keepers(Box(world, box, 0)))
        life("inspect", box)
        holds_now()
    life("stop", box)
    life("resume", box)
    holds_now()


@pytest.mark.parametrize("target", ["/proc/1/cmdline", "/proc/kallsyms", "{private}", "/tmp/fifo", "/"])
def test_links_in_place_of_a_bundle(world, life, target):
    """What the container puts there is read by nobody but those inside."""
    private = world.base / "private"
    private.write_text("only on this machine\n")
    box = life("new", *world.runtime, "--keep", "--user", "root", "--network", "allow", "--allow", "GET https://path.test/*").stdout.strip()
    life.made.append(box)
    before = count(life, box)
    target = target.format(private=private)
    life("exec", box, "--", f"mkdir -p /etc/ssl/certs && mkfifo /tmp/fifo && ln -s {target} {BUNDLE} && ln -s {target} /etc/ssl/cert.pem")
    life("stop", box)
    life("resume", box)
    shown = life("exec", box, "--", "cat /.tendon/roots.pem").stdout
    assert shown.count("BEGIN CERT") == before and "only on" not in shown and "--listen" not in shown and " T " not in shown
    assert life.python(box, STATUS + "print(status('GET', 'https://path.test/x', '/.tendon/roots.pem'))") == "200"


def test_what_is_changed_counts_from_the_next_start(life):
    life("secret", "set", "API_KEY", "--host", "api.test", input="first-value-1")
    box = life.new("--network", "allow", "--allow", "api.test", "--secret", "API_KEY")
    life("secret", "set", "API_KEY", "--host", "api.test", input="second-value-2")
    life.python(box, USE.format("api.test"))
    assert got(life, "first-value-1") and not got(life, "second-value-2")
    life("stop", box)
    life("resume", box)
    life.python(box, USE.format("api.test"))
    assert got(life, "second-value-2")
    life("secret", "rm", "API_KEY")
    life("stop", box)
    refused = life("resume", box, check=False)
    assert refused.returncode != 0 and "API_KEY" in refused.stderr
    life("secret", "set", "API_KEY", "--host", "api.test", input="second-value-2")
    life("resume", box)
    life.python(box, USE.format("api.test"))


def test_what_a_container_refuses(world, life):
    life("secret", "set", "API_KEY", "--host", "api.test", input="value-123")
    before = world.left()
    for words, why in (
        (["--network", "none", "--secret", "API_KEY"], "open or allow"),
        (["--network", "bridge", "--secret", "API_KEY"], "open or allow"),
        (["--set", "docker.network=bridge", "--secret", "API_KEY"], "secrets: the network bridge of a container has no gate"),
        (["--network", "open", "--secret", "OTHER"], "OTHER"),
        (["--network", "open", "--secret", "API_KEY", "--isolation", "gvisor"], "a container has a gate where"),
    ):
        refused = life("new", *world.runtime, *words, check=False)
        assert refused.returncode != 0 and why in refused.stderr, refused
    assert world.left() == before, "nothing was made"

"""tendon build --hand-image: the image that is the hand alone, in files, in a real registry, and in real engines."""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tarfile
import urllib.request
import warnings

import pytest

from harness import wait_until
from trees import BUILD, program

REGISTRY = """
version: 0.1
storage:
  filesystem: {{rootdirectory: {base}/registry}}
http:
  addr: {address}
{more}
"""
OTHER = "192.0.2.7"  # of the engine's network, and not loopback
EM_AARCH64 = 183
HERE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)


def run(*words, check=True, env=None, timeout=120):
    result = subprocess.run([*map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout,
                            env={**os.environ, "no_proxy": "*", **(env or {})})
    assert not check or result.returncode == 0, result.stderr
    return result


@pytest.fixture
def tendon(tmp_path, static_hand):
    """tendon(*args, before=words, **env): the verb, with the hand that ships."""

    def build(*args, before=(), check=True, **env):
        words = [*before, program(BUILD, "tendon"), "build", "--json", "--hand-image", *args]
        env = {"HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path), "TENDON_HAND_PROGRAM": str(static_hand), **env}
        result = run(*words, check=check, env=env)
        return json.loads(result.stdout) if check else result

    return build


@pytest.fixture
def other_hand(tmp_path, static_hand):
    """The same program, but for one field: it is one of another machine."""
    data = bytearray(pathlib.Path(static_hand).read_bytes())
    data[18:20] = (EM_AARCH64 if HERE != "arm64" else 62).to_bytes(2, "little")
    path = tmp_path / "other-hand"
    path.write_bytes(data)
    return path


def listens(address, before=()):
    code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
    return run(*before, sys.executable, "-c", code, *address.rsplit(":", 1), check=False).returncode == 0


@contextlib.contextmanager
def registry(base, address, more="", before=()):
    """Debian's docker-registry at that address; its data are in base."""
    if not shutil.which("docker-registry"):
        pytest.skip("docker-registry is not installed")
    config = base / f"registry-{address}.yml"
    config.write_text(REGISTRY.format(base=base, address=address, more=more))
    with open(base / "registry.log", "ab") as log:
        process = subprocess.Popen([*before, "setpriv", "--pdeathsig", "KILL", "docker-registry", "serve", config],
                                   stdout=log, stderr=log, env={**os.environ, "OTEL_TRACES_EXPORTER": "none"})
    try:
        wait_until(lambda: listens(address, before), 30, "the registry listens")
        yield address
    finally:
        process.kill()
        process.wait()


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return f"127.0.0.1:{s.getsockname()[1]}"


def certificate(base, name, address):
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    run(*words, "-addext", f"subjectAltName=IP:{address}", "-keyout", base / f"{name}.key", "-out", base / f"{name}.pem")
    return base / f"{name}.key", base / f"{name}.pem"


def get(url, user=None):
    request = urllib.request.Request(url, headers={"Accept": "application/vnd.oci.image.index.v1+json"})
    if user:
        request.add_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as answer:
        return answer.headers, answer.read()


def login(home, address, **entry):
    (home / "config.json").write_text(json.dumps({"auths": {address: entry}}))


def password(text):
    return base64.b64encode(text.encode()).decode()


# --- files ------------------------------------------------------------------------------------------


def test_archive_is_an_oci_layout(tendon, static_hand, other_hand, tmp_path):
    """Every blob has the digest that it is called by, the index names both machines, and nothing depends on time."""
    made = tendon("example.org/team/hand:7", "--hand", static_hand, "--hand", other_hand, "--output", tmp_path / "1.tar")
    again = tendon("example.org/team/hand:7", "--hand", static_hand, "--hand", other_hand, "--output", tmp_path / "2.tar")
    assert made == again and (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
    assert sorted(made["architectures"]) == ["amd64", "arm64"] and made["image"] == "example.org/team/hand:7"
    with tarfile.open(tmp_path / "1.tar") as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
        assert {m.mtime for m in tar} == {315532800}
    blobs = {name.rsplit("/", 1)[1]: data for name, data in files.items() if name.startswith("blobs/")}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())
    blob = lambda descriptor: blobs[descriptor["digest"].removeprefix("sha256:")]  # noqa: E731
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == made["digest"] and json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for manifest in json.loads(blob(entry))["manifests"]:
        parts = json.loads(blob(manifest))
        config = json.loads(blob(parts["config"]))
        assert config["architecture"] == manifest["platform"]["architecture"]
        assert config["rootfs"]["diff_ids"] == [parts["layers"][0]["digest"]]


def test_what_it_is_not_made_of(tendon, tmp_path, static_hand):
    text = tmp_path / "text"
    text.write_text("#!/bin/sh\n" * 40)
    for args, words in (
        (["--hand", text, "--dry-run"], "is no program of a 64-bit Linux"),
        (["--hand", "/bin/ls", "--dry-run"], "needs libraries"),
        (["--hand", static_hand, "--hand", static_hand, "--dry-run"], "already"),
        (["--hand", tmp_path / "none", "--dry-run"], "none"),
        ([], "--output FILE.tar, --push"),
        (["--push"], "name the image"),
        (["a@sha256:" + "0" * 64, "--dry-run"], "the digest follows"),
    ):
        result = tendon(*args, check=False)
        assert result.returncode != 0 and words in result.stderr, result.stderr


def test_hand_copies_itself(static_hand, tmp_path):
    """Executable for all, whatever the umask; a path that cannot be written is an error."""
    run("sh", "-c", f"umask 077; {static_hand} --copy-to {tmp_path}/hand")
    assert (tmp_path / "hand").read_bytes() == pathlib.Path(static_hand).read_bytes()
    assert (tmp_path / "hand").stat().st_mode & 0o777 == 0o755
    assert os.listdir(tmp_path) == ["hand"]
    result = run(static_hand, "--copy-to", tmp_path / "none/hand", check=False)
    assert result.returncode != 0 and "none" in result.stderr


def copies_itself(engine, image, tmp_path):
    """A container of the image without anything but its program, as an init container runs it."""
    target = tmp_path / "volume"
    target.mkdir(exist_ok=True)
    target.chmod(0o777)
    engine.docker("run", "--rm", "--user", "1000", "--network", "none", "--read-only", "--cap-drop", "ALL",
                  "--volume", f"{target}:/.tendon", image, "--copy-to", "/.tendon/tendon-hand")
    assert run(target / "tendon-hand", "--version").stdout.startswith("tendon-hand ")


def test_archive_in_engines(tendon, any_engine, static_hand, other_hand, tmp_path):
    """`docker load` and Podman's take it; it runs as an init container would."""
    tendon("example.org/hand:7", "--hand", static_hand, "--hand", other_hand, "--output", tmp_path / "a.tar")
    any_engine.docker("load", "--input", tmp_path / "a.tar")
    copies_itself(any_engine, "example.org/hand:7", tmp_path)
    any_engine.docker("rmi", "example.org/hand:7")


def test_archive_in_containerd(tendon, engine, static_hand, other_hand, tmp_path):
    """`ctr images import`, with all architectures, under the name and the digest that were printed."""
    if not shutil.which("ctr"):
        pytest.skip("ctr is not installed")
    made = tendon("example.org/hand:8", "--hand", static_hand, "--hand", other_hand, "--output", tmp_path / "a.tar")
    ctr = ["ctr", "--address", engine.base / "exec/containerd/containerd.sock", "--namespace", "hands", "images"]
    run(*ctr, "import", "--all-platforms", tmp_path / "a.tar")
    listed = run(*ctr, "ls").stdout
    (line,) = [line for line in listed.splitlines() if line.startswith("example.org/hand:8 ")]
    assert made["digest"] in line and "linux/amd64" in line and "linux/arm64" in line
    run(*ctr, "rm", "example.org/hand:8")


# --- registries -------------------------------------------------------------------------------------


def test_push_and_pull(tendon, engine, static_hand, other_hand, tmp_path):
    """What dockerd pulls by the printed digest runs; a second push sends nothing that is there."""
    address, inside = "127.0.0.1:5001", engine.nsenter()
    with registry(tmp_path, address, before=inside):
        args = [f"{address}/team/hand:7", "--hand", static_hand, "--hand", other_hand, "--push"]
        made = tendon(*args, before=inside)
        uploads = (tmp_path / "registry.log").read_text().count("blobs/uploads")
        assert tendon(*args, before=inside) == made
        assert (tmp_path / "registry.log").read_text().count("blobs/uploads") == uploads
        if shutil.which("skopeo"):
            words = ["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{address}/team/hand:7"]
            raw = run(*inside, *words).stdout
            assert "sha256:" + hashlib.sha256(raw.encode()).hexdigest() == made["digest"]
            platforms = {m["platform"]["architecture"] for m in json.loads(raw)["manifests"]}
            assert platforms == {"amd64", "arm64"}
        image = f"{made['image']}@{made['digest']}"
        engine.docker("pull", image)
        copies_itself(engine, image, tmp_path)


def test_push_with_a_password(tendon, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        crypt = pytest.importorskip("crypt")
    (tmp_path / "htpasswd").write_text("me:" + crypt.crypt("secret", crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)) + "\n")
    more = f"auth: {{htpasswd: {{realm: tests, path: {tmp_path}/htpasswd}}}}"
    with registry(tmp_path, free_address(), more) as address:
        name = f"{address}/hand:1"
        refused = tendon(name, "--push", check=False)
        assert refused.returncode != 0 and f"docker login {address}" in refused.stderr
        login(tmp_path, address, auth=password("me:wrong"))
        refused = tendon(name, "--push", check=False)
        assert refused.returncode != 0 and "401" in refused.stderr and "wrong" not in refused.stderr
        login(tmp_path, address, auth=password("me:secret"))
        made = tendon(name, "--push")
        headers, _ = get(f"http://{address}/v2/hand/manifests/1", "me:secret")
        assert headers["Docker-Content-Digest"] == made["digest"]


def test_push_with_tokens(tendon, tmp_path):
    """As the registries of clouds want it: a token from another server, for a password or an identity token."""
    key, cert = certificate(tmp_path, "tokens", "127.0.0.1")
    tokens = free_address()
    script = pathlib.Path(__file__).with_name("token_server.py")
    server = subprocess.Popen([sys.executable, script, tokens.rsplit(":", 1)[1], key, cert], stdout=subprocess.PIPE, text=True)
    more = f"auth: {{token: {{realm: 'http://{tokens}/token', service: registry, issuer: tests, rootcertbundle: {cert}}}}}"
    try:
        assert server.stdout.readline() == "ready\n"
        with registry(tmp_path, free_address(), more) as address:
            for entry, way in (({"auth": password("me:secret")}, "GET"), ({"auth": password("me:"), "identitytoken": "lasting"}, "POST")):
                login(tmp_path, address, **entry)
                tendon(f"{address}/a/{way.lower()}:1", "--push")
                assert server.stdout.readline() == f"{way} repository:a/{way.lower()}:pull,push\n"
            login(tmp_path, address, auth=password("me:no"))
            refused = tendon(f"{address}/a/b:1", "--push", check=False)
            assert refused.returncode != 0 and "wrong password" in refused.stderr
    finally:
        server.kill()
        server.wait()


def test_push_elsewhere_needs_tls(tendon, engine, tmp_path):
    """Not on loopback: over TLS whose certificate is trusted, and never without it."""
    inside = engine.nsenter()
    run(*inside, "ip", "address", "replace", f"{OTHER}/32", "dev", "lo")
    key, cert = certificate(tmp_path, "registry", OTHER)
    with registry(tmp_path, f"{OTHER}:5002", before=inside) as plain:
        assert tendon(f"{plain}/hand:1", "--push", before=inside, check=False).returncode != 0
    with registry(tmp_path, f"{OTHER}:5003", f"  tls: {{certificate: {cert}, key: {key}}}", before=inside) as address:
        stranger = tendon(f"{address}/hand:1", "--push", before=inside, check=False)
        assert stranger.returncode != 0 and "certificate" in stranger.stderr
        made = tendon(f"{address}/hand:1", "--push", before=inside, SSL_CERT_FILE=str(cert))
        assert made["digest"].startswith("sha256:")

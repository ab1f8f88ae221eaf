"""Everything that the clouds' surfaces and clients say, over TLS: one port, the protocol by ALPN, a certificate of an authority that only
these tests know."""

import pathlib
import shutil
import socket
import ssl
import subprocess

import pytest

from cloud_worlds import CLOUDS, CloudTendon, Modal, start_service
from peers import peers, sdk
from services import PATIENCE
from vendors import environment

STORIES = pathlib.Path(__file__).resolve().parents[1] / "service"
DOMAIN = "tendon.localhost"
ALL = {**CLOUDS, "modal": Modal()}


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class Authority:
    """Makes certificates."""

    def __init__(self, folder):
        self.folder, self.cert, self.key = folder, folder / "ca.pem", folder / "ca.key"
        openssl(*"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=tests".split(),
                "-addext", "keyUsage=critical,keyCertSign", "-keyout", self.key, "-out", self.cert)

    def certify(self, name, names):
        cert, key, wish = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        openssl(*"req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=tendon".split(), "-keyout", key, "-out", wish)
        (self.folder / "names").write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
        openssl(*"x509 -req -days 2 -CAcreateserial".split(), "-in", wish, "-CA", self.cert, "-CAkey", self.key,
                "-extfile", self.folder / "names", "-out", cert)
        return {"tls_cert": str(cert), "tls_key": str(key)}

    def trusted(self):
        """What programs of all kinds read."""
        return {name: str(self.cert) for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE")}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def service(tmp_path_factory, authority):
    pair = authority.certify("service", f"DNS:{DOMAIN},DNS:*.{DOMAIN},IP:127.0.0.1")
    service = start_service(tmp_path_factory.mktemp("secure"), settings={**pair, "preview_domain": DOMAIN})
    service.context = ssl.create_default_context(cafile=str(authority.cert))
    yield service
    service.finish()


# --- the port ----------------------------------------------------------------------------------------

EMPTY = b"\0\0\0\0\0"  # a message of gRPC
ROUTES = {
    "native": ("/v1/sandboxes", "X-API-Key: {}"),
    "e2b": ("/v2/sandboxes", "X-API-Key: {}"),
    "e2b health": ("/health", ""),
    "daytona": ("/api/sandbox", "Authorization: Bearer {}"),
    "runloop": ("/v1/devboxes", "Authorization: Bearer {}"),
    "modal": ("/modal.client.ModalClient/ClientHello", "x-modal-token-secret: {}"),
}


def curl(authority, *words, **kwargs):
    done = subprocess.run(["curl", "-sS", "-m", str(PATIENCE), "--cacert", authority.cert, *words], capture_output=True, **kwargs)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["2", "1.1"])
@pytest.mark.parametrize("surface", ROUTES)
def test_every_surface_by_either_protocol(service, authority, surface, version):
    path, header = ROUTES[surface]
    key = service.tenant("curl", *(["--e2b"] if surface == "e2b" else [])).key
    words = ["-H", header.format(key), f"--http{version}", "-w", "\n%{http_version} %{http_code}", service.url + path]
    if surface == "modal":
        words += ["-H", "content-type: application/grpc", "-H", "te: trailers", "-H", "x-modal-token-id: ak-x", "--data-binary", "@-"]
    told = curl(authority, *words, input=EMPTY if surface == "modal" else None).decode(errors="replace").splitlines()[-1]
    assert told in (f"{version} 200", f"{version} 204")


@pytest.mark.parametrize("offered,chosen", [
    (["h2", "http/1.1"], "h2"), (["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"), (["h3", "http/1.0"], None), ([], None)
])
def test_what_is_chosen(service, authority, offered, chosen):
    """By the service's taste; one who offers nothing that it knows is one of HTTP/1.1."""
    context = ssl.create_default_context(cafile=str(authority.cert))
    if offered:
        context.set_alpn_protocols(offered)
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            assert secure.selected_alpn_protocol() == chosen
            if chosen != "h2":
                secure.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert secure.recv(15) == b"HTTP/1.1 200 OK"


def test_nghttp(service):
    """Another HTTP/2 than libcurl's; many streams on one connection."""
    if not shutil.which("nghttp"):
        pytest.skip("nghttp is not installed")
    urls = [f"{service.url}/healthz?{i}" for i in range(20)]
    told = subprocess.run(["nghttp", "-nv", "--no-verify-peer", *urls], capture_output=True, text=True, timeout=PATIENCE).stdout
    assert "The negotiated protocol: h2" in told and told.count(":status: 200") == 20


# --- vendors' SDKs -----------------------------------------------------------------------------------


def tell(service, authority, tmp_path, vendor, *words):
    key = service.tenant(f"sdk-{tmp_path.name[:40]}", *(["--e2b"] if vendor == "e2b" else [])).key
    env = {**service.env, **authority.trusted()}
    if vendor == "modal":  # which trusts whom the package certifi names
        (tmp_path / "certifi.py").write_text(f"def where():\n    return {str(authority.cert)!r}\n")
        env.update(PYTHONPATH=str(tmp_path), MODAL_SERVER_URL=service.url, MODAL_TOKEN_ID="tendon", MODAL_TOKEN_SECRET=key)
    else:
        env.update({k: v.replace("http://", "https://") for k, v in environment(vendor, service.port, key).items()})
    done = subprocess.run([*map(str, words)], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr[-4000:]


@pytest.mark.parametrize("version,story", [
    ("e2b", "commands"), ("e2b-2.9", "files"), ("daytona", "sessions"), ("daytona-0.24", "files"), ("modal", "commands"),
    ("modal-1.1", "commands"), ("runloop", "commands"), ("runloop-0.50", "files"),
])
def test_python_sdks(service, authority, tmp_path, version, story):
    vendor = version.partition("-")[0]
    tell(service, authority, tmp_path, vendor, sdk(version), STORIES / f"{vendor}_story.py", story)


def test_the_sdk_of_runloop_by_either_protocol(service, authority, tmp_path):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    for protocol in ("http2", "http1"):
        tell(service, authority, tmp_path, "runloop", "node", STORIES / "runloop_story.mjs", peers("runloop"), protocol)


# --- our own clients ---------------------------------------------------------------------------------


@pytest.fixture(params=ALL)
def tendon(request, tendon_program, tmp_path, service, authority):
    tendon = CloudTendon(tendon_program, tmp_path / "t", ALL[request.param], service, **authority.trusted())
    yield tendon
    tendon.finish()


def test_a_life(tendon):
    told = tendon.ok("doctor", "--runtime", tendon.cloud.name)
    assert "accepts the key" in told and "in the clear" not in told
    tendon.ok("new", "--name", "web")
    assert tendon.ok("exec", "web", "echo secure") == "secure\n"
    assert "listening" in tendon.ok("logs", "web")
    if tendon.cloud.name != "modal":
        tendon.ok("stop", "web")
        tendon.ok("resume", "--quiet", "web")
        assert tendon.ok("exec", "web", "echo again") == "again\n"
    tendon.ok("rm", "web")
    assert tendon.boxes() == []


def test_a_certificate_that_nobody_vouches_for(tendon):
    unknown = {name: "" for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE")}
    told = tendon("doctor", "--runtime", tendon.cloud.name, env=unknown)
    assert told.returncode and "certificate" in told.stdout.lower(), told.stdout
    refused = tendon("new", "--name", "web", env=unknown)
    assert refused.returncode and "certificate" in refused.stderr.lower(), refused.stderr


def test_a_certificate_of_another(tendon, service):
    """It does not have the name that was asked for: nobody is sent a key."""
    wrong = {k: v.replace("127.0.0.1", "localhost") for k, v in tendon.account.settings.items()}
    told = tendon("doctor", "--runtime", tendon.cloud.name, env=wrong)
    assert told.returncode and "certificate" in told.stdout.lower(), told.stdout

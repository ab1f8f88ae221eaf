"""The runtime API on a container engine: an image is built by the service, found, and started, as OpenHands does it."""

import base64
import contextlib
import io
import os
import pathlib
import sqlite3
import sys
import tarfile
import time

import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "service"))

from engine import REGISTRY  # noqa: E402
from openhands_clients import RemoteRuntime  # noqa: E402
from services import Service, eventually  # noqa: E402

CONFIG = """
[template.busybox]
hand_args = ["--shell", "sh"]
plugins = []
"""


class DockerService(Service):
    """In the engine's network namespace, where the published ports of its sandboxes are."""

    def __init__(self, base, engine, settings=None):
        super().__init__(base, "docker", settings, config=CONFIG, listen=[f"unix:{base}/socket"])
        self.engine = engine
        self.env.update(DOCKER_HOST=engine.address, DOCKER_CONFIG=str(self.base / "home"))

    def command(self):
        return [*self.engine.nsenter(), *super().command()]


@pytest.fixture(scope="module")
def service(engine, static_hand, tmp_path_factory):
    service = DockerService(tmp_path_factory.mktemp("builds"), engine).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def acme(service):
    return service.tenant("acme")


@pytest.fixture(scope="module")
def prefix(acme):
    return acme.get("/registry_prefix").ok().json["registry_prefix"]


def context(dockerfile):
    """Base64 text of a gzip'ed tar with that Dockerfile, and a file."""
    return packed(("Dockerfile", dockerfile), ("file.txt", "from the context\n"))


def packed(*entries):
    """Base64 text of a gzip'ed tar; an entry is (name, text), and more of what its TarInfo has."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text, *more in entries:
            info = tarfile.TarInfo(name)
            content = text.encode(errors="surrogateescape")
            info.size = len(content)
            for key, value in more:
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    return base64.b64encode(out.getvalue())


def form(parts):
    """A multipart body: pairs of name and bytes."""
    body = b""
    for name, content in parts:
        file = '; filename="context.tar.gz"' if name == "context" else ""
        body += f'--b\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content + b"\r\n"
    return body + b"--b--\r\n"


def post_build(client, *parts):
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    return client.post("/build", form(parts), headers=kind)


def build(client, dockerfile, image, *tags):
    parts = [("target_image", image.encode()), *(("tags", tag.encode()) for tag in tags)]
    return post_build(client, *parts, ("context", context(dockerfile))).ok().json["build_id"]


def ended(client, ident):
    def look():
        told = client.get(f"/build_status?build_id={ident}").ok().json
        return told if told["status"] != "WORKING" else None

    return eventually(look, "the end of the build")


def images(client):
    """Names of all images that a client is told of."""
    listed = client.get("/v1/images").ok().json["images"]
    assert all(one["names"] and one["size"] > 0 and one["created"] > 0 for one in listed), listed
    return {name for one in listed for name in one["names"]}


def test_build_find_start(service, engine, acme, prefix, scratch_image):
    image = f"{prefix}/runtime:one"
    missing = acme.get(f"/image_exists?image={image}").ok().json
    assert missing == {"exists": False, "image": {"upload_time": None, "image_size_bytes": 0}}
    dockerfile = f"FROM {scratch_image}\nCOPY file.txt /file.txt\nRUN echo built >/built\n"
    told = ended(acme, build(acme, dockerfile, image, f"{prefix}/runtime:two"))
    assert (told["status"], told["image"], told["error"]) == ("SUCCESS", image, None)
    for name in (image, f"{prefix}/runtime:two"):
        found = acme.get(f"/image_exists?image={name}").ok().json
        assert found["exists"] and found["image"]["image_size_bytes"] > 0 and found["image"]["upload_time"]
    assert not (service.state / "builds").exists() or not list((service.state / "builds").iterdir())
    assert images(acme) >= {image, f"{prefix}/runtime:two"}

    runtime = RemoteRuntime(service, acme.key, "built", image=image, runtime_class="busybox")
    runtime.prepare_image = lambda: None
    runtime.image = image
    runtime.setup_environment = lambda: None
    runtime.connect()
    assert runtime.act("cat /file.txt /built") == "from the context\nbuilt"
    runtime.close()

    # Another tenant has no such image, by whatever name.
    other = service.tenant("other")
    assert other.get("/registry_prefix").json["registry_prefix"] != prefix
    assert not any(name.startswith(prefix) for name in images(other)) and image in images(service.client())
    for name in (image, f"docker.io/{image}", f"index.docker.io/{image}"):
        assert other.get(f"/image_exists?image={name}").ok().json["exists"] is False
        assert other.post("/start", {"image": name, "runtime_class": "busybox"}).status == 404
    ident = engine.docker("inspect", "--format", "{{.Id}}", image)
    for name in (ident.removeprefix("sha256:"), ident[7:19]):
        assert other.get(f"/image_exists?image={name}").ok().json["exists"] is False
    refused = post_build(other, ("target_image", image.encode()), ("context", context(dockerfile))).ok(400)
    assert "registry prefix" in refused.json["detail"]


def test_a_build_that_fails(acme, prefix, scratch_image):
    ident = build(acme, f"FROM {scratch_image}\nRUN echo why it failed; exit 3\n", f"{prefix}/runtime:bad")
    told = ended(acme, ident)
    assert told["status"] == "FAILURE" and "why it failed" in told["error"]
    assert acme.service.tenant("other").get(f"/build_status?build_id={ident}").status == 404


def test_killed_while_it_builds(service, engine, acme, prefix, scratch_image):
    dockerfile = f"FROM {scratch_image}\nRUN echo marked; sleep 1000\n"
    ident = build(acme, dockerfile, f"{prefix}/runtime:long")
    second = build(acme, dockerfile, f"{prefix}/runtime:longer")
    refused = post_build(acme, ("target_image", f"{prefix}/x:y".encode()), ("context", context(dockerfile)))
    assert refused.status == 429 and refused.headers["Retry-After"] == "30", refused
    eventually(lambda: len(engine.docker("ps", "--quiet").split()) >= 2, "containers of the builds")
    assert acme.get(f"/build_status?build_id={ident}").json["status"] == "WORKING"
    service.restart(kill=True)
    acme.close()
    for one in (ident, second):
        told = ended(acme, one)
        assert told["status"] == "INTERNAL_ERROR" and "stopped" in told["error"]
    assert not (service.state / "builds").exists()
    eventually(lambda: not engine.docker("ps", "--quiet"), "the end of the builds in the engine")
    # A stop ends them too, and says so.
    ident = build(acme, dockerfile, f"{prefix}/runtime:long")
    service.restart()
    acme.close()
    assert ended(acme, ident)["status"] == "INTERNAL_ERROR"
    eventually(lambda: not engine.docker("ps", "--quiet"), "the end of the build in the engine")


def test_malformed(acme, prefix, scratch_image):
    image, good = f"{prefix}/runtime:x".encode(), context(f"FROM {scratch_image}\n")
    for status, parts in (
        (422, [("target_image", image)]),
        (422, [("context", good)]),
        (422, [("context", good), ("context", good), ("target_image", image)]),
        (422, [("target_image", image), ("target_image", image), ("context", good)]),
        (422, [("target_image", 600 * b"x"), ("context", good)]),
        (400, [("target_image", b""), ("context", good)]),
        (400, [("target_image", b"debian:12"), ("context", good)]),
        (400, [("target_image", image), ("tags", b"debian:12"), ("context", good)]),
        (400, [("target_image", f"{prefix}x/y".encode()), ("context", good)]),
        (400, [("target_image", f"{prefix}/UPPER".encode()), ("context", good)]),
        (400, [("target_image", image), ("context", b"not base64!")]),
        (400, [("target_image", image), ("context", good + b"AAAA")]),
        (400, [("target_image", image), ("context", good[:-1])]),
        (400, [("target_image", image), ("context", base64.b64encode(b"no gzip"))]),
        (400, [("target_image", image), ("context", b"")]),
    ):
        answer = post_build(acme, *parts)
        assert answer.status == status, (parts, answer)
    assert acme.post("/build", b"x", headers={"Content-Type": "text/plain"}).status == 415
    # Line breaks in the text are fine, and so is any order of the parts.
    wrapped = b"\r\n".join(good[i : i + 76] for i in range(0, len(good), 76))
    ident = post_build(acme, ("context", wrapped), ("other", b"ignored"), ("target_image", image)).ok().json["build_id"]
    assert ended(acme, ident)["status"] == "SUCCESS"
    reader = acme.service.tenant("acme", "--scope", "read")
    assert post_build(reader, ("target_image", image), ("context", good)).status == 403


# --- bounds ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strict(engine, static_hand, scratch_image, tmp_path_factory):
    """A service whose tenants may name one image."""
    settings = {"images": f"docker.io/library/{scratch_image.partition(':')[0]}*"}
    service = DockerService(tmp_path_factory.mktemp("strict"), engine, settings).start()
    yield service
    service.finish()


def prefix_of(client):
    return client.get("/registry_prefix").ok().json["registry_prefix"]


def test_a_build_takes_only_from_images_that_the_client_may_name(strict, engine, scratch_image, debian_image):
    client = strict.tenant("acme")
    prefix, other = prefix_of(client), prefix_of(strict.tenant("other"))
    ident = engine.docker("inspect", "--format", "{{.Id}}", debian_image).removeprefix("sha256:")
    start = f"FROM {scratch_image}"

    def post(*entries):
        return post_build(client, ("target_image", f"{prefix}/y:1".encode()), ("context", packed(*entries)))

    for status, text in (
        (403, f"FROM {debian_image}"),
        (403, "FROM private.example/secret/app:1 AS a"),
        (403, f"FROM --platform=linux/amd64 {debian_image}"),
        (403, f"{start} AS a\nFROM a\nFROM {debian_image}"),
        (403, f"ARG BASE={debian_image}\nFROM $BASE"),
        (403, f'ARG A=debian\nARG BASE="{scratch_image}" A=debian\nFROM ${{A}}-minimal'),
        (400, "ARG BASE\nFROM $BASE"),
        (400, "FROM ${BASE:-debian}"),
        (400, f'FROM "{debian_image}"'),
        (403, f"fr\\\nom {debian_image}"),
        (403, f"{start}\nCOPY --from={debian_image} /a /b"),
        (403, f"{start}\nCOPY --chown=1:1\\\n  --from={debian_image} /a /b"),
        (400, f'{start}\nCOPY --"from={debian_image}" /a /b'),
        (403, f"{start}\nONBUILD COPY --from={debian_image} /a /b"),
        (403, f"{start}\nRUN --mount=type=bind,from={debian_image},target=/m true"),
        (400, f"{start}\nRUN --network=host true"),
        (400, f"{start}\nRUN \udca0--network=host true"),
        (400, f"{start}\nRUN \u3000--network=host true"),
        (400, f"{start}\nRUN --mount=type=bind,target=/m\udc85--network=host true"),
        (400, f"{start}\nENV F=from={debian_image}\nRUN --mount=type=bind,$F,target=/m true"),
        (400, f"{start}\nCOPY \udca0--from={debian_image} /a /b"),
        (400, f"{start}\nCOPY --chown=\u00e0--from={debian_image} /a /b"),
        (400, f"{start}\nCOPY --chown=1:1 \\\n\u00a0# \\\n--from={debian_image} /a /b"),
        (400, f"{start}\nCOPY --from {debian_image} /a /b"),
        (400, f"{start}\nCOPY --FROM={debian_image} /a /b"),
        (400, f"ARG X={scratch_image}\n{start}\nARG X={debian_image}\nCOPY --from=$X /a /b"),
        (400, f"{start}\nCOPY --from=7 /a /b"),
        (400, f"{start} AS a\n{start}\nCOPY --from=1 /a /b"),
        (403, f"{start} AS debian\nFROM debian\nONBUILD COPY --from=debian /a /b"),
        (403, f"{start} AS debian\nCOPY --from=debian /a /b"),
        (400, f"{start} AS one\n{start} AS One"),
        (400, f"{start} AS Evil\nFROM evil"),
        (400, f'ARG BASE={scratch_image}\nARG "BASE"={debian_image}\nFROM $BASE'),
        (400, f"ARG BASE={scratch_image}\nARG B\\ASE={debian_image}\nFROM $BASE"),
        (400, f'ARG BASE={debian_image}\nARG A="x BASE={scratch_image} y"\nFROM $BASE'),
        (400, f"ARG BASE={scratch_image}\nARG A=x\u00a0BASE={debian_image}\nFROM $BASE"),
        (400, f"{start}\nRUN <<E\nE\n"),
        (400, f"{start}\nADD http://127.0.0.1/x /x"),
        (400, f"{start}\nENV U=http://127.0.0.1/x\nADD $U /x"),
        (400, f"# escape=`\n{start}\nRUN true `\nFROM {debian_image}"),
        (400, f"{start}\nRUN true \\\\\nFROM {debian_image}"),
        (403, f"FROM {ident}"),
        (403, f"FROM {ident[:12]}"),
        (404, f"FROM sha256:{ident}"),
        (404, f"FROM {other}/runtime:one"),
        (403, "FROM oci:somewhere"),
        (400, "RUN true"),
        (400, f"{start}\nNONE x"),
        (400, ""),
    ):
        answer = post(("Dockerfile", text + "\n"))
        assert answer.status == status and "Dockerfile" in answer.json["detail"], (text, answer)
    file = ("Dockerfile", start + "\n")
    for entries in (
        [("sub/Dockerfile", start)],
        [("Dockerfile", "", ("type", tarfile.SYMTYPE), ("linkname", "x")), ("x", start)],
        [file, ("null", "", ("type", tarfile.CHRTYPE))],
        [file, ("holes", "", ("pax_headers", {"GNU.sparse.major": "1"}))],
        [file, ("long", "", ("pax_headers", {"size": "512"}))],
    ):
        answer = post(*entries)
        assert answer.status == 400 and "context" in answer.json["detail"], (entries, answer)

    # Own images, stages and the defaults of ARG; whatever else has the name of the Dockerfile in the end, by the one that was checked.
    good = f"# syntax=docker/dockerfile:1\nARG BASE={scratch_image}\nFROM ${{BASE}} AS one\nRUN echo fine >/fine\nFROM one\nCOPY --from=0 /fine /f\n"
    hostile = f"FROM {debian_image}\nRUN echo taken >/taken\n"
    told = ended(
        client,
        post(
            ("Dockerfile", "FROM nothing\n"),
            ("./Dockerfile", good),
            ("d", "", ("type", tarfile.SYMTYPE), ("linkname", ".")),
            ("d/Dockerfile", hostile),
            ("Dockerfile" + "/." * 60, hostile),
        )
        .ok()
        .json["build_id"],
    )
    assert told["status"] == "SUCCESS", told
    own = post_build(
        client, ("target_image", f"{prefix}/z:1".encode()), ("context", context(f"FROM {prefix}/y:1\nRUN cat /f; exit 3\n"))
    )
    assert "fine" in ended(client, own.ok().json["build_id"])["error"]


@pytest.mark.parametrize(
    ("flags", "sees"), [((), "lo"), (("--network", "none"), "lo"), (("--network", "open"), "lo"), (("--network", "bridge"), "eth0")]
)
def test_the_network_of_a_build(strict, scratch_image, flags, sees):
    client = strict.tenant("acme", *flags)
    # $TAG keeps the engine from answering out of its cache, where it would be the same step.
    text = f"FROM {scratch_image}\nENV TAG={'-'.join(flags)}\nRUN ls /sys/class/net; exit 3\n"
    told = ended(client, build(client, text, f"{prefix_of(client)}/net:1"))
    assert told["status"] == "FAILURE" and sees in told["error"], told
    assert ("eth0" in told["error"], "service.build_network" in told["error"]) == (sees == "eth0", sees == "lo")


def test_who_must_have_gvisor_builds_nothing(strict, scratch_image):
    client = strict.tenant("acme", "--gvisor")
    refused = post_build(client, ("target_image", b"x"), ("context", context(f"FROM {scratch_image}\n")))
    assert refused.status == 403 and "gvisor" in refused.json["detail"], refused


def unique_layer(directory):
    """A layer that the engine does not have yet, so that it asks the registry for it."""
    layer = directory / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        info = tarfile.TarInfo("unique")
        info.size = 1 << 20
        tar.addfile(info, io.BytesIO(os.urandom(info.size)))
    return layer


def test_a_delete_ends_a_pull(service, engine, tmp_path):
    """Whoever deletes a sandbox does not wait for an image that nobody wants any more."""
    client = service.client()
    with engine.registry(unique_layer(tmp_path)) as registry:
        wish = {"template": "busybox", "image": f"{REGISTRY}/stall:1", "wait": 0}
        box = client.post("/v1/sandboxes", wish).ok(201).json
        assert registry.stdout.readline() == "asked\n"
        began = time.monotonic()
        client.delete(f"/v1/sandboxes/{box['id']}").ok(204)
        assert time.monotonic() - began < 30, "a start may take two minutes"
        client.get(f"/v1/sandboxes/{box['id']}").ok(404)


def warm(service):
    """How many sandboxes of pools there are or are being made, as the store has them."""
    with contextlib.closing(sqlite3.connect(f"file:{service.state}/tendon.db?mode=ro", uri=True)) as database:
        return database.execute("SELECT count(*) FROM sandbox WHERE pool IS NOT NULL").fetchone()[0]


@pytest.mark.parametrize("how", ["lowered", "removed", "stopped"])
def test_a_pool_that_nobody_wants_ends_its_pull(service, engine, tmp_path, how):
    wish = {"template": "busybox", "image": f"{REGISTRY}/stall:1", "target": 1}
    with engine.registry(unique_layer(tmp_path)) as registry:
        service.client().put("/v1/pools/stalled", wish).ok()
        assert registry.stdout.readline() == "asked\n" and warm(service) == 1
        began = time.monotonic()
        if how == "lowered":
            service.client().put("/v1/pools/stalled", {**wish, "target": 0}).ok()
        elif how == "removed":
            service.client().delete("/v1/pools/stalled").ok(204)
        else:
            assert service.stop() == 0, "it did not wait for all that it had begun"
        eventually(lambda: warm(service) == 0, "the pull has ended, and what it was for is gone")
        assert time.monotonic() - began < 30, "a start may take two minutes"
        if how == "stopped":
            service.start()
        if how != "removed":
            service.client().delete("/v1/pools/stalled").ok(204)
        eventually(lambda: warm(service) == 0, "nothing is left of it")
    assert not any("cannot be filled" in line["message"] and "cancel" in line["why"] for line in service.log_lines())

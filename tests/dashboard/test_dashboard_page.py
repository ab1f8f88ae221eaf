"""How the page is served: small, whole, closed to everybody else; and its pure parts."""

import gzip
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FILES = ["", "dashboard/app.js", "dashboard/app.css", "dashboard/icon.svg", "dashboard/terminal.js", "dashboard/terminal.css"]
LIMIT = 200 * 1024


@pytest.fixture(scope="module")
def stranger(service):
    return service.stranger(headers={"Accept-Encoding": "gzip"})


def test_everything_is_there_and_small(stranger):
    total = 0
    for name in FILES:
        answer = stranger.get(f"/{name}").ok()
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(answer.body)
        total += len(answer.body)
    assert total < LIMIT, total


def test_nothing_comes_from_elsewhere(stranger):
    page = gzip.decompress(stranger.get("/").body).decode()
    assert set(re.findall(r'(?:src|href)="([^"]*)"', page)) == {f"/{name}" for name in FILES[1:4]}
    for name in ("app.js", "app.css", "terminal.js", "terminal.css"):
        text = gzip.decompress(stranger.get(f"/dashboard/{name}").body).decode()
        assert not re.findall(r"(?:import|url)\(\s*[\"']?https?:", text), name


@pytest.mark.parametrize("path", ["/", "/dashboard/app.js", "/dashboard/nothing.js"])
def test_headers(stranger, path):
    headers = stranger.get(path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_asked_for_again_only_when_it_changed(stranger):
    first = stranger.get("/dashboard/app.js").ok()
    assert first.headers["Cache-Control"] == "no-cache"
    tag = first.headers["ETag"]
    assert stranger.get("/dashboard/app.js", headers={"If-None-Match": f'"x", {tag}'}).ok(304).body == b""
    assert stranger.get("/dashboard/app.js", headers={"If-None-Match": '"x"'}).ok().headers["ETag"] == tag


def test_compressed_for_who_takes_it(stranger):
    packed = stranger.get("/dashboard/app.js").ok()
    for accepted in ("identity", "br, gzip;q=0", "gzip;q=0.0, br", "", "gzipped"):
        plain = stranger.get("/dashboard/app.js", headers={"Accept-Encoding": accepted}).ok()
        assert "Content-Encoding" not in plain.headers and plain.body == gzip.decompress(packed.body), accepted
    for accepted in ("br;q=1.0, gzip;q=0.5", "*", "x-gzip", "deflate , GZIP"):
        again = stranger.get("/dashboard/app.js", headers={"Accept-Encoding": accepted}).ok()
        assert again.headers["Content-Encoding"] == "gzip" and again.body == packed.body, accepted


def test_what_cannot_be_served(stranger):
    assert "no such file" in stranger.get("/dashboard/nothing.js").ok(404).json["detail"]
    assert stranger.get("/dashboard/..%2fapp.js").status == 404
    assert stranger.post("/dashboard/app.js", b"").status in (401, 405)
    assert stranger.request("HEAD", "/").ok().body == b""


def test_links_sign_in_once_exchanged(service, stranger):
    client = service.tenant("links")
    link = client.post("/dashboard/link").ok(201).json["link"]
    base, _, ticket = link.partition("/#ticket=")
    assert base == service.url and ticket
    told = stranger.post("/dashboard/login", {"ticket": ticket}).ok(201).json
    guest = service.client(told["key"])
    assert guest.get("/v1/me").ok().json["tenant"] == "links"
    # It works once, and two of the same second are two.
    again = stranger.post("/dashboard/login", {"ticket": ticket})
    assert again.status == 401 and "used already" in again.json["detail"]
    links = {client.post("/dashboard/link").ok(201).json["link"] for _ in range(5)}
    assert len(links) == 5
    for link in links:
        stranger.post("/dashboard/login", {"ticket": link.partition("/#ticket=")[2]}).ok(201)
    # A ticket of one kind opens nothing of another, and a pass makes no further links.
    assert service.client("tnt_" + ticket).get("/v1/me").status == 401
    assert stranger.post("/dashboard/login", {"ticket": told["key"].removeprefix("tnt_")}).status == 401
    assert guest.post("/dashboard/link").status == 403
    assert stranger.post("/dashboard/link").status == 401
    assert stranger.post("/dashboard/login", {"ticket": ticket[:-4] + "AAAA"}).status == 401
    assert stranger.post("/dashboard/login", {"ticket": 7}).status == 401
    # It lasts as long as the key it came from.
    key = client.get("/v1/me").json["key"]
    service.client().delete(f"/v1/keys/{key}").ok(204)
    assert guest.get("/v1/me").status == 401
    assert ticket not in service.log() and told["key"] not in service.log()


def test_pictures_of_the_documentation_are_small():
    docs = HERE.parents[1] / "docs/service"
    shown = re.findall(r"!\[[^]]*\]\(([^)]*\.png)\)", (docs / "dashboard.md").read_text())
    assert shown
    for name in shown:
        assert (docs / name).stat().st_size < 150 * 1024, name


def test_parts(page, tmp_path):
    esbuild = shutil.which("esbuild")
    if not esbuild:
        pytest.skip("esbuild is not installed")
    out = tmp_path / "parts.js"
    command = [esbuild, "--bundle", "--format=iife", "--external:/dashboard/*", "--log-level=warning"]
    subprocess.run([*command, HERE / "parts.js", f"--outfile={out}"], check=True, timeout=60)
    page.evaluate(out.read_text())
    failures = page.wait_for("window.partsResult && JSON.stringify(partsResult)")
    assert failures == "[]", failures

"""Ports of sandboxes in a browser: who may come in, by which address, and what passes."""

import base64
import json
import pathlib
import time
from urllib.parse import quote, urlsplit

import pytest
import websocket

from native import at, make, run
from previews import PAGE, PORT, Visitor, by_host, by_path, link, raw, serving
from services import PATIENCE, Service, eventually, self_signed

EDITOR = pathlib.Path(__file__).resolve().parent.parent / "vscode" / "fake-server"
SANDBOX = "sandbox allow-downloads allow-forms"


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("preview"), settings={"resume_on_use": "false"}).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def box(alice):
    return serving(alice)


@pytest.fixture(params=["host", "path"])
def url(request, service, box):
    """url(rest) of the server inside, both ways."""
    form = {"host": by_host, "path": by_path}[request.param]

    def make_url(rest="/", **kwargs):
        return form(service, box, rest, **kwargs)

    make_url.form = request.param
    return make_url


def ticket_of(link_):
    return urlsplit(link_).query.rpartition("tendon-ticket=")[2]


def with_ticket(url_, link_):
    return f"{url_}{'&' if '?' in url_ else '?'}tendon-ticket={ticket_of(link_)}"


def fields(answer, name):
    return [value for key, value in answer.json["fields"] if key == name]


# --- coming in -----------------------------------------------------------------------------------


def test_a_link_lets_in_and_its_ticket_leaves_the_address(service, alice, box, url):
    visitor = Visitor(service)
    first = visitor.get(with_ticket(url("/echo?a=1&b=%2F"), link(alice, box)), follow=False)
    assert first.status == 303
    assert urlsplit(first.headers["Location"])[2:4] == urlsplit(url("/echo?a=1&b=%2F"))[2:4]
    assert "ticket" not in first.headers["Location"]
    (cookie,) = first.headers.get_all("Set-Cookie")
    assert "; HttpOnly" in cookie and "; SameSite=Lax" in cookie and "Domain" not in cookie and "Secure" not in cookie
    assert cookie.startswith(f"tendon-{box['id']}-{PORT}=")
    path = "/" if url.form == "host" else f"/preview/{box['id']}/{PORT}/"
    assert f"; Path={path};" in cookie
    assert first.headers["Referrer-Policy"] == "no-referrer" and first.headers["Cache-Control"] == "no-store"
    second = visitor.get(url("/echo?a=1&b=%2F"))
    assert second.json["target"] == "/echo?a=1&b=%2F"
    assert not fields(second, "cookie"), "our cookie never reaches the sandbox"
    third = visitor.get(url("/echo"), headers={"Cookie": "theirs=1"})
    assert fields(third, "cookie") == (["theirs=1"] if url.form == "host" else [])


def test_links_open_what_they_are_for(service, alice, box):
    there = Visitor(service).get(link(alice, box, open="/echo?x=1#part"))
    assert there.json["target"] == "/echo?x=1"
    assert link(alice, box, open="/echo?x=1#part").endswith("#part")
    assert link(alice, box).startswith(by_host(service, box, "/?tendon-ticket="))


def test_nobody_else_comes_in(service, alice, bob, box, url):
    """No ticket, a wrong one, one of another port or box or tenant: nothing tells whether the box exists."""
    other = make(bob)
    forged = ticket_of(link(alice, box))[:-2] + "AA"
    strangers = [
        Visitor(service).get(url("/echo")),
        Visitor(service).get(url("/echo?tendon-ticket=" + forged)),
        Visitor(service).get(url("/echo?tendon-ticket=")),
        Visitor(service).get(url("/echo?tendon-ticket=" + "A" * 2000)),
        Visitor(service).get(with_ticket(url("/echo"), link(alice, box, port=PORT + 1))),
        Visitor(service).get(with_ticket(url("/echo"), link(bob, other))),
        Visitor(service).get(url("/echo").replace(box["id"], "a" * 10)),
        Visitor(service).get(
            url("/echo"), headers={"Cookie": f"tendon-{box['id']}-{PORT}={ticket_of(link(alice, box))}"}
        ),
    ]
    assert {(a.status, a.text) for a in strangers} == {(401, strangers[0].text)}
    missing = bob.request(
        "GET",
        urlsplit(url("/echo").replace(box["id"], "a" * 10)).path,
        headers={"Host": urlsplit(url().replace(box["id"], "a" * 10)).netloc},
    )
    his = bob.request("GET", urlsplit(url("/echo")).path, headers={"Host": urlsplit(url()).netloc})
    assert (his.status, his.body) == (missing.status, missing.body) and his.status == 404
    bob.delete(at(other)).ok(204)


def test_a_cookie_opens_one_port_of_one_box(service, alice, box, url):
    visitor = Visitor(service)
    visitor.get(with_ticket(url("/echo"), link(alice, box))).ok()
    (value,) = visitor.jar.values()
    other = url("/echo").replace(box["id"], "b" * 10)
    for there, name in ((url("/echo", port=81), f"tendon-{box['id']}-81"), (other, f"tendon-{'b' * 10}-{PORT}")):
        assert Visitor(service).get(there, headers={"Cookie": f"{name}={value}"}).status == 401
    # Nor is it good as the ticket of a link.
    assert Visitor(service).get(url(f"/echo?tendon-ticket={value}")).status == 401
    # A page inside can add cookies of that name, not take ours away.
    name = f"tendon-{box['id']}-{PORT}"
    assert Visitor(service).get(url("/echo"), headers={"Cookie": f"{name}=x; {name}={value}; {name}="}).status == 200


def test_a_revoked_key_opens_nothing_any_more(service, alice, box, url):
    made = service.make_key(f"short-{url.form}", "--tenant", "alice")
    client = service.client(made["key"])
    visitor = Visitor(service)
    visitor.get(with_ticket(url("/echo"), link(client, box))).ok()
    late = link(client, box)
    assert service.tendon("key", "revoke", made["id"]).returncode == 0
    visitor.get(url("/echo")).ok(401)
    Visitor(service).get(with_ticket(url("/echo"), late)).ok(401)


def test_a_key_needs_the_scope(service, box, url):
    reader = service.client(service.make_key(f"reader-{url.form}", "--tenant", "alice", "--scope", "read")["key"])
    to = urlsplit(url("/echo"))
    assert reader.get(to.path, headers={"Host": to.netloc}).status == 403
    assert reader.post(at(box, f"/ports/{PORT}")).status == 403


def test_programs_send_their_key(service, alice, box, url):
    to = urlsplit(url("/echo"))
    for key in (
        {"X-API-Key": alice.key},
        {"Authorization": f"Bearer {alice.key}"},
        {"Authorization": f"bearer   {alice.key}"},
    ):
        headers = {
            "Host": to.netloc,
            "X-Session-API-Key": box["session_key"],
            "X-Forwarded-For": "9.9.9.9",
            "Forwarded": "for=9.9.9.9",
            **key,
        }
        seen = service.stranger().request("POST", to.path, b"hello", headers=headers).ok()
        assert alice.key not in seen.text and seen.json["body"] == "hello"
        assert not any(
            name in ("x-api-key", "authorization", "x-session-api-key", "forwarded") for name, _ in seen.json["fields"]
        )
        assert fields(seen, "x-forwarded-for") == ["127.0.0.1"] and fields(seen, "x-forwarded-proto") == ["http"]
        assert fields(seen, "x-forwarded-host") == [to.netloc]
        assert fields(seen, "host") == [to.netloc if url.form == "host" else f"localhost:{PORT}"]
        assert fields(seen, "x-request-id") == [seen.headers["X-Request-Id"]]
    wrong = service.stranger().get(to.path, headers={"Host": to.netloc, "X-API-Key": "tnk_" + "a" * 56})
    assert wrong.status == 401
    # What the server inside asks for is none of our business.
    visitor = Visitor(service)
    visitor.get(with_ticket(url("/echo"), link(alice, box)))
    own = {"Authorization": "Basic eDp5", "X-API-Key": "its-own", "X-Session-API-Key": "its-own-too"}
    seen = visitor.get(url("/echo"), headers=own)
    assert fields(seen, "authorization") == ["Basic eDp5"] and fields(seen, "x-api-key") == ["its-own"]
    assert fields(seen, "x-session-api-key") == ["its-own-too"]


def test_no_key_of_ours_in_another_line(service, alice, box, url):
    """Not even that of another sandbox, whose client has mistaken the address."""
    other = alice.post("/v1/sandboxes", {"plugins": []}).ok(201).json
    visitor = Visitor(service)
    visitor.get(with_ticket(url("/echo"), link(alice, box)))
    for key in (box["session_key"], other["session_key"]):
        for headers in (
            {"X-Session-API-Key": key},
            {"x-session-api-key": key},
            {"Authorization": f"Bearer {key}"},
        ):
            assert key not in visitor.get(url("/echo"), headers=headers).text
    assert alice.key not in visitor.get(url("/echo"), headers={"X-Session-API-Key": alice.key}).text
    alice.delete(at(other)).ok(204)


def test_a_ticket_never_reaches_the_sandbox(service, alice, box, url):
    ticket = ticket_of(link(alice, box))
    seen = Visitor(service).get(with_ticket(url("/echo?a=1"), f"?tendon-ticket={ticket}"), method="POST", body=b"x")
    assert seen.json["target"] == "/echo?a=1" and ticket not in seen.text
    visitor = Visitor(service)
    visitor.get(with_ticket(url("/echo"), f"?tendon-ticket={ticket}"))
    for there in (
        f"/echo?tendon-ticket={ticket}&b=2",
        f"/echo?b=2&tendon-ticket={ticket}",
        f"/echo?tendon-ticket={ticket}x&b=2",
    ):
        seen = visitor.get(url(there))
        assert seen.json["target"] == "/echo?b=2" and ticket not in seen.text
    seen = visitor.get(url("/echo"), headers={"Referer": url(f"/?tendon-ticket={ticket}")})
    assert not fields(seen, "referer")
    assert ticket not in service.log() and alice.key not in service.log()
    # A name that only looks like ours after decoding is not ours: it neither opens nor is removed.
    assert Visitor(service).get(url(f"/echo?tendon%2Dticket={ticket}")).status == 401


def test_pages_elsewhere_cannot_use_the_cookie(service, alice, box):
    visitor = Visitor(service)
    there = by_host(service, box, "/echo")
    visitor.get(with_ticket(there, link(alice, box)))
    for origin in (
        "http://evil.example",
        "null",
        f"http://{PORT}-{'c' * 10}.localhost:{service.port}",
        f"http://127.0.0.1:{service.port}",
    ):
        assert visitor.get(there, method="POST", body=b"x", headers={"Origin": origin}).status == 403
        assert (
            visitor.get(there, headers={"Origin": origin, "Upgrade": "websocket", "Connection": "Upgrade"}).status
            == 403
        )
    assert visitor.get(there, method="POST", body=b"x", headers={"Origin": by_host(service, box, "")}).status == 200
    assert (
        visitor.get(there, method="POST", body=b"x", headers={"Origin": by_host(service, box, "", port=3000)}).status
        == 200
    )


def test_by_path_nothing_becomes_a_part_of_the_dashboard(service, alice, box):
    visitor = Visitor(service)
    there = by_path(service, box, "/echo")
    visitor.get(with_ticket(there, link(alice, box)))
    assert (
        visitor.get(
            there, headers={"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
        ).status
        == 403
    )
    assert visitor.get(there, headers={"Service-Worker": "script"}).status == 403
    assert visitor.get(there, headers={"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}).status == 200


# --- what passes ---------------------------------------------------------------------------------


@pytest.fixture
def visit(service, alice, box, url):
    """visit(rest, ...) as somebody who was let in."""
    visitor = Visitor(service)
    visitor.get(with_ticket(url("/echo"), link(alice, box))).ok()

    def go(rest, **kwargs):
        return visitor.get(url(rest), follow=False, **kwargs)

    go.visitor, go.form, go.url = visitor, url.form, url
    return go


def test_bodies_of_every_kind(visit):
    assert len(visit("/size/300000").body) == 300000
    assert visit("/size/300000").body[:300] == (bytes(range(256)) * 2)[:300]
    assert visit("/chunked/3").body == b"piece 0\npiece 1\npiece 2\n"
    assert "X-After" not in visit("/chunked/3").headers and "Trailer" not in visit("/chunked/3").headers
    assert visit("/close/5000").body == b"x" * 5000
    head = visit("/size/12345", method="HEAD")
    assert head.headers["Content-Length"] == "12345" and head.body == b""
    assert visit("/chunked/3", method="HEAD").body == b""
    assert visit("/sum", method="POST", body=b"y" * 500000).json["size"] == 500000
    assert visit("/sum", method="POST", body=(b"z" * 1000 for _ in range(100))).json["size"] == 100000


def test_cookies_of_the_sandbox(visit, box):
    answer = visit("/cookies")
    got = sorted(answer.headers.get_all("Set-Cookie"))
    if visit.form == "host":
        assert got == ["deep=3; path=/admin; SameSite=None", "plain=1; HttpOnly", "wide=2; Path=/; Max-Age=60"]
    else:
        path = f"/preview/{box['id']}/{PORT}"
        assert got == [
            f"tendon-app-deep=3; Path={path}/admin; SameSite=None",
            f"tendon-app-plain=1; Path={path}/; HttpOnly",
            f"tendon-app-wide=2; Path={path}/; Max-Age=60",
        ]
    (cookie,) = fields(visit("/echo"), "cookie")
    assert sorted(cookie.split("; ")) == ["plain=1", "wide=2"]


def test_what_would_act_on_the_whole_origin(visit):
    headers = visit("/origin").headers
    assert headers["X-Mine"] == "stays" and headers["X-Request-Id"] != "forged" and "Clear-Site-Data" not in headers
    shared = visit.form == "path"
    for name in ("Service-Worker-Allowed", "Strict-Transport-Security", "Alt-Svc"):
        assert (name in headers) != shared
    policies = headers.get_all("Content-Security-Policy")
    assert any(p.startswith(SANDBOX) and "allow-same-origin" not in p for p in policies) == shared
    assert len(policies) == 1 + shared


@pytest.mark.parametrize(
    "inside, by_host_, by_path_",
    [
        ("/next", "/next", "{0}/next"),
        ("next", "next", "next"),
        ("http://localhost:8080/next?a", "/next?a", "{0}/next?a"),
        ("http://127.0.0.1:8080", "/", "{0}/"),
        ("//localhost:8080//evil.example", "/evil.example", "{0}/evil.example"),
        ("http://localhost:9090/next", "http://localhost:9090/next", "http://localhost:9090/next"),
        ("https://elsewhere.example/x", "https://elsewhere.example/x", "https://elsewhere.example/x"),
        ("{0}/next", "{0}/next", "{0}/next"),
    ],
)
def test_redirects_stay_inside(visit, box, inside, by_host_, by_path_):
    prefix = f"/preview/{box['id']}/{PORT}"
    answer = visit("/redirect?" + quote(inside.format(prefix), safe=":/"))
    assert answer.status == 302
    assert answer.headers["Location"] == (by_host_ if visit.form == "host" else by_path_).format(prefix)


def test_the_path_gets_its_slash(service, alice, box):
    answer = alice.get(f"/preview/{box['id']}/{PORT}?x=1")
    assert answer.status == 308 and answer.headers["Location"] == f"/preview/{box['id']}/{PORT}/?x=1"
    for path in (
        f"/preview/{box['id']}/0/",
        f"/preview/{box['id']}/65536/",
        f"/preview/{box['id']}/080/",
        f"/preview/{box['id']}x/80/",
        "/preview/A/8080%2f/",
    ):
        assert alice.get(path).status == 404
    assert alice.get(f"/preview/{box['id']}/{PORT}/a%2fb/../c//d").json["target"] == "/a%2fb/../c//d"


def test_a_link_leads_nowhere_else(service, alice, box):
    """A path of two slashes would be a host."""
    there = by_host(service, box, "//evil.example/x")
    answer = Visitor(service).get(with_ticket(there, link(alice, box)), follow=False)
    assert answer.headers["Location"] == there


def web_socket(service, box, rest, form, **kwargs):
    headers = [f"Host: {urlsplit(by_host(service, box)).netloc}"] if form == "host" else []
    path = rest if form == "host" else f"/preview/{box['id']}/{PORT}{rest}"
    headers += kwargs.pop("header", [])
    if form == "host":
        kwargs.setdefault("host", urlsplit(by_host(service, box)).netloc)
        headers = headers[1:]
    return websocket.create_connection(
        f"ws://127.0.0.1:{service.port}{path}", timeout=PATIENCE, header=headers, suppress_origin=True, **kwargs
    )


@pytest.mark.parametrize("form", ["host", "path"])
def test_web_sockets(service, alice, box, form):
    conn = web_socket(service, box, "/ws?x=1", form, header=[f"X-API-Key: {alice.key}", "Cookie: tendon-x=1"])
    seen = json.loads(conn.recv())
    assert "x-api-key" not in seen and "cookie" not in seen and seen["upgrade"] == "websocket"
    for text in ("hello", "x" * 50000):
        conn.send(text)
        assert conn.recv() == text
    conn.close()
    # With a ticket, which pages can put into an address.
    conn = web_socket(service, box, "/ws?tendon-ticket=" + ticket_of(link(alice, box)), form)
    conn.recv()
    conn.send("by ticket")
    assert conn.recv() == "by ticket"
    before = alice.get(f"/preview/{box['id']}/{PORT}/ended").json["ended"]
    conn.sock.close()  # without a word: the server inside sees it at once
    eventually(lambda: alice.get(f"/preview/{box['id']}/{PORT}/ended").json["ended"] > before, "its end is seen")
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        web_socket(service, box, "/ws", form)
    assert refused.value.status_code == 401


def test_other_protocols_are_not_switched_to(service, alice, box):
    """A stream we cannot read would pass what we hide."""
    target = f"/preview/{box['id']}/{PORT}/echo"
    answer = alice.get(
        target,
        headers={
            "Connection": "Upgrade, HTTP2-Settings",
            "Upgrade": "h2c",
            "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA",
        },
    ).ok()
    assert not fields(answer, "upgrade") and not fields(answer, "http2-settings")
    answer = alice.get(
        f"/preview/{box['id']}/{PORT}/raw/"
        + b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n".hex()
    )
    assert answer.status == 502


# --- when nothing answers ------------------------------------------------------------------------


def test_nobody_listens(service, alice, box):
    for headers, kind in ((PAGE, "text/html"), ({}, "application/json")):
        answer = alice.get(f"/preview/{box['id']}/81/", headers=headers).ok(502)
        assert answer.headers["Content-Type"].startswith(kind)
        assert "port 81" in answer.text and "http.server 81" in answer.text
        assert answer.headers["Cache-Control"] == "no-store"
    assert "detail" in alice.get(f"/preview/{box['id']}/81/").json


@pytest.mark.parametrize(
    "rest",
    [
        "/gone",
        "/raw/" + b"nonsense\r\n\r\n".hex(),
        "/raw/" + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n".hex(),
        "/huge",
    ],
    ids=["nothing", "nonsense", "two lengths", "a huge head"],
)
def test_a_server_that_makes_no_sense(alice, box, rest):
    assert alice.get(f"/preview/{box['id']}/{PORT}{rest}").status == 502


def test_a_paused_sandbox(service, alice):
    box = serving(alice)
    alice.get(f"/preview/{box['id']}/{PORT}/echo").ok()
    alice.post(at(box, "/pause")).ok()
    for headers, kind in ((PAGE, "text/html"), ({}, "application/json")):
        answer = alice.get(f"/preview/{box['id']}/{PORT}/echo", headers=headers).ok(503)
        assert "paused" in answer.text and "/resume" in answer.text and answer.headers["Retry-After"]
        assert answer.headers["Content-Type"].startswith(kind)
    alice.post(at(box, "/resume")).ok()
    alice.get(f"/preview/{box['id']}/{PORT}/echo").ok()
    visitor = Visitor(service)
    visitor.get(link(alice, box)).ok()
    alice.delete(at(box)).ok(204)
    visitor.get(by_host(service, box)).ok(404)


def test_the_editor(service, alice):
    """VS Code as a preview: the hand's door takes its token from the link, and the visit goes on behind it."""
    box = make(alice, env={"TENDON_VSCODE": "/tmp/code-server", "FAKE_NOTES": "/tmp"})
    missing = alice.post(at(box, "/editor"))
    assert missing.status >= 400 and "code-server" in missing.text
    alice.put(at(box, "/files", path="/tmp/code-server"), EDITOR.read_bytes()).ok(201)
    run(alice, box, "chmod 755 /tmp/code-server")
    there = alice.post(at(box, "/editor")).ok(201).json["link"]
    visitor = Visitor(service)
    page = visitor.get(there).ok()
    assert "tkn" not in page.url and "ticket" not in page.url
    assert "cookie" not in {name for name, _ in page.json["headers"]}
    Visitor(service).get(page.url).ok(401)
    alice.delete(at(box)).ok(204)


# --- other ways ----------------------------------------------------------------------------------


def test_hosts_that_are_none(service):
    for host in (
        "8080-abcdefghij.localhost.evil.example",
        "8080-abcdefghi.localhost",
        "08080-abcdefghij.localhost",
        "8080-abcdefghij.evil.example",
    ):
        assert (
            b" 421 "
            in raw(service, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()).splitlines()[0]
        )


def test_a_target_that_names_another_host(service, alice, box):
    host = urlsplit(by_host(service, box)).netloc
    key = f"X-API-Key: {alice.key}\r\nConnection: close\r\n\r\n"
    assert (
        b" 400 "
        in raw(service, f"GET http://127.0.0.1/v1/sandboxes HTTP/1.1\r\nHost: {host}\r\n{key}".encode()).splitlines()[0]
    )
    same = raw(service, f"GET http://{host}/echo HTTP/1.1\r\nHost: {host}\r\n{key}".encode())
    assert b'"target": "/echo"' in same


def test_under_tls_cookies_are_secure(make_service, tmp_path, jail_works):
    cert, key, context = self_signed(tmp_path)
    service = make_service(settings={"tls_cert": cert, "tls_key": key})
    service.context = context
    service.start()
    alice = service.tenant("alice")
    box = serving(alice)
    there = link(alice, box)
    assert there.startswith(f"https://{PORT}-{box['id']}.localhost:")
    visitor = Visitor(service)
    first = visitor.get(there, follow=False)
    cookie = first.headers["Set-Cookie"]
    assert cookie.startswith("__Host-tendon-") and "; Secure" in cookie and "; Path=/;" in cookie
    seen = visitor.get(first.headers["Location"] + "echo").ok()
    assert fields(seen, "x-forwarded-proto") == ["https"] and not fields(seen, "cookie")


def test_where_names_below_localhost_do_not_lead_here(make_service, jail_works):
    service = make_service(settings={"url": "http://sandboxes.example"}).start()
    alice = service.tenant("alice")
    box = make(alice)
    assert link(alice, box).startswith(f"http://sandboxes.example/preview/{box['id']}/{PORT}/?tendon-ticket=")
    refused = alice.post(at(box, "/editor"))
    assert refused.status == 501 and "preview_domain" in refused.text


def test_tickets_end(alice, box):
    """The clock of the service cannot be moved from here, so this is what a ticket says of itself."""
    text = ticket_of(link(alice, box))
    body = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[32:].decode().split("\n")
    assert 50 < int(body[0]) - time.time() <= 60
    assert body[2:] == [box["id"], f"port:{PORT}"]

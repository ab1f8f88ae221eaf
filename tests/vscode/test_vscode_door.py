"""The door of the editor: who gets in, and what is passed on."""

import hashlib
import http.client
import json
import socket
import threading
from urllib.parse import parse_qs, quote, urlsplit

import pytest

pytestmark = pytest.mark.concurrent


def fields(said, name):
    return [value for key, value in said["headers"] if key == name]


# --- who gets in ------------------------------------------------------------------------------


def test_nothing_is_started_before_the_first_visit(editor):
    editor.wait_token()
    assert editor.request("GET", "/").status == 403
    assert editor.starts() == 0 and editor.status["running"] is False
    visitors = [threading.Thread(target=editor.ask, args=("GET", "/x")) for _ in range(8)]
    editor.enter()
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert editor.starts() == 1
    status = editor.status
    assert status["running"] is True and status["restarts"] == 0 and status["memory"] > 0
    assert status["pids"] == [json.loads(editor.ask("GET", "/x").data)["pid"]]
    assert status["port"] == editor.port


def test_the_token_opens_and_disappears(editor):
    response = editor.enter()
    where = urlsplit(response.headers["Location"])
    assert editor.token not in response.headers["Location"]
    assert parse_qs(where.query) == {"folder": [str(editor.hand.workspace)]}
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and f"Path={where.path};" in cookie
    assert len(where.path) > 30 and editor.token not in where.path
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cache-Control"] == "no-store"
    assert editor.ask("GET", "/").status == 200


def test_the_rest_of_the_query_stays(editor):
    folder = quote("/a b/ü&c", safe="/")
    response = editor.request("GET", f"/?x=1&tkn={editor.wait_token()}&folder={folder}&y=%26")
    assert urlsplit(response.headers["Location"]).query == f"x=1&folder={folder}&y=%26"


def test_behind_https_the_cookie_is_for_https_only(editor):
    target = f"/?tkn={editor.wait_token()}"
    secure = editor.request("GET", target, headers={"X-Forwarded-Proto": "https"})
    assert secure.headers["Set-Cookie"].endswith("; Secure")
    assert "Secure" not in editor.request("GET", target).headers["Set-Cookie"]


def strangers(editor):
    """Requests that must not reach the editor: method, target, headers."""
    token, cookie, base = editor.token, editor.cookie, editor.base
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    name = cookie.split("=")[0]
    return [
        ("GET", "/", {}),
        ("GET", f"/?tkn={wrong}", {}),
        ("GET", f"/?tkn={token}x", {}),
        ("GET", f"/?tkn={token[:-1]}", {}),
        ("GET", "/?tkn=", {}),
        ("GET", f"/?token={token}", {}),
        ("GET", "/", {"X-Session-API-Key": "test-key"}),
        ("GET", "/", {"Authorization": f"Bearer {token}"}),
        ("GET", f"{base}/", {}),
        ("POST", f"{base}/", {}),
        ("DELETE", f"{base}/x", {}),
        ("OPTIONS", f"{base}/x", {}),
        ("GET", f"{base}/", {"Cookie": f"{name}={wrong}"}),
        ("GET", f"{base}/", {"Cookie": f"{name}="}),
        ("GET", f"{base}/", {"Cookie": f"x{name}={token}"}),
        ("GET", f"{base}/", {"Cookie": f"vscode-tkn={token}"}),
        # The cookie alone, as another port of this machine might have got it.
        ("GET", "/", {"Cookie": cookie}),
        ("GET", "/version", {"Cookie": cookie}),
        ("GET", f"{base}x/", {"Cookie": cookie}),
        ("GET", base, {"Cookie": cookie}),
        ("GET", f"/x/..{base}/", {"Cookie": cookie}),
        ("GET", f"http://h{base}/", {"Cookie": cookie}),
    ]


def test_strangers_stay_outside(editor):
    editor.enter()
    for method, target, headers in strangers(editor):
        response = editor.request(method, target, None, headers)
        assert response.status == 403, (method, target, headers, response.status)
        assert b"token" in response.data and "Set-Cookie" not in response.headers


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_pages_from_elsewhere_cannot_use_the_cookie(editor, origin):
    connection = editor.upgrade("/socket", {"Origin": origin})
    assert connection.getresponse().status == 403
    connection.close()
    assert editor.ask("POST", "/x", b"", {"Origin": origin}).status == 403
    assert editor.ask("GET", "/x", None, {"Origin": origin}).status == 200  # unreadable for them


def test_pages_of_the_editor_can(editor):
    own = f"http://127.0.0.1:{editor.port}"
    assert editor.ask("POST", "/x", b"", {"Origin": own}).status == 200
    proxied = {"Origin": "https://vscode.example", "X-Forwarded-Host": "vscode.example"}
    assert editor.ask("POST", "/x", b"", proxied).status == 200


# --- what is passed on ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_a_request_arrives_as_it_was_sent(editor, method):
    body = b"some body" if method in ("POST", "PUT", "PATCH") else None
    response = editor.ask(method, "/a%20b/../c?d=%2F&e", body, {"X-Own": "ä; b", "Range": "bytes=1-"})
    said = json.loads(response.data)
    assert (said["method"], said["target"]) == (method, "/a%20b/../c?d=%2F&e")
    assert said["body"] == hashlib.sha256(body or b"").hexdigest()
    assert fields(said, "host") == [f"127.0.0.1:{editor.port}"]
    assert fields(said, "range") == ["bytes=1-"] and fields(said, "x-own")


def test_the_editor_never_sees_the_token(editor):
    editor.enter()
    jar = {"Cookie": f"a=1; {editor.cookie};b=2"}
    said = json.loads(editor.ask("GET", "/x", None, jar).data)
    assert fields(said, "cookie") == ["a=1; b=2"]
    assert fields(json.loads(editor.ask("GET", "/x").data), "cookie") == []
    assert editor.token not in json.dumps(said)


def test_what_belongs_to_a_connection_is_not_passed_on(editor):
    headers = {"Connection": "x-one, keep-alive", "X-One": "1", "Keep-Alive": "5", "TE": "trailers"}
    said = json.loads(editor.ask("GET", "/x", None, headers).data)
    assert fields(said, "connection") == ["close"]
    assert not any(fields(said, name) for name in ("x-one", "keep-alive", "te"))


def test_every_connection_line_counts(editor):
    editor.enter()
    connection = editor.connection()
    connection.putrequest("GET", editor.base + "/x")
    for name, value in (("Connection", "x-one"), ("Connection", "x-two"), ("Cookie", editor.cookie)):
        connection.putheader(name, value)
    connection.putheader("X-One", "1")
    connection.putheader("X-Two", "2")
    connection.endheaders()
    said = json.loads(connection.getresponse().read())
    connection.close()
    assert fields(said, "connection") == ["close"]
    assert not fields(said, "x-one") and not fields(said, "x-two")


def test_bodies_of_unknown_length(editor):
    pieces = [b"x" * 70000, b"y", b"z" * 300000]
    response = editor.ask("POST", "/x", iter(pieces), {"Transfer-Encoding": "chunked"}, chunked=True)
    assert json.loads(response.data)["body"] == hashlib.sha256(b"".join(pieces)).hexdigest()
    assert editor.ask("GET", "/pieces").data == b"piece0\npiece1\npiece2\n"


def test_large_bodies(editor):
    body = bytes(range(256)) * (1 << 14)
    said = json.loads(editor.ask("POST", "/x", body).data)
    assert said["body"] == hashlib.sha256(body).hexdigest()
    response = editor.ask("GET", "/big")
    assert response.data == b"0123456789abcdef" * (1 << 18)
    assert response.headers["Content-Length"] == str(len(response.data))


def test_answers_without_a_body(editor):
    editor.enter()
    head = editor.ask("HEAD", "/big")
    assert head.status == 200 and head.headers["Content-Length"] == str(16 << 18)
    assert editor.ask("GET", "/empty").status == 204
    same = editor.ask("GET", "/same")
    assert same.status == 304 and same.headers["ETag"] == '"1"'
    connection = editor.connection()  # and none of them spoils the next
    for path, status in (("/empty", 204), ("/same", 304), ("/x", 200), ("/cookies", 200)):
        connection.request("GET", editor.base + path, None, {"Cookie": editor.cookie})
        response = connection.getresponse()
        assert response.status == status
        response.read()
    assert response.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    connection.close()


def test_no_header_of_an_answer_is_lost_silently(editor):
    response = editor.ask("GET", "/heavy")
    assert response.status == 502 and b"too large" in response.data
    assert "X-Heavy" not in response.headers


def test_an_answer_that_breaks_off_is_cut(editor):
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        editor.ask("GET", "/cut")


@pytest.mark.parametrize("wanted", ["websocket", "websocket, other"])
def test_upgrade(editor, wanted):
    own = f"http://127.0.0.1:{editor.port}"
    headers = {"Sec-WebSocket-Key": "a key", "Origin": own, "Upgrade": wanted}
    connection = editor.upgrade("/socket", headers)
    s = connection.sock
    head = b""
    while not head.endswith(b"welcome "):
        piece = s.recv(1)
        assert piece, head
        head += piece
    assert head.startswith(b"HTTP/1.1 101 ") and b"x-proof: a key\r\n" in head.lower()
    assert b"\r\nUpgrade: websocket\r\n" in head
    s.sendall(b"bytes " * 100000)
    s.shutdown(socket.SHUT_WR)
    data = b""
    while piece := s.recv(1 << 16):
        data += piece
    assert data == b"BYTES " * 100000
    connection.close()


# --- nothing is smuggled ------------------------------------------------------------------------


def talk(editor, data):
    """What the door says to these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", editor.port), timeout=20) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while piece := s.recv(1 << 16):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 0\r\n\r\n",
        b"Content-Length: +5\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n",
        b"X: a\nTransfer-Encoding: chunked\r\n\r\n",
        b"X: a\rTransfer-Encoding: chunked\r\n\r\n",
        b"X: a\0b\r\n\r\n",
    ],
)
def test_two_ideas_of_a_length_are_none(editor, framing):
    editor.enter()
    head = f"POST {editor.base}/echo HTTP/1.1\r\nHost: 127.0.0.1:{editor.port}\r\nCookie: {editor.cookie}\r\n".encode()
    answer = talk(editor, head + framing + HIDDEN)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")) and answer.count(b"HTTP/1.1 ") == 1, answer[:500]
    assert b"hidden" not in answer


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_what_follows_a_refused_upgrade_is_asked_for_its_cookie(editor, protocol):
    editor.enter()
    upgrade = (
        f"GET {editor.base}/socket HTTP/1.1\r\nHost: 127.0.0.1:{editor.port}\r\nCookie: {editor.cookie}\r\n"
        f"Connection: Upgrade\r\nUpgrade: {protocol}\r\nOrigin: http://evil.example\r\n\r\n"
    ).encode()
    answer = talk(editor, upgrade + HIDDEN)
    statuses = [line.split()[1] for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert statuses and b"101" not in statuses and b"200" not in statuses[1:], answer[:1000]

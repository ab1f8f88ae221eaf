"""The HTTP server against Python's http.client, raw sockets and curl."""

import http.client
import json
import os
import subprocess
import threading

import pytest

from echo_server import GOOD, WAIT, receive_all, status_of

HOST = b"Host: x\r\n"


# --- ordinary requests ---------------------------------------------------------------------------


def test_get(server):
    status, headers, body = server.get("/alive")
    assert (status, body) == (200, b'{"status":"ok"}')
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Length"] == "15"
    assert headers["Date"].endswith(" GMT")


def test_head_has_the_headers_of_get_and_no_body(server):
    c = server.connection()
    for _ in range(2):
        c.request("HEAD", "/alive")
        r = c.getresponse()
        assert (r.status, r.getheader("Content-Length"), r.read()) == (200, "15", b"")


def test_head_of_a_stream(server):
    c = server.connection()
    for _ in range(2):
        c.request("HEAD", "/stream?n=100000")
        r = c.getresponse()
        assert (r.status, r.read()) == (200, b"")


@pytest.mark.parametrize("size", [0, 1, 5, 2047, 2048, 4096, 65536, 1 << 20])
def test_echo(server, size):
    body = os.urandom(size)
    c = server.connection()
    for method in ("POST", "PUT"):
        c.request(method, "/echo", body, {"Content-Type": "a/b"})
        r = c.getresponse()
        assert (r.status, r.getheader("Content-Type"), r.read() == body) == (200, "a/b", True)


@pytest.mark.parametrize("sizes", [[1], [3, 5, 7], [1000] * 20, [65536, 1, 100000], []])
def test_chunked_echo(server, sizes):
    pieces = [os.urandom(n) for n in sizes]
    c = server.connection()
    for path in ("/echo", "/echo-stream", "/echo"):
        c.request("POST", path, iter(pieces), encode_chunked=True)
        r = c.getresponse()
        assert r.status == 200 and r.read() == b"".join(pieces)


def test_reading_byte_by_byte(server):
    c = server.connection()
    c.request("POST", "/count", b"x" * 10000)
    assert c.getresponse().read() == b"10000"
    c.request("POST", "/count", iter([b"x" * 700] * 10), encode_chunked=True)
    assert c.getresponse().read() == b"7000"


def test_keep_alive_and_pipelining(server):
    one = b"GET /alive HTTP/1.1\r\n" + HOST + b"\r\n"
    post = b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello"
    last = b"GET /alive HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    answer = server.raw(one * 50 + post * 50 + last)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 101
    assert answer.count(b"hello") == 50
    assert answer.count(b"Connection: close") == 1


def test_two_system_calls_per_request(start, tmp_path):
    strace = subprocess.run(["which", "strace"], capture_output=True, text=True).stdout.strip()
    if not strace:
        pytest.skip("no strace")
    server = start()
    c = server.connection()
    c.request("GET", "/alive")
    c.getresponse().read()
    trace = tmp_path / "trace"
    tracer = subprocess.Popen(
        [strace, "-f", "-o", trace, "-p", str(server.process.pid)], stderr=subprocess.PIPE, text=True
    )
    if "attached" not in tracer.stderr.readline():
        tracer.wait()
        pytest.skip("strace may not attach")
    for _ in range(20):
        c.request("GET", "/alive")
        c.getresponse().read()
    tracer.terminate()
    tracer.wait()
    lines = [line.split(None, 1) for line in trace.read_text().splitlines()]
    sleepers = {thread for thread, what in lines if "nanosleep" in what}  # a sanitizer's own: none of ours sleeps
    calls = [what.split("(")[0] for thread, what in lines if thread not in sleepers and "resumed" not in what]
    assert calls.count("sendmsg") == 20
    assert 19 <= calls.count("recvfrom") <= 21
    others = [c for c in calls if c not in ("sendmsg", "recvfrom", "restart_syscall", "poll")]
    assert not [c for c in others if c.isidentifier() and c not in ("rt_sigtimedwait",)], others


@pytest.mark.parametrize(
    "target, field, value",
    [
        ("/describe?a=1&b=2", "query_b", "2"),
        ("/describe?a=1+2%26&b", "query_a", "1 2&"),
        ("/describe?a&b=", "query_b", ""),
        ("/describe?a=x&a=y", "query_a", "y"),
        ("/describe?%61=z", "query_a", "z"),
        ("/describe?&&a=%C3%BC&", "query_a", "ü"),
        ("/describe?x=1", "query_a", None),
        ("/describe", "query_a", None),
        ("/describe?", "query_a", None),
        ("/%64escribe", "path", "/describe"),
        ("/describe/a%2Fb", "name", "a/b"),
        ("/describe/a%20b", "path", "/describe/a b"),
        ("/describe/a%20b?a=1", "target", "/describe/a%20b?a=1"),
        ("/describe/one/x/two", "name", "one"),
        ("/describe/one/x/two", "other", "two"),
        ("/describe/fixed/x/y", "name", "fixed"),
        ("/rest/a/b/c.txt", "rest", "a/b/c.txt"),
        ("/rest/", "rest", ""),
        ("/rest/%2e%2E/x", "rest", "../x"),
        ("http://example.org/describe/abs?a=b", "name", "abs"),
        ("http://example.org/describe/abs?a=b", "path", "/describe/abs"),
        ("/describe", "peer", "127.0.0.1"),
        ("/describe", "method", "GET"),
        ("/describe", "length", 0),
    ],
)
def test_targets(server, target, field, value):
    status, _, body = server.get(target)
    assert status == 200
    assert json.loads(body)[field] == value


def test_literal_beats_parameter(server):
    assert server.get("/describe/fixed")[2] == b'{"status":"ok"}'


def test_headers_are_found_without_case(server):
    assert json.loads(server.get("/describe", headers={"X-TEST": "  v "})[2])["header"] == "v"


@pytest.mark.parametrize(
    "method, path, status, detail, allow",
    [
        ("GET", "/none", 404, "Not Found", None),
        ("GET", "/alive/", 404, "Not Found", None),
        ("GET", "/rest", 404, "Not Found", None),
        ("GET", "/describe//x/y", 404, "Not Found", None),
        ("POST", "/alive", 405, "Method Not Allowed", "GET, HEAD"),
        ("GET", "/echo", 405, "Method Not Allowed", "POST, PUT"),
        ("DELETE", "/upgrade", 405, "Method Not Allowed", "GET, HEAD, POST"),
        ("BREW", "/alive", 501, "Not Implemented", None),
        ("get", "/alive", 501, "Not Implemented", None),
        ("CONNECT", "/alive", 501, "Not Implemented", None),
    ],
)
def test_unknown(server, method, path, status, detail, allow):
    c = server.connection()
    for _ in range(2):  # the connection stays usable
        c.request(method, path)
        r = c.getresponse()
        assert (r.status, r.getheader("Allow")) == (status, allow)
        assert json.loads(r.read()) == {"detail": detail}


def test_options_star(server):
    answer = server.raw(b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert status_of(answer) == 204
    assert b"\r\nAllow: GET, HEAD, POST, PUT" in answer
    assert b"Content-Length" not in answer


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_body(server, status):
    c = server.connection()
    for _ in range(2):
        c.request("GET", f"/status/{status}")
        r = c.getresponse()
        assert (r.status, r.read(), r.getheader("Content-Length")) == (status, b"", None)


@pytest.mark.parametrize("status", [0, 100, 101, 199, 1000, -5])
def test_impossible_status(server, status):
    assert server.get(f"/status/{status}")[::2] == (500, b"body")


def test_gate(server):
    c = server.connection()
    for path, status in (("/describe", 403), ("/unknown", 403), ("/alive", 200)):
        c.request("GET", path, headers={"X-Refuse": "1"})
        r = c.getresponse()
        assert r.status == status
        r.read()


def test_handler_that_does_not_answer(server):
    c = server.connection()
    for _ in range(2):
        c.request("GET", "/nothing")
        r = c.getresponse()
        assert r.status == 500
        assert json.loads(r.read())["detail"].startswith("An unexpected error")


@pytest.mark.parametrize("value", ["a%0d%0aX-Evil: 1", "a%0aX-Evil: 1", "a%7f", "a%01", "X Y", "a%0d"])
def test_header_injection(server, value):
    _, headers, body = server.get("/headers?value=" + value.replace(" ", "%20"))
    assert headers["X-Evil"] is None and headers["X-Good"] == "fine" and body == b"ok"
    assert headers["Content-Length"] == "2"


def test_close_asked_by_handler(server):
    answer = server.raw(b"GET /headers?close HTTP/1.1\r\n" + HOST + b"\r\n")
    assert b"\r\nConnection: close\r\n" in answer


def test_log(start):
    server = start("127.0.0.1:0", "log=1")
    server.get("/alive", headers={"X-Test": "v"})
    server.raw(b"GET / HTTP/1.1\r\nX-Test: not to be trusted\r\nnonsense\r\n\r\n")
    server.get("/none?x")
    out, err = server.stop()
    assert sorted(err.splitlines()) == ["  400 -", "GET /alive 200 v", "GET /none?x 404 -"]
    server.stop = lambda: (out, "")


# --- HTTP/1.0 ------------------------------------------------------------------------------------


def test_http_1_0(server):
    answer = server.raw(b"GET /alive HTTP/1.0\r\n\r\n")
    assert answer.endswith(b'{"status":"ok"}') and b"\r\nConnection: close\r\n" in answer


def test_http_1_0_keep_alive(server):
    one = b"GET /alive HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    answer = server.raw(one + one + b"GET /alive HTTP/1.0\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200") == 3
    assert answer.count(b"Connection: keep-alive") == 2


def test_http_1_0_stream_ends_with_the_connection(server):
    answer = server.raw(b"GET /stream?n=100000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    head, body = answer.split(b"\r\n\r\n", 1)
    assert b"Transfer-Encoding" not in head and b"Connection: close" in head
    assert body == bytes(100000)


def test_http_1_0_broken_stream_is_reset(server):
    assert server.raw(b"GET /stream?n=100000&broken HTTP/1.0\r\n\r\n").endswith(b"<reset>")


# --- streams and files ---------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["", "&length"])
def test_stream(server, options):
    c = server.connection()
    for n in (0, 1, 70000, 5000000):
        c.request("GET", f"/stream?n={n}{options}")
        r = c.getresponse()
        assert r.status == 200 and r.read() == bytes(n)


@pytest.mark.parametrize("options", ["broken", "broken&length", "length&short", "length&long", "noend"])
def test_cut_stream_is_noticed(server, options):
    c = server.connection()
    c.request("GET", f"/stream?n=200000&{options}")
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        c.getresponse().read()
        c.request("GET", "/alive")  # too long: the surplus must not be sent
        assert c.getresponse().read() == b'{"status":"ok"}'
        raise ConnectionResetError


def test_too_long_stream_is_cut_at_its_length(server):
    answer = server.raw(b"GET /stream?n=10&length&long HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"\r\n\r\n\0" not in answer


@pytest.mark.parametrize("options", ["", "&chunked"])
def test_file(server, tmp_path, options):
    data = os.urandom(3000000)
    path = tmp_path / "file"
    path.write_bytes(data)
    c = server.connection()
    for n in (len(data), 0, 1):
        c.request("GET", f"/file?path={path}&n={n}{options}")
        r = c.getresponse()
        assert r.status == 200 and r.read() == data[:n]
    c.request("GET", f"/file?path={path}&n={len(data) + 1}{options}")
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        c.getresponse().read()


def test_file_without_sendfile(server):
    """/proc files cannot be spliced; the copy must do."""
    want = open("/proc/version", "rb").read()
    assert server.get(f"/file?path=/proc/version&n={len(want)}")[2] == want


def test_echo_while_sending(server):
    body = os.urandom(4 << 20)
    with server.socket() as s:
        s.sendall(b"POST /echo-stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        sender = threading.Thread(target=s.sendall, args=(body,))
        sender.start()
        answer = receive_all(s)
        sender.join()
    assert answer.split(b"\r\n\r\n", 1)[1] == body


# --- expectations, early answers -----------------------------------------------------------------


def test_expect_continue(server):
    with server.socket() as s:
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"hi")
        assert s.recv(1000).endswith(b"\r\n\r\nhi")
        s.sendall(GOOD)
        assert status_of(receive_all(s)) == 200


def test_expect_continue_is_not_sent_when_nobody_reads(server):
    answer = server.raw(b"POST /none HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", shut=True)
    assert status_of(answer) == 404 and b"Connection: close" in answer


def test_expect_continue_with_the_body_at_once(server):
    answer = server.raw(
        b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"
    )
    assert status_of(answer) == 200


@pytest.mark.parametrize("path, status", [("/none", 404), ("/echo", 413)])
def test_early_answer_is_seen_by_a_client_that_sends_on(server, path, status):
    body = bytes(9 << 20)
    with server.socket() as s:
        s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)))
        s.sendall(body)
        answer = receive_all(s)
    assert status_of(answer) == status and b"<reset>" not in answer


def test_body_limit(start):
    server = start("127.0.0.1:0", "max-body=1000")
    assert server.get("/echo", "POST", b"x" * 1000)[0] == 200
    assert server.get("/echo", "POST", b"x" * 1001)[0] == 413
    c = server.connection()
    c.request("POST", "/echo", iter([b"x" * 600] * 2), encode_chunked=True)
    assert c.getresponse().status == 413


# --- addresses -----------------------------------------------------------------------------------


def test_unix_socket(start, tmp_path):
    path = tmp_path / "socket"
    server = start(f"unix:{path}")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert json.loads(server.get("/describe")[2])["peer"] == "unix"


def test_unix_socket_in_use_and_stale(start, tmp_path):
    path = tmp_path / "socket"
    server = start(f"unix:{path}")
    with pytest.raises(AssertionError, match="in use"):
        start(f"unix:{path}")
    server.process.kill()
    server.process.wait()
    server.stop = lambda: ("stopped 0\n", "")
    server.process.returncode = 0
    assert start(f"unix:{path}").get("/alive")[0] == 200


def test_file_in_the_way_is_not_removed(start, tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(AssertionError, match="not a socket"):
        start(f"unix:{path}")
    assert path.read_text() == "data"


# --- curl ----------------------------------------------------------------------------------------


def curl(*args):
    return subprocess.run(["curl", "-sS", "--max-time", str(WAIT), *args], capture_output=True, check=True)


def test_curl_expect(server, tmp_path):
    data = os.urandom(2 << 20)
    (tmp_path / "f").write_bytes(data)
    r = curl("-v", "-H", "Expect: 100-continue", "--data-binary", f"@{tmp_path}/f", f"{server.url}/echo")
    assert r.stdout == data and b"100 Continue" in r.stderr


def test_curl_chunked_upload(server, tmp_path):
    data = os.urandom(3 << 20)
    (tmp_path / "f").write_bytes(data)
    r = curl("-H", "Transfer-Encoding: chunked", "-T", f"{tmp_path}/f", f"{server.url}/echo")
    assert r.stdout == data


def test_curl_http_1_0(server):
    r = curl("--http1.0", f"{server.url}/stream?n=300000")
    assert r.stdout == bytes(300000)


def test_curl_keeps_the_connection(server):
    r = curl("-v", f"{server.url}/alive", f"{server.url}/describe", f"{server.url}/stream?n=5")
    assert r.stderr.count(b"Connected to") == 1


def test_curl_form(server, tmp_path):
    data = os.urandom(1 << 20)
    (tmp_path / "my file.bin").write_bytes(data)
    r = curl("-F", "field=value", "-F", f"file=@{tmp_path}/my file.bin;type=a/b", f"{server.url}/form")
    field, file = json.loads(r.stdout)
    assert (field["name"], field["filename"], field["size"]) == ("field", None, 5)
    assert (file["filename"], file["type"], file["size"]) == ("my file.bin", "a/b", len(data))


# --- our own client ------------------------------------------------------------------------------


def test_own_client(server):
    address = f"127.0.0.1:{server.port}"
    assert server.get(f"/proxy?address={address}&target=/alive")[2] == b'{"status":"ok"}'
    assert server.get(f"/proxy?address={address}&target=/none")[0] == 404
    assert server.get(f"/proxy?address={address}&target=/stream?n=100000")[2] == bytes(100000)
    assert server.get(f"/proxy?address={address}&target=/stream?n=100000%26length")[2] == bytes(100000)
    assert server.get(f"/proxy?address={address}&target=/stream?n=100000%26length%26short")[0] == 502
    assert server.get(f"/proxy?address={address}&target=/stream?n=9000000")[0] == 413
    assert server.get(f"/proxy?address={address}&target=/alive&method=HEAD")[:1] == (200,)
    assert server.get("/proxy?address=127.0.0.1:1&target=/alive")[0] == 502
    assert server.get(f"/proxy?address={address}&target=/a%20b")[0] == 400
    assert server.get(f"/proxy?address={address}&target=/a%0d%0ab")[0] == 400

"""Malformed everything: a clear error each, and the server alive after all of it."""

import json
import os
import random

import pytest

from harness import wait_until


@pytest.fixture(autouse=True)
def alive_afterwards(shared_hand):
    yield
    assert shared_hand.process.poll() is None, shared_hand.stderr
    assert shared_hand.client.get("/alive").status == 200


def head(line=b"GET /alive HTTP/1.1", *headers):
    return b"\r\n".join([line, b"Host: x", *headers, b"", b""])


# --- HTTP ---------------------------------------------------------------------------------------


BAD_HTTP = {
    "garbage": (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 50 + b"\r\n\r\n",
        {400},
    ),
    "empty lines only": (b"\r\n" * 100 + b"\r\n\r\nX\r\n\r\n", {400}),
    "no version": (b"GET /alive\r\n\r\n", {400, 505}),
    "unknown version": (head(b"GET /alive HTTP/3.0"), {400, 505}),
    "version 2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 405, 505}),
    "bad version": (head(b"GET /alive HTTP/x.y"), {400, 505}),
    "lower-case http": (head(b"GET /alive http/1.1"), {400, 505}),
    "three spaces": (head(b"GET   /alive   HTTP/1.1"), {400}),
    "no path": (head(b"GET  HTTP/1.1"), {400}),
    "path without slash": (head(b"GET alive HTTP/1.1"), {400, 404}),
    "control byte in path": (head(b"GET /al\x01ive HTTP/1.1"), {400}),
    "NUL in path": (head(b"GET /al\0ive HTTP/1.1"), {400}),
    "encoded NUL": (head(b"GET /alive%00x HTTP/1.1"), {400, 404}),
    "bad percent": (head(b"GET /alive%zz HTTP/1.1"), {400, 404}),
    "dot dot": (head(b"GET /../../etc/passwd HTTP/1.1"), {400, 404}),
    "unknown method": (head(b"FROB /alive HTTP/1.1"), {400, 405, 501}),
    "method with junk": (head(b"G\x80T /alive HTTP/1.1"), {400, 405, 501}),
    "header without colon": (head(b"GET /alive HTTP/1.1", b"nonsense"), {400}),
    "header with space before colon": (head(b"GET /alive HTTP/1.1", b"Foo : bar"), {400}),
    "folded header": (head(b"GET /alive HTTP/1.1", b"Foo: a\r\n b"), {400}),
    "NUL in header": (head(b"GET /alive HTTP/1.1", b"Foo: a\0b"), {400}),
    "bare CR in header": (head(b"GET /alive HTTP/1.1", b"Foo: a\rb"), {400}),
    "empty header name": (head(b"GET /alive HTTP/1.1", b": x"), {400}),
    "huge header": (head(b"GET /alive HTTP/1.1", b"X: " + b"y" * 200_000), {431}),
    "many headers": (head(b"GET /alive HTTP/1.1", *[b"X-%d: y" % n for n in range(20_000)]), {431}),
    "huge target": (head(b"GET /" + b"a" * 100_000 + b" HTTP/1.1"), {414}),
    "negative length": (head(b"POST /list_files HTTP/1.1", b"Content-Length: -1"), {400}),
    "length with junk": (
        head(b"POST /list_files HTTP/1.1", b"Content-Length: 5x") + b"hello",
        {400},
    ),
    "length with plus": (
        head(b"POST /list_files HTTP/1.1", b"Content-Length: +5") + b"hello",
        {400},
    ),
    "two lengths": (
        head(b"POST /list_files HTTP/1.1", b"Content-Length: 2", b"Content-Length: 5") + b"{}xxx",
        {400},
    ),
    "length and chunked": (
        head(b"POST /list_files HTTP/1.1", b"Content-Length: 2", b"Transfer-Encoding: chunked")
        + b"2\r\n{}\r\n0\r\n\r\n",
        {400},
    ),
    "overflowing length": (
        head(b"POST /list_files HTTP/1.1", b"Content-Length: 99999999999999999999"),
        {400, 413},
    ),
    "enormous length": (
        head(b"POST /list_files HTTP/1.1", b"Content-Length: 9000000000000000"),
        {413},
    ),
    "unknown transfer coding": (
        head(b"POST /list_files HTTP/1.1", b"Transfer-Encoding: gzip") + b"{}",
        {400, 501},
    ),
    "chunked not last": (
        head(b"POST /list_files HTTP/1.1", b"Transfer-Encoding: chunked, gzip") + b"0\r\n\r\n",
        {400, 501},
    ),
    "bad chunk size": (
        head(b"POST /list_files HTTP/1.1", b"Transfer-Encoding: chunked")
        + b"zz\r\n{}\r\n0\r\n\r\n",
        {400},
    ),
    "huge chunk size": (
        head(b"POST /list_files HTTP/1.1", b"Transfer-Encoding: chunked") + b"f" * 17 + b"\r\n{}",
        {400, 413},
    ),
    "chunk without end": (
        head(b"POST /list_files HTTP/1.1", b"Transfer-Encoding: chunked") + b"2\r\n{}XX0\r\n\r\n",
        {400},
    ),
    "endless chunk extension": (
        head(b"POST /list_files HTTP/1.1", b"Transfer-Encoding: chunked")
        + b"2;"
        + b"x" * 100_000
        + b"\r\n{}\r\n0\r\n\r\n",
        {400, 413, 431},
    ),
}


@pytest.mark.parametrize("name", BAD_HTTP)
def test_bad_http(shared, name):
    data, statuses = BAD_HTTP[name]
    reply = shared.raw(data, half_close=True)
    assert reply is not None, "closed without a word"
    assert reply.status in statuses, reply
    assert isinstance(reply.json["detail"], str) and reply.json["detail"]


def test_missing_host_is_no_crash(shared):
    reply = shared.raw(b"GET /alive HTTP/1.1\r\n\r\n")
    assert reply.status in (200, 400)


def test_body_larger_than_an_action_may_be(shared):
    """The announcement alone is enough to refuse it."""
    reply = shared.raw(
        head(
            b"POST /execute_action HTTP/1.1",
            b"Content-Length: 4000000000",
            b"Content-Type: application/json",
        )
    )
    assert reply.status == 413 and reply.detail


def test_random_bytes(shared):
    rng = random.Random(7)
    for _ in range(100):
        data = rng.randbytes(rng.randrange(1, 400))
        reply = shared.raw(data, half_close=True, timeout=5)
        assert reply is None or reply.status >= 400


def test_mutated_requests(shared):
    rng = random.Random(11)
    body = b'{"action":{"action":"read","args":{"path":"/nonexistent"},"timeout":1.0}}'
    good = (
        b"POST /execute_action HTTP/1.1\r\nHost: x\r\nContent-Type: "
        b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    for _ in range(200):
        data = bytearray(good + body)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        reply = shared.raw(bytes(data), half_close=True, timeout=10)
        assert reply is None or 200 <= reply.status < 600


# --- JSON ---------------------------------------------------------------------------------------


BAD_JSON = {
    "empty": b"",
    "space": b"   ",
    "word": b"nonsense",
    "open": b'{"action":',
    "trailing comma": b'{"action":{},}',
    "single quotes": b"{'action':{}}",
    "two values": b'{"action":{}}{"action":{}}',
    "comment": b'{"action":/* x */{}}',
    "invalid utf-8": b'{"action":{"action":"run","args":{"command":"\xff\xfe"}}}',
    "overlong utf-8": b'{"action":{"action":"run","args":{"command":"\xc0\xaf"}}}',
    "surrogate bytes": b'{"action":{"action":"run","args":{"command":"\xed\xa0\x80"}}}',
    "control byte in string": b'{"action":{"action":"run","args":{"command":"a\x01b"}}}',
    "NaN": b'{"action":{"action":"run","args":{"command":"x"},"timeout":NaN}}',
    "deep arrays": b'{"action":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"action":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    "BOM": b'\xef\xbb\xbf{"action":{}}',
    "UTF-16": '{"action":{}}'.encode("utf-16"),
    "NUL": b'{"action":{}}\0',
    "bad escape": b'{"action":{"action":"\\x"}}',
    "half escape": b'{"action":{"action":"\\u12"}}',
}


@pytest.mark.parametrize("name", BAD_JSON)
@pytest.mark.parametrize("path", ["/execute_action", "/update_mcp_server", "/list_files"])
def test_bad_json(shared, path, name):
    reply = shared.request("POST", path, BAD_JSON[name], {"Content-Type": "application/json"})
    if path == "/list_files" and reply.status == 200:
        assert isinstance(reply.json, list)  # an object without a path is fine there
    else:
        assert reply.status in (400, 422, 500), reply
        assert isinstance(reply.json["detail"], str) and reply.json["detail"]


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00\\ud800", "a\\u0000b"])
def test_odd_escapes_in_strings(shared, text):
    """Lone surrogates and NUL arrive through escapes: an error or a sane result, never a crash."""
    body = '{"action":{"action":"run","args":{"command":"echo %s"},"timeout":5.0}}' % text
    reply = shared.request(
        "POST", "/execute_action", body.encode(), {"Content-Type": "application/json"}
    )
    assert reply.status in (200, 400, 422, 500)
    reply.body.decode("utf-8")
    assert "detail" in reply.json or "content" in reply.json
    assert shared.ok("echo fine") == "fine"


def test_duplicate_and_many_keys(shared):
    many = {f"k{n}": n for n in range(5000)}
    reply = shared.post(
        "/execute_action",
        {"action": {"action": "run", "args": {"command": "echo x", **many}, "timeout": 5.0}},
    )
    assert reply.status == 200 and reply.json["content"] == "x"
    body = (
        b'{"action":{"action":"think","action":"run",'
        b'"args":{"command":"echo a","command":"echo b"},"timeout":5.0}}'
    )
    assert shared.request(
        "POST", "/execute_action", body, {"Content-Type": "application/json"}
    ).status in (200, 400, 422, 500)


WRONG = [None, True, 7, -1, 1.5, 1e300, "x", "", [], [1], {}, {"a": 1}]


@pytest.mark.parametrize(
    "kind, good",
    [
        (
            "run",
            {
                "command": "true",
                "is_input": False,
                "blocking": False,
                "hidden": False,
                "is_static": False,
                "cwd": None,
                "thought": "",
                "security_risk": 0,
                "session": "s",
            },
        ),
        (
            "read",
            {
                "path": "/nonexistent",
                "start": 0,
                "end": -1,
                "impl_source": "default",
                "view_range": None,
            },
        ),
        ("write", {"path": "/proc/nowhere/x", "content": "", "start": 0, "end": -1}),
        (
            "edit",
            {
                "path": "/nonexistent",
                "command": "view",
                "file_text": None,
                "old_str": None,
                "new_str": None,
                "insert_line": None,
                "view_range": None,
            },
        ),
    ],
)
def test_wrong_types(hand, kind, good):
    """Every argument of every action with every kind of value."""
    for name in good:
        for value in WRONG:
            action = {"action": kind, "args": {**good, name: value}, "timeout": 3.0}
            reply = hand.client.post_action(action)
            assert reply.status in (200, 422, 500), (name, value, reply)
            assert ("observation" if reply.status == 200 else "detail") in reply.json, (
                name,
                value,
                reply,
            )
    assert hand.client.ok("echo fine") == "fine"


@pytest.mark.parametrize(
    "kind",
    ["", "RUN", "run ", "__init__", "../run", "a" * 10000, "run\0", "ü", "start", "pause", "push"],
)
def test_unknown_actions(shared, kind):
    reply = shared.post_action({"action": kind, "args": {"command": "echo x"}}, timeout=10)
    assert reply.status == 500
    assert reply.detail.startswith("Internal server error: ")


# --- multipart ----------------------------------------------------------------------------------


def part(name="file", filename="f.txt", data=b"x", extra=b""):
    return b'--B\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n%s\r\n%s\r\n' % (
        name.encode(),
        filename.encode(),
        extra,
        data,
    )


BAD_MULTIPART = {
    "no boundary parameter": ("multipart/form-data", part() + b"--B--\r\n"),
    "empty boundary": ("multipart/form-data; boundary=", part() + b"--B--\r\n"),
    "long boundary": ("multipart/form-data; boundary=" + "B" * 5000, part() + b"--B--\r\n"),
    "boundary not found": ("multipart/form-data; boundary=OTHER", part() + b"--B--\r\n"),
    "no end": ("multipart/form-data; boundary=B", part()[:-2]),
    "empty body": ("multipart/form-data; boundary=B", b""),
    "only end": ("multipart/form-data; boundary=B", b"--B--\r\n"),
    "no disposition": (
        "multipart/form-data; boundary=B",
        b"--B\r\nContent-Type: text/plain\r\n\r\nx\r\n--B--\r\n",
    ),
    "headers without end": (
        "multipart/form-data; boundary=B",
        b'--B\r\nContent-Disposition: form-data; name="file"',
    ),
    "huge part header": (
        "multipart/form-data; boundary=B",
        part(extra=b"X: " + b"y" * 300_000 + b"\r\n") + b"--B--\r\n",
    ),
    "many part headers": (
        "multipart/form-data; boundary=B",
        part(extra=b"X: y\r\n" * 50_000) + b"--B--\r\n",
    ),
    "binary headers": (
        "multipart/form-data; boundary=B",
        b"--B\r\n" + bytes(range(256)) + b"\r\n\r\nx\r\n--B--\r\n",
    ),
    "NUL in name": ("multipart/form-data; boundary=B", part(filename="a\0b") + b"--B--\r\n"),
    "invalid utf-8 name": (
        "multipart/form-data; boundary=B",
        b'--B\r\nContent-Disposition: form-data; name="file"; filename="a\xff\xfe"\r\n\r\n'
        b"x\r\n--B--\r\n",
    ),
    "unclosed quote": (
        "multipart/form-data; boundary=B",
        b'--B\r\nContent-Disposition: form-data; name="file"; filename="a\r\n\r\nx\r\n--B--\r\n',
    ),
    "no file name": (
        "multipart/form-data; boundary=B",
        b'--B\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--B--\r\n',
    ),
    "json instead": ("application/json", b"{}"),
    "no content type": (None, part() + b"--B--\r\n"),
}


@pytest.mark.parametrize("name", BAD_MULTIPART)
def test_bad_multipart(shared, ws, name):
    kind, body = BAD_MULTIPART[name]
    headers = {"Content-Type": kind} if kind else {}
    reply = shared.request("POST", f"/upload_file?destination={ws}", body, headers)
    if name == "invalid utf-8 name" and reply.status == 200:
        assert len(os.listdir(ws)) == 1  # stored under a name that can be said in JSON
        return
    assert 400 <= reply.status <= 500, reply
    assert isinstance(reply.json["detail"], str) and reply.json["detail"]
    assert os.listdir(ws) == []


def test_two_files_in_one_upload(shared, ws):
    body = part(filename="one.txt") + part(filename="two.txt") + b"--B--\r\n"
    reply = shared.request(
        "POST",
        f"/upload_file?destination={ws}",
        body,
        {"Content-Type": "multipart/form-data; boundary=B"},
    )
    assert reply.status in (200, 400, 422, 500)
    assert set(os.listdir(ws)) <= {"one.txt", "two.txt"}


def test_thousands_of_parts(shared, ws):
    body = part(name="other", data=b"y") * 5000 + part() + b"--B--\r\n"
    reply = shared.request(
        "POST",
        f"/upload_file?destination={ws}",
        body,
        {"Content-Type": "multipart/form-data; boundary=B"},
    )
    assert reply.status in (200, 400, 413, 422, 500)


def test_preamble_and_epilogue_are_ignored(shared, ws):
    body = b"preamble\r\n" + part(data=b"inside") + b"--B--\r\nepilogue"
    reply = shared.request(
        "POST",
        f"/upload_file?destination={ws}",
        body,
        {"Content-Type": "multipart/form-data; boundary=B"},
    )
    assert reply.status == 200 and (ws / "f.txt").read_bytes() == b"inside"


@pytest.mark.parametrize(
    "query",
    [
        "destination=%00",
        "destination={ws}/%ff%fe",
        "destination={ws}" + "/a" * 3000,
        "destination=",
        "destination=/dev/null",
        "destination=/proc/self/x",
        "recursive=1",
        "&&&=&==",
        "destination",
    ],
)
def test_odd_upload_queries(shared, ws, query):
    body = part(filename="tendon-odd-query-test.zip", data=b"not a zip") + b"--B--\r\n"
    query = query.replace("{ws}", str(ws))
    kind = {"Content-Type": "multipart/form-data; boundary=B"}
    reply = shared.request("POST", f"/upload_file?{query}", body, kind)
    assert reply.status >= 400 and reply.detail
    assert not os.path.exists("/tendon-odd-query-test.zip")


@pytest.mark.parametrize(
    "query",
    [
        "path=%00",
        "path=/%ff",
        "path=" + "/a" * 4000,
        "path=",
        "path=/proc/self/mem",
        "path=/dev/zero",
        "path",
        "path=/tmp/../../../nonexistent",
    ],
)
def test_odd_download_queries(shared, query):
    reply = shared.get(f"/download_files?{query}")
    if reply.status == 200:
        assert reply.body.startswith(b"PK"), "an empty archive for something that is no directory"
    else:
        assert reply.detail


# --- all of it while working --------------------------------------------------------------------


def test_no_descriptor_is_lost_to_bad_clients(hand):
    client = hand.client
    client.ok(":")
    for data, _ in BAD_HTTP.values():
        client.raw(data, half_close=True)
    before = hand.descriptors()
    for _ in range(3):
        for data, _ in BAD_HTTP.values():
            client.raw(data, half_close=True)
        for body in BAD_JSON.values():
            client.request("POST", "/execute_action", body)
    wait_until(lambda: hand.descriptors() <= before, 10, "descriptors flat")
    assert client.ok("echo fine") == "fine"
    assert json.loads(client.get("/alive").body) == {"status": "ok"}

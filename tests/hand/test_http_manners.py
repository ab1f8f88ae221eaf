"""How the hand speaks HTTP: connections that are kept, unfinished, too many, or of a page from elsewhere."""

from harness import memory_limit, wait_until


def test_keep_alive(shared):
    connection = shared.connection()
    connection.connect()
    sock = connection.sock
    for _ in range(50):
        connection.request("GET", "/alive")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        assert connection.sock is sock, "the connection was not kept"
    connection.close()


def test_keep_alive_after_errors(shared):
    connection = shared.connection()
    connection.connect()
    sock = connection.sock
    for method, path, body in (
        ("GET", "/nothing", None),
        ("POST", "/execute_action", b"{"),
        ("POST", "/alive", b"x" * 1000),
        ("POST", "/list_files", b"[]"),
        ("GET", "/alive", None),
    ):
        connection.request(method, path, body)
        connection.getresponse().read()
    assert connection.sock is sock
    connection.close()


def test_pipelined_requests(shared):
    with shared.socket() as s:
        s.sendall(b"GET /alive HTTP/1.1\r\nHost: x\r\n\r\n" * 5)
        got = b""
        while got.count(b'{"status":"ok"}') < 5:
            piece = s.recv(65536)
            assert piece, got
            got += piece


def test_http_1_0_and_close(shared):
    with shared.socket() as s:
        s.sendall(b"GET /alive HTTP/1.0\r\n\r\n")
        got = b""
        while piece := s.recv(65536):
            got += piece
        assert got.endswith(b'{"status":"ok"}')


def test_chunked_request(shared):
    body = b'{"action":{"action":"run","args":{"command":"echo chunked"},"timeout":5.0}}'
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7)
    )
    reply = shared.raw(
        b"POST /execute_action HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: application/json\r\n\r\n" + chunks + b"0\r\n\r\n"
    )
    assert reply.status == 200 and reply.json["content"] == "chunked"


def test_expect_continue(shared):
    body = b'{"path": "/nonexistent"}'
    with shared.socket() as s:
        s.sendall(
            b"POST /list_files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: "
            b"application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        assert s.recv(1000).startswith(b"HTTP/1.1 100 ")
        s.sendall(body)
        assert s.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_content_type_does_not_matter(shared):
    """Hosts differ in what they call JSON."""
    body = b'{"action":{"action":"run","args":{"command":"echo x"},"timeout":5.0}}'
    for kind in ("application/json", "application/json; charset=utf-8"):
        reply = shared.request("POST", "/execute_action", body, {"Content-Type": kind})
        assert reply.status == 200 and reply.json["content"] == "x"


def test_many_connections_at_once(shared):
    sockets = [shared.socket() for _ in range(100)]
    try:
        for s in sockets:
            s.sendall(b"GET /alive HTTP/1.1\r\nHost: x\r\n\r\n")
        for s in sockets:
            assert b"200" in s.recv(1000)
    finally:
        for s in sockets:
            s.close()


def test_descriptors_and_memory_stay_flat(hand):
    client = hand.client

    def work(rounds):
        for n in range(rounds):
            client.ok("echo something")
            client.write("f.txt", "x" * 1000)
            client.read("f.txt")
            client.edit("view", hand.workspace / "f.txt")
            client.list_files()
            client.run("true", is_static=True)
            client.upload("u", b"y" * 1000, hand.workspace)
            client.download(hand.workspace)
            client.get("/nothing")

    work(10)
    descriptors = hand.descriptors()
    memory = hand.status("VmRSS")
    threads = hand.status("Threads")
    work(40)
    wait_until(lambda: hand.descriptors() <= descriptors, 10, "descriptors flat")
    wait_until(lambda: hand.status("Threads") <= threads, 10, "threads flat")
    assert hand.status("VmRSS") - memory < memory_limit(4096)


def test_pages_from_elsewhere_need_a_key(start):
    """Without a key a web page in a local browser must not reach the hand; other programs send no Origin."""
    hand = start()
    host = {"Host": "127.0.0.1:8000"}
    for origin, status in (
        ("http://evil.example", 403),
        ("null", 403),
        ("http://127.0.0.1:8000", 200),
    ):
        reply = hand.client.request("GET", "/v1/sessions", headers={**host, "Origin": origin})
        assert reply.status == status, (origin, reply)
    assert hand.client.request("GET", "/v1/sessions").status == 200


def test_pages_from_elsewhere_get_no_websocket(start):
    """An upgrade is a request like any other to the gate."""
    hand = start()
    upgrade = {
        "Host": "127.0.0.1:8000",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    for path in ("/v1/sessions/default/terminal", "/v1/tunnel?port=1", "/v1/files/watch?path=/"):
        for origin in ("http://evil.example", "null", "http://127.0.0.1:8001", "http://127.0.0.1:8000.evil.example"):
            reply = hand.client.request("GET", path, headers={**upgrade, "Origin": origin})
            assert reply.status == 403, (path, origin, reply)


def test_connections_without_the_key_keep_nobody_out(start):
    """A process inside can connect as often as it likes: who has the key gets in, and stays."""
    hand = start(env={"SESSION_API_KEY": "the-key"})
    key = {"X-Session-API-Key": "the-key"}
    assert hand.client.get("/v1/sessions", headers=key).status == 200
    idle = []
    for i in range(400):
        idle.append(hand.client.socket())
        if i % 2:
            idle[-1].sendall(b"GET /alive HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    for _ in range(20):
        assert hand.client.get("/v1/sessions", headers=key).status == 200
    for s in idle:
        s.close()

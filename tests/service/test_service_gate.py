"""Who gets in: keys, scopes, rates, names of the service, pages of others; and what is said of it afterwards."""

import json
import re
import socket
import sqlite3
import threading

import pytest

from services import Service, eventually

ANY = "/v1/nothing-here"  # needs a key; with one it is 404


@pytest.fixture(scope="module")
def open_one(tmp_path_factory):
    """A service that was told of further names and pages, and logs everything."""
    service = Service(
        tmp_path_factory.mktemp("gate"),
        runtime="local",
        settings={
            "hosts": "tendon.example,other.example",
            "origins": "https://app.example,http://localhost:3000",
            "url": "https://tendon.public.example/",
            "tendon.log_level": "debug",
        },
    ).start()
    yield service
    service.finish()


def problem(answer):
    assert answer.headers["Content-Type"] == "application/problem+json"
    value = answer.json
    assert value["status"] == answer.status and value["request_id"] == answer.headers["X-Request-Id"]
    assert {"type", "title", "detail"} <= set(value)
    return value


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["X-API-Key", "Authorization"])
def test_a_key_opens(open_one, how):
    value = open_one.admin if how == "X-API-Key" else f"Bearer {open_one.admin}"
    assert open_one.stranger().get(ANY, headers={how: value}).status == 404


def test_wrong_keys_are_refused_in_the_same_words(open_one):
    good = open_one.admin
    unknown = "tnk_" + "a" * 12 + "_" + "A" * 43
    wrong = {
        "another secret": good[:-1] + ("A" if good[-1] != "A" else "B"),
        "unknown": unknown,
        "no key at all": "hello",
        "too long": good + "A",
        "lower case": good.lower(),
        "quotes": "tnk_' OR 1=1 --_x",
    }
    said = set()
    for what, key in wrong.items():
        for headers in ({"X-API-Key": key}, {"Authorization": f"Bearer {key}"}):
            answer = open_one.stranger().get(ANY, headers=headers)
            assert answer.status == 401, what
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            said.add(problem(answer)["detail"])
    assert len(said) == 1, said


@pytest.mark.parametrize(
    "headers", [{}, {"X-API-Key": ""}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer"}]
)
def test_without_a_key(open_one, headers):
    assert open_one.stranger().get(ANY, headers=headers).status == 401


def test_never_in_a_query(open_one):
    for name in ("key", "api_key", "X-API-Key", "access_token", "token"):
        assert open_one.stranger().get(f"{ANY}?{name}={open_one.admin}").status == 401


def test_revoked_by_another_process(open_one):
    key = open_one.make_key("short-lived")
    client = open_one.client(key["key"])
    assert client.get(ANY).status == 404
    assert open_one.tendon("key", "revoke", "short-lived").returncode == 0
    assert client.get(ANY).status == 401
    listed = json.loads(open_one.tendon("--json", "key", "ls", "--all").stdout)
    assert [row["revoked"] for row in listed if row["id"] == key["id"]] == [True]
    again = open_one.tendon("key", "revoke", "short-lived")
    assert again.returncode == 66 and "short-lived" in again.stderr


def test_expired(open_one):
    key = open_one.make_key("expires", "--expires", "12h")
    assert key["expires"] - key["created"] == pytest.approx(12 * 3600, abs=2)
    client = open_one.client(key["key"])
    assert client.get(ANY).status == 404
    db = sqlite3.connect(open_one.state / "tendon.db", timeout=20)
    with db:
        db.execute("UPDATE api_key SET expires = 1000 WHERE id = ?", (key["id"],))
    db.close()
    assert client.get(ANY).status == 401


def test_only_a_digest_is_kept(open_one):
    key = open_one.make_key("digest")["key"]
    secret = key.rpartition("_")[2] if "_" not in key[17:] else key[17:]
    kept = b"".join(path.read_bytes() for path in open_one.state.glob("tendon.db*"))
    assert key[4:16].encode() in kept and secret.encode() not in kept


@pytest.mark.parametrize(
    "words, said",
    [
        (["create"], "which key?"),
        (["create", "a b"], "letters, digits"),
        (["create", "x", "--scope", "everything"], "read, use, manage, admin, metrics"),
        (["create", "x", "--expires", "soon"], "7d"),
        (["create", "x", "--tenant", "../x"], "letters, digits"),
        (["create", "admin"], "already"),
        (["forget", "x"], "create, set, ls, revoke"),
    ],
)
def test_wishes_for_keys_that_make_no_sense(open_one, words, said):
    result = open_one.tendon("key", *words)
    assert result.returncode != 0 and said in result.stderr


def test_scopes(open_one):
    metrics = open_one.client(open_one.make_key("collector", "--scope", "metrics")["key"])
    usual = open_one.client(open_one.make_key("usual")["key"])
    assert "tendon_requests_total" in metrics.get("/metrics").ok().text
    refused = usual.get("/metrics")
    assert refused.status == 403 and "metrics" in refused.json["detail"]
    assert open_one.client().get("/metrics").status == 200
    assert open_one.stranger().get("/metrics").status == 401


def test_rate(open_one):
    key = open_one.make_key("slow", "--rate", "0.01")
    client = open_one.client(key["key"])
    assert client.get(ANY).status == 404
    answer = client.get(ANY)
    assert answer.status == 429 and 90 <= int(answer.headers["Retry-After"]) <= 100
    assert "requests_per_second" in problem(answer)["detail"]
    assert open_one.client().get(ANY).status == 404  # nobody else is held up


# --- names and pages -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host, status",
    [
        ("localhost", 200),
        ("LOCALHOST:7171", 200),
        ("127.0.0.1", 200),
        ("127.0.0.1:1", 200),
        ("192.168.1.7:7171", 200),
        ("[::1]:7171", 200),
        ("tendon.example", 200),
        ("Tendon.Example.:7171", 200),
        ("other.example:443", 200),
        ("tendon.public.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil-localhost", 421),
        ("127.0.0.1.evil.example", 421),
        ("tendon.example.evil.example", 421),
        ("x.tendon.example", 421),
        ("[::1", 421),
        ("0x7f000001", 421),
        ("localhost:1@evil.example", 421),
        ("localhost:80/path", 421),
        ("[::1]evil.example", 421),
        ("", 421),
    ],
)
def test_host(open_one, host, status):
    assert open_one.stranger().get("/healthz", headers={"Host": host}).status == status


@pytest.mark.parametrize(
    "origin, status, cors",
    [
        (None, 404, False),
        ("own", 404, False),
        ("https://tendon.public.example", 404, False),
        ("https://app.example", 404, True),
        ("http://localhost:3000", 404, True),
        ("https://app.example:444", 403, False),
        ("http://app.example", 403, False),
        ("https://app.example.evil.example", 403, False),
        ("https://evil.example", 403, False),
        ("http://localhost:3001", 403, False),
        ("null", 403, False),
        ("", 403, False),
    ],
)
def test_origin(open_one, origin, status, cors):
    own = f"http://127.0.0.1:{open_one.port}"
    headers = {} if origin is None else {"Origin": own if origin == "own" else origin}
    answer = open_one.client().get(ANY, headers=headers)
    assert answer.status == status
    assert answer.headers.get("Access-Control-Allow-Origin") == (origin if cors else None)
    assert ("Origin" in answer.headers.get("Vary", "")) == cors
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("origin, status", [("https://app.example", 204), ("https://evil.example", 403)])
def test_preflight(open_one, origin, status):
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "DELETE",
        "Access-Control-Request-Headers": "x-api-key, idempotency-key",
    }
    answer = open_one.stranger().request("OPTIONS", "/v1/sandboxes/abc", headers=headers)
    assert answer.status == status
    if status == 204:
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert "DELETE" in answer.headers["Access-Control-Allow-Methods"]
        allowed = answer.headers["Access-Control-Allow-Headers"].lower()
        assert "x-api-key" in allowed and "idempotency-key" in allowed


def test_an_unknown_page_is_refused_before_any_key_is_looked_at(open_one):
    answer = open_one.client().post("/v1/sandboxes", {}, headers={"Origin": "https://evil.example"})
    assert answer.status == 403 and "Origin" in problem(answer)["detail"]


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["abc", "A.b_c-9", "x" * 64])
def test_the_request_id_of_a_client(open_one, given):
    assert open_one.stranger().get("/healthz", headers={"X-Request-Id": given}).headers["X-Request-Id"] == given


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 65, "a/b", 'a"b', "ä"])
def test_a_request_id_of_our_own(open_one, given):
    headers = {} if given is None else {"X-Request-Id": given}
    seen = {open_one.stranger().get("/healthz", headers=headers).headers["X-Request-Id"] for _ in range(2)}
    assert len(seen) == 2 and all(re.fullmatch("[0-9a-f]{20}", one) for one in seen)


def test_every_refusal_has_a_request_id(open_one):
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {}):
        answer = open_one.stranger().get(ANY, headers={**headers, "X-Request-Id": "mine"})
        assert answer.status in (401, 403, 421) and problem(answer)["request_id"] == "mine"


def test_errors_of_the_server_itself(open_one):
    client = open_one.client()
    assert problem(client.get("/v1/x/y/z"))["code"] == "not_found"
    assert client.get("/nowhere/at/all").json == {"detail": "Not Found"}
    wrong = client.request("PATCH", "/healthz")
    assert wrong.status == 405 and "GET" in wrong.headers["Allow"]


def test_the_log_has_every_request_and_no_query(open_one):
    client = open_one.client()
    client.get(f"{ANY}?word=hidden-in-a-query", headers={"X-Request-Id": "find-me-in-the-log"})
    (line,) = eventually(
        lambda: [line for line in open_one.log_lines() if line.get("request_id") == "find-me-in-the-log"],
        "the request is logged",
    )
    assert line["message"] == "request" and line["level"] == "info"
    assert (line["method"], line["path"], line["status"]) == ("GET", ANY, 404)
    assert line["key"] == open_one.admin[4:16] and line["tenant"] == "default" and line["seconds"] >= 0
    assert "hidden-in-a-query" not in open_one.log()


def test_refusals_are_audited_and_counted(open_one):
    metrics = open_one.client()

    def denied():
        return int(re.search(r"^tendon_denied_total (\d+)", metrics.get("/metrics").text, re.MULTILINE)[1])

    before = denied()
    open_one.stranger().get(ANY, headers={"X-Request-Id": "audited-refusal"})
    assert denied() == before + 1
    for _ in range(200):  # not every one of a flood is written, but none is forgotten
        open_one.stranger().get(ANY)
    assert denied() == before + 201
    lines = [line for line in open_one.audit() if line["what"] == "denied"]
    assert len(lines) < 200
    assert any(line["request_id"] == "audited-refusal" and ANY in line["detail"] for line in lines)


def test_no_secret_anywhere(open_one):
    """After everything above, at the level debug: no key in log, audit, or arguments; only digests in the store."""
    open_one.tenant("acme").get("/v1/me").ok()
    keys = {client.key for client in open_one.clients if client.key} | {open_one.admin}
    open_one.client().get(f"/v1/{open_one.admin}?x={open_one.admin}")  # who does such things is not betrayed
    stranger = open_one.stranger()

    def logged():  # of a flood of requests without a key, as one before may have been, not every one is
        stranger.get(f"/v1/{open_one.admin}", headers={"X-Request-Id": "the-last"})
        return "the-last" in open_one.log()

    eventually(logged, "the request is logged")
    said = open_one.log() + (open_one.state / "audit.log").read_text()
    said += open(f"/proc/{open_one.pid}/cmdline").read()
    for key in keys:
        assert key not in said and key[17:] not in said
    assert open_one.state.joinpath("service.key").stat().st_mode & 0o777 == 0o600


def test_health(open_one):
    stranger = open_one.stranger()
    assert stranger.get("/healthz").ok().json == {"status": "ok"}
    ready = eventually(lambda: (a := stranger.get("/readyz")).status == 200 and a, "it is ready")
    assert ready.json == {"status": "ready", "reasons": []}
    assert stranger.request("HEAD", "/healthz").status == 200


def test_ready_while_the_backend_hangs(make_service, tmp_path):
    """An engine that takes connections and never answers: 503 and its name, soon, and it is not asked by everybody."""
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "engine"))
        engine.listen(64)
        service = make_service(runtime="docker", env={"DOCKER_HOST": f"unix://{tmp_path}/engine"}).start()
        askers = [service.stranger() for _ in range(8)]
        answers = []
        crew = [threading.Thread(target=lambda one=one: answers.append(one.get("/readyz"))) for one in askers]
        for member in crew:
            member.start()
        for member in crew:
            member.join()
        assert len(answers) == len(crew)
        for answer in answers:
            assert answer.status == 503 and "backend" in answer.json["reasons"], answer
        engine.setblocking(False)
        asked = 0
        try:
            while engine.accept()[0].close() is None:
                asked += 1
        except BlockingIOError:
            pass
        assert asked <= 2, f"{asked} connections for one question"

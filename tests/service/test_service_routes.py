"""Every row of every table of routes, of whatever surface: who has no key, who calls it by another method, who sends
more than anybody wants to read."""

import re
import time

import pytest

from openapi_document import routes_of
from services import PATIENCE, Service
from trees import ROOT

# What is open to everybody, or looks at something else than a key.
OPEN = {
    ("get", "/"),
    ("get", "/dashboard/{name}"),
    ("post", "/dashboard/login"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/health"),
}
METHODS = ("PATCH", "PUT", "DELETE", "POST", "GET")


def tables():
    """The files that have a table of routes; gRPC answers 200 to everything (test_service_modal.py)."""
    folder = ROOT / "src" / "service"
    for path in sorted(folder.rglob("*.c")):
        if path.parent.name != "modal" and re.search(r"^const struct tn_route \w+\[\] = {", path.read_text(), re.MULTILINE):
            yield str(path.relative_to(folder))


ROWS = sorted(routes_of(*tables()))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("routes"), runtime="local").start()
    yield service
    service.finish()


def fill(path):
    """A path of that row; nothing that it names is there."""
    return re.sub(r"{[\w.]+}", "abcdefghij", path)


def methods_at(path):
    """All methods that some row has for such a path."""
    wanted = fill(path)
    return {m.upper() for m, p in ROWS if re.fullmatch(re.sub(r"{[\w]+}", "[^/]+", p.replace("...}", "}")), wanted)}


def helps(answer):
    """Every refusal says why, in the words of its surface."""
    assert (answer.json.get("detail") or answer.json["message"]) and answer.headers["X-Request-Id"], answer
    return answer


def test_all_tables_are_found():
    surfaces = {path.split("/")[1] for _, path in ROWS}
    assert {"v1", "api", "start", "build", "healthz", "metrics", "dashboard"} <= surfaces
    assert len(ROWS) > 80 and OPEN <= set(ROWS)


def test_without_a_key_or_with_a_wrong_one(service):
    stranger = service.stranger()
    wrong = {"X-API-Key": "tnk_" + "a" * 12 + "_" + "b" * 43}
    for method, path in ROWS:
        for headers in ({}, wrong, {"Authorization": "Bearer wrong"}, {"X-Session-API-Key": "wrong"}):
            answer = stranger.request(method.upper(), fill(path), headers=headers)
            if (method, path) in OPEN:
                assert answer.status in (200, 204, 400, 401, 404, 503), (method, path, answer)
            else:
                assert answer.status == 401, (method, path, headers, answer)
                helps(answer)


def test_by_another_method(service):
    client = service.client()
    for _, path in ROWS:
        there = methods_at(path)
        for method in METHODS:
            if method not in there:
                answer = client.request(method, fill(path))
                assert answer.status == 405, (method, path, answer)
                assert there <= set(helps(answer).headers["Allow"].split(", ")), (method, path, answer.headers["Allow"])


def test_more_than_anybody_wants_to_read(service):
    """A terabyte is announced and never comes: nobody waits for it."""
    client = service.client(timeout=PATIENCE)
    for method, path in ROWS:
        if method == "get":
            continue
        began = time.monotonic()
        answer = client.request(method.upper(), fill(path), b"{", headers={"Content-Length": str(1 << 40)})
        assert answer.status in (403, 404, 413, 415, 422, 501), (method, path, answer)
        assert time.monotonic() - began < PATIENCE / 2, (method, path)
        helps(answer)
        client.close()  # what follows on that connection is the rest of the body


@pytest.mark.parametrize(
    "method, target, headers, status, problem",
    [
        ("GET", "/v1/sandboxes/%zz", {}, 400, False),  # what cannot be read leads nowhere
        ("GET", "/v1/" + 9000 * "x", {}, 414, False),
        ("GET", "/v1/me", {"X-Much": 40000 * "x"}, 431, False),
        ("BREW", "/v1/me", {}, 501, True),
        ("POST", "/v1/sandboxes", {"Expect": "nothing"}, 417, True),
        ("POST", "/v1/sandboxes", {"Content-Length": str(1 << 50)}, 413, True),
        ("POST", "/start", {"Content-Length": str(1 << 50)}, 413, False),
    ],
)
def test_what_comes_to_nothing_before_the_gate(service, method, target, headers, status, problem):
    """It has an id like everything else, and the form of its surface."""
    client = service.client()
    answer = client.request(method, target, b"" if method == "POST" else None, headers=headers)
    client.close()
    assert answer.status == status, answer
    helps(answer)
    assert (answer.headers["Content-Type"] == "application/problem+json") == problem, answer
    if problem:
        told = answer.json
        assert (told["status"], told["request_id"]) == (status, answer.headers["X-Request-Id"]) and told["code"]

"""The audit log of a running service: what is in it, and that nobody can change it unseen."""

import json
import threading

import pytest

from services import Client, eventually


def verify(service, *words):
    """How many lines there are, or why they are not whole."""
    result = service.tendon("--json", "audit", "verify", *words)
    if result.returncode:
        return json.loads(result.stderr)["error"]["message"]
    told = json.loads(result.stdout)
    assert told["whole"] is True
    return told["lines"]


def test_what_is_written(service, acme):
    runtime = acme.post("/start", {"image": "x"}, headers={"X-Request-Id": "made-by-me"}).ok().json["runtime_id"]
    acme.post("/pause", {"runtime_id": runtime}).ok()
    acme.post("/stop", {"runtime_id": runtime}).ok()
    service.stranger().get("/list", headers={"X-API-Key": "tnk_secret"})
    lines = service.audit()
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    mine = [line for line in lines if line["box"] == runtime]
    assert [(line["what"], line["result"], line["tenant"]) for line in mine] == [
        ("sandbox.create", "ok", "acme"),
        ("sandbox.pause", "ok", "acme"),
        ("sandbox.delete", "ok", "acme"),
    ]
    assert mine[0]["request_id"] == "made-by-me" and mine[0]["key"] == acme.key.split("_")[1]
    assert any(line["what"] == "denied" for line in lines)
    text = (service.state / "audit.log").read_text()
    assert acme.key.split("_", 2)[2] not in text and "tnk_secret" not in text
    assert verify(service) == len(lines)
    shown = service.tendon("audit", "show", "--last", "3").stdout
    assert "sandbox.delete" in shown and "sandbox.create" not in shown.splitlines()[-1]
    told = json.loads(service.tendon("--json", "audit", "show", "-n", "2").stdout)
    assert told == service.audit()[-2:]


@pytest.mark.concurrent
def test_verify_beside_the_service(service, acme):
    """A burst of writers, and somebody who verifies meanwhile; then kill -9: every answered call is there."""
    answered, ends = [], threading.Event()

    def work():
        client = Client(service, acme.key)
        try:
            while not ends.is_set():
                runtime = client.post("/stop", {"runtime_id": "abcdefghij"})
                made = client.put("/api/v1/webhooks/secrets/x", b"y")
                if (runtime.status, made.status) == (404, 200):
                    answered.append(made.headers["X-Request-Id"])
        except OSError:
            pass  # killed

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        assert verify(service) > 0
    eventually(lambda: len(answered) >= 20, "answers")
    service.kill()
    ends.set()
    for thread in threads:
        thread.join()
    service.start()
    acme.close()
    written = {line["request_id"] for line in service.audit()}
    assert len(answered) >= 20 and set(answered) <= written
    assert verify(service) >= len(written)


def test_tampering_is_found(service, acme):
    runtime = acme.post("/start", {"image": "x"}).ok().json["runtime_id"]
    acme.post("/stop", {"runtime_id": runtime}).ok()
    path = service.state / "audit.log"
    whole = path.read_bytes()
    copy = service.base / "copy.log"
    lines = whole.splitlines(keepends=True)
    assert len(lines) > 3
    copy.write_bytes(whole)
    assert verify(service, str(copy)) == len(lines)
    for changed in (
        whole.replace(b'"acme"', b'"evil"', 1),
        b"".join(lines[1:]),
        b"".join([lines[1], lines[0], *lines[2:]]),
        b"".join([*lines, lines[-1]]),
        whole + b'{"n":%d,"what":"forged"}\n' % (len(lines) + 1),
    ):
        copy.write_bytes(changed)
        assert "audit log" in verify(service, str(copy))
    # A cut at the end is found by who can see the store, and by nobody else.
    copy.write_bytes(b"".join(lines[:-1]))
    assert verify(service, str(copy)) == len(lines) - 1
    service.stop()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert "lines were cut off" in verify(service)
    # A service goes on, says so, and what is missing stays to be seen.
    service.start()
    assert any("tampered" in line["message"] for line in service.log_lines())
    assert "comes something else" in verify(service)
    # Without its log it changes nothing that it could not tell of.
    path.unlink()
    assert "No such file" in verify(service)
    client = service.client()
    refused = client.put("/api/v1/webhooks/secrets/x", b"y")
    assert refused.status == 500 and "removed" in refused.json["detail"]
    service.restart()
    client.close()
    client.put("/api/v1/webhooks/secrets/x", b"y").ok()
    assert "after line 0 comes something else" in verify(service)


def test_show_without_a_log(make_service):
    service = make_service()
    result = service.tendon("audit", "show")
    assert result.returncode != 0 and "audit.log" in result.stderr
    result = service.tendon("audit", "nonsense")
    assert result.returncode != 0 and "verify" in result.stderr


def test_keys_made_beside_the_service(make_service):
    """`tendon key` is in the log before the first use of what it made; while no service runs, the next one notes it."""
    service = make_service().start()
    key = service.make_key("fresh", "--tenant", "acme")["key"]
    service.client(key).get("/list").ok()
    noted = [line for line in service.audit() if line["what"] == "key.create" and "fresh" in line["detail"]]
    assert len(noted) == 1 and noted[0]["key"] is None and noted[0]["result"] == "ok", noted
    service.stop()
    assert service.tendon("key", "revoke", "fresh").returncode == 0
    assert service.tendon("key", "revoke", "fresh").returncode != 0, "and that is no second one"
    service.start()
    noted = [line["detail"] for line in service.audit() if line["what"] == "key.revoke"]
    assert len(noted) == 1 and noted[0].startswith("fresh "), noted
    assert verify(service) == len(service.audit())
    assert key.split("_", 2)[2] not in (service.state / "audit.log").read_text()

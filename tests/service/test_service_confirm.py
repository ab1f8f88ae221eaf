"""Actions that somebody has to confirm, through the service: asked, answered once, by whom it may be, and never lost."""

import hashlib
import hmac
import http.server
import json
import threading
import time

import pytest

from native import at, make
from openhands_clients import COMMAND, IMAGE
from services import PATIENCE, eventually

ALWAYS = {"security.confirmation": "always"}
REJECTED = "Action has been rejected by the user! Waiting for further user input."


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    from services import Service

    service = Service(tmp_path_factory.mktemp("service"), settings=ALWAYS).start()
    yield service
    service.finish()


def command(text, **args):
    return {"action": {"action": "run", "args": {"command": text, **args}, "timeout": 30}}


class Asking:
    """A request for an action, in a thread: it waits for its confirmation."""

    def __init__(self, service, box, body, headers=None):
        self.client, self.answer = service.client(), None
        self.thread = threading.Thread(target=self.ask, args=(box, body, headers))
        self.thread.start()

    def ask(self, box, body, headers):
        try:
            self.answer = self.client.post(at(box, "/actions"), body, headers=headers)
        except OSError as problem:  # the service was killed
            self.answer = problem

    def end(self):
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        return self.answer


def pending(client, box, count=1):
    """What waits, once there are so many."""

    def look():
        waiting = client.get(at(box, "/pending")).ok().json["pending"]
        return waiting if len(waiting) == count else None

    return eventually(look, f"{count} pending actions")


def answer(client, box, one, what="confirm", **more):
    return client.post(at(box, f"/pending/{one['id']}"), {"answer": what, **more})


def test_the_request_waits_and_gets_the_observation(service):
    admin = service.client()
    box = make(admin)
    asking = Asking(service, box, command("echo one; pwd"))
    (one,) = pending(admin, box)
    assert one["sandbox"] == box["id"] and one["action"]["args"]["command"] == "echo one; pwd"
    assert one["verdict"]["decision"] == "ask" and one["until"] > one["asked"]
    assert [p["id"] for p in admin.get("/v1/pending").ok().json["pending"]] == [one["id"]]
    told = answer(admin, box, one).ok().json
    assert told["answer"] == "confirm" and told["observation"]["content"].startswith("one")
    got = asking.end().ok().json
    assert got["content"] == told["observation"]["content"] and got["extras"]["metadata"]["exit_code"] == 0
    assert got["extras"]["metadata"]["verdict"] == got["verdict"] == told["observation"]["verdict"] == one["verdict"]
    events = admin.get(at(box, "/events")).ok().json["events"]
    asked, confirmed, done = events[-3:]
    assert asked["args"]["confirmation_state"] == "awaiting_confirmation" and asked["verdict"]["risk"] == "unknown"
    assert confirmed["cause"] == asked["id"] and confirmed["args"]["confirmation_state"] == "confirmed"
    assert done["cause"] == confirmed["id"] and done["observation"] == "run"
    admin.delete(at(box)).ok(204)


def test_the_time_to_think_is_not_the_actions(service):
    """Confirmed near the end of the time that it may take, it still has all of that."""
    admin = service.client()
    box = make(admin)
    body = command("sleep 5; echo whole")
    body["action"]["timeout"] = 8
    asking = Asking(service, box, body)
    (one,) = pending(admin, box)
    eventually(lambda: time.time() > one["asked"] + 5, "a person who thinks for long")
    assert answer(admin, box, one).ok().json["observation"]["content"] == "whole"
    assert asking.end().ok().json["content"] == "whole"
    admin.delete(at(box)).ok(204)


def test_a_process_waits_like_any_command(service):
    admin = service.client()
    box = make(admin)
    script = "echo \"it's me\"; sleep 1000"
    process = {"args": ["sh", "-c", script], "env": {"A": "b c"}, "tag": "mine"}
    line = "env 'A=b c' sh -c 'echo \"it'\\''s me\"; sleep 1000'"
    asking = Asking(service, box, command(line, process=process))
    (one,) = pending(admin, box)
    assert one["action"]["args"]["command"] == line
    assert admin.get(at(box, "/hand/v1/processes")).ok().json["processes"] == []
    told = answer(admin, box, one).ok().json["observation"]
    got = asking.end().ok().json
    process = admin.get(at(box, "/hand/v1/processes/tag:mine")).ok().json
    assert process["running"] and process["id"] == got["extras"]["metadata"]["process"]
    assert told["extras"]["metadata"]["process"] == process["id"]
    admin.delete(at(box)).ok(204)


def test_a_refusal_is_the_users(service):
    admin = service.client()
    box = make(admin)
    asking = Asking(service, box, command("touch /tmp/never"))
    (one,) = pending(admin, box)
    told = answer(admin, box, one, "reject", reason="not on a Friday").ok().json
    assert told["observation"]["observation"] == "user_rejected"
    got = asking.end().ok().json
    assert (got["observation"], got["content"]) == ("user_rejected", f"{REJECTED} not on a Friday")
    assert got["verdict"] == told["observation"]["verdict"] == one["verdict"] and "verdict" not in got["extras"]
    audited = [row["what"] for row in service.audit() if row.get("what", "").startswith("action.")]
    assert audited[-2:] == ["action.ask", "action.reject"]
    admin.delete(at(box)).ok(204)


EDITS = {
    "write": ({"path": "/tmp/new", "content": "one\ntwo\n"}, "+one\n+two\n"),
    "edit": ({"path": "/tmp/old", "command": "str_replace", "old_str": "a\nb", "new_str": "c\x1b[31m"}, "-a\n-b\n+c\x1b[31m\n"),
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_is_shown_as_lines(service, kind):
    """To programs, and at a terminal, where no escape sequence of the agent's reaches it."""
    admin = service.client()
    box = make(admin)
    args, lines = EDITS[kind]
    body = {"action": {"action": kind, "args": args, "timeout": 30}}
    one = admin.post(at(box, "/actions"), body, headers={"Prefer": "respond-async"}).ok(202).json["pending"]
    assert one["diff"] == lines and one["verdict"]["decision"] == "ask"
    shown = service.tendon("confirm").stderr
    for line in lines.split("\x1b")[0].splitlines():
        assert f"\n{line}" in shown, shown
    assert "\x1b" not in shown
    got = answer(admin, box, one, "reject").ok().json["observation"]
    assert got["observation"] == "user_rejected" and got["verdict"] == one["verdict"]
    admin.delete(at(box)).ok(204)


def test_without_waiting(service):
    admin = service.client()
    box = make(admin)
    asked = admin.post(at(box, "/actions"), command("echo later"), headers={"Prefer": "respond-async"}).ok(202)
    one = asked.json["pending"]
    assert asked.headers["Location"] == at(box, f"/pending/{one['id']}")
    assert answer(admin, box, one).ok().json["observation"]["content"] == "later"
    twice = answer(admin, box, one)
    assert twice.status == 409 and "answered already" in twice.text
    assert answer(admin, box, {"id": 999999}).status == 404
    assert answer(admin, box, {"id": "x"}).status == 404
    assert answer(admin, box, one, "perhaps").status == 422
    admin.delete(at(box)).ok(204)


def test_who_may_answer(service):
    acme, other = service.tenant("acme"), service.tenant("other")
    agent = service.tenant("acme", "--scope", "use", "--scope", "read")
    box = make(acme)
    one = agent.post(at(box, "/actions"), command("id -u"), headers={"Prefer": "respond-async"}).ok(202).json["pending"]
    assert answer(other, box, one).status == 404
    assert other.get("/v1/pending").ok().json["pending"] == []
    assert answer(agent, box, one).status == 403  # who asks does not answer
    assert [p["id"] for p in agent.get("/v1/pending").ok().json["pending"]] == [one["id"]]
    answer(acme, box, one).ok()
    acme.delete(at(box)).ok(204)


def test_one_of_many_answers_counts(service):
    admin = service.client()
    box = make(admin)
    asked = admin.post(at(box, "/actions"), command("echo x >> /tmp/count"), headers={"Prefer": "respond-async"})
    one = asked.ok(202).json["pending"]
    told = []
    threads = [
        threading.Thread(target=lambda what=what: told.append(answer(service.client(), box, one, what).status))
        for what in ["confirm", "reject"] * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(told) == [200] + [409] * 7
    admin.delete(at(box)).ok(204)


def test_it_survives_the_service(make_service, jail_works):
    service = make_service(settings=ALWAYS).start()
    admin, key = service.client(), {"Idempotency-Key": "mine"}
    box = make(admin)
    body = command("echo x >> /tmp/count; wc -l < /tmp/count")
    asking = Asking(service, box, body, key)
    (one,) = pending(admin, box)
    service.restart(kill=True)
    asking.end()
    admin.close()
    again = Asking(service, box, body, key)
    assert pending(admin, box) == [one]  # it is the same one that is asked for again
    assert answer(admin, box, one).ok().json["observation"]["content"] == "1"
    assert again.end().ok().json["content"] == "1"
    service.restart(kill=True)
    admin.close()
    same = admin.post(at(box, "/actions"), body, headers=key).ok().json
    assert same["content"] == "1" and same["verdict"] == one["verdict"]
    assert answer(admin, box, one).status == 409


def test_a_key_belongs_to_one_action(service):
    admin = service.client()
    box = make(admin)
    headers = {"Idempotency-Key": "two", "Prefer": "respond-async"}
    one = admin.post(at(box, "/actions"), command("echo 1"), headers=headers).ok(202).json["pending"]
    assert admin.post(at(box, "/actions"), command("echo 2"), headers=headers).status == 422
    assert admin.post(at(box, "/actions"), command("echo 1"), headers=headers).ok(202).json["pending"]["id"] == one["id"]
    answer(admin, box, one, "reject").ok()
    got = admin.post(at(box, "/actions"), command("echo 1"), headers=headers).ok().json
    assert got["observation"] == "user_rejected"
    admin.delete(at(box)).ok(204)


def test_an_answer_of_which_there_is_no_line(make_service, jail_works):
    """Without an audit log nothing is carried out; whoever waits is told so, instead of waiting for what nobody can answer."""
    service = make_service(settings=ALWAYS).start()
    admin = service.client()
    box = make(admin)
    asking = Asking(service, box, command("touch /tmp/never"))
    (one,) = pending(admin, box)
    (service.state / "audit.log").unlink()
    assert answer(admin, box, one).status >= 500
    got = asking.end().ok().json
    assert (got["observation"], got["content"]) == ("user_rejected", f"{REJECTED} The audit log cannot be written.")
    assert admin.get(at(box, "/pending")).ok().json["pending"] == []


def test_nobody_answers(make_service, jail_works):
    service = make_service(settings={**ALWAYS, "security.confirm_seconds": 1}).start()
    admin = service.client()
    box = make(admin)
    got = admin.post(at(box, "/actions"), command("touch /tmp/never")).ok().json
    assert got["observation"] == "user_rejected" and "Nobody confirmed" in got["content"]
    assert got["verdict"]["decision"] == "ask"
    one = admin.post(at(box, "/actions"), command("touch /tmp/never"), headers={"Prefer": "respond-async"})
    eventually(lambda: answer(admin, box, one.json["pending"]).status in (409, 410), "too late")


def test_openhands(service):
    admin = service.client()
    runtime = admin.post("/start", {"image": IMAGE, "command": COMMAND, "session_id": "confirm"}).ok().json
    box = {"id": runtime["runtime_id"]}
    headers = {"X-Session-API-Key": runtime["session_api_key"]}
    body = command("echo hands")
    body["action"]["timeout"] = 1
    got = service.stranger().post(f"/{box['id']}/execute_action", body, headers=headers).ok().json
    assert got["observation"] == "error" and "waits for its confirmation" in got["content"]
    assert got["verdict"]["decision"] == "ask" and "verdict" not in got["extras"]
    (one,) = pending(admin, box)
    refused = service.stranger().post(at(box, f"/pending/{one['id']}"), {"answer": "confirm"}, headers=headers)
    assert refused.status == 401  # the sandbox's own key answers nothing
    assert answer(admin, box, one).ok().json["observation"]["content"] == "hands"
    admin.post("/stop", {"runtime_id": box["id"]}).ok()


def test_what_is_not_asked(service):
    admin = service.client()
    box = make(admin)
    thought = {"action": {"action": "think", "args": {"thought": "hm"}}}
    assert admin.post(at(box, "/actions"), thought).ok().json["observation"] == "think"
    assert admin.post(at(box, "/actions"), command("")).ok().json["observation"] != "user_rejected"
    hidden = admin.post(at(box, "/actions"), command("echo x", hidden=True)).ok().json
    assert hidden["extras"]["metadata"]["exit_code"] == -1 and "hidden" in hidden["content"]
    assert admin.get(at(box, "/pending")).ok().json["pending"] == []
    forged = {**command("echo forged")["action"], "cause": 0, "idempotency_key": "x"}
    one = admin.post(at(box, "/actions"), {"action": forged}, headers={"Prefer": "respond-async"}).ok(202)
    assert one.json["pending"]["verdict"]["decision"] == "ask"
    admin.delete(at(box)).ok(204)


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers["X-Tendon-Signature"], body))
        status, headers, answer = self.server.reply(json.loads(body), self.headers["X-Tendon-Signature"])
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


@pytest.fixture
def hook():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        server.got, server.reply = [], lambda one, signature: (204, {}, b"")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.settings = {
            **ALWAYS,
            "confirm_url": f"http://127.0.0.1:{server.server_port}/hook",
            "confirm_secret": "s3cret",
        }
        yield server
        server.shutdown()


def told(hook, count):
    """What the hook was told, once that is so much: all of it signed."""
    eventually(lambda: len(hook.got) >= count, f"{count} calls of the hook")
    for signature, body in hook.got:
        moment, _, digest = signature.removeprefix("t=").partition(",v1=")
        assert hmac.new(b"s3cret", f"{moment}.".encode() + body, hashlib.sha256).hexdigest() == digest
    return [json.loads(body) for _, body in hook.got]


def test_the_hook_is_told(make_service, jail_works, hook):
    service = make_service(settings=hook.settings).start()
    admin = service.client()
    box = make(admin)
    asked = admin.post(at(box, "/actions"), command("echo hook"), headers={"Prefer": "respond-async"}).ok(202)
    (one,) = told(hook, 1)
    assert one["sandbox"] == box["id"] and one["id"] == asked.json["pending"]["id"]
    assert one["action"]["args"]["command"] == "echo hook" and one["verdict"]["decision"] == "ask"
    assert one["repeat"] is False
    answer(admin, box, one).ok()


def test_the_hook_is_told_again_after_a_restart(make_service, jail_works, hook):
    """Exactly what still waits, in every sandbox, and nothing of it twice."""
    service = make_service(settings=hook.settings).start()
    admin = service.client()
    boxes = [make(admin), make(admin)]
    for box in boxes:
        for n in range(2):
            body = command(f"echo {n}")
            admin.post(at(box, "/actions"), body, headers={"Prefer": "respond-async"}).ok(202)
    before = told(hook, 4)
    for box in boxes:
        answer(admin, box, pending(admin, box, 2)[0], "reject").ok()
    waiting = {(box["id"], pending(admin, box)[0]["id"]) for box in boxes}
    service.restart(kill=True)
    admin.close()
    after = told(hook, 6)[4:]
    assert {(one["sandbox"], one["id"]) for one in after} == waiting and all(one["repeat"] for one in after)
    first = {(one["sandbox"], one["id"]): one for one in before}
    for one in after:
        assert {**one, "repeat": False} == first[one["sandbox"], one["id"]]
        answer(admin, {"id": one["sandbox"]}, one).ok()
    service.restart()
    admin.close()
    admin.post(at(boxes[0], "/actions"), command("echo new"), headers={"Prefer": "respond-async"}).ok(202)
    (last,) = told(hook, 7)[6:]
    assert last["action"]["args"]["command"] == "echo new" and last["repeat"] is False


def signed(one, signature, body, secret=b"s3cret", **other):
    """The reply of a hook that answers: signed for this request, sandbox and action."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    moment = other.get("moment", signature.removeprefix("t=").partition(",")[0])
    text = f"{moment}.{other.get('sandbox', one['sandbox'])}.{other.get('id', one['id'])}.".encode() + body
    mac = hmac.new(secret, text, hashlib.sha256).hexdigest()
    return other.get("status", 200), {"X-Tendon-Signature": f"t={moment},v1={mac}"}, body


YES = {"answer": "confirm"}


def test_the_hook_answers(make_service, jail_works, hook):
    service = make_service(settings=hook.settings).start()
    admin = service.client()
    box = make(admin)
    hook.reply = lambda one, signature: signed(one, signature, YES)
    assert admin.post(at(box, "/actions"), command("echo hook")).ok().json["content"] == "hook"
    hook.reply = lambda one, signature: signed(one, signature, {"answer": "reject", "reason": "not by night"})
    got = admin.post(at(box, "/actions"), command("touch /tmp/never")).ok().json
    assert (got["observation"], got["content"]) == ("user_rejected", f"{REJECTED} not by night")
    assert admin.get(at(box, "/pending")).ok().json["pending"] == []
    rows = [row for row in service.audit() if row.get("what", "").startswith("action.")]
    assert [row["what"] for row in rows] == ["action.ask", "action.confirm", "action.ask", "action.reject"]
    assert rows[1]["detail"] == rows[3]["detail"] == "service.confirm_url" and rows[1]["key"] is None
    told(hook, 2)


# What a hook may say that is no answer: the action waits on.
NO_ANSWER = {
    "nothing": lambda one, signature: (204, {}, b""),
    "words of its own": lambda one, signature: (200, {}, b"thanks"),
    "without a signature": lambda one, signature: (200, {}, json.dumps(YES).encode()),
    "the signature of the request": lambda one, signature: (200, {"X-Tendon-Signature": signature}, json.dumps(YES).encode()),
    "another secret": lambda one, signature: signed(one, signature, YES, b"guessed"),
    "no secret": lambda one, signature: signed(one, signature, YES, b""),
    "another action": lambda one, signature: signed(one, signature, YES, id=one["id"] + 1),
    "another sandbox": lambda one, signature: signed(one, signature, YES, sandbox="aaaaaaaaaa"),
    "another moment": lambda one, signature: signed(one, signature, YES, moment="1700000000"),
    "another status": lambda one, signature: signed(one, signature, YES, status=202),
    "another word": lambda one, signature: signed(one, signature, {"answer": "confirmed"}),
    "no word": lambda one, signature: signed(one, signature, {"answer": True}),
    "a member too many": lambda one, signature: signed(one, signature, {**YES, "decision": "reject"}),
    "a rule": lambda one, signature: signed(one, signature, {**YES, "rule": True}),
    "half": lambda one, signature: signed(one, signature, b'{"answer": "confirm"'),
    "a list": lambda one, signature: signed(one, signature, [YES]),
    "a long reason": lambda one, signature: signed(one, signature, {"answer": "reject", "reason": "x" * 501}),
}  # fmt: skip


def test_what_is_no_answer_of_the_hook(make_service, jail_works, hook):
    """After a restart all are told in their order: when the last one is answered, the others would have been."""
    service = make_service(settings=hook.settings).start()
    admin = service.client()
    box = make(admin)
    for name in [*NO_ANSWER, "last"]:
        body = command(f"echo '{name}'")
        admin.post(at(box, "/actions"), body, headers={"Prefer": "respond-async"}).ok(202)
    told(hook, len(NO_ANSWER) + 1)

    def reply(one, signature):
        name = one["action"]["args"]["command"].split("'")[1]
        return signed(one, signature, YES) if name == "last" else NO_ANSWER[name](one, signature)

    hook.reply = reply
    service.restart()
    admin.close()
    told(hook, 2 * len(NO_ANSWER) + 2)
    waiting = pending(admin, box, len(NO_ANSWER))
    assert [one["action"]["args"]["command"] for one in waiting] == [f"echo '{name}'" for name in NO_ANSWER]
    assert answer(admin, box, waiting[0]).ok().json["observation"]["content"] == "nothing"


def test_a_hook_without_a_secret_answers_nothing(make_service, jail_works, hook):
    service = make_service(settings={**hook.settings, "confirm_secret": ""}).start()
    admin = service.client()
    box = make(admin)
    for n in range(2):
        admin.post(at(box, "/actions"), command(f"echo {n}"), headers={"Prefer": "respond-async"}).ok(202)
    eventually(lambda: len(hook.got) == 2, "both told")
    hook.reply = lambda one, signature: signed(one, signature or f"t={int(time.time())},v1=", YES, b"")
    service.restart()
    admin.close()
    eventually(lambda: len(hook.got) == 4, "both told again")  # the second after the first has said what it says
    assert pending(admin, box, 2)[0]["action"]["args"]["command"] == "echo 0"


def test_the_hook_is_not_the_first(make_service, jail_works, hook):
    """Somebody answers while the hook thinks: it is carried out once, and the hook's answer is refused."""
    service = make_service(settings=hook.settings).start()
    admin = service.client()
    box = make(admin)
    answered = threading.Event()

    def reply(one, signature):
        assert answered.wait(PATIENCE)
        return signed(one, signature, YES)

    hook.reply = reply
    text = "echo x >> /tmp/count; wc -l < /tmp/count"
    one = admin.post(at(box, "/actions"), command(text), headers={"Prefer": "respond-async"}).ok(202).json["pending"]
    told(hook, 1)
    assert answer(admin, box, one).ok().json["observation"]["content"] == "1"
    answered.set()

    def refused():
        return [row for row in service.audit() if row.get("what") == "action.answer" and row["result"] == "conflict"]

    assert "answered already" in eventually(refused, "a line of the audit log")[0]["detail"]


def test_a_slow_hook_is_told_of_few_at_a_time(make_service, jail_works, hook):
    service = make_service(settings=hook.settings).start()
    admin = service.client()
    box = make(admin)
    free, now, most, lock = threading.Event(), [0], [0], threading.Lock()

    def reply(one, signature):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        free.wait(5)  # less than it has
        with lock:
            now[0] -= 1
        return 204, {}, b""

    hook.reply = reply
    for n in range(24):
        admin.post(at(box, "/actions"), command(f"echo {n}"), headers={"Prefer": "respond-async"}).ok(202)
    told(hook, 16)
    free.set()
    assert {one["action"]["args"]["command"] for one in told(hook, 24)} == {f"echo {n}" for n in range(24)}
    assert most[0] <= 16


def test_few_answers_of_the_hook_are_carried_out_at_a_time(make_service, jail_works, hook):
    """The others still wait, and anybody may answer them; those of other tenants and rejections do not wait for them."""
    service = make_service(settings=hook.settings).start()
    admin, other = service.client(), service.tenant("other")
    box, others = make(admin), make(other)
    hook.reply = lambda one, signature: signed(one, signature, YES)
    for n in range(24):
        text = f"until [ -e /tmp/go ]; do sleep 0.1; done; echo {n} >> /tmp/done"
        body = command(text)
        body["action"]["timeout"] = PATIENCE
        admin.post(at(box, "/actions"), body, headers={"Prefer": "respond-async"}).ok(202)
    told(hook, 24)
    for _ in range(10):
        waiting = pending(admin, box, 20)
    answer(admin, box, waiting[0], "reject").ok()
    assert other.post(at(others, "/actions"), command("echo other")).ok().json["content"] == "other"
    hook.reply = lambda one, signature: signed(one, signature, {"answer": "reject"})
    assert admin.post(at(box, "/actions"), command("echo no")).ok().json["observation"] == "user_rejected"
    assert admin.put(at(box, "/files", path="/tmp/go"), b"").status in (200, 201, 204)

    def done():
        got = admin.get(at(box, "/files", path="/tmp/done"))
        return got.status == 200 and len(got.text.split()) == 23

    eventually(done, "all of them are carried out")
    assert admin.get(at(box, "/pending")).ok().json["pending"] == []


def test_secrets_are_not_shown_and_are_carried_out(make_service, jail_works):
    service = make_service(settings=ALWAYS).start()
    admin = service.client()
    box = make(admin, env={"MY_TOKEN": "swordfish-1234"})
    text = "echo swordfish-1234 | tr -d f"
    one = admin.post(at(box, "/actions"), command(text), headers={"Prefer": "respond-async"}).ok(202).json["pending"]
    assert "swordfish" not in json.dumps(one)
    assert answer(admin, box, one).ok().json["observation"]["content"] == "swordish-1234"

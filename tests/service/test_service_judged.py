"""Every dialect that starts something is judged: what a rule blocks leaves no trace, and stands in the journal as blocked."""

import pytest

import daytona_wire
import e2b_wire
from native import at, run
from services import Service

RULES = '[[rule]]\nname = "marked"\nrisk = "high"\ntext = "leaves a mark"\nprogram = "touch"\n'
MARK = "touch /tmp/mark"
CODE = f"import os\nos.system('{MARK}')"


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    base = tmp_path_factory.mktemp("judged")
    (base / "rules.toml").write_text(RULES)
    config = f'[security]\nanalyzers = ["policy"]\nconfirmation = "never"\ndefault_policy = false\npolicies = ["{base}/rules.toml"]\n'
    service = Service(base, config=config).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def alice(service):
    return service.tenant("alice", "--e2b")


@pytest.fixture(scope="module")
def box(alice):
    return e2b_wire.create(alice, timeout=3600)["sandboxID"]


def e2b_command(service, alice, box):
    return e2b_wire.Envd(service, alice.post(f"/sandboxes/{box}/connect", {"timeout": 3600}).ok().json).run(MARK).items


def e2b_code(service, alice, box):
    envd = e2b_wire.Envd(service, alice.post(f"/sandboxes/{box}/connect", {"timeout": 3600}).ok().json)
    port = {"E2b-Sandbox-Port": "49999", "Content-Type": "application/json"}
    return envd.client.post("/execute", {"code": CODE}, headers=port).text


def daytona(path, body, session=None):
    def ask(service, alice, box):
        toolbox = daytona_wire.Toolbox(alice, {"id": box})
        if session:
            toolbox.post("/process/session", {"sessionId": session}).ok(201)
        return toolbox.post(path, body).text

    return ask


def runloop(body):
    return lambda service, alice, box: alice.post(f"/v1/devboxes/{box}/execute", body).text


def swerex(route, body):
    def ask(service, alice, box):
        if route == "run_in_session":
            alice.post(f"/swerex/{box}/create_session", {}).ok()
        return alice.post(f"/swerex/{box}/{route}", body).text

    return ask


WAYS = {
    "e2b, a command": e2b_command,
    "e2b, code": e2b_code,
    "daytona, a command": daytona("/process/execute", {"command": MARK}),
    "daytona, code": daytona("/process/code-run", {"code": CODE}),
    "daytona, a session": daytona("/process/session/judged/exec", {"command": MARK}, "judged"),
    "runloop, a command": runloop({"command": MARK}),
    "runloop, a shell": runloop({"command": MARK, "shell_name": "judged"}),
    "swe-rex, a session": swerex("run_in_session", {"command": MARK, "timeout": 20}),
    "swe-rex, a text": swerex("execute", {"command": MARK, "shell": True}),
    "swe-rex, words": swerex("execute", {"command": MARK.split()}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_blocked_one_is_not_carried_out(service, alice, box, way):
    before = len(alice.get(at(box, "/events")).ok().json["events"])
    answer = str(WAYS[way](service, alice, box))
    assert "blocked" in answer and "marked" in answer, answer
    events = alice.get(at(box, "/events")).ok().json["events"][before:]
    verdicts = [event["verdict"] for event in events if event.get("verdict")]
    assert [verdict["decision"] for verdict in verdicts].count("block") == 2, events  # of the action, in its observation
    assert "marked" in str(verdicts) and "mark" not in run(alice, box, "ls /tmp", timeout=30)["content"]

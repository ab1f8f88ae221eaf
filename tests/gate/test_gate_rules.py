"""Rules that change while a sandbox runs, and what was refused: shown, noted once, kept over a restart."""

import json

import pytest

GET = "curl -sS -m 10 http://{}/"
OTHER = "www.good.test"


@pytest.fixture
def box(world, user):
    return world.box("allow", "good.test", "good.test:6-7", user=user)


def network(world, box, *words, check=True):
    done = world.tendon("--json", "network", box.id, *words, user=box.user, check=check)
    return json.loads(done.stdout) if check else done


def noted(world, box):
    events = world.tendon("--json", "events", box.id, user=box.user).stdout.splitlines()
    return [e for e in map(json.loads, events) if e.get("extras", {}).get("error_id") == "NETWORK$REFUSED"]


def test_what_was_refused_is_shown_and_noted_once(world, box):
    assert network(world, box) == {
        "network": "allow",
        "gated": True,
        "rules": ["good.test", "good.test:6-7"],
        "refused": 0,
        "refusals": [],
    }
    assert box.sh(GET.format("evil.test")).returncode != 0
    refusal = network(world, box)["refusals"][0]
    assert (refusal["what"], refusal["why"], refusal["rule"]) == ("the name evil.test", "no rule", "evil.test")
    first = noted(world, box)
    assert len(first) == 1 and "the network refused the name evil.test: no rule" in first[0]["content"]
    assert "cause" not in first[0] and first[0]["observation"] == "error" and first[0]["source"] == "environment"
    network(world, box)
    assert noted(world, box) == first
    shown = world.tendon("network", box.id, user=box.user).stdout
    assert "network: allow, gated" in shown and "allow: good.test\n" in shown and "evil.test" in shown


def test_a_rule_counts_at_once_and_after_a_restart(world, box):
    assert box.sh(GET.format(OTHER)).returncode != 0
    rule = network(world, box)["refusals"][0]["rule"]
    box.start(
        "import socket; s = socket.create_connection(('good.test', 7)); s.settimeout(20)\n"
        "assert s.recv(6, socket.MSG_WAITALL) == b'hello\\n'\n"
        "s.sendall(b'one'); print('first', s.recv(9), flush=True)\n"
        "import time, os\n"
        "while not os.path.exists('/tmp/go'): time.sleep(0.05)\n"
        "s.sendall(b'two'); print('second', s.recv(9), flush=True)\n"
    )
    box.said("first b'one'")
    assert network(world, box, "--allow", rule)["rules"] == ["good.test", "good.test:6-7", rule]
    assert box.sh(GET.format(OTHER)).returncode == 0
    assert box.sh("touch /tmp/go").returncode == 0
    box.said("second b'two'")  # the connection from before is still there
    world.tendon("stop", box.id, user=box.user)
    world.tendon("resume", box.id, user=box.user)
    assert box.sh(GET.format(OTHER)).returncode == 0
    assert network(world, box, "--deny", rule, "--deny", "good.test")["rules"] == ["good.test:6-7"]
    assert box.sh(GET.format(OTHER)).returncode != 0


def test_datagrams_that_go_on_are_judged_again(world, user):
    box = world.box("allow", "good.test", "udp://good.test:9", user=user)
    box.start(
        "import os, socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.connect((socket.gethostbyname('good.test'), 9)); s.settimeout(10)\n"
        "def answer(text):\n"
        "    try: s.send(text); return s.recv(9)\n"
        "    except OSError: return 'nothing'\n"
        "print('first', answer(b'one'), flush=True)\n"
        "while not os.path.exists('/tmp/go'): time.sleep(0.05)\n"
        "print('second', answer(b'two'), flush=True)\n"
        "while os.path.exists('/tmp/go'): time.sleep(0.05)\n"
        "print('third', answer(b'three'), flush=True)\n"
    )
    box.said("first b'ONE'")
    network(world, box, "--allow", "other.test")
    assert box.sh("touch /tmp/go").returncode == 0
    box.said("second b'TWO'")
    network(world, box, "--deny", "udp://good.test:9")
    assert box.sh("rm /tmp/go").returncode == 0
    box.said("third nothing")


def test_no_rules_at_all_stay_none(world, box):
    assert network(world, box, "--deny", "good.test", "--deny", "good.test:6-7")["rules"] == []
    assert box.sh(GET.format("good.test")).returncode != 0
    world.tendon("stop", box.id, user=box.user)
    world.tendon("resume", box.id, user=box.user)
    assert network(world, box)["rules"] == []
    assert box.sh(GET.format("good.test")).returncode != 0


@pytest.mark.parametrize(
    "words, why",
    [
        (["--allow", "not a rule"], "allow"),
        (["--deny", "other.test"], "it has no rule other.test"),
    ],
)
def test_what_is_no_rule_changes_nothing(world, box, words, why):
    refused = network(world, box, "--allow", "more.test", *words, check=False)
    assert refused.returncode != 0 and why in refused.stderr
    assert network(world, box)["rules"] == ["good.test", "good.test:6-7"]


def test_what_is_denied(world, user):
    box = world.box("open", "!203.0.113.0/24", user=user)
    assert box.sh(GET.format(OTHER)).returncode != 0  # names lead nowhere else
    assert box.sh(GET.format("203.0.113.10")).returncode != 0
    refused = {r["why"] for r in network(world, box)["refusals"]}
    assert "a rule denies it" in refused, refused
    shown = world.tendon("network", box.id, user=box.user).stdout
    assert "deny: 203.0.113.0/24\n" in shown
    network(world, box, "--allow", "203.0.113.10:80")
    assert box.sh(GET.format("203.0.113.10")).returncode == 0


def test_one_kind_becomes_the_other(world, user):
    box = world.box("open", user=user)
    assert box.sh(GET.format(OTHER)).returncode == 0
    now = network(world, box, "--network", "allow", "--allow", "good.test")
    assert now["network"] == "allow" and now["rules"] == ["good.test"]
    assert box.sh(GET.format(OTHER)).returncode != 0 and box.sh(GET.format("good.test")).returncode == 0
    told = json.loads(world.tendon("--json", "inspect", box.id, user=box.user).stdout)
    assert told["isolation"]["reach"] == "allow" and told["spec"]["network"] == "allow"
    world.tendon("stop", box.id, user=box.user)
    world.tendon("resume", box.id, user=box.user)
    assert box.sh(GET.format(OTHER)).returncode != 0
    assert network(world, box, "--network", "open", "--deny", "good.test")["network"] == "open"
    assert box.sh(GET.format(OTHER)).returncode == 0
    refused = network(world, box, "--network", "host", check=False)
    assert refused.returncode != 0 and "open or allow" in refused.stderr


def test_a_network_without_a_gate_has_no_rules(world, user):
    box = world.box("none", user=user)
    assert network(world, box) == {"network": "none", "gated": False, "rules": [], "refused": 0, "refusals": []}
    refused = network(world, box, "--allow", "good.test", check=False)
    assert refused.returncode != 0 and "has no gate" in refused.stderr

"""The whole program with sandboxes of a Modal: new, exec, rm, gc, doctor; who is killed when; both ways to run programs."""

import json

import pytest

from cloud_worlds import Modal
from tendons import eventually


@pytest.fixture(scope="module")
def cloud():
    return Modal()


@pytest.fixture
def tendon(make_tendon, service):
    return make_tendon(service)


def test_a_life(tendon, tmp_path):
    tendon.ok("new", "--name", "web", "--env", "GREETING=it's $me", "--label", "team=blue")
    assert len(tendon.boxes()) == 1
    assert tendon.ok("exec", "web", "echo $GREETING; pwd") == "it's $me\n/workspace\n"
    assert "listening" in tendon.ok("logs", "web")
    for verb in ("pause", "stop"):
        assert f"{verb}" in tendon(verb, "web").stderr and len(tendon.boxes()) == 1
    (tmp_path / "a.txt").write_text("from here")
    tendon.ok("cp", str(tmp_path / "a.txt"), "web:/tmp/a.txt")
    assert tendon.ok("exec", "web", "cat /tmp/a.txt") == "from here"
    tendon.ok("rm", "web")
    assert tendon.boxes() == []


def test_no_token_is_shown(tendon, service):
    tendon.ok("new", "--name", "web")
    shown = tendon.ok("--json", "inspect", "web")
    assert json.loads(shown)["address"] == service.url and tendon.client.key not in shown


def test_a_hand_that_died_is_put_back(tendon):
    tendon.ok("new", "--name", "web")
    tendon("exec", "web", "kill -9 $(cat ~/.tendon/pid /home/user/.tendon/pid 2>/dev/null)")
    told = tendon("resume", "web")
    assert told.returncode == 0, told.stderr
    assert tendon.ok("exec", "web", "echo here") == "here\n"


def test_its_time_ends(make_tendon, service):
    """Nothing keeps the platform's limit off: it is told as the reason."""
    tendon = make_tendon(service, TENDON_MODAL_TIMEOUT="15")
    tendon.ok("new", "--name", "web")
    eventually(lambda: "running" not in tendon.ok("ls"), "it has ended", 90)
    assert "modal.timeout" in tendon("exec", "web", "true").stderr + tendon.ok("--json", "inspect", "web")


def test_the_first_generation(make_tendon, service):
    tendon = make_tendon(service, MODAL_SANDBOX_V2="0")
    tendon.ok("new", "--name", "web")
    assert tendon.ok("exec", "web", "echo old") == "old\n"


# --- lost and found ----------------------------------------------------------------------------------


def test_what_a_lost_state_knew_is_found_by_its_tags(tendon):
    tendon.ok("new", "--name", "web")
    (tendon.state / "tendon.db").unlink()
    for rest in tendon.state.glob("tendon.db-*"):
        rest.unlink()
    assert "nobody knows it" in tendon.ok("gc")
    assert tendon.boxes() == []


def test_gc_leaves_others_alone(tendon, make_tendon, service):
    other = make_tendon(service)
    own = other.env["MODAL_TOKEN_SECRET"]
    other.env["MODAL_TOKEN_SECRET"] = tendon.env["MODAL_TOKEN_SECRET"]  # one account, two states
    tendon.ok("new", "--name", "web")
    other.ok("gc")
    assert len(tendon.boxes()) == 1 and "web" not in other.ok("ls")
    other.env["MODAL_TOKEN_SECRET"] = own


def test_a_client_that_is_killed_in_mid_create_leaves_nothing(tendon):
    making = tendon.start("new", "--name", "web")
    eventually(lambda: tendon.boxes() or making.poll() is not None, "it is being made", 60)
    finished = making.poll() is not None
    making.kill()
    making.communicate()
    tendon.ok("gc")
    assert len(tendon.boxes()) == finished
    tendon("rm", "web")


# --- ports, profiles, doctor -------------------------------------------------------------------------


def test_ports_have_tunnels(tendon):
    tendon.ok("new", "--name", "web", "-p", "8000")
    assert "://" in tendon.ok("port", "web")


def test_a_profile_is_as_good_as_variables(tendon, tmp_path):
    """As `modal token set` writes it; what is set goes before it."""
    profile = tmp_path / "modal.toml"
    profile.write_text(
        '[other]\ntoken_id = "ak-x"\ntoken_secret = "as-nobody"\n'
        f'[mine]\ntoken_id = "ak-y"\ntoken_secret = "{tendon.client.key}"\n'
        f'server_url = "{tendon.env["MODAL_SERVER_URL"]}"\nactive = true\n'
    )
    profile.chmod(0o600)
    bare = {name: "" for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", "MODAL_SERVER_URL")}
    bare["MODAL_CONFIG_PATH"] = str(profile)
    assert "accepts the key" in tendon.ok("doctor", "--runtime", "modal", env=bare)
    refused = tendon("doctor", "--runtime", "modal", env={**bare, "MODAL_SERVER_URL": tendon.env["MODAL_SERVER_URL"], "MODAL_PROFILE": "other"})
    assert refused.returncode and "does not accept the key" in refused.stdout


def test_doctor(tendon):
    told = tendon.ok("doctor", "--runtime", "modal")
    assert "accepts the key" in told and "clock" in told and "in the clear" in told
    refused = tendon("doctor", "--runtime", "modal", env={"MODAL_TOKEN_SECRET": "nobody"})
    assert refused.returncode and "does not accept the key" in refused.stdout
    missing = tendon("doctor", "--runtime", "modal", env={"MODAL_TOKEN_SECRET": ""})
    assert missing.returncode and "there is no token for Modal" in missing.stdout

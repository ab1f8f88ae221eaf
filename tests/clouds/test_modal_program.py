"""The whole program with sandboxes of a Modal: what all clouds do, and what only this one does, or does not."""

import pytest

from cloud_worlds import Modal
from tendons import eventually
from test_cloud_program import (  # noqa: F401
    tendon,
    test_a_client_that_is_killed_in_mid_create_leaves_nothing,
    test_a_hand_that_is_killed_comes_back,
    test_a_hand_that_is_killed_in_mid_create,
    test_a_name_outlives_the_state,
    test_a_service_that_is_killed_in_mid_create,
    test_doctor,
    test_files,
    test_gc_leaves_others_alone,
    test_no_token_is_shown,
    test_of_two_who_take_it_over_one_does,
    test_what_a_lost_state_knew_is_found_by_its_marks,
    test_what_cannot_be_taken_over_stays,
    test_who_is_killed_while_it_takes_over_has_a_row,
)


@pytest.fixture(scope="module")
def cloud():
    return Modal()


def test_a_life(tendon):
    tendon.ok("new", "--name", "web", "--env", "GREETING=it's $me", "--label", "team=blue")
    assert len(tendon.boxes()) == 1
    assert tendon.ok("exec", "web", "echo $GREETING; pwd") == "it's $me\n/workspace\n"
    assert "listening" in tendon.ok("logs", "web")
    for verb in ("pause", "stop"):
        assert verb in tendon(verb, "web").stderr and len(tendon.boxes()) == 1
    tendon.ok("rm", "web")
    assert tendon.boxes() == []


def test_its_time_ends(make_tendon, service):
    """Nothing keeps the platform's limit off: it is told as the reason."""
    tendon = make_tendon(service, TENDON_MODAL_TIMEOUT="30")  # its create is a part of that
    tendon.ok("new", "--name", "web")
    eventually(lambda: "running" not in tendon.ok("ls"), "it has ended", 120)
    assert "modal.timeout" in tendon("exec", "web", "true").stderr + tendon.ok("--json", "inspect", "web")


def test_the_first_generation(make_tendon, service):
    tendon = make_tendon(service, MODAL_SANDBOX_V2="0")
    tendon.ok("new", "--name", "web")
    assert tendon.ok("exec", "web", "echo old") == "old\n"


# --- ports, profiles -------------------------------------------------------------------------------


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

"""tendon itself on Kubernetes 1.20: made, used, stopped, resumed, removed, cleaned up; causes; what 1.20 has not is refused before anything is made."""

import json

import pytest

from kube_world import run_cluster
from test_kubernetes_faults import test_a_container_that_has_no_memory_left, test_an_image_that_is_not_there  # noqa: F401
from test_kubernetes_program import tendon, test_a_sandbox_from_beginning_to_end, test_killed_in_the_middle_of_a_create  # noqa: F401

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    yield from run_cluster("1.20")


def test_what_doctor_says(world, tendon):  # noqa: F811
    (found,) = [one for one in json.loads(tendon("doctor", "--json")) if one["runtime"] == "kubernetes"]
    told = {f["what"]: f for f in found["findings"]}
    assert "1.20" in told["cluster"]["detail"] and told["cluster"]["good"], told
    assert [f for f in told.values() if f["needed"] and not f["good"]] == []


@pytest.mark.parametrize("words, env, what", [
    (["--network", "allow"], {}, "its gate is a sidecar, which takes Kubernetes 1.29; the cluster is 1.20"),
    ([], {"TENDON_KUBERNETES_HAND_VOLUME": "image"}, "kubernetes.hand_volume: the cluster has no image volumes"),
])  # fmt: skip
def test_what_it_lacks_is_refused_before(world, tendon, words, env, what):  # noqa: F811
    before = world.census()
    tendon.env = {**tendon.env, **env, "TENDON_KUBERNETES_HAND_IMAGE": "example.org/hand:1"}
    with tendon.start("new", *tendon.box, *words) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode != 0 and what in err, err
    assert world.census() == before

"""The storm of tests/runtime/storm.py over sandboxes that are containers of a real dockerd and of Podman: nothing of them may be
left, and containers of others are not touched."""

import os

import pytest
from images import box_tar
from storm import Place, Storm, clear, report


@pytest.fixture
def docker_place(tendon_program, any_engine, static_hand):
    """tendon runs in the engine's network namespace, where published ports are."""
    engine = any_engine
    place = Place(tendon_program, {"DOCKER_HOST": engine.address, "DOCKER_CONFIG": "/nowhere"}, engine.nsenter())
    place.env["TENDON_HAND_PROGRAM"] = str(static_hand)
    yield place
    clear(place, os.listdir(place.state / "sandbox") if (place.state / "sandbox").exists() else [])


def containers(engine, *filters):
    words = [word for text in filters for word in ("--filter", text)]
    return set(engine.docker("ps", "--all", "--quiet", "--no-trunc", *words).split())


def volumes(engine):
    return set(engine.docker("volume", "ls", "--quiet").split())


@pytest.mark.timeout(300)
def test_a_storm_leaves_no_container_and_touches_nobody_else(any_engine, docker_place):
    engine = any_engine
    image = engine.load("storm-box", box_tar(engine.base / "storm-box.tar"))
    seed = os.environ.get("TN_STORM_SEED", "1")
    idle = ["--entrypoint", "/bin/busybox", image, "sleep", "1000000"]
    bystanders = {
        engine.docker("run", "--detach", *idle),
        engine.docker("run", "--detach", "--label", "tendon.id=storm00001", "--label", "tendon.state=other", *idle),
    }
    before, before_volumes = containers(engine), volumes(engine)
    must = ["--image", image, "--hand-arg=--shell", "--hand-arg=sh"]
    storm = Storm(docker_place, {"docker": (must, [])}, [], seed, 60, workers=3, longest=1)
    try:
        storm.rage()
        left = storm.calm()
        assert not storm.problems, "\n".join(storm.problems)
        assert not left, f"seed {seed}: left behind:\n{report(left)}"
        assert containers(engine) == before, f"seed {seed}"
        assert volumes(engine) == before_volumes
        assert bystanders <= containers(engine, "status=running")
        assert "new" in storm.succeeded()
    finally:
        engine.docker("rm", "--force", *bystanders)

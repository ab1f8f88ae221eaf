"""Sandboxes as containers of dockerd and of Podman: from every state to every other, and whose they are."""

import concurrent.futures
import json
import re

import pytest

from conformance import Refusal, Sandbox, wait_until

# The conformance suite has the others for dockerd.
STATES = [("docker", "created"), ("docker", "killed")]
STATES += [("podman", state) for state in ("created", "running", "paused", "stopped", "killed")]
GOALS = ["running", "paused", "stopped", "gone"]
AFTER = {"gone": "missing"}


def bring(world, box, state):
    """Puts the container into a state without the backend where the backend has no such state."""
    name = world.container(box)["Id"]
    if state in ("paused", "stopped"):
        box.drive(state)
    elif state == "killed":
        world.docker("kill", name)
    elif state == "created":
        # As a create leaves it that is killed before the start.
        config = world.container(box)["Config"]
        labels = [f"--label={key}={value}" for key, value in config["Labels"].items()]
        run = box.driver.world.state / "sandbox" / box.id
        world.docker("rm", "--force", name)
        world.docker(
            "create",
            *labels,
            f"--volume={run}/hand:/.tendon/hand:ro",
            f"--volume={run}/run:/.tendon/run",
            "--user=0:0",
            "--entrypoint=/.tendon/hand",
            world.image,
            *config["Cmd"],
        )


@pytest.mark.parametrize("any_engine, state", STATES, indirect=["any_engine"])
def test_from_every_state_to_every_goal(world, driver, state):
    for goal in GOALS:
        box = world.new(driver)
        bring(world, box, state)
        if state == "created":
            assert box.status() == "stopped"
        if state == "killed":
            place = box("inspect")
            assert (place["status"], place["reason"]) == ("error", "killed by signal 9 (KILL)")
        # A container that ended by itself stays what it is: there is nothing to stop.
        expected = AFTER.get(goal, goal)
        assert box.drive(goal) == expected
        if goal == "gone":
            assert world.containers(f"label=tendon.id={box.id}") == []
            continue
        assert (box.drive(goal), box.status()) == (expected, expected)
        if goal == "running":
            assert box.ok("echo works") == "works"
        box.drive("gone")


def test_files_and_processes_survive_what_they_should(box):
    box.ok("echo kept > file; sleep 1000 & echo $! > pid")
    box.drive("paused")
    box.drive("running")
    assert box.ok("kill -0 $(cat pid); cat file") == "kept"
    box.drive("stopped")
    box.drive("running")
    assert box.ok("cat file") == "kept"
    assert box.run("kill -0 $(cat pid)")[0] != 0


def test_paused_again_at_once(box):
    """The engine may tell of the resumption once more when it has been paused since."""
    for _ in range(20):
        assert box.drive("paused") == "paused"
        assert box.drive("running") == "running"
    assert box.ok("echo alive") == "alive"


def test_the_hand_ends_in_order(world, box):
    box.drive("stopped")
    assert world.container(box)["State"]["ExitCode"] == 0
    assert "stopping" in box.logs()


def test_gone_twice_and_never_there(world, driver, box):
    box.drive("gone")
    ghost = world.new(driver, create=False)
    assert ghost.status() == "missing"
    with pytest.raises(Refusal, match="no container any more") as refusal:
        ghost.drive("running")
    assert refusal.value.code == "not_found"
    assert ghost.drive("gone") == "missing"


def test_removed_twice_at_once(world):
    first, second = world.open(), world.open()
    for _ in range(3):
        box = world.new(first)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            goals = [pool.submit(box.seen_by(driver), "drive", goal="gone") for driver in (first, second)]
            answers = [goal.exception() or goal.result()["status"] for goal in goals]
        # The one that came later may find that the driver has forgotten the sandbox.
        assert "missing" in answers and all(answer == "missing" or answer.code == "not_found" for answer in answers)
        assert world.containers(f"label=tendon.id={box.id}") == []


def test_the_engine_restarted_it(world, box):
    world.docker("restart", "--time=5", world.container(box)["Id"])
    wait_until(lambda: box.driver.ask("ready", id=box.id)["ok"], 20, "the hand is back")
    assert box.ok("echo again") == "again"


# --- whose it is --------------------------------------------------------------------------------------


def test_another_process_takes_over(world, driver):
    box = world.new(driver, own=False)
    box.ok("cd /tmp; export HERE=yes")
    driver.kill()
    box = box.seen_by(world.open())
    assert box.status() == "running"
    assert box.ok("pwd; echo $HERE") == "/tmp\nyes"


def test_killed_while_it_makes_one(world):
    """At any moment: what is there by then is found by its labels, without a note of where it is."""
    for _ in range(4):
        driver = world.open()
        box = world.new(driver, create=False)
        driver.process.stdin.write(json.dumps({"do": "create", "id": box.id}) + "\n")
        driver.process.stdin.flush()
        wait_until(lambda: world.containers(f"label=tendon.id={box.id}"), 20, "a container")
        driver.kill()
        box = box.seen_by(world.open())
        assert box.id in box.driver("list")["ids"]
        assert box.status() != "missing"  # its hand may have noticed that it has no owner any more
        box.drive("gone")
        assert world.containers(f"label=tendon.id={box.id}") == []


def test_stores_share_an_engine(world, box, static_hand):
    other = type(world)(world.engine, world.image, static_hand)
    try:
        theirs = other.new(other.open())
        assert box.driver("list")["ids"] == [box.id]
        assert theirs.driver("list")["ids"] == [theirs.id]
        # Even one who knows its id does not get at it.
        thief = Sandbox(box.driver, theirs.id)
        thief("subject", spec=world.spec)
        assert thief.status() == "missing"
        thief.drive("gone")
        assert theirs.ok("echo still") == "still"
        theirs.drive("gone")
        assert (box.status(), box.ok("echo here")) == ("running", "here")
    finally:
        other.finish()


def test_containers_of_others_are_left_alone(world, driver):
    box = world.new(driver, create=False)
    foreign = world.docker("create", f"--name=tendon-{box.id}", world.image)
    try:
        with pytest.raises(Refusal) as refusal:
            box.create()
        assert f"tendon-{box.id}" in refusal.value.text
        assert refusal.value.code == ("conflict" if world.engine.name == "docker" else refusal.value.code)
        assert box.status() == "missing"
        box.drive("gone")
        assert foreign in world.containers()
    finally:
        world.docker("rm", foreign)


def test_a_name_that_begins_like_another(world, driver):
    """Who ends `a` does not end `ab`."""
    one, other = (world.new(driver, name=f"{world.mark}{end}") for end in ("a", "ab"))
    one.drive("gone")
    assert other.status() == "running" and other.ok("echo here") == "here"


def test_many_at_once(world):
    drivers = [world.open() for _ in range(3)]
    boxes = [world.new(driver, create=False) for driver in drivers for _ in range(2)]

    def bring_up(driver):
        for box in boxes:
            if box.driver is driver:
                box.create()
                assert box.ok("echo $((6 * 7))") == "42"

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(bring_up, drivers))
    assert sorted(drivers[0]("list")["ids"]) == sorted(box.id for box in boxes)


# --- why it ended -------------------------------------------------------------------------------------


def test_a_hand_that_does_not_start_says_why(world, driver):
    with pytest.raises(Refusal, match="ended with status 2: .*unknown flag --nonsense"):
        world.new(driver, hand_args=["--nonsense"])
    assert world.containers("label=tendon.id") == []


def test_out_of_memory_is_named(docker_world):
    world = docker_world
    box = world.new(world.open(), memory="32m")
    code, _ = box.run("x=a; while :; do x=$x$x; done")
    assert code == 137
    reason = wait_until(lambda: box("inspect")["reason"], 20, "the engine tells of it")
    assert re.fullmatch(r"processes were killed: out of memory \(limit 32 MiB\), \d+ times?", reason)
    assert box.status() == "running"
    assert box.ok("echo alive") == "alive"


def test_the_process_limit_is_named(world, driver):
    """Container engines do not tell; the hand sees what its control group counts."""
    named = "\n[The sandbox reports: process limit of 24 reached]"
    box = world.new(driver, pids=24)

    def told(command):
        metadata = box("run", command=command)["observation"]["extras"]["metadata"]
        return metadata["exit_code"], metadata["suffix"]

    assert named not in told("false")[1]
    code, suffix = told("sh -c 'for i in 1 2 3 4 5 6; do for k in 1 2 3 4 5; do sleep 30 & done; done' 2>/dev/null")
    assert code != 0 and suffix.endswith(named)
    assert named not in told("false")[1], "told once"
    assert box.status() == "running"


def test_the_end_by_lack_of_memory_is_named(docker_world):
    driver = docker_world.open()
    box = docker_world.new(driver, memory="24m", user="root")
    # The likeliest victim is killed; let the hand itself be that.
    driver.ask("run", id=box.id, command="echo 1000 > /proc/1/oom_score_adj; head -c 40m /dev/zero | tail")
    # The first who sees its end is told why, although the engine hears of the memory later.
    ended = wait_until(lambda: (seen := box("inspect"))["status"] == "error" and seen, 20, "the container ends")
    assert ended["reason"] == "killed: out of memory (limit 24 MiB)"
    assert box.drive("running") == "running"
    assert (box.ok("echo back"), box("inspect")["reason"]) == ("back", None)

"""From every state to every goal, and what stays on the way."""

import itertools
import subprocess
import sys

import pytest

from conformance import Refusal

STATES = {"running": None, "paused": "pause", "stopped": "stop"}  # and the ability that it takes


def reachable(driver):
    return [state for state, ability in STATES.items() if not ability or ability in driver.abilities]


def test_every_state_to_every_goal(box, driver):
    """Twice each: the second time nothing changes."""
    for state, goal in itertools.product(reachable(driver), repeat=2):
        assert box.drive(state) == state
        for _ in range(2):
            assert box.drive(goal) == goal, (state, goal)
            assert box.status() == goal, (state, goal)
    assert box.drive("running") == "running"
    assert box.ok("echo works") == "works"


def test_gone_from_every_state(world, driver):
    for state in reachable(driver):
        box = world.new(driver)
        box.drive(state)
        answer = box("drive", goal="gone")
        assert (answer["status"], answer["address"]) == ("missing", None), state
        assert box.id not in driver("list")["ids"]


def test_gone_of_what_never_was(world, driver):
    box = world.new(driver, create=False)
    assert box.status() == "missing"
    assert box.drive("gone") == "missing"


def test_files_survive_a_stop_and_shells_do_not(box):
    if "stop" not in box.driver.abilities:
        pytest.skip("this backend does not stop")
    box.ok("echo kept >file; lost=1")
    box.drive("stopped")
    box.drive("running")
    assert box.ok('cat file; echo "<$lost>"') == "kept\n<>"


def test_a_stopped_sandbox_has_no_address(box):
    if "stop" not in box.driver.abilities:
        pytest.skip("this backend does not stop")
    assert box("inspect")["address"]
    box.drive("stopped")
    answer = box("inspect")
    assert (answer["status"], answer["address"]) == ("stopped", None)


def ticks(box):
    return int(box("exec", argv=["sh", "-c", "wc -l <ticks"])["output"])


@pytest.mark.parametrize("shell", ["sh", "env -i sh"])
def test_a_running_process_stands_still_while_paused(box, driver, shell):
    """Also one without an environment, as every one is for a moment when it becomes another program."""
    if "pause" not in driver.abilities:
        pytest.skip("this backend does not pause")
    box.ok(f"{shell} -c 'while :; do echo x >>ticks; sleep 0.02; done' >/dev/null 2>&1 &")
    box.ok("until [ -s ticks ]; do sleep 0.01; done")
    assert box.drive("paused") == "paused"
    if driver.ask("exec", id=box.id, argv=["true"])["ok"]:  # some freeze what comes later, too
        before = ticks(box)
        box("exec", argv=["sleep", "0.2"])
        assert ticks(box) == before
    box.drive("running")
    count = int(box.ok("wc -l <ticks"))
    box.ok(f"until [ $(wc -l <ticks) -gt {count} ]; do sleep 0.01; done")


NAMELESS = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'\\xff)\\n('); print(flush=True); time.sleep(600)"


def test_names_of_other_processes_do_not_matter(box, driver):
    """Any bytes can be one."""
    with subprocess.Popen([sys.executable, "-c", NAMELESS], stdout=subprocess.PIPE) as other:
        try:
            other.stdout.readline()
            for goal in reachable(driver):
                assert box.drive(goal) == goal == box.status()
            assert box.drive("running") == "running"
            assert box.ok("echo works") == "works"
        finally:
            other.kill()


def test_a_command_goes_on_after_a_pause(box, driver):
    """The shell that waits for it must not take it for stopped."""
    if "pause" not in driver.abilities:
        pytest.skip("this backend does not pause")
    box.act("run", command="until [ -e go ]; do sleep 0.02; done; echo went", timeout=0.5)
    box.drive("paused")
    box.drive("running")
    box("exec", argv=["touch", "go"])
    observation = box.act("run", command="", timeout=20)
    assert observation["extras"]["metadata"]["exit_code"] == 0, observation
    assert "went" in observation["content"]


def test_suspend_says_that_it_cannot(box, driver):
    if "suspend" in driver.abilities:
        pytest.skip("this backend suspends")
    with pytest.raises(Refusal) as refusal:
        box.drive("suspended")
    assert refusal.value.code == "unsupported"
    assert box.status() == "running"


def test_many_at_once(world):
    """Creates from several processes at the same time do not meet."""
    drivers = [world.open() for _ in range(4)]
    boxes = [world.new(driver, create=False) for driver in drivers for _ in range(2)]
    for box in boxes[::2]:
        box.driver.process.stdin.write('{"do": "create", "id": "%s"}\n' % box.id)
        box.driver.process.stdin.flush()
    for box in boxes[::2]:
        assert box.driver.answer(60)["status"] == "running"
    for box in boxes[1::2]:
        box.create()
    assert [box.ok(f"echo {box.id}") for box in boxes] == [box.id for box in boxes]
    assert set(drivers[0]("list")["ids"]) >= {box.id for box in boxes}


def test_two_states_do_not_see_each_other(make_world, box, world, driver):
    other = make_world(world.runtime)
    other.spec, other.settings = world.spec, world.settings
    assert box.id in driver("list")["ids"]
    assert box.id not in other.open()("list")["ids"]

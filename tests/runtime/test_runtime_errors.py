"""What cannot be is said clearly, and leaves nothing behind."""

import pytest

from conformance import Refusal, wait_until

LIMITS = {"memory": "64m", "cpus": 0.5, "pids": 64, "file_size": "1m", "open_files": 64, "disk": "64m", "wall_time": 60}


def refused(world, driver, **spec):
    with pytest.raises(Refusal) as refusal:
        world.new(driver, **spec)
    return refusal.value


def test_a_limit_is_refused_by_name_where_there_are_none(world, driver):
    if "limit" in driver.abilities:
        pytest.skip("this backend has limits")
    for field, value in LIMITS.items():
        if field in world.sizes:
            continue
        refusal = refused(world, driver, **{field: value})
        assert (refusal.code, field in refusal.text) == ("unsupported", True), refusal


def test_an_image_is_used_or_refused_by_name(world, driver):
    refusal = refused(world, driver, image="no/such-image:ever")
    assert refusal.code in ("unsupported", "not_found", "invalid", "io"), refusal
    assert "image" in refusal.text or "no/such-image" in refusal.text


def test_network_none_is_kept_or_refused_by_name(world, driver):
    if "network_none" in driver.abilities:
        box = world.new(driver, network="none")
        assert box.ok("grep -cv lo: /proc/net/dev") == "2"
    else:
        refusal = refused(world, driver, network="none")
        assert (refusal.code, "network" in refusal.text) == ("unsupported", True)


def test_a_device_is_passed_or_refused_by_name(world, driver):
    if "isolate" in driver.abilities:
        refusal = refused(world, driver, devices=["/dev/no-such-device"])
    else:
        refusal = refused(world, driver, devices=["/dev/null"])
    assert "device" in refusal.text


def test_a_failed_create_leaves_nothing(world, driver):
    refused(world, driver, image="no/such-image:ever")
    # The World proves at its end that no process, directory or mark is left.


def test_a_bad_argument_of_the_hand_is_told(world, driver):
    """The hand does not come up: whoever waits for it hears why."""
    try:
        box = world.new(driver, hand_args=["--no-such-flag"])
    except Refusal as refusal:  # a backend may wait for the hand itself
        assert "no-such-flag" in refusal.text
        return
    assert not driver.ask("ready", id=box.id, timeout=2)["ok"]
    wait_until(lambda: box.status() in ("error", "missing", "stopped"), what="the end is noticed")
    assert "no-such-flag" in (box("inspect")["reason"] or "") + box.logs()


def test_unknown_names_list_the_known(make_world):
    driver = make_world("local").open()
    answer = driver.ask("open", runtime="lokal")
    assert answer["code"] == "not_found"
    for name in ("local", "cli", "example"):
        assert name in answer["error"]
    assert "did you mean local" in answer["error"]


def test_odd_names_are_unknown(make_world):
    driver = make_world("local").open()
    for name in ("../local", "a/b", "", "x" * 80, "-x", "local ", "example\n"):
        assert driver.ask("open", runtime=name)["code"] == "not_found", name

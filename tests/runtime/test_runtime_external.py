"""Runtimes that are programs of their own: how they are found, and what happens when they misbehave."""

import pytest

from conformance import Refusal, kill_wholly, marked, wait_until

# A program that answers what it must; METHODS overrides or adds some.
PROGRAM = """#!/usr/bin/python3
import json, os, sys, time
note = open({log!r}, "a")
def describe(p): return {{"protocol": 1, "summary": "of a test", "abilities": ["stop", "telepathy"], "methods": ["exec", "put"]}}
def open_(p): return {{}}
def list_(p): return {{"ids": []}}
def drive(p): return {{"status": "missing"}}
{methods}
for line in sys.stdin:
    q = json.loads(line)
    print(q["method"], file=note, flush=True)
    f = globals().get(q["method"] + "_") or globals().get(q["method"])
    try:
        answer = {{"result": f(q["params"])}}
    except KeyError as e:
        answer = {{"error": {{"code": -1, "message": "no " + str(e), "data": {{"code": "not_found"}}}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": q["id"], **answer}}), flush=True)
"""


@pytest.fixture
def world(make_world):
    return make_world("local")


@pytest.fixture
def plug(world):
    """plug(methods) installs the runtime `odd` and opens it."""
    directory = world.base / "plugins"
    directory.mkdir()
    world.settings["tendon.runtime_path"] = str(directory)

    def plug(methods="", name="odd"):
        path = directory / f"tendon-runtime-{name}"
        path.write_text(PROGRAM.format(log=str(world.base / "calls"), methods=methods))
        path.chmod(0o755)
        return world.open(name)

    plug.calls = lambda: (world.base / "calls").read_text().split()
    plug.directory = directory
    return plug


def subject(world, driver):
    return world.new(driver, create=False)


def refusal_of(call, *args, **kw):
    with pytest.raises(Refusal) as refusal:
        call(*args, **kw)
    return refusal.value


def test_one_that_is_found_is_described_then_opened(plug):
    driver = plug()
    assert driver.abilities == {"stop"}  # an ability nobody knows is no error
    assert plug.calls()[:2] == ["describe", "open"]


def test_the_own_path_counts_before_the_general_one(world, plug):
    driver = plug(name="example")
    assert driver("list")["ids"] == []
    assert "list" in plug.calls()


def test_a_built_in_name_cannot_be_taken(world, plug):
    plug(name="local")
    assert not (world.base / "calls").exists()


def test_what_is_not_executable_is_not_found(world, plug):
    plug.directory.joinpath("tendon-runtime-plain").write_text("#!/bin/sh\n")
    plug.directory.joinpath("tendon-runtime-folder").mkdir()
    driver = world.open()
    for name in ("plain", "folder"):
        assert driver.ask("open", runtime=name)["code"] == "not_found"


def test_its_errors_keep_their_code_and_message(world, plug):
    driver = plug('def create(p): return p["subject"]["no such member"]')
    refusal = refusal_of(subject(world, driver).create)
    assert (refusal.code, "no such member" in refusal.text) == ("not_found", True)


def test_a_crash_names_the_program_and_its_last_words(world, plug):
    driver = plug('def create(p): print("first", file=sys.stderr); sys.exit("I lost my engine")')
    box = subject(world, driver)
    refusal = refusal_of(box.create)
    assert "tendon-runtime-odd" in refusal.text
    assert "I lost my engine" in refusal.text
    assert "exit code 1" in refusal.text


def test_after_a_crash_it_is_started_again(world, plug):
    once = world.base / "once"
    driver = plug(f"""
def create(p):
    if not os.path.exists({str(once)!r}):
        open({str(once)!r}, "w").close(); os._exit(9)
    return {{"status": "running", "address": "unix:/nowhere", "ref": {{"a": [1, "x"]}}}}
""")
    box = subject(world, driver)
    assert "exit code 9" in refusal_of(box.create).text
    answer = box.create()
    assert (answer["status"], answer["ref"]) == ("running", {"a": [1, "x"]})
    assert plug.calls().count("open") == 2


def test_one_that_died_while_idle_is_replaced(world, plug):
    driver = plug("def exec_(p): return {'output': '', 'status': 0}")
    box = subject(world, driver)
    box("exec", argv=["true"])
    for pid in marked(f"{plug.directory}/tendon-runtime-odd", environment=False):
        kill_wholly(pid)
    box("exec", argv=["true"])


def test_one_that_does_not_answer_is_given_up_in_time(world, plug):
    driver = plug("def exec_(p): __import__('signal').pause()")
    box = subject(world, driver)
    refusal = refusal_of(box, "exec", argv=["true"], timeout=1)
    assert (refusal.code, "did not answer exec in time" in refusal.text) == ("timeout", True)
    wait_until(lambda: not marked(f"{plug.directory}/tendon-runtime-odd", environment=False), what="it was killed")


def test_the_time_left_is_told(world, plug):
    driver = plug("def exec_(p): return {'output': '', 'status': int(p['timeout'])}")
    assert subject(world, driver)("exec", argv=["true"], timeout=15)["status"] == 14


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"jsonrpc": "2.0", "id": 99, "result": {}}', "null"])
def test_nonsense_breaks_it(world, plug, line):
    driver = plug(f"def exec_(p): print({line!r}, flush=True); return {{}}")
    refusal = refusal_of(subject(world, driver), "exec", argv=["true"])
    assert (refusal.code, "tendon-runtime-odd" in refusal.text) == ("peer", True), refusal


def test_a_line_without_end_is_cut_off(world, plug):
    driver = plug("""
def exec_(p):
    try:
        while True: sys.stdout.write("x" * 65536)
    except BrokenPipeError: os._exit(0)
""")
    assert refusal_of(subject(world, driver), "exec", argv=["true"]).code == "too_large"


def test_answers_that_make_no_sense(world, plug):
    driver = plug("""
def create(p): return {"status": "dancing"}
def exec_(p): return {"output": "not base64!", "status": 0}
def list_(p): return {"ids": 5}
""")
    box = subject(world, driver)
    assert "dancing" in refusal_of(box.create).text
    assert "exec" in refusal_of(box, "exec", argv=["true"]).text
    assert "list" in refusal_of(driver, "list").text


def test_what_it_lacks_is_unsupported(world, plug):
    driver = plug()
    box = subject(world, driver)
    for verb, members in (("logs", {}), ("usage", {}), ("url", {"port": 1}), ("snapshot", {"name": "x"})):
        assert refusal_of(box, verb, **members).code == "unsupported", verb


def test_progress_is_passed_on(world, plug):
    driver = plug("""
def exec_(p):
    print(json.dumps({"jsonrpc": "2.0", "method": "progress", "params": {"text": "half way"}}), flush=True)
    return {"output": "", "status": 0}
""")
    subject(world, driver)("exec", argv=["true"])
    assert driver.progress == ["half way"]


def test_much_goes_both_ways_at_once(world, plug):
    """A megabyte in while it talks on all its channels: nobody waits for the other for ever."""
    driver = plug("""
def put(p):
    sys.stderr.write("e" * 300000 + "\\n"); sys.stderr.flush()
    return {}
""")
    subject(world, driver)("put", path="/x", text="y" * 1_000_000)


def test_another_protocol_is_refused(plug):
    refusal = refusal_of(plug, "def describe(p): return {'protocol': 2}")
    assert (refusal.code, "version 1" in refusal.text) == ("unsupported", True)


def test_an_engine_that_is_down_is_told_at_open(plug):
    refusal = refusal_of(plug, "def open_(p): return p['engine']")
    assert (refusal.code, "odd" in refusal.text) == ("not_found", True)


def test_it_ends_with_whoever_started_it(world, plug):
    driver = plug()
    assert marked(f"{plug.directory}/tendon-runtime-odd", environment=False)
    driver.kill()
    wait_until(lambda: not marked(f"{plug.directory}/tendon-runtime-odd", environment=False))

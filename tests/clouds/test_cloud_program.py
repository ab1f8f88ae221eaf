"""The whole program with sandboxes of each cloud, from new to gc; and who is killed when."""

import contextlib
import email.utils
import json
import os
import pathlib
import shutil
import signal
import time

import pytest

from tendons import eventually


@pytest.fixture
def tendon(make_tendon, service):
    return make_tendon(service)


def ids(tendon):
    return [box[tendon.cloud.id] for box in tendon.boxes()]


def test_a_life(tendon):
    tendon.ok("new", "--name", "web", "--env", "GREETING=it's $me", "--label", "team=blue")
    (box,) = tendon.boxes()
    marks = box[tendon.cloud.marks]
    assert marks["tendon.session"] == "web" and marks["team"] == "blue"
    assert tendon.ok("exec", "web", "echo $GREETING; pwd") == "it's $me\n/workspace\n"
    assert "listening" in tendon.ok("logs", "web")
    tendon.ok("exec", "-s", "main", "web", "echo kept >file; x=5")
    tendon.ok("stop", "web")
    (box,) = tendon.boxes()
    assert box.get("state", box.get("status")) == {"e2b": "paused", "daytona": "stopped", "runloop": "suspended"}[tendon.cloud.name]
    assert "stopped" in tendon.ok("ls")
    assert "tendon resume web" in tendon.fails(73, "exec", "web", "true")
    tendon.ok("resume", "--quiet", "web")
    assert tendon.ok("exec", "-s", "main", "web", "cat file; echo \"<$x>\"") == "kept\n<>\n"
    tendon.ok("rm", "web")
    assert tendon.boxes() == []


def test_no_token_is_shown(tendon, service):
    tendon.ok("new", "--name", "web")
    told = json.loads(tendon.ok("--json", "inspect", "web"))
    (box,) = ids(tendon)
    shown = json.dumps(told)
    assert told["address"].startswith(service.url)
    for secret in (*tendon.cloud.secrets(tendon.client, box), tendon.client.key):
        assert secret not in shown


def test_files(tendon, tmp_path):
    tendon.ok("new", "--name", "web")
    (tmp_path / "a.txt").write_text("from here")
    tendon.ok("cp", str(tmp_path / "a.txt"), "web:/tmp/a.txt")
    assert tendon.ok("exec", "web", "cat /tmp/a.txt") == "from here"
    back = tmp_path / "b.txt"
    tendon.ok("cp", "web:/tmp/a.txt", str(back))
    assert back.read_text() == "from here"


def uploads(tendon, service):
    return sum(line.get("path", "").endswith(tendon.cloud.upload) for line in service.log_lines())


def test_the_second_start_uploads_nothing(tendon, service):
    tendon.ok("new", "--name", "web")
    before = uploads(tendon, service)
    assert before
    tendon.ok("stop", "web")
    tendon.ok("resume", "--quiet", "web")
    assert tendon.ok("exec", "web", "echo works") == "works\n"
    assert uploads(tendon, service) == before


def test_a_cloud_that_is_silent_is_asked_for_all_at_once(own_service, make_tendon):
    """`ls` waits for it some seconds, not as often as it has sandboxes there."""
    tendon = make_tendon(own_service)
    names = [f"web{n}" for n in range(5)]
    for name in names:
        tendon.ok("new", "--name", name)
    listed = [row["name"] for row in json.loads(tendon.ok("--json", "ls"))]
    assert sorted(listed) == names
    os.kill(own_service.process.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        assert [row["name"] for row in json.loads(tendon.ok("--json", "ls"))] == listed
        took = time.monotonic() - begun
    finally:
        os.kill(own_service.process.pid, signal.SIGCONT)
    assert took < 18, took  # 5 seconds for each, one after the other, were 25


# --- lost and found ----------------------------------------------------------------------------------


def test_what_a_lost_state_knew_is_found_by_its_marks(tendon):
    tendon.ok("new", "--name", "web")
    (tendon.state / "tendon.db").unlink()
    for rest in tendon.state.glob("tendon.db-*"):
        rest.unlink()
    assert "nobody knows it" in tendon.ok("gc")
    assert tendon.boxes() == []


# --- a name outlives the state ---------------------------------------------------------------------


TAKEN = " had one of that name: it is taken over, with its files\n"


def lose(tendon):
    shutil.rmtree(tendon.state)
    assert tendon.ok("ls", "-q") == ""


def take_over(tendon, name, **kwargs):
    taken = tendon("new", "--name", name, timeout=120, **kwargs)
    assert taken.returncode == 0 and taken.stderr.startswith(f"tendon: {tendon.cloud.name}{TAKEN}"), taken
    return taken


def test_a_name_outlives_the_state(tendon):
    tendon.ok("new", "--name", "web")
    own = tendon.json("inspect", "web")["id"]
    tendon.ok("exec", "web", "echo kept >file")
    (before,) = ids(tendon)
    tendon.ok("new", "--name", "other")
    lose(tendon)
    take_over(tendon, "web")
    assert tendon.json("inspect", "web")["id"] == own
    assert len(ids(tendon)) == 2 and before in ids(tendon)
    assert tendon.ok("exec", "web", "cat file") == "kept\n"
    assert "nobody knows it" in tendon.ok("gc")  # the other, which nobody has asked for
    assert ids(tendon) == [before]
    assert tendon.ok("exec", "web", "cat file") == "kept\n"
    assert "web" in tendon.fails(73, "new", "--name", "web")  # it has a row now
    tendon.ok("rm", "web")
    assert tendon.boxes() == []


def test_what_ends_with_its_command_takes_nothing_over(tendon):
    tendon.ok("new", "--name", "web")
    before = ids(tendon)
    lose(tendon)
    tendon.ok("run", "--name", "web", "true")
    assert ids(tendon) == before


def test_of_two_who_take_it_over_one_does(tendon):
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "web", "echo kept >file")
    before = ids(tendon)
    lose(tendon)
    both = [tendon.start("new", "--name", "web") for _ in range(2)]
    told = [(one.communicate(timeout=120), one.returncode) for one in both]
    assert sorted(code for _, code in told) == [0, 73], told
    assert ids(tendon) == before
    assert tendon.ok("exec", "web", "cat file") == "kept\n"


def test_who_is_killed_while_it_takes_over_has_a_row(tendon):
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "web", "echo kept >file")
    before = ids(tendon)
    lose(tendon)
    making = tendon.start("new", "--name", "web")
    eventually(lambda: tendon.ok("ls", "-q"), "it has a row", 60)
    making.kill()
    making.communicate()
    tendon.ok("gc")
    tendon.ok("resume", "--quiet", "web")
    assert tendon.ok("exec", "web", "cat file") == "kept\n"
    assert ids(tendon) == before


def test_what_cannot_be_taken_over_stays(tendon, tmp_path):
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "web", "echo kept >file")
    before = ids(tendon)
    lose(tendon)
    (tmp_path / "tendon-hand").write_text("#!/bin/sh\n" + "#" * 100)
    (tmp_path / "tendon-hand").chmod(0o755)
    failed = tendon("new", "--name", "web", env={"TENDON_HAND_PROGRAM": str(tmp_path / "tendon-hand")})
    assert failed.returncode and "it was there under that name" in failed.stderr, failed
    assert tendon.ok("ls", "-q") == "" and ids(tendon) == before
    take_over(tendon, "web")
    assert tendon.ok("exec", "web", "cat file") == "kept\n"


def test_one_that_rests_is_woken(tendon):
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "web", "echo kept >file")
    tendon.ok("stop", "web")
    before = ids(tendon)
    lose(tendon)
    take_over(tendon, "web")
    assert ids(tendon) == before
    assert tendon.ok("exec", "web", "cat file") == "kept\n"


def test_of_two_the_newest_that_runs_is_taken_over(tendon):
    """Its twin was made by whoever copied the marks."""
    cloud = tendon.cloud
    tendon.ok("new", "--name", "web")
    (old,) = tendon.boxes()
    marks = {**old[cloud.marks], "tendon.id": "a123456789"}
    answer = tendon.client.post(cloud.CREATE[1], {**cloud.wish, cloud.marks: marks})
    assert answer.status in (200, 201), answer.text
    lose(tendon)
    taken = take_over(tendon, "web")
    assert tendon.json("inspect", "web")["id"] == "a123456789" and "1 more of that name" in taken.stderr
    assert "nobody knows it" in tendon.ok("gc")
    assert ids(tendon) == [answer.json[cloud.id]]


def test_gc_leaves_others_alone(tendon, make_tendon, service):
    other = make_tendon(service)
    variable = tendon.cloud.variable
    other.env[variable] = tendon.env[variable]  # one account, two states
    strange = tendon.account.make()
    tendon.ok("new", "--name", "web")
    other.ok("gc")
    assert len(tendon.boxes()) == 2
    tendon.ok("gc")
    assert len(tendon.boxes()) == 2
    tendon.account.remove(strange)


@pytest.mark.parametrize("moment", [0, 0.1, 0.4, 1.0])
def test_a_client_that_is_killed_in_mid_create_leaves_nothing(tendon, moment):
    making = tendon.start("new", "--name", "web")
    eventually(lambda: tendon.boxes() or making.poll() is not None, "it is being made", 60)
    deadline = time.monotonic() + moment
    while making.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    making.kill()
    making.communicate()
    assert len(tendon.boxes()) == 1
    tendon.ok("gc")
    # One that was made before its client was killed is there, and works.
    whole = len(tendon.ok("ls", "-q").split())
    assert len(tendon.boxes()) == whole and whole >= (making.returncode == 0)
    if whole:
        assert tendon.ok("exec", "web", "echo works") == "works\n"
    tendon("rm", "web")


def test_a_service_that_is_killed_in_mid_create(own_service, make_tendon):
    tendon = make_tendon(own_service)
    making = tendon.start("new", "--name", "web")
    eventually(lambda: tendon.boxes() or making.poll() is not None, "it is being made", 60)
    own_service.restart(kill=True)
    making.communicate(timeout=120)
    assert len(tendon.boxes()) <= 1
    if making.returncode == 0:
        assert tendon.ok("exec", "web", "echo works") == "works\n"
    else:
        tendon.ok("gc")
        assert tendon.boxes() == []
        tendon.ok("new", "--name", "web")
    assert len(tendon.boxes()) == 1


def hands_with(mark):
    """Processes of hands that a client has started inside, with that in their environment."""
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            program, *args = (entry / "cmdline").read_bytes().split(b"\0")
            if program.endswith(b"tendon-hand") and b"--key-digest" in args and mark.encode() in (entry / "environ").read_bytes():
                yield int(entry.name)


def test_a_hand_that_is_killed_in_mid_create(tendon):
    """As soon as it is there: before its first answer, unless the machine is very busy."""
    mark = f"killed-{os.urandom(8).hex()}"
    making = tendon.start("new", "--name", "web", "--env", f"MARK={mark}")
    deadline = time.monotonic() + 60
    while not (hands := list(hands_with(mark))) and making.poll() is None and time.monotonic() < deadline:
        pass
    for pid in hands:
        os.kill(pid, signal.SIGKILL)
    _, told = making.communicate(timeout=30)
    assert hands and len(tendon.boxes()) == (making.returncode == 0), told
    if making.returncode == 0:  # it had answered before it was killed
        tendon.ok("resume", "--quiet", "web", timeout=120)
    else:
        assert "hand" in told, told
        tendon.ok("gc")
        assert tendon.boxes() == [] and tendon.ok("ls", "-q") == ""
        tendon.ok("new", "--name", "web")
    assert tendon.ok("exec", "web", "echo works") == "works\n"
    assert len(tendon.boxes()) == 1


def test_a_hand_that_is_killed_comes_back(tendon):
    tendon.ok("new", "--name", "web")
    tendon.ok("exec", "-s", "main", "web", "echo kept >file")
    before = ids(tendon)
    pid = tendon.ok("exec", "web", "cat ~/.tendon/pid 2>/dev/null || cat /home/*/.tendon/pid").strip()
    tendon("exec", "web", f"kill -9 {pid}", timeout=120)
    tendon.ok("resume", "--quiet", "web", timeout=120)
    assert tendon.ok("exec", "-s", "main", "web", "cat file") == "kept\n"
    assert ids(tendon) == before


# --- doctor ------------------------------------------------------------------------------------------


def test_doctor(tendon):
    cloud = tendon.cloud
    told = tendon.ok("doctor", "--runtime", cloud.name)
    assert "accepts the key" in told and "clock" in told and "in the clear" in told
    refused = tendon("doctor", "--runtime", cloud.name, env={cloud.variable: "e2b_00"})
    assert refused.returncode and "does not accept the key" in refused.stdout
    missing = tendon("doctor", "--runtime", cloud.name, env={cloud.variable: ""})
    assert missing.returncode and f"there is no key for {cloud.who}" in missing.stdout
    assert tendon("new", env={cloud.variable: ""}).stderr.startswith(f"tendon: {cloud.name}: there is no key for {cloud.who}")


def test_doctor_tells_of_clock_and_quota(cloud, tendon, vendor):
    """A vendor whose clock is an hour behind, and that has nothing left for this key."""

    def told(late, left):
        def answer(handler, request):
            handler.date_time_string = lambda: email.utils.formatdate(time.time() - late, usegmt=True)
            return handler.json(200, cloud.page([])[0], X_RateLimit_Remaining=left)

        vendor.behave[cloud.LIST] = answer
        return tendon("doctor", "--runtime", cloud.name, env=cloud.settings(vendor.url, cloud.key)).stdout

    bad = told(3600, "0")
    assert "accepts the key" in bad and "set this machine's clock" in bad and "0 requests left" in bad, bad
    good = told(0, "17")
    assert "set this machine's clock" not in good and "17 requests left" in good, good

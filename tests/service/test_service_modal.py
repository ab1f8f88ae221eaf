"""The surface of Modal on the wire: both gRPC services, refusals, tenants, frames that no good client sends."""

import base64
import concurrent.futures
import contextlib
import hashlib
import re
import sqlite3
import struct
import time
import uuid

import pytest

from modal_wire import (
    DEBIAN, DENIED, EXHAUSTED, EXISTS, INVALID, NOT_FOUND, PRECONDITION, STRANGER, UNAVAILABLE, UNIMPLEMENTED, Wire, create, frame, pack, text,
    unpack, wire,
)
from services import Service, eventually
from trees import ROOT

CONFIG = """
[template.small]
memory = "256m"
plugins = []
env = {GREETING = "hello"}
"""
IDLE = {"idle_pause_seconds": "3600", "idle_stop_seconds": "7200"}  # an operator's limits: sandboxes are made all the same


@pytest.fixture(scope="module")
def service(jail_works, tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("modal"), config=CONFIG, settings=IDLE).start()
    yield service
    service.finish()


@pytest.fixture(scope="module")
def alice(service):
    return wire(service, "alice")


@pytest.fixture(scope="module")
def bob(service):
    return wire(service, "bob")


@pytest.fixture(scope="module")
def image(alice):
    return text(alice.call("ImageGetOrCreate", DEBIAN).one, 1)


@pytest.fixture(scope="module")
def box(alice, image):
    """Its id, that of its task, and the token for the router."""
    return create(alice, image)


def start(client, box, *args, **more):
    name = str(uuid.uuid4())
    fields = [(1, box[1]), (2, name), *((3, arg) for arg in args), *more.get("fields", ())]
    client.router("TaskExecStart", box[2], fields).ok()
    return name


def said(client, box, name, fd=0, offset=0):
    answer = client.router("TaskExecStdioRead", box[2], [(1, box[1]), (2, name), (3, offset), (4, fd)]).ok()
    return b"".join(message.get(1, [b""])[0] for message in answer.messages)


def status(client, box, name):
    return client.router("TaskExecWait", box[2], [(1, box[1]), (2, name)]).one


# --- who may --------------------------------------------------------------------------------------


def test_strangers_learn_nothing(service, alice, box):
    for key in (None, "tnk_000000000000_" + "x" * 43, "nonsense"):
        answer = Wire(service, key).call("AuthTokenGet").ok(STRANGER)
        assert not answer.messages and answer.message
    for token in ("a.b.c", "", box[2][:-2] + "xx"):
        alice.router("TaskExecPoll", token or "none", [(1, box[1]), (2, "x")]).ok(STRANGER)
    Wire(service).router("TaskExecPoll", None, [(1, box[1]), (2, "x")]).ok(STRANGER)  # nor a key: alice's is no token


def test_scopes_are_those_of_the_key(service, image):
    reader = wire(service, "alice", "--scope", "read")
    reader.call("AuthTokenGet").ok()
    reader.call("SandboxList").ok()
    reader.call("SandboxCreateV2", [(2, [(3, image)])]).ok(DENIED)
    reader.call("ImageGetOrCreate", DEBIAN).ok(DENIED)


def test_a_token_ends_with_its_key(service, image):
    key = service.make_key("short", "--tenant", "carol")
    carol = Wire(service, key["key"])
    made = create(carol, image)
    assert status(carol, made, start(carol, made, "true")) == {1: [0]}
    carol.call("SandboxTerminate", [(1, made[0])]).ok()
    assert service.tendon("key", "revoke", "short").returncode == 0
    eventually(lambda: carol.router("TaskExecPoll", made[2], [(1, made[1]), (2, "x")]).status == STRANGER, "revoked")


def test_tenants_do_not_see_each_other(alice, bob, box, image):
    theirs = create(bob, image)
    for method in ("SandboxWait", "SandboxTerminate", "SandboxGetTaskId", "SandboxGetTunnels", "SandboxTagsGet",
                   "SandboxSnapshotFs", "SandboxWaitV2", "SandboxGetLogs", "SandboxGetCommandRouterAccess",
                   "SandboxStdinWrite", "SandboxSetName"):
        bob.call(method, [(1, box[0])]).ok(NOT_FOUND)
    bob.call("TaskGetCommandRouterAccess", [(1, box[1])]).ok(NOT_FOUND)
    bob.call("SandboxTagsSet", [(2, box[0]), (3, [(1, "a"), (2, "b")])]).ok(NOT_FOUND)
    bob.call("ContainerExec", [(1, box[1]), (2, "true")]).ok(NOT_FOUND)
    bob.router("TaskExecStart", theirs[2], [(1, box[1]), (2, "x"), (3, "true")]).ok(NOT_FOUND)  # a token opens one task
    assert box[0].encode() not in b"".join(m for row in bob.call("SandboxList").messages for m in row.get(1, []))
    secret = text(alice.call("SecretGetOrCreate", [(5, [(1, "A"), (2, "secret")])]).one, 1)
    bob.call("SandboxCreateV2", [(2, [(3, image), (4, secret)])]).ok(NOT_FOUND)
    snapshot = text(alice.call("SandboxSnapshotFs", [(1, box[0])]).one, 1)
    bob.call("ImageFromId", [(1, snapshot)]).ok(NOT_FOUND)
    bob.call("SandboxCreateV2", [(2, [(3, snapshot)])]).ok(NOT_FOUND)
    alice.call("ImageDelete", [(1, snapshot)]).ok()
    bob.call("SandboxTerminate", [(1, theirs[0])]).ok()


# What is in the hand of who asks, or names something else than what is asked for.
NOT_ITS_OWN = ("app_id", "last_entry_id", "data_blob_id", "existing_image_id", "build_function_id")


def methods_of_ids():
    """(method, the numbers of the fields that name something) of all methods whose message does."""
    told = (ROOT / "src/modal/modal.proto").read_text()
    fields = {
        re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower(): dict(re.findall(r"^  optional string (id|\w+_id) = (\d+);", body, re.MULTILINE))
        for name, body in re.findall(r"^message (\w+) {(.*?)^}", told, re.MULTILINE | re.DOTALL)
    }
    for path in sorted((ROOT / "src/service/modal").glob("*.c")):
        for method, message in re.findall(r'{"(\w+)", MODAL_MESSAGE\((\w+)\)', path.read_text()):
            if named := {name: int(n) for name, n in fields[message].items() if name not in NOT_ITS_OWN}:
                yield method, named


def test_no_method_finds_what_is_anothers(alice, bob, box, image):
    """Each is told one of everything that alice has; the router by the token of bob's own task."""
    theirs, name = create(bob, image), start(alice, box, "sleep", "1000")
    mine = {"sandbox_id": box[0], "task_id": box[1], "exec_id": name, "container_id": box[1]}
    mine["image_id"] = text(alice.call("SandboxSnapshotFs", [(1, box[0])]).one, 1)
    mine["secret_id"] = text(alice.call("SecretGetOrCreate", [(1, "kept"), (4, 2), (5, [(1, "A"), (2, "secret")])]).one, 1)
    mine["volume_id"] = text(alice.call("VolumeGetOrCreate", [(1, "kept"), (4, 1)]).one, 1)
    older = text(alice.call("ContainerExec", [(1, box[1]), (2, "sleep"), (2, "1000")]).one, 1)
    rows = list(methods_of_ids())
    assert len(rows) > 30
    for method, named in rows:
        usual = box[1] if method.startswith(("Task", "Container")) else box[0]
        named_here = {**mine, "exec_id": older} if method.startswith("Container") else mine
        asked = [(n, named_here.get(field, usual)) for field, n in named.items()]
        told = {bob.call(method, asked).status, bob.router(method, theirs[2], asked).status} - {UNIMPLEMENTED}
        assert told and told <= {NOT_FOUND}, (method, asked, told)
    assert alice.router("TaskExecPoll", box[2], [(1, box[1]), (2, name)]).one == {}, "it goes on"
    for method, made in (("SecretGetInfo", "secret_id"), ("ImageFromId", "image_id"), ("SandboxGetTaskId", "sandbox_id")):
        alice.call(method, [(1, mine[made])]).ok()
    assert text(alice.call("VolumeGetOrCreate", [(1, "kept")]).one, 1) == mine["volume_id"]
    for method, made in (("SecretDelete", "secret_id"), ("ImageDelete", "image_id"), ("VolumeDelete", "volume_id")):
        alice.call(method, [(1, mine[made])]).ok()
    bob.call("SandboxTerminate", [(1, theirs[0])]).ok()


def test_volumes(service, alice, bob, image):
    daytona = service.tenant("alice")

    def get(client, name, kind=0):
        return client.call("VolumeGetOrCreate", [(1, name), (4, kind)])

    get(alice, "a-b.c").ok(NOT_FOUND)
    made = text(get(alice, "a-b.c", 1).one, 1)
    assert made.count("-") == 1 and text(get(alice, "a-b.c").one, 1) == made
    get(alice, "a-b.c", 2).ok(EXISTS)
    for name in ("", "../x", "a/b", "x" * 101):
        get(alice, name, 1).ok(INVALID)
    get(alice, "", 5).ok(INVALID)
    get(bob, "a-b.c").ok(NOT_FOUND)
    bob.call("VolumeDelete", [(1, made)]).ok(NOT_FOUND)
    for volume in (made, "vo-nothing", "", "sb-x"):
        bob.call("SandboxCreateV2", [(2, [(3, image), (13, [(1, volume), (2, "/data")])])]).ok(NOT_FOUND)
    for path in ("", "data", "/", "/proc"):
        alice.call("SandboxCreateV2", [(2, [(3, image), (13, [(1, made), (2, path)])])]).ok(INVALID)
    # An id that is too long is none, whatever it begins with.
    long = text(get(alice, "x" * 100, 1).one, 1)
    alice.call("VolumeDelete", [(1, f"{long}y")]).ok(NOT_FOUND)
    alice.call("VolumeDelete", [(1, long)]).ok()
    box = create(alice, image, (13, [(1, made), (2, "/data")]))
    assert status(alice, box, start(alice, box, "sh", "-c", "echo 1 >/data/file")) == {1: [0]}
    alice.call("VolumeDelete", [(1, made)]).ok(PRECONDITION)
    alice.call("SandboxTerminate", [(1, box[0])]).ok()
    # One of another API that is stopped has it still: it may start again.
    kept = daytona.post("/api/sandbox", {"volumes": [{"volumeId": "a-b.c", "mountPath": "/data"}]}).ok().json["id"]
    daytona.post(f"/api/sandbox/{kept}/stop").ok()
    alice.call("VolumeDelete", [(1, made)]).ok(PRECONDITION)
    daytona.delete(f"/api/sandbox/{kept}").ok()
    eventually(lambda: alice.call("VolumeDelete", [(1, made)]).status == 0, "nobody has it")
    alice.call("VolumeDelete", [(1, made)]).ok(NOT_FOUND)


# --- frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw, expected", [
    (b"", INVALID),
    (b"\0\0\0", INVALID),
    (b"\0" + struct.pack(">I", 10) + b"x", INVALID),
    (b"\0" + struct.pack(">I", 100 << 20) + b"x", EXHAUSTED),
    (b"\0\xff\xff\xff\xff", EXHAUSTED),
    (frame(b"\x0a\xff"), INVALID),
    (frame(b"\x0a\x05ab"), INVALID),
    (frame(b"\xff" * 12), INVALID),
    (frame([], flag=1), INVALID),
    (frame([]) + frame([]), INVALID),
    (frame(b"\x2a\0" * (1 << 20)), INVALID),  # a million tags: more than their bytes may cost
], ids=range(11))
def test_broken_frames_are_refused(alice, raw, expected):
    answer = alice.call("SandboxList", raw=raw).ok(expected)
    assert answer.message and not answer.messages
    alice.call("AuthTokenGet").ok()


def test_messages_are_held_within_the_memory_of_requests(jail_works, tmp_path):
    """Two megabytes that become ten: a tenant has eight here.  What they took is given back."""
    service = Service(tmp_path, settings={"request_memory": "16m"}).start()
    try:
        alice = wire(service, "alice")
        for _ in range(3):
            many = frame(pack([(2, [(1, "0123456"), (2, "0123456")])]) * 100_000)
            answer = alice.call("SandboxTagsSet", raw=many).ok(UNAVAILABLE)
            assert "no memory" in answer.message
            alice.call("SandboxTagsSet", [(1, "sb-nothing"), (2, [(1, "x" * 3_000_000)])]).ok(NOT_FOUND)
    finally:
        service.finish()


def test_what_is_not_there_is_told(alice, box):
    for method in ("SandboxRestore", "VolumeListFiles2", "Sandbox", "V2", "x%2Fy"):
        answer = alice.call(method).ok(UNIMPLEMENTED)
        assert "not served" in answer.message and not answer.messages
    alice.router("TaskSnapshotMemory", box[2]).ok(UNIMPLEMENTED)
    alice.router("SandboxCreate", box[2]).ok(UNIMPLEMENTED)  # each service has its own
    alice.call("TaskExecStart").ok(UNIMPLEMENTED)


def test_how_a_call_ends_is_in_the_trailers(alice, box):
    good = alice.call("AuthTokenGet").ok()
    assert good.trailers == {b"grpc-status": b"0"} and good.head[b"content-type"] == b"application/grpc"
    assert len(text(good.one, 1).split(".")) == 3
    bad = alice.call("SandboxWait", [(1, "sb-é%")]).ok(NOT_FOUND)
    assert bad.trailers is None and "é%" in bad.message
    # After a message that was sent already.
    name = start(alice, box, "sh", "-c", "echo out")
    assert said(alice, box, name) == b"out\n"


# --- what clients wish ----------------------------------------------------------------------------


@pytest.mark.parametrize("field", [
    (9, []),
    (14, []),
    (23, "pr-1"),
    (39, "10.0.0.0/8"),
    (5, [(4, [(2, 1), (4, "H100")])]),
    (30, "no/name " + "x" * 300),
], ids=lambda field: str(field[0]))
def test_wishes_that_nobody_grants(alice, image, field):
    answer = alice.call("SandboxCreateV2", [(2, [(3, image), field])])
    assert answer.status == INVALID and answer.message, (answer.status, answer.message)


@pytest.mark.parametrize("lines, expected", [
    (["COPY a b"], INVALID),
    (["FROM a AS b"], INVALID),
    (["FROM a", "FROM b"], INVALID),
    (["FROM debian:12", "ADD a b"], INVALID),
    (["FROM debian:12", 'RUN ["a"]'], INVALID),
    (["RUN true"], INVALID),
    ([], INVALID),
], ids=str)
def test_images_that_cannot_be_made(alice, lines, expected):
    assert alice.call("ImageGetOrCreate", [(2, [(6, line) for line in lines])]).ok(expected).message


def test_image_ids_that_nobody_gave_out(alice):
    for id in ("im-", "im-0", "im-0zz", "im-0464f4d", "im-abcdefghij", "sb-x", "im-0" + "00" * 30, "x" * 5000):
        alice.call("SandboxCreateV2", [(2, [(3, id)])]).ok(NOT_FOUND)
        alice.call("ImageJoinStreaming", [(1, id)]).ok(NOT_FOUND)


def test_a_template_is_an_image(alice, service):
    made = text(alice.call("ImageGetOrCreate", [(2, [(6, "FROM small"), (6, "ENV B='x y' C=\"z\""), (6, "ENV D e f")])]).one, 1)
    one = create(alice, made)
    name = start(alice, one, "sh", "-c", "echo $GREETING $B $C $D")
    assert said(alice, one, name) == b"hello x y z e f\n"
    alice.call("SandboxTerminate", [(1, one[0])]).ok()


def test_a_build_is_done_once_and_tells_what_it_said(alice, image):
    wish = [(2, [(5, [(1, image), (2, "base")]), (6, "FROM base"), (6, "RUN echo building; \\"), (6, "  echo x > /tmp/made")])]
    first = text(alice.call("ImageGetOrCreate", wish).one, 1)
    joined = alice.call("ImageJoinStreaming", [(1, first), (2, 55.0)]).ok().messages
    while 1 not in joined[-1]:
        joined += alice.call("ImageJoinStreaming", [(1, first), (2, 55.0)]).ok().messages
    assert unpack(joined[-1][1][0])[1] == [1]
    logs = b"".join(unpack(log)[1][0] for message in joined for log in message.get(2, []))
    assert logs == b"building\n"
    assert text(alice.call("ImageGetOrCreate", wish).one, 1) == first
    bad = alice.call("ImageGetOrCreate", [(2, [(6, "FROM debian:12"), (6, "RUN echo no >&2; exit 7")])]).one
    joined = [{}]
    while 1 not in joined[-1]:
        joined += alice.call("ImageJoinStreaming", [(1, text(bad, 1)), (2, 55.0)]).ok().messages
    result = unpack(joined[-1][1][0])
    assert result[1] == [2] and b"exit status 7" in result[2][0]
    alice.call("ImageDelete", [(1, first)]).ok()
    alice.call("ImageFromId", [(1, first)]).ok(NOT_FOUND)


def finished(client, image):
    """How its build has ended."""
    while 1 not in (told := client.call("ImageJoinStreaming", [(1, image), (2, 55.0)]).ok().messages[-1]):
        pass
    return unpack(told[1][0])


def test_a_recipe_is_built_once_as_long_as_its_image_is_there(service, alice, bob):
    """Not as long as somebody remembers the request."""
    lines = [(2, [(6, "FROM debian:12"), (6, "RUN echo once >/tmp/once")])]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ids = {text(answer.one, 1) for answer in pool.map(lambda _: alice.call("ImageGetOrCreate", lines), range(4))}
    assert len(ids) == 1
    (first,) = ids
    assert finished(alice, first)[1] == [1]
    with contextlib.closing(sqlite3.connect(service.state / "tendon.db", timeout=20)) as db, db:
        assert db.execute("DELETE FROM idempotency WHERE box = ?", (first[3:],)).rowcount == 1  # as after a day
    again = alice.call("ImageGetOrCreate", lines).one
    assert text(again, 1) == first and unpack(again[2][0])[1] == [1]
    service.restart()
    assert text(alice.call("ImageGetOrCreate", lines).one, 1) == first
    theirs = text(bob.call("ImageGetOrCreate", lines).one, 1)
    assert theirs != first and finished(bob, theirs)[1] == [1]
    anew = text(alice.call("ImageGetOrCreate", [*lines, (7, 1)]).one, 1)
    assert anew != first and finished(alice, anew)[1] == [1]
    assert text(alice.call("ImageGetOrCreate", lines).one, 1) == anew  # the newest
    alice.call("ImageDelete", [(1, anew)]).ok()
    assert text(alice.call("ImageGetOrCreate", lines).one, 1) == first
    alice.call("ImageDelete", [(1, first)]).ok()
    last = text(alice.call("ImageGetOrCreate", lines).one, 1)
    assert last not in (first, anew) and finished(alice, last)[1] == [1]
    for client, made in ((alice, last), (bob, theirs)):
        client.call("ImageDelete", [(1, made)]).ok()


def test_what_failed_may_be_tried_again_at_once(alice):
    lines = [(2, [(6, "FROM debian:12"), (6, "RUN exit 9")])]
    first = text(alice.call("ImageGetOrCreate", lines).one, 1)
    assert finished(alice, first)[1] == [2]
    alice.call("SandboxCreateV2", [(2, [(3, first)])]).ok(INVALID)
    alice.call("ImageGetOrCreate", [(2, [(5, [(1, first), (2, "base")]), (6, "FROM base"), (6, "RUN true")])]).ok(INVALID)
    second = text(alice.call("ImageGetOrCreate", lines).one, 1)
    assert second != first and finished(alice, second)[1] == [2]
    third = text(alice.call("ImageGetOrCreate", lines).one, 1)
    assert third not in (first, second)
    alice.call("SandboxCreateV2", [(2, [(3, third)])]).ok(INVALID)  # which waits for the end that nobody has seen yet
    for made in (first, second, third):
        alice.call("ImageDelete", [(1, made)])


def test_a_sandbox_waits_for_its_image(alice):
    lines = [(2, [(6, "FROM debian:12"), (6, "RUN sleep 2; echo late >/tmp/late")])]
    made = text(alice.call("ImageGetOrCreate", lines).one, 1)
    one = create(alice, made)
    assert said(alice, one, start(alice, one, "cat", "/tmp/late")) == b"late\n"
    alice.call("SandboxTerminate", [(1, one[0])]).ok()
    alice.call("ImageDelete", [(1, made)]).ok()


# --- commands -------------------------------------------------------------------------------------


def test_output_may_be_read_again_from_anywhere(alice, box):
    name = start(alice, box, "sh", "-c", "printf 0123456789; printf err >&2")
    assert status(alice, box, name) == {1: [0]}
    assert [said(alice, box, name, offset=n) for n in (0, 4, 10)] == [b"0123456789", b"456789", b""]
    assert said(alice, box, name, fd=1) == b"err"
    both = start(alice, box, "sh", "-c", "echo a >&2; echo b", fields=[(5, 2)])
    assert said(alice, box, both) == b"a\nb\n"


def test_no_character_is_cut(alice, box):
    """Clients decode message by message: not where the pipe was read, and not where what nobody read begins."""
    slowly = "import os, time\nfor b in '\u20ac\U0001f600\u00e9'.encode() + b'\\xe2': os.write(1, bytes([b])); time.sleep(0.05)"
    id = text(alice.call("ContainerExec", [(1, box[1]), (2, "python3"), (2, "-c"), (2, slowly)]).one, 1)
    batches = alice.call("ContainerExecGetOutput", [(1, id), (2, 55.0), (4, 1), (5, 1)]).ok().messages
    pieces = [unpack(batch[1][0])[3][0] for batch in batches[:-1]]
    assert "".join(piece.decode() for piece in pieces[:-1]) == "\u20ac\U0001f600\u00e9" and pieces[-1] == b"\xe2", pieces
    for batch, piece in zip(batches, pieces):  # whoever comes back hears the rest
        again = alice.call("ContainerExecGetOutput", [(1, id), (2, 55.0), (3, batch[2][0]), (4, 1)]).ok().messages
        heard = [unpack(b[1][0])[3][0] for b in again[:-1]]
        assert b"".join(heard) == b"".join(pieces[pieces.index(piece) + 1 :])
    for more in ("", "b", "bb"):
        name = start(alice, box, "python3", "-c", f"print('\u20ac' * 700000 + '{more}', end='')")
        assert status(alice, box, name) == {1: [0]}
        assert set(said(alice, box, name).decode()) <= {"\u20ac", "b"}


def test_a_slow_reader_loses_nothing(alice, box):
    """As long as it comes back for more within a few seconds; and the hand is heard all the while."""
    much = 12 << 20
    name = start(alice, box, "sh", "-c", f"sleep 7; head -c {much} /dev/zero; sleep 7; echo end")
    got = said(alice, box, name)
    assert len(got) == much + 4 and got.endswith(b"end\n")


def test_who_waits_is_told_that_the_sandbox_ended(alice, image):
    """At its time, when it is paused and says nothing itself: what its command said has an end, a command in it is not there."""
    loop = "while :; do echo tick; sleep 0.2; done"
    box = create(alice, image, (1, "sh"), (1, "-c"), (1, loop), (7, 4))
    name = start(alice, box, "sh", "-c", loop)
    began = time.monotonic()
    wait = [(1, box[1]), (2, name)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        calls = [
            pool.submit(alice.router, "SandboxStdioReadV2", box[2], [(1, box[1])]),
            pool.submit(alice.call, "SandboxGetLogs", [(1, box[0]), (2, 1), (3, 50.0)]),
            pool.submit(alice.router, "TaskExecStdioRead", box[2], wait),
            pool.submit(alice.router, "TaskExecWait", box[2], wait),
        ]
        own, logs, of_command, waited = [call.result() for call in calls]
    assert time.monotonic() - began < 30
    assert own.ok().messages and logs.ok().messages[-1][14] == [1]
    assert of_command.messages and of_command.status == waited.status == NOT_FOUND
    assert alice.router("SandboxStdioReadV2", box[2], [(1, box[1])]).ok().messages == []  # it was not kept


def test_starting_twice_is_starting_once(alice, box):
    name = str(uuid.uuid4())
    for _ in range(2):
        fields = [(1, box[1]), (2, name), (3, "sh"), (3, "-c"), (3, "echo x >> /tmp/once-$0"), (3, name)]
        alice.router("TaskExecStart", box[2], fields).ok()
    assert status(alice, box, name) == {1: [0]}
    assert said(alice, box, start(alice, box, "cat", f"/tmp/once-{name}")) == b"x\n"


def test_input_is_taken_once(alice, box):
    name = start(alice, box, "cat")
    for offset, data in ((0, "abc"), (0, "abc"), (3, "def")):
        alice.router("TaskExecStdinWrite", box[2], [(1, box[1]), (2, name), (3, offset), (4, data)]).ok()
    alice.router("TaskExecStdinWrite", box[2], [(1, box[1]), (2, name), (3, 9), (4, "gap")]).ok(PRECONDITION)
    assert alice.router("TaskExecStdinStatus", box[2], [(1, box[1]), (2, name)]).one == {1: [6], 2: [0]}
    assert alice.router("TaskExecPoll", box[2], [(1, box[1]), (2, name)]).one == {}
    begin = [(1, [(1, box[1]), (2, name), (3, 6)])]
    alice.router("TaskExecStdinWriteStream", box[2], begin, [(2, "ghi")]).ok(INVALID)  # breaks off: goes on later
    alice.router("TaskExecStdinWriteStream", box[2], [(2, "first")]).ok(INVALID)
    alice.router("TaskExecStdinWriteStream", box[2], begin, [(2, "ghi")], [(2, "jkl")], [(3, [])]).ok()
    assert said(alice, box, name) == b"abcdefghijkl" and status(alice, box, name) == {1: [0]}
    alice.router("TaskExecStdinWrite", box[2], [(1, box[1]), (2, name), (3, 12), (4, "x")]).ok(PRECONDITION)


def test_signals_and_time(alice, box):
    assert status(alice, box, start(alice, box, "sh", "-c", "kill -9 $$")) == {2: [9]}
    assert 2 in status(alice, box, start(alice, box, "sleep", "60", fields=[(6, 1)]))
    alice.router("TaskExecWait", box[2], [(1, box[1]), (2, "none")]).ok(NOT_FOUND)
    alice.router("TaskExecWait", box[2], [(1, box[1]), (2, "a b")]).ok(INVALID)
    alice.router("TaskExecStart", box[2], [(1, box[1]), (2, "x1"), (3, "/there/is/none")]).ok(INVALID)
    alice.router("TaskExecStart", box[2], [(1, box[1]), (2, "x2")]).ok(INVALID)


def test_the_older_way(alice, bob, box):
    id = text(alice.call("ContainerExec", [(1, box[1]), (2, "sh"), (2, "-c"), (2, "cat; exit 5")]).one, 1)
    assert alice.call("ContainerExecWait", [(1, id), (2, 0.0)]).one.get(2, [0]) == [0]
    alice.call("ContainerExecPutInput", [(1, id), (2, [(1, "hello\n"), (2, 1)])]).ok()
    alice.call("ContainerExecPutInput", [(1, id), (2, [(2, 2), (3, 1)])]).ok()
    batches = alice.call("ContainerExecGetOutput", [(1, id), (2, 55.0), (4, 1), (5, 1)]).ok().messages
    assert unpack(batches[0][1][0])[3] == [b"hello\n"] and batches[-1][3] == [5]
    again = alice.call("ContainerExecGetOutput", [(1, id), (2, 55.0), (3, batches[0][2][0]), (4, 1)]).ok().messages
    assert len(again) == 1 and again[0][3] == [5]
    assert alice.call("ContainerExecWait", [(1, id), (2, 10.0)]).one == {1: [5], 2: [1]}
    bob.call("ContainerExecWait", [(1, id)]).ok(NOT_FOUND)
    for bad in ("", "ex-", id[:-1], id[:-1] + "/", "x" * 300):
        alice.call("ContainerExecWait", [(1, bad)]).ok(NOT_FOUND)


# --- lives ----------------------------------------------------------------------------------------


def test_lists_come_in_pages(service, image):
    client = wire(service, "pages")
    boxes = [create(client, image, tags=[(4, [(1, "n"), (2, str(i))])]) for i in range(3)]

    def rows(*fields):
        return [unpack(row) for row in client.call("SandboxList", [(1, "ap-x"), *fields]).one.get(1, [])]

    newest_first = rows()
    assert [text(row, 1) for row in newest_first] == [one[0] for one in reversed(boxes)]
    second = newest_first[1]
    before = b"\x11" + struct.pack("<d", second[3][0])
    answer = client.call("SandboxListV2", raw=frame(pack([(1, "ap-x")]) + before)).one
    assert [text(unpack(row), 1) for row in answer[1]] == [boxes[0][0]]
    assert [text(row, 1) for row in rows((5, [(1, "n"), (2, "1")]))] == [boxes[1][0]]
    assert client.call("SandboxList", [(1, "ap-other")]).one == {}
    for one in boxes:
        client.call("SandboxTerminate", [(1, one[0])]).ok()
    assert rows() == [] and len(rows((4, 1))) == 3


def test_names_are_taken_while_one_runs(service, image):
    client = wire(service, "names")
    first = create(client, image, (30, "web"))
    assert client.call("SandboxCreateV2", [(1, "ap-x"), (2, [(3, image), (30, "web")])]).ok(EXISTS).message
    client.call("SandboxTerminate", [(1, first[0])]).ok()
    second = create(client, image, (30, "web"))
    client.call("SandboxSetName", [(1, second[0]), (2, "other")]).ok()
    third = create(client, image, (30, "web"))
    client.call("SandboxSetName", [(1, third[0]), (2, "other")]).ok(EXISTS)
    for one in (second, third):
        client.call("SandboxTerminateV2", [(1, one[0])]).ok()


def test_an_end_is_told_as_it_was(alice, image):
    one = create(alice, image, (1, "sh"), (1, "-c"), (1, "echo bye; exit 3"))
    waited = alice.call("SandboxWait", [(1, one[0]), (2, 50.0)]).one
    assert unpack(waited[1][0]) == {1: [2], 3: [3]}
    logs = alice.call("SandboxGetLogs", [(1, one[0]), (2, 1), (3, 50.0)]).ok().messages
    assert unpack(logs[0][2][0])[1] == [b"bye\n"] and logs[-1][14] == [1]
    read = alice.router("SandboxStdioReadV2", one[2], [(1, one[1])]).ok().messages
    assert [m[1] for m in read] == [[b"bye\n"]]
    alice.call("SandboxTerminate", [(1, one[0])]).ok()
    assert unpack(alice.call("SandboxWait", [(1, one[0])]).one[1][0]) == {1: [2], 3: [3]}
    alice.call("SandboxGetTunnels", [(1, one[0])]).ok()  # of one whose command is over its files can still be had
    two = create(alice, image)
    assert alice.call("SandboxWait", [(1, two[0])]).one == {}
    alice.call("SandboxTerminate", [(1, two[0])]).ok()
    assert unpack(alice.call("SandboxWait", [(1, two[0])]).one[1][0])[1] == [3]
    alice.router("TaskExecStart", two[2], [(1, two[1]), (2, "x"), (3, "true")]).ok(NOT_FOUND)


def test_who_only_reads_ends_nothing(service, alice, image):
    """The end of a command is noted by the service; the sandbox is its owner's as before, and no time to live is set."""
    reader, owner = wire(service, "alice", "--scope", "read"), service.tenant("alice")
    one = create(alice, image, (1, "true"))
    before = owner.get(f"/v1/sandboxes/{one[0][3:]}").ok().json
    assert unpack(reader.call("SandboxWait", [(1, one[0]), (2, 50.0)]).one[1][0])[1] == [1]
    reader.call("SandboxGetTaskId", [(1, one[0])]).ok()
    after = owner.get(f"/v1/sandboxes/{one[0][3:]}").ok().json
    assert after["expires"] == before["expires"] and after["state"] == "running"
    alice.call("SandboxTerminate", [(1, one[0])]).ok()
    assert owner.get(f"/v1/sandboxes/{one[0][3:]}").ok().json["expires"] < before["expires"]


def put_file(client, content):
    digest = hashlib.sha256(content).hexdigest()
    assert client.call("MountPutFile", [(2, digest), (3, content)]).one[2] == [1]
    return digest


def mount(client, *files):
    return client.call("MountGetOrCreate", [(5, [(1, name), (3, digest), (5, 0o644)]) for name, digest in files])


def test_files_are_what_they_say(service, alice, bob):
    digest = put_file(alice, b"content")
    other = hashlib.sha256(b"other").hexdigest()
    alice.call("MountPutFile", [(2, other), (3, b"not it")]).ok(INVALID)
    assert 2 not in (missing := alice.call("MountBatchedCheckExistence", [(1, digest), (1, other), (1, "x")]).one) and missing[1] == [other.encode(), b"x"]
    assert bob.call("MountPutFile", [(2, digest)]).one.get(2) == [0]  # another tenant's
    alice.call("MountBatchedCheckExistence", [(1, other)] * 10001).ok(EXHAUSTED)
    mount(bob, ("/x", digest)).ok(INVALID)
    for name in ("../x", "/a/../../x", "..", ""):
        mount(alice, (name, digest)).ok(INVALID)
    made = mount(alice, ("/opt/...x", digest)).one
    assert mount(alice, ("/opt/...x", digest)).one == made  # the same files are the same mount
    wire(service, "alice", "--scope", "read").call("MountPutFile", [(2, digest), (3, b"content")]).ok(DENIED)
    alice.call("MountGetOrCreate", [(1, "modal-client-mount")]).ok(NOT_FOUND)


def test_uploads_by_links(service, alice):
    content = b"x" * 5000
    md5, sha = hashlib.md5(content), hashlib.sha256(content)
    wish = [(1, base64.b64encode(md5.digest())), (2, base64.b64encode(sha.digest())), (3, len(content))]
    answer = alice.call("BlobCreate", wish).one
    link = text(unpack(answer[5][0]), 1)
    link = link[link.index("/modal/") :]
    stranger = service.stranger()
    for wrong in (link.partition("?")[0], link.replace("signature=", "signature=0")):
        stranger.request("PUT", wrong, content).ok(401)
    stranger.request("PUT", link, b"something else").ok(400)
    alice.call("MountPutFile", [(2, sha.hexdigest()), (5, text(answer, 4))]).ok(NOT_FOUND)
    stranger.request("PUT", link, content).ok(404)  # once is enough
    answer = alice.call("BlobCreate", wish).one
    link = text(unpack(answer[5][0]), 1)
    put = stranger.request("PUT", link[link.index("/modal/") :], content).ok(200)
    assert put.headers["ETag"] == f'"{md5.hexdigest()}"'
    assert alice.call("MountPutFile", [(2, sha.hexdigest()), (5, text(answer, 4))]).one[2] == [1]
    alice.call("BlobCreate", [*wish[:2], (3, 2 << 30)]).ok(EXHAUSTED)
    alice.call("BlobCreate", [(1, "x"), (2, "y"), (3, 1)]).ok(INVALID)


def test_mounts_are_of_their_tenant(alice, bob, image):
    made = text(mount(alice, ("/opt/a", put_file(alice, b"A"))).one, 1)
    one = create(alice, image, (2, made))
    assert said(alice, one, start(alice, one, "cat", "/opt/a")) == b"A"
    alice.call("SandboxTerminate", [(1, one[0])]).ok()
    bob.call("SandboxCreateV2", [(1, "ap-x"), (2, [(3, image), (2, made)])]).ok(NOT_FOUND)
    bob.call("ImageGetOrCreate", [(2, [(6, "FROM debian:12"), (6, "COPY . /"), (15, made)])]).ok(NOT_FOUND)
    alice.call("SandboxCreateV2", [(1, "ap-x"), (2, [(3, image), (2, "mo-" + "0" * 32)])]).ok(NOT_FOUND)


def test_secrets_of_their_tenant(service, alice, bob, image):
    value = "never to be seen"
    pair = [(1, "TOKEN"), (2, value)]
    reader, user = wire(service, "alice", "--scope", "read"), wire(service, "alice", "--scope", "use")
    user.call("SecretGetOrCreate", [(1, "mine"), (4, 2), (5, pair)]).ok(DENIED)
    alice.call("SecretGetOrCreate", [(1, "no name"), (4, 2), (5, pair)]).ok(INVALID)
    made = alice.call("SecretGetOrCreate", [(1, "mine"), (4, 2), (5, pair)]).one
    assert text(unpack(made[2][0]), 3) == "TOKEN"
    assert text(user.call("SecretGetOrCreate", [(1, "mine")]).one, 1) == text(made, 1)
    for call in ("SecretGetOrCreate", "SecretList", "SecretGetInfo"):
        told = alice.call(call, [(1, text(made, 1) if call == "SecretGetInfo" else "mine")]).ok().messages
        assert value not in repr(told), call
    bob.call("SecretGetOrCreate", [(1, "mine")]).ok(NOT_FOUND)
    assert bob.call("SecretList", []).one == {}
    for call in ("SecretGetInfo", "SecretDelete", "SecretUpdate"):
        bob.call(call, [(1, text(made, 1))]).ok(NOT_FOUND)
    bob.call("SandboxCreateV2", [(1, "ap-x"), (2, [(3, image), (4, text(made, 1))])]).ok(NOT_FOUND)
    reader.call("SecretDelete", [(1, text(made, 1))]).ok(DENIED)
    service.restart()
    assert not [file for file in service.state.glob("tendon.db*") if value.encode() in file.read_bytes()]  # sealed
    one = create(alice, image, (4, text(made, 1)))
    assert said(alice, one, start(alice, one, "printenv", "TOKEN")) == value.encode() + b"\n"
    alice.call("SandboxTerminate", [(1, one[0])]).ok()
    alice.call("SecretDelete", [(1, text(made, 1))]).ok()
    alice.call("SecretGetOrCreate", [(1, "mine")]).ok(NOT_FOUND)


def test_secrets_without_a_name_are_not_pushed_out_by_others(service, image):
    """Nine tenants with all that one may have, and the first still has its own; beyond that, each loses its own oldest."""
    def make(client, value):
        return text(client.call("SecretGetOrCreate", [(5, [(1, "WHO"), (2, value)])]).one, 1)

    first = wire(service, "shelf-0")
    oldest, own = make(first, "lost"), make(first, "kept")
    for n in range(1, 10):
        other = wire(service, f"shelf-{n}")
        for _ in range(32):
            make(other, "theirs")
    one = create(first, image, (4, own))
    assert said(first, one, start(first, one, "printenv", "WHO")) == b"kept\n"
    first.call("SandboxTerminate", [(1, one[0])]).ok()
    for _ in range(31):
        make(first, "more")
    first.call("SandboxCreateV2", [(1, "ap-x"), (2, [(3, image), (4, oldest)])]).ok(NOT_FOUND)


def test_requests_for_files_have_a_size(alice, box):
    long = '{"Stat":{"path":"/' + "x" * (256 << 10) + '"}}'
    fields = [(1, box[1]), (2, str(uuid.uuid4())), (3, "modal-sandbox-fs-tools"), (3, long)]
    alice.router("TaskExecStart", box[2], fields).ok(INVALID)


def test_files_that_are_open(service, alice, bob, box):
    """Nobody else's, and ids and descriptors that nobody gave out; what works is in modal_story.py."""
    reader = wire(service, "acme", "--scope", "read")
    opened = [(1, [(2, "/tmp/opened"), (3, "w")]), (10, box[1])]
    bob.call("ContainerFilesystemExec", opened).ok(NOT_FOUND)
    reader.call("ContainerFilesystemExec", opened).ok(DENIED)
    made = alice.call("ContainerFilesystemExec", opened).one
    id, fd = text(made, 1), text(made, 2)
    output = "ContainerFilesystemExecGetOutput"
    assert alice.call(output, [(1, id), (2, 55.0)]).ok().messages == [{4: [1]}]
    bob.call(output, [(1, id)]).ok(NOT_FOUND)
    for bad in ("", "fs-", id[:13], id[:-1], f"{id[:13]}-0.-5.3./etc/passwd", f"{id[:13]}-0.0.3.%zz"):
        alice.call(output, [(1, bad)]).ok(NOT_FOUND)
    alice.call("ContainerFilesystemExec", [(14, [(1, "/tmp")]), (10, box[1])]).ok()

    def number(*request):
        id = text(alice.call("ContainerFilesystemExec", [*request, (10, box[1])]).one, 1)
        error = alice.call(output, [(1, id)]).ok().messages[0].get(2)
        return unpack(error[0])[1][0] if error else 0

    for bad in ("../../etc/passwd", fd[:-1] + "g", "", "0" * 16):
        assert number((3, [(1, bad)])) == 22, bad
    assert number((2, [(1, fd), (2, b"text")])) == 0
    assert number((6, [(1, fd), (2, (1 << 64) - 9), (3, 0)])) == 22  # before its beginning
    assert number((7, [(1, fd), (2, 3), (3, 1)])) == 22
    only = text(alice.call("ContainerFilesystemExec", [(1, [(2, "/tmp/opened"), (3, "r")]), (10, box[1])]).one, 2)
    assert number((2, [(1, only), (2, b"text")])) == 22
    assert number((1, [(2, "/tmp/opened"), (3, "rwaxb+rwaxb+")])) == 22


def test_a_tunnel_leads_to_its_port_alone(alice, service, image):
    server = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"
    one = create(alice, image, (1, "python3"), (1, "-c"), (1, server), (20, [(1, [(1, 8000)]), (1, [(1, 8001), (2, 1)])]))
    tunnels = {row[5][0]: row for row in map(unpack, alice.call("SandboxGetTunnels", [(1, one[0])]).one[2])}
    assert sorted(tunnels) == [8000, 8001] and 3 not in tunnels[8000] and 3 in tunnels[8001]
    host, port = text(tunnels[8000], 1), tunnels[8000][2][0]
    assert port == service.port

    def ask(name):
        return service.stranger(headers={"Host": f"{name}:{port}"}).get("/").status

    eventually(lambda: ask(host) == 200, "the server inside")
    key = host.split("-")[1]
    assert ask(f"22-{key}") == 401  # a port that was not opened
    assert ask("8000-" + key[:12] + "0" * 30 + key[42:]) == 401
    alice.call("SandboxTerminate", [(1, one[0])]).ok()
    assert ask(host) != 200

"""kill -9 of the hand at any moment: the next start with the same TMPDIR removes what was left."""

import os
import threading
import time

import pytest

from hand_processes import Process
from harness import census, needs, wait_until

LEAVERS = (
    "sleep 3001 & (setsid sleep 3002 &) ; nohup sleep 3003 >/dev/null 2>&1 & (trap '' HUP TERM "
    "INT; sleep 3004) & "
    "setsid nohup bash -c 'trap \"\" HUP TERM; sleep 3005 & disown; wait' >/dev/null 2>&1 & "
    "disown -a"
)


def idle(hand):
    pass


def background(hand):
    hand.client.ok(LEAVERS)
    wait_until(lambda: sum("sleep 300" in c for c in hand.left().values()) >= 5)


def foreground(hand):
    hand.client.run("sleep 3006", timeout=0.2)


def waiting_request(hand):
    background(hand)
    worker = threading.Thread(
        target=lambda: swallow(lambda: hand.client.run("sleep 3007", blocking=True)), daemon=True
    )
    worker.start()
    wait_until(lambda: any("sleep 3007" in c for c in hand.left().values()))


def flooding(hand):
    hand.client.run("yes 'a line of output that goes to the spool'", timeout=0.5)


def static_command(hand):
    worker = threading.Thread(
        target=lambda: swallow(
            lambda: hand.client.run("sleep 3008", is_static=True, blocking=True)
        ),
        daemon=True,
    )
    worker.start()
    wait_until(lambda: any("sleep 3008" in c for c in hand.left().values()))


def half_upload(hand):
    s = hand.client.socket()
    s.sendall(
        (
            f"POST /upload_file?destination={hand.workspace} HTTP/1.1\r\nHost: "
            "x\r\nContent-Length: 9000000\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\nContent-Disposition: "
            'form-data; name="file"; '
            'filename="half.zip"\r\n\r\n'
        ).encode()
        + b"x" * 2_000_000
    )
    hand.client.get("/alive")
    hand.kept_open = s


def download(hand):
    (hand.workspace / "big").write_bytes(bytes(30 << 20))
    s = hand.client.socket()
    s.sendall(f"GET /download_files?path={hand.workspace} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    s.recv(100)
    hand.kept_open = s


def several_sessions(hand):
    for n in range(3):
        hand.client.ok("sleep 3009 & disown", session=f"s{n}")
        hand.client.run("seq 1 20000", session=f"s{n}")


def own_process(hand):
    """A daemon of it too, that left its group."""
    args = ["sh", "-c", "setsid sleep 3011 & sleep 3012"]
    assert Process(hand.client, args).id
    wait_until(lambda: sum("sleep 301" in c for c in hand.left().values()) >= 2)


def swallow(call):
    try:
        call()
    except Exception:  # the server is killed under the request; that is the test
        pass


MOMENTS = [
    idle,
    background,
    foreground,
    waiting_request,
    flooding,
    static_command,
    half_upload,
    download,
    several_sessions,
    own_process,
]


@pytest.mark.parametrize("moment", MOMENTS, ids=[m.__name__ for m in MOMENTS])
def test_kill9(start, moment):
    dead = start()
    moment(dead)
    dead.kill9()
    heir = start(base=dead.base, tmp=dead.tmp)

    def left():
        # the heir works below the same base directory, so only the dead one's mark counts
        return census(dead.mark)

    deadline = time.monotonic() + 5
    while left() and time.monotonic() < deadline:
        time.sleep(0.02)
    found = left()
    for pid in found:
        os.kill(pid, 9)
    assert not found, f"processes of the dead hand left: {found}"
    assert heir.client.ok("echo fine") == "fine"
    assert not [
        p for p in os.listdir(dead.workspace) if p != "big"
    ], "half-written files in the workspace"
    heir.stop()  # and checks that TMPDIR is empty then


def test_kill9_during_start_up(start):
    base = start.base()
    os.mkdir(f"{base}/home")
    with open(f"{base}/home/.bashrc", "w") as f:
        f.write("[ -e ~/slow ] && sleep 3010\n:\n")
    open(f"{base}/home/slow", "w").close()
    dead = start(base=base, wait=False)
    wait_until(lambda: any("sleep 3010" in c for c in census(dead.mark).values()))
    dead.kill9()
    os.unlink(f"{base}/home/slow")
    heir = start(base=base, tmp=dead.tmp)
    wait_until(lambda: not census(dead.mark), 5, "processes of the dead hand ended")
    heir.stop()


def test_a_living_neighbour_is_left_alone(start):
    """Two hands share a TMPDIR; one is killed; its heir must not touch the other."""
    base = start.base()
    os.mkdir(f"{base}/shared")
    neighbour = start(tmp=f"{base}/shared")
    neighbour.client.ok("sleep 3011 & export N=1")
    obs = neighbour.client.run("seq 1 50000")
    dead = start(tmp=f"{base}/shared")
    dead.client.ok("sleep 3012 & disown")
    dead.kill9()
    heir = start(base=dead.base, tmp=dead.tmp)
    wait_until(lambda: not census(dead.mark), 5, "processes of the dead hand ended")
    assert neighbour.client.ok("echo $N; jobs").startswith("1\n")
    assert os.path.exists(obs.meta["output_path"])
    heir.tmp = dead.tmp = (
        heir.base / "tmp"
    )  # the shared directory is examined once, after the last one
    heir.stop()
    neighbour.stop()
    assert os.listdir(f"{base}/shared") == []


@needs("python3")
def test_half_written_file_is_never_visible(start):
    """kill -9 in the middle of many writes: the file holds one whole version."""
    hand = start()
    path = hand.workspace / "f.txt"
    versions = ["a" * 3_000_000, "b" * 3_000_000]
    hand.client.write(path, versions[0])
    stop = threading.Event()

    def work():
        n = 0
        while not stop.is_set():
            n += 1
            swallow(lambda: hand.client.write(path, versions[n % 2]))

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    deadline = time.monotonic() + 0.7
    while time.monotonic() < deadline:
        text = path.read_text()
        assert text in (versions[0] + "\n", versions[1] + "\n"), "a reader saw half a file"
    hand.kill9()
    stop.set()
    worker.join(20)
    assert path.read_text() in (versions[0] + "\n", versions[1] + "\n")
    start(base=hand.base, tmp=hand.tmp).stop()

"""A jail gets its name while it runs, from its keeper: which finds there whatever the jail has made of its files."""

import os
import shutil
import socket

import pytest

from launcher import SECONDS
from rooms import room

GROUP = 4  # adm: one that an administrator's shell has


def ask(jail, request):
    """What the keeper answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(SECONDS)
        directory = os.open(jail.directory, os.O_PATH)
        try:
            s.connect(f"/proc/self/fd/{directory}/keeper.sock")
        finally:
            os.close(directory)
        s.sendall(request.encode())
        answer = b""
        while part := s.recv(4096):
            answer += part
    return answer.decode()


def named(jails, prepare, then="cat /etc/hostname /etc/hosts; uname -n", **plan):
    """The log of a jail that prepared that before it was named, and looked afterwards."""
    script = f"{prepare}; echo ready; until test $(uname -n) = web; do sleep 0.05; done; read x </tmp/go; {then}"
    j = jails(f"mkfifo /tmp/go; ({script}) 2>&1", **plan)
    j.must_start()
    j.wait_log("ready")
    answer = ask(j, "name web\n")
    go = f"/proc/{j.report['pid']}/root/tmp/go"
    fd = os.open(go, os.O_RDWR)
    os.write(fd, b"\n")
    j.end()
    os.close(fd)
    return answer, j.log()


@pytest.mark.parametrize("mapping", ["range", "identity", "none"])
@pytest.mark.parametrize(
    "prepare",
    [
        "true",
        "rm /etc/hosts /etc/hostname",
        "rm /etc/hosts; mkfifo /etc/hosts",
        "rm /etc/hosts; ln -s /proc/1/environ /etc/hosts; rm /etc/hostname; ln -s /tmp/target /etc/hostname",
        "rm /etc/hosts; truncate -s 10G /etc/hosts",
        "rm -rf /etc 2>/dev/null; mkdir /tmp/etc; ln -s ../../../tmp/etc /etc",
    ],
    ids=["as it is", "none", "fifo", "links", "huge", "linked directory"],
)
def test_names(jails, mapping, prepare):
    answer, log = named(jails, prepare, mapping=mapping)
    assert answer == "ok\n", (answer, log)
    assert "127.0.1.1\tweb\n" in log and log.endswith("web\n") and "HOME=" not in log, log
    assert log.partition("ready\n")[2].startswith("web\n"), log


def test_the_keeper_has_no_rights_but_those_of_the_jail(jails):
    """Not even those of its groups, on a file that the jail leads it to."""
    volume = room("v")
    try:
        os.chown(volume, 12345, 12345)
        (volume / "hosts").write_text("127.0.0.1 GEHEIM\n")
        os.chown(volume / "hosts", 0, GROUP)
        (volume / "hosts").chmod(0o640)
        answer, log = named(
            jails,
            "cat /data/hosts; rm -rf /etc 2>/dev/null; ln -s /data /etc",
            then="cat /data/*",
            mounts=[{"source": str(volume), "target": "/data"}],
            wrap=["setpriv", "--groups", f"0,{GROUP}"],
        )
        assert "Permission denied" in log and "GEHEIM" not in log, log
    finally:
        shutil.rmtree(volume)


@pytest.mark.parametrize("mapping", ["identity", "none"])
def test_groups_of_whoever_starts_it_are_not_the_jails(jails, mapping):
    """What only a group may read cannot be read through the view, which is mounted by somebody without any."""
    path = f"/opt/tendon-test-{os.getpid()}"
    with open(path, "w") as f:
        f.write("GEHEIM\n")
    try:
        os.chown(path, 0, GROUP)
        os.chmod(path, 0o640)
        code, log = jails(f"cat {path}", mapping=mapping, wrap=["setpriv", "--groups", f"0,{GROUP}"]).run()
        assert "Permission denied" in log and "GEHEIM" not in log, log
    finally:
        os.unlink(path)

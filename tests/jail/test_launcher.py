"""The launcher: what a plan says is what the jail is, and what the report says is true."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess

import pytest

from launcher import ENV, NOBODY, Jail, cgroups_of, is_running, start_time, wait_until
from rooms import room
from trees import RELEASE, program

MIB = 1 << 20


def status_of(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":", 1) for line in text.splitlines())


def namespace(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


# --- start and report


def test_report_is_true(jail):
    j = jail("echo up; sleep 60", hostname="somename")
    report = j.must_start()
    pid, claims = report["pid"], report["isolation"]
    j.wait_log("up")
    for kind, claim in [
        ("user", "user"),
        ("pid", "pid"),
        ("mnt", "mount"),
        ("net", "network"),
        ("ipc", "ipc"),
        ("uts", "uts"),
        ("cgroup", "cgroup"),
    ]:
        assert claims[claim] is True
        assert namespace(pid, kind) != namespace("self", kind), kind
    status = status_of(pid)
    assert claims["seccomp"] and status["Seccomp"].strip() == "2"
    assert claims["no_new_privs"] and status["NoNewPrivs"].strip() == "1"
    assert claims["capabilities"] and int(status["CapBnd"], 16) & (1 << 21) == 0  # CAP_SYS_ADMIN
    assert status["NSpid"].split()[-1] == "1"
    uid = int(status["Uid"].split()[0])
    assert uid != 0
    if j.user:
        assert uid == j.user and claims["mapping"] == "own" and not claims["idmapped"]
    else:
        assert uid >= 0x70000000 and claims["mapping"] == "range" and claims["idmapped"] and claims["world_only"]
    for limit in ("memory", "cpu", "pids", "disk", "file_size", "open_files", "wall_time"):
        assert claims[f"{limit}_limit"] is False


def test_exit_code_and_output(jail):
    assert jail("echo out; echo err >&2; exit 7").run() == (7, "out\nerr\n")


def test_end_by_signal(jail):
    j = jail("echo up; sleep 60")
    j.must_start()
    j.wait_log("up")
    os.kill(j.report["pid"], signal.SIGKILL)
    end = j.end()
    assert (end["status"], end["signal"]) == (None, signal.SIGKILL)
    assert not end["wall_time"]


def test_environment_is_the_plans(jail):
    code, log = jail(argv=["env"], hand="/usr/bin/env", env=["A=1", "B=two words $(id)"]).run()
    assert (code, log) == (0, "A=1\nB=two words $(id)\n")


def test_descriptors(jail):
    """Only what the plan names is open besides 0, 1 and 2."""
    listener = socket.socket(socket.AF_UNIX)
    other = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(other, True)
    try:
        j = jail("ls /proc/1/fd; true", fds=[listener.fileno()])
        code, log = j.run()
    finally:
        os.close(other)
    shells_own = 10  # dash keeps its script there, if at all
    assert set(map(int, log.split())) - {shells_own} == {0, 1, 2, listener.fileno()}


def test_host_name_and_user(jail):
    code, log = jail("hostname; id -u; id -g; cat /etc/hostname; getent hosts jailed").run()
    lines = log.split("\n")
    assert lines[:4] == ["jailed", "0", "0", "jailed"]
    assert lines[4].split() == ["127.0.1.1", "jailed"]


def test_hand_answers(jails):
    """The real hand as PID 1, on an inherited socket."""
    listener = socket.socket(socket.AF_UNIX)
    fd = listener.fileno()
    j = jails(
        hand=str(program(RELEASE, "tendon-hand")),
        argv=["tendon-hand", "--listen", f"fd:{fd}", "--username", "root", "--working-dir", "/workspace"],
        env=[*ENV, "SESSION_API_KEY=0123456789abcdef"],
        workspace="/workspace",
        fds=[fd],
    )
    path = j.directory / "hand.sock"
    listener.bind(str(path))
    listener.listen(8)
    j.must_start()
    listener.close()
    body = json.dumps({"action": {"action": "run", "args": {"command": "pwd; id -un; echo $$"}}})
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(str(path))
        s.sendall(
            f"POST /execute_action HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: 0123456789abcdef\r\n"
            f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
    observation = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    assert observation["content"].splitlines()[:2] == ["/workspace", "root"], observation
    os.kill(j.report["pid"], signal.SIGKILL)
    j.end()
    with socket.socket(socket.AF_UNIX) as s, pytest.raises(ConnectionRefusedError):
        s.connect(str(path))  # the keeper does not hold it open


# --- file system


def test_changes_stay_in_the_storage(jail):
    script = "echo new >/etc/made; echo mine >/made; mkdir -p /usr/local/deep/er; rm /etc/debian_version"
    j = jail(script)
    assert j.run() == (0, "")
    assert not os.path.exists("/etc/made") and os.path.exists("/etc/debian_version")
    j.plan["argv"][2] = "cat /etc/made /made; ls -d /usr/local/deep/er; test -e /etc/debian_version || echo gone"
    (j.directory / "log").unlink()
    assert j.run() == (0, "new\nmine\n/usr/local/deep/er\ngone\n")  # the same storage again
    owners = {path.lstat().st_uid for path in (j.directory / "storage/upper").rglob("*")}
    assert owners == {j.user or 0}  # as inside: root's


def test_layers(jail):
    """A copied upper is a layer for others, with its removals; the top one wins."""
    script = "echo one >/etc/one; echo old >/both; rm -r /media; rm /etc/debian_version"
    first = jail(script)
    assert first.run() == (0, "")
    layers = [first.base / "layer1", first.base / "layer2"]
    subprocess.run(["cp", "-a", first.directory / "storage/upper", layers[0]], check=True)
    second = jail("cat /both; echo new >/both; echo two >/etc/two", lowers=[str(layers[0])])
    assert second.run() == (0, "old\n")
    subprocess.run(["cp", "-a", second.directory / "storage/upper", layers[1]], check=True)
    third = jail(
        "cat /both /etc/one /etc/two; ls -d /media /etc/debian_version",
        lowers=[str(layers[1]), str(layers[0])],
    )
    code, log = third.run()
    assert log.startswith("new\none\ntwo\n") and log.count("No such file") == 2, log


@pytest.fixture
def image(tmp_path_factory):
    """A root file system with nothing but busybox, some links, and a private file."""
    root = room("j")
    root.chmod(0o755)
    (root / "bin").mkdir()
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for name in ("sh", "cat", "ls", "id", "stat", "touch", "rm", "sleep", "dd", "mount"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "secret").write_text("the image's own\n")
    (root / "secret").chmod(0o600)
    (root / "evil").symlink_to("/etc")
    yield root
    shutil.rmtree(root)


def test_image(jail, image):
    """A directory as root; what it lacks (proc, dev, ...) is there all the same, and it stays as it is."""
    before = sorted(map(str, image.rglob("*")))
    script = "ls /; cat /secret; echo changed >/secret; rm /bin/dd; stat -c %u:%g /secret; cat /proc/1/comm; true"
    j = jail(script, lowers=[str(image)], host_paths=[], hand="/bin/busybox")
    if j.user:  # the files of an image are those of whoever unpacked it
        subprocess.run(["chown", "-R", f"{j.user}:{j.user}", image], check=True)
    code, log = j.run()
    lines = log.split("\n")
    assert code == 0 and {"bin", "dev", "proc", "sys", "run", "tmp", "secret"} <= set(lines), log
    assert lines[-4:] == ["the image's own", "0:0", "hand", ""], log
    assert sorted(map(str, image.rglob("*"))) == before
    assert (image / "secret").read_text() == "the image's own\n"


def test_image_with_links_for_system_directories(jail, image):
    """/dev and /proc of an image may be links: what is mounted follows them inside, never outside."""
    (image / "dev").symlink_to("/evil")
    (image / "etc").mkdir()
    before = set(os.listdir("/etc"))
    j = jail("true", lowers=[str(image)], host_paths=[], hand="/bin/busybox")
    if j.user:
        subprocess.run(["chown", "-hR", f"{j.user}:{j.user}", image], check=True)
    j.start()
    assert set(os.listdir("/etc")) == before
    assert not (image / "etc").is_mount() and not list((image / "etc").iterdir())


def test_tmpfs_is_the_disk_limit(jail):
    j = jail(
        "dd if=/dev/zero of=/big bs=1M count=64; stat -c %s /big; echo still here",
        storage=None,
        tmpfs_bytes=16 * MIB,
    )
    code, log = j.run()
    assert "No space left on device" in log and log.endswith("still here\n")
    size = int(log.split("\n")[-3])
    assert 8 * MIB < size <= 16 * MIB
    assert j.report["isolation"]["disk_limit"] is True


def test_seed_and_storage_of_a_tmpfs(jail):
    """What the keeper hands out can be saved, and be the seed of the next one."""
    first = jail("echo kept >/kept; rm /etc/debian_version; ln /kept /other; echo up; sleep 60", storage=None, tmpfs_bytes=16 * MIB)
    first.must_start()
    first.wait_log("up")
    answer, fd = ask(first, "storage")
    assert answer == "ok\n" and fd is not None
    seed = first.base / "seed"
    subprocess.run(["cp", "-a", f"/proc/self/fd/{fd}/upper", seed], pass_fds=[fd], check=True)
    os.close(fd)
    second = jail(
        "cat /kept; stat -c %h /other; ls /etc/debian_version", storage=None, tmpfs_bytes=16 * MIB, seed=str(seed)
    )
    code, log = second.run()
    assert log.startswith("kept\n2\n") and "No such file" in log, log


def test_hidden_and_private_files(jail):
    """Entries of /etc that are hidden, and files that only root may read, in a directory of the host."""
    j = jail("ls /etc/shadow- /etc/machine-id /etc/gshadow; cat /etc/login.defs | wc -c")
    code, log = j.run()
    assert log.count("No such file or directory") == 3 and log.strip().split("\n")[-1] != "0"


def test_workspace_belongs_to_the_user(jails):
    j = jails("stat -c %u:%g /some/space; id -u; touch /some/space/x", workspace="/some/space", uid=1234, gid=1235)
    assert j.run() == (0, "1234:1235\n1234\n")


def test_ordinary_user_has_only_root_inside(jails):
    report = jails("true", user=NOBODY, uid=1000, gid=1000).start()
    assert report["code"] == "unsupported" and "subids" in report["error"]


def test_further_ids_of_an_ordinary_user(jails):
    """Those that /etc/subuid gives: then there are other users inside, and they own files."""
    if not shutil.which("newuidmap"):
        pytest.skip("needs newuidmap, of Debian's package uidmap")
    script = "id -u; touch /space/x; stat -c %u:%g /space/x"
    j = jails(script, mapping="subids", uid=1000, gid=1001, workspace="/space")
    etc = j.base / "etc"
    etc.mkdir(mode=0o755)
    for name in ("subuid", "subgid"):
        (etc / name).write_text(f"{NOBODY}:300000:65536\n")
        (etc / name).chmod(0o644)
    become = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"
    j.wrap = ["unshare", "-m", "--propagation", "private", "sh", "-c"]
    j.wrap += [f'mount -t overlay -o lowerdir={etc}:/etc x /etc && exec {become} "$@"', "sh"]
    for path in (j.base, j.directory):
        os.chown(path, NOBODY, NOBODY)
    assert j.run() == (0, "1000\n1000:1001\n")
    assert j.report["isolation"]["mapping"] == "subids"
    made = list((j.directory / "storage/upper").rglob("x"))
    assert [(p.stat().st_uid, p.stat().st_gid) for p in made] == [(300999, 301000)]


def test_devices(jail):
    j = jail("ls /dev; stat -c %t:%T /dev/fuse; echo x >/dev/null; head -c 4 /dev/zero | wc -c; head -c 1 /dev/zero >/dev/full", devices=["/dev/fuse"])
    code, log = j.run()
    names = set(log.split("\n"))
    assert {"full", "fuse", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero"} <= names
    host = os.stat("/dev/fuse").st_rdev
    assert f"{os.major(host):x}:{os.minor(host):x}" in names and "4" in names
    assert "No space left on device" in log
    assert not {"vda", "mem", "kmsg", "console", "kvm", "sda"} & names


def test_terminal(jail):
    """Terminals are of a devpts of its own."""
    code, log = jail(
        argv=["python3", "-c", "import pty,os; m,s=pty.openpty(); print(os.ttyname(s)); os.write(m,b'x\\n'); print(os.read(s,9))"],
        hand="/usr/bin/python3",
    ).run()
    assert (code, log) == (0, "/dev/pts/0\nb'x\\n'\n")


def test_network(jail):
    script = "cat /proc/net/dev | cut -d: -f1 | tail -n +3; python3 -c 'import socket; s=socket.socket(); s.bind((\"127.0.0.1\",80)); print(\"bound\")'"
    assert jail(script).run() == (0, "    lo\nbound\n")
    code, log = jail("cat /proc/net/dev", network="host").run()
    assert [line.split(":")[0].strip() for line in log.splitlines()[2:]] == [
        line.split(":")[0].strip() for line in pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]
    ]


# --- volumes


@pytest.fixture
def volume():
    """A directory of a user of its own, with a file."""
    path = room("j")
    (path / "file").write_text("from outside\n")
    path.chmod(0o755)
    yield path
    subprocess.run(["rm", "-rf", path], check=True)


def own(path, user):
    subprocess.run(["chown", "-R", f"{user}:{user}", path], check=True)


def test_volume(jail, volume):
    j = jail(
        "cat /data/in/file; echo inside >/data/in/new; stat -c %u /data/in/file /data/in/new",
        mounts=[{"source": str(volume), "target": "/data/in"}],
    )
    outside = j.user or 4321  # root inside is whoever owns the directory
    own(volume, outside)
    assert j.run() == (0, "from outside\n0\n0\n")
    assert (volume / "new").read_text() == "inside\n" and (volume / "new").stat().st_uid == outside


def test_read_only_volume(jail, volume):
    j = jail("echo x >/data/new; rm /data/file", mounts=[{"source": str(volume), "target": "/data", "read_only": True}])
    own(volume, j.user or 0)
    code, log = j.run()
    assert log.count("Read-only file system") == 2 and [p.name for p in volume.iterdir()] == ["file"]


def test_overlay_volume(jail, volume):
    j = jail(
        "echo x >/data/new; echo more >>/data/file; cat /data/file",
        mounts=[{"source": str(volume), "target": "/data", "overlay": True}],
    )
    own(volume, j.user or 0)
    assert j.run() == (0, "from outside\nmore\n")
    assert [p.name for p in volume.iterdir()] == ["file"] and (volume / "file").read_text() == "from outside\n"


def test_volume_of_one_file(jail, volume):
    j = jail("cat /etc/some/thing", mounts=[{"source": str(volume / "file"), "target": "/etc/some/thing"}])
    own(volume, j.user or 0)
    assert j.run() == (0, "from outside\n")


def test_volume_with_a_link_in_its_source_is_refused(jail, volume):
    (volume / "link").symlink_to("/etc")
    j = jail("true", mounts=[{"source": str(volume / "link"), "target": "/data"}])
    report = j.start()
    assert report["code"] == "invalid" and "symbolic link" in report["error"] and report["step"] == "sources"


def test_nothing_is_mounted_over_proc(jail, volume):
    (volume / "file").write_text("of somebody")
    for source, target in ((volume / "file", "/proc/version"), (volume, "/proc/sys")):
        report = jail("true", mounts=[{"source": str(source), "target": target}]).start()
        assert report["code"] == "invalid" and "over /proc" in report["error"], report


# --- limits


def test_memory_limit_is_named(jails):
    """One process is killed; the jail lives on, and the count is there to be read."""
    j = jails(
        "python3 -c 'x = bytearray(200 << 20)'; echo code $?; sleep 60",
        memory=64 * MIB,
    )
    j.must_start()
    j.wait_log("code 137")
    assert j.report["isolation"]["memory_limit"] is True
    assert json.loads(ask(j, "status")[0])["oom_kills"] == 1
    os.kill(j.report["pid"], signal.SIGKILL)
    assert j.end()["oom_kills"] == 1


def test_process_limit(jail):
    j = jail(argv=["python3", "-c", FORKS], hand="/usr/bin/python3", pids=12)
    code, log = j.run()
    assert (code, log) == (0, "11 then EAGAIN\n")
    assert j.report["isolation"]["pids_limit"] is True
    assert j.end()["pids_hits"] == (0 if j.user else 1)  # a limit of the user is not counted


FORKS = """
import errno, os, signal
children = []
try:
    for i in range(100):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except OSError as e:
    print(len(children), "then", errno.errorcode[e.errno])
"""


def test_cpu_limit(jails):
    j = jails("sleep 60", cpus=0.5)
    j.must_start()
    for path in cgroups_of(j.id):
        for name, value in (("cpu.cfs_quota_us", "50000"), ("cpu.max", "50000 100000")):
            file = pathlib.Path(path) / name
            if file.exists() and str(j.report["pid"]) in (pathlib.Path(path) / "cgroup.procs").read_text().split():
                assert file.read_text().strip() == value
                return
    pytest.fail("no control group limits the processor")


def test_resource_limits(jail):
    j = jail("ulimit -Sn; ulimit -Hn; ulimit -c; dd if=/dev/zero of=/f bs=1M count=9; stat -c %s /f", open_files=77, file_size=2 * MIB)
    code, log = j.run()
    assert log.startswith("77\n77\n0\n") and log.endswith(f"\n{2 * MIB}\n"), log
    assert j.report["isolation"]["open_files_limit"] and j.report["isolation"]["file_size_limit"]


def test_files_that_nobody_completes(jail, image):
    """Whoever copies them hangs: the pipe is open, and no byte comes."""
    reader, writer = os.pipe()
    plan = {"fds": [reader], "files_fd": reader, "lowers": [str(image)], "host_paths": [], "hand": "/bin/busybox"}
    try:
        report = jail("true", files_seconds=0.3, **plan).start()
        assert "not completed within 0.3 seconds" in report["error"], report
        os.write(writer, b"x")
        j = jail("echo complete", files_seconds=60, **plan)
        if j.user:
            subprocess.run(["chown", "-R", f"{j.user}:{j.user}", image], check=True)
        assert j.run() == (0, "complete\n")
    finally:
        os.close(reader)
        os.close(writer)


def test_wall_time(jail):
    j = jail("sleep 60", wall_time=0.2)
    j.must_start()
    end = j.end()
    assert end["wall_time"] is True and end["signal"] == signal.SIGKILL


@pytest.mark.parametrize("limit, value", [("memory", 64 * MIB), ("cpus", 1.0)])
def test_limit_that_cannot_be_enforced(jails, limit, value):
    if not re.search(r"^0::/$", pathlib.Path("/proc/self/cgroup").read_text(), re.MULTILINE):
        pytest.skip("control groups may be delegated here")
    j = jails("true", user=NOBODY, **{limit: value})
    report = j.start()
    assert report["code"] == "unsupported" and f"limit on {limit} cannot be enforced" in report["error"]
    assert j.process.wait(20) != 0


# --- the keeper


def ask(j, request, user=None):
    """(answer, descriptor) of the keeper."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(str(j.directory / "keeper.sock"))
        s.sendall(request.encode() + b"\n")
        data, fds, *_ = socket.recv_fds(s, 4096, 1)
        return data.decode(), fds[0] if fds else None


def test_keeper_answers(jail):
    j = jail("sleep 60", wall_time=1000)
    j.must_start()
    status = json.loads(ask(j, "status")[0])
    assert status["pid"] == j.report["pid"] and 900 < status["wall_left"] <= 1000
    assert ask(j, "nonsense") == ("unknown\n", None)
    assert stat.S_IMODE((j.directory / "keeper.sock").stat().st_mode) == 0o600
    answer, fd = ask(j, "storage")
    assert "upper" in os.listdir(fd)
    os.close(fd)
    assert ask(j, "end")[0] == "ok\n"
    assert j.end()["signal"] == signal.SIGKILL
    assert not (j.directory / "keeper.sock").exists()


def test_killed_keeper_takes_the_jail_along(jail):
    j = jail("sleep 1000 & echo up; wait")
    j.must_start()
    j.wait_log("up")
    assert pathlib.Path(f"/proc/{j.report['pid']}").exists()
    j.kill_keeper()
    wait_until(lambda: not is_running(j.report["pid"]), "end of the jail")
    # The next start with that id finds what was left, and nobody minds.
    j.plan["argv"][2] = "echo again"
    (j.directory / "log").unlink()
    assert j.run() == (0, "again\n")


def test_keeper_that_is_asked_to_stop(jail):
    j = jail("echo up; sleep 1000")
    j.must_start()
    j.wait_log("up")
    j.process.terminate()
    assert j.end()["signal"] == signal.SIGKILL
    assert not cgroups_of(j.id)


def test_nobody_waits_for_the_report(jail):
    """Whoever wanted the jail was killed: it ends, and nothing of it is left."""
    j = jail("sleep 1000")
    os.close(j.launch())
    assert j.end()["signal"] == signal.SIGKILL
    assert not cgroups_of(j.id)


def test_dead_owner(jail):
    """The jail ends with its owner, and its directory goes, whatever is in it."""
    owner = subprocess.Popen(["sleep", "1000"])
    start = start_time(owner.pid)
    outside = room("j")
    (outside / "precious").write_text("x")
    try:
        j = jail(
            f"mkdir -p /a/b; chmod 0 /a/b; ln -s {outside} /link; echo up; sleep 1000",
            owner_pid=owner.pid,
            owner_start=start,
        )
        j.must_start()
        j.wait_log("up")
        owner.kill()
        owner.wait()
        j.process.wait(20)
        assert not j.directory.exists() and not is_running(j.report["pid"])
        assert not cgroups_of(j.id)
        assert (outside / "precious").exists()
    finally:
        owner.kill()
        owner.wait()
        shutil.rmtree(outside)


def test_owner_that_is_another_process_by_now(jail):
    report = jail("true", owner_pid=os.getpid(), owner_start=1).start()
    assert report["code"] == "gone"


def test_log_has_an_end(jail):
    """Nobody fills the host's disk by writing to the log."""
    j = jail("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo done")
    j.must_start()
    j.end()
    size = (j.directory / "log").stat().st_size
    assert size <= (16 << 20) + 8192
    assert "the log is full" in j.log()[-200:]


def test_keeper_is_small(jails):
    j = jails("sleep 60")
    j.must_start()
    ask(j, "status")
    text = pathlib.Path(f"/proc/{j.report['keeper']}/smaps_rollup").read_text()
    if b"__asan_init" in j.program.read_bytes() or b"__tsan_init" in j.program.read_bytes():
        pytest.skip("a sanitizer needs memory of its own")
    private = int(re.search(r"^Anonymous:\s+(\d+) kB", text, re.MULTILINE)[1])  # the rest is the program file
    assert private < 500, text


# --- what goes wrong


@pytest.mark.parametrize(
    "change, text",
    [
        ({"nonsense": 1}, "unknown key nonsense"),
        ({"id": "../x"}, "id: expected"),
        ({"directory": "relative"}, "directory: expected an absolute path"),
        ({"directory": "/nonexistent"}, "/nonexistent"),
        ({"host_paths": []}, "expected lowers or host_paths"),
        ({"tmpfs_bytes": 1 << 20}, "either storage or tmpfs_bytes"),
        ({"lowers": ["/nonexistent"]}, "layer /nonexistent"),
        ({"files_fd": 2}, "files_fd: expected lowers"),
        ({"hand": "/nonexistent"}, "program /nonexistent"),
        ({"hand": "/etc/passwd"}, "execute /etc/passwd"),
        ({"devices": ["/dev/nonexistent"]}, "/dev/nonexistent"),
        ({"devices": ["/dev/../etc/passwd"]}, "without .."),
        ({"fds": [999]}, "descriptor 999"),
        ({"mounts": [{"source": "/nonexistent", "target": "/x"}]}, "volume at /x"),
        ({"env": ["novalue"]}, "env: item 1"),
    ],
)
def test_bad_plans(jail, change, text):
    j = jail("true")
    j.plan.update(change)
    report = j.start()
    assert text in report["error"], report
    assert j.process.wait(20) != 0
    assert not (j.directory / "keeper.sock").exists()


@pytest.mark.parametrize(
    "owner, mode, text",
    [(0, 0o600, "EROFS"), (0, 0o622, "others can write"), (0, 0o620, "others can write"), (NOBODY, 0o600, "others can write")],
)
def test_a_layer_that_is_a_strange_file(jails, owner, mode, text):
    """The kernel is given no image that somebody else may have made; and what is none is named."""
    j = jails("true")
    junk = j.directory / "junk"
    junk.write_bytes(bytes(1024) + bytes.fromhex("e2e1f5e0") + b"\xff" * 8192)
    os.chown(junk, owner, owner)
    junk.chmod(mode)
    j.plan["lowers"] = [str(junk)]
    report = j.start()
    assert text in report["error"] and str(junk) in report["error"], report
    assert j.process.wait(20) != 0


def test_an_image_is_for_root(jails):
    """A state that root has given away: its files can be used, its images cannot, and that is said."""
    j = jails("true", user=NOBODY)
    image = j.directory / "image"
    image.write_bytes(bytes(4096))
    os.chown(image, NOBODY, NOBODY)
    j.plan["lowers"] = [str(image)]
    report = j.start()
    assert "only root" in report["error"] and str(image) in report["error"], report


def test_a_layer_that_never_comes(jail):
    """A fork whose copy failed: the pipe is closed without a byte."""
    ours, theirs = os.pipe()
    j = jail("true", fds=(ours,), lowers=["/nonexistent/tree"], files_fd=ours)
    os.close(theirs)
    report = j.start()
    os.close(ours)
    assert "not completed" in report["error"], report


@pytest.mark.parametrize("mapping", ["identity", "none"])
def test_root_that_is_root_outside(jails, mapping):
    """Weaker, and reported as such; but private files, kernel settings and mounts stay out of reach."""
    script = """
        cat /etc/shadow /etc/sudoers; cat /proc/timer_list /proc/vmallocinfo | wc -c
        for f in /proc/sys/vm/swappiness /proc/irq/default_smp_affinity; do echo 1 >$f; done
        mount -t tmpfs x /mnt; mknod /tmp/n c 1 5; echo made >/etc/made; cat /proc/self/uid_map
    """
    code, log = (j := jails(script, mapping=mapping, etc_hidden=[])).run()
    isolation = j.report["isolation"]
    assert (isolation["mapping"], isolation["user"], isolation["idmapped"]) == (mapping, mapping != "none", False)
    assert log.count("/etc/shadow: Permission denied") == 1 and log.count("/etc/sudoers: Permission denied") == 1
    assert "\n0\n" in log and log.count("Read-only file system") == 2, log
    assert "mount: " in log and "mknod: " in log and log.split()[-3:] == ["0", "0", "4294967295"], log
    assert (j.directory / "storage/upper/@/etc/made").exists()


def test_owners_that_cannot_be_mapped(jails, image):
    """A layer on a file system without idmapped mounts: an identity mapping, and the report says so."""
    work = room("j")
    for name in ("u", "w", "m"):
        (work / name).mkdir()
    mount = f"mount -t overlay -o lowerdir={image},upperdir={work}/u,workdir={work}/w x {work}/m && exec \"$@\""
    wrap = ["unshare", "-m", "--propagation", "private", "sh", "-c", mount, "sh"]
    try:
        j = jails("id -u; cat /secret", wrap=wrap, lowers=[str(work / "m")], host_paths=[], hand="/bin/busybox", argv=["sh", "-c", "id -u; cat /secret"])
        assert j.run() == (0, "0\nthe image's own\n")
        assert (j.report["isolation"]["mapping"], j.report["isolation"]["idmapped"]) == ("identity", False)
        refused = jails("true", wrap=wrap, lowers=[str(work / "m")], host_paths=[], hand="/bin/busybox", mapping="range")
        assert "cannot show other owners" in refused.start()["error"]
    finally:
        shutil.rmtree(work)


def test_host_that_lives_on_an_overlay(jails):
    """There is no room for a view: what is private is looked for and hidden."""
    work = pathlib.Path(subprocess.check_output(["mktemp", "-d", "/var/tmp/tendon-test-XXXXXX"], text=True).strip())
    for name in ("u", "w", "m"):
        (work / name).mkdir()
    script = f"""
        mount -t tmpfs x {work} && mkdir {work}/u {work}/w {work}/m &&
        mount -t overlay -o lowerdir=/,upperdir={work}/u,workdir={work}/w x {work}/m &&
        for d in proc sys dev tmp; do mount --rbind /$d {work}/m/$d || exit 1; done
        mkdir -p {work}/m/opt/private && echo secret >{work}/m/opt/private/file && chmod 700 {work}/m/opt/private
        echo secret >{work}/m/opt/file && chmod 600 {work}/m/opt/file && echo public >{work}/m/opt/public
        chmod 644 {work}/m/opt/public
        cd {work}/m && pivot_root . mnt && umount -l /mnt && exec "$@"
    """
    wrap = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]
    try:
        look = "cat /opt/public; cat /opt/file /opt/private/file; echo x >/opt/new; cat /etc/sudoers"
        ours, theirs = os.pipe()  # who looks for a name before it is there makes overlayfs remember that it is not
        j = jails(f"{look}; cat /proc/self/fd/{ours}; cat /opt/later", wrap=wrap, etc_hidden=[], fds=[ours])
        j.must_start()
        os.close(ours)
        later = pathlib.Path(f"/proc/{j.process.pid}/root/opt/later")
        later.with_name("l").touch(0o600)
        later.with_name("l").write_text("made later\n")
        later.with_name("l").rename(later)
        os.close(theirs)
        j.end()
        log = j.log()
        assert log.startswith("public\n") and "secret" not in log and log.count("No such file") == 3, log
        # What was private at the start is hidden, what became so later is not: that is not promised.
        assert "made later" in log and not j.report["isolation"]["world_only"], (log, j.report)
        assert j.report["isolation"]["mapping"] == "identity"
    finally:
        shutil.rmtree(work)


def test_probe():
    launcher = Jail()
    try:
        for user in (None, NOBODY):
            who = {"user": user, "group": user, "extra_groups": []} if user else {}
            text = subprocess.check_output([launcher.program, "--probe"], **who)
            findings = json.loads(text)["findings"]
            assert len(findings) > 8
            for finding in findings:
                assert finding["what"] and finding["detail"]
                assert finding["good"] or not finding["needed"], finding  # or no test here could pass
    finally:
        launcher.close()

"""Ways out of a sandbox. Each attack is a program that is first run without the jail, where it works, and
then in it, where it must not. (What would hurt the host - bombs - is run in a jail without the limit.)"""

import contextlib
import json
import os
import pathlib
import platform
import pty
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid

import pytest

from launcher import NOBODY, Jail
from peers import runsc
from rooms import room

MIB = 1 << 20

# What every attack has at hand.
PRELUDE = """
import ctypes, errno, fcntl, os, pathlib, platform, resource, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
def syscall(x86, arm, *args):
    libc.syscall.restype = ctypes.c_long
    r = libc.syscall(ctypes.c_long(arm if ARM else x86), *[a if isinstance(a, (bytes, ctypes.Array)) else
                     ctypes.c_ulong(a & (1 << 64) - 1) for a in args])
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r
def attack():
"""
MAIN = """
try:
    result = attack()
except (OSError, ValueError) as e:
    print("REFUSED", errno.errorcode.get(getattr(e, "errno", 0) or 0, e))
else:
    print("SUCCEEDED" if result is not False else "REFUSED by its result")
"""


def program(body, **values):
    for name, value in values.items():
        body = body.replace(f"<{name}>", str(value))
    lines = body.strip("\n").split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip())
    return PRELUDE + "\n".join("    " + line[margin:] for line in lines) + "\n" + MAIN


def outside(body, wrap=(), user=None, **values):
    """What it says on the host."""
    who = {"user": user, "group": user, "extra_groups": []} if user else {}
    done = subprocess.run(
        [*wrap, "/usr/bin/python3", "-c", program(body, **values)], capture_output=True, text=True, timeout=60, cwd="/", **who
    )
    return done.stdout.strip().split("\n")[-1] or f"exit code {done.returncode}: {done.stderr[-500:]}"


def inside(jail, body, plan=None, **values):
    """What it says in a jail, and how that ended."""
    j = jail(argv=["python3", "-c", program(body, **values)], hand="/usr/bin/python3", **(plan or {}))
    code, log = j.run()
    return (log.strip().split("\n")[-1] or f"exit code {code}"), code


def must_be_refused(jail, body, wrap=(), plan=None, **values):
    assert outside(body, wrap, **values) == "SUCCEEDED", "the attack does not even work without a jail"
    verdict, _ = inside(jail, body, plan, **values)
    assert verdict.startswith("REFUSED"), verdict


@pytest.fixture
def scratch():
    path = room("e")
    path.chmod(0o755)
    yield path
    subprocess.run(["rm", "-rf", path], check=True)


# --- attacks that need nothing but themselves: all of them in one jail, each in a process of its own

ATTACKS = {}


def attacks(group, **bodies):
    ATTACKS.update({f"{group}: {name.replace('_', ' ')}": body for name, body in bodies.items()})


attacks(
    "read",
    **{
        path: f"""
        p = pathlib.Path("{path}")
        return bool(os.listdir(p) if p.is_dir() else p.read_bytes())
        """
        for path in ("/etc/gshadow", "/root", "/var/log/dpkg.log", "/var/spool", "/sys/kernel")
    },
    by_handle="""
        # around all directories, by the number of a file: the classic way out of containers
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
        mount_id = ctypes.create_string_buffer(8)
        syscall(303, 264, -100, b"/usr\\0", handle, mount_id, 0)
        fd = os.open("/usr", os.O_RDONLY)
        return os.listdir(syscall(304, 265, fd, handle, os.O_RDONLY)) != []
        """,
)

attacks(
    "processes",
    see="""
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (p / "cmdline").read_bytes() == b"sleep\\0" + b"31536007\\0":
                    return True
            except OSError:
                pass # it has ended
        return False
        """,
    ptrace="""
        syscall(101, 117, 16, <victim>, 0, 0)
        os.waitpid(<victim>, 0)
        syscall(101, 117, 17, <victim>, 0, 0)
        """,
    read_memory="""
        start = int(open("/proc/<victim>/maps").readline().split("-")[0], 16)
        into = ctypes.create_string_buffer(4)
        local = (ctypes.c_ulong * 2)(ctypes.addressof(into), 4)
        remote = (ctypes.c_ulong * 2)(start, 4)
        syscall(310, 270, <victim>, local, 1, remote, 1, 0)
        return into.raw == b"\\x7fELF"
        """,
    signal="os.kill(<victim>, 0)",
)

attacks(
    "mounts and namespaces",
    mount="""
        if libc.mount(b"t", b"/mnt", b"tmpfs", 0, None) < 0:
            raise OSError(ctypes.get_errno(), "mount")
        """,
    bind="""
        if libc.mount(b"/usr", b"/mnt", None, 4096, None) < 0:
            raise OSError(ctypes.get_errno(), "bind")
        """,
    fsopen="syscall(430, 430, b'tmpfs\\0', 0)",
    open_tree="syscall(428, 428, -100, b'/\\0', 1)",
    umount="""
        if libc.umount2(b"/proc", 2) < 0:
            raise OSError(ctypes.get_errno(), "umount")
        """,
    unshare="""
        if libc.unshare(0x00020000) < 0:
            raise OSError(ctypes.get_errno(), "unshare")
        """,
    user_namespace="""
        if libc.unshare(0x10000000) < 0: # in which it would be root of everything
            raise OSError(ctypes.get_errno(), "unshare")
        """,
    clone="""
        pid = syscall(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        """,
    clone3="""
        args = (ctypes.c_ulong * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD)
        pid = syscall(435, 435, args, 88)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        """,
    setns="""
        fd = os.open("/proc/self/ns/mnt", os.O_RDONLY)
        if libc.setns(fd, 0) < 0:
            raise OSError(ctypes.get_errno(), "setns")
        """,
    leave_the_root="""
        # chroot, and climb out of it through an open directory: as far as the jail's root, no further
        top = os.open("/", os.O_RDONLY)
        os.makedirs("/tmp/tendon-test-chroot", exist_ok=True)
        os.chroot("/tmp/tendon-test-chroot")
        os.fchdir(top)
        for i in range(50):
            os.chdir("..")
        os.chroot(".")
        os.rmdir("/tmp/tendon-test-chroot")
        return pathlib.Path("<scratch>/marker").read_text() == "host"
        """,
)

attacks(
    "devices",
    make_a_node="""
        os.mknod("/tmp/tendon-test-zero", 0o020600, os.makedev(1, 5))
        try:
            return os.read(os.open("/tmp/tendon-test-zero", os.O_RDONLY), 1) == b"\\0"
        finally:
            os.unlink("/tmp/tendon-test-zero")
        """,
    those_of_the_host="""
        return any(os.path.exists(f"/dev/{name}") for name in ("mem", "kmsg", "vda", "sda", "nvme0n1", "console"))
        """,
)

attacks(
    "network",
    connect="socket.create_connection(('127.0.0.1', <port>), 5).close()",
    abstract_socket="""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(5)
        s.connect("\\0<name>")
        """,
    packet="socket.socket(17, 3, 0).close()",
    netfilter="socket.socket(16, 3, 12).close()",
    kernel_crypto="socket.socket(38, 5, 0).close()",
)

# Each setting gets the value it has already: harmless, but whoever may write it may write anything.
attacks(
    "kernel",
    **{
        path: f"""
        p = pathlib.Path("{path}")
        p.write_bytes(p.read_bytes())
        """
        for path in (
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/vm/swappiness",
            "/proc/sys/kernel/hostname",
            "/sys/kernel/mm/ksm/run",
            "/sys/block/vda/queue/read_ahead_kb",
        )
    },
    add_key="syscall(248, 217, b'user\\0', b'tendon-test\\0', b'x', 1, -3)",
    see_keys="return b'keyring' in pathlib.Path('/proc/keys').read_bytes()",
    see_interrupts="return pathlib.Path('/proc/interrupts').read_bytes() != b''",
    **{
        name: f"""
        try:
            syscall({numbers}, {arguments})
        except OSError as e:
            if e.errno in (errno.EPERM, errno.ENOSYS):
                raise
        """
        for name, numbers, arguments in (
            ("bpf", "321, 280", "5, bytes(120), 120"),
            ("perf_event_open", "298, 241", "struct.pack('IIQQQQQ', 1, 112, 0, 0, 0, 0, 0) + bytes(64), 0, -1, -1, 0"),
            ("userfaultfd", "323, 282", "1"),
            ("io_uring_setup", "425, 425", "4, ctypes.create_string_buffer(120)"),
            ("keyctl", "250, 219", "0, -3, 1"),
            ("fanotify_init", "300, 262", "0, 0"),
            ("personality", "135, 92", "0x0040000"),
            ("syslog", "103, 116", "10, 0, 0"),
            ("quotactl", "179, 60", "0x800001 << 8, 0, 0, 0"),
        )
    },
)

TYPE = """
        # typing into a terminal as if a person did: into one of its own, where the kernel would allow it
        pid, master = os.forkpty()
        if pid == 0:
            argument = ctypes.create_string_buffer(b"\\x0ax")
            try:
                syscall(16, 29, 0, NUMBER, argument)
                os._exit(0)
            except OSError as e:
                os._exit(e.errno)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise OSError(code, "ioctl")
        """
attacks("terminal", type=TYPE.replace("NUMBER", "0x5412"), type_with_high_bits=TYPE.replace("NUMBER", "0x5412 | 1 << 32"))

DRIVER = """
import json, subprocess, sys
for name, text in json.loads(sys.stdin.read() if sys.argv[1] == "-" else sys.argv[1]).items():
    done = subprocess.run([*sys.argv[2:], "/usr/bin/python3", "-c", text], capture_output=True, text=True)
    print(json.dumps([name, (done.stdout.strip() or f"exit code {done.returncode}: {done.stderr[-300:]}").split("\\n")[-1]]), flush=True)
"""


@contextlib.contextmanager
def targets():
    """What the attacks aim at, {title: program}."""
    scratch = room("e")
    scratch.chmod(0o755)
    (scratch / "marker").write_text("host")
    victim = subprocess.Popen(["sleep", "31536007"])
    name = f"tendon-test-{uuid.uuid4()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen(4)
        values = {"victim": victim.pid, "scratch": scratch, "port": tcp.getsockname()[1], "name": name}
        try:
            yield {title: program(body, **values) for title, body in ATTACKS.items()}
        finally:
            victim.kill()
            victim.wait()
            shutil.rmtree(scratch)


@pytest.fixture(scope="session")
def verdicts():
    """What each attack says {"outside", "root", "user"}: without a jail, in one of root, and of a user."""
    jails = []
    with targets() as texts:
        try:
            done = subprocess.run(
                ["/usr/bin/python3", "-c", DRIVER, "-", "unshare", "-m", "--propagation", "private"],
                input=json.dumps(texts), capture_output=True, text=True, check=True, timeout=100, cwd="/",
            )
            result = {"outside": dict(map(json.loads, done.stdout.splitlines()))}
            for kind, user in (("root", None), ("user", NOBODY)):
                result[kind] = all_in(jails, texts, user=user)
            result["gvisor"] = lambda: all_in(jails, texts, runsc=runsc())
            yield result
        finally:
            for jail in jails:
                jail.close()


def all_in(jails, texts, **plan):
    jails.append(Jail(argv=["python3", "-c", DRIVER, json.dumps(texts)], hand="/usr/bin/python3", **plan))
    code, log = jails[-1].run(100)
    return dict(json.loads(line) for line in log.splitlines() if line.startswith("["))


# On a kernel of its own some of it is done, to that kernel and nothing else.
HARMLESS_IN_GVISOR = {
    "mounts and namespaces: user namespace",
    "mounts and namespaces: clone",
    "mounts and namespaces: clone3",
    "kernel: perf event open",
    "kernel: keyctl",
    "kernel: personality",
    "kernel: syslog",
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_in_gvisor(verdicts, attack):
    if callable(verdicts["gvisor"]):
        verdicts["gvisor"] = verdicts["gvisor"]()
    judge(verdicts, attack, "gvisor")


@pytest.mark.parametrize("kind", ["root", "user"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_attack(verdicts, attack, kind):
    judge(verdicts, attack, kind)


def judge(verdicts, attack, kind):
    alone = verdicts["outside"][attack]
    if alone in ("REFUSED ENOSYS", "REFUSED ENOENT", "REFUSED EAFNOSUPPORT"):
        pytest.skip(f"this machine does not have it: {alone}")
    assert alone == "SUCCEEDED", "the attack does not even work without a jail"
    verdict = verdicts[kind][attack]
    harmless = kind == "gvisor" and attack in HARMLESS_IN_GVISOR
    assert harmless or verdict.startswith("REFUSED"), verdict


# --- secrets of the host


def test_read_what_only_root_may(jail):
    """Also of directories that are shown, and also what appears only after the jail has started."""
    for where in ("/opt", "/usr/local"):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="tendon-test-", dir=where))
        try:
            directory.chmod(0o755)
            (directory / "public").write_text("public")
            (directory / "early").write_text("secret")
            (directory / "early").chmod(0o600)
            read_end, write_end = os.pipe()
            code = f"""
import os, subprocess
os.chdir("{directory}")
print(open("public").read(), "up", flush=True)
os.read({read_end}, 1)
subprocess.run(["cat", "early", "late", "closed/x"])
"""
            j = jail(argv=["python3", "-c", code], hand="/usr/bin/python3", fds=[read_end])
            j.must_start()
            j.wait_log("up")
            (directory / "closed").mkdir(mode=0o700)
            (directory / "closed/x").write_text("secret")
            fd = os.open(directory / "late", os.O_CREAT | os.O_WRONLY, 0o600)
            os.write(fd, b"secret")
            os.close(fd)
            os.write(write_end, b"x")
            j.end()
            os.close(read_end)
            os.close(write_end)
            assert j.log().startswith("public up") and "secret" not in j.log(), j.log()
            assert j.log().count("Permission denied") == 3, j.log()
        finally:
            shutil.rmtree(directory)


def test_change_rights_to_read(jails):
    """Root inside owns the files it sees: changing mode, owner or name of a private one reveals nothing."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tendon-test-", dir="/opt"))
    try:
        directory.chmod(0o755)
        (directory / "key").write_text("secret")
        (directory / "key").chmod(0o600)
        script = f"cd {directory}; chmod 644 key; cat key; chown 1:1 key; cat key; mv key k; cat k key; ln key l; cat l; cp key c; cat c; true"
        code, log = jails(script).run()
        assert code == 0 and "secret" not in log, log
        assert (directory / "key").read_text() == "secret" and (directory / "key").stat().st_mode & 0o777 == 0o600
    finally:
        shutil.rmtree(directory)


# --- processes of the host


@pytest.fixture
def victim():
    """A process of the host with a name that nobody else has."""
    process = subprocess.Popen(["sleep", "31536007"])
    yield process.pid
    process.kill()
    process.wait()


def test_signals_to_everybody(jail, victim):
    """kill -9 -1 inside reaches nobody outside."""
    code, log = jail("sleep 1000 & kill -9 -1; echo alive").run()
    assert log.endswith("alive\n")
    assert pathlib.Path(f"/proc/{victim}/cmdline").read_bytes().startswith(b"sleep")


# --- files of the host


@pytest.mark.parametrize("way", ["", "/proc/1/root", "/proc/1/cwd", "/proc/self/root", "/proc/self/fd/0/../.."])
def test_write_outside(jail, scratch, way):
    target = scratch / "target"
    body = """
        fd = os.open("<way><target>", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"overwritten")
        """
    assert outside(body, way="" if "1" in way or "fd" in way else way, target=target) == "SUCCEEDED"
    target.write_text("untouched")
    inside(jail, body, way=way, target=target)
    assert target.read_text() == "untouched" and os.listdir(scratch) == ["target"]


def test_overwrite_the_program(jail, scratch):
    """Whoever can write to the program that runs as PID 1 is outside at the next start."""
    hand = scratch / "python3"
    shutil.copy("/usr/bin/python3", hand)
    before = hand.read_bytes()
    body = """
        for path in ("/.tendon/hand", "/proc/1/exe", "/proc/self/exe"):
            try:
                os.close(os.open(path, os.O_WRONLY))
                return True
            except OSError as e:
                if e.errno not in (errno.EROFS, errno.ETXTBSY, errno.EACCES):
                    return True
        return False
        """
    j = jail(argv=["python3", "-c", program(body)], hand=str(hand))
    os.chown(hand, j.user or 0, j.user or 0)
    code, log = j.run()
    assert log == "REFUSED by its result\n" and hand.read_bytes() == before


# --- limits


def test_leave_the_control_group(jails):
    """To the root of the hierarchy, where no limit is."""
    must_be_refused(
        jails,
        """
        found = [p for p in pathlib.Path("/sys/fs/cgroup").glob("**/cgroup.procs") if "tendon" not in str(p)]
        place = [p for p in found if len(p.parts) <= 6 and "pids" in str(p) or p.parent.name == "cgroup"]
        place.sort(key=lambda p: len(p.parts))  # deeper ones may belong to somebody who ends just now
        place[0].write_text("0") if place else sys.exit(print("REFUSED: there is none"))
        """,
        plan={"pids": 50},
    )


def test_raise_resource_limits(jail):
    body = """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard + <more>, hard + <more>))
        """
    assert outside(body, more=0) == "SUCCEEDED"
    assert inside(jail, body, {"open_files": 100}, more=0)[0] == "SUCCEEDED"
    assert inside(jail, body, {"open_files": 100}, more=1)[0].startswith("REFUSED")


BOMB = """
    children = []
    try:
        for i in range(60):
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
"""


def test_fork_bomb(jail):
    assert inside(jail, BOMB)[0] == "SUCCEEDED"
    assert inside(jail, BOMB, {"pids": 20})[0] == "REFUSED EAGAIN"


def test_memory_bomb(jails):
    body = """
        keep = [bytearray(MIB) for i in range(200)]
        return len(keep) == 200
        """.replace("MIB", str(MIB))
    assert inside(jails, body) == ("SUCCEEDED", 0)
    assert inside(jails, body, {"memory": 64 * MIB})[1] == -signal.SIGKILL


@pytest.mark.parametrize("where", ["/", "/usr/", "/tmp/", "/dev/shm/", "/run/", "/dev/"])
def test_disk_fill(jail, where):
    body = """
        with open("<where>fill", "wb", buffering=0) as f:
            for i in range(100):
                if f.write(bytes(MIB)) != MIB:
                    raise OSError(errno.ENOSPC, "short write")
        """.replace("MIB", str(MIB))
    if where in ("/", "/usr/", "/tmp/"):  # the others are small in every jail
        assert inside(jail, body, where=where)[0] == "SUCCEEDED"
    verdict, _ = inside(jail, body, {"storage": None, "tmpfs_bytes": 32 * MIB}, where=where)
    assert verdict == "REFUSED ENOSPC"


def test_many_empty_files(jail):
    """Files without content take memory too."""
    body = """
        os.mkdir("/many")
        for i in range(20000):
            os.close(os.open(f"/many/{i}", os.O_CREAT | os.O_WRONLY))
        """
    assert inside(jail, body, {"storage": None, "tmpfs_bytes": 100 * MIB})[0] == "SUCCEEDED"
    assert inside(jail, body, {"storage": None, "tmpfs_bytes": 4 * MIB})[0] == "REFUSED ENOSPC"


# --- devices


def test_device_on_a_volume(jail, scratch):
    """A node that somebody else put there does not work."""
    os.mknod(scratch / "zero", 0o020666, os.makedev(1, 5))
    (scratch / "zero").chmod(0o666)
    body = "return os.read(os.open('<path>/zero', os.O_RDONLY), 1) == b'\\0'"
    assert outside(body, path=scratch) == "SUCCEEDED"
    mounts = [{"source": str(scratch), "target": "/vol"}]
    assert inside(jail, body, {"mounts": mounts}, path="/vol")[0] == "REFUSED EACCES"


# --- network


def test_abstract_sockets_with_the_network_of_the_host(jail):
    """They have no path that could be hidden: only Landlock stands before them."""
    with socket.socket(socket.AF_UNIX) as server:
        name = f"tendon-test-{uuid.uuid4()}"
        server.bind("\0" + name)
        server.listen(1)
        must_be_refused(
            jail,
            """
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(5)
            s.connect("\\0<name>")
            """,
            plan={"network": "host"},
            name=name,
        )


def test_sockets_in_the_file_system(jail, scratch):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(scratch / "s"))
        server.listen(1)
        (scratch / "s").chmod(0o777)
        must_be_refused(jail, "socket.socket(socket.AF_UNIX).connect('<path>')", plan={"network": "host"}, path=scratch / "s")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture has no second set of numbers")
def test_32_bit_calls(jail):
    """Under other numbers, which a careless filter does not look at."""
    body = """
        import mmap
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3])) # getpid by int 0x80
        call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
        return call() == os.getpid()
        """
    verdict = outside(body)
    if verdict != "SUCCEEDED":
        pytest.skip(f"this kernel does not run 32-bit code: {verdict}")
    assert inside(jail, body)[1] == -signal.SIGSYS


def test_no_terminal_of_the_host(jail):
    """The launcher is started in a terminal: nothing inside can open it."""
    body = "os.close(os.open('/dev/tty', os.O_RDWR))"
    in_terminal = ["script", "-qefc"]
    shown = subprocess.run(
        [*in_terminal, f"python3 -c {shlex.quote(program(body))}", "/dev/null"], capture_output=True, text=True, check=False
    )
    assert "SUCCEEDED" in shown.stdout
    j = jail(argv=["python3", "-c", program(body)], hand="/usr/bin/python3")
    master, slave = pty.openpty()
    try:
        j.terminal = slave
        code, log = j.run()
    finally:
        os.close(master)
        os.close(slave)
    assert log == "REFUSED ENXIO\n"


def test_pairs_of_sockets_by_family(jail):
    """What is no unix pair does not get as far as the family's own answer (EOPNOTSUPP, for most)."""
    body = """
        a, b = socket.socketpair()
        a.send(b"x")
        assert b.recv(1) == b"x"
        for family in [2, 10, 16, 30, 38, 40, 43, 1 << 32 | 1]:
            for kind in (1, 2, 5):
                try:
                    syscall(53, 199, family, kind, 0, ctypes.create_string_buffer(8))
                    return True
                except OSError as e:
                    if e.errno != errno.EAFNOSUPPORT:
                        return True
        return False
        """
    assert outside(body) == "SUCCEEDED"
    assert inside(jail, body)[0] == "REFUSED by its result"


# --- set-uid programs


def test_setuid_programs(jails, scratch):
    """A set-uid program on a volume gives nothing to anybody."""
    shutil.copy("/usr/bin/id", scratch / "id")
    (scratch / "id").chmod(0o4755)
    shown = subprocess.run([scratch / "id", "-u"], capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[])
    assert shown.stdout == "0\n"  # without the jail
    j = jails("/vol/id -u", mounts=[{"source": str(scratch), "target": "/vol"}], uid=1234, gid=1234)
    assert j.run() == (0, "1234\n")


def test_setuid_program_of_the_system(jails):
    j = jails("grep -h ^Cap /proc/self/status; su -c id; true", uid=1234, gid=1234)
    code, log = j.run()
    assert "uid=0" not in log and log.count("0000000000000000") >= 4, log


def test_planting_a_setuid_program(jail, scratch):
    """On a volume: what root inside makes belongs to the owner of the volume, not to root outside."""
    j = jail("cp /usr/bin/id /vol/id; chown 0:0 /vol/id; chmod 4755 /vol/id; ls -ln /vol/id", mounts=[{"source": str(scratch), "target": "/vol"}])
    owner = j.user or 4321
    os.chown(scratch, owner, owner)
    code, log = j.run()
    planted = (scratch / "id").stat()
    assert code == 0 and planted.st_uid == owner and not planted.st_mode & 0o6000


# --- races on mounts


@pytest.fixture
def swapping(scratch):
    """scratch/where/in is now a directory, now a link to a secret one; as fast as it goes."""
    (scratch / "secret").mkdir()
    (scratch / "secret/file").write_text("secret")
    (scratch / "where").mkdir()
    (scratch / "where/in").mkdir()
    (scratch / "where/in/file").write_text("public")
    (scratch / "where/other").symlink_to(scratch / "secret")
    code = """
import ctypes, sys
libc = ctypes.CDLL(None)
while True:
    libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)
"""
    process = subprocess.Popen(["python3", "-c", code, scratch / "where/in", scratch / "where/other"])
    yield scratch
    process.kill()
    process.wait()


def test_race_on_the_source(jail, swapping):
    """A volume is the directory that was named, or there is no jail; never what a link was put in for."""
    path = swapping / "where/in/file"
    seen = set()
    for _ in range(100000):
        seen.add(path.read_text())
        if seen == {"public", "secret"}:
            break
    assert seen == {"public", "secret"}, "without a jail the race is lost sooner or later"
    verdicts = set()
    for _ in range(12):
        j = jail("cat /vol/file", mounts=[{"source": str(path.parent), "target": "/vol"}])
        report = j.start()
        if "error" in report:
            assert "symbolic link" in report["error"] or "owner" in report["error"], report
        else:
            j.end()
            verdicts.add(j.log())
    assert verdicts <= {"public"}


def test_race_on_the_target(jail, swapping):
    """A volume inside another one, at a place that is exchanged for a link to the host's files."""
    (swapping / "payload").mkdir()
    (swapping / "payload/mark").write_text("x")
    before = sorted(os.listdir(swapping / "secret"))
    for _ in range(12):
        j = jail(
            "true",
            mounts=[
                {"source": str(swapping / "where"), "target": "/vol"},
                {"source": str(swapping / "payload"), "target": "/vol/in"},
            ],
        )
        if j.user:
            subprocess.run(["chown", "-hR", f"{j.user}:{j.user}", swapping / "payload"], check=True)
        report = j.start()
        if "error" not in report:
            j.end()
        assert sorted(os.listdir(swapping / "secret")) == before


def test_link_as_target(jail, scratch):
    """An absolute link in the root file system is followed inside."""
    shutil.copy("/bin/busybox", scratch / "busybox")
    root = scratch / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    (root / "data").symlink_to("/etc")
    (root / "up").symlink_to("../../../../../../etc")
    (scratch / "vol").mkdir()
    (scratch / "vol/mark").write_text("mark\n")
    for target in ("/data", "/up", "/data/deeper"):
        j = jail(
            lowers=[str(root)],
            host_paths=[],
            hand="/bin/busybox",
            argv=["sh", "-c", "busybox cat /etc/mark /etc/deeper/mark; true"],
            env=["PATH=/bin"],
            mounts=[{"source": str(scratch / "vol"), "target": target}],
        )
        if j.user:
            subprocess.run(["chown", "-hR", f"{j.user}:{j.user}", scratch], check=True)
        code, log = j.run()
        assert log.count("mark\n") == 1, log
        assert not os.path.exists("/etc/mark") and not os.path.exists("/etc/deeper")

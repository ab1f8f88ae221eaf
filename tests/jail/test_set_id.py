"""Set-uid, set-gid and capabilities of files: nobody outside may become somebody else through a file that a
sandbox made on a volume. Looked at from outside, after every way to make one."""

import contextlib
import http.client
import io
import json
import os
import pathlib
import socket
import stat
import subprocess
import zipfile

import pytest

from launcher import NOBODY
from rooms import room

SET_ID = stat.S_ISUID | stat.S_ISGID
# Each way is tried in a directory of its own, `d`; what fails, fails.
WAYS = r"""
import ctypes, os, platform, shutil, socket, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
ARM = platform.machine() == "aarch64"
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 7, 0, 0, 0)  # cap_setuid, effective
def syscall(x86, arm, *args):
    if libc.syscall(ctypes.c_long(arm if ARM else x86), *args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def program(d, name="x"):
    path = f"{d}/{name}"
    shutil.copyfile("/usr/bin/id", path)
    os.chmod(path, 0o755)
    return path
def run(*words):
    subprocess.run(words, check=True, capture_output=True)
def source():  # a set-uid program of the system, or of the layer
    return next(p for p in ("/usr/bin/su", "/bin/su", "/usr/bin/passwd", "/usr/bin/mount") if os.path.exists(p))

def chmod(d): os.chmod(program(d), 0o6755)
def chmod_group(d): os.chmod(program(d), 0o2755)
def fchmod(d): os.fchmod(os.open(program(d), os.O_RDONLY), 0o4755)
def fchmodat(d): os.chmod(os.path.basename(program(d)), 0o4755, dir_fd=os.open(d, os.O_RDONLY))
def fchmodat2(d): syscall(452, 452, -100, program(d).encode(), 0o4755, 0)
def fchmodat2_of_a_descriptor(d): syscall(452, 452, os.open(program(d), os.O_PATH), b"", 0o4755, 0x1000)
def chmod_of_a_descriptor(d): os.chmod(f"/proc/self/fd/{os.open(program(d), os.O_RDONLY)}", 0o4755)
def chmod_through_a_link(d): os.symlink(program(d), f"{d}/l"); os.chmod(f"{d}/l", 0o4755)
def chmod_with_high_bits(d): syscall(90, 53, *((program(d).encode(), ctypes.c_ulong(1 << 40 | 0o4755)) if not ARM else
                                               (-100, program(d).encode(), ctypes.c_ulong(1 << 40 | 0o4755))))
def by_open(d): os.umask(0); os.open(f"{d}/x", os.O_CREAT | os.O_WRONLY, 0o6755)
def by_creat(d):
    if ARM: return
    syscall(85, 0, f"{d}/x".encode(), 0o6755)
def by_openat2(d):
    how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o6755, 0)
    syscall(437, 437, -100, f"{d}/x".encode(), ctypes.create_string_buffer(how), 24)
def by_tmpfile(d):
    fd = os.open(d, os.O_TMPFILE | os.O_RDWR, 0o6755)
    os.link(f"/proc/self/fd/{fd}", f"{d}/x", src_dir_fd=os.open("/", os.O_RDONLY), follow_symlinks=True)
def by_mknod(d): os.mknod(f"{d}/x", 0o106755)
def by_mkdir(d): os.mkdir(f"{d}/x", 0o2775)
def directory(d): os.mkdir(f"{d}/x"); os.chmod(f"{d}/x", 0o2775)
def by_umask(d): os.umask(0); os.mkdir(f"{d}/x", 0o7777)
def by_cp(d): run("cp", "-a", source(), f"{d}/x")
def by_install(d): run("install", "-m", "4755", "/usr/bin/id", f"{d}/x")
def by_tar(d):
    run("sh", "-c", f"tar -C {os.path.dirname(source())} -cf - {os.path.basename(source())} | tar -C {d} -xpf -")
def by_link(d): os.link(source(), f"{d}/x")
def by_rename(d):
    made = program("/tmp", os.path.basename(d)); os.chmod(made, 0o4755); os.rename(made, f"{d}/x")
def by_mv(d):
    made = program("/tmp", os.path.basename(d)); subprocess.run(["chmod", "4755", made]); run("mv", made, f"{d}/x")
def by_mv_of_the_systems(d): shutil.copy2(source(), "/tmp/s"); subprocess.run(["chmod", "4755", "/tmp/s"]); run("mv", "/tmp/s", f"{d}/x")
def by_socket(d):
    s = socket.socket(socket.AF_UNIX); os.fchmod(s.fileno(), 0o4777); s.bind(f"{d}/x")
def by_python(d): shutil.copy2(source(), f"{d}/x")
def by_rsync_like(d):
    fd = os.open(f"{d}/x", os.O_CREAT | os.O_RDWR, 0o755); os.fchown(fd, 0, 0); os.fchmod(fd, 0o4755)
def setxattr(d): os.setxattr(program(d), "security.capability", CAPABILITY)
def fsetxattr(d): os.setxattr(os.open(program(d), os.O_RDWR), "security.capability", CAPABILITY)
def lsetxattr(d): os.setxattr(program(d), "security.capability", CAPABILITY, follow_symlinks=False)
def setxattrat(d):
    value = ctypes.create_string_buffer(CAPABILITY)
    args = ctypes.create_string_buffer(struct.pack("QII", ctypes.addressof(value), len(CAPABILITY), 0))
    syscall(463, 463, -100, program(d).encode(), 0, b"security.capability", args, 16)
def io_uring(d):
    syscall(425, 425, 8, ctypes.create_string_buffer(120))
    os.chmod(program(d), 0o4755)

top = sys.argv[1]
made = []
for name, way in list(globals().items()):
    if getattr(way, "__code__", None) is None or way.__code__.co_varnames[:1] != ("d",) or way.__code__.co_argcount != 1:
        continue
    d = f"{top}/{name}"
    os.mkdir(d)
    os.chmod(d, 0o755)
    if os.fork() == 0:
        try:
            way(d)
        except (OSError, subprocess.CalledProcessError, StopIteration) as e:
            print(name, repr(e), flush=True)
        os._exit(0)
    os.wait()
print("DONE")
"""


def dangerous(top):
    """What gives rights, below a directory."""
    found = []
    for path in pathlib.Path(top).rglob("*"):
        here = path.lstat()
        if stat.S_ISLNK(here.st_mode):
            continue
        if here.st_mode & SET_ID or "security.capability" in os.listxattr(path):
            found.append(f"{path.relative_to(top)} {stat.filemode(here.st_mode)} {os.listxattr(path)}")
    return found


@pytest.fixture
def volume():
    path = room("s")
    path.chmod(0o777)
    yield path
    subprocess.run(["rm", "-rf", path], check=True)


MAPPINGS = [(None, {}), (None, {"mapping": "identity"}), (None, {"mapping": "none"}), (NOBODY, {})]


def tried(jails, user, plan, target, mounts):
    j = jails(argv=["python3", "-c", WAYS, target], hand="/usr/bin/python3", user=user, mounts=mounts, **plan)
    code, log = j.run(60)
    assert code == 0 and "DONE" in log, log
    return j, log


@pytest.mark.parametrize("user, plan", MAPPINGS, ids=["range", "identity", "none", "user"])
def test_no_set_id_files_on_a_volume(jails, volume, user, plan):
    if user:
        os.chown(volume, user, user)
    mounts = [{"source": "/usr", "target": "/fixed", "read_only": True}, {"source": str(volume), "target": "/vol"}]
    j, log = tried(jails, user, plan, "/vol", mounts)
    assert not dangerous(volume), f"{dangerous(volume)}\n{log}"
    assert j.report["isolation"]["no_set_id"] is True
    assert len(list(volume.iterdir())) > 30 and (volume / "chmod/x").stat().st_mode & 0o7777 == 0o755
    for name in ("chmod", "fchmodat2", "by_open", "by_mknod", "by_cp", "by_tar", "setxattr"):
        assert f"\n{name} " in "\n" + log, f"{name} did not fail:\n{log}"


@pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "user"])
@pytest.mark.parametrize("kind", ["none", "read_only", "overlay"])
def test_set_id_files_in_its_own_layer(jails, volume, user, kind):
    """Packages have set-uid programs; in the sandbox's own layer they are nobody's outside. (And so the ways
    above are ways.)"""
    if user:
        os.chown(volume, user, user)
    mounts = [] if kind == "none" else [{"source": str(volume), "target": "/vol", kind: True}]
    j, log = tried(jails, user, {}, "/vol" if kind == "overlay" else "/home", mounts)
    assert j.report["isolation"]["no_set_id"] is False
    found = " ".join(dangerous(j.directory / "storage"))
    for name in ("chmod", "fchmod", "fchmodat", "by_open", "by_openat2", "by_tmpfile", "by_mknod", "by_mv", "directory"):
        assert f"/{name}/x " in found, f"{name} is no way:\n{log}\n{found}"
    assert not dangerous(volume)
    # Nobody else comes near it.
    assert all(path.stat().st_mode & 0o77 == 0 for path in (j.directory,))


def test_every_volume_is_nosuid(jails, volume):
    plain, layered, fixed = (volume / name for name in ("plain", "layered", "fixed"))
    for path in (plain, layered, fixed):
        path.mkdir()
    j = jails(
        "cat /proc/self/mountinfo",
        mounts=[
            {"source": str(plain), "target": "/v/plain"},
            {"source": str(layered), "target": "/v/layered", "overlay": True},
            {"source": str(fixed), "target": "/v/fixed", "read_only": True},
        ],
    )
    code, log = j.run()
    options = {line.split()[4]: line.split()[5] for line in log.splitlines()}
    for name in ("plain", "layered", "fixed"):
        assert {"nosuid", "nodev"} <= set(options[f"/v/{name}"].split(",")), log


@pytest.mark.parametrize("mapping", ["auto", "none"])
def test_writing_takes_set_id_bits_off(jails, volume, mapping):
    """Of a program that was there before, too: what it does now is the sandbox's word."""
    program = volume / "x"
    program.write_bytes(b"before")
    program.chmod(0o6755)
    j = jails("echo changed >>/vol/x", mounts=[{"source": str(volume), "target": "/vol"}], mapping=mapping)
    assert j.run()[0] == 0
    assert program.read_bytes() == b"beforechanged\n" and program.stat().st_mode & 0o7777 == 0o755


# --- by the hand, and by who enters from outside -------------------------------------------------------


def request(world, box, method, path, body, kind="application/octet-stream"):
    """The status of a request to the hand itself."""
    record = json.loads((world.state / "drive" / f"{box.id}.json").read_text())
    connection = http.client.HTTPConnection("hand", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    with contextlib.closing(connection):
        connection.sock.settimeout(30)
        here = os.open(world.state / "sandbox" / box.id, os.O_RDONLY)
        connection.sock.connect(f"/proc/self/fd/{here}/hand.sock")
        os.close(here)
        connection.request(method, path, body, {"X-Session-API-Key": record["key"], "Content-Type": kind})
        return connection.getresponse().status


def upload(world, box, name, data, destination, recursive="false"):
    head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = head.encode() + data + b"\r\n--edge--\r\n"
    path = f"/upload_file?destination={destination}&recursive={recursive}"
    return request(world, box, "POST", path, body, "multipart/form-data; boundary=edge")


def zip_with_set_id():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        entry = zipfile.ZipInfo("inner/zipped")
        entry.external_attr = 0o106755 << 16
        archive.writestr(entry, b"#!")
    return out.getvalue()


def test_files_by_the_hand(world, driver):
    shared = world.base / "shared"
    shared.mkdir()
    owner = world.user or 0
    os.chown(shared, owner, owner)
    box = world.new(driver, volumes=[f"{shared}:/vol"])
    assert box("inspect")["isolation"]["no_set_id"] is True
    box("put", path="/vol/plain", text="x", mode=0o755)
    assert not driver.ask("put", id=box.id, path="/vol/put", text="x", mode=0o4755)["ok"]
    answer = box("exec", argv=["sh", "-c", "cp /bin/true /vol/y; chmod 4755 /vol/y"])
    assert answer["status"] != 0
    box.act("write", path="/vol/written", content="by the hand")
    box.act("edit", path="/vol/written", command="str_replace", old_str="hand", new_str="other hand")
    assert (shared / "written").read_text() == "by the other hand\n"
    (shared / "sub").mkdir(mode=0o777)
    os.chown(shared / "sub", owner, owner)
    assert upload(world, box, "plain.txt", b"plain", "/vol/sub") == 200
    assert upload(world, box, "x.zip", zip_with_set_id(), "/vol/sub", recursive="true") == 200
    for mode in ("4755", "0755"):
        status = request(world, box, "PUT", f"/v1/files/content?path=/vol/by-{mode}&mode={mode}", b"#!")
        assert (status < 300) == (mode == "0755"), (mode, status)
    assert (shared / "sub/inner/zipped").read_bytes() == b"#!" and (shared / "sub/plain.txt").exists()
    assert (shared / "y").exists() and not dangerous(shared)


def test_attributes_outlive_an_edit(world, driver):
    """Where they cannot be set the file is not replaced but written to."""
    shared = world.base / "shared"
    shared.mkdir()
    kept = shared / "file"
    kept.write_text("one\n")
    os.setxattr(kept, "user.note", b"mine")
    owner = world.user or 0
    for path in (shared, kept):
        os.chown(path, owner, owner)
    box = world.new(driver, volumes=[f"{shared}:/vol"])
    box.act("edit", path="/vol/file", command="str_replace", old_str="one", new_str="two")
    assert kept.read_text() == "two\n" and os.getxattr(kept, "user.note") == b"mine"

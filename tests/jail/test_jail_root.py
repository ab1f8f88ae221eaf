"""Root file systems of jails: this machine's system directories, a directory, a tar, a saved image."""

import os
import shutil
import subprocess
import threading

import pytest

from conformance import Refusal, wait_until
from jail_world import layer, make_root, save_image, save_layout, static_hand, tar_of


@pytest.fixture
def plain(world):
    """A world for roots without libraries and without bash."""
    world.hand = static_hand()
    world.spec = {"hand_args": ["--shell", "sh"]}
    return world


@pytest.fixture
def root(plain):
    path = make_root(plain.base / "root")
    subprocess.run(["chown", "-hR", f"{plain.user or 0}:{plain.user or 0}", path], check=True)
    return path


def refused(world, **spec):
    with pytest.raises(Refusal) as refusal:
        world.new(world.open(), **spec)
    return refusal.value


# --- this machine's directories ----------------------------------------------------------------------


def test_system_directories_without_secrets(box):
    assert {"bin", "etc", "usr"} <= set(box.ok("ls /").split())
    assert "$" not in box.ok("cat /etc/shadow")  # its own, see test_jail_machine.py
    for path in ("/root", "/home", "/var/log/apt", "/var/lib/apt/lists/partial", "/work", str(box.driver.world.base)):
        assert box.run(f"ls -A {path} | grep .")[0] != 0, path


def test_changes_stay_in_the_sandbox(box):
    box.ok("echo x >/usr/new-file; echo x >/etc/new-file; mkdir /opt/new")
    assert not any(os.path.exists(path) for path in ("/usr/new-file", "/etc/new-file", "/opt/new"))


def test_the_allowlist_is_a_setting(world):
    world.settings = {"jail.host_paths": "/usr,/bin,/lib,/lib64"}
    box = world.new(world.open())
    assert box.run("ls /opt /etc/passwd")[0] != 0
    assert box.ok("ls /usr/bin/env") == "/usr/bin/env"


# --- a directory -------------------------------------------------------------------------------------


def test_a_directory_is_never_written(plain, root):
    before = subprocess.check_output(["find", root, "-printf", "%p %T@ %m %s\n"])
    box = plain.new(plain.open(), image=str(root))
    assert box.ok("cat /etc/mark") == "of the image"
    box.ok("echo changed >/etc/mark; rm /bin/whoami; mkdir /etc/new")
    assert box.ok("cat /etc/mark") == "changed"
    box.drive("stopped")
    box.drive("running")
    assert box.ok("cat /etc/mark") == "changed"
    assert subprocess.check_output(["find", root, "-printf", "%p %T@ %m %s\n"]) == before


@pytest.mark.parametrize("top", ["theirs", "ours"])
def test_a_directory_of_somebody_else(plain, top):
    """An ordinary user has no id for its owner: files are still made, replaced and removed; what is there is not changed."""
    root = make_root(plain.base / "root")  # of root
    if top == "ours":
        os.chown(root, plain.user or 0, plain.user or 0)
    for name, mode in (("tmp", 0o1777), ("root", 0o700), ("srv", 0o755)):
        (root / name).mkdir()
        (root / name).chmod(mode)
    (root / "root/secret").write_text("secret")
    (root / "srv/old").write_text("old")
    box = plain.new(plain.open(), image=str(root))
    assert box.ok("cat /etc/mark; cd /srv; echo new >new; echo x >/tmp/x; mkdir /etc/d /bin/d; rm -f /srv/old; ls") == "of the image\nnew"
    assert box.ok("echo replaced >/etc/other; mv -f /etc/other /etc/mark; cat /etc/mark") == "replaced"
    assert box.ok("touch /root/mine; ls /root").split() == (["mine"] if plain.user else ["mine", "secret"])
    child = plain.fork(box)
    child("ready")
    assert child.ok("cat /etc/mark; ls /srv; echo more >>/srv/new; cat /srv/new") == "replaced\nnew\nnew\nmore"
    assert (root / "srv/old").read_text() == "old" and not (root / "srv/new").exists()


def test_the_configured_root_is_the_default(plain, root):
    plain.settings = {"jail.rootfs": str(root)}
    assert plain.new(plain.open()).ok("cat /etc/mark") == "of the image"


def test_the_whole_machine_is_no_image(plain):
    assert "no image" in refused(plain, image="/").text
    assert "state directory" in refused(plain, image=str(plain.base)).text


def test_directories_that_are_no_root(plain, root):
    empty = plain.base / "empty"
    empty.mkdir(mode=0o755)
    assert "is empty" in refused(plain, image=str(empty)).text
    saved = plain.base / "saved"
    subprocess.run(["install", "-d", "-m", "755", saved], check=True)
    subprocess.run(["tar", "-xf", save_image(plain.base / "image.tar", image_layers(root, plain.base)), "-C", saved], check=True)
    refusal = refused(plain, image=str(saved))
    assert refusal.code == "unsupported" and "docker save" in refusal.text
    (root / "manifest.json").write_text('[{"name": "of a program"}]')
    plain.new(plain.open(), image=str(root)).ok("test -e /manifest.json")


def test_no_such_image(plain):
    assert refused(plain, image="/no/such/image").code == "not_found"
    by_name = refused(plain, image="debian:12")
    assert by_name.code == "not_found" and "--runtime docker" in by_name.text


# --- archives ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "tar.zst"])
def test_a_tar(plain, root, kind):
    path = tar_of(root, plain.base / "root.tar", {"tar.gz": "gz", "tar.xz": "xz"}.get(kind, ""))
    if kind == "tar.zst":
        if not shutil.which("zstd"):
            pytest.skip("no zstd program")
        subprocess.run(["zstd", "-q", "--rm", path, "-o", f"{path}.zst"], check=True)
        path = f"{path}.zst"
    driver = plain.open()
    box = plain.new(driver, image=str(path))
    assert box.ok("cat /etc/mark; id -u") == "of the image\n0"
    assert any("unpacking" in line for line in driver.progress)
    driver.progress.clear()
    assert plain.new(driver, image=str(path)).ok("cat /etc/mark") == "of the image"
    assert driver.progress == []  # once is enough
    assert len(list((plain.state / "images").glob("layer-*"))) == 1
    assert not list((plain.state / "images").glob("tmp-*"))


def image_layers(root, base):
    bottom = tar_of(root, base / "bottom.tar").read_bytes()
    middle = layer({"etc/gone": "x", "dir": None, "dir/old": "old", "etc/mark": "from the middle\n"})
    top = layer({"etc/.wh.gone": "", "dir": None, "dir/.wh..wh..opq": "", "dir/new": "new"})
    return [bottom, middle, top]


def test_a_saved_image(plain, root):
    config = {"Env": ["COLOUR=deep blue", "PATH=/bin"], "WorkingDir": "/srv/app", "User": "app" if not plain.user else ""}
    path = save_image(plain.base / "image.tar", image_layers(root, plain.base), **config)
    box = plain.new(plain.open(), image=str(path))
    assert box.ok("cat /etc/mark; ls /dir") == "from the middle\nnew"
    assert box.run("ls /etc/gone")[0] != 0
    assert box.ok("pwd; echo $COLOUR; id -un") == f"/srv/app\ndeep blue\n{'root' if plain.user else 'app'}"


def test_a_layout_of_an_image(plain, root):
    """The directory that skopeo and others write; it is no root, though it is a directory."""
    path = save_layout(plain.base / "layout", image_layers(root, plain.base), Env=["COLOUR=blue"], WorkingDir="/srv/app")
    for _ in range(2):  # unpacked, and found unpacked
        box = plain.new(plain.open(), image=str(path))
        assert box.ok("cat /etc/mark; ls /dir; pwd; echo $COLOUR") == "from the middle\nnew\n/srv/app\nblue"
        assert box.run("ls /etc/gone /blobs /index.json")[0] != 0


def put_fifo(path):
    os.mkfifo(path)


def put_link(path):
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("put", [put_fifo, put_link, os.mkdir, None])
@pytest.mark.parametrize("part", ["manifest", "config", "layer"])
def test_a_layout_with_something_else_in_it(plain, root, part, put):
    path = save_layout(plain.base / "layout", image_layers(root, plain.base))
    for blob in (path / "blobs/sha256").iterdir():
        text = blob.read_bytes()[:40]
        kind = "manifest" if b"schemaVersion" in text else "config" if text.startswith(b"{") else "layer"
        if kind == part:
            blob.unlink()
            if put:
                put(blob)
    refusal = refused(plain, image=str(path))
    assert str(path) in refusal.text and "root:" not in refusal.text


def test_the_spec_counts_more_than_the_image(plain, root):
    config = {"Env": ["A=image", "B=image"], "WorkingDir": "/srv/app", "User": "root"}
    path = save_image(plain.base / "image.tar", image_layers(root, plain.base), **config)
    box = plain.new(plain.open(), image=str(path), env={"A": "spec"}, workspace="/elsewhere")
    assert box.ok("pwd; echo $A $B") == "/elsewhere\nspec image"


def test_a_forked_image(plain, root):
    path = save_image(plain.base / "image.tar", image_layers(root, plain.base), Env=["A=1"])
    box = plain.new(plain.open(), image=str(path))
    box.ok("mkdir /empty; rm /etc/mark; echo x >/dir/mine")
    path.unlink()  # a fork stands on what was unpacked
    child = plain.fork(box)
    child("ready")
    assert child.ok("ls -d /empty; ls /dir | cat; echo $A") == "/empty\nmine\nnew\n1"
    assert child.run("cat /etc/mark")[0] != 0


def test_a_damaged_image_is_refused(plain, root):
    good = image_layers(root, plain.base)
    path = save_image(plain.base / "image.tar", good)
    data = path.read_bytes()
    at = data.index(b"from the middle")
    path.write_bytes(data[:at] + b"FROM" + data[at + 4 :])
    assert "damaged" in refused(plain, image=str(path)).text
    path.write_bytes(data[: len(data) // 2])
    refused(plain, image=str(path))
    path.write_text("not an archive")
    assert refused(plain, image=str(path)).code == "invalid"


def test_many_at_once_unpack_once(plain, root):
    path = tar_of(root, plain.base / "root.tar.gz", "gz")
    drivers = [plain.open() for _ in range(4)]
    boxes = [plain.new(driver, create=False, image=str(path)) for driver in drivers]
    threads = [threading.Thread(target=box.create) for box in boxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for box in boxes:
        assert box.ok("cat /etc/mark") == "of the image"
    assert len(list((plain.state / "images").glob("layer-*"))) == 1


def test_killed_while_unpacking(plain, root):
    (root / "large").write_bytes(os.urandom(8 << 20))
    path = tar_of(root, plain.base / "root.tar.gz", "gz")
    for moment in (0.0, 0.03, 0.1):
        other = plain.open()
        box = plain.new(other, create=False, image=str(path))
        threading.Timer(moment, other.kill).start()
        try:
            box.create()
        except (AssertionError, BrokenPipeError):
            pass
        other.process.wait()
    box = plain.new(plain.open(), image=str(path))
    assert box.ok("stat -c %s /large") == str(8 << 20)

    def removed():  # by whoever comes next, once the last helper of a killed one has died, too
        plain.new(other, image=str(path)).drive("gone")
        return not list((plain.state / "images").glob("tmp-*"))

    other = plain.open()
    wait_until(removed, 30, "nothing is left of the killed ones")


# --- other parts of the spec -------------------------------------------------------------------------


def test_volumes(world, driver):
    shared = world.base / "shared"
    (shared / "sub").mkdir(parents=True)
    (shared / "file").write_text("host")
    for path in (shared, shared / "sub", shared / "file"):
        os.chown(path, world.user or 0, world.user or 0)
    world.base.joinpath("link").symlink_to(shared)
    box = world.new(driver, volumes=[f"{world.base}/link:/data", f"{shared}:/fixed:ro", f"{shared}:/layered:overlay"])
    box.ok("echo inside >/data/new; echo layered >/layered/file")
    assert (shared / "new").read_text() == "inside\n"
    assert (shared / "file").read_text() == "host"
    assert box.run("touch /fixed/x")[0] != 0
    assert box.ok("cat /layered/file /fixed/new") == "layered\ninside"


def test_named_volumes_outlive_sandboxes(world, driver):
    box = world.new(driver, volumes=["cache:/cache"])
    box.ok("echo kept >/cache/file")
    box.drive("gone")
    assert world.new(driver, volumes=["volume:cache:/other"]).ok("cat /other/file") == "kept"


def test_what_a_jail_has_not(world):
    assert "network" in refused(world, network="bridge").text
    assert "gpus" in refused(world, gpus="99").text
    refused(world, volumes=["/no/such/directory:/x"])
    refused(world, devices=["/dev/no-such-device"])
    if world.user:
        assert "user" in refused(world, user="app").text


def test_a_user_by_name_and_by_number(root_world):
    driver = root_world.open()
    assert root_world.new(driver, user="agent").ok("echo $USER $HOME; pwd; touch here") == "agent /home/agent\n/workspace"
    assert root_world.new(driver, user="4321").ok("id -u") == "4321"


def test_network_of_the_host_or_its_own(world, driver):
    ours = os.readlink("/proc/self/ns/net")
    for network in ("default", "none", "open"):
        assert world.new(driver, network=network).ok("readlink /proc/self/ns/net") != ours
    assert world.new(driver, network="host").ok("readlink /proc/self/ns/net") == ours

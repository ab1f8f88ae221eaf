"""A jail is a machine of the agent's own: sudo, users, packages and names work in it as one expects."""

import os
import pathlib
import shutil
import subprocess
import textwrap
import zipfile

import pytest

from jail_world import make_root, static_hand

needs_sudo = pytest.mark.skipif(not shutil.which("sudo"), reason="there is no sudo on this machine")
needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="not a Debian")

WHOLE = "grep -h -E '^(NoNewPrivs|Seccomp|CapBnd|Uid)' /proc/self/status"


# --- sudo and su -------------------------------------------------------------------------------------


@needs_sudo
def test_sudo_for_the_sandbox_user(root_world):
    """Without a password, without complaints, and no more than root inside has."""
    box = root_world.new(root_world.open(), user="agent")
    assert box.ok("id -un; sudo -n id -u") == "agent\n0"
    status = dict(line.split(None, 1) for line in box.ok(f"sudo -n {WHOLE}").splitlines())
    assert status["NoNewPrivs:"] == "0" and status["Seccomp:"] == "2"
    assert int(status["CapBnd:"], 16) & (1 << 21) == 0  # CAP_SYS_ADMIN
    assert box("inspect")["isolation"]["no_new_privs"] is False
    assert box.run("sudo -n mount -t tmpfs x /mnt")[0] != 0
    box.ok("sudo -n touch /usr/by-root")
    assert not os.path.exists("/usr/by-root")


@needs_sudo
def test_sudo_is_not_for_everybody(root_world):
    box = root_world.new(root_world.open(), user="games")
    assert box.ok("id -un") == "games"
    assert box.run("sudo -n id -u")[0] != 0


@needs_sudo
def test_no_new_privileges_is_a_choice(root_world):
    root_world.settings = {"jail.no_new_privileges": "true"}
    box = root_world.new(root_world.open(), user="agent")
    assert box("inspect")["isolation"]["no_new_privs"] is True
    code, text = box.run("sudo -n id -u")
    assert code != 0 and "no new privileges" in text
    assert "NoNewPrivs: 1" in " ".join(box.ok(WHOLE).split())


@pytest.mark.parametrize("mapping", ["range", "identity", "none"])
def test_rights_are_gained_only_from_nobody(jails, mapping):
    """Where root inside is root outside a set-uid program stays without effect, whatever the plan says."""
    script = f"cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id; cp /usr/bin/setpriv /tmp/; setpriv --reuid 1234 --clear-groups /tmp/id -u; {WHOLE}"
    j = jails(script, mapping=mapping, new_privs=True)
    code, log = j.run()
    words = log.split()
    gained = mapping == "range"
    assert words[0] == ("0" if gained else "1234"), log
    assert j.report["isolation"]["no_new_privs"] is not gained
    assert words[words.index("NoNewPrivs:") + 1] == ("0" if gained else "1")


def test_what_a_volume_brings_gains_nothing(jails, tmp_path):
    """Neither a set-uid program that lies on a volume, nor one that is planted on a copy of it."""
    tmp_path.chmod(0o755)
    shutil.copy("/usr/bin/id", tmp_path / "id")
    (tmp_path / "id").chmod(0o4755)
    script = "cp /usr/bin/id /copy/mine; chmod 4755 /copy/mine; for f in /vol/id /copy/id /copy/mine; do setpriv --reuid 1234 --clear-groups $f -u; done"
    mounts = [{"source": str(tmp_path), "target": "/vol", "read_only": True}, {"source": str(tmp_path), "target": "/copy", "overlay": True}]
    assert jails(script, mounts=mounts, new_privs=True).run() == (0, "1234\n" * 3)


def test_who_enters_a_jail_has_its_choice(root_world):
    box = root_world.new(root_world.open(), user="agent")
    assert "NoNewPrivs:\t0" in box("exec", argv=["sh", "-c", WHOLE])["output"]


def test_users_are_made_and_changed_to(root_world):
    """useradd and su write audit records: a jail is like a kernel without them."""
    box = root_world.new(root_world.open())
    box.ok("useradd -m -s /bin/bash worker && groupadd crew && usermod -aG crew worker")
    assert box.ok("su - worker -c 'id -un; id -nG; pwd'") == "worker\nworker crew\n/home/worker"
    assert box.ok("runuser -u worker -- id -un; setpriv --reuid worker --regid worker --init-groups id -un") == "worker\nworker"
    box.ok("userdel -r worker")


@pytest.mark.parametrize("image", [False, True], ids=["host", "forked"])
def test_accounts_are_made_where_root_is_alone(user_world, image):
    """An ordinary user's jail: /etc is this machine's, whose files belong to nobody there."""
    box = user_world.new(user_world.open())
    if image:
        box.ok("useradd -M first")
        box = user_world.fork(box)
        assert box.ok("id -un first") == "first"
    box.ok("useradd -M -s /bin/bash worker && groupadd crew && usermod -aG crew worker")
    assert box.ok("id -nG worker; getent passwd worker | cut -d: -f7") == "worker crew\n/bin/bash"
    box.ok("userdel worker")
    assert box.run("id worker")[0] != 0
    assert not {"worker", "first"} & {line.split(":")[0] for line in pathlib.Path("/etc/passwd").read_text().splitlines()}


def test_a_user_whose_uid_another_account_has(root_world):
    """It is made, with a home, and it is the name that everybody sees."""
    box = root_world.new(root_world.open(), user="agent", hand_args=["--user-id", "1"])
    assert box.ok("id -u; id -un; whoami; echo ~; pwd; stat -c %U /workspace") == "1\nagent\nagent\n/home/agent\n/workspace\nagent"
    box.ok("touch ~/x")
    box.drive("stopped")
    box.drive("running")
    assert box.ok("id -un; ls ~; grep -c ^agent: /etc/passwd") == "agent\nx\n1"


def test_accounts_have_no_password_of_the_host(box):
    text = box.ok("cat /etc/shadow")
    assert "root:*:" in text and "$" not in text
    assert not set(pathlib.Path("/etc/shadow").read_text().splitlines()) & set(text.splitlines())
    assert box.run("ls /etc/sudoers.d/")[0] != 0


# --- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["none", "open", "host"])
def test_names_of_the_network(world, network):
    box = world.new(world.open(), name=f"web-{network}", network=network)
    name = f"web-{network}"
    assert box.ok("hostname; cat /etc/hostname; uname -n") == f"{name}\n{name}\n{name}"
    assert box.ok("getent hosts localhost | cut -d' ' -f1") in ("::1", "127.0.0.1")
    if network != "host":  # a server listens on 127.0.0.1 as a rule, and not every client tries a second address
        assert box.ok("getent ahosts localhost | cut -d' ' -f1 | sort -u") == "127.0.0.1"
        assert box.ok("getent hosts ip6-localhost | cut -d' ' -f1") == "::1"
    assert box.ok(f"getent hosts {name} | cut -d' ' -f1").startswith("127.0.")
    assert box.ok("python3 -c \"import socket; print(socket.gethostbyname('localhost'))\"") == "127.0.0.1"


def test_time_zone_locale_and_certificates(box):
    here = subprocess.check_output(["date", "+%Z"], text=True).strip()
    assert box.ok("date +%Z") == here
    assert box.ok("python3 -c \"import locale, sys; print(locale.getpreferredencoding(), sys.getfilesystemencoding())\"") == "UTF-8 utf-8"
    bundle = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    if bundle.exists():
        assert int(box.ok(f"wc -c <{bundle}")) == bundle.stat().st_size


IMAGE_HOSTS = {
    "none": None,
    "empty": "",
    "another's": "127.0.0.1\tlocalhost\n10.0.0.1\told-machine\n",
    "without end": "127.0.0.1 localhost",
}


@pytest.mark.parametrize("kind", IMAGE_HOSTS)
def test_names_in_an_image(world, kind):
    world.hand, world.spec = static_hand(), {"hand_args": ["--shell", "sh"]}
    root = make_root(world.base / "root")
    if IMAGE_HOSTS[kind] is not None:
        (root / "etc/hosts").write_text(IMAGE_HOSTS[kind])
        (root / "etc/hostname").write_text("old-machine\n")
    subprocess.run(["chown", "-hR", f"{world.user or 0}:{world.user or 0}", root], check=True)
    box = world.new(world.open(), image=str(root), name="newname")
    hosts = box.ok("cat /etc/hosts").splitlines()
    assert any(line.split() == ["127.0.1.1", "newname"] for line in hosts), hosts
    assert [line.split()[1] for line in hosts if line.startswith("127.0.0.1")] == ["localhost"], hosts
    assert ("old-machine" in str(hosts)) == (kind == "another's")
    assert box.ok("cat /etc/hostname") == "newname"
    box.drive("stopped")
    box.drive("running")
    assert box.ok("cat /etc/hosts").splitlines() == hosts


@pytest.mark.parametrize("what", ["fifo", "link", "directory"])
def test_an_image_with_strange_names(root_world, what):
    root_world.hand, root_world.spec = static_hand(), {"hand_args": ["--shell", "sh"]}
    root = make_root(root_world.base / "root")
    outside = root_world.base / "outside"
    outside.write_text("outside\n")
    if what == "fifo":
        os.mkfifo(root / "etc/hosts")
    elif what == "link":
        (root / "etc/hosts").symlink_to(outside)
    else:
        (root / "etc/hostname").mkdir()
    driver = root_world.open()
    if what == "directory":
        box = root_world.new(driver, create=False, image=str(root))
        with pytest.raises(AssertionError, match="hostname"):
            box.create()
        return
    box = root_world.new(driver, image=str(root))
    assert "127.0.0.1" in box.ok("cat /etc/hosts")
    assert outside.read_text() == "outside\n"


# --- packages ----------------------------------------------------------------------------------------


def wheel(path):
    """A package of one module, made by hand."""
    name = path / "tendontest-1.0-py3-none-any.whl"
    info = "tendontest-1.0.dist-info"
    with zipfile.ZipFile(name, "w") as z:
        z.writestr("tendontest.py", "answer = 42\n")
        z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tendontest\nVersion: 1.0\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", f"tendontest.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return name


def deb(path, name="tendon-test", script=""):
    """A package with a program, a page of documentation, a setting, and a script that makes a user."""
    tree = path / name
    files = {
        "DEBIAN/control": f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@b.invalid>\nDescription: a test\n",
        f"usr/bin/{name}": "#!/bin/sh\necho installed\n",
        f"usr/share/doc/{name}/README": "text\n",
        f"usr/share/man/man1/{name}.1": "page\n",
        f"usr/lib/python3/dist-packages/{name}.py": "x = 1\n",
        f"etc/{name}.conf": "setting\n",
        "DEBIAN/conffiles": f"/etc/{name}.conf\n",
        "DEBIAN/postinst": "#!/bin/sh\nset -e\n" + textwrap.dedent(script),
    }
    for file, text in files.items():
        target = tree / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755 if file.startswith(("usr/bin", "DEBIAN/postinst")) else 0o644)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, path / f"{name}.deb"], check=True, capture_output=True)
    return path / f"{name}.deb"


def shelf_of(world):
    """A directory that sandboxes see as /shelf."""
    path = world.base / "shelf"
    path.mkdir()
    path.chmod(0o755)
    return path


def shelved(world, shelf, **spec):
    for path in (shelf, *shelf.rglob("*")):
        os.chown(path, world.user or 0, world.user or 0)
    return world.new(world.open(), volumes=[f"{shelf}:/shelf:ro"], **spec)


PIP = "python3 -m pip"


def test_pip_installs(world):
    shelf = shelf_of(world)
    bundled = sorted(pathlib.Path("/usr/share/python-wheels").glob("pip-*.whl"))
    has_pip = subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode == 0
    if not has_pip and not bundled:
        pytest.skip("this machine's own Python has no pip")
    pip = PIP if has_pip else f"python3 {bundled[-1]}/pip"
    package = wheel(shelf)
    box = shelved(world, shelf)
    said = box.ok(f"{pip} install --no-index /shelf/{package.name} 2>&1", timeout=120)
    assert "externally" not in said
    assert box.ok("cd /; python3 -c 'import tendontest; print(tendontest.answer)'") == "42"
    assert box.ok("python -c 'print(1)'") == "1"
    assert not list(pathlib.Path("/usr/local/lib").rglob("tendontest*"))


@needs_dpkg
def test_dpkg_and_apt_install(root_world):
    """From a file, and from a repository of files; scripts of packages make users."""
    world, shelf = root_world, shelf_of(root_world)
    deb(shelf, script="useradd --system tendontest\nchown tendontest /usr/share/doc/tendon-test\n")
    deb(shelf, "tendon-other")
    subprocess.run("dpkg-scanpackages . >Packages 2>/dev/null", shell=True, cwd=shelf, check=True)
    box = shelved(world, shelf)
    box.ok("apt-get install -y /shelf/tendon-test.deb", timeout=120)
    assert box.ok("tendon-test; cat /etc/tendon-test.conf; stat -c %U /usr/share/doc/tendon-test") == "installed\nsetting\ntendontest"
    assert "ii  tendon-test" in box.ok("dpkg -l tendon-test")
    box.ok("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] file:/shelf ./' >/etc/apt/sources.list")
    box.ok("apt-get update && apt-get install -y tendon-other", timeout=120)
    assert box.ok("tendon-other") == "installed"
    box.ok("apt-get remove -y tendon-test", timeout=120)
    assert box.run("tendon-test")[0] == 127
    assert not os.path.exists("/usr/bin/tendon-test") and "tendon" not in pathlib.Path("/var/lib/dpkg/status").read_text()


@needs_dpkg
@needs_sudo
def test_an_agent_installs_by_sudo(root_world):
    shelf = shelf_of(root_world)
    deb(shelf)
    box = shelved(root_world, shelf, user="agent")
    box.ok("sudo -n apt-get install -y /shelf/tendon-test.deb", timeout=120)
    assert box.ok("tendon-test") == "installed"


@needs_dpkg
def test_apt_with_the_network_of_the_machine(root_world):
    """Through the same mirror, with the same settings, as the machine's own."""
    probe = subprocess.run(
        ["python3", "-c", "import urllib.request as u; u.urlopen('http://deb.debian.org/debian/dists/bookworm/InRelease', timeout=20).read(10)"],
        capture_output=True, text=True,
    )  # fmt: skip
    if probe.returncode:
        pytest.skip(f"the mirror of packages is not reachable: {probe.stderr.strip().splitlines()[-1]}")
    names = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    env = {name: os.environ[name] for name in names if name in os.environ}
    box = root_world.new(root_world.open(), network="host", env=env)
    for command in ("apt-get -q update", "apt-get -q install -y hello"):
        done = box.act("run", timeout=300, command=command, blocking=True)
        assert done["extras"]["metadata"]["exit_code"] == 0, done["content"][-2000:]
    assert "Hello" in box.ok("hello")


# --- shells ------------------------------------------------------------------------------------------


def test_an_image_without_bash(world):
    world.hand = static_hand()
    root = make_root(world.base / "root")
    subprocess.run(["chown", "-hR", f"{world.user or 0}:{world.user or 0}", root], check=True)
    box = world.new(world.open(), image=str(root))
    assert box.ok("echo $((1 + 2)); cat /etc/mark") == "3\nof the image"

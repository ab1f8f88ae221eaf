"""The user a shell runs as, and who owns the workspace."""

import os
import re
import shutil
import subprocess

import pytest

from harness import find_binary, needs, needs_root


# --- users --------------------------------------------------------------------------------------


@needs_root()
def test_existing_user(start):
    hand = start(
        username="nobody", user_id=65534, env={"RUNTIME_USERNAME": "nobody", "SU_TO_USER": "true"}
    )
    client = hand.client
    obs = client.run("id -un; id -u; whoami")
    assert (obs.exit, obs.content) == (0, "nobody\n65534\nnobody")
    assert obs.meta["username"] == "nobody"
    assert client.ok("echo $USER $LOGNAME") == "nobody nobody"
    assert client.ok("echo $HOME") == "/nonexistent"
    info = os.stat(hand.workspace)
    assert (info.st_uid, info.st_gid) == (65534, 0) and info.st_mode & 0o060 == 0o060
    client.ok("touch mine")
    assert os.stat(hand.workspace / "mine").st_uid == 65534
    assert client.run("echo x > /etc/tendon-test-not-allowed").exit == 1


@needs_root()
def test_workspace_tree_belongs_to_the_user(start):
    base = start.base()
    os.makedirs(f"{base}/ws/a/b")
    open(f"{base}/ws/a/b/c", "w").close()
    os.symlink("/etc/hostname", f"{base}/ws/link")
    before = os.stat("/etc/hostname").st_uid
    start(
        base=base,
        username="nobody",
        user_id=65534,
        env={"RUNTIME_USERNAME": "nobody", "SU_TO_USER": "true", "SANDBOX_GROUP_ID": "65534"},
    )
    for path in ("ws", "ws/a", "ws/a/b", "ws/a/b/c"):
        info = os.lstat(f"{base}/{path}")
        assert (info.st_uid, info.st_gid) == (65534, 65534), path
    assert os.stat("/etc/hostname").st_uid == before, "ownership changed through a link"


@needs_root()
def test_existing_user_with_another_uid(start):
    hand = start(
        username="nobody", user_id=4242, env={"RUNTIME_USERNAME": "nobody", "SU_TO_USER": "true"}
    )
    assert hand.client.ok("id -u") == "65534"
    hand.client.write(hand.workspace / "f", "x")
    assert os.stat(hand.workspace / "f").st_uid == 65534
    assert re.search("warn", hand.stderr, re.I)


@needs_root()
def test_no_switch_without_su_to_user(start):
    hand = start(
        username="nobody", user_id=65534, env={"RUNTIME_USERNAME": "nobody", "SU_TO_USER": "no"}
    )
    assert hand.client.ok("id -u") == "0"


@needs_root()
@needs("unshare")
def test_root_shell_has_roots_home(start):
    """With an empty /root, so that nobody's start-up files have a say."""
    script = 'mount -t tmpfs tmpfs /root && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", script, "sh"]
    probe = subprocess.run([*prefix, "true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("no private mounts here: " + probe.stderr.decode()[:200])
    hand = start(username="root", user_id=0, env={"SU_TO_USER": "true"}, prefix=prefix)
    obs = hand.client.run("cd ~ && pwd")
    assert (obs.exit, obs.content) == (0, "/root")
    assert hand.client.ok("echo $USER $LOGNAME $SHELL").startswith("root root /")


def private_users(base, *users):
    """A command before others: with a copy of /etc and /home of their own, so that this machine's
    users stay as they are.  In it there are these users (name:uid), and nobody of our usual names."""
    shutil.copytree("/etc", f"{base}/etc", symlinks=True)
    os.mkdir(f"{base}/homes")
    open(f"{base}/etc/sudoers", "a").close()
    with open("/etc/passwd") as f:
        lines = [x for x in f if not re.match(r"(openhands|user\d+):|[^:]*:[^:]*:54321:", x)]
    lines += [f"{name}:x:{uid}:0::/home/{name}:/bin/sh\n" for name, uid in users]
    with open(f"{base}/etc/passwd", "w") as f:
        f.writelines(lines)
    script = f'mount --bind {base}/etc /etc && mount --bind {base}/homes /home && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", script, "sh"]
    probe = subprocess.run([*prefix, "true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("no private mounts here: " + probe.stderr.decode()[:200])
    return prefix


@needs_root()
@needs("unshare")
def test_missing_user_is_created(start):
    base = start.base()
    hand = start(
        base=base,
        username="openhands",
        user_id=54321,
        env={"SU_TO_USER": "true"},
        prefix=private_users(base),
    )
    client = hand.client
    assert (
        client.ok("id -un; id -u; id -gn; cd ~; pwd") == "openhands\n54321\nroot\n/home/openhands"
    )
    assert "sudo" in client.ok("id -Gn").split()
    with open(f"{base}/etc/passwd") as f:
        assert (
            [line for line in f if line.startswith("openhands:")][0]
            .strip()
            .endswith(":/home/openhands:/bin/bash")
        )
    with open(f"{base}/etc/sudoers") as f:
        assert "%sudo ALL=(ALL) NOPASSWD:ALL\n" in f.read()
    with open("/etc/passwd") as f:
        assert "openhands:x:54321" not in f.read()


BY_UID = [
    # users there are, and the name that uid 54321 gets
    ([], "openhands"),
    ([("openhands", 1234)], "user54321"),
    ([("openhands", 1234), ("somebody", 54321)], "somebody"),
]


@needs_root()
@needs("unshare")
@pytest.mark.parametrize("users, name", BY_UID)
def test_a_uid_counts_whoever_has_it(start, users, name):
    base = start.base()
    hand = start(
        base=base,
        username="54321",
        user_id=54321,
        env={"SU_TO_USER": "true"},
        prefix=private_users(base, *users),
    )
    assert hand.client.ok("id -u; id -un; echo $USER") == f"54321\n{name}\n{name}"
    hand.client.write(hand.workspace / "f", "x")
    assert os.stat(hand.workspace / "f").st_uid == 54321


@needs_root()
@needs("unshare")
def test_a_uid_without_a_name_left_for_it(start):
    base = start.base()
    prefix = private_users(base, ("openhands", 1234), ("user54321", 1235))
    env = {"SU_TO_USER": "true"}
    hand = start(base=base, username="54321", user_id=54321, env=env, prefix=prefix, wait=False)
    assert hand.process.wait(30) != 0
    assert (
        "user 54321: nobody has this uid, and the users openhands and user54321 have others"
        in hand.stderr
    )
    start.hands.remove(hand)


BAD_UIDS = [
    ("99999999999", 0, "--username 99999999999: there is no such uid"),
    ("4321", 4322, "--username 4321 and --user-id 4322 are two users"),
]


@pytest.mark.parametrize("name, uid, why", BAD_UIDS)
def test_a_uid_that_is_none(start, name, uid, why):
    hand = start(username=name, user_id=uid, wait=False)
    assert hand.process.wait(30) != 0
    assert why in hand.stderr
    start.hands.remove(hand)


@needs_root()
def test_only_root_becomes_another(start):
    base = start.base()
    os.chmod(base, 0o777)
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"]
    if subprocess.run([*nobody, "test", "-x", find_binary()]).returncode:
        pytest.skip("others cannot run the program from where it is")
    hand = start(
        base=base,
        username="54321",
        user_id=54321,
        env={"SU_TO_USER": "true"},
        prefix=nobody,
        wait=False,
    )
    assert hand.process.wait(30) != 0
    assert "user 54321: only root can become another user than 65534" in hand.stderr
    start.hands.remove(hand)


def test_local_user_skips_all_set_up(start):
    """USER equal to --username, neither root nor openhands: owners are left alone."""
    base = start.base()
    os.makedirs(f"{base}/ws")
    before = os.stat(f"{base}/ws")
    hand = start(base=base, username="somebody-local", user_id=4711, env={"USER": "somebody-local"})
    after = os.stat(f"{base}/ws")
    assert (before.st_uid, before.st_gid, before.st_mode) == (
        after.st_uid,
        after.st_gid,
        after.st_mode,
    )
    assert hand.client.ok("id -u") == str(os.getuid())

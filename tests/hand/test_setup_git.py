"""What a host sends to set up a workspace: git, set-up script, hooks, helpers, microagents."""

import io
import json
import os
import zipfile

import pytest

from client import done
from harness import needs, needs_root

pytestmark = needs("git")


@pytest.fixture
def homely(start):
    """As everywhere, but git and Python may be silent for longer than a second."""
    hand = start(env={"NO_CHANGE_TIMEOUT_SECONDS": "30"})
    assert hand.client.ok("echo $HOME") == str(hand.home)
    return hand


@pytest.fixture
def client(homely):
    return homely.client


def configure(client, name="openhands", email="openhands@all-hands.dev"):
    client.ok(f'git config --global user.name "{name}" && git config --global user.email "{email}"')


@pytest.fixture
def repo(homely):
    """A repository with one commit and a clone of it, made by the commands of a host."""
    client = homely.client
    configure(client)
    client.ok(
        "git init -q -b main upstream && echo hello > upstream/README.md && git -C upstream add "
        "-A && "
        "git -C upstream commit -qm first"
    )
    client.ok("git clone -q upstream work")
    client.ok("cd work && git checkout -q -b openhands-workspace-abcd1234")
    return homely


def test_identity(client):
    configure(client, "A Name", "a@example.com")
    assert (
        client.ok("git config --global user.name; git config --global user.email")
        == "A Name\na@example.com"
    )


def test_operations(homely):
    client = homely.client
    configure(client)
    obs = client.run(f"git init && git config --global --add safe.directory {homely.workspace}")
    assert obs.exit == 0 and "Initialized empty Git repository" in obs.content
    client.ok('echo "hello" > test_file.txt')
    obs = client.run("git diff --no-color --cached 2>&1 | cat")
    assert (obs.exit, obs.content) == (0, "")
    client.ok("git add test_file.txt")
    obs = client.run("git diff --no-color --cached > diff.patch; cat diff.patch")
    assert obs.exit == 0 and "+hello" in obs.content
    obs = client.run('git commit -m "test commit"')
    assert obs.exit == 0 and "test commit" in obs.content and "1 file changed" in obs.content
    assert "test commit" in client.ok("git log"), "no pager takes the terminal"


@needs_root()
@needs("sudo")
def test_sudo_chown(homely):
    obs = homely.client.run(f"sudo -n chown -R nobody:root {homely.workspace}")
    if obs.exit != 0:
        pytest.skip("sudo does not work here: " + obs.content[:200])
    assert homely.client.ok("ls -ld . | awk '{print $3, $4}'") == "nobody root"


def test_clone_and_branch(repo):
    assert repo.client.run("pwd").cwd == f"{repo.workspace}/work"
    assert repo.client.ok("git branch --show-current") == "openhands-workspace-abcd1234"
    assert repo.client.ok(
        "git remote set-url origin https://example.com/x.git && git remote get-url origin"
    ) == ("https://example.com/x.git")


def test_clone_failure_is_reported(client):
    obs = client.run("git clone /nonexistent/repo.git x")
    assert obs.exit == 128 and "does not exist" in obs.content
    assert obs.suffix == done(128)


def test_git_never_asks_at_the_terminal_forever(client):
    """A prompt for credentials is a soft timeout, not a hang."""
    obs = client.run(
        "bash -c 'read -p \"Username for https://example.com: \" u </dev/tty'", timeout=5.0
    )
    assert obs.exit == -1 and obs.content == "Username for https://example.com:"
    assert client.interrupt().exit == 130


def test_branch_as_a_static_hidden_command(repo):
    obs = repo.client.run(
        "git branch --show-current", is_static=True, hidden=True, cwd=f"{repo.workspace}/work"
    )
    assert (obs.exit, obs.content, obs.extras["hidden"]) == (
        0,
        "openhands-workspace-abcd1234",
        True,
    )
    obs = repo.client.run("git branch --show-current", is_static=True, hidden=True, cwd="/")
    assert obs.exit == 128 and obs.type == "run"


HELPER = """
import json, subprocess, sys
command = ['git', 'status', '--porcelain', '-uall']
lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
print(json.dumps([{'status': l[:2].strip().replace('??', 'A'), 'path': l[3:]} for l in lines]))
"""


@needs("python3")
def test_helper_script_is_uploaded_when_missing(repo):
    """The fallback of a host: the fixed path fails, so it writes its own copy and runs that."""
    client, cwd = repo.client, f"{repo.workspace}/work"
    (repo.workspace / "work" / "new file.txt").write_text("x\n")
    (repo.workspace / "work" / "README.md").write_text("changed\n")
    missing = "/openhands/code/openhands/runtime/utils/git_changes.py"
    if not os.path.exists(missing):
        obs = client.run(f"python3 {missing}", is_static=True, hidden=True, cwd=cwd)
        assert obs.type == "run" and obs.exit == 2
    directory = client.run("mktemp -d", is_static=True, hidden=True, cwd=cwd).content
    script = f"{directory}/git_changes.py"
    assert client.write(script, HELPER).type == "write"
    assert client.run(f"chmod +x {script}", is_static=True, hidden=True, cwd=cwd).exit == 0
    obs = client.run(f"python3 {script}", is_static=True, hidden=True, cwd=cwd)
    assert obs.exit == 0
    assert json.loads(obs.content) == [
        {"status": "M", "path": "README.md"},
        {"status": "A", "path": '"new file.txt"'},
    ]
    client.ok(f"rm -r {directory}")


def test_setup_script(homely):
    client = homely.client
    client.write(
        ".openhands/setup.sh", '#!/bin/bash\necho "Hello World" >> README.md\nexport FROM_SETUP=1'
    )
    assert client.read(".openhands/setup.sh").type == "read"
    obs = client.run(
        "chmod +x .openhands/setup.sh && source .openhands/setup.sh",
        timeout=600.0,
        blocking=True,
        hidden=True,
    )
    assert (obs.exit, obs.extras["hidden"]) == (0, True)
    assert client.read("README.md").content == "Hello World\n"
    assert client.ok("echo $FROM_SETUP") == "1", "sourced, not run"


def test_setup_script_is_not_cut_by_the_soft_timeout(homely):
    client = homely.client
    client.write(".openhands/setup.sh", '#!/bin/bash\nsleep 3 && echo "Hello World" >> README.md')
    obs = client.run(
        "chmod +x .openhands/setup.sh && source .openhands/setup.sh",
        timeout=600.0,
        blocking=True,
        hidden=True,
    )
    assert obs.exit == 0 and obs.suffix == done(0)
    assert client.read("README.md").content == "Hello World\n"


def test_missing_setup_script(client):
    obs = client.read(".openhands/setup.sh")
    assert obs.type == "error" and obs.content.startswith("File not found: ")


def test_setup_script_that_exits_does_not_end_the_session(homely):
    client = homely.client
    client.write(".openhands/setup.sh", "echo going; exit 3")
    obs = client.run(
        "chmod +x .openhands/setup.sh && source .openhands/setup.sh",
        timeout=600.0,
        blocking=True,
        hidden=True,
    )
    assert (obs.type, obs.exit, obs.content.splitlines()[0]) == ("run", 3, "going")
    assert client.ok("pwd") == str(homely.workspace)


def test_git_hook(repo):
    client = repo.client
    client.write(".openhands/pre-commit.sh", "echo checked; test ! -e forbidden")
    client.ok("mkdir -p .git/hooks")
    client.ok("chmod +x .openhands/pre-commit.sh")
    client.write(
        ".git/hooks/pre-commit",
        "#!/bin/bash\n# This hook was installed by OpenHands\n"
        "if [ -x .openhands/pre-commit.sh ]; then\n  source .openhands/pre-commit.sh\n"
        "  exit $?\nfi\nexit 0",
    )
    client.ok("chmod +x .git/hooks/pre-commit")
    client.ok("touch a && git add a")
    obs = client.run("git commit -m second")
    assert obs.exit == 0 and "checked" in obs.content
    client.ok("touch forbidden && git add forbidden")
    assert client.run("git commit -m third").exit == 1


def test_microagents(homely):
    client = homely.client
    base = f"{homely.workspace}/.openhands/microagents"
    assert client.list_files(base) == []
    client.write(f"{base}/knowledge/knowledge.md", "---\ntriggers: [x]\n---\nKnow.")
    client.write(f"{base}/repo.md", "# Repo\ntext")
    client.write(f"{homely.workspace}/.openhands_instructions", "legacy")
    assert client.list_files(base) == ["knowledge/", "repo.md"]
    assert client.list_files(base + "/") == ["knowledge/", "repo.md"]
    reply = client.download(base)
    assert reply.status == 200
    with zipfile.ZipFile(io.BytesIO(reply.body)) as z:
        assert sorted(z.namelist()) == ["knowledge/knowledge.md", "repo.md"]
        assert z.read("repo.md") == b"# Repo\ntext\n"
    assert client.read(f"{homely.workspace}/.openhands_instructions").content == "legacy\n"
    assert client.read(f"{homely.workspace}/missing").type == "error"

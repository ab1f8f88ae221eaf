"""Clone or init, set-up script, hooks, microagents, git changes."""

import base64
import http.server
import os
import pathlib
import re
import ssl
import subprocess
import threading
import urllib.parse

import pytest


# --- clone ---------------------------------------------------------------------------------------


def test_clone_on_a_new_branch(open_session, upstream):
    session = open_session()
    assert session("clone", repository=str(upstream)) == "thing"
    assert session.statuses == ["STATUS$SETTING_UP_WORKSPACE"]
    assert session.run("pwd") == str(session.workspace / "thing")
    assert re.fullmatch(r"openhands-workspace-[a-z0-9]{8}", session("branch", cwd="thing"))
    assert (session.workspace / "thing/src/a.txt").read_text() == "one\ntwo\n"


def test_clone_a_branch_and_use_what_is_there(open_session, upstream, tmp_path, git):
    session = open_session()
    session("clone", repository=f"file://{upstream}", branch="feature/x")
    assert session("branch", cwd="thing") == "feature/x"
    (session.workspace / "thing/mine").write_text("kept\n")
    session.run("cd /")
    session("clone", repository=f"file://{upstream}", branch="feature/x")
    assert session.run("pwd") == str(session.workspace / "thing")
    assert (session.workspace / "thing/mine").read_text() == "kept\n"
    # Another repository of that name is not taken for it.
    other = tmp_path / "other" / "thing"
    other.mkdir(parents=True)
    git(other, "init", "-q")
    with pytest.raises(Exception) as failure:
        session("clone", repository=str(other))
    assert failure.value.code == "conflict"


@pytest.mark.parametrize(
    "branch", ["-f", "a b", "a;touch pwned", "$(touch pwned)", "--orphan", "x..y", "", "a\nb", "`touch pwned`"]
)
def test_hostile_branches(open_session, upstream, branch):
    session = open_session()
    with pytest.raises(Exception):
        session("clone", repository=str(upstream), branch=branch)
    assert not list(session.base.rglob("pwned"))


@pytest.mark.parametrize(
    "repository",
    [
        "-u/x",
        "ext::sh -c touch% pwned",
        "a/../..",
        "one",
        "https://",
        "/",
        "a//b",
        "owner/-x",
        "https://example.org/a b",
        "o/r;touch pwned\n",
    ],
)
def test_hostile_repositories(open_session, repository):
    session = open_session()
    with pytest.raises(Exception):
        session("clone", repository=repository, provider="gitlab", branch="b")
    assert not list(session.base.rglob("pwned"))


def test_failures_are_told(open_session, upstream):
    session = open_session()
    with pytest.raises(Exception) as failure:
        session("clone", repository=str(upstream), branch="no-such-branch")
    assert "no-such-branch" in failure.value.text
    with pytest.raises(Exception) as failure:
        session("clone", repository="/no/such/place")
    assert "clone /no/such/place" in failure.value.text


# --- tokens --------------------------------------------------------------------------------------


class Forge(http.server.ThreadingHTTPServer):
    """A git server over HTTPS that wants a user and a password; notes what it was given."""

    def __init__(self, root, certificate, user, password):
        self.root, self.want, self.seen = root, f"{user}:{password}", []
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.host = f"127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        given = self.headers.get("Authorization", "")
        given = base64.b64decode(given.removeprefix("Basic ")).decode() if given else None
        self.server.seen.append(given)
        if given != self.server.want:
            self.answer(401, [("WWW-Authenticate", 'Basic realm="x"')], b"")
            return
        path, _, query = self.path.partition("?")
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        reply = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True).stdout
        head, _, content = reply.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.answer(int(headers.pop("Status", "200").split()[0]), headers.items(), content)

    do_POST = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    path = tmp_path_factory.mktemp("certificate") / "pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        + ["-keyout", path, "-out", f"{path}.cert", "-days", "2", "-subj", "/CN=127.0.0.1"],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + pathlib.Path(f"{path}.cert").read_text())
    return path


@pytest.fixture
def forge(tmp_path, upstream, git, certificate):
    """forge(user, password) -> a server with owner/thing.git"""
    made = []

    def start(user, password):
        root = tmp_path / "forge"
        (root / "owner").mkdir(parents=True)
        git(root, "clone", "-q", "--bare", str(upstream), "owner/thing.git")
        server = Forge(root, certificate, user, password)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made.append(server)
        return server

    yield start
    for server in made:
        server.shutdown()
        server.server_close()


def files_with(directory, text):
    return [p for p in directory.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


@pytest.mark.parametrize(
    "provider, token, user, password",
    [
        ("github", "ghp_s3cret", "x-access-token", "ghp_s3cret"),
        ("gitlab", "glpat-s3cret'$(x)\\", "oauth2", "glpat-s3cret'$(x)\\"),
        ("bitbucket", "me:s3cret/pw", "me", "s3cret/pw"),
        ("bitbucket", "tok-s3cret", "x-token-auth", "tok-s3cret"),
    ],
)
def test_token_is_not_left_in_the_clone(open_session, forge, provider, token, user, password):
    """A helper asks the variable for it, also when that has changed since."""
    server = forge(user, password)
    session = open_session(tokens=[{"provider": provider, "token": token, "host": server.host}])
    session("setup")
    session("clone", repository="owner/thing")
    assert f"{user}:{password}" in server.seen
    assert files_with(session.workspace, "s3cret") == []
    url = session.run("git remote get-url origin")
    assert url == f"https://{server.host}/owner/thing.git"
    session.run("git fetch -q")  # the helper is there to stay
    server.want = server.want.replace("s3cret", "n3w")
    session("env", env={f"{provider}_token": token.replace("s3cret", "n3w")})
    session.run("git fetch -q")


@pytest.mark.parametrize(
    "provider, token, user, password",
    [
        ("github", "ghp_s3cret", "ghp_s3cret", ""),
        ("gitlab", "glpat-s3cret", "oauth2", "glpat-s3cret"),
        ("bitbucket", "me:s3cret/pw", "me", "s3cret/pw"),
        ("bitbucket", "tok-s3cret", "x-token-auth", "tok-s3cret"),
    ],
)
def test_token_in_the_url_where_that_is_wanted(open_session, forge, provider, token, user, password):
    server = forge(user, password)
    session = open_session(tokens=[{"provider": provider, "token": token, "host": server.host}], token_in_url=True)
    session("clone", repository="owner/thing")
    assert f"{user}:{password}" in server.seen
    quoted = urllib.parse.quote(user, safe="") + (":" + urllib.parse.quote(password, safe="") if password else "")
    assert session.run("git remote get-url origin") == f"https://{quoted}@{server.host}/owner/thing.git"


def test_token_goes_to_its_own_host_only(open_session, forge):
    server = forge("oauth2", "glpat-s3cret")
    session = open_session(tokens=[{"provider": "gitlab", "token": "glpat-s3cret"}])
    session("setup")
    with pytest.raises(Exception) as failure:
        session("clone", repository=f"https://{server.host}/owner/thing.git")
    assert server.seen and set(server.seen) == {None}
    assert "s3cret" not in failure.value.text


def test_wrong_token_is_no_secret_that_leaks(open_session, forge):
    server = forge("oauth2", "right")
    for in_url in (False, True):
        session = open_session(
            tokens=[{"provider": "gitlab", "token": "glpat-s3cret", "host": server.host}], token_in_url=in_url
        )
        with pytest.raises(Exception) as failure:
            session("clone", repository="owner/thing")
        assert "exit status 128" in failure.value.text
        assert "s3cret" not in session.printed


# --- init ----------------------------------------------------------------------------------------


def test_init(open_session):
    session = open_session(env={"INIT_GIT_IN_EMPTY_WORKSPACE": "true"})
    for _ in range(2):
        assert session("clone") == ""
    assert (session.workspace / ".git").is_dir()
    assert (session.home / ".gitconfig").read_text().count(f"directory = {session.workspace}") == 1
    other = open_session()
    assert other("clone") == "" and not (other.workspace / ".git").exists()


# --- set-up script and hooks ---------------------------------------------------------------------


def test_setup_script(open_session, upstream, commit):
    commit(upstream, {".openhands/setup.sh": "export FROM_SCRIPT=yes\ntouch $HOME/ran\n"})
    session = open_session()
    session("clone", repository=str(upstream))
    assert session("script", directory="thing") == 1
    assert session.run("echo $FROM_SCRIPT") == "yes"  # it is sourced
    assert (session.home / "ran").exists()
    assert session.statuses[-1] == "STATUS$SETTING_UP_WORKSPACE"
    assert session("script", directory="thing/src") == 0


def test_setup_script_that_fails_is_noted(open_session, upstream, commit):
    commit(upstream, {".openhands/setup.sh": "false\n"})
    session = open_session()
    session("clone", repository=str(upstream))
    assert session("script", directory="thing") == 1
    assert session.notes == [".openhands/setup.sh ended with status 1"]


def test_hooks(open_session, upstream, commit):
    commit(upstream, {".openhands/pre-commit.sh": 'echo ours >> "$HOME/hooks"; [ ! -e bad ]\n'})
    session = open_session()
    session("setup")
    session("clone", repository=str(upstream))
    hook = session.workspace / "thing/.git/hooks/pre-commit"
    hook.write_text('#!/bin/sh\necho before >> "$HOME/hooks"\n')
    hook.chmod(0o644)
    for _ in range(2):  # the second time it knows its own hook
        assert session("hooks", directory="thing") == 1
    assert session.statuses[-1] == "STATUS$SETTING_UP_GIT_HOOKS"
    assert "This hook was installed by OpenHands" in hook.read_text()
    assert (hook.parent / "pre-commit.local").read_text() == '#!/bin/sh\necho before >> "$HOME/hooks"\n'
    session.run("touch good && git add . && git commit -q -m good")
    assert (session.home / "hooks").read_text() == "before\nours\n"
    seen = session.act("run", command="touch bad && git add . && git commit -q -m bad")
    assert seen["extras"]["metadata"]["exit_code"] == 1
    (session.workspace / "thing/.openhands/pre-commit.sh").unlink()
    assert session("hooks", directory="thing") == 0
    session.run("rm bad; git commit -q -a -m late")


# --- microagents ---------------------------------------------------------------------------------


KNOWLEDGE = """---
name: ignored
type: repo
version: 2.0
agent: CodeActAgent
triggers:
- docker
- "a: b"
---

Use docker.
"""
TASK = """---
inputs:
  - name: PR
    description: "which: one"
---
Do ${PR}.
"""


def test_microagents(open_session, upstream, commit):
    commit(
        upstream,
        {
            ".openhands/microagents/docker.md": KNOWLEDGE,
            ".openhands/microagents/deep/er/task.md": TASK,
            ".openhands/microagents/-odd name'$(x).md": "plain\n",
            ".openhands/microagents/README.md": "not me",
            ".openhands/microagents/notes.txt": "nor me",
            ".openhands/microagents/broken.md": "---\ntriggers: [a\n---\nx",
            ".openhands/microagents/alias.md": "---\na: &x [1]\nb: *x\n---\nx",
            ".cursorrules": "rules",
            "AGENTS.md": "agents",
            ".openhands_instructions": "legacy",
        },
    )
    session = open_session()
    session("clone", repository=str(upstream))
    found = {m["name"]: m for m in session("microagents", directory="thing")}
    assert set(found) == {"docker", "deep/er/task", "-odd name'$(x)", "cursorrules", "agents", "repo_legacy"}
    docker = found["docker"]
    assert (docker["type"], docker["version"], docker["triggers"]) == ("knowledge", "2.0", ["docker", "a: b"])
    assert docker["content"] == "Use docker." and docker["source"] == ".openhands/microagents/docker.md"
    task = found["deep/er/task"]
    assert task["type"] == "task" and task["triggers"] == ["/deep/er/task"]
    assert task["inputs"] == [{"name": "PR", "description": "which: one"}]
    assert found["agents"]["type"] == "repo" and found["agents"]["version"] == "1.0.0"
    assert found["repo_legacy"]["content"] == "legacy"
    assert len(session.notes) == 2 and "broken.md" in session.notes[1] and "aliases" in session.notes[0]


def test_legacy_instructions_of_the_workspace_go_first(open_session, upstream, commit):
    commit(upstream, {".openhands_instructions": "of the repository"})
    session = open_session()
    session("clone", repository=str(upstream))
    (session.workspace / ".openhands_instructions").write_text("of the workspace")
    [found] = session("microagents", directory="thing")
    assert found["content"] == "of the workspace"


def test_microagents_of_the_owner(open_session, forge, git, upstream, commit, tmp_path):
    server = forge("oauth2", "t0ken")
    shared = tmp_path / "shared"
    shared.mkdir()
    git(shared, "init", "-q")
    commit(shared, {"microagents/all.md": "for all", "AGENTS.md": "not this"})
    git(server.root, "clone", "-q", "--bare", str(shared), "owner/openhands-config.git")
    session = open_session(tokens=[{"provider": "gitlab", "token": "t0ken", "host": server.host}])
    session("clone", repository="owner/thing")
    found = session("microagents", repository="owner/thing", directory="thing")
    assert [(m["name"], m["content"]) for m in found] == [("all", "for all")]
    assert "oauth2:t0ken" in server.seen
    assert not list(session.tmp.glob("tmp.*"))


def test_nothing_there(open_session):
    session = open_session()
    assert session("microagents", directory="") == []
    assert session("script") == 0 and session("hooks") == 0
    assert session.notes == []


def test_prepare_does_it_in_order(open_session, upstream, commit):
    commit(
        upstream,
        {
            ".openhands/setup.sh": "true\n",
            ".openhands/pre-commit.sh": "true\n",
            ".openhands/microagents/a.md": "a",
        },
    )
    session = open_session()
    assert [m["name"] for m in session("prepare", repository=str(upstream))] == ["a"]
    assert session.statuses == [
        "STATUS$SETTING_UP_WORKSPACE",
        "STATUS$SETTING_UP_WORKSPACE",
        "STATUS$SETTING_UP_GIT_HOOKS",
        "STATUS$READY",
    ]


# --- changes -------------------------------------------------------------------------------------

ODD = "new line\n tab\t quote' \" $(x) é"


def test_changes(open_session, upstream, commit, git):
    commit(upstream, {"gone": "x", "moved": "some text to recognise\n", "same": "x"})
    session = open_session()
    session("clone", repository=str(upstream))
    thing = session.workspace / "thing"
    (thing / "src/a.txt").write_text("changed\n")
    (thing / "gone").unlink()
    (thing / "moved").rename(thing / "elsewhere")
    (thing / ODD).write_text("x")
    (thing / "committed").write_text("x")
    (thing / ".gitignore").write_text("ignored\n")
    (thing / "ignored").write_text("x")
    git(thing, "add", "committed")
    git(thing, "commit", "-q", "-m", "own")
    expected = [
        ("A", ".gitignore"), ("A", "committed"), ("A", "elsewhere"), ("D", "gone"), ("D", "moved"), ("A", ODD),
        ("M", "src/a.txt"),
    ]
    seen = [(c["status"], c["path"]) for c in session("changes", cwd="thing")]
    assert seen == sorted(expected, key=lambda change: change[1].encode())
    # Seen from above the repository has its directory before it, and the workspace itself is none.
    seen = [(c["status"], c["path"]) for c in session("changes")]
    assert seen == [(s, f"thing/{p}") for s, p in sorted(expected, key=lambda change: change[1].encode())]


def test_changes_of_repositories_in_repositories(open_session, git):
    session = open_session(env={"INIT_GIT_IN_EMPTY_WORKSPACE": "true"})
    session("clone")
    for name in ("a", "ab"):
        (session.workspace / name).mkdir()
        (session.workspace / name / "file").write_text(name)
    git(session.workspace / "a", "init", "-q")
    assert [(c["status"], c["path"]) for c in session("changes")] == [("A", "a/file"), ("A", "ab/file")]


def test_no_repository_no_changes(open_session):
    session = open_session()
    assert session("changes") == []
    with pytest.raises(Exception) as failure:
        session("branch")
    assert failure.value.code == "not_found"


def test_diff(open_session, upstream, commit):
    text = "á\r\n\ttab\x1b[31m\x00 end, no line end"
    commit(upstream, {"odd": text, "deep/er/file": "was here\n"})
    session = open_session()
    session("clone", repository=str(upstream))
    thing = session.workspace / "thing"
    (thing / "src/a.txt").write_text("one\n2\n")
    assert session("diff", file="src/a.txt", cwd="thing") == {"original": "one\ntwo\n", "modified": "one\n2\n"}
    assert session("diff", file="thing/src/a.txt") == {"original": "one\ntwo\n", "modified": "one\n2\n"}
    assert session("diff", file="odd", cwd="thing") == {"original": text, "modified": text}
    session.run("rm -r deep")
    assert session("diff", file="deep/er/file", cwd="thing") == {"original": "was here\n", "modified": ""}
    (thing / ODD).write_text("new")
    assert session("diff", file=ODD, cwd="thing") == {"original": "", "modified": "new"}
    (thing / "large").write_bytes(b"x" * (2 << 20))
    with pytest.raises(Exception) as failure:
        session("diff", file="large", cwd="thing")
    assert failure.value.code == "too_large"
    with pytest.raises(Exception) as failure:
        session("diff", file="x")
    assert failure.value.code == "not_found"

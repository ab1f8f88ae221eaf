"""The environment of a sandbox: four sources, quoted, persistent, never shown."""

import os
import stat
import subprocess

import pytest

HOSTILE = {
    "PLAIN": "a b",
    "DOLLAR": "$HOME ${PATH} $(touch pwned) `touch pwned`",
    "QUOTES": "it's \"quoted\" '' ' \\' \\\\ \\",
    "SEVERAL": "first\nsecond\n\n'third'\n$(touch pwned)\n",
    "CONTROL": "\x01\x03\x04\x08\t\x11\x13\x15\x16\x1a\x1b[31m\x7f\r",
    "BANG": "!! !$ ^a^b; & | > pwned < # %s %n",
    "UNICODE": "é 😀 \u2028",
    "EMPTY": "",
    "DASH": "-n -e",
    "LONG": "x'" * 20000,
}


def environment(session, shell=""):
    """{name: value} of the main shell, or of a new one."""
    path = session.base / "environment"
    session.run(f"{shell} env -0 > {path}" if not shell else f"{shell} -c 'env -0 > {path}'")
    return dict(
        pair.split("=", 1) for pair in path.read_bytes().decode("utf-8", "surrogateescape").split("\0") if pair
    )


def nothing_happened(session):
    assert not list(session.base.rglob("pwned"))


def test_values_are_never_evaluated(open_session):
    session = open_session()
    session("env", env=HOSTILE)
    seen = environment(session)
    for name, value in HOSTILE.items():
        assert seen[name] == value, name
    nothing_happened(session)
    assert session.notes == []


def test_shells_to_come_know_them(open_session):
    session = open_session()
    session("env", env=HOSTILE)
    done = subprocess.run(
        ["bash", "--rcfile", session.home / ".bashrc", "-i", "-c", "env -0"],
        env={"PATH": os.environ["PATH"], "HOME": str(session.home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=session.workspace,
        start_new_session=True,
    )
    seen = dict(pair.split(b"=", 1) for pair in done.stdout.split(b"\0") if pair)
    for name, value in HOSTILE.items():
        assert seen[name.encode()] == value.encode(), name
    nothing_happened(session)
    for path in (session.home / ".config/tendon/env").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_value_replaces_the_old_one(open_session):
    session = open_session()
    (session.home / ".bashrc").write_text("mine=1 # no line end")
    for value in ("first'one", "second"):
        session("env", env={"github_token": value})
    everything = b"".join(p.read_bytes() for p in session.home.rglob("*") if p.is_file())
    assert b"second" in everything and b"first" not in everything
    lines = (session.home / ".bashrc").read_text().splitlines()
    assert lines[0] == "mine=1 # no line end"
    assert sum("tendon: environment" in line for line in lines) == 1


def test_sources_and_their_order(open_session):
    session = open_session(
        env={
            "SANDBOX_ENV_FOO": "host $x",
            "SANDBOX_ENV_BAR": "host",
            "SANDBOX_ENV_GITHUB_TOKEN": "host",
            "SANDBOX_ENABLE_AUTO_LINT": "true",
            "SANDBOX_RUNTIME_STARTUP_ENV_VARS": "{'LAST': 'config', 'baz': 'config'}",
        },
        tokens=[{"provider": "github", "token": "ghp_secret"}, {"provider": "enterprise_sso", "token": "sso-secret"}],
    )
    # One action sets it all.
    assert session("setup") == 1
    seen = environment(session)
    assert seen["FOO"] == "host $x"
    assert seen["ENABLE_AUTO_LINT"] == "true"
    assert seen["GITHUB_TOKEN"] == "ghp_secret" and seen["ENTERPRISE_SSO_TOKEN"] == "sso-secret"
    assert seen["LAST"] == "config" and seen["BAZ"] == "config"
    assert session.statuses == ["STATUS$RUNTIME_STARTED", "STATUS$READY"] and session.notes == []
    identity = (session.home / ".gitconfig").read_text()
    assert "name = openhands\n" in identity and "email = openhands@all-hands.dev\n" in identity


def test_the_caller_goes_before_the_host(open_session):
    session = open_session(env={"SANDBOX_ENV_FOO": "host"})
    session("setup")
    session("env", env={"foo": "caller"})
    assert environment(session)["FOO"] == "caller"


def test_identity_is_quoted(open_session):
    name = "a'; touch pwned; '$(touch pwned)\""
    session = open_session(env={"GIT_USER_NAME": name, "GIT_USER_EMAIL": "`touch pwned`"})
    session("setup")
    assert session.run("git config --global user.name") == name
    assert session.run("git config --global user.email") == "`touch pwned`"
    nothing_happened(session)


def test_a_home_that_is_somebodys_is_left_alone(open_session):
    session = open_session(shared_home=True)
    session("setup")
    session("env", env={"A": "1"})
    assert environment(session)["A"] == "1"
    assert not (session.home / ".bashrc").exists() and not (session.home / ".gitconfig").exists()


def test_attached_changes_nothing(open_session):
    session = open_session(env={"SANDBOX_ENV_FOO": "host"}, attached=True)
    assert session("setup") == 0
    assert "FOO" not in environment(session)


def test_a_home_that_cannot_be_written_is_noted(open_session):
    session = open_session(env={"SANDBOX_ENV_FOO": "1"})
    session.run("export HOME=/proc/1/nowhere")
    session("setup")
    assert environment(session)["FOO"] == "1"
    assert len(session.notes) == 2  # variables, git
    assert "shells to come" in session.notes[0]


@pytest.mark.parametrize("name", ["UID", "a-b", "1x", "", "a b", "x=y", "ppid"])
def test_names_that_are_none(open_session, name):
    session = open_session()
    with pytest.raises(Exception) as failure:
        session("env", env={name: "the-value"})
    assert failure.value.code == "invalid" and "the-value" not in failure.value.text


def test_values_are_in_no_message_and_no_log(open_session):
    session = open_session(env={"SANDBOX_ENV_FOO": "v3ry-secret"}, tokens=[{"provider": "gitlab", "token": "t0k-secret"}])
    session("setup")
    session("env", env={"OTHER": "0ther-secret"})
    with pytest.raises(Exception):
        session("env", env={"LARGE": "l4rge-secret" * 20000})
    log = (session.base / "hand.log").read_text()
    for secret in ("v3ry-secret", "t0k-secret", "0ther-secret", "l4rge-secret"):
        assert secret not in session.printed and secret not in log
    assert not [p for p in session.tmp.rglob("*") if p.is_file() and b"-secret" in p.read_bytes()]


def test_without_ipython_the_kernel_is_noted(open_session):
    session = open_session(env={"SANDBOX_ENV_FOO": "1"}, jupyter=True)
    session("setup")
    (note,) = session.notes
    assert note.startswith("the variables are not set in IPython: ") and "JupyterRequirement" in note

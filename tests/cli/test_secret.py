"""tendon secret: set, list, rm; what it refuses, and that a value is nowhere to be seen."""

import base64
import json
import os
import secrets
import stat

import pytest


def forms(value):
    raw = value.encode()
    return [raw, raw[::-1], base64.b64encode(raw)[:-4], raw.hex().encode()]


def seen(value, *folders):
    """Files below these that hold the value in any form."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and any(form in path.read_bytes() for form in forms(value)):
                found.append(path)
    return found


@pytest.fixture
def key(tendon):
    return tendon.state.parent / "secret.key"


def test_a_value_is_kept_listed_and_removed_and_never_seen(tendon, key, tmp_path):
    value = "canary-" + secrets.token_hex(16)
    made = tendon("secret", "set", "API_KEY", "--host", "Api.Example.com", "--host", "*.x.org:8443", stdin=value + "\n")
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    listed = tendon("secret", "list", "--json")
    (entry,) = json.loads(listed.stdout)
    assert entry["name"] == "API_KEY" and entry["hosts"] == ["api.example.com", "*.x.org:8443"]
    assert entry["headers"][0] == "authorization" and len(entry["headers"]) == 5 and entry["changed"] > 1e9
    table = tendon("secret", "list").stdout
    assert "API_KEY" in table and "*.x.org:8443" in table
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert value not in listed.stdout + table and seen(value, tmp_path) == []
    (tmp_path / "planted").write_bytes(b"x" + base64.b64encode(value.encode()))
    assert seen(value, tmp_path) == [tmp_path / "planted"], "whoever looks would find it"
    assert tendon("secret", "rm", "API_KEY").returncode == 0
    gone = tendon("secret", "rm", "API_KEY")
    assert gone.returncode == 66 and "no secret API_KEY" in gone.stderr
    assert json.loads(tendon("secret", "list", "--json").stdout) == []


def test_a_variable_is_a_source(tendon):
    assert tendon("secret", "set", "A", "--host", "x.com", "--from-env", "MINE", env={"MINE": "value-123"}).returncode == 0
    missing = tendon("secret", "set", "B", "--host", "x.com", "--from-env", "NOBODYS")
    assert missing.returncode == 2 and "NOBODYS" in missing.stderr


def test_a_terminal_is_asked_without_an_echo(tendon, screen, tmp_path):
    value = "typed-" + secrets.token_hex(8)
    s = screen(tendon, "secret", "set", "TYPED", "--host", "x.com")
    s.wait_for("TYPED: ")
    s.type(value + "\n")
    assert s.wait() == 0
    assert value not in s.text and s.is_ordinary()
    assert json.loads(tendon("secret", "list", "--json").stdout)[0]["name"] == "TYPED"
    s = screen(tendon, "secret", "set", "OTHER", "--host", "x.com")
    s.wait_for("OTHER: ")
    s.type("half\x03")
    assert s.wait() != 0 and "interrupted" in s.text and s.is_ordinary()
    assert len(json.loads(tendon("secret", "list", "--json").stdout)) == 1


@pytest.mark.parametrize(
    "args, value, why",
    [
        (["a", "--host", "x.com"], "value-123", "name of a secret"),
        (["A"], "value-123", "which hosts"),
        (["A", "--host", "*"], "value-123", "hosts"),
        (["A", "--host", "10.0.0.1"], "value-123", "hosts"),
        (["A", "--host", "x.com", "--header", "Host"], "value-123", "headers"),
        (["A", "--host", "x.com"], "", "value"),
        (["A", "--host", "x.com"], "canary7", "at least 8 bytes"),
        (["A", "--host", "x.com"], "canary\r\nX-Evil: 1", "value"),
        (["A", "--host", "x.com"], "canary\x00", "value"),
        (["A", "--host", "x.com"], "canary" * 20000, ""),
    ],
)
def test_what_is_refused_and_never_quoted(tendon, args, value, why):
    refused = tendon("secret", "set", *args, stdin=value)
    assert refused.returncode not in (0, -11) and why in refused.stderr, refused
    assert "canary" not in refused.stderr + refused.stdout


def test_a_key_that_is_gone_readable_or_another(tendon, key):
    def put(name="A"):
        return tendon("secret", "set", name, "--host", "x.com", stdin="value-123")

    assert put().returncode == 0
    good = key.read_bytes()
    key.chmod(0o644)
    assert "chmod 600" in tendon("secret", "list").stderr
    key.unlink()
    for result in (tendon("secret", "list"), put("B")):
        assert result.returncode != 0 and "missing" in result.stderr and str(key) in result.stderr
    assert not key.exists(), "none takes its place"
    for text, why in ((b"0" * 64, "another key"), (b"short\n", "64 hexadecimal digits")):
        key.write_bytes(text)
        key.chmod(0o600)
        assert why in tendon("secret", "list").stderr
    key.write_bytes(good)
    assert tendon("secret", "list").returncode == 0
    if os.geteuid() == 0:
        os.chown(key, 12345, 0)
        assert "another user" in tendon("secret", "list").stderr


def test_who_has_no_gate_refuses_them(tendon):
    assert tendon("secret", "set", "A", "--host", "x.com", stdin="value-123").returncode == 0
    for args, why in (
        (["--secret", "A"], "local"),
        (["--network", "none", "--secret", "A"], "open or allow"),
        (["--secret", "A", "--env", "A=b"], "env"),
        (["--secret", "A", "--secret", "A"], "twice"),
        (["--secret", "a"], "name of a secret"),
    ):
        refused = tendon("new", *args)
        assert refused.returncode != 0 and why in refused.stderr, refused

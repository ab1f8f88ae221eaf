"""The published conformance suite: against our client (`tendon tools`), and against `tendon mcp` over HTTP.

What a scenario asks for that is not ours to have is excused by name, with the reason; whatever else fails, or is not
there, fails here. The hand is in test_mcp_hand_peers.py."""

import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

from mcp_suite import judge_server, suite, verdicts

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def listed():
    """{scenario: [its revisions, or "extension"]} of the scenarios for clients."""
    lines = re.findall(r"^  - (\S+) \[(\S+)\]", suite("list", "--client").stdout, re.MULTILINE)
    return {name: marks.split(",") for name, marks in lines}


# --- the client ---------------------------------------------------------------------------------

# Extensions of the protocol, which a client may have or not.
NOT_OURS = {
    "auth/enterprise-managed-authorization": "there is no identity provider of an enterprise on a developer's machine",
    "sep-2640-client-no-prefetch": "skills come from the workspace, not from MCP servers",
    "sep-2640-client-verify-digest": "skills come from the workspace, not from MCP servers",
    "sep-2640-client-verify-size": "skills come from the workspace, not from MCP servers",
    "sep-2640-client-verify-frontmatter": "skills come from the workspace, not from MCP servers",
}
OURS = {"auth/client-credentials-basic", "auth/client-credentials-jwt", "auth/dpop", "auth/dpop-nonce",
        "auth/wif-jwt-bearer"}  # of the extensions


def client_command(tendon_program):
    return f"{sys.executable} {HERE / 'conformance_client.py'} {tendon_program}"


@pytest.mark.parametrize(
    "version, count",
    [("2025-03-26", 2), pytest.param("2025-06-18", 5, marks=pytest.mark.slow), ("2025-11-25", 19), ("2026-07-28", 33)],
)
def test_client(listed, tendon_program, tmp_path, version, count):
    expected = {name for name, marks in listed.items() if version in marks}
    assert len(expected) == count
    bad = ("FAILURE", "WARNING")
    words = ["client", "--command", client_command(tendon_program), "--spec-version", version, "--timeout", 200000]
    done = suite(*words, "--suite", "all", "-o", tmp_path / "all", cwd=tmp_path)
    found = verdicts(done, tmp_path / "all", bad)
    assert set(found) <= expected, done.stdout[-4000:]
    for name in sorted(name for name in expected if found.get(name) != []):
        done = suite(*words, "--scenario", name, "-o", tmp_path / "alone", cwd=tmp_path)
        again = verdicts(done, tmp_path / "alone", bad)
        assert again.get(name) == [], done.stdout[-6000:]


def test_all_extensions_are_known(listed):
    assert {name for name, marks in listed.items() if marks == ["extension"]} == OURS | set(NOT_OURS)


@pytest.mark.parametrize("scenario", sorted(OURS))
def test_client_extensions(tendon_program, tmp_path, scenario):
    done = suite("client", "--command", client_command(tendon_program), "--scenario", scenario,
                 "--timeout", 100000, "-o", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdicts(done, tmp_path, ("FAILURE", "WARNING")) == {scenario: []}


# --- tendon mcp ---------------------------------------------------------------------------------

NO_FIXTURE = "tendon mcp has tools for a sandbox, not the tools, prompts and resources of the suite"
SERVER_NOT_OURS = {
    **dict.fromkeys([
        "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
        "tools-call-mixed-content", "tools-call-with-logging", "tools-call-error", "tools-call-with-progress",
        "tools-call-sampling", "tools-call-elicitation", "json-schema-2020-12", "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums", "resources-read-text", "resources-read-binary", "resources-templates-read",
        "http-custom-header-server-validation"], NO_FIXTURE),
    **dict.fromkeys([
        "prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource",
        "prompts-get-with-image"], "it has no prompts, and says so"),
    **dict.fromkeys(["resources-subscribe", "resources-unsubscribe"], "it has no subscriptions, and says so"),
    "logging-set-level": "it logs nothing to clients, and says so",
    "completion-complete": "it completes nothing, and says so",
    **dict.fromkeys(["input-required-result-" + name for name in (
        "basic-elicitation", "basic-sampling", "basic-list-roots", "request-state", "multiple-input-requests",
        "multi-round", "non-tool-request", "result-type", "tampered-state", "capability-check")],
        "none of its tools asks anything"),
}
# Checks, in scenarios that are otherwise ours.
CHECKS_NOT_OURS = {
    "sep-2575-server-rejects-undeclared-capability": NO_FIXTURE,
    "sep-2575-missing-capability-http-400": NO_FIXTURE,
    "sep-2575-http-server-no-independent-requests-on-stream": NO_FIXTURE,
    "sep-2575-server-no-log-without-loglevel": NO_FIXTURE,
    "sep-2549-prompts-list-caching-hints": "it has no prompts",
}


@pytest.fixture(scope="module")
def server(tendon_program, tmp_path_factory):
    """(URL, key) of a `tendon mcp --listen`"""
    base = tmp_path_factory.mktemp("server")
    (base / "key").write_text("sesame\n")
    env = {**os.environ, "HOME": str(base), "TENDON_CONFIG": "/dev/null", "TENDON_STATE": str(base / "state")}
    with open(base / "log", "w") as log, socket.create_server(("127.0.0.1", 0)) as listening:
        fd = listening.fileno()
        child = subprocess.Popen(
            [tendon_program, "mcp", "--runtime", "local", "--listen", f"fd:{fd}", "--key-file", base / "key"],
            env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[fd])
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", "sesame"
        child.terminate()
        child.wait(60)


@pytest.mark.parametrize(
    "version, count", [pytest.param("2025-06-18", 27, marks=pytest.mark.slow), ("2025-11-25", 33), ("2026-07-28", 40)]
)
def test_server(server, tmp_path, version, count):
    url, key = server
    excused = lambda scenario, check: scenario in SERVER_NOT_OURS or check in CHECKS_NOT_OURS  # noqa: E731
    env = {"SUITE_KEY": key, "NODE_OPTIONS": f"--require={HERE / 'conformance-key.cjs'}"}
    found, said = judge_server(url, version, tmp_path, excused, env)
    assert len(found) == count, said
    assert not {name: checks for name, checks in found.items() if checks}, said
    assert not {"tools-list", "resources-list", "dns-rebinding-protection"} & set(SERVER_NOT_OURS)

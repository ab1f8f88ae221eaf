"""Environment variables as a host adds them: exported in the session and kept in ~/.bashrc."""

import json

import pytest


@pytest.fixture
def client(homely):
    return homely.client


def add_env_vars(client, **variables):
    """What a host sends for {name: value}: one export command, then one that makes it last."""
    export, keep = "", ""
    for name, value in variables.items():
        quoted = json.dumps(value)
        export += f"export {name.upper()}={quoted}; "
        keep += (
            f'touch ~/.bashrc; grep -q "^export {name.upper()}=" ~/.bashrc || '
            f'echo "export {name.upper()}={quoted}" >> ~/.bashrc; '
        )
    for command in (export.strip(), keep.strip()):
        obs = client.run(command)
        assert obs.exit == 0, obs


def test_variable_of_the_server_is_visible(start):
    client = start(env={"FOOBAR": "BAZ", "SPACED": "a b  c", "ODD": "x'y\"z\\n$HOME"}).client
    assert client.ok("env | grep FOOBAR") == "FOOBAR=BAZ"
    assert client.ok('echo "$SPACED"') == "a b  c"
    assert client.ok("printenv ODD") == "x'y\"z\\n$HOME"


def test_quotes_survive(client):
    add_env_vars(client, quux='abc"def')
    assert client.ok("echo $QUUX") == 'abc"def'
    assert client.ok("env | grep ^QUUX=") == 'QUUX=abc"def'


def test_append_keeps_the_others_and_env_is_stable(client):
    add_env_vars(client, first="1")
    add_env_vars(client, second="2")
    assert client.ok("echo $FIRST$SECOND") == "12"
    assert client.ok("env") == client.ok("env")


def test_overwrite(client):
    add_env_vars(client, foobar="bar")
    assert client.ok("echo $FOOBAR") == "bar"
    add_env_vars(client, foobar="xyz")
    assert client.ok("echo $FOOBAR") == "xyz"


def test_several_at_once(client):
    add_env_vars(client, a_one="x", b_two="y z", c_three="")
    assert client.ok('echo "$A_ONE|$B_TWO|$C_THREE|${C_THREE+set}"') == "x|y z||set"


def test_kept_over_a_restart(start):
    first = start()
    assert first.client.ok("echo $HOME") == str(first.home)
    add_env_vars(first.client, github_token="tok-123")
    assert first.client.ok('grep "^export GITHUB_TOKEN=" ~/.bashrc').startswith(
        "export GITHUB_TOKEN="
    )
    first.stop()
    second = start(base=first.base)
    assert second.client.ok("echo $GITHUB_TOKEN") == "tok-123"


def test_added_by_configuration(start):
    client = start(env={"ADDED_ENV_VAR": "added_value"}).client
    assert client.ok("export | grep ADDED_ENV_VAR") == 'declare -x ADDED_ENV_VAR="added_value"'


def test_failure_is_visible(client):
    obs = client.run("export 1BAD=x")
    assert obs.exit == 1 and "not a valid identifier" in obs.content


def test_variables_reach_children_but_not_static_commands(client):
    add_env_vars(client, only_here="yes")
    assert client.ok("bash -c 'echo $ONLY_HERE'") == "yes"
    # ~/.bashrc is read by a static command, so a variable that is only exported tells the two apart
    client.ok("export SESSION_ONLY=1")
    assert client.ok("echo [$SESSION_ONLY]", is_static=True) == "[]"
    assert client.ok("echo $ONLY_HERE", is_static=True) == "yes"

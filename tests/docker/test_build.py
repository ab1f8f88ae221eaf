"""tendon build and tendon images against a real engine, from a local base image without network."""

import json
import os
import subprocess

import pytest

from trees import BUILD, program


@pytest.fixture
def tendon(engine, tmp_path):
    env = {
        **os.environ,
        "DOCKER_HOST": engine.address,
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "OH_RUNTIME_RUNTIME_IMAGE_REPO": "example.org/team/runtime",
    }

    def run(*args, check=True):
        result = subprocess.run([program(BUILD, "tendon"), *args], env=env, capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=120)
        if check:
            assert result.returncode == 0, result.stderr
        return result

    return run


@pytest.fixture
def base(scratch_image):
    return scratch_image


def build(tendon, *args):
    return json.loads(tendon("build", "--json", *args).stdout)


def test_nothing_to_add(tendon, base):
    built = build(tendon, base)
    assert built["how"] == "base" and built["image"] == base


def test_extra_deps(tendon, engine, base, tmp_path):
    script = "echo \"made here\" >/made; echo '$HOME' >>/made"
    first = build(tendon, base, "--extra-deps", script, "--tag", "localhost:5000/mine:1")
    assert first["how"] == "built"
    assert first["image"].startswith("example.org/team/runtime:oh_v")
    again = build(tendon, base, "--extra-deps", script)
    assert (again["how"], again["image"], again["id"]) == ("found", first["image"], first["id"])
    other = build(tendon, base, "--extra-deps", script + "; :")
    assert other["how"] == "built" and other["image"] != first["image"]
    for name in (first["image"], "localhost:5000/mine:1"):
        assert engine.docker("run", "--rm", name, "/bin/sh", "-c", "cat /made") == "made here\n$HOME"
    listed = json.loads(tendon("images", "--json").stdout)
    mine = [i for i in listed if i["id"] == first["id"]]
    assert mine and mine[0]["base"] == base and "localhost:5000/mine:1" in mine[0]["names"]
    assert "example.org/team/runtime" in tendon("images").stdout
    tendon("images", "--prune")
    assert json.loads(tendon("images", "--json").stdout) == []


def test_user_of_the_base_is_kept(tendon, engine, base, tmp_path):
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {base}\nUSER 1000:1000\n")
    engine.docker("build", "-t", "with-user", str(context))
    built = build(tendon, "with-user", "--extra-deps", "test $(id -u) = 0")
    config = json.loads(engine.docker("inspect", built["image"]))[0]["Config"]
    assert config["User"] == "1000:1000"
    tendon("images", "--prune")


def test_failed_step_is_shown(tendon, base):
    result = tendon("build", base, "--extra-deps", "echo before; echo it broke >&2; exit 7", check=False)
    assert result.returncode != 0
    assert "it broke" in result.stderr


def test_packages_need_a_manager(tendon, base):
    result = tendon("build", base, "--package", "git", check=False)
    assert result.returncode != 0
    assert "no package manager that tendon knows" in result.stderr


def test_dry_run(tendon, base):
    text = tendon("build", base, "--plugin", "jupyter", "--package", "git", "--dry-run").stdout
    assert text.startswith(f"FROM {base}\n") and "python3-ipykernel" in text
    assert json.loads(tendon("images", "--json").stdout) == []


@pytest.mark.parametrize(
    "args, says",
    [
        (["UPPER"], "lower case"),
        (["debian", "--package", "a;b"], "no name of a package"),
        (["debian", "--plugin", "jupiter"], "did you mean 'jupyter'?"),
        (["no-such-image:1", "--no-pull"], "no-such-image"),
    ],
)
def test_refused(tendon, args, says):
    result = tendon("build", *args, check=False)
    assert result.returncode != 0 and says in result.stderr

"""tendon build and tendon images against a real engine, from a local base image without network."""

import json
import os
import shutil
import subprocess

import pytest

from images import busybox_tar
from trees import BUILD, program


@pytest.fixture
def tendon(any_engine, tmp_path):
    env = {
        **os.environ,
        "DOCKER_HOST": any_engine.address,
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "OH_RUNTIME_RUNTIME_IMAGE_REPO": "example.org/team/runtime",
    }

    def run(*args, check=True, **more):
        result = subprocess.run([program(BUILD, "tendon"), *args], env={**env, **more}, capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=120)
        if check:
            assert result.returncode == 0, result.stderr
        return result

    return run


@pytest.fixture
def base(any_engine):
    """busybox, and nothing else, in either engine."""
    name = "busybox-only"
    if any_engine.try_docker("image", "inspect", name).returncode:
        any_engine.load(name, busybox_tar(any_engine.base / "base.tar"))
    return name


def build(tendon, *args, **more):
    return json.loads(tendon("build", "--json", *args, **more).stdout)


def test_nothing_to_add(tendon, base):
    built = build(tendon, base)
    assert built["how"] == "base" and built["image"] == base


def test_extra_deps(tendon, any_engine, base, tmp_path):
    engine = any_engine
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


def test_arguments(tendon, any_engine, base):
    """Of the command line and of the configuration, which is written for `docker buildx build`."""
    script = 'echo "$A $B" >/made; cat /etc/hosts >>/made'
    extra = '["--build-arg=A=config", "--build-arg", "B=b c", "--network=host", "--add-host=db:10.1.2.3"]'
    args = [base, "--extra-deps", script, "--build-arg", "A=line"]
    built = build(tendon, *args, SANDBOX_RUNTIME_EXTRA_BUILD_ARGS=extra)
    made = any_engine.docker("run", "--rm", built["image"], "/bin/sh", "-c", "cat /made; echo [$A]")
    assert made.startswith("line b c\n") and made.endswith("[]")
    assert "10.1.2.3" in made
    for wrong, says in (('["--squash"]', "--squash"), ('["--build-arg=1=2"]', "no name of a build argument"), ('["--help"]', "--help")):
        result = tendon("build", *args, check=False, SANDBOX_RUNTIME_EXTRA_BUILD_ARGS=wrong)
        assert result.returncode == 2 and says in result.stderr
    tendon("images", "--prune")


def test_files(tendon, any_engine, base, tmp_path):
    """What is sent along counts for the name."""
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\nONBUILD COPY file /copied\n")
    any_engine.docker("build", "-t", "on-build", str(tmp_path))
    context = tmp_path / "context"
    context.mkdir()
    names = set()
    for text in ("one", "two", "two"):
        if not names or text != (context / "file").read_text():
            (context / "file").write_text(text)
        built = build(tendon, "on-build", "--extra-deps", "true", "--context", str(context))
        assert any_engine.docker("run", "--rm", built["image"], "/bin/sh", "-c", "cat /copied") == text
        names.add(built["image"])
    assert len(names) == 2
    tendon("images", "--prune")


def test_a_folder_that_others_build(tendon, any_engine, base, tmp_path):
    """All that the build needs is in the folder: the files of the context and the values of the arguments."""
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\nONBUILD COPY . /copied/\n")
    any_engine.docker("build", "-t", "on-build-all", str(tmp_path))
    context = tmp_path / "context"
    (context / "deep").mkdir(parents=True)
    (context / "deep/program").write_text("#!/bin/sh\necho it runs\n")
    (context / "deep/program").chmod(0o755)
    (context / "link").symlink_to("deep/program")
    (context / "Dockerfile").write_text("FROM somewhere-else\n")
    value = """a 'b' "c" $HOME \\ \\n $(id) #"""
    script = 'printf "%s" "$A" >/made'
    arguments = ["--extra-deps", script, "--build-arg", f"A={value}", "--context", str(context)]
    tendon("build", "on-build-all", *arguments, "--output", str(tmp_path / "out"), DOCKER_HOST="unix:///nowhere")
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "out").rename(elsewhere)
    shutil.rmtree(context)
    any_engine.docker("build", "-t", "built-elsewhere", str(elsewhere))
    try:
        made = any_engine.docker("run", "--rm", "built-elsewhere", "/bin/sh", "-c", "/copied/link; cat /made")
        assert made == f"it runs\n{value}"
    finally:
        any_engine.docker("rmi", "built-elsewhere")


def test_user_of_the_base_is_kept(tendon, any_engine, base, tmp_path):
    engine = any_engine
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


def test_what_a_failed_build_leaves_is_pruned(tendon, base):
    """Podman keeps the last good step, without a name."""
    tendon("build", base, "--extra-deps", "exit 7", check=False)
    tendon("images", "--prune")
    assert json.loads(tendon("images", "--json").stdout) == []


def test_dry_run(tendon, base):
    tendon("images", "--prune")
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

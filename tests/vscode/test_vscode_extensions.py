"""The extensions that come with every editor, where they go and what is left alone."""

import json
import os

import pytest

from editors import FAKE, Editor
from harness import Factory, needs_root, wait_until

OURS = ["tendon.hello-world-1.0.0", "tendon.memory-monitor-1.0.0"]


@pytest.fixture
def start():
    """start(prepare, **options) -> Editor (the fake one) that runs; prepare gets its directory of
    extensions, which does not exist yet."""
    factory = Factory()

    def run(prepare=None, below=".local/share/code-server/extensions", **options):
        def make(**more):
            directory = more["base"] / "home" / below
            if prepare:
                directory.parent.mkdir(parents=True)
                prepare(directory)
            make.directory = directory
            return factory(**more)

        make.base = factory.base
        editor = Editor(make, FAKE, **options)
        editor.extensions = make.directory
        editor.ask("GET", "/x")
        return editor

    yield run
    factory.finish()


def content(directory):
    return sorted(p.name for p in directory.iterdir())


def end(editor):
    assert editor.ask("GET", "/crash").status == 502


@pytest.mark.parametrize(
    "name, below, env",
    [
        ("code-server", ".local/share/code-server/extensions", {}),
        ("openvscode-server", ".openvscode-server/extensions", {}),
        ("openvscode-server", "agent/extensions", {"VSCODE_AGENT_FOLDER": "{home}/agent"}),
        ("code-server", "data/code-server/extensions", {"XDG_DATA_HOME": "{home}/data"}),
    ],
)
def test_where_they_are(start, tmp_path, name, below, env):
    env = {k: v.format(home=tmp_path) for k, v in env.items()}
    editor = start(below=below, name=name, env={"HOME": str(tmp_path), **env})
    directory = tmp_path / below
    said = json.loads(editor.ask("GET", "/x").data)
    assert said["argv"][said["argv"].index("--extensions-dir") + 1] == str(directory)
    assert content(directory) == OURS
    for ours in OURS:
        package = json.loads((directory / ours / "package.json").read_text())
        assert f"{package['publisher']}.{package['name']}-{package['version']}" == ours
        assert (directory / ours / package["main"]).is_file()


def test_a_second_start_changes_nothing(start):
    editor = start()
    mine = editor.extensions / OURS[0] / "extension.js"
    mine.write_text("// changed by its user")
    end(editor)
    editor.ask("GET", "/x")
    assert mine.read_text() == "// changed by its user" and content(editor.extensions) == OURS


def test_what_a_user_has_stays(start):
    def prepare(directory):
        (directory / "tendon.memory-monitor-9.0.0").mkdir(parents=True)
        (directory / "somebody.tendon.hello-world-1.0.0").mkdir()

    editor = start(prepare)
    expected = ["somebody.tendon.hello-world-1.0.0", OURS[0], "tendon.memory-monitor-9.0.0"]
    assert content(editor.extensions) == expected


def test_they_are_added_to_the_list_of_the_editor(start):
    other = {"identifier": {"id": "a.b"}, "version": "1.2.3", "relativeLocation": "a.b-1.2.3"}

    def prepare(directory):
        directory.mkdir()
        (directory / "extensions.json").write_text(json.dumps([other]))

    editor = start(prepare)
    path = editor.extensions / "extensions.json"
    listed = json.loads(path.read_text())
    assert listed[0] == other
    assert [e["relativeLocation"] for e in listed[1:]] == OURS
    assert listed[1]["location"]["path"] == str(editor.extensions / OURS[0])
    before = path.stat().st_ino
    end(editor)
    editor.ask("GET", "/x")
    assert path.stat().st_ino == before, "written once"


def put_file(directory):
    directory.write_text("not a directory")


def put_half_a_list(directory):
    directory.mkdir()
    (directory / "extensions.json").write_text('[{"identifier":')


def put_object(directory):
    directory.mkdir()
    (directory / "extensions.json").write_text("{}")


def put_pipe(directory):
    directory.mkdir()
    os.mkfifo(directory / "extensions.json")


@pytest.mark.parametrize("prepare", [put_file, put_half_a_list, put_object, put_pipe])
def test_an_editor_without_them_is_an_editor(start, prepare):
    editor = start(prepare)
    assert editor.ask("GET", "/x").status == 200
    said = "the editor goes without extensions of ours"
    wait_until(lambda: said in editor.hand.stderr, 30, said)
    assert str(editor.extensions) in editor.hand.stderr


@needs_root()
def test_a_directory_that_its_user_may_not_write(start, tmp_path):
    """Nothing is written with the rights of the hand."""
    env = {"SU_TO_USER": "true", "RUNTIME_USERNAME": "nobody", "XDG_DATA_HOME": str(tmp_path)}
    editor = start(username="nobody", env=env)
    said = f"{tmp_path}/code-server"
    wait_until(lambda: said in editor.hand.stderr, 30, said)
    assert "ermission denied" in editor.hand.stderr and content(tmp_path) == []
    assert editor.ask("GET", "/x").status == 200

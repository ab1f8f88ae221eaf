"""The extensions that come with every editor, where they go and what is left alone."""

import json
import os
import shutil

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
    """What editors look at: names without a dot."""
    return sorted(p.name for p in directory.iterdir() if not p.name.startswith("."))


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


def listed(directory):
    return [entry["relativeLocation"] for entry in json.loads((directory / "extensions.json").read_text())]


def write_list(directory, *places):
    """As the editor does: what is not on it does not count, whether its directory is still there or not."""
    entries = [{"identifier": {"id": p.rsplit("-", 1)[0]}, "version": p.rsplit("-", 1)[1], "relativeLocation": p} for p in places]
    (directory / "extensions.json").write_text(json.dumps(entries))


def test_what_a_user_removed_stays_away(start):
    """Off the list, then also off the disk, as editors do it; without a list too."""
    editor = start()
    write_list(editor.extensions, OURS[1])
    for _ in range(2):
        end(editor)
        editor.ask("GET", "/x")
        assert listed(editor.extensions) == [OURS[1]]
        if (editor.extensions / OURS[0]).exists():
            shutil.rmtree(editor.extensions / OURS[0])
    (editor.extensions / "extensions.json").unlink()
    shutil.rmtree(editor.extensions / OURS[1])
    end(editor)
    editor.ask("GET", "/x")
    assert content(editor.extensions) == []


def put_older(directory, removed=False, with_list=True):
    """One of ours from an earlier version, which was brought here then."""
    old = "tendon.hello-world-0.9.0"
    (directory / old).mkdir(parents=True)
    (directory / f".{old}").touch()
    (directory / "a.b-1.2.3").mkdir()
    if with_list:
        write_list(directory, "a.b-1.2.3", *([] if removed else [old]))
    elif removed:
        (directory / old).rmdir()


@pytest.mark.parametrize("with_list", [True, False])
def test_a_newer_version_replaces_ours_unless_it_was_removed(start, with_list):
    editor = start(lambda directory: put_older(directory, with_list=with_list))
    assert set(content(editor.extensions)) >= {*OURS, "a.b-1.2.3"}
    if with_list:
        assert listed(editor.extensions) == ["a.b-1.2.3", *OURS]
    assert sorted(p.name for p in editor.extensions.glob(".tendon*")) == [f".{ours}" for ours in OURS]
    other = start(lambda directory: put_older(directory, True, with_list))
    assert OURS[0] not in content(other.extensions) and OURS[1] in content(other.extensions)
    if with_list:
        assert listed(other.extensions) == ["a.b-1.2.3", OURS[1]]


def test_another_version_that_a_user_put_there_is_not_replaced(start):
    """Ours was there once, and then the user took another."""

    def prepare(directory):
        put_older(directory)
        (directory / "tendon.hello-world-0.9.5").mkdir()
        write_list(directory, "tendon.hello-world-0.9.5")

    editor = start(prepare)
    assert listed(editor.extensions) == ["tendon.hello-world-0.9.5", OURS[1]]
    assert OURS[0] not in content(editor.extensions)


def test_what_could_not_be_listed_is_tried_again(start):
    editor = start(put_half_a_list)
    write_list(editor.extensions)
    end(editor)
    editor.ask("GET", "/x")
    assert listed(editor.extensions) == OURS


def test_a_mark_that_leads_elsewhere_writes_nothing_there(start, tmp_path):
    def prepare(directory):
        directory.mkdir(parents=True)
        (directory / f".{OURS[0]}").symlink_to(tmp_path / "made")

    editor = start(prepare)
    assert editor.ask("GET", "/x").status == 200 and not (tmp_path / "made").exists()


def test_a_mark_that_is_a_pipe_holds_up_nothing(start):
    def prepare(directory):
        put_older(directory)
        os.mkfifo(directory / f".{OURS[0]}")

    assert start(prepare).ask("GET", "/x").status == 200


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

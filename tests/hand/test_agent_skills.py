"""Agent skills as an agent meets them: in cells, with the rights of its user."""

import json
import os

import pytest

from harness import Factory, needs_root
from kernels import Kernel, missing_parts

pytestmark = pytest.mark.skipif(bool(missing_parts()), reason=missing_parts() or "-")


@pytest.fixture(scope="module")
def kernel():
    """A kernel of an ordinary user where there is a choice."""
    factory = Factory()
    options = {}
    if os.getuid() == 0:
        options = {"username": "nobody", "user_id": 65534}
        options["env"] = {"RUNTIME_USERNAME": "nobody", "SU_TO_USER": "true"}
    yield Kernel(factory(args=["--plugins", "agent_skills", "jupyter"], **options))
    factory.finish()


def edit(kernel, **args):
    """What print(file_editor(...)) says of it in a cell."""
    lines = kernel.text(f"print(file_editor(**{args!r}))").split("\n")
    assert lines[0].startswith("<oh_aci_output_") and lines[-1] == lines[0].replace("<", "</")
    return json.loads("\n".join(lines[1:-1]))["formatted_output_and_error"]


@needs_root()
def test_what_the_user_may_not(kernel):
    answer = edit(kernel, command="create", path="/root/test.txt", file_text="x")
    assert "Permission denied" in answer and not os.path.exists("/root/test.txt")


def test_editor(kernel):
    path = str(kernel.hand.workspace / "test.txt")
    made = edit(kernel, command="create", path=path, file_text="Line 1\nLine 2\nLine 3")
    assert made == f"File created successfully at: {path}"
    assert os.stat(path).st_uid == (65534 if os.getuid() == 0 else os.getuid())
    assert "     2\tLine 2\n" in edit(kernel, command="view", path=path)
    changed = edit(kernel, command="str_replace", path=path, old_str="Line 2", new_str="New Line 2")
    assert changed.startswith(f"The file {path} has been edited.")
    undone = edit(kernel, command="undo_edit", path=path)
    assert undone.startswith(f"Last edit to {path} undone successfully.")
    assert edit(kernel, command="view", path=path).count("New") == 0


def test_names_are_there(kernel):
    (kernel.hand.workspace / "there.txt").write_text("one\ntwo needles\n")
    assert kernel.text("open_file('there.txt')").startswith(
        f"[File: {kernel.hand.workspace}/there.txt (2 lines total)]"
    )
    assert kernel.text("search_dir('two needles')").startswith(
        '[Found 1 matches for "two needles" in ./]'
    )
    assert "parse_pdf(file_path):" in kernel.text(
        "import agentskills; print(agentskills.DOCUMENTATION)"
    )

"""Agent skills in a kernel of the hand: every function, and exactly what its cell shows."""

import json
import re

import pytest

import office_files as office
from harness import Factory
from kernels import Kernel, missing_parts
from pdf_files import make_pdf

pytestmark = pytest.mark.skipif(bool(missing_parts()), reason=missing_parts() or "-")

MODULE = "class Base:\n    pass\n\n\nclass Thing(Base):\n    def act(self):\n        return 1\n"


@pytest.fixture(scope="module")
def kernel():
    factory = Factory()
    kernel = Kernel(factory(args=["--plugins", "agent_skills", "jupyter"]))
    place = kernel.hand.workspace
    (place / "long.txt").write_text("".join(f"Line {n}\n" for n in range(1, 151)))
    (place / "a").mkdir()
    (place / "a/one.txt").write_text("first\n  a needle \n")
    (place / "a/thing.py").write_text(MODULE)
    (place / "many").mkdir()
    for number in range(101):
        (place / f"many/{number}").write_text("hay")
    (place / "a.docx").write_bytes(office.docx("Hello.", "Second."))
    (place / "a.pptx").write_bytes(office.pptx(["Title", "text"]))
    (place / "a.pdf").write_bytes(make_pdf(["Page one", "Page two"]))
    (place / "a.tex").write_text("\\section{Title}\nText with \\textbf{bold}.\n")
    yield kernel
    factory.finish()


def window(place, first, last, total=150, hint=False):
    above = f"({first - 1} more lines above)" if first > 1 else "(this is the beginning of the file)"
    below = f"({total - last} more lines below)" if last < total else "(this is the end of the file)"
    lines = "".join(f"{n}|Line {n}\n" for n in range(first, last + 1))
    more = "\n[Use `scroll_down` to view the next 100 lines of the file!]" if hint else ""
    return f"[File: {place}/long.txt ({total} lines total)]\n{above}\n{lines}{below}{more}"


def test_windows(kernel):
    """In the order an agent would call them; each remembers what the one before did."""
    place, text = kernel.hand.workspace, kernel.text
    nothing = "ERROR: No file open. Use the open_file function first."
    assert [text(call) for call in ("goto_line(1)", "scroll_down()", "scroll_up()")] == [nothing] * 3
    assert text("search_file('x')") == nothing.replace("No file", "No file specified or")
    assert text("open_file('nowhere')") == "ERROR: File nowhere not found."
    assert text("open_file('long.txt', 151)") == "ERROR: Line number must be between 1 and 150"
    assert text("open_file('long.txt')") == window(place, 1, 100, hint=True)
    assert text("open_file('long.txt', 75, 10)") == window(place, 70, 80, hint=True)
    assert text("goto_line(60)") == window(place, 10, 110)
    assert text("scroll_down()") == window(place, 51, 150)
    assert text("goto_line(150)") == window(place, 51, 150)
    assert text("scroll_up()") == window(place, 51, 150)
    assert text("scroll_up()") == window(place, 1, 100)


# What calls show.
SHOWN = {
    "search_dir('needle', 'a')": (
        '[Found 1 matches for "needle" in a]\na/one.txt (Line 2): a needle\n'
        '[End of matches for "needle" in a]'
    ),
    "search_dir('absent', 'a')": 'No matches found for "absent" in a',
    "search_dir('hay', 'many')": (
        'More than 101 files matched for "hay" in many. Please narrow your search.'
    ),
    "search_dir('x', 'nowhere')": "ERROR: Directory nowhere not found",
    "search_file('needle', 'a/one.txt')": (
        '[Found 1 matches for "needle" in a/one.txt]\nLine 2: a needle\n'
        '[End of matches for "needle" in a/one.txt]'
    ),
    "search_file('absent', 'a/one.txt')": '[No matches found for "absent" in a/one.txt]',
    "search_file('x', 'nowhere')": "ERROR: File nowhere not found.",
    "find_file('one', 'a')": (
        '[Found 1 matches for "one" in a]\na/one.txt\n[End of matches for "one" in a]'
    ),
    "find_file('absent', 'a')": '[No matches found for "absent" in a]',
    "find_file('x', 'nowhere')": "ERROR: Directory nowhere not found",
    "parse_docx('a.docx')": (
        "[Reading DOCX file from a.docx]\n@@ Page 1 @@\nHello.\n\n@@ Page 2 @@\nSecond."
    ),
    "parse_pptx('a.pptx')": (
        "[Reading PowerPoint file from a.pptx]\n@@ Slide 1 @@\nTitle\ntext"
    ),
    # Which reader there is decides on the empty lines of these.
    "parse_latex('a.tex')": re.compile(
        r"\[Reading LaTex file from a\.tex\]\n.*Text with bold\.\n?", re.S
    ),
    "parse_pdf('a.pdf')": re.compile(
        r"\[Reading PDF file from a\.pdf\]\n@@ Page 1 @@\nPage one\n.*@@ Page 2 @@\nPage two\n?", re.S
    ),
}


@pytest.mark.parametrize("call", SHOWN)
def test_shown(kernel, call):
    shown, expected = kernel.text(call), SHOWN[call]
    assert expected.fullmatch(shown) if isinstance(expected, re.Pattern) else shown == expected, shown


def test_code(kernel):
    contents = kernel.text("print(get_entity_contents(['a/thing.py:Thing.act']))")
    assert contents == (
        "Found function `a/thing.py:Thing.act` (lines 6-7).\n```\n"
        "6 |     def act(self):\n7 |         return 1\n```"
    )
    found = kernel.text("print(search_code_snippets(['Thing.act']))")
    assert found.startswith("## Results for `Thing.act`\nFound function `a/thing.py:Thing.act`")
    tree = kernel.text("print(explore_tree_structure(['a/thing.py:Thing'], traversal_depth=1))")
    assert tree.split("\n")[0] == "a/thing.py:Thing" and "inherits ── a/thing.py:Base" in tree


def test_editor(kernel):
    path = f"{kernel.hand.workspace}/made"
    shown = kernel.text(f"print(file_editor('create', {path!r}, file_text='x\\n'))")
    tag, answer = re.fullmatch(r"<(oh_aci_output_[0-9a-f]{32})>\n(.*)\n</\1>", shown, re.S).groups()
    said = f"File created successfully at: {path}"
    assert json.loads(answer) == {
        "output": said, "error": None, "path": path, "prev_exist": False, "old_content": None,
        "new_content": "x\n", "formatted_output_and_error": said,
    }  # fmt: skip
    again = kernel.text(f"print(file_editor('view', {path!r}))")
    assert again.split("\n")[0] != f"<{tag}>", "nobody can guess it"


def test_models_only_where_there_is_a_service(kernel):
    names = "[n in globals() for n in ('parse_image', 'parse_audio', 'parse_video')]"
    assert kernel.text(names) == "[False, False, False]"
    kernel.hand.client.ok("export OPENAI_API_KEY=k OPENAI_BASE_URL=http://127.0.0.1:9/v1")
    assert Kernel(kernel.hand, "with").text(names) == "[True, True, True]"
    kernel.hand.client.ok("unset OPENAI_API_KEY OPENAI_BASE_URL")

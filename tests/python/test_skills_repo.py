"""Finding one's way in a repository."""

import textwrap

import pytest

from agentskills import explore_tree_structure, get_entity_contents, search_code_snippets

FILES = {
    "app/__init__.py": "",
    "app/base.py": """\
        class Base:
            def run(self):
                return helper()

        def helper():
            return 1
        """,
    "app/server.py": """\
        from .base import Base

        class Server(Base):
            @property
            def port(self):
                return 80

            def start(self):
                self.run()
        """,
    "tests/test_app.py": "from app.server import Server\n\n\ndef test():\n    Server().start()\n",
    "broken.py": "def (:\n    needle = 1\n",
    "README": "needle\n",
    ".hidden/x.py": "def helper(): pass\n",
}


@pytest.fixture(autouse=True)
def repository(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)


def test_contents():
    assert get_entity_contents(["app/server.py:Server.port", "./app/base.py:helper"]) == (
        "Found function `app/server.py:Server.port` (lines 4-6).\n```\n"
        "4 |     @property\n5 |     def port(self):\n6 |         return 80\n```\n\n"
        "Found function `app/base.py:helper` (lines 5-6).\n```\n"
        "5 | def helper():\n6 |     return 1\n```"
    )
    assert "Found file `README` (lines 1-2)." in get_entity_contents("README")


def test_unknown_entity():
    assert get_entity_contents(["nowhere.py:helper"]) == (
        "The entity name `nowhere.py:helper` is invalid. Did you mean one of these?\n"
        "- `app/base.py:helper`"
    )


def test_search():
    found = search_code_snippets(["Server.start", "needle", "absent"])
    assert "## Results for `Server.start`\nFound function `app/server.py:Server.start`" in found
    assert "## Results for `needle`\nbroken.py:2: needle = 1" in found
    assert "## Results for `absent`\nNo results." in found
    assert "README:1: needle" in search_code_snippets("needle", file_path_or_pattern="README")


def test_lines():
    found = search_code_snippets(line_nums=[6], file_path_or_pattern="app/server.py")
    assert found.startswith("Line 6 of `app/server.py` in function `app/server.py:Server.port`:")
    assert "6 |         return 80" in found
    assert "want the path of a file" in search_code_snippets(line_nums=[1])


def test_downstream():
    assert explore_tree_structure(["app/server.py"]) == textwrap.dedent(
        """\
        app/server.py
        ├── contains ── app/server.py:Server
        │   ├── contains ── app/server.py:Server.port
        │   ├── contains ── app/server.py:Server.start
        │   └── inherits ── app/base.py:Base
        └── imports ── app/base.py
            ├── contains ── app/base.py:Base
            └── contains ── app/base.py:helper"""
    )


def test_upstream_and_filters():
    assert explore_tree_structure(
        ["app/base.py:Base.run"], "upstream", 1, dependency_type_filter=["invokes"]
    ) == ("app/base.py:Base.run\n└── invokes by ── app/server.py:Server.start")
    assert explore_tree_structure(["/"], traversal_depth=1, entity_type_filter=["directory"]) == (
        ".\n├── contains ── app\n└── contains ── tests"
    )
    assert "expected one of downstream, upstream, both" in explore_tree_structure(["."], "sideways")
    assert "is invalid" in explore_tree_structure(["nowhere"])

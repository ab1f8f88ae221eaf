"""The table in docs/runtimes.md is what the backends say of themselves."""

import re

from conformance import ABILITIES
from trees import ROOT

BACKENDS = ("jail", "docker", "local", "cli", "remote", "e2b", "runloop", "modal", "daytona", "kubernetes")


def test_the_table_of_abilities_is_true(make_world):
    text = (ROOT / "docs/runtimes.md").read_text()
    head = re.search(r"^\| \| (pause .*) \|$", text, re.MULTILINE)
    assert head and tuple(head[1].split(" | ")) == ABILITIES
    driver = make_world("local").open()
    for name in BACKENDS:
        row = re.search(rf"^\| `{name}` ((?:\| (?:yes|no) )+)\|$", text, re.MULTILINE)
        assert row, f"no row for {name}"
        told = {word for word, cell in zip(ABILITIES, re.findall("yes|no", row[1])) if cell == "yes"}
        assert told == driver.abilities_of(name), name

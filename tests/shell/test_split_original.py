"""Which texts are refused for being several commands, against OpenHands' own parser.

The table in tests/unit/shell/split-original.test holds texts and what becomes of them there.  The splitter is held
to the table everywhere; the table is held to bashlex where an interpreter has it: the one that runs the tests, or
the one that TN_OPENHANDS_PYTHON names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TN_BUILD", ROOT / "build"))
DUMP = BUILD / "tests/unit/shell/split-dump"
TABLE = ROOT / "tests/unit/shell/split-original.test"
VERDICTS = {"refused": "refused", "run": "run", "fails": "run", "refused, run here": "run"}


def forms():
    """Every text of the table with its verdict."""
    lines, found = [], []
    for line in TABLE.read_text().split("====\n", 1)[1].splitlines():
        if line.startswith("---- "):
            found.append(("\n".join(lines), line[5:]))
            lines = []
        else:
            lines.append(line)
    assert not lines and len(found) > 600 and {verdict for _, verdict in found} == set(VERDICTS)
    return found


@pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not built")
def test_what_is_refused_is_what_the_table_says():
    table = forms()
    data = "".join(text + "\0" for text, _ in table).encode()
    run = subprocess.run([DUMP, "-0"], input=data, check=True, capture_output=True, timeout=60)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(table)
    wrong = []
    for (text, verdict), answer in zip(table, answers):
        several = len(answer["commands"]) > 1 and not answer["beyond"]
        if ("refused" if several else "run") != VERDICTS[verdict]:
            wrong.append((text, verdict))
    assert not wrong


# What OpenHands does with its parser: these errors mean that the text is sent whole; what stands before the first
# command is an entry of its own.
ASK = r"""
import json, sys
import bashlex, bashlex.errors

def verdict(text):
    try:
        nodes = bashlex.parse(text)
    except (bashlex.errors.ParsingError, NotImplementedError, TypeError, AttributeError):
        return "run"
    except Exception:
        return "fails"
    entries = len(nodes) + bool(text[:nodes[0].pos[0]].strip())
    return "refused" if entries > 1 else "run"

json.dump([verdict(text) for text in json.load(sys.stdin)], sys.stdout)
"""


def python_with_bashlex():
    for python in (os.environ.get("TN_OPENHANDS_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", "import bashlex"], capture_output=True).returncode == 0:
            return python
    pytest.skip("no interpreter with bashlex (TN_OPENHANDS_PYTHON can name one)")


def test_the_table_is_what_the_parser_says():
    table = forms()
    command = [python_with_bashlex(), "-c", ASK]
    run = subprocess.run(command, input=json.dumps([text for text, _ in table]), text=True, check=True,
                         capture_output=True, timeout=300)
    answers = json.loads(run.stdout)
    assert len(answers) == len(table)
    assert [(text, verdict) for (text, verdict), answer in zip(table, answers) if answer != verdict.split(",")[0]] == []

"""The tools that count tests and choose among them, and the one that follows links."""

import json
import pathlib
import shutil
import subprocess

import pytest

from trees import ROOT

TALLY = ROOT / "tools/tally"


def report(path, **cases):
    """A report of pytest's: what became of each test."""
    inside = {"passed": "", "failed": '<failure message="no"/>', "skipped": '<skipped message="why"/>',
              "sanitized": '<failure message="AddressSanitizer: no"/>'}
    rows = "".join(f'<testcase classname="tests.a" name="{name}">{inside[how]}</testcase>' for name, how in cases.items())
    skipped = sum(how == "skipped" for how in cases.values())
    path.write_text(f'<testsuites><testsuite tests="{len(cases)}" skipped="{skipped}">{rows}</testsuite></testsuites>')


def unit_log(path, **results):
    path.write_text("".join(json.dumps({"name": name, "result": result}) + "\n" for name, result in results.items()))


def tally(results):
    done = subprocess.run([TALLY, results], stdout=subprocess.PIPE, text=True, timeout=60)
    return done.returncode, done.stdout


@pytest.mark.parametrize("again, closing, status", [
    ("passed", "1 passed, 0 failed, 0 skipped, 1 unsteady", 0),
    ("failed", "1 passed, 1 failed, 0 skipped, 0 unsteady", 1),
    ("skipped", "1 passed, 1 failed, 0 skipped, 0 unsteady", 1),
    ("not collected", "1 passed, 1 failed, 0 skipped, 0 unsteady", 1),
    ("no second run", "1 passed, 1 failed, 0 skipped, 0 unsteady", 1),
])
def test_unsteady_is_who_was_seen_to_pass(tmp_path, again, closing, status):
    report(tmp_path / "program-x.xml", test_bad="failed", test_good="passed")
    if again == "not collected":
        report(tmp_path / "program-x-again.xml", test_other="passed")
    elif again != "no second run":
        report(tmp_path / "program-x-again.xml", test_bad=again)
    code, text = tally(tmp_path)
    assert (code, text.splitlines()[-1]) == (status, closing)


@pytest.mark.parametrize("again, closing", [
    ("OK", "1 passed, 0 failed, 0 skipped, 1 unsteady"),
    ("SKIP", "1 passed, 1 failed, 0 skipped, 0 unsteady"),
    ("FAIL", "1 passed, 1 failed, 0 skipped, 0 unsteady"),
])
def test_unsteady_unit_programs(tmp_path, again, closing):
    unit_log(tmp_path / "unit-x.json", bad="FAIL", good="OK")
    unit_log(tmp_path / "unit-x-again.json", bad=again)
    assert tally(tmp_path)[1].splitlines()[-1] == closing


def test_a_third_run_counts_too(tmp_path):
    report(tmp_path / "program-x.xml", test_bad="failed", test_worse="failed", test_good="passed")
    report(tmp_path / "program-x-again.xml", test_bad="passed", test_worse="failed")
    report(tmp_path / "program-x-again-again.xml", test_worse="passed")
    assert tally(tmp_path)[1].splitlines()[-1] == "1 passed, 0 failed, 0 skipped, 2 unsteady"


def test_a_sanitizer_is_not_asked_twice(tmp_path):
    report(tmp_path / "program-x.xml", test_bad="sanitized", test_good="passed")
    report(tmp_path / "program-x-again.xml", test_bad="passed")
    assert tally(tmp_path) == (1, "1 passed, 1 failed, 0 skipped, 0 unsteady\n")


def test_who_has_no_row_is_told(tmp_path):
    report(tmp_path / "program-x.xml", test_that_nobody_knows="failed", test_good="passed")
    report(tmp_path / "program-x-again.xml", test_that_nobody_knows="passed")
    assert "test_that_nobody_knows: failed, and passed when run alone; it wants a row in UNSTEADY.md" in tally(tmp_path)[1]


def test_the_table_of_concerns_names_what_is_there():
    for line in (ROOT / "tests/CONCERNS").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern, *tests = line.split()
        assert list(ROOT.glob(pattern.rstrip("/"))), f"{pattern} matches nothing"
        assert tests, f"{pattern} concerns nothing"
        for test in tests:
            path = ROOT / "tests" / (f"unit/{test[5:]}" if test.startswith("unit:") else test)
            assert path.exists(), f"{pattern}: {path} is not there"


def test_a_check_since_no_revision():
    done = subprocess.run([ROOT / "tools/check", "no-such-revision"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "fatal:" in done.stderr and "Traceback" not in done.stderr, done


def test_every_source_has_a_row():
    listing = subprocess.run([ROOT / "tools/sources", "c", "h"], stdout=subprocess.PIPE, text=True, check=True).stdout
    folders = {str(pathlib.PurePath(path).parent) for path in listing.splitlines() if path.startswith(("src/", "include/"))}
    patterns = [line.split()[0] for line in (ROOT / "tests/CONCERNS").read_text().splitlines() if line[:1] not in ("", "#")]
    for folder in folders:
        assert any(pattern.endswith("/") and f"{folder}/".startswith(pattern) for pattern in patterns), folder


PAGE = """# The page

## What it is: `x_y`, and [more](other.md)
## Twice
## Twice

```
# no heading
```
"""


@pytest.mark.parametrize("link, wrong", [
    ("page.md", None),
    ("page.md#the-page", None),
    ("page.md#what-it-is-x_y-and-more", None),
    ("page.md#twice", None),
    ("page.md#twice-1", None),
    ("#other", None),
    ("https://example.org/page.md#nowhere", None),
    ("missing.md#the-page", "no such file"),
    ("page.md#measured", "no such heading"),
    ("page.md#The-page", "no such heading"),
    ("page.md#no-heading", "no such heading"),
    ("page.md#twice-2", "no such heading"),
    ("#the-page", "no such heading"),
])
def test_links_lead_to_headings(tmp_path, link, wrong):
    (tmp_path / "tools").mkdir()
    for tool in ("lint-links", "sources"):
        shutil.copy(ROOT / "tools" / tool, tmp_path / "tools")
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "other.md").write_text(f"# Other\n\n[There]({link}).\n")
    done = subprocess.run([tmp_path / "tools/lint-links"], stdout=subprocess.PIPE, text=True, timeout=60)
    told = f"other.md: link to {link}: {wrong}\n" if wrong else ""
    assert (done.stdout, done.returncode) == (told, int(bool(wrong)))

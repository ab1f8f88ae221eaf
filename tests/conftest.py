"""What all whole-program tests share: the programs under test, and an eye on the sanitizers."""

import glob
import os
import pathlib
import re
import signal

import pytest

from rooms import sweep
from trees import BUILD, RELEASE, program

# Who is started in the background may ignore it, and so would every program under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Files whose tests exercise threads: they run under ThreadSanitizer as well.
CONCURRENT = (
    "hand/test_idempotency.py",
    "hand/test_no_hang.py",
    "hand/test_server.py",
    "hand/test_shell_sessions.py",
    "hand/test_shell_terminal.py",
    "hand/test_transfer.py",
    "net/*.py",
    "session/test_session_actions.py",
)


def pytest_sessionstart():
    sweep()


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    here = pathlib.Path(__file__).parent
    for item in items:
        path = item.path.relative_to(here)
        if any(path.match(pattern) for pattern in CONCURRENT):
            item.add_marker(pytest.mark.concurrent)


@pytest.fixture(scope="session")
def tendon_program():
    """Path of the tendon under test."""
    return program(BUILD, "tendon")


@pytest.fixture(scope="session")
def hand_program():
    """Path of the tendon-hand under test."""
    return program(BUILD, "tendon-hand")


@pytest.fixture(scope="session")
def release():
    """The tree that ships: for tests that need the static hand."""
    program(RELEASE, "tendon-hand")
    return RELEASE


def sanitizer_reports():
    """The files into which sanitizers wrote, when tools/test told them to write into files."""
    prefixes = {
        match[1]
        for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")
        if (match := re.search(r"log_path=([^:]+)", os.environ.get(name, "")))
    }
    return [path for prefix in prefixes for path in glob.glob(glob.escape(prefix) + ".*")]


@pytest.fixture(autouse=True)
def no_sanitizer_report():
    """Fails the test in which any program, however remote, made a sanitizer complain."""
    yield
    reports = {}  # the same complaint of several processes is shown once
    for path in map(pathlib.Path, sanitizer_reports()):
        report = path.read_text(errors="replace")
        path.unlink()
        summary = re.search(r"^SUMMARY: .*", report, re.MULTILINE)
        reports[summary[0] if summary else report] = report[:6000]
    assert not reports, "\n".join(reports.values())


def users_of_the_host():
    """The users and groups of this machine but for those of packages (1 to 999), which others may install meanwhile; who may sudo."""
    lines = [line for path in ("/etc/passwd", "/etc/group") for line in pathlib.Path(path).read_text().splitlines()]
    sudoers = pathlib.Path("/etc/sudoers")
    of_people = {line for line in lines if line.count(":") >= 3 and not 0 < int(line.split(":")[2] or 0) < 1000}
    return of_people | set(sudoers.read_text().splitlines() if sudoers.exists() and os.access(sudoers, os.R_OK) else ())


@pytest.fixture(autouse=True)
def no_change_of_users():
    """Fails the test that made a user on this machine: a hand as root does, and tests after it find one."""
    before = users_of_the_host()
    yield
    changed = users_of_the_host() ^ before
    assert not changed, f"the users of this machine are not those from before the test: {sorted(changed)}"

"""docs/man/tendon.1 is what the program says of itself."""

import subprocess

from trees import BUILD, ROOT, program


def test_the_manual_page_is_current():
    printed = subprocess.run([program(BUILD, "src/cli/print-manual")], capture_output=True, text=True, check=True)
    assert printed.stdout == (ROOT / "docs/man/tendon.1").read_text(), (
        "run: build-asan/src/cli/print-manual >docs/man/tendon.1"
    )

"""The walk through docs/cli.md, as it stands there."""

import os
import re
import subprocess

from trees import ROOT


def test_the_walk_through(jailed, tmp_path):
    (walk,) = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/cli.md").read_text(), re.MULTILINE | re.DOTALL)
    env = {**jailed.env, "PATH": f"{os.path.dirname(jailed.program)}:{jailed.env['PATH']}"}
    work = tmp_path / "work"
    work.mkdir()
    # Not as bash's standard input: the first command would read the rest of it.
    script = ["bash", "-ec", walk]
    end = subprocess.DEVNULL
    result = subprocess.run(script, stdin=end, cwd=work, env=env, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, ""), result
    for text in ("hello from ", "web\n", "served\n", "before\n", "/tmp/app.py\n", "twin\n"):
        assert text in result.stdout
    assert jailed.leftovers() == []

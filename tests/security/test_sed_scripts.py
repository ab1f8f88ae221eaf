"""Scripts of sed as the command tree reads them, against sed itself: in its sandbox it refuses a script that runs a command
or touches a file, and of each such script the tree says that it does, or that it cannot be read."""

import os
import random
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TN_BUILD", Path(__file__).resolve().parents[2] / "build"))
DUMP = BUILD / "tests/unit/security/command/command-dump"
MUTANTS = 400

SCRIPTS = [
    "s/e/f/", "s/[/]e/x/g; s/a/b/", "/^#/d;s/[[:space:]]*$//", "s#/etc#/opt#g", ":a;N;$!ba;s/\\n/ /g", "$=", "0~3d",
    "/start/,/end/{/x/!p}", "1i hello e world", "/x/a\\  hello", "/x/a\\\nhello e world", "y/abc/xyz/", "2q", "l 5;q5",
    "10,20p;20q", "s/(a|b)+/x/2gI", "\\,x,d", "/a/I,/b/M s//y/", "# comment\np", "F;z;=", "T x\n:x", "1!G;h;$!d", "v",
    "1e rm", "s/a/b/e", "/x/{s/a/b/e}", "1!e", "s/a/b/w out", "w f", "r f", "R f\nW g", "s/[^]/]/y/e", "s/a/b\\\nc/e", "$!{e\n}",
]
PIECES = ["e", "w f", "[", "]", "/", "\\", "\n", ";", "{", "}", "s/", "!", "1", ",", "$", "p", " ", "g", "[^", "y/", "r ", "e x", ":", "b", "'"]


def mutants():
    dice = random.Random(20)
    for _ in range(MUTANTS):
        text = dice.choice(SCRIPTS)
        for _ in range(dice.randint(1, 4)):
            at = dice.randint(0, len(text))
            piece = dice.choice(PIECES) if dice.random() < 0.7 else dice.choice(SCRIPTS)
            text = text[:at] + piece + text[at + dice.choice([0, 0, 1, 2]) :]
        if not re.search(r"e\s*[#!]", text):  # a command that runs nothing
            yield text


def refusal(script):
    """What sed says in its sandbox; nothing reaches a file or a shell there."""
    run = subprocess.run(["sed", "--sandbox", "-n", "--", script, "/dev/null"], capture_output=True, text=True, timeout=30)
    return run.stderr


@pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not built")
@pytest.mark.skipif(not shutil.which("sed") or "sandbox" not in refusal("1e"), reason="no sed with a sandbox")
def test_what_a_script_does_is_seen():
    scripts = SCRIPTS + list(mutants())
    texts = "".join(f"sed -n -- {shlex.quote(script)} f\0" for script in scripts)
    run = subprocess.run([DUMP, "deeds"], input=texts, capture_output=True, text=True, timeout=120)
    deeds = run.stdout.split("\0")[:-1]
    assert len(deeds) == len(scripts), run.stderr[-2000:]
    said = [refusal(script) for script in scripts]
    missed = [script for script, deed, why in zip(scripts, deeds, said) if "sandbox" in why and not deed]
    assert not missed
    plain = [script for script, deed, why in zip(SCRIPTS, deeds, said) if not why and deed]
    assert not plain, "harmless, but not seen so"
    assert sum("sandbox" in why for why in said) > 50 and sum(not why for why in said) > 50

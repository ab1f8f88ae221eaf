"""The command tree against bash.

commands.txt has one text a line, scripts.txt texts between lines of %%: what agents send, and what is no command
at all. A text is right for the tree when it is right for bash; printed from its tree it defines the same
function; and words that the tree takes for known are the ones that bash makes of them."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("TN_BUILD", HERE.parents[1] / "build"))
DUMP = BUILD / "tests/unit/security/command/command-dump"
MUTANTS = 600
QUIRKS = 3  # of them: texts of a shape that bash refuses and nobody writes, such as a newline before ]]
REFUSED = "\1"

pytestmark = [
    pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed"),
    pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not built"),
]

# Wrong when they run, not before, or (the first) the other way round.
EXCEPT = {"for ((i=0;i<3)); do a; done", "[[ ]]", "[[ a && ]]", "a $((b) c)"}

# Each text becomes the body of a function that is defined, never called. Only for what bash has found whole: a } that
# stands alone would end the body, and what follows it would run.
DEFINE = r"""
shopt -s extglob
while IFS= read -r -d '' text; do
    unset -f probe
    if eval "probe() {"$'\n'"$text"$'\n'"}" 2>/dev/null && declare -F probe >/dev/null; then
        declare -f probe
    fi
    printf '\0'
done
"""


def texts():
    lines = (HERE / "commands.txt").read_text().splitlines()
    scripts = (HERE / "scripts.txt").read_text().split("%%\n")
    found = [line for line in lines + [script.rstrip("\n") for script in scripts] if line not in EXCEPT]
    assert len(found) >= 500
    return found


def asked(command, inputs):
    """One answer for each input; both are ended by NULs."""
    data = "".join(text + "\0" for text in inputs).encode()
    run = subprocess.run(command, input=data, capture_output=True, timeout=300, env={**os.environ, "LC_ALL": "C.UTF-8"})
    answers = run.stdout.decode(errors="surrogateescape").split("\0")[:-1]
    assert len(answers) == len(inputs), f"gave up: {run.stderr[-2000:]}"
    return answers


def in_bash(inputs):
    """What `declare -f` says of each as a function."""
    return asked(["bash", "--norc", "-c", f"PATH=/nowhere; {DEFINE}", "bash"], inputs)


def printed(inputs):
    return asked([DUMP, "print"], inputs)


def alone(text, folder):
    """Whether bash takes it as a whole text; as a function's body a } could close that."""
    path = folder / "text.sh"
    path.write_bytes(text.encode() + b"\n")
    run = subprocess.run(["bash", "-O", "extglob", "-n", path], capture_output=True, text=True, timeout=10)
    return run.returncode == 0 and all("warning:" in line for line in run.stderr.splitlines())


def test_accepts_what_bash_accepts(tmp_path):
    wrong = []
    for text, answer in zip(texts(), printed(texts())):
        if answer.startswith(REFUSED) == alone(text, tmp_path):
            wrong.append(f"bash {'refuses' if not answer.startswith(REFUSED) else 'accepts'}: {text!r} {answer}")
    assert not wrong, "\n".join(wrong)


def test_printed_trees_define_the_same_function(tmp_path):
    pairs = [(text, answer) for text, answer in zip(texts(), printed(texts())) if answer.strip() and alone(text, tmp_path)]
    assert all(alone(output, tmp_path) for _, output in pairs)
    inputs, outputs = [text for text, _ in pairs], [output for _, output in pairs]
    wrong = []
    for text, output, before, after in zip(inputs, outputs, in_bash(inputs), in_bash(outputs)):
        if before and before != after:
            wrong.append(f"{text!r}\nprinted as {output!r}\n{before}\n{after}")
    assert len(inputs) > 400
    assert not wrong, "\n".join(wrong)


def mutants(chance):
    """Texts with a piece taken out, doubled or exchanged."""
    pool = texts()
    pieces = [" ", ";", "&", "|", "(", ")", "{ ", "; }", "\n", "'", '"', "$(", "`", "<", ">", "fi", "do", "done", "<<E\n", "\\"]
    for _ in range(MUTANTS):
        text = chance.choice(pool)
        at = chance.randrange(len(text) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            text = text[:at] + chance.choice(pieces) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + 1 + chance.randrange(4):]
        elif kind == 2:
            text = text + chance.choice([" | ", " && ", "\n", "; ", " & "]) + chance.choice(pool)
        else:
            text = chance.choice(["if {}\nthen {}\nfi", "({}\n) | {}", "x=$({}\n) {}", "f() {{ {}\n}}\n{}", "while {}\ndo {}\ndone"]).format(
                text, chance.choice(pool))
        yield text


def test_accepts_mutants_only_if_bash_does(tmp_path):
    """The other direction is free: what the tree refuses is unknown to a policy, never fine."""
    seed = int(os.environ.get("TN_SEED", "20"))
    inputs = list(mutants(random.Random(seed)))
    answers = printed(inputs)
    wrong = [text for text, answer in zip(inputs, answers) if not answer.startswith(REFUSED) and not alone(text, tmp_path)]
    refused = sum(answer.startswith(REFUSED) for answer in answers)
    assert 100 < refused < len(inputs) - 100
    assert len(wrong) <= QUIRKS, f"seed {seed}, bash refuses:\n" + "\n".join(map(repr, wrong))


WORDS = r"""
a b  c
'a b' "c d" e\ f
"a'b" 'c"d' a'b'"c"
$'a\tb\x41\101\u00e9\'' $'\e[0m' $'a\0b' "$"x
"\$x \`y\` \"z\" \\ \n" '\n' \n
'' "" a''b
{a,b} x{1,2}y {1..3} {c..a} {3..1} {1..7..3}
{a} {} {,} {a,} a{b {a,b "{a,b}" \{a,b} {a,b{c,d}e}f
{a,b}{c,d} {a..c}{1..2} {'a b',c} {-1..1} {a..1} {1.2}
--x={a,b} a{"b,c",d}
x=rm; CMD $x "$x" a$x"b$x" ${x} "${x}y"
x='a  b c'; CMD $x "$x" x$x
x=; CMD $x a "$x" b
x=a y=$x; CMD $y
export x=1; CMD $x
x=a; x=b; CMD $x
x=1; { x=2; }; CMD $x
f() { CMD "$1" $2 "$@"; }; f 'a b' 'c d'
f() { CMD "$@" x "$*"; }; f a 'b c'
set -- q; CMD a
CMD a \
  b
x=a; CMD "$x\
b"
CMD a=b {x} ~nobody_at_all_
CMD "a
b" 'c
d'
x=$'a\nb'; CMD $x "$x"
""".strip("\n")


def test_known_words_are_what_bash_makes():
    """The last call of each line, where all of its words are known."""
    inputs, entry = [], ""
    for line in WORDS.split("\n"):
        entry = f"{entry}\n{line}" if entry else line
        quotes = entry.replace("\\'", "").replace('\\"', "")
        if line.endswith("\\") or quotes.count('"') % 2 and "'" not in quotes or entry in ('CMD "a', "CMD \"a\nb\" 'c'", "CMD \"a\nb\" 'c"):
            continue
        inputs.append(entry if "CMD" in entry else f"CMD {entry}")
        entry = ""
    known = 0
    program = r"""CMD() { printf '%s\n' CMD "$@"; }; while IFS= read -r -d '' text; do (eval "$text"); printf '\0'; done"""
    wrong = []
    for text, ours, theirs in zip(inputs, asked([DUMP, "words"], inputs), asked(["bash", "--norc", "-c", program], inputs)):
        if "\n?" not in ours:
            known += 1
            if ours != theirs:
                wrong.append(f"{text!r}: {ours!r} is {theirs!r}")
    assert not wrong, "\n".join(wrong)
    assert known > 20

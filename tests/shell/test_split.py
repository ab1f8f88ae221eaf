"""The command splitter against bash.

Random but seeded scripts are built from commands that are known one by one, so the right split is known
without asking anybody; bash itself is asked whether a piece is a whole command, and whether a script that
was cut off lacks its end or is wrong."""

import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TN_BUILD", Path(__file__).resolve().parents[2] / "build"))
DUMP = BUILD / "tests/unit/shell/split-dump"
SCRIPTS = 3000
CUTS = 1200
SOUPS = 1200

pytestmark = [
    pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed"),
    pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not built"),
]


def split_all(texts):
    """What the splitter says about each text: its state and its commands."""
    data = "".join(text + "\0" for text in texts).encode()
    run = subprocess.run([DUMP, "-0"], input=data, check=True, capture_output=True, timeout=60)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(texts)
    return [(answer["state"], answer["commands"]) for answer in answers]


# --- bash as the judge --------------------------------------------------------------------------------

# Thousands of texts in one process: each becomes the body of a function that is defined, never called.
PROBE = r"""
shopt -s extglob
exec 3< "$1"
while IFS= read -r -d '' -u 3 text; do
    if eval "probe() {"$'\n'"$text"$'\n'"}" 2>/dev/null; then printf 1; else printf 0; fi
done
"""

# One process for each text, to hear what is wrong with it.
JUDGE = r"""
cd "$1" || exit 1
for file in *.sh; do bash -O extglob -n "$file" 2> "$file.err"; done
"""


def bash(program, argument):
    env = {**os.environ, "LC_ALL": "C"}
    command = ["bash", "--norc", "-c", program, "bash", str(argument)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=100).stdout


def accepted(texts, folder):
    """For each text whether bash takes it as whole commands."""
    path = folder / "texts"
    path.write_bytes("".join(text + "\0" for text in texts).encode())
    answers = bash(PROBE, path)
    assert len(answers) == len(texts), f"bash gave up at {texts[len(answers)]}"
    return [answer == "1" for answer in answers]


def judged(texts, folder):
    """For each text the state bash sees it in."""
    for i, text in enumerate(texts):
        (folder / f"{i:05}.sh").write_bytes(text.encode() + b"\n")
    bash(JUDGE, folder)
    return [state_of((folder / f"{i:05}.sh.err").read_text(errors="replace")) for i in range(len(texts))]


def state_of(complaint):
    if any(end in complaint for end in ("unexpected end of file", "unexpected EOF", "unexpected token `EOF'")):
        return "incomplete"
    if "syntax error" in complaint or "conditional" in complaint:
        return "unsure"
    return "incomplete" if "here-document" in complaint else "complete"


# --- scripts ------------------------------------------------------------------------------------------

NAMES = "ls echo cat make grep a.out ./run foo_bar g++ [ x=1 test".split()
PLAIN = "a -l --x=y /tmp/f *.c a#b {} {a,b} x=y 42 ~ %s a:b if then fi do done in for case { } ! ]] $x $# $$ $? "
PLAIN = PLAIN.split() + [r"\;", r"\#", r"\'", r"a\ b", r"\(", "'it is'", '"a b"', "''", '""', "100$"]
ELEMENTS = ["1", "'it is'", '"a b"', "$x", "a#b", "*.c", "'(\n'", "$(ls)", "${x:-)}", "`a`"]  # of arrays
NASTY = ["it's", 'a "quote', "$(", ")", "`", "fi", "}", "# no comment", "<<EOF", "\\\\", "case x in", "", "  "]
COMMENTS = ["#", "# it's", '# a "quote', "# $( ` { ( if", "#!/bin/bash", "# <<EOF", "# &&", "# ends in \\"]


class Script:
    """Writes random commands.  Here-documents wait in `bodies` for the next newline that is a token; each
    substitution has its own list."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.out = []
        self.bodies = [[]]
        self.heredocs = 0
        self.allow_heredocs = True

    def chance(self, p):
        return self.r.random() < p

    def put(self, *texts):
        self.out.extend(texts)

    def newline(self):
        self.put("\n")
        bodies, self.bodies[-1] = self.bodies[-1], []
        self.put(*bodies)

    def newlines(self):
        """At least one newline, perhaps comments and blanks."""
        if self.chance(0.15):
            self.put(" ", self.r.choice(COMMENTS))
        self.newline()
        while self.chance(0.15):
            self.put(self.r.choice(["", "  ", "\t"]), self.r.choice(["", *COMMENTS]))
            self.newline()

    def gap(self):
        if self.chance(0.06):
            self.put(" \\\n")
        self.put(" ")

    def separator(self):
        if self.chance(0.5):
            self.newlines()
        else:
            self.put(self.r.choice(["; ", ";", " & "]))

    # words

    def word(self, depth):
        if depth <= 0 or self.chance(0.6):
            self.put(self.r.choice(PLAIN))
        else:
            self.r.choice([
                self.single, self.ansi, self.double, self.substitution, self.parameter, self.arithmetic,
                self.backticks, self.process, self.pattern, self.joined,
            ])(depth - 1)

    def nasty(self, without):
        text = self.r.choice(["\n", " "]).join(self.r.sample(NASTY, 2))
        for c in without:
            text = text.replace(c, "")
        return text

    def single(self, depth):
        self.put("'", self.nasty("'"), "'")

    def ansi(self, depth):
        self.put("$'", self.nasty("'\\"), r"\'\\", "'")

    def double(self, depth):
        self.put(self.r.choice(['"', '$"']), self.nasty('"`$\\'))
        for part in self.r.sample([self.substitution, self.parameter, self.arithmetic, self.backticks], 2):
            if self.chance(0.5):
                part(depth - 1)
        self.put(self.r.choice(["", r"\"", r"\$", "$", "'"]), '"')

    def joined(self, depth):
        for _ in range(2):
            self.r.choice([self.single, self.double])(depth - 1)

    def parameter(self, depth):
        self.put("${", self.r.choice(["x:-", "x#", "a[1]%%", "x//", "x:="]))
        self.r.choice([self.single, self.double, self.substitution, lambda d: self.put(r"a\}b")])(depth - 1)
        self.put("}")

    def arithmetic(self, depth):
        self.put(self.r.choice(["$((1 + (2 << 3)))", "$((x", "$[1 + 2]", "$(( (1) + \n2 ))"]))
        if self.out[-1] == "$((x":
            self.put(" + ")
            allowed, self.allow_heredocs = self.allow_heredocs, False
            self.substitution(0)
            self.allow_heredocs = allowed
            self.put("))")

    def backticks(self, depth):
        self.put("`", self.nasty("`\\"), r" \` ", "`")

    def process(self, depth):
        self.substitution(depth, self.r.choice(["<(", ">("]))

    def pattern(self, depth):
        self.put("x", self.r.choice("@?*+"), "(a|")
        self.r.choice([self.single, lambda d: self.put("b|*(c)")])(depth)
        self.put(")")

    def substitution(self, depth, opening="$("):
        self.put(opening)
        self.bodies.append([])
        start = len(self.out)
        if self.chance(0.95):
            self.commands(depth, last=False)
        if "".join(self.out[start:]).startswith("("):
            self.out.insert(start, " ")
        if self.bodies[-1] or self.chance(0.1):
            self.newline()
        self.bodies.pop()
        self.put(")")

    # redirections

    def redirection(self, depth):
        kind = self.r.randrange(10)
        if kind < 4 and self.allow_heredocs and len(self.bodies[-1]) < 8:
            self.heredoc()
        elif kind < 5:
            self.put("<<< ")
            self.word(depth - 1)
        else:
            self.put(self.r.choice([">", "2> ", ">> ", "&> ", ">& ", "<> ", ">| ", "{fd}> ", "2>&1 >"]), "f")

    def heredoc(self):
        self.heredocs += 1
        name = f"E{self.heredocs}"
        tabs, quoted = self.chance(0.3), self.chance(0.5)
        word = self.r.choice([f"'{name}'", f'"{name}"', f"\\{name}", f'E"{self.heredocs}"']) if quoted else name
        self.put(self.r.choice(["", "3"]), "<<-" if tabs else "<<", self.r.choice(["", " "]), word)
        lines = self.r.sample(NASTY, self.r.randrange(4))
        if not quoted and self.chance(0.3):
            lines += ["joined \\", name]
        lines += [f" {name}", f"{name} "][:self.r.randrange(3)]
        indent = self.r.choice(["", "\t", "\t\t"]) if tabs else ""
        self.bodies[-1].append("".join(line + "\n" for line in [*lines, indent + name]))

    # commands

    def commands(self, depth, last=True):
        """A list.  With `last` it ends in a separator, as a closing word needs it."""
        self.and_or(depth)
        while self.chance(0.25):
            self.separator()
            self.and_or(depth)
        if last:
            self.separator()

    def and_or(self, depth):
        self.pipeline(depth)
        while self.chance(0.15):
            self.put(self.r.choice([" && ", "||", " && "]))
            if self.chance(0.3):
                self.newlines()
            self.pipeline(depth)

    def pipeline(self, depth):
        if self.chance(0.06):
            prefixes = ["! ", "! ! "]
            if self.out and self.out[-1] not in ("$(", "<(", ">("):  # bash 5.2 does not know `time` there
                prefixes += ["time ", "time -p "]
            self.put(self.r.choice(prefixes))
        if self.chance(0.04):
            self.put(self.r.choice(["coproc ", "coproc NAME "]))
            self.r.choice([self.group, self.subshell, self.loop])(depth - 1)
            return
        self.command(depth)
        while self.chance(0.15):
            self.put(self.r.choice([" | ", "|", " |& "]))
            if self.chance(0.3):
                self.newlines()
            self.command(depth)

    def command(self, depth):
        if depth <= 0 or self.chance(0.5):
            self.simple(depth)
            return
        self.r.choice([
            self.group, self.subshell, self.condition, self.loop, self.loop, self.arithmetic_loop, self.case,
            self.function, self.test, self.arithmetic_command, self.array, self.simple,
        ])(depth - 1)

    def simple(self, depth):
        while self.chance(0.1):
            self.put(self.r.choice(["X=1 ", "Y+='a b' ", "a[1 + 2]=3 ", "> f ", "2>&1 "]))
        self.put(self.r.choice(NAMES))
        for _ in range(self.r.randrange(4)):
            self.gap()
            if self.chance(0.12):
                self.redirection(depth)
            else:
                self.word(depth)

    def redirected(self, depth):
        while self.chance(0.12):
            self.put(" ")
            self.redirection(depth)

    def array(self, depth):
        self.put(self.r.choice(["a=(", "declare -a a=(", "local b=1 a+=(", "a[1]=(", "X=1 a=("]))
        for _ in range(self.r.randrange(4)):
            if self.chance(0.3) and not self.bodies[-1]:
                self.newlines()
            self.put(self.r.choice(["", "[x y]="]), self.r.choice(ELEMENTS), " ")
        self.put(")")

    def group(self, depth):
        self.put("{", self.r.choice([" ", "\t"]))
        self.commands(depth)
        self.put("}")
        self.redirected(depth)

    def subshell(self, depth):
        self.put("( ")
        self.commands(depth, last=self.chance(0.3))
        self.put(")")
        self.redirected(depth)

    def condition(self, depth):
        self.put("if ")
        self.commands(depth)
        self.put("then ")
        self.commands(depth)
        while self.chance(0.2):
            self.put("elif ")
            self.commands(depth)
            self.put("then ")
            self.commands(depth)
        if self.chance(0.3):
            self.put("else ")
            self.commands(depth)
        self.put("fi")
        self.redirected(depth)

    def body(self, depth):
        self.put("do ")
        self.commands(depth)
        self.put("done")
        self.redirected(depth)

    def loop(self, depth):
        if self.chance(0.5):
            self.put(self.r.choice(["while ", "until "]))
            self.commands(depth)
        else:
            self.put(self.r.choice(["for", "select"]), " x")
            if self.chance(0.9):
                self.put(" in ")
                for _ in range(self.r.randrange(1, 4)):
                    self.word(depth)
                    self.put(" ")
                self.r.choice([self.newlines, lambda: self.put("; ")])()
            else:
                self.put(" ")
        self.body(depth)

    def arithmetic_loop(self, depth):
        self.put(self.r.choice(["for ((;;))", "for ((i = 0; i < (3); i++))", "for ((i = 0;\ni < 3;))"]))
        self.r.choice([self.newlines, lambda: self.put("; "), lambda: self.put(" ")])()
        self.body(depth)

    def case(self, depth):
        self.put("case ")
        self.word(depth)
        self.put(" ")
        if self.chance(0.1):
            self.newlines()
        self.put("in")
        clauses = self.r.randrange(4)
        for i in range(clauses):
            self.r.choice([self.newlines, lambda: self.put(" ")])()
            self.put(self.r.choice(["a)", "(a)", "a|b | c)", "(esac|x)", '"a b")', r"\))", "*)", "@(a|b))", "$(x))"]))
            self.put(" ")
            if self.chance(0.3):
                self.newlines()
            if self.chance(0.8):
                self.commands(depth, last=self.chance(0.5))
            self.put(self.r.choice([" ;;", " ;;", " ;&", " ;;&"]))
        self.r.choice([self.newlines, lambda: self.put(" ")])()
        self.put("esac")
        self.redirected(depth)

    def function(self, depth):
        self.put(self.r.choice(["f()", "f ()", "function f", "function f ()"]))
        self.r.choice([self.newlines, lambda: self.put(" "), lambda: self.put(" ")])()
        self.r.choice([self.group, self.group, self.subshell, self.condition, self.loop])(depth)

    def test(self, depth):
        self.put("[[ ", self.r.choice(["! ", ""]))
        for i in range(self.r.randrange(1, 4)):
            if i:
                self.put(self.r.choice([" && ", " || "]))
                if self.chance(0.3):
                    self.newlines()
            self.put(self.r.choice([
                "-f a", "$x == @(a|b c)*", "$x =~ ^(a|b c)+$", "$x =~ a|b", "( a < b )", "-z ''", '"$x" != \'(\'',
                "$x =~ [[:space:]](#.*)?", "$(ls) -eq 1", "! a",
            ]))
        self.put(" ]]")
        self.redirected(depth)

    def arithmetic_command(self, depth):
        self.put(self.r.choice(["((1 + 2))", "(( (a << 2) ))", "((a<(b)))", "((a =\n1))", "(((1)))", "((a); (b))"]))
        self.redirected(depth)

    # the whole

    def top_level(self):
        """One command of the top level, with the comment on its line and its here-documents."""
        self.out = []
        self.and_or(self.r.randrange(4))
        while self.chance(0.1):
            self.put("; ")
            self.and_or(2)
        if self.chance(0.1):
            self.put(self.r.choice([";", " &"]))
        if self.chance(0.15):
            self.put(" ", self.r.choice(COMMENTS))
        if self.bodies[-1]:
            self.newline()
        return "".join(self.out).removesuffix("\n")

    def script(self):
        """A script, and the commands it consists of."""
        before, text, commands = "", "", []
        while self.chance(0.15):
            before += self.r.choice(COMMENTS) + self.r.choice(["\n", "\n\n"])
        for _ in range(self.r.randrange(1, 5)):
            command = self.top_level()
            while self.chance(0.1):
                command += self.r.choice(["\n", "\n\n  "]) + self.r.choice(COMMENTS)
            text += self.r.choice(["", "", "  ", "\t"]) + before + command + self.r.choice(["\n", "\n\n", "\n\t\n"])
            commands.append(before + command)
            before = ""
        return text, commands


@pytest.fixture(scope="module")
def scripts():
    return [Script(seed).script() for seed in range(SCRIPTS)]


def test_scripts_are_split_into_what_they_were_made_of(scripts):
    answers = split_all([text for text, _ in scripts])
    for (text, commands), (state, spans) in zip(scripts, answers):
        assert state == "complete", text
        found = [text[start:start + length] for start, length in spans]
        assert found == commands, text


def test_nothing_but_blanks_is_left_out(scripts):
    answers = split_all([text for text, _ in scripts])
    for (text, _), (_, spans) in zip(scripts, answers):
        end = 0
        for start, length in spans:
            assert start >= end and not text[end:start].strip(), text
            end = start + length
        assert not text[end:].strip(), text


def test_bash_takes_every_piece(scripts, tmp_path):
    texts = [text for text, _ in scripts]
    for text, good in zip(texts, accepted(texts, tmp_path)):
        assert good, f"the test made a script that bash does not take: {text}"
    pieces = [
        text[start:start + length]
        for text, (_, spans) in zip(texts, split_all(texts))
        for start, length in spans
    ]
    for piece, good in zip(pieces, accepted(pieces, tmp_path)):
        assert good, piece


def test_scripts_cut_off_are_incomplete_when_bash_misses_their_end(scripts, tmp_path):
    r = random.Random(1)
    cuts = []
    while len(cuts) < CUTS:
        text, _ = r.choice(scripts)
        cut = text[:r.choice([i for i, c in enumerate(text) if c == "\n"])]
        if cut.strip() and not cut.endswith("\\"):
            cuts.append(cut)
    states = judged(cuts, tmp_path)
    for cut, (state, spans), expected in zip(cuts, split_all(cuts), states):
        assert state == expected, cut
        assert state == "complete" or spans == [[0, len(cut)]], cut
    assert min(states.count("complete"), states.count("incomplete")) > CUTS // 10


# Mostly nonsense: what is wrong must be seen to be wrong, what is right by chance must be taken.
PARTS = [
    "a ", "b ", "a=1 ", "if ", "then ", "elif ", "else ", "fi ", "for x in a", "for x", "do ", "done ", "while ",
    "case x in ", "esac ", "a) ", "(a) ", "|", ";; ", "; ", "; ", "\n", "\n", "&& ", "| ", "& ", "! ", "time ",
    "coproc ", "function f ", "f() ", "{ ", "} ", "( ", ") ", "((1)) ", "[[ a ]] ", ">f ", "2>&1 ", "# c\n",
    "select x in a; ", "in ", "a=(1 2) ", "; then ", "; do ", "; fi ", "; done ", "; } ", "\nesac ", "cat <<E\nE\n",
]


def test_nonsense_is_seen_as_bash_sees_it(tmp_path):
    r = random.Random(2)
    texts = ["".join(r.choice(PARTS) for _ in range(r.randrange(1, 9))).strip() for _ in range(SOUPS)]
    states = judged(texts, tmp_path)
    for text, (state, _), expected in zip(texts, split_all(texts), states):
        assert state == expected, text
    assert min(states.count(state) for state in ("complete", "incomplete", "unsure")) > SOUPS // 50

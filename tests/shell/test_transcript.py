"""The transcript against an independent terminal: the same bytes go to a tmux pane and to
transcript-dump, and both must show the same text.

The streams are random but seeded, made of what programs print.  Left out are the places where the
transcript differs from tmux on purpose:
  - clearing the screen does not move its text to the history (scroll-on-clear tells tmux the same);
  - the text of the alternate screen stands alone, tmux shows the history above it;
  - a full reset leaves the alternate screen;
  - line drawing characters come out as Unicode, tmux prints the letters behind them;
  - bytes that are not UTF-8 become U+FFFD, tmux drops them; C1 controls in UTF-8 act;
  - half of a two-column character that is erased or shifted leaves a blank, tmux keeps the other half;
  - HPR, VPR, DECSTR and REP of a character beyond ASCII work, tmux 3.3 does not know them;
and those that look like faults of tmux 3.3:
  - a wrapped line that is moved down (IL, SD, RI) stays one line;
  - insert mode also inserts the character that wraps;
  - ICH close to the last column leaves no old cells behind, IL in the last row clears it;
  - switching screens does not cut a wrapped line that is half in the history;
  - DECAWM off with the cursor behind the last column puts it on the last column.
"""

import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DUMP = ROOT / os.environ.get("TN_BUILD", "build") / "tests/unit/shell/transcript-dump"
HISTORY = 20000
SIZES = [(20, 6), (80, 24), (1000, 1000)]
STREAMS = 40
DEADLINE = 20  # seconds, for each step

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

# Runs in the pane: shows one stream after another on a terminal that was reset, asks for the cursor
# position after each, and passes the answer on, since tmux has then seen everything before it.
PLAYER = r"""
import socket, struct, sys, os, tty
tty.setraw(0)
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
while size := peer.recv(4, socket.MSG_WAITALL):
    data = peer.recv(struct.unpack("I", size)[0], socket.MSG_WAITALL)
    data = b"\x18\x1b[?1049l\x1bc\x1b[H\x1b[2J\x1b[3J\x1b7" + data + b"\x18\x1b[6n"
    while data:
        data = data[os.write(1, data):]
    answer = b""
    while not answer.endswith(b"R"):
        answer += os.read(0, 100)
    peer.sendall(b"R")
"""


class Tmux:
    def __init__(self, folder, columns, rows):
        self.folder, self.columns, self.rows = folder, columns, rows
        self.player = None

    def start(self):
        player, meeting = self.folder / "player.py", self.folder / "player"
        player.write_text(PLAYER)
        self.run("new-session", "-d", "-x", str(self.columns), "-y", str(self.rows), "exec cat")
        self.run("set-option", "-g", "status", "off")
        self.run("set-option", "-g", "history-limit", str(HISTORY))
        self.run("set-option", "-gw", "scroll-on-clear", "off")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(meeting))
            listener.listen(1)
            listener.settimeout(DEADLINE)
            self.run("new-window", f"exec {sys.executable} {player} {meeting}")
            self.player, _ = listener.accept()
        self.player.settimeout(DEADLINE)
        self.run("kill-window", "-t", ":0")  # now the server ends with the player, and that with us

    def run(self, *args, check=True):
        command = ["tmux", "-S", self.folder / "tmux", "-f", "/dev/null", *args]
        env = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        env.pop("TMUX", None)
        return subprocess.run(command, env=env, check=check, capture_output=True, timeout=DEADLINE).stdout

    def show(self, stream):
        self.player.sendall(len(stream).to_bytes(4, sys.byteorder) + stream)
        assert self.player.recv(1) == b"R"
        return tidy(self.run("capture-pane", "-p", "-J", "-S", "-"))

    def close(self):
        if self.player:
            self.player.close()
        self.run("kill-server", check=False)


def tidy(text):
    lines = [line.rstrip(" ") for line in text.decode().split("\n")]
    return "\n".join(lines).rstrip("\n")


def transcript(stream, columns, rows):
    command = [DUMP, str(columns), str(rows), str(HISTORY + rows)]
    return subprocess.run(command, input=stream, check=True, capture_output=True, timeout=DEADLINE).stdout


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: "%dx%d" % size)
def terminal(request, tmp_path_factory):
    pane = Tmux(tmp_path_factory.mktemp("tmux"), *request.param)
    try:
        pane.start()
        yield pane
    finally:
        pane.close()


# --- streams ------------------------------------------------------------------------------------------

WORDS = "error warning done src/main.c:12 100% compiling [ok] ==> total 42 -rw-r--r-- the quick".split()
NARROW = ["é", "ß", "→", "✓", "…", "█", "e\u0301", "a\u0308\u0323"]
NOISE = ["\x1b]0;title\a", "\x1b]2;x\x1b\\", "\x1bP1$r0m\x1b\\", "\x1b_a\x1b\\", "\x1b[>4;2m", "\x1b[?2004h",
         "\x1b[38:5:1m", "\x1b=", "\x1b>", "\x1b(B", "\a", "\x00", "\x1b[2\x18", "\x1b[0;1;31m"]
WIDE = ["漢字", "中", "한글", "カナ"]


def word(r):
    return r.choice(WORDS + NARROW) if r.random() < 0.9 else r.choice(WORDS) * r.randrange(1, 30)


def csi(r, final, top):
    return "\x1b[" + r.choice(["", "0", "1", "2", str(r.randrange(top))]) + final


def plain(r, columns, rows):
    """Ordinary output: words, colours, tabs, long lines, progress bars."""
    end = r.choice(["\r\n", "\r\n", "\r\n", "\n"])
    kind = r.randrange(8)
    if kind < 4:
        return " ".join(word(r) for _ in range(r.randrange(8))) + end
    if kind == 4:
        return "\x1b[1;3%dm%s\x1b[0m\x1b[K%s" % (r.randrange(8), word(r), end)
    if kind == 5:
        return "\t".join(word(r) for _ in range(r.randrange(4))) + end
    if kind == 6:
        return "x" * r.randrange(3 * columns) + end
    return "".join(f"\r{i * 10}% {'#' * i}" for i in range(r.randrange(11))) + end


def editing(r, columns, rows):
    """Cursor movements and edits, also on lines that wrap."""
    return r.choice([
        lambda: word(r) + " ",
        lambda: "y" * r.randrange(2 * min(columns, 100)),
        lambda: "\r",
        lambda: "\n",
        lambda: "\b" * r.randrange(1, 4),
        lambda: "\t",
        lambda: csi(r, r.choice("ABCDEFGd`"), min(columns, 90)),
        lambda: "\x1b[%d;%d%s" % (r.randrange(rows + 2), r.randrange(columns + 2), r.choice("Hf")),
        lambda: csi(r, r.choice("JK"), 3),
        lambda: csi(r, r.choice("PXMS"), 12),
        lambda: "\r" + csi(r, "@", 3),
        lambda: "=" + csi(r, "b", columns),
        lambda: r.choice(["\x1b7", "\x1b8", "\x1b[s", "\x1b[u"]),
        lambda: r.choice(["\x1bD", "\x1bE"]),
        lambda: "\x1b[%d;%dr" % (r.randrange(rows), r.randrange(rows + 2)),
        lambda: "\x1b[r",
        lambda: "\r\x1b[4h" + r.choice(WORDS) + "\x1b[4l",
        lambda: r.choice(["\r\x1b[?7l", "\x1b[?7h", "\x1b[?7h"]),
        lambda: r.choice(["\x1b[?6h", "\x1b[?6l", "\x1b[?6l"]),
        lambda: r.choice(["\x1bH", "\x1b[g", "\x1b[3g", "\x1b[Z"]),
        lambda: r.choice(NOISE),
    ])()


def shifting(r, columns, rows):
    """Lines that move down and screens that alternate, without wrapping."""
    return "\x1b[?7l" + r.choice([
        lambda: editing(r, columns, rows),
        lambda: word(r) + "\r\n",
        lambda: "\x1b[%d;1H\x1b[%sL" % (r.randrange(1, rows - 2), r.choice(["", "1", "2"])),
        lambda: csi(r, "T", 5),
        lambda: "\x1bM",
        lambda: "\x1b[?%sh%s\r\n%s\x1b[?%sl" % (mode := r.choice(["47", "1047", "1049"]), word(r), word(r), mode),
    ])() + "\x1b[?7l"


def wide(r, columns, rows):
    """Two-column characters, written but never cut in half."""
    return r.choice([
        lambda: r.choice(WIDE) + r.choice(["", " "]),
        lambda: word(r),
        lambda: "\r\n",
        lambda: "\r\n" + r.choice(WIDE) * r.randrange(columns),
        lambda: "\r\x1b[K",
        lambda: "\x1b[A\x1b[2K\r",
        lambda: csi(r, "B", 4) + "\r\n",
        lambda: csi(r, "M", 3),
        lambda: r.choice(["\r\x1b[J", "\x1b[2J"]),
    ])()


@pytest.mark.parametrize("make", [plain, editing, shifting, wide], ids=lambda f: f.__name__)
def test_same_text_as_tmux(terminal, make):
    columns, rows = terminal.columns, terminal.rows
    for seed in range(STREAMS if rows < 100 else STREAMS // 6):
        r = random.Random(seed)
        stream = "".join(make(r, columns, rows) for _ in range(r.randrange(1, 60))).encode()
        assert transcript(stream, columns, rows).decode() == terminal.show(stream), (seed, stream)


def test_same_history_as_tmux(terminal):
    columns, rows = terminal.columns, terminal.rows
    stream = b"".join(b"Line %d\r\n" % i for i in range(1, 12001))
    assert transcript(stream, columns, rows).decode() == terminal.show(stream)

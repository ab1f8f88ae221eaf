"""Taking hold of the hand from inside its sandbox (hold.c): each way works on an ordinary process, and none on the hand."""

import base64
import os
import pathlib
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).with_suffix(".c")


def build(folder):
    compiler = os.environ.get("CC", "cc")
    if not shutil.which(compiler):
        pytest.skip(f"no C compiler ({compiler}) for {SOURCE.name}")
    program = folder / "hold"
    subprocess.run([compiler, "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, SOURCE], check=True)
    return program


def results(text):
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def hand_is_out_of_reach(box, folder, but=""):
    """box: a sandbox of conformance.py in which the hand is PID 1; but: "no-stop" leaves signals out."""
    program = build(folder)
    victim = subprocess.Popen(["sleep", "600"])
    try:
        outside = results(subprocess.run([program, str(victim.pid), *but.split()], capture_output=True, text=True, check=True, timeout=60).stdout)
    finally:
        victim.kill()
        victim.wait()
    assert set(outside.values()) == {"done"}, outside
    box("put", path="/tmp/hold", base64=base64.b64encode(program.read_bytes()).decode(), mode=0o755)
    inside = results(box.ok(f"/tmp/hold 1 {but}", timeout=60))
    assert inside.keys() == outside.keys() and "done" not in inside.values(), inside
    assert box.ok("echo well") == "well"
    # An agent's processes are its own: what the hand starts is not hidden from debuggers.
    assert "seen" in box.ok("sleep 600 & cat /proc/$!/environ > /dev/null && echo seen; kill -9 $!")

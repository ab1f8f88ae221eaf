"""Where a value is that must be nowhere: files, environments and command lines of all processes, memory of those in a sandbox.

And what a test of it does inside: ASK, a request with a placeholder in its header; PLANT, a process that has the value."""

import base64
import pathlib
import secrets
import urllib.parse

ASK = """
import json, os, ssl, urllib.request
def ask(host, value):
    request = urllib.request.Request(f"https://{host}/echo", headers={"Authorization": value})
    # What is passed through untouched has a certificate of the world, which nothing inside knows.
    context = ssl.create_default_context() if host == "api.test" else ssl._create_unverified_context()
    return json.loads(urllib.request.urlopen(request, timeout=30, context=context).read())["authorization"]
"""

PLANT = """
begun, closed_by_exec = os.pipe()
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3): os.dup2(null, fd)
    os.execvpe("sleep", ["sleep", "300"], dict(os.environ, X={!r}))
os.close(closed_by_exec)
os.read(begun, 1) # before it is on its own it would end with the command
"""


def forms(value):
    raw = value.encode()
    encoded = [base64.b64encode(b"x" * pad + raw)[4:-4] for pad in range(3)]
    return [raw, raw.hex().encode(), urllib.parse.quote(value, safe="").encode(), *encoded]


def holds(data, value):
    return any(form in data for form in forms(value))


def files_with(value, folder):
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and holds(path.read_bytes(), value):
            found.append(str(path))
    return found


def processes():
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            yield entry


def lines_with(value):
    """Processes whose environment or command line has it."""
    found = []
    for entry in processes():
        for name in ("environ", "cmdline"):
            try:
                if holds((entry / name).read_bytes(), value):
                    found.append(str(entry / name))
            except OSError:  # it ended, or is a thread of the kernel
                pass
    return found


def memory_with(value, pid):
    """Processes in the sandbox of that one whose memory has it, and how many were read."""
    space, found, read = (pathlib.Path(f"/proc/{pid}/ns/pid")).readlink(), [], 0
    for entry in processes():
        try:
            if (entry / "ns/pid").readlink() != space:
                continue
            with open(entry / "maps") as maps, open(entry / "mem", "rb", buffering=0) as mem:
                for line in maps:
                    span, rights = line.split()[:2]
                    begin, end = (int(x, 16) for x in span.split("-"))
                    if not rights.startswith("r") or end - begin > 1 << 28:
                        continue
                    try:
                        mem.seek(begin)
                        if holds(mem.read(end - begin), value):
                            found.append((entry.name, line))
                    except (OSError, ValueError, OverflowError):  # vvar and its like
                        pass
            read += 1
        except OSError:
            pass
    return found, read


def new_value():
    """One that no encoding leaves as it is."""
    return "canary/" + secrets.token_hex(16) + "+="

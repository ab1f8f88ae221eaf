#!/usr/bin/env python3
"""A plugin that misbehaves on request (installed as tendon-plugin-rogue)."""

import json
import os
import signal
import subprocess
import sys

ACTIONS = "echo crash exit garbage flood chatter stray close hang child leave number uid".split()


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def crash():
    os.kill(os.getpid(), signal.SIGKILL)


def exit():
    print("I cannot go on", file=sys.stderr, flush=True)
    os._exit(3)


def garbage():
    print("this is no JSON", flush=True)


def flood():
    while True:
        sys.stdout.write("x" * (1 << 20))


def chatter():
    """Many messages that are none of the hand's business, then the answer."""
    for i in range(5000):
        say(method="progress", params={"i": i})
    return "done"


def stray():
    say(id=4711, result={"content": "an answer to nobody"})


def close():
    os.close(1)
    signal.pause()


def hang():
    while True:
        sys.stdin.readline()
        signal.pause()


def child():
    """Leaves a process behind that would outlive it."""
    return str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)


def leave(command):
    """The command leaves a process behind, whose number it prints."""
    return subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True).stdout.strip()


def number():
    return 7  # a content must be text


for line in sys.stdin:
    request = json.loads(line)
    if os.path.exists(os.environ.get("ROGUE_BREAK", "")):
        exit()
    if "deaf" in sys.argv[0]:  # once it has said what it does
        say(id=request["id"], result={"actions": [{"name": "echo"}]})
        signal.pause()
    if request["method"] == "describe" and "boast" in sys.argv[0]:
        say(id=request["id"], result={"actions": [{"name": "x" * (1 << 20)}]})
    elif request["method"] == "describe":
        say(id=request["id"], result={"actions": [{"name": a} for a in ACTIONS]})
    elif request["method"] == "execute":
        name, args = request["params"]["action"], request["params"]["args"]
        if "mark" in args:
            open(args["mark"], "w").close()  # it has begun
        if name == "echo":
            content = json.dumps(args)
        elif name == "leave":
            content = leave(args["command"])
        elif name == "uid":
            content = str(os.getuid())
        else:
            content = globals()[name]()
        say(id=request["id"], result={"content": content})

"""An MCP server on stdio whose tools are what goes wrong in real ones.  No library: every byte that
goes out is chosen here.

    odd.py [--slow SECONDS] [--mute] [--exit] [--noise] [--version V] [--pages] [--name NAME]"""

import argparse
import json
import os
import signal
import sys
import threading
import time

options = argparse.ArgumentParser()
options.add_argument("--slow", type=float, default=0)
options.add_argument("--mute", action="store_true")
options.add_argument("--exit", action="store_true")
options.add_argument("--noise", action="store_true")
options.add_argument("--version", default=None)
options.add_argument("--pages", action="store_true")
options.add_argument("--name", default="odd")
options.add_argument("--count", default=None, help="a file that gets a line per start")
options = options.parse_args()

TOOLS = "echo die hang flood garbage long progress ask env log touch big slow more binary".split()
lock = threading.Lock()
waiting = {}
cancelled = set()
tools = list(TOOLS)
subscribed = set()


def write(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(**message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def notify(method, **params):
    send(method=method, params=params)


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def ask(method, params):
    number = f"ask-{len(waiting)}"
    done = threading.Event()
    waiting[number] = [done, None]
    send(id=number, method=method, params=params)
    done.wait(60)
    return waiting[number][1]


def until(condition):
    while not condition():
        time.sleep(0.01)


def call(request, name, arguments, meta):
    token = meta.get("progressToken")
    if name == "echo":
        return text(f"{options.name}: {arguments.get('text', '')}")
    if name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hang":
        notify("notifications/message", level="info", data="hanging")
        until(lambda: request in cancelled)
        notify("notifications/message", level="info", data="cancelled")
        return text("cancelled")
    if name == "flood":
        for i in range(arguments.get("count", 20000)):
            notify("notifications/message", level="info", data=f"flood {i}")
        return text("flooded")
    if name == "garbage":
        for line in ("not json", "[1,2", '{"jsonrpc":"1.0"}', "\x00\xff", "{}", "[]", "null", '"x"'):
            write(line)
        return text("garbage told")
    if name == "long":
        write("x" * (40 << 20))
        return text("long line told")
    if name == "progress":
        for i in range(3):
            notify("notifications/progress", progressToken=token, progress=i, total=3, message=f"p{i}")
        return text("progressed")
    if name == "ask":
        return text(json.dumps(ask(arguments["method"], arguments.get("params", {}))))
    if name == "env":
        return text(json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}))
    if name == "log":
        for level in ("debug", "warning", "emergency"):
            notify("notifications/message", level=level, logger="odd", data=level)
        return text("logged")
    if name == "touch":
        for uri in subscribed:
            notify("notifications/resources/updated", uri=uri)
        return text("touched")
    if name == "big":
        return text("y" * arguments["size"])
    if name == "slow":
        time.sleep(arguments["seconds"])
        return text("slowly")
    if name == "more":
        tools.append("extra")
        notify("notifications/tools/list_changed")
        return text("one more tool")
    if name == "binary":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    if name == "extra":
        return text("extra")
    return text(f"unknown tool {name}", isError=True)


def describe(name):
    return {"name": name, "description": f"does {name}", "inputSchema": {"type": "object"}}


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        if options.mute:
            return None
        time.sleep(options.slow)
        return {
            "protocolVersion": options.version or params["protocolVersion"],
            "capabilities": {
                "tools": {"listChanged": True},
                "logging": {},
                "prompts": {},
                "resources": {"subscribe": True},
                "completions": {},
            },
            "serverInfo": {"name": options.name, "version": "1"},
        }
    if method == "tools/list":
        at = int(params.get("cursor", 0))
        size = 2 if options.pages else len(tools)
        page = {"tools": [describe(t) for t in tools[at : at + size]]}
        return {**page, "nextCursor": str(at + size)} if at + size < len(tools) else page
    if method == "tools/call":
        return call(message["id"], params["name"], params.get("arguments") or {}, params.get("_meta") or {})
    if method == "prompts/list":
        return {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}
    if method == "prompts/get":
        words = f"{options.name} greets {params['name']}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}
    if method == "resources/list":
        return {"resources": [{"uri": f"odd://{options.name}/1", "name": "one"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": f"odd://{options.name}/{{n}}", "name": "any"}]}
    if method == "resources/read":
        if not params["uri"].startswith(f"odd://{options.name}/"):
            return LookupError(-32002, "Resource not found")
        return {"contents": [{"uri": params["uri"], "text": f"of {options.name}"}]}
    if method == "resources/subscribe":
        if not params["uri"].startswith(f"odd://{options.name}/"):
            return LookupError(-32002, "Resource not found")
        subscribed.add(params["uri"])
        return {}
    if method == "resources/unsubscribe":
        subscribed.discard(params["uri"])
        return {}
    if method == "completion/complete":
        return {"completion": {"values": [f"{options.name}:{params['ref'].get('name', 'uri')}"]}}
    if method in ("ping", "logging/setLevel"):
        return {}
    return LookupError(-32601, "Method not found")


def serve(message):
    result = answer(message)
    if isinstance(result, LookupError):
        send(id=message["id"], error={"code": result.args[0], "message": result.args[1], "data": {"k": 1}})
    elif result is not None:
        send(id=message["id"], result=result)


if options.count:
    with open(options.count, "a") as f:
        f.write("started\n")
if options.exit:
    print("odd: cannot go on", file=sys.stderr)
    sys.exit(3)
if options.noise:
    print("Welcome to the odd server!\n\nlistening on stdio...", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/cancelled":
        cancelled.add(message["params"]["requestId"])
    elif "method" in message and "id" in message:
        threading.Thread(target=serve, args=(message,), daemon=True).start()
    elif "id" in message and message["id"] in waiting:
        waiting[message["id"]][1] = {k: message[k] for k in ("result", "error") if k in message}
        waiting[message["id"]][0].set()

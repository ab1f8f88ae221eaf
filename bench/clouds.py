#!/usr/bin/python3
"""Measures the vendors' own SDKs against `tendon serve`: a table, and JSON with --json FILE.

The reference is the same SDK against a server that answers at once with what is in its hands and does nothing: what is
above it is ours. Exit status 1 when a bar is missed; without network for the SDK (tools/sdks) nothing is measured.
"""

import argparse
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from results import Results
from service import Service, p50

HERE = os.path.dirname(os.path.abspath(__file__))
SANDBOX = {"sandboxID": "aaaaaaaaaa", "templateID": "base", "clientID": "x", "envdVersion": "0.6.1", "domain": None,
           "envdAccessToken": "x", "trafficAccessToken": "x"}


def envelope(message, flags=0):
    body = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(body)) + body


def answer(status, body=b"", kind="application/json"):
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Echo(threading.Thread):
    """Answers every request at once."""

    answers = {
        b"POST /v2/sandboxes": answer("201 Created", json.dumps(SANDBOX).encode()),
        b"POST /process.Process/Start": answer(
            "200 OK", envelope({"event": {"start": {"pid": 7}}}) + envelope({"event": {"end": {"exited": True}}})
            + envelope({}, 2), "application/connect+json"),
        b"DELETE /sandboxes/aaaaaaaaaa": answer("204 No Content"),
    }

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.start()

    def run(self):
        while True:
            threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, peer):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held = b""
        while piece := peer.recv(65536):
            held += piece
            head, there, body = held.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            chunked = re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head)
            if there and (body.endswith(b"0\r\n\r\n") if chunked else len(body) >= int(length[1] if length else 0)):
                peer.sendall(self.answers[head[: head.index(b" HTTP/")]])
                held = b""


def client(python, url, key, mode, count):
    env = dict(os.environ, E2B_API_URL=url, E2B_SANDBOX_URL=url, E2B_API_KEY=key)
    done = subprocess.run([python, f"{HERE}/clouds_e2b.py", mode, str(count)], env=env, stdout=subprocess.PIPE, text=True,
                          check=True, timeout=900)
    return json.loads(done.stdout)


def bench_shell():
    """What `commands.run` starts, by itself."""
    times = []
    for _ in range(50):
        began = time.monotonic()
        subprocess.run(["/bin/bash", "-l", "-c", "true"], env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}, check=True)
        times.append((time.monotonic() - began) * 1000)
    return p50(times)


def bench_e2b(results, service, python):
    """Rounds of both take turns, so that a machine with other work slows both."""
    key = subprocess.run([f"{service.build}/tendon", "key", "create", "bench", "--e2b", "--json"], env=service.env,
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    key, echo = json.loads(key)["key"], Echo()
    for mode, count, what, more in (
        ("create", 10, "e2b SDK: cold jail to first command", 60),
        ("run", 200, "e2b SDK: commands.run('true')", 2),
    ):
        bare, ours = [], []
        for _ in range(3):
            bare.append(p50(client(python, echo.url, "e2b_00", mode, count)))
            ours.append(p50(client(python, service.url, key, mode, count)))
        results.add(f"{what}, bare server, p50", p50(bare), "ms", "the reference", None)
        results.add(f"{what}, p50", p50(ours), "ms", f"at most {more} more", p50(ours) - p50(bare) <= more)
    shell = bench_shell()
    results.add("  of that the program itself, bash -l -c true", shell, "ms", "", None)
    results.add("  of that ours", p50(ours) - p50(bare) - shell, "ms", "", None)
    before, mebibytes = service.memory(), 1024
    up, down = client(python, service.url, key, "file", mebibytes)
    grown = (service.memory() - before) / (1 << 20)
    results.add(f"e2b SDK: {mebibytes} MiB up", mebibytes / up * 1000, "MiB/s", "", None)
    results.add(f"e2b SDK: {mebibytes} MiB down", mebibytes / down * 1000, "MiB/s", "", None)
    results.add("  the service has grown by", grown, "MiB", "under 16", grown < 16)
    bench_crowd(results, service, python, key, echo)


def sdk(name):
    """An interpreter that has that vendor's SDK; None without it."""
    found = subprocess.run([f"{HERE}/../tools/sdks", name], stdout=subprocess.PIPE, text=True)
    return None if found.returncode else found.stdout.strip()


def bench_files(results, service, mebibytes=1024):
    """A large file there and back through the other surfaces, each by its vendor's SDK."""
    key = subprocess.run([f"{service.build}/tendon", "key", "create", "files", "--json"], env=service.env,
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    key = json.loads(key)["key"]
    for vendor, more in (
        ("daytona", {"DAYTONA_API_KEY": key, "DAYTONA_API_URL": f"{service.url}/api"}),
        ("runloop", {"RUNLOOP_API_KEY": key, "RUNLOOP_BASE_URL": service.url}),
        ("modal", {"MODAL_SERVER_URL": service.url, "MODAL_TOKEN_ID": "bench", "MODAL_TOKEN_SECRET": key}),
    ):
        python = sdk(vendor)
        if not python:
            continue
        words = [python, f"{HERE}/clouds_files.py", vendor]
        env = {**os.environ, **more}
        subprocess.run([*words, "1"], env=env, stdout=subprocess.PIPE, check=True, timeout=900)
        before = service.memory()
        done = subprocess.run([*words, str(mebibytes)], env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=900)
        grown = (service.memory() - before) / (1 << 20)
        up, down = json.loads(done.stdout)
        results.add(f"{vendor} SDK: {mebibytes} MiB up", mebibytes / up * 1000, "MiB/s", "", None)
        results.add(f"{vendor} SDK: {mebibytes} MiB down", mebibytes / down * 1000, "MiB/s", "", None)
        results.add("  the service has grown by", grown, "MiB", "under 16", grown < 16)


def bench_crowd(results, service, python, key, echo):
    """Both APIs by the same client (crowd.c), so that they alone differ; and the SDK, which takes processors of its own."""
    count, native, wire, theirs, bare = 100, [], [], [], []
    for _ in range(5):
        native.append(service.create(count, count, {})[1])
        service.remove_all()
        wire.append(service.crowd(count, count, "POST", "/v2/sandboxes", {"templateID": "base"})[1])
        service.remove_all()
        theirs += client(python, service.url, key, "crowd", count)
        bare += client(python, echo.url, "e2b_00", "crowd", count)
    native, wire, theirs, bare = p50(native), p50(wire), p50(theirs), p50(bare)
    results.add(f"{count} creates at once, native API", native, "ms", "the reference", None)
    results.add(f"{count} creates at once, E2B's API, same client", wire, "ms", "at most 1.3x", wire <= 1.3 * native, wire / native)
    results.add(f"{count} creates at once, e2b SDK", theirs, "ms", "", None, theirs / native)
    results.add("  of that the SDK itself, on a bare server", bare, "ms", "", None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    options = parser.parse_args()
    python = sdk("e2b")
    if not python:
        print("clouds: the SDKs are not there, nothing is measured")
        return 0
    results = Results()
    with tempfile.TemporaryDirectory(prefix="tendon-bench-") as scratch:
        service = Service(options.build, scratch, max_sandboxes=0)
        service.start()
        try:
            bench_e2b(results, service, python)
            bench_files(results, service)
            service.clear()
        finally:
            service.end()
    return results.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())

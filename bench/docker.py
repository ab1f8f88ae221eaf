#!/usr/bin/python3
"""Measures docker sandboxes beside the engine's own create and start of the same image, in the same run.

Starts a dockerd of its own, with private mounts and network and its data in memory; needs root.  Exit status 1 when
a bar is missed.
"""

import argparse
import http.client
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

from results import Results, quantile

PRIVATE = """
for directory in /run /etc/docker "$1"; do
    [ ! -d "$directory" ] || mount -t tmpfs tmpfs "$directory" || exit
done
shift
ip link set lo up
exec "$@"
"""
IMAGE = "bench"
ROUNDS = 3
MS = 1e6
JSON = {"Content-Type": "application/json"}


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("engine", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Engine:
    def __init__(self, base):
        self.socket = f"{base}/sock"
        os.mkdir(f"{base}/data")
        command = ["dockerd", f"--data-root={base}/data", f"--exec-root={base}/exec", f"--host=unix://{self.socket}",
                   f"--pidfile={base}/pid", "--exec-opt=native.cgroupdriver=cgroupfs"]
        private = ["unshare", "--mount", "--net", "sh", "-c", PRIVATE, "sh", f"{base}/data"]
        with open(f"{base}/log", "wb") as log:
            self.process = subprocess.Popen([*private, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while not self.answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit(f"docker: no dockerd here: {open(f'{base}/log').read()[-2000:]}")
            time.sleep(0.05)
        self.connection = Connection(self.socket)

    def answers(self):
        try:
            connection = Connection(self.socket)
            connection.request("GET", "/_ping")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def call(self, method, path, body=None, headers=JSON):
        self.connection.request(method, f"/v1.41{path}", body, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status < 400, (method, path, text)
        return json.loads(text) if text.startswith(b"{") and b"\n{" not in text else None

    def create_and_start(self):
        """How long the engine itself takes, in ms."""
        began = time.monotonic()
        body = {"Image": IMAGE, "Cmd": ["/bin/bash", "-c", "read x < /dev/zero"]}
        name = self.call("POST", "/containers/create", json.dumps(body))["Id"]
        self.call("POST", f"/containers/{name}/start")
        took = (time.monotonic() - began) * 1000
        self.call("DELETE", f"/containers/{name}?force=1")
        return took

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def bash_image():
    """A tar of this machine's bash, sleep and what they are linked with."""
    out = io.BytesIO()
    seen = set()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for program in ("bash", "true", "sleep"):
            path = shutil.which(program)
            linked = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], capture_output=True, text=True).stdout)
            for name, source in [(f"bin/{program}", path), *((library.lstrip("/"), library) for library in linked)]:
                if name not in seen:
                    seen.add(name)
                    tar.add(os.path.realpath(source), name)
    return out.getvalue()


def sandboxes(args, engine, scratch, mode, count):
    env = dict(os.environ, DOCKER_HOST=f"unix://{engine.socket}", HOME=scratch, XDG_STATE_HOME=scratch,
               PATH=f"{args.build}:{os.environ['PATH']}")
    command = [f"{args.build}/bench/sandboxes", mode, str(count), f"{scratch}/state", "docker", IMAGE]
    out = subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE, text=True).stdout
    return {line["what"]: line for line in map(json.loads, out.splitlines())}


def median(line):
    return quantile(sorted(line["each"]), 0.5) / MS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    if os.getuid() != 0 or not shutil.which("dockerd"):
        print("docker: not measured: needs root and dockerd")
        return
    results = Results()
    with tempfile.TemporaryDirectory() as scratch:
        engine = Engine(scratch)
        try:
            engine.call("POST", f"/images/create?fromSrc=-&repo={IMAGE}&tag=latest", bash_image(), {})
            own, ours = [], []
            for _ in range(ROUNDS):  # interleaved; the best median of both, so that noise hurts neither
                own.append(quantile(sorted(engine.create_and_start() for _ in range(args.rounds)), 0.5))
                ours.append(median(sandboxes(args, engine, scratch, "create", args.rounds)["create"]))
            results.add("dockerd: create and start, p50", min(own), "ms", "the reference", None)
            results.add("docker: create to first observation, p50", min(ours), "ms", "at most 40 ms more",
                        min(ours) - min(own) <= 40, min(ours) / min(own))
            warm = median(sandboxes(args, engine, scratch, "warm", 5)["warm"])
            results.add("docker: warm claim, p50", warm, "ms", "under 10", warm < 10)
        finally:
            engine.stop()
    sys.exit(results.finish(args.json))


if __name__ == "__main__":
    main()

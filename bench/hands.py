"""A hand to measure an ability of: on a unix socket, with one connection to it."""

import json
import os
import signal
import subprocess
import time

from hand import UnixConnection


class Hand:
    def __init__(self, binary, where, *options, **environment):
        os.makedirs(where, exist_ok=True)
        self.path = os.path.join(where, "socket")
        self.process = subprocess.Popen(
            [binary, "--listen", f"unix:{self.path}", "--working-dir", os.path.join(where, "workspace"),
             "--username", "root" if os.getuid() == 0 else "nobody", "--log-level", "warn", *options],
            env=dict(os.environ, TMPDIR=where, HOME=where, SU_TO_USER="false", **environment))
        self.connection = UnixConnection(self.path)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.connection.connect()
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise SystemExit("the hand did not start") from None
            time.sleep(0.001)

    def post(self, path, value):
        self.connection.request("POST", path, json.dumps(value))
        return json.loads(self.connection.getresponse().read())

    def execute(self, action, **args):
        return self.post("/execute_action", {"action": {"action": action, "args": args, "timeout": 60}})

    def stop(self):
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)

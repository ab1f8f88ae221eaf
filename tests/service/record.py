"""Records what the vendors' SDKs say: record.py [VENDOR-STORY...] writes tests/service/recordings. Run by whoever changes a story or
the version of an SDK, with the build and the PYTHONPATH that tests have (docs/internals/testing.md)."""

import pathlib
import subprocess
import sys
import tempfile

import conversations
import conversations_grpc
from native import make
from peers import sdk
from services import Client, Service
from vendors import RECORDED, environment

HERE = pathlib.Path(__file__).parent
SDKS = {"swerex": "swe-rex"}


def record(service, name):
    vendor, story = name.split("-", 1)
    key = service.make_key(name, "--tenant", name.replace("_", ""), *(["--e2b"] if vendor == "e2b" else []))["key"]
    recorder = (conversations_grpc if vendor == "modal" else conversations).Recorder(service, key)
    env = {**service.env, **environment(vendor, recorder.server_address[1], key)}
    words = [story]
    if vendor == "swerex":  # whose client makes no sandboxes: this one is in the recording, too
        words.insert(0, f"http://127.0.0.1:{recorder.server_address[1]}/swerex/{make(Client(recorder, key))['id']}")
    with tempfile.TemporaryDirectory() as cwd:
        done = subprocess.run([sdk(SDKS.get(vendor, vendor)), HERE / f"{vendor}_story.py", *words], env=env, cwd=cwd, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    (HERE / "recordings" / f"{name}.json").write_text(recorder.saved())
    print(name, len(recorder.exchanges))


with tempfile.TemporaryDirectory() as base:
    service = Service(base).start()
    try:
        for name in sys.argv[1:] or RECORDED:
            record(service, name)
    finally:
        service.finish()

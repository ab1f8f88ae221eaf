"""The client of bench/clouds.py for files, run by an interpreter that has the vendor's SDK: clouds_files.py VENDOR MEBIBYTES.
Prints JSON: ms up and down."""

import json
import os
import sys
import tempfile
import time


def daytona():
    from daytona import Daytona

    sandbox = Daytona().create()
    return (lambda here: sandbox.fs.upload_file(here, "/tmp/big", 900),
            lambda here: sandbox.fs.download_file("/tmp/big", here, 900), sandbox.delete)


def runloop():
    from runloop_api_client import Runloop

    client = Runloop(timeout=900)
    id = client.devboxes.create_and_await_running().id

    def up(here):
        with open(here, "rb") as file:
            client.devboxes.upload_file(id, path="/tmp/big", file=file)

    def down(here):
        with client.devboxes.with_streaming_response.download_file(id, path="/tmp/big") as answer:
            answer.stream_to_file(here)

    return up, down, lambda: client.devboxes.shutdown(id)


def modal():
    import modal

    sandbox = modal.Sandbox.create(app=modal.App.lookup("bench", create_if_missing=True), timeout=1800)
    return (lambda here: sandbox.filesystem.copy_from_local(here, "/tmp/big"),
            lambda here: sandbox.filesystem.copy_to_local("/tmp/big", here), sandbox.terminate)


def main(vendor, mebibytes):
    up, down, end = globals()[vendor]()
    times = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, move in (("there", up), ("back", down)):
            here = f"{scratch}/{name}"
            if move is up:
                with open(here, "wb") as file:
                    os.truncate(here, mebibytes << 20)
            began = time.monotonic()
            move(here)
            times.append((time.monotonic() - began) * 1000)
        assert os.path.getsize(f"{scratch}/back") == mebibytes << 20
    end()
    print(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

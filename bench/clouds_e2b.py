"""The client of bench/clouds.py, run by an interpreter that has E2B's SDK: clouds_e2b.py create|run|file|crowd COUNT.
Prints JSON: times in ms, of each round or of all."""

import asyncio
import json
import sys
import time

from e2b import AsyncSandbox, Sandbox


def timed(call):
    began = time.monotonic()
    return call(), (time.monotonic() - began) * 1000


def create(count):
    """To the result of the first command."""
    times = []
    for _ in range(count + 1):
        began = time.monotonic()
        sandbox = Sandbox.create()
        sandbox.commands.run("true")
        times.append((time.monotonic() - began) * 1000)
        sandbox.kill()
    return times[1:]  # the first one also loads the SDK


def run(count):
    sandbox = Sandbox.create()
    times = [timed(lambda: sandbox.commands.run("true"))[1] for _ in range(count + 10)][10:]
    sandbox.kill()
    return times


def file(count):
    """So many mebibytes there and back."""
    sandbox = Sandbox.create(timeout=900)
    with open("/dev/zero", "rb") as zero:
        piece = zero.read(1 << 20)

    class Source:
        left = count

        def read(self, n=-1):
            self.left -= 1
            return piece if self.left >= 0 else b""

    _, up = timed(lambda: sandbox.files.write("big", Source(), request_timeout=600))
    size, down = timed(lambda: sum(len(part) for part in sandbox.files.read("big", format="stream", request_timeout=600)))
    sandbox.kill()
    assert size == count << 20, size
    return [up, down]


def crowd(count):
    async def all_at_once():
        began = time.monotonic()
        made = await asyncio.gather(*(AsyncSandbox.create() for _ in range(count)))
        spent = (time.monotonic() - began) * 1000
        await asyncio.gather(*(one.kill() for one in made))
        return [spent]

    return asyncio.run(all_at_once())


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](int(sys.argv[2]))))

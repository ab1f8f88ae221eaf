"""`tendon serve` on the machine of gate_world.py."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "service"))

from services import Service  # noqa: E402


class ServiceThere(Service):
    """`tendon serve` on that machine; clients reach it by a socket in its directory."""

    def __init__(self, world, base, **kwargs):
        super().__init__(base, listen=[f"unix:{base}/service.sock"], **kwargs)
        self.world = world

    def command(self):
        return self.world.machine.words(*super().command())

    def tendon(self, *words, **kwargs):
        program, self.program = self.program, self.world.machine.words(self.program)[0]
        try:
            return super().tendon(*self.world.machine.words(program, *words)[1:], **kwargs)
        finally:
            self.program = program

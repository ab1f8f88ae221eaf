"""A hand that is told to end while it comes up ends, whatever it was about to do."""

import signal
import time

from harness import wait_until


def test_the_end_may_come_at_any_moment_of_the_start(start):
    for tenths in range(0, 250, 5):  # of a millisecond: from before its first step to after its shell is up
        hand = start(wait=False)
        time.sleep(tenths / 10_000)
        hand.process.send_signal(signal.SIGTERM)
        assert hand.process.wait(timeout=15) in (0, -signal.SIGTERM), (tenths, hand.stderr)
        hand.stopped = True
        wait_until(lambda: not hand.left(), 5, "nothing of it is left")

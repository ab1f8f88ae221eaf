"""The hand of a container against those inside; the same as tests/jail/test_jail_hand.py."""

from hold import hand_is_out_of_reach


def test_nobody_takes_hold_of_it(box, tmp_path):
    hand_is_out_of_reach(box, tmp_path)

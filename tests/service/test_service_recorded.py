"""What the vendors' SDKs say, without the SDKs: conversations.py."""

import json
import pathlib

import pytest

import conversations
import conversations_grpc
from vendors import RECORDED

RECORDINGS = pathlib.Path(__file__).parent / "recordings"


def test_all_are_there():
    assert {path.stem for path in RECORDINGS.iterdir()} == set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_conversation(service, name):
    exchanges = json.loads((RECORDINGS / f"{name}.json").read_text())
    flags = ["--e2b"] if name.startswith("e2b-") else []
    key = service.make_key(name, "--tenant", name, *flags)["key"]
    (conversations_grpc if name.startswith("modal-") else conversations).Play(service, key, exchanges).play()

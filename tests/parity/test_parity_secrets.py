"""What the journal of a sandbox does not show, whoever sends its actions."""


def test_the_tokens_of_a_session(world):
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    options = {"tokens": [{"provider": "github", "token": token, "host": None}]}
    face = world.library("session with a token", verb="session", session=options)
    told = face.execute({"action": "run", "args": {"command": f"echo {token}"}, "timeout": 20})
    events = face.journal()
    face.finish()
    assert told["content"] == token  # the agent works with it
    assert [event["args"]["command"] for event in events if "args" in event] == ["echo <secret_hidden>"]
    assert token not in str(events)

"""Tools of MCP servers in a session: confirmation, and servers that a repository brings."""

import json
import pathlib

ODD = pathlib.Path(__file__).resolve().parent.parent / "mcp/servers/odd.py"


def server(name):
    return {"name": name, "command": "/usr/bin/python3", "args": [str(ODD), "--name", name]}


def call(session, name, **more):
    return session.act("call_tool_mcp", name=name, arguments={"text": "x"}, **more)


def test_servers_of_microagents(open_session, upstream, commit):
    def microagent(servers):
        return f"---\nmcp_tools: {json.dumps({'stdio_servers': servers})}\n---\nUse the tools.\n"

    commit(upstream, {
        ".openhands/microagents/good.md": microagent([server("mine")]),
        ".openhands/microagents/wrong.md": microagent([{"name": "x"}]),
    })
    session = open_session(env={"MCP_STDIO_SERVERS": json.dumps([server("ours")])})
    assert session("tools")[0] == "echo"
    session("prepare", repository=str(upstream))
    assert [note for note in session.notes if "wrong" in note and "left out" in note]
    assert {"mine_echo", "ours_echo"} <= set(session("tools"))
    seen = call(session, "mine_echo")
    assert json.loads(seen["content"])["content"][0]["text"] == "mine: x"


def test_an_action_that_waits_is_not_carried_out(open_session):
    session = open_session(env={"MCP_STDIO_SERVERS": json.dumps([server("ours")])})
    waiting = session("action", action={"action": "call_tool_mcp", "timeout": 20, "args": {
        "name": "echo", "confirmation_state": "awaiting_confirmation"}})
    assert waiting["observation"] == "null"
    rejected = session("action", action={"action": "call_tool_mcp", "timeout": 20, "args": {
        "name": "echo", "confirmation_state": "rejected"}})
    assert rejected["observation"] == "user_rejected"
    missing = call(session, "fly")
    assert missing["observation"] == "error"
    assert missing["content"] == "No matching MCP agent found for tool name: fly"
    assert session.statuses == []

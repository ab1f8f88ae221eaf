"""tendon mcp: an MCP client gets a sandbox, over standard input and output and over HTTP."""

import base64
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import textwrap
import threading

import jsonschema
import pytest

import peers
from mcp_clients import HELLO, TYPES, Failed, Http, Stdio
from tendons import eventually

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SDK_CLIENT = pathlib.Path(__file__).parent / "mcp-sdk-client.mjs"


def stdio(tendon, *args):
    return Stdio(tendon.start("mcp", *args, stdin=subprocess.PIPE))


@pytest.fixture
def client(tendon):
    client = stdio(tendon)
    client.hello()
    yield client
    client.leave()


@pytest.fixture
def served(tendon, tmp_path):
    """Over HTTP, with a key: gives new clients."""
    key = tmp_path / "key"
    key.write_text("open sesame\n")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = tendon.start("mcp", "--listen", f"127.0.0.1:{port}", "--key-file", str(key))
    assert "listening" in process.stderr.readline()
    yield lambda key="open sesame": Http(port, key)
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def sandboxes(tendon):
    return json.loads(tendon.ok("ls", "--json"))


# --- tools --------------------------------------------------------------------------------------


def test_every_tool_has_a_schema(client):
    tools = client.call("tools/list")["tools"]
    assert {"shell", "python", "read_file", "write_file", "edit_file", "browser"} <= {
        tool["name"] for tool in tools
    }
    for tool in tools:
        schema = tool["inputSchema"]
        assert schema["type"] == "object" and tool["description"]
        assert set(schema["required"]) <= set(schema["properties"])
        assert all(p["description"] for p in schema["properties"].values())
        assert ("sandbox" in schema["properties"]) == (tool["name"] not in ("sandbox_new", "sandbox_list"))


def test_results_are_as_their_schemas_say(client):
    schemas = {tool["name"]: tool.get("outputSchema") for tool in client.call("tools/list")["tools"]}
    calls = {
        "shell": [{"command": "echo x"}, {"command": "sleep 100", "timeout": 0.3}, {"command": "", "session": "none"}],
        "python": [{"code": "1/0"}],
        "read_file": [{"path": "/etc/hostname"}, {"path": "/nowhere"}],
        "list_files": [{}],
        "sandbox_info": [{}],
        "sandbox_list": [{}],
        "sandbox_new": [{}],
    }
    for name, all_arguments in calls.items():
        for arguments in all_arguments:
            result = client.tool(name, **arguments)
            if schemas[name]:
                jsonschema.validate(result["structuredContent"], schemas[name])
            else:
                assert "structuredContent" not in result


def test_the_instructions_tell_where_one_is(tendon, jailed):
    def instructions(*args, of=tendon):
        client = stdio(of, *args)
        text = client.hello()["instructions"]
        client.leave()
        return text

    system = re.search('PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())[1]
    assert system in instructions() and "that of the machine" in instructions()
    inside = instructions(of=jailed)
    assert "start in /workspace, as user root" in inside and "reaches the internet, and neither the machine" in inside
    assert "There is no network" in instructions("--network", "none", of=jailed)
    assert "only what its rules name" in instructions("--network", "allow", of=jailed)
    inside = instructions("--workspace", "/srv/x", "--network", "host", of=jailed)
    assert "start in /srv/x" in inside and "that of the machine" in inside


def test_what_a_sandbox_tells_of_itself(jailed):
    client = stdio(jailed)
    client.hello()
    info = client.tool("sandbox_info")["structuredContent"]
    assert (info["directory"], info["network"], info["user"]) == ("/workspace", "open", "root")
    assert "Linux on" in info["system"] and info["isolation"]["pid"]
    (listed,) = client.tool("sandbox_list")["structuredContent"]["sandboxes"]
    assert listed == {key: info[key] for key in ("id", "own", "runtime", "image")}
    client.leave()


def test_what_did_not_work_is_an_error(client):
    where = client.text("shell", command="pwd; echo one >f").split("\n")[0]
    assert client.tool("edit_file", command="str_replace", path="f", old_str="two", new_str="2")["isError"]
    assert client.tool("edit_file", command="view", path=f"{where}/none")["isError"]
    assert client.tool("edit_file", command="undo", path=f"{where}/f")["isError"]
    assert not client.tool("edit_file", command="view", path="f").get("isError")
    assert client.tool("shell", command="", session="other")["isError"]
    assert client.tool("shell", command="x", is_input=True, session="other")["isError"]
    assert not client.tool("shell", command="false")["isError"]
    assert client.tool("python", code="1/0")["isError"]
    assert not client.tool("python", code="1")["isError"]


def test_the_shell_speaks_of_itself_only(client):
    """Its texts are for who has these tools, not those of OpenHands."""
    texts = [client.tool("shell", command="read x", timeout=0.3), client.tool("shell", command="ls")]
    for result in texts:
        text = result["content"][0]["text"]
        assert "execute_bash" not in text and "is_input true" in text and result["structuredContent"]["running"]
    assert [result["isError"] for result in texts] == [False, True]
    assert "Not executed" in texts[1]["content"][0]["text"]
    assert "exit code 130" in client.text("shell", command="C-c", is_input=True)


def size(result):
    return sum(len(block.get("text", "")) for block in result["content"])


def test_one_budget_for_all(client):
    client.text("shell", command="seq 1 300000 >many; head -c 3000000 /dev/zero | tr '\\0' x >long; mkdir d; cd d; "
                                 "touch $(seq -f '%060g' 1 2000); cd ..")
    for name, arguments in [
        ("shell", {"command": "cat many"}),
        ("python", {"code": "print('x' * 500000)"}),
        ("read_file", {"path": "many"}),
        ("read_file", {"path": "long"}),
        ("list_files", {"path": "d"}),
        ("edit_file", {"command": "view", "path": "many"}),
    ]:
        result = client.tool(name, **arguments)
        assert not result["isError"] and 20000 < size(result) < 31000, (name, size(result))


def test_a_long_file_is_read_in_parts(client):
    client.text("shell", command="seq 1 20000 >many; printf 'a\\nb' >two; : >none")
    lines, offset = [], 1
    while offset:
        text, *note = [block["text"] for block in client.tool("read_file", path="many", offset=offset)["content"]]
        lines += text.splitlines()
        offset = int(match[1]) if (match := re.search(r"Go on with offset (\d+)", *note)) else None
    assert lines == [str(i) for i in range(1, 20001)]
    read = [block["text"] for block in client.tool("read_file", path="many", offset=7, limit=2)["content"]]
    assert read == ["7\n8\n", "[Lines 7 to 8 of 20000. Go on with offset 9.]"]
    assert client.text("read_file", path="two") == "a\nb" and client.text("read_file", path="none") == ""
    beyond = client.tool("read_file", path="two", offset=3)
    assert beyond["isError"] and "has only 2 lines" in beyond["content"][0]["text"]


def test_the_end_of_input_drops_no_answer(tendon):
    """echo REQUESTS | tendon mcp"""
    command = {"name": "shell", "arguments": {"command": "sleep 1; echo late"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": command},
    ]
    process = tendon.start("mcp", stdin=subprocess.PIPE)
    out, _ = process.communicate("".join(json.dumps(m) + "\n" for m in messages), timeout=100)
    answers = {m["id"]: m for m in map(json.loads, out.splitlines()) if "id" in m}
    assert "late" in answers[2]["result"]["content"][0]["text"]
    assert process.returncode == 0 and sandboxes(tendon) == []


def test_a_shell_keeps_its_state(client):
    client.text("shell", command="cd /; X=7")
    result = client.tool("shell", command="echo $X $PWD; false")
    assert "7 /" in result["content"][0]["text"]
    structured = result["structuredContent"]
    assert structured.pop("output") == result["content"][0]["text"]
    assert structured == {"exit_code": 1, "running": False, "working_dir": "/"}


def test_a_command_that_goes_on_is_polled_and_answered(client):
    result = client.tool("shell", command="read -r line; echo got $line", timeout=0.5)
    assert result["structuredContent"]["running"]
    assert "got it" in client.text("shell", command="it", is_input=True)


def test_files_are_kept_as_they_are(client):
    client.text("write_file", path="d/e/a.txt", content="one\r\ntwo")
    assert client.text("read_file", path="d/e/a.txt") == "one\r\ntwo"
    where = client.text("shell", command="pwd").split("\n")[0]
    assert "8  a.txt" in client.text("list_files", path=f"{where}/d/e") and "d/" in client.text("list_files")
    client.text("edit_file", command="str_replace", path="d/e/a.txt", old_str="two", new_str="2")
    client.text("edit_file", command="undo", path="d/e/a.txt")
    assert client.text("read_file", path="d/e/a.txt") == "one\r\ntwo"
    client.text("edit_file", command="str_replace", path="d/e/a.txt", old_str="two", new_str="2")
    assert "2" in client.text("edit_file", command="view", path=f"{where}/d/e/a.txt", view_range=[2, 2])


def test_a_picture_is_shown(client, tmp_path):
    (tmp_path / "p.png").write_bytes(PIXEL)
    block = client.tool("read_file", path=str(tmp_path / "p.png"))["content"][0]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(block["data"]) == PIXEL


def test_files_are_resources(client):
    assert client.call("resources/list") == {"resources": []}
    client.text("shell", command="printf hello >'a b.txt'; printf '\\0\\1' >b.bin")
    resources = {r["name"]: r for r in client.call("resources/list")["resources"]}
    assert resources["a b.txt"]["size"] == 5
    read = client.call("resources/read", {"uri": resources["a b.txt"]["uri"]})["contents"][0]
    assert read["text"] == "hello"
    read = client.call("resources/read", {"uri": resources["b.bin"]["uri"]})["contents"][0]
    assert base64.b64decode(read["blob"]) == b"\0\1"
    with pytest.raises(Failed, match="/nowhere"):
        client.call("resources/read", {"uri": "tendon://own/nowhere"})
    with pytest.raises(Failed, match="is no tendon://"):
        client.call("resources/read", {"uri": "file:///etc/passwd"})


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ({"comand": "ls"}, "did you mean command"),
        ({"command": "ls", "input": "y"}, "arguments of shell: sandbox, command, is_input, session, timeout"),
        ({"command": "ls", "is_input": "y"}, "is_input"),
        ({}, "command"),
        ({"command": 3}, "command"),
        ({"command": "ls", "sandbox": "nobody"}, "no sandbox 'nobody' of yours"),
    ],
)
def test_wrong_arguments_are_told_to_the_model(client, arguments, complaint):
    result = client.tool("shell", **arguments)
    assert result["isError"] and complaint in result["content"][0]["text"]


def test_an_unknown_tool_is_an_error(client):
    with pytest.raises(Failed, match="did you mean shell"):
        client.tool("shel")


# --- sandboxes ----------------------------------------------------------------------------------


def test_nothing_is_made_before_it_is_needed_and_nothing_left(tendon):
    client = stdio(tendon)
    client.hello()
    client.call("tools/list")
    assert sandboxes(tendon) == []
    client.text("shell", command="true")
    assert len(sandboxes(tendon)) == 1
    assert client.leave() == 0
    assert sandboxes(tendon) == [] and tendon.leftovers() == []


def test_kill_9_leaves_nothing(tendon):
    client = stdio(tendon)
    client.hello()
    client.text("shell", command="sleep 1000 &")
    client.process.kill()
    client.process.wait()
    tendon.ok("gc", "--quiet")
    assert sandboxes(tendon) == []
    eventually(lambda: tendon.leftovers() == [], "nothing is left")


def test_further_sandboxes(tendon):
    client = stdio(tendon, "--limit", "2")
    client.hello()
    client.text("shell", command="touch mine")
    other = client.tool("sandbox_new")["structuredContent"]["id"]
    assert "mine" not in client.text("shell", command="ls", sandbox=other)
    result = client.tool("sandbox_new")
    assert result["isError"] and "sandbox_remove" in result["content"][0]["text"]
    assert len(client.tool("sandbox_list")["structuredContent"]["sandboxes"]) == 2
    client.text("sandbox_remove", sandbox=other)
    client.text("sandbox_remove")
    assert "mine" not in client.text("shell", command="ls")
    client.leave()


def test_snapshot_and_fork_in_a_jail(jailed):
    client = stdio(jailed)
    client.hello()
    assert client.tool("sandbox_info")["structuredContent"]["isolation"]["pid"]
    client.text("shell", command="echo 1 >/workspace/n")
    client.text("sandbox_snapshot", name="first")
    client.text("shell", command="echo 2 >/workspace/n")
    fork = client.tool("sandbox_fork")["structuredContent"]["id"]
    client.text("sandbox_rollback", name="first")
    assert client.text("read_file", path="/workspace/n") == "1\n"
    assert client.text("read_file", path="/workspace/n", sandbox=fork) == "2\n"
    assert client.leave() == 0
    assert jailed.leftovers() == []


def test_a_given_sandbox_is_shared_and_stays(tendon):
    tendon.ok("new", "--name", "shared", "--keep")
    client = stdio(tendon, "--sandbox", "shared")
    client.hello()
    client.text("shell", command="export WHO=mcp")
    assert tendon.ok("exec", "--session", "main", "shared", "echo $WHO") == "mcp\n"
    client.leave()
    assert len(sandboxes(tendon)) == 1


def stubborn(began):
    """A call that takes no hint."""
    command = f"trap '' INT; touch {began}; sleep 1000"
    params = {"name": "shell", "arguments": {"command": f'sh -c "{command}"', "timeout": 1000}}
    return {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params}


@pytest.mark.concurrent
def test_a_client_that_leaves_ends_what_it_runs(tendon, tmp_path):
    client = stdio(tendon)
    client.hello()
    client.tell(stubborn(tmp_path / "began"))
    eventually((tmp_path / "began").exists, "it runs")
    assert client.leave() == 0
    assert sandboxes(tendon) == [] and tendon.leftovers() == []


def test_a_sandbox_that_the_user_removes_is_replaced(client, tendon):
    client.text("shell", command="true")
    tendon.ok("rm", "--quiet", sandboxes(tendon)[0]["id"])
    result = client.tool("shell", command="true")
    assert result["isError"] and "the next call makes a new one" in result["content"][0]["text"]
    assert "on" in client.text("shell", command="echo on")


def test_a_sandbox_cannot_be_asked_to_stay(tendon):
    assert "--sandbox names one that stays" in tendon.fails(2, "mcp", "--keep")


def test_cancelling_interrupts_the_command(client, tmp_path):
    began, ended = tmp_path / "began", tmp_path / "ended"
    message = {
        "jsonrpc": "2.0",
        "id": "slow",
        "method": "tools/call",
        "params": {
            "name": "shell",
            "arguments": {
                "command": f"sh -c \"trap 'touch {ended}; exit' INT; touch {began}; sleep 1000 & wait\""
            },
        },
    }
    client.tell(message)
    eventually(began.exists, "it runs")
    client.tell(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}
    )
    eventually(ended.exists, "it was interrupted")
    assert "on" in client.text("shell", command="echo on")


def test_cancelling_interrupts_a_cell(client, tmp_path):
    began, ended = tmp_path / "began", tmp_path / "ended"
    code = f"""
        import pathlib, threading
        pathlib.Path({str(began)!r}).touch()
        try:
            threading.Event().wait(1000)
        finally:
            pathlib.Path({str(ended)!r}).touch()
        """
    params = {"name": "python", "arguments": {"code": textwrap.dedent(code)}}
    client.tell({"jsonrpc": "2.0", "id": "cell", "method": "tools/call", "params": params})
    eventually(began.exists, "it runs")
    client.tell(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "cell"}}
    )
    eventually(ended.exists, "it was interrupted")


# --- HTTP ---------------------------------------------------------------------------------------


def test_two_clients_have_two_sandboxes(tendon, served):
    one, two = served(), served()
    one.hello(), two.hello()
    one.text("shell", command="touch secret")
    assert "secret" not in two.text("shell", command="ls")
    mine = one.tool("sandbox_info")["structuredContent"]["id"]
    assert two.tool("shell", command="ls", sandbox=mine)["isError"]
    with pytest.raises(Failed, match="of yours"):
        two.call("resources/read", {"uri": f"tendon://{mine}/etc/hostname"})
    assert len(sandboxes(tendon)) == 2
    assert one.leave() in (200, 202, 204)
    eventually(lambda: len(sandboxes(tendon)) == 1, "its sandbox goes with it")


@pytest.mark.concurrent
def test_a_session_that_ends_takes_what_it_runs_along(tendon, served, tmp_path):
    client = served()
    client.hello()
    caller = threading.Thread(target=client.request, args=("POST", stubborn(tmp_path / "began")))
    caller.start()
    eventually((tmp_path / "began").exists, "it runs")
    client.leave()
    eventually(lambda: sandboxes(tendon) == [], "its sandbox goes with it")
    caller.join(60)


def test_a_request_without_a_session_has_its_sandbox_to_itself(tendon, served, tmp_path):
    one, two = served(), served()
    two.hello()
    meta = "io.modelcontextprotocol/"
    message = stubborn(tmp_path / "began")
    message["params"]["_meta"] = {
        meta + "protocolVersion": "2026-07-28",
        meta + "clientCapabilities": {},
    }
    one.headers.update(
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "shell"}
    )
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60)
    connection.request("POST", "/mcp", json.dumps(message), {**one.headers, **TYPES})
    eventually((tmp_path / "began").exists, "it runs")
    assert len(sandboxes(tendon)) == 1
    assert two.tool("sandbox_list")["structuredContent"]["sandboxes"] == []
    connection.close()
    eventually(lambda: sandboxes(tendon) == [], "its sandbox goes with it")


@pytest.mark.parametrize("version", ["2099-01-01", "draft"])
def test_a_client_from_the_future_has_a_session_too(served, version):
    one, two = served(), served()
    assert one.call("initialize", {**HELLO, "protocolVersion": version})["protocolVersion"] < "2026"
    two.hello()
    mine = one.tool("sandbox_new")["structuredContent"]["id"]
    assert two.tool("sandbox_list")["structuredContent"]["sandboxes"] == []
    assert two.tool("shell", command="ls", sandbox=mine)["isError"]


def test_a_wrong_key_is_refused(served):
    for key in ("", "open", "open sesame!", "Open sesame"):
        answer, _ = served(key).request("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status == 401


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_key_is_made_when_none_is_given(tendon, quiet):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = tendon.start("mcp", "--listen", f"127.0.0.1:{port}", *quiet)
    assert quiet or "listening" in process.stderr.readline()
    key = process.stderr.readline().split()[-1]
    client = Http(port, key)
    assert client.hello()["serverInfo"]["name"] == "tendon"
    assert Http(port, key[:-1]).request("GET")[0].status == 401
    process.terminate()
    process.wait(60)


# --- the published client -----------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_with_the_published_client(tendon, served, transport):
    directory = peers.peers("mcp")
    where = tendon.program if transport == "stdio" else f"http://127.0.0.1:{served().port}/mcp"
    result = subprocess.run(
        ["node", SDK_CLIENT, directory, where],
        env={**tendon.env, "KEY": "open sesame"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert seen["server"] == "tendon" and "shell" in seen["tools"]
    assert "from the sandbox" in seen["shell"] and seen["file"] == "text"
    assert seen["progress"] > 0 and "on its way" in seen["told"]
    assert seen["wrong"]

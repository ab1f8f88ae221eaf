"""OpenHands itself against a service: its RemoteRuntime, unmodified, does everything that it can do.

Run by test_service_openhands_package.py with a Python that has the package openhands-ai:
    openhands_program.py URL KEY RESULTS FOLDER
Every check_NAME below runs in this order; a line of RESULTS, {"check", "problem", "seconds"}, is written after each. They
share one runtime up to its close; what else a check needs it makes itself."""

import asyncio
import json
import os
import pathlib
import sys
import tempfile
import time
import traceback
import zipfile

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", NO_PROXY="*", LOG_LEVEL="WARNING")

import httpx  # noqa: E402
from openhands.core.config import OpenHandsConfig  # noqa: E402
from openhands.core.config.mcp_config import MCPStdioServerConfig  # noqa: E402
from openhands.core.exceptions import AgentRuntimeDisconnectedError, AgentRuntimeNotFoundError  # noqa: E402
from openhands.events import EventSource, EventStream, EventStreamSubscriber  # noqa: E402
from openhands.events.action import (  # noqa: E402
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
)
from openhands.events.action.mcp import MCPAction  # noqa: E402
from openhands.events.event import FileReadSource  # noqa: E402
from openhands.events.observation import ErrorObservation  # noqa: E402
from openhands.llm.llm_registry import LLMRegistry  # noqa: E402
from openhands.runtime.browser.utils import get_agent_obs_text  # noqa: E402
from openhands.runtime.builder.remote import RemoteRuntimeBuilder  # noqa: E402
from openhands.runtime.impl.remote.remote_runtime import RemoteRuntime  # noqa: E402
from openhands.runtime.plugins import AgentSkillsRequirement, JupyterRequirement, VSCodeRequirement  # noqa: E402
from openhands.storage.memory import InMemoryFileStore  # noqa: E402

URL, KEY, RESULTS, FOLDER = sys.argv[1:5]
SID = "openhands-package"
MCP_SERVER = pathlib.Path(__file__).resolve().parent.parent / "mcp/servers/fixture.py"
PAGE = """<!doctype html><title>A page</title><h1>Hello</h1>
<button onclick="document.title = 'Pressed'">Press</button>"""


def make(sid=SID, attach=False, **sandbox):
    config = OpenHandsConfig()
    config.sandbox.remote_runtime_api_url, config.sandbox.api_key = URL, KEY
    config.sandbox.runtime_startup_env_vars = {"FROM_THE_CLIENT": "yes"}
    for key, value in sandbox.items():
        setattr(config.sandbox, key, value)
    return RemoteRuntime(
        config,
        EventStream(sid, InMemoryFileStore()),
        LLMRegistry(config),
        sid=sid,
        plugins=[AgentSkillsRequirement(), JupyterRequirement(), VSCodeRequirement()],
        env_vars={"from_setup": 'a "quoted" value'},
        attach_to_existing=attach,
    )


class World:
    """What the checks share."""

    runtime = None

    def run(self, command, timeout=None, **fields):
        action = CmdRunAction(command, **fields)
        if timeout:
            action.set_hard_timeout(timeout)
        return self.runtime.run_action(action)

    def said(self, command, **fields):
        """What a command that succeeds wrote."""
        observation = self.run(command, **fields)
        assert observation.exit_code == 0, observation
        return observation.content

    def edit(self, command, path, **fields):
        return self.runtime.run_action(FileEditAction(path=path, command=command, **fields))


# --- the life ------------------------------------------------------------------------------------


async def check_connect(world):
    world.runtime = make(keep_runtime_alive=True)
    await world.runtime.connect()
    assert world.runtime.runtime_initialized and world.runtime.session_api_key


async def check_connect_again(world):
    """What connecting takes when everything was done before."""
    again = make(keep_runtime_alive=True, pause_closed_runtimes=False)
    await again.connect()
    assert again.runtime_id == world.runtime.runtime_id
    again.close()


def check_environment(world):
    assert world.said('echo "$FROM_THE_CLIENT, $FROM_SETUP"; pwd') == 'yes, a "quoted" value\n/workspace'
    assert world.said("git config --global user.name") == world.runtime.config.git_user_name


# --- commands ------------------------------------------------------------------------------------


def check_run(world):
    observation = world.run("cd /tmp && echo out && echo err >&2 && (exit 3)")
    assert (observation.content, observation.exit_code) == ("out\nerr", 3), observation
    assert observation.metadata.working_dir == "/tmp" and observation.metadata.hostname
    assert observation.command_id is not None and observation.metadata.py_interpreter_path is not None
    assert world.said("pwd") == "/tmp"
    world.said("cd /workspace")


def check_run_round_trip(world):
    assert world.said("true") == ""


def check_run_several_lines(world):
    assert world.said("for i in 1 2 3; do\n  echo line $i\ndone") == "line 1\nline 2\nline 3"
    assert world.said("cat <<END\nhere\n\nEND") == "here"
    refused = world.run("echo one\necho two")
    assert isinstance(refused, ErrorObservation) and "multiple commands" in refused.content, refused


def check_run_much(world):
    assert world.said("seq 1 5000") == "\n".join(map(str, range(1, 5001)))
    content = world.said("seq 1 20000")
    assert content.endswith("\n20000") and "[... Observation truncated" in content and len(content) < 31000, content


def check_run_unicode(world):
    assert world.said("printf 'grün 漢字 🙂'") == "grün 漢字 🙂"


def check_run_in_a_folder_of_its_own(world):
    observation = world.run("pwd; echo $BASHPID", is_static=True, hidden=True, cwd="/usr")
    assert observation.content.startswith("/usr\n") and observation.exit_code == 0 and observation.hidden, observation
    assert world.said("pwd") == "/workspace"


def check_run_timeout_and_interrupt(world):
    late = world.run("echo begun; sleep 600", timeout=2)
    assert late.exit_code == -1 and "begun" in late.content and "timed out after 2" in late.metadata.suffix, late
    busy = world.run("echo no", timeout=2)
    assert busy.exit_code == -1 and "NOT executed" in busy.metadata.suffix, busy
    ended = world.run("C-c", is_input=True, timeout=30)
    assert ended.exit_code == 130, ended
    assert world.said("echo again") == "again"


def check_run_input(world):
    asked = world.run("read -p 'name? ' name && echo hello $name", timeout=2)
    assert asked.exit_code == -1 and "name?" in asked.content, asked
    answered = world.run("Ada", is_input=True, timeout=30)
    assert answered.exit_code == 0 and "hello Ada" in answered.content, answered
    refused = world.run("Ada", is_input=True)
    assert "No previous running command" in refused.content, refused


def check_run_blocking(world):
    action = CmdRunAction("for i in 1 2 3; do sleep 0.2; echo $i; done")
    action.set_hard_timeout(60, blocking=True)
    assert world.runtime.run_action(action).content == "1\n2\n3"


def check_add_env_vars(world):
    world.runtime.add_env_vars({"later": "x 'y' z"})
    assert world.said('echo "$LATER"') == "x 'y' z"
    assert "export LATER=" in world.said("cat ~/.bashrc")


def check_event_stream(world):
    """As an agent acts: an action goes into the stream, and the runtime puts the observation there."""
    found = []
    stream = world.runtime.event_stream
    stream.subscribe(EventStreamSubscriber.TEST, found.append, "test")
    stream.add_event(CmdRunAction("echo by the stream"), EventSource.AGENT)
    deadline = time.monotonic() + 60
    while not any(getattr(event, "content", "") == "by the stream" for event in found):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    stream.unsubscribe(EventStreamSubscriber.TEST, "test")


# --- files ---------------------------------------------------------------------------------------


def check_write_and_read(world):
    written = world.runtime.run_action(FileWriteAction("notes/a.txt", "one\ntwo\nthree\n"))
    assert written.path.endswith("notes/a.txt") and not isinstance(written, ErrorObservation), written
    whole = world.runtime.run_action(FileReadAction("notes/a.txt"))
    assert whole.content == "one\ntwo\nthree\n\n", whole  # a line's end after every line, so the original
    part = world.runtime.run_action(FileReadAction("/workspace/notes/a.txt", start=1, end=2))
    assert part.content.splitlines() == ["two"], part
    missing = world.runtime.run_action(FileReadAction("missing.txt"))
    assert isinstance(missing, ErrorObservation) and "not found" in missing.content.lower(), missing


def check_read_a_picture(world):
    data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    world.said(f"echo {data} | base64 -d >/workspace/pixel.png")
    assert world.runtime.run_action(FileReadAction("pixel.png")).content == f"data:image/png;base64,{data}"


def check_edit(world):
    path = "/workspace/edited.py"
    created = world.edit("create", path, file_text="a = 1\nb = 2\n")
    assert "File created successfully" in created.content and created.path == path, (created.content, created)
    replaced = world.edit("str_replace", path, old_str="b = 2", new_str="b = 3")
    assert "has been edited" in replaced.content and "-b = 2" in replaced.diff and "+b = 3" in replaced.diff, replaced
    assert (replaced.old_content, replaced.new_content) == ("b = 2", "b = 3"), (replaced.old_content, replaced.new_content)
    inserted = world.edit("insert", path, insert_line=1, new_str="middle = 0")
    assert "middle = 0" in inserted.content, inserted
    undone = world.edit("undo_edit", path)
    assert "undone successfully" in undone.content, undone
    assert world.said(f"cat {path}") == "a = 1\nb = 3"
    missing = world.edit("str_replace", path, old_str="nowhere", new_str="x")
    assert missing.content.startswith("ERROR:") and "did not appear verbatim" in missing.content, missing


def check_view(world):
    world.said("mkdir -p /workspace/seen && seq 1 20 >/workspace/seen/numbers")
    view = dict(impl_source=FileReadSource.OH_ACI)
    whole = world.runtime.run_action(FileReadAction("/workspace/seen/numbers", **view))
    assert "    20\t20" in whole.content and whole.impl_source == FileReadSource.OH_ACI, whole
    part = world.runtime.run_action(FileReadAction("/workspace/seen/numbers", view_range=[3, 4], **view))
    assert "     3\t3" in part.content and "\t5" not in part.content, part
    folder = world.runtime.run_action(FileReadAction("/workspace/seen", **view))
    assert "/workspace/seen/numbers" in folder.content, folder


def check_list_files(world):
    world.said("mkdir -p /workspace/listed/folder && touch /workspace/listed/file")
    assert world.runtime.list_files("/workspace/listed") == ["folder/", "file"]
    assert "listed/" in world.runtime.list_files()


def check_copy(world):
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        tree = pathlib.Path(folder, "tree")
        (tree / "below").mkdir(parents=True)
        (tree / "below/deep.bin").write_bytes(bytes(range(256)) * 4096)
        (tree / "top.txt").write_text("top\n")
        world.runtime.copy_to(str(tree), "/workspace/copied", recursive=True)
        world.runtime.copy_to(str(tree / "top.txt"), "/workspace/copied")
        assert world.said("cd /workspace/copied && find . -type f | sort; cd /workspace").splitlines() == [
            "./top.txt",
            "./tree/below/deep.bin",
            "./tree/top.txt",
        ]
        archive = world.runtime.copy_from("/workspace/copied")
        with zipfile.ZipFile(archive) as zipped:
            assert not zipped.testzip()
            content = {name: zipped.read(name) for name in zipped.namelist() if not name.endswith("/")}
        archive.unlink()
        assert content["tree/below/deep.bin"] == (tree / "below/deep.bin").read_bytes(), sorted(content)


# --- repositories --------------------------------------------------------------------------------


async def check_git(world):
    """init, clone, branch, changes and diffs, with what the runtime itself sends into the sandbox."""
    world.said("mkdir -p /workspace/origin && cd /workspace/origin && git init -q -b main . && echo one >file && git add file"
               " && git commit -q -m first && cd /workspace")
    world.runtime.config.init_git_in_empty_workspace = True
    assert await world.runtime.clone_or_init_repo(None, None, None) == ""
    assert world.said("cd /workspace && ls -d .git") == ".git"
    world.said("rm -rf /workspace/.git; git clone -q /workspace/origin /workspace/project; cd /workspace/project; echo two >>file;"
               " echo new >added; cd /workspace")
    assert world.runtime.get_workspace_branch("project") == "main"
    changes = world.runtime.get_git_changes("/workspace/project")
    assert sorted((change["status"], change["path"]) for change in changes) == [("A", "added"), ("M", "file")], changes
    diff = world.runtime.get_git_diff("file", "/workspace/project")
    assert diff["original"].split() == ["one"] and diff["modified"].split() == ["one", "two"], diff


def check_setup_script_and_hooks(world):
    world.said("mkdir -p /workspace/.openhands && echo 'echo set up >/workspace/was-set-up' >/workspace/.openhands/setup.sh"
               " && echo 'exit 0' >/workspace/.openhands/pre-commit.sh && git init -q /workspace")
    world.runtime.maybe_run_setup_script()
    assert world.said("cat /workspace/was-set-up") == "set up"
    world.runtime.maybe_setup_git_hooks()
    assert world.said("test -x /workspace/.git/hooks/pre-commit && echo hooked") == "hooked"


def check_microagents(world):
    text = "---\nname: helper\ntype: knowledge\ntriggers:\n- helping\n---\n\nHow to help.\n"
    world.runtime.run_action(FileWriteAction("/workspace/.openhands/microagents/helper.md", text))
    assert [agent.name for agent in world.runtime.get_microagents_from_selected_repo(None)] == ["helper"]


# --- Python, the browser, MCP, the editor --------------------------------------------------------


def check_ipython(world):
    def cell(code, **fields):
        return world.runtime.run_action(IPythonRunCellAction(code, **fields))

    first = cell("x = 6 * 7\nprint(x)")
    assert first.content.startswith("42") and "[Jupyter current working directory:" in first.content, first
    assert cell("x + 1", include_extra=False).content.strip() == "43"
    assert "ZeroDivisionError" in cell("1 / 0").content
    assert "yes" in cell("import os; print(os.environ['FROM_THE_CLIENT'])").content


def check_agent_skills(world):
    world.said("seq 1 300 >/workspace/long")
    told = world.runtime.run_action(IPythonRunCellAction("open_file('/workspace/long', 150)"))
    assert "[File: /workspace/long (300 lines total)]" in told.content, told


def check_browse(world):
    world.runtime.run_action(FileWriteAction("/workspace/site/index.html", PAGE))
    world.said("cd /workspace/site && (python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &) ; cd /workspace")
    world.said("timeout 30 bash -c 'until (: </dev/tcp/127.0.0.1/8123) 2>/dev/null; do sleep 0.1; done'")
    action = BrowseURLAction("http://127.0.0.1:8123/", return_axtree=True)
    action.set_hard_timeout(120)
    page = world.runtime.run_action(action)
    assert not getattr(page, "error", True) and "Hello" in page.content, page
    assert page.url == "http://127.0.0.1:8123/" and page.screenshot.startswith("data:image/") and page.axtree_object
    assert page.open_pages_urls == ["http://127.0.0.1:8123/"]
    nodes = page.axtree_object["nodes"]
    button = [node["browsergym_id"] for node in nodes if node["role"]["value"] == "button"][0]
    pressed = BrowseInteractiveAction(f"click('{button}')\nnoop(200)", return_axtree=True)
    pressed.set_hard_timeout(120)
    page = world.runtime.run_action(pressed)
    assert not page.error and page.last_browser_action.startswith("click("), page
    assert "Pressed" in json.dumps(page.axtree_object), page.axtree_object
    assert "RootWebArea 'Pressed'" in get_agent_obs_text(page), get_agent_obs_text(page)


async def check_mcp(world):
    world.runtime.run_action(FileWriteAction("/workspace/server.py", MCP_SERVER.read_text()))
    server = MCPStdioServerConfig(name="local", command="python3", args=["/workspace/server.py"])
    world.runtime.config.mcp.stdio_servers.append(server)
    observation = await world.runtime.call_tool_mcp(MCPAction("test_simple_text", {}))
    told = json.loads(observation.content)
    assert not told["isError"] and told["content"][0]["type"] == "text", told


def check_no_vscode(world):
    """Without an editor in the sandbox there is no token, and no URL."""
    assert world.runtime.vscode_url is None


async def check_image_of_its_own_and_vscode(world):
    """Its image is the name of a template of the service, which has an editor."""
    runtime = make(sid="editor", runtime_container_image="example.org/editor")
    await runtime.connect()
    url = runtime.vscode_url
    assert url.startswith(f"{URL}/{runtime.runtime_id}/vscode?tkn=") and url.endswith("&folder=/workspace"), url
    opened = httpx.get(url)  # as a browser: without any key
    assert opened.status_code == 302 and runtime.runtime_id in opened.headers["Location"], opened
    runtime.close()


def check_web_hosts(world):
    hosts = world.runtime.web_hosts
    assert len(hosts) == 2 and all(isinstance(port, int) and host.startswith("http") for host, port in hosts.items()), hosts


# --- images --------------------------------------------------------------------------------------


def check_image_exists(world):
    builder = RemoteRuntimeBuilder(URL, KEY)
    assert builder.image_exists("example.org/whatever:1") is True


def check_build_is_refused(world):
    """Jails have no images: the builder hears why."""
    pathlib.Path(FOLDER, "context").mkdir()
    try:
        RemoteRuntimeBuilder(URL, KEY).build(str(pathlib.Path(FOLDER, "context")), ["example.org/whatever:1"])
    except httpx.HTTPStatusError as error:
        assert error.response.status_code == 501 and "takes no images" in str(error), error
        return
    raise AssertionError("it built")


# --- sessions ------------------------------------------------------------------------------------


async def check_attach(world):
    world.said("KEPT=yes")
    second = make(attach=True)
    await second.connect()
    assert second.runtime_id == world.runtime.runtime_id
    assert second.run_action(CmdRunAction("echo $KEPT")).content == "yes"
    second.close()
    assert world.said("echo $KEPT") == "yes"


async def check_attach_to_nothing(world):
    nobody = make(sid="nobody", attach=True)
    try:
        await nobody.connect()
    except AgentRuntimeNotFoundError:
        return
    raise AssertionError("it attached")


async def check_pause_at_close_and_resume_at_connect(world):
    world.said("echo file >/workspace/kept; KEPT=still")
    before = world.runtime.runtime_id
    world.runtime.close()
    world.runtime = make(keep_runtime_alive=True)
    await world.runtime.connect()
    assert world.runtime.runtime_id == before
    assert world.said("cat /workspace/kept; echo $KEPT") == "file\nstill"


def check_use_of_a_paused_one(world):
    """It wakes. (Where it answers 503 instead, OpenHands 0.59.0 waits for ever: it resumes, and sets up the environment
    with actions, while it holds the lock of the action that was refused.)"""
    world.runtime._send_runtime_api_request("POST", f"{URL}/pause", json={"runtime_id": world.runtime.runtime_id})
    assert world.said("echo $KEPT") == "still"


async def check_stop_at_close(world):
    world.runtime.config.sandbox.keep_runtime_alive = False
    before = world.runtime.runtime_id
    world.runtime.close()
    world.runtime = make()
    await world.runtime.connect()
    assert world.runtime.runtime_id != before
    assert world.run("ls /workspace").content == ""


def check_stopped_under_it(world):
    world.runtime._send_runtime_api_request("POST", f"{URL}/stop", json={"runtime_id": world.runtime.runtime_id})
    try:
        world.run("true")
    except AgentRuntimeDisconnectedError:
        world.runtime.attach_to_existing = True  # nothing is there to be stopped
        world.runtime.close()
        return
    raise AssertionError("it ran")


def main():
    world = World()
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    with open(RESULTS, "a", buffering=1) as results:
        for name, check in checks.items():
            began, problem = time.monotonic(), None
            try:
                told = check(world)
                if asyncio.iscoroutine(told):
                    asyncio.run(told)
            except Exception:
                problem = traceback.format_exc()
            seconds = round(time.monotonic() - began, 4)
            print(json.dumps({"check": name, "problem": problem, "seconds": seconds}), file=results)
    os._exit(0)  # threads of its event streams wait for ever


if __name__ == "__main__":
    main()

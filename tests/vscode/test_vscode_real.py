"""Real editors in a real browser: the page is there, and shows what is in the workspace."""

import json
import os
import shutil
import signal

import pytest

from chrome import Chrome
from editors import FAKE, Editor
from harness import Factory, census, wait_until
from peers import code_server
from tendons import Tendon

pytestmark = pytest.mark.timeout(240)


def node(path):
    """The command of a program inside code-server's package."""
    return f"{shutil.which('node')} {code_server()}/node_modules/code-server/{path}"


@pytest.fixture(scope="module")
def chrome():
    chrome = Chrome()
    yield chrome
    chrome.close()


def see_workspace(chrome, url, name):
    """Opens the editor and waits for a file in its list."""
    chrome.open(url)
    chrome.wait_for(
        "document.querySelector('.explorer-folders-view')?.innerText"
        f".includes({json.dumps(name)})",
        120,
    )


def see_file(chrome, name, content):
    """Opens that file and waits for its content."""
    chrome.click(name)
    chrome.wait_for(
        "document.querySelector('.view-lines')?.innerText.replaceAll('\\u00a0', ' ')"
        f".includes({json.dumps(content)})"
    )


def see_extensions(chrome):
    """Ours run in there: one is in the status bar, one answers to its command."""
    chrome.wait_for(
        r"/\d (MB|GB) \/ [\d.]+ (MB|GB)/.test(document.querySelector('.part.statusbar')?.innerText)"
    )
    chrome.command(
        "Tendon: Hello World",
        "document.querySelector('.notifications-toasts')?.innerText"
        ".includes('Hello World from Tendon')",
    )
    chrome.command(
        "Tendon: Show Memory",
        "document.querySelector('.quick-input-widget')?.innerText.includes('Memory of the sandbox')"
        " && document.querySelector('.quick-input-list').innerText.includes(' in all')",
    )
    chrome.press("Escape", 27)


def processes(editor):
    return {pid for pid, command in census(editor.hand.mark).items() if "node" in command}


def test_code_server(factory, chrome):
    editor = Editor(factory, node("out/node/entry.js"))
    (editor.hand.workspace / "hello.txt").write_text("good morning\n")
    url = f"http://127.0.0.1:{editor.port}/?tkn={editor.wait_token()}&folder="
    url += str(editor.hand.workspace)
    see_workspace(chrome, url, "hello.txt")
    see_file(chrome, "hello.txt", "good morning")
    see_extensions(chrome)
    listed = editor.hand.home / ".local/share/code-server/extensions/extensions.json"
    ids = {extension["identifier"]["id"] for extension in json.loads(listed.read_text())}
    assert {"tendon.hello-world", "tendon.memory-monitor"} <= ids
    assert editor.token not in chrome.evaluate("location.href + document.cookie")

    first = editor.status["pids"][0]
    os.kill(first, signal.SIGKILL)
    (editor.hand.workspace / "second.txt").touch()
    see_workspace(chrome, url, "second.txt")
    status = editor.status
    assert status["pids"] != [first] and status["restarts"] >= 1 and status["memory"] > 1 << 20
    editor.hand.stop(20)  # which looks for leftovers


def test_the_server_of_vscode_itself_below_a_path(factory, chrome):
    """Behind its own command line, which is that of openvscode-server."""
    editor = Editor(
        factory,
        node("lib/vscode/out/server-main.js"),
        name="openvscode-server",
        env={"OPENVSCODE_SERVER_BASE_PATH": "one/two"},
    )
    (editor.hand.workspace / "hello.txt").touch()
    url = f"http://127.0.0.1:{editor.port}/one/two/?tkn={editor.wait_token()}"
    see_workspace(chrome, url, "hello.txt")
    see_extensions(chrome)
    assert chrome.evaluate("location.pathname").startswith("/one/two/")
    editor.hand.stop(20)


def test_kill_9_of_the_hand_leaves_nothing(factory):
    editor = Editor(factory, node("out/node/entry.js"))
    assert editor.ask("GET", "/").status in (200, 302)
    assert len(processes(editor)) >= 2
    editor.hand.kill9()
    later = Factory()
    try:
        Editor(later, FAKE, tmp=editor.hand.tmp)
        wait_until(lambda: not census(editor.hand.mark), 60, "no process of the first")
    finally:
        later.finish()
    assert not list(editor.hand.tmp.iterdir())


@pytest.fixture
def jailed(tendon_program, tmp_path):
    tendon = Tendon(tendon_program, tmp_path, "jail")
    result = tendon("doctor", "--runtime", "jail")
    if result.returncode != 0:
        pytest.skip(f"the jail does not work here: {result.stdout}{result.stderr}")
    yield tendon
    assert tendon("rm", "--all", "--quiet").returncode == 0
    assert tendon.leftovers() == []


def test_in_a_jail_without_any_network(jailed, chrome):
    editor = "/opt/editor/node_modules/.bin/code-server"
    jailed.ok("new", "--name", "box", "--network", "none", "--env", f"TENDON_VSCODE={editor}",
              "--volume", f"{code_server()}:/opt/editor:ro")  # fmt: skip
    jailed.ok("exec", "box", "touch hello.txt")
    process = jailed.start("open", "box", "--vscode", "--print")
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:"), url
    see_workspace(chrome, url, "hello.txt")
    see_extensions(chrome)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_sandbox_without_an_editor_says_what_to_install(jailed):
    jailed.ok("new", "--name", "box")
    result = jailed("open", "box", "--vscode")
    assert result.returncode != 0
    assert "no openvscode-server or code-server in this sandbox" in result.stderr

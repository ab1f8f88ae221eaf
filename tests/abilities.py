"""What an agent can do in a sandbox beyond shell and files, checked the same way in every backend.

A Place makes sandboxes, one of each kind for all tests of a file: `full` has everything, with a stand-in for the editor;
`editor` has code-server, `poor` a Python without packages, `bare` nothing at all. WORKING and ABSENT are the checks; what they get is a Box."""

import collections
import concurrent.futures
import contextlib
import pathlib
import shutil
import sqlite3
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE / folder) for folder in ("hand", "mcp")]

from client import Client, Shell  # noqa: E402
from harness import wait_until  # noqa: E402
from peers import code_server  # noqa: E402
from mcp_clients import Stdio  # noqa: E402
from speak import Listener, Session, SseSession, servers, update  # noqa: E402

# Seconds until somebody whose helper was killed has heard of it, on a busy machine; calls themselves may take LONG.
IN_TIME, LONG = 15, 90
PYTHON = "/usr/bin/python3"
PARTS = "/opt/parts"  # where the files below are inside

# A page, and one that is never answered.
SITE = """
import http.server, pathlib, threading

class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/hang":
            pathlib.Path("/tmp/site-hangs").touch()
            threading.Event().wait(600)
        super().do_GET()

http.server.ThreadingHTTPServer(("127.0.0.1", 8123), Handler).serve_forever()
"""
SITE_URL = "http://127.0.0.1:8123"
PAGE = """<!doctype html><title>A page</title><h1>Hello</h1>
<button onclick="document.title = 'Pressed'">Press</button>"""
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
# What pages say, whatever their status; each is named as seen from the one before, and cookies are kept.
FETCH = """
import sys, urllib.error, urllib.parse, urllib.request as u, http.cookiejar as c
opener = u.build_opener(u.ProxyHandler({}), u.HTTPCookieProcessor(c.CookieJar()))
url = ""
for name in sys.argv[1:]:
    url = urllib.parse.urljoin(url, name)
    try:
        answer = opener.open(url, timeout=100)
    except urllib.error.HTTPError as error:
        answer = error
    url = answer.geturl()
    print(answer.status, answer.read().decode().strip())
"""
# Holds a web socket of the editor until it ends; the argument is the page that lets in.
HOLD = """
import http.client, http.cookiejar, pathlib, sys, urllib.parse, urllib.request as u
jar = http.cookiejar.CookieJar()
opener = u.build_opener(u.ProxyHandler({}), u.HTTPCookieProcessor(jar))
at = urllib.parse.urlsplit(opener.open(sys.argv[1], timeout=100).geturl())
connection = http.client.HTTPConnection(at.netloc, timeout=100)
connection.request("GET", at.path + "socket?reconnectionToken=1&reconnection=false", headers={
    "Cookie": "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar),
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": "http://" + at.netloc})
print(connection.getresponse().status)
pathlib.Path("/tmp/held").touch()
try:
    while connection.sock.recv(65536):
        pass
except ConnectionResetError:
    pass
print("ended")
"""
CONFIG = f"""
[mcp]
stdio_servers = [{{ name = "host", command = "{PYTHON}", args = ["{PARTS}/odd.py", "--name", "host"] }}]
"""


class Place:
    """Where sandboxes are made. equipped, bare: words of `tendon new` for a system with everything, and with nothing;
    static_hand: one that needs no libraries."""

    def __init__(self, tendon, base, equipped, bare, static_hand):
        self.tendon, self.equipped, self.bare, self.boxes = tendon, equipped, bare, {}
        self.base, self.static_hand = base, str(static_hand)
        self.parts, self.empty, self.gone = (base / name for name in ("parts", "empty", "gone"))
        for directory in (self.parts, self.empty, self.gone):
            directory.mkdir()
        for source, name in (
            (HERE.parent / "examples/tendon-plugin-example", "tendon-plugin-example"),
            (HERE / "hand/rogue.py", "tendon-plugin-rogue"),
            (HERE / "vscode/fake-server", "code-server"),
            (HERE / "mcp/servers/odd.py", "odd.py"),
        ):
            shutil.copy(source, self.parts / name)
            (self.parts / name).chmod(0o755)
        (self.parts / "site.py").write_text(SITE)
        (self.parts / "fetch.py").write_text(FETCH)
        (self.parts / "hold.py").write_text(HOLD)
        shutil.copy(self.parts / "tendon-plugin-rogue", self.gone / "tendon-plugin-gone")
        (base / "config.toml").write_text(CONFIG)
        self.config = str(base / "config.toml")

    def words(self, kind):
        words = [*(self.bare if kind == "bare" else self.equipped), "--volume", f"{self.parts}:{PARTS}:ro"]
        if kind == "full":
            env = {"TENDON_PLUGIN_PATH": PARTS, "TENDON_VSCODE": f"{PARTS}/code-server", "FAKE_NOTES": "/tmp"}
            words += [word for pair in env.items() for word in ("--env", "=".join(pair))]
            return [*words, "--plugins", "jupyter,agent_skills,example,rogue"]
        if kind == "editor":
            words += ["--volume", f"{code_server()}:/opt/editor:ro"]
            return [*words, "--env", "TENDON_VSCODE=/opt/editor/node_modules/.bin/code-server", "--plugins", ""]
        if kind == "poor":
            for path in ("/usr/lib/python3/dist-packages", "/usr/local/lib"):
                words += ["--volume", f"{self.empty}:{path}:ro"]
            return words
        words += ["--volume", f"{self.gone}:/opt/gone:ro", "--env", "TENDON_PLUGIN_PATH=/opt/gone"]
        return [*words, "--plugins", "jupyter,agent_skills,gone"]

    def box(self, kind):
        if kind not in self.boxes:
            env = {"bare": {"TENDON_HAND_PROGRAM": self.static_hand}, "full": {"TENDON_CONFIG": self.config}}.get(kind)
            self.tendon.ok("--quiet", "new", "--name", kind, *self.words(kind), env=env)
            if kind == "bare":
                (self.gone / "tendon-plugin-gone").unlink()
            self.boxes[kind] = Box(self, kind)
        return self.boxes[kind]

    def finish(self):
        self.tendon.ok("rm", "--all", "--quiet")
        assert self.tendon.leftovers() == []


class Box:
    """A sandbox, with a client of its hand."""

    def __init__(self, place, name):
        self.place, self.tendon, self.name = place, place.tendon, name
        with contextlib.closing(sqlite3.connect(self.tendon.state / "tendon.db", timeout=20)) as db:
            row = db.execute("SELECT key, address FROM sandbox WHERE name = ?", (name,)).fetchone()
        self.headers = {"X-Session-API-Key": row[0]}
        self.client = Client(row[1].removeprefix("unix:"), self.headers)

    def plugin(self, name):
        reply = self.client.get(f"/v1/plugins/{name}")
        assert reply.status == 200, reply
        return reply.json

    def exists(self, path):
        return self.client.run(f"test -e {path}").exit == 0

    def kill9(self, pid):
        assert pid > 1
        self.client.ok(f"kill -9 {pid}")

    @contextlib.contextmanager
    def tools(self):
        """A client of `tendon mcp`, which is one more way in."""
        client = Stdio(self.tendon.start("mcp", "--sandbox", self.name, stdin=subprocess.PIPE))
        client.hello()
        yield client
        assert client.leave() == 0

    def killed(self, call, begun, pid):
        """What a call returns whose helper is killed while it is at it."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(call)
            wait_until(lambda: begun() or answer.done(), LONG, "the call is under way")
            assert not answer.done(), answer.result()
            self.kill9(pid())
            return answer.result(IN_TIME)


# --- what is there ---------------------------------------------------------------------------------


def cell(box, code, timeout=LONG):
    obs = box.client.act("run_ipython", {"code": code, "include_extra": False}, timeout)
    assert obs.type == "run_ipython", obs
    return obs.content


def check_ipython(box):
    assert cell(box, "x = 41\nprint('x is', x + 1)") == "x is 42"
    assert cell(box, "x") == "41"
    box.client.ok("greet() { echo \"it's $1\"; }; export -f greet")
    assert cell(box, "!bash -c 'greet you'") == "it's you"
    box.client.ok("unset -f greet")
    assert cell(box, "!bash -c greet 2>/dev/null || echo gone") == "gone"
    for helper in ("bridge", "kernel"):
        mark = f"/tmp/cell-{helper}"
        code = f"import threading\nopen({mark!r}, 'w').close()\nthreading.Event().wait(600)"
        place = ("bridge", "kernel").index(helper)
        told = box.killed(
            lambda: cell(box, code), lambda: box.exists(mark), lambda: box.plugin("jupyter")["pids"][place]
        )
        assert "SIGKILL" in told and "Its variables are lost; the next cell starts a new one." in told, helper
        assert "again" in cell(box, "print('again')")


def check_agent_skills(box):
    made = cell(box, "print(file_editor(command='create', path='/tmp/skill.txt', file_text='one\\ntwo\\n'))")
    assert "File created successfully at: /tmp/skill.txt" in made
    assert "[File: /tmp/skill.txt (2 lines total)]" in cell(box, "open_file('/tmp/skill.txt')")
    assert "parse_pdf(file_path):" in cell(box, "import agentskills; print(agentskills.DOCUMENTATION)")
    assert "SIGKILL" in cell(box, "import os; os.kill(os.getpid(), 9)")
    found = cell(box, "search_file('two', '/tmp/skill.txt')")
    assert "Line 2: two" in found, found  # a new kernel has them as well


def start_site(box):
    if not box.exists("/tmp/site/index.html"):
        box.client.write("/tmp/site/index.html", PAGE)
        box.client.ok(f"(cd /tmp/site && exec {PYTHON} {PARTS}/site.py >/dev/null 2>&1) &")
    listening = "until (exec 3<>/dev/tcp/127.0.0.1/8123) 2>/dev/null; do sleep 0.05; done"
    box.client.ok(f"bash -c '{listening}'", timeout=LONG, blocking=True)


def browse(box, actions, timeout=LONG):
    obs = box.client.act("browse_interactive", {"browser_actions": actions}, timeout)
    assert obs.type == "browse", obs
    return obs


def check_browser(box):
    """A page of a server inside; a button is pressed by the id that the tree shows."""
    start_site(box)
    shown = browse(box, f'goto("{SITE_URL}/")')
    assert "Hello" in shown.content and shown.extras["screenshot"].startswith("data:image/")
    line = next(line for line in shown.content.splitlines() if "button 'Press'" in line)
    assert "Pressed" in browse(box, f'click("{line.split("]")[0].strip(chr(9) + " [")}")').content
    told = box.killed(
        lambda: browse(box, f'goto("{SITE_URL}/hang")'),
        lambda: box.exists("/tmp/site-hangs"),
        lambda: box.plugin("browser")["pids"][0],
    )
    assert told.extras["error"] and "SIGKILL" in told.extras["last_browser_action_error"], told
    assert "Hello" in browse(box, f'goto("{SITE_URL}/")').content


def check_viewer(box):
    """It is for the browser inside, and for nobody else."""
    box.client.ok(f"echo {PICTURE} | base64 -d >/tmp/dot.png")
    url = box.client.ok("cat /tmp/oh-server-url") + "/view?path=/tmp/dot.png"
    assert "File Viewer - dot.png" in box.client.ok(f"{PYTHON} {PARTS}/fetch.py '{url}'", timeout=LONG, blocking=True)
    shown = browse(box, f'goto("{url}")')
    assert "File Viewer - dot.png" in shown.content and not shown.extras["error"]


def server(name, *args):
    return {"name": name, "command": PYTHON, "args": [f"{PARTS}/odd.py", "--name", name, *args], "env": {}}


def check_mcp(box):
    # Those of the configuration, through the host.
    env = {"TENDON_CONFIG": box.place.config}
    assert box.tendon.ok("tools", box.name, "call", "echo", "text=hello", env=env) == "host: hello\n"
    # Others instead of them, through both kinds of endpoints.
    assert update(box, server("one"), server("two")) == ""
    session, sse = Session(box, headers=box.headers), SseSession(box, headers=box.headers)
    assert session.text("one_echo", text="x") == "one: x"
    heard = sse.call("tools/call", name="two_echo", arguments={"text": "y"})
    assert heard["content"][0]["text"] == "two: y"
    pids = {name: status["pid"] for name, status in servers(box).items()}
    assert set(pids) == {"one", "two"}
    # Replaced: what is no more has ended, what stays goes on.
    assert update(box, server("two"), server("three")) == ""
    wait_until(lambda: not box.exists(f"/proc/{pids['one']}"), IN_TIME, "what is no more has ended")
    assert servers(box)["two"]["pid"] == pids["two"]
    assert "three_echo" in session.tools() and "one_echo" not in session.tools()
    log = Listener(session.get())

    def hanging():
        return any(isinstance(m, dict) and m.get("params", {}).get("data") == "hanging" for m in log.said)

    told = box.killed(lambda: session.tool("three_hang"), hanging, lambda: servers(box)["three"]["pid"])
    assert told["isError"] and "MCP server 'three' was ended by SIGKILL" in told["content"][0]["text"]
    assert session.text("three_echo", text="z") == "three: z"
    sse.close()


class Visitor:
    """Commands beside the main shell, however long they say nothing."""

    def __init__(self, box):
        self.shell = Shell(box.client, "visitor", "/tmp")

    def __call__(self, command):
        return self.shell.ok(command, timeout=LONG, blocking=True)


def editor_page(box):
    place = box.client.post("/v1/vscode", {}, timeout=LONG).json
    return f"'http://127.0.0.1:{place['port']}{place['base']}{place['page']}'"


def kill_visited(box, shown, talk, mark):
    """What one who visits the editor is told while that is killed: its page shows `shown`, talk(page) is the command
    of the visit, which has begun when `mark` is there. The next visit starts another editor."""
    page = editor_page(box)
    visit = Visitor(box)
    first = visit(f"{PYTHON} {PARTS}/fetch.py {page}")
    assert first.startswith("200 ") and shown in first, first
    (pid,) = box.plugin("vscode")["pids"]
    told = box.killed(lambda: visit(talk(page)), lambda: box.exists(mark), lambda: pid)
    assert visit(f"{PYTHON} {PARTS}/fetch.py {page}").startswith("200 ")
    assert box.plugin("vscode")["pids"] != [pid]
    visit.shell.remove()
    return told


def check_editor(box):
    """Its stand-in, in the middle of an answer."""
    told = kill_visited(
        box, '"target": "/?folder=', lambda page: f"{PYTHON} {PARTS}/fetch.py {page} hang | tail -n 1", "/tmp/hangs"
    )
    assert told.startswith("502 "), told


def check_code_server(box):
    """The real one, with a web socket open."""
    told = kill_visited(box, "vscode-workbench", lambda page: f"{PYTHON} {PARTS}/hold.py {page}", "/tmp/held")
    assert told.split() == ["101", "ended"]


def check_plugin(box):
    """Programs of their own, in and out of the tree."""
    obs = box.client.act("example.reverse", {"text": "abc"}, LONG)
    assert (obs.type, obs.content) == ("mcp", "cba")
    told = box.killed(
        lambda: box.client.act("rogue.hang", {"mark": "/tmp/rogue-hangs"}, LONG),
        lambda: box.exists("/tmp/rogue-hangs"),
        lambda: box.plugin("rogue")["pids"][0],
    )
    assert (told.type, told.content) == ("error", "rogue.hang: tendon-plugin-rogue was ended by SIGKILL")
    assert box.client.act("rogue.echo", {"text": "again"}, LONG).content == '{"text": "again"}'
    assert box.plugin("rogue")["restarts"] == 1
    pids = box.plugin("example")["pids"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(box.client.act, "example.wait", {"seconds": 600}, LONG)

        def ended():  # one that comes too early interrupts nothing
            assert box.client.post("/v1/plugins/example/interrupt", {}).status == 200
            return answer.done()

        wait_until(ended, IN_TIME, "the action is interrupted")
    assert answer.result().content == "example.wait: was interrupted: InterruptedError: stopped early"
    assert box.plugin("example")["pids"] == pids


def check_tools(box):
    start_site(box)
    with box.tools() as client:
        assert "x is 42" in client.text("python", code="x = 42\nprint('x is', x)", timeout=LONG)
        assert "Hello" in client.text("browse", url=f"{SITE_URL}/", timeout=LONG)
        tree, picture = client.tool("browser", actions="noop(1)", screenshot=True)["content"]
        assert "button 'Press'" in tree["text"] and picture["mimeType"] == "image/png"


WORKING = {
    "ipython": check_ipython,
    "agent_skills": check_agent_skills,
    "browser": check_browser,
    "viewer": check_viewer,
    "mcp": check_mcp,
    "editor": check_editor,
    "plugin": check_plugin,
    "tools": check_tools,
}


# --- what is not there -----------------------------------------------------------------------------


def action(kind, **args):
    def ask(box):
        obs = box.client.act(kind, args, LONG)
        assert obs.type == "error", obs
        return obs.content

    return ask


def tool(name, **args):
    def ask(box):
        with box.tools() as client:
            result = client.tool(name, **args)
        assert result["isError"], result
        return result["content"][0]["text"]

    return ask


def refused(path):
    def ask(box):
        reply = box.client.post(path, {}, timeout=LONG)
        assert reply.status in (404, 501), reply
        return reply.detail

    return ask


Absent = collections.namedtuple("Absent", "kind plugin ask install")
KERNEL = "apt-get install python3-ipykernel"
ABSENT = {
    "ipython-no-python": Absent("bare", "jupyter", action("run_ipython", code="1"), KERNEL),
    "ipython-no-ipykernel": Absent("poor", "jupyter", action("run_ipython", code="1"), KERNEL),
    "python-tool": Absent("bare", "jupyter", tool("python", code="1"), KERNEL),
    "skills-no-python": Absent("bare", "agent_skills", refused("/v1/plugins/agent_skills/start"), KERNEL),
    "skills-no-ipykernel": Absent("poor", "agent_skills", refused("/v1/plugins/agent_skills/start"), KERNEL),
    "browse": Absent("bare", "browser", action("browse", url=SITE_URL), "apt-get install chromium"),
    "browse-tool": Absent("bare", "browser", tool("browse", url=SITE_URL), "apt-get install chromium"),
    "browser": Absent("bare", "browser", refused("/v1/plugins/browser/start"), "apt-get install chromium"),
    "vscode": Absent("bare", "vscode", refused("/v1/vscode"), "npm install -g code-server"),
    "plugin": Absent("bare", "gone", action("gone.echo"), "put it into a directory of TENDON_PLUGIN_PATH"),
}
LAUNCHERS = {
    "npx": "apt-get install npm",
    "node": "apt-get install nodejs",
    "uvx": "pip install uv",
    "python3": "apt-get install python3",
    "of-ours": "install of-ours in the sandbox",
}


def check_absent(place, row):
    """Who uses it is told what to install, and so is who looks."""
    box = place.box(row.kind)
    assert row.install in row.ask(box)
    about = box.plugin(row.plugin)
    assert (about["usable"], about["running"], about["found"]) == (False, False, None)
    assert about["missing"] and about["install"].startswith(row.install), about
    shown = box.tendon.ok("inspect", box.name).splitlines()
    assert any(f"{row.plugin}: missing: " in line and f"to get it: {row.install}" in line for line in shown), shown


def check_absent_often(place):
    """What is not there is not waited for, as what crashes again and again is."""
    for _ in range(8):
        obs = place.box("bare").client.act("browse", {"url": SITE_URL}, 2)
        assert obs.type == "error" and "apt-get install chromium" in obs.content, obs


def check_absent_launchers(place):
    box = place.box("bare")
    log = update(box, *({"name": name, "command": name, "args": ["x"]} for name in LAUNCHERS)).splitlines()
    session = Session(box, headers=box.headers)
    for name, install in LAUNCHERS.items():
        assert any(f"MCP server '{name}' could not be started: " in line and install in line for line in log), log
        assert install in servers(box)[name]["last_error"]
        told = session.tool(f"{name}_echo")
        assert told["isError"] and install in told["content"][0]["text"], told
    (place.base / "npx.toml").write_text('[mcp]\nstdio_servers = [{ name = "thing", command = "npx" }]\n')
    told = box.tendon.fails(66, "tools", box.name, "call", "echo", env={"TENDON_CONFIG": str(place.base / "npx.toml")})
    assert "MCP server 'thing' could not be started: " in told and LAUNCHERS["npx"] in told, told


def check_unknown_plugin(place):
    """One that nobody has put there, and one that nobody named."""
    told = place.tendon("new", "--name", "nosuch", *place.equipped, "--plugins", "nosuch")
    assert told.returncode != 0
    assert "put a program tendon-plugin-nosuch into a directory of TENDON_PLUGIN_PATH" in told.stderr, told
    reply = place.box("bare").client.post_action({"action": "nosuch.echo", "args": {}, "timeout": LONG})
    assert reply.status == 500 and "--plugins must name a program tendon-plugin-nosuch" in reply.detail


# --- the tests, for a file that has a fixture `place` ----------------------------------------------


@pytest.mark.parametrize("ability", WORKING)
def test_works_and_survives(place, ability):
    WORKING[ability](place.box("full"))


@pytest.mark.timeout(240)  # it may have to be fetched
def test_a_real_editor(place):
    check_code_server(place.box("editor"))


@pytest.mark.parametrize("row", ABSENT.values(), ids=ABSENT)
def test_says_what_to_install(place, row):
    check_absent(place, row)


def test_says_so_however_often_it_is_asked(place):
    check_absent_often(place)


def test_says_which_launcher_to_install(place):
    check_absent_launchers(place)


def test_says_where_a_plugin_belongs(place):
    check_unknown_plugin(place)

"""What users do with E2B's own SDK; run by an interpreter that has one: e2b_story.py STORY. Works with 2.9 and newer."""

import asyncio
import base64
import http.client
import json
import os
import pathlib
import shlex
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import uuid

from e2b import AsyncSandbox, BuildException, CommandExitException, FilesystemEventType, NotFoundException, Sandbox, TimeoutException


def raises(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"{call} did not raise {kind}")


def quick_start():
    """Of the vendor's README, as it stands, but for the texts."""
    sandbox = Sandbox.create()
    result = sandbox.commands.run('echo "Hello from E2B!"')
    assert result.stdout == "Hello from E2B!\n", result
    assert sandbox.kill() is True


def life():
    sandbox = Sandbox.create(timeout=120, metadata={"app": "story"}, envs={"A": "1"})
    assert sandbox.is_running()
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id and info.metadata == {"app": "story"}, info
    assert info.template_id == "base" and info.end_at > info.started_at
    sandbox.set_timeout(600)
    assert (sandbox.get_info().end_at - info.end_at).total_seconds() > 400
    pages = Sandbox.list()
    found = []
    while pages.has_next:
        found += [one.sandbox_id for one in pages.next_items()]
    assert sandbox.sandbox_id in found
    same = Sandbox.connect(sandbox.sandbox_id)
    assert same.commands.run("echo $A").stdout == "1\n"
    assert same.get_metrics() is not None
    pause = getattr(sandbox, "pause", None) or sandbox.beta_pause
    pause()
    assert not sandbox.is_running()
    woken = Sandbox.connect(sandbox.sandbox_id, timeout=60)
    assert woken.is_running() and woken.commands.run("echo again").stdout == "again\n"
    assert Sandbox.kill(sandbox.sandbox_id) is True
    assert Sandbox.kill(sandbox.sandbox_id) is False
    assert not sandbox.is_running()
    raises(NotFoundException, Sandbox.connect, sandbox.sandbox_id)


def files():
    with Sandbox.create() as sandbox:
        fs = sandbox.files
        written = fs.write("a/hello.txt", "hello")
        assert written.path == "/home/user/a/hello.txt"
        assert fs.read("a/hello.txt") == "hello" and fs.read("/home/user/a/hello.txt", format="bytes") == b"hello"
        fs.write("big.bin", bytes(range(256)) * 4096)
        assert bytes(fs.read("big.bin", format="bytes")) == bytes(range(256)) * 4096
        assert b"".join(fs.read("big.bin", format="stream")) == bytes(range(256)) * 4096
        many = fs.write_files([{"path": "m/1", "data": "one"}, {"path": "/tmp/m2", "data": b"two"}])
        assert [one.path for one in many] == ["/home/user/m/1", "/tmp/m2"]
        assert fs.exists("m/1") and not fs.exists("m/none")
        assert fs.make_dir("new/dir") is True and fs.make_dir("new/dir") is False
        assert {entry.name for entry in fs.list("m")} == {"1"}
        assert {entry.path for entry in fs.list("a", depth=2)} == {"/home/user/a/hello.txt"}
        info = fs.get_info("a/hello.txt")
        assert info.size == 5 and info.type.value == "file", info
        assert fs.rename("a/hello.txt", "b/moved.txt").path == "/home/user/b/moved.txt"
        fs.remove("b")
        raises(NotFoundException, fs.read, "b/moved.txt")
        raises(NotFoundException, fs.list, "nowhere")
        fs.write("linked", "by a link")
        with urllib.request.urlopen(sandbox.download_url("linked", use_signature_expiration=60), timeout=30) as answer:
            assert answer.read() == b"by a link"


def links():
    """Uploads by a link, and a port."""
    with Sandbox.create() as sandbox:
        body = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nby a link\r\n--edge--\r\n'
        form = {"Content-Type": "multipart/form-data; boundary=edge"}
        link = sandbox.upload_url("up/loaded", use_signature_expiration=60)
        with urllib.request.urlopen(urllib.request.Request(link, body, form), timeout=30) as answer:
            assert answer.status == 200
        assert sandbox.files.read("up/loaded") == "by a link"
        sandbox.commands.run("python3 -m http.server 8123 --bind 127.0.0.1", background=True)
        host = sandbox.get_host(8123)
        assert host.startswith(f"8123-{sandbox.sandbox_id}."), host
        # Names below localhost lead here: not every machine's resolver knows that.
        where = urllib.parse.urlsplit(os.environ["E2B_API_URL"])
        token, status = {"Host": host, "E2b-Traffic-Access-Token": sandbox.traffic_access_token}, None
        deadline = time.monotonic() + 30
        while status != 200:
            assert time.monotonic() < deadline, status
            door = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
            door.request("GET", "/up/", headers=token)
            answer = door.getresponse()
            status, page = answer.status, answer.read()
            door.close()
            time.sleep(0.1)
        assert b"loaded" in page


def git():
    with Sandbox.create() as sandbox:
        repo = sandbox.git
        repo.init("work", initial_branch="main")
        repo.configure_user("A Person", "person@example.com", scope="local", path="work")
        sandbox.files.write("work/file", "one\n")
        assert [one.name for one in repo.status("work").file_status] == ["file"]
        repo.add("work")
        repo.commit("work", "the first")
        assert not repo.status("work").file_status
        repo.create_branch("work", "side")
        branches = repo.branches("work")
        assert set(branches.branches) == {"main", "side"} and branches.current_branch == "side"
        repo.checkout_branch("work", "main")
        home = sandbox.commands.run("pwd").stdout.strip()
        repo.clone(f"{home}/work", "copy")
        assert sandbox.files.read("copy/file") == "one\n"
        assert sandbox.commands.run("git log --format=%s", cwd=f"{home}/copy").stdout == "the first\n"


def fork():
    sandbox = Sandbox.create(timeout=300)
    sandbox.files.write("kept", "before")
    forks = sandbox.fork(timeout=120, count=2)
    sandbox.files.write("kept", "after")
    assert len({one.sandbox_id for one in (sandbox, *forks)}) == 3
    for one in forks:
        assert one.files.read("kept") == "before" and one.commands.run("echo x").stdout == "x\n"
    for one in (sandbox, *forks):
        one.kill()


def streamed():
    """Input in pieces, as they come."""
    with Sandbox.create() as sandbox:
        handle = sandbox.commands.run("cat", background=True, stdin=True)
        sandbox.commands.stream_input(handle.pid, (f"{i}\n" for i in range(5)))
        sandbox.commands.close_stdin(handle.pid)
        assert handle.wait().stdout == "0\n1\n2\n3\n4\n"


def packed():
    """Uploads by gzip, which 2.9 does not know."""
    with Sandbox.create() as sandbox:
        text = "packed " * 100000
        sandbox.files.write("packed", text, gzip=True)
        assert sandbox.files.read("packed", gzip=True) == text


def network():
    """Other rules for one that runs."""
    sandbox = Sandbox.create(network={"deny_out": ["0.0.0.0/0"], "allow_out": ["8.8.8.0/24"]})
    sandbox.update_network({"deny_out": ["0.0.0.0/0"], "allow_out": ["8.8.4.0/24", "example.com"]})
    sandbox.update_network({"allow_internet_access": False})
    sandbox.kill()
    sandbox = Sandbox.create(network={"deny_out": ["8.8.8.8"]})
    sandbox.update_network({"deny_out": ["8.8.8.0/24"], "allow_out": ["8.8.8.0/25"]})
    sandbox.update_network({"deny_out": ["0.0.0.0/0"]})
    sandbox.update_network({})
    sandbox.kill()


def watch():
    with Sandbox.create() as sandbox:
        sandbox.files.make_dir("w/sub")
        handle = sandbox.files.watch_dir("w", recursive=True)
        sandbox.files.write("w/sub/new", "x")
        deadline, events = time.monotonic() + 30, []
        while not any(event.name == "sub/new" for event in events):
            assert time.monotonic() < deadline, events
            events += handle.get_new_events()
        handle.stop()
        # As the vendor's first example has it: a file that is written is told as such.
        handle = sandbox.files.watch_dir(".")
        for _ in range(2):
            sandbox.files.write("top", "x")
            seen = []
            while not any(event.name == "top" and event.type == FilesystemEventType.WRITE for event in seen):
                assert time.monotonic() < deadline + 30, seen
                seen += handle.get_new_events()
        handle.stop()
        assert sandbox.files.get_info("./w/./sub").path == "/home/user/w/sub"


def entries():
    """Metadata of files, and what events tell of them."""
    with Sandbox.create() as sandbox:
        fs = sandbox.files
        assert fs.write("w/a", "1", metadata={"Owner": "me", "step": "1"}).metadata == {"owner": "me", "step": "1"}
        assert fs.get_info("w/a").metadata == {"owner": "me", "step": "1"}
        fs.rename("w/a", "w/b")
        assert [one.metadata for one in fs.list("w")] == [{"owner": "me", "step": "1"}]
        many = [{"path": "m/1", "data": "one"}, {"path": "m/2", "data": b"two"}]
        for form in (False, True):
            assert all(one.metadata == {"of": "both"} for one in fs.write_files(many, metadata={"of": "both"}, use_octet_stream=form))
        assert [one.metadata for one in fs.list("m")] == [{"of": "both"}] * 2
        fs.write("m/1", "again")
        assert fs.get_info("m/1").metadata is None
        set_outside = "import os; os.setxattr('m/1', 'user.e2b.x', b'y')"
        sandbox.commands.run(f'python3 -c "{set_outside}"; ln -s 1 m/link')
        assert fs.get_info("m/1").metadata == {"x": "y"}
        link = fs.get_info("m/link")
        assert link.type.value == "symlink" and link.symlink_target, link
        handle = fs.watch_dir("w", include_entry=True, allow_network_mounts=True)
        fs.write("w/new", "abc", metadata={"k": "v"})
        fs.remove("w/b")
        deadline, events = time.monotonic() + 30, []
        while not {"new", "b"} <= {event.name for event in events}:
            assert time.monotonic() < deadline, events
            events += handle.get_new_events()
        handle.stop()
        told = [event.entry for event in events if event.name == "new" and event.entry]
        assert told and told[-1].path == "/home/user/w/new" and told[-1].size == 3, events
        assert told[-1].metadata == {"k": "v"}
        assert all(event.entry is None for event in events if event.name == "b")
        plain = fs.watch_dir("w")
        fs.write("w/plain", "x")
        events = []
        while not events:
            assert time.monotonic() < deadline + 30
            events += plain.get_new_events()
        assert all(event.entry is None for event in events)


def commands():
    with Sandbox.create() as sandbox:
        run = sandbox.commands.run
        result = run("echo out; echo err >&2")
        assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0), result
        error = raises(CommandExitException, run, "echo no >&2; exit 3")
        assert error.exit_code == 3 and error.stderr == "no\n"
        assert run("pwd").stdout == "/home/user\n" and run("echo ~").stdout == "/home/user\n"
        assert run("echo $V; pwd", envs={"V": "x y"}, cwd="/tmp").stdout == "x y\n/tmp\n"
        raises(TimeoutException, run, "sleep 60", timeout=1)
        seen = []
        run("for i in 1 2 3; do echo $i; done", on_stdout=seen.append)
        assert "".join(str(getattr(one, "line", one)) for one in seen).replace("\n", "") == "123", seen
        large = run("head -c 3000000 /dev/zero | tr '\\0' x").stdout
        assert large == "x" * 3000000
        handle = run("cat", background=True, stdin=True)
        assert handle.pid in [one.pid for one in sandbox.commands.list()]
        sandbox.commands.send_stdin(handle.pid, "typed\n")
        for out, _, _ in handle:
            if out:
                assert out == "typed\n"
                break
        assert handle.kill() is True
        deadline = time.monotonic() + 30
        while sandbox.commands.kill(handle.pid):  # one that is ending can still be sent a signal
            assert time.monotonic() < deadline
        slow = run("sleep 0.5; echo late; exit 4", background=True)
        again = sandbox.commands.connect(slow.pid)
        assert raises(CommandExitException, again.wait).exit_code == 4
        assert raises(CommandExitException, slow.wait).stdout == "late\n"


def pty():
    with Sandbox.create() as sandbox:
        size = __import__("e2b").PtySize(rows=24, cols=80)
        handle = sandbox.pty.create(size, timeout=60)
        sandbox.pty.resize(handle.pid, __import__("e2b").PtySize(rows=30, cols=100))
        sandbox.pty.send_stdin(handle.pid, b"stty size; exit\n")
        output = b""
        for _, _, data in handle:
            output += data or b""
        assert b"30 100" in output, output


def interpreter():
    from e2b_code_interpreter import Sandbox as Interpreter

    with Interpreter.create() as sandbox:
        sandbox.run_code("x = 1")
        done = sandbox.run_code("x += 1; x")  # the quick start of the vendor's README
        assert done.text == "2" and done.error is None and done.execution_count, done
        seen = []
        done = sandbox.run_code("import sys\nprint('a')\nprint('b')\nprint('c', file=sys.stderr)", on_stdout=seen.append)
        assert "".join(done.logs.stdout) == "a\nb\n" and "".join(done.logs.stderr) == "c\n" and not done.results, done
        assert "".join(str(getattr(one, "line", one)) for one in seen) == "a\nb\n"
        failed = sandbox.run_code("print('before')\n1 / 0")
        assert failed.error.name == "ZeroDivisionError" and "division" in failed.error.value
        assert "ZeroDivisionError" in failed.error.traceback and failed.logs.stdout == ["before\n"]
        assert sandbox.run_code("this is no code").error.name == "SyntaxError"
        shown = sandbox.run_code("from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))\n'main'")
        assert shown.results[0].html == "<b>x</b>" and not shown.results[0].is_main_result
        assert shown.results[1].text == "'main'" and shown.text == "'main'"
        # A line comes as it is printed: the cell ends because it was heard.
        waits = "import os\nprint('waits')\nwhile not os.path.exists('go'): os.sched_yield()\nprint('goes')"
        done = sandbox.run_code(waits, on_stdout=lambda _: sandbox.files.write("go", ""))
        assert "".join(done.logs.stdout) == "waits\ngoes\n", done
        # Code that nobody waits for any more is interrupted, and leaves its kernel to others.
        raises(TimeoutException, sandbox.run_code, "kept = 5\nimport time\ntime.sleep(3000)", timeout=2)
        assert sandbox.run_code("kept", timeout=60).text == "5"
        # Variables are there while the cell runs, whatever it is, and then as before.
        assert sandbox.run_code("import os; os.environ['V'] + os.environ['HOME']", envs={"V": "x y", "HOME": "/"}).text == "'x y/'"
        assert "x y" in "".join(sandbox.run_code("%%bash\necho $V", envs={"V": "x y"}).logs.stdout)
        failed = sandbox.run_code("1 / 0", envs={"V": "x"})
        assert failed.error.name == "ZeroDivisionError", failed
        after = sandbox.run_code("os.environ.get('V'), os.environ['HOME'] == '/'").text
        assert after == "(None, False)", after
        context = sandbox.create_code_context(cwd="/tmp")
        assert sandbox.run_code("import os; os.getcwd()", context=context).text == "'/tmp'"
        assert sandbox.run_code("x", context=context).error.name == "NameError"
        assert sandbox.run_code("import os; os.getcwd()").text == "'/home/user'"
        sandbox.run_code("y = 1", context=context)
        assert {one.id: one.cwd for one in sandbox.list_code_contexts()}[context.id] == "/tmp"
        sandbox.restart_code_context(context)
        assert sandbox.run_code("y", context=context).error.name == "NameError"
        assert sandbox.run_code("import os; os.getcwd()", context=context).text == "'/tmp'"
        sandbox.remove_code_context(context)
        assert context.id not in [one.id for one in sandbox.list_code_contexts()]
        raises(NotFoundException, sandbox.run_code, "1", context=context)
        died = sandbox.run_code("print('so far')\nimport os, time\ntime.sleep(0.1)  # it is on its way\nos._exit(3)")
        assert died.error.name == "ExecutionError" and "exit code 3" in died.error.value, died
        again = sandbox.run_code("x")
        assert died.logs.stdout == ["so far\n"] and again.error.name == "NameError", (died, again)
        done = sandbox.run_code("print('@@e2b {}')\n!echo from a shell")
        assert "from a shell" in "".join(done.logs.stdout) and "@@e2b {}" in "".join(done.logs.stdout), done


FIGURES = """
import matplotlib.pyplot as plt
import datetime
{code}
plt.show()
"""


def charts():
    """What a figure shows, as data: of every kind that the SDK knows."""
    from e2b_code_interpreter import Sandbox as Interpreter

    with Interpreter.create() as sandbox:

        def chart(code):
            done = sandbox.run_code(FIGURES.format(code=code))
            assert not done.error and len(done.results) == 1, done
            assert done.results[0].png and "chart" in done.results[0].formats(), done.results[0].formats()
            found = done.results[0].chart
            return found, found.elements

        line, (first, second) = chart(
            "plt.plot([1, 2, 3], [4.5, 5, 6], label='up'); plt.plot([1, 2], [2, 1]); plt.axhline(3)\n"
            "plt.title('Way'); plt.xlabel('Time (s)'); plt.ylabel('Metres [m]')"
        )
        assert (line.type.value, line.title) == ("line", "Way") and first.points == [(1, 4.5), (2, 5), (3, 6)], line.to_dict()
        assert (line.x_label, line.x_unit, line.y_unit, line.x_scale.value) == ("Time (s)", "s", "m", "linear"), line.to_dict()
        assert (first.label, second.label) == ("up", "Line 1"), line.to_dict()
        dates, (days,) = chart("plt.plot([datetime.date(2026, 1, d) for d in (1, 2)], [1, 2]); plt.yscale('log')")
        assert (dates.x_scale.value, dates.y_scale.value) == ("datetime", "log"), dates.to_dict()
        assert days.points == [("2026-01-01", 1), ("2026-01-02", 2)], dates.to_dict()
        scatter, (cloud,) = chart("plt.scatter([1, 2], [3, 4], label='points')")
        assert scatter.type.value == "scatter" and (cloud.label, cloud.points) == ("points", [(1, 3), (2, 4)])
        bars, parts = chart("plt.bar(['a', 'b'], [3, 5], label='g'); plt.bar(['a', 'b'], [1, 1], bottom=[3, 5])")
        assert [(p.label, p.group, p.value) for p in parts][:3] == [("a", "g", 3), ("b", "g", 5), ("a", "Group 1", 1)], bars.to_dict()
        lying, parts = chart("plt.barh(['a', 'b'], [3, 5]); plt.ylabel('which')")
        assert lying.x_label == "which" and [(p.label, p.value) for p in parts] == [("a", 3), ("b", 5)], lying.to_dict()
        pie, parts = chart("plt.pie([1, 3], labels=['one', 'three'])")
        assert [(p.label, p.angle, p.radius) for p in parts] == [("one", 90, 1), ("three", 270, 1)], pie.to_dict()
        for swap in ("", ", vert=False"):
            boxes, (left, right) = chart(f"plt.boxplot([[1, 2, 3, 4, 5, 20], [2, 4, 8]], labels=['l', 'r'], patch_artist=True{swap})")
            numbers = (left.min, left.first_quartile, left.median, left.third_quartile, left.max, left.outliers)
            assert numbers == (1, 2.25, 3.5, 4.75, 5, [20]) and (left.label, right.label) == ("l", "r"), boxes.to_dict()
            assert right.median == 4, boxes.to_dict()
        many, parts = chart("f, (a, b) = plt.subplots(1, 2); a.plot([1], [1]); b.scatter([1], [1]); f.suptitle('both')")
        assert (many.type.value, many.title) == ("superchart", "both"), many.to_dict()
        assert [p.type.value for p in parts] == ["line", "scatter"], many.to_dict()
        other, _ = chart("plt.imshow([[1, 2], [3, 4]])")
        assert other.type.value == "unknown", other.to_dict()
        own = "class Own:\n    def _repr_e2b_data_(self): return {'a': [1]}\n    def _repr_e2b_chart_(self): 1 / 0"
        sandbox.run_code(own)
        assert sandbox.run_code("Own()").results[0].data == {"a": [1]}


def tables():
    from e2b_code_interpreter import Sandbox as Interpreter

    with Interpreter.create() as sandbox:
        code = "import pandas\npandas.DataFrame({'a': [1, 2], 'b': [0.5, float('nan')], 'c': pandas.to_datetime(['2026-01-01', None])})"
        result = sandbox.run_code(code).results[0]
        assert result.data == {"a": [1, 2], "b": [0.5, None], "c": ["2026-01-01T00:00:00", None]}, result.data
        assert "<table" in result.html


def templates():
    """A recipe, as the vendor's guide has it: built, with its log, used, and there under its name."""
    from e2b import Template

    name = f"story-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory() as context:
        pathlib.Path(context, "app").mkdir()
        pathlib.Path(context, "app", "main.txt").write_text("main")
        pathlib.Path(context, "one.txt").write_text("one")
        recipe = (
            Template(file_context_path=context)
            .from_base_image()
            .set_envs({"GREETING": "good morning"})
            .set_workdir("/home/user/shop")
            .copy("app", "app")
            .copy("one.txt", "/home/user/first.txt", mode=0o600)
            .run_cmd(["echo $GREETING > said", "echo told"])
            .make_dir("made/deep")
            .set_start_cmd("echo up > up; sleep 1000", "test -s up")
        )
        lines = []
        exists = getattr(Template, "alias_exists", None)  # 2.9 cannot ask
        assert not (exists and exists(name))
        info = Template.build(recipe, alias=name, cpu_count=1, memory_mb=512, on_build_logs=lines.append)
    assert info.alias == name and (not exists or exists(name)), info
    assert any(line.message == "told" and line.level == "info" for line in lines), lines
    with Sandbox.create(name, envs={"MORE": "1"}) as sandbox:
        result = sandbox.commands.run("pwd; cat said app/main.txt ../first.txt up; ls made; echo $GREETING$MORE")
        assert result.stdout == "/home/user/shop\ngood morning\nmainoneup\ndeep\ngood morning1\n", result
        assert sandbox.get_info().template_id == info.template_id
    bad = Template().from_base_image().run_cmd("echo no >&2; exit 4")
    error = raises(BuildException, Template.build, bad, alias=f"{name}-bad")
    assert "exit status 4" in str(error), error
    later = Template.build_in_background(Template().from_template(name).run_cmd("echo $GREETING"), alias=f"{name}-two")
    deadline = time.monotonic() + 60
    while (state := Template.get_build_status(later)) and getattr(state.status, "value", state.status) in ("waiting", "building"):
        assert time.monotonic() < deadline
    assert getattr(state.status, "value", state.status) == "ready", state
    assert "good morning" in [entry.message for entry in state.log_entries], state


def ask_gateway(sandbox, token, method, number=1, session=None, **params):
    """What the gateway says to a request, at the address of the SDK. `*.localhost` is this machine, whatever the resolver says."""
    address = urllib.parse.urlsplit(sandbox.get_mcp_url())
    assert address.path == "/mcp", address
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
    headers = {"Host": address.netloc, "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    headers |= {"Accept": "application/json, text/event-stream"} | ({"Mcp-Session-Id": session} if session else {})
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    connection.request("POST", address.path, json.dumps(message), headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    lines = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")] or [body]
    return answer.status, answer.getheader("Mcp-Session-Id"), lines[-1] and json.loads(lines[-1])


SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    own = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "own", "version": "1"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": own}), flush=True)
"""


def mcp():
    """The gateway, as it is seen inside."""
    packed = base64.b64encode(SERVER.encode()).decode()  # 2.9 takes no apostrophe in a configuration
    run = f"python3 -c \"import base64; exec(base64.b64decode(b'{packed}'))\"".replace("'", '\\"')
    with Sandbox.create(mcp={"own": {"run_cmd": run}}) as sandbox:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "story", "version": "1"}}
        body = shlex.quote(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}))
        curl = "curl -s -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream'"
        post = f'{curl} -H "Authorization: Bearer $(cat /etc/mcp-gateway/.token)" -d {body} http://localhost:50005/mcp'
        said = json.loads(sandbox.commands.run(post, user="root").stdout)
        assert said["result"]["protocolVersion"] == "2025-06-18", said
        assert sandbox.files.read("/etc/mcp-gateway/.token", user="root") == sandbox.get_mcp_token()


def gateway():
    """Servers of a configuration as tools: a repository that is cloned and installed, and a command. FILE is an MCP server."""
    from e2b import Template

    name = f"gateway-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory() as context:
        pathlib.Path(context, "server.py").write_text(pathlib.Path(sys.argv[2]).read_text())
        git = "git -c user.name=a -c user.email=a@b.c"
        recipe = (
            Template(file_context_path=context)
            .from_template("mcp-gateway")
            .copy("server.py", "/srv/acme/tools/server.py")
            .run_cmd(f"cd /srv/acme/tools && git init -q . && git add . && {git} commit -q -m first")
            .run_cmd("git config --system url.file:///srv/.insteadOf https://github.com/")
        )
        Template.build(recipe, alias=name)
    install, run = "cp server.py installed.py", 'python3 "$WHICH"'
    config = {"github/acme/tools": {"install_cmd": install, "run_cmd": run, "envs": {"WHICH": "installed.py"}}}
    sandbox = Sandbox.create(name, mcp=config)
    token = sandbox.get_mcp_token()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "story", "version": "1"}}
    status, session, answer = ask_gateway(sandbox, token, "initialize", **hello)
    assert status == 200 and session, (status, answer)
    status, _, answer = ask_gateway(sandbox, token, "tools/list", 2, session)
    assert "test_simple_text" in [tool["name"] for tool in answer["result"]["tools"]], answer
    status, _, answer = ask_gateway(sandbox, token, "tools/call", 3, session, name="test_simple_text", arguments={})
    assert answer["result"]["content"][0]["text"].startswith("This is a simple text"), answer
    assert ask_gateway(sandbox, "another", "initialize", **hello)[0] == 401
    inside = "curl -s -o /dev/null -w '%{http_code}' -X POST http://localhost:50005/mcp"
    assert sandbox.commands.run(inside).stdout == "401"
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.get_mcp_token() == token and again.get_info().metadata == {}
    for change in ({"GATEWAY_ACCESS_TOKEN": "second"}, {}):
        error = raises(CommandExitException, again.commands.run, "mcp-gateway --config '{}'", envs=change)
        assert ("50005" if change else "GATEWAY_ACCESS_TOKEN") in error.stderr, error
    sandbox.kill()
    wrong = {"exa": ({"apiKey": "x"}, "mcp-server-exa"), "own": ({"run_cmd": "no-such-program"}, "no-such-program")}
    for server, (members, word) in wrong.items():
        error = raises(Exception, Sandbox.create, mcp={server: members})
        assert word in str(getattr(error, "stderr", "")) + str(error), error
    pulled = Template().from_template("mcp-gateway").add_mcp_server("exa")
    assert "exit status 1" in str(raises(BuildException, Template.build, pulled, alias=f"{name}-exa"))


def snapshots():
    """As the vendor's guide has it: a snapshot outlives its sandbox, and others are made of it until it is deleted."""
    sandbox = Sandbox.create()
    sandbox.files.write("kept", "as it was")
    named, plain = sandbox.create_snapshot(name="story-one"), sandbox.create_snapshot()
    assert named.names == [named.snapshot_id] and plain.snapshot_id != named.snapshot_id
    assert sandbox.kill() is True
    pages = Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id)
    assert {one.snapshot_id for one in pages.next_items()} == {named.snapshot_id, plain.snapshot_id}
    for one in (named, plain):
        with Sandbox.create(one.snapshot_id) as again:
            assert again.files.read("kept") == "as it was"
        assert Sandbox.delete_snapshot(one.snapshot_id) is True
        assert Sandbox.delete_snapshot(one.snapshot_id) is False
        raises(Exception, Sandbox.create, one.snapshot_id)


def volumes():
    from e2b import Volume

    volume = Volume.create("story-data")
    with Sandbox.create(volume_mounts={"/mnt/data": volume}) as one:
        one.files.write("/mnt/data/file", "shared")
        assert one.get_info().volume_mounts == [{"name": "story-data", "path": "/mnt/data"}]
    with Sandbox.create(volume_mounts={"/srv/it": "story-data"}) as two:
        assert two.files.read("/srv/it/file") == "shared"
    assert [each.name for each in Volume.list()] == ["story-data"]
    assert Volume.connect(volume.volume_id).name == "story-data"
    assert Volume.destroy(volume.volume_id) is True and Volume.destroy(volume.volume_id) is False


def tags():
    from e2b import Template

    name = f"tags-{uuid.uuid4().hex[:12]}"
    Template.build(Template().from_base_image().run_cmd("true"), name, tags=["v1"])
    assert Template.exists(name)
    assert Template.assign_tags(f"{name}:v1", ["stable"]).tags == ["stable"]
    assert {one.tag for one in Template.get_tags(name)} == {"v1", "stable"}
    with Sandbox.create(f"{name}:stable") as sandbox:
        assert sandbox.commands.run("echo yes").stdout == "yes\n"
    Template.remove_tags(name, ["stable"])
    assert [one.tag for one in Template.get_tags(name)] == ["v1"]


async def many():
    """Several at a time, by the asynchronous client."""
    sandbox = await AsyncSandbox.create()
    try:
        results = await asyncio.gather(*(sandbox.commands.run(f"sleep 0.2; echo {i}") for i in range(10)))
        assert [one.stdout for one in results] == [f"{i}\n" for i in range(10)]
        await sandbox.files.make_dir("aw")
        seen = asyncio.Event()
        handle = await sandbox.files.watch_dir("aw", on_event=lambda event: seen.set())
        await sandbox.files.write("aw/one", "1")
        await asyncio.wait_for(seen.wait(), 30)
        await handle.stop()
    finally:
        await sandbox.kill()


def asynchronous():
    asyncio.run(many())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done", flush=True)
    os._exit(0)  # as its interpreter ends, a thread of the SDK's native client (pyqwest) aborts it now and then

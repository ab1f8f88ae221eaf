"""What users do with E2B's own SDK; run by an interpreter that has one: e2b_story.py STORY. Works with 2.9 and newer."""

import asyncio
import os
import pathlib
import sys
import tempfile
import time
import urllib.request
import uuid

from e2b import AsyncSandbox, BuildException, CommandExitException, NotFoundException, Sandbox, TimeoutException


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

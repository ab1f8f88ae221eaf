"""What users do with Daytona's own SDK; run by an interpreter that has one: daytona_story.py STORY. Works with 0.24 and newer."""

import asyncio
import base64
import concurrent.futures
import io
import struct
import sys
import time
import urllib.error
import urllib.request
import uuid

import daytona as sdk
from daytona.common import lsp_server
from daytona import AsyncDaytona, CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams, CreateSnapshotParams, Daytona
from daytona import DaytonaError, Image, SessionExecuteRequest, VolumeMount

NEWER = hasattr(sdk, "ListSandboxesQuery")


def raises(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except DaytonaError as error:
        return error
    raise AssertionError(f"{call} did not raise")


def state(sandbox):
    sandbox.refresh_data()
    return getattr(sandbox.state, "value", sandbox.state)


def find(client, labels):
    if NEWER:
        return [one.id for one in client.list(sdk.ListSandboxesQuery(labels=labels))]
    return [one.id for one in client.list(labels=labels)]


def quick_start():
    """Of the vendor's README, but for the texts."""
    client = Daytona()
    sandbox = client.create()
    response = sandbox.process.code_run('print("Hello World!")')
    assert response.exit_code == 0 and response.result.strip() == "Hello World!", response
    sandbox.delete()


def life():
    client = Daytona()
    label = uuid.uuid4().hex
    params = CreateSandboxFromSnapshotParams(
        language="python",
        env_vars={"A": "1"},
        labels={"story": label},
        auto_stop_interval=0,
        auto_archive_interval=60,
    )
    sandbox = client.create(params)
    assert state(sandbox) == "started" and sandbox.env["A"] == "1" and not sandbox.public
    raises(client.create, CreateSandboxFromSnapshotParams(public=True))
    assert sandbox.labels["story"] == label and sandbox.auto_stop_interval == 0
    assert find(client, {"story": label}) == [sandbox.id] and find(client, {"story": "other"}) == []
    assert client.get(sandbox.id).id == sandbox.id
    assert sandbox.set_labels({"story": label, "more": "x"})["more"] == "x"
    sandbox.set_autostop_interval(30)
    sandbox.set_auto_archive_interval(120)
    sandbox.set_auto_delete_interval(240)
    sandbox.refresh_data()
    assert (sandbox.auto_stop_interval, sandbox.auto_archive_interval) == (30, 120)
    if NEWER:
        sandbox.set_auto_pause_interval(20)
        sandbox.set_ttl(90)
        before = sandbox.last_activity_at
        sandbox.refresh_activity()
        raises(sandbox.set_public, True)
        sandbox.set_public(False)
        sandbox.refresh_data()
        assert sandbox.auto_pause_interval == 20 and sandbox.last_activity_at > before and not sandbox.public
        assert sandbox.get_work_dir() == sandbox.get_user_home_dir() == "/home/daytona"
    sandbox.fs.upload_file(b"kept", "kept.txt")
    sandbox.stop()
    assert state(sandbox) == "stopped"
    raises(sandbox.process.exec, "true")
    sandbox.start()
    assert state(sandbox) == "started" and sandbox.fs.download_file("kept.txt") == b"kept"
    sandbox.delete()
    raises(client.get, sandbox.id)


def files():
    client = Daytona()
    sandbox = client.create()
    fs = sandbox.fs
    fs.create_folder("data/deep", "755")
    fs.upload_file(b"hello", "data/hello.txt")
    fs.upload_files([sdk.FileUpload(source=f"file {i}".encode(), destination=f"data/{i}.txt") for i in range(5)])
    assert fs.download_file("data/hello.txt") == b"hello"
    fs.upload_files([sdk.FileUpload(source=f"file {i}".encode(), destination=f"many/{i}.txt") for i in range(200)])
    assert len(fs.list_files("many")) == 200 and fs.download_file("many/199.txt") == b"file 199"
    large = bytes(range(256)) * 40000
    fs.upload_file(large, "/tmp/large.bin")
    assert fs.download_file("/tmp/large.bin") == large
    assert {one.name for one in fs.list_files("data")} == {"deep", "hello.txt", *(f"{i}.txt" for i in range(5))}
    info = fs.get_file_info("data/hello.txt")
    assert info.size == 5 and not info.is_dir, info
    fs.set_file_permissions("data/hello.txt", mode="600")
    assert fs.get_file_info("data/hello.txt").permissions.endswith("600")
    fs.move_files("data/hello.txt", "data/moved.txt")
    assert [one.line for one in fs.find_files("data", "file 3")] == [1]
    assert len(fs.search_files("data", "*.txt").files) == 6
    results = fs.replace_in_files(["data/3.txt"], "file", "text")
    assert results[0].success and fs.download_file("data/3.txt") == b"text 3", results
    if NEWER:
        fs.upload_file_stream(io.BytesIO(large), "data/stream")
        assert b"".join(fs.download_file_stream("data/stream")) == large
        found = fs.download_files([sdk.FileDownloadRequest(source=name) for name in ("data/1.txt", "data/stream", "data/nothing")])
        assert [one.result for one in found] == [b"file 1", large, None] and found[2].error and not found[0].error, found
    for name in ("data/\u00e4 \u20ac.txt", 'data/"quoted" \\ 100%.txt'):
        fs.upload_file(b"named", name)
        assert fs.download_file(name) == b"named", name
        fs.delete_file(name)
    if hasattr(sandbox, "download_url"):
        signed(sandbox)
    fs.delete_file("data/moved.txt")
    raises(fs.download_file, "data/moved.txt")
    raises(fs.get_file_info, "data/moved.txt")
    sandbox.delete()


def signed(sandbox):
    """Links to one file, for programs without a key."""

    def status(link, body=None, **headers):
        try:
            with urllib.request.urlopen(urllib.request.Request(link, body, headers), timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            return error.code

    down, up = sandbox.download_url("data/moved.txt"), sandbox.upload_url("data/sent here.txt", 60)
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nsent\r\n--b--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    assert status(down) == b"hello"
    assert isinstance(status(up, form, **kind), bytes) and sandbox.fs.download_file("data/sent here.txt") == b"sent"
    assert status(sandbox.download_url("data/moved.txt", 0)) == b"hello"
    for wrong in (down.replace("moved", "3"), down.replace("files/download", "files/info"), up.replace("expires=", "expires=9"), down + "x"):
        assert status(wrong, form if "upload" in wrong else None, **kind) == 401, wrong
    assert status(up) == 401  # it is for a POST
    sandbox.rotate_signing_key()
    assert status(down) == 401 and status(sandbox.download_url("data/moved.txt")) == b"hello"
    sandbox.fs.delete_file("data/sent here.txt")


def commands():
    client = Daytona()
    sandbox = client.create()
    run = sandbox.process.exec
    assert run("echo hi").result.strip() == "hi"
    result = run("echo $V; pwd; exit 3", cwd="/tmp", env={"V": "x y", "W": "z"}, timeout=20)
    assert result.exit_code == 3 and result.result.split("\n")[:2] == ["x y", "/tmp"], result
    raises(run, "sleep 60", timeout=1)
    run("nohup python3 -m http.server 8098 >/dev/null 2>&1 &")
    link = sandbox.get_preview_link(8098)
    request = urllib.request.Request(link.url + "/", headers={"X-Daytona-Preview-Token": link.token})
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 200
            break
        except OSError:  # the server inside is still starting
            assert time.monotonic() < deadline
            time.sleep(0.05)
    if NEWER:
        link = sandbox.create_signed_preview_url(8098, 60)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert opener.open(link.url, timeout=30).status == 200
        sandbox.expire_signed_preview_url(8098, link.token)
        try:
            urllib.request.urlopen(link.url, timeout=30)
            raise AssertionError("it was not expired")
        except urllib.error.HTTPError as error:
            assert error.code == 401
    sandbox.delete()


def environment():
    if not hasattr(sdk.Sandbox, "update_env"):
        return
    client = Daytona()
    sandbox = client.create(CreateSandboxFromSnapshotParams(env_vars={"A": "1", "GONE": "x"}))
    process = sandbox.process
    sandbox.update_env({"A": "2", "B": "with spaces"}, unset=["GONE"])

    def holds(session):
        process.create_session(session)
        told = "echo $A-$B-${GONE-none}"
        assert process.exec(told).result == "2-with spaces-none\n"
        assert process.execute_session_command(session, SessionExecuteRequest(command=told)).stdout == "2-with spaces-none\n"
        assert process.code_run("import os; print(os.environ['B'], 'GONE' in os.environ)").result == "with spaces False\n"

    holds("s1")
    seen = []
    pty = process.create_pty_session("p1", pty_size=sdk.PtySize(rows=24, cols=80))
    pty.send_input("echo $A-${GONE-none}; exit\n")
    pty.wait(on_data=seen.append, timeout=60)
    assert b"2-none" in b"".join(seen), seen
    sandbox.refresh_data()
    assert (sandbox.env["A"], sandbox.env["B"]) == ("2", "with spaces") and "GONE" not in sandbox.env
    sandbox.stop()
    sandbox.start()
    holds("s2")
    many = {f"MANY_{i}": "x" for i in range(8)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:  # one after the other, none is lost
        list(pool.map(lambda item: sandbox.update_env(dict([item])), many.items()))
    sandbox.refresh_data()
    assert many.items() <= sandbox.env.items()
    raises(sandbox.update_env, {"no name": "x"})
    sandbox.delete()


def network():
    if not hasattr(sdk.Sandbox, "update_network_settings"):
        return
    client = Daytona()
    sandbox = client.create(CreateSandboxFromSnapshotParams(network_allow_list="8.8.8.0/24"))
    sandbox.update_network_settings(network_allow_list="8.8.4.0/24")
    assert sandbox.network_allow_list == "8.8.4.0/24"
    sandbox.update_network_settings(network_block_all=True)
    assert not sandbox.network_allow_list
    sandbox.delete()


def sessions():
    client = Daytona()
    sandbox = client.create()
    process = sandbox.process
    process.create_session("s1")
    raises(process.create_session, "s1")

    def execute(command, **more):
        return process.execute_session_command("s1", SessionExecuteRequest(command=command, **more))

    execute("cd /tmp; export V=kept; W=too; f() { echo f:$1; }")
    done = execute("pwd; echo $V $W; f x; echo err >&2")
    assert done.exit_code == 0 and "err\n" in done.output, done
    assert done.output.replace("err\n", "") == "/tmp\nkept too\nf:x\n", done  # which of the two streams comes first nobody knows
    if NEWER:
        assert done.stdout == "/tmp\nkept too\nf:x\n" and done.stderr == "err\n", done
    assert execute("exit 4").exit_code == 4
    slow = execute("echo one; read line; echo got $line; exit 5", run_async=True)
    assert process.get_session_command("s1", slow.cmd_id).exit_code is None
    seen = []
    if NEWER:
        process.send_session_command_input("s1", slow.cmd_id, "typed\n")
        asyncio.run(process.get_session_command_logs_async("s1", slow.cmd_id, seen.append, seen.append))
        assert "".join(seen) == "one\ngot typed\n", seen
        assert process.get_session_command("s1", slow.cmd_id).exit_code == 5
        assert process.get_session_command_logs("s1", slow.cmd_id).stdout == "one\ngot typed\n"
    else:
        short = execute("echo one; sleep 0.5; echo two", run_async=True)
        asyncio.run(process.get_session_command_logs_async("s1", short.cmd_id, seen.append))
        assert "".join(seen) == "one\ntwo\n", seen
        assert process.get_session_command_logs("s1", short.cmd_id) == "one\ntwo\n"
    session = process.get_session("s1")
    assert session.session_id == "s1" and any("echo one" in one.command for one in session.commands), session
    assert [one.session_id for one in process.list_sessions()] == ["s1"]
    process.delete_session("s1")
    raises(process.get_session, "s1")
    sandbox.delete()


def pty():
    if not NEWER:
        return
    client = Daytona()
    sandbox = client.create()
    handle = sandbox.process.create_pty_session("p1", envs={"V": "from here"}, pty_size=sdk.PtySize(rows=24, cols=80))
    handle.resize(sdk.PtySize(rows=30, cols=100))
    assert [one.id for one in sandbox.process.list_pty_sessions()] == ["p1"]
    handle.send_input("stty size; echo $V; exit 6\n")
    output = []
    result = handle.wait(on_data=output.append, timeout=60)
    text = b"".join(output)
    assert b"30 100" in text and b"from here" in text and result.exit_code == 6, (result, text)
    process = sandbox.process
    process.create_pty_session("p2", pty_size=sdk.PtySize(rows=24, cols=80)).disconnect()
    again = process.connect_pty_session("p2")
    again.send_input("echo $((6 * 7)); exit 3\n")
    output.clear()
    assert again.wait(on_data=output.append, timeout=60).exit_code == 3 and b"42" in b"".join(output), output
    process.create_pty_session("p3", pty_size=sdk.PtySize(rows=24, cols=80))
    process.kill_pty_session("p3")
    assert "p3" not in [one.id for one in process.list_pty_sessions() if one.active]
    raises(process.kill_pty_session, "nothing")
    sandbox.delete()


def git():
    client = Daytona()
    sandbox = client.create()
    git, run = sandbox.git, sandbox.process.exec
    assert run("git init -q --bare -b main up && git clone -q up seed && cd seed && echo 1 > a && git add a && "
               "git -c user.name=x -c user.email=x commit -q -m first && git push -q").exit_code == 0
    git.clone("/home/daytona/up", "repo")
    assert [one.name for one in sandbox.fs.list_files("repo") if not one.is_dir] == ["a"]
    assert git.status("repo").current_branch == "main"
    git.create_branch("repo", "topic")
    sandbox.fs.upload_file(b"two", "repo/b")
    assert [getattr(one.worktree, "value", one.worktree) for one in git.status("repo").file_status] == ["Untracked"]
    git.add("repo", ["b"])
    made = git.commit("repo", message="second", author="Ann", email="ann@example.org")
    assert run("git rev-parse HEAD", cwd="repo").result.strip() == made.sha
    git.push("repo")
    assert sorted(git.branches("repo").branches) == ["main", "topic"]
    git.checkout_branch("repo", "main")
    git.delete_branch("repo", "topic")
    git.pull("repo")
    error = raises(git.status, "nowhere")
    if NEWER:
        assert type(error).__name__ == "DaytonaGitRepoNotFoundError", repr(error)
        git.init("fresh", initial_branch="trunk")
        git.remote_add("fresh", "origin", "https://example.org/x.git")
        assert git.remote_get("fresh", "origin") == "https://example.org/x.git"
        git.configure_user("Ann", "ann@example.org", scope="local", path="fresh")
        assert git.get_config("user.name", scope="local", path="fresh") == "Ann"
        git.set_config("core.pager", "cat", scope="local", path="fresh")
        assert git.get_config("core.pager", scope="local", path="fresh") == "cat"
        sandbox.fs.upload_file(b"changed", "repo/a")
        git.add("repo", ["a"])
        git.restore("repo", ["a"], staged=True)
        assert run("git status --porcelain", cwd="repo").result == " M a\n"
        git.restore("repo", ["a"])
        assert run("git status --porcelain", cwd="repo").result == ""
        sandbox.fs.upload_file(b"changed", "repo/a")
        git.reset("repo", mode="hard", target="HEAD")
        assert sandbox.fs.download_file("repo/a") == b"1\n"
        git.dangerously_authenticate("ann", "s3cret")
        assert "ann:s3cret@github.com" in run("cat .git-credentials").result
    sandbox.delete()


def snapshots():
    client = Daytona()
    sandbox = client.create()
    sandbox.fs.upload_file(b"kept", "kept.txt")
    if NEWER:
        name = "story-" + uuid.uuid4().hex[:8]
        sandbox.create_snapshot(name)
        assert client.snapshot.get(name).name == name
        assert name in [one.name for one in client.snapshot.list().items]
        assert client.snapshot.activate(client.snapshot.get(name)).name == name
        fork = sandbox.fork()
        assert fork.fs.download_file("kept.txt") == b"kept"
        fork.delete()
        sandbox.delete()
        sandbox = client.create(CreateSandboxFromSnapshotParams(snapshot=name))
        assert sandbox.fs.download_file("kept.txt") == b"kept"
        client.snapshot.delete(client.snapshot.get(name))
        raises(client.snapshot.get, name)
    else:
        assert client.snapshot.list() == []
    sandbox.delete()


def told(one):
    return one if isinstance(one, dict) else one.to_dict()


def by_tree(sandbox, computer, title):
    """A page, read and used by its accessibility tree alone."""
    page = (
        "<title>Shop</title><h1>Buy</h1><label>Name<input id=n></label><label><input type=checkbox checked>Gift</label>"
        "<input type=submit disabled value=Never><button onclick='document.title=n.value+document.activeElement.id' id=b>Order now</button>"
        "<button>Order later</button><details><summary>More</summary><p>deep</details>"
    )
    sandbox.fs.upload_file(page.encode(), "/tmp/site/shop.html")
    computer.keyboard.hotkey("ctrl+t")
    title("New tab")
    computer.keyboard.type("127.0.0.1:8097/shop.html")
    computer.keyboard.press("enter")
    title("Shop")
    tree = computer.accessibility
    whole = tree.get_tree(scope="all")
    assert whole.root.role == "document web" and whole.root.name == "Shop" and not whole.truncated, whole
    assert tree.get_tree(max_depth=0).root.children == [] and whole.root.children

    def names(node):
        return [(node.role, node.name)] + [name for child in node.children for name in names(child)]

    assert {("heading", "Buy"), ("entry", "Name"), ("button", "Order now")} <= set(names(whole.root)), names(whole.root)
    (entry,) = tree.find_nodes(role="Entry").matches
    assert {"focusable", "enabled", "visible"} <= set(entry.states) and entry.bounds.width > 20 and "click" in entry.actions, entry
    (gift,) = tree.find_nodes(name="Gift", role="check box").matches
    assert {"checked", "checkable"} <= set(gift.states)
    (never,) = tree.find_nodes(name="Never", role="button").matches
    assert "enabled" not in never.states and tree.find_nodes(name="Never", states=["enabled"], role="button").matches == []
    orders = tree.find_nodes(role="button", name="Order")
    assert [one.name for one in orders.matches] == ["Order now", "Order later"] and not orders.truncated
    assert tree.find_nodes(role="button", name="Order", limit=1).truncated
    assert tree.find_nodes(role="button", name="Order", name_match="exact").matches == []
    tree.set_node_value(entry.id, 'a "quoted" name\\')
    tree.focus_node(gift.id)
    assert "focused" in tree.find_nodes(role="check box").matches[0].states
    tree.invoke_node(orders.matches[0].id)
    title('a "quoted" name\\b')
    tree.invoke_node(gift.id, action="click")
    assert "checked" not in tree.find_nodes(role="check box").matches[0].states
    raises(tree.invoke_node, gift.id, "explode")
    raises(tree.invoke_node, "99999")
    raises(tree.invoke_node, "node:1")
    raises(tree.set_node_value, gift.id, "x")
    raises(tree.get_tree, "pid", 1)
    raises(tree.find_nodes, name="(", name_match="regex")
    raises(tree.find_nodes, states=["visible"] * 33)
    computer.keyboard.hotkey("ctrl+w")
    title("drag")


def computer():
    """A page of the sandbox, seen and used with mouse and keyboard alone."""
    client = Daytona()
    sandbox = client.create()
    computer = sandbox.computer_use
    assert computer.get_status().status == "inactive"
    raises(computer.mouse.click, 1, 1)
    started = computer.start()
    assert told(started.status["chromium"])["running"] and computer.get_status().status == "active", started
    assert computer.get_process_status("chromium").running and not computer.get_process_status("xfce4").running
    (display,) = map(told, computer.display.get_info().displays)
    assert (display["width"], display["height"]) == (1280, 720), display
    page = (
        "<title>Form</title><body style='margin:0'><input id=i style='position:absolute;left:0;top:0;width:300px;height:40px'>"
        "<a id=a style='position:absolute;left:400px;top:0;width:100px;height:40px;background:red'>x</a><p style='height:3000px'>"
        "<script>b=[];say=t=>{b.push(t);document.title=b.join()};"
        "a.onclick=e=>say('click'+e.shiftKey);a.ondblclick=()=>say('twice');"
        "i.onkeydown=e=>{if(e.key=='Enter')say(i.value);if(e.ctrlKey&&e.key=='b')say('bold')};onscroll=()=>say('scroll');"
        "onmousemove=e=>{if(e.buttons)say('drag')}</script>"
    )
    sandbox.fs.upload_file(page.encode(), "/tmp/site/index.html")
    sandbox.process.exec("cd /tmp/site; nohup python3 -m http.server 8097 >/dev/null 2>&1 &")
    deadline = time.monotonic() + 60
    while sandbox.process.exec("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8097))'").exit_code:
        assert time.monotonic() < deadline
        time.sleep(0.1)

    def title(expected):
        deadline = time.monotonic() + 60
        while True:
            titles = [one["title"] for one in map(told, computer.display.get_windows().windows) if one["isActive"]]
            if any(expected in one for one in titles):
                return
            assert time.monotonic() < deadline, (expected, titles)
            time.sleep(0.1)

    title("New tab")
    computer.keyboard.type("127.0.0.1:8097/")
    computer.keyboard.press("enter")
    title("Form")
    raises(computer.keyboard.hotkey, "a+b+c+d+e+f+g+h+i")
    computer.keyboard.hotkey("alt+left")
    title("New tab")
    computer.keyboard.press("Right", ["alt"])
    title("Form")
    computer.keyboard.hotkey("ctrl+t")
    title("New tab")
    computer.keyboard.hotkey("ctrl+w")
    title("Form")
    computer.mouse.click(20, 20)
    computer.keyboard.type("Hi \u00e4")
    computer.keyboard.hotkey("ctrl + b")
    title("bold")
    computer.keyboard.press("Return")
    title("Hi \u00e4")
    at = computer.mouse.click(450, 20, double=True)
    assert (at.x, at.y) == (450, 20) and computer.mouse.get_position().x == 450
    title("twice")
    if NEWER:
        computer.keyboard.down("shift")
        computer.mouse.click(450, 20)
        computer.keyboard.up("shift")
        title("clicktrue")
    computer.mouse.drag(600, 100, 700, 200)
    title("drag")
    if hasattr(computer, "accessibility"):
        by_tree(sandbox, computer, title)
    assert computer.mouse.scroll(600, 300, "down", 3)
    title("scroll")
    computer.mouse.scroll(600, 300, "up", 30)

    def picture(shot, size, kind):
        data = base64.b64decode(shot.screenshot)
        assert shot.size_bytes == len(data)
        if kind == "png":
            assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == size
        else:
            assert data[:2] == b"\xff\xd8"

    picture(computer.screenshot.take_full_screen(), (1280, 720), "png")
    region = sdk.ScreenshotRegion(x=400, y=0, width=100, height=40)
    picture(computer.screenshot.take_region(region, True), (100, 40), "png")
    picture(computer.screenshot.take_compressed(sdk.ScreenshotOptions(fmt="jpeg", quality=50)), None, "jpeg")
    picture(computer.screenshot.take_compressed_region(region, sdk.ScreenshotOptions(fmt="png", scale=0.5)), (50, 20), "png")
    raises(computer.screenshot.take_region, sdk.ScreenshotRegion(x=4000, y=0, width=100, height=40))
    raises(computer.keyboard.press, "hyper")
    if NEWER:
        raises(computer.recording.start)
    assert "chromium" in computer.restart_process("chromium").message
    assert not told(computer.stop().status["chromium"])["running"] and computer.get_status().status == "inactive"
    sandbox.delete()


def images():
    """The declarative builder, for a sandbox and for a snapshot."""
    client = Daytona()
    said = []
    image = (
        Image.debian_slim("3.12")
        .env({"GREETING": "hello world", "MORE": "$GREETING!"})
        .workdir("/srv/app")
        .run_commands("echo $GREETING >greeting; echo made it", 'echo "to stderr" >&2')
        .cmd(["/bin/bash"])
    )
    sandbox = client.create(CreateSandboxFromImageParams(image=image, env_vars={"OWN": "1"}), on_snapshot_create_logs=said.append)
    assert "made it" in "".join(said) and "to stderr" in "".join(said), said
    assert state(sandbox) == "started"
    assert sandbox.process.exec("pwd; cat greeting; echo $GREETING $OWN").result == "/srv/app\nhello world\nhello world 1\n"
    sandbox.delete()

    name = "image-" + uuid.uuid4().hex[:8]
    seen = []
    made = client.snapshot.create(CreateSnapshotParams(name=name, image=image, resources=sdk.Resources(cpu=1, memory=1)), on_logs=seen.append)
    assert made.name == name and "made it" in "".join(seen), seen
    raises(client.snapshot.create, CreateSnapshotParams(name=name, image=image))
    for _ in range(2):
        one = client.create(CreateSandboxFromSnapshotParams(snapshot=name))
        assert one.process.exec("cat greeting; echo $MORE").result == "hello world\n$GREETING!\n"
        one.delete()
    client.snapshot.delete(client.snapshot.get(name))
    raises(client.snapshot.get, name)

    broken = Image.base("debian:12").run_commands("echo before; echo the reason >&2; exit 3")
    error = raises(client.snapshot.create, CreateSnapshotParams(name=name, image=broken))
    assert "the reason" in str(error), error
    client.snapshot.delete(client.snapshot.get(name))
    error = raises(client.create, CreateSandboxFromImageParams(image=broken))
    assert "the reason" in str(error), error
    plain = client.create(CreateSandboxFromImageParams(image="debian:12"))
    assert plain.process.exec("echo plain").result == "plain\n"
    plain.delete()


def volumes():
    client = Daytona()
    volume = client.volume.get("data", create=True)
    assert volume.name == "data" and getattr(volume.state, "value", volume.state) == "ready", volume
    assert client.volume.get("data").id == volume.id and [one.name for one in client.volume.list()] == ["data"]
    mount = VolumeMount(volume_id=volume.id, mount_path="/home/daytona/data")
    first = client.create(CreateSandboxFromSnapshotParams(volumes=[mount]))
    second = client.create(CreateSandboxFromSnapshotParams(volumes=[VolumeMount(volume_id="data", mount_path="/mnt/it")]))
    assert [one.mount_path for one in second.volumes] == ["/mnt/it"]
    first.fs.upload_file(b"shared", "data/deep/file")
    assert second.fs.download_file("/mnt/it/deep/file") == b"shared"
    first.delete()
    if NEWER:
        below = VolumeMount(volume_id="data", mount_path="/mnt/below", subpath="deep")
        third = client.create(CreateSandboxFromSnapshotParams(volumes=[below]))
        assert third.fs.download_file("/mnt/below/file") == b"shared" and third.volumes[0].subpath == "deep"
        third.delete()
        assert "in use" in str(raises(client.volume.delete, volume))
    second.delete()
    client.volume.delete(volume)
    assert client.volume.list() == []


def language_server(language, name, text):
    """Of a template whose PATH has pyright and typescript-language-server."""
    client = Daytona()
    sandbox = client.create(CreateSandboxFromSnapshotParams(snapshot="servers"))
    sandbox.fs.create_folder("project", "755")
    sandbox.fs.upload_file(text.encode(), f"project/{name}")
    path = f"/home/daytona/project/{name}"
    server = sandbox.create_lsp_server(language, "/home/daytona/project")
    raises(server.document_symbols, path)
    server.start()
    server.start()
    server.did_open(path)
    symbols = server.document_symbols(path)
    assert {"Thing", "method_one"} <= {one.name for one in symbols} and symbols[0].location.uri.endswith(name), symbols
    assert "Thing" in [one.name for one in server.sandbox_symbols("Thing")]
    line = next(i for i, one in enumerate(text.split("\n")) if one.startswith("thing.m"))
    place = {"line": line, "character": 7}  # 0.24 does not take its own Position
    found = server.completions(path, lsp_server.LspCompletionPosition(**place) if NEWER else place)
    assert "method_one" in [one.label for one in found.items], [one.label for one in found.items][:20]
    server.did_close(path)
    server.stop()
    raises(server.stop)
    sandbox.delete()


def language_servers():
    language_server("python", "a.py", "class Thing:\n    def method_one(self):\n        return 1\n\nthing = Thing()\nthing.m\n")
    language_server("typescript", "a.ts", "class Thing {\n  method_one() { return 1 }\n}\nconst thing = new Thing()\nthing.m\n")


def interpreter():
    client = Daytona()
    sandbox = client.create()
    code = sandbox.code_interpreter
    seen = []
    result = code.run_code("x = 6 * 7\nprint(x)", on_stdout=lambda message: seen.append(message.output))
    assert result.stdout == "42\n" and "".join(seen) == "42\n" and not result.error, result
    assert code.run_code("print(x)").stdout == "42\n"
    assert code.run_code("1/0").error.name == "ZeroDivisionError"
    assert code.run_code("import os; print(os.environ['V'])", envs={"V": "x y"}).stdout == "x y\n"
    assert code.run_code("print(os.environ.get('V'))").stdout == "None\n"
    context = code.create_context(cwd="/tmp")
    assert code.run_code("import os; print(os.getcwd(), 'x' in globals())", context=context).stdout == "/tmp False\n"
    assert [one.id for one in code.list_contexts()] == [context.id]
    code.delete_context(context)
    assert code.list_contexts() == []
    assert type(raises(code.run_code, "while True: pass", timeout=1)).__name__ == "DaytonaTimeoutError"
    sandbox.delete()


async def many():
    """Several at a time, by the asynchronous client."""
    async with AsyncDaytona() as client:
        sandbox = await client.create()
        results = await asyncio.gather(*(sandbox.process.exec(f"sleep 0.2; echo {i}") for i in range(8)))
        assert [one.result.strip() for one in results] == [str(i) for i in range(8)]
        await sandbox.delete()


def asynchronous():
    asyncio.run(many())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done")

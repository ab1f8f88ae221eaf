"""What users do with Modal's own Python SDK: python modal_story.py STORY. Written for both generations."""

import hashlib
import http.client
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time

import modal

NEWEST = hasattr(modal.Sandbox, "filesystem")
APP = "story"


def app():
    return modal.App.lookup(APP, create_if_missing=True)


def image():
    return modal.Image.from_registry("debian:12")


def box(*words, **more):
    return modal.Sandbox.create(*words, app=app(), image=more.pop("image", None) or image(), **more)


def fails(what, *errors):
    try:
        what()
    except errors:
        return
    raise AssertionError("it worked")


def quick_start():
    """As in the vendor's guide, with the image that clients take when nobody names one."""
    sb = modal.Sandbox.create(app=app())
    p = sb.exec("python3", "-c", "print('hello')", timeout=30)
    assert p.stdout.read() == "hello\n", "out"
    p = sb.exec("bash", "-c", "for i in 1 2 3; do echo foo; sleep 0.1; done", timeout=30)
    assert [line for line in p.stdout] == ["foo\n"] * 3
    p.wait()
    assert p.returncode == 0
    sb.terminate()
    sb.wait(raise_on_termination=False)
    assert sb.returncode == 137


def entrypoint():
    sb = box("bash", "-c", "read line; echo got $line; echo oops >&2; exit 4")
    assert sb.poll() is None
    sb.stdin.write("input\n")
    sb.stdin.write_eof()
    sb.stdin.drain()
    sb.wait(raise_on_termination=False)
    assert sb.returncode == 4 and sb.poll() == 4
    assert sb.stdout.read() == "got input\n", "out"
    assert sb.stderr.read() == "oops\n", "err"
    sb.terminate()
    late = box("sleep", "60", timeout=2)
    fails(late.wait, modal.exception.SandboxTimeoutError)
    assert late.returncode == 124, late.returncode
    fails(lambda: box("/there/is/none"), modal.exception.InvalidError, Exception)


def commands():
    sb = box(secrets=[modal.Secret.from_dict({"A": "b"})], timeout=600)
    p = sb.exec("sh", "-c", 'echo "$A $C $PWD"; echo err >&2; exit 3', workdir="/tmp", secrets=[modal.Secret.from_dict({"C": "d"})])
    assert (p.stdout.read(), p.stderr.read(), p.wait()) == ("b d /tmp\n", "err\n", 3)
    p = sb.exec("cat")
    assert p.poll() is None
    p.stdin.write("one\n")
    p.stdin.drain()
    p.stdin.write(b"two\n")
    p.stdin.write_eof()
    p.stdin.drain()
    assert (p.stdout.read(), p.wait()) == ("one\ntwo\n", 0)
    p = sb.exec("printf", r"\377\001", text=False)
    assert p.stdout.read() == b"\xff\x01"
    p = sb.exec("seq", "100000")
    assert p.stdout.read().endswith("99999\n100000\n")
    p = sb.exec("sh", "-c", "kill -9 $$")
    assert p.wait() == 137
    sb.terminate()


def texts():
    """Large ones, which are no ASCII; and a loop over what a sandbox says until its time is over."""
    sb = box(timeout=600)
    p = sb.exec("python3", "-c", "print('a\u00f1\u20ac\U0001f600' * 100000)")
    assert p.stdout.read() == "a\u00f1\u20ac\U0001f600" * 100000 + "\n"
    sb.terminate()
    sb = box("sh", "-c", "while :; do echo tick; sleep 0.2; done", timeout=4)
    p = sb.exec("sleep", "1000")
    assert set("".join(sb.stdout).split()) == {"tick"}
    fails(p.wait, modal.exception.NotFoundError)
    fails(sb.wait, modal.exception.SandboxTimeoutError)


def names():
    sb = box(name="one", timeout=600)
    fails(lambda: box(name="one"), modal.exception.AlreadyExistsError)
    sb.set_tags({"team": "blue", "n": "1"})
    other = box(timeout=600)
    assert modal.Sandbox.from_name(APP, "one").object_id == sb.object_id
    fails(lambda: modal.Sandbox.from_name(APP, "none"), modal.exception.NotFoundError)
    assert [s.object_id for s in modal.Sandbox.list(app_id=app().app_id, tags={"n": "1"})] == [sb.object_id]
    assert [s.object_id for s in modal.Sandbox.list(app_id=app().app_id)] == [other.object_id, sb.object_id]
    if hasattr(sb, "get_tags"):
        assert sb.get_tags() == {"team": "blue", "n": "1"}
    assert modal.Sandbox.from_id(sb.object_id).exec("true").wait() == 0
    fails(lambda: modal.Sandbox.from_id("sb-abcdefghij"), modal.exception.NotFoundError)
    for one in (sb, other):
        one.terminate()
    assert list(modal.Sandbox.list(app_id=app().app_id)) == []


def network():
    """None, and nothing but what a list names: the gate refuses the rest, and knows no other name."""
    reach = "import socket, sys; s = socket.create_connection((sys.argv[1], 80), timeout=20); s.send(b'GET / HTTP/1.0\\r\\n\\r\\n'); sys.exit(not s.recv(1))"
    list_of = "outbound_cidr_allowlist" if NEWEST else "cidr_allowlist"
    blocked = box(block_network=True, timeout=600)
    assert blocked.exec("python3", "-c", reach, "8.8.8.8").wait() != 0
    assert blocked.exec("sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").stdout.read() == "lo\n"
    blocked.terminate()
    wishes = [{list_of: ["192.0.2.0/24"]}]
    if NEWEST:
        wishes.append({"outbound_domain_allowlist": ["*.example.com"]})
    for wish in wishes:
        sb = box(timeout=600, **wish)
        for host in ("8.8.8.8", "elsewhere.test"):
            assert sb.exec("python3", "-c", reach, host, timeout=60).wait() not in (0, None), (wish, host)
        sb.terminate()
    fails(lambda: box(image=image().run_commands("true"), block_network=True), modal.exception.InvalidError if NEWEST else Exception)


def idle():
    """Left alone it ends, and says so; in use it goes on."""
    sb = box(idle_timeout=3, timeout=600)
    began = time.monotonic()
    assert sb.exec("sleep", "6").wait() == 0 and time.monotonic() - began > 5
    assert sb.poll() is None
    sb.wait(raise_on_termination=False)
    assert sb.poll() is not None and time.monotonic() - began < 90
    fails(lambda: sb.exec("true"), modal.exception.NotFoundError, modal.exception.Error)


def terminals():
    sb = box(timeout=600)
    p = sb.exec("sh", "-c", "test -t 0 && test -t 1 && echo yes; read line; echo got $line", pty=True)
    p.stdin.write("this\n")
    p.stdin.drain()
    said = p.stdout.read()
    assert p.wait() == 0 and "yes\r\n" in said and "got this\r\n" in said, said
    assert sb.exec("test", "-t", "1").wait() == 1
    sb._experimental_set_name("later")
    assert modal.Sandbox.from_name(APP, "later").object_id == sb.object_id
    other = box(name="taken", timeout=600)
    fails(lambda: sb._experimental_set_name("taken"), modal.exception.AlreadyExistsError)
    for one in (sb, other):
        one.terminate()


def images():
    made = image().dockerfile_commands("ENV GREETING='hello you'", "WORKDIR /tmp/place").run_commands("echo $GREETING > made")
    sb = box(image=made, timeout=600)
    p = sb.exec("sh", "-c", "cat made; pwd")
    assert p.stdout.read() == "hello you\n/tmp/place\n"
    assert sb.exec("sh", "-c", "echo more >> made").wait() == 0
    snapshot = sb.snapshot_filesystem()
    sb.terminate()
    second = box(image=snapshot)
    assert second.exec("cat", "/tmp/place/made").stdout.read() == "hello you\nmore\n"
    second.terminate()
    # What comes after the last command counts as well, also before another one.
    later = made.env({"GREETING": "later", "MORE": "1"}).workdir("/tmp/new")
    for one, told in ((later, "later 1 /tmp/new\n"), (later.run_commands("echo $MORE > /tmp/new/more").env({"MORE": "2"}), "later 2 /tmp/new\n1\n")):
        sb = box(image=one)
        assert sb.exec("sh", "-c", "cat /tmp/place/made; echo $GREETING $MORE $PWD; cat more 2>/dev/null").stdout.read() == "hello you\n" + told
        sb.terminate()
    again = box(image=modal.Image.from_id(snapshot.object_id))
    assert again.exec("sh", "-c", "echo $GREETING").stdout.read() == "hello you\n"
    again.terminate()
    # Variables are looked up where a Dockerfile does so, once.
    named = image().dockerfile_commands("ENV BIN=/tmp/bin", "ENV PATH=$BIN:$PATH PLAIN='$BIN' LATER=\"${BIN} too\" OWN=\\$BIN", "WORKDIR $BIN")
    sb = box(image=named.run_commands("printf '#!/bin/sh\\necho mine\\n' > $BIN/mine && chmod +x $BIN/mine && mine").env({"BIN": "/none"}))
    assert sb.exec("mine").stdout.read() == "mine\n"
    assert sb.exec("sh", "-c", "echo \"$PLAIN,$LATER,$OWN,$PWD\"").stdout.read() == "$BIN,/tmp/bin too,$BIN,/tmp/bin\n"
    sb.terminate()
    with tempfile.TemporaryDirectory() as place:
        (pathlib.Path(place) / "Dockerfile").write_text("FROM debian:12\nARG GIVEN=usual\nARG USUAL=usual\nRUN echo $GIVEN $USUAL > /tmp/said\n")
        sb = box(image=modal.Image.from_dockerfile(f"{place}/Dockerfile", build_args={"GIVEN": "it's \"given\" $HOME"}))
        assert sb.exec("cat", "/tmp/said").stdout.read() == "it's \"given\" $HOME usual\n"
        sb.terminate()
    fails(lambda: box(image=image().run_commands("exit 3")), modal.exception.RemoteError, modal.exception.ImageBuilderVersion if hasattr(modal.exception, "ImageBuilderVersion") else modal.exception.RemoteError)
    fails(lambda: modal.Image.from_id("im-abcdefghij").build(app()) if NEWEST else box(image=modal.Image.from_id("im-abcdefghij")), modal.exception.NotFoundError)


def packages():
    """By uv, and from files of one's own; without a network: WHEELS is the directory that has them."""
    wheels = os.environ["WHEELS"]
    base = modal.Image.from_registry("wheels").env({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels, "UV_OFFLINE": "1"})
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write("tendon-hello==1.0\n")
        wanted.flush()
        by_file = base.pip_install_from_requirements(wanted.name)
        by_uv_of_file = base.uv_pip_install(requirements=[wanted.name], find_links=wheels)
        for made in (by_file, by_uv_of_file, base.uv_pip_install("tendon-hello", find_links=wheels, uv_version=os.environ["UV"])):
            sb = box(image=made)
            assert sb.exec("python3", "-c", "import tendon_hello; print(tendon_hello.word)").stdout.read() == "hello\n"
            sb.terminate()
    with tempfile.TemporaryDirectory() as project:
        (pathlib.Path(project) / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["tendon-hello"]\n')
        sb = box(image=base.env({"UV_FIND_LINKS": wheels}).uv_sync(project))
        assert sb.exec("python", "-c", "import sys, tendon_hello; print(tendon_hello.word, sys.prefix)").stdout.read() == "hello /.uv/.venv\n"
        sb.terminate()
    for refused in (base.uv_pip_install("x", uv_version="0.1-alpine"), base.dockerfile_commands("COPY --from=debian:12 /bin/true /bin/true2")):
        fails(lambda one=refused: box(image=one), modal.exception.InvalidError, modal.exception.RemoteError)
    shell = base.shell(["/bin/bash", "-o", "pipefail", "-c"])
    sb = box(image=shell.run_commands("a=(1 2); echo ${a[1]} > /tmp/shell"))
    assert sb.exec("cat", "/tmp/shell").stdout.read() == "2\n"
    sb.terminate()
    fails(lambda: box(image=shell.run_commands("false | true")), modal.exception.RemoteError)


def volumes():
    """By name, mounted in sandboxes that come one after the other."""
    fails(lambda: box(volumes={"/data": modal.Volume.from_name("no-such")}), modal.exception.NotFoundError)
    volume = modal.Volume.from_name("story-data", create_if_missing=True)
    first = box(volumes={"/data": volume}, timeout=600)
    assert first.exec("sh", "-c", "mkdir /data/deep; echo kept >/data/deep/file").wait() == 0
    if hasattr(first, "reload_volumes"):
        first.reload_volumes()
    first.terminate()
    first.wait(raise_on_termination=False)
    again = box(volumes={"/mnt/it": modal.Volume.from_name("story-data").read_only()})
    assert again.exec("cat", "/mnt/it/deep/file").stdout.read() == "kept\n"
    assert again.exec("sh", "-c", "echo >/mnt/it/more").wait() != 0
    again.terminate()
    again.wait(raise_on_termination=False)
    delete = modal.Volume.objects.delete if hasattr(modal.Volume, "objects") else modal.Volume.delete
    delete("story-data")


def secrets():
    """With names: kept by the service, told to sandboxes alone."""
    make = modal.Secret.objects.create if hasattr(modal.Secret, "objects") else modal.Secret.create_deployed
    make("tokens", {"TOKEN": "one", "OTHER": "2"})
    fails(lambda: make("tokens", {"TOKEN": "x"}), modal.exception.AlreadyExistsError)
    sb = box(secrets=[modal.Secret.from_name("tokens", required_keys=["TOKEN"])], timeout=600)
    assert sb.exec("sh", "-c", "echo $TOKEN $OTHER").stdout.read() == "one 2\n"
    fails(lambda: box(secrets=[modal.Secret.from_name("none")]), modal.exception.NotFoundError)
    fails(lambda: box(secrets=[modal.Secret.from_name("tokens", required_keys=["LACKS"])]), modal.exception.NotFoundError)
    p = sb.exec("sh", "-c", "echo $TOKEN $MORE", secrets=[modal.Secret.from_name("tokens"), modal.Secret.from_dict({"MORE": "m"})])
    assert p.stdout.read() == "one m\n"
    found = modal.Secret.from_name("tokens")
    found.hydrate()
    assert found.info().name == "tokens"
    if hasattr(found, "update"):
        found.update({"TOKEN": "three"})
        assert sb.exec("sh", "-c", "echo $TOKEN $OTHER", secrets=[found]).stdout.read() == "three 2\n"
    if hasattr(modal.Secret, "objects"):
        make("second", {"B": "c"})
        assert [s.name for s in modal.Secret.objects.list()] == ["second", "tokens"]
        assert [s.name for s in modal.Secret.objects.list(max_objects=1)] == ["second"]
        for name in ("second", "tokens"):
            modal.Secret.objects.delete(name)
        fails(lambda: modal.Secret.objects.delete("tokens"), modal.exception.NotFoundError)
    sb.terminate()


def mounts():
    """Local files: in images, and in sandboxes when they start; a large one goes up by a link."""
    large = bytes(range(256)) * (20 << 10)
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        (tree / "sub").mkdir()
        (tree / "a.txt").write_text("A")
        (tree / "sub" / "b.sh").write_text("#!/bin/sh\necho B\n")
        (tree / "sub" / "b.sh").chmod(0o755)
        (tree / "large.bin").write_bytes(large)
        (tree / "Dockerfile").write_text("FROM debian:12\nWORKDIR /tmp/w\nCOPY a.txt sub /tmp/w/\nRUN ./b.sh >said\n")
        made = image().add_local_file(tree / "a.txt", "/opt/a.txt", copy=True).run_commands("cat /opt/a.txt /opt/a.txt >/opt/twice")
        made = made.add_local_dir(tree, "/opt/tree", copy=True)
        sb = box(image=made, timeout=600)
        p = sb.exec("sh", "-c", "cat /opt/twice; /opt/tree/sub/b.sh; sha256sum </opt/tree/large.bin; ls -A /tmp | grep tendon-context")
        assert p.stdout.read() == f"AAB\n{hashlib.sha256(large).hexdigest()}  -\n", p.stderr.read()
        sb.terminate()
        late = image().add_local_file(tree / "a.txt", "/opt/late.txt").add_local_dir(tree / "sub", "/opt/sub")
        sb = box("sh", "-c", "cat /opt/late.txt; /opt/sub/b.sh", image=late, timeout=600)
        assert sb.stdout.read() == "AB\n"
        sb.terminate()
        sb = box(image=modal.Image.from_dockerfile(tree / "Dockerfile", context_dir=tree), timeout=600)
        assert sb.exec("cat", "/tmp/w/said", "/tmp/w/a.txt").stdout.read() == "B\nA"
        sb.terminate()
        (tree / "Dockerfile").write_text("FROM debian:12\nCOPY ../../../../etc/passwd /opt/p\n")
        fails(lambda: box(image=modal.Image.from_dockerfile(tree / "Dockerfile", context_dir=tree)), Exception)


def files():
    sb = box(timeout=600)
    fs = sb.filesystem
    fs.write_text("some text", "/tmp/a/b.txt")
    assert fs.read_text("/tmp/a/b.txt") == "some text"
    large = bytes(range(256)) * 20000
    fs.write_bytes(large, "/tmp/a/large")
    assert fs.read_bytes("/tmp/a/large") == large
    assert [(e.name, e.size) for e in fs.list_files("/tmp/a")] == [("b.txt", 9), ("large", len(large))]
    assert fs.stat("/tmp/a/b.txt").is_file() and fs.stat("/tmp/a").is_dir()
    fails(lambda: fs.read_text("/tmp/none"), modal.exception.SandboxFilesystemNotFoundError)
    fails(lambda: fs.read_text("/tmp/a"), modal.exception.SandboxFilesystemIsADirectoryError)
    fails(lambda: fs.write_text("", "/tmp/a"), modal.exception.SandboxFilesystemIsADirectoryError)
    fails(lambda: fs.make_directory("/tmp/a", create_parents=False), modal.exception.SandboxFilesystemPathAlreadyExistsError)
    fails(lambda: fs.make_directory("/tmp/x/y", create_parents=False), modal.exception.SandboxFilesystemNotFoundError)
    fs.make_directory("/tmp/x/y")
    fails(lambda: fs.remove("/tmp/a"), modal.exception.SandboxFilesystemDirectoryNotEmptyError)
    fs.remove("/tmp/a", recursive=True)
    fails(lambda: fs.list_files("/tmp/a"), modal.exception.SandboxFilesystemNotFoundError)
    sb.terminate()


def open_files():
    """As the vendor's guide of 1.1 has it, and all else that such a file can do."""
    sb = box(timeout=600)
    sb.mkdir("/tmp/it")
    with sb.open("/tmp/it/test.txt", "w") as f:
        f.write("Hello World\nof files\n")
        f.flush()
    f = sb.open("/tmp/it/test.txt", "rb")
    assert f.read() == b"Hello World\nof files\n" and f.read() == b""
    f.seek(6)
    assert f.read(5) == b"World" and f.readline() == b"\n" and f.readline() == b"of files\n" and f.readline() == b""
    f.seek(-6, 2)
    assert f.readlines() == [b"files\n"]
    f.close()
    with sb.open("/tmp/it/test.txt", "a+") as f:
        f.write("the end")
    with sb.open("/tmp/it/test.txt", "r+") as f:
        f.seek(6)
        f.write("there")
        f.seek(0)
        assert f.read() == "Hello there\nof files\nthe end"
        modal.file_io.delete_bytes(f, start=5, end=11)
        modal.file_io.replace_bytes(f, b"Goodbye", start=0, end=5)
    assert sb.exec("cat", "/tmp/it/test.txt").stdout.read() == "Goodbye\nof files\nthe end"
    with sb.open("/tmp/it/gone", "x+") as f:  # what cannot be read is not taken for nothing
        sb.rm("/tmp/it/gone")
        fails(lambda: modal.file_io.replace_bytes(f, b"piece", start=0), FileNotFoundError)
        assert sb.ls("/tmp/it") == ["test.txt"]
    with sb.open("/tmp/it/test.txt", "r+") as f:  # where it stands is kept in the sandbox, which cannot make it another file
        sb.exec("sh", "-c", "sed -i s,/tmp/it/test.txt,/tmp/it/other, /tmp/.modal-files/*").wait()
        fails(lambda: f.write("x"), OSError)
        sb.exec("sh", "-c", "sed -i s,/tmp/it/other,/tmp/it/test.txt, /tmp/.modal-files/*").wait()
        f.write("Goodbye")
    large = bytes(range(256)) * 80000  # more than one message
    with sb.open("/tmp/it/large", "wb") as f:
        f.write(large)
    with sb.open("/tmp/it/large", "rb") as f:
        assert f.read(10) == large[:10] and f.read() == large[10:]
    assert sorted(sb.ls("/tmp/it")) == ["large", "test.txt"]
    fails(lambda: sb.open("/tmp/it/none", "r"), FileNotFoundError)
    fails(lambda: sb.open("/tmp/none/none", "w"), FileNotFoundError)
    fails(lambda: sb.open("/tmp/it/large", "x"), FileExistsError)
    fails(lambda: sb.open("/tmp/it", "r"), IsADirectoryError)
    fails(lambda: sb.mkdir("/tmp/it"), FileExistsError)
    fails(lambda: sb.ls("/tmp/none"), FileNotFoundError)
    fails(lambda: sb.rm("/tmp/none"), FileNotFoundError)
    sb.mkdir("/tmp/it/a/b", parents=True)
    sb.rm("/tmp/it", recursive=True)
    assert "it" not in sb.ls("/tmp") and sb.ls("/tmp/.modal-files") == []
    sb.terminate()


def openhands():
    """Its way: a server as the command of the sandbox, and nothing but a tunnel to it."""
    script = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"
    sb = box("python3", "-c", script, encrypted_ports=[8000], timeout=600, workdir="/", secrets=[modal.Secret.from_dict({"X": "1"})])
    tunnel = sb.tunnels()[8000]
    assert tunnel.url.startswith("https://8000-")
    deadline = time.monotonic() + 60
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", tunnel.port, timeout=30)
        connection.request("GET", "/etc/", headers={"Host": f"{tunnel.host}:{tunnel.port}"})
        answer = connection.getresponse()
        if answer.status == 200 or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert answer.status == 200 and b"Directory listing" in answer.read()
    attached = modal.Sandbox.from_id(sb.object_id)
    assert attached.tunnels()[8000].url == tunnel.url
    attached.terminate()


SPEAKS_FIRST = """import socketserver as s
class Lines(s.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b'hello\\n')
        for line in self.rfile:
            self.wfile.write(line.upper())
        self.wfile.write(b'bye\\n')
s.ThreadingTCPServer(('127.0.0.1', 9000), Lines).serve_forever()"""


def greeted(address):
    """A connection to it, and its file, once the server inside is there."""
    deadline = time.monotonic() + 60
    while True:
        connection = socket.create_connection(address, timeout=30)
        lines = connection.makefile("rb")
        if lines.readline() == b"hello\n":
            return connection, lines
        assert time.monotonic() < deadline
        time.sleep(0.1)


def raw_tcp():
    """A server that speaks no HTTP, and speaks first."""
    sb = box("python3", "-c", SPEAKS_FIRST, unencrypted_ports=[9000], encrypted_ports=[8000], timeout=600)
    tunnels = sb.tunnels()
    fails(lambda: tunnels[8000].tcp_socket, modal.exception.InvalidError)
    first, lines = greeted(tunnels[9000].tcp_socket)
    second, others = greeted(tunnels[9000].tcp_socket)
    second.sendall(b"other\n")
    large = b"x" * (1 << 20) + b"\n"
    sender = threading.Thread(target=first.sendall, args=(large * 4,))
    sender.start()
    assert [lines.readline() == large.upper() for _ in range(4)] == [True] * 4
    sender.join(60)
    first.shutdown(socket.SHUT_WR)
    assert lines.read() == b"bye\n" and others.readline() == b"OTHER\n"
    assert modal.Sandbox.from_id(sb.object_id).tunnels()[9000].tcp_socket == tunnels[9000].tcp_socket
    sb.terminate()
    assert others.read() == b""
    fails(lambda: socket.create_connection(tunnels[9000].tcp_socket, timeout=30), ConnectionRefusedError)


if __name__ == "__main__":
    with modal.enable_output() if "-v" in sys.argv else memoryview(b""):
        globals()[sys.argv[1]]()
    print("done")

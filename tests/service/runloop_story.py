"""What users do with Runloop's own SDK; run by an interpreter that has one: runloop_story.py STORY. All but quick_start, objects,
terminals and asynchronous also work with 0.50, the one that OpenHands pins."""

import asyncio
import os
import pathlib
import sys
import tempfile
import time
import urllib.request

import runloop_api_client
from runloop_api_client import AsyncRunloop, BadRequestError, NotFoundError, Runloop, RunloopError

PYTHON = next((p for p in ("/usr/bin/python", "/usr/local/bin/python") if os.path.exists(p)), "python3")


def raises(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"{call} did not raise {kind}")


def eventually(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.1)


def quick_start():
    """Of the vendor's README, but for the name of the interpreter where the machine has no `python`."""
    from runloop_api_client import RunloopSDK

    runloop = RunloopSDK()  # Uses RUNLOOP_API_KEY environment variable by default

    # Create a sandbox, run a command in it, and clean it up on exit.
    with runloop.devbox.create(name="my-devbox") as devbox:
        devbox.file.write(file_path="main.py", contents="print('hello from a sandbox')")
        result = devbox.cmd.exec(f"{PYTHON} main.py")
        assert result.stdout() == "hello from a sandbox\n", result.stderr()
    raises(NotFoundError, devbox.get_info)


def life():
    client = Runloop()
    made = client.devboxes.create_and_await_running(
        name="story",
        metadata={"app": "story"},
        environment_variables={"A": "1"},
        launch_parameters={"keep_alive_time_seconds": 600, "launch_commands": ["echo launched >launched"]},
    )
    assert made.status == "running" and made.name == "story" and made.metadata == {"app": "story"}
    assert made.launch_parameters.keep_alive_time_seconds == 600
    assert client.devboxes.retrieve(made.id).id == made.id
    done = client.devboxes.execute_sync(made.id, command="echo $A; cat launched; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_status) == ("1\nlaunched\n", "err\n", 3)
    others = [client.devboxes.await_running(client.devboxes.create().id).id for _ in range(2)]
    assert {d.id for d in client.devboxes.list(limit=2)} >= {made.id, *others}  # over pages
    for one in others:
        assert client.devboxes.shutdown(one).status == "shutdown"
    client.devboxes.keep_alive(made.id)
    assert client.devboxes.update(made.id, name="renamed", metadata={"b": "2"}).metadata == {"b": "2"}
    client.devboxes.suspend(made.id)
    assert made.id in [d.id for d in client.devboxes.list(status="suspended")]
    raises(BadRequestError, client.devboxes.execute_sync, made.id, command="true")
    client.devboxes.resume(made.id)
    client.devboxes.await_running(made.id)
    assert client.devboxes.execute_sync(made.id, command="cat launched").stdout == "launched\n"
    client.devboxes.shutdown(made.id)
    raises(NotFoundError, client.devboxes.retrieve, made.id)
    error = raises(BadRequestError, client.devboxes.create, launch_parameters={"launch_commands": ["exit 9"]})
    assert "exit status 9" in str(error)
    stranger = Runloop(bearer_token="nothing")
    raises(runloop_api_client.AuthenticationError, stranger.devboxes.list)


def commands():
    client = Runloop()
    box = client.devboxes.create_and_await_running().id
    begun = client.devboxes.execute_async(box, command="echo a; sleep 0.5; echo b")
    done = client.devboxes.executions.await_completed(begun.execution_id, devbox_id=box)
    assert (done.status, done.stdout, done.exit_status) == ("completed", "a\nb\n", 0), done
    begun = client.devboxes.execute_async(box, command="sleep 1000")
    assert client.devboxes.executions.retrieve(begun.execution_id, devbox_id=box).status == "running"
    client.devboxes.executions.kill(begun.execution_id, devbox_id=box)
    assert client.devboxes.executions.retrieve(begun.execution_id, devbox_id=box).exit_status == 137
    raises(NotFoundError, client.devboxes.executions.retrieve, "p0123456789abcdef", devbox_id=box)
    assert any(entry.message == "a" for entry in client.devboxes.logs.list(box).logs)
    if hasattr(client.devboxes, "execute"):
        newer_commands(client, box)
    client.devboxes.shutdown(box)


def newer_commands(client, box):
    begun = client.devboxes.execute_async(box, command="sleep 0.5; echo c")
    over = client.devboxes.wait_for_command(begun.execution_id, devbox_id=box, statuses=["completed"])
    assert (over.status, over.stdout, over.exit_status) == ("completed", "c\n", 0), over
    begun = client.devboxes.execute_async(box, command="sleep 1000")
    soon = client.devboxes.wait_for_command(begun.execution_id, devbox_id=box, statuses=["running"], timeout_seconds=20)
    assert soon.status == "running", soon
    client.devboxes.executions.kill(begun.execution_id, devbox_id=box)
    done = client.devboxes.execute_and_await_completion(box, command="echo whole; exit 2")
    assert (done.stdout, done.exit_status) == ("whole\n", 2)
    assert client.devboxes.execute(box, command="seq 9", last_n="2").stdout == "8\n9\n"
    from runloop_api_client import RunloopSDK

    devbox = RunloopSDK().devbox.from_id(box)
    said, errors = [], []
    result = devbox.cmd.exec("for i in 1 2 3; do echo $i; sleep 0.1; done; echo e >&2", stdout=said.append, stderr=errors.append)
    assert result.exit_code == 0 and result.success and "".join(said) == "1\n2\n3\n" and "".join(errors) == "e\n"
    execution = devbox.cmd.exec_async("while read x; do echo got $x; done", attach_stdin=True)
    execution.send_std_in("one\n")
    execution.close_std_in()
    assert execution.result().stdout() == "got one\n"
    long = devbox.cmd.exec("seq 300000")
    assert long.stdout(num_lines=1) == "300000" and long.stdout().endswith("299999\n300000\n")
    running = devbox.cmd.exec_async("sleep 1000")
    assert running.get_state().status == "running"
    running.kill()
    assert running.result().exit_code == 137
    assert devbox.logs(execution_id=result.execution_id).logs[-1].exit_code == 0
    assert client.devboxes.retrieve_resource_usage(box).id == box


def files():
    client = Runloop()
    box = client.devboxes.create_and_await_running(file_mounts={"/tmp/mounted.txt": "mounted"}).id
    client.devboxes.write_file_contents(box, file_path="a/hello.txt", contents="hellö")
    assert client.devboxes.read_file_contents(box, file_path="a/hello.txt") == "hellö"
    assert client.devboxes.read_file_contents(box, file_path="/tmp/mounted.txt") == "mounted"
    content = bytes(range(256)) * 4096
    with tempfile.TemporaryDirectory() as folder:
        local = pathlib.Path(folder) / "x.bin"
        local.write_bytes(content)
        client.devboxes.upload_file(box, path="up/x.bin", file=local)
    client.devboxes.upload_file(box, path="/tmp/y.bin", file=b"bytes")
    assert client.devboxes.download_file(box, path="/home/user/up/x.bin").read() == content
    assert client.devboxes.download_file(box, path="/tmp/y.bin").read() == b"bytes"
    raises(NotFoundError, client.devboxes.read_file_contents, box, file_path="none")
    client.devboxes.shutdown(box)


def layers():
    client = Runloop()
    box = client.devboxes.create_and_await_running().id
    client.devboxes.write_file_contents(box, file_path="file", contents="before")
    snapshot = client.devboxes.snapshot_disk(box, name="one", metadata={"m": "1"})
    assert snapshot.source_devbox_id == box and snapshot.metadata == {"m": "1"}
    later = client.devboxes.snapshot_disk_async(box, name="two")
    assert client.devboxes.disk_snapshots.query_status(later.id).snapshot.name == "two"
    if hasattr(client.devboxes.disk_snapshots, "await_completed"):
        assert client.devboxes.disk_snapshots.await_completed(later.id).status == "complete"
    assert {s.id for s in client.devboxes.list_disk_snapshots(devbox_id=box)} == {snapshot.id, later.id}
    assert {s.id for s in client.devboxes.disk_snapshots.list(limit=1)} >= {snapshot.id, later.id}
    assert client.devboxes.disk_snapshots.update(later.id, name="dos").name == "dos"
    client.devboxes.shutdown(box)
    again = client.devboxes.create_and_await_running(snapshot_id=snapshot.id)
    assert again.snapshot_id == snapshot.id
    assert client.devboxes.read_file_contents(again.id, file_path="file") == "before"
    client.devboxes.disk_snapshots.delete(snapshot.id)
    client.devboxes.delete_disk_snapshot(later.id)
    assert client.devboxes.disk_snapshots.list(devbox_id=box).snapshots == []
    client.devboxes.shutdown(again.id)
    blueprint = client.blueprints.create_and_await_build_complete(name="tools", system_setup_commands=["echo t >tool"])
    assert blueprint.status == "build_complete" and client.blueprints.retrieve(blueprint.id).name == "tools"
    assert [b.id for b in client.blueprints.list(name="tools")] == [blueprint.id]
    for origin in ({"blueprint_id": blueprint.id}, {"blueprint_name": "tools"}):
        made = client.devboxes.create_and_await_running(**origin)
        assert client.devboxes.read_file_contents(made.id, file_path="tool") == "t\n"
        client.devboxes.shutdown(made.id)
    assert client.blueprints.logs(blueprint.id).blueprint_id == blueprint.id
    raises(RunloopError, client.blueprints.create_and_await_build_complete, name="bad", system_setup_commands=["false"])
    of = "FROM runloop:runloop/starter\nENV A=1\nRUN echo $A >of\n"
    docker = client.blueprints.create_and_await_build_complete(name="d", dockerfile=of)
    made = client.devboxes.create_and_await_running(blueprint_id=docker.id)
    assert client.devboxes.read_file_contents(made.id, file_path="of") == "1\n"
    client.devboxes.shutdown(made.id)
    client.blueprints.delete(docker.id)
    client.blueprints.delete(blueprint.id)
    raises(NotFoundError, client.blueprints.retrieve, blueprint.id)


def tunnels():
    client = Runloop()
    serve = "mkdir -p web; cd web; echo page >index.html; exec python3 -m http.server 8000"
    box = client.devboxes.create_and_await_running(entrypoint=serve).id
    if hasattr(client.devboxes, "create_tunnel"):
        label = client.devboxes.create_tunnel(box, port=8000).url.partition("://")[2].partition(".")[0]
    else:
        from runloop_api_client import RunloopSDK

        label = "8000-" + client.devboxes.enable_tunnel(box).tunnel_key
        url = RunloopSDK().devbox.from_id(box).get_tunnel_url(8000)
        assert url == f"https://{label}.tunnel.127.0.0.1", url
    # The name is the service's own, which is not in any DNS here.
    request = urllib.request.Request(os.environ["RUNLOOP_BASE_URL"], headers={"Host": f"{label}.tunnel.example.com"})

    def page():
        try:
            return urllib.request.urlopen(request, timeout=30).read()
        except urllib.error.HTTPError as error:
            return error.code

    eventually(lambda: page() == b"page\n")
    client.devboxes.remove_tunnel(box, **({"port": 8000} if hasattr(client.devboxes, "create_tunnel") else {}))
    assert page() == 401
    client.devboxes.shutdown(box)


def openhands():
    """As its Runloop runtime does."""
    client = Runloop()
    made = client.devboxes.create(
        entrypoint="sleep 1000",
        name="sid",
        environment_variables={"DEBUG": "false"},
        extra_body={"prebuilt": "openhands"},
        launch_parameters={"available_ports": [4444, 4445], "launch_commands": ["mkdir -p work"]},
        metadata={"container-name": "openhands-runtime-sid"},
    )
    eventually(lambda: client.devboxes.retrieve(made.id).status == "running")
    found = next(d for d in client.devboxes.list(status="running") if d.name == "sid")
    assert found.id == made.id and found.metadata["container-name"] == "openhands-runtime-sid"
    client.devboxes.shutdown(made.id)


def objects():
    """Stored, listed, downloaded, put into devboxes, the context of a build."""
    from datetime import timedelta

    from runloop_api_client import RunloopSDK

    runloop = RunloopSDK()
    client = runloop.api
    made = client.objects.create(content_type="text", name="greeting.txt", metadata={"a": "1"})
    assert (made.state, made.name, made.metadata, made.size_bytes) == ("UPLOADING", "greeting.txt", {"a": "1"}, None), made
    raises(BadRequestError, client.objects.complete, made.id)  # it has no bytes
    raises(BadRequestError, client.objects.download, made.id)
    raises(BadRequestError, client.devboxes.create, mounts=[{"type": "object_mount", "object_id": made.id, "object_path": "/tmp/x"}])
    client.objects.delete(made.id)
    raises(NotFoundError, client.objects.retrieve, made.id)
    raises(BadRequestError, client.objects.create, content_type="picture", name="x")
    text = runloop.storage_object.upload_from_text("hellö", name="greeting.txt", metadata={"a": "1"}, ttl=timedelta(hours=1))
    info = text.refresh()
    assert (info.state, info.content_type, info.size_bytes) == ("READ_ONLY", "text", 6) and info.delete_after_time_ms > info.create_time_ms
    assert text.download_as_text() == "hellö" and text.download_as_bytes() == "hellö".encode()
    big = bytes(range(256)) * (3 << 12)
    binary = runloop.storage_object.upload_from_bytes(big, name="big.bin", content_type="binary")
    assert binary.download_as_bytes(duration_seconds=60) == big
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        (tree / "sub").mkdir(parents=True)
        (tree / "a.txt").write_text("A")
        (tree / "b.txt").write_text("B")
        (tree / "sub" / "c.txt").write_text("C")
        (tree / "out").symlink_to("/etc/passwd")
        archive = runloop.storage_object.upload_from_dir(tree)
    assert {o.id for o in client.objects.list(limit=1)} == {text.id, binary.id, archive.id}  # over pages
    assert [o.id for o in runloop.storage_object.list(name="big")] == [binary.id]
    assert [o.id for o in client.objects.list(content_type="tgz").objects] == [archive.id]
    assert client.objects.list(state="UPLOADING").objects == [] and client.objects.list_public().objects == []
    mounts = [
        {"type": "object_mount", "object_id": text.id, "object_path": "/home/user/put/greeting.txt"},
        {"type": "object_mount", "object_id": archive.id, "object_path": "/home/user/it's here"},
        {"type": "file_mount", "target": "/tmp/f", "content": "F"},
    ]
    with runloop.devbox.create(mounts=mounts) as devbox:
        said = devbox.cmd.exec("cat put/greeting.txt \"it's here/a.txt\" \"it's here/sub/c.txt\" /tmp/f; ls -A /tmp | grep tendon-object")
        assert said.stdout() == "hellöACF", said.stdout() + said.stderr()
    steps = [
        "FROM runloop:runloop/starter",
        "WORKDIR /home/user/w",
        "COPY a.txt .",
        "COPY --chmod=600 a.txt b.txt /home/user/both/",
        'COPY ["sub", "deep/er"]',
        "ENV N=b",
        "ADD ${N}.txt renamed",
        "COPY *.txt /home/user/all/",
        "RUN cat a.txt deep/er/c.txt renamed >/home/user/said",
    ]
    context = archive.as_build_context()
    blueprint = runloop.blueprint.create(name="copied", dockerfile="\n".join(steps), build_context=context)
    assert client.blueprints.retrieve(blueprint.id).parameters.build_context.object_id == archive.id
    with blueprint.create_devbox() as devbox:
        said = devbox.cmd.exec("cat said; echo; ls both all; stat -c %a both/b.txt; ls -A /tmp | grep tendon-context")
        assert said.stdout() == "ACB\nall:\na.txt\nb.txt\n\nboth:\na.txt\nb.txt\n600\n", said.stdout() + said.stderr()
    blueprint.delete()
    for bad in ("COPY ../../../../etc/passwd /home/user/p", "COPY out /home/user/p", "COPY none /home/user/p", "COPY /etc/passwd /home/user/p"):
        dockerfile = f"FROM runloop:runloop/starter\n{bad}\n"
        raises(RunloopError, client.blueprints.create_and_await_build_complete, name="bad", dockerfile=dockerfile, build_context=context)
    for bad in ("COPY --from=0 a b", "ADD https://example.com/x /x", "COPY a"):
        dockerfile = f"FROM runloop:runloop/starter\n{bad}\n"
        raises(BadRequestError, client.blueprints.create, name="bad", dockerfile=dockerfile, build_context=context)
    raises(NotFoundError, client.blueprints.create, name="bad", dockerfile="FROM x", build_context={"type": "object", "object_id": "0" * 32})
    raises(BadRequestError, client.blueprints.create, name="bad", dockerfile="FROM x\nCOPY a b")  # no context
    for one in (text, binary, archive):
        assert one.delete().state == "DELETED"
    assert client.objects.list().objects == []


def terminals():
    client = Runloop()
    box = client.devboxes.create_and_await_running().id
    tunnel = client.devboxes.create_pty_tunnel(box)
    # The name is the service's own, which is not in any DNS here.
    headers = {"Host": f"1-{tunnel.tunnel_key}.tunnel.example.com", "X-Runloop-Tunnel-Authorization": f"Bearer {tunnel.auth_token}"}
    pty = Runloop(default_headers=headers).pty
    made = pty.connect("main", cols=100, rows=30)
    assert (made.created, made.session_name, made.cols, made.rows) == (True, "main", 100, 30), made
    assert not pty.connect("main").created
    assert pty.control("main", action="resize", cols=90, rows=20).status == "ok"
    pty.control("main", action="signal", signal="SIGWINCH")
    raises(BadRequestError, pty.control, "main", action="resize", cols=0, rows=20)
    raises(BadRequestError, pty.control, "main", action="signal", signal="SIGNONE")
    pty.control("main", action="close")
    raises(NotFoundError, pty.control, "main", action="close")
    assert pty.connect("main").created
    wrong = Runloop(default_headers={**headers, "X-Runloop-Tunnel-Authorization": "Bearer x"}).pty
    raises(runloop_api_client.AuthenticationError, wrong.connect, "main")
    client.devboxes.shutdown(box)


def asynchronous():
    async def story():
        async with AsyncRunloop() as client:
            made = await client.devboxes.create_and_await_running()
            done = await client.devboxes.execute_and_await_completion(made.id, command="echo async")
            assert done.stdout == "async\n"
            begun = await client.devboxes.execute_async(made.id, command="echo x; sleep 0.2; echo y")
            stream = await client.devboxes.executions.stream_stdout_updates(begun.execution_id, devbox_id=made.id)
            assert "".join([chunk.output async for chunk in stream]) == "x\ny\n"
            await client.devboxes.shutdown(made.id)

    asyncio.run(story())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done")

"""One sandbox by a vendor's own SDK, over pods: sdk_smoke.py VENDOR, run by an interpreter that has it. Prints "done"."""

import http.client
import os
import sys
import time
import urllib.parse

# What images have that have next to nothing.
SERVE = (
    "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalAddr => \"127.0.0.1\", LocalPort => 8098, Listen => 5, ReuseAddr => 1)"
    ' or die; while ($c = $s->accept) { while (<$c>) { last if /^\\r?\\n/ } print $c "HTTP/1.0 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\npage\\n"; close $c }\''
)


def page(port, path="/", **headers):
    """What a person's browser gets of the server inside, once that is there."""
    deadline = time.monotonic() + 60
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 200:
            assert body == b"page\n", body
            return
        assert time.monotonic() < deadline, (answer.status, body)
        time.sleep(0.1)


def e2b():
    from e2b import Sandbox

    box = Sandbox.create(timeout=300)
    assert box.commands.run("echo from $(hostname)").stdout == f"from openhands-runtime-{box.sandbox_id}\n"
    box.files.write("a.txt", "kept")
    assert box.files.read("a.txt") == "kept"
    assert [one.sandbox_id for one in Sandbox.list().next_items()] == [box.sandbox_id]
    box.commands.run(SERVE, background=True)
    service = urllib.parse.urlsplit(os.environ["E2B_API_URL"])
    page(service.port, **{"Host": box.get_host(8098), "X-API-Key": os.environ["E2B_API_KEY"]})
    box.pause()  # its pod ends
    assert not box.is_running()
    box = Sandbox.connect(box.sandbox_id, timeout=300)
    assert box.is_running() and box.files.read("a.txt") == "kept"
    box.commands.run(SERVE, background=True)
    page(service.port, **{"Host": box.get_host(8098), "X-API-Key": os.environ["E2B_API_KEY"]})
    assert box.kill() is True


def daytona():
    import daytona as sdk

    client = sdk.Daytona()
    box = client.create()
    assert box.process.exec("echo from $(hostname)").result.strip() == f"from openhands-runtime-{box.id}"
    box.fs.upload_file(b"kept", "a.txt")
    assert box.fs.download_file("a.txt") == b"kept"
    assert [one.id for one in client.list(sdk.ListSandboxesQuery())] == [box.id]
    box.process.exec(f"nohup {SERVE} >/dev/null 2>&1 &")
    link = box.get_preview_link(8098)
    url = urllib.parse.urlsplit(link.url)
    page(url.port, f"{url.path}/", **{"Host": url.netloc, "X-Daytona-Preview-Token": link.token})
    box.pause()  # its pod ends
    assert client.get(box.id).state in (sdk.SandboxState.PAUSED, sdk.SandboxState.STOPPED), box.state
    box.start()
    assert box.fs.download_file("a.txt") == b"kept"
    box.delete()


def runloop():
    from runloop_api_client import Runloop

    client = Runloop()
    box = client.devboxes.create_and_await_running(name="smoke", entrypoint=SERVE).id
    assert client.devboxes.execute_sync(box, command="echo from $(hostname)").stdout == f"from openhands-runtime-{box}\n"
    client.devboxes.write_file_contents(box, file_path="a.txt", contents="kept")
    assert client.devboxes.read_file_contents(box, file_path="a.txt") == "kept"
    assert [one.id for one in client.devboxes.list()] == [box]
    key = client.devboxes.enable_tunnel(box).tunnel_key
    page(urllib.parse.urlsplit(os.environ["RUNLOOP_BASE_URL"]).port, Host=f"8098-{key}.tunnel.example.com")
    assert client.devboxes.shutdown(box).status == "shutdown"


def modal():
    import modal as sdk

    app = sdk.App.lookup("smoke", create_if_missing=True)
    box = sdk.Sandbox.create("bash", "-c", SERVE, app=app, image=sdk.Image.from_registry("debian:1"), encrypted_ports=[8098], timeout=300)
    said = box.exec("bash", "-c", "echo from $(hostname)", timeout=60).stdout.read()
    assert said.startswith("from openhands-runtime-"), said
    box.filesystem.write_text("kept", "/tmp/a.txt")
    assert box.filesystem.read_text("/tmp/a.txt") == "kept"
    assert [one.object_id for one in sdk.Sandbox.list(app_id=app.app_id)] == [box.object_id]
    tunnel = box.tunnels()[8098]
    page(tunnel.port, Host=f"{tunnel.host}:{tunnel.port}")
    box.terminate()


globals()[sys.argv[1]]()
print("done")

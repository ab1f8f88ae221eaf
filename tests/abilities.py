"""What an agent can do in a sandbox beyond shell and files, checked the same way in every backend: through
`tendon mcp`, which is one more way in."""

PAGE = """<!doctype html><title>A page</title><h1>Hello</h1>
<button onclick="document.title = 'Pressed'">Press</button>"""


def check_python(client):
    assert "x is 42" in client.text("python", code="x = 42\nprint('x is', x)", timeout=120)
    assert "43" in client.text("python", code="x + 1")
    result = client.tool("python", code="import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert "SIGKILL" in str(result) or "died" in str(result) or "ended" in str(result)
    assert "again" in client.text("python", code="print('again')", timeout=120)


def check_browser(client):
    """A page of a server inside; a button is pressed by the id that the tree shows."""
    client.text("write_file", path="/tmp/site/index.html", content=PAGE)
    client.text("shell", command="cd /tmp/site && python3 -m http.server 8123 >/dev/null 2>&1 & cd /")
    ready = "until (exec 3<>/dev/tcp/127.0.0.1/8123) 2>/dev/null; do sleep 0.05; done"
    client.text("shell", command=f"bash -c '{ready}'", timeout=60)
    assert "Hello" in client.text("browse", url="http://127.0.0.1:8123/", timeout=120)
    result = client.tool("browser", actions="noop(1)", screenshot=True)
    tree = result["content"][0]["text"]
    bid = next(line for line in tree.splitlines() if "button 'Press'" in line).split("]")[0].strip("\t [")
    assert result["content"][1]["mimeType"] == "image/png"
    assert "Pressed" in client.text("browser", actions=f'click("{bid}")')
    picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    client.text("shell", command=f"echo {picture} | base64 -d >/tmp/site/dot.png")
    viewer = client.text("shell", command="cat /tmp/oh-server-url").split("\n")[0]
    tree = client.text("browser", actions=f'goto("{viewer}/view?path=/tmp/site/dot.png")')
    assert "File Viewer - dot.png" in tree
    client.text("shell", command="pkill -9 chrom; true")
    result = client.tool("browse", url="http://127.0.0.1:8123/", timeout=120)
    if result["isError"]:  # it met the end of the browser
        assert "SIGKILL" in result["content"][0]["text"]
        result = client.tool("browse", url="http://127.0.0.1:8123/", timeout=120)
    assert "Hello" in result["content"][0]["text"]


def check_missing(client):
    """Nothing of it is there: each says what to install."""
    for tool, arguments, name in (
        ("python", {"code": "1"}, "ipykernel"),
        ("browse", {"url": "http://127.0.0.1:1/"}, "chromium"),
    ):
        result = client.tool(tool, **arguments)
        assert result["isError"] and name in result["content"][0]["text"], result

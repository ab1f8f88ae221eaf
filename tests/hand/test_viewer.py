"""The file viewer: a listener of its own for pages a browser in the sandbox can show."""

import re
from urllib.parse import quote

import pytest

from client import Client
from harness import listening


# --- file viewer --------------------------------------------------------------------------------


@pytest.fixture
def viewer(start):
    """A hand on a port of its own, and a client of its file viewer."""
    hand = start(listen="port")
    with open("/tmp/oh-server-url") as f:
        url = f.read()
    assert re.fullmatch(r"http://localhost:\d+", url), url
    port = int(url.rsplit(":", 1)[1])
    assert hand.address[1] < port <= min(hand.address[1] + 1024, 65535)
    assert listening(port) <= {"0100007F", "00000000000000000000000001000000"}
    return hand, Client(("127.0.0.1", port))


PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\6\0\0\0\x1f\x15\xc4\x89"
    b"\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\5\0\1"
    b"\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82"
)


def test_viewer_root(viewer):
    reply = viewer[1].get("/")
    assert (reply.status, reply.json) == (200, {"status": "File viewer server is running"})
    assert viewer[1].get("/docs").status == 404


def test_viewer_image(viewer):
    hand, client = viewer
    for name, mime in (
        ("test_image.png", "image/png"),
        ("b.JPG", "image/jpeg"),
        ("c.gif", "image/gif"),
    ):
        (hand.workspace / name).write_bytes(PNG)
        reply = client.get(f"/view?path={hand.workspace}/{name}")
        page = reply.body.decode()
        assert reply.status == 200 and reply.headers["content-type"].startswith("text/html")
        assert f"<title>File Viewer - {name}</title>" in page
        assert (
            page.count("<img") == 1
            and f'src="data:{mime};base64,' in page
            and f'alt="{name}"' in page
        )


def test_viewer_pdf(viewer):
    hand, client = viewer
    (hand.workspace / "doc.pdf").write_bytes(b"%PDF-1.4\n%%EOF\n")
    reply = client.get(f"/view?path={hand.workspace}/doc.pdf")
    assert reply.status == 200 and b"<title>File Viewer - doc.pdf</title>" in reply.body
    assert b"<canvas" in reply.body or b"application/pdf" in reply.body


@pytest.mark.parametrize(
    "path, status, text",
    [
        ("relative.png", 400, "<h1>Error: Path must be absolute</h1><p>relative.png</p>"),
        ("/nonexistent/x.png", 404, "<h1>Error: File not found</h1>"),
        ("/tmp", 400, "<h1>Error: Path is a directory</h1>"),
        ("/etc/passwd.txt", 404, "<h1>Error: File not found</h1>"),
    ],
)
def test_viewer_errors(viewer, path, status, text):
    reply = viewer[1].get(f"/view?path={path}")
    assert reply.status == status and text in reply.body.decode()


def test_viewer_unsupported(viewer):
    hand, client = viewer
    (hand.workspace / "a.txt").write_text("x")
    path = f"{hand.workspace}/a.txt"
    reply = client.get(f"/view?path={path}")
    assert reply.status == 500
    assert (
        reply.body.decode().endswith(
            f"<h1>Error viewing file</h1><p>{path}</p><p>Unsupported file extension: .txt. "
            "Supported extensions are: .pdf, .png, .jpg, "
            ".jpeg, .gif</p>"
        )
        or f"<h1>Error viewing file</h1><p>{path}</p><p>Unsupported file extension: .txt."
        in reply.body.decode()
    )


def test_viewer_escapes_names(viewer):
    hand, client = viewer
    name = "<script>alert(1)<'\".png"
    (hand.workspace / name).write_bytes(PNG)
    for path in (f"{hand.workspace}/{name}", f"/nonexistent/{name}", f"rel{name}"):
        page = client.get("/view?path=" + quote(path)).body.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page


def test_viewer_ends_with_the_hand(viewer):
    hand, client = viewer
    hand.stop()
    with pytest.raises(OSError):
        client.get("/")

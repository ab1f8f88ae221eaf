"""Documents as text, and what a model says of pictures and recordings."""

import http.server
import json
import os
import subprocess
import sys
import threading
import zlib

import pytest

import agentskills
import office_files as office
from agentskills import parse_docx, parse_latex, parse_pdf, parse_pptx
from agentskills import pdf
from pdf_files import make_pdf


@pytest.fixture
def said(capsys, tmp_path):
    """What a reader prints about a file with these bytes."""

    def run(reader, data, name):
        path = tmp_path / name
        path.write_bytes(data)
        assert reader(str(path)) is None
        return capsys.readouterr().out.replace(str(path), "PATH")

    return run


@pytest.fixture
def alone(monkeypatch):
    """No reader of PDF files is installed."""
    for reader in ("_by_pypdf", "_by_pdftotext", "_by_pdfminer"):
        monkeypatch.setattr(pdf, reader, lambda path: __import__("no_such_reader"))


def test_docx(said):
    data = office.docx("Hello, this is a test document.", "This is the second paragraph.", "")
    assert said(parse_docx, data, "a.docx") == (
        "[Reading DOCX file from PATH]\n@@ Page 1 @@\nHello, this is a test document.\n\n"
        "@@ Page 2 @@\nThis is the second paragraph.\n\n@@ Page 3 @@\n\n\n\n"
    )


def test_docx_with_a_table(said):
    data = office.docx("before", [["a", "b"], ["1", "2"]], "after")
    assert said(parse_docx, data, "a.docx") == (
        "[Reading DOCX file from PATH]\n@@ Page 1 @@\nbefore\n\n"
        "@@ Page 2 @@\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n\n@@ Page 3 @@\nafter\n\n\n"
    )


def test_pptx(said):
    data = office.pptx(["First", "one\ntwo"], ["Second", ""])
    assert said(parse_pptx, data, "a.pptx") == (
        "[Reading PowerPoint file from PATH]\n@@ Slide 1 @@\nFirst\none\ntwo\n"
        "@@ Slide 2 @@\nSecond\n\n"
    )


PAGES = "[Reading PDF file from PATH]\n@@ Page 1 @@\nHello (one)\n\n\n@@ Page 2 @@\nSecond\n"


@pytest.mark.parametrize("compress", [False, True])
def test_pdf(said, alone, compress):
    data = make_pdf(["Hello \\(one\\) \\8\\071", "Second"], compress)
    assert said(parse_pdf, data, "a.pdf") == PAGES.replace("(one)", "(one) 89")


def test_pdf_in_object_streams(said, alone):
    """The way most programs write them today: dictionaries packed together."""
    inner = [
        (1, b"<< /Type /Catalog /Pages 2 0 R >>"),
        (2, b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>"),
        (3, b"<< /Type /Font /Subtype /Type0 /ToUnicode 7 0 R >>"),
        (5, b"<< /Type /Page /Parent 2 0 R /Contents [4 0 R] /Resources 8 0 R >>"),
        (8, b"<< /Font << /F1 3 0 R >> >>"),
    ]
    index, body = b"", b""
    for number, text in inner:
        index += b"%d %d " % (number, len(body))
        body += text + b" "
    packed = zlib.compress(index + body)
    cmap = (
        b"1 beginbfrange <0041> <0043> <0061> endbfrange 1 beginbfchar <0044> <00FC0021> endbfchar"
    )
    content = zlib.compress(b"BT /F1 12 Tf [<00410042> -300 <0043>] TJ 0 -14 Td <0044> Tj ET")
    data = b"%PDF-1.5\n"
    for number, extra, stream in (
        (6, b"/Type /ObjStm /N 5 /First %d /Filter /FlateDecode" % len(index), packed),
        (4, b"/Filter [/FlateDecode]", content),
        (7, b"", cmap),
    ):
        data += b"%d 0 obj\n<< %s /Length %d >>\nstream\n" % (number, extra, len(stream))
        data += stream + b"\nendstream\nendobj\n"
    text = said(parse_pdf, data, "a.pdf")
    assert text == "[Reading PDF file from PATH]\n@@ Page 1 @@\nab c\nü!\n"


@pytest.mark.parametrize(
    "data, why",
    [
        (b"nothing of the kind", "not a PDF file"),
        (b"%PDF-1.4\ntrailer << /Encrypt 9 0 R >>", "the file is encrypted; install a PDF reader"),
        (make_pdf([""]), "no text found"),
        (b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 1 0 R /Kids [1 0 R] >>", "no text found"),
    ],
)
def test_pdf_that_cannot_be_read(said, alone, data, why):
    assert f"Error reading PDF file: {why}" in said(parse_pdf, data, "a.pdf")


def test_pdf_by_pdftotext(said, monkeypatch, tmp_path):
    program = tmp_path / "bin/pdftotext"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf 'one\\ftwo\\f'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(pdf, "_by_pypdf", lambda path: __import__("no_such_reader"))
    text = said(parse_pdf, b"", "-a.pdf")
    assert text == "[Reading PDF file from PATH]\n@@ Page 1 @@\none\n\n@@ Page 2 @@\ntwo\n"


def test_broken_documents(said):
    for reader, kind in ((parse_docx, "DOCX"), (parse_pptx, "PowerPoint")):
        assert f"Error reading {kind} file: " in said(reader, b"no zip", "a")
    bomb = office.packed({"word/document.xml": "<" + "x" * (65 << 20)})
    assert "the part word/document.xml is too large" in said(parse_docx, bomb, "a.docx")


def test_pipe(capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    parse_pdf(str(tmp_path / "pipe"))
    assert "Error reading PDF file: not a regular file" in capsys.readouterr().out


def test_pdf_bomb(said, alone, monkeypatch):
    monkeypatch.setattr(pdf, "MAX_UNPACKED", 1000)
    data = make_pdf(["x" * 400, "y" * 700], compress=True)
    assert "Error reading PDF file: the file is too large" in said(parse_pdf, data, "a.pdf")


def test_missing_file(capsys):
    parse_latex("/no/such")
    assert capsys.readouterr().out == (
        "[Reading LaTex file from /no/such]\n"
        "Error reading LaTex file: [Errno 2] No such file or directory: '/no/such'\n"
    )


def test_latex(said, monkeypatch):
    monkeypatch.setitem(sys.modules, "pylatexenc", None)  # not installed
    source = r"""\documentclass[a4]{article}
\usepackage{graphics}
\begin{document}
\section{First \emph{part}} % a remark
Hello, \textbf{bold \textit{and slanted}} world at 100\%.\label{x}
\begin{itemize}
\item one
\item two \cite{knuth}
\end{itemize}
\end{document}
never seen"""
    assert said(parse_latex, source.encode(), "a.tex") == (
        "[Reading LaTex file from PATH]\nFirst part\n\nHello, bold and slanted world at 100%.\n\n"
        "* one\n* two [knuth]\n"
    )


# --- with a service -----------------------------------------------------------------------------


class Service(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers, body))
        if self.path.startswith("/elsewhere"):
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/v1/stolen")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path.endswith("/transcriptions"):
            answer = {"text": "what was said"}
        else:
            answer = {"choices": [{"message": {"content": "what was seen"}}]}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def service():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def run_with(service, code, base="/v1"):
    """What code prints in an interpreter that has a service."""
    env = {
        "PYTHONPATH": os.path.dirname(agentskills.__path__[0]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.environ["PATH"],
        "OPENAI_API_KEY": "secret",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{service.server_port}{base}/",
    }
    command = [sys.executable, "-c", "from agentskills import *\n" + code]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, timeout=60, text=True)
    return done.stdout


def test_picture_and_recording(service, tmp_path):
    path = tmp_path / 'a "b".png'
    path.write_bytes(b"\x89PNG-data")
    out = run_with(service, f"parse_image({str(path)!r})\nparse_audio({str(path)!r})")
    assert out == (
        f"[Reading image file from {path}]\nwhat was seen\n"
        f"[Transcribing audio file from {path}]\nwhat was said\n"
    )
    (route, headers, body), (route2, headers2, body2) = service.seen
    assert (route, headers["Authorization"]) == ("/v1/chat/completions", "Bearer secret")
    content = json.loads(body)["messages"][0]["content"]
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert route2 == "/v1/audio/transcriptions" and b"\x89PNG-data" in body2
    assert b'filename="a _b_.png"' in body2 and b"whisper-1" in body2


def test_key_is_not_taken_elsewhere(service, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"x")
    out = run_with(service, f"parse_image({str(path)!r})", "/elsewhere")
    assert "Error with the request: HTTP Error 307" in out
    assert [route for route, _, _ in service.seen] == ["/elsewhere/chat/completions"]


def test_no_key_no_names():
    assert not {"parse_audio", "parse_image", "parse_video"} & set(dir(agentskills))

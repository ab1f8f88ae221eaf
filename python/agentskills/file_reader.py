"""Printing the text of documents, and what a model sees in pictures and hears in recordings.

The latter go to the OpenAI-compatible service of OPENAI_BASE_URL with the key OPENAI_API_KEY, and
exist only where both are set.
"""

import base64
import json
import mimetypes
import os
import re
import shutil
import stat
import subprocess
import time
import urllib.request
import uuid

from . import office, pdf
from .document import Document

SECONDS = 120  # that a service may take
MOST_BYTES = 256 << 20  # of a file
DESCRIBE = "Describe this image as detail as possible."


def _read(path):
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for its writer
        raise ValueError("not a regular file")
    if os.path.getsize(path) > MOST_BYTES:
        raise ValueError("larger than %d MB" % (MOST_BYTES >> 20))
    with open(path, "rb") as file:
        return file.read()


def _print_document(kind, path, text_of):
    print("[Reading %s file from %s]" % (kind, path))
    try:
        text = text_of(_read(path))
    except Exception as error:  # whatever a broken file makes of its reader
        text = "Error reading %s file: %s" % (kind, error)
    print(text)


def parse_pdf(file_path):
    """Prints the text of a PDF file, page by page."""

    def text_of(data):
        pages = enumerate(pdf.pages(file_path, data), 1)
        return "".join("@@ Page %d @@\n%s\n\n" % page for page in pages).strip()

    _print_document("PDF", file_path, text_of)


def parse_docx(file_path):
    """Prints the text of a DOCX file, paragraph by paragraph; a table counts as one."""

    def text_of(data):
        blocks = enumerate(office.blocks(office.Archive(data)), 1)
        return "".join("@@ Page %d @@\n%s\n\n" % (i, text) for i, (_, text) in blocks)

    _print_document("DOCX", file_path, text_of)


def parse_latex(file_path):
    """Prints the text of a LaTeX file without its commands."""

    def text_of(data):
        text = Document(data).lf
        try:
            from pylatexenc.latex2text import LatexNodes2Text
        except ImportError:
            return _plain_latex(text).strip()
        return LatexNodes2Text().latex_to_text(text).strip()

    _print_document("LaTex", file_path, text_of)


def parse_pptx(file_path):
    """Prints the text of a PowerPoint file, slide by slide."""

    def text_of(data):
        archive = office.Archive(data)
        lines = []
        for number, slide in enumerate(office.slides(archive), 1):
            lines += ["@@ Slide %d @@" % number] + list(office.shapes(archive, slide))
        return "\n".join(lines)

    _print_document("PowerPoint", file_path, text_of)


# --- LaTeX --------------------------------------------------------------------------------------

_ARGUMENT = r"\s*(?:\[[^\]]*\]\s*)*\{([^{}]*)\}"
_LATEX = [  # in this order
    (r"(?<!\\)%.*", ""),
    (r"\\\\(\[[^\]]*\])?", "\n"),
    (r"\\(section|chapter|part|paragraph|sub\w+)\*?" + _ARGUMENT, r"\n\2\n"),
    (r"\\(label|bibliography|bibliographystyle|includegraphics|usepackage|documentclass|vspace"
     r"|hspace|input|include)\*?" + _ARGUMENT, ""),
    (r"\\(eq)?ref" + _ARGUMENT, r"[\2]"),
    (r"\\cite\w*" + _ARGUMENT, r"[\1]"),
    (r"\\href" + _ARGUMENT + _ARGUMENT, r"\2 (\1)"),
    (r"\\(begin|end)" + _ARGUMENT + r"(\[[^\]]*\])?", ""),
    (r"\\item\s*(\[[^\]]*\])?", "  * "),
    (r"\\[\"'`^~=.]\{?(\w)\}?", r"\1"),
    (r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"\1/\2"),
]  # fmt: skip


def _unwrapped(command, text):
    """The text with only the argument left of such commands, also of those inside each other."""
    for _ in range(20):
        text, count = re.subn(command + _ARGUMENT, r"\1", text)
        if not count:
            break
    return text


def _plain_latex(text):
    body = re.search(r"\\begin\{document\}(.*?)(\\end\{document\}|\Z)", text, re.DOTALL)
    text = _unwrapped(r"\\(?:emph|text\w+|underline|mbox)", body[1] if body else text)
    for pattern, to in _LATEX:
        text = re.sub(pattern, to, text)
    text = _unwrapped(r"\\[A-Za-z]+\*?", text)
    text = re.sub(r"\\([%&$#_{}])", r"\1", re.sub(r"\\[A-Za-z]+\*?\s*", "", text))
    text = re.sub(r"\\[,;:!() \[\]]|(?<!\\)[{}$]|~", " ", text)
    return re.sub(r"\s*\n\s*\n\s*", "\n\n", re.sub(r" *\n *", "\n", re.sub(r"[ \t]+", " ", text)))


# --- what a model makes of it -------------------------------------------------------------------


def available():
    """Whether there is a service to ask."""
    return bool(os.environ.get("OPENAI_API_KEY") and os.environ.get("OPENAI_BASE_URL"))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Nobody else is to see the key."""

    def redirect_request(self, *args):
        return None


def _ask(route, body, content_type):
    deadline = time.monotonic() + SECONDS
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"].rstrip("/") + route,
        body,
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": content_type},
    )
    if request.type not in ("http", "https"):
        raise ValueError("OPENAI_BASE_URL is no address of a service")
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=SECONDS) as answer:
        parts = []
        while True:
            parts.append(answer.read1(1 << 16))
            if not parts[-1]:
                return json.loads(b"".join(parts))
            if time.monotonic() > deadline:
                raise TimeoutError("no answer within %d seconds" % SECONDS)


def _describe(task, picture, mime):
    url = "data:%s;base64,%s" % (mime, base64.b64encode(picture).decode())
    content = [{"type": "text", "text": task}, {"type": "image_url", "image_url": {"url": url}}]
    body = {
        "model": os.environ.get("OPENAI_MODEL", "gpt-4o"),
        "messages": [{"role": "user", "content": content}],
        "max_tokens": int(os.environ.get("MAX_TOKEN", 500)),
    }
    answer = _ask("/chat/completions", json.dumps(body).encode(), "application/json")
    return answer["choices"][0]["message"]["content"]


def parse_audio(file_path, model="whisper-1"):
    """Prints what is said in a recording."""
    print("[Transcribing audio file from %s]" % file_path)
    try:
        mark = uuid.uuid4().hex
        name = re.sub(r'[\r\n"]', "_", os.path.basename(file_path))
        head = '--%s\r\nContent-Disposition: form-data; name="%s"'
        body = b"".join(
            [
                (head % (mark, "model") + "\r\n\r\n%s\r\n" % model).encode(),
                (head % (mark, "file") + '; filename="%s"\r\n' % name).encode(),
                b"Content-Type: application/octet-stream\r\n\r\n",
                _read(file_path),
                ("\r\n--%s--\r\n" % mark).encode(),
            ]
        )
        print(_ask("/audio/transcriptions", body, "multipart/form-data; boundary=" + mark)["text"])
    except Exception as error:
        print("Error transcribing audio file: %s" % error)


def parse_image(file_path, task=DESCRIBE):
    """Prints what a model sees in a picture; task is what it is asked."""
    print("[Reading image file from %s]" % file_path)
    try:
        mime = mimetypes.guess_type(file_path)[0] or "image/png"
        print(_describe(task, _read(file_path), mime))
    except Exception as error:
        print("Error with the request: %s" % error)


def parse_video(file_path, task=DESCRIBE, frame_interval=30):
    """Prints what a model sees in each frame_interval-th picture of a film; needs ffmpeg."""
    print("[Processing video file from %s with frame interval %d]" % (file_path, frame_interval))
    try:
        for number, picture in enumerate(_frames(file_path, frame_interval)):
            print("Frame %d: %s" % (number * frame_interval, _describe(task, picture, "image/png")))
    except Exception as error:
        print("Error with the request: %s" % error)


def _frames(path, interval):
    if not shutil.which("ffmpeg"):
        raise RuntimeError("ffmpeg is missing: apt-get install ffmpeg")
    command = ["ffmpeg", "-v", "error", "-i", os.path.abspath(path)]
    command += ["-vf", "select=not(mod(n\\,%d))" % max(1, int(interval)), "-vsync", "vfr"]
    command += ["-f", "image2pipe", "-c:v", "png", "-"]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=SECONDS, check=True)
    mark = b"\x89PNG\r\n\x1a\n"
    return [mark + piece for piece in done.stdout.split(mark)[1:]]

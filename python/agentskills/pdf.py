"""The text of PDF files: by whichever reader is installed, else by the small one below.

The small one knows compressed files and fonts that say what their codes mean. It knows no
encryption, and nothing of where on a page a text stands: texts come in the order of the file.
"""

import os
import re
import shutil
import subprocess
import zlib

INSTALL = "install a PDF reader: pip install pypdf (or apt-get install poppler-utils)"
SECONDS = 60
MAX_UNPACKED = 256 << 20  # bytes of all streams
MAX_CODES = 1 << 17  # of a font


def pages(path, data):
    """The text of each page."""
    for reader in (_by_pypdf, _by_pdftotext, _by_pdfminer):
        try:
            return reader(path)
        except ImportError:
            continue
    return Reader(data).pages()


def _by_pypdf(path):
    try:
        from pypdf import PdfReader
    except ImportError:
        from PyPDF2 import PdfReader
    return [page.extract_text() for page in PdfReader(path).pages]


def _by_pdftotext(path):
    program = shutil.which("pdftotext")
    if not program:
        raise ImportError("pdftotext")
    command = [program, "-q", os.path.abspath(path), "-"]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=SECONDS, check=True)
    return done.stdout.decode("utf-8", "replace").split("\f")[:-1]


def _by_pdfminer(path):
    from pdfminer.high_level import extract_text

    return extract_text(path).split("\f")[:-1]


# --- the small reader ---------------------------------------------------------------------------

_SPACE = rb"[\0\t\n\f\r ]"
_TOKEN = re.compile(
    rb"%[^\r\n]*|" + _SPACE + rb"+|(<<|>>|[\[\]{}]|\((?:[^\\()]|\\[\s\S])*\)|<[0-9A-Fa-f\s]*>|"
    rb"/[^\0\t\n\f\r ()<>\[\]{}/%]*|[^\0\t\n\f\r ()<>\[\]{}/%]+|\(|\)|.)",
    re.DOTALL,
)
_OBJECT = re.compile(rb"(?<!\d)(\d{1,10})\s+\d{1,5}\s+obj\b")
_STREAM = re.compile(rb"\s*stream\r?\n")
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def _tokens(data, at=0):
    """Tokens with their ends; a string that holds parentheses is put together."""
    while at < len(data):
        match = _TOKEN.match(data, at)
        at, token = match.end(), match[1]
        if token == b"(":
            start, depth = match.start(), 1
            while depth and at < len(data):
                step = data[at : at + 1]
                depth += (step == b"(") - (step == b")")
                at += 2 if step == b"\\" else 1
            token = data[start:at]
        if token:
            yield token, at


class Name(str):
    pass


class Reference(tuple):
    pass


def _string(token):
    if token[:1] == b"<":
        digits = re.sub(rb"\s", b"", token[1:-1])
        return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())

    def plain(match):
        what = match[1]
        if what[:1] in b"01234567":
            return bytes([int(what, 8) & 255])
        return b"" if what in (b"\n", b"\r", b"\r\n") else _ESCAPES.get(what, what)

    return re.sub(rb"\\([0-7]{1,3}|\r\n|[\s\S])", plain, token[1:-1])


def _parse(data, at=0):
    """One value, and where it ends: dict, list, Name, bytes, number, Reference or None."""
    stack = [[]]
    for token, end in _tokens(data, at):
        if token in (b"<<", b"["):
            stack.append([])
            continue
        if token in (b">>", b"]") and len(stack) > 1:
            items = stack.pop()
            if token == b">>":
                items = {k: v for k, v in zip(items[::2], items[1::2]) if isinstance(k, Name)}
            stack[-1].append(items)
        elif token[:1] == b"/":
            raw = re.sub(rb"#([0-9A-Fa-f]{2})", lambda m: bytes.fromhex(m[1].decode()), token[1:])
            stack[-1].append(Name(raw.decode("latin-1")))
        elif token[:1] in (b"(", b"<"):
            stack[-1].append(_string(token))
        elif token == b"R" and len(stack[-1]) >= 2:
            generation, number = stack[-1].pop(), stack[-1].pop()
            stack[-1].append(Reference((number, generation)))
        else:
            try:
                stack[-1].append(float(token) if b"." in token else int(token))
            except ValueError:
                stack[-1].append(None)
        if len(stack) == 1:
            return stack[0][0], end
    return None, len(data)


class Reader:
    def __init__(self, data):
        self.objects = {}  # number -> (value, raw stream or None)
        self.room = MAX_UNPACKED
        start = data[:1024].find(b"%PDF-")
        if start < 0:
            raise ValueError("not a PDF file")
        # What a file says about where its objects are is not needed, nor trusted.
        match = _OBJECT.search(data)
        while match:
            value, end = _parse(data, match.end())
            stream, begin = None, _STREAM.match(data, end)
            if isinstance(value, dict) and begin:
                end = self._end_of_stream(data, begin.end(), value.get("Length"))
                stream = data[begin.end() : end]
            self.objects[int(match[1])] = (value, stream)
            match = _OBJECT.search(data, end)
        if re.search(rb"/Encrypt\s+\d+\s+\d+\s+R", data):
            raise ValueError("the file is encrypted; " + INSTALL)
        for value, stream in list(self.objects.values()):
            if isinstance(value, dict) and value.get("Type") == "ObjStm" and stream is not None:
                self._unpack(value, self._inflate(value, stream))

    @staticmethod
    def _end_of_stream(data, start, length):
        if type(length) is int and length >= 0:
            end = start + length
            if data[end : end + 16].lstrip().startswith(b"endstream"):
                return end
        end = data.find(b"endstream", start)
        return end if end >= 0 else len(data)

    def _unpack(self, value, data):
        count, first = self.get(value.get("N")), self.get(value.get("First"))
        numbers = [int(n) for n in data[:first].split()[: 2 * count]]
        for number, offset in zip(numbers[::2], numbers[1::2]):
            self.objects.setdefault(number, (_parse(data, first + offset)[0], None))

    def get(self, value):
        for _ in range(32):
            if not isinstance(value, Reference):
                break
            value = self.objects.get(value[0], (None, None))[0]
        return value

    def _inflate(self, value, stream):
        filters = self.get(value.get("Filter")) or []
        for name in filters if isinstance(filters, list) else [filters]:
            if self.get(name) != "FlateDecode":
                raise ValueError("a stream with the filter %s; %s" % (name, INSTALL))
            stream = zlib.decompressobj().decompress(stream, self.room + 1)
            self.room -= len(stream)
            if self.room < 0:
                raise ValueError("the file is too large; " + INSTALL)
        return stream

    def _stream(self, reference):
        value, stream = self.objects.get(reference[0], (None, None))
        return b"" if stream is None else self._inflate(value, stream)

    def pages(self):
        roots = [v for v, _ in self.objects.values() if isinstance(v, dict)]
        root = next((v for v in roots if v.get("Type") == "Catalog"), {})
        found = []
        self._collect(root.get("Pages"), {}, found, set())
        texts = [self._text(page) for page in found]
        if not any(text.strip() for text in texts):
            raise ValueError("no text found: the pages may be pictures, or need more; " + INSTALL)
        return texts

    def _collect(self, reference, inherited, found, seen):
        node = self.get(reference)
        if not isinstance(node, dict) or reference in seen or len(seen) > 100000:
            return
        seen.add(reference)
        node = dict(inherited, **node)
        kids = self.get(node.get("Kids"))
        if not isinstance(kids, list):
            found.append(node)
            return
        for kid in kids:
            if isinstance(kid, Reference):
                self._collect(kid, {"Resources": node.get("Resources")}, found, seen)

    def _text(self, page):
        contents = page.get("Contents")
        if isinstance(contents, Reference) and isinstance(self.get(contents), list):
            contents = self.get(contents)
        contents = contents if isinstance(contents, list) else [contents]
        data = b"\n".join(self._stream(c) for c in contents if isinstance(c, Reference))
        resources = self.get(page.get("Resources")) or {}
        fonts = {
            name: self._font(self.get(font) or {})
            for name, font in (self.get(resources.get("Font")) or {}).items()
        }
        return _Text(fonts).of(data)

    def _font(self, font):
        """(bytes per code, {code: text}) of a font."""
        wide = 2 if font.get("Subtype") == "Type0" else 1
        to_unicode = font.get("ToUnicode")
        return wide, _cmap(self._stream(to_unicode)) if isinstance(to_unicode, Reference) else {}


def _cmap(data):
    codes = {}

    def text(raw):
        return raw.decode("utf-16-be", "replace")

    for kind, body in re.findall(rb"beginbf(char|range)(.*?)endbf", data, re.DOTALL):
        values = _parse(b"[" + body + b"]")[0] or []
        step = 2 if kind == b"char" else 3
        for row in zip(*(values[i::step] for i in range(step))):
            first = int.from_bytes(row[0], "big")
            if kind == b"char":
                codes[first] = text(row[1])
                continue
            count = min(int.from_bytes(row[1], "big") - first + 1, MAX_CODES - len(codes))
            for i in range(count):
                if isinstance(row[2], list):
                    codes[first + i] = text(row[2][i]) if i < len(row[2]) else ""
                else:
                    last = int.from_bytes(row[2][-2:], "big") + i
                    codes[first + i] = text(row[2][:-2] + (last & 0xFFFF).to_bytes(2, "big"))
    return codes


class _Text:
    """What the operators of a page show."""

    def __init__(self, fonts):
        self.fonts, self.font, self.out = fonts, (1, {}), []

    def show(self, raw):
        wide, codes = self.font
        if not codes:
            if wide == 1:
                self.out.append(raw.decode("cp1252", "replace"))
            return
        for i in range(0, len(raw), wide):
            code = int.from_bytes(raw[i : i + wide], "big")
            self.out.append(codes.get(code, chr(code) if wide == 1 else ""))

    def line(self):
        if self.out and not self.out[-1].endswith("\n"):
            self.out.append("\n")

    def of(self, data):
        operands, skip = [], False
        for token, _ in _tokens(data):
            if skip:  # an inline picture
                skip = token != b"EI"
            elif token == b"<<" or token in b">>[]{}":
                continue
            elif token[:1] in (b"(", b"<"):
                operands.append(_string(token))
            elif token[:1] == b"/":
                operands.append(Name(token[1:].decode("latin-1")))
            elif re.fullmatch(rb"[-+]?\d*\.?\d+|[-+]?\d+\.", token):
                operands.append(float(token))
            else:
                skip = token == b"ID"
                self.operator(token, operands)
                operands = []
        return "".join(self.out)

    def operator(self, token, operands):
        if token == b"Tf" and operands:
            self.font = self.fonts.get(operands[0], (1, {}))
        elif token in (b"Td", b"TD") and operands[-1:] == [0.0]:
            self.out.append(" ")
        elif token in (b"Td", b"TD", b"T*", b"Tm", b"'", b'"', b"ET"):
            self.line()
        if token in (b"Tj", b"TJ", b"'", b'"'):
            for one in operands:
                if isinstance(one, bytes):
                    self.show(one)
                elif token == b"TJ" and isinstance(one, float) and one < -200:
                    self.out.append(" ")

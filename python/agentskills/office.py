"""The text of office documents, read with the standard library: paragraphs, tables, slides."""

import io
import posixpath
import zipfile
from xml.etree import ElementTree

from . import pdf
from .document import extension

MAX_PART = 64 << 20  # bytes of one part, unpacked
MAX_GAP = 64  # a cell far to the right does not make thousands of empty ones


def _local(tag):
    return tag.rsplit("}", 1)[-1]


def _attr(element, name):
    """An attribute by its name without name space; ':id' asks for one that has some."""
    for key, value in element.attrib.items():
        if key == name or (name[0] != ":" and _local(key) == name):
            return value
        if name[0] == ":" and "}" in key and _local(key) == name[1:]:
            return value
    return None


class Archive:
    def __init__(self, data):
        self.zip = zipfile.ZipFile(io.BytesIO(data))

    def part(self, name):
        try:
            with self.zip.open(name) as member:
                data = member.read(MAX_PART + 1)
        except KeyError:
            raise ValueError("the document has no part " + name) from None
        if len(data) > MAX_PART:
            raise ValueError("the part %s is too large" % name)
        return data

    def tree(self, name):
        return ElementTree.fromstring(self.part(name))

    def events(self, name):
        """(starts, name without name space, element) in the order of the document."""
        for event, element in ElementTree.iterparse(io.BytesIO(self.part(name)), ("start", "end")):
            yield event == "start", _local(element.tag), element

    def related(self, owner):
        """{relationship id: part} of a part."""
        folder, name = posixpath.split(owner)
        return {
            one.get("Id"): posixpath.normpath(posixpath.join("/", folder, one.get("Target")))[1:]
            for one in self.tree("%s/_rels/%s.rels" % (folder, name))
        }


def _cell(text):
    return "| " + text.strip().replace("|", "\\|").replace("\n", " ").replace("\t", " ") + " "


def _table(rows):
    lines = ["".join(map(_cell, row)) + "|\n" for row in rows]
    if lines:
        lines.insert(1, "| --- " * len(rows[0]) + "|\n")
    return "".join(lines)


# --- word processing ----------------------------------------------------------------------------


def _heading(style):
    style = style.lower()
    if style.startswith("title"):
        return 1
    level = style[7:].strip() if style.startswith("heading") else ""
    return int(level) if level in tuple("123456") else 0


def blocks(archive):
    """(kind, text) of the paragraphs and tables of a .docx file: the kind is the level of a
    heading, 0 for a plain paragraph, "*" for an item of a list and "|" for a table."""
    text, kind, rows, depth = "", 0, [], 0
    for starts, name, element in archive.events("word/document.xml"):
        if name == "p" and starts:
            text, kind = "", 0
        elif name == "p":
            if depth:
                if rows and rows[-1]:
                    rows[-1][-1] += text.strip() + " "
            else:
                yield kind, text
        elif name == "t" and not starts:
            text += element.text or ""
        elif name in ("tab", "br", "cr") and starts:
            text += "\t" if name == "tab" else "\n"
        elif name == "pStyle" and starts:
            kind = _heading(_attr(element, "val") or "") or kind
        elif name == "numPr" and starts:
            kind = kind or "*"
        elif name == "tbl":
            depth += 1 if starts else -1
            if not depth:
                yield "|", _table(rows)
            elif depth == 1 and starts:
                rows = []
        elif name == "tr" and starts and depth == 1:
            rows.append([])
        elif name == "tc" and starts and depth == 1:
            rows[-1].append("")


def _docx(archive):
    out = []
    for kind, text in blocks(archive):
        if kind == "|":
            out.append(text + "\n")
        elif text.strip():
            mark = "* " if kind == "*" else "#" * kind + " " * bool(kind)
            out.append(mark + text.strip() + "\n\n")
    return "".join(out)


# --- presentations ------------------------------------------------------------------------------


def slides(archive):
    """Names of the parts, in the order of the presentation."""
    owner = "ppt/presentation.xml"
    related = archive.related(owner)
    for element in archive.tree(owner).iter():
        if _local(element.tag) == "sldId":
            yield related[_attr(element, ":id")]


def shapes(archive, slide):
    """The text of each shape of a slide, and of each table as one."""
    for shape in archive.tree(slide).iter():
        if _local(shape.tag) == "sp":
            yield "\n".join(_paragraphs(shape))
        elif _local(shape.tag) == "tbl":
            rows = (row for row in shape if _local(row.tag) == "tr")
            cells = ([cell for cell in row if _local(cell.tag) == "tc"] for row in rows)
            yield _table([[" ".join(_paragraphs(cell)) for cell in row] for row in cells]).strip()


def _paragraphs(element):
    for paragraph in element.iter():
        if _local(paragraph.tag) == "p":
            text = ""
            for one in paragraph.iter():
                if _local(one.tag) == "t":
                    text += one.text or ""
                elif _local(one.tag) == "br":
                    text += "\n"
            yield text


def _pptx(archive):
    out = []
    for number, slide in enumerate(slides(archive), 1):
        lines, title, line = ["<!-- Slide number: %d -->" % number], False, ""
        for starts, name, element in archive.events(slide):
            if name == "sp":
                title = False
            elif name == "ph" and starts and _attr(element, "type"):
                title = _attr(element, "type") in ("title", "ctrTitle")
            elif name == "t" and not starts:
                line += element.text or ""
            elif name == "br" and starts:
                line += " "
            elif name == "p" and not starts:
                if line.strip():
                    lines.append("# " * title + line.strip())
                line = ""
        out.append("\n".join(lines) + "\n")
    return "\n".join(out)


# --- spreadsheets -------------------------------------------------------------------------------


def _column(reference):
    column = 0
    for letter in reference:
        if not "A" <= letter <= "Z" or column >= 100000:
            break
        column = column * 26 + ord(letter) - ord("A") + 1
    return max(column - 1, 0)


def _strings(archive):
    if "xl/sharedStrings.xml" not in archive.zip.namelist():
        return []
    return [
        "".join(t.text or "" for t in item.iter() if _local(t.tag) == "t")
        for item in archive.tree("xl/sharedStrings.xml")
        if _local(item.tag) == "si"
    ]


def _value(cell, strings):
    text = "".join(e.text or "" for e in cell.iter() if _local(e.tag) in ("v", "t"))
    if cell.get("t") == "s":
        index = int(text) if text.isdigit() else len(strings)
        return strings[index] if index < len(strings) else ""
    if cell.get("t") == "b":
        return "TRUE" if text == "1" else "FALSE"
    return text


def _sheet(archive, name, strings):
    rows = []
    for starts, tag, element in archive.events(name):
        if tag == "row" and starts:
            rows.append([])
        elif tag == "c" and not starts and rows:
            gap = _column(element.get("r") or "") - len(rows[-1])
            rows[-1] += [""] * min(max(gap, 0), MAX_GAP) + [_value(element, strings)]
    return _table(rows)


def _xlsx(archive):
    related, strings, out = archive.related("xl/workbook.xml"), _strings(archive), []
    for element in archive.tree("xl/workbook.xml").iter():
        if _local(element.tag) == "sheet":
            sheet = _sheet(archive, related[_attr(element, ":id")], strings)
            out.append("## %s\n%s\n" % (element.get("name"), sheet))
    return "".join(out)


def markdown(path, data):
    """What file_editor shows of a document."""
    kind = extension(path).lower()
    if kind == ".pdf":
        return "\n\n".join(text.strip() for text in pdf.pages(path, data))
    readers = {".docx": _docx, ".pptx": _pptx, ".xlsx": _xlsx}
    if kind not in readers:
        raise ValueError("a %s file, which parse_audio can turn into text" % kind)
    return readers[kind](Archive(data))

"""Small office documents, made by hand."""

import io
import zipfile

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATIONS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'


def packed(parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def relations(**targets):
    rows = "".join(f'<Relationship Id="{k}" Target="{v}"/>' for k, v in targets.items())
    return f"<Relationships {RELATIONS}>{rows}</Relationships>"


def docx(*paragraphs):
    """Each paragraph is a text, (style, text), or a table as a list of rows."""

    def paragraph(text, style=None):
        properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
        if style == "list":
            properties = "<w:pPr><w:numPr/></w:pPr>"
        return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"

    def table(rows):
        cells = ("".join(f"<w:tc>{paragraph(c)}</w:tc>" for c in row) for row in rows)
        return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"

    body = ""
    for one in paragraphs:
        if isinstance(one, list):
            body += table(one)
        elif isinstance(one, tuple):
            body += paragraph(one[1], one[0])
        else:
            body += paragraph(one)
    return packed({"word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>"})


def pptx(*slides):
    """Each slide is a list of shapes: a title, then texts."""
    ids = "".join(f'<p:sldId id="{i}" r:id="r{i}"/>' for i in range(len(slides)))
    show = f"<p:presentation {P} {R}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>"
    targets = {f"r{i}": f"slides/slide{i}.xml" for i in range(len(slides))}
    parts = {
        "ppt/presentation.xml": show,
        "ppt/_rels/presentation.xml.rels": relations(**targets),
    }
    for i, shapes in enumerate(slides):
        xml = ""
        for number, text in enumerate(shapes):
            kind = '<p:nvPr><p:ph type="title"/></p:nvPr>' if number == 0 else ""
            lines = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
            xml += f"<p:sp>{kind}<p:txBody>{lines}</p:txBody></p:sp>"
        tree = f"<p:cSld><p:spTree>{xml}</p:spTree></p:cSld>"
        parts[f"ppt/slides/slide{i}.xml"] = f"<p:sld {P} {A}>{tree}</p:sld>"
    return packed(parts)


def xlsx(name, rows):
    """One sheet; cells are texts (shared), numbers, booleans, or (reference, number)."""
    strings, body = [], ""
    for row in rows:
        body += "<row>"
        for cell in row:
            if isinstance(cell, bool):
                body += f'<c t="b"><v>{int(cell)}</v></c>'
            elif isinstance(cell, tuple):
                body += f'<c r="{cell[0]}"><v>{cell[1]}</v></c>'
            elif isinstance(cell, str):
                body += f'<c t="s"><v>{len(strings)}</v></c>'
                strings.append(cell)
            else:
                body += f"<c><v>{cell}</v></c>"
        body += "</row>"
    shared = "".join(f"<si><t>{text}</t></si>" for text in strings)
    sheets = f'<sheets><sheet name="{name}" sheetId="1" r:id="r1"/></sheets>'
    return packed(
        {
            "xl/workbook.xml": f"<workbook {S} {R}>{sheets}</workbook>",
            "xl/_rels/workbook.xml.rels": relations(r1="worksheets/sheet1.xml"),
            "xl/sharedStrings.xml": f"<sst {S}>{shared}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet {S}><sheetData>{body}</sheetData></worksheet>",
        }
    )

"""What the editor shows of office documents."""

import random
import subprocess
import zipfile

import pytest

from trees import BUILD, program

DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


@pytest.fixture
def view(tmp_path):
    def run(name, parts):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("[Content_Types].xml", "<Types/>")
            for part, xml in parts.items():
                z.writestr(part, DECLARATION + xml)
        return shown(path)

    return run


def shown(path):
    """The text, without the sentence before it, or the error."""
    done = subprocess.run([program(BUILD, "tests/unit/file/file-view"), path], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    if done.returncode:
        return done.stdout
    head = f"Here's the content of the file {path} displayed in Markdown format:\n"
    assert done.stdout.startswith(head)
    return done.stdout.removeprefix(head)


def paragraph(text, properties=""):
    return f"<w:p>{properties and f'<w:pPr>{properties}</w:pPr>'}<w:r><w:t xml:space='preserve'>{text}</w:t></w:r></w:p>"


def test_docx(view):
    cell = lambda text: f"<w:tc><w:tcPr/>{paragraph(text)}</w:tc>"
    body = (
        paragraph("The title", '<w:pStyle w:val="Title"/>')
        + paragraph("Part &amp; chapter &#8212; one", '<w:pStyle w:val="Heading2"/>')
        + "<w:p><w:r><w:t>Split</w:t></w:r><w:r><w:t> in</w:t><w:tab/><w:t>runs</w:t><w:br/><w:t>and lines</w:t></w:r></w:p>"
        + "<w:p/>"
        + paragraph("an item", "<w:numPr><w:ilvl w:val='0'/></w:numPr>")
        + f"<w:tbl><w:tr>{cell('a')}{cell('b|c')}</w:tr><w:tr>{cell('1')}{cell('2')}</w:tr></w:tbl>"
        + "<!-- a comment <w:t>no</w:t> -->"
        + paragraph("<![CDATA[x < y]]>")
    )
    text = view("a.docx", {"word/document.xml": f'<w:document xmlns:w="urn:w"><w:body>{body}</w:body></w:document>'})
    assert text == (
        "# The title\n\n## Part & chapter — one\n\nSplit in\truns\nand lines\n\n* an item\n\n"
        "| a | b\\|c |\n| --- | --- |\n| 1 | 2 |\n\nx < y\n\n\n"
    )


def test_xlsx(view):
    text = view(
        "a.XLSX",
        {
            "xl/workbook.xml": '<workbook xmlns:r="urn:r"><sheets><sheet name="Second &amp; last" sheetId="2" r:id="rId9"/>'
            '<sheet name="First" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="rId1" Type="t" Target="worksheets/sheet1.xml"/>'
            '<Relationship Target="/xl/worksheets/sheet2.xml" Id="rId9"/></Relationships>',
            "xl/sharedStrings.xml": "<sst><si><t>name</t></si><si><r><t>rich </t></r><r><t>text</t></r></si></sst>",
            "xl/worksheets/sheet1.xml": '<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>'
            '<row r="2"><c r="A2"><v>1.5</v></c><c r="C2" t="b"><v>1</v></c></row></sheetData></worksheet>',
            "xl/worksheets/sheet2.xml": '<worksheet><sheetData><row><c t="inlineStr"><is><t>inline</t></is></c>'
            '<c t="s"><v>99</v></c><c t="str"><f>A1</f><v>formula</v></c></row></sheetData></worksheet>',
        },
    )
    assert text == (
        "## Second & last\n| inline |  | formula |\n| --- | --- | --- |\n\n"
        "## First\n| name | rich text |\n| --- | --- |\n| 1.5 |  | TRUE |\n\n\n"
    )


def test_pptx(view):
    shape = lambda text, ph="": f"<p:sp><p:nvSpPr>{ph}</p:nvSpPr><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    title = '<p:ph type="ctrTitle"/>'
    text = view(
        "a.pptx",
        {
            "ppt/presentation.xml": '<p:presentation xmlns:r="urn:r"><p:sldIdLst><p:sldId id="257" r:id="rId3"/>'
            '<p:sldId id="256" r:id="rId2"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": '<Relationships><Relationship Id="rId2" Target="slides/slide1.xml"/>'
            '<Relationship Id="rId3" Target="slides/slide2.xml"/></Relationships>',
            "ppt/slides/slide1.xml": f"<p:sld>{shape('the end')}</p:sld>",
            "ppt/slides/slide2.xml": f"<p:sld>{shape('Welcome', title)}{shape('to the show')}</p:sld>",
        },
    )
    assert text == "<!-- Slide number: 1 -->\n# Welcome\nto the show\n\n<!-- Slide number: 2 -->\nthe end\n\n"


def test_long_document_is_clipped(view):
    body = "".join(paragraph("word " * 100) for _ in range(1000))
    text = view("a.docx", {"word/document.xml": f"<w:document>{body}</w:document>"})
    assert "<response clipped><NOTE>Due to the max output limit, only part of this file has been shown to you. Please use Python" in text
    assert text.index("<response clipped>") == 16000


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx"])
def test_other_archives(name, view, tmp_path):
    assert "Ran into the document has no part" in view(name, {"hello.txt": "<x/>"})
    (tmp_path / name).write_bytes(b"\0 nothing of the kind")
    assert "not a zip archive" in shown(tmp_path / name)


def test_formats_without_a_converter(tmp_path):
    for name in ("a.pdf", "a.mp3", "a.wav", "a.m4a", "a.flac"):
        (tmp_path / name).write_bytes(b"\0\1\2")
        assert "only the Python agent skills can turn into text" in shown(tmp_path / name)


def test_damaged_xml(view):
    """Cut and changed anywhere: some text or none, never a crash."""
    rng = random.Random(5)
    body = "<w:tbl><w:tr><w:tc>" + paragraph("x &amp; y", '<w:pStyle w:val="Heading1"/>') + "</w:tc></w:tr></w:tbl>"
    for _ in range(30):
        damaged = list(body)
        for _ in range(rng.randint(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.choice("<>/&;'\"= !-[]x")
        view("a.docx", {"word/document.xml": "".join(damaged)[: rng.randrange(len(body))]})

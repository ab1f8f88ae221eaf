"""Small PDF files, made by hand."""

import zlib


def make_pdf(texts, compress=False, catalog=b""):
    """One page per text, which stands in its upper part; catalog: what else the document says of itself."""
    bodies = [b"<< /Type /Catalog /Pages 2 0 R %s >>" % catalog, b""]
    bodies.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    kids = []
    for text in texts:
        content = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
        extra = b""
        if compress:
            content, extra = zlib.compress(content), b"/Filter /FlateDecode "
        head = b"<< %s/Length %d >>\nstream\n" % (extra, len(content))
        bodies.append(head + content + b"\nendstream")
        bodies.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(bodies)
        )
        kids.append(b"%d 0 R" % len(bodies))
    bodies[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out, table = b"%PDF-1.4\n", b"0000000000 65535 f \n"
    for number, body in enumerate(bodies, 1):
        table += b"%010d 00000 n \n" % len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    count = len(bodies) + 1
    start = len(out)
    out += b"xref\n0 %d\n%s" % (count, table)
    return out + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, start)

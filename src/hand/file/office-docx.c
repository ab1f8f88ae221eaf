#include <stdlib.h>
#include <strings.h>

#include "hand/file/office-impl.h"

#define MAX_PART (64u << 20)

struct docx {
    struct tn_buf *out;
    struct tn_buf paragraph;
    struct tn_buf cell;
    struct tn_buf value;
    bool in_text;
    int heading; /* level, or 0 */
    bool in_list;
    int tables; /* nesting; only the outermost is drawn */
    size_t rows, columns;
};

/* "Heading2", "heading 2" and "Title" are headings. */
static int heading_level(const char *style)
{
    if (strncasecmp(style, "title", 5) == 0)
        return 1;
    if (strncasecmp(style, "heading", 7) != 0)
        return 0;
    long level = strtol(style + 7, NULL, 10);
    return level >= 1 && level <= 6 ? (int)level : 0;
}

static void on_open(struct docx *d, const struct xml *x)
{
    if (xml_is(x, "p")) {
        tn_buf_reset(&d->paragraph);
        d->heading = 0;
        d->in_list = false;
    } else if (xml_is(x, "pStyle") && xml_attr(x, "val", &d->value)) {
        d->heading = heading_level(tn_buf_str(&d->value));
    } else if (xml_is(x, "numPr")) {
        d->in_list = true;
    } else if (xml_is(x, "t")) {
        d->in_text = true;
    } else if (xml_is(x, "tab")) {
        tn_buf_putc(&d->paragraph, '\t');
    } else if (xml_is(x, "br") || xml_is(x, "cr")) {
        tn_buf_putc(&d->paragraph, '\n');
    } else if (xml_is(x, "tbl") && d->tables++ == 0) {
        d->rows = 0;
    } else if (xml_is(x, "tr") && d->tables == 1) {
        d->columns = 0;
    } else if (xml_is(x, "tc") && d->tables == 1) {
        tn_buf_reset(&d->cell);
    }
}

static void end_paragraph(struct docx *d)
{
    struct tn_slice t = text_strip(tn_slice_of(&d->paragraph));

    if (d->tables > 0) {
        tn_buf_add(&d->cell, t.s, t.n);
        tn_buf_putc(&d->cell, ' ');
    } else if (t.n > 0) {
        tn_buf_printf(d->out, "%.*s%s", d->heading, "######", d->heading ? " " : "");
        tn_buf_puts(d->out, d->in_list && !d->heading ? "* " : "");
        tn_buf_add(d->out, t.s, t.n);
        tn_buf_puts(d->out, "\n\n");
    }
}

static void on_close(struct docx *d, const struct xml *x)
{
    if (xml_is(x, "t")) {
        d->in_text = false;
    } else if (xml_is(x, "p")) {
        end_paragraph(d);
    } else if (xml_is(x, "tc") && d->tables == 1) {
        office_put_cell(d->out, &d->cell);
        d->columns++;
    } else if (xml_is(x, "tr") && d->tables == 1) {
        tn_buf_puts(d->out, "|\n");
        if (d->rows++ == 0)
            office_put_rule(d->out, d->columns);
    } else if (xml_is(x, "tbl") && d->tables > 0 && --d->tables == 0) {
        tn_buf_putc(d->out, '\n');
    }
}

int office_docx(struct zip_archive *z, struct tn_buf *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf part = TN_BUF_INIT(MAX_PART);
    struct docx d = {.out = out,
                     .paragraph = TN_BUF_INIT(MAX_PART),
                     .cell = TN_BUF_INIT(MAX_PART),
                     .value = TN_BUF_INIT(1024)};

    if (office_part(z, "word/document.xml", &part, err))
        return -1;
    struct xml x = {.rest = tn_slice_of(&part)};
    while (tn_buf_ok(out) && xml_next(&x) != XML_END) {
        if (x.kind == XML_OPEN)
            on_open(&d, &x);
        else if (x.kind == XML_CLOSE)
            on_close(&d, &x);
        else if (d.in_text)
            xml_put_text(&x, &d.paragraph);
    }
    tn_buf_done(&d.paragraph);
    tn_buf_done(&d.cell);
    tn_buf_done(&d.value);
    return 0;
}

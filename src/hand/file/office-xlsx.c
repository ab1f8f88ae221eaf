#include <stdint.h>
#include <stdlib.h>

#include "hand/file/office-impl.h"

#define MAX_PART (64u << 20)
/* A cell far to the right does not make thousands of empty ones. */
#define MAX_GAP 64

/* All strings of the workbook, one after the other, each with a NUL. */
struct strings {
    struct tn_buf text;
    struct tn_buf starts; /* array of uint32_t */
};

static int read_strings(struct zip_archive *z, struct strings *s, struct tn_error *err)
{
    tn_autobuf struct tn_buf part = TN_BUF_INIT(MAX_PART);
    struct tn_error why = {0};
    bool in_text = false;

    if (office_part(z, "xl/sharedStrings.xml", &part, &why)) {
        if (why.code == TN_E_NOT_FOUND)
            return 0;
        return tn_fail(err, why.code, "%s", why.text);
    }
    struct xml x = {.rest = tn_slice_of(&part)};
    while (xml_next(&x) != XML_END) {
        if (x.kind == XML_OPEN && xml_is(&x, "si")) {
            uint32_t start = (uint32_t)s->text.len;
            tn_buf_add(&s->starts, &start, sizeof start);
        } else if (x.kind == XML_CLOSE && xml_is(&x, "si")) {
            tn_buf_putc(&s->text, '\0');
        } else if (x.kind == XML_TEXT) {
            if (in_text)
                xml_put_text(&x, &s->text);
        } else if (xml_is(&x, "t")) {
            in_text = x.kind == XML_OPEN;
        }
    }
    return tn_buf_ok(&s->text) && tn_buf_ok(&s->starts)
               ? 0
               : tn_fail(err, TN_E_TOO_LARGE, "the document has too many strings");
}

static const char *string_at(const struct strings *s, const char *number)
{
    unsigned long i = strtoul(number, NULL, 10);
    uint32_t start;

    if (i >= s->starts.len / sizeof start)
        return "";
    memcpy(&start, s->starts.data + i * sizeof start, sizeof start);
    return start < s->text.len ? s->text.data + start : "";
}

/* The column of a reference like "BC12", from 0. */
static size_t column_of(const char *reference)
{
    size_t column = 0;

    for (; *reference >= 'A' && *reference <= 'Z' && column < 100000; reference++)
        column = column * 26 + (size_t)(*reference - 'A') + 1;
    return column ? column - 1 : 0;
}

struct sheet {
    const struct strings *strings;
    struct tn_buf *out;
    struct tn_buf value, kind, reference;
    bool in_value;
    size_t rows, columns;
};

static void end_cell(struct sheet *s)
{
    const char *kind = tn_buf_str(&s->kind);
    tn_autobuf struct tn_buf shown = TN_BUF_INIT(MAX_PART);

    if (strcmp(kind, "s") == 0)
        tn_buf_puts(&shown, string_at(s->strings, tn_buf_str(&s->value)));
    else if (strcmp(kind, "b") == 0)
        tn_buf_puts(&shown, strcmp(tn_buf_str(&s->value), "1") == 0 ? "TRUE" : "FALSE");
    else
        tn_buf_puts(&shown, tn_buf_str(&s->value));
    office_put_cell(s->out, &shown);
    s->columns++;
}

static void start_cell(struct sheet *s, const struct xml *x)
{
    static const struct tn_buf nothing = {0};

    tn_buf_reset(&s->value);
    if (!xml_attr(x, "t", &s->kind))
        tn_buf_reset(&s->kind);
    if (!xml_attr(x, "r", &s->reference))
        return;
    size_t column = column_of(tn_buf_str(&s->reference));
    for (size_t gap = 0; s->columns < column && gap < MAX_GAP; gap++, s->columns++)
        office_put_cell(s->out, &nothing);
}

static void put_sheet(struct sheet *s, struct tn_slice part)
{
    struct xml x = {.rest = part};

    while (tn_buf_ok(s->out) && xml_next(&x) != XML_END) {
        if (x.kind == XML_TEXT) {
            if (s->in_value)
                xml_put_text(&x, &s->value);
        } else if (xml_is(&x, "row") && x.kind == XML_OPEN) {
            s->columns = 0;
        } else if (xml_is(&x, "row")) {
            tn_buf_puts(s->out, "|\n");
            if (s->rows++ == 0)
                office_put_rule(s->out, s->columns);
        } else if (xml_is(&x, "c") && x.kind == XML_OPEN) {
            start_cell(s, &x);
        } else if (xml_is(&x, "c")) {
            end_cell(s);
        } else if (xml_is(&x, "v") || xml_is(&x, "t")) {
            s->in_value = x.kind == XML_OPEN;
        }
    }
}

/* Sheets in the order of the workbook. */
static int put_sheets(struct zip_archive *z, const struct strings *strings, struct tn_buf *out,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf book = TN_BUF_INIT(1u << 20);
    tn_autobuf struct tn_buf part = TN_BUF_INIT(MAX_PART);
    tn_autobuf struct tn_buf name = TN_BUF_INIT(1024), id = TN_BUF_INIT(1024);
    tn_autobuf struct tn_buf member = TN_BUF_INIT(1024);

    if (office_part(z, "xl/workbook.xml", &book, err))
        return -1;
    struct xml x = {.rest = tn_slice_of(&book)};
    while (tn_buf_ok(out) && xml_next(&x) != XML_END) {
        if (x.kind != XML_OPEN || !xml_is(&x, "sheet") || !xml_attr(&x, "name", &name) ||
            !xml_attr(&x, ":id", &id))
            continue;
        if (office_related(z, "xl/workbook.xml", tn_buf_str(&id), &member, err) ||
            office_part(z, tn_buf_str(&member), &part, err))
            return -1;
        struct sheet s = {.strings = strings,
                          .out = out,
                          .value = TN_BUF_INIT(MAX_PART),
                          .kind = TN_BUF_INIT(64),
                          .reference = TN_BUF_INIT(64)};
        tn_buf_printf(out, "## %s\n", tn_buf_str(&name));
        put_sheet(&s, tn_slice_of(&part));
        tn_buf_putc(out, '\n');
        tn_buf_done(&s.value);
        tn_buf_done(&s.kind);
        tn_buf_done(&s.reference);
    }
    return 0;
}

int office_xlsx(struct zip_archive *z, struct tn_buf *out, struct tn_error *err)
{
    struct strings strings = {.text = TN_BUF_INIT(MAX_PART), .starts = TN_BUF_INIT(MAX_PART)};
    int r = read_strings(z, &strings, err) || put_sheets(z, &strings, out, err) ? -1 : 0;

    tn_buf_done(&strings.text);
    tn_buf_done(&strings.starts);
    return r;
}

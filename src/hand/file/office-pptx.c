#include "hand/file/office-impl.h"

#define MAX_PART (64u << 20)

/* One line per paragraph; the title is a heading. */
static void put_slide(struct tn_slice part, struct tn_buf *out)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(MAX_PART), type = TN_BUF_INIT(64);
    struct xml x = {.rest = part};
    bool in_text = false, title = false;

    while (tn_buf_ok(out) && xml_next(&x) != XML_END) {
        if (x.kind == XML_TEXT) {
            if (in_text)
                xml_put_text(&x, &line);
        } else if (xml_is(&x, "sp")) {
            title = false;
        } else if (xml_is(&x, "ph") && x.kind == XML_OPEN && xml_attr(&x, "type", &type)) {
            const char *t = tn_buf_str(&type);
            title = strcmp(t, "title") == 0 || strcmp(t, "ctrTitle") == 0;
        } else if (xml_is(&x, "t")) {
            in_text = x.kind == XML_OPEN;
        } else if (xml_is(&x, "br") && x.kind == XML_OPEN) {
            tn_buf_putc(&line, ' ');
        } else if (xml_is(&x, "p") && x.kind == XML_CLOSE) {
            struct tn_slice t = text_strip(tn_slice_of(&line));
            if (t.n > 0) {
                tn_buf_puts(out, title ? "# " : "");
                tn_buf_add(out, t.s, t.n);
                tn_buf_putc(out, '\n');
            }
            tn_buf_reset(&line);
        }
    }
}

/* Slides in the order of the presentation. */
int office_pptx(struct zip_archive *z, struct tn_buf *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf show = TN_BUF_INIT(4u << 20);
    tn_autobuf struct tn_buf part = TN_BUF_INIT(MAX_PART);
    tn_autobuf struct tn_buf id = TN_BUF_INIT(1024), member = TN_BUF_INIT(1024);
    size_t number = 0;

    if (office_part(z, "ppt/presentation.xml", &show, err))
        return -1;
    struct xml x = {.rest = tn_slice_of(&show)};
    while (tn_buf_ok(out) && xml_next(&x) != XML_END) {
        if (x.kind != XML_OPEN || !xml_is(&x, "sldId") || !xml_attr(&x, ":id", &id))
            continue;
        if (office_related(z, "ppt/presentation.xml", tn_buf_str(&id), &member, err) ||
            office_part(z, tn_buf_str(&member), &part, err))
            return -1;
        tn_buf_printf(out, "%s<!-- Slide number: %zu -->\n", number ? "\n" : "", number + 1);
        number++;
        put_slide(tn_slice_of(&part), out);
    }
    return 0;
}

#include "hand/file/edit-view.h"

#include "base/utf8.h"

#define CLIPPED "<response clipped><NOTE>Due to the max output limit, only part of this file has "
#define CLIPPED_TEXT                                                                             \
    CLIPPED "been shown to you. You should retry this tool after you have searched inside the "  \
            "file with `grep -n` in order to find the line numbers of what you are looking for." \
            "</NOTE>"
#define CLIPPED_DOCUMENT                                                                        \
    CLIPPED "been shown to you. Please use Python libraries to view the entire file or search " \
            "for specific content within the file.</NOTE>"

/* Shortens t to the limit; true when there was more. */
static bool clip(struct tn_slice *t)
{
    size_t end = tn_utf8_offset(t->s, t->n, EDIT_RESPONSE_CHARS);
    bool more = end < t->n;
    t->n = end;
    return more;
}

void edit_view_numbered(struct tn_buf *out, struct tn_slice lf, const char *what, size_t first)
{
    bool clipped = clip(&lf);

    tn_buf_printf(out, "Here's the result of running `cat -n` on %s:\n", what);
    for (size_t number = first, at = 0;; number++) {
        const char *end = lf.n > at ? memchr(lf.s + at, '\n', lf.n - at) : NULL;
        size_t len = (end ? (size_t)(end - lf.s) : lf.n) - at;
        tn_buf_printf(out, "%6zu\t", number);
        tn_buf_add(out, lf.s + at, len);
        if (!end)
            break;
        tn_buf_putc(out, '\n');
        at += len + 1;
    }
    tn_buf_puts(out, clipped ? CLIPPED_TEXT "\n" : "\n");
}

void edit_view_markdown(struct tn_buf *out, struct tn_slice text, const char *path)
{
    bool clipped = clip(&text);

    tn_buf_printf(out, "Here's the content of the file %s displayed in Markdown format:\n", path);
    tn_buf_add(out, text.s, text.n);
    tn_buf_puts(out, clipped ? CLIPPED_DOCUMENT "\n" : "\n");
}

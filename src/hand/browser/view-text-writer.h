/* Text in lines and paragraphs, with marks around parts of it.
 *
 * Space, line breaks and opening marks are written when text follows; so there is none at the ends,
 * no mark around nothing, and no blank inside a mark. */
#ifndef TN_HAND_BROWSER_VIEW_TEXT_WRITER_H
#define TN_HAND_BROWSER_VIEW_TEXT_WRITER_H

#include "base/buf.h"

struct tn_text_mark {
    const char *open;
    char *close;
    size_t level; /* of the element it belongs to */
    bool written;
};

struct tn_text_writer {
    struct tn_buf *out;
    size_t max;
    int breaks;       /* line breaks to write before the next text */
    bool space;       /* a blank before it */
    bool fresh;       /* nothing on this line but a list's mark: breaks do not count */
    size_t quotes;    /* nesting of quotations */
    size_t indent;    /* blanks at the start of lines */
    size_t pre, link; /* nesting */
    struct tn_text_mark *marks;
    size_t mark_count, mark_cap;
};

/* At least so many line breaks before the next text; inside a link only a blank. */
void tn_text_break(struct tn_text_writer *w, int breaks);
/* One more line break. */
void tn_text_newline(struct tn_text_writer *w);
/* Text with white space collapsed, or as it is inside preformatted text. */
void tn_text_add(struct tn_text_writer *w, const char *s, size_t n);
/* Text as it is, on the line; what follows is not separated from it by breaks. */
void tn_text_lead(struct tn_text_writer *w, const char *s);
/* Opens a mark for the element of that level, and closes it if it has one.  close is copied. */
void tn_text_open(struct tn_text_writer *w, size_t level, const char *open, const char *close);
void tn_text_close(struct tn_text_writer *w, size_t level);
/* Whether a mark of that kind is open. */
bool tn_text_is_open(const struct tn_text_writer *w, const char *open);
void tn_text_writer_done(struct tn_text_writer *w);

#endif

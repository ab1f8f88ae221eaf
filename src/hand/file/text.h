/* Text as the file actions see it: UTF-8 in memory, addressed as slices.
 *
 * "Lines" follow Python's universal newlines: LF, CRLF and a lone CR each end one.  Functions named
 * _lf expect text in which only LF is left. */
#ifndef TN_HAND_FILE_TEXT_H
#define TN_HAND_FILE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Borrowed bytes, not NUL-terminated; s is NULL when the value was not given at all. */
struct tn_slice {
    const char *s;
    size_t n;
};

static inline struct tn_slice tn_slice(const char *s)
{
    return (struct tn_slice){.s = s, .n = s ? strlen(s) : 0};
}

static inline struct tn_slice tn_slicen(const char *s, size_t n)
{
    return (struct tn_slice){.s = s, .n = n};
}

static inline struct tn_slice tn_slice_of(const struct tn_buf *b)
{
    return (struct tn_slice){.s = tn_buf_str(b), .n = b->len};
}

enum text_eol { TEXT_LF, TEXT_CRLF, TEXT_CR };

/* The line ending used most; LF when there is none or a tie. */
enum text_eol text_eol_of(struct tn_slice t);
const char *text_eol_str(enum text_eol eol);
bool text_has_cr(struct tn_slice t);

/* Appends t with every line ending turned into LF. */
int text_add_lf(struct tn_buf *out, struct tn_slice t);
/* Appends t with every line ending turned into eol; for TEXT_LF the text is taken as it is. */
int text_add_eol(struct tn_buf *out, struct tn_slice t, enum text_eol eol);

/* The offset in t of what is at `at` once every line ending is one LF. */
size_t text_offset_before_lf(struct tn_slice t, size_t at);

/* Number of lines with any line ending; where line number `index` (from 0) starts, or the end. */
size_t text_lines(struct tn_slice t);
size_t text_line_offset(struct tn_slice t, size_t index);

/* Number of LF bytes; number of lines, where an unfinished last one counts. */
size_t text_count_lf(struct tn_slice t);
size_t text_lines_lf(struct tn_slice t);
/* Lines first..last (from 1, both included, cut to what there is) with their line endings. */
struct tn_slice text_range_lf(struct tn_slice t, size_t first, size_t last);

/* Length of the line ending at s[0], of n bytes: 0, 1 or 2. */
static inline size_t text_eol_length(const char *s, size_t n)
{
    if (n == 0 || (s[0] != '\n' && s[0] != '\r'))
        return 0;
    return s[0] == '\r' && n > 1 && s[1] == '\n' ? 2 : 1;
}

/* Without the white space (as Unicode and Python see it) at the end, or at both ends. */
struct tn_slice text_rstrip(struct tn_slice t);
struct tn_slice text_strip(struct tn_slice t);

bool text_equal(struct tn_slice a, struct tn_slice b);

#endif

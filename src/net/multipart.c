/* The body is read through a window.  Everything up to the next delimiter ("\r\n--boundary") is the
 * content of a part; the window always keeps so many bytes back that a delimiter cut by a read is
 * still found whole. */
#include "net/multipart.h"

#include <stdbool.h>

#include "net/http-parse.h"
#include "net/multipart-header.h"

enum {
    WINDOW = 16 * 1024,
    BOUNDARY_MAX = 70, /* RFC 2046 */
    HEADERS_MAX = 8 * 1024,
    PARTS_MAX = 64,
    PADDING_MAX = 256, /* white space a delimiter may carry behind it */
};

enum state { IN_PREAMBLE, IN_PART, AT_DELIMITER, FINISHED, BROKEN };

struct tn_multipart {
    tn_source_fn source;
    void *ctx;
    enum state state;
    bool source_ended;
    char delimiter[4 + BOUNDARY_MAX + 1];
    size_t delimiter_len;
    char window[WINDOW];
    size_t at, end; /* unread bytes of the window */
    int parts, parts_max;
    struct tn_part part;
};

/* --- the boundary -------------------------------------------------------------------------- */

static bool is_boundary(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!tn_http_is_token(s + i, 1) && !strchr("(),/:=? ", s[i]))
            return false;
    return n >= 1 && n <= BOUNDARY_MAX && s[n - 1] != ' ';
}

struct tn_multipart *tn_multipart_new(const char *content_type, tn_source_fn source, void *ctx,
                                      struct tn_error *err)
{
    tn_autofree char *boundary = NULL;
    size_t kind = content_type ? strcspn(content_type, "; \t") : 0;

    if (!content_type || !tn_http_same(content_type, kind, "multipart/form-data")) {
        tn_fail(err, TN_E_MEDIA_TYPE, "The body must be multipart/form-data");
        return NULL;
    }
    if (multipart_param(content_type, "boundary", &boundary) <= 0 ||
        !is_boundary(boundary, strlen(boundary))) {
        tn_fail(err, TN_E_INVALID, "The multipart/form-data type has no valid boundary");
        return NULL;
    }
    struct tn_multipart *m = tn_calloc(1, sizeof *m);
    m->source = source;
    m->parts_max = PARTS_MAX;
    m->ctx = ctx;
    m->delimiter_len = (size_t)snprintf(m->delimiter, sizeof m->delimiter, "\r\n--%s", boundary);
    /* The first delimiter may open the body; with a line end before it, it is like all others. */
    memcpy(m->window, "\r\n", 2);
    m->end = 2;
    return m;
}

void tn_multipart_free(struct tn_multipart *m)
{
    if (!m)
        return;
    multipart_part_clear(&m->part);
    free(m);
}

void tn_multipart_allow(struct tn_multipart *m, int parts)
{
    m->parts_max = parts;
}

/* --- the window ---------------------------------------------------------------------------- */

static int fail(struct tn_multipart *m, struct tn_error *err, enum tn_code code, const char *text)
{
    m->state = BROKEN;
    return tn_fail(err, code, "%s", text);
}

/* Gets more bytes behind those in the window.  1, 0 when there are no more, -1 with err. */
static int fill(struct tn_multipart *m, struct tn_error *err)
{
    if (m->source_ended)
        return 0;
    if (m->at > 0) {
        memmove(m->window, m->window + m->at, m->end - m->at);
        m->end -= m->at;
        m->at = 0;
    }
    ssize_t got = m->source(m->ctx, m->window + m->end, WINDOW - m->end, err);
    if (got < 0) {
        m->state = BROKEN;
        return -1;
    }
    m->end += (size_t)got;
    m->source_ended = got == 0;
    return got > 0;
}

static int cut_short(struct tn_multipart *m, struct tn_error *err)
{
    return fail(m, err, TN_E_INVALID, "The multipart body ends early");
}

/* Whether what follows a found boundary text makes it a delimiter; otherwise the text only starts
 * like one. */
static bool ends_delimiter(char c)
{
    return c == '\r' || c == '\n' || c == '-' || c == ' ' || c == '\t';
}

/* Bytes at the front of the window that are content for sure; sets *delimiter when one follows
 * them. */
static size_t content_length(const struct tn_multipart *m, bool *delimiter)
{
    const char *start = m->window + m->at, *stop = m->window + m->end;

    *delimiter = false;
    for (const char *from = start;;) {
        const char *hit = memmem(from, (size_t)(stop - from), m->delimiter, m->delimiter_len);
        if (!hit)
            break;
        if (hit + m->delimiter_len == stop)
            return (size_t)(hit - start); /* the deciding byte is yet to come */
        if (ends_delimiter(hit[m->delimiter_len])) {
            *delimiter = true;
            return (size_t)(hit - start);
        }
        from = hit + 1;
    }
    /* A delimiter may have begun: keep its longest possible beginning, which starts with a CR. */
    size_t n = (size_t)(stop - start);
    size_t keep = n < m->delimiter_len - 1 ? n : m->delimiter_len - 1;
    const char *cr = memchr(stop - keep, '\r', keep);
    return cr ? (size_t)(cr - start) : n;
}

/* Makes content available: its length, or 0 when the window stands at a delimiter, or -1. */
static ssize_t ready(struct tn_multipart *m, struct tn_error *err)
{
    for (;;) {
        bool delimiter;
        size_t n = content_length(m, &delimiter);
        if (n > 0)
            return (ssize_t)n;
        if (delimiter)
            return 0;
        int r = fill(m, err);
        if (r < 0)
            return -1;
        if (r == 0)
            return cut_short(m, err);
    }
}

static int skip_content(struct tn_multipart *m, struct tn_error *err)
{
    ssize_t n;

    while ((n = ready(m, err)) > 0)
        m->at += (size_t)n;
    return (int)n;
}

/* --- parts --------------------------------------------------------------------------------- */

/* Takes the line at the front of the window: its text, terminated in place of the CRLF; NULL with
 * err. */
static char *take_line(struct tn_multipart *m, size_t max, struct tn_error *err)
{
    for (;;) {
        char *start = m->window + m->at;
        char *lf = memchr(start, '\n', m->end - m->at);
        size_t n = lf ? (size_t)(lf - start) + 1 : m->end - m->at;
        if (n > max) {
            fail(m, err, TN_E_HEADERS_TOO_LARGE, "A part's headers are too large");
            return NULL;
        }
        if (lf) {
            if (lf == start || lf[-1] != '\r' || memchr(start, '\0', n)) {
                fail(m, err, TN_E_INVALID, "A part's header line is malformed");
                return NULL;
            }
            lf[-1] = '\0';
            m->at += n;
            return start;
        }
        int r = fill(m, err);
        if (r == 0)
            cut_short(m, err);
        if (r <= 0)
            return NULL;
    }
}

/* Passes the delimiter the window stands at.  1 when a part follows, 0 when it was the last, -1
 * with err. */
static int pass_delimiter(struct tn_multipart *m, struct tn_error *err)
{
    m->at += m->delimiter_len;
    while (m->end - m->at < 2) {
        int r = fill(m, err);
        if (r <= 0)
            return r < 0 ? -1 : cut_short(m, err);
    }
    if (memcmp(m->window + m->at, "--", 2) == 0)
        return 0;
    const char *rest = take_line(m, PADDING_MAX, err);
    if (!rest)
        return -1;
    if (rest[strspn(rest, " \t")] != '\0')
        return fail(m, err, TN_E_INVALID, "A multipart delimiter is malformed");
    return 1;
}

static int read_headers(struct tn_multipart *m, struct tn_error *err)
{
    size_t budget = HEADERS_MAX;

    for (;;) {
        const char *line = take_line(m, budget, err);
        if (!line)
            return -1;
        if (*line == '\0')
            break;
        budget -= strlen(line) + 2;
        if (multipart_field(line, &m->part, err) < 0) {
            m->state = BROKEN;
            return -1;
        }
    }
    if (!m->part.name)
        return fail(m, err, TN_E_INVALID, "A part has no name");
    /* An empty part: its delimiter's CRLF is the one that ended the headers. */
    m->at -= 2;
    memcpy(m->window + m->at, "\r\n", 2);
    return 0;
}

/* The CRLF that ends the headers also begins the delimiter of an empty part; it is content of no
 * part. */
static int enter_content(struct tn_multipart *m, struct tn_error *err)
{
    while (m->end - m->at < m->delimiter_len + 1) {
        int r = fill(m, err);
        if (r < 0)
            return -1;
        if (r == 0)
            return cut_short(m, err);
    }
    bool empty = memcmp(m->window + m->at, m->delimiter, m->delimiter_len) == 0 &&
                 ends_delimiter(m->window[m->at + m->delimiter_len]);
    if (!empty)
        m->at += 2;
    return 0;
}

int tn_multipart_next(struct tn_multipart *m, const struct tn_part **part, struct tn_error *err)
{
    if (m->state == BROKEN)
        return tn_fail(err, TN_E_INVALID, "The multipart body is broken");
    if (m->state == FINISHED)
        return 0;
    if (m->state != AT_DELIMITER && skip_content(m, err) < 0)
        return -1;
    multipart_part_clear(&m->part);
    int more = pass_delimiter(m, err);
    if (more == 0)
        m->state = FINISHED;
    if (more <= 0)
        return more;
    if (++m->parts > m->parts_max)
        return fail(m, err, TN_E_TOO_LARGE, "The multipart body has too many parts");
    if (read_headers(m, err) < 0 || enter_content(m, err) < 0)
        return -1;
    m->state = IN_PART;
    *part = &m->part;
    return 1;
}

ssize_t tn_multipart_read(struct tn_multipart *m, void *to, size_t n, struct tn_error *err)
{
    if (m->state == BROKEN)
        return tn_fail(err, TN_E_INVALID, "The multipart body is broken");
    if (m->state != IN_PART || n == 0)
        return 0;
    ssize_t got = ready(m, err);
    if (got == 0)
        m->state = AT_DELIMITER;
    if (got <= 0)
        return got;
    if ((size_t)got > n)
        got = (ssize_t)n;
    memcpy(to, m->window + m->at, (size_t)got);
    m->at += (size_t)got;
    return got;
}

#include "net/sse-read.h"

void tn_sse_reader_init(struct tn_sse_reader *r, size_t max)
{
    tn_buf_init(&r->line, max);
    tn_buf_init(&r->event, max);
    tn_buf_init(&r->data, max);
    r->carriage_return = false;
}

void tn_sse_reader_done(struct tn_sse_reader *r)
{
    tn_buf_done(&r->line);
    tn_buf_done(&r->event);
    tn_buf_done(&r->data);
}

void tn_sse_reader_reset(struct tn_sse_reader *r)
{
    tn_buf_reset(&r->line);
    tn_buf_reset(&r->event);
    tn_buf_reset(&r->data);
    r->carriage_return = false;
}

/* The value of the line if its field is that one; a blank after the colon is not part of it. */
static const char *value_of(const struct tn_buf *line, const char *field, size_t *n)
{
    size_t length = strlen(field);
    const char *text = tn_buf_str(line);

    if (line->len < length || memcmp(text, field, length) != 0)
        return NULL;
    if (line->len > length && text[length] != ':')
        return NULL;
    size_t skip = line->len == length ? 0 : 1 + (text[length + 1] == ' ');
    *n = line->len - length - skip;
    return text + length + skip;
}

/* A line that is complete; an empty one ends an event, if there was one. */
static int take_line(struct tn_sse_reader *r, tn_sse_event_fn fn, void *ctx)
{
    const char *value;
    size_t n;
    int result = 0;

    if (r->line.len == 0) {
        if (r->data.len && tn_buf_ok(&r->data)) {
            tn_buf_cut(&r->data, r->data.len - 1); /* the break behind the last line */
            result = fn(tn_buf_str(&r->event), tn_buf_str(&r->data), r->data.len, ctx);
        }
        tn_buf_reset(&r->event);
        tn_buf_reset(&r->data);
        return result;
    }
    if ((value = value_of(&r->line, "data", &n))) {
        tn_buf_add(&r->data, value, n);
        tn_buf_putc(&r->data, '\n');
    } else if ((value = value_of(&r->line, "event", &n))) {
        tn_buf_reset(&r->event);
        tn_buf_add(&r->event, value, n);
    }
    tn_buf_reset(&r->line);
    return 0;
}

int tn_sse_read(struct tn_sse_reader *r, const char *bytes, size_t n, tn_sse_event_fn fn, void *ctx,
                struct tn_error *err)
{
    const char *end = bytes + n;
    int result = 0;

    while (bytes < end && result == 0) {
        if (r->carriage_return && *bytes == '\n') {
            r->carriage_return = false;
            bytes++;
            continue;
        }
        r->carriage_return = false;
        const char *stop = bytes;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        tn_buf_add(&r->line, bytes, (size_t)(stop - bytes));
        if (stop < end) {
            r->carriage_return = *stop == '\r';
            result = take_line(r, fn, ctx);
            stop++;
        }
        if (!tn_buf_ok(&r->line) || !tn_buf_ok(&r->data) || !tn_buf_ok(&r->event))
            return tn_fail(err, TN_E_TOO_LARGE, "an event is longer than %zu bytes", r->data.max);
        bytes = stop;
    }
    return result;
}

#include "net/sse-read.h"

/* A longer id is one that nobody can be asked for. */
enum { ID_MAX = 4096 };

void tn_sse_reader_init(struct tn_sse_reader *r, size_t max)
{
    tn_buf_init(&r->line, max);
    tn_buf_init(&r->event, max);
    tn_buf_init(&r->data, max);
    tn_buf_init(&r->id, ID_MAX);
    tn_buf_init(&r->next, ID_MAX);
    r->carriage_return = false;
    r->retry = -1;
}

void tn_sse_reader_done(struct tn_sse_reader *r)
{
    tn_buf_done(&r->line);
    tn_buf_done(&r->event);
    tn_buf_done(&r->data);
    tn_buf_done(&r->id);
    tn_buf_done(&r->next);
}

void tn_sse_reader_reset(struct tn_sse_reader *r)
{
    tn_buf_reset(&r->line);
    tn_buf_reset(&r->event);
    tn_buf_reset(&r->data);
    tn_buf_reset(&r->next);
    tn_buf_add(&r->next, tn_buf_str(&r->id), r->id.len);
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

static void copy(struct tn_buf *to, const char *bytes, size_t n)
{
    tn_buf_reset(to);
    if (n <= to->max)
        tn_buf_add(to, bytes, n);
}

static int64_t milliseconds(const char *digits, size_t n, int64_t before)
{
    int64_t value = 0;

    if (n == 0 || n > 9 || strspn(digits, "0123456789") < n)
        return before;
    for (size_t i = 0; i < n; i++)
        value = value * 10 + (digits[i] - '0');
    return value;
}

/* A line that is complete; an empty one ends an event, if there was one. */
static int take_line(struct tn_sse_reader *r, tn_sse_event_fn fn, void *ctx)
{
    const char *value;
    size_t n;
    int result = 0;

    if (r->line.len == 0) {
        copy(&r->id, tn_buf_str(&r->next), r->next.len);
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
        copy(&r->event, value, n);
    } else if ((value = value_of(&r->line, "id", &n)) && !memchr(value, '\0', n)) {
        copy(&r->next, value, n);
    } else if ((value = value_of(&r->line, "retry", &n))) {
        r->retry = milliseconds(value, n, r->retry);
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

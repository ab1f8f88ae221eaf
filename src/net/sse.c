#include "net/sse.h"

int tn_sse_start(struct tn_http_exchange *x)
{
    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_set_header(x, "X-Accel-Buffering", "no");
    if (tn_http_start(x, 200, "text/event-stream", -1) < 0)
        return -1;
    if (strcmp(tn_http_method(x), "HEAD") != 0)
        return 0;
    tn_http_end(x); /* nobody will ever read an event */
    return -1;
}

/* One "name: value" line; the value ends at its first line break, which would start a field. */
static void put_field(struct tn_buf *out, const char *name, const char *value)
{
    if (value) {
        tn_buf_puts(out, name);
        tn_buf_add(out, value, strcspn(value, "\r\n"));
        tn_buf_putc(out, '\n');
    }
}

/* The length of the line at s and, in *skip, of the break behind it (CR LF, CR or LF; 0 at the
 * end). */
static size_t line_length(const char *s, size_t n, size_t *skip)
{
    size_t i = 0;

    while (i < n && s[i] != '\n' && s[i] != '\r')
        i++;
    *skip = i == n ? 0 : s[i] == '\r' && i + 1 < n && s[i + 1] == '\n' ? 2 : 1;
    return i;
}

int tn_sse_send(struct tn_http_exchange *x, const char *event, const char *id, const char *data,
                size_t n)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(SIZE_MAX / 2);
    size_t skip;

    put_field(&out, "event: ", event);
    put_field(&out, "id: ", id);
    do {
        size_t line = line_length(data, n, &skip);
        tn_buf_puts(&out, "data: ");
        tn_buf_add(&out, data, line);
        tn_buf_putc(&out, '\n');
        data += line + skip;
        n -= line + skip;
    } while (skip);
    tn_buf_putc(&out, '\n');
    if (!tn_buf_ok(&out)) {
        tn_http_abort(x);
        return -1;
    }
    return tn_http_write(x, out.data, out.len);
}

int tn_sse_beat(struct tn_http_exchange *x)
{
    return tn_http_write(x, ":\n\n", 3);
}

#include "net/http-rewrite.h"

enum { VALUE_MAX = 64 << 10 };

/* Between two neighbours, not from end to end; each side has its own. */
static bool is_of_connection(const char *name, size_t n)
{
    static const char *const names[] = {
        "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
        "te",         "trailer",    "upgrade",          "transfer-encoding",  "content-length",
        "expect",     "host",       "http2-settings"};

    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (tn_http_same(name, n, names[i]))
            return true;
    return false;
}

/* Connection may be given several times, and each names further ones. */
static bool is_named(const struct tn_http_head *head, const char *bytes, const char *name)
{
    for (unsigned i = 0; i < head->field_count; i++) {
        const struct tn_http_field *f = &head->fields[i];
        if (tn_http_same(bytes + f->name.at, f->name.len, "connection") &&
            tn_http_list_has(bytes + f->value.at, f->value.len, name))
            return true;
    }
    return false;
}

void http_pass_lines(const struct tn_http_head *head, const char *bytes, tn_http_filter_fn filter,
                     void *ctx, http_line_fn fn, void *to)
{
    tn_autobuf struct tn_buf changed = TN_BUF_INIT(VALUE_MAX);

    for (unsigned i = 0; i < head->field_count; i++) {
        const struct tn_http_field *f = &head->fields[i];
        const char *name = bytes + f->name.at, *value = bytes + f->value.at;
        enum tn_http_verdict verdict = TN_HTTP_PASS;
        if (is_of_connection(name, f->name.len) || is_named(head, bytes, name))
            continue;
        tn_buf_reset(&changed);
        if (filter)
            verdict = filter(name, value, &changed, ctx);
        if (verdict == TN_HTTP_PASS)
            fn(name, value, to);
        else if (verdict == TN_HTTP_CHANGE && tn_buf_ok(&changed) &&
                 tn_http_is_value(tn_buf_str(&changed), changed.len))
            fn(name, tn_buf_str(&changed), to);
    }
}

static void put_line(const char *name, const char *value, void *to)
{
    tn_buf_printf(to, "%s: %s\r\n", name, value);
}

void http_request_lines(const struct http_request_head *r, const struct tn_http_forward *to,
                        struct tn_buf *out)
{
    const struct tn_http_slice *host = tn_http_find(r->head, r->bytes, "host");

    tn_buf_printf(out, "%s %s HTTP/1.1\r\n", r->method, to->target);
    put_line("Host", to->host ? to->host : host ? r->bytes + host->at : "localhost", out);
    http_pass_lines(r->head, r->bytes, to->on_request, to->ctx, put_line, out);
    tn_buf_puts(out, to->extra ? to->extra : "");
    if (r->upgrade)
        tn_buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n", r->upgrade);
    else if (!r->keep)
        tn_buf_puts(out, "Connection: close\r\n");
    if (r->head->chunked)
        tn_buf_puts(out, "Transfer-Encoding: chunked\r\n");
    else if (r->head->length >= 0)
        tn_buf_printf(out, "Content-Length: %lld\r\n", (long long)r->head->length);
    tn_buf_puts(out, "\r\n");
}

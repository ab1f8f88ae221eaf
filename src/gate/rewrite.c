#include "gate/rewrite.h"

#include "base/base64.h"
#include "base/key-file.h"

enum { FIELD_MAX = 64 << 10 };

struct rewriting {
    const struct vault *vault;
    const char *host;
    uint16_t port;
};

static bool is_header_of(const struct vault_secret *s, const char *name, size_t n)
{
    for (size_t i = 0; i < tn_json_count(s->headers); i++) {
        const char *header = tn_json_str(tn_json_at(s->headers, i), NULL);
        if (header && tn_http_same(name, n, header))
            return true;
    }
    return false;
}

/* Puts the value wherever its placeholder is; how often. */
static int replace(struct tn_buf *text, const struct vault_secret *s)
{
    tn_autokeyfile struct tn_buf from = *text;
    size_t n = strlen(s->placeholder);
    const char *at = tn_buf_str(&from), *end = at + from.len, *found;
    int count = 0;

    *text = (struct tn_buf)TN_BUF_INIT(FIELD_MAX);
    for (; (found = memmem(at, (size_t)(end - at), s->placeholder, n)); at = found + n, count++) {
        tn_buf_add(text, at, (size_t)(found - at));
        tn_buf_add(text, s->value, s->value_size);
    }
    tn_buf_add(text, at, (size_t)(end - at));
    return count;
}

static int replace_all(const struct rewriting *r, const char *name, size_t size,
                       struct tn_buf *text)
{
    int count = 0;

    for (size_t i = 0; i < r->vault->count; i++) {
        const struct vault_secret *s = &r->vault->secrets[i];
        if (is_header_of(s, name, size) && vault_secret_is_for(s, r->host, r->port))
            count += replace(text, s);
    }
    return count;
}

/* "Basic " and base64 of "user:password". */
static int replace_basic(const struct rewriting *r, const char *name, size_t size,
                         struct tn_buf *text, struct tn_buf *encoded)
{
    static const size_t scheme = sizeof "Basic " - 1;
    tn_autokeyfile struct tn_buf plain = TN_BUF_INIT(FIELD_MAX);

    if (text->len < scheme || !tn_http_same(text->data, scheme, "Basic ") ||
        tn_base64_decode(&plain, text->data + scheme, text->len - scheme, NULL) < 0 ||
        replace_all(r, name, size, &plain) == 0)
        return 0;
    tn_buf_cut(text, scheme);
    tn_base64_encode(text, plain.data, plain.len);
    tn_buf_reset(encoded);
    tn_buf_add(encoded, text->data + scheme, text->len - scheme);
    return 1;
}

/* What would hide a value in the answer. */
static bool hides(const char *name, size_t n)
{
    return tn_http_same(name, n, "accept-encoding") ||
           tn_http_same(name, n, "sec-websocket-extensions");
}

static void put_field(const struct rewriting *r, const struct tn_http_field *f, const char *bytes,
                      struct tn_buf *out, struct tn_buf *encoded)
{
    const char *name = bytes + f->name.at, *value = bytes + f->value.at;
    tn_autokeyfile struct tn_buf text = TN_BUF_INIT(FIELD_MAX);

    tn_buf_add(&text, value, f->value.len);
    bool changed = replace_basic(r, name, f->name.len, &text, encoded) > 0 ||
                   replace_all(r, name, f->name.len, &text) > 0;
    tn_buf_add(out, name, f->name.len);
    tn_buf_puts(out, ": ");
    /* A value that is no text of one line would be headers of its own. */
    if (changed && tn_buf_ok(&text) && tn_http_is_value(tn_buf_str(&text), text.len))
        tn_buf_add(out, text.data, text.len);
    else
        tn_buf_add(out, value, f->value.len);
    tn_buf_puts(out, "\r\n");
}

int rewrite_head(const struct tn_http_head *head, const char *bytes, const struct vault *v,
                 const char *host, uint16_t port, struct tn_buf *out, struct tn_buf *encoded)
{
    const struct rewriting r = {.vault = v, .host = host, .port = port};
    bool masked = vault_knows(v, host, port);

    tn_buf_printf(out, "%.*s %.*s HTTP/1.%d\r\n", (int)head->method.len, bytes + head->method.at,
                  (int)head->target.len, bytes + head->target.at, head->minor);
    for (unsigned i = 0; i < head->field_count; i++) {
        const struct tn_http_slice *name = &head->fields[i].name;
        if (!masked || !hides(bytes + name->at, name->len))
            put_field(&r, &head->fields[i], bytes, out, encoded);
    }
    tn_buf_puts(out, masked ? "Accept-Encoding: identity\r\n\r\n" : "\r\n");
    return tn_buf_ok(out) ? 0 : -1;
}

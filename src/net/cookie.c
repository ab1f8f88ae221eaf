#include "net/cookie.h"

#include "net/http-internal.h"

/* A piece of a text that ';' divides, without blanks around it. */
struct part {
    const char *text;
    size_t len, name; /* the name ends at '=', or at the end */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The next one, which may be empty; *at is NULL after the last. */
static struct part next_part(const char **at)
{
    const char *from = *at, *end = from + strcspn(from, ";");

    *at = *end ? end + 1 : NULL;
    while (from < end && is_blank(*from))
        from++;
    while (end > from && is_blank(end[-1]))
        end--;
    const char *equals = memchr(from, '=', (size_t)(end - from));
    return (struct part){.text = from,
                         .len = (size_t)(end - from),
                         .name = (size_t)((equals ? equals : end) - from)};
}

static const char *value_of(const struct part *p)
{
    return p->text + p->name + (p->name < p->len);
}

static size_t value_len(const struct part *p)
{
    return (size_t)(p->text + p->len - value_of(p));
}

/* --- in a request -------------------------------------------------------------------------- */

static bool any_in(const char *cookies, const char *name, tn_cookie_value_fn fits, void *ctx)
{
    bool found = false;

    while (cookies) {
        struct part p = next_part(&cookies);
        if (p.name != strlen(name) || p.name == p.len || strncmp(p.text, name, p.name) != 0)
            continue;
        tn_autofree char *value = tn_strndup(value_of(&p), value_len(&p));
        found |= fits(value, ctx);
    }
    return found;
}

bool tn_cookie_any(const struct tn_http_exchange *x, const char *name, tn_cookie_value_fn fits,
                   void *ctx)
{
    const char *in = x->conn->in;

    for (unsigned i = 0; i < x->head.field_count; i++) {
        const struct tn_http_field *f = &x->head.fields[i];
        if (tn_http_same(in + f->name.at, f->name.len, "cookie") &&
            any_in(in + f->value.at, name, fits, ctx))
            return true;
    }
    return false;
}

static void put_part(struct tn_buf *out, const char *text, size_t n)
{
    if (out->len)
        tn_buf_puts(out, "; ");
    tn_buf_add(out, text, n);
}

void tn_cookies_without(const char *cookies, tn_cookie_name_fn hidden, void *ctx,
                        struct tn_buf *out)
{
    while (cookies) {
        struct part p = next_part(&cookies);
        if (p.len && !hidden(p.text, p.name, ctx))
            put_part(out, p.text, p.len);
    }
}

void tn_cookies_below(const char *cookies, const char *prefix, struct tn_buf *out)
{
    size_t n = strlen(prefix);

    while (cookies) {
        struct part p = next_part(&cookies);
        if (p.name > n && strncmp(p.text, prefix, n) == 0)
            put_part(out, p.text + n, p.len - n);
    }
}

/* --- in an answer -------------------------------------------------------------------------- */

bool tn_set_cookie_parse(const char *text, struct tn_set_cookie *out)
{
    struct part p = next_part(&text);

    *out = (struct tn_set_cookie){
        .name = p.text,
        .name_len = p.name,
        .value = value_of(&p),
        .value_len = value_len(&p),
        .rest = text ? text : "",
    };
    while (text) {
        struct part a = next_part(&text);
        if (tn_http_same(a.text, a.name, "path")) { /* the last one counts */
            out->path = value_of(&a);
            out->path_len = value_len(&a);
        }
    }
    return p.name > 0 && p.name < p.len;
}

static bool is_in(const struct part *p, const char *const *names)
{
    for (; *names; names++)
        if (tn_http_same(p->text, p->name, *names))
            return true;
    return false;
}

void tn_set_cookie_rest(const struct tn_set_cookie *c, const char *const *without,
                        struct tn_buf *out)
{
    for (const char *at = c->rest; at;) {
        struct part p = next_part(&at);
        if (!p.len || is_in(&p, without))
            continue;
        tn_buf_puts(out, "; ");
        tn_buf_add(out, p.text, p.len);
    }
}

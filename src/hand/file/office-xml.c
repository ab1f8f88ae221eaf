#include <stdlib.h>

#include "base/utf8.h"
#include "hand/file/office-impl.h"

static void skip(struct xml *x, size_t n)
{
    x->rest.s += n;
    x->rest.n -= n;
}

static bool starts(const struct xml *x, const char *with)
{
    size_t n = strlen(with);
    return x->rest.n >= n && memcmp(x->rest.s, with, n) == 0;
}

/* Skips past the next occurrence; false (and all skipped) when there is none. */
static bool skip_past(struct xml *x, const char *what)
{
    const char *at = memmem(x->rest.s, x->rest.n, what, strlen(what));
    skip(x, at ? (size_t)(at - x->rest.s) + strlen(what) : x->rest.n);
    return at;
}

static enum xml_kind cdata(struct xml *x)
{
    skip(x, strlen("<![CDATA["));
    const char *start = x->rest.s;
    bool ended = skip_past(x, "]]>");
    x->text = tn_slicen(start, (size_t)(x->rest.s - start) - (ended ? 3 : 0));
    x->verbatim = true;
    return x->kind = XML_TEXT;
}

/* The length of the tag up to its '>', which may stand inside a quoted value. */
static size_t tag_length(struct tn_slice t)
{
    char quote = 0;

    for (size_t i = 0; i < t.n; i++) {
        if (quote)
            quote = t.s[i] == quote ? 0 : quote;
        else if (t.s[i] == '"' || t.s[i] == '\'')
            quote = t.s[i];
        else if (t.s[i] == '>')
            return i;
    }
    return t.n;
}

static enum xml_kind tag(struct xml *x)
{
    bool close = starts(x, "</");
    skip(x, close ? 2 : 1);
    size_t len = tag_length(x->rest);
    struct tn_slice inside = {.s = x->rest.s, .n = len};
    skip(x, len < x->rest.n ? len + 1 : len);

    if (!close && inside.n > 0 && inside.s[inside.n - 1] == '/') {
        inside.n--;
        x->close_next = true;
    }
    size_t name = 0, start = 0;
    while (name < inside.n && !strchr(" \t\r\n", inside.s[name])) {
        if (inside.s[name++] == ':')
            start = name;
    }
    x->name = tn_slicen(inside.s + start, name - start);
    x->attrs = tn_slicen(inside.s + name, inside.n - name);
    return x->kind = close ? XML_CLOSE : XML_OPEN;
}

enum xml_kind xml_next(struct xml *x)
{
    if (x->close_next) {
        x->close_next = false;
        return x->kind = XML_CLOSE;
    }
    x->verbatim = false;
    while (x->rest.n > 0) {
        if (x->rest.s[0] != '<') {
            const char *lt = memchr(x->rest.s, '<', x->rest.n);
            x->text = tn_slicen(x->rest.s, lt ? (size_t)(lt - x->rest.s) : x->rest.n);
            skip(x, x->text.n);
            return x->kind = XML_TEXT;
        }
        if (starts(x, "<!--"))
            skip_past(x, "-->");
        else if (starts(x, "<![CDATA["))
            return cdata(x);
        else if (starts(x, "<?") || starts(x, "<!"))
            skip_past(x, ">");
        else
            return tag(x);
    }
    return x->kind = XML_END;
}

bool xml_is(const struct xml *x, const char *name)
{
    return text_equal(x->name, tn_slice(name));
}

/* The character that the entity (without & and ;) stands for; 0 when it is unknown. */
static uint32_t entity(struct tn_slice t)
{
    static const struct {
        const char *name;
        char c;
    } known[] = {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    char digits[12];

    for (size_t i = 0; i < TN_COUNT(known); i++)
        if (text_equal(t, tn_slice(known[i].name)))
            return (unsigned char)known[i].c;
    if (t.n < 2 || t.s[0] != '#' || t.n > sizeof digits)
        return 0;
    memcpy(digits, t.s + 1, t.n - 1);
    digits[t.n - 1] = '\0';
    bool hex = digits[0] == 'x' || digits[0] == 'X';
    unsigned long cp = strtoul(digits + hex, NULL, hex ? 16 : 10);
    return cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff) ? 0 : (uint32_t)cp;
}

static void decode(struct tn_slice t, struct tn_buf *out)
{
    for (size_t i = 0; i < t.n; i++) {
        const char *end = t.s[i] == '&' ? memchr(t.s + i, ';', t.n - i) : NULL;
        size_t len = end ? (size_t)(end - t.s) - i : 0;
        uint32_t cp = len > 1 ? entity(tn_slicen(t.s + i + 1, len - 1)) : 0;
        char utf8[4];
        if (cp) {
            tn_buf_add(out, utf8, tn_utf8_encode(cp, utf8));
            i += len;
        } else if (t.s[i] != '\r') {
            tn_buf_putc(out, t.s[i]);
        }
    }
}

void xml_put_text(const struct xml *x, struct tn_buf *out)
{
    if (x->verbatim)
        tn_buf_add(out, x->text.s, x->text.n);
    else
        decode(x->text, out);
}

/* Is the attribute `key` the one that was asked for? */
static bool is_attr(struct tn_slice key, const char *name)
{
    const char *colon = key.n ? memrchr(key.s, ':', key.n) : NULL;

    if (colon)
        key = tn_slicen(colon + 1, (size_t)(key.s + key.n - colon - 1));
    return name[0] == ':' ? colon && text_equal(key, tn_slice(name + 1))
                          : text_equal(key, tn_slice(name));
}

bool xml_attr(const struct xml *x, const char *name, struct tn_buf *value)
{
    struct tn_slice a = x->attrs;

    while (a.n > 0) {
        const char *equals = memchr(a.s, '=', a.n);
        if (!equals)
            return false;
        struct tn_slice key = text_strip(tn_slicen(a.s, (size_t)(equals - a.s)));
        a = tn_slicen(equals + 1, (size_t)(a.s + a.n - equals - 1));
        while (a.n > 0 && a.s[0] != '"' && a.s[0] != '\'')
            a = tn_slicen(a.s + 1, a.n - 1);
        const char *end = a.n > 1 ? memchr(a.s + 1, a.s[0], a.n - 1) : NULL;
        if (!end)
            return false;
        if (is_attr(key, name)) {
            tn_buf_reset(value);
            decode(tn_slicen(a.s + 1, (size_t)(end - a.s - 1)), value);
            return true;
        }
        a = tn_slicen(end + 1, (size_t)(a.s + a.n - end - 1));
    }
    return false;
}

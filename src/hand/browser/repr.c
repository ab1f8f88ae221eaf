#include "hand/browser/repr.h"

#include "base/utf8.h"

/* What str.isprintable() refuses besides unassigned code points: controls, formats, surrogates,
 * private use, and all separators but the space. */
static const uint32_t unprintable[][2] = {
    {0x00, 0x1f},       {0x7f, 0xa0},       {0xad, 0xad},        {0x600, 0x605},
    {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},      {0x890, 0x891},
    {0x8e2, 0x8e2},     {0x1680, 0x1680},   {0x180e, 0x180e},    {0x2000, 0x200f},
    {0x2028, 0x202f},   {0x205f, 0x206f},   {0x3000, 0x3000},    {0xd800, 0xf8ff},
    {0xfdd0, 0xfdef},   {0xfeff, 0xfeff},   {0xfff0, 0xfffb},    {0xfffe, 0xffff},
    {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},  {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff}, {0xe01f0, 0x10ffff},
};

static bool is_printable(uint32_t cp)
{
    if (cp < 0x7f)
        return cp >= 0x20;
    for (size_t i = 0; i < TN_COUNT(unprintable) && cp >= unprintable[i][0]; i++)
        if (cp <= unprintable[i][1])
            return false;
    return true;
}

static void put_escape(struct tn_buf *out, uint32_t cp)
{
    static const char from[] = "\n\r\t\\", to[] = "nrt\\";
    const char *which = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;

    if (which)
        tn_buf_printf(out, "\\%c", to[which - from]);
    else if (cp < 0x100)
        tn_buf_printf(out, "\\x%02x", cp);
    else if (cp < 0x10000)
        tn_buf_printf(out, "\\u%04x", cp);
    else
        tn_buf_printf(out, "\\U%08x", cp);
}

void tn_put_repr(struct tn_buf *out, const char *s, size_t n)
{
    char quote = memchr(s, '\'', n) && !memchr(s, '"', n) ? '"' : '\'';
    size_t from = 0, at = 0;

    tn_buf_putc(out, quote);
    while (at < n) {
        uint32_t cp = 0xfffd;
        size_t length = tn_utf8_decode(s + at, n - at, &cp);
        if (length && cp != '\\' && cp != (unsigned char)quote && is_printable(cp)) {
            at += length;
            continue;
        }
        tn_buf_add(out, s + from, at - from);
        if (!length)
            tn_buf_puts(out, "\xef\xbf\xbd");
        else if (cp == (unsigned char)quote)
            tn_buf_printf(out, "\\%c", quote);
        else
            put_escape(out, cp);
        at += length ? length : 1;
        from = at;
    }
    tn_buf_add(out, s + from, at - from);
    tn_buf_putc(out, quote);
}

struct members {
    struct tn_buf *out;
    size_t count;
};

static int put_member(const char *key, struct tn_json *value, void *ctx)
{
    struct members *m = ctx;

    tn_buf_puts(m->out, m->count++ ? ", " : "");
    tn_put_repr(m->out, key, strlen(key));
    tn_buf_puts(m->out, ": ");
    tn_put_repr_json(m->out, value);
    return 0;
}

void tn_put_repr_json(struct tn_buf *out, const struct tn_json *v)
{
    struct members members = {.out = out};
    char number[32];
    size_t n = 0;
    const char *text = tn_json_str(v, &n);

    switch (tn_json_type(v)) {
    case TN_JSON_NULL:
        tn_buf_puts(out, "None");
        break;
    case TN_JSON_BOOL:
        tn_buf_puts(out, tn_json_bool(v, false) ? "True" : "False");
        break;
    case TN_JSON_INT:
        tn_buf_printf(out, "%lld", (long long)tn_json_int(v, 0));
        break;
    case TN_JSON_DOUBLE:
        tn_format_double(number, tn_json_double(v, 0));
        tn_buf_puts(out, number);
        break;
    case TN_JSON_STRING:
        tn_put_repr(out, text, n);
        break;
    case TN_JSON_ARRAY:
        tn_buf_putc(out, '[');
        for (size_t i = 0; i < tn_json_count(v); i++) {
            tn_buf_puts(out, i ? ", " : "");
            tn_put_repr_json(out, tn_json_at(v, i));
        }
        tn_buf_putc(out, ']');
        break;
    case TN_JSON_OBJECT:
        tn_buf_putc(out, '{');
        tn_json_each(v, put_member, &members);
        tn_buf_putc(out, '}');
        break;
    }
}

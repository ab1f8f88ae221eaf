#include "base/json.h"

#include <math.h>

#include "base/json-scan.h"
#include "base/utf8.h"

static const bool special[256] = {
    [0 ... 0x1f] = true,
    ['"'] = true,
    ['\\'] = true,
    [0x80 ... 0xff] = true,
};

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/* Non-zero when one of the eight bytes is special.  A borrow can only add a false alarm above a
 * true one, so the answer for the word as a whole is exact. */
static uint64_t word_special(uint64_t w)
{
    uint64_t quote = w ^ EACH_BYTE('"'), backslash = w ^ EACH_BYTE('\\');
    return (w | (w - EACH_BYTE(0x20)) | (quote - EACH_BYTE(1)) | (backslash - EACH_BYTE(1))) &
           EACH_BYTE(0x80);
}

size_t tn_json_plain_run(const char *s, size_t n)
{
    size_t i = 0;
    uint64_t w;

    for (; n - i >= sizeof w; i += sizeof w) {
        memcpy(&w, s + i, sizeof w);
        if (word_special(w))
            break;
    }
    while (i < n && !special[(unsigned char)s[i]])
        i++;
    return i;
}

static void separate(struct tn_jw *w)
{
    if (w->comma)
        tn_buf_putc(w->out, ',');
    w->comma = true;
}

static void open_with(struct tn_jw *w, char c)
{
    separate(w);
    tn_buf_putc(w->out, c);
    w->comma = false;
}

static void close_with(struct tn_jw *w, char c)
{
    tn_buf_putc(w->out, c);
    w->comma = true;
}

void tn_jw_object(struct tn_jw *w)
{
    open_with(w, '{');
}

void tn_jw_object_end(struct tn_jw *w)
{
    close_with(w, '}');
}

void tn_jw_array(struct tn_jw *w)
{
    open_with(w, '[');
}

void tn_jw_array_end(struct tn_jw *w)
{
    close_with(w, ']');
}

static void escape_byte(struct tn_buf *out, unsigned char c)
{
    static const char names[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
        ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
    };
    if (names[c])
        tn_buf_add(out, (const char[]){'\\', names[c]}, 2);
    else
        tn_buf_printf(out, "\\u%04x", c);
}

static void put_string(struct tn_buf *out, const char *s, size_t n)
{
    size_t run = 0, i = 0;

    tn_buf_putc(out, '"');
    while (i < n && tn_buf_ok(out)) {
        i += tn_json_plain_run(s + i, n - i);
        if (i == n)
            break;
        unsigned char c = (unsigned char)s[i];
        uint32_t cp;
        size_t width = c < 0x80 ? 0 : tn_utf8_decode(s + i, n - i, &cp);
        if (width > 0) {
            i += width;
            continue;
        }
        tn_buf_add(out, s + run, i - run);
        if (c < 0x80)
            escape_byte(out, c);
        else
            tn_buf_puts(out, "\xef\xbf\xbd");
        run = ++i;
    }
    tn_buf_add(out, s + run, i - run);
    tn_buf_putc(out, '"');
}

void tn_jw_key(struct tn_jw *w, const char *key)
{
    separate(w);
    put_string(w->out, key, strlen(key));
    tn_buf_putc(w->out, ':');
    w->comma = false;
}

void tn_jw_strn(struct tn_jw *w, const char *s, size_t n)
{
    if (!s) {
        tn_jw_null(w);
        return;
    }
    separate(w);
    put_string(w->out, s, n);
}

void tn_jw_str(struct tn_jw *w, const char *s)
{
    tn_jw_strn(w, s, s ? strlen(s) : 0);
}

void tn_jw_raw(struct tn_jw *w, const char *json, size_t n)
{
    separate(w);
    tn_buf_add(w->out, json, n);
}

void tn_jw_int(struct tn_jw *w, int64_t v)
{
    char text[24], *p = text + sizeof text;
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    do
        *--p = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (v < 0)
        *--p = '-';
    tn_jw_raw(w, p, (size_t)(text + sizeof text - p));
}

void tn_jw_double(struct tn_jw *w, double v)
{
    char text[32];

    if (!isfinite(v)) {
        tn_jw_null(w); /* JSON has no word for it */
        return;
    }
    tn_format_double(text, v);
    tn_jw_raw(w, text, strlen(text));
}

void tn_jw_bool(struct tn_jw *w, bool v)
{
    tn_jw_raw(w, v ? "true" : "false", v ? 4 : 5);
}

void tn_jw_null(struct tn_jw *w)
{
    tn_jw_raw(w, "null", 4);
}

static int write_member(const char *key, struct tn_json *value, void *ctx)
{
    tn_jw_key(ctx, key);
    tn_jw_tree(ctx, value);
    return 0;
}

void tn_jw_tree(struct tn_jw *w, const struct tn_json *v)
{
    const char *s;
    size_t n;

    switch (tn_json_type(v)) {
    case TN_JSON_NULL:
        tn_jw_null(w);
        break;
    case TN_JSON_BOOL:
        tn_jw_bool(w, tn_json_bool(v, false));
        break;
    case TN_JSON_INT:
        tn_jw_int(w, tn_json_int(v, 0));
        break;
    case TN_JSON_DOUBLE:
        tn_jw_double(w, tn_json_double(v, 0));
        break;
    case TN_JSON_STRING:
        s = tn_json_str(v, &n);
        tn_jw_strn(w, s, n);
        break;
    case TN_JSON_ARRAY:
        tn_jw_array(w);
        for (size_t i = 0, count = tn_json_count(v); i < count; i++)
            tn_jw_tree(w, tn_json_at(v, i));
        tn_jw_array_end(w);
        break;
    case TN_JSON_OBJECT:
        tn_jw_object(w);
        tn_json_each(v, write_member, w);
        tn_jw_object_end(w);
        break;
    }
}

void tn_jw_kstr(struct tn_jw *w, const char *key, const char *s)
{
    tn_jw_key(w, key);
    tn_jw_str(w, s);
}

void tn_jw_kint(struct tn_jw *w, const char *key, int64_t v)
{
    tn_jw_key(w, key);
    tn_jw_int(w, v);
}

void tn_jw_kdouble(struct tn_jw *w, const char *key, double v)
{
    tn_jw_key(w, key);
    tn_jw_double(w, v);
}

void tn_jw_kbool(struct tn_jw *w, const char *key, bool v)
{
    tn_jw_key(w, key);
    tn_jw_bool(w, v);
}

void tn_jw_knull(struct tn_jw *w, const char *key)
{
    tn_jw_key(w, key);
    tn_jw_null(w);
}

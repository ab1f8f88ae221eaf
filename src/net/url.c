#include "net/url.h"

#include "base/hex.h"

/* The byte escaped at text (n bytes left, the first is '%'); -1 when it is no escape, or one of
 * NUL. */
static int escape(const char *text, size_t n)
{
    if (n < 3)
        return -1;
    int high = tn_hex_digit(text[1]), low = tn_hex_digit(text[2]);
    if (high < 0 || low < 0 || (high | low) == 0)
        return -1;
    return high << 4 | low;
}

bool tn_url_valid(const char *text, size_t n)
{
    const char *end = text + n;

    for (const char *p = text; p < end && (p = memchr(p, '%', (size_t)(end - p))); p += 3)
        if (escape(p, (size_t)(end - p)) < 0)
            return false;
    return memchr(text, '\0', n) == NULL;
}

ssize_t tn_url_decode(const char *text, size_t n, char *out, bool form)
{
    char *to = out;

    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%') {
            int byte = escape(text + i, n - i);
            if (byte < 0)
                return -1;
            c = (char)byte;
            i += 2;
        } else if (c == '\0') {
            return -1;
        } else if (c == '+' && form) {
            c = ' ';
        }
        *to++ = c;
    }
    *to = '\0';
    return to - out;
}

bool tn_url_climbs(const char *path)
{
    size_t n = strcspn(path, "?");
    tn_autofree char *plain = tn_malloc(n + 1);

    if (tn_url_decode(path, n, plain, false) < 0)
        return true;
    for (const char *at = plain; *at;) {
        size_t segment = strcspn(at, "/\\");
        if (segment > 0 && segment <= 2 && strspn(at, ".") >= segment)
            return true;
        at += segment + (at[segment] != '\0');
    }
    return false;
}

bool tn_url_is_page(const char *url)
{
    for (const char *p = url; *p; p++)
        if (*p <= ' ' || (unsigned char)*p >= 0x7f || strchr("\"'<>\\", *p))
            return false;
    return strncmp(url, "https://", 8) == 0 || strncmp(url, "http://", 7) == 0;
}

static bool unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

int tn_url_encode(struct tn_buf *out, const char *text, const char *keep)
{
    static const char digits[] = "0123456789ABCDEF";

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (unreserved(*text) || (keep && strchr(keep, c)))
            tn_buf_putc(out, *text);
        else
            tn_buf_add(out, (char[]){'%', digits[c >> 4], digits[c & 15]}, 3);
    }
    return tn_buf_ok(out) ? 0 : -1;
}

/* One pair of n > 0 bytes; returns the length of what it became. */
static size_t decode_pair(const char *pair, size_t n, char *out)
{
    const char *equals = memchr(pair, '=', n);
    size_t name_len = equals ? (size_t)(equals - pair) : n;
    size_t value_len = equals ? n - name_len - 1 : 0;

    ssize_t name = tn_url_decode(pair, name_len, out, true);
    if (name < 0)
        return 0;
    ssize_t value = tn_url_decode(equals ? equals + 1 : "", value_len, out + name + 1, true);
    return value < 0 ? 0 : (size_t)(name + value) + 2;
}

size_t tn_url_pairs(const char *query, size_t n, char *out)
{
    const char *end = query + n;
    size_t used = 0;

    while (query < end) {
        const char *stop = memchr(query, '&', (size_t)(end - query));
        if (!stop)
            stop = end;
        if (stop > query)
            used += decode_pair(query, (size_t)(stop - query), out + used);
        query = stop + 1;
    }
    return used;
}

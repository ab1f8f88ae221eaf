/* Character classes and comma-separated lists of HTTP. */
#include "net/http-parse.h"

static bool is_token_char(unsigned char c)
{
    /* One bit per ASCII character: letters, digits and !#$%&'*+-.^_`|~ */
    static const uint32_t bits[4] = {0x00000000, 0x03ff6cfa, 0xc7fffffe, 0x57ffffff};

    return c < 128 && (bits[c >> 5] >> (c & 31) & 1);
}

bool tn_http_is_token(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_token_char((unsigned char)s[i]))
            return false;
    return n > 0;
}

bool tn_http_is_value(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if ((c < ' ' && c != '\t') || c == 127)
            return false;
    }
    return true;
}

bool tn_http_is_lines(const char *lines)
{
    while (*lines) {
        const char *end = strstr(lines, "\r\n");
        size_t name = strcspn(lines, ":");
        if (!end || lines + name >= end || !tn_http_is_token(lines, name) ||
            !tn_http_is_value(lines + name, (size_t)(end - lines) - name))
            return false;
        lines = end + 2;
    }
    return true;
}

bool tn_http_lines_have(const char *lines, const char *name)
{
    for (const char *end; (end = strstr(lines, "\r\n")); lines = end + 2)
        if (tn_http_same(lines, strcspn(lines, ":"), name))
            return true;
    return false;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool tn_http_same(const char *s, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (!word[i] || lower(s[i]) != lower(word[i]))
            return false;
    return word[n] == '\0';
}

bool tn_http_list_has(const char *s, size_t n, const char *word)
{
    const char *end = s + n;

    while (s < end) {
        const char *comma = memchr(s, ',', (size_t)(end - s));
        const char *stop = comma ? comma : end;
        const char *last = stop;
        while (s < last && (*s == ' ' || *s == '\t'))
            s++;
        while (last > s && (last[-1] == ' ' || last[-1] == '\t'))
            last--;
        if (tn_http_same(s, (size_t)(last - s), word))
            return true;
        s = stop + 1;
    }
    return false;
}

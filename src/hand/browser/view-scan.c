#include "hand/browser/view-scan.h"

#include "base/json-scan.h"
#include "base/utf8.h"

static void spoil(struct tn_scan *c)
{
    c->bad = true;
    c->at = c->end;
}

char tn_scan_peek(struct tn_scan *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
        c->at++;
    if (c->at < c->end)
        return *c->at;
    spoil(c);
    return '\0';
}

/* Behind the closing quote of the string at `at`; NULL when there is none. */
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at < end ? at + 1 : NULL;
}

/* Behind the bracket that closes the one at `at`; NULL when there is none. */
static const char *container_end(const char *at, const char *end)
{
    size_t depth = 0;

    while (at && at < end) {
        switch (*at++) {
        case '"':
            at = string_end(at - 1, end);
            break;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            if (--depth == 0)
                return at;
            break;
        default:
            break;
        }
    }
    return NULL;
}

/* To where a search ended, which may have failed. */
static void move_to(struct tn_scan *c, const char *at)
{
    if (at)
        c->at = at;
    else
        spoil(c);
}

static bool ends_word(char ch)
{
    return ch == ',' || ch == ']' || ch == '}' || ch == ':' || ch == ' ' || ch == '\n' ||
           ch == '\r' || ch == '\t' || ch == '"' || ch == '[' || ch == '{';
}

static void skip_word(struct tn_scan *c)
{
    const char *from = c->at;

    while (c->at < c->end && !ends_word(*c->at))
        c->at++;
    if (c->at == from)
        spoil(c);
}

struct tn_slice tn_scan_skip(struct tn_scan *c)
{
    char ch = tn_scan_peek(c);
    const char *from = c->at;

    if (ch == '"')
        move_to(c, string_end(c->at, c->end));
    else if (ch == '{' || ch == '[')
        move_to(c, container_end(c->at, c->end));
    else
        skip_word(c);
    if (c->bad)
        return (struct tn_slice){"", 0};
    return (struct tn_slice){from, (size_t)(c->at - from)};
}

void tn_scan_enter(struct tn_scan *c)
{
    char ch = tn_scan_peek(c);

    if (ch == '{' || ch == '[')
        c->at++;
    else
        spoil(c);
}

bool tn_scan_element(struct tn_scan *c)
{
    char ch = tn_scan_peek(c);

    if (ch == ',') {
        c->at++;
        ch = tn_scan_peek(c);
    }
    if (ch == ']' || ch == '}') {
        c->at++;
        return false;
    }
    return ch != '\0';
}

bool tn_scan_member(struct tn_scan *c, struct tn_slice *key)
{
    if (!tn_scan_element(c))
        return false;
    if (*c->at != '"') {
        spoil(c);
        return false;
    }
    *key = tn_slice_unquoted(tn_scan_skip(c));
    if (tn_scan_peek(c) != ':') {
        spoil(c);
        return false;
    }
    c->at++;
    return true;
}

int64_t tn_scan_int(struct tn_scan *c)
{
    struct tn_slice word = tn_scan_skip(c);
    bool negative = word.n && word.s[0] == '-';
    uint64_t value = 0;

    for (size_t i = negative; i < word.n && word.s[i] >= '0' && word.s[i] <= '9'; i++)
        value =
            value > INT64_MAX / 10 - 1 ? INT64_MAX / 10 : value * 10 + (uint64_t)(word.s[i] - '0');
    return negative ? -(int64_t)value : (int64_t)value;
}

double tn_scan_double(struct tn_scan *c)
{
    struct tn_slice word = tn_scan_skip(c);
    char text[40];

    if (word.n == 0 || word.n >= sizeof text ||
        !(word.s[0] == '-' || (word.s[0] >= '0' && word.s[0] <= '9')))
        return 0;
    memcpy(text, word.s, word.n);
    text[word.n] = '\0';
    return tn_strtod(text);
}

bool tn_scan_bool(struct tn_scan *c)
{
    return tn_slice_is(tn_scan_skip(c), "true");
}

static int hex4(const char *s, size_t n)
{
    int value = 0;

    if (n < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *d = s[i] ? strchr(digits, s[i] | 0x20) : NULL;
        if (!d)
            return -1;
        value = value << 4 | (int)(d - digits);
    }
    return value;
}

/* The escape at s (behind the backslash): appends what it stands for, returns its length. */
static size_t put_escape(struct tn_buf *out, const char *s, size_t n)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *which = s[0] ? strchr(from, s[0]) : NULL;
    char bytes[4];

    if (s[0] != 'u') {
        tn_buf_putc(out, which ? to[which - from] : s[0]);
        return 1;
    }
    int unit = hex4(s + 1, n - 1), low = -1;
    if (unit < 0)
        return 1;
    size_t used = 5;
    uint32_t cp = (uint32_t)unit;
    if (cp >= 0xd800 && cp < 0xdc00 && n >= 11 && s[5] == '\\' && s[6] == 'u')
        low = hex4(s + 7, n - 7);
    if (low >= 0xdc00 && low < 0xe000) {
        cp = 0x10000 + ((cp - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        used = 11;
    } else if (cp >= 0xd800 && cp < 0xe000) {
        cp = 0xfffd;
    }
    tn_buf_add(out, bytes, tn_utf8_encode(cp, bytes));
    return used;
}

bool tn_scan_string(struct tn_scan *c, struct tn_buf *out)
{
    struct tn_slice word = tn_scan_skip(c);

    if (word.n < 2 || word.s[0] != '"')
        return false;
    const char *at = word.s + 1, *end = word.s + word.n - 1;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        tn_buf_add(out, at, (size_t)((escape ? escape : end) - at));
        if (!escape)
            break;
        at = escape + 1;
        if (at < end)
            at += put_escape(out, at, (size_t)(end - at));
    }
    return true;
}

struct tn_slice tn_slice_get(struct tn_slice v, const char *name)
{
    struct tn_scan c = tn_scan(v.s, v.n);
    struct tn_slice key, value, found = {"", 0};

    if (!v.n || v.s[0] != '{')
        return found;
    tn_scan_enter(&c);
    while (tn_scan_member(&c, &key)) {
        value = tn_scan_skip(&c);
        if (tn_slice_is(key, name))
            found = value;
    }
    return found;
}

struct tn_slice tn_slice_unquoted(struct tn_slice v)
{
    if (v.n >= 2 && v.s[0] == '"')
        return (struct tn_slice){v.s + 1, v.n - 2};
    return v;
}

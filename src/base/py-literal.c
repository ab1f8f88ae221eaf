/* Translates the literal to JSON text and lets the JSON reader build the tree. */
#include "base/py-literal.h"

#include "base/hex.h"
#include "base/utf8.h"

#define DEPTH_MAX 32

struct reader {
    const char *text;
    size_t at, len;
    int depth;
    bool loose; /* as the header says of tn_py_literal_at */
    struct tn_jw out;
    struct tn_buf string; /* the string being decoded */
    struct tn_error *err;
};

static int read_value(struct reader *r);

static int fail_at(struct reader *r, const char *expected)
{
    return tn_fail(r->err, TN_E_INVALID, "Python literal: expected %s at byte %zu", expected,
                   r->at);
}

static int peek(const struct reader *r)
{
    return r->at < r->len ? (unsigned char)r->text[r->at] : -1;
}

static int peek_after_space(struct reader *r)
{
    int c;
    bool comment = false;
    while ((c = peek(r)) == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' ||
           (c == '#' && r->loose) || (comment && c >= 0)) {
        comment = c != '\n' && (comment || c == '#');
        r->at++;
    }
    return c;
}

static bool accept(struct reader *r, char c)
{
    if (peek_after_space(r) != (unsigned char)c)
        return false;
    r->at++;
    return true;
}

/* Up to `most` digits in base; at least `fewest` must be there. */
static int read_code(struct reader *r, int base, int fewest, int most)
{
    uint32_t cp = 0;
    char bytes[4];
    int n = 0, digit;

    while (n < most && (digit = tn_hex_digit(peek(r))) >= 0 && digit < base) {
        cp = cp * (uint32_t)base + (uint32_t)digit;
        r->at++;
        n++;
    }
    if (n < fewest)
        return fail_at(r, "more digits in the escape");
    if (cp > 0x10ffff)
        return fail_at(r, "a character below U+110000 before here");
    if (cp >= 0xd800 && cp <= 0xdfff)
        cp = 0xfffd;
    return tn_buf_add(&r->string, bytes, tn_utf8_encode(cp, bytes));
}

static int read_escape(struct reader *r)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    int c = peek(r);
    const char *which = c > 0 ? strchr(from, c) : NULL;

    if (c < 0)
        return fail_at(r, "the rest of the escape");
    if (c >= '0' && c <= '7')
        return read_code(r, 8, 1, 3);
    r->at++;
    if (which)
        return tn_buf_putc(&r->string, to[which - from]);
    switch (c) {
    case '\n':
        return 0; /* the line goes on */
    case 'x':
        return read_code(r, 16, 2, 2);
    case 'u':
        return read_code(r, 16, 4, 4);
    case 'U':
        return read_code(r, 16, 8, 8);
    case 'N':
        return fail_at(r, "no character name before here");
    default: /* not an escape: the backslash stays */
        tn_buf_putc(&r->string, '\\');
        return tn_buf_putc(&r->string, (char)c);
    }
}

/* How many letters stand before the quote ("r", "b", "Rb"); -1 when no string starts here. */
static int string_prefix(const struct reader *r)
{
    size_t n = 0, left = r->len - r->at;

    while (n < 2 && n < left && strchr("rRuUbB", r->text[r->at + n]) && r->text[r->at + n])
        n++;
    if (n == left || (r->text[r->at + n] != '\'' && r->text[r->at + n] != '"'))
        return -1;
    return (int)n;
}

static bool looking_at(const struct reader *r, const char *text, size_t n)
{
    return r->len - r->at >= n && memcmp(r->text + r->at, text, n) == 0;
}

static int read_one_string(struct reader *r, int prefix)
{
    char quotes[3];
    bool raw = memchr(r->text + r->at, 'r', (size_t)prefix) ||
               memchr(r->text + r->at, 'R', (size_t)prefix);

    r->at += (size_t)prefix;
    memset(quotes, r->text[r->at], sizeof quotes);
    size_t n = looking_at(r, quotes, 3) ? 3 : 1;
    r->at += n;
    for (;;) {
        int c = peek(r);
        if (c < 0 || (c == '\n' && n == 1 && !r->loose))
            return fail_at(r, "the closing quote");
        if (looking_at(r, quotes, n)) {
            r->at += n;
            return 0;
        }
        r->at++;
        if (c == '\\' && !raw) {
            if (read_escape(r) < 0)
                return -1;
            continue;
        }
        tn_buf_putc(&r->string, (char)c);
        if (c == '\\' && peek(r) >= 0)
            tn_buf_putc(&r->string, r->text[r->at++]);
    }
}

/* One string or several side by side, into r->string. */
static int read_strings(struct reader *r)
{
    int prefix;

    tn_buf_reset(&r->string);
    while (peek_after_space(r) >= 0 && (prefix = string_prefix(r)) >= 0)
        if (read_one_string(r, prefix) < 0)
            return -1;
    return 0;
}

static int read_string(struct reader *r)
{
    if (read_strings(r) < 0)
        return -1;
    tn_jw_strn(&r->out, tn_buf_str(&r->string), r->string.len);
    return 0;
}

static int read_key(struct reader *r)
{
    if (peek_after_space(r) < 0 || string_prefix(r) < 0)
        return fail_at(r, "a string as key");
    if (read_strings(r) < 0)
        return -1;
    if (memchr(tn_buf_str(&r->string), '\0', r->string.len))
        return fail_at(r, "a key without a NUL character before here");
    tn_jw_key(&r->out, tn_buf_str(&r->string));
    if (!accept(r, ':'))
        return fail_at(r, "':'");
    return 0;
}

/* Items up to the closing bracket, with an optional comma after the last. */
static int read_items(struct reader *r, char close)
{
    bool dict = close == '}', comma = true;
    size_t count = 0;

    r->at++;
    while (!accept(r, close)) {
        if (!comma)
            return fail_at(r, "',' or the closing bracket");
        if ((dict && read_key(r) < 0) || read_value(r) < 0)
            return -1;
        count++;
        comma = accept(r, ',');
    }
    if (close == ')' && count == 1 && !comma && !r->loose)
        return fail_at(r, "a comma in the tuple before here");
    return 0;
}

static int read_collection(struct reader *r, char close)
{
    if (++r->depth > DEPTH_MAX)
        return fail_at(r, "less nesting");
    if (close == '}')
        tn_jw_object(&r->out);
    else
        tn_jw_array(&r->out);
    if (read_items(r, close) < 0)
        return -1;
    if (close == '}')
        tn_jw_object_end(&r->out);
    else
        tn_jw_array_end(&r->out);
    r->depth--;
    return 0;
}

static size_t digits(const struct reader *r, size_t from)
{
    size_t n = 0;
    while (from + n < r->len && r->text[from + n] >= '0' && r->text[from + n] <= '9')
        n++;
    return n;
}

/* Python writes "1." and ".5" where JSON wants digits on both sides, and "+1" where it wants none.
 */
static int read_number(struct reader *r)
{
    char number[80];
    size_t whole, fraction = 0, n = 0;
    bool negative = peek(r) == '-';

    if (negative || peek(r) == '+')
        r->at++;
    const char *start = r->text + r->at;
    whole = digits(r, r->at);
    r->at += whole;
    bool dot = peek(r) == '.';
    if (dot) {
        r->at++;
        fraction = digits(r, r->at);
        r->at += fraction;
    }
    if (whole + fraction == 0 || whole + fraction > 40)
        return fail_at(r, "a number of 1 to 40 digits");
    if (whole > 1 && start[0] == '0')
        return fail_at(r, "a number without leading zeros");
    n = (size_t)snprintf(number, sizeof number, "%s%.*s%s%.*s", negative ? "-" : "",
                         whole ? (int)whole : 1, whole ? start : "0", dot ? "." : "",
                         dot ? (fraction ? (int)fraction : 1) : 0,
                         fraction ? r->text + r->at - fraction : "0");
    if ((peek(r) | 0x20) == 'e') {
        char next = r->at + 1 < r->len ? r->text[r->at + 1] : '\0';
        size_t sign = next == '+' || next == '-' ? 1 : 0;
        size_t power = digits(r, r->at + 1 + sign);
        if (power == 0 || power > 4)
            return fail_at(r, "an exponent of 1 to 4 digits");
        n += (size_t)snprintf(number + n, sizeof number - n, "%.*s", (int)(1 + sign + power),
                              r->text + r->at);
        r->at += 1 + sign + power;
    }
    tn_jw_raw(&r->out, number, n);
    return 0;
}

static bool is_word_byte(int c)
{
    return c == '_' || c >= 0x80 || (c >= '0' && c <= '9') ||
           ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static int read_word(struct reader *r)
{
    static const struct {
        const char *python, *json;
    } words[] = {
        {"None", "null"}, {"null", "null"},   {"True", "true"},
        {"true", "true"}, {"False", "false"}, {"false", "false"},
    };
    size_t n = 0;

    while (r->at + n < r->len && is_word_byte((unsigned char)r->text[r->at + n]))
        n++;
    for (size_t i = 0; i < TN_COUNT(words); i++) {
        if (n != strlen(words[i].python) || memcmp(r->text + r->at, words[i].python, n) != 0)
            continue;
        r->at += n;
        tn_jw_raw(&r->out, words[i].json, strlen(words[i].json));
        return 0;
    }
    return fail_at(r, "a literal");
}

static int read_value(struct reader *r)
{
    int c = peek_after_space(r);

    if (string_prefix(r) >= 0)
        return read_string(r);
    switch (c) {
    case '{':
        return read_collection(r, '}');
    case '[':
        return read_collection(r, ']');
    case '(':
        return read_collection(r, ')');
    default:
        if (c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9'))
            return read_number(r);
        return read_word(r);
    }
}

/* Reads a value at *at, and to the end unless loose. */
static int read_literal(const char *text, size_t len, size_t *at, bool loose, struct tn_json **tree,
                        struct tn_error *err)
{
    size_t left = len - *at;
    /* Six bytes for one is the worst the JSON writer does. */
    tn_autobuf struct tn_buf json = TN_BUF_INIT(left > SIZE_MAX / 8 ? SIZE_MAX : left * 6 + 64);
    struct reader r = {
        .text = text,
        .at = *at,
        .len = len,
        .loose = loose,
        .out = tn_jw(&json),
        .string = TN_BUF_INIT(left * 3 + 64),
        .err = err,
    };
    int result = read_value(&r);

    *tree = NULL;
    *at = r.at;
    if (result == 0 && !loose && peek_after_space(&r) >= 0)
        result = fail_at(&r, "the end");
    if (result == 0 && (!tn_buf_ok(&json) || !tn_buf_ok(&r.string)))
        result = tn_fail(err, TN_E_TOO_LARGE, "Python literal: out of memory");
    if (result == 0)
        result = tn_json_parse(json.data, json.len, tree, err);
    tn_buf_done(&r.string);
    return result;
}

int tn_py_literal(const char *text, size_t len, struct tn_json **tree, struct tn_error *err)
{
    size_t at = 0;
    return read_literal(text, len, &at, false, tree, err);
}

int tn_py_literal_at(const char *text, size_t len, size_t *at, struct tn_json **tree,
                     struct tn_error *err)
{
    return read_literal(text, len, at, true, tree, err);
}

/* json-c holds the tree; the reader is ours.
 *
 * json-c's own tokener, even in strict mode, accepts NaN, "1." and raw control bytes in strings,
 * saturates large integers and cuts member names at a NUL, and it looks at one byte at a time.
 * The grammar of JSON is small: reading it here gives exact rules, positions in messages, and
 * strings copied in runs. */
#include "base/json.h"

#include <json-c/json.h>
#include <limits.h>

#include "base/hex.h"
#include "base/json-scan.h"
#include "base/utf8.h"

#define DEPTH_MAX 64

/* What json-c allocates for a value besides its text: "{}" grows 260 times.  A short text must not
 * be able to exhaust the memory. */
#define OBJECT_BYTES 800
#define ARRAY_BYTES 160
#define SCALAR_BYTES 64
#define TREE_BYTES_MAX ((size_t)256 << 20)
#define HELD_FREE ((size_t)64 << 10) /* of a tree, not taken from its purse */
#define HELD_STEP ((size_t)64 << 10)

struct reader {
    const char *text;
    size_t at, len;
    int depth;
    size_t weight; /* of the tree so far, in bytes */
    struct tn_purse *purse;
    size_t held;           /* taken from it */
    struct tn_buf scratch; /* the string or number being decoded */
    struct tn_error *err;
};

/* json-c has no const accessors and struct tn_json is never defined: a tree IS a json_object. */
static struct json_object *raw(const struct tn_json *v)
{
    return (struct json_object *)(uintptr_t)v;
}

static int read_value(struct reader *r, struct json_object **out);

static int fail_at(struct reader *r, const char *expected)
{
    if (r->at >= r->len)
        return tn_fail(r->err, TN_E_INVALID, "JSON: expected %s at byte %zu, found the end",
                       expected, r->at);
    unsigned char c = (unsigned char)r->text[r->at];
    if (c > 0x20 && c < 0x7f)
        return tn_fail(r->err, TN_E_INVALID, "JSON: expected %s at byte %zu, found '%c'", expected,
                       r->at, c);
    return tn_fail(r->err, TN_E_INVALID, "JSON: expected %s at byte %zu, found byte 0x%02x",
                   expected, r->at, c);
}

static int no_memory(struct reader *r)
{
    return tn_fail(r->err, TN_E_TOO_LARGE, "JSON: out of memory at byte %zu", r->at);
}

/* The strings of a tree are at most as long as its text. */
static int hold(struct reader *r)
{
    size_t due = r->len + r->weight;

    if (due <= HELD_FREE + r->held)
        return 0;
    size_t step = due - HELD_FREE - r->held + HELD_STEP;
    if (!tn_purse_take(r->purse, step))
        return tn_fail(r->err, TN_E_BUSY,
                       "JSON: there is no memory for %zu bytes just now: try again later", r->len);
    r->held += step;
    return 0;
}

static int weigh(struct reader *r, size_t bytes)
{
    r->weight += bytes;
    if (r->weight <= TREE_BYTES_MAX)
        return hold(r);
    return tn_fail(r->err, TN_E_TOO_LARGE,
                   "JSON: too many values: their tree passes %zu MB at byte %zu",
                   TREE_BYTES_MAX >> 20, r->at);
}

static int peek(const struct reader *r)
{
    return r->at < r->len ? (unsigned char)r->text[r->at] : -1;
}

static int peek_after_space(struct reader *r)
{
    int c;
    while ((c = peek(r)) == ' ' || c == '\n' || c == '\r' || c == '\t')
        r->at++;
    return c;
}

static bool accept(struct reader *r, char c)
{
    if (peek(r) != (unsigned char)c)
        return false;
    r->at++;
    return true;
}

/* Four hex digits at `from`, or -1. */
static int32_t hex4(const struct reader *r, size_t from)
{
    int32_t value = 0;
    for (size_t i = from; i < from + 4; i++) {
        int digit = i < r->len ? tn_hex_digit((unsigned char)r->text[i]) : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* The digits after \u; a surrogate without its partner becomes U+FFFD. */
static int read_unicode_escape(struct reader *r)
{
    int32_t unit = hex4(r, r->at);
    if (unit < 0)
        return fail_at(r, "four hexadecimal digits after \\u");
    r->at += 4;
    uint32_t cp = (uint32_t)unit;
    if (cp >= 0xd800 && cp <= 0xdfff) {
        int32_t low = -1;
        if (cp < 0xdc00 && r->len - r->at >= 6 && memcmp(r->text + r->at, "\\u", 2) == 0)
            low = hex4(r, r->at + 2);
        if (low >= 0xdc00 && low <= 0xdfff) {
            cp = 0x10000 + ((cp - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
            r->at += 6;
        } else {
            cp = 0xfffd;
        }
    }
    char bytes[4];
    return tn_buf_add(&r->scratch, bytes, tn_utf8_encode(cp, bytes)) < 0 ? no_memory(r) : 0;
}

static int read_escape(struct reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(r);
    if (c == 'u') {
        r->at++;
        return read_unicode_escape(r);
    }
    const char *which = c > 0 ? strchr(from, c) : NULL;
    if (!which)
        return fail_at(r, "an escape character");
    r->at++;
    return tn_buf_putc(&r->scratch, to[which - from]) < 0 ? no_memory(r) : 0;
}

/* Reads a string after its opening quote.  *s points into the text when there was no escape, into
 * the scratch buffer otherwise. */
static int read_string(struct reader *r, const char **s, size_t *n)
{
    bool escaped = false;
    size_t run = r->at;

    tn_buf_reset(&r->scratch);
    for (;;) {
        r->at += tn_json_plain_run(r->text + r->at, r->len - r->at);
        int c = peek(r);
        if (c >= 0x80) {
            uint32_t cp;
            size_t width = tn_utf8_decode(r->text + r->at, r->len - r->at, &cp);
            if (width == 0)
                return fail_at(r, "valid UTF-8");
            r->at += width;
            continue;
        }
        if (c != '"' && c != '\\')
            return fail_at(r, c < 0 ? "'\"'" : "no control byte in a string");
        bool last = c == '"';
        if (last && !escaped) {
            *s = r->text + run;
            *n = r->at++ - run;
            return 0;
        }
        if (tn_buf_add(&r->scratch, r->text + run, r->at - run) < 0)
            return no_memory(r);
        r->at++;
        if (last) {
            *s = tn_buf_str(&r->scratch);
            *n = r->scratch.len;
            return 0;
        }
        escaped = true;
        if (read_escape(r) < 0)
            return -1;
        run = r->at;
    }
}

static size_t skip_digits(struct reader *r)
{
    size_t start = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at - start;
}

/* The integer in text[0..n), or false when it is beyond int64. */
static bool to_int64(const char *text, size_t n, int64_t *out)
{
    bool negative = text[0] == '-';
    int64_t value = 0;

    for (size_t i = negative; i < n; i++) {
        int digit = text[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

static int read_number(struct reader *r, struct json_object **out)
{
    size_t start = r->at;
    bool real = false;

    accept(r, '-');
    if (!accept(r, '0') && skip_digits(r) == 0)
        return fail_at(r, "a digit");
    if (accept(r, '.')) {
        real = true;
        if (skip_digits(r) == 0)
            return fail_at(r, "a digit after the decimal point");
    }
    if (accept(r, 'e') || accept(r, 'E')) {
        real = true;
        if (!accept(r, '+'))
            accept(r, '-');
        if (skip_digits(r) == 0)
            return fail_at(r, "a digit in the exponent");
    }
    int64_t integer;
    if (!real && to_int64(r->text + start, r->at - start, &integer)) {
        *out = json_object_new_int64(integer);
    } else {
        tn_buf_reset(&r->scratch);
        if (tn_buf_add(&r->scratch, r->text + start, r->at - start) < 0)
            return no_memory(r);
        *out = json_object_new_double(tn_strtod(tn_buf_str(&r->scratch)));
    }
    return *out ? 0 : no_memory(r);
}

static int read_members(struct reader *r, struct json_object *object)
{
    if (peek_after_space(r) == '}') {
        r->at++;
        return 0;
    }
    for (;;) {
        const char *s;
        size_t n;
        peek_after_space(r);
        if (!accept(r, '"'))
            return fail_at(r, "a member name");
        if (read_string(r, &s, &n) < 0)
            return -1;
        if (memchr(s, '\0', n))
            return tn_fail(r->err, TN_E_INVALID, "JSON: NUL in the member name before byte %zu",
                           r->at);
        tn_autofree char *key = strndup(s, n);
        if (!key)
            return no_memory(r);
        peek_after_space(r);
        if (!accept(r, ':'))
            return fail_at(r, "':'");
        struct json_object *value = NULL;
        if (read_value(r, &value) < 0)
            return -1;
        if (json_object_object_add(object, key, value) < 0) {
            json_object_put(value);
            return no_memory(r);
        }
        peek_after_space(r);
        if (accept(r, '}'))
            return 0;
        if (!accept(r, ','))
            return fail_at(r, "',' or '}'");
    }
}

static int read_elements(struct reader *r, struct json_object *array)
{
    if (peek_after_space(r) == ']') {
        r->at++;
        return 0;
    }
    for (;;) {
        struct json_object *value = NULL;
        if (read_value(r, &value) < 0)
            return -1;
        if (json_object_array_add(array, value) < 0) {
            json_object_put(value);
            return no_memory(r);
        }
        peek_after_space(r);
        if (accept(r, ']'))
            return 0;
        if (!accept(r, ','))
            return fail_at(r, "',' or ']'");
    }
}

static int read_container(struct reader *r, bool object, struct json_object **out)
{
    if (++r->depth > DEPTH_MAX)
        return tn_fail(r->err, TN_E_INVALID, "JSON: more than %d levels deep at byte %zu",
                       DEPTH_MAX, r->at);
    if (weigh(r, object ? OBJECT_BYTES : ARRAY_BYTES) < 0)
        return -1;
    r->at++;
    struct json_object *made = object ? json_object_new_object() : json_object_new_array_ext(4);
    if (!made)
        return no_memory(r);
    if ((object ? read_members(r, made) : read_elements(r, made)) < 0) {
        json_object_put(made);
        return -1;
    }
    r->depth--;
    *out = made;
    return 0;
}

static int read_literal(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    if (r->len - r->at < n || memcmp(r->text + r->at, word, n) != 0)
        return fail_at(r, "a value");
    r->at += n;
    return 0;
}

/* *out stays NULL for null, as json-c has it. */
static int read_value(struct reader *r, struct json_object **out)
{
    const char *s;
    size_t n;
    int c = peek_after_space(r);

    if (weigh(r, SCALAR_BYTES) < 0)
        return -1;
    switch (c) {
    case '{':
    case '[':
        return read_container(r, c == '{', out);
    case '"':
        r->at++;
        if (read_string(r, &s, &n) < 0)
            return -1;
        *out = json_object_new_string_len(s, (int)n);
        return *out ? 0 : no_memory(r);
    case 'n':
        return read_literal(r, "null");
    case 't':
    case 'f':
        if (read_literal(r, c == 't' ? "true" : "false") < 0)
            return -1;
        *out = json_object_new_boolean(c == 't');
        return *out ? 0 : no_memory(r);
    default:
        if (c != '-' && (c < '0' || c > '9'))
            return fail_at(r, "a value");
        return read_number(r, out);
    }
}

int tn_json_parse(const char *text, size_t len, struct tn_json **tree, struct tn_error *err)
{
    size_t held;

    return tn_json_parse_held(text, len, NULL, &held, tree, err);
}

int tn_json_parse_held(const char *text, size_t len, struct tn_purse *purse, size_t *held,
                       struct tn_json **tree, struct tn_error *err)
{
    *tree = NULL;
    *held = 0;
    if (len > INT_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "JSON: %zu bytes, the most is %d", len, INT_MAX);
    struct reader r = {
        .text = text, .len = len, .scratch = TN_BUF_INIT(len), .purse = purse, .err = err};
    struct json_object *root = NULL;
    int result = read_value(&r, &root);
    if (result == 0 && peek_after_space(&r) >= 0)
        result = fail_at(&r, "nothing after the value");
    tn_buf_done(&r.scratch);
    if (result < 0) {
        json_object_put(root);
        tn_purse_give(purse, r.held);
    } else {
        *tree = (struct tn_json *)root;
        *held = r.held;
    }
    return result;
}

void tn_json_free(struct tn_json *tree)
{
    json_object_put(raw(tree));
}

struct tn_json *tn_json_ref(struct tn_json *tree)
{
    return (struct tn_json *)json_object_get(raw(tree));
}

struct tn_json *tn_json_copy(const struct tn_json *tree)
{
    struct json_object *copy = NULL;

    if (tree && json_object_deep_copy(raw(tree), &copy, NULL) != 0)
        abort(); /* only for want of memory */
    return (struct tn_json *)copy;
}

static const struct {
    enum tn_json_type type;
    const char *name;
} types[] = {
    [json_type_null] = {TN_JSON_NULL, "null"},
    [json_type_boolean] = {TN_JSON_BOOL, "boolean"},
    [json_type_double] = {TN_JSON_DOUBLE, "number"},
    [json_type_int] = {TN_JSON_INT, "integer"},
    [json_type_object] = {TN_JSON_OBJECT, "object"},
    [json_type_array] = {TN_JSON_ARRAY, "array"},
    [json_type_string] = {TN_JSON_STRING, "string"},
};

enum tn_json_type tn_json_type(const struct tn_json *v)
{
    return types[json_object_get_type(raw(v))].type;
}

const char *tn_json_type_name(const struct tn_json *v)
{
    return types[json_object_get_type(raw(v))].name;
}

static bool is(const struct tn_json *v, enum json_type type)
{
    return json_object_get_type(raw(v)) == type;
}

static bool lookup(const struct tn_json *v, const char *key, struct json_object **out)
{
    *out = NULL;
    return is(v, json_type_object) && json_object_object_get_ex(raw(v), key, out);
}

struct tn_json *tn_json_get(const struct tn_json *v, const char *key)
{
    struct json_object *member;
    lookup(v, key, &member);
    return (struct tn_json *)member;
}

bool tn_json_has(const struct tn_json *v, const char *key)
{
    struct json_object *member;
    return lookup(v, key, &member);
}

size_t tn_json_count(const struct tn_json *v)
{
    if (is(v, json_type_object))
        return (size_t)json_object_object_length(raw(v));
    return is(v, json_type_array) ? json_object_array_length(raw(v)) : 0;
}

struct tn_json *tn_json_at(const struct tn_json *v, size_t i)
{
    return is(v, json_type_array) ? (struct tn_json *)json_object_array_get_idx(raw(v), i) : NULL;
}

const char *tn_json_str(const struct tn_json *v, size_t *len)
{
    bool string = is(v, json_type_string);
    if (len)
        *len = string ? (size_t)json_object_get_string_len(raw(v)) : 0;
    return string ? json_object_get_string(raw(v)) : NULL;
}

const char *tn_json_get_str(const struct tn_json *v, const char *key, const char *fallback)
{
    const char *s = tn_json_str(tn_json_get(v, key), NULL);
    return s ? s : fallback;
}

bool tn_json_lists(const struct tn_json *list, const char *word)
{
    for (size_t i = 0, n = tn_json_count(list); i < n; i++) {
        const char *one = tn_json_str(tn_json_at(list, i), NULL);
        if (one && strcmp(one, word) == 0)
            return true;
    }
    return false;
}

bool tn_json_bool(const struct tn_json *v, bool fallback)
{
    return is(v, json_type_boolean) ? json_object_get_boolean(raw(v)) : fallback;
}

int64_t tn_json_int(const struct tn_json *v, int64_t fallback)
{
    return is(v, json_type_int) ? json_object_get_int64(raw(v)) : fallback;
}

double tn_json_double(const struct tn_json *v, double fallback)
{
    if (is(v, json_type_int))
        return (double)json_object_get_int64(raw(v));
    return is(v, json_type_double) ? json_object_get_double(raw(v)) : fallback;
}

int tn_json_each(const struct tn_json *v, tn_json_member_fn fn, void *ctx)
{
    if (!is(v, json_type_object))
        return 0;
    json_object_object_foreach(raw(v), key, value)
    {
        int result = fn(key, (struct tn_json *)value, ctx);
        if (result != 0)
            return result;
    }
    return 0;
}

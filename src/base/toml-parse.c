/* The structure of a document: strings, keys, tables, arrays. */
#include <stdarg.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/toml-tree.h"
#include "base/utf8.h"

struct parser {
    const char *at, *end;
    const char *line_start;
    int line;
    struct tn_toml *root;
    struct tn_toml *section; /* the table that key/value lines go to */
    struct tn_buf scratch;   /* the string being read */
    struct tn_error *err;
};

static struct tn_toml *parse_value(struct parser *p, int depth);

TN_PRINTF(3, 4)
static int fail_at(struct parser *p, const char *where, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t column = tn_utf8_length(p->line_start, (size_t)(where - p->line_start)) + 1;
    return tn_fail(p->err, TN_E_INVALID, "TOML: line %d, column %zu: %s", p->line, column, text);
}

static int expected(struct parser *p, const char *what)
{
    if (p->at == p->end)
        return fail_at(p, p->at, "expected %s, found the end of the file", what);
    unsigned char c = (unsigned char)*p->at;
    if (c == '\n' || c == '\r')
        return fail_at(p, p->at, "expected %s, found the end of the line", what);
    if (c < 0x20 || c == 0x7f)
        return fail_at(p, p->at, "expected %s, found control character 0x%02x", what, c);
    uint32_t cp;
    size_t n = tn_utf8_decode(p->at, (size_t)(p->end - p->at), &cp);
    return fail_at(p, p->at, "expected %s, found '%.*s'", what, (int)n, p->at);
}

static int peek(const struct parser *p)
{
    return p->at < p->end ? (unsigned char)*p->at : -1;
}

static bool accept(struct parser *p, char c)
{
    if (peek(p) != (unsigned char)c)
        return false;
    p->at++;
    return true;
}

static bool accept_newline(struct parser *p)
{
    size_t n = 1;
    if (peek(p) == '\r' && p->end - p->at > 1 && p->at[1] == '\n')
        n = 2;
    else if (peek(p) != '\n')
        return false;
    p->at += n;
    p->line++;
    p->line_start = p->at;
    return true;
}

static void skip_blanks(struct parser *p)
{
    while (peek(p) == ' ' || peek(p) == '\t')
        p->at++;
}

static bool is_control(int c)
{
    return (c >= 0 && c < 0x20 && c != '\t') || c == 0x7f;
}

/* A comment up to the end of its line, which stays; a control character stops it, and then the
 * caller. */
static void skip_comment(struct parser *p)
{
    if (!accept(p, '#'))
        return;
    while (p->at < p->end && !is_control(peek(p)))
        p->at++;
}

/* The rest of a line must be empty or a comment. */
static int end_line(struct parser *p)
{
    skip_blanks(p);
    skip_comment(p);
    if (p->at == p->end || accept_newline(p))
        return 0;
    return expected(p, "the end of the line");
}

/* Blanks, line ends and comments: what may stand between the elements of an array. */
static void skip_space(struct parser *p)
{
    do {
        skip_blanks(p);
        skip_comment(p);
    } while (accept_newline(p));
}

/* --- strings ------------------------------------------------------------------------------- */

static int read_unicode_escape(struct parser *p, int digits)
{
    uint32_t cp = 0;
    const char *start = p->at;

    for (int i = 0; i < digits; i++, p->at++) {
        int digit = tn_hex_digit(peek(p));
        if (digit < 0)
            return expected(p, "a hexadecimal digit");
        cp = cp << 4 | (uint32_t)digit;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
        return fail_at(p, start, "U+%04X is not a character", cp);
    char bytes[4];
    tn_buf_add(&p->scratch, bytes, tn_utf8_encode(cp, bytes));
    return 0;
}

/* A backslash that ends its line swallows all blanks and line ends up to the next character. */
static int skip_folded_lines(struct parser *p)
{
    skip_blanks(p);
    if (!accept_newline(p))
        return expected(p, "the end of the line after '\\'");
    do
        skip_blanks(p);
    while (accept_newline(p));
    return 0;
}

static int read_escape(struct parser *p, bool multiline)
{
    static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
    int c = peek(p);

    if (c == 'u' || c == 'U') {
        p->at++;
        return read_unicode_escape(p, c == 'u' ? 4 : 8);
    }
    if (multiline && (c == ' ' || c == '\t' || c == '\n' || c == '\r'))
        return skip_folded_lines(p);
    const char *which = c > 0 ? strchr(from, c) : NULL;
    if (!which)
        return expected(p, "an escape character after '\\'");
    p->at++;
    tn_buf_putc(&p->scratch, to[which - from]);
    return 0;
}

/* One or two quotes inside a multi-line string are text, also right before the closing three. */
static bool close_multiline(struct parser *p, char quote)
{
    int quotes = 0;
    while (quotes < 5 && accept(p, quote))
        quotes++;
    bool closed = quotes >= 3;
    for (int i = closed ? 3 : 0; i < quotes; i++)
        tn_buf_putc(&p->scratch, quote);
    return closed;
}

static bool at_three(const struct parser *p, char quote)
{
    return p->end - p->at >= 3 && p->at[0] == quote && p->at[1] == quote && p->at[2] == quote;
}

/* Reads the string at p->at, of any kind (but only one line when not multiline_allowed), into
 * scratch. */
static int read_string(struct parser *p, bool multiline_allowed)
{
    char quote = *p->at;
    bool multiline = multiline_allowed && at_three(p, quote);

    tn_buf_reset(&p->scratch);
    p->at += multiline ? 3 : 1;
    if (multiline)
        accept_newline(p);
    for (;;) {
        const char *run = p->at;
        while (p->at < p->end && *p->at != quote && *p->at != '\\' && !is_control(peek(p)))
            p->at++;
        tn_buf_add(&p->scratch, run, (size_t)(p->at - run));
        int c = peek(p);
        if (c == (unsigned char)quote) {
            if (!multiline) {
                p->at++;
                break;
            }
            if (close_multiline(p, quote))
                break;
        } else if (c == '\\' && quote == '\'') {
            tn_buf_putc(&p->scratch, *p->at++);
        } else if (c == '\\') {
            p->at++;
            if (read_escape(p, multiline) < 0)
                return -1;
        } else if (multiline && accept_newline(p)) {
            tn_buf_putc(&p->scratch, '\n');
        } else {
            return expected(p, quote == '"' ? "the closing '\"'" : "the closing \"'\"");
        }
    }
    if (!tn_buf_ok(&p->scratch))
        return tn_fail(p->err, TN_E_TOO_LARGE, "TOML: line %d: no memory for a string", p->line);
    return 0;
}

/* --- keys and tables ----------------------------------------------------------------------- */

static bool is_bare(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* One part of a key into scratch, and the blanks after it.  *more: a dot (eaten) and a part follow.
 */
static int read_key_part(struct parser *p, bool *more)
{
    int c = peek(p);

    if (c == '"' || c == '\'') {
        if (read_string(p, false) < 0)
            return -1;
    } else if (is_bare(c)) {
        const char *start = p->at;
        while (is_bare(peek(p)))
            p->at++;
        tn_buf_reset(&p->scratch);
        tn_buf_add(&p->scratch, start, (size_t)(p->at - start));
    } else {
        return expected(p, "a key");
    }
    skip_blanks(p);
    *more = accept(p, '.');
    if (*more)
        skip_blanks(p);
    return 0;
}

static struct tn_toml *find_part(struct parser *p, struct tn_toml *table)
{
    return toml_find(table, tn_buf_str(&p->scratch), p->scratch.len);
}

static int fail_key(struct parser *p, const char *where, const struct tn_toml *old, const char *why)
{
    return fail_at(p, where, "'%.60s' %s (line %d)", tn_buf_str(&p->scratch), why, old->line);
}

static int check_depth(struct parser *p, int depth)
{
    if (depth <= TN_TOML_DEPTH_MAX)
        return 0;
    return fail_at(p, p->at, "more than %d levels deep", TN_TOML_DEPTH_MAX);
}

/* A new child of the table under the key in scratch. */
static struct tn_toml *add_part(struct parser *p, struct tn_toml *table, enum tn_toml_type type,
                                enum toml_origin origin)
{
    if (check_depth(p, table->depth + 1) < 0)
        return NULL;
    struct tn_toml *child = toml_new(type, origin, p->line);
    toml_insert(table, tn_buf_str(&p->scratch), p->scratch.len, child);
    return child;
}

static struct tn_toml *add_element(struct parser *p, struct tn_toml *array)
{
    if (check_depth(p, array->depth + 1) < 0)
        return NULL;
    struct tn_toml *child = toml_new(TN_TOML_TABLE, TOML_HEADER, p->line);
    toml_append(array, child);
    return child;
}

/* A part before the last in a [header]: any table that is not complete, or the last element of an
 * array of tables. */
static struct tn_toml *enter_by_header(struct parser *p, struct tn_toml *table, const char *where)
{
    struct tn_toml *child = find_part(p, table);

    if (!child)
        return add_part(p, table, TN_TOML_TABLE, TOML_IMPLIED);
    if (child->type == TN_TOML_ARRAY && child->origin == TOML_HEADER)
        return child->array.items[child->array.count - 1];
    if (child->type == TN_TOML_TABLE && child->origin != TOML_VALUE)
        return child;
    fail_key(p, where, child, "is a value already and cannot be extended");
    return NULL;
}

/* A part before the last in a dotted key: never into a table that a header defined. */
static struct tn_toml *enter_by_key(struct parser *p, struct tn_toml *table, const char *where)
{
    struct tn_toml *child = find_part(p, table);

    if (!child)
        return add_part(p, table, TN_TOML_TABLE, TOML_DOTTED);
    if (child->type == TN_TOML_TABLE &&
        (child->origin == TOML_DOTTED || child->origin == TOML_IMPLIED)) {
        child->origin = TOML_DOTTED;
        return child;
    }
    fail_key(p, where, child, "is defined already and cannot be extended by a dotted key");
    return NULL;
}

static struct tn_toml *define_table(struct parser *p, struct tn_toml *parent, const char *where)
{
    struct tn_toml *child = find_part(p, parent);

    if (!child)
        return add_part(p, parent, TN_TOML_TABLE, TOML_HEADER);
    if (child->type == TN_TOML_TABLE && child->origin == TOML_IMPLIED) {
        child->origin = TOML_HEADER;
        child->line = p->line;
        return child;
    }
    fail_key(p, where, child, "is defined already");
    return NULL;
}

static struct tn_toml *define_element(struct parser *p, struct tn_toml *parent, const char *where)
{
    struct tn_toml *child = find_part(p, parent);

    if (!child)
        child = add_part(p, parent, TN_TOML_ARRAY, TOML_HEADER);
    if (!child)
        return NULL;
    if (child->type == TN_TOML_ARRAY && child->origin == TOML_HEADER)
        return add_element(p, child);
    fail_key(p, where, child, "is defined already and is no array of tables");
    return NULL;
}

/* [a.b] or [[a.b]]: which table is the section from here on. */
static int parse_header(struct parser *p)
{
    struct tn_toml *table = p->root;
    bool more = true;

    p->at++;
    bool element = accept(p, '[');
    skip_blanks(p);
    while (more) {
        const char *where = p->at;
        if (read_key_part(p, &more) < 0)
            return -1;
        if (more)
            table = enter_by_header(p, table, where);
        else if (element)
            table = define_element(p, table, where);
        else
            table = define_table(p, table, where);
        if (!table)
            return -1;
    }
    if (!accept(p, ']') || (element && !accept(p, ']')))
        return expected(p, element ? "']]'" : "']'");
    p->section = table;
    return 0;
}

/* key = value, into the table. */
static int parse_pair(struct parser *p, struct tn_toml *table)
{
    bool more = true;
    const char *where = p->at;

    for (;;) {
        if (read_key_part(p, &more) < 0)
            return -1;
        if (!more)
            break;
        table = enter_by_key(p, table, where);
        if (!table)
            return -1;
        where = p->at;
    }
    const struct tn_toml *old = find_part(p, table);
    if (old)
        return fail_key(p, where, old, "is defined already");
    size_t len = p->scratch.len;
    tn_autofree char *key = tn_buf_take(&p->scratch);
    if (!accept(p, '='))
        return expected(p, "'='");
    skip_blanks(p);
    struct tn_toml *value = parse_value(p, table->depth + 1);
    if (!value)
        return -1;
    toml_insert(table, key, len, value);
    return 0;
}

/* --- values -------------------------------------------------------------------------------- */

static int parse_elements(struct parser *p, struct tn_toml *array)
{
    p->at++;
    for (;;) {
        skip_space(p);
        if (accept(p, ']'))
            return 0;
        struct tn_toml *value = parse_value(p, array->depth + 1);
        if (!value)
            return -1;
        toml_append(array, value);
        skip_space(p);
        if (peek(p) != ']' && !accept(p, ','))
            return expected(p, "',' or ']'");
    }
}

static int parse_inline_pairs(struct parser *p, struct tn_toml *table)
{
    p->at++;
    skip_blanks(p);
    if (accept(p, '}'))
        return 0;
    for (;;) {
        if (parse_pair(p, table) < 0)
            return -1;
        skip_blanks(p);
        if (accept(p, '}'))
            return 0;
        if (!accept(p, ','))
            return expected(p, "',' or '}'");
        skip_blanks(p);
    }
}

static bool in_word(int c)
{
    return is_bare(c) || c == '+' || c == '.' || c == ':';
}

/* Everything that is not quoted or bracketed.  A date and a time may have one blank between them.
 */
static int parse_word(struct parser *p, struct tn_toml *v)
{
    const char *start = p->at;

    while (in_word(peek(p)))
        p->at++;
    if (p->at == start)
        return expected(p, "a value");
    if (p->at - start == 10 && start[4] == '-' && p->end - p->at > 1 && *p->at == ' ' &&
        p->at[1] >= '0' && p->at[1] <= '9') {
        p->at++;
        while (in_word(peek(p)))
            p->at++;
    }
    size_t n = (size_t)(p->at - start);
    const char *wrong = toml_scalar(start, n, v);
    if (wrong)
        return fail_at(p, start, "'%.*s' is %s", n > 60 ? 60 : (int)n, start, wrong);
    return 0;
}

static int parse_text(struct parser *p, struct tn_toml *v)
{
    if (read_string(p, true) < 0)
        return -1;
    v->type = TN_TOML_STRING;
    v->text.len = p->scratch.len;
    v->text.bytes = tn_buf_take(&p->scratch);
    return 0;
}

static struct tn_toml *parse_value(struct parser *p, int depth)
{
    int result;
    int c = peek(p);

    if (check_depth(p, depth) < 0)
        return NULL;
    struct tn_toml *v = toml_new(TN_TOML_BOOL, TOML_VALUE, p->line);
    v->depth = depth;
    if (c == '[') {
        v->type = TN_TOML_ARRAY;
        result = parse_elements(p, v);
    } else if (c == '{') {
        v->type = TN_TOML_TABLE;
        result = parse_inline_pairs(p, v);
    } else if (c == '"' || c == '\'') {
        result = parse_text(p, v);
    } else {
        result = parse_word(p, v);
    }
    if (result == 0)
        return v;
    tn_toml_free(v);
    return NULL;
}

/* --- the document -------------------------------------------------------------------------- */

static int parse_line(struct parser *p)
{
    skip_blanks(p);
    int c = peek(p);
    int result = 0;
    if (c == '[')
        result = parse_header(p);
    else if (c >= 0 && c != '#' && c != '\n' && c != '\r')
        result = parse_pair(p, p->section);
    return result < 0 ? -1 : end_line(p);
}

static int check_encoding(struct parser *p)
{
    const char *start = p->at;

    while (p->at < p->end) {
        uint32_t cp;
        size_t n = tn_utf8_decode(p->at, (size_t)(p->end - p->at), &cp);
        if (n == 0)
            return fail_at(p, p->at, "byte 0x%02x is not valid UTF-8", (unsigned char)*p->at);
        p->at += n;
        if (cp == '\n') {
            p->line++;
            p->line_start = p->at;
        }
    }
    p->at = p->line_start = start;
    p->line = 1;
    return 0;
}

struct tn_toml *tn_toml_parse(const char *text, size_t len, struct tn_error *err)
{
    static const char bom[] = "\xef\xbb\xbf";

    if (len > TN_TOML_BYTES_MAX) {
        tn_fail(err, TN_E_TOO_LARGE, "TOML: %zu bytes, the most is %zu", len, TN_TOML_BYTES_MAX);
        return NULL;
    }
    size_t skip = len >= 3 && memcmp(text, bom, 3) == 0 ? 3 : 0;
    struct parser p = {.at = text + skip,
                       .end = text + len,
                       .line_start = text + skip,
                       .line = 1,
                       .scratch = TN_BUF_INIT(TN_TOML_BYTES_MAX),
                       .err = err};
    p.root = p.section = toml_new(TN_TOML_TABLE, TOML_HEADER, 1);
    int result = check_encoding(&p);
    while (result == 0 && p.at < p.end)
        result = parse_line(&p);
    tn_buf_done(&p.scratch);
    if (result == 0)
        return p.root;
    tn_toml_free(p.root);
    return NULL;
}

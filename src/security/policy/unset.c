/* What a word with variables in it is where these are empty, or have the default that stands in
 * it: rm -rf ${X:-/} and rm -rf "$X"/ are both rm -rf / then. */
#include <ctype.h>

#include "security/policy/scene.h"

enum { NESTED = 8 }; /* defaults within defaults; deeper ones may be anything */

struct filling {
    struct tn_buf *out;
    bool given;   /* a default says something */
    bool emptied; /* something is left out */
    bool open;    /* that was the last of it */
};

static void fill(struct filling *f, const char *text, const char *end, unsigned depth);

static void put(struct filling *f, const char *text)
{
    tn_buf_puts(f->out, text);
    f->emptied = f->emptied || !*text;
    f->open = !*text;
}

/* Behind the sign that closes what is open at `at`. */
static const char *behind(const char *at, const char *end, char open, char close)
{
    int depth = 1;

    for (; at < end && depth; at++)
        depth += *at == close ? -1 : *at == open;
    return at;
}

static size_t name_length(const char *text, const char *end)
{
    size_t n = 0;

    if (text < end && isdigit((unsigned char)*text))
        return 1;
    while (text + n < end && (isalnum((unsigned char)text[n]) || text[n] == '_'))
        n++;
    return n || text == end ? n : strchr("@*#?$!-", *text) != NULL;
}

/* Variables that are never empty: a home, a directory, a number. */
static void put_variable(struct filling *f, const char *name, size_t n, bool sure)
{
    if (n == 4 && strncmp(name, "HOME", n) == 0)
        put(f, f->out->len ? "x" : "~");
    else if (n == 3 && strncmp(name, "PWD", n) == 0)
        put(f, f->out->len ? "x" : ".");
    else
        put(f, sure || (n == 1 && strchr("#?$!-", *name)) ? "x" : "");
    f->given = f->given || sure;
}

/* What stands between ${ and }. */
static void fill_braces(struct filling *f, const char *at, const char *end, unsigned depth)
{
    size_t n = name_length(at, end), start = f->out->len;
    const char *op = at + n;

    if (op < end && *op == '[') /* of an array */
        op = behind(op + 1, end, '[', ']');
    bool colon = op < end && *op == ':';
    char sign = op + colon < end ? op[colon] : '\0';
    if (op >= end || (sign == '?' && n)) {
        put_variable(f, at, n, op < end);
    } else if (n == 1 && (*at == '#' || *at == '!')) {
        put(f, *at == '#' ? "x" : ""); /* a length; a name that another variable has */
    } else if (sign && strchr("-=+", sign)) {
        if (depth < NESTED)
            fill(f, op + colon + 1, end, depth + 1);
        f->given = f->given || f->out->len > start;
        if (f->out->len == start)
            put(f, "");
    } else {
        put(f, "");
        if (colon) { /* some characters of it */
            tn_buf_putc(f->out, '/');
            f->open = false;
        }
    }
}

static void fill_command(struct filling *f, const char *at, const char *end)
{
    while (at < end && *at == ' ')
        at++;
    put(f, end - at >= 3 && strncmp(at, "pwd", 3) == 0 && at + 3 + strspn(at + 3, " ") >= end ? "."
           : at < end && *at == '('                                                           ? "x"
                                                                                              : "");
}

static void fill(struct filling *f, const char *text, const char *end, unsigned depth)
{
    while (text < end) {
        const char *inside = text + 2, *at = text;
        char next = text + 1 < end ? text[1] : '\0';
        if (*text == '`' || (*text == '$' && next == '(')) {
            inside -= *text == '`';
            text = *text == '`' ? memchr(inside, '`', (size_t)(end - inside))
                                : behind(inside, end, '(', ')') - 1;
            text = text && text > at ? text : end - 1;
            fill_command(f, inside, text);
            text++;
        } else if (*text == '$' && next == '{') {
            text = behind(inside, end, '{', '}');
            fill_braces(f, inside, text[-1] == '}' ? text - 1 : text, depth);
        } else if (*text == '$' && name_length(text + 1, end)) {
            text += 1 + name_length(text + 1, end);
            put_variable(f, at + 1, (size_t)(text - at) - 1, false);
        } else if (depth && strchr("\"'\\", *text)) { /* a default is as it is written */
            text++;
        } else {
            tn_buf_putc(f->out, *text++);
            f->open = false;
        }
    }
}

const char *word_filled(struct tn_arena *pool, const char *text, bool *unset)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct filling f = {.out = &out};

    fill(&f, text, text + strlen(text), 0);
    const char *filled = tn_buf_str(&out);
    size_t home = *filled == '~', dots = strspn(filled + home, "/.*");
    *unset = f.emptied;
    /* A variable whose name comes first may hold where, "$A/$B" both; what is known may not be all
     * that is left. */
    bool bare = !filled[home + dots] && (home || *filled == '/');
    bool first = strchr("$`", *text) && !home;
    bool told = f.emptied ? (first || f.open) ? bare && !(first && f.open) : true : f.given;
    return told && *filled ? tn_arena_copy(pool, filled, out.len) : NULL;
}

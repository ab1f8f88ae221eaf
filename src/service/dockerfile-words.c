#include "service/dockerfile-words.h"

#include <ctype.h>

#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define TOO_MUCH "dockerfile: ENV and ARG: there is too much of it"

const char *dockerfile_skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* One character of a value, for between double quotes; variables of it live, commands do not. */
static void put_inside(struct tn_buf *out, const char *at, bool live)
{
    bool variable = live && *at == '$' && (isalpha((unsigned char)at[1]) || strchr("_{", at[1]));

    if (strchr("\"`\\", *at) || (*at == '$' && !(variable && at[1])))
        tn_buf_putc(out, '\\');
    tn_buf_putc(out, *at);
}

size_t dockerfile_name_length(const char *at)
{
    size_t n = 0;

    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return isdigit((unsigned char)*at) ? 0 : n;
}

const char *dockerfile_value(const struct dockerfile_variables *vars, const char *name, size_t n)
{
    for (size_t i = vars->count; i-- > 0;)
        if (strlen(vars->items[i].name) == n && strncmp(vars->items[i].name, name, n) == 0)
            return vars->items[i].value;
    return NULL;
}

static const char *value_of(const struct dockerfile_variables *vars, const char *name, size_t n)
{
    const char *value = dockerfile_value(vars, name, n);

    return value ? value : n == 4 && strncmp(name, "PATH", n) == 0 ? USUAL_PATH : "";
}

/* One character of a value, or a variable of it; how many characters of the text that was. */
static size_t put_plain(const struct dockerfile_variables *vars, struct tn_buf *out, const char *at,
                        bool live)
{
    size_t brace = *at == '$' && at[1] == '{', n = dockerfile_name_length(at + 1 + brace);

    if (!live || *at != '$' || !n || (brace && at[2 + n] != '}')) {
        tn_buf_putc(out, *at);
        return 1;
    }
    tn_buf_puts(out, value_of(vars, at + 1 + brace, n));
    return 1 + n + 2 * brace;
}

const char *dockerfile_put_word(const struct dockerfile_variables *vars, struct tn_buf *out,
                                const char *at, bool whole)
{
    char quote = '\0';

    if (!vars)
        tn_buf_putc(out, '"');
    while (*at && (quote || whole || !strchr(" \t", *at))) {
        bool is_quote = quote ? *at == quote : !whole && strchr("\"'", *at);
        bool escaped = !is_quote && *at == '\\' && at[1] && quote != '\'';
        if (is_quote) {
            quote = quote ? '\0' : *at;
            at++;
            continue;
        }
        at += escaped;
        bool live = !escaped && quote != '\'';
        if (!vars)
            put_inside(out, at, live);
        at += vars ? put_plain(vars, out, at, live) : 1;
    }
    if (!vars)
        tn_buf_putc(out, '"');
    return dockerfile_skip_blanks(at);
}

bool dockerfile_next_line(const char **at, struct tn_buf *line)
{
    bool more = true;

    tn_buf_reset(line);
    while (**at && more) {
        const char *from = *at, *begin = dockerfile_skip_blanks(from);
        size_t n = strcspn(from, "\n"), left = n - (size_t)(begin - from);
        *at += n + ((*at)[n] == '\n');
        while (left && isspace((unsigned char)begin[left - 1]))
            left--;
        if (!left || *begin == '#')
            continue;
        more = begin[left - 1] == '\\';
        if (line->len) /* blanks before it are between words */
            left += (size_t)(begin - from), begin = from;
        tn_buf_add(line, begin, left - more);
    }
    return line->len > 0;
}

/* --- variables ------------------------------------------------------------------------------- */

void dockerfile_variables_done(struct dockerfile_variables *vars)
{
    for (size_t i = 0; i < vars->count; i++) {
        free(vars->items[i].name);
        free(vars->items[i].value);
    }
    free(vars->items);
    *vars = (struct dockerfile_variables){0};
}

int dockerfile_set(struct dockerfile_variables *vars, const char *name, size_t n, char *value,
                   bool env, struct tn_error *err)
{
    vars->items = tn_realloc(vars->items, (vars->count + 1) * sizeof *vars->items);
    vars->items[vars->count++] =
        (struct dockerfile_variable){.name = tn_strndup(name, n), .value = value, .env = env};
    vars->bytes += strlen(value);
    return vars->bytes <= DOCKERFILE_VALUES_MAX ? 0 : tn_fail(err, TN_E_INVALID, "%s", TOO_MUCH);
}

int dockerfile_set_word(struct dockerfile_variables *vars, const char *name, size_t n,
                        const char *at, bool whole, bool env, struct tn_error *err)
{
    tn_autobuf struct tn_buf value = TN_BUF_INIT(DOCKERFILE_VALUES_MAX);

    dockerfile_put_word(vars, &value, at, whole);
    return tn_buf_ok(&value) ? dockerfile_set(vars, name, n, tn_buf_take(&value), env, err)
                             : tn_fail(err, TN_E_INVALID, "%s", TOO_MUCH);
}

int dockerfile_add_env(struct dockerfile_variables *vars, const char *at, dockerfile_env_fn fn,
                       void *ctx, struct tn_error *err)
{
    do {
        tn_autobuf struct tn_buf word = TN_BUF_INIT(DOCKERFILE_VALUES_MAX);
        size_t n = dockerfile_name_length(at);
        bool whole = n && strchr(" \t", at[n]) && at[n];
        if (!n || (at[n] != '=' && !whole))
            return tn_fail(err, TN_E_INVALID, "dockerfile: ENV: expected NAME=value");
        const char *value = whole ? dockerfile_skip_blanks(at + n) : at + n + 1;
        if (dockerfile_set_word(vars, at, n, value, whole, true, err))
            return -1;
        at = dockerfile_put_word(NULL, &word, value, whole);
        const struct dockerfile_variable *v = &vars->items[vars->count - 1];
        fn(v->name, v->value, tn_buf_str(&word), ctx);
    } while (*at);
    return 0;
}

char *dockerfile_line(const struct dockerfile_variables *vars, const char *at)
{
    tn_autobuf struct tn_buf plain = TN_BUF_INIT(DOCKERFILE_VALUES_MAX);

    dockerfile_put_word(vars, &plain, at, !strchr("\"'", *at));
    return tn_buf_take(&plain);
}

void dockerfile_escape(struct tn_buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr(" \t\"'\\$", *text))
            tn_buf_putc(out, '\\');
        tn_buf_putc(out, *text);
    }
}

#include "cli/person.h"

#include <poll.h>

#include "base/clock.h"
#include "cli/clean.h"

enum { LINE_MAX_BYTES = 64 << 10 };

/* --- lines ------------------------------------------------------------------------------------ */

/* The next line of standard input, without its end: 1; 0 at its end or when it is to stop. */
static int read_line(struct tn_buf *line, int stop, int64_t deadline)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = stop, .events = POLLIN}};

    tn_buf_reset(line);
    for (char c;;) {
        int n = poll(fds, 2, tn_poll_ms(deadline));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || fds[1].revents || read(STDIN_FILENO, &c, 1) != 1)
            return 0;
        if (c == '\n')
            return 1;
        if (tn_buf_putc(line, c) < 0)
            return 0;
    }
}

/* Text of a server, which could be more than text to a terminal; in one line. */
static void say_plain(const char *text)
{
    tn_autofree char *line = tn_strdup(text);

    for (char *c = line; *c; c++)
        if (strchr("\t\r\n", *c))
            *c = ' ';
    print_clean_to(stderr, line);
}

/* --- logins ----------------------------------------------------------------------------------- */

int person_visit(const char *url, char **ended, int stop, int64_t deadline, void *ctx,
                 struct tn_error *err)
{
    const struct person *p = ctx;
    tn_autobuf struct tn_buf line = TN_BUF_INIT(LINE_MAX_BYTES);

    fputs("To log in, open this address in a browser:\n", stderr);
    say_plain(url);
    fputc('\n', stderr);
    if (!p->paste)
        return 0;
    fputs("Then give the address that the browser ended at:\n", stderr);
    if (!read_line(&line, stop, deadline))
        return tn_fail(err, TN_E_INVALID, "expected an address on standard input");
    *ended = tn_buf_take(&line);
    return 0;
}

/* --- questions -------------------------------------------------------------------------------- */

bool person_answers(const struct person *p)
{
    return p->defaults || p->answers->count || (isatty(STDIN_FILENO) && isatty(STDERR_FILENO));
}

static const char *given(const struct person *p, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < p->answers->count; i++)
        if (strncmp(p->answers->items[i], name, n) == 0 && p->answers->items[i][n] == '=')
            return p->answers->items[i] + n + 1;
    return NULL;
}

static bool is_text(const struct tn_json *schema)
{
    return strcmp(tn_json_get_str(schema, "type", "string"), "string") == 0;
}

/* What the schema wants; any for one that it does not know. */
static bool fits(const struct tn_json *schema, const struct tn_json *value)
{
    static const struct {
        const char *name;
        enum tn_json_type type, also;
    } types[] = {
        {"string", TN_JSON_STRING, TN_JSON_STRING}, {"integer", TN_JSON_INT, TN_JSON_INT},
        {"number", TN_JSON_DOUBLE, TN_JSON_INT},    {"boolean", TN_JSON_BOOL, TN_JSON_BOOL},
        {"array", TN_JSON_ARRAY, TN_JSON_ARRAY},
    };
    const char *type = tn_json_get_str(schema, "type", "");

    for (size_t i = 0; i < TN_COUNT(types); i++)
        if (strcmp(types[i].name, type) == 0)
            return tn_json_type(value) == types[i].type || tn_json_type(value) == types[i].also;
    return true;
}

/* The value that a text means there; -1 when it is none. */
static int put_value(struct tn_jw *w, const char *name, const struct tn_json *schema,
                     const char *text)
{
    tn_autojson struct tn_json *value = NULL;

    if (!is_text(schema) &&
        (tn_json_parse(text, strlen(text), &value, NULL) < 0 || !fits(schema, value)))
        return -1;
    tn_jw_key(w, name);
    if (is_text(schema))
        tn_jw_str(w, text);
    else
        tn_jw_tree(w, value);
    return 0;
}

struct form {
    const struct person *person;
    const struct tn_json *schema;
    struct tn_jw *w;
    struct tn_buf line;
    int stop;
    bool declined;
    struct tn_error *err;
};

static void prompt(const char *name, const struct tn_json *schema, const struct tn_json *fallback)
{
    const char *title = tn_json_get_str(schema, "description", NULL);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(LINE_MAX_BYTES);
    struct tn_jw w = tn_jw(&text);

    say_plain(name);
    if (title) {
        fputs(" (", stderr);
        say_plain(title);
        fputs(")", stderr);
    }
    if (fallback) {
        tn_jw_tree(&w, fallback);
        fputs(" [", stderr);
        say_plain(tn_buf_str(&text));
        fputs("]", stderr);
    }
    fputs(": ", stderr);
}

/* Until there is an answer that fits; 0 when there is one, or none is needed. */
static int ask_field(struct form *f, const char *name, const struct tn_json *schema,
                     const struct tn_json *fallback)
{
    for (;;) {
        prompt(name, schema, fallback);
        if (!read_line(&f->line, f->stop, TN_NEVER)) {
            fputc('\n', stderr);
            f->declined = true;
            return 1;
        }
        if (f->line.len && put_value(f->w, name, schema, tn_buf_str(&f->line)) == 0)
            return 0;
        if (!f->line.len && fallback) {
            tn_jw_key(f->w, name);
            tn_jw_tree(f->w, fallback);
            return 0;
        }
        if (!f->line.len && !tn_json_lists(tn_json_get(f->schema, "required"), name))
            return 0;
        fputs("expected ", stderr);
        say_plain(tn_json_get_str(schema, "type", "text"));
        fputc('\n', stderr);
    }
}

static int fill_field(const char *name, struct tn_json *schema, void *ctx)
{
    struct form *f = ctx;
    const char *text = given(f->person, name);
    const struct tn_json *fallback = tn_json_get(schema, "default");

    if (text) {
        if (put_value(f->w, name, schema, text) == 0)
            return 0;
        return tn_fail(f->err, TN_E_INVALID, "--answer %.60s: expected %.20s, found '%.60s'", name,
                       tn_json_get_str(schema, "type", "text"), text);
    }
    if (!f->person->defaults && !f->person->answers->count)
        return ask_field(f, name, schema, fallback);
    if (fallback) {
        tn_jw_key(f->w, name);
        tn_jw_tree(f->w, fallback);
    } else if (tn_json_lists(tn_json_get(f->schema, "required"), name)) {
        return tn_fail(f->err, TN_E_INVALID, "the server asks for '%.60s': give it by --answer",
                       name);
    }
    return 0;
}

int person_question(const char *server, const struct tn_json *params, int stop,
                    struct tn_jw *answer, void *ctx, struct tn_error *err)
{
    const struct tn_json *schema = tn_json_get(params, "requestedSchema");
    tn_autobuf struct tn_buf content = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&content);
    struct form f = {.person = ctx,
                     .schema = schema,
                     .w = &w,
                     .line = TN_BUF_INIT(LINE_MAX_BYTES),
                     .stop = stop,
                     .err = err};

    if (!f.person->cli->quiet && !f.person->cli->json) {
        say_plain(server);
        fputs(" asks: ", stderr);
        say_plain(tn_json_get_str(params, "message", ""));
        fputc('\n', stderr);
    }
    tn_jw_object(&w);
    int result = tn_json_each(tn_json_get(schema, "properties"), fill_field, &f);
    tn_jw_object_end(&w);
    tn_buf_done(&f.line);
    if (result < 0)
        return -1;
    tn_jw_object(answer);
    tn_jw_kstr(answer, "action", f.declined ? "decline" : "accept");
    if (!f.declined) {
        tn_jw_key(answer, "content");
        tn_jw_raw(answer, tn_buf_str(&content), content.len);
    }
    tn_jw_object_end(answer);
    return 0;
}

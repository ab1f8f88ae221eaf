/* The parser looks for calls: at each name it tries to read one, and goes on behind the name when
 * that is none. */
#include "hand/browser/lang.h"

#include <ctype.h>

#include "base/py-literal.h"
#include "hand/browser/lang-bind.h"

enum { PROGRAM_MAX = 4 << 20, CALLS_MAX = 200, ARGUMENTS_MAX = 16 };

struct parser {
    const char *text;
    size_t at, len;
};

/* A call as it is written. */
struct written {
    char *name;
    struct tn_lang_argument arguments[ARGUMENTS_MAX];
    size_t count;
};

static void written_done(struct written *w)
{
    free(w->name);
    for (size_t i = 0; i < w->count; i++) {
        free(w->arguments[i].name);
        tn_json_free(w->arguments[i].value);
    }
}

static int peek(const struct parser *p)
{
    return p->at < p->len ? (unsigned char)p->text[p->at] : -1;
}

static void skip_line(struct parser *p)
{
    while (p->at < p->len && p->text[p->at] != '\n')
        p->at++;
}

static int peek_after_space(struct parser *p)
{
    int c;
    while ((c = peek(p)) == '#' || (c >= 0 && isspace(c))) {
        if (c == '#')
            skip_line(p);
        else
            p->at++;
    }
    return c;
}

static bool accept(struct parser *p, char c)
{
    if (peek_after_space(p) != (unsigned char)c)
        return false;
    p->at++;
    return true;
}

static bool starts_name(int c)
{
    return c == '_' || c >= 0x80 || (c >= 0 && isalpha(c));
}

static char *read_name(struct parser *p)
{
    size_t from = p->at;

    while (starts_name(peek(p)) || (peek(p) >= 0 && isdigit(peek(p))))
        p->at++;
    return tn_strndup(p->text + from, p->at - from);
}

/* The name before a '='; NULL, and nothing is read, when there is none. */
static char *read_keyword(struct parser *p)
{
    size_t from = p->at;

    if (!starts_name(peek(p)))
        return NULL;
    tn_autofree char *name = read_name(p);
    if (accept(p, '=') && peek(p) != '=')
        return TN_TAKE_PTR(name);
    p->at = from;
    return NULL;
}

static bool read_argument(struct parser *p, struct written *w)
{
    tn_autofree char *name = read_keyword(p);

    if (w->count == ARGUMENTS_MAX || (!name && w->count && w->arguments[w->count - 1].name))
        return false;
    struct tn_lang_argument *argument = &w->arguments[w->count];
    if (tn_py_literal_at(p->text, p->len, &p->at, &argument->value, NULL) < 0)
        return false;
    argument->name = TN_TAKE_PTR(name);
    w->count++;
    return true;
}

/* Reads a call, whose name starts here.  When it is none, only the name is read. */
static bool read_call(struct parser *p, struct written *w)
{
    bool comma = true;

    *w = (struct written){.name = read_name(p)};
    size_t behind = p->at;
    if (accept(p, '(')) {
        for (;;) {
            if (accept(p, ')'))
                return true;
            if (!comma || !read_argument(p, w))
                break;
            comma = accept(p, ',');
        }
    }
    p->at = behind;
    return false;
}

static int find_function(const char *name)
{
    for (int i = 0; i < TN_DO_COUNT; i++)
        if (strcmp(tn_browser_signatures[i].name, name) == 0)
            return i;
    return -1;
}

static int add_call(struct tn_browser_program *program, struct written *w, struct tn_error *err)
{
    int function = find_function(w->name);

    if (function < 0)
        return tn_fail(err, TN_E_INVALID, "NameError: Invalid action type '%.200s'.", w->name);
    if (program->count == CALLS_MAX)
        return tn_fail(err, TN_E_INVALID, "ValueError: Received more than %d actions.", CALLS_MAX);
    program->calls = tn_realloc(program->calls, (program->count + 1) * sizeof program->calls[0]);
    struct tn_browser_call *call = &program->calls[program->count++];
    *call = (struct tn_browser_call){.function = (enum tn_browser_function)function};
    tn_lang_bind(call, w->arguments, w->count);
    return 0;
}

static int read_program(struct parser *p, struct tn_browser_program *program, struct tn_error *err)
{
    int c;

    while ((c = peek_after_space(p)) >= 0) {
        struct written w;
        if (!starts_name(c)) {
            p->at++;
            continue;
        }
        int result = read_call(p, &w) ? add_call(program, &w, err) : 0;
        written_done(&w);
        if (result < 0)
            return -1;
    }
    if (!program->count)
        return tn_fail(err, TN_E_INVALID, "ValueError: Received an empty action.");
    return 0;
}

int tn_browser_parse(const char *text, size_t len, struct tn_browser_program *program,
                     struct tn_error *err)
{
    struct parser p = {.text = text, .len = len};

    *program = (struct tn_browser_program){0};
    if (len > PROGRAM_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "ValueError: Received an action of more than %d MB.",
                       PROGRAM_MAX >> 20);
    if (read_program(&p, program, err) == 0)
        return 0;
    tn_browser_program_done(program);
    return -1;
}

void tn_browser_program_done(struct tn_browser_program *program)
{
    for (size_t i = 0; i < program->count; i++) {
        struct tn_browser_call *call = &program->calls[i];
        for (size_t k = 0; k < TN_BROWSER_PARAMETERS_MAX; k++)
            tn_json_free(call->arguments[k]);
        free(call->error);
    }
    free(program->calls);
    *program = (struct tn_browser_program){0};
}

size_t tn_bid_frame_end(const char *bid, size_t from)
{
    size_t at = from;

    if (bid[at] < 'a' || bid[at] > 'z')
        return from;
    do
        at++;
    while (bid[at] >= 'A' && bid[at] <= 'Z');
    return at;
}

#include "security/policy/cases.h"

#include <ctype.h>

enum { EVENTS_MAX = 64 };

struct reader {
    const char *file;
    const char *at, *end;
    int line;
    char *cwd;                          /* NULL: not known */
    struct tn_json *events[EVENTS_MAX]; /* before the next case */
    size_t event_count;
    struct tn_error *err;
};

static int fail(const struct reader *r, const char *what)
{
    return tn_fail(r->err, TN_E_INVALID, "%s:%d: %s", r->file, r->line, what);
}

static void forget(struct reader *r)
{
    while (r->event_count)
        tn_json_free(r->events[--r->event_count]);
}

static void reader_done(struct reader *r)
{
    forget(r);
    free(r->cwd);
}

/* The next line, a copy; NULL at the end. */
static char *next_line(struct reader *r)
{
    const char *start = r->at, *stop;

    if (start == r->end)
        return NULL;
    stop = memchr(start, '\n', (size_t)(r->end - start));
    r->at = stop ? stop + 1 : r->end;
    r->line++;
    return tn_strndup(start, (size_t)((stop ? stop : r->end) - start));
}

/* --- actions ---------------------------------------------------------------------------------- */

/* The lines up to the word, when the text ends with <<WORD, which is cut off; else NULL. */
static char *read_body(struct reader *r, char *text)
{
    char *sign = strstr(text, "<<");
    tn_autobuf struct tn_buf body = TN_BUF_INIT(1 << 20);
    char *line;
    bool closed = false;

    if (!sign || !sign[2] || strspn(sign + 2, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(sign + 2))
        return NULL;
    while (!closed && (line = next_line(r))) {
        closed = strcmp(line, sign + 2) == 0;
        if (!closed)
            tn_buf_printf(&body, "%s\n", line);
        free(line);
    }
    if (!closed)
        return NULL;
    while (sign > text && sign[-1] == ' ')
        sign--;
    *sign = '\0';
    return tn_buf_take(&body);
}

static void set_text(struct tn_text *t, const char *body)
{
    t->data = tn_strdup(body ? body : "");
    t->len = strlen(t->data);
}

/* The rest behind the word, or NULL. */
static char *behind(char *text, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(text, word, n) != 0 || (text[n] && text[n] != ' '))
        return NULL;
    return text + n + strspn(text + n, " ");
}

static int make_tool(const struct reader *r, char *rest, const char *body, struct tn_action *a)
{
    size_t n = strcspn(rest, " ");
    const char *json = body ? body : rest + n;

    tn_action_init(a, TN_ACTION_CALL_TOOL_MCP);
    a->call_tool_mcp.name = tn_strndup(rest, n);
    while (isspace((unsigned char)*json))
        json++;
    if (*json && tn_json_parse(json, strlen(json), &a->call_tool_mcp.arguments, NULL))
        return fail(r, "tool: expected a JSON object behind the name");
    return 0;
}

static int make_action(struct reader *r, char *text, struct tn_action *a)
{
    /* only these have a text of several lines; a command has << of its own */
    static const char *const words[] = {"write", "edit", "ipython", "tool", "run", "input"};
    tn_autofree char *body = NULL;
    bool named = text[0] == '<';
    char *rest;

    for (size_t i = 0; i < TN_COUNT(words); i++)
        named |= behind(text, words[i]) != NULL;
    if (named)
        body = read_body(r, text);
    if ((rest = behind(text, "write"))) {
        tn_action_init(a, TN_ACTION_WRITE);
        a->write.path = tn_strdup(rest);
        set_text(&a->write.content, body);
    } else if ((rest = behind(text, "edit"))) {
        tn_action_init(a, TN_ACTION_EDIT);
        a->edit.path = tn_strdup(rest);
        free(a->edit.command);
        a->edit.command = tn_strdup("str_replace");
        set_text(&a->edit.new_str, body);
    } else if ((rest = behind(text, "read"))) {
        tn_action_init(a, TN_ACTION_READ);
        a->read.path = tn_strdup(rest);
    } else if ((rest = behind(text, "browse"))) {
        tn_action_init(a, TN_ACTION_BROWSE);
        a->browse.url = tn_strdup(rest);
    } else if ((rest = behind(text, "ipython"))) {
        tn_action_init(a, TN_ACTION_RUN_IPYTHON);
        a->run_ipython.code = tn_strdup(body ? body : rest);
    } else if ((rest = behind(text, "tool"))) {
        return make_tool(r, rest, body, a);
    } else {
        rest = behind(text, "input");
        tn_action_init(a, TN_ACTION_RUN);
        a->run.is_input = rest != NULL;
        rest = rest ? rest : behind(text, "run");
        a->run.command = tn_strdup(body ? body : rest ? rest : text);
    }
    return 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

static int remember(struct reader *r, const struct tn_buf *json)
{
    if (r->event_count == EVENTS_MAX)
        return fail(r, "too much happened before");
    return tn_json_parse(tn_buf_str(json), json->len, &r->events[r->event_count++], r->err);
}

static int read_before(struct reader *r, char *text)
{
    tn_autoaction struct tn_action a = {.type = TN_ACTION_NULL};
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4 << 20);
    struct tn_jw w = tn_jw(&json);

    if (make_action(r, text, &a))
        return -1;
    tn_action_to_json(&a, &w);
    return remember(r, &json);
}

static int read_output(struct reader *r, const char *text)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4 << 20);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "observation", "run");
    tn_jw_kstr(&w, "content", text);
    tn_jw_object_end(&w);
    return remember(r, &json);
}

/* "deny network": the decision, and the rule in *rule. */
static bool read_want(const char *text, struct tn_policy_case *c)
{
    static const char *const words[] = {"allow", "ask", "deny"};
    size_t n = strcspn(text, " ");

    for (size_t i = 0; i < TN_COUNT(words); i++) {
        if (strlen(words[i]) == n && strncmp(words[i], text, n) == 0) {
            c->want = (enum tn_decision)i;
            snprintf(c->rule, sizeof c->rule, "%s", text + n + (text[n] == ' '));
            return true;
        }
    }
    return false;
}

static int read_case(struct reader *r, const char *want, char *text, tn_policy_case_fn fn,
                     void *ctx)
{
    tn_autoaction struct tn_action a = {.type = TN_ACTION_NULL};
    tn_autofree char *title = tn_strdup(text);
    struct tn_history history = {r->events, r->event_count};
    struct tn_policy_case c = {.line = r->line, .title = title};
    int got;

    if (!read_want(want, &c))
        return fail(r, "expected allow:, ask:, deny:, before:, output: or cwd");
    if (!*text)
        return fail(r, "expected an action behind the colon");
    if (make_action(r, text, &a))
        return -1;
    c.given = (struct tn_case){.action = &a, .cwd = r->cwd, .history = &history};
    got = fn(&c, ctx, r->err);
    forget(r);
    return got;
}

static int read_line(struct reader *r, char *line, tn_policy_case_fn fn, void *ctx)
{
    char *colon = strchr(line, ':'), *text;

    if (!*line || *line == '#')
        return 0;
    if ((text = behind(line, "cwd"))) {
        free(r->cwd);
        r->cwd = strcmp(text, "-") == 0 ? NULL : tn_strdup(text);
        return 0;
    }
    if (!colon)
        return fail(r, "expected allow:, ask:, deny:, before:, output: or cwd");
    *colon = '\0';
    text = colon + 1 + strspn(colon + 1, " ");
    if (strcmp(line, "before") == 0)
        return read_before(r, text);
    if (strcmp(line, "output") == 0)
        return read_output(r, text);
    return read_case(r, line, text, fn, ctx);
}

int tn_policy_cases(const char *file, const char *text, size_t n, tn_policy_case_fn fn, void *ctx,
                    struct tn_error *err)
{
    TN_CLEANUP(reader_done)
    struct reader r = {
        .file = file, .at = text, .end = text + n, .err = err, .cwd = tn_strdup("/workspace")};

    if (memchr(text, '\0', n))
        return tn_fail(err, TN_E_INVALID, "%s: there is a NUL byte in it", file);
    for (;;) {
        tn_autofree char *line = next_line(&r);
        if (!line)
            return 0;
        if (read_line(&r, line, fn, ctx))
            return -1;
    }
}

bool tn_policy_case_holds(const struct tn_policy_case *c, const struct tn_verdict *v,
                          enum tn_decision *got)
{
    size_t n = strlen(c->rule);
    bool named = n == 0;

    *got = TN_ALLOW;
    for (size_t i = 0; i < v->count; i++) {
        const struct tn_finding *f = &v->findings[i];
        enum tn_decision d = f->risk == TN_RISK_HIGH  ? TN_BLOCK
                             : f->risk == TN_RISK_LOW ? TN_ALLOW
                                                      : TN_ASK;
        *got = d > *got ? d : *got;
        named |= strncmp(f->rule, c->rule, n) == 0 && (!f->rule[n] || f->rule[n] == '-');
    }
    return *got == c->want && named;
}

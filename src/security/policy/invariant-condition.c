#include "security/policy/invariant.h"

/* Functions by the detectors that stand for them. */
static const struct wanted secrets_wanted[] = {{&detect_secrets, NULL}};
static const struct wanted injection_wanted[] = {{&detect_injection, NULL}};
static const struct wanted bash_wanted[] = {{&detect_dangerous, NULL},
                                            {&detect_exfiltration, NULL},
                                            {&detect_supply_chain, NULL},
                                            {&detect_persistence, NULL}};
static const struct wanted python_wanted[] = {{&detect_python, NULL},
                                              {&detect_dangerous, NULL},
                                              {&detect_exfiltration, NULL},
                                              {&detect_supply_chain, NULL}};

static const struct function {
    const char *name;
    const char *language; /* what `lang` must be; NULL: it takes none */
    const struct wanted *wanted;
    size_t count;
} functions[] = {
    {"secrets", NULL, secrets_wanted, TN_COUNT(secrets_wanted)},
    {"prompt_injection", NULL, injection_wanted, TN_COUNT(injection_wanted)},
    {"semgrep", "bash", bash_wanted, TN_COUNT(bash_wanted)},
    {"semgrep", "python", python_wanted, TN_COUNT(python_wanted)},
};

/* Tools under the names that hosts have given them. */
static const struct {
    const char *tool;
    enum tn_action_type type;
} tools[] = {
    {"cmd_run", TN_ACTION_RUN},
    {"execute_bash", TN_ACTION_RUN},
    {"ipython_run_cell", TN_ACTION_RUN_IPYTHON},
    {"execute_ipython_cell", TN_ACTION_RUN_IPYTHON},
    {"str_replace_editor", TN_ACTION_EDIT},
    {"browser", TN_ACTION_BROWSE_INTERACTIVE},
};

struct test *invariant_test(struct invariant *r, enum test_kind kind)
{
    struct test *t = tn_arena_get(r->rules->pool, sizeof *t);

    t->kind = kind;
    return t;
}

/* --- values ----------------------------------------------------------------------------------- */

/* The condition speaks of this variable; -1 when it spoke of another one before. */
static int speak_of(struct invariant *r, int variable)
{
    if (r->used >= 0 && r->used != variable)
        return lexer_fail(&r->lex, "a condition speaks of one call, not of two");
    r->used = variable;
    return 0;
}

int invariant_variable(const struct invariant *r, const struct token *t)
{
    for (size_t i = 0; i < r->variable_count; i++) {
        if (token_is(t, r->variables[i].name))
            return (int)i;
    }
    return -1;
}

/* call.function.arguments.command */
static int read_path(struct invariant *r, struct value *v)
{
    tn_autobuf struct tn_buf path = TN_BUF_INIT(1 << 10);
    int variable = invariant_variable(r, &r->lex.token);
    static const char arguments[] = "function.arguments.";

    if (variable < 0)
        return lexer_fail(&r->lex, "'%.*s' is neither a call of this rule nor a known function",
                          (int)r->lex.token.len, r->lex.token.text);
    if (speak_of(r, variable) || lexer_next(&r->lex))
        return -1;
    while (lexer_at(&r->lex, ".")) {
        if (lexer_next(&r->lex))
            return -1;
        if (r->lex.token.kind != TOKEN_NAME)
            return lexer_fail(&r->lex, "expected a name behind '.'");
        tn_buf_printf(&path, "%s%.*s", path.len ? "." : "", (int)r->lex.token.len,
                      r->lex.token.text);
        if (lexer_next(&r->lex))
            return -1;
    }
    const char *field = tn_buf_str(&path);
    if (strncmp(field, arguments, sizeof arguments - 1) == 0)
        field += sizeof arguments - 1;
    else if (strcmp(field, "function.name") != 0 && strcmp(field, "content") != 0)
        return lexer_fail(&r->lex,
                          "expected .function.arguments.NAME, .function.name or .content, found "
                          "'.%.80s'",
                          field);
    *v = (struct value){.kind = VALUE_FIELD, .text = pool_strdup(r->rules->pool, field)};
    return 0;
}

static int read_list(struct invariant *r, struct value *v)
{
    *v = (struct value){.kind = VALUE_LIST};
    if (lexer_next(&r->lex))
        return -1;
    while (!lexer_at(&r->lex, "]")) {
        if (r->lex.token.kind != TOKEN_TEXT)
            return lexer_fail(&r->lex, "expected a text in the list");
        v->items = pool_grow(r->rules->pool, v->items, v->count, sizeof *v->items);
        v->items[v->count++] = token_text(&r->lex.token, r->rules->pool);
        if (lexer_next(&r->lex) || (!lexer_at(&r->lex, "]") && lexer_expect(&r->lex, ",")))
            return -1;
    }
    return lexer_next(&r->lex);
}

static int read_value(struct invariant *r, struct value *v)
{
    struct token t = r->lex.token;

    if (t.kind == TOKEN_NAME)
        return read_path(r, v);
    if (lexer_at(&r->lex, "["))
        return read_list(r, v);
    if (t.kind == TOKEN_TEXT)
        *v = (struct value){.kind = VALUE_TEXT, .text = token_text(&t, r->rules->pool)};
    else if (t.kind == TOKEN_NUMBER)
        *v = (struct value){.kind = VALUE_NUMBER, .number = strtoll(t.text, NULL, 10)};
    else
        return lexer_fail(&r->lex, "expected a text, a number, a list or a path such as "
                                   "call.function.arguments.command");
    return lexer_next(&r->lex);
}

/* --- conditions ------------------------------------------------------------------------------- */

/* f(path, lang="bash"), behind its name. */
static struct test *read_function(struct invariant *r, const struct token *name)
{
    struct test *t = invariant_test(r, TEST_DETECT);
    const char *language = NULL;
    bool imported = false;

    for (size_t i = 0; i < r->imported_count; i++)
        imported |= token_is(name, r->imported[i]);
    if (!imported) {
        lexer_fail(&r->lex, "'%.*s' is not imported", (int)name->len, name->text);
        return NULL;
    }
    t->has_value = true;
    if (lexer_expect(&r->lex, "(") || read_value(r, &t->left))
        return NULL;
    if (t->left.kind != VALUE_FIELD) {
        lexer_fail(&r->lex, "expected a path such as call.function.arguments.command");
        return NULL;
    }
    while (lexer_at(&r->lex, ",")) {
        if (lexer_next(&r->lex))
            return NULL;
        if (!lexer_at(&r->lex, "lang")) {
            lexer_fail(&r->lex, "expected lang=\"...\"");
            return NULL;
        }
        if (lexer_next(&r->lex) || lexer_expect(&r->lex, "="))
            return NULL;
        if (r->lex.token.kind == TOKEN_TEXT)
            language = token_text(&r->lex.token, r->rules->pool);
        if (!language) {
            lexer_fail(&r->lex, "lang: expected a text");
            return NULL;
        }
        if (lexer_next(&r->lex))
            return NULL;
    }
    for (size_t i = 0; i < TN_COUNT(functions); i++) {
        const struct function *f = &functions[i];
        if (token_is(name, f->name) && !f->language == !language &&
            (!language || strcmp(f->language, language) == 0)) {
            t->wanted = f->wanted;
            t->count = f->count;
            t->python = f->wanted == python_wanted;
        }
    }
    if (!t->wanted) {
        lexer_fail(&r->lex, "%.*s: there is no such function here%s%s", (int)name->len, name->text,
                   language ? " for lang=" : "", language ? language : "");
        return NULL;
    }
    return lexer_expect(&r->lex, ")") ? NULL : t;
}

/* call is tool:NAME */
static struct test *read_is(struct invariant *r)
{
    struct test *t = invariant_test(r, TEST_ACTION);
    enum tn_action_type type = TN_ACTION_TYPE_COUNT;
    char name[64];

    if (lexer_expect(&r->lex, "is") || lexer_expect(&r->lex, "tool") || lexer_expect(&r->lex, ":"))
        return NULL;
    if (r->lex.token.kind != TOKEN_NAME || r->lex.token.len >= sizeof name) {
        lexer_fail(&r->lex, "expected the name of a tool");
        return NULL;
    }
    snprintf(name, sizeof name, "%.*s", (int)r->lex.token.len, r->lex.token.text);
    for (size_t i = 0; i < TN_COUNT(tools); i++) {
        if (strcmp(tools[i].tool, name) == 0)
            type = tools[i].type;
    }
    if (type == TN_ACTION_TYPE_COUNT && tn_action_type_from_name(name, &type, NULL)) {
        /* a tool of an MCP server */
        type = TN_ACTION_CALL_TOOL_MCP;
        t->next = invariant_test(r, TEST_COMPARE);
        t->next->left = (struct value){.kind = VALUE_FIELD, .text = "name"};
        t->next->right =
            (struct value){.kind = VALUE_TEXT, .text = pool_strdup(r->rules->pool, name)};
    }
    t->bits = (uint64_t)1 << type;
    struct test *all = invariant_test(r, TEST_ALL);
    all->kids = t;
    return lexer_next(&r->lex) ? NULL : all;
}

static struct test *negated(struct invariant *r, struct test *t)
{
    struct test *not = invariant_test(r, TEST_NOT);

    not ->kids = t;
    return not ;
}

/* A comparison of two values. */
static struct test *read_compare(struct invariant *r)
{
    static const struct {
        const char *sign;
        enum compare compare;
        bool not ;
    } signs[] = {
        {"==", COMPARE_EQUAL, false}, {"!=", COMPARE_UNEQUAL, false}, {"<", COMPARE_LESS, false},
        {">", COMPARE_MORE, false},   {"<=", COMPARE_MORE, true},     {">=", COMPARE_LESS, true},
        {"in", COMPARE_IN, false},
    };
    struct test *t = invariant_test(r, TEST_COMPARE);
    bool not = false;

    if (read_value(r, &t->left))
        return NULL;
    if (lexer_at(&r->lex, "not")) {
        not = true;
        if (lexer_next(&r->lex))
            return NULL;
    }
    for (size_t i = 0; i < TN_COUNT(signs); i++) {
        if (!lexer_at(&r->lex, signs[i].sign) || (not &&signs[i].compare != COMPARE_IN))
            continue;
        t->compare = signs[i].compare;
        if (lexer_next(&r->lex) || read_value(r, &t->right))
            return NULL;
        if (t->left.kind == VALUE_LIST ||
            (t->right.kind == VALUE_LIST && t->compare != COMPARE_IN)) {
            lexer_fail(&r->lex, "a list stands behind `in` and nowhere else");
            return NULL;
        }
        return not || signs[i].not ? negated(r, t) : t;
    }
    lexer_fail(&r->lex, "expected ==, !=, <, <=, >, >= or in");
    return NULL;
}

static struct test *read_alias(struct invariant *r)
{
    for (size_t i = 0; i < r->alias_count; i++) {
        if (!token_is(&r->lex.token, r->aliases[i].name))
            continue;
        struct test *copy = invariant_test(r, TEST_ALL);
        copy->kids = r->aliases[i].test;
        return speak_of(r, r->aliases[i].variable) || lexer_next(&r->lex) ? NULL : copy;
    }
    return NULL;
}

static bool alias_here(const struct invariant *r)
{
    for (size_t i = 0; i < r->alias_count; i++) {
        if (token_is(&r->lex.token, r->aliases[i].name))
            return true;
    }
    return false;
}

static struct test *read_one(struct invariant *r)
{
    struct token name = r->lex.token;
    struct lexer after = r->lex;
    struct test *t;

    if (alias_here(r))
        return read_alias(r);
    if (lexer_at(&r->lex, "(") || lexer_at(&r->lex, "any")) {
        if (lexer_at(&r->lex, "any") && lexer_next(&r->lex))
            return NULL;
        if (lexer_expect(&r->lex, "("))
            return NULL;
        t = invariant_condition(r);
        return t && !lexer_expect(&r->lex, ")") ? t : NULL;
    }
    if (name.kind == TOKEN_NAME && lexer_next(&after) == 0) {
        if (lexer_at(&after, "(")) {
            r->lex = after;
            return read_function(r, &name);
        }
        if (lexer_at(&after, "is")) {
            int variable = invariant_variable(r, &name);
            if (variable < 0) {
                lexer_fail(&r->lex, "'%.*s' is no call of this rule", (int)name.len, name.text);
                return NULL;
            }
            r->lex = after;
            return speak_of(r, variable) ? NULL : read_is(r);
        }
    }
    return read_compare(r);
}

static struct test *read_not(struct invariant *r)
{
    struct test *t;

    if (!lexer_at(&r->lex, "not"))
        return read_one(r);
    if (++r->depth > NESTED_MAX) {
        lexer_fail(&r->lex, "too deep");
        return NULL;
    }
    t = lexer_next(&r->lex) ? NULL : read_not(r);
    r->depth--;
    return t ? negated(r, t) : NULL;
}

/* Operands of `and` (or of `or`), all at one level. */
static struct test *read_row(struct invariant *r, const char *word, enum test_kind kind,
                             struct test *(*read)(struct invariant *))
{
    struct test *first = read(r), *row;
    struct test **end;

    if (!first || !lexer_at(&r->lex, word))
        return first;
    row = invariant_test(r, kind);
    row->kids = first;
    end = &first->next;
    while (lexer_at(&r->lex, word)) {
        struct test *more = lexer_next(&r->lex) ? NULL : read(r);
        if (!more)
            return NULL;
        *end = more;
        end = &more->next;
    }
    return row;
}

static struct test *read_and(struct invariant *r)
{
    return read_row(r, "and", TEST_ALL, read_not);
}

struct test *invariant_condition(struct invariant *r)
{
    struct test *t;

    if (++r->depth > NESTED_MAX) {
        lexer_fail(&r->lex, "too deep");
        return NULL;
    }
    t = read_row(r, "or", TEST_ANY, read_and);
    r->depth--;
    return t;
}

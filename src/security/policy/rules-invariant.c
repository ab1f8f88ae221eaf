/* Rules in the subset of Invariant's language that docs/policy.md describes:
 *
 *   from invariant.detectors import secrets
 *
 *   raise "a secret in a command [risk=medium]" if:
 *       (call: ToolCall)
 *       call is tool:run
 *       any(secrets(call.function.arguments.command))
 *
 * A flow (a: ToolCall) -> (b: ToolCall) becomes two rules: one without findings for a, and one for
 * b that is met only after it.  So a condition speaks of one of them, not of both. */
#include <ctype.h>

#include "security/policy/invariant.h"

/* --- a rule ----------------------------------------------------------------------------------- */

static void add(struct variable *v, struct test *t)
{
    *v->end = t;
    v->end = &t->next;
}

/* (name: ToolCall); the first one is the rule itself, and gives it to the last one. */
static int read_variable(struct invariant *r, struct rule *rule)
{
    struct variable *v = &r->variables[r->variable_count];
    bool call;

    if (r->variable_count == VARIABLES_MAX)
        return lexer_fail(&r->lex, "a rule speaks of %d calls at most", VARIABLES_MAX);
    if (lexer_expect(&r->lex, "("))
        return -1;
    if (r->lex.token.kind != TOKEN_NAME || r->lex.token.len >= sizeof v->name)
        return lexer_fail(&r->lex, "expected a name");
    if (invariant_variable(r, &r->lex.token) >= 0)
        return lexer_fail(&r->lex, "there are two of that name");
    snprintf(v->name, sizeof v->name, "%.*s", (int)r->lex.token.len, r->lex.token.text);
    if (lexer_next(&r->lex) || lexer_expect(&r->lex, ":"))
        return -1;
    call = lexer_at(&r->lex, "ToolCall");
    if (!call && !lexer_at(&r->lex, "ToolOutput"))
        return lexer_fail(&r->lex, "expected ToolCall or ToolOutput");
    struct test *t = invariant_test(r, call ? TEST_ACTION : TEST_OUTPUT);
    t->bits = ~(uint64_t)0;
    v->rule = rule;
    v->end = &rule->tests;
    v->after = NULL;
    add(v, t);
    r->variable_count++;
    return lexer_next(&r->lex) || lexer_expect(&r->lex, ")") ? -1 : 0;
}

/* (a: ToolCall) -> (b: ToolCall): what b says is the rule, a is one without findings before it. */
static int read_flow(struct invariant *r, struct rule *rule, struct tn_error *err)
{
    if (r->variable_count)
        return lexer_fail(&r->lex, "all calls of a rule stand in one line: (a: ToolCall) -> (b: "
                                   "ToolCall)");
    if (read_variable(r, rule))
        return -1;
    while (lexer_at(&r->lex, "->")) {
        struct rule *before = rules_add(r->rules, err);
        struct test *first = rule->tests, *after = invariant_test(r, TEST_AFTER);
        if (!before)
            return -1;
        *before = (struct rule){.name = "",
                                .text = "",
                                .quiet = true,
                                .fact = -1,
                                .file = rule->file,
                                .line = rule->line,
                                .tests = first};
        r->variables[r->variable_count - 1].rule = before;
        rule->tests = NULL;
        after->bits = rules_fact(r->rules, before, err);
        if (!after->bits || lexer_next(&r->lex) || read_variable(r, rule))
            return -1;
        r->variables[r->variable_count - 1].after = after;
    }
    return 0;
}

static int read_assignment(struct invariant *r, const struct token *name)
{
    struct alias *a = &r->aliases[r->alias_count];

    if (r->alias_count == NAMES_MAX || name->len >= sizeof a->name)
        return lexer_fail(&r->lex, "too many names, or too long a name");
    if (lexer_next(&r->lex) || lexer_expect(&r->lex, ":="))
        return -1;
    snprintf(a->name, sizeof a->name, "%.*s", (int)name->len, name->text);
    a->test = invariant_condition(r);
    a->variable = r->used;
    r->alias_count++;
    return a->test ? 0 : -1;
}

static int read_condition(struct invariant *r, struct rule *rule, struct tn_error *err)
{
    struct token name = r->lex.token;
    struct lexer after = r->lex, further;
    struct test *t;

    r->used = -1;
    r->depth = 0;
    if (lexer_next(&after))
        return -1;
    further = after;
    if (lexer_at(&r->lex, "(") && after.token.kind == TOKEN_NAME && lexer_next(&further) == 0 &&
        lexer_at(&further, ":"))
        return read_flow(r, rule, err);
    if (name.kind == TOKEN_NAME && lexer_at(&after, ":="))
        return read_assignment(r, &name);
    t = invariant_condition(r);
    if (!t)
        return -1;
    if (r->used < 0)
        return lexer_fail(&r->lex, "the condition speaks of no call of this rule");
    add(&r->variables[r->used], t);
    return 0;
}

/* The text without "[risk=...]", the risk, and a name made of the text. */
static int name_rule(struct invariant *r, struct rule *rule, char *text)
{
    char *tag = strstr(text, "[risk="), *end = tag ? strchr(tag, ']') : NULL;
    char name[64];
    size_t n = 0;

    rule->risk = TN_RISK_UNKNOWN;
    if (tag && (!end || !tn_risk_from_word(tag + 6, (size_t)(end - tag - 6), &rule->risk)))
        return lexer_fail(&r->lex, "expected [risk=low], medium, high or unknown");
    if (tag) {
        while (tag > text && tag[-1] == ' ')
            tag--;
        memmove(tag, end + 1, strlen(end + 1) + 1);
    }
    for (const char *c = text; *c && n < 48; c++) {
        if (isalnum((unsigned char)*c))
            name[n++] = (char)tolower((unsigned char)*c);
        else if (n && name[n - 1] != '-')
            name[n++] = '-';
    }
    while (n && name[n - 1] == '-')
        n--;
    name[n] = '\0';
    if (!n)
        return lexer_fail(&r->lex, "the text of a rule has a word in it");
    for (int i = 2; rules_find(r->rules, name); i++)
        snprintf(name + n, sizeof name - n, "-%d", i);
    rule->text = text;
    rule->name = pool_strdup(r->rules->pool, name);
    return 0;
}

static int read_rule(struct invariant *r, const char *file, struct tn_error *err)
{
    struct rule named = {.file = file, .line = r->lex.token.line, .fact = -1};
    size_t indent = r->lex.token.column;
    struct rule *rule;

    r->variable_count = r->alias_count = 0;
    if (lexer_next(&r->lex))
        return -1;
    if (r->lex.token.kind != TOKEN_TEXT)
        return lexer_fail(&r->lex, "expected a text behind raise");
    if (name_rule(r, &named, token_text(&r->lex.token, r->rules->pool)) || lexer_next(&r->lex) ||
        lexer_expect(&r->lex, "if") || lexer_expect(&r->lex, ":") || lexer_expect_line(&r->lex))
        return -1;
    rule = rules_add(r->rules, err);
    if (!rule)
        return -1;
    *rule = named;
    while (r->lex.token.kind != TOKEN_END && r->lex.token.column > indent) {
        if (read_condition(r, rule, err) || lexer_expect_line(&r->lex))
            return -1;
    }
    if (!r->variable_count)
        return lexer_fail(&r->lex, "a rule needs a call: (call: ToolCall)");
    for (size_t i = 0; i < r->variable_count; i++) { /* the past is looked at last */
        if (r->variables[i].after)
            add(&r->variables[i], r->variables[i].after);
    }
    return 0;
}

/* from invariant.detectors import a, b */
static int read_import(struct invariant *r)
{
    static const char known[] = "secrets semgrep prompt_injection CodeIssue";
    char name[48];

    if (lexer_next(&r->lex) || lexer_expect(&r->lex, "invariant") || lexer_expect(&r->lex, ".") ||
        lexer_expect(&r->lex, "detectors") || lexer_expect(&r->lex, "import"))
        return -1;
    for (;;) {
        const struct token *t = &r->lex.token;
        snprintf(name, sizeof name, "%.*s", (int)(t->len < 47 ? t->len : 47), t->text);
        if (t->kind != TOKEN_NAME || !word_in(name, known))
            return lexer_fail(&r->lex, "there is no detector '%s' here: %s", name, known);
        if (r->imported_count == NAMES_MAX)
            return lexer_fail(&r->lex, "too many imports");
        memcpy(r->imported[r->imported_count++], name, sizeof name);
        if (lexer_next(&r->lex))
            return -1;
        if (!lexer_at(&r->lex, ","))
            return lexer_expect_line(&r->lex);
        if (lexer_next(&r->lex))
            return -1;
    }
}

int rules_from_invariant(struct rules *rules, const char *file, const char *text, size_t n,
                         struct tn_error *err)
{
    struct invariant r = {.rules = rules};
    const char *name = pool_strdup(rules->pool, file);

    if (memchr(text, '\0', n))
        return tn_fail(err, TN_E_INVALID, "%s: there is a NUL byte in it", file);
    if (lexer_init(&r.lex, name, text, n, err))
        return -1;
    while (r.lex.token.kind != TOKEN_END) {
        if (r.lex.token.column != 1)
            return lexer_fail(&r.lex, "expected no space before raise and from");
        if (lexer_at(&r.lex, "from")    ? read_import(&r)
            : lexer_at(&r.lex, "raise") ? read_rule(&r, name, err)
                                        : lexer_fail(&r.lex, "expected from or raise"))
            return -1;
    }
    return 0;
}

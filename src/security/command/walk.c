/* From the tree to the calls. */
#include <stdint.h>

#include "security/command/walk.h"

enum {
    MAX_INNER = 4 * TN_SH_MAX_TEXT,
    MAX_QUOTE = 240,
    MAX_TURNS = 64, /* of loops in each other: more are walked once, with unknown words */
};

void walk_too_large(struct walker *w, const char *what)
{
    if (!w->failed)
        tn_fail(w->err, TN_E_TOO_LARGE, "too much to judge: %s", what);
    w->failed = true;
}

bool walk_inner(struct walker *w, size_t count)
{
    w->inner += count;
    if (w->inner > MAX_INNER)
        walk_too_large(w, "texts are run inside each other");
    return !w->failed;
}

/* --- calls ------------------------------------------------------------------------------- */

static const char *quote(struct walker *w, const struct place *at, size_t start, size_t end)
{
    size_t len = end - start;
    bool cut = len > MAX_QUOTE;
    len = cut ? MAX_QUOTE : len;
    while (cut && len && ((unsigned char)at->source[start + len] & 0xc0) == 0x80)
        len--; /* not inside a character */
    char *text = tn_arena_get(w->arena, len + sizeof("..."));
    memcpy(text, at->source + start, len);
    if (cut)
        memcpy(text + len, "...", 3);
    return text;
}

struct tn_call *walk_add(struct walker *w, const struct place *at, size_t start, size_t end)
{
    struct tn_call *call = tn_arena_get(w->arena, sizeof(*call));
    *call = (struct tn_call){.name = "",
                             .flags = at->flags,
                             .via = at->via,
                             .depth = at->via ? at->via->depth + 1 : 0,
                             .in = at->in,
                             .out = at->out,
                             .start = at->inside ? at->start : start,
                             .end = at->inside ? at->end : end,
                             .quote = quote(w, at, start, end)};
    if (w->calls->count == TN_CALLS_MAX) {
        walk_too_large(w, "there are too many commands");
        return call;
    }
    *w->tail = call;
    w->tail = (struct tn_call **)(uintptr_t)&call->next;
    w->calls->count++;
    return call;
}

void walk_name(struct walker *w, struct tn_call *call)
{
    const char *name = call->argc ? call->argv[0].value : "";
    /* a lone bracket is no pattern but the command of that name */
    if (!name || (call->argv && (call->argv[0].flags & TN_ARG_GLOB) && strcmp(name, "[") != 0)) {
        call->unseen = TN_UNSEEN_NAME;
        return;
    }
    const char *slash = strrchr(name, '/');
    call->name = slash ? slash + 1 : name;
    if (call->argc && !call->name[0])
        call->unseen = TN_UNSEEN_NAME;
}

/* --- texts ------------------------------------------------------------------------------- */

void walk_text(struct walker *w, const struct place *at, struct tn_call *call,
               const struct tn_arg *text, bool same_shell)
{
    size_t len = strlen(text->text);
    if (!walk_inner(w, len))
        return;
    if (!text->value)
        call->unseen = TN_UNSEEN_SCRIPT;
    struct tn_sh_tree *tree = tn_sh_parse_in(w->arena, text->text, len, NULL);
    if (!tree) {
        call->unseen = text->value ? TN_UNSEEN_SYNTAX : TN_UNSEEN_SCRIPT;
        return;
    }
    struct place place = *at;
    place.tree = tree;
    place.source = tree->text;
    place.inside = true;
    place.start = call->start;
    place.end = call->end;
    place.via = call;
    place.has_args = at->has_args && !vars_change_args(tree, 0, tree->name_count);
    if (!same_shell) {
        place.vars = vars_new(w->arena);
        place.flags |= TN_CALL_SUBSHELL;
    }
    walk_list(w, &place, tree->list);
}

/* --- commands ---------------------------------------------------------------------------- */

/* What a stage of a pipeline writes, when the text tells: echo, printf, cat of a here-document. */
static const struct tn_arg *literal_output(struct walker *w, const struct tn_call *call)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_SH_MAX_TEXT);
    struct tn_arg *output = tn_arena_get(w->arena, sizeof(*output));
    const struct tn_call_redirect *r = call->redirects;
    if (call->more || call->unseen)
        return NULL;
    if (strcmp(call->name, "cat") == 0 && call->argc == 1 && r && !r->next && r->fd == 0 &&
        (r->kind == TN_SH_HERE_TEXT || r->kind == TN_SH_HERE_STRING))
        return &r->target;
    bool print = strcmp(call->name, "printf") == 0;
    if ((!print && strcmp(call->name, "echo") != 0) || r || call->argc < 2 ||
        (print && call->argc > 2))
        return NULL;
    size_t first = call->argv[1].value && strcmp(call->argv[1].value, "-n") == 0 ? 2 : 1;
    for (size_t i = first; i < call->argc; i++) {
        const char *word = call->argv[i].value;
        if (!word || (call->argv[i].flags & TN_ARG_GLOB) || strpbrk(word, "\\%") ||
            (i == first && word[0] == '-'))
            return NULL;
        tn_buf_puts(&text, i > first ? " " : "");
        tn_buf_puts(&text, word);
    }
    *output = known_arg(w, tn_buf_str(&text));
    return tn_buf_ok(&text) ? output : NULL;
}

static void walk_pipeline(struct walker *w, const struct place *outside,
                          const struct tn_sh_node *node)
{
    struct place at = *outside;
    bool several = node->body && node->body->next;
    at.flags |= several ? TN_CALL_SUBSHELL : 0;
    for (const struct tn_sh_node *command = node->body; command && !w->failed;
         command = command->next) {
        struct tn_call **before = w->tail;
        at.out = command->next ? ++w->pipes : outside->out;
        walk_node(w, &at, command);
        /* The last call of a simple command is the command itself, or what it runs. */
        const struct tn_call *call = *before;
        while (call && call->next && command->kind == TN_SH_SIMPLE)
            call = call->next;
        bool simple = call && command->kind == TN_SH_SIMPLE && call->via == outside->via;
        at.here = simple && command->next ? literal_output(w, call) : NULL;
        at.in = at.out;
    }
    if (several)
        vars_forget(at.vars, at.tree, node->assigned, node->assigned_end);
}

/* Whether the && and || list that begins here runs in the background. */
static bool in_background(const struct tn_sh_node *pipeline)
{
    while (pipeline->next && (pipeline->join == TN_SH_AND || pipeline->join == TN_SH_OR))
        pipeline = pipeline->next;
    return pipeline->join == TN_SH_BACKGROUND;
}

void walk_list(struct walker *w, const struct place *outside, const struct tn_sh_node *list)
{
    struct place at = *outside;
    bool joined = false, background = false;
    if (++at.level > MAX_LEVEL) {
        walk_too_large(w, "commands are nested too deeply");
        return;
    }
    for (const struct tn_sh_node *node = list->body; node && !w->failed; node = node->next) {
        if (!joined)
            background = in_background(node);
        at.flags = outside->flags | (joined ? TN_CALL_BRANCH : 0) |
                   (background ? TN_CALL_BACKGROUND | TN_CALL_SUBSHELL : 0);
        walk_pipeline(w, &at, node);
        if (joined || background)
            vars_forget(at.vars, at.tree, node->assigned, node->assigned_end);
        joined = node->join == TN_SH_AND || node->join == TN_SH_OR;
    }
}

/* A list that runs or not, or more than once, or not in this shell. */
static void walk_apart(struct walker *w, const struct place *outside, const struct tn_sh_node *list,
                       unsigned flags)
{
    struct place at = *outside;
    at.flags |= flags;
    if (!list)
        return;
    if (flags & TN_CALL_LOOP)
        vars_forget(at.vars, at.tree, list->assigned, list->assigned_end);
    walk_list(w, &at, list);
    vars_forget(at.vars, at.tree, list->assigned, list->assigned_end);
}

static void walk_if(struct walker *w, const struct place *at, const struct tn_sh_node *node)
{
    const struct tn_sh_node *all = node;
    struct place test = *at;
    test.flags |= TN_CALL_CONDITION;
    for (; node && node->kind == TN_SH_IF; node = node->other) {
        walk_list(w, &test, node->test);
        walk_apart(w, at, node->body, TN_CALL_BRANCH);
        test.flags |= TN_CALL_BRANCH;
        if (node->other && node->other->kind == TN_SH_LIST)
            walk_apart(w, at, node->other, TN_CALL_BRANCH);
    }
    vars_forget(at->vars, at->tree, all->assigned, all->assigned_end);
}

static void walk_loop(struct walker *w, const struct place *at, const struct tn_sh_node *node)
{
    vars_forget(at->vars, at->tree, node->assigned, node->assigned_end);
    walk_apart(w, at, node->test, TN_CALL_CONDITION | TN_CALL_LOOP);
    walk_apart(w, at, node->body, TN_CALL_BRANCH | TN_CALL_LOOP);
    vars_forget(at->vars, at->tree, node->assigned, node->assigned_end);
}

/* A turn for each word; one is enough for a body that does not look at the variable. */
static void walk_for(struct walker *w, const struct place *at, const struct tn_sh_node *node)
{
    struct tn_call words = {0};
    size_t outer = w->turns;
    if (node->has_words)
        expand_words(w, at, node->words, &words);
    if (words.argc == 0 || words.argc > MAX_TURNS / outer) {
        walk_loop(w, at, node);
        return;
    }
    w->turns *= words.argc;
    for (size_t i = 0; i < words.argc; i++) {
        const struct tn_arg *word = &words.argv[i];
        bool plain = !(word->flags & (TN_ARG_MANY | TN_ARG_GLOB | TN_ARG_TILDE));
        const char *value = plain ? word->value : NULL;
        vars_forget(at->vars, at->tree, node->assigned, node->assigned_end);
        vars_set(at->vars, node->name, strlen(node->name), value, word->text);
        walk_apart(w, at, node->body, TN_CALL_BRANCH | TN_CALL_LOOP);
        if (!vars_read(at->vars, node->name))
            break;
    }
    w->turns = outer;
    vars_forget(at->vars, at->tree, node->assigned, node->assigned_end);
}

static void walk_case(struct walker *w, const struct place *at, const struct tn_sh_node *node)
{
    for (const struct tn_sh_node *clause = node->body; clause; clause = clause->next) {
        walk_words(w, at, clause->words);
        walk_apart(w, at, clause->body, TN_CALL_BRANCH);
    }
}

/* The redirections of a compound command are a call of their own, without words. */
static void walk_compound_redirects(struct walker *w, struct place *at,
                                    const struct tn_sh_node *node)
{
    if (!node->redirects)
        return;
    walk_redirect_words(w, at, node->redirects);
    struct tn_call *call = walk_add(w, at, node->redirects->start, node->end);
    call->redirects = walk_redirects(w, at, node->redirects);
}

void walk_node(struct walker *w, const struct place *outside, const struct tn_sh_node *node)
{
    struct place at = *outside;
    if (w->failed)
        return;
    if (node->kind != TN_SH_SIMPLE) {
        walk_compound_redirects(w, &at, node);
        walk_words(w, &at, node->words);
    }
    switch (node->kind) {
    case TN_SH_SIMPLE:
        walk_simple(w, &at, node);
        break;
    case TN_SH_LIST:
    case TN_SH_GROUP:
        walk_list(w, &at, node->kind == TN_SH_LIST ? node : node->body);
        break;
    case TN_SH_PIPELINE:
        walk_pipeline(w, &at, node);
        break;
    case TN_SH_SUBSHELL:
        walk_apart(w, &at, node->body, TN_CALL_SUBSHELL);
        break;
    case TN_SH_IF:
        walk_if(w, &at, node);
        break;
    case TN_SH_WHILE:
    case TN_SH_UNTIL:
    case TN_SH_SELECT:
    case TN_SH_FOR_ARITH:
        walk_loop(w, &at, node);
        break;
    case TN_SH_FOR:
        walk_for(w, &at, node);
        break;
    case TN_SH_CASE:
        walk_case(w, &at, node);
        break;
    case TN_SH_FUNCTION:
        walk_define(w, &at, node);
        break;
    case TN_SH_COPROC:
        at.flags |= TN_CALL_BACKGROUND | TN_CALL_SUBSHELL;
        walk_node(w, &at, node->body);
        break;
    case TN_SH_TEST:
    case TN_SH_ARITH:
    case TN_SH_CLAUSE:
        break;
    }
    if (node->kind != TN_SH_SIMPLE && node->kind != TN_SH_GROUP && node->kind != TN_SH_FUNCTION)
        vars_forget(at.vars, at.tree, node->assigned, node->assigned_end);
}

/* --- the whole --------------------------------------------------------------------------- */

/* Bodies that nothing has called yet may be called by a later command. */
static void walk_uncalled(struct walker *w)
{
    for (struct function *function = w->functions; function; function = function->next) {
        struct place place = *function->place;
        place.flags |= TN_CALL_DEFINED;
        place.has_args = false;
        place.vars = vars_new(w->arena);
        if (!function->called)
            walk_body(w, &place, function);
    }
    for (struct alias *alias = w->aliases; alias && !w->failed; alias = alias->next) {
        if (alias->called)
            continue;
        const struct tn_arg text = known_arg(w, alias->text);
        struct place place = {.tree = w->calls->tree,
                              .source = alias->text,
                              .inside = true,
                              .flags = TN_CALL_DEFINED,
                              .vars = vars_new(w->arena)};
        struct tn_call *call = walk_add(w, &place, 0, 0);
        call->quote = alias->text;
        walk_text(w, &place, call, &text, true);
    }
}

struct tn_calls *tn_calls_new(const char *text, size_t len, struct tn_error *err)
{
    struct tn_sh_tree *tree = tn_sh_parse(text, len, err);
    if (!tree)
        return NULL;
    struct tn_calls *calls = tn_arena_get(tree->arena, sizeof(*calls));
    struct walker w = {.arena = tree->arena,
                       .calls = calls,
                       .tail = (struct tn_call **)(uintptr_t)&calls->first,
                       .turns = 1,
                       .text = TN_BUF_INIT(TN_SH_MAX_TEXT),
                       .err = err};
    calls->tree = tree;
    struct place place = {.tree = tree, .source = tree->text, .vars = vars_new(tree->arena)};
    walk_list(&w, &place, tree->list);
    walk_uncalled(&w);
    calls->pipes = w.pipes;
    tn_buf_done(&w.text);
    if (!w.failed)
        return calls;
    tn_sh_tree_free(tree);
    return NULL;
}

void tn_calls_free(struct tn_calls *calls)
{
    if (calls)
        tn_arena_free(calls->tree->arena);
}

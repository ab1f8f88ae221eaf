/* From the tree to the calls. */
#include <stdint.h>

#include "security/command/walk.h"

enum {
    MAX_LEVEL = 40, /* of lists, functions and texts inside each other */
    MAX_INNER = 4 * TN_SH_MAX_TEXT,
    MAX_QUOTE = 240,
};

static void walk_node(struct walker *w, const struct place *at, const struct tn_sh_node *node);

void walk_too_large(struct walker *w, const char *what)
{
    if (!w->failed)
        tn_fail(w->err, TN_E_TOO_LARGE, "too much to judge: %s", what);
    w->failed = true;
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
    if (!name || (call->argv && (call->argv[0].flags & TN_ARG_GLOB))) {
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
    w->inner += len;
    if (w->inner > MAX_INNER)
        walk_too_large(w, "texts are run inside each other");
    if (w->failed)
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

/* --- substitutions ----------------------------------------------------------------------- */

static void walk_words(struct walker *w, const struct place *at, const struct tn_sh_word *words);

static void walk_part(struct walker *w, const struct place *at, const struct tn_sh_part *part)
{
    struct place place = *at;
    place.flags |= TN_CALL_SUBSTITUTION | TN_CALL_SUBSHELL;
    if (part->source) {
        place.start = at->inside ? at->start : part->start;
        place.end = at->inside ? at->end : part->end;
        place.inside = true;
        place.source = part->source;
    }
    if (part->kind == TN_SH_PROCESS && part->text[0] == '>') {
        place.in = at->written;
        place.out = 0;
        place.here = NULL;
    }
    if (part->list)
        walk_list(w, &place, part->list);
    else if (part->kind == TN_SH_COMMAND)
        walk_add(w, at, part->start, part->end)->unseen = TN_UNSEEN_SYNTAX;
    if (part->word)
        walk_words(w, at, part->word);
}

/* The substitutions in words; what they write reaches at->out. */
static void walk_words(struct walker *w, const struct place *at, const struct tn_sh_word *words)
{
    for (const struct tn_sh_word *word = words; word && !w->failed; word = word->next)
        for (const struct tn_sh_part *part = word->parts; part; part = part->next)
            if (part->kind != TN_SH_TEXT)
                walk_part(w, at, part);
}

static bool has_substitution(const struct tn_sh_word *words)
{
    for (const struct tn_sh_word *word = words; word; word = word->next)
        for (const struct tn_sh_part *part = word->parts; part; part = part->next)
            if ((part->list && !(part->kind == TN_SH_PROCESS && part->text[0] == '>')) ||
                (part->word && has_substitution(part->word)))
                return true;
    return false;
}

/* Whether a word is, or holds, <(...) or >(...). */
static bool has_process(const struct tn_sh_word *words, char direction)
{
    for (const struct tn_sh_word *word = words; word; word = word->next)
        for (const struct tn_sh_part *part = word->parts; part; part = part->next)
            if (part->kind == TN_SH_PROCESS && part->text[0] == direction)
                return true;
    return false;
}

/* --- redirections and assignments -------------------------------------------------------- */

static const struct {
    bool reads, writes;
} directions[] = {
    [TN_SH_READ] = {true, false},         [TN_SH_WRITE] = {false, true},
    [TN_SH_CLOBBER] = {false, true},      [TN_SH_APPEND] = {false, true},
    [TN_SH_READ_WRITE] = {true, true},    [TN_SH_WRITE_BOTH] = {false, true},
    [TN_SH_APPEND_BOTH] = {false, true},  [TN_SH_COPY_READ] = {false, false},
    [TN_SH_COPY_WRITE] = {false, false},  [TN_SH_HERE_TEXT] = {false, false},
    [TN_SH_HERE_STRING] = {false, false},
};

static struct tn_arg redirect_target(struct walker *w, const struct place *at,
                                     const struct tn_sh_redirect *r)
{
    struct tn_arg target;
    if (r->kind != TN_SH_HERE_TEXT)
        return expand_word(w, at, r->target, at->source);
    if (r->body)
        target = expand_word(w, at, r->body, r->source);
    else
        target = known_arg(w, r->source ? r->source : "");
    if (!r->body && !r->quoted) {
        target.value = NULL; /* its expansions are wrong */
        target.flags |= TN_ARG_UNKNOWN;
    }
    target.start = at->inside ? at->start : r->body_start;
    target.end = at->inside ? at->end : r->body_end;
    return target;
}

/* The redirections of a command, and what its input has then. */
static const struct tn_call_redirect *walk_redirects(struct walker *w, struct place *at,
                                                     const struct tn_sh_redirect *redirects)
{
    const struct tn_call_redirect *first = NULL, **tail = &first;
    for (const struct tn_sh_redirect *r = redirects; r && !w->failed; r = r->next) {
        struct tn_call_redirect *made = tn_arena_get(w->arena, sizeof(*made));
        *made = (struct tn_call_redirect){.kind = r->kind,
                                          .fd = r->variable ? -1 : r->fd,
                                          .reads = directions[r->kind].reads,
                                          .writes = directions[r->kind].writes,
                                          .target = redirect_target(w, at, r),
                                          .start = at->inside ? at->start : r->start,
                                          .end = at->inside ? at->end : r->end};
        if (made->fd == 0) {
            bool here = r->kind == TN_SH_HERE_TEXT || r->kind == TN_SH_HERE_STRING;
            at->here = here ? &made->target : NULL;
        }
        *tail = made;
        tail = &made->next;
    }
    return first;
}

static void walk_redirect_words(struct walker *w, const struct place *at,
                                const struct tn_sh_redirect *redirects)
{
    for (const struct tn_sh_redirect *r = redirects; r; r = r->next) {
        walk_words(w, at, r->kind == TN_SH_HERE_TEXT ? NULL : r->target);
        struct place body = *at;
        body.source = r->source;
        body.inside = true;
        body.start = at->inside ? at->start : r->body_start;
        body.end = at->inside ? at->end : r->body_end;
        walk_words(w, &body, r->body);
    }
}

static const struct tn_call_assign *walk_assigns(struct walker *w, const struct place *at,
                                                 const struct tn_sh_assign *assigns)
{
    const struct tn_call_assign *first = NULL, **tail = &first;
    for (const struct tn_sh_assign *a = assigns; a && !w->failed; a = a->next) {
        struct tn_call_assign *made = tn_arena_get(w->arena, sizeof(*made));
        const struct tn_sh_part *part = a->value->parts;
        made->name = a->name;
        made->add = a->add;
        made->array = part && part->kind == TN_SH_ARRAY;
        made->value = expand_word(w, at, a->value, at->source);
        *tail = made;
        tail = &made->next;
    }
    return first;
}

/* Assignments that stand alone change the shell. */
static void set_variables(struct walker *w, const struct place *at, const struct tn_sh_node *node,
                          const struct tn_call *call)
{
    const struct tn_sh_assign *written = node->assigns;
    for (const struct tn_call_assign *a = call->assigns; a; a = a->next, written = written->next) {
        bool plain = !a->add && !a->array && !written->index;
        vars_set(at->vars, a->name, strlen(a->name), plain ? a->value.value : NULL);
    }
}

/* Commands such as export and read change the variables they name. */
static void set_by_command(struct walker *w, const struct place *at, const struct tn_sh_node *node,
                           const struct tn_call *call)
{
    static const char *const declaring[] = {"export", "declare", "typeset", "local", "readonly"};
    vars_forget(at->vars, at->tree, node->assigned, node->assigned_end);
    for (size_t i = 0; i < TN_COUNT(declaring); i++) {
        if (strcmp(call->name, declaring[i]) != 0)
            continue;
        if (tn_call_letter(call, 'n') && i > 0)
            vars_blind(at->vars);
        for (size_t k = 1; k < call->argc; k++) {
            const char *word = call->argv[k].value;
            const char *equals = word ? strchr(word, '=') : NULL;
            if (equals && word[0] != '-' && !memchr(word, '[', (size_t)(equals - word)) &&
                equals > word && equals[-1] != '+' && call->argv[1].text[0] != '-')
                vars_set(at->vars, word, (size_t)(equals - word), equals + 1);
        }
    }
}

/* --- functions and aliases --------------------------------------------------------------- */

static void define(struct walker *w, const struct place *at, const struct tn_sh_node *node)
{
    struct function *function = tn_arena_get(w->arena, sizeof(*function));
    struct place *place = tn_arena_get(w->arena, sizeof(*place));
    *place = *at;
    *function = (struct function){.name = node->name, .node = node, .place = place};
    function->next = w->functions;
    w->functions = function;
    vars_share(at->vars, at->tree, node->assigned, node->assigned_end);
}

static void walk_body(struct walker *w, const struct place *at, struct function *function)
{
    function->active = true;
    function->called = true;
    walk_node(w, at, function->node->body);
    function->active = false;
    vars_forget(at->vars, function->place->tree, function->node->assigned,
                function->node->assigned_end);
}

/* The body of the function that a call names. */
static bool call_function(struct walker *w, const struct place *at, struct tn_call *call)
{
    struct function *function = w->functions;
    const char *name = call->argc ? call->argv[0].value : NULL;
    while (function && (!name || strcmp(function->name, name) != 0))
        function = function->next;
    if (!function)
        return false;
    if (function->active) {
        call->flags |= TN_CALL_RECURSIVE;
        return true;
    }
    struct place place = *at;
    place.tree = function->place->tree;
    place.source = function->place->source;
    place.inside = true;
    place.start = call->start;
    place.end = call->end;
    place.flags |= TN_CALL_FUNCTION;
    place.via = call;
    place.has_args = !call->more && !vars_change_args(place.tree, function->node->assigned,
                                                      function->node->assigned_end);
    place.args = call->argv + 1;
    place.arg_count = call->argc - 1;
    for (size_t i = 1; i < call->argc; i++)
        if (call->argv[i].flags & TN_ARG_MANY)
            place.has_args = false;
    walk_body(w, &place, function);
    return true;
}

static void define_alias(struct walker *w, const struct tn_call *call)
{
    for (size_t i = 1; i < call->argc; i++) {
        const char *word = call->argv[i].value;
        const char *equals = word ? strchr(word, '=') : NULL;
        if (!equals)
            continue;
        struct alias *alias = tn_arena_get(w->arena, sizeof(*alias));
        alias->name = tn_arena_copy(w->arena, word, (size_t)(equals - word));
        alias->text = equals + 1;
        alias->next = w->aliases;
        w->aliases = alias;
    }
}

/* The text of an alias with the words behind it, as the shell would read it. */
static void call_alias(struct walker *w, const struct place *at, struct tn_call *call,
                       const struct tn_sh_word *words)
{
    struct alias *alias = w->aliases;
    while (alias && strcmp(alias->name, call->name) != 0)
        alias = alias->next;
    if (!alias || alias->active || call->argv[0].flags & TN_ARG_QUOTED)
        return;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_SH_MAX_TEXT);
    tn_buf_puts(&text, alias->text);
    for (const struct tn_sh_word *word = words->next; word; word = word->next) {
        tn_buf_putc(&text, ' ');
        tn_buf_add(&text, at->source + word->start, word->end - word->start);
    }
    struct tn_arg arg = known_arg(w, tn_buf_str(&text));
    struct place place = *at;
    place.flags |= TN_CALL_FUNCTION;
    alias->active = alias->called = true;
    walk_text(w, &place, call, &arg, true);
    alias->active = false;
}

/* --- commands ---------------------------------------------------------------------------- */

/* Whether what substitutions write reaches a command: its words, values and redirections. */
static bool reads_substitution(const struct tn_sh_node *node)
{
    bool found = has_substitution(node->words);
    for (const struct tn_sh_assign *a = node->assigns; a && !found; a = a->next)
        found = has_substitution(a->value);
    for (const struct tn_sh_redirect *r = node->redirects; r && !found; r = r->next)
        found = has_substitution(r->body) || has_substitution(r->target);
    return found;
}

static bool writes_process(const struct tn_sh_node *node)
{
    bool found = has_process(node->words, '>');
    for (const struct tn_sh_redirect *r = node->redirects; r && !found; r = r->next)
        found = has_process(r->target, '>');
    return found;
}

static void walk_simple(struct walker *w, const struct place *outside,
                        const struct tn_sh_node *node)
{
    struct place at = *outside;
    /* What substitutions write reaches the command, like a pipe. */
    if (!at.in && reads_substitution(node))
        at.in = ++w->pipes;
    if (!at.out && writes_process(node))
        at.out = ++w->pipes;
    struct place words = *outside;
    words.out = at.in;
    words.written = at.out;
    walk_words(w, &words, node->words);
    for (const struct tn_sh_assign *a = node->assigns; a; a = a->next) {
        walk_words(w, &words, a->index);
        walk_words(w, &words, a->value);
    }
    walk_redirect_words(w, &words, node->redirects);
    if (w->failed)
        return;

    struct tn_call *call = walk_add(w, &at, node->start, node->end);
    expand_words(w, &at, node->words, call);
    call->assigns = walk_assigns(w, &at, node->assigns);
    call->redirects = walk_redirects(w, &at, node->redirects);
    walk_name(w, call);
    if (call->argc == 0) {
        set_variables(w, &at, node, call);
        return;
    }
    if (!call_function(w, &at, call)) {
        see_through(w, &at, call);
        if (node->words && call->name[0])
            call_alias(w, &at, call, node->words);
        if (strcmp(call->name, "alias") == 0)
            define_alias(w, call);
    }
    set_by_command(w, &at, node, call);
}

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

static void walk_node(struct walker *w, const struct place *outside, const struct tn_sh_node *node)
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
    case TN_SH_FOR:
    case TN_SH_SELECT:
    case TN_SH_FOR_ARITH:
        walk_loop(w, &at, node);
        break;
    case TN_SH_CASE:
        walk_case(w, &at, node);
        break;
    case TN_SH_FUNCTION:
        define(w, &at, node);
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

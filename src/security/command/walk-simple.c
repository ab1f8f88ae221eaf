/* Simple commands: what is expanded in them, what they redirect and assign, and what they call. */
#include "security/command/walk.h"

/* --- substitutions ----------------------------------------------------------------------- */

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

void walk_words(struct walker *w, const struct place *at, const struct tn_sh_word *words)
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

const struct tn_call_redirect *walk_redirects(struct walker *w, struct place *at,
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

void walk_redirect_words(struct walker *w, const struct place *at,
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

enum { ARRAY_MAX = 256 }; /* words of an array; each addition copies all of them */

/* NAME=(a b), NAME+=(c): known if each of the words is, and there are not too many. */
static void set_array(struct walker *w, const struct place *at, const struct tn_sh_assign *a)
{
    struct tn_call call = {0};
    size_t count = 0;
    const struct tn_arg *old = a->add ? vars_words(at->vars, a->name, &count) : NULL;
    expand_words(w, at, a->value->parts->word, &call);
    bool known = !a->index && (!a->add || old);
    for (size_t i = 0; i < call.argc; i++)
        known = known && call.argv[i].value && !(call.argv[i].flags & (TN_ARG_GLOB | TN_ARG_TILDE));
    if (w->failed || (known && a->add && !call.argc))
        return;
    if (!known || count + call.argc > ARRAY_MAX) {
        vars_set(at->vars, a->name, strlen(a->name), NULL, NULL);
        return;
    }
    struct tn_arg *words = tn_arena_get(w->arena, (count + call.argc + 1) * sizeof(*words));
    if (count)
        memcpy(words, old, count * sizeof(*words));
    if (call.argc)
        memcpy(words + count, call.argv, call.argc * sizeof(*words));
    vars_set_words(at->vars, a->name, words, count + call.argc);
}

/* Assignments that stand alone change the shell. */
static void set_variables(struct walker *w, const struct place *at, const struct tn_sh_node *node,
                          const struct tn_call *call)
{
    const struct tn_sh_assign *written = node->assigns;
    for (const struct tn_call_assign *a = call->assigns; a && !w->failed;
         a = a->next, written = written->next) {
        bool plain = !a->add && !a->array && !written->index;
        size_t count;
        if (!a->array || !a->add || !vars_words(at->vars, a->name, &count))
            vars_set(at->vars, a->name, strlen(a->name), plain ? a->value.value : NULL,
                     plain ? a->value.text : NULL);
        if (a->array)
            set_array(w, at, written);
    }
}

/* Commands such as export and read change the variables they name. */
static void set_by_command(struct walker *w, const struct place *at, const struct tn_sh_node *node,
                           struct tn_call *call)
{
    static const char *const declaring[] = {"export", "declare", "typeset", "local", "readonly"};
    const struct tn_arg unknown = {.text = "$x", .flags = TN_ARG_UNKNOWN};
    bool reads = strcmp(call->name, "read") == 0, prints = strcmp(call->name, "printf") == 0;
    vars_forget(at->vars, at->tree, node->assigned, node->assigned_end);
    for (size_t k = 1; k < call->argc && (reads || (prints && k < 3)); k++)
        if (reads || strcmp(call->argv[k - 1].text, "-v") == 0)
            see_variable(w, at, call, call->argv[k].text, &unknown);
    for (size_t i = 0; i < TN_COUNT(declaring); i++) {
        if (strcmp(call->name, declaring[i]) != 0)
            continue;
        if (tn_call_letter(call, 'n') && i > 0)
            vars_blind(at->vars);
        for (size_t k = 1; k < call->argc; k++) {
            const char *word = call->argv[k].text;
            const char *equals = memchr(word, '=', call->argv[k].known);
            see_assignment(w, at, call, &call->argv[k]);
            if (equals && word[0] != '-' && !memchr(word, '[', (size_t)(equals - word)) &&
                equals > word && equals[-1] != '+' && call->argv[1].text[0] != '-')
                vars_set(at->vars, word, (size_t)(equals - word),
                         call->argv[k].value ? equals + 1 : NULL, equals + 1);
        }
    }
}

/* --- functions and aliases --------------------------------------------------------------- */

void walk_define(struct walker *w, const struct place *at, const struct tn_sh_node *node)
{
    struct function *function = tn_arena_get(w->arena, sizeof(*function));
    struct place *place = tn_arena_get(w->arena, sizeof(*place));
    *place = *at;
    *function = (struct function){.name = node->name, .node = node, .place = place};
    function->next = w->functions;
    w->functions = function;
    vars_share(at->vars, at->tree, node->assigned, node->assigned_end);
}

void walk_body(struct walker *w, const struct place *at, struct function *function)
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

void walk_simple(struct walker *w, const struct place *outside, const struct tn_sh_node *node)
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
    if (call->argc == 0)
        set_variables(w, &at, node, call);
    else if (!call_function(w, &at, call)) {
        see_through(w, &at, call);
        if (node->words && call->name[0])
            call_alias(w, &at, call, node->words);
        if (strcmp(call->name, "alias") == 0)
            define_alias(w, call);
    }
    for (const struct tn_call_assign *a = call->assigns; a; a = a->next)
        see_variable(w, &at, call, a->name, &a->value);
    if (call->argc)
        set_by_command(w, &at, node, call);
}

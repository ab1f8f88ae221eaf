/* Words as the shell makes them of the text, as far as that is known before it runs. */
#include <stdint.h>

#include "security/command/walk.h"

enum {
    MAX_BRACES = 16,   /* { in one word */
    MAX_EXPANDED = 64, /* words that one word becomes */
    MAX_MEMORY = 64 << 20,
};

/* A character of a word, or something that is expanded. */
struct atom {
    char c;
    bool quoted;
    const struct tn_sh_part *part;
};

struct expansion {
    struct walker *w;
    const struct place *at;
    const char *source;
    const struct tn_sh_word *word;
    bool split; /* into words */
    /* The word that is being made; its text is in w->text. */
    bool started;
    size_t known;
    unsigned flags;
    /* The words that are made. */
    struct tn_arg *made;
    size_t count, room;
};

/* --- arguments --------------------------------------------------------------------------- */

struct tn_arg known_arg(struct walker *w, const char *text)
{
    size_t len = strlen(text);
    const char *copy = tn_arena_copy(w->arena, text, len);
    return (struct tn_arg){.value = copy, .text = copy, .known = len};
}

static void emit(struct expansion *e)
{
    struct walker *w = e->w;
    if (!tn_buf_ok(&w->text) || tn_arena_used(w->arena) > MAX_MEMORY)
        walk_too_large(w, "the words have too many characters");
    if (e->count == e->room) {
        size_t room = e->room ? 2 * e->room : 4;
        struct tn_arg *made = tn_arena_get(w->arena, room * sizeof(*made));
        if (e->count)
            memcpy(made, e->made, e->count * sizeof(*made));
        e->made = made;
        e->room = room;
    }
    struct tn_arg *arg = &e->made[e->count++];
    bool unknown = e->flags & TN_ARG_UNKNOWN;
    arg->text = tn_arena_copy(w->arena, tn_buf_str(&w->text), w->text.len);
    arg->value = unknown ? NULL : arg->text;
    arg->known = unknown ? e->known : w->text.len;
    arg->flags = e->flags;
    arg->start = e->at->inside ? e->at->start : e->word->start;
    arg->end = e->at->inside ? e->at->end : e->word->end;
    tn_buf_reset(&w->text);
    e->started = false;
    e->flags = 0;
}

static void emit_if_started(struct expansion *e)
{
    if (e->started && !e->w->failed)
        emit(e);
}

static void put(struct expansion *e, char c, bool quoted)
{
    if (!quoted && (c == '*' || c == '?' || c == '[' || c == '('))
        e->flags |= TN_ARG_GLOB;
    if (!quoted && c == '~' && !e->started)
        e->flags |= TN_ARG_TILDE;
    e->flags |= quoted ? TN_ARG_QUOTED : 0;
    e->started = true;
    tn_buf_putc(&e->w->text, c);
}

/* made: what its value is made of, or NULL. */
static void put_unknown(struct expansion *e, const struct tn_sh_part *part, const char *made)
{
    const char *text = made ? made : e->source + part->start;
    size_t len = made ? strlen(made) : part->end - part->start;
    if (!(e->flags & TN_ARG_UNKNOWN))
        e->known = e->w->text.len;
    bool list = part->kind == TN_SH_PARAMETER && !made && memchr(text, '@', len);
    e->flags |= made && strpbrk(made, "*?[") ? TN_ARG_GLOB : 0;
    e->flags |= TN_ARG_UNKNOWN | (part->quoted && !list ? 0 : TN_ARG_MANY);
    e->started = true;
    tn_buf_add(&e->w->text, text, len);
}

/* --- parameters -------------------------------------------------------------------------- */

static void put_value(struct expansion *e, const char *value, bool quoted)
{
    bool split = e->split && !quoted;
    if (value[0] == '~' && e->w->text.len == 0)
        e->flags |= TN_ARG_TILDE; /* a home since it was assigned, or only a ~ */
    e->started = e->started || !split;
    for (; *value && tn_buf_ok(&e->w->text); value++)
        if (split && strchr(" \t\n", *value))
            emit_if_started(e);
        else
            put(e, *value, quoted || !e->split);
}

/* $@ and $*, with what a function was called with; the words of an array. */
static void put_all(struct expansion *e, const struct tn_sh_part *part, const struct tn_arg *words,
                    size_t count)
{
    bool joined = part->quoted && part->text[0] == '*';
    for (size_t i = 0; i < count && tn_buf_ok(&e->w->text); i++) {
        if (i && (joined || !e->split))
            put(e, ' ', true);
        else if (i)
            emit_if_started(e);
        put_value(e, words[i].value, part->quoted);
    }
}

/* The words of "${NAME[@]}"; NULL: it is something else, or they are not known. */
static const struct tn_arg *array_words(const struct expansion *e, const struct tn_sh_part *part,
                                        size_t *count)
{
    if (part->kind != TN_SH_PARAMETER || !part->op || !part->quoted)
        return NULL;
    tn_autofree char *written = tn_strndup(e->source + part->start, part->end - part->start);
    tn_autofree char *all = tn_asprintf("${%s[@]}", part->text);
    return strcmp(written, all) == 0 ? vars_words(e->at->vars, part->text, count) : NULL;
}

static bool all_known(const struct place *at)
{
    for (size_t i = 0; i < at->arg_count; i++)
        if (!at->args[i].value)
            return false;
    return at->has_args;
}

static const char *positional(const struct place *at, const char *name)
{
    size_t number = 0;
    for (; *name >= '0' && *name <= '9' && number < 1000; name++)
        number = 10 * number + (size_t)(*name - '0');
    if (*name || !number || !at->has_args)
        return NULL;
    return number > at->arg_count ? "" : at->args[number - 1].value;
}

static void put_part(struct expansion *e, const struct tn_sh_part *part)
{
    bool plain = part->kind == TN_SH_PARAMETER && !part->op;
    if (plain && (part->text[0] == '@' || part->text[0] == '*') && all_known(e->at)) {
        put_all(e, part, e->at->args, e->at->arg_count);
        return;
    }
    size_t count;
    const struct tn_arg *words = array_words(e, part, &count);
    if (words) {
        put_all(e, part, words, count);
        return;
    }
    const char *made = NULL, *value = plain ? positional(e->at, part->text) : NULL;
    if (plain && !value)
        value = vars_get(e->at->vars, part->text, &made);
    /* Words are split at what IFS says: only where nothing speaks of it. */
    bool splits = value && !part->quoted && e->split && strpbrk(value, " \t\n");
    if (!value || (splits && vars_touched(e->at->vars, "IFS")))
        put_unknown(e, part, value ? NULL : made);
    else
        put_value(e, value, part->quoted);
}

static void open_empty(struct expansion *e)
{
    e->started = true;
    e->flags |= TN_ARG_QUOTED;
}

static void put_atoms(struct expansion *e, const struct atom *atoms, size_t count)
{
    for (size_t i = 0; i < count && !e->w->failed; i++) {
        if (!atoms[i].part)
            put(e, atoms[i].c, atoms[i].quoted);
        else if (atoms[i].part->kind == TN_SH_TEXT)
            open_empty(e); /* '' */
        else
            put_part(e, atoms[i].part);
    }
}

/* --- braces ------------------------------------------------------------------------------ */

static bool is_char(const struct atom *atom, char c)
{
    return !atom->part && !atom->quoted && atom->c == c;
}

/* The } of the { at `open`; count when there is none.  commas: of this pair alone. */
static size_t closing(const struct atom *atoms, size_t count, size_t open, size_t *commas)
{
    size_t depth = 0;
    *commas = 0;
    for (size_t i = open; i < count; i++) {
        depth += is_char(&atoms[i], '{');
        depth -= is_char(&atoms[i], '}');
        if (depth == 0)
            return i;
        *commas += depth == 1 && is_char(&atoms[i], ',');
    }
    return count;
}

/* A sequence such as 1..10 or a..e: its ends and step.  Padded numbers and others are not made. */
struct range {
    long from, to, step;
    bool letters;
};

static bool read_end(const char *text, char **rest, long *value, bool *letter)
{
    bool alpha = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z');
    *letter = alpha && (text[1] == '.' || !text[1]);
    *value = *letter ? *text : strtol(text, rest, 10);
    if (*letter)
        *rest = (char *)(uintptr_t)(text + 1);
    bool padded = !*letter && (text[0] == '0' || (text[0] == '-' && text[1] == '0')) && text[1] &&
                  text[1] != '.';
    return *rest > text && !padded && !strchr(" \t\n+", *text);
}

static bool read_range(const struct atom *atoms, size_t count, struct range *range)
{
    char text[32] = "", *rest;
    bool letters;
    if (count == 0 || count >= sizeof(text))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (atoms[i].part || atoms[i].quoted)
            return false;
        text[i] = atoms[i].c;
    }
    if (!read_end(text, &rest, &range->from, &range->letters) || strncmp(rest, "..", 2) != 0)
        return false;
    const char *second = rest + 2;
    if (!read_end(second, &rest, &range->to, &letters) || letters != range->letters)
        return false;
    range->step = 1;
    if (strncmp(rest, "..", 2) == 0)
        range->step = strtol(rest + 2, &rest, 10);
    range->step = range->step < 0 ? -range->step : range->step ? range->step : 1;
    return *rest == 0 && labs(range->from) < 1000000 && labs(range->to) < 1000000;
}

static void braces(struct expansion *e, const struct atom *atoms, size_t count);

/* The word with its braces from `open` to `close` replaced by these atoms. */
static void with(struct expansion *e, const struct atom *atoms, size_t count, size_t open,
                 size_t close, const struct atom *inside, size_t inside_count)
{
    size_t after = count - close - 1, all = open + inside_count + after;
    tn_autofree struct atom *joined = tn_calloc(all, sizeof(*joined));
    memcpy(joined, atoms, open * sizeof(*joined));
    if (inside_count)
        memcpy(joined + open, inside, inside_count * sizeof(*joined));
    memcpy(joined + open + inside_count, atoms + close + 1, after * sizeof(*joined));
    braces(e, joined, all);
}

static void each_choice(struct expansion *e, const struct atom *atoms, size_t count, size_t open,
                        size_t close)
{
    size_t depth = 0, start = open + 1;
    for (size_t i = open; i <= close && e->count <= MAX_EXPANDED; i++) {
        depth += is_char(&atoms[i], '{');
        depth -= is_char(&atoms[i], '}');
        bool ends = (depth == 1 && is_char(&atoms[i], ',')) || i == close;
        if (!ends)
            continue;
        with(e, atoms, count, open, close, atoms + start, i - start);
        start = i + 1;
    }
}

static void each_number(struct expansion *e, const struct atom *atoms, size_t count, size_t open,
                        size_t close, const struct range *range)
{
    long step = range->from <= range->to ? range->step : -range->step;
    for (long i = range->from; step > 0 ? i <= range->to : i >= range->to; i += step) {
        struct atom digits[24] = {0};
        char text[24] = {(char)i};
        int len = range->letters ? 1 : snprintf(text, sizeof(text), "%ld", i);
        for (int k = 0; k < len; k++)
            digits[k].c = text[k];
        with(e, atoms, count, open, close, digits, (size_t)len);
        if (e->count > MAX_EXPANDED)
            return;
    }
}

/* Replaces the first braces that stand for several words, and goes on with each of these. */
static void braces(struct expansion *e, const struct atom *atoms, size_t count)
{
    for (size_t i = 0; i < count && e->count <= MAX_EXPANDED; i++) {
        struct range range;
        size_t commas;
        if (!is_char(&atoms[i], '{'))
            continue;
        size_t close = closing(atoms, count, i, &commas);
        if (close == count)
            continue;
        if (commas) {
            each_choice(e, atoms, count, i, close);
            return;
        }
        if (read_range(atoms + i + 1, close - i - 1, &range)) {
            each_number(e, atoms, count, i, close, &range);
            return;
        }
    }
    put_atoms(e, atoms, count);
    emit_if_started(e);
}

/* --- words ------------------------------------------------------------------------------- */

static struct atom *atoms_of(const struct tn_sh_word *word, size_t *count, size_t *opened)
{
    size_t room = 0, n = 0;
    for (const struct tn_sh_part *part = word->parts; part; part = part->next)
        room += part->kind == TN_SH_TEXT && part->text[0] ? strlen(part->text) : 1;
    struct atom *atoms = tn_calloc(room, sizeof(*atoms));
    *opened = 0;
    for (const struct tn_sh_part *part = word->parts; part; part = part->next) {
        if (part->kind != TN_SH_TEXT || !part->text[0]) {
            atoms[n++].part = part;
            continue;
        }
        for (const char *c = part->text; *c; c++) {
            atoms[n++] = (struct atom){.c = *c, .quoted = part->quoted};
            *opened += is_char(&atoms[n - 1], '{');
        }
    }
    *count = n;
    return atoms;
}

/* More words than anybody writes by hand: one that is not known. */
static void give_up(struct expansion *e)
{
    const struct tn_sh_part whole = {.start = e->word->start, .end = e->word->end};
    e->count = 0;
    e->flags = 0;
    tn_buf_reset(&e->w->text);
    put_unknown(e, &whole, NULL);
    emit(e);
}

static void expand(struct expansion *e)
{
    size_t count, opened;
    tn_autofree struct atom *atoms = atoms_of(e->word, &count, &opened);
    if (!e->split || !opened) {
        put_atoms(e, atoms, count);
        emit_if_started(e);
    } else {
        if (opened <= MAX_BRACES)
            braces(e, atoms, count);
        if (opened > MAX_BRACES || e->count > MAX_EXPANDED)
            give_up(e);
    }
}

void expand_words(struct walker *w, const struct place *at, const struct tn_sh_word *words,
                  struct tn_call *call)
{
    struct expansion all = {.w = w};
    for (const struct tn_sh_word *word = words; word && !w->failed; word = word->next) {
        struct expansion e = {.w = w, .at = at, .source = at->source, .word = word, .split = true};
        expand(&e);
        if (all.count + e.count > all.room) {
            all.room = 2 * (all.count + e.count);
            struct tn_arg *made = tn_arena_get(w->arena, all.room * sizeof(*made));
            if (all.count)
                memcpy(made, all.made, all.count * sizeof(*made));
            all.made = made;
        }
        if (e.count)
            memcpy(all.made + all.count, e.made, e.count * sizeof(*all.made));
        all.count += e.count;
    }
    call->argv = all.made;
    call->argc = all.count;
}

struct tn_arg expand_word(struct walker *w, const struct place *at, const struct tn_sh_word *word,
                          const char *source)
{
    struct expansion e = {.w = w, .at = at, .source = source, .word = word};
    expand(&e);
    if (e.count && !w->failed)
        return e.made[0];
    struct tn_arg empty = known_arg(w, "");
    empty.start = at->inside ? at->start : word->start;
    empty.end = at->inside ? at->end : word->end;
    return empty;
}

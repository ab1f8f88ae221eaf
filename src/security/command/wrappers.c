/* Commands that run other commands: which of their words are those. */
#include <stdint.h>

#include "security/command/walk.h"
#include "security/command/wrapper.h"

/* --- texts ------------------------------------------------------------------------------- */

static struct place inside(const struct place *at, const struct tn_call *call, unsigned flags)
{
    struct place place = *at;
    place.flags |= flags;
    place.via = call;
    place.level++;
    return place;
}

const struct tn_arg *arg_behind(struct walker *w, const struct tn_arg *arg, size_t skip)
{
    struct tn_arg *rest = tn_arena_get(w->arena, sizeof(*rest));
    *rest = *arg;
    rest->text += skip;
    rest->value = arg->value ? arg->value + skip : NULL;
    rest->known = arg->known > skip ? arg->known - skip : 0;
    return rest;
}

void run_added(struct walker *w, const struct place *at, struct tn_call *call,
               const struct tn_arg *text)
{
    struct place place = inside(at, call, TN_CALL_SUBSHELL);
    place.here = NULL;
    place.has_args = false;
    place.added = true;
    if (!text->text[0])
        return;
    call->out = call->out ? call->out : ++w->pipes; /* a pager reads what the call writes */
    place.in = call->out;
    walk_text(w, &place, call, text, false);
}

/* --- options ----------------------------------------------------------------------------- */

struct options {
    const struct wrapper *row;
    const struct place *at;
    struct tn_call *call;
    size_t next;    /* the first word behind them */
    size_t operand; /* of RUN_SED: the first one, or 0 */
    bool unsure;    /* one is not known */
    bool asks;      /* only for its version, its help, a list */
    bool seen[128]; /* letters */
    const struct tn_arg *carried;
    struct tn_buf *lines; /* of RUN_SED: of all that are carried, when there are several */
    unsigned line_flags;
    const char *replaced; /* what xargs replaces */
    bool several;
    bool file, input; /* the program is in a file, or it is read */
};

/* Whether options that are not listed are of no account. */
static bool lax(const struct wrapper *row)
{
    return row->how == RUN_OPTIONS || row->foreign;
}

/* What a letter takes: 0 nothing, 1 an argument, 2 one in the same word; -1: it is not known. */
static int letter_takes(const char *letters, char letter)
{
    const char *found = letter == ':' ? NULL : strchr(letters, letter);
    if (!found)
        return -1;
    return found[1] != ':' ? 0 : found[2] != ':' ? 1 : 2;
}

/* As letter_takes; 2: a text for a shell, if it begins with *prefix. */
static int long_takes(const struct wrapper *row, const char *name, size_t len, const char **prefix)
{
    const char *longs = row->longs;
    bool short_enough = lax(row); /* --exe is --exec */
    int takes = -1;
    for (const char *at = longs; len && (at = strstr(at, name)); at++) {
        size_t end = strcspn(at, "=! ");
        bool whole = end == len;
        if ((at != longs && at[-1] != ' ') || (!whole && !(short_enough && at[end] == '!')))
            continue;
        *prefix = at + end + 1;
        takes = at[end] == '=' ? 1 : at[end] == '!' ? 2 : 0;
        if (whole)
            return takes;
    }
    return takes;
}

/* The argument of an option: the rest of its word, or the next word. */
static const struct tn_arg *option_argument(struct walker *w, struct options *o, const char *rest)
{
    const struct tn_arg *word = &o->call->argv[o->next - 1];
    if (rest)
        return arg_behind(w, word, (size_t)(rest - word->text));
    return o->next < o->call->argc ? &o->call->argv[o->next++] : NULL;
}

/* A file that is no file: what the program reads, or another command writes. */
static bool is_input(const char *file)
{
    return strcmp(file, "-") == 0 || strncmp(file, "<(", 2) == 0 ||
           strncmp(file, "/dev/", 5) == 0 || strncmp(file, "/proc/", 6) == 0;
}

/* An option that carries a text for a shell. */
static void carry(struct walker *w, struct options *o, const struct tn_arg *text)
{
    if (o->row->how == RUN_OPTIONS && o->row->foreign)
        o->call->unseen = TN_UNSEEN_SYNTAX;
    else if (o->row->how == RUN_OPTIONS)
        run_added(w, o->at, o->call, text);
    if (o->row->how == RUN_SED) {
        tn_buf_puts(o->lines, o->carried ? "\n" : "");
        tn_buf_puts(o->lines, text->text);
        o->line_flags |= text->flags & TN_ARG_UNKNOWN;
        o->several = o->carried;
    }
    o->carried = text;
}

static void note_option(struct walker *w, struct options *o, char letter,
                        const struct tn_arg *argument)
{
    if ((unsigned char)letter < sizeof(o->seen))
        o->seen[(unsigned char)letter] = true;
    if (o->row->carry && letter && strchr(o->row->carry, letter) && argument)
        carry(w, o, argument);
    if (o->row->how == RUN_ARGS && (letter == 'I' || letter == 'i'))
        o->replaced = argument && argument->value ? argument->value : "{}";
    o->asks = o->asks || (o->row->nothing && letter && strchr(o->row->nothing, letter));
    bool own = o->row->how == RUN_OPTIONS && o->row->foreign;
    if ((o->row->how == RUN_OPERAND || o->row->how == RUN_SED || own) && letter == 'f') {
        o->file = true;
        o->input = o->input || (argument && is_input(argument->text));
    }
}

static void read_long(struct walker *w, struct options *o, const char *name)
{
    static const struct {
        const char *name;
        char letter;
    } meanings[] = {
        {"replace", 'i'}, {"file", 'f'}, {"makefile", 'f'}, {"login", 'i'}, {"shell", 's'}};
    size_t len = strcspn(name, "=");
    tn_autofree char *plain = tn_strndup(name, len);
    const char *prefix = "";
    int takes = long_takes(o->row, plain, len, &prefix);
    const struct tn_arg *argument = NULL;
    if (name[len] == '=')
        argument = option_argument(w, o, name + len + 1);
    else if (takes > 0)
        argument = option_argument(w, o, NULL);
    o->unsure = o->unsure || (takes < 0 && !lax(o->row));
    o->asks = o->asks || strcmp(plain, "version") == 0 || strcmp(plain, "help") == 0;
    if (takes == 2 && argument && strncmp(argument->text, prefix, strcspn(prefix, " ")) == 0)
        carry(w, o, arg_behind(w, argument, strcspn(prefix, " ")));
    for (size_t i = 0; i < TN_COUNT(meanings); i++)
        if (strcmp(plain, meanings[i].name) == 0)
            note_option(w, o, meanings[i].letter, argument);
}

static void read_letters(struct walker *w, struct options *o, const char *letters)
{
    for (; *letters; letters++) {
        int takes = letter_takes(o->row->letters, *letters);
        const struct tn_arg *argument = NULL;
        if (takes == 1 || (takes == 2 && letters[1]))
            argument = option_argument(w, o, letters[1] ? letters + 1 : NULL);
        o->unsure = o->unsure || (takes < 0 && !lax(o->row));
        note_option(w, o, *letters, argument);
        if (takes > 0)
            return;
    }
}

/* Letters without a dash; their arguments are the words behind. */
static void read_bundle(struct walker *w, struct options *o)
{
    for (const char *at = o->call->argv[o->next++].text; *at; at++) {
        bool takes = letter_takes(o->row->letters, *at) == 1;
        note_option(w, o, *at, takes ? option_argument(w, o, NULL) : NULL);
    }
}

static bool is_assignment(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    return len && text[len] == '=';
}

/* Whether the next word is an option (then it is read) or an assignment. */
static bool read_option(struct walker *w, struct options *o)
{
    const struct tn_arg *arg = &o->call->argv[o->next];
    const char *word = arg->text;
    bool shell = o->row->how == RUN_SHELL;
    bool assigns = o->row->how == RUN_WORDS && is_assignment(word) && !(arg->flags & TN_ARG_MANY);
    if (!arg->value && !assigns && (word[0] != '-' || arg->known < 2))
        return false;
    if (assigns) {
        see_assignment(w, o->at, o->call, &o->call->argv[o->next++]);
        return true;
    }
    if (!word[0] || !word[1] || (word[0] != '-' && !(shell && word[0] == '+'))) {
        bool dash = strcmp(word, "-") == 0 && strchr(o->row->letters, '-');
        o->next += dash;
        return dash;
    }
    o->next++;
    if (strcmp(word, "--") == 0)
        return false;
    if (strncmp(word, "--", 2) == 0)
        read_long(w, o, word + 2);
    else
        read_letters(w, o, word + 1);
    /* Behind the program of an interpreter everything is for that. */
    return !(o->carried && o->row->how == RUN_PROGRAM && o->row->language[0] == 'p' &&
             o->row->language[1] == 'y');
}

static void read_options(struct walker *w, struct options *o)
{
    /* options may follow operands */
    bool among = o->row->how == RUN_CARRIED || o->row->how == RUN_OPTIONS || o->row->how == RUN_SED;
    if (o->row->bundle && o->call->argc > 1 && o->call->argv[1].text[0] != '-')
        read_bundle(w, o);
    while (o->next < o->call->argc)
        if (!read_option(w, o)) {
            if (!among || o->next >= o->call->argc)
                return;
            o->operand = o->operand ? o->operand : o->next;
            o->next++;
        }
}

/* --- what is run ------------------------------------------------------------------------- */

static bool is_placeholder(const struct tn_arg *arg, const char *placeholder)
{
    return placeholder && strstr(arg->text, placeholder);
}

/* These words of a call, where it replaces some of them. */
static const struct tn_arg *replace_words(struct walker *w, const struct tn_call *call, size_t from,
                                          size_t to, const char *placeholder)
{
    struct tn_arg *words = tn_arena_get(w->arena, (to - from) * sizeof(*words));
    for (size_t i = from; i < to; i++) {
        struct tn_arg *word = &words[i - from];
        *word = call->argv[i];
        if (is_placeholder(word, placeholder)) {
            word->flags |= TN_ARG_UNKNOWN;
            word->known = (size_t)(strstr(word->text, placeholder) - word->text);
            word->value = NULL;
        }
    }
    return words;
}

/* The call of these words of another call. */
static void run_words(struct walker *w, const struct place *at, struct tn_call *call, size_t from,
                      size_t to, const char *placeholder, bool more)
{
    if (from >= to || !walk_inner(w, placeholder ? to - from : 0))
        return;
    const struct tn_arg *words =
        placeholder ? replace_words(w, call, from, to, placeholder) : call->argv + from;
    if (words[0].text[0] == '-')
        call->unseen = TN_UNSEEN_OPTION;
    size_t start = at->inside ? 0 : words[0].start, end = at->inside ? 0 : words[to - from - 1].end;
    struct tn_call *run = walk_add(w, at, start, end);
    if (at->inside)
        run->quote = call->quote;
    run->argv = words;
    run->argc = to - from;
    run->more = more || call->more;
    walk_name(w, run);
    see_through(w, at, run);
}

/* These words with spaces between. */
static struct tn_arg *join(struct walker *w, const struct tn_call *call, size_t from)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_SH_MAX_TEXT);
    struct tn_arg *joined = tn_arena_get(w->arena, sizeof(*joined));
    joined->flags = call->more ? TN_ARG_UNKNOWN : 0;
    for (size_t i = from; i < call->argc; i++) {
        if (i > from)
            tn_buf_putc(&text, ' ');
        tn_buf_puts(&text, call->argv[i].text);
        joined->flags |= call->argv[i].flags & TN_ARG_UNKNOWN;
    }
    if (!tn_buf_ok(&text))
        walk_too_large(w, "the words have too many characters");
    joined->text = tn_arena_copy(w->arena, tn_buf_str(&text), text.len);
    joined->value = joined->flags & TN_ARG_UNKNOWN ? NULL : joined->text;
    return joined;
}

/* A shell or interpreter that runs what it reads. */
static void run_input(struct walker *w, const struct place *at, struct tn_call *call,
                      const char *language)
{
    struct place place = *at;
    place.here = NULL;
    if (!at->here) {
        call->unseen = TN_UNSEEN_INPUT;
    } else if (language) {
        call->program = at->here->text;
        call->unseen = at->here->value ? TN_SEEN : TN_UNSEEN_SCRIPT;
    } else {
        walk_text(w, &place, call, at->here, false);
    }
}

static void run_shell(struct walker *w, struct place *at, struct tn_call *call, struct options *o)
{
    size_t next = o->next;
    bool text = o->seen['c'] && next < call->argc;
    if (text || (next < call->argc && !o->seen['s'])) {
        const struct tn_arg *first = &call->argv[next];
        if (text) {
            at->has_args = !call->more;
            at->arg_count = call->argc > next + 2 ? call->argc - next - 2 : 0;
            at->args = call->argv + call->argc - at->arg_count;
            walk_text(w, at, call, first, false);
        } else if (is_input(first->text)) {
            run_input(w, at, call, NULL);
        } else {
            call->unseen = TN_UNSEEN_FILE;
        }
    } else if (!o->asks) {
        if (call->more) /* the words that xargs adds: of a pipe, or (-a) of a file */
            call->unseen = !o->seen['c'] ? TN_UNSEEN_FILE
                           : call->in    ? TN_UNSEEN_INPUT
                                         : TN_UNSEEN_SCRIPT;
        else
            run_input(w, at, call, NULL);
    }
}

static void run_program(struct walker *w, const struct place *at, struct tn_call *call,
                        const struct options *o)
{
    const struct tn_arg *first = o->next < call->argc ? &call->argv[o->next] : NULL;
    const struct tn_arg *text = o->carried;
    if (o->row->how == RUN_OPERAND && !o->file)
        text = first;
    if (text || first || o->file || !o->asks)
        call->language = o->row->language;
    if (text) {
        call->program = text->text;
        call->unseen = text->value ? TN_SEEN : TN_UNSEEN_SCRIPT;
    } else if (!o->input && (o->file || (first && !is_input(first->text)))) {
        call->unseen = TN_UNSEEN_FILE;
    } else if (!o->asks) {
        run_input(w, at, call, call->language);
    }
}

/* A text in a language that nobody here reads is not seen if it may run a command. */
static void mark_foreign(struct tn_call *call, const char *marks)
{
    bool found = marks && !marks[0];
    for (size_t len; marks && *marks && !found; marks += len + (marks[len] == ' ')) {
        len = strcspn(marks, " ");
        found = call->program && memmem(call->program, strlen(call->program), marks, len);
    }
    if (found && call->program && call->unseen == TN_SEEN)
        call->unseen = TN_UNSEEN_SYNTAX;
}

static void run_behind(struct walker *w, const struct place *at, struct tn_call *call,
                       const struct options *o)
{
    const char *prefix;
    for (size_t i = o->next; i < call->argc; i++) {
        const char *word = call->argv[i].value;
        size_t end = i + 1;
        if (!word || long_takes(o->row, word, strlen(word), &prefix) < 0)
            continue;
        while (
            end < call->argc && strcmp(call->argv[end].text, ";") != 0 &&
            (strcmp(call->argv[end].text, "+") != 0 || strcmp(call->argv[end - 1].text, "{}") != 0))
            end++;
        run_words(w, at, call, i + 1, end, "{}", false);
        i = end;
    }
    for (size_t i = 2; i < call->argc && o->row->bare; i++)
        if (!call->argv[i].value && call->argv[i].known == 0 &&
            (call->argv[i].flags & TN_ARG_MANY) && call->unseen == TN_SEEN)
            call->unseen = TN_UNSEEN_OPTION; /* $x might be -exec */
}

/* Words of parallel end where its arguments begin. */
static size_t command_end(const struct tn_call *call, size_t from)
{
    while (from < call->argc && strncmp(call->argv[from].text, ":::", 3) != 0)
        from++;
    return from;
}

static void run_args(struct walker *w, const struct place *at, struct tn_call *call,
                     const struct options *o)
{
    bool parallel = o->row->name[0] == 'p';
    size_t end = parallel ? command_end(call, o->next) : call->argc;
    const char *placeholder = o->replaced ? o->replaced : parallel ? "{" : NULL;
    if (parallel && end == o->next) {
        call->unseen = TN_UNSEEN_INPUT;
        for (bool files = false; end < call->argc; end++) {
            const char *text = call->argv[end].text;
            bool sign = strncmp(text, ":::", 3) == 0;
            files = sign ? text[3] == ':' : files;
            if (files)
                call->unseen = TN_UNSEEN_FILE;
            else if (!sign)
                walk_text(w, at, call, &call->argv[end], false);
        }
    } else if (parallel && end == o->next + 1 && strchr(call->argv[o->next].text, ' ')) {
        struct tn_arg *text = tn_arena_get(w->arena, sizeof(*text));
        *text = call->argv[o->next];
        text->value = NULL;
        walk_text(w, at, call, text, false);
    } else {
        run_words(w, at, call, o->next, end, placeholder, !o->replaced);
    }
}

/* The first word of the command behind the operands; of kubectl exec also options stand there. */
static size_t command_start(const struct tn_call *call, const struct options *o)
{
    size_t start = o->next + o->row->operands;
    if (!o->row->operands || start >= call->argc || call->argv[start].text[0] != '-')
        return start;
    for (size_t i = start; i < call->argc; i++)
        if (strcmp(call->argv[i].text, "--") == 0)
            return i + 1;
    return start;
}

/* All lines of the script that options of sed carry. */
static const struct tn_arg *carried_lines(struct walker *w, const struct options *o)
{
    struct tn_arg *all = tn_arena_get(w->arena, sizeof(*all));
    if (!o->several)
        return o->carried;
    if (!tn_buf_ok(o->lines))
        walk_too_large(w, "the script has too many characters");
    *all = known_arg(w, tn_buf_str(o->lines));
    all->flags = o->line_flags;
    all->value = all->flags ? NULL : all->text;
    return all;
}

static void run(struct walker *w, struct place *at, struct tn_call *call, struct options *o)
{
    const struct wrapper *row = o->row;
    size_t behind = command_start(call, o);
    bool none = false;
    /* A word that may be several could have the command in it. */
    for (size_t i = 1; i < behind && i < call->argc && row->how <= RUN_JOINED; i++)
        o->unsure = o->unsure || (!call->argv[i].value && (call->argv[i].flags & TN_ARG_MANY));
    switch (row->how) {
    case RUN_WORDS:
        none = behind >= call->argc;
        if (o->carried)
            walk_text(w, at, call, o->carried, false);
        if (o->asks)
            break;
        run_words(w, at, call, behind, call->argc, NULL, false);
        break;
    case RUN_ARGS:
        run_args(w, at, call, o);
        break;
    case RUN_JOINED:
        if (behind < call->argc)
            walk_text(w, at, call, join(w, call, behind), false);
        none = behind >= call->argc;
        break;
    case RUN_EVAL:
        if (call->argc == o->next + 1 && is_setup(w, at, &call->argv[o->next]))
            break;
        if (o->next < call->argc || call->more)
            walk_text(w, at, call, join(w, call, o->next), true);
        break;
    case RUN_FIRST:
        if (o->next + 1 < call->argc)
            walk_text(w, at, call, &call->argv[o->next], true);
        break;
    case RUN_CARRIED:
        if (o->carried)
            walk_text(w, at, call, o->carried, false);
        none = !o->carried;
        break;
    case RUN_SHELL:
        run_shell(w, at, call, o);
        break;
    case RUN_PROGRAM:
    case RUN_OPERAND:
        run_program(w, at, call, o);
        mark_foreign(call, row->foreign);
        break;
    case RUN_FILE:
        if (call->argc == o->next + 1 && is_setup(w, at, &call->argv[o->next]))
            break;
        if (o->next < call->argc && is_input(call->argv[o->next].text))
            run_input(w, at, call, NULL);
        else if (o->next < call->argc)
            call->unseen = TN_UNSEEN_FILE;
        break;
    case RUN_BEHIND:
        run_behind(w, at, call, o);
        break;
    case RUN_SED:
        if (o->input && !at->here)
            call->unseen = TN_UNSEEN_INPUT;
        else if (o->input || o->carried || (!o->file && o->operand))
            see_sed(w, at, call,
                    o->input     ? at->here
                    : o->carried ? carried_lines(w, o)
                                 : &call->argv[o->operand]);
        break;
    case RUN_INPUT:
        if (at->here || row->bare) {
            call->language = row->language;
            run_input(w, at, call, row->language);
            mark_foreign(call, row->foreign);
        }
        return;
    case RUN_OPTIONS:
        if (o->input && call->unseen == TN_SEEN)
            call->unseen = TN_UNSEEN_SCRIPT;
        break;
    case RUN_PWSH:
        see_pwsh(w, at, call);
        return;
    case RUN_VERBS:
        break;
    }
    /* Without a command some are a shell. */
    bool shell = none && row->bare && row->bare[0] == '*' && !o->asks;
    for (const char *letter = none && row->bare ? row->bare : ""; *letter; letter++)
        shell = shell || o->seen[(unsigned char)*letter];
    /* the words that are added to ssh name its host */
    if (shell && !(at->added && row->flags & TN_CALL_REMOTE))
        run_input(w, at, call, NULL);
    if (o->unsure && call->unseen == TN_SEEN)
        call->unseen = TN_UNSEEN_OPTION;
}

/* --- names ------------------------------------------------------------------------------- */

/* How many words the verb of a row takes; SIZE_MAX: the call has another one. */
static size_t match_sub(const struct wrapper *row, const struct tn_call *call, size_t word)
{
    for (const char *sub = row->sub; sub && *sub; word++) {
        size_t len = strcspn(sub, " ");
        const char *value = word < call->argc ? call->argv[word].value : NULL;
        if (!value || strlen(value) != len || strncmp(value, sub, len) != 0)
            return SIZE_MAX;
        sub += len + (sub[len] == ' ');
    }
    return word;
}

/* python3.11 is python. */
static bool same_name(const char *name, const struct wrapper *row)
{
    for (const char *at = row->name; *at;) {
        size_t len = strcspn(at, " ");
        if (strncmp(name, at, len) == 0 &&
            !name[len + (row->language ? strspn(name + len, "0123456789.") : 0)])
            return true;
        at += len + (at[len] == ' ');
    }
    return false;
}

void see_through(struct walker *w, const struct place *at, struct tn_call *call)
{
    bool verbs = false, unsure = false;
    size_t first = 1; /* the word behind options that stand before a verb */
    tn_autobuf struct tn_buf lines = TN_BUF_INIT(2 * TN_SH_MAX_TEXT);
    if (at->level > MAX_LEVEL) {
        walk_too_large(w, "commands are nested too deeply");
        return;
    }
    for (size_t i = 0; i < wrapper_count && call->name[0]; i++) {
        const struct wrapper *row = &wrappers[i];
        if (!same_name(call->name, row))
            continue;
        size_t next = match_sub(row, call, first);
        verbs = verbs || (row->sub && row->sub[0] != '-');
        if (next == SIZE_MAX)
            continue;
        struct place place = inside(at, call, row->flags);
        struct options options = {.row = row,
                                  .at = &place,
                                  .call = call,
                                  .next = next,
                                  .unsure = unsure,
                                  .lines = &lines};
        if (row->how != RUN_BEHIND && row->how != RUN_INPUT && row->how != RUN_PWSH)
            read_options(w, &options);
        if (row->how == RUN_VERBS) {
            first = options.next;
            unsure = options.unsure;
            continue;
        }
        if (strcmp(row->name, "git") == 0)
            see_git_settings(w, at, call);
        run(w, &place, call, &options);
        if (row->how != RUN_BEHIND)
            return;
        verbs = false;
    }
    /* docker -H x exec: the verb is behind options. */
    const char *word = verbs && first == 1 && call->argc > 1 ? call->argv[1].text : "";
    if ((unsure || word[0] == '-') && call->argc > 2)
        call->unseen = TN_UNSEEN_OPTION;
}

#include "cli/complete.h"

#include "cli/verb.h"

/* How all three ask for the names of sandboxes: quickly. */
#define ASK "tendon ls --quiet --refresh no 2>/dev/null"

/* What can stand where a value is wanted. */
enum kind { KIND_OTHER, KIND_FILE, KIND_SANDBOX, KIND_PLACE, KIND_VERB, KIND_WORDS };

static enum kind kind_of(const struct tn_field *row)
{
    static const struct {
        const char *value;
        enum kind kind;
    } known[] = {
        {VALUE_SANDBOX, KIND_SANDBOX}, {VALUE_PLACE, KIND_PLACE}, {"VERB", KIND_VERB},
        {"FILE", KIND_FILE},           {"DIR", KIND_FILE},
    };
    const char *value = tn_field_value_name(row);

    if (row->words)
        return KIND_WORDS;
    for (size_t i = 0; i < TN_COUNT(known); i++)
        if (strcmp(value, known[i].value) == 0)
            return known[i].kind;
    return KIND_OTHER;
}

static bool positional(const struct tn_field *row)
{
    return row->flags & (TN_FIELD_POSITIONAL | TN_FIELD_REST);
}

static bool takes_value(const struct tn_field *row)
{
    return row->type != TN_FIELD_BOOL;
}

static void put_words_of(struct tn_buf *out, const struct tn_field *row)
{
    for (size_t i = 0; row->words[i]; i++)
        tn_buf_printf(out, "%s%s", i ? " " : "", row->words[i]);
}

static void put_verb_names(struct tn_buf *out)
{
    for (const struct verb *const *v = verbs; *v; v++)
        tn_buf_printf(out, "%s%s", v > verbs ? " " : "", (*v)->name);
}

/* Calls fn for the flags of every verb (verb "*": those of all). */
struct flags {
    struct tn_buf *out;
    const char *verb;
};

static void each_verb(tn_flag_fn fn, struct tn_buf *out)
{
    struct flags all = {.out = out, .verb = "*"};

    for (const struct verb *const *v = verbs; *v; v++) {
        struct flags f = {.out = out, .verb = (*v)->name};
        tn_fields_each_flag((*v)->options, fn, &f);
    }
    tn_fields_each_flag(&global_fields, fn, &all);
}

/* --- bash ---------------------------------------------------------------------------------- */

static bool put_bash_name(const struct tn_field *row, void *object, void *ctx)
{
    struct tn_buf *out = ctx;

    if (row->flag)
        tn_buf_printf(out, " %s", row->flag);
    if (row->letter)
        tn_buf_printf(out, " -%c", row->letter);
    return false;
}

/* What to offer after a flag that wants a value. */
static bool put_bash_value(const struct tn_field *row, void *object, void *ctx)
{
    const struct flags *f = ctx;
    enum kind kind = kind_of(row);
    const char *quote = strcmp(f->verb, "*") == 0 ? "" : "'";

    if (!takes_value(row) || !row->flag)
        return false;
    tn_buf_printf(f->out, "    %s%s%s' %s'", quote, f->verb, quote, row->flag);
    if (row->letter)
        tn_buf_printf(f->out, " | %s%s%s' -%c'", quote, f->verb, quote, row->letter);
    tn_buf_puts(f->out, ") ");
    if (kind == KIND_WORDS) {
        tn_buf_puts(f->out, "_tendon_offer '");
        put_words_of(f->out, row);
        tn_buf_puts(f->out, "'; ");
    } else if (kind == KIND_FILE) {
        tn_buf_puts(f->out, "COMPREPLY=($(compgen -f -- \"$cur\")); ");
    }
    tn_buf_puts(f->out, "return ;;\n");
    return false;
}

static void put_bash_positional(struct tn_buf *out, const struct verb *v)
{
    for (size_t i = 0; i < v->options->count; i++) {
        const struct tn_field *row = &v->options->rows[i];
        enum kind kind = positional(row) ? kind_of(row) : KIND_OTHER;

        if (kind == KIND_SANDBOX)
            tn_buf_puts(out, " _tendon_offer \"$(" ASK ")\";");
        if (kind == KIND_PLACE)
            tn_buf_puts(out, " _tendon_offer \"$(" ASK " | sed 's/$/:/')\"; "
                             "COMPREPLY+=($(compgen -f -- \"$cur\"));");
        if (kind == KIND_VERB) {
            tn_buf_puts(out, " _tendon_offer '");
            put_verb_names(out);
            tn_buf_puts(out, "';");
        }
        if (kind == KIND_WORDS) {
            tn_buf_puts(out, " _tendon_offer '");
            put_words_of(out, row);
            tn_buf_puts(out, "';");
        }
    }
}

static void put_bash_verb(struct tn_buf *out, const struct verb *v)
{
    tn_buf_printf(out, "    %s)\n        case $cur in\n        -*) _tendon_offer '--help", v->name);
    tn_fields_each_flag(v->options, put_bash_name, out);
    tn_fields_each_flag(&global_fields, put_bash_name, out);
    tn_buf_puts(out, "' ;;\n        *)");
    put_bash_positional(out, v);
    tn_buf_puts(out, " ;;\n        esac ;;\n");
}

/* Flags before the verb whose value is not the verb. */
static bool put_bash_skip(const struct tn_field *row, void *object, void *ctx)
{
    struct tn_buf *out = ctx;

    if (takes_value(row) && row->flag)
        tn_buf_printf(out, "%s%s", out->len && out->data[out->len - 1] == ' ' ? "" : " | ",
                      row->flag);
    if (takes_value(row) && row->letter)
        tn_buf_printf(out, " | -%c", row->letter);
    return false;
}

void put_bash_completion(struct tn_buf *out)
{
    tn_buf_puts(out, "# completion of tendon for bash; made by: tendon completion bash\n"
                     "_tendon_offer() { COMPREPLY+=($(compgen -W \"$1\" -- \"$cur\")); }\n"
                     "_tendon() {\n"
                     "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                     "    local verb= i\n"
                     "    COMPREPLY=()\n"
                     "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                     "        case ${COMP_WORDS[i]} in\n"
                     "        ");
    tn_fields_each_flag(&global_fields, put_bash_skip, out);
    tn_buf_puts(out, ") ((i++)) ;;\n"
                     "        -*) ;;\n"
                     "        *) verb=${COMP_WORDS[i]} && break ;;\n"
                     "        esac\n"
                     "    done\n"
                     "    case \"$verb $prev\" in\n");
    each_verb(put_bash_value, out);
    tn_buf_puts(out, "    esac\n"
                     "    case $verb in\n"
                     "    '') _tendon_offer '");
    put_verb_names(out);
    tn_fields_each_flag(&global_fields, put_bash_name, out);
    tn_buf_puts(out, "' ;;\n");
    for (const struct verb *const *v = verbs; *v; v++)
        put_bash_verb(out, *v);
    tn_buf_puts(out, "    esac\n"
                     "}\n"
                     "complete -o bashdefault -o default -F _tendon tendon\n");
}

/* --- zsh ----------------------------------------------------------------------------------- */

/* In single quotes, inside brackets, before a colon. */
static void put_zsh_text(struct tn_buf *out, const char *text)
{
    for (const char *c = text ? text : ""; *c; c++) {
        if (*c == '\'')
            tn_buf_puts(out, "'\\'");
        else if (strchr("[]:\\", *c))
            tn_buf_putc(out, '\\');
        tn_buf_putc(out, *c);
    }
}

static void put_zsh_action(struct tn_buf *out, const struct tn_field *row)
{
    static const char *const actions[] = {
        [KIND_OTHER] = "",
        [KIND_FILE] = "_files",
        [KIND_SANDBOX] = "_tendon_sandboxes",
        [KIND_PLACE] = "_tendon_places",
        [KIND_VERB] = "_tendon_verbs",
    };

    tn_buf_putc(out, ':');
    put_zsh_text(out, tn_field_value_name(row));
    tn_buf_putc(out, ':');
    if (kind_of(row) != KIND_WORDS) {
        tn_buf_puts(out, actions[kind_of(row)]);
        return;
    }
    tn_buf_putc(out, '(');
    put_words_of(out, row);
    tn_buf_putc(out, ')');
}

static void put_zsh_spec(struct tn_buf *out, const struct tn_field *row, const char *flag,
                         char letter)
{
    tn_buf_puts(out, " \\\n        '*");
    if (flag)
        tn_buf_puts(out, flag);
    else
        tn_buf_printf(out, "-%c", letter);
    tn_buf_putc(out, '[');
    put_zsh_text(out, row->help);
    tn_buf_putc(out, ']');
    if (takes_value(row))
        put_zsh_action(out, row);
    tn_buf_putc(out, '\'');
}

static bool put_zsh_flag(const struct tn_field *row, void *object, void *ctx)
{
    if (row->flag)
        put_zsh_spec(ctx, row, row->flag, 0);
    if (row->letter)
        put_zsh_spec(ctx, row, NULL, row->letter);
    return false;
}

static void put_zsh_positionals(struct tn_buf *out, const struct verb *v)
{
    int position = 0;

    for (size_t i = 0; i < v->options->count; i++) {
        const struct tn_field *row = &v->options->rows[i];
        if (!positional(row))
            continue;
        tn_buf_puts(out, " \\\n        '");
        if (row->type == TN_FIELD_STRINGS)
            tn_buf_putc(out, '*');
        else
            tn_buf_printf(out, "%d", ++position);
        put_zsh_action(out, row);
        tn_buf_putc(out, '\'');
    }
}

void put_zsh_completion(struct tn_buf *out)
{
    tn_buf_puts(out, "#compdef tendon\n"
                     "# completion of tendon for zsh; made by: tendon completion zsh\n"
                     "_tendon_sandboxes() { compadd -- ${(f)\"$(" ASK ")\"} }\n"
                     "_tendon_places() { compadd -S '' -- ${^${(f)\"$(" ASK ")\"}}: ; _files }\n"
                     "_tendon_verbs() {\n"
                     "    local -a verbs=(");
    for (const struct verb *const *v = verbs; *v; v++) {
        tn_buf_printf(out, "\n        '%s:", (*v)->name);
        put_zsh_text(out, (*v)->summary);
        tn_buf_putc(out, '\'');
    }
    tn_buf_puts(out, ")\n"
                     "    _describe verb verbs\n"
                     "}\n"
                     "_tendon() {\n"
                     "    local curcontext=$curcontext state line\n"
                     "    typeset -A opt_args\n"
                     "    _arguments -C -S");
    tn_fields_each_flag(&global_fields, put_zsh_flag, out);
    tn_buf_puts(out, " \\\n        '1:verb:_tendon_verbs' '*::argument:->argument'\n"
                     "    [[ $state == argument ]] || return\n"
                     "    case $words[1] in\n");
    for (const struct verb *const *v = verbs; *v; v++) {
        tn_buf_printf(out, "    %s) _arguments -S", (*v)->name);
        tn_buf_puts(out, " \\\n        '(- *)'{-h,--help}'[print how it is used]'");
        tn_fields_each_flag((*v)->options, put_zsh_flag, out);
        tn_fields_each_flag(&global_fields, put_zsh_flag, out);
        put_zsh_positionals(out, *v);
        tn_buf_puts(out, " ;;\n");
    }
    tn_buf_puts(out, "    esac\n"
                     "}\n"
                     "if [[ $funcstack[1] == _tendon ]]; then _tendon \"$@\"; else compdef _tendon "
                     "tendon; fi\n");
}

/* --- fish ---------------------------------------------------------------------------------- */

static void put_fish_text(struct tn_buf *out, const char *text)
{
    for (const char *c = text ? text : ""; *c; c++) {
        if (strchr("'\\", *c))
            tn_buf_putc(out, '\\');
        tn_buf_putc(out, *c);
    }
}

static void put_fish_values(struct tn_buf *out, const struct tn_field *row)
{
    switch (kind_of(row)) {
    case KIND_WORDS:
        tn_buf_puts(out, " -x -a '");
        put_words_of(out, row);
        tn_buf_putc(out, '\'');
        break;
    case KIND_FILE:
        tn_buf_puts(out, " -r -F");
        break;
    case KIND_SANDBOX:
    case KIND_PLACE:
    case KIND_VERB:
    case KIND_OTHER:
        tn_buf_puts(out, " -x");
        break;
    }
}

static bool put_fish_flag(const struct tn_field *row, void *object, void *ctx)
{
    const struct flags *f = ctx;

    tn_buf_puts(f->out, "complete -c tendon");
    if (strcmp(f->verb, "*") != 0)
        tn_buf_printf(f->out, " -n '__fish_seen_subcommand_from %s'", f->verb);
    if (row->flag)
        tn_buf_printf(f->out, " -l %s", row->flag + 2);
    if (row->letter)
        tn_buf_printf(f->out, " -s %c", row->letter);
    if (takes_value(row))
        put_fish_values(f->out, row);
    tn_buf_puts(f->out, " -d '");
    put_fish_text(f->out, row->help);
    tn_buf_puts(f->out, "'\n");
    return false;
}

static void put_fish_positionals(struct tn_buf *out, const struct verb *v)
{
    for (size_t i = 0; i < v->options->count; i++) {
        const struct tn_field *row = &v->options->rows[i];
        enum kind kind = positional(row) ? kind_of(row) : KIND_OTHER;

        if (kind == KIND_OTHER || kind == KIND_FILE)
            continue;
        tn_buf_printf(out, "complete -c tendon -n '__fish_seen_subcommand_from %s' -%c -a '",
                      v->name, kind == KIND_PLACE ? 'F' : 'f');
        if (kind == KIND_WORDS)
            put_words_of(out, row);
        else if (kind == KIND_VERB)
            put_verb_names(out);
        else
            tn_buf_puts(out, kind == KIND_PLACE ? "(" ASK " | string replace -r \"\\$\" :)"
                                                : "(" ASK ")");
        tn_buf_puts(out, "'\n");
    }
}

void put_fish_completion(struct tn_buf *out)
{
    tn_buf_puts(out, "# completion of tendon for fish; made by: tendon completion fish\n"
                     "complete -c tendon -f\n");
    for (const struct verb *const *v = verbs; *v; v++) {
        tn_buf_printf(out, "complete -c tendon -n __fish_use_subcommand -a %s -d '", (*v)->name);
        put_fish_text(out, (*v)->summary);
        tn_buf_puts(out, "'\n");
    }
    tn_buf_puts(out, "complete -c tendon -l help -s h -d 'print how it is used'\n");
    each_verb(put_fish_flag, out);
    for (const struct verb *const *v = verbs; *v; v++)
        put_fish_positionals(out, *v);
}

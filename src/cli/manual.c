#include "cli/manual.h"

#include "cli/verb.h"

/* --- mdoc ---------------------------------------------------------------------------------- */

/* A line of text: nothing in it is taken for a macro or an escape. */
static void put_text(struct tn_buf *out, const char *text, size_t n)
{
    if (n && (*text == '.' || *text == '\''))
        tn_buf_puts(out, "\\&");
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\')
            tn_buf_puts(out, "\\e");
        else
            tn_buf_putc(out, text[i]);
    }
}

/* "~." is none. */
static bool ends_sentence(const char *text, size_t at)
{
    return strchr(".:?", text[at]) && (text[at + 1] == ' ' || text[at + 1] == '\n') &&
           !(at > 0 && text[at - 1] == '~');
}

/* Sentences, each on a line of its own, as mdoc wants it. */
static void put_paragraph(struct tn_buf *out, const char *text)
{
    while (*text) {
        size_t n = 0;
        while (text[n] && !ends_sentence(text, n))
            n++;
        n += text[n] != '\0';
        tn_autofree char *sentence = tn_strndup(text, n);
        for (char *c = sentence; *c; c++)
            if (*c == '\n')
                *c = ' ';
        put_text(out, sentence, strlen(sentence));
        tn_buf_putc(out, '\n');
        text += n;
        text += strspn(text, " \n");
    }
}

/* Details are paragraphs; one that has a line "word: ..." per line is a list of examples. */
static bool is_list(const char *text)
{
    const char *colon = strchr(text, ':'), *blank = strchr(text, ' ');

    return colon && blank && colon < blank && strchr(text, '\n');
}

static void put_details(struct tn_buf *out, const char *text)
{
    if (!is_list(text)) {
        put_paragraph(out, text);
        return;
    }
    tn_buf_puts(out, ".Bd -literal -offset indent\n");
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        put_text(out, line, n);
        tn_buf_putc(out, '\n');
        line += n + (line[n] == '\n');
    }
    tn_buf_puts(out, ".Ed\n");
}

/* An argument of a macro: quoted, because of blanks and of words that are macros themselves. */
static void put_argument(struct tn_buf *out, const char *text)
{
    tn_buf_puts(out, " \"");
    for (const char *c = text; *c; c++)
        tn_buf_puts(out, *c == '"' ? "\"\"" : (char[]){*c, '\0'});
    tn_buf_putc(out, '"');
}

/* --- options ------------------------------------------------------------------------------- */

static bool positional(const struct tn_field *row)
{
    return row->flags & (TN_FIELD_POSITIONAL | TN_FIELD_REST);
}

static void put_words_of(struct tn_buf *out, const struct tn_field *row)
{
    tn_buf_puts(out, "One of");
    for (size_t i = 0; row->words[i]; i++)
        tn_buf_printf(out, "\n.Cm %s%s", row->words[i],
                      !row->words[i + 1]   ? " ."
                      : !row->words[i + 2] ? "\nor"
                                           : " ,");
    tn_buf_putc(out, '\n');
}

static void put_row_help(struct tn_buf *out, const struct tn_field *row)
{
    const char *help = row->help ? row->help : "";
    char first[2] = {(char)(*help >= 'a' && *help <= 'z' ? *help - 'a' + 'A' : *help), '\0'};

    if (*help) {
        bool open_end = help[strlen(help) - 1] == '.';
        tn_autofree char *sentence = tn_asprintf("%s%s%s", first, help + 1, open_end ? "" : ".");
        put_text(out, sentence, strlen(sentence));
        tn_buf_putc(out, '\n');
    }
    if (row->words && row->type != TN_FIELD_BOOL)
        put_words_of(out, row);
    if (row->fallback && *row->fallback && row->type != TN_FIELD_BOOL &&
        !(row->flags & TN_FIELD_SECRET))
        tn_buf_printf(out, "The default is %s.\n", row->fallback);
    if (row->env)
        tn_buf_printf(out, "Also set by\n.Ev %s .\n", row->env);
}

static bool put_flag(const struct tn_field *row, void *object, void *ctx)
{
    struct tn_buf *out = ctx;

    tn_buf_puts(out, ".It");
    if (row->letter)
        tn_buf_printf(out, " Fl %c%s", row->letter, row->flag ? " ," : "");
    if (row->flag)
        tn_buf_printf(out, " Fl -%s", row->flag + 2);
    if (row->type != TN_FIELD_BOOL) {
        tn_buf_puts(out, " Ar");
        put_argument(out, tn_field_value_name(row));
    }
    tn_buf_putc(out, '\n');
    put_row_help(out, row);
    return false;
}

/* What all verbs that make sandboxes have stands in a section of its own. */
static bool makes_sandboxes(const struct verb *v)
{
    for (size_t i = 0; i < v->options->count; i++)
        if (v->options->rows[i].fields == &tn_spec_fields)
            return true;
    return false;
}

static void put_options(struct tn_buf *out, const struct verb *v)
{
    tn_autobuf struct tn_buf list = TN_BUF_INIT(1 << 18);

    for (size_t i = 0; i < v->options->count; i++) {
        const struct tn_field *row = &v->options->rows[i];
        if (row->fields == &tn_spec_fields)
            continue;
        if (positional(row)) {
            tn_buf_puts(&list, ".It Ar");
            put_argument(&list, tn_field_value_name(row));
            tn_buf_putc(&list, '\n');
            put_row_help(&list, row);
        } else {
            tn_fields_each_flag(&(struct tn_fields){.rows = row, .count = 1}, put_flag, &list);
        }
    }
    if (list.len)
        tn_buf_printf(out, ".Bl -tag -width Ds\n%s.El\n", tn_buf_str(&list));
    if (makes_sandboxes(v))
        tn_buf_puts(out, ".Pp\nIt also takes the options of\n.Sx SANDBOXES .\n");
}

/* --- the page ------------------------------------------------------------------------------ */

static void put_usage(struct tn_buf *out, const struct verb *v)
{
    tn_buf_printf(out, "Cm %s\n", v->name);
    tn_buf_puts(out, ".Op Ar options\n");
    for (size_t i = 0; i < v->options->count; i++) {
        const struct tn_field *row = &v->options->rows[i];
        if (!positional(row))
            continue;
        tn_buf_puts(out, row->flags & TN_FIELD_REQUIRED ? ".Ar" : ".Op Ar");
        put_argument(out, tn_field_value_name(row));
        tn_buf_puts(out, row->type == TN_FIELD_STRINGS ? " ...\n" : "\n");
    }
}

static void put_verb(struct tn_buf *out, const struct verb *v)
{
    char first[2] = {(char)(*v->summary - 'a' + 'A'), '\0'};

    tn_buf_puts(out, ".It Xo\n.");
    put_usage(out, v);
    tn_buf_puts(out, ".Xc\n");
    tn_autofree char *summary = tn_asprintf("%s%s.", first, v->summary + 1);
    put_text(out, summary, strlen(summary));
    tn_buf_putc(out, '\n');
    if (v->details)
        put_details(out, v->details);
    put_options(out, v);
}

static void put_verbs(struct tn_buf *out)
{
    tn_buf_puts(out, ".Sh VERBS\n");
    for (int group = 0; group < VERB_GROUPS; group++) {
        tn_buf_printf(out, ".Ss %s\n.Bl -tag -width Ds\n", verb_group_titles[group]);
        for (const struct verb *const *v = verbs; *v; v++)
            if ((int)(*v)->group == group)
                put_verb(out, *v);
        tn_buf_puts(out, ".El\n");
    }
}

/* Several codes may have one status. */
static void put_statuses(struct tn_buf *out)
{
    static const struct {
        int status;
        const char *meaning;
    } rows[] = {
        {0, "everything went well"},
        {1, "doctor: the runtime does not work; the tour: a step did not end as it should"},
        {2, "wrong usage"},
        {65, "what was given is too large or not acceptable"},
        {66, "no such sandbox, file, image or program"},
        {69, "the runtime or this machine cannot do that"},
        {70, "an internal error"},
        {73, "it exists already, or is in a state that forbids it"},
        {74, "an error of input or output"},
        {75, "at capacity now, try again"},
        {76, "the sandbox, its hand or its engine went away or did not speak its protocol"},
        {77, "permission denied"},
        {124, "not done in time"},
    };

    tn_buf_puts(out, ".Sh EXIT STATUS\n"
                     ".Cm run ,\n.Cm exec\nand\n.Cm shell\n"
                     "exit with the status of the command or shell inside.\n"
                     "Everything else, and they themselves when they fail, exit with:\n"
                     ".Pp\n.Bl -tag -width Ds -compact\n");
    for (size_t i = 0; i < TN_COUNT(rows); i++)
        tn_buf_printf(out, ".It %d\n%s\n", rows[i].status, rows[i].meaning);
    tn_buf_puts(out, ".It 128 + N\n.Nm\nitself was ended by signal N\n.El\n");
}

void put_manual(struct tn_buf *out)
{
    tn_buf_puts(
        out,
        ".\\\" Made by print-manual from the tables in src/cli: do not edit.\n"
        ".Dd November 15, 2026\n.Dt TENDON 1\n.Os\n"
        ".Sh NAME\n.Nm tendon\n.Nd give an AI agent a computer of its own\n"
        ".Sh SYNOPSIS\n.Nm\n.Op Ar options\n.Ar verb\n.Op Ar argument ...\n"
        ".Sh DESCRIPTION\n"
        ".Nm\n"
        "makes sandboxes, works in them and takes them away again.\n"
        "A sandbox is a computer of its own for an AI agent: a shell, files, a network or none.\n"
        "It is held by a runtime: a jail of this machine's kernel, a container, or just a process;\n"
        "inside,\n.Xr tendon-hand 1\ncarries out actions and reports what came of them.\n"
        ".Pp\n"
        "A sandbox is called by its name, its id, or a start of the id that fits no other.\n"
        "What a runtime cannot give to a sandbox is an error, never left out in silence.\n"
        ".Pp\nThese options may stand before or behind every verb:\n.Bl -tag -width Ds\n");
    tn_fields_each_flag(&global_fields, put_flag, out);
    tn_buf_puts(out, ".It Fl h , Fl -help\nPrint how the verb is used.\n.El\n");
    put_verbs(out);
    tn_buf_puts(out,
                ".Sh SANDBOXES\n"
                "What a new sandbox shall be is said by these options, by a\n"
                ".Li [template.NAME]\n"
                "section of the configuration, or by the runtime's own section, in that order.\n"
                ".Bl -tag -width Ds\n");
    tn_fields_each_flag(&tn_spec_fields, put_flag, out);
    tn_buf_puts(out, ".El\n");
    tn_buf_puts(
        out,
        ".Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
        ".It Ev TENDON_CONFIG\nThe configuration file.\n"
        ".It Ev TENDON_STATE\nThe state directory, which nobody but you may write to.\n"
        ".It Ev TENDON_RUNTIME\nThe runtime of new sandboxes.\n"
        ".It Ev TENDON_HAND_PROGRAM\nThe\n.Xr tendon-hand 1\nthat goes into sandboxes.\n"
        ".It Ev DOCKER_HOST\nWhere the container engine is.\n"
        ".It Ev NO_COLOR\nWhen set and not empty, nothing is coloured.\n"
        "Colours are for terminals only in any case.\n"
        ".It Ev XDG_CONFIG_HOME , XDG_STATE_HOME\n"
        "Where configuration and state are, instead of\n.Pa ~/.config\nand\n.Pa ~/.local/state .\n"
        ".El\n"
        "Every key of the configuration has a variable:\n.Nm\n.Cm config\nlists them.\n"
        ".Sh FILES\n.Bl -tag -width Ds\n"
        ".It Pa config.toml , ~/.config/tendon/config.toml\n"
        "The configuration; that of OpenHands is read as it is.\n"
        ".It Pa ~/.local/state/tendon\n"
        "What exists: a database, and a directory for each sandbox.\n"
        "It is written before anything is made, so that whatever a killed process leaves is found\n"
        "and removed by the next start.\n"
        ".El\n");
    put_statuses(out);
    tn_buf_puts(out, ".Sh EXAMPLES\n"
                     "Take the tour:\n.Pp\n.Dl $ tendon run\n.Pp\n"
                     "Run a line of shell in a fresh sandbox that sees this directory:\n"
                     ".Pp\n.Dl $ tendon run -v \"$PWD:/src:ro\" 'ls /src | wc -l'\n.Pp\n"
                     "Make one that stays, copy a project into it, work in it, remove it:\n"
                     ".Bd -literal -offset indent\n"
                     "$ tendon new --name web --memory 2g\n"
                     "$ tendon cp project web:\n"
                     "$ tendon exec web -- make -C project test\n"
                     "$ tendon shell web\n"
                     "$ tendon rm web\n"
                     ".Ed\n.Pp\n"
                     "Try something and take it back:\n"
                     ".Bd -literal -offset indent\n"
                     "$ tendon snapshot web before\n"
                     "$ tendon exec web 'rm -rf project'\n"
                     "$ tendon rollback web before\n"
                     ".Ed\n.Pp\n"
                     "Look at a server inside with a browser outside:\n"
                     ".Pp\n.Dl $ tendon open web 8000\n"
                     ".Sh SEE ALSO\n.Xr tendon-hand 1\n");
}

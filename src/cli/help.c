#include "cli/verb.h"

struct help_options {
    char *verb;
};

static const struct tn_field rows[] = {
    TN_STRING("verb", struct help_options, verb, .flags = TN_FIELD_POSITIONAL, .value = "VERB",
              .help = "explain this one"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

void put_program_help(struct tn_buf *out)
{
    tn_buf_puts(out,
                "tendon gives an AI agent a computer of its own.\n\nUsage: tendon VERB [...]\n");
    for (int group = 0; group < VERB_GROUPS; group++) {
        tn_buf_printf(out, "\n%s:\n", verb_group_titles[group]);
        for (const struct verb *const *v = verbs; *v; v++)
            if ((int)(*v)->group == group)
                tn_buf_printf(out, "  %-11s %s\n", (*v)->name, (*v)->summary);
    }
    tn_buf_puts(out, "\nOptions of every verb:\n");
    tn_fields_help_flags(&global_fields, out);
    tn_buf_puts(out, "\n`tendon help VERB` explains one; `man tendon` has the whole story.\n");
}

void put_verb_help(const struct verb *v, struct tn_buf *out)
{
    tn_autofree char *program = tn_asprintf("tendon %s", v->name);

    tn_fields_help(v->options, program, out);
    tn_buf_puts(out, "\nOptions of every verb:\n");
    tn_fields_help_flags(&global_fields, out);
    if (v->details)
        tn_buf_printf(out, "\n%s\n", v->details);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct help_options *options = given;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(256 << 10);

    if (options->verb) {
        const struct verb *v = find_verb(options->verb, err);
        if (!v)
            return -1;
        put_verb_help(v, &text);
    } else {
        put_program_help(&text);
    }
    fputs(tn_buf_str(&text), stdout);
    return 0;
}

const struct verb verb_help = {
    .name = "help",
    .group = VERB_SYSTEM,
    .summary = "print this, or how a verb is used",
    .options = &options_table,
    .options_size = sizeof(struct help_options),
    .run = run,
};

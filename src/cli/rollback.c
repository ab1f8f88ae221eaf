#include "cli/progress.h"
#include "cli/verb.h"

struct rollback_options {
    char *sandbox, *name;
};

static const struct tn_field rows[] = {
    TN_STRING("sandbox", struct rollback_options, sandbox,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = VALUE_SANDBOX,
              .help = "id, start of the id, or name"),
    TN_STRING("name", struct rollback_options, name,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = "NAME",
              .help = "the snapshot"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct rollback_options *options = given;
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);

    if (!sb)
        return -1;
    progress_begin("rolling back");
    int r = tn_sandbox_rollback(sb, options->name, cli_start_deadline(cli), err);
    progress_end();
    if (r == 0 && cli->json)
        printf("{\"sandbox\":\"%s\",\"snapshot\":\"%s\"}\n", tn_sandbox_record(sb)->id,
               options->name);
    return r;
}

const struct verb verb_rollback = {
    .name = "rollback",
    .group = VERB_LIFE,
    .summary = "return the files of a sandbox to a snapshot",
    .details = "Its processes end. Everything written since the snapshot is lost.",
    .options = &options_table,
    .options_size = sizeof(struct rollback_options),
    .run = run,
};

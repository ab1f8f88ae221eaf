#include "cli/fresh.h"
#include "cli/job.h"
#include "cli/record.h"
#include "cli/verb.h"

struct fork_options {
    char *name, *from;
    struct tn_json *labels;
    struct tn_opt_double lease;
    char *sandbox;
};

static const struct tn_field rows[] = {
    TN_STRING("name", struct fork_options, name, .flag = "--name", .value = "NAME",
              .help = "name of the new sandbox"),
    TN_STRING("from", struct fork_options, from, .flag = "--from", .value = "SNAPSHOT",
              .help = "start from this snapshot [the files as they are now]"),
    TN_JSON("labels", struct fork_options, labels, .flags = TN_FIELD_NULLABLE | TN_FIELD_MAP,
            .flag = "--label", .letter = 'l', .value = "NAME=VALUE", .help = "label it"),
    TN_OPT_DOUBLE("lease", struct fork_options, lease, .flags = TN_FIELD_NULLABLE,
                  .flag = "--lease", .value = "S", .min = 0, .max = 1e9,
                  .help = "seconds after the last use when it may be removed; 0: never"),
    TN_STRING("sandbox", struct fork_options, sandbox,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = VALUE_SANDBOX,
              .help = "the one to fork: id, start of the id, or name"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct fork_job {
    struct cli *cli;
    const struct fork_options *options;
    struct tn_sandbox *parent;
    struct fresh fresh;
};

static int work(void *ctx, struct tn_error *err)
{
    struct fork_job *j = ctx;
    struct tn_spec spec;

    tn_spec_init(&spec);
    spec.name = tn_strdup_or_null(j->options->name);
    spec.keep = true;
    spec.lease = j->options->lease;
    spec.labels = tn_json_ref(j->options->labels);
    int r = fresh_fork(&j->fresh, j->parent, j->options->from, &spec, err);
    tn_spec_done(&spec);
    if (r < 0)
        return -1;
    fresh_leave(&j->fresh);
    return print_new(j->cli, j->fresh.sb, err);
}

static void abandon(void *ctx)
{
    struct fork_job *j = ctx;

    fresh_abandon(&j->fresh);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct fork_options *options = given;
    tn_autosandbox struct tn_sandbox *parent = cli_sandbox(cli, options->sandbox, err);
    struct fork_job j = {.cli = cli, .options = options, .parent = parent};

    if (!parent)
        return -1;
    fresh_init(&j.fresh, cli);
    int status = job_run(&(struct job){.work = work, .abandon = abandon, .ctx = &j}, err);
    fresh_done(&j.fresh);
    return status;
}

const struct verb verb_fork = {
    .name = "fork",
    .group = VERB_LIFE,
    .summary = "make a new sandbox that starts with the files of another",
    .details = "Prints the name of the new one. Both go their own ways from there: neither sees\n"
               "what the other writes.",
    .options = &options_table,
    .options_size = sizeof(struct fork_options),
    .run = run,
};

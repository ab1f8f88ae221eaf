#include "base/clock.h"
#include "cli/fresh.h"
#include "cli/job.h"
#include "cli/record.h"
#include "cli/verb.h"

struct new_options {
    struct tn_spec spec;
    char *template;
    int64_t warm;
};

static const struct tn_field rows[] = {
    TN_OBJECT("spec", struct new_options, spec, &tn_spec_fields),
    TN_STRING("template", struct new_options, template, .flag = "--template", .letter = 't',
              .value = "NAME", .help = "start from [template.NAME] of the configuration"),
    TN_INT("warm", struct new_options, warm, .flag = "--warm", .value = "N", .max = 10000,
           .help = "make no sandbox, but have N of this kind waiting for later ones"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct new_job {
    struct cli *cli;
    const struct new_options *options;
    struct tn_spec spec;
    struct fresh fresh;
};

static int fill_pool(struct new_job *j, struct tn_error *err)
{
    int made = tn_pool_fill(cli_runtime(j->cli, err), &j->spec, (int)j->options->warm,
                            tn_deadline_in(60.0 * (double)j->options->warm), err);

    if (made < 0)
        return -1;
    printf(j->cli->json ? "{\"made\":%d}\n" : "%d\n", made);
    return 0;
}

static int work(void *ctx, struct tn_error *err)
{
    struct new_job *j = ctx;

    if (j->options->warm)
        return fill_pool(j, err);
    if (fresh_make(&j->fresh, &j->spec, err) < 0)
        return -1;
    /* Whoever reads the id may use it at once. */
    if (!tn_sandbox_client(j->fresh.sb, cli_start_deadline(j->cli), err)) {
        fresh_remove(&j->fresh, NULL);
        return -1;
    }
    fresh_leave(&j->fresh);
    return print_new(j->cli, j->fresh.sb, err);
}

static void abandon(void *ctx)
{
    struct new_job *j = ctx;

    fresh_abandon(&j->fresh);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    struct new_job j = {.cli = cli, .options = given};
    int status = -1;

    fresh_init(&j.fresh, cli);
    if (cli_spec(cli, j.options->template, &j.options->spec, &j.spec, err) == 0 &&
        cli_runtime_for(cli, &j.spec, err)) {
        j.spec.keep = true;
        status = job_run(&(struct job){.work = work, .abandon = abandon, .ctx = &j}, err);
    }
    fresh_done(&j.fresh);
    tn_spec_done(&j.spec);
    return status;
}

const struct verb verb_new = {
    .name = "new",
    .group = VERB_LIFE,
    .summary = "make a sandbox that stays, and print its name",
    .details = "The sandbox stays until it is removed (tendon rm), or until its --lease has run\n"
               "out. What its backend cannot give it (a limit, a network, a device) is an error,\n"
               "never left out.",
    .options = &options_table,
    .options_size = sizeof(struct new_options),
    .run = run,
};

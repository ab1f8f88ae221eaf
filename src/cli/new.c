#include "base/clock.h"
#include "cli/fresh.h"
#include "cli/job.h"
#include "cli/progress.h"
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

/* How many were made until that many wait, or -1. */
static int have_warm(struct new_job *j, int64_t count, struct tn_error *err)
{
    return tn_pool_fill(cli_runtime(j->cli, err), &j->spec, (int)count,
                        tn_deadline_in(60.0 * (double)count), err);
}

static int fill_pool(struct new_job *j, struct tn_error *err)
{
    int made = have_warm(j, j->options->warm, err);

    if (made < 0)
        return -1;
    printf(j->cli->json ? "{\"made\":%d}\n" : "%d\n", made);
    return 0;
}

/* What the configuration wants to wait for the next one of this kind.  That it could not be made is
 * no failure of the one that was asked for. */
static void keep_warm(struct new_job *j)
{
    const struct tn_config *c = tn_runtime_host(cli_runtime(j->cli, NULL))->config;
    bool local = strcmp(tn_sandbox_backend(j->fresh.sb)->name, "local") == 0;
    int64_t count = c->tendon.warm;
    struct tn_error why = {0};

    if (local && c->local.initial_warm > count)
        count = c->local.initial_warm;
    if (local && c->local.desired_warm > count)
        count = c->local.desired_warm;
    if (count <= 0 || j->spec.secrets.count)
        return;
    free(TN_TAKE_PTR(j->spec.name));
    progress_begin("making warm sandboxes");
    if (have_warm(j, count, &why) < 0)
        cli_note(j->cli, "warm sandboxes: %s", why.text);
    progress_end();
}

/* A backend that publishes ports may have made one whose only way is the gate's. */
static void tell_ports(const struct new_job *j)
{
    const struct tn_backend *backend = tn_sandbox_backend(j->fresh.sb);
    const struct tn_record *r = tn_sandbox_record(j->fresh.sb);
    const struct tn_str_list *allow = NULL;

    if (!j->spec.ports.count || !backend->url || !backend->network)
        return;
    backend->network(tn_runtime_host(cli_runtime(j->cli, NULL)), &j->spec, r->ref, &allow);
    if (allow)
        cli_note(j->cli,
                 "ports: none is published behind the gate; reach them with: tendon port %s",
                 r->id);
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
    int status = print_new(j->cli, j->fresh.sb, err);
    fflush(stdout);
    if (status == 0) {
        tell_ports(j);
        keep_warm(j);
    }
    return status;
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

#include <signal.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/docker.h"
#include "cli/fresh.h"
#include "cli/job.h"
#include "cli/show.h"
#include "cli/tour.h"
#include "cli/units.h"
#include "cli/verb.h"
#include "runtime/programs.h"

#define MAX_COMMAND (8u << 20)

enum { NOT_FOUND = 127 }; /* as shells say it */

struct run_options {
    struct tn_spec spec;
    char *template;
    double timeout;
    bool remove;
    struct tn_str_list command;
};

static const struct tn_field rows[] = {
    TN_OBJECT("spec", struct run_options, spec, &tn_spec_fields),
    TN_STRING("template", struct run_options, template, .flag = "--template", .letter = 't',
              .value = "NAME", .help = "start from [template.NAME] of the configuration"),
    TN_DOUBLE("timeout", struct run_options, timeout, .flag = "--timeout", .value = "S",
              .min = 0.001, .max = 1e8,
              .help = "seconds the command may take [as long as it takes]"),
    TN_BOOL("rm", struct run_options, remove, .flag = "--rm",
            .help = "remove the sandbox at the end, as it is anyway without --keep"),
    TN_STRINGS("command", struct run_options, command, .flags = TN_FIELD_POSITIONAL | TN_FIELD_REST,
               .value = "COMMAND",
               .help = "one line for the shell, or a program and its arguments"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct run_job {
    struct cli *cli;
    const struct run_options *options;
    struct tn_spec spec;
    struct fresh fresh;
    struct command command;
};

/* --- the tour ------------------------------------------------------------------------------ */

static int put_layer(const char *key, struct tn_json *value, void *ctx)
{
    if (tn_json_type(value) == TN_JSON_BOOL && tn_json_bool(value, false))
        tn_buf_printf(ctx, "%s%s", ((struct tn_buf *)ctx)->len ? ", " : "", key);
    return 0;
}

static void print_isolation(const struct tn_record *r)
{
    tn_autobuf struct tn_buf layers = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *json = NULL;

    if (r->isolation && tn_json_parse(r->isolation, strlen(r->isolation), &json, NULL) == 0)
        tn_json_each(json, put_layer, &layers);
    if (layers.len)
        printf("isolated by: %s\n", tn_buf_str(&layers));
    else
        printf("not isolated: it runs on this machine, as you\n");
}

static int take_tour(struct tn_sandbox *sb, int64_t started, struct tn_error *err)
{
    struct show s = show_on(stdout);
    char made[32], ready[32];

    format_time(tn_now() - started, made);
    tn_autofree char *workspace = tour_warm_up(sb, err);
    if (!workspace)
        return -1;
    printf("tendon %s: a sandbox of its own (%s)\nready after %s, its shell after %s\n", TN_VERSION,
           tn_sandbox_backend(sb)->name, made, format_time(tn_now() - started, ready));
    print_isolation(tn_sandbox_record(sb));
    int failed = tour(sb, workspace, &s, err);
    if (failed < 0)
        return -1;
    if (failed)
        return 1;
    tn_autofree char *name = tn_program_called();
    printf("\nYour turn: %1$s run 'COMMAND', or in your browser: %1$s serve\n", name);
    return 0;
}

/* --- the job ------------------------------------------------------------------------------- */

static int run_command(struct run_job *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MAX_COMMAND);

    put_words(&text, &j->options->command, !j->spec.keep);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the command is longer than %u MiB", MAX_COMMAND >> 20);
    j->command.sb = j->fresh.sb;
    j->command.text = tn_buf_str(&text);
    if (command_prepare(&j->command, err) < 0)
        return -1;
    int status = command_run(&j->command, err);
    if (status == NOT_FOUND && docker_is_image(*j->options->command.items))
        cli_note(j->cli,
                 "for a command in an image: tendon run --runtime docker --image %s COMMAND",
                 *j->options->command.items);
    return status;
}

/* A service is paid for what runs: what OpenHands keeps there it pauses, if so configured. */
static void close_kept(struct run_job *j)
{
    const struct tn_runtime *rt = cli_runtime(j->cli, NULL);
    const struct tn_config_sandbox *c = rt ? &tn_runtime_host(rt)->config->sandbox : NULL;
    struct tn_error why = {0};

    cli_note(j->cli, "kept: %s", sandbox_label(j->fresh.sb));
    if (c && c->keep_runtime_alive && c->pause_closed_runtimes &&
        tn_sandbox_backend(j->fresh.sb)->elsewhere &&
        tn_sandbox_drive(j->fresh.sb, TN_GOAL_PAUSED, cli_stop_deadline(j->cli), &why) < 0)
        cli_note(j->cli, "%s", why.text);
}

static int work(void *ctx, struct tn_error *err)
{
    struct run_job *j = ctx;
    struct tn_error leftover = {0};
    int64_t started = tn_now();

    if (fresh_make(&j->fresh, &j->spec, err) < 0)
        return -1;
    if (j->spec.keep)
        fresh_leave(&j->fresh);
    int status =
        j->options->command.count ? run_command(j, err) : take_tour(j->fresh.sb, started, err);
    if (j->spec.keep)
        close_kept(j);
    else if (fresh_remove(&j->fresh, &leftover) < 0)
        cli_warn(&leftover);
    return status;
}

/* The first ctrl-C is for the command. */
static bool signalled(void *ctx, int number, int count)
{
    struct run_job *j = ctx;

    return number == SIGINT && count == 1 && command_interrupt(&j->command);
}

static void abandon(void *ctx)
{
    struct run_job *j = ctx;

    if (j->spec.keep && __atomic_load_n(&j->command.running, __ATOMIC_ACQUIRE))
        command_kill(&j->command);
    fresh_abandon(&j->fresh);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct run_options *options = given;
    struct run_job j = {
        .cli = cli,
        .options = options,
        .command = {.cli = cli, .session = "main", .timeout = options->timeout},
    };
    int status = -1;

    if (cli->json && !options->command.count)
        return tn_fail(err, TN_E_INVALID, "the tour is for people: --json needs a COMMAND");
    if (options->remove && options->spec.keep)
        return tn_fail(err, TN_E_INVALID, "--rm and --keep: it cannot be both");
    fresh_init(&j.fresh, cli);
    if (cli_spec(cli, options->template, &options->spec, &j.spec, err) == 0 &&
        cli_runtime_for(cli, &j.spec, err))
        status = job_run(
            &(struct job){.work = work, .signalled = signalled, .abandon = abandon, .ctx = &j},
            err);
    command_done(&j.command);
    fresh_done(&j.fresh);
    tn_spec_done(&j.spec);
    return status;
}

const struct verb verb_run = {
    .name = "run",
    .group = VERB_WORK,
    .summary = "run a command in a sandbox of its own, or take a short tour",
    .details = "Makes a sandbox, runs COMMAND in it, prints the output as it comes, and removes\n"
               "everything again (unless --keep). The exit status is the command's.\n"
               "One argument is a line for the shell; several are a program and its arguments,\n"
               "passed on as they are. It reads what this program reads, unless that is a\n"
               "terminal. Without COMMAND: a short tour.\n"
               "The first ctrl-C interrupts the command, the second ends everything.",
    .options = &options_table,
    .options_size = sizeof(struct run_options),
    .run = run,
};

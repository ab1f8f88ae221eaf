#include <signal.h>
#include <sys/random.h>

#include "cli/command.h"
#include "cli/job.h"
#include "cli/verb.h"

#define MAX_COMMAND (8u << 20)

struct exec_options {
    char *session, *directory;
    double timeout;
    struct tn_json *env;
    bool input;
    char *sandbox;
    struct tn_str_list command;
};

static const struct tn_field rows[] = {
    TN_STRING("session", struct exec_options, session, .flag = "--session", .letter = 's',
              .value = "NAME", .help = "run in this shell, which keeps its state [a new one]"),
    TN_STRING("directory", struct exec_options, directory, .flag = "--directory", .letter = 'C',
              .value = "DIR", .help = "run there"),
    TN_JSON("env", struct exec_options, env,
            .flags = TN_FIELD_NULLABLE | TN_FIELD_MAP | TN_FIELD_ENVIRON | TN_FIELD_SECRET,
            .flag = "--env", .letter = 'e', .value = "NAME[=VALUE]",
            .help = "set a variable; NAME alone: to its value here"),
    TN_DOUBLE("timeout", struct exec_options, timeout, .flag = "--timeout", .value = "S",
              .min = 0.001, .max = 1e8,
              .help = "seconds the command may take [as long as it takes]"),
    TN_BOOL("stdin", struct exec_options, input, .flag = "--stdin", .letter = 'i',
            .help = "the command reads what this program reads also when that is a terminal"),
    TN_STRING("sandbox", struct exec_options, sandbox,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = VALUE_SANDBOX,
              .help = "id, start of the id, or name"),
    TN_STRINGS("command", struct exec_options, command,
               .flags = TN_FIELD_POSITIONAL | TN_FIELD_REST | TN_FIELD_REQUIRED, .value = "COMMAND",
               .help = "one line for the shell, or a program and its arguments"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct exec_job {
    const struct exec_options *options;
    struct command command;
    char id[32]; /* nobody else's, for names */
};

/* --- preparation --------------------------------------------------------------------------- */

static int export_variable(const char *name, struct tn_json *value, void *ctx)
{
    const char *text = tn_json_str(value, NULL);
    tn_autofree char *pair = tn_asprintf("%s=%s", name, text ? text : "");

    tn_buf_puts(ctx, "export -- ");
    put_quoted(ctx, pair);
    tn_buf_putc(ctx, '\n');
    return 0;
}

static int put_script(const struct exec_job *j, struct tn_buf *out, struct tn_error *err)
{
    const struct exec_options *o = j->options;

    tn_json_each(o->env, export_variable, out);
    if (o->directory) {
        tn_buf_puts(out, "cd -- ");
        put_quoted(out, o->directory);
        tn_buf_puts(out, " || (exit 66) && {\n");
    }
    put_words(out, &o->command, !o->session);
    if (o->directory)
        tn_buf_puts(out, "\n}");
    if (!tn_buf_ok(out))
        return tn_fail(err, TN_E_TOO_LARGE, "the command is longer than %u MiB", MAX_COMMAND >> 20);
    return 0;
}

static int work(void *ctx, struct tn_error *err)
{
    struct exec_job *j = ctx;
    tn_autobuf struct tn_buf script = TN_BUF_INIT(MAX_COMMAND);

    if (put_script(j, &script, err) < 0)
        return -1;
    j->command.text = tn_buf_str(&script);
    return command_run(&j->command, err);
}

/* --- the job ------------------------------------------------------------------------------- */

static bool signalled(void *ctx, int number, int count)
{
    struct exec_job *j = ctx;

    return number == SIGINT && count == 1 && command_interrupt(&j->command);
}

static void abandon(void *ctx)
{
    struct exec_job *j = ctx;

    command_kill(&j->command);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct exec_options *options = given;
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
    struct exec_job j = {
        .options = options,
        .command = {.cli = cli,
                    .sb = sb,
                    .timeout = options->timeout,
                    .read_terminal = options->input,
                    .remove_session = !options->session},
    };
    uint64_t random;
    int status = -1;

    if (!sb)
        return -1;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "no random bytes for a name");
    snprintf(j.id, sizeof j.id, "exec-%016llx", (unsigned long long)random);
    j.command.session = options->session ? options->session : j.id;
    if (command_prepare(&j.command, err) == 0)
        status = job_run(
            &(struct job){.work = work, .signalled = signalled, .abandon = abandon, .ctx = &j},
            err);
    command_done(&j.command);
    return status;
}

const struct verb verb_exec = {
    .name = "exec",
    .group = VERB_WORK,
    .summary = "run a command in a sandbox",
    .details = "Prints the output as it comes; the exit status is the command's. One argument is\n"
               "a line for the shell; several are a program and its arguments, passed on as they\n"
               "are. Each command has a shell and a terminal of its own, which end with it: what\n"
               "it set, and the directory it changed to, are gone. --session names a shell that\n"
               "stays and keeps them: \"main\" is the one that the agent uses.\n"
               "The command reads what this program reads, unless that is a terminal.\n"
               "The first ctrl-C interrupts the command, the second kills it.",
    .options = &options_table,
    .options_size = sizeof(struct exec_options),
    .run = run,
};

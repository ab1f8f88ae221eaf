#include "runtime/replay.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "cli/clean.h"
#include "cli/fresh.h"
#include "cli/job.h"
#include "cli/progress.h"
#include "cli/style.h"
#include "cli/units.h"
#include "cli/verb.h"

#define MAX_JSON ((size_t)512 << 20)

struct replay_options {
    struct tn_spec spec;
    char *template, *recording;
    double timeout;
};

static const struct tn_field rows[] = {
    TN_OBJECT("spec", struct replay_options, spec, &tn_spec_fields),
    TN_STRING("template", struct replay_options, template, .flag = "--template", .letter = 't',
              .value = "NAME", .help = "start from [template.NAME] of the configuration"),
    TN_DOUBLE("timeout", struct replay_options, timeout, .flag = "--timeout", .value = "S",
              .fallback = "120", .min = 0.001, .max = 1e8,
              .help = "seconds for each action that does not say its own"),
    TN_STRING("recording", struct replay_options, recording,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = "RECORDING",
              .help = "a file or directory of events, or a sandbox"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct replay_job {
    struct cli *cli;
    const struct replay_options *options;
    struct tn_recording recording;
    struct tn_spec spec;
    struct fresh fresh;
    bool colour;
    struct tn_buf json; /* with --json */
    struct tn_jw w;
};

/* --- printing --------------------------------------------------------------------------------- */

static const char *in(const struct replay_job *j, const char *style)
{
    return j->colour ? style : "";
}

static const char *const styles[TN_REPLAY_OUTCOMES] = {
    [TN_REPLAY_SAME] = STYLE_GREEN,
    [TN_REPLAY_DIFFERENT] = STYLE_RED,
    [TN_REPLAY_UNANSWERED] = STYLE_DIM,
    [TN_REPLAY_SKIPPED] = STYLE_YELLOW,
};

static void print_diff(const struct replay_job *j, const char *diff)
{
    while (*diff) {
        size_t n = strcspn(diff, "\n");
        tn_autofree char *line = tn_strndup(diff, n);
        const char *style = *line == '-'   ? STYLE_RED
                            : *line == '+' ? STYLE_GREEN
                            : *line == '@' ? STYLE_CYAN
                                           : "";
        printf("      %s", in(j, style));
        print_clean(line);
        printf("%s\n", in(j, *style ? STYLE_PLAIN : ""));
        diff += n + (diff[n] == '\n');
    }
}

static void print_step(const struct replay_job *j, const struct tn_replay_step *step)
{
    tn_autofree char *message = tn_strndup(step->message, strcspn(step->message, "\n"));
    char time[32];

    progress_pause();
    printf("%s%-10s%s ", in(j, styles[step->outcome]), tn_replay_outcome_words[step->outcome],
           in(j, STYLE_PLAIN));
    if (step->id >= 0)
        printf("%4lld ", (long long)step->id);
    print_clean(*message ? message : step->name);
    if (step->replayed)
        printf("%s (%s)%s", in(j, STYLE_DIM), format_time(step->nanoseconds, time),
               in(j, STYLE_PLAIN));
    if (*step->reason) {
        fputs(": ", stdout);
        print_clean(step->reason);
    }
    putchar('\n');
    print_diff(j, step->diff);
    fflush(stdout);
}

static void write_step(struct replay_job *j, const struct tn_replay_step *step)
{
    tn_jw_object(&j->w);
    tn_jw_kint(&j->w, "number", (int64_t)step->number);
    if (step->id >= 0)
        tn_jw_kint(&j->w, "id", step->id);
    tn_jw_kstr(&j->w, "action", step->name);
    tn_jw_kstr(&j->w, "message", step->message);
    tn_jw_kstr(&j->w, "outcome", tn_replay_outcome_words[step->outcome]);
    if (*step->reason)
        tn_jw_kstr(&j->w, "reason", step->reason);
    if (*step->diff)
        tn_jw_kstr(&j->w, "diff", step->diff);
    if (step->replayed) {
        tn_jw_kdouble(&j->w, "seconds", (double)step->nanoseconds / TN_SECOND);
        tn_jw_key(&j->w, "observation");
        tn_observation_to_json(step->replayed, &j->w);
    }
    tn_jw_object_end(&j->w);
}

static int tell(const struct tn_replay_step *step, void *ctx)
{
    struct replay_job *j = ctx;

    if (j->cli->json)
        write_step(j, step);
    else
        print_step(j, step);
    return ferror(stdout);
}

static int print_summary(struct replay_job *j, const struct tn_replay_summary *s,
                         struct tn_error *err)
{
    if (!j->cli->json) {
        for (size_t i = 0, printed = 0; i < TN_REPLAY_OUTCOMES; i++)
            if (s->outcomes[i])
                printf("%s%zu %s", printed++ ? ", " : "", s->outcomes[i],
                       tn_replay_outcome_words[i]);
        putchar('\n');
        return 0;
    }
    tn_jw_array_end(&j->w);
    for (size_t i = 0; i < TN_REPLAY_OUTCOMES; i++)
        tn_jw_kint(&j->w, tn_replay_outcome_words[i], (int64_t)s->outcomes[i]);
    tn_jw_object_end(&j->w);
    return cli_print(&j->json, err);
}

/* --- the job ---------------------------------------------------------------------------------- */

static int execute(void *ctx, const struct tn_action *action, struct tn_observation *observation,
                   struct tn_error *err)
{
    struct replay_job *j = ctx;

    return tn_sandbox_execute(j->fresh.sb, action, observation, err);
}

static int replay(struct replay_job *j, struct tn_error *err)
{
    struct tn_replay how = {.execute = execute,
                            .execute_ctx = j,
                            .step = tell,
                            .step_ctx = j,
                            .timeout = j->options->timeout};
    struct tn_replay_summary summary;

    if (j->cli->json) {
        tn_jw_object(&j->w);
        tn_jw_key(&j->w, "steps");
        tn_jw_array(&j->w);
    }
    progress_begin("replaying");
    int failed = tn_replay(&j->recording, &how, &summary, err);
    progress_end();
    if (failed || print_summary(j, &summary, err))
        return -1;
    return summary.outcomes[TN_REPLAY_DIFFERENT] ? 1 : 0;
}

static int work(void *ctx, struct tn_error *err)
{
    struct replay_job *j = ctx;
    struct tn_error leftover = {0};

    if (fresh_make(&j->fresh, &j->spec, err) < 0)
        return -1;
    if (j->spec.keep)
        fresh_leave(&j->fresh);
    int status = replay(j, err);
    if (j->spec.keep)
        cli_note(j->cli, "kept: %s", sandbox_label(j->fresh.sb));
    else if (fresh_remove(&j->fresh, &leftover) < 0)
        cli_warn(&leftover);
    return status;
}

static void abandon(void *ctx)
{
    struct replay_job *j = ctx;

    fresh_abandon(&j->fresh);
}

/* --- what is replayed, and in what ------------------------------------------------------------ */

/* Sets what is set in `given`: unset fields are not in its JSON. */
static int put_over(struct tn_spec *spec, const struct tn_spec *given, struct tn_error *err)
{
    tn_autojson struct tn_json *flags = NULL;

    if (tn_spec_tree(given, &flags, err) < 0)
        return -1;
    return tn_fields_from_json(&tn_spec_fields, spec, flags, err);
}

/* The spec of the recorded sandbox, with the flags of the command line over it. */
static int like_the_recorded(struct replay_job *j, const struct tn_sandbox *sb,
                             struct tn_error *err)
{
    const struct tn_spec *given = &j->options->spec;
    const char *runtime = given->runtime ? given->runtime : j->cli->globals.runtime;
    int network;

    if (tn_spec_copy(tn_sandbox_spec(sb), &j->spec, err))
        return -1;
    network = given->network == TN_NETWORK_DEFAULT ? j->spec.network : given->network;
    free(TN_TAKE_PTR(j->spec.name));
    j->spec.keep = false;
    if (put_over(&j->spec, given, err))
        return -1;
    j->spec.network = network;
    if (runtime) {
        free(j->spec.runtime);
        j->spec.runtime = tn_strdup(runtime);
    }
    return 0;
}

/* A path if there is one of that name, or it has a slash; else a sandbox, whose spec the new one
 * gets where no flag says otherwise. */
static int load(struct replay_job *j, struct tn_error *err)
{
    const char *which = j->options->recording;
    struct stat st;

    if (strchr(which, '/') || !stat(which, &st)) {
        if (cli_spec(j->cli, j->options->template, &j->options->spec, &j->spec, err))
            return -1;
        return tn_recording_load(which, &j->recording, err);
    }
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(j->cli, which, err);
    if (!sb)
        return -1;
    return like_the_recorded(j, sb, err) ||
                   tn_recording_load(tn_sandbox_directory(sb), &j->recording, err)
               ? -1
               : 0;
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    struct replay_job j = {.cli = cli,
                           .options = given,
                           .colour = style_wanted(stdout),
                           .json = TN_BUF_INIT(MAX_JSON)};
    int status = -1;

    j.w = tn_jw(&j.json);
    fresh_init(&j.fresh, cli);
    if (load(&j, err) == 0 && cli_runtime(cli, err))
        status = job_run(&(struct job){.work = work, .abandon = abandon, .ctx = &j}, err);
    fresh_done(&j.fresh);
    tn_recording_done(&j.recording);
    tn_spec_done(&j.spec);
    tn_buf_done(&j.json);
    return status;
}

const struct verb verb_replay = {
    .name = "replay",
    .group = VERB_WORK,
    .summary = "do a recorded session again in a new sandbox and compare",
    .details =
        "RECORDING is a sandbox, the directory of a session, or a file of events (a JSON list such\n"
        "as an OpenHands trajectory, or one event on each line). Every action is executed in a new\n"
        "sandbox, which is removed afterwards (unless --keep); observations are compared with the\n"
        "recorded ones, apart from times, process ids and names of temporary files.\n"
        "The exit status is 0 when all are the same, 1 when one is different.",
    .options = &options_table,
    .options_size = sizeof(struct replay_options),
    .run = run,
};

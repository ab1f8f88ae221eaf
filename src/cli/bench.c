#include "base/child.h"
#include "base/clock.h"
#include "cli/fresh.h"
#include "cli/job.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/units.h"
#include "cli/verb.h"

struct bench_options {
    struct tn_spec spec;
    int64_t rounds;
};

static const struct tn_field rows[] = {
    TN_OBJECT("spec", struct bench_options, spec, &tn_spec_fields),
    TN_INT("rounds", struct bench_options, rounds, .fallback = "20", .min = 1, .max = 10000,
           .flag = "--rounds", .letter = 'n', .value = "N",
           .help = "sandboxes to make; actions are ten times as many"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- samples ------------------------------------------------------------------------------- */

struct samples {
    const char *what;
    int64_t *times;
    size_t count, room;
};

enum { PLAIN, COLD, WARM, ACTION, REMOVE, KINDS };

struct bench_job {
    struct cli *cli;
    const struct bench_options *options;
    struct tn_spec spec;
    struct fresh fresh;
    struct samples samples[KINDS];
};

static void add(struct samples *s, int64_t since)
{
    if (s->count < s->room)
        s->times[s->count++] = tn_now() - since;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The time that so many percent did not exceed; the samples are in order. */
static int64_t percentile(const struct samples *s, int percent)
{
    return s->count ? s->times[(s->count - 1) * (size_t)percent / 100] : -1;
}

/* --- what is measured ---------------------------------------------------------------------- */

static int act(struct tn_sandbox *sb, struct tn_error *err)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation observation;

    tn_action_init_run(&action, "true", 30);
    tn_observation_init(&observation, TN_OBSERVATION_NULL);
    if (tn_sandbox_execute(sb, &action, &observation, err) < 0)
        return -1;
    if (observation.type != TN_OBSERVATION_RUN || observation.run.metadata.exit_code != 0)
        return tn_fail(err, TN_E_INTERNAL, "true failed in the sandbox: %s",
                       observation.content.data ? observation.content.data : "");
    return 0;
}

static int measure_plain(struct bench_job *j, struct tn_error *err)
{
    static const char *const argv[] = {"bash", "-c", "true", NULL};

    for (int64_t i = 0; i < j->options->rounds; i++) {
        int64_t start = tn_now();
        tn_autochild struct tn_child *child =
            tn_child_start(&(struct tn_child_spec){.argv = argv}, err);
        if (!child || tn_child_wait(child, tn_deadline_in(30), NULL, err) < 0)
            return -1;
        add(&j->samples[PLAIN], start);
    }
    return 0;
}

/* From nothing to the first observation; then, if asked, round trips; then its removal. */
static int measure_one(struct bench_job *j, int kind, int64_t actions, struct tn_error *err)
{
    int64_t start = tn_now();

    if (fresh_make(&j->fresh, &j->spec, err) < 0 || act(j->fresh.sb, err) < 0)
        return -1;
    add(&j->samples[kind], start);
    for (int64_t i = 0; i < actions; i++) {
        start = tn_now();
        if (act(j->fresh.sb, err) < 0)
            return -1;
        add(&j->samples[ACTION], start);
    }
    start = tn_now();
    if (fresh_remove(&j->fresh, err) < 0)
        return -1;
    add(&j->samples[REMOVE], start);
    tn_sandbox_free(TN_TAKE_PTR(j->fresh.sb));
    return 0;
}

static int measure(struct bench_job *j, struct tn_error *err)
{
    int64_t rounds = j->options->rounds;

    if (measure_plain(j, err) < 0)
        return -1;
    for (int64_t i = 0; i < rounds; i++)
        if (measure_one(j, COLD, i == 0 ? 10 * rounds : 0, err) < 0)
            return -1;
    for (int64_t i = 0; i < rounds; i++)
        if (tn_pool_fill(cli_runtime(j->cli, err), &j->spec, 1, cli_start_deadline(j->cli), err) <
                0 ||
            measure_one(j, WARM, 0, err) < 0)
            return -1;
    return 0;
}

/* --- the report ---------------------------------------------------------------------------- */

static void put_json(const struct bench_job *j, const char *runtime, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "runtime", runtime);
    tn_jw_key(&w, "milliseconds");
    tn_jw_object(&w);
    for (int i = 0; i < KINDS; i++) {
        const struct samples *s = &j->samples[i];
        tn_jw_key(&w, s->what);
        tn_jw_object(&w);
        tn_jw_kint(&w, "count", (int64_t)s->count);
        tn_jw_kdouble(&w, "p50", (double)percentile(s, 50) / TN_MILLI);
        tn_jw_kdouble(&w, "p90", (double)percentile(s, 90) / TN_MILLI);
        tn_jw_kdouble(&w, "max", (double)percentile(s, 100) / TN_MILLI);
        tn_jw_kdouble(&w, "ratio",
                      (double)percentile(s, 50) / (double)percentile(&j->samples[PLAIN], 50));
        tn_jw_object_end(&w);
    }
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
}

static void print_report(const struct bench_job *j, const char *runtime)
{
    static const struct table_column columns[] = {
        {.title = "WHAT"},
        {.title = "COUNT", .right = true},
        {.title = "P50", .right = true},
        {.title = "P90", .right = true},
        {.title = "MAX", .right = true},
        {.title = "OF BASH", .right = true},
    };
    autotable struct table *table = table_new(columns, TN_COUNT(columns));
    char text[32];

    for (int i = 0; i < KINDS; i++) {
        const struct samples *s = &j->samples[i];
        table_cell(table, s->what, NULL);
        table_format(table, "%zu", s->count);
        table_cell(table, format_time(percentile(s, 50), text), NULL);
        table_cell(table, format_time(percentile(s, 90), text), NULL);
        table_cell(table, format_time(percentile(s, 100), text), NULL);
        table_format(table, "%.2fx",
                     (double)percentile(s, 50) / (double)percentile(&j->samples[PLAIN], 50));
    }
    progress_end();
    printf("%s, on this machine, now:\n", runtime);
    table_print(table);
}

static int work(void *ctx, struct tn_error *err)
{
    struct bench_job *j = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 16);
    const struct tn_config *config = cli_config(j->cli, err);
    const char *runtime = j->spec.runtime ? j->spec.runtime : config->tendon.runtime;

    if (measure(j, err) < 0) {
        if (j->fresh.sb)
            fresh_remove(&j->fresh, NULL);
        return -1;
    }
    for (int i = 0; i < KINDS; i++)
        qsort(j->samples[i].times, j->samples[i].count, sizeof(int64_t), by_time);
    if (!j->cli->json) {
        print_report(j, runtime);
        return 0;
    }
    put_json(j, runtime, &json);
    return cli_print(&json, err);
}

static void abandon(void *ctx)
{
    struct bench_job *j = ctx;

    fresh_abandon(&j->fresh);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    static const char *const names[KINDS] = {
        [PLAIN] = "bash -c true", [COLD] = "create to first observation",
        [WARM] = "warm claim",    [ACTION] = "action round trip",
        [REMOVE] = "remove",
    };
    struct bench_job j = {.cli = cli, .options = given};
    int status = -1;

    fresh_init(&j.fresh, cli);
    j.fresh.one_of_many = true;
    for (int i = 0; i < KINDS; i++) {
        size_t room = 10 * (size_t)j.options->rounds;
        j.samples[i] = (struct samples){
            .what = names[i], .times = tn_calloc(room, sizeof(int64_t)), .room = room};
    }
    if (cli_spec(cli, NULL, &j.options->spec, &j.spec, err) == 0 && cli_runtime(cli, err))
        status = job_run(&(struct job){.work = work, .abandon = abandon, .ctx = &j}, err);
    for (int i = 0; i < KINDS; i++)
        free(j.samples[i].times);
    fresh_done(&j.fresh);
    tn_spec_done(&j.spec);
    return status;
}

const struct verb verb_bench = {
    .name = "bench",
    .group = VERB_SYSTEM,
    .summary = "measure how quick sandboxes are on this machine",
    .details = "Makes sandboxes one after another and removes them again. Beside each time stands\n"
               "how many times as long it took as starting a plain bash, measured in the same\n"
               "run: the ratio means more than the time. `warm claim` takes a sandbox that waits\n"
               "and runs a first action in it.",
    .options = &options_table,
    .options_size = sizeof(struct bench_options),
    .doing = "measuring",
    .run = run,
};

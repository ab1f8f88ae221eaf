/* Counting.  Every number is an atomic of its own, so nobody waits for anybody. */
#include "service/metrics.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"

#define MAX_WORDS 10

/* Seconds; one more bucket has all the rest. */
static const double bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                0.5,   1,      2.5,   5,    10,    30,   60};
#define BUCKETS (TN_COUNT(bounds) + 1)

/* Values of labels; what is not among them counts under the last.  The set is fixed, so that no
 * client can make it grow. */
static const char *const class_words[] = {"1xx", "2xx", "3xx", "4xx", "5xx", "other", NULL};
static const char *const action_words[] = {
    "run",    "run_ipython",        "read",          "write", "edit",
    "browse", "browse_interactive", "call_tool_mcp", "other", NULL};
static const char *const start_words[] = {"cold", "warm", "failed", NULL};
static const char *const kept_words[] = {"idle_pause", "idle_stop", "stopped", "ttl",
                                         "timeout",    "oldest",    "disk",    NULL};

static const struct row {
    const char *name, *help;
    const char *label; /* its name, or NULL */
    const char *const *words;
    bool histogram;
} rows[METRIC_COUNT] = {
    [METRIC_REQUESTS] = {.name = "tendon_requests_total",
                         .help = "Requests answered, by class of status.",
                         .label = "status",
                         .words = class_words},
    [METRIC_REQUEST_SECONDS] = {.name = "tendon_request_seconds",
                                .help = "Time from a request to its answer.",
                                .histogram = true},
    [METRIC_ACTIONS] = {.name = "tendon_actions_total",
                        .help = "Actions carried out, by kind.",
                        .label = "kind",
                        .words = action_words},
    [METRIC_ACTION_SECONDS] = {.name = "tendon_action_seconds",
                               .help = "Time that actions took.",
                               .histogram = true},
    [METRIC_STARTS] = {.name = "tendon_starts_total",
                       .help = "Starts of sandboxes, by how they went.",
                       .label = "how",
                       .words = start_words},
    [METRIC_START_SECONDS] = {.name = "tendon_start_seconds",
                              .help = "Time from the wish for a sandbox until it runs.",
                              .histogram = true},
    [METRIC_QUEUE_SECONDS] = {.name = "tendon_queue_seconds",
                              .help = "The part of it that was spent in line.",
                              .histogram = true},
    [METRIC_DENIED] = {.name = "tendon_denied_total",
                       .help = "Requests without the right key or right."},
    [METRIC_PROXIED_BYTES] = {.name = "tendon_proxied_bytes_total",
                              .help = "Bytes passed on between clients and sandboxes."},
    [METRIC_KEPT] = {.name = "tendon_kept_total",
                     .help = "Sandboxes that a limit paused, stopped or deleted.",
                     .label = "why",
                     .words = kept_words},
};

struct metrics {
    int64_t started;
    struct {
        atomic_uint_least64_t counts[BUCKETS > MAX_WORDS ? BUCKETS : MAX_WORDS];
        atomic_uint_least64_t nanoseconds; /* of a histogram: all together */
    } numbers[METRIC_COUNT];
};

struct metrics *metrics_new(void)
{
    struct metrics *m = tn_calloc(1, sizeof *m);

    m->started = tn_now();
    return m;
}

void metrics_free(struct metrics *m)
{
    free(m);
}

static void add(atomic_uint_least64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static uint64_t get(const atomic_uint_least64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

void metric_add(struct metrics *m, enum metric which, const char *label, uint64_t n)
{
    const char *const *words = rows[which].words;
    size_t i = 0;

    while (words && words[i + 1] && (!label || strcmp(words[i], label) != 0))
        i++;
    add(&m->numbers[which].counts[i], n);
}

void metric_seconds(struct metrics *m, enum metric which, double seconds)
{
    double spent = isfinite(seconds) ? fmin(fmax(seconds, 0), 1e9) : 0;
    size_t i = 0;

    while (i < TN_COUNT(bounds) && spent > bounds[i])
        i++;
    add(&m->numbers[which].nanoseconds, (uint64_t)(spent * 1e9));
    add(&m->numbers[which].counts[i], 1);
}

/* --- the page ------------------------------------------------------------------------------ */

void metric_head(struct tn_buf *out, const char *name, const char *type, const char *help)
{
    tn_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_escaped(struct tn_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            tn_buf_puts(out, "\\n");
        else if (*text == '\\' || *text == '"')
            tn_buf_printf(out, "\\%c", *text);
        else
            tn_buf_putc(out, *text);
    }
}

void metric_sample(struct tn_buf *out, const char *name, const char *label, const char *value,
                   double number)
{
    tn_buf_puts(out, name);
    if (label) {
        tn_buf_printf(out, "{%s=\"", label);
        put_escaped(out, value);
        tn_buf_puts(out, "\"}");
    }
    tn_buf_printf(out, " %.17g\n", number);
}

static void write_histogram(const struct metrics *m, enum metric which, struct tn_buf *out)
{
    const struct row *row = &rows[which];
    uint64_t total = 0;

    for (size_t i = 0; i < TN_COUNT(bounds); i++) {
        total += get(&m->numbers[which].counts[i]);
        tn_buf_printf(out, "%s_bucket{le=\"%g\"} %llu\n", row->name, bounds[i],
                      (unsigned long long)total);
    }
    total += get(&m->numbers[which].counts[TN_COUNT(bounds)]);
    tn_buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9f\n%s_count %llu\n", row->name,
                  (unsigned long long)total, row->name,
                  (double)get(&m->numbers[which].nanoseconds) / 1e9, row->name,
                  (unsigned long long)total);
}

void metrics_write_counters(const struct metrics *m, struct tn_buf *out)
{
    metric_head(out, "tendon_uptime_seconds", "gauge", "Seconds since the service started.");
    metric_sample(out, "tendon_uptime_seconds", NULL, NULL, (double)(tn_now() - m->started) / 1e9);
    for (int which = 0; which < METRIC_COUNT; which++) {
        const struct row *row = &rows[which];
        metric_head(out, row->name, row->histogram ? "histogram" : "counter", row->help);
        if (row->histogram) {
            write_histogram(m, (enum metric)which, out);
        } else if (!row->words) {
            metric_sample(out, row->name, NULL, NULL, (double)get(&m->numbers[which].counts[0]));
        } else {
            for (size_t i = 0; row->words[i]; i++)
                metric_sample(out, row->name, row->label, row->words[i],
                              (double)get(&m->numbers[which].counts[i]));
        }
    }
}

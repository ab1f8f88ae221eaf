/* What /metrics reads at the moment it is asked. */
#include <dirent.h>
#include <sys/resource.h>

#include "service/admit.h"
#include "service/metrics.h"
#include "service/steward.h"

static void gauge(struct tn_buf *out, const char *name, const char *help, double value)
{
    metric_head(out, name, "gauge", help);
    metric_sample(out, name, NULL, NULL, value);
}

static void write_boxes(struct tn_service *s, struct tn_buf *out)
{
    metric_head(out, "tendon_sandboxes", "gauge", "Sandboxes by state.");
    for (int state = 0; state < BOX_STATES; state++)
        metric_sample(out, "tendon_sandboxes", "state", box_state_words[state],
                      box_count(s, NULL, 1u << state));
}

static void write_queue(struct tn_service *s, struct tn_buf *out)
{
    struct queue_numbers n = queue_numbers(s->queue);

    gauge(out, "tendon_queue_length", "Starts that wait in line.", n.waiting);
    gauge(out, "tendon_queue_busy", "Starts under way.", n.busy);
    gauge(out, "tendon_queue_turns", "Starts that may be under way at a time.", n.turns);
}

/* --- pools: a family lists all of them before the next begins ------------------------------ */

static int64_t get_target(const struct pool_info *p)
{
    return p->target;
}

static int64_t get_ready(const struct pool_info *p)
{
    return p->ready;
}

static int64_t get_making(const struct pool_info *p)
{
    return p->making;
}

static int64_t get_claimed(const struct pool_info *p)
{
    return p->claimed;
}

static int64_t get_missed(const struct pool_info *p)
{
    return p->missed;
}

static int64_t get_failing(const struct pool_info *p)
{
    return p->problem != NULL;
}

struct family {
    const char *name, *type, *help;
    int64_t (*get)(const struct pool_info *p);
};

static const struct family families[] = {
    {"tendon_pool_target", "gauge", "Warm sandboxes that a pool should have.", get_target},
    {"tendon_pool_ready", "gauge", "Warm sandboxes that can be handed out.", get_ready},
    {"tendon_pool_making", "gauge", "Warm sandboxes that are being made.", get_making},
    {"tendon_pool_claimed_total", "counter", "Sandboxes handed out of a pool.", get_claimed},
    {"tendon_pool_missed_total", "counter", "Times a pool was asked and had none.", get_missed},
    {"tendon_pool_failing", "gauge", "1 while a pool cannot be filled.", get_failing},
};

struct pools_page {
    struct tn_buf lines[TN_COUNT(families)];
};

static int write_pool(const struct pool_info *p, void *ctx)
{
    struct pools_page *page = ctx;

    for (size_t i = 0; i < TN_COUNT(families); i++)
        metric_sample(&page->lines[i], families[i].name, "pool", p->name,
                      (double)families[i].get(p));
    return 0;
}

static void write_pools(struct tn_service *s, struct tn_buf *out)
{
    struct pools_page page;

    for (size_t i = 0; i < TN_COUNT(families); i++)
        tn_buf_init(&page.lines[i], out->max);
    pool_each(s, write_pool, &page, NULL);
    for (size_t i = 0; i < TN_COUNT(families); i++) {
        metric_head(out, families[i].name, families[i].type, families[i].help);
        tn_buf_puts(out, tn_buf_str(&page.lines[i]));
        tn_buf_done(&page.lines[i]);
    }
}

/* --- the process --------------------------------------------------------------------------- */

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static double resident_bytes(void)
{
    tn_autofile FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (!f || fscanf(f, "%*u %lu", &pages) != 1)
        return 0;
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void write_process(struct tn_buf *out)
{
    struct rusage used;
    struct rlimit files = {0};

    getrusage(RUSAGE_SELF, &used);
    getrlimit(RLIMIT_NOFILE, &files);
    metric_head(out, "process_cpu_seconds_total", "counter", "Processor time of the service.");
    metric_sample(out, "process_cpu_seconds_total", NULL, NULL,
                  (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                      (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    gauge(out, "process_resident_memory_bytes", "Memory of the service.", resident_bytes());
    gauge(out, "process_open_fds", "Its open descriptors.", count_entries("/proc/self/fd") - 1);
    gauge(out, "process_max_fds", "As many as it may have.", (double)files.rlim_cur);
    gauge(out, "process_threads", "Its threads.", count_entries("/proc/self/task"));
    metric_head(out, "tendon_build_info", "gauge", "Always 1; which tendon this is.");
    metric_sample(out, "tendon_build_info", "version", TN_VERSION, 1);
}

void metrics_write(struct tn_service *s, struct tn_buf *out)
{
    metrics_write_counters(s->metrics, out);
    write_boxes(s, out);
    write_queue(s, out);
    write_pools(s, out);
    write_process(out);
}

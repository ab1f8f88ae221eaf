/* Measures sandboxes through the library: sandboxes MODE COUNT STATE RUNTIME [IMAGE]
 *
 * Prints one JSON object per line; times in nanoseconds.  bench/runtime.py compares them with
 * something real in the same run.  With hold, each step waits for a
 * character or the end of the input. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "runtime/config.h"
#include "runtime/sandbox.h"

#define LONG 300.0

/* Threads that remove; more than cores, because the kernel's own work is waited for. */
#define REMOVERS 8

static struct tn_runtime *rt;
static struct tn_spec spec;
static int count;
static struct tn_sandbox **sandboxes;
static int64_t *times, *firsts, *since;
static int64_t released; /* when all that shall work at once were told to */

static _Noreturn void give_up(const struct tn_error *err)
{
    fprintf(stderr, "sandboxes: %s\n", err->text);
    exit(1);
}

static void run(struct tn_sandbox *sb, const char *command)
{
    struct tn_error err = {0};
    struct tn_action action;
    struct tn_observation observation;

    tn_action_init_run(&action, command, LONG);
    action.run.blocking = true;
    if (tn_sandbox_execute(sb, &action, &observation, &err))
        give_up(&err);
    if (observation.type != TN_OBSERVATION_RUN || observation.run.metadata.exit_code != 0) {
        fprintf(stderr, "sandboxes: %s: %s\n", command,
                observation.content.data ? observation.content.data : "failed");
        exit(1);
    }
    tn_observation_done(&observation);
    tn_action_done(&action);
}

static struct tn_sandbox *create(void)
{
    struct tn_error err = {0};
    struct tn_sandbox *sb = tn_sandbox_create(rt, &spec, tn_deadline_in(LONG), &err);

    if (!sb)
        give_up(&err);
    return sb;
}

/* To the first observation. */
static void create_one(int i)
{
    int64_t start = tn_now();

    sandboxes[i] = create();
    run(sandboxes[i], ":");
    times[i] = tn_now() - start;
}

/* Until the sandbox is ours. */
static void claim_one(int i)
{
    int64_t start = tn_now();

    sandboxes[i] = create();
    times[i] = tn_now() - start;
}

/* The first command of one that is ours already. */
static void use_one(int i)
{
    int64_t start = tn_now();

    run(sandboxes[i], ":");
    firsts[i] = tn_now() - start;
}

/* The same for one of many: the call itself, and from when all were told to, which has the wait for
 * a processor in it. */
static void claim_with_others(int i)
{
    claim_one(i);
    since[i] = tn_now() - released;
}

static void use_with_others(int i)
{
    use_one(i);
    firsts[i] = tn_now() - released;
}

static void drive(struct tn_sandbox *sb, enum tn_goal goal)
{
    struct tn_error err = {0};

    if (tn_sandbox_drive(sb, goal, tn_deadline_in(LONG), &err))
        give_up(&err);
}

static void remove_one(int i)
{
    drive(sandboxes[i], TN_GOAL_GONE);
    tn_sandbox_free(sandboxes[i]);
    sandboxes[i] = NULL;
}

/* --- many at once -------------------------------------------------------------------------- */

struct crew {
    void (*work)(int i);
    int next;
    pthread_mutex_t lock; /* held until all of them are there */
};

static void *crew_member(void *arg)
{
    struct crew *c = arg;

    for (;;) {
        pthread_mutex_lock(&c->lock);
        int i = c->next < count ? c->next++ : -1;
        pthread_mutex_unlock(&c->lock);
        if (i < 0)
            return NULL;
        c->work(i);
    }
}

static void at_once(void (*work)(int), int threads)
{
    struct crew c = {.work = work, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t *t = tn_calloc((size_t)threads, sizeof *t);

    pthread_mutex_lock(&c.lock);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&t[i], NULL, crew_member, &c))
            abort();
    released = tn_now();
    pthread_mutex_unlock(&c.lock);
    for (int i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
    free(t);
}

static void print_list(const char *what, int64_t total, const int64_t *each)
{
    printf("{\"what\": \"%s\", \"total\": %" PRId64 ", \"each\": [", what, total);
    for (int i = 0; i < count; i++)
        printf("%s%" PRId64, i ? ", " : "", each[i]);
    printf("]}\n");
}

static void print_times(const char *what, int64_t total)
{
    print_list(what, total, times);
}

/* --- modes --------------------------------------------------------------------------------- */

/* One at a time, each removed before the next. */
static void mode_create(void)
{
    for (int i = 0; i < count; i++) {
        create_one(i);
        remove_one(i);
    }
    print_times("create", 0);
}

/* One after the other, and all at once. */
static void mode_burst(void)
{
    int64_t start = tn_now();

    for (int i = 0; i < count; i++)
        create_one(i);
    print_times("sequence", tn_now() - start);
    at_once(remove_one, REMOVERS);
    start = tn_now();
    at_once(create_one, count);
    print_times("burst", tn_now() - start);
    at_once(remove_one, REMOVERS);
}

/* Round trips in one sandbox. */
static void mode_actions(void)
{
    sandboxes[0] = create();
    use_one(0);
    for (int i = 0; i < count; i++) {
        int64_t start = tn_now();
        run(sandboxes[0], "true");
        firsts[i] = tn_now() - start;
        start = tn_now();
        run(sandboxes[0], "echo hello");
        times[i] = tn_now() - start;
    }
    print_list("true", 0, firsts);
    print_times("echo", 0);
    remove_one(0);
}

/* A command that does nothing but call the kernel, 40,000 times. */
static void mode_calls(void)
{
    sandboxes[0] = create();
    use_one(0);
    for (int i = 0; i < count; i++) {
        int64_t start = tn_now();
        run(sandboxes[0], "dd if=/dev/zero of=/dev/null bs=1 count=20000 status=none");
        times[i] = tn_now() - start;
    }
    print_times("calls", 0);
    remove_one(0);
}

/* One, then the rest, then none; whoever reads this looks at the machine in between. */
static void mode_hold(void)
{
    for (int i = 0; i < count; i++) {
        create_one(i);
        if (i == 0 || i == count - 1) {
            printf("{\"what\": \"held\", \"count\": %d}\n", i + 1);
            fflush(stdout);
            getchar();
        }
    }
    at_once(remove_one, REMOVERS);
}

static void fill(void)
{
    struct tn_error err = {0};

    if (tn_pool_fill(rt, &spec, count, tn_deadline_in(LONG), &err) < 0)
        give_up(&err);
}

/* Claims from a full pool: one after the other, and all at once. */
static void mode_warm(void)
{
    fill();
    for (int i = 0; i < count; i++) {
        claim_one(i);
        use_one(i);
    }
    print_times("warm", 0);
    print_list("warm, first command", 0, firsts);
    at_once(remove_one, REMOVERS);
    fill();
    at_once(claim_with_others, count);
    int64_t all = tn_now() - released;
    print_times("warm burst", all);
    print_list("warm burst, since the start", all, since);
    at_once(use_with_others, count);
    print_list("warm burst, first command", tn_now() - released, firsts);
    at_once(remove_one, REMOVERS);
}

static int64_t available_memory(void)
{
    tn_autofile FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    long long kb = 0;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld", &kb) == 1)
            break;
    return kb * 1024;
}

static int count_record(const struct tn_record *r, void *ctx)
{
    (*(int *)ctx)++;
    return 0;
}

static void mode_idle(void)
{
    int64_t before = available_memory();
    int found = 0;

    at_once(create_one, REMOVERS);
    int64_t used = before - available_memory();
    int64_t start = tn_now();
    tn_store_each(tn_runtime_store(rt), TN_STORE_CLAIMED, count_record, &found, NULL);
    int64_t listed = tn_now() - start;
    start = tn_now();
    at_once(remove_one, REMOVERS);
    printf("{\"what\": \"idle\", \"count\": %d, \"bytes\": %" PRId64 ", \"list\": %" PRId64
           ", \"gone\": %" PRId64 "}\n",
           found, used, listed, tn_now() - start);
}

/* Snapshot, rollback and fork of a sandbox with 1,000 changed files. */
static void mode_layers(void)
{
    struct tn_error err = {0};
    struct tn_sandbox *sb = create();
    int64_t *rollbacks = tn_calloc((size_t)count, sizeof *rollbacks);
    int64_t *snapshots = tn_calloc((size_t)count, sizeof *snapshots);
    const char *change =
        "mkdir -p /root/d && cd /root/d && for i in $(seq 1000); do echo $i >f$i; done";
    struct tn_spec child;

    run(sb, change);
    if (tn_sandbox_snapshot(sb, "base", tn_deadline_in(LONG), &err))
        give_up(&err);
    for (int i = 0; i < count; i++) {
        run(sb, change);
        int64_t start = tn_now();
        if (tn_sandbox_rollback(sb, "base", tn_deadline_in(LONG), &err))
            give_up(&err);
        rollbacks[i] = tn_now() - start;
        run(sb, "test -e /root/d/f1000");
    }
    tn_spec_init(&child);
    run(sb, change);
    for (int i = 0; i < count; i++) {
        int64_t start = tn_now();
        if (tn_sandbox_snapshot(sb, "more", tn_deadline_in(LONG), &err))
            give_up(&err);
        snapshots[i] = tn_now() - start;
        if (tn_sandbox_forget(sb, "more", tn_deadline_in(LONG), &err))
            give_up(&err);
    }
    for (int i = 0; i < count; i++) {
        int64_t start = tn_now();
        sandboxes[i] = tn_sandbox_fork(sb, NULL, &child, tn_deadline_in(LONG), &err);
        if (!sandboxes[i])
            give_up(&err);
        times[i] = tn_now() - start;
        run(sandboxes[i], "test -e /root/d/f1000");
        remove_one(i);
    }
    print_times("fork", 0);
    print_list("rollback", 0, rollbacks);
    print_list("snapshot", 0, snapshots);
    free(rollbacks);
    free(snapshots);
    tn_spec_done(&child);
    drive(sb, TN_GOAL_GONE);
    tn_sandbox_free(sb);
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"create", mode_create}, {"burst", mode_burst},     {"warm", mode_warm}, {"idle", mode_idle},
    {"layers", mode_layers}, {"actions", mode_actions}, {"hold", mode_hold}, {"calls", mode_calls},
};

int main(int argc, char **argv)
{
    struct tn_config config;
    struct tn_error err = {0};

    if (argc < 5) {
        fputs("usage: sandboxes MODE COUNT STATE RUNTIME [IMAGE]\n", stderr);
        return 2;
    }
    if (tn_config_load(&config, "/dev/null", &err) ||
        tn_config_set(&config, "tendon.state", argv[3], &err))
        give_up(&err);
    rt = tn_runtime_open(&(struct tn_runtime_options){.config = &config}, &err);
    if (!rt)
        give_up(&err);
    tn_spec_init(&spec);
    spec.runtime = tn_strdup(argv[4]);
    spec.image = tn_strdup_or_null(argv[5]);
    count = (int)strtol(argv[2], NULL, 10);
    sandboxes = tn_calloc((size_t)count, sizeof *sandboxes);
    times = tn_calloc((size_t)count, sizeof *times);
    firsts = tn_calloc((size_t)count, sizeof *firsts);
    since = tn_calloc((size_t)count, sizeof *since);
    for (size_t i = 0; i < TN_COUNT(modes); i++)
        if (!strcmp(modes[i].name, argv[1]))
            modes[i].run();
    free(sandboxes);
    free(times);
    free(firsts);
    free(since);
    tn_spec_done(&spec);
    tn_runtime_close(rt);
    tn_config_done(&config);
    return 0;
}

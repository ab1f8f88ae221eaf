#include "cli/fresh.h"

#include <fcntl.h>
#include <signal.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/progress.h"

/* How long a signal waits for a sandbox that is being made. */
#define PATIENCE (2 * TN_SECOND)

void fresh_init(struct fresh *f, struct cli *cli)
{
    *f = (struct fresh){.cli = cli, .lock = PTHREAD_MUTEX_INITIALIZER};
    tn_cond_init(&f->changed);
}

void fresh_done(struct fresh *f)
{
    tn_sandbox_free(TN_TAKE_PTR(f->sb));
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

static void set_state(struct fresh *f, bool making, const char *id)
{
    pthread_mutex_lock(&f->lock);
    f->making = making;
    snprintf(f->id, sizeof f->id, "%s", id);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static bool has_the_hosts_network(const struct fresh *f, const struct tn_backend *backend)
{
    const struct tn_str_list *allow;

    return backend->network &&
           backend->network(tn_runtime_host(cli_runtime(f->cli, NULL)), tn_sandbox_spec(f->sb),
                            tn_sandbox_record(f->sb)->ref, &allow) == TN_NETWORK_HOST;
}

static void warn_of_no_isolation(struct fresh *f)
{
    const struct tn_backend *backend = tn_sandbox_backend(f->sb);

    if (f->warned)
        return;
    if (!(backend->abilities & TN_CAN_ISOLATE))
        cli_note(f->cli, "warning: %s isolates nothing: commands run on this machine as you",
                 backend->name);
    else if (has_the_hosts_network(f, backend))
        cli_note(f->cli, "warning: network host: the sandbox reaches all that this machine reaches,"
                         " its own loopback and its neighbours too");
    f->warned = true;
}

static void tell_of_found(const struct fresh *f)
{
    int found = tn_sandbox_record(f->sb)->found;

    if (found)
        cli_note(f->cli, "%s had one of that name: it is taken over, with its files",
                 tn_sandbox_backend(f->sb)->name);
    if (found > 1)
        cli_note(f->cli, "%d more of that name have no row either: tendon gc removes them",
                 found - 1);
}

static void begin(const struct fresh *f, const char *what)
{
    if (!f->one_of_many)
        progress_begin(what);
}

static void end(const struct fresh *f)
{
    if (!f->one_of_many)
        progress_end();
}

static int made(struct fresh *f, struct tn_sandbox *sb)
{
    end(f);
    f->sb = sb;
    set_state(f, false, sb ? tn_sandbox_record(sb)->id : "");
    if (!sb)
        return -1;
    warn_of_no_isolation(f);
    tell_of_found(f);
    return 0;
}

int fresh_make(struct fresh *f, const struct tn_spec *spec, struct tn_error *err)
{
    struct tn_runtime *rt = cli_runtime(f->cli, err);

    if (!rt)
        return -1;
    set_state(f, true, "");
    begin(f, "starting a sandbox");
    return made(f, tn_sandbox_create(rt, spec, cli_start_deadline(f->cli), err));
}

int fresh_fork(struct fresh *f, struct tn_sandbox *from, const char *name,
               const struct tn_spec *spec, struct tn_error *err)
{
    set_state(f, true, "");
    begin(f, "forking");
    return made(f, tn_sandbox_fork(from, name, spec, cli_start_deadline(f->cli), err));
}

void fresh_leave(struct fresh *f)
{
    set_state(f, false, "");
}

int fresh_remove(struct fresh *f, struct tn_error *err)
{
    begin(f, "removing the sandbox");
    int r = tn_sandbox_drive(f->sb, TN_GOAL_GONE, cli_stop_deadline(f->cli), err);
    end(f);
    if (r == 0)
        set_state(f, false, "");
    return r;
}

/* --- when a signal ends it all ------------------------------------------------------------- */

/* `tendon gc` with the options of this process; the strings are borrowed, the list is on the heap.
 */
static const char **gc_argv(struct cli *cli, const char *state)
{
    const struct globals *g = &cli->globals;
    const char **argv = tn_calloc(2 * g->set.count + 8, sizeof *argv);
    size_t n = 0;

    argv[n++] = "tendon";
    argv[n++] = "gc";
    argv[n++] = "--state";
    argv[n++] = state;
    if (g->config) {
        argv[n++] = "--config";
        argv[n++] = g->config;
    }
    for (size_t i = 0; i < g->set.count; i++) {
        argv[n++] = "--set";
        argv[n++] = g->set.items[i];
    }
    return argv;
}

/* In the child of a process with threads: only what is safe there. */
static _Noreturn void wait_and_collect(int parent_lives, const char *const *argv)
{
    sigset_t none;
    char nothing;
    int null = open("/dev/null", O_RDWR);

    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    while (read(parent_lives, &nothing, 1) < 0 && errno == EINTR)
        ;
    execv("/proc/self/exe", (char *const *)argv);
    _exit(127);
}

/* Who owns a sandbox must be dead before others may take it away; so this needs somebody else, who
 * waits until our end of a pipe is closed. */
static void leave_to_gc(struct cli *cli)
{
    struct tn_runtime *rt = cli_runtime(cli, NULL);
    int ends[2];

    if (!rt || pipe2(ends, O_CLOEXEC) < 0)
        return;
    tn_autofree const char **argv = gc_argv(cli, tn_runtime_host(rt)->state);
    if (fork() == 0) {
        close(ends[1]);
        wait_and_collect(ends[0], argv);
    }
    tn_close(ends[0]); /* the other end closes when this process ends */
}

void fresh_abandon(struct fresh *f)
{
    struct timespec until = tn_timespec(tn_now() + PATIENCE);
    char id[sizeof f->id];

    pthread_mutex_lock(&f->lock);
    while (f->making && pthread_cond_timedwait(&f->changed, &f->lock, &until) != ETIMEDOUT)
        ;
    bool making = f->making;
    memcpy(id, f->id, sizeof id);
    pthread_mutex_unlock(&f->lock);

    /* The other thread may be using its handle: this one needs its own. */
    struct tn_runtime *rt = cli_runtime(f->cli, NULL);
    tn_autosandbox struct tn_sandbox *sb = rt && *id ? tn_sandbox_attach(rt, id, NULL) : NULL;
    bool gone = sb && tn_sandbox_drive(sb, TN_GOAL_GONE, cli_stop_deadline(f->cli), NULL) == 0;
    if (making || (*id && !gone))
        leave_to_gc(f->cli);
}

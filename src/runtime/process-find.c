/* Finding the processes of a sandbox, and ending them. */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "runtime/process.h"

#define MAX_ENVIRONMENT (4u << 20)
#define MAX_ROUNDS 64

/* --- by their mark ------------------------------------------------------------------------- */

/* The value of our mark in the environment of a process, or NULL. */
static const char *mark_of(const struct tn_buf *env)
{
    const size_t n = sizeof TN_PROCESS_MARK; /* with the '=' in place of the NUL */

    for (size_t at = 0; at < env->len; at += strlen(env->data + at) + 1)
        if (strncmp(env->data + at, TN_PROCESS_MARK "=", n) == 0)
            return env->data + at + n;
    return NULL;
}

static bool fits(const char *mark, const char *directory, const char *above)
{
    size_t n = strlen(above);

    if (directory)
        return strcmp(mark, directory) == 0;
    return strncmp(mark, above, n) == 0 && !strchr(mark + n, '/') && mark[n];
}

static int look_at(pid_t pid, const char *directory, const char *above, struct tn_buf *env,
                   tn_process_marked_fn fn, void *ctx)
{
    struct tn_proc before, after;

    if (tn_proc_get(pid, &before) < 0 || tn_proc_environ(pid, env) < 0)
        return 0;
    const char *mark = mark_of(env);
    if (!mark || !fits(mark, directory, above))
        return 0;
    /* The number named the same process all the time. */
    if (tn_proc_get(pid, &after) < 0 || after.start != before.start)
        return 0;
    return fn(&after, mark, ctx);
}

int tn_process_marked(const char *state, const char *directory, tn_process_marked_fn fn, void *ctx,
                      struct tn_error *err)
{
    tn_autofree char *above = tn_asprintf("%s/sandbox/", state);
    tn_autobuf struct tn_buf env = TN_BUF_INIT(MAX_ENVIRONMENT);
    DIR *proc = opendir("/proc");
    int result = 0;

    if (!proc)
        return tn_fail_errno(err, errno, "/proc");
    for (struct dirent *e; result == 0 && (e = readdir(proc));) {
        char *end;
        long pid = strtol(e->d_name, &end, 10);
        if (!*end && pid > 1 && pid != getpid())
            result = look_at((pid_t)pid, directory, above, &env, fn, ctx);
    }
    closedir(proc);
    return result;
}

/* --- ending -------------------------------------------------------------------------------- */

struct found {
    struct tn_proc *items;
    size_t count;
};

static int collect(const struct tn_proc *proc, const char *directory, void *ctx)
{
    struct found *f = ctx;

    if (tn_proc_state(proc->pid, proc->start) == 'Z')
        return 0;
    f->items = tn_realloc(f->items, (f->count + 1) * sizeof *f->items);
    f->items[f->count++] = *proc;
    return 0;
}

/* Until a look finds none: what was born meanwhile carries the mark too. */
static int kill_marked(const char *state, const char *directory, int64_t deadline,
                       struct tn_error *err)
{
    for (int round = 0; round < MAX_ROUNDS; round++) {
        struct found f = {0};
        int result = tn_process_marked(state, directory, collect, &f, err);

        if (result == 0 && f.count > 0)
            result = tn_proc_kill(f.items, f.count, 0, deadline, err);
        bool none = f.count == 0;
        free(f.items);
        if (result < 0 || none)
            return result;
    }
    return tn_fail(err, TN_E_TIMEOUT, "its processes multiply faster than they can be ended");
}

static bool lives(const struct tn_proc *p)
{
    return tn_proc_lives(p->pid, p->start);
}

struct tn_proc tn_process_hand(void *engine, const struct tn_subject *subject)
{
    tn_autoprocessref struct tn_process_ref ref;

    tn_process_ref_read(subject, &ref);
    return ref.hand;
}

/* Asks the hand to end, and waits for it. */
static void ask(const struct tn_proc *hand, int64_t grace)
{
    tn_autofd int fd = (int)syscall(SYS_pidfd_open, hand->pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (fd < 0 || !lives(hand))
        return;
    syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0);
    if (tn_proc_state(hand->pid, hand->start) == 'T')
        tn_proc_continue_tree(hand->pid, NULL);
    while (poll(&p, 1, tn_poll_ms(grace)) < 0 && errno == EINTR)
        ;
}

/* A hand that ended in order has ended everything it ever started, and removed its own directory
 * at last. */
static bool ended_in_order(const struct tn_subject *subject)
{
    tn_autofree char *path = tn_asprintf("%s/tmp", subject->directory);
    DIR *dir = opendir(path);
    bool found = false;

    if (!dir)
        return false;
    for (struct dirent *e; !found && (e = readdir(dir));)
        found = strncmp(e->d_name, "tendon-hand-", 12) == 0;
    closedir(dir);
    return !found;
}

int tn_process_end(struct tn_process_engine *e, const struct tn_subject *subject,
                   const struct tn_process_ref *ref, int64_t grace, int64_t deadline,
                   struct tn_error *err)
{
    bool known = lives(&ref->hand);
    bool elsewhere = subject->spec->env && tn_json_has(subject->spec->env, "TMPDIR");

    if (known)
        ask(&ref->hand, grace < deadline ? grace : deadline);
    bool asked = known && !lives(&ref->hand);
    if (known && !asked && tn_proc_kill_tree(ref->hand.pid, true, 0, deadline, err) < 0)
        return -1;
    tn_process_forget(e, subject->id);
    if (asked && !elsewhere && ended_in_order(subject))
        return 0;
    return kill_marked(e->host->state, subject->directory, deadline, err);
}

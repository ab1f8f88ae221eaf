#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/fs.h"
#include "gate/keeper-protocol.h"
#include "runtime/jail/jail.h"
#include "runtime/jail/layer.h"
#include "runtime/jail/suspend.h"

/* What a keeper may take to clear up after its jail. */
#define KEEPER_SECONDS 5.0

#define SLICE_MS 20

#define ASK_SECONDS 1.0
#define THAW_SECONDS 5.0

/* --- ending --------------------------------------------------------------------------------- */

/* A descriptor of exactly that process; -1 when it is gone. */
static int open_process(int64_t pid, int64_t start)
{
    return tn_proc_open(&(struct tn_proc){.pid = (pid_t)pid, .start = (uint64_t)start});
}

struct tn_proc jail_process(void *engine, const struct tn_subject *subject)
{
    jail_autoref struct jail_ref ref = {0};

    jail_ref_read(subject, &ref);
    return (struct tn_proc){.pid = (pid_t)ref.pid, .start = (uint64_t)ref.start};
}

static int wait_process(int pidfd, int64_t deadline, struct tn_error *err)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    while (poll(&p, 1, tn_poll_ms(deadline)) <= 0)
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the jail does not end");
    return 0;
}

/* Waits in slices: when the keeper removes the group meanwhile, the kernel does not always wake up
 * who waits for it to be empty. */
static int kill_group(const struct jail_engine *e, const char *id, int64_t deadline,
                      struct tn_error *err)
{
    for (;;) {
        int64_t slice = tn_now() + SLICE_MS * TN_MILLI;
        struct tn_error why = {0};
        if (tn_cgroup_kill(&e->cgroups, id, slice < deadline ? slice : deadline, &why) == 0)
            return 0;
        if (why.code != TN_E_TIMEOUT || tn_now() >= deadline) {
            if (err)
                *err = why;
            return -1;
        }
    }
}

/* The changed files of a jail that is dead and shall be gone: most of what there is to remove. What
 * cannot be is met again, and reported, by whoever removes the directory. */
static void drop_files(const struct tn_subject *subject)
{
    tn_autofd int dir = open(subject->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir < 0)
        return;
    tn_fs_remove_tree(dir, "upper", 0, NULL);
    tn_fs_remove_tree(dir, "work", 0, NULL);
}

/* With PID 1 the kernel ends everybody in the jail.  The keeper sees that, writes down how it
 * ended, clears the cgroups and ends too, while we remove the files of one that shall be gone. What
 * it leaves, and everything when it is gone itself, is done from here. */
static int end_processes(struct jail_engine *e, const struct tn_subject *subject,
                         const struct jail_ref *ref, bool gone, int64_t deadline,
                         struct tn_error *err)
{
    tn_autofd int init = open_process(ref->pid, ref->start);
    tn_autofd int keeper = open_process(ref->keeper, ref->keeper_start);
    int64_t patience = tn_deadline_in(KEEPER_SECONDS);

    if (init >= 0) {
        tn_cgroup_kill(&e->cgroups, subject->id, 0, NULL); /* frees it from the freezer, too */
        syscall(SYS_pidfd_send_signal, init, SIGKILL, NULL, 0);
        if (wait_process(init, deadline, err) < 0)
            return -1;
        if (gone)
            drop_files(subject);
    }
    if (keeper >= 0 && wait_process(keeper, patience < deadline ? patience : deadline, NULL) < 0) {
        syscall(SYS_pidfd_send_signal, keeper, SIGKILL, NULL, 0);
        if (wait_process(keeper, deadline, err) < 0)
            return -1;
    }
    return kill_group(e, subject->id, deadline, err);
}

static int end_jail(struct jail_engine *e, const struct tn_subject *subject, bool gone,
                    int64_t deadline, struct tn_error *err)
{
    jail_autoref struct jail_ref ref = {0};

    if (jail_await_start(subject, deadline, err) < 0)
        return -1;
    jail_ref_find(subject, &ref, deadline);
    if (end_processes(e, subject, &ref, gone, deadline, err) < 0)
        return -1;
    if (tn_cgroup_remove(&e->cgroups, subject->id, deadline, err) < 0)
        return -1;
    return jail_set_mark(subject, JAIL_COPYING, false, err) < 0
               ? -1
               : jail_set_mark(subject, JAIL_PAUSED, false, err);
}

int jail_kill(struct jail_engine *e, const struct tn_subject *subject, int64_t deadline,
              struct tn_error *err)
{
    return end_jail(e, subject, false, deadline, err);
}

/* --- freezing ------------------------------------------------------------------------------- */

/* For want of cgroups: everything in the jail descends from its PID 1.  Parents are stopped before
 * their children and continued after them, so that no shell ever sees a job of its stopped.  One
 * that is not stopped yet may have children: repeated until nobody new is found. */
static int stop_all(const struct jail_ref *ref, struct tn_error *err)
{
    size_t before = SIZE_MAX;

    if (kill((pid_t)ref->pid, SIGSTOP) < 0)
        return tn_fail_errno(err, errno, "stop the jail");
    for (int round = 0; round < 100; round++) {
        tn_autofree struct tn_proc *list = NULL;
        size_t count = 0;
        if (tn_proc_descendants((pid_t)ref->pid, &list, &count, err) < 0)
            return -1;
        for (size_t i = 0; i < count; i++)
            kill(list[i].pid, SIGSTOP);
        if (count == before)
            return 0;
        before = count;
    }
    return tn_fail(err, TN_E_BUSY, "the jail starts processes faster than they can be stopped");
}

static int continue_all(const struct jail_ref *ref, struct tn_error *err)
{
    tn_autofree struct tn_proc *list = NULL;
    size_t count = 0;

    if (tn_proc_descendants((pid_t)ref->pid, &list, &count, err) < 0)
        return -1;
    while (count > 0)
        kill(list[--count].pid, SIGCONT);
    if (kill((pid_t)ref->pid, SIGCONT) < 0)
        return tn_fail_errno(err, errno, "continue the jail");
    return 0;
}

int jail_freeze(struct jail_engine *e, const struct tn_subject *subject, const struct jail_ref *ref,
                bool frozen, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};

    if (tn_cgroup_freeze(&e->cgroups, subject->id, frozen, deadline, &why) == 0) {
        if (!frozen) /* it may have been stopped besides */
            kill((pid_t)ref->pid, SIGCONT);
        return jail_set_mark(subject, JAIL_PAUSED, false, err);
    }
    if (why.code != TN_E_UNSUPPORTED && why.code != TN_E_NOT_FOUND) {
        if (err)
            *err = why;
        return -1;
    }
    if (frozen && jail_set_mark(subject, JAIL_PAUSED, true, err) < 0)
        return -1;
    if (frozen)
        return stop_all(ref, err);
    return continue_all(ref, err) < 0 ? -1 : jail_set_mark(subject, JAIL_PAUSED, false, err);
}

int jail_freeze_to_copy(struct jail_engine *e, const struct tn_subject *subject,
                        const struct jail_ref *ref, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(256);
    int64_t patience = tn_deadline_in(ASK_SECONDS);

    if (jail_mark_copying(subject, false, err) < 0)
        return -1;
    /* A keeper that does not answer will not thaw it either; whoever looks next does. */
    tn_keeper_ask(subject->directory, TN_KEEPER_COPYING, &answer, NULL,
                  patience < deadline ? patience : deadline, NULL);
    return jail_freeze(e, subject, ref, true, deadline, err);
}

int jail_thaw_copied(struct jail_engine *e, const struct tn_subject *subject,
                     const struct jail_ref *ref, struct tn_error *err)
{
    if (jail_freeze(e, subject, ref, false, tn_deadline_in(THAW_SECONDS), err) == 0)
        return jail_set_mark(subject, JAIL_COPYING, false, err);
    jail_mark_copying(subject, true, NULL);
    return -1;
}

/* --- one goal each -------------------------------------------------------------------------- */

struct driving {
    struct jail_engine *e;
    const struct tn_subject *subject;
    struct tn_place *place;
    int64_t deadline;
    struct tn_place now; /* how it was when we began */
    struct jail_ref ref;
};

static bool lives(const struct driving *d)
{
    return d->now.status == TN_STATUS_RUNNING || d->now.status == TN_STATUS_PAUSED;
}

static int be_launched(struct driving *d, struct tn_error *err)
{
    jail_autostorage struct jail_storage s = {0};

    jail_storage_init(&s);
    if (jail_kill(d->e, d->subject, d->deadline, err) < 0 ||
        jail_storage_load(d->e->host->state, d->subject->directory, d->subject->id, &s, err) < 0)
        return -1;
    return jail_launch(d->e, d->subject, &s, d->place, d->deadline, err);
}

/* Whoever started it may have been killed before the mark was gone. */
static int still_there(struct driving *d, enum tn_status status, struct tn_error *err)
{
    if (jail_set_mark(d->subject, JAIL_STOPPED, false, err) < 0)
        return -1;
    d->place->status = status;
    d->place->address = jail_address(d->subject);
    d->place->ref = jail_ref_write(&d->ref);
    return 0;
}

static int to_running(struct driving *d, struct tn_error *err)
{
    if (!lives(d))
        return be_launched(d, err);
    if (d->now.status == TN_STATUS_PAUSED &&
        jail_freeze(d->e, d->subject, &d->ref, false, d->deadline, err) < 0)
        return -1;
    return still_there(d, TN_STATUS_RUNNING, err);
}

static int to_paused(struct driving *d, struct tn_error *err)
{
    if (!lives(d)) {
        if (be_launched(d, err) < 0)
            return -1;
        struct tn_subject fresh = *d->subject;
        fresh.ref = d->place->ref;
        jail_ref_done(&d->ref);
        jail_ref_read(&fresh, &d->ref);
        d->place->status = TN_STATUS_PAUSED;
    } else if (still_there(d, TN_STATUS_PAUSED, err) < 0) {
        return -1;
    }
    /* Left by somebody who died before it froze anything: nobody is to thaw it for that. */
    if (jail_set_mark(d->subject, JAIL_COPYING, false, err) < 0)
        return -1;
    return jail_freeze(d->e, d->subject, &d->ref, true, d->deadline, err);
}

/* How long it ran counts towards the time it may run in all. */
static int note_time(const struct driving *d, struct tn_error *err)
{
    jail_autostorage struct jail_storage s = {0};

    if (!d->ref.wall_time)
        return 0;
    jail_storage_init(&s);
    if (jail_storage_load(d->e->host->state, d->subject->directory, d->subject->id, &s, err) < 0)
        return -1;
    s.ran += tn_proc_age((uint64_t)d->ref.start);
    return jail_storage_save(d->subject->directory, &s, err);
}

/* Files on a tmpfs end with the jail; so they are saved first, while nothing changes them. */
static int save_files(struct driving *d, struct tn_error *err)
{
    if (!d->ref.disk)
        return 0;
    tn_autofd int upper = jail_open_upper(d->subject, true, d->deadline, err);
    bool paused = d->now.status == TN_STATUS_PAUSED;
    if (upper < 0)
        return -1;
    if ((paused || jail_freeze_to_copy(d->e, d->subject, &d->ref, d->deadline, err) == 0) &&
        jail_save_upper(d->e, d->subject, upper, d->deadline, err) == 0)
        return 0;
    if (!paused)
        jail_thaw_copied(d->e, d->subject, &d->ref, NULL);
    return -1;
}

static int to_stopped(struct driving *d, struct tn_error *err)
{
    if (lives(d) && (save_files(d, err) < 0 || note_time(d, err) < 0))
        return -1;
    if (jail_set_mark(d->subject, JAIL_STOPPED, true, err) < 0 ||
        jail_forget_memory(d->subject, err) < 0 ||
        jail_kill(d->e, d->subject, d->deadline, err) < 0)
        return -1;
    d->place->status = TN_STATUS_STOPPED;
    return 0;
}

/* The keeper does it.  Who is frozen cannot be written down, and is not for a moment. */
static int ask_to_suspend(const struct driving *d, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(4096);
    bool paused = d->now.status == TN_STATUS_PAUSED;

    if (paused && jail_freeze(d->e, d->subject, &d->ref, false, d->deadline, err) < 0)
        return -1;
    int r =
        tn_keeper_ask(d->subject->directory, TN_KEEPER_SUSPEND, &answer, NULL, d->deadline, err);
    const char *said = tn_buf_str(&answer);
    if (r == 0 && strcmp(said, "ok") != 0)
        r = tn_fail(err, TN_E_UNSUPPORTED, "the jail is not suspended and runs on: %s",
                    strncmp(said, TN_KEEPER_NO, strlen(TN_KEEPER_NO)) == 0
                        ? said + strlen(TN_KEEPER_NO)
                        : said);
    if (r < 0 && paused)
        jail_freeze(d->e, d->subject, &d->ref, true, d->deadline, NULL);
    return r;
}

static int to_suspended(struct driving *d, struct tn_error *err)
{
    d->place->status = TN_STATUS_SUSPENDED;
    if (d->now.status == TN_STATUS_SUSPENDED)
        return 0;
    if (d->ref.gvisor)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "a jail under gVisor cannot be suspended to disk: criu does not know it");
    tn_autofree char *obstacle = jail_suspend_obstacle(d->e, NULL, d->deadline);
    if (obstacle)
        return tn_fail(err, TN_E_UNSUPPORTED, "a jail cannot be suspended to disk: %s", obstacle);
    if (!lives(d))
        return tn_fail(err, TN_E_CONFLICT, "it does not run: there is nothing to suspend");
    if (ask_to_suspend(d, err) < 0 || note_time(d, err) < 0)
        return -1;
    return jail_kill(d->e, d->subject, d->deadline, err);
}

/* Leaves every layer that the storage mentions; without a storage, every layer there is. */
static int leave_layers(const struct driving *d, struct tn_error *err)
{
    const char *state = d->e->host->state, *id = d->subject->id;
    jail_autostorage struct jail_storage s = {0};
    struct tn_error why = {0};

    jail_storage_init(&s);
    if (jail_storage_read(d->subject->directory, &s, &why) < 0)
        return jail_layer_leave_all(state, id, err);
    for (size_t i = 0; i < s.snapshot_count; i++)
        for (size_t k = 0; k < s.snapshots[i].layers.count; k++)
            if (jail_layer_leave(state, s.snapshots[i].layers.items[k], id, err) < 0)
                return -1;
    for (size_t i = 0; i < s.layers.count; i++)
        if (jail_layer_leave(state, s.layers.items[i], id, err) < 0)
            return -1;
    for (size_t i = 0; i < s.leaving.count; i++)
        if (jail_layer_leave(state, s.leaving.items[i], id, err) < 0)
            return -1;
    if (s.making && jail_layer_leave(state, s.making, id, err) < 0)
        return -1;
    return s.folding ? jail_layer_leave(state, s.folding, id, err) : 0;
}

/* The directory itself is the caller's to remove. */
static int to_gone(struct driving *d, struct tn_error *err)
{
    if (end_jail(d->e, d->subject, true, d->deadline, err) < 0 || leave_layers(d, err) < 0)
        return -1;
    d->place->status = TN_STATUS_MISSING;
    return 0;
}

static int (*const ways[])(struct driving *d, struct tn_error *err) = {
    [TN_GOAL_RUNNING] = to_running,
    [TN_GOAL_PAUSED] = to_paused,
    [TN_GOAL_STOPPED] = to_stopped,
    [TN_GOAL_SUSPENDED] = to_suspended,
};

int jail_drive(void *engine, const struct tn_subject *subject, enum tn_goal goal,
               struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    struct driving d = {.e = engine, .subject = subject, .place = place, .deadline = deadline};

    if (goal == TN_GOAL_GONE) /* however it is now */
        return to_gone(&d, err);
    if (jail_inspect(engine, subject, &d.now, deadline, err) < 0)
        return -1;
    enum tn_status was = d.now.status;
    jail_ref_find(subject, &d.ref, deadline);
    tn_place_done(&d.now);
    d.now.status = was;
    if (was == TN_STATUS_MISSING) {
        jail_ref_done(&d.ref);
        return tn_fail(err, TN_E_NOT_FOUND, "the jail of sandbox %s does not exist any more",
                       subject->id);
    }
    int r = ways[goal](&d, err);
    jail_ref_done(&d.ref);
    return r;
}

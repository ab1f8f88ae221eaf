#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/statfs.h>

#include "base/fs.h"
#include "gate/keeper-protocol.h"
#include "runtime/jail/enter.h"
#include "runtime/jail/jail.h"
#include "runtime/jail/layer.h"
#include "runtime/jail/storage.h"

/* --- going in ------------------------------------------------------------------------------- */

static int find_running(struct jail_engine *e, const struct tn_subject *subject,
                        struct jail_ref *ref, int64_t deadline, struct tn_error *err)
{
    if (!jail_ref_find(subject, ref, deadline))
        return tn_fail(err, TN_E_CONFLICT, "the jail does not run");
    if (jail_is_frozen(e, subject, ref, deadline))
        return tn_fail(err, TN_E_CONFLICT, "the jail is paused: whatever goes in stands still too");
    return 0;
}

/* Under gVisor whoever came by the namespaces would stand outside of its kernel: what goes in is a
 * program that runsc starts. */
static const char put_script[] = "mkdir -p \"${1%/*}/\" && cat >\"$1\" && chmod \"$2\" \"$1\"";

int jail_put(void *engine, const struct tn_subject *subject, const char *path, const void *bytes,
             size_t n, mode_t mode, int64_t deadline, struct tn_error *err)
{
    jail_autoref struct jail_ref ref = {0};
    char octal[16];

    if (path[0] != '/')
        return tn_fail(err, TN_E_INVALID, "put %s: expected an absolute path", path);
    if (find_running(engine, subject, &ref, deadline, err) < 0)
        return -1;
    snprintf(octal, sizeof octal, "%o", (unsigned)mode & 07777);
    const char *const ours[] = {"--put", path, octal, NULL};
    const char *const gvisors[] = {"--runsc", "sh", "-c", put_script, "put", path, octal, NULL};
    struct jail_entry entry = {.e = engine,
                               .subject = subject,
                               .ref = &ref,
                               .argv = ref.gvisor ? gvisors : ours,
                               .input = bytes,
                               .input_length = n,
                               .deadline = deadline};
    return jail_enter(&entry, err);
}

int jail_exec(void *engine, const struct tn_subject *subject, const char *const *argv,
              struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err)
{
    jail_autoref struct jail_ref ref = {0};
    size_t count = 0;

    if (find_running(engine, subject, &ref, deadline, err) < 0)
        return -1;
    while (argv[count])
        count++;
    tn_autofree const char **all = tn_calloc(count + 2, sizeof *all);
    all[0] = ref.gvisor ? "--runsc" : "--";
    memcpy(all + 1, argv, count * sizeof *all);
    struct jail_entry entry = {.e = engine,
                               .subject = subject,
                               .ref = &ref,
                               .argv = all,
                               .out = out,
                               .status = status,
                               .deadline = deadline};
    return jail_enter(&entry, err);
}

int jail_rename(void *engine, const struct tn_subject *subject, int64_t deadline,
                struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(4096);
    tn_autofree char *request = tn_asprintf(TN_KEEPER_NAME "%s", subject->spec->name);

    if (tn_keeper_ask(subject->directory, request, &answer, NULL, deadline, err) < 0)
        return -1;
    if (strcmp(tn_buf_str(&answer), "ok") != 0)
        return tn_fail(err, TN_E_IO, "rename: %s", tn_buf_str(&answer));
    return 0;
}

/* --- logs ----------------------------------------------------------------------------------- */

/* Hands on what is new; non-zero when fn wants no more, -1 with err. */
static int pass_on(int fd, tn_log_fn fn, void *ctx, struct tn_error *err)
{
    char bytes[16 << 10];

    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tn_fail_errno(err, errno, "log");
        if (n == 0)
            return 0;
        if (fn(bytes, (size_t)n, ctx) != 0)
            return 1;
    }
}

static int follow_log(int fd, const char *path, tn_log_fn fn, void *ctx, int64_t deadline,
                      struct tn_error *err)
{
    tn_autofd int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    char events[4096];

    if (watch < 0 || inotify_add_watch(watch, path, IN_MODIFY | IN_DELETE_SELF) < 0)
        return tn_fail_errno(err, errno, "watch %s", path);
    for (;;) {
        struct pollfd p = {.fd = watch, .events = POLLIN};
        int r = pass_on(fd, fn, ctx, err);
        if (r != 0)
            return r < 0 ? -1 : 0;
        if (poll(&p, 1, tn_poll_ms(deadline)) == 0)
            return 0;
        while (read(watch, events, sizeof events) > 0)
            ;
        if (access(path, F_OK) < 0)
            return pass_on(fd, fn, ctx, err) < 0 ? -1 : 0;
    }
}

int jail_logs(void *engine, const struct tn_subject *subject, bool follow, tn_log_fn fn, void *ctx,
              int64_t deadline, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" JAIL_LOG, subject->directory);
    tn_autofd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return tn_fail_errno(err, errno, "%s", path);
    if (follow)
        return follow_log(fd, path, fn, ctx, deadline, err);
    return pass_on(fd, fn, ctx, err) < 0 ? -1 : 0;
}

/* --- usage ---------------------------------------------------------------------------------- */

int jail_tmpfs_room(const struct tn_subject *subject, int64_t *used, int64_t *left,
                    int64_t deadline)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(256);
    struct statfs fs;
    int fd = -1;

    if (tn_keeper_ask(subject->directory, TN_KEEPER_STORAGE, &answer, &fd, deadline, NULL) < 0)
        return -1;
    tn_autofd int storage = fd;
    if (storage < 0 || fstatfs(storage, &fs) < 0)
        return -1;
    *used = (int64_t)(fs.f_blocks - fs.f_bfree) * fs.f_bsize;
    *left = (int64_t)fs.f_bavail * fs.f_bsize;
    return 0;
}

/* Layers that it stands on or keeps as snapshots were written by it, too. */
static int64_t layers_used(const struct jail_engine *e, const struct tn_subject *subject)
{
    jail_autostorage struct jail_storage s;
    uint64_t sum = 0;

    jail_storage_init(&s);
    if (jail_storage_read(subject->directory, &s, NULL) < 0)
        return 0;
    struct tn_str_list all = jail_storage_all_layers(&s);
    for (size_t i = 0; i < all.count; i++)
        sum += jail_layer_size(e->host->state, all.items[i]);
    jail_list_done(&all);
    return (int64_t)sum;
}

static int64_t disk_used(struct jail_engine *e, const struct tn_subject *subject,
                         const struct jail_ref *ref, bool running, bool *partial, int64_t deadline)
{
    int64_t used = -1, left;

    if (running && ref->disk) {
        if (jail_tmpfs_room(subject, &used, &left, deadline) < 0)
            return -1;
    } else {
        tn_autofd int upper = jail_open_upper(subject, false, deadline, NULL);
        if (upper >= 0)
            used = jail_measure_tree(e, subject->id, upper, partial);
        if (used >= 0 && running)
            used += (int64_t)jail_unlinked(ref, upper);
    }
    return used < 0 ? -1 : used + layers_used(e, subject);
}

/* Without cgroups: what the processes say. */
static void sum_processes(const struct jail_ref *ref, struct tn_usage *out)
{
    struct tn_proc *list = NULL;
    size_t count = 0;

    if (tn_proc_descendants((pid_t)ref->pid, &list, &count, NULL) < 0)
        return;
    out->processes = (int64_t)count + 1;
    out->memory = 0;
    for (size_t i = 0; i <= count; i++) {
        tn_autofree char *path =
            tn_asprintf("/proc/%d/statm", i < count ? (int)list[i].pid : (int)ref->pid);
        tn_autobuf struct tn_buf text = TN_BUF_INIT(256);
        long long size = 0, resident = 0;
        if (tn_fs_read(TN_FS_ANYWHERE, path, &text, NULL) == 0 &&
            sscanf(tn_buf_str(&text), "%lld %lld", &size, &resident) == 2)
            out->memory += resident * sysconf(_SC_PAGESIZE);
    }
    free(list);
}

int jail_usage(void *engine, const struct tn_subject *subject, struct tn_usage *out,
               struct tn_error *err)
{
    struct jail_engine *e = engine;
    int64_t deadline = tn_deadline_in(5.0);
    bool partial = false;
    struct tn_cgroup_usage usage = {
        .memory = -1, .memory_peak = -1, .processes = -1, .cpu_seconds = -1};
    jail_autoref struct jail_ref ref = {0};
    bool running = jail_ref_find(subject, &ref, deadline);

    if (running)
        tn_cgroup_usage(&e->cgroups, subject->id, &usage);
    *out = (struct tn_usage){.memory = usage.memory,
                             .memory_peak = usage.memory_peak,
                             .disk = disk_used(e, subject, &ref, running, &partial, deadline),
                             .cpu_seconds = usage.cpu_seconds,
                             .processes = usage.processes,
                             .disk_partial = partial};
    if (running && out->memory < 0 && out->processes < 0)
        sum_processes(&ref, out);
    return 0;
}

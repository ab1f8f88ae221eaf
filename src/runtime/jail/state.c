#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "gate/keeper-protocol.h"
#include "runtime/gated.h"
#include "runtime/jail/jail.h"

/* A tmpfs with less room than this left is full: no file of any size fits. */
#define FULL_BYTES (64u << 10)
enum {
    LAST_WORDS_MAX = 300,
};

/* --- marks in the sandbox's directory ------------------------------------------------------- */

bool jail_has_mark(const struct tn_subject *subject, const char *name)
{
    tn_autofree char *path = tn_asprintf("%s/%s", subject->directory, name);
    return access(path, F_OK) == 0;
}

int jail_set_mark(const struct tn_subject *subject, const char *name, bool there,
                  struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/%s", subject->directory, name);

    if (!there) {
        if (unlink(path) < 0 && errno != ENOENT)
            return tn_fail_errno(err, errno, "%s", path);
        return 0;
    }
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? tn_fail_errno(err, errno, "%s", path) : 0;
}

int jail_mark_copying(const struct tn_subject *subject, bool abandoned, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" JAIL_COPYING, subject->directory);
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct tn_proc self = {0};
    char text[64];

    if (fd < 0 || (!abandoned && tn_proc_get(getpid(), &self) < 0))
        return tn_fail_errno(err, errno, "%s", path);
    int n = snprintf(text, sizeof text, "%d %llu\n", (int)self.pid, (unsigned long long)self.start);
    return tn_fs_write(fd, text, (size_t)n, err);
}

char *jail_address(const struct tn_subject *subject)
{
    return tn_asprintf("unix:%s/" TN_JAIL_SOCKET, subject->directory);
}

/* --- why it ended --------------------------------------------------------------------------- */

/* The last lines that the hand printed as one, "" when it printed nothing. */
static char *last_words(const struct tn_subject *subject)
{
    tn_autofree char *path = tn_asprintf("%s/" JAIL_LOG, subject->directory);
    tn_autofd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(2 * LAST_WORDS_MAX);
    char text[LAST_WORDS_MAX + 1] = "";
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    off_t from = size > LAST_WORDS_MAX ? size - LAST_WORDS_MAX : 0;
    ssize_t n = size > 0 ? pread(fd, text, LAST_WORDS_MAX, from) : 0;
    const char *line = text;

    text[n > 0 ? n : 0] = '\0';
    if (from > 0) /* begins in the middle of one */
        line += strcspn(line, "\n");
    for (size_t length; *line; line += length) {
        line += strspn(line, "\r\n");
        length = strcspn(line, "\r\n");
        if (length)
            tn_buf_printf(&out, "%s%.*s", out.len ? "; " : "", (int)length, line);
    }
    for (size_t i = 0; i < out.len; i++)
        if ((unsigned char)out.data[i] < ' ' || out.data[i] == 0x7f)
            out.data[i] = ' ';
    return tn_buf_take(&out);
}

/* Of gVisor one of several processes is killed, and PID 1 ends by itself. */
static bool ran_out_of_memory(const struct tn_jail_end *end, const struct jail_ref *ref)
{
    bool killed = end->signal.set && end->signal.value == SIGKILL;

    return !end->wall_time && end->oom_kills > 0 && (killed || ref->gvisor);
}

static char *end_reason(const struct tn_subject *subject, const struct tn_jail_end *end,
                        const struct jail_ref *ref)
{
    char limit[32];

    if (end->wall_time)
        return tn_asprintf("killed: its time of %g seconds was over", ref->wall_time);
    if (ran_out_of_memory(end, ref)) {
        jail_size_text(limit, (uint64_t)ref->memory);
        return tn_asprintf("killed: out of memory (limit %s)", limit);
    }
    if (ref->gvisor && end->pids_hits > 0)
        return tn_asprintf("gVisor ended: its processes were more than the limit of %lld allows",
                           (long long)ref->pids);
    if (end->signal.set)
        return tn_asprintf("the hand was killed by signal %d (%s)", (int)end->signal.value,
                           strsignal((int)end->signal.value));
    if (end->status.set) {
        tn_autofree char *said = last_words(subject);
        return tn_asprintf("the hand ended with status %d%s%s", (int)end->status.value,
                           *said ? ": " : "", said);
    }
    return tn_strdup("the jail ended");
}

static void describe_end(const struct tn_subject *subject, const struct jail_ref *ref,
                         struct tn_place *place)
{
    struct tn_jail_end end;

    place->status = TN_STATUS_ERROR;
    bool told = tn_jail_end_read(subject->directory, &end, NULL) == 0;
    place->blame = told && ran_out_of_memory(&end, ref) ? TN_BLAME_MEMORY : TN_BLAME_NONE;
    if (told)
        place->reason = end_reason(subject, &end, ref);
    else
        place->reason =
            tn_strdup(ref->pid ? "its keeper ended without a word (killed, or no room on "
                                 "the disk), and the jail with it"
                               : "it was never started");
}

/* --- which limits it has met ---------------------------------------------------------------- */

static void put_sentence(struct tn_buf *out, const char *text)
{
    if (out->len)
        tn_buf_puts(out, "; ");
    tn_buf_puts(out, text);
}

static char *limits_met(const struct jail_engine *e, const struct tn_subject *subject,
                        const struct jail_ref *ref, int64_t deadline)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    struct tn_cgroup_events events = {0};
    char size[32], text[160];

    if (ref->memory || ref->pids)
        tn_cgroup_events(&e->cgroups, subject->id, &events);
    if (events.oom_kills > 0) {
        jail_size_text(size, (uint64_t)ref->memory);
        snprintf(text, sizeof text, "out of memory: %lld process%s killed (limit %s)",
                 (long long)events.oom_kills, events.oom_kills == 1 ? " was" : "es were", size);
        put_sentence(&out, text);
    }
    if (events.pids_hits > 0) {
        snprintf(text, sizeof text, "process limit of %lld reached (%lld time%s)",
                 (long long)ref->pids, (long long)events.pids_hits,
                 events.pids_hits == 1 ? "" : "s");
        put_sentence(&out, text);
    }
    if (ref->disk) {
        int64_t used, left;
        if (jail_tmpfs_room(subject, &used, &left, deadline) == 0 && left < (int64_t)FULL_BYTES) {
            jail_size_text(size, (uint64_t)ref->disk);
            snprintf(text, sizeof text, "disk of %s is full", size);
            put_sentence(&out, text);
        }
    }
    if (jail_ref_is_gated(ref))
        tn_gated_put_refusals(&out, subject, deadline);
    return out.len ? tn_buf_take(&out) : NULL;
}

/* --- inspect -------------------------------------------------------------------------------- */

bool jail_is_frozen(struct jail_engine *e, const struct tn_subject *subject,
                    const struct jail_ref *ref, int64_t deadline)
{
    tn_autofree char *path = tn_asprintf("%s/" JAIL_COPYING, subject->directory);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64);
    struct tn_proc copier;
    long pid = 0;
    unsigned long long start = 0;

    /* Its hand alone may have been stopped, by somebody outside. */
    if (!tn_cgroup_is_frozen(&e->cgroups, subject->id) && !jail_has_mark(subject, JAIL_PAUSED) &&
        tn_proc_state((pid_t)ref->pid, (uint64_t)ref->start) != 'T')
        return false;
    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, NULL) < 0)
        return true;
    char *rest;
    pid = strtol(tn_buf_str(&text), &rest, 10);
    start = strtoull(rest, NULL, 10);
    if (pid > 0 && tn_proc_get((pid_t)pid, &copier) == 0 && copier.start == start)
        return false;
    if (jail_freeze(e, subject, ref, false, deadline, NULL) < 0)
        return true;
    jail_set_mark(subject, JAIL_COPYING, false, NULL);
    return false;
}

int jail_inspect(void *engine, const struct tn_subject *subject, struct tn_place *place,
                 int64_t deadline, struct tn_error *err)
{
    struct jail_engine *e = engine;
    jail_autoref struct jail_ref ref = {0};

    if (jail_ref_find(subject, &ref, deadline)) {
        place->status =
            jail_is_frozen(e, subject, &ref, deadline) ? TN_STATUS_PAUSED : TN_STATUS_RUNNING;
        place->address = jail_address(subject);
        jail_ref_set_reach(subject, &ref);
        place->ref = jail_ref_write(&ref);
        place->isolation = jail_ref_isolation(&ref);
        place->reason = limits_met(e, subject, &ref, deadline);
        return 0;
    }
    if (!jail_has_mark(subject, JAIL_STORAGE_FILE))
        place->status = TN_STATUS_MISSING;
    else if (jail_has_mark(subject, TN_JAIL_SUSPENDED))
        place->status = TN_STATUS_SUSPENDED;
    else if (jail_has_mark(subject, JAIL_STOPPED))
        place->status = TN_STATUS_STOPPED;
    else
        describe_end(subject, &ref, place);
    return 0;
}

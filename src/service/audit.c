#include "service/audit.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file-lock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/thread.h"
#include "service/audit-chain.h"

#define WAIT_SECONDS 30.0 /* for a disk that does not answer */
#define HALF_LINE_SECONDS 1.0
#define LOCK_SECONDS 10.0 /* for the child of a killed service to become another program */

enum { PENDING_MAX = 4 << 20, HEAD_BEHIND = 64, HEADS_IN_A_ROW = 8 };

struct audit {
    struct tn_db *db; /* or NULL */
    int fd;
    pthread_mutex_t lock;
    uint64_t batch;            /* number of the one that gathers */
    pthread_cond_t written[2]; /* of even and odd batches: one gathers, the one before is written */
    struct tn_buf pending;     /* lines of the batch that gathers */
    struct audit_place next;   /* behind the pending ones */
    struct audit_place synced; /* behind those on the disk */
    int64_t noted;             /* number of the head in the database */
    bool noting;               /* a thread is at that */
    bool writing;              /* a thread is at it, for all who wait */
    bool dirty;                /* what follows synced in the file is no line of ours */
    uint64_t failures;         /* grows when lines that waited were given up */
    struct tn_error failure;   /* why */
};

/* --- opening ---------------------------------------------------------------------------------- */

static int sync_directory(const char *path, struct tn_error *err)
{
    const char *slash = strrchr(path, '/');
    tn_autofree char *directory =
        slash ? tn_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : tn_strdup(".");
    tn_autofd int fd = tn_fs_open(TN_FS_ANYWHERE, directory, O_RDONLY | O_DIRECTORY, 0, err);

    if (fd < 0)
        return -1;
    return fsync(fd) ? tn_fail_errno(err, errno, "audit log: %s", directory) : 0;
}

/* Where the next line goes.  The lines up to the head were known when they were written; only those
 * after it are walked. */
static int find_end(struct audit *a, const char *path, struct tn_error *err)
{
    struct audit_place at = {0};
    struct tn_error why = {0};
    int known = a->db ? audit_head_read(a->db, &at, err) : 0;

    if (known < 0)
        return -1;
    int rest =
        known && audit_chain_ends(a->fd, &at, &why) ? -1 : audit_chain_walk(a->fd, &at, 0, &why);
    if (rest < 0 && !known) {
        *err = why;
        return tn_error_context(err, "%s (move it away to begin a new one)", path);
    }
    if (rest < 0) {
        off_t size = lseek(a->fd, 0, SEEK_END);
        tn_log(TN_LOG_ERROR, "the audit log was tampered with", tn_log_str("path", path),
               tn_log_str("error", why.text), tn_log_int("goes_on_with", at.n + 1));
        at.offset = size < 0 ? 0 : size;
    }
    a->next = a->synced = at;
    a->noted = known ? at.n : 0;
    a->dirty = rest > 0;
    return 0;
}

/* Half lines are cut off before the next one is written. */
static int clean(struct audit *a, struct tn_error *err)
{
    if (a->dirty && (ftruncate(a->fd, a->synced.offset) || fsync(a->fd)))
        return tn_fail_errno(err, errno, "audit log");
    a->dirty = false;
    return 0;
}

struct audit *audit_open(const char *path, struct tn_db *db, struct tn_error *err)
{
    tn_autofd int fd = tn_fs_open(TN_FS_ANYWHERE, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, err);

    if (fd < 0)
        return NULL;
    if (tn_byte_lock(fd, 0, tn_deadline_in(LOCK_SECONDS), err)) {
        tn_error_context(err, "audit log %s: another service writes it", path);
        return NULL;
    }
    if (sync_directory(path, err))
        return NULL;
    struct audit *a = tn_calloc(1, sizeof *a);
    *a = (struct audit){.db = db, .fd = TN_TAKE_FD(fd)};
    pthread_mutex_init(&a->lock, NULL);
    for (size_t i = 0; i < TN_COUNT(a->written); i++)
        tn_cond_init(&a->written[i]);
    tn_buf_init(&a->pending, PENDING_MAX);
    if (find_end(a, path, err) || clean(a, err)) {
        audit_close(a);
        return NULL;
    }
    return a;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    tn_close(a->fd);
    tn_buf_done(&a->pending);
    for (size_t i = 0; i < TN_COUNT(a->written); i++)
        pthread_cond_destroy(&a->written[i]);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

struct tn_db *audit_store(const struct audit *a)
{
    return a->db;
}

/* --- writing ---------------------------------------------------------------------------------- */

static int write_lines(struct audit *a, const struct tn_buf *lines, struct tn_error *err)
{
    struct stat st;

    if (clean(a, err))
        return -1;
    if (fstat(a->fd, &st) || st.st_nlink == 0)
        return tn_fail(err, TN_E_IO,
                       "audit log: somebody has removed it; the next start of the "
                       "service begins a new one");
    for (size_t done = 0; done < lines->len;) {
        a->dirty = true;
        ssize_t n =
            pwrite(a->fd, lines->data + done, lines->len - done, a->synced.offset + (int64_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tn_fail_errno(err, errno, "audit log");
        done += (size_t)n;
    }
    if (fdatasync(a->fd))
        return tn_fail_errno(err, errno, "audit log");
    a->dirty = false;
    return 0;
}

/* Notes the head when nobody waits to write, or when it is far behind: lines stay written without
 * it.  Called with the lock, which it lets go meanwhile; others may write all the time, and whoever
 * does this has a request to answer. */
static void note_head(struct audit *a)
{
    for (int i = 0; i < HEADS_IN_A_ROW && a->db && !a->noting && a->noted < a->synced.n &&
                    (!a->pending.len || a->synced.n - a->noted >= HEAD_BEHIND);
         i++) {
        struct audit_place head = a->synced;
        struct tn_error err = {0};
        a->noting = true;
        pthread_mutex_unlock(&a->lock);
        if (audit_head_write(a->db, &head, &err))
            tn_log(TN_LOG_WARN, "audit log: the head was not noted", tn_log_str("error", err.text));
        pthread_mutex_lock(&a->lock);
        a->noting = false;
        a->noted = head.n;
    }
}

static pthread_cond_t *written(struct audit *a, uint64_t batch)
{
    return &a->written[batch % TN_COUNT(a->written)];
}

/* Puts everything that waits on the disk.  Called with the lock, which it lets go meanwhile: more
 * lines gather for the next time.  Wakes those whose lines they were, and of those who came
 * meanwhile one, to do the same. */
static void write_pending(struct audit *a)
{
    uint64_t batch = a->batch++;
    struct tn_buf lines = a->pending;
    struct audit_place end = a->next;
    struct tn_error err = {0};

    tn_buf_init(&a->pending, PENDING_MAX);
    a->writing = true;
    pthread_mutex_unlock(&a->lock);
    int result = write_lines(a, &lines, &err);
    tn_buf_done(&lines);
    pthread_mutex_lock(&a->lock);
    a->writing = false;
    if (!result) {
        a->synced = end;
    } else { /* lines that came meanwhile are bound to those that are lost */
        a->failure = err;
        a->failures++;
        a->next = a->synced;
        tn_buf_reset(&a->pending);
        pthread_cond_broadcast(written(a, a->batch));
    }
    pthread_cond_broadcast(written(a, batch));
    pthread_cond_signal(written(a, a->batch));
}

int audit_write(struct audit *a, const struct audit_entry *e, struct tn_error *err)
{
    struct timespec until = tn_timespec(tn_deadline_in(WAIT_SECONDS));
    int result = 0;

    pthread_mutex_lock(&a->lock);
    if (audit_chain_add(&a->next, e, &a->pending, err)) {
        pthread_mutex_unlock(&a->lock);
        return -1;
    }
    int64_t mine = a->next.n;
    uint64_t failures = a->failures, batch = a->batch;
    while (!result && a->failures == failures && a->synced.n < mine) {
        if (!a->writing) {
            write_pending(a);
            note_head(a);
        } else if (pthread_cond_timedwait(written(a, batch), &a->lock, &until)) {
            result = tn_fail(err, TN_E_TIMEOUT, "audit log: the disk does not answer");
        }
    }
    if (result) /* whoever was to write may be the one that leaves */
        pthread_cond_signal(written(a, batch));
    if (a->failures != failures) {
        if (err)
            *err = a->failure;
        result = -1;
    }
    pthread_mutex_unlock(&a->lock);
    return result;
}

/* --- verifying -------------------------------------------------------------------------------- */

/* Walks to the end; half a line there may be one that is just being written. */
static int walk_on(int fd, const char *path, struct audit_place *at, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(HALF_LINE_SECONDS);
    tn_autofd int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct pollfd change = {.fd = changes, .events = POLLIN};
    char events[4096];
    int rest;

    inotify_add_watch(changes, path, IN_MODIFY); /* without one the deadline ends the wait */
    while ((rest = audit_chain_walk(fd, at, 0, err)) > 0 && tn_now() < deadline)
        if (poll(&change, 1, tn_poll_ms(deadline)) > 0 && read(changes, events, sizeof events) < 0)
            break;
    return rest;
}

int audit_verify(const char *path, struct tn_db *db, int64_t *lines, struct tn_error *err)
{
    struct audit_place at = {0}, head = {0};
    int known = db ? audit_head_read(db, &head, err) : 0;
    tn_autofd int fd = known < 0 ? -1 : tn_fs_open(TN_FS_ANYWHERE, path, O_RDONLY, 0, err);

    if (fd < 0)
        return -1;
    if (known && audit_chain_walk(fd, &at, head.n, err) < 0)
        return -1;
    if (known && at.n < head.n)
        return tn_fail(err, TN_E_CONFLICT,
                       "audit log: ends after line %" PRId64 ", but line %" PRId64
                       " was written once: lines were cut off",
                       at.n, head.n);
    if (known && strcmp(at.hash, head.hash) != 0)
        return tn_fail(err, TN_E_CONFLICT,
                       "audit log: line %" PRId64 " is not the one that was written", head.n);
    int rest = walk_on(fd, path, &at, err);
    if (rest > 0)
        return tn_fail(err, TN_E_CONFLICT,
                       "audit log: after line %" PRId64 " comes half a line: its writer was killed,"
                       " or somebody added it",
                       at.n);
    *lines = at.n;
    return rest;
}

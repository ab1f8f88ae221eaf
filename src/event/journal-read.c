#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "event/journal-line.h"

#define CHUNK ((size_t)64 << 10)
/* How often one looks oneself, where the kernel does not tell: see tn_journal_wait. */
#define LOOK_AGAIN (250 * TN_MILLI)

struct tn_journal_reader {
    int directory, log; /* log is -1 until there is one */
    int64_t from, damaged;
    off_t at;          /* file offset of buf's first byte */
    struct tn_buf buf; /* what was read */
    size_t used;       /* the part of it that was handed out */
    int changes;       /* inotify, -1 until the first wait */
    bool no_inotify;
};

int64_t tn_journal_damaged(const struct tn_journal_reader *r)
{
    return r->damaged;
}

void tn_journal_reader_free(struct tn_journal_reader *r)
{
    if (!r)
        return;
    tn_close(r->directory);
    tn_close(r->log);
    tn_close(r->changes);
    tn_buf_done(&r->buf);
    free(r);
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Goes on at a line that begins at this offset. */
static void seek(struct tn_journal_reader *r, off_t at)
{
    tn_buf_reset(&r->buf);
    r->at = at;
    r->used = 0;
}

/* Makes room for more of a line that goes beyond the buffer, and reads it. */
static ssize_t read_more(struct tn_journal_reader *r, struct tn_error *err)
{
    size_t most = r->buf.len - r->used;

    tn_buf_eat(&r->buf, r->used);
    r->at += (off_t)r->used;
    r->used = 0;
    most = most > CHUNK ? most : CHUNK; /* long lines in few steps */
    if (r->buf.len + most > r->buf.max)
        most = r->buf.max - r->buf.len;
    return line_pread(r->log, &r->buf, r->at + (off_t)r->buf.len, most, err);
}

/* The next line without its LF: 1, 0 when there is no whole one yet, -1. */
static int next_line(struct tn_journal_reader *r, const char **line, size_t *n,
                     struct tn_error *err)
{
    size_t looked = 0; /* how much of the unused part holds no LF */

    for (;;) {
        const char *start = tn_buf_str(&r->buf) + r->used;
        size_t have = r->buf.len - r->used;
        const char *lf = memchr(start + looked, '\n', have - looked);

        if (lf) {
            *line = start;
            *n = (size_t)(lf - start);
            r->used += *n + 1;
            return 1;
        }
        looked = have;
        if (have == r->buf.max) { /* no event is that long: on to the next line */
            off_t beyond = r->at + (off_t)(r->used + have);
            struct stat st;
            if (fstat(r->log, &st))
                return tn_fail_errno(err, errno, TN_JOURNAL_LOG);
            off_t start_after = line_start_after(r->log, beyond, st.st_size, err);
            if (start_after < 0)
                return -1;
            r->damaged++;
            seek(r, start_after);
            looked = 0;
        }
        ssize_t got = read_more(r, err);
        if (got < 0)
            return -1;
        if (got == 0) {
            /* Half a line: its writer may be killed and the next one write something else here. */
            seek(r, r->at);
            return 0;
        }
    }
}

static int next_event(struct tn_journal_reader *r, struct tn_journal_event *event,
                      struct tn_error *err)
{
    const char *line = NULL;
    size_t n = 0;
    int found;

    while ((found = next_line(r, &line, &n, err)) == 1) {
        if (line_parse(line, n, event))
            return 1;
        r->damaged++;
    }
    return found;
}

/* --- where to begin --------------------------------------------------------------------------- */

/* Halves the file until the stretch that holds the first event wanted is short.  Whatever lies in
 * the file, the result is the start of a line, and everything before it has a smaller id. */
static int find(struct tn_journal_reader *r, struct tn_error *err)
{
    struct stat st;
    off_t low = 0;

    if (fstat(r->log, &st))
        return tn_fail_errno(err, errno, TN_JOURNAL_LOG);
    for (off_t high = st.st_size; r->from > 0 && high - low > (off_t)CHUNK;) {
        struct tn_journal_event event;
        off_t middle = low + (high - low) / 2;
        off_t start = line_start_after(r->log, middle, high, err);
        if (start < 0)
            return -1;
        seek(r, start);
        int found = start < high ? next_event(r, &event, err) : 0;
        if (found < 0)
            return -1;
        if (found && event.id < r->from)
            low = start;
        else
            high = middle;
    }
    seek(r, low);
    r->damaged = 0;
    return 0;
}

/* 1 when there is a log. */
static int open_log(struct tn_journal_reader *r, struct tn_error *err)
{
    if (r->log >= 0)
        return 1;
    r->log = openat(r->directory, TN_JOURNAL_LOG, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (r->log < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, TN_JOURNAL_LOG);
    return find(r, err) ? -1 : 1;
}

struct tn_journal_reader *tn_journal_reader_new(const char *directory, int64_t from,
                                                struct tn_error *err)
{
    struct tn_journal_reader *r = tn_calloc(1, sizeof *r);

    *r = (struct tn_journal_reader){
        .log = -1, .changes = -1, .from = from, .buf = TN_BUF_INIT(LINE_MAX_BYTES)};
    r->directory = tn_fs_open(TN_FS_ANYWHERE, directory, O_RDONLY | O_DIRECTORY, 0, err);
    if (r->directory >= 0 && open_log(r, err) >= 0)
        return r;
    tn_error_context(err, "journal %s", directory);
    tn_journal_reader_free(r);
    return NULL;
}

int tn_journal_next(struct tn_journal_reader *r, struct tn_journal_event *event,
                    struct tn_error *err)
{
    int found = open_log(r, err);

    while (found == 1 && (found = next_event(r, event, err)) == 1)
        if (event->id >= r->from) {
            r->from = event->id + 1;
            return 1;
        }
    return found;
}

int64_t tn_journal_newest(const char *directory, struct tn_error *err)
{
    tn_autojournalreader struct tn_journal_reader *r =
        tn_journal_reader_new(directory, INT64_MAX, err);
    struct tn_journal_event event;
    int64_t newest = -1;
    int found = r ? open_log(r, err) : -1;

    while (found == 1 && (found = next_event(r, &event, err)) == 1)
        newest = event.id;
    return found < 0 ? -2 : newest;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int gone(struct tn_error *err)
{
    return tn_fail(err, TN_E_GONE, "the directory of the journal was removed");
}

static int check_there(const struct tn_journal_reader *r, struct tn_error *err)
{
    struct stat st;

    if (fstat(r->directory, &st) || !st.st_nlink)
        return gone(err);
    return r->log >= 0 && (fstat(r->log, &st) || !st.st_nlink) ? gone(err) : 0;
}

/* Watches the directory: of the log alone one could not see that it appears. */
static int watch_changes(struct tn_journal_reader *r, struct tn_error *err)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/self/fd/%d", r->directory);
    r->changes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (r->changes >= 0 &&
        inotify_add_watch(r->changes, path,
                          IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR) >= 0)
        return 0;
    int why = errno;
    tn_close(TN_TAKE_FD(r->changes));
    r->no_inotify = why == EMFILE || why == ENFILE || why == ENOSPC;
    return r->no_inotify ? 0 : tn_fail_errno(err, why, "inotify");
}

static void drain(int fd)
{
    char bytes[4096];

    while (read(fd, bytes, sizeof bytes) > 0)
        ;
}

int tn_journal_wait(struct tn_journal_reader *r, int watch, int64_t deadline, struct tn_error *err)
{
    /* The kernel does not tell when this user has no inotify instance left, and not when a
     * directory goes that one holds open: then only the log's end is noticed. */
    bool look = r->no_inotify || r->log < 0;
    int64_t until = deadline;

    if (check_there(r, err))
        return -1;
    /* What came before the watch is not reported by it: have a look first. */
    if (r->changes < 0 && !r->no_inotify)
        return watch_changes(r, err);
    if (look && deadline > tn_now() + LOOK_AGAIN)
        until = tn_now() + LOOK_AGAIN;
    struct pollfd p[] = {{.fd = r->changes, .events = POLLIN}, {.fd = watch, .events = POLLIN}};
    int ready = poll(p, TN_COUNT(p), tn_poll_ms(until));
    if (ready < 0 && errno != EINTR)
        return tn_fail_errno(err, errno, "poll");
    if (p[0].revents)
        drain(r->changes);
    if (ready == 0 && until == deadline)
        return tn_fail(err, TN_E_TIMEOUT, "no event before the deadline");
    return check_there(r, err);
}

#include "event/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/file-lock.h"
#include "base/fs.h"
#include "base/json.h"
#include "event/journal-line.h"

struct tn_journal {
    unsigned flags;
    int directory, log;
    off_t end;    /* of the last complete line we know of */
    int64_t next; /* id */
};

int64_t tn_journal_next_id(const struct tn_journal *j)
{
    return j->next;
}

void tn_journal_close(struct tn_journal *j)
{
    if (!j)
        return;
    tn_close(j->log);
    tn_close(j->directory);
    free(j);
}

/* --- mending; under the lock ------------------------------------------------------------------ */

/* Is there a good event in the line [start, end)? */
static int read_line(const struct tn_journal *j, off_t start, off_t end, int64_t *id,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(LINE_MAX_BYTES);
    struct tn_journal_event event;
    size_t n = (size_t)(end - start - 1);

    if (n > LINE_MAX_BYTES)
        return 0;
    while (line.len < n) {
        ssize_t got = line_pread(j->log, &line, start + (off_t)line.len, n - line.len, err);
        if (got < 0)
            return -1;
        if (got == 0)
            return 0;
    }
    if (!line_parse(tn_buf_str(&line), n, &event))
        return 0;
    *id = event.id;
    return 1;
}

/* What stands behind j->end was written by others: whole lines, and perhaps half a line of one who
 * was killed, which is cut off.  A line that the disk has damaged keeps its id. */
static int catch_up(struct tn_journal *j, off_t size, struct tn_error *err)
{
    int64_t id = j->next - 1, damaged = 0;
    off_t whole = line_start_before(j->log, j->end, size + 1, err);
    int good = 0;

    if (whole < 0)
        return -1;
    if (whole != size && ftruncate(j->log, whole))
        return tn_fail_errno(err, errno, TN_JOURNAL_LOG ": half a line");
    for (off_t end = whole; !good && end > j->end;) {
        off_t start = line_start_before(j->log, j->end, end, err);
        good = start < 0 ? -1 : read_line(j, start, end, &id, err);
        if (good < 0)
            return -1;
        damaged += !good;
        end = start;
    }
    j->next = id + 1 + damaged;
    j->end = whole;
    return 0;
}

/* Returns what unlock wants, or -1. */
static int lock(struct tn_journal *j, struct tn_error *err)
{
    int held = tn_file_lock(j->log, tn_deadline_in(LOCK_SECONDS), err);
    struct stat st;

    if (held < 0)
        return tn_error_context(err, TN_JOURNAL_LOG);
    if (fstat(j->log, &st))
        tn_fail_errno(err, errno, TN_JOURNAL_LOG);
    else if (!st.st_nlink)
        tn_fail(err, TN_E_GONE, "the directory of the journal was removed");
    else if (st.st_size < j->end)
        tn_fail(err, TN_E_INTERNAL, TN_JOURNAL_LOG ": shorter than it was: cut by another program");
    else if (st.st_size == j->end || !catch_up(j, st.st_size, err))
        return held;
    tn_file_unlock(j->log, held);
    return -1;
}

/* --- appending; under the lock ---------------------------------------------------------------- */

static int write_parts(struct tn_journal *j, struct iovec *parts, int count, struct tn_error *err)
{
    while (count) {
        ssize_t put = writev(j->log, parts, count);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return tn_fail_errno(err, errno, TN_JOURNAL_LOG);
        for (; count && (size_t)put >= parts->iov_len; parts++, count--)
            put -= (ssize_t)parts->iov_len;
        if (count) {
            parts->iov_base = (char *)parts->iov_base + put;
            parts->iov_len -= (size_t)put;
        }
    }
    if (j->flags & TN_JOURNAL_SYNC && fdatasync(j->log))
        return tn_fail_errno(err, errno, TN_JOURNAL_LOG ": sync");
    return 0;
}

static struct iovec part(const char *bytes, size_t n)
{
    return (struct iovec){.iov_base = (char *)(uintptr_t)bytes, .iov_len = n};
}

/* The event is `first` and `rest`, one after the other. */
static int put_line(struct tn_journal *j, const char *first, size_t first_n, const char *rest,
                    size_t rest_n, struct tn_error *err)
{
    char head[LINE_HEAD + 1] = "";
    struct iovec parts[] = {part(head, LINE_HEAD), part(first, first_n), part(rest, rest_n),
                            part("\n", 1)};

    if (j->next > LINE_LAST_ID)
        return tn_fail(err, TN_E_TOO_LARGE, "the journal is full");
    line_head(head, j->next, first, first_n, rest, rest_n);
    if (write_parts(j, parts, TN_COUNT(parts), err)) {
        /* Nothing was added: if it cannot be cut off now, the next writer does it. */
        if (ftruncate(j->log, j->end))
            tn_error_context(err, "half a line is left");
        return -1;
    }
    j->end += LINE_HEAD + (off_t)(first_n + rest_n) + 1;
    j->next++;
    return 0;
}

int tn_journal_append(struct tn_journal *j, const char *json, size_t n, int64_t *id,
                      struct tn_error *err)
{
    char first[32];

    if (n < 2 || json[0] != '{' || json[n - 1] != '}' || memchr(json, '\n', n))
        return tn_fail(err, TN_E_INVALID, "event: not one line with a JSON object");
    if (n > TN_EVENT_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "event: %zu bytes, the most is %zu", n, TN_EVENT_MAX);
    int held = lock(j, err);
    if (held < 0)
        return -1;
    *id = j->next;
    int first_n =
        snprintf(first, sizeof first, "{\"id\":%lld%s", (long long)j->next, n > 2 ? "," : "");
    int failed = put_line(j, first, (size_t)first_n, json + 1, n - 1, err);
    tn_file_unlock(j->log, held);
    return failed;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Takes the event over that has the next id in OpenHands' layout: 1, or 0 when there is none.  One
 * that cannot be read keeps its id. */
static int adopt(struct tn_journal *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_EVENT_MAX), line = TN_BUF_INIT(TN_EVENT_MAX);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&line);
    struct tn_error why = {0};
    char path[48];

    snprintf(path, sizeof path, "events/%lld.json", (long long)j->next);
    if (faccessat(j->directory, path, F_OK, AT_SYMLINK_NOFOLLOW))
        return 0;
    if (tn_fs_read(j->directory, path, &text, &why) ||
        tn_json_parse(tn_buf_str(&text), text.len, &tree, &why) ||
        tn_json_int(tn_json_get(tree, "id"), -1) != j->next) {
        j->next++;
        return 1;
    }
    tn_jw_tree(&w, tree);
    if (!tn_buf_ok(&line))
        return tn_fail(err, TN_E_TOO_LARGE, "%s: no memory", path);
    return put_line(j, line.data, line.len, "", 0, err) ? -1 : 1;
}

static int open_log(struct tn_journal *j, struct tn_error *err)
{
    int adopted;

    j->log = openat(j->directory, TN_JOURNAL_LOG,
                    O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (j->log < 0)
        return tn_fail_errno(err, errno, TN_JOURNAL_LOG);
    int held = lock(j, err);
    if (held < 0)
        return -1;
    do
        adopted = adopt(j, err);
    while (adopted > 0);
    tn_file_unlock(j->log, held);
    return adopted;
}

struct tn_journal *tn_journal_open(const char *directory, unsigned flags, struct tn_error *err)
{
    struct tn_journal *j = tn_calloc(1, sizeof *j);

    *j = (struct tn_journal){.flags = flags, .log = -1};
    j->directory = flags & TN_JOURNAL_EXISTING
                       ? tn_fs_open(TN_FS_ANYWHERE, directory, O_PATH | O_DIRECTORY, 0, err)
                       : tn_fs_mkdirs(TN_FS_ANYWHERE, directory, 0700, NULL, NULL, err);
    if (j->directory >= 0 && !open_log(j, err))
        return j;
    tn_error_context(err, "journal %s", directory);
    tn_journal_close(j);
    return NULL;
}

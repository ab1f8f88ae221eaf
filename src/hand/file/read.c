#include "hand/file/read.h"

#include "base/base64.h"
#include "hand/file/binary.h"
#include "hand/file/lines.h"

#define CHUNK (3 * 16384) /* a multiple of three keeps the padding for the end */

static int put_data_url(int fd, const char *type, struct tn_buf *out, struct tn_error *err)
{
    tn_autofree char *chunk = tn_malloc(CHUNK);
    size_t have = 0;

    tn_buf_printf(out, "data:%s;base64,", type);
    for (;;) {
        ssize_t n = read(fd, chunk + have, CHUNK - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tn_fail_errno(err, errno, "read");
        have += (size_t)n;
        if (have < CHUNK && n > 0)
            continue;
        if (tn_base64_encode(out, chunk, have))
            return tn_fail(err, TN_E_TOO_LARGE, "too large");
        if (n == 0)
            return 0;
        have = 0;
    }
}

/* Which of n lines the slice means, as the original understands it. */
static void slice(int64_t start, int64_t end, uint64_t n, uint64_t *first, uint64_t *last)
{
    uint64_t s = start < 0 ? 0 : (uint64_t)start;

    if (end == -1) {
        *first = s < n ? s : n;
        *last = n;
        return;
    }
    uint64_t e = end < 0 ? 0 : (uint64_t)end < n ? (uint64_t)end : n;
    uint64_t most = n < 2 ? 0 : n - 2;
    *first = s < most ? s : most;
    *last = e > *first + 1 ? e : *first + 1;
}

static int put_lines(int fd, const struct tn_read_request *q, struct tn_buf *out,
                     struct tn_error *err)
{
    uint64_t lines, first, end;

    if (lines_count(fd, &lines, err))
        return -1;
    slice(q->start, q->end, lines, &first, &end);
    return lines_copy(fd, first, end, out, err);
}

static bool is_binary(int fd, const char *path)
{
    char sample[BINARY_SAMPLE];
    ssize_t n = pread(fd, sample, sizeof sample, 0);
    return binary_file(path, tn_slicen(sample, n > 0 ? (size_t)n : 0));
}

static void explain(const struct tn_read_request *q, struct tn_file_answer *a,
                    const struct tn_error *err)
{
    if (err->sys == ENOENT || err->sys == ENOTDIR)
        tn_file_answer_fail(a, "File not found: %s. Your current working directory is %s.", a->path,
                            q->cwd);
    else if (err->code == TN_E_MEDIA_TYPE)
        tn_file_answer_fail(a, "File could not be decoded as utf-8: %s.", a->path);
    else if (err->code == TN_E_TOO_LARGE)
        tn_file_answer_fail(a,
                            "File is too large to be read at once: %s. Read a range of its lines, "
                            "or use the shell.",
                            a->path);
    else if (err->sys) {
        tn_autofree char *python = tn_file_os_error(err->sys, a->path);
        tn_file_answer_fail(a, "%s", python);
    } else {
        tn_file_answer_fail(a, "%s", err->text);
    }
}

static int read_file(const struct tn_file_user *user, const struct tn_read_request *q,
                     struct tn_file_answer *a, struct tn_error *err)
{
    tn_autoact struct tn_act_as as = {0};
    struct stat st;

    if (tn_file_act_as(&as, user, err))
        return -1;
    tn_autofd int fd = tn_file_open(a->path, &st, err);
    if (fd < 0)
        return -1;
    if (S_ISDIR(st.st_mode)) {
        tn_file_answer_fail(a, "Path is a directory: %s. You can only read files", a->path);
        return 0;
    }
    if (!S_ISREG(st.st_mode))
        return tn_fail(err, TN_E_INVALID, "Not a regular file: %s", a->path);
    const char *type = binary_media_type(a->path);
    if (type)
        return put_data_url(fd, type, &a->text, err);
    if (is_binary(fd, a->path)) {
        tn_file_answer_fail(a, "ERROR_BINARY_FILE");
        return 0;
    }
    return put_lines(fd, q, &a->text, err);
}

void tn_file_read(const struct tn_file_user *user, const struct tn_read_request *q,
                  struct tn_file_answer *a)
{
    struct tn_error err = {0};

    a->path = tn_path_resolve(q->path, q->cwd, &err);
    if (!a->path)
        tn_file_answer_fail(a, "%s", err.text);
    else if (read_file(user, q, a, &err))
        explain(q, a, &err);
}

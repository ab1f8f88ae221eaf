#include "hand/file/write.h"

#include "base/utf8.h"
#include "hand/file/lines.h"
#include "hand/file/replace.h"

/* The largest file of which a range can be replaced. */
#define MAX_RANGED (64u << 20)

/* Offset of line number `index` as Python counts in a slice: from the end when negative. */
static size_t slice_offset(struct tn_slice t, int64_t index, size_t lines)
{
    int64_t i = index < 0 ? index + (int64_t)lines : index;
    return text_line_offset(t, i < 0 ? 0 : (size_t)i);
}

static void put_all(struct tn_buf *out, const struct tn_write_request *q, struct tn_slice old)
{
    bool ranged = old.s && (q->start != 0 || q->end != -1);
    enum text_eol eol = ranged ? text_eol_of(old) : TEXT_LF;
    size_t lines = ranged ? text_lines(old) : 0;

    if (ranged && q->start != 0) {
        size_t head = slice_offset(old, q->start, lines);
        tn_buf_add(out, old.s, head);
        if (head > 0 && old.s[head - 1] != '\n' && old.s[head - 1] != '\r')
            tn_buf_puts(out, text_eol_str(eol));
    }
    text_add_eol(out, q->content, eol);
    tn_buf_puts(out, text_eol_str(eol));
    if (ranged && q->end != -1) {
        size_t tail = slice_offset(old, q->end, lines);
        tn_buf_add(out, old.s + tail, old.n - tail);
    }
}

/* What is there now.  It must be text even when none of it stays; then it is not kept in memory. */
static int read_old(const struct tn_file_user *user, const char *path, bool keep,
                    struct tn_buf *old, struct tn_error *err)
{
    tn_autoact struct tn_act_as as = {0};
    struct stat st;
    uint64_t lines;

    if (tn_file_act_as(&as, user, err))
        return -1;
    tn_autofd int fd = tn_file_open(path, &st, err);
    if (fd < 0)
        return -1;
    if (S_ISDIR(st.st_mode))
        return tn_fail_errno(err, EISDIR, "%s", path);
    if (!S_ISREG(st.st_mode))
        return tn_fail(err, TN_E_INVALID, "Not a regular file: %s", path);
    if (!keep)
        return lines_count(fd, &lines, err);
    if (tn_fs_read_fd(fd, old, err))
        return -1;
    return tn_utf8_valid(tn_buf_str(old), old->len) ? 0
                                                    : tn_fail(err, TN_E_MEDIA_TYPE, "not UTF-8");
}

static int write_file(const struct tn_file_user *user, const struct tn_write_request *q,
                      const char *path, struct tn_error *err)
{
    bool ranged = q->start != 0 || q->end != -1;
    tn_autobuf struct tn_buf old = TN_BUF_INIT(MAX_RANGED);
    tn_autobuf struct tn_buf new = TN_BUF_INIT(2 * q->content.n + 2 * (size_t)MAX_RANGED);

    bool exists = read_old(user, path, ranged, &old, err) == 0;
    if (!exists && err->sys != ENOENT)
        return -1;
    put_all(&new, q, exists && ranged ? tn_slice_of(&old) : (struct tn_slice){0});
    if (!tn_buf_ok(&new))
        return tn_fail(err, TN_E_TOO_LARGE, "The file is too large: %s", path);
    return file_replace(user, path, tn_slice_of(&new), 0664, err);
}

static void explain(struct tn_file_answer *a, const struct tn_error *err)
{
    if (err->sys == ENOENT || err->sys == ENOTDIR)
        tn_file_answer_fail(a, "File not found: %s", a->path);
    else if (err->code == TN_E_MEDIA_TYPE)
        tn_file_answer_fail(a, "File could not be decoded as utf-8: %s", a->path);
    else if (err->sys == EISDIR)
        tn_file_answer_fail(a, "Path is a directory: %s. You can only write to files", a->path);
    else if (err->sys) {
        tn_autofree char *python = tn_file_os_error(err->sys, a->path);
        tn_file_answer_fail(a, "%s", python);
    } else {
        tn_file_answer_fail(a, "%s", err->text);
    }
}

void tn_file_write(const struct tn_file_user *user, const struct tn_write_request *q,
                   struct tn_file_answer *a)
{
    struct tn_error err = {0};

    a->path = tn_path_resolve(q->path, q->cwd, &err);
    if (!a->path)
        tn_file_answer_fail(a, "%s", err.text);
    else if (write_file(user, q, a->path, &err))
        explain(a, &err);
}

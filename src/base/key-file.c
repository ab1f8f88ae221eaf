#include "base/key-file.h"

#include <sys/stat.h>

#include "base/fs.h"

static int check(int fd, const char *path, enum tn_key_file_others others, struct tn_error *err)
{
    mode_t too_much = others == TN_KEY_FILE_OURS ? S_IRWXG | S_IRWXO : S_IWGRP | S_IWOTH;
    const char *cure = others == TN_KEY_FILE_OURS ? "600" : "go-w";
    struct stat st;

    if (fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "%.200s", path);
    if (!S_ISREG(st.st_mode))
        return tn_fail(err, TN_E_INVALID, "%.200s: expected a file", path);
    /* Its owner can change it at any time, whatever the mode says. */
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return tn_fail(err, TN_E_DENIED,
                       "%.150s: this key belongs to another user (%u); say: chown %u %.150s", path,
                       (unsigned)st.st_uid, (unsigned)geteuid(), path);
    if (st.st_mode & too_much)
        return tn_fail(err, TN_E_DENIED,
                       "%.150s: others may use this key (mode %04o); say: chmod %s %.150s", path,
                       (unsigned)st.st_mode & 07777, cure, path);
    return 0;
}

int tn_key_file_read(const char *path, enum tn_key_file_others others, struct tn_buf *out,
                     struct tn_error *err)
{
    tn_autofd int fd = tn_fs_open(TN_FS_ANYWHERE, path, O_RDONLY | O_NONBLOCK, 0, err);

    if (fd < 0 || check(fd, path, others, err) < 0)
        return -1;
    /* All of it at once: what it grows out of would not be wiped. */
    tn_buf_reserve(out, TN_KEY_FILE_MAX);
    return tn_fs_read_fd(fd, out, err) < 0 ? tn_error_context(err, "%.200s", path) : 0;
}

void tn_key_file_done(struct tn_buf *text)
{
    if (text->data)
        explicit_bzero(text->data, text->len);
    tn_buf_done(text);
}

#include "hand/file/path.h"

#include <limits.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "hand/file/confine.h"

int tn_file_act_as(struct tn_act_as *as, const struct tn_file_user *user, struct tn_error *err)
{
    return tn_act_as_begin(as, user->uid, user->gid, user->groups, user->group_count, err);
}

/* Appends the parts of the path that mean something, each after a slash unless it is the first. */
static int add_parts(struct tn_buf *out, const char *path, size_t n)
{
    for (size_t at = 0; at < n;) {
        const char *slash = memchr(path + at, '/', n - at);
        size_t len = slash ? (size_t)(slash - path) - at : n - at;
        if (len > 0 && !(len == 1 && path[at] == '.')) {
            if (out->len > 0 && out->data[out->len - 1] != '/' && tn_buf_putc(out, '/'))
                return -1;
            if (tn_buf_add(out, path + at, len))
                return -1;
        }
        at += len + 1;
    }
    return 0;
}

static char *normal(const char *cwd, struct tn_slice path, struct tn_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(PATH_MAX - 1);
    const char *first = cwd ? cwd : path.n ? path.s : "";

    if (path.n && memchr(path.s, '\0', path.n)) {
        tn_fail(err, TN_E_INVALID, "embedded null byte in a path");
        return NULL;
    }
    if (first[0] == '/')
        tn_buf_putc(&out, '/');
    if (cwd)
        add_parts(&out, cwd, strlen(cwd));
    add_parts(&out, path.s, path.n);
    if (out.len == 0)
        tn_buf_putc(&out, '.');
    if (!tn_buf_ok(&out)) {
        tn_fail_errno(err, ENAMETOOLONG, "a path of %zu bytes", path.n);
        return NULL;
    }
    return tn_buf_take(&out);
}

char *tn_path_normal(struct tn_slice path, struct tn_error *err)
{
    return normal(NULL, path, err);
}

char *tn_path_resolve(struct tn_slice path, const char *cwd, struct tn_error *err)
{
    return normal(path.n && path.s[0] == '/' ? NULL : cwd, path, err);
}

char *tn_file_os_error(int sys, const char *path)
{
    return tn_asprintf("[Errno %d] %s: '%s'", sys, tn_strerror(sys), path);
}

bool tn_file_is_kernel(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

/* True for what lies below /proc/PID of this process, by whatever name it was opened. */
static bool is_about_us(int fd)
{
    char link[64], target[PATH_MAX], ours[32];

    if (!tn_file_is_kernel(fd))
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n < 0)
        return true;
    target[n] = '\0';
    snprintf(ours, sizeof ours, "/%d/", (int)getpid());
    if (strncmp(target, "/proc/", 6) == 0)
        return strncmp(target + 5, ours, strlen(ours)) == 0;
    return strstr(target, ours); /* mounted elsewhere: better too often than not at all */
}

int tn_file_may_write(int fd, const char *path, struct tn_error *err)
{
    return is_about_us(fd) ? tn_fail_errno(err, EACCES, "%s", path) : 0;
}

int tn_file_open(const char *path, struct stat *st, struct tn_error *err)
{
    tn_autofd int fd = tn_where_open(path, O_RDONLY | O_NONBLOCK, err);

    if (fd < 0)
        return -1;
    if (fstat(fd, st))
        return tn_fail_errno(err, errno, "%s", path);
    if (is_about_us(fd))
        return tn_fail_errno(err, EACCES, "%s", path);
    return TN_TAKE_FD(fd);
}

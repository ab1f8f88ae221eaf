#include "hand/file/list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "hand/file/confine.h"
#include "hand/file/path.h"

#define MAX_NAMES (16u << 20)

static void close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* Names are kept as 'd' or 'f', the name, a NUL. */
static int collect(const char *path, int64_t deadline, struct tn_buf *names, size_t *count,
                   struct tn_error *err)
{
    int fd = tn_where_open(path, O_RDONLY | O_DIRECTORY, err);
    if (fd < 0)
        return -1;
    TN_CLEANUP(close_dir) DIR *dir = fdopendir(fd);
    if (!dir) {
        int sys = errno;
        tn_close(fd);
        return tn_fail_errno(err, sys, "%s", path);
    }
    *count = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        tn_autofd int entry = tn_where_openat(dirfd(dir), path, e->d_name, O_PATH);
        if (entry < 0 || fstat(entry, &st))
            continue;
        if (++*count % 256 == 0 && tn_now() > deadline)
            return tn_fail(err, TN_E_TIMEOUT, "%s is too large to list in time", path);
        tn_buf_putc(names, S_ISDIR(st.st_mode) ? 'd' : 'f');
        tn_buf_puts(names, e->d_name);
        if (S_ISDIR(st.st_mode))
            tn_buf_putc(names, '/');
        if (tn_buf_putc(names, '\0'))
            return tn_fail(err, TN_E_TOO_LARGE, "%s has too many entries", path);
    }
    return 0;
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : (unsigned char)c;
}

/* Directories first ('d' < 'f'); names that differ only in case are in byte order. */
static int compare(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t i = 0;

    while (x[i] && lower(x[i]) == lower(y[i]))
        i++;
    int order = lower(x[i]) - lower(y[i]);
    return order ? order : strcmp(x, y);
}

int tn_file_list(struct tn_slice path, const char *workdir, int64_t deadline, tn_list_fn fn,
                 void *ctx, struct tn_error *err)
{
    tn_autobuf struct tn_buf names = TN_BUF_INIT(MAX_NAMES);
    tn_autofree char *full = tn_path_resolve(path, workdir, err);
    size_t count = 0;

    if (!full || collect(full, deadline, &names, &count, err))
        return -1;
    tn_autofree const char **sorted = tn_calloc(count, sizeof *sorted);
    const char *at = tn_buf_str(&names);
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
        sorted[i] = at;
    qsort(sorted, count, sizeof *sorted, compare);
    for (size_t i = 0; i < count; i++) {
        int r = fn(sorted[i] + 1, ctx);
        if (r)
            return r;
    }
    return 0;
}

/* Counting what a tree holds.  Somebody in a sandbox fills it meanwhile, to his own taste: one name
 * at a time is looked at, nothing is followed, and neither the number of names in a directory nor
 * the depth costs memory. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "jail/tree-copy.h"

/* As many descriptors are open.  Deeper is nobody's work but that of who hides something: it is not
 * looked at, and counts as more than any limit. */
enum { DEPTH_MAX = 256 };
#define HIDDEN_BYTES (UINT64_C(1) << 40)

struct measuring {
    struct tn_tree_count *count;
    dev_t device;
    int64_t deadline;
    struct tn_error *err;
};

static void add(struct measuring *m, const struct stat *st)
{
    m->count->files++;
    m->count->bytes += tn_tree_bytes(st);
}

static int measure_dir(struct measuring *m, int fd, int depth);

/* Gone, or something else by now, is no error. */
static int measure_entry(struct measuring *m, int dir, const char *name, int depth)
{
    struct stat st;

    if (tn_now() > m->deadline)
        return tn_fail(m->err, TN_E_TIMEOUT, "the time for measuring is over");
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != m->device)
        return 0;
    add(m, &st);
    if (!S_ISDIR(st.st_mode))
        return 0;
    if (depth == DEPTH_MAX) {
        m->count->bytes += HIDDEN_BYTES;
        return 0;
    }
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? 0 : measure_dir(m, fd, depth + 1);
}

/* Owns fd. */
static int measure_dir(struct measuring *m, int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    int r = 0;

    if (!dir) {
        tn_close(fd);
        return 0;
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = measure_entry(m, fd, e->d_name, depth);
    closedir(dir);
    return r;
}

int tn_tree_measure(int fd, int64_t deadline, struct tn_tree_count *count, struct tn_error *err)
{
    struct measuring m = {.count = count, .deadline = deadline, .err = err};
    struct stat st;
    int top = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *count = (struct tn_tree_count){0};
    if (top < 0 || fstat(top, &st) < 0) {
        tn_close(top);
        return tn_fail_errno(err, errno, "measure");
    }
    m.device = st.st_dev;
    add(&m, &st);
    return measure_dir(&m, top, 0);
}

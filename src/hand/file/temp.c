#include "hand/file/temp.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>

static int invent(struct temp *t, struct tn_error *err)
{
    unsigned long long number;

    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return tn_fail_errno(err, errno, "getrandom");
    snprintf(t->name, sizeof t->name, TN_FS_TEMP_PREFIX "%016llx", number);
    return 0;
}

int temp_announce(struct temp *t, int dir, const struct tn_fs_journal *journal,
                  struct tn_error *err)
{
    char link[40], path[PATH_MAX];

    *t = (struct temp){.journal = journal};
    if (invent(t, err))
        return -1;
    if (!journal)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return tn_fail_errno(err, errno, "cannot tell the path of a directory");
    path[n] = '\0';
    t->path = tn_asprintf("%s/%s", n == 1 ? "" : path, t->name);
    if (journal->announce(journal->ctx, t->path, err) == 0)
        return 0;
    free(t->path);
    t->path = NULL;
    return -1;
}

void temp_withdraw(struct temp *t)
{
    if (t->path)
        t->journal->withdraw(t->journal->ctx, t->path);
    free(t->path);
    t->path = NULL;
}

int temp_unlinked(int dir, struct tn_error *err)
{
    struct temp t = {0};
    int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0)
        return fd;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
        return tn_fail_errno(err, errno, "temporary file");
    /* The file system has no nameless files: this one has a name for a moment. */
    if (invent(&t, err))
        return -1;
    fd = openat(dir, t.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return tn_fail_errno(err, errno, "temporary file");
    unlinkat(dir, t.name, 0);
    return fd;
}

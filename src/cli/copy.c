#include "cli/copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "cli/progress.h"

#define STEP_SECONDS 60.0

enum { DEPTH_MAX = 200, TARGET_MAX = 4096 };

static int64_t step(void)
{
    return tn_deadline_in(STEP_SECONDS);
}

static void moved(size_t n, void *ctx)
{
    struct copy *c = ctx;

    c->bytes += (int64_t)n;
    progress_bytes(c->bytes, c->total, c->count);
}

static char *below(const char *directory, const char *name)
{
    return tn_asprintf("%s%s%s", directory, strcmp(directory, "/") == 0 ? "" : "/", name);
}

/* --- streams ------------------------------------------------------------------------------- */

int copy_stream_in(struct copy *c, int fd, const char *to, struct tn_error *err)
{
    c->count++;
    return tn_hand_files_write(c->files, to, fd, -1, -1, moved, c, TN_NEVER, err);
}

int copy_stream_out(struct copy *c, const char *from, int fd, struct tn_error *err)
{
    c->count++;
    return tn_hand_files_read(c->files, from, 0, -1, fd, moved, c, TN_NEVER, err) < 0 ? -1 : 0;
}

/* A device, a socket or a pipe: in a directory it is left out and counted; named, it is refused. */
static int skip(struct copy *c, const char *path, int depth, struct tn_error *err)
{
    if (depth == 0)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "%s is neither a file, a directory nor a link: nothing was copied", path);
    c->skipped++;
    return 0;
}

/* --- into the sandbox ---------------------------------------------------------------------- */

static int put_entry(struct copy *c, int dir, const char *name, const char *to, int depth,
                     struct tn_error *err);

static int put_file(struct copy *c, int fd, const struct stat *st, const char *to,
                    struct tn_error *err)
{
    c->count++;
    return tn_hand_files_write(c->files, to, fd, st->st_size, (int)(st->st_mode & 07777), moved, c,
                               TN_NEVER, err);
}

static int put_link(struct copy *c, int dir, const char *name, const char *to, struct tn_error *err)
{
    char target[TARGET_MAX + 1];
    ssize_t n = readlinkat(dir, name, target, TARGET_MAX);

    if (n < 0)
        return tn_fail_errno(err, errno, "%s", name);
    target[n] = '\0';
    c->count++;
    return tn_hand_files_symlink(c->files, to, target, step(), err);
}

/* Its own mode comes last: it may not allow writing. */
static int put_directory(struct copy *c, int fd, const struct stat *st, const char *to, int depth,
                         struct tn_error *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    int r = tn_hand_files_mkdir(c->files, to, -1, step(), err);

    if (!list) {
        tn_close(copy);
        return tn_fail_errno(err, errno, "%s", to);
    }
    for (struct dirent *e; r == 0 && (e = readdir(list));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        tn_autofree char *inner = below(to, e->d_name);
        r = put_entry(c, fd, e->d_name, inner, depth + 1, err);
    }
    closedir(list);
    return r < 0 ? -1 : tn_hand_files_mkdir(c->files, to, (int)(st->st_mode & 07777), step(), err);
}

static int put_entry(struct copy *c, int dir, const char *name, const char *to, int depth,
                     struct tn_error *err)
{
    struct stat st;

    if (depth > DEPTH_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "%s: more than %d directories deep", to, DEPTH_MAX);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return tn_fail_errno(err, errno, "%s", name);
    if (S_ISLNK(st.st_mode))
        return put_link(c, dir, name, to, err);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return skip(c, name, depth, err);
    tn_autofd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "%s", name);
    return S_ISDIR(st.st_mode) ? put_directory(c, fd, &st, to, depth, err)
                               : put_file(c, fd, &st, to, err);
}

int copy_in(struct copy *c, const char *path, const char *to, struct tn_error *err)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        c->total = st.st_size;
    return put_entry(c, AT_FDCWD, path, to, 0, err);
}

/* --- out of the sandbox -------------------------------------------------------------------- */

struct taking {
    struct copy *copy;
    const char *from; /* the directory inside */
    int dir;          /* and here */
    int depth;
};

static int take_entry(struct copy *c, const struct tn_entry *e, const char *from, int dir,
                      const char *name, int depth, struct tn_error *err);

struct incoming {
    struct copy *copy;
    const char *from;
    mode_t mode;
    int64_t size;
};

/* The files of the kernel have no size, and yet something to read. */
#define SIZELESS_MAX (INT64_C(64) << 20)

static int write_file(int fd, void *ctx, struct tn_error *err)
{
    const struct incoming *in = ctx;

    struct tn_error why = {0};

    /* No more than the sandbox said: what it has added since, and what it lied about, stays there.
     */
    if (tn_hand_files_read(in->copy->files, in->from, 0, in->size > 0 ? in->size : SIZELESS_MAX, fd,
                           moved, in->copy, TN_NEVER, &why) < 0 &&
        (why.code != TN_E_RANGE || in->size > 0)) { /* an empty one has no first byte */
        *err = why;
        return -1;
    }
    if (fchmod(fd, in->mode) < 0)
        return tn_fail_errno(err, errno, "mode");
    return 0;
}

/* A link of that name is replaced, never followed. */
static int remove_link(int dir, const char *name, struct tn_error *err)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISLNK(st.st_mode))
        return 0;
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "%s", name);
    return 0;
}

static int take_file(struct copy *c, const struct tn_entry *e, const char *from, int dir,
                     const char *name, struct tn_error *err)
{
    struct incoming in = {.copy = c, .from = from, .mode = e->mode & 0777, .size = e->size};
    struct tn_fs_replace how = {.mode = 0600};

    c->count++;
    if (remove_link(dir, name, err) < 0)
        return -1;
    return tn_fs_replace(dir, name, &how, write_file, &in, err);
}

static int take_link(struct copy *c, const struct tn_entry *e, int dir, const char *name,
                     struct tn_error *err)
{
    struct stat st;

    c->count++;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
        unlinkat(dir, name, 0) < 0)
        return tn_fail_errno(err, errno, "%s", name);
    if (symlinkat(e->target, dir, name) < 0)
        return tn_fail_errno(err, errno, "%s", name);
    return 0;
}

/* A name is one component, and not one of the two that are none. */
static bool is_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int take_child(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    const struct taking *t = ctx;
    tn_autofree char *inner = below(t->from, e->name);

    if (!is_name(e->name))
        return tn_fail(err, TN_E_PEER, "the sandbox lists a file of an impossible name in %s",
                       t->from);
    return take_entry(t->copy, e, inner, t->dir, e->name, t->depth + 1, err);
}

static int take_directory(struct copy *c, const struct tn_entry *e, const char *from, int dir,
                          const char *name, int depth, struct tn_error *err)
{
    if (remove_link(dir, name, err) < 0)
        return -1;
    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", name);
    tn_autofd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return tn_fail_errno(err, errno, "%s", name);
    struct taking t = {.copy = c, .from = from, .dir = fd, .depth = depth};
    if (tn_hand_files_list(c->files, from, take_child, &t, TN_NEVER, err) != 0)
        return -1;
    if (fchmod(fd, e->mode & 0777) < 0)
        return tn_fail_errno(err, errno, "%s", name);
    return 0;
}

static int take_entry(struct copy *c, const struct tn_entry *e, const char *from, int dir,
                      const char *name, int depth, struct tn_error *err)
{
    if (depth > DEPTH_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "%s: more than %d directories deep", from, DEPTH_MAX);
    switch (e->type) {
    case TN_ENTRY_FILE:
        return take_file(c, e, from, dir, name, err);
    case TN_ENTRY_DIRECTORY:
        return take_directory(c, e, from, dir, name, depth, err);
    case TN_ENTRY_SYMLINK:
        return take_link(c, e, dir, name, err);
    case TN_ENTRY_OTHER:
        break;
    }
    return skip(c, from, depth, err);
}

int copy_out(struct copy *c, const char *from, int dir, const char *name, struct tn_error *err)
{
    tn_autoentry struct tn_entry e = {0};

    if (tn_hand_files_stat(c->files, from, false, &e, step(), err) < 0)
        return -1;
    if (e.type == TN_ENTRY_FILE)
        c->total = e.size;
    return take_entry(c, &e, from, dir, name, 0, err);
}

#include "jail/tree-copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/sysmacros.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "jail/tree-file.h"
#include "jail/tree-links.h"
#include "jail/whiteout.h"

/* A directory on the way down.  Only the deepest is open; going up is opening "..", so depth costs
 * no descriptors. */
struct level {
    struct stat st;  /* of the source; its mode and time are set when everything is in */
    ino_t to_inode;  /* of the copy */
    char **below;    /* names of its directories ... */
    size_t count;    /* ... still to be copied */
    size_t path_len; /* of `path` before this one was entered */
};

struct copying {
    int top;             /* of the copy */
    struct tree_dir *at; /* the directory being read */
    int to;              /* its copy */
    struct level *levels;
    size_t depth, room;
    struct tn_buf path; /* of `at`, from the top; "" or "a/b/" */
    struct tree_links links;
    struct tree_queue *queue;
    struct tree_self self;
    mode_t umask;
    int64_t deadline;
    struct tn_tree_count count;
};

/* umask(2) can only be asked by changing it, which other threads would notice. */
static mode_t current_umask(void)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);

    if (tn_fs_read(TN_FS_ANYWHERE, "/proc/self/status", &text, NULL) < 0)
        return 0777;
    const char *line = strstr(tn_buf_str(&text), "\nUmask:");
    return line ? (mode_t)strtoul(line + strlen("\nUmask:"), NULL, 8) : 0777;
}

static int fail(const struct copying *c, const char *name, struct tn_error *err)
{
    return tn_fail_errno(err, errno, "copy %s%s", tn_buf_str(&c->path), name);
}

/* --- things that are not directories -------------------------------------------------------- */

static void remember_link(struct copying *c, ino_t inode, const char *name)
{
    if (c->path.len + strlen(name) >= PATH_MAX)
        return; /* no call could name it: its other names become files of their own */
    struct tree_link *link = tree_links_add(&c->links, inode);
    link->path = tn_asprintf("%s%s", tn_buf_str(&c->path), name);
}

static int copy_file(struct copying *c, const char *name, const struct stat *st,
                     struct tn_error *err)
{
    mode_t mode = st->st_mode & 0777;
    int to = openat(c->to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

    if (to < 0)
        return fail(c, name, err);
    struct tree_job job = {
        .dir = c->at,
        .name = tn_strdup(name),
        .st = *st,
        .to = to,
        .self = &c->self,
        .late_mode = (st->st_mode & 07000) | (mode & c->umask),
    };
    tree_dir_ref(c->at);
    return tree_queue_add(c->queue, &job, err);
}

static int copy_symlink(struct copying *c, const char *name, const struct stat *st,
                        struct tn_error *err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};
    char target[4097];
    ssize_t n = readlinkat(c->at->fd, name, target, sizeof target - 1);

    if (n < 0)
        return fail(c, name, err);
    target[n] = '\0';
    if (symlinkat(target, c->to, name) < 0 ||
        utimensat(c->to, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(c, name, err);
    if (c->self.uid == 0 && fchownat(c->to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(c, name, err);
    return 0;
}

static int copy_special(struct copying *c, const char *name, const struct stat *st,
                        struct tn_error *err)
{
    bool whiteout = S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);

    if (whiteout)
        return tn_whiteout_make(c->to, name, err);
    if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
        return 0; /* no jail can make one */
    if (mknodat(c->to, name, st->st_mode, 0) < 0 ||
        (c->self.uid == 0 &&
         fchownat(c->to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0) ||
        fchmodat(c->to, name, st->st_mode & 07777, 0) < 0)
        return fail(c, name, err);
    return 0;
}

static int copy_plain(struct copying *c, const char *name, const struct stat *st,
                      struct tn_error *err)
{
    bool whiteout = S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);

    /* overlayfs makes all whiteouts links of one: they are nobody's content */
    if (st->st_nlink > 1 && !whiteout) {
        const struct tree_link *first = tree_links_find(&c->links, st->st_ino);
        if (first)
            return linkat(c->top, first->path, c->to, name, 0) < 0 ? fail(c, name, err) : 0;
        remember_link(c, st->st_ino, name);
    }
    c->count.bytes += tn_tree_bytes(st);
    if (S_ISREG(st->st_mode))
        return copy_file(c, name, st, err);
    if (S_ISLNK(st->st_mode))
        return copy_symlink(c, name, st, err);
    return copy_special(c, name, st, err);
}

/* --- directories ---------------------------------------------------------------------------- */

static void add_below(struct level *l, size_t *room, const char *name)
{
    if (l->count == *room) {
        *room = *room ? *room * 2 : 16;
        l->below = tn_realloc(l->below, *room * sizeof *l->below);
    }
    l->below[l->count++] = tn_strdup(name);
}

/* Copies everything but directories from where we are, and notes those. */
static int copy_entries(struct copying *c, struct level *l, struct tn_error *err)
{
    int fd = openat(c->at->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    size_t room = 0;
    int r = 0;

    if (!dir) {
        tn_close(fd);
        return fail(c, ".", err);
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        c->count.files++;
        if (fstatat(c->at->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            r = fail(c, e->d_name, err);
        else if (S_ISDIR(st.st_mode))
            add_below(l, &room, e->d_name);
        else
            r = copy_plain(c, e->d_name, &st, err);
    }
    closedir(dir);
    return r;
}

/* We are in a directory and its copy: does what belongs to it. */
static int begin_level(struct copying *c, const struct stat *st, size_t path_len,
                       struct tn_error *err)
{
    struct stat to;

    if (fstat(c->to, &to) < 0)
        return fail(c, ".", err);
    if (c->depth == c->room) {
        c->room = c->room ? c->room * 2 : 32;
        c->levels = tn_realloc(c->levels, c->room * sizeof *c->levels);
    }
    struct level *l = &c->levels[c->depth++];
    *l = (struct level){.st = *st, .to_inode = to.st_ino, .path_len = path_len};
    if (tree_copy_xattrs(c->at->fd, c->to, err) < 0)
        return tn_error_context(err, "copy %s", tn_buf_str(&c->path));
    /* What is mounted in it is something else. */
    return st->st_dev == c->levels[0].st.st_dev ? copy_entries(c, l, err) : 0;
}

static int end_level(struct copying *c, struct tn_error *err)
{
    struct level *l = &c->levels[--c->depth];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, l->st.st_mtim};

    free(l->below);
    c->count.bytes += tn_tree_bytes(&l->st);
    if (tree_copy_owner(c->to, &l->st, &c->self) < 0 || fchmod(c->to, l->st.st_mode & 07777) < 0 ||
        futimens(c->to, times) < 0)
        return fail(c, ".", err);
    return 0;
}

static void move_to(struct copying *c, int from, int to)
{
    struct tree_dir *dir = tn_calloc(1, sizeof *dir);

    *dir = (struct tree_dir){.fd = from, .references = 1};
    if (c->at)
        tree_dir_unref(c->at);
    tn_close(c->to);
    c->at = dir;
    c->to = to;
}

static int enter(struct copying *c, const char *name, struct tn_error *err)
{
    size_t path_len = c->path.len;
    struct stat st;

    if (fstatat(c->at->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(c, name, err);
    tn_autofd int from = openat(c->at->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || mkdirat(c->to, name, 0700) < 0)
        return fail(c, name, err);
    tn_autofd int to = openat(c->to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return fail(c, name, err);
    if (tn_buf_printf(&c->path, "%s/", name) < 0)
        return tn_fail(err, TN_E_TOO_LARGE, "the directories are nested too deeply");
    move_to(c, TN_TAKE_FD(from), TN_TAKE_FD(to));
    return begin_level(c, &st, path_len, err);
}

static int leave(struct copying *c, struct tn_error *err)
{
    size_t path_len = c->levels[c->depth - 1].path_len;

    if (end_level(c, err) < 0)
        return -1;
    const struct level *above = &c->levels[c->depth - 1];
    tn_autofd int from = tree_open_above(c->at->fd, above->st.st_ino, err);
    tn_autofd int to = from < 0 ? -1 : tree_open_above(c->to, above->to_inode, err);
    if (to < 0)
        return tn_error_context(err, "copy %s", tn_buf_str(&c->path));
    move_to(c, TN_TAKE_FD(from), TN_TAKE_FD(to));
    tn_buf_cut(&c->path, path_len);
    return 0;
}

static int walk(struct copying *c, struct tn_error *err)
{
    while (c->depth > 0) {
        struct level *l = &c->levels[c->depth - 1];
        if (tn_now() > c->deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the time for copying is over");
        if (l->count == 0) {
            if (c->depth == 1)
                return end_level(c, err);
            if (leave(c, err) < 0)
                return -1;
            continue;
        }
        tn_autofree char *name = l->below[--l->count];
        if (enter(c, name, err) < 0)
            return -1;
    }
    return 0;
}

static int start(struct copying *c, int from, struct tn_error *err)
{
    struct stat st;
    tn_autofd int at = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tn_autofd int to = openat(c->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (at < 0 || to < 0 || fstat(at, &st) < 0)
        return tn_fail_errno(err, errno, "copy");
    move_to(c, TN_TAKE_FD(at), TN_TAKE_FD(to));
    return begin_level(c, &st, 0, err);
}

static void free_all(struct copying *c)
{
    while (c->depth > 0) {
        struct level *l = &c->levels[--c->depth];
        while (l->count > 0)
            free(l->below[--l->count]);
        free(l->below);
    }
    free(c->levels);
    for (size_t i = 0; i < c->links.room; i++)
        free(c->links.rows[i].path);
    tree_links_done(&c->links);
    if (c->at)
        tree_dir_unref(c->at);
    tn_close(c->to);
    tn_buf_done(&c->path);
}

int tn_tree_copy(int from, int to, int64_t deadline, struct tn_tree_count *count,
                 struct tn_error *err)
{
    struct copying c = {
        .top = to,
        .to = -1,
        .path = TN_BUF_INIT(64u << 20),
        .queue = tree_queue_new(deadline),
        .self = {.uid = geteuid(), .gid = getegid()},
        .umask = current_umask(),
        .deadline = deadline,
    };
    struct tn_error walking = {0};
    int r = start(&c, from, &walking) < 0 || walk(&c, &walking) < 0 ? -1 : 0;

    if (r < 0 && err)
        *err = walking;
    if (tree_queue_end(c.queue, r < 0 ? NULL : err) < 0)
        r = -1;
    free_all(&c);
    if (count)
        *count = c.count;
    return r;
}

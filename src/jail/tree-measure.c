/* Counting what a tree holds.  Somebody in a sandbox fills it meanwhile, to his own taste: one name
 * at a time is looked at, nothing is followed, and the number of names in a directory costs no
 * memory. */
#include <dirent.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/fs.h"
#include "jail/tree-copy.h"
#include "jail/tree-links.h"

/* As many descriptors are open.  Deeper is nobody's work but that of who hides something: it is not
 * looked at, and counts as more than any limit. */
enum { DEPTH_MAX = 128 };

/* Inodes with several names that are remembered; further ones count once for each name. */
enum { LINKS_MAX = 1 << 16 };

struct tn_tree_walk {
    struct tn_tree_count count;
    struct stat top;
    struct tree_links links;
    bool lost; /* a directory could not be opened for want of descriptors or memory */
    int depth;
    DIR *open[DEPTH_MAX]; /* from the top down to where it is */
};

static bool is_counted(struct tn_tree_walk *w, const struct stat *st)
{
    if (S_ISDIR(st->st_mode) || st->st_nlink < 2)
        return false;
    if (tree_links_find(&w->links, st->st_ino))
        return true;
    if (w->links.count < LINKS_MAX)
        tree_links_add(&w->links, st->st_ino);
    return false;
}

static void add(struct tn_tree_walk *w, const struct stat *st)
{
    w->count.files++;
    if (!is_counted(w, st))
        w->count.bytes += tn_tree_bytes(st);
}

/* Takes fd over. */
static void go_down(struct tn_tree_walk *w, int fd)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (dir)
        w->open[w->depth++] = dir;
    else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
        w->lost = true; /* and otherwise it is gone, or something else by now */
    if (!dir)
        tn_close(fd);
}

static void look_at(struct tn_tree_walk *w, int dir, const char *name)
{
    struct stat st;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != w->top.st_dev)
        return;
    add(w, &st);
    if (!S_ISDIR(st.st_mode))
        return;
    if (w->depth == DEPTH_MAX)
        w->count.bytes += TN_TREE_HIDDEN;
    else
        go_down(w, openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

struct tn_tree_walk *tn_tree_walk_new(int fd, struct tn_error *err)
{
    struct tn_tree_walk *w = tn_calloc(1, sizeof *w);
    int top = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (top < 0 || fstat(top, &w->top) < 0) {
        tn_fail_errno(err, errno, "measure");
        tn_close(top);
        free(w);
        return NULL;
    }
    add(w, &w->top);
    go_down(w, top);
    return w;
}

bool tn_tree_walk_is_of(const struct tn_tree_walk *w, int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_dev == w->top.st_dev && st.st_ino == w->top.st_ino;
}

int tn_tree_walk_on(struct tn_tree_walk *w, int64_t deadline, struct tn_tree_count *count,
                    struct tn_error *err)
{
    while (w->depth && tn_now() < deadline) {
        DIR *dir = w->open[w->depth - 1];
        struct dirent *e = readdir(dir);
        if (e)
            look_at(w, dirfd(dir), e->d_name);
        else
            closedir(w->open[--w->depth]);
    }
    *count = w->count;
    if (w->depth)
        return tn_fail(err, TN_E_TIMEOUT, "the time for measuring is over");
    if (w->lost)
        return tn_fail(err, TN_E_IO, "there are too few descriptors to measure it");
    return 0;
}

void tn_tree_walk_free(struct tn_tree_walk *w)
{
    if (!w)
        return;
    while (w->depth)
        closedir(w->open[--w->depth]);
    tree_links_done(&w->links);
    free(w);
}

int tn_tree_measure(int fd, int64_t deadline, struct tn_tree_count *count, struct tn_error *err)
{
    struct tn_tree_walk *w = tn_tree_walk_new(fd, err);

    *count = (struct tn_tree_count){0};
    int r = w ? tn_tree_walk_on(w, deadline, count, err) : -1;
    tn_tree_walk_free(w);
    return r;
}

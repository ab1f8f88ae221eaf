#include "hand/file/edit-view.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "hand/file/confine.h"

#define CLIPPED_DIRECTORY                                                                        \
    "<response clipped><NOTE>Due to the max output limit, only part of this directory has been " \
    "shown to you. You should use `ls -la` instead to view large directories incrementally."     \
    "</NOTE>"

/* Only the first paths in sorted order can be shown.  They are collected until there are plenty,
 * then sorted and all but those that fit are dropped; from then on what sorts after them is not
 * kept. */
#define PLENTY 8192

struct item {
    char *path;
    bool is_dir;
};

struct listing {
    struct item items[PLENTY];
    size_t count;
    char *cut; /* the last path that fits, once there were too many */
    size_t hidden;
    int64_t deadline;
    unsigned looked_at;
    struct stat root;
};

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->path, ((const struct item *)b)->path);
}

/* Sorts and drops what cannot be shown. */
static void settle(struct listing *l)
{
    size_t chars = 0, keep = 0;

    qsort(l->items, l->count, sizeof l->items[0], by_path);
    while (keep < l->count && chars <= EDIT_RESPONSE_CHARS) {
        const char *path = l->items[keep++].path;
        chars += tn_utf8_length(path, strlen(path)) + 1;
    }
    if (keep == l->count)
        return;
    free(l->cut);
    l->cut = tn_strdup(l->items[keep - 1].path);
    for (size_t i = keep; i < l->count; i++)
        free(l->items[i].path);
    l->count = keep;
}

static bool too_late(const struct listing *l, const char *path)
{
    return l->cut && strcmp(path, l->cut) > 0;
}

/* Takes ownership of path. */
static void keep(struct listing *l, char *path, bool is_dir)
{
    l->items[l->count++] = (struct item){.path = path, .is_dir = is_dir};
    if (l->count == PLENTY)
        settle(l);
}

static bool is_directory(int dir, const char *path, const struct dirent *e, struct stat *st)
{
    if (e->d_type != DT_DIR && e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)
        return false;
    tn_autofd int fd = tn_where_openat(dir, path, e->d_name, O_PATH);
    return fd >= 0 && fstat(fd, st) == 0 && S_ISDIR(st->st_mode);
}

static void close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* Lists what is in the open directory fd (which it takes over); prefix is its path. */
static int list(struct listing *l, int fd, const char *prefix, int depth, struct tn_error *err)
{
    TN_CLEANUP(close_dir) DIR *dir = fdopendir(fd);
    if (!dir) {
        int sys = errno;
        tn_close(fd);
        return tn_fail_errno(err, sys, "%s", prefix);
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (++l->looked_at % 256 == 0 && tn_now() > l->deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the directory is too large to list in time");
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (e->d_name[0] == '.') {
            l->hidden += depth == 1;
            continue;
        }
        tn_autofree char *path = tn_asprintf("%s/%s", prefix, e->d_name);
        if (too_late(l, path))
            continue;
        struct stat st;
        bool is_dir = is_directory(dirfd(dir), prefix, e, &st);
        keep(l, tn_strdup(path), is_dir);
        bool loop = is_dir && st.st_ino == l->root.st_ino && st.st_dev == l->root.st_dev;
        if (!is_dir || loop || depth == 2)
            continue;
        int sub = tn_where_openat(dirfd(dir), prefix, e->d_name, O_RDONLY | O_DIRECTORY);
        if (sub >= 0 && list(l, sub, path, depth + 1, err))
            return -1;
    }
    return 0;
}

/* A name may hold anything; a line break in it must not look like another entry. */
static void put_path(struct tn_buf *out, const char *path, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)path[i];
        tn_buf_putc(out, c < 0x20 || c == 0x7f ? '?' : path[i]);
    }
}

/* After settle() the limit falls into the last item kept, if it is reached at all. */
static void put_listing(struct tn_buf *out, const struct listing *l)
{
    size_t left = EDIT_RESPONSE_CHARS;

    for (size_t i = 0; i < l->count; i++) {
        const struct item *item = &l->items[i];
        size_t bytes = strlen(item->path), chars = tn_utf8_length(item->path, bytes);
        bool last = i + 1 == l->count;
        if (last && (l->cut || chars > left)) {
            put_path(out, item->path, tn_utf8_offset(item->path, bytes, left));
            tn_buf_puts(out, CLIPPED_DIRECTORY);
            return;
        }
        put_path(out, item->path, bytes);
        tn_buf_puts(out, &"/\n"[item->is_dir ? 0 : 1]);
        left -= chars + 1;
    }
    tn_buf_cut(out, out->len - 1);
}

int edit_view_directory(struct tn_buf *out, const char *path, int64_t deadline,
                        struct tn_error *err)
{
    tn_autofree struct listing *l = tn_calloc(1, sizeof *l);
    int fd = tn_where_open(path, O_RDONLY | O_DIRECTORY, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &l->root)) {
        int sys = errno;
        tn_close(fd);
        return tn_fail_errno(err, sys, "%s", path);
    }
    l->deadline = deadline;
    keep(l, tn_strdup(path), true);
    int r = list(l, fd, strcmp(path, "/") == 0 ? "" : path, 1, err);
    if (r == 0) {
        settle(l);
        tn_buf_printf(out,
                      "Here's the files and directories up to 2 levels deep in %s, excluding "
                      "hidden items:\n",
                      path);
        put_listing(out, l);
        if (l->hidden)
            tn_buf_printf(out,
                          "\n\n%zu hidden files/directories in this directory are excluded. You "
                          "can use 'ls -la %s' to see them.",
                          l->hidden, path);
    }
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].path);
    free(l->cut);
    return r;
}

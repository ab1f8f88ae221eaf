/* The walk over a tree that becomes an image.
 *
 * A directory gets its place when it is entered, for then its entries are known and with them its
 * size; where those lie is filled in when it is left. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "jail/erofs-format.h"
#include "jail/erofs-image.h"
#include "jail/erofs.h"
#include "jail/tree-links.h"

#define HOLES_MAX (1u << 20) /* up to here a file may lose its holes */
#define CONTENT_MAX (UINT64_C(64) << 20)
#define FILES_MAX 200000
#define BUFFER (64u << 10)

/* A directory on the way down.  Only the deepest is open; going up is opening "..", so depth costs
 * no descriptors. */
struct level {
    struct stat st;
    struct erofs_dir dir;
    struct erofs_place place;
    uint32_t directories; /* in it */
    size_t next;          /* the entry to look at next for a directory */
    size_t path_len;      /* of `path` before this one was entered */
};

struct writing {
    struct erofs_image image;
    int at; /* the directory being read */
    struct level *levels;
    size_t depth, room;
    struct tn_buf path;   /* of `at`, from the top; "" or "a/b/" */
    struct tn_buf xattrs; /* of one file */
    struct tree_links links;
    char *buffer;
    uint64_t content; /* bytes of files so far */
    int64_t deadline;
    struct tn_tree_count count;
};

static int fail(const struct writing *w, const char *name, struct tn_error *err)
{
    return tn_fail_errno(err, errno, "copy %s%s", tn_buf_str(&w->path), name);
}

static int read_xattrs(struct writing *w, int fd, const char *name, struct tn_error *err)
{
    tn_buf_reset(&w->xattrs);
    if (tree_each_xattr(fd, erofs_xattr_add, &w->xattrs, err) < 0)
        return tn_error_context(err, "copy %s%s", tn_buf_str(&w->path), name);
    return 0;
}

/* Without a trace in its access time, where this process may do that. */
static int open_entry(const struct writing *w, const char *name, int flags)
{
    const int all = flags | O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = openat(w->at, name, all | O_NOATIME);

    return fd < 0 && errno == EPERM ? openat(w->at, name, all) : fd;
}

/* --- things that are not directories -------------------------------------------------------- */

/* The inode of one that has no other name yet. */
static int add_inode(struct writing *w, const struct stat *st, uint64_t size,
                     struct erofs_entry *entry, struct erofs_place *place, struct tn_error *err)
{
    if (erofs_image_add(&w->image, st, &w->xattrs, size, place, err) < 0)
        return -1;
    entry->nid = place->nid;
    if (st->st_nlink > 1)
        tree_links_add(&w->links, st->st_ino)->nid = place->nid;
    w->count.bytes += (uint64_t)st->st_blocks * 512;
    return 0;
}

/* True when it is another name of something that is in the image already. */
static bool add_name(struct writing *w, const struct stat *st, struct erofs_entry *entry)
{
    struct tree_link *link = st->st_nlink > 1 ? tree_links_find(&w->links, st->st_ino) : NULL;

    if (!link)
        return false;
    link->names++;
    entry->nid = link->nid;
    return true;
}

static bool has_holes(const struct stat *st)
{
    return st->st_blocks < st->st_size / 512;
}

/* Where the next data is from a position on; size: nowhere. */
static uint64_t next_data(int fd, uint64_t at, uint64_t size)
{
    off_t data = lseek(fd, (off_t)at, SEEK_DATA);

    if (data < 0)
        return errno == ENXIO ? size : at; /* a file system that does not tell */
    return (uint64_t)data < size ? (uint64_t)data : size;
}

/* Holes, and what a file ends before, are zeros already. */
static int put_content(struct writing *w, int fd, const struct stat *st, uint64_t at,
                       struct tn_error *err)
{
    const uint64_t size = (uint64_t)st->st_size;

    for (uint64_t done = 0; done < size;) {
        if (has_holes(st) && (done = next_data(fd, done, size)) == size)
            return 0;
        size_t most = size - done < BUFFER ? (size_t)(size - done) : BUFFER;
        ssize_t n = pread(fd, w->buffer, most, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tn_fail_errno(err, errno, "read");
        if (n == 0)
            return 0;
        if (erofs_image_put(&w->image, at + done, w->buffer, (size_t)n, err) < 0)
            return -1;
        done += (uint64_t)n;
        if (tn_now() > w->deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the time for copying is over");
    }
    return 0;
}

static int check_worth(struct writing *w, const struct stat *st, struct tn_error *err)
{
    uint64_t size = (uint64_t)st->st_size;

    if (size > HOLES_MAX && has_holes(st))
        return tn_fail(err, TN_E_UNSUPPORTED, "an image has no place for holes");
    if (size > CONTENT_MAX - w->content)
        return tn_fail(err, TN_E_UNSUPPORTED, "too much content for an image");
    w->content += size;
    return 0;
}

static int add_file(struct writing *w, struct erofs_entry *entry, struct tn_error *err)
{
    tn_autofd int fd = open_entry(w, entry->name, 0);
    struct erofs_place place;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return fail(w, entry->name, err);
    if (!S_ISREG(st.st_mode))
        return tn_fail(err, TN_E_CONFLICT, "copy %s%s: it changed meanwhile", tn_buf_str(&w->path),
                       entry->name);
    if (add_name(w, &st, entry))
        return 0;
    if (check_worth(w, &st, err) < 0 || read_xattrs(w, fd, entry->name, err) < 0 ||
        add_inode(w, &st, (uint64_t)st.st_size, entry, &place, err) < 0)
        return -1;
    return put_content(w, fd, &st, place.content, err);
}

/* Symbolic links, pipes, sockets and whiteouts. */
static int add_other(struct writing *w, struct erofs_entry *entry, struct tn_error *err)
{
    struct erofs_place place;
    struct stat st;
    char target[PATH_MAX];
    ssize_t n = 0;

    if (fstatat(w->at, entry->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(w, entry->name, err);
    if (IFTODT(st.st_mode) != entry->type)
        return tn_fail(err, TN_E_CONFLICT, "copy %s%s: it changed meanwhile", tn_buf_str(&w->path),
                       entry->name);
    if (add_name(w, &st, entry))
        return 0;
    if (S_ISLNK(st.st_mode) && (n = readlinkat(w->at, entry->name, target, sizeof target)) < 0)
        return fail(w, entry->name, err);
    tn_buf_reset(&w->xattrs);
    if (add_inode(w, &st, (uint64_t)n, entry, &place, err) < 0)
        return -1;
    return erofs_image_put(&w->image, place.content, target, (size_t)n, err);
}

/* --- directories ---------------------------------------------------------------------------- */

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Notes an entry.  Devices are left out, since no jail can make one; but not whiteouts. */
static int note_entry(struct writing *w, struct level *l, const struct dirent *e,
                      struct tn_error *err)
{
    unsigned char type = e->d_type;
    struct stat st;

    if (++w->count.files > FILES_MAX)
        return tn_fail(err, TN_E_UNSUPPORTED, "too many files for an image");
    if (type == DT_UNKNOWN || type == DT_CHR || type == DT_BLK) {
        if (fstatat(w->at, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return fail(w, e->d_name, err);
        type = (unsigned char)IFTODT(st.st_mode);
        if (type == DT_BLK || (type == DT_CHR && st.st_rdev != makedev(0, 0)))
            return 0;
    }
    erofs_dir_add(&l->dir, e->d_name, type);
    l->directories += type == DT_DIR;
    return 0;
}

static int list_entries(struct writing *w, struct level *l, struct tn_error *err)
{
    int fd = openat(w->at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;

    if (!dir) {
        tn_close(fd);
        return fail(w, ".", err);
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (!is_dots(e->d_name))
            r = note_entry(w, l, e, err);
    closedir(dir);
    return r;
}

static int add_entries(struct writing *w, struct level *l, struct tn_error *err)
{
    for (size_t i = 0; i < l->dir.count; i++) {
        struct erofs_entry *entry = &l->dir.entries[i];
        if (entry->type == DT_DIR)
            continue;
        if ((entry->type == DT_REG ? add_file : add_other)(w, entry, err) < 0)
            return -1;
        if (tn_now() > w->deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the time for copying is over");
    }
    return 0;
}

/* We are in a directory: everything of it but what lies in the directories below. */
static int begin_level(struct writing *w, size_t path_len, struct tn_error *err)
{
    struct stat st;

    if (fstat(w->at, &st) < 0)
        return fail(w, ".", err);
    if (w->depth == w->room) {
        w->room = w->room ? w->room * 2 : 32;
        w->levels = tn_realloc(w->levels, w->room * sizeof *w->levels);
    }
    struct level *l = &w->levels[w->depth++];
    *l = (struct level){.st = st, .path_len = path_len};
    /* What is mounted in it is something else. */
    if (st.st_dev == w->levels[0].st.st_dev && list_entries(w, l, err) < 0)
        return -1;
    erofs_dir_add(&l->dir, ".", DT_DIR);
    erofs_dir_add(&l->dir, "..", DT_DIR);
    erofs_dir_sort(&l->dir);
    if (read_xattrs(w, w->at, "", err) < 0 ||
        erofs_image_add(&w->image, &st, &w->xattrs, erofs_dir_size(&l->dir), &l->place, err) < 0 ||
        erofs_image_set_links(&w->image, l->place.nid, 2 + l->directories, err) < 0)
        return -1;
    w->count.bytes += (uint64_t)st.st_blocks * 512;
    return add_entries(w, l, err);
}

static int end_level(struct writing *w, struct tn_error *err)
{
    struct level *l = &w->levels[--w->depth];
    const struct level *above = w->depth > 0 ? l - 1 : l;

    for (size_t i = 0; i < l->dir.count; i++) {
        struct erofs_entry *entry = &l->dir.entries[i];
        if (is_dots(entry->name))
            entry->nid = (entry->name[1] ? above : l)->place.nid;
    }
    int r = erofs_dir_put(&l->dir, &w->image, l->place, err);
    erofs_dir_done(&l->dir);
    return r;
}

static void move_to(struct writing *w, int fd)
{
    tn_close(w->at);
    w->at = fd;
}

static int enter(struct writing *w, struct erofs_entry *entry, struct tn_error *err)
{
    size_t path_len = w->path.len;
    int fd = open_entry(w, entry->name, O_DIRECTORY);

    if (fd < 0)
        return fail(w, entry->name, err);
    move_to(w, fd);
    if (tn_buf_printf(&w->path, "%s/", entry->name) < 0)
        return tn_fail(err, TN_E_TOO_LARGE, "the directories are nested too deeply");
    if (begin_level(w, path_len, err) < 0)
        return -1;
    entry->nid = w->levels[w->depth - 1].place.nid;
    return 0;
}

static int leave(struct writing *w, struct tn_error *err)
{
    size_t path_len = w->levels[w->depth - 1].path_len;

    if (end_level(w, err) < 0)
        return -1;
    int fd = tree_open_above(w->at, w->levels[w->depth - 1].st.st_ino, err);
    if (fd < 0)
        return tn_error_context(err, "copy %s", tn_buf_str(&w->path));
    move_to(w, fd);
    tn_buf_cut(&w->path, path_len);
    return 0;
}

/* The next directory in it; NULL when all have been looked at. */
static struct erofs_entry *next_directory(struct level *l)
{
    while (l->next < l->dir.count) {
        struct erofs_entry *entry = &l->dir.entries[l->next++];
        if (entry->type == DT_DIR && !is_dots(entry->name))
            return entry;
    }
    return NULL;
}

static int walk(struct writing *w, struct tn_error *err)
{
    for (;;) {
        struct erofs_entry *entry = next_directory(&w->levels[w->depth - 1]);
        if (tn_now() > w->deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the time for copying is over");
        if (!entry && w->depth == 1)
            return end_level(w, err);
        if ((entry ? enter(w, entry, err) : leave(w, err)) < 0)
            return -1;
    }
}

/* --- the whole ------------------------------------------------------------------------------ */

static int set_links(struct writing *w, struct tn_error *err)
{
    for (size_t i = 0; i < w->links.room; i++) {
        const struct tree_link *link = &w->links.rows[i];
        if (link->names > 1 && erofs_image_set_links(&w->image, link->nid, link->names, err) < 0)
            return -1;
    }
    return 0;
}

static int write_tree(struct writing *w, int from, struct tn_error *err)
{
    w->at = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->at < 0)
        return tn_fail_errno(err, errno, "copy");
    if (begin_level(w, 0, err) < 0)
        return -1;
    struct erofs_place root = w->levels[0].place;
    if (walk(w, err) < 0 || set_links(w, err) < 0)
        return -1;
    return erofs_image_end(&w->image, root, err);
}

int tn_erofs_write(int from, int to, int64_t deadline, struct tn_tree_count *count,
                   struct tn_error *err)
{
    struct writing w = {
        .at = -1,
        .path = TN_BUF_INIT(64u << 20),
        .xattrs = TN_BUF_INIT(EROFS_XATTRS_MAX),
        .buffer = tn_malloc(BUFFER),
        .deadline = deadline,
    };

    erofs_image_begin(&w.image, to);
    int r = write_tree(&w, from, err);
    while (w.depth > 0)
        erofs_dir_done(&w.levels[--w.depth].dir);
    free(w.levels);
    tree_links_done(&w.links);
    erofs_image_done(&w.image);
    tn_close(w.at);
    tn_buf_done(&w.path);
    tn_buf_done(&w.xattrs);
    free(w.buffer);
    if (count)
        *count = w.count;
    return r;
}

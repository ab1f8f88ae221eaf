#include "hand/file/edit-history.h"

#include <stdint.h>
#include <sys/stat.h>

#include "base/fs.h"

struct entry {
    char *path;
    uint64_t file; /* its name in the directory */
    size_t size;
    bool created;
};

struct edit_history {
    char *dir;
    int above; /* the directory that it is in */
    int fd;    /* -1 until there is something to remember */
    uint64_t next_file;
    size_t bytes;
    size_t count;
    struct entry entries[EDIT_HISTORY_ENTRIES]; /* oldest first */
};

struct file_name {
    char s[24];
};

static struct file_name file_name(uint64_t file)
{
    struct file_name name;
    snprintf(name.s, sizeof name.s, "%llu", (unsigned long long)file);
    return name;
}

static const char *name_of(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    return slash ? slash + 1 : dir;
}

struct edit_history *edit_history_new(const char *dir, struct tn_error *err)
{
    const char *name = name_of(dir);
    tn_autofree char *parent = name > dir ? tn_strndup(dir, (size_t)(name - dir)) : tn_strdup(".");
    tn_autofd int above = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (above < 0) {
        tn_fail_errno(err, errno, "edit history: %s", dir);
        return NULL;
    }
    /* What is there was left behind by a server that was killed. */
    if (tn_fs_remove_tree(above, name, 0, err)) {
        tn_error_context(err, "edit history");
        return NULL;
    }
    struct edit_history *h = tn_calloc(1, sizeof *h);
    h->dir = tn_strdup(dir);
    h->above = TN_TAKE_FD(above);
    h->fd = -1;
    return h;
}

/* Most sandboxes end before anything was edited. */
static int make_directory(struct edit_history *h, struct tn_error *err)
{
    const char *name = name_of(h->dir);

    /* It is there when it could not be opened the last time. */
    if (h->fd < 0 && (mkdirat(h->above, name, 0700) == 0 || errno == EEXIST))
        h->fd = openat(h->above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return h->fd < 0 ? tn_fail_errno(err, errno, "create") : 0;
}

static void drop(struct edit_history *h, size_t i)
{
    unlinkat(h->fd, file_name(h->entries[i].file).s, 0);
    h->bytes -= h->entries[i].size;
    free(h->entries[i].path);
    h->count--;
    memmove(&h->entries[i], &h->entries[i + 1], (h->count - i) * sizeof h->entries[0]);
}

void edit_history_free(struct edit_history *h)
{
    if (!h)
        return;
    while (h->count)
        drop(h, h->count - 1);
    if (h->fd >= 0)
        unlinkat(h->above, name_of(h->dir), AT_REMOVEDIR);
    tn_close(h->fd);
    tn_close(h->above);
    free(h->dir);
    free(h);
}

static struct entry *last_of(struct edit_history *h, const char *path)
{
    for (size_t i = h->count; i > 0; i--)
        if (strcmp(h->entries[i - 1].path, path) == 0)
            return &h->entries[i - 1];
    return NULL;
}

void edit_history_drop_last(struct edit_history *h, const char *path)
{
    struct entry *e = last_of(h, path);
    if (e)
        drop(h, (size_t)(e - h->entries));
}

void edit_history_forget(struct edit_history *h, const char *path)
{
    while (last_of(h, path))
        edit_history_drop_last(h, path);
}

static int store(struct edit_history *h, uint64_t file, struct tn_slice bytes, struct tn_error *err)
{
    tn_autofd int fd = openat(h->fd, file_name(file).s,
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? tn_fail_errno(err, errno, "create") : tn_fs_write(fd, bytes.s, bytes.n, err);
}

/* Makes room for one more entry of path with that many bytes. */
static void make_room(struct edit_history *h, const char *path, size_t bytes)
{
    size_t of_path = 0, oldest = 0;

    for (size_t i = h->count; i > 0; i--)
        if (strcmp(h->entries[i - 1].path, path) == 0) {
            of_path++;
            oldest = i - 1;
        }
    if (of_path == EDIT_HISTORY_DEPTH)
        drop(h, oldest);
    while (h->count && (h->count == EDIT_HISTORY_ENTRIES || h->bytes + bytes > EDIT_HISTORY_BYTES))
        drop(h, 0);
}

int edit_history_push(struct edit_history *h, const char *path, bool created, struct tn_slice bytes,
                      struct tn_error *err)
{
    uint64_t file = h->next_file++;

    if (bytes.n > EDIT_HISTORY_BYTES) {
        edit_history_forget(h, path);
        return tn_fail(err, TN_E_TOO_LARGE, "edit history: %s is too large to be kept", path);
    }
    make_room(h, path, bytes.n);
    if (make_directory(h, err) < 0 || store(h, file, bytes, err)) {
        if (h->fd >= 0)
            unlinkat(h->fd, file_name(file).s, 0);
        edit_history_forget(h, path);
        return tn_error_context(err, "edit history: %s", h->dir);
    }
    h->entries[h->count++] =
        (struct entry){.path = tn_strdup(path), .file = file, .size = bytes.n, .created = created};
    h->bytes += bytes.n;
    return 0;
}

int edit_history_last(struct edit_history *h, const char *path, bool *created, struct tn_buf *bytes,
                      struct tn_error *err)
{
    const struct entry *e = last_of(h, path);
    if (!e)
        return 0;
    if (tn_fs_read(h->fd, file_name(e->file).s, bytes, err))
        return tn_error_context(err, "edit history: %s", h->dir);
    *created = e->created;
    return 1;
}

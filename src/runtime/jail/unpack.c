#include "runtime/jail/unpack.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/clock.h"
#include "base/fs.h"
#include "jail/whiteout.h"

#define SIZE_MAX_OF_FILE (INT64_C(1) << 42)
#define XATTR_MAX (64u << 10)

/* Modes and times of directories are set when nothing is written into them any more. */
struct late {
    char *path;
    mode_t mode;
    struct timespec mtime;
};

struct unpacking {
    const struct jail_unpack *how;
    const struct jail_archive_lib *lib;
    struct jail_tar *tar;
    bool privileged;   /* owners can be kept */
    char *parent_path; /* of the parent that was opened last ... */
    int parent;        /* ... and its descriptor */
    struct late *late;
    size_t late_count, late_room;
    uint64_t bytes, entries;
};

/* One entry, its name split. */
struct item {
    struct archive_entry *entry;
    const char *path; /* clean: no "/" at the ends, no "." */
    const char *name; /* the last component, in path */
    int parent;       /* borrowed */
    mode_t mode;
    struct timespec mtime;
};

/* --- names ---------------------------------------------------------------------------------- */

/* "./usr//bin/" becomes "usr/bin"; NULL when a component is "..". */
static char *clean_path(const char *raw)
{
    char *out = tn_malloc(strlen(raw) + 1);
    size_t length = 0;

    for (const char *p = raw; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            free(out);
            return NULL;
        }
        if (n > 0 && !(n == 1 && p[0] == '.')) {
            if (length)
                out[length++] = '/';
            memcpy(out + length, p, n);
            length += n;
        }
        p += n + (p[n] == '/');
    }
    out[length] = '\0';
    return out;
}

static int open_in_root(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

/* Makes the directories on the way that no entry has made, as everybody does. */
static int make_parent(struct unpacking *u, const char *path, struct tn_error *err)
{
    tn_autofree char *part = tn_strdup(path);
    int fd = -1;

    for (char *p = part;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char saved = *p;
        *p = '\0';
        tn_close(fd);
        fd = open_in_root(u->how->root, part, O_PATH | O_DIRECTORY);
        if (fd < 0 && errno == ENOENT) {
            const char *slash = strrchr(part, '/');
            tn_autofree char *above =
                slash ? tn_strndup(part, (size_t)(slash - part)) : tn_strdup(".");
            tn_autofd int dir = open_in_root(u->how->root, above, O_PATH | O_DIRECTORY);
            if (dir >= 0)
                mkdirat(dir, slash ? slash + 1 : part, 0755);
            fd = open_in_root(u->how->root, part, O_PATH | O_DIRECTORY);
        }
        if (fd < 0)
            return tn_fail_errno(err, errno, "%s", part);
        if (!saved)
            return fd;
        *p = saved;
    }
}

/* The directory that path lies in; stays with u until the next one is asked for. */
static int parent_of(struct unpacking *u, const char *path, size_t length, struct tn_error *err)
{
    tn_autofree char *dir = tn_strndup(path, length);

    if (u->parent_path && strcmp(u->parent_path, dir) == 0)
        return u->parent;
    int fd = length ? make_parent(u, dir, err) : open_in_root(u->how->root, ".", O_PATH);
    if (fd < 0)
        return length ? -1 : tn_fail_errno(err, errno, "root of the image");
    tn_close(u->parent);
    free(u->parent_path);
    u->parent = fd;
    u->parent_path = TN_TAKE_PTR(dir);
    return fd;
}

static void forget_parent(struct unpacking *u)
{
    tn_close(u->parent);
    u->parent = -1;
    free(u->parent_path);
    u->parent_path = NULL;
}

/* --- what an entry becomes ------------------------------------------------------------------ */

static int make_room(const struct item *it, struct tn_error *err)
{
    if (unlinkat(it->parent, it->name, 0) == 0 || errno == ENOENT)
        return 0;
    return tn_fs_remove_tree(it->parent, it->name, 0, err);
}

static int put_xattrs(struct unpacking *u, const struct item *it, int fd, struct tn_error *err)
{
    const char *name;
    const void *value;
    size_t n;

    u->lib->archive_entry_xattr_reset(it->entry);
    while (u->lib->archive_entry_xattr_next(it->entry, &name, &value, &n) == ARCHIVE_OK) {
        if (strncmp(name, "user.", 5) != 0 || strncmp(name, "user.overlay.", 13) == 0)
            continue;
        if (n > XATTR_MAX)
            return tn_fail(err, TN_E_TOO_LARGE, "%s: attribute %s is too large", it->path, name);
        if (fsetxattr(fd, name, value, n, 0) < 0 && errno != ENOTSUP)
            return tn_fail_errno(err, errno, "%s: attribute %s", it->path, name);
    }
    return 0;
}

static int put_owner(struct unpacking *u, const struct item *it, struct tn_error *err)
{
    int64_t uid = u->lib->archive_entry_uid(it->entry), gid = u->lib->archive_entry_gid(it->entry);

    if (!u->privileged)
        return 0;
    if (uid < 0 || gid < 0 || uid >= UINT32_MAX || gid >= UINT32_MAX)
        return tn_fail(err, TN_E_INVALID, "%s: impossible owner", it->path);
    if (fchownat(it->parent, it->name, (uid_t)uid, (gid_t)gid, AT_SYMLINK_NOFOLLOW) < 0)
        return tn_fail_errno(err, errno, "%s: owner", it->path);
    return 0;
}

static int put_mtime(const struct item *it, struct tn_error *err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, it->mtime};

    if (utimensat(it->parent, it->name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return tn_fail_errno(err, errno, "%s: time", it->path);
    return 0;
}

static int put_content(struct unpacking *u, const struct item *it, int fd, struct tn_error *err)
{
    const void *bytes;
    size_t n;
    int64_t offset;
    int r;

    while ((r = jail_tar_data(u->tar, &bytes, &n, &offset, err)) > 0) {
        if (tn_now() > u->how->deadline)
            return tn_fail(err, TN_E_TIMEOUT, "%s: the time for unpacking is over", it->path);
        u->bytes += n;
        if (u->bytes > u->how->bytes)
            return tn_fail(err, TN_E_TOO_LARGE, "the image holds more than %llu bytes",
                           (unsigned long long)u->how->bytes);
        if (offset < 0 || offset > SIZE_MAX_OF_FILE)
            return tn_fail(err, TN_E_TOO_LARGE, "%s is too large", it->path);
        for (size_t done = 0; done < n;) {
            ssize_t w = pwrite(fd, (const char *)bytes + done, n - done, offset + (off_t)done);
            if (w < 0 && errno == EINTR)
                continue;
            if (w < 0)
                return tn_fail_errno(err, errno, "%s", it->path);
            done += (size_t)w;
        }
    }
    return r;
}

static int make_file(struct unpacking *u, const struct item *it, struct tn_error *err)
{
    int64_t size =
        u->lib->archive_entry_size_is_set(it->entry) ? u->lib->archive_entry_size(it->entry) : 0;

    if (size < 0 || size > SIZE_MAX_OF_FILE)
        return tn_fail(err, TN_E_TOO_LARGE, "%s is too large", it->path);
    tn_autofd int fd =
        openat(it->parent, it->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return tn_fail_errno(err, errno, "%s", it->path);
    if (put_content(u, it, fd, err) < 0 || put_owner(u, it, err) < 0 ||
        put_xattrs(u, it, fd, err) < 0)
        return -1;
    struct stat st;
    if (fstat(fd, &st) < 0 || (st.st_size < size && ftruncate(fd, size) < 0) ||
        fchmod(fd, it->mode) < 0)
        return tn_fail_errno(err, errno, "%s", it->path);
    return put_mtime(it, err);
}

static int make_directory(const struct item *it, struct tn_error *err)
{
    if (mkdirat(it->parent, it->name, 0700) < 0)
        return tn_fail_errno(err, errno, "%s", it->path);
    return 0;
}

static int remember_directory(struct unpacking *u, const struct item *it, bool existed,
                              struct tn_error *err)
{
    tn_autofd int fd =
        openat(it->parent, it->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return tn_fail_errno(err, errno, "%s", it->path);
    if (put_owner(u, it, err) < 0 || put_xattrs(u, it, fd, err) < 0)
        return -1;
    for (size_t i = existed ? u->late_count : 0; i-- > 0;) {
        if (strcmp(u->late[i].path, it->path) == 0) {
            u->late[i].mode = it->mode;
            u->late[i].mtime = it->mtime;
            return 0;
        }
    }
    if (u->late_count == u->late_room) {
        u->late_room = u->late_room ? u->late_room * 2 : 256;
        u->late = tn_realloc(u->late, u->late_room * sizeof *u->late);
    }
    u->late[u->late_count++] =
        (struct late){.path = tn_strdup(it->path), .mode = it->mode, .mtime = it->mtime};
    return 0;
}

static int make_symlink(struct unpacking *u, const struct item *it, struct tn_error *err)
{
    const char *target = u->lib->archive_entry_symlink(it->entry);

    if (!target || !*target)
        return tn_fail(err, TN_E_INVALID, "%s: a link to nothing", it->path);
    if (symlinkat(target, it->parent, it->name) < 0)
        return tn_fail_errno(err, errno, "%s", it->path);
    return put_owner(u, it, err) < 0 ? -1 : put_mtime(it, err);
}

static int make_hardlink(struct unpacking *u, const struct item *it, const char *raw,
                         struct tn_error *err)
{
    tn_autofree char *target = clean_path(raw);
    struct stat st;
    char from[40];

    if (!target || !*target)
        return tn_fail(err, TN_E_INVALID, "%s: a link to %s leads out of the image", it->path, raw);
    tn_autofd int fd = open_in_root(u->how->root, target, O_PATH | O_NOFOLLOW);
    if (fd < 0)
        return tn_fail_errno(err, errno, "%s: a link to %s", it->path, raw);
    if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode))
        return tn_fail(err, TN_E_INVALID, "%s: a link to the directory %s", it->path, raw);
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, from, it->parent, it->name, AT_SYMLINK_FOLLOW) < 0)
        return tn_fail_errno(err, errno, "%s: a link to %s", it->path, raw);
    return 0;
}

static int make_fifo(struct unpacking *u, const struct item *it, struct tn_error *err)
{
    if (mknodat(it->parent, it->name, S_IFIFO | (it->mode & 0777), 0) < 0)
        return tn_fail_errno(err, errno, "%s", it->path);
    return put_owner(u, it, err) < 0 ? -1 : put_mtime(it, err);
}

/* A whiteout says that something of the layers below is gone. */
static int take_whiteout(struct item *it, struct tn_error *err)
{
    const char *gone = it->name + strlen(".wh.");

    if (strcmp(it->name, ".wh..wh..opq") == 0)
        return tn_opaque_set(it->parent, err);
    if (strncmp(gone, ".wh.", 4) == 0)
        return 0; /* book-keeping of other union file systems */
    if (!*gone || strcmp(gone, ".") == 0 || strcmp(gone, "..") == 0)
        return tn_fail(err, TN_E_INVALID, "%s: not a whiteout", it->path);
    it->name = gone;
    if (make_room(it, err) < 0)
        return -1;
    return tn_whiteout_make(it->parent, gone, err);
}

static bool stays_directory(const struct item *it, unsigned type)
{
    struct stat st;

    return type == AE_IFDIR && fstatat(it->parent, it->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(st.st_mode);
}

static int take_typed(struct unpacking *u, struct item *it, struct tn_error *err)
{
    const char *hardlink = u->lib->archive_entry_hardlink(it->entry);
    unsigned type = u->lib->archive_entry_filetype(it->entry);

    if (stays_directory(it, type))
        return remember_directory(u, it, true, err);
    if (make_room(it, err) < 0)
        return -1;
    if (hardlink)
        return make_hardlink(u, it, hardlink, err);
    switch (type) {
    case AE_IFREG:
        return make_file(u, it, err);
    case AE_IFDIR:
        return make_directory(it, err) < 0 ? -1 : remember_directory(u, it, false, err);
    case AE_IFLNK:
        return make_symlink(u, it, err);
    case AE_IFIFO:
        return make_fifo(u, it, err);
    default:
        return 0; /* devices and sockets have no place in an image */
    }
}

static int take_entry(struct unpacking *u, struct archive_entry *entry, struct tn_error *err)
{
    const char *raw = u->lib->archive_entry_pathname(entry);
    tn_autofree char *path = raw ? clean_path(raw) : NULL;

    if (!path)
        return tn_fail(err, TN_E_INVALID, "entry %s leads out of the image", raw ? raw : "?");
    if (strlen(path) >= 4096)
        return tn_fail(err, TN_E_INVALID, "the archive holds a name of more than 4096 bytes");
    if (!*path)
        return 0; /* the root itself */
    const char *slash = strrchr(path, '/');
    struct item it = {
        .entry = entry,
        .path = path,
        .name = slash ? slash + 1 : path,
        .mode = u->lib->archive_entry_perm(entry) & 07777,
    };
    if (u->lib->archive_entry_mtime_is_set(entry))
        it.mtime = (struct timespec){.tv_sec = u->lib->archive_entry_mtime(entry),
                                     .tv_nsec = u->lib->archive_entry_mtime_nsec(entry)};
    it.parent = parent_of(u, path, slash ? (size_t)(slash - path) : 0, err);
    if (it.parent < 0)
        return -1;
    if (u->how->layer && strncmp(it.name, ".wh.", 4) == 0)
        return take_whiteout(&it, err);
    return take_typed(u, &it, err);
}

static int finish_directories(struct unpacking *u, struct tn_error *err)
{
    /* From the last to the first: a parent that closes itself does so after its children. */
    for (size_t i = u->late_count; i-- > 0;) {
        const struct late *late = &u->late[i];
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, late->mtime};
        /* A later entry may have put something else in its place, which to open may mean to wait.
         */
        tn_autofd int fd =
            open_in_root(u->how->root, late->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (fd < 0)
            continue;
        if (futimens(fd, times) < 0 || fchmod(fd, late->mode) < 0)
            return tn_fail_errno(err, errno, "%s", late->path);
    }
    return 0;
}

static int take_all(struct unpacking *u, struct tn_error *err)
{
    struct archive_entry *entry;
    int r;

    while ((r = jail_tar_next(u->tar, &entry, err)) > 0) {
        if (++u->entries > u->how->entries)
            return tn_fail(err, TN_E_TOO_LARGE, "the image holds more than %llu files",
                           (unsigned long long)u->how->entries);
        if (tn_now() > u->how->deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the time for unpacking is over");
        if (take_entry(u, entry, err) < 0)
            return -1;
    }
    return r < 0 ? -1 : finish_directories(u, err);
}

int jail_unpack(struct jail_tar *tar, const struct jail_unpack *how, struct tn_error *err)
{
    const struct jail_archive_lib *lib = jail_archive_lib(err);
    struct unpacking u = {
        .how = how, .lib = lib, .tar = tar, .privileged = geteuid() == 0, .parent = -1};

    if (!lib)
        return -1;
    int r = take_all(&u, err);
    forget_parent(&u);
    for (size_t i = 0; i < u.late_count; i++)
        free(u.late[i].path);
    free(u.late);
    return r;
}

#include "runtime/jail/image-cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/file-lock.h"
#include "base/fs.h"

#define TEMP "tmp-"

void jail_cache_close(struct jail_cache *c)
{
    tn_close(c->dir);
    tn_close(c->lock);
    *c = (struct jail_cache)JAIL_CACHE_INIT;
}

/* --- locks: one byte of the lock file each -------------------------------------------------- */

static bool try_lock(const struct jail_cache *c, uint64_t byte)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};

    return fcntl(c->lock, F_OFD_SETLK, &lock) == 0;
}

static void unlock(const struct jail_cache *c, uint64_t byte)
{
    struct flock lock = {
        .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};

    fcntl(c->lock, F_OFD_SETLK, &lock);
}

/* Names share a lock when they collide, which costs nothing but a wait. */
static uint64_t byte_of(const char *name)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return (hash >> 16) | UINT64_C(1) << 48;
}

int jail_cache_lock(struct jail_cache *c, const char *name, int64_t deadline, struct tn_error *err)
{
    if (!tn_byte_lock(c->lock, byte_of(name), deadline, err))
        return 0;
    if (err && err->code == TN_E_BUSY)
        return tn_fail(err, TN_E_TIMEOUT, "another process is still unpacking the image");
    return tn_error_context(err, "lock of the images");
}

/* --- directories ---------------------------------------------------------------------------- */

/* The number in the name of a temporary directory; 0 for other names. */
static uint64_t temp_number(const char *name)
{
    char *end;

    if (strncmp(name, TEMP, strlen(TEMP)) != 0)
        return 0;
    uint64_t number = strtoull(name + strlen(TEMP), &end, 16);
    return *end ? 0 : number;
}

/* A temporary directory whose lock is free has lost its maker. */
static void remove_orphans(const struct jail_cache *c)
{
    int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        tn_close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        /* A description of our own: a lock that this cache holds must not look free. */
        uint64_t number = temp_number(e->d_name);
        struct jail_cache other = JAIL_CACHE_INIT;
        if (!number)
            continue;
        other.lock = openat(c->dir, "lock", O_RDWR | O_CLOEXEC);
        if (other.lock >= 0 && try_lock(&other, number))
            tn_fs_remove_tree(c->dir, e->d_name, 0, NULL);
        tn_close(other.lock);
    }
    closedir(dir);
}

int jail_cache_open(const char *state, struct jail_cache *c, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/images", state);

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", path);
    c->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    c->lock = c->dir < 0 ? -1 : openat(c->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->lock < 0)
        return tn_fail_errno(err, errno, "%s", path);
    remove_orphans(c);
    return 0;
}

int jail_cache_make(struct jail_cache *c, char **name, struct tn_error *err)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t number;
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            return tn_fail_errno(err, errno, "random number");
        number = (number >> 24) | 1;
        if (!try_lock(c, number))
            continue;
        tn_autofree char *temp = tn_asprintf(TEMP "%llx", (unsigned long long)number);
        if (mkdirat(c->dir, temp, 0755) == 0) {
            int fd = openat(c->dir, temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (fd < 0)
                return tn_fail_errno(err, errno, "%s", temp);
            *name = TN_TAKE_PTR(temp);
            return fd;
        }
        int sys = errno;
        unlock(c, number);
        if (sys != EEXIST)
            return tn_fail_errno(err, sys, "directory for a layer");
    }
    return tn_fail(err, TN_E_BUSY, "no name for a directory of a layer");
}

static void layer_name(char out[80], const char *digest)
{
    snprintf(out, 80, "layer-%s", digest);
}

int jail_cache_publish(struct jail_cache *c, const char *name, const char *digest,
                       struct tn_error *err)
{
    char final[80];

    layer_name(final, digest);
    tn_autofd int fd = openat(c->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* It will be trusted for ever: no power failure may leave files without content in it. */
    if (fd < 0 || fchmod(fd, 0755) < 0 || syncfs(fd) < 0)
        return tn_fail_errno(err, errno, "layer %s", digest);
    if (renameat2(c->dir, name, c->dir, final, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EEXIST)
        return tn_fail_errno(err, errno, "layer %s", digest);
    return tn_fs_remove_tree(c->dir, name, 0, err);
}

void jail_cache_discard(struct jail_cache *c, const char *name)
{
    tn_fs_remove_tree(c->dir, name, 0, NULL);
    unlock(c, temp_number(name));
}

bool jail_cache_has(const struct jail_cache *c, const char *digest)
{
    char name[80];

    layer_name(name, digest);
    return faccessat(c->dir, name, F_OK, 0) == 0;
}

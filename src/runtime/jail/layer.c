#include "runtime/jail/layer.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/fs.h"

#define GONE "gone-"

void jail_spread_directories(int dir)
{
    int flags = 0;

    if (ioctl(dir, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
        flags |= FS_TOPDIR_FL;
        ioctl(dir, FS_IOC_SETFLAGS, &flags); /* only a hint, and only to some file systems */
    }
}

/* STATE/layers; with make it is made.  -1 with errno. */
static int open_store(const char *state, bool make)
{
    tn_autofree char *path = tn_asprintf("%s/layers", state);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 || errno != ENOENT || !make)
        return fd;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -1;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        jail_spread_directories(fd);
    return fd;
}

static int open_dir(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int jail_layer_name(const char *sandbox, char out[JAIL_LAYER_NAME], struct tn_error *err)
{
    uint64_t number;

    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return tn_fail_errno(err, errno, "random number");
    snprintf(out, JAIL_LAYER_NAME, "%s-%016" PRIx64, sandbox, number);
    return 0;
}

char *jail_layer_path(const char *state, const char *layer)
{
    return tn_asprintf("%s/layers/%s/" JAIL_LAYER_TREE, state, layer);
}

bool jail_layer_exists(const char *state, const char *layer)
{
    tn_autofree char *path = jail_layer_path(state, layer);
    return access(path, F_OK) == 0;
}

/* --- making --------------------------------------------------------------------------------- */

static int touch(int dir, const char *name)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    tn_close(fd);
    return fd < 0 ? -1 : 0;
}

/* The layer with its first user, still without a tree: a descriptor of it, or -1 with errno. */
static int begin(const char *state, const char *layer, const char *sandbox)
{
    tn_autofd int store = open_store(state, true);

    if (store < 0 || mkdirat(store, layer, 0700) < 0)
        return -1;
    tn_autofd int fd = open_dir(store, layer);
    if (fd < 0 || mkdirat(fd, "users.new", 0700) < 0)
        return -1;
    tn_autofd int users = open_dir(fd, "users.new");
    if (users < 0 || touch(users, sandbox) < 0 || renameat(fd, "users.new", fd, "users") < 0)
        return -1;
    return TN_TAKE_FD(fd);
}

int jail_layer_make(const char *state, const char *layer, const char *sandbox, struct tn_error *err)
{
    int fd = begin(state, layer, sandbox);

    return fd < 0 ? tn_fail_errno(err, errno, "layer %s", layer) : fd;
}

int jail_layer_take(const char *state, const char *layer, const char *sandbox, int dir,
                    const char *name, uint64_t bytes, struct tn_error *err)
{
    tn_autofd int fd = jail_layer_make(state, layer, sandbox, err);

    if (fd < 0 || jail_layer_set_size(state, layer, bytes, err) < 0)
        return -1;
    if (renameat(dir, name, fd, JAIL_LAYER_TREE) < 0)
        return tn_fail_errno(err, errno, "layer %s", layer);
    return 0;
}

int jail_layer_set_size(const char *state, const char *layer, uint64_t bytes, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/layers/%s/size", state, layer);
    char text[24];
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return tn_fail_errno(err, errno, "%s", path);
    int n = snprintf(text, sizeof text, "%" PRIu64 "\n", bytes);
    return tn_fs_write(fd, text, (size_t)n, err);
}

uint64_t jail_layer_size(const char *state, const char *layer)
{
    tn_autofree char *path = tn_asprintf("%s/layers/%s/size", state, layer);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64);

    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, NULL) < 0)
        return 0;
    return strtoull(tn_buf_str(&text), NULL, 10);
}

/* --- users ---------------------------------------------------------------------------------- */

int jail_layer_join(const char *state, const char *layer, const char *sandbox, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/layers/%s/users", state, layer);
    tn_autofd int users = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (users < 0 || touch(users, sandbox) < 0)
        return tn_fail_errno(err, errno, "layer %s", layer);
    return 0;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Takes fd over.  Non-zero from fn stops and is returned; -1 with errno when it cannot be read. */
typedef int (*name_fn)(const char *name, void *ctx);
static int each_name(int fd, name_fn fn, void *ctx)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;

    if (!dir) {
        tn_close(fd);
        return -1;
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (!is_dots(e->d_name))
            r = fn(e->d_name, ctx);
    closedir(dir);
    return r;
}

static int stop_at_first(const char *name, void *ctx)
{
    return 1;
}

static int remove_layer(int store, const char *layer, struct tn_error *err)
{
    char gone[JAIL_LAYER_NAME + sizeof GONE];

    snprintf(gone, sizeof gone, GONE "%s", layer);
    if (renameat(store, layer, store, gone) < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "layer %s", layer);
    return tn_fs_remove_tree(store, gone, 0, err);
}

static bool made_by(const char *layer, const char *sandbox)
{
    size_t n = strlen(sandbox);
    return strncmp(layer, sandbox, n) == 0 && layer[n] == '-';
}

static int leave(int store, const char *layer, const char *sandbox, struct tn_error *err)
{
    tn_autofd int fd = open_dir(store, layer);
    tn_autofd int users = fd < 0 ? -1 : open_dir(fd, "users");

    if (fd < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "layer %s", layer);
    if (users < 0)
        return made_by(layer, sandbox) ? remove_layer(store, layer, err) : 0;
    if (unlinkat(users, sandbox, 0) < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "layer %s", layer);
    if (each_name(TN_TAKE_FD(users), stop_at_first, NULL) != 0)
        return 0;
    return remove_layer(store, layer, err);
}

int jail_layer_leave(const char *state, const char *layer, const char *sandbox,
                     struct tn_error *err)
{
    tn_autofd int store = open_store(state, false);

    if (store < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "layers");
    return leave(store, layer, sandbox, err);
}

/* --- all layers ----------------------------------------------------------------------------- */

struct leaving {
    int store;
    const char *sandbox;
    struct tn_error *err;
};

static int leave_one(const char *layer, void *ctx)
{
    const struct leaving *l = ctx;

    if (strncmp(layer, GONE, strlen(GONE)) == 0)
        return tn_fs_remove_tree(l->store, layer, 0, l->err);
    return leave(l->store, layer, l->sandbox, l->err);
}

int jail_layer_leave_all(const char *state, const char *sandbox, struct tn_error *err)
{
    tn_autofd int store = open_store(state, false);
    struct leaving l = {.store = store, .sandbox = sandbox, .err = err};

    if (store < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "layers");
    return each_name(open_dir(store, "."), leave_one, &l);
}

struct users_walk {
    int store;
    jail_user_fn fn;
    void *ctx;
};

static int users_of(const char *layer, void *ctx)
{
    const struct users_walk *w = ctx;

    if (strncmp(layer, GONE, strlen(GONE)) == 0) {
        tn_fs_remove_tree(w->store, layer, 0, NULL);
        return 0;
    }
    tn_autofd int fd = open_dir(w->store, layer);
    int users = fd < 0 ? -1 : open_dir(fd, "users");
    if (users >= 0)
        return each_name(users, w->fn, w->ctx);
    const char *dash = strchr(layer, '-');
    if (fd < 0 || !dash)
        return 0;
    tn_autofree char *maker = tn_strndup(layer, (size_t)(dash - layer));
    return w->fn(maker, w->ctx);
}

int jail_layer_users(const char *state, jail_user_fn fn, void *ctx, struct tn_error *err)
{
    tn_autofd int store = open_store(state, false);
    struct users_walk w = {.store = store, .fn = fn, .ctx = ctx};

    if (store < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "layers");
    return each_name(open_dir(store, "."), users_of, &w);
}

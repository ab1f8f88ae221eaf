#include "hand/file/replace.h"

#include "hand/file/confine.h"

struct contents {
    struct tn_slice bytes;
    bool is_new;
    mode_t mode;
};

static int put_contents(int fd, void *ctx, struct tn_error *err)
{
    const struct contents *c = ctx;

    if (c->is_new && fchmod(fd, c->mode))
        return tn_fail_errno(err, errno, "chmod");
    return tn_fs_write(fd, c->bytes.s, c->bytes.n, err);
}

static int make_parents(const char *path, struct tn_error *err)
{
    const char *slash = strrchr(path, '/');
    tn_autofree char *dir = tn_strndup(path, slash ? (size_t)(slash - path) : 0);
    if (!dir[0])
        return 0;
    tn_autofd int fd = tn_where_mkdirs(dir, 0755, err);
    return fd < 0 ? -1 : 0;
}

int file_replace(const struct tn_file_user *user, const char *path, struct tn_slice bytes,
                 mode_t mode, struct tn_error *err)
{
    tn_autoact struct tn_act_as as = {0};
    struct tn_fs_replace how = {
        .mode = mode, .in_place = true, .journal = user->journal, .announced = true};

    if (tn_file_act_as(&as, user, err))
        return -1;
    struct stat st;
    struct contents contents = {
        .bytes = bytes, .is_new = tn_where_stat(path, &st, NULL) != 0, .mode = mode};
    if (contents.is_new && make_parents(path, err))
        return -1;
    tn_autowhere struct tn_where w;
    if (tn_where(path, TN_LAST_FOLLOWED, &w, err))
        return -1;
    return tn_fs_replace(w.root, w.path, &how, put_contents, &contents, err);
}

int file_remove(const struct tn_file_user *user, const char *path, struct tn_error *err)
{
    tn_autoact struct tn_act_as as = {0};

    if (tn_file_act_as(&as, user, err))
        return -1;
    tn_autofree char *real = realpath(path, NULL);
    if (!real)
        return tn_fail_errno(err, errno, "%s", path);
    const char *slash = strrchr(real, '/');
    tn_autofree char *parent = tn_strndup(real, slash == real ? 1 : (size_t)(slash - real));
    tn_autofd int dir = tn_where_open(parent, O_PATH | O_DIRECTORY, err);
    if (dir < 0)
        return -1;
    return unlinkat(dir, slash + 1, 0) ? tn_fail_errno(err, errno, "%s", path) : 0;
}

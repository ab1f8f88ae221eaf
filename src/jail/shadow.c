/* Directories of an image that belong to nobody inside.
 *
 * An ordinary user has no id inside for other owners.  An overlay cannot copy up what they own (the
 * kernel says EOVERFLOW), and a new file needs its directory copied up.  So all directories of such
 * an image exist once more, as the user's own, in a layer above it: there files can be made,
 * replaced and removed.  A file of the image cannot be changed where it is, nor renamed. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "jail/jail.h"
#include "jail/whiteout.h"

enum {
    DEPTH_MAX = 64,
    DIRECTORIES_MAX = 50000, /* those beyond stay as they are */
    OVERFLOW_ID = 65534,     /* what ids look like that do not exist here */
};

static bool is_foreign_directory(int dir, const char *name)
{
    struct stat st;

    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == OVERFLOW_ID;
}

/* It, or what is at its top: whoever unpacks an image into a directory owns perhaps that alone. */
bool jail_is_foreign(const struct jail *j, const char *layer)
{
    if (j->mapping != TN_JAIL_MAP_OWN && j->mapping != TN_JAIL_MAP_SUBIDS)
        return false;
    if (is_foreign_directory(AT_FDCWD, layer))
        return true;
    DIR *list = opendir(layer);
    bool found = false;
    for (struct dirent *e; list && !found && (e = readdir(list));)
        found = strcmp(e->d_name, "..") != 0 && is_foreign_directory(dirfd(list), e->d_name);
    if (list)
        closedir(list);
    return found;
}

/* One that this user may not read cannot be looked through either: the copy hides it. */
static void hide(int to, const char *name)
{
    tn_autofd int fd = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || tn_opaque_set(fd, NULL) < 0)
        unlinkat(to, name, AT_REMOVEDIR);
}

static void shadow(int from, int to, int depth, unsigned *left);

static void shadow_one(int from, int to, const char *name, int depth, unsigned *left)
{
    struct stat st;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
        return;
    bool made = mkdirat(to, name, 0700) == 0; /* what the skeleton has is as it should be */
    if (!made && errno != EEXIST)
        return;
    tn_autofd int below = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0) {
        hide(to, name);
        return;
    }
    tn_autofd int copy = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (copy < 0)
        return;
    shadow(below, copy, depth + 1, left);
    if (made)
        fchmod(copy, st.st_mode & 07777);
}

static void shadow(int from, int to, int depth, unsigned *left)
{
    int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again < 0 ? NULL : fdopendir(again);

    if (!list) {
        tn_close(again);
        return;
    }
    for (struct dirent *e; depth<DEPTH_MAX && * left> 0 && (e = readdir(list));) {
        if ((e->d_type != DT_DIR && e->d_type != DT_UNKNOWN) || strcmp(e->d_name, ".") == 0 ||
            strcmp(e->d_name, "..") == 0)
            continue;
        --*left;
        shadow_one(from, to, e->d_name, depth, left);
    }
    closedir(list);
}

int jail_shadow(const char *layer, const char *on, struct tn_error *err)
{
    tn_autofd int from = open(layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tn_autofd int to = open(on, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned left = DIRECTORIES_MAX;

    if (from < 0 || to < 0)
        return tn_fail_errno(err, errno, "image that belongs to somebody else");
    shadow(from, to, 0, &left);
    return 0;
}

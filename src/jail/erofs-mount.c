#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include "jail/erofs-format.h"
#include "jail/erofs-image.h"
#include "jail/erofs.h"
#include "jail/sys.h"

int tn_erofs_mount(int image, struct tn_error *err)
{
    char source[40];
    tn_autofd int fs = fsopen("erofs", FSOPEN_CLOEXEC);

    snprintf(source, sizeof source, "/proc/self/fd/%d", image);
    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "source", source, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return tn_fail_errno(err, errno, "mount an EROFS image");
    int mount =
        fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return mount < 0 ? tn_fail_errno(err, errno, "mount an EROFS image") : mount;
}

/* --- whether that works --------------------------------------------------------------------- */

/* One of each kind that a kernel may be built without.  Layers without the first one would not be
 * what they were. */
static const struct tree_xattr kinds[] = {
    {.name = "trusted.overlay.opaque", .value = "y", .size = 1},
    {.name = "user.x", .value = "x", .size = 1},
    {.name = "security.x", .value = "x", .size = 1},
    /* version 2; user rwx, group r-x, others r-x */
    {.name = "system.posix_acl_access",
     .value = "\2\0\0\0\1\0\7\0\377\377\377\377\4\0\5\0\377\377\377\377\40\0\5\0\377\377\377\377",
     .size = 28},
};

static int write_probe(int fd)
{
    const struct stat st = {.st_mode = S_IFDIR | 0755};
    tn_autobuf struct tn_buf xattrs = TN_BUF_INIT(EROFS_XATTRS_MAX);
    struct erofs_dir dir = {0};
    struct erofs_image image;
    struct erofs_place root;

    for (size_t i = 0; i < TN_COUNT(kinds); i++)
        erofs_xattr_add(&kinds[i], &xattrs, NULL);
    erofs_dir_add(&dir, ".", DT_DIR);
    erofs_dir_add(&dir, "..", DT_DIR);
    erofs_image_begin(&image, fd);
    int r = erofs_image_add(&image, &st, &xattrs, erofs_dir_size(&dir), &root, NULL);
    for (size_t i = 0; r == 0 && i < dir.count; i++)
        dir.entries[i].nid = root.nid;
    if (r == 0 && (erofs_dir_put(&dir, &image, root, NULL) < 0 ||
                   erofs_image_set_links(&image, root.nid, 2, NULL) < 0 ||
                   erofs_image_end(&image, root, NULL) < 0))
        r = -1;
    erofs_dir_done(&dir);
    erofs_image_done(&image);
    return r;
}

static bool has_all(int root)
{
    char value[64];

    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        ssize_t n = fgetxattr(root, kinds[i].name, value, sizeof value);
        if (n != (ssize_t)kinds[i].size || memcmp(value, kinds[i].value, kinds[i].size) != 0)
            return false;
    }
    return true;
}

bool tn_erofs_works(int dir)
{
    struct statfs fs;

    /* An overlay of images on an overlay would be one level too many. */
    if (fstatfs(dir, &fs) < 0 || fs.f_type == OVERLAYFS_SUPER_MAGIC)
        return false;
    tn_autofd int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || write_probe(fd) < 0)
        return false;
    tn_autofd int mount = tn_erofs_mount(fd, NULL);
    tn_autofd int root = mount < 0 ? -1 : openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root >= 0 && has_all(root);
}

/* What a layer is filled with: one image, where those can be mounted, and otherwise files. */
#include <fcntl.h>
#include <sys/stat.h>

#include "jail/erofs.h"
#include "runtime/jail/jail.h"
#include "runtime/jail/layer.h"

#define WRITING "writing"

enum { NOT_TRIED, YES, NO };

/* The launcher that will mount them is started by this process and can do what it can.  A root of
 * some container, whose overlays keep their notes elsewhere, cannot mount any. */
static bool can_be_images(struct jail_engine *e, int layer)
{
    if (!e->host->config->jail.layer_images || geteuid() != 0)
        return false;
    int known = __atomic_load_n(&e->images, __ATOMIC_RELAXED);
    if (known == NOT_TRIED) {
        known = tn_erofs_works(layer) ? YES : NO;
        __atomic_store_n(&e->images, known, __ATOMIC_RELAXED);
    }
    return known == YES;
}

static int write_image(int layer, int upper, int64_t deadline, struct tn_tree_count *count,
                       struct tn_error *err)
{
    tn_autofd int fd =
        openat(layer, WRITING, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return tn_fail_errno(err, errno, "image of a layer");
    if (tn_erofs_write(upper, fd, deadline, count, err) < 0) {
        unlinkat(layer, WRITING, 0);
        return -1;
    }
    if (renameat(layer, WRITING, layer, JAIL_LAYER_TREE) < 0)
        return tn_fail_errno(err, errno, "image of a layer");
    return 0;
}

static int copy_files(const struct jail_engine *e, int layer, int upper, int64_t deadline,
                      struct tn_tree_count *count, struct tn_error *err)
{
    if (mkdirat(layer, JAIL_LAYER_TREE, 0755) < 0)
        return tn_fail_errno(err, errno, "files of a layer");
    tn_autofd int tree =
        openat(layer, JAIL_LAYER_TREE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        return tn_fail_errno(err, errno, "files of a layer");
    return jail_copy(e, upper, tree, deadline, count, err);
}

int jail_layer_fill(struct jail_engine *e, int layer, int upper, int64_t deadline,
                    struct tn_tree_count *count, struct tn_error *err)
{
    struct tn_error why = {0};

    if (can_be_images(e, layer)) {
        if (write_image(layer, upper, deadline, count, &why) == 0)
            return 0;
        if (why.code != TN_E_UNSUPPORTED) {
            if (err)
                *err = why;
            return -1;
        }
    }
    return copy_files(e, layer, upper, deadline, count, err);
}

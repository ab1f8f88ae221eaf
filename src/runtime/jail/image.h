/* clang-format off */
/* Root file systems that come in a file: a tar of a root, an image saved by `docker save`, or an
 * OCI layout in a tar; compressed or not.  Or an OCI layout that is a directory.
 *
 * What is unpacked lies in STATE/images, shared by all sandboxes and never written again:
 *
 *     layer-SHA256/      one unpacked layer, named by the digest of its tar
 *     image-IDENTITY     which layers and settings a file holds; IDENTITY is device, inode, size
 *                        and times of the file (of a layout: its index), so a changed file is a
 *                        different image
 *     tmp-NUMBER/        a layer on its way; whoever makes it holds the lock of that number
 *     lock               locked byte by byte
 *
 * A layer is used only when its content has the digest that it is called by: two images may share
 * it, and neither can slip the other a file. */
/* clang-format on */
#ifndef TN_RUNTIME_JAIL_IMAGE_H
#define TN_RUNTIME_JAIL_IMAGE_H

#include <stdint.h>

#include "base/error.h"
#include "base/field.h"
#include "runtime/backend.h"

struct jail_image {
    struct tn_str_list layers; /* digests, top first */
    struct tn_str_list env;    /* NAME=VALUE */
    char *workdir, *user;      /* or NULL */
};

extern const struct tn_fields jail_image_fields;

/* Whether a directory is an OCI layout, and not a root. */
bool jail_image_is_layout(const char *path);
/* Unpacks what is not unpacked yet, for the sandbox of that id.  jail_image_done frees *out. */
int jail_image_open(const struct tn_host *host, const char *path, const char *id,
                    struct jail_image *out, int64_t deadline, struct tn_error *err);
void jail_image_done(struct jail_image *image);
#define jail_autoimage TN_CLEANUP(jail_image_done)

/* The directory of a layer, on the heap. */
char *jail_image_layer_path(const struct tn_host *host, const char *digest);

#endif

/* An image that is the static hand and, where it lies beside it, the gate of pods (gate/pod.h), for
 * clusters: an init container copies the hand from there to where the sandbox's container has it.
 *
 * It is made of nothing but the programs, and the same ones make the same bytes, hence the same
 * digest, on any machine.  Each architecture has an image of one layer; an index names them all. */
#ifndef TN_IMAGE_HAND_IMAGE_H
#define TN_IMAGE_HAND_IMAGE_H

#include "base/field.h"
#include "image/reference.h"

#define TN_BLOBS "blobs/sha256/"

struct tn_blob {
    const char *type;         /* media type */
    const char *architecture; /* of a manifest: "amd64"; or NULL */
    char digest[sizeof "sha256:" + 64];
    char path[sizeof TN_BLOBS + 64]; /* in a layout */
    struct tn_buf bytes;
};

struct tn_hand_image {
    struct tn_blob *blobs; /* layer, config and manifest of each architecture; last the index */
    size_t count;
};
/* The index, by whose digest the whole is known. */
static inline const struct tn_blob *tn_hand_image_index(const struct tn_hand_image *image)
{
    return &image->blobs[image->count - 1];
}

/* From the paths of static programs, one of an architecture; out is all zero before. */
int tn_hand_image_make(const struct tn_str_list *hands, struct tn_hand_image *out,
                       struct tn_error *err);
void tn_hand_image_done(struct tn_hand_image *image);
#define tn_autohandimage TN_CLEANUP(tn_hand_image_done)

/* Writes one file that is both an OCI layout in a tar and what `docker load` reads; the latter sees
 * the first architecture.  What was at the path is replaced. */
int tn_hand_image_write(const struct tn_hand_image *image, const struct tn_reference *name,
                        const char *path, struct tn_error *err);

/* Sends it to the registry of its name, by the API of the distribution project: https, but http to
 * a loopback address; with the login that `docker login` left.  What the registry has already is
 * not sent. */
int tn_hand_image_push(const struct tn_hand_image *image, const struct tn_reference *name,
                       int64_t deadline, struct tn_error *err);

#endif

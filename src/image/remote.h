/* The builder of a runtime service: POST /build, GET /build_status, and what goes with them.
 *
 * web is the service, with the key as a header of every request. */
#ifndef TN_IMAGE_REMOTE_H
#define TN_IMAGE_REMOTE_H

#include <stdbool.h>

#include "image/build.h"
#include "image/context.h"
#include "web/web.h"

/* Where the service keeps its images ("registry.example.org/team"); on the heap, NULL with err. */
char *tn_remote_registry_prefix(struct tn_web *web, int64_t deadline, struct tn_error *err);

/* Whether the service has that image: 1, 0 or -1. */
int tn_remote_image_exists(struct tn_web *web, const char *image, int64_t deadline,
                           struct tn_error *err);

struct tn_remote_build {
    struct tn_context *context;
    const char *image; /* what the result is to be called */
    const char *const *tags;
    size_t tag_count;
    tn_build_progress_fn progress; /* may be NULL */
    void *ctx;
    int cancel; /* 0: none; else a descriptor: readable means stop */
};

/* Sends the context, as it is read, and waits until the service has built it.  A service that is
 * busy (429) is asked again when it says so.  *image is what it was called in the end, on the heap.
 */
int tn_remote_build(struct tn_web *web, const struct tn_remote_build *build, char **image,
                    int64_t deadline, struct tn_error *err);

#endif

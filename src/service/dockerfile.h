/* A Dockerfile as a script for bash: what it does to the files of a box, for clients whose images
 * are boxes here.  There are no stages. */
#ifndef TN_SERVICE_DOCKERFILE_H
#define TN_SERVICE_DOCKERFILE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

enum { DOCKERFILE_MAX = 64 << 10 };

struct dockerfile {
    char *image;         /* of FROM */
    char *script;        /* ends at the first step that fails */
    struct tn_json *env; /* of ENV, an object; of two of a name the later one counts */
    char *workdir;       /* absolute; NULL: none */
};
void dockerfile_done(struct dockerfile *d);
#define autodockerfile TN_CLEANUP(dockerfile_done)

/* A function for any shell, tn_copy OWNER MODE TARGET CONTEXT SOURCE..., as Docker copies: the
 * contents of a directory, a file under another name, or into what is or (with a final slash, or
 * for several) becomes a directory.  OWNER and MODE may be empty; sources are patterns beneath the
 * directory CONTEXT, and what leads out of it, by its name or a link, fails. */
extern const char dockerfile_copy[];

/* Adds the call for what follows COPY or ADD. */
int dockerfile_add_copy(struct tn_buf *script, const char *context, const char *at,
                        struct tn_error *err);

/* args: values of ARG by their names, or NULL.  context: the directory of the box (no quotes in its
 * name) that has the files for COPY and ADD when the script runs, or NULL.  ENV is written down
 * where login shells read it; what says how a container is run (CMD, EXPOSE, ...) is passed over.
 * TN_E_INVALID names the line that is none, or cannot be done so. */
int dockerfile_read(const char *text, const struct tn_json *args, const char *context,
                    struct dockerfile *out, struct tn_error *err);

/* Calls fn with every image that builders of containers would take something from: FROM of every
 * stage, COPY --from, RUN --mount; not those that are stages, nor scratch.  -1: fn's, or
 * TN_E_INVALID for what one builder could read differently, for an image that is not known before
 * (an ARG without a default), and for what reaches past the build: ADD of an address, RUN
 * --network. */
typedef int (*dockerfile_image_fn)(const char *image, void *ctx, struct tn_error *err);
int dockerfile_images(const char *text, dockerfile_image_fn fn, void *ctx, struct tn_error *err);

#endif

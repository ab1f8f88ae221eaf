/* Finding, pulling or building a runtime image. */
#ifndef TN_IMAGE_BUILD_H
#define TN_IMAGE_BUILD_H

#include "engine/engine.h"
#include "image/recipe.h"

typedef void (*tn_build_progress_fn)(const char *text, void *ctx);

struct tn_build_options {
    bool force;               /* build all of it, whatever exists */
    bool pull;                /* images that are not here may be pulled */
    bool dry_run;             /* decide, but change nothing */
    const char *context;      /* directory whose files ONBUILD steps of the base may use, or NULL */
    const char *network;      /* that steps see: none, host, ...; NULL: as the engine has it */
    struct tn_str_list hosts; /* NAME:ADDRESS, known while it is built; borrowed */
    tn_build_progress_fn progress; /* one line each; may be NULL */
    void *ctx;
};

struct tn_built {
    char *image;      /* its reference */
    char *id;         /* of the engine; NULL after a dry run that found nothing */
    char *dockerfile; /* of the steps that were (or would be) built; NULL when none was */
    const char *how;  /* "base": nothing to add; "found"; "built" */
};
void tn_built_done(struct tn_built *b);
#define tn_autobuilt TN_CLEANUP(tn_built_done)

/* 0 with the image, or -1; the error of a failed build has the last lines of its output.  A dry run
 * does without an engine (NULL): it then knows of no image that is here. */
int tn_image_build(struct tn_engine *e, const struct tn_recipe *r, const struct tn_build_options *o,
                   struct tn_built *out, int64_t deadline, struct tn_error *err);

/* The recipe for another builder, as one Dockerfile: nothing is looked for or changed.  prefix:
 * where that keeps its images ("registry.example.org/team"), or NULL.  What the base image runs as
 * is not known: the result runs as root. */
int tn_image_describe(const struct tn_recipe *r, const struct tn_build_options *o,
                      const char *prefix, struct tn_built *out, struct tn_error *err);

/* Labels of images that were built here. */
#define TN_IMAGE_LABEL "tendon.image"
#define TN_IMAGE_LABEL_BASE "tendon.base"
#define TN_IMAGE_LABEL_PLUGINS "tendon.plugins"

#endif

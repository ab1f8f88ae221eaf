/* What a runtime image is made of, and the text and the names that follow from it.
 *
 * The hand never needs a build: it goes into any image.  An image is built only for what plugins
 * need inside (Python, Chromium, an editor), for packages, and for commands of the user's. */
#ifndef TN_IMAGE_RECIPE_H
#define TN_IMAGE_RECIPE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/field.h"

struct tn_recipe {
    char *base;                 /* image reference */
    struct tn_str_list plugins; /* jupyter, agent_skills, vscode, browser */
    struct tn_str_list packages;
    char *extra_deps;           /* a shell script, run as root at the end; or NULL */
    char *platform;             /* "linux/arm64"; or NULL */
    struct tn_json *build_args; /* object: name -> text; or NULL */
    struct tn_str_list tags;    /* further names for the result */
};
extern const struct tn_fields tn_recipe_fields;

void tn_recipe_init(struct tn_recipe *r);
void tn_recipe_done(struct tn_recipe *r);
/* Names of plugins, packages, platform and references make sense; -1 names what does not. */
int tn_recipe_check(const struct tn_recipe *r, struct tn_error *err);
/* An image is made in up to two steps, each an image of its own that the next build may start from.
 */
enum tn_recipe_step {
    TN_RECIPE_PACKAGES, /* plugins and packages */
    TN_RECIPE_EXTRA,    /* extra_deps */
    TN_RECIPE_STEPS
};
/* Is there anything to do in that step? */
bool tn_recipe_has(const struct tn_recipe *r, enum tn_recipe_step step);
/* Appends the Dockerfile of the step; user is who the base image runs as, or NULL. */
void tn_recipe_put_dockerfile(const struct tn_recipe *r, enum tn_recipe_step step, const char *from,
                              const char *user, struct tn_buf *out);

/* Names that change when anything that matters changes. */
struct tn_recipe_tags {
    /* TN_RECIPE_PACKAGES: base, plugins, packages, platform, build arguments, and how they are
     * installed; TN_RECIPE_EXTRA: all that, and extra_deps */
    char step[TN_RECIPE_STEPS][96];
    char versioned[128]; /* this version of tendon on that base, whatever else is in it */
};
/* base_id: the engine's id of the base image, when it is there; or NULL. */
void tn_recipe_tags(const struct tn_recipe *r, const char *base_id, struct tn_recipe_tags *out);

/* $OH_RUNTIME_RUNTIME_IMAGE_REPO, or "tendon/runtime". */
const char *tn_recipe_repository(void);
/* The user has named it. */
bool tn_recipe_repository_is_given(void);

#endif

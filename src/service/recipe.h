/* A recipe: steps that make the files of a box, of which others are forked then.
 *
 * A step is an object {"type", "args", "filesHash"}, as E2B's clients write it:
 *   RUN      command [user]
 *   COPY     source destination [user [mode]]: of a tar that was uploaded (filesHash)
 *   ENV      name value name value ...
 *   WORKDIR  directory
 *   USER     name
 * Whatever is run is a process of the box and an action: judged, and in its journal.  Archives are
 * unpacked inside it and nowhere else. */
#ifndef TN_SERVICE_RECIPE_H
#define TN_SERVICE_RECIPE_H

#include "service/process.h"

enum recipe_level { RECIPE_INFO, RECIPE_WARN, RECIPE_ERROR };
extern const char *const recipe_levels[]; /* "info", "warn", "error" */

struct recipe {
    struct box *box; /* runs; borrowed, like all that follows */
    const struct caller *who;
    const struct tn_json *steps, *env; /* env: variables of all steps, or NULL */
    /* The archive of that filesHash, for reading: a descriptor of the caller's. */
    int (*open)(const char *hash, void *ctx, struct tn_error *err);
    const char *home; /* working directory of the first steps */
    char *cwd, *user; /* as the steps leave them; heap, or NULL: home, the sandbox's own */
    int stop;         /* readable: it ends; or -1 */
    int64_t deadline;
    /* A line that a step says, or that it begins; n 0: for a while it has said nothing.  May be
     * NULL. */
    void (*say)(enum recipe_level level, const char *text, size_t n, void *ctx);
    void *ctx;
    size_t step; /* out: the one that failed, from 1 */
};
/* Frees cwd and user. */
void recipe_done(struct recipe *r);

/* Whether these are steps: TN_E_INVALID names the first that is none. */
int recipe_check(const struct tn_json *steps, struct tn_error *err);
/* All of them, one after the other.  The key of the caller must count before each. */
int recipe_run(struct recipe *r, struct tn_error *err);
/* Starts a program that goes on, as the steps have left user and directory; then waits until the
 * command `ready` (NULL: none) succeeds. */
int recipe_start(struct recipe *r, const char *program, const char *ready, struct tn_error *err);
/* The variables of the steps (and those before them) as an object. */
struct tn_json *recipe_env(const struct recipe *r, struct tn_error *err);

#endif

/* What is to be done for an image of a Dockerfile's lines, as far as that can be done here. */
#ifndef TN_SERVICE_MODAL_PLAN_H
#define TN_SERVICE_MODAL_PLAN_H

#include "service/dockerfile-words.h"
#include "service/modal/modal.h"

enum { MODAL_RECIPE_MAX = 16 << 10 };
#define MODAL_CONTEXT "/tmp/.tendon-context" /* where its files are while it is built */

struct modal_plan {
    struct modal_image base;
    struct dockerfile_variables vars;
    struct tn_buf recipe; /* of the result: ENV, WORKDIR and SHELL, with nothing to look up */
    struct tn_buf script; /* for RUN, with what these mean there */
    char *shell;          /* of SHELL, as words of a shell; NULL: the usual one */
    const char *context;  /* the id of its mount, or NULL */
    Modal__ImageContextFile *const *files; /* of the request, besides */
    size_t file_count;
    bool runs;
};
void modal_plan_done(struct modal_plan *p);
#define automodalplan TN_CLEANUP(modal_plan_done)

/* Waits for an image that it begins with.  -1 with err, TN_E_INVALID for what is not served. */
int modal_make_plan(struct modal_call *c, const Modal__Image *image, struct modal_plan *p,
                    struct tn_error *err);
bool modal_has_files(const struct modal_plan *p);

#endif

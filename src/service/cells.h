/* Cells of Python in kernels of a box, for surfaces that have a code interpreter: each is a
 * run_ipython action, judged and in the journal like any other. */
#ifndef TN_SERVICE_CELLS_H
#define TN_SERVICE_CELLS_H

#include "service/box.h"

/* Contexts of a surface are sessions of the hand whose names are its prefix and an id: a kernel of
 * that name begins in the session's directory and ends with it.  The usual context is always there,
 * and has no session. */
struct cells {
    struct tn_http_exchange *x;
    struct box *b;
    const char *prefix;
};
enum { CELLS_ID = 17, CELLS_KERNEL = 40 };
int cells_new_id(char out[CELLS_ID], struct tn_error *err); /* so many hexadecimal digits */
extern const char cells_usual[];                            /* "default" */
bool cells_is_usual(const char *id);                        /* NULL is, too */
int cells_make_context(const struct cells *c, const char *cwd, char id[CELLS_ID],
                       struct tn_error *err);
/* Its kernel, and its directory on the heap (NULL: the usual one); cwd may be NULL. */
int cells_find_context(const struct cells *c, const char *id, char kernel[CELLS_KERNEL], char **cwd,
                       struct tn_error *err);
/* again: its next cell has a new kernel.  The usual one is there again anyway. */
int cells_end_context(const struct cells *c, const char *id, bool again, struct tn_error *err);
/* Calls fn for each but the usual one; age in seconds. */
typedef void (*cells_context_fn)(const char *id, const char *cwd, double age, void *ctx);
int cells_each_context(const struct cells *c, cells_context_fn fn, void *ctx, struct tn_error *err);

/* --- carrying one out (cells-follow.c) -------------------------------------------------------- */

struct cells_wish {
    const char *code, *kernel;
    const struct tn_json *env; /* variables while it runs, or NULL */
    double seconds;            /* after which the kernel is interrupted */
    bool charts;               /* results have `chart` and `data` (python/e2b_charts.py) */
};
struct cells_listener {
    /* An event, as it comes: an object with a member type, "stdout" and "stderr" with text,
     * "result", "error" with name, value and traceback. */
    void (*event)(const char *type, const char *json, size_t n, void *ctx);
    /* Whether somebody listens still: asked whenever one of these events (of epoll) is at the
     * client's connection, and in between. */
    bool (*stays)(void *ctx);
    uint32_t stirs;
    void *ctx;
};
/* Until it has ended.  Once nobody listens any more it is given up, and the kernel interrupted.
 * *out: the observation; -1 with err: it was not carried out, and nothing was told after the
 * reason was known. */
int cells_follow(const struct cells *c, const struct cells_wish *wish,
                 const struct cells_listener *listener, struct tn_json **out, struct tn_error *err);
const char *cells_content(const struct tn_json *observation);
/* Whether it ended because its seconds were over. */
bool cells_was_late(const struct tn_json *observation);

#endif

/* Cells of Python in kernels of a box, for surfaces that have a code interpreter: each is a
 * run_ipython action, judged and in the journal like any other.
 *
 * The kernel tells each event of a cell as a line of JSON after a mark (python/e2b_cells.py); what
 * is on other lines was written by programs that it started, or is a note of the hand. */
#ifndef TN_SERVICE_CELLS_H
#define TN_SERVICE_CELLS_H

#include "service/box.h"

/* A name for a context: so many hexadecimal digits. */
enum { CELLS_ID = 17 };
int cells_new_id(char out[CELLS_ID], struct tn_error *err);
bool cells_is_id(const char *text);

/* Carries it out in the kernel of that name, which starts if it is not there, and waits.  watch: as
 * struct act_how has it.  *out: the observation; -1 with err: it was not carried out. */
struct cells_wish {
    const char *code, *kernel;
    const struct tn_json *env; /* variables while it runs, or NULL */
    double seconds;            /* after which the kernel is interrupted */
    bool charts;               /* results have `chart` and `data` (python/e2b_charts.py) */
    int watch;
};
void cells_put_action(struct tn_buf *out, const struct cells_wish *wish);
int cells_run(struct tn_http_exchange *x, struct box *b, const struct cells_wish *wish,
              struct tn_json **out, struct tn_error *err);
/* Whether it ended because its seconds were over. */
bool cells_was_late(const struct tn_json *observation);
/* Calls fn for each event of it, an object with a member type: "stdout" and "stderr" with text,
 * "result", "error" with name, value and traceback. */
typedef void (*cells_event_fn)(const char *type, const char *json, size_t n, void *ctx);
/* For one line, behind whose n bytes there is a newline or the end. */
void cells_line(const char *line, size_t n, cells_event_fn fn, void *ctx);
void cells_each_event(const struct tn_json *observation, cells_event_fn fn, void *ctx);

#endif

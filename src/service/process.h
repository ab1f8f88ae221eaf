/* Processes in the boxes of tenants: what every surface that runs programs calls.
 *
 * Starting one is an action: judged, confirmed and in the journal like any other (proxy.h: act).
 * The rest reads from, writes to and signals one that runs.  All of it counts as a use of the box
 * and wakes a paused one as an action does (box_hand): TN_E_BUSY when it does not run.  That the
 * caller may use the box (scope, ownership) is seen to by the surface, as for every other use:
 * box_find with its tenant, SCOPE_USE.  `which`, pieces and statuses: runtime/process-client.h. */
#ifndef TN_SERVICE_PROCESS_H
#define TN_SERVICE_PROCESS_H

#include "runtime/process-client.h"
#include "service/box.h"

struct process_how {
    const char *idempotency; /* the same key again gives the same process; NULL */
    const char *request;     /* its id, or NULL */
    struct tn_purse *purse;  /* purse_of(x): what the action and its answer need is held there */
    int watch;               /* readable when nobody waits any more (tn_http_fd(x)), or -1 */
};
struct process_started {
    char id[TN_PROCESS_ID_SIZE];
    int64_t pid;
    bool again; /* it was started before, with the same idempotency key */
};
/* Starts it and does not wait for its end: it goes on when the client goes away.  -1 with err:
 * TN_E_INVALID      the spec makes no sense, or the hand could not start it (no such program,
 *                   directory or user): the text says what
 * TN_E_DENIED       an analyzer or a policy blocked it, or somebody refused to confirm it
 * TN_E_CONFLICT     it waits for a confirmation that nobody has given in time
 * TN_E_BUSY         too many processes, no memory in the purse, or the box does not run
 * TN_E_TIMEOUT, TN_E_PEER   nobody can say whether it was started */
int process_start(struct box *b, const struct caller *who, const struct tn_process_spec *spec,
                  const struct process_how *how, struct process_started *out, struct tn_error *err);

/* tn_process_read, through a connection of its own; the box is in use meanwhile.  watch (-1: none)
 * becomes readable when nobody listens any more: it ends with TN_E_TIMEOUT then. */
int process_follow(struct box *b, const char *which, struct tn_process_follow *f,
                   tn_process_piece_fn fn, void *ctx, int watch, int64_t deadline,
                   struct tn_error *err);

/* As their namesakes in runtime/process-client.h, each by the deadline. */
int process_look(struct box *b, const char *which, struct tn_process_status *out, int64_t deadline,
                 struct tn_error *err);
int process_wait(struct box *b, const char *which, struct tn_process_status *out, int watch,
                 int64_t deadline, struct tn_error *err);
int process_list(struct box *b, tn_process_fn fn, void *ctx, int64_t deadline,
                 struct tn_error *err);
int process_input(struct box *b, const char *which, uint64_t offset, const void *bytes, size_t n,
                  uint64_t *taken, int64_t deadline, struct tn_error *err);
int process_close_input(struct box *b, const char *which, int64_t deadline, struct tn_error *err);
int process_resize(struct box *b, const char *which, int64_t columns, int64_t rows,
                   int64_t deadline, struct tn_error *err);
int process_signal(struct box *b, const char *which, int signal, int64_t deadline,
                   struct tn_error *err);
int process_change_env(struct box *b, const struct tn_json *unset, const struct tn_json *set,
                       int64_t deadline, struct tn_error *err);
int process_remove(struct box *b, const char *which, int64_t deadline, struct tn_error *err);

#endif

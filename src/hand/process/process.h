/* Processes of their own: programs that a hand runs beside its shells.
 *
 * Each has a thread that carries what it says into its logs, until nobody holds them open any more;
 * readers come and go, and a process neither knows nor cares.  While somebody reads along and keeps
 * up, or is expected to come (just after the start), nothing is dropped: the process is held up by
 * its full pipe.  Ended ones are kept for a while, within bounds on number and bytes.
 *
 * A hand that ends kills them like everything that it has started. */
#ifndef TN_HAND_PROCESS_H
#define TN_HAND_PROCESS_H

#include "event/process-spec.h"
#include "hand/user.h"

struct tn_process;
struct tn_processes;

/* Who and where they are unless told otherwise; borrowed for as long as the table lives. */
struct tn_process_options {
    const struct tn_agent_user *user;
    char *const *env;
    const char *cwd;
};
struct tn_processes *tn_processes_new(const struct tn_process_options *options);
/* None is started any more. */
void tn_processes_close(struct tn_processes *all);
/* Forgets all of them; the children have been ended by then. */
void tn_processes_free(struct tn_processes *all);

/* Other variables for those that are started from now on, instead of the ones of the options: names
 * that are gone (an array), then an object of texts; each may be NULL.  All or nothing. */
int tn_processes_change_env(struct tn_processes *all, const struct tn_json *unset,
                            const struct tn_json *set, struct tn_error *err);
/* Starts it by the deadline; the caller unrefs it.  TN_E_BUSY: too many run. */
struct tn_process *tn_processes_start(struct tn_processes *all, const struct tn_process_spec *spec,
                                      int64_t deadline, struct tn_error *err);
/* By its id, its pid, or "tag:TAG": the one that runs, else the newest.  The caller unrefs it. */
struct tn_process *tn_processes_find(struct tn_processes *all, const char *which,
                                     struct tn_error *err);
/* The oldest first. */
void tn_processes_each(struct tn_processes *all, void (*fn)(struct tn_process *p, void *ctx),
                       void *ctx);
/* Kills it if it runs, and forgets it. */
void tn_processes_remove(struct tn_processes *all, struct tn_process *p);

void tn_process_unref(struct tn_process *p);

const char *tn_process_id(const struct tn_process *p);
int64_t tn_process_pid(const struct tn_process *p);
/* One object: docs/hand.md names its members. */
void process_put(struct tn_process *p, struct tn_jw *w);
bool process_has_terminal(const struct tn_process *p);
/* Waits until the process itself has ended: false at the deadline. */
bool process_await(struct tn_process *p, int64_t deadline);

/* A reader: where it is, UINT64_MAX for the end of what there is. */
struct process_reader {
    uint64_t out, err;
    bool err_next; /* both have something: take turns */
    int64_t moved; /* when it took something last */
    struct process_reader *next;
};
enum process_news {
    NEWS_OUT,  /* bytes of standard output, or of the terminal */
    NEWS_ERR,  /* bytes of standard error */
    NEWS_NONE, /* none by the deadline */
    NEWS_OVER, /* none any more: it has ended */
};
/* Between the two the process waits for this reader, if it keeps up. */
void process_attach(struct tn_process *p, struct process_reader *r);
void process_detach(struct tn_process *p, struct process_reader *r);
/* The next bytes, at most *n; *offset is where they are. */
enum process_news process_next(struct tn_process *p, struct process_reader *r, char *to, size_t *n,
                               uint64_t *offset, int64_t deadline);

/* Input: `offset` bytes came before these; UINT64_MAX: whatever came before. */
struct process_food {
    uint64_t offset;
    const char *bytes;
    size_t n;
    uint64_t done;  /* of these: taken, now or before; fewer when the process does not read */
    uint64_t taken; /* by the process in all */
};
/* Writes what was not taken before, until the deadline.  TN_E_CONFLICT: something is missing before
 * it; TN_E_GONE: nobody reads any more. */
int process_feed(struct tn_process *p, struct process_food *food, int64_t deadline,
                 struct tn_error *err);
int process_end_input(struct tn_process *p, int64_t deadline, struct tn_error *err);
int process_set_size(struct tn_process *p, int columns, int rows, struct tn_error *err);
int process_send_signal(struct tn_process *p, int signal, struct tn_error *err);

#endif

/* Sandboxes that are plain processes of this machine: what the backends local and cli share.
 *
 * A sandbox is a hand (and whatever it starts) with the rights of whoever asked for it.  Everything
 * it runs carries TENDON_SANDBOX=DIRECTORY in its environment, from before it exists, so that it is
 * found again whoever was killed; the hand adopts and ends its orphans.  In the sandbox's
 * directory:
 *
 *     hand.sock   the hand listens here, unless it talks over a socket pair
 *     hand.log    what it prints
 *     tmp         TMPDIR of everything in the sandbox
 *     workspace   unless it works in a directory of the user's
 *     stopped     it was stopped on purpose
 */
#ifndef TN_RUNTIME_PROCESS_H
#define TN_RUNTIME_PROCESS_H

#include <pthread.h>

#include "base/proc.h"
#include "runtime/backend.h"

#define TN_PROCESS_MARK "TENDON_SANDBOX"
#define TN_PROCESS_LOG "hand.log"

/* In what the two backends differ. */
struct tn_process_kind {
    const char *name;
    bool confined; /* file actions reach only the workspace */
    bool pair;     /* the owner talks to it over a socket pair, when it is this process */
    const char *isolation;
    /* Absolute path of the directory it works in, on the heap; NULL with err. */
    char *(*workspace)(const struct tn_host *host, const struct tn_subject *subject,
                       struct tn_error *err);
};

/* A hand that this process started. */
struct tn_process_child {
    struct tn_process_child *next;
    char *id;
    struct tn_child *child;
    int pair; /* our end, or -1 */
};

struct tn_process_engine {
    const struct tn_process_kind *kind;
    const struct tn_host *host;
    pthread_mutex_t lock;
    struct tn_process_child *children;
};

/* What place.ref says. */
struct tn_process_ref {
    struct tn_proc hand; /* pid 0: none known */
    char *workspace;
    char *address;
};
void tn_process_ref_done(struct tn_process_ref *ref);
#define tn_autoprocessref TN_CLEANUP(tn_process_ref_done)
/* Without a (sensible) ref everything is 0 and NULL. */
void tn_process_ref_read(const struct tn_subject *subject, struct tn_process_ref *ref);
char *tn_process_ref_write(const struct tn_process_ref *ref);

/* --- process-start.c --- */

/* -1 naming the first part of the spec that a plain process of that runtime cannot keep. */
int tn_process_check(const char *runtime, const struct tn_spec *spec, struct tn_error *err);
/* The environment for what runs in it, ending with NULL; key may be NULL.  Free with
 * tn_process_env_free. */
char **tn_process_env(const struct tn_subject *subject, const char *key);
void tn_process_env_free(char **env);
/* Starts the hand in ref->workspace and fills the rest of ref. */
int tn_process_start(struct tn_process_engine *e, const struct tn_subject *subject,
                     struct tn_process_ref *ref, int64_t deadline, struct tn_error *err);
/* Our end of the pair and the handle go; the process stays. */
void tn_process_forget(struct tn_process_engine *e, const char *id);

/* --- process-find.c --- */

/* Calls fn with each process that carries the mark of that directory, or of one below
 * STATE/sandbox when directory is NULL; non-zero from fn stops. */
typedef int (*tn_process_marked_fn)(const struct tn_proc *proc, const char *directory, void *ctx);
int tn_process_marked(const char *state, const char *directory, tn_process_marked_fn fn, void *ctx,
                      struct tn_error *err);
/* Ends the sandbox's processes: asks the hand, which ends the others, then kills.  0 also when
 * there are none. */
int tn_process_end(struct tn_process_engine *e, const struct tn_subject *subject,
                   const struct tn_process_ref *ref, int64_t grace, int64_t deadline,
                   struct tn_error *err);

/* --- the functions of the table --- */

int tn_process_open(const struct tn_process_kind *kind, const struct tn_host *host, void **engine,
                    struct tn_error *err);
void tn_process_close(void *engine);
int tn_process_create(void *engine, const struct tn_subject *subject, struct tn_place *place,
                      int64_t deadline, struct tn_error *err);
int tn_process_inspect(void *engine, const struct tn_subject *subject, struct tn_place *place,
                       int64_t deadline, struct tn_error *err);
int tn_process_drive(void *engine, const struct tn_subject *subject, enum tn_goal goal,
                     struct tn_place *place, int64_t deadline, struct tn_error *err);
int tn_process_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline,
                    struct tn_error *err);
int tn_process_put(void *engine, const struct tn_subject *subject, const char *path,
                   const void *bytes, size_t n, mode_t mode, int64_t deadline,
                   struct tn_error *err);
int tn_process_exec(void *engine, const struct tn_subject *subject, const char *const *argv,
                    struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err);
int tn_process_dial(void *engine, const struct tn_subject *subject, int port, int64_t deadline,
                    struct tn_error *err);
char *tn_process_url(void *engine, const struct tn_subject *subject, int port,
                     struct tn_error *err);
int tn_process_logs(void *engine, const struct tn_subject *subject, bool follow, tn_log_fn fn,
                    void *ctx, int64_t deadline, struct tn_error *err);
int tn_process_usage(void *engine, const struct tn_subject *subject, struct tn_usage *out,
                     struct tn_error *err);
/* Tells whether there is a hand to start. */
void tn_process_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx);
/* process-find.c: the hand's own. */
struct tn_proc tn_process_hand(void *engine, const struct tn_subject *subject);

#endif

/* Inside of struct tn_runtime and struct tn_sandbox: only for the files that implement sandbox.h.
 */
#ifndef TN_RUNTIME_RUNTIME_H
#define TN_RUNTIME_RUNTIME_H

#include <pthread.h>

#include "runtime/sandbox.h"

#define TN_MAX_ENGINES 32

struct tn_runtime {
    struct tn_host host;
    struct tn_store *store;
    struct tn_judge *judge; /* NULL: nobody judges actions */
    tn_ask_fn ask;          /* NULL: nobody is there to be asked */
    void *ask_ctx;
    char *state, *hand, *program;

    pthread_mutex_t follow; /* of the next two: who hears of changes, or NULL */
    tn_changed_fn changed;
    void *changed_ctx;

    pthread_mutex_t lock; /* of which slot is whose */
    struct {
        const struct tn_backend *backend;
        pthread_mutex_t opening; /* of what follows: one that takes long holds up no other */
        bool open;
        void *engine;
    } engines[TN_MAX_ENGINES];
    size_t engine_count;
};

struct tn_ledger;

struct tn_sandbox {
    struct tn_runtime *rt;
    const struct tn_backend *backend;
    void *engine;
    char *id; /* that of the record, which is another one after every look; this never changes */
    struct tn_record record;
    struct tn_spec spec;
    char *directory;
    struct tn_hand_client *client;
    struct tn_ledger *ledger;   /* NULL before the first action */
    struct tn_toolbox *toolbox; /* NULL before its first use */
    int uses;                   /* of tn_sandbox_use, without those that have ended */
    bool command_runs;          /* one of them is a command that its action did not see end */
    int use_mark;               /* descriptor, while there are any and it has a lease; or -1 */
    tn_ask_fn ask;              /* as that of the runtime, until somebody says otherwise */
    void *ask_ctx;
    bool impatient;  /* nobody waits for an answer of somebody else */
    int64_t held_up; /* tn_sandbox_held_up */
};

/* The backend and its engine, opened at most once. */
int tn_runtime_engine(struct tn_runtime *rt, const char *name, const struct tn_backend **backend,
                      void **engine, struct tn_error *err);

/* Whether that backend can give the walls that the spec or the configuration of today demands:
 * TN_E_UNSUPPORTED.  Before each start: the configuration may have changed since the last one. */
int tn_sandbox_check_walls(const struct tn_runtime *rt, const struct tn_backend *backend,
                           const struct tn_spec *spec, struct tn_error *err);
/* The same for one that is to be made, which must not ask for less: TN_E_DENIED. */
int tn_sandbox_check_isolation(const struct tn_runtime *rt, const struct tn_backend *backend,
                               const struct tn_spec *spec, struct tn_error *err);

/* Such a sandbox is about to be created: its backend may prepare what takes time. */
void tn_sandbox_expect(struct tn_runtime *rt, const struct tn_spec *spec);

/* A handle that takes the record over; NULL with err (the record is then ended). */
struct tn_sandbox *tn_sandbox_from_record(struct tn_runtime *rt, struct tn_record *record,
                                          struct tn_error *err);
/* What a backend is told about it. */
struct tn_subject tn_sandbox_subject(const struct tn_sandbox *sb);
/* Notes in the store and in the handle what a backend said. */
int tn_sandbox_note(struct tn_sandbox *sb, const struct tn_place *place, struct tn_error *err);
/* What others did to it meanwhile.  TN_E_NOT_FOUND when it is gone. */
int tn_sandbox_reload(struct tn_sandbox *sb, struct tn_error *err);
/* Writes that into the store as its spec; the caller has its lock and checked it. */
int tn_sandbox_keep_spec(struct tn_sandbox *sb, const struct tn_spec *spec, struct tn_error *err);
/* Its lock, under which the handle is up to date; -1. */
int tn_sandbox_hold(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err);
/* The process that its hand ends with; pid 0 where the backend knows none. */
struct tn_proc tn_sandbox_process(struct tn_sandbox *sb);
/* Its hand was seen ready and lives: whoever uses it next need not ask again. */
void tn_sandbox_trust_hand(struct tn_sandbox *sb);
/* Everything of it, without taking its lock. */
int tn_sandbox_erase(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err);

/* Fills a fresh record: id, key, times, this process as owner; spec and runtime from the
 * arguments. */
int tn_record_make(const struct tn_backend *backend, const struct tn_spec *spec,
                   struct tn_record *out, struct tn_error *err);
/* Gives it the id and key of somebody else. */
void tn_record_rename(struct tn_record *r, const char *id, const char *key);
/* Whether it is an id, and of no row. */
bool tn_sandbox_is_lost(struct tn_runtime *rt, const char *id);
/* Row and directory first, then what make does (create or fork); erases everything when that
 * fails, but of one that was found only the row.  Takes the record. */
typedef int (*tn_make_fn)(struct tn_sandbox *sb, const struct tn_subject *subject,
                          struct tn_place *place, int64_t deadline, void *ctx,
                          struct tn_error *err);
struct tn_sandbox *tn_sandbox_bring_up(struct tn_runtime *rt, struct tn_record *record,
                                       tn_make_fn make, void *ctx, int64_t deadline,
                                       struct tn_error *err);

/* The quick part of gc: what dead owners and spent leases left.  Returns how many. */
int tn_runtime_sweep(struct tn_runtime *rt, tn_gc_fn tell, void *ctx, int64_t deadline,
                     struct tn_error *err);

#endif

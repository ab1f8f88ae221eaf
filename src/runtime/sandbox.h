/* Sandboxes, whatever backend holds them: the one interface that the library, the command line and
 * the service use.
 *
 * A runtime is configuration, store and the backends opened so far.  A sandbox handle is a row of
 * the store, its lock while something is done to it, and a client of its hand. */
#ifndef TN_RUNTIME_SANDBOX_H
#define TN_RUNTIME_SANDBOX_H

#include "event/action.h"
#include "event/mask.h"
#include "event/observation.h"
#include "runtime/backend.h"
#include "runtime/hand-client.h"
#include "runtime/store.h"
#include "runtime/toolbox.h"

struct tn_runtime;
struct tn_sandbox;

/* Asks whoever is there whether an action may be carried out (runtime/pending.h).  It may say that
 * it still awaits its confirmation: somebody else answers then. */
struct tn_pending;
typedef enum tn_confirmation (*tn_ask_fn)(void *ctx, const char *sandbox, const char *directory,
                                          const struct tn_pending *pending);

struct tn_runtime_options {
    const struct tn_config *config; /* must outlive the runtime */
    tn_progress_fn progress;        /* may be NULL */
    void *progress_ctx;
    tn_told_fn told; /* may be NULL; called in the threads that use the runtime */
    void *told_ctx;
    const struct tn_spec *expect; /* of a sandbox that is created at once, or NULL */
    tn_ask_fn ask; /* about actions in any sandbox, see tn_sandbox_set_ask; may be NULL */
    void *ask_ctx;
};

/* Opens the store.  Backends are opened when first needed; one that is expected prepares itself
 * meanwhile.  One per process is enough; it serves
 * several threads. */
struct tn_judge;
struct tn_runtime *tn_runtime_open(const struct tn_runtime_options *options, struct tn_error *err);
void tn_runtime_close(struct tn_runtime *rt);
/* For who stays and has many: fn hears of sandboxes that have ended by themselves, where backends
 * hear of it, from threads of theirs.  Once at the beginning; NULL: no more, and none is under way.
 */
void tn_runtime_follow(struct tn_runtime *rt, tn_changed_fn fn, void *ctx);
struct tn_store *tn_runtime_store(struct tn_runtime *rt);
const struct tn_host *tn_runtime_host(const struct tn_runtime *rt);
/* Who judges actions here; NULL: nobody. */
struct tn_judge *tn_runtime_judge(const struct tn_runtime *rt);
/* Whether the backend of that name is open, or can be opened now. */
int tn_runtime_ready(struct tn_runtime *rt, const char *name, int64_t deadline,
                     struct tn_error *err);

/* Creates the sandbox, or claims a warm one that fits.  One of its name that the backend has and
 * the store does not know is taken over instead (record.found); whatever else its spec was, its
 * files count.  Unless spec->keep, it ends with this process.  On failure nothing is left that was
 * not there.  The handle is freed with tn_sandbox_free, which does not
 * end the sandbox. */
struct tn_sandbox *tn_sandbox_create(struct tn_runtime *rt, const struct tn_spec *spec,
                                     int64_t deadline, struct tn_error *err);
/* Whether a sandbox of that spec could ever be made here, before anything is: what every creation
 * begins with.  Asks no engine; -1 (TN_E_INVALID, TN_E_UNSUPPORTED) names what cannot be kept. */
int tn_sandbox_check(struct tn_runtime *rt, const struct tn_spec *spec, struct tn_error *err);
/* The same as tn_sandbox_create under an id and a key of the caller's (owner.h makes them), never a
 * warm one.  TN_E_CONFLICT when the id is taken. */
struct tn_sandbox_how {
    const char *id, *key;
    int cancel;           /* 0, or a descriptor: once it is readable, a pull ends with TN_E_GONE */
    bool anonymous;       /* an image is pulled without this machine's logins */
    enum tn_blame *blame; /* NULL, or what a failure is owed to */
};
struct tn_sandbox *tn_sandbox_create_as(struct tn_runtime *rt, const struct tn_sandbox_how *how,
                                        const struct tn_spec *spec, int64_t deadline,
                                        struct tn_error *err);
/* Takes a warm one that fits out of its pool, in one statement of the database: the caller may put
 * further rows into the same transaction.  It belongs to nobody then if spec->keep.  Nobody has
 * asked whether it still lives: attach it and drive it to running.  1 with *out, 0 for none, -1. */
int tn_sandbox_claim(struct tn_runtime *rt, const struct tn_spec *spec, struct tn_record *out,
                     struct tn_error *err);
/* One that was claimed from the store is claimed from its backend, too, where that has a say; so do
 * inspect and drive, if nobody has yet.  TN_E_CONFLICT: it is another's by now, or has ended; drive
 * it to gone and take the next. */
enum { TN_WARM_TRIES = 8 }; /* that are lost, before a new one is made */
int tn_sandbox_take(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err);
/* One that was claimed is called by the name of its spec inside, too, where the backend can do that
 * quickly; elsewhere its host name remains its id. */
void tn_sandbox_take_name(struct tn_sandbox *sb);
/* An existing one by id, name or unique prefix. */
struct tn_sandbox *tn_sandbox_attach(struct tn_runtime *rt, const char *which,
                                     struct tn_error *err);
void tn_sandbox_free(struct tn_sandbox *sb);
static inline void tn_guard_sandbox(struct tn_sandbox **sb)
{
    tn_sandbox_free(*sb);
}
#define tn_autosandbox TN_CLEANUP(tn_guard_sandbox)

const struct tn_record *tn_sandbox_record(const struct tn_sandbox *sb);
const struct tn_spec *tn_sandbox_spec(const struct tn_sandbox *sb);
const struct tn_backend *tn_sandbox_backend(const struct tn_sandbox *sb);
const char *tn_sandbox_directory(const struct tn_sandbox *sb);

/* Asks the backend how it is and notes it in the store; the record is then up to date. */
int tn_sandbox_inspect(struct tn_sandbox *sb, struct tn_place *place, int64_t deadline,
                       struct tn_error *err);
/* Under the sandbox's lock, which other processes respect.  GONE also removes row and directory. */
int tn_sandbox_drive(struct tn_sandbox *sb, enum tn_goal goal, int64_t deadline,
                     struct tn_error *err);

/* Forgets a sandbox whose runtime cannot be asked (a service that is gone, a program that is not
 * there any more): row and directory go, and what the runtime has of it stays there.
 * TN_E_UNSUPPORTED for one whose processes are ours to end. */
int tn_sandbox_abandon(struct tn_runtime *rt, const struct tn_record *record, struct tn_error *err);

/* The client of its hand, connected and ready; made once, owned by the handle, for one thread at a
 * time.  A sandbox that is not running is an error that says what to do. */
struct tn_hand_client *tn_sandbox_client(struct tn_sandbox *sb, int64_t deadline,
                                         struct tn_error *err);
/* Address and key of the hand, for clients of one's own (terminals, tunnels, second threads).
 * Borrowed from the handle, until it is used for anything else. */
int tn_sandbox_address(struct tn_sandbox *sb, const char **address, const char **key,
                       int64_t deadline, struct tn_error *err);
/* It is in use from here to the tn_sandbox_rest that belongs to it, or to the end of the handle:
 * its lease begins anew then, and nobody takes it away meanwhile.  An action is a use by itself,
 * and so is a stream of tn_sandbox_dial, to the end of the handle. */
void tn_sandbox_use(struct tn_sandbox *sb);
void tn_sandbox_rest(struct tn_sandbox *sb);
/* From any thread, for a process that is about to end: its lease begins anew. */
void tn_sandbox_touch(struct tn_sandbox *sb);

/* Executes an action (runtime/execute.h), which gets sandbox.timeout if it has none.  It is judged
 * as the configuration says; one that somebody has to confirm waits for that.  When the
 * sandbox died under it the observation is an error observation that names the reason (out of
 * memory, ...). */
int tn_sandbox_execute(struct tn_sandbox *sb, const struct tn_action *action,
                       struct tn_observation *observation, struct tn_error *err);
/* Nanoseconds that the last one of the handle was judged and waited for its confirmation: its
 * timeout does not count them. */
int64_t tn_sandbox_held_up(const struct tn_sandbox *sb);
/* The same for a question or the set-up of the host itself, and for an action that was judged and
 * not begun: nobody judges that. */
int tn_sandbox_execute_own(struct tn_sandbox *sb, const struct tn_action *action,
                           struct tn_observation *observation, struct tn_error *err);
/* The same as tn_sandbox_execute for one that the caller carries out, with fn: it is judged and
 * journaled, and the hand is not asked.  Confirmed by another process, the hand does it. */
typedef void (*tn_perform_fn)(void *ctx, const struct tn_action *action, struct tn_observation *o);
int tn_sandbox_perform(struct tn_sandbox *sb, const struct tn_action *action, tn_perform_fn fn,
                       void *ctx, struct tn_observation *observation, struct tn_error *err);
/* Who is asked about actions of this handle, instead of whom the runtime's options name.  Unless
 * it waits, what nobody has answered then is an `error` observation that says so. */
void tn_sandbox_set_ask(struct tn_sandbox *sb, tn_ask_fn ask, void *ctx, bool waits);
/* Answers an action that waits there.  TN_E_NOT_FOUND: none of that number; TN_E_CONFLICT: somebody
 * has answered it; TN_E_GONE: nobody did in time, and it was refused.  Confirmed, it is carried
 * out, and the observation is what became of it; else it is `user_rejected`, with the reason. */
int tn_sandbox_answer(struct tn_sandbox *sb, int64_t pending, bool confirm, const char *reason,
                      struct tn_observation *observation, struct tn_error *err);
/* Its journal does not show this from now on. */
void tn_sandbox_hide(struct tn_sandbox *sb, const struct tn_secret *secret);

/* The tools of MCP servers that an agent in it has, which call_tool_mcp actions use; made once,
 * owned by the handle. */
struct tn_toolbox *tn_sandbox_toolbox(struct tn_sandbox *sb, struct tn_error *err);

int tn_sandbox_put(struct tn_sandbox *sb, const char *path, const void *bytes, size_t n,
                   mode_t mode, int64_t deadline, struct tn_error *err);
int tn_sandbox_exec(struct tn_sandbox *sb, const char *const *argv, struct tn_buf *out, int *status,
                    int64_t deadline, struct tn_error *err);
/* A connected stream to a port inside: the backend's way, or the hand's tunnel. */
int tn_sandbox_dial(struct tn_sandbox *sb, int port, int64_t deadline, struct tn_error *err);
/* The backend's own address of a port, with what it takes there (a Service, an Ingress). */
char *tn_sandbox_url(struct tn_sandbox *sb, int port, struct tn_error *err);
/* The same of a backend that makes something for it, which is not made now; *there: whether it is
 * (NULL: that is not asked).  NULL: it makes nothing, or, with err, has none or does not tell. */
char *tn_sandbox_look_url(struct tn_sandbox *sb, int port, bool *there, int64_t deadline,
                          struct tn_error *err);
int tn_sandbox_logs(struct tn_sandbox *sb, bool follow, tn_log_fn fn, void *ctx, int64_t deadline,
                    struct tn_error *err);
int tn_sandbox_usage(struct tn_sandbox *sb, struct tn_usage *out, struct tn_error *err);
/* Goes on until everything is counted, or the deadline: TN_USAGE_SECONDS, when somebody waits. */
#define TN_USAGE_SECONDS 5.0
int tn_sandbox_usage_whole(struct tn_sandbox *sb, struct tn_usage *out, int64_t deadline,
                           struct tn_error *err);
/* A descriptor that becomes readable when the hand ends, as far as the store knows it; -1 where the
 * backend has none or it has ended already.  The caller closes it. */
int tn_sandbox_watch(struct tn_sandbox *sb);

/* Its network, into an object that the caller has opened: "network", "gated", "rules", and how much
 * its gate has "refused", the last "refusals" newest first: {"what", "why", "count", "at", "rule"},
 * where rule is one that would let it through, or null. */
void tn_sandbox_put_network(struct tn_sandbox *sb, struct tn_jw *w, int64_t deadline);
/* Notes in its journal what its gate has refused since somebody last did that, as `error`
 * observations that answer no action; out (may be NULL) gets the same as sentences, a kilobyte or
 * two of them.  How many. */
int tn_sandbox_note_refusals(struct tn_sandbox *sb, struct tn_buf *out, int64_t deadline);
/* Other rules for its gate, which count at once (connections that are there stay) and after every
 * restart.  check (may be NULL) may refuse the spec that is to be.  TN_E_CONFLICT: it has no gate,
 * or would have none; TN_E_NOT_FOUND: a rule to be taken away is none of its own. */
struct tn_rules_change {
    int network; /* open or allow from now on; TN_NETWORK_DEFAULT: as it is */
    struct tn_str_list allow, deny;
    int (*check)(void *ctx, const struct tn_spec *wanted, struct tn_error *err);
    /* It counts, or it `failed`; nobody else changes it before this returns.  May be NULL. */
    void (*done)(void *ctx, bool failed);
    void *ctx;
};
extern const struct tn_fields
    tn_rules_change_fields; /* {"network", "allow": [...], "deny": [...]} */
int tn_sandbox_change_rules(struct tn_sandbox *sb, const struct tn_rules_change *change,
                            int64_t deadline, struct tn_error *err);

/* These variables (an object, borrowed) instead of those of its spec: what its hand and shells have
 * from the next start on.  TN_E_UNSUPPORTED where a start does not look at them. */
int tn_sandbox_change_env(struct tn_sandbox *sb, struct tn_json *env, int64_t deadline,
                          struct tn_error *err);

/* Connections of it that no rule allows and that wait (spec.ask), as the backend has them. */
int tn_sandbox_listen(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err);
int tn_sandbox_let(struct tn_sandbox *sb, const char *host, int64_t port, bool allowed,
                   int64_t deadline, struct tn_error *err);
/* Carries out a `network` action that was confirmed: what waits for it passes. */
void tn_sandbox_let_through(struct tn_sandbox *sb, const struct tn_action *action,
                            struct tn_observation *o);

int tn_sandbox_snapshot(struct tn_sandbox *sb, const char *name, int64_t deadline,
                        struct tn_error *err);
int tn_sandbox_forget(struct tn_sandbox *sb, const char *name, int64_t deadline,
                      struct tn_error *err);
int tn_sandbox_rollback(struct tn_sandbox *sb, const char *name, int64_t deadline,
                        struct tn_error *err);
/* A new sandbox with the files of this one (name NULL: as they are now).  spec may change name,
 * keep, lease and labels; everything else comes from the parent. */
struct tn_sandbox *tn_sandbox_fork(struct tn_sandbox *sb, const char *name,
                                   const struct tn_spec *spec, int64_t deadline,
                                   struct tn_error *err);
/* The same under an id and a key of a service's, with the variables and volumes of spec where it
 * has some, and always with its bounds (tn_spec_borrow_bounds): the tenant that asks for a fork may
 * have less than the maker of the parent. */
struct tn_sandbox *tn_sandbox_fork_as(struct tn_sandbox *sb, const char *name, const char *id,
                                      const char *key, const struct tn_spec *spec, int64_t deadline,
                                      struct tn_error *err);

/* Warm sandboxes of one spec on one backend: a pool. */
struct tn_pool_name {
    const char *runtime; /* canonical */
    char digest[17];
};
int tn_pool_name(struct tn_runtime *rt, const struct tn_spec *spec, struct tn_pool_name *out,
                 struct tn_error *err);
/* Makes one, known to be ready, unless its pool has `most` already, those that are being made by
 * anybody included: 1, or 0 when it has; -1.  cancel: as that of struct tn_sandbox_how. */
int tn_pool_add(struct tn_runtime *rt, const struct tn_spec *spec, int most, int cancel,
                int64_t deadline, struct tn_error *err);
/* Makes warm sandboxes of that spec until `count` are there; returns how many were made, or -1. */
int tn_pool_fill(struct tn_runtime *rt, const struct tn_spec *spec, int count, int64_t deadline,
                 struct tn_error *err);
/* Removes the oldest that are ready until `most` are there; returns how many, or -1. */
int tn_pool_drain(struct tn_runtime *rt, const struct tn_pool_name *pool, int most,
                  int64_t deadline, struct tn_error *err);
/* For a program that takes the place of another in the same process: what that one was making is
 * gc's. */
int tn_pool_disown(struct tn_runtime *rt, struct tn_error *err);
/* Looks at all warm ones and removes those that have ended; returns how many, or -1. */
int tn_pool_check(struct tn_runtime *rt, int64_t deadline, struct tn_error *err);

/* Reclaims what dead owners, spent leases and killed processes left: rows, and things that backends
 * find without a row.  force: also rows whose runtime cannot be asked, see tn_sandbox_abandon.
 * Calls tell (may be NULL) for each.  Returns how many, or -1. */
typedef void (*tn_gc_fn)(const char *id, const char *why, void *ctx);
int tn_runtime_gc(struct tn_runtime *rt, bool force, tn_gc_fn tell, void *ctx, int64_t deadline,
                  struct tn_error *err);

#endif

/* Actions that wait until somebody confirms them.
 *
 * Each is a file of the sandbox's directory, pending/ID.json, beside the journal in which the
 * action has that id and `awaiting_confirmation`: the journal hides secrets, and what is carried
 * out later must be what was asked for.  It survives every process.  Whoever takes the file away
 * has the say: one process, once.  It is ID.taken, and locked, until the answer is noted, so that
 * who asks for the same meanwhile is not asked for a second confirmation.  The answer is the action
 * once more in the journal, confirmed or rejected, with the first one as its cause, and then the
 * observation. */
#ifndef TN_RUNTIME_PENDING_H
#define TN_RUNTIME_PENDING_H

#include "event/action.h"

enum {
    TN_PENDING_MAX = 32,           /* of one sandbox at a time */
    TN_PENDING_BODY_MAX = 8 << 20, /* of a request */
    TN_PENDING_REASON_MAX = 500,   /* of what somebody says about an answer */
    TN_PENDING_RULE = 300,
};

struct tn_pending {
    int64_t id;              /* of its event */
    double asked, until;     /* seconds since 1970; then it is refused */
    char *key;               /* its idempotency key */
    bool keyed;              /* ...which was the caller's */
    unsigned rights;         /* of the caller, as struct tn_errand has it */
    struct tn_json *verdict; /* why it waits */
    char *body;              /* {"action": ...}, byte for byte */
    size_t len;
    struct tn_action action;      /* the same, decoded */
    bool taken;                   /* somebody is answering it (tn_pending_find) */
    struct tn_pending_hold *hold; /* ...and that is the caller, until tn_pending_done */
};

void tn_pending_done(struct tn_pending *p);
#define tn_autopending TN_CLEANUP(tn_pending_done)

/* Keeps one: all but the action. TN_E_QUOTA: too many wait already. */
int tn_pending_save(const char *directory, const struct tn_pending *p, struct tn_error *err);
/* One of them, in uninitialised memory.  TN_E_NOT_FOUND: there is none, or not any more. */
int tn_pending_load(const char *directory, int64_t id, struct tn_pending *out,
                    struct tn_error *err);
/* Calls fn with each, by id; stops when it returns non-zero, and returns that.  Without a directory
 * there are none. */
typedef int (*tn_pending_fn)(struct tn_pending *p, void *ctx);
int tn_pending_each(const char *directory, tn_pending_fn fn, void *ctx);
/* The one with that idempotency key, also one that is taken and not noted yet: 0, or -1. */
int tn_pending_find(const char *directory, const char *key, struct tn_pending *out);

/* Loads it and claims it: the caller answers, and ends it (tn_pending_done) when that is noted.
 * check (may be NULL) is asked before about what is claimed then; what it refuses still waits.
 * TN_E_NOT_FOUND: there never was one of that number; TN_E_CONFLICT: somebody has answered it. */
typedef int (*tn_pending_check_fn)(const struct tn_pending *p, void *ctx, struct tn_error *err);
int tn_pending_take(const char *directory, int64_t id, tn_pending_check_fn check, void *ctx,
                    struct tn_pending *out, struct tn_error *err);
/* True for one caller in the world: it answers. */
bool tn_pending_claim(const char *directory, int64_t id);
bool tn_pending_is_late(const struct tn_pending *p);
/* When that is, in monotonic time. */
int64_t tn_pending_deadline(const struct tn_pending *p);

/* Of a connection that waits (a `network` action): the rule that would allow it from now on.
 * False: it is none. */
bool tn_pending_rule(const struct tn_pending *p, char rule[TN_PENDING_RULE]);

/* The action as the journal shows it, without secrets: a tree, or NULL. */
struct tn_json *tn_pending_event(const char *directory, int64_t id);
/* The members "id", "asked", "until", "action", "verdict", "diff", "rule" for people and programs,
 * into an object that the caller has opened: the action as the journal shows it; diff, of an edit:
 * what it takes out and puts in; rule, of a connection. */
void tn_pending_put(const char *directory, const struct tn_pending *p, struct tn_jw *w);
/* Appends that diff, lines with - and +; nothing for what is no edit. */
void tn_pending_put_diff(const struct tn_action *action, struct tn_buf *out);

#endif

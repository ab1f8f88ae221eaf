/* One way to execute an action, whoever asks for it: the library and everything above it, and the
 * service in all its dialects.
 *
 * In this order: what needs no hand or nobody confirmed is answered, the action is judged, somebody
 * confirms it where the verdict says so, the sandbox is reached, the action is noted in its ledger,
 * sent once, the limit that it met is named, and its answer is noted.  What differs from face to
 * face is how a sandbox is reached, and stands in a table. */
#ifndef TN_RUNTIME_EXECUTE_H
#define TN_RUNTIME_EXECUTE_H

#include "runtime/hand-client.h"
#include "runtime/ledger.h"
#include "runtime/pending.h"
#include "runtime/toolbox.h"
#include "security/judge.h"

/* What became of a sandbox that did not answer. */
enum tn_loss {
    TN_LOSS_NONE,   /* it runs, as far as anybody knows */
    TN_LOSS_AGAIN,  /* it slept and has not begun the action; it is awake now: ask it once more */
    TN_LOSS_ASLEEP, /* ...and stays asleep: err says how to wake it */
    TN_LOSS_ENDED,  /* err says how */
};

/* How one sandbox is reached.  Functions may be called by as many threads as execute actions. */
struct tn_reach {
    /* It is in use from enter to leave; o: the answer, or NULL. */
    void (*enter)(void *ctx);
    void (*leave)(void *ctx, const struct tn_observation *o);
    /* Its hand can be talked to: waked where the face does that, for which the deadline may be
     * moved on.  -1: nothing is noted, and an idempotency key stays free. */
    int (*ready)(void *ctx, int64_t *deadline, struct tn_error *err);
    struct tn_ledger *(*ledger)(void *ctx);
    /* It has an id there now; may be NULL. */
    void (*noted)(void *ctx, const struct tn_action *action, int64_t id);
    /* How often it was started, or TN_START_UNKNOWN. */
    int64_t (*starts)(void *ctx);
    /* A client for the caller alone, until it is released; a broken one is not used again. */
    struct tn_hand_client *(*client)(void *ctx, int64_t deadline, struct tn_error *err);
    void (*release)(void *ctx, struct tn_hand_client *client, bool broken);
    /* Nobody answered (status -1), or whoever stands before a hand far away refused. */
    enum tn_loss (*lost)(void *ctx, int status, const struct tn_error *why, int64_t *deadline,
                         struct tn_error *err);
    /* What it is known to report of its limits; a look at them; what is new and nobody was told.
     * Reports are on the heap, or NULL. */
    char *(*known)(void *ctx);
    void (*look)(void *ctx, int64_t deadline);
    char *(*news)(void *ctx, const char *known);
    /* The tools of MCP servers that whoever asks has there, until leave; NULL with err. */
    struct tn_toolbox *(*tools)(void *ctx, struct tn_error *err);
    /* A verdict that does not simply allow it; may be NULL. */
    void (*judged)(void *ctx, const struct tn_verdict *verdict);
    /* An action waits for its confirmation: whoever is there is asked now, and may answer; what
     * still awaits it is answered by somebody else (confirm.h).  May be NULL: nobody is there. */
    enum tn_confirmation (*ask)(void *ctx, const char *directory, const struct tn_pending *pending);
};

/* How long the caller waits for somebody to confirm the action, whose own time begins then. */
enum tn_patience {
    TN_PATIENT,     /* as long as it can be confirmed */
    TN_TO_DEADLINE, /* ...but no longer than the action may take */
    TN_IMPATIENT,   /* not at all */
};

struct tn_errand {
    const struct tn_reach *reach;
    void *ctx;
    const struct tn_action *action;
    /* {"action": ...} as it came, which is sent byte for byte; the answer is then given as bytes,
     * too.  NULL: it is made of the action, which gets `seconds` for a timeout if it has none. */
    const char *body;
    size_t len;
    const char *key;        /* the caller's idempotency key, see tn_errand_key_fits; or NULL */
    const char *headers;    /* further ones for the hand, "Name: value\r\n...", or NULL */
    double seconds;         /* that are waited for an action without a timeout */
    double grace;           /* ...beyond its timeout */
    struct tn_judge *judge; /* NULL: everything is allowed */
    bool judged_there;      /* the answer may tell a verdict, which a hand's own never does */
    const struct tn_thresholds *thresholds; /* of whoever asks, or NULL: those of the judge */
    enum tn_patience patience;
    const int *watch; /* a descriptor that ends the wait when it becomes readable, or NULL */
    /* Carries it out in place of the hand, and makes the observation; NULL: the hand does. */
    void (*perform)(void *ctx, const struct tn_action *action, struct tn_observation *o);
    void *perform_ctx;
    double confirm_seconds; /* in which somebody must answer; 0: those of the judge */
    unsigned rights; /* the face's own mark of what the caller may do: kept with what waits */
};

enum tn_outcome_kind {
    TN_ANSWERED,   /* observation */
    TN_UNREADABLE, /* the hand gave bytes that are no observation: err says why */
    TN_REFUSED,    /* with the status and bytes of the hand; err says the same */
    TN_ENDED, /* the sandbox has, under the action: the observation says why, and so does err */
    TN_LOST,  /* nobody can say what became of it: err */
    TN_WAITS, /* nobody has confirmed it yet: `pending`; the observation, an `error`, says so */
};

struct tn_outcome {
    int status;      /* of a hand that refused */
    bool again;      /* it had been carried out before */
    int64_t pending; /* the id of what waits */
    int64_t held_up; /* nanoseconds before its own time began: judged, confirmed */
    struct tn_observation observation; /* ANSWERED, ENDED, WAITS: the caller ends it */
    struct tn_buf
        answer; /* the caller's: maximum and purse; the trees that are needed are held there,
                             too */
};

/* What became of the action, which is in the ledger then; or -1 with err when nothing was done. */
int tn_execute_errand(const struct tn_errand *errand, struct tn_outcome *out, struct tn_error *err);

/* The same for an action that waited and that the caller has claimed, which nobody judges again:
 * its body, key and action take the place of the errand's. */
int tn_execute_confirmed(const struct tn_errand *errand, const struct tn_pending *pending,
                         struct tn_outcome *out, struct tn_error *err);
/* Notes that somebody said no, or (NULL) that nobody said anything in time: a `user_rejected`
 * observation, which the caller ends. */
void tn_execute_rejected(struct tn_ledger *ledger, const struct tn_pending *pending,
                         const char *reason, struct tn_observation *out);

/* 1 to TN_KEY_MAX printable characters. */
enum { TN_KEY_MAX = 255 };
bool tn_errand_key_fits(const char *key);

#endif

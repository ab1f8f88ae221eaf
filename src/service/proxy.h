/* Passing a request on to a hand, or to a port inside a sandbox. */
#ifndef TN_SERVICE_PROXY_H
#define TN_SERVICE_PROXY_H

#include "service/box.h"

/* To the hand of the box: `target` is path and query there.  The service's own key never goes
 * along, the hand's does; X-Request-Id and X-Forwarded-Prefix do.  Connections to hands are kept
 * and used again.  Always answers: with the hand's answer (streams and WebSockets too), or 503
 * while it does not run, 502, 504. */
void proxy_to_hand(struct tn_http_exchange *x, struct box *b, const char *target);
/* To a port inside.  prefix is the path below which clients see it on an address that others share
 * ("/preview/ID/8080"; `target` is without it), NULL when it has a host of its own.  Our cookies,
 * tickets and keys do not go along; the client's Host, scheme and address do, as X-Forwarded-*.
 * Always answers, likewise. */
void proxy_to_port(struct tn_http_exchange *x, struct box *b, int port, const char *target,
                   const char *prefix);

/* Carries out an action (runtime/execute.h): `body` is {"action": {...}} as /execute_action
 * takes it.  The answer is the hand's in out, byte for byte unless the box has met a limit
 * since, which is added to an observation that failed; or that of a tool, or our own to what
 * needs no hand.  The status, or -1 (TN_E_TIMEOUT a second after the action's own timeout).  The
 * same idempotency key again gives the first answer (news->again), also after this service was
 * killed in between; it has 1 to 255 printable characters, or is NULL.  What the trees of both need
 * is held in the purse of out. */
enum { ACTION_MAX = 64 << 20, OBSERVATION_MAX = 64 << 20 }; /* what a hand takes and gives */
struct act_how {
    const char *idempotency; /* or NULL */
    const char *request;     /* its id, or NULL */
    bool async;              /* whoever asks does not wait for a confirmation */
    int watch;               /* a descriptor that becomes readable when nobody waits any more */
};
struct act_news {
    bool again;      /* it had been carried out before */
    int64_t pending; /* ACT_WAITS: its number */
};
int act(struct box *b, const struct caller *who, const char *body, size_t n,
        const struct act_how *how, struct act_news *news, struct tn_buf *out, struct tn_error *err);
/* The status of act for an action that nobody has confirmed yet: out is an `error` observation that
 * says so, for dialects that know no 202. */
enum { ACT_WAITS = 202 };
/* Carries out what waited: the caller has claimed it (runtime/pending.h). */
struct tn_pending;
int act_confirmed(struct box *b, const struct tn_pending *pending, const char *request,
                  struct tn_buf *out, struct tn_error *err);
/* A connection of the box that no rule allows waits at its gate: judged, and somebody is asked
 * where the verdict says so.  True: it was let through.  `over` becomes readable when it does not
 * wait any more. */
struct tn_judge;
bool act_network(struct box *b, struct tn_judge *judge, const char *host, int port, int over);
/* Notes that it was rejected (a reason), or that nobody answered (NULL); out is the observation. */
void act_rejected(struct box *b, const struct tn_pending *pending, const char *reason,
                  struct tn_buf *out);
/* What act keeps of each box while it is used: connections to its hand, its journal. */
struct desks *desks_new(void);
void desks_free(struct desks *d);
/* Whoever waits for a hand gives up, now and later: it may be frozen, and the service is ending. */
void desks_let_go(struct desks *d);
/* The box is gone: so is what was kept of it. */
void desks_forget(struct desks *d, const char *id);

/* --- ports and editors, for browsers: docs/internals/service-proxy.md ---------------------- */

/* True when the Host of the request is that of a preview; it is answered then. */
bool preview_take(struct tn_service *s, struct tn_http_exchange *x);
/* What a person can open for that port: "http://8080-ID.localhost:7171/", or the path form
 * "http://HOST/preview/ID/8080/" where clients cannot reach names below options.preview_domain. */
char *preview_url(const struct tn_service *s, const char *id, int port);
/* The same as a link that lets in who opens it within a minute (a ticket of the caller's is in its
 * query); rest, which may be NULL, is what to open there: "/docs?page=2". */
char *preview_link(const struct tn_service *s, const struct caller *who, const char *id, int port,
                   const char *rest, struct tn_error *err);

/* Such a link to the editor of the box (VS Code), which is started if need be. */
char *editor_link(struct box *b, const struct caller *who, int64_t deadline, struct tn_error *err);

#endif

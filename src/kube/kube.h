/* The client of Kubernetes API servers, 1.20 and later.
 *
 * A struct kube is one cluster as one user sees it: the server, how it is trusted, who we are
 * there.  Credentials that rotate (token files, exec plugins) are read again when they are due and
 * after a 401.  All calls are synchronous, bounded by a deadline and safe from several threads.
 *
 * Objects that are made here have names that their maker chose, so that every call may be sent
 * again: a create whose answer was lost meets its own object (TN_E_CONFLICT, known by its marks).
 */
#ifndef TN_KUBE_KUBE_H
#define TN_KUBE_KUBE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "web/web.h"

struct kube;

struct kube_options {
    const char *config;    /* kubeconfig files with colons between; "": the service account of this
                              pod; NULL: $KUBECONFIG, else ~/.kube/config, else that account */
    const char *context;   /* NULL: the current one */
    const char *namespace; /* NULL: of the context or the service account, else "default" */
};

/* Reads what says where the cluster is and who we are; asks nobody.  NULL: err says in one sentence
 * what is missing, expired or wrong, and where that was read. */
struct kube *kube_open(const struct kube_options *options, struct tn_error *err);
void kube_close(struct kube *k); /* no call may be under way */

const char *kube_server(const struct kube *k); /* "https://HOST:PORT[/PATH]" */
const char *kube_namespace(const struct kube *k);
const char *kube_source(const struct kube *k); /* for people: "context X of FILE" */
bool kube_is_insecure(const struct kube *k);   /* insecure-skip-tls-verify: said loudly */
bool kube_is_inside(const struct kube *k);     /* this is a pod of that cluster, by its account */

/* Text of others (a Status, an event, an annotation) as one printable line of at most 400 bytes; on
 * the heap. */
char *kube_line(const char *text);

/* --- calls (call.c) --------------------------------------------------------------------------- */

#define KUBE_MERGE_PATCH "application/merge-patch+json"
#define KUBE_JSON_PATCH "application/json-patch+json"

struct kube_call {
    const char *method; /* NULL: GET, or POST with a body */
    const char *target; /* path and query, encoded: "/api/v1/namespaces/NS/pods" */
    const char *body;   /* JSON text, or NULL */
    const char *type;   /* of the body; NULL: application/json */
    bool hurried;       /* not again after 429 or 5xx: somebody who looks anyway */
    int cancel;         /* as in struct tn_web_call */
};
/* The answer's object is the caller's (NULL is fine when it does not matter).  An error has the
 * server's own words (Status.message, one printable line) and a code:
 *     TN_E_NOT_FOUND 404, TN_E_CONFLICT 409 (AlreadyExists, Conflict), TN_E_DENIED 401 and 403,
 *     TN_E_QUOTA a quota (403 "exceeded quota"), TN_E_INVALID 400 and 422 (admission refused too),
 *     TN_E_GONE 410, TN_E_BUSY 429 and 503 that stayed, TN_E_TIMEOUT, TN_E_PEER.
 * 429, 503, 500 "ServerTimeout" and broken connections are tried again with jitter, or when
 * Retry-After says, until the deadline. */
int kube_call(struct kube *k, const struct kube_call *call, struct tn_json **answer,
              int64_t deadline, struct tn_error *err);

/* The body of a GET as it comes (logs, follow). */
int kube_stream(struct kube *k, const char *target, tn_web_sink_fn sink, void *ctx, int cancel,
                int64_t deadline, struct tn_error *err);

/* --- watching (watch.c) ----------------------------------------------------------------------- */

enum kube_change {
    KUBE_ADDED, /* also each object of a list; of one that was known: as KUBE_MODIFIED */
    KUBE_MODIFIED,
    KUBE_DELETED, /* also of one that was known and is missing in a later list; object is as it was
                     told last, but for managedFields and data */
    KUBE_SYNCED,  /* all there is was told; object NULL.  After every list and every bookmark */
    KUBE_CUT,     /* of kube_watch_feed: nothing is told until the next one of these; NULL */
};
/* Non-zero ends the watch. */
typedef int (*kube_change_fn)(enum kube_change change, const struct tn_json *object, void *ctx);

/* Lists (in pages) and follows, with bookmarks, over cut connections, 410 and restarts of the
 * server, until fn had enough (0), the deadline (TN_E_TIMEOUT), cancel (TN_E_GONE), or an answer
 * that no waiting mends (404, 403).  target: a collection with its selectors, such as
 * "/api/v1/namespaces/NS/pods?labelSelector=a%3Db". */
int kube_watch(struct kube *k, const char *target, kube_change_fn fn, void *ctx, int cancel,
               int64_t deadline, struct tn_error *err);
/* What watches have told, but for managedFields and data: kept from one to the next, which so tells
 * what has ended in between. */
struct kube_feed;
struct kube_feed *kube_feed_new(kube_change_fn fn, void *ctx);
void kube_feed_free(struct kube_feed *f);
/* The same as kube_watch, and fn hears of failures that are passed over (KUBE_CUT). */
int kube_watch_feed(struct kube *k, const char *target, struct kube_feed *feed, int cancel,
                    int64_t deadline, struct tn_error *err);
/* From any thread: the caller's own, or NULL; all of them (KUBE_ADDED), without a lock. */
struct tn_json *kube_feed_get(struct kube_feed *f, const char *namespace, const char *name);
void kube_feed_each(struct kube_feed *f, kube_change_fn fn, void *ctx);

/* --- inside a pod (exec.c) -------------------------------------------------------------------- */

struct kube_exec {
    const char *namespace, *pod, *container;
    const char *const *argv; /* NULL-terminated */
    const void *input;       /* of standard input, which is closed (v5) or merely ends there (v4) */
    size_t input_len;
    int held; /* a socket: the input stays open until that one ends, something must come every
                 minute, and the deadline is that of its beginning; 0: none */
    tn_web_sink_fn out; /* both streams as they come */
    void *ctx;
};
/* By WebSocket (v5.channel.k8s.io, v4 before).  *status as a shell would say. */
int kube_exec(struct kube *k, const struct kube_exec *e, int *status, int64_t deadline,
              struct tn_error *err);

/* --- a port of a pod through the API server (reach.c) ----------------------------------------- */

/* An address for runtime/hand-address.h that any process of this user can dial, without a secret in
 * it: "kube:NAMESPACE/POD:PORT?config=...&context=..."; on the heap. */
char *kube_address(const struct kube *k, const char *namespace, const char *pod, int port);
/* What such an address means now: the kube (kept open in this process for as long as it lives), the
 * path of the server's proxy before every target, and header lines ("Name: value\r\n") with who we
 * are, which change with rotation. */
struct kube_door {
    struct kube *kube;
    char *host, *base, *headers;
};
/* May run an exec plugin.  refused: 401 was the answer to the headers of before;
 * they are renewed if the server itself, asked again, does not accept them. */
int kube_door(const char *address, bool refused, struct kube_door *out, int64_t deadline,
              struct tn_error *err);
void kube_door_done(struct kube_door *door);
/* A connected stream to the server (tn_web_dial). */
int kube_dial(struct kube *k, int64_t deadline, struct tn_error *err);

#endif

/* The remote backend: sandboxes of a service.  What its files share.
 *
 * Two dialects: the native one of another Tendon, and OpenHands' runtime API.  A dialect says how
 * the service is asked; what is asked when, and what it means, is the same for both (life.c).
 *
 * A sandbox has a session id there, "tendon-MARK-ID": MARK is this machine and state directory, ID
 * our id.  It is known before the first request, so that whatever became of an answer the sandbox
 * is found again, and it makes a second request for it the same as the first. */
#ifndef TN_RUNTIME_REMOTE_REMOTE_H
#define TN_RUNTIME_REMOTE_REMOTE_H

#include "base/json.h"
#include "runtime/backend.h"
#include "web/web.h"

enum { REMOTE_SESSION_MAX = 48, REMOTE_ID_MAX = 200, REMOTE_BODY_MAX = 4 << 20 };

struct remote {
    const struct tn_host *host;
    const struct remote_dialect *dialect;
    struct tn_web *web;
    char *api; /* its address, without a final slash */
    char mark[17];
};

static inline const struct tn_config_sandbox *remote_config(const struct remote *r)
{
    return &r->host->config->sandbox;
}

/* --- one request (call.c) --------------------------------------------------------------------- */

struct remote_call {
    const char *method; /* NULL: GET */
    const char *target;
    const struct tn_buf *body; /* JSON, or NULL */
    const char *idempotency;   /* or NULL */
    bool unsafe;               /* doing it twice would be wrong: sent once at most */
    bool ends;                 /* 404 after an answer that was lost says that it was done */
    bool hurried;              /* whatever goes wrong is told at once */
    tn_web_sink_fn sink;       /* instead of an answer that is JSON; or NULL */
    void *sink_ctx;
    double patience; /* seconds that the answer may take beyond the usual (long polls) */
    int cancel;      /* 0, or a descriptor: readable means that nobody waits for it (TN_E_GONE) */
    bool whole;      /* cancel counts between two tries alone: what was sent is not cut off */
};

/* 0 with the tree of the answer (which may be NULL), to be freed by the caller; or -1.  What failed
 * on the way, and 429, 502, 503 and 504, are asked again as tn_web_again says.  The key is never in
 * err. */
int remote_ask(const struct remote *r, const struct remote_call *call, struct tn_json **answer,
               int64_t deadline, struct tn_error *err);

/* "/path/" with an id that goes into a path as it is, or encoded. */
char *remote_target(const char *before, const char *id, const char *after);

/* --- what a service says of a sandbox (view.c) ------------------------------------------------ */

struct remote_view {
    bool known; /* else there is none, and nothing below is set */
    char *id;   /* the service's */
    enum tn_status status;
    char *address, *key;  /* of the hand; NULL when it cannot be reached now */
    enum tn_code failure; /* of an error; TN_OK: the service does not say */
    enum tn_blame blame;
    char *reason, *isolation;
    int64_t version; /* of a long poll */
};
void remote_view_done(struct remote_view *v);
#define autoremoteview TN_CLEANUP(remote_view_done)

/* What tells a service's sandboxes of ours from others. */
void remote_session(const struct remote *r, const char *id, char out[REMOTE_SESSION_MAX]);
/* Our id in a session id; NULL: not ours. */
const char *remote_own_id(const struct remote *r, const char *session);
/* The service's id that place.ref noted, on the heap; NULL when there is none.  -1 when it belongs
 * to another service than the configured one. */
int remote_ref_id(const struct remote *r, const struct tn_subject *s, char **id,
                  struct tn_error *err);

/* The words of both dialects. */
int remote_read_native(const struct remote *r, const struct tn_json *tree, struct remote_view *out,
                       struct tn_error *err);
int remote_read_openhands(const struct remote *r, const struct tn_json *tree,
                          struct remote_view *out, struct tn_error *err);

/* --- dialects ------------------------------------------------------------------------------- */

struct remote_dialect {
    const char *name;
    bool unsure; /* one that is said to run may not be there yet: its hand is asked */
    /* Asks for it.  Asking again is asking once. */
    int (*start)(const struct remote *r, const struct tn_subject *s, struct remote_view *out,
                 int64_t deadline, struct tn_error *err);
    /* How it is; id is the service's, or NULL: by its session. */
    int (*look)(const struct remote *r, const struct tn_subject *s, const char *id,
                struct remote_view *out, int64_t deadline, struct tn_error *err);
    /* The same once something has changed since `now`; *ms is for tn_back_off. */
    int (*next)(const struct remote *r, const struct tn_subject *s, const struct remote_view *now,
                struct remote_view *out, int *ms, int64_t deadline, struct tn_error *err);
    /* Tells it where to go; TN_E_UNSUPPORTED when it knows no such goal.  One that is gone is fine.
     */
    int (*order)(const struct remote *r, const char *id, enum tn_goal goal, int64_t deadline,
                 struct tn_error *err);
    int (*list)(const struct remote *r, tn_found_fn found, void *ctx, int64_t deadline,
                struct tn_error *err);
    char *(*url)(const struct remote *r, const struct tn_subject *s, const char *id, int port,
                 int64_t deadline, struct tn_error *err);
    /* NULL: it has none of these. */
    int (*logs)(const struct remote *r, const char *id, bool follow, tn_log_fn fn, void *ctx,
                int64_t deadline, struct tn_error *err);
    int (*usage)(const struct remote *r, const char *id, struct tn_usage *out, int64_t deadline,
                 struct tn_error *err);
    int (*snapshot)(const struct remote *r, const char *id, const char *name, int64_t deadline,
                    struct tn_error *err);
    int (*forget)(const struct remote *r, const char *id, const char *name, int64_t deadline,
                  struct tn_error *err);
    int (*rollback)(const struct remote *r, const char *id, const char *name, int64_t deadline,
                    struct tn_error *err);
    /* env: its variables, NULL for those of its parent. */
    int (*fork)(const struct remote *r, const char *id, const char *name,
                const struct tn_subject *child, const struct tn_json *env, struct remote_view *out,
                int64_t deadline, struct tn_error *err);
};
extern const struct remote_dialect remote_native, remote_openhands;

/* --- the table (life.c, use.c, layers.c, doctor.c) ----------------------------------------- */

/* What no service could keep. */
int remote_check(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err);
int remote_create(void *engine, const struct tn_subject *s, struct tn_place *place,
                  int64_t deadline, struct tn_error *err);
int remote_inspect(void *engine, const struct tn_subject *s, struct tn_place *place,
                   int64_t deadline, struct tn_error *err);
int remote_drive(void *engine, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err);
int remote_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err);

/* How it is, by ref or by session. */
int remote_find(const struct remote *r, const struct tn_subject *s, struct remote_view *out,
                int64_t deadline, struct tn_error *err);
/* The same when there must be one: TN_E_NOT_FOUND. */
int remote_must_find(const struct remote *r, const struct tn_subject *s, struct remote_view *out,
                     int64_t deadline, struct tn_error *err);
/* Waits until it runs, and has its place; what it became instead is an error. */
int remote_settle(const struct remote *r, const struct tn_subject *s, struct remote_view *view,
                  struct tn_place *place, int64_t deadline, struct tn_error *err);

int remote_put(void *engine, const struct tn_subject *s, const char *path, const void *bytes,
               size_t n, mode_t mode, int64_t deadline, struct tn_error *err);
int remote_exec(void *engine, const struct tn_subject *s, const char *const *argv,
                struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err);
char *remote_url(void *engine, const struct tn_subject *s, int port, struct tn_error *err);
int remote_logs(void *engine, const struct tn_subject *s, bool follow, tn_log_fn fn, void *ctx,
                int64_t deadline, struct tn_error *err);
int remote_usage(void *engine, const struct tn_subject *s, struct tn_usage *out,
                 struct tn_error *err);

int remote_snapshot(void *engine, const struct tn_subject *s, const char *name, int64_t deadline,
                    struct tn_error *err);
int remote_forget(void *engine, const struct tn_subject *s, const char *name, int64_t deadline,
                  struct tn_error *err);
int remote_rollback(void *engine, const struct tn_subject *s, const char *name,
                    struct tn_place *place, int64_t deadline, struct tn_error *err);
int remote_fork(void *engine, const struct tn_subject *s, const char *name,
                const struct tn_subject *child, struct tn_place *place, int64_t deadline,
                struct tn_error *err);
int remote_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err);

/* Opens the way to the service and learns its dialect. */
struct remote *remote_open(const struct tn_host *host, int64_t deadline, struct tn_error *err);
void remote_close(struct remote *r);

#endif

/* The e2b backend: sandboxes of E2B, or of whoever serves its API.  What its files share.
 *
 * Two planes: the control plane (control.c) makes sandboxes and tells of them; envd (envd.c), the
 * agent in each, has files and processes.  The hand is put in through envd, and then reached by the
 * name that the platform gives its port. */
#ifndef TN_RUNTIME_CLOUD_E2B_E2B_H
#define TN_RUNTIME_CLOUD_E2B_E2B_H

#include "net/frame.h"
#include "runtime/cloud/cloud.h"

#define E2B_DEBUG_ID "debug_sandbox_id"

/* An engine. */
struct e2b {
    struct cloud cloud; /* first: it is what cloud's functions are given */
    char *api;          /* of the control plane */
    char *sandbox_url;  /* one address for all sandboxes, or NULL */
    char *domain;
    struct tn_web *agents; /* at sandbox_url; NULL: each sandbox has its own */
    bool debug, public_ports;
};

static inline const struct e2b *e2b_of(const struct cloud *c)
{
    return (const struct e2b *)c;
}

/* --- control.c -------------------------------------------------------------------------------- */

int e2b_make(const struct cloud *c, const struct tn_subject *s, struct cloud_view *out,
             int64_t deadline, struct tn_error *err);
int e2b_look(const struct cloud *c, const char *id, struct cloud_view *out, int64_t deadline,
             struct tn_error *err);
int e2b_each(const struct cloud *c, const char *id, cloud_found_fn fn, void *ctx, int64_t deadline,
             struct tn_error *err);
int e2b_order(const struct cloud *c, const char *id, enum tn_goal goal, int64_t deadline,
              struct tn_error *err);
int e2b_extend(const struct cloud *c, const char *id, double seconds, int64_t deadline,
               struct tn_error *err);
int e2b_usage(const struct cloud *c, const char *id, struct tn_usage *out, int64_t deadline,
              struct tn_error *err);
/* What an answer says of one sandbox; hostile until it was read.  -1: nothing that makes sense. */
int e2b_read(const struct cloud *c, const struct tn_json *tree, struct cloud_view *out,
             struct tn_error *err);

/* --- envd.c ----------------------------------------------------------------------------------- */

char *e2b_address(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                  struct tn_error *err);
/* "http(s)://PORT-ID.DOMAIN". */
char *e2b_port_url(const struct e2b *e, const struct cloud_view *v, int port);
int e2b_put(const struct cloud *c, struct cloud_view *v, const char *user, const char *path,
            const void *bytes, size_t n, int64_t deadline, struct tn_error *err);
int e2b_run(const struct cloud *c, struct cloud_view *v, const struct cloud_run *run, int *status,
            int64_t deadline, struct tn_error *err);

/* The stream of a process, fed with what comes; hostile. */
struct e2b_events {
    struct tn_frame_reader frames;
    tn_log_fn out;
    void *ctx;
    bool stopped;  /* out had enough */
    bool exited;   /* status is set */
    bool ended;    /* the stream has said that it is over */
    int status;    /* as a shell would say */
    char *problem; /* what went wrong, in the words of envd; or NULL */
};
void e2b_events_init(struct e2b_events *e, tn_log_fn out, void *ctx);
void e2b_events_done(struct e2b_events *e);
/* Non-zero: no more of it. */
int e2b_events_feed(const void *bytes, size_t n, void *ctx);

#endif

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
    char *sandbox_url;  /* one address for all sandboxes, or NULL */
    char *domain;
    struct tn_web *agents; /* at sandbox_url; NULL: each sandbox has its own */
};

static inline const struct e2b *e2b_of(const struct cloud *c)
{
    return (const struct e2b *)c;
}

/* --- control.c -------------------------------------------------------------------------------- */

cloud_make_fn e2b_make;
cloud_look_fn e2b_look;
cloud_each_fn e2b_each;
cloud_order_fn e2b_order;
cloud_extend_fn e2b_extend;
cloud_usage_fn e2b_usage;
extern const struct cloud_works e2b_works;
cloud_read_fn e2b_read;

/* --- envd.c ----------------------------------------------------------------------------------- */

cloud_address_fn e2b_address;
cloud_port_fn e2b_port; /* "http(s)://PORT-ID.DOMAIN" */
cloud_put_fn e2b_put;
cloud_run_fn e2b_run;

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

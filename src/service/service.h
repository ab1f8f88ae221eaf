/* The sandbox service: sandboxes for many, over HTTP.
 *
 * One process.  What it knows is in the store; memory holds only what can be rebuilt from there and
 * from the backends, so a killed service starts again as if nothing had been.  A request enters
 * through the gate (who asks?), is routed to one file per surface (api-*.c), which speaks of boxes
 * (box.h); everything below knows nothing of HTTP. */
#ifndef TN_SERVICE_SERVICE_H
#define TN_SERVICE_SERVICE_H

#include "runtime/sandbox.h"

struct tn_service;

/* [service] of the configuration, and flags of `tendon serve`. */
struct tn_service_options {
    struct tn_str_list listen;  /* "127.0.0.1:7171", "[::1]:7171", "unix:PATH" */
    char *tls_cert, *tls_key;   /* PEM files; both or none */
    bool insecure;              /* may listen beyond loopback without TLS */
    char *url;                  /* how clients reach it, without a final slash; NULL: derived */
    struct tn_str_list hosts;   /* further Host names that are ours */
    struct tn_str_list origins; /* web pages of others that may call it */
    char *preview_domain;       /* "localhost": PORT-ID.localhost */

    int64_t max_sandboxes;       /* that run at a time; over it the oldest is paused */
    int64_t max_starts;          /* creations at a time; the rest waits in line; 0: by cores */
    double start_seconds;        /* for a sandbox to start, time in line included */
    double idle_pause_seconds;   /* unused for so long: paused; 0: never */
    double idle_stop_seconds;    /* unused for so long: stopped; 0: never */
    double ttl_seconds;          /* whatever it does, it is deleted after so long; 0: never */
    char *disk_reserve;          /* no sandbox starts with less than this left ("1g") */
    bool pause_old_sandboxes;    /* at the limit: pause the oldest instead of refusing */
    double drain_seconds;        /* for requests under way when it is asked to stop */
    bool stop_sandboxes;         /* a graceful stop stops them; else they are handed over */
    bool resume_on_use;          /* an action on a paused sandbox wakes it */
};
extern const struct tn_fields tn_service_fields;

/* Opens everything, finds every sandbox again, and listens.  rt and options outlive it. */
struct tn_service *tn_service_start(struct tn_runtime *rt, const struct tn_service_options *options,
                                    struct tn_error *err);
/* The address that a person can open: "http://127.0.0.1:7171". */
const char *tn_service_url(const struct tn_service *s);
/* Ends it gracefully, within drain_seconds + 5; then frees it. */
void tn_service_stop(struct tn_service *s);

#endif

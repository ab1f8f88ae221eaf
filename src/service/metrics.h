/* Numbers for Prometheus: counters and histograms, one const table of what there is. */
#ifndef TN_SERVICE_METRICS_H
#define TN_SERVICE_METRICS_H

#include <stdint.h>

#include "base/buf.h"

struct tn_service;
struct metrics;

enum metric {
    METRIC_REQUESTS,        /* counter; label: status class "2xx" */
    METRIC_REQUEST_SECONDS, /* histogram */
    METRIC_ACTIONS,         /* counter; label: kind of action */
    METRIC_ACTION_SECONDS,
    METRIC_STARTS, /* counter; label: "cold", "warm", "failed" */
    METRIC_START_SECONDS,
    METRIC_QUEUE_SECONDS,
    METRIC_DENIED,        /* counter */
    METRIC_PROXIED_BYTES, /* counter */
    METRIC_KEPT,          /* counter; label: "idle_pause", "idle_stop", "ttl", "timeout", ... */
    METRIC_COUNT
};

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);
/* label as the comment above says (one that is not known counts as "other"), or NULL. */
void metric_add(struct metrics *m, enum metric which, const char *label, uint64_t n);
void metric_seconds(struct metrics *m, enum metric which, double seconds);
/* The page of /metrics, text format 0.0.4; gauges (boxes by state, queue, pools, memory) are read
 * from the service. */
void metrics_write(struct tn_service *s, struct tn_buf *out);
/* The part of it that is not read from elsewhere. */
void metrics_write_counters(const struct metrics *m, struct tn_buf *out);

/* A line with HELP and one with TYPE; then samples.  label (or NULL) is escaped here. */
void metric_head(struct tn_buf *out, const char *name, const char *type, const char *help);
void metric_sample(struct tn_buf *out, const char *name, const char *label, const char *value,
                   double number);

#endif

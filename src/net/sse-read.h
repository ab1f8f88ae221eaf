/* Server-sent events as a client reads them: a pure parser over pieces of the stream. */
#ifndef TN_NET_SSE_READ_H
#define TN_NET_SSE_READ_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_sse_reader {
    struct tn_buf line;   /* what has come of the current one */
    struct tn_buf event;  /* its name so far, "" for none */
    struct tn_buf data;   /* its data so far, lines joined by '\n' */
    bool carriage_return; /* the last byte was one: a '\n' now belongs to it */
    struct tn_buf id;     /* of the last event that was complete, for resuming; "" for none */
    struct tn_buf next;   /* the id of the current one */
    int64_t retry;        /* milliseconds to wait before connecting anew; -1: not told */
};

/* The longest line and the longest event that are accepted. */
void tn_sse_reader_init(struct tn_sse_reader *r, size_t max);
void tn_sse_reader_done(struct tn_sse_reader *r);
/* Forgets half an event, but not the last id: for a new connection. */
void tn_sse_reader_reset(struct tn_sse_reader *r);

/* An event; both strings end with NUL and are borrowed.  Non-zero stops. */
typedef int (*tn_sse_event_fn)(const char *event, const char *data, size_t n, void *ctx);

/* Takes the next n bytes and calls fn for each event they complete; comments are skipped.  r->id is
 * that of the event when fn is called.  0, what fn returned, or -1 with err when a line or an event
 * is too long. */
int tn_sse_read(struct tn_sse_reader *r, const char *bytes, size_t n, tn_sse_event_fn fn, void *ctx,
                struct tn_error *err);

#endif

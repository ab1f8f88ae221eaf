/* The event stream of a session: what happens is numbered, stripped of secrets, journaled, and told
 * to whoever has subscribed.
 *
 * Nothing is told that is not in the journal.  A subscriber has a thread of its own, which reads
 * the journal: it gets every event, in order, at its own pace, however slow it is, without holding
 * up anybody and without a queue that could overflow.  Events that other processes add to the same
 * journal are told too, at the latest when this process adds its next one. */
#ifndef TN_EVENT_STREAM_H
#define TN_EVENT_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "event/mask.h"
#include "event/observation.h"

struct tn_stream;

enum tn_source {
    TN_SOURCE_AGENT,
    TN_SOURCE_USER,
    TN_SOURCE_ENVIRONMENT,
};
extern const char *const tn_source_words[]; /* "agent", ...; ends with NULL */

enum tn_subscriber {
    TN_SUBSCRIBER_AGENT_CONTROLLER,
    TN_SUBSCRIBER_OPENHANDS_RESOLVER,
    TN_SUBSCRIBER_SERVER,
    TN_SUBSCRIBER_RUNTIME,
    TN_SUBSCRIBER_MEMORY,
    TN_SUBSCRIBER_MAIN,
    TN_SUBSCRIBER_TEST,
};
extern const char *const tn_subscriber_words[];

struct tn_stream_options {
    const char *directory; /* of the session; made (0700) when missing */
    bool sync;             /* an event is on the disk before it counts: see event/journal.h */
    bool existing;         /* a directory that is missing is not made */
    bool log_only;         /* do not keep a copy in OpenHands' layout (events/, event_cache/) */
};

struct tn_stream *tn_stream_open(const struct tn_stream_options *options, struct tn_error *err);
/* Ends all subscriptions (callbacks at work are waited for, the rest is not told) and completes the
 * copy in OpenHands' layout, unless that takes longer than two seconds: then the next one does. */
void tn_stream_close(struct tn_stream *s);

/* --- adding; from any thread ------------------------------------------------------------------ */

/* The event must not have an id yet (TN_E_CONFLICT).  It gets the next id, the local time and the
 * source; cause and everything else are the event's own.  id may be NULL.  After an error nothing
 * was added. */
int tn_stream_add_action(struct tn_stream *s, const struct tn_action *action, enum tn_source source,
                         int64_t *id, struct tn_error *err);
/* `cause` is the id of the action that it answers; -1: as the observation says. */
int tn_stream_add_observation(struct tn_stream *s, const struct tn_observation *observation,
                              enum tn_source source, int64_t cause, int64_t *id,
                              struct tn_error *err);

/* Secrets that events added from now on do not show; see event/mask.h. */
int tn_stream_set_secrets(struct tn_stream *s, const struct tn_secret *secrets, size_t count,
                          struct tn_error *err);
int tn_stream_update_secrets(struct tn_stream *s, const struct tn_secret *secrets, size_t count,
                             struct tn_error *err);
/* Appends text to out as events show it; -1 when out is full. */
int tn_stream_hide(struct tn_stream *s, const char *text, struct tn_buf *out);

/* The id of the last event that this process knows of; -1 when there is none. */
int64_t tn_stream_last_id(struct tn_stream *s);

/* --- being told ------------------------------------------------------------------------------- */

/* An event without its secrets; borrowed for the call. */
struct tn_stream_event {
    int64_t id;
    enum tn_event_kind kind;
    const struct tn_json *tree; /* for tn_action_from_json, tn_observation_from_json */
    const char *json;           /* the same as text */
    size_t len;
};

/* Runs on the subscriber's thread (256 KiB of stack).  Non-zero ends the subscription, which is
 * then only to be unsubscribed.  May add events; must not unsubscribe itself or close the stream.
 */
typedef int (*tn_stream_fn)(const struct tn_stream_event *event, void *ctx);

/* From the event `from` on; -1: only those that come.  TN_E_CONFLICT when that subscriber has a
 * callback of this name. */
int tn_stream_subscribe(struct tn_stream *s, enum tn_subscriber who, const char *callback_id,
                        int64_t from, tn_stream_fn fn, void *ctx, struct tn_error *err);
/* When it returns, the callback has returned and is not called again.  TN_E_NOT_FOUND. */
int tn_stream_unsubscribe(struct tn_stream *s, enum tn_subscriber who, const char *callback_id,
                          struct tn_error *err);
/* Waits until all subscribers have been told everything added before this call; -1: TN_E_TIMEOUT.
 */
int tn_stream_flush(struct tn_stream *s, int64_t deadline, struct tn_error *err);

#endif

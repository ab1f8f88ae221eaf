/* What actions and observations have in common: the envelope around them.
 *
 * Only the action, its args and its timeout matter to a hand; the envelope is the host's.  It is
 * kept as it came so that journals and proxies lose nothing, and a strange value in it is never an
 * error: it is ignored. */
#ifndef TN_EVENT_EVENT_H
#define TN_EVENT_EVENT_H

#include "base/field.h"

struct tn_event {
    struct tn_opt_int id;
    char *timestamp;         /* ISO 8601, as the host wrote it */
    char *source;            /* "agent", "user" or "environment" */
    struct tn_opt_int cause; /* id of the event this one answers */
    char *idempotency_key;   /* that the action was sent with */
    struct tn_opt_int start; /* of the sandbox that it was sent to: how often it was restarted */
    char *digest;            /* of type and arguments, beside a key */
    struct tn_json *verdict; /* of the analyzers that judged the action */
    struct tn_json *tool_call_metadata;
    struct tn_json *llm_metrics;
};

enum tn_event_kind {
    TN_EVENT_NONE, /* no event at all */
    TN_EVENT_ACTION,
    TN_EVENT_OBSERVATION,
};

/* Which of the two a JSON value is; one that has both keys is an action. */
enum tn_event_kind tn_event_kind(const struct tn_json *json);

/* Appends, as Markdown, a page about every action and observation: docs/actions.md. */
void tn_event_describe(struct tn_buf *out);

#endif

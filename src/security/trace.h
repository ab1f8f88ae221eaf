/* Actions and observations as analyzers of others want to see them. */
#ifndef TN_SECURITY_TRACE_H
#define TN_SECURITY_TRACE_H

#include "security/analyzer.h"

/* The largest action that is shown to anybody. */
enum { SECURITY_SHOWN_MAX = 512 << 10 };

/* The action as a tree, for the caller to free; NULL with err when it is too large. */
struct tn_json *security_action_tree(const struct tn_action *a, struct tn_error *err);
/* Its arguments without those that say nothing about what it does: what the agent thought, how it
 * rates itself, whether it is confirmed. */
void security_put_args(const struct tn_json *action, struct tn_jw *w);

/* How messages are written. */
enum security_trace_form {
    SECURITY_TRACE_OPENAI,    /* messages of a chat; calls of tools in those of the assistant */
    SECURITY_TRACE_INVARIANT, /* calls of tools as elements of their own */
};

struct security_trace {
    enum security_trace_form form;
    struct tn_jw *w; /* in an array */
    int calls;       /* of tools, so far: they are numbered */
};

/* Appends what becomes of the last `most` events of the history (NULL: none). */
void security_trace_history(struct security_trace *t, const struct tn_history *history,
                            size_t most);
/* Appends what becomes of one event. */
void security_trace_event(struct security_trace *t, const struct tn_json *event);

#endif

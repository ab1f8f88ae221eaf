/* An analyzer: judges an action before it is carried out.
 *
 * As a backend is, it is one const table of functions.  Those that are built in stand in one array
 * (judge.c); programs tendon-analyzer-NAME of others are reached through the same table. */
#ifndef TN_SECURITY_ANALYZER_H
#define TN_SECURITY_ANALYZER_H

#include "security/settings.h"

/* What happened before in the same sandbox, newest last: events as the journal has them, actions
 * {"action": ..., "args": ...} and observations {"observation": ..., "content": ...}.  Read by
 * several threads at once: nobody takes a reference. */
struct tn_history {
    struct tn_json *const *events;
    size_t count;
};

/* Where names lead in the sandbox at this moment (tn_hand_client_links); NULL with err,
 * TN_E_UNSUPPORTED: nobody can be asked. */
typedef struct tn_json *(*tn_lead_fn)(void *ctx, const char *const *names, size_t count,
                                      int64_t deadline, struct tn_error *err);

struct tn_case {
    const struct tn_action *action;
    const char *cwd;                        /* of the shell; NULL: not known */
    const struct tn_history *history;       /* NULL: none is known */
    const struct tn_thresholds *thresholds; /* of whoever asks; NULL: those of the settings */
    tn_lead_fn lead;                        /* NULL: nobody is asked; of the caller's thread */
    void *lead_ctx;
};

struct tn_analyzer {
    const char *name, *about;
    /* Whether it asks somebody else and may take long: several such run at the same time, after
     * those that do not.  NULL: never. */
    bool (*slow)(const void *self);
    /* How many events of the history it looks at. */
    size_t history;
    /* Takes what it needs out of the settings.  NULL with err when it could never judge. */
    void *(*open)(const struct tn_security_settings *s, struct tn_error *err);
    void (*close)(void *self);
    /* Adds its findings to out; none means low.  -1 with err when it cannot tell, which is a
     * finding of unknown risk: whatever it has added is kept.  Any thread; returns by the
     * deadline. */
    int (*judge)(void *self, const struct tn_case *c, int64_t deadline, struct tn_verdict *out,
                 struct tn_error *err);
};

extern const struct tn_analyzer tn_analyzer_llm, tn_analyzer_invariant, tn_analyzer_grayswan,
    tn_analyzer_policy;

/* For those that always ask somebody else. */
bool tn_analyzer_is_slow(const void *self);

#endif
